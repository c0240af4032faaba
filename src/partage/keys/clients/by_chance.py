"""Null keys by chance, record by record; the shared part of several clients."""

from __future__ import annotations

from typing import ClassVar

from partage.keys.partitioner import Int32Array, Int64Array, Partitioner, State, drawn_each

__all__ = ["ByChance"]


class ByChance(Partitioner):
    """Each record that the key does not decide goes to one of the pool, drawn anew."""

    state: ClassVar[type[State] | None] = State

    def choose(self, state: State, sizes: Int64Array, partitions: int) -> tuple[Int32Array, State]:
        """One of those that have a leader, of all when none has."""
        return drawn_each(state, len(sizes), partitions)
