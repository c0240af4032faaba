"""Reads a published run: tables, sums by policy, groups and damaged records as plain values.

Sums are made by columns, so that a large run costs little. `partage.report.traits` reads what the
rules of advice need, `partage.report.group_details` reads single rebalances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from partage.errors import InvalidCaptureError
from partage.report.gains import back_tests, settings_by_group
from partage.report.run import (
    BackTest,
    BadRecord,
    CauseShare,
    GroupFigures,
    PolicyFigures,
    RunFigures,
    StreamsOutcome,
    Traits,
    total_metrics,
)
from partage.report.traits import causes_by_group, traits_by_group
from partage.runs.published_run import PublishedRun
from partage.runs.row_groups import Part, cut_generations, split_groups
from partage.tables.metrics import METRICS, REPLAY_COLUMNS, Aggregation
from partage.tables.schemas import table_schema
from partage.tables.statuses import CUMULATIVE, FAILED, PER_REBALANCE, RECORDED
from partage.tables.sums import Sums, add_sums, empty_sums, sum_differences, sum_rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "MAX_BAD",
    "assigned_time",
    "is_recorded",
    "load_run",
    "load_table",
    "read_run",
    "streams_outcomes",
]  # fmt: skip

MAX_BAD = 200
#: Objects of ``summary.json`` that every report shows.
_NEEDED = ("coverage", "accounting", "agreement", "versions")
#: Numbers of its ``coverage``, and times that may be null.
_COUNTS, _TIMES = ("rebalances", "missing_before", "missing_within"), ("first_ms", "last_ms")
_KEY = ["group", "policy", "reading"]
_REBALANCE = ["group", "incarnation", "generation"]
#: Columns with the downtime of a rebalance: bounds, best estimate and percentiles.
_COSTS = (
    "stopped_at_least_ps", "stopped_at_most_ps", "stopped_ps", "stopped_p10_ps", "stopped_p90_ps",
)  # fmt: skip
#: Columns that the report reads, by table.
_USED: dict[str, tuple[str, ...]] = {
    "groups": (
        "group", "kind", "status", "why", "records", "commits", "rebalances", "incarnations",
        "missing_generations", "coverage", "members_max", "partitions_max", "first_ms",
    ),
    "rebalances": (
        "group", "incarnation", "generation", "log_partition", "log_offset", "time_ms", "cause",
        "cause_kind", "cause_source", "follow_up", "strategy", "protocol", "members", "partitions",
        "gap_before", "why_not", "storm", "agrees", "disagreement",
    ),
    "replays": (
        "group", "incarnation", "generation", "policy", "strategy", "reading", "step", "caused",
        "status", "claimed", "agrees", "counts", *(name for name, _, _ in REPLAY_COLUMNS),
    ),
    "members": (
        "group", "incarnation", "generation", "member", "instance", "client_id", "client_host",
        "session_timeout_ms", "rebalance_timeout_ms",
    ),
    "ownership": (
        "group", "topic", "partition", "member", "instance", "role", "from_ms", "to_ms",
    ),
    "unread": (
        "group", "topic", "partition", "assigned_ms", "unread_ms", "unread_p10_ms", "unread_p90_ms",
        "no_consumer_ms", "no_consumer_from_ms",
    ),
    "bad_records": ("partition", "offset", "part", "why", "group"),
    "streams_settings": (
        "group", "position", *(field.name for field in fields(StreamsOutcome)),
    ),
}  # fmt: skip

#: Group -> policy -> its figures.
ByGroup = dict[str, dict[str, PolicyFigures]]


def load_table(
    run: PublishedRun,
    name: str,
    only: Sequence[str] | None = None,
    part: Part | None = None,
    row_mask: Callable[[pa.Table], Any] | None = None,
) -> pa.Table:
    """Read one table of a published run, with the columns that the report uses.

    A column that the run lacks is filled with nulls, so that older runs can be read.

    Args:
        run: the published run.
        name: name of the table, such as ``rebalances``.
        only: columns to read; None for all that the report uses.
        part: consumer groups and generations to read; None for all.
        row_mask: function that returns a mask of the rows to keep; None to keep all.

    Raises:
        InvalidCaptureError: a file cannot be read, or a column has another type.
    """
    import pyarrow as pa

    kinds = table_schema(name)
    wanted = [c for c in _USED[name] if only is None or c in only]
    empty = pa.schema([(c, _widen_integers(kinds.field(c).type)) for c in wanted]).empty_table()
    if name not in run.tables:  # an older run
        return empty
    if part is None:
        found = [_complete_columns(run, name, run.table(name, wanted), wanted)]
    else:
        parts = run.read_part(name, wanted, part)
        found = [empty, *(_complete_columns(run, name, one, wanted) for one in parts)]
    return pa.concat_tables(one if row_mask is None else one.filter(row_mask(one)) for one in found)


def _complete_columns(
    run: PublishedRun, name: str, table: pa.Table, column_names: Iterable[str]
) -> pa.Table:
    """Return a table with exactly the named columns, in which integers have 64 bits.

    Missing columns are filled with nulls.

    Raises:
        InvalidCaptureError: a column has another type.
    """
    import pyarrow as pa

    kinds = table_schema(name)
    columns: dict[str, Any] = {}
    for column in column_names:
        kind = _widen_integers(kinds.field(column).type)
        if column not in table.column_names:
            columns[column] = pa.nulls(table.num_rows, kind)
            continue
        try:
            columns[column] = table[column].cast(kind)
        except pa.ArrowException as e:
            what = f"table {name} has no readable column {column} ({e}); run partage replay again"
            raise InvalidCaptureError(f"{run.out}: {what}") from None
    return pa.table(columns)


def _widen_integers(arrow_type: pa.DataType) -> pa.DataType:
    """Return int64 if the Arrow type is an integer type, otherwise the type itself.

    Columns are widened so that their sums cannot overflow.
    """
    import pyarrow as pa

    return pa.int64() if pa.types.is_integer(arrow_type) else arrow_type


def read_run(out: str | Path, run: str | None = None) -> RunFigures:
    """Read a run of `partage replay` from its output folder, with all data that the report shows.

    ``run`` is the id of a published run in that folder; None reads the newest run.

    Raises:
        InvalidCaptureError: the folder has no such run, or a file of it cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    return load_run(PublishedRun(out, run))


