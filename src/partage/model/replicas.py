"""Input and result of a reassignment: a cluster with its replicas, the task, new replicas.

A band is the range of a load (replicas, bytes, ...) in which a broker counts as balanced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.model.cluster import Broker

__all__ = [
    "FREE",
    "KINDS",
    "LEAVE",
    "RANKS",
    "STAY",
    "Disks",
    "NewReplicas",
    "ReplicaCluster",
    "ReplicaTask",
    "SplitPrices",
    "even_shares",
    "is_among",
    "rack_limits",
]

Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]

#: Loads of brokers besides leaders, in order of importance: capacity first, a hard limit.
KINDS = ("capacity", "replicas", "bytes", "load")
#: Balance in order of importance: of each kind first the brokers, then the racks; disks follow,
#: since what a broker's disks hold can be evened without another broker.
RANKS = (
    "capacity", "replicas", "rack replicas", "leaders", "rack leaders", "bytes", "rack bytes",
    "load", "rack load", "disk replicas", "disk bytes", "disk load",
)  # fmt: skip
#: What a reassignment may do with a replica: move it, keep it, or remove it.
FREE, STAY, LEAVE = 0, 1, 2


def is_among(values: Int64Array, candidates: Int64Array) -> NDArray[np.bool_]:
    """Return for each value whether it is in ``candidates`` (bool[n]).

    It sorts the candidates and searches them, which is faster than `numpy.isin`.

    >>> is_among(np.array([3, 1, 2]), np.array([2, 3, 3])).tolist()
    [True, False, True]
    """
    if not len(candidates):
        return np.zeros(len(values), bool)
    ordered = np.sort(candidates)
    at = np.searchsorted(ordered, values)
    out: NDArray[np.bool_] = ordered[np.minimum(at, len(ordered) - 1)] == values
    return out


@dataclass(frozen=True, eq=False)
class ReplicaCluster:
    """Replicas of a Kafka cluster with their sizes, loads, brokers and log directories.

    It is the input of a reassignment. P, R, B are the numbers of partitions, replicas and brokers.

    Attributes:
        topics: topic names.
        topic: int32[P], topic of each partition, as an index of ``topics``.
        number: int32[P], Kafka's partition number of each partition.
        start: int64[P + 1], where each partition's replicas begin in ``replica`` (CSR).
        replica: int32[R], the replicas as indices of ``brokers``, the preferred leader first.
        leader: int32[P], current leader as an index of ``brokers``, -1 for none.
        size: int64[P], bytes of one replica; None if unknown.
        load: int64[P], bytes written per second; None if unknown.
        brokers: all brokers that hold replicas or may hold them.
        capacity: int64[B], bytes of disk capacity, -1 if unknown.
        directories: the log directories of each broker (path, capacity or -1), if known.
        directory: int32[R], index of the replica's disk in the broker's ``directories``, -1 if
            unknown.
        missing: bool[B], brokers that hold replicas but are not in the metadata.
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
        """Set the attribute ``missing`` to its default: every broker is in the cluster's metadata.

        A missing broker holds replicas but is not in the metadata. ``missing`` marks such brokers.
        """
        if not len(self.missing):
            object.__setattr__(self, "missing", np.zeros(len(self.brokers), bool))

    @cached_property
    def replicas_leader_first(self) -> Int32Array:
        """Brokers of each partition's replicas, with the current leader first (int32[R] broker
        indices).

        It is the array ``replica``, in which the leader changes places with the first replica.
        Partitions without a leader are unchanged.
        """
        out: Int32Array = self.replica.copy()
        first = np.minimum(self.start[:-1], max(len(out) - 1, 0))
        owner = np.repeat(np.arange(self.partitions), self.replication_factors)
        at = np.flatnonzero(self.replica == self.leader[owner])
        mine = owner[at]
        out[at] = self.replica[first[mine]]
        out[first[mine]] = self.replica[at]
        return out

    @property
    def partitions(self) -> int:
        """Number of partitions in the cluster, in all topics together.

        Arrays of this class with one entry per partition have this length.
        """
        return len(self.topic)

    @cached_property
    def replication_factors(self) -> Int64Array:
        """Replication factor of each partition (int64[P]).

        It is the partition's current number of replicas, for example ``[3, 3, 2]``.
        """
        return np.diff(self.start)

    @cached_property
    def racks(self) -> tuple[str | None, ...]:
        """Distinct racks of all Kafka brokers, sorted by name.

        None, for brokers without a rack, comes first.
        """
        found = {b.rack for b in self.brokers}
        return tuple(sorted(found, key=lambda rack: (rack is not None, rack or "")))

    @cached_property
    def rack_of_broker(self) -> Int32Array:
        """Rack of each Kafka broker, as an index of ``racks`` (int32[B]).

        Brokers without a rack share one. If no broker has a rack, each broker counts as a rack of
        its own.
        """
        # Brokers without a rack share one, as in the controller's placement.
        if all(b.rack is None for b in self.brokers):
            return np.arange(len(self.brokers), dtype=np.int32)
        at = {rack: i for i, rack in enumerate(self.racks)}
        return np.array([at[b.rack] for b in self.brokers], np.int32)

    @cached_property
    def broker_positions(self) -> dict[int, int]:
        """Position of each broker in ``brokers``, by broker id, such as ``{101: 0, 102: 1}``.

        Arrays refer to a broker by this position.
        """
        return {b.id: i for i, b in enumerate(self.brokers)}

    def partition_name(self, partition: int) -> str:
        """Return a partition's name as Kafka writes it, for example ``orders-3``.

        ``partition`` is its index in the arrays of this class.
        """
        return f"{self.topics[self.topic[partition]]}-{self.number[partition]}"

    def broker_ids(self, positions: Int32Array) -> list[int]:
        """Return the broker ids at the given positions in ``brokers``.

        It converts a partition's replicas, which arrays store as positions, to the ids that Kafka
        uses.
        """
        return [self.brokers[b].id for b in positions.tolist()]


