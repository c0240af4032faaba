"""Metrics that assignors of kafka-python 3 record in the OpenTelemetry SDK.

Runs in the environment opentelemetry-sdk-1 of tools/clients.sh. A second member joins the first
one; coordinators of kafka-python without a broker call the assignors. Prints JSON: the unit, value
and attributes of each metric.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any


def coordinator() -> Any:
    """Return a coordinator of kafka-python with an assignor of its own and without a connection."""
    from kafka.coordinator.assignors.abstract import RebalanceProtocol
    from kafka.coordinator.consumer import ConsumerCoordinator
    from kafka.protocol.consumer.metadata import (
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    )

    from partage.clients.kafka_python import assignor

    class Coordinator(ConsumerCoordinator):
        def __init__(self) -> None:
            self.config = {"group_id": "billing"}
            self._rebalance_protocol = RebalanceProtocol(0)
            self._subscription = SimpleNamespace(assigned_partitions=list)
            self._generation = SimpleNamespace(generation_id=1)
            self._assignor = assignor("sticky")()

        def __del__(self) -> None:
            pass

        def subscription(self) -> Any:
            return ConsumerProtocolSubscription.decode(self._assignor.metadata({"orders"}))

        def perform_assignment(self, members: list[Any]) -> dict[str, bytes]:
            return self._assignor.assign(_Metadata(), members)

        def receive(self, data: bytes) -> None:
            generation = self._generation.generation_id
            self._assignor.on_assignment(ConsumerProtocolAssignment.decode(data), generation)
            self._generation = SimpleNamespace(generation_id=generation + 1)

    return Coordinator()


class _Metadata:
    """Cluster metadata of one topic with six partitions on two brokers without racks."""

    def __init__(self) -> None:
        partitions = {p: SimpleNamespace(replicas=[1 + p % 2]) for p in range(6)}
        self._partitions = {"orders": partitions}

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(self._partitions[topic])

    def brokers(self) -> list[Any]:
        return [SimpleNamespace(nodeId=i, node_id=i, host="", port=0, rack=None) for i in (1, 2)]


def main() -> None:
    """Rebalance the group twice and print what an in-memory reader collects."""
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([reader]))
    leader, second = coordinator(), coordinator()
    for group in ({"a": leader}, {"a": leader, "b": second}):
        members = [
            SimpleNamespace(member_id=name, group_instance_id=None, metadata=one.subscription())
            for name, one in group.items()
        ]
        sent = leader.perform_assignment(members)
        for name, one in group.items():
            one.receive(sent[name])
    found = {}
    for resource in reader.get_metrics_data().resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                (point,) = metric.data.data_points
                value = point.count if hasattr(point, "count") else point.value
                found[metric.name] = {
                    "meter": scope.scope.name, "unit": metric.unit, "value": value,
                    "sum": getattr(point, "sum", None), "attributes": dict(point.attributes),
                }  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    main()
