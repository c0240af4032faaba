package io.partage.assignors.core;

import io.partage.assignors.core.FlowNetwork.Arcs;
import io.partage.assignors.core.Ints.IntList;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * The most even (least-majorised) loads, by recursive minimum cuts.
 *
 * <p>Each member gets room for k partitions (k is the average, rounded down). If the flow fills all
 * members, each gets k or k + 1. Otherwise the topics that find no room and their subscribers are a
 * subproblem with loads of at least k, and the rest is one with loads of at most k.
 */
final class EvenLoads {
    /** Rounds of the proportional first flow; the exact search places the rest. */
    private static final int ROUNDS = 2;
    /** Offset of each row's rounding, in 1024ths (the golden ratio). */
    private static final int GOLDEN = 633;

    /** Partitions of each place. */
    final long[] load;
    /** Partitions that go from each topic class to each member class, by eligible pair. */
    final long[] share;

    private final SubscriptionClasses classes;
    private final WorkBudget budget;
    private final long[] total;

    /** One part of the problem: some topic classes, some member classes, and their eligible pairs. */
    private static final class Part {
        final int[] topics;
        final int[] members;
        final int[] arcs;

        Part(int[] topics, int[] members, int[] arcs) {
            this.topics = topics;
            this.members = members;
            this.arcs = arcs;
        }
    }

    EvenLoads(SubscriptionClasses classes, WorkBudget budget) {
        if (classes.arcTopic.length > FlowNetwork.LARGEST) {
            throw new WorkLimitException("the best loads need a network of " + classes.arcTopic.length
                + " arcs, the limit is " + FlowNetwork.LARGEST);
        }
        this.classes = classes;
        this.budget = budget;
        total = new long[classes.size.length];
        share = new long[classes.arcTopic.length];
        Deque<Part> parts = new ArrayDeque<>();
        parts.push(new Part(Ints.range(classes.supply.length), Ints.range(total.length), Ints.range(share.length)));
        while (!parts.isEmpty()) {
            Part part = parts.pop();
            if (part.members.length > 0) {
                solveOrSplit(part, parts);
            }
        }
        load = sharedEvenly();
    }

    /** Divides each member class's partitions evenly, the first members first. */
    private long[] sharedEvenly() {
        long[] out = new long[classes.member.length];
        int[] met = new int[total.length];
        for (int m = 0; m < out.length; m++) {
            int of = classes.member[m];
            if (of >= 0) {
                out[m] = total[of] / classes.size[of] + (met[of]++ < total[of] % classes.size[of] ? 1 : 0);
            }
        }
        return out;
    }

    private void solveOrSplit(Part part, Deque<Part> parts) {
        int topics = part.topics.length;
        int members = part.members.length;
        long supply = 0;
        for (int t : part.topics) {
            supply += classes.supply[t];
        }
        long size = 0;
        for (int c : part.members) {
            size += classes.size[c];
        }
        long k = supply / size;
        FlowNetwork network = network(part, k);
        int toSink = part.arcs.length + topics;
        network.augment();
        long filled = 0;
        for (int i = 0; i < members; i++) {
            filled += network.flow(toSink + i);
        }
        if (filled < k * size) {
            boolean[] stuck = stuck(network, part);
            parts.push(cut(part, stuck, true));
            parts.push(cut(part, stuck, false));
            return;
        }
        if (supply > k * size) {
            for (int i = 0; i < members; i++) {
                network.widen(toSink + i, classes.size[part.members[i]]);
            }
            network.augment();
        }
        boolean[] stuck = stuck(network, part);
        boolean any = false;
        for (int i = 0; i < members; i++) {
            if (!stuck[topics + i]) {
                total[part.members[i]] = network.flow(toSink + i);
            }
        }
        // The flow of stuck topics is written again with their own part.
        for (int i = 0; i < part.arcs.length; i++) {
            share[part.arcs[i]] = network.flow(i);
        }
        for (boolean one : stuck) {
            any |= one;
        }
        if (any) {
            parts.push(cut(part, stuck, true));
        }
    }

