"""The least-majorised loads: as even as the subscriptions allow, with a proof.

Best means: smallest largest, largest smallest and least sum of squares at once. That such
a vector exists, and is unique once sorted, is no luck: the loads of all full assignments
are the bases of an M-convex set, and such a set has one least-majorised vector.

It is found by cutting. With room for k each (k the average, rounded down), either all
members fill up and everybody gets k or k + 1; or some topics cannot be placed although
members elsewhere have room left. Then these topics and their subscribers are a problem of
their own with loads of at least k, and the others one with loads of at most k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.errors import ProblemTooLargeError
from partage.solve.assignment.network import (
    LARGEST_NETWORK,
    UNBOUNDED,
    Budget,
    IntArray,
    Network,
    spread,
    summed,
)
from partage.solve.assignment.problem import Bundles, Eligibility, bundle

__all__ = ["BestLoads", "assign_members", "least_majorised", "loads_of"]


@dataclass(frozen=True, slots=True, eq=False)
class BestLoads:
    """The best loads, and why none are better.

    Attributes:
        load: int64[M], partitions of each member (which of several equal members has one
            more is arbitrary: only the sorted vector is unique).
        owner: int32[sum of partitions], a plan with these loads, topic after topic; -1 for
            the partitions of topics that nobody may own.
        topic_level: int64[T], the certificate. For any k let A be the topics of a level
            above k, and N(A) the members that may own some of them. In every valid plan
            the sum of max(load - k, 0) is at least partitions(A) - k * size(N(A)), because
            the partitions of A have nowhere else to go; here the two are equal, for every
            k. The least-majorised vector is the one that minimises all these sums.
    """

    load: IntArray
    owner: NDArray[np.int32]
    topic_level: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class _Answer:
    """Filled piece by piece.

    Attributes:
        total: int64[G], partitions of each member bundle.
        level: int64[B], of each topic bundle.
        share: int64[A], partitions that go over each pair of bundles.
    """

    total: IntArray
    level: IntArray
    share: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """A part of the problem that can be looked at alone: positions of bundles and arcs."""

    topics: IntArray
    members: IntArray
    arcs: IntArray


def least_majorised(eligibility: Eligibility) -> BestLoads:
    """The most even loads of all assignments that give every open partition away.

    Raises:
        ProblemTooLargeError: the network has more than `LARGEST_NETWORK` arcs, or
            searching it would take more than some seconds.

    >>> eligibility = Eligibility(np.array([4, 2]), np.array([0, 1, 3]), np.array([0, 0, 1]))
    >>> best = least_majorised(eligibility)
    >>> best.load.tolist(), best.topic_level.tolist()
    ([3, 3], [3, 3])
    """
    bundles = bundle(eligibility)
    load, topic_level, share = loads_of(bundles)
    return BestLoads(load, dealt(bundles, share, load), topic_level)


def loads_of(bundles: Bundles) -> tuple[IntArray, IntArray, IntArray]:
    """The best loads and topic levels (see `BestLoads`), and what goes over each pair of bundles.

    Raises:
        ProblemTooLargeError: as `least_majorised` does.
    """
    if len(bundles.arc_topic) > LARGEST_NETWORK:
        raise ProblemTooLargeError(
            f"the best loads need a network of {len(bundles.arc_topic)} arcs, the limit is "
            f"{LARGEST_NETWORK}: {len(bundles.size)} different subscriptions, "
            f"{len(bundles.supply)} topics with different subscribers"
        )
    found = _Answer(
        np.zeros(len(bundles.size), np.int64),
        np.zeros(len(bundles.supply), np.int64),
        np.zeros(len(bundles.arc_topic), np.int64),
    )
    budget = Budget()
    pieces = [
        _Piece(
            np.arange(len(bundles.supply)),
            np.arange(len(bundles.size)),
            np.arange(len(bundles.arc_topic)),
        )
    ]
    while pieces:
        piece = pieces.pop()
        if len(piece.members):
            pieces += _settled_or_split(bundles, piece, found, budget)
    topic_level = np.zeros(len(bundles.topic), np.int64)
    topic_level[bundles.topic >= 0] = found.level[bundles.topic[bundles.topic >= 0]]
    return _evenly(bundles, found.total), topic_level, found.share


def _evenly(bundles: Bundles, total: IntArray) -> IntArray:
    """int64[M]: the totals of bundles shared evenly among their members, first ones first."""
    load = np.zeros(len(bundles.member), np.int64)
    mine = np.flatnonzero(bundles.member >= 0)
    mine = mine[np.argsort(bundles.member[mine], kind="stable")]
    of = bundles.member[mine]
    nth = np.arange(len(mine)) - np.searchsorted(of, of)
    load[mine] = total[of] // bundles.size[of] + (nth < total[of] % bundles.size[of])
    return load


def _settled_or_split(
    bundles: Bundles, piece: _Piece, answer: _Answer, budget: Budget
) -> list[_Piece]:
    """Write the answer for what has loads that differ by at most one; cut off the rest."""
    supply, size = bundles.supply[piece.topics], bundles.size[piece.members]
    k = int(supply.sum() // size.sum())
    network, to_sink = _network(bundles, piece, k, budget)
    network.fill()
    if int(network.flow()[to_sink].sum()) < k * int(size.sum()):
        above, below = _cut(bundles, piece, _stuck(network, len(supply)))
        return [above, below]
    if int(supply.sum()) > k * int(size.sum()):
        network.widen(to_sink, size)
        network.fill()
    found = network.flow()[to_sink]
    higher = np.flatnonzero(found > k * size) + len(supply)
    # Who can hand a partition down from k + 1 shows the topics that hold that level up.
    held = network.reachable(higher)[: len(supply)]
    stuck = _stuck(network, len(supply))
    settled_topics = ~stuck[: len(supply)]
    settled_members = ~stuck[len(supply) : len(supply) + len(size)]
    answer.level[piece.topics[settled_topics]] = k + held[settled_topics]
    answer.total[piece.members[settled_members]] = found[settled_members]
    # No settled topic sends anything to the stuck ones' members, or it would be stuck too;
    # what the stuck ones send is settled, and written again, when their turn comes.
    answer.share[piece.arcs] = network.flow()[: len(piece.arcs)]
    # Topics that do not even find room at k + 1: their subscribers get that much and more.
    return [_cut(bundles, piece, stuck)[0]] if stuck.any() else []


def _network(bundles: Bundles, piece: _Piece, k: int, budget: Budget) -> tuple[Network, IntArray]:
    """Source, topics, members, sink, with room for k partitions a member; the arcs to the sink.

    It starts with a flow that is close to the largest.
    """
    topics, members, arcs = len(piece.topics), len(piece.members), len(piece.arcs)
    topic_at = np.full(len(bundles.supply), -1, np.int64)
    topic_at[piece.topics] = np.arange(topics)
    member_at = np.full(len(bundles.size), -1, np.int64)
    member_at[piece.members] = np.arange(members)
    row, column = topic_at[bundles.arc_topic[piece.arcs]], member_at[bundles.arc_member[piece.arcs]]
    supply, room = bundles.supply[piece.topics], bundles.size[piece.members] * k
    source, sink = topics + members, topics + members + 1
    network = Network(
        topics + members + 2,
        np.concatenate([row, np.full(topics, source), topics + np.arange(members)]),
        np.concatenate([topics + column, np.arange(topics), np.full(members, sink)]),
        np.concatenate([np.full(arcs, UNBOUNDED), supply, room]),
        source=source,
        sink=sink,
        budget=budget,
    )
    # Spreading costs about as much as a search.
    budget.spend(2 * arcs)
    amount = spread(row, column, supply, room)
    network.push(
        np.arange(arcs + topics + members),
        np.concatenate(
            [
                amount,
                summed(row, amount, topics),
                summed(column, amount, members),
            ]
        ),
    )
    return network, arcs + topics + np.arange(members)


def _stuck(network: Network, topics: int) -> NDArray[np.bool_]:
    """bool[N]: topics that cannot all be placed, and what they can push against."""
    from_source = network.out[network.start[network.source] : network.start[network.source + 1]]
    unplaced = network.head[from_source[network.left[from_source] > 0]]
    return network.reachable(unplaced[unplaced < topics])


def _cut(bundles: Bundles, piece: _Piece, stuck: NDArray[np.bool_]) -> tuple[_Piece, _Piece]:
    """The stuck topics with all their subscribers, and the others with the others."""
    topics, members = len(piece.topics), len(piece.members)
    topic_side = np.zeros(len(bundles.supply), bool)
    topic_side[piece.topics] = stuck[:topics]
    member_side = np.zeros(len(bundles.size), bool)
    member_side[piece.members] = stuck[topics : topics + members]
    of_topic = topic_side[bundles.arc_topic[piece.arcs]]
    of_member = member_side[bundles.arc_member[piece.arcs]]

    below_topics, below_members = ~topic_side[piece.topics], ~member_side[piece.members]
    return (
        _Piece(
            piece.topics[~below_topics],
            piece.members[~below_members],
            piece.arcs[of_topic & of_member],
        ),
        _Piece(
            piece.topics[below_topics],
            piece.members[below_members],
            piece.arcs[~of_topic & ~of_member],
        ),
    )


def dealt(bundles: Bundles, share: IntArray, load: IntArray) -> NDArray[np.int32]:
    """int32: owners of all partitions, topic after topic, from nothing owned before.

    Args:
        bundles: topics and members.
        share: int64[A], how many partitions go over each pair of bundles.
        load: int64[M], how many each member gets in the end.
    """
    topic = np.repeat(bundles.topic, bundles.partitions)
    owner = np.full(len(topic), -1, np.int64)
    assign_members(owner, topic, bundles, share, load[bundles.member >= 0])
    return owner.astype(np.int32)


def assign_members(
    owner: IntArray, topic: IntArray, bundles: Bundles, free: IntArray, within: IntArray
) -> None:
    """Deal partitions without owner to bundles of members, and on to the members."""
    pool = np.flatnonzero((owner < 0) & (topic >= 0))
    pool = pool[np.argsort(topic[pool], kind="stable")]
    target = np.repeat(bundles.arc_member, free)
    pool = pool[np.argsort(target, kind="stable")]
    everyone = np.flatnonzero(bundles.member >= 0)
    order = np.argsort(bundles.member[everyone], kind="stable")
    owner[pool] = np.repeat(everyone[order], within[order])
