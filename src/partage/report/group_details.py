"""Details of single groups for the page: ownership over time, rebalances, storms.

A timeline has one row per partition and time across. A small group is drawn exactly. A large one is
drawn in bins, several partitions per row and a span of time per column: each bin shows the member
that owned most of it, and the share that it owned.

Many small records are columns with names (`columns_of`), which keeps the page small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.report.data import load_table
from partage.report.messages import CAUSES, count, format_range
from partage.report.run import FigureRange, GroupFigures, RunFigures
from partage.tables.statuses import DONE, PER_REBALANCE, RECORDED

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.runs.published_run import PublishedRun

__all__ = [
    "MAX_DETAILS",
    "MAX_ROWS",
    "Owned",
    "columns_of",
    "details",
    "draw_timeline",
    "member_labels",
]

#: Groups with details.
MAX_DETAILS = 1_000
#: Listed rebalances of one group, and of all groups together.
MAX_STEPS, MAX_STEPS_IN_ALL = 300, 30_000
#: Boxes of a timeline; the groups with the largest downtime have more than the others.
_MAX_BOXES, _LARGE_TIMELINES, _MAX_BOXES_IN_ALL = 3_000, 40, 120_000
#: Rebalances that are compared before and after.
_MAX_WORST = 5
#: Members in one such comparison, and policies with the least downtime.
_MAX_MEMBERS, _MAX_CHEAPEST = 12, 4
_YEAR_MS = 366 * 86_400_000
_MAX_GAPS = 200
#: Rows of a timeline that a screen can show.
MAX_ROWS = 48
#: Numbers of columns that are tried in turn, until the boxes are few enough.
_BINS = (240, 160, 96, 64, 40, 24, 12)
_KEY = ("group", "incarnation", "generation")
_COSTS = ("stopped_at_least_ps", "stopped_at_most_ps", "moved")
_Ints = NDArray[np.int64]


class _Gap(NamedTuple):
    """A gap in a group's history: generations that the log lacks.

    Attributes:
        from_ms: time of the previous rebalance; None before the first one.
        to_ms: time of the next rebalance.
        generations: number of missing generations.
    """

    from_ms: int | None
    to_ms: int
    generations: int


def columns_of(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Convert dicts with equal keys to one dict of lists (rows to columns).

    >>> columns_of([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    found: dict[str, list[Any]] = {}
    for record in records:
        for name, value in record.items():
            found.setdefault(name, []).append(value)
    return found


def details(folder: PublishedRun, run: RunFigures) -> Iterator[tuple[GroupFigures, dict[str, Any]]]:
    """Yield each group that rebalanced, with details for its page; the largest downtime first.

    Raises:
        InvalidCaptureError: a table cannot be read.
    """
    groups = run.rebalancing[:MAX_DETAILS]
    names = [*_KEY, "policy", "strategy", "reading", "status", *_COSTS]
    replays = load_table(folder, "replays", names)
    rebalances = _Slices(_with_costs(load_table(folder, "rebalances"), replays))
    owned = _Slices(load_table(folder, "ownership").sort_by("group"))
    labels = member_labels(
        load_table(folder, "members", ["group", "member", "instance", "client_id", "client_host"])
    )
    each = max(5, min(MAX_STEPS, MAX_STEPS_IN_ALL // max(len(groups), 1)))
    kept = {g.name: _listed(rebalances.of(g.name), each) for g in groups}
    worst = {name: _worst(rows) for name, rows in kept.items()}
    simulated = _simulated(replays, [row for rows in worst.values() for row in rows])
    cover = run.summary.get("coverage", {})
    boxes = max(100, _MAX_BOXES_IN_ALL // max(len(groups), 1))
    for number, group in enumerate(groups):
        rows = kept[group.name]
        intervals, gaps = owned.of(group.name), _gaps(rebalances.of(group.name))
        first, last = _time_span(rows, intervals, gaps, cover)
        ownership = _ownership(intervals, last)
        budget = _MAX_BOXES if number < _LARGE_TIMELINES else min(boxes, _MAX_BOXES)
        yield (
            group,
            {
                "first": first,
                "last": last,
                "owners": columns_of(
                    {"name": name, "label": labels.get((group.name, name), name)}
                    for name in ownership.owners
                ),
                **draw_timeline(ownership, first, last, budget),
                "partitions": len(ownership.partitions),
                "gaps": columns_of(
                    {
                        "from": 0 if gap.from_ms is None else max(0, gap.from_ms - first),
                        "to": gap.to_ms - first,
                        "generations": gap.generations,
                    }
                    for gap in gaps
                ),
                "steps": columns_of(map(_step, rows)),
                "worst": [_before_and_after(r, ownership, simulated) for r in worst[group.name]],
                "storms": columns_of(_storms(rows)),
            },
        )


def member_labels(members: pa.Table) -> dict[tuple[str, str], str]:
    """Return a dict from (group, instance id or member id) to a label: client id and host.

    The label of a static member begins with its instance id.
    """
    columns = ["group", "member", "instance", "client_id", "client_host"]
    found = {}
    for row in members.group_by(columns).aggregate([]).to_pylist():
        client = f"{row['client_id'] or ''} {row['client_host'] or ''}".strip()
        name = row["instance"] or row["member"]
        label = f"{row['instance']} ({client})" if row["instance"] and client else client
        found[row["group"], name] = label or name
    return found


class _Slices:
    """Index of a table that is sorted by group, which returns the rows of one group."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        names = table["group"].to_pylist()
        self._slices: dict[str, tuple[int, int]] = {}
        begin = 0
        for i, name in enumerate(names):
            if i + 1 == len(names) or names[i + 1] != name:
                self._slices[name] = (begin, i + 1)
                begin = i + 1

    def of(self, group: str) -> pa.Table:
        """Return the table rows of one group."""
        begin, end = self._slices.get(group, (0, 0))
        return self._table.slice(begin, end - begin)


