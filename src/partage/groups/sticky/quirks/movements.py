"""Which partitions moved where in this run, so that a movement is reversed and not doubled."""

from __future__ import annotations

from collections.abc import Sequence

from partage.java.strings import string_hash

__all__ = ["Movements"]


class _JavaSet:
    """A ``HashSet`` of spots: insertion order, and how large its table ever had to be."""

    def __init__(self) -> None:
        self.hashes: dict[int, int] = {}
        self.table = 16

    def add(self, spot: int, hashed: int) -> None:
        self.hashes[spot] = hashed
        while True:
            # The table grows for the set as it is now, and never shrinks.
            spread = [(h & 0xFFFFFFFF) >> 16 ^ (h & 0xFFFFFFFF) for h in self.hashes.values()]
            mine = spread[-1] & (self.table - 1)
            mates = sum(1 for one in spread[:-1] if one & (self.table - 1) == mine)
            if mates >= 8 and self.table < 64:
                self.table *= 2
            break
        if len(self.hashes) * 4 > self.table * 3:
            self.table *= 2

    def first(self) -> int:
        spread = [(h & 0xFFFFFFFF) >> 16 ^ (h & 0xFFFFFFFF) for h in self.hashes.values()]
        buckets = [one & (self.table - 1) for one in spread]
        return list(self.hashes)[buckets.index(min(buckets))]


class Movements:
    """Kafka's ``PartitionMovements``.

    Args:
        names: topic names.
        topic, number: of each spot.
    """

    def __init__(self, names: Sequence[str], topic: Sequence[int], number: Sequence[int]) -> None:
        self._topic, self._number = topic, number
        self._hash = [string_hash(name) for name in names]
        self._net: dict[int, tuple[int, int]] = {}
        self._sets: dict[tuple[int, int, int], _JavaSet] = {}

    def record(self, spot: int, old: int, new: int) -> None:
        """A spot went from one member to another; only where it came from first counts."""
        k = self._topic[spot]
        if spot in self._net:
            source, target = self._net.pop(spot)
            mates = self._sets[k, source, target]
            del mates.hashes[spot]
            if not mates.hashes:
                del self._sets[k, source, target]
            if source == new:
                return
            old = source
        self._net[spot] = (old, new)
        hashed = 31 * (31 + self._number[spot]) + self._hash[k]
        self._sets.setdefault((k, old, new), _JavaSet()).add(spot, hashed)

    def actual(self, spot: int, old: int, new: int) -> int:
        """The spot to move instead: one of the topic that went the opposite way before."""
        if spot in self._net:
            old = self._net[spot][0]
        mates = self._sets.get((self._topic[spot], new, old))
        return spot if mates is None else mates.first()

    def state(self) -> object:
        """Return the movements, each set in its order and with its table, for comparison."""
        sets = {key: (one.table, list(one.hashes)) for key, one in self._sets.items()}
        return dict(self._net), sets
