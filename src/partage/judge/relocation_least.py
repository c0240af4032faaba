"""How little a partition can break the rack rule, and how few of its replicas must move for that.

Both follow from counts a rack alone: of replicas that must stay, of those that may, and of brokers
that still take one. What brokers have room for is not looked at: with it, neither gets less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import LEAVE, STAY

__all__ = ["Least", "least_of", "rack_ranges"]

_CELLS = 2_000_000


@dataclass(frozen=True, eq=False)
class Least:
    """Of each partition.

    Attributes:
        breach: int64[P], replicas against the rack rule, in any plan at least.
        newcomers: int64[P], replicas on new brokers, in any plan that breaks the rule no more.
    """

    breach: NDArray[np.int64]
    newcomers: NDArray[np.int64]


def least_of(task: ReplicaTask) -> Least:
    """Both for all partitions."""
    partitions, racks = len(task.factor), task.rack_low.shape[1]
    out = Least(np.zeros(partitions, np.int64), np.zeros(partitions, np.int64))
    size = max(1, _CELLS // max(racks, 1))
    for begin in range(0, partitions, size):
        part = slice(begin, min(begin + size, partitions))
        out.breach[part], out.newcomers[part] = _least(task, part.start, part.stop)
    return out


def rack_ranges(task: ReplicaTask) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64[P, racks] twice: how many a rack may hold when the rule is broken as little as can be.

    From 0 to all where no such ranges say it. For few partitions: the arrays are wide.
    """
    stays, _, most = _counts(task, 0, len(task.factor))
    low, high = task.rack_low[task.factor], task.rack_high[task.factor]
    least, upmost = np.clip(low, stays, most), np.clip(high, stays, most)
    off = (least.sum(axis=1) > task.factor) | (upmost.sum(axis=1) < task.factor)
    least[off], upmost[off] = 0, task.factor[off, None]
    return least, upmost


def _least(task: ReplicaTask, begin: int, end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    stays, kept, most = _counts(task, begin, end)
    factor = task.factor[begin:end]
    low, high = task.rack_low[factor], task.rack_high[factor]
    # Within these a rack breaks the rule as little as it can.
    least, upmost = np.clip(low, stays, most), np.clip(high, stays, most)
    breach = (np.maximum(stays - high, 0) + np.maximum(low - most, 0)).sum(axis=1)
    missing = factor - upmost.sum(axis=1)
    excess = least.sum(axis=1) - factor
    breach += np.maximum(missing, 0) + np.maximum(excess, 0)
    # Racks without enough old replicas get new ones; what is still missing comes on top.
    needed = np.maximum(least - kept, 0).sum(axis=1)
    rest = factor - np.maximum(least, np.minimum(upmost, kept)).sum(axis=1)
    within = needed + np.maximum(rest, 0)
    beyond = np.maximum(upmost - kept, 0).sum(axis=1) + np.maximum(
        factor - np.maximum(upmost, kept).sum(axis=1), 0
    )
    newcomers = np.where(missing > 0, beyond, within)
    newcomers = np.where(excess > 0, np.maximum(needed - excess, 0), newcomers)
    return breach, newcomers


def _counts(
    task: ReplicaTask, begin: int, end: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """int64[n, racks]: replicas that must stay, that may, and how many there can be."""
    cluster = task.cluster
    racks = task.rack_low.shape[1]
    shape = (end - begin, racks)
    old = slice(int(cluster.start[begin]), int(cluster.start[end]))
    row, at, fate = task.old_owner[old] - begin, cluster.replica[old], task.fate[old]
    rack = cluster.rack[at]

    def count(which: NDArray[np.bool_]) -> NDArray[np.int64]:
        flat = row[which] * racks + rack[which]
        return np.bincount(flat, minlength=shape[0] * racks).reshape(shape)

    stays, kept = count(fate == STAY), count(fate != LEAVE)
    takes = np.bincount(cluster.rack[task.receives], minlength=racks)
    # A broker that takes replicas and has one already is no place for another.
    most = kept + takes - count((fate != LEAVE) & task.receives[at])
    return stays, kept, most - count((fate == LEAVE) & task.receives[at])
