"""True unread times of partitions, from what the clients of a recording logged about themselves.

A partition is unread from its owner's revoked, lost or closed callback, or from its owner's kill or
freeze, to the next assigned callback or thaw in its group. Apart, because they are no loss by a
rebalance, are first assignments, the times in which no client of the group runs, pauses longer
than a minute, and groups whose clients report no callbacks (share, Streams, manual assignment).

`observed.jsonl` has the callbacks, `events.jsonl` has kills, freezes and thaws. Both have ``ts_ms``
of one clock. With cooperative and consumer protocols ``parts`` are changes, which is all that is
used here.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

#: Longer pauses do not count as loss by a rebalance.
LONGEST_MS = 60_000
_TAKEN = ("revoked", "lost")
_KILLED = ("kill", "died")
#: Order of events with equal time: whatever ends an ownership comes first.
_ORDER = {"kill": 0, "died": 0, "freeze": 0, "lost": 1, "revoked": 1, "closed": 2, "thaw": 3}


class UnreadInterval(NamedTuple):
    """One partition without a reader.

    Attributes:
        from_ms, to_ms: begin and end.
        begin, end: events that mark them.
        member: the recording's name of the last reader.
        alone_ms: time within the interval in which no client of the group ran.
    """

    group: str
    topic: str
    partition: int
    from_ms: int
    to_ms: int
    begin: str
    end: str
    member: str
    alone_ms: int = 0

    @property
    def lost_ms(self) -> int:
        """Time that counts as loss by a rebalance."""
        length = self.to_ms - self.from_ms
        return 0 if length > LONGEST_MS else max(0, length - self.alone_ms)


@dataclass
class _Group:
    """State of one group while its events are read in order of time."""

    name: str
    owner: dict[tuple[str, int], str] = field(default_factory=dict)
    unread: dict[tuple[str, int], tuple[int, str, str]] = field(default_factory=dict)
    frozen: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    empty: list[list[int]] = field(default_factory=list)
    found: list[UnreadInterval] = field(default_factory=list)

    def feed(self, at: int, what: str, member: str, parts: Iterable[tuple[str, int]]) -> None:
        if what in ("started", "assigned", "revoked", "lost", "thaw"):
            self._runs(member, at)
        if what == "assigned":
            for pair in parts:
                self._read_again(pair, member, at, what)
        elif what in _TAKEN:
            for pair in parts:
                self._stop(pair, member, at, what)
        elif what in ("closed", *_KILLED, "freeze"):
            mine = [pair for pair, owner in self.owner.items() if owner == member]
            for pair in mine:
                self._stop(pair, member, at, what)
            if what == "freeze":
                self.frozen[member] = mine
            else:
                self._ends(member, at)
        elif what == "thaw":
            for pair in self.frozen.pop(member, []):
                if pair in self.unread and self.unread[pair][2] == member:
                    self._read_again(pair, member, at, what)

    def _stop(self, pair: tuple[str, int], member: str, at: int, what: str) -> None:
        if self.owner.get(pair) == member:  # otherwise another member has it by now
            del self.owner[pair]
            self.unread[pair] = (at, what, member)

    def _read_again(self, pair: tuple[str, int], member: str, at: int, what: str) -> None:
        self.owner[pair] = member
        if pair in self.unread:
            since, begin, last = self.unread.pop(pair)
            alone = sum(
                max(0, min(at, end) - max(since, start)) for start, end in self._empty_until(at)
            )
            about = (self.name, *pair, since, at, begin, what, last, alone)
            self.found.append(UnreadInterval(*about))

    def _empty_until(self, at: int) -> list[tuple[int, int]]:
        return [(span[0], span[1] if len(span) > 1 else at) for span in self.empty]

    def _runs(self, member: str, at: int) -> None:
        if not self.running and self.empty:
            self.empty[-1].append(at)
        self.running.add(member)

    def _ends(self, member: str, at: int) -> None:
        if member in self.running:
            self.running.discard(member)
            if not self.running:
                self.empty.append([at])


def unread_intervals(
    observed: Iterable[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]
) -> list[UnreadInterval]:
    """Return all unread intervals that end within the recording."""
    rows = []
    for one in observed:
        if "group" in one:
            pairs = [(topic, p) for topic, numbers in one.get("parts", ()) for p in numbers]
            rows.append((one["ts_ms"], one["ev"], one["group"], one["id"], pairs))
    rows += [
        (one["ts_ms"], one["what"], one["group"], one["id"], [])
        for one in events
        if one["what"] in (*_KILLED, "freeze", "thaw")
    ]
    groups: dict[str, _Group] = {}
    for at, what, group, member, pairs in sorted(
        rows, key=lambda row: (row[0], _ORDER.get(row[1], 4))
    ):
        groups.setdefault(group, _Group(group)).feed(at, what, member, pairs)
    return [interval for group in groups.values() for interval in group.found]


def read_unread_intervals(folder: Path) -> list[UnreadInterval]:
    """Return the unread intervals of a recording's folder."""
    observed, events = (
        [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines() if line]
        for name in ("observed.jsonl", "events.jsonl")
    )
    return unread_intervals(observed, events)


#: (group, incarnation, generation).
RebalanceKey = tuple[str, int, int]


def loss_by_rebalance(
    intervals: Iterable[UnreadInterval],
    rebalances: Mapping[str, Sequence[tuple[int, tuple[int, int]]]],
) -> dict[RebalanceKey, dict[tuple[str, int], float]]:
    """Return true losses in milliseconds by rebalance and partition.

    Args:
        intervals: the intervals.
        rebalances: group -> (record time, (incarnation, generation)) in order of time.
    """
    out: dict[RebalanceKey, dict[tuple[str, int], float]] = defaultdict(lambda: defaultdict(float))
    for one in intervals:
        known = rebalances.get(one.group, ())
        position = bisect_right([at for at, _ in known], one.to_ms)
        if position and one.lost_ms:
            key = (one.group, *known[position - 1][1])
            out[key][one.topic, one.partition] += one.lost_ms
    return {key: dict(parts) for key, parts in out.items()}
