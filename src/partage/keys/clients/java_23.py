"""Kafka's Java producer from 0.10 to 2.3: `DefaultPartitioner` with a counter for each topic."""

from __future__ import annotations

from typing import ClassVar

from partage.keys.clients.counting import CountingPartitioner
from partage.keys.hashing import MURMUR2
from partage.keys.rule import KeyRule

__all__ = ["Java23"]


class Java23(CountingPartitioner):
    """murmur2, ``toPositive``; null keys by turns, a counter for each topic (random start).

    Read off the published jars: 0.9.0.1 has one counter, 0.10.2.2 and all later ones a map of
    them. An explicit partition below 0 is refused by ``ProducerRecord``; one that is too high
    makes the producer wait for metadata until it gives up.
    """

    name = "java:2.3"
    exact_to = "org.apache.kafka.clients.producer.internals.DefaultPartitioner 2.3.1"
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")

    def refusal(self, partition: int, partitions: int) -> str:
        """What record and producer say."""
        return java_refusal(partition, partitions)


def java_refusal(partition: int, partitions: int) -> str:
    """What ``ProducerRecord`` and ``KafkaProducer`` say of a partition that is not there."""
    if partition < 0:
        return (
            f"Invalid partition: {partition}. "
            "Partition number should always be non-negative or null."
        )
    return (
        f"Partition {partition} of topic with partition count {partitions} is not present "
        "in metadata"
    )
