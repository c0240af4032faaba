package io.partage.assignors.core;

import java.util.Arrays;

/**
 * Pairwise swaps of owners among interchangeable partitions of different topics, as long as a swap
 * spreads topics better (2-exchange local search).
 *
 * <p>Each step makes the best swap of the first member that has one. How much a pair of members can
 * gain is remembered until one of the two takes part in a swap.
 */
final class OwnerSwaps {
    private static final int MOST_EXCHANGES = 2_000;
    /** Pairs of members that the search compares, at most. */
    private static final int MOST_COMPARED = 1 << 20;
    /** Pairs of members whose gain is remembered, at most. */
    private static final int MOST_REMEMBERED = 1 << 20;

    private final int[] rows;
    /** Topic of each of the rows. */
    private final int[] topicOf;
    private final TopicCounts counts;
    /** The same, numbered by first occurrence. */
    private final int[] topic;
    /** The members that own the rows, ascending. */
    private final int[] owners;
    /** Positions in {@link #rows} that each of these members owns, ascending. */
    private final int[][] owned;
    /** Partitions of each topic that each of these members owns. */
    private final int[][] has;
    /** Twice the gain of a pair of members, plus 1; 0 if it is not known. Null if there are too many pairs. */
    private final int[] remembered;

    private OwnerSwaps(GroupProblem problem, TopicCounts counts, int[] owner, int[] rows) {
        this.rows = rows;
        this.counts = counts;
        int members = problem.members;
        topicOf = new int[rows.length];
        topic = new int[rows.length];
        int[] key = new int[rows.length];
        int[] number = new int[problem.topics];
        int[] first = new int[rows.length];
        int topics = 0;
        for (int i = 0; i < rows.length; i++) {
            key[i] = owner[rows[i]];
            topicOf[i] = problem.topicOf[rows[i]];
            if (number[topicOf[i]] == 0) {
                first[topics++] = topicOf[i];
                number[topicOf[i]] = topics;
            }
            topic[i] = number[topicOf[i]] - 1;
        }
        int[] begin = Ints.offsets(key, members);
        int[] order = Ints.stableOrder(key, members);
        int[] present = new int[members];
        int size = 0;
        for (int m = 0; m < members; m++) {
            if (begin[m] < begin[m + 1]) {
                present[size++] = m;
            }
        }
        owners = Arrays.copyOf(present, size);
        owned = new int[size][];
        has = new int[size][topics];
        for (int a = 0; a < size; a++) {
            owned[a] = Arrays.copyOfRange(order, begin[owners[a]], begin[owners[a] + 1]);
            for (int t = 0; t < topics; t++) {
                has[a][t] = counts.of(first[t], owners[a]);
            }
        }
        remembered = (long) size * size > MOST_REMEMBERED ? null : new int[size * size];
    }

    /**
     * Swaps owners of the rows.
     *
     * @param counts partitions by topic and member, kept up to date
     * @param owner the owner of each row, which changes
     */
    static void run(GroupProblem problem, TopicCounts counts, int[] owner, int[] rows) {
        OwnerSwaps swaps = new OwnerSwaps(problem, counts, owner, rows);
        int compared = 0;
        for (int exchange = 0; exchange < MOST_EXCHANGES && compared <= MOST_COMPARED; exchange++) {
            int most = 2;
            int bestA = -1;
            int bestB = -1;
            for (int a = 0; a < swaps.owners.length && bestA < 0 && compared <= MOST_COMPARED; a++) {
                for (int b = a + 1; b < swaps.owners.length; b++) {
                    compared++;
                    int gain = swaps.gain(a, b);
                    if (gain > most) {
                        most = gain;
                        bestA = a;
                        bestB = b;
                    }
                }
            }
            if (bestA < 0) {
                return;
            }
            swaps.swap(owner, bestA, bestB);
        }
    }

    /** Returns how much the best swap of two members reduces half of the sum of squared counts, plus 2. */
    private int gain(int a, int b) {
        int pair = a * owners.length + b;
        if (remembered != null && remembered[pair] != 0) {
            return remembered[pair] >> 1;
        }
        int[] more = has[a];
        int[] fewer = has[b];
        int most = Integer.MIN_VALUE;
        for (int i : owned[a]) {
            most = Math.max(most, more[topic[i]] - fewer[topic[i]]);
        }
        int least = Integer.MAX_VALUE;
        for (int i : owned[b]) {
            least = Math.min(least, more[topic[i]] - fewer[topic[i]]);
        }
        if (remembered != null) {
            remembered[pair] = 2 * (most - least) + 1;
        }
        return most - least;
    }

    /** Exchanges the rows of two members that gain the most, the first ones if several do. */
    private void swap(int[] owner, int a, int b) {
        int x = owned[a][0];
        for (int i : owned[a]) {
            x = more(i, a, b) > more(x, a, b) ? i : x;
        }
        int y = owned[b][0];
        for (int i : owned[b]) {
            y = more(i, a, b) < more(y, a, b) ? i : y;
        }
        give(owner, x, a, b);
        give(owner, y, b, a);
        replace(owned[a], x, y);
        replace(owned[b], y, x);
        if (remembered != null) {
            for (int c = 0; c < owners.length; c++) {
                remembered[a * owners.length + c] = 0;
                remembered[c * owners.length + a] = 0;
                remembered[b * owners.length + c] = 0;
                remembered[c * owners.length + b] = 0;
            }
        }
    }

    /** Returns how many more partitions of a row's topic one member has than another. */
    private int more(int i, int one, int other) {
        return has[one][topic[i]] - has[other][topic[i]];
    }

    private void give(int[] owner, int i, int from, int to) {
        has[from][topic[i]]--;
        has[to][topic[i]]++;
        counts.add(topicOf[i], owners[from], -1);
        counts.add(topicOf[i], owners[to], 1);
        owner[rows[i]] = owners[to];
    }

    private static void replace(int[] sorted, int old, int now) {
        sorted[Arrays.binarySearch(sorted, old)] = now;
        Arrays.sort(sorted);
    }
}
