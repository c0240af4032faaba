"""Reads a published run, through its manifest, into plain values.

Sums are made by columns, so that a large run costs little; single rebalances are read for
the newest `MOST_STEPS` of a group only, and for `MOST_STEPS_IN_ALL` of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.published import Published
from partage.report.run import BadRecord, Cell, Figures, Group, Run, Step, total
from partage.statuses import DONE, FAILED, NOT_YET, RECORDED, REFUSED

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MOST_BAD", "MOST_STEPS", "MOST_STEPS_IN_ALL", "read_run"]

MOST_STEPS = 200
MOST_STEPS_IN_ALL = 3_000
MOST_BAD = 200

_STEP_COLUMNS = [
    "group", "incarnation", "generation", "log_partition", "log_offset", "time_ms", "cause",
    "follow_up", "joined", "left", "strategy", "members", "partitions", "gap_before", "why_not",
]  # fmt: skip
_REPLAY_COLUMNS = [
    "group", "incarnation", "generation", "strategy", "status", "claimed", "agrees", "counts",
    "moved", "avoidable", "spread", "best_spread", "idle", "rack_mismatches", "breaches",
]  # fmt: skip


def read_run(out: str | Path) -> Run:
    """The newest published run of an output folder.

    Raises:
        InvalidCaptureError: there is none, or one of its files cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    folder = Published(out)
    replays = folder.table("replays", _REPLAY_COLUMNS)
    by_group = _figures(replays)
    steps, most_members = _steps(folder.table("rebalances", _STEP_COLUMNS), replays)
    rows = folder.table("groups").to_pylist()
    rows.sort(key=lambda r: (-r["rebalances"], r["group"]))
    groups = tuple(
        _group(i, row, by_group.get(row["group"], {}), steps, most_members)
        for i, row in enumerate(rows)
    )
    overall: dict[str, list[Figures]] = {}
    for figures in by_group.values():
        for name, one in figures.items():
            overall.setdefault(name, []).append(one)
    sums = {name: total(of) for name, of in overall.items()}
    return Run(folder.summary, groups, _order(folder.summary, sums), sums, _bad(folder))


def _bad(run: Published) -> tuple[BadRecord, ...]:
    """The first bad records, in the log's order."""
    table = run.table("bad_records", ["partition", "offset", "part", "why", "group"])
    order = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    return tuple(BadRecord(**row) for row in order.slice(0, MOST_BAD).to_pylist())


def _figures(replays: pa.Table) -> dict[str, dict[str, Figures]]:
    """Group -> strategy -> sums."""
    from pyarrow import compute as pc

    def flag(mask: Any) -> Any:
        return pc.cast(pc.fill_null(mask, False), "int64")

    status, spread = replays["status"], replays["spread"]
    counted = pc.and_(replays["counts"], pc.is_valid(replays["agrees"]))
    derived = {
        "rebalances": flag(pc.is_valid(status)),
        "done": flag(pc.equal(status, DONE)),
        "refused": flag(pc.equal(status, REFUSED)),
        "failed": flag(pc.equal(status, FAILED)),
        "missing": flag(pc.equal(status, NOT_YET)),
        "claimed": flag(replays["claimed"]),
        "proven": flag(pc.is_valid(replays["avoidable"])),
        "even": flag(pc.equal(spread, replays["best_spread"])),
        "judged": flag(pc.is_valid(replays["best_spread"])),
        "incomplete": flag(pc.greater(replays["breaches"], 0)),
        "counted": flag(counted),
        "agreed": flag(pc.and_(counted, pc.fill_null(replays["agrees"], False))),
    }
    for name in ("moved", "avoidable", "idle", "rack_mismatches"):
        derived[name] = pc.cast(pc.fill_null(replays[name], 0), "int64")
    table = replays.select(["group", "strategy", "spread"])
    for name, column in derived.items():
        table = table.append_column(name, column)
    sums = table.group_by(["group", "strategy"]).aggregate(
        [(name, "sum") for name in derived] + [("spread", "max")]
    )
    out: dict[str, dict[str, Figures]] = {}
    for row in sums.to_pylist():
        values = {name: row[f"{name}_sum"] for name in derived}
        made = Figures(row["strategy"], largest_spread=row["spread_max"], **values)
        out.setdefault(row["group"], {})[row["strategy"]] = made
    return out


