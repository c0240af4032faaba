"""Costs of a rebalance, as bounds: partition-seconds without a consumer, and records read twice.

No log measures when a member stops consuming. Offset commits show when a partition's position
was last written before a rebalance and first written after it. The member may have consumed for
up to one usual commit interval after the last commit, and may have resumed up to one interval
before the first. A pause of 5 s with commits every second is therefore a stop of 3 to 5 s.

A new owner resumes at the last commit. It reads again what its predecessor processed after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.history import pauses as recorded_pauses
from partage.history.clusters import ClusterHistory
from partage.history.pauses import Pause
from partage.history.problems import partitions_by_member, recorded_assignment
from partage.history.records import ClassicState
from partage.model import Assignment, Cluster
from partage.model.index import Index, Int32Array
from partage.simulation.commit_statistics import CommitStatistics, FloatArray, values_by_partition
from partage.simulation.members import EMPTY, owners_by_partition
from partage.simulation.metrics import NOTHING, Bounds
from partage.simulation.policies import EAGER, recorded_protocol
from partage.simulation.recorded_rebalances import (
    RecordedCosts,
    RecordedRebalance,
    session_timeout_ms,
)

__all__ = [
    "RebalanceCosts",
    "RecordedStops",
    "RereadBounds",
    "compute_rebalance_costs",
    "detection_delay",
    "estimate_max_reread",
    "find_recorded_stops",
    "partition_seconds_stopped",
    "rebalance_duration",
    "recorded_costs",
    "stop_time_bounds",
    "stopped_partitions",
    "usual_duration",
]

#: Heartbeats in a session timeout: Kafka's documentation asks for at least three.
_HEARTBEATS = 3


# -- partition-seconds without a consumer ------------------------------------------------------


def stop_time_bounds(pause: Pause, undetected: Bounds) -> Bounds | None:
    """Return bounds on how long (ms) one partition had no consumer during a rebalance.

    Consumption stopped at some time after the last offset commit before the rebalance. It resumed
    at some time before the first commit after it. The lower bound is 0 for a partition without new
    records.

    Args:
        pause: the time without commits around the rebalance.
        undetected: bounds on the time until the coordinator noticed that the owner was dead (ms),
            which is not part of the rebalance.

    Returns:
        None if there is no commit before the rebalance, or none after it.

    >>> stop_time_bounds(Pause(0, 1, "t", 0, 1_000, 6_000, 0, 1_000), NOTHING)
    Bounds(low=3000, high=5000)
    """
    if pause.pause_ms is None:
        return None
    is_idle = pause.advance == 0 and not pause.rewind
    is_proof = pause.resolution_ms is not None and not is_idle
    proven = pause.pause_ms - 2 * (pause.resolution_ms or 0) if is_proof else 0
    return Bounds(max(0, proven - undetected.high), max(0, pause.pause_ms - undetected.low))


def rebalance_duration(bounds: Sequence[Bounds]) -> Bounds | None:
    """Combine bounds from single partitions into bounds on a rebalance's duration (ms).

    ``bounds`` says, for each partition, how long it had no consumer. The combined lower bound is
    the smallest of the lower bounds; the combined upper bound is the median of the upper bounds.
    The result is None without partitions.

    >>> rebalance_duration([Bounds(3_000, 5_000), Bounds(2_000, 9_000), Bounds(2_500, 7_000)])
    Bounds(low=2000, high=7000)
    """
    if not bounds:
        return None
    high = _median([one.high for one in bounds])
    return Bounds(min(*(one.low for one in bounds), high), high)


def usual_duration(lengths: Iterable[Bounds | None]) -> Bounds | None:
    """Return the usual duration of a group's rebalances (ms), as a lower and an upper bound.

    They are the medians of the lower and of the upper bounds of all rebalances. ``lengths`` has the
    bounds of each rebalance, or None where they are unknown. The result is None if all are unknown.

    >>> usual_duration([Bounds(1, 2), None, Bounds(3, 8), Bounds(2, 9)])
    Bounds(low=2, high=8)
    """
    known = [length for length in lengths if length is not None]
    if not known:
        return None
    return Bounds(_median([one.low for one in known]), _median([one.high for one in known]))


def _median(values: Sequence[float]) -> float:
    # The lower median is always one of the given values.
    return sorted(values)[(len(values) - 1) // 2]


def stopped_partitions(
    owner_before: Int32Array, owner_after: Int32Array, exists: NDArray[np.bool_], *, eager: bool
) -> Int32Array:
    """Return the indices of the partitions that have no consumer during a rebalance (int32).

    A partition stops if its owner has left or has revoked it. In consumer groups (KIP-848) the
    result is an upper bound, because members revoke and take partitions one after the other.

    Args:
        owner_before: position of each partition's last owner (int32[P]); -1 for none, -2 for a
            member that left.
        owner_after: position of each partition's new owner (int32[P]); -1 for none (yet).
        exists: whether each partition exists (bool[P]).
        eager: whether members revoke everything first, so that all owned partitions stop. Otherwise
            only those that change owner stop.

    >>> was, now = np.array([0, 0, -2, -1], np.int32), np.array([0, 1, 1, 1], np.int32)
    >>> [stopped_partitions(was, now, was < 9, eager=eager).tolist() for eager in (True, False)]
    [[0, 1, 2], [1, 2]]
    """
    # A partition that a cooperative rebalance revokes in its first phase and assigns in the second
    # counts in the second phase.
    consumed = (owner_before != -1) & exists
    stops = consumed if eager else consumed & (owner_after >= 0) & (owner_after != owner_before)
    indices: Int32Array = stops.nonzero()[0].astype(np.int32)
    return indices


def partition_seconds_stopped(partitions: int, length_ms: Bounds | None) -> Bounds | None:
    """Return bounds on how long partitions have no consumer in a rebalance, in partition-seconds.

    They are the number of partitions times ``length_ms``, the bounds on the duration of the
    rebalance (ms). For example, 4 partitions for 0.5 to 2 seconds make 2 to 8 partition-seconds.
    The result is None if the duration is unknown.

    >>> bounds = ((4, Bounds(500, 2_000)), (0, None), (1, None))
    >>> tuple(partition_seconds_stopped(*one) for one in bounds)
    (Bounds(low=2.0, high=8.0), Bounds(low=0, high=0), None)
    """
    if not partitions:
        return NOTHING
    return None if length_ms is None else length_ms.multiply_by(partitions / 1_000)


def detection_delay(timeout_ms: int) -> Bounds:
    """Return bounds on the time (ms) from a member's death until the coordinator evicts it.

    The coordinator evicts a member one session timeout (``timeout_ms``) after its last heartbeat.
    The member died between that heartbeat and the next one, which was due up to a third of the
    timeout later.

    >>> detection_delay(6_000)
    Bounds(low=4000.0, high=6000)
    """
    return Bounds(timeout_ms - timeout_ms / _HEARTBEATS, timeout_ms)


# -- records read twice ------------------------------------------------------------------------


def estimate_max_reread(commits: CommitStatistics, index: Index) -> FloatArray:
    """Estimate how many records of each partition a new owner may process twice (float64[P]).

    It is the number of records that arrive between two offset commits, because the previous owner
    may have processed them without committing. It is NaN where the rate or the commit interval is
    unknown. ``index`` numbers the partitions.

    >>> commits = CommitStatistics(rates={("t", 0): 2.5}, intervals={("t", 0): 3_000})
    >>> estimate_max_reread(commits, Index.of({"t": 2})).tolist()
    [8.0, nan]
    """
    rates = values_by_partition(commits.rates, index)
    intervals = values_by_partition(commits.intervals, index)
    most: FloatArray = np.ceil(rates * intervals / 1_000)
    return most


@dataclass(frozen=True, slots=True, eq=False)
class RereadBounds:
    """Bounds on how many records of each partition are read twice when the partition changes owner.

    A new owner begins at the last committed offset. It reads again what the old owner processed
    after that commit.

    Attributes:
        low: lower bounds (float64[P]): the recorded number if the partition stopped in the recorded
            rebalance, else 0 (the old owner committed when it revoked the partition).
        high: upper bounds (float64[P]); 0 if unknown.
        is_known: whether the upper bound of each partition is known (bool[P]).
    """

    low: FloatArray
    high: FloatArray
    is_known: NDArray[np.bool_]

    @classmethod
    def from_recorded_rereads(
        cls, recorded_reread: FloatArray, max_reread: FloatArray
    ) -> RereadBounds:
        """Build the bounds on records read twice, for all partitions, from one recorded rebalance.

        A partition that stopped in the recorded rebalance has the recorded number as both bounds.
        The bounds of other partitions are 0 and the estimated maximum.

        Args:
            recorded_reread: number of records read twice in the recorded rebalance (float64[P]);
                NaN for partitions that did not stop in it.
            max_reread: the maximum number of records that the new owner of each partition rereads
                (float64[P]), see `estimate_max_reread`.
        """
        is_recorded = ~np.isnan(recorded_reread)
        low, high = np.where(is_recorded, recorded_reread, 0.0), recorded_reread.copy()
        high[~is_recorded] = max_reread[~is_recorded]
        is_known = ~np.isnan(high)
        high[~is_known] = 0.0
        return cls(low, high, is_known)

    def total_reread(self, stops: Int32Array) -> Bounds | None:
        """Return bounds on how many records are read twice in a simulated rebalance.

        They are sums over the partitions that change owner in it.

        Args:
            stops: indices of the partitions that stop under the simulated policy (int32).

        Returns:
            None if all partitions are unknown; otherwise unknown ones count as 0.

        >>> known, most = np.array([7, np.nan]), np.array([99.0, 10.0])
        >>> RereadBounds.from_recorded_rereads(known, most).total_reread(np.array([0, 1], np.int32))
        Bounds(low=7, high=17.0)
        """
        if not len(stops):
            return Bounds(0, 0)
        if not np.count_nonzero(self.is_known[stops]):
            return None
        return Bounds(int(self.low[stops].sum()), float(self.high[stops].sum()))


# -- costs of one rebalance --------------------------------------------------------------------


@dataclass(frozen=True)
class RebalanceCosts:
    """The costs of one recorded rebalance: time without a consumer, and records read twice.

    Its methods estimate what the same rebalance would cost under another protocol or assignment
    strategy.

    Attributes:
        cluster: the cluster metadata at that time.
        state: the recorded members with their assignment.
        stopped: indices of the partitions that had no consumer in the recorded rebalance (int32).
        length_ms: bounds on how long they had none; None if no commits show it.
        rewinds: dict from partition index to records read twice, for all partitions with commits.
        most: the maximum number of records that the new owner of each partition rereads
            (float64[P]), see `estimate_max_reread`.
        protocol: the recorded protocol: eager, cooperative or consumer.
    """

    cluster: Cluster
    state: ClassicState
    stopped: Int32Array
    length_ms: Bounds | None
    rewinds: Mapping[int, int]
    most: FloatArray
    protocol: str

    @property
    def recorded_reread(self) -> FloatArray:
        """Number of records of each partition that were read twice after the recorded rebalance
        (float64[P]).

        A new owner begins at the last committed offset. The number is NaN for partitions that did
        not stop.
        """
        known = np.full(len(self.most), np.nan)
        known[list(self.rewinds)] = list(self.rewinds.values())
        is_stopped = np.zeros(len(self.most), bool)
        is_stopped[self.stopped] = True
        known[~is_stopped] = np.nan
        return known

    @cached_property
    def recorded_assignment(self) -> Assignment:
        """The recorded assignment of partitions to members after the rebalance, as arrays.

        It uses the partition indices of the cluster metadata of that time.
        """
        return recorded_assignment(self.state, self.cluster)

    @cached_property
    def recorded_owner(self) -> Int32Array:
        """Owner of each partition after the recorded rebalance (int32[P]).

        An owner is given as the position of a member in the recorded assignment. It is -1 for a
        partition without an owner.
        """
        owner = np.full(self.recorded_assignment.index.partitions, -1, np.int32)
        owner[self.recorded_assignment.partition] = self.recorded_assignment.member_of
        return owner

    def stopped_seconds(
        self, stops: Int32Array, usual_ms: Bounds | None, *, longer_ms: Bounds | None = None
    ) -> Bounds | None:
        """Return bounds on how long partitions have no consumer in a simulated rebalance.

        The unit is partition-seconds (seconds summed over partitions). The simulated rebalance is
        assumed to take as long as the recorded one, but other partitions may stop.

        Args:
            stops: indices of the partitions that stop in the simulated rebalance (int32).
            usual_ms: assumed duration if that of the recorded rebalance is unknown.
            longer_ms: additional time that the rebalance waited for members that did not respond.
        """
        length_ms = self.length_ms or usual_ms
        if length_ms is not None and longer_ms is not None:
            length_ms = length_ms + longer_ms
        return partition_seconds_stopped(len(stops), length_ms)

    def reread_bounds(self, stops: Int32Array) -> Bounds | None:
        """Return bounds on the number of records that are read twice in a simulated rebalance.

        ``stops`` are the indices of the partitions that change owner in it.
        """
        key = stops.tobytes()
        if key not in self._totals:
            self._totals[key] = self._reread_bounds.total_reread(stops)
        return self._totals[key]

    @cached_property
    def _totals(self) -> dict[bytes, Bounds | None]:
        # Most policies stop the same partitions: all, or those of members that left.
        return {}

    @cached_property
    def _reread_bounds(self) -> RereadBounds:
        return RereadBounds.from_recorded_rereads(self.recorded_reread, self.most)

    def reread_as_recorded(self) -> Bounds | None:
        """Return how many records consumers read twice in the recorded rebalance, as bounds.

        Both bounds are equal, because offset commits show the exact number. The result is None
        without such commits.
        """
        total = sum(self.rewinds.values())
        return Bounds(total, total) if self.rewinds else None


def compute_rebalance_costs(
    rebalance: RecordedRebalance,
    clusters: ClusterHistory,
    pauses: Iterable[Pause],
    max_reread: FloatArray,
) -> RebalanceCosts:
    """Compute the costs of a recorded rebalance: time without a consumer, and records read twice.

    The costs of simulated rebalances are derived from the result.

    Args:
        rebalance: a rebalance that is valid input for assignment strategies.
        clusters: the cluster metadata over time.
        pauses: times without commits around this rebalance; not used if costs are stored with it.
        max_reread: the maximum number of records that the new owner of each partition rereads
            (float64[P]), see `estimate_max_reread`.
    """
    generation = rebalance.generation
    known = rebalance.costs or recorded_costs(rebalance, clusters, pauses)
    return RebalanceCosts(
        clusters.cluster_at(generation.timestamp_ms), generation.first, known.stopped,
        known.length_ms, known.rewinds, max_reread, recorded_protocol(generation),
    )  # fmt: skip


def recorded_costs(
    rebalance: RecordedRebalance, clusters: ClusterHistory, pauses: Iterable[Pause]
) -> RecordedCosts:
    """Compute the costs of a recorded rebalance from the pauses in offset commits around it.

    The result has the partitions that stopped, bounds on how long they had no consumer, and how
    many records of each were read twice.

    Args:
        rebalance: a rebalance that is valid input for assignment strategies.
        clusters: the cluster metadata over time.
        pauses: times without commits around this rebalance.
    """
    cluster = clusters.cluster_at(rebalance.generation.timestamp_ms)
    given = recorded_assignment(rebalance.generation.first, cluster)
    stopped = _find_recorded_stops(rebalance, given, cluster)
    stops = RecordedStops.from_partitions(rebalance, stopped)
    indexed_pauses = list(_add_partition_indices(pauses, clusters, cluster))
    rewinds = {p: pause.rewind for p, pause in indexed_pauses if pause.rewind is not None}
    length_ms = rebalance_duration(stops.stop_time_bounds_of_pauses(indexed_pauses))
    return RecordedCosts(stopped, length_ms, rewinds)


@dataclass(frozen=True, slots=True)
class RecordedStops:
    """The partitions that a recorded rebalance left without a consumer.

    For each of them, `stop_time_bounds` estimates from offset commits how long it had no consumer.

    Attributes:
        time_ms: time of the rebalance; partitions are numbered as in the metadata of that time.
        timeouts: dict from index of each such partition to the session timeout (ms) after which its
            owner was evicted; 0 if its owner was not evicted.
    """

    time_ms: int
    timeouts: Mapping[int, int]

    @classmethod
    def from_partitions(cls, rebalance: RecordedRebalance, stopped: Int32Array) -> RecordedStops:
        """Build a `RecordedStops` for the partitions whose consumption stopped in a recorded
        rebalance.

        If a partition's owner was evicted by its session timeout, the length of this timeout is
        stored too.

        Args:
            rebalance: the recorded rebalance.
            stopped: int32[n], indices of the stopped partitions.
        """
        timeouts = dict.fromkeys(stopped.tolist(), 0)
        for absence in rebalance.departures:
            if absence.expired:
                timeout_ms = session_timeout_ms(absence.member)
                for p in rebalance.owned.get(absence.member.owner_identity, EMPTY).tolist():
                    if p in timeouts:
                        timeouts[p] = timeout_ms
        return cls(rebalance.generation.timestamp_ms, timeouts)

    def stop_time_bounds(self, pauses: Iterable[Pause], clusters: ClusterHistory) -> list[Bounds]:
        """Return bounds on the time (ms) in which each stopped partition had no consumer.

        The result has one entry per partition with offset commits before and after the rebalance.
        Other partitions are left out.

        Args:
            pauses: times without commits around the rebalance.
            clusters: the cluster metadata over time.
        """
        return self.stop_time_bounds_of_pauses(
            _add_partition_indices(pauses, clusters, clusters.cluster_at(self.time_ms))
        )

    def stop_time_bounds_of_pauses(
        self, indexed_pauses: Iterable[tuple[int, Pause]]
    ) -> list[Bounds]:
        """Return bounds on how long (ms) each stopped partition had no consumer.

        ``indexed_pauses`` has (partition index, pause) pairs. A pause is a time in which the
        partition had no offset commits. Pauses of partitions that did not stop are ignored.
        """
        found = []
        for p, pause in indexed_pauses:
            timeout_ms = self.timeouts.get(p)
            if timeout_ms is not None:
                undetected = detection_delay(timeout_ms) if timeout_ms else NOTHING
                found.append(stop_time_bounds(pause, undetected))
        return [one for one in found if one is not None]


def find_recorded_stops(rebalance: RecordedRebalance, clusters: ClusterHistory) -> RecordedStops:
    """Return the partitions that had no consumer during a recorded rebalance.

    If a partition's owner was evicted, the result also has the owner's session timeout, because the
    partition had no consumer during it either.

    Args:
        rebalance: the recorded rebalance.
        clusters: topics and partitions of the cluster over time.
    """
    generation = rebalance.generation
    cluster = clusters.cluster_at(generation.timestamp_ms)
    if rebalance.replayable:
        given = recorded_assignment(generation.first, cluster)
        return RecordedStops.from_partitions(
            rebalance, _find_recorded_stops(rebalance, given, cluster)
        )
    pairs = sorted(recorded_pauses.stopped_partitions(generation))
    topics = np.array(cluster.topic_all([topic for topic, _ in pairs]), np.int32)
    dense = cluster.index.locate_all(topics, np.array([p for _, p in pairs], np.int32))
    return RecordedStops.from_partitions(rebalance, dense[dense >= 0])


def _find_recorded_stops(
    rebalance: RecordedRebalance, assignment: Assignment, cluster: Cluster
) -> Int32Array:
    """Return the indices of the partitions whose owner left or revoked them in a recorded rebalance
    (int32).

    In an eager group, members revoke all of their partitions. ``assignment`` is the recorded
    assignment, ``cluster`` the metadata of that time.
    """
    members = rebalance.generation.first.members
    owned = partitions_by_member(assignment)
    size = cluster.index.partitions
    before = owners_by_partition(
        size,
        [rebalance.last_owned.get(m.owner_identity, EMPTY) for m in members],
        rebalance.owned_by_departed(),
    )
    after = owners_by_partition(size, [owned.get(m.id, EMPTY) for m in members])
    eager = recorded_protocol(rebalance.generation) == EAGER
    return stopped_partitions(before, after, cluster.partition_exists, eager=eager)


def _add_partition_indices(
    pauses: Iterable[Pause], clusters: ClusterHistory, cluster: Cluster
) -> Iterator[tuple[int, Pause]]:
    """Yield a pair (partition index, pause) for each pause in a group's offset commits.

    ``cluster`` numbers the partitions. A pause during which the topic was deleted and created again
    is left out, because the new topic begins at offset 0.
    """
    kept: list[Pause] = []
    topics: list[int] = []
    for pause in pauses:
        topic = cluster.topic(pause.topic)
        times = [t for t in (pause.last_ms, pause.first_ms) if t is not None]
        if topic < 0 or any(
            clusters.cluster_at(t).topic(pause.topic) not in (topic, -1) for t in times
        ):
            continue
        kept.append(pause)
        topics.append(topic)
    numbers = np.array([pause.partition for pause in kept], np.int32)
    dense = cluster.index.locate_all(np.array(topics, np.int32), numbers)
    yield from ((p, pause) for p, pause in zip(dense.tolist(), kept, strict=True) if p >= 0)
