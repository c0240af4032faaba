"""The rules of a valid assignment, and a check that returns every breach of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from partage.judge.facts import Facts
from partage.judge.ownership import (
    AssignmentEntries,
    PreviousOwners,
    assignment_entries,
    sole_owners,
)
from partage.model import Assignment, Cluster, Group, Problem

__all__ = ["Breach", "BreachKind", "check", "count_breaches"]


class BreachKind(Enum):
    """Kinds of rule violations in an assignment of partitions, such as a partition without an
    owner.

    Values are stored in tables, so they never change.
    """

    UNKNOWN_MEMBER = "unknown member"
    MISSING_MEMBER = "missing member"
    REPEATED_MEMBER = "repeated member"
    UNKNOWN_TOPIC = "unknown topic"
    UNKNOWN_PARTITION = "unknown partition"
    UNSUBSCRIBED = "unsubscribed owner"
    LISTED_TWICE = "listed twice"
    TWO_OWNERS = "two owners"
    NO_OWNER = "no owner"


_TEXT = {
    BreachKind.UNKNOWN_MEMBER: "{member} has an entry but is not in the group",
    BreachKind.MISSING_MEMBER: "{member} is in the group but has no entry",
    BreachKind.REPEATED_MEMBER: "{member} has more than one entry",
    BreachKind.UNKNOWN_TOPIC: "{member} has {topic}-{partition}: the cluster has no such topic",
    BreachKind.UNKNOWN_PARTITION: (
        "{member} has {topic}-{partition}: the topic has no such partition"
    ),
    BreachKind.UNSUBSCRIBED: "{member} has {topic}-{partition} without subscribing to {topic}",
    BreachKind.LISTED_TWICE: "{member} has {topic}-{partition} more than once",
    BreachKind.TWO_OWNERS: "{topic}-{partition} has another owner besides {member}",
    BreachKind.NO_OWNER: "{topic}-{partition} has subscribers but no owner",
}


@dataclass(frozen=True, slots=True)
class Breach:
    """Violation of one rule by an assignment, with the member and partition that it concerns.

    Attributes:
        kind: the rule that is violated.
        member: id of the member concerned, None if no member is. A partition with several owners
            gives a `Breach` for each owner after the first.
        topic: the topic's name, None if the rule is about members only.
        partition: the partition number, None if the rule is about members only.

    >>> str(Breach(BreachKind.NO_OWNER, topic="orders", partition=3))
    'orders-3 has subscribers but no owner'
    """

    kind: BreachKind
    member: str | None = None
    topic: str | None = None
    partition: int | None = None

    def __str__(self) -> str:
        return _TEXT[self.kind].format(
            member=self.member, topic=self.topic, partition=self.partition
        )


def check(
    assignment: Assignment, group: Group, cluster: Cluster, *, several_owners: bool = False
) -> list[Breach]:
    """Return every violated rule of an assignment, such as a partition without an owner.

    The list is empty if the assignment is valid. Each existing partition with subscribers needs
    exactly one owner. Exactly the members of the group must have an entry, one each. A member may
    only have existing partitions of topics that it subscribes to, each once.

    In the first phase of a cooperative rebalance (KIP-429) a plan may withhold a partition that
    another member claims to own and must release first. Standby and warm-up entries own nothing. A
    member that is releasing a partition still owns it, and need no longer subscribe to it.

    Args:
        assignment: any assignment, including recorded ones.
        group: the members as they subscribed.
        cluster: the partitions that existed.
        several_owners: allow a partition to be with several members (share groups, KIP-932).

    >>> cluster = Cluster.from_topics({"orders": 2})
    >>> plan = Assignment.of(cluster.index, {"c1": {"orders": [0]}})
    >>> from partage.model import Member
    >>> [str(b) for b in check(plan, Group([Member("c1", ["orders"])]), cluster)]
    ['orders-1 has subscribers but no owner']
    """
    group_arrays = Facts(Problem(group, cluster))
    return list(_find_breaches(assignment, group_arrays, several_owners=several_owners))


def count_breaches(assignment: Assignment, group_arrays: Facts, old_owners: PreviousOwners) -> int:
    """Count how often an assignment breaks a rule, for example leaves a partition without an owner.

    The result equals the number of entries that `check` returns. It is computed from arrays, which
    is faster.

    Args:
        assignment: the assignment to check, valid or not.
        group_arrays: the members' subscriptions and the partitions.
        old_owners: the previous owners, instead of the partitions that the members report as owned.
    """
    problem = group_arrays.problem
    owner = sole_owners(assignment, problem)
    if owner is not None:
        given = np.flatnonzero(owner >= 0)
        unsubscribed = ~group_arrays.is_subscribed(owner[given], given)
        missing = group_arrays.is_open & (owner < 0)
        withheld = getattr(assignment, "withheld", given[:0])
        missing[withheld[np.diff(old_owners.start)[withheld] > 0]] = False
        return int(np.count_nonzero(unsubscribed) + np.count_nonzero(missing))
    claiming = problem.rejoined(problem.group, old_owners.rows_by_member(len(problem.group)))
    return sum(1 for _ in _find_breaches(assignment, Facts(claiming), several_owners=False))


def _find_breaches(
    assignment: Assignment, group_arrays: Facts, *, several_owners: bool
) -> Iterator[Breach]:
    """Yield every violation of a rule by an assignment, one kind of rule after the other.

    With ``several_owners`` (share groups), a partition may have several owners.
    """
    group, cluster = group_arrays.problem.group, group_arrays.problem.cluster
    entries = assignment_entries(assignment, group_arrays.problem)
    there = entries.partition >= 0
    there[there] = cluster.partition_exists[entries.partition[there]]
    yield from _members(assignment, group)
    yield from _unresolved(assignment, cluster)
    yield from _gone(assignment, entries, there, cluster)
    yield from _unsubscribed(assignment, entries, there, group_arrays)
    yield from _repeated(assignment, entries, there, group_arrays, several_owners=several_owners)
    yield from _unowned(
        entries, there, group_arrays, _partitions_to_revoke(assignment, entries, group_arrays)
    )


def _members(assignment: Assignment, group: Group) -> Iterator[Breach]:
    # A member without an entry, one with several, and one outside the group.
    seen: set[str] = set()
    for name in assignment.members:
        if name in seen:
            yield Breach(BreachKind.REPEATED_MEMBER, name)
        elif name not in group.position:
            yield Breach(BreachKind.UNKNOWN_MEMBER, name)
        seen.add(name)
    for name in group.ids:
        if name not in seen:
            yield Breach(BreachKind.MISSING_MEMBER, name)


def _unresolved(assignment: Assignment, cluster: Cluster) -> Iterator[Breach]:
    # Entries whose topic or partition is not in the assignment's index.
    for one in assignment.unresolved:
        known = cluster.topic(one.topic) >= 0
        kind = BreachKind.UNKNOWN_PARTITION if known else BreachKind.UNKNOWN_TOPIC
        yield Breach(kind, one.member, one.topic, one.partition)


def _gone(
    assignment: Assignment, entries: AssignmentEntries, there: NDArray[np.bool_], cluster: Cluster
) -> Iterator[Breach]:
    # Entries whose partition no longer exists in the cluster.
    for i in np.flatnonzero(~there).tolist():
        member = assignment.members[entries.name[i]]
        dense = int(assignment.partition[i])
        if not 0 <= dense < assignment.index.partitions:
            yield Breach(BreachKind.UNKNOWN_PARTITION, member, None, dense)
            continue
        topic, number = assignment.index.name(dense)
        ours = int(entries.partition[i])
        if ours >= 0:
            # A topic that was deleted and created again is another topic with the same name.
            known = bool(cluster.topic_exists[cluster.index.topic_of[ours]])
        else:
            known = cluster.topic(topic) >= 0
        kind = BreachKind.UNKNOWN_PARTITION if known else BreachKind.UNKNOWN_TOPIC
        yield Breach(kind, member, topic, number)


def _unsubscribed(
    assignment: Assignment,
    entries: AssignmentEntries,
    there: NDArray[np.bool_],
    group_arrays: Facts,
) -> Iterator[Breach]:
    mine = np.flatnonzero(there & (entries.member >= 0) & ~entries.releasing)
    mine = mine[~group_arrays.is_subscribed(entries.member[mine], entries.partition[mine])]
    for i in mine.tolist():
        yield _named(BreachKind.UNSUBSCRIBED, assignment, entries, i, group_arrays)


def _repeated(
    assignment: Assignment,
    entries: AssignmentEntries,
    there: NDArray[np.bool_],
    group_arrays: Facts,
    *,
    several_owners: bool,
) -> Iterator[Breach]:
    # Each further entry of a partition, of one member or of several.
    mine = np.flatnonzero(there)
    mine = mine[_again((entries.partition[mine] << 32) | entries.name[mine])]
    for i in mine.tolist():
        yield _named(BreachKind.LISTED_TWICE, assignment, entries, i, group_arrays)
    if several_owners:
        return
    first = np.ones(len(there), bool)
    first[mine] = False
    owners = np.flatnonzero(there & first & entries.owning)
    for i in owners[_again(entries.partition[owners])].tolist():
        yield _named(BreachKind.TWO_OWNERS, assignment, entries, i, group_arrays)


def _again(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    # All keys that occurred before.
    first = np.unique(keys, return_index=True)[1]
    again = np.ones(len(keys), bool)
    again[first] = False
    return np.flatnonzero(again)


def _partitions_to_revoke(
    assignment: Assignment, entries: AssignmentEntries, group_arrays: Facts
) -> NDArray[np.int64]:
    """Return the partitions without an owner in a plan that their old owner must revoke first.

    They are assigned in the next rebalance of a cooperative group (KIP-429).
    """
    withheld = getattr(assignment, "withheld", ())
    if not len(withheld) or assignment.index is not group_arrays.problem.index:
        return np.zeros(0, np.int64)
    start, claimed = group_arrays.problem.claims
    claimant = np.repeat(np.arange(len(group_arrays.problem.group), dtype=np.int64), np.diff(start))
    keeps = np.isin(
        (claimed.astype(np.int64) << 32) | claimant, (entries.partition << 32) | entries.member
    )
    return np.intersect1d(withheld, claimed[~keeps & (claimed >= 0)]).astype(np.int64)


def _unowned(
    entries: AssignmentEntries,
    there: NDArray[np.bool_],
    group_arrays: Facts,
    given_up: NDArray[np.int64],
) -> Iterator[Breach]:
    missing = group_arrays.is_open.copy()
    missing[entries.partition[there & entries.owning]] = False
    missing[given_up] = False
    for p in np.flatnonzero(missing).tolist():
        topic, number = group_arrays.problem.index.name(p)
        yield Breach(BreachKind.NO_OWNER, None, topic, number)


def _named(
    kind: BreachKind,
    assignment: Assignment,
    entries: AssignmentEntries,
    i: int,
    group_arrays: Facts,
) -> Breach:
    topic, number = group_arrays.problem.index.name(int(entries.partition[i]))
    return Breach(kind, assignment.members[entries.name[i]], topic, number)
