"""A residual network on arrays: maximum flow and minimum cost, whole sweeps in NumPy.

The networks here are wide and shallow (topics, members, steps of load), so searching by
breadth costs a few array operations, and only augmenting walks arc by arc in Python, on
the small part of the network that lies on shortest paths.

A good first flow: every topic spread over its members in proportion to their room.

Only a start for the exact search, but a close one: what it leaves for augmenting paths is
little. All integers, so that it is the same on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.errors import ProblemTooLargeError

__all__ = [
    "LARGEST_NETWORK",
    "MOST_WORK",
    "UNBOUNDED",
    "Budget",
    "IntArray",
    "Network",
    "gathered",
    "spread",
    "summed",
]


IntArray = NDArray[np.int64]

#: Capacity of an arc that nothing bounds; sums of a few of them still fit int64.
UNBOUNDED = 1 << 40

_FAR = 1 << 40
#: What a sweep of array operations costs besides its arcs, counted in arcs.
_A_SWEEP = 500

#: Most arcs of a network that is searched at all.
LARGEST_NETWORK = 2_000_000

#: Arcs that one question may look at, all searches together: ten seconds, roughly.
MOST_WORK = 150_000_000


class Budget:
    """Work that may still be done; counted, not timed, so that every machine agrees.

    >>> budget = Budget(10)
    >>> budget.spend(8), budget.left
    (None, 2)
    """

    __slots__ = ("left", "whole")

    def __init__(self, whole: int = MOST_WORK) -> None:
        self.whole = self.left = whole

    def spend(self, work: int) -> None:
        """Count work down.

        Raises:
            ProblemTooLargeError: there is nothing left.
        """
        self.left -= work
        if self.left < 0:
            raise ProblemTooLargeError(
                f"the exact answer needs more than {self.whole} steps of searching"
            )


def gathered(start: IntArray, rows: IntArray) -> IntArray:
    """Positions of all entries of some rows of a CSR array, row after row.

    >>> gathered(np.array([0, 2, 2, 5]), np.array([2, 0])).tolist()
    [2, 3, 4, 0, 1]
    """
    sizes = start[rows + 1] - start[rows]
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    shift: IntArray = np.repeat(start[rows] - (ends - sizes), sizes)
    return np.arange(total, dtype=np.int64) + shift


class Network:
    """Arcs with what is left of their capacity; arc ``2i + 1`` is the way back of ``2i``.

    Args:
        nodes: number of nodes.
        tail, head: int64[A], the nodes of each arc.
        capacity: int64[A], at most `UNBOUNDED`.
        cost: int64[A], or None for all zero; ``price`` must make every reduced cost
            ``cost + price[head] - price[tail]`` at least zero.
        price: int64[N], cost of the way to the sink, zero at the sink; None for all zero.
        budget: what searching may cost, shared by the networks of one question.
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
        budget: Budget | None = None,
    ) -> None:
        self.budget = Budget() if budget is None else budget
        self.budget.spend(2 * len(tail))
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

    def flow(self) -> IntArray:
        """int64[A]: what flows over each arc."""
        flow: IntArray = self.left[1::2].copy()
        return flow

    def push(self, arcs: IntArray, amount: IntArray) -> None:
        """Put a flow on arcs, as a start; it must fit, and balance at each inner node."""
        self.left[2 * arcs] -= amount
        self.left[2 * arcs + 1] += amount

    def widen(self, arcs: IntArray, amount: IntArray) -> None:
        """Give arcs more capacity."""
        self.left[2 * arcs] += amount

    def reachable(self, nodes: IntArray) -> NDArray[np.bool_]:
        """bool[N]: nodes that some unit could still reach from the given ones.

        Ways through the source or the sink do not count.
        """
        seen = np.zeros(self.nodes, bool)
        seen[[self.source, self.sink]] = True
        seen[nodes] = True
        while len(nodes):
            arcs = self.out[gathered(self.start, nodes)]
            heads = self.head[arcs[self.left[arcs] > 0]]
            nodes = np.unique(heads[~seen[heads]])
            seen[nodes] = True
        seen[[self.source, self.sink]] = False
        return seen

    def fill(self) -> None:
        """Augment along arcs of reduced cost zero until no such path is left (Dinic)."""
        if self.cost.any() or self.price.any():
            free = (self.cost + self.price[self.head] - self.price[self.tail]) == 0
        else:
            free = np.ones(len(self.head), bool)
        while True:
            level = self._levels(free)
            if level[self.source] < 0:
                return
            self._block(level, free)

    def reprice(self) -> bool:
        """Raise prices by the distance to the sink, no further than the source's.

        Returns:
            False if the sink cannot be reached from the source at all.
        """
        reduced = self.cost + self.price[self.head] - self.price[self.tail]
        distance = np.full(self.nodes, _FAR, np.int64)
        distance[self.sink] = 0
        nodes = np.array([self.sink], np.int64)
        while len(nodes):
            back = self.out[gathered(self.start, nodes)] ^ 1
            self.budget.spend(len(back) + _A_SWEEP)
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

    def _levels(self, free: NDArray[np.bool_]) -> IntArray:
        """int64[N]: number of free arcs to the sink, -1 beyond the source's own level."""
        level = np.full(self.nodes, -1, np.int64)
        level[self.sink] = 0
        nodes = np.array([self.sink], np.int64)
        depth = 0
        while len(nodes) and level[self.source] < 0:
            depth += 1
            back = self.out[gathered(self.start, nodes)] ^ 1
            self.budget.spend(len(back) + _A_SWEEP)
            before = self.tail[back[(self.left[back] > 0) & free[back]]]
            nodes = np.unique(before[level[before] < 0])
            level[nodes] = depth
        return level

    def _block(self, level: IntArray, free: NDArray[np.bool_]) -> None:
        """One blocking flow on the arcs that lead one level down."""
        arcs: list[IntArray] = []
        nodes = np.array([self.source], np.int64)
        while len(nodes) and nodes[0] != self.sink:
            out = self.out[gathered(self.start, nodes)]
            self.budget.spend(len(out) + _A_SWEEP)
            down = level[self.head[out]] == level[self.tail[out]] - 1
            out = out[down & (self.left[out] > 0) & free[out]]
            arcs.append(out)
            nodes = np.unique(self.head[out])
        used = np.concatenate(arcs)
        used = used[np.argsort(self.tail[used], kind="stable")]
        left = self.left[used]
        after = _walked(
            np.searchsorted(self.tail[used], np.arange(self.nodes + 1)).tolist(),
            self.head[used].tolist(), left.tolist(), self.source, self.sink,
        )  # fmt: skip
        pushed = left - np.array(after, np.int64)
        self.left[used] -= pushed
        self.left[used ^ 1] += pushed


