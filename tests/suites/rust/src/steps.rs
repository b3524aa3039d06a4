//! The steps, in the order in which they run. Stream `probe` has the topic `events` throughout.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use iggy::prelude::*;

use crate::{Outcome, expect, expect_refused, log_in};

const ROOT: (&str, &str) = ("iggy", "iggy");
const PARTITIONS: u32 = 4;
const SECOND_STREAM: &str = "probe-two";

fn id(name: &str) -> Identifier {
    Identifier::named(name).expect("names here are short")
}

fn stream() -> Identifier {
    id("probe")
}

fn topic() -> Identifier {
    id("events")
}

fn messages(texts: &[&str]) -> Vec<IggyMessage> {
    let message = |text: &&str| IggyMessage::from_str(text).expect("texts here are short");
    texts.iter().map(message).collect()
}

fn texts(polled: &PolledMessages) -> Vec<String> {
    let text = |message: &IggyMessage| String::from_utf8_lossy(&message.payload).into_owned();
    polled.messages.iter().map(text).collect()
}

async fn poll_from(
    client: &IggyClient,
    consumer: &Consumer,
    strategy: PollingStrategy,
    auto_commit: bool,
) -> Result<PolledMessages, IggyError> {
    client.poll_messages(&stream(), &topic(), Some(0), consumer, &strategy, 2, auto_commit).await
}

pub async fn login(client: &IggyClient) -> Outcome {
    client.ping().await?;
    expect_refused(client.get_streams().await, IggyError::Unauthenticated)?;
    let identity = client.login_user(ROOT.0, ROOT.1).await?;
    expect(identity.user_id == 0, format!("root has id {}", identity.user_id))
}

pub async fn wrong_password(address: &str) -> Outcome {
    let refused = log_in(address, ROOT.0, "not-the-password").await;
    expect_refused(refused, IggyError::InvalidCredentials)
}

pub async fn create(client: &IggyClient) -> Outcome {
    let made = client.create_stream("probe").await?;
    expect(made.name == "probe", format!("the stream is named {}", made.name))?;
    let options = TopicCreateOptions {
        partitions_count: Some(PARTITIONS),
        message_expiry: Some(IggyExpiry::ExpireDuration(IggyDuration::new_from_secs(3600))),
        segment_size: Some(IggyByteSize::from(128 << 20)),
        durability: Durability::Persisted,
        ..Default::default()
    };
    let made = client.create_topic(&stream(), "events", &options).await?;
    let found = client.get_topic(&stream(), &topic()).await?.ok_or("the topic is gone")?;
    expect(found.id == made.id && found.name == "events", "another topic came back")?;
    expect(found.message_expiry == options.message_expiry.unwrap(), "another expiry came back")?;
    let partitions: Vec<u32> = found.partitions.iter().map(|one| one.id).collect();
    expect(partitions == [0, 1, 2, 3], format!("partitions {partitions:?}"))?;
    let listed = client.get_topics(&stream()).await?;
    expect(listed.len() == 1 && listed[0].name == "events", "the list has other topics")?;
    let stream = client.get_stream(&stream()).await?.ok_or("the stream is gone")?;
    expect(stream.topics_count == 1, format!("{} topics in the stream", stream.topics_count))
}

pub async fn create_twice(client: &IggyClient) -> Outcome {
    let again = client.create_stream("probe").await;
    expect_refused(again, IggyError::StreamNameAlreadyExists(String::new()))?;
    let missing = client.get_stream(&id("missing")).await?;
    expect(missing.is_none(), "a stream that nobody made")
}

pub async fn update(client: &IggyClient) -> Outcome {
    client.create_stream(SECOND_STREAM).await?;
    client.update_stream(&id(SECOND_STREAM), "renamed", &StreamUpdateOptions::default()).await?;
    expect(client.get_stream(&id("renamed")).await?.is_some(), "the new name is not there")?;
    client.delete_stream(&id("renamed")).await?;
    let options =
        TopicUpdateOptions { message_expiry: Some(IggyExpiry::NeverExpire), ..Default::default() };
    client.update_topic(&stream(), &topic(), "events", &options).await?;
    let found = client.get_topic(&stream(), &topic()).await?.ok_or("the topic is gone")?;
    expect(found.message_expiry == IggyExpiry::NeverExpire, "the expiry did not change")
}

