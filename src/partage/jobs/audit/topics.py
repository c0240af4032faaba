"""The topics of `partage audit`: read their records, and find the partitioners that wrote them.

1. `open_topics` checks the input: a capture, any Parquet file or folder with the columns of a
   capture's ``topics.parquet``, or Kafka through Spark's source. The ``cluster.jsonl`` of a capture
   gives each topic's partition counts over time.
2. `PairCounter` counts a worker's records of each (key, partition).
3. `judge_topics` finds the partitioners that wrote a topic, and the keys that are in several
   partitions, from these counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidCaptureError, InvalidConfigError, InvalidKeysError
from partage.jobs.spark.tables import partition_counts
from partage.keys.audit import (
    InferredWriters,
    KeyPairs,
    PartitionerFamily,
    WriterFamily,
    count_split_keys,
    group_equivalent_partitioners,
    infer_writers,
    null_keys,
)
from partage.keys.audit.client_names import find_clients, hash_name
from partage.keys.placing import MOST_PARTITIONS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "COLUMNS",
    "JUDGED_DDL",
    "MOST_NULLS",
    "MOST_PAIRS",
    "NOWHERE",
    "PAIRS_DDL",
    "PairCounter",
    "TopicSource",
    "filter_by_level",
    "in_sample",
    "judge_topics",
    "key_pairs",
    "known_families",
    "open_topics",
    "partitions_of",
    "read_records",
]

# -- records of the topics -------------------------------------------------------------------------

COLUMNS = ("topic", "partition", "offset", "timestamp_ms", "key")
_BATCH_ROWS = 1 << 18
_HOLDS = f"needs the columns {', '.join(COLUMNS)}"


@dataclass(frozen=True)
class TopicSource:
    """Checked input of `partage audit`: files or a cluster to read, and known partition counts.

    Attributes:
        where: the path or address as given.
        pieces: (file, row group) pairs that workers read; empty if Spark reads from Kafka.
        counts: dict from topic to its partition counts over time, the current one last; empty if
            not known.
        rows: number of records, if known.
        properties: properties of the Kafka client, which may contain secrets.
    """

    where: str
    pieces: tuple[tuple[str, int], ...] = ()
    counts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    rows: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def kafka_address(self) -> tuple[str, str] | None:
        """Bootstrap servers and topics of a Kafka address, each separated by commas; None for
        files.

        For example, ``kafka://host:9092/a,b`` has ``("host:9092", "a,b")``.
        """
        if not self.where.startswith("kafka://"):
            return None
        servers, _, topics = self.where.removeprefix("kafka://").partition("/")
        return servers, topics


def open_topics(source: str, kafka: Mapping[str, str] | None = None) -> TopicSource:
    """Check that the input of `partage audit` can be read, and describe it as a `TopicSource`.

    The input is a capture, Parquet files with a capture's columns, or ``kafka://host:port/a,b``.

    Args:
        source: the path or the address.
        kafka: properties of the Kafka client.

    Raises:
        InvalidCaptureError: the path does not exist, or a column is missing.
        InvalidConfigError: the address has no servers or no topics.
    """
    if source.startswith("kafka://"):
        servers, topics = TopicSource(source).kafka_address or ("", "")
        if not servers or not topics:
            raise InvalidConfigError("INPUT", "must be kafka://host:port/topic,topic", source)
        return TopicSource(
            source,
            counts=partition_counts(servers, topics.split(","), kafka or {}) or {},
            properties=kafka or {},
        )
    path = Path(source).absolute()
    inside = path / "topics.parquet"
    if not path.exists():
        raise InvalidCaptureError(f"{source}: no such file or folder; {_HOLDS}")
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
        raise InvalidCaptureError(f"{source}: has no records; {_HOLDS}")
    metadata = (path if path.is_dir() else path.parent) / "cluster.jsonl"
    counts = _read_partition_counts(metadata) if metadata.is_file() else {}
    return TopicSource(source, tuple(pieces), counts, rows)


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


def _read_partition_counts(path: Path) -> dict[str, tuple[int, ...]]:
    """Read each topic's partition counts over time from the file ``cluster.jsonl`` of a capture.

    Return a dict from topic to its counts in order of time, for example ``(4, 8)`` if it grew.

    Raises:
        InvalidCaptureError: a line is damaged; the message has its number.
    """
    found: dict[str, list[int]] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            for topic, has in json.loads(line)["topics"].items():
                counts = found.setdefault(topic, [])
                if not counts or counts[-1] != len(has["partitions"]):
                    counts.append(len(has["partitions"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            reason = f"{path} line {number}: no state of a cluster ({type(e).__name__}: {e})"
            raise InvalidCaptureError(reason) from None
    return {topic: tuple(counts) for topic, counts in found.items()}


def read_records(path: str, row_group: int) -> Iterator[pa.Table]:
    """Read the records of one row group of a Parquet file, and yield them as Arrow tables.

    The columns are topic (text), partition (int32), offset and time (int64), and key (binary).
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


