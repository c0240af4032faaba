"""Details of single groups for the page: their timeline, rebalances and storms.

`partage.report.timeline` draws who owned which partition, and when partitions had no reader. Each
listed rebalance has its cause, its downtime, and what each member owned before and after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.report.data import load_table
from partage.report.gains import sum_gains
from partage.report.messages import TimeUnit, common_unit, downtime_text, format_estimate
from partage.report.run import Estimate, FigureRange, GroupFigures, RunFigures
from partage.report.timeline import OwnedIntervals, UnreadTimes, columns_of, draw_timeline
from partage.tables.statuses import DONE, PER_REBALANCE, RECORDED

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.runs.published_run import PublishedRun

__all__ = ["MAX_DETAILS", "generate_group_details", "member_labels"]

#: Groups with details.
MAX_DETAILS = 1_000
#: Listed rebalances of one group, and of all groups together.
MAX_STEPS, MAX_STEPS_IN_ALL = 300, 30_000
#: Boxes of a timeline; the groups with the largest downtime have more than the others.
_MAX_BOXES, _LARGE_TIMELINES, _MAX_BOXES_IN_ALL = 6_000, 20, 120_000
#: Rebalances with the most downtime that are listed with the cheapest policies.
_MAX_WORST = 5
#: Members in the comparison before and after a rebalance, and policies with the least downtime.
_MAX_MEMBERS, _MAX_CHEAPEST = 12, 4
_YEAR_MS = 366 * 86_400_000
_MAX_GAPS = 200
_KEY = ("group", "incarnation", "generation")
_COSTS = (
    "stopped_at_least_ps", "stopped_at_most_ps", "moved", "stopped_ps", "stopped_p10_ps",
    "stopped_p90_ps",
)  # fmt: skip
#: Names of these columns in rows of rebalances.
_COST_NAMES = ("low", "high", "moved", "best", "p10", "p90")
_Ints = NDArray[np.int64]


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
    """Yield the data of each group's section on the report page, largest downtime first.

    A section has a timeline of partition owners, the list of rebalances, and the rebalance storms.
    Groups without rebalances have none.

    Raises:
        InvalidCaptureError: a table cannot be read.
    """
    groups = run.groups_with_rebalances[:MAX_DETAILS]
    names = [*_KEY, "policy", "strategy", "reading", "status", *_COSTS]
    replays = load_table(folder, "replays", names)
    rebalances = _RowsByGroup(_with_costs(load_table(folder, "rebalances"), replays))
    owned = _RowsByGroup(load_table(folder, "ownership").sort_by("group"))
    unread = _RowsByGroup(load_table(folder, "unread").sort_by("group"))
    labels = member_labels(
        load_table(folder, "members", ["group", "member", "instance", "client_id", "client_host"])
    )
    each = max(5, min(MAX_STEPS, MAX_STEPS_IN_ALL // max(len(groups), 1)))
    kept = {g.name: _select_listed(rebalances.rows(g.name), each) for g in groups}
    worst = {name: _find_worst(rows) for name, rows in kept.items()}
    simulated = _simulated_downtimes(
        replays, [kept[name][i] for name, of in worst.items() for i in of]
    )
    cover = run.summary.get("coverage", {})
    boxes = max(100, _MAX_BOXES_IN_ALL // max(len(groups), 1))
    for number, group in enumerate(groups):
        rows, all_rows = kept[group.name], rebalances.rows(group.name)
        intervals, gaps = owned.rows(group.name), _find_gaps(all_rows)
        first, last = _time_span(rows, intervals, gaps, cover)
        ownership = _to_owned_intervals(intervals, last)
        budget = _MAX_BOXES if number < _LARGE_TIMELINES else min(boxes, _MAX_BOXES)
        times = (
            _to_unread_times(unread.rows(group.name), ownership)
            if "unread" in folder.tables
            else None
        )
        unit = common_unit(map(_downtime_sort_key, rows))
        changes = _count_partition_changes(rows, all_rows["time_ms"].to_pylist(), ownership, last)
        yield (
            group,
            {
                "first": first,
                "last": last,
                "owners": columns_of(
                    {"name": name, "label": labels.get((group.name, name), name)}
                    for name in ownership.owners
                ),
                **draw_timeline(ownership, first, last, budget, times),
                "partitions": len(ownership.partitions),
                "gaps": columns_of(_gap_entry(gap, first) for gap in gaps),
                "steps": columns_of(_rebalance_entry(row, unit) for row in rows),
                "changes": columns_of(changes),
                "most_compared": _MAX_MEMBERS,
                "worst": [
                    {
                        "step": i,
                        "cheapest": columns_of(
                            _list_cheapest(simulated.get(_key(rows[i]), {}), unit)
                        ),
                    }
                    for i in worst[group.name]
                ],
                "storms": columns_of(_storms(rows)),
            },
        )


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
    found = {}
    for row in members.group_by(columns).aggregate([]).to_pylist():
        client = f"{row['client_id'] or ''} {row['client_host'] or ''}".strip()
        name = row["instance"] or row["member"]
        label = f"{row['instance']} ({client})" if row["instance"] and client else client
        found[row["group"], name] = label or name
    return found


class _RowsByGroup:
    """Lookup of the rows of one consumer group in an Arrow table that is sorted by group.

    The slices are computed once, so that a lookup does not scan the table.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        names = table["group"].to_pylist()
        self._slices: dict[str, tuple[int, int]] = {}
        begin = 0
        for i, name in enumerate(names):
            if i + 1 == len(names) or names[i + 1] != name:
                self._slices[name] = (begin, i + 1)
                begin = i + 1

    def rows(self, group: str) -> pa.Table:
        begin, end = self._slices.get(group, (0, 0))
        return self._table.slice(begin, end - begin)


