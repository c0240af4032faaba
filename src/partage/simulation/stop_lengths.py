"""Estimated unread time of simulated rebalances, with the stop lengths of the record.

Record and simulation share what is unknown (common random numbers): a partition that stops under a
policy is unread for as long as it was in the record. If it did not stop there, the first of these
lengths is taken that is known:

1. the stops of the same member in the same rebalance;
2. those of its other members that stayed as well, or left as well;
3. those of the group;
4. a stop by the stop model without commits.

The record has no such length for a partition that one live member hands over to another under the
cooperative or the consumer protocol, if the group used another one: eager members stop for part of
a heartbeat interval, cooperative ones hand over after a whole one. Such a length follows from the
policy's protocol (`_estimate_cooperative_handover`, `_estimate_consumer_handover`). So does that of
a member's partitions under the consumer protocol if it sends LeaveGroup: the coordinator assigns
them without a rebalance of the others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

from partage.history.stop_model import (
    MemberCommits,
    StopSum,
    UnreadEstimate,
    UnreadInterval,
    after_heartbeat,
    after_record,
    heartbeat_interval,
    revocation_time,
    sum_stops,
    uniform_instant,
)
from partage.simulation.policies import COOPERATIVE
from partage.simulation.recorded_rebalances import RecordedRebalance, session_timeout_ms

__all__ = ["RecordedLengths", "Stop", "StopLengths", "StopOwner"]

_Pair = tuple[str, int]
#: In the consumer protocol a partition stops when its owner acknowledges its new target, within
#: two heartbeat intervals of the coordinator.
_LATEST_STOP_MS = 10_000
#: Recorded rebalances whose mean lengths are kept; those of `cumulative` are scheduled ahead.
_MOST_KEPT = 65_536
#: Recorded intervals are kept for an hour: rebalances are read half an hour before they are
#: simulated, and a policy may have them half an hour late.
_KEPT_MS = 3_600_000
#: Most recorded intervals that are kept (about 120 MB), unless they are of very few rebalances.
_MOST_INTERVALS, _LEAST_REBALANCES = 400_000, 4
#: Longest time until a member handles a heartbeat's answer: it must call ``poll``.
_POLL_MS = 200
#: An assignment so long after a classic generation's record is that of a static member that
#: rejoined without a rebalance.
_RESTART_MS = 300


class StopOwner(NamedTuple):
    """The last owner of partitions that have no consumer during a simulated rebalance.

    How long such a partition has no consumer is estimated from its owner, unless the record has a
    duration for the partition itself.

    Attributes:
        members: ids of the last owner, the newest first.
        session_ms: the owner's session timeout if it was evicted, else None.
        later_ms: time from the recorded to the simulated reassignment of the partition.
        left: whether the last owner left the group.
        protocol: cooperative or consumer if that is the policy's protocol, the recorded one is
            another, and a live member hands the partition over; also consumer if the last owner
            sent LeaveGroup. Else None.
    """

    members: tuple[str, ...]
    session_ms: int | None = None
    later_ms: float = 0.0
    left: bool = False
    protocol: str | None = None


class Stop(NamedTuple):
    """A partition that has no consumer during a simulated rebalance, with its last owner.

    For how long it has none is estimated from the owner (`StopLengths`).
    """

    topic: str
    partition: int
    owner: StopOwner


class _StopLength(NamedTuple):
    """Estimated time (ms) in which a partition has no consumer, with its uncertainty.

    ``p10`` and ``p90`` are the ends of an 80 % interval around the best estimate.
    """

    best: float
    p10: float
    p90: float

    def shift_by(self, later_ms: float) -> _StopLength:
        """Return this estimated time without a consumer, longer by ``later_ms``, but at least 0.

        ``later_ms`` is negative if the partition gets its new owner earlier than recorded.
        """
        best, p10, p90 = self
        return _StopLength(
            max(0.0, best + later_ms), max(0.0, p10 + later_ms), max(0.0, p90 + later_ms)
        )


@dataclass(slots=True)
class _Mean:
    """Running mean of the durations in which partitions had no consumer.

    Each duration is an estimate with an 80 % interval. The best estimates and both ends of the
    intervals are averaged separately.
    """

    best: float = 0.0
    p10: float = 0.0
    p90: float = 0.0
    count: int = 0

    def add(self, one: UnreadInterval) -> None:
        self.best += one.unread_ms
        self.p10 += one.unread_p10_ms
        self.p90 += one.unread_p90_ms
        self.count += 1

    @property
    def value(self) -> _StopLength:
        return _StopLength(self.best / self.count, self.p10 / self.count, self.p90 / self.count)


@dataclass(slots=True)
class _RebalanceMeans:
    """Mean times in which partitions had no consumer in one recorded rebalance, for each last
    owner.

    There is also a mean over all owners that left, and one over all that stayed.

    Attributes:
        by_member: dict from member id to its mean.
        by_fate: means of members that left (True) and members that stayed (False).
        session_ms: the longest session timeout that members sent by then; 0 if none did. Members of
            the consumer protocol send none.
    """

    by_member: dict[str, _Mean] = field(default_factory=lambda: defaultdict(_Mean))
    by_fate: dict[bool, _Mean] = field(default_factory=lambda: defaultdict(_Mean))
    session_ms: int = 0


@dataclass(slots=True)
class _PartitionIntervals:
    """Recorded times in which one partition had no consumer, in log order.

    Attributes:
        intervals: the times, as rows of table ``unread``.
        numbers: running number of each time among those of all partitions, ascending.
        latest_ms: when each time or one before it ended, whichever is later; ascending.
    """

    intervals: list[UnreadInterval] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    latest_ms: list[int] = field(default_factory=list)

    def append(self, interval: UnreadInterval, number: int) -> None:
        latest_ms = self.latest_ms[-1] if self.latest_ms else interval.assigned_ms
        self.intervals.append(interval)
        self.numbers.append(number)
        self.latest_ms.append(max(latest_ms, interval.assigned_ms))

    def forget_oldest(self) -> None:
        del self.intervals[0], self.numbers[0], self.latest_ms[0]


class RecordedLengths:
    """Recorded durations in which partitions had no consumer, and their means, for one group.

    The simulations of the group under all policies use them. Call `add_rebalance` for every
    rebalance in order.

    Attributes:
        usual: mean of all intervals so far, of members that left (True) and that stayed (False).
        intervals: dict from partition to its recorded intervals that are not too old.
        first_number: number of the oldest interval of ``intervals``.
    """

    def __init__(self) -> None:
        self.usual: dict[bool, _Mean] = defaultdict(_Mean)
        self.intervals: dict[_Pair, _PartitionIntervals] = defaultdict(_PartitionIntervals)
        self.first_number = 0
        self._count = 0
        #: Generation number, time and partitions of each rebalance in ``intervals``.
        self._rebalances: deque[tuple[int, int, list[_Pair]]] = deque()
        #: Means by number of the rebalance, with its recorded follow-ups.
        self._means: dict[int, _RebalanceMeans] = {}
        self._newest_means = _RebalanceMeans()
        self._newest_facts: tuple[RecordedRebalance | None, _RebalanceFacts] = (
            None, _RebalanceFacts(0, 0, ()),
        )  # fmt: skip

    def add_rebalance(self, rebalance: RecordedRebalance) -> None:
        """Add the recorded times in which partitions had no consumer because of the next rebalance.

        Simulations estimate their own times from them. Call it for every rebalance in order of
        time.
        """
        generation = rebalance.generation
        sent = max((m.session_timeout_ms for m in generation.first.members), default=0)
        session_ms = sent if sent > 0 else self._newest_means.session_ms
        if not rebalance.is_follow_up:
            self._newest_means = _RebalanceMeans()
        newest = self._newest_means
        newest.session_ms = session_ms
        self._means[generation.generation_number] = newest
        while len(self._means) > _MOST_KEPT:
            del self._means[next(iter(self._means))]
        pairs, members = [], _ids(rebalance)
        for one in generation.unread_intervals:
            if not _restarted_without_rebalance(one, rebalance, members):
                pair = one.topic, one.partition
                self.intervals[pair].append(one, self._count)
                self._count += 1
                pairs.append(pair)
                has_left = one.member not in members
                newest.by_member[one.member].add(one)
                newest.by_fate[has_left].add(one)
                self.usual[has_left].add(one)
        self._rebalances.append((generation.generation_number, generation.timestamp_ms, pairs))
        self._forget_old_intervals(generation.timestamp_ms)

    def _forget_old_intervals(self, now_ms: int) -> None:
        """Forget the oldest recorded times without a consumer, to limit memory.

        They are those that no simulated rebalance needs any more. If there are too many others,
        these are forgotten with the means of their rebalance.
        """
        while self._rebalances:
            number, time_ms, pairs = self._rebalances[0]
            is_large = (
                self._count - self.first_number > _MOST_INTERVALS
                and len(self._rebalances) > _LEAST_REBALANCES
            )
            if not is_large and time_ms >= now_ms - _KEPT_MS:
                return
            self._rebalances.popleft()
            self.first_number += len(pairs)
            for pair in pairs:
                self.intervals[pair].forget_oldest()
            if is_large:
                self._means.pop(number, None)

    def mean_lengths(self, generation: int) -> _RebalanceMeans:
        """Return for how long partitions had no consumer in one rebalance, as means by last owner.

        ``generation`` is the number of the generation that the rebalance created. The result is
        empty if the rebalance is unknown or too old.
        """
        return self._means.get(generation) or _RebalanceMeans()

    def facts_of(self, rebalance: RecordedRebalance) -> _RebalanceFacts:
        """Return the members' session timeout, their number and their restarts in a recorded
        rebalance.

        The estimates of all policies (group configurations) need them, so the newest result is
        cached.
        """
        known, facts = self._newest_facts
        if known is not rebalance:
            facts = _RebalanceFacts.of(rebalance)
            self._newest_facts = rebalance, facts
        return facts


@dataclass(frozen=True, slots=True)
class _RebalanceFacts:
    """Values of a recorded rebalance that are the same in simulations of all group configurations.

    Attributes:
        session_ms: the longest session timeout of the members.
        members: number of members.
        restarts: intervals of members that restarted without causing a rebalance.
    """

    session_ms: int
    members: int
    restarts: tuple[UnreadInterval, ...]

    @classmethod
    def of(cls, rebalance: RecordedRebalance) -> _RebalanceFacts:
        timeouts = [session_timeout_ms(one) for one in rebalance.generation.first.members]
        ids = _ids(rebalance)
        return cls(
            max(timeouts, default=0), len(timeouts),
            tuple([one for one in rebalance.generation.unread_intervals
                   if _restarted_without_rebalance(one, rebalance, ids)]),
        )  # fmt: skip


class StopLengths:
    """Estimator of the times in which partitions have no consumer in simulated rebalances.

    If the same partition had no consumer in the recorded rebalance, the estimate is that recorded
    duration. Each recorded duration is used at most once.

    Args:
        server_session_ms: the broker's session timeout of consumer groups.
        recorded: the recorded intervals; the simulations of a group share it.
    """

    def __init__(self, server_session_ms: int, recorded: RecordedLengths) -> None:
        self._server_session_ms, self._recorded = server_session_ms, recorded
        #: For each recorded interval from this number on, whether it has been used.
        self._first_number, self._is_used = 0, bytearray()

    def estimate_downtime(
        self,
        rebalance: RecordedRebalance,
        stops: Iterable[Stop],
        *,
        was_empty: bool = False,
        away_s: float = 0.0,
        restarts: bool = True,
    ) -> UnreadEstimate | None:
        """Estimate how long partitions have no consumer because of a simulated rebalance.

        The unit is partition-seconds (seconds summed over partitions). The result is None if the
        recorded rebalance has no estimate either.

        Args:
            rebalance: the recorded rebalance with its causes.
            stops: partitions that stop.
            was_empty: whether the group had no member before.
            away_s: partition-seconds of static members that were away.
            restarts: whether to add the recorded intervals of members that restarted without
                causing a rebalance.
        """
        generation = rebalance.generation
        if generation.unread is None:
            return None
        means = self._recorded.mean_lengths(generation.generation_number)
        facts = self._recorded.facts_of(rebalance)
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        # Most stops of a rebalance have few owners, so that owners are compared by identity.
        without_own: dict[int, _StopLength] = {}
        self._forget_old_intervals()
        for topic, partition, owner in stops:
            own = self._take_recorded_interval(
                (topic, partition), owner.members, generation.timestamp_ms
            )
            length = without_own.get(id(owner)) if own is None else None
            if length is None:
                length = self._estimate_length(own, owner, means, facts)
                if own is None:
                    without_own[id(owner)] = length
            _add(sums[owner.members[0]], length)
        recorded = facts.restarts if restarts else ()
        if was_empty and not rebalance.ids_before:  # a join: all members were without partitions
            is_restart = set(map(id, facts.restarts))
            recorded = tuple([one for one in generation.unread_intervals
                              if restarts or id(one) not in is_restart])  # fmt: skip
        for one in recorded:
            _add(sums[one.member], _of(one))
        best = sum([one[0] for one in sums.values()])
        below, above = (
            sqrt(sum([(one[i] - one[0]) ** 2 for one in sums.values()])) for i in (1, 2)
        )
        ends = (best, max(0.0, best - below), best + above)
        return UnreadEstimate(*[away_s + one / 1_000 for one in ends])

    def _estimate_length(
        self,
        own: UnreadInterval | None,
        owner: StopOwner,
        means: _RebalanceMeans,
        facts: _RebalanceFacts,
    ) -> _StopLength:
        """Estimate how long (ms) one partition has no consumer in a simulated rebalance.

        The estimate is the partition's own recorded duration (``own``), else a mean (``means``):
        that of its last owner's partitions, else that of the group. If nothing was recorded, it
        follows from the longest session timeout and the number of the members (``facts``).
        """
        longest_ms = facts.session_ms
        recorded = self._mean_length(owner, means) if own is None else _of(own)
        if owner.protocol == COOPERATIVE:
            length = _estimate_cooperative_handover(means.session_ms or longest_ms, recorded)
        elif owner.protocol is not None:
            length = _estimate_consumer_handover(self._server_session_ms)
        else:
            length = recorded or _estimate_by_model(owner.session_ms, longest_ms, facts.members)
        return length.shift_by(owner.later_ms) if owner.later_ms else length

    def _mean_length(self, owner: StopOwner, means: _RebalanceMeans) -> _StopLength | None:
        """Return how long (ms) a member's partitions had no consumer in a recorded rebalance, on
        average.

        If the record has no duration for this member, the mean is over all members that left (or
        stayed) as it did. The result is None if there are none.
        """
        for member in owner.members:
            if member in means.by_member:
                return means.by_member[member].value
        for mean in (means.by_fate[owner.left], self._recorded.usual[owner.left]):
            if mean.count:
                return mean.value
        return None

    def _take_recorded_interval(
        self, partition: _Pair, members: tuple[str, ...], time_ms: int
    ) -> UnreadInterval | None:
        """Find the recorded interval without a consumer for a partition that stops in a simulation.

        The interval's last owner is one of ``members``, and it ends after ``time_ms``, the time of
        the recorded rebalance. Each interval is used only once. The result is None if there is
        none.
        """
        known = self._recorded.intervals.get(partition)
        if known is None:
            return None
        for i in range(bisect_left(known.latest_ms, time_ms), len(known.intervals)):
            one = known.intervals[i]
            if one.stopped_ms > time_ms + _LATEST_STOP_MS:
                return None
            if one.assigned_ms >= time_ms and one.member in members and self._use(known.numbers[i]):
                return one
        return None

    def _use(self, number: int) -> bool:
        # Mark a recorded interval as used, unless it is already.
        at = number - self._first_number
        if at >= len(self._is_used):
            self._is_used.extend(bytes(at + 1 - len(self._is_used)))
        is_new = not self._is_used[at]
        self._is_used[at] = True
        return is_new

    def _forget_old_intervals(self) -> None:
        # The recorded intervals before this number are no longer known.
        first = self._recorded.first_number
        del self._is_used[: first - self._first_number]
        self._first_number = first


def _ids(rebalance: RecordedRebalance) -> frozenset[str]:
    return frozenset(m.id for m in rebalance.generation.first.members)


def _restarted_without_rebalance(
    interval: UnreadInterval, rebalance: RecordedRebalance, members: frozenset[str]
) -> bool:
    """Return whether a partition had no consumer because a member restarted without a rebalance.

    A static member (KIP-345) that restarts gets its partitions again without a rebalance.
    ``interval`` is the time without a consumer, which the record of ``rebalance`` contains.
    """
    # In a classic group, a static member resumes its partitions some time after the last rebalance.
    # In other groups, a restarted static member has a new id; a member that was evicted and
    # rejoined between two epochs gets its own partitions again.
    generation = rebalance.generation
    if generation.protocol != "classic":
        return interval.new_owner == interval.member or interval.new_owner not in members
    return interval.assigned_ms > generation.timestamp_ms + _RESTART_MS


def _add(sums: list[float], length: _StopLength) -> None:
    best, p10, p90 = length
    sums[0] += best
    sums[1] += p10
    sums[2] += p90


def _of(one: UnreadInterval) -> _StopLength:
    return _StopLength(one.unread_ms, one.unread_p10_ms, one.unread_p90_ms)


def _estimate_cooperative_handover(session_ms: float, recorded: _StopLength | None) -> _StopLength:
    """Estimate how long a partition that moves in a cooperative rebalance has no consumer.

    It has no consumer between the two phases of the rebalance, usually for one heartbeat interval.
    If partitions had no consumer for longer in the recorded rebalance, that time is used.

    Args:
        session_ms: the longest session timeout of the members, which gives the heartbeat interval.
        recorded: the recorded time, under another protocol; None if unknown.
    """
    # It is one heartbeat interval. Members that lose no partition learn of the second rebalance
    # with their next heartbeat, and their timers began with the first one. If recorded stops were
    # longer, members are slow to rejoin, and the second rebalance takes as long.
    heartbeat = heartbeat_interval(session_ms)
    usual = _StopLength(heartbeat + _POLL_MS / 2, heartbeat, heartbeat + _POLL_MS)
    return usual if recorded is None else _StopLength(*map(max, zip(usual, recorded, strict=True)))


def _estimate_consumer_handover(session_ms: float) -> _StopLength:
    """Estimate how long a partition that moves under the consumer protocol (KIP-848) has no
    consumer.

    It waits for the next heartbeat of its new owner. ``session_ms`` is the broker's session timeout
    of consumer groups.
    """
    # The partition waits for the new owner's next heartbeat, which may come at any time within one
    # interval, and for its next poll. Nobody waits for slow members.
    heartbeat = heartbeat_interval(session_ms, classic=False)
    low, best, high = (share * heartbeat + after_heartbeat(0.0).mean for share in (0.1, 0.5, 0.9))
    return _StopLength(best, low, high)


@lru_cache
def _estimate_by_model(
    session_ms: int | None, usual_session_ms: float, members: int
) -> _StopLength:
    """Estimate from timeouts how long a partition has no consumer, if the record has no duration.

    ``session_ms`` is the owner's session timeout if it died, None if it rejoined. ``members`` is
    the number of members that rejoined.
    """
    heartbeat = heartbeat_interval(usual_session_ms)
    if session_ms is None:
        start = revocation_time(MemberCommits(), 0.0, heartbeat, members)
    else:
        start = uniform_instant(-session_ms, heartbeat - session_ms)
    stop = StopSum()
    stop.add_stop(start, after_record(0.0))
    found = sum_stops([stop])
    return _StopLength(1_000 * found.best, 1_000 * found.p10, 1_000 * found.p90)
