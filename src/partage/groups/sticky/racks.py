"""Racks (KIP-881) as the sticky assignors use them."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.problem import Scene, Spots
from partage.model.index import Int32Array

__all__ = ["Racks"]


class Racks:
    """Racks of members and partitions.

    Attributes:
        of_member: int32[M], as `Problem.member_rack`.
        any_member: whether any member has a rack.
        active: whether racks decide anything: members and partitions meet on some rack, and
            not every partition is on all of them.
        start: int32[S + 1], rack: int32: racks of each spot (CSR); a foreign one has none.
    """

    def __init__(self, scene: Scene, spots: Spots) -> None:
        self.of_member = scene.problem.member_rack
        self.any_member = bool((self.of_member != -1).any())
        self._scene, self._spots = scene, spots
        self.active = self.any_member and self._differ()

    @cached_property
    def _csr(self) -> tuple[Int32Array, Int32Array]:
        start, rack = self._scene.problem.cluster.partition_racks
        dense = self._scene.dense
        count = start[dense + 1] - start[dense]
        mine = np.zeros(self._spots.count + 1, np.int32)
        np.cumsum(count, out=mine[1 : len(dense) + 1])
        mine[len(dense) + 1 :] = mine[len(dense)]
        at = np.arange(mine[-1]) + np.repeat(start[dense] - mine[: len(dense)], count)
        return mine, rack[at] if len(at) else np.zeros(0, np.int32)

    @property
    def start(self) -> Int32Array:
        """int32[S + 1]: where each spot's racks begin."""
        return self._csr[0]

    @property
    def rack(self) -> Int32Array:
        """int32: racks, distinct within a spot."""
        return self._csr[1]

    @property
    def _width(self) -> int:
        return max(len(self._scene.problem.cluster.rack_names), 1)

    def _differ(self) -> bool:
        there = np.zeros(self._width, bool)
        there[self.rack] = True
        here = self.of_member[self.of_member >= 0]
        if not there[here].any():
            return False
        sizes = np.diff(self.start)[: self._scene.partitions]
        return bool((sizes != np.count_nonzero(there)).any())

    @cached_property
    def weight(self) -> NDArray[np.int64]:
        """int64[S]: members that sit on a spot's racks, counted once a rack."""
        on_rack = self.of_member[self.of_member >= 0]
        members = np.bincount(on_rack, minlength=self._width)
        total = np.zeros(len(self.rack) + 1, np.int64)
        np.cumsum(members[self.rack], out=total[1:])
        return total[self.start[1:]] - total[self.start[:-1]]

    def mismatch(self, member: Int32Array, spot: Int32Array) -> NDArray[np.bool_]:
        """bool[n]: racks are active, the member has one, and the spot is not on it."""
        if not self.active:
            return np.zeros(len(member), bool)
        mine = self.of_member[member].astype(np.int64)
        owner = np.repeat(np.arange(self._spots.count), np.diff(self.start))
        keys = owner * self._width + self.rack  # ascending: racks are sorted within a spot
        wanted = spot.astype(np.int64) * self._width + mine
        at = np.searchsorted(keys, wanted)
        at[at == len(keys)] = 0
        found = keys[at] == wanted if len(keys) else np.zeros(len(wanted), bool)
        away: NDArray[np.bool_] = (mine != -1) & ~(found & (mine >= 0))
        return away
