"""Recordings as a live capture reads them: batch by batch, with metadata as it was observed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

from pyarrow import parquet
from tests.support.recordings import SESSION_MS, json_lines, recording

from partage.history.live_groups import LiveGroups
from partage.history.live_log import LogBatch
from partage.wire.batches import LogRecord
from partage.wire.group_log import decode_key

_NAMES = (
    "base_offset", "leader_epoch", "max_timestamp_ms", "producer_id", "transactional", "control",
    "control_type",
)  # fmt: skip


@cache
def log_batches(name: str) -> list[LogBatch]:
    """The batches of a recording by time, those of a log partition in its order."""
    folder = recording(name).capture
    log = parquet.read_table(folder / "consumer_offsets.parquet")
    log = log.sort_by([("partition", "descending"), ("offset", "descending")])
    names = ("partition", "offset", "timestamp_ms", "key", "value")
    records: dict[int, list[LogRecord]] = defaultdict(list)
    for partition, *cells in zip(*(log[one].to_pylist() for one in names), strict=True):
        records[partition].append(LogRecord(*cells))
    rows = parquet.read_table(folder / "batches.parquet").to_pylist()
    found: list[tuple[int, int, LogBatch]] = []
    newest: dict[int, int] = defaultdict(int)
    for row in sorted(rows, key=lambda r: (r["partition"], r["base_offset"])):
        p, mine = row["partition"], []
        while records[p] and records[p][-1].offset <= row["last_offset"]:
            mine.append(records[p].pop())
        newest[p] = max(newest[p], row["max_timestamp_ms"])
        found.append((newest[p], len(found), LogBatch(p, *(row[one] for one in _NAMES), mine)))
    return [batch for _, _, batch in sorted(found, key=lambda one: one[:2])]


@cache
def batches_of(name: str, groups: tuple[str, ...]) -> list[LogBatch]:
    """The batches of a recording with the records of some groups only."""
    wanted: dict[bytes, bool] = {}

    def is_wanted(key: bytes) -> bool:
        if key not in wanted:
            names = decode_key(key)[1]
            wanted[key] = names.get("groupId", names.get("group")) in groups
        return wanted[key]

    return [
        batch._replace(records=[one for one in batch.records if is_wanted(one.key)])
        for batch in log_batches(name)
    ]


def follow(name: str, batches: Sequence[LogBatch]) -> tuple[LiveGroups, list[Any]]:
    """The groups after these batches of a recording, fed one by one, and all events.

    The clock is that of the batches; the metadata comes as it was observed.
    """
    live, events, now = LiveGroups(SESSION_MS), [], 0
    states = json_lines(recording(name).capture, "cluster.jsonl")[::-1]
    for batch in batches:
        now = max(now, batch.max_timestamp_ms)
        while states and states[-1]["ts_ms"] <= now:
            live.add_state(states.pop())
        live.add([batch], now)
        events += live.advance(now)
    while states:
        live.add_state(states.pop())
    events += live.finish(now)
    return live, events
