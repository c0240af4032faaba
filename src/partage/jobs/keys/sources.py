"""Input of `partage keys`: find, check and read files, Delta tables and Kafka topics.

pyarrow reads Parquet, CSV and JSON files in this process, and Parquet files in Spark's workers.
Spark itself reads Delta tables and topics, and CSV and JSON files if it runs the job. Both ways
give the same values. All CSV columns are text; an empty field is null, an empty pair of quotes is
an empty text. JSON is one object per line, or one array of objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidConfigError
from partage.jobs.keys.columns import InputColumns, column_type, expect_columns, select_columns
from partage.jobs.spark.tables import partition_counts

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["InputPart", "KeySource", "open_source", "parse_address", "read_part"]

#: Rows that a worker holds at a time, so that their keys fit into a processor's cache. Fewer if the
#: columns of that many rows have more bytes than this.
_BATCH_ROWS, _BATCH_BYTES = 1 << 17, 64 << 20
#: Bytes of a dictionary page at which writers fall back to plain values (their default), and the
#: most bytes that a record's index into such a dictionary takes.
_DICTIONARY_PAGE, _INDEX_BYTES = 1_200_000, 3
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json",
             ".ndjson": "json"}  # fmt: skip
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")
#: Text shrinks to a tenth at most: an estimate of its size before it is read.
_COMPRESSION_RATIO = 10
#: Bytes of CSV or JSON that are parsed at a time.
_BLOCK = 8 << 20
#: Limits of what is held as a whole: a line, and an array, which becomes Python objects.
_LONGEST_LINE, _LONGEST_ARRAY = 256 << 20, 64 << 20
_LENIENT = "; --master 'local[*]' has Spark read it, which overlooks more"


@dataclass(frozen=True, slots=True)
class InputPart:
    """Part of the input that one worker reads: a Parquet row group, or a CSV or JSON file.

    Attributes:
        rows: number of records; 0 if unknown.
        coded: whether the key's column chunk is fully dictionary-encoded, and is read as an Arrow
            dictionary.
        batch_rows: number of rows read at a time.
        size: estimated bytes of the columns, uncompressed.
        format: ``parquet``, ``csv`` or ``json``.
    """

    path: str
    row_group: int
    rows: int
    coded: bool = False
    batch_rows: int = _BATCH_ROWS
    size: int = 0
    format: str = "parquet"

    @property
    def description(self) -> str:
        """Name of this part of the input, for error messages.

        It is the path of the file, followed by the row group of a Parquet file.
        """
        return f"{self.path}, row group {self.row_group}" if self.format == "parquet" else self.path


@dataclass(frozen=True, slots=True)
class KeySource:
    """Checked input of `partage keys`: its format, path or address, columns and parts.

    Attributes:
        format: ``parquet``, ``csv``, ``json``, ``delta`` or ``kafka``.
        where: the path or address as given.
        columns: the columns to read.
        serializer: Kafka serializer, if the key column has numbers.
        parts: the parts that pyarrow reads; empty if only Spark can read the input.
        rows: number of records, if known.
        properties: properties of the Kafka client, which may contain secrets.
    """

    format: str
    where: str
    columns: InputColumns
    serializer: str | None = None
    parts: tuple[InputPart, ...] = ()
    rows: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def estimated_bytes(self) -> int:
        """Estimated size of the input in bytes, uncompressed.

        It decides whether this process counts the keys, or Spark does.
        """
        return sum(part.size for part in self.parts)


def open_source(
    where: str,
    columns: InputColumns,
    serializer: str | None = None,
    kafka: Mapping[str, str] | None = None,
    *,
    by_spark: bool = False,
) -> KeySource:
    """Check the input of `partage keys` (files, a Delta table or a Kafka topic), and describe it.

    No records are read here, except to find the columns of CSV and JSON files.

    Args:
        where: a file, a folder of files, a Delta table or an address.
        columns: the columns to read.
        serializer: Kafka serializer of number columns.
        kafka: properties of the Kafka client.
        by_spark: whether Spark will read CSV and JSON; then a file that pyarrow cannot parse is
            accepted here.

    Raises:
        InvalidConfigError: the path does not exist, an unknown format, a column that is missing or
            nested, or a key column that needs a serializer.
        ClusterUnreachableError: no broker answers.
        NotAuthorizedError: the account lacks permission.
    """
    if where.startswith("kafka://"):
        servers, topic = parse_address(where)
        partition_counts(servers, [topic], kafka or {})
        record = InputColumns("key", "value", "timestamp")
        return KeySource("kafka", where, record, serializer, properties=kafka or {})
    path = Path(where)
    if not path.exists():
        raise InvalidConfigError("INPUT", "no such file or folder", where)
    if path.is_dir() and (path / "_delta_log").is_dir():
        return KeySource("delta", where, columns, serializer)
    files = _find_files(path)
    formats = sorted({found for _, found in files})
    if not files:
        known = ", ".join(_SUFFIXES)
        raise InvalidConfigError("INPUT", f"holds no file that ends in {known}", where)
    if len(formats) > 1:
        reason = f"holds files of {len(formats)} formats: {formats}"
        raise InvalidConfigError("INPUT", reason, where)
    if formats == ["parquet"]:
        parts = tuple(
            part for file, _ in files for part in _row_group_parts(file, columns, serializer)
        )
        rows = sum(part.rows for part in parts)
        return KeySource("parquet", where, columns, serializer, parts, rows)
    (text,) = formats
    parts = tuple(
        _checked_text_part(f, text, columns, serializer, lenient=by_spark) for f, _ in files
    )
    if not any(part.size for part in parts):
        raise InvalidConfigError("INPUT", "is empty: it has no columns and no records", where)
    return KeySource(text, where, columns, serializer, parts)


def parse_address(address: str) -> tuple[str, str]:
    """Parse an address ``kafka://host:port/topic``, and return the bootstrap servers and the topic.

    Raises:
        InvalidConfigError: the address has no server or no topic.
    """
    servers, _, topic = address.removeprefix("kafka://").partition("/")
    if not servers or not topic:
        raise InvalidConfigError("INPUT", "must be kafka://host:port/topic", address)
    return servers, topic


def _find_files(path: Path) -> list[tuple[Path, str]]:
    """Return the Parquet, CSV and JSON files at a path, each with its format.

    A folder is searched with its subfolders. Hidden files, marker files such as ``_SUCCESS`` and
    unknown file types in it are left out.
    """
    found = sorted(_files_below(path, set())) if path.is_dir() else [path]
    out = []
    for file in found:
        if path.is_dir() and any(part[0] in "._" for part in file.relative_to(path).parts):
            continue
        suffix = Path(file.stem).suffix if file.suffix in _COMPRESSED else file.suffix
        known = _SUFFIXES.get(suffix.lower())
        if known is not None:
            out.append((file, known))
        elif not path.is_dir():  # a file that the user names is read whatever its suffix
            out.append((file, "parquet" if _is_parquet(file) else "csv"))
    return out


def _files_below(folder: Path, visited: set[Path]) -> Iterator[Path]:
    """Yield every file in a folder and its subfolders once; symbolic links to folders are followed.

    ``visited`` is a set of the folders that have been visited, so that links cannot form a loop.
    """
    real = folder.resolve()
    if real in visited:
        return
    visited.add(real)
    for path in folder.iterdir():
        if path.is_dir():
            yield from _files_below(path, visited)
        elif path.is_file():
            yield path


def _is_parquet(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) == b"PAR1"


def _row_group_parts(
    file: Path, columns: InputColumns, serializer: str | None
) -> Iterator[InputPart]:
    """Check that a Parquet file has the needed columns, and yield its row groups as input parts.

    ``serializer`` is the Kafka serializer for keys that are numbers.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(file) as opened:
            expect_columns(opened.schema_arrow, columns, serializer, str(file))
            footer = opened.metadata
            names = [footer.schema.column(i).path for i in range(footer.num_columns)]
            for number in range(footer.num_row_groups):
                group = footer.row_group(number)
                keys, *others = (group.column(names.index(name)) for name in columns.column_names)
                largest = _DICTIONARY_PAGE + _INDEX_BYTES * group.num_rows
                # A column may have the very name that is the path of a struct's field.
                unique = names.count(columns.key) == 1
                coded = (
                    unique and keys.has_dictionary_page and keys.total_uncompressed_size <= largest
                )
                size = sum(column.total_uncompressed_size for column in (keys, *others))
                fit = group.num_rows * _BATCH_BYTES // max(1, size)
                batch_rows = max(1, min(_BATCH_ROWS, fit))
                path = str(file.absolute())
                yield InputPart(path, number, group.num_rows, coded, batch_rows, size)
    except (pa.ArrowException, OSError) as e:
        raise InvalidConfigError("INPUT", f"cannot be read as Parquet ({e})", str(file)) from None


