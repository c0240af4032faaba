"""Kafka's Java producer 2.4 to 3.2 by default, to 3.9 by name: keys by murmur2, others stick."""

from __future__ import annotations

from typing import ClassVar

from partage.keys.clients.java_sticky_cache import StickyCachePartitioner
from partage.keys.hashing import MURMUR2
from partage.keys.rule import KeyRule

__all__ = ["Java39"]


class Java39(StickyCachePartitioner):
    """murmur2, ``toPositive``; null keys stay with one partition a batch (KIP-480).

    The default from 2.4; deprecated in 3.3; 3.9.1 is the last release that has it. A producer
    tells the cache of every new batch, those of keyed records too: `next_cached` is that call.
    """

    name = "java:3.9"
    exact_to = "org.apache.kafka.clients.producer.internals.DefaultPartitioner 3.9.1"
    aliases: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
    )
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")
