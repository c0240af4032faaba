"""Which disk of its broker each replica goes to: each broker's disks are a small cluster.

What brokers hold is settled by then. A broker's replicas become partitions of one replica, its
disks brokers without racks, and `relocate` finds what it finds for a cluster: balance, with the
fewest bytes moved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.model import Broker, ReplicaCluster, ReplicaTask
from partage.model.replicas import FREE, KINDS, LEAVE, STAY, Disks
from partage.solve.replicas.local_search import relocate

__all__ = ["disk_prices", "shelve"]

#: Ways to fill a broker's disks, up to which all are looked at.
_MOST_PLANS = 4096
_UNBOUNDED = np.iinfo(np.int64).max // 2


def shelve(task: ReplicaTask, replica: NDArray[np.int32]) -> NDArray[np.int32] | None:
    """int32: the disk of each replica, -1 where its broker has none; None where no disks are known.

    Args:
        task: what is asked.
        replica: int32[sum of factors], brokers' positions by ``task.start``.
    """
    disks = task.disks
    if disks is None:
        return None
    was = _old_place(task, replica)
    old = np.where(was >= 0, disks.old[was], -1) if len(disks.old) else was.astype(np.int32)
    out: NDArray[np.int32] = old.astype(np.int32)
    held = _held(task, replica)
    bands = [disks.band(k, held[k]) for k in range(len(KINDS))]
    order = np.argsort(replica, kind="stable")
    begin = np.searchsorted(replica[order], np.arange(len(task.alive) + 1))
    for b in np.flatnonzero(np.diff(disks.start)).tolist():
        slots = order[begin[b] : begin[b + 1]]
        if not len(slots):
            continue
        mine = slice(int(disks.start[b]), int(disks.start[b + 1]))
        weight = np.ascontiguousarray(task.weight[:, task.owner[slots]])
        low = np.array([side[0][mine] for side in bands])
        high = np.array([side[1][mine] for side in bands])
        low[0] = 0
        high[0] = np.where(disks.room[mine] >= 0, disks.room[mine], _UNBOUNDED)
        there = old[slots] - mine.start
        there[old[slots] < 0] = -1
        free = (was[slots] >= 0) & disks.free[np.maximum(was[slots], 0)]
        if (there >= 0).all() and (not free.any() or _even(there, weight, low, high)):
            continue
        if _are_few(there, free, low.shape[1]):
            out[slots] = mine.start + _best_of_all(
                there, free, task.cost[task.owner[slots]], weight, (low, high)
            )
            continue
        small = _small_task(there, free, task.cost[task.owner[slots]], weight, (low, high))
        out[slots] = mine.start + relocate(small)
    return out


def _old_place(task: ReplicaTask, replica: NDArray[np.int32]) -> NDArray[np.int64]:
    """int64: where each replica stood among the old ones, -1 for newcomers."""
    brokers = len(task.alive)
    old_key = task.old_owner * brokers + task.cluster.replica
    key = task.owner * brokers + replica
    order = np.argsort(old_key)
    if not len(order):
        return np.full(len(key), -1, np.int64)
    at = order[np.minimum(np.searchsorted(old_key[order], key), len(order) - 1)]
    there = (old_key[at] == key) & (task.fate[at] != LEAVE)
    return np.where(there, at, -1)


def _held(task: ReplicaTask, replica: NDArray[np.int32]) -> NDArray[np.int64]:
    held = np.zeros((len(KINDS), len(task.alive)), np.int64)
    for k, row in enumerate(task.weight):
        np.add.at(held[k], replica, row[task.owner])
    return held


def _even(
    disk: NDArray[np.int32],
    weight: NDArray[np.int64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> bool:
    for k, row in enumerate(weight):
        held = np.zeros(low.shape[1], np.int64)
        np.add.at(held, disk, row)
        if ((held > high[k]) | (held < low[k])).any():
            return False
    return True


def _are_few(disk: NDArray[np.int32], free: NDArray[np.bool_], width: int) -> bool:
    """Whether a broker's replicas can be put on its disks in so few ways that all are tried."""
    goes = int((free | (disk < 0)).sum())
    return goes * float(np.log(width)) <= float(np.log(_MOST_PLANS)) + 1e-9


