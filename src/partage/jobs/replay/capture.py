"""The input of a replay: find and check a capture's folder, Parquet files, a table or a cluster.

| file                        | needed | what                                            |
|-----------------------------|--------|-------------------------------------------------|
| ``consumer_offsets.parquet``| yes    | the records; may be a folder of Parquet files    |
| ``cluster.jsonl``           | no     | the cluster's metadata over time; else inferred  |
| ``batches.parquet``         | no     | transactions; else their commits count at once   |

If ``partage capture`` has recorded the folder, its manifest ``capture.json`` lists the complete
files.

The input may also be a Parquet file, a folder of such files (partitioned or not), or a table that
only Spark reads (Delta, Iceberg, a name in its catalog, an address). The other two files are then
looked for in that folder and beside it. Spark reads the records at an address; the small files are
downloaded to the driver (`with_remote_files`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from partage.capture.manifest import MANIFEST, CaptureManifest
from partage.errors import InvalidCaptureError
from partage.history.clusters import ClusterHistory, CoordinatorMove, find_moves
from partage.jobs.replay.records import (
    CAPTURE_CONTENTS,
    Slice,
    cut_slices,
    open_parquet,
    read_slice,
)
from partage.jobs.replay.tally import ClockCorrections
from partage.jobs.spark.remote_files import RemoteFiles, explain_storage_error
from partage.jobs.spark.tables import (
    PREFIX,
    KafkaTable,
    SparkTable,
    is_address,
    open_kafka,
    spark_table,
)
from partage.runs.stream_manifests import current_manifests, stream_source

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = [
    "Capture",
    "LogContext",
    "Slice",
    "context_of",
    "files_of",
    "open_capture",
    "open_records",
    "read_context",
    "read_metadata",
    "read_slice",
    "with_remote_files",
]

#: Warnings of a capture that a replay repeats.
_MOST_REPEATED_WARNINGS = 5
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


@dataclass(frozen=True)
class Capture:
    """Validated input of a replay: the records of ``__consumer_offsets`` and its metadata files.

    The records are in Parquet files, or in a table or topic that Spark reads.

    Attributes:
        folder: the source as given; a path is made absolute.
        slices: row ranges of the files with records, which workers read; empty if Spark reads the
            files.
        records: number of rows of these files; None if Spark reads them.
        states: cluster metadata, one dict for each line of ``cluster.jsonl``; empty without the
            file.
        batches: transactional rows of ``batches.parquet``; None without the file.
        table: the table or topic that Spark reads; None for Parquet files.
        notes: messages for the user about data that was left out.
        beside: for a capture in remote storage, the local folder with copies of its metadata files;
            None for a local one.
        known: dict from log partition to the highest offset that an earlier run has read; records
            up to there are not decoded again. None if the run neither continues nor prepares
            another.
        decoded: files with rows of the decode job that `partage watch` has written; None for
            records.
        newest_batch: the newest micro-batch in ``decoded``; -1 for records.
    """

    folder: Path | str
    slices: tuple[Slice, ...]
    records: int | None
    states: tuple[Mapping[str, Any], ...]
    batches: tuple[Mapping[str, Any], ...] | None
    table: SparkTable | None = None
    notes: tuple[str, ...] = ()
    beside: Path | None = None
    known: Mapping[int, int] | None = None
    decoded: tuple[Path, ...] | None = None
    newest_batch: int = -1


def open_capture(
    source: str | Path,
    *,
    kafka: Mapping[str, str] | None = None,
) -> Capture:
    """Check that the input of a replay can be read, and return it as a `Capture`.

    Records are not read here.

    Args:
        source: a folder, a file, a table, ``kafka://host:port``, or the output folder of `partage
            watch`.
        kafka: properties of the Kafka client, if the source is a running cluster.

    Raises:
        InvalidCaptureError: the source is missing, empty or has a column of a wrong type; the
            message says what to do.
    """
    if str(source).startswith("kafka://"):
        cluster = open_kafka(str(source), kafka)
        return Capture(cluster.name, (), None, cluster.states, None, cluster)
    table = spark_table(source)
    if table is not None:
        at = Path(source).absolute()
        beside = at if at.is_dir() else None
        return Capture(table.name, (), None, _states(beside), _batches(beside), table)
    at = Path(source).absolute()
    if not at.exists():
        raise InvalidCaptureError(f"{source}: no such folder; give the folder of a capture")
    if (at / "stream").is_dir():
        return _open_stream(at)
    records = at / "consumer_offsets.parquet"
    inside = at if at.is_dir() else at.parent
    if not records.exists() and any(_find_record_files(at)):
        records = at
    slices = cut_slices(_parquet_files(records))
    count = sum(s.rows for s in slices)
    if count == 0:
        raise InvalidCaptureError(
            f"{records}: the capture is empty (0 records); record it again, "
            "with a consumer that may read internal topics"
        )
    return Capture(
        at, slices, count, _states(inside), _batches(inside), notes=_capture_warnings(inside)
    )


def _open_stream(watch_folder: Path) -> Capture:
    """Return the input of a replay for a folder that `partage watch` has written.

    It is the capture that was watched. If a running cluster was watched, it is the records that
    `partage watch` has decoded.

    Raises:
        InvalidCaptureError: the capture is gone, or no micro-batch is published.
    """
    source, stream = stream_source(watch_folder), watch_folder / "stream"
    if source is not None and not source.startswith(PREFIX):
        if not Path(source).exists():
            raise InvalidCaptureError(
                f"{watch_folder}: has the stream of {source}, which does not exist"
            )
        return open_capture(source)
    some = current_manifests(stream)
    files = [stream / "tables" / "decoded" / name for one in some
             for name in one.files.get("decoded", ())]  # fmt: skip
    if not files:
        raise InvalidCaptureError(
            f"{watch_folder}: the stream has no records yet; run partage watch"
        )
    return Capture(
        watch_folder, (), None, _states(stream), None, beside=stream, decoded=tuple(files),
        newest_batch=max(one.last for one in some),
    )  # fmt: skip


def open_records(source: str | Path) -> tuple[Slice, ...]:
    """Check the Parquet files of a capture's records, and divide them into row ranges for workers.

    ``source`` is a file or a folder.

    Raises:
        InvalidCaptureError: a file or column is missing or of a wrong type; the message says what
            to do.
    """
    at = Path(source).absolute()
    if not at.exists():
        raise InvalidCaptureError(f"{source}: no such file or folder")
    inside = at / "consumer_offsets.parquet"
    return cut_slices(_parquet_files(inside if inside.exists() else at))


def _find_record_files(path: Path) -> list[Path]:
    """Return the sorted paths of all Parquet files in a folder that contain log records.

    Left out are hidden files, folders of table formats (such as ``_delta_log``), and a capture's
    other tables.
    """
    if path.is_file():
        return [path] if path.suffix == ".parquet" else []
    found = (p for p in path.rglob("*.parquet") if p.is_file())
    mine = {"batches.parquet", "topics.parquet"}
    return sorted(
        p for p in found
        if not any(x in mine or x[0] in "._" for x in p.relative_to(path).parts)
    )  # fmt: skip


def _parquet_files(path: Path) -> list[Path]:
    if path.is_dir():
        found = files_of(path)
        if not found:
            raise InvalidCaptureError(f"{path}: has no Parquet files; {CAPTURE_CONTENTS}")
        return found
    if not path.is_file():
        raise InvalidCaptureError(f"{path}: no such file; {CAPTURE_CONTENTS}")
    return [path]


def files_of(table: Path) -> list[Path]:
    """Return the complete Parquet files of one table of a capture.

    If `partage capture` wrote a manifest, only the files in it are complete. Any other file is
    still being written, or its writer was killed. Without a manifest all files count as complete.
    ``table`` is a file or a folder.

    Raises:
        InvalidCaptureError: the manifest cannot be read.
    """
    if not table.is_dir():
        return [table]
    manifest = CaptureManifest.load_manifest(table.parent)
    if manifest is None or table.name not in {"consumer_offsets.parquet", "batches.parquet"}:
        return _find_record_files(table)
    return [table / one.file_name for one in manifest.parts]


def read_metadata(
    folder: Path,
) -> tuple[tuple[Mapping[str, Any], ...], tuple[Mapping[str, Any], ...] | None, tuple[str, ...]]:
    """Read a capture's metadata files: cluster metadata, transactions, and warnings.

    Returns:
        the lines of ``cluster.jsonl``, the transactional rows of ``batches.parquet`` (None without
            the file), and messages for the user.

    Raises:
        InvalidCaptureError: a file cannot be read.
    """
    return _states(folder), _batches(folder), _capture_warnings(folder)


def _find_file(folder: Path | None, name: str) -> Path | None:
    """Return the path of a capture's metadata file; None if it is missing.

    The file may be in the folder of the records, or one folder above.
    """
    for at in [] if folder is None else [folder, folder.parent]:
        if (at / name).exists():
            return at / name
    return None


def _states(folder: Path | None) -> tuple[Mapping[str, Any], ...]:
    path = _find_file(folder, "cluster.jsonl")
    if path is None:
        return ()
    states = []
    data = path.read_bytes()
    if (path.parent / MANIFEST).is_file() or _warn_about_torn_line(folder):
        data = data[: data.rfind(b"\n") + 1]  # a line that is being written, or was torn by a kill
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            states.append(json.loads(line))
        except (ValueError, RecursionError) as e:
            raise InvalidCaptureError(f"{path} line {number}: not JSON ({e})") from None
    if not states:
        raise InvalidCaptureError(f"{path}: has no lines; record the cluster's metadata again")
    ClusterHistory(states).check_metadata()  # says what is wrong now, not in a worker
    _expect_one_cluster(path, states)
    return tuple(states)


def _capture_warnings(folder: Path) -> tuple[str, ...]:
    """Return the warnings in a capture's manifest, as texts for the user.

    Another warning says that the last line of ``cluster.jsonl`` is incomplete.
    """
    path = _find_file(folder, MANIFEST)
    manifest = None if path is None else CaptureManifest.load_manifest(path.parent)
    troubles = [] if manifest is None else manifest.troubles
    found = [f"The capture has a warning: {one}." for one in troubles[:_MOST_REPEATED_WARNINGS]]
    if len(troubles) > _MOST_REPEATED_WARNINGS:
        more = len(troubles) - _MOST_REPEATED_WARNINGS
        found.append(f"The capture has {more} more warnings: see {MANIFEST}.")
    return *_warn_about_torn_line(folder), *found


def _warn_about_torn_line(folder: Path | None) -> tuple[str, ...]:
    """Return a warning for the user if the last line of ``cluster.jsonl`` is incomplete.

    A recorder that was killed leaves such a line. The result is a tuple with one text, or an empty
    tuple.
    """
    path = _find_file(folder, "cluster.jsonl")
    whole, _, last = (b"" if path is None else path.read_bytes()).rpartition(b"\n")
    try:
        json.loads(last if last and whole else b"{}")
    except (ValueError, RecursionError):
        return ("The last line of cluster.jsonl is half written, and was left out.",)
    return ()


def _expect_one_cluster(path: Path, states: Sequence[Mapping[str, Any]]) -> None:
    known = list(dict.fromkeys(str(s["cluster_id"]) for s in states if s.get("cluster_id")))
    if len(known) > 1:
        raise InvalidCaptureError(
            f"{path}: lines of several clusters ({', '.join(known[:4])}): "
            "their captures are mixed; give those of one cluster"
        )


def _batches(folder: Path | None) -> tuple[Mapping[str, Any], ...] | None:
    path = _find_file(folder, "batches.parquet")
    if path is None:
        return None
    import pyarrow as pa
    from pyarrow import compute

    rows: list[Mapping[str, Any]] = []
    for one in files_of(path):
        file = open_parquet(one, _BATCH_COLUMNS)
        try:
            table = file.read(columns=list(_BATCH_COLUMNS))
        except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
            raise InvalidCaptureError(f"{one}: cannot be read ({e}); record it again") from None
        rows += table.filter(compute.fill_null(table["transactional"], False)).to_pylist()
    for row in rows:
        needed = [n for n in _BATCH_COLUMNS if n != "control_type" and row[n] is None]
        if needed:
            raise InvalidCaptureError(f"{path}: column {needed[0]} has nulls; {CAPTURE_CONTENTS}")
    return tuple(rows)


_EPOCHS = ("partition", "base_offset", "leader_epoch", "max_timestamp_ms")
#: Broker settings that the histories use, by field of `LogContext`.
_SETTINGS = {
    "session_timeout_ms": "group.consumer.session.timeout.ms",
    "initial_delay_ms": "group.initial.rebalance.delay.ms",
}


@dataclass(frozen=True)
class LogContext:
    """Broker settings and coordinator moves that a replay needs and that the log does not contain.

    They are sent to all workers. Each of them is optional. They come from these files of a capture:

    | file                   | gives                                                              |
    |------------------------|--------------------------------------------------------------------|
    | ``batches.parquet``    | leader epochs: when a group's coordinator moved                    |
    | ``cluster-config.json``| the broker's session timeout, for members that send none           |
    |                        | (KIP-848), and how long an empty classic group waits for members   |

    Attributes:
        session_timeout_ms: session timeout of members that send none; None if it is not known.
        moves: when the group coordinator moved to another broker, by log partition.
        span: first and last plausible time of the records (`RecordTally.time_range`). Times outside
            are from a wrong clock and measure no duration. None if it is not known.
        clocks: positions in the log whose timestamp is from a wrong clock.
        initial_delay_ms: how long an empty classic group waits for members
            (``group.initial.rebalance.delay.ms``); None if it is not known.
    """

    session_timeout_ms: int | None = None
    moves: Mapping[int, tuple[CoordinatorMove, ...]] = field(default_factory=dict)
    span: tuple[int, int] | None = None
    clocks: ClockCorrections = field(default_factory=ClockCorrections)
    initial_delay_ms: int | None = None


def read_context(folder: Path | str) -> LogContext:
    """Read the broker's settings and the coordinator moves from a capture's metadata files.

    A coordinator move is a change of the broker that coordinates a group.

    Args:
        folder: the folder of the capture, or a file in it; a table has no such files.

    Raises:
        InvalidCaptureError: a file exists and cannot be read.

    >>> read_context("no-such-folder").moves
    {}
    """
    at = Path(folder)
    inside = at if at.is_dir() else at.parent
    batches, config = inside / "batches.parquet", inside / "cluster-config.json"
    moves = _moves(batches) if at.exists() and batches.exists() else {}
    return _log_context(_broker_settings(config) if config.is_file() else {}, moves)


def context_of(capture: Capture) -> LogContext:
    """Return the broker's settings and the coordinator moves that belong to a replay's input.

    For a running cluster, these are its present settings, and no moves are known.

    Raises:
        InvalidCaptureError: a file exists and cannot be read.
    """
    if isinstance(capture.table, KafkaTable):
        return _log_context(_parse_settings(capture.table.configs), {})
    return read_context(capture.beside or capture.folder)


def _broker_settings(path: Path) -> dict[str, int]:
    """Read the broker settings that a replay uses from ``cluster-config.json``.

    The result is a dict such as ``{"session_timeout_ms": 45000}``. A file that cannot be read
    raises `InvalidCaptureError`.
    """
    try:
        return _parse_settings(json.loads(path.read_bytes())["configs"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as e:
        what = f"{path}: the broker's settings cannot be read ({type(e).__name__})"
        raise InvalidCaptureError(f"{what}; record it again, or remove the file") from None


def _parse_settings(configs: Mapping[str, Any]) -> dict[str, int]:
    """Return the session timeout and the initial rebalance delay from a broker's settings.

    The result is a dict such as ``{"session_timeout_ms": 45000, "initial_delay_ms": 3000}``. A
    setting that the broker does not have is left out. ``configs`` are all settings of the broker by
    name.
    """
    values = {name: configs.get(setting) for name, setting in _SETTINGS.items()}
    return {name: int(value) for name, value in values.items() if value is not None}


def _log_context(
    settings: Mapping[str, int], moves: Mapping[int, tuple[CoordinatorMove, ...]]
) -> LogContext:
    delay_ms = settings.get("initial_delay_ms")
    return LogContext(settings.get("session_timeout_ms"), moves, initial_delay_ms=delay_ms)


def _moves(path: Path) -> dict[int, tuple[CoordinatorMove, ...]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        files = files_of(path)
        if any(name not in parquet.read_schema(one).names for one in files for name in _EPOCHS):
            return {}  # a recorder that does not know them
        tables = [parquet.read_table(one, columns=list(_EPOCHS)) for one in files]
        if not tables:
            return {}
        table: pa.Table = pa.concat_tables(tables)
        return find_moves(*(table[name].fill_null(-1).to_numpy() for name in _EPOCHS))
    except (pa.ArrowException, OSError, ValueError) as e:
        what = f"{path}: leader epochs cannot be read ({e})"
        raise InvalidCaptureError(f"{what}; record it again, or remove the file") from None


_RECORDS, _BATCHES = "consumer_offsets.parquet", "batches.parquet"
_TOPICS = "topics.parquet"
_SMALL = (MANIFEST, "cluster.jsonl", "cluster-config.json")
#: Tables of a capture that are no records of the group log.
_OTHERS = {_BATCHES, _TOPICS}
#: The largest ``topics.parquet`` in bytes that the driver downloads: it only gives sizes of stores.
_LARGEST_TOPICS = 1 << 30


@contextmanager
def with_remote_files(spark: SparkSession, capture: Capture) -> Iterator[Capture]:
    """Download the metadata files of a capture in remote storage (``s3a://``) for a ``with`` block.

    The block gets the capture with the contents of these files. The local copies are removed
    afterwards. A local capture is yielded unchanged.

    Args:
        spark: the session whose Hadoop configuration opens the address.
        capture: the capture as `open_capture` returned it.

    Raises:
        InvalidCaptureError: nothing is at the address, it cannot be read, or a file of it is
            damaged.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    table = capture.table
    if table is None or type(table) is not SparkTable or not is_address(table.name):
        yield capture
        return
    with TemporaryDirectory(prefix="partage-beside-") as made:
        local = Path(made) / "capture"  # files are looked for one folder above too
        local.mkdir()
        try:
            remote = _RemoteCapture(spark, table.name)
            records = remote.download_metadata_files(local)
        except (PySparkException, Py4JError) as e:
            why = explain_storage_error(spark, table.name, e)
            raise InvalidCaptureError(f"{table.name}: cannot be read ({why})") from None
        try:
            states, batches, notes = read_metadata(local)
            found = replace(
                capture, table=records, states=states, batches=batches,
                notes=(*notes, *remote.notes), beside=local,
            )  # fmt: skip
        except InvalidCaptureError as e:
            raise InvalidCaptureError(str(e).replace(str(local), remote.where)) from None
        yield found


class _RemoteCapture:
    """Capture in remote storage such as S3, accessed through Hadoop's file system classes.

    Args:
        spark: the session whose Hadoop configuration opens the address.
        address: as the user gave it.

    Attributes:
        where: the folder that contains the metadata files.
        notes: messages for the user about files that were not downloaded.

    Raises:
        InvalidCaptureError: the address has no file or folder.
    """

    def __init__(self, spark: SparkSession, address: str) -> None:
        self._address = address.rstrip("/")
        self._files = RemoteFiles(spark, self._address)
        if not self._files.exists(self._address):
            raise InvalidCaptureError(f"{address}: no such folder; give the folder of a capture")
        self._is_folder = self._files.is_folder(self._address)
        above = self._address.rpartition("/")[0]
        self.where = self._address if self._is_folder else above
        self._places = [self._address, above] if self._is_folder else [above]
        self.notes: list[str] = []

    def download_metadata_files(self, local: Path) -> SparkTable:
        """Download the capture's metadata files to a local folder, and describe its records as a
        table.

        Each metadata file is beside the records or one folder above, as in a local capture. Spark
        reads the records in place.
        """
        for name in _SMALL:
            self._copy(name, local / name)
        manifest = CaptureManifest.load_manifest(local)
        if manifest is None:
            self._copy(_BATCHES, local / _BATCHES)
        else:
            (local / _BATCHES).mkdir()
            for one in manifest.parts:
                self._copy(f"{_BATCHES}/{one.file_name}", local / _BATCHES / one.file_name)
        self._copy(_TOPICS, local / _TOPICS, _LARGEST_TOPICS)
        return self._records_table(manifest)

    def _copy(self, name: str, to: Path, most_bytes: int | None = None) -> None:
        for place in self._places:
            if self._files.exists(f"{place}/{name}"):
                size = 0 if most_bytes is None else self._files.size(f"{place}/{name}")
                if most_bytes is not None and size > most_bytes:
                    self.notes.append(
                        f"{place}/{name} has {size:,} bytes and is not downloaded (limit "
                        f"{most_bytes:,}): sizes of stores come from offsets."
                    )
                    return
                self._files.download(f"{place}/{name}", to)
                return

    def _records_table(self, manifest: CaptureManifest | None) -> SparkTable:
        """Return the table from which Spark reads the capture's records in remote storage.

        If there is a manifest, the table has only the complete files that it lists.
        """
        records = f"{self._address}/{_RECORDS}"
        if self._is_folder and self._files.exists(records):
            if manifest is None:
                return SparkTable(self._address, "parquet", (records,))
            parts = tuple(f"{records}/{one.file_name}" for one in manifest.parts)
            if not parts:
                what = "the capture is empty (0 records); record it again"
                raise InvalidCaptureError(f"{self._address}: {what}")
            return SparkTable(self._address, "parquet", parts)
        if not self._is_folder:
            return SparkTable(self._address, "parquet")
        found = self._files.names(self._address)
        if not _OTHERS & set(found):
            return SparkTable(self._address, "parquet")
        mine = sorted(
            one for one in found
            if one not in _OTHERS and one[0] not in "._" and (".parquet" in one or "=" in one)
        )  # fmt: skip
        return SparkTable(self._address, "parquet", tuple(f"{self._address}/{one}" for one in mine))
