from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest
from tests.support.captured import SAMPLE
from tests.support.simulated_histories import SimulatedHistory

from partage.errors import WireFormatError
from partage.wire.group_log import decode_record

if TYPE_CHECKING:
    from partage.history.events import Generation
    from partage.history.pauses import Pause

parquet = pytest.importorskip("pyarrow.parquet")


class Writers:
    """Takes the rows that a worker would write, and checks that they fit their tables."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict]] = {}

    def write_row(self, table: str, row: dict) -> None:
        self.rows.setdefault(table, []).append(row)

    def add_columns(self, table: str, columns: dict, count: int) -> None:
        assert all(len(cells) == count for cells in columns.values()), table

    def check(self) -> None:
        from partage.jobs.replay.output import _table

        for name, rows in self.rows.items():
            _table(name, rows, "run").validate(full=True)


class Heard:
    """Takes the rebalances that are to be simulated."""

    def __init__(self) -> None:
        self.generations: list[Generation] = []

    def add_generation(self, found: Generation) -> None:
        self.generations.append(found)

    def add_pause(self, found: Pause) -> None:
        """Its row is what is looked at."""


def damaged(rng: random.Random, value: bytes) -> bytes:
    out = bytearray(value)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if out:
            out[rng.randrange(len(out))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(out)


def group_rows() -> dict[str, list[dict]]:
    """Rows of the decode job for every group's own records."""
    table = parquet.read_table(SAMPLE / "consumer_offsets.parquet").sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    )
    out: dict[str, list[dict]] = {}
    for r in table.to_pylist():
        if r["key"][:2] not in (b"\0\0", b"\0\1"):
            key = decode_record(r["key"], None).key
            group = key.get("groupId", key.get("group"))
            row = {"kind": 0, "group": group, "log_partition": r["partition"],
                   "log_offset": r["offset"], "timestamp_ms": r["timestamp_ms"],
                   "key": r["key"], "value": r["value"]}  # fmt: skip
            out.setdefault(group, []).append(row)
    return out


def test_fuzz_damaged_values_that_still_decode_are_replayed(fuzz_n: int) -> None:
    """Records whose bytes were changed, but which are still records, never end a run."""
    from partage.history.agreement import check_agreement
    from partage.history.clusters import ClusterHistory
    from partage.history.group_history import GroupHistory
    from partage.history.records import GroupRecord, LogPosition
    from partage.jobs.replay.group_rows import GroupRows

    rng = random.Random(11)
    text = (SAMPLE / "cluster.jsonl").read_text(encoding="utf-8")
    clusters = ClusterHistory([json.loads(line) for line in text.splitlines()])
    groups = group_rows()
    tried = 0
    while tried < fuzz_n // 50:
        name = rng.choice(sorted(groups))
        writers, heard = Writers(), Heard()
        group = GroupRows(name, clusters, writers, collector=heard)
        first = rng.randrange(len(groups[name]))
        for row in groups[name][first : first + rng.choice([6, 6, 40])]:
            changed = dict(row)
            if row["value"] and rng.random() < 0.7:
                changed["value"] = damaged(rng, row["value"])
                tried += 1
            try:
                made = decode_record(changed["key"], changed["value"])
            except WireFormatError:
                continue  # the decode job has put it into bad_records
            place = LogPosition(row["log_partition"], row["log_offset"])
            record = (place, row["timestamp_ms"], made.type, made.key, made.value)
            group.process_record(GroupRecord(*record))
        state = group._history.to_bytes()
        GroupHistory.from_bytes(state, clusters)
        json.dumps(group.finish_group())
        for found in heard.generations[:4]:
            check_agreement(found, clusters)
        simulated = SimulatedHistory(heard.generations[:4], clusters)
        for policy in ("eager/range", "consumer/uniform"):
            simulated.per_rebalance(policy)
            simulated.cumulative(policy)
        writers.check()
