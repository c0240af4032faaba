"""The causes of a rebalance: stated by records, or inferred from two successive records.

A classic group's record lists the members afterwards, never the cause: causes are the differences
from the record before. The new protocols record each join, departure and subscription. No record
tells a leave from a session timeout. The member's offset commits do: they end a session timeout
before an eviction, and just before a leave. `departures` matches members that rejoin, and
`coordinator_moves` tells when a broker was at fault.

If neither members nor topics changed, `cause_without_changes` looks at the assignment: other
metadata, a follow-up of a cooperative rebalance (KIP-429), or a request by a client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from partage.history.clients import JAVA, identify_client
from partage.history.clusters import ClusterHistory
from partage.history.coordinator_moves import BrokerFaults, CoordinatorMove
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
#: Time between a member's last request and the record of the generation that it took part in.
_SYNC_DELAY_MS = 1_000
#: Longest time after its last poll in which a client with background commits may commit.
_LATE_COMMIT_MS = 500
#: Commit intervals by which the poll timeout of a client with background commits may be late.
_REPEATS = 2
#: A dead broker is missed, and its partitions get a new leader, within this time
#: (``broker.session.timeout.ms`` and the load of the group's partition).
_FAILOVER_MS = 10_000
#: Members that a group loses in one rebalance if its coordinator is at fault.
_LOST_AT_ONCE = 2
#: Assumed probabilities of a label that is not proven; they are constants, not a calibration.
_LIKELY, _SAME_NAME, _EVEN = 0.9, 0.7, 0.5
_PRECEDENCE = {kind: i for i, kind in enumerate(CAUSE_KINDS)}


@dataclass(slots=True)
class CauseState:
    """Data that `CauseFinder` carries from one rebalance to the next, such as recent departures.

    It has plain values only.

    Attributes:
        departures: members that left recently.
        topics_position: the cluster state that topic changes were last compared with.
        alive: dict from member id to the time of its newest acknowledgement, which it sends in a
            heartbeat.
    """

    departures: DepartedMembers = field(default_factory=DepartedMembers)
    topics_position: int = -1
    alive: dict[str, int] = field(default_factory=dict)


class CauseFinder:
    """Finds the causes of one group's rebalances, in log order.

    Call `find` for each rebalance when its record is read.

    Args:
        clusters: the cluster metadata over time.
        commits: the offset commits up to that record.
        session_timeout_ms: the broker's setting, for members that send none of their own; None
            if unknown: it is then estimated from their commit intervals.
        state: the state to resume from.
        moves: moves of group coordinators to other brokers, by log partition.
    """

    def __init__(
        self,
        clusters: ClusterHistory,
        commits: PauseTracker,
        session_timeout_ms: int | None = None,
        state: CauseState | None = None,
        moves: Mapping[int, Sequence[CoordinatorMove]] | None = None,
    ) -> None:
        self.state = state or CauseState()
        self._clusters = clusters
        self._commits = commits
        self._timeout_ms = session_timeout_ms
        self._faults = BrokerFaults(clusters, {} if moves is None else moves)

    def note_alive(self, member: str, time_ms: int) -> None:
        """Store when a member of the new protocols (KIP-848) acknowledged an assignment."""
        self.state.alive[member] = time_ms

    def find(self, found: Generation, before: Generation | None) -> tuple[Cause, ...]:
        """Return the causes of a rebalance, the most important first; there is at least one.

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
        if not causes or self._is_metadata_of_a_fault(found, causes, topics):
            causes = [self._without_changes(found, before)]
        if len(causes) > 1 and found.protocol != "classic":
            # The coordinator replaces a static member without a rebalance (KIP-848).
            causes = [c for c in causes if c.kind != "bounce" or c.instance is None] or causes
        return tuple(sorted(causes, key=lambda c: _PRECEDENCE[c.kind]))

    def _compared_causes(self, found: Generation, before: Generation) -> Iterator[Cause]:
        """Yield the causes of a classic rebalance, by comparison with the generation before."""
        change = compare_states(before.last, found.first)
        at = found.timestamp_ms
        for m in change.left:
            stopped = self._stopped_ms(m, before, at)
            self.state.departures.add(m, stopped, self._session_timeout(m))
        left = {m.id: self._departure(m, found) for m in change.left}
        for m in change.joined:
            cause = self._join(m, at)
            was = left.get(cause.was or "")
            if cause.kind == "bounce":
                left.pop(cause.was or "", None)
            elif was is not None and was.kind == "expiry":
                longest = self._session_timeout(m) + max(m.rebalance_timeout_ms, 0)
                if self._fault(found, at, longest) is not None:  # it was alive all the time
                    del left[was.member or ""]
                    cause = replace(cause, kind="broker", probability=_LIKELY, other="expiry")
            yield cause
        yield from left.values()
        for a, b in change.restarted:
            yield Cause("bounce", INFERRED, b.id, b.instance, at, f"was {a.id}", a.id)
        yield from _other_changes(change, at)

    def _without_changes(self, found: Generation, before: Generation | None) -> Cause:
        """Return the cause of a rebalance in which no member and no topic changed."""
        cause = cause_without_changes(found, before)
        if cause.kind not in ("request", "unknown"):
            return cause
        timeout = max((self._session_timeout(m) for m in found.first.members), default=0)
        fault = self._fault(found, found.timestamp_ms, timeout)
        if fault is None:
            return cause
        words = f"{fault}: members rejoined"
        other = None if cause.kind == "unknown" else cause.kind
        return Cause("broker", INFERRED, time_ms=found.timestamp_ms, detail=words,
                     probability=_LIKELY, other=other)  # fmt: skip

    def _is_metadata_of_a_fault(
        self, found: Generation, causes: list[Cause], topics: list[Cause]
    ) -> bool:
        """Return whether only the racks in the metadata changed, because a broker failed."""
        if found.protocol != "consumer" or topics or any(c.kind != "topics" for c in causes):
            return False
        return self._fault(found, found.timestamp_ms, SESSION_TIMEOUT_MS) is not None

    def _fault(self, found: Generation, at: int, timeout_ms: int) -> str | None:
        """Return the last broker fault within a session timeout before a time, else None."""
        fault = self._faults.last(
            found.position.partition, at - timeout_ms, at + _METADATA_DELAY_MS
        )
        return None if fault is None else fault[1]

    def _recorded_causes(self, found: Generation, before: Generation) -> Iterator[Cause]:
        """Yield the causes that records of a consumer, share or streams group state.

        Departures get an explanation.
        """
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
        """Return why a member joined: a bounce or a new join.

        It is a bounce if the same client left within its session timeout, else a join.
        """
        departed = self.state.departures.match_rejoin(
            m.id, m.instance, m.client_id, m.client_host, at
        )
        if departed is None:
            return Cause("join", INFERRED, m.id, m.instance, at, m.client_id)
        words = f"was {departed.member}, away for {max(0, at - departed.time_ms)} ms"
        kind = "join"
        if departed.lost:
            kind, words = "broker", f"{words} since a broker failed or its coordinator moved"
        elif departed.evicted:
            words += " since its session timeout expired"
        elif departed.is_bounce(at) and departed.member != m.id:
            # Members of the consumer protocol choose their id: a restarted one has another.
            kind = "bounce"
            if m.instance is None:  # clients may share a client id and a host
                was, rest = departed.member, (_SAME_NAME, "join")
                return Cause(kind, INFERRED, m.id, None, at, words, was, *rest)
        return Cause(kind, INFERRED, m.id, m.instance, at, words, departed.member)

    def _departure(self, m: MemberState, found: Generation, recorded: Cause | None = None) -> Cause:
        """Return whether a departed member left or was evicted, from its last commit and heartbeat.

        A member that leaves sends LeaveGroup at once, and most clients commit before. A dead one
        is evicted a session timeout after its last heartbeat, or commit in a classic group. A
        static member leaves by a session timeout only, unless an administrator removes it.

        Args:
            m: the member that departed.
            found: the rebalance without it.
            recorded: the cause that a record states; None in a classic group.
        """
        at = found.timestamp_ms
        if recorded is not None and recorded.time_ms is not None:
            at = recorded.time_ms
        cause = Cause("leave", INFERRED if recorded is None else RECORDED, m.id, m.instance, at)
        timeout = self._least_silence(m)
        alive = self._alive_ms(m, found, recorded)
        seen = self._last_commit(m)
        began = at if recorded is not None else self._beginning(m, found)
        if self._exceeded_poll(m, found, began, None if recorded is not None else alive):
            self.state.departures.mark_evicted(m.id)
            words = (
                f"{m.client_id}: silent for longer than its max.poll.interval.ms "
                f"({m.rebalance_timeout_ms} ms), and not evicted before"
            )
            return replace(cause, kind="poll", source=INFERRED, detail=words,
                           probability=_LIKELY, other="expiry")  # fmt: skip
        last = max((t for t in (alive, seen) if t is not None), default=None)
        if last is not None and at - last < self._proven_leave(m, timeout, recorded):
            return replace(cause, detail=m.client_id)
        longest = timeout + max(m.rebalance_timeout_ms, 0)
        longest += _SILENT_INTERVALS * self._usual_interval(m)
        is_unsure = seen is None or began - seen > longest
        if self._is_outage(m, found, began):
            self.state.departures.mark_evicted(m.id, lost=True)
            words = f"{m.client_id}: lost with all others when its coordinator moved"
            return replace(cause, kind="broker", source=INFERRED, detail=words,
                           probability=_LIKELY, other="expiry")  # fmt: skip
        if is_unsure and m.instance is None:
            words = f"{m.client_id}: no commit tells how it went"
            return replace(cause, kind="departure", detail=words, probability=_EVEN, other="expiry")
        silence = None if seen is None else max(0, began - seen)
        least = timeout if recorded is None else self._proven_leave(m, timeout, recorded)
        waited = recorded is None and self._waited_for(m, found)
        if m.instance is None and silence is not None and silence < least and not waited:
            return replace(cause, detail=m.client_id, probability=_LIKELY, other="expiry")
        self.state.departures.mark_evicted(m.id)
        words = m.client_id if silence is None else f"{m.client_id}: silent for {silence} ms"
        return replace(cause, kind="expiry", source=INFERRED, detail=words)

    def _exceeded_poll(
        self, m: MemberState, found: Generation, began: int, joined_ms: int | None
    ) -> bool:
        """Return whether a member left because it exceeded its ``max.poll.interval.ms``.

        A member without heartbeats is evicted earlier, a session timeout after its last commit.
        A static member does not leave then: it stops its heartbeats, and its session expires.

        Args:
            m: the member.
            found: the rebalance without it.
            began: when that rebalance began.
            joined_ms: when it joined the generation before, which needs a call of ``poll``; None if
                unknown.
        """
        timeout, poll = self._least_silence(m), m.rebalance_timeout_ms
        seen, usual = self._last_commit(m), self._usual_interval(m)
        if seen is None or poll <= timeout:
            return False
        limit = poll + (timeout if m.instance is not None else 0)
        if found.protocol == "classic" and self._is_stalled(m, seen, usual, began):
            return True
        if joined_ms is not None and found.timestamp_ms - joined_ms < timeout:
            return False
        # Commits before it joined are those of former owners of its partitions.
        silence = began - max(seen, joined_ms if joined_ms is not None else seen)
        longest = limit + timeout + max(m.rebalance_timeout_ms, 0) + _SILENT_INTERVALS * usual
        if found.protocol == "classic" and self._has_no_witness(found):
            longest = limit + 2 * usual
        return silence - timeout > usual and limit - _LATE_COMMIT_MS <= silence <= longest

    def _is_stalled(self, m: MemberState, seen: int, usual: int, began: int) -> bool:
        """Return whether a member's commits repeated their offsets until its poll timeout.

        aiokafka commits in the background, also while its poll loop is stalled. The last commit
        that advanced an offset follows the last ``poll`` within a commit interval, and the member
        goes on committing until it leaves.

        Args:
            m: the member.
            seen: time of its last commit (ms).
            usual: its usual commit interval (ms).
            began: when the rebalance without it began (ms).
        """
        advanced, poll = self._last_advance(m), m.rebalance_timeout_ms
        if advanced is None or m.instance is not None or identify_client(m).name == JAVA:
            return False
        earliest = poll - usual - _LATE_COMMIT_MS
        longest = poll + self._least_silence(m) + _REPEATS * usual
        repeats = seen - advanced >= max(earliest - usual, usual + 1)
        return repeats and earliest <= began - advanced <= longest

    def _has_no_witness(self, found: Generation) -> bool:
        """Return whether several members departed and none stayed.

        The begin of the rebalance is then unknown.
        """
        before = found.previous
        stayed = {m.id for m in found.first.members}
        members = before.last.members if before is not None else ()
        return len(members) > 1 and not any(m.id in stayed for m in members)

    def _waited_for(self, m: MemberState, found: Generation) -> bool:
        """Return whether another member began the rebalance and it waited for this session timeout.

        A rebalance does not wait for a member that has left, but for a dead one until its session
        timeout: it ends then, if no other member is missing.
        """
        seen = self._last_commit(m)
        before = found.previous
        if seen is None or before is None:
            return False
        old, new = ({x.owner for x in g.members} for g in (before.last, found.first))
        over = found.timestamp_ms - seen - self._session_timeout(m)
        is_alone = old - new == {m.owner} and bool(new - old)
        return is_alone and 0 <= over <= self._usual_interval(m) + _SYNC_DELAY_MS

    def _proven_leave(self, m: MemberState, timeout: int, recorded: Cause | None) -> int:
        """Return how long after a commit or heartbeat a session timeout is impossible (ms).

        In a classic group each commit restarts the session, in the others heartbeats alone do.
        """
        if recorded is None:
            return timeout
        return timeout // 2 if m.instance is not None else timeout - timeout // 4

    def _alive_ms(self, m: MemberState, found: Generation, recorded: Cause | None) -> int | None:
        """Return the last time at which a record shows that a member was alive (ms), else None."""
        if recorded is not None:
            return self.state.alive.pop(m.id, None)
        before = found.previous
        if before is None or m.instance is not None:
            return None  # a static member stays in a generation that it did not join
        return before.timestamp_ms - _SYNC_DELAY_MS

    def _is_outage(self, m: MemberState, found: Generation, began: int) -> bool:
        """Return whether the group lost all its members at once when its coordinator moved.

        A single member may have died by coincidence, so at least two are required.
        """
        before = found.previous
        stayed = {x.owner for x in found.first.members}
        left = [] if before is None else [x for x in before.last.members if x.owner not in stayed]
        if len(left) < _LOST_AT_ONCE or before is None or len(left) < len(before.last.members):
            return False
        fault = self._faults.last(
            found.position.partition, began - self._session_timeout(m) - _SYNC_DELAY_MS,
            began + _METADATA_DELAY_MS, only_coordinator=True,
        )  # fmt: skip
        if fault is None:
            return False
        seen = [self._last_commit(x) for x in left]
        return all(t is None or t >= fault[0] - _FAILOVER_MS for t in seen)

    def _last_commit(self, m: MemberState) -> int | None:
        times = [self._commits.last_ms(topic, p) for topic, p in assigned_partitions(m)]
        return max((t for t in times if t is not None), default=None)

    def _stopped_ms(self, m: MemberState, before: Generation, at: int) -> int:
        """Return when the next commit of a departed member was due, at most a given time (ms).

        A classic group's record without it may follow much later, at the end of the rebalance.
        """
        seen = self._last_commit(m)
        if seen is None or seen < before.timestamp_ms:
            return at
        return min(at, seen + self._usual_interval(m))

    def _last_advance(self, m: MemberState) -> int | None:
        """Return when a commit last advanced an offset of a member's partitions; None if none."""
        times = [self._commits.advanced_ms(topic, p) for topic, p in assigned_partitions(m)]
        return max((t for t in times if t is not None), default=None)

    def _usual_interval(self, m: MemberState) -> int:
        """Return the longest usual commit interval of a member's partitions; 0 if unknown."""
        waits = [self._commits.usual_ms(topic, p) for topic, p in assigned_partitions(m)]
        return max((w for w in waits if w is not None), default=0)

    def _beginning(self, departed: MemberState, found: Generation) -> int:
        """Estimate when a classic group's rebalance began, from commits of remaining members.

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

    def _least_silence(self, m: MemberState) -> int:
        """Return the session timeout of a member: its own, the broker's, or an estimate (ms)."""
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
        """Return a cause if subscribed topics were created, deleted, recreated or grew."""
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
    """Return whether this is the second rebalance of a cooperative group (KIP-429).

    It assigns the partitions that members revoked in the first.

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
    Otherwise, newly assigned partitions mean a follow-up. The remaining cause is a request by a
    client: ``enforceRebalance``, or a leader that saw other racks.
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
    return Cause("request", INFERRED, time_ms=at, detail="a client requested it, or joined again")


def _assigned(members: Iterable[MemberState]) -> set[tuple[str, int]]:
    return {pair for m in members for pair in assigned_partitions(m)}


def _topics(pairs: set[tuple[str, int]]) -> set[str]:
    return {topic for topic, _ in pairs}
