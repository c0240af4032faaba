"""The causes of a rebalance: stated by records, or inferred from two of them.

A classic group's record lists the members afterwards, never the cause: causes are the differences
from the record before. The new protocols record each join, departure and subscription. No record
tells a leave from a session timeout. The member's offset commits do: they end a session timeout
before an eviction, and just before a leave. `departures` matches members that rejoin.

If neither members nor topics changed, `cause_without_changes` looks at the assignment: other
metadata, a follow-up of a cooperative rebalance (KIP-429), or a request by a member.
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

#: The broker's default session timeout, for members that send none of their own (KIP-848).
SESSION_TIMEOUT_MS = 45_000
#: The recorder may observe a metadata change this much later than the rebalance that it causes.
_METADATA_DELAY_MS = 1_500
#: Without a known session timeout, a silence of so many usual commit intervals, and of at least
#: so many milliseconds, counts as one.
_SILENT_INTERVALS = 4
_LEAST_SILENCE_MS = 5_000
_PRECEDENCE = {kind: i for i, kind in enumerate(CAUSE_KINDS)}


@dataclass(slots=True)
class CauseState:
    """State from one rebalance to the next; plain values only.

    Attributes:
        departures: members that have left.
        topics_position: the cluster state that topic changes were last compared with.
    """

    departures: DepartedMembers = field(default_factory=DepartedMembers)
    topics_position: int = -1


class CauseFinder:
    """The causes of one group's rebalances: ask for each when its record is read, in log order.

    Args:
        clusters: the metadata over time.
        commits: the commits up to that record.
        session_timeout_ms: the broker's setting, for members that send none of their own; None
            if unknown: it is then estimated from their commit intervals.
        state: the state to resume from.
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

    def find(self, found: Generation, before: Generation | None) -> tuple[Cause, ...]:
        """Return the causes of a rebalance by precedence; never empty.

        Args:
            found: the rebalance; its state ``last`` is not complete yet.
            before: the rebalance before it, of any protocol; None if there is none.
        """
        if found.taken_over:
            words = "classic to consumer" if found.protocol == "consumer" else "consumer to classic"
            return (Cause("migration", RECORDED, time_ms=found.timestamp_ms, detail=words),)
        topics = self._topic_changes(found, before)
        if before is None:
            causes = [Cause("first", INFERRED, time_ms=found.timestamp_ms)]
            causes += [replace(c, source=RECORDED) for c in found.causes if c.kind == "join"]
        elif found.protocol == "classic":
            causes = [*self._compared_causes(found, before), *topics]
        else:
            is_recorded = any(c.kind == "topics" for c in found.causes)
            causes = [*self._recorded_causes(found, before), *([] if is_recorded else topics)]
        if not causes:
            causes = [cause_without_changes(found, before)]
        return tuple(sorted(causes, key=lambda c: _PRECEDENCE[c.kind]))

    def _compared_causes(self, found: Generation, before: Generation) -> Iterator[Cause]:
        """Yield the causes of a classic generation: its differences from the one before."""
        change = compare_states(before.last, found.first)
        at = found.timestamp_ms
        for m in change.left:
            self.state.departures.add(m, at, self._session_timeout(m))
        left = {m.id: self._departure(m, found) for m in change.left}
        for m in change.joined:
            cause = self._join(m, at)
            if cause.kind == "bounce":
                left.pop(cause.was or "", None)
            yield cause
        yield from left.values()
        for a, b in change.restarted:
            yield Cause("bounce", INFERRED, b.id, b.instance, at, f"was {a.id}", a.id)
        yield from _other_changes(change, at)

    def _recorded_causes(self, found: Generation, before: Generation) -> Iterator[Cause]:
        """Yield the causes that records of the new protocols state, with departures explained."""
        old = {m.id: m for m in before.last.members}
        new = {m.id: m for m in found.first.members}
        left: dict[str | None, Cause] = {}
        for cause in found.causes:
            m = new.get(cause.member or "") or old.get(cause.member or "")
            if cause.kind == "leave":
                left[cause.member] = cause
                if m is not None:
                    timeout_ms = self._session_timeout(m)
                    self.state.departures.add(m, cause.time_ms or 0, timeout_ms)
                if m is not None and m.id in old:
                    left[m.id] = self._departure(m, found, cause)
        for cause in found.causes:
            m = new.get(cause.member or "")
            if cause.kind == "join" and m is not None:
                join = self._join(m, cause.time_ms or found.timestamp_ms)
                if join.kind == "bounce":
                    left.pop(join.was, None)
                    yield join
                else:
                    detail = join.detail if join.was is not None else cause.detail
                    yield replace(cause, was=join.was, detail=detail)
        yield from left.values()
        for cause in found.causes:
            if cause.kind not in ("join", "leave"):
                yield cause

    def _join(self, m: MemberState, at: int) -> Cause:
        """Return a join, or a bounce if the member left within its session timeout."""
        departed = self.state.departures.match_rejoin(
            m.id, m.instance, m.client_id, m.client_host, at
        )
        if departed is None:
            return Cause("join", INFERRED, m.id, m.instance, at, m.client_id)
        words = f"was {departed.member}, away for {max(0, at - departed.time_ms)} ms"
        kind = "bounce" if departed.is_bounce(at) else "join"
        if departed.evicted:
            words += " since its session timeout expired"
        return Cause(kind, INFERRED, m.id, m.instance, at, words, departed.member)

    def _departure(self, m: MemberState, found: Generation, recorded: Cause | None = None) -> Cause:
        """Return a leave, a session timeout or a poll timeout, by how long commits were absent.

        Args:
            m: the member that left.
            found: the rebalance without it.
            recorded: the departure as a record states it; None in a classic group.
        """
        at = found.timestamp_ms
        if recorded is not None and recorded.time_ms is not None:
            at = recorded.time_ms
        source = INFERRED if recorded is None else RECORDED
        member = (m.id, m.instance)
        silence = self._silence(m, at if recorded is not None else self._beginning(m, found))
        if silence is None:
            words = f"{m.client_id}: no commits tell when it went"
            return Cause("leave", source, *member, at, words)
        timeout = self._least_silence(m)
        if silence < timeout:
            return Cause("leave", source, *member, at, m.client_id)
        self.state.departures.mark_evicted(m.id)
        words = f"{m.client_id}: silent for {silence} ms"
        if m.rebalance_timeout_ms > timeout and silence >= m.rebalance_timeout_ms:
            words += ", longer than its max.poll.interval.ms: alive perhaps, but not polling"
            return Cause("poll", INFERRED, *member, at, words)
        return Cause("expiry", INFERRED, *member, at, words)

    def _beginning(self, departed: MemberState, found: Generation) -> int:
        """Return when a classic group's rebalance began, as far as commits of the others tell.

        Its record is written at its end, which may be minutes after the member left. Remaining
        members commit when they stop: it began no later than when their next commit was due.
        """
        at, before = found.timestamp_ms, found.previous
        stayed = {m.id for m in found.first.members}
        others = [m for m in before.last.members if m.id in stayed] if before is not None else []
        pairs = [pair for m in others for pair in assigned_partitions(m)]
        times = [t for pair in pairs if (t := self._commits.last_ms(*pair)) is not None]
        waits = [w for pair in pairs if (w := self._commits.usual_ms(*pair)) is not None]
        own = [self._commits.last_ms(*pair) for pair in assigned_partitions(departed)]
        newest, last = max(times, default=None), max((t for t in own if t is not None), default=at)
        if newest is None or newest < last:
            return at
        return min(at, newest + max(waits, default=0))

    def _silence(self, m: MemberState, at: int) -> int | None:
        """Return how long a member's partitions had no commits; None if that proves nothing.

        A dead member is evicted a session timeout later. One that stops polling leaves after
        its ``max.poll.interval.ms``, and the others take at most that long to rejoin. A longer
        silence means an idle topic.
        """
        pairs = assigned_partitions(m)
        times = [self._commits.last_ms(topic, p) for topic, p in pairs]
        waits = [self._commits.usual_ms(topic, p) for topic, p in pairs]
        seen = max((t for t in times if t is not None), default=None)
        if seen is None:
            return None
        usual = max((w for w in waits if w is not None), default=0)
        silence = max(0, at - seen)
        longest = self._least_silence(m) + max(m.rebalance_timeout_ms, 0)
        return silence if silence <= longest + _SILENT_INTERVALS * usual else None

    def _least_silence(self, m: MemberState) -> int:
        """Return the shortest silence that counts as an expired session timeout."""
        if m.session_timeout_ms > 0:
            return m.session_timeout_ms
        if self._timeout_ms is not None:
            return self._timeout_ms
        waits = [self._commits.usual_ms(topic, p) for topic, p in assigned_partitions(m)]
        usual = max((w for w in waits if w is not None), default=SESSION_TIMEOUT_MS)
        return min(SESSION_TIMEOUT_MS, max(_SILENT_INTERVALS * usual, _LEAST_SILENCE_MS))

    def _session_timeout(self, m: MemberState) -> int:
        if m.session_timeout_ms > 0:
            return m.session_timeout_ms
        return self._timeout_ms if self._timeout_ms is not None else SESSION_TIMEOUT_MS

    def _topic_changes(self, found: Generation, before: Generation | None) -> list[Cause]:
        """Return a cause if subscribed topics appeared, grew, vanished or were recreated."""
        at = found.timestamp_ms
        position = self._clusters.position_at(at + _METADATA_DELAY_MS)
        start, self.state.topics_position = self.state.topics_position, position
        if before is None:
            return []
        start = max(start, self._clusters.position_at(before.timestamp_ms))
        names = [t for m in found.first.members for t in subscribed_topics(m)]
        changed = self._clusters.topics_changed(names, start, position)
        return [Cause("topics", INFERRED, time_ms=at, detail=", ".join(changed))] if changed else []


