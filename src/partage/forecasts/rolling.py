"""Forecast of a rolling deployment by simulation (Monte Carlo with a seed).

Pods are replaced as Kubernetes does it: never more than ``max_surge`` additional pods, never more
than ``max_unavailable`` pods missing, the next one when the last new one is ready. Each simulated
deployment draws restart times, heartbeat phases and commit times. The result is the mean of all
simulated deployments, with the interval that contains 80 % of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import exp, hypot, log, sqrt

import numpy as np

from partage.errors import InvalidConfigError
from partage.forecasts.group_protocols import (
    AssignmentCache,
    GroupSettings,
    SimulatedClassicGroup,
    SimulatedConsumerGroup,
    SimulatedGroup,
)
from partage.forecasts.loads import GroupLoad
from partage.forecasts.migration import MOST_SESSION_MS, supports
from partage.forecasts.random_draws import RandomDraws
from partage.history.causes import SESSION_TIMEOUT_MS
from partage.history.stop_model import DEFAULT_COMMIT_MS, INTERVAL_WIDTH
from partage.model.display import pretty_print, text_table
from partage.simulation.clock import Clock
from partage.simulation.policies import CONSUMER, Policy
from partage.tables.sums import Estimate

__all__ = [
    "DEFAULT_COMMIT_S",
    "DEFAULT_SESSION_S",
    "Deployment",
    "RestartTime",
    "RolloutForecast",
    "RolloutForecasts",
    "alternatives",
    "forecast_rollout",
    "kubernetes_lines",
    "recorded_slowdown",
    "scale_unread",
    "simulation_count",
    "slowdown_under",
]

#: Distance of the 10th and 90th percentile from the median of a normal distribution.
_TENTH = 1.2816
#: Spread of a restart time that is given without one: 80 % within a factor of this.
_DEFAULT_SPREAD = 1.25
#: Factor of an interval's width for heavy tails, as in `partage.history.stop_model`.
_TAILS = INTERVAL_WIDTH / _TENTH
#: Simulated deployments: as many as this number of rebalances allows, within limits. A pod's
#: replacement has about three: its departure, its return, and the follow-up of a cooperative one.
_REBALANCES, _FEWEST, _MOST = 2_400, 40, 100
_REBALANCES_OF_POD = 3
#: Up to this many pods `_FEWEST` holds. With more, the pods' random numbers average out within one
#: deployment, which takes long: as many as the second number of pods allows, but not fewer than the
#: third.
_MANY_PODS, _PODS_OF_MANY, _FEWEST_OF_MANY = 40, 1_200, 10
#: A static member's session timeout must be this many times the 90th percentile of restarts.
_SESSION_MARGIN = 1.5
#: Default session timeout in seconds: session.timeout.ms of a classic member, and
#: group.consumer.session.timeout.ms of the brokers for KIP-848.
DEFAULT_SESSION_S = SESSION_TIMEOUT_MS / 1_000
#: Default of auto.commit.interval.ms, in seconds.
DEFAULT_COMMIT_S = DEFAULT_COMMIT_MS / 1_000
#: Standard deviation of the logarithm of the simulation's own error, beside chance.
_MODEL_ERROR = 0.1
#: Weight of the simulated mean beside recorded ones, in recorded rebalances (shrinkage).
_PRIOR_REBALANCES = 6
#: Longest time until the controller acts on a pod that is ready, in milliseconds. Without it, a
#: pause of whole heartbeat intervals would let every shutdown follow a heartbeat.
_NOTICE_MS = 1_000
#: Largest share of the pods that an alternative replaces at a time: the others have their load.
_LARGEST_BATCH = 0.25
#: Longest time of a restart, a pause or a timeout: a week.
_LONGEST_S = 604_800
#: Largest number of members that is simulated.
_MOST_MEMBERS = 1_000


@dataclass(frozen=True, slots=True)
class RestartTime:
    """Log-normal distribution of the time that a consumer takes to restart, in seconds.

    A restart lasts from the consumer's shutdown to its rejoin.

    Attributes:
        median: the median of the distribution (s).
        low, high: 10th and 90th percentile.
        count: number of recorded restarts that it was learnt from; 0 if it was given.
    """

    median: float
    low: float
    high: float
    count: int = 0

    @classmethod
    def from_range(cls, low: float, high: float | None = None) -> RestartTime:
        """Create the distribution of restart times from its 10th and 90th percentile, in seconds.

        Without ``high``, the only number is the median.

        Args:
            low: the 10th percentile, or the median without ``high``.
            high: the 90th percentile.

        Raises:
            InvalidConfigError: the times are not positive and ascending.

        >>> RestartTime.from_range(20.0)
        RestartTime(median=20.0, low=16.0, high=25.0, count=0)
        """
        if not 0 < low <= (low if high is None else high) <= _LONGEST_S:
            what = "must be a positive time"
            if high is not None:
                what = "must be two positive times, the shorter one first,"
            given = f"{low:g}" if high is None else f"{low:g}..{high:g}"
            raise InvalidConfigError("restart_time", f"{what} of at most {_LONGEST_S} s", given)
        if high is None:
            return cls(low, low / _DEFAULT_SPREAD, low * _DEFAULT_SPREAD)
        return cls(sqrt(low * high), low, high)

    @classmethod
    def fit(cls, seconds: Sequence[float]) -> RestartTime | None:
        """Fit the distribution of restart times to recorded ones; return None if there are none.

        ``seconds`` are the recorded restart times.

        >>> round(RestartTime.fit([4.0, 5.0, 6.25]).median, 3)
        5.0
        """
        known = [log(max(one, 0.001)) for one in seconds]
        if not known:
            return None
        median = float(np.median(known))
        # With few restarts the sample's deviation is too small: add the default one as a prior.
        prior = log(_DEFAULT_SPREAD) / _TENTH
        squares = sum((one - median) ** 2 for one in known)
        sigma = sqrt((squares + 2 * prior * prior) / (len(known) + 1))
        reach = exp(_TENTH * sigma)
        return cls(exp(median), exp(median) / reach, exp(median) * reach, len(known))

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm of restart times (parameter of the distribution)."""
        return log(self.high / self.low) / (2 * _TENTH)

    @property
    def median_sigma(self) -> float:
        """Standard error of the median restart time, on a logarithmic scale.

        It is 0 if the user gave the distribution, and large if few restarts were recorded.
        """
        # It is large if few restarts were recorded.
        return self.sigma / sqrt(self.count) if self.count else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A rolling deployment of a consumer group: the group's settings, and how its pods are
    replaced.

    `forecast_rollout` forecasts its cost.

    Attributes:
        load: records per second of each partition.
        policy: protocol, strategy and static membership of the group.
        members: number of members (pods).
        restart: time from a member's shutdown to its rejoin.
        replaced: number of members that the deployment replaces; None for all.
        max_unavailable: pods that may be missing at a time.
        max_surge: additional pods at a time; 0 for static members, which need their pod's name.
        pause_s: seconds from a member's rejoin until its pod counts as ready.
        session_s: session timeout in seconds: the members' one, or the brokers' one in the
            consumer protocol.
        leaves: whether members shut down cleanly. Dynamic members then send LeaveGroup; static
            members of the classic protocol send none. False: they are killed.
        commit_s: seconds between two offset commits.
        commits_on_stop: whether a member commits when it stops or revokes partitions.
        clients: client libraries of the members; empty if unknown.
        server_session_s: session timeout of the brokers for the consumer protocol, in seconds;
            alternatives in that protocol have it.
    """

    load: GroupLoad = field(repr=False)
    policy: Policy
    members: int
    restart: RestartTime
    replaced: int | None = None
    max_unavailable: int = 1
    max_surge: int = 0
    pause_s: float = 5.0
    session_s: float = DEFAULT_SESSION_S
    leaves: bool = True
    commit_s: float = DEFAULT_COMMIT_S
    commits_on_stop: bool = True
    clients: tuple[str, ...] = ()
    server_session_s: float = DEFAULT_SESSION_S

    def __post_init__(self) -> None:
        if not 1 <= self.members <= _MOST_MEMBERS:
            raise InvalidConfigError("members", f"must be 1 to {_MOST_MEMBERS}", self.members)
        if not 1 <= self.pods <= self.members:
            what = f"must be 1 to {self.members}, the number of members"
            raise InvalidConfigError("replaced", what, self.replaced)
        unavailable, surge = self.max_unavailable, self.max_surge
        if surge < 0:
            raise InvalidConfigError("max_surge", "must not be negative", surge)
        for name, number in (("max_surge", surge), ("max_unavailable", unavailable)):
            if number > self.members:
                what = f"must be at most {self.members}, the number of members"
                raise InvalidConfigError(name, what, number)
        if self.policy.static and surge:
            what = "must be 0 for static members: a new pod takes its predecessor's id"
            raise InvalidConfigError("max_surge", what, surge)
        if unavailable < 0 or unavailable + surge < 1:
            what = "must not be negative, and it or max_surge must be at least 1"
            raise InvalidConfigError("max_unavailable", what, unavailable)
        if self.policy.static and unavailable < 1:
            what = "must be at least 1 for static members: a new pod takes its predecessor's id"
            raise InvalidConfigError("max_unavailable", what, unavailable)
        times = {"session_timeout": self.session_s, "commit_interval": self.commit_s}
        for name, seconds in times.items():
            if not 0 < seconds <= _LONGEST_S:
                what = f"must be a positive time of at most {_LONGEST_S} s"
                raise InvalidConfigError(name, what, seconds)
        if not 0 <= self.pause_s <= _LONGEST_S:
            raise InvalidConfigError("pause", f"must be 0 to {_LONGEST_S} s", self.pause_s)

    @property
    def pods(self) -> int:
        """Number of members (pods) that the rolling deployment replaces.

        It is the number of all members unless ``replaced`` is given.
        """
        return self.members if self.replaced is None else self.replaced

    @property
    def text(self) -> str:
        """Short description of the deployment, such as ``eager/range+static, 1 unavailable``."""
        more = f", {self.max_surge} surge" if self.max_surge else ""
        pods = f"{self.max_unavailable} unavailable{more}"
        return f"{self.policy.name}, {pods}{'' if self.leaves else ', killed'}"

    def text_beside(self, other: Deployment) -> str:
        """Return a short description of this deployment, to tell it apart from ``other`` in a
        table.

        The session timeout is included if the two deployments have different ones.
        """
        if self.session_s == other.session_s:
            return self.text
        return f"{self.text}, session {self.session_s:.4g} s"


@dataclass(frozen=True, slots=True)
class RolloutCost:
    """Cost of one simulated rolling deployment of a consumer group.

    A forecast is the mean of many simulations.

    Attributes:
        unread: partition-seconds without a consumer.
        duration: seconds from the first start or shutdown of a pod until all partitions are read
            by the new pods.
        rebalances: number of rebalances.
        reread: records read twice.
        stops: how often a partition had no consumer for some time.
    """

    unread: float
    duration: float
    rebalances: int
    reread: float
    stops: int


@dataclass(frozen=True, slots=True, repr=False)
class RolloutForecast:
    """Forecast of the cost of a rolling deployment, each value with its 80 % interval.

    The cost is mainly the time in which partitions have no consumer.

    Attributes:
        deployment: the group's settings, and how its pods are replaced.
        unread: partition-seconds without a consumer.
        duration: seconds from the first start or shutdown of a pod until the last new pod reads its
            partitions.
        rebalances: number of rebalances.
        reread: records read twice.
        samples: number of simulated deployments.
        wait_s: mean seconds for which a stopped partition has no consumer.
    """

    deployment: Deployment
    unread: Estimate
    duration: Estimate
    rebalances: Estimate
    reread: Estimate
    samples: int
    wait_s: float

    def __repr__(self) -> str:
        cells = ", ".join(f"{name} {text}" for name, text in self.cells().items())
        return f"RolloutForecast({self.deployment.text}: {cells})"

    def cells(self) -> dict[str, str]:
        """Return the forecast values as text for a table, by name with unit.

        For example, ``"unread (partition-s)"`` has the value ``"120 (80 to 190)"``.
        """
        return {
            "unread (partition-s)": _as_text(self.unread),
            "duration (s)": _as_text(self.duration),
            "rebalances": _as_text(self.rebalances), "read twice": _as_text(self.reread),
        }  # fmt: skip

    @property
    def kubernetes_lines(self) -> tuple[str, ...]:
        """Kubernetes settings of the deployment, with comments, as the command prints them."""
        return kubernetes_lines(self.deployment)


class RolloutForecasts(tuple[RolloutForecast, ...]):
    """Forecasts of a rolling deployment under several settings, which print as a table.

    The first forecast has the present settings of the group.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        if not self:
            return "()"
        present = self[0].deployment
        rows = [(one.deployment.text_beside(present), *one.cells().values()) for one in self]
        return text_table([("settings", *self[0].cells()), *rows])

    _repr_pretty_ = pretty_print