@dataclass(frozen=True, eq=False)
class Disks:
    """Disks (log directories) of Kafka brokers, and the disk of each current replica.

    A reassignment also balances the disks of each broker: each should hold its fair share of the
    broker's load. B, D, R are the numbers of brokers, disks and replicas. Disks are numbered broker
    after broker.

    Attributes:
        start: int64[B + 1], where each broker's disks begin (CSR); a broker with a replica on an
            unknown disk has none.
        part: float64[D], fair share of its broker's load; a broker's shares sum to 1.
        tolerance: float64[4], allowed relative deviation for each of `KINDS`.
        room: int64[D], capacity in bytes, -1 if unknown: a hard limit.
        old: int32[R], the disk of each current replica, -1 if its broker has none.
        free: bool[R], whether the replica may move between disks of its broker.
    """

    start: Int64Array
    part: NDArray[np.float64]
    tolerance: NDArray[np.float64]
    room: Int64Array
    old: Int32Array
    free: NDArray[np.bool_]

    @cached_property
    def broker_of_disk(self) -> Int32Array:
        """Broker to which each disk belongs, as a position in the list of brokers (int32[D]).

        For example, ``[0, 0, 1]`` if the first broker has two disks and the second one.
        """
        brokers = np.arange(len(self.start) - 1, dtype=np.int32)
        return np.repeat(brokers, np.diff(self.start))

    def balance_limits(self, resource: int, amount: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the smallest and the largest load with which each disk counts as balanced.

        The limits are the disk's fair share of its broker's load, minus and plus the tolerance.
        Both are int64[D] for D disks, in the unit of ``amount``, for example bytes.

        Args:
            resource: index of the resource in `KINDS`: capacity, replicas, bytes or load.
            amount: int64[B], amount of the resource on each broker.

        >>> disks = Disks(np.array([0, 2]), np.array([.5, .5]), np.array([0, .1, .1, .1]),
        ...               np.array([-1, -1]), np.zeros(0, np.int32), np.zeros(0, bool))
        >>> [side.tolist() for side in disks.balance_limits(2, np.array([100]))]
        [[45, 45], [55, 55]]
        """
        part = self.part * amount[self.broker_of_disk]
        low = np.floor(part * (1 - min(float(self.tolerance[resource]), 1.0)) + 1e-6).astype(
            np.int64
        )
        return low, np.ceil(part * (1 + self.tolerance[resource]) - 1e-6).astype(np.int64)


@dataclass(frozen=True, eq=False)
class ReplicaTask:
    """Input of a replica reassignment: current replicas, rules for new ones, and balance limits.

    A rule says, for example, which brokers may receive replicas. A load is balanced if it is within
    its limits; docs/replicas_method.md defines them.

    Attributes:
        cluster: the current cluster.
        factor: int64[P], new replication factor of each partition.
        fate: int8[R], what may happen to each current replica: FREE (it may move), STAY (it is
            pinned or its topic is excluded), LEAVE (it must move).
        receives: bool[B], brokers to which replicas may move; others may keep theirs.
        closed: bool[P], partitions that only move as far as the rack rule or LEAVE requires.
        cost: int64[P], bytes of a move between brokers or disks; 1 if sizes are unknown.
        weight: int64[4, P], load of a replica in each of `KINDS`; 0 if it does not count.
        low, high: int64[4, B + Z], limits of the loads of balanced brokers, then of the Z racks
            (the sum of their brokers); Z is 0 with one rack or unknown racks.
        lead_low, lead_high: int64[B + Z], limits of the number of leaders of brokers, then of
            racks.
        lead_free: bool[P], whether leadership may change although the leader stays.
        counted: bool[P], partitions that count for balance (topics that are not excluded).
        rack_low, rack_high: int64[F + 1, racks], limits of replicas of a partition on each rack, by
            replication factor (the rack rule).
        alive: bool[B], brokers that may hold replicas in the end.
        disks: log directories, None if no broker reports several.
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
    def first_replica(self) -> Int64Array:
        """Position of each partition's first new replica in `NewReplicas.replica` (int64[P + 1]).

        The new replicas of partition ``p`` are ``replica[first[p]:first[p + 1]]``; the number of
        replicas may differ from the present one.
        """
        out = np.zeros(len(self.factor) + 1, np.int64)
        np.cumsum(self.factor, out=out[1:])
        return out

    @property
    def balanced_rack_count(self) -> int:
        """Number of racks that have balance limits of their own.

        It is 0 if only brokers are balanced, for example because racks are unknown.
        """
        return int(self.low.shape[1]) - len(self.alive)

    @cached_property
    def current_partition(self) -> Int64Array:
        """Partition to which each current replica belongs (int64[R]).

        For example, ``[0, 0, 1, 1]`` for two partitions with two replicas each.
        """
        return np.repeat(
            np.arange(len(self.factor), dtype=np.int64), self.cluster.replication_factors
        )

    @cached_property
    def partition_of_replica(self) -> Int64Array:
        """Partition to which each new replica belongs (int64[sum of the new replication factors]).

        For example, ``[0, 0, 0, 1]`` if the first partition gets three replicas and the second one.
        """
        return np.repeat(np.arange(len(self.factor), dtype=np.int64), self.factor)


class SplitPrices(NamedTuple):
    """Dual prices that prove a lower bound of the bytes that any valid reassignment moves.

    They split each cost between partitions and brokers, so that each side is minimised alone
    (Lagrangian decomposition, `partage.judge.replica_bounds`). This is used if a partition is as
    large as the load that a broker may have. In case q, the broker holds the large partition q and
    none of those before it; in the last case it holds none. B, R, P, Q and Z are the numbers of
    brokers, current replicas, partitions, large partitions and balanced racks.

    Attributes:
        large: int64[Q], the large partitions.
        stay: float64[R], what the partition pays for each current replica that stays.
        arrive: float64[P, racks], what it pays for a new replica on each rack.
        cases: float64[4, B, Q + 1], dual prices of each broker's balance limits in each case.
        racks: float64[4, Z], dual prices of the racks' balance limits.
    """

    large: Int64Array
    stay: NDArray[np.float64]
    arrive: NDArray[np.float64]
    cases: NDArray[np.float64]
    racks: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NewReplicas:
    """Result of a replica reassignment: the new replicas, and a proof of how good they are.

    The proof consists of dual prices, which give lower bounds of the costs of any valid
    reassignment.

    Attributes:
        replica: int32[sum of factors], the new replicas as indices of brokers, partition after
            partition (see ``task.start``), leaders first.
        prices: dual prices that prove a bound of each cost, by the cost's name: float64[4, B + Z]
            for B brokers and Z racks (see `partage.judge`).
        lead_prices: dual prices for the balance of leaders, by "leaders" and "rack leaders":
            float64[B + Z].
        disk: int32, disk of each replica (see `Disks`), -1 if its broker has none; None if the task
            has no disks.
        disk_prices: dual prices of a unit above and below a disk's limits, by the name of the cost
            (float64[2, 4, D], nonnegative).
        solver: the algorithm that found the plan.
        solver_bound: the solver's own lower bound of the bytes, None if it gives none.
        split_prices: prices that prove another bound of the bytes moved between brokers, None if
            there are none.
    """

    replica: Int32Array
    prices: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    lead_prices: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    disk: Int32Array | None = None
    disk_prices: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    solver: str = "local search"
    solver_bound: float | None = None
    split_prices: SplitPrices | None = None


#: Limit of the fixed-point iteration; it converges in a few rounds.
_ROUNDS = 200


def rack_limits(
    factor: int, sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the fewest and the most replicas of one partition that each rack should have.

    Replicas are spread over the racks as evenly as the number of brokers in each rack allows. These
    limits are the rack rule of a reassignment.

    Args:
        factor: the partition's replication factor, at most the number of brokers.
        sizes: int64[racks], number of brokers in each rack.

    >>> low, high = rack_limits(4, np.array([3, 3, 1]))
    >>> low.tolist(), high.tolist()
    ([1, 1, 1], [2, 2, 1])
    """
    level = 0
    while np.minimum(sizes, level).sum() < factor:
        level += 1
    return np.minimum(sizes, max(level - 1, 0)), np.minimum(sizes, level)


def even_shares(
    factors: NDArray[np.int64], weights: NDArray[np.float64], sizes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the load per broker in each rack if racks share all replicas evenly (float64[racks]).

    It is the fair share from which balance limits are derived. Replicas are first spread evenly
    over racks (`rack_limits`), so brokers of a small rack may get more load than others.

    Args:
        factors: int64[n], distinct replication factors.
        weights: float64[n], total load of the partitions with each factor: their number, bytes, or
            bytes per second.
        sizes: int64[racks], number of brokers in each rack.

    >>> even_shares(np.array([2]), np.array([100.0]), np.array([1, 3, 3])).round(2).tolist()
    [28.57, 28.57, 28.57]
    >>> even_shares(np.array([3]), np.array([100.0]), np.array([1, 3, 3])).round(2).tolist()
    [100.0, 33.33, 33.33]
    """
    held = np.zeros((len(factors), len(sizes)))
    limits = [rack_limits(int(f), sizes) for f in factors]
    # Each factor in turn takes the most even shares beside the others, until nothing changes.
    for _ in range(_ROUNDS if len(factors) > 1 else 1):
        before = held.copy()
        for i, (factor, weight) in enumerate(zip(factors, weights, strict=True)):
            others = held.sum(axis=0) - held[i]
            low, high = limits[i]
            held[i] = _divide_evenly(
                others, low * weight, high * weight, sizes, float(factor * weight)
            )
        if np.allclose(before, held, rtol=1e-12, atol=1e-9):
            break
    shares: NDArray[np.float64] = held.sum(axis=0) / np.maximum(sizes, 1)
    return shares


def _divide_evenly(
    others: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    sizes: NDArray[np.int64],
    total: float,
) -> NDArray[np.float64]:
    """Divide a load among racks so that the racks' loads per broker are as equal as possible.

    The result is the amount that each rack gets (float64[racks]), found by bisection.

    Args:
        others: float64[racks], load that each rack already has.
        low: float64[racks], least load that each rack gets.
        high: float64[racks], most load that each rack gets.
        sizes: int64[racks], number of brokers in each rack.
        total: the load to divide.
    """
    # The method is bisection.
    bottom, top = 0.0, float((others + high).max(initial=0.0)) + total + 1.0
    for _ in range(100):
        middle = (bottom + top) / 2
        if np.clip(middle * sizes - others, low, high).sum() < total:
            bottom = middle
        else:
            top = middle
    return np.clip(top * sizes - others, low, high)
