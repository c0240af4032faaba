"""First stage of `partage keys`: count the records of each distinct key.

Each worker counts the keys of its input in one hash table (`partage.keys.distinct`). It sends the
distinct keys in packed rows, by bucket: equal keys of all workers are in the same bucket. It also
sends the number of records by hour and partition. The second stage (`partage.jobs.keys.loads`)
computes the partition of each distinct key once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, InvalidKeysError
from partage.jobs.keys.blocks import RowKind, key_array, pack_keys, row_batch
from partage.jobs.keys.columns import NO_TIME, as_hashed, serialize, times_of, value_sizes
from partage.jobs.keys.loads import KeyJob, PartitionLoads, partitions_at
from partage.jobs.keys.sources import InputPart, read_part
from partage.keys.columns import LONGEST_KEY, arrow_column
from partage.keys.distinct import COUNT, Distinct

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["HOUR_MS", "KeyCounter", "count_part"]

_Longs = NDArray[np.int64]
HOUR_MS = 3_600_000
#: Later than any timestamp.
_NEVER = 1 << 62
#: Bytes of distinct keys that a worker holds before it sends them on.
_HELD_BYTES = 256 << 20
#: Distinct keys that an approximate count keeps.
_SKETCH = 200_000
#: Time that Arrow's dictionary encoding takes for a key, in steps of the interpreted kernel.
_STEPS_A_KEY = 3
#: Rows of hours and partitions that are held before they are summed.
_MOST_HOUR_ROWS = 1_000_000
_HOUR_ROW = ("n", "hour", "partition", "records")


def count_part(
    counter: KeyCounter, part: InputPart, stopped: Callable[[], bool] = bool
) -> Iterator[pa.RecordBatch]:
    """Read one part of the input, and add its records to a worker's counts.

    Yield packed keys whenever the counter reaches its memory limit.

    Args:
        counter: the worker's counts.
        part: the row group or file to read.
        stopped: function that is called after each batch; it returns True to end the count.
    """
    counter.where = f" of {part.name}"
    for rows in read_part(part, counter.job.columns):
        if rows.num_rows:
            counter.add(rows)
        yield from counter.overflow()
        if stopped():
            return


@dataclass
class KeyCounter:
    """Counts the records and bytes of each distinct key that one worker of `partage keys` reads.

    Call `add` for each batch, then send the blocks of `overflow`; at the end send `rows`.

    Attributes:
        nulls: number of records whose partition the key does not decide.
        timeless: number of records without a time from 1970 on.
        dropped: the most records by which an approximate count of a key can be too low.
        seen: number of records added.
        where: name of the part that is being read, for errors.
    """

    job: KeyJob
    nulls: int = 0
    timeless: int = 0
    dropped: int = 0
    seen: int = 0
    where: str = ""
    _table: Distinct = field(init=False)
    _rare: PartitionLoads | None = None
    _hour_rows: list[Any] = field(default_factory=list)
    _first: int = _NEVER
    _last: int = NO_TIME

    def __post_init__(self) -> None:
        self._table = Distinct(sized=self.job.columns.value is not None)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the records of a batch by key, from the columns that the job names.

        Raises:
            InvalidConfigError: keys or times of a type that cannot be used.
            InvalidKeysError: a key longer than a producer sends.
        """
        import pyarrow as pa

        columns = self.job.columns
        self.seen += batch.num_rows
        if columns.time is not None:
            batch = self._take_times(batch, columns.time)
        keys = _serialized(batch.column(batch.schema.get_field_index(columns.key)), self.job)
        keys = as_hashed(keys, self.job.partitioner)
        value = None
        if columns.value is not None:
            value = value_sizes(batch.column(batch.schema.get_field_index(columns.value)))
        if columns.time is not None:
            self._count_hours(batch, keys)
        # Compiling takes a second: Arrow's dictionary encoding is faster for a short input.
        if not pa.types.is_dictionary(keys.type):
            if COUNT.pays(work=_STEPS_A_KEY * max(self.seen, self.job.rows)):
                self._count(keys, value=value)
                return
            keys = keys.dictionary_encode()
        self._count_dictionary(keys, value)

    def _count(
        self, keys: pa.Array, *, times: _Longs | None = None, value: _Longs | None = None,
        size: _Longs | None = None,
    ) -> None:  # fmt: skip
        """Add keys to the counts; each is one record, or ``times`` records with ``size`` bytes."""
        import pyarrow as pa

        column = arrow_column(keys, pa)
        try:
            column.checked(LONGEST_KEY)
        except InvalidKeysError:
            reason = (
                f"has a key of {int(column.lengths.max()):,} bytes; a producer sends no more than "
                f"{LONGEST_KEY:,} by default (max.request.size)"
            )
            where = f"column {self.job.columns.key}{self.where}"
            raise InvalidKeysError(reason, where=where) from None
        if column.null is not None and times is None:
            self.nulls += int(column.null.sum())
        if value is not None:
            size = column.lengths + value
        starts = column.starts.astype(np.int64, copy=False)
        self._table.count(column.data, starts, null=column.null, times=times, sizes=size)

    def _count_dictionary(self, keys: pa.DictionaryArray, value: _Longs | None) -> None:
        """Count the records of a dictionary-encoded key column, hashing each distinct key once."""
        codes = keys.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        distinct = keys.dictionary
        valid = codes >= 0
        if distinct.null_count:  # a null may also be an entry of the dictionary
            valid &= distinct.is_valid().to_numpy(zero_copy_only=False)[codes]
        self.nulls += int((~valid).sum())
        all_valid = bool(valid.all())
        codes = codes if all_valid else codes[valid]
        times = np.bincount(codes, minlength=len(distinct))
        size = None
        if value is not None:
            values = value if all_valid else value[valid]
            size = np.bincount(codes, values, len(distinct)).astype(np.int64)
            size += value_sizes(distinct) * times
        used = times > 0
        if not used.all():
            distinct, times = distinct.filter(used), times[used]
            size = None if size is None else size[used]
        self._count(distinct, times=times.astype(np.int64), size=size)

    def _take_times(self, batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
        """Record the first and last time of a batch, and return the records to count.

        If the job counts only one hour, records of other times are removed.
        """
        import pyarrow as pa

        times = times_of(batch.column(batch.schema.get_field_index(name)), name)
        if self.job.hour is not None:
            inside = (times >= self.job.hour) & (times < self.job.hour + HOUR_MS)
            batch, times = batch.filter(pa.array(inside)), times[inside]
        self.timeless += int((times < 0).sum())
        times = times[times > NO_TIME]
        if len(times):
            self._first = min(self._first, int(times.min()))
            self._last = max(self._last, int(times.max()))
        return batch

    def _count_hours(self, batch: pa.RecordBatch, keys: pa.Array) -> None:
        """Count the records of a batch by hour and partition, at each partition count.

        Memory is used only for hours and partitions that have records.
        """
        import pyarrow as pa

        name = str(self.job.columns.time)
        hours = times_of(batch.column(batch.schema.get_field_index(name)), name) // HOUR_MS
        inside = (hours >= 0) & keys.is_valid().to_numpy(zero_copy_only=False)
        known, hour = np.unique(hours[inside], return_inverse=True)
        for n, numbers in partitions_at(keys, self.job.counts, self.job.partitioner).items():
            used, records = _occurrences(hour * n + numbers[inside], len(known) * n)
            rows = {"n": np.full(len(used), n, np.int32), "hour": known[used // n] * HOUR_MS,
                    "partition": used % n, "records": records}  # fmt: skip
            self._hour_rows.append(pa.table(rows))
        if sum(map(len, self._hour_rows)) > _MOST_HOUR_ROWS:
            self._hour_rows = [_sum_hours(self._hour_rows)]

    def overflow(self) -> Iterator[pa.RecordBatch]:
        """Free memory if the hash table of keys has reached its limit; yield keys that are removed.

        An exact count yields all keys as packed rows. An approximate count drops the rarest keys.
        """
        if self.job.approximate:
            if len(self._table) > 4 * _SKETCH:
                self._drop_rare()
        elif self._table.nbytes > _HELD_BYTES:
            yield from pack_keys(self._table, self.job.buckets)
            self._table.clear()

    def _drop_rare(self) -> None:
        """Remove the rarest keys from the hash table of an approximate count.

        Their records are first added to the loads of their partitions.
        """
        import pyarrow as pa

        counted = self._table.counted()
        excess = len(self._table) - _SKETCH
        if excess <= 0:
            return
        least = int(np.partition(counted.records, excess)[excess])
        self.dropped += least
        keys = key_array(counted.data, counted.starts)
        if self._rare is None:
            self._rare = PartitionLoads(self.job)
        often = counted.records > least
        self._rare.add(keys.filter(pa.array(~often)), counted.records[~often],
                       counted.bytes[~often])  # fmt: skip
        self._table.clear()
        self._count(keys.filter(pa.array(often)), times=counted.records[often],
                    size=counted.bytes[often])  # fmt: skip

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rest of the worker's result: keys, records by hour and partition, totals."""
        from pyarrow import compute

        if self.job.approximate:
            self._drop_rare()
        yield from pack_keys(self._table, self.job.buckets)
        if self._rare is not None:
            yield from self._rare.rows()
        if self._hour_rows:
            by_hour = _sum_hours(self._hour_rows)
            for n in compute.unique(by_hour["n"]):
                rows = by_hour.filter(compute.equal(by_hour["n"], n))
                hour, partition, records = (rows[name].to_numpy() for name in _HOUR_ROW[1:])
                yield row_batch(RowKind.HOUR, records, n=n.as_py(), hour=hour, partition=partition)
        if self._last > NO_TIME:
            ends = np.array([self._first]), np.array([self._last])
            yield row_batch(RowKind.SPAN, [0], hour=ends[0], partition=ends[1])
        yield row_batch(RowKind.NULLS, [self.nulls])
        yield row_batch(RowKind.TIMELESS, [self.timeless])
        yield row_batch(RowKind.DROPPED, [self.dropped])


def _serialized(column: pa.Array, job: KeyJob) -> pa.Array:
    """Serialize the key column to bytes; a dictionary-encoded column stays dictionary-encoded."""
    import pyarrow as pa
    from pyarrow import types

    name = job.columns.key
    if not types.is_dictionary(column.type):
        return serialize(column, job.serializer, name)
    keys = serialize(column.dictionary, job.serializer, name)
    try:
        return pa.DictionaryArray.from_arrays(column.indices, keys)
    except pa.ArrowException as e:  # a damaged page, whose indices pyarrow does not check
        raise InvalidConfigError("INPUT", f"cannot be read ({e})", name) from None


def _occurrences(values: _Longs, end: int) -> tuple[_Longs, _Longs]:
    if end <= 4 * len(values) + 1_000:
        times = np.bincount(values, minlength=end)
        used = np.flatnonzero(times)
        return used, times[used]
    used, times = np.unique(values, return_counts=True)
    return used, times


def _sum_hours(tables: list[pa.Table]) -> pa.Table:
    """Add up the records of several tables by partition count, hour and partition."""
    import pyarrow as pa

    grouped = pa.concat_tables(tables).group_by(list(_HOUR_ROW[:3]), use_threads=False)
    return grouped.aggregate([("records", "sum")]).rename_columns(list(_HOUR_ROW))
