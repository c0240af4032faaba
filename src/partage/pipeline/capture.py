"""A capture folder: checked by the driver, listed in slices, read by the workers with pyarrow.

| file                        | needed | what                                            |
|-----------------------------|--------|-------------------------------------------------|
| ``consumer_offsets.parquet``| yes    | the records; may be a folder of Parquet files    |
| ``cluster.jsonl``           | yes    | the cluster's metadata over time                 |
| ``batches.parquet``         | no     | without it, transactions cannot be told apart    |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidCaptureError
from partage.history.clusters import ClusterHistory

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Capture", "Slice", "open_capture", "open_records", "read_slice"]

_HOLDS = "a capture holds consumer_offsets.parquet and cluster.jsonl (see docs/capture.md)"
#: Rows that a worker holds at a time: some tenths of a second of decoding.
SLICE_ROWS = 50_000
#: A row group is cut into at most so many slices, since each of them reads it from its start.
_MOST_CUTS = 4

_RECORD_COLUMNS = {
    "partition": "int",
    "offset": "int",
    "timestamp_ms": "int",
    "key": "binary",
    "value": "binary",
}
_BATCH_COLUMNS = {
    "partition": "int",
    "base_offset": "int",
    "last_offset": "int",
    "max_timestamp_ms": "int",
    "producer_id": "int",
    "transactional": "bool",
    "control": "bool",
    "control_type": "text",
}


@dataclass(frozen=True, slots=True)
class Slice:
    """Some rows of one row group of one file."""

    path: str
    row_group: int
    first: int
    rows: int


@dataclass(frozen=True)
class Capture:
    """A checked capture: what to read, and the small parts already read.

    Attributes:
        folder: absolute path.
        slices: the records, in pieces for workers.
        records: rows of the records' files.
        states: lines of ``cluster.jsonl``.
        batches: transactional rows of ``batches.parquet``; None where there is no such file.
    """

    folder: Path
    slices: tuple[Slice, ...]
    records: int
    states: tuple[Mapping[str, Any], ...]
    batches: tuple[Mapping[str, Any], ...] | None


def open_capture(folder: str | Path, *, slice_rows: int = SLICE_ROWS) -> Capture:
    """Check a capture and list its work; no record is read yet.

    Raises:
        InvalidCaptureError: what is missing, of a wrong type or empty, and what to do.
    """
    at = Path(folder).absolute()
    if not at.is_dir():
        what = "is not a folder" if at.exists() else "no such folder"
        raise InvalidCaptureError(f"{folder}: {what}; give the folder of a capture")
    files = _parquet_files(at / "consumer_offsets.parquet")
    slices = tuple(s for file in files for s in _slices(file, slice_rows))
    records = sum(s.rows for s in slices)
    if records == 0:
        name = "consumer_offsets.parquet"
        raise InvalidCaptureError(
            f"{at / name}: the capture is empty (0 records); record it again, "
            "with a consumer that may read internal topics"
        )
    return Capture(at, slices, records, _states(at / "cluster.jsonl"), _batches(at))


def open_records(source: str | Path, *, slice_rows: int = SLICE_ROWS) -> tuple[Slice, ...]:
    """The records alone: of a capture, or of a Parquet file (or folder of them) like one's.

    Raises:
        InvalidCaptureError: what is missing or of a wrong type, and what to do.
    """
    at = Path(source).absolute()
    if not at.exists():
        raise InvalidCaptureError(f"{source}: no such file or folder")
    inside = at / "consumer_offsets.parquet"
    files = _parquet_files(inside if inside.exists() else at)
    return tuple(s for file in files for s in _slices(file, slice_rows))


def _parquet_files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(p for p in path.rglob("*.parquet") if p.is_file())
        if not found:
            raise InvalidCaptureError(f"{path}: has no Parquet files; {_HOLDS}")
        return found
    if not path.is_file():
        raise InvalidCaptureError(f"{path}: no such file; {_HOLDS}")
    return [path]


def _slices(path: Path, slice_rows: int) -> Iterator[Slice]:
    file = _opened(path, _RECORD_COLUMNS)
    for group in range(file.metadata.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        step = max(slice_rows, -(-rows // _MOST_CUTS))
        for first in range(0, rows, step):
            yield Slice(str(path), group, first, min(step, rows - first))


def _opened(path: Path, columns: Mapping[str, str]) -> Any:
    """A Parquet file whose columns have been checked."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        found = file.schema_arrow
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise InvalidCaptureError(
            f"{path}: not a readable Parquet file ({reason}); record it again"
        ) from None
    for name, kind in columns.items():
        if name not in found.names:
            raise InvalidCaptureError(
                f"{path}: column {name} is missing (found: {', '.join(found.names)}); {_HOLDS}"
            )
        have = found.field(name).type
        if not _is(have, kind):
            raise InvalidCaptureError(
                f"{path}: column {name} must be {_WORDS[kind]}, is {have}; {_HOLDS}"
            )
    return file


