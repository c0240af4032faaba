"""The copies that a plan makes, between brokers and between the disks of a broker."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import is_among

__all__ = ["DiskMoves", "ReplicaMoves", "log_directories"]


@dataclass(frozen=True, eq=False)
class ReplicaMoves:
    """Replica copies between brokers that a reassignment plan makes.

    Each property is an array with one element per copy.

    Attributes:
        task: the cluster and the constraints of the reassignment.
        replica: int32, the plan: the broker of each new replica, by index in the cluster.
        disk: int32, the plan's disk of each new replica; None if no disks are known.
    """

    task: ReplicaTask
    replica: NDArray[np.int32]
    disk: NDArray[np.int32] | None = None

    @cached_property
    def _keys(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        # A key is partition * number of brokers + broker.
        task, brokers = self.task, len(self.task.cluster.brokers)
        new, old = task.partition_of_replica * brokers, task.current_partition * brokers
        return new + self.replica, old + task.cluster.replica

    @cached_property
    def _rows(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        # Partition, receiving broker and releasing broker of each copy.
        task, brokers = self.task, len(self.task.cluster.brokers)
        owner, (key, old) = task.partition_of_replica, self._keys
        new = np.flatnonzero(~is_among(key, old))
        left = np.sort(old[~is_among(old, key)])
        source = np.full(len(new), -1, np.int32)
        # The i-th newcomer of a partition takes the place of the i-th that left.
        first = np.searchsorted(owner[new], owner[new])
        nth = np.arange(len(new)) - first
        begin = np.searchsorted(left, owner[new] * brokers)
        end = np.searchsorted(left, (owner[new] + 1) * brokers)
        has = begin + nth < end
        source[has] = left[(begin + nth)[has]] % brokers
        return owner[new], self.replica[new], source

    @property
    def partition_of_copy(self) -> NDArray[np.int64]:
        """Partition of each replica copy in a reassignment plan (int64[n]).

        A partition is an index in the cluster's list of partitions.
        """
        return self._rows[0]

    @property
    def target_broker(self) -> NDArray[np.int32]:
        """Broker to which a reassignment plan copies each moved replica (int32[n]).

        A broker is an index in the cluster's list of brokers.
        """
        return self._rows[1]

    @property
    def source_broker(self) -> NDArray[np.int32]:
        """Broker that loses a replica with each copy of a reassignment plan (int32[n]).

        A broker is an index in the cluster's list of brokers. It is -1 if the copy is an additional
        replica.
        """
        return self._rows[2]

    @cached_property
    def copy_bytes(self) -> NDArray[np.int64]:
        """Size of each replica copy of a reassignment plan in bytes (int64[n]).

        All sizes are 0 if the sizes of the partitions are unknown.
        """
        size = self.task.cluster.size
        return (
            np.zeros(len(self.partition_of_copy), np.int64)
            if size is None
            else size[self.partition_of_copy]
        )

    @cached_property
    def disk_moves(self) -> DiskMoves:
        """Replica copies of a reassignment plan between two log directories of the same broker.

        There are none if the log directories of the replicas are unknown.
        """
        task, disks = self.task, self.task.disks
        nothing = np.zeros(0, np.int64)
        if disks is None or self.disk is None:
            return DiskMoves(nothing, nothing.astype(np.int32), nothing, nothing, nothing)
        key, old = self._keys
        order = np.argsort(old)
        at = np.searchsorted(old[order], key)
        at = order[np.minimum(at, len(order) - 1)] if len(order) else np.zeros(len(key), np.int64)
        rows = np.flatnonzero((old[at] == key) & (disks.old[at] != self.disk)) if len(old) else at
        p, b = task.partition_of_replica[rows], self.replica[rows]
        source, target = disks.old[at[rows]].astype(np.int64), self.disk[rows].astype(np.int64)
        size = task.cluster.size
        bytes_ = np.zeros(len(p), np.int64) if size is None else size[p]
        return DiskMoves(p, b, source - disks.start[b], target - disks.start[b], bytes_)

    @property
    def on_disks(self) -> tuple[NDArray[np.int64], ...]:
        """Changes of disk usage by a reassignment plan, as four arrays with one element per change.

        The int64 arrays are partition, source disk (which gets space back), target disk (which
        fills up) and bytes. A disk is -1 if it is unknown, or if the change has no source or no
        target.
        """
        task, disks = self.task, self.task.disks
        if disks is None or self.disk is None:
            return (np.zeros(0, np.int64),) * 4
        key, old = self._keys
        new, left = np.flatnonzero(~is_among(key, old)), np.flatnonzero(~is_among(old, key))
        inner, size = self.disk_moves, task.cluster.size
        p = np.concatenate(
            [task.partition_of_replica[new], task.current_partition[left], inner.partition]
        )
        source = np.concatenate([
            np.full(len(new), -1), disks.old[left], inner.source + disks.start[inner.broker]
        ])  # fmt: skip
        target = np.concatenate([
            self.disk[new], np.full(len(left), -1), inner.target + disks.start[inner.broker]
        ])  # fmt: skip
        return p, source, target, np.zeros(len(p), np.int64) if size is None else size[p]


@dataclass(frozen=True, eq=False)
class DiskMoves:
    """Replica copies of a reassignment plan between two log directories of the same broker.

    Each attribute is an array with one element per copy.

    Attributes:
        partition: int64[n], the partition of each copy.
        broker: int32[n], index of its broker in the cluster.
        source, target: int64[n], indices of the two disks on that broker.
        bytes: int64[n], size of each copy; 0 if sizes are unknown.
    """

    partition: NDArray[np.int64]
    broker: NDArray[np.int32]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    bytes: NDArray[np.int64]


def log_directories(moves: ReplicaMoves) -> NDArray[np.int32] | None:
    """Return the log directory of each replica after a reassignment plan (int32).

    A directory is an index in its broker's list of directories, or -1 if Kafka chooses it. The
    result is None if no directories are known. ``moves`` are the plan's replica copies.
    """
    # Kafka chooses if the directory of some replica on the broker is unknown.
    disks = moves.task.disks
    if disks is None or moves.disk is None:
        return None
    out: NDArray[np.int32] = np.where(
        moves.disk >= 0, moves.disk - disks.start[moves.replica], -1
    ).astype(np.int32)
    return out
