"""Records in Parquet files: listed by the driver in slices, read by the workers with pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.capture.manifest import aside
from partage.errors import InvalidCaptureError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "HOLDS",
    "RECORD_COLUMNS",
    "Slice",
    "cut",
    "of_kind",
    "opened",
    "read_slice",
    "tasks_of",
    "widened",
]

HOLDS = "a capture holds consumer_offsets.parquet and cluster.jsonl (see docs/capture.md)"
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
    """Some rows of one row group of one file.

    Attributes:
        partition: the log partition, where the folder's name says it (``partition=3``) and
            the file has no such column; else None.
    """

    path: str
    row_group: int
    first: int
    rows: int
    partition: int | None = None


def tasks_of(slices: Sequence[Slice], parallelism: int) -> int:
    """How many tasks read some slices, one after the other.

    A file of a thousand tiny row groups has a thousand slices; a task each would be a thousand
    starts of a Python worker's work for nothing.

    >>> tiny = [Slice("a.parquet", group, 0, 97) for group in range(974)]
    >>> tasks_of(tiny, 2), tasks_of(tiny[:3], 2)
    (2, 2)
    >>> large = [Slice("a.parquet", group, 0, 250_000) for group in range(400)]
    >>> tasks_of(large[:16], 2), tasks_of(large, 2)
    (8, 100)
    """
    rows = sum(one.rows for one in slices)
    worth = max(parallelism, -(-rows // FEWEST_ROWS))  # each core has something, at any rate
    wanted = max(_TASKS_A_CORE * parallelism, -(-rows // MOST_ROWS))
    return max(1, min(len(slices), worth, wanted))


def cut(files: list[Path], *, slice_rows: int | None = None) -> tuple[Slice, ...]:
    """The rows of some files in slices for the workers; columns are checked, no record is read.

    Raises:
        InvalidCaptureError: a file cannot be read, or a column is missing or of a wrong type.
    """
    groups = [group for file in files for group in _row_groups(file)]
    total = sum(group.rows for group in groups)
    wanted = slice_rows or min(max(total // _SLICES, FEWEST_ROWS), MOST_ROWS)
    return tuple(piece for group in groups for piece in _pieces(group, wanted))


def _pieces(group: Slice, wanted: int) -> Iterator[Slice]:
    # Each piece is read from the row group's beginning: what is little too large stays whole.
    step = group.rows if group.rows < 2 * wanted else max(wanted, -(-group.rows // _MOST_CUTS))
    for first in range(0, group.rows, max(1, step)):
        rows = min(step, group.rows - first)
        yield Slice(group.path, group.row_group, first, rows, group.partition)


def _row_groups(path: Path) -> Iterator[Slice]:
    partition = _partition_in(path)
    columns = dict(RECORD_COLUMNS)
    if partition is not None:
        del columns["partition"]
    file = opened(path, columns)
    if "partition" in file.schema_arrow.names:
        partition = None
    for group in range(file.metadata.num_row_groups):
        yield Slice(str(path), group, 0, file.metadata.row_group(group).num_rows, partition)


def _partition_in(path: Path) -> int | None:
    """The log partition that a partitioned folder's name says, as Hive and Spark write it."""
    for part in path.parent.parts[::-1]:
        name, equals, value = part.partition("=")
        if name == "partition" and equals and value.isascii() and value.isdigit():
            return int(value)
    return None


def _standing(path: Path) -> Path:
    """Where a file is now: a capture that goes on merges its parts, those that are read too."""
    return aside(path) if not path.exists() and aside(path).exists() else path


def opened(path: Path, columns: Mapping[str, str]) -> Any:
    """A Parquet file whose columns have been checked."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(_standing(path), page_checksum_verification=True)
        found = file.schema_arrow
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise InvalidCaptureError(
            f"{path}: not a readable Parquet file ({reason}); record it again"
        ) from None
    for name, kind in columns.items():
        if name not in found.names:
            raise InvalidCaptureError(
                f"{path}: column {name} is missing (found: {', '.join(found.names)}); {HOLDS}"
            )
        have = found.field(name).type
        if not of_kind(have, kind):
            raise InvalidCaptureError(
                f"{path}: column {name} must be {_WORDS[kind]}, is {have}; {HOLDS}"
            )
    return file


_WORDS = {"int": "an integer", "binary": "binary", "bool": "bool", "text": "a string"}


def of_kind(found: Any, kind: str) -> bool:
    """Whether a type of Arrow is an integer (of any width), binary, bool or text."""
    from pyarrow import types

    if types.is_dictionary(found):
        found = found.value_type
    if kind == "int":
        return bool(types.is_integer(found))
    if kind == "binary":
        return bool(types.is_binary(found) or types.is_large_binary(found))
    if kind == "bool":
        return bool(types.is_boolean(found))
    return bool(types.is_string(found) or types.is_large_string(found) or types.is_null(found))


def read_slice(
    piece: Slice, *, batch_rows: int = BATCH_ROWS, coded: bool = False
) -> Iterator[pa.Table]:
    """The rows of a slice, some at a time, with the five columns as int64 and binary.

    Args:
        piece: where they are.
        batch_rows: as many at a time at most.
        coded: keys as a dictionary, as the file mostly has them: few differ.

    Raises:
        InvalidCaptureError: the file cannot be read there (damaged pages), or has a partition
            that is no int32.
    """
    import pyarrow as pa
    from pyarrow import parquet

    names = list(RECORD_COLUMNS)
    stored = names if piece.partition is None else names[1:]
    at, end = 0, piece.first + piece.rows
    try:
        with parquet.ParquetFile(
            _standing(Path(piece.path)),
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
                    yield widened(table)
                if at >= end:
                    break
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        raise InvalidCaptureError(
            f"{piece.path}: row group {piece.row_group} cannot be read ({e}); record it again"
        ) from None


def widened(table: pa.Table) -> pa.Table:
    """The five columns as int64 and binary, whatever their widths; keys may stay a dictionary.

    Raises:
        pyarrow.ArrowInvalid: a partition is no int32.
    """
    import pyarrow as pa

    key = table.schema.field("key").type
    coded = pa.types.is_dictionary(key) and key.value_type == pa.binary()
    kinds = [pa.int64(), pa.int64(), pa.int64(), key if coded else pa.binary(), pa.binary()]
    wanted = pa.schema(list(zip(RECORD_COLUMNS, kinds, strict=True)))
    # Kafka's partitions are int32, and so are those of our tables: an error here, not there.
    narrow = pa.schema([wanted.field(0).with_type(pa.int32()), *list(wanted)[1:]])
    return table.select(list(RECORD_COLUMNS)).cast(narrow).cast(wanted)
