"""``java.util.PriorityQueue``: a binary heap whose steps decide the order of equal keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["PriorityQueue", "poll_order"]


class PriorityQueue:
    """Model of Java's ``PriorityQueue``, which returns entries with equal keys in the same order.

    An entry is a tuple whose first field is its key. Keys are compared by ``<`` only. Python's
    `heapq` would return equal keys in another order.

    >>> queue = PriorityQueue()
    >>> for entry in [(1, "a"), (1, "b"), (0, "c"), (1, "d")]:
    ...     queue.add(entry)
    >>> [queue.poll()[1] for _ in range(4)]
    ['c', 'd', 'a', 'b']
    """

    __slots__ = ("items",)

    def __init__(self, items: Iterable[Any] = ()) -> None:
        """Create a priority queue from entries, in the same heap order as Java's constructor.

        Each entry is a tuple whose first field is its key.
        """
        self.items: list[Any] = list(items)
        # Java sifts down from the middle to the front.
        for place in range(len(self.items) // 2 - 1, -1, -1):
            self._sift_down(place, self.items[place])

    def __len__(self) -> int:
        return len(self.items)

    def add(self, entry: Any) -> None:
        """Add an entry to the priority queue, at the same position in the heap as in Java.

        An entry is a tuple whose first field is its key.
        """
        self.items.append(entry)
        self._sift_up(len(self.items) - 1, entry)

    def poll(self) -> Any:
        """Remove the entry with the smallest key from the priority queue and return it.

        Among equal keys it is the entry that Java's ``poll`` would return.

        Raises:
            IndexError: the queue is empty.
        """
        items = self.items
        last = items.pop()
        if not items:
            return last
        first = items[0]
        self._sift_down(0, last)
        return first

    def remove(self, entry: Any) -> None:
        """Remove the first entry of the priority queue that is equal to ``entry``.

        The remaining heap has the same order as in Java.

        Raises:
            ValueError: no entry is equal.
        """
        items = self.items
        place = items.index(entry)
        last = items.pop()
        if place == len(items):
            return
        self._sift_down(place, last)
        if items[place] is last:
            self._sift_up(place, last)

    def _sift_up(self, place: int, entry: Any) -> None:
        items, key = self.items, entry[0]
        while place > 0:
            parent = (place - 1) >> 1
            above = items[parent]
            if not key < above[0]:
                break
            items[place] = above
            place = parent
        items[place] = entry

    def _sift_down(self, place: int, entry: Any) -> None:
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


def poll_order(keys: Sequence[Any]) -> list[int]:
    """Return the order in which Java's ``PriorityQueue`` removes keys, as indices of ``keys``.

    The keys are added in the given order, then the smallest key is removed until none is left.
    Equal keys do not always leave in the order in which they were added.

    >>> poll_order([5, 3, 5])
    [1, 2, 0]
    """
    queue = PriorityQueue()
    for place, key in enumerate(keys):
        queue.add((key, place))
    return [queue.poll()[1] for _ in range(len(queue))]
