"""``java.util.Random`` as a value, and ``Collections.shuffle``."""

from __future__ import annotations

from collections.abc import MutableSequence
from dataclasses import dataclass
from typing import Any

__all__ = ["JavaRandom", "next_state", "shuffle"]

_MULTIPLIER = 0x5DEECE66D
_MASK_48 = (1 << 48) - 1


def next_state(state: int) -> int:
    """Return the state of Java's random number generator (``java.util.Random``) after one step.

    Both states are integers of 48 bits. The upper 32 bits of the new state are the number that
    ``nextInt()`` returns.
    """
    return (state * _MULTIPLIER + 0xB) & _MASK_48


@dataclass(frozen=True, slots=True)
class JavaRandom:
    """Immutable model of ``java.util.Random``, a 48-bit linear congruential generator.

    It draws the same numbers as Java for the same seed. Each method that draws a number also
    returns the generator in its next state.

    >>> first, after = JavaRandom.from_seed(42).next_int()
    >>> first, after.next_int()[0]
    (-1170105035, 234785527)
    """

    state: int

    @classmethod
    def from_seed(cls, seed: int) -> JavaRandom:
        """Create the random number generator that ``new Random(seed)`` creates in Java.

        ``seed`` is an integer; Java scrambles it to the generator's first state.
        """
        return cls((seed ^ _MULTIPLIER) & _MASK_48)

    def next_int(self) -> tuple[int, JavaRandom]:
        """Draw a signed int32 number, the same as ``Random.nextInt()`` in Java.

        The generator itself does not change.

        Returns:
            The number, and the generator to draw the next number from.
        """
        state = next_state(self.state)
        bits = state >> 16
        return bits - (1 << 32) if bits >> 31 else bits, JavaRandom(state)

    def next_below(self, bound: int) -> tuple[int, JavaRandom]:
        """Draw a number from 0 to ``bound - 1``, the same as ``Random.nextInt(bound)`` in Java.

        The generator itself does not change.

        Returns:
            The number, and the generator to draw the next number from.

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
    """Shuffle a list in place, exactly as Java's ``Collections.shuffle`` does.

    The result is the random number generator after the shuffle, for the next draw.

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
