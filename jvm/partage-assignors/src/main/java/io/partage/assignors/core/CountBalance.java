package io.partage.assignors.core;

import io.partage.assignors.core.Ints.IntList;
import java.util.Arrays;

/**
 * The plan of {@code optimal} by counts: even loads, then rack mismatches, then moves, then topics.
 *
 * <p>If all partitions and all members are equivalent, a closed form gives the plan; otherwise
 * minimum-cost flows do. It makes the same choices as Partage's Python strategy {@code optimal}
 * without weights.
 */
public final class CountBalance {
    /** Units of flow whose groups take turns; sorting more would cost more than the flow. */
    private static final int MOST_INTERLEAVED = 1 << 17;

    private CountBalance() {
    }

    /**
     * Returns the place of each row's owner.
     *
     * @param mostWork most arcs that the searches of one flow network may visit; 0 for the default
     * @throws WorkLimitException if the exact plan needs more work than that, or too large a network
     */
    public static int[] assign(GroupProblem problem, long mostWork) {
        long most = mostWork > 0 ? mostWork : WorkBudget.MOST_WORK;
        if (problem.rows == 0 || problem.members == 0) {
            return problem.keeper.clone();
        }
        if (problem.isUniform()) {
            int[] owner = balanceEquivalent(problem, Ints.range(problem.members));
            return TopicSpread.spread(problem, owner, new PartitionClasses(problem));
        }
        SubscriptionClasses subscriptions = new SubscriptionClasses(problem);
        PartitionClasses classes = new PartitionClasses(problem, subscriptions);
        int[] owner;
        if (classes.topicClass.length <= 1 && classes.groups <= 1 && problem.contested.length == 0) {
            owner = balanceEquivalent(problem, membersOf(subscriptions));
        } else {
            owner = balanceByFlow(problem, subscriptions, classes, most);
        }
        return TopicSpread.spread(problem, owner, classes);
    }

    private static int[] balanceByFlow(
            GroupProblem problem, SubscriptionClasses subscriptions, PartitionClasses classes, long most) {
        EvenLoads loads = new EvenLoads(subscriptions, new WorkBudget(most));
        TransportArcs arcs = new TransportArcs(problem, subscriptions, classes);
        CheapestPlan flow = problem.racks == null && problem.ownedRows() == 0
            ? new CheapestPlan(loads)
            : new CheapestPlan(arcs, classes, loads.load, new WorkBudget(most));
        int[] owner = new int[problem.rows];
        Arrays.fill(owner, -1);
        keepPartitions(owner, arcs, flow.kept);
        assignRest(owner, arcs, classes, flow);
        return owner;
    }

    /** Leaves partitions with their keepers, as many per keep arc as the flow says, the first rows. */
    private static void keepPartitions(int[] owner, TransportArcs arcs, long[] kept) {
        if (kept.length == 0) {
            return;
        }
        long[] left = kept.clone();
        for (int row = 0; row < owner.length; row++) {
            int cell = arcs.cell[row];
            if (cell >= 0 && left[cell] > 0) {
                left[cell]--;
                owner[row] = arcs.keepMember[cell];
            }
        }
        // Contested classes: their keepers get rows in the order listed.
        if (arcs.cells == kept.length) {
            return;
        }
        int[] next = new int[arcs.supply.length];
        Arrays.fill(next, -1);
        for (int arc = arcs.cells; arc < kept.length; arc++) {
            int of = arcs.keepClass[arc];
            int row = next[of];
            for (long nth = 0; nth < kept[arc]; nth++) {
                do {
                    row++;
                } while (arcs.ofRow[row] != of);
                owner[row] = arcs.keepMember[arc];
            }
            next[of] = row;
        }
    }

