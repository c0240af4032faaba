"""Random numbers of ``java.util.Random``, computed as an array before they are used.

A kernel that needs random numbers takes an array of raw draws. It returns how many it used, or
that there were too few.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["JavaDraws", "LookaheadDraws", "next_int"]

_MASK = (1 << 48) - 1
_MULTIPLIER = 0x5DEECE66D


class LookaheadDraws(Protocol):
    """Interface of a random number generator whose next numbers can be read in advance.

    Vectorised code reads many numbers at once, uses some of them, and then consumes only these.
    """

    def peek_numbers(self, count: int) -> NDArray[np.int64]:
        """Return the next ``count`` or more random numbers, without consuming them (int64).

        The numbers are those of Java's ``Random.next(31)``.
        """

    def skip_numbers(self, count: int) -> None:
        """Consume the next ``count`` random numbers, so that later calls do not return them.

        The caller has read these numbers with `peek_numbers` before.
        """


def _next_random_states(state: int, count: int) -> NDArray[np.uint64]:
    """Return the next ``count`` internal states of Java's random number generator (uint64[count]).

    ``state`` is the current state, an integer of 48 bits. All states are computed as one array,
    which is faster than one step at a time.
    """
    # Each pass doubles the number of computed states. Overflow of 64 bits is harmless, because only
    # the low 48 bits of a state are kept.
    out = np.empty(max(count, 1), np.uint64)
    out[0] = (state * _MULTIPLIER + 0xB) & _MASK
    have, factor, more = 1, _MULTIPLIER, 0xB  # x -> factor x + more advances by ``have`` draws
    while have < count:
        wanted = min(have, count - have)
        ahead = out[:wanted] * np.uint64(factor) + np.uint64(more)
        out[have : have + wanted] = ahead & np.uint64(_MASK)
        factor, more = factor * factor & _MASK, (factor + 1) * more & _MASK
        have += wanted
    return out[:count]


class JavaDraws:
    """Generator ``java.util.Random``, whose next numbers can be read in advance.

    Vectorised code reads many numbers at once, and then consumes those that it has used.

    >>> draws = JavaDraws(0)
    >>> next_int(draws, 100), next_int(draws, 100)
    (60, 48)
    """

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _MASK

    def peek_numbers(self, count: int) -> NDArray[np.int64]:
        """Return the next ``count`` random numbers, without consuming them (int64).

        The numbers are those of Java's ``Random.next(31)``.
        """
        drawn: NDArray[np.int64] = (
            _next_random_states(self._state, count) >> np.uint64(17)
        ).astype(np.int64)
        return drawn

    def skip_numbers(self, count: int) -> None:
        """Consume the next ``count`` numbers of Java's random generator without computing them.

        This takes O(log count) steps.
        """
        # x -> a x + c, so many times over, by repeated squaring.
        a, c, power, more = 1, 0, _MULTIPLIER, 0xB
        while count:
            if count & 1:
                a, c = a * power & _MASK, (c * power + more) & _MASK
            power, more = power * power & _MASK, (power + 1) * more & _MASK
            count >>= 1
        self._state = (a * self._state + c) & _MASK


def next_int(draws: LookaheadDraws, bound: int) -> int:
    """Return a random number from 0 to ``bound`` - 1, the same as Java's ``Random.nextInt(bound)``.

    ``draws`` is the generator, whose numbers are consumed. The bound is at least 1. Numbers that
    Java rejects are consumed as well.
    """
    while True:
        bits = int(draws.peek_numbers(1)[0])
        draws.skip_numbers(1)
        if bound & (bound - 1) == 0:
            return bound * bits >> 31
        # Java detects by int32 overflow a number from the incomplete last interval.
        if bits - bits % bound + bound - 1 < 1 << 31:
            return bits % bound
