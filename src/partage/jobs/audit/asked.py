"""What a running cluster says of some topics, before Spark starts: who may not, is told at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partage.errors import InvalidConfigError, MissingExtraError

__all__ = ["counts_at"]


def counts_at(
    servers: str, topics: Sequence[str], kafka: Mapping[str, str]
) -> dict[str, tuple[int, ...]] | None:
    """Partition counts now, by topic; None where kafka-python is not installed.

    Args:
        servers: ``host:port,...``.
        topics: which.
        kafka: properties of the client, by Kafka's names.

    Raises:
        ClusterUnreachableError: nobody answers.
        NotAuthorizedError: the account is refused.
        InvalidConfigError: a property cannot be used, or there is no such topic.
    """
    from partage.capture.connection import ClusterConnection
    from partage.capture.properties import Properties
    from partage.capture.security import connection_settings

    try:
        with ClusterConnection(servers, connection_settings(Properties(kafka))) as connection:
            told = connection.metadata(list(topics)).topics
    except MissingExtraError:
        return None
    found: dict[str, tuple[int, ...]] = {
        one.name: (len(one.partitions),) for one in told if not one.error_code
    }
    for topic in topics:
        if topic not in found:
            told_of = f"no such topic at {servers}, or this account may not DESCRIBE it"
            raise InvalidConfigError("INPUT", told_of, topic)
    return found