def _as_text(estimate: Estimate) -> str:
    """Format an estimate, such as ``120 (80 to 190)``; only ``120`` if it is certain."""
    best, low, high = (
        f"{value:,.0f}" if value >= 20 or value == int(value) else f"{value:.1f}"
        for value in (estimate.best, estimate.low, estimate.high)
    )
    return best if low == high else f"{best} ({low} to {high})"


def forecast_rollout(
    deployment: Deployment, *, seed: int = 0, progress: Callable[[], None] | None = None
) -> RolloutForecast:
    """Forecast the cost of a group's rolling deployment by repeated simulation.

    The cost is the time without a consumer, the duration, the rebalances and the records read
    twice.

    Args:
        deployment: the group's settings, and how its pods are replaced.
        seed: seed of the random numbers; equal seeds give equal results.
        progress: function to call after each of `simulation_count` simulated deployments.

    Raises:
        UnsupportedProblemError: the strategy is not applicable to the group.
    """
    samples = simulation_count(deployment.pods)
    cache, costs = AssignmentCache(), []
    for i in range(samples):
        costs.append(_simulate(deployment, seed * 1_000_003 + i, cache))
        if progress is not None:
            progress()
    return RolloutForecast(
        deployment,
        unread=_with_model_error(_mean_and_interval([one.unread for one in costs])),
        duration=_mean_and_interval([one.duration for one in costs]),
        rebalances=_mean_and_interval([one.rebalances for one in costs]),
        reread=_mean_and_interval([one.reread for one in costs]),
        samples=samples,
        wait_s=sum(one.unread for one in costs) / max(1, sum(one.stops for one in costs)),
    )


