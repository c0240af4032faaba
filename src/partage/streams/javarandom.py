"""``java.util.Random`` and ``Collections.shuffle``: numbers that follow from a seed, no chance."""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any

__all__ = ["JavaRandom"]

_MASK = (1 << 48) - 1


class JavaRandom:
    """The linear congruential generator that Java's documentation prescribes.

    >>> JavaRandom(0).next_int(100), JavaRandom(42).next_int(10)
    (60, 0)
    """

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ 0x5DEECE66D) & _MASK

    def _next31(self) -> int:
        self._state = (self._state * 0x5DEECE66D + 0xB) & _MASK
        return self._state >> 17

    def next_int(self, bound: int) -> int:
        """A number from 0 to below ``bound``, which is at least 1."""
        bits = self._next31()
        if bound & (bound - 1) == 0:
            return bound * bits >> 31
        # Java tells by int32 overflow that the number came from an incomplete last stretch.
        while bits - bits % bound + bound - 1 >= 1 << 31:
            bits = self._next31()
        return bits % bound

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """``Collections.shuffle(items, this)``.

        >>> items = [0, 1, 2, 3]
        >>> JavaRandom(7).shuffle(items); items
        [0, 1, 3, 2]
        """
        for size in range(len(items), 1, -1):
            other = self.next_int(size)
            items[size - 1], items[other] = items[other], items[size - 1]
