"""The result of a sticky algorithm, and its conversion to a plan (KIP-429 included).

A slot is a partition's number in this problem; claimed partitions that do not exist have one too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.errors import PlanInvariantError, UnsupportedProblemError
from partage.groups.sticky.problem import PartitionSlots, StickyProblem
from partage.model import Assignment, Plan, Unresolved
from partage.model.index import Int32Array
from partage.model.repeated_state import EndlessLoop, endless_loop_fields

__all__ = [
    "Decision", "StickyAssignorError", "Transfers", "must_revoke_first",
]  # fmt: skip


_ALGORITHM = "Kafka's AbstractStickyAssignor.performReassignments"

Made = TypeVar("Made", bound=Assignment)


@dataclass(frozen=True, eq=False)
class Transfers:
    """Partitions that move from one member to another in a rebalance, and their new owners.

    In a cooperative rebalance, the old owners must revoke these partitions first. Element i of both
    arrays describes one partition.

    Attributes:
        slot: int32[n], the partitions, as indices of `StickyProblem`.
        member: int32[n], the new owner of each partition.
    """

    slot: Int32Array
    member: Int32Array


@dataclass(frozen=True, eq=False)
class Decision:
    """Result of a sticky assignor as arrays: the partitions of each member.

    `to_plan` converts it to a plan. Partitions are given by their index in the rebalance's arrays
    ("slot"), and may include reported ones that do not exist.

    Attributes:
        start: int32[M + 1], where each member's list begins, in join order (compressed rows, CSR).
        slot: int32[n], each member's list in the order of Kafka's class.
        slots: the numbering of slots.
        transfers: the slots that move between members; None after the general algorithm.
        owner_order: members in the order of Kafka's result, if a slot may have two owners.
        loop: the endless loop of Kafka's class, None if it returns.
    """

    start: Int32Array
    slot: Int32Array
    slots: PartitionSlots
    transfers: Transfers | None = None
    owner_order: list[int] | None = None
    loop: EndlessLoop | None = None

    @property
    def member_of_partition(self) -> Int32Array:
        """Member that gets each assigned partition (int32[n]).

        Element i is the member that gets partition ``slot[i]``.
        """
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))

    def without_partitions(self, removed: NDArray[np.bool_]) -> Decision:
        """Return a copy of the assignment from which some partitions are removed, so they have no
        owner.

        ``removed`` is bool[n]: True for the elements of the array ``slot`` to remove.
        """
        start = np.zeros(len(self.start), np.int32)
        sizes = np.bincount(self.member_of_partition[~removed], minlength=len(start) - 1)
        np.cumsum(sizes, out=start[1:])
        return replace(self, start=start, slot=self.slot[~removed])

    def to_pairs(self, sticky: StickyProblem) -> dict[str, list[tuple[str, int]]]:
        """Return each member's partitions, such as ``{"c1": [("orders", 0), ("orders", 3)]}``.

        Reported partitions that do not exist are included. ``sticky`` has the members and
        partitions of the rebalance.
        """
        names = [sticky.problem.index.topics[t] for t in sticky.topics.tolist()]
        topic, number = self.slots.topic.tolist(), self.slots.number.tolist()
        named = [(names[topic[s]], number[s]) for s in self.slot.tolist()]
        start = self.start.tolist()
        ids = sticky.problem.group.ids
        return {m: named[start[i] : start[i + 1]] for i, m in enumerate(ids)}

    def to_plan(self, sticky: StickyProblem, **more: Any) -> Plan:
        """Convert the result of a sticky assignor from arrays to a plan with topics and member ids.

        Partitions that a member reports as owned although they do not exist are in
        ``plan.unresolved``. If Kafka's Java class would loop forever on this input, the plan has a
        warning.

        Args:
            sticky: members, topics and partitions of the rebalance.
            more: values of further fields of the plan.

        Raises:
            StickyAssignorError: Kafka's class assigns a partition twice; the error's `assignment`
                has the result.
        """
        group, index = sticky.problem.group, sticky.problem.index
        more |= endless_loop_fields(self.loop, _ALGORITHM)
        if self.slots.all_partitions_exist:
            return self._made(Plan, sticky, self.start, sticky.dense[self.slot], **more)
        foreign = self.slot >= self.slots.real
        names = [index.topics[t] for t in sticky.topics.tolist()]
        unresolved = tuple(
            Unresolved(
                group.ids[m],
                names[self.slots.topic[s]],
                int(self.slots.number[s]),
                i - int(self.start[m]),
            )
            for i, m, s in zip(
                np.flatnonzero(foreign).tolist(),
                self.member_of_partition[foreign].tolist(),
                self.slot[foreign].tolist(),
                strict=True,
            )
        )
        existing = self.without_partitions(foreign)
        dense = sticky.dense[existing.slot]
        try:
            return self._made(Plan, sticky, existing.start, dense, unresolved=unresolved, **more)
        except PlanInvariantError as error:
            made = self._made(Assignment, sticky, existing.start, dense, unresolved=unresolved)
            # The only cause of two owners is a kept claim beyond the partition count.
            one = unresolved[0]
            what = (
                f"Kafka's class would give partitions to two members ({error}), since members"
                f" claim partitions that do not exist: {one.member} claims {one.topic},"
                f" partition {one.partition}"
            )
            raise StickyAssignorError(what, None, made) from None

    @staticmethod
    def _made(
        kind: type[Made], sticky: StickyProblem, start: Int32Array, dense: Int32Array, **more: Any
    ) -> Made:
        role = np.zeros(len(dense), np.int8)
        index, ids = sticky.problem.index, sticky.problem.group.ids
        return kind(index, ids, start, dense, role, **more)


def must_revoke_first(
    previous_owner: Int32Array, owned: Int32Array, owner: Int32Array
) -> NDArray[np.bool_]:
    """Return which partitions must be revoked before their new owner gets them (bool[P]).

    These are the partitions that other members own at present. A cooperative assignor leaves them
    without owner until the next rebalance.

    Args:
        previous_owner: int32[n], previous owners, -1 for a member that left.
        owned: int32[n], the partition of each previous owner; it may occur several times.
        owner: int32[P], the new owner of each partition, -1 for none.
    """
    # A partition is withheld if it has a previous owner and the new owner is not a previous one.
    stays = owner[owned] == previous_owner
    owns_already = np.zeros(len(owner), bool)
    owns_already[owned[stays]] = True
    owned_elsewhere = np.zeros(len(owner), bool)
    owned_elsewhere[owned[~stays]] = True
    return owned_elsewhere & ~owns_already & (owner >= 0)


class StickyAssignorError(UnsupportedProblemError):
    """Raised if Kafka's sticky assignor would throw an exception, or give a partition two owners.

    Kafka's class has such defects for some inputs, for example if members report partitions that do
    not exist (docs/quirks.md).

    Attributes:
        java_exception: simple class name of Java's exception; None if the class returns an
            assignment in which a partition has two owners.
        assignment: the assignment with two owners of a partition, or None.
        max_generation: the highest generation that the instance remembers after the call.

    >>> StickyAssignorError("the group has no members", "ArithmeticException").java_exception
    'ArithmeticException'
    """

    def __init__(
        self, what: str, java_exception: str | None, assignment: Assignment | None = None
    ) -> None:
        super().__init__(what)
        self.java_exception = java_exception
        self.assignment = assignment
        self.max_generation = -1
