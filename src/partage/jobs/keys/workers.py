"""In the workers of `partage keys`: reading and counting, then meeting, then what is told."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from partage.jobs.keys.counts import Counting, Spec
from partage.jobs.keys.pages import keys_of
from partage.jobs.keys.rows import KeyRowKind, packed, row_batch, unpacked
from partage.jobs.keys.sources import Piece, read_piece
from partage.jobs.keys.tally import placed_at
from partage.keys.distinct import Distinct

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "LOADS_DDL",
    "count_batches",
    "counted",
    "loads_in",
    "met",
    "met_by_workers",
    "read_and_count",
]

#: Distinct keys that are placed at a time: what is made of them stays in the cache.
_AT_ONCE = 1 << 15
LOADS_DDL = "n int, partition int, records bigint"


def read_and_count(
    spec: Spec, pieces: Sequence[Piece], tasks: int, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: reads every ``tasks``-th piece."""
    counting = Counting(spec)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for piece in pieces[number::tasks]:
                yield from counted(counting, piece)
    yield from counting.rows()
    _settle("numba" in sys.modules)


def counted(
    counting: Counting, piece: Piece, stopped: Callable[[], bool] = bool
) -> Iterator[pa.RecordBatch]:
    """Count a piece, page by page if that can be, until somebody says stop."""
    counting.where = f" of {piece.words}"
    pages = keys_of(piece) if counting.may_go_by_page(piece.rows) else None
    for page in pages or ():
        counting.add_page(page)
        yield from counting.sent()
        if stopped():
            return
    for rows in read_piece(piece, counting.spec.columns) if pages is None else ():
        if rows.num_rows:
            counting.add(rows)
        yield from counting.sent()
        if stopped():
            return


@cache
def _settle(compiled: bool) -> None:  # noqa: ARG001, FBT001 - once for each, in a process
    """What a worker has loaded is no garbage, now or ever.

    PySpark's workers look for garbage after each task: a tenth of a second once numba is there.
    """
    gc.collect()
    gc.freeze()


def count_batches(spec: Spec, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: what Spark has read, the columns in the order of the spec's."""
    counting = Counting(spec)
    for batch in batches:
        if batch.num_rows:
            counting.add(batch.rename_columns(spec.columns.names))
            yield from counting.sent()
    yield from counting.rows()


def met(
    spec: Spec, top: int, batches: Iterable[pa.RecordBatch], *, keep: bool
) -> Iterator[pa.RecordBatch]:
    """Buckets of keys, each key's counts added up, and what is told of them.

    Args:
        spec: what is asked.
        top: how many of the hottest keys are told.
        batches: rows of `read_and_count`; what is no keys is passed on.
        keep: whether the keys themselves are told as well.
    """
    table = Distinct(sized=True)
    for rows in batches:
        is_keys = rows.column(0).to_numpy() == int(KeyRowKind.KEYS)
        for keys, records, size in unpacked(rows.filter(is_keys)):
            table.count(*_buffers(keys), times=records, sizes=size)
        if not is_keys.all():
            yield rows.filter(~is_keys)
    yield row_batch(KeyRowKind.DISTINCT, [len(table)])
    places, heads = table.heads()
    yield from _hottest(table, places, heads, top)
    tally = spec.tally()
    for first in range(0, len(places), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        tally.add(_keys_at(table, places[some], heads[0, some]), heads[2, some], heads[3, some])
    if keep:
        yield from packed(table, 1)
    yield from tally.rows()


def met_by_workers(
    spec: Spec, top: int, batches: Iterable[pa.RecordBatch], *, keep: bool
) -> Iterator[pa.RecordBatch]:
    """`met`, as a worker of Spark's runs it."""
    yield from met(spec, top, batches, keep=keep)
    _settle("numba" in sys.modules)


def _buffers(keys: pa.LargeBinaryArray) -> tuple[np.ndarray, np.ndarray]:
    _, starts, data = keys.buffers()
    bytes_ = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return bytes_, np.frombuffer(starts, np.int64)[: len(keys) + 1].copy()


def _keys_at(table: Distinct, places: np.ndarray, lengths: np.ndarray) -> pa.LargeBinaryArray:
    import pyarrow as pa

    data, starts = table.keys_at(places, lengths)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(places), buffers)


def _hottest(
    table: Distinct, places: np.ndarray, heads: np.ndarray, top: int
) -> Iterator[pa.RecordBatch]:
    """The first by records; of those that the last place may go to, the first by their bytes."""
    lengths, _, records, size = heads
    if not len(places):
        return
    nth = max(0, len(places) - top)
    least = np.partition(records, nth)[nth]
    above = np.flatnonzero(records > least)
    tied = np.flatnonzero(records == least)
    left = min(top, len(places)) - len(above)
    if left < len(tied):
        tied = _first_by_bytes(table, places[tied], lengths[tied], left, tied)
    hot = np.concatenate([above, tied])
    data, starts = table.keys_at(places[hot], lengths[hot])
    keys = [data[a:b].tobytes() for a, b in pairwise(starts.tolist())]
    yield row_batch(KeyRowKind.HOT, records[hot], size[hot], keys=keys)


def _first_by_bytes(
    table: Distinct, places: np.ndarray, lengths: np.ndarray, count: int, numbers: np.ndarray
) -> np.ndarray:
    import pyarrow as pa
    from pyarrow import compute

    keys = pa.table({"key": _keys_at(table, places, lengths)})
    first = compute.select_k_unstable(keys, count, [("key", "ascending")])
    found: np.ndarray = numbers[first.to_numpy()]
    return found


def loads_in(
    spec: Spec, counts: range, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: its share of the records of each partition at each count."""
    import pyarrow as pa

    loads = {n: np.zeros(n, np.int64) for n in counts}
    for rows in batches:
        for keys, records, _ in unpacked(rows):
            for n in counts:
                where = placed_at(keys, [n], spec.partitioner)[n]
                loads[n] += np.bincount(where, records, n).astype(np.int64)
    for n, load in loads.items():
        used = np.flatnonzero(load)
        yield pa.RecordBatch.from_arrays(
            [pa.array(np.full(len(used), n, np.int32)), pa.array(used.astype(np.int32)),
             pa.array(load[used])],
            names=["n", "partition", "records"],
        )  # fmt: skip
