"""What the decode job gives: one table with a `Kind` for each row, since a task has one output."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.history.commits import Runs
from partage.jobs.replay.packed_runs import packed_runs
from partage.jobs.replay.placed import Placed

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["OUT_COLUMNS", "Kind", "batch_of_records", "batch_of_rows", "batch_of_runs"]


class Kind(IntEnum):
    """What a row of the decode job is."""

    GROUP_RECORD = 0
    COMMIT_RUNS = 1
    BAD_RECORD = 2
    TALLY = 3
    RECEIPT = 4


#: name -> Spark type. Which columns a kind uses is said in the functions that fill them.
OUT_COLUMNS: dict[str, str] = {
    "kind": "int",
    "group": "string",
    "topic": "string",
    "topic_partition": "int",
    "minute_ms": "bigint",
    "log_partition": "bigint",
    "log_offset": "bigint",
    "timestamp_ms": "bigint",
    "part": "string",
    "text": "string",
    "key": "binary",
    "value": "binary",
}


def _types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    types = {
        "int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "binary": pa.binary(),
    }  # fmt: skip
    return {name: types[kind] for name, kind in OUT_COLUMNS.items()}


def _batch(columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    """Columns of the decode job; those that are not given are null."""
    import pyarrow as pa

    arrays = [columns.get(name, pa.nulls(count, kind)) for name, kind in _types().items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(OUT_COLUMNS))


def batch_of_rows(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Rows one by one: of bad records, tallies."""
    import pyarrow as pa

    columns = {n: pa.array([row.get(n) for row in rows], kind) for n, kind in _types().items()}
    return _batch(columns, len(rows))


def batch_of_records(placed: Placed, rows: NDArray[np.int64], groups: list[str]) -> pa.RecordBatch:
    """Group records by the column: ``rows`` of the placed ones, and the group of each."""
    import pyarrow as pa

    taken = pa.array(rows)
    key, value = (cells.take(taken).cast(pa.binary()).combine_chunks() for cells in placed.cells)
    columns = {
        "kind": pa.array(np.full(len(rows), int(Kind.GROUP_RECORD), np.int32)),
        "group": pa.array(groups, pa.string()), "key": key, "value": value,
        "log_partition": pa.array(placed.partition[rows]),
        "log_offset": pa.array(placed.offset[rows]),
        "timestamp_ms": pa.array(placed.timestamp_ms[rows]),
    }  # fmt: skip
    return _batch(columns, len(rows))


def batch_of_runs(made: Runs, pairs: list[tuple[str, str]]) -> pa.RecordBatch:
    """Runs of commits, many in a row; ``pairs[pair]`` are group and topic."""
    import pyarrow as pa

    columns = packed_runs(made, pairs)
    count = len(columns["group"])
    kind = pa.array(np.full(count, int(Kind.COMMIT_RUNS), np.int32))
    return _batch({**columns, "kind": kind}, count)
