"""Kafka's Java producer 0.9: the first `DefaultPartitioner`, with one counter for all topics."""

from __future__ import annotations

from typing import ClassVar

from partage.keys.clients.java_08 import Java08

__all__ = ["Java09"]


class Java09(Java08):
    """As 0.8.2.2, by a class of its own: murmur2, ``toPositive``, one counter for all topics.

    ``Utils.abs`` became a true absolute value in this release; the partitioner got a private
    ``toPositive`` with the old mask instead (KAFKA-1988). The producer, no longer the partitioner,
    refuses an explicit partition outside the topic, in the words of 0.8.2.2.
    """

    name = "java:0.9"
    exact_to = "org.apache.kafka.clients.producer.internals.DefaultPartitioner 0.9.0.1"
    aliases: ClassVar[tuple[str, ...]] = ()
