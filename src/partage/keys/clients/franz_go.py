"""franz-go's partitioners (Go): Java's hash, and its own ways for records without a key.

A record's own partition counts for its manual partitioner only. Records that need not be
consistent choose among the partitions that can be written to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from partage.errors import InvalidConfigError
from partage.keys.clients.sarama import SaramaRoundRobin
from partage.keys.hashing import FNV1A, MURMUR2
from partage.keys.partitioner import (
    Explicit,
    Int32Array,
    Int64Array,
    KeyRule,
    Partitioner,
    State,
    below,
    fraction,
)

__all__ = [
    "FranzGo",
    "FranzGoManual",
    "FranzGoRoundRobin",
    "FranzGoSaramaHasher",
    "FranzGoSticky",
    "FranzGoStickyKey",
    "StickyTopicPartitioner",
    "UniformBytes",
    "repinned",
]


class _FranzGo(Partitioner):
    explicit: ClassVar[Explicit] = "ignored"

    def refusal(self, partition: int, partitions: int) -> str:
        """The error of the promise."""
        return f"invalid record partitioning choice of {partition} from {partitions} partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyTopicPartitioner(State):
    """``stickyTopicPartitioner``.

    Attributes:
        on: the pinned place, -1 for none.
        last: the place before, which is not taken twice running.
        batch_size: bytes after which a batch is full.
        filled: bytes in the batch.
    """

    on: int = -1
    last: int = -1
    batch_size: int = 1_000_012
    filled: int = 0


class FranzGoSticky(_FranzGo):
    """All records stay with one partition a batch, whatever their keys: ``StickyPartitioner``."""

    name = "franz-go:sticky"
    exact_to = "kgo.StickyPartitioner v1.22.2"
    state: ClassVar[type[State] | None] = StickyTopicPartitioner

    def choose(
        self, state: StickyTopicPartitioner, sizes: Int64Array, partitions: int
    ) -> tuple[Int32Array, StickyTopicPartitioner]:
        """Pinned until a record does not fit into the batch; never the same twice running."""
        if state.batch_size < 1:
            raise InvalidConfigError("batch_size", "must be at least 1", state.batch_size)
        pool = state.pool(partitions)
        out = np.empty(len(sizes), np.int32)
        for i, size in enumerate(sizes.tolist()):
            if state.filled and state.filled + size > state.batch_size:
                state = replace(state, last=state.on, on=-1, filled=0)
            if state.on == -1 or state.on >= len(pool):
                on, draws = below(state.draws, len(pool))
                on = (on + 1) % len(pool) if on == state.last else on
                state = replace(state, on=on, draws=draws)
            state = replace(state, filled=state.filled + size)
            out[i] = pool[state.on]
        return out, state


class FranzGoStickyKey(FranzGoSticky):
    """As Java hashes keys; null keys stay with a partition a batch: ``StickyKeyPartitioner``."""

    name = "franz-go:sticky-key"
    exact_to = "kgo.StickyKeyPartitioner v1.22.2"
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")


class FranzGoSaramaHasher(FranzGoSticky):
    """As Sarama's default: ``StickyKeyPartitioner(SaramaCompatHasher(fnv32a))``."""

    name = "franz-go:sarama-compat"
    exact_to = "kgo.SaramaCompatHasher v1.22.2"
    rule: ClassVar[KeyRule | None] = KeyRule(FNV1A, "absolute")


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformBytes(State):
    """``uniformBytesTopicPartitioner``.

    Attributes:
        limit: bytes after which another partition is chosen.
        adaptive: whether full queues are avoided.
        on: the pinned place, -1 for none.
        produced: bytes since.
        buffered: records that wait for each partition, for ``adaptive``; () for none anywhere.
    """

    limit: int = 64 << 10
    adaptive: bool = True
    on: int = -1
    produced: int = 0
    buffered: tuple[int, ...] = ()


def repinned(state: UniformBytes, count: int) -> UniformBytes:
    """A new place of so many: by ``Intn``, or by chance weighted with 1 / (1 + buffered).

    Weights are summed from the last place to the first, as the client walks them.
    """
    if not state.adaptive:
        on, draws = below(state.draws, count)
        return replace(state, on=on, draws=draws)
    buffered = state.buffered or (0,) * count
    if len(buffered) != count:
        raise InvalidConfigError("buffered", f"must have {count} numbers", state.buffered)
    places = range(count - 1, -1, -1)
    total = 0.0
    for place in places:
        total += 1 / (buffered[place] + 1)
    drawn, draws = fraction(state.draws)
    pick = drawn * total
    for place in places:
        pick -= 1 / (buffered[place] + 1)
        if pick <= 0:
            return replace(state, on=place, draws=draws)
    return replace(state, on=0, draws=draws)  # rounding left a little over: the last one walked


class FranzGo(_FranzGo):
    """As Java hashes keys; null keys stay for 64 KiB: ``UniformBytesPartitioner``. The default.

    >>> FranzGo.rule.of_key(b"foobar", 10)
    6
    """

    name = "franz-go:uniform-bytes"
    exact_to = "kgo.UniformBytesPartitioner v1.22.2"
    aliases: ClassVar[tuple[str, ...]] = ("franz-go",)
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")
    state: ClassVar[type[State] | None] = UniformBytes

    def choose(
        self, state: UniformBytes, sizes: Int64Array, partitions: int
    ) -> tuple[Int32Array, UniformBytes]:
        """Pinned until a record's bytes reach the limit; that record is the next one's first."""
        if state.limit < 1:
            raise InvalidConfigError("limit", "must be at least 1", state.limit)
        pool = state.pool(partitions)
        out = np.empty(len(sizes), np.int32)
        for i, size in enumerate(sizes.tolist()):
            produced = state.produced + size
            if produced >= state.limit:
                state = replace(state, produced=size, on=-1)
            else:
                state = replace(state, produced=produced)
            if not 0 <= state.on < len(pool):
                state = repinned(state, len(pool))
            out[i] = pool[state.on]
        return out, state


class FranzGoManual(_FranzGo):
    """The partition that the record names, 0 if it names none: ``ManualPartitioner``."""

    name = "franz-go:manual"
    exact_to = "kgo.ManualPartitioner v1.22.2"
    explicit: ClassVar[Explicit] = "only"


class FranzGoRoundRobin(SaramaRoundRobin):
    """Each record to the next partition that can be written to: ``RoundRobinPartitioner``."""

    name = "franz-go:roundrobin"
    exact_to = "kgo.RoundRobinPartitioner v1.22.2"

    def refusal(self, partition: int, partitions: int) -> str:
        """The error of the promise."""
        return FranzGo().refusal(partition, partitions)
