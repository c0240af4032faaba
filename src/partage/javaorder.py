"""The order in which Java's hash collections are iterated, where a plan or its bytes depend on it.

Kafka's assignors walk ``HashMap`` and ``HashSet`` in places where the order decides who keeps a
partition. The rules below are those of OpenJDK 17, measured against Kafka 4.3.1 on it:

* a key's bucket is ``(h ^ h >>> 16) & (n - 1)``; buckets are walked in ascending order;
* inside a bucket ``put`` appends, ``computeIfAbsent`` prepends; doubling keeps relative order;
* ``put`` doubles the table right after the insertion that exceeds 3/4 of it, ``computeIfAbsent``
  at its next call; a crowded bucket (``put``: a ninth key, ``computeIfAbsent``: an eighth)
  doubles a table of fewer than 64 slots too, whatever its load.

In a table of 64 slots or more such a crowded bucket becomes a tree, whose keys are walked in
another order yet: `partage.javatrees`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from partage.javatrees import may_have_trees, walked

__all__ = [
    "DEFAULT_TABLE",
    "copied_hash_set_table",
    "hash_order",
    "hash_set_order",
    "string_hash",
    "string_order_key",
    "string_ranks",
    "table_for_capacity",
    "timeline_order",
    "timeline_slots",
    "topic_partition_hash",
    "uuid_hash",
]

DEFAULT_TABLE = 16
_TREE_TABLE = 64
_LARGEST_TABLE = 1 << 30
#: By which ``BaseHashTable.findSlot`` of Kafka 4.3.1 multiplies: Knuth's golden ratio.
_GOLDEN = -7046029254386353131
_CROWD_FOR_PUT = 8
_CROWD_FOR_COMPUTE = 7
#: By load alone a table has grown to 64 slots when it has so many keys.
_KEYS_OF_A_TREE_TABLE = 32
#: From so many keys on, sorting by NumPy is faster.
_WORTH_COLUMNS = 64

Key = TypeVar("Key", bound=Hashable)


def _int32(value: int) -> int:
    return (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def string_hash(text: str) -> int:
    """``String.hashCode``: 31-polynomial over UTF-16 code units, as a signed int32.

    >>> string_hash("consumer1"), string_hash("Aa") == string_hash("BB")
    (-421004549, True)
    """
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(units[::2], units[1::2], strict=True):
            value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return _int32(value)


def string_order_key(text: str) -> bytes:
    r"""A sort key for ``String.compareTo``: unsigned UTF-16 code units, shorter prefix first.

    It differs from Python's order only beyond the basic plane.

    >>> sorted(["\uff5a", "\U00010000"], key=string_order_key) == ["\U00010000", "\uff5a"]
    True
    """
    return text.encode("utf-16-be", "surrogatepass")


def string_ranks(names: Sequence[str]) -> list[int]:
    """Place of each name in the order of ``String.compareTo``.

    >>> string_ranks(["b", "a"])
    [1, 0]
    """
    rank = [0] * len(names)
    order = sorted(range(len(names)), key=lambda i: string_order_key(names[i]))
    for place, i in enumerate(order):
        rank[i] = place
    return rank


def uuid_hash(uuid: bytes) -> int:
    r"""``org.apache.kafka.common.Uuid.hashCode`` of the 16 bytes, as a signed int32.

    >>> uuid_hash(bytes(15) + b"\x07")
    7
    """
    mixed = int.from_bytes(uuid[:8], "big") ^ int.from_bytes(uuid[8:], "big")
    return _int32(mixed >> 32 ^ mixed)


def topic_partition_hash(topic: str, partition: int) -> int:
    """``TopicPartition.hashCode``, as a signed int32.

    >>> topic_partition_hash("t1", 0)
    4606
    """
    return _int32(31 * (31 + partition) + string_hash(topic))


def table_for_capacity(capacity: int) -> int:
    """Slots of a table made for ``capacity``: the least power of two that is not smaller.

    >>> [table_for_capacity(c) for c in (0, 1, 3, 16, 17)]
    [1, 1, 4, 16, 32]
    """
    if capacity <= 1:
        return 1
    return min(1 << (capacity - 1).bit_length(), _LARGEST_TABLE)


def copied_hash_set_table(size: int) -> int:
    """Slots of ``new HashSet<>(collection)`` for a collection of ``size``, on JDK 18 or older.

    JDK 19 changed the rule; they part at 12, 24, 48, ... elements.

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
    """Positions of ``hashes`` in the order in which Java walks them.

    ``hashes`` are those of distinct keys (int32, signed or not) in order of insertion;
    ``table`` is the number of slots that the empty table is made with. ``rank`` answers the
    keys' order among each other (``compareTo``), and is asked only for crowded buckets. With
    ``compute_if_absent``, say with ``looked_up_after`` whether that method was called once
    more, for a key that was there already, after the last key went in: it may double the table.

    >>> hash_order([string_hash(f"consumer{i}") for i in (1, 2, 3, 4)])
    [3, 2, 1, 0]
    """
    if len(hashes) >= _WORTH_COLUMNS:
        unsigned = np.array(hashes, np.int64) & 0xFFFFFFFF
        column = unsigned ^ (unsigned >> 16)
        spread = column.tolist()
    else:
        column = None
        spread = [((h & 0xFFFFFFFF) >> 16 ^ h) & 0xFFFFFFFF for h in hashes]
    if may_have_trees(spread if column is None else column, table):
        return walked(
            hashes,
            table,
            rank=rank() if rank is not None else None,
            compute_if_absent=compute_if_absent,
            looked_up_after=looked_up_after,
        )
    if compute_if_absent:
        mask = _grown_by_compute(spread, table, looked_up_after=looked_up_after) - 1
        return sorted(range(len(spread)), key=lambda i: (spread[i] & mask, -i))
    mask = _grown_by_put(spread, table) - 1
    if column is not None:
        order: list[int] = np.argsort(column & mask, kind="stable").tolist()
        return order
    return sorted(range(len(spread)), key=lambda i: spread[i] & mask)


