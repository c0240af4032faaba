"""Functions over running clusters: `check_access`, `capture_cluster` and `watch_groups`.

They check permissions, record a cluster, and follow its groups with Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from partage.errors import InvalidConfigError
from partage.model.arguments import check_argument_types
from partage.model.validation import expect_local

if TYPE_CHECKING:
    from threading import Event

    from pyspark.sql import SparkSession

    from partage.capture.manifest import CaptureManifest
    from partage.capture.preflight import AccessReport
    from partage.jobs.watch.stream_output import StreamFolder
    from partage.jobs.watch.watch import BatchReport

__all__ = ["capture_cluster", "check_access", "watch_groups"]


@check_argument_types
def capture_cluster(
    out: str | Path,
    bootstrap: str | None = None,
    *,
    log_dirs: Sequence[str | Path] | str | Path = (),
    properties: Mapping[str, str] | None = None,
    follow: bool = False,
    stop: Event | None = None,
    metadata_every: float = 1.0,
    roll_every: float = 60.0,
    trouble: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CaptureManifest:
    """Record a cluster's ``__consumer_offsets`` log and its metadata to a folder, for `replay`.

    The cluster is only read: nothing is written to it, and no group is joined. If the folder
    already has a recording of the same cluster, the recording continues.

    Args:
        out: folder for the recording.
        bootstrap: brokers of the running cluster, ``host:port,...``.
        log_dirs: instead of ``bootstrap``, copied folders of ``__consumer_offsets-*``.
        properties: client properties, by Kafka's names.
        follow: whether to go on at the end of the log until ``stop`` is set.
        stop: event that ends a capture that follows.
        metadata_every: seconds between two reads of the metadata.
        roll_every: seconds between two writes of the records read so far.
        trouble: called with each warning.
        progress: called with the records read and the offsets still to read.

    Returns:
        The content of the capture: records, batches, positions and warnings.

    Raises:
        InvalidConfigError: an argument is missing or wrong, or the folder cannot be written.
        ClusterUnreachableError, NotAuthorizedError: the cluster cannot be read.
        InvalidCaptureError: the folder has a capture of another cluster.
        MissingExtraError: kafka-python is not installed.
    """
    from partage.capture.unpacking import crc32c_function
    from partage.capture.writing import CaptureWriter

    expect_local(out, "out")
    folders = [log_dirs] if isinstance(log_dirs, str | Path) else list(log_dirs)
    if (bootstrap is None) == (not folders):
        raise InvalidConfigError("bootstrap", "must be host:port, or give log_dirs", bootstrap)
    if follow and (bootstrap is None or stop is None):
        what = "needs bootstrap, and stop: an event that ends it"
        raise InvalidConfigError("follow", what, follow)
    for name, value in (("metadata_every", metadata_every), ("roll_every", roll_every)):
        if not 0.01 <= value <= 86_400:
            raise InvalidConfigError(name, "must be between 0.01 and 86400 seconds", value)
    crc32c_function()  # a library that is not installed is reported before anything is opened
    if bootstrap is None:
        from partage.capture.log_dir import capture_log_dirs

        with CaptureWriter(Path(out)) as writer:
            capture_log_dirs([Path(one) for one in folders], writer)
        return writer.manifest
    from partage.capture.connection import ClusterConnection
    from partage.capture.live import CaptureIntervals, LiveCapture
    from partage.capture.security import ClientProperties, connection_settings

    settings = connection_settings(ClientProperties(properties or {}))
    with ClusterConnection(bootstrap, settings) as connection, CaptureWriter(Path(out)) as writer:
        LiveCapture(
            connection, writer, pace=CaptureIntervals(metadata_every, roll_every), stop=stop,
            trouble=trouble or _ignore_message, progress=progress or _ignore_message,
        ).run_capture(follow=follow)  # fmt: skip
    return writer.manifest


@check_argument_types
def check_access(bootstrap: str, *, properties: Mapping[str, str] | None = None) -> AccessReport:
    """Check which data of a cluster an account may read, and how much history there is.

    Call it before `capture_cluster`. It reads a few small parts of ``__consumer_offsets``. Nothing
    is written, and no group is joined.

    Args:
        bootstrap: brokers of the cluster, ``host:port,...``.
        properties: client properties, by Kafka's names.

    Returns:
        The permissions that a capture uses, the records that each partition of
        ``__consumer_offsets`` still has, and how long to follow the log for a whole day.

    Raises:
        ClusterUnreachableError: no broker answers, or the login fails.
        InvalidConfigError: an address or a property is invalid.
        MissingExtraError: kafka-python is not installed.
    """
    from partage.capture import preflight
    from partage.capture.connection import ClusterConnection
    from partage.capture.security import ClientProperties, connection_settings

    settings = connection_settings(ClientProperties(properties or {}))
    with ClusterConnection(bootstrap, settings) as connection:
        return preflight.check_access(connection, now_ms=time.time_ns() // 1_000_000)


def _ignore_message(*_: object) -> None:
    """Ignore a message or progress report; the default for callback arguments.

    It is the default for callback arguments of functions.
    """


@check_argument_types
def watch_groups(
    source: str | Path,
    out: str | Path,
    *,
    once: bool = False,
    every: float = 2.0,
    tables: str | None = None,
    spark: SparkSession | None = None,
    conf: Mapping[str, str] | None = None,
    kafka: Mapping[str, str] | None = None,
    stop: Event | None = None,
    report: Callable[[BatchReport], None] | None = None,
) -> StreamFolder:
    """Follow the consumer groups of a cluster with Spark Structured Streaming.

    Tables of their rebalances are written continuously, one micro-batch after the other.

    Args:
        source: the folder of a capture that grows, or ``kafka://host:port``.
        out: the folder for the tables and Spark's checkpoint; a second call continues there.
        once: whether to end when everything that is there now is processed.
        every: seconds between two micro-batches.
        tables: where to keep the tables in Delta or Iceberg too: ``delta:FOLDER``,
            ``delta:NAMESPACE`` or ``iceberg:NAMESPACE``.
        spark: your session, which stays open; without it one is started.
        conf: more settings of Spark. ``kafka://`` needs Spark's Kafka connector, such as
            ``{"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"}``; your
            own session must have been started with it.
        kafka: properties of the client for ``kafka://``, by Kafka's names.
        stop: event that ends the stream; an interrupted micro-batch is repeated by the next call.
        report: called with each published micro-batch, from another thread.

    Raises:
        InvalidCaptureError: the capture cannot be used.
        InvalidConfigError: the output folder cannot be used, or ``every`` is invalid.
        MissingExtraError, MissingJavaError: Spark cannot be started.
    """
    from partage.capture.manifest import expect_streamable_capture

    if not 0.1 <= every <= 3_600:
        raise InvalidConfigError("every", "must be between 0.1 and 3600 seconds", every)
    if not once and stop is None:
        raise InvalidConfigError("stop", "must be an event that ends it, or give once=True", stop)
    if not str(source).startswith("kafka://"):
        expect_streamable_capture(Path(source))  # before Spark is imported

    from partage.jobs.watch.watch import StreamSettings, watch_groups

    settings = StreamSettings(once=once, every=every, tables=tables, kafka=kafka or {})
    return watch_groups(
        source, out, settings, spark=spark, conf=conf, stop=stop, report=report or _ignore_message
    )
