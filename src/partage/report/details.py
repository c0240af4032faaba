"""What the page tells of each group one by one: ownership over time, rebalances, storms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from partage.report.columns import loaded
from partage.report.run import GroupFigures, Run
from partage.report.timeline import Owned, drawn
from partage.tables.statuses import PER_REBALANCE, RECORDED

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.runs.published_run import PublishedRun

__all__ = ["MOST_DETAILS", "details"]

#: Groups of which more is told than sums.
MOST_DETAILS = 1_000
#: Rebalances told one by one, of a group and in all.
MOST_STEPS, MOST_STEPS_IN_ALL = 300, 30_000
#: Rectangles of a timeline: of the groups that lost most, and of all others together.
_BOXES, _GENEROUS, _BOXES_OF_OTHERS = 3_000, 40, 120_000
_WORST = 5
_YEAR_MS = 366 * 86_400_000
_MOST_GAPS = 200
#: From when (None: from the beginning) and until when, and how many generations.
_Gap = tuple[int | None, int, int]
_KEY = ("group", "incarnation", "generation")


def details(folder: PublishedRun, run: Run) -> Iterator[tuple[GroupFigures, dict[str, Any]]]:
    """Plain values of each group that has rebalances, those that lost most first.

    Raises:
        InvalidCaptureError: a table cannot be read.
    """
    told = [g for g in run.groups if g.rebalances][:MOST_DETAILS]
    replays = loaded(folder, "replays", [*_KEY, "policy", "strategy", "reading", "status",
                                         "moved", "avoidable", "stopped_low_ps",
                                         "stopped_high_ps"])  # fmt: skip
    steps = _Slices(_with_costs(loaded(folder, "rebalances"), replays))
    owned = _Slices(loaded(folder, "ownership").sort_by("group"))
    each = max(5, min(MOST_STEPS, MOST_STEPS_IN_ALL // max(len(told), 1)))
    kept = {g.name: _rows(steps.of(g.name), each) for g in told}
    worst = {name: _worst(rows) for name, rows in kept.items()}
    cells = _cells(replays, [row for rows in worst.values() for row in rows])
    cover = run.summary.get("coverage", {})
    boxes = max(100, _BOXES_OF_OTHERS // max(len(told), 1))
    for number, group in enumerate(told):
        budget = _BOXES if number < _GENEROUS else min(boxes, _BOXES)
        yield group, _detail(
            kept[group.name], worst[group.name], cells,
            intervals=owned.of(group.name), missing=_missing(steps.of(group.name)),
            cover=cover, budget=budget,
        )  # fmt: skip


class _Slices:
    """A table sorted by group, and where each group's rows are."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        names = table["group"].to_pylist()
        self._place: dict[str, tuple[int, int]] = {}
        begin = 0
        for i, name in enumerate(names):
            if i + 1 == len(names) or names[i + 1] != name:
                self._place[name] = (begin, i + 1)
                begin = i + 1

    def of(self, group: str) -> pa.Table:
        begin, end = self._place.get(group, (0, 0))
        return self._table.slice(begin, end - begin)


def _with_costs(rebalances: pa.Table, replays: pa.Table) -> pa.Table:
    """Rebalances in the log's order, each with what it cost as recorded."""
    from pyarrow import compute as pc

    name = pc.coalesce(replays["policy"], replays["strategy"])
    recorded = replays.filter(pc.fill_null(pc.equal(name, RECORDED), False))
    sums = ("stopped_low_ps", "stopped_high_ps", "moved", "avoidable")
    costs = recorded.group_by(list(_KEY)).aggregate([(c, "sum") for c in sums])
    costs = costs.select([*_KEY, *(f"{c}_sum" for c in sums)])
    costs = costs.rename_columns([*_KEY, "low", "high", "moved", "avoidable"])
    order = [("group", "ascending"), ("log_partition", "ascending"), ("log_offset", "ascending")]
    table = rebalances.join(costs, list(_KEY), join_type="left outer").sort_by(order)
    # What was taken over in a migration has the number of the one before, and none of its costs.
    taken = pc.fill_null(pc.equal(table["cause_kind"], "migration"), False)
    for one in ("low", "high", "moved", "avoidable"):
        none = pc.if_else(taken, None, table[one])
        table = table.set_column(table.schema.get_field_index(one), one, none)
    return table


