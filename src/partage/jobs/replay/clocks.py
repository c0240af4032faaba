"""Timestamps of wrong clocks, found by their neighbours in the log: these are not believed.

Within a log partition offsets grow, and so do times, up to differences between brokers' clocks.
Where times leap by more than an hour and back, one side of the leap is wrong: the one with fewer
records. A long pause between two records is no leap back.

Workers find the `Strand` of records between two leaps. The driver joins strands over all slices of
a log partition and decides, so that the result does not depend on the files. Where histories are
rebuilt, the times of wrong strands are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Clocks", "Strand", "find_strands", "find_wrong_clocks"]

#: Clocks that differ by less are taken as they are.
_LEAP_MS = 3_600_000
#: Leaps in a log partition beyond which all times are believed: no side of them is the rule.
_MOST_LEAPS = 2_000

_Ints = NDArray[np.int64]


class Strand(NamedTuple):
    """Consecutive records of a log partition without a leap of their times.

    Attributes:
        offset: of the first one.
        first_ms, last_ms: times of the first and the last one.
        low_ms, high_ms: the lowest and the highest time.
        records: how many they are.
    """

    offset: int
    first_ms: int
    last_ms: int
    low_ms: int
    high_ms: int
    records: int


def find_strands(offset: _Ints, time_ms: _Ints) -> list[Strand]:
    """Return the strands of some records of one log partition, in its order.

    >>> [one.records for one in find_strands(np.arange(4), np.array([1_000, 2_000, 10**12, 3_000]))]
    [2, 1, 1]
    """
    if not len(time_ms):
        return []
    earlier, later = time_ms[:-1], time_ms[1:]
    # A damaged time may be any 64 bits: differences of halves do not overflow.
    leaps = np.flatnonzero(np.abs((later >> 1) - (earlier >> 1)) > _LEAP_MS >> 1)
    if len(leaps) > _MOST_LEAPS:
        leaps = leaps[:0]
    starts, ends = np.append(0, leaps + 1), np.append(leaps + 1, len(time_ms))
    columns = (
        offset[starts], time_ms[starts], time_ms[ends - 1], np.minimum.reduceat(time_ms, starts),
        np.maximum.reduceat(time_ms, starts), ends - starts,
    )  # fmt: skip
    return [Strand(*one) for one in zip(*(column.tolist() for column in columns), strict=True)]


@dataclass(frozen=True)
class Clocks:
    """The positions in the log whose time is not believed; small, and sent to every worker.

    Attributes:
        wrong: log partition -> (first offset, the offset behind the last one, the time that is
            taken instead) of each wrong strand, in order.
        misdated: records of wrong strands.
        span: the lowest and the highest time that is believed; None without records.
    """

    wrong: Mapping[int, tuple[tuple[int, int, int], ...]] = field(default_factory=dict)
    misdated: int = 0
    span: tuple[int, int] | None = None

    def correct(self, partition: _Ints, offset: _Ints, *times: _Ints) -> NDArray[np.bool_]:
        """Replace wrong times in place; return which positions were changed.

        >>> times = np.array([5, 10**12, 6])
        >>> Clocks({0: ((8, 9, 5),)}).correct(np.zeros(3, int), np.arange(7, 10), times).tolist()
        [False, True, False]
        >>> times.tolist()
        [5, 5, 6]
        """
        changed = np.zeros(len(offset), bool)
        for log_partition, ranges in self.wrong.items():
            mine = np.flatnonzero(partition == log_partition)
            if not len(mine):
                continue
            first, behind, instead = np.array(ranges, np.int64).T
            which = np.searchsorted(first, offset[mine], side="right") - 1
            inside = (which >= 0) & (offset[mine] < behind[which])
            rows = mine[inside]
            for one in times:
                one[rows] = instead[which[inside]]
            changed[rows] = True
        return changed


def find_wrong_clocks(found: Mapping[int, Iterable[Strand]]) -> Clocks:
    """Join the strands that all workers found, in any order, and decide which times are believed.

    A wrong time is replaced by that of the record before (for the first ones, after).

    >>> found = find_strands(np.arange(4), np.array([1_000, 2_000, 10**12, 3_000]))
    >>> find_wrong_clocks({7: found}).wrong
    {7: ((2, 3, 2000),)}
    """
    wrong: dict[int, tuple[tuple[int, int, int], ...]] = {}
    misdated, low, high = 0, [], []
    for partition, some in found.items():
        joined = _join(sorted(some))
        kept = _believed(joined) if len(joined) <= _MOST_LEAPS else [True] * len(joined)
        low += [one.low_ms for one, good in zip(joined, kept, strict=True) if good]
        high += [one.high_ms for one, good in zip(joined, kept, strict=True) if good]
        misdated += sum(one.records for one, good in zip(joined, kept, strict=True) if not good)
        if not all(kept):
            wrong[partition] = tuple(_ranges(joined, kept))
    return Clocks(wrong, misdated, (min(low), max(high)) if low else None)


def _join(ordered: list[Strand]) -> list[Strand]:
    """Return strands with those joined that a file's end cut, and no leap."""
    out: list[Strand] = []
    for one in ordered:
        if out and abs(one.first_ms - out[-1].last_ms) <= _LEAP_MS:
            a = out[-1]
            out[-1] = Strand(
                a.offset, a.first_ms, one.last_ms, min(a.low_ms, one.low_ms),
                max(a.high_ms, one.high_ms), a.records + one.records,
            )  # fmt: skip
        else:
            out.append(one)
    return out


def _believed(some: list[Strand]) -> list[bool]:
    """Return the longest subsequence, by records, with non-decreasing times: the believed strands.

    On ties, the one that ends last.

    Of as many, those that go on to the end.
    """
    low, high, records = (
        np.array([getattr(one, name) for one in some], np.int64)
        for name in ("low_ms", "high_ms", "records")
    )
    count = len(some)
    best, before = records.copy(), np.full(count, -1)
    for i in range(1, count):
        fits = np.flatnonzero(high[:i] <= min(int(low[i]), _LATEST) + _LEAP_MS)
        if len(fits):
            j = fits[len(fits) - 1 - np.argmax(best[fits][::-1])]
            best[i], before[i] = best[j] + records[i], j
    kept = [False] * count
    at = count - 1 - int(np.argmax(best[::-1])) if count else -1
    while at >= 0:
        kept[at] = True
        at = int(before[at])
    return kept


#: Of damaged times: a leap more is still an int64.
_LATEST = (1 << 63) - 1 - _LEAP_MS


def _ranges(some: list[Strand], kept: list[bool]) -> Iterable[tuple[int, int, int]]:
    """Yield first and last position of each wrong strand, and the time that replaces its times."""
    instead = next(one.first_ms for one, good in zip(some, kept, strict=True) if good)
    for i, (one, good) in enumerate(zip(some, kept, strict=True)):
        if good:
            instead = one.last_ms
        else:
            behind = some[i + 1].offset if i + 1 < len(some) else (1 << 63) - 1
            yield one.offset, behind, instead
