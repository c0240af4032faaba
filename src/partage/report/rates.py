"""Rates of a run's groups: unread time, rebalances and moves by hour.

Comparisons (`partage.report.run_diff`) and limits (`partage.report.checks`) judge these rates.
They differ from the report's figures in two respects:

* The first rebalance of a group in the log does not count: the begin of the recording causes it.
* Coverage counts the generations that are missing after the group's first recorded one. A group
  that was old when the recording began is covered all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from partage.report.data import load_run, load_table
from partage.report.run import MIN_COVERAGE, GroupFigures, RunFigures
from partage.runs.published_run import PublishedRun
from partage.tables.statuses import FAILED, OFFSETS_ONLY, RECORDED
from partage.tables.sums import Estimate

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "CAUSE", "MOVED", "REBALANCES", "UNREAD", "GroupRates", "Rate", "Recording", "read_recording",
]  # fmt: skip

_KEY = ["group", "incarnation", "generation"]
_PLACE = ("group", "log_partition", "log_offset")
_HOUR_MS, _HOUR_S = 3_600_000, 3_600
#: Half the width of an 80 % interval in standard deviations of a normal distribution.
_SIGMAS = 1.2816
#: Figures with a rate; the last one is a prefix of kinds of cause.
UNREAD, REBALANCES, MOVED, CAUSE = "unread", "rebalances", "moved", "cause "


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate per hour of one metric of a consumer group, such as its rebalances, with its
    uncertainty.

    The rebalances of one episode depend on each other; episodes are independent. An episode is a
    rebalance with its follow-ups, or all rebalances of one storm.

    Attributes:
        total: the sum over all rebalances.
        squares: sum over episodes of the squared sum of each episode, for the variance.
        episodes: number of episodes with a sum above zero.
        hours: hours of observation; for unread time, hours in which partitions were assigned.
        interval: estimate of an uncertain sum such as downtime; None for a count.

    >>> Rate(6, squares=20, episodes=2, hours=3).per_hour
    2.0
    """

    total: float = 0.0
    squares: float = 0.0
    episodes: int = 0
    hours: float = 0.0
    interval: Estimate | None = None

    @property
    def per_hour(self) -> float:
        """The metric per hour: its sum divided by the observed hours.

        It is 0 if no time was observed.
        """
        return self.total / self.hours if self.hours else 0.0

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the metric's sum; 0 for an exact count.

        For an uncertain sum, such as the estimated downtime, it follows from the interval.
        """
        if self.interval is None:
            return 0.0
        return (self.interval.high - self.interval.low) / (2 * _SIGMAS)


@dataclass(frozen=True, slots=True)
class GroupRates:
    """The rates per hour of one consumer group, such as its rebalances and its downtime.

    Rates of recordings of different length can be compared. Downtime is the time in which
    partitions have no consumer.

    Attributes:
        group: the group's metrics in the report.
        coverage: share of the generations since the first recorded one that are in the log.
        rates: dict from metric to its rate if known. Metrics are `UNREAD` (partition-seconds),
            `REBALANCES`, `MOVED`, and `CAUSE` with a kind of cause.
        storms: number of rebalance storms; None if the run does not have them.
    """

    group: GroupFigures
    coverage: float
    rates: Mapping[str, Rate]
    storms: int | None = None

    @property
    def name(self) -> str:
        """The id of the group."""
        return self.group.name

    @property
    def has_enough_generations(self) -> bool:
        """Return whether the log has enough of the group's generations for reliable rates.

        For example, a compacted log may have only the newest generation.
        """
        return self.coverage >= MIN_COVERAGE and self.group.status != FAILED

    def hourly_rate(self, metric: str) -> Rate | None:
        """Return the rate per hour of one metric, such as `REBALANCES`; None if it is unknown.

        The rate of a cause that did not occur is 0 if the number of rebalances is known.
        """
        found = self.rates.get(metric)
        if found is None and metric.startswith(CAUSE) and REBALANCES in self.rates:
            return Rate(hours=self.rates[REBALANCES].hours)
        return found

    @property
    def why_unknown(self) -> str:
        """The reason why the group's rates are unknown, as text; empty if they are known.

        For example, the log may have only 10 % of its generations.
        """
        if self.group.status == FAILED:
            return "its replay failed"
        if not self.has_enough_generations:
            return f"the log has {self.coverage:.0%} of its generations"
        if not self.rates and not self.group.span_ms:
            return "its records are all of one instant"
        if UNREAD not in self.rates:
            return self.group.why or "the run has no estimate of its unread time"
        return ""


@dataclass(frozen=True, slots=True)
class Recording:
    """Metrics of the consumer groups in one published run, as rates per hour.

    Rates make recordings of different length comparable, for example before and after a deployment.

    Attributes:
        folder: output folder of `partage replay`.
        run: all data of the run that the report shows.
        groups: rates of the groups with records in the log, by name.
        hours: hours between the first and the last record.
    """

    folder: Path
    run: RunFigures
    groups: Mapping[str, GroupRates]
    hours: float


def read_recording(folder: str | Path, run: str | None = None) -> Recording:
    """Read a published run and compute the rates of its groups, such as rebalances per hour.

    The result is compared with another recording, or checked against limits.

    Args:
        folder: output folder of ``partage replay``, or the folder ``runs/ID`` of a run in it.
        run: id of a run in the folder; None for the newest.

    Raises:
        InvalidCaptureError: the folder has no such run, or a table cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    path = Path(folder)
    whole = path.absolute()
    if run is None and whole.parent.name == "runs" and not (path / "tables").is_dir():
        published = PublishedRun(whole.parent.parent, whole.name)
    else:
        published = PublishedRun(path, run)
    figures = load_run(published)
    rebalances = _with_episodes(_rebalances(published))
    sums = _sums_by_group(rebalances, _recorded_costs(published))
    within, known = _count_generations(rebalances)
    # A run in which no group has a storm has nulls only, an older run has no such column.
    has_storms = "storm" in published.table("rebalances", ["storm"]).column_names
    groups = {}
    for group in figures.groups:
        if group.kind != OFFSETS_ONLY:
            name = group.name
            rates = _group_rates(group, sums.get(name, {}), within.get(name, 0), known.get(name, 0))
            storms = group.traits.storms or 0 if has_storms else None
            groups[name] = replace(rates, storms=storms)
    return Recording(path, figures, groups, _span_ms(figures) / _HOUR_MS)


