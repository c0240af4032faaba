"""Turns by a counter that wraps as a Java int does; the shared part of several partitioners."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar

import numpy as np

from partage.errors import InvalidConfigError
from partage.keys.columns import KeyColumn
from partage.keys.hashing import MURMUR2
from partage.keys.partitioner import (
    Draws,
    Int32Array,
    Int64Array,
    KeyRule,
    Partitioner,
    State,
    drawn_from,
    positive,
)

__all__ = [
    "Adaptive",
    "Counter",
    "CountingPartitioner",
    "Java08",
    "Java09",
    "Java23",
    "Java39",
    "JavaBuiltIn",
    "JavaRoundRobin",
    "JavaUniformSticky",
    "PlainMurmur2",
    "StickyCache",
    "StickyCachePartitioner",
    "StreamsWindowed",
    "Turns",
    "after",
    "cached",
    "next_cached",
    "next_partition",
    "peeked",
    "updated",
    "with_queues",
    "without_window",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter(State):
    """A counter of records without a key.

    Attributes:
        counter: the next value, -2**31 <= counter < 2**31; None draws it at the first record,
            as the clients do.
    """

    counter: int | None = None


def after(counter: int, steps: int) -> int:
    """The counter so many steps on, wrapped as an int of Java's.

    >>> after(2**31 - 1, 1)
    -2147483648
    """
    return (counter + steps + (1 << 31)) % (1 << 32) - (1 << 31)


class CountingPartitioner(Partitioner):
    """Null keys by turns: ``toPositive(counter)`` modulo the partitions that have a leader."""

    state: ClassVar[type[State] | None] = Counter

    def choose(
        self, state: Counter, sizes: Int64Array, partitions: int
    ) -> tuple[Int32Array, Counter]:
        """Turns over the partitions that have a leader, over all when none has."""
        count, counter, draws = len(sizes), state.counter, state.draws
        if not count:
            return np.zeros(0, np.int32), state
        if counter is None:
            counter, draws = draws.next_int()
        pool = np.array(state.pool(partitions), np.int32)
        turn = (np.arange(count, dtype=np.int64) + counter) & 0x7FFFFFFF
        after_all = after(counter, count)
        return pool[turn % len(pool)], replace(state, counter=after_all, draws=draws)


class PlainMurmur2(Partitioner):
    """murmur2 with the sign bit masked, modulo all partitions, since 0.8.1; null keys nowhere.

    All partitions count, those without a leader too. An empty key is a key.
    """

    name = "murmur2"
    exact_to = (
        "org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey 4.3.1"
    )
    aliases: ClassVar[tuple[str, ...]] = ("java", "kafka")
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")


class Java08(CountingPartitioner):
    """murmur2 masked by ``Utils.abs``; null keys by turns, one counter for all topics.

    ``Utils.abs`` of these releases is ``n & 0x7fffffff``, whatever its name says: the same as
    ``toPositive`` later, so that keys never moved. The counter starts at a random int and counts
    for all topics together: hand one state from topic to topic (with its ``available`` replaced).

    >>> Java08.rule.of_key(b"21", 10)
    0
    """

    name = "java:0.8"
    exact_to = "org.apache.kafka.clients.producer.internals.Partitioner 0.8.2.2"
    aliases: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.clients.producer.internals.Partitioner",
    )
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")

    def refusal(self, partition: int, partitions: int) -> str:
        """The text of the class, its closed bracket included (the range has n - 1 as its end)."""
        return (
            f"Invalid partition given with record: {partition} is not in the range "
            f"[0...{partitions}]."
        )


class Java09(Java08):
    """As 0.8.2.2, by a class of its own: murmur2, ``toPositive``, one counter for all topics.

    ``Utils.abs`` became a true absolute value in this release; the partitioner got a private
    ``toPositive`` with the old mask instead (KAFKA-1988). The producer, no longer the partitioner,
    refuses an explicit partition outside the topic, in the words of 0.8.2.2.
    """

    name = "java:0.9"
    exact_to = "org.apache.kafka.clients.producer.internals.DefaultPartitioner 0.9.0.1"
    aliases: ClassVar[tuple[str, ...]] = ()


class Java23(CountingPartitioner):
    """murmur2, ``toPositive``; null keys by turns, a counter for each topic (random start).

    Read off the published jars: 0.9.0.1 has one counter, 0.10.2.2 and all later ones a map of
    them. An explicit partition below 0 is refused by ``ProducerRecord``; one that is too high
    makes the producer wait for metadata until it gives up.
    """

    name = "java:2.3"
    exact_to = "org.apache.kafka.clients.producer.internals.DefaultPartitioner 2.3.1"
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")

    def refusal(self, partition: int, partitions: int) -> str:
        """What record and producer say."""
        return java_refusal(partition, partitions)


def java_refusal(partition: int, partitions: int) -> str:
    """What ``ProducerRecord`` and ``KafkaProducer`` say of a partition that is not there."""
    if partition < 0:
        return (
            f"Invalid partition: {partition}. "
            "Partition number should always be non-negative or null."
        )
    return (
        f"Partition {partition} of topic with partition count {partitions} is not present "
        "in metadata"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyCache(State):
    """``StickyPartitionCache`` of one topic, and how full the batch behind it is.

    Attributes:
        partition: what is cached; None before the first record.
        batch_size: bytes after which a batch is full and the producer tells of a new one.
        filled: bytes in the batch.
    """

    partition: int | None = None
    batch_size: int = 16_384
    filled: int = 0


def cached(state: StickyCache, partitions: int) -> tuple[int, StickyCache]:
    """The cached partition, chosen now if there is none: ``StickyPartitionCache.partition``."""
    if state.partition is not None:
        return state.partition, state
    return next_cached(state, partitions, -1)


def next_cached(state: StickyCache, partitions: int, previous: int) -> tuple[int, StickyCache]:
    """Another partition if ``previous`` is what is cached: ``nextPartition``.

    A thread that comes late (its ``previous`` is no longer cached) changes nothing. With several
    partitions that have a leader, draws go on until one differs from the cached one; without any,
    it is one of all, perhaps the same.

    >>> from partage.keys.partitioner import Numbers
    >>> state = StickyCache(partition=1, draws=Numbers((4, 5)))
    >>> next_cached(state, 3, previous=1)[0]
    2
    """
    old = state.partition
    if old is not None and old != previous:
        return old, state
    draws: Draws = state.draws
    pool = state.pool(partitions)
    if not state.available and state.available is not None:
        new, draws = drawn_from(pool, draws)
    elif len(set(pool)) == 1:
        new = pool[0]
    else:
        new, draws = drawn_from(pool, draws)
        while new == old:
            new, draws = drawn_from(pool, draws)
    return new, replace(state, partition=new, draws=draws, filled=0)


class StickyCachePartitioner(Partitioner):
    """Records without a key stay with one partition until its batch is full (KIP-480).

    The real producer knows of a new batch when a record no longer fits; here a batch holds
    ``batch_size`` bytes of the sizes given, and the record that does not fit opens the next.
    """

    state: ClassVar[type[State] | None] = StickyCache

    def refusal(self, partition: int, partitions: int) -> str:
        """What record and producer say."""
        return java_refusal(partition, partitions)

    def choose(
        self, state: StickyCache, sizes: Int64Array, partitions: int
    ) -> tuple[Int32Array, StickyCache]:
        """Each record to the cached partition; where it does not fit, to the next one."""
        if state.batch_size < 1:
            raise InvalidConfigError("batch_size", "must be at least 1", state.batch_size)
        out = np.empty(len(sizes), np.int32)
        done = 0
        upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        while done < len(sizes):
            partition, state = cached(state, partitions)
            room = state.batch_size - state.filled
            fits = int(np.searchsorted(upto, upto[done] + room, side="right")) - 1
            if fits <= done:  # nothing more fits
                if state.filled:
                    _, state = next_cached(state, partitions, partition)
                    continue
                fits = done + 1  # a record larger than a batch has one of its own
            fits = min(fits, len(sizes))
            out[done:fits] = partition
            state = replace(state, filled=state.filled + int(upto[fits] - upto[done]))
            done = fits
        return out, state


class Java39(StickyCachePartitioner):
    """murmur2, ``toPositive``; null keys stay with one partition a batch (KIP-480).

    The default from 2.4; deprecated in 3.3; 3.9.1 is the last release that has it. A producer
    tells the cache of every new batch, those of keyed records too: `next_cached` is that call.
    """

    name = "java:3.9"
    exact_to = "org.apache.kafka.clients.producer.internals.DefaultPartitioner 3.9.1"
    aliases: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
    )
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive(State):
    """``BuiltInPartitioner`` of one topic.

    Attributes:
        batch_size: the sticky size: ``batch.size``, at least 1.
        partition: the sticky partition, None before it was first asked for.
        produced: bytes appended since it was chosen.
        table: running sums of the weights of queues; () while there are no load statistics.
        ids: the partitions that the sums are of.
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
    """New load statistics: ``updatePartitionLoadStats``.

    A partition's weight is one more than what the longest queue has more than its own. There are
    no statistics where none were collected, for fewer than two partitions, or where all queues
    are equally long (and no partition was left out).

    Args:
        state: of the topic.
        queues: batches that wait for each partition; None for none collected.
        ids: the partitions, as many as queues.
        length: how many of these count; the others were left out (no leader, or its broker
            took nothing for ``partitioner.availability.timeout.ms``).

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
    """One by chance, seldom one with a long queue: ``nextPartition``; does not make it sticky."""
    if not state.table:
        chosen, draws = drawn_from(state.pool(partitions), state.draws)
        return chosen, replace(state, draws=draws)
    number, draws = state.draws.next_int()
    weighted = positive(number) % state.table[-1]
    return state.ids[bisect_right(state.table, weighted)], replace(state, draws=draws)


def peeked(state: Adaptive, partitions: int) -> tuple[int, Adaptive]:
    """The sticky partition, drawn at the first call: ``peekCurrentPartitionInfo``."""
    if state.partition is not None:
        return state.partition, state
    chosen, state = next_partition(state, partitions)
    return chosen, replace(state, partition=chosen, produced=0)


def updated(state: Adaptive, appended: int, partitions: int, *, switch: bool = True) -> Adaptive:
    """After so many bytes were appended: ``updatePartitionInfo``.

    Draws again when ``batch_size`` is reached and ``switch`` allows it (the newest batch is full),
    and in any case at twice the size; the same partition may come again.
    """
    if state.partition is None:
        return state
    produced = state.produced + appended
    size = state.batch_size
    if (produced >= size and switch) or produced >= 2 * size:
        chosen, state = next_partition(state, partitions)
        return replace(state, partition=chosen, produced=0)
    return replace(state, produced=produced)


class JavaBuiltIn(Partitioner):
    """murmur2; null keys stay until ``batch_size`` bytes, then by chance and queues (KIP-794).

    `choose` appends record after record and allows the switch after each. What the sender's queues
    do is fed from outside, by `with_queues`; the class draws from ``ThreadLocalRandom``, which is
    fed as numbers. With ``partitioner.ignore.keys`` this is ``java:builtin-ignoring-keys``.

    >>> JavaBuiltIn.rule.of_key(b"foobar", 10)
    6
    """

    name = "java:builtin"
    exact_to = "org.apache.kafka.clients.producer.internals.BuiltInPartitioner 4.3.1"
    aliases: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.clients.producer.internals.BuiltInPartitioner",
    )
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")
    state: ClassVar[type[State] | None] = Adaptive

    def refusal(self, partition: int, partitions: int) -> str:
        """What record and producer say."""
        return java_refusal(partition, partitions)

    def choose(
        self, state: Adaptive, sizes: Int64Array, partitions: int
    ) -> tuple[Int32Array, Adaptive]:
        """Each record to the sticky partition; its bytes may make the next one another's."""
        if state.batch_size < 1:
            raise InvalidConfigError("batch_size", "must be at least 1", state.batch_size)
        out = np.empty(len(sizes), np.int32)
        upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        done = 0
        while done < len(sizes):
            partition, state = peeked(state, partitions)
            full = int(upto[done]) + state.batch_size - state.produced
            stop = min(len(sizes), max(done + 1, int(np.searchsorted(upto, full))))
            out[done:stop] = partition
            state = updated(state, int(upto[stop] - upto[done]), partitions)
            done = stop
        return out, state


