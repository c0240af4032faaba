"""The report's data: a published run, its groups and their metrics, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce, wraps
from typing import Any, TypeVar

from partage.tables.metrics import BY_NAME
from partage.tables.statuses import FAILED, RECORDED
from partage.tables.sums import Estimate, FigureRange, add_sums, empty_sums, metric_value

__all__ = [
    "MIN_COVERAGE", "MOST_WORST", "BackTest", "BadRecord", "CauseShare", "Estimate", "FigureRange",
    "GroupFigures", "PolicyFigures", "RunFigures", "StreamsOutcome", "Traits", "find_worst",
    "once_per_group", "total_metrics",
]  # fmt: skip

T = TypeVar("T")

#: Share of the known rebalances that the log needs for a statement about their total cost.
MIN_COVERAGE = 0.9


@dataclass(frozen=True)
class PolicyFigures:
    """Metrics of one simulated policy (protocol and strategy), or of the recorded assignments.

    Each metric of `partage.tables.metrics.METRICS` is an attribute, such as ``moved``, summed over
    rebalances. So is each sum from which metrics are computed, such as ``stopped_low``.

    Attributes:
        policy: name of the policy, or `RECORDED`.
        reading: recorded, or the kind of simulation: per_rebalance or cumulative.
        sums: dict of the sums, from `partage.tables.sums`.

    >>> sums = {"stopped_low": 1, "stopped_high": 4, "stopped_known": 1}
    >>> found = PolicyFigures.from_sums("eager/range", moved=2, **sums)
    >>> found.moved, found.stopped, found.reread
    (2, FigureRange(low=1, high=4), None)
    """

    # A metric is computed at its first use, because a report reads each of them dozens of times.

    policy: str
    reading: str
    sums: Mapping[str, Any]

    @classmethod
    def from_sums(cls, policy: str, reading: str = RECORDED, **entries: Any) -> PolicyFigures:
        """Create the metrics of a policy from some sums; all other sums are 0 or empty.

        Args:
            policy: name of the policy.
            reading: recorded, per_rebalance or cumulative.
            **entries: the sums by name.
        """
        return cls(policy, reading, empty_sums() | entries)

    def __getattr__(self, name: str) -> Any:
        if name in BY_NAME:
            found = self.__dict__[name] = metric_value(BY_NAME[name], self.sums)
            return found
        if name == "sums" or name not in self.sums:
            raise AttributeError(name)
        return self.sums[name]

    @property
    def is_comparable(self) -> bool:
        """Return whether this policy's metrics can be compared with those of other policies.

        They can if the policy has a valid and complete assignment for every rebalance.
        """
        return bool(self.done == self.rows > 0 and not self.incomplete)

    @property
    def can_be_simulated(self) -> bool:
        """Return whether Partage implements the assignment strategy of this policy.

        If it does not, no rebalance could be simulated under the policy.
        """
        return bool(self.missing < self.rows)

    def __add__(self, other: PolicyFigures) -> PolicyFigures:
        return PolicyFigures(self.policy, self.reading, add_sums(self.sums, other.sums))


def total_metrics(metrics: Iterable[PolicyFigures]) -> PolicyFigures:
    """Add up the metrics of one policy over several consumer groups.

    >>> second = PolicyFigures.from_sums("fair", moved=3, largest_spread=1)
    >>> total_metrics([PolicyFigures.from_sums("fair", moved=2), second]).moved
    5
    """
    return reduce(PolicyFigures.__add__, metrics)


#: Rebalances of a cause whose times are shown.
MOST_WORST = 3


def find_worst(times: Iterable[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Return the few rebalances with the most downtime, the worst first.

    ``times`` are pairs of time (ms) and downtime (partition-seconds).

    >>> find_worst([(1, 5.0), (2, 9.0), (3, 0.0), (4, 1.0), (5, 2.0)])
    ((2, 9.0), (1, 5.0), (5, 2.0))
    """
    known = sorted((one for one in times if one[1] > 0), key=lambda one: (-one[1], one[0]))
    return tuple(known[:MOST_WORST])


