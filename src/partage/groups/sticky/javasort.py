"""``List.sort`` of Java 17 with a comparator that contradicts itself.

Any sort that is right gives one answer where the comparator is an order. Where it is not, the
answer is what the steps of the sort make of it, so these are the steps of ``java.util.TimSort``:
runs that are there already, short ones filled up by binary insertion, merges that gallop. Python's
own sort is of the same family, but has other lengths, and merges in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from partage.groups.sticky.refusals import JavaRefusal

__all__ = ["java_sorted"]

T = TypeVar("T")
#: Negative, zero or positive: the first comes before, beside or after the second.
Compare = Callable[[T, T], int]

#: Shorter lists are not merged at all: one run, the rest by insertion.
_MERGED_FROM = 32
#: So many wins in a row of one side, and the merge jumps instead of stepping.
_GALLOP = 7


def java_sorted(items: Sequence[T], compare: Compare[T]) -> list[T]:
    """The list as Java leaves it.

    Raises:
        JavaRefusal: a merge came upon a contradiction (``IllegalArgumentException``).

    >>> java_sorted([3, 1, 2], lambda a, b: a - b)
    [1, 2, 3]
    """
    out = list(items)
    if len(out) < _MERGED_FROM:
        _insert(out, 0, len(out), _run(out, 0, len(out), compare), compare)
        return out
    return _Merging(out, compare).sorted()


def _run(a: list[T], begin: int, end: int, compare: Compare[T]) -> int:
    """Where the run at ``begin`` ends; one that falls strictly is turned round."""
    at = begin + 1
    if at >= end:
        return end
    if compare(a[at], a[begin]) < 0:
        while at < end and compare(a[at], a[at - 1]) < 0:
            at += 1
        a[begin:at] = a[begin:at][::-1]
    else:
        while at < end and compare(a[at], a[at - 1]) >= 0:
            at += 1
    return at


def _insert(a: list[T], begin: int, end: int, sorted_to: int, compare: Compare[T]) -> None:
    """Each item from ``sorted_to`` on goes behind the last that is not greater, by halving."""
    for at in range(sorted_to, end):
        one = a[at]
        low, high = begin, at
        while low < high:
            middle = (low + high) >> 1
            if compare(one, a[middle]) < 0:
                high = middle
            else:
                low = middle + 1
        del a[at]
        a.insert(low, one)


def _before(key: T, compare: Compare[T]) -> Callable[[T], bool]:
    return lambda one: compare(key, one) > 0


def _not_after(key: T, compare: Compare[T]) -> Callable[[T], bool]:
    return lambda one: compare(key, one) >= 0


def _preceding(precedes: Callable[[T], bool], a: Sequence[T], hint: int) -> int:
    """How many of ``a`` precede a key: steps that double from ``hint``, then halving."""
    before, step = 0, 1
    if precedes(a[hint]):
        most = len(a) - hint
        while step < most and precedes(a[hint + step]):
            before, step = step, 2 * step + 1
        low, high = hint + before + 1, hint + min(step, most)
    else:
        most = hint + 1
        while step < most and not precedes(a[hint - step]):
            before, step = step, 2 * step + 1
        low, high = hint - min(step, most) + 1, hint - before
    while low < high:
        middle = low + ((high - low) >> 1)
        if precedes(a[middle]):
            low = middle + 1
        else:
            high = middle
    return low


class _Merging(Generic[T]):
    """A list of 32 items or more, in runs that are merged while they grow."""

    def __init__(self, items: list[T], compare: Compare[T]) -> None:
        self._items, self._compare = items, compare
        self._runs: list[list[T]] = []
        self._patience = _GALLOP

    def sorted(self) -> list[T]:
        a, size = self._items, len(self._items)
        shortest, odd = size, 0
        while shortest >= _MERGED_FROM:
            shortest, odd = shortest >> 1, odd | (shortest & 1)
        shortest += odd
        begin = 0
        while begin < size:
            end = _run(a, begin, size, self._compare)
            filled = min(size, begin + shortest)
            if end < filled:
                _insert(a, begin, filled, end, self._compare)
                end = filled
            self._runs.append(a[begin:end])
            self._collapse()
            begin = end
        while len(self._runs) > 1:
            self._merge(self._middle(len(self._runs) - 2))
        return self._runs[0]

    def _collapse(self) -> None:
        """Merge until each run is longer than the next, and than the next two together."""
        while len(self._runs) > 1:
            size = [len(run) for run in self._runs]
            n = len(size) - 2
            crowded = n > 0 and size[n - 1] <= size[n] + size[n + 1]
            if crowded or (n > 1 and size[n - 2] <= size[n] + size[n - 1]):
                n = self._middle(n)
            elif size[n] > size[n + 1]:
                break
            self._merge(n)

    def _middle(self, n: int) -> int:
        """The shorter neighbour is the one that the run in the middle is merged with."""
        return n - 1 if n > 0 and len(self._runs[n - 1]) < len(self._runs[n + 1]) else n

    def _merge(self, n: int) -> None:
        left, right = self._runs[n], self._runs.pop(n + 1)
        skip = _preceding(_not_after(right[0], self._compare), left, 0)
        kept, left = left[:skip], left[skip:]
        last = _preceding(_before(left[-1], self._compare), right, len(right) - 1) if left else 0
        rest, right = right[last:], right[:last]
        if left and right:
            both = _Merge(left, right, self._compare, self._patience)
            left = both.merged()
            self._patience = both.patience
        self._runs[n] = kept + left + rest


class _Merge(Generic[T]):
    """Two runs that overlap: from the front if the left one is not longer, else from the back.

    The shorter one is lent out; its last item needs no more comparisons.
    """

    def __init__(self, left: list[T], right: list[T], compare: Compare[T], patience: int) -> None:
        self._left, self._right, self._compare = left, right, compare
        self._forward = len(left) <= len(right)
        self._lent, self._other = (left, right) if self._forward else (right, left)
        self._head = 0 if self._forward else -1
        self._out: list[T] = []
        self.patience = patience

    def merged(self) -> list[T]:
        self._take(self._other, 1)
        while not self._is_over():
            self._step()
            if not self._is_over():
                self._jump()
        self.patience = max(self.patience, 1)
        if not self._lent:
            what = (
                "members claim partitions whose numbers lie so far apart that their differences"
                " overflow (Kafka's class: comparison method violates its general contract)"
            )
            raise JavaRefusal(what, "IllegalArgumentException")
        if self._forward:
            return self._out + self._right + self._left
        return self._right + self._left + self._out

    def _is_over(self) -> bool:
        return not self._other or len(self._lent) <= 1

    def _take(self, side: list[T], count: int) -> None:
        if self._forward:
            self._out += side[:count]
            del side[:count]
        else:
            at = len(side) - count
            self._out[:0] = side[at:]
            del side[at:]

    def _step(self) -> None:
        """One by one, until one side has won often enough in a row."""
        winner, wins = self._left, 0
        while not self._is_over() and wins < self.patience:
            smaller = self._compare(self._right[self._head], self._left[self._head]) < 0
            side = self._right if smaller == self._forward else self._left
            wins = wins + 1 if side is winner else 1
            winner = side
            self._take(side, 1)

    def _jump(self) -> None:
        """Many at once, while that goes on to find many."""
        from_left = from_right = _GALLOP
        while max(from_left, from_right) >= _GALLOP:
            key = self._right[self._head]
            from_left = self._found(_not_after(key, self._compare), self._left)
            self._take(self._left, from_left)
            if self._is_over():
                return
            self._take(self._right, 1)
            if self._is_over():
                return
            key = self._left[self._head]
            from_right = self._found(_before(key, self._compare), self._right)
            self._take(self._right, from_right)
            if self._is_over():
                return
            self._take(self._left, 1)
            if self._is_over():
                return
            self.patience -= 1
        self.patience = max(self.patience, 0) + 2

    def _found(self, precedes: Callable[[T], bool], side: list[T]) -> int:
        if self._forward:
            return _preceding(precedes, side, 0)
        return len(side) - _preceding(precedes, side, len(side) - 1)
