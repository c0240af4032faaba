"""A good first flow: every topic spread over its members in proportion to their room.

Only a start for the exact search, but a close one: what it leaves for augmenting paths is
little. All integers, so that it is the same on every machine.
"""

from __future__ import annotations

import numpy as np

from partage.solve.assignment.flow import IntArray

__all__ = ["spread", "summed"]

_ROUNDS = 2
# Rows start at different places of their rounding, or all would round up the same columns:
# multiples of the golden ratio, in 1024ths.
_GOLDEN = 633


def summed(at: IntArray, amount: IntArray, size: int) -> IntArray:
    """int64[size]: sums of amounts by position; exact, being far below 2**53."""
    return np.bincount(at, amount, minlength=size).astype(np.int64)


def spread(row: IntArray, column: IntArray, supply: IntArray, room: IntArray) -> IntArray:
    """int64[A]: an amount for each arc (row, column) within supplies and rooms.

    Args:
        row: int64[A], ascending.
        column: int64[A].
        supply: int64[rows], at most 2**30 each.
        room: int64[columns], at most 2**31 in all.

    >>> arcs = np.array([0, 0, 1]), np.array([0, 1, 1])
    >>> amount = spread(*arcs, np.array([3, 1]), np.array([2, 2]))
    >>> bool(amount[:2].sum() <= 3), bool(amount[1:].sum() <= 2)
    (True, True)
    """
    amount = np.zeros(len(row), np.int64)
    by_column = np.argsort(column, kind="stable")
    supply, room = supply.copy(), room.copy()
    for _ in range(_ROUNDS):
        step = _clipped(_shares(row, column, supply, room), column, by_column, room)
        if not step.any():
            break
        amount += step
        supply -= summed(row, step, len(supply))
        room -= summed(column, step, len(room))
    return amount


def _shares(row: IntArray, column: IntArray, supply: IntArray, room: IntArray) -> IntArray:
    """Each row's supply in whole numbers, in proportion to the columns' room."""
    if len(row) == 0:
        return np.zeros(0, np.int64)
    weight = np.minimum(room[column], supply[row])
    upto = np.cumsum(weight)
    first = np.searchsorted(row, np.arange(len(supply) + 1))
    before = np.concatenate([np.zeros(1, np.int64), upto])[first]
    upto = upto - before[row]
    total = np.diff(before)
    give = np.minimum(supply, total)
    offset = total * (np.arange(len(supply)) * _GOLDEN % 1024) // 1024
    whole = (give[row] * upto + offset[row]) // np.maximum(total[row], 1)
    lower = np.concatenate([np.zeros(1, np.int64), whole[:-1]])
    lower[first[:-1][first[:-1] < len(row)]] = 0
    share: IntArray = np.maximum(whole - lower, 0)
    return share


def _clipped(share: IntArray, column: IntArray, by_column: IntArray, room: IntArray) -> IntArray:
    """The shares, cut where a column has no more room; earlier rows come first."""
    of = column[by_column]
    sorted_share = share[by_column]
    upto = np.cumsum(sorted_share)
    first = np.searchsorted(of, np.arange(len(room)))
    before = np.concatenate([np.zeros(1, np.int64), upto])[first]
    taken = upto - sorted_share - before[of]
    fits = np.minimum(sorted_share, np.maximum(room[of] - taken, 0))
    out = np.empty_like(share)
    out[by_column] = fits
    return out