@dataclass(frozen=True, slots=True)
class CauseShare:
    """Number of rebalances with the same kind of cause, such as ``leave``, and their downtime.

    Objects with the same kind can be added.

    Attributes:
        kind: cause kind of table ``rebalances``.
        rebalances: number of rebalances with this cause.
        recorded: number of those whose cause a record states; for the others it is inferred.
        timed: number of those whose downtime is known.
        low, high: bounds of their downtime in partition-seconds.
        best: best estimate of their downtime; 0 if the run has no estimates.
        worst: time (ms) and downtime of the few with the most downtime, the worst first.
    """

    kind: str
    rebalances: int
    recorded: int = 0
    timed: int = 0
    low: float = 0.0
    high: float = 0.0
    best: float = 0.0
    worst: tuple[tuple[int, float], ...] = ()

    def __add__(self, other: CauseShare) -> CauseShare:
        return CauseShare(
            self.kind,
            self.rebalances + other.rebalances,
            self.recorded + other.recorded,
            self.timed + other.timed,
            self.low + other.low,
            self.high + other.high,
            self.best + other.best,
            find_worst((*self.worst, *other.worst)),
        )

    @property
    def sort_key(self) -> tuple[float, float, int, str]:
        """Sort key that puts the cause with the most downtime first.

        Causes without an estimate follow by the upper bound of their downtime.
        """
        # Causes are sorted by estimated downtime, then by its upper bound.
        return (-self.best, -self.high, -self.rebalances, self.kind)


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of one consumer group on which recommendations depend; None means unknown.

    Attributes:
        protocol: protocol of its newest rebalance: classic, consumer, share or streams.
        session_ms: the longest session timeout of its members, or the broker's.
        returned: number of evicted members that rejoined soon after.
        longest_silence_ms: approximate longest time that such a member had sent no heartbeats.
        judged, agreed: number of recorded assignments compared with the strategy's, and of equal
            ones.
        dynamic_members: largest number of members without ``group.instance.id`` in a rebalance.
        copartitioned: whether two of its topics have equal partition counts, so that it may join
            them.
        storms: number of rebalance storms.
        stormy: number of rebalances in storms.
        triggers: causes of the first rebalances of storms, with the number of rebalances in these
            storms; most rebalances first.
        late_polls: number of members that exceeded max.poll.interval.ms, left and rejoined.
        longest_poll_ms: longest time without a poll of such a member (ms).
        crowded: number of rebalances with more members than partitions.
        settled: number of rebalances with members, without follow-ups.
        poll_ms: the longest rebalance timeout of its members (max.poll.interval.ms of Java).
        static_members: number of members with ``group.instance.id`` in the newest of the rebalances
            with the most members.
        newest_members: number of all members in that rebalance.
    """

    protocol: str = "classic"
    session_ms: int | None = None
    returned: int = 0
    longest_silence_ms: int | None = None
    judged: int = 0
    agreed: int = 0
    dynamic_members: int | None = None
    copartitioned: bool | None = None
    storms: int | None = None
    stormy: int = 0
    triggers: tuple[tuple[str, int], ...] = ()
    late_polls: int = 0
    longest_poll_ms: int | None = None
    crowded: int = 0
    settled: int = 0
    poll_ms: int | None = None
    static_members: int = 0
    newest_members: int = 0


def _known_downtime(recorded: PolicyFigures, *, covered: bool) -> FigureRange | None:
    """Return the bounds of a group's recorded downtime (partition-seconds); None if they are
    unknown.

    If ``covered`` is False, the log lacks many of the group's rebalances. A downtime of zero is
    then unknown.
    """
    # A downtime of zero is unknown if the log has only few of the rebalances (``covered`` is
    # false).
    stopped: FigureRange | None = recorded.stopped
    return None if stopped is not None and not stopped.high and not covered else stopped


@dataclass(frozen=True, slots=True)
class StreamsOutcome:
    """Outages of a Kafka Streams application under one combination of settings, from a simulation.

    With ``simulated`` False, the values are recorded ones. Counts are means over several
    simulations with shifted events, and may be fractions. Unknown values are None.

    Attributes:
        simulated: whether the values are simulated, not recorded.
        protocol: protocol of the group, classic or streams.
        assignor: task assignor; `RECORDED` for recorded values.
        settings: changed settings; empty for the present ones.
        detail: why there are no values.
        from_ms, to_ms: the simulated time.
        events: recorded starts and stops of clients in it.
        outages: times in which a task had no owner with all its state.
        outage_s, mean_outage_s, worst_outage_s: their total, mean and longest length in seconds.
        restored: state that clients read again, in the unit.
        disk: mean state in addition to that of active tasks, in the unit.
        unit: bytes or records; None if the sizes of changelogs are unknown.
    """

    simulated: bool
    protocol: str
    assignor: str
    settings: str
    detail: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    events: int | None = None
    clients: int | None = None
    tasks: int | None = None
    standbys: int | None = None
    rebalances: float | None = None
    moved: float | None = None
    outages: float | None = None
    outage_s: float | None = None
    mean_outage_s: float | None = None
    worst_outage_s: float | None = None
    restored: int | None = None
    disk: int | None = None
    unit: str | None = None


@dataclass(frozen=True)
class GroupFigures:
    """One consumer group of a run, with its properties and its metrics over all rebalances.

    Derived values are cached, because many rules and tables need them.

    Attributes:
        anchor: fragment identifier of its details on the page.
        claimed: assignment strategies that it used; the current one comes last.
        rebalances: number of rebalances in the log.
        coverage: share of the rebalances that happened which are in the log; None if none happened.
        members_max: number of members of its largest generation.
        partitions_max: number of partitions of its largest assignment; None if not known.
        figures: dict from policy (or `RECORDED`) to metrics; empty without a replay. They are of
            the cumulative simulation if the run has it, otherwise of the other.
        per_rebalance: dict from policy to metrics of the simulation of each rebalance by itself.
        causes: shares of causes, the largest downtime first.
        assigned_ps: partition-seconds in which a member was assigned a partition; 0 if unknown.
        span_ms: time from the group's first record to the end of the log; 0 if unknown.
        streams: a Kafka Streams application under other settings: the log's own figures, the
            present settings, then others. Empty for other groups.
    """

    name: str
    anchor: str
    kind: str
    status: str
    why: str | None
    claimed: tuple[str, ...]
    clients: tuple[str, ...]
    records: int
    commits: int
    rebalances: int
    incarnations: int
    missing_generations: int
    coverage: float | None
    members_max: int
    partitions_max: int | None
    figures: Mapping[str, PolicyFigures]
    per_rebalance: Mapping[str, PolicyFigures]
    causes: tuple[CauseShare, ...]
    traits: Traits
    assigned_ps: float = 0.0
    span_ms: int = 0
    streams: tuple[StreamsOutcome, ...] = ()

    @property
    def was_replayed(self) -> bool:
        """Return whether any rebalance of the group was simulated.

        Share groups, for example, are not simulated.
        """
        return bool(self.figures)

    @property
    def under_settings(self) -> bool:
        """Return whether this group is a Kafka Streams application that was simulated.

        Such a simulation shows its outages under other settings, such as another task assignor.
        """
        return any(one.simulated for one in self.streams)

    @cached_property
    def recorded_figures(self) -> PolicyFigures:
        """Metrics of the group's recorded assignments, with which simulated ones are compared.

        Those of simulated policies are compared with them.
        """
        return self.figures.get(RECORDED, PolicyFigures.from_sums(RECORDED))

    @property
    def has_reliable_downtime(self) -> bool:
        """Return whether the log has enough of the group's rebalances for a reliable downtime.

        At least 90 % of them must be in the log.
        """
        return self.coverage is None or self.coverage >= MIN_COVERAGE

    @cached_property
    def downtime_bounds(self) -> FigureRange | None:
        """Lower and upper bound of the recorded downtime in partition-seconds; None if unknown.

        Downtime is the time in which partitions had no consumer. `downtime_estimate` is the best
        estimate.
        """
        return _known_downtime(self.recorded_figures, covered=self.has_reliable_downtime)

    @cached_property
    def downtime_estimate(self) -> Estimate | None:
        """Best estimate of the recorded downtime in partition-seconds; None if unknown.

        Downtime (unread time) is the time in which partitions had no consumer.
        """
        return self.recorded_figures.stopped_estimate if self.downtime_bounds is not None else None

    @property
    def unread_share(self) -> float | None:
        """The group's estimated downtime as a share of the time in which its partitions had an
        owner.

        It is a fraction from 0 to 1, or None if it is unknown.
        """
        if self.downtime_estimate is None or not self.assigned_ps:
            return None
        return min(1.0, self.downtime_estimate.best / self.assigned_ps)

    @property
    def rebalances_per_hour(self) -> float | None:
        """Rebalances per hour, from the group's first record to the end of the log; None if
        unknown.
        """
        return self.rebalances * 3_600_000 / self.span_ms if self.span_ms > 0 else None

    @property
    def main_cause(self) -> CauseShare | None:
        """The kind of cause whose rebalances had the most downtime, such as ``leave``.

        The group's first rebalance in the log is not counted. The result is None if there is no
        other rebalance.
        """
        # The group's first rebalance in the log counts as no cause.
        return next((c for c in self.causes if c.kind != "first"), None)

    @property
    def last_strategy(self) -> str:
        """The assignment strategy that the group chose last; "" if none is known."""
        return self.claimed[-1] if self.claimed else ""


def once_per_group(function: Callable[[GroupFigures], T]) -> Callable[[GroupFigures], T]:
    """Decorate a function of one consumer group so that its result is computed once per group.

    The result is cached in the group itself, which never changes.
    """
    # Figures of a group do not change, and so the result does not either.
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def stored(group: GroupFigures) -> T:
        known = group.__dict__
        if name not in known:
            known[name] = function(group)
        found: T = known[name]
        return found

    return stored


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A log record that could not be decoded, with its position and the reason.

    ``part`` is the damaged part of the record, such as its key or value.
    """

    partition: int | None
    offset: int | None
    part: str
    why: str
    group: str | None


