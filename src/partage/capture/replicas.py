"""The replicas of a running cluster: their brokers, sizes and ongoing reassignments."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from partage.capture.connection import ClusterConnection, error_name
from partage.errors import NotAuthorizedError

__all__ = ["read_replicas", "set_write_loads"]

Sizes = dict[tuple[str, int], dict[int, tuple[int, str]]]


def read_replicas(
    bootstrap: str, settings: Mapping[str, Any], *, seconds: float | None = None
) -> tuple[dict[str, Any], Sizes]:
    """Read the brokers, topics and replica sizes of a running Kafka cluster.

    Brokers and topics have the form of a line of ``cluster.jsonl``. Sizes are a dict from (topic,
    partition) to broker id to (bytes, log directory).

    Args:
        bootstrap: the bootstrap servers, ``host:port,...``.
        settings: kafka-python's settings, from `security.connection_settings`.
        seconds: time between two reads of the sizes; the growth is each partition's write load.
            None reads once and gives no loads.

    Raises:
        ClusterUnreachableError: no broker answers.
        NotAuthorizedError: the account may not describe the cluster.
        MissingExtraError: kafka-python is not installed.
    """
    # Brokers and topics have the form of `cluster.jsonl`. A directory's capacity is the size of its
    # replicas plus its free space, which brokers report since 3.3.
    with ClusterConnection(bootstrap, settings) as connection:
        response = connection.fetch_metadata()
        brokers = [
            {"id": b.node_id, "rack": b.rack, "directories": []}
            for b in sorted(response.brokers, key=lambda b: b.node_id)
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
            for t in response.topics
            if t.error_code == 0
        }  # fmt: skip
        _add_reassignments(connection, topics)
        sizes = _read_sizes(connection, brokers)
        if seconds is not None:
            begun = time.monotonic()
            time.sleep(seconds)
            for broker in brokers:
                broker["directories"] = []
            before, sizes = sizes, _read_sizes(connection, brokers)
            set_write_loads(topics, before, sizes, time.monotonic() - begun)
        return {"brokers": brokers, "topics": topics}, sizes


def set_write_loads(
    topics: dict[str, Any], old_sizes: Sizes, new_sizes: Sizes, seconds: float
) -> None:
    """Compute the write load of each partition, in bytes per second.

    It is the growth of its replicas between two measurements of their sizes.

    Args:
        topics: topics of the cluster; each partition's ``load`` is set in place.
        old_sizes: replica sizes at the first measurement.
        new_sizes: replica sizes at the second measurement.
        seconds: time between the two measurements.
    """
    # The load is the growth of the partition's fastest-growing replica.
    for name, topic in topics.items():
        for row in topic["partitions"]:
            was, now = old_sizes.get((name, row["p"]), {}), new_sizes.get((name, row["p"]), {})
            grown = [size - was[b][0] for b, (size, _) in now.items() if b in was]
            row["load"] = max(0, *grown) / seconds if grown else 0.0


def _add_reassignments(connection: ClusterConnection, topics: dict[str, Any]) -> None:
    from kafka.protocol.admin import ListPartitionReassignmentsRequest

    response = connection.request_response(
        ListPartitionReassignmentsRequest(timeout_ms=30_000, topics=None)
    )
    if response.error_code:
        raise NotAuthorizedError(
            f"the cluster ({error_name(response.error_code)})", "DESCRIBE on CLUSTER"
        )
    for topic in response.topics:
        rows = {row["p"]: row for row in topics.get(topic.name, {"partitions": []})["partitions"]}
        for p in topic.partitions:
            if p.partition_index in rows:
                rows[p.partition_index]["adding"] = list(p.adding_replicas)
                rows[p.partition_index]["removing"] = list(p.removing_replicas) or [-1]


def _read_sizes(connection: ClusterConnection, brokers: list[dict[str, Any]]) -> Sizes:
    # A broker that does not answer is left out; the sizes of its replicas are known from others.
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
            held_here = sum(p.partition_size for topic in folder.topics for p in topic.partitions)
            free = getattr(folder, "usable_bytes", -1)
            room = {"capacity": held_here + free} if free is not None and free >= 0 else {}
            broker["directories"].append({"path": folder.log_dir, **room})
            for topic in folder.topics:
                for p in topic.partitions:
                    if not p.is_future_key:
                        held = sizes.setdefault((topic.name, p.partition_index), {})
                        held[broker["id"]] = (p.partition_size, folder.log_dir)
    return sizes
