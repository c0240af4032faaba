"""The state of the replica placement search, and helpers that measure a placement.

Shapes: P partitions, B brokers, Z racks with bands of their own (0 if there is one rack or none), R
replicas now, S replicas in the new placement, K = 4 kinds of weight (`KINDS`: capacity, replicas,
bytes, load). A *place* is a broker (0 to B - 1) or a rack (B to B + Z - 1). A *band* is the lowest
and highest amount of one kind that a balanced place holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.kernels import Bytes, Float64s, Int8s, Int32s, Int64Rows, Int64s
from partage.model import ReplicaTask
from partage.model.replicas import KINDS, is_among

__all__ = [
    "UNBOUNDED",
    "Bools",
    "Floats",
    "Ints",
    "SearchArrays",
    "SearchState",
    "is_moved",
    "outside_bands",
    "sum_by_broker_and_rack",
]  # fmt: skip

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: Upper ends of bands from here on mean "no limit". Bands shrink by what fixed replicas hold, so
#: an unlimited band does not stay at the largest int64.
UNBOUNDED = np.iinfo(np.int64).max // 4


class SearchArrays(NamedTuple):
    """Placement of replicas and its totals as a tuple of arrays, for compiled code.

    P, S, B and Z are the numbers of partitions, planned replicas, brokers, and racks with balance
    limits. K is the number of resources: capacity, replicas, bytes and load.

    Attributes:
        start: int64[P + 1], offsets of each partition's planned replicas (compressed rows, CSR).
        broker: int32[S], the broker of each planned replica; changes.
        old_start: int64[P + 1], offsets of each partition's current replicas (CSR).
        old: int32[R], the broker of each current replica.
        fate: int8[R], `FREE`, `STAY` or `LEAVE` of each current replica.
        fixed: uint8[S], 1 for replicas that must stay on their broker; changes.
        held: int64[K, B + Z], the amount of each resource on each broker and rack; changes.
        low, high: int64[K, B + Z], the balance limits of these amounts.
        weight: int64[K, P], the amount of each resource that a replica needs.
        cost: int64[P], bytes that a copy of a replica moves.
        penalty: float64[2 K + 1], the current `Penalties`.
        rack: int32[B], the rack of each broker.
        rack_low, rack_high: int64[factor, racks], the rack rule.
        receives: uint8[B], 1 for brokers that may get new replicas.
        closed: uint8[P], 1 for partitions that should not move unless they must.
    """

    start: Int64s
    broker: Int32s
    old_start: Int64s
    old: Int32s
    fate: Int8s
    fixed: Bytes
    held: Int64Rows
    low: Int64Rows
    high: Int64Rows
    weight: Int64Rows
    cost: Int64s
    penalty: Float64s
    rack: Int32s
    rack_low: Int64Rows
    rack_high: Int64Rows
    receives: Bytes
    closed: Bytes


@dataclass(eq=False)
class SearchState:
    """A placement of replicas on brokers that a local search changes in place.

    P, S, B and Z are the numbers of partitions, planned replicas, brokers, and racks with balance
    limits. K is the number of resources: capacity, replicas, bytes and load.

    Attributes:
        task: cluster, brokers to use and balance limits.
        broker: int32[S], the broker of each replica; -1 before it has one.
        fixed: uint8[S], 1 for replicas that must stay on their broker.
        held: int64[K, B + Z], the amount of each resource on each broker and rack.
        penalty: float64[2 K + 1], the current penalties for imbalance, see `Penalties.to_array`.
    """

    task: ReplicaTask
    broker: NDArray[np.int32]
    fixed: NDArray[np.uint8]
    held: Ints
    penalty: Floats

    @classmethod
    def without_replicas(cls, task: ReplicaTask) -> SearchState:
        """Create the state of a local search in which no replica has a broker yet.

        ``task`` has the cluster, the brokers to use and the balance limits.
        """
        count = int(task.first_replica[-1])
        return cls(
            task,
            np.full(count, -1, np.int32),
            np.zeros(count, np.uint8),
            np.zeros(task.low.shape, np.int64),
            np.zeros(2 * len(KINDS) + 1),
        )

    @property
    def is_fixed(self) -> Bools:
        """Mask of the replicas that must stay on their broker (bool[replicas]).

        It shares memory with the array ``fixed``, so that later changes show in both.
        """
        return self.fixed.view(np.bool_)

    def kernel_arrays(self) -> SearchArrays:
        """Return the state as a tuple of arrays that compiled code can take.

        The arrays are not copied, so that compiled code changes the state in place.
        """
        task, cluster = self.task, self.task.cluster
        return SearchArrays(
            task.first_replica, self.broker, cluster.start, cluster.replica, task.fate, self.fixed,
            self.held, task.low, task.high, task.weight, task.cost, self.penalty,
            cluster.rack_of_broker,
            task.rack_low, task.rack_high, task.receives.view(np.uint8),
            task.closed.view(np.uint8),
        )  # fmt: skip


def sum_by_broker_and_rack(
    task: ReplicaTask, partition: NDArray[np.integer], broker: NDArray[np.integer]
) -> Ints:
    """Add up the resources that replicas use on each broker and on each rack.

    The resources are capacity, replicas, bytes and load. The result is int64[4, brokers + racks]:
    brokers first, then racks.

    Args:
        task: cluster and balance limits, with the amounts that a replica of each partition needs.
        partition: int[n], the partition of each replica.
        broker: int[n], the broker of each replica.
    """
    held = np.zeros(task.low.shape, np.int64)
    for k, weight in enumerate(task.weight):
        np.add.at(held[k], broker, weight[partition])
        if task.balanced_rack_count:
            np.add.at(
                held[k], len(task.alive) + task.cluster.rack_of_broker[broker], weight[partition]
            )
    return held


def outside_bands(task: ReplicaTask, amount: Ints) -> Ints:
    """Return how far the totals of brokers and racks are outside their balance limits.

    The result is 0 within the limits.

    Args:
        task: cluster and balance limits.
        amount: int64[4, brokers + racks], totals by resource (capacity, replicas, bytes, load) and
            by broker, then rack; the result has the same shape.
    """
    out: Ints = np.maximum(np.maximum(amount - task.high, task.low - amount), 0)
    return out


def is_moved(task: ReplicaTask, broker: NDArray[np.integer]) -> Bools:
    """Return which replicas of a plan must be copied to a new broker (bool[replicas]).

    A replica is copied if its planned broker has no replica of the partition now. ``broker`` is the
    planned broker of each replica; ``task`` has the current ones.
    """
    brokers = len(task.alive)
    current = task.current_partition * brokers + task.cluster.replica
    return ~is_among(task.partition_of_replica * brokers + broker, current)
