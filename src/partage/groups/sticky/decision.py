"""The decision of a sticky algorithm, and its conversion to a plan (KIP-429 included)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError, PlanInvariantError, UnsupportedProblemError
from partage.groups.sticky.problem import Slots, StickyProblem
from partage.model import Assignment, Plan, Unresolved
from partage.model.index import Int32Array
from partage.model.repeated_state import EndlessLoop, loop_attributes

__all__ = ["Decision", "StickyAssignorError", "Transfers", "by_member", "first_phase", "withheld"]


_ALGORITHM = "Kafka's AbstractStickyAssignor.performReassignments"

Made = TypeVar("Made", bound=Assignment)


@dataclass(frozen=True, eq=False)
class Transfers:
    """Slots and their new owners; of moved slots, Kafka's ``partitionsTransferringOwnership``."""

    slot: Int32Array
    member: Int32Array


@dataclass(frozen=True, eq=False)
class Decision:
    """Lists of slots by member; slots may be partitions that do not exist.

    Attributes:
        start: int32[M + 1], by member in join order (CSR).
        slot: int32[n], each member's list in the order of Kafka's class.
        slots: the numbering of slots.
        transfers: the moved slots; None after the general algorithm.
        owner_order: members in the order of Kafka's result, if a slot may have two owners.
        loop: the endless loop of Kafka's class, None if it returns.
    """

    start: Int32Array
    slot: Int32Array
    slots: Slots
    transfers: Transfers | None = None
    owner_order: list[int] | None = None
    loop: EndlessLoop | None = None

    @property
    def member(self) -> Int32Array:
        """int32[n]: the member of each entry."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))

    def without(self, removed: NDArray[np.bool_]) -> Decision:
        """Return the decision without some entries (bool[n])."""
        start = np.zeros(len(self.start), np.int32)
        sizes = np.bincount(self.member[~removed], minlength=len(start) - 1)
        np.cumsum(sizes, out=start[1:])
        return replace(self, start=start, slot=self.slot[~removed])

    def to_pairs(self, sticky: StickyProblem) -> dict[str, list[tuple[str, int]]]:
        """Return member -> (topic, partition) pairs in order, non-existing partitions included."""
        names = [sticky.problem.index.topics[t] for t in sticky.topics.tolist()]
        topic, number = self.slots.topic.tolist(), self.slots.number.tolist()
        named = [(names[topic[s]], number[s]) for s in self.slot.tolist()]
        start = self.start.tolist()
        ids = sticky.problem.group.ids
        return {m: named[start[i] : start[i + 1]] for i, m in enumerate(ids)}

    def transfer_rows(self, sticky: StickyProblem) -> list[tuple[str, int, str]] | None:
        """Return sorted (topic, partition, new owner); None after the general algorithm."""
        if self.transfers is None:
            return None
        names = [sticky.problem.index.topics[t] for t in sticky.topics.tolist()]
        ids = sticky.problem.group.ids
        # Java's map has the last owner of a slot that was assigned twice.
        last = dict(zip(self.transfers.slot.tolist(), self.transfers.member.tolist(), strict=True))
        rows = sorted((int(self.slots.keys[s]), s, m) for s, m in last.items())
        topic, number = self.slots.topic, self.slots.number
        return [(names[topic[s]], int(number[s]), ids[m]) for _, s, m in rows]

    def to_plan(self, sticky: StickyProblem, **more: Any) -> Plan:
        """Return the plan, with a warning if Kafka's class never returns.

        Raises:
            StickyAssignorError: Kafka's class assigns a partition twice; see its `assignment`.
        """
        group, index = sticky.problem.group, sticky.problem.index
        more |= loop_attributes(self.loop, _ALGORITHM)
        if self.slots.regular:
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
                self.member[foreign].tolist(),
                self.slot[foreign].tolist(),
                strict=True,
            )
        )
        existing = self.without(foreign)
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


def by_member(members: int, owner: Int32Array) -> tuple[Int32Array, NDArray[np.intp]]:
    """Return CSR offsets by member, and the stable order of entries by member."""
    start = np.zeros(members + 1, np.int32)
    np.cumsum(np.bincount(owner, minlength=members), out=start[1:])
    # NumPy sorts 16-bit keys by radix, several times faster than wider ones.
    key = owner.astype(np.int16) if members < 2**15 else owner
    return start, np.argsort(key, kind="stable")


def first_phase(before: Assignment, target: Plan) -> Plan:
    """Return the plan of the first of two cooperative rebalances from ``before`` to ``target``.

    A partition that another member still owns is withheld: its owner must revoke it first, and
    the second rebalance assigns it. Partitions without owner are assigned at once. Members may
    join and leave.

    Raises:
        InvalidProblemError: the two assignments have different indexes.

    >>> from partage.model import Index
    >>> index = Index.of({"t": 3})
    >>> before = Assignment.of(index, {"a": {"t": [0, 1]}})
    >>> target = Plan.of(index, {"a": {"t": [0]}, "b": {"t": [1, 2]}})
    >>> first_phase(before, target).to_dict()
    {'a': {'t': [0]}, 'b': {'t': [2]}}
    """
    if before.index is not target.index:
        raise InvalidProblemError(
            "must share one index with the plan", path="before.index", value=before.index.topics[:3]
        )
    number = {member: i for i, member in enumerate(target.members)}
    of_before = np.array([number.get(m, -1) for m in before.members], np.int32)
    owned_by = of_before[before.member_of] if len(before.partition) else before.partition
    stays = ~withheld(owned_by, before.partition, target.owner)[target.partition]
    start = np.zeros(len(target.start), np.int32)
    sizes = np.bincount(target.member_of[stays], minlength=len(target.members))
    np.cumsum(sizes, out=start[1:])
    return replace(target, start=start, partition=target.partition[stays], role=target.role[stays])


def withheld(owned_by: Int32Array, owned: Int32Array, owner: Int32Array) -> NDArray[np.bool_]:
    """Return bool[P]: partitions whose owner must revoke them before the new owner gets them.

    The new owner does not own such a partition, and another member does. ``owned_by`` (-1 for
    a member that left) and ``owned`` are pairs; a partition may have several claimants.
    """
    stays = owner[owned] == owned_by
    owns_already = np.zeros(len(owner), bool)
    owns_already[owned[stays]] = True
    owned_elsewhere = np.zeros(len(owner), bool)
    owned_elsewhere[owned[~stays]] = True
    return owned_elsewhere & ~owns_already & (owner >= 0)


class StickyAssignorError(UnsupportedProblemError):
    """The error of a problem on which Kafka's class throws or assigns a partition twice.

    Attributes:
        java_exception: simple class name of the exception; None if the class returns an
            assignment in which a partition has two owners.
        assignment: that assignment.
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
