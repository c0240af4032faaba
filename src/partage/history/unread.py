"""Unread times of partitions: from the stop of one owner to the assignment to the next one.

The tracker follows who reads each partition of a group through generations, epochs and
acknowledged assignments. Each unread time counts once, for the rebalance that ended it. Times in
which the group has no member, or none that subscribed to the topic, are apart: no other assignment
would have shortened them. `partage.history.stop_model` says when a member stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from partage.history.causes import SESSION_TIMEOUT_MS
from partage.history.events import ACTIVE, OWNER, CurrentAssignment, Generation, subscribed_topics
from partage.history.pauses import PauseTracker
from partage.history.records import MemberState, assigned_partitions
from partage.history.stop_model import (
    Instant,
    MemberCommits,
    StopSum,
    UnreadEstimate,
    absence_time,
    after_record,
    before_record,
    between,
    departure_time,
    heartbeat_interval,
    revocation_time,
    sum_stops,
)

__all__ = ["UnreadState", "UnreadTracker"]

_Pair = tuple[str, int]
_READS = (OWNER, ACTIVE)
#: A migration writes the same assignment in two forms within this time.
_MIGRATION_MS = 2_000
#: A commit so soon before or after a revocation belongs to it.
_PROMPT_MS = 150


@dataclass(slots=True)
class OpenStop:
    """A partition without a reader.

    Attributes:
        start: when its last owner stopped.
        source: number of this stop; partitions of one member stop together.
        member: id of the last owner.
        seen_ms: time of the record that shows the stop.
        apart_from_ms: time since which no member subscribed to it; None while one does.
        apart_ms: time without a subscriber before that.
    """

    start: Instant
    source: int
    member: str
    seen_ms: int
    apart_from_ms: float | None = None
    apart_ms: float = 0.0


@dataclass(slots=True)
class UnreadState:
    """State of one group; plain values only.

    Attributes:
        owner: member id by partition.
        reads: member id -> its partitions, with the time from which it reads each.
        stopped: partitions without a reader.
        sources: number of stops so far.
        sums: unread times that the current rebalance ended, by source.
        no_consumer_ms: time without a consumer that it ended.
        rewrites: records of the current generation so far.
        topics: topics with a subscriber.
        prompt, stops: revocations with a commit within a moment, and all with commits.
        sessions: session timeouts of the members in milliseconds; -1 if they sent none.
    """

    owner: dict[_Pair, str] = field(default_factory=dict)
    reads: dict[str, dict[_Pair, float]] = field(default_factory=dict)
    stopped: dict[_Pair, OpenStop] = field(default_factory=dict)
    sources: int = 0
    sums: dict[int, StopSum] = field(default_factory=dict)
    no_consumer_ms: float = 0.0
    rewrites: int = 1
    topics: frozenset[str] = frozenset()
    prompt: int = 0
    stops: int = 0
    sessions: dict[str, int] = field(default_factory=dict)


class UnreadTracker:
    """The unread times of one group: feed its history in log order.

    Args:
        commits: the commits up to the record that is fed.
        session_timeout_ms: the broker's, for members that send none; None if unknown.
        state: the state to resume from.
    """

    def __init__(
        self,
        commits: PauseTracker,
        session_timeout_ms: int | None = None,
        state: UnreadState | None = None,
    ) -> None:
        self.state = state or UnreadState()
        self._commits = commits
        self._timeout_ms = session_timeout_ms

    def estimate(self) -> UnreadEstimate:
        """Return the unread time that the rebalance ended which is complete now."""
        state = self.state
        found = sum_stops(state.sums.values(), state.no_consumer_ms)
        state.sums, state.no_consumer_ms = {}, 0.0
        return found

    # -- rebalances ----------------------------------------------------------------------------

    def rebalance(self, found: Generation, before: Generation | None) -> None:
        """Follow a rebalance at its record, after its causes are known."""
        state, at = self.state, found.timestamp_ms
        if before is None:
            state.owner, state.reads, state.stopped = {}, {}, {}
        state.rewrites = found.records
        if found.protocol == "classic":
            if found.taken_over:
                self._resume_migrated(found)
            else:
                self._stop_classic(found)
        self._note_subscribers(found, at)
        if found.protocol == "classic":
            self._assign_all(found.first.members, at)

    def restart(self, found: Generation) -> None:
        """Follow a static member that took over its partitions without a rebalance."""
        if found.records <= self.state.rewrites:
            return
        self.state.rewrites = found.records
        at = found.rewrites[-1][1] if found.rewrites else found.timestamp_ms
        for member in found.last.members:
            taken: dict[str, list[_Pair]] = {}
            for pair in assigned_partitions(member):
                owner = self.state.owner.get(pair, member.id)
                if owner != member.id:
                    taken.setdefault(owner, []).append(pair)
            for owner, pairs in taken.items():
                self._stop(pairs, absence_time(self._evidence(owner, pairs), at), at)
                self._assign(pairs, member.id, at)
            self.state.sessions[member.id] = member.session_timeout_ms

    def _stop_classic(self, found: Generation) -> None:
        """Stop the partitions that members of a classic group revoked, or that lost their owner."""
        at, claims = found.timestamp_ms, _claims(found)
        present = {m.id: m for m in found.first.members}
        revoked: dict[str, list[_Pair]] = {}
        departed: dict[str, list[_Pair]] = {}
        for owner, reads in list(self.state.reads.items()):
            pairs = list(reads)
            if owner not in present:
                departed[owner] = pairs
                continue
            kept = claims.get(owner, frozenset())
            now = frozenset(assigned_partitions(present[owner]))
            revoked[owner] = [pair for pair in pairs if pair not in kept]
            self._stop([p for p in pairs if p in kept and p not in now], after_record(at), at)
        begun = self._stop_revoked({k: v for k, v in revoked.items() if v}, len(present), at)
        for owner, pairs in departed.items():
            self._stop(pairs, self._departure(owner, pairs, begun, at), at)

    def _stop_revoked(self, revoked: Mapping[str, list[_Pair]], members: int, at: int) -> Instant:
        """Stop what members revoked before they rejoined; return when the rebalance began."""
        newest: float | None = None
        first, longest = float(at), 0.0
        for owner, pairs in revoked.items():
            commits = self._evidence(owner, pairs)
            heartbeat = heartbeat_interval(self._session_ms(owner))
            start = revocation_time(commits, at, heartbeat, len(revoked))
            first, longest = min(first, start.mean), max(longest, heartbeat)
            if commits.last_ms is not None:
                newest = max(newest or commits.last_ms, commits.last_ms)
            self._stop(pairs, start, at)
        if revoked:
            self._learn(at, newest)
            # The first of several heartbeats, equally distributed over one interval.
            return between(first - 2 * longest / (len(revoked) + 1), first)
        if not members:
            return before_record(at)
        sessions = [self._session_ms(owner) for owner in self.state.sessions]
        return between(at - heartbeat_interval(max(sessions, default=SESSION_TIMEOUT_MS)), at)

    def _resume_migrated(self, found: Generation) -> None:
        """Undo the stops that only come from the records of a migration."""
        state, at = self.state, found.timestamp_ms
        for member in found.first.members:
            for pair in assigned_partitions(member):
                stop = state.stopped.get(pair)
                is_new = stop is not None and at - stop.seen_ms <= _MIGRATION_MS
                if stop is not None and is_new and stop.member == member.id:
                    del state.stopped[pair]
                    state.owner[pair] = member.id
                    state.reads.setdefault(member.id, {})[pair] = stop.start.earliest

    def _assign_all(self, members: Iterable[MemberState], at: int) -> None:
        for member in members:
            self._assign(assigned_partitions(member), member.id, at)

    def acknowledge(self, found: CurrentAssignment) -> None:
        """Follow a member's acknowledged assignment (KIP-848, KIP-1071)."""
        state, at = self.state, found.time_ms
        now = {(topic, p): None for role, _, topic, p in found.parts if role in _READS}
        lost = [pair for pair in state.reads.get(found.member, ()) if pair not in now]
        if lost:
            is_gone = not found.parts and found.member_epoch < 0
            start = (
                self._departure(found.member, lost, before_record(at), at)
                if is_gone
                else after_record(at)
            )
            self._stop(lost, start, at)
        new = [pair for pair in now if state.owner.get(pair) != found.member]
        for pair in new:  # the old owner's own record may be lost
            if pair in state.owner:
                self._stop([pair], after_record(at), at)
        self._assign(new, found.member, at)

    # -- stops ---------------------------------------------------------------------------------

    def _stop(self, pairs: Iterable[_Pair], start: Instant, at: int) -> None:
        state = self.state
        state.sources += 1
        for pair in pairs:
            owner = state.owner.pop(pair, None)
            if owner is not None:
                begin = start.limited(self._take(owner, pair), at + 1_000.0)
                is_read = pair[0] in state.topics
                apart = None if is_read else max(begin.mean, float(at))
                state.stopped[pair] = OpenStop(begin, state.sources, owner, at, apart)

    def _assign(self, pairs: Iterable[_Pair], member: str, at: int) -> None:
        state, end = self.state, after_record(at)
        for pair in pairs:
            if pair in state.owner:
                continue
            state.owner[pair] = member
            state.reads.setdefault(member, {})[pair] = end.mean
            stop = state.stopped.pop(pair, None)
            if stop is not None:
                if stop.apart_from_ms is not None:
                    stop.apart_ms += max(0.0, at - stop.apart_from_ms)
                source = state.sums.setdefault(stop.source, StopSum())
                source.add(stop.start, end, stop.apart_ms)
                state.no_consumer_ms += stop.apart_ms

    def _take(self, owner: str, pair: _Pair) -> float:
        """Remove a partition from its owner; return the time since when it was read."""
        reads = self.state.reads[owner]
        since = reads.pop(pair)
        if not reads:
            del self.state.reads[owner]
        return since

    def _note_subscribers(self, found: Generation, at: int) -> None:
        """Divide open stops into times with and without a subscriber."""
        state = self.state
        members = found.first.members
        state.sessions = {m.id: m.session_timeout_ms for m in members}
        state.topics = frozenset(t for m in members for t in subscribed_topics(m))
        for pair, stop in state.stopped.items():
            if pair[0] in state.topics:
                if stop.apart_from_ms is not None:
                    stop.apart_ms += max(0.0, at - stop.apart_from_ms)
                    stop.apart_from_ms = None
            elif stop.apart_from_ms is None:
                stop.apart_from_ms = max(float(at), stop.start.mean)

    # -- evidence ------------------------------------------------------------------------------

    def _evidence(self, owner: str, pairs: Iterable[_Pair]) -> MemberCommits:
        """Return what the commits of some partitions say, since their owner was assigned them."""
        state = self.state
        reads = state.reads.get(owner, {})
        last: int | None = None
        usual: int | None = None
        for pair in pairs:
            at, interval = self._commits.last_ms(*pair), self._commits.usual_ms(*pair)
            if at is not None and at >= reads.get(pair, 0.0):
                last = at if last is None else max(last, at)
            if interval is not None:
                usual = interval if usual is None else min(usual, interval)
        return MemberCommits(last, usual, (state.prompt + 1) / (state.stops + 2))

    def _learn(self, record_ms: float, commit_ms: float | None) -> None:
        """Learn whether members commit when they revoke partitions."""
        if commit_ms is not None:
            self.state.stops += 1
            self.state.prompt += abs(record_ms - commit_ms) <= _PROMPT_MS

    def _session_ms(self, owner: str) -> float:
        sent = self.state.sessions.get(owner, -1)
        return float(sent if sent > 0 else self._timeout_ms or SESSION_TIMEOUT_MS)

    def _departure(self, owner: str, pairs: list[_Pair], begun: Instant, at: int) -> Instant:
        session = self._session_ms(owner)
        commits, heartbeat = self._evidence(owner, pairs), heartbeat_interval(session)
        return departure_time(commits, begun, at, session, heartbeat)


def _claims(found: Generation) -> Mapping[str, frozenset[_Pair]]:
    """Return what members kept while they rejoined; empty for an eager group."""
    strategy = found.first.strategy or ""
    members = found.first.members
    is_cooperative = "cooperative" in strategy or any(
        m.subscription and m.subscription.owned for m in members
    )
    if not is_cooperative:
        return {}
    return {
        m.id: frozenset((t, p) for t, numbers in m.subscription.owned for p in numbers)
        for m in members
        if m.subscription is not None
    }
