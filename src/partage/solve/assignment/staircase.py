"""Bounds on sorted loads in a flow network: the staircase of Gale and Ryser (1957).

A vector of loads is majorised by given loads L exactly if a 0/1 matrix (members x levels) exists
with the members' loads as row sums, whose column j has at most as many ones as L has loads >= j. In
a network each member sends its load over levels that all members share. Level j has one arc to the
sink, whose capacity is the number of loads in L that reach j.

Levels that equally many loads reach are one step. For L = [5, 2, 2, 0]:

    level   1  2 | 3  4  5
    loads   3  3 | 1  1  1     step 0: width 2, reached by 3; step 1: width 3, reached by 1

A member sends at most ``width`` over a step, and all members at most ``width * reaching``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partage.solve.assignment.network import IntArray

__all__ = ["LoadLimitSteps", "fit_in_order"]


@dataclass(frozen=True, slots=True, eq=False)
class LoadLimitSteps:
    """Limits of uneven loads: how many members may have at least 1, 2, 3, ... partitions.

    For example, loads of 3, 3 and 1 partitions mean: three members may have at least 1 partition,
    two members at least 2 or 3. Equal limits are stored once, as a range.

    Attributes:
        reaching: int64[ranges], number of members that may reach each range.
        width: int64[ranges], number of partitions in each range.

    >>> steps = LoadLimitSteps.from_loads(np.array([5, 2, 2, 0]))
    >>> steps.reaching.tolist(), steps.width.tolist()
    ([3, 1], [2, 3])
    """

    reaching: IntArray
    width: IntArray

    @classmethod
    def from_loads(cls, loads: IntArray) -> LoadLimitSteps:
        """Create the limits that permit assignments at least as even as the given loads.

        ``loads`` are numbers of partitions, one per member, in any order.
        """
        values, counts = np.unique(loads[loads > 0], return_counts=True)
        reaching = np.cumsum(counts[::-1])[::-1].astype(np.int64)
        return cls(reaching, np.diff(np.concatenate([np.zeros(1, np.int64), values])))

    def __len__(self) -> int:
        return len(self.width)

    def divide_among_steps(self, load: IntArray) -> IntArray:
        """Divide the load of each member among the ranges of equal limits, lowest range first.

        A member with 3 partitions, for example, uses the limits of a first, second and third
        partition. The result is int64[n, ranges]. Load that exceeds the limits is cut, from the
        last members first.

        Args:
            load: int64[n], the number of partitions of each member.

        >>> steps = LoadLimitSteps.from_loads(np.array([2, 1]))
        >>> steps.divide_among_steps(np.array([2, 2])).tolist()
        [[1, 1], [1, 0]]
        """
        left = load
        climbs = np.zeros((len(load), len(self)), np.int64)
        for j, (reaching, width) in enumerate(
            zip(self.reaching.tolist(), self.width.tolist(), strict=True)
        ):
            wish = np.minimum(left, width)
            climbs[:, j] = np.clip(reaching * width - (np.cumsum(wish) - wish), 0, wish)
            left = left - climbs[:, j]
        return climbs


def fit_in_order(position: IntArray, amount: IntArray, capacity: IntArray) -> IntArray:
    """Reduce amounts that share a capacity, so that their sum does not exceed it.

    Earlier amounts take precedence. For example, two amounts of 2 share a capacity of 3, so the
    second is reduced to 1.

    Args:
        position: index (into ``capacity``) of the capacity that each amount uses.
        amount: the amounts to reduce.
        capacity: the capacity of each index.

    >>> fit_in_order(np.array([0, 1, 0]), np.array([2, 2, 2]), np.array([3, 1])).tolist()
    [2, 1, 1]
    """
    order = np.argsort(position, kind="stable")
    of, ordered = position[order], amount[order]
    upto = np.cumsum(ordered) - ordered
    earlier = upto - upto[np.searchsorted(of, of)] if len(of) else upto
    fits = np.zeros(len(amount), np.int64)
    fits[order] = np.clip(capacity[of] - earlier, 0, ordered)
    return fits
