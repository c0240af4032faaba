package io.partage.assignors.core;

import io.partage.assignors.core.Ints.IntList;
import java.util.Arrays;

/**
 * A flow network: maximum flow by Dinic's algorithm, minimum-cost flow by the primal-dual method.
 *
 * <p>Arc {@code 2i} is the i-th given arc and {@code 2i + 1} its reverse. Node prices are dual
 * variables: {@link #raisePrices} keeps all reduced costs at zero or more, and {@link #augment} fills
 * the arcs whose reduced cost is zero. It makes the same choices as Partage's Python class
 * {@code Network}.
 */
final class FlowNetwork {
    /** Capacity of an arc that nothing bounds. */
    static final long UNBOUNDED = 1L << 40;
    /** Most arcs of a network that is searched at all. */
    static final int LARGEST = 2_000_000;

    /** Distance of a node from which no path leads to the sink; above any sum of costs. */
    private static final long FAR = 1L << 40;
    /** Fixed cost of one sweep, in arcs. */
    private static final int SWEEP_OVERHEAD = 500;

    /** Arcs to be added, in the order in which they get their numbers. */
    static final class Arcs {
        private final IntList tail = new IntList();
        private final IntList head = new IntList();
        private long[] capacity = new long[16];
        private long[] cost = new long[16];

        int size() {
            return tail.size;
        }

        void add(int from, int to, long room, long price) {
            int i = tail.size;
            if (i == capacity.length) {
                capacity = Arrays.copyOf(capacity, 2 * i);
                cost = Arrays.copyOf(cost, 2 * i);
            }
            capacity[i] = room;
            cost[i] = price;
            tail.add(from);
            head.add(to);
        }
    }

    final long[] price;
    private final int nodes;
    private final int source;
    private final int sink;
    private final WorkBudget budget;
    /** First slot of each node: the arcs that leave a node are in consecutive slots, by arc number. */
    private final int[] start;
    /** Head, residual capacity and cost of the arc in each slot, and the slot of its reverse. */
    private final int[] head;
    private final long[] left;
    private final long[] cost;
    private final int[] twin;
    /** Slot of each given arc. */
    private final int[] slot;
    /** The sweep in which a node was last collected. */
    private final int[] collected;
    private int sweep;
    private final int[] level;
    /** The arcs of the current phase that lead closer to the sink, and each node's range of them. */
    private final IntList used = new IntList();
    private final int[] at;
    private final int[] end;

    FlowNetwork(int nodes, Arcs arcs, int source, int sink, long[] price, WorkBudget budget) {
        budget.spend(2L * arcs.size());
        this.nodes = nodes;
        this.source = source;
        this.sink = sink;
        this.budget = budget;
        this.price = price;
        int count = arcs.size();
        int[] tails = arcs.tail.values;
        int[] heads = arcs.head.values;
        start = new int[nodes + 1];
        for (int i = 0; i < count; i++) {
            start[tails[i] + 1]++;
            start[heads[i] + 1]++;
        }
        for (int node = 0; node < nodes; node++) {
            start[node + 1] += start[node];
        }
        int[] next = Arrays.copyOf(start, nodes);
        head = new int[2 * count];
        left = new long[2 * count];
        cost = new long[2 * count];
        twin = new int[2 * count];
        slot = new int[count];
        for (int i = 0; i < count; i++) {
            int forward = next[tails[i]]++;
            int backward = next[heads[i]]++;
            head[forward] = heads[i];
            head[backward] = tails[i];
            left[forward] = arcs.capacity[i];
            cost[forward] = arcs.cost[i];
            cost[backward] = -arcs.cost[i];
            twin[forward] = backward;
            twin[backward] = forward;
            slot[i] = forward;
        }
        collected = new int[nodes];
        level = new int[nodes];
        at = new int[nodes];
        end = new int[nodes];
    }

    /** Returns the flow over the i-th given arc. */
    long flow(int i) {
        return left[twin[slot[i]]];
    }

    /** Returns what the i-th given arc may still take. */
    long room(int i) {
        return left[slot[i]];
    }

    /** Adds a flow to the i-th given arc; the caller keeps it within capacity and conserved. */
    void push(int i, long amount) {
        left[slot[i]] -= amount;
        left[twin[slot[i]]] += amount;
    }

    /** Raises the capacity of the i-th given arc. */
    void widen(int i, long amount) {
        left[slot[i]] += amount;
    }

    /** Returns which nodes one more unit of flow could reach, on paths without source and sink. */
    boolean[] reachable(int[] from) {
        boolean[] seen = new boolean[nodes];
        seen[source] = true;
        seen[sink] = true;
        IntList queue = new IntList();
        for (int node : from) {
            if (!seen[node]) {
                seen[node] = true;
                queue.add(node);
            }
        }
        for (int next = 0; next < queue.size; next++) {
            int node = queue.values[next];
            for (int arc = start[node]; arc < start[node + 1]; arc++) {
                if (left[arc] > 0 && !seen[head[arc]]) {
                    seen[head[arc]] = true;
                    queue.add(head[arc]);
                }
            }
        }
        seen[source] = false;
        seen[sink] = false;
        return seen;
    }