pub async fn describe_options(client: &IggyClient) -> Outcome {
    let known = client.describe_options(OptionsScope::Topic).await?;
    let keys: BTreeSet<&str> = known.iter().map(|one| one.key.as_str()).collect();
    for key in ["durability", "message_expiry", "max_topic_size", "segment_size"] {
        expect(keys.contains(key), format!("{key} is not among {keys:?}"))?;
    }
    Ok(())
}

pub async fn send(client: &IggyClient) -> Outcome {
    let mut headers = BTreeMap::new();
    headers.insert(HeaderKey::try_from("kind")?, HeaderValue::try_from("probe")?);
    headers.insert(HeaderKey::try_from("number")?, HeaderValue::from(7_u64));
    let mut batch = messages(&["one", "two"]);
    let third =
        IggyMessage::builder().id(3).payload("three".into()).user_headers(headers).build()?;
    batch.push(third);
    let zero = Partitioning::partition_id(0);
    let sent = client.send_messages(&stream(), &topic(), &zero, &mut batch).await?;
    let confirmed: Vec<(u32, u64)> =
        sent.confirmations.iter().map(|one| (one.partition_id, one.base_offset)).collect();
    expect(confirmed == [(0, 0)], format!("confirmed as {confirmed:?}"))?;
    let mut more = messages(&["four"]);
    let sent = client.send_messages(&stream(), &topic(), &zero, &mut more).await?;
    expect(sent.confirmations[0].base_offset == 3, "the second batch does not follow the first")
}

pub async fn send_by_key_and_in_turn(client: &IggyClient) -> Outcome {
    client.create_stream("probe-keys").await?;
    let keys = id("probe-keys");
    let options = TopicCreateOptions { partitions_count: Some(PARTITIONS), ..Default::default() };
    client.create_topic(&keys, "events", &options).await?;
    let by_key = Partitioning::messages_key_str("customer-17")?;
    let mut used = BTreeSet::new();
    for text in ["a", "b", "c"] {
        let sent = client.send_messages(&keys, &topic(), &by_key, &mut messages(&[text])).await?;
        used.insert(sent.confirmations[0].partition_id);
    }
    expect(used.len() == 1, format!("one key went to the partitions {used:?}"))?;
    let in_turn = Partitioning::balanced();
    for text in ["a", "b", "c", "d", "e"] {
        let sent = client.send_messages(&keys, &topic(), &in_turn, &mut messages(&[text])).await?;
        used.insert(sent.confirmations[0].partition_id);
    }
    expect(used.len() == PARTITIONS as usize, format!("only the partitions {used:?} were used"))?;
    client.delete_stream(&keys).await?;
    Ok(())
}

pub async fn poll(client: &IggyClient) -> Outcome {
    let reader = Consumer::new(id("reader"));
    let first = poll_from(client, &reader, PollingStrategy::first(), false).await?;
    expect(texts(&first) == ["one", "two"], format!("first: {:?}", texts(&first)))?;
    expect(first.current_offset == 3, format!("the newest is {}", first.current_offset))?;
    let second = poll_from(client, &reader, PollingStrategy::offset(2), false).await?;
    expect(texts(&second) == ["three", "four"], format!("offset 2: {:?}", texts(&second)))?;
    let three = &second.messages[0];
    expect(three.header.id == 3 && three.header.offset == 2, "another id or offset")?;
    let headers = three.user_headers_map()?.ok_or("no user headers")?;
    let kind = headers.get(&HeaderKey::try_from("kind")?).ok_or("a header is missing")?;
    expect(kind.as_str()? == "probe", "a header has another value")?;
    expect(headers.len() == 2, format!("{} headers", headers.len()))?;
    let last = poll_from(client, &reader, PollingStrategy::last(), false).await?;
    expect(texts(&last) == ["three", "four"], format!("last: {:?}", texts(&last)))
}

pub async fn poll_by_time(client: &IggyClient) -> Outcome {
    let reader = Consumer::new(id("reader"));
    let all = poll_from(client, &reader, PollingStrategy::offset(3), false).await?;
    let then = IggyTimestamp::from(all.messages[0].header.timestamp);
    let found = poll_from(client, &reader, PollingStrategy::timestamp(then), false).await?;
    expect(texts(&found) == ["four"], format!("at its time: {:?}", texts(&found)))?;
    let later = IggyTimestamp::from(then.as_micros() + 3_600_000_000);
    let found = poll_from(client, &reader, PollingStrategy::timestamp(later), false).await?;
    expect(found.messages.is_empty(), format!("an hour later: {:?}", texts(&found)))
}

