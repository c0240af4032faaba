package io.partage.assignors.core;

import io.partage.assignors.core.Ints.IntList;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The most even spread of topics that keeps each member's load: convex-cost flow by cycle canceling.
 *
 * <p>The flow sends each item (partitions of one topic with the same rack costs and claimants) to
 * members, over a node for each pair of topic and member. A cycle of negative cost in the residual
 * network is a cyclic exchange of partitions. Source: M. Klein, "A Primal Method for Minimal Cost
 * Flows", Management Science 14 (1967); cycles are found by the method of Bellman and Ford.
 */
final class CyclicExchange {
    /** Arcs of the largest network, and arcs that all searches visit, at most. */
    private static final int MOST_ARCS = 100_000;
    private static final long MOST_WORK = 5_000_000;
    /** Costs of a path from here on would overflow a long. */
    private static final long MOST_COST = 1L << 61;

    private final GroupProblem problem;
    private final int members;
    private final int[] owner;
    private int[] itemOf;
    private int items;
    /** Topic of each item, ascending, and the first item of each topic. */
    private int[] topic;
    private int[] firstItem;
    private boolean[][] may;
    private long[][] cost;
    private int[][] placed;
    private int[][] counts;
    private boolean[][] wants;
    private int nodes;
    private long visited;

    private CyclicExchange(GroupProblem problem, int[] owner) {
        this.problem = problem;
        this.members = problem.members;
        this.owner = owner;
    }

    /** Returns the owners of the most even spread; beyond the limits they are no worse than given. */
    static int[] spread(GroupProblem problem, int[] owner, PartitionClasses classes, long excess) {
        if (haveTooManyKeepers(problem)) {
            return owner;
        }
        CyclicExchange search = new CyclicExchange(problem, owner.clone());
        int[] firstRow = search.findItems(classes);
        long arcs = 2L * (search.items + problem.topics) * problem.members;
        if (arcs > MOST_ARCS || !search.build(classes, firstRow, excess)) {
            return search.owner;
        }
        while (search.visited <= MOST_WORK) {
            List<int[]> cycles = search.new Search().cycles();
            if (cycles.isEmpty()) {
                break;
            }
            for (int[] cycle : cycles) {
                search.cancel(cycle);
            }
        }
        return search.owner;
    }

    /** Returns how many pairs of topic and keeper a network may have; each of them is an item at least. */
    static int mostPairs(int topics, int members) {
        return MOST_ARCS / 2 / members - topics;
    }

    /** Returns whether the pairs of topic and keeper are too many. "No keeper" counts as a keeper. */
    private static boolean haveTooManyKeepers(GroupProblem problem) {
        int most = mostPairs(problem.topics, problem.members);
        // The last topic that has each keeper; keepers begin at -2.
        int[] last = new int[problem.members + 2];
        Arrays.fill(last, -1);
        int pairs = 0;
        for (int row = 0; row < problem.rows && pairs <= most; row++) {
            int keeper = problem.keeper[row] + 2;
            pairs += last[keeper] == problem.topicOf[row] ? 0 : 1;
            last[keeper] = problem.topicOf[row];
        }
        return pairs > most;
    }

    /** Groups the rows into items, sorted by topic, class and claimants; returns each item's first row. */
    private int[] findItems(PartitionClasses classes) {
        int[] claimants = new int[problem.rows];
        for (int row = 0; row < claimants.length; row++) {
            claimants[row] = problem.keeper[row] + 1;
        }
        Map<List<Integer>, Integer> sets = new HashMap<>();
        for (int i = 0; i < problem.contested.length; i++) {
            List<Integer> several = new ArrayList<>();
            for (int k = problem.keeperStart[i]; k < problem.keeperStart[i + 1]; k++) {
                several.add(problem.keepers[k]);
            }
            Integer before = sets.putIfAbsent(several, sets.size());
            claimants[problem.contested[i]] = members + 1 + (before == null ? sets.size() - 1 : before);
        }
        long wide = classes.topicClass.length;
        long[] key = new long[problem.rows];
        for (int row = 0; row < key.length; row++) {
            key[row] = (problem.topicOf[row] * wide + classes.ofRow[row]) * (members + 1L + sets.size())
                + claimants[row];
        }
        Ints.Ranked ranked = Ints.ranked(key, problem.topics * wide * (members + 1L + sets.size()));
        itemOf = ranked.rank;
        items = ranked.distinct.length;
        int[] first = new int[items];
        Arrays.fill(first, -1);
        for (int row = 0; row < itemOf.length; row++) {
            if (first[itemOf[row]] < 0) {
                first[itemOf[row]] = row;
            }
        }
        return first;
    }