#: Stands for the topic of records without a topic or a partition; no topic has this name.
NOWHERE = ""

#: Pairs of a topic that a worker keeps; more are sampled.
MOST_PAIRS = 200_000
#: Keyless records of a topic whose order a worker keeps: the first by time.
MOST_NULLS = 20_000
#: Rows before the pairs at hand are merged.
_MERGE_AT = 2_000_000

PAIRS_DDL = (
    "topic string, key binary, partition int, records bigint, first_ms bigint, last_ms bigint, "
    "level int, place bigint"
)


@dataclass
class PairCounter:
    """Counter of the records of each (topic, key, partition) that one Spark worker reads.

    Call `count_records` for each table, then `count_batches` for the result. A topic with very many
    keys is sampled. All workers sample the same keys, so that their counts can be added.
    """

    # Column ``level`` of the result is the sampling level: one key in 2**level was sampled (a hash
    # of the key decides). Column ``place`` is the offset of a record without a key. Rows with a
    # null partition count the records of a topic that were not sampled: one row for records with a
    # key (the key is then empty), one for records without.
    _tables: list[Any] = field(default_factory=list)
    _nulls: list[Any] = field(default_factory=list)
    _levels: dict[str, int] = field(default_factory=dict)
    _left_out: Counter[tuple[str, bool]] = field(default_factory=Counter)
    _held: int = 0
    _most: int = _MERGE_AT

    def count_records(self, table: pa.Table) -> None:
        """Count the records of an Arrow table by topic, key and partition.

        They are added to the counts of earlier tables. The table's columns are topic, partition,
        offset, timestamp_ms and key.
        """
        from pyarrow import compute

        named = compute.fill_null(compute.not_equal(table["topic"], NOWHERE), fill_value=False)
        whole = table.filter(compute.and_(named, compute.is_valid(table["partition"])))
        self._left_out[NOWHERE, True] += len(table) - len(whole)
        _expect_partitions(whole)
        null = compute.is_null(whole["key"])
        self._nulls.append(whole.filter(null).select(["topic", "partition", "timestamp_ms",
                                                      "offset"]))  # fmt: skip
        keyed = whole.filter(compute.invert(null))
        grouped = keyed.group_by(["topic", "key", "partition"], use_threads=False).aggregate(
            [("offset", "count", compute.CountOptions("all")), ("timestamp_ms", "min"),
             ("timestamp_ms", "max")]
        )  # fmt: skip
        self._tables.append(grouped.rename_columns([*_KEYS, *_SUMS]))
        self._held += len(self._tables[-1]) + len(self._nulls[-1])
        if self._held > self._most:
            self._merge()
            # Many topics may leave much: to merge them at each step would never end.
            self._most = max(_MERGE_AT, 2 * self._held)

    def _merge(self) -> None:
        import pyarrow as pa

        if self._tables:
            merged = pa.concat_tables(self._tables).group_by(list(_KEYS), use_threads=False)
            table = merged.aggregate([("records", "sum"), ("first_ms", "min"), ("last_ms", "max")])
            table = self._keep_sampled_keys(table.rename_columns([*_KEYS, *_SUMS]))
            self._tables = [table]
        if self._nulls:
            self._nulls = [self._keep_first_without_key(pa.concat_tables(self._nulls))]
        self._held = sum(map(len, (*self._tables, *self._nulls)))

    def _keep_sampled_keys(self, table: pa.Table) -> pa.Table:
        """Keep only a sample of each topic's keys in a table of record counts, to bound memory.

        A sample is halved until it has at most `MOST_PAIRS` rows.
        """
        import pyarrow as pa
        from pyarrow import compute

        counts = compute.value_counts(table["topic"]).to_pylist()
        if all(c["counts"] <= MOST_PAIRS and c["values"] not in self._levels for c in counts):
            return table
        out = []
        for topic in (c["values"] for c in counts):
            mine = table.filter(compute.equal(table["topic"], topic))
            level = self._levels.get(topic, 0)
            mark = sample_hashes(mine["key"].combine_chunks())
            stays = in_sample(mark, level)
            while int(stays.sum()) > MOST_PAIRS:
                level += 1
                stays = in_sample(mark, level)
            self._levels[topic] = level
            out.append(mine.filter(pa.array(stays)))
            left_out = compute.sum(mine["records"].filter(pa.array(~stays))).as_py()
            self._left_out[topic, True] += left_out or 0
        return pa.concat_tables(out)

    def _keep_first_without_key(self, nulls: pa.Table) -> pa.Table:
        """Keep only the earliest records without a key of each topic, at most `MOST_NULLS` per
        topic.

        ``nulls`` are all records without a key. The dropped ones are counted.
        """
        import pyarrow as pa
        from pyarrow import compute

        out = []
        for topic in compute.unique(nulls["topic"]).to_pylist():
            mine = nulls.filter(compute.equal(nulls["topic"], topic))
            by_time = mine.sort_by([("timestamp_ms", "ascending"), ("offset", "ascending")])
            out.append(by_time.slice(0, MOST_NULLS))
            self._left_out[topic, False] += len(mine) - len(out[-1])
        return pa.concat_tables(out) if out else nulls

    def count_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield this worker's record counts by topic, key and partition as Arrow batches.

        Records without a key follow the counts, one row each. The schema is `PAIRS_DDL`.
        """
        import pyarrow as pa

        self._merge()
        names = [part.split()[0] for part in PAIRS_DDL.split(", ")]
        for table in self._tables:
            levels = [self._levels.get(t, 0) for t in table["topic"].to_pylist()]
            whole = table.append_column("level", pa.array(levels, pa.int32()))
            whole = whole.append_column("place", pa.nulls(len(table), pa.int64()))
            yield from whole.select(names).combine_chunks().to_batches(100_000)
        for table in self._nulls:
            count = len(table)
            whole = pa.table({
                "topic": table["topic"], "key": pa.nulls(count, pa.binary()),
                "partition": table["partition"], "records": pa.array(np.ones(count, np.int64)),
                "first_ms": table["timestamp_ms"], "last_ms": table["timestamp_ms"],
                "level": pa.array(np.zeros(count, np.int32)), "place": table["offset"],
            })  # fmt: skip
            yield from whole.select(names).combine_chunks().to_batches(100_000)
        yield from self._counts_left_out()

    def _counts_left_out(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        known = [(t, keyed, n) for (t, keyed), n in sorted(self._left_out.items()) if n]
        kinds = {"string": pa.string(), "binary": pa.binary(), "int": pa.int32()}
        schema = pa.schema(
            [(n, kinds.get(k, pa.int64())) for n, k in map(str.split, PAIRS_DDL.split(", "))]
        )
        yield pa.RecordBatch.from_pylist(
            [
                {"topic": topic, "key": b"" if keyed else None, "records": n, "level": 0}
                for topic, keyed, n in known
            ],
            schema=schema,
        )


_KEYS = ("topic", "key", "partition")
_SUMS = ("records", "first_ms", "last_ms")


def _expect_partitions(table: pa.Table) -> None:
    """Raise an error if a record has a partition number that Kafka does not allow.

    Raises:
        InvalidCaptureError: a number is not from 0 to 2**31 - 2.
    """
    from pyarrow import compute

    ends = compute.min_max(table["partition"]).as_py()
    for end in (ends["min"], ends["max"]):
        if end is not None and not 0 <= end < MOST_PARTITIONS:
            row = compute.index(table["partition"], end).as_py()
            topic = table["topic"][row].as_py()
            raise InvalidCaptureError(
                f"topic {topic}: a record in partition {end}, which no topic has; record it again"
            )


def sample_hashes(keys: pa.Array) -> NDArray[np.int32]:
    """Return a hash of each record key (int32[n]), by which `in_sample` selects keys.

    Equal keys have equal hashes, so all workers select the same keys.
    """
    # The hash is the top 24 bits of the key's 32-bit FNV-1a hash. These are independent of the low
    # bits, from which partitioners compute a partition.
    from partage.keys import partition_for

    found = partition_for(keys, partitions=2**31 - 1, partitioner="librdkafka:fnv1a")
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int32) >> 8


def in_sample(hashes: NDArray[np.int32], level: int) -> NDArray[np.bool_]:
    """Return which record keys belong to a sample of one key in 2**level, as a mask (bool[n]).

    ``hashes`` are the keys' `sample_hashes`. A sample of one key in 8, for example, is part of the
    sample of one key in 4.
    """
    stays: NDArray[np.bool_] = (hashes & ((1 << level) - 1)) == 0
    return stays


# -- partitioners that wrote a topic ------------------------------------------------------------

#: Pairs of a topic by which its joins are judged.
MOST_JOINED = 20_000
JUDGED_DDL = "topic string, found string, pairs binary"
#: The same as `murmur2` of a part of the key, and that is looked for with all its parts.
_WINDOWED = "streams:windowed"
#: Without metadata every count up to the partitions seen is tried, if they are no more than this.
_TRIED_COUNTS = 256
#: Of a family that was found, earlier counts up to this are tried.
_MOST_COUNTS = 4_096
#: Share of pairs that is explained where a count above the partitions seen is believed.
_MOSTLY = 0.95
#: Pairs on which so many are tried.
_TRIED_KEYS = 5_000


def judge_topics(
    known_counts: dict[str, tuple[int, ...]],
    joined_topics: frozenset[str],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Find the client partitioners that wrote each topic, in a Spark task; yield one row per topic.

    Args:
        known_counts: dict from topic to its partition counts over time, from cluster metadata.
        joined_topics: topics that may be joined; their rows contain a sample of their keys.
        batches: record counts by topic, key and partition from all workers, sorted by topic.
    """
    for topic, rows in _group_by_topic(batches):
        if topic == NOWHERE:
            yield _row(topic, str(sum(rows["records"].to_pylist())), None)
            continue
        found, pairs = _topic(topic, rows, known_counts.get(topic))
        kept_pairs = (
            _pack(_reduce_key_sample(pairs, MOST_JOINED)) if topic in joined_topics else None
        )
        yield _row(topic, json.dumps(found), kept_pairs)


