"""Captures made for a test: the sample cut down, damaged or spoilt."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from tests.support.captured import SAMPLE


def records() -> pa.Table:
    return parquet.read_table(SAMPLE / "consumer_offsets.parquet")


def capture(folder: Path, table: pa.Table, **how) -> Path:
    """A capture with these records and the sample's metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, folder / "consumer_offsets.parquet", **how)
    for name in ("cluster.jsonl", "batches.parquet"):
        shutil.copy(SAMPLE / name, folder / name)
    return folder


def rows_of(out: Path, name: str) -> list[str]:
    """A table's rows as text, sorted; the run id left out."""
    from partage.runs.published_run import read_table

    table = read_table(out, name)
    return sorted(repr(row) for row in table.drop_columns(["run_id"]).to_pylist())


def expanded(rows: list[dict]) -> list[dict]:
    """Rows of the decode job, each of those with many runs as so many rows."""
    from partage.history.commit_kernels import RUN
    from partage.jobs.replay.decoded_rows import DecodedKind, unpack_runs

    out = []
    for row in rows:
        if row["kind"] != DecodedKind.COMMIT_RUNS:
            out.append(row)
            continue
        columns = {name: pa.array([row[name]]) for name in ("topic", "value")}
        runs, _ = unpack_runs(pa.RecordBatch.from_pydict(columns))
        for i in range(len(runs)):
            cells = dict(zip(RUN, runs.table[:, i].tolist(), strict=True))
            place = dict(
                zip(("log_partition", "log_offset"), runs.positions[:, i].tolist(), strict=True)
            )
            out.append(row | cells | place | {
                "topic": runs.topics[runs.topic[i]], "topic_partition": int(runs.partition[i]),
            })  # fmt: skip
    return out


def engine_records(keys: dict[tuple[int, int], tuple[bytes, bytes | None]]) -> dict:
    """Return place -> what the schema engine reads of a record: type, key, value or state."""
    from partage.history.records import parse_classic_state
    from partage.wire.group_log import decode_record

    out = {}
    for place, (key, value) in keys.items():
        read = decode_record(key, value)
        state = None
        if read.type == "GROUP_METADATA" and read.value is not None:
            state = parse_classic_state(read.value)
        out[place] = (read.type, dict(read.key), read.value if state is None else None, state)
    return out


def sent_records(batches: list[pa.RecordBatch]) -> dict:
    """Return the same of the group records that the decode job sent, in its order."""
    from partage.history.records import parse_classic_state
    from partage.jobs.replay.decoded_rows import BlockReader, DecodedKind

    out, reader = {}, BlockReader()
    for batch in batches:
        records = batch.filter(pa.array(batch["kind"].to_numpy() == DecodedKind.GROUP_RECORD))
        for make in reader.record_builders(records):
            one = make()
            state, value = one.state, one.value
            if state is None and value is not None and one.type == "GROUP_METADATA":
                state, value = parse_classic_state(value), None
            out[one.position.partition, one.position.offset] = one.type, dict(one.key), value, state
    return out
