//! A round trip of the official Rust client, of the version that it is built with.
//!
//! What to do comes in the environment. It logs in, creates, sends, reads as a group, stores
//! offsets, prints what it saw as one line of JSON, waits for a line, and deletes.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::stdin;
use std::str::FromStr;

use iggy::prelude::*;

type Outcome<T> = Result<T, Box<dyn Error>>;

const BATCH: u32 = 500;

/// What was read of one partition: FNV-1a of the payloads tells the order.
struct Seen {
    count: u64,
    first: u64,
    last: u64,
    digest: u64,
}

impl Seen {
    fn add(&mut self, offset: u64, payload: &[u8]) {
        if self.count == 0 {
            self.first = offset;
        }
        self.count += 1;
        self.last = offset;
        for byte in payload {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

impl Default for Seen {
    fn default() -> Self {
        Seen { count: 0, first: 0, last: 0, digest: 0xcbf2_9ce4_8422_2325 }
    }
}

struct Job {
    stream: Identifier,
    topic: Identifier,
    group: Identifier,
    partitions: u32,
    keys: u32,
    per_key: u32,
}

fn said(name: &str) -> Outcome<String> {
    std::env::var(name).map_err(|_| format!("{name} is not in the environment").into())
}

fn connection() -> Outcome<String> {
    let transport = said("TRANSPORT")?;
    let (kind, is_tls) = match transport.split_once('+') {
        Some((kind, _)) => (kind, true),
        None => (transport.as_str(), false),
    };
    let scheme = if kind == "websocket" { "ws" } else { kind };
    let (user, password, address) = (said("USERNAME")?, said("PASSWORD")?, said("ADDRESS")?);
    let options = if is_tls {
        format!("?tls=true&tls_domain=localhost&tls_ca_file={}", said("CA_FILE")?)
    } else {
        String::new()
    };
    Ok(format!("iggy+{scheme}://{user}:{password}@{address}{options}"))
}

async fn create(client: &IggyClient, job: &Job) -> Outcome<()> {
    let (stream, topic) = (said("STREAM")?, said("TOPIC")?);
    #[cfg(feature = "v010")]
    {
        let size = MaxTopicSize::ServerDefault;
        client.create_stream(&stream).await?;
        client
            .create_topic(
                &job.stream,
                &topic,
                job.partitions,
                CompressionAlgorithm::None,
                None,
                IggyExpiry::NeverExpire,
                size,
            )
            .await?;
    }
    #[cfg(feature = "v011")]
    client.create_stream(&stream).await?;
    #[cfg(feature = "v012")]
    client.create_stream(&stream, &StreamCreateOptions::default()).await?;
    #[cfg(not(feature = "v010"))]
    {
        let count = Some(job.partitions);
        let options = TopicCreateOptions { partitions_count: count, ..Default::default() };
        client.create_topic(&job.stream, &topic, &options).await?;
    }
    Ok(())
}

async fn send(client: &IggyClient, job: &Job) -> Outcome<()> {
    for key in 0..job.keys {
        let to = Partitioning::messages_key_str(&format!("k{key}"))?;
        let mut batch = Vec::new();
        for number in 0..job.per_key {
            batch.push(IggyMessage::from_str(&format!("k{key} {number}"))?);
        }
        client.send_messages(&job.stream, &job.topic, &to, &mut batch).await?;
    }
    Ok(())
}

/// The next messages of a partition, which count as read.
async fn poll(
    client: &IggyClient,
    job: &Job,
    partition: u32,
    consumer: &Consumer,
) -> Outcome<PolledMessages> {
    let next = PollingStrategy::next();
    #[cfg(not(feature = "v012"))]
    let polled = {
        // A member of a group is given one of its partitions.
        let at = Some(partition).filter(|_| consumer.kind == ConsumerKind::Consumer);
        client.poll_messages(&job.stream, &job.topic, at, consumer, &next, BATCH, true).await?
    };
    #[cfg(feature = "v012")]
    let polled = {
        let commit = CommitPolicy::OnRead;
        let options = PollOptions { count: BATCH, commit, ..Default::default() };
        client.poll_messages(&job.stream, &job.topic, partition, consumer, &next, options).await?
    };
    Ok(polled)
}

async fn read(client: &IggyClient, job: &Job, consumer: &Consumer) -> Outcome<BTreeMap<u32, Seen>> {
    let mut seen: BTreeMap<u32, Seen> = BTreeMap::new();
    let mut left = u64::from(job.keys) * u64::from(job.per_key);
    let mut partition = 0;
    while left > 0 {
        let polled = poll(client, job, partition % job.partitions, consumer).await?;
        partition += 1;
        let one = seen.entry(polled.partition_id).or_default();
        for message in &polled.messages {
            one.add(message.header.offset, &message.payload);
            left -= 1;
        }
    }
    Ok(seen)
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let number = |name: &str| -> Outcome<u32> { Ok(said(name)?.parse()?) };
    let job = Job {
        stream: Identifier::named(&said("STREAM")?)?,
        topic: Identifier::named(&said("TOPIC")?)?,
        group: Identifier::named(&said("GROUP")?)?,
        partitions: number("PARTITIONS")?,
        keys: number("KEYS")?,
        per_key: number("PER_KEY")?,
    };
    let client = IggyClient::from_connection_string(&connection()?)?;
    client.connect().await?;
    client.login_user(&said("USERNAME")?, &said("PASSWORD")?).await?;
    create(&client, &job).await?;
    send(&client, &job).await?;
    // HTTP has no members of groups.
    let is_http = said("TRANSPORT")? == "http";
    let consumer = if is_http {
        Consumer::new(job.group.clone())
    } else {
        client.create_consumer_group(&job.stream, &job.topic, &said("GROUP")?).await?;
        client.join_consumer_group(&job.stream, &job.topic, &job.group).await?;
        Consumer::group(job.group.clone())
    };
    let seen = read(&client, &job, &consumer).await?;
    let mut read_parts = Vec::new();
    let mut stored_parts = Vec::new();
    for (id, one) in &seen {
        let (stream, topic, at) = (&job.stream, &job.topic, Some(*id));
        client.store_consumer_offset(&consumer, stream, topic, at, one.last).await?;
        let stored = client.get_consumer_offset(&consumer, stream, topic, at).await?;
        let stored = stored.ok_or("a stored offset is gone")?.stored_offset;
        stored_parts.push(format!("\"{id}\": {stored}"));
        let Seen { count, first, last, digest } = one;
        read_parts.push(format!(
            "\"{id}\": {{\"count\": {count}, \"first\": {first}, \"last\": {last}, \
             \"digest\": {digest}}}"
        ));
    }
    let lacks = if is_http { "\"group\"" } else { "" };
    println!(
        "{{\"read\": {{{}}}, \"stored\": {{{}}}, \"lacks\": [{lacks}]}}",
        read_parts.join(", "),
        stored_parts.join(", "),
    );
    stdin().read_line(&mut String::new())?;
    client.delete_stream(&job.stream).await?;
    Ok(())
}
