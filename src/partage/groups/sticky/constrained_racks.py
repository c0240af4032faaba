"""The rack stage of the algorithm for equal subscriptions (KIP-881)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.rack_steps import give
from partage.groups.sticky.racks import Racks
from partage.groups.sticky.scene import Scene
from partage.model.index import Int32Array

if TYPE_CHECKING:
    from partage.groups.sticky.constrained import Quota

__all__ = ["give_by_rack"]


def give_by_rack(
    free: Int32Array, racks: Racks, quota: Quota, size: NDArray[np.int64], scene: Scene
) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Step 5: each free spot to a member on one of its racks that has room, if there is one.

    ``quota`` and ``size`` are brought forward; answers spots given, to whom, and those left.
    """
    under = np.array(quota.under, np.int32)
    waiting = np.array(quota.exact, np.int32)
    width = max(len(scene.problem.cluster.rack_names), 1)
    under_start, under_place = _by_rack(racks.of_member[under], width)
    # Room for all that may ever wait on a rack: members that wait now, then those from under.
    both = np.concatenate([racks.of_member[waiting], racks.of_member[under]])
    queue_start = np.zeros(width + 1, np.int32)
    np.cumsum(np.bincount(both[both >= 0], minlength=width), out=queue_start[1:])
    queue = np.full(max(int(queue_start[-1]), 1), -1, np.int32)
    head, tail = queue_start[:-1].copy(), queue_start[:-1].copy()
    sequence = np.full(scene.members, -1, np.int32)
    for nth, m in enumerate(waiting.tolist()):
        sequence[m] = nth
        rack = int(racks.of_member[m])
        if rack >= 0:
            queue[tail[rack]] = m
            tail[rack] += 1
    out = np.full(len(free), -1, np.int32)
    gone = np.zeros(len(under), bool)
    over = give(
        free, racks.start, racks.rack, racks.of_member, under, under_start, under_place,
        np.arange(len(under_place) + width, dtype=np.int32), queue, head, tail, sequence,
        size, gone, out,
        np.array([quota.low, quota.high, quota.extra, quota.over, len(waiting)], np.int64),
        work=10 * len(free),
    )  # fmt: skip
    given = out >= 0
    quota.over = int(over)
    quota.under = under[~gone].tolist()
    still = np.flatnonzero(sequence >= 0)
    quota.exact = still[np.argsort(sequence[still])].tolist()
    return free[given], out[given], free[~given]


def _by_rack(rack: Int32Array, width: int) -> tuple[Int32Array, Int32Array]:
    """CSR by rack of positions, ascending; who sits on no known rack is left out."""
    order = np.argsort(rack, kind="stable")
    start = np.searchsorted(rack[order], np.arange(width + 1)).astype(np.int32)
    return start - start[0], order[start[0] :].astype(np.int32)
