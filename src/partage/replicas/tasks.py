"""From what one wants (drain a broker, balance, another factor) to a `ReplicaTask`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, NoFeasiblePlanError
from partage.model import ReplicaCluster, ReplicaTask, even_shares, rack_limits
from partage.model.replicas import FREE, LEAVE, STAY

__all__ = [
    "Limits", "add_brokers", "change_factor", "drain_brokers", "elect_leaders", "fix_racks",
    "rebalance", "replace_broker",
]  # fmt: skip

_UNBOUNDED = np.iinfo(np.int64).max // 2
_TOLERANCE: dict[str, float] = {"replicas": 0.0, "leaders": 0.0, "bytes": 0.1, "load": 0.1}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan must keep to, whatever is asked.

    Attributes:
        pinned: topics whose replicas stay where they are; they count for balance.
        excluded: topics that are left out altogether: not moved, not counted.
        tolerance: by how much a broker may be off its share and still be balanced, by kind
            (replicas, leaders, bytes, load), as a fraction. With 0, whole numbers: between
            the share rounded down and up. Default: 0 for numbers, 0.1 for bytes and load.
    """

    pinned: Collection[str] = ()
    excluded: Collection[str] = ()
    tolerance: Mapping[str, float] = field(default_factory=dict)

    def of(self, kind: str) -> float:
        """The tolerance of a kind."""
        value = float(self.tolerance.get(kind, _TOLERANCE[kind]))
        if not 0 <= value < 1e6:
            raise InvalidConfigError(f"tolerance.{kind}", "must be a fraction from 0", value)
        return value


def rebalance(cluster: ReplicaCluster, limits: Limits | None = None) -> ReplicaTask:
    """Every replica may go anywhere: balance, with the fewest bytes moved."""
    return _Making(cluster, limits).task()


def add_brokers(
    cluster: ReplicaCluster, ids: Iterable[int], limits: Limits | None = None
) -> ReplicaTask:
    """Replicas go to the new brokers only."""
    making = _Making(cluster, limits)
    new = making.brokers(ids, "add-broker")
    making.receives[:] = False
    making.receives[new] = True
    return making.task()


def drain_brokers(
    cluster: ReplicaCluster, ids: Iterable[int], limits: Limits | None = None
) -> ReplicaTask:
    """All replicas on these brokers leave, and nothing else moves."""
    making = _Making(cluster, limits)
    making.drain(making.brokers(ids, "drain-broker"))
    return making.task()


def replace_broker(
    cluster: ReplicaCluster, old: int, new: int, limits: Limits | None = None
) -> ReplicaTask:
    """The new broker takes over each replica of the old one, in its place."""
    making = _Making(cluster, limits)
    (gone,), (heir,) = making.brokers([old], "replace-broker"), making.brokers([new], "by")
    if gone == heir:
        raise InvalidConfigError("by", "a broker cannot take over from itself", new)
    making.drain([gone])
    making.receives[:] = False
    making.receives[heir] = True
    making.lead_free[:] = False
    return making.task()


def change_factor(
    cluster: ReplicaCluster,
    factor: int,
    topics: Collection[str] | None = None,
    limits: Limits | None = None,
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


def fix_racks(cluster: ReplicaCluster, limits: Limits | None = None) -> ReplicaTask:
    """Only what breaks the rack rule moves."""
    making = _Making(cluster, limits)
    making.closed[:] = True
    making.lead_free[:] = False
    return making.task()


def elect_leaders(cluster: ReplicaCluster, limits: Limits | None = None) -> ReplicaTask:
    """No data moves: replicas change their order, so that preferred leaders are balanced."""
    making = _Making(cluster, limits)
    making.fate[:] = STAY
    making.receives[:] = False
    return making.task()


class _Making:
    """A task under way: everything may move until somebody says otherwise."""

    def __init__(self, cluster: ReplicaCluster, limits: Limits | None) -> None:
        self.cluster, self.limits = cluster, limits or Limits()
        brokers = len(cluster.brokers)
        self.factor = cluster.factor.copy()
        self.fate = np.full(len(cluster.replica), FREE, np.int8)
        self.receives = np.array([not b.fenced for b in cluster.brokers], bool)
        self.alive = np.ones(brokers, bool)
        self.closed = np.zeros(cluster.partitions, bool)
        self.counted = ~self.of_topics(self.limits.excluded, "exclude")
        self.movable = self.counted & ~self.of_topics(self.limits.pinned, "pin")
        self.lead_free = self.movable.copy()

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
        self.fate[~np.repeat(self.movable, cluster.factor) & (self.fate == FREE)] = STAY
        self.closed |= ~self.movable
        racks = int(cluster.rack.max(initial=0)) + 1
        sizes = np.bincount(cluster.rack[self.alive], minlength=racks).astype(np.int64)
        widest = int(max(self.factor.max(initial=0), cluster.factor.max(initial=0)))
        widest = min(widest, int(sizes.sum()))
        limits = [rack_limits(f, sizes) for f in range(widest + 1)]
        size = cluster.size if cluster.size is not None else np.ones(cluster.partitions, np.int64)
        weight, low, high = self._bands(sizes)
        leads = self._lead_band()
        return ReplicaTask(
            cluster=cluster, factor=self.factor, fate=self.fate, receives=self.receives,
            closed=self.closed, cost=size.astype(np.int64), weight=weight, low=low, high=high,
            lead_low=leads[0], lead_high=leads[1], lead_free=self.lead_free,
            counted=self.counted, rack_low=np.array([one[0] for one in limits]),
            rack_high=np.array([one[1] for one in limits]), alive=self.alive,
        )  # fmt: skip

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

    def _bands(
        self, sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        cluster = self.cluster
        brokers, counted = len(cluster.brokers), self.counted.astype(np.int64)
        weight = np.zeros((4, cluster.partitions), np.int64)
        low = np.zeros((4, brokers), np.int64)
        high = np.full((4, brokers), _UNBOUNDED, np.int64)
        weight[1] = counted
        if cluster.size is not None:
            weight[2] = cluster.size * counted
            if (cluster.capacity >= 0).any():
                weight[0] = cluster.size
                high[0] = np.where(cluster.capacity >= 0, cluster.capacity, _UNBOUNDED)
        if cluster.load is not None:
            weight[3] = cluster.load * counted
        factors = np.unique(self.factor[self.factor > 0])
        for k, kind in ((1, "replicas"), (2, "bytes"), (3, "load")):
            if not weight[k].any():
                continue
            of_factor = np.array([float(weight[k][self.factor == f].sum()) for f in factors])
            share = even_shares(factors, of_factor, sizes)[cluster.rack]
            share[~self.alive] = 0.0
            low[k], high[k] = _band(share, self.limits.of(kind))
        return weight, low, high

    def _lead_band(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        leads = self.alive & np.array([not b.fenced for b in self.cluster.brokers], bool)
        count = int((self.counted & (self.factor > 0)).sum())
        share = np.where(leads, count / max(int(leads.sum()), 1), 0.0)
        return _band(share, self.limits.of("leaders"))


def _band(
    share: NDArray[np.float64], tolerance: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The whole numbers around a share; a share that is whole but for rounding is whole."""
    low = np.floor(share * (1 - min(tolerance, 1.0)) + 1e-6)
    high = np.ceil(share * (1 + tolerance) - 1e-6)
    return low.astype(np.int64), high.astype(np.int64)
