package io.partage.assignors.broker;

import io.partage.assignors.core.GroupProblem;
import io.partage.assignors.core.RackSets;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/**
 * A group as the coordinator describes it, in canonical order: members by instance id, then by member
 * id; topics by topic id.
 *
 * <p>Topics that the metadata do not have count as topics without partitions.
 */
final class BrokerGroup {
    final BrokerMember[] members;
    /** Partitions of each topic. */
    final int[] counts;
    /** Partitions of all topics; they are not limited to an int. */
    final long partitions;
    /** Subscription of each member, numbered from 0 by first occurrence. */
    final int[] subscription;
    /** Topics of each subscription, ascending. */
    final int[][] topicsOf;

    final GroupSpec spec;
    final Uuid[] topics;
    /** Number of each topic. */
    final Map<Uuid, Integer> position = new HashMap<>();
    private final SubscribedTopicDescriber describer;
    /** Member and row of each partition in the previous targets, null until {@link #problem} reads them. */
    private int[] claimPlace;
    private int[] claimRow;
    /** Number of partitions in each previous target; -1 if it has a topic without partitions. */
    private int[] previousSize;

    BrokerGroup(GroupSpec spec, SubscribedTopicDescriber describer) {
        this.spec = spec;
        this.describer = describer;
        members = BrokerMember.sorted(spec);
        boolean alike = spec.subscriptionType() == SubscriptionType.HOMOGENEOUS;
        subscription = new int[members.length];
        // Topics are numbered by first occurrence until all are known.
        Map<BitSet, Integer> met = new HashMap<>();
        for (int m = 0; m < (alike ? Math.min(members.length, 1) : members.length); m++) {
            BitSet wanted = new BitSet();
            for (Uuid id : members[m].subscription.subscribedTopicIds()) {
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

    /** Returns the racks of the members; null if none has one. */
    String[] racksOfMembers() {
        String[] rackOf = new String[members.length];
        boolean hasRack = false;
        for (int m = 0; m < rackOf.length; m++) {
            rackOf[m] = members[m].subscription.rackId().filter(rack -> !rack.isEmpty()).orElse(null);
            hasRack |= rackOf[m] != null;
        }
        return hasRack ? rackOf : null;
    }

    /**
     * Returns the problem of the optimal assignor.
     *
     * @param rackOf the racks of the members, null if they do not matter
     * @param racks the racks of the partitions, null if they do not matter
     */
    GroupProblem problem(String[] rackOf, RackSets racks) {
        readPreviousTargets(GroupProblem.firstRows(counts));
        return new GroupProblem(
            counts, subscription, topicsOf, claimPlace, claimRow, new int[members.length], rackOf, racks);
    }

    /** Reads the existing partitions of the previous targets. */
    private void readPreviousTargets(int[] firstRow) {
        TargetReader reader = new TargetReader(position, counts, firstRow, firstRow[topics.length]);
        previousSize = new int[members.length];
        for (int m = 0; m < members.length; m++) {
            previousSize[m] = reader.read(members[m], m);
        }
        claimPlace = Arrays.copyOf(reader.place, reader.size);
        claimRow = Arrays.copyOf(reader.row, reader.size);
    }

    /** Returns the racks of the replicas of each partition. */
    RackSets racksOfRows() {
        int[] firstRow = GroupProblem.firstRows(counts);
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
        return assignment(owner, unchangedMembers(owner));
    }

    /** Returns the assignment in which some members keep their targets; the others own the given rows. */
    GroupAssignment assignment(int[] owner, boolean[] isUnchanged) {
        int[] size = new int[members.length];
        for (int m : owner) {
            if (m >= 0) {
                size[m]++;
            }
        }
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
                isUnchanged[m] ? members[m].previous.partitions() : target(topic, number, begin[m], begin[m + 1]);
            out.put(members[m].id, () -> its);
        }
        return new GroupAssignment(out);
    }

    /** Returns whether each member's previous target is exactly what it owns now. */
    private boolean[] unchangedMembers(int[] owner) {
        boolean[] out = new boolean[members.length];
        if (previousSize == null) {
            return out;
        }
        int[] size = new int[members.length];
        for (int m : owner) {
            if (m >= 0) {
                size[m]++;
            }
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
    private TargetMap target(int[] topic, int[] number, int begin, int end) {
        int distinct = 0;
        for (int i = begin; i < end; i++) {
            distinct += i == begin || topic[i] != topic[i - 1] ? 1 : 0;
        }
        Uuid[] own = new Uuid[distinct];
        int[] first = new int[distinct + 1];
        int size = 0;
        for (int i = begin; i < end; i++) {
            if (i == begin || topic[i] != topic[i - 1]) {
                first[size] = i - begin;
                own[size++] = topics[topic[i]];
            }
        }
        first[size] = end - begin;
        return new TargetMap(own, first, Arrays.copyOfRange(number, begin, end));
    }
}
