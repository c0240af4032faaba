"""The recorded cluster's groups rebuilt as the pipeline does it, commits included, without Spark."""

from __future__ import annotations

from functools import cache

from pyarrow import parquet
from tests.support import recordings
from tests.support.captured import SAMPLE, clusters, group_records
from tests.support.commit_runs import CommitRun, fed
from tests.support.recordings import SESSION_MS

from partage.history.clusters import CoordinatorMove
from partage.history.events import Generation
from partage.history.group_history import GroupHistory, HistoryItem
from partage.history.records import GroupRecord, LogPosition

__all__ = ["SESSION_MS", "commit_runs", "moves", "rebalances", "rebuilt", "record"]


def record(row: dict) -> GroupRecord:
    place = LogPosition(row["partition"], row["offset"])
    return GroupRecord(place, row["timestamp_ms"], row["type"], row["key"], row["value"])


@cache
def commit_runs() -> dict[str, list[CommitRun]]:
    """Every group's commits that took effect, in runs cut at its other records."""
    table = parquet.read_table(SAMPLE / "consumer_offsets.parquet").sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    )
    positions = {
        name: [LogPosition(r["partition"], r["offset"]) for r in records]
        for name, records in group_records().items()
    }
    return recordings.commit_runs(table, parquet.read_table(SAMPLE / "batches.parquet"), positions)


@cache
def moves() -> dict[int, tuple[CoordinatorMove, ...]]:
    return recordings.coordinator_moves(SAMPLE / "batches.parquet")


@cache
def rebuilt(group: str) -> tuple[GroupHistory, tuple[HistoryItem, ...]]:
    """A group's history, and everything that it gave, in order."""
    history = GroupHistory(clusters(), SESSION_MS, moves())
    rows = [(LogPosition(r["partition"], r["offset"]), 0, r) for r in group_records()[group]]
    rows += [(run.first_place, 1, run) for run in commit_runs().get(group, [])]
    out: list[HistoryItem] = []
    for _, kind, row in sorted(rows, key=lambda one: one[:2]):
        out.extend(fed(history, row) if kind else history.process_record(record(row)))
    out.extend(history.finish_history())
    return history, tuple(out)


def rebalances(group: str) -> list[Generation]:
    return [found for found in rebuilt(group)[1] if isinstance(found, Generation)]
