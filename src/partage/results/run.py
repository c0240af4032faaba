"""A finished replay in Python, and the functions that make one: `replay` and `open_run`."""

from __future__ import annotations

import shutil
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeVar

from partage.errors import InvalidConfigError
from partage.model.arguments import check_argument_types
from partage.model.display import Picture, draw_bar, draw_histogram, html_table, pretty_print
from partage.model.validation import expect_local
from partage.results.tables import (
    MOST_SHOWN,
    AdviceResult,
    EventResult,
    GroupResult,
    OwnershipResult,
    PolicyResult,
    RebalanceResult,
    ResultRow,
    StreamsSettingsResult,
    TableView,
    cell_text,
)
from partage.runs.published_run import PublishedRun

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from partage.groups.api import Strategy
    from partage.report.run import GroupFigures, PolicyFigures, RunFigures
    from partage.simulation.policies import Policy
    from partage.tables.sums import Estimate

__all__ = ["GroupRun", "Run", "open_run", "replay"]

R = TypeVar("R", bound=ResultRow)
#: Columns of the histogram of a group's rebalances over time.
_COLUMNS = 40
#: Option of `partage replay` that an error of the job names -> argument of `replay`.
_ARGUMENTS = {
    "--append": "append", "--engine": "engine", "--group": "groups", "--out": "out",
    "--to": "until",
}  # fmt: skip
#: Order of rows that come from the log.
_IN_LOG_ORDER = ("group", "log_partition", "log_offset")


@check_argument_types
def replay(
    capture: str | Path,
    *,
    policies: Sequence[str | Policy | Strategy] | None = None,
    groups: Sequence[str] | str = (),
    since: str | int | None = None,
    until: str | int | None = None,
    out: str | Path | None = None,
    append: bool = False,
    engine: str = "auto",
    processes: int | None = None,
    spark: SparkSession | None = None,
    conf: Mapping[str, str] | None = None,
    kafka: Mapping[str, str] | None = None,
    progress: Callable[[str, int, int], None] | bool | None = None,
) -> Run:
    """Replay the recorded rebalances of a cluster's consumer groups under other policies.

    A policy is a rebalance protocol with an assignment strategy, such as ``cooperative/sticky``.

    Args:
        capture: the folder of a capture, Parquet files, a table that Spark reads, or a running
            cluster (``kafka://host:port``).
        policies: names of policies or strategies, or the objects; None for the default ones.
        groups: names or patterns (``orders-*``) of groups; empty takes all. One that matches no
            group gives a warning, and an error if none matches.
        since: first time, as ISO text (UTC) or epoch milliseconds.
        until: the time after the last one, in the same form.
        out: the folder for tables; None for a temporary one, which is removed with the run.
        append: whether to continue the newest run of ``out``: only new records are read.
            `Run.summary` has under ``append`` what was read, or why the run could not be continued.
        engine: ``local`` (this process, without Spark and Java), ``spark``, or ``auto``: local for
            Parquet files with at most two million records.
        processes: number of processes of engine ``local``; None for one per core, as far as the
            input is worth it.
        spark: your session, which stays open; without it engine ``spark`` starts one.
        conf: more settings of Spark, which then replays. ``kafka://`` needs Spark's Kafka connector
            (``spark.jars.packages``).
        kafka: properties of the client for ``kafka://``, by Kafka's names.
        progress: whether to show progress on a line of stderr (in a notebook: in an output of the
            cell), or a function that is called with (stage, done, total). None shows it in a
            notebook or at a Python prompt.

    Raises:
        InvalidCaptureError: the capture cannot be used.
        InvalidConfigError: an argument has a wrong value.
        UnknownStrategyError: there is no such strategy.
        MissingExtraError, MissingJavaError: the engine lacks a library or Java.
    """
    from partage.jobs.replay.replay import replay as run_replay
    from partage.jobs.replay.selection import Selection, parse_time
    from partage.jobs.spark.progress import shown_progress

    if append and out is None:
        raise InvalidConfigError("append", "needs out, the folder of the run to continue", True)
    patterns = (groups,) if isinstance(groups, str) else tuple(groups)
    bounds = [
        None if time is None else parse_time(str(time), name)
        for time, name in ((since, "since"), (until, "until"))
    ]
    chosen = [policies] if isinstance(policies, str) else policies
    folder = Path(mkdtemp(prefix="partage-run-")) if out is None else Path(out)
    try:
        with shown_progress(progress) as function:
            summary = run_replay(
                capture, folder, policies=chosen, selection=Selection(patterns, *bounds),
                append=append, engine=engine, processes=processes, spark=spark, conf=conf,
                kafka=kafka, progress=function,
            )  # fmt: skip
    except BaseException as e:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(e, InvalidConfigError) and e.setting in _ARGUMENTS:
            raise InvalidConfigError(_ARGUMENTS[e.setting], e.what, e.value) from None
        raise
    for name, near in summary.get("unmatched_groups", {}).items():
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        warnings.warn(
            f"groups: no group of the capture is {name!r}{hint}", stacklevel=3
        )  # `checked` is between
    run = Run(folder, summary["run_id"])
    if out is None:
        weakref.finalize(run, shutil.rmtree, folder, ignore_errors=True)
    return run