def _checked_text_part(
    file: Path, file_format: str, columns: InputColumns, serializer: str | None, *, lenient: bool
) -> InputPart:
    """Check the columns of a CSV or JSON file, and return the file as one part of the input.

    Args:
        file: the path.
        file_format: ``csv`` or ``json``.
        columns: the needed columns.
        serializer: Kafka serializer for keys that are numbers; None for none.
        lenient: whether to accept a file that pyarrow cannot parse, since Spark may be able to.
    """
    size = file.stat().st_size
    schema = None
    with suppress(InvalidConfigError) if lenient else nullcontext():
        schema = _read_text_schema(str(file), file_format, columns.column_names) if size else None
    if schema is not None:
        expect_columns(schema, columns, serializer, str(file))
    size = _COMPRESSION_RATIO * size if file.suffix in _COMPRESSED else size
    return InputPart(str(file.absolute()), 0, 0, size=size, format=file_format)


def read_part(part: InputPart, columns: InputColumns) -> Iterator[pa.RecordBatch]:
    """Read one part of the input (a row group or a file), and yield batches of the needed columns.

    The key is an Arrow dictionary array if the file has it dictionary-encoded.

    Raises:
        InvalidConfigError: pages or rows are damaged.
    """
    if part.format == "parquet":
        read = _read_row_group(part, columns)
    elif part.size:
        read = _read_text(part.path, part.format, columns)
    else:
        read = iter(())
    for batch in read:
        yield select_columns(batch, columns.column_names)


