"""Kafka's `RoundRobinPartitioner` (KIP-369), and what new batches did to it until 4.0."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from partage.errors import InvalidConfigError
from partage.keys.clients.counting import Counter, CountingPartitioner, after
from partage.keys.clients.java_23 import java_refusal
from partage.keys.partitioner import Int32Array, Int64Array, State

__all__ = ["JavaRoundRobin", "Turns"]


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