pub async fn poll_next(client: &IggyClient) -> Outcome {
    let reader = Consumer::new(id("reader-next"));
    let next = PollingStrategy::next();
    for wanted in [vec!["one", "two"], vec!["three", "four"], vec![]] {
        let found = poll_from(client, &reader, next, true).await?;
        expect(texts(&found) == wanted, format!("{:?}, not {wanted:?}", texts(&found)))?;
    }
    Ok(())
}

pub async fn offsets(client: &IggyClient) -> Outcome {
    let reader = Consumer::new(id("reader-offsets"));
    let (stream, topic) = (stream(), topic());
    let none = client.get_consumer_offset(&reader, &stream, &topic, Some(0)).await?;
    expect(none.is_none(), "an offset that nobody stored")?;
    client.store_consumer_offset(&reader, &stream, &topic, Some(0), 1).await?;
    let stored = client.get_consumer_offset(&reader, &stream, &topic, Some(0)).await?;
    let stored = stored.ok_or("the stored offset is gone")?;
    let found = (stored.partition_id, stored.current_offset, stored.stored_offset);
    expect(found == (0, 3, 1), format!("partition, newest, stored: {found:?}"))?;
    client.delete_consumer_offset(&reader, &stream, &topic, Some(0)).await?;
    let none = client.get_consumer_offset(&reader, &stream, &topic, Some(0)).await?;
    expect(none.is_none(), "a deleted offset came back")
}

pub async fn groups(client: &IggyClient) -> Outcome {
    let (stream, topic, group) = (stream(), topic(), id("workers"));
    client.create_consumer_group(&stream, &topic, "workers").await?;
    client.join_consumer_group(&stream, &topic, &group).await?;
    let found = client.get_consumer_group(&stream, &topic, &group).await?.ok_or("no group")?;
    expect(found.members_count == 1, format!("{} members", found.members_count))?;
    expect(found.members[0].partitions_count == PARTITIONS, "the only member lacks partitions")?;
    let me = client.get_me().await?;
    expect(me.consumer_groups_count == 1, format!("{} groups", me.consumer_groups_count))?;
    let consumer = Consumer::group(group.clone());
    let mut seen = Vec::new();
    for _ in 0..2 * PARTITIONS {
        let next = PollingStrategy::next();
        let polled =
            client.poll_messages(&stream, &topic, None, &consumer, &next, 10, true).await?;
        seen.extend(texts(&polled));
    }
    expect(seen == ["one", "two", "three", "four"], format!("the group read {seen:?}"))?;
    let stored = client.get_consumer_offset(&consumer, &stream, &topic, Some(0)).await?;
    expect(stored.is_some_and(|one| one.stored_offset == 3), "the group's offset is not stored")?;
    client.leave_consumer_group(&stream, &topic, &group).await?;
    let found = client.get_consumer_group(&stream, &topic, &group).await?.ok_or("no group")?;
    expect(found.members_count == 0, format!("{} members after leaving", found.members_count))?;
    client.delete_consumer_group(&stream, &topic, &group).await?;
    let gone = client.get_consumer_group(&stream, &topic, &group).await?;
    expect(gone.is_none(), "the deleted group is there")
}

pub async fn group_of_two(client: &IggyClient, address: &str) -> Outcome {
    let (stream, topic, group) = (stream(), topic(), id("pair"));
    client.create_consumer_group(&stream, &topic, "pair").await?;
    client.join_consumer_group(&stream, &topic, &group).await?;
    let other = log_in(address, ROOT.0, ROOT.1).await?;
    other.join_consumer_group(&stream, &topic, &group).await?;
    let found = client.get_consumer_group(&stream, &topic, &group).await?.ok_or("no group")?;
    let owned: Vec<u32> = found.members.iter().map(|one| one.partitions_count).collect();
    expect(owned == [2, 2], format!("the members own {owned:?} partitions"))?;
    other.disconnect().await?;
    // The broker notices the end of the connection in its own time; the step's limit ends this.
    loop {
        let found = client.get_consumer_group(&stream, &topic, &group).await?.ok_or("no group")?;
        if found.members_count == 1 && found.members[0].partitions_count == PARTITIONS {
            break;
        }
        tokio::task::yield_now().await;
    }
    client.delete_consumer_group(&stream, &topic, &group).await?;
    Ok(())
}

