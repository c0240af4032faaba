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
from partage.model import Assignment, Cluster
from partage.model.index import Index, Int32Array
from partage.simulation.commit_statistics import CommitStatistics, FloatArray, values_by_partition
from partage.simulation.members import EMPTY, owner_view
from partage.simulation.metrics import NOTHING, Bounds
from partage.simulation.policies import EAGER, recorded_protocol
from partage.simulation.recorded_rebalances import RecordedRebalance, session_timeout_ms

__all__ = [
    "RebalanceCosts",
    "RecordedStops",
    "costs_of",
    "detection_delay",
    "most_reread",
    "pause_bounds",
    "recorded_stops",
    "reread",
    "stop_length",
    "stopped_partitions",
    "stopped_seconds",
    "usual_length",
]

#: Heartbeats in a session timeout: Kafka's documentation asks for at least three.
_HEARTBEATS = 3


# -- partition-seconds without a consumer ------------------------------------------------------


def pause_bounds(pause: Pause, undetected: Bounds) -> Bounds | None:
    """Return bounds on how long one partition had no consumer in a rebalance (ms).

    Commits show only when consumption stopped and resumed at the latest and earliest, hence bounds.
    The lower bound is 0 for a partition without new records: its commits prove nothing.

    Args:
        pause: the time without commits around a rebalance.
        undetected: bounds on how long the death of the partition's owner was undetected (ms).

    Returns:
        None if there is no commit before the rebalance, or none after it.

    >>> pause_bounds(Pause(0, 1, "t", 0, 1_000, 6_000, 0, 1_000), NOTHING)
    Bounds(low=3000, high=5000)
    """
    if pause.pause_ms is None:
        return None
    is_idle = pause.advance == 0 and not pause.rewind
    is_proof = pause.resolution_ms is not None and not is_idle
    proven = pause.pause_ms - 2 * (pause.resolution_ms or 0) if is_proof else 0
    return Bounds(max(0, proven - undetected.high), max(0, pause.pause_ms - undetected.low))


def stop_length(bounds: Sequence[Bounds]) -> Bounds | None:
    """Combine the bounds of single partitions to bounds on a recorded rebalance's duration (ms).

    The lower bound is the shortest duration that a partition proves. The upper bound is the median
    of the partitions. The result is None without partitions.

    >>> stop_length([Bounds(3_000, 5_000), Bounds(2_000, 9_000), Bounds(2_500, 7_000)])
    Bounds(low=2000, high=7000)
    """
    if not bounds:
        return None
    high = _median([one.high for one in bounds])
    return Bounds(min(*(one.low for one in bounds), high), high)