def _row(topic: str, found: str, pairs: bytes | None) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [pa.array([topic]), pa.array([found]), pa.array([pairs], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["topic", "found", "pairs"])


def _group_by_topic(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """Yield each topic's name with a table of its rows, from batches that are sorted by topic.

    The rows of one topic may be spread over several batches.
    """
    import pyarrow as pa
    from pyarrow import compute

    name: str | None = None
    held: list[pa.Table] = []
    for batch in batches:
        table = pa.Table.from_batches([batch])
        for topic in compute.unique(table["topic"]).to_pylist():  # in order: the rows are sorted
            if topic != name and name is not None:
                yield name, pa.concat_tables(held)
                held = []
            name = topic
            held.append(table.filter(compute.equal(table["topic"], topic)))
    if name is not None:
        yield name, pa.concat_tables(held)


def _topic(
    topic: str, rows: pa.Table, known: tuple[int, ...] | None
) -> tuple[dict[str, Any], pa.Table]:
    from pyarrow import compute

    # Records of keys that were not sampled are included.
    records = int(compute.sum(rows["records"]).as_py() or 0)
    of_keyless = rows["records"].filter(compute.is_null(rows["key"]))
    keyless_records = int(compute.sum(of_keyless).as_py() or 0)
    rows = rows.filter(compute.is_valid(rows["partition"]))  # the others are only counted
    null = compute.is_null(rows["key"])
    keyless, keyed = rows.filter(null), rows.filter(compute.invert(null))
    pairs, level = _merge_worker_counts(keyed)
    seen = key_pairs(pairs)
    highest = max([*rows["partition"].to_pylist(), 0])
    verdict = infer_writers(
        seen, _list_possible_counts(known, highest, pairs), known_families(), partitions_of
    )
    # Without metadata: the fewest partitions that all records and producers fit into.
    now = known[-1] if known else max([highest + 1, *(w.partitions for w in verdict.writers)])
    split = count_split_keys(seen, verdict)
    where = keyless["partition"].to_numpy()
    at = keyless["first_ms"].to_numpy()
    nulls = null_keys(where.astype(np.int32), max(now, highest + 1), at)
    found = {
        "topic": topic, "counts": [*known] if known else [now],
        "counts_known": known is not None,
        "records": records, "keys": verdict.keys,
        "sampled": 1 << level, "status": verdict.status, "explained": verdict.explained,
        "writers": [_writer(w) for w in verdict.writers],
        "nulls": {
            "behaviour": nulls.behaviour, "records": keyless_records,
            "log10_chance": nulls.log10_chance,
        },
        "split": {
            "keys": split.keys, "grew": split.grew, "writers": split.writers,
            "unexplained": split.unexplained,
            "examples": [
                {"key": e.key.hex(), "reason": e.reason, "seen": e.seen} for e in split.examples
            ],
        },
    }  # fmt: skip
    return found, pairs


def _list_possible_counts(
    recorded_counts: tuple[int, ...] | None, highest: int, pairs: pa.Table
) -> tuple[int, ...]:
    """Return the partition counts that a topic may have had when its records were written.

    Args:
        recorded_counts: partition counts in the cluster metadata; None if unknown.
        highest: highest partition number of any record.
        pairs: a sample of (key, partition) pairs, which rules out some larger counts.
    """
    # Without metadata the smallest count is ``highest`` plus one. Larger counts are added if a
    # partitioner with that count places the sampled keys as observed.
    if recorded_counts:
        return (
            recorded_counts if highest < max(recorded_counts) else (*recorded_counts, highest + 1)
        )
    seen = highest + 1
    more = range(seen, min(seen + max(4, min(64, seen // 4)), MOST_PARTITIONS) + 1)
    level = 0
    some = pairs
    while len(some) > _TRIED_KEYS:
        level += 1
        some = filter_by_level(pairs, level)
    verdict = _find_partitioners_and_counts(key_pairs(some), seen, more)
    # Counts with a common divisor put many a key into the same partition: beyond what was seen
    # there is one at most, and nearly all must be explained.
    fit = {w.partitions for w in verdict.writers}
    beyond = {n for n in fit if n > seen}
    if len(beyond) > 1 or verdict.explained < _MOSTLY:
        fit -= beyond
    return tuple(sorted({seen, *fit}))


def _find_partitioners_and_counts(pairs: KeyPairs, smallest: int, larger: range) -> InferredWriters:
    """Find the client partitioners and partition counts that explain where the sampled keys are.

    Args:
        pairs: sampled (key, partition) pairs of a topic.
        smallest: smallest possible count, which is the highest partition number plus one.
        larger: range of larger partition counts to try.
    """
    # If ``smallest`` is low, all counts up to the end of ``larger`` are tried. Otherwise the counts
    # in ``larger`` are tried first, and then smaller counts with the partitioners found so far.
    if smallest <= _TRIED_COUNTS:
        return infer_writers(pairs, range(1, larger.stop), known_families(), partitions_of)
    first = infer_writers(pairs, larger, known_families(), partitions_of)
    if not first.writer_families:
        return first
    counts = (*range(2, min(smallest, _MOST_COUNTS)), *larger)
    return infer_writers(pairs, counts, first.writer_families, partitions_of)


def _merge_worker_counts(keyed: pa.Table) -> tuple[pa.Table, int]:
    """Add up the record counts that all workers found for one topic, by key and partition.

    Workers may have sampled at different rates, so only keys that are in all samples remain. Return
    the summed table and its sampling level n: one key in 2**n is in it.
    """
    import pyarrow as pa
    from pyarrow import compute

    level = int(compute.max(keyed["level"]).as_py() or 0)
    if len(keyed):
        keyed = filter_by_level(keyed, level)
    sums = [("records", "sum"), ("first_ms", "min"), ("last_ms", "max")]
    merged = keyed.group_by(["key", "partition"], use_threads=False).aggregate(sums)
    merged = merged.rename_columns(["key", "partition", "records", "first_ms", "last_ms"])
    merged = merged.append_column("level", pa.array(np.full(len(merged), level, np.int32)))
    merged = _reduce_key_sample(merged, MOST_PAIRS)
    return merged, max([level, *merged["level"].to_pylist()[:1]])


def _reduce_key_sample(pairs: pa.Table, max_rows: int) -> pa.Table:
    """Reduce a topic's sample of keys until at most ``max_rows`` (key, partition) rows are left.

    A hash of the key decides which keys remain, so that samples of all topics have the same keys.
    """
    import pyarrow as pa

    level = max([0, *pairs["level"].to_pylist()[:1]])
    while len(pairs) > max_rows:
        level += 1
        pairs = filter_by_level(pairs, level)
    levels = pa.array(np.full(len(pairs), level, np.int32))
    return pairs.set_column(pairs.schema.get_field_index("level"), "level", levels)


def filter_by_level(pairs: pa.Table, level: int) -> pa.Table:
    """Return the (key, partition) pairs whose keys belong to a sample of one key in 2**level.

    A hash of the key decides, so that samples of all topics have the same keys.
    """
    import pyarrow as pa

    if not level:
        return pairs
    return pairs.filter(pa.array(in_sample(sample_hashes(pairs["key"].combine_chunks()), level)))


def key_pairs(pairs: pa.Table) -> KeyPairs:
    """Convert an Arrow table of (key, partition) pairs and record counts to NumPy columns.

    The partitioners that wrote the topic are found from these columns.
    """
    numbers = [pairs[n].to_numpy().astype(np.int64) for n in ("records", "first_ms", "last_ms")]
    return KeyPairs(
        pairs["key"].to_pylist(), pairs["partition"].to_numpy().astype(np.int32), *numbers
    )


def _pack(pairs: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pairs.schema) as writer:
        writer.write_table(pairs)
    return bytes(sink.getvalue())


def _writer(writer: WriterFamily) -> dict[str, Any]:
    return {
        "name": writer.family.name, "hash": hash_name(writer.family.partitioners),
        "clients": find_clients(writer.family.partitioners),
        "partitioners": list(writer.family.partitioners),
        "hashes": writer.family.part.description, "partitions": writer.partitions,
        "share": writer.share, "pairs": writer.pairs, "only": writer.only,
        "log10_chance": writer.log10_chance, "first_ms": writer.first_ms,
        "last_ms": writer.last_ms, "rivals": [r.name for r in writer.rivals],
    }  # fmt: skip


@lru_cache(maxsize=1)
def known_families() -> list[PartitionerFamily]:
    """Return families of client partitioners: those of a family choose equal partitions for all
    keys.

    The families are found once per process, by comparing the partitioners on test keys.
    """
    from partage.keys import by_key

    names = [name for name in by_key() if name != _WINDOWED]
    return group_equivalent_partitioners(names, partitions_of, windowed=["murmur2"])


def partitions_of(partitioner: str, keys: Sequence[bytes], partitions: int) -> Any:
    """Return the partition that a client partitioner chooses for each key (int32[n]).

    A partitioner that accepts only text gets -1 for a key that is not UTF-8 text.

    Args:
        partitioner: name of the partitioner, such as ``murmur2``.
        keys: the keys of records.
        partitions: the topic's partition count.
    """
    from partage.keys import partition_for

    # The keys are there, so some producer was allowed to send them, however long they are.
    run = partial(
        partition_for, partitions=partitions, partitioner=partitioner, longest_key=MOST_PARTITIONS
    )
    try:
        return run(keys)
    except InvalidKeysError:
        text = np.array([_is_text(key) for key in keys])
        out = np.full(len(keys), -1, np.int32)
        some = [key for key, is_text in zip(keys, text, strict=True) if is_text]
        if some:
            out[text] = run(some)
        return out


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
