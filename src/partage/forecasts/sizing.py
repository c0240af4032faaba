"""Sizing of a group: the load of the busiest consumer for each number of consumers.

For each number of consumers the group's own strategy assigns the partitions, with all consumers and
after the busiest one has left. The judge adds up the loads. The lag is that of a fluid queue: each
consumer reads at most its capacity, records arrive at the recorded rates of each minute (Lindley's
recursion). A lag in seconds is the time that a consumer needs to read its backlog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf, isinf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage import judge
from partage.errors import InvalidConfigError, UnsupportedProblemError
from partage.forecasts.loads import MOST_RECORDS, GroupLoad
from partage.forecasts.rolling import DEFAULT_SESSION_S
from partage.groups import registry
from partage.groups.rounds import Change, GroupSimulation, Join, Leave, Round
from partage.model import Group, Member, Problem
from partage.model.display import pretty_print, text_table

__all__ = [
    "HOT_PARTITION",
    "PARTITIONS",
    "STRATEGY",
    "HottestPartition",
    "SizeRow",
    "Sizing",
    "scaler_lines",
    "size_group",
]

FloatArray = NDArray[np.float64]
_MINUTE_S = 60.0
#: Up to this many partitions, each number of consumers has a row.
_MOST_ROWS = 32
#: Use of a consumer that has no time left, and the error of sums of rates.
_FULL, _ROUNDING = 1.0, 1e-9
#: Smallest capacity in records per second, and smallest allowed lag in seconds.
_SMALLEST = 1e-6
#: Share of the allowed lag in which one consumer reads the lag threshold of an autoscaler. The rest
#: is for the start of a new pod and for its rebalance.
_SCALER_SHARE = 0.5
#: An autoscaler's largest number of pods: the busiest consumer has at most this share of the load
#: that it has with the smallest number.
_SCALED_LOAD = 0.5


@dataclass(frozen=True, slots=True)
class SizeRow:
    """Forecast of load and lag of a consumer group for one number of consumers.

    Attributes:
        consumers: number of consumers.
        busiest: records per second of the consumer with the highest load.
        spread: highest minus lowest load of a consumer, in records per second.
        use: load of the busiest consumer as a share of the capacity.
        idle: consumers without partitions.
        lag_s: longest lag in seconds; infinite if a consumer never catches up.
        use_down: ``use`` while the busiest consumer is down; None if it is the only one.
        lag_down_s: ``lag_s`` while the busiest consumer is down; None if it is the only one. A
            consumer at its full capacity cannot read the backlog of the outage.
        fits: whether both lags are within the limit.
    """

    consumers: int
    busiest: float
    spread: float
    use: float
    idle: int
    lag_s: float
    use_down: float | None
    lag_down_s: float | None
    fits: bool


@dataclass(frozen=True, slots=True)
class HottestPartition:
    """The partition with the highest load of a group, which limits the use of more consumers.

    The consumer that owns it has at least this load.

    Attributes:
        topic, partition: its topic and number.
        rate: its records per second.
        share: its share of the group's load.
        lag_s: longest lag in seconds if a consumer owns only this partition.
    """

    topic: str
    partition: int
    rate: float
    share: float
    lag_s: float


#: Values of `Sizing.limit`, the reason why no number of consumers fits. `PARTITIONS`: one consumer
#: could not keep up with a partition even if the load were spread evenly. `HOT_PARTITION`: it could
#: then, but not with the hottest partition. `STRATEGY`: one consumer for each partition would be
#: enough, but the strategy assigns more to one of them.
PARTITIONS, HOT_PARTITION, STRATEGY = "partitions", "hot partition", "strategy"


@dataclass(frozen=True, slots=True, repr=False)
class Sizing:
    """The number of consumers that a group needs, with a forecast of load and lag for each number.

    `size_group` returns it.

    Attributes:
        strategy: the strategy that assigned the partitions.
        capacity: records per second that one consumer can process.
        max_lag_s: allowed lag in seconds.
        rate: records per second of the group.
        topics: its topics.
        partitions: number of its partitions.
        hottest: the partition with the highest load.
        rows: one row for each number of consumers, ascending, or for a selection of them; the last
            one has one consumer more than there are partitions.
        needed: the smallest number of consumers that fits; None if none does.
        useful: the smallest number of consumers with the lowest load of the busiest one.
        limit: `PARTITIONS`, `HOT_PARTITION` or `STRATEGY` if no number of consumers fits; else
            None.
        outage_s: time until the group notices a dead consumer; its partitions are unread so long.
        is_selection: whether ``rows`` leaves out numbers of consumers; ``useful`` is then the best
            of those in ``rows``.
    """

    strategy: str
    capacity: float
    max_lag_s: float
    rate: float
    topics: tuple[str, ...]
    partitions: int
    hottest: HottestPartition
    rows: tuple[SizeRow, ...]
    needed: int | None
    useful: int
    limit: str | None
    outage_s: float
    is_selection: bool = False

    def row(self, consumers: int) -> SizeRow:
        """Return the forecast of load and lag for one number of consumers, which must be in
        ``rows``.
        """
        return next(row for row in self.rows if row.consumers == consumers)

    def __repr__(self) -> str:
        head = (
            f"Sizing({self.strategy}: needed {self.needed}, useful {self.useful}, limit "
            f"{self.limit}; {self.rate:,.4g} records/s, {self.partitions} partitions, capacity "
            f"{self.capacity:,.4g} records/s, lag at most {self.max_lag_s:g} s)"
        )
        columns = ("consumers", "busiest/s", "use", "idle", "lag (s)", "lag, one down (s)", "fits")
        rows = [
            (
                str(one.consumers), f"{one.busiest:,.4g}", f"{one.use:.0%}", str(one.idle),
                f"{one.lag_s:,.1f}", "-" if one.lag_down_s is None else f"{one.lag_down_s:,.1f}",
                "yes" if one.fits else "no",
            )
            for one in self.rows
        ]  # fmt: skip
        return f"{head}\n{text_table([columns, *rows], left_columns=0)}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: FBT001 - IPython's call
        pretty_print(self, printer, cycle)

    def autoscaler_lines(self, group: str) -> tuple[str, ...]:
        """Return autoscaler settings for the group as lines of YAML, as `partage size` prints them.

        ``group`` is the group's name.
        """
        return scaler_lines(self, group)


def size_group(
    load: GroupLoad,
    *,
    strategy: str,
    capacity: float,
    max_lag_s: float,
    outage_s: float = DEFAULT_SESSION_S,
    all_sizes: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Sizing:
    """Find how many consumers a group needs, with a forecast of load and lag for each number.

    The lag must stay within ``max_lag_s``, also after the busiest consumer has left. The time until
    the group notices a dead consumer is not part of this lag. All consumers subscribe to all
    topics.

    Args:
        load: records per second of each partition.
        strategy: name of the group's strategy.
        capacity: records per second that one consumer can process.
        max_lag_s: allowed lag in seconds.
        outage_s: time until the group notices a dead consumer (its session timeout), for a note.
        all_sizes: whether ``rows`` has each number of consumers; otherwise only groups of up to 32
            partitions have all of them.
        progress: function to call with "size", the number of simulated members so far, and the
            number of all in the table.

    Raises:
        InvalidConfigError: capacity or lag is not positive, or the load is zero.
        UnknownStrategyError: there is no such strategy.
        UnsupportedProblemError: the strategy is not applicable.

    >>> from partage.forecasts.loads import constant_load
    >>> found = size_group(constant_load({"orders": 12}, 600.0), strategy="range",
    ...                    capacity=200.0, max_lag_s=30)
    >>> found.needed, found.useful, found.row(5).use, found.row(5).use_down
    (5, 12, 0.75, 0.75)
    """
    for name, value in (("capacity", capacity), ("max_lag", max_lag_s)):
        if not _SMALLEST <= value <= MOST_RECORDS:
            what = f"must be a number from {_SMALLEST:g} to {MOST_RECORDS:g}"
            raise InvalidConfigError(name, what, value)
    if load.total <= 0:
        raise InvalidConfigError("group", "reads no records; give their rate")
    hottest = _hottest(load, capacity)
    partitions = load.cluster.index.partitions
    least = ceil(load.total / capacity)
    listed = range(1, partitions + 2) if all_sizes else _table_sizes(partitions, least)
    rows: dict[int, SizeRow] = {}

    def row(consumers: int) -> SizeRow:
        if consumers not in rows:
            rows[consumers] = _size_row(load, consumers, strategy, capacity, max_lag_s)
            if progress is not None:
                total = sum(listed)
                progress("size", min(total, sum(rows)), total)
        return rows[consumers]

    fitting = next((one for one in listed if row(one).fits), None)
    needed = None
    if fitting is not None:
        # With some strategies one consumer more raises the highest load: try each number below.
        bound = max(1, least - 1, _fewest_by_count(load.rate, capacity))
        below = [one for one in range(bound, fitting) if one not in rows]
        check = _PlanCheck(load, strategy, capacity, max_lag_s, fitting) if below else None
        promising = (one for one in below if check is not None and check.may_fit(one))
        needed = next((one for one in promising if row(one).fits), fitting)
    shown = sorted({*listed, *([] if needed is None else [needed])})
    lowest = min(row(one).busiest for one in shown)
    useful = min(one for one in shown if row(one).busiest <= lowest * (1 + 1e-9))
    limit = _limiting_factor(load, capacity, max_lag_s) if needed is None else None
    return Sizing(
        strategy, capacity, max_lag_s, load.total, tuple(load.topics), partitions, hottest,
        tuple(map(row, shown)), needed, useful, limit, outage_s, len(shown) <= partitions,
    )  # fmt: skip


def _limiting_factor(load: GroupLoad, capacity: float, max_lag_s: float) -> str:
    """Return the reason why no number of consumers keeps a group's lag within the allowed time.

    Args:
        load: records per second of each partition.
        capacity: records per second that one consumer can process.
        max_lag_s: allowed lag in seconds.

    Returns:
        `HOT_PARTITION` if one partition has too much load for a consumer, `PARTITIONS` if there are
            too few partitions, or `STRATEGY` if the strategy overloads one consumer.
    """

    def fits(arriving: FloatArray) -> bool:
        is_full = bool((arriving.mean(axis=0) >= capacity * (_FULL - _ROUNDING)).any())
        return not is_full and _longest_lag(arriving, capacity) <= max_lag_s

    if fits(load.by_minute):  # one consumer for each partition would be enough
        return STRATEGY
    return HOT_PARTITION if fits(load.by_minute.mean(axis=1, keepdims=True)) else PARTITIONS


def _table_sizes(partitions: int, near: int) -> Sequence[int]:
    """Return the numbers of consumers for which the forecast table has a row, ascending.

    The table of a group with many partitions leaves out most numbers.

    Args:
        partitions: number of partitions of the group.
        near: number of consumers of interest, whose neighbours are included.
    """
    # If there are many partitions, the sizes are a selection: divisors of the number of partitions,
    # powers of sqrt(2), and numbers close to ``near``. The largest is one more than the partitions.
    most = partitions + 1
    if partitions <= _MOST_ROWS:
        return range(1, most + 1)
    divisors = {n for n in range(1, partitions + 1) if partitions % n == 0}
    steps = {round(2 ** (i / 2)) for i in range(40)}
    close = {near + i for i in range(-1, 5)}
    return sorted(n for n in divisors | steps | close | {most} if 1 <= n <= most)


def _size_row(
    load: GroupLoad, consumers: int, strategy: str, capacity: float, max_lag_s: float
) -> SizeRow:
    simulation = GroupSimulation(registry.load(strategy), load.cluster)
    full = _rebalance(simulation, _join(load, consumers))
    loads = judge.member_loads(full.plan, full.group, full.cluster, load.rate)
    figures = judge.measure(full.plan, full.group, full.cluster, partition_weight=load.rate)
    lag_s = _longest_lag(_loads_by_minute(load, full), capacity)
    use_down = lag_down_s = None
    if consumers > 1:
        down = _rebalance(simulation, Leave(full.group[int(loads.argmax())].id))
        left = judge.member_loads(down.plan, down.group, down.cluster, load.rate)
        use_down = float(left.max()) / capacity
        lag_down_s = _longest_lag(_loads_by_minute(load, down), capacity)
        if use_down >= _FULL - _ROUNDING:
            lag_down_s = inf  # no time is left to read the backlog of the outage
    fits = lag_s <= max_lag_s and lag_down_s is not None and lag_down_s <= max_lag_s
    return SizeRow(
        consumers, float(loads.max()), figures.load_spread or 0.0, float(loads.max()) / capacity,
        figures.idle, lag_s, use_down, lag_down_s, fits,
    )  # fmt: skip


def _fewest_by_count(rate: FloatArray, capacity: float) -> int:
    """Return a lower bound of the number of consumers that a group needs, even if one of them is
    down.

    One of n consumers has at least ceil(partitions / n) partitions. If even that many partitions
    with the lowest rates exceed its capacity, n consumers are not enough.

    Args:
        rate: records per second of each partition (float64[partitions]).
        capacity: records per second that one consumer can process.

    >>> _fewest_by_count(np.full(12, 50.0), 200.0)
    5
    """
    lowest = np.cumsum(np.sort(rate))
    # As in `_size_row`, a consumer at its full capacity is too busy. The tolerance is smaller here,
    # because the order of the additions differs.
    most = int(np.searchsorted(lowest, capacity * (_FULL - _ROUNDING / 2)))
    return 1 + ceil(len(rate) / most) if most else len(rate) + 1


class _PlanCheck:
    """Fast test that excludes numbers of consumers that are certainly too small for a group.

    It computes one assignment with all consumers. If the strategy ignores present owners, it also
    computes one without the busiest consumer.
    """

    def __init__(
        self, load: GroupLoad, strategy: str, capacity: float, max_lag_s: float, most: int
    ) -> None:
        self._load, self._capacity, self._max_lag_s = load, capacity, max_lag_s
        self._strategy = registry.load(strategy)
        joined = _rebalance(GroupSimulation(self._strategy, load.cluster), _join(load, most))
        self._members = tuple(joined.group)
        self._ignores_owners = not getattr(self._strategy, "reads_claims", True)

    def may_fit(self, consumers: int) -> bool:
        """Return False if a number of consumers is certainly not enough; True if it may be.

        ``consumers`` is at most the largest number that was given when the check was created.
        """
        members = self._members[:consumers]
        loads, lag_s = self._plan(members)
        if lag_s > self._max_lag_s or consumers == 1:
            return False
        if not self._ignores_owners:
            return True
        busiest = int(loads.argmax())
        loads, lag_s = self._plan(members[:busiest] + members[busiest + 1 :])
        is_full = float(loads.max()) / self._capacity >= _FULL - _ROUNDING
        return not is_full and lag_s <= self._max_lag_s

    def _plan(self, members: Sequence[Member]) -> tuple[FloatArray, float]:
        """Assign all partitions to some members, and return each member's load and the longest lag.

        The loads are float64[members], the lag is in seconds.
        """
        group, cluster = Group(members), self._load.cluster
        plan = registry.assign_with(self._strategy, Problem(group, cluster))
        loads = judge.member_loads(plan, group, cluster, self._load.rate)
        arriving = judge.member_loads(plan, group, cluster, self._load.by_minute)
        return loads, _longest_lag(arriving, self._capacity)


def _join(load: GroupLoad, consumers: int) -> Join:
    topics = list(load.topics)
    return Join(*(Member(f"consumer-{i:05}", topics) for i in range(consumers)))


def _rebalance(simulation: GroupSimulation, change: Change) -> Round:
    """Let members join or leave a simulated group; return the last rebalance that this causes.

    Raises:
        UnsupportedProblemError: the strategy is not applicable.
    """
    simulation.apply_change(change)
    last = simulation.rounds[-1]
    if last.refused is not None:
        raise UnsupportedProblemError(last.refused)
    return last


def _loads_by_minute(load: GroupLoad, rebalance: Round) -> FloatArray:
    """Return the load of each consumer in each minute (records per second).

    Args:
        load: records per second of each partition by minute.
        rebalance: the assignment of partitions to consumers.

    Returns:
        float64[minutes, members].
    """
    return judge.member_loads(rebalance.plan, rebalance.group, rebalance.cluster, load.by_minute)


def _longest_lag(arriving: FloatArray, capacity: float) -> float:
    """Return the longest lag in seconds of any member; infinite if a member never catches up.

    The lag of each member is simulated minute by minute as a queue (Lindley's recursion).

    Args:
        arriving: records per second of each member and minute (float64[minutes, members]).
        capacity: records per second that a member can process.

    >>> _longest_lag(np.array([[1.0], [3.0], [1.0]]), 2.0)
    30.0
    >>> _longest_lag(np.array([[3.0]]), 2.0)
    inf
    """
    if bool((arriving.mean(axis=0) > capacity * (_FULL + _ROUNDING)).any()):
        return inf
    surplus = np.cumsum((arriving - capacity) * _MINUTE_S, axis=0)
    lowest = np.minimum(np.minimum.accumulate(surplus, axis=0), 0.0)
    return float((surplus - lowest).max()) / capacity


def _hottest(load: GroupLoad, capacity: float) -> HottestPartition:
    dense = int(load.rate.argmax())
    topic, partition = load.cluster.index.name(dense)
    rate = float(load.rate[dense])
    lag_s = _longest_lag(load.by_minute[:, dense : dense + 1], capacity)
    return HottestPartition(topic, partition, rate, rate / load.total, lag_s)


# -- autoscaler settings -----------------------------------------------------------------------


def scaler_lines(sizing: Sizing, group: str) -> tuple[str, ...]:
    """Return autoscaler settings for a group, as lines of YAML.

    They are for a KEDA ScaledObject or a HorizontalPodAutoscaler; ``<...>`` marks values that
    Partage does not know. The autoscaler adds a pod when the lag per pod exceeds what a consumer
    reads in half of the lag that ``sizing`` allows. The result is empty if no number of consumers
    keeps the allowed lag. ``group`` is the group's name.

    >>> from partage.forecasts.loads import constant_load
    >>> found = size_group(constant_load({"orders": 12}, 600.0), strategy="range",
    ...                    capacity=200.0, max_lag_s=30)
    >>> scaler_lines(found, "billing")[:3]
    ('# KEDA ScaledObject', 'minReplicaCount: 5', 'maxReplicaCount: 12')
    """
    if sizing.needed is None:
        return ()
    threshold = max(1, int(sizing.capacity * sizing.max_lag_s * _SCALER_SHARE))
    most = _most_replicas(sizing, sizing.needed)
    # Without it KEDA never has more pods than the topic has partitions.
    idle = ['      allowIdleConsumers: "true"'] if most > sizing.partitions else []
    topic = [f"      topic: {_quote_yaml(sizing.topics[0])}"] if len(sizing.topics) == 1 else []
    # Each step of an autoscaler is a rebalance: scale down slowly.
    wait = max(300, 10 * ceil(0 if isinf(sizing.outage_s) else sizing.outage_s))
    behavior = ["behavior:", "  scaleDown:", f"    stabilizationWindowSeconds: {wait}"]
    return (
        "# KEDA ScaledObject",
        f"minReplicaCount: {sizing.needed}",
        f"maxReplicaCount: {most}",
        "triggers:",
        "  - type: kafka",
        "    metadata:",
        "      bootstrapServers: <host:port,...>",
        f"      consumerGroup: {_quote_yaml(group)}",
        *topic,
        *idle,
        f'      lagThreshold: "{threshold}"',
        "advanced:",
        "  horizontalPodAutoscalerConfig:",
        *(f"    {line}" for line in behavior),
        "# or HorizontalPodAutoscaler, with an external metric of the group's lag in records",
        f"minReplicas: {sizing.needed}",
        f"maxReplicas: {most}",
        "metrics:",
        "  - type: External",
        "    external:",
        "      metric: {name: <metric of the group's lag>}",
        f'      target: {{type: AverageValue, averageValue: "{threshold}"}}',
        *behavior,
    )


def _most_replicas(sizing: Sizing, needed: int) -> int:
    """Return the largest number of pods that an autoscaler should start.

    It is the smallest listed number with which the busiest consumer has at most half the load that
    it has with the needed number. If there is none, it is `Sizing.useful`.

    Args:
        sizing: the result of `size_group`.
        needed: the number of consumers that the group needs.
    """
    target = _SCALED_LOAD * sizing.row(needed).busiest * (1 + 1e-9)
    enough = (
        one.consumers for one in sizing.rows if one.consumers > needed and one.busiest <= target
    )
    return next(enough, max(needed, sizing.useful))


def _quote_yaml(text: str) -> str:
    """Quote a name as a YAML string in single quotes.

    Single quotes within the name are doubled.
    """
    return "'" + text.replace("'", "''") + "'"
