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
    """Both for all partitions.

    A rack on which a partition has nothing counts for it as for all others of its factor: these are
    summed once, and of each partition only the racks that it is on are looked at.
    """
    on = _Racks(task)
    takes = np.bincount(task.cluster.rack[task.receives], minlength=task.rack_low.shape[1])
    least, upmost = np.minimum(task.rack_low, takes), np.minimum(task.rack_high, takes)
    breach = np.maximum(task.rack_low - takes, 0)
    # Within these a rack breaks the rule as little as it can.
    low, high = on.of(task.rack_low), on.of(task.rack_high)
    mine, most = np.clip(low, on.stays, on.most), np.clip(high, on.stays, on.most)
    broken = np.maximum(on.stays - high, 0) + np.maximum(low - on.most, 0)
    factor = task.factor
    out = on.summed(broken, breach)
    missing = factor - on.summed(most, upmost)
    excess = on.summed(mine, least) - factor
    out += np.maximum(missing, 0) + np.maximum(excess, 0)
    # Racks without enough old replicas get new ones; what is still missing comes on top.
    needed = on.summed(np.maximum(mine - on.kept, 0), least)
    rest = factor - on.summed(np.maximum(mine, np.minimum(most, on.kept)), least)
    within = needed + np.maximum(rest, 0)
    beyond = on.summed(np.maximum(most - on.kept, 0), upmost) + np.maximum(
        factor - on.summed(np.maximum(most, on.kept), upmost), 0
    )
    newcomers = np.where(missing > 0, beyond, within)
    newcomers = np.where(excess > 0, np.maximum(needed - excess, 0), newcomers)
    return Least(out, newcomers)


class _Racks:
    """Partitions and racks on which they have replicas, n pairs in all.

    Attributes:
        partition, rack: int64[n].
        stays, kept, most: int64[n], replicas that must stay, that may, and how many there can be.
    """

    def __init__(self, task: ReplicaTask) -> None:
        cluster, racks = task.cluster, task.rack_low.shape[1]
        key = task.old_owner * racks + cluster.rack[cluster.replica]
        pairs, at = np.unique(key, return_inverse=True)
        self.task, self.partition, self.rack = task, pairs // racks, pairs % racks

        def count(which: NDArray[np.bool_]) -> NDArray[np.int64]:
            return np.bincount(at[which], minlength=len(pairs))

        self.stays, self.kept = count(task.fate == STAY), count(task.fate != LEAVE)
        takes = np.bincount(cluster.rack[task.receives], minlength=racks)
        # A broker that takes replicas and has one already is no place for another.
        self.most = self.kept + takes[self.rack] - count(task.receives[cluster.replica])

    def of(self, table: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64[n] of int64[F + 1, racks]."""
        out: NDArray[np.int64] = table[self.task.factor[self.partition], self.rack]
        return out

    def summed(self, mine: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64[P]: over all racks; ``others``: by factor, what racks count where nothing is."""
        out: NDArray[np.int64] = others.sum(axis=1)[self.task.factor]
        np.add.at(out, self.partition, mine - self.of(others))
        return out


def rack_ranges(task: ReplicaTask) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64[P, racks] twice: how many a rack may hold when the rule is broken as little as can be.

    From 0 to all where no such ranges say it. For few partitions: the arrays are wide.
    """
    on, shape = _Racks(task), (len(task.factor), task.rack_low.shape[1])
    takes = np.bincount(task.cluster.rack[task.receives], minlength=shape[1])
    stays, most = np.zeros(shape, np.int64), np.broadcast_to(takes, shape).copy()
    stays[on.partition, on.rack], most[on.partition, on.rack] = on.stays, on.most
    low, high = task.rack_low[task.factor], task.rack_high[task.factor]
    least, upmost = np.clip(low, stays, most), np.clip(high, stays, most)
    off = (least.sum(axis=1) > task.factor) | (upmost.sum(axis=1) < task.factor)
    least[off], upmost[off] = 0, task.factor[off, None]
    return least, upmost