    /** Sends as much flow as possible along paths of arcs with reduced cost zero. */
    void augment() {
        while (findLevels()) {
            collectArcs();
            augmentPaths();
        }
    }

    /**
     * Raises each node's price by its distance to the sink, at most by that of the source.
     *
     * @return false if no path leads from the source to the sink
     */
    boolean raisePrices() {
        long[] distance = new long[nodes];
        Arrays.fill(distance, FAR);
        distance[sink] = 0;
        int[] frontier = {sink};
        IntList before = new IntList();
        long[] nearer = new long[16];
        while (frontier.length > 0) {
            budget.spend(degrees(frontier) + SWEEP_OVERHEAD);
            before.size = 0;
            // All distances of a sweep are computed before one is changed, as the work is counted by sweep.
            for (int node : frontier) {
                for (int arc = start[node]; arc < start[node + 1]; arc++) {
                    int tail = head[arc];
                    long reached = distance[node] - reduced(arc, node);
                    if (reached < distance[tail] && left[twin[arc]] > 0) {
                        if (before.size == nearer.length) {
                            nearer = Arrays.copyOf(nearer, 2 * nearer.length);
                        }
                        nearer[before.size] = reached;
                        before.add(tail);
                    }
                }
            }
            for (int i = 0; i < before.size; i++) {
                int node = before.values[i];
                distance[node] = Math.min(distance[node], nearer[i]);
            }
            frontier = unique(before);
        }
        if (distance[source] >= FAR) {
            return false;
        }
        for (int node = 0; node < nodes; node++) {
            price[node] += Math.min(distance[node], distance[source]);
        }
        return true;
    }

    /** Returns the reduced cost of an arc that leaves a node; that of its reverse is the negative. */
    private long reduced(int arc, int node) {
        return cost[arc] + price[head[arc]] - price[node];
    }

    private long degrees(int[] some) {
        long sum = 0;
        for (int node : some) {
            sum += start[node + 1] - start[node];
        }
        return sum;
    }

    private int[] unique(IntList some) {
        sweep++;
        int size = 0;
        int[] distinct = new int[some.size];
        for (int i = 0; i < some.size; i++) {
            int node = some.values[i];
            if (collected[node] != sweep) {
                collected[node] = sweep;
                distinct[size++] = node;
            }
        }
        return Arrays.copyOf(distinct, size);
    }

    /**
     * Computes each node's distance to the sink in arcs of reduced cost zero, -1 beyond the source.
     *
     * @return whether the source reaches the sink
     */
    private boolean findLevels() {
        Arrays.fill(level, -1);
        level[sink] = 0;
        int[] frontier = {sink};
        int depth = 0;
        while (frontier.length > 0 && level[source] < 0) {
            depth++;
            budget.spend(degrees(frontier) + SWEEP_OVERHEAD);
            IntList next = new IntList();
            for (int node : frontier) {
                for (int arc = start[node]; arc < start[node + 1]; arc++) {
                    int tail = head[arc];
                    if (level[tail] < 0 && reduced(arc, node) == 0 && left[twin[arc]] > 0) {
                        level[tail] = depth;
                        next.add(tail);
                    }
                }
            }
            frontier = next.toArray();
        }
        return level[source] >= 0;
    }

    /** Collects the arcs on shortest paths of zero reduced cost from source to sink. */
    private void collectArcs() {
        used.size = 0;
        int[] layer = {source};
        while (layer.length > 0 && layer[0] != sink) {
            budget.spend(degrees(layer) + SWEEP_OVERHEAD);
            IntList heads = new IntList();
            for (int node : layer) {
                at[node] = used.size;
                for (int arc = start[node]; arc < start[node + 1]; arc++) {
                    if (level[head[arc]] == level[node] - 1 && left[arc] > 0 && reduced(arc, node) == 0) {
                        used.add(arc);
                        heads.add(head[arc]);
                    }
                }
                end[node] = used.size;
            }
            layer = unique(heads);
        }
    }

    /** Sends a blocking flow along the collected arcs, depth first. */
    private void augmentPaths() {
        int[] arcs = used.values;
        IntList path = new IntList();
        int node = source;
        while (true) {
            if (node == sink) {
                long amount = Long.MAX_VALUE;
                for (int i = 0; i < path.size; i++) {
                    amount = Math.min(amount, left[path.values[i]]);
                }
                int cut = 0;
                for (int i = path.size - 1; i >= 0; i--) {
                    int arc = path.values[i];
                    left[arc] -= amount;
                    left[twin[arc]] += amount;
                    if (left[arc] == 0) {
                        cut = i;
                    }
                }
                // Walk on from the first arc that is now full.
                node = cut == 0 ? source : head[path.values[cut - 1]];
                path.size = cut;
            }
            while (at[node] < end[node] && left[arcs[at[node]]] == 0) {
                at[node]++;
            }
            if (at[node] < end[node]) {
                path.add(arcs[at[node]]);
                node = head[arcs[at[node]]];
            } else if (path.size > 0) {
                // A dead end: the arc that led here is of no more use in this phase.
                path.size--;
                node = path.size == 0 ? source : head[path.values[path.size - 1]];
                at[node]++;
            } else {
                return;
            }
        }
    }
}
