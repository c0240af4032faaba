"""Records in log order: the columns of a table, by what they are to the jobs that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.wire.columns import BinaryColumn, CodedColumn

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Placed", "RawRecord", "binary_column", "in_order", "placed"]

#: The largest time in milliseconds that ECMAScript has, in the year 275760; a later one is damage.
_LATEST_MS = 8_640_000_000_000_000


class RawRecord(NamedTuple):
    """A record as read."""

    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


class Placed(NamedTuple):
    """Columns of rows that say where they stand, sorted by (partition, offset).

    ``cells`` are key and value as Arrow has them, of which rows can be taken.
    """

    partition: NDArray[np.int64]
    offset: NDArray[np.int64]
    timestamp_ms: NDArray[np.int64]
    key: BinaryColumn | CodedColumn
    value: BinaryColumn
    cells: tuple[pa.ChunkedArray, pa.ChunkedArray]

    def raw(self, row: int) -> RawRecord:
        """One record as it was read."""
        place = int(self.partition[row]), int(self.offset[row]), int(self.timestamp_ms[row])
        return RawRecord(*place, self.key[row], self.value[row])


def placed(table: pa.Table) -> tuple[Placed, list[tuple[RawRecord, str]]]:
    """The rows in log order; and apart, with the reason, those without a place or a time."""
    import pyarrow as pa
    from pyarrow import compute

    names = ("partition", "offset", "timestamp_ms")
    good, lost = table, []
    if any(table[name].null_count for name in names):
        whole = pa.array(np.ones(table.num_rows, bool))
        for name in names:
            whole = compute.and_(whole, compute.is_valid(table[name]).combine_chunks())
        good = table.filter(whole)
        for row in table.filter(compute.invert(whole)).to_pylist():
            null = next(name for name in names if row[name] is None)
            lost.append((_raw(row), f"column {null} is null"))
    good, untimely = _timely(good)
    lost += untimely
    partition, offset, timestamp_ms = (good[name].to_numpy() for name in names)
    if not in_order(partition, offset):
        order = np.lexsort((offset, partition))
        partition, offset, timestamp_ms = partition[order], offset[order], timestamp_ms[order]
        good = good.take(order)
    cells = good["key"], good["value"]
    columns = _coded(cells[0]), binary_column(cells[1])
    return Placed(partition, offset, timestamp_ms, *columns, cells), lost


def _timely(table: pa.Table) -> tuple[pa.Table, list[tuple[RawRecord, str]]]:
    """Apart, those whose time is none: one of them would make differences of times overflow."""
    import pyarrow as pa
    from pyarrow import compute

    ends = compute.min_max(table["timestamp_ms"]).as_py()
    if table.num_rows == 0 or (ends["min"] >= -_LATEST_MS and ends["max"] <= _LATEST_MS):
        return table, []
    time_ms = table["timestamp_ms"].to_numpy()
    good = (time_ms >= -_LATEST_MS) & (time_ms <= _LATEST_MS)
    bad = table.filter(pa.array(~good)).to_pylist()
    why = "column timestamp_ms is no time: {timestamp_ms}"
    return table.filter(pa.array(good)), [(_raw(row), why.format(**row)) for row in bad]


def _raw(row: dict[str, Any]) -> RawRecord:
    return RawRecord(**{name: row[name] for name in RawRecord._fields})


def in_order(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Whether rows are sorted by two columns, as those of a log mostly are."""
    up, same = first[1:] > first[:-1], first[1:] == first[:-1]
    return bool(np.all(up | (same & (second[1:] >= second[:-1]))))


def _coded(cells: pa.ChunkedArray) -> BinaryColumn | CodedColumn:
    """Keys as the wire's columns: by their dictionary where there is one."""
    import pyarrow as pa

    if not pa.types.is_dictionary(cells.type) or not len(cells):
        return binary_column(cells)
    whole = cells.unify_dictionaries().combine_chunks()
    code = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    if whole.dictionary.null_count:  # a dictionary may have a null too
        gone = whole.dictionary.is_null().to_numpy(zero_copy_only=False)
        code = np.where((code >= 0) & gone[code], np.int32(-1), code)
    return CodedColumn(binary_column(pa.chunked_array([whole.dictionary])), code)


def binary_column(cells: pa.ChunkedArray) -> BinaryColumn:
    """Binary cells as the wire's columns: a view of Arrow's buffers."""
    if not len(cells):
        return BinaryColumn.of([])
    whole = cells.combine_chunks()
    return BinaryColumn.from_buffers(whole.buffers(), length=len(whole), offset=whole.offset)
