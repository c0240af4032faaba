"""The causes of a rebalance: what records say, and what can be inferred from two of them.

A classic group's record says who is there afterwards, never why; causes are what differs from
the record before. The new protocols record each join, leave and subscription. Neither says
whether a member left or was put out: that is inferred from its commits, which end a session
timeout before it is put out, and just before it leaves. Nor does any record say that somebody
who joins was here a moment ago: the same instance, or the same client id at the same host, is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from partage.history.clusters import ClusterHistory
from partage.history.departures import DepartedMembers
from partage.history.events import (
    INFERRED,
    RECORDED,
    Cause,
    Generation,
    StateChange,
    compare_states,
    subscribed_topics,
)
from partage.history.pauses import PauseTracker
from partage.history.records import MemberState, assigned_partitions
from partage.tables.statuses import CAUSE_KINDS

__all__ = [
    "SESSION_TIMEOUT_MS",
    "CauseFinder",
    "CauseState",
    "cause_without_changes",
    "is_follow_up",
]

#: The broker's default for members that send no session timeout of their own (KIP-848).
SESSION_TIMEOUT_MS = 45_000


#: A change of metadata may be polled this much later than the rebalance that it causes.
_POLLED_LATE_MS = 1_500


#: Silence is telling from so many usual waits between commits on.
_TELLING_WAITS = 4


_LEAST_SILENCE_MS = 5_000


_RANK = {kind: i for i, kind in enumerate(CAUSE_KINDS)}


@dataclass(slots=True)
class CauseState:
    """What is remembered from rebalance to rebalance; plain values only."""

    departures: DepartedMembers = field(default_factory=DepartedMembers)
    topics_position: int = -1


class CauseFinder:
    """Finds causes: feed each rebalance when its record comes, in log order.

    Args:
        clusters: the metadata over time.
        commits: what the commits told so far.
        session_timeout_ms: the broker's, for members that have none of their own; None if it
            is not known: then it is told from how often they commit.
        state: where to go on.
    """

    def __init__(
        self,
        clusters: ClusterHistory,
        commits: PauseTracker,
        session_timeout_ms: int | None = None,
        state: CauseState | None = None,
    ) -> None:
        self.state = state or CauseState()
        self._clusters = clusters
        self._commits = commits
        self._timeout_ms = session_timeout_ms

    def of(self, found: Generation, before: Generation | None) -> tuple[Cause, ...]:
        """The causes of a rebalance, the one that counts first; never empty.

        Args:
            found: the rebalance; of its state only ``first`` is known yet.
            before: the one before it, of whatever protocol; None if there is none.
        """
        if found.taken_over:
            words = "classic to consumer" if found.protocol == "consumer" else "consumer to classic"
            return (Cause("migration", RECORDED, time_ms=found.timestamp_ms, detail=words),)
        topics = self._topics(found, before)
        if before is None:
            causes = [Cause("first", INFERRED, time_ms=found.timestamp_ms)]
            causes += [replace(c, source=RECORDED) for c in found.causes if c.kind == "join"]
        elif found.protocol == "classic":
            causes = list(self._classic(found, before)) + topics
        else:
            causes = list(self._server(found, before)) + (topics if not _told(found) else [])
        if not causes:
            causes = [cause_without_changes(found, before)]
        return tuple(sorted(causes, key=lambda c: _RANK[c.kind]))

    def _classic(self, found: Generation, before: Generation) -> Iterator[Cause]:
        change = compare_states(before.last, found.first)
        at = found.timestamp_ms
        for m in change.left:
            self.state.departures.add(m, at, self._timeout(m))
        left = {m.id: self._left(m, found) for m in change.left}
        for m in change.joined:
            cause = self._joined(m, at)
            if cause.kind == "bounce":
                left.pop(cause.was or "", None)
            yield cause
        yield from left.values()
        for a, b in change.restarted:
            yield Cause("bounce", INFERRED, b.id, b.instance, at, f"was {a.id}", a.id)
        yield from _other_changes(change, at)

    def _joined(self, m: MemberState, at: int) -> Cause:
        """A join, or the return of somebody."""
        gone = self.state.departures.returned(m.id, m.instance, m.client_id, m.client_host, at)
        if gone is None:
            return Cause("join", INFERRED, m.id, m.instance, at, m.client_id)
        words = f"was {gone.member}, away for {max(0, at - gone.time_ms)} ms"
        kind = "bounce" if gone.bounced(at) else "join"
        if gone.put_out:
            words += " since it had been put out"
        return Cause(kind, INFERRED, m.id, m.instance, at, words, gone.member)

    def _server(self, found: Generation, before: Generation) -> Iterator[Cause]:
        old = {m.id: m for m in before.last.members}
        new = {m.id: m for m in found.first.members}
        left: dict[str | None, Cause] = {}
        for cause in found.causes:
            m = new.get(cause.member or "") or old.get(cause.member or "")
            if cause.kind == "leave":
                left[cause.member] = cause
                if m is not None:
                    self.state.departures.add(m, cause.time_ms or 0, self._timeout(m))
                if m is not None and m.id in old:
                    left[m.id] = self._left(m, found, cause)
        for cause in found.causes:
            m = new.get(cause.member or "")
            if cause.kind == "join" and m is not None:
                again = self._joined(m, cause.time_ms or found.timestamp_ms)
                if again.kind == "bounce":
                    left.pop(again.was, None)
                    yield again
                else:
                    words = again.detail if again.was is not None else cause.detail
                    yield replace(cause, was=again.was, detail=words)
        yield from left.values()
        for cause in found.causes:
            if cause.kind not in ("join", "leave"):
                yield cause

    def _left(self, m: MemberState, found: Generation, told: Cause | None = None) -> Cause:
        """Whether a member said that it goes, or was silent until it was put out."""
        at = told.time_ms if told is not None and told.time_ms is not None else found.timestamp_ms
        source = INFERRED if told is None else RECORDED
        who = (m.id, m.instance)
        silent = self._silence(m, at if told is not None else self._began(m, found))
        if silent is None:
            return Cause("leave", source, *who, at, f"{m.client_id}: no commits tell when it went")
        timeout = self._telling(m)
        if silent < timeout:
            return Cause("leave", source, *who, at, m.client_id)
        self.state.departures.put_out(m.id)
        words = f"{m.client_id}: silent for {silent} ms"
        if m.rebalance_timeout_ms > timeout and silent >= m.rebalance_timeout_ms:
            words += ", longer than its max.poll.interval.ms: alive perhaps, but not polling"
            return Cause("poll", INFERRED, *who, at, words)
        return Cause("expiry", INFERRED, *who, at, words)

    def _began(self, gone: MemberState, found: Generation) -> int:
        """When a rebalance of a classic group began, as far as the others' commits tell.

        Its record is written when it ends, which may be minutes after a member left. Those that
        stayed commit when they stop for it: it began no later than their next commit was due.
        """
        at, before = found.timestamp_ms, found.previous
        stayed = {m.id for m in found.first.members}
        others = [m for m in before.last.members if m.id in stayed] if before is not None else []
        pairs = [pair for m in others for pair in assigned_partitions(m)]
        times = [t for pair in pairs if (t := self._commits.last_ms(*pair)) is not None]
        waits = [w for pair in pairs if (w := self._commits.usual_ms(*pair)) is not None]
        mine = [self._commits.last_ms(*pair) for pair in assigned_partitions(gone)]
        newest, last = max(times, default=None), max((t for t in mine if t is not None), default=at)
        if newest is None or newest < last:
            return at
        return min(at, newest + max(waits, default=0))

    def _silence(self, m: MemberState, at: int) -> int | None:
        """How long a member's partitions had no commits; None where that tells nothing.

        Who dies is put out a session timeout later, and who polls no more leaves after its
        ``max.poll.interval.ms``; the others take at most that long to join again. A longer
        silence is that of an idle topic.
        """
        pairs = assigned_partitions(m)
        times = [self._commits.last_ms(topic, p) for topic, p in pairs]
        waits = [self._commits.usual_ms(topic, p) for topic, p in pairs]
        seen = max((t for t in times if t is not None), default=None)
        if seen is None:
            return None
        usual = max((w for w in waits if w is not None), default=0)
        silent = max(0, at - seen)
        longest = self._telling(m) + max(m.rebalance_timeout_ms, 0) + _TELLING_WAITS * usual
        return silent if silent <= longest else None

    def _telling(self, m: MemberState) -> int:
        """From which silence on a member was put out."""
        if m.session_timeout_ms > 0:
            return m.session_timeout_ms
        if self._timeout_ms is not None:
            return self._timeout_ms
        waits = [self._commits.usual_ms(topic, p) for topic, p in assigned_partitions(m)]
        usual = max((w for w in waits if w is not None), default=SESSION_TIMEOUT_MS)
        return min(SESSION_TIMEOUT_MS, max(_TELLING_WAITS * usual, _LEAST_SILENCE_MS))

    def _timeout(self, m: MemberState) -> int:
        if m.session_timeout_ms > 0:
            return m.session_timeout_ms
        return self._timeout_ms if self._timeout_ms is not None else SESSION_TIMEOUT_MS

    def _topics(self, found: Generation, before: Generation | None) -> list[Cause]:
        """Subscribed topics that appeared, grew, vanished or were made anew since."""
        at = found.timestamp_ms
        position = self._clusters.position_at(at + _POLLED_LATE_MS)
        start, self.state.topics_position = self.state.topics_position, position
        if before is None:
            return []
        start = max(start, self._clusters.position_at(before.timestamp_ms))
        names = [t for m in found.first.members for t in subscribed_topics(m)]
        changed = self._clusters.topics_changed(names, start, position)
        return [Cause("topics", INFERRED, time_ms=at, detail=", ".join(changed))] if changed else []


def _told(found: Generation) -> bool:
    return any(c.kind == "topics" for c in found.causes)


def _other_changes(change: StateChange, at: int) -> Iterable[Cause]:
    for a, b in change.resubscribed:
        words = f"{', '.join(subscribed_topics(a))} to {', '.join(subscribed_topics(b))}"
        yield Cause("resubscription", INFERRED, b.id, b.instance, at, words)
    if change.strategy is not None:
        yield Cause("strategy", INFERRED, time_ms=at, detail="{} to {}".format(*change.strategy))


_Pairs = set[tuple[str, int]]


def is_follow_up(found: Generation, before: Generation | None) -> bool:
    """Whether a cooperative group's members got partitions that were with nobody (KIP-429).

    Members that keep what they have while they join again say what that is; members of eager
    groups have let go of everything, and say nothing.
    """
    claimed = any(m.subscription and m.subscription.owned for m in found.first.members)
    if before is None or found.protocol != "classic" or not claimed:
        return False
    return len(_assigned(found.first.members)) > len(_assigned(before.last.members))


def cause_without_changes(found: Generation, before: Generation | None) -> Cause:
    """The cause of a rebalance in which nobody came, went, or asked for other topics.

    A topic of which nobody had anything before, or more partitions than there were, means that
    the leader has seen other metadata. Else partitions filled in are a second step. What is
    left is a member that asked for it: a leader that joined again, or ``enforceRebalance``.
    """
    at = found.timestamp_ms
    if before is None or found.protocol != "classic":
        return Cause("unknown", INFERRED, time_ms=at, detail="same members, same topics")
    held = _assigned(before.last.members)
    now = _assigned(found.first.members)
    seen = held | {
        (topic, p)
        for m in before.first.members
        if m.subscription is not None
        for topic, numbers in m.subscription.owned
        for p in numbers
    }
    others = _topics(now) - _topics(seen) | (_topics(held) - _topics(now) if held else set())
    others |= {t for t, p in now - seen if p > max((q for s, q in seen if s == t), default=p)}
    if others:
        words = f"given out otherwise than before: {', '.join(sorted(others))}"
        return Cause("topics", INFERRED, time_ms=at, detail=words)
    if is_follow_up(found, before):
        kind = before.causes[0].kind if before.causes else "unknown"
        words = f"second step of generation {before.number} ({kind})"
        return Cause("follow-up", INFERRED, time_ms=at, detail=words)
    return Cause("unknown", INFERRED, time_ms=at, detail="a member asked for it, or joined again")


def _assigned(members: Iterable[MemberState]) -> _Pairs:
    return {pair for m in members for pair in assigned_partitions(m)}


def _topics(pairs: _Pairs) -> set[str]:
    return {topic for topic, _ in pairs}
