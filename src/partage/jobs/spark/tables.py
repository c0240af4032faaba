"""Input that only Spark reads: Delta, Iceberg, addresses, catalog names, topics of a cluster.

Three traps of the group log when Spark's Kafka source reads it (see `docs/spark.md`):

* **Internal topics come back empty, without an error.** Spark 4 asks an admin client for offsets,
  which leaves them out; ``useDeprecatedOffsetFetching`` (in `session.SQL_SETTINGS`) brings them
  back. `KafkaTable.expect_all` compares what was read with the end offsets all the same.
* **There are no transaction markers.** ``read_committed`` leaves out aborted records. The time at
  which a transactional commit took effect is unknown; its own time is used.
* **There is no metadata over time.** The cluster's present metadata is used for all times before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.capture.connection import ClusterConnection, PartitionRequest
from partage.capture.metadata_image import cluster_state
from partage.capture.secrets import hide_secrets, secrets_in
from partage.capture.security import ClientProperties, connection_settings
from partage.capture.unpacking import crc32c_function
from partage.errors import (
    InvalidCaptureError,
    InvalidConfigError,
    MissingExtraError,
    NotAuthorizedError,
)
from partage.wire.batches import batches_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from partage.jobs.replay.tally import RecordTally

__all__ = [
    "PREFIX",
    "KafkaTable",
    "SparkTable",
    "first_line",
    "is_address",
    "open_kafka",
    "partition_counts",
    "spark_table",
    "topic_records",
]

#: A name in Spark's catalog: ``table``, ``schema.table`` or ``catalog.schema.table``.
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://.+")
_COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value")
_TYPES = {"partition": "int", "offset": "bigint", "timestamp_ms": "bigint",
          "key": "binary", "value": "binary"}  # fmt: skip
_WHOLE = {"tinyint", "smallint", "int", "bigint"}


@dataclass(frozen=True)
class SparkTable:
    """Table of records that only Spark can read, such as a Delta table or a table of a catalog.

    Attributes:
        name: the path, address or name as given.
        format: delta, iceberg or parquet; "" for a name in Spark's catalog.
        paths: the files or folders of the table to read; empty for all.
    """

    name: str
    format: str
    paths: tuple[str, ...] = ()

    def read_data_frame(self, spark: SparkSession) -> DataFrame:
        """Read the table with Spark, and return a data frame with the columns of a capture's
        records.

        The columns are partition, offset, timestamp_ms, key and value.

        Raises:
            InvalidCaptureError: Spark cannot read it, or a column is missing or of a wrong type.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            if self.format:
                reader = spark.read.format(self.format)
                if any("=" in path for path in self.paths):
                    reader = reader.option("basePath", self.name)  # columns of partition=3/ folders
                found = reader.load(list(self.paths) or self.name)
            else:
                found = spark.read.table(self.name)
            kinds = {f.name: f.dataType.simpleString() for f in found.schema.fields}
        except (PySparkException, Py4JJavaError) as e:
            said = hide_secrets(
                first_line(e), secrets_in(dict(spark.sparkContext.getConf().getAll()))
            )
            raise InvalidCaptureError(
                f"{self.name}: Spark cannot read it as {self.format or 'a table'} ({said[:300]}); "
                "give its connector with --conf spark.jars=..., or a folder of Parquet files"
            ) from None
        for name, kind in _TYPES.items():
            _expect(self.name, name, kinds, kind)
        return found.selectExpr(*(f"cast({n} as {_TYPES[n]}) as {n}" for n in _COLUMNS))

    def expect_all(self, tally: RecordTally) -> None:
        """Do nothing: if Spark raised no error, it has read all records of a table on disk.

        `KafkaTable` overrides this method, because Spark may leave out records of a topic.
        ``tally`` has the counts of the records that were read.
        """


def first_line(error: Exception) -> str:
    """Return the first line of an error's message that is not empty.

    If the message is empty, the result is the name of the error's class.
    """
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if line), type(error).__name__)


def _expect(table: str, name: str, kinds: dict[str, str], wanted: str) -> None:
    if name not in kinds:
        raise InvalidCaptureError(
            f"{table}: column {name} is missing (found: {', '.join(kinds)}); "
            "records have partition, offset, timestamp_ms, key, value"
        )
    fits = kinds[name] == "binary" if wanted == "binary" else kinds[name] in _WHOLE
    if not fits:
        raise InvalidCaptureError(f"{table}: column {name} must be {wanted}, is {kinds[name]}")


def is_address(text: str) -> bool:
    """Return whether a text is an address in remote storage, such as ``s3a://lake/offsets``.

    Local paths and names of Spark tables are not addresses.
    """
    return _ADDRESS.fullmatch(text) is not None


