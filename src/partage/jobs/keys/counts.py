"""In a worker: batches of records become keys with their counts, and cells of hours.

Keys are counted in one table (`partage.keys.distinct`). What leaves a worker is its distinct
keys by the block, by buckets in which the keys of all workers meet, and one row an hour and
partition. Where the keys go is asked later, once for each of them: `key_tally`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, InvalidKeysError
from partage.jobs.keys.bytes import as_bytes, as_placed, sizes
from partage.jobs.keys.rows import KeyRowKind, packed, row_batch
from partage.jobs.keys.tally import KeyLoads, placed_at
from partage.jobs.keys.times import NO_TIME, millis
from partage.keys import arrow
from partage.keys.columns import LONGEST_KEY
from partage.keys.distinct import COUNT, Distinct
from partage.keys.paged import GAP
from partage.keys.registry import find

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.keys.columns import Columns
    from partage.jobs.keys.pages import Keys

__all__ = ["Counting", "Spec"]

_Longs = NDArray[np.int64]
_HOUR_MS = 3_600_000
_NEVER = 1 << 62
#: Memory of the distinct keys that a worker holds before it sends them on.
_HELD_BYTES = 256 << 20
#: Distinct keys that an approximate count keeps.
_SKETCH = 200_000
#: What Arrow's dictionary takes for a key, in steps of a kernel that is not compiled.
_STEPS = 3
#: Cells of hour and partition that are held before they are summed.
_CELLS = 1_000_000


@dataclass(frozen=True)
class Spec:
    """What is asked.

    Attributes:
        counts: partition counts, ascending.
        approximate: whether rare keys may be dropped.
        buckets: into which keys are parted, so that the counts of a key meet.
        rows: records that a worker will read, as far as known: whether to compile is decided by it.
        hour: only records of the hour that begins then (ms) are counted; None for all.
    """

    columns: Columns
    partitioner: str
    counts: tuple[int, ...]
    serializer: str | None = None
    approximate: bool = False
    buckets: int = 1
    rows: int = 0
    hour: int | None = None

    @property
    def changes(self) -> list[tuple[int, int]]:
        """Changes of the partition count that are looked at: from each count to the larger ones."""
        return [(a, b) for i, a in enumerate(self.counts) for b in self.counts[i + 1 :]]

    def tally(self) -> KeyLoads:
        """An empty one of what is asked."""
        return KeyLoads(self.counts, self.changes, self.partitioner)


@dataclass
class Counting:
    """What a worker has counted so far: `add` batches, after each `sent`, then `rows`.

    Attributes:
        where: what is read now, for errors.
    """

    spec: Spec
    nulls: int = 0
    timeless: int = 0
    dropped: int = 0
    seen: int = 0
    where: str = ""
    _table: Distinct = field(init=False)
    _rare: KeyLoads | None = None
    _cells: list[Any] = field(default_factory=list)
    _first: int = _NEVER
    _last: int = NO_TIME

    def __post_init__(self) -> None:
        self._table = Distinct(sized=self.spec.columns.value is not None)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count one batch."""
        import pyarrow as pa

        columns = self.spec.columns
        self.seen += batch.num_rows
        if columns.time is not None:
            batch = self._timed(batch, columns.time)
        keys = _plain(batch.column(batch.schema.get_field_index(columns.key)), self.spec)
        keys = as_placed(keys, self.spec.partitioner)
        value = None
        if columns.value is not None:
            value = sizes(batch.column(batch.schema.get_field_index(columns.value)))
        if columns.time is not None:
            self._by_hour(batch, keys)
        # Compiling takes a second: a short input is sooner done by Arrow's dictionaries.
        if not pa.types.is_dictionary(keys.type):
            if COUNT.pays(work=_STEPS * max(self.seen, self.spec.rows)):
                self._count(keys, value=value)
                return
            keys = keys.dictionary_encode()
        self._count_coded(keys, value)

    def may_go_by_page(self, rows: int) -> bool:
        """Whether keys are counted as they stand in pages: no client's rule for null or empty ones,
        and so many that compiling pays.
        """
        rule = find(self.spec.partitioner).rule
        plain = self.spec.serializer in {None, "string", "bytes"}
        usual = rule is None or rule.unkeyed == "null"
        work = _STEPS * max(self.seen, self.spec.rows, rows)
        return plain and usual and COUNT.pays(work=work)

    def add_page(self, page: Keys) -> None:
        """Count the keys of a page of Parquet."""
        self.seen += len(page.starts) - 1 + page.nulls
        self.nulls += page.nulls
        # Of a dictionary some keys may be no record's.
        unused = None if page.times is None or page.times.all() else page.times == 0
        self._table.count(page.data, page.starts, null=unused, times=page.times, gap=GAP)

    def _count(
        self, keys: pa.Array, *, times: _Longs | None = None, value: _Longs | None = None,
        size: _Longs | None = None,
    ) -> None:  # fmt: skip
        """Keys as they come, or with the records of each."""
        import pyarrow as pa

        column = arrow.column(keys, pa)
        try:
            column.checked(LONGEST_KEY)
        except InvalidKeysError:
            told = (
                f"has a key of {int(column.lengths.max()):,} bytes; a producer sends no more than "
                f"{LONGEST_KEY:,} by default (max.request.size)"
            )
            where = f"column {self.spec.columns.key}{self.where}"
            raise InvalidKeysError(told, where=where) from None
        if column.null is not None and times is None:
            self.nulls += int(column.null.sum())
        if value is not None:
            size = column.lengths + value
        starts = column.starts.astype(np.int64, copy=False)
        self._table.count(column.data, starts, null=column.null, times=times, sizes=size)

    def _count_coded(self, keys: pa.DictionaryArray, value: _Longs | None) -> None:
        """A dictionary: each of its keys is counted once, with the number of its records."""
        codes = keys.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        distinct = keys.dictionary
        valid = codes >= 0
        if distinct.null_count:  # a null may also stand in the dictionary itself
            valid &= distinct.is_valid().to_numpy(zero_copy_only=False)[codes]
        self.nulls += int((~valid).sum())
        every = bool(valid.all())
        codes = codes if every else codes[valid]
        times = np.bincount(codes, minlength=len(distinct))
        size = None
        if value is not None:
            values = value if every else value[valid]
            size = np.bincount(codes, values, len(distinct)).astype(np.int64)
            size += sizes(distinct) * times
        used = times > 0
        if not used.all():
            distinct, times = distinct.filter(used), times[used]
            size = None if size is None else size[used]
        self._count(distinct, times=times.astype(np.int64), size=size)

    def _timed(self, batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
        """The records of the hour that is asked for, if one is; first and last time of them."""
        import pyarrow as pa

        at = millis(batch.column(batch.schema.get_field_index(name)), name)
        if self.spec.hour is not None:
            mine = (at >= self.spec.hour) & (at < self.spec.hour + _HOUR_MS)
            batch, at = batch.filter(pa.array(mine)), at[mine]
        self.timeless += int((at < 0).sum())
        at = at[at > NO_TIME]
        if len(at):
            self._first = min(self._first, int(at.min()))
            self._last = max(self._last, int(at.max()))
        return batch

    def _by_hour(self, batch: pa.RecordBatch, keys: pa.Array) -> None:
        """Cells of hour and partition, only those that have records: a time may be anything."""
        import pyarrow as pa

        name = str(self.spec.columns.time)
        hours = millis(batch.column(batch.schema.get_field_index(name)), name) // _HOUR_MS
        inside = (hours >= 0) & keys.is_valid().to_numpy(zero_copy_only=False)
        known, hour = np.unique(hours[inside], return_inverse=True)
        for n, where in placed_at(keys, self.spec.counts, self.spec.partitioner).items():
            cell = hour * n + where[inside]
            used, records = _counted(cell, len(known) * n)
            rows = {"n": np.full(len(used), n, np.int32), "hour": known[used // n] * _HOUR_MS,
                    "partition": used % n, "records": records}  # fmt: skip
            self._cells.append(pa.table(rows))
        if sum(len(cells) for cells in self._cells) > _CELLS:
            self._cells = [_summed(pa.concat_tables(self._cells))]

    def sent(self) -> Iterator[pa.RecordBatch]:
        """What must leave the worker before more is counted, so that its memory is bounded."""
        if self.spec.approximate:
            if len(self._table) > 4 * _SKETCH:
                self._drop_rare()
        elif self._table.nbytes > _HELD_BYTES:
            yield from packed(self._table, self.spec.buckets)
            self._table.clear()

    def _drop_rare(self) -> None:
        """Only the most frequent keys stay; where the others go is counted now."""
        import pyarrow as pa

        counted = self._table.counted()
        keep = len(self._table) - _SKETCH
        if keep <= 0:
            return
        least = int(np.partition(counted.records, keep)[keep])
        self.dropped += least
        buffers = [None, pa.py_buffer(counted.starts), pa.py_buffer(counted.data)]
        keys = pa.Array.from_buffers(pa.large_binary(), len(counted.records), buffers)
        if self._rare is None:
            self._rare = self.spec.tally()
        often = counted.records > least
        rare = pa.array(~often)
        self._rare.add(keys.filter(rare), counted.records[~often], counted.bytes[~often])
        self._table.clear()
        self._count(keys.filter(pa.array(often)), times=counted.records[often],
                    size=counted.bytes[often])  # fmt: skip

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All that is left: keys, cells, and what has no key."""
        import pyarrow as pa

        if self.spec.approximate:
            self._drop_rare()
        yield from packed(self._table, self.spec.buckets)
        if self._rare is not None:
            yield from self._rare.rows()
        if self._cells:
            for n, cells in _by_count(_summed(pa.concat_tables(self._cells))):
                hour, partition, records = (cells[c].to_numpy() for c in _CELL)
                yield row_batch(KeyRowKind.HOUR, records, n=n, hour=hour, partition=partition)
        if self._last > NO_TIME:
            ends = np.array([self._first]), np.array([self._last])
            yield row_batch(KeyRowKind.SPAN, [0], hour=ends[0], partition=ends[1])
        yield row_batch(KeyRowKind.NULLS, [self.nulls])
        yield row_batch(KeyRowKind.TIMELESS, [self.timeless])
        yield row_batch(KeyRowKind.DROPPED, [self.dropped])


_CELL = ("hour", "partition", "records")


def _plain(column: pa.Array, spec: Spec) -> pa.Array:
    """The keys as bytes; a dictionary stays one."""
    import pyarrow as pa
    from pyarrow import types

    name = spec.columns.key
    if not types.is_dictionary(column.type):
        return as_bytes(column, spec.serializer, name)
    keys = as_bytes(column.dictionary, spec.serializer, name)
    try:
        return pa.DictionaryArray.from_arrays(column.indices, keys)
    except pa.ArrowException as e:  # a damaged page, which pyarrow reads without a look
        raise InvalidConfigError("INPUT", f"cannot be read ({e})", name) from None


def _counted(cell: _Longs, cells: int) -> tuple[_Longs, _Longs]:
    """The numbers that there are, and how often."""
    if cells <= 4 * len(cell) + 1_000:
        times = np.bincount(cell, minlength=cells)
        used = np.flatnonzero(times)
        return used, times[used]
    used, times = np.unique(cell, return_counts=True)
    return used, times


def _summed(cells: pa.Table) -> pa.Table:
    found = cells.group_by(["n", "hour", "partition"], use_threads=False)
    return found.aggregate([("records", "sum")]).rename_columns(
        ["n", "hour", "partition", "records"]
    )


def _by_count(cells: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    import pyarrow as pa
    from pyarrow import compute

    for n in compute.unique(cells["n"]).to_pylist():
        yield n, cells.filter(compute.equal(cells["n"], pa.scalar(n, pa.int32())))
