"""Kafka's Java producer of 0.8: `internals.Partitioner`, before partitioners were an interface."""

from __future__ import annotations

from typing import ClassVar

from partage.keys.clients.counting import CountingPartitioner
from partage.keys.hashing import MURMUR2
from partage.keys.rule import KeyRule

__all__ = ["Java08"]


class Java08(CountingPartitioner):
    """murmur2 masked by ``Utils.abs``; null keys by turns, one counter for all topics.

    ``Utils.abs`` of these releases is ``n & 0x7fffffff``, whatever its name says: the same as
    ``toPositive`` later, so that keys never moved. The counter starts at a random int and counts
    for all topics together: hand one state from topic to topic (with its ``available`` replaced).

    >>> Java08.rule.of_key(b"21", 10)
    0
    """

    name = "java:0.8"
    exact_to = "org.apache.kafka.clients.producer.internals.Partitioner 0.8.2.2"
    aliases: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.clients.producer.internals.Partitioner",
    )
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")

    def refusal(self, partition: int, partitions: int) -> str:
        """The text of the class, its closed bracket included (the range has n - 1 as its end)."""
        return (
            f"Invalid partition given with record: {partition} is not in the range "
            f"[0...{partitions}]."
        )