def spark_table(source: str | Path) -> SparkTable | None:
    """Return an input as a table that only Spark reads; None if it is a plain local file or folder.

    The input is an address in remote storage, a Delta or Iceberg folder, or a name in Spark's
    catalog.

    >>> spark_table("lake.kafka.offsets"), spark_table("s3a://lake/offsets").format
    (SparkTable(name='lake.kafka.offsets', format='', paths=()), 'parquet')
    """
    text = str(source)
    if is_address(text):
        return SparkTable(text, "parquet")
    at = Path(source)
    if (at / "_delta_log").is_dir():
        return SparkTable(str(at.absolute()), "delta")
    if at.is_dir() and any((at / "metadata").glob("*.metadata.json")):
        return SparkTable(str(at.absolute()), "iceberg")
    if not at.exists() and _NAME.fullmatch(text):
        return SparkTable(text, "")
    return None


# -- topics of a running cluster -------------------------------------------------------------------

PREFIX = "kafka://"
TOPIC = "__consumer_offsets"
_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"


@dataclass(frozen=True)
class KafkaTable(SparkTable):
    """The topic ``__consumer_offsets`` of a running cluster, between start and end offsets.

    Attributes:
        bootstrap: ``host:port,...``.
        properties: properties of the Kafka client, which may contain secrets; not in the ``repr``.
        starts, ends: dict from log partition to first offset, and the offset after the last record.
        states: the cluster's current metadata.
        configs: a broker's settings for groups, offsets and transactions; empty if the account may
            not read them.
    """

    bootstrap: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    starts: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    states: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    configs: Mapping[str, str] = field(default_factory=dict, repr=False)

    def read_data_frame(self, spark: SparkSession) -> DataFrame:
        """Read the topic with Spark, and return a data frame with the columns of a capture's
        records.

        The columns are partition, offset, timestamp_ms, key and value.

        Raises:
            InvalidCaptureError: Spark has no Kafka connector, or the connector fails.
        """
        return self._load(spark.read, endingOffsets=_offsets(self.ends))

    def read_stream(self, spark: SparkSession, most_records: int) -> DataFrame:
        """Read the topic from the start offsets on as a streaming data frame of Spark.

        `partage watch` reads a running cluster in this way.

        Args:
            spark: the session.
            most_records: approximate number of records of a micro-batch.

        Raises:
            InvalidCaptureError: this Spark has no Kafka connector, or the connector fails.
        """
        # The log cleaner may remove records that were not read yet; the history then has a gap.
        more = {"maxOffsetsPerTrigger": str(most_records), "failOnDataLoss": "false"}
        return self._load(spark.readStream, **more)

    def connect_without_spark(self) -> ClusterConnection:
        """Connect to the cluster with kafka-python instead of Spark, and return the connection.

        Use it in a ``with`` block, which closes it.
        """
        return ClusterConnection(
            self.bootstrap, connection_settings(ClientProperties(self.properties))
        )

    def _load(self, reader: Any, **more: str) -> DataFrame:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": "read_committed",
            "assign": json.dumps({TOPIC: sorted(self.ends)}),
            "startingOffsets": _offsets(self.starts),
            **more,
        }
        options |= {f"kafka.{name}": value for name, value in self.properties.items()}
        try:
            found: DataFrame = reader.format("kafka").options(**options).load()
        except (PySparkException, Py4JJavaError) as e:
            said = hide_secrets(first_line(e), secrets_in(self.properties))
            raise InvalidCaptureError(
                f"{self.name}: Spark cannot read it ({said[:200]}); does it have the connector? "
                f"--conf spark.jars.packages={_CONNECTOR} (in Python: conf=...), or its jars by "
                "spark.jars"
            ) from None
        return found.selectExpr(
            "partition", "offset", "unix_millis(timestamp) as timestamp_ms", "key", "value"
        )

    def expect_all(self, tally: RecordTally) -> None:
        """Raise an error if Spark has not read all records between the start and end offsets.

        Spark may return an internal topic as empty, without an error. If it read no record of a
        partition, the first batches are fetched without Spark, because compaction may have removed
        all records. ``tally`` has the counts of the records that were read.

        Raises:
            InvalidCaptureError: Spark read nothing of a partition with records, or records beyond
                its end.
        """
        wrong = []
        for p, end in sorted(self.ends.items()):
            read = tally.ranges.get(p, [])
            if any(first < self.starts[p] or last >= end for first, last, _ in read):
                wrong.append(f"partition {p} has records outside of what was asked")
            elif not read and end > self.starts[p] and self._has_records(p):
                wrong.append(f"partition {p} came back empty, and it has offsets up to {end}")
        if wrong:
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            raise InvalidCaptureError(
                f"{self.name}: {wrong[0]}{more}; Spark leaves internal topics out unless "
                "spark.sql.streaming.kafka.useDeprecatedOffsetFetching=true"
            )

    def _has_records(self, partition: int) -> bool:
        """Return whether a partition has a usable record in its first batches, fetched without
        Spark.

        Control batches and transactional batches do not count, because their records may be
        aborted.
        """
        with self.connect_without_spark() as connection:
            described = connection.fetch_metadata([TOPIC]).topics[0]
            leader = {p.partition_index: p.leader_id for p in described.partitions}[partition]
            found, _ = connection.fetch_records(
                {leader: [PartitionRequest(partition, self.starts[partition])]}, TOPIC,
                wait_ms=1_000, partition_bytes=1 << 20, most_bytes=1 << 20,
            )  # fmt: skip
        batches = [b for one in found for b in batches_of(one.records, crc32c=crc32c_function())]
        return any(not b.control and not b.transactional and b.records for b in batches)


