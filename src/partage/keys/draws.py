"""Random numbers as values: the next one, and what is left. No partitioner draws by itself.

Clients choose a partition for keys that are null by chance. Here chance comes from outside: from
a seed (the generator of ``java.util.Random``, which every JVM computes alike), or as a list of
numbers, as the vectors of the tests have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from partage.errors import InvalidConfigError
from partage.java.random import JavaRandom

__all__ = ["Draws", "Numbers", "below", "draws_of", "fraction", "positive"]


class Draws(Protocol):
    """A source of signed 32-bit integers."""

    def next_int(self) -> tuple[int, Draws]:
        """The next number, -2**31 <= x < 2**31, and the source after it."""
        ...


@dataclass(frozen=True, slots=True)
class Numbers:
    """Given numbers, one after the other.

    >>> Numbers((7, -1)).next_int()[0]
    7
    """

    numbers: tuple[int, ...]
    used: int = 0

    def next_int(self) -> tuple[int, Numbers]:
        """The next one.

        Raises:
            InvalidConfigError: all are used.
        """
        if self.used >= len(self.numbers):
            raise InvalidConfigError("seed", "has too few random numbers", len(self.numbers))
        number = self.numbers[self.used]
        return number, Numbers(self.numbers, self.used + 1)


def draws_of(seed: int | Sequence[int]) -> Draws:
    """A source: of a seed, or of given numbers.

    Raises:
        InvalidConfigError: neither an int nor numbers of 32 bits.
    """
    if isinstance(seed, int) and not isinstance(seed, bool):
        return JavaRandom.of(seed)
    if isinstance(seed, list | tuple):
        for number in seed:
            if not isinstance(number, int) or not -(1 << 31) <= number < 1 << 31:
                raise InvalidConfigError("seed", "must have numbers of 32 bits", number)
        return Numbers(tuple(seed))
    raise InvalidConfigError("seed", "must be an int, or a list of random numbers", seed)


def positive(number: int) -> int:
    """Kafka's ``Utils.toPositive``: without the sign bit.

    >>> positive(-1), positive(5)
    (2147483647, 5)
    """
    return number & 0x7FFFFFFF


def below(draws: Draws, bound: int) -> tuple[int, Draws]:
    """0 <= x < bound, as Go's ``Int31n`` makes it of numbers of 31 bits: without a bias.

    >>> below(Numbers((13,)), 10)[0]
    3
    """
    highest = (1 << 31) - 1 - (1 << 31) % bound
    while True:
        number, draws = draws.next_int()
        if positive(number) <= highest:
            return positive(number) % bound, draws


def fraction(draws: Draws) -> tuple[float, Draws]:
    """0 <= x < 1 of 53 bits: the lower 21 of one number, then the 32 of the next.

    >>> fraction(Numbers((1 << 20, 0)))[0]
    0.5
    """
    high, draws = draws.next_int()
    low, draws = draws.next_int()
    return ((high & 0x1FFFFF) << 32 | low & 0xFFFFFFFF) / (1 << 53), draws
