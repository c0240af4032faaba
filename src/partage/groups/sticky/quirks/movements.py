"""Kafka's ``PartitionMovements``: a movement is reversed where possible, not repeated."""

from __future__ import annotations

from collections.abc import Sequence

from partage.java.strings import string_hash

__all__ = ["PartitionMovements"]


class _JavaSet:
    """A ``HashSet`` of slots: insertion order and table length, which never shrinks."""

    def __init__(self) -> None:
        self.hashes: dict[int, int] = {}
        self.table = 16

    def add(self, slot: int, hashed: int) -> None:
        """Add a slot by its hash."""
        self.hashes[slot] = hashed
        while True:
            spread = [(h & 0xFFFFFFFF) >> 16 ^ (h & 0xFFFFFFFF) for h in self.hashes.values()]
            bucket = spread[-1] & (self.table - 1)
            chain = sum(1 for one in spread[:-1] if one & (self.table - 1) == bucket)
            if chain >= 8 and self.table < 64:
                self.table *= 2
            break
        if len(self.hashes) * 4 > self.table * 3:
            self.table *= 2

    def first(self) -> int:
        """Return the first slot in iteration order."""
        spread = [(h & 0xFFFFFFFF) >> 16 ^ (h & 0xFFFFFFFF) for h in self.hashes.values()]
        buckets = [one & (self.table - 1) for one in spread]
        return list(self.hashes)[buckets.index(min(buckets))]


class PartitionMovements:
    """The movements of slots between members in one run.

    Args:
        names: topic names.
        topic, number: topic and partition number of each slot.
    """

    def __init__(self, names: Sequence[str], topic: Sequence[int], number: Sequence[int]) -> None:
        self._topic, self._number = topic, number
        self._hash = [string_hash(name) for name in names]
        self._net: dict[int, tuple[int, int]] = {}
        self._sets: dict[tuple[int, int, int], _JavaSet] = {}

    def record(self, slot: int, old: int, new: int) -> None:
        """Record a move; only the slot's first owner in this run counts."""
        k = self._topic[slot]
        if slot in self._net:
            source, target = self._net.pop(slot)
            same_pair = self._sets[k, source, target]
            del same_pair.hashes[slot]
            if not same_pair.hashes:
                del self._sets[k, source, target]
            if source == new:
                return
            old = source
        self._net[slot] = (old, new)
        hashed = 31 * (31 + self._number[slot]) + self._hash[k]
        self._sets.setdefault((k, old, new), _JavaSet()).add(slot, hashed)

    def actual(self, slot: int, old: int, new: int) -> int:
        """Return the slot to move instead: one of the topic that moved the opposite way."""
        if slot in self._net:
            old = self._net[slot][0]
        opposite = self._sets.get((self._topic[slot], new, old))
        return slot if opposite is None else opposite.first()

    def state(self) -> object:
        """Return the movements, each set with its order and table length, for comparison."""
        sets = {key: (one.table, list(one.hashes)) for key, one in self._sets.items()}
        return dict(self._net), sets
