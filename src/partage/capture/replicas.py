"""A running cluster's replicas: where they are, how large, and what is being moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partage.capture.connection import ClusterConnection, failed
from partage.errors import NotAuthorizedError

__all__ = ["read_replicas"]

Sizes = dict[tuple[str, int], dict[int, tuple[int, str]]]


def read_replicas(bootstrap: str, settings: Mapping[str, Any]) -> tuple[dict[str, Any], Sizes]:
    """Brokers and topics as in ``cluster.jsonl``, and sizes and directories of all replicas.

    Args:
        bootstrap: ``host:port,...``.
        settings: of `security.connection_settings`.

    Raises:
        ClusterUnreachableError: nobody answers.
        NotAuthorizedError: the account may not describe the cluster.
        MissingExtraError: kafka-python is not installed.
    """
    with ClusterConnection(bootstrap, settings) as connection:
        told = connection.metadata()
        brokers = [
            {"id": b.node_id, "rack": b.rack, "directories": []}
            for b in sorted(told.brokers, key=lambda b: b.node_id)
        ]
        topics = {
            t.name: {
                "partitions": [
                    {
                        "p": p.partition_index, "leader": p.leader_id,
                        "replicas": list(p.replica_nodes),
                    }
                    for p in sorted(t.partitions, key=lambda p: p.partition_index)
                ]
            }
            for t in told.topics
            if t.error_code == 0
        }  # fmt: skip
        _under_way(connection, topics)
        return {"brokers": brokers, "topics": topics}, _sizes(connection, brokers)


def _under_way(connection: ClusterConnection, topics: dict[str, Any]) -> None:
    from kafka.protocol.admin import ListPartitionReassignmentsRequest

    told = connection.ask(ListPartitionReassignmentsRequest(timeout_ms=30_000, topics=None))
    if told.error_code:
        raise NotAuthorizedError(f"the cluster ({failed(told.error_code)})", "DESCRIBE on CLUSTER")
    for topic in told.topics:
        rows = {row["p"]: row for row in topics.get(topic.name, {"partitions": []})["partitions"]}
        for p in topic.partitions:
            if p.partition_index in rows:
                rows[p.partition_index]["adding"] = list(p.adding_replicas)
                rows[p.partition_index]["removing"] = list(p.removing_replicas) or [-1]


def _sizes(connection: ClusterConnection, brokers: list[dict[str, Any]]) -> Sizes:
    """Brokers that do not answer are asked for nothing: their replicas' sizes come from others."""
    from kafka.protocol.admin import DescribeLogDirsRequest

    answers = connection.ask_each(
        {b["id"]: DescribeLogDirsRequest(topics=None, max_version=4) for b in brokers}
    )
    sizes: Sizes = {}
    for broker in brokers:
        answer = answers.get(broker["id"])
        for folder in () if answer is None or isinstance(answer, Exception) else answer.results:
            if folder.error_code:
                continue
            broker["directories"].append({"path": folder.log_dir})
            for topic in folder.topics:
                for p in topic.partitions:
                    if not p.is_future_key:
                        held = sizes.setdefault((topic.name, p.partition_index), {})
                        held[broker["id"]] = (p.partition_size, folder.log_dir)
    return sizes
