"""Read the records of a capture: row ranges for workers, Parquet reading, columns in log order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.capture.manifest import replaced_path
from partage.errors import InvalidCaptureError
from partage.wire.columns import BinaryColumn, CodedColumn

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.replay.capture import Capture
    from partage.jobs.replay.engines import LazyRows, ReplayEngine
    from partage.jobs.replay.tally import RecordTally

__all__ = [
    "CAPTURE_CONTENTS",
    "RECORD_COLUMNS",
    "LogColumns",
    "RawRecord",
    "RepeatedOffsets",
    "Slice",
    "binary_column",
    "cast_record_columns",
    "count_tasks",
    "current_path",
    "cut_slices",
    "expect_no_duplicates",
    "is_known",
    "is_of_type",
    "is_sorted",
    "key_column",
    "log_columns",
    "open_parquet",
    "overlapping_partitions",
    "read_slice",
    "record_rows",
    "sorted_records",
    "unread_rows",
]

CAPTURE_CONTENTS = (
    "a capture holds consumer_offsets.parquet and cluster.jsonl (see docs/capture.md)"
)
#: Rows that a worker holds at a time, some 60 MB; the more, the fewer runs its commits make.
BATCH_ROWS = 262_144
#: A slice has so many rows, depending on how many there are: a task shall be worth its start.
FEWEST_ROWS, MOST_ROWS = 50_000, 1_000_000
_SLICES = 16
#: Tasks a core, where there are so many rows: all cores shall end at about one time.
_TASKS_A_CORE = 4
#: A row group is cut into at most so many slices, since each of them reads it from its start.
_MOST_CUTS = 4

RECORD_COLUMNS = {
    "partition": "int",
    "offset": "int",
    "timestamp_ms": "int",
    "key": "binary",
    "value": "binary",
}


@dataclass(frozen=True, slots=True)
class Slice:
    """Range of rows in one row group of a Parquet file, which one worker reads at a time.

    Attributes:
        path: the file.
        row_group: index of the row group.
        first: first row of the range in the row group.
        rows: number of rows.
        partition: the log partition, if only the folder's name has it (``partition=3``); None if
            the file has a column for it.
    """

    path: str
    row_group: int
    first: int
    rows: int
    partition: int | None = None


def count_tasks(slices: Sequence[Slice], parallelism: int) -> int:
    """Return the number of Spark tasks in which to read row ranges (slices) of files.

    Small slices share a task. A file with a thousand tiny row groups has a thousand slices, and a
    task for each would spend most of its time on starting. ``parallelism`` is the number of cores.

    >>> tiny = [Slice("a.parquet", group, 0, 97) for group in range(974)]
    >>> count_tasks(tiny, 2), count_tasks(tiny[:3], 2)
    (2, 2)
    >>> large = [Slice("a.parquet", group, 0, 250_000) for group in range(400)]
    >>> count_tasks(large[:16], 2), count_tasks(large, 2)
    (8, 100)
    """
    rows = sum(one.rows for one in slices)
    worth = max(parallelism, -(-rows // FEWEST_ROWS))  # each core has something, at any rate
    wanted = max(_TASKS_A_CORE * parallelism, -(-rows // MOST_ROWS))
    return max(1, min(len(slices), worth, wanted))


def cut_slices(files: list[Path]) -> tuple[Slice, ...]:
    """Check the columns of Parquet files, and divide the files into row ranges for workers.

    A large row group is divided into several ranges, so that all cores have work.

    Raises:
        InvalidCaptureError: a file cannot be read, or a column is missing or of a wrong type.
    """
    groups = [group for file in files for group in _row_groups(file)]
    total = sum(group.rows for group in groups)
    wanted = min(max(total // _SLICES, FEWEST_ROWS), MOST_ROWS)
    return tuple(piece for group in groups for piece in _cut_row_group(group, wanted))


def _cut_row_group(group: Slice, wanted: int) -> Iterator[Slice]:
    # Each piece is read from the row group's beginning: what is little too large stays whole.
    step = group.rows if group.rows < 2 * wanted else max(wanted, -(-group.rows // _MOST_CUTS))
    for first in range(0, group.rows, max(1, step)):
        rows = min(step, group.rows - first)
        yield Slice(group.path, group.row_group, first, rows, group.partition)


def _row_groups(path: Path) -> Iterator[Slice]:
    partition = _parse_partition(path)
    columns = dict(RECORD_COLUMNS)
    if partition is not None:
        del columns["partition"]
    file = open_parquet(path, columns)
    if "partition" in file.schema_arrow.names:
        partition = None
    for group in range(file.metadata.num_row_groups):
        yield Slice(str(path), group, 0, file.metadata.row_group(group).num_rows, partition)


def _parse_partition(path: Path) -> int | None:
    """Parse the log partition from a path with a folder such as ``partition=3``.

    Hive-partitioned tables have such folders. The result is None without one.
    """
    for part in path.parent.parts[::-1]:
        name, equals, value = part.partition("=")
        if name == "partition" and equals and value.isascii() and value.isdigit():
            return int(value)
    return None


def current_path(path: Path) -> Path:
    """Return the present path of a file of a capture, which may have been moved.

    A running `partage capture` merges small files, and moves the old ones to another folder.
    """
    return replaced_path(path) if not path.exists() and replaced_path(path).exists() else path


def open_parquet(path: Path, columns: Mapping[str, str]) -> Any:
    """Open a Parquet file, and raise an error if a column is missing or has a wrong type.

    Args:
        path: the file.
        columns: dict from column name to kind, see `is_of_type`.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(current_path(path), page_checksum_verification=True)
        found = file.schema_arrow
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise InvalidCaptureError(
            f"{path}: not a readable Parquet file ({reason}); record it again"
        ) from None
    for name, kind in columns.items():
        if name not in found.names:
            raise InvalidCaptureError(
                f"{path}: column {name} is missing (found: {', '.join(found.names)}); "
                f"{CAPTURE_CONTENTS}"
            )
        have = found.field(name).type
        if not is_of_type(have, kind):
            raise InvalidCaptureError(
                f"{path}: column {name} must be {_WORDS[kind]}, is {have}; {CAPTURE_CONTENTS}"
            )
    return file


