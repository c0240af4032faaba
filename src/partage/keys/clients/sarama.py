"""Sarama's partitioners (Go): FNV-1a by default, in three kinds of arithmetic.

A partitioner of Sarama sees a message and a count. Those that need not be consistent are given
the count of partitions that have a leader, and their answer is a place among these; a message's
own partition counts for the manual one only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from partage.keys.hashing import CRC32, FNV1A, MURMUR2
from partage.keys.partitioner import (
    Explicit,
    Int32Array,
    Int64Array,
    KeyRule,
    Partitioner,
    State,
    below,
)

__all__ = [
    "SaramaCrc",
    "SaramaHash",
    "SaramaManual",
    "SaramaMurmur2",
    "SaramaRandom",
    "SaramaReferenceHash",
    "SaramaRoundRobin",
    "Walk",
]


class _Sarama(Partitioner):
    explicit: ClassVar[Explicit] = "ignored"

    def refusal(self, partition: int, partitions: int) -> str:
        """``ErrInvalidPartition``."""
        return "kafka: partitioner returned an invalid partition index"


class SaramaRandom(_Sarama):
    """Each message by chance, whatever its key: ``NewRandomPartitioner``, Go's ``Intn``."""

    name = "sarama:random"
    exact_to = "sarama.NewRandomPartitioner v1.61.1"
    state: ClassVar[type[State] | None] = State

    def choose(self, state: State, sizes: Int64Array, partitions: int) -> tuple[Int32Array, State]:
        """One of those that have a leader, by ``Intn``."""
        pool, draws = state.pool(partitions), state.draws
        out = np.empty(len(sizes), np.int32)
        for i in range(len(out)):
            place, draws = below(draws, len(pool))
            out[i] = pool[place]
        return out, replace(state, draws=draws)


class SaramaHash(SaramaRandom):
    """FNV-1a as a signed int, its remainder's absolute value; null keys by chance. The default.

    ``NewCustomHashPartitioner(fnv.New32a)`` is the same.

    >>> SaramaHash.rule.of_key(b"foobar", 10)
    6
    """

    name = "sarama:hash"
    exact_to = "sarama.NewHashPartitioner v1.61.1"
    aliases: ClassVar[tuple[str, ...]] = ("sarama",)
    rule: ClassVar[KeyRule | None] = KeyRule(FNV1A, "absolute")


class SaramaReferenceHash(SaramaHash):
    """FNV-1a with the sign bit masked as Java does: ``NewReferenceHashPartitioner``.

    Also ``NewCustomPartitioner(WithAbsFirst())``. The hash is still not Java's.

    >>> SaramaReferenceHash.rule.of_key(b"foobar", 10)
    2
    """

    name = "sarama:reference"
    exact_to = "sarama.NewReferenceHashPartitioner v1.61.1"
    aliases: ClassVar[tuple[str, ...]] = ()
    rule: ClassVar[KeyRule | None] = KeyRule(FNV1A, "masked")


class SaramaCrc(SaramaHash):
    """CRC32, unsigned, as librdkafka's default: ``NewConsistentCRCHashPartitioner``.

    Also ``NewCustomPartitioner(WithHashUnsigned(), WithCustomHashFunction(crc32.NewIEEE))``. An
    empty key is hashed here; librdkafka's ``consistent_random`` leaves it to chance.
    """

    name = "sarama:crc32"
    exact_to = "sarama.NewConsistentCRCHashPartitioner v1.61.1"
    aliases: ClassVar[tuple[str, ...]] = ()
    rule: ClassVar[KeyRule | None] = KeyRule(CRC32, "unsigned")


class SaramaMurmur2(SaramaHash):
    """As Java hashes keys: ``NewMurmur2Partitioner``."""

    name = "sarama:murmur2"
    exact_to = "sarama.NewMurmur2Partitioner v1.61.1"
    aliases: ClassVar[tuple[str, ...]] = ()
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")


class SaramaManual(_Sarama):
    """The partition that the message names, 0 if it names none: ``NewManualPartitioner``."""

    name = "sarama:manual"
    exact_to = "sarama.NewManualPartitioner v1.61.1"
    explicit: ClassVar[Explicit] = "only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk(State):
    """Turns from the first partition to the last.

    Attributes:
        on: the place of the next one.
    """

    on: int = 0


class SaramaRoundRobin(_Sarama):
    """Each message to the next partition that has a leader: ``NewRoundRobinPartitioner``."""

    name = "sarama:roundrobin"
    exact_to = "sarama.NewRoundRobinPartitioner v1.61.1"
    state: ClassVar[type[State] | None] = Walk

    def choose(self, state: Walk, sizes: Int64Array, partitions: int) -> tuple[Int32Array, Walk]:
        """From where it stands; from 0 again behind the last, or where the pool has shrunk."""
        pool = np.array(state.pool(partitions), np.int32)
        if not len(sizes):
            return np.zeros(0, np.int32), state
        first = state.on if state.on < len(pool) else 0
        turn = (first + np.arange(len(sizes), dtype=np.int64)) % len(pool)
        # It stands behind the last one then, not at the first: that shows when the pool grows.
        return pool[turn], replace(state, on=int(turn[-1]) + 1)