def _rows(table: pa.Table, most: int) -> list[dict[str, Any]]:
    """The newest rebalances, and the costliest ones if they are older."""
    size = table.num_rows
    if size > most:
        high = np.nan_to_num(np.array(table["high"].to_pylist(), float))
        moved = np.nan_to_num(np.array(table["moved"].to_pylist(), float))
        costly = np.lexsort((moved, high))[-_WORST:]
        kept = np.union1d(costly, np.arange(size - most, size))
        table = table.take(kept)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _worst(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that stopped most; where that is not known, those that moved most."""
    some = [r for r in rows if (r["high"] or 0) > 0 or (r["moved"] or 0) > 0]
    return sorted(some, key=lambda r: (-(r["high"] or 0), -(r["moved"] or 0)))[:_WORST]


def _cells(
    replays: pa.Table, wanted: Sequence[Mapping[str, Any]]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """(group, incarnation, generation) -> policy -> its figures; from the record if there."""
    import pyarrow as pa

    if not wanted:
        return {}
    keys = pa.table({c: pa.array([row[c] for row in wanted], replays[c].type) for c in _KEY})
    out: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in replays.join(keys, list(_KEY), join_type="inner").to_pylist():
        mine = out.setdefault(tuple(row[c] for c in _KEY), {})
        name = row["policy"] or row["strategy"]
        have = mine.get(name)
        if have and have["reading"] == row["reading"]:
            for column in ("moved", "stopped_low_ps", "stopped_high_ps"):
                if row[column] is not None:
                    have[column] = (have[column] or 0) + row[column]
        elif not have or row["reading"] == PER_REBALANCE:
            mine[name] = row
    return out


def _detail(
    rows: Sequence[dict[str, Any]],
    worst: Sequence[dict[str, Any]],
    cells: Mapping[tuple[Any, ...], dict[str, Any]],
    *,
    intervals: pa.Table,
    missing: Sequence[_Gap],
    cover: Mapping[str, Any],
    budget: int,
) -> dict[str, Any]:
    begun = intervals["from_ms"].to_pylist()
    first, last = _ends([*(r["time_ms"] for r in rows), *begun], cover)
    if missing and missing[0][0] is None:  # what was before its history is drawn too: as unknown
        first = min(first, max(cover.get("first_ms") or first, first - (last - first) // 4))
    owned = _owned(intervals, last)
    gaps = [[max(0, (first if a is None else a) - first), b - first, n] for a, b, n in missing]
    return {
        "first": first,
        "last": last,
        "owners": list(owned.owners),
        **drawn(owned, first, last, budget),
        "partitions": len(owned.partitions),
        "gaps": gaps,
        "steps": [_step(r) for r in rows],
        "worst": [_before_and_after(r, owned, cells) for r in worst],
        "storms": _storms(rows),
    }


def _missing(table: pa.Table) -> list[_Gap]:
    """Where generations are missing from the log: who owned what then is not known.

    The largest of them, in order; at the beginning of a history there may be one, too.
    """
    times, gaps = table["time_ms"].to_pylist(), table["gap_before"].to_pylist()
    before: list[int | None] = [None, *times]
    found = [(a, b, n) for a, b, n in zip(before, times, gaps, strict=False) if n]
    most = sorted(found, key=lambda one: -one[2])[:_MOST_GAPS]
    return sorted(most, key=lambda one: one[1])


def _ends(times: Sequence[int], cover: Mapping[str, Any]) -> tuple[int, int]:
    """From a group's own beginning to the end of the record.

    One wrong clock must not make a picture of an hour one of fifty years: an end of the record
    that is more than a year behind the group's last sign of life is not believed.
    """
    first, last = min(times, default=0), max(times, default=1)
    end = cover.get("last_ms")
    if end is not None and last < end <= last + _YEAR_MS:
        last = end
    return first, max(last, first + 1)


def _owned(table: pa.Table, last: int) -> Owned:
    """Owners are told by their instance id, if they have one: a restart is no change."""
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


def _step(row: Mapping[str, Any]) -> list[Any]:
    """What `templates/group.js` reads by place.

    0 generation, 1 life, 2 time, 3 kind, 4 recorded?, 5 words, 6 members, 7 moved, 8 low,
    9 high, 10 storm, 11 generations missing before, 12 note.
    """
    low, high = row["low"], row["high"]
    return [
        row["generation"], row["incarnation"], row["time_ms"], row["cause_kind"] or "unknown",
        row["cause_source"] == "recorded", row["cause"] or "", row["members"], row["moved"],
        None if low is None else round(low, 1), None if high is None else round(high, 1),
        row["storm"], row["gap_before"] or 0, row["disagreement"] or row["why_not"] or "",
    ]  # fmt: skip


def _before_and_after(
    row: Mapping[str, Any], owned: Owned, cells: Mapping[tuple[Any, ...], dict[str, Any]]
) -> dict[str, Any]:
    """Who had how many partitions right before a rebalance and right after it."""
    time, size = row["time_ms"], len(owned.partitions)
    before, after = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    had = (owned.start < time) & (owned.end >= time)
    has = (owned.start <= time) & (owned.end > time)
    before[owned.row[had]] = owned.owner[had]
    after[owned.row[has]] = owned.owner[has]
    members = []
    for who in np.unique(np.concatenate([before, after])).tolist():
        if who >= 0:
            mine, now = before == who, after == who
            counts = (int(x.sum()) for x in (mine, now, mine & ~now, now & ~mine))
            members.append([who, *counts])
    found = cells.get(tuple(row[c] for c in _KEY), {})
    policies = [
        [name, c["status"], c["moved"], c["stopped_low_ps"], c["stopped_high_ps"]]
        for name, c in found.items()
    ]
    members.sort(key=lambda m: -(m[3] + m[4]))
    return {
        "generation": row["generation"], "life": row["incarnation"],
        "members": members[:12], "more": max(0, len(members) - 12),
        "policies": sorted(policies, key=lambda p: (p[4] is None, p[4] or 0, p[2] or 0)),
    }  # fmt: skip


def _storms(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["storm"] is not None:
            found.setdefault(row["storm"], []).append(row)
    out = []
    for number, mine in sorted(found.items()):
        known = [r["high"] for r in mine if r["high"] is not None]
        lows = [r["low"] for r in mine if r["low"] is not None]
        out.append({
            "number": number, "rebalances": len(mine), "first": mine[0]["time_ms"],
            "last": mine[-1]["time_ms"], "trigger": mine[0]["cause_kind"] or "unknown",
            "words": mine[0]["cause"] or "", "low": round(sum(lows), 1) if lows else None,
            "high": round(sum(known), 1) if known else None,
            "kinds": Counter(r["cause_kind"] or "unknown" for r in mine).most_common(),
        })  # fmt: skip
    return out
