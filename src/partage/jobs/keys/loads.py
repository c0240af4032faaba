"""Second stage of `partage keys`: compute partition loads, moved records and the hottest keys.

`merge_bucket` adds up the counts of equal keys. The partition of each distinct key is then
computed once, however many records the key has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.jobs.keys.blocks import RowKind, key_array, pack_keys, row_batch, unpack_keys
from partage.kernels import force_kernel_form
from partage.keys.distinct import DistinctKeys
from partage.keys.skew import TALLIED, Moves, compare_counts, count_moves

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.keys.columns import InputColumns

__all__ = ["LOADS_DDL", "KeyJob", "PartitionLoads", "loads_at", "merge_bucket", "partitions_at"]

_Longs = NDArray[np.int64]
LOADS_DDL = "n int, partition int, records bigint"
#: Distinct keys that are placed at a time: their arrays stay in the processor's cache.
_KEYS_AT_ONCE = 1 << 15
#: Partition counts up to here are counted in an array, larger ones by sorting.
_DENSE = 1 << 20
_MOST_PARTITIONS = (1 << 31) - 1
#: Bytes of keys that take longer in plain Python than Numba takes to start.
_COMPILED_FROM = 32 << 20


@dataclass(frozen=True)
class KeyJob:
    """Settings of one `partage keys` run that are sent to its workers.

    Attributes:
        columns: the input columns.
        partitioner: name of the partitioner.
        counts: partition counts, ascending.
        serializer: Kafka serializer of number keys; None for text and bytes.
        approximate: whether rare keys may be dropped.
        buckets: number of buckets of keys; equal keys are in one bucket.
        rows: number of records that a worker will read, 0 if unknown; decides whether to compile
            kernels.
        hour: start (ms) of the only hour whose records are counted; None counts all records.
    """

    columns: InputColumns
    partitioner: str
    counts: tuple[int, ...]
    serializer: str | None = None
    approximate: bool = False
    buckets: int = 1
    rows: int = 0
    hour: int | None = None

    @property
    def count_changes(self) -> list[tuple[int, int]]:
        """All pairs of a smaller and a larger partition count that the user has requested.

        For each pair, `partage keys` counts the records that would move to another partition.
        """
        return [(a, b) for i, a in enumerate(self.counts) for b in self.counts[i + 1 :]]


def partitions_at(keys: pa.Array, counts: Sequence[int], partitioner: str) -> dict[int, Any]:
    """Return the partition of each key at several partition counts, as a client partitioner chooses
    it.

    The partition of a null key is arbitrary.

    Args:
        keys: serialized keys (Arrow binary).
        counts: the partition counts.
        partitioner: name of the client partitioner.

    Returns:
        dict from partition count to the partition of each key (int32[n]).
    """
    # Clients compute a hash modulo the partition count. So a key's partition at a common multiple
    # of the counts, modulo a count, is its partition at that count. If the common multiple is
    # small, keys are hashed only once. A custom partitioner is called for each count.
    common = lcm(*counts)
    if common > _MOST_PARTITIONS or not _is_hash_modulo(partitioner):
        return {n: _place(keys, n, partitioner).view(np.int32) for n in counts}
    hashed = _place(keys, common, partitioner)
    # NumPy vectorises a division by a scalar, but not a remainder.
    return {n: (hashed - hashed // np.uint32(n) * np.uint32(n)).view(np.int32) for n in counts}


def _is_hash_modulo(partitioner: str) -> bool:
    """Return whether a partitioner computes a hash of the key modulo the partition count.

    All built-in partitioners do. The result is False for a custom partitioner, which may choose
    otherwise.
    """
    from partage.keys.contract import CustomRule
    from partage.keys.registry import find_partitioner

    return not isinstance(find_partitioner(partitioner).rule, CustomRule)


def _place(keys: pa.Array, partitions: int, partitioner: str) -> NDArray[np.uint32]:
    from partage.keys import partition_for

    found = partition_for(keys, partitions=partitions, partitioner=partitioner)
    numbers: NDArray[np.int32] = found.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers.view(np.uint32)


class PartitionLoads:
    """Running sums of the records and bytes in each partition, at several partition counts.

    For each pair of partition counts, it also counts the records and keys that would move to
    another partition.
    """

    def __init__(self, job: KeyJob) -> None:
        self._counts, self._changes, self._partitioner = (
            job.counts,
            job.count_changes,
            job.partitioner,
        )
        self._dense: dict[int, _Longs] = {}
        self._sparse: list[tuple[int, _Longs, _Longs, _Longs]] = []
        self._moves: dict[tuple[int, int], Moves] = {}
        self._bytes = self._keys = 0
        self._common = lcm(*job.counts)
        self._may_compile = (
            max(job.counts) <= _DENSE
            and self._common <= _MOST_PARTITIONS
            and _is_hash_modulo(job.partitioner)
        )

    def add_keys(self, keys: pa.Array, records: _Longs, byte_counts: _Longs) -> None:
        """Add the records of distinct keys to the sums of their partitions.

        Args:
            keys: the distinct keys (Arrow binary).
            records: number of records of each key (int64[n]).
            byte_counts: bytes of these records (int64[n]).
        """
        # Batches are small: whether compiling pays is decided by all of them together.
        self._bytes += keys.nbytes
        self._keys += len(keys)
        with force_kernel_form("compiled") if self._bytes > _COMPILED_FROM else nullcontext():
            if self._may_compile and TALLIED.is_worth_compiling(work=self._keys):
                self._add_compiled(keys, records, byte_counts)
                return
            placed = partitions_at(keys, self._counts, self._partitioner)
        for n, numbers in placed.items():
            self._add_count(n, numbers, (records, byte_counts))
        for move in count_moves(placed, records, self._changes):
            self._add_move(move)

    def _add_compiled(self, keys: pa.Array, records: _Longs, size: _Longs) -> None:
        """Add the records of distinct keys to the sums of their partitions, with a compiled kernel.

        The sums equal those without Numba. Compiling takes time, so it is only used for many keys.
        """
        hashed = _place(keys, self._common, self._partitioner)
        loads, moved = compare_counts(hashed, records, size, self._counts, work=self._keys)
        for n, load in zip(self._counts, loads, strict=True):
            self._dense[n] = self._dense[n] + load if n in self._dense else load
        number = {n: i for i, n in enumerate(self._counts)}
        total = int(records.sum())
        for before, after in self._changes:
            at = number[before], number[after]
            moved_keys, moved_records = int(moved[0][at]), int(moved[1][at])
            self._add_move(Moves(before, after, len(keys), moved_keys, total, moved_records))

    def _add_move(self, move: Moves) -> None:
        change = move.before, move.after
        self._moves[change] = self._moves[change] + move if change in self._moves else move

    def _add_count(
        self, n: int, numbers: NDArray[np.int32], weights: tuple[_Longs, _Longs]
    ) -> None:
        if n > _DENSE:
            used, codes = np.unique(numbers, return_inverse=True)
            records, size = (np.bincount(codes, w, len(used)).astype(np.int64) for w in weights)
            self._sparse.append((n, used.astype(np.int64), records, size))
            return
        found = np.stack([np.bincount(numbers, w, n).astype(np.int64) for w in weights])
        self._dense[n] = self._dense[n] + found if n in self._dense else found

    def load_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records and bytes of each partition as Arrow batches, at each partition count.

        Further rows have the numbers of records and keys that move when the partition count
        changes.
        """
        for n, (records, size) in self._dense.items():
            used = np.flatnonzero(records)
            yield row_batch(RowKind.PARTITION, records[used], size[used], n=n, partition=used)
        for n, used, records, size in self._sparse:
            yield row_batch(RowKind.PARTITION, records, size, n=n, partition=used)
        for (before, after), move in self._moves.items():
            yield row_batch(
                RowKind.MOVED, [move.moved_records], [move.moved_keys], n=before,
                partition=np.array([after]),
            )  # fmt: skip


