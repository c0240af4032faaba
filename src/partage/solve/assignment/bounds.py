"""Lower bounds of the largest relative load, and the fractional relaxation of the weighted problem.

Each bound is an argument that `partage.judge` checks without this package: topics whose weight can
only go to their subscribers (a cut, found by Dinkelbach's parametric maximum flow), one partition
that is heavier than any share, too many heavy partitions for too few members (pigeonhole), or too
few moves to relieve a member.

The relaxation splits partitions over members. It is the problem of `even_loads` with weights for
counts and shares for members, so that the same decomposition by cuts solves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from partage.errors import ProblemTooLargeError
from partage.solve.assignment.even_loads import find_even_loads
from partage.solve.assignment.network import UNBOUNDED, FlowNetwork, IntArray
from partage.solve.assignment.problem import SubscriptionClasses
from partage.solve.assignment.weighted_plan import FloatArray

__all__ = [
    "Bound",
    "WeightedProblem",
    "densest_topics",
    "fractional_loads",
    "largest_bound_within_moves",
    "largest_load_bound",
    "overload_bound",
]


#: Total weight in units of flow; sums stay far below int64.
_SCALE = 1 << 34
#: Limit of iterations of Dinkelbach's method, which converges superlinearly.
_MOST_ROUNDS = 30


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """Proven lower bound of the largest load that a member gets in any assignment of a consumer
    group.

    Loads are relative: a member's load is divided by its share, which is the fraction of all load
    that it should get.

    Attributes:
        value: the lower bound.
        kind: the argument that proves it: "cut" (total weight of some topics divided by the share
            of their subscribers), "heaviest" (one heavy partition), "crowd" (one member gets at
            least ``most`` heavy partitions), "moves" (too few moves to lower the loads further) or
            "none".
        topics: bool[topic classes], the topics that the argument concerns (a class has equal
            subscribers).
        most: for a crowd, the number of partitions that one member gets at least.
    """

    value: float
    kind: str
    topics: NDArray[np.bool_]
    most: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class WeightedProblem:
    """An assignment problem in which partitions have weights, such as bytes per second.

    Members should get loads in proportion to their shares. An item is a partition, or a set of
    partitions that must have one owner. A class contains all topics with equal subscribers, or all
    members with equal subscriptions.

    Attributes:
        classes: classes of topics and members.
        weight: float64[n], the weight of each item; kind: int64[n], the topic class of each item.
        speed: float64[members], the share of each member, relative to the others; zero for members
            that should get nothing.
        capacity: float64[members], in units of weight.
        spilled: maximum weight that members without share may get.
    """

    classes: SubscriptionClasses
    weight: NDArray[np.float64]
    kind: IntArray
    speed: NDArray[np.float64]
    capacity: NDArray[np.float64]
    spilled: float

    def total_weight_by_class(self) -> NDArray[np.float64]:
        """Add up the weights of the partitions of each class of topics with equal subscribers.

        The result is float64[topic classes].
        """
        return np.bincount(self.kind, self.weight, len(self.classes.supply)).astype(float)

    def by_member_class(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add up one value per member, such as its capacity, over members with equal subscriptions.

        Args:
            values: float64[members], the value of each member.

        Returns:
            float64[member classes], one sum for each class of members with equal subscriptions.
        """
        mine = self.classes.member >= 0
        of = self.classes.member[mine]
        return np.bincount(of, values[mine], len(self.classes.size)).astype(float)

    def members_of_topics(self, topics: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which members subscribe to at least one of the given topics, as a mask
        (bool[members]).

        ``topics`` is a mask of topic classes (bool[topic classes]). A class contains topics with
        equal subscribers.
        """
        subscribe: NDArray[np.bool_] = np.append(self.subscribers_by_class(topics), False)
        return subscribe[self.classes.member]

    def topics_with_subscribers(self, excluded: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which topics still have a subscriber if some members are excluded, as a mask.

        Args:
            excluded: bool[members], the excluded members.

        Returns:
            bool[topic classes], one element for each class of topics with equal subscribers.
        """
        mine = self.classes.member[(self.classes.member >= 0) & ~excluded]
        there = np.zeros(len(self.classes.size), bool)
        there[mine] = True
        out = np.zeros(len(self.classes.supply), bool)
        out[self.classes.arc_topic[there[self.classes.arc_member]]] = True
        return out

    def subscribers_by_class(self, topics: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which classes of members subscribe to at least one of the given topics, as a mask.

        Args:
            topics: bool[topic classes], the given classes of topics with equal subscribers.

        Returns:
            bool[member classes], one element for each class of members with equal subscriptions.
        """
        out = np.zeros(len(self.classes.size), bool)
        out[self.classes.arc_member[topics[self.classes.arc_topic]]] = True
        return out


def densest_topics(problem: WeightedProblem, share: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Find the topics whose total weight most exceeds what their subscribers should get together.

    If such topics exist, some member must get more than its share. A minimum cut of a flow network
    finds them.

    Args:
        problem: weights, shares and capacities of the consumer group.
        share: float64[member classes], the weight that each class of members with equal
            subscriptions should get.

    Returns:
        bool[topic classes], one element for each class of topics with equal subscribers.
    """
    supply = problem.total_weight_by_class()
    total = float(supply.sum())
    classes, topics, members = problem.classes, len(supply), len(share)
    if total <= 0:
        return np.zeros(topics, bool)
    whole = np.rint(supply * (_SCALE / total)).astype(np.int64)
    room = np.minimum(np.rint(share * (_SCALE / total)), float(UNBOUNDED)).astype(np.int64)
    network = FlowNetwork(
        topics + members + 2,
        np.concatenate([np.full(topics, topics + members), classes.arc_topic,
                        topics + np.arange(members)]),
        np.concatenate([np.arange(topics), topics + classes.arc_member,
                        np.full(members, topics + members + 1)]),
        np.concatenate([whole, np.full(len(classes.arc_topic), UNBOUNDED), room]),
        source=topics + members, sink=topics + members + 1,
    )  # fmt: skip
    network.maximise_flow()
    left = np.flatnonzero(network.left[0 : 2 * topics : 2] > 0)
    return network.reachable_nodes(left)[:topics]


def largest_load_bound(problem: WeightedProblem) -> Bound:
    """Return the best lower bound that can be proven for the largest load of a member.

    The load is relative: it is divided by the member's share of all load. Several arguments are
    tried, for example one partition that is heavier than any share. Members with share 0 are
    ignored.
    """
    speed = problem.by_member_class(problem.speed)
    everything = np.ones(len(problem.classes.supply), bool)
    best = _load_bound_of_topics(problem, everything, speed)
    if len(speed) > 1:
        cut = everything
        for _ in range(_MOST_ROUNDS):
            cut = densest_topics(problem, best.value * speed)
            found = _load_bound_of_topics(problem, cut, speed)
            if not cut.any() or found.value <= best.value * (1 + 1e-12):
                break
            best = found
    others = [
        _heaviest_partition_bound(problem),
        _pigeonhole_bound(problem, everything),
        _pigeonhole_bound(problem, best.topics),
    ]
    return max([best, *others], key=lambda bound: bound.value)


def _load_bound_of_topics(
    problem: WeightedProblem, topics: NDArray[np.bool_], share: NDArray[np.float64]
) -> Bound:
    """Return a lower bound of the largest relative load that follows from the weight of some
    topics.

    Only their subscribers can own these topics, so that one of them gets at least their weight
    divided by the subscribers' total share. A relative load is a member's load divided by its
    share.

    Args:
        problem: weights of the partitions and shares of the members.
        topics: bool[topic classes], the classes of topics with equal subscribers to consider.
        share: float64[member classes], total share of each class of members.
    """
    # Only the subscribers may own these topics, so one of them has at least this relative load.
    able = float(share[problem.subscribers_by_class(topics)].sum())
    weight = float(problem.total_weight_by_class()[topics].sum()) - problem.spilled
    return Bound(weight / able if able > 0 and weight > 0 else 0.0, "cut", topics)


def _heaviest_partition_bound(problem: WeightedProblem) -> Bound:
    """Return a lower bound of the largest relative load that follows from the heaviest partition.

    One member must own the whole partition. The bound is the partition's weight divided by the
    largest share of a member that may own it.
    """
    nobody = Bound(0.0, "none", np.zeros(len(problem.classes.supply), bool))
    if not len(problem.weight):
        return nobody
    # One member must own the whole partition, so it has at least this load relative to its share.
    fastest = np.zeros(len(problem.classes.size))
    mine = problem.classes.member >= 0
    np.maximum.at(fastest, problem.classes.member[mine], problem.speed[mine])
    of_topic = np.zeros(len(problem.classes.supply))
    np.maximum.at(of_topic, problem.classes.arc_topic, fastest[problem.classes.arc_member])
    able = of_topic[problem.kind]
    good = (able > 0) & (problem.weight > problem.spilled)
    alone = np.where(good, problem.weight / np.where(able > 0, able, 1.0), 0.0)
    i = int(np.argmax(alone))
    topics = np.zeros(len(of_topic), bool)
    topics[problem.kind[i]] = True
    return Bound(float(alone[i]), "heaviest", topics) if alone[i] > 0 else nobody


def _pigeonhole_bound(problem: WeightedProblem, topics: NDArray[np.bool_]) -> Bound:
    """Return a lower bound of the largest relative load that follows from the number of heavy
    partitions.

    For example, if 3 members subscribe to 4 heavy partitions, one of them gets at least two
    (pigeonhole principle). ``topics`` (bool[topic classes]) selects the topics whose partitions are
    considered.
    """
    members = problem.members_of_topics(topics) & (problem.speed > 0)
    count, fastest = int(members.sum()), float(problem.speed[members].max(initial=0.0))
    weight = np.sort(problem.weight[topics[problem.kind]])[::-1]
    if problem.spilled > 0 or not count or fastest <= 0 or len(weight) <= count:
        return Bound(0.0, "none", topics)
    # Pigeonhole principle: with more than k items for each eligible member, one gets k + 1 of them.
    upto = np.concatenate([np.zeros(1), np.cumsum(weight)])
    k = np.arange(1, (len(weight) - 1) // count + 1)
    last = k * count + 1
    least = (upto[last] - upto[last - k - 1]) / fastest
    i = int(np.argmax(least))
    return Bound(float(least[i]), "crowd", topics, most=int(k[i]) + 1)


def overload_bound(problem: WeightedProblem) -> Bound:
    """Return a lower bound of the overload, which is the total load above the members' capacities.

    Every assignment has at least this overload. The bound is above zero if some topics weigh more
    than the total capacity of all their subscribers. A minimum cut in a flow network finds these
    topics.
    """
    capacity = problem.by_member_class(problem.capacity)
    cut = densest_topics(problem, capacity)
    room = float(capacity[problem.subscribers_by_class(cut)].sum())
    return Bound(max(0.0, float(problem.total_weight_by_class()[cut].sum()) - room), "cut", cut)


def largest_bound_within_moves(
    weight: NDArray[np.float64], keeper: IntArray, share: NDArray[np.float64], moves: int
) -> float:
    """Return a lower bound of the largest relative load if only a few partitions may change their
    owner.

    A move is a partition that changes its owner. A relative load is a member's load divided by its
    share.

    Args:
        weight: weight of each partition.
        keeper: the only member that may keep each partition without a move.
        share: share of each member.
        moves: the maximum number of moves.

    >>> largest_bound_within_moves(np.array([2.0, 1.0, 1.0]), np.array([0, 0, 1]), np.ones(2), 1)
    1.0
    """
    good = share[keeper] > 0
    weight, keeper = weight[good], keeper[good]
    order = np.lexsort((weight, keeper))
    weight, keeper = weight[order], keeper[order]
    upto = np.cumsum(weight)
    first = np.searchsorted(keeper, keeper)
    mine = (upto - (upto[first] - weight[first])) / share[keeper]
    remaining = np.sort(mine)[::-1]
    return float(remaining[moves]) if moves < len(remaining) else 0.0


#: Total weight in units; sums of flows stay far below int64, single supplies below 2**30.
_UNITS = 1 << 29
#: Units of the slowest member's share, where shares differ.
_SLOWEST, _MOST_SHARES = 16, 1 << 16


def fractional_loads(problem: WeightedProblem) -> FloatArray | None:
    """Return the most even member loads that would be possible if partitions could be divided.

    No real assignment has more even loads. Loads are compared relative to each member's share;
    capacities are ignored.

    Args:
        problem: weights of the partitions and shares of the members.

    Returns:
        float64[members], exact except for rounding; None if the computation would take too long.
    """
    supply = problem.total_weight_by_class()
    total = float(supply.sum())
    able = (problem.classes.member >= 0) & (problem.speed > 0)
    if total <= 0 or not able.any():
        return np.zeros(len(problem.speed))
    speeds = problem.speed[able]
    least, most = float(speeds.min()), float(speeds.max())
    unit = least if least == most else max(least / _SLOWEST, most / _MOST_SHARES)
    size = np.rint(problem.by_member_class(np.where(able, problem.speed, 0.0)) / unit).astype(
        np.int64
    )
    scale = _UNITS / total
    scaled = replace(
        problem.classes,
        supply=np.rint(supply * scale).astype(np.int64),
        size=np.maximum(size, 1),
    )
    try:
        by_unit, _, _ = find_even_loads(scaled)
    except ProblemTooLargeError:
        return None
    share: FloatArray = by_unit / scale * (problem.speed / unit)
    return share
