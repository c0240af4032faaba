"""Estimated unread time of simulated rebalances, with the stop lengths of the record.

Record and simulation share what is unknown (common random numbers): a partition that stops under a
policy is unread for as long as it was in the record. If it did not stop there, the first of these
lengths is taken that is known:

1. the stops of the same member in the same rebalance;
2. those of its other members that stayed as well, or left as well;
3. those of the group;
4. a stop by the stop model without commits.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import sqrt
from typing import NamedTuple

from partage.history.stop_model import (
    MemberCommits,
    StopSum,
    UnreadEstimate,
    UnreadInterval,
    after_record,
    between,
    heartbeat_interval,
    revocation_time,
    sum_stops,
)
from partage.simulation.recorded_rebalances import RecordedRebalance, session_timeout_ms

__all__ = ["Stop", "StopLengths"]

_Pair = tuple[str, int]
#: In the consumer protocol a partition stops when its owner acknowledges its new target, within
#: two heartbeat intervals of the coordinator.
_LATEST_STOP_MS = 10_000
#: Recorded rebalances whose mean lengths are kept; those of `cumulative` are scheduled ahead.
_MOST_KEPT = 65_536
#: Recorded intervals are kept for so long after they end: a rebalance of a policy may be late.
_KEPT_MS = 1_800_000
#: An assignment so long after a classic generation's record is that of a static member that
#: rejoined without a rebalance.
_RESTART_MS = 300


class Stop(NamedTuple):
    """A partition whose consumption stops in a simulated rebalance, with its last owner.

    Attributes:
        topic, partition: the partition.
        members: ids of its last owner, the newest first.
        session_ms: its session timeout if it was evicted, else None.
        later_ms: how much later than in the record the partition is assigned again.
        left: whether the last owner left the group.
    """

    topic: str
    partition: int
    members: tuple[str, ...]
    session_ms: int | None = None
    later_ms: float = 0.0
    left: bool = False


class _Length(NamedTuple):
    """Estimate of how long a partition has no consumer (ms): best estimate and 80 % interval."""

    best: float
    p10: float
    p90: float

    def plus(self, later_ms: float) -> _Length:
        """Return the estimate for a stop that ends later by ``later_ms`` (or earlier,
        if negative).
        """
        return _Length(*(max(0.0, one + later_ms) for one in self))


@dataclass(slots=True)
class _Mean:
    """Running mean of estimated times without a consumer."""

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
    def value(self) -> _Length:
        return _Length(self.best / self.count, self.p10 / self.count, self.p90 / self.count)


@dataclass(slots=True)
class _RebalanceMeans:
    """Mean times without a consumer in one recorded rebalance.

    There is a mean for each member, one for all members that left, and one for all that stayed.
    """

    by_member: dict[str, _Mean] = field(default_factory=lambda: defaultdict(_Mean))
    by_fate: dict[bool, _Mean] = field(default_factory=lambda: defaultdict(_Mean))


class StopLengths:
    """Estimator of how long partitions have no consumer in simulated rebalances under one policy.

    Its basis are the recorded intervals without a consumer. A recorded interval is used once at
    most.
    """

    def __init__(self) -> None:
        self._intervals: dict[_Pair, deque[UnreadInterval]] = {}
        #: Means by number of the rebalance, with its recorded follow-ups.
        self._means: dict[int, _RebalanceMeans] = {}
        self._newest = _RebalanceMeans()
        self._usual: dict[bool, _Mean] = defaultdict(_Mean)

    def feed(self, rebalance: RecordedRebalance) -> None:
        """Add the intervals without a consumer of the next recorded rebalance, in order of time."""
        if not rebalance.is_follow_up:
            self._newest = _RebalanceMeans()
        members = _ids(rebalance)
        self._means[rebalance.generation.number] = self._newest
        while len(self._means) > _MOST_KEPT:
            del self._means[next(iter(self._means))]
        for one in rebalance.generation.unread_intervals:
            if not _is_restart(one, rebalance):
                self._intervals.setdefault((one.topic, one.partition), deque()).append(one)
                has_left = one.member not in members
                for mean in (
                    self._newest.by_member[one.member],
                    self._newest.by_fate[has_left],
                    self._usual[has_left],
                ):
                    mean.add(one)

    def estimate(
        self,
        rebalance: RecordedRebalance,
        stops: Iterable[Stop],
        *,
        was_empty: bool = False,
        away_s: float = 0.0,
        restarts: bool = True,
    ) -> UnreadEstimate | None:
        """Estimate the time without a consumer in a rebalance under the policy,
        in partition-seconds.

        Args:
            rebalance: the recorded rebalance with its causes.
            stops: partitions that stop.
            was_empty: whether the group had no member before.
            away_s: partition-seconds of static members that were away.
            restarts: whether to add members that rejoined without a rebalance of their own.

        Returns:
            None if the record has no estimate either.
        """
        if rebalance.generation.unread is None:
            return None
        means = self._means.get(rebalance.generation.number, _RebalanceMeans())
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        is_join = was_empty and not rebalance.ids_before
        for stop in stops:
            length = self._length(stop, rebalance, means)
            if stop.later_ms:
                length = length.plus(stop.later_ms)
            _add(sums[stop.members[0]], length)
        for one in rebalance.generation.unread_intervals:
            if restarts if _is_restart(one, rebalance) else is_join:
                _add(sums[one.member], _of(one))
        best = sum(one[0] for one in sums.values())
        below, above = (sqrt(sum((one[i] - one[0]) ** 2 for one in sums.values())) for i in (1, 2))
        ends = (best, max(0.0, best - below), best + above)
        return UnreadEstimate(*(away_s + one / 1_000 for one in ends))

    def _length(self, stop: Stop, rebalance: RecordedRebalance, means: _RebalanceMeans) -> _Length:
        """Estimate how long one partition that stops has no consumer.

        The first rule with data decides: the partition's own recorded interval, a mean, or the stop
        model. The module's docstring lists the rules.
        """
        found = self._take(stop, rebalance.generation.timestamp_ms)
        if found is not None:
            return _of(found)
        known = [means.by_member[member] for member in stop.members if member in means.by_member]
        for mean in (*known, means.by_fate[stop.left], self._usual[stop.left]):
            if mean.count:
                return mean.value
        members = rebalance.generation.first.members
        longest_ms = max(map(session_timeout_ms, members), default=0)
        return _modelled(stop.session_ms, longest_ms, len(members))

    def _take(self, stop: Stop, at: int) -> UnreadInterval | None:
        """Remove and return the recorded interval that matches a simulated stop; None if there is
        none.

        It is of the same partition and last owner, and ends after time ``at`` (ms).
        """
        intervals = self._intervals.get((stop.topic, stop.partition))
        if not intervals:
            return None
        while intervals and intervals[0].assigned_ms < at - _KEPT_MS:
            intervals.popleft()
        for i, one in enumerate(intervals):
            if one.stopped_ms > at + _LATEST_STOP_MS:
                return None
            if one.assigned_ms >= at and one.member in stop.members:
                del intervals[i]
                return one
        return None


def _ids(rebalance: RecordedRebalance) -> frozenset[str]:
    return frozenset(m.id for m in rebalance.generation.first.members)


def _is_restart(one: UnreadInterval, rebalance: RecordedRebalance) -> bool:
    """Return whether a member lost a partition and rejoined without a rebalance of its own.

    In a classic group a static member takes over after the rebalance. In the other protocols a
    static member then has a new id. A member that was evicted and rejoined between two epochs is
    assigned the partitions that it owned.
    """
    generation = rebalance.generation
    if generation.protocol != "classic":
        return one.new_owner == one.member or one.new_owner not in _ids(rebalance)
    return one.assigned_ms > generation.timestamp_ms + _RESTART_MS


def _add(sums: list[float], length: _Length) -> None:
    best, p10, p90 = length
    sums[0] += best
    sums[1] += p10
    sums[2] += p90


def _of(one: UnreadInterval) -> _Length:
    return _Length(one.unread_ms, one.unread_p10_ms, one.unread_p90_ms)


def _modelled(session_ms: int | None, usual_session_ms: float, members: int) -> _Length:
    """Estimate by the stop model how long a partition has no consumer, if no commits show it.

    Args:
        session_ms: session timeout of the owner if it died; None if it rejoined.
        usual_session_ms: the longest session timeout of the group's members.
        members: how many members rejoined.
    """
    heartbeat = heartbeat_interval(usual_session_ms)
    if session_ms is None:
        start = revocation_time(MemberCommits(), 0.0, heartbeat, members)
    else:
        start = between(-session_ms, heartbeat - session_ms)
    stop = StopSum()
    stop.add(start, after_record(0.0))
    found = sum_stops([stop])
    return _Length(1_000 * found.best, 1_000 * found.p10, 1_000 * found.p90)
