"""Where the keys of `partage keys` come from: Parquet read by the workers, all else by Spark.

Keys of files are hashed where they are read: a key that crosses the border between the JVM
and Python costs twenty times its hash (measured: 39 against 8 million keys a second).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Columns", "KeySource", "Piece", "open_source", "read_piece"]

#: Rows that a worker holds at a time: their keys fit into a processor's cache. Fewer where the
#: columns of so many have more bytes than this.
_BATCH_ROWS, _BATCH_BYTES = 1 << 17, 64 << 20
#: Bytes of a dictionary page at which writers give up and write plain values (their default), and
#: the most bytes that a record's number in such a dictionary takes.
_DICTIONARY_PAGE, _CODE_BYTES = 1_200_000, 3
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json",
             ".ndjson": "json"}  # fmt: skip
#: What Spark's wheel lacks, and how a session that we start gets it.
_CONNECTORS = {
    kind: f"; does it have the connector? PYSPARK_SUBMIT_ARGS='--packages {package} pyspark-shell'"
    for kind, package in (
        ("kafka", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"),
        ("delta", "io.delta:delta-spark_2.13:VERSION"),
    )
}
_PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of the input that are read.

    Attributes:
        key: what becomes the record's key.
        value: whose bytes count too; None counts the keys' bytes alone.
        time: when the record was, for load over time.
    """

    key: str
    value: str | None = None
    time: str | None = None

    @property
    def names(self) -> list[str]:
        """Those that are there."""
        return list(dict.fromkeys(n for n in (self.key, self.value, self.time) if n is not None))


@dataclass(frozen=True, slots=True)
class Piece:
    """Row group of a Parquet file.

    Attributes:
        coded: whether its keys are numbers in a dictionary throughout, and so best read as that.
            A writer whose dictionary grew too large went on with plain values; to make a
            dictionary of these costs ten times what reading them does.
        at_once: rows that are read at a time.
    """

    path: str
    row_group: int
    rows: int
    coded: bool = False
    at_once: int = _BATCH_ROWS


@dataclass(frozen=True, slots=True)
class KeySource:
    """An input that was looked at, and has the columns.

    Attributes:
        kind: ``parquet``, ``csv``, ``json``, ``delta`` or ``kafka``.
        where: as given.
        pieces: what workers read themselves; empty where Spark reads.
        rows: records, where known.
    """

    kind: str
    where: str
    columns: Columns
    pieces: tuple[Piece, ...] = ()
    rows: int | None = None

    def frame(self, spark: SparkSession) -> DataFrame:
        """The columns as Spark reads them: (key, value bytes, time in ms), for mapInArrow.

        Raises:
            InvalidConfigError: Spark cannot read it, or a column is missing or nested.
        """
        return _frame(spark, self)


def open_source(where: str, columns: Columns) -> KeySource:
    """Look at an input: a file, a folder of files, a Delta table or ``kafka://host:port/topic``.

    Raises:
        InvalidConfigError: nothing is there, or it is no format that can be read, or a column is
            missing or of a nested type.
    """
    if where.startswith("kafka://"):
        _address(where)
        return KeySource("kafka", where, Columns("key", "value", "timestamp"))
    path = Path(where)
    if not path.exists():
        raise InvalidConfigError("INPUT", "no such file or folder", where)
    if path.is_dir() and (path / "_delta_log").is_dir():
        return KeySource("delta", where, columns)
    files = _files(path)
    kinds = sorted({kind for _, kind in files})
    if not files:
        known = ", ".join(_SUFFIXES)
        raise InvalidConfigError("INPUT", f"holds no file that ends in {known}", where)
    if len(kinds) > 1:
        raise InvalidConfigError("INPUT", f"holds files of {len(kinds)} formats: {kinds}", where)
    if kinds != ["parquet"]:
        return KeySource(kinds[0], where, columns)
    pieces = tuple(piece for file, _ in files for piece in _pieces(file, columns))
    return KeySource("parquet", where, columns, pieces, sum(p.rows for p in pieces))


def _files(path: Path) -> list[tuple[Path, str]]:
    """Files with their format, hidden and marker files apart."""
    found = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    out = []
    for file in found:
        if path.is_dir() and any(part[0] in "._" for part in file.relative_to(path).parts):
            continue
        suffix = Path(file.stem).suffix if file.suffix in _PACKED else file.suffix
        kind = _SUFFIXES.get(suffix.lower())
        if kind is not None:
            out.append((file, kind))
        elif not path.is_dir():  # a file named on the command line is taken at its word
            out.append((file, "parquet" if _is_parquet(file) else "csv"))
    return out


