"""Bounds on sorted loads inside a flow: the staircase of Gale and Ryser (1957).

A vector of loads is majorised by given loads L exactly if a 0/1 matrix (members x levels) exists
with the members' loads as row sums, whose column j has at most as many ones as L has loads >= j.
In a network each member sends its load over levels that all members share. Level j has one arc to
the sink, whose capacity is the number of loads in L that reach j.

Levels that equally many loads reach are one step. For L = [5, 2, 2, 0]:

    level   1  2 | 3  4  5
    loads   3  3 | 1  1  1     step 0: width 2, reached by 3; step 1: width 3, reached by 1

A member sends at most ``width`` over a step, and all members at most ``width * reaching``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partage.solve.assignment.network import IntArray

__all__ = ["Steps"]


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The staircase of some loads.

    Attributes:
        reaching: int64[S], how many loads reach each step.
        width: int64[S], how many levels it has.

    >>> steps = Steps.of(np.array([5, 2, 2, 0]))
    >>> steps.reaching.tolist(), steps.width.tolist()
    ([3, 1], [2, 3])
    """

    reaching: IntArray
    width: IntArray

    @classmethod
    def of(cls, loads: IntArray) -> Steps:
        """Build the staircase of loads in any order."""
        values, counts = np.unique(loads[loads > 0], return_counts=True)
        reaching = np.cumsum(counts[::-1])[::-1].astype(np.int64)
        return cls(reaching, np.diff(np.concatenate([np.zeros(1, np.int64), values])))

    def __len__(self) -> int:
        return len(self.width)