def load_run(folder: PublishedRun) -> RunFigures:
    """Read a published run with all data that the report shows.

    Raises:
        InvalidCaptureError: one of its files cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    lacking = [name for name in _NEEDED if not isinstance(folder.summary.get(name), dict)]
    if lacking:
        what = f"the summary lacks {', '.join(lacking)}; run partage replay again"
        raise InvalidCaptureError(f"{folder.out}: {what}")
    wrong = [
        name for name in _COUNTS if not isinstance(folder.summary["coverage"].get(name, 0), int)
    ] + [
        name
        for name in _TIMES
        if not isinstance(folder.summary["coverage"].get(name), int | float | None)
    ]
    if wrong:
        what = f"the summary's coverage has no number {', '.join(wrong)}; run partage replay again"
        raise InvalidCaptureError(f"{folder.out}: {what}")
    summary = _limited_to_selection(folder.summary)
    rows = _group_rows(folder)
    batches = [_load_batch(folder, part, rows, summary["coverage"]) for part in _batches(folder)]
    groups = [group for batch in batches for group in batch.groups]
    groups.sort(key=_by_loss)
    main, other, causes = (
        {name: of for batch in batches for name, of in getattr(batch.tables, column).items()}
        for column in ("main", "other", "causes")
    )
    figures = _overall(main)
    tests = sorted((t for batch in batches for t in batch.back_tests), key=lambda t: t.group)
    run = RunFigures(
        summary,
        tuple(replace(group, anchor=f"g{i}") for i, group in enumerate(groups)),
        _order_policies(folder.summary, figures), figures, _overall(other),
        _all_causes(causes), _bad(folder), tuple(tests),
    )  # fmt: skip
    return _mark_downtime_unknown(run)


#: Rows of table ``replays`` whose figures are added up at once.
_MAX_REPLAYS = 250_000
#: Rows of the tables of a batch of groups; those of table ``replays`` count a quarter.
_MAX_ROWS = 400_000


@dataclass(frozen=True, slots=True)
class _Batch:
    """Consumer groups that are read together, with their metrics.

    A run that does not fit in memory is read in several batches.

    Attributes:
        groups: the groups of the batch.
        tables: their metrics by group name.
        back_tests: tests of the simulation, for groups that changed their settings.
    """

    groups: tuple[GroupFigures, ...]
    tables: _Tables
    back_tests: tuple[BackTest, ...]


def _batches(folder: PublishedRun) -> Iterator[Part | None]:
    """Yield parts of a run's tables that fit in memory; each has some groups with all their rows.

    For a run that fits in memory as a whole, the only result is None.
    """
    tables = ("members", "ownership", "rebalances", "events", "replays")
    known = [name for name in tables if name in folder.tables]
    if sum(map(folder.row_count, known)) <= _MAX_ROWS:
        yield None
        return
    sizes = dict.fromkeys(load_table(folder, "groups", ["group"])["group"].to_pylist(), 0)
    # The order of table ``replays``, the largest one, so that each of its parts is read about once.
    sizes = dict.fromkeys([*folder.rows_by_group("replays"), *sizes], 0)
    for name in known:
        for group, count in folder.rows_by_group(name).items():
            sizes[group] = sizes.get(group, 0) + (count // 4 if name == "replays" else count)
    yield from (Part(frozenset(names)) for names in split_groups(sizes, _MAX_ROWS))


def _load_batch(
    folder: PublishedRun,
    part: Part | None,
    group_rows: Iterable[Mapping[str, Any]],
    cover: Mapping[str, Any],
) -> _Batch:
    """Read some consumer groups from a published run, with their metrics.

    Args:
        folder: the published run.
        part: the consumer groups; None for all.
        group_rows: rows of table ``groups``.
        cover: first and last time of the log.
    """
    own = [row for row in group_rows if part is None or row["group"] in part.groups]
    # A failed group has only the rows that were written before its error: its sums would be wrong.
    failed = frozenset(row["group"] for row in own if row["status"] == FAILED)
    rebalances = load_table(folder, "rebalances", part=part)
    main, other = metrics_by_group(_replays_of(folder, part, failed))
    names = [*_REBALANCE, "policy", "strategy", "reading", "step", *_COSTS]
    recorded = load_table(folder, "replays", names, part, is_recorded)
    causes = causes_by_group(rebalances, _without_groups(recorded, failed))
    tables = _Tables(
        main, other, causes, _traits(folder, rebalances, part), _largest(rebalances),
        assigned_time(load_table(folder, "ownership", part=part), cover), cover,
        streams_outcomes(load_table(folder, "streams_settings", part=part)),
    )  # fmt: skip
    groups = [
        _mark_downtime_unknown(_group(row, tables)) for row in _in_period(folder, own, rebalances)
    ]
    changed = Part(frozenset(settings_by_group(rebalances)) - failed)
    costs = load_table(folder, "replays", names, changed) if changed.groups else recorded
    return _Batch(tuple(groups), tables, tuple(back_tests(rebalances, _fill_in_policies(costs))))


def is_recorded(replays: pa.Table) -> pa.ChunkedArray:
    """Return which rows of table ``replays`` describe the assignments in the log (boolean mask).

    The other rows describe assignments that were simulated under other settings.
    """
    from pyarrow import compute as pc

    return pc.fill_null(
        pc.equal(pc.coalesce(replays["policy"], replays["strategy"]), RECORDED), False
    )


def _without_groups(table: pa.Table, groups: Collection[str]) -> pa.Table:
    import pyarrow as pa
    from pyarrow import compute as pc

    if not groups:
        return table
    names = pa.array(list(groups), pa.string())
    return table.filter(pc.invert(pc.is_in(table["group"], names)))


def _replays_of(
    folder: PublishedRun, part: Part | None, failed: Collection[str]
) -> Iterator[pa.Table]:
    """Yield the simulated rebalances (table ``replays``) of some groups as Arrow tables that fit in
    memory.

    All rows of one rebalance are in the same Arrow table.

    Args:
        folder: the published run.
        part: the consumer groups; None for all.
        failed: consumer groups to leave out.
    """
    parts: Iterable[Part | None] = [part]
    if part is not None:
        parts = cut_generations(folder.row_groups("replays"), part.groups, _MAX_REPLAYS)
    for one in parts:
        yield _fill_in_policies(_without_groups(load_table(folder, "replays", part=one), failed))


def _fill_in_policies(replays: pa.Table) -> pa.Table:
    """Fill in the columns policy and kind of simulation that an older version did not write.

    ``replays`` has one row for each simulated rebalance. A policy is a protocol with an assignment
    strategy.
    """
    from pyarrow import compute as pc

    policy = pc.coalesce(replays["policy"], replays["strategy"])
    kind = pc.if_else(pc.equal(policy, RECORDED), RECORDED, CUMULATIVE)
    reading = pc.coalesce(replays["reading"], kind)
    table = replays.set_column(replays.schema.get_field_index("policy"), "policy", policy)
    table = table.set_column(table.schema.get_field_index("reading"), "reading", reading)
    step = pc.fill_null(table["step"], 0)
    return table.set_column(table.schema.get_field_index("step"), "step", step)


def metrics_by_group(replays: Iterable[pa.Table]) -> tuple[ByGroup, ByGroup]:
    """Return the simulated metrics of each group under each policy (protocol and strategy).

    Both results are a dict from group to policy to metrics. The first is for the simulation of the
    whole history, the second for the simulation of each rebalance by itself. If a run has only the
    second kind, it is in the first dict.

    Args:
        replays: rows of table ``replays``, as tables that each have all rows of their rebalances.
    """
    found: dict[tuple[str, str, str], Sums] = {}
    for table in replays:
        for key, sums in _sums_by_policy(table).items():
            found[key] = add_sums(found[key], sums) if key in found else sums
    main: ByGroup = {}
    other: ByGroup = {}
    for (group, policy, reading), sums in found.items():
        aside = reading == PER_REBALANCE and (group, policy, CUMULATIVE) in found
        figures = PolicyFigures(policy, reading, empty_sums() | sums)
        (other if aside else main).setdefault(group, {})[policy] = figures
    return main, other


def _sums_by_policy(replays: pa.Table) -> dict[tuple[str, str, str], Sums]:
    """Add up the numbers in table ``replays``, which has a row for each simulated rebalance.

    The result is a dict from (group, policy, kind of simulation) to sums. A policy is a protocol
    with an assignment strategy.
    """
    found: dict[tuple[str, str, str], Sums] = {}
    for sums in sum_rows(replays, _KEY):
        found[_pop_key(sums)] = sums
    for metric in METRICS:
        if metric.aggregation is Aggregation.DIFFERENCE:
            # Only simulations of the same kind compare with each other.
            same = _REBALANCE if metric.input_columns[0] == RECORDED else [*_REBALANCE, "reading"]
            for sums in sum_differences(replays, metric, _KEY, same):
                found[_pop_key(sums)] |= sums
    return found


def _pop_key(sums: Sums) -> tuple[str, str, str]:
    return sums.pop("group"), sums.pop("policy"), sums.pop("reading")


def _traits(folder: PublishedRun, rebalances: pa.Table, part: Part | None) -> dict[str, Traits]:
    names = ["group", "event", "member", "detail", "time_ms"]
    storms = rebalances if part is None else load_table(folder, "rebalances", ["storm"])
    return traits_by_group(
        rebalances,
        load_table(folder, "members", part=part),
        load_table(folder, "ownership", ["group", "topic", "partition"], part),
        folder.table("events", names) if part is None else _events(folder, names, part),
        broker_session_ms=folder.summary.get("session_timeout_ms") or 0,
        storms_known=storms["storm"].null_count < storms.num_rows,
    )


def _events(folder: PublishedRun, names: Sequence[str], part: Part) -> pa.Table:
    import pyarrow as pa

    found = list(folder.read_part("events", names, part))
    return pa.concat_tables(found) if found else table_schema("events").empty_table().select(names)


def _group_rows(folder: PublishedRun) -> list[dict[str, Any]]:
    """Read the rows of table ``groups``, one dict per consumer group with its counts, strategies
    and clients.
    """
    rows: list[dict[str, Any]] = load_table(folder, "groups").to_pylist()
    lists = folder.table("groups", ["group", "claimed", "clients"]).to_pylist()
    return [{**row, **more} for row, more in zip(rows, lists, strict=True)]


def _in_period(
    folder: PublishedRun, group_rows: Iterable[Mapping[str, Any]], rebalances: pa.Table
) -> list[dict[str, Any]]:
    """Return the rows of consumer groups, with numbers of rebalances in the selected period.

    With ``--from``, earlier rebalances are not counted. The strategy that a group used last comes
    at the end of its strategies.

    Args:
        folder: the published run.
        group_rows: rows of table ``groups``, whose counts cover whole histories.
        rebalances: rows of table ``rebalances``, with the period's rebalances only.
    """
    rows = [dict(row) for row in group_rows]
    if (folder.summary.get("selection") or {}).get("from_ms") is not None:
        # Table groups covers whole histories, table rebalances only the selected span.
        selected = Counter(rebalances["group"].to_pylist())
        rows = [row | {"rebalances": selected[row["group"]]} for row in rows]
    latest = _latest_strategies(rebalances)
    for row in rows:
        row["claimed"] = _move_current_strategy_last(row["claimed"] or (), latest.get(row["group"]))
    return rows


def _latest_strategies(rebalances: pa.Table) -> dict[str, str]:
    from pyarrow import compute as pc

    table = rebalances.filter(pc.is_valid(rebalances["strategy"]))
    order = [(name, "ascending") for name in ("group", "log_partition", "log_offset")]
    table = table.sort_by(order).select(["group", "strategy"])
    return {row["group"]: row["strategy"] for row in table.to_pylist()}


def _move_current_strategy_last(strategies: Iterable[str], current: str | None) -> tuple[str, ...]:
    """Move the current strategy to the end of the list of strategies that a group has used.

    The order of the others does not change. A current strategy that is not in the list is ignored.
    """
    known = tuple(strategies)
    if current not in known:
        return known
    return (*(one for one in known if one != current), str(current))


_GroupOrRun = TypeVar("_GroupOrRun", GroupFigures, RunFigures)


def _mark_downtime_unknown(group_or_run: _GroupOrRun) -> _GroupOrRun:
    """Mark the downtime of a group or run as unknown if the log lacks many of its rebalances.

    Missing rebalances have no recorded downtime, so a total of 0 would be wrong. The result is a
    changed copy. A downtime that is reliable or above 0 is returned unchanged.
    """
    # If the log lacks many rebalances, the downtime of the missing ones is unknown, not zero.
    # Otherwise the copy is unchanged.
    if group_or_run.has_reliable_downtime or group_or_run.recorded_figures.stopped_high:
        return group_or_run
    names = ("stopped", "stopped_estimate", "saved", "saved_against_own")
    unknown = {f"{name}_known": 0 for name in names}
    figures, other = (
        {name: replace(one, sums={**one.sums, **unknown}) for name, one in of.items()}
        for of in (group_or_run.figures, group_or_run.per_rebalance)
    )
    causes = tuple(replace(one, timed=0) for one in group_or_run.causes)
    return replace(group_or_run, figures=figures, per_rebalance=other, causes=causes)


def _limited_to_selection(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Cut the log's first and last time in a run's summary to the period that the user selected.

    The options ``--from`` and ``--to`` select it. Without them the times do not change.
    """
    cover, selection = dict(summary.get("coverage", {})), summary.get("selection") or {}
    first, last = selection.get("from_ms"), selection.get("to_ms")
    if cover.get("first_ms") is not None and first is not None:
        cover["first_ms"] = min(max(cover["first_ms"], first), cover["last_ms"])
    if cover.get("last_ms") is not None and last is not None:
        cover["last_ms"] = max(min(cover["last_ms"], last), cover["first_ms"])
    return {**summary, "coverage": cover}


