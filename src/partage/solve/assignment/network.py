"""Maximum flow by Dinic's algorithm and minimum-cost flow by the primal-dual method, on arrays.

E. A. Dinic (1970); Ahuja, Magnanti and Orlin, "Network Flows" (1993), section 9.8 (primal-dual form
of successive shortest paths). Node prices are dual variables: `FlowNetwork.raise_prices` keeps all
reduced costs at zero or more, and `FlowNetwork.maximise_flow` fills the arcs whose reduced cost is
zero.

The networks are wide and shallow (topics, members, steps of load). Breadth-first sweeps therefore
run as NumPy operations. Only augmentation visits single arcs in Python, on the small part of the
network that is on shortest paths.

`proportional_flow` computes a feasible first flow that is close to a maximum one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.errors import ProblemTooLargeError

__all__ = [
    "LARGEST_NETWORK",
    "MOST_WORK",
    "UNBOUNDED",
    "FlowNetwork",
    "IntArray",
    "WorkBudget",
    "csr_positions",
    "proportional_flow",
    "sum_by_position",
]


IntArray = NDArray[np.int64]

#: Capacity of an arc that nothing bounds; sums of a few of them still fit int64.
UNBOUNDED = 1 << 40

#: Distance of a node from which no path leads to the sink; above any sum of costs.
_FAR = 1 << 40
#: Fixed cost of one sweep of array operations, in arcs.
_SWEEP_OVERHEAD = 500

#: Most arcs of a network that is searched at all.
LARGEST_NETWORK = 2_000_000

#: Arcs that the searches of one problem may visit in all: about ten seconds.
MOST_WORK = 150_000_000


class WorkBudget:
    """Limit of the work of flow searches, so that a too large problem ends with an error.

    Work is counted in visited arcs, not in time, so that results do not depend on the machine.

    >>> budget = WorkBudget(10)
    >>> budget.subtract_work(8), budget.left
    (None, 2)
    """

    __slots__ = ("left", "whole")

    def __init__(self, whole: int = MOST_WORK) -> None:
        self.whole = self.left = whole

    def subtract_work(self, work: int) -> None:
        """Count work that a flow search has done, and raise an error if the limit is exceeded.

        Args:
            work: number of visited arcs.

        Raises:
            ProblemTooLargeError: the budget is exhausted.
        """
        self.left -= work
        if self.left < 0:
            raise ProblemTooLargeError(
                f"the exact answer needs more than {self.whole} steps of searching"
            )


def csr_positions(start: IntArray, rows: IntArray) -> IntArray:
    """Return the positions of the entries of the given rows in a sparse matrix (CSR arrays).

    For example, if ``start`` is [0, 2, 3], the rows 1 and 0 have the positions 2, 0, 1.

    Args:
        start: offset of each row.
        rows: the rows, in the order of the result.

    >>> csr_positions(np.array([0, 2, 2, 5]), np.array([2, 0])).tolist()
    [2, 3, 4, 0, 1]
    """
    sizes = start[rows + 1] - start[rows]
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    shift: IntArray = np.repeat(start[rows] - (ends - sizes), sizes)
    return np.arange(total, dtype=np.int64) + shift


class FlowNetwork:
    """A flow network on NumPy arrays, with searches for maximum flow and for minimum-cost flow.

    Arc ``2i`` is the i-th given arc, and ``2i + 1`` is its reverse:

        given arcs      0: s -> a (capacity 3)     1: a -> t (capacity 2)
        after 2 units   left = [1, 2, 0, 2]        flow() = left[1::2] = [2, 2]

    Args:
        nodes: number of nodes.
        tail, head: int64[A], the nodes of each arc.
        capacity: int64[A], at most `UNBOUNDED`.
        cost: int64[A], or None for all zero; ``price`` must make every reduced cost
            ``cost + price[head] - price[tail]`` at least zero.
        price: int64[N], dual price of each node (cost of the way to the sink, zero at the
            sink); None for all zero.
        budget: limit of work, shared by the networks of one problem.
    """

    def __init__(
        self,
        nodes: int,
        tail: IntArray,
        head: IntArray,
        capacity: IntArray,
        *,
        source: int,
        sink: int,
        cost: IntArray | None = None,
        price: IntArray | None = None,
        budget: WorkBudget | None = None,
    ) -> None:
        self.budget = WorkBudget() if budget is None else budget
        self.budget.subtract_work(2 * len(tail))
        self.nodes, self.source, self.sink = nodes, source, sink
        self.tail = np.stack([tail, head], axis=1).reshape(-1)
        self.head = np.stack([head, tail], axis=1).reshape(-1)
        self.left = np.zeros(2 * len(tail), np.int64)
        self.left[0::2] = capacity
        one_way = np.zeros(len(tail), np.int64) if cost is None else cost
        self.cost = np.stack([one_way, -one_way], axis=1).reshape(-1)
        self.price = np.zeros(nodes, np.int64) if price is None else price.copy()
        self.out = np.argsort(self.tail, kind="stable")
        counts = np.bincount(self.tail, minlength=nodes)
        self.start = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])

    def flow_by_arc(self) -> IntArray:
        """Return the current flow over each arc of the network (int64[arcs]).

        The arcs have the order in which they were given.
        """
        flow: IntArray = self.left[1::2].copy()
        return flow

    def add_flow(self, arcs: IntArray, amount: IntArray) -> None:
        """Add flow to some arcs, without checking capacities or flow conservation.

        It starts a search with a flow that is known already.

        Args:
            arcs: indices of the arcs.
            amount: the flow to add to each.
        """
        self.left[2 * arcs] -= amount
        self.left[2 * arcs + 1] += amount

    def increase_capacities(self, arcs: IntArray, amount: IntArray) -> None:
        """Increase the capacities of some arcs in place; the current flow stays valid.

        Args:
            arcs: indices of the arcs.
            amount: the capacity to add to each.
        """
        self.left[2 * arcs] += amount

    def reachable_nodes(self, nodes: IntArray) -> NDArray[np.bool_]:
        """Return which nodes can be reached over arcs with free capacity, as a mask (bool[nodes]).

        ``nodes`` are the start nodes, which count as reached. Paths through the source or the sink
        are ignored.
        """
        seen = np.zeros(self.nodes, bool)
        seen[[self.source, self.sink]] = True
        seen[nodes] = True
        while len(nodes):
            arcs = self.out[csr_positions(self.start, nodes)]
            heads = self.head[arcs[self.left[arcs] > 0]]
            nodes = np.unique(heads[~seen[heads]])
            seen[nodes] = True
        seen[[self.source, self.sink]] = False
        return seen

    def maximise_flow(self) -> None:
        """Send as much flow as possible from source to sink over arcs with reduced cost zero.

        The reduced cost of an arc is its cost plus the dual price of its head minus that of its
        tail. Without costs and prices, the result is a maximum flow. The algorithm is Dinic's.
        """
        if self.cost.any() or self.price.any():
            free = (self.cost + self.price[self.head] - self.price[self.tail]) == 0
        else:
            free = np.ones(len(self.head), bool)
        while True:
            level = self._distances_to_sink(free)
            if level[self.source] < 0:
                return
            self._block(level, free)

    def raise_prices(self) -> bool:
        """Raise the dual prices of the nodes so that flow can be sent along a shortest path.

        Flow is only sent over arcs with reduced cost zero (cost plus price of the head minus price
        of the tail). Each price rises by the node's distance to the sink, at most by the source's,
        so that the arcs of a shortest path get this cost. Return False if no path leads from the
        source to the sink.
        """
        reduced = self.cost + self.price[self.head] - self.price[self.tail]
        distance = np.full(self.nodes, _FAR, np.int64)
        distance[self.sink] = 0
        nodes = np.array([self.sink], np.int64)
        while len(nodes):
            back = self.out[csr_positions(self.start, nodes)] ^ 1
            self.budget.subtract_work(len(back) + _SWEEP_OVERHEAD)
            back = back[self.left[back] > 0]
            nearer = distance[self.head[back]] + reduced[back]
            before = self.tail[back]
            better = nearer < distance[before]
            before, nearer = before[better], nearer[better]
            np.minimum.at(distance, before, nearer)
            nodes = np.unique(before)
        if distance[self.source] >= _FAR:
            return False
        self.price += np.minimum(distance, distance[self.source])
        return True

    def _distances_to_sink(self, free: NDArray[np.bool_]) -> IntArray:
        """Return the distance of each node to the sink, counted in arcs (int64[nodes]).

        Paths only use arcs with free capacity whose reduced cost is zero (``free``). Nodes that are
        farther away than the source have -1.
        """
        level = np.full(self.nodes, -1, np.int64)
        level[self.sink] = 0
        nodes = np.array([self.sink], np.int64)
        depth = 0
        while len(nodes) and level[self.source] < 0:
            depth += 1
            back = self.out[csr_positions(self.start, nodes)] ^ 1
            self.budget.subtract_work(len(back) + _SWEEP_OVERHEAD)
            before = self.tail[back[(self.left[back] > 0) & free[back]]]
            nodes = np.unique(before[level[before] < 0])
            level[nodes] = depth
        return level

    def _block(self, level: IntArray, free: NDArray[np.bool_]) -> None:
        arcs: list[IntArray] = []
        nodes = np.array([self.source], np.int64)
        while len(nodes) and nodes[0] != self.sink:
            out = self.out[csr_positions(self.start, nodes)]
            self.budget.subtract_work(len(out) + _SWEEP_OVERHEAD)
            down = level[self.head[out]] == level[self.tail[out]] - 1
            out = out[down & (self.left[out] > 0) & free[out]]
            arcs.append(out)
            nodes = np.unique(self.head[out])
        used = np.concatenate(arcs)
        used = used[np.argsort(self.tail[used], kind="stable")]
        left = self.left[used]
        after = _augment_paths(
            np.searchsorted(self.tail[used], np.arange(self.nodes + 1)).tolist(),
            self.head[used].tolist(), left.tolist(), self.source, self.sink,
        )  # fmt: skip
        pushed = left - np.array(after, np.int64)
        self.left[used] -= pushed
        self.left[used ^ 1] += pushed


def _augment_paths(
    start: list[int], head: list[int], residual: list[int], source: int, sink: int
) -> list[int]:
    """Send flow from source to sink until every path of a layered network has a full arc.

    This blocking flow is one phase of Dinic's algorithm. Return the free capacity that is left on
    each arc.

    Args:
        start: offset of each node's arcs in ``head`` (compressed sparse rows).
        head: the node to which each arc leads.
        residual: free capacity of each arc; changed in place and returned.
        source: node at which the flow begins.
        sink: node at which it ends.
    """
    at = start[:-1]
    path: list[int] = []
    node = source
    while True:
        if node == sink:
            amount = min(residual[a] for a in path)
            cut = 0
            for i in range(len(path) - 1, -1, -1):
                residual[path[i]] -= amount
                if residual[path[i]] == 0:
                    cut = i
            # Walk on from the first arc that is now full.
            node = source if cut == 0 else head[path[cut - 1]]
            del path[cut:]
        arc, end = at[node], start[node + 1]
        while arc < end and residual[arc] == 0:
            arc += 1
        at[node] = arc
        if arc < end:
            path.append(arc)
            node = head[arc]
        elif path:
            # A dead end: the arc that led here is of no more use in this phase.
            path.pop()
            node = source if not path else head[path[-1]]
            at[node] += 1
        else:
            return residual


#: Rounds of `proportional_flow`; the exact search places the rest.
_ROUNDS = 2
#: Offset of each row's rounding, in 1024ths (the golden ratio): otherwise all rows would round up
#: the same columns.
_GOLDEN = 633


def sum_by_position(position: IntArray, amount: IntArray, size: int) -> IntArray:
    """Add up the amounts that have the same index, for example the partitions of each member.

    For example, indices 0, 2, 0 and amounts 1, 5, 3 give the sums 4, 0, 5 (int64[size]).

    Args:
        position: the index of each amount in the result.
        amount: the amounts; sums are exact below 2**53.
        size: length of the result.
    """
    return np.bincount(position, amount, minlength=size).astype(np.int64)


def proportional_flow(
    row: IntArray, column: IntArray, supply: IntArray, capacity: IntArray
) -> IntArray:
    """Divide the supply of each source among its targets, in proportion to the targets' capacities.

    The result is a good first flow for an exact search. Sources are rows and targets are columns of
    a matrix with A entries (arcs).

    Args:
        row: int64[A], the row of each arc, ascending.
        column: int64[A], the column of each arc.
        supply: int64[rows], at most 2**30 each.
        capacity: int64[columns], the capacity of each column; at most 2**31 in all.

    Returns:
        int64[A], the amount on each arc.

    >>> arcs = np.array([0, 0, 1]), np.array([0, 1, 1])
    >>> amount = proportional_flow(*arcs, np.array([3, 1]), np.array([2, 2]))
    >>> bool(amount[:2].sum() <= 3), bool(amount[1:].sum() <= 2)
    (True, True)
    """
    amount = np.zeros(len(row), np.int64)
    by_column = np.argsort(column, kind="stable")
    supply, capacity = supply.copy(), capacity.copy()
    for _ in range(_ROUNDS):
        step = _clipped(_shares(row, column, supply, capacity), column, by_column, capacity)
        if not step.any():
            break
        amount += step
        supply -= sum_by_position(row, step, len(supply))
        capacity -= sum_by_position(column, step, len(capacity))
    return amount


def _shares(row: IntArray, column: IntArray, supply: IntArray, room: IntArray) -> IntArray:
    if len(row) == 0:
        return np.zeros(0, np.int64)
    weight = np.minimum(room[column], supply[row])
    upto = np.cumsum(weight)
    first = np.searchsorted(row, np.arange(len(supply) + 1))
    before = np.concatenate([np.zeros(1, np.int64), upto])[first]
    upto = upto - before[row]
    total = np.diff(before)
    give = np.minimum(supply, total)
    offset = total * (np.arange(len(supply)) * _GOLDEN % 1024) // 1024
    whole = (give[row] * upto + offset[row]) // np.maximum(total[row], 1)
    lower = np.concatenate([np.zeros(1, np.int64), whole[:-1]])
    lower[first[:-1][first[:-1] < len(row)]] = 0
    share: IntArray = np.maximum(whole - lower, 0)
    return share


def _clipped(share: IntArray, column: IntArray, by_column: IntArray, room: IntArray) -> IntArray:
    # Earlier sources take precedence where a target has no more room.
    of = column[by_column]
    sorted_share = share[by_column]
    upto = np.cumsum(sorted_share)
    first = np.searchsorted(of, np.arange(len(room)))
    before = np.concatenate([np.zeros(1, np.int64), upto])[first]
    taken = upto - sorted_share - before[of]
    fits = np.minimum(sorted_share, np.maximum(room[of] - taken, 0))
    out = np.empty_like(share)
    out[by_column] = fits
    return out
