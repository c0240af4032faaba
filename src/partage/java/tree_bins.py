"""Tree bins of Java's ``HashMap``: buckets with so many keys that they become trees.

A bucket that gets its ninth key (``computeIfAbsent``: its eighth) in a table of 64 slots or
more becomes a red-black tree by hash. Iteration still follows the chain of the bucket, but a new
key is chained behind its parent in the tree, and the root always moves to the front. Random keys
practically never get there. Partition numbers do: a member with every 64th partition of a large
topic (round robin over 64 members) has all of them in one or two buckets.

The tree follows OpenJDK 17's ``HashMap.TreeNode``; names of the cases are those of Cormen et al.,
Introduction to Algorithms, chapter 13 (red-black trees).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["TREE_TABLE", "HashBucket", "HashTable", "iteration_order", "may_have_trees"]

Key = TypeVar("Key", bound=Hashable)

#: ``TREEIFY_THRESHOLD``: a longer chain becomes a tree.
_TREEIFY_THRESHOLD = 8
#: ``MIN_TREEIFY_CAPACITY``: a smaller table grows instead.
TREE_TABLE = 64
#: ``UNTREEIFY_THRESHOLD``: a part of at most so many keys is a chain again.
_UNTREEIFY_THRESHOLD = 6
#: From so many keys, counting by NumPy is faster.
_MIN_KEYS_FOR_NUMPY = 64
#: Up to so many keys, one count over all keys mostly shows that no bucket is large.
_MAX_KEYS_AT_ONCE = 256
_LEFT, _RIGHT = 0, 1


def may_have_trees(spread: Sequence[int] | NDArray[np.int64], table: int) -> bool:
    """Return whether Java may have replaced a bucket of a ``HashMap`` by a red-black tree.

    Java does so when many keys share a bucket; the tree changes the iteration order. The check is
    quick and may return True by mistake.

    Args:
        spread: the mixed hash code of each key, which selects its bucket.
        table: the initial number of buckets.

    >>> may_have_trees([64 * i for i in range(8)], 16), may_have_trees(range(1000), 16)
    (True, False)
    """
    if len(spread) < _TREEIFY_THRESHOLD:
        return False
    slots = max(table, TREE_TABLE)
    if len(spread) <= _MAX_KEYS_AT_ONCE and _largest_bucket(spread, slots) < _TREEIFY_THRESHOLD:
        return False  # larger tables split these buckets, and smaller ones had fewer keys
    while True:
        inserted = spread[: slots * 3 // 4 + 2]
        if _largest_bucket(inserted, slots) >= _TREEIFY_THRESHOLD:
            return True
        if len(inserted) == len(spread):
            return False
        slots *= 2


def iteration_order(
    hashes: Sequence[int],
    table: int,
    *,
    rank: Sequence[int] | None = None,
    compute_if_absent: bool = False,
    looked_up_after: bool = False,
) -> list[int]:
    """Return the iteration order of a Java ``HashMap``, also if some of its buckets are trees.

    Java turns a bucket with nine keys into a red-black tree, and then iterates it in another order.
    The result is a list of key indices.

    Args:
        hashes: hashes of distinct keys (int32, signed or not) in order of insertion.
        table: initial number of buckets.
        rank: each key's rank in the order of ``compareTo``, which Java uses for keys with equal
            hashes. None means the order of insertion; Java then uses identity hashes, which differ
            between runs.
        compute_if_absent: whether ``computeIfAbsent`` inserted the keys, and not ``put``.
        looked_up_after: whether ``computeIfAbsent`` was called once more for an existing key.

    >>> iteration_order([64 * i for i in range(1, 11)], 64)
    [3, 0, 1, 2, 4, 5, 6, 7, 8, 9]
    """
    made = HashTable(hashes, table, rank)
    for key in range(len(hashes)):
        if compute_if_absent:
            made.compute_if_absent(key)
        else:
            made.put(key)
    if compute_if_absent and looked_up_after:
        made.grow_if_full()
    return made.iteration_order()


def _largest_bucket(spread: Sequence[int] | NDArray[np.int64], slots: int) -> int:
    if len(spread) < _MIN_KEYS_FOR_NUMPY:
        return max(Counter([h & (slots - 1) for h in spread]).values())
    return int(np.bincount(np.asarray(spread, np.int64) & (slots - 1)).max())


class HashTable:
    """Model of a Java ``HashMap`` that returns its iteration order, also if buckets become trees.

    A key is represented by its index in ``hashes``.

    Args:
        hashes: hash of every key that is inserted later (int32, signed or not).
        slots: initial number of buckets.
        rank: rank of each key among keys with equal hashes, see `iteration_order`.

    >>> table = HashTable([0, 1, 16], 16)
    >>> for key in (2, 0, 1):
    ...     table.put(key)
    >>> table.iteration_order()
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
        self.buckets: dict[int, HashBucket[int]] = {}

    def iteration_order(self) -> list[int]:
        """Return the keys of this ``HashMap`` model in the order in which Java iterates over them.

        Java visits the buckets in order, and then the keys in each bucket.
        """
        return [key for slot in sorted(self.buckets) for key in self.buckets[slot].chain]

    def put(self, key: int) -> None:
        """Insert a new key into this ``HashMap`` model, as Java's ``put`` does.

        The table doubles after the insertion if it is more than 3/4 full.
        """
        bucket = self._bucket(key)
        if bucket.add(key):
            self._grow_or_treeify(bucket)
        self.size += 1
        self.grow_if_full()

    def remove(self, key: int) -> None:
        """Remove a key from this ``HashMap`` model, as Java's ``remove`` does.

        The number of buckets does not change.
        """
        self._bucket(key).remove(key)
        self.size -= 1

    def clear(self) -> None:
        """Remove all keys from this ``HashMap`` model, as Java's ``clear`` does.

        The number of buckets does not change.
        """
        self.buckets, self.size = {}, 0

    def compute_if_absent(self, key: int) -> None:
        """Insert a new key into this ``HashMap`` model, as Java's ``computeIfAbsent`` does.

        Unlike ``put``, it doubles a full table before the insertion, and it puts the key at the
        front of a bucket that is not a tree.
        """
        # Unlike ``put``, it doubles a full table before the insertion.
        self.grow_if_full()
        bucket = self._bucket(key)
        if bucket.root is not None:
            bucket.insert(key)
        else:
            bucket.chain.insert(0, key)
            if len(bucket.chain) >= _TREEIFY_THRESHOLD:
                self._grow_or_treeify(bucket)
        self.size += 1

    def grow_if_full(self) -> None:
        """Double the number of buckets of this ``HashMap`` model if it is more than 3/4 full.

        Java's ``resize`` does this under the same condition.
        """
        if self.size * 4 > self.slots * 3:
            self._grow()

    def _bucket(self, key: int) -> HashBucket[int]:
        slot = self.spread[key] & (self.slots - 1)
        return self.buckets.setdefault(slot, HashBucket(self.rank.__getitem__))

    def _grow_or_treeify(self, bucket: HashBucket[int]) -> None:
        if self.slots < TREE_TABLE:
            self._grow()
        else:
            bucket.treeify()

    def _grow(self) -> None:
        self.slots *= 2
        old, self.buckets = self.buckets, {}
        for bucket in old.values():
            self.buckets |= bucket.split(lambda key: self.spread[key] & (self.slots - 1))


