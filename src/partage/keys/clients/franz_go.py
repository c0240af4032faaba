"""franz-go's partitioners (Go): Java's hash, and its own ways for records without a key.

A record's own partition counts for the manual partitioner only. Records that need not be
consistent choose among the partitions that can be written to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from partage.errors import InvalidConfigError
from partage.keys.clients.java import MURMUR2_MASKED
from partage.keys.clients.sarama import GO_ROUND_ROBIN
from partage.keys.hashing import FNV1A
from partage.keys.partitioner import (
    Explicit,
    Int32Array,
    Int64Array,
    KeyRule,
    Partitioner,
    State,
    StateMachine,
    below,
    check_batch_size,
    fraction,
)

__all__ = ["FRANZ_GO", "StickyTopicPartitioner", "UniformBytes", "repinned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyTopicPartitioner(State):
    """``stickyTopicPartitioner`` of one topic.

    Attributes:
        on: place of the pinned partition, -1 for none.
        last: place of the one before, which is not drawn twice in a row.
        batch_size: bytes after which a batch is full.
        filled: bytes in the batch.
    """

    on: int = -1
    last: int = -1
    batch_size: int = 1_000_012
    filled: int = 0


def _choose_sticky(
    state: StickyTopicPartitioner, sizes: Int64Array, partitions: int
) -> tuple[Int32Array, StickyTopicPartitioner]:
    """Place records in the pinned partition until one does not fit into the batch."""
    check_batch_size(state.batch_size)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformBytes(State):
    """``uniformBytesTopicPartitioner`` of one topic.

    Attributes:
        limit: bytes after which another partition is chosen.
        adaptive: whether partitions with full queues are avoided.
        on: place of the pinned partition, -1 for none.
        produced: bytes since it was pinned.
        buffered: records that wait for each partition, for ``adaptive``; () for none anywhere.
    """

    limit: int = 64 << 10
    adaptive: bool = True
    on: int = -1
    produced: int = 0
    buffered: tuple[int, ...] = ()


def repinned(state: UniformBytes, count: int) -> UniformBytes:
    """Return the state pinned to a new place, drawn with the weights 1 / (1 + buffered).

    Without ``adaptive`` all places weigh the same (``Intn``). Weights are summed from the last
    place to the first, in the order in which the client walks them.
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
    return replace(state, on=0, draws=draws)  # rounding left a remainder: the last one walked


def _choose_uniform_bytes(
    state: UniformBytes, sizes: Int64Array, partitions: int
) -> tuple[Int32Array, UniformBytes]:
    """Place records in the pinned partition until ``limit`` bytes; then pin another one."""
    check_batch_size(state.limit, "limit")
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


def _refusal(partition: int, partitions: int) -> str:
    """Return the error of the promise."""
    return f"invalid record partitioning choice of {partition} from {partitions} partitions"


_STICKY = StateMachine(StickyTopicPartitioner, _choose_sticky, "sticky for a batch")
_UNIFORM = StateMachine(UniformBytes, _choose_uniform_bytes, "sticky for 64 KiB")


def _row(
    name: str,
    summary: str,
    function: str,
    rule: KeyRule | None = None,
    *,
    machine: StateMachine | None = _STICKY,
    aliases: tuple[str, ...] = (),
    explicit: Explicit = "ignored",
) -> Partitioner:
    """Return a row; all partitioners of franz-go share release and message."""
    exact_to = f"kgo.{function} v1.22.2"
    return Partitioner(
        f"franz-go:{name}", summary, exact_to, rule, machine, aliases, explicit, _refusal
    )


FRANZ_GO = (
    _row(
        "uniform-bytes",
        "As Java hashes keys; null keys stay for 64 KiB: ``UniformBytesPartitioner``. The default.",
        "UniformBytesPartitioner",
        MURMUR2_MASKED,
        machine=_UNIFORM,
        aliases=("franz-go",),
    ),
    _row(
        "sticky-key",
        "As Java hashes keys; null keys stay with a partition a batch: ``StickyKeyPartitioner``.",
        "StickyKeyPartitioner",
        MURMUR2_MASKED,
    ),
    _row(
        "sarama-compat",
        "As Sarama's default: ``StickyKeyPartitioner(SaramaCompatHasher(fnv32a))``.",
        "SaramaCompatHasher",
        KeyRule(FNV1A, "absolute"),
    ),
    _row(
        "sticky",
        "All records stay with one partition a batch, whatever their keys: ``StickyPartitioner``.",
        "StickyPartitioner",
    ),
    _row(
        "roundrobin",
        "Each record to the next partition that can be written to: ``RoundRobinPartitioner``.",
        "RoundRobinPartitioner",
        machine=GO_ROUND_ROBIN,
    ),
    _row(
        "manual",
        "The partition that the record names, 0 if it names none: ``ManualPartitioner``.",
        "ManualPartitioner",
        machine=None,
        explicit="only",
    ),
)