_WORDS = {"int": "an integer", "binary": "binary", "bool": "bool", "text": "a string"}


def is_of_type(arrow_type: Any, type_name: str) -> bool:
    """Return whether an Arrow type is an integer, binary, boolean or text type.

    A dictionary-encoded type counts as the type of its values.

    Args:
        arrow_type: the Arrow type.
        type_name: "int" (any width), "binary" or "bool"; any other name means text.
    """
    from pyarrow import types

    if types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    if type_name == "int":
        return bool(types.is_integer(arrow_type))
    if type_name == "binary":
        return bool(types.is_binary(arrow_type) or types.is_large_binary(arrow_type))
    if type_name == "bool":
        return bool(types.is_boolean(arrow_type))
    return bool(
        types.is_string(arrow_type)
        or types.is_large_string(arrow_type)
        or types.is_null(arrow_type)
    )


def read_slice(
    piece: Slice, *, batch_rows: int = BATCH_ROWS, coded: bool = False
) -> Iterator[pa.Table]:
    """Read a row range (slice) of a Parquet file, and yield its log records as Arrow tables.

    The numbers are int64; key and value are binary.

    Args:
        piece: the row range.
        batch_rows: maximum number of rows of a table.
        coded: whether to return keys as an Arrow dictionary, which is faster as many keys are
            equal.

    Raises:
        InvalidCaptureError: the file is damaged there, or a partition number does not fit int32.
    """
    import pyarrow as pa
    from pyarrow import parquet

    names = list(RECORD_COLUMNS)
    stored = names if piece.partition is None else names[1:]
    at, end = 0, piece.first + piece.rows
    try:
        with parquet.ParquetFile(
            current_path(Path(piece.path)),
            page_checksum_verification=True,
            read_dictionary=["key"] * coded,
        ) as file:
            for batch in file.iter_batches(batch_rows, [piece.row_group], stored):
                low, high = max(piece.first - at, 0), min(end - at, batch.num_rows)
                at += batch.num_rows
                if low < high:
                    table = pa.Table.from_batches([batch.slice(low, high - low)])
                    if piece.partition is not None:
                        numbers = pa.repeat(piece.partition, table.num_rows)
                        table = table.append_column("partition", numbers)
                    yield cast_record_columns(table)
                if at >= end:
                    break
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        raise InvalidCaptureError(
            f"{piece.path}: row group {piece.row_group} cannot be read ({e}); record it again"
        ) from None


