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
        subscription = new int[members.length];
        // Topics are numbered by first occurrence until all are known.
        int[][] occurrences = spec.subscriptionType() == SubscriptionType.HOMOGENEOUS
            ? topicsOfAll() : distinctSubscriptions();
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
        topicsOf = occurrences;
        for (int[] wanted : topicsOf) {
            for (int i = 0; i < wanted.length; i++) {
                wanted[i] = sorted[wanted[i]];
            }
            Arrays.sort(wanted);
        }
    }

    /** Numbers the topics of the only subscription; returns that subscription if there are members. */
    private int[][] topicsOfAll() {
        if (members.length == 0) {
            return new int[0][];
        }
        for (Uuid id : members[0].subscription.subscribedTopicIds()) {
            position.putIfAbsent(id, position.size());
        }
        int[] wanted = new int[position.size()];
        for (int t = 0; t < wanted.length; t++) {
            wanted[t] = t;
        }
        return new int[][] {wanted};
    }

    /** Numbers topics and subscriptions by first occurrence; returns the topics of each subscription. */
    private int[][] distinctSubscriptions() {
        Map<BitSet, Integer> met = new HashMap<>();
        for (int m = 0; m < members.length; m++) {
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
        int[][] out = new int[met.size()][];
        met.forEach((wanted, number) -> out[number] = wanted.stream().toArray());
        return out;
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
        int[] topic = new int[owner.length];
        int[] number = new int[owner.length];
        for (int t = 0, row = 0; t < topics.length; t++) {
            for (int p = 0; p < counts[t]; p++, row++) {
                topic[row] = t;
                number[row] = p;
            }
        }
        return assignment(topic, number, owner, unchangedMembers(owner));
    }

    /**
     * Returns the assignment in which some members keep their targets; the others own the given partitions.
     *
     * @param topic the topic of each partition, ascending
     * @param number the number of each partition in its topic, ascending
     * @param owner the member of each partition, -1 for none
     */
    GroupAssignment assignment(int[] topic, int[] number, int[] owner, boolean[] isUnchanged) {
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
        int[] ownTopic = new int[begin[members.length]];
        int[] ownNumber = new int[ownTopic.length];
        for (int i = 0; i < owner.length; i++) {
            int m = owner[i];
            if (m >= 0 && !isUnchanged[m]) {
                ownTopic[next[m]] = topic[i];
                ownNumber[next[m]++] = number[i];
            }
        }
        Map<String, MemberAssignment> out = new HashMap<>(members.length * 4 / 3 + 1);
        for (int m = 0; m < members.length; m++) {
            Map<Uuid, Set<Integer>> its = isUnchanged[m]
                ? members[m].previous.partitions() : target(ownTopic, ownNumber, begin[m], begin[m + 1]);
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
        PartitionSet[] partitions = new PartitionSet[distinct];
        int[] numbers = Arrays.copyOfRange(number, begin, end);
        for (int first = begin, size = 0; first < end; size++) {
            int last = first + 1;
            while (last < end && topic[last] == topic[first]) {
                last++;
            }
            own[size] = topics[topic[first]];
            partitions[size] = new PartitionSet(numbers, first - begin, last - begin);
            first = last;
        }
        return new TargetMap(own, partitions);
    }
}
