"""Random numbers of simulated deployments: a generator whose numbers are equal on any machine."""

from __future__ import annotations

from math import cos, exp, log, pi, sqrt

from partage.java.random import JavaRandom, next_state

__all__ = ["RandomDraws"]


class RandomDraws:
    """Random number generator with a seed, for simulations.

    Equal seeds give equal numbers on any machine.

    >>> draws = RandomDraws(7)
    >>> round(draws.uniform(0, 10), 3), 1 < draws.lognormal(2.0, 0.1) < 3
    (7.307, True)
    """

    def __init__(self, seed: int) -> None:
        self._state = JavaRandom.from_seed(seed).state

    def skip(self) -> None:
        """Skip one random number, as if `uniform` had been called once.

        Simulations with and without a draw then have the same later numbers.
        """
        self._state = next_state(self._state)

    def uniform(self, low: float, high: float) -> float:
        """Draw a random number that is uniformly distributed from ``low`` to ``high``."""
        self._state = state = next_state(self._state)
        return low + (high - low) * ((state >> 16) / 2**32)

    def normal(self) -> float:
        """Draw a random number of the standard normal distribution.

        It is computed from two uniform numbers (method of Box and Muller).
        """
        radius = sqrt(-2 * log(1 - self.uniform(0, 1)))
        return radius * cos(2 * pi * self.uniform(0, 1))

    def lognormal(self, median: float, sigma: float) -> float:
        """Draw a random number of the log-normal distribution with a given median.

        ``sigma`` is the standard deviation of the number's logarithm.
        """
        return median * exp(sigma * self.normal())