def simulation_count(pods: int) -> int:
    """Return how many times a rolling deployment is simulated, given its number of pods.

    Deployments of many pods take longer to simulate and vary less, so they are simulated less
    often.

    >>> [simulation_count(pods) for pods in (1, 10, 20, 40, 100, 1_000)]
    [100, 80, 40, 40, 12, 10]
    """
    if pods > _MANY_PODS:
        return max(_FEWEST_OF_MANY, _PODS_OF_MANY // pods)
    return min(_MOST, max(_FEWEST, _REBALANCES // (_REBALANCES_OF_POD * pods)))


def recorded_slowdown(recorded_s: float, rebalances: int, forecast: RolloutForecast) -> float:
    """Return how many times longer partitions had no consumer in a recording than in the
    simulation.

    Forecasts are corrected by this factor, which is at least 1. If only a few rebalances were
    recorded, it is nearer to 1.

    Args:
        recorded_s: mean seconds for which a stopped partition had no consumer in past rebalances,
            in which members joined, left or returned.
        rebalances: number of these rebalances.
        forecast: the forecast for the settings that the group had then.

    >>> from partage.forecasts.loads import constant_load
    >>> found = forecast_rollout(Deployment(
    ...     load=constant_load({"t": 4}, 0.0), policy=Policy.parse("range"), members=2,
    ...     restart=RestartTime.from_range(20.0)))
    >>> round(recorded_slowdown(3 * found.wait_s, 6, found), 2), recorded_slowdown(0.01, 6, found)
    (2.0, 1.0)
    """
    if not forecast.wait_s or not _waits_for_heartbeats(forecast.deployment):
        return 1.0
    prior = _PRIOR_REBALANCES * forecast.wait_s
    mean = (prior + rebalances * recorded_s) / (_PRIOR_REBALANCES + rebalances)
    return max(1.0, mean / forecast.wait_s)


def slowdown_under(factor: float, past: RolloutForecast, forecast: RolloutForecast) -> float:
    """Return the factor that corrects a forecast under other settings than the recorded ones.

    It adds the same number of seconds to each time without a consumer as under the recorded
    settings. The recorded factor itself would exaggerate the delays of cooperative rebalances, in
    which partitions wait for whole heartbeat intervals.

    Args:
        factor: the result of `recorded_slowdown`.
        past: the forecast for the recorded settings, before its correction.
        forecast: the forecast to correct.

    >>> from partage.forecasts.loads import constant_load
    >>> load, restart = constant_load({"t": 4}, 0.0), RestartTime.from_range(20.0)
    >>> past, other = (
    ...     forecast_rollout(Deployment(load=load, policy=Policy.parse(one), members=2,
    ...                                 restart=restart))
    ...     for one in ("range", "cooperative-sticky"))
    >>> slowdown_under(2.0, past, past), 1.0 < slowdown_under(2.0, past, other) < 2.0
    (2.0, True)
    """
    if not forecast.wait_s:
        return 1.0
    return 1.0 + (factor - 1.0) * past.wait_s / forecast.wait_s


def scale_unread(forecast: RolloutForecast, factor: float) -> RolloutForecast:
    """Multiply a forecast's time without a consumer by a factor that corrects the simulation.

    Forecasts of static or killed members do not change, because they depend on restarts and session
    timeouts only.

    Args:
        forecast: the forecast of a rolling deployment.
        factor: the result of `recorded_slowdown` or `slowdown_under`.
    """
    if factor == 1.0 or not _waits_for_heartbeats(forecast.deployment):
        return forecast
    one = forecast.unread
    scaled = Estimate(factor * one.best, factor * one.low, factor * one.high)
    return replace(forecast, unread=scaled)


def _waits_for_heartbeats(deployment: Deployment) -> bool:
    return deployment.leaves and not deployment.policy.static


def _with_model_error(estimate: Estimate) -> Estimate:
    """Widen the interval of a simulated estimate by the known error of the simulation.

    The error was determined by comparing simulations with measurements.
    """
    if estimate.low <= 0:  # an interval that begins at 0 is wider than the error of the model
        return estimate
    own = _TENTH * _MODEL_ERROR
    below = hypot(log(estimate.best / estimate.low), own)
    above = hypot(log(estimate.high / estimate.best), own)
    return Estimate(estimate.best, estimate.best * exp(-below), estimate.best * exp(above))


def _mean_and_interval(values: Sequence[float]) -> Estimate:
    """Return the mean of the results of repeated simulations, with an 80 % interval.

    The interval is a third wider than that of the results, because real latencies have heavier
    tails. Its lower end is at least the smallest result, because a restart always takes some time.
    """
    low, high = (float(end) for end in np.percentile(values, (10, 90)))
    mean = float(np.mean(values))
    below, above = (_TAILS * max(0.0, end) for end in (mean - low, high - mean))
    return Estimate(mean, max(float(min(values)), mean - below), mean + above)


def _simulate(deployment: Deployment, seed: int, cache: AssignmentCache) -> RolloutCost:
    """Simulate one rolling deployment of a consumer group and return its cost.

    Args:
        deployment: the group's settings, and how its pods are replaced.
        seed: seed of the random numbers.
        cache: cache of computed assignments, shared by repeated simulations; changed in place.
    """
    draws, clock = RandomDraws(seed), Clock()
    settings = GroupSettings(
        deployment.load.cluster, deployment.policy, tuple(deployment.load.rate.tolist()),
        1_000 * deployment.session_s, deployment.leaves, 1_000 * deployment.commit_s,
        deployment.commits_on_stop,
    )  # fmt: skip
    restart = deployment.restart
    median = draws.lognormal(restart.median, restart.median_sigma)
    times = [draws.lognormal(median, restart.sigma) for _ in range(deployment.pods)]
    kind = (
        SimulatedConsumerGroup if deployment.policy.protocol == CONSUMER else SimulatedClassicGroup
    )
    group = kind(settings, clock, draws, cache)
    notice = [draws.uniform(0, _NOTICE_MS) for _ in times]
    rollout = _Rollout(deployment, group, clock, times, notice)
    rollout.begin()
    clock.run_scheduled()
    end_ms = max(group.costs.last_ms, rollout.last_ms)
    return RolloutCost(
        group.costs.unread_ms / 1_000,
        end_ms / 1_000,
        group.rebalances,
        group.costs.reread,
        group.costs.resumed,
    )


class _Rollout:
    """Simulated Kubernetes controller that replaces the pods of a consumer group in turn.

    It starts new pods and stops old ones in simulated time.
    """

    def __init__(
        self,
        deployment: Deployment,
        group: SimulatedGroup,
        clock: Clock,
        times: Sequence[float],
        notice_ms: Sequence[float],
    ) -> None:
        self._group, self._clock, self._times, self._notice_ms = group, clock, times, notice_ms
        self._pods = [f"pod-{i}" for i in range(deployment.members)]
        self._old = self._pods[deployment.members - deployment.pods :]
        self._untouched = deployment.members - deployment.pods
        self._size, self._static = deployment.members, deployment.policy.static
        self._surge = 0 if self._static else deployment.max_surge
        self._unavailable = deployment.max_unavailable
        self._pause_ms = int(1_000 * deployment.pause_s)
        self._stopped: list[str] = []
        self._created = self._ready = 0
        self.last_ms = 0

    def begin(self) -> None:
        """Start the simulated deployment, with all old pods in the group."""
        self._group.create_members(self._pods)
        self._proceed()

    def _proceed(self) -> None:
        """Start new pods and stop old ones, as ``maxSurge`` and ``maxUnavailable`` permit."""
        is_changed = True
        while is_changed:
            is_changed = False
            alive = self._untouched + len(self._old) + self._created
            if self._created < len(self._times) and alive < self._size + self._surge:
                self._create()
                is_changed = True
            available = self._untouched + len(self._old) + self._ready
            if self._old and available - 1 >= self._size - self._unavailable:
                key = self._old.pop()
                self._stopped.append(key)
                self._group.stop(key)
                is_changed = True

    def _create(self) -> None:
        number = self._created
        self._created += 1
        key = self._stopped[number] if self._static else f"new-{number}"
        pause_ms = self._pause_ms + int(self._notice_ms[number])
        self._clock.schedule_after(int(1_000 * self._times[number]), self._starter(key, pause_ms))

    def _starter(self, key: str, pause_ms: int) -> Callable[[], None]:
        def ready() -> None:
            self._ready += 1
            self._proceed()

        def start() -> None:
            self._group.start(key)
            self.last_ms = self._clock.now_ms
            self._clock.schedule_after(pause_ms, ready)

        return start


def alternatives(deployment: Deployment) -> tuple[Deployment, ...]:
    """Return variants of a rolling deployment that may cost less than the deployment itself.

    The variants are: cooperative or server-side assignment, static membership with a sufficient
    session timeout, a clean shutdown, additional pods during the update (``maxSurge``), and batches
    of twice the size if these are at most a quarter of the pods. Static members of the consumer
    protocol get a session timeout that brokers accept by default, which may be too short for their
    restarts. Protocols that a client library of the members does not support are left out.

    Args:
        deployment: the deployment with the present settings.
    """
    out: list[Deployment] = []
    own = deployment.policy
    clean = replace(deployment, leaves=True)
    unavailable = max(1, deployment.max_unavailable)

    def under(policy: Policy) -> Deployment:
        """Return the deployment under another policy, with the session timeout that the policy
        needs.
        """
        session_s = _session_timeout(deployment, policy)
        if not policy.static:
            return replace(clean, policy=policy, session_s=session_s)
        return replace(
            clean, policy=policy, session_s=session_s, max_surge=0, max_unavailable=unavailable
        )

    if own.static and under(own).session_s > deployment.session_s:
        out.append(under(own))
    if not deployment.leaves and not own.static:
        out.append(clean)
    if own.strategy is not None and not own.static:
        out.append(under(replace(own, static=True)))
    for name in ("cooperative/cooperative-sticky", "consumer/uniform"):
        policy = Policy.parse(name)
        if policy.protocol != own.protocol and supports(policy.protocol, deployment.clients):
            out += [under(replace(policy, static=one)) for one in sorted({own.static, True})]
    if not own.static and not deployment.max_surge:
        out.append(replace(clean, max_surge=unavailable, max_unavailable=0))
        if 2 * unavailable <= _LARGEST_BATCH * deployment.pods:
            out.append(replace(clean, max_unavailable=2 * unavailable))
    return tuple(out)


def _session_timeout(deployment: Deployment, policy: Policy) -> float:
    """Return the session timeout in seconds for a variant of a deployment with another policy.

    It is long enough for the restarts of static members, as far as the protocol permits.
    ``deployment`` has the present settings.
    """
    # Clients set it in the classic protocol, brokers in the consumer protocol.
    is_server = policy.protocol == CONSUMER
    if is_server == (deployment.policy.protocol == CONSUMER):
        present_s = deployment.session_s
    else:
        present_s = deployment.server_session_s if is_server else DEFAULT_SESSION_S
    if not policy.static:
        return present_s
    needed_s = min(_LONGEST_S, _SESSION_MARGIN * deployment.restart.high)
    return max(present_s, min(needed_s, MOST_SESSION_MS / 1_000) if is_server else needed_s)


def kubernetes_lines(deployment: Deployment) -> tuple[str, ...]:
    """Return the Kubernetes settings of a rolling deployment as lines of text, with comments.

    Settings are lines ``field: value``; comments begin with ``#``.

    >>> from partage.forecasts.loads import constant_load
    >>> load = constant_load({"t": 2}, 0.0)
    >>> found = Deployment(load=load, policy=Policy.parse("range+static"), members=2,
    ...                    restart=RestartTime.from_range(20.0))
    >>> kubernetes_lines(found)[:2]
    ('kind: StatefulSet', 'spec.updateStrategy.rollingUpdate.maxUnavailable: 1')
    """
    grace = (
        "spec.template.spec.terminationGracePeriodSeconds: 60  # longer than one poll takes",
        "# no lifecycle.preStop sleep: it delays SIGTERM and uses up the grace period",
        "# on SIGTERM: finish the poll, commit, consumer.close()",
    )
    if deployment.policy.static:
        several = deployment.max_unavailable > 1
        return (
            "kind: StatefulSet",
            f"spec.updateStrategy.rollingUpdate.maxUnavailable: {deployment.max_unavailable}"
            f"{'  # needs feature gate MaxUnavailableStatefulSet' if several else ''}",
            "# group.instance.id: an environment variable from fieldRef metadata.name",
            *grace,
        )
    return (
        "kind: Deployment",
        f"spec.strategy.rollingUpdate.maxUnavailable: {deployment.max_unavailable}",
        f"spec.strategy.rollingUpdate.maxSurge: {deployment.max_surge}",
        *grace,
    )
