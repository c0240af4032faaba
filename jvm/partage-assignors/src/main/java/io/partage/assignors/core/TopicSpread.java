package io.partage.assignors.core;

import io.partage.assignors.core.Ints.IntList;
import java.util.Arrays;

/**
 * The last criterion of {@code optimal}: each topic spread evenly over its subscribers.
 *
 * <p>Partitions of one class that do not stay with a claimant exchange their owners (2-exchange local
 * search): loads, rack cost and moves do not change. {@link CyclicExchange} continues from there to
 * the most even spread.
 */
final class TopicSpread {
    /** Pairs of topic and member that are counted, and rows that are exchanged, at most. */
    private static final int MOST_PAIRS = 1 << 20;
    private static final int MOST_ROWS = 5_000;
    private static final int MOST_PASSES = 3;

    private final GroupProblem problem;
    private final int[] alike;
    private final int members;
    private TopicCounts counts;
    /** How far the plan is from the most even spread; -1 if the problem is too large. */
    private long excess;

    private TopicSpread(GroupProblem problem, int[] alike) {
        this.problem = problem;
        this.alike = alike;
        this.members = problem.members;
    }

    /** Returns the owners after topics are spread as evenly as their loads, racks and moves allow. */
    static int[] spread(GroupProblem problem, int[] owner, PartitionClasses classes) {
        TopicSpread search = new TopicSpread(problem, classes.ofRow);
        if (problem.formerRow.length > 0) {
            int[] returned = search.returnedToFormer(owner);
            search.excess = excess(problem, returned);
            return search.exchanged(returned);
        }
        if (Arrays.equals(problem.keeper, owner)) {
            return owner;
        }
        long before = excess(problem, owner);
        if (before <= 0) {
            return owner;
        }
        search.excess = before;
        int[] out = search.exchanged(owner);
        int[] best = search.excess < before ? out : owner;
        long least = Math.min(before, search.excess);
        return least == 0 ? best : CyclicExchange.spread(problem, best, classes, least);
    }

    /**
     * Returns the owners after the exchanges in a part of a group.
     *
     * <p>How far the whole group is from the most even spread does not matter: without a better exchange
     * the owners stay.
     *
     * @param wholeGroup members of the whole group
     */
    static int[] spreadLocally(GroupProblem part, int[] owner, int wholeGroup) {
        if ((long) part.topics * wholeGroup > MOST_PAIRS) {
            return owner;
        }
        TopicSpread search = new TopicSpread(part, new int[part.rows]);
        long before = excess(part, owner);
        search.excess = before;
        int[] out = before <= 0 ? owner : search.exchanged(owner);
        return search.excess < before ? out : owner;
    }

    /**
     * Returns how far a plan is from the most even spread; -1 if the problem is too large.
     *
     * <p>It is half of the sum of squared counts by topic and member, minus that of even counts.
     */
    private static long excess(GroupProblem problem, int[] owner) {
        if ((long) problem.topics * problem.members > MOST_PAIRS) {
            return -1;
        }
        long sum = 0;
        int[] has = new int[problem.members];
        for (int t = 0; t < problem.topics; t++) {
            for (int row = problem.firstRow[t]; row < problem.firstRow[t + 1]; row++) {
                if (owner[row] >= 0) {
                    sum += 2L * has[owner[row]]++ + 1;
                }
            }
            for (int row = problem.firstRow[t]; row < problem.firstRow[t + 1]; row++) {
                if (owner[row] >= 0) {
                    has[owner[row]] = 0;
                }
            }
        }
        int[] subscribers = new int[problem.topicsOf.length];
        for (int s : problem.subscription) {
            subscribers[s]++;
        }
        int[] sizes = new int[problem.topics];
        for (int s = 0; s < subscribers.length; s++) {
            for (int t : problem.topicsOf[s]) {
                sizes[t] += subscribers[s];
            }
        }
        for (int t = 0; t < problem.topics; t++) {
            if (sizes[t] > 0) {
                long base = problem.counts[t] / sizes[t];
                long extra = problem.counts[t] % sizes[t];
                sum -= base * base * (sizes[t] - extra) + (base + 1) * (base + 1) * extra;
            }
        }
        return Math.floorDiv(sum, 2);
    }

