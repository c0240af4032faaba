"""Members' lists written side by side: what each keeps, then what it is given."""

from __future__ import annotations

import numpy as np

from partage.groups.sticky.decision import Transfers, by_member
from partage.groups.sticky.row_steps import give_rows, keep_rows
from partage.groups.sticky.scan import NOBODY
from partage.groups.sticky.scene import Spots
from partage.model.index import Int32Array

__all__ = ["Rows"]


class Rows:
    """Lists in the making. The kernels beside it are twice as fast as NumPy's sorts, once loaded.

    Args:
        members: how many lists.
    """

    def __init__(self, members: int) -> None:
        self._members = members
        self._kept = np.zeros(0, np.int32)

    def keep(
        self, spots: Spots, owner: Int32Array, keep: Int32Array, taken_from: Int32Array
    ) -> None:
        """The first ``keep`` spots of each owner by (number, topic); it loses the others.

        ``owner`` and ``taken_from`` (int32[S]) are brought up to date.
        """
        total = int(keep.sum())
        self._kept = np.zeros(total, np.int32)
        if not total and not (owner >= 0).any():
            return
        at = np.cumsum(keep, dtype=np.int32) - keep
        if keep_rows.ready:
            keep_rows(
                spots.by_number, owner, at, at + keep, self._kept, taken_from, work=spots.count
            )
            return
        member = owner[spots.by_number]
        place = np.flatnonzero(member >= 0)
        start, order = by_member(self._members, member[place])
        member, spot = member[place][order], spots.by_number[place[order]]
        nth = np.arange(len(spot), dtype=np.int32) - start[member]
        stays = nth < keep[member]
        self._kept = spot[stays]
        gone = spot[~stays]
        taken_from[gone] = member[~stays]
        owner[gone] = NOBODY

    def finish(self, keep: Int32Array, given: Transfers) -> tuple[Int32Array, Int32Array]:
        """All lists (CSR by member), what was given last in the order given."""
        spot, member = given.spot, given.member
        sizes = keep + np.bincount(member, minlength=self._members).astype(np.int32)
        start = np.zeros(self._members + 1, np.int32)
        np.cumsum(sizes, out=start[1:])
        if not len(spot):
            return start, self._kept
        if not len(self._kept) and not give_rows.ready:
            return start, spot[by_member(self._members, member)[1]]
        out = np.empty(int(start[-1]), np.int32)
        at = start[:-1].copy()
        if len(self._kept):
            shift = np.repeat(at - (np.cumsum(keep) - keep), keep)
            out[np.arange(len(self._kept)) + shift] = self._kept
            at += keep
        if give_rows.ready:
            give_rows(spot, member, at, out, work=len(spot))
            return start, out
        order = by_member(self._members, member)[1]
        first = np.repeat(at - (np.cumsum(sizes - keep) - (sizes - keep)), sizes - keep)
        out[np.arange(len(order)) + first] = spot[order]
        return start, out