pub async fn users(client: &IggyClient) -> Outcome {
    let made = client.create_user("ada", "secret-of-ada", UserStatus::Active, None).await?;
    let ada = Identifier::numeric(made.id)?;
    expect(made.id != 0, "a user has root's id")?;
    let again = client.create_user("ada", "secret-of-ada", UserStatus::Active, None).await;
    expect_refused(again, IggyError::UserAlreadyExists)?;
    let names: Vec<String> =
        client.get_users().await?.into_iter().map(|one| one.username).collect();
    expect(names == ["iggy", "ada"], format!("the users are {names:?}"))?;
    let inactive = Some(UserStatus::Inactive);
    client.update_user(&ada, Some("lovelace"), inactive, &UserUpdateOptions::default()).await?;
    let found = client.get_user(&ada).await?.ok_or("the user is gone")?;
    expect(found.username == "lovelace", format!("the user is named {}", found.username))?;
    expect(found.status == UserStatus::Inactive, "the user is still active")?;
    client.delete_user(&ada).await?;
    expect(client.get_user(&ada).await?.is_none(), "the deleted user is there")
}

pub async fn users_who_log_in(client: &IggyClient, address: &str) -> Outcome {
    let bob = id("bob");
    client.create_user("bob", "secret-of-bob", UserStatus::Active, None).await?;
    log_in(address, "bob", "secret-of-bob").await?.disconnect().await?;
    client.change_password(&bob, "secret-of-bob", "new-secret").await?;
    let refused = log_in(address, "bob", "secret-of-bob").await;
    expect_refused(refused, IggyError::InvalidCredentials)?;
    log_in(address, "bob", "new-secret").await?.disconnect().await?;
    client.delete_user(&bob).await?;
    let refused = log_in(address, "bob", "new-secret").await;
    expect_refused(refused, IggyError::InvalidCredentials)
}

pub async fn permissions(client: &IggyClient, address: &str) -> Outcome {
    let carol = id("carol");
    let reader = Permissions {
        global: GlobalPermissions { read_streams: true, ..Default::default() },
        streams: None,
    };
    client
        .create_user("carol", "secret-of-carol", UserStatus::Active, Some(reader.clone()))
        .await?;
    let found = client.get_user(&carol).await?.ok_or("the user is gone")?;
    expect(found.permissions == Some(reader), "other permissions came back")?;
    let theirs = log_in(address, "carol", "secret-of-carol").await?;
    expect(!theirs.get_streams().await?.is_empty(), "a reader sees no stream")?;
    expect_refused(theirs.create_stream("carols").await, IggyError::Unauthorized)?;
    let mut more = GlobalPermissions { manage_streams: true, ..Default::default() };
    more.read_streams = true;
    let permissions = Permissions { global: more, streams: None };
    client.update_permissions(&carol, Some(permissions)).await?;
    theirs.create_stream("carols").await?;
    theirs.delete_stream(&id("carols")).await?;
    client.update_permissions(&carol, None).await?;
    expect_refused(theirs.get_streams().await, IggyError::Unauthorized)?;
    theirs.disconnect().await?;
    client.delete_user(&carol).await?;
    Ok(())
}

pub async fn tokens(client: &IggyClient) -> Outcome {
    let hour = IggyExpiry::ExpireDuration(IggyDuration::new_from_secs(3600));
    let made = client.create_personal_access_token("hourly", hour).await?;
    expect(!made.token.is_empty(), "an empty token")?;
    client.create_personal_access_token("endless", IggyExpiry::NeverExpire).await?;
    let listed = client.get_personal_access_tokens().await?;
    let expiring: BTreeMap<&str, bool> =
        listed.iter().map(|one| (one.name.as_str(), one.expiry_at.is_some())).collect();
    let wanted = BTreeMap::from([("endless", false), ("hourly", true)]);
    expect(expiring == wanted, format!("tokens that expire: {expiring:?}"))?;
    client.delete_personal_access_token("hourly").await?;
    client.delete_personal_access_token("endless").await?;
    expect(client.get_personal_access_tokens().await?.is_empty(), "a deleted token is listed")
}

