"""The causes of a rebalance: stated by records, or inferred from two successive records.

A classic group's record lists the members afterwards, never the cause: causes are the differences
from the record before. The new protocols record each join, departure and subscription. No record
tells a leave from a session timeout. The member's offset commits do: they end a session timeout
before an eviction, and just before a leave. `DepartedMembers` matches members that
rejoin, and `clusters.BrokerFaults` tells when a broker was at fault.

If neither members nor topics changed, `cause_without_changes` looks at the assignment: other
metadata, a follow-up of a cooperative rebalance (KIP-429), or a request by a client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from partage.history.clients import JAVA, LIBRDKAFKA, identify_client
from partage.history.clusters import BrokerFaults, ClusterHistory, CoordinatorMove
from partage.history.departures import DepartedMembers
from partage.history.events import (
    INFERRED,
    RECORDED,
    Cause,
    Generation,
    all_assigned,
    compare_states,
    reassigned_topics,
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
#: Heartbeats in a session timeout: clients send at least three.
_HEARTBEATS = 4
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


#: Function from a member id and a partition to the time (ms) since which the member has owned it.
OwnedSince = Callable[[str, tuple[str, int]], float]


def _always(_member: str, _topic_partition: tuple[str, int]) -> float:
    return 0.0


# -- causes of rebalances ----------------------------------------------------------------------


@dataclass(slots=True)
class CauseState:
    """Stored data about a consumer group's members that a later run needs to find rebalance causes.

    Attributes:
        departures: members that left recently.
        topics_position: position in the metadata history up to which topic changes were found; -1
            for none.
        alive: dict from member id to the time (ms) of its newest acknowledged assignment, which it
            sends in a heartbeat.
        active: dict from member id to the time of its newest commit that advanced an offset, else
            of the first generation with it.
        shared: client ids, with the host, that several members had at the same time.
    """

    departures: DepartedMembers = field(default_factory=DepartedMembers)
    topics_position: int = -1
    alive: dict[str, int] = field(default_factory=dict)
    active: dict[str, int] = field(default_factory=dict)
    shared: frozenset[tuple[str, str]] = frozenset()


class CauseFinder:
    """Finder of the causes of a consumer group's rebalances, such as joins and new topics.

    Call `find_causes` for each rebalance when its record is read from the log.

    Args:
        clusters: the cluster metadata over time.
        commits: the offset commits up to that record.
        session_timeout_ms: the broker's setting, for members that send none of their own; None if
            unknown: it is then estimated from their commit intervals.
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
        self._owned_since: OwnedSince = _always

    def store_heartbeat(self, member: str, time_ms: int) -> None:
        """Store the time of a member's heartbeat, which proves that the member was alive then."""
        self.state.alive[member] = time_ms

    def find_causes(
        self, generation: Generation, previous: Generation | None, owned_since: OwnedSince = _always
    ) -> tuple[Cause, ...]:
        """Return the causes of a consumer group's rebalance, the most important first.

        There is at least one cause.

        Args:
            generation: the rebalance; its state ``last`` is not complete yet.
            previous: the rebalance before it, of any protocol; None if there is none.
            owned_since: function that returns since when (ms) a member has owned a partition.
        """
        self._owned_since = owned_since
        if generation.taken_over:
            words = (
                "classic to consumer"
                if generation.protocol == "consumer"
                else "consumer to classic"
            )
            return (Cause("migration", RECORDED, time_ms=generation.timestamp_ms, detail=words),)
        topics = self._find_topic_changes(generation, previous)
        self._store_commit_activity(generation, previous)
        if previous is None:
            causes = [Cause("first", INFERRED, time_ms=generation.timestamp_ms)]
            causes += [replace(c, source=RECORDED) for c in generation.causes if c.kind == "join"]
        elif generation.protocol == "classic":
            causes = [*self._infer_causes(generation, previous), *topics]
        else:
            is_recorded = any(c.kind == "topics" for c in generation.causes)
            causes = [
                *self._list_recorded_causes(generation, previous),
                *([] if is_recorded else topics),
            ]
        if not causes or self._is_missing_rack_of_failed_broker(generation, causes, topics):
            causes = [self._explain_without_changes(generation, previous)]
        if len(causes) > 1 and generation.protocol != "classic":
            # The coordinator replaces a static member without a rebalance (KIP-848).
            causes = [c for c in causes if c.kind != "bounce" or c.instance is None] or causes
        return tuple(sorted(causes, key=lambda c: _PRECEDENCE[c.kind]))

    def _store_commit_activity(self, generation: Generation, previous: Generation | None) -> None:
        """Store the time at which each member of a consumer group last advanced a committed offset.

        Client ids that several members share are stored, too.
        """
        members = () if previous is None else previous.last.members
        known = {m.id: self.state.active.get(m.id) for m in members}
        for m in members:
            times = [self._commits.advanced_ms(*pair) for pair in assigned_partitions(m)]
            newest = max((t for t in times if t is not None), default=None)
            if newest is not None and previous is not None and newest >= previous.timestamp_ms:
                known[m.id] = newest
        known |= {
            m.id: known.get(m.id) or generation.timestamp_ms for m in generation.first.members
        }
        self.state.active = {name: at for name, at in known.items() if at is not None}
        clients = Counter((m.client_id, m.client_host) for m in generation.first.members)
        self.state.shared |= {client for client, count in clients.items() if count > 1}

    def _infer_causes(self, generation: Generation, previous: Generation) -> Iterator[Cause]:
        """Yield the causes of a classic group's rebalance, inferred from its members before and
        after it.
        """
        change = compare_states(previous.last, generation.first)
        at = generation.timestamp_ms
        for m in change.left:
            stopped = self._estimate_stop_ms(m, previous, at)
            self.state.departures.add_departure(m, stopped, self._session_timeout(m))
        left = {m.id: self._explain_departure(m, generation) for m in change.left}
        for m in change.joined:
            cause = self._explain_join(m, at, stop_is_known=True)
            was = left.get(cause.was or "")
            if cause.kind == "bounce":
                left.pop(cause.was or "", None)
            elif was is not None and was.kind == "expiry":
                longest = self._session_timeout(m) + max(m.rebalance_timeout_ms, 0)
                if (
                    self._describe_fault(generation, at, longest) is not None
                ):  # it was alive all the time
                    del left[was.member or ""]
                    cause = replace(cause, kind="broker", probability=_LIKELY, other="expiry")
            yield cause
        yield from left.values()
        for a, b in change.restarted:
            yield Cause("bounce", INFERRED, b.id, b.instance, at, f"was {a.id}", a.id)
        yield from change.other_causes(at)

    def _explain_without_changes(
        self, generation: Generation, previous: Generation | None
    ) -> Cause:
        """Return the cause of a rebalance in which neither members nor topics changed.

        It may be a broker failure or the request of a client.
        """
        cause = cause_without_changes(generation, previous)
        if cause.kind not in ("request", "unknown"):
            return cause
        timeout = max((self._session_timeout(m) for m in generation.first.members), default=0)
        fault = self._describe_fault(generation, generation.timestamp_ms, timeout)
        if fault is None:
            return cause
        words = f"{fault}: members rejoined"
        other = None if cause.kind == "unknown" else cause.kind
        return Cause("broker", INFERRED, time_ms=generation.timestamp_ms, detail=words,
                     probability=_LIKELY, other=other)  # fmt: skip

    def _is_missing_rack_of_failed_broker(
        self, generation: Generation, causes: list[Cause], topics: list[Cause]
    ) -> bool:
        """Return whether a broker failure caused a rebalance that the log explains by changed
        topics.

        While a broker is down, metadata lacks its rack, which the coordinator takes for a change.
        ``causes`` are those in the log, ``topics`` those that follow from the cluster metadata.
        """
        # The broker failure is then the only cause.
        if generation.protocol != "consumer" or topics or any(c.kind != "topics" for c in causes):
            return False
        return (
            self._describe_fault(generation, generation.timestamp_ms, SESSION_TIMEOUT_MS)
            is not None
        )

    def _describe_fault(self, generation: Generation, time_ms: int, timeout_ms: int) -> str | None:
        """Describe the last broker failure that can explain a rebalance; None without one.

        Args:
            generation: the rebalance.
            time_ms: time of the rebalance.
            timeout_ms: how long before the rebalance the failure may lie.
        """
        # It may also lie shortly after the rebalance, because metadata is recorded with a delay.
        fault = self._faults.last_fault(
            generation.position.partition, time_ms - timeout_ms, time_ms + _METADATA_DELAY_MS
        )
        return None if fault is None else fault[1]

    def _list_recorded_causes(
        self, generation: Generation, previous: Generation
    ) -> Iterator[Cause]:
        """Yield the causes of a rebalance that the records of a consumer group (KIP-848) state."""
        # A departure is refined to a leave, a session or a poll timeout, by commits and heartbeats.
        old = {m.id: m for m in previous.last.members}
        new = {m.id: m for m in generation.first.members}
        left: dict[str | None, Cause] = {}
        for cause in generation.causes:
            m = new.get(cause.member or "") or old.get(cause.member or "")
            if cause.kind == "leave":
                left[cause.member] = cause
                if m is not None:
                    timeout_ms = self._session_timeout(m)
                    self.state.departures.add_departure(m, cause.time_ms or 0, timeout_ms)
                if m is not None and m.id in old:
                    left[m.id] = self._explain_departure(m, generation, cause)
                elif m is None and cause.instance is not None:
                    # It replaced another process since the last rebalance, and is static: it
                    # cannot leave before its session times out.
                    left[cause.member] = replace(cause, kind="expiry", source=INFERRED)
        for cause in generation.causes:
            m = new.get(cause.member or "")
            if cause.kind == "join" and m is not None:
                join = self._explain_join(m, cause.time_ms or generation.timestamp_ms)
                if join.kind == "bounce":
                    left.pop(join.was, None)
                    yield join
                else:
                    detail = join.detail if join.was is not None else cause.detail
                    yield replace(cause, was=join.was, detail=detail)
        yield from left.values()
        for cause in generation.causes:
            if cause.kind not in ("join", "leave"):
                yield cause

    def _explain_join(
        self, member: MemberState, time_ms: int, *, stop_is_known: bool = False
    ) -> Cause:
        """Return the cause of a rebalance by a joining member: it is new, or it left and has
        rejoined.

        Args:
            member: the member.
            time_ms: when it joined.
            stop_is_known: whether a departed member is stored with the time of its stop, not of its
                eviction.
        """
        shared = (member.client_id, member.client_host) in self.state.shared
        departed = self.state.departures.match_rejoin(member, time_ms, same_settings=shared)
        if departed is None:
            return Cause("join", INFERRED, member.id, member.instance, time_ms, member.client_id)
        words = f"was {departed.member}, away for {max(0, time_ms - departed.time_ms)} ms"
        kind = "join"
        if departed.lost:
            kind, words = "broker", f"{words} since a broker failed or its coordinator moved"
        elif departed.evicted:
            words += ", evicted" if stop_is_known else " since its session timeout expired"
        elif (
            departed.is_bounce(time_ms)
            and departed.member != member.id
            and self._is_likely_same(member, time_ms - departed.time_ms)
        ):
            # Members of the consumer protocol choose their id: a restarted one has another.
            kind = "bounce"
            if member.instance is None:  # clients may share a client id and a host
                was, rest = departed.member, (_SAME_NAME, "join")
                return Cause(kind, INFERRED, member.id, None, time_ms, words, was, *rest)
        return Cause(kind, INFERRED, member.id, member.instance, time_ms, words, departed.member)

    def _is_likely_same(self, member: MemberState, away_ms: int) -> bool:
        """Return whether a joining member is likely the same process as one that has just left.

        Both have the same client id and host. ``away_ms`` is the time (ms) between departure and
        join.
        """
        # Members that share a client id and host cannot be distinguished. A restart is then likely
        # only if it was quick: before two of three heartbeats are missed.
        if member.instance is not None:
            return True
        if (member.client_id, member.client_host) not in self.state.shared:
            return True
        return 3 * away_ms <= 2 * self._session_timeout(member)

    def _explain_departure(
        self, member: MemberState, generation: Generation, recorded: Cause | None = None
    ) -> Cause:
        """Return why a member left its consumer group: a leave, a timeout or a broker failure.

        Args:
            member: the departed member.
            generation: the rebalance without it.
            recorded: the cause that a record states; None in a classic group.
        """
        # A member that leaves sends LeaveGroup at once, and most clients commit just before. A dead
        # member is evicted a session timeout after its last heartbeat (classic group: also commit).
        # A static member departs only by a session timeout, unless an administrator removes it.
        at = generation.timestamp_ms
        if recorded is not None and recorded.time_ms is not None:
            at = recorded.time_ms
        cause = Cause(
            "leave", INFERRED if recorded is None else RECORDED, member.id, member.instance, at
        )
        timeout = self._shortest_session_timeout(member)
        alive = self._last_alive_ms(member, generation, recorded)
        seen = self._last_commit(member)
        if recorded is not None and seen is not None and seen > at:
            seen = self.state.active.get(member.id)  # the newest commit is one of a later owner
        began = at if recorded is not None else self._rebalance_start_ms(member, generation)
        joined = None if recorded is not None else alive
        if seen is not None and self._exceeded_poll_interval(
            member, generation, seen, began, joined
        ):
            self.state.departures.mark_evicted(member.id)
            words = (
                f"{member.client_id}: silent for longer than its max.poll.interval.ms "
                f"({member.rebalance_timeout_ms} ms), and not evicted before"
            )
            return replace(cause, kind="poll", source=INFERRED, detail=words,
                           probability=_LIKELY, other="expiry")  # fmt: skip
        last = max((t for t in (alive, seen) if t is not None), default=None)
        if last is not None and at - last < self._eviction_free_ms(member, timeout, recorded):
            return replace(cause, detail=member.client_id)
        longest = timeout + max(member.rebalance_timeout_ms, 0)
        longest += _SILENT_INTERVALS * self._longest_commit_interval(member)
        is_unsure = seen is None or began - seen > longest
        if self._is_outage(member, generation, began):
            self.state.departures.mark_evicted(member.id, lost=True)
            words = f"{member.client_id}: lost with all others when its coordinator moved"
            return replace(cause, kind="broker", source=INFERRED, detail=words,
                           probability=_LIKELY, other="expiry")  # fmt: skip
        if is_unsure and member.instance is None:
            words = f"{member.client_id}: no commit tells how it went"
            return replace(cause, kind="departure", detail=words, probability=_EVEN, other="expiry")
        silence = None if seen is None else max(0, began - seen)
        least = timeout if recorded is None else self._eviction_free_ms(member, timeout, recorded)
        waited = recorded is None and self._delayed_rebalance(member, generation)
        if member.instance is None and silence is not None and silence < least and not waited:
            return replace(cause, detail=member.client_id, probability=_LIKELY, other="expiry")
        self.state.departures.mark_evicted(member.id)
        words = (
            member.client_id if silence is None else f"{member.client_id}: silent for {silence} ms"
        )
        return replace(cause, kind="expiry", source=INFERRED, detail=words)

    def _exceeded_poll_interval(
        self,
        member: MemberState,
        generation: Generation,
        last_commit_ms: int,
        began_ms: int,
        joined_ms: int | None,
    ) -> bool:
        """Return whether a member left its group because it exceeded ``max.poll.interval.ms``.

        Args:
            member: the member.
            generation: the rebalance without it.
            last_commit_ms: time of its last commit (ms).
            began_ms: when that rebalance began (ms).
            joined_ms: when it joined the generation before, which needs a call of ``poll``; None if
                unknown.
        """
        # A member without heartbeats is evicted earlier, a session timeout after its last commit. A
        # static member that exceeds the interval stops its heartbeats, and is evicted a session
        # timeout later.
        timeout, poll = self._shortest_session_timeout(member), member.rebalance_timeout_ms
        usual = self._longest_commit_interval(member)
        if poll <= timeout:
            return False
        limit = poll + (timeout if member.instance is not None else 0)
        is_classic = generation.protocol == "classic"
        if is_classic and self._is_stalled(member, last_commit_ms, usual, began_ms):
            return True
        # Commits before it joined are those of former owners of its partitions.
        last = max(last_commit_ms, joined_ms if joined_ms is not None else last_commit_ms)
        library = identify_client(member).name
        own = self.state.active.get(member.id)
        if is_classic and library == LIBRDKAFKA and own is not None and member.instance is None:
            last = own  # it rejoins without a call of poll if it revokes no partition
        elif joined_ms is not None and generation.timestamp_ms - joined_ms < timeout:
            return False
        # The rebalance may have waited for it: then it left when the rebalance ended.
        silence = (generation.timestamp_ms if is_classic else began_ms) - last
        heartbeat = timeout // _HEARTBEATS
        from_expiry = silence - timeout - usual - heartbeat // 2
        # Commits in the background follow the last poll by half an interval on average.
        is_background = library == LIBRDKAFKA or not is_classic
        from_poll = silence - limit + (usual // 2 if is_background else 0)
        early = usual if is_background else heartbeat if member.instance is not None else 0
        waited = is_classic and generation.timestamp_ms - began_ms > timeout
        if waited and member.instance is None:
            early = usual + heartbeat  # it did not leave: the rebalance waited for it
        late = usual + heartbeat + _LATE_COMMIT_MS
        if abs(from_poll) < from_expiry and -early - _LATE_COMMIT_MS <= from_poll <= late:
            return True
        silence = began_ms - last
        longest = limit + timeout + max(member.rebalance_timeout_ms, 0) + _SILENT_INTERVALS * usual
        if is_classic and self._lost_all_members(generation):
            longest = limit + 2 * usual
        return silence - timeout > usual and limit - _LATE_COMMIT_MS <= silence <= longest

    def _is_stalled(
        self, member: MemberState, last_commit_ms: int, usual_ms: int, began_ms: int
    ) -> bool:
        """Return whether a member no longer called ``poll``, while its client went on committing.

        Some clients commit the same offset in the background, even if the application is stuck.

        Args:
            member: the member.
            last_commit_ms: time of its last commit (ms).
            usual_ms: its usual commit interval (ms).
            began_ms: when the rebalance without it began (ms).
        """
        # aiokafka commits in the background, also while its poll loop is stalled. The last commit
        # that advanced an offset follows the last ``poll`` within a commit interval.
        advanced, poll = self.state.active.get(member.id), member.rebalance_timeout_ms
        if advanced is None or member.instance is not None or identify_client(member).name == JAVA:
            return False
        earliest = poll - usual_ms - _LATE_COMMIT_MS
        longest = poll + self._shortest_session_timeout(member) + _REPEATS * usual_ms
        repeats = last_commit_ms - advanced >= max(earliest - usual_ms, usual_ms + 1)
        return repeats and earliest <= began_ms - advanced <= longest

    def _lost_all_members(self, generation: Generation) -> bool:
        """Return whether a group of two or more members lost all of them in one rebalance."""
        # Then no commits of remaining members show when the rebalance began.
        before = generation.previous
        stayed = {m.id for m in generation.first.members}
        members = before.last.members if before is not None else ()
        return len(members) > 1 and not any(m.id in stayed for m in members)

    def _delayed_rebalance(self, member: MemberState, generation: Generation) -> bool:
        """Return whether a rebalance had to wait for the session timeout of a dead member."""
        # The coordinator waits for a dead member, but not for one that sent LeaveGroup. If no other
        # member is missing, the rebalance ends when the dead member's session times out.
        seen = self._last_commit(member)
        before = generation.previous
        if seen is None or before is None:
            return False
        old, new = ({x.owner_identity for x in g.members} for g in (before.last, generation.first))
        over = generation.timestamp_ms - seen - self._session_timeout(member)
        is_alone = old - new == {member.owner_identity} and bool(new - old)
        return is_alone and 0 <= over <= self._longest_commit_interval(member) + _SYNC_DELAY_MS

    def _eviction_free_ms(self, member: MemberState, timeout: int, recorded: Cause | None) -> int:
        """Return the time (ms) after a member's last heartbeat or commit in which it cannot be
        evicted.

        A member that departs within this time has sent a LeaveGroup.

        Args:
            member: the member.
            timeout: its session timeout (ms).
            recorded: cause of its departure in the log; None in a classic group.
        """
        # A member that departs within this time sent LeaveGroup. In a classic group each commit
        # restarts the session, in other groups only heartbeats do, so there the time is shorter.
        if recorded is None:
            return timeout
        return timeout // 2 if member.instance is not None else timeout - timeout // 4

    def _last_alive_ms(
        self, member: MemberState, generation: Generation, recorded: Cause | None
    ) -> int | None:
        """Return the last time (ms) at which records prove that a departed member was alive.

        The result is None without such a record.

        Args:
            member: the member.
            generation: the rebalance without the member.
            recorded: cause of its departure in the log; None in a classic group.
        """
        if recorded is not None:
            return self.state.alive.pop(member.id, None)
        before = generation.previous
        if before is None or member.instance is not None:
            return None  # a static member stays in a generation that it did not join
        return before.timestamp_ms - _SYNC_DELAY_MS

    def _is_outage(self, member: MemberState, generation: Generation, began_ms: int) -> bool:
        """Return whether a group lost all its members because its coordinator moved or failed.

        ``member`` is one of them, ``began_ms`` is when the rebalance without them began (ms).
        """
        # At least two members are required, because a single one may have died by coincidence.
        before = generation.previous
        stayed = {x.owner_identity for x in generation.first.members}
        left = (
            []
            if before is None
            else [x for x in before.last.members if x.owner_identity not in stayed]
        )
        if len(left) < _LOST_AT_ONCE or before is None or len(left) < len(before.last.members):
            return False
        fault = self._faults.last_fault(
            generation.position.partition,
            began_ms - self._session_timeout(member) - _SYNC_DELAY_MS,
            began_ms + _METADATA_DELAY_MS, only_coordinator=True,
        )  # fmt: skip
        if fault is None:
            return False
        seen = [self._last_commit(x) for x in left]
        return all(t is None or t >= fault[0] - _FAILOVER_MS for t in seen)

    def _last_commit(self, member: MemberState) -> int | None:
        # Commits before the member owned a partition are those of a former owner. They only count
        # if it has no other.
        times = {pair: self._commits.last_ms(*pair) for pair in assigned_partitions(member)}
        known = {pair: t for pair, t in times.items() if t is not None}
        own = [t for pair, t in known.items() if t >= self._owned_since(member.id, pair)]
        return max(own or known.values(), default=None)

    def _estimate_stop_ms(
        self, member: MemberState, last_generation: Generation, time_ms: int
    ) -> int:
        """Estimate when a departed member stopped consuming (ms since the epoch).

        It is the time at which its next offset commit was due, but at most ``time_ms``, the time of
        the next record. ``last_generation`` is the last generation with the member.
        """
        seen = self._last_commit(member)
        if seen is None or seen < last_generation.timestamp_ms:
            return time_ms
        return min(time_ms, seen + self._longest_commit_interval(member))

    def _longest_commit_interval(self, member: MemberState) -> int:
        """Return a member's longest mean commit interval (ms) over its partitions, or 0."""
        waits = [self._commits.usual_ms(topic, p) for topic, p in assigned_partitions(member)]
        return max((w for w in waits if w is not None), default=0)

    def _rebalance_start_ms(self, departed: MemberState, generation: Generation) -> int:
        """Estimate when a group's rebalance began (ms), from the last commits of remaining members.

        Members commit when they stop consuming for a rebalance. ``departed`` is a member that left.
        """
        # The record is written at the end of the rebalance, maybe minutes after the member left.
        # Remaining members commit when they stop consuming, so it began before their next commit
        # was due.
        at, before = generation.timestamp_ms, generation.previous
        stayed = {m.id for m in generation.first.members}
        others = [m for m in before.last.members if m.id in stayed] if before is not None else []
        pairs = [pair for m in others for pair in assigned_partitions(m)]
        times = [t for pair in pairs if (t := self._commits.last_ms(*pair)) is not None]
        waits = [w for pair in pairs if (w := self._commits.usual_ms(*pair)) is not None]
        own = [self._commits.last_ms(*pair) for pair in assigned_partitions(departed)]
        newest, last = max(times, default=None), max((t for t in own if t is not None), default=at)
        if newest is None or newest < last:
            return at
        return min(at, newest + max(waits, default=0))

    def _shortest_session_timeout(self, member: MemberState) -> int:
        """Return a member's session timeout (ms), or a lower bound if it is unknown."""
        # The bound is a multiple of the commit interval, at most Kafka's default timeout.
        if member.session_timeout_ms > 0 or self._timeout_ms is not None:
            return self._session_timeout(member)
        waits = [self._commits.usual_ms(topic, p) for topic, p in assigned_partitions(member)]
        usual = max((w for w in waits if w is not None), default=SESSION_TIMEOUT_MS)
        return min(SESSION_TIMEOUT_MS, max(_SILENT_INTERVALS * usual, _LEAST_SILENCE_MS))

    def _session_timeout(self, member: MemberState) -> int:
        """Return a member's session timeout (ms): its own, the broker's, or Kafka's default."""
        if member.session_timeout_ms > 0:
            return member.session_timeout_ms
        return self._timeout_ms if self._timeout_ms is not None else SESSION_TIMEOUT_MS

    def _find_topic_changes(
        self, generation: Generation, previous: Generation | None
    ) -> list[Cause]:
        """Return the causes of a rebalance that concern topics: created, deleted or extended ones.

        An extended topic got partitions. ``previous`` is the rebalance before.
        """
        at = generation.timestamp_ms
        position = self._clusters.position_at(at + _METADATA_DELAY_MS)
        start, self.state.topics_position = self.state.topics_position, position
        if previous is None:
            return []
        start = max(start, self._clusters.position_at(previous.timestamp_ms))
        names = [t for m in generation.first.members for t in subscribed_topics(m)]
        changed = self._clusters.find_changed_topics(names, start, position)
        if generation.protocol == "classic" and all_assigned(previous.last.members):
            # A change that the leader has not seen is not the cause.
            seen = reassigned_topics(generation, previous)
            changed = tuple(topic for topic in changed if topic in seen)
        return [Cause("topics", INFERRED, time_ms=at, detail=", ".join(changed))] if changed else []


# --- rebalances of the same members with the same topics --------------------------------------


def is_follow_up(generation: Generation, previous: Generation | None) -> bool:
    """Return whether a generation is the second half of a cooperative rebalance (KIP-429).

    It assigns the partitions that members revoked in the first half (``previous``).
    """
    # Cooperative members send the partitions that they keep; eager members send none.
    has_owned = any(m.subscription and m.subscription.owned for m in generation.first.members)
    if previous is None or generation.protocol != "classic" or not has_owned:
        return False
    return len(all_assigned(generation.first.members)) > len(all_assigned(previous.last.members))


def cause_without_changes(generation: Generation, previous: Generation | None) -> Cause:
    """Return the cause of a rebalance in which no member joined, left or changed subscriptions.

    The cause is new metadata if a topic or partition is assigned that was unknown before. It is the
    second half of a cooperative rebalance (KIP-429) if more partitions are assigned than before.
    Else it is a client's request: ``enforceRebalance``, or a leader that saw other racks.
    """
    at = generation.timestamp_ms
    if previous is None or generation.protocol != "classic":
        return Cause("unknown", INFERRED, time_ms=at, detail="same members, same topics")
    topics = reassigned_topics(generation, previous)
    if topics:
        words = f"given out otherwise than before: {', '.join(sorted(topics))}"
        return Cause("topics", INFERRED, time_ms=at, detail=words)
    if is_follow_up(generation, previous):
        kind = previous.causes[0].kind if previous.causes else "unknown"
        words = f"second step of generation {previous.generation_number} ({kind})"
        return Cause("follow-up", INFERRED, time_ms=at, detail=words)
    return Cause("request", INFERRED, time_ms=at, detail="a client requested it, or joined again")
