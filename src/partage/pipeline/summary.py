"""What stands at the head of a run's result: coverage, accounting, agreement, groups."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from partage.errors import AccountingError
from partage.pipeline.schemas import TABLES
from partage.statuses import NOT_YET, RECORDED

if TYPE_CHECKING:
    from partage.pipeline.capture import Capture
    from partage.pipeline.tally import Tally
    from partage.pipeline.write import Receipt

__all__ = ["Summary", "account", "summarised"]

#: Groups told of one by one in the summary; all are in table ``groups``.
MOST_GROUPS = 2_000
#: Failures of strategies told of one by one; all are in table ``replays``.
MOST_FAILURES = 200

#: The content of ``summary.json``.
Summary = dict[str, Any]


def account(capture: Capture, tally: Tally, written: Sequence[Receipt]) -> dict[str, Any]:
    """Records read = decoded + bad, and every bad one is in table ``bad_records``.

    Raises:
        AccountingError: it is not so.
    """
    in_table = sum(r.rows for r in written if r.table == "bad_records")
    sums = {
        "records in the files": capture.records,
        "records read": tally.rows,
        "decoded + bad": tally.decoded + tally.bad,
        "decoded + rows of bad_records": tally.decoded + in_table,
    }
    if len(set(sums.values())) > 1:
        told = ", ".join(f"{name} {n}" for name, n in sums.items())
        raise AccountingError(f"the run does not add up and is not published: {told}")
    of_commits = sum(tally.commits.values())
    return {
        "records": tally.rows,
        "decoded": tally.decoded,
        "bad": tally.bad,
        "offset_commits": of_commits,
        "group_records": tally.decoded - of_commits,
        "commits_by_outcome": dict(sorted(tally.commits.items())),
        "by_type": dict(sorted(tally.types.items(), key=lambda kv: (int(kv[0].split()[0]), kv[0]))),
    }


def coverage(capture: Capture, tally: Tally, groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How much of the history the log still has."""
    before = sum(g["missing_before"] for g in groups)
    within = sum(g["missing_within"] for g in groups)
    rebalances = sum(g["rebalances"] for g in groups)
    statuses: dict[str, int] = {}
    for g in groups:
        statuses[g["status"]] = statuses.get(g["status"], 0) + 1
    return {
        "first_ms": tally.first_ms,
        "last_ms": tally.last_ms,
        "groups": len(groups),
        "groups_by_status": dict(sorted(statuses.items())),
        "rebalances": rebalances,
        "missing_before": before,
        "missing_within": within,
        "share": rebalances / (rebalances + before + within) if rebalances else None,
        "transactions": "known" if capture.batches is not None else "unknown: no batches.parquet",
        "cluster_states": len(capture.states),
        "log_partitions": _log_partitions(tally),
    }


def _log_partitions(tally: Tally) -> dict[str, dict[str, Any]]:
    """By log partition: first and last offset, records; overlapping slices are told."""
    out: dict[str, dict[str, Any]] = {}
    for p, ranges in sorted(tally.ranges.items()):
        ranges.sort()
        overlap = any(a[1] >= b[0] for a, b in pairwise(ranges))
        out[str(p)] = {
            "first_offset": ranges[0][0],
            "last_offset": max(r[1] for r in ranges),
            "records": sum(r[2] for r in ranges),
            "in_order": not overlap,
        }
    return out


def agreement(groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Plans of exact strategies against the record, where all members are Java clients."""
    by_strategy: dict[str, dict[str, int]] = {}
    for g in groups:
        for name, s in g["strategies"].items():
            if s["counted"]:
                mine = by_strategy.setdefault(name, {"counted": 0, "agreed": 0})
                mine["counted"] += s["counted"]
                mine["agreed"] += s["agreed"]
    return {
        "counted": sum(s["counted"] for s in by_strategy.values()),
        "agreed": sum(s["agreed"] for s in by_strategy.values()),
        "by_strategy": dict(sorted(by_strategy.items())),
        "disagreements": [d for g in groups for d in g["disagreements"]],
        "by_dialect": by_dialect(groups),
    }


def by_dialect(groups: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """The same for plans that another client made as leader, whoever the members are."""
    out: dict[str, dict[str, int]] = {}
    for g in groups:
        for name, led in g["dialects"].items():
            mine = out.setdefault(name, {"counted": 0, "agreed": 0})
            mine["counted"] += led["counted"]
            mine["agreed"] += led["agreed"]
    return dict(sorted(out.items()))


def strategies(groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Totals of each strategy over all groups, and those claimed but not yet in Partage."""
    totals: dict[str, dict[str, Any]] = {}
    for g in groups:
        for name, s in g["strategies"].items():
            mine = totals.setdefault(name, {"groups": 0, "status": {}, "largest_spread": None})
            mine["groups"] += 1
            for key, value in s.items():
                if key == "status":
                    for status, n in value.items():
                        mine[key][status] = mine[key].get(status, 0) + n
                elif key == "largest_spread":
                    if value is not None:
                        mine[key] = max(mine[key] or 0, value)
                else:
                    mine[key] = mine.get(key, 0) + value
    done = {n: t for n, t in totals.items() if set(t["status"]) - {NOT_YET}}
    order = sorted(done, key=lambda n: (n != RECORDED, n))
    return {
        "run": {n: done[n] for n in order},
        "not_yet": {n: t["rebalances"] for n, t in sorted(totals.items()) if n not in done},
    }


def summarised(
    capture: Capture, tally: Tally, receipts: Sequence[Receipt], groups: Sequence[str]
) -> Summary:
    """Everything but the run's own times and versions.

    Args:
        capture: what was read.
        tally: of the decode job.
        receipts: files that were written.
        groups: one line of JSON for each group (`GroupTotals.summary`).
    """
    accounting = account(capture, tally, receipts)
    known = sorted((json.loads(g) for g in groups), key=lambda g: g["group"])
    rows = dict.fromkeys(TABLES, 0) | {"runs": 1}
    for r in receipts:
        rows[r.table] += r.rows
    by_size = sorted(known, key=lambda g: (-g["rebalances"], g["group"]))
    return {
        "coverage": coverage(capture, tally, known),
        "accounting": accounting,
        "agreement": agreement(known),
        "strategies": strategies(known),
        "failures": [f for g in known for f in g["failures"]][:MOST_FAILURES],
        "tables": dict(sorted(rows.items())),
        "groups": by_size[:MOST_GROUPS],
        "groups_not_listed": max(0, len(by_size) - MOST_GROUPS),
    }
