"""Loads by weight: a good plan by keeping, filling and exchanging; no promise but its bounds.

Balancing weights is NP-hard (it is scheduling on unrelated machines), so this searches: what
can stay stays, the rest goes heaviest first to the least loaded, and then single items and
pairs change hands as long as that helps. A step helps if it lowers, the first before the next:
what exceeds capacities; the larger (then the smaller) of the two relative loads; cost; moves.
Each such step lowers the loads sorted from the largest, so that searching ends; counted work
ends it earlier. Weights are whole numbers in float64: sums are exact in any order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heapreplace, nsmallest

import numpy as np
from numpy.typing import NDArray

from partage.solve.flow import IntArray

__all__ = ["Bearers", "Items", "Weighing", "improved"]

#: Steps of searching, all in all: about a second.
MOST_STEPS = 200_000
_NEIGHBOURS = 4
_OFFERS, _PARTNERS = 32, 2
_TARGETS = 3
_MANY = 6

#: Weight, whether it is where it was, item.
_Entry = tuple[float, bool, int]
_NOWHERE: dict[int, int] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """What is to be borne.

    Attributes:
        weight: float64[n], whole numbers.
        kind: int64[n]; open_groups: for each kind the groups who may bear it.
        cost: int64[K, columns]; profile: int64[n], row of each item in it.
        owned: int64[n], partitions in the item that somebody had.
        homes: for each item, how many of these each bearer had (places ascending).
    """

    weight: NDArray[np.float64]
    kind: IntArray
    open_groups: list[list[int]]
    cost: IntArray
    profile: IntArray
    owned: IntArray
    homes: dict[int, dict[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class Bearers:
    """Who bears it. A group's bearers are alike in all but their homes.

    Attributes:
        group: int64[M], -1 for one who may bear nothing.
        column: list of each group's column of costs.
        speed: float64[M], above zero; capacity: float64[M], in weights, may be infinite.
    """

    group: IntArray
    column: list[int]
    speed: NDArray[np.float64]
    capacity: NDArray[np.float64]


@dataclass(slots=True, eq=False)
class Weighing:
    """A plan that is being improved.

    Attributes:
        owner: for each item its bearer, -1 for none yet.
        moves: partitions that are not where they were; steps beyond ``most_moves`` are taken
            only where there are no more moves in the end.
        tolerance: what a step must lower a relative load by.
    """

    items: Items
    bearers: Bearers
    most_moves: float = float("inf")
    tolerance: float = 0.0
    owner: list[int] = field(default_factory=list)
    moves: int = 0
    steps: int = MOST_STEPS
    load: list[float] = field(default_factory=list)
    _weight: list[float] = field(default_factory=list)
    _kind: list[int] = field(default_factory=list)
    _group: list[int] = field(default_factory=list)
    _speed: list[float] = field(default_factory=list)
    _capacity: list[float] = field(default_factory=list)
    _owned: list[int] = field(default_factory=list)
    _cost: list[list[int]] = field(default_factory=list)
    _profile: list[int] = field(default_factory=list)
    _of: dict[tuple[int, int], list[_Entry]] = field(default_factory=dict)
    _has: list[set[int]] = field(default_factory=list)
    _ranked: list[list[tuple[float, int]]] = field(default_factory=list)
    _groups: list[set[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Lists: their items are Python's own numbers, several times faster one by one.
        self._weight, self._kind = self.items.weight.tolist(), self.items.kind.tolist()
        self._owned, self._profile = self.items.owned.tolist(), self.items.profile.tolist()
        self._cost = self.items.cost[:, self.bearers.column].tolist()
        self._group, self._speed = self.bearers.group.tolist(), self.bearers.speed.tolist()
        self._capacity = self.bearers.capacity.tolist()
        self._groups = [set(one) for one in self.items.open_groups]
        self.owner = [-1] * len(self._weight)
        self.load = [0.0] * len(self._group)
        self._has = [set() for _ in self._group]

    def start(self, hints: Mapping[int, int]) -> None:
        """Keep what can be kept, and give out the rest, by hint or heaviest first."""
        for i, homes in self.items.homes.items():
            self.owner[i] = min(homes, key=lambda m: (-homes[m], m))
        self.moves = sum(
            owned - self.items.homes.get(i, {}).get(self.owner[i], 0)
            for i, owned in enumerate(self._owned)
        )
        self.most_moves = max(self.most_moves, self.moves)
        for i, m in hints.items():
            if self.owner[i] < 0 and self._fits(i, m):
                self.owner[i] = m
        for i, m in enumerate(self.owner):
            if m >= 0:
                self.load[m] += self._weight[i]
        self._fill()
        for i, m in enumerate(self.owner):
            self._of.setdefault((m, self._kind[i]), []).append(self._entry(i, m))
            self._has[m].add(self._kind[i])
        for mine in self._of.values():
            mine.sort()
        self._ranked = [[] for _ in self.bearers.column]
        for m, g in enumerate(self._group):
            if g >= 0:
                self._ranked[g].append((self.load[m], m))
        for ranked in self._ranked:
            ranked.sort()

    def _fill(self) -> None:
        """What nobody has goes to the least loaded, heaviest first.

        Members of a group differ in nothing that matters now, but their loads.
        """
        heaps: list[list[tuple[float, int]]] = [[] for _ in self.bearers.column]
        for m, g in enumerate(self._group):
            if g >= 0:
                heaps[g].append((self.load[m], m))
        for heap in heaps:
            heapify(heap)
        waiting = [i for i, m in enumerate(self.owner) if m < 0]
        for i in sorted(waiting, key=lambda i: (-self._weight[i], i)):
            groups = self.items.open_groups[self._kind[i]]
            m = heaps[groups[0]][0][1]
            if len(groups) > 1:
                m = min((heaps[g][0][1] for g in groups), key=partial(self._after, i))
            self.owner[i] = m
            self.load[m] += self._weight[i]
            heapreplace(heaps[self._group[m]], (self.load[m], m))

    def _after(self, i: int, m: int) -> tuple[float, float, int, int]:
        """How good it would be to give an item to a bearer."""
        w, load, capacity = self._weight[i], self.load[m], self._capacity[m]
        over = max(0.0, load + w - capacity) - max(0.0, load - capacity)
        return over, (load + w) / self._speed[m], self.cost(i, m), m

    def _least(self, groups: list[int], besides: int) -> Iterator[int]:
        """The least loaded bearers of some groups; of many, a few groups."""
        if len(groups) > _MANY:
            groups = nsmallest(_MANY, groups, key=self._lowest)
        for g in groups:
            for _, m in self._ranked[g][:_TARGETS]:
                if m != besides:
                    yield m

    def _lowest(self, g: int) -> tuple[bool, float, int]:
        """The least loaded bearer of a group: whether it is full, its relative load, the group."""
        load, m = self._ranked[g][0]
        return load >= self._capacity[m], load / self._speed[m], g

    def cost(self, i: int, m: int) -> int:
        """What an item costs with a bearer."""
        return self._cost[self._profile[i]][self._group[m]]

    def _stray(self, i: int, m: int) -> int:
        """Moves of an item with a bearer."""
        owned = self._owned[i]
        return owned - self.items.homes.get(i, _NOWHERE).get(m, 0) if owned else 0

    def _entry(self, i: int, m: int) -> _Entry:
        return self._weight[i], self._stray(i, m) < self._owned[i], i

    def _put(self, i: int, m: int) -> None:
        self.owner[i] = m
        self.moves += self._stray(i, m)
        self._has[m].add(self._kind[i])
        insort(self._of.setdefault((m, self._kind[i]), []), self._entry(i, m))
        self._loaded(m, self._weight[i])

    def _take(self, i: int) -> None:
        m = self.owner[i]
        self.moves -= self._stray(i, m)
        mine = self._of[m, self._kind[i]]
        del mine[bisect_left(mine, self._entry(i, m))]
        self._loaded(m, -self._weight[i])

    def _loaded(self, m: int, more: float) -> None:
        ranked = self._ranked[self._group[m]]
        del ranked[bisect_left(ranked, (self.load[m], m))]
        self.load[m] += more
        insort(ranked, (self.load[m], m))

    def improve(self) -> None:
        """Take steps that help until there are none."""
        changed = True
        while changed and self.steps > 0:
            changed = False
            relative = [x / s for x, s in zip(self.load, self._speed, strict=True)]
            for a in sorted(range(len(relative)), key=lambda m: (-relative[m], m)):
                while self.steps > 0 and (self._give(a) or self._exchange(a)):
                    changed = True
        self._tidy()

    def _gain(self, a: int, b: int, i: int, j: int = -1) -> tuple[float, ...] | None:
        """What is better after a gives i to b (and b gives j to a); None if nothing is.

        Smaller is better: tuples compare by overload, relative loads, cost, moves.
        """
        self.steps -= 1
        shift = self._weight[i] - (self._weight[j] if j >= 0 else 0.0)
        la, lb, va, vb = self.load[a], self.load[b], self._speed[a], self._speed[b]
        ca, cb = self._capacity[a], self._capacity[b]
        cost = self.cost(i, b) - self.cost(i, a)
        moves = self._stray(i, b) - self._stray(i, a)
        if j >= 0:
            cost += self.cost(j, a) - self.cost(j, b)
            moves += self._stray(j, a) - self._stray(j, b)
        if moves > 0 and self.moves + moves > self.most_moves:
            return None
        was = sorted((la / va, lb / vb), reverse=True)
        now = sorted(((la - shift) / va, (lb + shift) / vb), reverse=True)
        over = max(0.0, la - shift - ca) + max(0.0, lb + shift - cb)
        over -= max(0.0, la - ca) + max(0.0, lb - cb)
        change = [n - w for n, w in zip(now, was, strict=True)]
        # What lowers loads by less than the tolerance is no gain, what raises them is a loss.
        lower = tuple(x if x > 0 or -x > self.tolerance else 0.0 for x in change)
        gain = (over, *lower, cost, moves)
        return gain if gain < (0.0,) * len(gain) else None

    def _ideal(self, a: int, b: int) -> float:
        """The weight that, handed over, would level the two."""
        va, vb = self._speed[a], self._speed[b]
        return (self.load[a] * vb - self.load[b] * va) / (va + vb)

    @staticmethod
    def _near(mine: list[_Entry], weight: float, some: int) -> Iterator[_Entry]:
        """Entries close to a weight: of the next below and of the next above, some each."""
        at = bisect_left(mine, (weight, False, -1))
        yield from mine[at : at + some]
        if at:
            first = bisect_left(mine, (mine[at - 1][0], False, -1))
            yield from mine[first : min(at, first + some)]

    def _targets(self, a: int) -> Iterator[tuple[int, float]]:
        """Whom a may hand something, the least loaded first, and how much would level the two."""
        full = self.load[a] > self._capacity[a]
        for b in self._least(self._reach(a), besides=a):
            ideal = self._ideal(a, b)
            if ideal > 0 or full:
                yield b, max(ideal, 0.0)

    def _reach(self, a: int) -> list[int]:
        """Groups that may bear something that a bears."""
        reach: set[int] = set()
        for k in self._has[a]:
            if self._of[a, k]:
                reach |= self._groups[k]
        return sorted(reach)

    def _offers(self, a: int, b: int) -> list[_Entry]:
        """What a bears and b may bear, by weight."""
        group = self._group[b]
        kinds = [k for k in sorted(self._has[a]) if group in self._groups[k]]
        if len(kinds) == 1:
            return self._of[a, kinds[0]]
        return sorted(one for k in kinds for one in self._of[a, k])

    def _give(self, a: int) -> bool:
        """The best single item that a can give to somebody."""
        best: tuple[tuple[float, ...], int, int] | None = None
        for b, ideal in self._targets(a):
            for _, _, i in self._near(self._offers(a, b), ideal, _NEIGHBOURS):
                gain = self._gain(a, b, i)
                if gain is not None and (best is None or (gain, i, b) < best):
                    best = gain, i, b
        if best is None:
            return False
        _, i, b = best
        self._take(i)
        self._put(i, b)
        return True

    def _exchange(self, a: int) -> bool:
        """The best pair of items that a and somebody less loaded can exchange."""
        best: tuple[tuple[float, ...], int, int] | None = None
        for b, ideal in self._targets(a):
            theirs = self._offers(b, a)
            for w, _, i in self._offers(a, b)[-_OFFERS:]:
                for _, _, j in self._near(theirs, max(w - ideal, 0.0), _PARTNERS):
                    gain = self._gain(a, b, i, j)
                    if gain is not None and (best is None or (gain, i, j) < best):
                        best = gain, i, j
        if best is None:
            return False
        self._swap(best[1], best[2])
        return True

    def _swap(self, i: int, j: int) -> None:
        a, b = self.owner[i], self.owner[j]
        self._take(i)
        self._take(j)
        self._put(i, b)
        self._put(j, a)

    def _tidy(self) -> None:
        """Exchange items of one weight where that costs or moves less; loads stay as they are."""
        alike: dict[float, list[int]] = {}
        for i, w in enumerate(self._weight):
            alike.setdefault(w, []).append(i)
        changed = True
        while changed and self.steps > 0:
            changed = False
            for i in range(len(self._weight)):
                if self._stray(i, self.owner[i]) or self.cost(i, self.owner[i]):
                    changed |= self._settle(i, alike[self._weight[i]])

    def _settle(self, i: int, alike: list[int]) -> bool:
        a = self.owner[i]
        for j in alike:
            if self.steps <= 0:
                return False
            b = self.owner[j]
            if b == a or not self._fits(i, b) or not self._fits(j, a):
                self.steps -= 1
                continue
            if self._gain(a, b, i, j) is not None:
                self._swap(i, j)
                return True
        for b in self._least(self.items.open_groups[self._kind[i]], besides=a):
            if self._gain(a, b, i) is not None:
                self._take(i)
                self._put(i, b)
                return True
        return False

    def _fits(self, i: int, m: int) -> bool:
        return self._group[m] in self._groups[self._kind[i]]


def improved(
    items: Items,
    bearers: Bearers,
    *,
    hints: Mapping[int, int] | None = None,
    most_moves: float = float("inf"),
    tolerance: float = 0.0,
) -> Weighing:
    """A plan that no single step improves, or what was found until the steps ran out.

    Args:
        items: what is to be borne.
        bearers: who bears it.
        hints: bearers to start with of items that nobody keeps.
        most_moves: see `Weighing`; raised to the fewest moves there can be.
        tolerance: see `Weighing`.

    >>> items = Items(np.array([3.0, 2.0, 2.0]), np.zeros(3, int), [[0]], np.zeros((1, 1), int),
    ...               np.zeros(3, int), np.zeros(3, int), {})
    >>> two = Bearers(np.zeros(2, int), [0], np.ones(2), np.full(2, np.inf))
    >>> improved(items, two).owner
    [0, 1, 1]
    """
    found = Weighing(items, bearers, most_moves, tolerance)
    found.start(hints or {})
    found.improve()
    return found