    /** Assigns partitions without owner to members, as many per member group as the flow says. */
    private static void assignRest(int[] owner, TransportArcs arcs, PartitionClasses classes, CheapestPlan flow) {
        int[] pool = withoutOwner(owner);
        int[] of = new int[pool.length];
        for (int i = 0; i < pool.length; i++) {
            of[i] = arcs.ofRow[pool[i]];
        }
        pool = Ints.picked(pool, Ints.stableOrder(of, arcs.supply.length));
        int[] target = interleavedGroups(arcs, flow.free);
        pool = Ints.picked(pool, Ints.stableOrder(target, Math.max(classes.groups, 1)));
        int[] everyone = new int[classes.group.length];
        int[] group = new int[classes.group.length];
        int count = 0;
        for (int m = 0; m < everyone.length; m++) {
            if (classes.group[m] >= 0) {
                everyone[count] = m;
                group[count++] = classes.group[m];
            }
        }
        everyone = Arrays.copyOf(everyone, count);
        group = Arrays.copyOf(group, count);
        int[] order = Ints.stableOrder(group, Math.max(classes.groups, 1));
        everyone = Ints.picked(everyone, order);
        group = Ints.picked(group, order);
        // The members of a group take turns.
        int at = 0;
        for (int first = 0; first < count;) {
            int end = first;
            while (end < count && group[end] == group[first]) {
                end++;
            }
            at = takeTurns(owner, pool, at, Arrays.copyOfRange(everyone, first, end), flow.received);
            first = end;
        }
    }

    /** Gives rows of the pool from {@code at} on to members in turns, as many to each as it receives. */
    private static int takeTurns(int[] owner, int[] pool, int at, int[] members, long[] received) {
        int next = at;
        int left = members.length;
        int[] turn = members.clone();
        for (long nth = 0; left > 0; nth++) {
            int stay = 0;
            for (int i = 0; i < left; i++) {
                if (received[turn[i]] > nth) {
                    owner[pool[next++]] = turn[i];
                    turn[stay++] = turn[i];
                }
            }
            left = stay;
        }
        return next;
    }

    /** Returns the member group for each unassigned partition, class by class; groups take turns. */
    private static int[] interleavedGroups(TransportArcs arcs, long[] free) {
        int total = 0;
        int[] used = new int[arcs.supply.length];
        for (int i = 0; i < free.length; i++) {
            total += (int) free[i];
            used[arcs.freeClass[i]] += free[i] > 0 ? 1 : 0;
        }
        int[] target = new int[total];
        int mixed = 0;
        for (int i = 0, at = 0; i < free.length; i++) {
            Arrays.fill(target, at, at + (int) free[i], arcs.freeGroup[i]);
            at += (int) free[i];
            mixed += used[arcs.freeClass[i]] > 1 ? (int) free[i] : 0;
        }
        if (mixed == 0 || mixed > MOST_INTERLEAVED) {
            return target;
        }
        for (int first = 0, at = 0; first < free.length;) {
            int end = first;
            int size = 0;
            while (end < free.length && arcs.freeClass[end] == arcs.freeClass[first]) {
                size += (int) free[end++];
            }
            if (used[arcs.freeClass[first]] > 1) {
                interleave(target, at, arcs.freeGroup, free, first, end);
            }
            at += size;
            first = end;
        }
        return target;
    }

    /** Sorts one class's units of flow by their share of their arc, then by arc. */
    private static void interleave(int[] target, int at, int[] groupOf, long[] free, int first, int end) {
        // The arcs' next units, in a binary heap: a merge of their ascending turns.
        int[] heap = new int[end - first];
        double[] turn = new double[end - first];
        long[] sent = new long[end - first];
        int size = 0;
        for (int arc = first; arc < end; arc++) {
            if (free[arc] > 0) {
                turn[arc - first] = 0.5 / free[arc];
                heap[size++] = arc - first;
            }
        }
        for (int i = size / 2 - 1; i >= 0; i--) {
            sink(heap, size, i, turn);
        }
        for (int next = at; size > 0; next++) {
            int arc = heap[0];
            target[next] = groupOf[first + arc];
            if (++sent[arc] < free[first + arc]) {
                turn[arc] = (sent[arc] + 0.5) / free[first + arc];
            } else {
                heap[0] = heap[--size];
            }
            sink(heap, size, 0, turn);
        }
    }

    /** Restores the heap's order below a position: the lowest turn first, then the lowest arc. */
    private static void sink(int[] heap, int size, int from, double[] turn) {
        int parent = from;
        while (2 * parent + 1 < size) {
            int child = 2 * parent + 1;
            if (child + 1 < size && isBefore(heap[child + 1], heap[child], turn)) {
                child++;
            }
            if (!isBefore(heap[child], heap[parent], turn)) {
                return;
            }
            int arc = heap[child];
            heap[child] = heap[parent];
            heap[parent] = arc;
            parent = child;
        }
    }

