"""Details of single groups for the page: their timeline, rebalances and storms.

`partage.report.timeline` draws who owned which partition, and when partitions had no reader. Each
listed rebalance has its cause, its downtime, and what each member owned before and after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.report.data import is_recorded, load_table
from partage.report.gains import sum_gains
from partage.report.messages import TimeUnit, downtime_text, format_estimate, groups_unit
from partage.report.run import Estimate, FigureRange, GroupFigures, RunFigures
from partage.report.timeline import (
    MAX_MEMBERS,
    columns_of,
    count_partition_changes,
    draw_timeline,
    merge_owners,
    to_owned_intervals,
    to_unread_times,
)
from partage.runs.row_groups import Part, split_groups
from partage.tables.statuses import DONE, PER_REBALANCE, RECORDED

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.runs.published_run import PublishedRun

__all__ = ["MAX_DETAILS", "generate_group_details", "member_labels"]

#: Groups with details.
MAX_DETAILS = 1_000
#: Listed rebalances of one group, and of all groups together.
MAX_STEPS, MAX_STEPS_IN_ALL = 300, 60_000
#: Boxes of a timeline; the groups with the largest downtime have more than the others.
_MAX_BOXES, _LARGE_TIMELINES, _MAX_BOXES_IN_ALL = 6_000, 20, 240_000
#: Rows of the tables of a batch of groups.
_MAX_TABLE_ROWS = 600_000
#: Largest number of marks of a timeline that shows a part of the rebalances.
_MAX_MARKS = 96
#: Listed rebalance storms of one group: those with the most downtime.
_MAX_STORMS = 50
#: Rebalances with the most downtime that are listed with the cheapest policies.
_MAX_WORST = 5
#: Policies with the least downtime.
_MAX_CHEAPEST = 4
_YEAR_MS = 366 * 86_400_000
_MAX_GAPS = 200
_KEY = ("group", "incarnation", "generation")
_COSTS = (
    "stopped_at_least_ps", "stopped_at_most_ps", "moved", "stopped_ps", "stopped_p10_ps",
    "stopped_p90_ps",
)  # fmt: skip
#: Names of these columns in rows of rebalances.
_COST_NAMES = ("low", "high", "moved", "best", "p10", "p90")
#: Columns of table ``replays`` that are read.
_REPLAYS = [*_KEY, "policy", "strategy", "reading", "status", *_COSTS]


class _Gap(NamedTuple):
    """A gap in the recorded history of a consumer group: generations that are missing in the log.

    Compaction may have removed them. The timeline on the page marks the gap.

    Attributes:
        from_ms: time of the previous rebalance; None before the first one.
        to_ms: time of the next rebalance.
        generations: number of missing generations.
    """

    from_ms: int | None
    to_ms: int
    generations: int


def generate_group_details(
    folder: PublishedRun, run: RunFigures
) -> Iterator[tuple[GroupFigures, dict[str, Any]]]:
    """Yield the data of each group's section on the report page, groups with most downtime first.

    A section has a timeline of partition owners, the list of rebalances, and the rebalance storms.
    Groups without rebalances have none.

    Raises:
        InvalidCaptureError: a table cannot be read.
    """
    groups = run.groups_with_rebalances[:MAX_DETAILS]
    limits = _limits(len(groups), groups_unit(run.groups))
    cover = run.summary.get("coverage", {})
    for part in _batches(folder, groups):
        batch = [group for group in groups if part is None or group.name in part.groups]
        yield from _batch_details(folder, part, batch, limits, cover)


def _batch_details(
    folder: PublishedRun,
    part: Part | None,
    groups: Sequence[GroupFigures],
    limits: Mapping[str, _Limits],
    cover: Mapping[str, Any],
) -> Iterator[tuple[GroupFigures, dict[str, Any]]]:
    """Yield the data of some consumer groups' sections on the report page: timelines and
    rebalances.

    Args:
        folder: the published run.
        part: the part of the tables that has these groups; None for all rows.
        groups: the consumer groups of the batch.
        limits: the size limits of each group's section, by its anchor.
        cover: first and last time of the log.
    """
    tables = _read_tables(folder, part)
    listed = {
        g.name: _listed(tables.rebalances.rows(g.name), limits[g.anchor].steps) for g in groups
    }
    worst = [of.rows[i] for of in listed.values() for i in of.worst]
    simulated = _simulated_downtimes(folder, part, worst)
    labels: dict[str, dict[str, str]] = {}
    for (name, member), label in tables.labels.items():
        labels.setdefault(name, {})[member] = label
    for group in groups:
        name = group.name
        rows = (
            tables.rebalances.rows(name),
            tables.ownership.rows(name),
            None if tables.unread is None else tables.unread.rows(name),
        )
        known = labels.get(name, {})
        details = _group_details(listed[name], rows, known, cover, limits[group.anchor])
        worst_of_group = _worst_entries(listed[name], simulated, limits[group.anchor].unit)
        yield group, details | {"worst": worst_of_group}


class _Limits(NamedTuple):
    """Limits on the size of a consumer group's section on the report page.

    Attributes:
        steps: the largest number of listed rebalances.
        boxes: approximate largest number of rectangles of a timeline.
        unit: time unit of the report.
    """

    steps: int
    boxes: int
    unit: TimeUnit


class _Tables(NamedTuple):
    """Tables of a run that the page's sections show, with the rows of some consumer groups only.

    Attributes:
        rebalances: table ``rebalances`` with the recorded costs.
        ownership: table ``ownership``.
        unread: table ``unread``; None in a run without it.
        labels: labels of members by group and name.
    """

    rebalances: _RowsByGroup
    ownership: _RowsByGroup
    unread: _RowsByGroup | None
    labels: Mapping[tuple[str, str], str]


class _Listed(NamedTuple):
    """The rebalances of a consumer group that the report page lists; many are not listed.

    Attributes:
        chosen: their positions among all rebalances of the group.
        rows: the rebalances.
        worst: positions in ``rows`` of the rebalances with the most downtime.
    """

    chosen: list[int]
    rows: list[dict[str, Any]]
    worst: list[int]


def _batches(folder: PublishedRun, groups: Sequence[GroupFigures]) -> Iterator[Part | None]:
    """Yield sets of groups whose tables fit in memory together, or only None if all groups fit."""
    tables = [
        name for name in ("rebalances", "ownership", "unread", "members", "replays")
        if name in folder.tables
    ]  # fmt: skip
    if sum(map(folder.row_count, tables)) <= _MAX_TABLE_ROWS:
        yield None
        return
    sizes = dict.fromkeys((group.name for group in groups), 0)
    for name in tables[:-1]:
        for group, count in folder.rows_by_group(name).items():
            if group in sizes:
                sizes[group] += count
    yield from (Part(tuple(names)) for names in split_groups(sizes, _MAX_TABLE_ROWS))


def _read_tables(folder: PublishedRun, part: Part | None) -> _Tables:
    """Read the tables of a published run for some consumer groups; None reads all groups."""
    recorded = load_table(folder, "replays", _REPLAYS, part, is_recorded)
    members = ["group", "member", "instance", "client_id", "client_host"]
    unread = load_table(folder, "unread", part=part) if "unread" in folder.tables else None
    return _Tables(
        _RowsByGroup(_with_costs(load_table(folder, "rebalances", part=part), recorded)),
        _RowsByGroup(load_table(folder, "ownership", part=part).sort_by("group")),
        None if unread is None else _RowsByGroup(unread.sort_by("group")),
        member_labels(load_table(folder, "members", members, part)),
    )


def _listed(rebalances: pa.Table, most: int) -> _Listed:
    chosen = _select_listed(rebalances, most)
    rows: list[dict[str, Any]] = rebalances.take(chosen).to_pylist()
    return _Listed(chosen, rows, _find_worst(rows))


def _group_details(
    listed: _Listed,
    tables: tuple[pa.Table, pa.Table, pa.Table | None],
    labels: Mapping[str, str],
    cover: Mapping[str, Any],
    limits: _Limits,
) -> dict[str, Any]:
    """Return the timeline, the list of rebalances and the rebalance storms of one group.

    Args:
        listed: the rebalances to list.
        tables: all rebalances, ownership intervals and unread times of the group.
        labels: labels of its members by name.
        cover: first and last time of the log.
        limits: largest numbers of listed rebalances and of rectangles, and the time unit.
    """
    every, intervals, unread = tables
    rows, reduced = listed.rows, len(listed.rows) < every.num_rows
    gaps, moments = _find_gaps(every), every["time_ms"].to_numpy()
    first, last = _time_span(moments, intervals, gaps, cover)
    owned = to_owned_intervals(intervals, last)
    member_ids = len(owned.owners)
    times = None if unread is None else to_unread_times(unread, owned)
    if reduced:
        owned = merge_owners(owned, labels)
    drawn = draw_timeline(owned, first, last, limits.boxes, times, peaks=reduced)
    changes = columns_of(count_partition_changes(rows, moments, owned, last))
    used: Iterable[int] = range(len(owned.owners))
    if reduced:
        used = _keep_owners(
            [of["owner"] for of in (drawn["boxes"], changes) if of], len(owned.owners)
        )
    names = [owned.owners[i] for i in used]
    return {
        "first": first,
        "last": last,
        "owners": columns_of({"name": n, "label": labels.get(n, n)} for n in names),
        "member_ids": member_ids,
        **drawn,
        "partitions": len(owned.partitions),
        "gaps": columns_of(_gap_entry(gap, first) for gap in gaps),
        "steps": columns_of(_rebalance_entry(row, limits.unit) for row in rows),
        "rebalances": every.num_rows,
        "marks": columns_of(_marks(every, listed.chosen, limits.steps)) if reduced else {},
        "changes": changes,
        "most_compared": MAX_MEMBERS,
        **_storm_columns(every, limits.unit),
    }


def _worst_entries(
    listed: _Listed, simulated: Mapping[tuple[Any, ...], Mapping[str, Any]], unit: TimeUnit
) -> list[dict[str, Any]]:
    """Return the listed rebalances with the most downtime, with the policies that have the least.

    A policy is a protocol with a strategy. Its downtime is simulated.
    """
    return [
        {"step": i,
         "cheapest": columns_of(_list_cheapest(simulated.get(_key(listed.rows[i]), {}), unit))}
        for i in listed.worst
    ]  # fmt: skip


def _keep_owners(columns: Sequence[list[int]], owners: int) -> list[int]:
    """Renumber the owners that occur in some lists as 0, 1, 2, ..., in place.

    Args:
        columns: lists of owners' numbers, which are changed.
        owners: number of owners.

    Returns:
        the former number of each remaining owner.

    >>> columns = [[5, 2, 5], [2]]
    >>> _keep_owners(columns, 7), columns
    ([2, 5], [[1, 0, 1], [0]])
    """
    used = np.zeros(owners, bool)
    for column in columns:
        used[column] = True
    places = np.cumsum(used) - 1
    for column in columns:
        column[:] = places[column].tolist()
    kept: list[int] = np.flatnonzero(used).tolist()
    return kept


def _gap_entry(gap: _Gap, first_ms: int) -> dict[str, int]:
    """Convert a gap in a group's history to a dict for the page's timeline.

    Its times are in milliseconds since ``first_ms``, at which the timeline starts.
    """
    begin = 0 if gap.from_ms is None else max(0, gap.from_ms - first_ms)
    return {"from": begin, "to": gap.to_ms - first_ms, "generations": gap.generations}


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[c] for c in _KEY)


def member_labels(members: pa.Table) -> dict[tuple[str, str], str]:
    """Return the label that the report page shows for each group member: its client id and host.

    The result is a dict whose keys are pairs of the group and the instance id (static members) or
    member id. The label of a static member begins with its instance id.
    """
    columns = ["group", "member", "instance", "client_id", "client_host"]
    rows = members.group_by(columns).aggregate([])
    found = {}
    for group, member, instance, client_id, host in zip(
        *(rows[name].to_pylist() for name in columns), strict=True
    ):
        client = f"{client_id or ''} {host or ''}".strip()
        label = f"{instance} ({client})" if instance and client else client
        found[group, instance or member] = label or instance or member
    return found


class _RowsByGroup:
    """Lookup of the rows of one consumer group in an Arrow table that is sorted by group.

    The slices are computed once, so that a lookup does not scan the table.
    """

    def __init__(self, table: pa.Table) -> None:
        import pyarrow as pa

        self._table = table
        codes = table["group"].combine_chunks().dictionary_encode()
        code = np.asarray(codes.indices if len(codes) else [], np.int64)
        edges = np.flatnonzero(np.append(code[1:] != code[:-1], [True] * (len(code) > 0))) + 1
        names = codes.dictionary.take(pa.array(code[edges - 1])).to_pylist() if len(code) else []
        begins = [0, *edges.tolist()[:-1]]
        self._slices = dict(zip(names, zip(begins, edges.tolist(), strict=False), strict=True))

    def rows(self, group: str) -> pa.Table:
        begin, end = self._slices.get(group, (0, 0))
        return self._table.slice(begin, end - begin)


def _with_costs(rebalances: pa.Table, replays: pa.Table) -> pa.Table:
    """Add each rebalance's recorded downtime and moved partitions to a table of rebalances.

    The costs are summed from table ``replays``, which also has simulated ones.
    """
    from pyarrow import compute as pc

    name = pc.coalesce(replays["policy"], replays["strategy"])
    recorded = replays.filter(pc.fill_null(pc.equal(name, RECORDED), False))
    costs = recorded.group_by(list(_KEY)).aggregate([(c, "sum") for c in _COSTS])
    costs = costs.select([*_KEY, *(f"{c}_sum" for c in _COSTS)])
    costs = costs.rename_columns([*_KEY, *_COST_NAMES])
    order = [("group", "ascending"), ("log_partition", "ascending"), ("log_offset", "ascending")]
    table = rebalances.join(costs, list(_KEY), join_type="left outer").sort_by(order)
    # A migration keeps the number of the previous rebalance, so the join finds that one's costs.
    migrated = pc.fill_null(pc.equal(table["cause_kind"], "migration"), False)
    for one in _COST_NAMES:
        none = pc.if_else(migrated, None, table[one])
        table = table.set_column(table.schema.get_field_index(one), one, none)
    return table


def _limits(groups: int, unit: TimeUnit) -> dict[str, _Limits]:
    """Return the size limit of each group's section on a page with this number of groups.

    The groups with the most downtime get the largest limits. The result is a dict by the group's
    anchor; ``unit`` is the time unit of the page.
    """
    steps = max(10, min(MAX_STEPS, MAX_STEPS_IN_ALL // max(groups, 1)))
    boxes = max(100, min(_MAX_BOXES, _MAX_BOXES_IN_ALL // max(groups, 1)))
    return {
        f"g{i}": (
            _Limits(MAX_STEPS, _MAX_BOXES, unit)
            if i < _LARGE_TIMELINES
            else _Limits(steps, boxes, unit)
        )
        for i in range(groups)
    }


def _select_listed(rebalances: pa.Table, max_listed: int) -> list[int]:
    """Select the rebalances that the report page lists, and return their positions in order of
    time.

    If there are too many, a third are those with the most downtime. Up to a third are the worst
    ones of equally long periods. The rest are the newest.

    Args:
        rebalances: all rebalances of a group, in order of time.
        max_listed: approximate maximum number of listed rebalances.
    """
    count = rebalances.num_rows
    if count <= max_listed:
        return list(range(count))
    rank = _rank_by_downtime(rebalances)
    chosen = set(rank[: max_listed // 3].tolist())
    chosen.update(_worst_of_periods(rebalances, rank, _mark_count(max_listed)).tolist())
    chosen.update(range(count - max(max_listed - len(chosen), max_listed // 3), count))
    return sorted(chosen)


def _mark_count(steps: int) -> int:
    return max(1, min(_MAX_MARKS, steps // 3))


def _rank_by_downtime(rebalances: pa.Table) -> NDArray[np.int64]:
    """Return the positions of rebalances by downtime, the largest first; ties by moved
    partitions.
    """
    from pyarrow import compute as pc

    downtime = pc.fill_null(pc.coalesce(rebalances["best"], rebalances["high"]), 0).to_numpy()
    moved = pc.fill_null(rebalances["moved"], 0).to_numpy()
    order: NDArray[np.int64] = np.lexsort((-moved.astype(np.float64), -downtime))
    return order


def _periods(rebalances: pa.Table, count: int) -> NDArray[np.int64]:
    """Divide a group's time into ``count`` equal periods; return the period of each rebalance."""
    times = rebalances["time_ms"].to_numpy().astype(np.float64)
    span = max(times.max() - times.min(), 1.0)
    place = (times - times.min()) / span * count
    found: NDArray[np.int64] = np.minimum(place, count - 1).astype(np.int64)
    return found


