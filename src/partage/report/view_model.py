"""The view model: tables of policies, groups and causes as records of texts and sort values.

The page and the terminal show the same cells. Columns of policies come from the metrics table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from partage.report.advice import advice_for, best_policy, first_step
from partage.report.group_details import columns_of
from partage.report.messages import (
    CAUSES,
    cause_clause,
    count,
    format_range,
    format_saving,
    percent,
    plural,
)
from partage.report.run import CauseShare, FigureRange, Figures, GroupFigures, Run
from partage.tables.metrics import SHOWN, Aggregation, Metric, Shown
from partage.tables.statuses import FAILED, NOT_YET, RECORDED, REFUSED

__all__ = [
    "MAX_LISTED", "STATUS_LABELS", "CauseRow", "Cell", "GroupRow", "PolicyRow", "cause_rows",
    "group_data", "group_row", "metric_headings", "policy_rows",
]  # fmt: skip

#: Rows of a table on the page; the run's own tables have all.
MAX_LISTED = 2_000
#: Text for statuses of policies without a plan.
STATUS_LABELS = {NOT_YET: "not in Partage", FAILED: "failed", REFUSED: "not applicable"}


class Cell(NamedTuple):
    """One cell of a table.

    Attributes:
        text: what is shown.
        sort: value to sort by; None sorts as the smallest.
        range: range of a bar, if the cell has one.
    """

    text: str
    sort: float | None
    range: FigureRange | None = None


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One row of a table of policies.

    Attributes:
        policy: name of the policy; `RECORDED` for the record.
        label: name to show.
        comparable: whether its sums compare with the record's.
        note: text instead of cells, if the policy has no plan at all.
        affected: number of rebalances that the note is about.
        cells: one cell per metric of the table.
    """

    policy: str
    label: str
    comparable: bool
    note: str
    affected: int
    cells: tuple[Cell, ...]

    @property
    def is_recorded(self) -> bool:
        """True for the record's row."""
        return self.policy == RECORDED


def policy_rows(
    names: Iterable[str], figures: Mapping[str, Figures], shown: Shown
) -> Iterator[PolicyRow]:
    """Yield the record's row, then one row per policy.

    Args:
        names: policies in display order, without `RECORDED`.
        figures: figures by policy.
        shown: output, which decides the columns.
    """
    for name in (RECORDED, *names):
        if name not in figures:
            continue
        f = figures[name]
        label = "as recorded" if name == RECORDED else name
        comparable = f.comparable or name == RECORDED
        cells = [_cell(metric, f) for metric in SHOWN[shown]]
        if not comparable:
            cells[0] = cells[0]._replace(text=f"{cells[0].text} *")
        affected = f.rows if f.exists else f.claimed
        yield PolicyRow(name, label, comparable, _note(f), affected, tuple(cells))


def _note(f: Figures) -> str:
    """Return the reason for a policy without any plan; empty if it has plans."""
    if f.done:
        return ""
    status = FAILED if f.failed else REFUSED if f.exists else NOT_YET
    return STATUS_LABELS[status]


def _cell(metric: Metric, f: Figures) -> Cell:
    """Return the cell of a metric; the record has no saving."""
    value, how = getattr(f, metric.name), metric.aggregation
    if how is Aggregation.DIFFERENCE and f.policy == RECORDED:
        return Cell("", None)
    if value is None:
        return Cell("?", None)
    if isinstance(value, FigureRange):
        text = _records(value) if metric.unit == "records" else format_range(value, short=True)
        return Cell(text, value.high, value)
    if how is Aggregation.RATIO:
        part, whole = (getattr(f, source) for source in metric.inputs)
        return Cell(percent(part, whole), value)
    if how is Aggregation.MEAN:
        return Cell(f"{value:,.1f}", value)
    # The minimum of moves is not known for each rebalance: then the sum is a lower bound.
    least = "≥ " if metric.name == "avoidable" and f.proven < f.done else ""
    return Cell(f"{least}{count(value)}", value)


def _records(found: FigureRange) -> str:
    low, high = count(int(found.low)), count(int(found.high))
    return low if low == high else f"{low}–{high}"


class CauseRow(NamedTuple):
    """One kind of cause: its texts, its rebalances and their downtime; None if unknown."""

    label: str
    sentence: str
    rebalances: int
    downtime: FigureRange | None


