"""``java.util.PriorityQueue``: a binary heap whose mechanics decide between equal keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["JavaHeap", "drained"]


class JavaHeap:
    """Entries ordered by a key that may tie, exactly as OpenJDK's priority queue.

    An entry is any tuple; the key is its first field, compared by ``<`` only.

    >>> heap = JavaHeap()
    >>> for entry in [(1, "a"), (1, "b"), (0, "c"), (1, "d")]:
    ...     heap.add(entry)
    >>> [heap.poll()[1] for _ in range(4)]
    ['c', 'd', 'a', 'b']
    """

    __slots__ = ("items",)

    def __init__(self, items: Iterable[Any] = ()) -> None:
        """From a collection as it is iterated: copied, then made a heap from the middle down."""
        self.items: list[Any] = list(items)
        for place in range(len(self.items) // 2 - 1, -1, -1):
            self._down(place, self.items[place])

    def __len__(self) -> int:
        return len(self.items)

    def add(self, entry: Any) -> None:
        """Put at the end, then up while it is smaller than its parent."""
        self.items.append(entry)
        self._up(len(self.items) - 1, entry)

    def poll(self) -> Any:
        """Take the first; the last goes down from the top.

        Raises:
            IndexError: the heap is empty.
        """
        items = self.items
        last = items.pop()
        if not items:
            return last
        first = items[0]
        self._down(0, last)
        return first

    def remove(self, entry: Any) -> None:
        """Take out the first slot that equals the entry; the last one fills it.

        Raises:
            ValueError: there is no such entry.
        """
        items = self.items
        place = items.index(entry)
        last = items.pop()
        if place == len(items):
            return
        self._down(place, last)
        if items[place] is last:
            self._up(place, last)

    def _up(self, place: int, entry: Any) -> None:
        items, key = self.items, entry[0]
        while place > 0:
            parent = (place - 1) >> 1
            above = items[parent]
            if not key < above[0]:
                break
            items[place] = above
            place = parent
        items[place] = entry

    def _down(self, place: int, entry: Any) -> None:
        items, key = self.items, entry[0]
        size = len(items)
        while (child := 2 * place + 1) < size:
            right = child + 1
            if right < size and items[right][0] < items[child][0]:
                child = right
            below = items[child]
            if not below[0] < key:
                break
            items[place] = below
            place = child
        items[place] = entry


def drained(keys: Sequence[Any]) -> list[int]:
    """Positions of keys, added one by one, in the order in which the queue gives them out.

    >>> drained([5, 3, 5])
    [1, 2, 0]
    """
    heap = JavaHeap()
    for place, key in enumerate(keys):
        heap.add((key, place))
    return [heap.poll()[1] for _ in range(len(heap))]
