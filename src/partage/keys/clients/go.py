"""Partitioners of the Go clients Sarama and franz-go.

Sarama hashes with FNV-1a by default, in three kinds of arithmetic. franz-go hashes as Java does and
has its own ways for records without a key. In both, a message's own partition counts for the
manual partitioner only, and messages that need not be consistent choose among the partitions
that have a leader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from partage.errors import InvalidConfigError
from partage.keys.clients.java import MURMUR2_MASKED
from partage.keys.hashing import CRC32, FNV1A
from partage.keys.partitioner import (
    Int32Array,
    Int64Array,
    KeyRule,
    Partitioner,
    PartitionerState,
    StateMachine,
    check_batch_size,
    draw_below,
    draw_fraction,
)

__all__ = [
    "FRANZ_GO",
    "SARAMA",
    "RoundRobinPosition",
    "StickyTopicPartitioner",
    "UniformBytes",
    "draw_next_partition",
]


@dataclass(frozen=True, slots=True)
class _ClientDefaults:
    """Properties that all partitioners of one Go client, such as Sarama, have in common.

    They complete the description of each partitioner of the client.

    Attributes:
        name: the client's name, which is the prefix of its partitioners' names.
        function: format string of the reference: Go function and release of the client.
        machine: default state machine for messages without a key.
        refusal: function (partition, count) that returns the client's error text for a partition
            that does not exist.
    """

    name: str
    function: str
    machine: StateMachine
    refusal: Callable[[int, int], str]

    def describe_partitioner(
        self,
        name: str,
        summary: str,
        function: str,
        rule: KeyRule | None = None,
        *,
        machine: StateMachine | None = None,
        aliases: tuple[str, ...] = (),
        is_manual: bool = False,
    ) -> Partitioner:
        """Return the description of one partitioner of a Go client, such as Sarama.

        Properties that are not given are the client's defaults.

        Args:
            name: its name without the client's prefix.
            summary: one sentence for tables.
            function: the Go function that it equals.
            rule: rule for messages with a key; None if the key has no effect.
            machine: rule for messages without a key; None for the client's default.
            aliases: other names.
            is_manual: whether the partition that the message names decides.
        """
        return Partitioner(
            f"{self.name}:{name}",
            summary,
            self.function.format(function),
            rule,
            None if is_manual else machine or self.machine,
            aliases,
            "only" if is_manual else "ignored",
            self.refusal,
        )


# --- Sarama ----------------------------------------------------------------------------------


def _choose_random(
    state: PartitionerState, sizes: Int64Array, partitions: int
) -> tuple[Int32Array, PartitionerState]:
    # As Go's Intn.
    pool, draws = state.choosable_partitions(partitions), state.draws
    out = np.empty(len(sizes), np.int32)
    for i in range(len(out)):
        place, draws = draw_below(draws, len(pool))
        out[i] = pool[place]
    return out, replace(state, draws=draws)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRobinPosition(PartitionerState):
    """State of Sarama's round-robin partitioner for one topic: the position of its next partition.

    Each record goes to the next partition that has a leader.

    Attributes:
        on: index of that partition among the partitions with a leader.
    """

    on: int = 0


def _choose_in_turn(
    state: RoundRobinPosition, sizes: Int64Array, partitions: int
) -> tuple[Int32Array, RoundRobinPosition]:
    # The turn restarts at the first partition after the last one, or if fewer partitions have a
    # leader.
    pool = np.array(state.choosable_partitions(partitions), np.int32)
    if not len(sizes):
        return np.zeros(0, np.int32), state
    first = state.on if state.on < len(pool) else 0
    turn = (first + np.arange(len(sizes), dtype=np.int64)) % len(pool)
    # The place after the last one is kept, not 0: the difference shows when the pool grows.
    return pool[turn], replace(state, on=int(turn[-1]) + 1)


def _sarama_refusal(partition: int, partitions: int) -> str:
    # ErrInvalidPartition.
    del partition, partitions
    return "kafka: partitioner returned an invalid partition index"


_ROUND_ROBIN = StateMachine(RoundRobinPosition, _choose_in_turn, "by turns")
_RANDOM = StateMachine(PartitionerState, _choose_random, "by chance")
_SARAMA = _ClientDefaults("sarama", "sarama.{} v1.61.1", _RANDOM, _sarama_refusal)

SARAMA = (
    # ``NewCustomHashPartitioner(fnv.New32a)`` is the same.
    _SARAMA.describe_partitioner(
        "hash",
        "FNV-1a as a signed int, its remainder's absolute value; null keys by chance. The default.",
        "NewHashPartitioner",
        KeyRule(FNV1A, "absolute"),
        aliases=("sarama",),
    ),
    # Also ``NewCustomPartitioner(WithAbsFirst())``. The hash is still not Java's.
    _SARAMA.describe_partitioner(
        "reference",
        "FNV-1a with the sign bit masked as Java does: ``NewReferenceHashPartitioner``.",
        "NewReferenceHashPartitioner",
        KeyRule(FNV1A, "masked"),
    ),
    # Also ``NewCustomPartitioner(WithHashUnsigned(), WithCustomHashFunction(crc32.NewIEEE))``. An
    # empty key is hashed here; librdkafka's ``consistent_random`` places it by chance.
    _SARAMA.describe_partitioner(
        "crc32",
        "CRC32, unsigned, as librdkafka's default: ``NewConsistentCRCHashPartitioner``.",
        "NewConsistentCRCHashPartitioner",
        KeyRule(CRC32, "unsigned"),
    ),
    _SARAMA.describe_partitioner(
        "murmur2",
        "As Java hashes keys: ``NewMurmur2Partitioner``.",
        "NewMurmur2Partitioner",
        MURMUR2_MASKED,
    ),
    _SARAMA.describe_partitioner(
        "random",
        "Each message by chance, whatever its key: ``NewRandomPartitioner``, Go's ``Intn``.",
        "NewRandomPartitioner",
    ),
    _SARAMA.describe_partitioner(
        "roundrobin",
        "Each message to the next partition that has a leader: ``NewRoundRobinPartitioner``.",
        "NewRoundRobinPartitioner",
        machine=_ROUND_ROBIN,
    ),
    _SARAMA.describe_partitioner(
        "manual",
        "The partition that the message names, 0 if it names none: ``NewManualPartitioner``.",
        "NewManualPartitioner",
        is_manual=True,
    ),
)


# --- franz-go --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyTopicPartitioner(PartitionerState):
    """State of franz-go's sticky partitioner for one topic: the current partition and its batch.

    The Go type is ``stickyTopicPartitioner``.

    Attributes:
        on: position of the current partition among those with a leader, -1 for none.
        last: position of the previous partition; the next draw avoids it.
        batch_size: bytes after which a batch is full.
        filled: bytes in the current batch.
    """

    on: int = -1
    last: int = -1
    batch_size: int = 1_000_012
    filled: int = 0


def _choose_sticky(
    state: StickyTopicPartitioner, sizes: Int64Array, partitions: int
) -> tuple[Int32Array, StickyTopicPartitioner]:
    """Choose the partition of each record like the sticky partitioner of franz-go.

    Records go to the same partition until its batch is full.

    Args:
        state: current partition and fill of its batch.
        sizes: bytes of each record.
        partitions: partition count of the topic.

    Returns:
        int32[n], and the new state.
    """
    check_batch_size(state.batch_size)
    # Records stay in the current partition until one does not fit into its batch.
    pool = state.choosable_partitions(partitions)
    out = np.empty(len(sizes), np.int32)
    for i, size in enumerate(sizes.tolist()):
        if state.filled and state.filled + size > state.batch_size:
            state = replace(state, last=state.on, on=-1, filled=0)
        if state.on == -1 or state.on >= len(pool):
            on, draws = draw_below(state.draws, len(pool))
            on = (on + 1) % len(pool) if on == state.last else on
            state = replace(state, on=on, draws=draws)
        state = replace(state, filled=state.filled + size)
        out[i] = pool[state.on]
    return out, state


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformBytes(PartitionerState):
    """State of franz-go's default partitioner (``uniformBytesTopicPartitioner``) for one topic.

    Records without a key go to one partition until it has received a number of bytes. Then another
    partition is drawn.

    Attributes:
        limit: bytes after which another partition is chosen.
        adaptive: whether partitions with full queues are avoided.
        on: position of the current partition among those with a leader, -1 for none.
        produced: bytes produced since it was chosen.
        buffered: number of records queued for each partition, used if ``adaptive``; () for none.
    """

    limit: int = 64 << 10
    adaptive: bool = True
    on: int = -1
    produced: int = 0
    buffered: tuple[int, ...] = ()


def draw_next_partition(state: UniformBytes, count: int) -> UniformBytes:
    """Draw the next partition of franz-go's uniform-bytes partitioner, and return the new state.

    If the partitioner is adaptive, partitions with longer queues are less likely.

    Args:
        state: the state before the draw.
        count: number of partitions with a leader.
    """
    if not state.adaptive:
        on, draws = draw_below(state.draws, count)
        return replace(state, on=on, draws=draws)
    buffered = state.buffered or (0,) * count
    if len(buffered) != count:
        raise InvalidConfigError("buffered", f"must have {count} numbers", state.buffered)
    places = range(count - 1, -1, -1)
    total = 0.0
    for place in places:
        total += 1 / (buffered[place] + 1)
    drawn, draws = draw_fraction(state.draws)
    pick = drawn * total
    for place in places:
        pick -= 1 / (buffered[place] + 1)
        if pick <= 0:
            return replace(state, on=place, draws=draws)
    return replace(state, on=0, draws=draws)  # rounding left a remainder: the last one walked


def _choose_uniform_bytes(
    state: UniformBytes, sizes: Int64Array, partitions: int
) -> tuple[Int32Array, UniformBytes]:
    check_batch_size(state.limit, "limit")
    pool = state.choosable_partitions(partitions)
    out = np.empty(len(sizes), np.int32)
    for i, size in enumerate(sizes.tolist()):
        produced = state.produced + size
        if produced >= state.limit:
            state = replace(state, produced=size, on=-1)
        else:
            state = replace(state, produced=produced)
        if not 0 <= state.on < len(pool):
            state = draw_next_partition(state, len(pool))
        out[i] = pool[state.on]
    return out, state


def _franz_go_refusal(partition: int, partitions: int) -> str:
    # The error of the record's promise.
    return f"invalid record partitioning choice of {partition} from {partitions} partitions"


_STICKY = StateMachine(StickyTopicPartitioner, _choose_sticky, "sticky for a batch")
_UNIFORM = StateMachine(UniformBytes, _choose_uniform_bytes, "sticky for 64 KiB")
_FRANZ_GO = _ClientDefaults("franz-go", "kgo.{} v1.22.2", _STICKY, _franz_go_refusal)

FRANZ_GO = (
    _FRANZ_GO.describe_partitioner(
        "uniform-bytes",
        "As Java hashes keys; null keys stay for 64 KiB: ``UniformBytesPartitioner``. The default.",
        "UniformBytesPartitioner",
        MURMUR2_MASKED,
        machine=_UNIFORM,
        aliases=("franz-go",),
    ),
    _FRANZ_GO.describe_partitioner(
        "sticky-key",
        "As Java hashes keys; null keys stay with a partition a batch: ``StickyKeyPartitioner``.",
        "StickyKeyPartitioner",
        MURMUR2_MASKED,
    ),
    _FRANZ_GO.describe_partitioner(
        "sarama-compat",
        "As Sarama's default: ``StickyKeyPartitioner(SaramaCompatHasher(fnv32a))``.",
        "SaramaCompatHasher",
        KeyRule(FNV1A, "absolute"),
    ),
    _FRANZ_GO.describe_partitioner(
        "sticky",
        "All records stay with one partition a batch, whatever their keys: ``StickyPartitioner``.",
        "StickyPartitioner",
    ),
    _FRANZ_GO.describe_partitioner(
        "roundrobin",
        "Each record to the next partition that can be written to: ``RoundRobinPartitioner``.",
        "RoundRobinPartitioner",
        machine=_ROUND_ROBIN,
    ),
    _FRANZ_GO.describe_partitioner(
        "manual",
        "The partition that the record names, 0 if it names none: ``ManualPartitioner``.",
        "ManualPartitioner",
        is_manual=True,
    ),
)