class JavaBuiltInIgnoringKeys(JavaBuiltIn):
    """All records as `java:builtin` has null keys: ``partitioner.ignore.keys=true`` (KIP-794)."""

    name = "java:builtin-ignoring-keys"
    aliases: ClassVar[tuple[str, ...]] = ()
    rule: ClassVar[KeyRule | None] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns(Counter):
    """A counter from 0, and the batches where the defect is wanted.

    Attributes:
        counter: the next value.
        asked_again: True for producers 2.4 to 3.9, which ask a partitioner a second time for a
            record that needs a new batch.
        batch_size: bytes of a batch, for ``asked_again``.
        filled: bytes in the open batch of each partition, () for none open.
    """

    counter: int | None = 0
    asked_again: bool = False
    batch_size: int = 16_384
    filled: tuple[int, ...] = ()


class JavaRoundRobin(CountingPartitioner):
    """All records by turns, keys have no say; a counter for each topic, from 0 (KIP-369).

    The known defect (KAFKA-9965): a producer before 4.0 that finds no room in the batch of the
    chosen partition tells of a new batch and asks again, and the second turn counts. Where every
    record needs a batch, every other partition is skipped: with an even count, half of them get
    nothing. ``asked_again=True`` gives that, with batches that stay open until they are full.

    >>> from partage.keys.partitioner import started
    >>> large = np.full(8, 20_000)
    >>> JavaRoundRobin().choose(started(JavaRoundRobin(), asked_again=True), large, 4)[0].tolist()
    [1, 3, 1, 3, 1, 3, 1, 3]
    """

    name = "java:roundrobin"
    exact_to = "org.apache.kafka.clients.producer.RoundRobinPartitioner 4.3.1"
    aliases: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.clients.producer.RoundRobinPartitioner",
    )
    state: ClassVar[type[State] | None] = Turns

    def refusal(self, partition: int, partitions: int) -> str:
        """What record and producer say."""
        return java_refusal(partition, partitions)

    def choose(  # type: ignore[override]  # its own state is a Counter too
        self, state: Turns, sizes: Int64Array, partitions: int
    ) -> tuple[Int32Array, Turns]:
        """Turns over the partitions that have a leader, over all when none has."""
        if not state.asked_again:
            return super().choose(state, sizes, partitions)  # type: ignore[return-value]  # gives back its kind
        if state.batch_size < 1:
            raise InvalidConfigError("batch_size", "must be at least 1", state.batch_size)
        pool = state.pool(partitions)
        filled = list(state.filled) or [0] * partitions
        if len(filled) != partitions:
            raise InvalidConfigError("filled", f"must have {partitions} numbers", state.filled)
        counter = state.counter or 0
        out = np.empty(len(sizes), np.int32)
        for i, size in enumerate(sizes.tolist()):
            one = pool[(counter & 0x7FFFFFFF) % len(pool)]
            counter = after(counter, 1)
            if not filled[one] or filled[one] + size > state.batch_size:
                one = pool[(counter & 0x7FFFFFFF) % len(pool)]
                counter = after(counter, 1)
            fits = filled[one] + size <= state.batch_size
            filled[one] = filled[one] + size if fits else size
            out[i] = one
        return out, replace(state, counter=counter, filled=tuple(filled))


