"""In the workers of `partage keys`: reading, merging, and what is told of the merged keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from partage.pipeline.key_counts import Counting, Spec
from partage.pipeline.key_sources import Piece, read_piece

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "LOADS_DDL",
    "MERGED_DDL",
    "TOLD_DDL",
    "Told",
    "count_batches",
    "loads_in",
    "merge",
    "read_and_count",
    "told_of",
]

MERGED_DDL = "key binary, records bigint, bytes bigint"
TOLD_DDL = "what int, a int, b int, key binary, records bigint, bytes bigint"
LOADS_DDL = "n int, partition int, records bigint"


def read_and_count(
    spec: Spec, pieces: Sequence[Piece], tasks: int, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: reads every ``tasks``-th piece."""
    counting = Counting(spec)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for piece in pieces[number::tasks]:
                for rows in read_piece(piece, spec.columns):
                    counting.add(rows)
    yield from counting.rows()


def count_batches(spec: Spec, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: what Spark has read."""
    counting = Counting(spec)
    for batch in batches:
        if batch.num_rows:
            counting.add(batch)
    yield from counting.rows()


def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: Arrow adds up, which is several times faster than rows in the JVM."""
    import pyarrow as pa

    held = list(batches)
    if held:
        table = pa.Table.from_batches(held).group_by("key", use_threads=False)
        sums = table.aggregate([("records", "sum"), ("bytes", "sum")])
        yield from sums.rename_columns(["key", "records", "bytes"]).to_batches(100_000)


class Told(IntEnum):
    """What a row of the second job is."""

    HOT = 0
    MOVED = 1  # keys that the change from a to b moves
    KEYS = 2  # distinct keys


def _hottest(hot: pa.Table | None, batch: pa.RecordBatch, top: int) -> pa.Table:
    """Of the keys so far and of a batch the first by records; ties are decided by key."""
    import pyarrow as pa

    fresh = pa.Table.from_batches([batch])
    both = fresh if hot is None else pa.concat_tables([hot, fresh])
    if len(both) > top:  # only those that the last place may go to are sorted by their bytes
        records = both["records"].to_numpy()
        least = np.partition(records, len(records) - top)[len(records) - top]
        above, tied = (
            both.filter(pa.array(records > least)),
            both.filter(pa.array(records == least)),
        )
        left = tied.sort_by("key").slice(0, top - len(above))
        both = pa.concat_tables([above, left])
    return both.combine_chunks()


def told_of(spec: Spec, top: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: the hottest of its keys, how many each change moves, how many there are."""
    import pyarrow as pa

    keys, moved = 0, dict.fromkeys(spec.changes, 0)
    hot: pa.Table | None = None
    for batch in batches:
        keys += batch.num_rows
        hot = _hottest(hot, batch, top)
        if not spec.approximate:
            placed = {n: _place(spec, batch.column(0), n) for n in spec.counts}
            for before, after in moved:
                moved[before, after] += int((placed[before] != placed[after]).sum())
    rows = [
        *((Told.HOT, 0, 0, *row.values()) for row in (hot.to_pylist() if hot else ())),
        *((Told.MOVED, a, b, None, count, 0) for (a, b), count in moved.items()),
        (Told.KEYS, 0, 0, None, keys, 0),
    ]
    kinds = (pa.int32(), pa.int32(), pa.int32(), pa.binary(), pa.int64(), pa.int64())
    columns = [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), kinds, strict=True)]
    yield pa.RecordBatch.from_arrays(columns, names=[c.split()[0] for c in TOLD_DDL.split(", ")])


def _place(spec: Spec, keys: pa.Array, partitions: int) -> Any:
    from partage.keys import partition_for

    found = partition_for(keys, partitions=partitions, partitioner=spec.partitioner)
    return found.to_numpy(zero_copy_only=False)


def loads_in(
    spec: Spec, counts: range, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: its share of the records of each partition at each count."""
    import pyarrow as pa

    loads = {n: np.zeros(n, np.int64) for n in counts}
    for batch in batches:
        records = batch.column(1).to_numpy()
        for n in counts:
            loads[n] += np.bincount(_place(spec, batch.column(0), n), records, n).astype(np.int64)
    for n, load in loads.items():
        used = np.flatnonzero(load)
        yield pa.RecordBatch.from_arrays(
            [pa.array(np.full(len(used), n, np.int32)), pa.array(used.astype(np.int32)),
             pa.array(load[used])],
            names=["n", "partition", "records"],
        )  # fmt: skip
