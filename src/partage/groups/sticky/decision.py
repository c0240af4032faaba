"""What an algorithm decided, and how it becomes a plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError, PlanInvariantError, UnsupportedProblemError
from partage.groups.sticky.problem import Scene, Spots
from partage.model import Assignment, Plan, Unresolved
from partage.model.index import Int32Array
from partage.model.repeated_state import EndlessLoop, loop_attributes

__all__ = ["Decision", "JavaRefusal", "Transfers", "by_member", "first_phase", "withheld"]


_ALGORITHM = "Kafka's AbstractStickyAssignor.performReassignments"

Made = TypeVar("Made", bound=Assignment)


@dataclass(frozen=True, eq=False)
class Transfers:
    """Spots and their new owners; of those that change hands, Kafka's transfer map."""

    spot: Int32Array
    member: Int32Array


@dataclass(frozen=True, eq=False)
class Decision:
    """Lists of spots by member, foreign ones included.

    Attributes:
        start: int32[M + 1], by member in join order (CSR).
        spot: int32[n], each member's list in the class's order.
        spots: what the spots are.
        transfers: what changes hands; None where the general algorithm ran.
        walked: members in the order of the class's answer, where a spot may have two owners.
        loop: the endless loop of Kafka's class, None where it returns.
    """

    start: Int32Array
    spot: Int32Array
    spots: Spots
    transfers: Transfers | None = None
    walked: list[int] | None = None
    loop: EndlessLoop | None = None

    @property
    def member(self) -> Int32Array:
        """int32[n]: whose list each entry is in."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))

    def without(self, gone: NDArray[np.bool_]) -> Decision:
        """The same, some entries left out."""
        start = np.zeros(len(self.start), np.int32)
        sizes = np.bincount(self.member[~gone], minlength=len(start) - 1)
        np.cumsum(sizes, out=start[1:])
        return replace(self, start=start, spot=self.spot[~gone])

    def to_pairs(self, scene: Scene) -> dict[str, list[tuple[str, int]]]:
        """Member -> (topic, number) in order, whatever they are."""
        names = [scene.problem.index.topics[t] for t in scene.topics.tolist()]
        topic, number = self.spots.topic.tolist(), self.spots.number.tolist()
        named = [(names[topic[s]], number[s]) for s in self.spot.tolist()]
        start = self.start.tolist()
        ids = scene.problem.group.ids
        return {m: named[start[i] : start[i + 1]] for i, m in enumerate(ids)}

    def transferring(self, scene: Scene) -> list[tuple[str, int, str]] | None:
        """(topic, number, new owner) sorted by the first two; None after the general algorithm."""
        if self.transfers is None:
            return None
        names = [scene.problem.index.topics[t] for t in scene.topics.tolist()]
        ids = scene.problem.group.ids
        # A spot that was given twice is in Java's map with its last owner.
        last = dict(zip(self.transfers.spot.tolist(), self.transfers.member.tolist(), strict=True))
        rows = sorted((int(self.spots.keys[s]), s, m) for s, m in last.items())
        topic, number = self.spots.topic, self.spots.number
        return [(names[topic[s]], int(number[s]), ids[m]) for _, s, m in rows]

    def to_plan(self, scene: Scene, **more: Any) -> Plan:
        """Return the plan, with a warning if Kafka's class never returns.

        Raises:
            JavaRefusal: the class gave a partition to two members; it carries that answer.
        """
        group, index = scene.problem.group, scene.problem.index
        more |= loop_attributes(self.loop, _ALGORITHM)
        if self.spots.regular:
            return self._made(Plan, scene, self.start, scene.dense[self.spot], **more)
        foreign = self.spot >= self.spots.real
        names = [index.topics[t] for t in scene.topics.tolist()]
        unresolved = tuple(
            Unresolved(
                group.ids[m],
                names[self.spots.topic[s]],
                int(self.spots.number[s]),
                i - int(self.start[m]),
            )
            for i, m, s in zip(
                np.flatnonzero(foreign).tolist(),
                self.member[foreign].tolist(),
                self.spot[foreign].tolist(),
                strict=True,
            )
        )
        there = self.without(foreign)
        dense = scene.dense[there.spot]
        try:
            return self._made(Plan, scene, there.start, dense, unresolved=unresolved, **more)
        except PlanInvariantError as error:
            made = self._made(Assignment, scene, there.start, dense, unresolved=unresolved)
            # Two owners come of nothing else: a kept claim that no count from 0 meets.
            one = unresolved[0]
            what = (
                f"Kafka's class would give partitions to two members ({error}), since members"
                f" claim partitions that do not exist: {one.member} claims {one.topic},"
                f" partition {one.partition}"
            )
            raise JavaRefusal(what, None, made) from None

    @staticmethod
    def _made(
        kind: type[Made], scene: Scene, start: Int32Array, dense: Int32Array, **more: Any
    ) -> Made:
        role = np.zeros(len(dense), np.int8)
        index, ids = scene.problem.index, scene.problem.group.ids
        return kind(index, ids, start, dense, role, **more)


def by_member(members: int, owner: Int32Array) -> tuple[Int32Array, NDArray[np.intp]]:
    """CSR offsets by member, and a stable order of the entries that puts members in a row."""
    start = np.zeros(members + 1, np.int32)
    np.cumsum(np.bincount(owner, minlength=members), out=start[1:])
    # NumPy sorts 16-bit keys by radix, several times faster than wider ones.
    key = owner.astype(np.int16) if members < 2**15 else owner
    return start, np.argsort(key, kind="stable")


def first_phase(before: Assignment, target: Plan) -> Plan:
    """What members may have now, on the way from ``before`` to ``target``.

    A partition that somebody gets and somebody else still has is given to nobody: its owner
    learns that it must give it up, and a second rebalance hands it over. What nobody has is
    handed out at once. Both must number partitions by one index; members may come and go.

    Raises:
        InvalidProblemError: the two are not about one index.

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
    """bool[P]: partitions that may not be handed out yet.

    Those whose new owner does not have it, while any other member has. ``owned_by`` (-1 for
    a member that left) and ``owned`` go together; a partition may be claimed by several.
    """
    mine = owner[owned] == owned_by
    has_already = np.zeros(len(owner), bool)
    has_already[owned[mine]] = True
    elsewhere = np.zeros(len(owner), bool)
    elsewhere[owned[~mine]] = True
    return elsewhere & ~has_already & (owner >= 0)


class JavaRefusal(UnsupportedProblemError):  # noqa: N818 - what it is, not that it is one
    """The named Kafka class fails on this problem, so there is nothing to be exact to.

    Attributes:
        java_exception: simple name of what the class throws; None where it answers, but with
            a partition that two members own.
        assignment: that answer.
        max_generation: what the instance remembers after the failed call.

    >>> JavaRefusal("the group has no members", "ArithmeticException").java_exception
    'ArithmeticException'
    """

    def __init__(
        self, what: str, java_exception: str | None, assignment: Assignment | None = None
    ) -> None:
        super().__init__(what)
        self.java_exception = java_exception
        self.assignment = assignment
        self.max_generation = -1
