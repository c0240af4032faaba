"""The rack rule and each broker's share, for solver and judge alike.

The rack rule: replicas of a partition are spread as evenly over the racks as the racks' sizes
allow. With fewer replicas than racks no rack has two; with more, every rack has one before one
has two.

A broker's share is its part of the most even placement that follows the rack rule, if every
partition were free to move. In a small rack that must hold a replica of each partition, shares
are larger than elsewhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["even_shares", "rack_limits"]

#: Limit of the fixed-point iteration; it converges in a few rounds.
_ROUNDS = 200


def rack_limits(
    factor: int, sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the least and the largest number of ``factor`` replicas on each rack.

    Args:
        factor: replicas, at most the number of brokers.
        sizes: int64[racks], brokers of each rack.

    >>> low, high = rack_limits(4, np.array([3, 3, 1]))
    >>> low.tolist(), high.tolist()
    ([1, 1, 1], [2, 2, 1])
    """
    level = 0
    while np.minimum(sizes, level).sum() < factor:
        level += 1
    return np.minimum(sizes, max(level - 1, 0)), np.minimum(sizes, level)


def even_shares(
    factors: NDArray[np.int64], weights: NDArray[np.float64], sizes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return float64[racks]: the share of one broker of each rack.

    Args:
        factors: int64[n], distinct replication factors.
        weights: float64[n], partitions (or bytes, or load) of each factor.
        sizes: int64[racks], brokers of each rack.

    >>> even_shares(np.array([2]), np.array([100.0]), np.array([1, 3, 3])).round(2).tolist()
    [28.57, 28.57, 28.57]
    >>> even_shares(np.array([3]), np.array([100.0]), np.array([1, 3, 3])).round(2).tolist()
    [100.0, 33.33, 33.33]
    """
    held = np.zeros((len(factors), len(sizes)))
    limits = [rack_limits(int(f), sizes) for f in factors]
    # Each factor in turn takes the most even shares beside the others, until nothing changes.
    for _ in range(_ROUNDS if len(factors) > 1 else 1):
        before = held.copy()
        for i, (factor, weight) in enumerate(zip(factors, weights, strict=True)):
            others = held.sum(axis=0) - held[i]
            low, high = limits[i]
            held[i] = _level(others, low * weight, high * weight, sizes, float(factor * weight))
        if np.allclose(before, held, rtol=1e-12, atol=1e-9):
            break
    shares: NDArray[np.float64] = held.sum(axis=0) / np.maximum(sizes, 1)
    return shares


def _level(
    others: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    sizes: NDArray[np.int64],
    total: float,
) -> NDArray[np.float64]:
    """Return each rack's part of ``total`` that equalises brokers within the limits (bisection)."""
    bottom, top = 0.0, float((others + high).max(initial=0.0)) + total + 1.0
    for _ in range(100):
        middle = (bottom + top) / 2
        if np.clip(middle * sizes - others, low, high).sum() < total:
            bottom = middle
        else:
            top = middle
    return np.clip(top * sizes - others, low, high)
