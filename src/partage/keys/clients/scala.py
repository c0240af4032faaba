"""Kafka's Scala producer of 0.8: the key object's hashCode, and an abs that was not one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from partage.errors import InvalidConfigError
from partage.keys.hashing import JAVA_BYTES, JAVA_STRING
from partage.keys.partitioner import Int32Array, Int64Array, KeyRule, Partitioner, State

__all__ = ["Scala081", "Scala081Bytes", "Scala082", "Scala082Bytes", "SendCache", "forgotten"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendCache(State):
    """``sendPartitionPerTopicCache`` of one topic.

    Attributes:
        partition: where null keys go; None when the metadata has just been read.
    """

    partition: int | None = None


def forgotten(state: SendCache) -> SendCache:
    """After a refresh of the metadata (``topic.metadata.refresh.interval.ms``, ten minutes)."""
    return replace(state, partition=None)


class Scala081(Partitioner):
    """Strings by ``hashCode & 0x7fffffff``; null keys stay until the metadata is read again.

    Keys are Java objects here, hashed before any serializer: bytes given are a string's UTF-8.
    (An Integer's hashCode is its value, a Long's the xor of its halves: see
    `partage.keys.serializers`. An array of bytes has the hash of its identity: chance.)
    ``kafka.utils.Utils.abs`` of 0.8.0 and 0.8.1 masks the sign, whatever its name says.
    """

    name = "scala:0.8.1"
    exact_to = "kafka.producer.DefaultPartitioner 0.8.1.1"
    aliases: ClassVar[tuple[str, ...]] = ()
    rule: ClassVar[KeyRule | None] = KeyRule(JAVA_STRING, "masked")
    state: ClassVar[type[State] | None] = SendCache

    @staticmethod
    def _abs(number: int) -> int:
        return number & 0x7FFFFFFF

    def refusal(self, partition: int, partitions: int) -> str:
        """What ``DefaultEventHandler`` says."""
        return (
            f"Invalid partition id: {partition} for topic; "
            f"Valid values are in the inclusive range of [0, {partitions - 1}]"
        )

    def choose(
        self, state: SendCache, sizes: Int64Array, partitions: int
    ) -> tuple[Int32Array, SendCache]:
        """One partition that has a leader, drawn once; the same for all records until a refresh.

        Raises:
            InvalidConfigError: none has a leader: this producer has no other way.
        """
        partition, draws = state.partition, state.draws
        if partition is None and len(sizes):
            pool = state.pool(partitions)
            if state.available == ():
                raise InvalidConfigError("available", "No leader for any partition in topic", ())
            number, draws = draws.next_int()
            partition = pool[self._abs(number) % len(pool)]
        filled = np.full(len(sizes), 0 if partition is None else partition, np.int32)
        return filled, replace(state, partition=partition, draws=draws)


class Scala082(Scala081):
    """As `scala:0.8.1` with a true absolute value: keys of negative hashCode moved with 0.8.2.

    >>> (Scala081.rule.of_key(b"foobar", 10), Scala082.rule.of_key(b"foobar", 10))
    (5, 3)
    """

    name = "scala:0.8.2"
    exact_to = "kafka.producer.DefaultPartitioner 0.8.2.2"
    aliases: ClassVar[tuple[str, ...]] = ("kafka.producer.DefaultPartitioner",)
    rule: ClassVar[KeyRule | None] = KeyRule(JAVA_STRING, "java-abs")

    @staticmethod
    def _abs(number: int) -> int:
        return 0 if number == -(1 << 31) else abs(number)


class Scala081Bytes(Scala081):
    """Arrays of bytes by ``Arrays.hashCode & 0x7fffffff``: `ByteArrayPartitioner` of 0.8.1."""

    name = "scala:0.8.1:bytes"
    exact_to = "kafka.producer.ByteArrayPartitioner 0.8.1.1"
    rule: ClassVar[KeyRule | None] = KeyRule(JAVA_BYTES, "masked")


class Scala082Bytes(Scala082):
    """Arrays of bytes by the absolute value of ``Arrays.hashCode``, as from 0.8.2 on."""

    name = "scala:0.8.2:bytes"
    exact_to = "kafka.producer.ByteArrayPartitioner 0.8.2.2"
    aliases: ClassVar[tuple[str, ...]] = ("kafka.producer.ByteArrayPartitioner",)
    rule: ClassVar[KeyRule | None] = KeyRule(JAVA_BYTES, "java-abs")
