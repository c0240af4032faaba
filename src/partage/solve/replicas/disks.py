"""Disk placement: choose the log directory of each replica, broker by broker.

The brokers of all replicas are already chosen. A broker's replicas become partitions with one
replica, and its disks become brokers without racks. Enumeration (for a few replicas) or
`local_search` balances them with the fewest bytes moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.model import Broker, ReplicaCluster, ReplicaTask
from partage.model.replicas import FREE, KINDS, LEAVE, STAY, Disks
from partage.solve.replicas.local_search import place_replicas
from partage.solve.replicas.problem import Bools, Floats, Ints, sum_by_broker_and_rack

__all__ = ["disk_prices", "place_on_disks"]

#: Ways to fill a broker's disks, up to which all are enumerated.
_MOST_WAYS = 4096
#: The band of a disk without a known capacity.
_UNBOUNDED = np.iinfo(np.int64).max // 2
#: Prices stay just below what a move costs: at the cost itself moves and stays would tie.
_BELOW_COST = 0.999

_Int32s = NDArray[np.int32]


def place_on_disks(task: ReplicaTask, replica: _Int32s) -> _Int32s | None:
    """Choose the disk (log directory) of each replica on its broker, with few bytes moved.

    The result is int32[replicas], -1 for replicas on brokers that do not have several disks. It is
    None if the task has no data about disks.

    Args:
        task: cluster with its disks, brokers to use and balance limits.
        replica: int32[replicas], the broker of each replica.
    """
    disks = task.disks
    if disks is None:
        return None
    current = _current_replica(task, replica)
    old = np.where(current >= 0, disks.old[current], -1) if len(disks.old) else current
    out: _Int32s = old.astype(np.int32)
    held = _held(task, replica)
    bands = [disks.balance_limits(k, held[k]) for k in range(len(KINDS))]
    order = np.argsort(replica, kind="stable")
    begin = np.searchsorted(replica[order], np.arange(len(task.alive) + 1))
    for b in np.flatnonzero(np.diff(disks.start)).tolist():
        slots = order[begin[b] : begin[b + 1]]
        if not len(slots):
            continue
        part = slice(int(disks.start[b]), int(disks.start[b + 1]))
        low = np.array([band[0][part] for band in bands])
        high = np.array([band[1][part] for band in bands])
        low[0] = 0
        high[0] = np.where(disks.room[part] >= 0, disks.room[part], _UNBOUNDED)
        disk = np.where(old[slots] >= 0, old[slots] - part.start, -1).astype(np.int32)
        free = (current[slots] >= 0) & disks.free[np.maximum(current[slots], 0)]
        owner = task.partition_of_replica[slots]
        weight = np.ascontiguousarray(task.weight[:, owner])
        broker = _BrokerDisks(disk, free, task.cost[owner], weight, low, high)
        if not broker.is_settled():
            out[slots] = part.start + broker.place()
    return out


@dataclass(frozen=True, eq=False)
class _BrokerDisks:
    """The replicas and disks of one broker, as input for the choice of a disk for each replica.

    Attributes:
        disk: int32[n], the current disk of each replica, -1 for replicas new to the broker.
        free: bool[n], whether the replica may go to another disk.
        cost: int64[n], the bytes that a move of the replica copies.
        weight: int64[4, n], how much a replica needs of each resource: capacity, replicas, bytes,
            load.
        low, high: int64[4, disks], the balance limits of each resource on each disk.
    """

    disk: _Int32s
    free: Bools
    cost: Ints
    weight: Ints
    low: Ints
    high: Ints

    @property
    def width(self) -> int:
        return int(self.low.shape[1])

    @cached_property
    def to_place(self) -> Ints:
        # Replicas that need a disk or may change it.
        return np.flatnonzero(self.free | (self.disk < 0))

    def is_settled(self) -> bool:
        # No replica needs a disk, and either none may move or the disks are balanced.
        if (self.disk < 0).any():
            return False
        return not self.free.any() or self._is_balanced()

    def _is_balanced(self) -> bool:
        for k, row in enumerate(self.weight):
            held = np.zeros(self.width, np.int64)
            np.add.at(held, self.disk, row)
            if ((held > self.high[k]) | (held < self.low[k])).any():
                return False
        return True

    def place(self) -> NDArray[np.integer]:
        ways = len(self.to_place) * float(np.log(self.width))
        if ways <= float(np.log(_MOST_WAYS)) + 1e-9:
            return self._best_of_all()
        return place_replicas(self._as_task())

    def _best_of_all(self) -> Ints:
        # Tries all assignments of replicas to disks.
        goes, disk = self.to_place, self.disk
        numbers = np.arange(self.width ** len(goes))
        ways = numbers[:, None] // self.width ** np.arange(len(goes)) % self.width
        moved = (ways != disk[goes]) & (disk[goes] >= 0)
        figures = [(moved * self.cost[goes]).sum(axis=1)]
        stays = np.setdiff1d(np.arange(len(disk)), goes)
        for k in reversed(range(len(KINDS))):
            fixed = np.zeros(self.width, np.int64)
            np.add.at(fixed, disk[stays], self.weight[k, stays])
            held = np.stack([
                ((ways == d) * self.weight[k, goes]).sum(axis=1) for d in range(self.width)
            ], axis=1) + fixed  # fmt: skip
            off = np.maximum(np.maximum(held - self.high[k], self.low[k] - held), 0)
            figures.append(off.sum(axis=1))
        out = disk.astype(np.int64)
        out[goes] = ways[np.lexsort(figures)[0]]
        return out

    def _as_task(self) -> ReplicaTask:
        # The broker's disks become the brokers of a reassignment.
        disk, count, width = self.disk, len(self.disk), self.width
        placed = disk >= 0
        start = np.zeros(count + 1, np.int64)
        np.cumsum(placed, out=start[1:])
        cluster = ReplicaCluster(
            topics=("",), topic=np.zeros(count, np.int32), number=np.arange(count, dtype=np.int32),
            start=start, replica=np.ascontiguousarray(disk[placed].astype(np.int32)),
            leader=disk.astype(np.int32), size=None, load=None,
            brokers=tuple(Broker(i) for i in range(width)), capacity=np.full(width, -1, np.int64),
            directories=((),) * width, directory=np.full(int(placed.sum()), -1, np.int32),
        )  # fmt: skip
        none = np.zeros(count, bool)
        return ReplicaTask(
            cluster=cluster, factor=np.ones(count, np.int64),
            fate=np.where(self.free[placed], FREE, STAY).astype(np.int8),
            receives=np.ones(width, bool), closed=none, cost=np.ascontiguousarray(self.cost),
            weight=self.weight, low=np.ascontiguousarray(self.low),
            high=np.ascontiguousarray(self.high), lead_low=np.zeros(width, np.int64),
            lead_high=np.full(width, count, np.int64), lead_free=none, counted=~none,
            rack_low=np.zeros((2, width), np.int64), rack_high=np.ones((2, width), np.int64),
            alive=np.ones(width, bool),
        )  # fmt: skip


def _current_replica(task: ReplicaTask, replica: _Int32s) -> Ints:
    # -1 for a new replica.
    brokers = len(task.alive)
    old_key = task.current_partition * brokers + task.cluster.replica
    key = task.partition_of_replica * brokers + replica
    order = np.argsort(old_key)
    if not len(order):
        return np.full(len(key), -1, np.int64)
    at = order[np.minimum(np.searchsorted(old_key[order], key), len(order) - 1)]
    stays = (old_key[at] == key) & (task.fate[at] != LEAVE)
    return np.where(stays, at, -1)


def _held(task: ReplicaTask, replica: _Int32s) -> Ints:
    return sum_by_broker_and_rack(task, task.partition_of_replica, replica)[:, : len(task.alive)]


def disk_prices(task: ReplicaTask, replica: _Int32s, disk: _Int32s, name: str) -> list[Floats]:
    """Return dual prices of disks that may prove a lower bound of a reassignment plan's cost.

    A dual price is a cost per unit above or below a disk's balance limits. The result is a list of
    alternatives, each float64[2, 4, disks]: for units above and below, by resource (capacity,
    replicas, bytes, load) and disk.

    Args:
        task: cluster with its disks, brokers to use and balance limits.
        replica: int32[replicas], the broker of each replica.
        disk: int32[replicas], the disk of each replica.
        name: "moved" (bytes copied), or a measure of disk imbalance that is not 0 in the plan.
    """
    disks = task.disks
    if disks is None:
        return []
    held = _held(task, replica)
    nothing = np.zeros((2, len(KINDS), len(disks.part)))
    if name != "moved":
        k = KINDS.index(name.removeprefix("disk "))
        above, below = _excess_and_shortage(
            disks, disk, task.weight[k][task.partition_of_replica], k, held[k]
        )
        nothing[0, k], nothing[1, k] = above > 0, below > 0
        return [nothing]
    out = []
    for k in range(1, len(KINDS)):
        sides = _excess_and_shortage(
            disks, disks.old, task.weight[k][task.current_partition], k, held[k]
        )
        for side, off in enumerate(sides):
            worth = _marginal_cost(task, disks, sides[0] > 0, k, int(off.sum()))
            if off.any() and worth > 0:
                prices = nothing.copy()
                prices[side, k] = (off > 0) * worth * _BELOW_COST
                out.append(prices)
    return out


def _excess_and_shortage(
    disks: Disks, disk: _Int32s, weight: Ints, resource: int, broker_amount: Ints
) -> tuple[Ints, Ints]:
    """Return how far each disk is above, and how far below, its balance limits (two int64[disks]).

    Args:
        disks: the disks of all brokers.
        disk: int32[n], the disk of each replica, -1 for none.
        weight: int64[n], how much of the resource each replica needs.
        resource: index of the resource: capacity, replicas, bytes or load.
        broker_amount: int64[brokers], total amount of the resource on each broker.
    """
    on_disks = np.zeros(len(disks.part), np.int64)
    np.add.at(on_disks, disk[disk >= 0], weight[disk >= 0])
    low, high = disks.balance_limits(resource, broker_amount)
    return np.maximum(on_disks - high, 0), np.maximum(low - on_disks, 0)


def _marginal_cost(
    task: ReplicaTask, disks: Disks, is_above_limit: Bools, resource: int, excess: int
) -> float:
    """Return how many bytes must be copied to remove the last unit of imbalance between disks.

    The cheapest replicas are moved first. Only replicas on disks above their limits count, or all
    replicas if no disk is above.

    Args:
        task: partitions of the reassignment.
        disks: the disks of all brokers.
        is_above_limit: bool[disks], whether a disk is above its limits.
        resource: index of the resource: capacity, replicas, bytes or load.
        excess: total imbalance of the resource.
    """
    on = np.flatnonzero((disks.old >= 0) & disks.free)
    if is_above_limit.any():
        on = on[is_above_limit[disks.old[on]]]
    owner = task.current_partition[on]
    weight = task.weight[resource][owner].astype(np.float64)
    owner, weight = owner[weight > 0], weight[weight > 0]
    if not len(owner):
        return 0.0
    each = task.cost[owner] / weight
    order = np.argsort(each, kind="stable")
    at = int(np.searchsorted(np.cumsum(weight[order]), excess))
    return float(each[order[min(at, len(order) - 1)]])
