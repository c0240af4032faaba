"""``kafka://host:port``: the group log read by Spark's own Kafka source.

For people whose Spark reaches the cluster.

Three traps, each met (see `docs/spark.md`):

* **Internal topics come back empty, without an error.** Spark 4 asks an admin client for offsets,
  which leaves them out; ``useDeprecatedOffsetFetching`` (in `session.SQL_SETTINGS`) brings them
  back. `KafkaTable.expect_all` compares what was read with the end offsets all the same.
* **There are no transaction markers.** ``read_committed`` leaves out what was aborted; when a
  commit within a transaction took effect stays unknown, its own time is taken for it.
* **There is no metadata over time.** The cluster as it is now stands for all times before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from partage.capture.connection import ClusterConnection, PartitionRequest
from partage.capture.properties import Properties
from partage.capture.secrets import hide, secrets_in
from partage.capture.security import connection_settings
from partage.capture.states import state_of
from partage.capture.unpacking import checksum
from partage.errors import InvalidCaptureError, NotAuthorizedError
from partage.jobs.spark.spark_tables import SparkTable, first_line
from partage.wire.batches import batches_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from partage.jobs.replay.tally import Tally

__all__ = ["PREFIX", "KafkaTable", "open_kafka"]

PREFIX = "kafka://"
TOPIC = "__consumer_offsets"
_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"


@dataclass(frozen=True)
class KafkaTable(SparkTable):
    """The group log of a running cluster, between two offsets of each partition.

    Attributes:
        bootstrap: ``host:port,...``.
        properties: of the client, secrets among them: not in the ``repr``.
        starts, ends: log partition -> first offset, and the one behind the last.
        states: the cluster as it was when it was asked.
    """

    bootstrap: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    starts: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    states: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    def rows(self, spark: SparkSession) -> DataFrame:
        """The five columns of its records.

        Raises:
            InvalidCaptureError: this Spark has no Kafka connector, or it refuses.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": "read_committed",
            "assign": json.dumps({TOPIC: sorted(self.ends)}),
            "startingOffsets": _offsets(self.starts),
            "endingOffsets": _offsets(self.ends),
        }
        options |= {f"kafka.{name}": value for name, value in self.properties.items()}
        try:
            found = spark.read.format("kafka").options(**options).load()
        except (PySparkException, Py4JJavaError) as e:
            said = hide(first_line(e), secrets_in(self.properties))
            raise InvalidCaptureError(
                f"{self.name}: Spark cannot read it ({said[:200]}); does it have the connector? "
                f"--conf spark.jars.packages={_CONNECTOR}, or its jars by --conf spark.jars=..."
            ) from None
        return found.selectExpr(
            "partition", "offset", "unix_millis(timestamp) as timestamp_ms", "key", "value"
        )

    def expect_all(self, tally: Tally) -> None:
        """What was read goes as far as the log went when it was asked.

        A partition may have fewer records than offsets (compaction, markers, aborted records), and
        none behind the last one read; none at all is looked at again without Spark.

        Raises:
            InvalidCaptureError: a partition came back empty, or beyond its end.
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
        """Whether a partition's first batches hold a record that was not aborted."""
        settings = connection_settings(Properties(self.properties))
        with ClusterConnection(self.bootstrap, settings) as connection:
            told = connection.metadata([TOPIC]).topics[0]
            leader = {p.partition_index: p.leader_id for p in told.partitions}[partition]
            found, _ = connection.fetch(
                {leader: [PartitionRequest(partition, self.starts[partition])]}, TOPIC,
                wait_ms=1_000, partition_bytes=1 << 20, most_bytes=1 << 20,
            )  # fmt: skip
        batches = [b for one in found for b in batches_of(one.records, crc32c=checksum())]
        return any(not b.control and not b.transactional and b.records for b in batches)


def _offsets(by_partition: Mapping[int, int]) -> str:
    return json.dumps({TOPIC: {str(p): at for p, at in sorted(by_partition.items())}})


def open_kafka(where: str, properties: Mapping[str, str] | None = None) -> KafkaTable:
    """Ask a cluster how far its group log goes.

    Args:
        where: ``kafka://host:port[,host:port...]``.
        properties: of the client, by Kafka's names.

    Raises:
        InvalidCaptureError: it is no such address, the topic is not there, or it is empty.
        ClusterUnreachableError: nobody answers.
        NotAuthorizedError: the account may not read the topic.
        MissingExtraError: the extra ``capture`` is not installed.
    """
    bootstrap = where.removeprefix(PREFIX).strip("/")
    if not bootstrap or "/" in bootstrap or ":" not in bootstrap:
        raise InvalidCaptureError(f"{where}: must be kafka://host:port, with commas for more")
    given = dict(properties or {})
    settings = connection_settings(Properties(given))
    with ClusterConnection(bootstrap, settings) as connection:
        told = connection.metadata()
        state = {**state_of(told, ts_ms=0, controller=None), "assumed": True}
        topic = connection.metadata([TOPIC]).topics[0]
        if topic.error_code == 29:  # TOPIC_AUTHORIZATION_FAILED
            raise NotAuthorizedError(f"topic {TOPIC}", "READ and DESCRIBE")
        if topic.error_code:
            raise InvalidCaptureError(f"{where}: the cluster has no topic {TOPIC}")
        numbers = sorted(p.partition_index for p in topic.partitions)
        starts, ends = connection.bounds(TOPIC, numbers)
    if all(ends[p] <= starts[p] for p in numbers):
        raise InvalidCaptureError(f"{where}: {TOPIC} is empty: no group has committed yet")
    return KafkaTable(where, "kafka", (), bootstrap, given, starts, ends, (state,))