def usual_length(lengths: Iterable[Bounds | None]) -> Bounds | None:
    """Return the medians of the lower and of the upper bounds of rebalance durations (ms).

    >>> usual_length([Bounds(1, 2), None, Bounds(3, 8), Bounds(2, 9)])
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
    before: Int32Array, after: Int32Array, exists: NDArray[np.bool_], *, eager: bool
) -> Int32Array:
    """Return the indices of the partitions that have no consumer at the end of a rebalance (int32).

    Their owners left or revoked them before. A partition that a cooperative rebalance revokes in
    its first phase and assigns in the second counts in that phase.

    In consumer groups (KIP-848) members release and take partitions one after the other: there
    their number is an upper bound.

    Args:
        before: position of each partition's last owner (int32[P]); -1 for none, -2 for a member
            that left.
        after: position of each partition's new owner (int32[P]); -1 for none (yet).
        exists: whether each partition exists (bool[P]).
        eager: whether members revoke everything first, so that all owned partitions stop. Otherwise
            only those that change owner stop.

    >>> was, now = np.array([0, 0, -2, -1], np.int32), np.array([0, 1, 1, 1], np.int32)
    >>> [stopped_partitions(was, now, was < 9, eager=eager).tolist() for eager in (True, False)]
    [[0, 1, 2], [1, 2]]
    """
    consumed = (before != -1) & exists
    stops = consumed if eager else consumed & (after >= 0) & (after != before)
    return np.flatnonzero(stops).astype(np.int32)


def stopped_seconds(partitions: int, length_ms: Bounds | None) -> Bounds | None:
    """Return bounds on partition-seconds without a consumer: number of partitions times duration.

    The result is None if partitions stop for an unknown time.

    >>> stopped_seconds(4, Bounds(500, 2_000)), stopped_seconds(0, None), stopped_seconds(1, None)
    (Bounds(low=2.0, high=8.0), Bounds(low=0, high=0), None)
    """
    if not partitions:
        return NOTHING
    return None if length_ms is None else length_ms.times(partitions / 1_000)


def detection_delay(timeout_ms: int) -> Bounds:
    """Return bounds on the time between a member's death and its eviction by the coordinator (ms).

    The coordinator evicts it one session timeout after its last heartbeat. It died between that
    heartbeat and the next one, which was due up to a third of the timeout later.

    >>> detection_delay(6_000)
    Bounds(low=4000.0, high=6000)
    """
    return Bounds(timeout_ms - timeout_ms / _HEARTBEATS, timeout_ms)


# -- records read twice ------------------------------------------------------------------------


def most_reread(commits: CommitStatistics, index: Index) -> FloatArray:
    """Estimate, for each partition, the most records that a new owner may read twice (float64[P]).

    These are the records that arrive between two commits, since the previous owner may not have
    committed them. NaN if unknown.

    >>> commits = CommitStatistics(rates={("t", 0): 2.5}, intervals={("t", 0): 3_000})
    >>> most_reread(commits, Index.of({"t": 2})).tolist()
    [8.0, nan]
    """
    rates = values_by_partition(commits.rates, index)
    intervals = values_by_partition(commits.intervals, index)
    most: FloatArray = np.ceil(rates * intervals / 1_000)
    return most


def reread(stops: Int32Array, known: FloatArray, most: FloatArray) -> Bounds | None:
    """Return bounds on how many records are read twice in a simulated rebalance.

    A new owner begins at the last committed offset, so it rereads later records of the old owner.

    Args:
        stops: indices of the partitions that stop under the simulated policy (int32).
        known: records read twice in the record, of partitions that also stopped there (float64[P]).
            A partition with NaN counts from 0 (its owner committed at revocation) to ``most``.
        most: the most records that each partition rereads (float64[P]), see `most_reread`.

    Returns:
        None if all partitions are unknown; otherwise unknown ones count as 0.

    >>> known, most = np.array([7, np.nan]), np.array([99.0, 10.0])
    >>> reread(np.array([0, 1], np.int32), known, most)
    Bounds(low=7, high=17.0)
    """
    if not len(stops):
        return Bounds(0, 0)
    recorded = known[stops]
    is_known = ~np.isnan(recorded)
    others = most[stops[~is_known]]
    if not is_known.any() and bool(np.isnan(others).all()):
        return None
    low = int(recorded[is_known].sum())
    return Bounds(low, low + float(np.nansum(others)))


# -- costs of one rebalance --------------------------------------------------------------------


@dataclass(frozen=True)
class RebalanceCosts:
    """The costs of one recorded rebalance: time without a consumer, and records read twice.

    The costs of the rebalance under simulated policies are computed from them.

    Attributes:
        cluster: the cluster metadata at that time.
        given: the recorded assignment.
        stopped: indices of the partitions that stopped in the record (int32).
        length_ms: how long they were stopped; None if no commit shows it.
        rewinds: dict from partition index to records read twice, for all partitions with commits.
        most: the most records that each partition rereads (float64[P]), see `most_reread`.
    """

    cluster: Cluster
    given: Assignment
    stopped: Int32Array
    length_ms: Bounds | None
    rewinds: Mapping[int, int]
    most: FloatArray

    @cached_property
    def known(self) -> FloatArray:
        """Number of records read twice of each stopped partition,
        NaN for all others (float64[P]).
        """
        known = np.full(len(self.most), np.nan)
        known[list(self.rewinds)] = list(self.rewinds.values())
        is_stopped = np.zeros(len(self.most), bool)
        is_stopped[self.stopped] = True
        known[~is_stopped] = np.nan
        return known

    @cached_property
    def recorded_owner(self) -> Int32Array:
        """Recorded owner of each partition, as its position in the group's members; -1 for none
        (int32[P]).
        """
        owner = np.full(self.given.index.partitions, -1, np.int32)
        owner[self.given.partition] = self.given.member_of
        return owner

    def stopped_seconds(
        self, stops: Int32Array, usual_ms: Bounds | None, *, longer_ms: Bounds | None = None
    ) -> Bounds | None:
        """Return the partition-seconds without a consumer in a rebalance under a simulated policy.

        Args:
            stops: indices of the partitions that stop in it (int32).
            usual_ms: assumed duration if the record does not show it.
            longer_ms: additional time that it waited for members that did not respond.
        """
        length_ms = self.length_ms or usual_ms
        if length_ms is not None and longer_ms is not None:
            length_ms = length_ms + longer_ms
        return stopped_seconds(len(stops), length_ms)

    def reread(self, stops: Int32Array) -> Bounds | None:
        """Return bounds on how many records are read twice in a rebalance under a simulated policy.

        ``stops`` are the indices of the partitions that stop under the policy.
        """
        return reread(stops, self.known, self.most)

    def reread_as_recorded(self) -> Bounds | None:
        """Return the number of records read twice in the recorded rebalance;
        None if no commit shows it.
        """
        total = sum(self.rewinds.values())
        return Bounds(total, total) if self.rewinds else None


def costs_of(
    rebalance: RecordedRebalance,
    clusters: ClusterHistory,
    pauses: Iterable[Pause],
    most: FloatArray,
) -> RebalanceCosts:
    """Compute a recorded rebalance's costs: time without a consumer, and records read twice.

    Args:
        rebalance: the rebalance; strategies can run on it.
        clusters: the cluster metadata over time.
        pauses: pauses of this rebalance.
        most: the most records that each partition rereads (float64[P]), see `most_reread`.
    """
    cluster = clusters.at(rebalance.generation.timestamp_ms)
    given = recorded_assignment(rebalance.generation.first, cluster)
    stopped = _stopped_in_record(rebalance, given, cluster)
    stops = RecordedStops.of(rebalance, stopped)
    located = list(_with_index(pauses, clusters, cluster))
    rewinds = {p: pause.rewind for p, pause in located if pause.rewind is not None}
    length_ms = stop_length(stops.bounds_of(located))
    return RebalanceCosts(cluster, given, stopped, length_ms, rewinds, most)


@dataclass(frozen=True, slots=True)
class RecordedStops:
    """Partitions that stopped in a recorded rebalance, as needed to estimate its duration from
    pauses.

    Attributes:
        time_ms: time of the rebalance; partitions are numbered as in the metadata of that time.
        timeouts: dict from index of each stopped partition to the session timeout after which its
            owner was evicted (ms); 0 if its owner was not evicted.
    """

    time_ms: int
    timeouts: Mapping[int, int]

    @classmethod
    def of(cls, rebalance: RecordedRebalance, stopped: Int32Array) -> RecordedStops:
        """Build the object from a recorded rebalance and the indices of its stopped partitions.

        A partition's owner counts as evicted if its session timed out.
        """
        timeouts = dict.fromkeys(stopped.tolist(), 0)
        for absence in rebalance.departures:
            if absence.expired:
                timeout_ms = session_timeout_ms(absence.member)
                for p in rebalance.owned.get(absence.member.owner, EMPTY).tolist():
                    if p in timeouts:
                        timeouts[p] = timeout_ms
        return cls(rebalance.generation.timestamp_ms, timeouts)

    def bounds(self, pauses: Iterable[Pause], clusters: ClusterHistory) -> list[Bounds]:
        """Return bounds on the rebalance's duration (ms), one for each stopped partition with a
        pause.

        A pause is a time without commits around the rebalance. Partitions without a commit on both
        sides are left out.
        """
        return self.bounds_of(_with_index(pauses, clusters, clusters.at(self.time_ms)))

    def bounds_of(self, located: Iterable[tuple[int, Pause]]) -> list[Bounds]:
        """Return bounds on the rebalance's duration like `bounds`, from (partition index, pause)
        pairs.
        """
        found = []
        for p, pause in located:
            timeout_ms = self.timeouts.get(p)
            if timeout_ms is not None:
                undetected = detection_delay(timeout_ms) if timeout_ms else NOTHING
                found.append(pause_bounds(pause, undetected))
        return [one for one in found if one is not None]


def recorded_stops(rebalance: RecordedRebalance, clusters: ClusterHistory) -> RecordedStops:
    """Return the partitions that a recorded rebalance stopped, with the timeouts of their owners.

    Where strategies cannot run, the recorded assignments before and after it decide alone.
    """
    generation = rebalance.generation
    cluster = clusters.at(generation.timestamp_ms)
    if rebalance.replayable:
        given = recorded_assignment(generation.first, cluster)
        return RecordedStops.of(rebalance, _stopped_in_record(rebalance, given, cluster))
    pairs = sorted(recorded_pauses.stopped_partitions(generation))
    topics = np.array(cluster.topic_all([topic for topic, _ in pairs]), np.int32)
    dense = cluster.index.locate_all(topics, np.array([p for _, p in pairs], np.int32))
    return RecordedStops.of(rebalance, dense[dense >= 0])


def _stopped_in_record(
    rebalance: RecordedRebalance, given: Assignment, cluster: Cluster
) -> Int32Array:
    """Return the partitions that a recorded rebalance stopped, as dense numbers (int32).

    Members revoked all of their partitions if the recorded protocol is eager.
    """
    members = rebalance.generation.first.members
    owned = partitions_by_member(given)
    size = cluster.index.partitions
    before = owner_view(
        size,
        [rebalance.last_owned.get(m.owner, EMPTY) for m in members],
        rebalance.owned_by_departed(),
    )
    after = owner_view(size, [owned.get(m.id, EMPTY) for m in members])
    eager = recorded_protocol(rebalance.generation) == EAGER
    return stopped_partitions(before, after, cluster.partition_exists, eager=eager)


def _with_index(
    pauses: Iterable[Pause], clusters: ClusterHistory, cluster: Cluster
) -> Iterator[tuple[int, Pause]]:
    """Yield (partition index, pause) for each consumption pause.

    A pause between the deletion of a topic and the creation of one with the same name is left out.
    The new topic begins at offset 0, so its offsets cannot be compared with the old ones.
    """
    kept: list[Pause] = []
    topics: list[int] = []
    for pause in pauses:
        topic = cluster.topic(pause.topic)
        times = [t for t in (pause.last_ms, pause.first_ms) if t is not None]
        if topic < 0 or any(clusters.at(t).topic(pause.topic) not in (topic, -1) for t in times):
            continue
        kept.append(pause)
        topics.append(topic)
    numbers = np.array([pause.partition for pause in kept], np.int32)
    dense = cluster.index.locate_all(np.array(topics, np.int32), numbers)
    yield from ((p, pause) for p, pause in zip(dense.tolist(), kept, strict=True) if p >= 0)