def merge_bucket(
    job: KeyJob, hottest_count: int, batches: Iterable[pa.RecordBatch], *, keep_keys: bool
) -> Iterator[pa.RecordBatch]:
    """Add up the workers' counts of equal keys in one bucket, and compute partition loads from
    them.

    A bucket is a subset of the keys, chosen by hash. A Spark task or a thread does this for one
    bucket, after all workers have counted. It yields the records and bytes of each partition, and
    the hottest keys.

    Args:
        job: the settings of the run.
        hottest_count: number of hottest keys (most records) to report.
        batches: rows from the workers; those that are not of `RowKind.KEYS` are yielded unchanged.
        keep_keys: whether to yield the merged keys as well, for `loads_at`.
    """
    table = DistinctKeys(sized=True)
    for rows in batches:
        blocks = rows.column(0).to_numpy() == int(RowKind.KEYS)
        for keys, records, size in unpack_keys(rows.filter(blocks)):
            table.count_batch(*_buffers(keys), times=records, sizes=size)
        if not blocks.all():
            yield rows.filter(~blocks)
    yield row_batch(RowKind.DISTINCT, [len(table)])
    places, heads = table.counts_and_offsets()
    yield from _rows_of_hottest_keys(table, places, heads, hottest_count)
    loads = PartitionLoads(job)
    for first in range(0, len(places), _KEYS_AT_ONCE):
        part = slice(first, first + _KEYS_AT_ONCE)
        keys = key_array(*table.keys_at(places[part], heads[0, part]))
        loads.add_keys(keys, heads[2, part], heads[3, part])
    if keep_keys:
        yield from pack_keys(table, 1)
    yield from loads.load_batches()


