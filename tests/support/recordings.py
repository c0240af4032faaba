"""Recordings of live clusters with their clients' own log, as histories without Spark.

A recording is a folder with the files of a capture and the truth about it: ``events.jsonl`` (what
was done), ``observed.jsonl`` (what the members reported, perhaps as ``.xz``) and ``groups.json``.
`tests/chaos/record.py` makes them.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import Table, parquet
from tests.support.captured import DATA, SAMPLE
from tests.support.commit_runs import CommitRun, fed

from partage.history.clusters import ClusterHistory, CoordinatorMove, find_moves
from partage.history.commit_kernels import NEVER
from partage.history.commits import (
    Commits,
    RecordPositions,
    number_stretches,
    reduce_to_runs,
)
from partage.history.events import Generation
from partage.history.group_history import GroupHistory, HistoryItem
from partage.history.records import GroupRecord, LogPosition
from partage.history.transactions import TransactionOutcome, Transactions
from partage.jobs.replay.capture import read_context
from partage.wire.columns import BinaryColumn
from partage.wire.columns.commits import TOMBSTONE, decode_offset_commits
from partage.wire.group_log import decode_record

#: The recordings that are checked in.
FOLDER = Path(__file__).parents[1] / "data" / "recordings"
#: Recordings in which heartbeats and rejoins are late by seconds (README.md beside them).
OVERLOADED = frozenset({"seed-13"})
#: ``group.consumer.session.timeout.ms`` of all recordings.
SESSION_MS = 6_000
#: Versions of the keys of offset commits.
_COMMIT_KEYS = (b"\x00\x00", b"\x00\x01")


def json_lines(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines, which may be compressed (``name.xz``)."""
    plain, packed = folder / name, folder / f"{name}.xz"
    if plain.exists():
        text = plain.read_text(encoding="utf-8")
    else:
        text = lzma.decompress(packed.read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


class Recording:
    """One recording; everything is read on first use.

    Args:
        folder: with the files of the recording.
        capture: with the files of the capture, if that is another folder.
    """

    def __init__(self, folder: Path, capture: Path | None = None) -> None:
        self.folder = folder
        self.capture = capture or folder

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """What was done, in order of time."""
        return json_lines(self.folder, "events.jsonl")

    @cached_property
    def observed(self) -> list[dict[str, Any]]:
        """What the members reported, in order of time."""
        return json_lines(self.folder, "observed.jsonl")

    @cached_property
    def clusters(self) -> ClusterHistory:
        return ClusterHistory(json_lines(self.capture, "cluster.jsonl"))

    @cached_property
    def _log(self) -> Table:
        table = parquet.read_table(self.capture / "consumer_offsets.parquet")
        return table.sort_by([("partition", "ascending"), ("offset", "ascending")])

    @cached_property
    def group_records(self) -> dict[str, list[GroupRecord]]:
        """All records but commits, by group, in log order."""
        out: dict[str, list[GroupRecord]] = {}
        for row in self._log.to_pylist():
            if row["key"][:2] in _COMMIT_KEYS:
                continue
            read = decode_record(row["key"], row["value"])
            place = LogPosition(row["partition"], row["offset"])
            one = GroupRecord(place, row["timestamp_ms"], read.type, read.key, read.value)
            out.setdefault(read.key.get("groupId", read.key.get("group")), []).append(one)
        return out

    @cached_property
    def commit_runs(self) -> dict[str, list[CommitRun]]:
        positions = {
            group: [record.position for record in records]
            for group, records in self.group_records.items()
        }
        return commit_runs(self._log, parquet.read_table(self.capture / "batches.parquet"), positions)  # fmt: skip

    @cached_property
    def moves(self) -> dict[int, tuple[CoordinatorMove, ...]]:
        return coordinator_moves(self.capture / "batches.parquet")

    @cached_property
    def histories(self) -> dict[str, tuple[HistoryItem, ...]]:
        """Everything that each group's history yields, in order."""
        return {group: self._history(group) for group in self.group_records}

    @cached_property
    def rebalances(self) -> dict[str, list[Generation]]:
        return {
            group: [item for item in items if isinstance(item, Generation)]
            for group, items in self.histories.items()
        }

    def _history(self, group: str) -> tuple[HistoryItem, ...]:
        delay_ms = read_context(self.capture).initial_delay_ms
        history = GroupHistory(self.clusters, SESSION_MS, self.moves, delay_ms)
        rows: list[tuple[LogPosition, int, Any]] = [
            (record.position, 0, record) for record in self.group_records[group]
        ]
        rows += [(run.first_place, 1, run) for run in self.commit_runs.get(group, [])]
        out: list[HistoryItem] = []
        for _, is_run, row in sorted(rows, key=lambda one: one[:2]):
            out.extend(fed(history, row) if is_run else history.process_record(row))
        out.extend(history.finish_history())
        return tuple(out)


@cache
def recording(name: str) -> Recording:
    """Return a recording that is checked in; ``sample`` is the one of the demo."""
    return Recording(DATA, SAMPLE) if name == "sample" else Recording(FOLDER / name)


def names(*, overloaded: bool = False) -> list[str]:
    """Return the names of the recordings that are checked in.

    Args:
        overloaded: include those made on a machine with many times more work than processors.
    """
    found = ["sample", *sorted(one.name for one in FOLDER.iterdir() if one.is_dir())]
    return [name for name in found if overloaded or name not in OVERLOADED]


def coordinator_moves(batches: Path) -> dict[int, tuple[CoordinatorMove, ...]]:
    """Return the moves of coordinators of a capture's ``batches.parquet``."""
    names = ("partition", "base_offset", "leader_epoch", "max_timestamp_ms")
    table = parquet.read_table(batches, columns=list(names))
    return find_moves(*(table[name].to_numpy() for name in names))


def commit_runs(
    log: Table, batches: Table, positions: Mapping[str, Sequence[LogPosition]]
) -> dict[str, list[CommitRun]]:
    """Return every group's commits that took effect, in runs cut at its other records.

    Args:
        log: ``consumer_offsets.parquet``, in log order.
        batches: ``batches.parquet``.
        positions: group -> positions of its records that are no commits.
    """
    found = decode_offset_commits(
        *(BinaryColumn.from_rows(log[name].to_pylist()) for name in ("key", "value"))
    )
    names = ("partition", "offset", "timestamp_ms")
    columns = [log[name].to_numpy().astype(np.int64) for name in names]
    fate, offset, time_ms = (np.empty(len(columns[0]), np.int64) for _ in range(3))
    transactions = Transactions(batches.to_pylist())
    for p in np.unique(columns[0]):
        mine = np.flatnonzero(columns[0] == p)
        effects = transactions.find_outcomes(int(p), columns[1][mine], columns[2][mine])
        fate[mine], offset[mine], time_ms[mine] = effects.outcome, effects.offset, effects.time_ms
    kept = np.flatnonzero(
        np.isin(fate[found.row], (TransactionOutcome.PLAIN, TransactionOutcome.COMMITTED))
    )
    row = found.row[kept]
    order = np.lexsort((offset[row], columns[0][row]))
    kept, row = kept[order], row[order]
    groups = [group for group, _ in found.pairs]
    number = {name: i for i, name in enumerate(dict.fromkeys([*groups, *positions]))}
    group = np.array([number[n] for n in groups], np.int64)[found.pair[kept]]
    others = [(number[name], p.partition, p.offset) for name, at in positions.items() for p in at]
    stretch = number_stretches(
        RecordPositions(group, columns[0][row], offset[row]),
        RecordPositions(*(np.array(column, np.int64) for column in zip(*others, strict=True))),
    )
    made = reduce_to_runs(Commits(
        found.pair[kept], found.partition[kept], columns[0][row], offset[row], time_ms[row],
        found.offset[kept], found.value_version[kept] != TOMBSTONE,
        fate[row] == TransactionOutcome.COMMITTED, stretch,
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
            None if made.advanced_ms[i] == NEVER else int(made.advanced_ms[i]),
        ))  # fmt: skip
    return out
