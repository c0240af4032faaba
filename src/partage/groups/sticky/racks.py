"""Racks of members and slots (KIP-881)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.problem import Slots, StickyProblem
from partage.model.index import Int32Array

__all__ = ["Racks"]


class Racks:
    """The racks of members and slots.

    Attributes:
        of_member: int32[M], as `Problem.member_rack`.
        any_member: whether a member has a rack.
        active: whether racks matter: a member is on a rack of a partition, and the partitions'
            racks differ.
        start: int32[S + 1], rack: int32: racks of each slot (CSR); foreign slots have none.
    """

    def __init__(self, sticky: StickyProblem, slots: Slots) -> None:
        self.of_member = sticky.problem.member_rack
        self.any_member = bool((self.of_member != -1).any())
        self._sticky, self._slots = sticky, slots
        self.active = self.any_member and self._differ()

    @cached_property
    def _csr(self) -> tuple[Int32Array, Int32Array]:
        start, rack = self._sticky.problem.cluster.partition_racks
        dense = self._sticky.dense
        count = start[dense + 1] - start[dense]
        by_slot = np.zeros(self._slots.count + 1, np.int32)
        np.cumsum(count, out=by_slot[1 : len(dense) + 1])
        by_slot[len(dense) + 1 :] = by_slot[len(dense)]
        at = np.arange(by_slot[-1]) + np.repeat(start[dense] - by_slot[: len(dense)], count)
        return by_slot, rack[at] if len(at) else np.zeros(0, np.int32)

    @property
    def start(self) -> Int32Array:
        """int32[S + 1]: begin of each slot's racks."""
        return self._csr[0]

    @property
    def rack(self) -> Int32Array:
        """int32: racks, distinct within a slot."""
        return self._csr[1]

    @property
    def _width(self) -> int:
        return max(len(self._sticky.problem.cluster.rack_names), 1)

    def _differ(self) -> bool:
        """Return whether members and replicas share a rack, and partitions' racks differ."""
        has_replica = np.zeros(self._width, bool)
        has_replica[self.rack] = True
        member_racks = self.of_member[self.of_member >= 0]
        if not has_replica[member_racks].any():
            return False
        sizes = np.diff(self.start)[: self._sticky.partitions]
        return bool((sizes != np.count_nonzero(has_replica)).any())

    @cached_property
    def weight(self) -> NDArray[np.int64]:
        """int64[S]: number of members on each slot's racks, counted once per rack."""
        on_rack = self.of_member[self.of_member >= 0]
        members = np.bincount(on_rack, minlength=self._width)
        total = np.zeros(len(self.rack) + 1, np.int64)
        np.cumsum(members[self.rack], out=total[1:])
        return total[self.start[1:]] - total[self.start[:-1]]

    def mismatch(self, member: Int32Array, slot: Int32Array) -> NDArray[np.bool_]:
        """Return bool[n]: racks are active, the member has one, and the slot is not on it."""
        if not self.active:
            return np.zeros(len(member), bool)
        member_rack = self.of_member[member].astype(np.int64)
        owner = np.repeat(np.arange(self._slots.count), np.diff(self.start))
        keys = owner * self._width + self.rack  # ascending: racks are sorted within a slot
        pair = slot.astype(np.int64) * self._width + member_rack
        at = np.searchsorted(keys, pair)
        at[at == len(keys)] = 0
        found = keys[at] == pair if len(keys) else np.zeros(len(pair), bool)
        mismatch: NDArray[np.bool_] = (member_rack != -1) & ~(found & (member_rack >= 0))
        return mismatch
