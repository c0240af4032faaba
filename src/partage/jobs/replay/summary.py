"""What stands at the head of a run's result: coverage, accounting, agreement, policies, groups."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from partage.errors import AccountingError
from partage.tables.schemas import TABLES
from partage.tables.statuses import CUMULATIVE, READINGS, RECORDED

if TYPE_CHECKING:
    from partage.jobs.replay.capture import Capture
    from partage.jobs.replay.simulation_totals import LivesTotals
    from partage.jobs.replay.stages import Done
    from partage.jobs.replay.tally import Tally
    from partage.jobs.replay.write import Receipt

__all__ = ["Summary", "account", "summarised"]

#: Groups told of one by one in the summary; all are in table ``groups``.
MOST_GROUPS = 2_000
#: Disagreements, and failures of strategies, told of one by one; all are in the tables.
MOST_TOLD = 200

#: The content of ``summary.json``.
Summary = dict[str, Any]


def account(records: int | None, tally: Tally, written: Sequence[Receipt]) -> dict[str, Any]:
    """Records read = decoded + bad, and every bad one is in table ``bad_records``.

    Args:
        records: how many the files say they have; None where nobody says.
        tally: of the decode job.
        written: all files.

    Raises:
        AccountingError: it is not so.
    """
    in_table = sum(r.rows for r in written if r.table == "bad_records")
    sums = {
        **({} if records is None else {"records in the files": records}),
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


def coverage(done: Done, groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How much of the history the log still has."""
    tally = done.tally
    before = sum(g["missing_before"] for g in groups)
    within = sum(g["missing_within"] for g in groups)
    rebalances = sum(g["rebalances"] for g in groups)
    known = rebalances + before + within
    statuses: dict[str, int] = {}
    for g in groups:
        statuses[g["status"]] = statuses.get(g["status"], 0) + 1
    first_ms, last_ms, misdated = tally.span()
    return {
        "first_ms": first_ms,
        "last_ms": last_ms,
        "misdated": misdated,
        "groups": len(groups),
        "groups_by_status": dict(sorted(statuses.items())),
        "rebalances": rebalances,
        "missing_before": before,
        "missing_within": within,
        "share": rebalances / known if known else None,  # of nothing there is no share
        "transactions": _transactions(done.capture),
        "cluster": INFERRED if done.inferred else "recorded",
        "cluster_states": len(done.states),
        "cluster_from_ms": _recorded_from(done),
        "log_partitions": _log_partitions(tally),
    }


def _recorded_from(done: Done) -> int | None:
    """Return when the recorded metadata begins, where the log begins earlier; else None."""
    known = [s["ts_ms"] for s in done.states if not s.get("assumed")]
    assumed = not done.inferred and any(s.get("assumed") for s in done.states)
    return min(known) if assumed and known else None


def _transactions(capture: Capture) -> str:
    """Whether it is known what became of transactional commits, and when."""
    if capture.batches is not None:
        return "known"
    if str(capture.folder).startswith("kafka://"):
        return "unknown: read_committed, and no markers"
    return "unknown: no batches.parquet"


#: Where there is no cluster.jsonl: what the report is to say of it.
INFERRED = "inferred: partition counts from assignments and commits, racks unknown"


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


def agreement(lives: LivesTotals) -> dict[str, Any]:
    """Records against what their own strategy decides: by strategy, by dialect, by protocol.

    ``counted`` and ``agreed`` are those of exact strategies whose members are all Java clients,
    and those that the coordinator decided; plans of other leaders are by dialect.
    """
    by: dict[str, dict[str, dict[str, int]]] = {"by_strategy": {}, "by_dialect": {}, "others": {}}
    protocols: dict[str, dict[str, int]] = {}
    for key, names in lives.verdicts.items():
        protocol, where = key.split("|")
        for name, counts in names.items():
            _add(by[where], name, counts)
            if where == "by_strategy":
                _add(protocols, protocol, counts)
    told = [d for group in sorted(lives.disagreements) for d in lives.disagreements[group]]
    return {
        "counted": sum(s["counted"] for s in by["by_strategy"].values()),
        "agreed": sum(s["agreed"] for s in by["by_strategy"].values()),
        **{where: dict(sorted(names.items())) for where, names in by.items()},
        "by_protocol": dict(sorted(protocols.items())),
        "disagreements": told[:MOST_TOLD],
    }


def _add(totals: dict[str, dict[str, int]], name: str, counts: dict[str, int]) -> None:
    mine = totals.setdefault(name, {"counted": 0, "agreed": 0})
    for key in mine:
        mine[key] += counts[key]


def policies(lives: LivesTotals) -> list[dict[str, Any]]:
    """Totals of each policy in each reading, over all groups; the record comes first."""
    rows = []
    for key, totals in lives.policies().items():
        policy, _, reading = key.rpartition("|")
        names = sorted(lives.strategies[key])
        rows.append({"policy": policy, "reading": reading, "strategies": names, **totals})
    return sorted(rows, key=lambda r: (READINGS.index(r["reading"]), r["policy"]))


def strategies(lives: LivesTotals) -> dict[str, Any]:
    """The record and each policy with its own past; and what was claimed but is not here yet."""
    run = {r["policy"]: r for r in policies(lives) if r["reading"] in (RECORDED, CUMULATIVE)}
    return {"run": run, "not_yet": dict(sorted(lives.not_yet.items()))}


def causes(groups: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Rebalances by the kind of the cause that counts, recorded and inferred; most first."""
    totals: dict[str, dict[str, int]] = {}
    for g in groups:
        for kind, sources in g["causes"].items():
            mine = totals.setdefault(kind, dict.fromkeys(sources, 0))
            for source, count in sources.items():
                mine[source] += count
    return dict(sorted(totals.items(), key=lambda kv: (-sum(kv[1].values()), kv[0])))


def summarised(done: Done) -> Summary:
    """Everything but the run's own times and versions."""
    accounting = account(done.capture.records, done.tally, done.receipts)
    known = sorted((json.loads(g) for g in done.groups), key=lambda g: g["group"])
    rows = dict.fromkeys(TABLES, 0) | {"runs": 1}
    for r in done.receipts:
        rows[r.table] += r.rows
    failures = [f for g in sorted(done.lives.failures) for f in done.lives.failures[g]]
    by_size = sorted(known, key=lambda g: (-g["rebalances"], g["group"]))
    return {
        "coverage": coverage(done, known),
        "accounting": accounting,
        "agreement": agreement(done.lives),
        "causes": causes(known),
        "policies": policies(done.lives),
        "strategies": strategies(done.lives),
        "failures": failures[:MOST_TOLD],
        "tables": dict(sorted(rows.items())),
        "groups": by_size[:MOST_GROUPS],
        "groups_not_listed": max(0, len(by_size) - MOST_GROUPS),
        "session_timeout_ms": done.session_timeout_ms,
    }