@check_argument_types
def open_run(folder: str | Path, run: str | None = None) -> Run:
    """Open a finished replay by its output folder.

    The replay may have been made in Python or on the command line.

    Args:
        folder: the output folder of `replay` or ``partage replay``.
        run: id of an earlier run; None for the newest.

    Raises:
        InvalidCaptureError: the folder has no such run.
    """
    return Run(folder, run)


class Run:
    """A finished replay: its tables, groups, rebalances and recommendations as Python objects.

    A replay simulates the recorded rebalances of consumer groups under other configurations.
    `replay` and `open_run` return this object. It reads the output folder when data is needed.

    Args:
        folder: the output folder.
        run: id of an earlier run; None for the newest.

    Attributes:
        folder: the output folder.
        id: the run's id.
        summary: the content of ``summary.json``.

    Raises:
        InvalidCaptureError: the folder has no such run.
    """

    def __init__(self, folder: str | Path, run: str | None = None) -> None:
        self._published = PublishedRun(folder, run)
        self.folder = Path(folder)
        self.summary: Mapping[str, Any] = self._published.summary
        self.id = str(self.summary.get("run_id"))

    @cached_property
    def _figures(self) -> RunFigures:
        from partage.report.data import load_run

        return load_run(self._published)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the output tables, such as ``rebalances``; docs/tables.md describes them."""
        return self._published.tables

    def table(self, name: str) -> pa.Table:
        """Return one output table as a pyarrow table with all its columns.

        Raises:
            InvalidConfigError: there is no such table.
            InvalidCaptureError: a file of the table cannot be read.
        """
        if name not in self.tables:
            raise InvalidConfigError("name", f"must be one of {', '.join(self.tables)}", name)
        return self._published.table(name)

    @cached_property
    def groups(self) -> TableView[GroupResult]:
        """The consumer groups of the replayed log, those with the most downtime first.

        Downtime is the time in which partitions have no consumer.
        """
        return TableView.of(GroupResult, map(_group_row, self._figures.groups))

    @cached_property
    def rebalances(self) -> TableView[RebalanceResult]:
        """The recorded rebalances of all consumer groups, in log order.

        Each row has the rebalance's cause, size and duration.
        """
        return self._read_view("rebalances", RebalanceResult, _IN_LOG_ORDER)

    @cached_property
    def policies(self) -> TableView[PolicyResult]:
        """The metrics of each policy (protocol and strategy), summed over all groups.

        The recorded assignments come first, then the simulated policies.
        """
        found = self._figures
        return _build_policy_view(found.figures, found.per_rebalance, found.policies, found.groups)

    @cached_property
    def advice(self) -> TableView[AdviceResult]:
        """The recommended changes to all consumer groups, the largest expected gain first.

        A row has the change, its evidence, its expected gain and configuration lines to copy.
        """
        found = [pair for group in self._figures.groups for pair in _build_advice_rows(group)]
        found.sort(key=lambda pair: -pair[0])
        return TableView.of(AdviceResult, (row for _, row in found))

    @cached_property
    def streams_settings(self) -> TableView[StreamsSettingsResult]:
        """The simulated outages and costs of the recorded Kafka Streams applications under other
        settings.

        Rows are sorted by group.
        """
        return self._read_view("streams_settings", StreamsSettingsResult, ("group", "position"))

    def group(self, name: str) -> GroupRun:
        """Return the results of one consumer group.

        ``name`` is the group's id.

        Raises:
            InvalidConfigError: the run has no such group.
        """
        found = next((g for g in self._figures.groups if g.name == name), None)
        if found is None:
            names = sorted(g.name for g in self._figures.groups)
            more = f" and {len(names) - 10} more" if len(names) > 10 else ""
            near = get_close_matches(str(name), names, 3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            what = f"must be a group of the run ({', '.join(names[:10])}{more}){hint}"
            raise InvalidConfigError("group", what, name)
        return GroupRun(self, found)

    def to_dict(self) -> dict[str, Any]:
        """Return the report of the run as a dict that can be written as JSON.

        The command ``partage report --json`` prints the same content.
        """
        from partage.report.json_document import json_document

        return json_document(self._figures)

    def report(self, path: str | Path) -> Path:
        """Write the report of the run to a file as an HTML page; return the file's path.

        Raises:
            MissingExtraError: jinja2 is not installed.
            InvalidConfigError: the page cannot be written.
        """
        from partage.report.html import publish_page

        expect_local(path, "path")
        page = Path(path)
        try:
            publish_page(self.folder, page, self.id)
        except OSError as e:
            what = f"cannot be written ({e.strerror or e})"
            raise InvalidConfigError("path", what, str(page)) from None
        return page

    def _read_view(
        self, table: str, row: type[R], order: Sequence[str], group: str | None = None
    ) -> TableView[R]:
        """Read one output table of the run as typed rows (`TableView`).

        Args:
            table: name of the output table.
            row: type of the result rows.
            order: columns to sort by.
            group: name of the group whose rows are returned; None for all groups.
        """
        import pyarrow as pa
        from pyarrow import compute as pc

        if table not in self.tables:  # an older run
            return TableView.of(row, ())
        where = None if group is None else pc.field("group") == group
        found = self._published.table(table, where=where)
        found = found.sort_by([(name, "ascending") for name in order])
        names = _fields(row)
        cells = [found[row.COLUMNS.get(name, name)] for name in names]
        cells = [
            _to_cause_labels(column) if name == row.CAUSES else column
            for name, column in zip(names, cells, strict=True)
        ]
        return TableView(pa.table(cells, names=names), row)

    def __repr__(self) -> str:
        from partage.report.messages import plural, run_headline

        engine = self.summary.get("engine")  # runs of earlier versions have none
        where = f", engine {engine['name']}" if engine else ""
        records = self.summary["accounting"]["records"]
        counts = (
            (records, "record"),
            (len(self.groups), "group"),
            (self._figures.in_log, "rebalance"),
        )
        lines = [
            f"Run {self.id}: {', '.join(plural(*one) for one in counts)}{where}",
            run_headline(self._figures), repr(self.groups),
        ]  # fmt: skip
        return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")

    _repr_pretty_ = pretty_print

    def _repr_html_(self) -> str:
        """Return an HTML table of the consumer groups, which Jupyter displays.

        It has a bar for the downtime of each group.
        """
        head, text = repr(self).splitlines()[:2]
        first = self.groups[:MOST_SHOWN]
        most = max([1.0, *(one.unread or 0 for one in first)])
        rows = [
            (one.group, one.strategy or "", one.rebalances, cell_text(one.unread) or "-",
             draw_bar([(0, round(one.unread))] if one.unread else [], round(most)),
             one.main_cause or "", one.action or "")
            for one in first
        ]  # fmt: skip
        columns = ("group", "strategy", "rebalances", "downtime (partition-seconds)", "",
                   "main cause", "recommendation")  # fmt: skip
        more = len(self.groups) - len(rows)
        notes = [text, *([f"and {more:,} more groups"] if more > 0 else [])]
        return html_table(head, columns, rows, notes)


class GroupRun:
    """The results of one consumer group in a finished replay: rebalances, events, recommendations.

    Get it by ``run.group("orders")``.

    Attributes:
        name: the group's name.
        row: its row of `Run.groups`, with the totals of the group.
    """

    def __init__(self, run: Run, figures: GroupFigures) -> None:
        self._run, self._figures = run, figures
        self.name = figures.name
        self.row = _group_row(figures)

    @cached_property
    def rebalances(self) -> TableView[RebalanceResult]:
        """The group's recorded rebalances, in log order, each with its cause, size and duration."""
        return self._run._read_view("rebalances", RebalanceResult, _IN_LOG_ORDER, self.name)  # noqa: SLF001 - of its run

    @cached_property
    def timeline(self) -> TableView[EventResult]:
        """The group's events, such as rebalances, joins and departures of members, in log order."""
        order = (*_IN_LOG_ORDER, "position")
        return self._run._read_view("events", EventResult, order, self.name)  # noqa: SLF001 - of its run

    @cached_property
    def ownership(self) -> TableView[OwnershipResult]:
        """The intervals in which members owned partitions, sorted by topic, partition and time.

        For example, a row says that a member owned partition 3 from 10:00 to 10:05.
        """
        order = ("topic", "partition", "from_ms", "member")
        return self._run._read_view("ownership", OwnershipResult, order, self.name)  # noqa: SLF001 - of its run

    @cached_property
    def policies(self) -> TableView[PolicyResult]:
        """The group's metrics under each policy (protocol and strategy).

        The recorded assignments come first, then the simulated policies.
        """
        found = self._figures
        order = self._run._figures.policies  # noqa: SLF001 - of its run
        return _build_policy_view(found.figures, found.per_rebalance, order, [found])

    @cached_property
    def advice(self) -> TableView[AdviceResult]:
        """The changes that the report recommends for the group, the best first.

        A row has the change, its evidence, its expected gain and configuration lines to copy.
        """
        return TableView.of(AdviceResult, (row for _, row in _build_advice_rows(self._figures)))

    @cached_property
    def streams_settings(self) -> TableView[StreamsSettingsResult]:
        """The simulated outages and costs of the Kafka Streams application under other settings.

        It is empty if the group is no Streams application.
        """
        order = ("group", "position")
        return self._run._read_view("streams_settings", StreamsSettingsResult, order, self.name)  # noqa: SLF001 - of its run

    def __repr__(self) -> str:
        from partage.report.messages import plural

        one, count = self.row, plural(self.row.rebalances, "rebalance")
        head = f"Group {self.name}: {one.protocol}, {one.status}, {count}"
        return "\n".join([head, repr(self.timeline), repr(self.advice)])

    _repr_pretty_ = pretty_print

    def _repr_html_(self) -> str:
        """Return an HTML view of the group, which Jupyter displays.

        It has the downtime, the rebalances over time and the recommendations.
        """
        one = self.row
        times = [row.time.timestamp() for row in self.rebalances]
        counts = [0] * _COLUMNS
        start = min(times, default=0)
        span = max(times, default=0) - start
        for time in times:
            counts[int((time - start) / max(span, 1e-9) * (_COLUMNS - 1))] += 1
        unread = cell_text(one.unread) or "unknown"
        title = f"Group {self.name}: {one.protocol}, {one.status}, strategy {one.strategy or '-'}"
        rows: list[tuple[str | int | Picture, ...]] = [
            ("rebalances", one.rebalances, draw_histogram(counts)),
            ("downtime (partition-seconds)", unread, ""),
        ]
        rows += [("recommendation", each.title, each.gain or "") for each in self.advice]
        return html_table(title, ("", "", "over time, and gain"), rows)


