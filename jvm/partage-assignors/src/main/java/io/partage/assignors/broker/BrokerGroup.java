package io.partage.assignors.broker;

import io.partage.assignors.core.GroupProblem;
import io.partage.assignors.core.MemberOrder;
import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/**
 * A group as the coordinator describes it, in canonical order: members by instance id, then by member
 * id; topics by topic id.
 *
 * <p>Topics that the metadata do not have count as topics without partitions.
 */
final class BrokerGroup {
    final MemberOrder[] members;
    /** Partitions of each topic. */
    final int[] counts;
    /** Subscription of each member, numbered from 0 by first occurrence. */
    final int[] subscription;
    /** Topics of each subscription, ascending. */
    final int[][] topicsOf;

    private final GroupSpec spec;
    private final SubscribedTopicDescriber describer;
    private final Uuid[] topics;
    private final int[] firstRow;
    private final Map<Uuid, Integer> position = new HashMap<>();

    BrokerGroup(GroupSpec spec, SubscribedTopicDescriber describer) {
        this.spec = spec;
        this.describer = describer;
        members = spec.memberIds().stream()
            .map(id -> new MemberOrder(id, spec.memberSubscription(id).instanceId().orElse(null)))
            .sorted().toArray(MemberOrder[]::new);
        boolean alike = spec.subscriptionType() == SubscriptionType.HOMOGENEOUS;
        Set<Uuid> subscribed = new HashSet<>();
        for (int m = 0; m < (alike ? Math.min(members.length, 1) : members.length); m++) {
            subscribed.addAll(subscriptionOf(m).subscribedTopicIds());
        }
        topics = subscribed.toArray(new Uuid[0]);
        Arrays.sort(topics);
        counts = new int[topics.length];
        for (int t = 0; t < topics.length; t++) {
            position.put(topics[t], t);
            counts[t] = Math.max(describer.numPartitions(topics[t]), 0);
        }
        firstRow = GroupProblem.firstRows(counts);
        subscription = new int[members.length];
        Map<IntBuffer, Integer> met = new HashMap<>();
        for (int m = 0; m < members.length && !(alike && m > 0); m++) {
            int[] row = topicsOfMember(m);
            Integer before = met.putIfAbsent(IntBuffer.wrap(row), met.size());
            subscription[m] = before == null ? met.size() - 1 : before;
        }
        topicsOf = new int[met.size()][];
        met.forEach((row, number) -> topicsOf[number] = row.array());
    }

    /** Returns a member's topics. Kafka's set counts topics that do not exist, so that a stream of it fails. */
    private int[] topicsOfMember(int member) {
        int[] row = new int[topics.length];
        int size = 0;
        for (Uuid id : subscriptionOf(member).subscribedTopicIds()) {
            row[size++] = position.get(id);
        }
        row = Arrays.copyOf(row, size);
        Arrays.sort(row);
        return row;
    }

    MemberSubscription subscriptionOf(int member) {
        return spec.memberSubscription(members[member].id);
    }

    /**
     * Returns the problem of the optimal assignor.
     *
     * @param useRacks whether rack mismatches count; they do only if a member has a rack
     */
    GroupProblem problem(boolean useRacks) {
        int[] place = new int[16];
        int[] row = new int[16];
        int size = 0;
        for (int m = 0; m < members.length; m++) {
            for (Map.Entry<Uuid, Set<Integer>> one
                    : spec.memberAssignment(members[m].id).partitions().entrySet()) {
                Integer topic = position.get(one.getKey());
                if (topic == null) {
                    continue;
                }
                for (int number : one.getValue()) {
                    if (number < 0 || number >= counts[topic]) {
                        continue;
                    }
                    if (size == place.length) {
                        place = Arrays.copyOf(place, 2 * size);
                        row = Arrays.copyOf(row, 2 * size);
                    }
                    place[size] = m;
                    row[size++] = firstRow[topic] + number;
                }
            }
        }
        String[] rackOf = new String[members.length];
        boolean hasRack = false;
        for (int m = 0; m < rackOf.length && useRacks; m++) {
            rackOf[m] = subscriptionOf(m).rackId().filter(rack -> !rack.isEmpty()).orElse(null);
            hasRack |= rackOf[m] != null;
        }
        return new GroupProblem(
            counts, subscription, topicsOf, Arrays.copyOf(place, size), Arrays.copyOf(row, size),
            new int[members.length], hasRack ? rackOf : null, hasRack ? racksOfRows() : null);
    }

    private String[][] racksOfRows() {
        String[][] racks = new String[firstRow[topics.length]][];
        for (int t = 0; t < topics.length; t++) {
            for (int number = 0; number < counts[t]; number++) {
                racks[firstRow[t] + number] = describer.racksForPartition(topics[t], number).toArray(new String[0]);
            }
        }
        return racks;
    }

    /** Returns the assignment in which each row has the given owner (-1 for none); all members have an entry. */
    GroupAssignment assignment(int[] owner) {
        Map<String, MemberAssignment> out = new HashMap<>(members.length * 4 / 3 + 1);
        @SuppressWarnings({"unchecked", "rawtypes"})
        Map<Uuid, Set<Integer>>[] partitions = new Map[members.length];
        for (int m = 0; m < members.length; m++) {
            Map<Uuid, Set<Integer>> its = new HashMap<>();
            partitions[m] = its;
            out.put(members[m].id, () -> its);
        }
        @SuppressWarnings({"unchecked", "rawtypes"})
        Set<Integer>[] current = new Set[members.length];
        for (int t = 0; t < topics.length; t++) {
            Arrays.fill(current, null);
            for (int row = firstRow[t]; row < firstRow[t + 1]; row++) {
                int m = owner[row];
                if (m < 0) {
                    continue;
                }
                if (current[m] == null) {
                    current[m] = new HashSet<>();
                    partitions[m].put(topics[t], current[m]);
                }
                current[m].add(row - firstRow[t]);
            }
        }
        return new GroupAssignment(out);
    }
}
