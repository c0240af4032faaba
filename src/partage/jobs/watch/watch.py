"""`partage watch`: follow a cluster's groups as a stream. This is the entry point.

1. A source reads and decodes the log: a growing capture (`CaptureSource`, positions in
   `capture_log`), or the topic itself through Spark's Kafka source (`_stream_kafka_rows`). Workers
   decode as in a replay, so that keys and values do not pass between JVM and Python twice.
2. `GroupProcessor` updates one group (`group_tables`). Spark keeps its state in RocksDB: what
   offset commits change, and the history, which most micro-batches do not need.
3. `_Publisher` writes the tables of each micro-batch (`stream_output`).

After a crash Spark repeats the micro-batch from its checkpoint, with the same positions and the
states before it. The new files replace those of the crashed attempt.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from partage.capture.connection import client_error
from partage.capture.durable import append_line, truncate_torn_line, write_json
from partage.capture.manifest import expect_streamable_capture
from partage.capture.metadata_image import cluster_state
from partage.errors import MissingExtraError, PartageError, SparkFailedError
from partage.history.clusters import ClusterHistory
from partage.history.transactions import Transactions
from partage.jobs.replay.capture import LogContext, read_context
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.replay.records import cast_record_columns
from partage.jobs.spark.failures import jvm_errors, worker_errors
from partage.jobs.spark.session import spark_session
from partage.jobs.spark.shipping import load_kernels
from partage.jobs.spark.tables import PREFIX, KafkaTable, open_kafka
from partage.jobs.watch.capture_log import (
    SETTLE_MS,
    STREAM_COLUMNS,
    CaptureLog,
    LogPiece,
    Position,
    decoded_rows,
    read_piece,
    whole_lines,
)
from partage.jobs.watch.group_tables import (
    GroupUpdate,
    StoredGroup,
    TableRows,
    close_group,
    decoded_changes,
    parse_moves,
    update_commits,
    update_history,
)
from partage.jobs.watch.stream_output import (
    StreamFolder,
    StreamLakeTables,
    expect_stream_folder,
    parse_lake_option,
    write_changes,
)
from partage.model.validation import expect_local

try:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import Row
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
    from pyspark.sql.streaming.stateful_processor import (
        StatefulProcessor,
        StatefulProcessorHandle,
    )
except ImportError:
    raise MissingExtraError("pyspark", extra="spark") from None

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["BatchReport", "CaptureSource", "GroupProcessor", "StreamSettings", "watch_groups"]

#: A deleted group's state is dropped after this time without a record.
_DELETED_MS = 7 * 86_400_000
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": _PROVIDER,
    # Only what changed is uploaded with each micro-batch.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Timers fire with the next records; batches without any would follow each other endlessly.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # One limit for all state stores of a node, instead of one for each.
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
}
_DDL = ", ".join(f"`{name}` {kind}" for name, kind in STREAM_COLUMNS.items())
_CHANGES_DDL = "group string, table string, final boolean, length bigint, data binary"
#: Two states, so that micro-batches that need no history do not read and write it.
_STATE_DDL = (
    "digests string, commits string, metadata_bytes bigint, log_partition int, moves string, "
    "timer_ms bigint"
)
_HISTORY_DDL = "history binary"
_RECEIPTS_DDL = "what string, text string"


@dataclass(frozen=True)
class BatchReport:
    """Progress report about one published micro-batch of `partage watch`.

    Attributes:
        number: number of the micro-batch.
        opened: rows of table ``opened``: the generations that began in this micro-batch.
        seconds: time that the micro-batch took so far.
    """

    number: int
    opened: list[dict[str, Any]]
    seconds: float


@dataclass(frozen=True)
class StreamSettings:
    """Settings of `partage watch`: its pace, additional outputs, and the Kafka client.

    Attributes:
        once: whether to end when all records that exist at the start are processed.
        every: seconds between two micro-batches.
        most_records: approximate number of log records of a micro-batch.
        tables: Delta or Iceberg tables to write too, see `stream_output.parse_lake_option`.
        kafka: properties of the Kafka client, if the source is a running cluster.
    """

    once: bool = False
    every: float = 2.0
    most_records: int = 500_000
    tables: str | None = None
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)


def watch_groups(
    source: str | Path,
    out: str | Path,
    settings: StreamSettings | None = None,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    report: Callable[[BatchReport], None] = lambda _: None,
    stop: threading.Event | None = None,
) -> StreamFolder:
    """Follow a growing capture or a running cluster, and write tables of its consumer groups.

    A second call with the same folder continues where the first one ended or was killed.

    Args:
        source: the folder of a capture, or ``kafka://host:port``.
        out: the output folder.
        settings: pace of the stream, and properties of the Kafka client.
        spark: a running session, which stays open; None starts one in this process.
        master: Spark's master for a session that is started here; None for ``local[*]``.
        conf: more settings of Spark.
        report: called with each published micro-batch, from another thread.
        stop: event that ends the stream; an interrupted micro-batch is repeated by the next call.

    Returns:
        The folder with the tables.

    Raises:
        InvalidCaptureError: the capture cannot be used.
        InvalidConfigError: the output folder cannot be used.
        MissingExtraError, MissingJavaError: Spark cannot be started.
        SparkFailedError: one of Spark's processes was killed.
    """
    expect_local(out, "--out")
    _expect_protobuf()
    wanted = settings or StreamSettings()
    if wanted.tables is not None:
        parse_lake_option(wanted.tables)
    folder = StreamFolder(Path(out).absolute())
    is_cluster = str(source).startswith(PREFIX)
    name = str(source) if is_cluster else str(Path(source).absolute())
    topic = open_kafka(name, wanted.kafka) if is_cluster else None
    if topic is None:
        expect_streamable_capture(Path(name))
    expect_stream_folder(folder.path.parent, name)
    folder.create_folders()
    with ExitStack() as opened:
        opened.enter_context(folder.lock_folder())
        if topic is not None:
            opened.enter_context(_MetadataRecorder(topic, folder.metadata))
            metadata = folder.metadata
            config = folder.path / "cluster-config.json"  # a replay of the folder reads it
            if topic.configs or not config.exists():
                write_json(config, {"configs": dict(topic.configs)})
            context = read_context(folder.path)
        else:
            metadata = Path(name) / "cluster.jsonl"
            context = read_context(name)
        opened.enter_context(jvm_errors())
        running = opened.enter_context(
            spark_session(spark, master=master, conf=_stream_settings(conf, master, spark))
        )
        opened.enter_context(worker_errors())
        lake = None
        if wanted.tables is not None:
            lake = StreamLakeTables(running, *parse_lake_option(wanted.tables))
            lake.create_tables()
        rows = (
            _capture_rows(running, name, wanted)
            if topic is None
            else _stream_kafka_rows(running, topic, metadata, wanted)
        )
        processor = GroupProcessor(str(metadata), context, keeps_decoded=topic is not None)
        publisher = _Publisher(folder, lake, report)
        _run_query(rows, processor, publisher, wanted, stop=stop or threading.Event())
    return folder


def _run_query(
    rows: DataFrame,
    processor: GroupProcessor,
    publisher: _Publisher,
    settings: StreamSettings,
    *,
    stop: threading.Event,
) -> None:
    """Start the Spark streaming query of `partage watch`, and wait until it ends or is stopped."""
    changes = (
        rows.selectExpr("coalesce(`group`, '') as `group_key`", "*")
        .groupBy("group_key")
        .transformWithState(
            statefulProcessor=processor, outputStructType=_CHANGES_DDL, outputMode="Append",
            timeMode="ProcessingTime",
        )
    )  # fmt: skip
    pace: dict[str, Any] = (
        {"availableNow": True} if settings.once else {"processingTime": f"{settings.every} seconds"}
    )
    query = (
        changes.writeStream.outputMode("append")
        .foreachBatch(publisher.publish_batch)
        .option("checkpointLocation", str(publisher.folder.checkpoint))
        .trigger(**pace)
        .start()
    )
    try:
        while not query.awaitTermination(1):
            if stop.is_set():
                query.stop()
    except StreamingQueryException as e:
        if "partage.errors." in str(e):
            raise  # a worker's error, which `worker_errors` translates
        reason = str(e).partition("terminated with exception: ")[2].partition("\n")[0]
        what = f"Spark ended the stream ({reason[:300] or type(e).__name__})"
        raise SparkFailedError(f"{what}: run again to continue") from None
    finally:
        query.stop()


def _stream_settings(
    conf: Mapping[str, str] | None, master: str | None, users_session: SparkSession | None
) -> dict[str, str]:
    """Return the Spark settings of a stream; those of the user (``conf``) take precedence.

    The number of shuffle partitions is fixed, because a restarted query must use the same.
    """
    del master, users_session
    return {"spark.sql.shuffle.partitions": "4", **_SETTINGS, **(conf or {})}


def _expect_protobuf() -> None:
    """Raise an error if protobuf is missing, which stateful streaming queries of PySpark need."""
    try:
        is_missing = find_spec("google.protobuf") is None
    except ModuleNotFoundError:
        is_missing = True
    if is_missing:
        raise MissingExtraError("protobuf", extra="spark")


# --- sources ----------------------------------------------------------------------------------


class _Piece(InputPartition):
    """Range of log records that one Spark task of a stream reads (Spark's `InputPartition`)."""

    def __init__(self, piece: LogPiece) -> None:
        self.piece = piece


class CaptureSource(DataSource):
    """Spark data source that streams the decoded records of a growing capture.

    It has two options: ``path`` is the folder of the capture, and ``records`` is the maximum number
    of records in a micro-batch.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of this data source, which Spark's `DataStreamReader.format` takes."""
        return "partage_capture"

    def schema(self) -> str:
        """Return the names and types of the data source's columns, as Spark SQL."""
        return _DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return the reader that finds new records; Spark calls this method on the driver."""
        del schema
        return _CaptureReader(self.options["path"], int(self.options["records"]))


class _CaptureReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, path: str, records: int) -> None:
        self._log = CaptureLog(Path(path))
        self._records = records
        self._is_fixed = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Return the position at which a new stream begins: before the first record of the log."""
        return Position({}, 0).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        """Return the maximum number of records in a micro-batch, as a Spark read limit."""
        return ReadMaxRows(self._records)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Return the position in the log at which the micro-batch that begins at ``start`` ends."""
        at = Position.of_json(start)
        if not self._is_fixed:
            self._log.list_new_files()
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        found = self._log.batch_end(at, None if isinstance(limit, ReadAllAvailable) else most)
        return found.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """List the capture's files only once, so that the stream ends with these records."""
        self._log.list_new_files()
        self._is_fixed = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[_Piece]:
        """Divide the log from position ``start`` to ``end`` into parts, one for each Spark task."""
        if not self._log.is_listed:
            self._log.list_new_files()
        return [
            _Piece(p)
            for p in self._log.divide_records(Position.of_json(start), Position.of_json(end))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read and decode one part of the log (``partition``); Spark calls it in a worker."""
        return read_piece(partition.piece)  # type: ignore[attr-defined]  # a `_Piece`

    def commit(self, end: dict[str, Any]) -> None:
        """Free memory for the log before position ``end``, which Spark has processed."""
        self._log.forget_transactions(Position.of_json(end))


def _capture_rows(spark: SparkSession, path: str, wanted: StreamSettings) -> DataFrame:
    spark.dataSource.register(CaptureSource)
    reader = spark.readStream.format(CaptureSource.name())
    return reader.option("path", path).option("records", str(wanted.most_records)).load()


def _stream_kafka_rows(
    spark: SparkSession, topic: KafkaTable, metadata: Path, settings: StreamSettings
) -> DataFrame:
    """Return a cluster's decoded ``__consumer_offsets`` records as a streaming data frame."""
    records = topic.read_stream(spark, settings.most_records)
    tasks = max(1, spark.sparkContext.defaultParallelism)
    return records.coalesce(tasks).mapInArrow(partial(_decode_batches, str(metadata)), _DDL)


def _decode_batches(metadata: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode records of ``__consumer_offsets`` that Spark read from Kafka, in a Spark worker.

    Causes of rebalances are found with cluster metadata. So decoding waits until the file
    ``metadata`` covers the times of the records.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    none = Transactions()
    for batch in batches:
        if not batch.num_rows:
            continue
        newest = pc.max(batch.column("timestamp_ms")).as_py() or 0
        time.sleep(max(0.0, min(SETTLE_MS, newest + SETTLE_MS - time.time() * 1_000)) / 1_000)
        table = cast_record_columns(pa.Table.from_batches([batch]))
        yield from decoded_rows(table, none, whole_lines(Path(metadata)), counts=True)


class _MetadataRecorder:
    """Thread that appends changes of a running cluster's metadata to a file, once a second."""

    _SECONDS = 1.0

    def __init__(self, topic: KafkaTable, path: Path) -> None:
        self._topic, self._path = topic, path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._record_metadata, daemon=True)
        self._last: dict[str, Any] = {}

    def __enter__(self) -> _MetadataRecorder:  # noqa: PYI034 - typing.Self is of Python 3.11
        last = truncate_torn_line(self._path)
        before = json.loads(last) if last else {}
        (state,) = self._topic.states
        if not before:
            # The same metadata is assumed for the time before; a replay infers it from records.
            self._write(state)
        elif not before.get("assumed"):
            self._last = _content(before)
        self._add({"ts_ms": _now_ms(), **_content(state)})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=10)

    def _record_metadata(self) -> None:
        """Record changes of the cluster's metadata until stopped; reconnect after errors."""
        while not self._stop.is_set():
            with (
                suppress(PartageError, client_error(), OSError),
                self._topic.connect_without_spark() as asked,
            ):
                while not self._stop.wait(self._SECONDS):
                    self._add(
                        cluster_state(asked.fetch_metadata(), ts_ms=_now_ms(), controller=None)
                    )
            self._stop.wait(self._SECONDS)

    def _add(self, state: Mapping[str, Any]) -> None:
        if _content(state) != self._last:
            self._last = _content(state)
            self._write(state)

    def _write(self, state: Mapping[str, Any]) -> None:
        append_line(self._path, json.dumps(state, separators=(",", ":")))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _content(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name not in {"ts_ms", "assumed"}}


# --- groups -----------------------------------------------------------------------------------


class _StoredState(NamedTuple):
    """State of a consumer group that Spark stores between micro-batches, without its history.

    Attributes:
        digests, commits: as in `StoredGroup`.
        metadata_bytes: size of the part of ``cluster.jsonl`` used for the last micro-batch.
        moves: changes of the group's coordinator broker, as JSON text of `serialize_moves`.
        timer_ms: time at which the state of a deleted group is removed; None if the group exists.
    """

    digests: str
    commits: str
    metadata_bytes: int
    log_partition: int
    moves: str
    timer_ms: int | None


class GroupProcessor(StatefulProcessor):
    """Spark's stateful processor for consumer groups: updates a group's state and output tables.

    Args:
        metadata: path of ``cluster.jsonl``, the same on all nodes.
        settings: the broker's settings; coordinator moves are added to them.
        keeps_decoded: whether to write the decoded rows too, for a replay of the stream's folder.
    """

    def __init__(self, metadata: str, settings: LogContext, *, keeps_decoded: bool = False) -> None:
        self._metadata = metadata
        self._settings = settings
        self._keeps_decoded = keeps_decoded

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open Spark's state store for this task's consumer groups; Spark passes ``handle``."""
        load_kernels()
        self._handle = handle
        self._state = handle.getValueState("group", _STATE_DDL)
        self._history = handle.getValueState("history", _HISTORY_DDL)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Any,
        timerValues: Any,  # noqa: N803 - Spark's name
    ) -> Iterator[Row]:
        """Update a consumer group's state with its new records, and yield its new table rows.

        Spark calls it with the group id (``key``) and the group's decoded records of a micro-batch.
        """
        (name,) = key
        batch = _arrow_batch(rows)
        if self._keeps_decoded:
            yield from _changes(name, [decoded_changes(batch)])
            batch = _without_counts(batch)
            if not batch.num_rows:
                return
        before = self._load()
        sizes, partitions, texts = (
            [cell for cell in batch.column(column).to_pylist() if cell is not None]
            for column in ("metadata_bytes", "log_partition", "moves")
        )
        at = partitions[0] if partitions else -1
        moves = max(texts, key=len, default="" if before is None else before.moves)
        found = self._process_group_batch(name, batch, before, (max(sizes), at, moves))
        timer_ms = self._set_removal_timer(
            None if before is None else before.timer_ms, found.deleted_ms,
            timerValues.getCurrentProcessingTimeInMs(),
        )  # fmt: skip
        stored = found.stored
        state = _StoredState(stored.digests, stored.commits, max(sizes), at, moves, timer_ms)
        self._state.update(state)
        yield from _changes(name, found.rows)

    def _process_group_batch(
        self,
        name: str,
        batch: pa.RecordBatch,
        state_so_far: _StoredState | None,
        metadata_and_moves: tuple[int, int, str],
    ) -> GroupUpdate:
        """Process a consumer group's records of a micro-batch, and store its history if it changed.

        ``state_so_far`` is its stored state without history; None for a new group.
        ``metadata_and_moves`` has the bytes of cluster metadata to read, the log partition, and the
        coordinator moves as text.
        """
        size, at, moves = metadata_and_moves
        if state_so_far is not None:
            stored = StoredGroup(None, state_so_far.digests, state_so_far.commits)
            context = replace(self._settings, moves=parse_moves(at, moves))
            quick = update_commits(name, stored, [batch], context)
            if quick is not None:
                return quick
        around = self._metadata_and_moves(size, at, moves)
        found = update_history(name, self._stored_state(state_so_far), [batch], *around)
        self._history.update((found.stored.history,))
        return found

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: Any,  # noqa: N803 - Spark's name
        expiredTimerInfo: Any,  # noqa: N803 - Spark's name
    ) -> Iterator[Row]:
        """Remove the state of a group that was deleted a week ago, and yield its last rows.

        Spark calls it with the group id (``key``) when the group's timer expires.
        """
        del timerValues, expiredTimerInfo
        (name,) = key
        before = self._load()
        if before is None or before.timer_ms is None:
            return
        clusters, context = self._metadata_and_moves(
            before.metadata_bytes, before.log_partition, before.moves
        )
        rows = close_group(name, self._stored_state(before) or StoredGroup(None), clusters, context)
        self._state.clear()
        self._history.clear()
        yield from _changes(name, rows)

    def _load(self) -> _StoredState | None:
        row = self._state.get()
        return None if row is None else _StoredState(*row)

    def _stored_state(self, state: _StoredState | None) -> StoredGroup | None:
        """Return a consumer group's stored state with its history; None if the group is new."""
        row = None if state is None else self._history.get()
        if state is None:
            return None
        history = None if row is None or row[0] is None else bytes(row[0])
        return StoredGroup(history, state.digests, state.commits)

    def _metadata_and_moves(
        self, size: int, partition: int, moves: str
    ) -> tuple[ClusterHistory, LogContext]:
        """Return the cluster metadata, and the times when the group's coordinator moved to another
        broker.

        Args:
            size: number of bytes of ``cluster.jsonl`` to read.
            partition: the group's partition of ``__consumer_offsets``.
            moves: coordinator moves as text, see `serialize_moves`.
        """
        context = replace(self._settings, moves=parse_moves(partition, moves))
        return _clusters_until(self._metadata, size), context

    def _set_removal_timer(
        self, before_ms: int | None, deleted_ms: int | None, now_ms: int
    ) -> int | None:
        """Set or delete the timer after which the state of a deleted group is removed.

        Return the time at which the timer expires (ms); None without a timer.

        Args:
            before_ms: time at which the existing timer expires; None without a timer.
            deleted_ms: time of the group's deletion; None if it exists.
            now_ms: the present time.
        """
        if before_ms is not None and deleted_ms is None:
            self._handle.deleteTimer(before_ms)
        if deleted_ms is None or before_ms is not None:
            return None if deleted_ms is None else before_ms
        timer_ms = now_ms + _DELETED_MS
        self._handle.registerTimer(timer_ms)
        return timer_ms


def _arrow_batch(rows: Iterable[Row]) -> pa.RecordBatch:
    import pyarrow as pa

    types = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "binary": pa.binary()}
    columns = list(zip(*rows, strict=True))[-len(STREAM_COLUMNS) :]
    kinds = [types[kind] for kind in STREAM_COLUMNS.values()]
    arrays = [pa.array(cells, kind) for cells, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(STREAM_COLUMNS))


