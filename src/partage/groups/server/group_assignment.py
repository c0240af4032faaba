"""Result of the group coordinator's assignors: Kafka's GroupAssignment as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.groups.server.spec import GroupSpec
from partage.model import Assignment, Index, Plan
from partage.model.index import Int32Array

__all__ = ["GroupAssignment", "assignment_to_json", "concatenate_runs"]

#: Above this mean number of partitions per member, and with fewer members, one slice per member is
#: the faster copy.
_SLICE_FROM, _FEW_MEMBERS = 100, 32


@dataclass(frozen=True, eq=False)
class GroupAssignment:
    """Result of an assignor that runs in the broker: the partitions of each member.

    It corresponds to Kafka's class ``GroupAssignment``, in which a member's partitions are a set
    and have no order.

    Attributes:
        start: int32[M + 1], where each member's partitions begin in ``partition``, in join order
            (compressed rows, CSR).
        partition: int32[n], index numbers of the partitions.
        present: whether Kafka's map has an entry for each member. It is empty if no member has a
            subscription; every member then gets an empty target.
        emptied: (member, topic) pairs for which Kafka's map has an empty set.
    """

    start: Int32Array
    partition: Int32Array
    present: bool = True
    emptied: tuple[tuple[int, int], ...] = ()

    @classmethod
    def without_members(cls, spec: GroupSpec) -> GroupAssignment:
        """Return the result for a group in which no member subscribes to a topic.

        Kafka's result then has no entry for any member. ``spec`` is the assignor's input.
        """
        start = np.zeros(spec.members + 1, np.int32)
        return cls(start, np.zeros(0, np.int32), present=False)

    def to_plan(self, spec: GroupSpec) -> Plan:
        """Convert the result of a broker's assignor to a `Plan`, with one owner for each partition.

        Every member gets an entry, even if Kafka's result has none. ``spec`` is the assignor's
        input.

        Raises:
            PlanInvariantError: a partition has two owners, because two members had it before.
        """
        return Plan(*self._parts(spec))

    def to_assignment(self, spec: GroupSpec) -> Assignment:
        """Convert the result of a broker's assignor to an `Assignment`.

        Unlike in a `Plan`, a partition may have several owners, as in share groups. ``spec`` is the
        assignor's input.
        """
        return Assignment(*self._parts(spec))

    def _parts(
        self, spec: GroupSpec
    ) -> tuple[Index, tuple[str, ...], Int32Array, Int32Array, NDArray[np.int8]]:
        role = np.zeros(len(self.partition), np.int8)
        problem = spec.problem
        return problem.index, problem.group.ids, self.start, self.partition, role


def concatenate_runs(
    parts: Sequence[tuple[Int32Array, NDArray[np.int64], NDArray[np.int64]]], members: int
) -> tuple[Int32Array, Int32Array]:
    """Merge several lists of partitions of each member into one list for each member.

    For example, one input has the partitions that each member keeps, and another one has its new
    partitions. All members' lists are stored one after another in one array.

    Args:
        parts: partitions, and the begin and end of each member's range in them (int64[M] each). The
            ranges do not overlap and cover the array.
        members: number of members.

    Returns:
        Where each member's partitions begin (int32[M + 1]), and the partitions (CSR).
    """
    sizes = sum(end - begin for _, begin, end in parts)
    start = np.zeros(members + 1, np.int32)
    np.cumsum(sizes, out=start[1:])
    if members < _FEW_MEMBERS or int(start[-1]) > _SLICE_FROM * members:
        by_part = [
            [values[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
            for values, begin, end in parts
        ]
        return start, np.concatenate(list(chain.from_iterable(zip(*by_part, strict=True))))
    out = np.empty(int(start[-1]), np.int32)
    next_free = start[:-1].astype(np.int64)
    for values, begin, end in parts:
        # In the order of the runs, all values of a run move by the same distance.
        order = np.argsort(begin + end)
        distance = np.repeat((next_free - begin)[order].astype(np.int32), (end - begin)[order])
        out[distance + np.arange(len(values), dtype=np.int32)] = values
        next_free += end - begin
    return start, out


def assignment_to_json(assignment: GroupAssignment, spec: GroupSpec) -> dict[str, Any]:
    """Convert the result of an assignor in the broker to a JSON document.

    In this form it can be compared with the result of Kafka's class. Its fields are ``type`` and
    ``assignment``. Topic ids are in Java's sort order, partitions ascending.

    Args:
        assignment: the assignor's result.
        spec: the assignor's input.
    """
    index, group = spec.problem.index, spec.problem.group
    kind = "HOMOGENEOUS" if spec.has_equal_subscriptions else "HETEROGENEOUS"
    if not assignment.present:
        return {"type": kind, "assignment": {}}
    high, low = spec.topic_ids.signed_halves
    rank = np.empty(len(high), np.int64)
    rank[np.lexsort((low, high))] = np.arange(len(high))
    texts = spec.topic_ids.base64_texts
    sets: list[dict[int, list[int]]] = [{} for _ in group]
    for member, topic in assignment.emptied:
        sets[member][topic] = []
    member_of = np.repeat(np.arange(len(group)), np.diff(assignment.start)).tolist()
    topic_of = index.topic_of[assignment.partition].tolist()
    number_of = index.number_of[assignment.partition].tolist()
    for member, topic, number in zip(member_of, topic_of, number_of, strict=True):
        sets[member].setdefault(topic, []).append(number)
    return {
        "type": kind,
        "assignment": {
            group.ids[m]: [
                [texts[t], sorted(topics[t])] for t in sorted(topics, key=lambda t: int(rank[t]))
            ]
            for m, topics in enumerate(sets)
        },
    }