    /** Marks the members that an exchange may concern: owners of loose partitions, and their keepers. */
    private boolean[] concerned(int[] owner, boolean[] stays) {
        boolean[] out = new boolean[members];
        for (int row = 0; row < owner.length; row++) {
            if (!stays[row] && owner[row] >= 0) {
                out[owner[row]] = true;
                if (problem.keeper[row] >= 0) {
                    out[problem.keeper[row]] = true;
                }
            }
        }
        return out;
    }

    /** Exchanges partitions between members, so that topics are spread more evenly. */
    private int[] exchanged(int[] owner) {
        if ((long) problem.topics * members > MOST_PAIRS) {
            return owner;
        }
        boolean[] stays = new boolean[owner.length];
        for (int row = 0; row < owner.length; row++) {
            stays[row] = problem.keeper[row] == owner[row];
        }
        for (int i = 0; i < problem.contested.length; i++) {
            for (int k = problem.keeperStart[i]; k < problem.keeperStart[i + 1]; k++) {
                stays[problem.contested[i]] |= problem.keepers[k] == owner[problem.contested[i]];
            }
        }
        int loose = 0;
        for (int row = 0; row < owner.length; row++) {
            loose += !stays[row] && owner[row] >= 0 ? 1 : 0;
        }
        if (loose <= 1 || loose > MOST_ROWS) {
            return owner;
        }
        counts = new TopicCounts(problem, owner, concerned(owner, stays));
        long squares = counts.sumOfSquares();
        int[] out = owner.clone();
        for (int pass = 0; pass < MOST_PASSES; pass++) {
            if (excess <= 0 || !tradeTopics(out)) {
                break;
            }
        }
        IntList rows = new IntList();
        IntList keys = new IntList();
        int high = 0;
        for (int row = 0; row < out.length; row++) {
            if (problem.keeper[row] != out[row] && !stays[row] && out[row] >= 0) {
                rows.add(row);
                keys.add(alike[row]);
                high = Math.max(high, alike[row]);
            }
        }
        int[] key = keys.toArray();
        int[] order = Ints.stableOrder(key, high + 1);
        for (int first = 0; first < order.length;) {
            int end = first;
            while (end < order.length && key[order[end]] == key[order[first]]) {
                end++;
            }
            if (end - first > 1) {
                int[] same = new int[end - first];
                for (int i = first; i < end; i++) {
                    same[i - first] = rows.values[order[i]];
                }
                reassign(out, same);
            }
            first = end;
        }
        excess += (counts.sumOfSquares() - squares) / 2;
        return out;
    }

    /** Swaps equivalent partitions, so that members get those back that they owned before. */
    private int[] returnedToFormer(int[] owner) {
        int[] out = owner.clone();
        for (int i = 0; i < problem.formerRow.length; i++) {
            int row = problem.formerRow[i];
            int place = problem.formerPlace[i];
            int newest = out[row];
            if (newest < 0 || newest == place || problem.keeper[row] != newest) {
                continue;
            }
            for (int given = out.length - 1; given >= 0; given--) {
                if (problem.keeper[given] == newest && out[given] == place && alike[given] == alike[row]) {
                    out[given] = newest;
                    out[row] = place;
                    break;
                }
            }
        }
        return out;
    }

    /** Swaps partitions that stay for moved ones of other topics, where that spreads topics better. */
    private boolean tradeTopics(int[] owner) {
        int[] keeper = problem.keeper;
        IntList moved = new IntList();
        boolean[] loses = new boolean[members];
        boolean isPossible = false;
        for (int row = 0; row < owner.length; row++) {
            if (keeper[row] >= 0 && owner[row] >= 0 && keeper[row] != owner[row]) {
                moved.add(row);
                loses[keeper[row]] = true;
                isPossible = isPossible || counts.most(keeper[row]) > leastToTrade(owner, row);
            }
        }
        if (!isPossible) {
            return false;
        }
        // The rows that stay with members that lose others, member by member (counting sort).
        int[] first = new int[members + 1];
        for (int row = 0; row < owner.length; row++) {
            if (owner[row] >= 0 && keeper[row] == owner[row] && loses[owner[row]]) {
                first[owner[row] + 1]++;
            }
        }
        for (int m = 0; m < members; m++) {
            first[m + 1] += first[m];
        }
        int[] kept = new int[first[members]];
        int[] next = first.clone();
        for (int row = 0; row < owner.length; row++) {
            if (owner[row] >= 0 && keeper[row] == owner[row] && loses[owner[row]]) {
                kept[next[owner[row]]++] = row;
            }
        }
        boolean changed = false;
        for (int i = 0; i < moved.size; i++) {
            int q = moved.values[i];
            int r = bestTrade(owner, q, kept, first[keeper[q]], first[keeper[q] + 1]);
            if (r >= 0) {
                changed = true;
                swap(owner, q, r);
            }
        }
        return changed;
    }

