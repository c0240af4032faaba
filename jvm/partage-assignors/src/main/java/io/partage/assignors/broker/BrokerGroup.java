package io.partage.assignors.broker;

import io.partage.assignors.core.GroupProblem;
import io.partage.assignors.core.MemberOrder;
import io.partage.assignors.core.RackSets;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.BiConsumer;
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
    /** Partitions of all topics; they are not limited to an int. */
    final long partitions;
    /** Subscription of each member, numbered from 0 by first occurrence. */
    final int[] subscription;
    /** Topics of each subscription, ascending. */
    final int[][] topicsOf;

    private final GroupSpec spec;
    private final SubscribedTopicDescriber describer;
    private final Uuid[] topics;
    private final Map<Uuid, Integer> position = new HashMap<>();
    /** Member and row of each partition in the previous targets, null until {@link #problem} reads them. */
    private int[] claimPlace;
    private int[] claimRow;
    /** Number of partitions in each previous target; -1 if it has a topic without partitions. */
    private int[] previousSize;

    BrokerGroup(GroupSpec spec, SubscribedTopicDescriber describer) {
        this.spec = spec;
        this.describer = describer;
        members = sortedMembers(spec);
        boolean alike = spec.subscriptionType() == SubscriptionType.HOMOGENEOUS;
        subscription = new int[members.length];
        // Topics are numbered by first occurrence until all are known.
        Map<BitSet, Integer> met = new HashMap<>();
        for (int m = 0; m < (alike ? Math.min(members.length, 1) : members.length); m++) {
            BitSet wanted = new BitSet();
            for (Uuid id : subscriptionOf(m).subscribedTopicIds()) {
                Integer known = position.get(id);
                if (known == null) {
                    known = position.size();
                    position.put(id, known);
                }
                wanted.set(known);
            }
            Integer before = met.putIfAbsent(wanted, met.size());
            subscription[m] = before == null ? met.size() - 1 : before;
        }
        topics = position.keySet().toArray(new Uuid[0]);
        Arrays.sort(topics);
        counts = new int[topics.length];
        int[] sorted = new int[topics.length];
        long all = 0;
        for (int t = 0; t < topics.length; t++) {
            sorted[position.put(topics[t], t)] = t;
            counts[t] = Math.max(describer.numPartitions(topics[t]), 0);
            all += counts[t];
        }
        partitions = all;
        topicsOf = new int[met.size()][];
        met.forEach((wanted, number) ->
            topicsOf[number] = wanted.stream().map(occurrence -> sorted[occurrence]).sorted().toArray());
    }

    private static MemberOrder[] sortedMembers(GroupSpec spec) {
        MemberOrder[] members = new MemberOrder[spec.memberIds().size()];
        int size = 0;
        for (String id : spec.memberIds()) {
            members[size++] = new MemberOrder(id, spec.memberSubscription(id).instanceId().orElse(null));
        }
        Arrays.sort(members);
        return members;
    }

    MemberSubscription subscriptionOf(int member) {
        return spec.memberSubscription(members[member].id);
    }

    private Map<Uuid, Set<Integer>> previousTarget(int member) {
        return spec.memberAssignment(members[member].id).partitions();
    }

    /**
     * Returns the problem of the optimal assignor.
     *
     * @param useRacks whether rack mismatches count; they do only if a member has a rack
     */
    GroupProblem problem(boolean useRacks) {
        int[] firstRow = GroupProblem.firstRows(counts);
        readPreviousTargets(firstRow);
        String[] rackOf = new String[members.length];
        boolean hasRack = false;
        for (int m = 0; m < rackOf.length && useRacks; m++) {
            rackOf[m] = subscriptionOf(m).rackId().filter(rack -> !rack.isEmpty()).orElse(null);
            hasRack |= rackOf[m] != null;
        }
        return new GroupProblem(
            counts, subscription, topicsOf, claimPlace, claimRow,
            new int[members.length], hasRack ? rackOf : null, hasRack ? racksOfRows(firstRow) : null);
    }

    /** Reads the existing partitions of the previous targets. */
    private void readPreviousTargets(int[] firstRow) {
        TargetReader reader = new TargetReader(firstRow);
        previousSize = new int[members.length];
        for (int m = 0; m < members.length; m++) {
            previousSize[m] = reader.read(m);
        }
        claimPlace = Arrays.copyOf(reader.place, reader.size);
        claimRow = Arrays.copyOf(reader.row, reader.size);
    }

    /**
     * Reads members' targets, which are maps of sets, into arrays.
     *
     * <p>Most of the time of a small change goes into these sets. {@code forEach} and {@code toArray}
     * need no iterator for each of them.
     */
    private final class TargetReader implements BiConsumer<Uuid, Set<Integer>> {
        private final int[] firstRow;
        private int[] place;
        private int[] row;
        private int size;
        private Object[] numbers = new Object[64];
        private int member;
        private int targetSize;
        private boolean hasEmptyTopic;

        TargetReader(int[] firstRow) {
            this.firstRow = firstRow;
            place = new int[firstRow[topics.length]];
            row = new int[place.length];
        }

        /** Reads a member's target; returns its size, or -1 if it has a topic without partitions. */
        int read(int number) {
            member = number;
            targetSize = 0;
            hasEmptyTopic = false;
            previousTarget(number).forEach(this);
            return hasEmptyTopic ? -1 : targetSize;
        }

        @Override
        public void accept(Uuid id, Set<Integer> set) {
            int count = set.size();
            targetSize += count;
            hasEmptyTopic |= count == 0;
            Integer topic = position.get(id);
            if (topic == null) {
                return;
            }
            if (size + count > place.length) {
                place = Arrays.copyOf(place, 2 * (size + count));
                row = Arrays.copyOf(row, place.length);
            }
            numbers = set.toArray(numbers);
            for (int i = 0; i < count; i++) {
                int number = (Integer) numbers[i];
                if (number >= 0 && number < counts[topic]) {
                    place[size] = member;
                    row[size++] = firstRow[topic] + number;
                }
            }
        }
    }

    private RackSets racksOfRows(int[] firstRow) {
        RackSets racks = new RackSets(firstRow[topics.length]);
        for (int t = 0; t < topics.length; t++) {
            for (int number = 0; number < counts[t]; number++) {
                racks.put(firstRow[t] + number, describer.racksForPartition(topics[t], number));
            }
        }
        return racks;
    }

    /**
     * Returns the assignment in which each row has the given owner (-1 for none); all members have an entry.
     *
     * <p>A member whose partitions do not change gets its previous target, the same object.
     */
    GroupAssignment assignment(int[] owner) {
        int[] size = new int[members.length];
        for (int m : owner) {
            if (m >= 0) {
                size[m]++;
            }
        }
        boolean[] isUnchanged = unchangedMembers(owner, size);
        int[] begin = new int[members.length + 1];
        for (int m = 0; m < members.length; m++) {
            begin[m + 1] = begin[m] + (isUnchanged[m] ? 0 : size[m]);
        }
        int[] next = begin.clone();
        int[] topic = new int[begin[members.length]];
        int[] number = new int[topic.length];
        for (int t = 0, row = 0; t < topics.length; t++) {
            for (int p = 0; p < counts[t]; p++, row++) {
                int m = owner[row];
                if (m >= 0 && !isUnchanged[m]) {
                    topic[next[m]] = t;
                    number[next[m]++] = p;
                }
            }
        }
        Map<String, MemberAssignment> out = new HashMap<>(members.length * 4 / 3 + 1);
        for (int m = 0; m < members.length; m++) {
            Map<Uuid, Set<Integer>> its =
                isUnchanged[m] ? previousTarget(m) : target(topic, number, begin[m], begin[m + 1]);
            out.put(members[m].id, () -> its);
        }
        return new GroupAssignment(out);
    }

    /** Returns whether each member's previous target is exactly what it owns now. */
    private boolean[] unchangedMembers(int[] owner, int[] size) {
        boolean[] out = new boolean[members.length];
        if (previousSize == null) {
            return out;
        }
        int[] stays = new int[members.length];
        for (int i = 0; i < claimRow.length; i++) {
            if (owner[claimRow[i]] == claimPlace[i]) {
                stays[claimPlace[i]]++;
            }
        }
        for (int m = 0; m < out.length; m++) {
            out[m] = stays[m] == size[m] && stays[m] == previousSize[m];
        }
        return out;
    }

    /** Returns one member's partitions by topic. They are sorted by topic, then by number. */
    private Map<Uuid, Set<Integer>> target(int[] topic, int[] number, int begin, int end) {
        int distinct = 0;
        for (int i = begin; i < end; i++) {
            distinct += i == begin || topic[i] != topic[i - 1] ? 1 : 0;
        }
        Map<Uuid, Set<Integer>> target = new HashMap<>(distinct * 4 / 3 + 1);
        int[] own = Arrays.copyOfRange(number, begin, end);
        for (int first = begin, last; first < end; first = last) {
            last = first + 1;
            while (last < end && topic[last] == topic[first]) {
                last++;
            }
            target.put(topics[topic[first]], new PartitionSet(own, first - begin, last - begin));
        }
        return target;
    }
}
