"""Iteration order of Java's hash collections, for plans or bytes that depend on it.

Kafka's assignors iterate ``HashMap`` and ``HashSet`` in places where the order decides which
member keeps a partition. The rules are those of OpenJDK 17, measured with Kafka 4.3.1:

* a key's bucket is ``(h ^ h >>> 16) & (n - 1)``; buckets are iterated in ascending order;
* inside a bucket ``put`` appends, ``computeIfAbsent`` prepends; doubling keeps relative order;
* ``put`` doubles the table right after the insertion that exceeds 3/4 of it, ``computeIfAbsent``
  at its next call; a ninth key in a bucket (``computeIfAbsent``: an eighth) also doubles a table
  of fewer than 64 slots, whatever its load.

In a table of 64 slots or more such a bucket becomes a tree, which has an iteration order of its
own: `partage.java.tree_bins`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.java.strings import string_hash, string_hashes, string_order_key, string_ranks
from partage.java.tree_bins import TREE_TABLE, HashBucket, iteration_order, may_have_trees

__all__ = [
    "DEFAULT_TABLE",
    "StringMap",
    "copied_hash_set_table",
    "copied_set_order",
    "copied_set_orders",
    "hash_map_orders",
    "hash_order",
    "hash_set_order",
    "names_in_map_order",
    "table_for_capacity",
    "timeline_order",
    "timeline_slots",
    "topic_partition_hash",
]

DEFAULT_TABLE = 16
_MIN_TREE_TABLE = 64
_MAX_TABLE = 1 << 30
#: Factor of ``BaseHashTable.findSlot`` in Kafka 4.3.1: Knuth's multiplicative hashing.
_GOLDEN = -7046029254386353131
_MAX_CHAIN_PUT = 8
_MAX_CHAIN_COMPUTE = 7
#: With so many keys a table has grown to 64 slots by its load alone.
_KEYS_AT_MIN_TREE_TABLE = 32
#: From so many keys, sorting by NumPy is faster.
_MIN_KEYS_FOR_NUMPY = 64

Key = TypeVar("Key", bound=Hashable)
Hashes = NDArray[np.uint32]
Order = NDArray[np.intp]


def topic_partition_hash(topic: str, partition: int) -> int:
    """Return the hash code that Kafka's Java class ``TopicPartition`` computes (signed int32).

    Kafka's assignors put partitions into hash maps. The hash codes decide the iteration order of
    such a map, and with it which member gets a partition.

    >>> topic_partition_hash("t1", 0)
    4606
    """
    value = 31 * (31 + partition) + string_hash(topic)
    return (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def table_for_capacity(capacity: int) -> int:
    """Return the number of buckets of a Java ``HashMap`` created with an initial capacity.

    ``new HashMap<>(capacity)`` rounds the capacity up to a power of two.

    >>> [table_for_capacity(c) for c in (0, 1, 3, 16, 17)]
    [1, 1, 4, 16, 32]
    """
    if capacity <= 1:
        return 1
    return min(1 << (capacity - 1).bit_length(), _MAX_TABLE)


def copied_hash_set_table(size: int) -> int:
    """Return the number of buckets of a Java ``HashSet`` that is created from another collection.

    The number decides the set's iteration order. JDK 19 changed the rule for sizes 12, 24, 48 and
    so on; this function follows JDK 18 and older.

    Args:
        size: number of items in the collection.

    >>> [copied_hash_set_table(k) for k in (0, 11, 12, 24)]
    [16, 16, 32, 64]
    """
    return table_for_capacity(max(size * 4 // 3 + 1, DEFAULT_TABLE))


def hash_order(
    hashes: Sequence[int],
    *,
    table: int = DEFAULT_TABLE,
    rank: Callable[[], Sequence[int]] | None = None,
    compute_if_absent: bool = False,
    looked_up_after: bool = False,
) -> list[int]:
    """Return the order in which a Java ``HashMap`` iterates over its keys, from their hash codes.

    The result is a list of indices into ``hashes``. For example, ``[2, 0, 1]`` means that Java
    returns the third inserted key first, then the first and the second one.

    Args:
        hashes: hashes of distinct keys (int32, signed or not) in order of insertion.
        table: initial number of buckets.
        rank: function that returns each key's rank in the order of ``compareTo``; it is called only
            if a bucket has so many keys that Java turns it into a tree.
        compute_if_absent: whether ``computeIfAbsent`` inserted the keys, and not ``put``.
        looked_up_after: whether ``computeIfAbsent`` was called once more for an existing key after
            the last insertion, which may double the table.

    >>> hash_order([string_hash(f"consumer{i}") for i in (1, 2, 3, 4)])
    [3, 2, 1, 0]
    """
    if len(hashes) >= _MIN_KEYS_FOR_NUMPY:
        unsigned = np.array(hashes, np.int64) & 0xFFFFFFFF
        column = unsigned ^ (unsigned >> 16)
        spread = column.tolist()
    else:
        column = None
        spread = [((h & 0xFFFFFFFF) >> 16 ^ h) & 0xFFFFFFFF for h in hashes]
    if may_have_trees(spread if column is None else column, table):
        return iteration_order(
            hashes,
            table,
            rank=rank() if rank is not None else None,
            compute_if_absent=compute_if_absent,
            looked_up_after=looked_up_after,
        )
    if compute_if_absent:
        mask = _table_after_compute(spread, table, looked_up_after=looked_up_after) - 1
        return sorted(range(len(spread)), key=lambda i: (spread[i] & mask, -i))
    mask = _table_after_put(spread, table) - 1
    if column is not None:
        order: list[int] = np.argsort(column & mask, kind="stable").tolist()
        return order
    return sorted(range(len(spread)), key=lambda i: spread[i] & mask)


def timeline_order(hashes: Sequence[int], slots: int) -> list[int]:
    """Return the order in which Kafka's ``TimelineHashMap`` iterates over keys, from their hash
    codes.

    The group coordinator keeps the members of a streams group in such a map. Keys in one bucket are
    iterated from the newest to the oldest. The result is a list of indices into ``hashes``.

    Args:
        hashes: hashes of distinct keys in order of insertion.
        slots: number of buckets, a power of two from 2; see `timeline_slots`.

    >>> timeline_order([string_hash(f"consumer{i}") for i in (1, 2, 3, 4)], 8)
    [3, 0, 2, 1]
    """
    bits = slots.bit_length() - 1
    slot = [(h * _GOLDEN & 0xFFFFFFFFFFFFFFFF) >> (64 - bits) for h in hashes]
    return sorted(range(len(slot)), key=lambda i: (slot[i], -i))


def timeline_slots(size: int, slots: int = 2) -> int:
    """Return the number of buckets of Kafka's ``TimelineHashMap`` after keys were inserted.

    The map doubles its table whenever the keys fill more than 3/4 of it. `timeline_order` needs the
    number.

    Args:
        size: number of keys after the insertions.
        slots: number of buckets before the insertions.

    >>> [timeline_slots(size) for size in (1, 2, 4, 5)]
    [2, 4, 4, 8]
    """
    while (size + 1) * 3 > slots * 4:
        slots *= 2
    return slots


def hash_set_order(
    keys: Iterable[Key],
    hash_of: Callable[[Key], int],
    *,
    table: int = DEFAULT_TABLE,
    compute_if_absent: bool = False,
) -> list[Key]:
    """Return keys in the order in which a Java ``HashSet`` or ``HashMap`` iterates over them.

    Each key appears once in the result, even if it was inserted several times.

    Args:
        keys: the keys in order of insertion; a key may repeat.
        hash_of: function that returns a key's ``hashCode``.
        table: initial number of the set's buckets.
        compute_if_absent: whether ``computeIfAbsent`` inserted the keys, and not ``put`` or
            ``add``.

    >>> hash_set_order(["topic10", "foo", "bar", "foo"], string_hash)
    ['bar', 'topic10', 'foo']
    """
    calls = list(keys)
    distinct = list(dict.fromkeys(calls))
    order = hash_order(
        [hash_of(key) for key in distinct],
        table=table,
        rank=lambda: (
            string_ranks([key for key in distinct if isinstance(key, str)])
            if all(isinstance(key, str) for key in distinct)
            else [0] * len(distinct)
        ),
        compute_if_absent=compute_if_absent,
        looked_up_after=bool(calls) and calls[-1] in calls[:-1],
    )
    return [distinct[i] for i in order]


def _table_after_put(spread: list[int], table: int) -> int:
    """Return the number of buckets of a Java ``HashMap`` after ``put`` has inserted the given keys.

    A table doubles when it is more than 3/4 full. A small table also doubles when a ninth key falls
    into one of its buckets.

    Args:
        spread: mixed hash code of each key (``h ^ h >>> 16``), in order of insertion.
        table: initial number of buckets.
    """
    n = table
    for count, key in enumerate(spread if _may_have_long_chain(spread, table) else ()):
        if n >= _MIN_TREE_TABLE:
            break
        if _keys_in_bucket(spread, count, key, n) >= _MAX_CHAIN_PUT:
            n *= 2
        if (count + 1) * 4 > n * 3:
            n *= 2
    while len(spread) * 4 > n * 3 and n < _MAX_TABLE:
        n *= 2
    return n


def _table_after_compute(spread: list[int], table: int, *, looked_up_after: bool) -> int:
    """Return the number of buckets of a Java ``HashMap`` after ``computeIfAbsent`` inserted the
    keys.

    Unlike ``put``, ``computeIfAbsent`` checks the load before an insertion, so the table may stay
    smaller. A small table doubles when an eighth key falls into one of its buckets.

    Args:
        spread: mixed hash code of each key (``h ^ h >>> 16``), in order of insertion.
        table: initial number of buckets.
        looked_up_after: whether ``computeIfAbsent`` was called once more for an existing key, which
            may double the table.
    """
    n = table
    for count, key in enumerate(spread if _may_have_long_chain(spread, table) else ()):
        if n >= _MIN_TREE_TABLE:
            break
        # Unlike ``put``, it checks the load before the insertion.
        if count * 4 > n * 3:
            n *= 2
        if _keys_in_bucket(spread, count, key, n) >= _MAX_CHAIN_COMPUTE:
            n *= 2
    counted = len(spread) - (not looked_up_after)
    while counted * 4 > n * 3 and n < _MAX_TABLE:
        n *= 2
    return n


def _may_have_long_chain(spread: list[int], table: int) -> bool:
    """Return whether one full bucket may make a Java ``HashMap`` double its table early.

    Java doubles a table of fewer than 64 buckets when a bucket gets its ninth key. This quick check
    lets the caller skip the exact simulation. It may return True although no bucket is that full.

    Args:
        spread: mixed hash code of each key (``h ^ h >>> 16``), in order of insertion.
        table: initial number of buckets.
    """
    # Java does so only in tables of fewer than 64 buckets.
    if table >= _MIN_TREE_TABLE or len(spread) < _MAX_CHAIN_COMPUTE:
        return False
    mask = table - 1
    early = Counter([key & mask for key in spread[:_KEYS_AT_MIN_TREE_TABLE]])
    return max(early.values()) > _MAX_CHAIN_COMPUTE


def _keys_in_bucket(spread: list[int], count: int, key: int, n: int) -> int:
    if count < _MAX_CHAIN_COMPUTE:
        return 0
    mask = n - 1
    return sum(1 for other in spread[:count] if (other ^ key) & mask == 0)


def names_in_map_order(names: Sequence[str]) -> list[int]:
    """Return the order in which a Java ``HashMap`` iterates over strings, as indices of ``names``.

    The names are distinct. The map has the default size and ``put`` inserted them in the given
    order.

    >>> names_in_map_order(["consumer1", "consumer2", "consumer3"])
    [2, 1, 0]
    """
    return hash_order(string_hashes(names), rank=lambda: string_ranks(names))


def copied_set_order(
    hashes: Sequence[int], size: int, rank: Callable[[], Sequence[int]] | None = None
) -> list[int]:
    """Return the order in which Java iterates over ``new HashSet<>(collection)``.

    The result is a list of indices into ``hashes``.

    Args:
        hashes: hashes of the distinct keys in the collection's order.
        size: ``collection.size()``, which includes repeated keys.
        rank: function that returns each key's rank in the order of ``compareTo``; see `hash_order`.

    >>> copied_set_order([17, 1, 2], 3)
    [0, 1, 2]
    """
    return hash_order(hashes, table=copied_hash_set_table(size), rank=rank)


def hash_map_orders(group: NDArray[Any], hashes: Hashes) -> Order:
    """Return the iteration order of many Java ``HashMap`` objects at once.

    The result is an array of key indices, map after map. It equals `hash_order` of each map, but is
    computed with NumPy for all maps together.

    Args:
        group: int[n], number of the map that each key belongs to, ascending.
        hashes: uint32[n], hash of each key; the keys of a map are in order of insertion by ``put``.
    """
    return _walk(group, hashes, copied=False)


def copied_set_orders(group: NDArray[Any], hashes: Hashes) -> Order:
    """Return the iteration order of many Java ``HashSet`` objects at once.

    Each set was made by ``new HashSet<>(collection)`` of JDK 18 or older. The result is an array of
    key indices, set after set.

    Args:
        group: int[n], number of the set that each key belongs to, ascending.
        hashes: uint32[n], hash of each key; the keys of a set are in order of insertion.

    >>> copied_set_orders(np.array([0, 0, 1]), np.array([5, 3, 9], np.uint32)).tolist()
    [1, 0, 2]
    """
    return _walk(group, hashes, copied=True)


def _walk(group: NDArray[Any], hashes: Hashes, *, copied: bool) -> Order:
    if not len(group):
        return np.zeros(0, np.intp)
    first = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    sizes = np.diff(first, append=len(group))
    table = np.full(len(sizes), DEFAULT_TABLE, np.int64)
    for n in (1 << bit for bit in range(4, _MAX_TABLE.bit_length())):
        # Copied sets have a capacity of size * 4/3 + 1; filled maps keep the load under 3/4.
        small = sizes * 4 // 3 + 1 > n if copied else sizes * 4 > n * 3
        if not small.any():
            break
        table[small] = n * 2
    spread = hashes ^ (hashes >> np.uint32(16))
    ordinal = np.repeat(np.arange(len(sizes)), sizes)
    bucket = spread & (np.repeat(table, sizes) - 1).astype(np.uint32)
    key = (ordinal << 32) | bucket
    order = np.argsort(key, kind="stable")
    _walk_large_buckets(order, key[order], first, sizes, hashes, copied=copied)
    return order


def _walk_large_buckets(
    order: Order,
    keys: NDArray[np.int64],
    first: Order,
    sizes: Order,
    hashes: Hashes,
    *,
    copied: bool,
) -> None:
    """Correct the iteration order of Java maps in which a bucket has nine or more keys.

    With the ninth key, ``HashMap`` doubles its table or turns the bucket's list into a tree. Both
    change the order, so `hash_order` computes it again for these maps. ``order`` is changed in
    place.

    Args:
        order: indices of the keys of all maps, in iteration order.
        keys: int64[n], map number (upper 32 bits) and bucket (lower ones) of each key in ``order``.
        first: index of each map's first key.
        sizes: number of keys of each map.
        hashes: uint32[n], hash code of each key in order of insertion.
        copied: whether ``new HashSet<>(collection)`` created the maps.
    """
    large = keys[np.flatnonzero(keys[_MAX_CHAIN_PUT:] == keys[:-_MAX_CHAIN_PUT])] >> 32
    grown = np.zeros(0, np.int64) if copied else np.flatnonzero(sizes * 4 > _MIN_TREE_TABLE * 3)
    for one in np.union1d(large, grown).tolist():
        begin, size = int(first[one]), int(sizes[one])
        keys_of_one = hashes[begin : begin + size].tolist()
        places = copied_set_order(keys_of_one, size) if copied else hash_order(keys_of_one)
        order[begin : begin + size] = begin + np.array(places, np.intp)


@dataclass(frozen=True)
class StringMap:
    """Immutable model of a Java ``HashMap`` with string keys that returns its iteration order.

    Kafka's coordinator keeps group members in such maps, and their order decides assignments. Each
    change returns a new map. Keys that were removed still matter: the table never shrinks, and a
    bucket that was a tree keeps the tree's order.

    Attributes:
        slots: number of buckets.
        spread: mixed hash of each key (which selects its bucket), in order of insertion.
        tree_bins: the buckets that are, or have been, trees.

    >>> StringMap().with_key("consumer1").with_key("consumer2").iteration_order()
    ['consumer2', 'consumer1']
    """

    slots: int = DEFAULT_TABLE
    spread: Mapping[str, int] = field(default_factory=dict)
    tree_bins: Mapping[int, HashBucket[str]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def with_key(self, key: str) -> StringMap:
        """Return a copy of this ``HashMap`` model with one more key, inserted as by Java's ``put``.

        The table doubles, or a bucket becomes a tree, under the same conditions as in Java.
        """
        spread = {**self.spread, key: _spread(key)}
        grown = replace(self, spread=spread)
        slot = grown.slot_of(key)
        known = self.tree_bins.get(slot)
        mates = [one for one in self.spread if self.slot_of(one) == slot] if known is None else []
        bucket = HashBucket(_rank, mates) if known is None else known.copy()
        too_many = bucket.add(key)
        if too_many and self.slots < TREE_TABLE:
            grown = grown.with_doubled_buckets()
        elif too_many or known is not None:
            if too_many:
                bucket.treeify()
            grown = replace(grown, tree_bins={**self.tree_bins, slot: bucket})
        return grown.with_doubled_buckets() if len(spread) * 4 > grown.slots * 3 else grown

    def without_key(self, key: str) -> StringMap:
        """Return a copy of this ``HashMap`` model without one of its keys.

        The table keeps its size, as in Java.
        """
        spread = {one: value for one, value in self.spread.items() if one != key}
        slot, tree_bins = self.slot_of(key), dict(self.tree_bins)
        if slot in tree_bins:
            tree_bins[slot] = tree_bins[slot].copy()
            tree_bins[slot].remove(key)
        return StringMap(self.slots, spread, tree_bins)

    def iteration_order(self) -> list[str]:
        """Return all keys of this ``HashMap`` model in the order in which Java iterates over them.

        Java visits bucket after bucket, and each bucket's keys as a list or a tree.
        """
        if not self.tree_bins:
            return sorted(self.spread, key=self.slot_of)
        chains: dict[int, list[str]] = {}
        for one in self.spread:
            chains.setdefault(self.slot_of(one), []).append(one)
        chains |= {slot: bucket.chain for slot, bucket in self.tree_bins.items()}
        return [one for slot in sorted(chains) for one in chains[slot]]

    def with_doubled_buckets(self) -> StringMap:
        """Return a copy of this ``HashMap`` model with twice as many buckets.

        The keys of each bucket are divided between two new buckets, as Java's ``resize`` does.
        """
        grown = replace(self, slots=self.slots * 2)
        tree_bins: dict[int, HashBucket[str]] = {}
        for bucket in self.tree_bins.values():
            tree_bins |= bucket.split(grown.slot_of)
        return replace(grown, tree_bins=tree_bins)

    def slot_of(self, key: str) -> int:
        """Return the index of the ``HashMap`` bucket that contains a key.

        The index is the low bits of the key's mixed hash code.
        """
        return self.spread[key] & (self.slots - 1)


def _spread(name: str) -> int:
    # HashMap xors the upper 16 bits into the lower ones.
    value = string_hash(name) & 0xFFFFFFFF
    return value ^ value >> 16


def _rank(name: str) -> tuple[int, bytes]:
    # Tree buckets sort by the signed mixed hash, then by text.
    return (_spread(name) ^ 0x80000000) - 0x80000000, string_order_key(name)