class HashBucket(Generic[Key]):
    """Bucket of a Java ``HashMap``: a list of keys that may become a red-black tree.

    The keys are iterated in the order of ``chain``.

    Args:
        rank: function that returns a key's sort key in the tree: its mixed hash as a signed number,
            then its rank among keys with equal hashes.
        chain: initial keys.
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

    def copy(self) -> HashBucket[Key]:
        """Return an independent copy of this ``HashMap`` bucket.

        Later changes of the copy do not affect the original.
        """
        twin = HashBucket(self._rank, self.chain)
        twin.root, twin._parent, twin._red = self.root, dict(self._parent), dict(self._red)
        twin._child = {key: [*below] for key, below in self._child.items()}
        return twin

    def add(self, key: Key) -> bool:
        """Add a key to this ``HashMap`` bucket, and return whether Java would now make it a tree.

        The bucket itself does not change its form: the caller doubles a small table instead, or
        calls `treeify`. If the bucket is a tree already, the result is False.
        """
        if self.root is not None:
            self.insert(key)
            return False
        self.chain.append(key)
        return len(self.chain) > _TREEIFY_THRESHOLD

    def remove(self, key: Key) -> None:
        """Remove a key from this ``HashMap`` bucket.

        Java turns a tree into a list again if its root lacks a child, or if the root's left child
        lacks a left child. This method does the same.
        """
        self.chain.remove(key)
        if self.root is None:
            return
        # A tree becomes a chain again if its root lacks a child or its left child lacks a left
        # child (Java's rule for small trees).
        left, right = self._child[self.root]
        if left is None or right is None or self._child[left][_LEFT] is None:
            self.root = None
            return
        self._delete(key)
        self._root_to_front()

    def split(self, slot_of: Callable[[Key], int]) -> dict[int, HashBucket[Key]]:
        """Divide this bucket's keys among new buckets, after the Java ``HashMap`` doubled its
        table.

        A part of a tree with more than six keys is a tree again, a smaller part becomes a list.

        Args:
            slot_of: function that returns the number of a key's new bucket.

        Returns:
            The new buckets by number.
        """
        chains: dict[int, list[Key]] = {}
        for key in self.chain:
            chains.setdefault(slot_of(key), []).append(key)
        if len(chains) == 1 and len(self.chain) > _UNTREEIFY_THRESHOLD:
            return dict.fromkeys(chains, self)
        made = {slot: HashBucket(self._rank, chain) for slot, chain in chains.items()}
        for part in made.values():
            if self.root is not None and len(part.chain) > _UNTREEIFY_THRESHOLD:
                part.treeify()
        return made

    def treeify(self) -> None:
        """Build a red-black tree from the keys of this ``HashMap`` bucket.

        Java does so when a bucket has more than eight keys. The tree's root moves to the front of
        the iteration order.
        """
        self._parent, self._child, self._red = {}, {}, {}
        for key in self.chain:
            self._insert_leaf(key)
        # Java moves the tree's root to the front of the iteration order.
        self._root_to_front()

    def insert(self, key: Key) -> None:
        """Insert a key into a bucket of a Java ``HashMap`` that has become a red-black tree.

        A bucket of a table of at least 64 buckets becomes a tree when it has more than 8 keys.
        Iteration over it begins with the tree's root. It returns a new key directly after the
        parent node under which it was inserted.
        """
        parent = self._insert_leaf(key)
        assert parent is not None  # noqa: S101 - a built tree has a root
        # Java iterates a new key directly after its parent in the tree.
        self.chain.insert(self.chain.index(parent) + 1, key)
        self._root_to_front()

    def _root_to_front(self) -> None:
        assert self.root is not None  # noqa: S101 - called after an insertion
        self.chain.remove(self.root)
        self.chain.insert(0, self.root)

    def _insert_leaf(self, key: Key) -> Key | None:
        """Insert a key into the red-black tree of a Java ``HashMap`` bucket, then rebalance the
        tree.

        The result is the key's parent before the rebalancing, or None if the tree was empty.
        """
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
        self._fix_insertion(key)
        return above

    def _fix_insertion(self, key: Key) -> None:
        """Rebalance the red-black tree of a Java ``HashMap`` bucket after a key was inserted.

        No red key may have a red parent. Source: Cormen et al., Introduction to Algorithms, chapter
        13 (RB-Insert-Fixup).

        Args:
            key: the inserted key.
        """
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
                self._rotate(above, side)
                key, above = above, key
            self._red[above], self._red[top] = False, True
            self._rotate(top, 1 - side)
        if self._parent[key] is None:
            self._red[key] = False

    def _delete(self, key: Key) -> None:
        # The key is first swapped down to where it has at most one child.
        left, right = self._child[key]
        if left is not None and right is not None:
            self._swap_with_successor(key, left, right)
            left, right = self._child[key]
        child = left if left is not None else right
        if child is not None:
            self._replace(child, key)
            if child == self.root:
                self._red[child] = False
        if not self._red[key]:
            self._fix_deletion(key if child is None else child)
        above = self._parent[key]
        if child is None and above is not None:
            below = self._child[above]
            below[_LEFT if below[_LEFT] == key else _RIGHT] = None
        del self._parent[key], self._child[key], self._red[key]

    def _swap_with_successor(self, key: Key, left: Key, right: Key) -> None:
        following = right
        while (lower := self._child[following][_LEFT]) is not None:
            following = lower
        self._red[key], self._red[following] = self._red[following], self._red[key]
        above, inner = self._parent[following], self._child[following][_RIGHT]
        self._replace(following, key)
        if above is None or following == right:
            above, self._child[following] = following, [left, key]
        else:
            self._child[following], self._child[above][_LEFT] = [left, right], key
            self._parent[right] = following
        self._parent[left], self._parent[key] = following, above
        self._child[key] = [None, inner]
        if inner is not None:
            self._parent[inner] = key

    def _replace(self, key: Key, old: Key) -> None:
        above = self._parent[key] = self._parent[old]
        if above is None:
            self.root = key
        else:
            self._child[above][_LEFT if self._child[above][_LEFT] == old else _RIGHT] = key

    def _fix_deletion(self, key: Key) -> None:
        """Rebalance the red-black tree of a Java ``HashMap`` bucket after a black key was deleted.

        Before, all paths through ``key`` have one black key fewer than the other paths. Source:
        Cormen et al., Introduction to Algorithms, chapter 13 (RB-Delete-Fixup).

        Args:
            key: the key that took the place of the deleted one.
        """
        while (above := self._parent[key]) is not None:
            if self._red[key]:
                self._red[key] = False
                return
            side = _LEFT if self._child[above][_LEFT] == key else _RIGHT
            sibling = self._child[above][1 - side]
            if sibling is not None and self._red[sibling]:
                self._red[sibling], self._red[above] = False, True
                self._rotate(above, side)
                sibling = self._child[above][1 - side]
            if sibling is None or not self._has_red_child(sibling):
                if sibling is not None:
                    self._red[sibling] = True
                key = above
                continue
            far = self._child[sibling][1 - side]
            if far is None or not self._red[far]:
                near = self._child[sibling][side]
                assert near is not None  # noqa: S101 - one child is red
                self._red[near], self._red[sibling] = False, True
                self._rotate(sibling, 1 - side)
                sibling, far = near, sibling
            self._red[sibling], self._red[far] = self._red[above], False
            self._red[above] = False
            self._rotate(above, side)
            return

    def _has_red_child(self, key: Key) -> bool:
        return any(below is not None and self._red[below] for below in self._child[key])

    def _rotate(self, key: Key, side: int) -> None:
        up = self._child[key][1 - side]
        assert up is not None  # noqa: S101 - rotations need that child
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
