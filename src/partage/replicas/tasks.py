"""Builders of a `ReplicaTask`, one function for each command of ``partage reassign``."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, InvalidProblemError, NoFeasiblePlanError
from partage.model import ReplicaCluster, ReplicaTask, rack_limits
from partage.model.replicas import FREE, LEAVE, STAY
from partage.replicas.bands import BalanceLimits, PlanLimits, balanced_disks

__all__ = [
    "PlanLimits", "add_brokers", "change_factor", "drain_brokers", "elect_leaders", "fix_racks",
    "rebalance_task", "replace_broker",
]  # fmt: skip


def rebalance_task(cluster: ReplicaCluster, limits: PlanLimits | None = None) -> ReplicaTask:
    """Build the reassignment problem of balancing all replicas of a cluster over its brokers.

    `reassign` computes a plan for the returned `ReplicaTask`.

    Args:
        cluster: the cluster before the reassignment.
        limits: topics that stay in place, and balance tolerances.
    """
    builder = _TaskBuilder(cluster, limits)
    builder.between_disks = True
    return builder.build_task()


def add_brokers(
    cluster: ReplicaCluster, ids: Iterable[int], limits: PlanLimits | None = None
) -> ReplicaTask:
    """Build the reassignment problem of moving replicas to new brokers, and to no other brokers.

    `reassign` computes a plan for the returned `ReplicaTask`, which balances the cluster.

    Args:
        cluster: the cluster, with the new brokers.
        ids: ids of the new brokers.
        limits: topics that stay in place, and balance tolerances.
    """
    builder = _TaskBuilder(cluster, limits)
    new = builder.broker_indices(ids, "add-broker")
    builder.expect_not_fenced(new, "add-broker")
    builder.receives[:] = False
    builder.receives[new] = True
    return builder.build_task()


def drain_brokers(
    cluster: ReplicaCluster, ids: Iterable[int], limits: PlanLimits | None = None
) -> ReplicaTask:
    """Build the reassignment problem of moving all replicas off some brokers; other replicas stay.

    `reassign` computes a plan for the returned `ReplicaTask`.

    Args:
        cluster: the cluster before the reassignment.
        ids: ids of the brokers to empty.
        limits: topics that stay in place, and balance tolerances.
    """
    builder = _TaskBuilder(cluster, limits)
    builder.drain_brokers(builder.broker_indices(ids, "drain-broker"))
    return builder.build_task()


def replace_broker(
    cluster: ReplicaCluster, old: int, new: int, limits: PlanLimits | None = None
) -> ReplicaTask:
    """Build the reassignment problem of replacing a broker by a new one.

    The new broker takes over each replica of the old one, at the same position in the list of
    replicas. `reassign` computes a plan for the returned `ReplicaTask`.

    Args:
        cluster: the cluster, with both brokers.
        old: id of the broker to replace.
        new: id of the new broker.
        limits: topics that stay in place, and balance tolerances.
    """
    builder = _TaskBuilder(cluster, limits)
    (gone,), (successor,) = (
        builder.broker_indices([old], "replace-broker"),
        builder.broker_indices([new], "by"),
    )
    if gone == successor:
        raise InvalidConfigError("by", "a broker cannot take over from itself", new)
    builder.expect_not_fenced([successor], "by")
    builder.drain_brokers([gone])
    builder.receives[:] = False
    builder.receives[successor] = True
    builder.lead_free[:] = False
    return builder.build_task()


def change_factor(
    cluster: ReplicaCluster,
    factor: int,
    topics: Collection[str] | None = None,
    limits: PlanLimits | None = None,
) -> ReplicaTask:
    """Build the reassignment problem of changing the replication factor of some topics, or of all.

    `reassign` computes a plan for the returned `ReplicaTask`.

    Args:
        cluster: the cluster before the reassignment.
        factor: the new replication factor.
        topics: names of the topics; without names, all topics that are not excluded.
        limits: topics that stay in place, and balance tolerances.

    Raises:
        InvalidConfigError: the factor is not positive, or a topic does not exist.
        NoFeasiblePlanError: the cluster has fewer brokers than the factor.
    """
    builder = _TaskBuilder(cluster, limits)
    if factor < 1:
        raise InvalidConfigError("replication-factor", "must be at least 1", factor)
    alive = int((builder.alive & builder.receives).sum())
    if factor > alive:
        raise NoFeasiblePlanError(
            "replication factor", f"{factor} replicas need {factor} brokers, there are {alive}"
        )
    changes = builder.movable.copy()
    if topics is not None:
        changes &= builder.topic_mask(topics, "topic")
    builder.factor[changes] = factor
    less = changes & (builder.factor < cluster.replication_factors)
    builder.closed[:] = True
    builder.fate[:] = np.where(np.repeat(less, cluster.replication_factors), FREE, STAY)
    builder.lead_free[:] = False
    return builder.build_task()


def fix_racks(cluster: ReplicaCluster, limits: PlanLimits | None = None) -> ReplicaTask:
    """Build the reassignment problem of moving only the replicas that break the rack rule.

    The rule spreads the replicas of each partition evenly over racks. `reassign` computes a plan
    for the returned `ReplicaTask`.

    Args:
        cluster: the cluster before the reassignment.
        limits: topics that stay in place, and balance tolerances.
    """
    builder = _TaskBuilder(cluster, limits)
    builder.closed[:] = True
    builder.lead_free[:] = False
    return builder.build_task()


def elect_leaders(cluster: ReplicaCluster, limits: PlanLimits | None = None) -> ReplicaTask:
    """Build the reassignment problem of balancing preferred leaders without copying replicas.

    Only the order of each partition's replicas changes, because its first replica is the preferred
    leader. `reassign` computes a plan for the returned `ReplicaTask`.

    Args:
        cluster: the cluster before the reassignment.
        limits: topics that stay in place, and balance tolerances.
    """
    builder = _TaskBuilder(cluster, limits)
    builder.fate[:] = STAY
    builder.receives[:] = False
    return builder.build_task()


class _TaskBuilder:
    """Builder of a replica reassignment problem (`ReplicaTask`).

    At first every replica may move. Each subcommand of ``partage reassign`` then restricts which
    replicas may.
    """

    def __init__(self, cluster: ReplicaCluster, limits: PlanLimits | None) -> None:
        self.cluster, self.limits = cluster, limits or PlanLimits()
        brokers = len(cluster.brokers)
        self.factor = cluster.replication_factors.copy()
        self.fate = np.full(len(cluster.replica), FREE, np.int8)
        self.receives = np.array([not b.fenced for b in cluster.brokers], bool)
        self.alive = np.ones(brokers, bool)
        self.closed = np.zeros(cluster.partitions, bool)
        self.counted = ~self.topic_mask(self.limits.excluded, "exclude")
        self.movable = self.counted & ~self.topic_mask(self.limits.pinned, "pin")
        self.lead_free = self.movable.copy()
        self.between_disks = False

    def topic_mask(self, names: Collection[str], option: str) -> NDArray[np.bool_]:
        """Return a boolean mask that selects the partitions of the given topics (bool[partitions]).

        The names come from a command-line option, such as ``--pin``.

        Args:
            names: names of the topics.
            option: name of the command-line option, for errors.

        Raises:
            InvalidConfigError: a topic does not exist.
        """
        known = {name: i for i, name in enumerate(self.cluster.topics)}
        for name in names:
            if name not in known:
                raise InvalidConfigError(option, "no such topic", name)
        return np.isin(self.cluster.topic, [known[name] for name in names])

    def broker_indices(self, ids: Iterable[int], option: str) -> list[int]:
        """Convert broker ids from the command line to indices in the cluster's list of brokers.

        Arrays that describe a reassignment contain these indices.

        Args:
            ids: the broker ids.
            option: name of the command-line option, for errors.

        Raises:
            InvalidConfigError: a broker is unknown or named twice, or none is named.
        """
        out: list[int] = []
        for one in ids:
            at = self.cluster.broker_positions.get(one)
            if at is None:
                known = ", ".join(str(b.id) for b in self.cluster.brokers[:20])
                raise InvalidConfigError(option, f"no such broker; the cluster has {known}", one)
            if at in out:
                raise InvalidConfigError(option, "the broker is named twice", one)
            out.append(at)
        if not out:
            raise InvalidConfigError(option, "name at least one broker", [])
        return out

    def expect_not_fenced(self, receivers: list[int], option: str) -> None:
        """Check that none of the brokers that will receive replicas is fenced.

        New replicas on a fenced broker would never join the ISR.

        Args:
            receivers: indices of the brokers in the cluster.
            option: name of the command-line option, for the error message.

        Raises:
            InvalidConfigError: a broker is fenced.
        """
        for b in receivers:
            if self.cluster.brokers[b].fenced:
                why = "the broker is fenced or gone: it cannot take replicas"
                raise InvalidConfigError(option, why, self.cluster.brokers[b].id)

    def drain_brokers(self, removed_brokers: list[int]) -> None:
        """Require that all replicas leave some brokers and that all other replicas stay.

        ``removed_brokers`` has the indices of these brokers in the cluster.

        Raises:
            NoFeasiblePlanError: a pinned replica is on such a broker, or no other broker is left.
        """
        cluster = self.cluster
        self.alive[removed_brokers] = False
        self.receives[removed_brokers] = False
        leaves = np.isin(cluster.replica, removed_brokers)
        self.fate[:] = np.where(leaves, LEAVE, STAY)
        movable = np.repeat(self.movable, cluster.replication_factors)
        stuck = np.flatnonzero(leaves & ~movable)
        if len(stuck):
            p = int(np.searchsorted(cluster.start, stuck[0], side="right")) - 1
            raise NoFeasiblePlanError(
                "pinned topics",
                f"{cluster.partition_name(p)} has a replica on broker "
                f"{cluster.brokers[cluster.replica[stuck[0]]].id}, which must be drained",
            )
        if not self.alive.any():
            raise NoFeasiblePlanError("brokers", "no broker is left to hold replicas")
        first = np.minimum(cluster.start[:-1], max(len(cluster.replica) - 1, 0))
        self.lead_free = (
            (cluster.replication_factors > 0) & leaves[first] if len(leaves) else self.lead_free
        )

    def build_task(self) -> ReplicaTask:
        """Return the finished reassignment problem (`ReplicaTask`), the input of the optimiser.

        Contradictions in the input, such as too few brokers, are reported before.

        Raises:
            NoFeasiblePlanError: a partition needs more replicas than there are usable brokers.
            InvalidProblemError: a broker has a capacity while partitions have no sizes.
        """
        cluster = self.cluster
        self._expect_enough_brokers()
        self._expect_sizes()
        self.fate[~np.repeat(self.movable, cluster.replication_factors) & (self.fate == FREE)] = (
            STAY
        )
        self.closed |= ~self.movable
        bands = BalanceLimits(cluster, self.limits, self.factor, self.counted, self.alive)
        widest = int(max(self.factor.max(initial=0), cluster.replication_factors.max(initial=0)))
        widest = min(widest, int(bands.brokers_per_rack.sum()))
        limits = [rack_limits(f, bands.brokers_per_rack) for f in range(widest + 1)]
        size = cluster.size if cluster.size is not None else np.ones(cluster.partitions, np.int64)
        weight = bands.replica_weights()
        if not self.receives.any():
            weight[0] = 0  # no replica moves: an overfull broker neither helps nor hinders
        low, high = bands.replica_bands(weight)
        lead_low, lead_high = bands.leader_bands()
        free = np.repeat(self.movable, cluster.replication_factors) & self.between_disks
        return ReplicaTask(
            cluster=cluster, factor=self.factor, fate=self.fate, receives=self.receives,
            closed=self.closed, cost=size.astype(np.int64), weight=weight, low=low, high=high,
            lead_low=lead_low, lead_high=lead_high, lead_free=self.lead_free,
            counted=self.counted, rack_low=np.array([one[0] for one in limits]),
            rack_high=np.array([one[1] for one in limits]), alive=self.alive,
            disks=balanced_disks(cluster, self.limits, free & (self.fate != LEAVE)),
        )  # fmt: skip

    def _expect_sizes(self) -> None:
        """Check that partition sizes are known if a broker or a disk has a capacity.

        Without sizes, a plan could exceed the capacity unnoticed.

        Raises:
            InvalidProblemError: the sizes are missing.
        """
        cluster = self.cluster
        rooms = [room for disks in cluster.directories for _, room in disks]
        limited = (cluster.capacity >= 0).any() or any(room >= 0 for room in rooms)
        if cluster.size is None and limited and self.receives.any():
            what = "brokers have a capacity, and partitions no size: give sizes (--log-dirs)"
            raise InvalidProblemError(what, path="size", value=None)

    def _expect_enough_brokers(self) -> None:
        """Check that no replication factor is larger than the number of remaining brokers.

        Each replica of a partition needs its own broker.

        Raises:
            NoFeasiblePlanError: a factor is larger.
        """
        alive = int(self.alive.sum())
        short = np.flatnonzero(self.factor > alive)
        if len(short):
            p = int(short[0])
            raise NoFeasiblePlanError(
                "replication factor",
                f"{self.cluster.partition_name(p)} has {self.factor[p]} replicas, and only {alive} "
                f"{'broker is' if alive == 1 else 'brokers are'} left to hold them; "
                "add a broker, or lower the factor first with change-rf",
            )
