"""A cluster with its replicas in arrays, and what is asked of it: a reassignment's input."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.model.cluster import Broker

__all__ = [
    "FREE", "KINDS", "LEAVE", "RANKS", "STAY", "Disks", "NewReplicas", "ReplicaCluster",
    "ReplicaTask", "among",
]  # fmt: skip

Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]

#: What brokers hold besides leaders, in order of importance: room first, which is a hard limit.
KINDS = ("capacity", "replicas", "bytes", "load")
#: Balance in order of importance: of each kind first the brokers, then the racks; disks follow,
#: since what a broker's disks hold can be evened without another broker.
RANKS = (
    "capacity", "replicas", "rack replicas", "leaders", "rack leaders", "bytes", "rack bytes",
    "load", "rack load", "disk replicas", "disk bytes", "disk load",
)  # fmt: skip
#: What may become of a replica.
FREE, STAY, LEAVE = 0, 1, 2


def among(values: Int64Array, those: Int64Array) -> NDArray[np.bool_]:
    """bool[n]: which values are among those; of a million, ten times sooner than `numpy.isin`.

    >>> among(np.array([3, 1, 2]), np.array([2, 3, 3])).tolist()
    [True, False, True]
    """
    if not len(those):
        return np.zeros(len(values), bool)
    ordered = np.sort(those)
    at = np.searchsorted(ordered, values)
    out: NDArray[np.bool_] = ordered[np.minimum(at, len(ordered) - 1)] == values
    return out


@dataclass(frozen=True, eq=False)
class ReplicaCluster:
    """Where replicas are, and what they weigh.

    Attributes:
        topics: names; topic: int32[P], number: int32[P]: partition i is number[i] of topic[i].
        start: int64[P + 1], replica: int32[R] (CSR): positions in ``brokers``, the preferred
            leader first.
        leader: int32[P], position in ``brokers``, -1 for none.
        size: int64[P], bytes of one replica; None if unknown.
        load: int64[P], bytes written a second; None if unknown.
        brokers: all that may hold replicas or do.
        capacity: int64[B], bytes a broker has room for, -1 if unknown.
        directories: for each broker its log directories (path, capacity or -1), if known.
        directory: int32[R], place in ``directories`` of the broker, -1 if unknown.
        missing: bool[B], brokers that are in no metadata, and hold replicas all the same.
    """

    topics: tuple[str, ...]
    topic: Int32Array
    number: Int32Array
    start: Int64Array
    replica: Int32Array
    leader: Int32Array
    size: Int64Array | None
    load: Int64Array | None
    brokers: tuple[Broker, ...]
    capacity: Int64Array
    directories: tuple[tuple[tuple[str, int], ...], ...]
    directory: Int32Array
    missing: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))

    def __post_init__(self) -> None:
        """By default nobody is missing."""
        if not len(self.missing):
            object.__setattr__(self, "missing", np.zeros(len(self.brokers), bool))

    @cached_property
    def led(self) -> Int32Array:
        """int32[R]: the replicas with the one that leads now in front, if one does.

        It takes the place of the preferred leader, which takes its place.
        """
        out: Int32Array = self.replica.copy()
        first = np.minimum(self.start[:-1], max(len(out) - 1, 0))
        owner = np.repeat(np.arange(self.partitions), self.factor)
        at = np.flatnonzero(self.replica == self.leader[owner])
        mine = owner[at]
        out[at] = self.replica[first[mine]]
        out[first[mine]] = self.replica[at]
        return out

    @property
    def partitions(self) -> int:
        """How many there are."""
        return len(self.topic)

    @cached_property
    def factor(self) -> Int64Array:
        """int64[P]: replicas of each partition."""
        return np.diff(self.start)

    @cached_property
    def racks(self) -> tuple[str | None, ...]:
        """Distinct racks of the brokers, none first; without any rack every broker is its own."""
        found = {b.rack for b in self.brokers}
        return tuple(sorted(found, key=lambda rack: (rack is not None, rack or "")))

    @cached_property
    def rack(self) -> Int32Array:
        """int32[B]: place in ``racks``; where no broker has a rack, each is on one of its own.

        Where some have one, those that have none share one, as in the controller's own placement.
        """
        if all(b.rack is None for b in self.brokers):
            return np.arange(len(self.brokers), dtype=np.int32)
        at = {rack: i for i, rack in enumerate(self.racks)}
        return np.array([at[b.rack] for b in self.brokers], np.int32)

    @cached_property
    def position(self) -> dict[int, int]:
        """Broker id -> position."""
        return {b.id: i for i, b in enumerate(self.brokers)}

    def name(self, partition: int) -> str:
        """``topic-number`` of a partition."""
        return f"{self.topics[self.topic[partition]]}-{self.number[partition]}"

    def ids(self, positions: Int32Array) -> list[int]:
        """Broker ids of positions."""
        return [self.brokers[b].id for b in positions.tolist()]


@dataclass(frozen=True, eq=False)
class Disks:
    """Log directories of brokers that have several, all of whose replicas are known to be in one.

    They are numbered through (D in all), those of a broker side by side. A disk is balanced when
    it holds its part of what its broker holds, whatever that comes to.

    Attributes:
        start: int64[B + 1]: a broker's disks; none where it is not known what is where.
        part: float64[D], of what the broker holds; the parts of a broker add up to 1.
        tolerance: float64[4], of each of `KINDS`, by how much a disk may be off its part.
        room: int64[D], bytes, -1 if unknown: a hard limit.
        old: int32[R], the disk of each old replica, -1 where its broker has none.
        free: bool[R], the replica may go from disk to disk of its broker.
    """

    start: Int64Array
    part: NDArray[np.float64]
    tolerance: NDArray[np.float64]
    room: Int64Array
    old: Int32Array
    free: NDArray[np.bool_]

    @cached_property
    def broker(self) -> Int32Array:
        """int32[D]: whose each is."""
        brokers = np.arange(len(self.start) - 1, dtype=np.int32)
        return np.repeat(brokers, np.diff(self.start))

    def band(self, k: int, held: Int64Array) -> tuple[Int64Array, Int64Array]:
        """int64[D] twice: within which disks are balanced while brokers hold so much of a kind.

        >>> disks = Disks(np.array([0, 2]), np.array([.5, .5]), np.array([0, .1, .1, .1]),
        ...               np.array([-1, -1]), np.zeros(0, np.int32), np.zeros(0, bool))
        >>> [side.tolist() for side in disks.band(2, np.array([100]))]
        [[45, 45], [55, 55]]
        """
        part = self.part * held[self.broker]
        low = np.floor(part * (1 - min(float(self.tolerance[k]), 1.0)) + 1e-6).astype(np.int64)
        return low, np.ceil(part * (1 + self.tolerance[k]) - 1e-6).astype(np.int64)


@dataclass(frozen=True, eq=False)
class ReplicaTask:
    """What a reassignment may do and is to reach; see docs/replicas.md for what balance means.

    Attributes:
        cluster: as it is.
        factor: int64[P], replicas wanted of each partition.
        fate: int8[R], of each replica: FREE, STAY (pinned, or not this task's business), LEAVE.
        receives: bool[B], brokers to which replicas may be moved; others may keep what they have.
        closed: bool[P], replicas are moved only as far as the rack rule or LEAVE demands.
        cost: int64[P], bytes of a move, between brokers or disks; 1 each where sizes are unknown.
        weight: int64[4, P], what a replica weighs in each of `KINDS`; 0 where it is not counted.
        low, high: int64[4, B + Z], within which a broker is balanced, and after the brokers the
            racks, all that a rack's brokers hold; Z is 0 where there is one rack or none is known.
        lead_low, lead_high: int64[B + Z], the same for leaders.
        lead_free: bool[P], leadership may change although the leader stays.
        counted: bool[P], partitions that count for balance (topics that are not excluded).
        rack_low, rack_high: int64[F + 1, racks], replicas of a partition that each rack is to
            hold, by replication factor (the rack rule).
        alive: bool[B], brokers that are to hold anything in the end.
        disks: log directories, None where no broker has told several.
    """

    cluster: ReplicaCluster
    factor: Int64Array
    fate: NDArray[np.int8]
    receives: NDArray[np.bool_]
    closed: NDArray[np.bool_]
    cost: Int64Array
    weight: Int64Array
    low: Int64Array
    high: Int64Array
    lead_low: Int64Array
    lead_high: Int64Array
    lead_free: NDArray[np.bool_]
    counted: NDArray[np.bool_]
    rack_low: Int64Array
    rack_high: Int64Array
    alive: NDArray[np.bool_]
    disks: Disks | None = None

    @cached_property
    def start(self) -> Int64Array:
        """int64[P + 1]: where each partition's new replicas begin."""
        out = np.zeros(len(self.factor) + 1, np.int64)
        np.cumsum(self.factor, out=out[1:])
        return out

    @property
    def zones(self) -> int:
        """How many racks have bands of their own: Z above."""
        return int(self.low.shape[1]) - len(self.alive)

    @cached_property
    def old_owner(self) -> Int64Array:
        """int64[R]: whose each old replica is."""
        return np.repeat(np.arange(len(self.factor), dtype=np.int64), self.cluster.factor)

    @cached_property
    def owner(self) -> Int64Array:
        """int64[sum of factors]: whose each new replica is."""
        return np.repeat(np.arange(len(self.factor), dtype=np.int64), self.factor)


@dataclass(frozen=True, eq=False)
class NewReplicas:
    """An answer to a `ReplicaTask`, with what it claims.

    Attributes:
        replica: int32[sum of factors], brokers' positions by ``task.start``, leaders first.
        prices: figure -> float64[4, B + Z], from which a bound follows (`partage.judge`).
        lead_prices: figure ("leaders", "rack leaders") -> float64[B + Z], the same for leaders.
        disk: int32, of each replica the disk by `Disks`, -1 where its broker has none; None:
            the task knows no disks.
        disk_prices: figure -> float64[2, 4, D], at least 0: what a unit above a disk's band costs,
            and one below.
        solver: who found it, and what its own bound of the bytes is (None: it has none).
    """

    replica: Int32Array
    prices: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    lead_prices: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    disk: Int32Array | None = None
    disk_prices: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    solver: str = "local search"
    solver_bound: float | None = None
