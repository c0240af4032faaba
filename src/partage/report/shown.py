"""What the page shows of a group: its row in the table, and the data behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partage.report.advice import advice_for, best_policy
from partage.report.run import FigureRange, Figures, GroupFigures, Run
from partage.report.words import CAUSES, percent, saved_words, stopped_words
from partage.tables.statuses import RECORDED

__all__ = ["MOST_LISTED", "group_data", "group_row"]

#: Rows of a table on the page; what is beyond stands in the run's own tables.
MOST_LISTED = 2_000


def group_row(group: GroupFigures) -> dict[str, Any]:
    """The row of a group in the table of groups: words, and numbers to sort by."""
    best = best_policy(group)
    cause = next((c for c in group.causes if c.kind != "first"), None)
    f = [f for n, f in group.figures.items() if n != RECORDED and f.counted]
    counted = group.traits.judged or sum(x.counted for x in f)
    agreed = group.traits.agreed if group.traits.judged else sum(x.agreed for x in f)
    searched = [group.name, group.kind, *group.claimed, *group.clients]
    searched += [cause.kind] if cause else []
    return {
        "group": group,
        "search": " ".join(searched),
        "lost": stopped_words(group.lost, short=True) if group.lost else "?",
        "lost_high": group.lost.high if group.lost else -1,
        "cause": CAUSES.get(cause.kind, (cause.kind,))[0] if cause else "",
        "best": best.policy if best else "",
        "saves": stopped_words(best.saved, short=True) if best else "",
        "saves_high": best.saved.high if best else -1,
        "coverage": percent(group.rebalances, group.rebalances + group.missing_generations),
        "agreement": f"{agreed} of {counted}" if counted else "",
        "agreed": agreed / counted if counted else -1,
    }


def group_data(run: Run, group: GroupFigures, detail: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the page's script shows of a group."""
    order = [n for n in (RECORDED, *run.policies) if n in group.figures]
    return {
        **detail,
        "name": group.name,
        "lost": stopped_words(group.lost),
        "advice": [
            {
                "title": a.title, "why": a.why, "lines": a.lines, "where": a.where,
                "saves": saved_words(a.saves) if a.saves else None,
            }
            for a in advice_for(group)
        ],
        "policies": [_policy(group.figures[n]) for n in order],
        "per_rebalance": [
            _policy(group.per_rebalance[n]) for n in run.policies if n in group.per_rebalance
        ],
        "bad": [[b.partition, b.offset, b.part, b.why] for b in run.bad if b.group == group.name],
        "storms_known": group.traits.storms is not None,
    }  # fmt: skip


def _policy(f: Figures) -> list[Any]:
    """Name, status, figures that sort, and ranges as words.

    0 name, 1 note, 2 rebalances, 3 lost low, 4 lost high, 5 saved, 6 saved high, 7 moved,
    8 avoidable, 9 most even, 10 idle, 11 read twice, 12 rack mismatches, 13 load spread,
    14 comparable.
    """
    note = "" if f.exists else "not yet in Partage"
    if f.exists and not f.done:
        note = "failed" if f.failed else "refused"
    reread = f.reread
    return [
        f.policy, note, f.happened, *_bounds(f.stopped),
        stopped_words(f.saved, short=True) if f.saved else None,
        f.saved.high if f.saved else None, f.moved, f.avoidable, percent(f.even, f.judged),
        f.idle, None if reread is None else _between(reread),
        f.rack_mismatches, round(f.load_spread / f.load_known, 1) if f.load_known else None,
        f.comparable or f.policy == RECORDED,
    ]  # fmt: skip


def _between(reread: FigureRange) -> str:
    low, high = f"{reread.low:,}", f"{reread.high:,}"
    return low if low == high else f"{low}–{high}"


def _bounds(stopped: FigureRange | None) -> tuple[float | None, float | None]:
    return (None, None) if stopped is None else (round(stopped.low, 1), round(stopped.high, 1))