def _by_loss(group: GroupFigures) -> tuple[float, float, int, str]:
    lost = group.downtime_bounds.high if group.downtime_bounds else 0.0
    return (
        -(group.downtime_estimate.best if group.downtime_estimate else 0.0),
        -lost,
        -group.rebalances,
        group.name,
    )


def _overall(by_group: ByGroup) -> dict[str, PolicyFigures]:
    found: dict[str, list[PolicyFigures]] = {}
    for policies in by_group.values():
        for name, one in policies.items():
            found.setdefault(name, []).append(one)
    return {name: total_metrics(of) for name, of in found.items()}


def _all_causes(by_group: Mapping[str, Iterable[CauseShare]]) -> tuple[CauseShare, ...]:
    found: dict[str, CauseShare] = {}
    for shares in by_group.values():
        for one in shares:
            found[one.kind] = found[one.kind] + one if one.kind in found else one
    return tuple(sorted(found.values(), key=lambda c: c.sort_key))


def _largest(rebalances: pa.Table) -> dict[str, tuple[int, int]]:
    found = rebalances.group_by("group").aggregate([("members", "max"), ("partitions", "max")])
    return {
        row["group"]: (row["members_max"] or 0, row["partitions_max"] or 0)
        for row in found.to_pylist()
    }


@dataclass(frozen=True, slots=True)
class _Tables:
    """Metrics of all consumer groups, read from the tables of a run.

    Each attribute is a dict by group name.

    Attributes:
        main: metrics by policy, of the simulation of the whole history if the run has it.
        other: metrics by policy, of the simulation of each rebalance by itself.
        causes: causes of rebalances with their downtime.
        traits: properties on which recommendations depend.
        largest: largest number of members and of partitions in a rebalance.
        assigned: partition-seconds in which partitions were assigned.
        cover: the run's coverage, which has the first and last time of the log.
        streams: results of Streams applications that were simulated under other settings.
    """

    main: Mapping[str, Mapping[str, PolicyFigures]]
    other: Mapping[str, Mapping[str, PolicyFigures]]
    causes: Mapping[str, tuple[CauseShare, ...]]
    traits: Mapping[str, Traits]
    largest: Mapping[str, tuple[int, int]]
    assigned: Mapping[str, float]
    cover: Mapping[str, Any]
    streams: Mapping[str, tuple[StreamsOutcome, ...]]


