"""Topics of a running cluster, read by Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidConfigError, MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["partition_counts", "topic_records"]


def partition_counts(
    servers: str, topics: Sequence[str], kafka: Mapping[str, str]
) -> dict[str, tuple[int, ...]] | None:
    """Return the present partition count of each topic; None if kafka-python is not installed.

    Called before Spark starts, so that missing permissions are an error at once.

    Args:
        servers: ``host:port,...``.
        topics: names of topics.
        kafka: properties of the Kafka client.

    Raises:
        ClusterUnreachableError: no broker answers.
        NotAuthorizedError: the account lacks permission.
        InvalidConfigError: a property cannot be used, or there is no such topic.
    """
    from partage.capture.connection import ClusterConnection
    from partage.capture.properties import Properties
    from partage.capture.security import connection_settings

    try:
        with ClusterConnection(servers, connection_settings(Properties(kafka))) as connection:
            described = connection.metadata(list(topics)).topics
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
    """Return all records of ordinary topics; ``topics`` as Spark's option ``subscribe`` takes them.

    Spark fetches their end offsets with an admin client, its default. A consumer, which internal
    topics need, would also have to be allowed to read Spark's group.
    """
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "false")
    options = {f"kafka.{name}": value for name, value in properties.items()}
    reader: Any = spark.read.format("kafka").options(**options)
    reader = reader.option("kafka.bootstrap.servers", servers).option("subscribe", topics)
    return reader.option("startingOffsets", "earliest").load()  # type: ignore[no-any-return]  # Spark's reader is typed as Any above
