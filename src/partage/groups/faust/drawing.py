"""A seeded draw that is the same on every machine and under every version of Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Draw"]

_MASK = 2**64 - 1
_One = TypeVar("_One")


class Draw:
    """SplitMix64 (Steele, Lea and Flood, 2014): numbers of 64 bits from a seed.

    >>> draw = Draw(7)
    >>> sorted(draw.shuffled([1, 2, 3])), draw.number() == Draw(7).number()
    ([1, 2, 3], False)
    """

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def number(self) -> int:
        """The next one."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def shuffled(self, items: Sequence[_One]) -> list[_One]:
        """The items in a drawn order."""
        keys = [self.number() for _ in items]
        return [items[i] for i in sorted(range(len(items)), key=keys.__getitem__)]
