"""Lower bounds for the largest load: what some topics' subscribers must bear in any plan.

Each bound is an argument that a person can check, and `partage.judge` does: topics whose
weight has nowhere else to go, a partition heavier than anybody's share, too many heavy ones
for too few members, too few moves to bring a member down.

The least-majorised loads of the fractional relaxation: partitions may be split over members.

The relaxation is the problem of `loads` with weights for counts and shares for members, so the
same decomposition by cuts solves it. Its largest load is a lower bound of every plan's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from partage.errors import ProblemTooLargeError
from partage.solve.assignment.even_loads import loads_of
from partage.solve.assignment.network import UNBOUNDED, IntArray, Network
from partage.solve.assignment.problem import Bundles
from partage.solve.assignment.weighted_plan import FloatArray

__all__ = [
    "Bound",
    "Burden",
    "densest",
    "fractional_loads",
    "largest_bound",
    "overload_bound",
    "shed_bound",
]


_SCALE = 1 << 34
_MOST_ROUNDS = 30


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A lower bound and its argument.

    Attributes:
        value: of the bound.
        kind: "cut" (weight over what subscribers can share), "heaviest" (one item), "crowd"
            (one of the members bears ``most`` of their heaviest items), "moves" (too few
            moves to bring loads further down) or "none".
        topics: bool[B], bundles of topics that the argument is about.
        most: for a crowd, how many items one member bears at least.
    """

    value: float
    kind: str
    topics: NDArray[np.bool_]
    most: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Burden:
    """What is to be borne, by bundles.

    Attributes:
        bundles: topics and members.
        weight: float64[n], of each item; kind: int64[n], its topic bundle.
        speed: float64[M], of members who count, zero for those who are to get nothing.
        capacity: float64[M].
        spilled: weight that those who are to get nothing may have at most.
    """

    bundles: Bundles
    weight: NDArray[np.float64]
    kind: IntArray
    speed: NDArray[np.float64]
    capacity: NDArray[np.float64]
    spilled: float

    def supply(self) -> NDArray[np.float64]:
        """float64[B]: weight of each topic bundle."""
        return np.bincount(self.kind, self.weight, len(self.bundles.supply)).astype(float)

    def by_bundle(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64[G]: members' values summed by bundle."""
        mine = self.bundles.member >= 0
        of = self.bundles.member[mine]
        return np.bincount(of, values[mine], len(self.bundles.size)).astype(float)

    def members(self, topics: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """bool[M]: members who may own some of these topics."""
        subscribe: NDArray[np.bool_] = np.append(self.subscribers(topics), False)
        return subscribe[self.bundles.member]

    def subscribed(self, besides: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """bool[B]: topic bundles that a member may own who is none of some members."""
        mine = self.bundles.member[(self.bundles.member >= 0) & ~besides]
        there = np.zeros(len(self.bundles.size), bool)
        there[mine] = True
        out = np.zeros(len(self.bundles.supply), bool)
        out[self.bundles.arc_topic[there[self.bundles.arc_member]]] = True
        return out

    def subscribers(self, topics: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """bool[G]: member bundles that may own some of these topics."""
        out = np.zeros(len(self.bundles.size), bool)
        out[self.bundles.arc_member[topics[self.bundles.arc_topic]]] = True
        return out


def densest(burden: Burden, share: NDArray[np.float64]) -> NDArray[np.bool_]:
    """bool[B]: topics with the most weight beyond what all their subscribers together share.

    Args:
        burden: what is to be borne.
        share: float64[G], what each bundle of members takes.
    """
    supply = burden.supply()
    total = float(supply.sum())
    bundles, topics, members = burden.bundles, len(supply), len(share)
    if total <= 0:
        return np.zeros(topics, bool)
    whole = np.rint(supply * (_SCALE / total)).astype(np.int64)
    room = np.minimum(np.rint(share * (_SCALE / total)), float(UNBOUNDED)).astype(np.int64)
    network = Network(
        topics + members + 2,
        np.concatenate([np.full(topics, topics + members), bundles.arc_topic,
                        topics + np.arange(members)]),
        np.concatenate([np.arange(topics), topics + bundles.arc_member,
                        np.full(members, topics + members + 1)]),
        np.concatenate([whole, np.full(len(bundles.arc_topic), UNBOUNDED), room]),
        source=topics + members, sink=topics + members + 1,
    )  # fmt: skip
    network.fill()
    left = np.flatnonzero(network.left[0 : 2 * topics : 2] > 0)
    return network.reachable(left)[:topics]


def largest_bound(burden: Burden) -> Bound:
    """The best bound found for the largest relative load of members who count."""
    speed = burden.by_bundle(burden.speed)
    everything = np.ones(len(burden.bundles.supply), bool)
    best = _of_cut(burden, everything, speed)
    if len(speed) > 1:
        cut = everything
        for _ in range(_MOST_ROUNDS):
            cut = densest(burden, best.value * speed)
            found = _of_cut(burden, cut, speed)
            if not cut.any() or found.value <= best.value * (1 + 1e-12):
                break
            best = found
    others = [_heaviest(burden), _crowd(burden, everything), _crowd(burden, best.topics)]
    return max([best, *others], key=lambda bound: bound.value)


def _of_cut(burden: Burden, topics: NDArray[np.bool_], speed: NDArray[np.float64]) -> Bound:
    able = float(speed[burden.subscribers(topics)].sum())
    weight = float(burden.supply()[topics].sum()) - burden.spilled
    return Bound(weight / able if able > 0 and weight > 0 else 0.0, "cut", topics)


def _heaviest(burden: Burden) -> Bound:
    """One item, with the fastest member who may bear it."""
    nobody = Bound(0.0, "none", np.zeros(len(burden.bundles.supply), bool))
    if not len(burden.weight):
        return nobody
    fastest = np.zeros(len(burden.bundles.size))
    mine = burden.bundles.member >= 0
    np.maximum.at(fastest, burden.bundles.member[mine], burden.speed[mine])
    of_topic = np.zeros(len(burden.bundles.supply))
    np.maximum.at(of_topic, burden.bundles.arc_topic, fastest[burden.bundles.arc_member])
    able = of_topic[burden.kind]
    good = (able > 0) & (burden.weight > burden.spilled)
    alone = np.where(good, burden.weight / np.where(able > 0, able, 1.0), 0.0)
    i = int(np.argmax(alone))
    topics = np.zeros(len(of_topic), bool)
    topics[burden.kind[i]] = True
    return Bound(float(alone[i]), "heaviest", topics) if alone[i] > 0 else nobody


def _crowd(burden: Burden, topics: NDArray[np.bool_]) -> Bound:
    """Of k times the members and one more items, somebody bears k + 1."""
    members = burden.members(topics) & (burden.speed > 0)
    count, fastest = int(members.sum()), float(burden.speed[members].max(initial=0.0))
    weight = np.sort(burden.weight[topics[burden.kind]])[::-1]
    if burden.spilled > 0 or not count or fastest <= 0 or len(weight) <= count:
        return Bound(0.0, "none", topics)
    upto = np.concatenate([np.zeros(1), np.cumsum(weight)])
    k = np.arange(1, (len(weight) - 1) // count + 1)
    last = k * count + 1
    least = (upto[last] - upto[last - k - 1]) / fastest
    i = int(np.argmax(least))
    return Bound(float(least[i]), "crowd", topics, most=int(k[i]) + 1)


def overload_bound(burden: Burden) -> Bound:
    """The least weight beyond capacities."""
    capacity = burden.by_bundle(burden.capacity)
    cut = densest(burden, capacity)
    room = float(capacity[burden.subscribers(cut)].sum())
    return Bound(max(0.0, float(burden.supply()[cut].sum()) - room), "cut", cut)


def shed_bound(
    weight: NDArray[np.float64], keeper: IntArray, speed: NDArray[np.float64], moves: int
) -> float:
    """Least largest relative load after so many partitions have left their only keepers.

    A member's load after it gave its r heaviest partitions away, over all members and r:
    the largest ``moves`` of these figures can be got rid of, the next one cannot.

    >>> shed_bound(np.array([2.0, 1.0, 1.0]), np.array([0, 0, 1]), np.ones(2), 1)
    1.0
    """
    good = speed[keeper] > 0
    weight, keeper = weight[good], keeper[good]
    order = np.lexsort((weight, keeper))
    weight, keeper = weight[order], keeper[order]
    upto = np.cumsum(weight)
    first = np.searchsorted(keeper, keeper)
    mine = (upto - (upto[first] - weight[first])) / speed[keeper]
    remaining = np.sort(mine)[::-1]
    return float(remaining[moves]) if moves < len(remaining) else 0.0


#: Total weight in units; sums of flows stay far below int64, single supplies below 2**30.
_UNITS = 1 << 29
#: Units of the slowest member's share, where shares differ.
_SLOWEST, _MOST_SHARES = 16, 1 << 16


def fractional_loads(burden: Burden) -> FloatArray | None:
    """Return float64[M], each member's load in the most even fractional plan, within rounding.

    Capacities do not count. None if the decomposition would take too long.
    """
    supply = burden.supply()
    total = float(supply.sum())
    able = (burden.bundles.member >= 0) & (burden.speed > 0)
    if total <= 0 or not able.any():
        return np.zeros(len(burden.speed))
    speeds = burden.speed[able]
    least, most = float(speeds.min()), float(speeds.max())
    unit = least if least == most else max(least / _SLOWEST, most / _MOST_SHARES)
    size = np.rint(burden.by_bundle(np.where(able, burden.speed, 0.0)) / unit).astype(np.int64)
    scale = _UNITS / total
    scaled = replace(
        burden.bundles,
        supply=np.rint(supply * scale).astype(np.int64),
        size=np.maximum(size, 1),
    )
    try:
        by_unit, _, _ = loads_of(scaled)
    except ProblemTooLargeError:
        return None
    share: FloatArray = by_unit / scale * (burden.speed / unit)
    return share
