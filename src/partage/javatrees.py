"""Java's hash tables with buckets so crowded that they become trees.

A bucket that gets its ninth key (``computeIfAbsent``: its eighth) in a table of 64 slots or
more is made a red-black tree by hash. It is still walked along its old chain, but a new key is
chained behind its parent in the tree, and the root is always brought to the front. Random keys
never get there. Partition numbers do: a member that had every 64th partition of a large topic
(round robin of 64 members) has them all in one or two buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["TREE_TABLE", "Bucket", "HashTable", "may_have_trees", "walked"]

Key = TypeVar("Key", bound=Hashable)

_CHAIN_FOR_TREE = 8
#: In a smaller table a crowded bucket makes the table grow instead.
TREE_TABLE = 64
_CHAIN_AGAIN = 6
#: From so many keys on, counting by NumPy is faster.
_WORTH_COLUMNS = 64
_LEFT, _RIGHT = 0, 1


def may_have_trees(spread: Sequence[int] | NDArray[np.int64], table: int) -> bool:
    """Whether a bucket of 64 slots or more may have had eight keys, at any size while it grew.

    >>> may_have_trees([64 * i for i in range(8)], 16), may_have_trees(range(1000), 16)
    (True, False)
    """
    if len(spread) < _CHAIN_FOR_TREE:
        return False
    slots = max(table, TREE_TABLE)
    while True:
        there = spread[: slots * 3 // 4 + 2]
        if _fullest(there, slots) >= _CHAIN_FOR_TREE:
            return True
        if len(there) == len(spread):
            return False
        slots *= 2


def walked(
    hashes: Sequence[int],
    table: int,
    *,
    rank: Sequence[int] | None = None,
    compute_if_absent: bool = False,
    looked_up_after: bool = False,
) -> list[int]:
    """Positions of ``hashes`` in the order of iteration; parameters as of `hash_order`.

    ``rank`` is the order of the keys among each other (``compareTo``), which decides between
    keys of one and the same hash. Without it they are ordered by insertion; Java does so by
    identity, which differs from run to run, for keys that have no order.

    >>> walked([64 * i for i in range(1, 11)], 64)
    [3, 0, 1, 2, 4, 5, 6, 7, 8, 9]
    """
    made = HashTable(hashes, table, rank)
    for key in range(len(hashes)):
        if compute_if_absent:
            made.compute(key)
        else:
            made.put(key)
    if compute_if_absent and looked_up_after:
        made.grow_if_full()
    return made.order()


def _fullest(spread: Sequence[int] | NDArray[np.int64], slots: int) -> int:
    """Keys of the fullest bucket."""
    if len(spread) < _WORTH_COLUMNS:
        return max(Counter([h & (slots - 1) for h in spread]).values())
    return int(np.bincount(np.asarray(spread, np.int64) & (slots - 1)).max())


class HashTable:
    """A ``HashMap``: slots with keys, which are positions in a list of hashes.

    Args:
        hashes: int32, signed or not, of all keys that may ever be there.
        slots: how many the empty table has.
        rank: as of `walked`.

    >>> table = HashTable([0, 1, 16], 16)
    >>> for key in (2, 0, 1):
    ...     table.put(key)
    >>> table.order()
    [2, 0, 1]
    """

    def __init__(
        self, hashes: Sequence[int], slots: int, rank: Sequence[int] | None = None
    ) -> None:
        unsigned = [h & 0xFFFFFFFF for h in hashes]
        self.spread = [h ^ h >> 16 for h in unsigned]
        # Trees compare spread hashes as signed numbers, then the keys themselves.
        signed = [(h ^ 0x80000000) - 0x80000000 for h in self.spread]
        self.rank = list(zip(signed, [0] * len(signed) if rank is None else rank, strict=True))
        self.slots = slots
        self.size = 0
        self.buckets: dict[int, Bucket[int]] = {}

    def order(self) -> list[int]:
        """The keys as the table is walked."""
        return [key for slot in sorted(self.buckets) for key in self.buckets[slot].chain]

    def put(self, key: int) -> None:
        """``put`` of a key that is not there."""
        bucket = self._bucket(key)
        if bucket.add(key):
            self._crowded(bucket)
        self.size += 1
        self.grow_if_full()

    def remove(self, key: int) -> None:
        """``remove`` of a key that is there; the table stays as large as it is."""
        self._bucket(key).remove(key)
        self.size -= 1

    def clear(self) -> None:
        """Empty, and as large as before."""
        self.buckets, self.size = {}, 0

    def compute(self, key: int) -> None:
        """``computeIfAbsent`` of a key that is not there."""
        self.grow_if_full()
        bucket = self._bucket(key)
        if bucket.root is not None:
            bucket.grow_tree(key)
        else:
            bucket.chain.insert(0, key)
            if len(bucket.chain) >= _CHAIN_FOR_TREE:
                self._crowded(bucket)
        self.size += 1

    def grow_if_full(self) -> None:
        """Double the table if its load asks for it."""
        if self.size * 4 > self.slots * 3:
            self._grow()

    def _bucket(self, key: int) -> Bucket[int]:
        slot = self.spread[key] & (self.slots - 1)
        return self.buckets.setdefault(slot, Bucket(self.rank.__getitem__))

    def _crowded(self, bucket: Bucket[int]) -> None:
        if self.slots < TREE_TABLE:
            self._grow()
        else:
            bucket.plant()

    def _grow(self) -> None:
        """Twice the slots: each bucket falls into two, in the order of its chain."""
        self.slots *= 2
        old, self.buckets = self.buckets, {}
        for bucket in old.values():
            self.buckets |= bucket.parts(lambda key: self.spread[key] & (self.slots - 1))


class Bucket(Generic[Key]):
    """A chain of keys, and when crowded a red-black tree of the same keys.

    Args:
        rank: (spread hash as a signed number, order among keys of the same hash) of a key.
        chain: the keys that are there already.
    """

    def __init__(
        self, rank: Callable[[Key], tuple[int, int | bytes]], chain: Sequence[Key] = ()
    ) -> None:
        self.chain: list[Key] = [*chain]
        self.root: Key | None = None
        self._rank = rank
        self._parent: dict[Key, Key | None] = {}
        self._child: dict[Key, list[Key | None]] = {}
        self._red: dict[Key, bool] = {}

    def copy(self) -> Bucket[Key]:
        """A bucket with the same chain and tree, that changes alone."""
        twin = Bucket(self._rank, self.chain)
        twin.root, twin._parent, twin._red = self.root, dict(self._parent), dict(self._red)
        twin._child = {key: [*below] for key, below in self._child.items()}
        return twin

    def add(self, key: Key) -> bool:
        """``put`` of a key; whether the bucket is now too crowded for a chain."""
        if self.root is not None:
            self.grow_tree(key)
            return False
        self.chain.append(key)
        return len(self.chain) > _CHAIN_FOR_TREE

    def remove(self, key: Key) -> None:
        """Take a key out; a tree that is small at its top becomes a chain again."""
        self.chain.remove(key)
        if self.root is None:
            return
        left, right = self._child[self.root]
        if left is None or right is None or self._child[left][_LEFT] is None:
            self.root = None
            return
        self._uproot(key)
        self._root_to_front()

    def parts(self, slot_of: Callable[[Key], int]) -> dict[int, Bucket[Key]]:
        """What the bucket falls into when the table grows, by slot."""
        chains: dict[int, list[Key]] = {}
        for key in self.chain:
            chains.setdefault(slot_of(key), []).append(key)
        if len(chains) == 1 and len(self.chain) > _CHAIN_AGAIN:
            return dict.fromkeys(chains, self)
        made = {slot: Bucket(self._rank, chain) for slot, chain in chains.items()}
        for part in made.values():
            if self.root is not None and len(part.chain) > _CHAIN_AGAIN:
                part.plant()
        return made

    def plant(self) -> None:
        """Make the tree; only its root moves in the chain."""
        self._parent, self._child, self._red = {}, {}, {}
        for key in self.chain:
            self._insert(key)
        self._root_to_front()

    def grow_tree(self, key: Key) -> None:
        """Put a key into the tree; in the chain it comes after its first parent."""
        parent = self._insert(key)
        assert parent is not None  # noqa: S101 - a planted tree has a root
        self.chain.insert(self.chain.index(parent) + 1, key)
        self._root_to_front()

    def _root_to_front(self) -> None:
        assert self.root is not None  # noqa: S101 - called after an insertion
        self.chain.remove(self.root)
        self.chain.insert(0, self.root)

    def _insert(self, key: Key) -> Key | None:
        """Insert a key as a leaf, balance, and say what its parent was as a leaf."""
        above, side = None, _LEFT
        below = self.root
        while below is not None:
            above = below
            side = _LEFT if self._rank(key) <= self._rank(below) else _RIGHT
            below = self._child[below][side]
        self._parent[key], self._child[key], self._red[key] = above, [None, None], True
        if above is None:
            self.root = key
        else:
            self._child[above][side] = key
        self._balance(key)
        return above

    def _balance(self, key: Key) -> None:
        """No red key below a red one: by colours where the uncle is red, else by turning."""
        while (above := self._parent[key]) is not None and self._red[above]:
            top = self._parent[above]
            if top is None:
                return
            side = _LEFT if self._child[top][_LEFT] == above else _RIGHT
            uncle = self._child[top][1 - side]
            if uncle is not None and self._red[uncle]:
                self._red[above] = self._red[uncle] = False
                self._red[top] = True
                key = top
                continue
            if self._child[above][1 - side] == key:
                self._turn(above, side)
                key, above = above, key
            self._red[above], self._red[top] = False, True
            self._turn(top, 1 - side)
        if self._parent[key] is None:
            self._red[key] = False

    def _uproot(self, key: Key) -> None:
        """Take a key out of the tree: first down to where it has one child at most."""
        left, right = self._child[key]
        if left is not None and right is not None:
            self._change_places(key, left, right)
            left, right = self._child[key]
        heir = left if left is not None else right
        if heir is not None:
            self._put_instead(heir, key)
            if heir == self.root:
                self._red[heir] = False
        if not self._red[key]:
            self._mend(key if heir is None else heir)
        above = self._parent[key]
        if heir is None and above is not None:
            below = self._child[above]
            below[_LEFT if below[_LEFT] == key else _RIGHT] = None
        del self._parent[key], self._child[key], self._red[key]

    def _change_places(self, key: Key, left: Key, right: Key) -> None:
        """Of a key with two children and the next larger one, which takes its colour too."""
        following = right
        while (lower := self._child[following][_LEFT]) is not None:
            following = lower
        self._red[key], self._red[following] = self._red[following], self._red[key]
        above, inner = self._parent[following], self._child[following][_RIGHT]
        self._put_instead(following, key)
        if above is None or following == right:
            above, self._child[following] = following, [left, key]
        else:
            self._child[following], self._child[above][_LEFT] = [left, right], key
            self._parent[right] = following
        self._parent[left], self._parent[key] = following, above
        self._child[key] = [None, inner]
        if inner is not None:
            self._parent[inner] = key

    def _put_instead(self, key: Key, old: Key) -> None:
        """Hang a key where another one hangs."""
        above = self._parent[key] = self._parent[old]
        if above is None:
            self.root = key
        else:
            self._child[above][_LEFT if self._child[above][_LEFT] == old else _RIGHT] = key

    def _mend(self, key: Key) -> None:
        """A black key is missing at this one: take one from its brother, or go up."""
        while (above := self._parent[key]) is not None:
            if self._red[key]:
                self._red[key] = False
                return
            side = _LEFT if self._child[above][_LEFT] == key else _RIGHT
            brother = self._child[above][1 - side]
            if brother is not None and self._red[brother]:
                self._red[brother], self._red[above] = False, True
                self._turn(above, side)
                brother = self._child[above][1 - side]
            if brother is None or not self._has_red_child(brother):
                if brother is not None:
                    self._red[brother] = True
                key = above
                continue
            far = self._child[brother][1 - side]
            if far is None or not self._red[far]:
                near = self._child[brother][side]
                assert near is not None  # noqa: S101 - one child is red
                self._red[near], self._red[brother] = False, True
                self._turn(brother, 1 - side)
                brother, far = near, brother
            self._red[brother], self._red[far] = self._red[above], False
            self._red[above] = False
            self._turn(above, side)
            return

    def _has_red_child(self, key: Key) -> bool:
        return any(below is not None and self._red[below] for below in self._child[key])

    def _turn(self, key: Key, side: int) -> None:
        """The child on the other side comes up, ``key`` goes down to ``side``."""
        up = self._child[key][1 - side]
        assert up is not None  # noqa: S101 - only turned where there is one
        inner, above = self._child[up][side], self._parent[key]
        self._child[key][1 - side] = inner
        if inner is not None:
            self._parent[inner] = key
        self._parent[up], self._parent[key] = above, up
        self._child[up][side] = key
        if above is None:
            self.root = up
        else:
            self._child[above][_LEFT if self._child[above][_LEFT] == key else _RIGHT] = up
