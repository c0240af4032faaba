"""Counts of records, from workers to the driver: what the accounting of a run adds up."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from partage.history.transactions import Outcome
from partage.wire.commits import TOMBSTONE
from partage.wire.group_log import RECORD_TYPES

__all__ = ["MOST_PARTITIONS", "Tally"]

#: More partitions of one topic than Kafka has ever had.
MOST_PARTITIONS = 1_000_000


class Tally:
    """Counts of some records, or of all: what the accounting at the end of a run adds up.

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

    @property
    def decoded(self) -> int:
        """Records that could be decoded."""
        return sum(self.types.values())

    def type(self, number: int, name: str, version: int | None, records: int = 1) -> None:
        """Records of a type that were decoded; version None is a tombstone."""
        what = "tombstone" if version is None else f"v{version}"
        self.types[f"{number} {name} {what}"] += records

    def commit_types(self, number: NDArray[np.int16], version: NDArray[np.int16]) -> None:
        """Offset commits: key and value version of each."""
        if not len(number):
            return
        width = int(version.max()) - TOMBSTONE + 1
        counted = np.bincount(number.astype(np.int64) * width + (version - TOMBSTONE))
        for place in np.flatnonzero(counted).tolist():
            key, value = place // width, place % width + TOMBSTONE
            known = None if value == TOMBSTONE else value
            self.type(key, RECORD_TYPES[key], known, int(counted[place]))

    def outcomes(self, outcome: NDArray[np.int8]) -> None:
        """Offset commits: what became of each."""
        counted = np.bincount(outcome, minlength=len(Outcome))
        for one in Outcome:
            if counted[one]:
                self.commits[one.name.lower()] += int(counted[one])

    def to_json(self) -> str:
        """Compact JSON."""
        return json.dumps(vars(self))

    @classmethod
    def of_json(cls, text: str) -> Tally:
        """What `to_json` wrote."""
        made = cls()
        vars(made).update(json.loads(text))
        made.types, made.commits = Counter(made.types), Counter(made.commits)
        made.ranges = {int(p): r for p, r in made.ranges.items()}
        return made

    def add(self, other: Tally) -> None:
        """The counts of other records."""
        self.rows += other.rows
        self.bad += other.bad
        self.types += other.types
        self.commits += other.commits
        self.topic_ids |= other.topic_ids
        for topic, number in other.highest.items():
            self.highest[topic] = max(self.highest.get(topic, -1), number)
        for p, ranges in other.ranges.items():
            self.ranges.setdefault(p, []).extend(ranges)
        self.seen(other.first_ms)
        self.seen(other.last_ms)

    def seen(self, time_ms: int | None) -> None:
        """A record's timestamp."""
        if time_ms is not None:
            self.first_ms = time_ms if self.first_ms is None else min(self.first_ms, time_ms)
            self.last_ms = time_ms if self.last_ms is None else max(self.last_ms, time_ms)
