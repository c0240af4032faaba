"""``java.util.Random`` as a value, and ``Collections.shuffle``."""

from __future__ import annotations

from collections.abc import MutableSequence
from dataclasses import dataclass
from typing import Any

__all__ = ["JavaRandom", "next_state", "shuffle"]

_MULTIPLIER = 0x5DEECE66D
_MASK_48 = (1 << 48) - 1


def next_state(state: int) -> int:
    """Return the state of ``java.util.Random`` after one step; both are integers of 48 bits.

    The upper 32 bits of the new state are the number that ``nextInt()`` returns.
    """
    return (state * _MULTIPLIER + 0xB) & _MASK_48


@dataclass(frozen=True, slots=True)
class JavaRandom:
    """Immutable model of ``java.util.Random``, a 48-bit linear congruential generator.

    Each method that draws a number also returns the generator in its next state.

    >>> first, after = JavaRandom.from_seed(42).next_int()
    >>> first, after.next_int()[0]
    (-1170105035, 234785527)
    """

    state: int

    @classmethod
    def from_seed(cls, seed: int) -> JavaRandom:
        """Return the generator that Java's ``new Random(seed)`` creates."""
        return cls((seed ^ _MULTIPLIER) & _MASK_48)

    def next_int(self) -> tuple[int, JavaRandom]:
        """Draw a number like Java's ``Random.nextInt()``; also return the generator's next state.

        The number is a signed int32.
        """
        state = next_state(self.state)
        bits = state >> 16
        return bits - (1 << 32) if bits >> 31 else bits, JavaRandom(state)

    def next_below(self, bound: int) -> tuple[int, JavaRandom]:
        """Draw a number like Java's ``Random.nextInt(bound)``; also return the next generator.

        The number is from 0 to bound - 1.

        >>> JavaRandom.from_seed(0).next_below(100)[0], JavaRandom.from_seed(42).next_below(10)[0]
        (60, 0)
        """
        random = self
        while True:
            number, random = random.next_int()
            bits = (number & 0xFFFFFFFF) >> 1
            if bound & (bound - 1) == 0:
                return bound * bits >> 31, random
            # Java rejects numbers of the incomplete last interval, by an int32 overflow.
            if bits - bits % bound + bound - 1 < 1 << 31:
                return bits % bound, random


def shuffle(items: MutableSequence[Any], random: JavaRandom) -> JavaRandom:
    """Shuffle a list in place like Java's ``Collections.shuffle``; return the next generator.

    Args:
        items: the list to shuffle.
        random: the generator, which is not changed.

    >>> items = [0, 1, 2, 3]
    >>> after = shuffle(items, JavaRandom.from_seed(7)); items
    [0, 1, 3, 2]
    """
    for size in range(len(items), 1, -1):
        other, random = random.next_below(size)
        items[size - 1], items[other] = items[other], items[size - 1]
    return random