pub async fn tokens_that_log_in(client: &IggyClient, address: &str) -> Outcome {
    let token = client.create_personal_access_token("login", IggyExpiry::NeverExpire).await?.token;
    let other = crate::connect(address).await?;
    let identity = other.login_with_personal_access_token(&token).await?;
    expect(identity.user_id == 0, format!("root's token logs in {}", identity.user_id))?;
    expect(!other.get_streams().await?.is_empty(), "no stream with a token")?;
    other.disconnect().await?;
    client.delete_personal_access_token("login").await?;
    let late = crate::connect(address).await?;
    let refused = late.login_with_personal_access_token(&token).await;
    expect(refused.is_err(), "a deleted token logs in")
}

pub async fn stats(client: &IggyClient) -> Outcome {
    let stats = client.get_stats().await?;
    let counts = (stats.streams_count, stats.topics_count, stats.partitions_count);
    expect(counts == (1, 1, PARTITIONS), format!("streams, topics, partitions: {counts:?}"))?;
    expect(stats.messages_count == 4, format!("{} messages", stats.messages_count))?;
    expect(stats.clients_count >= 1, "no client is counted")?;
    expect(stats.process_id != 0 && stats.memory_usage.as_bytes_u64() > 0, "no process figures")
}

pub async fn clients(client: &IggyClient) -> Outcome {
    let me = client.get_me().await?;
    expect(me.user_id == Some(0), format!("I am user {:?}", me.user_id))?;
    let listed = client.get_clients().await?;
    expect(listed.iter().any(|one| one.client_id == me.client_id), "I am not listed")?;
    let found = client.get_client(me.client_id).await?.ok_or("I am not found")?;
    expect(found.address == me.address, format!("{} and {}", found.address, me.address))
}

pub async fn cluster_metadata(client: &IggyClient) -> Outcome {
    let nodes = client.get_cluster_metadata().await?.nodes;
    expect(nodes.len() == 1, format!("{} nodes", nodes.len()))
}

pub async fn partitions(client: &IggyClient) -> Outcome {
    let count = async || -> Result<u32, Box<dyn std::error::Error>> {
        let found = client.get_topic(&stream(), &topic()).await?.ok_or("the topic is gone")?;
        Ok(found.partitions_count)
    };
    client.create_partitions(&stream(), &topic(), 2).await?;
    expect(count().await? == PARTITIONS + 2, "two more are not there")?;
    client.delete_partitions(&stream(), &topic(), 2).await?;
    expect(count().await? == PARTITIONS, "two fewer are not there")
}

pub async fn segments(client: &IggyClient) -> Outcome {
    client.delete_segments(&stream(), &topic(), 0, 1).await?;
    let reader = Consumer::new(id("reader"));
    // The only segment is the active one, which stays.
    let found = poll_from(client, &reader, PollingStrategy::first(), false).await?;
    expect(found.current_offset == 3, format!("the newest is {}", found.current_offset))
}

pub async fn flush(client: &IggyClient) -> Outcome {
    let refused = client.flush_unsaved_buffer(&stream(), &topic(), 0, true).await;
    expect_refused(refused, IggyError::FeatureUnavailable)
}

pub async fn purge(client: &IggyClient) -> Outcome {
    client.purge_topic(&stream(), &topic()).await?;
    let found = client.get_topic(&stream(), &topic()).await?.ok_or("the topic is gone")?;
    expect(found.messages_count == 0, format!("{} messages", found.messages_count))?;
    client.purge_stream(&stream()).await?;
    Ok(())
}

pub async fn snapshot(client: &IggyClient) -> Outcome {
    let kinds = vec![SystemSnapshotType::ServerConfig];
    let made = client.snapshot(SnapshotCompression::Deflated, kinds).await?;
    expect(made.0.starts_with(b"PK"), "the snapshot is not a ZIP archive")
}

pub async fn delete(client: &IggyClient) -> Outcome {
    client.delete_topic(&stream(), &topic()).await?;
    expect(client.get_topic(&stream(), &topic()).await?.is_none(), "the topic is there")?;
    client.delete_stream(&stream()).await?;
    expect(client.get_streams().await?.is_empty(), "a stream is left")
}

pub async fn logout(client: &IggyClient) -> Outcome {
    client.logout_user().await?;
    expect_refused(client.get_streams().await, IggyError::Unauthenticated)
}