_WORDS = {"int": "an integer", "binary": "binary", "bool": "bool", "text": "a string"}


def _is(found: Any, kind: str) -> bool:
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


def _states(path: Path) -> tuple[Mapping[str, Any], ...]:
    if not path.is_file():
        raise InvalidCaptureError(
            f"{path}: no such file; without the cluster's metadata no strategy can be replayed"
        )
    states = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            states.append(json.loads(line))
        except (ValueError, RecursionError) as e:
            raise InvalidCaptureError(f"{path} line {number}: not JSON ({e})") from None
    if not states:
        raise InvalidCaptureError(f"{path}: has no lines; record the cluster's metadata again")
    ClusterHistory(states).check()  # says what is wrong now, not in a worker
    return tuple(states)


def _batches(folder: Path) -> tuple[Mapping[str, Any], ...] | None:
    path = folder / "batches.parquet"
    if not path.is_file():
        return None
    import pyarrow as pa
    from pyarrow import compute

    file = _opened(path, _BATCH_COLUMNS)
    try:
        table = file.read(columns=list(_BATCH_COLUMNS))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        raise InvalidCaptureError(f"{path}: cannot be read ({e}); record it again") from None
    rows: Sequence[Mapping[str, Any]] = table.filter(
        compute.fill_null(table["transactional"], False)
    ).to_pylist()
    for row in rows:
        needed = [n for n in _BATCH_COLUMNS if n != "control_type" and row[n] is None]
        if needed:
            raise InvalidCaptureError(f"{path}: column {needed[0]} has nulls; {_HOLDS}")
    return tuple(rows)


def read_slice(piece: Slice, *, batch_rows: int = SLICE_ROWS) -> Iterator[pa.Table]:
    """The rows of a slice, some at a time, with the five columns as int64 and binary.

    Raises:
        InvalidCaptureError: the file cannot be read there (damaged pages), or has a partition
            that is no int32.
    """
    import pyarrow as pa
    from pyarrow import parquet

    names = list(_RECORD_COLUMNS)
    kinds = [pa.int64(), pa.int64(), pa.int64(), pa.binary(), pa.binary()]
    wanted = pa.schema(list(zip(names, kinds, strict=True)))
    # Kafka's partitions are int32, and so are those of our tables: an error here, not there.
    narrow = pa.schema([wanted.field(0).with_type(pa.int32()), *list(wanted)[1:]])
    at, end = 0, piece.first + piece.rows
    try:
        with parquet.ParquetFile(piece.path) as file:
            for batch in file.iter_batches(batch_rows, [piece.row_group], names):
                low, high = max(piece.first - at, 0), min(end - at, batch.num_rows)
                at += batch.num_rows
                if low < high:
                    table = pa.Table.from_batches([batch.slice(low, high - low)])
                    yield table.select(names).cast(narrow).cast(wanted)
                if at >= end:
                    break
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        raise InvalidCaptureError(
            f"{piece.path}: row group {piece.row_group} cannot be read ({e}); record it again"
        ) from None
