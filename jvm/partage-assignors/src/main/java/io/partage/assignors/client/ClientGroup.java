package io.partage.assignors.client;

import io.partage.assignors.core.GroupProblem;
import io.partage.assignors.core.MemberOrder;
import io.partage.assignors.core.RackSets;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * A group as its leader sees it, in canonical order: members by instance id, then by member id; topics
 * of the metadata by name.
 */
final class ClientGroup {
    final MemberOrder[] members;
    final Subscription[] subscriptions;
    /** Names of the subscribed topics that the metadata have, and their numbers of partitions. */
    final String[] topics;
    final int[] counts;
    /** Subscription of each member, numbered from 0 by first occurrence. */
    final int[] subscription;
    /** Topics of each subscription, ascending. */
    final int[][] topicsOf;
    final int[] firstRow;

    private final Cluster metadata;
    private final Map<String, Integer> position = new HashMap<>();

    ClientGroup(Cluster metadata, Map<String, Subscription> sent) {
        this.metadata = metadata;
        members = sent.entrySet().stream()
            .map(one -> new MemberOrder(one.getKey(), one.getValue().groupInstanceId().orElse(null)))
            .sorted().toArray(MemberOrder[]::new);
        subscriptions = Stream.of(members).map(one -> sent.get(one.id)).toArray(Subscription[]::new);
        Set<String> names = new TreeSet<>();
        for (Subscription one : subscriptions) {
            names.addAll(one.topics());
        }
        topics = names.stream().filter(name -> count(name) > 0).toArray(String[]::new);
        counts = new int[topics.length];
        for (int t = 0; t < topics.length; t++) {
            position.put(topics[t], t);
            counts[t] = count(topics[t]);
        }
        firstRow = GroupProblem.firstRows(counts);
        subscription = new int[members.length];
        Map<IntBuffer, Integer> met = new HashMap<>();
        for (int m = 0; m < members.length; m++) {
            int[] row = subscriptions[m].topics().stream().filter(position::containsKey)
                .mapToInt(position::get).distinct().sorted().toArray();
            Integer before = met.putIfAbsent(IntBuffer.wrap(row), met.size());
            subscription[m] = before == null ? met.size() - 1 : before;
        }
        topicsOf = new int[met.size()][];
        met.forEach((row, number) -> topicsOf[number] = row.array());
    }

    private int count(String topic) {
        Integer known = metadata.partitionCountForTopic(topic);
        return known == null ? 0 : known;
    }

    /** Returns whether a claim names a partition that its topic does not have. */
    boolean isFalse(TopicPartition claim) {
        int count = count(claim.topic());
        return count > 0 && (claim.partition() < 0 || claim.partition() >= count);
    }

    /** Returns the row of a partition; -1 if it does not exist or nobody subscribes to its topic. */
    int row(TopicPartition partition) {
        Integer topic = position.get(partition.topic());
        boolean exists = topic != null && partition.partition() >= 0 && partition.partition() < counts[topic];
        return exists ? firstRow[topic] + partition.partition() : -1;
    }

    TopicPartition partition(int row) {
        int topic = Arrays.binarySearch(firstRow, row);
        if (topic < 0) {
            topic = -topic - 2;
        }
        // Topics without partitions are not listed, so that no two topics have the same first row.
        return new TopicPartition(topics[topic], row - firstRow[topic]);
    }

    /** Returns the racks of the members, null if none has one. */
    String[] racksOfMembers() {
        String[] racks = new String[members.length];
        boolean any = false;
        for (int m = 0; m < racks.length; m++) {
            racks[m] = subscriptions[m].rackId().filter(rack -> !rack.isEmpty()).orElse(null);
            any |= racks[m] != null;
        }
        return any ? racks : null;
    }

    /** Returns the known racks of each row's replicas. */
    RackSets racksOfRows() {
        Map<Integer, String> rackOf = new HashMap<>();
        for (Node node : metadata.nodes()) {
            rackOf.put(node.id(), node.rack());
        }
        RackSets racks = new RackSets(firstRow[topics.length]);
        for (int t = 0; t < topics.length; t++) {
            for (PartitionInfo info : metadata.partitionsForTopic(topics[t])) {
                Set<String> names = new HashSet<>();
                for (Node node : info.replicas()) {
                    names.add(rackOf.get(node.id()));
                }
                names.remove(null);
                if (info.partition() < counts[t]) {
                    racks.put(firstRow[t] + info.partition(), names);
                }
            }
        }
        return racks;
    }

    /**
     * Returns the assignment of each member.
     *
     * @param order rows in the order in which members list them
     * @param owner the place of each row's owner, -1 for none
     * @param userData the user data of a member's assignment, null for none
     */
    GroupAssignment assignment(int[] order, int[] owner, Function<MemberOrder, ByteBuffer> userData) {
        List<List<TopicPartition>> lists = new ArrayList<>();
        for (int m = 0; m < members.length; m++) {
            lists.add(new ArrayList<>());
        }
        for (int row : order) {
            if (owner[row] >= 0) {
                lists.get(owner[row]).add(partition(row));
            }
        }
        Map<String, Assignment> out = new HashMap<>();
        for (int m = 0; m < members.length; m++) {
            out.put(members[m].id, new Assignment(lists.get(m), userData.apply(members[m])));
        }
        return new GroupAssignment(out);
    }
}
