"""Stop model: estimates when a member stopped consuming, as a time with an uncertainty.

The log says exactly when a generation was written and when members acknowledged an assignment. It
does not say when a member revoked its partitions, left or died. Four rules of the protocols and of
the client libraries limit that time:

* **Commit at revocation.** The Java consumer, librdkafka, kafka-python and aiokafka commit when
  they revoke partitions or close. A member's last commit marks its stop.
* **Commit cadence.** A member that died committed last up to one commit interval before.
* **Session timeout.** The coordinator evicts a member one session timeout after its last
  heartbeat. It died between that heartbeat and the next one.
* **Heartbeat interval.** A member learns of a rebalance with its next heartbeat.

The functions take plain numbers, so that recorded and simulated rebalances share them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

__all__ = [
    "COORDINATOR_HEARTBEAT_MS",
    "DEFAULT_COMMIT_MS",
    "HEARTBEAT_MS",
    "INITIAL_DELAY_MS",
    "INTERVAL_WIDTH",
    "Instant",
    "MemberCommits",
    "StopSum",
    "UnreadEstimate",
    "UnreadInterval",
    "absence_time",
    "after_heartbeat",
    "after_record",
    "before_record",
    "commits_at_revocation",
    "departure_time",
    "first_join_time",
    "heartbeat_interval",
    "miss_probability",
    "mix_instants",
    "revocation_time",
    "sum_stops",
    "uniform_instant",
]

#: heartbeat.interval.ms of a consumer, if its session timeout leaves room for three of them.
HEARTBEAT_MS = 3_000
#: Heartbeats in a session timeout that is too short for that; Kafka asks for at least three.
_HEARTBEATS = 4
#: group.consumer.heartbeat.interval.ms, and heartbeats in a session timeout (KIP-848).
COORDINATOR_HEARTBEAT_MS, _COORDINATOR_HEARTBEATS = 5_000, 6
#: Prior probability that a departed member sent LeaveGroup and did not die, if no commit shows
#: which.
_LEAVES = 0.7
#: The same if the cause of the rebalance is that its session timeout expired (`causes`).
_LEAVES_BEFORE_EXPIRY = 0.3
#: Default of group.initial.rebalance.delay.ms: how long an empty classic group waits for members.
INITIAL_DELAY_MS = 3_000
#: Probability that a revocation has a commit beside it, if the group's members commit when they
#: revoke partitions, and if they do not.
_PROMPT, _PROMPT_BY_CHANCE = 0.4, 0.08
#: Odds that a Java consumer does not commit when it revokes partitions: enable.auto.commit is off.
_JAVA_COMMITS = 0.2
#: Share of eager rebalances that take longer than a heartbeat, though no member is dead.
_SLOW = 0.1
#: auto.commit.interval.ms of a consumer.
DEFAULT_COMMIT_MS = 5_000
#: Share of members whose partitions are idle, so that they commit nothing, and the length of such
#: a silence in commit intervals.
_IDLE, _LONG_IDLE = 0.1, 20.0
#: Prior probability that a member never receives its assignment: it is busy, or the rebalance is
#: over by then.
_MISSES = 0.1
#: Likelihood ratio of a stalled poll loop to idle partitions, after a silence of
#: max.poll.interval.ms.
_STALLS = 4.0
#: Share of max.poll.interval.ms from which a silence counts as a poll timeout: commits may be
#: late.
_NEARLY = 0.9
#: Time from a record to the member's callback, or from its request to the record: mean, standard
#: deviation, and the longest that is usual.
_LATENCY_MS, _LATENCY_DEVIATION_MS, _LONGEST_LATENCY_MS = 30.0, 40.0, 250.0
#: The same for the consumer protocol (KIP-848): the answer to a heartbeat waits for the next poll.
_POLL_LATENCY_MS, _POLL_DEVIATION_MS, _LONGEST_POLL_MS = 130.0, 150.0, 750.0
#: The same from the start of a client to its join: it looks its coordinator up first.
_START_MS, _START_DEVIATION_MS, _LONGEST_START_MS = 130.0, 150.0, 750.0
#: Additional time of a revocation: the member commits first.
_COMMIT_LATENCY_MS = 70.0
#: Half of an 80 % interval in standard deviations; 1.28 for a normal distribution, more for the
#: heavy tails of busy machines.
INTERVAL_WIDTH = 1.7


class Instant(NamedTuple):
    """An uncertain time (ms): a probability distribution with a mean, a variance and hard limits.

    Attributes:
        mean, variance: mean and variance of the distribution.
        earliest, latest: hard limits of the time.
    """

    mean: float
    variance: float
    earliest: float
    latest: float

    def with_added_uncertainty(self, independent: Instant) -> Instant:
        """Return this uncertain time plus an independent error: the variance grows by the error's.

        The mean stays the same. ``independent`` is an uncertain time whose variance is used.
        """
        return Instant(
            self.mean,
            self.variance + independent.variance,
            self.earliest - (independent.latest - independent.mean),
            self.latest + (independent.mean - independent.earliest),
        )

    @property
    def interval_80_percent(self) -> tuple[float, float]:
        """Start and end of the 80 % interval of the uncertain time (ms), within its hard limits.

        >>> [round(end, 2) for end in uniform_instant(0, 10).interval_80_percent]
        [0.09, 9.91]
        """
        width = INTERVAL_WIDTH * sqrt(self.variance)
        low, high = max(self.earliest, self.mean - width), min(self.latest, self.mean + width)
        return min(low, self.mean), max(high, self.mean)

    def limit_to_range(self, earliest: float, latest: float) -> Instant:
        """Return this uncertain time restricted to the range from ``earliest`` to ``latest``.

        If both limits cannot hold, ``latest`` is the stronger one.

        >>> uniform_instant(0, 10).limit_to_range(4, 20)
        Instant(mean=7.0, variance=3.0, earliest=4, latest=10)
        """
        low, high = max(self.earliest, earliest), min(self.latest, latest)
        if (low, high) == (self.earliest, self.latest):
            return self
        if low >= high:
            at = min(max(self.mean, earliest), latest)
            return Instant(at, 0.0, at, at)
        if self.earliest <= self.mean - 1e-9 and self.variance > 0 and not low <= self.mean <= high:
            return uniform_instant(low, high)
        widest = (high - low) ** 2 / 12
        if self.variance <= widest:
            return Instant(min(max(self.mean, low), high), self.variance, low, high)
        return uniform_instant(low, high)


def uniform_instant(earliest_ms: float, latest_ms: float) -> Instant:
    """Return an uncertain time that is equally likely anywhere between two times (ms).

    >>> uniform_instant(0, 6)
    Instant(mean=3.0, variance=3.0, earliest=0, latest=6)
    """
    latest_ms = max(earliest_ms, latest_ms)
    return Instant(
        (earliest_ms + latest_ms) / 2, (latest_ms - earliest_ms) ** 2 / 12, earliest_ms, latest_ms
    )


def after_record(time_ms: float) -> Instant:
    """Estimate when a member ran its rebalance callback after a rebalance.

    The callback is later than the coordinator's log record of the rebalance (``time_ms``), by the
    network and poll latency.
    """
    mean, latest = time_ms + _LATENCY_MS, time_ms + _LONGEST_LATENCY_MS
    return Instant(mean, _LATENCY_DEVIATION_MS**2, time_ms, latest)


def after_heartbeat(time_ms: float, *, revokes: bool = False) -> Instant:
    """Estimate when a member (KIP-848) ran its rebalance callback after the coordinator's decision.

    ``time_ms`` is the time of the decision's log record; the member learns of it with its next
    heartbeat. If ``revokes`` is true, it first commits and then revokes partitions.
    """
    # The member handles the heartbeat's response in its next poll.
    mean, latest = time_ms + _POLL_LATENCY_MS, time_ms + _LONGEST_POLL_MS
    mean += _COMMIT_LATENCY_MS if revokes else 0.0
    return Instant(mean, _POLL_DEVIATION_MS**2, time_ms, latest)


def before_record(time_ms: float) -> Instant:
    """Estimate when a member ran its rebalance callback before a rebalance was completed.

    The callback is earlier than the coordinator's log record of the rebalance (``time_ms``), by the
    network latency.
    """
    mean, earliest = time_ms - _LATENCY_MS, time_ms - _LONGEST_LATENCY_MS
    return Instant(mean, _LATENCY_DEVIATION_MS**2, earliest, time_ms)


def first_join_time(end_ms: float, delay_ms: float | None, members: int) -> Instant:
    """Estimate when the first member of an empty classic group joined.

    After the first join, the coordinator waits for a delay. Each further join extends the wait by
    up to the same delay.

    Args:
        end_ms: time of the generation's record.
        delay_ms: the broker's ``group.initial.rebalance.delay.ms``; None if unknown.
        members: number of members of the generation.

    >>> first_join_time(10_000, 300, 1).mean, first_join_time(10_000, None, 1).mean
    (9570.0, 8500.0)
    """
    if delay_ms is None:
        return uniform_instant(end_ms - INITIAL_DELAY_MS, end_ms)
    # A client that starts looks its coordinator up before it joins.
    latest = end_ms - delay_ms
    earliest, mean = latest - _LONGEST_START_MS, latest - _START_MS
    first = Instant(mean, _START_DEVIATION_MS**2, earliest, latest)
    if members == 1:
        return first
    return uniform_instant(first.earliest - delay_ms, first.latest)


def mix_instants(probability: float, likely: Instant, otherwise: Instant) -> Instant:
    """Return the mixture of two uncertain times: ``likely`` with a probability, else ``otherwise``.

    >>> mix_instants(0.5, uniform_instant(0, 0), uniform_instant(10, 10))
    Instant(mean=5.0, variance=25.0, earliest=0, latest=10)
    """
    mean = probability * likely.mean + (1 - probability) * otherwise.mean
    variance = probability * (likely.variance + (likely.mean - mean) ** 2)
    variance += (1 - probability) * (otherwise.variance + (otherwise.mean - mean) ** 2)
    return Instant(
        mean,
        variance,
        min(likely.earliest, otherwise.earliest),
        max(likely.latest, otherwise.latest),
    )


def heartbeat_interval(session_timeout_ms: float, *, classic: bool = True) -> float:
    """Return a consumer's likely heartbeat interval (ms), derived from its session timeout.

    >>> heartbeat_interval(45_000), heartbeat_interval(6_000)
    (3000, 1500.0)
    >>> heartbeat_interval(6_000, classic=False)
    1000.0
    """
    if classic:
        return min(HEARTBEAT_MS, session_timeout_ms / _HEARTBEATS)
    return min(COORDINATOR_HEARTBEAT_MS, session_timeout_ms / _COORDINATOR_HEARTBEATS)


# -- when a member stopped reading -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemberCommits:
    """Statistics of a member's offset commits, from which the time of its stop is estimated.

    Attributes:
        last_ms: its newest commit since it was assigned its partitions; None without one.
        usual_ms: its usual commit interval; None if unknown.
        share: probability that it commits when it revokes partitions or closes.
    """

    last_ms: float | None = None
    usual_ms: float | None = None
    share: float = 0.5

    @property
    def interval_ms(self) -> float:
        """Usual time (ms) between two offset commits of a member.

        It is Kafka's default ``auto.commit.interval.ms`` if it is unknown.
        """
        return DEFAULT_COMMIT_MS if self.usual_ms is None else max(1.0, self.usual_ms)

    def estimate_stop(self, otherwise: Instant, commit_probability: float | None = None) -> Instant:
        """Estimate when a member stopped consuming: at its last commit, or at the time
        ``otherwise``.

        Both times are weighted by the probability that the member commits when it stops.

        Args:
            otherwise: the time of the stop if no commit marks it.
            commit_probability: probability that the last commit marks the stop; by default the
                member's own.
        """
        if self.last_ms is None:
            return otherwise
        earliest, latest = self.last_ms - _LONGEST_LATENCY_MS, self.last_ms
        last = Instant(self.last_ms - 5.0, _LATENCY_DEVIATION_MS**2, earliest, latest)
        after = otherwise.limit_to_range(self.last_ms, max(self.last_ms, otherwise.latest))
        return mix_instants(
            self.share if commit_probability is None else commit_probability, last, after
        )


def commits_at_revocation(prompt: int, stops: int, *, java: bool = False) -> float:
    """Estimate the probability that a member commits when it revokes partitions, by Bayes' rule.

    Args:
        prompt: number of past revocations in the group that had a commit at nearly the same time.
        stops: number of past revocations in the group; only partitions with commits count.
        java: whether the member is a Java consumer.

    >>> [round(commits_at_revocation(prompt, 8), 2) for prompt in (0, 1, 4)]
    [0.03, 0.2, 0.97]
    """
    ratio = _JAVA_COMMITS if java else 1.0
    ratio *= (_PROMPT_BY_CHANCE / _PROMPT) ** prompt
    ratio *= ((1 - _PROMPT_BY_CHANCE) / (1 - _PROMPT)) ** (stops - prompt)
    return min(0.97, max(0.03, 1 / (1 + ratio)))


def revocation_time(
    commits: MemberCommits, end_ms: float, heartbeat_ms: float, members: int
) -> Instant:
    """Estimate when a member revoked its partitions before an eager rebalance.

    Members learn of the rebalance with their next heartbeat; many commit when they revoke.

    Args:
        commits: commit statistics of the member.
        end_ms: time of the generation's record: all members had rejoined by then.
        heartbeat_ms: its heartbeat interval.
        members: number of members that rejoined.
    """
    # Members learn of the rebalance with their heartbeats. The rebalance ends as soon as the last
    # member has rejoined.
    first, last = end_ms - heartbeat_ms, commits.last_ms
    if last is None:
        return mix_instants(
            1 / max(1, members), before_record(end_ms), uniform_instant(first, end_ms)
        )
    if last + 1.5 * commits.interval_ms < first:
        # The phase was longer than a heartbeat: it waited for a slow or dead member.
        return commits.estimate_stop(uniform_instant(last, last + commits.interval_ms))
    # Bayes' rule: a commit at revocation falls within the last heartbeat, any other one anywhere
    # within the member's commit interval.
    at_stop = commits.share / max(1.0, heartbeat_ms)
    if last < first - _LONGEST_LATENCY_MS:
        at_stop = _SLOW * commits.share / commits.interval_ms
    share = at_stop / (at_stop + (1 - commits.share) / commits.interval_ms)
    start = uniform_instant(min(max(first, last), end_ms), end_ms)
    return commits.estimate_stop(
        mix_instants(1 / max(1, members), before_record(end_ms), start), share
    )


def absence_time(commits: MemberCommits, latest_ms: float, poll_ms: float = 0.0) -> Instant:
    """Estimate when a static member stopped consuming, before another process took its place.

    Args:
        commits: commit statistics of the member.
        latest_ms: time of the record with its successor.
        poll_ms: its max.poll.interval.ms; a live member rejoins after that time. 0 if unknown.
    """
    last = commits.last_ms
    if last is None:
        return uniform_instant(latest_ms - commits.interval_ms, latest_ms)
    found = commits.estimate_stop(uniform_instant(last, min(last + commits.interval_ms, latest_ms)))
    is_stalled = 0 < _NEARLY * poll_ms <= latest_ms - last
    rejoined = before_record(latest_ms)
    return mix_instants(_STALLS / (1 + _STALLS), rejoined, found) if is_stalled else found


def departure_time(
    commits: MemberCommits,
    begun: Instant,
    session_ms: float,
    heartbeat_ms: float,
    *,
    poll_ms: float = 0.0,
    static: bool = False,
    is_evicted: bool = False,
) -> Instant:
    """Estimate when a member stopped consuming before it left its group or was evicted.

    The time of its last commit shows whether it more likely left or died.

    Args:
        commits: commit statistics of the member.
        begun: when the coordinator began the rebalance.
        session_ms: its session timeout.
        heartbeat_ms: its heartbeat interval.
        poll_ms: its max.poll.interval.ms; a live member leaves after that time. 0 if unknown.
        static: whether it has an instance id; a static member sends no LeaveGroup.
        is_evicted: whether the cause of the rebalance is that its session timeout expired.
    """
    # A member that left stopped when the rebalance began. A member that died stopped a session
    # timeout earlier, within one heartbeat interval. The result mixes both times by their
    # probabilities (Bayes' rule), given the time of the last commit.
    died = uniform_instant(begun.earliest - session_ms, begun.latest - session_ms + heartbeat_ms)
    last, interval = commits.last_ms, commits.interval_ms
    leaves = _LEAVES_BEFORE_EXPIRY if is_evicted else _LEAVES
    if last is None:
        return died if static else mix_instants(leaves, begun, died)
    alive = uniform_instant(last, last + interval)
    idle = _IDLE / (_LONG_IDLE * interval)
    at_close = 0.0
    if last >= begun.earliest - _LONGEST_LATENCY_MS:
        at_close = commits.share / (begun.latest - begun.earliest + _LONGEST_LATENCY_MS)
    later = (1 - commits.share) * _coincidence_density(alive, begun) + idle
    is_silent = begun.latest - last >= _NEARLY * poll_ms > _NEARLY * session_ms
    stalled = _STALLS * idle if is_silent else 0.0
    left = (
        begun.limit_to_range(last, last + interval)
        if _coincidence_density(alive, begun) > 0
        else begun
    )
    left = commits.estimate_stop(left, at_close / (at_close + later + stalled))
    likely_died = _coincidence_density(alive, died) + idle
    if likely_died > idle:
        is_prompt = static and last >= died.earliest - _LONGEST_LATENCY_MS
        died = died.limit_to_range(last, last + interval)
        died = commits.estimate_stop(died) if is_prompt else died
    weight = leaves * (stalled if static else at_close + later + stalled)
    return mix_instants(weight / (weight + (1 - leaves) * likely_died), left, died)


def _coincidence_density(instant: Instant, other_instant: Instant) -> float:
    """Return the probability density (per ms) at which two independent uncertain times coincide."""
    # Both are taken as uniform and independent; the result is a likelihood for Bayes' rule.
    common = min(instant.latest, other_instant.latest) - max(
        instant.earliest, other_instant.earliest
    )
    widths = max(1.0, instant.latest - instant.earliest) * max(
        1.0, other_instant.latest - other_instant.earliest
    )
    return max(0.0, common) / widths


def miss_probability(commits: MemberCommits, since_ms: float, until_ms: float) -> float:
    """Estimate the probability that a member never received its last assignment, by Bayes' rule.

    It rises with the time without a commit. It is 0 if the member committed since, or if its
    partitions never had two commits.

    Args:
        commits: commit statistics of the member.
        since_ms: time of the assignment.
        until_ms: end of the time in which it would have committed.

    >>> silent = MemberCommits(usual_ms=5_000)
    >>> [round(miss_probability(silent, 0, until), 2) for until in (0, 2_500, 5_000)]
    [0.1, 0.17, 0.53]
    """
    if commits.last_ms is not None or commits.usual_ms is None:
        return 0.0
    waited = max(0.0, until_ms - since_ms) / commits.interval_ms
    silent = _IDLE + (1 - _IDLE) * max(0.0, 1 - waited)
    return _MISSES / (_MISSES + (1 - _MISSES) * silent)


# -- sums --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnreadEstimate:
    """Estimated time in which partitions had no consumer, in partition-seconds, with 80 % interval.

    For each partition, the time counts from the stop of its last owner to the start of the next
    one.

    Attributes:
        best: mean of the distribution (best estimate).
        p10, p90: ends of its 80 % interval.
        no_consumer: partition-seconds in which no member existed or subscribed; the other values do
            not include them.
    """

    best: float = 0.0
    p10: float = 0.0
    p90: float = 0.0
    no_consumer: float = 0.0


class UnreadInterval(NamedTuple):
    """Time span in which one partition had no consumer, a row of table ``unread``.

    Attributes:
        topic, partition: the partition.
        member: id of its last owner.
        new_owner: id of its next owner.
        stopped_ms: when the last owner stopped, best estimate.
        stopped_p10_ms, stopped_p90_ms: 80 % interval of this estimate.
        assigned_ms: when the next owner was assigned the partition, best estimate.
        unread_ms: length without the time that had no consumer, best estimate.
        unread_p10_ms, unread_p90_ms: 80 % interval of this estimate.
        no_consumer_ms: time without any member, or without one that subscribed.
        no_consumer_from_ms: start of the first such time; None without one.
    """

    topic: str
    partition: int
    member: str
    new_owner: str
    stopped_ms: int
    stopped_p10_ms: int
    stopped_p90_ms: int
    assigned_ms: int
    unread_ms: int
    unread_p10_ms: int
    unread_p90_ms: int
    no_consumer_ms: int
    no_consumer_from_ms: int | None = None


@dataclass(slots=True)
class StopSum:
    """Sum of the times without a consumer of several partitions that stopped for the same reason.

    Attributes:
        mean: sum of the means, in milliseconds.
        deviation: sum of the standard deviations, in milliseconds.
        least: sum of the lower limits, in milliseconds.
        most: sum of the upper limits, in milliseconds.
    """

    # Such partitions share one estimation error, so their standard deviations are summed, not their
    # variances.
    mean: float = 0.0
    deviation: float = 0.0
    least: float = 0.0
    most: float = 0.0

    def add_stop(self, stop_time: Instant, start_time: Instant, apart_ms: float = 0.0) -> None:
        """Add the time in which one partition had no consumer to the sum.

        Args:
            stop_time: when the last owner stopped.
            start_time: when the next owner started.
            apart_ms: the part in which no member subscribed to the topic; it is subtracted.
        """
        length = max(0.0, start_time.mean - stop_time.mean - apart_ms)
        self.mean += length
        self.deviation += sqrt(stop_time.variance + start_time.variance)
        self.least += max(0.0, start_time.earliest - stop_time.latest - apart_ms)
        self.most += max(length, start_time.latest - stop_time.earliest - apart_ms)


def sum_stops(stops: Iterable[StopSum], no_consumer_ms: float = 0.0) -> UnreadEstimate:
    """Add up the times in which partitions had no consumer in one rebalance.

    The result is in partition-seconds, with an 80 % interval.

    Args:
        stops: one sum for each reason why partitions stopped.
        no_consumer_ms: time in which the group had no member, or none that subscribed (ms).

    >>> found = sum_stops([StopSum(4_000, 1_000, 0, 9_000), StopSum(0, 0, 0, 0)])
    >>> found.best, round(found.p10, 2), round(found.p90, 2)
    (4.0, 2.3, 5.7)
    """
    parts = list(stops)
    mean, variance = sum(one.mean for one in parts), sum(one.deviation**2 for one in parts)
    width = INTERVAL_WIDTH * sqrt(variance)
    low = max(mean - width, sum(one.least for one in parts), 0.0)
    high = min(mean + width, sum(one.most for one in parts))
    return UnreadEstimate(
        mean / 1_000, min(low, mean) / 1_000, max(high, mean) / 1_000, no_consumer_ms / 1_000
    )