def _steps(rebalances: pa.Table, replays: pa.Table) -> tuple[dict[str, list[Step]], dict[str, int]]:
    """The newest rebalances of each group in the log's order, and its most members."""
    order = [("group", "ascending"), ("log_partition", "ascending"), ("log_offset", "ascending")]
    table = rebalances.sort_by(order)
    most = table.group_by("group").aggregate([("members", "max")]).to_pylist()
    rows = _taken(table, _newest(table["group"].to_pylist()))
    cells = _cells(replays, {(r["group"], r["incarnation"], r["generation"]) for r in rows})
    steps: dict[str, list[Step]] = {}
    for row in rows:
        key = (row["group"], row["incarnation"], row["generation"])
        steps.setdefault(row["group"], []).append(_step(row, cells.get(key, {})))
    return steps, {row["group"]: row["members_max"] for row in most}


def _taken(table: pa.Table, positions: list[int]) -> list[dict[str, Any]]:
    import pyarrow as pa

    # Without the type an empty list is of type null, which pyarrow does not take.
    rows: list[dict[str, Any]] = table.take(pa.array(positions, pa.int64())).to_pylist()
    return rows


def _newest(groups: list[str]) -> list[int]:
    """Positions of the rows to show: the last of each group, fewer if there are many groups."""
    counts = Counter(groups)
    each = max(1, min(MOST_STEPS, MOST_STEPS_IN_ALL // max(len(counts), 1)))
    seen: Counter[str] = Counter()
    kept = []
    for i, group in enumerate(groups):
        seen[group] += 1
        if seen[group] > counts[group] - each:
            kept.append(i)
    return kept


def _cells(
    replays: pa.Table, wanted: set[tuple[str, int, int]]
) -> dict[tuple[str, int, int], dict[str, Cell]]:
    keys = list(
        zip(*(replays[n].to_pylist() for n in ("group", "incarnation", "generation")), strict=True)
    )
    rows = _taken(replays, [i for i, key in enumerate(keys) if key in wanted])
    out: dict[tuple[str, int, int], dict[str, Cell]] = {}
    for row in rows:
        key = (row["group"], row["incarnation"], row["generation"])
        out.setdefault(key, {})[row["strategy"]] = Cell(
            row["status"], row["moved"], row["avoidable"], row["spread"], row["agrees"]
        )
    return out


def _step(row: Mapping[str, Any], cells: Mapping[str, Cell]) -> Step:
    same = (
        "incarnation", "generation", "time_ms", "cause", "strategy", "members", "partitions",
        "gap_before", "why_not",
    )  # fmt: skip
    return Step(sort=_sort(row), cells=cells, **{name: row[name] for name in same})


def _sort(row: Mapping[str, Any]) -> str:
    if row["members"] == 0:
        return "empty"
    if row["follow_up"]:
        return "again"
    if row["joined"] and not row["left"]:
        return "join"
    if row["left"] and not row["joined"]:
        return "leave"
    return "change"


def _group(
    number: int,
    row: Mapping[str, Any],
    figures: Mapping[str, Figures],
    steps: Mapping[str, list[Step]],
    most_members: Mapping[str, int],
) -> Group:
    same = (
        "kind", "status", "why", "records", "commits", "rebalances", "incarnations",
        "missing_generations",
    )  # fmt: skip
    return Group(
        name=row["group"],
        anchor=f"g{number}",
        claimed=tuple(row["claimed"]),
        clients=tuple(row["clients"]),
        most_members=most_members.get(row["group"], 0),
        figures=figures,
        steps=tuple(steps.get(row["group"], ())),
        **{name: row[name] for name in same},
    )


def _order(summary: Mapping[str, Any], sums: Mapping[str, Figures]) -> tuple[str, ...]:
    """As the run was asked, then those that Partage does not have yet."""
    asked = [name for name in summary.get("asked", ()) if name in sums]
    rest = sorted(name for name in sums if name not in asked and name != RECORDED)
    return (*asked, *rest)
