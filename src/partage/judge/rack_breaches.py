"""Minimum breaches of the rack rule, and the fewest moves that reach them, for each partition.

The rack rule spreads replicas evenly over racks. Both minima follow from three counts for each
rack: replicas that must stay, replicas that may stay, and brokers that can receive one. Capacities
are ignored; with them neither minimum is smaller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import LEAVE, STAY

__all__ = ["RackMinima", "rack_minima", "rack_ranges"]


@dataclass(frozen=True, eq=False)
class RackMinima:
    """Fewest possible violations of the rack rule, and the fewest replica moves to reach them.

    The rack rule limits the number of a partition's replicas on each rack.

    Attributes:
        breach: int64[partitions], the fewest replicas of each partition that violate the rack rule.
        newcomers: int64[partitions], the fewest replicas that a plan with these violations places
            on brokers without a current replica of the partition.
    """

    breach: NDArray[np.int64]
    newcomers: NDArray[np.int64]


def rack_minima(task: ReplicaTask) -> RackMinima:
    """Return the fewest possible violations of the rack rule, and the moves needed to reach them.

    The rack rule limits the number of a partition's replicas on each rack. The result has two
    numbers for each partition: replicas that violate the rule in any plan, and replicas that must
    move. ``task`` is the reassignment, with partitions, brokers and racks.
    """
    on = _OccupiedRacks(task)
    takes = np.bincount(
        task.cluster.rack_of_broker[task.receives], minlength=task.rack_low.shape[1]
    )
    least, upmost = np.minimum(task.rack_low, takes), np.minimum(task.rack_high, takes)
    breach = np.maximum(task.rack_low - takes, 0)
    # Within this range a rack breaks the rule as little as it can.
    low, high = on.of(task.rack_low), on.of(task.rack_high)
    fewest, most = np.clip(low, on.stays, on.most), np.clip(high, on.stays, on.most)
    broken = np.maximum(on.stays - high, 0) + np.maximum(low - on.most, 0)
    factor = task.factor
    out = on.sum_over_racks(broken, breach)
    missing = factor - on.sum_over_racks(most, upmost)
    excess = on.sum_over_racks(fewest, least) - factor
    out += np.maximum(missing, 0) + np.maximum(excess, 0)
    # Racks without enough current replicas get new ones; what is still missing is added.
    needed = on.sum_over_racks(np.maximum(fewest - on.kept, 0), least)
    rest = factor - on.sum_over_racks(np.maximum(fewest, np.minimum(most, on.kept)), least)
    within = needed + np.maximum(rest, 0)
    beyond = on.sum_over_racks(np.maximum(most - on.kept, 0), upmost) + np.maximum(
        factor - on.sum_over_racks(np.maximum(most, on.kept), upmost), 0
    )
    newcomers = np.where(missing > 0, beyond, within)
    newcomers = np.where(excess > 0, np.maximum(needed - excess, 0), newcomers)
    return RackMinima(out, newcomers)


class _OccupiedRacks:
    """Numbers of replicas of each partition on each rack that has any, to check the rack rule.

    There are n pairs of a partition and a rack with replicas of it.

    Attributes:
        partition, rack: int64[n], the pairs.
        stays: int64[n], current replicas that must stay.
        kept: int64[n], current replicas that may stay.
        most: int64[n], the most replicas that a plan can place on the rack.
    """

    def __init__(self, task: ReplicaTask) -> None:
        cluster, racks = task.cluster, task.rack_low.shape[1]
        key = task.current_partition * racks + cluster.rack_of_broker[cluster.replica]
        pairs, at = np.unique(key, return_inverse=True)
        self.task, self.partition, self.rack = task, pairs // racks, pairs % racks

        def count(which: NDArray[np.bool_]) -> NDArray[np.int64]:
            return np.bincount(at[which], minlength=len(pairs))

        self.stays, self.kept = count(task.fate == STAY), count(task.fate != LEAVE)
        takes = np.bincount(cluster.rack_of_broker[task.receives], minlength=racks)
        # A broker that can receive replicas and has one already cannot hold a second.
        self.most = self.kept + takes[self.rack] - count(task.receives[cluster.replica])

    def of(self, table: NDArray[np.int64]) -> NDArray[np.int64]:
        out: NDArray[np.int64] = table[self.task.factor[self.partition], self.rack]
        return out

    def sum_over_racks(
        self, occupied: NDArray[np.int64], others: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Sum a value over all racks for each partition (int64[partitions]).

        ``occupied`` (int64[n]) has the value of each (partition, rack) pair with replicas.
        ``others`` (int64[F + 1, racks]) has the value of all other racks; it depends only on the
        rack and the partition's replication factor (at most F).
        """
        out: NDArray[np.int64] = others.sum(axis=1)[self.task.factor]
        np.add.at(out, self.partition, occupied - self.of(others))
        return out


def rack_ranges(task: ReplicaTask) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the fewest and the most replicas that each partition should have on each rack.

    The rack rule limits the number of a partition's replicas on each rack. A plan within these
    ranges violates it as little as possible. Both results are int64[partitions, racks], which is
    large: call it for few partitions. If no plan can keep a partition's ranges, they are 0 to the
    replication factor. ``task`` is the reassignment, with partitions, brokers and racks.
    """
    on, shape = _OccupiedRacks(task), (len(task.factor), task.rack_low.shape[1])
    takes = np.bincount(task.cluster.rack_of_broker[task.receives], minlength=shape[1])
    stays, most = np.zeros(shape, np.int64), np.broadcast_to(takes, shape).copy()
    stays[on.partition, on.rack], most[on.partition, on.rack] = on.stays, on.most
    low, high = task.rack_low[task.factor], task.rack_high[task.factor]
    least, upmost = np.clip(low, stays, most), np.clip(high, stays, most)
    off = (least.sum(axis=1) > task.factor) | (upmost.sum(axis=1) < task.factor)
    least[off], upmost[off] = 0, task.factor[off, None]
    return least, upmost
