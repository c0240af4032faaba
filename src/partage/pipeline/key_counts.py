"""In a worker: batches of keys become counts, so that few rows leave it.

Keys are counted by dictionary: each distinct key of a batch is hashed once, and what is added
up by partition, change and hour is added up over codes. What leaves a worker is one row a
partition (and hour), and one row a distinct key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError
from partage.keys.skew import Moves, moves_of
from partage.pipeline.key_bytes import as_bytes, sizes

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.pipeline.key_sources import Columns

__all__ = ["COUNTS_DDL", "Counting", "Kind", "Spec"]

_Longs = NDArray[np.int64]
_HOUR_MS = 3_600_000
#: A record without a time is in no hour: hours before 1970 are not told of.
_NO_TIME = -1
#: Distinct keys that a worker holds before they are merged.
_MERGE_AT = 4_000_000
#: Distinct keys that an approximate count keeps.
_SKETCH = 200_000
#: The hour of what is not counted by the hour: none that a time can have.
_NO_HOUR = -(1 << 62)
#: Partition counts up to here are counted in an array, larger ones by sorting.
_DENSE = 1 << 20

COUNTS_DDL = (
    "kind int, n int, hour bigint, partition bigint, key binary, records bigint, bytes bigint"
)


class Kind(IntEnum):
    """What a row of the first job is."""

    PARTITION = 0
    KEY = 1
    MOVED = 2  # n -> partition is a change; key is null
    NULLS = 3
    DROPPED = 4  # most records that an approximate count may lack for any key


@dataclass(frozen=True)
class Spec:
    """What is asked.

    Attributes:
        counts: partition counts, ascending.
        approximate: whether rare keys may be dropped.
    """

    columns: Columns
    partitioner: str
    counts: tuple[int, ...]
    serializer: str | None = None
    approximate: bool = False

    @property
    def changes(self) -> list[tuple[int, int]]:
        """Changes of the partition count that are looked at: from each count to the larger ones."""
        return [(a, b) for i, a in enumerate(self.counts) for b in self.counts[i + 1 :]]


@dataclass
class Counting:
    """What a worker has counted so far; `add` batches, then `rows`."""

    spec: Spec
    nulls: int = 0
    dropped: int = 0
    _parts: dict[int, _Longs] = field(default_factory=dict)
    _sparse: list[tuple[int, _Longs, _Longs, _Longs]] = field(default_factory=list)
    _cells: list[Any] = field(default_factory=list)
    _moves: dict[tuple[int, int], Moves] = field(default_factory=dict)
    _keys: list[Any] = field(default_factory=list)
    _held: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count one batch."""
        columns = self.spec.columns
        keys, codes = self._coded(batch.column(batch.schema.get_field_index(columns.key)))
        valid = codes >= 0
        self.nulls += int((~valid).sum())
        size = self._sizes(batch, keys, codes)
        hours = self._hours(batch)
        if not valid.all():
            codes, size, hours = codes[valid], size[valid], None if hours is None else hours[valid]
        records = np.bincount(codes, minlength=len(keys)).astype(np.int64)
        weighed = np.bincount(codes, size, minlength=len(keys)).astype(np.int64)
        placed = {n: self._placed(keys, n) for n in self.spec.counts}
        if hours is None:
            for n, where in placed.items():
                self._tally(n, where, (records, weighed))
        else:
            self._by_hour(placed, codes, size, hours)
        for move in moves_of(placed, records, self.spec.changes):
            at = (move.before, move.after)
            self._moves[at] = self._moves[at] + move if at in self._moves else move
        self._keep(keys, records, weighed)

    def _coded(self, column: pa.Array) -> tuple[pa.Array, _Longs]:
        """Distinct keys as bytes, and for each row its key's number, -1 for null."""
        import pyarrow as pa
        from pyarrow import types

        name = self.spec.columns.key
        if not types.is_dictionary(column.type):
            column = as_bytes(column, self.spec.serializer, name).dictionary_encode()
        elif not column.dictionary.type.equals(pa.binary()):
            keys = as_bytes(column.dictionary, self.spec.serializer, name)
            column = pa.DictionaryArray.from_arrays(column.indices, keys)
        codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        keys = column.dictionary
        if keys.null_count:  # a null may also stand in the dictionary itself
            empty = np.flatnonzero(~keys.is_valid().to_numpy(zero_copy_only=False))
            codes[np.isin(codes, empty)] = -1
        return keys, codes

    def _sizes(self, batch: pa.RecordBatch, keys: pa.Array, codes: _Longs) -> _Longs:
        own: _Longs = np.append(sizes(keys), 0)[codes]  # the last, 0, is for nulls: code -1
        value = self.spec.columns.value
        if value is None:
            return own
        values: _Longs = sizes(batch.column(batch.schema.get_field_index(value)))
        return own + values

    def _hours(self, batch: pa.RecordBatch) -> _Longs | None:
        name = self.spec.columns.time
        if name is None:
            return None
        column = batch.column(batch.schema.get_field_index(name))
        return _millis(column, name) // _HOUR_MS * _HOUR_MS

    def _placed(self, keys: pa.Array, partitions: int) -> NDArray[np.int32]:
        from partage.keys import partition_for

        found = partition_for(keys, partitions=partitions, partitioner=self.spec.partitioner)
        return np.asarray(found.fill_null(0).to_numpy(zero_copy_only=False), np.int32)

    def _by_hour(
        self, placed: dict[int, NDArray[np.int32]], codes: _Longs, size: _Longs, hours: _Longs
    ) -> None:
        """Cells of hour and partition, only those that have records: a time may be anything."""
        import pyarrow as pa

        for n, where in placed.items():
            rows = {"hour": hours, "partition": where[codes].astype(np.int64), "bytes": size}
            rows |= {"n": np.full(len(codes), n, np.int32), "records": np.ones_like(codes)}
            self._cells.append(_summed(pa.table(rows), ["n", "hour", "partition"]))
        if sum(len(cells) for cells in self._cells) > _MERGE_AT:
            self._cells = [_summed(pa.concat_tables(self._cells), ["n", "hour", "partition"])]

    def _tally(self, n: int, where: NDArray[Any], weights: tuple[_Longs, _Longs]) -> None:
        """Add (records, bytes) of some partitions to what is known of them."""
        if n > _DENSE:
            used, codes = np.unique(where, return_inverse=True)
            records, size = (np.bincount(codes, w, len(used)).astype(np.int64) for w in weights)
            self._sparse.append((n, used.astype(np.int64), records, size))
            return
        found = np.stack([np.bincount(where, w, n).astype(np.int64) for w in weights])
        self._parts[n] = self._parts[n] + found if n in self._parts else found

    def _keep(self, keys: pa.Array, records: _Longs, weighed: _Longs) -> None:
        import pyarrow as pa

        used = records > 0
        table = pa.table({"key": keys.cast(pa.binary()), "records": records, "bytes": weighed})
        self._keys.append(table if used.all() else table.filter(pa.array(used)))
        self._held += len(self._keys[-1])
        if self._held > (_SKETCH * 4 if self.spec.approximate else _MERGE_AT):
            self._merge()

    def _merge(self) -> None:
        """One row a distinct key; of an approximate count only the most frequent stay."""
        import pyarrow as pa

        if not self._keys:
            return
        merged = _summed(pa.concat_tables(self._keys), ["key"])
        if self.spec.approximate and len(merged) > _SKETCH:
            counts = merged["records"].to_numpy()
            least = np.partition(counts, len(counts) - _SKETCH)[len(counts) - _SKETCH]
            self.dropped += int(least)
            merged = merged.filter(pa.array(counts > least))
        self._keys, self._held = [merged], len(merged)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """What was counted, as rows of `COUNTS_DDL`."""
        self._merge()
        for n, (records, weighed) in self._parts.items():
            used = np.flatnonzero(records)
            yield _batch(Kind.PARTITION, (records[used], weighed[used]), n=n, partition=used)
        for n, used, records, weighed in self._sparse:
            yield _batch(Kind.PARTITION, (records, weighed), n=n, partition=used)
        for cells in self._cells:
            yield from _cell_batches(cells)
        for (before, after), move in self._moves.items():
            yield _batch(Kind.MOVED, _one(move.moved_records), n=before, partition=_one(after)[0])
        yield _batch(Kind.NULLS, _one(self.nulls))
        yield _batch(Kind.DROPPED, _one(self.dropped))
        for table in self._keys:
            for part in table.to_batches(100_000):
                sums = part.column(1).to_numpy(), part.column(2).to_numpy()
                yield _batch(Kind.KEY, sums, key=part.column(0))