def cast_record_columns(table: pa.Table) -> pa.Table:
    """Cast the columns of log records to fixed types: int64 for numbers, binary for key and value.

    The numbers are partition, offset and time. Dictionary-encoded keys stay encoded.

    Raises:
        pyarrow.ArrowInvalid: a partition number does not fit int32.
    """
    import pyarrow as pa

    key = table.schema.field("key").type
    coded = pa.types.is_dictionary(key) and key.value_type == pa.binary()
    kinds = [pa.int64(), pa.int64(), pa.int64(), key if coded else pa.binary(), pa.binary()]
    wanted = pa.schema(list(zip(RECORD_COLUMNS, kinds, strict=True)))
    # Kafka's partitions are int32, and so are those of our tables: an error here, not there.
    narrow = pa.schema([wanted.field(0).with_type(pa.int32()), *list(wanted)[1:]])
    return table.select(list(RECORD_COLUMNS)).cast(narrow).cast(wanted)


_DDL = "partition bigint, offset bigint, timestamp_ms bigint, key binary, value binary"


def record_rows(engine: ReplayEngine, capture: Capture) -> LazyRows:
    """Return all records of a capture, with undecoded keys and values, in any order.

    The result is lazy: the records are read when it is used. The columns are partition, offset,
    time, key and value.
    """
    if capture.table is not None:
        return engine.read_spark_table(capture.table)
    tasks = count_tasks(capture.slices, engine.cores)
    job = partial(_read, capture.slices, capture.known or {})
    return engine.run_job(job, len(capture.slices), tasks, _DDL)


def sorted_records(engine: ReplayEngine, capture: Capture) -> LazyRows:
    """Return all records of a capture as undecoded rows, sorted by offset in each log partition.

    One task gets all records of a log partition. Sorting is needed if the files do not have the
    order of the log, for example after Spark's `repartition`.
    """
    return record_rows(engine, capture).sorted_by("partition", ("partition", "offset"))


