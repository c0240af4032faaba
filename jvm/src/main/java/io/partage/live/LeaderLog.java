package io.partage.live;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;

/**
 * What the leader of a Streams group saw and decided, one JSON value a line: of every rebalance the
 * members' subscriptions, clients with lags and what Kafka's own assignor gives them, and every
 * member's assignment. Kafka's classes do all the work, they are only listened to.
 */
public final class LeaderLog {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static PrintStream out;
    private static final ThreadLocal<ObjectNode> CURRENT = new ThreadLocal<>();

    private LeaderLog() {
    }

    static void open(String path) throws IOException {
        out = new PrintStream(path, StandardCharsets.UTF_8);
    }

    private static synchronized void write(ObjectNode line) {
        try {
            out.println(JSON.writeValueAsString(line));
            out.flush();
        } catch (IOException broken) {
            throw new UncheckedIOException(broken);
        }
    }

    /** What the leader tells the group: user data as they go over the wire. */
    public static final class Members extends StreamsPartitionAssignor {
        @Override
        public GroupAssignment assign(Cluster metadata, GroupSubscription subscriptions) {
            ObjectNode line = JSON.createObjectNode();
            CURRENT.set(line);
            line.put("began", System.currentTimeMillis());
            ObjectNode members = line.putObject("members");
            // The order in which the coordinator named them is the map's.
            for (Map.Entry<String, Subscription> one : subscriptions.groupSubscription().entrySet()) {
                ObjectNode member = members.putObject(one.getKey());
                member.put("subscription", base64(one.getValue().userData()));
                partitions(member.putArray("owned"), one.getValue().ownedPartitions());
            }
            GroupAssignment answer = super.assign(metadata, subscriptions);
            for (Map.Entry<String, Assignment> one : answer.groupAssignment().entrySet()) {
                ObjectNode member = (ObjectNode) members.get(one.getKey());
                member.put("assignment", base64(one.getValue().userData()));
                partitions(member.putArray("partitions"), one.getValue().partitions());
            }
            line.put("at", System.currentTimeMillis());
            write(line);
            return answer;
        }

        private static void partitions(ArrayNode into, List<TopicPartition> given) {
            given.forEach(one -> into.addArray().add(one.topic()).add(one.partition()));
        }

        private static String base64(ByteBuffer bytes) {
            byte[] copy = new byte[bytes.remaining()];
            bytes.duplicate().get(copy);
            return Base64.getEncoder().encodeToString(copy);
        }
    }

    /** What Kafka's assignor is given of each client, lags included, and what it gives. */
    public static final class Clients extends HighAvailabilityTaskAssignor {
        @Override
        public boolean assign(Map<ProcessId, ClientState> clients, Set<TaskId> all, Set<TaskId> stateful,
                              RackAwareTaskAssignor racks, AssignmentConfigs configs) {
            ObjectNode line = CURRENT.get();
            ObjectNode seen = line.putObject("clients");
            for (Map.Entry<ProcessId, ClientState> one : clients.entrySet()) {
                ObjectNode client = seen.putObject(one.getKey().toString());
                client.put("capacity", one.getValue().capacity());
                tasks(client.putArray("had"), one.getValue().previousActiveTasks());
                tasks(client.putArray("hadStandby"), one.getValue().previousStandbyTasks());
                ObjectNode lags = client.putObject("lags");
                one.getValue().taskLagTotals().forEach((task, lag) -> lags.put(task.toString(), lag));
            }
            boolean probing = super.assign(clients, all, stateful, racks, configs);
            line.put("probing", probing);
            for (Map.Entry<ProcessId, ClientState> one : clients.entrySet()) {
                ObjectNode client = (ObjectNode) seen.get(one.getKey().toString());
                tasks(client.putArray("active"), one.getValue().activeTasks());
                tasks(client.putArray("standby"), one.getValue().standbyTasks());
            }
            return probing;
        }

        private static void tasks(ArrayNode into, Collection<TaskId> given) {
            new TreeSet<>(given).forEach(one -> into.add(one.toString()));
        }
    }
}
