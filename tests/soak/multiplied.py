"""A large capture out of the recorded one: the same history, many times, under other group names.

What a run must say about it follows from what it says about the original: every count times
the number of copies. Nothing about the copies is random.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def _renamed(key: bytes, suffix: bytes) -> bytes:
    """Every key of `__consumer_offsets` begins with int16 type, int16 length, group id."""
    length = int.from_bytes(key[2:4], "big")
    group = key[4 : 4 + length] + suffix
    return key[:2] + len(group).to_bytes(2, "big") + group + key[4 + length :]


def _shifted(table: pa.Table, columns: tuple[str, ...], by: np.ndarray) -> pa.Table:
    """The offsets of a copy follow those of the copy before it, log partition by log partition."""
    shift = pa.array(by[table["partition"].to_numpy()])
    for name in columns:
        at = table.column_names.index(name)
        table = table.set_column(at, name, pc.add(table[name].cast(pa.int64()), shift))
    return table


def multiply(capture: Path, target: Path, copies: int) -> None:
    """Write a capture of `copies` times the groups; the first copy is the original."""
    records = pq.read_table(capture / "consumer_offsets.parquet")
    batches = pq.read_table(capture / "batches.parquet")
    ends = np.zeros(records["partition"].to_numpy().max() + 1, dtype=np.int64)
    np.maximum.at(ends, batches["partition"].to_numpy(), batches["last_offset"].to_numpy() + 1)
    keys = records["key"].to_pylist()
    target.mkdir()
    shutil.copy(capture / "cluster.jsonl", target)
    with (
        pq.ParquetWriter(target / "consumer_offsets.parquet", records.schema) as to_records,
        pq.ParquetWriter(target / "batches.parquet", batches.schema) as to_batches,
    ):
        for copy in range(copies):
            suffix = f"~{copy}".encode() if copy else b""
            by = ends * copy
            of_copy = _shifted(records, ("offset",), by)
            renamed = pa.array([_renamed(key, suffix) for key in keys], pa.binary())
            at = records.column_names.index("key")
            to_records.write_table(of_copy.set_column(at, "key", renamed).cast(records.schema))
            shifted = _shifted(batches, ("base_offset", "last_offset"), by)
            to_batches.write_table(shifted.cast(batches.schema))