def _span_ms(run: RunFigures) -> int:
    cover = run.summary["coverage"]
    first, last = cover.get("first_ms"), cover.get("last_ms")
    return 0 if first is None or last is None else int(last - first)


def _rebalances(folder: PublishedRun) -> pa.Table:
    columns = [*_KEY, "log_partition", "log_offset", "cause_kind", "follow_up", "storm"]
    return load_table(folder, "rebalances", [*columns, "gap_before"])


def _with_episodes(rebalances: pa.Table) -> pa.Table:
    """Add two columns to a table of rebalances: the kind of cause, and the number of the episode.

    An episode is a rebalance with its follow-ups, or a whole rebalance storm (rebalances in quick
    succession). Statistics treat episodes as independent of each other, but not their rebalances.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    table = rebalances.sort_by([(name, "ascending") for name in _PLACE])
    kind = pc.fill_null(table["cause_kind"], "unknown")
    group = table["group"].combine_chunks().dictionary_encode()
    code = np.asarray(group.indices if len(group) else [], np.int64)
    storm = pc.fill_null(table["storm"], -1).to_numpy()
    follows = pc.fill_null(table["follow_up"], False).to_numpy()
    begins = np.ones(table.num_rows, bool)
    same_storm = (storm[1:] == storm[:-1]) & (storm[1:] >= 0)
    begins[1:] = (code[1:] != code[:-1]) | ~(follows[1:] | same_storm)
    table = table.append_column("kind", kind)
    return table.append_column("episode", pa.array(np.cumsum(begins)))


def _recorded_costs(folder: PublishedRun) -> pa.Table:
    """Return the downtime and the number of moved partitions of each recorded rebalance as a table.

    Downtime is the time in which partitions have no consumer. ``folder`` is the published run.
    """
    from pyarrow import compute as pc

    columns = [*_KEY, "policy", "strategy", "stopped_ps", "moved"]
    replays = load_table(folder, "replays", columns)
    name = pc.coalesce(replays["policy"], replays["strategy"])
    rows = replays.filter(pc.fill_null(pc.equal(name, RECORDED), False))
    sums = rows.group_by(_KEY).aggregate([("stopped_ps", "sum"), ("moved", "sum")])
    return sums.select([*_KEY, "stopped_ps_sum", "moved_sum"]).rename_columns(
        [*_KEY, UNREAD, MOVED]
    )


def _sums_by_group(rebalances: pa.Table, recorded: pa.Table) -> dict[str, dict[str, Rate]]:
    """Add up the downtime, moved partitions and rebalances of each consumer group.

    The result is a dict from group to a dict from metric to its sum. Rebalances are also counted by
    kind of cause. The first rebalance of a group is left out.

    Args:
        rebalances: table of rebalances, with columns for cause and episode.
        recorded: table with the costs of each rebalance.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    is_new = pc.not_equal(rebalances["kind"], "migration")  # it keeps the number of the one before
    places = rebalances.filter(is_new).select([*_KEY, "episode", "kind"])
    joined = recorded.join(places, _KEY, join_type="left outer")
    joined = joined.filter(pc.fill_null(pc.not_equal(joined["kind"], "first"), True))
    caused = rebalances.filter(pc.not_equal(rebalances["kind"], "first"))
    caused = caused.append_column("one", pa.array(np.ones(caused.num_rows)))
    found: dict[str, dict[str, Rate]] = {}
    for figure in (UNREAD, MOVED):
        some = joined.filter(pc.is_valid(joined[figure]))
        for row in _sum_by_episode(some, figure):
            found.setdefault(row["group"], {})[figure] = _rate(row)
    for row in _sum_by_episode(caused, "one"):
        found.setdefault(row["group"], {})[REBALANCES] = _rate(row)
    for row in _sum_by_episode(caused, "one", ("kind",)):
        found[row["group"]][CAUSE + row["kind"]] = _rate(row)
    return found