def _with_costs(rebalances: pa.Table, replays: pa.Table) -> pa.Table:
    """Add each rebalance's recorded downtime and number of moved partitions to a table of
    rebalances.

    ``replays`` is the table that has these costs.
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


def _select_listed(rebalances: pa.Table, max_rebalances: int) -> list[dict[str, Any]]:
    """Select the rebalances that the report page lists: the newest ones, and those with most
    downtime.

    Return them as dicts in order of time. ``max_rebalances`` limits the newest ones.
    """
    rows: list[dict[str, Any]] = rebalances.to_pylist()
    newest = max(0, len(rows) - max_rebalances)
    some = {*_find_worst(rows[:newest]), *range(newest, len(rows))} if newest else range(len(rows))
    return [rows[i] for i in sorted(some)]


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
    replays: pa.Table, rebalances: Sequence[Mapping[str, Any]]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the simulated downtime of each listed rebalance under each policy (protocol and
    strategy).

    The result is a dict from (group, incarnation, generation) to a dict from policy to a row with
    the costs.

    Args:
        replays: the table of simulated rebalances.
        rebalances: rows of the rebalances to look up.
    """
    # The costs of follow-up rebalances are added to those of the rebalance that they complete. Rows
    # of the simulation of each rebalance by itself are preferred to those of the cumulative one.
    import pyarrow as pa

    if not rebalances:
        return {}
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
    rebalances: Sequence[Mapping[str, Any]],
    intervals: pa.Table,
    gaps: Sequence[_Gap],
    cover: Mapping[str, Any],
) -> tuple[int, int]:
    """Return the times at which the timeline of a consumer group starts and ends (ms).

    Args:
        rebalances: rows of the rebalances that the page lists.
        intervals: table of the times in which members owned partitions.
        gaps: gaps in the recorded history.
        cover: first and last time of the log.
    """
    # If the log lacks generations before the first recorded one, the timeline begins up to a
    # quarter of its length earlier.
    begun = intervals["from_ms"].to_pylist()
    first, last = _history_span([*(r["time_ms"] for r in rebalances), *begun], cover)
    if gaps and gaps[0].from_ms is None:
        first = min(first, max(cover.get("first_ms") or first, first - (last - first) // 4))
    return first, last


def _history_span(times: Sequence[int], cover: Mapping[str, Any]) -> tuple[int, int]:
    """Return the time of a consumer group's first event and the end of the log (ms).

    ``times`` are the times of the group's events, ``cover`` has the times of the log. An end of the
    log more than a year after the last event is ignored, because it shows a wrong clock.
    """
    # An end of the log more than a year after the group's last event is ignored: a wrong clock must
    # not stretch a timeline of an hour to fifty years.
    first, last = min(times, default=0), max(times, default=1)
    end = cover.get("last_ms")
    if end is not None and last < end <= last + _YEAR_MS:
        last = end
    return first, max(last, first + 1)


def _to_owned_intervals(table: pa.Table, last_ms: int) -> OwnedIntervals:
    """Convert the rows that say when which member owned a partition from an Arrow table to arrays.

    Intervals that have not ended get the end ``last_ms``, which is the end of the timeline.
    """
    # An owner is a member or, if it is static, its instance id, which survives restarts.
    pairs = list(zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True))
    partitions = sorted(set(pairs))
    place = {pair: i for i, pair in enumerate(partitions)}
    start = np.array(table["from_ms"].to_pylist(), np.int64)
    ends = [last_ms if t is None else t for t in table["to_ms"].to_pylist()]
    names = [
        instance or member
        for instance, member in zip(
            table["instance"].to_pylist(), table["member"].to_pylist(), strict=True
        )
    ]
    known: dict[str, int] = {}
    for i in np.argsort(start, kind="stable").tolist():
        known.setdefault(names[i], len(known))
    return OwnedIntervals(
        np.array([place[p] for p in pairs], np.int64),
        np.array([known[n] for n in names], np.int64),
        start,
        np.array(ends, np.int64),
        partitions,
        list(known),
    )


def _to_unread_times(table: pa.Table, owned: OwnedIntervals) -> UnreadTimes:
    """Convert the rows that say when partitions had no consumer from an Arrow table to arrays.

    Partitions that no member ever owned are left out. ``owned`` has the owned intervals of the same
    consumer group.
    """
    place = {pair: i for i, pair in enumerate(owned.partitions)}
    pairs = zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True)
    rows = np.array([place.get(pair, -1) for pair in pairs], np.int64)
    names = ("assigned_ms", "unread_ms", "unread_p10_ms", "unread_p90_ms")
    columns = [np.array(table[name].to_pylist(), np.int64) for name in names]
    since = [
        until if begin is None else begin
        for begin, until in zip(
            table["no_consumer_from_ms"].to_pylist(), columns[0].tolist(), strict=True
        )
    ]
    apart = [length or 0 for length in table["no_consumer_ms"].to_pylist()]
    columns.append(np.array(since, np.int64))
    columns.append(np.minimum(columns[-1] + np.array(apart, np.int64), columns[0]))
    known = rows >= 0
    return UnreadTimes(rows[known], *(column[known] for column in columns))


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


