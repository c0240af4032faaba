"""Records read twice: whoever takes a partition over begins at the last commit, not at the last
record read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from partage.simulation.lived import NOTHING, Bounds
from partage.simulation.loads import Rates

__all__ = ["reread", "reread_recorded"]

_Partition = tuple[str, int]


def reread(
    stopping: Iterable[_Partition],
    rewinds: Mapping[_Partition, int],
    stopped_in_record: frozenset[_Partition],
    rates: Rates,
    intervals: Mapping[_Partition, int],
) -> Bounds | None:
    """Of a policy's rebalance: what the partitions that stop in it may have read again.

    A partition that stopped in the record too read again what it did there. Any other one may
    have read again between nothing (its owner committed when it let go) and what comes in
    within a usual commit interval.

    Returns:
        None if of no stopping partition anything is known.

    >>> reread([("t", 0), ("t", 1)], {("t", 0): 7}, frozenset({("t", 0)}), {("t", 1): 2.0},
    ...        {("t", 1): 5_000})
    Bounds(low=7, high=17)
    """
    total, known, asked = NOTHING, 0, 0
    for one in stopping:
        asked += 1
        rewind = rewinds.get(one) if one in stopped_in_record else None
        if rewind is not None:
            total, known = total + Bounds(rewind, rewind), known + 1
        elif one in rates and one in intervals:
            most = -int(-rates[one] * intervals[one] // 1_000)
            total, known = total + Bounds(0, most), known + 1
    return total if known or not asked else None


def reread_recorded(rewinds: Mapping[_Partition, int]) -> Bounds | None:
    """As recorded: the sum of what went back; None if no partition tells.

    >>> reread_recorded({("t", 0): 7, ("t", 1): 0})
    Bounds(low=7, high=7)
    """
    if not rewinds:
        return None
    total = sum(rewinds.values())
    return Bounds(total, total)
