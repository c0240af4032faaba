"""librdkafka's six partitioners: confluent-kafka's, and those of its other bindings.

With ``_random`` in the name, null keys go by chance (``consistent_random``: empty ones too);
without, a null key is hashed as an empty one, so that all of them share a partition. By chance
means: a partition for ``sticky.partitioning.linger.ms`` (10 ms), then another. Time is none of
this room's business; a state holds its partition for ``hold`` records, 1 for a record each.
The default is ``consistent_random``: not what Java does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from partage.errors import InvalidConfigError
from partage.keys.hashing import CRC32, FNV1A, MURMUR2
from partage.keys.partitioner import Int32Array, Int64Array, KeyRule, Partitioner, State, drawn_from

__all__ = [
    "Consistent",
    "ConsistentRandom",
    "Fnv1a",
    "Fnv1aRandom",
    "Lingering",
    "Murmur2",
    "Murmur2Random",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lingering(State):
    """Where records without a key go for a while.

    Attributes:
        hold: records that stay with a partition.
        partition: the one they are with, None for none yet.
        held: records that are with it.
    """

    hold: int = 1
    partition: int | None = None
    held: int = 0


class _Librdkafka(Partitioner):
    def refusal(self, partition: int, partitions: int) -> str:
        """What the delivery report says (``_UNKNOWN_PARTITION``)."""
        return f"Local: Unknown partition: {partition} of {partitions}"


class _Random(_Librdkafka):
    state: ClassVar[type[State] | None] = Lingering

    def choose(
        self, state: Lingering, sizes: Int64Array, partitions: int
    ) -> tuple[Int32Array, Lingering]:
        """A partition by chance for each ``hold`` records; of all, if they have a leader or not."""
        if state.hold < 1:
            raise InvalidConfigError("hold", "must be at least 1", state.hold)
        pool, draws = state.pool(partitions), state.draws
        partition, held = state.partition, state.held
        out = np.empty(len(sizes), np.int32)
        done = 0
        while done < len(out):
            if partition is None or held >= state.hold:
                partition, draws = drawn_from(pool, draws)
                held = 0
            stop = min(len(out), done + state.hold - held)
            out[done:stop] = partition
            held += stop - done
            done = stop
        return out, replace(state, draws=draws, partition=partition, held=held)


class Consistent(_Librdkafka):
    """CRC32, unsigned, modulo; null and empty keys share a partition.

    >>> Consistent.rule.of_key(b"foobar", 10)
    9
    """

    name = "librdkafka:consistent"
    exact_to = "rd_kafka_msg_partitioner_consistent librdkafka 2.16.0"
    rule: ClassVar[KeyRule | None] = KeyRule(CRC32, "unsigned", "nothing")


class ConsistentRandom(_Random):
    """CRC32, unsigned, modulo; null and empty keys by chance: librdkafka's default."""

    name = "librdkafka:consistent_random"
    exact_to = "rd_kafka_msg_partitioner_consistent_random librdkafka 2.16.0"
    aliases: ClassVar[tuple[str, ...]] = ("librdkafka", "confluent-kafka")
    rule: ClassVar[KeyRule | None] = KeyRule(CRC32, "unsigned", "null or empty")


class Murmur2(_Librdkafka):
    """As Java hashes keys; a null key as an empty one."""

    name = "librdkafka:murmur2"
    exact_to = "rd_kafka_msg_partitioner_murmur2 librdkafka 2.16.0"
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked", "nothing")


class Murmur2Random(_Random):
    """As Java hashes keys, and null keys by chance: what joins with Java's topics."""

    name = "librdkafka:murmur2_random"
    exact_to = "rd_kafka_msg_partitioner_murmur2_random librdkafka 2.16.0"
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")


class Fnv1a(_Librdkafka):
    """As Sarama hashes keys; a null key as an empty one."""

    name = "librdkafka:fnv1a"
    exact_to = "rd_kafka_msg_partitioner_fnv1a librdkafka 2.16.0"
    rule: ClassVar[KeyRule | None] = KeyRule(FNV1A, "absolute", "nothing")


class Fnv1aRandom(_Random):
    """As Sarama hashes keys, and null keys by chance."""

    name = "librdkafka:fnv1a_random"
    exact_to = "rd_kafka_msg_partitioner_fnv1a_random librdkafka 2.16.0"
    rule: ClassVar[KeyRule | None] = KeyRule(FNV1A, "absolute")
