"""Counts of decoded records, and the detection of brokers with wrong clocks.

Workers send a `RecordTally` of each slice (row range of a file) to the driver, as a row of the
decode job's result. A Spark accumulator would count a repeated task twice; its result rows count
once.

Within a log partition both offsets and times grow, up to differences between brokers' clocks. If
times leap by more than an hour and back, one side of the leap is wrong: the one with fewer records.
A long pause is no leap back.

Workers find each `Strand`, the records between two leaps. The driver joins the strands of all
slices of a log partition and decides, so that the result does not depend on the files. When
histories are rebuilt, the times of wrong strands are replaced.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.history.transactions import TransactionOutcome
from partage.wire.columns.commits import TOMBSTONE
from partage.wire.group_log import RECORD_TYPES

__all__ = [
    "MOST_PARTITIONS",
    "ClockCorrections",
    "RecordTally",
    "Strand",
    "find_strands",
    "find_wrong_clocks",
]

#: Clocks that differ by less are taken as they are.
_LEAP_MS = 3_600_000
#: Leaps in a log partition beyond which all times are believed: no side of them is the rule.
_MOST_LEAPS = 2_000

_Ints = NDArray[np.int64]


class Strand(NamedTuple):
    """Consecutive records of a log partition between two jumps of their timestamps.

    A jump is more than an hour. A strand between two jumps may have times of a wrong broker clock.

    Attributes:
        offset: offset of the first record.
        first_ms, last_ms: times of the first and the last record.
        low_ms, high_ms: the lowest and the highest time.
        records: number of records.
    """

    offset: int
    first_ms: int
    last_ms: int
    low_ms: int
    high_ms: int
    records: int


def find_strands(offset: _Ints, time_ms: _Ints) -> list[Strand]:
    """Split the records of one log partition where timestamps jump by more than an hour.

    A strand is the records between two jumps. If there are very many jumps, all records are one
    strand.

    Args:
        offset: offset of each record, ascending (int64[n]).
        time_ms: timestamp of each record (int64[n]).

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
class ClockCorrections:
    """Offset ranges of the log with timestamps of a wrong broker clock, and times to replace them.

    Attributes:
        wrong: dict from log partition to (first offset, offset after the last record, replacement
            time in ms) of each range, in order.
        misdated: number of records in these ranges.
        span: the lowest and the highest correct time; None without records.
    """

    wrong: Mapping[int, tuple[tuple[int, int, int], ...]] = field(default_factory=dict)
    misdated: int = 0
    span: tuple[int, int] | None = None

    def correct_timestamps(
        self, partition: _Ints, offset: _Ints, *times: _Ints
    ) -> NDArray[np.bool_]:
        """Replace timestamps of wrong broker clocks in place, and return which records were
        changed.

        Args:
            partition: log partition of each record (int64[n]).
            offset: offset of each record (int64[n]).
            times: arrays with a time of each record in ms (int64[n] each).

        >>> times = np.array([5, 10**12, 6])
        >>> clocks = ClockCorrections({0: ((8, 9, 5),)})
        >>> clocks.correct_timestamps(np.zeros(3, int), np.arange(7, 10), times).tolist()
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


def find_wrong_clocks(strands: Mapping[int, Iterable[Strand]]) -> ClockCorrections:
    """Find the log records whose timestamps are from a broker with a wrong clock.

    Such a timestamp is replaced by that of the last correct record before it, or else by that of
    the first correct record. ``strands`` is a dict from log partition to the records between jumps
    of the timestamps.

    >>> found = find_strands(np.arange(4), np.array([1_000, 2_000, 10**12, 3_000]))
    >>> find_wrong_clocks({7: found}).wrong
    {7: ((2, 3, 2000),)}
    """
    wrong: dict[int, tuple[tuple[int, int, int], ...]] = {}
    misdated, low, high = 0, [], []
    for partition, some in strands.items():
        joined = _merge_strands(sorted(some))
        kept = _correct_strands(joined) if len(joined) <= _MOST_LEAPS else [True] * len(joined)
        low += [one.low_ms for one, good in zip(joined, kept, strict=True) if good]
        high += [one.high_ms for one, good in zip(joined, kept, strict=True) if good]
        misdated += sum(one.records for one, good in zip(joined, kept, strict=True) if not good)
        if not all(kept):
            wrong[partition] = tuple(_find_wrong_ranges(joined, kept))
    return ClockCorrections(wrong, misdated, (min(low), max(high)) if low else None)


def _merge_strands(ordered: list[Strand]) -> list[Strand]:
    """Merge neighbouring strands of records if timestamps do not jump between them.

    A strand is consecutive records without a jump of timestamps. The last strand of one file and
    the first of the next may belong together. ``ordered`` are the strands in log order.
    """
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


def _correct_strands(strands: list[Strand]) -> list[bool]:
    """Return for each strand of records whether its timestamps are from a correct clock.

    A strand is consecutive records without a jump of timestamps. A correct clock never goes back,
    so of all series of strands with non-decreasing times, the one with the most records is correct.
    """
    # The correct strands are the subsequence with non-decreasing times that has the most records.
    # On ties it is the subsequence that ends last.
    low, high, records = (
        np.array([getattr(one, name) for one in strands], np.int64)
        for name in ("low_ms", "high_ms", "records")
    )
    count = len(strands)
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


def _find_wrong_ranges(
    strands: list[Strand], is_correct: list[bool]
) -> Iterable[tuple[int, int, int]]:
    """Yield the offset ranges with wrong timestamps, each with the time (ms) that replaces them.

    A range is (first offset, offset after the last record, time).

    Args:
        strands: consecutive records between jumps of the timestamps, in log order.
        is_correct: whether the timestamps of each strand are correct.
    """
    instead = next(one.first_ms for one, good in zip(strands, is_correct, strict=True) if good)
    for i, (one, good) in enumerate(zip(strands, is_correct, strict=True)):
        if good:
            instead = one.last_ms
        else:
            behind = strands[i + 1].offset if i + 1 < len(strands) else (1 << 63) - 1
            yield one.offset, behind, instead


_DAY_MS = 86_400_000
#: Days without any record after which what comes is of another time.
_APART_DAYS = 366
#: Days that are counted; no log is kept for so many.
_MOST_DAYS = 10_000
#: Names of unselected groups; more are not needed to find a similar one in most clusters.
_MOST_UNSELECTED = 2_000
#: More partitions of one topic than Kafka has ever had.
MOST_PARTITIONS = 1_000_000


class RecordTally:
    """Counts of decoded and damaged records of the log, by record type, with offsets and times.

    Each task counts the records that it reads, and the driver adds up the counts.

    >>> a = RecordTally()
    >>> a.types["GROUP_METADATA v3"] += 2
    >>> RecordTally.of_json(a.to_json()).decoded_records
    2
    """

    def __init__(self) -> None:
        self.rows = 0
        self.bad = 0
        #: "TYPE vN" or "TYPE tombstone" -> records.
        self.types: Counter[str] = Counter()
        #: Outcome name -> commit records.
        self.commits: Counter[str] = Counter()
        #: log partition -> [first offset, last offset, records] of each batch.
        self.ranges: dict[int, list[list[int]]] = {}
        #: Topic id -> name, as offset commits have them (value version 4, KIP-848).
        self.topic_ids: dict[str, str] = {}
        #: Topic -> the highest partition that anybody committed for.
        self.highest: dict[str, int] = {}
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        #: log partition -> records between two leaps of their times, in any order.
        self.strands: dict[int, list[Strand]] = {}
        #: log partition -> [places with more than one record, first such offset, 1 if its records
        #: differ else 0]; only known of sorted records.
        self.repeated: dict[int, list[int]] = {}
        #: Day since 1970 -> records of that day, and the first and the last time of them.
        self.days: dict[int, list[int]] = {}
        #: Groups that the user has not selected, at most `_MOST_UNSELECTED`: a misspelt name is
        #: similar to one of them.
        self.unselected: list[str] = []

    @property
    def decoded_records(self) -> int:
        """Number of records that could be decoded.

        Damaged records are not counted.
        """
        return sum(self.types.values())

    def count_type(
        self, type_number: int, name: str, version: int | None, records: int = 1
    ) -> None:
        """Count decoded log records of one record type and value version.

        Args:
            type_number: number of the record type, which is the version of its key.
            name: name of the record type, such as ``GROUP_METADATA``.
            version: version of the value; None for tombstones.
            records: how many records.
        """
        what = "tombstone" if version is None else f"v{version}"
        self.types[f"{type_number} {name} {what}"] += records

    def count_commit_types(self, number: NDArray[np.int16], version: NDArray[np.int16]) -> None:
        """Count offset commits by record type and value version.

        Args:
            number: number of the record type of each commit (int16[n]).
            version: value version of each commit (int16[n]).
        """
        if not len(number):
            return
        width = int(version.max()) - TOMBSTONE + 1
        counted = np.bincount(number.astype(np.int64) * width + (version - TOMBSTONE))
        for place in np.flatnonzero(counted).tolist():
            key, value = place // width, place % width + TOMBSTONE
            known = None if value == TOMBSTONE else value
            self.count_type(key, RECORD_TYPES[key], known, int(counted[place]))

    def count_outcomes(self, outcome: NDArray[np.int8]) -> None:
        """Count offset commits by the outcome of their transactions, such as aborted.

        ``outcome`` has a `TransactionOutcome` for each commit (int8[n]).
        """
        counted = np.bincount(outcome, minlength=len(TransactionOutcome))
        for one in TransactionOutcome:
            if counted[one]:
                self.commits[one.name.lower()] += int(counted[one])

    def store_unselected_groups(self, groups: Iterable[str]) -> None:
        """Store the ids of groups that are skipped because the user has not selected them.

        They are suggested if the user has misspelt a group id.
        """
        names = dict.fromkeys(chain(self.unselected, groups))
        self.unselected = list(islice(names, _MOST_UNSELECTED))

    def to_json(self) -> str:
        """Return the counts of records as JSON text, from which `of_json` restores them.

        Each task sends its counts to the driver in this form.
        """
        return json.dumps(vars(self))

    @classmethod
    def of_json(cls, tally_json: str) -> RecordTally:
        """Restore the counts of records from the JSON text that `to_json` returned.

        JSON has only text as keys, so numbers in keys are converted.
        """
        made = cls()
        vars(made).update(json.loads(tally_json))
        made.types, made.commits = Counter(made.types), Counter(made.commits)
        made.ranges = {int(p): r for p, r in made.ranges.items()}
        made.days = {int(day): of for day, of in made.days.items()}
        made.repeated = {int(p): of for p, of in made.repeated.items()}
        made.strands = {int(p): [Strand(*one) for one in r] for p, r in made.strands.items()}
        return made

    def add_tally(self, other_tally: RecordTally) -> None:
        """Add the record counts of another tally, for example that of another task, to this one.

        The driver adds up the counts of all tasks in this way.
        """
        self.rows += other_tally.rows
        self.bad += other_tally.bad
        self.types += other_tally.types
        self.commits += other_tally.commits
        self.topic_ids |= other_tally.topic_ids
        for topic, number in other_tally.highest.items():
            self.highest[topic] = max(self.highest.get(topic, -1), number)
        for p, ranges in other_tally.ranges.items():
            self.ranges.setdefault(p, []).extend(ranges)
        for p, found in other_tally.strands.items():
            self.strands.setdefault(p, []).extend(found)
        for day, of in other_tally.days.items():
            self._day(day, *of)
        self.store_unselected_groups(other_tally.unselected)
        self.repeated |= other_tally.repeated  # one task has all rows of a log partition

    def merge_offset_ranges(self) -> None:
        """Replace the offset ranges of each log partition by one range, to save memory.

        Records that are added later must have higher offsets.
        """
        for p, ranges in self.ranges.items():
            lowest, highest = min(r[0] for r in ranges), max(r[1] for r in ranges)
            self.ranges[p] = [[lowest, highest, sum(r[2] for r in ranges)]]
        self.strands = {p: _merge_strands(sorted(some)) for p, some in self.strands.items()}

    def count_times(self, time_ms: NDArray[np.int64]) -> None:
        """Add the timestamps of log records (ms) to the counts by day and to the range of times.

        A day with few records may be from a wrong clock, see `time_range`.
        """
        if not len(time_ms):
            return
        first, last = int(time_ms.min()), int(time_ms.max())
        if first // _DAY_MS == last // _DAY_MS:
            self._day(first // _DAY_MS, len(time_ms), first, last)
            return
        ordered = np.sort(time_ms)
        days, starts = np.unique(ordered // _DAY_MS, return_index=True)
        ends = np.append(starts[1:], len(ordered))
        for day, start, end in zip(days.tolist(), starts.tolist(), ends.tolist(), strict=True):
            self._day(day, end - start, int(ordered[start]), int(ordered[end - 1]))

    def _day(self, day: int, records: int, first: int, last: int) -> None:
        known = self.days.get(day, [0, first, last])
        self.days[day] = [known[0] + records, min(known[1], first), max(known[2], last)]
        self.first_ms = first if self.first_ms is None else min(self.first_ms, first)
        self.last_ms = last if self.last_ms is None else max(self.last_ms, last)
        if len(self.days) > _MOST_DAYS:  # damage: what there is least of goes
            del self.days[min(self.days, key=lambda one: self.days[one][0])]

    def time_range(self) -> tuple[int | None, int | None, int]:
        """Return the first and last plausible time of the log records, and the number of
        implausible times.

        A time is implausible if it is more than a year away from the day with most records, or
        contradicts neighbouring records. One broker with a wrong clock could otherwise stretch an
        hour of records to fifty years.

        >>> one = RecordTally()
        >>> one.count_times(np.array([0, 1_795_208_600_000, 1_795_208_601_000]))
        >>> one.time_range()
        (1795208600000, 1795208601000, 1)
        """
        if not self.days:
            return self.first_ms, self.last_ms, 0
        days = sorted(self.days)
        at = days.index(max(days, key=lambda one: self.days[one][0]))
        low = high = at
        while low and days[low] - days[low - 1] <= _APART_DAYS:
            low -= 1
        while high + 1 < len(days) and days[high + 1] - days[high] <= _APART_DAYS:
            high += 1
        outside = sum(self.days[day][0] for day in days[:low] + days[high + 1 :])
        first, last = self.days[days[low]][1], self.days[days[high]][2]
        clocks = self.find_wrong_clocks()
        if not clocks.misdated or clocks.span is None:
            return first, last, outside
        inner = max(first, clocks.span[0]), min(last, clocks.span[1])
        return *(inner if inner[0] <= inner[1] else (first, last)), max(outside, clocks.misdated)

    def find_wrong_clocks(self) -> ClockCorrections:
        """Find the positions in the log whose timestamps are from a broker with a wrong clock.

        Such timestamps jump by more than an hour between consecutive records.
        """
        return find_wrong_clocks(self.strands)
