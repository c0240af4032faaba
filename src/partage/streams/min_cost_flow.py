"""X"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.kernels import kernel, piece

__all__ = ["FlowGraph"]

Int64Array = NDArray[np.int64]

#: Edges to neighbouring nodes that are worth a look at all of them together.
_RUN = 8


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
        nodes, edges = len(self.start) - 1, len(self.end)
        scratch = np.zeros((3, nodes), np.int64)
        usable = np.zeros((4, edges), np.int64)
        # A search goes over the edges once a node, and there may be a cycle for every node.
        work = nodes * nodes * edges
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
            np.zeros(nodes + 1, np.int64),
            usable[0],
            usable[1],
            usable[2],
            usable[3],
            # Looking at a run first pays where that is compiled to a few instructions.
            _RUN if _cheapen.pays(work=work) else edges + 1,
            work=work,
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


@piece
def _list_usable(  # noqa: PLR0917 - a piece of kernels takes arrays by place
    start: Any,
    end: Any,
    cost: Any,
    residual: Any,
    first: Any,
    usable_end: Any,
    usable_cost: Any,
    usable_edge: Any,
    run: Any,
) -> None:
    """List the edges with room, by node, and where the run of each one to neighbours ends."""
    nodes = len(start) - 1
    at = 0
    for node in range(nodes):
        first[node] = at
        for edge in range(start[node], start[node + 1]):
            if residual[edge] != 0:
                usable_end[at] = end[edge]
                usable_cost[at] = cost[edge]
                usable_edge[at] = edge
                at += 1
    first[nodes] = at
    for node in range(nodes):
        at = first[node + 1] - 1
        while at >= first[node]:
            run[at] = at + 1
            if at + 1 < first[node + 1] and usable_end[at + 1] == usable_end[at] + 1:
                run[at] = run[at + 1]
            at -= 1


@piece
def _search(  # noqa: PLR0917 - a piece of kernels takes arrays by place
    distance: Any,
    parent: Any,
    stale: Any,
    first: Any,
    usable_end: Any,
    usable_cost: Any,
    usable_edge: Any,
    run: Any,
    least_run: Any,
) -> int:
    """The node that still came closer in the last round, -1 if there is no negative cycle."""
    nodes = len(first) - 1
    # Kafka's extra source comes first, reaches every node at no cost, and counts as a node.
    for turn in range(nodes + 1):
        changed = 0
        for node in range(nodes):
            if stale[node] == 0:
                continue
            stale[node] = 0
            mine = distance[node]
            at, last = first[node], first[node + 1]
            while at < last:
                stop = run[at]
                if stop - at >= least_run:
                    there = usable_end[at]
                    closer = 0
                    for step in range(stop - at):
                        closer |= mine + usable_cost[at + step] < distance[there + step]
                    if closer == 0:
                        at = stop
                        continue
                while at < stop:
                    there = usable_end[at]
                    if distance[there] > mine + usable_cost[at]:
                        distance[there] = mine + usable_cost[at]
                        parent[there] = usable_edge[at]
                        stale[there] = 1
                        changed = 1
                        if turn == nodes:
                            return int(there)
                    at += 1
        if changed == 0:
            return -1
    return -1


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64)"
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
    first: Any,
    usable_end: Any,
    usable_cost: Any,
    usable_edge: Any,
    run: Any,
    least_run: int,
) -> int:
    nodes = len(start) - 1
    cancelled = 0
    while True:
        _list_usable(start, end, cost, residual, first, usable_end, usable_cost, usable_edge, run)
        for node in range(nodes):
            distance[node] = 0
            parent[node] = -1
            stale[node] = 1
        node = _search(
            distance, parent, stale, first, usable_end, usable_cost, usable_edge, run, least_run
        )
        if node < 0:
            return cancelled
        for other in range(nodes):
            stale[other] = 0
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