def _walked(
    start: list[int], head: list[int], left: list[int], source: int, sink: int
) -> list[int]:
    """What is left of each arc after a blocking flow; arcs in CSR order of their tails."""
    at = start[:-1]
    path: list[int] = []
    node = source
    while True:
        if node == sink:
            amount = min(left[a] for a in path)
            cut = 0
            for i in range(len(path) - 1, -1, -1):
                left[path[i]] -= amount
                if left[path[i]] == 0:
                    cut = i
            # Walk on from the first arc that is now full.
            node = source if cut == 0 else head[path[cut - 1]]
            del path[cut:]
        arc, end = at[node], start[node + 1]
        while arc < end and left[arc] == 0:
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
            return left


_ROUNDS = 2
# Rows start at different places of their rounding, or all would round up the same columns:
# multiples of the golden ratio, in 1024ths.
_GOLDEN = 633


def summed(at: IntArray, amount: IntArray, size: int) -> IntArray:
    """int64[size]: sums of amounts by position; exact, being far below 2**53."""
    return np.bincount(at, amount, minlength=size).astype(np.int64)


def spread(row: IntArray, column: IntArray, supply: IntArray, room: IntArray) -> IntArray:
    """int64[A]: an amount for each arc (row, column) within supplies and rooms.

    Args:
        row: int64[A], ascending.
        column: int64[A].
        supply: int64[rows], at most 2**30 each.
        room: int64[columns], at most 2**31 in all.

    >>> arcs = np.array([0, 0, 1]), np.array([0, 1, 1])
    >>> amount = spread(*arcs, np.array([3, 1]), np.array([2, 2]))
    >>> bool(amount[:2].sum() <= 3), bool(amount[1:].sum() <= 2)
    (True, True)
    """
    amount = np.zeros(len(row), np.int64)
    by_column = np.argsort(column, kind="stable")
    supply, room = supply.copy(), room.copy()
    for _ in range(_ROUNDS):
        step = _clipped(_shares(row, column, supply, room), column, by_column, room)
        if not step.any():
            break
        amount += step
        supply -= summed(row, step, len(supply))
        room -= summed(column, step, len(room))
    return amount


def _shares(row: IntArray, column: IntArray, supply: IntArray, room: IntArray) -> IntArray:
    """Each row's supply in whole numbers, in proportion to the columns' room."""
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
    """The shares, cut where a column has no more room; earlier rows come first."""
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
