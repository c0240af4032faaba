package io.partage.parity;

import java.io.DataInputStream;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;

/**
 * How long Kafka's own serde takes for records of classic groups, from arrays of bytes to objects.
 *
 * <p>Arguments: a file, rounds. The file has for each record the sizes (int32) and bytes of key and
 * value. Prints one JSON line: for each way the thread's CPU nanoseconds of the best round; "serde"
 * leaves members' payloads as bytes, "payloads" reads subscriptions and assignments too.
 */
public final class GroupTimings {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();
    private static long seen;

    private GroupTimings() {
    }

    public static void main(String[] args) throws IOException {
        List<byte[][]> records = records(Path.of(args[0]));
        int rounds = Integer.parseInt(args[1]);
        long serde = best(records, rounds, false);
        long payloads = best(records, rounds, true);
        System.out.printf(
            "{\"records\": %d, \"serde\": %d, \"payloads\": %d, \"seen\": %d}%n",
            records.size(), serde, payloads, seen);
    }

    private static List<byte[][]> records(Path file) throws IOException {
        List<byte[][]> found = new ArrayList<>();
        try (DataInputStream in = new DataInputStream(Files.newInputStream(file))) {
            ByteBuffer all = ByteBuffer.wrap(in.readAllBytes());
            while (all.hasRemaining()) {
                byte[][] pair = new byte[2][];
                for (int i = 0; i < 2; i++) {
                    pair[i] = new byte[all.getInt()];
                    all.get(pair[i]);
                }
                found.add(pair);
            }
        }
        return found;
    }

    private static long best(List<byte[][]> records, int rounds, boolean payloads) {
        long best = Long.MAX_VALUE;
        for (int round = 0; round < rounds; round++) {
            long before = THREADS.getCurrentThreadCpuTime();
            for (byte[][] pair : records) {
                CoordinatorRecord record = SERDE.deserialize(ByteBuffer.wrap(pair[0]), ByteBuffer.wrap(pair[1]));
                GroupMetadataValue value = (GroupMetadataValue) record.value().message();
                seen += value.members().size();
                if (payloads) {
                    read(value);
                }
            }
            best = Math.min(best, THREADS.getCurrentThreadCpuTime() - before);
        }
        return best;
    }

    private static void read(GroupMetadataValue value) {
        for (GroupMetadataValue.MemberMetadata member : value.members()) {
            seen += ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(member.subscription())).topics().size();
            seen += ConsumerProtocol.deserializeAssignment(ByteBuffer.wrap(member.assignment())).partitions().size();
        }
    }
}