def _sum_by_episode(
    table: pa.Table, metric_column: str, further_columns: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """Add up a metric for each consumer group, together with the numbers that its variance needs.

    An episode is a rebalance with its follow-ups, or a rebalance storm. The result has one dict per
    group, with ``total`` (sum) and ``squares`` (sum of the squared episode sums). ``episodes`` is
    the number of episodes with a sum above 0.

    Args:
        table: rows with the columns ``group`` and ``episode``.
        metric_column: name of the column to add up.
        further_columns: columns by which the sums are also split, such as the cause.
    """
    from pyarrow import compute as pc

    keys = ["group", *further_columns]
    each = table.group_by([*keys, "episode"]).aggregate([(metric_column, "sum")])
    size = pc.cast(each[f"{metric_column}_sum"], "double")
    each = each.select(keys).append_column("total", size)
    each = each.append_column("squares", pc.multiply(size, size))
    each = each.append_column("episodes", pc.cast(pc.greater(size, 0.0), "int64"))
    names = ("total", "squares", "episodes")
    sums = each.group_by(keys).aggregate([(name, "sum") for name in names])
    columns = [*keys, *(f"{name}_sum" for name in names)]
    rows: list[dict[str, Any]] = sums.select(columns).rename_columns([*keys, *names]).to_pylist()
    return rows


def _rate(row: Mapping[str, Any]) -> Rate:
    return Rate(row["total"], row["squares"], row["episodes"])


def _count_generations(rebalances: pa.Table) -> tuple[dict[str, int], dict[str, int]]:
    """Count the generations of each consumer group that a log lacks, and those that it contains.

    The results are two dicts from group to number. Missing generations are counted only after the
    first recorded one. ``rebalances`` is a table in log order with the number of generations that
    are missing before each.
    """
    groups = rebalances["group"].to_pylist()
    within: dict[str, int] = {}
    recorded: dict[str, int] = {}
    for name, gap in zip(groups, rebalances["gap_before"].to_pylist(), strict=True):
        within[name] = within.get(name, 0) + ((gap or 0) if name in recorded else 0)
        recorded[name] = recorded.get(name, 0) + 1
    return within, recorded


def _group_rates(
    group: GroupFigures, sums: Mapping[str, Rate], missing: int, recorded: int
) -> GroupRates:
    """Compute a consumer group's rates per hour from its sums, such as rebalances per hour.

    Args:
        group: the group, with the time for which the log covers it.
        sums: dict from metric to its sum.
        missing: number of generations that the log lacks after the first recorded one.
        recorded: number of generations in the log.
    """
    coverage = recorded / (recorded + missing) if recorded else 1.0
    hours = group.span_ms / _HOUR_MS
    if group.status == FAILED or not hours:
        return GroupRates(group, coverage, {})
    known = dict(sums)
    if REBALANCES not in sums:  # no rebalance, so nothing was unread or moved
        known |= dict.fromkeys((UNREAD, REBALANCES, MOVED), Rate())
    rates = {figure: replace(found, hours=hours) for figure, found in known.items()}
    if UNREAD in known:
        rates[UNREAD] = _unread_rate(group, known[UNREAD])
    return GroupRates(group, coverage, rates)


def _unread_rate(group: GroupFigures, rate: Rate) -> Rate:
    """Return a consumer group's downtime (partition-seconds) per hour of assigned partitions.

    Downtime is the time in which partitions have no consumer. The hours count only while partitions
    are assigned to a member. The result has the estimate's interval.
    """
    interval: Estimate | None = group.recorded_figures.stopped_estimate
    # The report calls zero unknown if generations are missing before the recording.
    if interval is None or not rate.total:
        interval = Estimate(0.0, 0.0, 0.0)
    hours = group.assigned_ps / _HOUR_S
    return replace(rate, total=interval.best, hours=hours, interval=interval)
