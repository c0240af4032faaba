"""The assignment problem: eligible topics, previous owners, and equivalence classes of both.

Topics with the same subscribers form one topic class. Members with the same subscription form one
member class. Loads depend only on how many partitions go from a topic class to a member class. A
group whose members all subscribe to the same topics has one class of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from partage.solve.assignment.network import IntArray

__all__ = [
    "ClaimClasses",
    "Eligibility",
    "Ownership",
    "SubscriptionClasses",
    "classify_claims",
    "find_classes",
]


@dataclass(frozen=True, slots=True, eq=False)
class Eligibility:
    """The topics that each member may own, and each topic's number of partitions.

    Members with equal subscriptions can share an entry.

    Attributes:
        partitions: int[topics], number of partitions of each topic.
        start: int[subscriptions + 1]; topic: int[n], the distinct topics of each subscription, as
            compressed sparse rows (CSR).
        subscription: int[members], the subscription of each member; all subscriptions are used.
            None if member i has subscription i.

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
        """Number of members of the consumer group.

        Members that share a subscription are counted one by one.
        """
        return len(self.start) - 1 if self.subscription is None else len(self.subscription)


@dataclass(frozen=True, slots=True, eq=False)
class Ownership:
    """The previous owners of each partition, which may keep it without a move.

    A solver that minimises moved partitions needs them.

    Attributes:
        topic_of: int[partitions], topic of each partition.
        owned: bool[partitions], whether a member owned it; assigning a partition without owner is
            no move.
        start: int[partitions + 1]; claimant: int[n], the claimants of each partition: members that
            may keep it without a move (CSR). There are several if members contradict each other in
            what they report as owned. An owned partition without claimants was owned by a member
            that has left.

    >>> kept = Ownership(np.array([0]), np.array([True]), np.array([0, 1]), np.array([3]))
    >>> kept.claimant.tolist()
    [3]
    """

    topic_of: NDArray[np.integer]
    owned: NDArray[np.bool_]
    start: NDArray[np.integer]
    claimant: NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False)
class SubscriptionClasses:
    """Classes of topics with equal subscribers, and classes of members with equal subscriptions.

    Solvers treat the members of a class, and its topics, as interchangeable.

    Attributes:
        partitions: int64[topics], partitions of each topic.
        topic: int64[topics], class of each topic, -1 if it has no partition or no subscriber.
        member: int64[members], class of each member, -1 if it subscribes to no such topic.
        supply: int64[topic classes], partitions of each topic class.
        size: int64[member classes], members of each member class.
        arc_topic, arc_member: int64[A], the eligible pairs of classes, by topic class.
    """

    partitions: IntArray
    topic: IntArray
    member: IntArray
    supply: IntArray
    size: IntArray
    arc_topic: IntArray
    arc_member: IntArray

    def with_members(self, subscription: NDArray[np.integer]) -> SubscriptionClasses:
        """Return a copy in which each member has the class of its subscription.

        Classes are found once per distinct subscription, which saves time if many members share
        one.

        Args:
            subscription: int[members], index of each member's subscription among the distinct ones.
        """
        member = self.member[subscription]
        size = np.bincount(member[member >= 0], minlength=len(self.size)).astype(np.int64)
        return replace(self, member=member, size=size)


