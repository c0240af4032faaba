"""Balance bands of brokers, racks and disks: the fair share of load, plus or minus a tolerance."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError
from partage.model import ReplicaCluster, even_shares
from partage.model.replicas import KINDS, Disks

__all__ = ["TOLERANCE", "BalanceLimits", "PlanLimits", "balanced_disks"]

_UNBOUNDED = np.iinfo(np.int64).max // 2
#: Tolerances by kind. A rack's sum varies less than what one broker holds. Exact numbers of
#: replicas on disks would cost copies without a benefit.
TOLERANCE: dict[str, float] = {
    "replicas": 0.0, "leaders": 0.0, "bytes": 0.1, "load": 0.1,
    "rack-replicas": 0.0, "rack-leaders": 0.0, "rack-bytes": 0.05, "rack-load": 0.05,
    "disk-replicas": 0.1, "disk-bytes": 0.1, "disk-load": 0.1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """User settings of a replica reassignment: pinned and excluded topics, balance tolerances.

    They restrict the plans that ``partage reassign`` computes.

    Attributes:
        pinned: topics whose replicas stay on their brokers, but count as load of these brokers.
        excluded: topics whose replicas are neither moved nor counted as load.
        tolerance: the fraction of its fair share by which a broker may differ and still be
            balanced, by kind: replicas, leaders, bytes, load. The prefix "rack-" or "disk-" means a
            rack or a disk. With 0 the band is the share rounded down and up. `TOLERANCE` has the
            defaults.
    """

    pinned: Collection[str] = ()
    excluded: Collection[str] = ()
    tolerance: Mapping[str, float] = field(default_factory=dict)

    def tolerance_for(self, kind: str) -> float:
        """Return the balance tolerance of one kind of load, such as "bytes" or "rack-leaders".

        A tolerance of 0.1 means that a broker is balanced if its load differs from its fair share
        by at most 10 %. The value is the user's setting, or the default in `TOLERANCE`.

        Raises:
            InvalidConfigError: the tolerance is negative, infinite or not a number.
        """
        value = float(self.tolerance.get(kind, TOLERANCE[kind]))
        if not 0 <= value < 1e6:
            raise InvalidConfigError(f"tolerance.{kind}", "must be a fraction from 0", value)
        return value


@dataclass(frozen=True, eq=False)
class BalanceLimits:
    """Load ranges within which each broker or rack of a Kafka cluster counts as balanced.

    Each range surrounds the broker's fair share of replicas, bytes, write load or leaders.

    Attributes:
        cluster: the cluster before the reassignment.
        limits: the user's balance tolerances, and the excluded topics.
        factor: int64[partitions], new replication factor of each partition.
        counted: bool[partitions], partitions that count for balance.
        alive: bool[brokers], brokers that may hold replicas after the reassignment.
    """

    cluster: ReplicaCluster
    limits: PlanLimits
    factor: NDArray[np.int64]
    counted: NDArray[np.bool_]
    alive: NDArray[np.bool_]

    @property
    def brokers_per_rack(self) -> NDArray[np.int64]:
        """Number of Kafka brokers in each rack that remain after the reassignment (int64[racks]).

        Brokers that the reassignment empties and removes do not count.
        """
        racks = int(self.cluster.rack_of_broker.max(initial=0)) + 1
        return np.bincount(self.cluster.rack_of_broker[self.alive], minlength=racks).astype(
            np.int64
        )

    @property
    def balanced_rack_count(self) -> int:
        """Number of racks whose total load must be balanced.

        It is 0 if brokers have no racks or all are in the same rack.
        """
        known = any(b.rack is not None for b in self.cluster.brokers)
        return len(self.brokers_per_rack) if known and len(self.brokers_per_rack) > 1 else 0

    def replica_weights(self) -> NDArray[np.int64]:
        """Return what a replica of each partition adds to its broker: space, count, bytes, load.

        The result is int64[4, partitions]: disk space, number of replicas, bytes and write load
        (see `KINDS`).
        """
        # A kind without data has zeros, and excluded topics weigh 0 except for disk space.
        cluster, counted = self.cluster, self.counted.astype(np.int64)
        weight = np.zeros((len(KINDS), cluster.partitions), np.int64)
        weight[1] = counted
        if cluster.size is not None:
            weight[2] = cluster.size * counted
            rooms = any(room >= 0 for disks in cluster.directories for _, room in disks)
            if rooms or (cluster.capacity >= 0).any():
                weight[0] = cluster.size
        if cluster.load is not None:
            weight[3] = cluster.load * counted
        return weight

    def replica_bands(
        self, weights: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ranges of replicas, bytes and load in which a broker or rack is balanced.

        For disk space the range is only bounded by the broker's capacity.

        Args:
            weights: int64[4, partitions], what a replica of each partition adds to its broker, from
                `replica_weights`.

        Returns:
            lower and upper limits, each int64[4, brokers + racks]: a column for each broker, then
                for each rack. The rows are disk space, replicas, bytes and load.
        """
        # Disk space has no balance limit: its upper limit is the broker's capacity.
        cluster, sizes, zones = self.cluster, self.brokers_per_rack, self.balanced_rack_count
        brokers = len(cluster.brokers)
        low = np.zeros((len(KINDS), brokers + zones), np.int64)
        high = np.full((len(KINDS), brokers + zones), _UNBOUNDED, np.int64)
        if weights[0].any():
            high[0, :brokers] = np.where(cluster.capacity >= 0, cluster.capacity, _UNBOUNDED)
        factors = np.unique(self.factor[self.factor > 0])
        for k, kind in enumerate(KINDS):
            if k == 0 or not weights[k].any():
                continue
            of_factor = np.array([float(weights[k][self.factor == f].sum()) for f in factors])
            share = even_shares(factors, of_factor, sizes)
            each = np.where(self.alive, share[cluster.rack_of_broker], 0.0)
            low[k, :brokers], high[k, :brokers] = _balance_limits(
                each, self.limits.tolerance_for(kind)
            )
            rack = (share * sizes)[:zones]
            low[k, brokers:], high[k, brokers:] = _balance_limits(
                rack, self.limits.tolerance_for(f"rack-{kind}")
            )
        return low, high

    def leader_bands(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the least and the most partitions that each broker and each rack should lead.

        Outside this range, the number of leaders counts as unbalanced. Both results are
        int64[brokers + racks]: the brokers first, then the racks.
        """
        cluster = self.cluster
        leads = self.alive & np.array([not b.fenced for b in cluster.brokers], bool)
        count = int((self.counted & (self.factor > 0)).sum())
        share = np.where(leads, count / max(int(leads.sum()), 1), 0.0).astype(np.float64)
        racks = np.zeros(len(self.brokers_per_rack))
        np.add.at(racks, cluster.rack_of_broker, share)
        each = _balance_limits(share, self.limits.tolerance_for("leaders"))
        sums = _balance_limits(
            racks[: self.balanced_rack_count], self.limits.tolerance_for("rack-leaders")
        )
        return np.concatenate([each[0], sums[0]]), np.concatenate([each[1], sums[1]])


def balanced_disks(
    cluster: ReplicaCluster, limits: PlanLimits, free: NDArray[np.bool_]
) -> Disks | None:
    """Return the disks (log directories) whose load a reassignment may balance.

    These are the disks of brokers with at least two log directories, if the directory of each of
    the broker's replicas is known. None if there are no such disks.

    Args:
        cluster: the cluster before the reassignment.
        limits: the balance tolerances.
        free: bool[current replicas], replicas that may move to another disk.
    """
    brokers = len(cluster.brokers)
    unknown = np.bincount(cluster.replica[cluster.directory < 0], minlength=brokers)
    count = np.array([len(disks) for disks in cluster.directories], np.int64)
    count[(count < 2) | (unknown > 0)] = 0
    if not count.any():
        return None
    start = np.zeros(brokers + 1, np.int64)
    np.cumsum(count, out=start[1:])
    part, room = np.zeros(int(start[-1])), np.full(int(start[-1]), -1, np.int64)
    for b in np.flatnonzero(count).tolist():
        rooms = np.array([one for _, one in cluster.directories[b]], np.int64)
        mine = slice(int(start[b]), int(start[b + 1]))
        room[mine] = rooms
        part[mine] = rooms / rooms.sum() if (rooms > 0).all() else 1 / len(rooms)
    known = count[cluster.replica] > 0
    old = np.where(known, start[cluster.replica] + cluster.directory, -1).astype(np.int32)
    tolerance = np.array([0.0, *(limits.tolerance_for(f"disk-{kind}") for kind in KINDS[1:])])
    return Disks(start, part, tolerance, room, old, free & known)


def _balance_limits(
    fair_share: NDArray[np.float64], tolerance: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lowest and the highest load at which each broker still counts as balanced.

    For example, a fair share of 100 and a tolerance of 0.1 give 90 and 110.

    Args:
        fair_share: the fair share of load of each broker.
        tolerance: the fraction of the share by which the load may differ.

    Returns:
        two int64 arrays.
    """
    # A share that differs from an integer only by floating-point rounding counts as that integer.
    low = np.floor(fair_share * (1 - min(tolerance, 1.0)) + 1e-6)
    high = np.ceil(fair_share * (1 + tolerance) - 1e-6)
    return low.astype(np.int64), high.astype(np.int64)
