"""What an assignor of the coordinator decides: members, their topics, sets of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from partage.groups.server.spec import GroupSpec
from partage.model import Assignment, Index, Plan
from partage.model.index import Int32Array

__all__ = ["Answer", "runs_of"]

#: With more partitions a member than this, a slice a member is cheaper than a step a partition.
_LONG_RUN = 100


@dataclass(frozen=True, eq=False)
class Answer:
    """Partitions by member. In Java these are sets: within a member the order means nothing.

    Attributes:
        start: int32[M + 1], by member in join order (CSR).
        partition: int32[n], dense numbers.
        present: whether the class's answer has the members at all; where nobody subscribes
            to anything it is an empty map (and everybody gets an empty target).
        emptied: (member, topic) pairs that are in the answer with an empty set.
    """

    start: Int32Array
    partition: Int32Array
    present: bool = True
    emptied: tuple[tuple[int, int], ...] = ()

    @classmethod
    def nothing(cls, spec: GroupSpec) -> Answer:
        """The empty map."""
        start = np.zeros(spec.members + 1, np.int32)
        return cls(start, np.zeros(0, np.int32), present=False)

    def plan(self, spec: GroupSpec) -> Plan:
        """As a plan, in which every member has an entry.

        Raises:
            PlanInvariantError: the previous targets had a partition twice, and so has this.
        """
        return Plan(*self._parts(spec))

    def assignment(self, spec: GroupSpec) -> Assignment:
        """As a relation, in which a partition may be with several members."""
        return Assignment(*self._parts(spec))

    def _parts(
        self, spec: GroupSpec
    ) -> tuple[Index, tuple[str, ...], Int32Array, Int32Array, NDArray[np.int8]]:
        role = np.zeros(len(self.partition), np.int8)
        problem = spec.problem
        return problem.index, problem.group.ids, self.start, self.partition, role


def runs_of(
    parts: Sequence[tuple[Int32Array, NDArray[np.int64], NDArray[np.int64]]], members: int
) -> tuple[Int32Array, Int32Array]:
    """CSR by member from arrays that hold each member's share as one run.

    Each part is an array and the begin and end of every member's run in it; runs do not
    overlap, and leave nothing out. No sort: long runs are copied one by one, short ones all
    together.
    """
    sizes = sum((end - begin for _, begin, end in parts), np.zeros(members, np.int64))
    start = np.zeros(members + 1, np.int32)
    np.cumsum(sizes, out=start[1:])
    if int(start[-1]) > _LONG_RUN * members:
        by_part = [
            [values[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
            for values, begin, end in parts
        ]
        return start, np.concatenate(list(chain.from_iterable(zip(*by_part, strict=True))))
    out = np.empty(int(start[-1]), np.int32)
    place = start[:-1].astype(np.int64)
    for values, begin, end in parts:
        # In the order of the runs each value's way is that of its run.
        order = np.argsort(begin + end)
        ways = np.repeat((place - begin)[order].astype(np.int32), (end - begin)[order])
        out[ways + np.arange(len(values), dtype=np.int32)] = values
        place += end - begin
    return start, out
