"""Null keys by chance, record by record; the shared part of several clients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from partage.errors import InvalidConfigError
from partage.keys.hashing import MURMUR2
from partage.keys.partitioner import (
    Int32Array,
    Int64Array,
    KeyRule,
    Partitioner,
    State,
    drawn_each,
    drawn_from,
)

__all__ = [
    "Aiokafka",
    "ByChance",
    "KafkaPython",
    "KafkaPythonStickyPartitioner",
    "Pinned",
    "pinned_anew",
]


class ByChance(Partitioner):
    """Each record that the key does not decide goes to one of the pool, drawn anew."""

    state: ClassVar[type[State] | None] = State

    def choose(self, state: State, sizes: Int64Array, partitions: int) -> tuple[Int32Array, State]:
        """One of those that have a leader, of all when none has."""
        return drawn_each(state, len(sizes), partitions)


class KafkaPython(ByChance):
    """As Java hashes keys; each null key by chance among those with a leader. The default."""

    name = "kafka-python"
    exact_to = "kafka.partitioner.DefaultPartitioner kafka-python 3.0.12"
    aliases: ClassVar[tuple[str, ...]] = ("kafka.partitioner.DefaultPartitioner",)
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")

    def refusal(self, partition: int, partitions: int) -> str:
        """The ValueError of ``send``."""
        return _refusal(partition)


def _refusal(partition: int) -> str:
    if partition < 0:
        return "partition must be >= 0"
    return f"Unrecognized partition {partition} for topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned(State):
    """``StickyPartitioner`` of one topic.

    Attributes:
        partition: where null keys go, None before the first.
        batch_size: bytes after which a batch is full and the producer tells of a new one.
        filled: bytes in the batch.
    """

    partition: int | None = None
    batch_size: int = 16_384
    filled: int = 0


def pinned_anew(state: Pinned, partitions: int, *, avoid: int | None = None) -> Pinned:
    """Another partition: of those with a leader without ``avoid``, where there are two or more."""
    pool = list(state.pool(partitions))
    if len(pool) > 1 and state.available != () and avoid is not None:
        pool = [one for one in pool if one != avoid] or pool
    if len(pool) == 1:
        return replace(state, partition=pool[0], filled=0)
    partition, draws = drawn_from(pool, state.draws)
    return replace(state, partition=partition, draws=draws, filled=0)


class KafkaPythonStickyPartitioner(Partitioner):
    """As Java hashes keys; null keys stay with one partition a batch (KIP-480).

    Other than Java's cache it draws once, from the others; and it leaves a partition that has
    lost its leader.
    """

    name = "kafka-python:sticky"
    exact_to = "kafka.partitioner.StickyPartitioner kafka-python 3.0.12"
    aliases: ClassVar[tuple[str, ...]] = ("kafka.partitioner.StickyPartitioner",)
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")
    state: ClassVar[type[State] | None] = Pinned

    def refusal(self, partition: int, partitions: int) -> str:
        """The ValueError of ``send``."""
        return _refusal(partition)

    def choose(
        self, state: Pinned, sizes: Int64Array, partitions: int
    ) -> tuple[Int32Array, Pinned]:
        """Each record to the pinned partition; where it does not fit, to another one."""
        if state.batch_size < 1:
            raise InvalidConfigError("batch_size", "must be at least 1", state.batch_size)
        out = np.empty(len(sizes), np.int32)
        pool = set(state.pool(partitions))
        for i, size in enumerate(sizes.tolist()):
            if state.partition is None or state.partition not in pool:
                state = pinned_anew(state, partitions)
            elif state.filled and state.filled + size > state.batch_size:
                state = pinned_anew(state, partitions, avoid=state.partition)
            state = replace(state, filled=state.filled + size)
            assert state.partition is not None  # noqa: S101 - pinned_anew has just set it
            out[i] = state.partition
        return out, state


class Aiokafka(ByChance):
    """As Java hashes keys; each null key by chance among those with a leader.

    Places are looked up in the list of the metadata, which is not sorted: with holes or in another
    order than 0, 1, 2, ... that is a partition of another number.
    """

    name = "aiokafka"
    exact_to = "aiokafka.partitioner.DefaultPartitioner aiokafka 0.14.0"
    aliases: ClassVar[tuple[str, ...]] = ("aiokafka.partitioner.DefaultPartitioner",)
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")

    def refusal(self, partition: int, partitions: int) -> str:
        """The AssertionError of ``send``."""
        return "Unrecognized partition"