    /**
     * Returns how many more partitions of another topic its keeper must have than its owner at least, plus
     * 1, so that a trade for {@code q} spreads topics better.
     */
    private int leastToTrade(int[] owner, int q) {
        return counts.difference(problem.topicOf[q], problem.keeper[q], owner[q]) + 2;
    }

    /**
     * Returns the row that its owner gives away instead of {@code q}, so that topics are spread better; -1
     * if there is none.
     *
     * @param kept rows; those from {@code begin} to {@code end - 1} stayed with the keeper of {@code q}
     */
    private int bestTrade(int[] owner, int q, int[] kept, int begin, int end) {
        int n = problem.keeper[q];
        int m = owner[q];
        int best = -1;
        int most = leastToTrade(owner, q);
        if (counts.most(n) <= most) {
            return best;
        }
        for (int k = begin; k < end; k++) {
            int row = kept[k];
            int more = counts.difference(problem.topicOf[row], n, m);
            if (more > most && owner[row] == n && alike[row] == alike[q]) {
                best = row;
                most = more;
            }
        }
        return best;
    }

    /** Exchanges the owners of two rows. */
    private void swap(int[] owner, int x, int y) {
        int a = owner[x];
        int b = owner[y];
        counts.add(problem.topicOf[x], a, -1);
        counts.add(problem.topicOf[x], b, 1);
        counts.add(problem.topicOf[y], b, -1);
        counts.add(problem.topicOf[y], a, 1);
        owner[x] = b;
        owner[y] = a;
    }

    /** Permutes the owners of interchangeable partitions, so that topics are spread more evenly. */
    private void reassign(int[] owner, int[] rows) {
        int[] quota = new int[members];
        for (int row : rows) {
            quota[owner[row]]++;
        }
        IntList present = new IntList();
        for (int m = 0; m < members; m++) {
            if (quota[m] > 0) {
                present.add(m);
            }
        }
        int[] who = present.toArray();
        if (who.length < 2) {
            return;
        }
        for (int row : rows) {
            counts.add(problem.topicOf[row], owner[row], -1);
        }
        boolean[] fixed = new boolean[rows.length];
        for (int i = 0; i < problem.formerRow.length; i++) {
            int place = problem.formerPlace[i];
            int at = Arrays.binarySearch(rows, problem.formerRow[i]);
            if (quota[place] > 0 && at >= 0 && !fixed[at]) {
                fixed[at] = true;
                owner[rows[at]] = place;
                quota[place]--;
                counts.add(problem.topicOf[rows[at]], place, 1);
            }
        }
        IntList free = new IntList();
        boolean severalTopics = false;
        for (int i = 0; i < rows.length; i++) {
            if (!fixed[i]) {
                free.add(rows[i]);
                severalTopics |= problem.topicOf[rows[i]] != problem.topicOf[free.values[0]];
            }
        }
        for (int i = 0; i < free.size; i++) {
            int row = free.values[i];
            int topic = problem.topicOf[row];
            int best = -1;
            for (int m : who) {
                int more = quota[m] == 0 || best < 0 ? 0 : counts.difference(topic, m, best);
                if (quota[m] > 0 && (best < 0 || more < 0 || more == 0 && quota[m] > quota[best])) {
                    best = m;
                }
            }
            owner[row] = best;
            quota[best]--;
            counts.add(topic, best, 1);
        }
        if (severalTopics) {
            OwnerSwaps.run(problem, counts, owner, free.toArray());
        }
    }
}
