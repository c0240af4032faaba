package io.partage.assignors.core;

import io.partage.assignors.core.Ints.IntList;
import java.util.Arrays;
import java.util.BitSet;

/**
 * A group in canonical order: its members' subscriptions, its topics' partitions, claims and racks.
 *
 * <p>A place is a member's position and a row a partition's position in this order. Members are
 * ordered by instance id (static ones), then by member id; topics by name (in a consumer) or by id (in
 * a broker); partitions by number. A claim is a partition that a member owned. A keeper of a row is a
 * member that owned it and may keep it.
 */
public final class GroupProblem {
    /** The rack costs of a group: by profile (of partitions) and column (of members). */
    static final class RackCosts {
        final int[] profile;
        final int[] column;
        final int[][] cost;

        RackCosts(int[] profile, int[] column, int[][] cost) {
            this.profile = profile;
            this.column = column;
            this.cost = cost;
        }

        /** Returns whether all partitions cost all members the same. */
        boolean isUniform() {
            return cost.length == 1 && cost[0].length == 1;
        }
    }

    final int members;
    final int topics;
    final int rows;
    /** Partitions of each topic. */
    final int[] counts;
    /** First row of each topic, and the number of rows at the end. */
    final int[] firstRow;
    final int[] topicOf;
    /** Subscription of each place; distinct ones are numbered by first occurrence. */
    final int[] subscription;
    /** Topics of each subscription, ascending. */
    final int[][] topicsOf;
    /** Whether any member claims the row. */
    final boolean[] owned;
    /** The only keeper of each row; -1 for none, -2 for several. */
    final int[] keeper;
    /** Rows with several keepers; the keepers of the i-th of them begin at {@code keeperStart[i]}. */
    int[] contested = new int[0];
    int[] keeperStart = {0};
    int[] keepers = new int[0];
    /** Claims that a newer one overrides, the newest first: row and place of each. */
    int[] formerRow = new int[0];
    int[] formerPlace = new int[0];
    /** Null if racks do not matter. */
    final RackCosts racks;

    private final BitSet[] wanted;
    /** Whether each member subscribes to all topics. */
    private final boolean isHomogeneous;

    /**
     * Builds the problem.
     *
     * @param counts partitions of each topic, topics in canonical order
     * @param subscription the subscription of each place, numbered from 0 by first occurrence
     * @param topicsOf topics of each subscription, ascending
     * @param claimPlace the member of each claim, by place
     * @param claimRow the partition of each claim
     * @param generation the generation of each place's claims
     * @param rackOf the rack of each place, null for none; null if racks do not matter
     * @param racksOf the racks of each row's replicas; null if racks do not matter
     */
    public GroupProblem(
            int[] counts, int[] subscription, int[][] topicsOf, int[] claimPlace, int[] claimRow,
            int[] generation, String[] rackOf, RackSets racksOf) {
        this.members = subscription.length;
        this.topics = counts.length;
        this.counts = counts;
        this.subscription = subscription;
        this.topicsOf = topicsOf;
        firstRow = firstRows(counts);
        rows = firstRow[topics];
        topicOf = new int[rows];
        for (int t = 0; t < topics; t++) {
            Arrays.fill(topicOf, firstRow[t], firstRow[t + 1], t);
        }
        isHomogeneous = topicsOf.length == 1 && topicsOf[0].length == topics;
        wanted = new BitSet[topicsOf.length];
        for (int s = 0; s < topicsOf.length && !isHomogeneous; s++) {
            wanted[s] = new BitSet(topics);
            for (int t : topicsOf[s]) {
                wanted[s].set(t);
            }
        }
        owned = new boolean[rows];
        keeper = new int[rows];
        Arrays.fill(keeper, -1);
        readClaims(claimPlace, claimRow, generation);
        racks = rackOf == null ? null : Racks.costs(rackOf, racksOf);
    }

    /** Returns the first row of each topic with these partition counts, and the number of rows at the end. */
    public static int[] firstRows(int[] counts) {
        int[] first = new int[counts.length + 1];
        for (int t = 0; t < counts.length; t++) {
            first[t + 1] = first[t] + counts[t];
        }
        return first;
    }

    boolean mayOwn(int place, int row) {
        return isHomogeneous || wanted[subscription[place]].get(topicOf[row]);
    }

    boolean subscribes(int place, int topic) {
        return isHomogeneous || wanted[subscription[place]].get(topic);
    }

    /** Returns whether all partitions are equivalent, and all members; disputed claims count. */
    boolean isUniform() {
        return isHomogeneous && contested.length == 0 && (racks == null || racks.isUniform());
    }

    int ownedRows() {
        int count = 0;
        for (boolean one : owned) {
            count += one ? 1 : 0;
        }
        return count;
    }

    private void readClaims(int[] place, int[] row, int[] generation) {
        boolean twice = false;
        for (int i = 0; i < row.length; i++) {
            twice |= owned[row[i]];
            owned[row[i]] = true;
            keeper[row[i]] = mayOwn(place[i], row[i]) ? place[i] : -1;
        }
        if (twice) {
            readDisputed(place, row, generation);
        }
    }

    /** Finds the members that may keep each row, where several claim one: those of the newest generation. */
    private void readDisputed(int[] place, int[] row, int[] generation) {
        long[] newest = new long[rows];
        Arrays.fill(newest, Long.MIN_VALUE);
        for (int i = 0; i < row.length; i++) {
            if (mayOwn(place[i], row[i])) {
                newest[row[i]] = Math.max(newest[row[i]], generation[place[i]]);
            }
        }
        long[] pairs = new long[row.length];
        long[][] old = new long[row.length][];
        int good = 0;
        int former = 0;
        for (int i = 0; i < row.length; i++) {
            if (!mayOwn(place[i], row[i])) {
                continue;
            }
            if (generation[place[i]] == newest[row[i]]) {
                pairs[good++] = (long) row[i] * members + place[i];
            } else {
                old[former++] = new long[] {-(long) generation[place[i]], row[i], place[i]};
            }
        }
        pairs = Ints.distinct(Arrays.copyOf(pairs, good));
        Arrays.fill(keeper, -1);
        IntList several = new IntList();
        IntList begin = new IntList();
        IntList who = new IntList();
        for (int i = 0; i < pairs.length;) {
            int of = (int) (pairs[i] / members);
            int end = i;
            while (end < pairs.length && pairs[end] / members == of) {
                end++;
            }
            keeper[of] = end - i > 1 ? -2 : (int) (pairs[i] % members);
            if (end - i > 1) {
                several.add(of);
                begin.add(who.size);
                for (int k = i; k < end; k++) {
                    who.add((int) (pairs[k] % members));
                }
            }
            i = end;
        }
        begin.add(who.size);
        contested = several.toArray();
        keeperStart = begin.toArray();
        keepers = who.toArray();
        old = Arrays.copyOf(old, former);
        Arrays.sort(old, (a, b) -> Arrays.compare(a, b));
        formerRow = new int[former];
        formerPlace = new int[former];
        for (int i = 0; i < former; i++) {
            formerRow[i] = (int) old[i][1];
            formerPlace[i] = (int) old[i][2];
        }
    }
}
