"""A client's metadata as plain values, and the `Cluster` that they describe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from partage.model import Cluster

__all__ = ["ClusterView"]


@dataclass(frozen=True)
class ClusterView:
    """Metadata of the subscribed Kafka topics: partitions with their replicas, and brokers' racks.

    It has the same form for all Kafka client libraries.

    Attributes:
        topics: dict from topic to a dict from partition number to the node ids of its replicas. A
            topic that the metadata lack is absent.
        racks: dict from node id to rack, for the brokers that are up.

    >>> view = ClusterView({"t": {0: [1], 1: [2]}}, {1: "a", 2: "b"})
    >>> view.cluster().racks_of(1)
    ('b',)
    """

    topics: Mapping[str, Mapping[int, Sequence[int]]]
    racks: Mapping[int, str | None] = field(default_factory=dict)

    def cluster(self) -> Cluster:
        """Convert the metadata to a `Cluster`, the input of an assignment strategy.

        It has topics, partitions and racks. Topics without partitions are left out, as in Kafka.

        Raises:
            InvalidProblemError: a partition number is out of range.
        """
        return self._cluster

    @cached_property
    def _cluster(self) -> Cluster:
        topics = {topic: partitions for topic, partitions in self.topics.items() if partitions}
        return Cluster.from_replicas(topics, self.racks)

    def has_partition(self, topic: str, number: int) -> bool:
        """Return whether a Kafka topic has a partition with this number.

        True for a topic without metadata, because its partitions are unknown.
        """
        partitions = self.topics.get(topic)
        return partitions is None or number in partitions
