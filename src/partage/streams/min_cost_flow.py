"""Minimum-cost flow by cycle cancelling, with the tie-breaking of Kafka's ``Graph`` (KIP-925).

Several flows may have the least cost. To return the same one as ``Graph`` of kafka-streams
4.3.1, the steps are the same: start from a given flow, or from a maximum flow found by
breadth-first search (Edmonds and Karp), and cancel negative cycles one by one (Klein). Each is
the first cycle that the Bellman-Ford search meets in the order of node numbers.

Three shortcuts do not change the result. The search skips a node whose distance has not
changed since its edges were last relaxed. A round without a change ends the search. Edges
without residual capacity are left out, and the others are compared in runs: edges of one node
whose end nodes have consecutive numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.kernels import Int64s, kernel, kernel_helper

__all__ = ["FlowGraph"]

Int64Array = NDArray[np.int64]

#: Fewest edges of a run that is compared as a whole before its edges are relaxed one by one.
_LEAST_RUN = 8


class ResidualNetwork(NamedTuple):
    """Residual network of a minimum-cost flow problem with N nodes and E edges, as arrays.

    For each edge of the problem there is also a reverse edge. Edges are sorted by (origin, end).

    Attributes:
        start: int64[N + 1], index of each node's first edge.
        origin: int64[E], node at which each edge begins.
        end: int64[E], node at which each edge ends.
        cost: int64[E], cost per unit of flow.
        residual: int64[E], residual capacity; changes.
        flow: int64[E], flow; changes.
        forward: int64[E], 1 for original edges, 0 for reverse edges.
        reverse: int64[E], index of the edge in the other direction.
    """

    start: Int64s
    origin: Int64s
    end: Int64s
    cost: Int64s
    residual: Int64s
    flow: Int64s
    forward: Int64s
    reverse: Int64s


class Search(NamedTuple):
    """Working arrays of the Bellman-Ford algorithm, which finds negative cycles of a flow network.

    N is the number of nodes, E the number of edges with residual capacity.

    Attributes:
        distance: int64[N], least known cost of a path to each node.
        parent: int64[N], last edge of that path; -1 for none.
        stale: int64[N], 1 if the distance has changed since the node's edges were relaxed.
        first: int64[N + 1], index of each node's first usable edge (CSR).
        end: int64[E], end node of each usable edge.
        cost: int64[E], cost of each usable edge.
        edge: int64[E], index of each usable edge in the network.
        run_end: int64[E], index after the last edge of the run that contains the edge.
    """

    distance: Int64s
    parent: Int64s
    stale: Int64s
    first: Int64s
    end: Int64s
    cost: Int64s
    edge: Int64s
    run_end: Int64s


@dataclass(frozen=True, eq=False)
class FlowGraph:
    """Flow network with a current flow, for computing a maximum flow and a minimum-cost flow.

    The algorithms are those of Kafka Streams' rack-aware task assignor.

    Attributes:
        network: nodes, and edges with residual capacities.
        edge_index: index in the network of each edge that was passed to `from_edges`.
    """

    network: ResidualNetwork
    edge_index: Int64Array

    @classmethod
    def from_edges(
        cls,
        origin: Int64Array,
        target: Int64Array,
        capacity: Int64Array,
        cost: Int64Array,
        flow: Int64Array,
    ) -> FlowGraph:
        """Build a flow network with a current flow from arrays that describe its n edges.

        Element i of each array belongs to edge i.

        Args:
            origin: int64[n], node at which each edge begins. Nodes may have any numbers; only the
                order of the numbers matters.
            target: int64[n], node at which each edge ends. Two nodes have at most one edge in
                common.
            capacity: int64[n], capacity of each edge.
            cost: int64[n], cost of a unit of flow.
            flow: int64[n], current flow.
        """
        names, dense = np.unique(np.concatenate([origin, target]), return_inverse=True)
        edges = len(origin)
        origins = np.concatenate([dense[:edges], dense[edges:]])
        ends = np.concatenate([dense[edges:], dense[:edges]])
        order = np.lexsort((ends, origins))
        index = np.empty_like(order)
        index[order] = np.arange(len(order))
        reverse = np.empty_like(order)
        reverse[index[:edges]] = index[edges:]
        reverse[index[edges:]] = index[:edges]

        def both(given: Int64Array, reversed_: Int64Array) -> Int64Array:
            return np.ascontiguousarray(np.concatenate([given, reversed_])[order], np.int64)

        network = ResidualNetwork(
            np.searchsorted(origins[order], np.arange(len(names) + 1)).astype(np.int64),
            np.ascontiguousarray(origins[order], np.int64),
            np.ascontiguousarray(ends[order], np.int64),
            both(cost, -cost),
            both(capacity - flow, flow),
            both(flow, np.zeros_like(flow)),
            both(np.ones_like(flow), np.zeros_like(flow)),
            np.ascontiguousarray(reverse, np.int64),
        )
        return cls(network, index[:edges].astype(np.int64))

    def flow_by_edge(self) -> Int64Array:
        """Return the current flow over each edge, in the order in which `from_edges` got the edges.

        The rack-aware assignor of Kafka Streams reads from it which client gets which task.
        """
        return self.network.flow[self.edge_index]

    def maximise_flow(self) -> int:
        """Increase the flow to a maximum flow from the first node to the last one.

        The algorithm is that of Edmonds and Karp.

        Returns:
            By how much the flow grew.
        """
        nodes = len(self.network.start) - 1
        parent, queue = np.zeros((2, nodes), np.int64)
        value: int = _maximize(self.network, parent, queue, work=2 * nodes * nodes)
        return value

    def cancel_negative_cycles(self) -> int:
        """Minimise the cost of the flow by cancelling cycles of negative cost (Klein's algorithm).

        The value of the flow stays the same.

        Returns:
            The number of cancelled cycles.
        """
        nodes, edges = len(self.network.start) - 1, len(self.network.end)
        sizes = [nodes] * 3 + [nodes + 1] + [edges] * 4
        search = Search._make(np.zeros(size, np.int64) for size in sizes)
        # A search relaxes all edges once per node, and there may be a cycle for every node.
        work = nodes * nodes * edges
        # Comparing a run first is faster only where it compiles to a few vector instructions.
        least_run = _LEAST_RUN if _cancel_cycles.is_worth_compiling(work=work) else edges + 1
        cancelled: int = _cancel_cycles(self.network, search, least_run, work=work)
        return cancelled


@kernel_helper
def _push(edge: Any, amount: Any, network: Any) -> None:
    # As in Kafka, a given edge loses flow if its reverse edge gets some.
    reverse = network.reverse[edge]
    network.residual[edge] -= amount
    if network.forward[edge]:
        network.flow[edge] += amount
    network.residual[reverse] += amount
    if network.forward[reverse] and network.flow[reverse] >= amount:
        network.flow[reverse] -= amount


@kernel("int64(ResidualNetwork, int64[::1], int64[::1])", ResidualNetwork)
def _maximize(network: Any, parent: Any, queue: Any) -> int:
    # The result is the added flow.
    start, end, residual = network.start, network.end, network.residual
    nodes = len(start) - 1
    sink = nodes - 1
    total = 0
    while True:
        for node in range(nodes):
            parent[node] = -1
        parent[0] = -2
        queue[0] = 0
        head, tail = 0, 1
        while head < tail and parent[sink] == -1:
            node = queue[head]
            head += 1
            for edge in range(start[node], start[node + 1]):
                neighbour = end[edge]
                if parent[neighbour] != -1 or residual[edge] <= 0:
                    continue
                parent[neighbour] = edge
                if neighbour == sink:
                    break
                queue[tail] = neighbour
                tail += 1
        if parent[sink] == -1:
            return total
        amount = residual[parent[sink]]
        node = sink
        while node != 0:
            amount = min(amount, residual[parent[node]])
            node = network.origin[parent[node]]
        node = sink
        while node != 0:
            edge = parent[node]
            _push(edge, amount, network)
            node = network.origin[edge]
        total += amount


@kernel_helper
def _list_usable_edges(network: Any, search: Any) -> None:
    first, end, run_end = search.first, search.end, search.run_end
    nodes = len(network.start) - 1
    at = 0
    for node in range(nodes):
        first[node] = at
        for edge in range(network.start[node], network.start[node + 1]):
            if network.residual[edge] != 0:
                end[at] = network.end[edge]
                search.cost[at] = network.cost[edge]
                search.edge[at] = edge
                at += 1
    first[nodes] = at
    for node in range(nodes):
        at = first[node + 1] - 1
        while at >= first[node]:
            run_end[at] = at + 1
            if at + 1 < first[node + 1] and end[at + 1] == end[at] + 1:
                run_end[at] = run_end[at + 1]
            at -= 1


@kernel_helper
def _find_cycle(search: Any, least_run: Any) -> int:
    """Find a cycle of negative cost in a flow network with the Bellman-Ford algorithm.

    The result is a node from which the parent nodes lead into the cycle, or -1 if there is no
    cycle.

    Args:
        search: working arrays of the algorithm.
        least_run: smallest number of edges to consecutive nodes that is compared at once.
    """
    distance, stale = search.distance, search.stale
    end, cost = search.end, search.cost
    nodes = len(search.first) - 1
    # Kafka adds a source with free edges to all nodes, so there is one round more than nodes.
    for turn in range(nodes + 1):
        changed = 0
        for node in range(nodes):
            if stale[node] == 0:
                continue
            stale[node] = 0
            base = distance[node]
            at, last = search.first[node], search.first[node + 1]
            while at < last:
                stop = search.run_end[at]
                if stop - at >= least_run:
                    neighbour = end[at]
                    closer = 0
                    for step in range(stop - at):
                        closer |= base + cost[at + step] < distance[neighbour + step]
                    if closer == 0:
                        at = stop
                        continue
                while at < stop:
                    neighbour = end[at]
                    if distance[neighbour] > base + cost[at]:
                        distance[neighbour] = base + cost[at]
                        search.parent[neighbour] = search.edge[at]
                        stale[neighbour] = 1
                        changed = 1
                        if turn == nodes:
                            return int(neighbour)
                    at += 1
        if changed == 0:
            return -1
    return -1


@kernel("int64(ResidualNetwork, Search, int64)", ResidualNetwork, Search)
def _cancel_cycles(network: Any, search: Any, least_run: int) -> int:
    # The result is the number of cycles.
    parent, stale = search.parent, search.stale
    nodes = len(network.start) - 1
    cancelled = 0
    while True:
        _list_usable_edges(network, search)
        for node in range(nodes):
            search.distance[node] = 0
            parent[node] = -1
            stale[node] = 1
        node = _find_cycle(search, least_run)
        if node < 0:
            return cancelled
        # Follow the parents until a node repeats: that node is on the cycle.
        for other in range(nodes):
            stale[other] = 0
        while stale[node] == 0:
            stale[node] = 1
            node = network.origin[parent[node]]
        last = node
        amount = network.residual[parent[node]]
        node = network.origin[parent[node]]
        while node != last:
            amount = min(amount, network.residual[parent[node]])
            node = network.origin[parent[node]]
        while True:
            edge = parent[node]
            _push(edge, amount, network)
            node = network.origin[edge]
            if node == last:
                break
        cancelled += 1
