"""Records of a wrong clock, told by their neighbours in the log: their times are not believed.

Within a log partition offsets grow, and so do times, but for what clocks of brokers differ. Where
times leap by more than an hour, and back, one side of it is wrong: the one with fewer records. Long
waits between two records are none of that, since times do not go back behind them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["believable"]

#: Clocks that differ by less are taken as they are.
_LEAP_MS = 3_600_000
#: Leaps of some records beyond which nothing can be told: all are believed.
_MOST_LEAPS = 2_000

_Ints = NDArray[np.int64]


def believable(time_ms: _Ints) -> tuple[_Ints, int]:
    """Times of records in a log partition's order, and how many of them were of a wrong clock.

    A wrong time is taken to be that of the record before (of the first ones, behind).

    >>> times, wrong = believable(np.array([1_000, 2_000, 10**12, 3_000, 0, 9_000_000, 9_000_001]))
    >>> times.tolist(), wrong
    ([1000, 2000, 2000, 3000, 0, 9000000, 9000001], 1)
    """
    leaps = np.flatnonzero(np.abs(np.diff(time_ms)) > _LEAP_MS)
    if not len(leaps) or len(leaps) > _MOST_LEAPS:
        return time_ms, 0
    starts = np.append(0, leaps + 1)
    ends = np.append(leaps + 1, len(time_ms))
    kept = _longest(
        np.minimum.reduceat(time_ms, starts), np.maximum.reduceat(time_ms, starts), ends - starts
    )
    good = np.repeat(kept, ends - starts)
    if good.all():
        return time_ms, 0
    last = np.maximum.accumulate(np.where(good, np.arange(len(good)), -1))
    return time_ms[np.where(last >= 0, last, int(np.argmax(good)))], int((~good).sum())


def _longest(low: _Ints, high: _Ints, records: _Ints) -> NDArray[np.bool_]:
    """Which stretches of records to believe: the most records whose times do not go back.

    Of as many, those that go on to the end.
    """
    count = len(low)
    best, before = records.copy(), np.full(count, -1)
    for i in range(1, count):
        fits = np.flatnonzero(high[:i] <= low[i] + _LEAP_MS)
        if len(fits):
            j = fits[len(fits) - 1 - np.argmax(best[fits][::-1])]
            best[i], before[i] = best[j] + records[i], j
    kept = np.zeros(count, bool)
    at = count - 1 - int(np.argmax(best[::-1]))
    while at >= 0:
        kept[at] = True
        at = int(before[at])
    return kept