def _read(
    slices: tuple[Slice, ...], known: Mapping[int, int], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for table in read_slice(slices[number]):
                yield from unread_rows(table, known).select(list(RECORD_COLUMNS)).to_batches()


def is_known(table: pa.Table, highest_read: Mapping[int, int]) -> NDArray[np.bool_]:
    """Return which log records an earlier run has already read, as a mask (bool[n]).

    A record without partition or offset counts as new.

    Args:
        table: the records.
        highest_read: dict from log partition to the highest offset that was read.
    """
    partition, offset = (table[name].fill_null(-1).to_numpy() for name in ("partition", "offset"))
    highest = np.full(len(partition), -1, np.int64)
    for one in np.unique(partition).tolist():
        highest[partition == one] = highest_read.get(one, -1)
    return np.asarray((offset >= 0) & (offset <= highest))


def unread_rows(table: pa.Table, highest_read: Mapping[int, int]) -> pa.Table:
    """Return the log records of a table that no earlier run has read.

    ``highest_read`` is a dict from log partition to the highest offset that was read. If it is
    empty, all records are returned.
    """
    import pyarrow as pa

    return table.filter(pa.array(~is_known(table, highest_read))) if highest_read else table


def overlapping_partitions(tally: RecordTally) -> list[int]:
    """Return the log partitions in which batches of records have overlapping offset ranges.

    In such a partition, records may have been captured twice. ``tally`` has the offset ranges.

    >>> from partage.jobs.replay.tally import RecordTally
    >>> tally = RecordTally()
    >>> tally.ranges = {0: [[0, 9, 10], [10, 19, 10]], 1: [[0, 9, 10], [5, 9, 2]]}
    >>> overlapping_partitions(tally)
    [1]
    """
    out = []
    for p, ranges in sorted(tally.ranges.items()):
        highest = None
        for first, last, _ in sorted(ranges):
            if highest is not None and first <= highest:
                out.append(p)
                break
            highest = last if highest is None else max(highest, last)
        else:
            if any(count > last - first + 1 for first, last, count in ranges):
                out.append(p)
    return out


class RepeatedOffsets:
    """Detector of log offsets that occur in more than one record of a capture.

    This happens if a capture is given twice, or if captures of two clusters are mixed. The records
    must be sorted by partition and offset.

    Attributes:
        found: dict from log partition to a list of three: number of repeated offsets, first such
            offset, and 1 if the records at this offset differ, else 0.
    """

    def __init__(self) -> None:
        self.found: dict[int, list[int]] = {}
        self._last: pa.Table | None = None
        self._counted = False

    def count_while_yielding(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield tables of sorted records unchanged, and count the offsets that occur more than
        once.

        The counts are in ``found``.
        """
        import pyarrow as pa

        for table in tables:
            before = [] if self._last is None else [self._last]
            self._count_repeated_offsets(pa.concat_tables([*before, table]))
            self._last = table.slice(table.num_rows - 1)
            yield table

    def _count_repeated_offsets(self, rows: pa.Table) -> None:
        """Count the offsets that occur more than once in a table of sorted records.

        The first row of ``rows`` is the last row of the previous table.
        """
        names = ("partition", "offset")
        partition, offset = (rows[name].fill_null(-1).to_numpy() for name in names)
        known = (partition >= 0) & (offset >= 0)
        same = known[1:] & (partition[1:] == partition[:-1]) & (offset[1:] == offset[:-1])
        # A place with three records is counted once, also if a table ends between two of them.
        is_first = same & ~np.append(self._counted, same[:-1])[: len(same)]
        self._counted = bool(same[-1]) if len(same) else False
        again = np.flatnonzero(same)
        if not len(again):
            return
        differ = _find_differences(rows.take(again), rows.take(again + 1))
        for at, differs in zip(again.tolist(), differ, strict=True):
            one = self.found.setdefault(int(partition[at]), [0, int(offset[at]), 0])
            one[0] += int(is_first[at])
            one[2] |= int(differs and int(offset[at]) == one[1])


def _find_differences(first_rows: pa.Table, second_rows: pa.Table) -> list[bool]:
    """Return which pairs of records differ in key or value (one bool for each pair).

    A pair has the rows with the same index in both tables.
    """
    columns = [
        (first_rows[name].to_pylist(), second_rows[name].to_pylist()) for name in ("key", "value")
    ]
    (keys, other_keys), (values, other_values) = columns
    pairs = zip(keys, other_keys, values, other_values, strict=True)
    return [key != other_key or value != other for key, other_key, value, other in pairs]


def expect_no_duplicates(capture: Capture, tally: RecordTally) -> None:
    """Raise an error if two records of a capture have the same partition and offset.

    Args:
        capture: the input.
        tally: counts of the capture's records, including repeated offsets if they were read sorted.

    Raises:
        InvalidCaptureError: two records have the same position; the message says whether they are
            equal.
    """
    if not tally.repeated:
        return
    partition = min(tally.repeated)
    _, offset, differ = tally.repeated[partition]
    places = sum(count for count, _, _ in tally.repeated.values())
    what = (
        "they differ: captures of two clusters are mixed; give those of one"
        if differ
        else "they are the same: was a capture given twice? give it once"
    )
    raise InvalidCaptureError(
        f"{capture.folder}: {places} places in the log have more than one record, the first is "
        f"partition {partition} offset {offset}; {what}"
    )


#: The largest time in milliseconds that ECMAScript has, in the year 275760; a later one is damage.
_LATEST_MS = 8_640_000_000_000_000


class RawRecord(NamedTuple):
    """One record of the log with undecoded key and value.

    A field that is null in the file is None.
    """

    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


class LogColumns(NamedTuple):
    """Records of the log as columns, sorted by (partition, offset), with undecoded keys and values.

    All records have a position and a plausible timestamp.

    Attributes:
        partition, offset, timestamp_ms: position and time of each record (int64[n] each).
        key, value: key and value of each record, in the form that compiled decoders read.
        cells: key and value as Arrow arrays.
    """

    partition: NDArray[np.int64]
    offset: NDArray[np.int64]
    timestamp_ms: NDArray[np.int64]
    key: BinaryColumn | CodedColumn
    value: BinaryColumn
    cells: tuple[pa.ChunkedArray, pa.ChunkedArray]

    def raw_record(self, row: int) -> RawRecord:
        """Return one record with its undecoded key and value, for example to write a damaged
        record.

        ``row`` is the index of the record.
        """
        place = int(self.partition[row]), int(self.offset[row]), int(self.timestamp_ms[row])
        return RawRecord(*place, self.key[row], self.value[row])


def log_columns(table: pa.Table) -> tuple[LogColumns, list[tuple[RawRecord, str]]]:
    """Convert a table of log records to columns in log order, without unusable records.

    A record is unusable if it has no position, or no plausible timestamp. The second result is a
    list of these records as pairs (record, reason).
    """
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
    good, untimely = _split_by_time(good)
    lost += untimely
    partition, offset, timestamp_ms = (good[name].to_numpy() for name in names)
    if not is_sorted(partition, offset):
        order = np.lexsort((offset, partition))
        partition, offset, timestamp_ms = partition[order], offset[order], timestamp_ms[order]
        good = good.take(order)
    cells = good["key"], good["value"]
    columns = key_column(cells[0]), binary_column(cells[1])
    return LogColumns(partition, offset, timestamp_ms, *columns, cells), lost


def _split_by_time(table: pa.Table) -> tuple[pa.Table, list[tuple[RawRecord, str]]]:
    """Separate the records with valid timestamps from those with timestamps out of range.

    The second result has the latter as a list of pairs (record, reason).
    """
    # Differences of timestamps out of range would overflow an int64.
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


def is_sorted(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Return whether rows are sorted by a first column, and by a second one where the first is
    equal.

    Rows in log order usually are, and then need no sorting.
    """
    up, same = first[1:] > first[:-1], first[1:] == first[:-1]
    return bool(np.all(up | (same & (second[1:] >= second[:-1]))))


def key_column(arrow_column: pa.ChunkedArray) -> BinaryColumn | CodedColumn:
    """Convert an Arrow column of record keys to the column class that compiled decoders read.

    A dictionary-encoded column stays dictionary-encoded, so that equal keys are decoded once.
    """
    import pyarrow as pa

    if not pa.types.is_dictionary(arrow_column.type) or not len(arrow_column):
        return binary_column(arrow_column)
    whole = arrow_column.unify_dictionaries().combine_chunks()
    code = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    if whole.dictionary.null_count:  # a dictionary may have a null too
        gone = whole.dictionary.is_null().to_numpy(zero_copy_only=False)
        code = np.where((code >= 0) & gone[code], np.int32(-1), code)
    return CodedColumn(binary_column(pa.chunked_array([whole.dictionary])), code)


def binary_column(arrow_column: pa.ChunkedArray) -> BinaryColumn:
    """Convert an Arrow column of bytes to the column class that compiled decoders read.

    The bytes are not copied.
    """
    if not len(arrow_column):
        return BinaryColumn.from_rows([])
    whole = arrow_column.combine_chunks()
    return BinaryColumn.from_buffers(whole.buffers(), length=len(whole), offset=whole.offset)
