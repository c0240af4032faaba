"""Recordings as a live capture reads them: batch by batch, with metadata as it was observed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from pyarrow import compute, parquet
from tests.support.recordings import SESSION_MS, Recording, json_lines, recording

from partage.history.live_groups import LiveGroups
from partage.history.live_log import LogBatch
from partage.jobs.replay.capture import read_context
from partage.wire.batches import LogRecord
from partage.wire.group_log import decode_key

_NAMES = (
    "base_offset", "leader_epoch", "max_timestamp_ms", "producer_id", "transactional", "control",
    "control_type",
)  # fmt: skip


@cache
def some_groups(name: str, groups: tuple[str, ...]) -> Recording:
    """A recording as if only these groups had been in the cluster; read anew, in part."""
    whole = recording(name)
    log = parquet.read_table(whole.capture / "consumer_offsets.parquet")
    coded = compute.dictionary_encode(log["key"].combine_chunks())
    names = [decode_key(key)[1] for key in coded.dictionary.to_pylist()]
    wanted = pa.array([one.get("groupId", one.get("group")) in groups for one in names])
    found = Recording(whole.folder, whole.capture)
    log = log.filter(wanted.take(coded.indices))
    found.__dict__["_log"] = log.sort_by([("partition", "ascending"), ("offset", "ascending")])
    return found


@cache
def log_batches(found: Recording) -> list[LogBatch]:
    """The batches of a recording by time, those of a log partition in its order."""
    names = ("partition", "offset", "timestamp_ms", "key", "value")
    records: dict[int, list[LogRecord]] = defaultdict(list)
    for partition, *cells in zip(*(found._log[one].to_pylist() for one in names), strict=True):
        records[partition].append(LogRecord(*cells))
    for some in records.values():
        some.reverse()
    rows = parquet.read_table(found.capture / "batches.parquet").to_pylist()
    batches: list[tuple[int, int, LogBatch]] = []
    newest: dict[int, int] = defaultdict(int)
    for row in sorted(rows, key=lambda r: (r["partition"], r["base_offset"])):
        p, mine = row["partition"], []
        while records[p] and records[p][-1].offset <= row["last_offset"]:
            mine.append(records[p].pop())
        newest[p] = max(newest[p], row["max_timestamp_ms"])
        batch = LogBatch(p, *(row[one] for one in _NAMES), mine)
        batches.append((newest[p], len(batches), batch))
    return [batch for _, _, batch in sorted(batches, key=lambda one: one[:2])]


def follow(
    found: Recording, batches: Sequence[LogBatch], every: int | None = None
) -> tuple[LiveGroups, list[Any]]:
    """The groups after these batches of a recording, fed one by one, and all events.

    The clock is that of the batches; the metadata comes as it was observed. After so many batches
    the state is stored, and another object resumes from it.
    """
    delay_ms = read_context(found.capture).initial_delay_ms
    live, events, now = LiveGroups(SESSION_MS, delay_ms), [], 0
    states = json_lines(found.capture, "cluster.jsonl")[::-1]
    known: list[Any] = []
    for number, batch in enumerate(batches, 1):
        now = max(now, batch.max_timestamp_ms)
        while states and states[-1]["ts_ms"] <= now:
            known.append(states.pop())
            live.add_state(known[-1])
        live.queue_batches([batch], now)
        events += live.process_due_records(now)
        if every is not None and number % every == 0:
            blob, live = live.to_bytes(), LiveGroups(SESSION_MS, delay_ms)
            for state in known:
                live.add_state(state)
            live.restore_state(blob)
    while states:
        live.add_state(states.pop())
    events += live.process_remaining_records(now)
    return live, events
