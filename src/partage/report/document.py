"""A run as one JSON value: documented in docs/report.md, with a version that readers can check."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from partage.report import words
from partage.report.advice import Advice, advice_for, best_policy, coverage_advice, merged
from partage.report.effects import error_of
from partage.report.run import CauseShare, FigureRange, Figures, GroupFigures, Run

__all__ = ["FORMAT", "VERSION", "counts", "document", "lead", "notes", "savable"]

FORMAT, VERSION = "partage-report", 2


def document(run: Run) -> dict[str, Any]:
    """The report's content as plain values, ready for JSON."""
    saved, helped = savable(run)
    return {
        "format": FORMAT,
        "version": VERSION,
        "run": {n: run.summary.get(n) for n in ("run_id", "capture", "versions", "seconds")},
        "headline": words.headline(run),
        "lead": lead(run),
        "coverage": _coverage(run),
        "rebalances": {
            "known": run.known,
            "in_log": run.in_log,
            "simulated": run.recorded.happened,
        },
        "lost_partition_seconds": _range(run.lost),
        "savable": {"partition_seconds": _range(saved), "groups": helped},
        "trust": {
            "coverage": run.summary.get("coverage"),
            "agreement": run.summary.get("agreement"),
            "accounting": run.summary.get("accounting"),
            "notes": notes(run),
        },
        "causes": [_cause(c) for c in run.causes],
        "advice": _advice(run),
        "policies": {n: _figures(f) for n, f in run.figures.items()},
        "policies_per_rebalance": {n: _figures(f) for n, f in run.per_rebalance.items()},
        "groups": [_group(g) for g in run.groups],
        "failures": [dict(f) for f in run.failures],
        "bad_records": [asdict(b) for b in run.bad],
    }


def _coverage(run: Run) -> dict[str, Any]:
    """Return what share of the known rebalances the log has, and what to do if it is poor."""
    return {
        "share": run.in_log / run.known if run.known else None,
        "enough": run.covered,
        "what_to_do": None if run.covered else words.RECORD_MORE,
    }


def counts(run: Run) -> str:
    """Return why the rebalances of the log, of the record's row and of policies are different.

    Empty where nothing was simulated.
    """
    simulated = run.recorded.happened
    if not simulated:
        return ""
    others = run.in_log - simulated
    recorded = words.plural(run.in_log, "recorded rebalance")
    text = f"{words.count(simulated)} of {recorded} are simulated"
    if others > 0:
        text += (
            "; the others have no members, belong to share groups, Kafka Streams or Kafka Connect, "
            "or only carry an assignment over in a migration"
        )
    return (
        f"{text}. The number of a policy differs: it adds second steps (cooperative) and leaves "
        "out rebalances that do not happen under it."
    )


def savable(run: Run) -> tuple[FigureRange | None, int]:
    """Return what the best settings of each group save in all, and in how many groups."""
    best = [found.saved for g in run.groups if (found := best_policy(g)) is not None]
    return (sum(best[1:], best[0]) if best else None), len(best)


def lead(run: Run) -> str:
    """Return where time was lost, why, and what could be saved, in two to four sentences."""
    parts = [words.lost_groups(run), words.causes_sentence(run)]
    if not run.covered:
        parts = [words.RECORD_MORE, "What the log still has:", *parts]
    saved, helped = savable(run)
    if saved is not None:
        parts.append(
            f"Other settings in {words.plural(helped, 'group')} would have saved "
            f"{words.stopped_words(saved)}."
        )
    elif run.lost is None and run.recorded.done:
        best = _fewest_moves(run)
        if best is not None and best.moved < run.recorded.moved:
            parts.append(
                f"With {best.policy}, {words.count(best.moved)} partitions would have moved."
            )
    return " ".join(p for p in parts if p)


def _fewest_moves(run: Run) -> Figures | None:
    idle = run.recorded.idle
    fit = [f for f in run.figures.values() if f is not run.recorded and f.comparable]
    return min((f for f in fit if f.idle <= idle), key=lambda f: (f.moved, f.policy), default=None)


def notes(run: Run) -> list[str]:
    """What limits these figures, in sentences; empty where nothing does."""
    cover = run.summary.get("coverage", {})
    found = [*_failed(run), *_left_out(run)]
    missing = cover.get("missing_before", 0) + cover.get("missing_within", 0)
    if missing:
        found.append(
            f"{words.plural(missing, 'rebalance')} happened that the log no longer has: "
            "all sums are of those that it has."
        )
    transactions = str(cover.get("transactions", ""))
    if transactions.startswith("unknown: read_committed"):
        found.append(
            "Records were read by Spark's Kafka source, which has no transaction markers: aborted "
            "commits are left out, and the times of those within transactions are approximate."
        )
    elif transactions.startswith("unknown"):
        found.append(
            "There is no batches.parquet: which commits were aborted, and when those of a "
            "transaction took effect, is not known. Their times are approximate."
        )
    if cover.get("cluster_states") == 0 or str(cover.get("cluster", "")).startswith("inferred"):
        found.append(
            "There is no cluster metadata: partition counts are inferred from assignments and "
            "commits, and racks are not known."
        )
    begins = cover.get("cluster_from_ms")
    if begins is not None:
        since = datetime.fromtimestamp(begins / 1_000, timezone.utc)
        found.append(
            f"Cluster metadata begins at {since:%F %T} UTC, after the log. Partition counts "
            "before are those that assignments show; racks are those of the first recorded state. "
            "No breaches are counted before."
        )
    misdated = cover.get("misdated", 0)
    if misdated:
        found.append(
            f"{words.plural(misdated, 'record')} of a time that the records around contradict: "
            "somebody's clock was wrong. They count, in the log's order, with the time of the "
            "record before."
        )
    bad = run.summary.get("accounting", {}).get("bad", 0)
    if bad:
        found.append(f"{words.plural(bad, 'record')} could not be decoded; see below.")
    if run.groups and run.recorded.stopped is None:
        found.append(
            "How long reading stopped is not known: there are no commits before and after these "
            "rebalances, or the run is of an older Partage. Groups are ordered by rebalances."
        )
    elif run.recorded.timed < run.recorded.rows:
        unknown = run.recorded.rows - run.recorded.timed
        found.append(
            f"Of {words.plural(unknown, 'rebalance')} the cost is not known, for lack of commits "
            "on both sides; sums leave them out."
        )
    return [*found, *map(str, run.summary.get("notes", ()))]