def _fields(row: type[ResultRow]) -> list[str]:
    from dataclasses import fields

    return [field.name for field in fields(row)]  # type: ignore[arg-type]  # rows are dataclasses


def _to_cause_labels(kinds: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace the kinds of rebalance causes in a column by their readable names.

    For example, ``expiry`` becomes "session timeout", as on the report page.
    """
    # Page and terminal show these names.
    import pyarrow as pa
    from pyarrow import compute as pc

    from partage.report.messages import cause_label

    known = kinds.unique()
    labels = [None if kind is None else cause_label(kind) for kind in known.to_pylist()]
    return pa.chunked_array([pa.array(labels, pa.string())]).take(pc.index_in(kinds, known))


def _group_row(group: GroupFigures) -> GroupResult:
    from partage.report.messages import cause_label
    from partage.report.recommendations import recommendations_for

    unread, cause = group.downtime_estimate, group.main_cause
    actions = recommendations_for(group)
    return GroupResult(
        group=group.name, protocol=group.kind, status=group.status,
        strategy=group.last_strategy or None, clients=group.clients, rebalances=group.rebalances,
        rebalances_per_hour=group.rebalances_per_hour, coverage=group.coverage,
        members_max=group.members_max, partitions_max=group.partitions_max,
        **_estimate_columns("unread", unread),
        unread_share=group.unread_share,
        main_cause=None if cause is None else cause_label(cause.kind),
        action=actions[0].advice.title if actions else None, why=group.why,
    )  # fmt: skip


def _build_policy_view(
    cumulative: Mapping[str, PolicyFigures],
    per_rebalance: Mapping[str, PolicyFigures],
    order: Iterable[str],
    groups: Sequence[GroupFigures],
) -> TableView[PolicyResult]:
    """Build the table of policies (group configurations): the recorded assignments, then simulated
    ones.

    Args:
        cumulative: metrics by policy, simulated as one continuous history.
        per_rebalance: metrics by policy, simulated for each rebalance separately.
        order: names of the policies.
        groups: the groups from which the saved downtime is computed.
    """
    from partage.report.gains import gains_by_policy
    from partage.tables.statuses import RECORDED

    names = [RECORDED, *(name for name in order if name != RECORDED)]
    gains = [
        (cumulative, gains_by_policy(groups)),
        (per_rebalance, gains_by_policy(groups, per_rebalance=True)),
    ]
    return TableView.of(
        PolicyResult,
        (
            _build_policy_row(figures[name], saves.get(name))
            for name in names
            for figures, saves in gains
            if name in figures
        ),
    )


def _build_policy_row(figures: PolicyFigures, saves: Estimate | None) -> PolicyResult:
    """Build the row of one simulated policy (group configuration) in a table that compares
    policies.

    ``figures`` are the policy's metrics, such as moved partitions. ``saves`` is the downtime that
    it saves compared with the present settings; None if unknown.
    """
    ends: dict[str, Any] = {}
    for name in ("stopped", "saved", "reread"):
        known = getattr(figures, name)
        ends |= {f"{name}_low": None, f"{name}_high": None}
        if known is not None:
            ends |= {f"{name}_low": known.low, f"{name}_high": known.high}
    for name, estimate in (("unread", figures.stopped_estimate), ("saves", saves)):
        ends |= _estimate_columns(name, estimate)
    return PolicyResult(
        policy=figures.policy, simulation=figures.reading, comparable=figures.is_comparable,
        rebalances=figures.happened, moved=figures.moved, avoidable=figures.avoidable,
        evenness=figures.evenness, unread_at_once=figures.unread_at_once,
        incomplete=figures.incomplete, **ends,
    )  # fmt: skip


def _estimate_columns(name: str, estimate: Estimate | None) -> dict[str, Any]:
    """Convert an estimate to three columns: the best estimate and the ends of its 80 % interval.

    The columns are ``name``, ``name_low`` and ``name_high``. All are None without an estimate.
    """
    ends = (None,) * 3 if estimate is None else (estimate.best, estimate.low, estimate.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


def _build_advice_rows(group: GroupFigures) -> list[tuple[float, AdviceResult]]:
    """Return one table row for each recommended change to a consumer group, the best first.

    Each row is paired with the expected gain in partition-seconds, by which rows of several groups
    are sorted.
    """
    from partage.report.recommendations import recommendations_for

    found = []
    for rank, one in enumerate(recommendations_for(group), 1):
        advice, saves = one.advice, one.advice.saves
        row = AdviceResult(
            group=group.name, rank=rank, title=advice.title, gain=one.gain_text,
            **_estimate_columns("saves", saves),
            confidence=one.confidence or None, why=advice.why, where=advice.where,
            lines=advice.lines, policy=advice.policy, risk=one.risk, rollout=one.rollout,
            verify=one.verify, rule=advice.rule,
        )  # fmt: skip
        found.append((one.gain_ps, row))
    return found
