"""The content of a replay's ``summary.json``:
coverage, record counts, agreement, policies, groups.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from partage.errors import AccountingError
from partage.tables import sums
from partage.tables.schemas import TABLES
from partage.tables.statuses import CUMULATIVE, READINGS, RECORDED

if TYPE_CHECKING:
    from partage.jobs.replay.capture import Capture
    from partage.jobs.replay.output import Receipt
    from partage.jobs.replay.replay import JobResults
    from partage.jobs.replay.tally import Tally
    from partage.jobs.replay.totals import SimulationTotals

__all__ = ["Summary", "account", "summarised"]

#: Groups listed in the summary; table ``groups`` has all.
MOST_GROUPS = 2_000
#: Disagreements, and failures of strategies, listed in the summary; the tables have all.
MOST_LISTED = 200

#: The content of ``summary.json``.
Summary = dict[str, Any]


def account(records: int | None, tally: Tally, written: Sequence[Receipt]) -> dict[str, Any]:
    """Check that no record was lost: each one was decoded or has a row in table ``bad_records``.

    Return the counts.

    Args:
        records: number of records by the files' own metadata; None if unknown.
        tally: counts of the decode job.
        written: receipts of all files.

    Raises:
        AccountingError: the counts differ.
    """
    in_table = sum(r.rows for r in written if r.table == "bad_records")
    sums = {
        **({} if records is None else {"records in the files": records}),
        "records read": tally.rows,
        "decoded + bad": tally.decoded + tally.bad,
        "decoded + rows of bad_records": tally.decoded + in_table,
    }
    if len(set(sums.values())) > 1:
        counts = ", ".join(f"{name} {n}" for name, n in sums.items())
        raise AccountingError(f"the run does not add up and is not published: {counts}")
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


def coverage(done: JobResults, groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of what the log still contains:
    its time span, and the share of generations.

    Compaction removes records of earlier generations.
    """
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
        "share": rebalances / known if known else None,  # no share of nothing
        "transactions": _transactions(done.capture),
        "cluster": INFERRED if done.inferred else "recorded",
        "cluster_states": len(done.states),
        "cluster_from_ms": _recorded_from(done),
        "log_partitions": _log_partitions(tally),
    }


def _recorded_from(done: JobResults) -> int | None:
    """Return the time at which recorded metadata begins, if the log begins earlier; else None."""
    known = [s["ts_ms"] for s in done.states if not s.get("assumed")]
    assumed = not done.inferred and any(s.get("assumed") for s in done.states)
    return min(known) if assumed and known else None


def _transactions(capture: Capture) -> str:
    """Return "known" if the outcomes of transactional commits are known, else the reason."""
    if capture.batches is not None:
        return "known"
    if str(capture.folder).startswith("kafka://"):
        return "unknown: read_committed, and no markers"
    return "unknown: no batches.parquet"


#: Description of the metadata of a capture without cluster.jsonl.
INFERRED = "inferred: partition counts from assignments and commits, racks unknown"


def _log_partitions(tally: Tally) -> dict[str, dict[str, Any]]:
    """Return the first and last offset and the number of records of each log partition.

    Field ``in_order`` says whether the ranges of offsets that were read do not overlap.
    """
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


def agreement(totals: SimulationTotals) -> dict[str, Any]:
    """Return how many recorded assignments equal the assignment that Partage's strategy computes.

    The counts are by strategy, by dialect (a client library's variant) and by protocol.
    ``counted`` and ``agreed`` include exact strategies in groups of Java clients, and assignments
    by the coordinator. Assignments by leaders with other client libraries are compared by dialect.
    """
    by: dict[str, dict[str, dict[str, int]]] = {"by_strategy": {}, "by_dialect": {}, "others": {}}
    protocols: dict[str, dict[str, int]] = {}
    for key, names in totals.verdicts.items():
        protocol, where = key.split("|")
        for name, counts in names.items():
            _add(by[where], name, counts)
            if where == "by_strategy":
                _add(protocols, protocol, counts)
    listed = [d for group in sorted(totals.disagreements) for d in totals.disagreements[group]]
    return {
        "counted": sum(s["counted"] for s in by["by_strategy"].values()),
        "agreed": sum(s["agreed"] for s in by["by_strategy"].values()),
        **{where: dict(sorted(names.items())) for where, names in by.items()},
        "by_protocol": dict(sorted(protocols.items())),
        "disagreements": listed[:MOST_LISTED],
    }


def _add(totals: dict[str, dict[str, int]], name: str, counts: dict[str, int]) -> None:
    totals[name] = sums.add_sums(totals.get(name, {}), counts)


def policies(totals: SimulationTotals) -> list[dict[str, Any]]:
    """Return the metrics of each simulated policy and kind of simulation, summed over all groups.

    The entry of the recorded assignments comes first.
    """
    rows = []
    for key, of_key in totals.policies().items():
        policy, _, reading = key.rpartition("|")
        names = sorted(totals.strategies[key])
        row = {"policy": policy, "reading": reading, "strategies": names}
        rows.append({**row, "groups": of_key["groups"], **sums.document(of_key)})
    return sorted(rows, key=lambda r: (READINGS.index(r["reading"]), r["policy"]))


def strategies(totals: SimulationTotals) -> dict[str, Any]:
    """Return two parts of the summary: each policy's cumulative metrics, and missing strategies.

    A missing strategy is one that groups chose and Partage does not implement; it has the number
    of rebalances that chose it.
    """
    run = {r["policy"]: r for r in policies(totals) if r["reading"] in (RECORDED, CUMULATIVE)}
    return {"run": run, "not_yet": dict(sorted(totals.not_yet.items()))}


def causes(groups: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the number of rebalances by cause, the most frequent first.

    Each cause has the number of recorded and of inferred cases.
    """
    totals: dict[str, dict[str, int]] = {}
    for g in groups:
        for kind, sources in g["causes"].items():
            totals[kind] = sums.add_sums(totals.get(kind, {}), sources)
    return dict(sorted(totals.items(), key=lambda kv: (-sum(kv[1].values()), kv[0])))


def summarised(done: JobResults) -> Summary:
    """Return the summary of a replay from the results of its jobs, without times and versions."""
    accounting = account(done.capture.records, done.tally, done.receipts)
    known = sorted((json.loads(g) for g in done.groups), key=lambda g: g["group"])
    rows = dict.fromkeys(TABLES, 0) | {"runs": 1}
    for receipt in done.receipts:
        rows[receipt.table] += receipt.rows
    failures = [f for g in sorted(done.simulated.failures) for f in done.simulated.failures[g]]
    by_size = sorted(known, key=lambda g: (-g["rebalances"], g["group"]))
    return {
        "coverage": coverage(done, known),
        "accounting": accounting,
        "agreement": agreement(done.simulated),
        "causes": causes(known),
        "policies": policies(done.simulated),
        "strategies": strategies(done.simulated),
        "failures": failures[:MOST_LISTED],
        "tables": dict(sorted(rows.items())),
        "groups": by_size[:MOST_GROUPS],
        "groups_not_listed": max(0, len(by_size) - MOST_GROUPS),
        "session_timeout_ms": done.session_timeout_ms,
    }