def _read_row_group(part: InputPart, columns: InputColumns) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import parquet

    coded = [columns.key] if part.coded else []
    try:
        with parquet.ParquetFile(part.path, read_dictionary=coded) as file:
            yield from file.iter_batches(
                part.batch_rows, [part.row_group], columns.column_names, use_threads=False
            )
    except (pa.ArrowException, OSError) as e:
        raise InvalidConfigError("INPUT", f"cannot be read ({e})", part.description) from None


@contextmanager
def _parse_errors(path: str, file_format: str) -> Iterator[None]:
    """Convert pyarrow's errors about a CSV or JSON file in a ``with`` block to
    `InvalidConfigError`.

    ``file_format`` is ``csv`` or ``json``.
    """
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, RecursionError) as e:
        first = (str(e) or type(e).__name__).splitlines()[0][:200]
        reason = f"cannot be read as {file_format.upper()} ({first}){_LENIENT}"
        raise InvalidConfigError("INPUT", reason, path) from None


def _read_text_schema(path: str, file_format: str, names: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of a CSV or JSON file.

    All columns of a CSV file are text. A JSON file is read until all fields in ``names`` have
    appeared, because early rows may lack some of them. ``file_format`` is ``csv`` or ``json``.
    """
    import pyarrow as pa

    with _parse_errors(path, file_format):
        if file_format == "csv":
            with _open_csv(path) as reader:
                return pa.schema([(name, pa.string()) for name in reader.schema.names])
        if _is_array(path):
            return _read_json_array(path).schema
        return _read_json_schema(path, names)


def _read_text(path: str, file_format: str, columns: InputColumns) -> Iterator[pa.RecordBatch]:
    """Read a CSV or JSON file, and yield batches with the needed columns.

    If a needed column is a field of a struct, the whole struct is returned. ``file_format`` is
    ``csv`` or ``json``.

    Raises:
        InvalidConfigError: a row has a different number of columns, a value has another type, or
            the file is damaged.
    """
    with _parse_errors(path, file_format):
        if file_format == "csv":
            with _open_csv(path, columns.column_names) as reader:
                yield from reader
        elif _is_array(path):
            yield from _read_json_array(path).to_batches()
        else:
            yield from _read_lines(path, columns)


def _open_csv(path: str, names: list[str] | None = None) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    convert = csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""],
        include_columns=names, column_types=dict.fromkeys(names or (), pa.string()),
    )  # fmt: skip
    read = csv.ReadOptions(block_size=_BLOCK)
    # Without it pyarrow cuts blocks at line ends inside quotes and makes up records.
    parse = csv.ParseOptions(newlines_in_values=True)
    return csv.open_csv(path, read_options=read, parse_options=parse, convert_options=convert)


def _open_stream(path: str) -> Any:
    import pyarrow as pa

    return pa.input_stream(path, compression="detect")


def _is_array(path: str) -> bool:
    with _open_stream(path) as file:
        return bool(file.read(1_000).lstrip().startswith(b"["))


def _read_json_array(path: str) -> pa.Table:
    """Read a JSON file that consists of one array of objects, and return it as a table.

    The table has a column for each field that any object has.
    """
    import pyarrow as pa

    with _open_stream(path) as file:
        text = file.read(_LONGEST_ARRAY + 1)
    if len(text) > _LONGEST_ARRAY:
        raise ValueError(f"an array of over {_LONGEST_ARRAY >> 20} MiB: write an object a line")
    rows = json.loads(text)
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("an array of other things than objects")
    names = dict.fromkeys(name for row in rows for name in row)
    fields = [(name, pa.array([row.get(name) for row in rows]).type) for name in names]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _read_json_schema(path: str, names: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of a JSON file with one object per line.

    The file is read in blocks until all fields in ``names`` have appeared. Fields that look like
    timestamps are text in the schema.
    """
    import pyarrow as pa

    found = pa.schema([])
    for lines in _read_line_blocks(path):
        fields = [
            (column.name, _timestamps_as_text(column.type)) for column in _parse_json(lines).schema
        ]
        found = pa.unify_schemas([found, pa.schema(fields)], promote_options="permissive")
        if all(column_type(found, name) is not None for name in names):
            break
    return found


def _read_line_blocks(path: str) -> Iterator[bytes]:
    """Yield the bytes of a text file in blocks of some megabytes that end at the end of a line.

    The file is decompressed if necessary. A JSON parser can thus read each block on its own.
    """
    rest = b""
    with _open_stream(path) as file:
        while block := file.read(_BLOCK):
            lines, cut, tail = (rest + block).rpartition(b"\n")
            rest = tail if cut else lines + tail
            if len(rest) > _LONGEST_LINE:
                raise ValueError(f"a line of more than {_LONGEST_LINE >> 20} MiB")
            if cut and lines.strip():
                yield lines
    if rest.strip():
        yield rest


def _parse_json(lines: bytes, options: Any = None) -> pa.Table:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    read = arrow_json.ReadOptions(block_size=len(lines) + 2)
    return arrow_json.read_json(pa.BufferReader(lines), read_options=read, parse_options=options)


def _timestamps_as_text(inferred: pa.DataType) -> pa.DataType:
    """Replace timestamp and null types in an Arrow type by text, also inside structs and lists.

    Pyarrow infers such types from JSON. Partage reads times as text, and parses them later.
    """
    import pyarrow as pa
    from pyarrow import types

    if types.is_timestamp(inferred) or types.is_null(inferred):
        return pa.string()
    if types.is_struct(inferred):
        fields = (inferred.field(i) for i in range(inferred.num_fields))
        return pa.struct([(column.name, _timestamps_as_text(column.type)) for column in fields])
    if types.is_list(inferred):
        return pa.list_(_timestamps_as_text(inferred.value_type))
    return inferred


def _read_lines(path: str, columns: InputColumns) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    found = _read_json_schema(path, columns.column_names)
    wanted = {n if n in found.names else n.split(".")[0] for n in columns.column_names}
    schema = pa.schema([column for column in found if column.name in wanted])
    parse = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    for lines in _read_line_blocks(path):
        yield from _parse_json(lines, parse).to_batches()
