"""Forecasts from a finished run, a measured group or numbers alone: `forecast`, `migrate`, `size`.

This module reads the tables of a run; `partage.forecasts` computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from partage.errors import InvalidConfigError, UnknownStrategyError, UnsupportedProblemError
from partage.forecasts.loads import (
    CommitMinute,
    GroupLoad,
    LearntCapacity,
    OwnedSpan,
    constant_load,
    learn_capacity,
    load_by_minute,
)
from partage.forecasts.measured import MeasuredGroup, check_strategy, has_no_consumers
from partage.forecasts.migration import (
    PROTOCOLS,
    Effect,
    Migration,
    plan_migration,
    target_policy,
)
from partage.forecasts.restarts import RestartEvidence, learn_restarts
from partage.forecasts.rolling import (
    DEFAULT_COMMIT_S,
    DEFAULT_SESSION_S,
    Deployment,
    RestartTime,
    RolloutForecast,
    RolloutForecasts,
    alternatives,
    forecast_rollout,
    recorded_slowdown,
    scale_unread,
    simulation_count,
    slowdown_under,
)
from partage.forecasts.sizing import Sizing, size_group
from partage.groups import registry
from partage.model.arguments import check_argument_types
from partage.results.run import Run, open_run
from partage.simulation.policies import CONSUMER, Policy
from partage.tables.statuses import RECORDED
from partage.tables.sums import Estimate

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RecordedGroup", "forecast", "migrate", "size"]

#: Strategy of a consumer group whose record names none: the first of `group.consumer.assignors`.
_SERVER_DEFAULT = "server:uniform"


class RecordedGroup:
    """A consumer group of a finished replay, with the recorded data on which forecasts are based.

    These are its members, its load and its settings.

    Args:
        run: the finished replay.
        group: name of the group; None if the run has only one group.

    Attributes:
        run: the finished replay.
        group: name of the group.

    Raises:
        InvalidConfigError: the run has no such group, or ``group`` is None and there are several.
    """

    def __init__(self, run: Run, group: str | None = None) -> None:
        names = [name for name in _column(run.table("groups"), "group") if name is not None]
        if group is None and len(names) != 1:
            raise InvalidConfigError("group", f"name one of the {len(names)} groups")
        self.run = run
        self.group = names[0] if group is None else group
        if self.group not in names:
            run.group(self.group)  # raises, and names the groups of the run

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the consumer group's rows of an output table, as dicts.

        The list is empty if the run lacks the table.
        """
        from pyarrow import compute as pc

        if table not in self.run.tables:
            return []
        of_group = pc.field("group") == self.group
        found = self.run._published.table(table, where=of_group)  # noqa: SLF001 - reads one group only
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    @cached_property
    def rebalances(self) -> list[dict[str, Any]]:
        """The group's recorded rebalances in log order.

        Each is a row (dict) of the table ``rebalances``.
        """
        return sorted(
            self.rows("rebalances"), key=lambda row: (row["log_partition"], row["log_offset"])
        )

    @cached_property
    def members(self) -> list[dict[str, Any]]:
        """The group's members after the last recorded rebalance that left it with members.

        Each is a row (dict) of the table ``members``.
        """
        # They are in the order of the log's group record.
        rows = self.rows("members")
        if not rows:
            return []
        newest = max((row["incarnation"], row["generation"]) for row in rows)
        found = [row for row in rows if (row["incarnation"], row["generation"]) == newest]
        return sorted(found, key=lambda row: int(row["position"]))

    @cached_property
    def topics(self) -> dict[str, int]:
        """The topics that the group reads: a dict from topic to its number of partitions.

        The numbers follow from the recorded owners, or from the offset commits if there are no
        owners.
        """
        pairs = {(row["topic"], int(row["partition"])) for row in self.rows("ownership")}
        if not pairs:
            pairs = {(row["topic"], int(row["partition"])) for row in self.rows("commit_rates")}
        subscribed = {topic for member in self.members for topic in member["topics"] or ()}
        counts: dict[str, int] = {}
        for topic, partition in sorted(pairs):
            if topic in subscribed or not subscribed:
                counts[topic] = max(counts.get(topic, 0), partition + 1)
        return counts

    @property
    def strategy(self) -> str:
        """Name of the assignment strategy that the group used last.

        Raises:
            InvalidConfigError: no strategy was recorded, or Partage does not have it.
        """
        for row in reversed(self.rebalances):
            name = row["strategy"]
            if row["protocol"] in ("share", "streams"):
                what = has_no_consumers(row["protocol"])
                raise InvalidConfigError("group", what, self.group)
            if row["protocol"] != "classic":
                server = f"server:{name}"
                known = {name, server} & set(registry.strategies())
                return min(known) if name and known else _SERVER_DEFAULT
            if name:
                return check_strategy(self.group, str(name))
        if not self.members:
            raise InvalidConfigError("group", "has no members in the run", self.group)
        raise InvalidConfigError("strategy", "the run has none for this group", self.group)

    @property
    def session_s(self) -> float:
        """Session timeout of the group's current members, in seconds.

        Members of the consumer protocol (KIP-848) send none. Theirs is the broker's setting, or
        Kafka's default if that is unknown.
        """
        return self._longest_sent_s or self.server_session_s

    @property
    def member_session_s(self) -> float:
        """Longest session timeout that current members sent when they joined, in seconds.

        It is Kafka's default if none did, as in the consumer protocol.
        """
        return self._longest_sent_s or DEFAULT_SESSION_S

    @property
    def _longest_sent_s(self) -> float:
        """Longest session timeout that the group's current members sent when they joined, in
        seconds.

        It is 0 if no member sent one.
        """
        return max(0, *(int(row["session_timeout_ms"]) for row in self.members), 0) / 1_000

    @property
    def clients(self) -> tuple[str, ...]:
        """Kafka client library of each current member of the group, such as ``java``."""
        return tuple(str(row["client"]) for row in self.members)

    @property
    def server_session_s(self) -> float:
        """Session timeout (seconds) that the broker sets for members of the consumer protocol
        (KIP-848).

        It is the broker's setting if it was recorded, else Kafka's default.
        """
        recorded_ms = self.run.summary.get("session_timeout_ms")
        return DEFAULT_SESSION_S if recorded_ms is None else recorded_ms / 1_000

    @property
    def policy(self) -> Policy:
        """The group's current policy: rebalance protocol, assignment strategy and static
        membership.

        It has static membership if the members have it.

        Raises:
            InvalidConfigError: the run has no strategy that Partage can run.
        """
        found = Policy.parse(self.strategy)
        return replace(found, static=self.restarts.static)

    @cached_property
    def restarts(self) -> RestartEvidence:
        """Recorded restarts of the group's members: how often they restarted, and how long it took.

        Forecasts of rolling deployments are based on them.
        """
        names = ("events", "members", "unread", "commit_rates", "pauses")
        return learn_restarts(
            {"rebalances": self.rebalances, **{name: self.rows(name) for name in names}},
            session_s=self.session_s,
        )

    @cached_property
    def load(self) -> GroupLoad:
        """The group's load for each minute, in records per second, computed from its offset
        commits.

        Raises:
            InvalidConfigError: the run has too few commits of the group.
        """
        rows = [
            CommitMinute(
                row["topic"], int(row["partition"]), int(row["minute_ms"]), int(row["last_offset"])
            )
            for row in self.rows("commit_rates")
            if row["last_offset"] is not None
        ]
        return load_by_minute(self.topics, rows)

    @cached_property
    def capacity(self) -> LearntCapacity | None:
        """Records per second that one consumer of the group can process; None if unknown.

        It is estimated from phases in which a consumer reduced its lag.
        """
        spans = [
            OwnedSpan(
                row["topic"], int(row["partition"]), row["member"], int(row["from_ms"]),
                None if row["to_ms"] is None else int(row["to_ms"]),
            )
            for row in self.rows("ownership")
        ]  # fmt: skip
        return learn_capacity(self.load, spans)