def _without_counts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Remove the rows with record counts from a batch, because they belong to no consumer group."""
    from pyarrow import compute as pc

    return batch.filter(pc.not_equal(batch.column("kind"), int(DecodedKind.TALLY)))


def _changes(name: str, rows: Iterable[TableRows]) -> Iterator[Row]:
    for one in rows:
        yield Row(group=name, **one._asdict())


#: Metadata of the worker's file: the bytes read of it, and the history so far.
_KNOWN: dict[str, tuple[int, ClusterHistory]] = {}


def _clusters_until(path: str, size: int) -> ClusterHistory:
    """Parse the cluster metadata in the first ``size`` bytes of ``cluster.jsonl`` (``path``).

    A worker process caches the parsed lines, and reads only the bytes after them in the next call.
    """
    begin, clusters = _KNOWN.get(path, (0, ClusterHistory([])))
    if begin > size:
        begin, clusters = 0, ClusterHistory([])
    with Path(path).open("rb") as file:
        file.seek(begin)
        data = file.read(size - begin)
    for line in data.splitlines():
        if line.strip():
            clusters.append_metadata(json.loads(line))
    _KNOWN[path] = (size, clusters)
    return clusters


# --- micro-batches ----------------------------------------------------------------------------


@dataclass
class _Publisher:
    """Writer of the Spark query: it publishes the output tables of each micro-batch."""

    folder: StreamFolder
    lake: StreamLakeTables | None
    report: Callable[[BatchReport], None]

    def publish_batch(self, changes: DataFrame, batch: int) -> None:
        """Write and publish the table rows of one micro-batch, given as a Spark data frame."""
        began = time.monotonic()
        self.folder.merge_small_files(batch)
        job = partial(write_changes, str(self.folder.path), batch)
        rows = changes.repartition("table").mapInArrow(job, _RECEIPTS_DDL).collect()
        files = [tuple(json.loads(row.text)) for row in rows if row.what == "file"]
        opened = [json.loads(row.text) for row in rows if row.what == "opened"]
        if files:
            by_table = self.folder.publish_batch(batch, files)
            if self.lake is not None:
                self.lake.merge_batch(self.folder.path, batch, by_table)
            self.report(BatchReport(batch, opened, time.monotonic() - began))
