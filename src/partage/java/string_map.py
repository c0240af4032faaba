"""A ``HashMap`` with string keys that are added and removed, such as the coordinator's members.

The order of a map that only grows follows from its keys (`partage.java.hash_order`). Removals
leave traces: the table never shrinks, and a bucket that was a tree keeps the tree's order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from partage.java.hash_order import DEFAULT_TABLE
from partage.java.strings import string_hash, string_order_key
from partage.java.tree_bins import TREE_TABLE, Bucket

__all__ = ["StringMap"]


@dataclass(frozen=True)
class StringMap:
    """An immutable hash map; each change returns a new one.

    Attributes:
        slots: table length.
        spread: by key, in order of insertion, the mixed hash that selects the bucket.
        tree_bins: the buckets that are, or have been, trees.

    >>> StringMap().with_key("consumer1").with_key("consumer2").order()
    ['consumer2', 'consumer1']
    """

    slots: int = DEFAULT_TABLE
    spread: Mapping[str, int] = field(default_factory=dict)
    tree_bins: Mapping[int, Bucket[str]] = field(default_factory=dict, compare=False, repr=False)

    def with_key(self, key: str) -> StringMap:
        """Return the map with a new key."""
        spread = {**self.spread, key: _spread(key)}
        grown = replace(self, spread=spread)
        slot = grown.slot_of(key)
        known = self.tree_bins.get(slot)
        mates = [one for one in self.spread if self.slot_of(one) == slot] if known is None else []
        bucket = Bucket(_rank, mates) if known is None else known.copy()
        too_many = bucket.add(key)
        if too_many and self.slots < TREE_TABLE:
            grown = grown.doubled()
        elif too_many or known is not None:
            if too_many:
                bucket.treeify()
            grown = replace(grown, tree_bins={**self.tree_bins, slot: bucket})
        return grown.doubled() if len(spread) * 4 > grown.slots * 3 else grown

    def without_key(self, key: str) -> StringMap:
        """Return the map without a key that it has."""
        spread = {one: value for one, value in self.spread.items() if one != key}
        slot, tree_bins = self.slot_of(key), dict(self.tree_bins)
        if slot in tree_bins:
            tree_bins[slot] = tree_bins[slot].copy()
            tree_bins[slot].remove(key)
        return StringMap(self.slots, spread, tree_bins)

    def order(self) -> list[str]:
        """Return the keys in iteration order."""
        if not self.tree_bins:
            return sorted(self.spread, key=self.slot_of)
        chains: dict[int, list[str]] = {}
        for one in self.spread:
            chains.setdefault(self.slot_of(one), []).append(one)
        chains |= {slot: bucket.chain for slot, bucket in self.tree_bins.items()}
        return [one for slot in sorted(chains) for one in chains[slot]]

    def doubled(self) -> StringMap:
        """Return the map with a table of twice the size; every bucket splits in two."""
        grown = replace(self, slots=self.slots * 2)
        tree_bins: dict[int, Bucket[str]] = {}
        for bucket in self.tree_bins.values():
            tree_bins |= bucket.split(grown.slot_of)
        return replace(grown, tree_bins=tree_bins)

    def slot_of(self, key: str) -> int:
        """Return the bucket of a key."""
        return self.spread[key] & (self.slots - 1)


def _spread(name: str) -> int:
    """Return the hash as ``HashMap`` mixes it."""
    value = string_hash(name) & 0xFFFFFFFF
    return value ^ value >> 16


def _rank(name: str) -> tuple[int, bytes]:
    """Return the sort key of trees: the mixed hash as a signed number, then the name."""
    return (_spread(name) ^ 0x80000000) - 0x80000000, string_order_key(name)
