"""The coordinator's ``HashMap`` of members as it lives: who comes is put in, who leaves taken out.

What only grows can be walked anew from its keys (`partage.javaorder.hash_order`). This map also
shrinks, and remembers: its table never gets smaller, and a bucket that once was a tree keeps the
order that the tree gave it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from partage.javaorder import DEFAULT_TABLE, string_hash, string_order_key
from partage.javatrees import TREE_TABLE, Bucket

__all__ = ["MembersMap"]


@dataclass(frozen=True)
class MembersMap:
    """Member ids in a table; a value, like the group that has it.

    Attributes:
        slots: how many the table has.
        spread: what a bucket is chosen by, of each id, in order of arrival.
        crowded: the buckets that are trees, or were.

    >>> MembersMap().with_id("consumer1").with_id("consumer2").order()
    ['consumer2', 'consumer1']
    """

    slots: int = DEFAULT_TABLE
    spread: Mapping[str, int] = field(default_factory=dict)
    crowded: Mapping[int, Bucket[str]] = field(default_factory=dict, compare=False, repr=False)

    def with_id(self, member_id: str) -> MembersMap:
        """With an id that is not there yet."""
        spread = {**self.spread, member_id: _spread(member_id)}
        grown = replace(self, spread=spread)
        slot = grown.slot_of(member_id)
        known = self.crowded.get(slot)
        mates = [one for one in self.spread if self.slot_of(one) == slot] if known is None else []
        bucket = Bucket(_rank, mates) if known is None else known.copy()
        too_many = bucket.add(member_id)
        if too_many and self.slots < TREE_TABLE:
            grown = grown.doubled()
        elif too_many or known is not None:
            if too_many:
                bucket.plant()
            grown = replace(grown, crowded={**self.crowded, slot: bucket})
        return grown.doubled() if len(spread) * 4 > grown.slots * 3 else grown

    def without(self, member_id: str) -> MembersMap:
        """Without an id that is there."""
        spread = {one: value for one, value in self.spread.items() if one != member_id}
        slot, crowded = self.slot_of(member_id), dict(self.crowded)
        if slot in crowded:
            crowded[slot] = crowded[slot].copy()
            crowded[slot].remove(member_id)
        return MembersMap(self.slots, spread, crowded)

    def order(self) -> list[str]:
        """The ids as the map is walked."""
        if not self.crowded:
            return sorted(self.spread, key=self.slot_of)
        chains: dict[int, list[str]] = {}
        for one in self.spread:
            chains.setdefault(self.slot_of(one), []).append(one)
        chains |= {slot: bucket.chain for slot, bucket in self.crowded.items()}
        return [one for slot in sorted(chains) for one in chains[slot]]

    def doubled(self) -> MembersMap:
        """With a table of twice the size, into which every crowded bucket falls in two."""
        grown = replace(self, slots=self.slots * 2)
        crowded: dict[int, Bucket[str]] = {}
        for bucket in self.crowded.values():
            crowded |= bucket.parts(grown.slot_of)
        return replace(grown, crowded=crowded)

    def slot_of(self, member_id: str) -> int:
        """The bucket of an id."""
        return self.spread[member_id] & (self.slots - 1)


def _spread(name: str) -> int:
    value = string_hash(name) & 0xFFFFFFFF
    return value ^ value >> 16


def _rank(name: str) -> tuple[int, bytes]:
    """Trees compare spread hashes as signed numbers, then the names."""
    return (_spread(name) ^ 0x80000000) - 0x80000000, string_order_key(name)
