"""How surprising a count is, as an upper bound that holds for any size."""

from __future__ import annotations

from math import inf, log

__all__ = ["log_chance"]


def log_chance(hits: int, tries: int, chance: float) -> float:
    """Natural logarithm of an upper bound of P(at least ``hits`` of ``tries``), each by ``chance``.

    Chernoff's bound by relative entropy: never below the truth, so an alarm raised on it is
    false no more often than it says.

    >>> log_chance(5, 10, 0.5)
    0.0
    >>> round(log_chance(10, 10, 0.5), 3)  # exactly (1/2) ** 10
    -6.931
    """
    if tries <= 0 or hits <= tries * chance:
        return 0.0
    share = hits / tries
    if chance <= 0:
        return -inf
    bits = share * log(share / chance)
    if share < 1:
        bits += (1 - share) * log((1 - share) / (1 - chance))
    return -tries * bits