def timeline_order(hashes: Sequence[int], slots: int) -> list[int]:
    """Positions of ``hashes`` in the order in which Kafka's coordinator walks its members.

    Its ``TimelineHashMap`` takes the highest bits of a product as slot, and walks a slot from
    the newest key to the oldest.

    Args:
        hashes: of distinct keys in order of insertion.
        slots: of the table, a power of two from 2; see `timeline_slots`.

    >>> timeline_order([string_hash(f"consumer{i}") for i in (1, 2, 3, 4)], 8)
    [3, 0, 2, 1]
    """
    bits = slots.bit_length() - 1
    where = [(h * _GOLDEN & 0xFFFFFFFFFFFFFFFF) >> (64 - bits) for h in hashes]
    return sorted(range(len(where)), key=lambda place: (where[place], -place))


def timeline_slots(size: int, slots: int = 2) -> int:
    """Slots of a ``TimelineHashMap`` with ``slots`` before, once ``size`` keys were all put again.

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
    """Distinct ``keys`` in the order of a Java hash collection that got them in this order.

    ``keys`` may repeat: each is one call of ``put`` (``add``) or ``computeIfAbsent``.

    >>> hash_set_order(["topic10", "foo", "bar", "foo"], string_hash)
    ['bar', 'topic10', 'foo']
    """
    calls = list(keys)
    distinct = list(dict.fromkeys(calls))
    places = hash_order(
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
    return [distinct[i] for i in places]


def _grown_by_put(spread: list[int], table: int) -> int:
    """Slots after ``put`` of all keys: crowding is followed only while it can matter."""
    n = table
    for count, key in enumerate(spread if _may_crowd(spread, table) else ()):
        if n >= _TREE_TABLE:
            break
        if _mates(spread, count, key, n) >= _CROWD_FOR_PUT:
            n *= 2
        if (count + 1) * 4 > n * 3:
            n *= 2
    while len(spread) * 4 > n * 3 and n < _LARGEST_TABLE:
        n *= 2
    return n


def _grown_by_compute(spread: list[int], table: int, *, looked_up_after: bool) -> int:
    """Slots after ``computeIfAbsent`` of all keys: the load is looked at before each."""
    n = table
    for count, key in enumerate(spread if _may_crowd(spread, table) else ()):
        if n >= _TREE_TABLE:
            break
        if count * 4 > n * 3:
            n *= 2
        if _mates(spread, count, key, n) >= _CROWD_FOR_COMPUTE:
            n *= 2
    counted = len(spread) - (not looked_up_after)
    while counted * 4 > n * 3 and n < _LARGEST_TABLE:
        n *= 2
    return n


def _may_crowd(spread: list[int], table: int) -> bool:
    """Whether a bucket may get crowded before the table is large.

    Not if none of the table as it begins would: a larger table's buckets are parts of those.
    """
    if table >= _TREE_TABLE or len(spread) < _CROWD_FOR_COMPUTE:
        return False
    mask = table - 1
    early = Counter([key & mask for key in spread[:_KEYS_OF_A_TREE_TABLE]])
    return max(early.values()) > _CROWD_FOR_COMPUTE


def _mates(spread: list[int], count: int, key: int, n: int) -> int:
    """How many of the first ``count`` keys share the bucket of ``key`` in ``n`` slots."""
    if count < _CROWD_FOR_COMPUTE:
        return 0
    mask = n - 1
    return sum(1 for other in spread[:count] if (other ^ key) & mask == 0)
