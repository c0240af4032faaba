"""True unread times of partitions, from what the clients of a recording logged about themselves.

A partition is unread from its owner's revoked, lost or closed callback, or from its owner's kill or
freeze, to the next assigned callback or thaw in its group. Apart, because they are no loss by a
rebalance, are first assignments, times in which no client of the group runs, times in which none of
them subscribes to the topic, pauses longer than a minute, and groups whose clients report no
callbacks (share, Streams, manual assignment).

`observed.jsonl` has the callbacks, `events.jsonl` has kills (hard bounces too), freezes, thaws and
subscriptions. A client of librdkafka that stalled for too long calls back for assignments of the
time before, and reports then that it has left; these callbacks do not count. Both files have
``ts_ms`` of one clock. With cooperative and consumer protocols ``parts``
are changes, which is all that is used here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: Longer pauses do not count as loss by a rebalance.
LONGEST_MS = 60_000
_STOPS = ("revoked", "lost")
_KILLS = ("kill", "died")
_CALLBACKS = ("started", "assigned", *_STOPS, "closed", "resubscribed", "poll_error")
_EVENTS = (*_KILLS, "bounce", "freeze", "thaw", "add", "resub")
#: Order of events with equal time: whatever ends an ownership comes first.
_ORDER = {"add": 0, "kill": 0, "died": 0, "freeze": 0, "lost": 1, "revoked": 1, "closed": 2}
#: A client of librdkafka with this error has left its group, and joins it again at once.
_REJOINS = "_MAX_POLL_EXCEEDED"
#: It calls back at most so long before for assignments that arrived while it did not poll.
_LATE_MS = 100
_Pair = tuple[str, int]


class UnreadInterval(NamedTuple):
    """One partition without a reader.

    Attributes:
        from_ms, to_ms: begin and end.
        begin, end: events that mark them.
        member: the recording's name of the last reader.
        no_client_ms: time within the interval in which no client of the group ran.
        no_subscriber_ms: time in which none subscribed to the topic, the former included.
    """

    group: str
    topic: str
    partition: int
    from_ms: int
    to_ms: int
    begin: str
    end: str
    member: str
    no_client_ms: int = 0
    no_subscriber_ms: int = 0

    @property
    def lost_ms(self) -> int:
        """Time that counts as loss by a rebalance."""
        return self.without(self.no_subscriber_ms)

    def without(self, apart_ms: int) -> int:
        """Return the time without a reader except for ``apart_ms``; 0 if it took too long."""
        length = self.to_ms - self.from_ms
        return 0 if length > LONGEST_MS else max(0, length - apart_ms)


@dataclass
class _Unread:
    """A partition without a reader, and how long nobody could read it."""

    since: int
    begin: str
    member: str
    no_client_ms: int = 0
    no_subscriber_ms: int = 0


@dataclass
class _Group:
    """State of one group while its events are read in order of time."""

    name: str
    owner: dict[_Pair, str] = field(default_factory=dict)
    unread: dict[_Pair, _Unread] = field(default_factory=dict)
    frozen: dict[str, list[_Pair]] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    topics: dict[str, frozenset[str]] = field(default_factory=dict)
    at: int = 0
    found: list[UnreadInterval] = field(default_factory=list)

    def feed(self, at: int, what: str, member: str, row: Mapping[str, Any]) -> None:
        self._pass_time(at)
        parts = [(topic, p) for topic, numbers in row.get("parts", ()) for p in numbers]
        if what in ("add", "resub") or "topics" in row:  # Java members report no topics
            self.topics[member] = frozenset(row.get("topics", ()))
        if what in ("started", "assigned"):
            self.running.add(member)
        if what == "assigned":
            for pair in parts:
                self._resume(pair, member, at, what)
        elif what == "poll_error" and member not in self.owner.values():
            if _REJOINS not in row.get("error", ""):
                self.running.discard(member)  # fenced; a member that rejoins reports it
        elif what in _STOPS:
            for pair in parts:
                self._stop(pair, member, at, what)
        elif what == "freeze":
            self.frozen[member] = self._stop_all(member, at, what)
        elif what in ("closed", *_KILLS) or (what == "bounce" and row.get("hard")):
            self._stop_all(member, at, what)
            self.running.discard(member)
        elif what == "thaw":
            for pair in self.frozen.pop(member, []):
                if pair in self.unread and self.unread[pair].member == member:
                    self._resume(pair, member, at, what)

    def _pass_time(self, at: int) -> None:
        """Add the time since the last event to partitions that nobody could read."""
        passed, self.at = at - self.at, at
        known = [self.topics.get(member, frozenset()) for member in self.running]
        reads_all = any(not topics for topics in known)  # a pattern: its topics are not logged
        read = frozenset(topic for topics in known for topic in topics)
        for (topic, _), one in self.unread.items():
            if not self.running:
                one.no_client_ms += passed
            if not reads_all and topic not in read:
                one.no_subscriber_ms += passed

    def _stop_all(self, member: str, at: int, what: str) -> list[_Pair]:
        mine = [pair for pair, owner in self.owner.items() if owner == member]
        for pair in mine:
            self._stop(pair, member, at, what)
        return mine

    def _stop(self, pair: _Pair, member: str, at: int, what: str) -> None:
        if self.owner.get(pair) == member:  # otherwise another member has it by now
            del self.owner[pair]
            self.unread[pair] = _Unread(at, what, member)

    def _resume(self, pair: _Pair, member: str, at: int, what: str) -> None:
        self.owner[pair] = member
        one = self.unread.pop(pair, None)
        if one is not None:
            ends = (one.since, at, one.begin, what, one.member)
            apart = (one.no_client_ms, one.no_subscriber_ms)
            self.found.append(UnreadInterval(self.name, *pair, *ends, *apart))


def unread_intervals(
    observed: Iterable[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]
) -> list[UnreadInterval]:
    """Return all unread intervals that end within the recording."""
    rows = [(one["ts_ms"], one["ev"], one) for one in observed if one.get("ev") in _CALLBACKS]
    late = {
        (row["id"], at - delay)
        for at, what, row in rows if what == "poll_error" and _REJOINS in row.get("error", "")
        for delay in range(_LATE_MS)
    }  # fmt: skip
    rows = [one for one in rows if one[1] != "assigned" or (one[2]["id"], one[0]) not in late]
    rows += [(one["ts_ms"], one["what"], one) for one in events if one["what"] in _EVENTS]
    groups: dict[str, _Group] = {}
    for at, what, row in sorted(rows, key=lambda row: (row[0], _ORDER.get(row[1], 3))):
        if "group" in row:
            group = groups.setdefault(row["group"], _Group(row["group"]))
            group.feed(at, what, row["id"], row)
    return [interval for group in groups.values() for interval in group.found]


#: (group, incarnation, generation).
RebalanceKey = tuple[str, int, int]


def loss_by_rebalance(
    intervals: Iterable[UnreadInterval],
    rebalances: Mapping[str, Sequence[tuple[int, tuple[int, int]]]],
) -> dict[RebalanceKey, dict[_Pair, float]]:
    """Return true losses in milliseconds by rebalance and partition.

    A pause counts for the last rebalance whose record stands at or before its end.

    Args:
        intervals: the intervals.
        rebalances: group -> (record time, (incarnation, generation)) in order of time.
    """
    out: dict[RebalanceKey, dict[_Pair, float]] = defaultdict(lambda: defaultdict(float))
    for one in intervals:
        known = rebalances.get(one.group, ())
        position = bisect_right([at for at, _ in known], one.to_ms)
        if position and one.lost_ms:
            key = (one.group, *known[position - 1][1])
            out[key][one.topic, one.partition] += one.lost_ms
    return {key: dict(parts) for key, parts in out.items()}
