"""The state of a cluster as a line of ``cluster.jsonl``.

It comes from a MetadataResponse (`cluster_state`), or is rebuilt from the log
``__cluster_metadata`` (`MetadataImage`). Unlike polling, the log has every change, with the
controller's time of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from partage.java.uuids import ZERO_UUID, uuid_text
from partage.wire.metadata_log import MetadataRecord

__all__ = ["MetadataImage", "cluster_state", "format_topic_id"]


def cluster_state(response: Any, *, ts_ms: int, controller: int | None) -> dict[str, Any]:
    """Convert a Kafka MetadataResponse to one line of the recording's file ``cluster.jsonl``.

    The line has the brokers, topics and partition leaders of the cluster.

    Args:
        response: kafka-python's MetadataResponse for all topics.
        ts_ms: time of the request, milliseconds UTC.
        controller: the leader of the quorum. Under KRaft the response's own controller is a
            random broker.
    """
    brokers = sorted(
        ({"id": b.node_id, "rack": getattr(b, "rack", None), "host": b.host, "port": b.port}
         for b in response.brokers), key=lambda b: int(b["id"]),
    )  # fmt: skip
    topics = {
        t.name: {
            "id": format_topic_id(getattr(t, "topic_id", None)),
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


def format_topic_id(topic_id: uuid.UUID | None) -> str | None:
    """Format the id of a Kafka topic as base64 text, as Kafka prints it.

    None if there is no id, as before Kafka 2.8.

    >>> format_topic_id(uuid.UUID("d2af76f7-aa0f-4c47-a89a-e97959efa996"))
    '0q9296oPTEeomul5We-plg'
    """
    text = None if topic_id is None else uuid_text(topic_id.bytes)
    return None if text == ZERO_UUID else text


class MetadataImage:
    """State of a Kafka cluster (brokers, topics, leaders), rebuilt from its KRaft metadata log.

    A KRaft cluster stores each change of its metadata as a record in this log.

    >>> image = MetadataImage()
    >>> image.apply_record(MetadataRecord("TopicRecord", 2, 0, {"name": "t", "topicId": "i"}))
    True
    >>> image.cluster_state_line(5)["topics"]
    {'t': {'id': 'i', 'partitions': []}}
    """

    # Fenced brokers are omitted, as in a MetadataResponse. Records of a metadata transaction
    # (KIP-868) take effect at its end.
    def __init__(self) -> None:
        self.controller = -1
        self._brokers: dict[int, dict[str, Any]] = {}
        self._topics: dict[str, str] = {}
        self._partitions: dict[str, dict[int, dict[str, Any]]] = {}
        self._uncommitted: list[MetadataRecord] | None = None
        #: The method for each record type; records of other types do not change the state.
        self._appliers: dict[str, Callable[[dict[str, Any]], object]] = {
            "RegisterBrokerRecord": self._register_broker,
            "UnregisterBrokerRecord": lambda value: self._brokers.pop(value["brokerId"], None),
            "FenceBrokerRecord": lambda value: self._fence(value["id"], fenced=True),
            "UnfenceBrokerRecord": lambda value: self._fence(value["id"], fenced=False),
            "BrokerRegistrationChangeRecord": self._broker_registration_change,
            "TopicRecord": self._topic,
            "RemoveTopicRecord": self._remove_topic,
            "PartitionRecord": self._partition,
            "PartitionChangeRecord": self._partition_change,
        }

    @property
    def in_transaction(self) -> bool:
        """True if records of the KRaft metadata log wait for their transaction's end (KIP-868).

        They do not change the state of the cluster before that.
        """
        return self._uncommitted is not None

    def apply_record(self, record: MetadataRecord) -> bool:
        """Apply one record of the KRaft metadata log to this state of the cluster.

        The result says whether the cluster's brokers, topics or leaders may have changed.
        """
        if record.type == "BeginTransactionRecord":
            self._uncommitted = []
        elif record.type == "AbortTransactionRecord":
            self._uncommitted = None
        elif record.type == "EndTransactionRecord":
            held, self._uncommitted = self._uncommitted or [], None
            changed = [self._apply(one) for one in held]
            return any(changed)
        elif self._uncommitted is not None:
            self._uncommitted.append(record)
        else:
            return self._apply(record)
        return False

    def _apply(self, record: MetadataRecord) -> bool:
        take = self._appliers.get(record.type)
        if take is None:
            return False
        take(record.value)
        return True

    def _register_broker(self, value: dict[str, Any]) -> None:
        first = next(iter(value["endPoints"]), {"host": "", "port": -1})
        self._brokers[value["brokerId"]] = {
            "rack": value["rack"], "host": first["host"], "port": first["port"],
            "fenced": value["fenced"],
        }  # fmt: skip

    def _fence(self, broker: int, *, fenced: bool) -> None:
        if broker in self._brokers:
            self._brokers[broker]["fenced"] = fenced

    def _broker_registration_change(self, value: dict[str, Any]) -> None:
        change = value.get("fenced", 0)
        if change:
            self._fence(value["brokerId"], fenced=change > 0)

    def _topic(self, value: dict[str, Any]) -> None:
        self._topics[value["topicId"]] = value["name"]
        self._partitions[value["topicId"]] = {}

    def _remove_topic(self, value: dict[str, Any]) -> None:
        self._topics.pop(value["topicId"], None)
        self._partitions.pop(value["topicId"], None)

    def _partition(self, value: dict[str, Any]) -> None:
        self._partitions.setdefault(value["topicId"], {})[value["partitionId"]] = {
            "leader": value["leader"], "replicas": value["replicas"], "isr": value["isr"],
        }  # fmt: skip

    def _partition_change(self, value: dict[str, Any]) -> None:
        found = self._partitions.get(value["topicId"], {}).get(value["partitionId"])
        if found is None:
            return  # the topic was created before this log begins
        # The layout omits a field that has its default, which means "did not change".
        found |= {name: value[name] for name in ("leader", "replicas", "isr") if name in value}

    def cluster_state_line(self, ts_ms: int, cluster_id: str | None = None) -> dict[str, Any]:
        """Return the state of the Kafka cluster as one line of the file ``cluster.jsonl``.

        The line has the brokers, topics and partition leaders.

        Args:
            ts_ms: time of the state (ms).
            cluster_id: id of the cluster, None if unknown.
        """
        brokers = [
            {"id": number, **{name: one[name] for name in ("rack", "host", "port")}}
            for number, one in sorted(self._brokers.items())
            if not one["fenced"]
        ]
        named = sorted((name, number) for number, name in self._topics.items())
        head = {"ts_ms": ts_ms, "cluster_id": cluster_id, "controller": self.controller}
        topics = {name: {"id": i, "partitions": self._rows(i)} for name, i in named}
        return {**head, "brokers": brokers, "topics": topics}

    def _rows(self, topic_id: str) -> list[dict[str, Any]]:
        return [
            {
                "p": number,
                "leader": one["leader"],
                "replicas": list(one["replicas"]),
                "isr": sorted(one["isr"]),
            }
            for number, one in sorted(self._partitions.get(topic_id, {}).items())
        ]
