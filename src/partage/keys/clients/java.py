"""Partitioners of Kafka's Java producers and of Kafka Streams, and their state machines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from partage.errors import InvalidConfigError
from partage.keys.columns import KeyColumn
from partage.keys.hashing import MURMUR2
from partage.keys.partitioner import (
    Int32Array,
    Int64Array,
    KeyRule,
    Partitioner,
    PartitionerState,
    StateMachine,
    check_batch_size,
    clear_sign_bit,
    draw_from,
)

__all__ = [
    "JAVA",
    "MURMUR2_MASKED",
    "STREAMS",
    "Adaptive",
    "Counter",
    "StickyCache",
    "Turns",
    "count_appended_bytes",
    "draw_sticky_partition",
    "invalid_record_partition",
    "next_partition",
    "peek_partition",
    "sticky_partition",
    "with_queues",
    "without_window",
]

#: Java's rule for keys since 0.8.1: murmur2 without the sign bit, modulo all partitions.
MURMUR2_MASKED = KeyRule(MURMUR2, "masked")


# -- counters ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter(PartitionerState):
    """State of round robin in a Java producer: a counter that each record without a key increases.

    The counter decides the record's partition.

    Attributes:
        counter: the next value, an int32; None: a random start is drawn at the first record, as in
            the clients.
    """

    counter: int | None = None


def _advance_counter(counter: int, steps: int) -> int:
    """Return the value of a round-robin counter after ``steps`` more records.

    It overflows like an int in Java.

    >>> _advance_counter(2**31 - 1, 1)
    -2147483648
    """
    return (counter + steps + (1 << 31)) % (1 << 32) - (1 << 31)


def _choose_by_counter(
    state: Counter, sizes: Int64Array, partitions: int
) -> tuple[Int32Array, Counter]:
    # toPositive(counter) modulo the partitions with a leader.
    count, counter, draws = len(sizes), state.counter, state.draws
    if not count:
        return np.zeros(0, np.int32), state
    if counter is None:
        counter, draws = draws.next_int()
    pool = np.array(state.choosable_partitions(partitions), np.int32)
    turn = (np.arange(count, dtype=np.int64) + counter) & 0x7FFFFFFF
    after = _advance_counter(counter, count)
    return pool[turn % len(pool)], replace(state, counter=after, draws=draws)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns(Counter):
    """State of Java's ``RoundRobinPartitioner`` for one topic: its counter and its open batches.

    Each record goes to the next partition in turn.

    Attributes:
        counter: the next value.
        asked_again: whether the producer calls the partitioner again for a new batch (2.4 to 3.9),
            and so skips a partition (KAFKA-9965).
        batch_size: bytes of a batch, for ``asked_again``.
        filled: bytes in the open batch of each partition, () for none open.
    """

    counter: int | None = 0
    asked_again: bool = False
    batch_size: int = 16_384
    filled: tuple[int, ...] = ()


def _choose_round_robin(
    state: Turns, sizes: Int64Array, partitions: int
) -> tuple[Int32Array, Counter]:
    """Choose the partition of each record in turn, like Java's ``RoundRobinPartitioner``.

    In producers 2.4 to 3.9, a record that needs a new batch skips a partition (KAFKA-9965).

    Args:
        state: the round-robin counter and open batches.
        sizes: bytes of each record.
        partitions: partition count of the topic.

    Returns:
        int32[n], and the new state.
    """
    if not state.asked_again:
        return _choose_by_counter(state, sizes, partitions)
    check_batch_size(state.batch_size)
    # With ``state.asked_again`` (producers 2.4 to 3.9), a record that needs a new batch advances
    # the counter twice, and so skips a partition (KAFKA-9965).
    pool = state.choosable_partitions(partitions)
    filled = list(state.filled) or [0] * partitions
    if len(filled) != partitions:
        raise InvalidConfigError("filled", f"must have {partitions} numbers", state.filled)
    counter = state.counter or 0
    out = np.empty(len(sizes), np.int32)
    for i, size in enumerate(sizes.tolist()):
        partition = pool[clear_sign_bit(counter) % len(pool)]
        counter = _advance_counter(counter, 1)
        if not filled[partition] or filled[partition] + size > state.batch_size:
            partition = pool[clear_sign_bit(counter) % len(pool)]
            counter = _advance_counter(counter, 1)
        fits = filled[partition] + size <= state.batch_size
        filled[partition] = filled[partition] + size if fits else size
        out[i] = partition
    return out, replace(state, counter=counter, filled=tuple(filled))


# -- sticky partitions, 2.4 to 3.9 (KIP-480) ---------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyCache(PartitionerState):
    """State of Java's sticky partitioner for one topic: current partition and batch (KIP-480).

    The Java class is ``StickyPartitionCache``. Records without a key go to the same partition until
    the batch is full.

    Attributes:
        partition: the cached partition; None before the first record.
        batch_size: bytes after which a batch is full and the producer opens a new one.
        filled: bytes in the batch.
    """

    partition: int | None = None
    batch_size: int = 16_384
    filled: int = 0


def sticky_partition(state: StickyCache, partitions: int) -> tuple[int, StickyCache]:
    """Return the partition to which a Java producer currently sends records without a key.

    The first call draws the partition; the new state is returned too. It equals
    ``StickyPartitionCache.partition``. ``partitions`` is the topic's partition count.
    """
    if state.partition is not None:
        return state.partition, state
    return draw_sticky_partition(state, partitions, -1)


def draw_sticky_partition(
    state: StickyCache, partitions: int, previous: int
) -> tuple[int, StickyCache]:
    """Draw another sticky partition for a topic, because a batch is full.

    The new state is returned too. It equals ``StickyPartitionCache.nextPartition``.

    Args:
        state: the state before the draw.
        partitions: the topic's number of partitions.
        previous: partition of the full batch; it is not drawn again if several have a leader.

    >>> from partage.keys.partitioner import GivenDraws
    >>> state = StickyCache(partition=1, draws=GivenDraws((4, 5)))
    >>> draw_sticky_partition(state, 3, previous=1)[0]
    2
    """
    old = state.partition
    # Nothing changes if another thread has already replaced that partition. Without any leader the
    # cache draws once from all partitions, and may get the same one.
    if old is not None and old != previous:
        return old, state
    draws = state.draws
    pool = state.choosable_partitions(partitions)
    if state.available == ():
        new, draws = draw_from(pool, draws)
    elif len(set(pool)) == 1:
        new = pool[0]
    else:
        new, draws = draw_from(pool, draws)
        while new == old:
            new, draws = draw_from(pool, draws)
    return new, replace(state, partition=new, draws=draws, filled=0)


def _choose_cached(
    state: StickyCache, sizes: Int64Array, partitions: int
) -> tuple[Int32Array, StickyCache]:
    # The producer opens a batch when a record no longer fits. Here a batch holds ``batch_size``
    # bytes of the given sizes, and the record that does not fit opens the next one.
    check_batch_size(state.batch_size)
    out = np.empty(len(sizes), np.int32)
    done = 0
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    while done < len(sizes):
        partition, state = sticky_partition(state, partitions)
        room = state.batch_size - state.filled
        stop = int(np.searchsorted(upto, upto[done] + room, side="right")) - 1
        if stop <= done:  # the next record does not fit
            if state.filled:
                _, state = draw_sticky_partition(state, partitions, partition)
                continue
            stop = done + 1  # a record larger than a batch has a batch of its own
        stop = min(stop, len(sizes))
        out[done:stop] = partition
        state = replace(state, filled=state.filled + int(upto[stop] - upto[done]))
        done = stop
    return out, state


# -- adaptive partitions, 3.3 to 4.3 (KIP-794) -------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive(PartitionerState):
    """State of Java's ``BuiltInPartitioner`` for one topic (KIP-794).

    Records without a key stay in a partition for ``batch.size`` bytes. Partitions with long queues
    are then chosen less often.

    Attributes:
        batch_size: the sticky size: ``batch.size``, at least 1.
        partition: the sticky partition; None before the first record.
        produced: bytes appended since it was chosen.
        table: cumulative weights of the partitions by queue length; () without statistics.
        ids: partition of each entry of ``table``.
    """

    batch_size: int = 16_384
    partition: int | None = None
    produced: int = 0
    table: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()


def with_queues(
    state: Adaptive,
    queues: Sequence[int] | None,
    ids: Sequence[int] = (),
    length: int | None = None,
) -> Adaptive:
    """Return a Java partitioner's state with the current lengths of the producer's queues.

    The partitioner then chooses partitions with long queues less often (KIP-794). It equals
    ``BuiltInPartitioner.updatePartitionLoadStats``. A partition's weight is the longest queue minus
    its own, plus one. The state has no weights if there are fewer than two partitions, or if all
    queues are equally long and no partition was left out.

    Args:
        state: state of the topic's partitioner.
        queues: number of batches queued for each partition; None if none were collected.
        ids: the partition of each queue.
        length: number of leading queues to use; the producer left the others out (no leader, or the
            broker took nothing for ``partitioner.availability.timeout.ms``).

    >>> with_queues(Adaptive(), [0, 3, 1], [0, 1, 2]).table
    (4, 5, 8)
    """
    if queues is None:
        return replace(state, table=(), ids=())
    upto = len(queues) if length is None else length
    if not 0 <= upto <= len(queues) or len(ids) != len(queues):
        raise InvalidConfigError("queues", "must go with ids, and length with both", length)
    if upto < 1 or len(queues) < 2:
        return replace(state, table=(), ids=())
    sizes = list(queues[:upto])
    if min(sizes) == max(sizes) and upto == len(queues):
        return replace(state, table=(), ids=())
    most = max(sizes) + 1
    table = tuple(accumulate(most - one for one in sizes))
    return replace(state, table=table, ids=tuple(ids[:upto]))


def next_partition(state: Adaptive, partitions: int) -> tuple[int, Adaptive]:
    """Draw the partition to which a Java producer sends the next records without a key (KIP-794).

    Partitions with longer queues are less likely. The new state is returned too. It equals
    ``BuiltInPartitioner.nextPartition``. ``partitions`` is the topic's partition count.
    """
    if not state.table:
        # Without queue lengths, all available partitions are equally likely.
        chosen, draws = draw_from(state.choosable_partitions(partitions), state.draws)
        return chosen, replace(state, draws=draws)
    number, draws = state.draws.next_int()
    weighted = clear_sign_bit(number) % state.table[-1]
    return state.ids[bisect_right(state.table, weighted)], replace(state, draws=draws)


def peek_partition(state: Adaptive, partitions: int) -> tuple[int, Adaptive]:
    """Return the partition to which a Java producer now sends records without a key (KIP-794).

    The first call draws the partition; the new state is returned too. It equals
    ``BuiltInPartitioner.peekCurrentPartitionInfo``. ``partitions`` is the topic's partition count.
    """
    if state.partition is not None:
        return state.partition, state
    chosen, state = next_partition(state, partitions)
    return chosen, replace(state, partition=chosen, produced=0)


def count_appended_bytes(
    state: Adaptive, appended: int, partitions: int, *, switch: bool = True
) -> Adaptive:
    """Count the bytes that a Java producer appends to a batch, and return the new state.

    Another sticky partition is drawn after ``batch_size`` bytes. It equals
    ``BuiltInPartitioner.updatePartitionInfo``.

    Args:
        state: state of the topic's partitioner.
        appended: number of bytes.
        partitions: partition count of the topic.
        switch: whether the newest batch is full; if not, a partition is drawn only after twice
            ``batch_size`` bytes.

    Returns:
        the new state; the same partition may be drawn again.
    """
    if state.partition is None:
        return state
    produced = state.produced + appended
    size = state.batch_size
    if (produced >= size and switch) or produced >= 2 * size:
        chosen, state = next_partition(state, partitions)
        return replace(state, partition=chosen, produced=0)
    return replace(state, produced=produced)


def _choose_adaptive(
    state: Adaptive, sizes: Int64Array, partitions: int
) -> tuple[Int32Array, Adaptive]:
    # The caller sets queue lengths with with_queues.
    check_batch_size(state.batch_size)
    out = np.empty(len(sizes), np.int32)
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    done = 0
    while done < len(sizes):
        partition, state = peek_partition(state, partitions)
        full = int(upto[done]) + state.batch_size - state.produced
        stop = min(len(sizes), max(done + 1, int(np.searchsorted(upto, full))))
        out[done:stop] = partition
        state = count_appended_bytes(state, int(upto[stop] - upto[done]), partitions)
        done = stop
    return out, state


# -- Kafka Streams -----------------------------------------------------------------------------

#: ``TimeWindowedSerializer`` appends the start of the window, a long, to the key.
_WINDOW_START_BYTES = 8


def without_window(keys: KeyColumn, tail: int = _WINDOW_START_BYTES) -> KeyColumn:
    """Remove the window from the keys of a windowed Kafka Streams topic.

    The window is the last ``tail`` bytes of a key: 8 for a time window, 16 for a session (end and
    start). Shorter keys become empty.
    """
    starts = keys.starts.astype(np.int64)
    lengths = np.maximum(np.diff(starts) - tail, 0)
    out = np.zeros(len(starts), np.int64)
    np.cumsum(lengths, out=out[1:])
    inside = np.arange(out[-1]) + np.repeat(starts[:-1] - out[:-1], lengths)
    return KeyColumn(keys.data[inside], out, keys.null, keys.code)


# -- tables ------------------------------------------------------------------------------------


def invalid_record_partition(partition: int, partitions: int) -> str:
    """Return the error message of old Java producers for a record with an invalid partition.

    It is the message of releases 0.8.2.2 and 0.9, with their unusual closing bracket.

    Args:
        partition: the partition that the record names.
        partitions: the topic's number of partitions.
    """
    return (
        f"Invalid partition given with record: {partition} is not in the range [0...{partitions}]."
    )


def _refusal(partition: int, partitions: int) -> str:
    # From ProducerRecord (below 0) or KafkaProducer (too high).
    if partition < 0:
        return (
            f"Invalid partition: {partition}. "
            "Partition number should always be non-negative or null."
        )
    return (
        f"Partition {partition} of topic with partition count {partitions} is not present "
        "in metadata"
    )


_COUNTER = StateMachine(Counter, _choose_by_counter, "by turns")
_STICKY = StateMachine(StickyCache, _choose_cached, "sticky for a batch")
_ADAPTIVE = StateMachine(Adaptive, _choose_adaptive, "sticky for batch.size bytes")
_PRODUCER = "org.apache.kafka.clients.producer"
_INTERNALS = f"{_PRODUCER}.internals"
_STREAMS = "org.apache.kafka.streams.kstream.internals"

JAVA = (
    # All partitions count, those without a leader too. An empty key is a key.
    Partitioner(
        "murmur2",
        "murmur2 with the sign bit masked, modulo all partitions, since 0.8.1; null keys nowhere.",
        f"{_INTERNALS}.BuiltInPartitioner.partitionForKey 4.3.1",
        MURMUR2_MASKED,
        aliases=("java", "kafka"),
    ),
    # ``Utils.abs`` of these releases is ``n & 0x7fffffff``, so that keys never moved later. The
    # counter starts at a random int; callers pass one state from topic to topic.
    Partitioner(
        "java:0.8",
        "murmur2 masked by ``Utils.abs``; null keys by turns, one counter for all topics.",
        f"{_INTERNALS}.Partitioner 0.8.2.2",
        MURMUR2_MASKED,
        _COUNTER,
        aliases=(f"{_INTERNALS}.Partitioner",),
        refusal=invalid_record_partition,
    ),
    # ``Utils.abs`` became a true absolute value; the partitioner got a private ``toPositive`` with
    # the old mask instead (KAFKA-1988). The producer now rejects an explicit partition.
    Partitioner(
        "java:0.9",
        "As 0.8.2.2, by a class of its own: murmur2, ``toPositive``, one counter for all topics.",
        f"{_INTERNALS}.DefaultPartitioner 0.9.0.1",
        MURMUR2_MASKED,
        _COUNTER,
        refusal=invalid_record_partition,
    ),
    # The released jars from 0.10.2.2 on have a map of counters. With an explicit partition that
    # is too high, the producer waits for metadata until max.block.ms.
    Partitioner(
        "java:2.3",
        "murmur2, ``toPositive``; null keys by turns, a counter for each topic (random start).",
        f"{_INTERNALS}.DefaultPartitioner 2.3.1",
        MURMUR2_MASKED,
        _COUNTER,
        refusal=_refusal,
    ),
    # The default from 2.4 on, deprecated in 3.3. The producer calls `draw_sticky_partition` for
    # every new batch, also for those of records with a key.
    Partitioner(
        "java:3.9",
        "murmur2, ``toPositive``; null keys stay with one partition a batch (KIP-480).",
        f"{_INTERNALS}.DefaultPartitioner 3.9.1",
        MURMUR2_MASKED,
        _STICKY,
        aliases=(f"{_INTERNALS}.DefaultPartitioner",),
        refusal=_refusal,
    ),
    Partitioner(
        "java:uniform-sticky",
        "All records stay with one partition a batch, whatever their keys; last in 3.9.1.",
        f"{_PRODUCER}.UniformStickyPartitioner 3.9.1",
        machine=_STICKY,
        aliases=(f"{_PRODUCER}.UniformStickyPartitioner",),
        refusal=_refusal,
    ),
    Partitioner(
        "java:roundrobin",
        "All records by turns, keys have no say; a counter for each topic, from 0 (KIP-369).",
        f"{_PRODUCER}.RoundRobinPartitioner 4.3.1",
        machine=StateMachine(Turns, _choose_round_robin, "by turns"),
        aliases=(f"{_PRODUCER}.RoundRobinPartitioner",),
        refusal=_refusal,
    ),
    Partitioner(
        "java:builtin",
        "murmur2; null keys stay until ``batch_size`` bytes, then by chance and queues (KIP-794).",
        f"{_INTERNALS}.BuiltInPartitioner 4.3.1",
        MURMUR2_MASKED,
        _ADAPTIVE,
        aliases=(f"{_INTERNALS}.BuiltInPartitioner",),
        refusal=_refusal,
    ),
    Partitioner(
        "java:builtin-ignoring-keys",
        "All records as `java:builtin` has null keys: ``partitioner.ignore.keys=true`` (KIP-794).",
        f"{_INTERNALS}.BuiltInPartitioner 4.3.1",
        machine=_ADAPTIVE,
        refusal=_refusal,
    ),
)

STREAMS = (
    # Keys are as ``TimeWindowedSerializer`` writes them. For session windows, remove 16 bytes
    # with `without_window` and use ``murmur2``.
    Partitioner(
        "streams:windowed",
        "murmur2 of the key part of a windowed key: windows of one key share its partition.",
        f"{_STREAMS}.WindowedStreamPartitioner 4.3.1",
        MURMUR2_MASKED,
        aliases=(f"{_STREAMS}.WindowedStreamPartitioner",),
        key_part=without_window,
    ),
)
