"""Rows that the two stages of `partage keys` exchange: counts, and blocks of distinct keys.

To pass each key as a row of its own between Python and the JVM would cost more than to read, hash
and count it. So keys are packed: one row contains some megabytes of keys as an Arrow stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.keys.distinct import DistinctKeys

__all__ = [
    "NO_HOUR",
    "ROWS_DDL",
    "RowKind",
    "is_block",
    "key_array",
    "pack_keys",
    "row_batch",
    "unpack_keys",
]

_Longs = NDArray[np.int64]
#: The hour of rows that are not by the hour; no timestamp has it.
NO_HOUR = -(1 << 62)
#: Keys that are sorted into buckets at a time, and about the bytes of a block's keys.
_KEYS_AT_ONCE = 1 << 18
_BLOCK_BYTES = 8 << 20

ROWS_DDL = (
    "kind int, bucket int, n int, hour bigint, partition bigint, records bigint, bytes bigint, "
    "keys binary"
)
_NAMES = [column.split()[0] for column in ROWS_DDL.split(", ")]


class RowKind(IntEnum):
    """Kinds of result rows that workers of `partage keys` send, such as key counts and partition
    loads.

    All rows have the same columns. What a column means depends on the kind of the row.
    """

    KEYS = 0  # keys: a block of distinct keys of one bucket, with their records and bytes
    PARTITION = 1  # records and bytes of a partition at partition count n
    HOUR = 2  # records of a partition at partition count n in an hour
    MOVED = 3  # records (and, as bytes, keys) that a change from n to `partition` partitions moves
    NULLS = 4  # records that the key does not place
    DROPPED = 5  # most records of one key that an approximate count may lack
    HOT = 6  # keys: one key, among those with most records
    DISTINCT = 7  # records: how many distinct keys
    SPAN = 8  # hour, partition: first and last timestamp, in ms
    TIMELESS = 9  # records without a time from 1970 on


def row_batch(
    kind: RowKind,
    records: _Longs | list[int],
    byte_counts: _Longs | list[int] | None = None,
    *,
    n: int = 0,
    bucket: int = 0,
    hour: _Longs | None = None,
    partition: _Longs | None = None,
    keys: list[bytes] | pa.Array | None = None,
) -> pa.RecordBatch:
    """Build an Arrow batch of result rows of a `partage keys` worker, all of one kind.

    Columns that are not given get empty values, such as 0 or null.

    Args:
        kind: kind of the rows.
        records: number of records of each row.
        byte_counts: number of bytes of each row.
        n: the partition count.
        bucket: the bucket number; a hash decides the bucket (subset) of a key.
        hour: hour of each row, in milliseconds.
        partition: partition of each row.
        keys: key of each row.
    """
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
        pa.array(np.zeros(count, np.int64) if byte_counts is None else byte_counts, longs),
        pa.nulls(count, pa.binary()) if keys is None else pa.array(keys, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=_NAMES)


def is_block(rows: pa.RecordBatch) -> bool:
    """Return whether a batch of result rows contains packed keys (see `pack_keys`).

    Other batches contain only numbers, such as the records of each partition.
    """
    return bool(rows.num_rows) and rows.column(0)[0].as_py() == int(RowKind.KEYS)


def key_array(data: NDArray[np.uint8], starts: _Longs) -> pa.LargeBinaryArray:
    """Build an Arrow array of record keys without copying their bytes.

    Args:
        data: uint8, the bytes of all keys.
        starts: int64[n + 1]; key i is ``data[starts[i]:starts[i + 1]]``.
    """
    import pyarrow as pa

    buffers = [None, pa.py_buffer(starts), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(starts) - 1, buffers)


def pack_keys(hash_table: DistinctKeys, buckets: int) -> Iterator[pa.RecordBatch]:
    """Serialize the distinct keys of a hash table with their record counts, for other workers.

    Each yielded row contains some megabytes of keys. All keys of a row are in the same bucket. The
    hash of a key decides its bucket, so equal keys of all workers get into the same bucket.

    Args:
        hash_table: the hash table of the worker.
        buckets: number of buckets.
    """
    for places, heads in hash_table.head_blocks(_KEYS_AT_ONCE):
        lengths, hashes, records, size = heads
        # By low bits: the high ones choose the slot, and would fill few slots of the next table.
        bucket = hashes % buckets
        narrow = bucket.astype(np.uint16 if buckets <= 1 << 16 else np.int64)
        order = np.argsort(narrow, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=buckets)).tolist()
        for number, (first, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            chosen = order[first:end] if buckets > 1 else slice(first, end)
            columns = [column[chosen] for column in (places, lengths, records, size)]
            for part in _slices_by_size(columns[1]):
                block = _serialize_block(hash_table, *(column[part] for column in columns))
                yield row_batch(RowKind.KEYS, [0], bucket=number, keys=[block])


def _slices_by_size(lengths: _Longs) -> Iterator[slice]:
    """Divide a list of keys into consecutive slices of about `_BLOCK_BYTES` bytes each.

    ``lengths`` are the sizes of the keys in bytes (int64[n]). The slices are yielded as Python
    slices.
    """
    number = np.cumsum(lengths + 8) // _BLOCK_BYTES
    cuts = (np.flatnonzero(np.diff(number)) + 1).tolist()
    for first, end in zip([0, *cuts], [*cuts, len(lengths)], strict=True):
        if end > first:
            yield slice(first, end)


def _serialize_block(
    hash_table: DistinctKeys, slots: _Longs, lengths: _Longs, records: _Longs, byte_counts: _Longs
) -> bytes:
    """Serialize some keys of a hash table, with their record counts and bytes, as an Arrow stream.

    The stream becomes one value of a row that is sent to another worker.

    Args:
        hash_table: the hash table.
        slots: positions of the keys in the hash table (int64[n]).
        lengths: sizes of the keys in bytes (int64[n]).
        records: number of records of each key (int64[n]).
        byte_counts: bytes of these records (int64[n]).
    """
    import pyarrow as pa

    keys = key_array(*hash_table.keys_at(slots, lengths))
    columns = {"key": keys, "records": _narrow(records), "bytes": _narrow(byte_counts)}
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _narrow(values: _Longs) -> NDArray[np.unsignedinteger]:
    return values.astype(np.min_scalar_type(int(values.max())))


def unpack_keys(rows: pa.RecordBatch) -> Iterator[tuple[pa.Array, _Longs, _Longs]]:
    """Restore the keys and their counts from rows that `pack_keys` returned.

    For each row, yield the keys (Arrow large_binary), their numbers of records and their bytes. The
    last two are int64 arrays of the same length as the keys.
    """
    import pyarrow as pa

    for block in rows.column(_NAMES.index("keys")):
        with pa.ipc.open_stream(block.as_buffer()) as stream:
            for batch in stream:
                records, size = (batch.column(i).to_numpy().astype(np.int64) for i in (1, 2))
                yield batch.column(0), records, size
