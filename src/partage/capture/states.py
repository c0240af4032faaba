"""Conversion of a MetadataResponse to a line of ``cluster.jsonl``."""

from __future__ import annotations

import uuid
from typing import Any

from partage.java.uuids import ZERO_UUID, uuid_text

__all__ = ["id_text", "state_of"]


def state_of(response: Any, *, ts_ms: int, controller: int | None) -> dict[str, Any]:
    """Return the cluster's state from a broker's response.

    Args:
        response: kafka-python's MetadataResponse about all topics.
        ts_ms: time of the request.
        controller: the leader of the quorum. Under KRaft the response's own controller is a
            random broker.
    """
    brokers = sorted(
        ({"id": b.node_id, "rack": getattr(b, "rack", None), "host": b.host, "port": b.port}
         for b in response.brokers), key=lambda b: int(b["id"]),
    )  # fmt: skip
    topics = {
        t.name: {
            "id": id_text(getattr(t, "topic_id", None)),
            "partitions": [
                {
                    "p": p.partition_index,
                    "leader": p.leader_id,
                    "replicas": list(p.replica_nodes),
                    "isr": sorted(p.isr_nodes),
                }
                for p in sorted(t.partitions, key=lambda p: int(p.partition_index))
            ],
        }
        for t in sorted(response.topics, key=lambda t: str(t.name))
        if t.name and not t.error_code
    }
    head = {"ts_ms": ts_ms, "cluster_id": response.cluster_id}
    return {**head, "controller": -1 if controller is None else controller,
            "brokers": brokers, "topics": topics}  # fmt: skip


def id_text(topic_id: uuid.UUID | None) -> str | None:
    """Return a topic's id as Kafka prints it; None from a broker before 2.8.

    >>> id_text(uuid.UUID("d2af76f7-aa0f-4c47-a89a-e97959efa996"))
    '0q9296oPTEeomul5We-plg'
    """
    text = None if topic_id is None else uuid_text(topic_id.bytes)
    return None if text == ZERO_UUID else text
