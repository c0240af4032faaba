package io.partage.live;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Fills topics evenly, then goes on at a rate until its stdin ends; every key is new.
 *
 * <p>Arguments: bootstrap servers, then TOPIC:PARTITIONS:FIRST:PER_SECOND, the last two for each
 * partition. It prints "filled" when the first records are written.
 */
public final class Feed {
    private record Topic(String name, int partitions, int first, int perSecond) {
        static Topic of(String told) {
            String[] parts = told.split(":");
            return new Topic(parts[0], Integer.parseInt(parts[1]), Integer.parseInt(parts[2]),
                Integer.parseInt(parts[3]));
        }
    }

    private final KafkaProducer<byte[], byte[]> producer;
    private final AtomicReference<Exception> failed = new AtomicReference<>();
    private long sent;

    private Feed(String bootstrap) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("linger.ms", "20");
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        producer = new KafkaProducer<>(properties);
    }

    public static void main(String[] args) throws Exception {
        endWithStdin();
        Feed feed = new Feed(args[0]);
        Topic[] topics = new Topic[args.length - 1];
        for (int i = 1; i < args.length; i++) {
            topics[i - 1] = Topic.of(args[i]);
            feed.send(topics[i - 1], topics[i - 1].first());
        }
        feed.flush();
        System.out.println("filled");
        long began = System.nanoTime();
        long[] given = new long[topics.length];
        while (true) {
            double seconds = (System.nanoTime() - began) / 1e9;
            for (int i = 0; i < topics.length; i++) {
                long due = (long) (seconds * topics[i].perSecond());
                feed.send(topics[i], due - given[i]);
                given[i] = due;
            }
            feed.flush();
            Thread.sleep(100);
        }
    }

    private void send(Topic topic, long each) {
        for (long i = 0; i < each; i++) {
            for (int partition = 0; partition < topic.partitions(); partition++) {
                byte[] key = ("key-" + sent++).getBytes(StandardCharsets.UTF_8);
                producer.send(new ProducerRecord<>(topic.name(), partition, key, key), (metadata, error) -> {
                    if (error != null) {
                        failed.set(error);
                    }
                });
            }
        }
    }

    private void flush() throws Exception {
        producer.flush();
        if (failed.get() != null) {
            throw failed.get();
        }
    }

    /** Nothing is ever written to stdin; a read answers when the other side is gone. */
    private static void endWithStdin() {
        Thread reader = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (IOException gone) {
                // As good as its end.
            }
            System.exit(0);
        });
        reader.setDaemon(true);
        reader.start();
    }
}
