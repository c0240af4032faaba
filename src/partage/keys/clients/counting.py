"""Turns by a counter that wraps as a Java int does; the shared part of several partitioners."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from partage.keys.partitioner import Int32Array, Int64Array, Partitioner, State

__all__ = ["Counter", "CountingPartitioner", "after"]


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