#: What a forecast is made from: a group of a run, or one of a running cluster.
GroupInput: TypeAlias = RecordedGroup | MeasuredGroup


def _group_input(run: Run | MeasuredGroup | str | Path, group: str | None) -> GroupInput:
    """Return the data of a consumer group for a forecast, from a replay or measured in a live
    cluster.

    Args:
        run: a finished replay, its folder, or a measured group.
        group: the group's name; None if there is only one.

    Raises:
        InvalidConfigError: the input has no such group.
        InvalidCaptureError: the folder has no run.
    """
    if not isinstance(run, MeasuredGroup):
        return RecordedGroup(run if isinstance(run, Run) else open_run(run), group)
    if group not in (None, run.group):
        raise InvalidConfigError("group", f"must be {run.group}, which was measured", group)
    return run


def _column(table: pa.Table, name: str) -> list[Any]:
    values: list[Any] = table[name].to_pylist()
    return values


@check_argument_types
def size(
    run: Run | MeasuredGroup | str | Path | None = None,
    group: str | None = None,
    *,
    capacity: float | None = None,
    max_lag: float = 30.0,
    strategy: str | None = None,
    topics: Mapping[str, int] | None = None,
    rate: float | None = None,
    session_timeout: float | None = None,
    all_sizes: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Sizing:
    """Forecast the load and lag of a consumer group for each number of consumers.

    The result also says how many consumers the group needs. The load comes from a run or a
    measurement, or from the arguments ``topics`` and ``rate``.

    Args:
        run: a finished replay or its folder, or a measured group (`measure_group`); None with
            ``topics`` and ``rate``.
        group: name of the group in the run.
        capacity: records per second that one consumer can process; None learns it from the run.
        max_lag: allowed lag in seconds.
        strategy: the strategy; None takes the group's own, or ``range`` without a run.
        topics: partition count of each topic; replaces those of the run.
        rate: records per second of the group, spread evenly; replaces the rates of the run.
        session_timeout: seconds until the group notices a dead consumer; None takes the members'.
        all_sizes: whether the result has each number of consumers; otherwise it has a selection of
            them for more than 32 partitions.
        progress: function to call with "size", the number of simulated members so far, and the
            number of all in the table.

    Raises:
        InvalidConfigError: an argument has a wrong value, or the run lacks what is not given.
        InvalidCaptureError: the folder has no run.
        UnknownStrategyError: there is no such strategy.
        UnsupportedProblemError: the strategy is not applicable.

    >>> found = size(topics={"orders": 12}, rate=600, capacity=200)
    >>> found.needed, found.limit
    (5, None)
    """
    if run is None:
        if topics is None or rate is None:
            raise InvalidConfigError("run", "give a run, or topics and a rate")
        if rate == 0:
            raise InvalidConfigError("rate", "must be positive: there are no records", rate)
        load, outage_s = constant_load(topics, rate), DEFAULT_SESSION_S
        strategy = "range" if strategy is None else strategy
        if capacity is None:
            raise InvalidConfigError("capacity", "is needed without a run")
    else:
        source = _group_input(run, group)
        if strategy is None:
            strategy = check_strategy(source.group, source.strategy)
        load = _load_to_size(source, topics, rate)
        outage_s = source.session_s
        if capacity is None:
            capacity = _estimate_capacity(source)
    return size_group(
        load, strategy=strategy, capacity=capacity, max_lag_s=max_lag,
        outage_s=outage_s if session_timeout is None else session_timeout, all_sizes=all_sizes,
        progress=progress,
    )  # fmt: skip


def _load_to_size(
    group_input: GroupInput, topics: Mapping[str, int] | None, rate: float | None
) -> GroupLoad:
    """Return the load for which a group's number of consumers is forecast, in records per second.

    It is the recorded load, or a constant one if ``topics`` or ``rate`` is given.

    Args:
        group_input: the recorded or measured group.
        topics: partition count of each topic; None for the recorded ones.
        rate: records per second of the group; None for the recorded rate.
    """
    if topics is None and rate is None:
        return group_input.load
    return constant_load(
        topics or group_input.topics, group_input.load.total if rate is None else rate
    )


def _estimate_capacity(group_input: GroupInput) -> float:
    """Estimate how many records per second one consumer of a group can process.

    ``group_input`` is the recorded or measured group.

    Raises:
        InvalidConfigError: the recording has no phase in which the group worked off its lag.
    """
    found = group_input.capacity
    if found is None or not found.is_near_capacity:
        why = "no catch-up phase was recorded"
        if found is not None:
            why = f"the busiest consumer ({found.rate:,.3g} records/s) has no catch-up phase"
        what = f"cannot be learnt: {why}. Give the records per second of one consumer"
        raise InvalidConfigError("capacity", what)
    return found.rate


@check_argument_types
def forecast(
    run: Run | MeasuredGroup | str | Path | None = None,
    group: str | None = None,
    *,
    members: int | None = None,
    topics: Mapping[str, int] | None = None,
    rate: float | None = None,
    policy: str | None = None,
    restart_time: float | tuple[float, float] | None = None,
    replaced: int | None = None,
    max_unavailable: int = 1,
    max_surge: int = 0,
    pause: float = 5.0,
    session_timeout: float | None = None,
    leaves: bool | None = None,
    commit_interval: float | None = None,
    commits_on_stop: bool | None = None,
    compare: bool = True,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> RolloutForecasts:
    """Forecast a rolling deployment of a consumer group: its downtime, duration and rebalances.

    Downtime (unread time) is the time in which partitions have no consumer. The group's data comes
    from a run or a measurement, and other arguments replace parts of it. Without a run, the
    arguments give all data.

    Args:
        run: a finished replay or its folder, or a measured group (`measure_group`); None with
            ``members``, ``topics`` and ``restart_time``. The other arguments replace what it
            shows.
        group: name of the group in the run.
        members: number of members.
        topics: partition count of each topic.
        rate: records per second of the group, for the records read twice.
        policy: protocol, strategy and static membership, such as ``eager/range+static``.
        restart_time: seconds from a member's shutdown to its rejoin, or their 80 % range.
        replaced: number of members that the deployment replaces; None for all.
        max_unavailable: pods that may be missing at a time.
        max_surge: additional pods at a time.
        pause: seconds from a member's rejoin until its pod counts as ready.
        session_timeout: session timeout in seconds.
        leaves: whether members shut down cleanly, with LeaveGroup, or are killed.
        commit_interval: seconds between two offset commits.
        commits_on_stop: whether members commit when they stop or revoke partitions.
        compare: whether to forecast alternatives, too.
        seed: seed of the simulation.
        progress: function to call with "forecast", the number of simulated deployments so far, and
            the number of all.

    Returns:
        The forecast for the present settings, then alternatives, the least unread time first. It
            is a tuple that prints as a table.

    Raises:
        InvalidConfigError: an argument has a wrong value, or the run lacks what is not given.
        InvalidCaptureError: the folder has no run.
        UnknownStrategyError: there is no such strategy.
        UnsupportedProblemError: the strategy is not applicable.

    >>> found = forecast(topics={"orders": 12}, members=4, restart_time=20, policy="range")
    >>> found[0].rebalances.best, found[0].unread.low < found[0].unread.best < found[0].unread.high
    (8.0, True)
    """
    source = None if run is None else _group_input(run, group)
    evidence = None if source is None else source.restarts
    restart = None if evidence is None else evidence.restart
    if restart_time is not None:
        ends = restart_time if isinstance(restart_time, tuple) else (restart_time,)
        restart = RestartTime.from_range(*ends)
    if isinstance(source, RecordedGroup) and not source.members and members is None:
        raise InvalidConfigError("group", "has no members in the run", source.group)
    if restart is None:
        missing = "is needed"
        if source is not None:
            missing = "cannot be learnt: no restart was recorded. Give the time of one"
        raise InvalidConfigError("restart_time", missing)
    size = members if members is not None else None if evidence is None else evidence.members
    if size is None:
        raise InvalidConfigError("members", "is needed without a run")
    if policy is None:
        chosen = Policy.parse("range") if source is None else source.policy
    else:
        chosen = Policy.parse(policy)
    session_s = session_timeout
    if chosen.timeout_ms is not None:
        if session_s is not None:
            raise InvalidConfigError("session_timeout", "is in the policy, too", session_s)
        session_s, chosen = chosen.timeout_ms / 1_000, replace(chosen, timeout_ms=None)
    if session_s is None:
        session_s = DEFAULT_SESSION_S if source is None else _session_timeout(source, chosen)
    commit_s = commit_interval
    if commit_s is None:
        commit_s = DEFAULT_COMMIT_S if evidence is None else evidence.commit_s
    now = Deployment(
        load=_rollout_load(source, topics, rate), policy=chosen, members=size, restart=restart,
        replaced=replaced, max_unavailable=max_unavailable, max_surge=max_surge, pause_s=pause,
        session_s=session_s, commit_s=commit_s,
        leaves=leaves if leaves is not None else evidence is None or evidence.leaves,
        commits_on_stop=commits_on_stop if commits_on_stop is not None
        else evidence is None or evidence.commits_on_stop,
        clients=source.clients if isinstance(source, RecordedGroup) else (),
        server_session_s=source.server_session_s if isinstance(source, RecordedGroup)
        else DEFAULT_SESSION_S,
    )  # fmt: skip
    deployments = (now, *(alternatives(now) if compare else ()))
    rows = _forecast_each(deployments, seed, progress)
    found = rows[0]
    if source is not None:
        factor, past = _compute_slowdown(source, found, seed)
        rows = [scale_unread(one, slowdown_under(factor, past, one)) for one in rows]
    return RolloutForecasts((rows[0], *sorted(rows[1:], key=lambda one: one.unread.best)))


def _forecast_each(
    deployments: Sequence[Deployment],
    seed: int,
    progress: Callable[[str, int, int], None] | None,
) -> list[RolloutForecast]:
    """Forecast the downtime of each of several rolling deployments, and report the progress.

    Args:
        deployments: the deployments.
        seed: seed of the simulation.
        progress: function to call with "forecast", the number of simulated deployments so far, and
            the number of all; None for none.
    """
    if progress is None:
        return [forecast_rollout(one, seed=seed) for one in deployments]
    total = sum(simulation_count(one.pods) for one in deployments)
    counter = count(1)
    progress("forecast", 0, total)
    return [
        forecast_rollout(
            one, seed=seed, progress=lambda: progress("forecast", next(counter), total)
        )
        for one in deployments
    ]


def _session_timeout(source: GroupInput, policy: Policy) -> float:
    """Return the session timeout (seconds) of a group's members under another group configuration.

    In the consumer protocol (KIP-848) the brokers set it; in the classic protocol the members send
    it.

    Args:
        source: the recorded or measured group.
        policy: the policy to forecast.
    """
    if not isinstance(source, RecordedGroup):
        return source.session_s
    return source.server_session_s if policy.protocol == CONSUMER else source.member_session_s


def _compute_slowdown(
    source: GroupInput, found: RolloutForecast, seed: int
) -> tuple[float, RolloutForecast]:
    """Return the factor by which a group's recorded rebalances took longer than simulated ones.

    Forecasts are multiplied by this factor. It compares the record with a forecast for the recorded
    settings, which is the second result.

    Args:
        source: the recorded or measured group.
        found: the forecast that is to be scaled; used again if it has the recorded settings.
        seed: seed of the simulation.
    """
    evidence = source.restarts
    if not evidence.rebalances or not evidence.members:
        return 1.0, found
    try:
        policy = source.policy
        past = replace(
            found.deployment, policy=policy, members=evidence.members, replaced=None,
            max_unavailable=1, max_surge=0,
            session_s=_session_timeout(source, policy), leaves=evidence.leaves,
        )  # fmt: skip
        if past != found.deployment:
            found = forecast_rollout(past, seed=seed)
    except (InvalidConfigError, UnsupportedProblemError):  # the recorded strategy is unknown
        return 1.0, found
    return recorded_slowdown(evidence.unread_s, evidence.rebalances, found), found


def _rollout_load(
    group_input: GroupInput | None, topics: Mapping[str, int] | None, rate: float | None
) -> GroupLoad:
    """Return a group's load for a forecast of a rolling deployment, in records per second.

    It is the recorded load, or a constant one if ``topics`` or ``rate`` is given.

    Args:
        group_input: the recorded or measured group; None without one.
        topics: partition count of each topic; None for the recorded ones.
        rate: records per second of the group; None for the recorded rate.

    Raises:
        InvalidConfigError: the group's topics are unknown.
    """
    if group_input is None and topics is None:
        raise InvalidConfigError("topics", "are needed without a run")
    counts = group_input.topics if group_input is not None and topics is None else topics or {}
    if rate is None and topics is None and group_input is not None:
        try:
            return group_input.load
        except InvalidConfigError:  # a short recording: records read twice are unknown
            rate = 0.0
    return constant_load(counts, rate or 0.0)


@check_argument_types
def migrate(
    run: Run | str | Path,
    group: str | None = None,
    *,
    protocol: str = "consumer",
    deployments: bool = True,
) -> tuple[Migration, ...]:
    """Check whether groups can migrate to another rebalance protocol, and what they would gain.

    Args:
        run: a finished replay or its folder.
        group: name of a group; None for all groups with consumers.
        protocol: ``consumer`` (KIP-848) or ``cooperative`` (KIP-429).
        deployments: whether to forecast a rolling deployment of each group, before and after the
            migration, which takes about a second for each. The command does so with ``--group``.

    Raises:
        InvalidConfigError: the run has no such group, or there is no such protocol.
        InvalidCaptureError: the folder has no run.
    """
    if protocol not in PROTOCOLS:
        raise InvalidConfigError("protocol", f"must be one of {', '.join(PROTOCOLS)}", protocol)
    opened = run if isinstance(run, Run) else open_run(run)
    names = [group]
    if group is None:
        names = [one for one in _column(opened.table("groups"), "group") if one is not None]
    return tuple(
        _migration(RecordedGroup(opened, one), protocol, deployments=deployments) for one in names
    )


def _migration(recorded: RecordedGroup, protocol: str, *, deployments: bool) -> Migration:
    (row,) = recorded.rows("groups")
    strategy = next(
        (one["strategy"] for one in reversed(recorded.rebalances) if one["strategy"]), None
    )
    return plan_migration(
        recorded.group, protocol, kind=row["kind"], strategy=strategy, members=recorded.members,
        causes={one["cause_kind"] for one in recorded.rebalances},
        effect=_simulated_effect(recorded, protocol, strategy, deployments=deployments),
    )  # fmt: skip


def _simulated_effect(
    recorded: RecordedGroup, protocol: str, strategy: str | None, *, deployments: bool
) -> Effect | None:
    """Return how a migration to another protocol would change a group's rebalances and downtime.

    The result is None if the replay did not simulate the group with this protocol.

    Args:
        recorded: the recorded group.
        protocol: name of the new protocol.
        strategy: assignment strategy after the migration, unless the report recommends another one.
        deployments: whether to forecast a rolling deployment, too.
    """
    from partage.report.advice import best_policy
    from partage.report.gains import gain_of

    group = recorded.run.group(recorded.group)._figures  # noqa: SLF001 - the data of the report
    policy, best = target_policy(protocol, strategy), best_policy(group)
    if best is not None and best.policy.startswith(f"{protocol}/") and "+" not in best.policy:
        policy = best.policy
    found = group.figures.get(policy)
    if found is None or not found.is_comparable or RECORDED not in group.figures:
        return None
    known = _forecast_deployments(recorded, policy) if deployments else (None, None)
    gain = gain_of(group, policy)
    return Effect(policy, found.happened, group.recorded_figures.happened, gain, *known)


def _forecast_deployments(
    recorded: RecordedGroup, policy: str
) -> tuple[Estimate | None, Estimate | None]:
    """Forecast the downtime of a rolling deployment under a new policy and under the current one.

    Downtime is the time without a consumer, in partition-seconds. Both results are None if no
    restart was recorded, or if the group's strategy is unknown. ``recorded`` is the recorded group,
    ``policy`` the name of the new policy (group configuration).
    """
    try:
        target = replace(Policy.parse(policy), static=recorded.restarts.static)
        now = forecast(recorded.run, recorded.group, compare=False)
        then = forecast(recorded.run, recorded.group, policy=target.name, compare=False)
    except (InvalidConfigError, UnknownStrategyError, UnsupportedProblemError):
        return None, None
    return then[0].unread, now[0].unread
