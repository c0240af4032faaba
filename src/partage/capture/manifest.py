"""The manifest ``capture.json``: the files and positions that make up a capture.

A file that the manifest does not list is not part of the capture.

    {"format": 2, "topic": "__consumer_offsets", "topic_id": "...", "cluster_id": "...",
     "parts": [[60, 1], [61, 0]], "next_part": 62, "positions": {"0": 8113, ...},
     "epochs": {"0": [[4, 120], [6, 8113]]}, "records": 94434, "batches": 9163,
     "cleaned": {"3": 150}, "first_ends": {"0": 8113, ...}, "troubles": ["partition 3: ..."]}

``parts`` lists the files of records and of batches in log order: their number, and how often they
were merged. For each log partition, ``positions`` has the next offset, ``epochs`` the leader
epochs of the records read, ``cleaned`` the number of missing offsets, and ``first_ends`` the end
of the log at the first fetch. In format 1, ``parts`` was the number of parts, and ``epochs`` was
missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from partage.capture.durable import write_atomically, write_json
from partage.errors import InvalidCaptureError
from partage.history.live_log import LogBatch
from partage.wire.batches import Batch, LogRecord, marker_of, records_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "MANIFEST",
    "METADATA",
    "TOGETHER",
    "CaptureManifest",
    "CapturePart",
    "RecordBuffer",
    "drop_lost_rows",
    "expect_streamable_capture",
    "merge_parts",
    "recorded_batches",
    "replaced_path",
    "write_table",
]

MANIFEST = "capture.json"
#: The cluster's metadata over time, beside the manifest.
METADATA = "cluster.jsonl"
_FORMAT = 2
_MOST_TROUBLES = 100


class CapturePart(NamedTuple):
    """Numbered pair of Parquet files in a recording of a Kafka cluster.

    One file has records, the other has record batches.

    Attributes:
        number: part of the file name.
        level: how often its rows were merged.
    """

    number: int
    level: int = 0

    @property
    def file_name(self) -> str:
        """File name of this part of a recording.

        It is the same in the folder of records and in the folder of record batches.
        """
        return f"part-{self.number:08d}.parquet"


def replaced_path(path: Path) -> Path:
    """Return the hidden path for a file of the recording that was merged into another file.

    Readers that have the file open can continue, new readers ignore it.

    >>> replaced_path(Path("a/part-00000007.parquet")).name
    '.part-00000007.parquet.replaced'
    """
    # A reader that has already opened the file can continue; new readers ignore it.
    return path.with_name(f".{path.name}.replaced")


def expect_streamable_capture(folder: Path) -> None:
    """Check that Spark can read the folder of a recording as a stream while the recording grows.

    The folder must contain the recorded metadata of the cluster before the stream starts.

    Raises:
        InvalidCaptureError: the folder or its metadata is missing.
    """
    if not folder.is_dir():
        raise InvalidCaptureError(f"{folder}: no such folder; give a capture's folder")
    if not (folder / METADATA).is_file():
        what = f"{folder}: has no {METADATA}, and a stream cannot infer metadata"
        raise InvalidCaptureError(f"{what}; record it with partage capture --follow")


@dataclass
class CaptureManifest:
    """Content of the manifest ``capture.json``: a recording's files, and the offsets read so far.

    A later run of ``partage capture`` continues at these offsets.

    Attributes:
        cluster_id, topic_id: ids of the recorded cluster and topic; None if unknown.
        parts: the files of each table that belong to the capture, in log order.
        next_part: the number of the next part.
        replaced: numbers of merged parts that are still on the disk (`replaced_path`).
        positions: dict from log partition to the next offset to read.
        epochs: dict from log partition to (leader epoch, offset after its last batch) pairs,
            ascending.
        records, batches: number of rows in all parts.
        troubles: a message about each skipped or missing range; at most a hundred.
        cut: dict from log partition to the first offset that the log has lost; rows from there on
            are being removed from the parts. Empty at all other times.
        cleaned: dict from log partition to the number of offsets that the log cleaner removed
            before they were read.
        first_ends: dict from log partition to the end of the log at the first fetch.
    """

    cluster_id: str | None = None
    topic_id: str | None = None
    parts: list[CapturePart] = field(default_factory=list)
    next_part: int = 0
    replaced: list[int] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    records: int = 0
    batches: int = 0
    troubles: list[str] = field(default_factory=list)
    cut: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    cleaned: dict[int, int] = field(default_factory=dict)
    first_ends: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def load_manifest(folder: Path) -> CaptureManifest | None:
        """Read the manifest ``capture.json`` from the folder of a recording.

        None if the folder has no manifest.

        Raises:
            InvalidCaptureError: the manifest cannot be read.
        """
        path = folder / MANIFEST
        if not path.is_file():
            return None
        try:
            found = json.loads(path.read_bytes())
            if found["format"] not in {1, _FORMAT}:
                what = f"{path}: format {found['format']!r}, this Partage knows {_FORMAT}"
                raise InvalidCaptureError(f"{what}: take a newer one")
            parts = _parts(found)
            return CaptureManifest(
                found["cluster_id"], found["topic_id"], parts,
                int(found.get("next_part", len(parts))),
                [int(number) for number in found.get("replaced", ())],
                _offsets(found["positions"]),
                int(found["records"]), int(found["batches"]), [str(t) for t in found["troubles"]],
                _offsets(found.get("cut", {})),
                {int(p): [(int(e), int(o)) for e, o in rows]
                 for p, rows in found.get("epochs", {}).items()},
                _offsets(found.get("cleaned", {})),
                # A manifest of an older Partage: everything up to the positions was the first read.
                _offsets(found.get("first_ends", found["positions"])),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            what = f"{path}: cannot be read ({type(e).__name__}: {e})"
            raise InvalidCaptureError(f"{what}; capture into a new folder") from None

    def save_manifest(self, folder: Path) -> None:
        """Write the manifest ``capture.json`` to the folder of a recording.

        From then on, the recording consists of the files that the manifest lists.
        """
        content: dict[str, Any] = asdict(self)
        for name in ("positions", "cut", "epochs", "cleaned", "first_ends"):
            content[name] = {str(p): o for p, o in sorted(content[name].items())}
        write_json(folder / MANIFEST, {"format": _FORMAT, "topic": "__consumer_offsets", **content})

    def add_warning(self, message: str) -> None:
        """Add a warning to the manifest of the recording, such as a skipped damaged range.

        At most a hundred different warnings are stored.
        """
        if len(self.troubles) < _MOST_TROUBLES and message not in self.troubles:
            self.troubles.append(message)


def _offsets(by_partition: dict[str, Any]) -> dict[int, int]:
    # JSON has text keys.
    return {int(p): int(o) for p, o in by_partition.items()}


def _parts(document: dict[str, Any]) -> list[CapturePart]:
    if document["format"] == 1:
        return [CapturePart(number) for number in range(int(document["parts"]))]
    return [CapturePart(int(number), int(level)) for number, level in document["parts"]]


# --- parts ---------------------------------------------------------------------------------


_RECORDS = ("partition", "offset", "timestamp_ms", "key", "value")
_BATCHES = (
    "partition", "base_offset", "last_offset", "records", "size", "leader_epoch", "magic",
    "compression", "max_timestamp_ms", "producer_id", "producer_epoch", "base_sequence",
    "transactional", "control", "control_type", "coordinator_epoch",
)  # fmt: skip


class RecordBuffer:
    """Buffer of Kafka records and record batches that are not yet in the files of the recording.

    They are written together as the next pair of files.

    Attributes:
        bytes: estimated size of the buffered data in memory.
        first_ms: the smallest timestamp of a record; None before the first record.
    """

    def __init__(self) -> None:
        self._records: dict[str, list[Any]] = {name: [] for name in _RECORDS}
        self._batches: dict[str, list[Any]] = {name: [] for name in _BATCHES}
        self.bytes = 0
        self.first_ms: int | None = None

    @property
    def record_count(self) -> int:
        """Number of Kafka records in the buffer, which are not yet in files.

        The total number of recorded records includes them.
        """
        return len(self._records["offset"])

    @property
    def batch_count(self) -> int:
        """Number of Kafka record batches in the buffer, which are not yet in files.

        Batches with transaction markers count too.
        """
        return len(self._batches["base_offset"])

    def add_batch(self, partition: int, batch: Batch, payload: bytes) -> LogBatch:
        """Decode a Kafka record batch and add its records to the buffer.

        The result is the batch with its decoded records.

        Args:
            partition: number of the log partition.
            batch: the batch's header and position.
            payload: decompressed bytes of its records.

        Raises:
            WireFormatError: the payload, decompressed, is not what the header says.
        """
        kind, epoch = None, None
        found: list[LogRecord] = []
        if batch.control:
            if batch.records:  # a compacted log keeps empty batches, markers among them
                marker = marker_of(batch, payload)
                kind, epoch = marker.type, marker.coordinator_epoch
        else:
            found = list(records_of(batch, payload))  # all of them, or an error and none
            self._add_records(partition, found, len(payload))
        row = (
            partition, batch.base_offset, batch.last_offset, batch.records, batch.size,
            batch.leader_epoch, batch.magic, batch.compression, batch.max_timestamp_ms,
            batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.transactional,
            batch.control, kind, epoch,
        )  # fmt: skip
        for name, value in zip(_BATCHES, row, strict=True):
            self._batches[name].append(value)
        self.bytes += 200
        return LogBatch(
            partition, batch.base_offset, batch.leader_epoch, batch.max_timestamp_ms,
            batch.producer_id, batch.transactional, batch.control, kind, found,
        )  # fmt: skip

    def _add_records(self, partition: int, records: list[LogRecord], size: int) -> None:
        if not records:
            return
        offsets, times, keys, values = zip(*records, strict=True)
        self._records["partition"] += [partition] * len(records)
        self._records["offset"] += offsets
        self._records["timestamp_ms"] += times
        self._records["key"] += keys
        self._records["value"] += values
        self.bytes += size + 64 * len(records)
        first = min(times)
        self.first_ms = first if self.first_ms is None else min(self.first_ms, first)

    def to_arrow_tables(self) -> tuple[pa.Table, pa.Table]:
        """Return the content of the buffer as two Arrow tables: records and record batches.

        They become Parquet files of the recording.
        """
        import pyarrow as pa

        records = pa.schema([
            ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp_ms", pa.int64()),
            ("key", pa.binary()), ("value", pa.binary()),
        ])  # fmt: skip
        batches = pa.schema([
            ("partition", pa.int32()), ("base_offset", pa.int64()), ("last_offset", pa.int64()),
            ("records", pa.int32()), ("size", pa.int32()), ("leader_epoch", pa.int32()),
            ("magic", pa.int8()), ("compression", pa.string()), ("max_timestamp_ms", pa.int64()),
            ("producer_id", pa.int64()), ("producer_epoch", pa.int16()),
            ("base_sequence", pa.int32()), ("transactional", pa.bool_()), ("control", pa.bool_()),
            ("control_type", pa.string()), ("coordinator_epoch", pa.int32()),
        ])  # fmt: skip
        return pa.table(self._records, schema=records), pa.table(self._batches, schema=batches)


def write_table(path: Path, table: pa.Table) -> None:
    """Write an Arrow table to a Parquet file so that the file is complete even after a crash.

    The content goes to a temporary file first, which is then renamed.
    """
    from pyarrow import parquet

    def write(aside: Path) -> None:
        parquet.write_table(table, aside, compression="zstd", write_page_checksum=True)

    write_atomically(path, write)


def drop_lost_rows(path: Path, column: str, first_lost: Mapping[int, int]) -> int:
    """Remove the rows of lost Kafka records from a file of the recording.

    Records are lost when an unclean leader truncates the log of a partition.

    Args:
        path: the Parquet file.
        column: name of the column with the offset to compare.
        first_lost: dict from log partition to the first lost offset.

    Returns:
        The number of remaining rows.
    """
    # Records are lost when an unclean leader truncates the log.
    from pyarrow import compute, parquet

    table = parquet.ParquetFile(path).read()
    stays = None
    for partition, offset in first_lost.items():
        other = compute.not_equal(table["partition"], partition)
        one = compute.or_(other, compute.less(table[column], offset))
        stays = one if stays is None else compute.and_(stays, one)
    kept = table if stays is None else table.filter(stays)
    if kept.num_rows < table.num_rows:
        write_table(path, kept)
    return int(kept.num_rows)


_READ_ROWS = 20_000


def recorded_batches(
    records: Path, batches: Path, read_offsets: Mapping[int, int]
) -> Iterator[LogBatch]:
    """Yield the record batches of one part (pair of files) of a recording, in recorded order.

    One file has the records, the other has the leader epoch, time and producer of each batch.

    Args:
        records: path of the part's file of records.
        batches: path of the part's file of batches.
        read_offsets: dict from log partition to a base offset; nothing is yielded if no batch is
            later.

    Raises:
        InvalidCaptureError: a file is missing or damaged.
    """
    rows = _rows(records, _RECORDS)
    names = ("partition", "base_offset", "leader_epoch", "max_timestamp_ms", "producer_id",
             "transactional", "control", "control_type", "last_offset")  # fmt: skip
    if all(
        base <= read_offsets.get(p, -1) for p, base in _rows(batches, ("partition", "base_offset"))
    ):
        return
    row = next(rows, None)
    for partition, base, epoch, time_ms, *transaction, last in _rows(batches, names):
        found: list[LogRecord] = []
        while row is not None and row[0] == partition and base <= row[1] <= last:
            found.append(LogRecord(*row[1:]))
            row = next(rows, None)
        producer, is_part, control, kind = transaction
        yield LogBatch(partition, base, epoch, time_ms, producer, is_part, control, kind, found)


def _rows(path: Path, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            for some in file.iter_batches(_READ_ROWS, columns=list(names)):
                columns = [some.column(name).to_pylist() for name in names]
                yield from zip(*columns, strict=True)
    except (pa.ArrowException, OSError) as e:
        raise InvalidCaptureError(f"{path}: cannot be read ({e}); record it again") from None


#: Number of parts of one level that are merged into a part of the next level.
TOGETHER = 60


def merge_parts(
    manifest: CaptureManifest,
    paths: Callable[[int], tuple[Path, Path]],
    write: Callable[[Path, pa.Table], None],
    *,
    max_rows: int,
    max_bytes: int,
    together: int = TOGETHER,
) -> bool:
    """Merge many small files of a recording into a few larger ones.

    A long recording would otherwise have tens of thousands of files. The result says whether any
    were merged.

    Args:
        manifest: list of the recording's files; changed in memory only.
        paths: function from a part's number to the paths of its two files (records, batches).
        write: function that writes a table to a path atomically.
        max_rows: maximum rows of a merged part, in either table.
        max_bytes: maximum bytes of a merged part, encoded, before compression.
        together: number of parts of one level that are merged.
    """
    # As in an LSM tree, parts of equal level are merged into one part of the next level: a capture
    # of a month has some dozens of parts instead of 43,000. The manifest is changed in memory only;
    # its `replaced` has the numbers of merged parts. Their files stay on the disk, hidden, until
    # the next merge, because another process may be reading them.
    last = manifest.parts[-together:]
    if len(last) < together or len({one.level for one in last}) > 1:
        return False
    from pyarrow import concat_tables

    made: list[CapturePart] = []
    replaced: list[int] = []
    for some in _chunks(last, paths, max_rows, max_bytes):
        number = some[0].number
        if len(some) > 1:
            number, manifest.next_part = manifest.next_part, manifest.next_part + 1
            for at, path in enumerate(paths(number)):
                write(path, concat_tables([_table(paths(one.number)[at]) for one in some]))
            replaced += [one.number for one in some]
        made.append(CapturePart(number, some[0].level + 1))
    if not replaced:
        return False  # every part already has the maximum size
    manifest.parts[-together:] = made
    manifest.replaced = replaced
    return True


def _chunks(
    parts: Sequence[CapturePart], paths: Callable[[int], tuple[Path, Path]], rows: int, size: int
) -> Iterator[list[CapturePart]]:
    some: list[CapturePart] = []
    has, takes = 0, 0
    for one in parts:
        more, bytes_more = _size(paths(one.number))
        if some and (has + more > rows or takes + bytes_more > size):
            yield some
            some, has, takes = [], 0, 0
        some.append(one)
        has, takes = has + more, takes + bytes_more
    yield some


def _size(tables: Sequence[Path]) -> tuple[int, int]:
    # Rows of the longer table, and bytes before compression.
    from pyarrow import parquet

    metadata = [parquet.read_metadata(path) for path in tables]
    size = sum(
        one.row_group(n).total_byte_size for one in metadata for n in range(one.num_row_groups)
    )
    return max(one.num_rows for one in metadata), size


def _table(path: Path) -> pa.Table:
    from pyarrow import parquet

    return parquet.ParquetFile(path).read()
