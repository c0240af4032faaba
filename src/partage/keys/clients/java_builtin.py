"""Kafka's `BuiltInPartitioner` (KIP-794), the default since 3.3: by bytes, and away from queues."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar

import numpy as np

from partage.errors import InvalidConfigError
from partage.keys.clients.java_23 import java_refusal
from partage.keys.draws import positive
from partage.keys.hashing import MURMUR2
from partage.keys.partitioner import Int32Array, Int64Array, Partitioner, State, drawn_from
from partage.keys.rule import KeyRule

__all__ = ["Adaptive", "JavaBuiltIn", "next_partition", "peeked", "updated", "with_queues"]


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