    private static boolean isBefore(int arc, int other, double[] turn) {
        return turn[arc] < turn[other] || turn[arc] == turn[other] && arc < other;
    }

    /** Returns how many of the rows each place owns in that plan, given how many it owned before. */
    private static int[] quotas(int rows, int[] has, int[] place) {
        int base = rows / place.length;
        int extra = rows % place.length;
        int most = 0;
        for (int m : place) {
            most = Math.max(most, has[m]);
        }
        int[] fewer = new int[place.length];
        for (int i = 0; i < fewer.length; i++) {
            fewer[i] = most - has[place[i]];
        }
        int[] order = Ints.stableOrder(fewer, most + 1);
        int[] quota = new int[has.length];
        for (int i = 0; i < order.length; i++) {
            quota[place[order[i]]] = base + (i < extra ? 1 : 0);
        }
        return quota;
    }

    /**
     * Returns the places whose number of rows changes in a group of equivalent members and rows, where
     * each row has at most one owner.
     *
     * <p>The plan of the others is what they owned. {@link #assignPart} plans the rest.
     *
     * @param has how many rows each place owned
     */
    public static int[] changedMembers(int rows, int[] has) {
        int[] quota = quotas(rows, has, Ints.range(has.length));
        IntList changed = new IntList();
        for (int m = 0; m < has.length; m++) {
            if (has[m] != quota[m]) {
                changed.add(m);
            }
        }
        return changed.toArray();
    }

    /**
     * Returns whether {@link #assignPart} gives the plan of {@link #assign}: topics are spread by local
     * search only, which concerns no other members.
     *
     * @param pairs distinct pairs of topic and owner; "no owner" counts as an owner
     */
    public static boolean isPlannedInParts(int topics, int members, int pairs) {
        return pairs > CyclicExchange.mostPairs(topics, members);
    }

    /**
     * Returns the place of each row's owner in a part of a group of equivalent members and rows: the
     * {@link #changedMembers}, what they owned, and the rows without owner.
     *
     * @param wholeGroup members of the whole group
     */
    public static int[] assignPart(GroupProblem part, int wholeGroup) {
        int[] owner = balanceEquivalent(part, Ints.range(part.members));
        return TopicSpread.spreadLocally(part, owner, wholeGroup);
    }

    /** Returns the places of the members that subscribe to a topic with partitions. */
    private static int[] membersOf(SubscriptionClasses subscriptions) {
        IntList places = new IntList();
        for (int m = 0; m < subscriptions.member.length; m++) {
            if (subscriptions.member[m] >= 0) {
                places.add(m);
            }
        }
        return places.toArray();
    }

    private static int[] withoutOwner(int[] owner) {
        int[] out = new int[owner.length];
        int size = 0;
        for (int row = 0; row < owner.length; row++) {
            if (owner[row] < 0) {
                out[size++] = row;
            }
        }
        return Arrays.copyOf(out, size);
    }

    /**
     * Returns the best plan where all partitions and all members with a subscription are equivalent.
     *
     * <p>Each member owns the average, rounded down, or one more; members that owned the most keep
     * the most.
     *
     * @param place the members with a subscription
     */
    private static int[] balanceEquivalent(GroupProblem problem, int[] place) {
        int[] owner = problem.keeper.clone();
        int[] has = new int[problem.members];
        for (int m : owner) {
            if (m >= 0) {
                has[m]++;
            }
        }
        int[] quota = quotas(problem.rows, has, place);
        int[] met = new int[problem.members];
        for (int row = 0; row < owner.length; row++) {
            if (owner[row] >= 0 && met[owner[row]]++ >= quota[owner[row]]) {
                owner[row] = -1;
            }
        }
        long[] lacks = new long[problem.members];
        for (int m : place) {
            lacks[m] = quota[m] - Math.min(has[m], quota[m]);
        }
        takeTurns(owner, withoutOwner(owner), 0, place, lacks);
        return owner;
    }
}
