"""Kafka's Java producer 2.4 to 3.9 by name: the sticky cache (KIP-480), shared by two classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from partage.errors import InvalidConfigError
from partage.keys.clients.java_23 import java_refusal
from partage.keys.draws import Draws
from partage.keys.partitioner import Int32Array, Int64Array, Partitioner, State, drawn_from

__all__ = ["StickyCache", "StickyCachePartitioner", "cached", "next_cached"]


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

    >>> from partage.keys.draws import Numbers
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
