package io.partage.live;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StandbyUpdateListener;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.DefaultKafkaClientSupplier;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * One instance of a real Streams application, as the truth for the simulation: what its leader saw
 * and decided goes line by line to a file (LeaderLog). It says that it is ready, starts with a line
 * on its stdin, and ends with it; one that shall crash is killed.
 *
 * <p>Arguments: log file, milliseconds to wait after every restored batch, then settings KEY=VALUE.
 * The topology: sub-topology 0 counts what is in "lines" (store "words"), 1 passes on "ticks"
 * without state, 2 gives the records of "moves" another key, and 3 counts those (store "places").
 */
public final class StreamsInstance {
    private StreamsInstance() {
    }

    public static void main(String[] args) throws Exception {
        LeaderLog.open(args[0]);
        long pause = Long.parseLong(args[1]);
        Properties settings = new Properties();
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        settings.put("internal.task.assignor.class", LeaderLog.Clients.class.getName());
        for (int i = 2; i < args.length; i++) {
            String[] both = args[i].split("=", 2);
            settings.put(both[0], both[1]);
        }
        Topology topology = topology();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.out.println("ready");
        if (in.readLine() == null) {
            return;
        }
        KafkaStreams streams = new KafkaStreams(topology, new StreamsConfig(settings), new Logging());
        streams.setGlobalStateRestoreListener(new Slowly(pause));
        streams.setStandbyUpdateListener(new Slowly(pause));
        streams.setStateListener((now, before) -> System.out.println(now));
        streams.start();
        while (in.readLine() != null) {
            // Nothing more is said, only the end counts.
        }
        streams.close(Duration.ofSeconds(20));
    }

    private static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("lines").groupByKey().count(store("words"));
        builder.<String, String>stream("ticks").mapValues(value -> value + "!").to("out");
        builder.<String, String>stream("moves").selectKey((key, value) -> value).groupByKey().count(store("places"));
        return builder.build();
    }

    /** Without a cache every record in is one record in the changelog. */
    private static Materialized<String, Long, KeyValueStore<Bytes, byte[]>> store(String name) {
        return Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(name).withCachingDisabled();
    }

    /** Consumers whose leader writes down what it is told and what it answers. */
    private static final class Logging extends DefaultKafkaClientSupplier {
        @Override
        public Consumer<byte[], byte[]> getConsumer(Map<String, Object> config) {
            Map<String, Object> changed = new HashMap<>(config);
            changed.put(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG, LeaderLog.Members.class.getName());
            return super.getConsumer(changed);
        }
    }

    /** A pause after every batch makes restoring as slow as one likes. */
    private record Slowly(long pause) implements StateRestoreListener, StandbyUpdateListener {
        private void rest() {
            try {
                Thread.sleep(pause);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        public void onRestoreStart(TopicPartition changelog, String store, long from, long to) {
        }

        @Override
        public void onBatchRestored(TopicPartition changelog, String store, long to, long count) {
            rest();
        }

        @Override
        public void onRestoreEnd(TopicPartition changelog, String store, long count) {
        }

        @Override
        public void onUpdateStart(TopicPartition changelog, String store, long from) {
        }

        @Override
        public void onBatchLoaded(TopicPartition changelog, String store, TaskId task, long to, long size, long end) {
            rest();
        }

        @Override
        public void onUpdateSuspended(TopicPartition changelog, String store, long to, long end, SuspendReason why) {
        }
    }
}
