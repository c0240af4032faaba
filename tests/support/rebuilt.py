"""The recorded cluster's groups rebuilt as the pipeline does it, commits included, without Spark."""

from __future__ import annotations

from functools import cache

import numpy as np
from pyarrow import parquet
from tests.support.captured import SAMPLE, clusters, group_records
from tests.support.commit_runs import CommitRun, fed

from partage.history.commits import (
    Commits,
    RecordPositions,
    number_stretches,
    reduce_to_runs,
)
from partage.history.coordinator_moves import CoordinatorMove, find_moves
from partage.history.events import Generation
from partage.history.group_history import GroupHistory, HistoryItem
from partage.history.records import GroupRecord, LogPosition
from partage.history.transactions import Outcome, Transactions
from partage.wire.columns import BinaryColumn
from partage.wire.columns.commits import TOMBSTONE, decode_offset_commits

#: ``group.consumer.session.timeout.ms`` of the recording.
SESSION_MS = 6_000


def record(row: dict) -> GroupRecord:
    place = LogPosition(row["partition"], row["offset"])
    return GroupRecord(place, row["timestamp_ms"], row["type"], row["key"], row["value"])


@cache
def commit_runs() -> dict[str, list[CommitRun]]:
    """Every group's commits that took effect, in runs cut at its other records."""
    table = parquet.read_table(SAMPLE / "consumer_offsets.parquet").sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    )
    found = decode_offset_commits(
        *(BinaryColumn.of(table[name].to_pylist()) for name in ("key", "value"))
    )
    columns = [
        table[n].to_numpy().astype(np.int64) for n in ("partition", "offset", "timestamp_ms")
    ]
    fate, offset, time_ms = (np.empty(len(columns[0]), np.int64) for _ in range(3))
    transactions = Transactions(parquet.read_table(SAMPLE / "batches.parquet").to_pylist())
    for p in np.unique(columns[0]):
        mine = np.flatnonzero(columns[0] == p)
        effects = transactions.effects(int(p), columns[1][mine], columns[2][mine])
        fate[mine], offset[mine], time_ms[mine] = effects.outcome, effects.offset, effects.time_ms
    kept = np.flatnonzero(np.isin(fate[found.row], (Outcome.PLAIN, Outcome.COMMITTED)))
    row = found.row[kept]
    order = np.lexsort((offset[row], columns[0][row]))
    kept, row = kept[order], row[order]
    names = [group for group, _ in found.pairs]
    number = {name: i for i, name in enumerate(dict.fromkeys([*names, *group_records()]))}
    group = np.array([number[n] for n in names], np.int64)[found.pair[kept]]
    others = [
        (number[name], r["partition"], r["offset"])
        for name, records in group_records().items()
        for r in records
    ]
    stretch = number_stretches(
        RecordPositions(group, columns[0][row], offset[row]),
        RecordPositions(*(np.array(column, np.int64) for column in zip(*others, strict=True))),
    )
    made = reduce_to_runs(Commits(
        found.pair[kept], found.partition[kept], columns[0][row], offset[row], time_ms[row],
        found.offset[kept], found.value_version[kept] != TOMBSTONE,
        fate[row] == Outcome.COMMITTED, stretch,
    ))  # fmt: skip
    out: dict[str, list[CommitRun]] = {}
    for i in range(len(made.pair)):
        group_name, topic = found.pairs[made.pair[i]]
        commits = int(made.commits[i])
        out.setdefault(group_name, []).append(CommitRun(
            group_name, topic, int(made.partition[i]), int(made.minute_ms[i]),
            LogPosition(int(made.log_partition[i]), int(made.log_offset[i])),
            LogPosition(int(made.last_partition[i]), int(made.last_log_offset[i])),
            int(made.first_ms[i]), int(made.last_ms[i]),
            int(made.first_offset[i]) if commits else None,
            int(made.last_offset[i]) if commits else None,
            commits, int(made.transactional[i]), int(made.tombstones[i]),
            int(made.largest_gap_ms[i]) if commits > 1 else None,
        ))  # fmt: skip
    return out


@cache
def moves() -> dict[int, tuple[CoordinatorMove, ...]]:
    names = ("partition", "base_offset", "leader_epoch", "max_timestamp_ms")
    table = parquet.read_table(SAMPLE / "batches.parquet", columns=list(names))
    return find_moves(*(table[name].to_numpy() for name in names))


@cache
def rebuilt(group: str) -> tuple[GroupHistory, tuple[HistoryItem, ...]]:
    """A group's history, and everything that it gave, in order."""
    history = GroupHistory(clusters(), SESSION_MS, moves())
    rows = [(LogPosition(r["partition"], r["offset"]), 0, r) for r in group_records()[group]]
    rows += [(run.first_place, 1, run) for run in commit_runs().get(group, [])]
    out: list[HistoryItem] = []
    for _, kind, row in sorted(rows, key=lambda one: one[:2]):
        out.extend(fed(history, row) if kind else history.feed(record(row)))
    out.extend(history.finish())
    return history, tuple(out)


def rebalances(group: str) -> list[Generation]:
    return [found for found in rebuilt(group)[1] if isinstance(found, Generation)]
