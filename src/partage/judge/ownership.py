"""Entries of an assignment in a problem's numbers, and the previous owners of partitions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.model import Assignment, Plan, Problem, Role
from partage.model.index import Index, Int32Array
from partage.model.validation import expect_kind

__all__ = [
    "NOBODY",
    "SEVERAL",
    "AssignmentEntries",
    "PreviousOwners",
    "assignment_entries",
    "previous_owners",
    "sole_owners",
]

#: Values of an owner view: no owner, and more than one.
NOBODY, SEVERAL = -1, -2

#: Roles in which a member reads a partition, so that no other member may own it.
_OWNING = (Role.OWNER, Role.RELEASING, Role.ACTIVE)


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentEntries:
    """An assignment as parallel arrays: entry i says that a member has a partition.

    Attributes:
        member: int64[n], the member's index in the group, -1 for an unknown member.
        name: int64[n], the member's index in ``assignment.members``.
        partition: int64[n], the partition's number in the cluster's index, -1 for an unknown one.
        owning: bool[n], whether the entry's role makes the member the owner.
        releasing: bool[n], whether the member is about to release the partition.
    """

    member: NDArray[np.int64]
    name: NDArray[np.int64]
    partition: NDArray[np.int64]
    owning: NDArray[np.bool_]
    releasing: NDArray[np.bool_]

    def owned_pairs(self, exists: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the distinct (partition, owner) pairs of existing partitions, sorted, as two
        arrays.

        ``exists`` marks the partitions that exist (bool[partitions]). Standby tasks of Kafka
        Streams are left out, because they do not own the partition.
        """
        good = self.owning & (self.member >= 0) & (self.partition >= 0)
        good[good] = exists[self.partition[good]]
        return _distinct(self.partition[good], self.member[good])