    private boolean build(PartitionClasses classes, int[] firstRow, long excess) {
        int topics = problem.topics;
        topic = new int[items];
        may = new boolean[items][members];
        cost = new long[items][members];
        placed = new int[items][members];
        counts = new int[topics][members];
        wants = new boolean[topics][members];
        for (int t = 0; t < topics; t++) {
            for (int m = 0; m < members; m++) {
                wants[t][m] = problem.subscribes(m, t);
            }
        }
        for (int row = 0; row < owner.length; row++) {
            placed[itemOf[row]][owner[row]]++;
            counts[problem.topicOf[row]][owner[row]]++;
        }
        // Rack cost outweighs all moves, and a move all squares.
        long fewerSquares = 2 * excess + 1;
        int highest = 0;
        for (int i = 0; i < items; i++) {
            int row = firstRow[i];
            topic[i] = problem.topicOf[row];
            boolean[] keeps = keepers(row);
            for (int m = 0; m < members; m++) {
                may[i][m] = wants[topic[i]][m];
                int column = classes.group[m] >= 0 ? classes.column[classes.group[m]] : 0;
                int rack = classes.cost[classes.profile[classes.ofRow[row]]][column];
                highest = Math.max(highest, rack);
                long move = problem.owned[row] && !keeps[m] ? 1 : 0;
                cost[i][m] = (rack * (problem.rows + 1L) + move) * fewerSquares;
            }
        }
        firstItem = Ints.offsets(topic, topics);
        nodes = items + topics * members + members;
        double dearest = ((double) highest * (problem.rows + 1L) + 1) * fewerSquares;
        return dearest * nodes < MOST_COST;
    }

    private boolean[] keepers(int row) {
        boolean[] keeps = new boolean[members];
        if (problem.keeper[row] >= 0) {
            keeps[problem.keeper[row]] = true;
        } else if (problem.keeper[row] == -2) {
            int i = Arrays.binarySearch(problem.contested, row);
            for (int k = problem.keeperStart[i]; k < problem.keeperStart[i + 1]; k++) {
                keeps[problem.keepers[k]] = true;
            }
        }
        return keeps;
    }

    private int pair(int topicNumber, int member) {
        return items + topicNumber * members + member;
    }

    /** Counts the arcs of the network that have residual capacity. */
    private long residualArcs() {
        long count = 0;
        for (int i = 0; i < items; i++) {
            for (int m = 0; m < members; m++) {
                count += may[i][m] ? placed[i][m] > 0 ? 2 : 1 : 0;
            }
        }
        for (int t = 0; t < problem.topics; t++) {
            for (int m = 0; m < members; m++) {
                count += wants[t][m] ? counts[t][m] > 0 ? 2 : 1 : 0;
            }
        }
        return count;
    }

    /**
     * The search for negative cycles by Bellman and Ford: a round relaxes all arcs with the distances of
     * the round before.
     *
     * <p>An arc can improve its head only if the distance of its tail has changed in the round before, so
     * that the others are left out. They count as work all the same.
     */
    private final class Search {
        private final int sinks = items + problem.topics * members;
        private final long[] distance = new long[nodes];
        /** Distances after this round. They differ from those before it at the improved nodes only. */
        private final long[] nearest = new long[nodes];
        private final int[] parent = new int[nodes];
        /** New parent of each improved node, and the rank of its arc: of equally short ways the highest counts. */
        private final int[] via = new int[nodes];
        private final int[] rank = new int[nodes];
        private final IntList improved = new IntList();
        /** The walk in which a node was last met. */
        private final int[] met = new int[nodes];
        private int walk;

