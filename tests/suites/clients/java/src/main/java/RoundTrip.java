import java.lang.reflect.Method;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.StringJoiner;
import java.util.TreeMap;
import org.apache.iggy.client.blocking.IggyBaseClient;
import org.apache.iggy.client.blocking.http.IggyHttpClient;
import org.apache.iggy.client.blocking.tcp.IggyTcpClient;
import org.apache.iggy.consumergroup.Consumer;
import org.apache.iggy.identifier.ConsumerId;
import org.apache.iggy.identifier.StreamId;
import org.apache.iggy.identifier.TopicId;
import org.apache.iggy.message.Message;
import org.apache.iggy.message.Partitioning;
import org.apache.iggy.message.PolledMessages;
import org.apache.iggy.message.PollingStrategy;
import org.apache.iggy.topic.CompressionAlgorithm;

/**
 * A round trip of the official Java client, of the version that it is built with.
 *
 * <p>What to do comes in the environment. It logs in, creates, sends, reads as a group, stores
 * offsets, prints what it saw as one line of JSON, waits for a line, and deletes.
 */
public final class RoundTrip {
    private static final long BATCH = 500;
    private static final boolean IS_HTTP = said("TRANSPORT").equals("http");
    private static final StreamId STREAM = StreamId.of(said("STREAM"));
    private static final TopicId TOPIC = TopicId.of(said("TOPIC"));
    private static final ConsumerId GROUP = ConsumerId.of(said("GROUP"));
    private static final long PARTITIONS = Long.parseLong(said("PARTITIONS"));
    private static final int KEYS = Integer.parseInt(said("KEYS"));
    private static final int PER_KEY = Integer.parseInt(said("PER_KEY"));

    /** What was read of one partition: FNV-1a of the payloads tells the order. */
    private static final class Seen {
        private long count;
        private long first;
        private long last;
        private long digest = 0xcbf29ce484222325L;

        void add(long offset, byte[] payload) {
            first = count == 0 ? offset : first;
            count++;
            last = offset;
            for (byte one : payload) {
                digest = (digest ^ (one & 0xff)) * 0x100000001b3L;
            }
        }

        String json() {
            return "{\"count\": %d, \"first\": %d, \"last\": %d, \"digest\": %s}"
                    .formatted(count, first, last, Long.toUnsignedString(digest));
        }
    }

    private static String said(String name) {
        String value = System.getenv(name);
        if (value == null) {
            throw new IllegalArgumentException(name + " is not in the environment");
        }
        return value;
    }

    private static IggyBaseClient connected() throws ReflectiveOperationException {
        String address = said("ADDRESS");
        if (IS_HTTP) {
            return new IggyHttpClient("http://" + address);
        }
        int colon = address.lastIndexOf(':');
        var builder = IggyTcpClient.builder()
                .host(address.substring(0, colon))
                .port(Integer.valueOf(address.substring(colon + 1)))
                .connectionPoolSize(1); // a member of a group is one connection
        if (said("TRANSPORT").endsWith("+tls")) {
            builder.enableTls().tlsCertificate(said("CA_FILE"));
        }
        IggyTcpClient client = builder.build();
        for (Method method : IggyTcpClient.class.getMethods()) {
            if (method.getName().equals("connect")) { // since 0.7
                method.invoke(client);
            }
        }
        return client;
    }

    private static void send(IggyBaseClient client) {
        for (int key = 0; key < KEYS; key++) {
            List<Message> batch = new ArrayList<>();
            for (int number = 0; number < PER_KEY; number++) {
                batch.add(Message.of("k" + key + " " + number));
            }
            client.messages().sendMessages(STREAM, TOPIC, Partitioning.messagesKey("k" + key), batch);
        }
    }

    private static Map<Long, Seen> read(IggyBaseClient client, Consumer consumer) {
        Map<Long, Seen> seen = new TreeMap<>();
        long left = (long) KEYS * PER_KEY;
        for (long turn = 0; left > 0; turn++) {
            // A member of a group is given one of its partitions.
            Optional<Long> at = IS_HTTP ? Optional.of(turn % PARTITIONS) : Optional.empty();
            PolledMessages polled = client.messages()
                    .pollMessages(STREAM, TOPIC, at, consumer, PollingStrategy.next(), BATCH, true);
            Seen one = seen.computeIfAbsent(polled.partitionId(), ignored -> new Seen());
            for (Message message : polled.messages()) {
                one.add(message.header().offset().longValue(), message.payload());
                left--;
            }
        }
        return seen;
    }

    public static void main(String[] arguments) {
        int code = 0;
        try {
            run();
        } catch (Exception error) {
            error.printStackTrace();
            code = 1;
        }
        System.exit(code); // the client's threads would keep the process alive
    }

    private static void run() throws Exception {
        IggyBaseClient client = connected();
        client.users().login(said("USERNAME"), said("PASSWORD"));
        client.streams().createStream(said("STREAM"));
        client.topics().createTopic(STREAM, PARTITIONS, CompressionAlgorithm.None, BigInteger.ZERO,
                BigInteger.ZERO, Optional.empty(), said("TOPIC"));
        send(client);
        Consumer consumer = Consumer.of(GROUP);
        if (!IS_HTTP) { // HTTP has no members of groups
            client.consumerGroups().createConsumerGroup(STREAM, TOPIC, said("GROUP"));
            client.consumerGroups().joinConsumerGroup(STREAM, TOPIC, GROUP);
            consumer = Consumer.group(GROUP);
        }
        StringJoiner read = new StringJoiner(", ");
        StringJoiner stored = new StringJoiner(", ");
        for (Map.Entry<Long, Seen> entry : read(client, consumer).entrySet()) {
            Optional<Long> at = Optional.of(entry.getKey());
            BigInteger last = BigInteger.valueOf(entry.getValue().last);
            client.consumerOffsets().storeConsumerOffset(STREAM, TOPIC, at, consumer, last);
            var found = client.consumerOffsets().getConsumerOffset(STREAM, TOPIC, at, consumer);
            stored.add("\"%d\": %s".formatted(entry.getKey(), found.orElseThrow().storedOffset()));
            read.add("\"%d\": %s".formatted(entry.getKey(), entry.getValue().json()));
        }
        String lacks = IS_HTTP ? "\"group\"" : "";
        System.out.printf("{\"read\": {%s}, \"stored\": {%s}, \"lacks\": [%s]}%n", read, stored, lacks);
        System.in.read();
        client.streams().deleteStream(STREAM);
    }
}