def _distinct(
    partition: NDArray[np.int64], member: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    keys = np.unique((partition << 32) | member)
    return keys >> 32, keys & 0xFFFFFFFF


def assignment_entries(assignment: Assignment, problem: Problem) -> AssignmentEntries:
    """Convert an assignment from ids and names to arrays of member and partition indices.

    ``problem`` (the group and the cluster) defines these indices.

    Raises:
        InvalidProblemError: ``assignment`` is not an `Assignment`.
    """
    expect_kind(assignment, Assignment, "assignment")
    position = problem.group.position
    of = np.array([position.get(name, -1) for name in assignment.members], np.int64)
    name = assignment.member_of.astype(np.int64)
    return AssignmentEntries(
        member=of[name] if len(name) else name,
        name=name,
        partition=_partition_indices(assignment, problem.index),
        owning=np.isin(assignment.role, _OWNING),
        releasing=assignment.role == Role.RELEASING,
    )


def sole_owners(assignment: Assignment, problem: Problem) -> NDArray[np.int64] | None:
    """Return the owner of each partition (int64[partitions]), -1 for a partition without an owner.

    The result is None unless the assignment has exactly the group's members in the same order, and
    gives each partition at most one owner.

    Raises:
        InvalidProblemError: ``assignment`` is not an `Assignment`.
    """
    expect_kind(assignment, Assignment, "assignment")
    exists = problem.cluster.partition_exists
    if (
        assignment.index is not problem.index
        or assignment.unresolved
        or assignment.members != problem.group.ids
        or np.count_nonzero(assignment.role)
        or np.count_nonzero(exists[assignment.partition]) < len(assignment.partition)
    ):
        return None
    if isinstance(assignment, Plan):  # it has no partition with two owners
        return assignment.owner.astype(np.int64)
    owner = np.full(problem.index.partitions, NOBODY, np.int64)
    owner[assignment.partition] = assignment.member_of
    is_sole = np.count_nonzero(owner >= 0) == len(assignment.partition)
    return owner if is_sole else None


def _partition_indices(assignment: Assignment, index: Index) -> NDArray[np.int64]:
    """Return the problem's index of each assigned partition, -1 if the problem does not have it.

    An assignment may number partitions in another way than the problem (``index``). Topics are
    matched by id if both have it, else by name.
    """
    theirs = assignment.index
    partition = assignment.partition.astype(np.int64)
    good = (partition >= 0) & (partition < theirs.partitions)
    if theirs is index:
        return np.where(good, partition, -1)
    topics: list[int] = []
    for name, topic_id in zip(theirs.topics, theirs.ids, strict=True):
        known = -1 if topic_id is None else index.topic_by_id(topic_id)
        if known < 0:
            known = index.topic(name)
            if topic_id is not None and known >= 0 and index.ids[known] is not None:
                known = -1  # the same name, made anew
        topics.append(known)
    out = np.full(len(partition), -1, np.int64)
    mine = partition[good]
    topic: Int32Array = np.array(topics, np.int32)[theirs.topic_of[mine]]
    out[good] = index.locate_all(topic, theirs.number_of[mine])
    return out


class PreviousOwners:
    """Members that owned each partition before a rebalance, and may keep it without a move.

    Moves of a new assignment are counted against them.

    Args:
        owned: bool[partitions], whether the partition had an owner.
        start: int64[partitions + 1], where each partition's members begin in ``claimant`` (CSR).
        claimant: int64[n], the members that may keep each partition, ascending; a partition whose
            owner left the group has none.
    """

    def __init__(
        self, owned: NDArray[np.bool_], start: NDArray[np.int64], claimant: NDArray[np.int64]
    ) -> None:
        self.owned = owned
        vars(self).update(start=start, claimant=claimant)

    @classmethod
    def from_owner_array(cls, owner: NDArray[np.int64]) -> PreviousOwners:
        """Build the previous owners from an array with at most one owner for each partition.

        ``owner`` is int64[partitions], -1 for a partition without an owner.

        >>> found = PreviousOwners.from_owner_array(np.array([1, -1, 0]))
        >>> found.owned.tolist(), found.start.tolist(), found.claimant.tolist()
        ([True, False, True], [0, 1, 1, 2], [1, 0])
        """
        # Most measurements need neither ``start`` nor ``claimant``.
        made = object.__new__(cls)
        vars(made).update(owned=owner >= 0, sole_owners=owner)
        return made

    @cached_property
    def start(self) -> NDArray[np.int64]:
        """Offset of each partition's first member in ``claimant`` (int64[partitions + 1]).

        The last item is the number of members in ``claimant``.
        """
        start = np.zeros(len(self.owned) + 1, np.int64)
        self.owned.cumsum(out=start[1:])
        return start

    @cached_property
    def claimant(self) -> NDArray[np.int64]:
        """Members that may keep each partition, partition after partition (int64[n]).

        The members of partition ``p`` are ``claimant[start[p]:start[p + 1]]``.
        """
        owner = self.sole_owners
        return np.zeros(0, np.int64) if owner is None else owner[self.owned]

    @cached_property
    def sole_owners(self) -> NDArray[np.int64] | None:
        """The only member that may keep each partition, -1 for none (int64[partitions]).

        The whole result is None if several members may keep the same partition.
        """
        count = self.start[1:] - self.start[:-1]
        if (count > 1).any():
            return None
        sole = np.full(len(self.owned), NOBODY, np.int64)
        sole[count > 0] = self.claimant
        return sole

    def rows_by_member(self, members: int) -> tuple[Int32Array, Int32Array]:
        """Return the partitions that each member may keep without a move, as a sparse matrix (CSR).

        The result is the offset of each member's partitions, and the partitions. ``members`` is the
        number of members.
        """
        partition = np.repeat(np.arange(len(self.owned), dtype=np.int32), np.diff(self.start))
        start = np.zeros(members + 1, np.int32)
        np.cumsum(np.bincount(self.claimant, minlength=members), out=start[1:])
        return start, partition[np.argsort(self.claimant, kind="stable")]

    def may_keep(
        self, partition: NDArray[np.int64], member: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return whether each given member owned the given partition before (bool[n]).

        Assigning the partition to this member is then no move. The pairs are given as two arrays of
        equal length.
        """
        of = np.repeat(np.arange(len(self.owned), dtype=np.int64), np.diff(self.start))
        return np.isin((partition << 32) | member, (of << 32) | self.claimant)


def previous_owners(problem: Problem, previous: Assignment | None = None) -> PreviousOwners:
    """Return the members that owned each partition before a rebalance, and may keep it without a
    move.

    They come from ``previous`` if given, else from the partitions that the members report as owned.
    If several members report a partition, the highest generation counts; members that subscribe to
    the topic come first. With equal generations, each of these members may keep it. Members that
    left report nothing: only ``previous`` shows what they owned.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([
    ...     Member("x", ["t"], owned={"t": [0, 1]}),
    ...     Member("y", ["t"], owned={"t": [0]}, generation=3),
    ...     Member("z", [], owned={"t": [0, 1]}, generation=4),
    ... ])
    >>> previous_owners(Problem(group, Cluster.from_topics({"t": 2}))).claimant.tolist()
    [1, 0]
    """
    exists = problem.cluster.partition_exists
    if previous is None:
        partition, member = _newest_claims(problem)
        return _before(exists, partition, member)
    entries = assignment_entries(previous, problem)
    good = entries.owning & (entries.partition >= 0)
    good[good] = exists[entries.partition[good]]
    partition, member = entries.partition[good], entries.member[good]
    there = member >= 0
    found = _before(exists, *_distinct(partition[there], member[there]))
    found.owned[partition] = True
    return found


def _before(
    exists: NDArray[np.bool_], partition: NDArray[np.int64], member: NDArray[np.int64]
) -> PreviousOwners:
    owned = np.zeros(len(exists), bool)
    owned[partition] = True
    start = np.searchsorted(partition, np.arange(len(exists) + 1)).astype(np.int64)
    return PreviousOwners(owned, start, member)


def _newest_claims(problem: Problem) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which members own which partitions by their own reports, as (partition, member) pairs.

    If several members report a partition, those with the highest generation count. The pairs are
    two arrays, sorted by partition.
    """
    start, claimed = problem.claims
    generations = np.array([m.generation for m in problem.group], np.int64)
    member = np.repeat(np.arange(len(problem.group), dtype=np.int64), np.diff(start))
    known = claimed >= 0
    partition, member = _distinct(claimed[known].astype(np.int64), member[known])
    rank = generations[member]
    if len(np.unique(partition)) < len(partition):
        # Reports of members that subscribe to the topic come before all others.
        rank = rank + _subscribes(problem, member, partition) * (np.int64(1) << 33)
    highest = np.full(problem.index.partitions, np.iinfo(np.int64).min)
    np.maximum.at(highest, partition, rank)
    newest = rank == highest[partition]
    return partition[newest], member[newest]


def _subscribes(
    problem: Problem, member: NDArray[np.int64], partition: NDArray[np.int64]
) -> NDArray[np.bool_]:
    topics = len(problem.index.topics)
    pairs = [s * topics + t.astype(np.int64) for s, t in enumerate(problem.subscription_topics)]
    of = problem.group.subscription_of.astype(np.int64)[member] * topics
    of += problem.index.topic_of.astype(np.int64)[partition]
    return np.isin(of, np.concatenate([*pairs, np.zeros(0, np.int64)]))
