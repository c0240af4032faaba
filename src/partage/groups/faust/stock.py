"""The assignor of faust-streaming 0.15.3: `Faust`, and its algorithm `assign_partitions`.

The algorithm follows ``CopartitionedAssignor`` step by step, including:

* candidates are sorted by load once, at the start of a phase;
* the round robin over the candidates continues where it stopped;
* the round robin skips ``p`` candidates before it places a standby of partition ``p``.

A member's partitions are sets of small integers as in Faust, because their iteration order
decides twice: which partition ``set.pop`` removes, and the order of a member's lists. CPython's
order of small integers does not depend on the hash seed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from partage.groups.dialects import PeerAssignorError
from partage.groups.faust.inputs import CopartitionedTopics
from partage.groups.faust.plan import CopartitionedAssignment
from partage.groups.faust.settings import OPTIONS
from partage.groups.faust.strategy import FaustStrategy
from partage.wire.faust import ByTopic, FaustMetadata

__all__ = ["Faust", "assign_partitions"]

#: Evictions before states are compared. Runs that terminate need far fewer.
_EVICTIONS_BEFORE_CHECK = 1024


@dataclass(frozen=True, repr=False)
class Faust(FaustStrategy):
    """Faust's sticky assignor: assigns copartitioned topics together, with standbys.

    Topics with equally many partitions and the same subscribers are assigned together. Members keep
    at most an even share of their partitions. The other partitions go to a member with a standby
    that has less than the even share, else round robin. With standbys, a new member gets no active
    partition while no other member exceeds the even share (rounded up). This is Faust's behaviour;
    ``faust:copartitioned`` differs.

    Members' previous partitions are in their user data (JSON); without user data, their owned
    partitions count. A member whose user data cannot be read counts as a new one, with a warning;
    Faust's own leader fails there. Where Faust's class raises, `PeerAssignorError` is raised.
    Topics that are now assigned together may have had different owners. Faust then keeps the
    owners of an arbitrary one of them, which depends on the hash seed; Partage those of the first
    by name.

    Settings: `partage.groups.faust.settings`. Cost: O(P R M) for P partitions, R standbys of
    each and M members, times the sizes of topics, in plain Python.

    Source: `faust.assignor.PartitionAssignor` of faust-streaming 0.15.3.

    >>> from partage.model import Cluster, Group, Member, Problem
    >>> group = Group([Member("a", ["s", "t"]), Member("b", ["s", "t"])])
    >>> Faust().assign(Problem(group, Cluster.from_topics({"s": 2, "t": 2}))).to_dict()
    {'a': {'s': [0], 't': [0]}, 'b': {'s': [1], 't': [1]}}
    """

    name = "faust"
    exact_to = "faust.assignor.PartitionAssignor faust-streaming 0.15.3"
    options = OPTIONS

    def assign_copartitioned(
        self, topics: CopartitionedTopics, metadata: Sequence[FaustMetadata]
    ) -> list[CopartitionedAssignment]:
        """Choose the active and standby members of each partition, as Faust's own class does.

        Copartitioned topics are assigned together: partitions with the same number go to the same
        member.

        Args:
            topics: topics with equal partition counts and subscribers, which are assigned together.
            metadata: what each member reported about its previous partitions.

        Returns:
            The active and standby partitions of each subscriber.

        Raises:
            PeerAssignorError: Faust's class fails, or does not terminate, on this problem.
        """
        assignments = [
            CopartitionedAssignment.from_partition_numbers(
                _previous_partitions(metadata[member].actives, topics.topics),
                _previous_partitions(metadata[member].standbys, topics.topics),
            )
            for member in topics.members
        ]
        assign_partitions(assignments, topics.partitions, self.settings.replicas)
        return assignments


def _previous_partitions(by_topic: ByTopic, topics: Iterable[str]) -> list[int]:
    """Return the partition numbers that a Faust member had before, for copartitioned topics.

    A member usually has the same partition numbers of all copartitioned topics. If not, the numbers
    of the first topic with any partition are returned.

    >>> _previous_partitions({"s": [], "t": [3], "u": [4]}, ["s", "t", "u"])
    [3]
    """
    return next((list(by_topic[topic]) for topic in topics if by_topic.get(topic)), [])


def assign_partitions(
    assignments: Sequence[CopartitionedAssignment], partitions: int, replicas: int
) -> None:
    """Assign each partition to one active member and to standbys, as Faust's class does.

    Members first lose partitions above an even share, then missing partitions are assigned.
    ``assignments`` is changed in place.

    Args:
        assignments: the previous assignment of each member, in join order; at least one.
        partitions: number of partitions, numbered from 0.
        replicas: standbys of each partition; at most one on each other member.

    Raises:
        PeerAssignorError: Faust's class fails, or does not terminate, on this input.

    Source: ``CopartitionedAssignor.get_assignment``.

    >>> assignments = [CopartitionedAssignment() for _ in range(3)]
    >>> assign_partitions(assignments, 6, 1)
    >>> assignments[0]
    CopartitionedAssignment(actives={0, 3}, standbys={2, 5})
    """
    members = len(assignments)
    replicas = min(replicas, members - 1)
    max_capacity = -(-partitions // members)
    # Without standbys the limit is rounded down, so that a new member gets a partition.
    is_rounded_down = replicas == 0 and 0 < partitions >= members
    capacity = partitions // members if is_rounded_down else max_capacity
    for assignment in assignments:
        while len(assignment.actives) > capacity:
            assignment.actives.pop()
        while len(assignment.standbys) > capacity * replicas:
            assignment.standbys.pop()
    _assign_actives(assignments, partitions, max_capacity)
    _assign_standbys(assignments, partitions, max_capacity, replicas)


def _assign_actives(
    assignments: Sequence[CopartitionedAssignment], partitions: int, max_capacity: int
) -> None:
    """Assign an active member to each partition without one.

    A member with a standby of the partition is preferred; otherwise members take turns. No member
    gets more than ``max_capacity`` active partitions. ``assignments`` is changed in place.
    """
    actives = [assignment.actives for assignment in assignments]
    unassigned = _unassign_overassigned(actives, partitions, 1)
    candidates = sorted(assignments, key=lambda assignment: len(assignment.actives))
    positions_of: dict[int, list[int]] = {}
    for position, candidate in enumerate(candidates):
        for p in candidate.standbys:
            positions_of.setdefault(p, []).append(position)
    members, current = len(candidates), 0
    for p in unassigned:
        steps = [
            (position - current) % members
            for position in positions_of.get(p, ())
            if len(candidates[position].actives) != max_capacity
        ]
        if steps:
            current = (current + min(steps)) % members
            candidates[current].standbys.remove(p)
        else:
            current = _find_active_member(candidates, current, max_capacity)
        candidates[current].actives.add(p)
        current = (current + 1) % members


def _assign_standbys(
    assignments: Sequence[CopartitionedAssignment],
    partitions: int,
    max_capacity: int,
    replicas: int,
) -> None:
    """Assign missing standbys of partitions, so that each has ``replicas`` of them.

    Members take turns up to a maximum number of standbys. If all are full, one of them first loses
    another standby, as in Faust's class. ``assignments`` is changed in place.
    """
    limit = max_capacity * replicas
    standbys = [assignment.standbys for assignment in assignments]
    unassigned = deque(_unassign_overassigned(standbys, partitions, replicas))
    candidates = sorted(assignments, key=lambda assignment: len(assignment.standbys))
    members, current = len(candidates), 0
    livelock = _LivelockDetector()
    while unassigned:
        p = unassigned.popleft()
        current = (current + p) % members
        position = _find_standby_member(candidates, current, p, limit)
        if position >= 0:
            target = candidates[position]
            current = (position + 1) % members
        else:
            # If all members are at the limit, one of them first loses a standby of another
            # partition.
            target = _find_full_member(assignments, p, limit)
            unassigned.append(_evict_standby(assignments, target, limit))
            livelock.raise_if_repeated(unassigned, current, standbys)
        target.standbys.add(p)
    if any(count != replicas for count in _count_assigned(standbys, partitions)):
        raise _failure("a partition has too many or too few standbys at the end")


def _find_active_member(
    candidates: Sequence[CopartitionedAssignment], current: int, max_capacity: int
) -> int:
    """Return the next member, in cyclic order from ``current`` on, that can get an active
    partition.

    A member can have at most ``max_capacity`` active partitions. Source:
    ``_find_round_robin_assignable``.
    """
    for step in range(len(candidates)):
        position = (current + step) % len(candidates)
        if len(candidates[position].actives) != max_capacity:
            return position
    raise _failure("all members are full before every partition is assigned")


def _find_standby_member(
    candidates: Sequence[CopartitionedAssignment], current: int, p: int, limit: int
) -> int:
    # Source: Faust's _find_round_robin_assignable. -1: all members are full or have the partition.
    for step in range(len(candidates)):
        position = (current + step) % len(candidates)
        candidate = candidates[position]
        if len(candidate.standbys) != limit and not candidate.has_partition(p):
            return position
    return -1


def _find_full_member(
    assignments: Sequence[CopartitionedAssignment], p: int, limit: int
) -> CopartitionedAssignment:
    for assignment in assignments:
        if len(assignment.standbys) == limit and not assignment.has_partition(p):
            return assignment
    raise _failure("no member can take another standby, not even a full one", "StopIteration")


def _evict_standby(
    assignments: Sequence[CopartitionedAssignment], full: CopartitionedAssignment, max_standbys: int
) -> int:
    """Remove one standby from a full member, and return the number of its partition.

    The member can then get another standby. A standby that another member can take is preferred.
    """
    standbys = full.standbys
    if not standbys:
        raise _failure("a member without standbys is full", "ValueError")
    others = [one for one in assignments if one is not full and len(one.standbys) != max_standbys]
    # The lowest partition of which another member below the limit can take a standby; else the
    # lowest partition.
    for p in sorted(standbys):
        if any(not other.has_partition(p) for other in others):
            break
    else:
        p = min(standbys)
    standbys.remove(p)
    return p


def _unassign_overassigned(assigned: Sequence[set[int]], partitions: int, copies: int) -> list[int]:
    """Remove surplus copies of partitions from members, and return the partitions that lack copies.

    Each partition must have ``copies`` copies. A partition occurs in the result once for each
    missing copy, in ascending order. ``assigned``, the partitions of each member, is changed in
    place.
    """
    unassigned = []
    for p, count in enumerate(_count_assigned(assigned, partitions)):
        for _ in range(count - copies):
            # The first members lose surplus copies, as in Faust's ``_unassign_overassigned`` and
            # ``_get_unassigned``.
            next(numbers for numbers in assigned if p in numbers).remove(p)
        unassigned += [p] * (copies - count)
    return unassigned


def _count_assigned(assigned: Sequence[set[int]], partitions: int) -> list[int]:
    counts = [0] * partitions
    for numbers in assigned:
        for p in numbers:
            # Faust never removes numbers beyond the partition count; they count as load.
            if p < partitions:
                counts[p] += 1
    return counts


class _LivelockDetector:
    """Detector of an endless loop in which two standbys replace each other forever.

    Faust's own class hangs in this case. The method is Brent's cycle detection (1980): each state
    follows from the previous one, so a repeated state proves that the loop never ends.
    """

    def __init__(self) -> None:
        self._evictions = 0
        self._next_reference = _EVICTIONS_BEFORE_CHECK
        self._reference: object = None

    def raise_if_repeated(
        self, unassigned: deque[int], current: int, standbys: Sequence[set[int]]
    ) -> None:
        """Raise `PeerAssignorError` if the loop that places standbys has been in the same state
        before.

        Such a loop never ends. The arguments are its state: the partitions without standby, the
        next member, and the standbys of each member.
        """
        self._evictions += 1
        if self._evictions < _EVICTIONS_BEFORE_CHECK:
            return
        state = (tuple(unassigned), current, tuple(map(frozenset, standbys)))
        if state == self._reference:
            raise _failure("two standbys replace each other without end", "hangs")
        if self._evictions >= self._next_reference:
            self._reference, self._next_reference = state, 2 * self._evictions


def _failure(reason: str, exception: str = "AssertionError") -> PeerAssignorError:
    return PeerAssignorError(f"Faust's assignor fails on this: {reason} ({exception})", exception)
