"""``List.sort`` of Java 17 (TimSort), for comparators that contradict themselves.

If the comparator is a total order, every stable sort gives the same list. If it is not, the result
depends on the steps of the sort, so these are the steps of ``java.util.TimSort``: existing runs,
short ones extended by binary insertion, merges that gallop. Python's sort is of the same family,
but has other run lengths and merges in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["ComparatorError", "list_sort"]

T = TypeVar("T")
#: Returns a negative number, zero or a positive number, as ``Comparator.compare``.
Compare = Callable[[T, T], int]

#: ``MIN_MERGE``: shorter lists are sorted by insertion after their first run.
_MIN_MERGE = 32
#: ``MIN_GALLOP``: after so many items in sequence from one run a merge gallops.
_MIN_GALLOP = 7


class ComparatorError(Exception):
    """Raised by `list_sort` if the comparator contradicts itself, for example a < b, b < c and c <
    a.

    Java raises ``IllegalArgumentException``: "Comparison method violates its general contract!"
    """


def list_sort(items: Sequence[T], compare: Compare[T]) -> list[T]:
    """Sort items by a comparator with exactly the steps of Java's ``List.sort`` (TimSort).

    ``compare(a, b)`` is negative, zero or positive. The result differs from another stable sort
    only if the comparator contradicts itself.

    Raises:
        ComparatorError: a merge detected that the comparator contradicts itself.

    >>> list_sort([3, 1, 2], lambda a, b: a - b)
    [1, 2, 3]
    """
    out = list(items)
    if len(out) < _MIN_MERGE:
        _binary_insertion_sort(out, 0, len(out), _find_run(out, 0, len(out), compare), compare)
        return out
    return _TimSort(out, compare).sorted()


def _find_run(items: list[T], begin: int, end: int, compare: Compare[T]) -> int:
    """Return the index after the sorted run that begins at index ``begin`` of a list.

    A run is a sequence of items that is sorted already. A strictly descending run is reversed in
    place first. This is ``countRunAndMakeAscending`` of Java's TimSort.
    """
    at = begin + 1
    if at >= end:
        return end
    if compare(items[at], items[begin]) < 0:
        while at < end and compare(items[at], items[at - 1]) < 0:
            at += 1
        items[begin:at] = items[begin:at][::-1]
    else:
        while at < end and compare(items[at], items[at - 1]) >= 0:
            at += 1
    return at


def _binary_insertion_sort(
    items: list[T], begin: int, end: int, sorted_to: int, compare: Compare[T]
) -> None:
    """Sort the section from ``begin`` to ``end`` of a list in place by binary insertion.

    Java's TimSort does so with short runs. The items before index ``sorted_to`` are sorted already.
    Items that compare equal keep their order.
    """
    for at in range(sorted_to, end):
        one = items[at]
        low, high = begin, at
        while low < high:
            middle = (low + high) >> 1
            if compare(one, items[middle]) < 0:
                high = middle
            else:
                low = middle + 1
        del items[at]
        items.insert(low, one)


def _less_than(key: T, compare: Compare[T]) -> Callable[[T], bool]:
    return lambda one: compare(key, one) > 0


def _at_most(key: T, compare: Compare[T]) -> Callable[[T], bool]:
    return lambda one: compare(key, one) >= 0


def _gallop_search(precedes: Callable[[T], bool], items: Sequence[T], hint: int) -> int:
    """Return how many items at the start of a sorted list satisfy a condition.

    ``precedes`` is the condition: true for the first items of the list and false for all later
    ones. The function searches exponentially from index ``hint``, then by bisection, like TimSort's
    ``gallopLeft`` and ``gallopRight``.
    """
    before, step = 0, 1
    if precedes(items[hint]):
        most = len(items) - hint
        while step < most and precedes(items[hint + step]):
            before, step = step, 2 * step + 1
        low, high = hint + before + 1, hint + min(step, most)
    else:
        most = hint + 1
        while step < most and not precedes(items[hint - step]):
            before, step = step, 2 * step + 1
        low, high = hint - min(step, most) + 1, hint - before
    while low < high:
        middle = low + ((high - low) >> 1)
        if precedes(items[middle]):
            low = middle + 1
        else:
            high = middle
    return low


class _TimSort(Generic[T]):
    """Java's TimSort for lists of 32 items or more.

    It finds sorted runs in the list and merges them in the same order as ``java.util.TimSort``.
    """

    def __init__(self, items: list[T], compare: Compare[T]) -> None:
        self._items, self._compare = items, compare
        self._runs: list[list[T]] = []
        self._min_gallop = _MIN_GALLOP

    def sorted(self) -> list[T]:
        a, size = self._items, len(self._items)
        shortest, odd = size, 0
        while shortest >= _MIN_MERGE:
            shortest, odd = shortest >> 1, odd | (shortest & 1)
        shortest += odd
        begin = 0
        while begin < size:
            end = _find_run(a, begin, size, self._compare)
            filled = min(size, begin + shortest)
            if end < filled:
                _binary_insertion_sort(a, begin, filled, end, self._compare)
                end = filled
            self._runs.append(a[begin:end])
            self._collapse()
            begin = end
        while len(self._runs) > 1:
            self._merge(self._middle(len(self._runs) - 2))
        return self._runs[0]

    def _collapse(self) -> None:
        while len(self._runs) > 1:
            size = [len(run) for run in self._runs]
            n = len(size) - 2
            must_merge = n > 0 and size[n - 1] <= size[n] + size[n + 1]
            if must_merge or (n > 1 and size[n - 2] <= size[n] + size[n - 1]):
                n = self._middle(n)
            elif size[n] > size[n + 1]:
                break
            self._merge(n)

    def _middle(self, n: int) -> int:
        # The shorter neighbour of the middle run is merged first.
        return n - 1 if n > 0 and len(self._runs[n - 1]) < len(self._runs[n + 1]) else n

    def _merge(self, n: int) -> None:
        left, right = self._runs[n], self._runs.pop(n + 1)
        skip = _gallop_search(_at_most(right[0], self._compare), left, 0)
        kept, left = left[:skip], left[skip:]
        last = (
            _gallop_search(_less_than(left[-1], self._compare), right, len(right) - 1)
            if left
            else 0
        )
        rest, right = right[last:], right[:last]
        if left and right:
            merge = _Merge(left, right, self._compare, self._min_gallop)
            left = merge.merged()
            self._min_gallop = merge.min_gallop
        self._runs[n] = kept + left + rest


class _Merge(Generic[T]):
    """Merge of two adjacent sorted runs of a list, with the same steps as in Java's TimSort.

    The shorter run is first copied to a buffer. The merge goes forward if the left run is not
    longer than the right one, otherwise backward.
    """

    def __init__(self, left: list[T], right: list[T], compare: Compare[T], min_gallop: int) -> None:
        self._left, self._right, self._compare = left, right, compare
        self._forward = len(left) <= len(right)
        self._buffered, self._other = (left, right) if self._forward else (right, left)
        self._head = 0 if self._forward else -1
        self._out: list[T] = []
        self.min_gallop = min_gallop

    def merged(self) -> list[T]:
        self._take(self._other, 1)
        while not self._is_over():
            self._merge_one_by_one()
            if not self._is_over():
                self._merge_galloping()
        self.min_gallop = max(self.min_gallop, 1)
        if not self._buffered:
            raise ComparatorError("comparison method violates its general contract")
        if self._forward:
            return self._out + self._right + self._left
        return self._right + self._left + self._out

    def _is_over(self) -> bool:
        return not self._other or len(self._buffered) <= 1

    def _take(self, side: list[T], count: int) -> None:
        if self._forward:
            self._out += side[:count]
            del side[:count]
        else:
            at = len(side) - count
            self._out[:0] = side[at:]
            del side[at:]

    def _merge_one_by_one(self) -> None:
        winner, wins = self._left, 0
        while not self._is_over() and wins < self.min_gallop:
            smaller = self._compare(self._right[self._head], self._left[self._head]) < 0
            side = self._right if smaller == self._forward else self._left
            wins = wins + 1 if side is winner else 1
            winner = side
            self._take(side, 1)

    def _merge_galloping(self) -> None:
        from_left = from_right = _MIN_GALLOP
        while max(from_left, from_right) >= _MIN_GALLOP:
            key = self._right[self._head]
            from_left = self._count_preceding(_at_most(key, self._compare), self._left)
            self._take(self._left, from_left)
            if self._is_over():
                return
            self._take(self._right, 1)
            if self._is_over():
                return
            key = self._left[self._head]
            from_right = self._count_preceding(_less_than(key, self._compare), self._right)
            self._take(self._right, from_right)
            if self._is_over():
                return
            self._take(self._left, 1)
            if self._is_over():
                return
            self.min_gallop -= 1
        self.min_gallop = max(self.min_gallop, 0) + 2

    def _count_preceding(self, precedes: Callable[[T], bool], side: list[T]) -> int:
        if self._forward:
            return _gallop_search(precedes, side, 0)
        return len(side) - _gallop_search(precedes, side, len(side) - 1)
