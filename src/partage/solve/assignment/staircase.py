"""The staircase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partage.solve.assignment.network import IntArray

__all__ = ["Steps"]


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The staircase of some loads: levels that equally many loads reach are one step.

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
        """From loads in any order."""
        values, counts = np.unique(loads[loads > 0], return_counts=True)
        reaching = np.cumsum(counts[::-1])[::-1].astype(np.int64)
        return cls(reaching, np.diff(np.concatenate([np.zeros(1, np.int64), values])))

    def __len__(self) -> int:
        return len(self.width)
