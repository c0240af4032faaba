"""Counts of records, from workers to the driver: the accounting of a run."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from partage.history.transactions import Outcome
from partage.jobs.replay.clocks import Clocks, Strand, find_wrong_clocks
from partage.wire.columns.commits import TOMBSTONE
from partage.wire.group_log import RECORD_TYPES

__all__ = ["MOST_PARTITIONS", "Tally"]

_DAY_MS = 86_400_000
#: Days without any record after which what comes is of another time.
_APART_DAYS = 366
#: Days that are counted; no log is kept for so many.
_MOST_DAYS = 10_000
#: More partitions of one topic than Kafka has ever had.
MOST_PARTITIONS = 1_000_000


class Tally:
    """Counts of some records, or of all: types, damage, offsets, times.

    >>> a = Tally()
    >>> a.types["GROUP_METADATA v3"] += 2
    >>> Tally.of_json(a.to_json()).decoded
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
        #: Day since 1970 -> records of that day, and the first and the last time of them.
        self.days: dict[int, list[int]] = {}

    @property
    def decoded(self) -> int:
        """Records that could be decoded."""
        return sum(self.types.values())

    def type(self, number: int, name: str, version: int | None, records: int = 1) -> None:
        """Count decoded records of a type; version None is a tombstone."""
        what = "tombstone" if version is None else f"v{version}"
        self.types[f"{number} {name} {what}"] += records

    def commit_types(self, number: NDArray[np.int16], version: NDArray[np.int16]) -> None:
        """Count offset commits by key and value version."""
        if not len(number):
            return
        width = int(version.max()) - TOMBSTONE + 1
        counted = np.bincount(number.astype(np.int64) * width + (version - TOMBSTONE))
        for place in np.flatnonzero(counted).tolist():
            key, value = place // width, place % width + TOMBSTONE
            known = None if value == TOMBSTONE else value
            self.type(key, RECORD_TYPES[key], known, int(counted[place]))

    def outcomes(self, outcome: NDArray[np.int8]) -> None:
        """Count offset commits by their transaction's outcome."""
        counted = np.bincount(outcome, minlength=len(Outcome))
        for one in Outcome:
            if counted[one]:
                self.commits[one.name.lower()] += int(counted[one])

    def to_json(self) -> str:
        """Return compact JSON."""
        return json.dumps(vars(self))

    @classmethod
    def of_json(cls, text: str) -> Tally:
        """Return the tally that `to_json` wrote."""
        made = cls()
        vars(made).update(json.loads(text))
        made.types, made.commits = Counter(made.types), Counter(made.commits)
        made.ranges = {int(p): r for p, r in made.ranges.items()}
        made.days = {int(day): of for day, of in made.days.items()}
        made.strands = {int(p): [Strand(*one) for one in r] for p, r in made.strands.items()}
        return made

    def add(self, other: Tally) -> None:
        """Add the counts of other records."""
        self.rows += other.rows
        self.bad += other.bad
        self.types += other.types
        self.commits += other.commits
        self.topic_ids |= other.topic_ids
        for topic, number in other.highest.items():
            self.highest[topic] = max(self.highest.get(topic, -1), number)
        for p, ranges in other.ranges.items():
            self.ranges.setdefault(p, []).extend(ranges)
        for p, found in other.strands.items():
            self.strands.setdefault(p, []).extend(found)
        for day, of in other.days.items():
            self._day(day, *of)

    def times(self, time_ms: NDArray[np.int64]) -> None:
        """Note the timestamps of some records."""
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

    def span(self) -> tuple[int | None, int | None, int]:
        """Return first and last time of most records, and the number of records of other times.

        One wrong clock must not make a record of an hour one of fifty years: what lies more than a
        year apart from the day that has most records is not believed, nor what neighbours in the
        log contradict.

        >>> one = Tally()
        >>> one.times(np.array([0, 1_795_208_600_000, 1_795_208_601_000]))
        >>> one.span()
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
        clocks = self.clocks()
        if not clocks.misdated or clocks.span is None:
            return first, last, outside
        inner = max(first, clocks.span[0]), min(last, clocks.span[1])
        return *(inner if inner[0] <= inner[1] else (first, last)), max(outside, clocks.misdated)

    def clocks(self) -> Clocks:
        """Return the log positions whose time is not believed."""
        return find_wrong_clocks(self.strands)
