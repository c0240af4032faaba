"""A seeded pseudo-random generator with the same output on every machine and Python version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Draw"]

_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15
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
        """Return the next number."""
        return int(self.numbers(1)[0])

    def numbers(self, count: int) -> NDArray[np.uint64]:
        """Return the next numbers at once: the state only counts up, so they are independent.

        >>> Draw(7).numbers(2).tolist() == [(draw := Draw(7)).number(), draw.number()]
        True
        """
        steps = np.arange(1, count + 1, dtype=np.uint64)
        z = steps * np.uint64(_GAMMA) + np.uint64(self._state)
        self._state = (self._state + count * _GAMMA) & _MASK
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
        return out

    def shuffled(self, items: Sequence[_One]) -> list[_One]:
        """Return the items in a drawn order."""
        return [items[i] for i in np.argsort(self.numbers(len(items)), kind="stable").tolist()]