def _worst_of_periods(
    rebalances: pa.Table, rank: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Return the position of the worst rebalance of each period, in order of time.

    ``rank`` has the positions of all rebalances, worst first; ``count`` is the number of periods.
    """
    first = np.unique(_periods(rebalances, count)[rank], return_index=True)[1]
    found: NDArray[np.int64] = rank[first]
    return found


def _marks(
    rebalances: pa.Table, listed: Sequence[int], max_listed: int
) -> Iterator[dict[str, int]]:
    """Yield the marks on a timeline: one per period, because not all rebalances are listed.

    A mark has the time of the period's worst rebalance, its position in the list, and the number of
    rebalances in the period.

    Args:
        rebalances: all rebalances of a group.
        listed: positions of the listed ones.
        max_listed: maximum number of listed rebalances.
    """
    period = _periods(rebalances, _mark_count(max_listed))
    numbers = np.bincount(period)
    places = np.full(len(period), -1)
    places[listed] = np.arange(len(listed))
    rank = _rank_by_downtime(rebalances)
    rank = rank[places[rank] >= 0]
    times = rebalances["time_ms"].to_pylist()
    for at in rank[np.unique(period[rank], return_index=True)[1]].tolist():
        count = int(numbers[period[at]])
        yield {"time_ms": times[at], "step": int(places[at]), "rebalances": count}


def _find_worst(rebalances: Sequence[dict[str, Any]]) -> list[int]:
    """Return the positions of the few rebalances with the largest downtime in a list, worst first.

    Rebalances without known downtime are ordered by the number of partitions that they moved.
    """
    # Rebalances without known downtime are ordered by the number of partitions that they moved.
    some = [
        i
        for i, r in enumerate(rebalances)
        if (_downtime_sort_key(r) or 0) > 0 or (r["moved"] or 0) > 0
    ]
    return sorted(
        some,
        key=lambda i: (-(_downtime_sort_key(rebalances[i]) or 0), -(rebalances[i]["moved"] or 0)),
    )[:_MAX_WORST]


def _downtime_sort_key(row: Mapping[str, Any]) -> float | None:
    """Return the downtime of a rebalance as a sort key: its best estimate, or else its upper bound.

    The result is None if neither is known.
    """
    found: float | None = row["high"] if row["best"] is None else row["best"]
    return found


def _simulated_downtimes(
    folder: PublishedRun, part: Part | None, rebalances: Sequence[Mapping[str, Any]]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the simulated downtime of some rebalances under each policy (protocol and strategy).

    The result is a dict from (group, incarnation, generation) to a dict from policy to a row with
    the costs.

    Args:
        folder: the published run.
        part: the groups of these rebalances; None for all groups.
        rebalances: rows of the rebalances to look up.
    """
    # The costs of follow-up rebalances are added to those of the rebalance that they complete. Rows
    # of the simulation of each rebalance by itself are preferred to those of the cumulative one.
    import pyarrow as pa
    from pyarrow import compute as pc

    if not rebalances:
        return {}
    generations = pa.array({row["generation"] for row in rebalances}, pa.int64())
    replays = load_table(
        folder, "replays", _REPLAYS, part, lambda rows: pc.is_in(rows["generation"], generations)
    )
    keys = pa.table({c: pa.array([row[c] for row in rebalances], replays[c].type) for c in _KEY})
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in replays.join(keys, list(_KEY), join_type="inner").to_pylist():
        policies = found.setdefault(tuple(row[c] for c in _KEY), {})
        name = row["policy"] or row["strategy"]
        known = policies.get(name)
        if known and known["reading"] == row["reading"]:
            for column in _COSTS:
                if row[column] is not None:
                    known[column] = (known[column] or 0) + row[column]
        elif not known or row["reading"] == PER_REBALANCE:
            policies[name] = row
    return found


def _find_gaps(rebalances: pa.Table) -> list[_Gap]:
    """Return the largest gaps in a group's recorded history, in order of time.

    A gap is a series of generations that are missing in the log. ``rebalances`` is the table of the
    group's recorded rebalances.
    """
    times, missing = rebalances["time_ms"].to_pylist(), rebalances["gap_before"].to_pylist()
    before: list[int | None] = [None, *times]
    found = [_Gap(a, b, n) for a, b, n in zip(before, times, missing, strict=False) if n]
    largest = sorted(found, key=lambda gap: -gap.generations)[:_MAX_GAPS]
    return sorted(largest, key=lambda gap: gap.to_ms)


def _time_span(
    times: Sequence[int],
    intervals: pa.Table,
    gaps: Sequence[_Gap],
    cover: Mapping[str, Any],
) -> tuple[int, int]:
    """Return the times at which the timeline of a consumer group starts and ends (ms).

    Args:
        times: times of the rebalances (ms).
        intervals: table of the times in which members owned partitions.
        gaps: gaps in the recorded history.
        cover: first and last time of the log.
    """
    # If the log lacks generations before the first recorded one, the timeline begins up to a
    # quarter of its length earlier.
    begun = intervals["from_ms"].to_numpy()
    first, last = _history_span(np.concatenate([times, begun]).tolist(), cover)
    if gaps and gaps[0].from_ms is None:
        first = min(first, max(cover.get("first_ms") or first, first - (last - first) // 4))
    return first, last


def _history_span(times: Sequence[int], cover: Mapping[str, Any]) -> tuple[int, int]:
    """Return the time of a consumer group's first event and the end of the log (ms).

    If the end of the log is more than a year after the group's last event, it is from a wrong
    clock; the last event is then the end. ``times`` are the times of the group's events, ``cover``
    has those of the log.
    """
    # An end of the log more than a year after the group's last event is ignored: a wrong clock must
    # not stretch a timeline of an hour to fifty years.
    first, last = min(times, default=0), max(times, default=1)
    end = cover.get("last_ms")
    if end is not None and last < end <= last + _YEAR_MS:
        last = end
    return first, max(last, first + 1)


def _range_of(low: float | None, high: float | None) -> FigureRange | None:
    return None if low is None or high is None else FigureRange(low, high)


def _downtime(row: Mapping[str, Any], unit: TimeUnit) -> str:
    best, bounds = row["best"], _range_of(row["low"], row["high"])
    if best is None:
        return "?" if bounds is None else downtime_text(bounds, None, short=True, unit=unit)
    return format_estimate(Estimate(best, row["p10"], row["p90"]), short=True, unit=unit)


def _rebalance_entry(row: Mapping[str, Any], unit: TimeUnit) -> dict[str, Any]:
    """Convert the row of one rebalance to a dict for the list of rebalances on the report page.

    ``unit`` is the time unit that all downtimes in the list share, so that they can be compared.
    """
    return {
        "generation": row["generation"], "incarnation": row["incarnation"],
        "time_ms": row["time_ms"], "cause": row["cause_kind"] or "unknown",
        "recorded": row["cause_source"] == "recorded", "what": row["cause"] or "",
        "members": row["members"], "moved": row["moved"],
        "downtime": _downtime(row, unit), "downtime_sort": _rounded(_downtime_sort_key(row)),
        "storm": row["storm"], "missing_before": row["gap_before"] or 0,
        "note": row["disagreement"] or row["why_not"] or "",
    }  # fmt: skip


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _list_cheapest(
    policies: Mapping[str, Mapping[str, Any]], unit: TimeUnit
) -> list[dict[str, str]]:
    """Return the policies (protocol and strategy) with the least simulated downtime for a
    rebalance.

    Each result is a dict with the policy's name and its downtime as text in the given time unit.
    ``policies`` is a dict from name to a row with the simulated costs.
    """
    done = [(n, r) for n, r in policies.items() if n != RECORDED and r["status"] == DONE]
    known = all(r["stopped_ps"] is not None for _, r in done)
    size = "stopped_ps" if known else "stopped_at_most_ps"
    done.sort(key=lambda p: (p[1][size] is None, p[1][size] or 0, p[1]["moved"] or 0))
    found = []
    for name, row in done[:_MAX_CHEAPEST]:
        bounds = _range_of(row["stopped_at_least_ps"], row["stopped_at_most_ps"])
        if known:
            text = format_estimate(None, short=True, single=row["stopped_ps"], unit=unit)
        elif bounds is None:
            text = f"{row['moved'] or 0} moved"
        else:
            text = downtime_text(bounds, None, short=True, unit=unit)
        found.append({"policy": name, "downtime": text})
    return found


def _storm_columns(rebalances: pa.Table, unit: TimeUnit) -> dict[str, Any]:
    """Return a group's rebalance storms with the most downtime, and the number of all its
    storms.
    """
    from pyarrow import compute as pc

    storms = _storms(rebalances.filter(pc.is_valid(rebalances["storm"])).to_pylist(), unit)
    worst = sorted(storms, key=lambda s: (-(s["downtime_sort"] or 0), -s["rebalances"]))
    shown = sorted(worst[:_MAX_STORMS], key=lambda s: s["number"])
    return {"storms": columns_of(shown), "storm_count": len(storms)}


def _storms(rows: Sequence[Mapping[str, Any]], unit: TimeUnit) -> list[dict[str, Any]]:
    found: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["storm"] is not None:
            found.setdefault(row["storm"], []).append(row)
    totals = {number: _total_costs(of) for number, of in found.items()}
    storms = []
    for number, of in sorted(found.items()):
        total = totals[number]
        storms.append({
            "number": number, "rebalances": len(of), "first": of[0]["time_ms"],
            "last": of[-1]["time_ms"], "trigger": of[0]["cause_kind"] or "unknown",
            "what": of[0]["cause"] or "", "downtime": _downtime(total, unit),
            "downtime_sort": _rounded(_downtime_sort_key(total)),
            "causes": dict(Counter(r["cause_kind"] or "unknown" for r in of).most_common()),
        })  # fmt: skip
    return storms


def _total_costs(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    total: dict[str, float | None] = dict.fromkeys(_COST_NAMES)
    for name in ("low", "high"):
        values = [r[name] for r in rows if r[name] is not None]
        total[name] = sum(values) if values else None
    known = [Estimate(r["best"], r["p10"], r["p90"]) for r in rows if r["best"] is not None]
    found = sum_gains(known)
    if found is not None:
        total |= {"best": found.best, "p10": found.low, "p90": found.high}
    return total