def _offsets(by_partition: Mapping[int, int]) -> str:
    return json.dumps({TOPIC: {str(p): at for p, at in sorted(by_partition.items())}})


def open_kafka(address: str, properties: Mapping[str, str] | None = None) -> KafkaTable:
    """Connect to a cluster, and describe its topic ``__consumer_offsets`` as input for Spark.

    The cluster's metadata, its settings of groups, and the first and last offsets are fetched.

    Args:
        address: ``kafka://host:port[,host:port...]``.
        properties: properties of the Kafka client.

    Raises:
        InvalidCaptureError: the address is malformed, or the topic is missing or empty.
        ClusterUnreachableError: no broker answers.
        NotAuthorizedError: the account may not read the topic.
        MissingExtraError: the extra ``capture`` is not installed.
    """
    bootstrap = address.removeprefix(PREFIX).strip("/")
    if not bootstrap or "/" in bootstrap or ":" not in bootstrap:
        raise InvalidCaptureError(f"{address}: must be kafka://host:port, with commas for more")
    given = dict(properties or {})
    settings = connection_settings(ClientProperties(given))
    with ClusterConnection(bootstrap, settings) as connection:
        described = connection.fetch_metadata()
        state = {**cluster_state(described, ts_ms=0, controller=None), "assumed": True}
        topic = connection.fetch_metadata([TOPIC]).topics[0]
        if topic.error_code == 29:  # TOPIC_AUTHORIZATION_FAILED
            raise NotAuthorizedError(f"topic {TOPIC}", "READ and DESCRIBE")
        if topic.error_code:
            raise InvalidCaptureError(f"{address}: the cluster has no topic {TOPIC}")
        numbers = sorted(p.partition_index for p in topic.partitions)
        starts, ends = connection.partition_bounds(TOPIC, numbers)
        configs = connection.broker_config(min(broker["id"] for broker in state["brokers"]))
    if all(ends[p] <= starts[p] for p in numbers):
        raise InvalidCaptureError(f"{address}: {TOPIC} is empty: no group has committed yet")
    return KafkaTable(address, "kafka", (), bootstrap, given, starts, ends, (state,), configs)


def partition_counts(
    servers: str, topics: Sequence[str], kafka: Mapping[str, str]
) -> dict[str, tuple[int, ...]] | None:
    """Fetch the current partition count of each topic from a cluster, before Spark starts.

    A missing permission is thus reported at once. The result is a dict from topic to a tuple with
    its partition count, or None if kafka-python is not installed.

    Args:
        servers: ``host:port,...``.
        topics: names of topics.
        kafka: properties of the Kafka client.

    Raises:
        ClusterUnreachableError: no broker answers.
        NotAuthorizedError: the account lacks permission.
        InvalidConfigError: a property cannot be used, or there is no such topic.
    """
    try:
        with ClusterConnection(servers, connection_settings(ClientProperties(kafka))) as connection:
            described = connection.fetch_metadata(list(topics)).topics
    except MissingExtraError:
        return None
    found: dict[str, tuple[int, ...]] = {
        topic.name: (len(topic.partitions),) for topic in described if not topic.error_code
    }
    for topic in topics:
        if topic not in found:
            reason = f"no such topic at {servers}, or this account may not DESCRIBE it"
            raise InvalidConfigError("INPUT", reason, topic)
    return found


def topic_records(
    spark: SparkSession, servers: str, topics: str, properties: Mapping[str, str]
) -> DataFrame:
    """Read all records of some topics with Spark's Kafka source, and return them as a data frame.

    Args:
        spark: the session.
        servers: ``host:port,...``.
        topics: names of topics, separated by commas.
        properties: properties of the Kafka client.
    """
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "false")
    options = {f"kafka.{name}": value for name, value in properties.items()}
    reader: Any = spark.read.format("kafka").options(**options)
    reader = reader.option("kafka.bootstrap.servers", servers).option("subscribe", topics)
    return reader.option("startingOffsets", "earliest").load()  # type: ignore[no-any-return]  # Spark's reader is typed as Any above
