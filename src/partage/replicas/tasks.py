"""From what one wants (drain a broker, balance, another factor) to a `ReplicaTask`."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, InvalidProblemError, NoFeasiblePlanError
from partage.model import ReplicaCluster, ReplicaTask, rack_limits
from partage.model.replicas import FREE, LEAVE, STAY
from partage.replicas.bands import Bands, PlanLimits, disks_of

__all__ = [
    "PlanLimits", "add_brokers", "change_factor", "drain_brokers", "elect_leaders", "fix_racks",
    "rebalance", "replace_broker",
]  # fmt: skip


def rebalance(cluster: ReplicaCluster, limits: PlanLimits | None = None) -> ReplicaTask:
    """Every replica may go anywhere: balance, with the fewest bytes moved."""
    making = _Making(cluster, limits)
    making.between_disks = True
    return making.task()


def add_brokers(
    cluster: ReplicaCluster, ids: Iterable[int], limits: PlanLimits | None = None
) -> ReplicaTask:
    """Replicas go to the new brokers only."""
    making = _Making(cluster, limits)
    new = making.brokers(ids, "add-broker")
    making.take_replicas(new, "add-broker")
    making.receives[:] = False
    making.receives[new] = True
    return making.task()


def drain_brokers(
    cluster: ReplicaCluster, ids: Iterable[int], limits: PlanLimits | None = None
) -> ReplicaTask:
    """All replicas on these brokers leave, and nothing else moves."""
    making = _Making(cluster, limits)
    making.drain(making.brokers(ids, "drain-broker"))
    return making.task()


def replace_broker(
    cluster: ReplicaCluster, old: int, new: int, limits: PlanLimits | None = None
) -> ReplicaTask:
    """The new broker takes over each replica of the old one, in its place."""
    making = _Making(cluster, limits)
    (gone,), (heir,) = making.brokers([old], "replace-broker"), making.brokers([new], "by")
    if gone == heir:
        raise InvalidConfigError("by", "a broker cannot take over from itself", new)
    making.take_replicas([heir], "by")
    making.drain([gone])
    making.receives[:] = False
    making.receives[heir] = True
    making.lead_free[:] = False
    return making.task()


def change_factor(
    cluster: ReplicaCluster,
    factor: int,
    topics: Collection[str] | None = None,
    limits: PlanLimits | None = None,
) -> ReplicaTask:
    """Another replication factor for some topics (all that are not excluded, without names).

    Raises:
        InvalidConfigError: the factor is not positive, or there is no such topic.
        NoFeasiblePlanError: there are fewer brokers.
    """
    making = _Making(cluster, limits)
    if factor < 1:
        raise InvalidConfigError("replication-factor", "must be at least 1", factor)
    alive = int((making.alive & making.receives).sum())
    if factor > alive:
        raise NoFeasiblePlanError(
            "replication factor", f"{factor} replicas need {factor} brokers, there are {alive}"
        )
    mine = making.movable.copy()
    if topics is not None:
        mine &= making.of_topics(topics, "topic")
    making.factor[mine] = factor
    less = mine & (making.factor < cluster.factor)
    making.closed[:] = True
    making.fate[:] = np.where(np.repeat(less, cluster.factor), FREE, STAY)
    making.lead_free[:] = False
    return making.task()


def fix_racks(cluster: ReplicaCluster, limits: PlanLimits | None = None) -> ReplicaTask:
    """Only what breaks the rack rule moves."""
    making = _Making(cluster, limits)
    making.closed[:] = True
    making.lead_free[:] = False
    return making.task()


def elect_leaders(cluster: ReplicaCluster, limits: PlanLimits | None = None) -> ReplicaTask:
    """No data moves: replicas change their order, so that preferred leaders are balanced."""
    making = _Making(cluster, limits)
    making.fate[:] = STAY
    making.receives[:] = False
    return making.task()


class _Making:
    """A task under way: everything may move until somebody says otherwise."""

    def __init__(self, cluster: ReplicaCluster, limits: PlanLimits | None) -> None:
        self.cluster, self.limits = cluster, limits or PlanLimits()
        brokers = len(cluster.brokers)
        self.factor = cluster.factor.copy()
        self.fate = np.full(len(cluster.replica), FREE, np.int8)
        self.receives = np.array([not b.fenced for b in cluster.brokers], bool)
        self.alive = np.ones(brokers, bool)
        self.closed = np.zeros(cluster.partitions, bool)
        self.counted = ~self.of_topics(self.limits.excluded, "exclude")
        self.movable = self.counted & ~self.of_topics(self.limits.pinned, "pin")
        self.lead_free = self.movable.copy()
        self.between_disks = False

    def of_topics(self, names: Collection[str], what: str) -> NDArray[np.bool_]:
        """bool[P]: partitions of these topics, each of which must be there."""
        known = {name: i for i, name in enumerate(self.cluster.topics)}
        for name in names:
            if name not in known:
                raise InvalidConfigError(what, "no such topic", name)
        return np.isin(self.cluster.topic, [known[name] for name in names])

    def brokers(self, ids: Iterable[int], what: str) -> list[int]:
        """Positions of brokers, each of which must be there, once."""
        out: list[int] = []
        for one in ids:
            at = self.cluster.position.get(one)
            if at is None:
                known = ", ".join(str(b.id) for b in self.cluster.brokers[:20])
                raise InvalidConfigError(what, f"no such broker; there are {known}", one)
            if at in out:
                raise InvalidConfigError(what, "the broker is there twice", one)
            out.append(at)
        if not out:
            raise InvalidConfigError(what, "name at least one broker", [])
        return out

    def take_replicas(self, those: list[int], what: str) -> None:
        """They must be able to: a fenced broker joins no in-sync replicas, and copies never end."""
        for b in those:
            if self.cluster.brokers[b].fenced:
                why = "the broker is fenced or gone: it cannot take replicas"
                raise InvalidConfigError(what, why, self.cluster.brokers[b].id)

    def drain(self, gone: list[int]) -> None:
        """These brokers are to hold nothing; what is elsewhere stays."""
        cluster = self.cluster
        self.alive[gone] = False
        self.receives[gone] = False
        leaves = np.isin(cluster.replica, gone)
        self.fate[:] = np.where(leaves, LEAVE, STAY)
        movable = np.repeat(self.movable, cluster.factor)
        stuck = np.flatnonzero(leaves & ~movable)
        if len(stuck):
            p = int(np.searchsorted(cluster.start, stuck[0], side="right")) - 1
            raise NoFeasiblePlanError(
                "pinned topics",
                f"{cluster.name(p)} has a replica on broker "
                f"{cluster.brokers[cluster.replica[stuck[0]]].id}, which is to be empty",
            )
        if not self.alive.any():
            raise NoFeasiblePlanError("brokers", "none is left to hold anything")
        first = np.minimum(cluster.start[:-1], max(len(cluster.replica) - 1, 0))
        self.lead_free = (cluster.factor > 0) & leaves[first] if len(leaves) else self.lead_free

    def task(self) -> ReplicaTask:
        """What came of it."""
        cluster = self.cluster
        self._enough_brokers()
        self._room_can_be_checked()
        self.fate[~np.repeat(self.movable, cluster.factor) & (self.fate == FREE)] = STAY
        self.closed |= ~self.movable
        bands = Bands(cluster, self.limits, self.factor, self.counted, self.alive)
        widest = int(max(self.factor.max(initial=0), cluster.factor.max(initial=0)))
        widest = min(widest, int(bands.sizes.sum()))
        limits = [rack_limits(f, bands.sizes) for f in range(widest + 1)]
        size = cluster.size if cluster.size is not None else np.ones(cluster.partitions, np.int64)
        weight = bands.weight()
        low, high = bands.held(weight)
        lead_low, lead_high = bands.led()
        free = np.repeat(self.movable, cluster.factor) & self.between_disks
        return ReplicaTask(
            cluster=cluster, factor=self.factor, fate=self.fate, receives=self.receives,
            closed=self.closed, cost=size.astype(np.int64), weight=weight, low=low, high=high,
            lead_low=lead_low, lead_high=lead_high, lead_free=self.lead_free,
            counted=self.counted, rack_low=np.array([one[0] for one in limits]),
            rack_high=np.array([one[1] for one in limits]), alive=self.alive,
            disks=disks_of(cluster, self.limits, free & (self.fate != LEAVE)),
        )  # fmt: skip

    def _room_can_be_checked(self) -> None:
        """A hard limit that nobody can look at is none."""
        cluster = self.cluster
        rooms = [room for mine in cluster.directories for _, room in mine]
        limited = (cluster.capacity >= 0).any() or any(room >= 0 for room in rooms)
        if cluster.size is None and limited and self.receives.any():
            what = "brokers have a capacity, and partitions no size: give sizes (--log-dirs)"
            raise InvalidProblemError(what, path="size", value=None)

    def _enough_brokers(self) -> None:
        alive = int(self.alive.sum())
        short = np.flatnonzero(self.factor > alive)
        if len(short):
            p = int(short[0])
            raise NoFeasiblePlanError(
                "replication factor",
                f"{self.cluster.name(p)} has {self.factor[p]} replicas, and only {alive} "
                f"{'broker is' if alive == 1 else 'brokers are'} left to hold them",
            )
