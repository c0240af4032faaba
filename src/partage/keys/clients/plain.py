"""The hash of Kafka's Java client alone, without a state: what one asks for most."""

from __future__ import annotations

from typing import ClassVar

from partage.keys.hashing import MURMUR2
from partage.keys.partitioner import Partitioner
from partage.keys.rule import KeyRule

__all__ = ["PlainMurmur2"]


class PlainMurmur2(Partitioner):
    """murmur2 with the sign bit masked, modulo all partitions, since 0.8.1; null keys nowhere.

    All partitions count, those without a leader too. An empty key is a key.
    """

    name = "murmur2"
    exact_to = (
        "org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey 4.3.1"
    )
    aliases: ClassVar[tuple[str, ...]] = ("java", "kafka")
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")