        /** Returns disjoint cycles of negative cost, each as nodes in order. */
        List<int[]> cycles() {
            Arrays.fill(parent, -1);
            IntList tails = new IntList();
            // All distances are zero: only tails of arcs with a negative cost matter.
            for (int t = 0; t < problem.topics; t++) {
                for (int m = 0; m < members; m++) {
                    if (counts[t][m] > 0) {
                        tails.add(pair(t, m));
                    }
                }
            }
            for (int m = 0; m < members; m++) {
                tails.add(sinks + m);
            }
            long arcs = residualArcs();
            for (int round = 0; round < nodes; round++) {
                visited += arcs;
                improved.size = 0;
                for (int i = 0; i < tails.size; i++) {
                    relax(tails.values[i]);
                }
                if (improved.size == 0) {
                    return List.of();
                }
                tails.size = 0;
                for (int i = 0; i < improved.size; i++) {
                    int node = improved.values[i];
                    distance[node] = nearest[node];
                    parent[node] = via[node];
                    tails.add(node);
                }
                if (closesCycle()) {
                    return CyclicExchange.cycles(parent);
                }
            }
            return List.of();
        }

        /** Relaxes the arcs that leave a node. */
        private void relax(int node) {
            long from = distance[node];
            if (node < items) {
                for (int m = 0; m < members; m++) {
                    if (may[node][m]) {
                        reach(pair(topic[node], m), from + cost[node][m], node, node);
                    }
                }
            } else if (node < sinks) {
                int t = (node - items) / members;
                int m = (node - items) % members;
                for (int i = firstItem[t]; i < firstItem[t + 1]; i++) {
                    if (may[i][m] && placed[i][m] > 0) {
                        reach(i, from - cost[i][m], node, m);
                    }
                }
                if (wants[t][m]) {
                    reach(sinks + m, from + 2L * counts[t][m] + 1, node, t);
                }
            } else {
                int m = node - sinks;
                for (int t = 0; t < problem.topics; t++) {
                    if (wants[t][m] && counts[t][m] > 0) {
                        reach(pair(t, m), from + 1 - 2L * counts[t][m], node, items);
                    }
                }
            }
        }

        private void reach(int node, long length, int tail, int order) {
            if (length < nearest[node]) {
                if (nearest[node] == distance[node]) {
                    improved.add(node);
                }
                nearest[node] = length;
                via[node] = tail;
                rank[node] = order;
            } else if (length == nearest[node] && length < distance[node] && order > rank[node]) {
                via[node] = tail;
                rank[node] = order;
            }
        }

        /** Returns whether a node that has improved is on a cycle of parents. */
        private boolean closesCycle() {
            int before = walk;
            for (int i = 0; i < improved.size; i++) {
                int node = improved.values[i];
                walk++;
                while (node >= 0 && met[node] <= before) {
                    met[node] = walk;
                    node = parent[node];
                }
                if (node >= 0 && met[node] == walk) {
                    return true;
                }
            }
            return false;
        }
    }

    /** Returns the cycles of a graph in which each node has one parent, each along the arcs. */
    private static List<int[]> cycles(int[] parent) {
        // The walk in which a node was first met; a walk that meets itself has found a cycle.
        int[] walk = new int[parent.length];
        boolean[] onCycle = new boolean[parent.length];
        for (int from = 0; from < parent.length; from++) {
            int node = from;
            while (node >= 0 && walk[node] == 0) {
                walk[node] = from + 1;
                node = parent[node];
            }
            if (node >= 0 && walk[node] == from + 1) {
                for (int one = node; !onCycle[one]; one = parent[one]) {
                    onCycle[one] = true;
                }
            }
        }
        List<int[]> cycles = new ArrayList<>();
        for (int from = 0; from < parent.length; from++) {
            if (!onCycle[from]) {
                continue;
            }
            IntList back = new IntList();
            for (int node = from; onCycle[node]; node = parent[node]) {
                onCycle[node] = false;
                back.add(node);
            }
            int[] cycle = new int[back.size];
            cycle[0] = from;
            for (int i = 1; i < cycle.length; i++) {
                cycle[i] = back.values[cycle.length - i];
            }
            cycles.add(cycle);
        }
        return cycles;
    }

    /** Exchanges partitions along a cycle: one row of each item goes from one member to the next. */
    private void cancel(int[] cycle) {
        for (int i = 0; i < cycle.length; i++) {
            int item = cycle[i];
            if (item >= items) {
                continue;
            }
            int source = (cycle[(i + cycle.length - 1) % cycle.length] - items) % members;
            int target = (cycle[(i + 1) % cycle.length] - items) % members;
            int row = owner.length - 1;
            while (itemOf[row] != item || owner[row] != source) {
                row--;
            }
            owner[row] = target;
            placed[item][source]--;
            placed[item][target]++;
            counts[topic[item]][source]--;
            counts[topic[item]][target]++;
        }
    }
}