def streams_outcomes(table: pa.Table) -> dict[str, tuple[StreamsOutcome, ...]]:
    """Return the simulated results of each Kafka Streams application under other settings.

    The result is a dict from group to its results in their stored order. ``table`` has the rows of
    the table ``streams_settings``.
    """
    found: dict[str, tuple[StreamsOutcome, ...]] = {}
    order = [("group", "ascending"), ("position", "ascending")]
    for row in table.sort_by(order).to_pylist():
        group = row.pop("group")
        del row["position"]
        found[group] = (*found.get(group, ()), StreamsOutcome(**row))
    return found


def assigned_time(ownership: pa.Table, cover: Mapping[str, Any]) -> dict[str, float]:
    """Return the total time in which each group's partitions had an owner, in partition-seconds.

    For example, two partitions that are owned for ten seconds each add 20. The result is a dict by
    group name.

    Args:
        ownership: rows of table ``ownership``; only those with role ``owner`` count.
        cover: first and last time of the log (``first_ms``, ``last_ms``), to which intervals are
            cut.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    first, last = cover.get("first_ms"), cover.get("last_ms")
    if first is None or last is None:
        return {}
    table = ownership.filter(pc.fill_null(pc.equal(ownership["role"], "owner"), False))
    begin = pc.max_element_wise(table["from_ms"], pa.scalar(first, pa.int64()))
    end = pc.min_element_wise(pc.fill_null(table["to_ms"], last), pa.scalar(last, pa.int64()))
    length = pc.max_element_wise(pc.subtract(end, begin), pa.scalar(0, pa.int64()))
    sums = table.select(["group"]).append_column("ms", length).group_by("group")
    found = sums.aggregate([("ms", "sum")]).to_pylist()
    return {row["group"]: row["ms_sum"] / 1_000 for row in found}


def _group(row: Mapping[str, Any], tables: _Tables) -> GroupFigures:
    name = row["group"]
    members, partitions = tables.largest.get(name, (0, 0))
    same = (
        "kind", "status", "why", "records", "commits", "rebalances", "incarnations",
        "missing_generations",
    )  # fmt: skip
    known = row["rebalances"] + row["missing_generations"]
    coverage = row["coverage"]
    if coverage is None and row["rebalances"]:
        coverage = row["rebalances"] / known
    return GroupFigures(
        name=name,
        anchor="",
        claimed=tuple(row["claimed"] or ()),
        clients=tuple(row["clients"] or ()),
        coverage=coverage,
        members_max=row["members_max"] or members,
        partitions_max=row["partitions_max"] or partitions or None,
        figures=tables.main.get(name, {}),
        per_rebalance=tables.other.get(name, {}),
        causes=tables.causes.get(name, ()),
        traits=tables.traits.get(name, Traits()),
        assigned_ps=tables.assigned.get(name, 0.0),
        span_ms=_observed_time_ms(row["first_ms"], tables.cover),
        streams=tables.streams.get(name, ()),
        **{column: row[column] for column in same},
    )


def _observed_time_ms(first_ms: int | None, cover: Mapping[str, Any]) -> int:
    """Return how long the log covers a consumer group (ms), from its first record to the log's end.

    ``first_ms`` is the time of that record; ``cover`` has the log's first and last time. The result
    is 0 if a time is unknown.
    """
    begin, end = cover.get("first_ms"), cover.get("last_ms")
    if first_ms is None or begin is None or end is None:
        return 0
    return int(max(0, end - max(first_ms, begin)))


def _order_policies(
    summary: Mapping[str, Any], metrics_by_policy: Mapping[str, PolicyFigures]
) -> tuple[str, ...]:
    """Return the names of all simulated policies (protocol and strategy) in display order.

    Policies that the user named on the command line come first, in that order; the others follow by
    name. The recorded assignments are left out, because they are not a simulated policy.
    """
    asked = [name for name in summary.get("asked", ()) if name in metrics_by_policy]
    rest = sorted(name for name in metrics_by_policy if name not in asked and name != RECORDED)
    return (*dict.fromkeys(asked), *rest)


def _bad(run: PublishedRun) -> tuple[BadRecord, ...]:
    table = load_table(run, "bad_records")
    order = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    return tuple(BadRecord(**row) for row in order.slice(0, MAX_BAD).to_pylist())