class JavaUniformSticky(StickyCachePartitioner):
    """All records stay with one partition a batch, whatever their keys; last in 3.9.1."""

    name = "java:uniform-sticky"
    exact_to = "org.apache.kafka.clients.producer.UniformStickyPartitioner 3.9.1"
    aliases: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.clients.producer.UniformStickyPartitioner",
    )


#: ``TimeWindowedSerializer`` puts the window's start behind the key, as a long.
WINDOW_START = 8
#: ``SessionWindowedSerializer`` puts end and start there.
SESSION = 16


def without_window(keys: KeyColumn, tail: int = WINDOW_START) -> KeyColumn:
    """The keys without so many bytes at their ends; a key that is shorter becomes an empty one."""
    starts = keys.starts.astype(np.int64)
    lengths = np.maximum(np.diff(starts) - tail, 0)
    out = np.zeros(len(starts), np.int64)
    np.cumsum(lengths, out=out[1:])
    inside = np.arange(out[-1]) + np.repeat(starts[:-1] - out[:-1], lengths)
    return KeyColumn(keys.data[inside], out, keys.null, keys.code)


class StreamsWindowed(Partitioner):
    """murmur2 of the key part of a windowed key: windows of one key share its partition.

    Keys given are as `TimeWindowedSerializer` writes them: 8 bytes of the window's start at the
    end. (Of session windows, 16: `without_window`, then ``murmur2``.)
    """

    name = "streams:windowed"
    exact_to = "org.apache.kafka.streams.kstream.internals.WindowedStreamPartitioner 4.3.1"
    aliases: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.streams.kstream.internals.WindowedStreamPartitioner",
    )
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")

    def key_part(self, keys: KeyColumn) -> KeyColumn:
        """The key without the start of its window."""
        return without_window(keys)