def _is_parquet(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) == b"PAR1"


def _pieces(file: Path, columns: Columns) -> Iterator[Piece]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(file) as opened:
            _expect(opened.schema_arrow, columns, str(file))
            whole = opened.metadata
            names = [whole.schema.column(i).path for i in range(whole.num_columns)]
            for number in range(whole.num_row_groups):
                group = whole.row_group(number)
                keys, *others = (group.column(names.index(name)) for name in columns.names)
                most = _DICTIONARY_PAGE + _CODE_BYTES * group.num_rows
                coded = keys.has_dictionary_page and keys.total_uncompressed_size <= most
                size = sum(column.total_uncompressed_size for column in (keys, *others))
                fit = group.num_rows * _BATCH_BYTES // max(1, size)
                at_once = max(1, min(_BATCH_ROWS, fit))
                yield Piece(str(file.absolute()), number, group.num_rows, coded, at_once)
    except (pa.ArrowException, OSError) as e:
        raise InvalidConfigError("INPUT", f"cannot be read as Parquet ({e})", str(file)) from None


def _expect(schema: pa.Schema, columns: Columns, where: str) -> None:
    """Every column is there, and none is nested."""
    from pyarrow import types

    option = {columns.key: "--key", columns.value: "--value", columns.time: "--time"}
    for name in columns.names:
        if name not in schema.names:
            had = ", ".join(schema.names)
            raise InvalidConfigError(
                option[name], f"no such column in {where} (found: {had})", name
            )
        kind = schema.field(name).type
        if types.is_nested(kind):
            told = f"column of {where} is nested ({kind}); a key is text, bytes or a whole number"
            raise InvalidConfigError(option[name], told, name)


def read_piece(piece: Piece, columns: Columns) -> Iterator[pa.RecordBatch]:
    """The columns of a row group, with the key as a dictionary where the file has one.

    Raises:
        InvalidConfigError: damaged pages.
    """
    import pyarrow as pa
    from pyarrow import parquet

    coded = [columns.key] if piece.coded else []
    try:
        with parquet.ParquetFile(piece.path, read_dictionary=coded) as file:
            yield from file.iter_batches(piece.at_once, [piece.row_group], columns.names)
    except (pa.ArrowException, OSError) as e:
        where = f"{piece.path}, row group {piece.row_group}"
        raise InvalidConfigError("INPUT", f"cannot be read ({e})", where) from None


def _frame(spark: SparkSession, source: KeySource) -> DataFrame:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        found = _read(spark, source)
        names = found.columns
    except (PySparkException, Py4JJavaError) as e:  # the second where a connector is no class
        lines = [line.strip() for line in str(e).splitlines() if line.strip()]
        said = next((line for line in lines if "Exception: " in line), lines[0])[:200]
        told = f"Spark cannot read it ({said}){_CONNECTORS.get(source.kind, '')}"
        raise InvalidConfigError("INPUT", told, source.where) from None
    options = {source.columns.key: "--key", source.columns.value: "--value",
               source.columns.time: "--time"}  # fmt: skip
    for name in source.columns.names:
        if name not in names:
            told = f"no such column in {source.where} (found: {', '.join(names)})"
            raise InvalidConfigError(options[name], told, name)
        kind = found.schema[name].dataType.typeName()
        if kind in ("struct", "array", "map", "variant"):
            told = f"column of {source.where} is nested ({kind}); a key is text, bytes or a number"
            raise InvalidConfigError(options[name], told, name)
    return found.select(*(f"`{name}`" for name in source.columns.names))


def _read(spark: SparkSession, source: KeySource) -> DataFrame:
    if source.kind == "csv":
        return spark.read.option("header", True).csv(source.where)
    if source.kind == "json":
        return spark.read.json(source.where)
    if source.kind == "kafka":
        return _kafka(spark, source.where)
    return spark.read.format(source.kind).load(source.where)


def _kafka(spark: SparkSession, where: str) -> DataFrame:
    servers, topic = _address(where)
    reader: Any = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()  # type: ignore[no-any-return]  # Spark's reader is typed as Any above


def _address(where: str) -> tuple[str, str]:
    servers, _, topic = where.removeprefix("kafka://").partition("/")
    if not servers or not topic:
        raise InvalidConfigError("INPUT", "must be kafka://host:port/topic", where)
    return servers, topic
