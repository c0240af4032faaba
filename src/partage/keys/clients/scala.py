"""Partitioners of Kafka's Scala producer of 0.8: the key object's hashCode.

Keys are Java objects, hashed before any serializer; bytes given here are a string's UTF-8. An
Integer's hashCode is its value, a Long's the xor of its halves (`partage.keys.serializers`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from partage.errors import InvalidConfigError
from partage.keys.hashing import JAVA_BYTES, JAVA_STRING
from partage.keys.partitioner import (
    Int32Array,
    Int64Array,
    KeyRule,
    Partitioner,
    PartitionerState,
    StateMachine,
    clear_sign_bit,
)

__all__ = ["SCALA", "SendCache", "forget_partition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendCache(PartitionerState):
    """State of Kafka's Scala producer (0.8) for one topic: the partition of records without a key.

    Kafka's name for it is ``sendPartitionPerTopicCache``.

    Attributes:
        partition: current partition of records with a null key; None after a metadata refresh.
    """

    partition: int | None = None


def forget_partition(state: SendCache) -> SendCache:
    """Return the Scala producer's state after a refresh of its metadata.

    The producer refreshes its metadata every ``topic.metadata.refresh.interval.ms``. Afterwards it
    draws another partition for records without a key.
    """
    return replace(state, partition=None)


def _choose_for_null_keys(
    state: SendCache, sizes: Int64Array, partitions: int, absolute: Callable[[int], int]
) -> tuple[Int32Array, SendCache]:
    """Choose the partition of records without a key like Kafka's Scala producer.

    All these records go to one random partition until the next metadata refresh.

    Args:
        state: the current partition, None after a refresh.
        sizes: bytes of each record.
        partitions: partition count of the topic.
        absolute: function that makes a random number non-negative.

    Raises:
        InvalidConfigError: no partition has a leader; the producer fails then.
    """
    partition, draws = state.partition, state.draws
    if partition is None and len(sizes):
        pool = state.choosable_partitions(partitions)
        if state.available == ():
            raise InvalidConfigError("available", "No leader for any partition in topic", ())
        number, draws = draws.next_int()
        partition = pool[absolute(number) % len(pool)]
    filled = np.full(len(sizes), 0 if partition is None else partition, np.int32)
    return filled, replace(state, partition=partition, draws=draws)


def _choose_0_8_1(
    state: SendCache, sizes: Int64Array, partitions: int
) -> tuple[Int32Array, SendCache]:
    # Utils.abs of 0.8.0 and 0.8.1 masks the sign bit.
    return _choose_for_null_keys(state, sizes, partitions, clear_sign_bit)


def _choose_0_8_2(
    state: SendCache, sizes: Int64Array, partitions: int
) -> tuple[Int32Array, SendCache]:
    # Utils.abs of 0.8.2 returns 0 for the smallest int.
    return _choose_for_null_keys(
        state, sizes, partitions, lambda n: 0 if n == -(1 << 31) else abs(n)
    )


def _refusal(partition: int, partitions: int) -> str:
    return (
        f"Invalid partition id: {partition} for topic; "
        f"Valid values are in the inclusive range of [0, {partitions - 1}]"
    )


_CACHE_0_8_1 = StateMachine(SendCache, _choose_0_8_1, "one until the metadata is read again")
_CACHE_0_8_2 = StateMachine(SendCache, _choose_0_8_2, "one until the metadata is read again")

SCALA = (
    Partitioner(
        "scala:0.8.1",
        "Strings by ``hashCode & 0x7fffffff``; null keys stay until the metadata is read again.",
        "kafka.producer.DefaultPartitioner 0.8.1.1",
        KeyRule(JAVA_STRING, "masked"),
        _CACHE_0_8_1,
        refusal=_refusal,
    ),
    Partitioner(
        "scala:0.8.2",
        "As `scala:0.8.1` with a true absolute value: keys of negative hashCode moved with 0.8.2.",
        "kafka.producer.DefaultPartitioner 0.8.2.2",
        KeyRule(JAVA_STRING, "java-abs"),
        _CACHE_0_8_2,
        aliases=("kafka.producer.DefaultPartitioner",),
        refusal=_refusal,
    ),
    Partitioner(
        "scala:0.8.1:bytes",
        "Arrays of bytes by ``Arrays.hashCode & 0x7fffffff``: `ByteArrayPartitioner` of 0.8.1.",
        "kafka.producer.ByteArrayPartitioner 0.8.1.1",
        KeyRule(JAVA_BYTES, "masked"),
        _CACHE_0_8_1,
        refusal=_refusal,
    ),
    Partitioner(
        "scala:0.8.2:bytes",
        "Arrays of bytes by the absolute value of ``Arrays.hashCode``, as from 0.8.2 on.",
        "kafka.producer.ByteArrayPartitioner 0.8.2.2",
        KeyRule(JAVA_BYTES, "java-abs"),
        _CACHE_0_8_2,
        aliases=("kafka.producer.ByteArrayPartitioner",),
        refusal=_refusal,
    ),
)
