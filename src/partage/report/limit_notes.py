"""Notes on what limits the results of a run, such as missing records and a selection of groups."""

from __future__ import annotations

from partage.report.messages import format_time, plural, short_name
from partage.report.run import RunFigures

__all__ = ["limit_notes"]


def limit_notes(run: RunFigures) -> list[str]:
    """Return sentences on the limits of a run's results, such as records missing in the log."""
    cover = run.summary.get("coverage", {})
    found = [*_failed_groups_note(run), *_selection_note(run)]
    missing = cover.get("missing_before", 0) + cover.get("missing_within", 0)
    if missing:
        found.append(
            f"{plural(missing, 'rebalance')} happened that the log no longer has. "
            "No sum includes them."
        )
    found += _transaction_notes(str(cover.get("transactions", "")))
    if cover.get("cluster_states") == 0 or str(cover.get("cluster", "")).startswith("inferred"):
        found.append(
            "The capture has no cluster metadata: partition counts are inferred from assignments "
            "and commits, and racks are unknown."
        )
    begins = cover.get("cluster_from_ms")
    if begins is not None:
        found.append(
            f"Cluster metadata begins at {format_time(begins)} UTC, after the log. Earlier "
            "partition counts come from assignments, racks from the first recorded state. Rule "
            "violations are not counted before."
        )
    misdated = cover.get("misdated", 0)
    if misdated:
        found.append(
            f"{plural(misdated, 'record')} with a timestamp that contradicts the neighbouring "
            "records: a clock was wrong. They count in log order, with the time of the record "
            "before."
        )
    bad = run.summary.get("accounting", {}).get("bad", 0)
    if bad:
        found.append(f"{plural(bad, 'record')} could not be decoded; see the list of bad records.")
    return [*found, *_unknown_downtime_notes(run), *map(str, run.summary.get("notes", ()))]


def _transaction_notes(known: str) -> list[str]:
    if known.startswith("unknown: read_committed"):
        return [
            "Records were read by Spark's Kafka source, which has no transaction markers: aborted "
            "commits are left out, and times of transactional commits are approximate."
        ]
    if known.startswith("unknown"):
        return [
            "The capture has no batches.parquet: aborted commits are not recognised, and times of "
            "transactional commits are approximate."
        ]
    return []


def _unknown_downtime_notes(run: RunFigures) -> list[str]:
    if run.groups and run.recorded_figures.stopped is None:
        return [
            "Downtime is unknown: the log has no commits before and after these rebalances, or an "
            "older Partage wrote the run. Groups are sorted by rebalances."
        ]
    if run.recorded_figures.stopped_known < run.recorded_figures.rows:
        unknown = run.recorded_figures.rows - run.recorded_figures.stopped_known
        return [
            f"The downtime of {plural(unknown, 'rebalance')} is unknown, for lack of commits "
            "before and after. Sums leave them out."
        ]
    return []


#: Failed groups that a note names.
_MOST_FAILED_NAMED = 3


def _failed_groups_note(run: RunFigures) -> list[str]:
    if not run.failed_groups:
        return []
    some = [f"{short_name(g.name)} ({g.why})" for g in run.failed_groups[:_MOST_FAILED_NAMED]]
    more = len(run.failed_groups) - len(some)
    names = "; ".join(some) + (f"; and {more} more" if more > 0 else "")
    return [
        f"{plural(len(run.failed_groups), 'group')} failed with an error in Partage: {names}. "
        "Their figures are left out. Report the tracebacks in column traceback of table groups."
    ]


def _selection_note(run: RunFigures) -> list[str]:
    """Return a sentence about the groups and times that the user selected for the run.

    The result is a list with this sentence; it is empty if nothing was selected.
    """
    selected = run.summary.get("selection") or {}
    parts = [f"groups {', '.join(selected['groups'])}"] if selected.get("groups") else []
    for preposition, limit in (("from", selected.get("from_ms")), ("to", selected.get("to_ms"))):
        if limit is not None:
            parts.append(f"{preposition} {format_time(limit)} UTC")
    if not parts:
        return []
    found = f"The run has a selected part of the capture: {', '.join(parts)}."
    return [found if run.groups else f"{found} The capture has nothing in this part."]
