"""Sums of table ``replays`` by group and policy, made by columns: cheap however long the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partage.report.columns import flag
from partage.report.run import Figures
from partage.tables.statuses import (
    CUMULATIVE,
    DONE,
    FAILED,
    NOT_YET,
    PER_REBALANCE,
    RECORDED,
    REFUSED,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Sums", "summed"]

_KEY = ["group", "policy", "reading"]
_REBALANCE = ["group", "incarnation", "generation"]
#: The policy that stands for the group as it was run.
OWN = "own"
#: Column of the table -> sum of it, and how many rows have it.
_BOUNDS = {
    "stopped_low_ps": ("stopped_low", None),
    "stopped_high_ps": ("stopped_high", "timed"),
    "reread_low": ("reread_low", None),
    "reread_high": ("reread_high", "reread_known"),
    "load_spread": ("load_spread", "load_known"),
    "colocation": ("colocation", "colocation_known"),
}

#: Group -> policy -> its figures.
ByGroup = dict[str, dict[str, Figures]]
Sums = tuple[ByGroup, ByGroup]


def summed(replays: pa.Table) -> Sums:
    """The main reading, and the other one, of each group's policies.

    A policy's main reading is its own past, if the run has it; then the record's.
    """
    table = _named(replays)
    found = _figures(table)
    saved = _saved(table)
    main: ByGroup = {}
    other: ByGroup = {}
    for (group, policy, reading), values in found.items():
        values.update(saved.get((group, policy, reading), {}))
        figures = Figures(policy, reading, **values)
        has_own = (group, policy, CUMULATIVE) in found
        aside = reading == PER_REBALANCE and has_own
        (other if aside else main).setdefault(group, {})[policy] = figures
    return main, other


def _named(replays: pa.Table) -> pa.Table:
    """Policies and readings have a name in every row, older runs' too."""
    from pyarrow import compute as pc

    policy = pc.coalesce(replays["policy"], replays["strategy"])
    reading = pc.coalesce(
        replays["reading"], pc.if_else(pc.equal(policy, RECORDED), RECORDED, CUMULATIVE)
    )
    table = replays.set_column(replays.schema.get_field_index("policy"), "policy", policy)
    return table.set_column(table.schema.get_field_index("reading"), "reading", reading)


def _figures(replays: pa.Table) -> dict[tuple[str, str, str], dict[str, Any]]:
    from pyarrow import compute as pc

    status, spread = replays["status"], replays["spread"]
    counted = pc.and_(replays["counts"], pc.is_valid(replays["agrees"]))
    derived = {
        "rows": flag(pc.is_valid(status)),
        "done": flag(pc.equal(status, DONE)),
        "refused": flag(pc.equal(status, REFUSED)),
        "failed": flag(pc.equal(status, FAILED)),
        "missing": flag(pc.equal(status, NOT_YET)),
        "spared": flag(pc.invert(pc.fill_null(replays["caused"], True))),
        "claimed": flag(replays["claimed"]),
        "proven": flag(pc.is_valid(replays["avoidable"])),
        "even": flag(pc.equal(spread, replays["best_spread"])),
        "judged": flag(pc.and_(pc.is_valid(replays["best_spread"]), pc.is_valid(spread))),
        "incomplete": flag(pc.greater(replays["breaches"], 0)),
        "counted": flag(counted),
        "agreed": flag(pc.and_(counted, pc.fill_null(replays["agrees"], False))),
    }
    for name in ("moved", "avoidable", "idle", "rack_mismatches"):
        derived[name] = pc.cast(pc.fill_null(replays[name], 0), "int64")
    for column, (name, known) in _BOUNDS.items():
        derived[name] = pc.fill_null(replays[column], 0)
        if known:
            derived[known] = flag(pc.is_valid(replays[column]))
    table = replays.select([*_KEY, "spread"])
    for name, column in derived.items():
        table = table.append_column(name, column)
    sums = table.group_by(_KEY).aggregate([(n, "sum") for n in derived] + [("spread", "max")])
    out = {}
    for row in sums.to_pylist():
        values = {name: row[f"{name}_sum"] for name in derived}
        values["largest_spread"] = row["spread_max"]
        out[row["group"], row["policy"], row["reading"]] = values
    return out


def _saved(replays: pa.Table) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return what each policy saves against the record, and against the policy `own`.

    Both costs of one rebalance grow with the same unknown length of it. So the saving lies
    between the difference of the low bounds and that of the high ones, and these are added up
    in their own order: the range is as wide as what is not known, and no wider.
    """
    from pyarrow import compute as pc

    known = replays.filter(
        pc.and_(pc.is_valid(replays["stopped_low_ps"]), pc.is_valid(replays["stopped_high_ps"]))
    )
    each = known.group_by([*_REBALANCE, "policy", "reading"]).aggregate(
        [("stopped_low_ps", "sum"), ("stopped_high_ps", "sum")]
    )
    is_record = pc.equal(each["policy"], RECORDED)
    others = each.filter(pc.invert(is_record))
    own = each.filter(pc.equal(each["policy"], OWN))
    out: dict[tuple[str, str, str], dict[str, Any]] = {}
    for base, key, names in (
        (each.filter(is_record), _REBALANCE, ("saved_low", "saved_high", "compared")),
        (own, [*_REBALANCE, "reading"], ("gain_low", "gain_high", "gain_known")),
    ):
        for row in _differences(others, base, key):
            cells = zip(names, (row["low_sum"], row["high_sum"], row["low_count"]), strict=True)
            out.setdefault((row["group"], row["policy"], row["reading"]), {}).update(cells)
    return out


def _differences(costs: pa.Table, base: pa.Table, key: list[str]) -> list[dict[str, Any]]:
    """Return costs of a base minus those of each policy, rebalance by rebalance, added up."""
    from pyarrow import compute as pc

    columns = [*key, "stopped_low_ps_sum", "stopped_high_ps_sum"]
    of_base = base.select(columns).rename_columns([*key, "base_low", "base_high"])
    both = costs.join(of_base, key, join_type="inner")
    a = pc.subtract(both["base_low"], both["stopped_low_ps_sum"])
    b = pc.subtract(both["base_high"], both["stopped_high_ps_sum"])
    both = both.append_column("low", pc.min_element_wise(a, b))
    both = both.append_column("high", pc.max_element_wise(a, b))
    sums = both.group_by(_KEY).aggregate([("low", "sum"), ("high", "sum"), ("low", "count")])
    rows: list[dict[str, Any]] = sums.to_pylist()
    return rows