def _summed(table: pa.Table, by: list[str]) -> pa.Table:
    """Records and bytes added up."""
    sums = [("records", "sum"), ("bytes", "sum")]
    found = table.group_by(by, use_threads=False).aggregate(sums)
    return found.rename_columns([*by, "records", "bytes"])


def _cell_batches(cells: pa.Table) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for part in cells.to_batches(100_000):
        count = part.num_rows
        columns = dict(zip(part.schema.names, part.columns, strict=True))
        columns["kind"] = pa.array(np.full(count, int(Kind.PARTITION), np.int32))
        columns["key"] = pa.nulls(count, pa.binary())
        names = [column.split()[0] for column in COUNTS_DDL.split(", ")]
        yield pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


def _one(count: int) -> tuple[_Longs, _Longs]:
    return np.array([count], np.int64), np.zeros(1, np.int64)


def _batch(
    kind: Kind,
    sums: tuple[_Longs, _Longs],
    *,
    n: int = 0,
    partition: _Longs | None = None,
    key: pa.Array | None = None,
) -> pa.RecordBatch:
    import pyarrow as pa

    records, weighed = sums
    count = len(records)
    arrays = [
        pa.array(np.full(count, int(kind), np.int32)),
        pa.array(np.full(count, n, np.int32)),
        pa.array(np.full(count, _NO_HOUR, np.int64)),
        pa.nulls(count, pa.int64()) if partition is None else pa.array(partition, pa.int64()),
        pa.nulls(count, pa.binary()) if key is None else key,
        pa.array(records, pa.int64()),
        pa.array(weighed, pa.int64()),
    ]
    names = [part.split()[0] for part in COUNTS_DDL.split(", ")]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _millis(column: pa.Array, name: str) -> _Longs:
    """A time column as milliseconds; numbers are taken as milliseconds already."""
    import pyarrow as pa
    from pyarrow import compute, types

    try:
        if types.is_string(column.type) or types.is_large_string(column.type):
            column = _parsed(column)
        if types.is_timestamp(column.type) or types.is_date(column.type):
            column = compute.cast(column, pa.timestamp("ms"), safe=False)
        found = compute.cast(column, pa.int64(), safe=False)
    except pa.ArrowException as e:
        raise InvalidConfigError("--time", f"is no time ({e})", name) from None
    return np.asarray(found.fill_null(_NO_TIME).to_numpy(zero_copy_only=False), np.int64)


def _parsed(column: pa.Array) -> pa.Array:
    """Text as times: with a zone, or without one as UTC."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        return compute.cast(column, pa.timestamp("ms"))
    except pa.ArrowInvalid:
        return compute.cast(column, pa.timestamp("ms", tz="UTC"))