def _best_of_all(
    disk: NDArray[np.int32],
    free: NDArray[np.bool_],
    cost: NDArray[np.int64],
    weight: NDArray[np.int64],
    band: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """int64: the disk of each replica, of so few that every way is looked at."""
    width = band[0].shape[1]
    goes = np.flatnonzero(free | (disk < 0))
    every = np.arange(width ** len(goes))
    ways = every[:, None] // width ** np.arange(len(goes)) % width
    shift = (ways != disk[goes]) & (disk[goes] >= 0)
    figures = [(shift * cost[goes]).sum(axis=1)]
    stays = np.setdiff1d(np.arange(len(disk)), goes)
    for k in reversed(range(len(KINDS))):
        fixed = np.zeros(width, np.int64)
        np.add.at(fixed, disk[stays], weight[k, stays])
        held = np.stack([
            ((ways == d) * weight[k, goes]).sum(axis=1) for d in range(width)
        ], axis=1) + fixed  # fmt: skip
        off = np.maximum(np.maximum(held - band[1][k], band[0][k] - held), 0)
        figures.append(off.sum(axis=1))
    out = disk.astype(np.int64)
    out[goes] = ways[np.lexsort(figures)[0]]
    return out


def _small_task(
    disk: NDArray[np.int32],
    free: NDArray[np.bool_],
    cost: NDArray[np.int64],
    weight: NDArray[np.int64],
    band: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> ReplicaTask:
    """One broker's disks as a cluster; ``disk`` is -1 for a replica that comes to the broker."""
    count, width = len(disk), band[0].shape[1]
    there = disk >= 0
    start = np.zeros(count + 1, np.int64)
    np.cumsum(there, out=start[1:])
    number = np.arange(count, dtype=np.int32)
    cluster = ReplicaCluster(
        topics=("",), topic=np.zeros(count, np.int32), number=number, start=start,
        replica=np.ascontiguousarray(disk[there].astype(np.int32)), leader=disk.astype(np.int32),
        size=None, load=None, brokers=tuple(Broker(i) for i in range(width)),
        capacity=np.full(width, -1, np.int64), directories=((),) * width,
        directory=np.full(int(there.sum()), -1, np.int32),
    )  # fmt: skip
    nobody = np.zeros(count, bool)
    return ReplicaTask(
        cluster=cluster, factor=np.ones(count, np.int64),
        fate=np.where(free[there], FREE, STAY).astype(np.int8), receives=np.ones(width, bool),
        closed=nobody, cost=np.ascontiguousarray(cost), weight=weight,
        low=np.ascontiguousarray(band[0]), high=np.ascontiguousarray(band[1]),
        lead_low=np.zeros(width, np.int64), lead_high=np.full(width, count, np.int64),
        lead_free=nobody, counted=~nobody, rack_low=np.zeros((2, width), np.int64),
        rack_high=np.ones((2, width), np.int64), alive=np.ones(width, bool),
    )  # fmt: skip


def disk_prices(
    task: ReplicaTask,
    replica: NDArray[np.int32],
    disk: NDArray[np.int32],
    name: str,
) -> list[NDArray[np.float64]]:
    """float64[2, 4, D] each: prices of disks that may prove something of a figure.

    Args:
        task: what is asked.
        replica: int32, the plan's brokers.
        disk: int32, the plan's disks.
        name: "moved", or a figure of disks that the plan misses.
    """
    disks = task.disks
    if disks is None:
        return []
    held = _held(task, replica)
    nothing = np.zeros((2, len(KINDS), len(disks.part)))
    if name != "moved":
        k = KINDS.index(name.removeprefix("disk "))
        above, below = _off(disks, disk, task.weight[k][task.owner], k, held[k])
        nothing[0, k], nothing[1, k] = above > 0, below > 0
        return [nothing]
    out = []
    for k in range(1, len(KINDS)):
        sides = _off(disks, disks.old, task.weight[k][task.old_owner], k, held[k])
        for side, off in enumerate(sides):
            worth = _worth(task, disks, sides[0] > 0, k, int(off.sum()))
            if off.any() and worth > 0:
                prices = nothing.copy()
                prices[side, k] = (off > 0) * worth * 0.999
                out.append(prices)
    return out


def _off(
    disks: Disks,
    disk: NDArray[np.int32],
    weight: NDArray[np.int64],
    k: int,
    held: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64[D] twice: by how much disks are above and below their bands."""
    mine = np.zeros(len(disks.part), np.int64)
    np.add.at(mine, disk[disk >= 0], weight[disk >= 0])
    low, high = disks.band(k, held)
    return np.maximum(mine - high, 0), np.maximum(low - mine, 0)


def _worth(task: ReplicaTask, disks: Disks, over: NDArray[np.bool_], k: int, excess: int) -> float:
    """What a unit costs, at the margin, when the cheapest leave disks that hold too much."""
    on = np.flatnonzero((disks.old >= 0) & disks.free)
    if over.any():
        on = on[over[disks.old[on]]]
    owner = task.old_owner[on]
    weight = task.weight[k][owner].astype(np.float64)
    owner, weight = owner[weight > 0], weight[weight > 0]
    if not len(owner):
        return 0.0
    each = task.cost[owner] / weight
    order = np.argsort(each, kind="stable")
    at = int(np.searchsorted(np.cumsum(weight[order]), excess))
    return float(each[order[min(at, len(order) - 1)]])
