"""kafka-python or aiokafka on one problem; runs in their environment, not in ours.

The first argument names the client, the others are those of README.md.
"""

from __future__ import annotations

import base64
import importlib
import json
import logging
import sys
from importlib.metadata import version
from types import SimpleNamespace

from clock import arguments, peak, timed, write

CLASSES = {
    ("kafka-python", "range"): "kafka.coordinator.assignors.range:RangePartitionAssignor",
    ("kafka-python", "roundrobin"): "kafka.coordinator.assignors.roundrobin:"
    "RoundRobinPartitionAssignor",
    ("kafka-python", "sticky"): "kafka.coordinator.assignors.sticky.sticky_assignor:"
    "StickyPartitionAssignor",
    ("aiokafka", "range"): "aiokafka.coordinator.assignors.range:RangePartitionAssignor",
    ("aiokafka", "roundrobin"): "aiokafka.coordinator.assignors.roundrobin:"
    "RoundRobinPartitionAssignor",
    ("aiokafka", "sticky"): "aiokafka.coordinator.assignors.sticky.sticky_assignor:"
    "StickyPartitionAssignor",
}


class Cluster:
    """What the classes ask of a cluster."""

    def __init__(self, topics):
        self._partitions = {name: set(range(count)) for name, count, _ in topics}

    def topics(self):
        """All names."""
        return set(self._partitions)

    def partitions_for_topic(self, topic):
        """Numbers, None if there is no such topic."""
        return self._partitions.get(topic)


def members_of(client, spec):
    """Decoded metadata, in the client's own types."""
    names = [name for name, *_ in spec["topics"]]
    lists = [[names[t] for t in one] for one in spec["subscriptions"]]
    said = [
        (one["id"], list(lists[one["subscription"]]), base64.b64decode(one.get("user_data", "")))
        for one in spec["members"]
    ]
    if client == "aiokafka":
        from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

        return {one: ConsumerProtocolMemberMetadata(0, *more) for one, *more in said}
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    return [
        SimpleNamespace(
            member_id=one,
            group_instance_id=None,
            metadata=ConsumerProtocolSubscription(0, topics, data),
        )
        for one, topics, data in said
    ]


def main():
    """Time it, write the plan, print the answer."""
    logging.disable(logging.CRITICAL)
    client = sys.argv[1]
    spec, path, limits = arguments(sys.argv[-6:])
    module, _, name = CLASSES[client, spec["strategy"]].partition(":")
    assignor = getattr(importlib.import_module(module), name)
    cluster, members = Cluster(spec["topics"]), members_of(client, spec)
    nanos, made = timed(
        lambda: (assignor if client == "aiokafka" else assignor()).assign(cluster, members), limits
    )
    first, total = {}, 0
    for topic, count, _ in spec["topics"]:
        first[topic] = total
        total += count
    owner, given = [-1] * total, 0
    for m, one in enumerate(spec["members"]):
        for topic, numbers in made[one["id"]].assignment:
            for p in numbers:
                owner[first[topic] + p] = m
                given += 1
    write(owner, path)
    answer = {
        "nanos": nanos,
        "given": given,
        "peak": peak(),
        "version": f"{client} {version(client)}",
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