def _count_partition_changes(
    rows: Sequence[Mapping[str, Any]], times: Sequence[int], owned: OwnedIntervals, last_ms: int
) -> Iterator[dict[str, int]]:
    """Yield how many partitions each member owned before and after each listed rebalance.

    Members whose partitions did not change are left out. Each result also has the numbers of lost
    and gained partitions.

    Args:
        rows: the listed rebalances.
        times: times of all rebalances of the group, listed or not (ms).
        owned: the intervals in which members owned partitions.
        last_ms: end of the timeline; an interval that reaches it has not ended.
    """
    # The count after a rebalance is taken right before the next one, because members of a consumer
    # group take over their partitions one after the other. Members without a change are left out.
    # If there are many members, only those with the largest changes are yielded.
    begins = np.array([row["time_ms"] for row in rows], np.int64)
    known = np.unique(np.array(times, np.int64))
    place = np.searchsorted(known, begins, "right")
    until = np.append(known, np.iinfo(np.int64).max)[place]
    counts = []
    for start, end in _intervals_by_owner(owned, last_ms):
        before = np.searchsorted(start, begins) - np.searchsorted(end, begins)
        lost = np.searchsorted(end, until) - np.searchsorted(end, begins)
        gained = np.searchsorted(start, until) - np.searchsorted(start, begins)
        counts.append(np.stack([before, before - lost + gained, lost, gained]))
    if not counts:
        return
    by_owner = np.stack(counts)
    for step in range(len(rows)):
        change = by_owner[:, 2, step] + by_owner[:, 3, step]
        for owner in np.argsort(-change, kind="stable")[:_MAX_MEMBERS].tolist():
            if change[owner]:
                before, after, lost, gained = by_owner[owner, :, step].tolist()
                yield {"step": step, "owner": owner, "before": before, "after": after,
                       "lost": lost, "gained": gained}  # fmt: skip


def _intervals_by_owner(owned: OwnedIntervals, last_ms: int) -> Iterator[tuple[_Ints, _Ints]]:
    """Yield two sorted arrays for each member: when it began and when it ended to own a partition
    (ms).

    Adjacent intervals of the same partition are merged. An interval that reaches ``last_ms`` has
    not ended; its end is the largest int64.
    """
    # Successive intervals with the same owner and partition are merged. An interval that has not
    # ended has the largest int64 as its end.
    order = np.lexsort((owned.start, owned.row, owned.owner))
    row, owner, start, end = (a[order] for a in (owned.row, owned.owner, owned.start, owned.end))
    if not len(row):
        return
    new = (row[1:] != row[:-1]) | (owner[1:] != owner[:-1]) | (start[1:] != end[:-1])
    begins, ends = np.append([True], new), np.append(new, [True])
    end = np.where(end >= last_ms, np.iinfo(np.int64).max, end)
    for number in range(len(owned.owners)):
        of = owner == number
        yield np.sort(start[begins & of]), np.sort(end[ends & of])


def _list_cheapest(
    policies: Mapping[str, Mapping[str, Any]], unit: TimeUnit
) -> list[dict[str, str]]:
    """Return the few policies (protocol and strategy) with the least simulated downtime for a
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


def _storms(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["storm"] is not None:
            found.setdefault(row["storm"], []).append(row)
    totals = {number: _total_costs(of) for number, of in found.items()}
    unit = common_unit(map(_downtime_sort_key, totals.values()))
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