#: Failed groups that are named.
_NAMED = 3


def _failed(run: Run) -> list[str]:
    """Return a sentence about groups in which an exception was raised; empty if there are none."""
    if not run.failed:
        return []
    some = [f"{words.short_name(g.name)} ({g.why})" for g in run.failed[:_NAMED]]
    more = len(run.failed) - len(some)
    names = "; ".join(some) + (f"; and {more} more" if more > 0 else "")
    return [
        f"{words.plural(len(run.failed), 'group')} failed with an error in Partage: {names}. Their "
        "figures are left out. Report the tracebacks in column traceback of table groups."
    ]


def _left_out(run: Run) -> list[str]:
    """That the run was asked for a part of the capture, and where nothing was of that part."""
    asked = run.summary.get("selection") or {}
    parts = [f"groups {', '.join(asked['groups'])}"] if asked.get("groups") else []
    for word, limit in (("from", asked.get("from_ms")), ("to", asked.get("to_ms"))):
        if limit is not None:
            parts.append(f"{word} {datetime.fromtimestamp(limit / 1_000, timezone.utc):%F %T} UTC")
    if not parts:
        return []
    found = f"Asked for was a part of the capture: {', '.join(parts)}."
    none = not run.groups and not run.others
    return [f"{found} Nothing in the capture is of it." if none else found]


def _range(found: FigureRange | None) -> dict[str, float] | None:
    return None if found is None else {"low": round(found.low, 3), "high": round(found.high, 3)}


def _cause(one: CauseShare) -> dict[str, Any]:
    known = one.timed > 0
    return {
        "kind": one.kind, "rebalances": one.rebalances, "recorded": one.recorded,
        "lost_partition_seconds": _range(FigureRange(one.low, one.high)) if known else None,
    }  # fmt: skip


def _one_advice(one: Advice) -> dict[str, Any]:
    return {
        "rule": one.rule, "title": one.title, "why": one.why, "where": one.where,
        "lines": list(one.lines), "policy": one.policy,
        "saves_partition_seconds": _range(one.saves),
    }  # fmt: skip


def _advice(run: Run) -> list[dict[str, Any]]:
    found = [
        {
            "rule": m.advice.rule, "title": m.advice.title,
            "saves_partition_seconds": _range(m.saves),
            "groups": [{"group": g.name, **_one_advice(a)} for g, a in m.groups],
        }
        for m in merged(run.groups)
    ]  # fmt: skip
    record = coverage_advice(run)
    if record is not None:
        found.append({"groups": [], **_one_advice(record)})
    return found


def _figures(f: Figures) -> dict[str, Any]:
    same = (
        "reading", "rows", "done", "refused", "failed", "missing", "spared", "happened", "moved",
        "avoidable", "proven", "even", "judged", "largest_spread", "idle", "rack_mismatches",
        "incomplete", "comparable", "counted", "agreed",
    )  # fmt: skip
    return {
        **{name: getattr(f, name) for name in same},
        "stopped_partition_seconds": _range(f.stopped),
        "reread_records": _range(f.reread),
        "saved_partition_seconds": _range(f.saved),
        "saved_against_own_partition_seconds": _range(f.gain),
        "load_spread_mean": f.load_spread / f.load_known if f.load_known else None,
        "colocation_mean": f.colocation / f.colocation_known if f.colocation_known else None,
    }


def _group(group: GroupFigures) -> dict[str, Any]:
    same = (
        "name", "kind", "status", "why", "claimed", "clients", "rebalances", "coverage",
        "missing_generations", "members_max", "partitions_max",
    )  # fmt: skip
    best = best_policy(group)
    return {
        **{name: getattr(group, name) for name in same},
        "lost_partition_seconds": _range(group.lost),
        "best_policy": best.policy if best else None,
        "savable_partition_seconds": _range(best.saved) if best else None,
        "simulation_error_partition_seconds": error_of(group),
        "causes": [_cause(c) for c in group.causes],
        "advice": [_one_advice(a) for a in advice_for(group)],
        "traits": asdict(group.traits),
        "policies": {n: _figures(f) for n, f in group.figures.items()},
        "policies_per_rebalance": {n: _figures(f) for n, f in group.per_rebalance.items()},
    }
