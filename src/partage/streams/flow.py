"""Minimum cost flow the way Kafka does it, so that ties have Kafka's answer (KIP-925).

Any solver finds the least cost; which of several cheapest plans it finds depends on the
order of its steps. So the steps here are those of ``Graph`` of kafka-streams 4.3.1: a first
flow is given (or found by breadth-first search), then negative cycles are cancelled one by
one, each the first that Bellman and Ford meet in the order of node numbers.

Two things differ, and change nothing: a node whose distance did not change since its edges
were looked at is passed over, and a round without any change ends the search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.kernels import kernel, piece

__all__ = ["FlowGraph"]

Int64Array = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FlowGraph:
    """A network and its flow; every edge once forward and once back, by (from, to).

    Attributes:
        start: int64[N + 1], first edge of each node.
        origin, end: nodes of each edge.
        cost, residual, flow: of each edge; residual and flow change.
        forward: 1 for edges of the network, 0 for their counterparts.
        counter: the counterpart of each edge.
        given: place of each given edge, in the order given.
    """

    start: Int64Array
    origin: Int64Array
    end: Int64Array
    cost: Int64Array
    residual: Int64Array
    flow: Int64Array
    forward: Int64Array
    counter: Int64Array
    given: Int64Array

    @classmethod
    def of(
        cls,
        origin: Int64Array,
        end: Int64Array,
        capacity: Int64Array,
        cost: Int64Array,
        flow: Int64Array,
    ) -> FlowGraph:
        """The graph of these edges. Node numbers need not be dense, only in order.

        No two edges join the same nodes, in either direction.
        """
        names, dense = np.unique(np.concatenate([origin, end]), return_inverse=True)
        edges = len(origin)
        there, back = dense[:edges], dense[edges:]
        froms = np.concatenate([there, back])
        tos = np.concatenate([back, there])
        order = np.lexsort((tos, froms))
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        counter = np.empty_like(order)
        counter[place[:edges]] = place[edges:]
        counter[place[edges:]] = place[:edges]

        def laid_out(forth: Int64Array, back: Int64Array) -> Int64Array:
            return np.ascontiguousarray(np.concatenate([forth, back])[order], np.int64)

        return cls(
            np.searchsorted(froms[order], np.arange(len(names) + 1)).astype(np.int64),
            np.ascontiguousarray(froms[order], np.int64),
            np.ascontiguousarray(tos[order], np.int64),
            laid_out(cost, -cost),
            laid_out(capacity - flow, flow),
            laid_out(flow, np.zeros_like(flow)),
            laid_out(np.ones_like(flow), np.zeros_like(flow)),
            np.ascontiguousarray(counter, np.int64),
            place[:edges].astype(np.int64),
        )

    def flows(self) -> Int64Array:
        """Flow of each given edge."""
        return self.flow[self.given]

    def fill(self) -> int:
        """Make the flow a greatest one, from the first node to the last; its size."""
        nodes = len(self.start) - 1
        scratch = np.zeros((2, nodes), np.int64)
        filled: int = _fill(
            self.start,
            self.origin,
            self.end,
            self.residual,
            self.flow,
            self.forward,
            self.counter,
            scratch[0],
            scratch[1],
            work=2 * nodes * nodes,
        )
        return filled

    def cheapen(self) -> int:
        """Cancel negative cycles until there is none; how many there were."""
        nodes = len(self.start) - 1
        scratch = np.zeros((3, nodes), np.int64)
        cancelled: int = _cheapen(
            self.start,
            self.origin,
            self.end,
            self.cost,
            self.residual,
            self.flow,
            self.forward,
            self.counter,
            scratch[0],
            scratch[1],
            scratch[2],
            # A search goes over the edges once a node, and there may be a cycle for every node.
            work=nodes * nodes * len(self.end),
        )
        return cancelled


@piece
def _push(  # noqa: PLR0917 - a piece of kernels takes arrays by place
    edge: Any, least: Any, residual: Any, flow: Any, forward: Any, counter: Any
) -> None:
    """Kafka's rule for one edge of a path; the counterpart gives back what it carried."""
    back = counter[edge]
    residual[edge] -= least
    if forward[edge]:
        flow[edge] += least
    residual[back] += least
    if forward[back] and flow[back] >= least:
        flow[back] -= least


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1])"
)
def _fill(  # noqa: PLR0917 - a kernel takes arrays by place
    start: Any,
    origin: Any,
    end: Any,
    residual: Any,
    flow: Any,
    forward: Any,
    counter: Any,
    parent: Any,
    queue: Any,
) -> int:
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
                there = end[edge]
                if parent[there] != -1 or residual[edge] <= 0:
                    continue
                parent[there] = edge
                if there == sink:
                    break
                queue[tail] = there
                tail += 1
        if parent[sink] == -1:
            return total
        least = residual[parent[sink]]
        node = sink
        while node != 0:
            least = min(least, residual[parent[node]])
            node = origin[parent[node]]
        node = sink
        while node != 0:
            edge = parent[node]
            _push(edge, least, residual, flow, forward, counter)
            node = origin[edge]
        total += least


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1])"
)
def _cheapen(  # noqa: PLR0917 - a kernel takes arrays by place
    start: Any,
    origin: Any,
    end: Any,
    cost: Any,
    residual: Any,
    flow: Any,
    forward: Any,
    counter: Any,
    distance: Any,
    parent: Any,
    stale: Any,
) -> int:
    nodes = len(start) - 1
    cancelled = 0
    while True:
        # Kafka's extra source comes first, reaches every node at no cost, and counts as a node.
        for node in range(nodes):
            distance[node] = 0
            parent[node] = -1
            stale[node] = 1
        found = -1
        turn = 0
        while found < 0 and turn <= nodes:
            changed = 0
            for node in range(nodes):
                if stale[node] == 0:
                    continue
                stale[node] = 0
                for edge in range(start[node], start[node + 1]):
                    if residual[edge] == 0:
                        continue
                    there = end[edge]
                    if distance[there] > distance[node] + cost[edge]:
                        distance[there] = distance[node] + cost[edge]
                        parent[there] = edge
                        stale[there] = 1
                        changed = 1
                        if turn == nodes:
                            found = there
                            break
                if found >= 0:
                    break
            if changed == 0:
                return cancelled
            turn += 1
        for node in range(nodes):
            stale[node] = 0
        node = found
        while stale[node] == 0:
            stale[node] = 1
            node = origin[parent[node]]
        last = node
        least = residual[parent[node]]
        node = origin[parent[node]]
        while node != last:
            least = min(least, residual[parent[node]])
            node = origin[parent[node]]
        while True:
            edge = parent[node]
            _push(edge, least, residual, flow, forward, counter)
            node = origin[edge]
            if node == last:
                break
        cancelled += 1