def _other_changes(change: StateChange, at: int) -> Iterable[Cause]:
    for a, b in change.resubscribed:
        words = f"{', '.join(subscribed_topics(a))} to {', '.join(subscribed_topics(b))}"
        yield Cause("resubscription", INFERRED, b.id, b.instance, at, words)
    if change.strategy is not None:
        yield Cause("strategy", INFERRED, time_ms=at, detail="{} to {}".format(*change.strategy))


# --- rebalances of the same members with the same topics --------------------------------------


def is_follow_up(found: Generation, before: Generation | None) -> bool:
    """Return whether a cooperative group assigned partitions that had no owner (KIP-429).

    Cooperative members keep their partitions while they rejoin and send them as owned. Eager
    members have revoked everything and send none.
    """
    has_owned = any(m.subscription and m.subscription.owned for m in found.first.members)
    if before is None or found.protocol != "classic" or not has_owned:
        return False
    return len(_assigned(found.first.members)) > len(_assigned(before.last.members))


def cause_without_changes(found: Generation, before: Generation | None) -> Cause:
    """Return the cause of a rebalance in which no member joined, left or resubscribed.

    A topic or partition that was not assigned before means that the leader saw other metadata.
    Otherwise, newly assigned partitions mean a follow-up. The remaining cause is a request: a
    leader that rejoined, or ``enforceRebalance``.
    """
    at = found.timestamp_ms
    if before is None or found.protocol != "classic":
        return Cause("unknown", INFERRED, time_ms=at, detail="same members, same topics")
    assigned_before = _assigned(before.last.members)
    assigned = _assigned(found.first.members)
    known = assigned_before | {
        (topic, p)
        for m in before.first.members
        if m.subscription is not None
        for topic, numbers in m.subscription.owned
        for p in numbers
    }
    topics = _topics(assigned) - _topics(known)
    if assigned_before:
        topics |= _topics(assigned_before) - _topics(assigned)
    for topic, p in assigned - known:
        if p > max((q for other, q in known if other == topic), default=p):
            topics.add(topic)
    if topics:
        words = f"given out otherwise than before: {', '.join(sorted(topics))}"
        return Cause("topics", INFERRED, time_ms=at, detail=words)
    if is_follow_up(found, before):
        kind = before.causes[0].kind if before.causes else "unknown"
        words = f"second step of generation {before.number} ({kind})"
        return Cause("follow-up", INFERRED, time_ms=at, detail=words)
    return Cause("unknown", INFERRED, time_ms=at, detail="a member asked for it, or joined again")


def _assigned(members: Iterable[MemberState]) -> set[tuple[str, int]]:
    return {pair for m in members for pair in assigned_partitions(m)}


def _topics(pairs: set[tuple[str, int]]) -> set[str]:
    return {topic for topic, _ in pairs}
