"""The sample cut off at any record, and a small part of it: captures that grow between two runs."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from tests.support.captured import SAMPLE
from tests.support.captures import records

from partage.runs.published_run import PublishedRun
from partage.tables.schemas import TABLES
from partage.wire.group_log import decode_key

#: Small groups: one with transactions, two without members.
GROUPS = ("ledger-copy", "one-off #1", "offset-only-job")


@cache
def group_names() -> np.ndarray:
    """The group of each record of the sample."""
    names: dict[bytes, str] = {}
    out = []
    for key in records()["key"].to_pylist():
        if key not in names:
            _, found = decode_key(key)
            names[key] = str(found.get("groupId", found.get("group")))
        out.append(names[key])
    return np.array(out)


@cache
def part_of(groups: tuple[str, ...] | None = GROUPS) -> pa.Table:
    """The sample's records of some groups, in the order of their times and offsets."""
    table = records()
    if groups is not None:
        table = table.filter(pa.array(np.isin(group_names(), groups)))
    partition, offset = (table[name].to_numpy() for name in ("partition", "offset"))
    time_ms = table["timestamp_ms"].to_numpy().copy()
    for one in np.unique(partition):  # offsets decide within a log partition
        mine = np.flatnonzero(partition == one)
        mine = mine[np.argsort(offset[mine])]
        time_ms[mine] = np.maximum.accumulate(time_ms[mine])
    return table.take(np.lexsort((offset, partition, time_ms)))


def cut(folder: Path, table: pa.Table, count: int, *, every: int = 1) -> Path:
    """A capture as a recorder had it after the first ``count`` of these records.

    Batches and metadata are those of that moment. The marker behind the last record is not there
    yet. Of the metadata, every n-th state is there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    some = table.slice(0, count)
    parquet.write_table(some, folder / "consumer_offsets.parquet")
    until_ms = max(some["timestamp_ms"].to_pylist())
    partition, offset = (some[name].to_numpy() for name in ("partition", "offset"))
    whole = table.num_rows == count
    ends = {int(p): int(offset[partition == p].max()) for p in np.unique(partition)}
    batches = parquet.read_table(SAMPLE / "batches.parquet")
    last = np.array([ends.get(p, -1) for p in batches["partition"].to_pylist()])
    known = batches["base_offset"].to_numpy() <= last
    parquet.write_table(
        batches if whole else batches.filter(pa.array(known)), folder / "batches.parquet"
    )
    lines = (SAMPLE / "cluster.jsonl").read_text(encoding="utf-8").splitlines()[::every]
    seen = [line for line in lines if whole or json.loads(line)["ts_ms"] <= until_ms]
    (folder / "cluster.jsonl").write_text("\n".join(seen or lines[:1]) + "\n", encoding="utf-8")
    return folder


def cuts(count: int, rows: int, seed: int) -> list[int]:
    """Random numbers of records, ascending."""
    return sorted(random.Random(seed).sample(range(rows // 50, rows), count))


def tables_of(out: Path) -> dict[str, list[str]]:
    """The rows of all tables of a run as text, sorted; without run ids and without table runs."""
    run = PublishedRun(out)
    return {
        name: sorted(map(repr, run.table(name).drop_columns(["run_id"]).to_pylist()))
        for name in TABLES if name != "runs"
    }  # fmt: skip


def summary_of(out: Path) -> dict:
    """The summary of a run without the fields that say when and how it ran."""
    left_out = ("run_id", "started_ms", "seconds", "notes", "append", "capture")
    return {n: v for n, v in PublishedRun(out).summary.items() if n not in left_out}


def difference(out: Path, expected: dict[str, list[str]]) -> str:
    """The first rows in which a run's tables differ from those expected; empty if none do."""
    for name, rows in tables_of(out).items():
        if rows != expected[name]:
            less = [row for row in expected[name] if row not in set(rows)]
            more = [row for row in rows if row not in set(expected[name])]
            return f"{name}: {len(less)} missing, {len(more)} more: {less[:1]} {more[:1]}"
    return ""