def _with_costs(rebalances: pa.Table, replays: pa.Table) -> pa.Table:
    """Add the recorded downtime (low, high) and moves to each rebalance.

    Return them in log order.
    """
    from pyarrow import compute as pc

    name = pc.coalesce(replays["policy"], replays["strategy"])
    recorded = replays.filter(pc.fill_null(pc.equal(name, RECORDED), False))
    costs = recorded.group_by(list(_KEY)).aggregate([(c, "sum") for c in _COSTS])
    costs = costs.select([*_KEY, *(f"{c}_sum" for c in _COSTS)])
    costs = costs.rename_columns([*_KEY, "low", "high", "moved"])
    order = [("group", "ascending"), ("log_partition", "ascending"), ("log_offset", "ascending")]
    table = rebalances.join(costs, list(_KEY), join_type="left outer").sort_by(order)
    # A migration keeps the number of the previous rebalance, so the join finds that one's costs.
    migrated = pc.fill_null(pc.equal(table["cause_kind"], "migration"), False)
    for one in ("low", "high", "moved"):
        none = pc.if_else(migrated, None, table[one])
        table = table.set_column(table.schema.get_field_index(one), one, none)
    return table


def _listed(table: pa.Table, most: int) -> list[dict[str, Any]]:
    """Return the newest rebalances and the older ones with the largest downtime, as dicts."""
    size = table.num_rows
    if size > most:
        high = np.nan_to_num(np.array(table["high"].to_pylist(), float))
        moved = np.nan_to_num(np.array(table["moved"].to_pylist(), float))
        costly = np.lexsort((moved, high))[-_MAX_WORST:]
        table = table.take(np.union1d(costly, np.arange(size - most, size)))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _worst(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rebalances with the largest downtime, or with most moves if it is unknown."""
    some = [r for r in rows if (r["high"] or 0) > 0 or (r["moved"] or 0) > 0]
    return sorted(some, key=lambda r: (-(r["high"] or 0), -(r["moved"] or 0)))[:_MAX_WORST]


def _simulated(
    replays: pa.Table, rebalances: Sequence[Mapping[str, Any]]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the simulated costs of each rebalance under each policy.

    The result maps (group, incarnation, generation) to a dict from policy to costs.

    The costs of a rebalance's steps are added up.

    The costs are of the simulation per rebalance if the run has it.
    """
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


def _gaps(table: pa.Table) -> list[_Gap]:
    """Return the largest gaps in a group's history, by time; owners within them are unknown."""
    times, missing = table["time_ms"].to_pylist(), table["gap_before"].to_pylist()
    before: list[int | None] = [None, *times]
    found = [_Gap(a, b, n) for a, b, n in zip(before, times, missing, strict=False) if n]
    largest = sorted(found, key=lambda gap: -gap.generations)[:_MAX_GAPS]
    return sorted(largest, key=lambda gap: gap.to_ms)


def _time_span(
    rows: Sequence[Mapping[str, Any]],
    intervals: pa.Table,
    gaps: Sequence[_Gap],
    cover: Mapping[str, Any],
) -> tuple[int, int]:
    """Return the start and end of a group's timeline (ms).

    A gap before the first rebalance takes a quarter of it.
    """
    begun = intervals["from_ms"].to_pylist()
    first, last = _ends([*(r["time_ms"] for r in rows), *begun], cover)
    if gaps and gaps[0].from_ms is None:
        first = min(first, max(cover.get("first_ms") or first, first - (last - first) // 4))
    return first, last


def _ends(times: Sequence[int], cover: Mapping[str, Any]) -> tuple[int, int]:
    """Return the start of a group's history and the end of the log (ms).

    A wrong clock must not stretch a timeline of an hour to fifty years: an end of the log more than
    a year after the group's last event is ignored.
    """
    first, last = min(times, default=0), max(times, default=1)
    end = cover.get("last_ms")
    if end is not None and last < end <= last + _YEAR_MS:
        last = end
    return first, max(last, first + 1)


@dataclass(frozen=True, slots=True)
class Owned:
    """The ownership intervals of one group's partitions, as arrays of length N (int64).

    Attributes:
        row: index of the partition in ``partitions``.
        owner: index of the owner in ``owners``.
        start, end: times in ms; ``end`` is the end of the history if it lasts.
        partitions: (topic, partition number), sorted.
        owners: instance ids or member ids, in order of appearance.
    """

    row: _Ints
    owner: _Ints
    start: _Ints
    end: _Ints
    partitions: Sequence[tuple[str, int]]
    owners: Sequence[str]


def _ownership(table: pa.Table, last: int) -> Owned:
    """Return a group's ownership intervals; a static member stays one owner when it restarts."""
    pairs = list(zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True))
    partitions = sorted(set(pairs))
    place = {pair: i for i, pair in enumerate(partitions)}
    start = np.array(table["from_ms"].to_pylist(), np.int64)
    ends = [last if t is None else t for t in table["to_ms"].to_pylist()]
    names = [
        instance or member
        for instance, member in zip(
            table["instance"].to_pylist(), table["member"].to_pylist(), strict=True
        )
    ]
    known: dict[str, int] = {}
    for i in np.argsort(start, kind="stable").tolist():
        known.setdefault(names[i], len(known))
    return Owned(
        np.array([place[p] for p in pairs], np.int64),
        np.array([known[n] for n in names], np.int64),
        start,
        np.array(ends, np.int64),
        partitions,
        list(known),
    )


def _range_of(low: float | None, high: float | None) -> FigureRange | None:
    return None if low is None or high is None else FigureRange(low, high)


def _downtime(low: float | None, high: float | None) -> str:
    known = _range_of(low, high)
    return "?" if known is None else format_range(known, short=True)


def _step(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one rebalance as an entry of the rebalance list on the HTML page."""
    return {
        "generation": row["generation"], "incarnation": row["incarnation"],
        "time_ms": row["time_ms"], "cause": row["cause_kind"] or "unknown",
        "recorded": row["cause_source"] == "recorded", "what": row["cause"] or "",
        "members": row["members"], "moved": row["moved"],
        "downtime": _downtime(row["low"], row["high"]), "downtime_sort": _rounded(row["high"]),
        "storm": row["storm"], "missing_before": row["gap_before"] or 0,
        "note": row["disagreement"] or row["why_not"] or "",
    }  # fmt: skip


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _before_and_after(
    row: Mapping[str, Any], owned: Owned, simulated: Mapping[tuple[Any, ...], dict[str, Any]]
) -> dict[str, Any]:
    """Return which partitions each member owned right before and right after a rebalance."""
    time, size = row["time_ms"], len(owned.partitions)
    before, after = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    had = (owned.start < time) & (owned.end >= time)
    has = (owned.start <= time) & (owned.end > time)
    before[owned.row[had]] = owned.owner[had]
    after[owned.row[has]] = owned.owner[has]
    members = []
    for owner in np.unique(np.concatenate([before, after])).tolist():
        if owner >= 0:
            was, now = before == owner, after == owner
            counts = (int(x.sum()) for x in (was, now, was & ~now, now & ~was))
            names = ("before", "after", "lost", "gained")
            members.append({"owner": owner, **dict(zip(names, counts, strict=True))})
    members.sort(key=lambda m: -(m["lost"] + m["gained"]))
    moved = "unknown" if row["moved"] is None else count(row["moved"])
    cause = row["cause_kind"] or "unknown"
    label = CAUSES[cause].label if cause in CAUSES else cause
    return {
        "generation": row["generation"], "time_ms": row["time_ms"],
        "what": f"{row['cause'] or label}. Downtime {_downtime(row['low'], row['high'])}; "
        f"partitions moved: {moved}.",
        "members": columns_of(members[:_MAX_MEMBERS]),
        "more": max(0, len(members) - _MAX_MEMBERS),
        "cheapest": columns_of(_cheapest(simulated.get(tuple(row[c] for c in _KEY), {}))),
    }  # fmt: skip


def _cheapest(policies: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the policies with the least downtime in one rebalance, as texts for the page."""
    done = [(n, r) for n, r in policies.items() if n != RECORDED and r["status"] == DONE]
    done.sort(key=lambda p: (p[1]["stopped_at_most_ps"] is None, p[1]["stopped_at_most_ps"] or 0,
                             p[1]["moved"] or 0))  # fmt: skip
    found = []
    for name, row in done[:_MAX_CHEAPEST]:
        known = _range_of(row["stopped_at_least_ps"], row["stopped_at_most_ps"])
        text = f"{row['moved'] or 0} moved" if known is None else format_range(known, short=True)
        found.append({"policy": name, "downtime": text})
    return found


def _storms(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rebalance storms among the listed rebalances, in order of time."""
    found: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["storm"] is not None:
            found.setdefault(row["storm"], []).append(row)
    storms = []
    for number, of in sorted(found.items()):
        highs = [r["high"] for r in of if r["high"] is not None]
        lows = [r["low"] for r in of if r["low"] is not None]
        low, high = (sum(lows), sum(highs)) if lows and highs else (None, None)
        storms.append({
            "number": number, "rebalances": len(of), "first": of[0]["time_ms"],
            "last": of[-1]["time_ms"], "trigger": of[0]["cause_kind"] or "unknown",
            "what": of[0]["cause"] or "", "downtime": _downtime(low, high),
            "downtime_sort": _rounded(high),
            "causes": dict(Counter(r["cause_kind"] or "unknown" for r in of).most_common()),
        })  # fmt: skip
    return storms


#: Columns of the boxes of a timeline.
_BOX = ("row", "start", "end", "owner", "share")


class _Spans(NamedTuple):
    """Ownership intervals as arrays with their timeline row.

    Times are in ms since the timeline's start.
    """

    row: _Ints
    owner: _Ints
    start: _Ints
    end: _Ints


class _Cells(NamedTuple):
    """Time bins of a timeline that have an owner, with the main owner and its share of the bin.

    They are sorted by row and column.
    """

    row: _Ints
    column: _Ints
    owner: _Ints
    share: NDArray[np.float64]


def draw_timeline(owned: Owned, first_ms: int, last_ms: int, budget: int) -> dict[str, Any]:
    """Return a timeline of partition ownership as plain numbers, in named columns.

    Args:
        owned: ownership intervals; times outside the timeline are cut off.
        first_ms: start of the timeline.
        last_ms: end of the timeline.
        budget: approximate maximum number of boxes.

    Returns:
        ``rows``: first and last topic and partition of each row; ``boxes``: row, start and end (ms
        since ``first_ms``), owner and its share in percent; ``exact``: whether each box is one
        partition and one interval.
    """
    span = max(last_ms - first_ms, 1)
    start = np.clip(owned.start - first_ms, 0, span)
    end = np.clip(owned.end - first_ms, 0, span)
    seen = end > start
    row, owner, start, end = (a[seen] for a in (owned.row, owned.owner, start, end))
    size = len(owned.partitions)
    exact = size <= MAX_ROWS and len(row) <= budget and not _overlapping(row, start, end)
    if exact:
        rows = size
        boxes = np.column_stack([row, start, end, owner, np.full(len(row), 100)])
    else:
        rows = min(size, MAX_ROWS, max(budget // 8, 4))
        boxes = _binned(_Spans(row * rows // max(size, 1), owner, start, end), span, budget)
    names = owned.partitions
    edges = [(r * size + rows - 1) // rows for r in range(rows + 1)] if rows else [0]
    return {
        "rows": columns_of(
            {
                "first_topic": names[a][0],
                "first_partition": names[a][1],
                "last_topic": names[b - 1][0],
                "last_partition": names[b - 1][1],
            }
            for a, b in pairwise(edges)
        ),
        "boxes": dict(zip(_BOX, boxes.astype(np.int64).T.tolist(), strict=True)),
        "exact": bool(exact),
    }


def _overlapping(row: _Ints, start: _Ints, end: _Ints) -> bool:
    """Return whether some partition has two owners at once, as share groups allow."""
    order = np.lexsort((start, row))
    row, start, end = row[order], start[order], end[order]
    return bool(((row[1:] == row[:-1]) & (start[1:] < end[:-1])).any())


def _binned(spans: _Spans, span: int, budget: int) -> NDArray[np.int64]:
    """Divide a timeline into the finest time bins that give at most ``budget`` boxes.

    Return the boxes.
    """
    found = np.zeros((0, 5), np.int64)
    for columns in _BINS:
        found = _joined(_bins(spans, span, columns), span, columns)
        if len(found) <= budget:
            break
    return found


def _bins(spans: _Spans, span: int, columns: int) -> _Cells:
    """Return the main owner of each time bin of a timeline with ``columns`` bins per row."""
    row, owner, start, end = spans
    width = span / columns
    first = np.minimum((start / width).astype(np.int64), columns - 1)
    last = np.minimum(np.ceil(end / width).astype(np.int64), columns)
    last = np.maximum(last, first + 1)
    times = last - first
    place = np.repeat(np.arange(len(row)), times)
    column = np.arange(len(place)) - np.repeat(np.cumsum(times) - times, times) + first[place]
    weight = np.minimum(end[place], (column + 1) * width) - np.maximum(start[place], column * width)
    owners = int(owner.max(initial=0)) + 1
    key = (row[place] * columns + column) * owners + owner[place]
    keys, which = np.unique(key, return_inverse=True)
    weights = np.bincount(which, np.maximum(weight, 0), len(keys))
    cell, member = keys // owners, keys % owners
    order = np.lexsort((weights, cell))
    newest = np.append(cell[order][1:] != cell[order][:-1], [True] * (len(order) > 0))
    best = order[newest.astype(bool)]
    whole = np.bincount(np.unique(cell, return_inverse=True)[1], weights)
    share = weights[best] / np.maximum(whole, 1e-9)
    return _Cells(cell[best] // columns, cell[best] % columns, member[best], share)


def _joined(cells: _Cells, span: int, columns: int) -> NDArray[np.int64]:
    """Merge neighbouring time bins that have one owner and a similar share into drawn boxes."""
    row, column, owner, share = cells
    if not len(row):
        return np.zeros((0, 5), np.int64)
    coarse = np.ceil(share * 4)
    new = np.append(
        [True],
        (row[1:] != row[:-1])
        | (column[1:] != column[:-1] + 1)
        | (owner[1:] != owner[:-1])
        | (coarse[1:] != coarse[:-1]),
    )
    begins = np.flatnonzero(new)
    ends = np.append(begins[1:], len(row)) - 1
    mean = np.add.reduceat(share, begins) / (ends - begins + 1)
    width = span / columns
    return np.column_stack([
        row[begins], np.rint(column[begins] * width), np.rint((column[ends] + 1) * width),
        owner[begins], np.maximum(np.rint(100 * mean), 1),
    ]).astype(np.int64)  # fmt: skip