    /** Returns the network in which each member has room for k partitions, with a proportional flow. */
    private FlowNetwork network(Part part, long k) {
        int topics = part.topics.length;
        int members = part.members.length;
        int[] topicAt = new int[classes.supply.length];
        int[] memberAt = new int[classes.size.length];
        long[] supply = new long[topics];
        long[] room = new long[members];
        for (int i = 0; i < topics; i++) {
            topicAt[part.topics[i]] = i;
            supply[i] = classes.supply[part.topics[i]];
        }
        for (int i = 0; i < members; i++) {
            memberAt[part.members[i]] = i;
            room[i] = classes.size[part.members[i]] * k;
        }
        int source = topics + members;
        int sink = source + 1;
        int[] row = new int[part.arcs.length];
        int[] column = new int[part.arcs.length];
        Arcs arcs = new Arcs();
        for (int i = 0; i < row.length; i++) {
            row[i] = topicAt[classes.arcTopic[part.arcs[i]]];
            column[i] = memberAt[classes.arcMember[part.arcs[i]]];
            arcs.add(row[i], topics + column[i], FlowNetwork.UNBOUNDED, 0);
        }
        for (int i = 0; i < topics; i++) {
            arcs.add(source, i, supply[i], 0);
        }
        for (int i = 0; i < members; i++) {
            arcs.add(topics + i, sink, room[i], 0);
        }
        FlowNetwork network = new FlowNetwork(sink + 1, arcs, source, sink, new long[sink + 1], budget);
        budget.spend(2L * row.length);
        long[] amount = proportionalFlow(row, column, supply, room);
        for (int i = 0; i < row.length; i++) {
            network.push(i, amount[i]);
            network.push(row.length + row[i], amount[i]);
            network.push(row.length + topics + column[i], amount[i]);
        }
        return network;
    }

    /** Returns which nodes belong to the topics that find no room: these topics and all they reach. */
    private static boolean[] stuck(FlowNetwork network, Part part) {
        IntList unplaced = new IntList();
        for (int i = 0; i < part.topics.length; i++) {
            if (network.room(part.arcs.length + i) > 0) {
                unplaced.add(i);
            }
        }
        return network.reachable(unplaced.toArray());
    }

    /** Returns the stuck half of a part (the topics without room and their subscribers) or the other. */
    private Part cut(Part part, boolean[] stuck, boolean half) {
        boolean[] topicSide = new boolean[classes.supply.length];
        boolean[] memberSide = new boolean[classes.size.length];
        IntList topics = new IntList();
        IntList members = new IntList();
        IntList arcs = new IntList();
        for (int i = 0; i < part.topics.length; i++) {
            topicSide[part.topics[i]] = stuck[i];
            if (stuck[i] == half) {
                topics.add(part.topics[i]);
            }
        }
        for (int i = 0; i < part.members.length; i++) {
            memberSide[part.members[i]] = stuck[part.topics.length + i];
            if (memberSide[part.members[i]] == half) {
                members.add(part.members[i]);
            }
        }
        for (int arc : part.arcs) {
            if (topicSide[classes.arcTopic[arc]] == half && memberSide[classes.arcMember[arc]] == half) {
                arcs.add(arc);
            }
        }
        return new Part(topics.toArray(), members.toArray(), arcs.toArray());
    }

    /** Returns a first flow that spreads each row's supply in proportion to the columns' room. */
    private static long[] proportionalFlow(int[] row, int[] column, long[] supply, long[] room) {
        long[] amount = new long[row.length];
        long[] supplyLeft = supply.clone();
        long[] roomLeft = room.clone();
        int[] first = Ints.offsets(row, supply.length);
        for (int round = 0; round < ROUNDS; round++) {
            long[] step = shares(row, column, first, supplyLeft, roomLeft);
            // Where a column has no more room, the earlier rows go first.
            long[] taken = new long[room.length];
            boolean any = false;
            for (int i = 0; i < row.length; i++) {
                long wish = step[i];
                step[i] = Math.min(wish, Math.max(roomLeft[column[i]] - taken[column[i]], 0));
                taken[column[i]] += wish;
                any |= step[i] != 0;
            }
            if (!any) {
                break;
            }
            for (int i = 0; i < row.length; i++) {
                amount[i] += step[i];
                supplyLeft[row[i]] -= step[i];
                roomLeft[column[i]] -= step[i];
            }
        }
        return amount;
    }

    /** Splits each row's supply into whole numbers, in proportion to the columns' room. */
    private static long[] shares(int[] row, int[] column, int[] first, long[] supply, long[] room) {
        long[] share = new long[row.length];
        for (int r = 0; r < supply.length; r++) {
            long all = 0;
            for (int i = first[r]; i < first[r + 1]; i++) {
                all += Math.min(room[column[i]], supply[r]);
            }
            long give = Math.min(supply[r], all);
            long offset = all * ((long) r * GOLDEN % 1024) / 1024;
            long upto = 0;
            long lower = 0;
            for (int i = first[r]; i < first[r + 1]; i++) {
                upto += Math.min(room[column[i]], supply[r]);
                long whole = (give * upto + offset) / Math.max(all, 1);
                share[i] = Math.max(whole - lower, 0);
                lower = whole;
            }
        }
        return share;
    }
}