def _buffers(keys: pa.LargeBinaryArray) -> tuple[NDArray[np.uint8], _Longs]:
    _, starts, data = keys.buffers()
    raw = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return raw, np.frombuffer(starts, np.int64)[: len(keys) + 1].copy()


def _rows_of_hottest_keys(
    hash_table: DistinctKeys, slots: _Longs, heads: _Longs, hottest_count: int
) -> Iterator[pa.RecordBatch]:
    """Yield result rows with the keys that have the most records.

    Keys with equal numbers of records are ordered by their bytes, so the result is the same in each
    run.

    Args:
        hash_table: hash table of all keys.
        slots: positions of the keys in the hash table (int64[n]).
        heads: table entries of the keys: length, hash, records and bytes (int64[4, n]).
        hottest_count: number of keys to yield.
    """
    # Keys with equal counts are ordered by their bytes.
    from pyarrow import compute
    from pyarrow import table as arrow_table

    lengths, _, records, size = heads
    if not len(slots):
        return
    nth = max(0, len(slots) - hottest_count)
    least = np.partition(records, nth)[nth]
    above = np.flatnonzero(records > least)
    tied = np.flatnonzero(records == least)
    left = min(hottest_count, len(slots)) - len(above)
    if left < len(tied):
        keys = arrow_table({"key": key_array(*hash_table.keys_at(slots[tied], lengths[tied]))})
        tied = tied[compute.select_k_unstable(keys, left, [("key", "ascending")]).to_numpy()]
    hot = np.concatenate([above, tied])
    data, starts = hash_table.keys_at(slots[hot], lengths[hot])
    raw = [data[a:b].tobytes() for a, b in pairwise(starts.tolist())]
    yield row_batch(RowKind.HOT, records[hot], size[hot], keys=raw)


def loads_at(
    job: KeyJob, counts: range, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Compute the number of records in each partition at further partition counts.

    It uses keys that were counted before. The search for the smallest partition count calls it.
    Yield one result row for each partition with records.

    Args:
        job: the settings of the run.
        counts: the partition counts.
        batches: the distinct keys of the whole input with their numbers of records.
    """
    import pyarrow as pa

    loads = {n: np.zeros(n, np.int64) for n in counts}
    for rows in batches:
        for keys, records, _ in unpack_keys(rows):
            for n in counts:
                numbers = partitions_at(keys, [n], job.partitioner)[n]
                loads[n] += np.bincount(numbers, records, n).astype(np.int64)
    for n, load in loads.items():
        used = np.flatnonzero(load)
        columns = [np.full(len(used), n, np.int32), used.astype(np.int32), load[used]]
        yield pa.RecordBatch.from_arrays(list(map(pa.array, columns)),
                                         names=["n", "partition", "records"])  # fmt: skip