def find_classes(eligibility: Eligibility) -> SubscriptionClasses:
    """Group topics with equal subscribers, and members with equal subscriptions, into classes.

    Solvers treat the elements of a class as interchangeable, which makes large groups small
    problems. ``eligibility`` has each member's subscribed topics.
    """
    partitions = np.asarray(eligibility.partitions, np.int64)
    member, rows = _equal_rows(
        np.asarray(eligibility.start, np.int64),
        np.asarray(eligibility.topic, np.int64),
        partitions > 0,
    )
    pairs_member = np.repeat(np.arange(len(rows)), [len(r) for r in rows]).astype(np.int64)
    pairs_topic = np.concatenate([*rows, np.zeros(0, np.int64)])
    order = np.lexsort((pairs_member, pairs_topic))
    start = np.searchsorted(pairs_topic[order], np.arange(len(partitions) + 1))
    everyone = np.ones(len(rows), bool)
    topic, subscribers = _equal_rows(start.astype(np.int64), pairs_member[order], everyone)
    open_topics = topic >= 0
    classes = SubscriptionClasses(
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
    if eligibility.subscription is None:
        return classes
    return classes.with_members(np.asarray(eligibility.subscription))


def _equal_rows(
    start: IntArray, column: IntArray, is_relevant: NDArray[np.bool_]
) -> tuple[IntArray, list[IntArray]]:
    """Group the rows of a sparse matrix that have the same set of relevant columns.

    The first result is the class of each row (-1 for an empty row), the second the columns of each
    class.

    Args:
        start: offset of each row in ``column`` (compressed sparse rows).
        column: columns of all rows.
        is_relevant: bool[columns], whether a column counts.
    """
    kept = is_relevant[column] if len(column) else np.zeros(0, bool)
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
class ClaimClasses:
    """Groups of interchangeable partitions that previous owners may keep.

    The partitions of a group have the same previous owners and the same subscribers. A previous
    owner that may keep a partition is a claimant. Topics with equal subscribers form a class.

    Attributes:
        topic: int64[partitions], topic class of each partition, -1 if no member may own it.
        owned: bool[partitions], whether the partition had an owner and a member may own it now.
        arc_topic, arc_member, arc_supply: int64[A], topic class, its only claimant, and the number
            of partitions.
        arc_of: int64[partitions], index of a partition's group in these arrays, -1 if it has none.
        class_topic, class_supply: int64[C], partitions of one topic class with the same claimants,
            two or more.
        class_start: int64[C + 1]; class_claimant: int64[n], those claimants (CSR).
        class_of: int64[partitions], index of a partition's group in these arrays, -1 if it has
            none.
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


def classify_claims(classes: SubscriptionClasses, ownership: Ownership) -> ClaimClasses:
    """Group the partitions that previous owners may keep into sets of interchangeable partitions.

    Partitions are interchangeable if they have the same previous owners, and if their topics have
    the same subscribers.

    Args:
        classes: topics with equal subscribers, and members with equal subscriptions.
        ownership: the previous owners of each partition; those that no longer subscribe are left
            out.
    """
    topic = classes.topic[np.asarray(ownership.topic_of, np.int64)]
    partition, member = _eligible_claims(classes, ownership, topic)
    claim_count = np.bincount(partition, minlength=len(topic))
    single = claim_count[partition] == 1
    members = max(len(classes.member), 1)
    key = topic[partition[single]] * members + member[single]
    arcs, which, supply = np.unique(key, return_inverse=True, return_counts=True)
    arc_of = np.full(len(topic), -1, np.int64)
    arc_of[partition[single]] = which
    contested, class_of = _group_contested(partition[~single], member[~single], topic)
    return ClaimClasses(
        topic=topic,
        owned=ownership.owned & (topic >= 0),
        arc_topic=arcs // members,
        arc_member=arcs % members,
        arc_supply=supply.astype(np.int64),
        arc_of=arc_of,
        class_topic=np.array([t for t, _ in contested], np.int64),
        class_supply=np.bincount(class_of[class_of >= 0], minlength=len(contested)).astype(
            np.int64
        ),
        class_start=np.cumsum([0, *(len(claimants) for _, claimants in contested)], dtype=np.int64),
        class_claimant=np.array([m for _, claimants in contested for m in claimants], np.int64),
        class_of=class_of,
    )


def _eligible_claims(
    classes: SubscriptionClasses, ownership: Ownership, topic: IntArray
) -> tuple[IntArray, IntArray]:
    """Return all pairs of a partition and a previous owner that still subscribes to its topic.

    Such an owner may keep the partition.

    Args:
        classes: topics with equal subscribers, and members with equal subscriptions.
        ownership: previous owners of each partition.
        topic: for each partition the class of its topic, -1 for none.

    Returns:
        Two arrays of equal length, partitions and members, sorted by partition.
    """
    partition = np.repeat(np.arange(len(topic)), np.diff(ownership.start)).astype(np.int64)
    member = np.asarray(ownership.claimant, np.int64)
    good = (topic[partition] >= 0) & ownership.owned[partition]
    partition, member = partition[good], member[good]
    width = max(len(classes.size), 1)
    open_pairs = classes.arc_topic * width + classes.arc_member
    pairs = topic[partition] * width + classes.member[member]
    good = (classes.member[member] >= 0) & np.isin(pairs, open_pairs)
    members = max(len(classes.member), 1)
    keys = np.unique(partition[good] * members + member[good])
    return keys // members, keys % members


def _group_contested(
    partition: IntArray, member: IntArray, topic: IntArray
) -> tuple[list[tuple[int, tuple[int, ...]]], IntArray]:
    """Group the partitions that several previous owners may keep.

    Partitions of a group have the same previous owners and topics with equal subscribers (a topic
    class). The first result lists the groups, each as a pair of a topic class and its owners. The
    second has the group of each partition (-1 for none).

    Args:
        partition: partition of each claim, ascending.
        member: previous owner that may keep it.
        topic: topic class of each partition (topics with equal subscribers).
    """
    class_of = np.full(len(topic), -1, np.int64)
    seen: dict[tuple[int, tuple[int, ...]], int] = {}
    which, start = np.unique(partition, return_index=True)
    ends = np.append(start, len(partition))[1:].tolist()
    claimants = member.tolist()
    for p, a, b in zip(which.tolist(), start.tolist(), ends, strict=True):
        class_of[p] = seen.setdefault((int(topic[p]), tuple(claimants[a:b])), len(seen))
    return list(seen), class_of
