"""Where the keys of `partage keys` come from: files read with pyarrow, all else by Spark.

Parquet is read by whoever counts: Spark's workers, or threads of this process. CSV and JSON are
read by Spark in a job of its own, else here (`key_files`). Keys of files
are hashed where they are read: a key that crosses the border between the JVM and Python costs
twenty times its hash (measured: 39 against 8 million keys a second).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from partage.errors import InvalidConfigError
from partage.jobs.audit.asked import counts_at
from partage.jobs.keys.columns import Columns, expect, flat, kind_of
from partage.jobs.keys.files import read_text, schema_of
from partage.jobs.keys.pages import Chunk, chunk_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Columns", "KeySource", "Piece", "address", "open_source", "read_piece"]

#: Rows that a worker holds at a time: their keys fit into a processor's cache. Fewer where the
#: columns of so many have more bytes than this.
_BATCH_ROWS, _BATCH_BYTES = 1 << 17, 64 << 20
#: Bytes of a dictionary page at which writers give up and write plain values (their default), and
#: the most bytes that a record's number in such a dictionary takes.
_DICTIONARY_PAGE, _CODE_BYTES = 1_200_000, 3
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json",
             ".ndjson": "json"}  # fmt: skip
#: Text is packed about so well, at most.
_TIMES_PACKED = 10
_PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")


@dataclass(frozen=True, slots=True)
class Piece:
    """Row group of a Parquet file, or a file of CSV or JSON.

    Attributes:
        size: bytes of the columns that are read, unpacked, about.
        coded: whether its keys are numbers in a dictionary throughout, and so best read as that.
            A writer whose dictionary grew too large went on with plain values; to make a
            dictionary of these costs ten times what reading them does.
        at_once: rows that are read at a time.
        chunk: where the keys stand, if they can be counted page by page (`key_pages`).
    """

    path: str
    row_group: int
    rows: int
    coded: bool = False
    at_once: int = _BATCH_ROWS
    size: int = 0
    kind: str = "parquet"
    chunk: Chunk | None = None

    @property
    def words(self) -> str:
        """What an error calls it."""
        return f"{self.path}, row group {self.row_group}" if self.kind == "parquet" else self.path


@dataclass(frozen=True, slots=True)
class KeySource:
    """An input that was looked at, and has the columns.

    Attributes:
        kind: ``parquet``, ``csv``, ``json``, ``delta`` or ``kafka``.
        where: as given.
        serializer: how numbers become bytes.
        pieces: what is read with pyarrow; empty where Spark alone can.
        rows: records, where known.
        properties: of the client of a cluster, secrets among them.
    """

    kind: str
    where: str
    columns: Columns
    serializer: str | None = None
    pieces: tuple[Piece, ...] = ()
    rows: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """Bytes to be read, unpacked, about."""
        return sum(piece.size for piece in self.pieces)


def open_source(
    where: str,
    columns: Columns,
    serializer: str | None = None,
    kafka: Mapping[str, str] | None = None,
    *,
    by_spark: bool = False,
) -> KeySource:
    """Look at an input: a file, a folder of files, a Delta table or ``kafka://host:port/topic``.

    Args:
        where: the input.
        columns: those that will be read.
        serializer: how numbers become bytes.
        kafka: properties of a client, by Kafka's names.
        by_spark: whether Spark will read CSV and JSON: what we cannot read is then no error yet.

    Raises:
        InvalidConfigError: nothing is there, or it is no format that can be read, or a column is
            missing or of a nested type, or has no bytes until a serializer is named.
        ClusterUnreachableError: no broker answers.
        NotAuthorizedError: it refuses the account.
    """
    if where.startswith("kafka://"):
        servers, topic = address(where)
        counts_at(servers, [topic], kafka or {})
        kafka_columns = Columns("key", "value", "timestamp")
        return KeySource("kafka", where, kafka_columns, serializer, properties=kafka or {})
    path = Path(where)
    if not path.exists():
        raise InvalidConfigError("INPUT", "no such file or folder", where)
    if path.is_dir() and (path / "_delta_log").is_dir():
        return KeySource("delta", where, columns, serializer)
    files = _files(path)
    kinds = sorted({kind for _, kind in files})
    if not files:
        known = ", ".join(_SUFFIXES)
        raise InvalidConfigError("INPUT", f"holds no file that ends in {known}", where)
    if len(kinds) > 1:
        raise InvalidConfigError("INPUT", f"holds files of {len(kinds)} formats: {kinds}", where)
    if kinds == ["parquet"]:
        pieces = tuple(p for file, _ in files for p in _pieces(file, columns, serializer))
        return KeySource("parquet", where, columns, serializer, pieces, sum(p.rows for p in pieces))
    (kind,) = kinds
    pieces = tuple(_text(f, kind, columns, serializer, lenient=by_spark) for f, _ in files)
    if not any(piece.size for piece in pieces):
        raise InvalidConfigError("INPUT", "is empty: it has no columns and no records", where)
    return KeySource(kind, where, columns, serializer, pieces)


def _text(
    file: Path, kind: str, columns: Columns, serializer: str | None, *, lenient: bool
) -> Piece:
    size = file.stat().st_size
    schema = None
    with suppress(InvalidConfigError) if lenient else nullcontext():
        schema = schema_of(str(file), kind, columns.names) if size else None
    if schema is not None:
        expect(schema, columns, serializer, str(file))
    unpacked = _TIMES_PACKED * size if file.suffix in _PACKED else size
    return Piece(str(file.absolute()), 0, 0, size=unpacked, kind=kind)


def _files(path: Path) -> list[tuple[Path, str]]:
    """Files with their format, hidden and marker files apart."""
    found = sorted(_below(path, set())) if path.is_dir() else [path]
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


def _below(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """All files, also behind links to folders; none twice, whatever the links go round."""
    real = folder.resolve()
    if real in seen:
        return
    seen.add(real)
    for path in folder.iterdir():
        if path.is_dir():
            yield from _below(path, seen)
        elif path.is_file():
            yield path


def _is_parquet(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) == b"PAR1"


def _pieces(file: Path, columns: Columns, serializer: str | None) -> Iterator[Piece]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(file) as opened:
            expect(opened.schema_arrow, columns, serializer, str(file))
            whole = opened.metadata
            names = [whole.schema.column(i).path for i in range(whole.num_columns)]
            bare = columns.names == [columns.key] and names.count(columns.key) == 1
            bare = bare and _is_bytes(opened.schema_arrow, columns.key)
            for number in range(whole.num_row_groups):
                group = whole.row_group(number)
                keys, *others = (group.column(names.index(name)) for name in columns.names)
                most = _DICTIONARY_PAGE + _CODE_BYTES * group.num_rows
                alone = names.count(columns.key) == 1  # a struct's field may have this very path
                coded = alone and keys.has_dictionary_page and keys.total_uncompressed_size <= most
                size = sum(column.total_uncompressed_size for column in (keys, *others))
                fit = group.num_rows * _BATCH_BYTES // max(1, size)
                at_once = max(1, min(_BATCH_ROWS, fit))
                chunk = None
                if bare and not coded:
                    chunk = chunk_of(whole, group, names.index(columns.key))
                path = str(file.absolute())
                yield Piece(path, number, group.num_rows, coded, at_once, size, chunk=chunk)
    except (pa.ArrowException, OSError) as e:
        raise InvalidConfigError("INPUT", f"cannot be read as Parquet ({e})", str(file)) from None


def _is_bytes(schema: pa.Schema, name: str) -> bool:
    """Whether a key's bytes are its value's: no number, and nothing with a meaning of its own."""
    import pyarrow as pa

    plain = {pa.string(), pa.binary(), pa.large_string(), pa.large_binary()}
    return kind_of(schema, name) in plain


def read_piece(piece: Piece, columns: Columns) -> Iterator[pa.RecordBatch]:
    """The columns of a piece, with the key as a dictionary where the file has one.

    Raises:
        InvalidConfigError: damaged pages or rows.
    """
    if piece.kind == "parquet":
        read = _row_group(piece, columns)
    elif piece.size:
        read = read_text(piece.path, piece.kind, columns)
    else:
        read = iter(())
    for batch in read:
        yield flat(batch, columns.names)


def _row_group(piece: Piece, columns: Columns) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import parquet

    coded = [columns.key] if piece.coded else []
    try:
        with parquet.ParquetFile(piece.path, read_dictionary=coded) as file:
            yield from file.iter_batches(
                piece.at_once, [piece.row_group], columns.names, use_threads=False
            )
    except (pa.ArrowException, OSError) as e:
        raise InvalidConfigError("INPUT", f"cannot be read ({e})", piece.words) from None


def address(where: str) -> tuple[str, str]:
    """Servers and topic of ``kafka://host:port/topic``.

    Raises:
        InvalidConfigError: it is no such address.
    """
    servers, _, topic = where.removeprefix("kafka://").partition("/")
    if not servers or not topic:
        raise InvalidConfigError("INPUT", "must be kafka://host:port/topic", where)
    return servers, topic