@dataclass(frozen=True, slots=True)
class BackTest:
    """Test of the simulation on a consumer group that changed its settings during the recording.

    The rebalances after the change are simulated with the old settings. A good simulation gives
    about the downtime per rebalance that was recorded before the change. Downtimes are
    partition-seconds per rebalance.

    Attributes:
        group: name of the group.
        time_ms: time of the first rebalance with the new settings.
        old, new: policies before and after the change.
        before, after: recorded downtime before and after the change.
        simulated: downtime of the old policy, simulated on the rebalances after the change.
    """

    group: str
    time_ms: int
    old: str
    new: str
    before: Estimate
    after: Estimate
    simulated: Estimate

    @property
    def agrees_with_recording(self) -> bool:
        """Return whether the simulation of the old settings agrees with the recorded downtime.

        It agrees if their 80 % intervals overlap.
        """
        return self.simulated.low <= self.before.high and self.before.low <= self.simulated.high


@dataclass(frozen=True, slots=True)
class RunFigures:
    """All data of a published run that the report shows, with its consumer groups.

    The HTML page, the terminal output and the JSON document are made from it.

    Attributes:
        summary: the content of ``summary.json``.
        groups: all groups of the log, the largest downtime first.
        policies: names of the policies in display order, without `RECORDED`.
        figures: dict from policy to metrics over all groups.
        per_rebalance: dict from policy to metrics of the simulation per rebalance, if there is one.
        causes: shares of causes over all groups, the largest downtime first.
        bad: the first records that could not be decoded.
        back_tests: changes of settings within the log, with the old ones simulated afterwards.
    """

    summary: Mapping[str, Any]
    groups: tuple[GroupFigures, ...]
    policies: tuple[str, ...]
    figures: Mapping[str, PolicyFigures]
    per_rebalance: Mapping[str, PolicyFigures]
    causes: tuple[CauseShare, ...]
    bad: tuple[BadRecord, ...]
    back_tests: tuple[BackTest, ...] = ()

    @property
    def groups_with_rebalances(self) -> tuple[GroupFigures, ...]:
        """Groups with at least one rebalance in the log."""
        return tuple(g for g in self.groups if g.rebalances)

    @property
    def other_groups(self) -> tuple[GroupFigures, ...]:
        """Groups that were not simulated, such as share groups.

        A Streams application counts as simulated if it was simulated under other settings.
        """
        return tuple(g for g in self.groups if not g.was_replayed and not g.under_settings)

    @property
    def simulated_applications(self) -> tuple[GroupFigures, ...]:
        """Kafka Streams applications that were simulated under other settings."""
        return tuple(g for g in self.groups if g.under_settings)

    @property
    def failed_groups(self) -> tuple[GroupFigures, ...]:
        """Groups whose simulation ended with an error in Partage."""
        return tuple(g for g in self.groups if g.status == FAILED)

    @property
    def strategy_failures(self) -> tuple[Mapping[str, Any], ...]:
        """The first exceptions that assignment strategies raised during the simulation.

        Each is a dict with group, generation, strategy and reason.
        """
        return tuple(self.summary.get("failures", ()))

    @property
    def recorded_figures(self) -> PolicyFigures:
        """Metrics of the recorded assignments, summed over all groups."""
        return self.figures.get(RECORDED, PolicyFigures.from_sums(RECORDED))

    @property
    def in_log(self) -> int:
        """Number of rebalances that the log contains; compaction may have removed further ones."""
        return int(self.summary.get("coverage", {}).get("rebalances", 0))

    @property
    def rebalance_count(self) -> int:
        """Number of all rebalances, including those that compaction removed from the log.

        Removed ones leave gaps in the generation numbers.
        """
        cover = self.summary.get("coverage", {})
        return (
            self.in_log + int(cover.get("missing_before", 0)) + int(cover.get("missing_within", 0))
        )

    @property
    def has_reliable_downtime(self) -> bool:
        """Return whether the log has enough of all rebalances for a reliable total downtime.

        At least 90 % of them must be in the log.
        """
        return self.in_log >= MIN_COVERAGE * self.rebalance_count

    @property
    def downtime_bounds(self) -> FigureRange | None:
        """Lower and upper bound of the recorded downtime of all groups in partition-seconds.

        Downtime is the time in which partitions had no consumer. None means unknown.
        """
        return _known_downtime(self.recorded_figures, covered=self.has_reliable_downtime)

    @property
    def downtime_estimate(self) -> Estimate | None:
        """Best estimate of the recorded downtime of all groups, in partition-seconds; None if
        unknown.

        Downtime is the time in which partitions had no consumer.
        """
        return self.recorded_figures.stopped_estimate if self.downtime_bounds is not None else None

    @property
    def assigned_ps(self) -> float:
        """Total time in which partitions were assigned to a member, in partition-seconds.

        Only groups with an estimated downtime count, so that both can be compared.
        """
        return sum(g.assigned_ps for g in self.groups if g.downtime_estimate is not None)
