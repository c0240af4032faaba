"""How long a partition was without commits around a rebalance, and what was read twice."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Pause"]


class Pause(NamedTuple):
    """One partition around one rebalance; a row of table ``pauses``.

    Attributes:
        incarnation, generation: of the rebalance.
        last_ms: time of the last commit before the rebalance's record; None if there was none.
        first_ms: time of the first one after it; None if there was none.
        rewind: records read twice at least: how far the first committed offset lies behind
            the highest one before; None if either is missing.
        resolution_ms: the usual time between two commits here: what the estimate can tell.

    >>> Pause(0, 4, "orders", 1, 1_000, 4_000, 0, 500).pause_ms
    3000
    """

    incarnation: int
    generation: int
    topic: str
    partition: int
    last_ms: int | None
    first_ms: int | None
    rewind: int | None
    resolution_ms: int | None

    @property
    def pause_ms(self) -> int | None:
        """From the last commit before to the first one after; None if either is missing."""
        if self.last_ms is None or self.first_ms is None:
            return None
        return max(0, self.first_ms - self.last_ms)
