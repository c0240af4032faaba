"""Rows of the job of `partage keys`: a few small ones of each kind, and keys by the block.

A key that crosses the border between Python and the JVM as a row of its own costs more than to
read, hash and count it. So keys travel as Arrow's bytes: some megabytes of them are one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.keys.distinct import Distinct

__all__ = ["NO_HOUR", "ROWS_DDL", "KeyRowKind", "packed", "row_batch", "unpacked"]

_Longs = NDArray[np.int64]
#: The hour of what is not counted by the hour: none that a time can have.
NO_HOUR = -(1 << 62)
#: Keys that are parted at a time, and bytes of the keys of one row, about.
_KEYS_AT_ONCE = 1 << 18
_BLOCK_BYTES = 8 << 20

ROWS_DDL = (
    "kind int, bucket int, n int, hour bigint, partition bigint, records bigint, bytes bigint, "
    "keys binary"
)
_NAMES = [column.split()[0] for column in ROWS_DDL.split(", ")]


class KeyRowKind(IntEnum):
    """What a row is."""

    KEYS = 0  # a block of keys with their records, all of one bucket
    PARTITION = 1
    HOUR = 2  # a partition in an hour
    MOVED = 3  # n -> partition is a change; bytes: the keys that it moves
    NULLS = 4
    DROPPED = 5  # most records that an approximate count may lack for any key
    HOT = 6  # keys: one key
    DISTINCT = 7  # records: keys
    SPAN = 8  # hour, partition: first and last time of a record with one, in ms
    TIMELESS = 9  # records without a time from 1970 on


def row_batch(
    kind: KeyRowKind,
    records: _Longs | list[int],
    size: _Longs | list[int] | None = None,
    *,
    n: int = 0,
    bucket: int = 0,
    hour: _Longs | None = None,
    partition: _Longs | None = None,
    keys: list[bytes] | pa.Array | None = None,
) -> pa.RecordBatch:
    """Rows of one kind, and of one partition count or change."""
    import pyarrow as pa

    count = len(records)
    longs = pa.int64()
    arrays = [
        pa.array(np.full(count, int(kind), np.int32)),
        pa.array(np.full(count, bucket, np.int32)),
        pa.array(np.full(count, n, np.int32)),
        pa.array(np.full(count, NO_HOUR, np.int64)) if hour is None else pa.array(hour, longs),
        pa.nulls(count, longs) if partition is None else pa.array(partition, longs),
        pa.array(records, longs),
        pa.array(np.zeros(count, np.int64) if size is None else size, longs),
        pa.nulls(count, pa.binary()) if keys is None else pa.array(keys, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=_NAMES)


def packed(table: Distinct, buckets: int) -> Iterator[pa.RecordBatch]:
    """All keys of the table as rows; equal keys of all tables go into one bucket."""
    for places, heads in table.head_blocks(_KEYS_AT_ONCE):
        yield from _bucketed(table, places, heads, buckets)


def _bucketed(
    table: Distinct, places: _Longs, heads: _Longs, buckets: int
) -> Iterator[pa.RecordBatch]:
    lengths, hashes, records, size = heads
    # By low bits: the high ones choose the slot, and would fill few slots of the next table.
    bucket = hashes % buckets
    order = np.argsort(bucket.astype(np.uint16 if buckets <= 1 << 16 else np.int64), kind="stable")
    ends = np.cumsum(np.bincount(bucket, minlength=buckets)).tolist()
    for number, (first, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        mine = order[first:end] if buckets > 1 else slice(first, end)
        ours = [column[mine] for column in (places, lengths, records, size)]
        for some in _blocks(ours[1]):
            block = _packed(table, *(column[some] for column in ours))
            yield row_batch(KeyRowKind.KEYS, [0], bucket=number, keys=[block])


def _blocks(lengths: _Longs) -> Iterator[slice]:
    """Runs of keys that have about as many bytes as a row should."""
    number = np.cumsum(lengths + 8) // _BLOCK_BYTES
    cuts = (np.flatnonzero(np.diff(number)) + 1).tolist()
    for first, end in zip([0, *cuts], [*cuts, len(lengths)], strict=True):
        if end > first:
            yield slice(first, end)


def _packed(
    table: Distinct, places: _Longs, lengths: _Longs, records: _Longs, size: _Longs
) -> bytes:
    import pyarrow as pa

    data, starts = table.keys_at(places, lengths)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(data)]
    keys = pa.Array.from_buffers(pa.large_binary(), len(places), buffers)
    columns = {"key": keys, "records": _narrow(records), "bytes": _narrow(size)}
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _narrow(values: _Longs) -> NDArray[np.unsignedinteger]:
    """The same numbers in as few bytes as the largest needs."""
    return values.astype(np.min_scalar_type(int(values.max())))


def unpacked(rows: pa.RecordBatch) -> Iterator[tuple[pa.Array, _Longs, _Longs]]:
    """Of rows of `Kind.KEYS` the keys (large_binary), their records and their bytes."""
    import pyarrow as pa

    for block in rows.column(_NAMES.index("keys")):
        with pa.ipc.open_stream(block.as_buffer()) as stream:
            for batch in stream:
                records, size = (batch.column(i).to_numpy().astype(np.int64) for i in (1, 2))
                yield batch.column(0), records, size