def cause_rows(causes: Iterable[CauseShare]) -> list[CauseRow]:
    """Return the rows of the list of causes."""
    rows = []
    for one in causes:
        clause = cause_clause(one.kind)
        sentence = clause[0].upper() + clause[1:]
        if one.kind == "unknown":
            sentence = "The log does not show the cause"
        label = CAUSES[one.kind].label if one.kind in CAUSES else one.kind
        downtime = FigureRange(one.low, one.high) if one.timed else None
        rows.append(CauseRow(label, sentence, one.rebalances, downtime))
    return rows


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One row of the table of groups.

    Attributes:
        group: the group.
        search: text that the filter searches.
        downtime: recorded downtime.
        cause: label of the main cause.
        best: policy of the best settings; empty if there are none.
        saves: downtime that they save.
        coverage: share of its generations in the log.
        reproduced: recorded assignments that Partage reproduces, of those compared.
        step: first advice for the group.
    """

    group: GroupFigures
    search: str
    downtime: Cell
    cause: str
    best: str
    saves: Cell
    coverage: Cell
    reproduced: Cell
    step: str


def group_row(group: GroupFigures) -> GroupRow:
    """Return a group's row in the table of groups."""
    best, lost = best_policy(group), group.lost
    cause = next((c for c in group.causes if c.kind != "first"), None)
    policies = [f for name, f in group.figures.items() if name != RECORDED and f.counted]
    counted = group.traits.judged or sum(f.counted for f in policies)
    agreed = group.traits.agreed if group.traits.judged else sum(f.agreed for f in policies)
    known = group.rebalances + group.missing_generations
    searched = [group.name, group.kind, *group.claimed, *group.clients]
    label = ""
    if cause is not None:
        label = CAUSES[cause.kind].label if cause.kind in CAUSES else cause.kind
        searched += [cause.kind, label]
    return GroupRow(
        group, " ".join(searched),
        Cell(format_range(lost, short=True), lost.high) if lost else Cell("?", None),
        label, best.policy if best else "",
        Cell(format_range(best.saved, short=True), best.saved.high) if best else Cell("", None),
        Cell(percent(group.rebalances, known), group.coverage),
        Cell(f"{agreed} of {counted}", agreed / counted) if counted else Cell("", None),
        first_step(group),
    )  # fmt: skip


def metric_headings() -> list[dict[str, str]]:
    """Return the columns of a group's table of policies, for the page's script."""
    return [
        {"name": metric.name, "label": metric.label, "help": metric.help}
        for metric in SHOWN[Shown.GROUP]
    ]


def group_data(run: Run, group: GroupFigures, details: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that the page's script shows of a group.

    Args:
        run: the run.
        group: the group.
        details: its timeline and rebalances, from `partage.report.group_details`.
    """
    bad = [b for b in run.bad if b.group == group.name]
    return {
        **details,
        "name": group.name,
        "downtime": format_range(group.lost),
        "advice": [
            {
                "title": a.title, "why": a.why, "lines": a.lines, "where": a.where,
                "saves": format_saving(a.saves) if a.saves else None,
            }
            for a in advice_for(group)
        ],
        "policies": _policy_columns(run, group.figures),
        "per_rebalance": _policy_columns(run, group.per_rebalance),
        "bad": columns_of(
            {"partition": b.partition, "offset": b.offset, "part": b.part, "why": b.why}
            for b in bad
        ),
        "storms_known": group.traits.storms is not None,
    }  # fmt: skip


def _policy_columns(run: Run, figures: Mapping[str, Figures]) -> dict[str, list[Any]]:
    """Return a table of policies as named columns: texts, and ``NAME_sort`` to sort by."""
    records = []
    for row in policy_rows(run.policies, figures, Shown.GROUP):
        record: dict[str, Any] = {
            "label": row.label, "recorded": row.is_recorded, "comparable": row.comparable,
            "note": f"{row.note} in {plural(row.affected, 'rebalance')}" if row.note else "",
        }  # fmt: skip
        for metric, cell in zip(SHOWN[Shown.GROUP], row.cells, strict=True):
            record[metric.name] = cell.text
            sort = cell.sort
            record[f"{metric.name}_sort"] = round(sort, 2) if isinstance(sort, float) else sort
        records.append(record)
    return columns_of(records)
