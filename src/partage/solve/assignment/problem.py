"""The input of this room: who may own what, and who owned it.

Bundling: topics with the same subscribers are one, and so are members alike.

Which member of a bundle gets a partition does not matter for loads, only how many the
bundle gets; a group in which all subscribe to the same is one topic and one member.

Claims sorted by what they mean for the flow: one claimant, several, or none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.solve.assignment.network import IntArray

__all__ = ["Bundles", "Eligibility", "Ownership", "SortedClaims", "bundle", "sort_claims"]


@dataclass(frozen=True, slots=True, eq=False)
class Eligibility:
    """Topics with their partitions, and members with the topics that they may own.

    Attributes:
        partitions: int[T], number of partitions of each topic.
        start: int[S + 1]; topic: int[n], the topics of each subscription, once each (CSR).
        subscription: int[M], the subscription of each member, none unused; None where each
            member has its own, in order.

    >>> two_topics = Eligibility(np.array([4, 2]), np.array([0, 1, 3]), np.array([0, 0, 1]))
    >>> two_topics.members
    2
    """

    partitions: NDArray[np.integer]
    start: NDArray[np.integer]
    topic: NDArray[np.integer]
    subscription: NDArray[np.integer] | None = None

    @property
    def members(self) -> int:
        """Number of members."""
        return len(self.start) - 1 if self.subscription is None else len(self.subscription)


@dataclass(frozen=True, slots=True, eq=False)
class Ownership:
    """Partitions one by one, and who is seen as their owner before the rebalance.

    Attributes:
        topic_of: int[P], topic of each partition.
        owned: bool[P], whether anybody owned it; if nobody, giving it away moves nothing.
        start: int[P + 1]; claimant: int[n], members with which the partition may stay
            without being moved (CSR). Several where claims contradict each other; none
            for an owned partition means that its owner has left.

    >>> kept = Ownership(np.array([0]), np.array([True]), np.array([0, 1]), np.array([3]))
    >>> kept.claimant.tolist()
    [3]
    """

    topic_of: NDArray[np.integer]
    owned: NDArray[np.bool_]
    start: NDArray[np.integer]
    claimant: NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False)
class Bundles:
    """Bundles of topics and of members, and the arcs between them.

    Attributes:
        partitions: int64[T], partitions of each topic.
        topic: int64[T], bundle of each topic, -1 if it has no partition or no subscriber.
        member: int64[M], bundle of each member, -1 if no such topic is open to it.
        supply: int64[B], partitions of each topic bundle.
        size: int64[G], members of each member bundle.
        arc_topic, arc_member: int64[A], the eligible pairs of bundles.
    """

    partitions: IntArray
    topic: IntArray
    member: IntArray
    supply: IntArray
    size: IntArray
    arc_topic: IntArray
    arc_member: IntArray


def bundle(eligibility: Eligibility) -> Bundles:
    """Bundle equal members, then the topics that are open to the same member bundles."""
    partitions = np.asarray(eligibility.partitions, np.int64)
    member, rows = _alike(
        np.asarray(eligibility.start, np.int64),
        np.asarray(eligibility.topic, np.int64),
        partitions > 0,
    )
    if eligibility.subscription is not None:
        member = member[eligibility.subscription]
    pairs_member = np.repeat(np.arange(len(rows)), [len(r) for r in rows]).astype(np.int64)
    pairs_topic = np.concatenate([*rows, np.zeros(0, np.int64)])
    order = np.lexsort((pairs_member, pairs_topic))
    start = np.searchsorted(pairs_topic[order], np.arange(len(partitions) + 1))
    everyone = np.ones(len(rows), bool)
    topic, subscribers = _alike(start.astype(np.int64), pairs_member[order], everyone)
    open_topics = topic >= 0
    return Bundles(
        partitions=partitions,
        topic=topic,
        member=member,
        supply=np.bincount(
            topic[open_topics], partitions[open_topics], minlength=len(subscribers)
        ).astype(np.int64),
        size=np.bincount(member[member >= 0], minlength=len(rows)).astype(np.int64),
        arc_topic=np.repeat(np.arange(len(subscribers)), [len(r) for r in subscribers]).astype(
            np.int64
        ),
        arc_member=np.concatenate([*subscribers, np.zeros(0, np.int64)]),
    )


def _alike(
    start: IntArray, column: IntArray, counts: NDArray[np.bool_]
) -> tuple[IntArray, list[IntArray]]:
    """Class of each CSR row, -1 for an empty one; and the columns of each class.

    Rows of one class are equal as sets of the columns that count.
    """
    kept = counts[column] if len(column) else np.zeros(0, bool)
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))[kept]
    column = column[kept]
    order = np.lexsort((column, row))
    row, column = row[order], column[order]
    ends = np.searchsorted(row, np.arange(len(start)))
    seen: dict[bytes, int] = {}
    classes: list[IntArray] = []
    of = np.full(len(start) - 1, -1, np.int64)
    for i, (a, b) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
        if a == b:
            continue
        mine = column[a:b]
        known = seen.setdefault(mine.tobytes(), len(classes))
        if known == len(classes):
            classes.append(mine)
        of[i] = known
    return of, classes


@dataclass(frozen=True, slots=True, eq=False)
class SortedClaims:
    """Claims of members who may still own the partition, bundled.

    Attributes:
        topic: int64[P], topic bundle of each partition, -1 where nobody may own it.
        owned: bool[P], owned before, and somebody may own it now.
        arc_topic, arc_member, arc_supply: int64[A], topic bundle, its only claimant, and
            for how many partitions.
        arc_of: int64[P], position of a partition in these, -1 if it has none.
        class_topic, class_supply: int64[C], partitions of one topic bundle with the same
            claimants, two or more.
        class_start: int64[C + 1]; class_claimant: int64[n], those claimants (CSR).
        class_of: int64[P], position of a partition in these, -1 if it has none.
    """

    topic: IntArray
    owned: NDArray[np.bool_]
    arc_topic: IntArray
    arc_member: IntArray
    arc_supply: IntArray
    arc_of: IntArray
    class_topic: IntArray
    class_supply: IntArray
    class_start: IntArray
    class_claimant: IntArray
    class_of: IntArray


def sort_claims(bundles: Bundles, ownership: Ownership) -> SortedClaims:
    """Drop claims of members who may no longer own the partition, and bundle the others."""
    topic = bundles.topic[np.asarray(ownership.topic_of, np.int64)]
    partition, member = _eligible(bundles, ownership, topic)
    claimants = np.bincount(partition, minlength=len(topic))
    single = claimants[partition] == 1
    members = max(len(bundles.member), 1)
    key = topic[partition[single]] * members + member[single]
    arcs, which, supply = np.unique(key, return_inverse=True, return_counts=True)
    arc_of = np.full(len(topic), -1, np.int64)
    arc_of[partition[single]] = which
    classes, class_of = _contested(partition[~single], member[~single], topic)
    return SortedClaims(
        topic=topic,
        owned=ownership.owned & (topic >= 0),
        arc_topic=arcs // members,
        arc_member=arcs % members,
        arc_supply=supply.astype(np.int64),
        arc_of=arc_of,
        class_topic=np.array([t for t, _ in classes], np.int64),
        class_supply=np.bincount(class_of[class_of >= 0], minlength=len(classes)).astype(np.int64),
        class_start=np.cumsum([0, *(len(who) for _, who in classes)], dtype=np.int64),
        class_claimant=np.array([m for _, who in classes for m in who], np.int64),
        class_of=class_of,
    )


def _eligible(bundles: Bundles, ownership: Ownership, topic: IntArray) -> tuple[IntArray, IntArray]:
    """Distinct pairs (partition, claimant who may own it) of owned partitions, sorted."""
    partition = np.repeat(np.arange(len(topic)), np.diff(ownership.start)).astype(np.int64)
    member = np.asarray(ownership.claimant, np.int64)
    good = (topic[partition] >= 0) & ownership.owned[partition]
    partition, member = partition[good], member[good]
    width = max(len(bundles.size), 1)
    open_pairs = bundles.arc_topic * width + bundles.arc_member
    pairs = topic[partition] * width + bundles.member[member]
    good = (bundles.member[member] >= 0) & np.isin(pairs, open_pairs)
    members = max(len(bundles.member), 1)
    keys = np.unique(partition[good] * members + member[good])
    return keys // members, keys % members


def _contested(
    partition: IntArray, member: IntArray, topic: IntArray
) -> tuple[list[tuple[int, tuple[int, ...]]], IntArray]:
    """Partitions with the same topic bundle and the same claimants are one class."""
    class_of = np.full(len(topic), -1, np.int64)
    seen: dict[tuple[int, tuple[int, ...]], int] = {}
    which, start = np.unique(partition, return_index=True)
    ends = np.append(start, len(partition))[1:].tolist()
    who = member.tolist()
    for p, a, b in zip(which.tolist(), start.tolist(), ends, strict=True):
        class_of[p] = seen.setdefault((int(topic[p]), tuple(who[a:b])), len(seen))
    return list(seen), class_of
