"""Records of data topics for `partage audit`: (topic, partition, offset, time, key) in pieces.

From a capture (``topics.parquet``, with ``cluster.jsonl`` for partition counts over time), or
from any Parquet file or folder with these columns, or from Kafka through Spark's source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from partage.errors import InvalidCaptureError, InvalidConfigError
from partage.jobs.spark.kafka import partition_counts

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COLUMNS", "TopicSource", "open_topics", "read_records"]

COLUMNS = ("topic", "partition", "offset", "timestamp_ms", "key")
_BATCH_ROWS = 1 << 18
_HOLDS = f"needs the columns {', '.join(COLUMNS)}"


@dataclass(frozen=True)
class TopicSource:
    """What is to be audited.

    Attributes:
        where: as given.
        pieces: (file, row group) read by workers; empty where Spark reads from Kafka.
        counts: topic -> partition counts that its history had, the last one now, where known.
        rows: records, where known.
        properties: of the client of a cluster, secrets among them.
    """

    where: str
    pieces: tuple[tuple[str, int], ...] = ()
    counts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    rows: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def kafka(self) -> tuple[str, str] | None:
        """Servers and topics (separated by commas), where it is a cluster."""
        if not self.where.startswith("kafka://"):
            return None
        servers, _, topics = self.where.removeprefix("kafka://").partition("/")
        return servers, topics


def open_topics(where: str, kafka: Mapping[str, str] | None = None) -> TopicSource:
    """Look at a capture, at Parquet files with its columns, or at ``kafka://host:port/a,b``.

    Args:
        where: the input.
        kafka: properties of the client of a cluster, by Kafka's names.

    Raises:
        InvalidCaptureError: nothing is there, or a column is missing.
        InvalidConfigError: an address without servers or topics.
    """
    if where.startswith("kafka://"):
        servers, topics = TopicSource(where).kafka or ("", "")
        if not servers or not topics:
            raise InvalidConfigError("INPUT", "must be kafka://host:port/topic,topic", where)
        return TopicSource(
            where,
            counts=partition_counts(servers, topics.split(","), kafka or {}) or {},
            properties=kafka or {},
        )
    path = Path(where).absolute()
    inside = path / "topics.parquet"
    if not path.exists():
        raise InvalidCaptureError(f"{where}: no such file or folder; {_HOLDS}")
    records = inside if inside.exists() else path
    if path.is_dir() and not inside.exists() and (path / "consumer_offsets.parquet").exists():
        raise InvalidCaptureError(f"{inside}: no such file; without the topics' records there is "
                                  f"nothing to audit")  # fmt: skip
    files = sorted(records.rglob("*.parquet")) if records.is_dir() else [records]
    pieces, rows = [], 0
    for file in files:
        for group, count in _groups(file):
            pieces.append((str(file), group))
            rows += count
    if not rows:
        raise InvalidCaptureError(f"{where}: has no records; {_HOLDS}")
    metadata = (path if path.is_dir() else path.parent) / "cluster.jsonl"
    counts = _counts(metadata) if metadata.is_file() else {}
    return TopicSource(where, tuple(pieces), counts, rows)


def _groups(file: Path) -> Iterator[tuple[int, int]]:
    import pyarrow as pa
    from pyarrow import parquet, types

    try:
        with parquet.ParquetFile(file) as opened:
            schema, metadata = opened.schema_arrow, opened.metadata
    except (pa.ArrowException, OSError) as e:
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise InvalidCaptureError(f"{file}: not a readable Parquet file ({reason})") from None
    missing = [name for name in COLUMNS if name not in schema.names]
    if missing:
        raise InvalidCaptureError(f"{file}: column {missing[0]} is missing; {_HOLDS}")
    kind = schema.field("key").type
    plain = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_nested(plain):
        raise InvalidCaptureError(f"{file}: column key is nested ({kind}); it holds a key's bytes")
    for group in range(metadata.num_row_groups):
        yield group, metadata.row_group(group).num_rows


def _counts(metadata: Path) -> dict[str, tuple[int, ...]]:
    """Partition counts by topic in order of time; a damaged line is an error by its number."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(metadata.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            for topic, has in json.loads(line)["topics"].items():
                counts = found.setdefault(topic, [])
                if not counts or counts[-1] != len(has["partitions"]):
                    counts.append(len(has["partitions"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            said = f"{metadata} line {number}: no state of a cluster ({type(e).__name__}: {e})"
            raise InvalidCaptureError(said) from None
    return {topic: tuple(counts) for topic, counts in found.items()}


def read_records(path: str, row_group: int) -> Iterator[pa.Table]:
    """The columns of a row group: text, int32, two int64, binary.

    Raises:
        InvalidCaptureError: damaged pages, or a column of another type.
    """
    import pyarrow as pa
    from pyarrow import parquet

    kinds = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.binary())
    wanted = pa.schema(list(zip(COLUMNS, kinds, strict=True)))
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(_BATCH_ROWS, [row_group], list(COLUMNS)):
                yield pa.Table.from_batches([batch]).select(list(COLUMNS)).cast(wanted)
    except (pa.ArrowException, OSError) as e:
        raise InvalidCaptureError(f"{path}: row group {row_group} cannot be read ({e})") from None
