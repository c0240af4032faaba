"""Estimates of how long partitions had no consumer: from one owner's stop to the next assignment.

The tracker follows who reads each partition of a group through generations, epochs and
acknowledged assignments. Each unread time counts once, for the rebalance that ended it. Times in
which the group has no member, or none that subscribed to the topic, are apart: no other assignment
would have shortened them. `partage.history.stop_model` says when a member stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from partage.history.causes import SESSION_TIMEOUT_MS
from partage.history.clients import JAVA, identify_client
from partage.history.clusters import ClusterHistory
from partage.history.events import (
    ACTIVE,
    OWNER,
    CurrentAssignment,
    Generation,
    reported_partitions,
    subscribed_topics,
)
from partage.history.pauses import PauseTracker
from partage.history.records import MemberState, assigned_partitions
from partage.history.stop_model import (
    HEARTBEAT_MS,
    Instant,
    StopSum,
    UnreadEstimate,
    UnreadInterval,
    after_heartbeat,
    after_record,
    before_record,
    first_join_time,
    heartbeat_interval,
    mix_instants,
    revocation_time,
    sum_stops,
    uniform_instant,
)
from partage.history.unread_state import ClientKey, OpenStop, OwnerStatistics, UnreadState

__all__ = ["UnreadTracker"]

_Pair = tuple[str, int]
_READS = (OWNER, ACTIVE)
#: A migration writes the same assignment in two forms within this time.
_MIGRATION_MS = 2_000
#: A member whose stop was noticed so much later was evicted. It is the same process if a member
#: of its client id rejoins within this time.
_EVICTED_MS, _REJOIN_MS = 2_000, 60_000
#: A commit so soon before or after a revocation belongs to it.
_PROMPT_MS = 150
#: The same after a record that makes a member revoke partitions.
_LONGEST_PROMPT_MS = 400
#: Probability that members that rejoin without a change or a commit never received their last
#: assignment; a client may have requested the rebalance instead (``enforceRebalance``).
_MISSED = 0.8
#: An assignment so long after the latest possible poll of a member was never read.
_LATE_POLL_MS = 1_000
#: Causes of a rebalance that waited for a member, or was without one.
_DEPARTURES = frozenset({"broker", "expiry", "poll", "leave", "departure"})
#: Epoch of a `CurrentAssignment` that is a tombstone.
_LEFT = -1


class UnreadTracker:
    """Estimator of how long partitions have no consumer in each rebalance of a group.

    A partition has none from the stop of its last owner until the next owner takes it over.

    Args:
        commits: statistics of the offset commits so far.
        clusters: the cluster metadata over time.
        session_timeout_ms: the broker's session timeout, for members that send none; None if
            unknown.
        state: the state to resume from.
        initial_delay_ms: how long an empty classic group waits for members
            (``group.initial.rebalance.delay.ms``); None if unknown.
    """

    def __init__(
        self,
        commits: PauseTracker,
        clusters: ClusterHistory,
        session_timeout_ms: int | None = None,
        state: UnreadState | None = None,
        initial_delay_ms: int | None = None,
    ) -> None:
        self.state = state or UnreadState()
        self._commits, self._clusters = commits, clusters
        self.owners = OwnerStatistics(self.state, commits, session_timeout_ms)
        self._initial_delay_ms = initial_delay_ms

    def estimate_unread(self) -> UnreadEstimate:
        """Return how long partitions had no consumer because of the rebalance that is now complete.

        The unit is partition-seconds (seconds summed over partitions). The sum starts at 0 again
        for the next rebalance.
        """
        found = self.estimate_so_far()
        self.state.sums, self.state.no_consumer_ms = {}, 0.0
        return found

    def estimate_so_far(self) -> UnreadEstimate:
        """Return how long partitions have had no consumer because of the newest rebalance.

        The unit is partition-seconds (seconds summed over partitions). Partitions that still have
        no consumer do not count yet.
        """
        return sum_stops(self.state.sums.values(), self.state.no_consumer_ms)

    def take_intervals(self) -> tuple[UnreadInterval, ...]:
        """Return the times without a consumer that the last rebalance ended, one row per partition.

        The list is cleared, so each time is returned once.
        """
        found, self.state.ended = tuple(self.state.ended), []
        return found

    # -- rebalances ----------------------------------------------------------------------------

    def process_rebalance(self, generation: Generation, previous: Generation | None) -> None:
        """Update which partitions have a consumer, after a rebalance of the group.

        ``previous`` is the rebalance before it; None for the first one.
        """
        state, at = self.state, generation.timestamp_ms
        self._store_stalled_members(generation, previous)
        self._store_evicted_clients(generation, previous)
        if previous is None:
            state.owner, state.reads, state.stopped = {}, {}, {}
        state.rewrites = generation.records
        state.is_classic = generation.protocol == "classic"
        if state.is_classic:
            if generation.taken_over:
                self._resume_migrated(generation)
            else:
                self._stop_classic(generation)
        members = generation.first.members
        self._count_absence_of_rejoined(members, at)
        state.subscribed = {m.id: subscribed_topics(m) for m in members}
        state.sessions = {m.id: m.session_timeout_ms for m in members}
        state.static = {m.id: m.instance is not None for m in members}
        state.polls = {m.id: m.rebalance_timeout_ms for m in members}
        state.java = {m.id: None for m in members if identify_client(m).name == JAVA}
        state.was_empty = (
            generation.protocol == "classic" and previous is not None and not previous.last.members
        )
        joined = uniform_instant(at, at)
        if state.was_empty:
            joined = first_join_time(at, self._initial_delay_ms, len(members))
        self._update_subscribers(at, joined)
        if generation.protocol == "classic":
            self._assign_all(generation.first.members, at)

    def process_restarts(self, generation: Generation) -> None:
        """Give the partitions of restarted static members to their new member ids.

        A static member that restarts gets a new member id without a rebalance. Later records of the
        same rebalance (``generation``) show it.
        """
        if generation.records <= self.state.rewrites:
            return
        self.state.was_empty = False
        self.state.rewrites = generation.records
        at = generation.rewrites[-1][1] if generation.rewrites else generation.timestamp_ms
        for member in generation.last.members:
            taken: dict[str, list[_Pair]] = {}
            for pair in assigned_partitions(member):
                owner = self.state.owner.get(pair, member.id)
                if owner != member.id:
                    taken.setdefault(owner, []).append(pair)
            for owner, pairs in taken.items():
                is_same = self.state.clients.get(owner) == _client(member)
                self._stop(
                    pairs, self.owners.estimate_absence(owner, pairs, at, is_same=is_same), at
                )
                self._assign(pairs, member.id, at, after_record(at))
            self.state.sessions[member.id] = member.session_timeout_ms
            self.state.subscribed[member.id] = subscribed_topics(member)
            self.state.static[member.id] = member.instance is not None
            self.state.polls[member.id] = member.rebalance_timeout_ms
            self.state.clients[member.id] = _client(member)
            if identify_client(member).name == JAVA:
                self.state.java[member.id] = None

    def _stop_classic(self, generation: Generation) -> None:
        """Mark the partitions that members of a classic group lost in a rebalance as not consumed.

        Their time without a consumer begins. ``generation`` is the rebalance.
        """
        # Present members revoked them to rejoin, or by their new assignment. Departed members lost
        # all their partitions.
        at, claims = generation.timestamp_ms, reported_partitions(generation)
        present = {m.id: m for m in generation.first.members}
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
            self._stop(
                [p for p in pairs if p in kept and p not in now],
                after_record(at),
                at,
                by_record=True,
            )
        missed = self._find_missed_assignments(generation, revoked)
        revoked = {k: v for k, v in revoked.items() if v and k not in missed}
        for owner in self._find_kept_members(generation, revoked):
            self._stop(revoked.pop(owner), before_record(at), at)
        begun = self._stop_revoked(revoked, len(present), at)
        for owner, pairs in missed.items():
            since = min(self.state.reads[owner][pair] for pair in pairs)
            self._stop(pairs, mix_instants(_MISSED, uniform_instant(since, since), begun), at)
        self._stop_departed(generation, departed, begun)

    def _stop_departed(
        self, generation: Generation, departed: Mapping[str, list[_Pair]], begun: Instant
    ) -> None:
        """Mark partitions whose owners left a classic group as not consumed, from the estimated
        stop on.

        Args:
            generation: the rebalance without these owners.
            departed: dict from departed member to the partitions that it consumed.
            begun: when the rebalance began.
        """
        at, members = generation.timestamp_ms, generation.first.members
        has_survivor = any(m.id in self.state.sessions for m in members)
        if members and departed and not has_survivor:
            # Nothing tells when the rebalance began, except that its members committed before.
            commits = [self.owners.commits_of(*one).last_ms for one in departed.items()]
            newest = max((c for c in commits if c is not None), default=begun.earliest)
            begun = uniform_instant(min(newest, begun.earliest), at)
        instances, clients = {m.instance for m in members} - {None}, {_client(m) for m in members}
        evicted = {c.member for c in generation.causes if c.kind == "expiry"}
        for owner, pairs in departed.items():
            client = self.state.clients.get(owner)
            is_replaced = client is not None and client[2] in instances
            start = (
                self.owners.estimate_absence(owner, pairs, at, is_same=client in clients)
                if is_replaced
                else self.owners.departure_time(owner, pairs, begun, is_evicted=owner in evicted)
            )
            is_alone = len(departed) == len({m.id for m in members}) == 1 and not has_survivor
            if is_alone and owner not in evicted:  # it left while the other member joined
                start = uniform_instant(start.mean, at)
            left = pairs
            if owner in self.state.newly_stalled:
                left = self._stop_unread_assignments(owner, pairs, at)
            missed = self.owners.miss_probability(owner, left, begun.mean)
            if owner in self.state.newly_stalled:
                # A poll after the assignment shows that the member received it.
                received = max(self.state.reads[owner].values(), default=at)
                last_poll = self.owners.latest_poll_ms(owner, begun.earliest)
                missed = 0.0 if last_poll >= received else missed
            self._stop(left, start, at, missed=missed)

    def _stop_unread_assignments(
        self, owner: str, owned_pairs: list[_Pair], time_ms: int
    ) -> list[_Pair]:
        """Mark partitions that a member got after its last call of ``poll`` as not consumed.

        Some client libraries (librdkafka) rejoin in the background, even if the application no
        longer polls. Return the member's other partitions.

        Args:
            owner: a member that exceeded its max.poll.interval.ms.
            owned_pairs: (topic, partition) pairs that it owned.
            time_ms: time of the rebalance without it.
        """
        # If the former owner has exceeded the interval as well, and has not polled since, it still
        # consumes the partition.
        state, reads = self.state, self.state.reads[owner]
        latest_poll = self.owners.latest_poll_ms(owner, time_ms)
        late = {p for p in owned_pairs if reads[p] > latest_poll + _LATE_POLL_MS}
        late = late if len(late) < len(owned_pairs) else set()
        for pair in sorted(late):
            since, former = reads[pair], state.stalled_owners.get(pair)
            is_kept = former is not None and former in state.stalled
            start = uniform_instant(since, since)
            self._stop([pair], start, time_ms, missed=0.0 if is_kept else 1.0)
            if is_kept:
                state.stopped[pair].client = former
        return [pair for pair in owned_pairs if pair not in late]

    def _find_missed_assignments(
        self, generation: Generation, revoked: Mapping[str, list[_Pair]]
    ) -> dict[str, list[_Pair]]:
        """Return the members that never received their last assignment, with its partitions.

        They never consumed these partitions, although the log lists them as owners. ``revoked`` has
        the partitions that each member revoked.
        """
        # If a slow member or leader misses the end of a rebalance, all members rejoin at once.
        # Neither members nor topics change, and no member commits in between.
        if not generation.causes or generation.causes[0].kind != "request":
            return {}
        missed = {}
        for owner, pairs in revoked.items():
            commits = self.owners.commits_of(owner, pairs)
            if commits.usual_ms is not None and commits.last_ms is None:
                missed[owner] = pairs
        return missed

    def _find_kept_members(
        self, generation: Generation, revoked: Mapping[str, list[_Pair]]
    ) -> list[str]:
        """Return the static members that missed a rebalance but were not evicted.

        They had stopped calling ``poll``, while their session had not timed out. ``revoked`` has
        the partitions that each member of the generation had before.
        """
        # The coordinator waits for members up to the rebalance timeout, then it keeps static ones
        # whose sessions have not timed out. A member that was silent even before did not wait.
        if any(c.kind in _DEPARTURES for c in generation.causes):
            return []
        state, at = self.state, generation.timestamp_ms
        longest = max(state.polls.values(), default=0)
        found = []
        for owner, pairs in revoked.items():
            commits = self.owners.commits_of(owner, pairs)
            is_static = state.static.get(owner, False)
            if commits.last_ms is None or not is_static or longest <= self.owners.session_ms(owner):
                continue
            if at - commits.last_ms > longest + commits.interval_ms:
                found.append(owner)
        return found

    def _stop_revoked(
        self, revoked: Mapping[str, list[_Pair]], members: int, time_ms: int
    ) -> Instant:
        """Mark the partitions that members revoked before they rejoined as not consumed.

        Return the estimated time at which the rebalance began. ``revoked`` has the partitions of
        each owner, ``members`` is the number of members after the rebalance, ``time_ms`` the time
        of its record.
        """
        newest: float | None = None
        first, longest = float(time_ms), 0.0
        for owner, pairs in revoked.items():
            commits = self.owners.commits_of(owner, pairs)
            heartbeat = heartbeat_interval(self.owners.session_ms(owner))
            start = revocation_time(commits, time_ms, heartbeat, len(revoked))
            first, longest = min(first, start.mean), max(longest, heartbeat)
            if commits.last_ms is not None:
                newest = max(newest or commits.last_ms, commits.last_ms)
            missed = self.owners.miss_probability(owner, pairs, start.mean)
            self._stop(pairs, start, time_ms, missed=missed)
        if revoked:
            if newest is not None:
                self.owners.count_revocation(is_prompt=time_ms - newest <= _PROMPT_MS)
            # The first of several heartbeats, equally distributed over one interval.
            return uniform_instant(first - 2 * longest / (len(revoked) + 1), first)
        if not members:
            return before_record(time_ms)
        sessions = [self.owners.session_ms(owner) for owner in self.state.sessions]
        return uniform_instant(
            time_ms - heartbeat_interval(max(sessions, default=SESSION_TIMEOUT_MS)), time_ms
        )

    def _resume_migrated(self, generation: Generation) -> None:
        """Restore the owners of partitions that only seemed to stop when their group was migrated.

        A migration (KIP-848) writes the same assignment once more, in the form of the other
        protocol.
        """
        state, at = self.state, generation.timestamp_ms
        for member in generation.first.members:
            for pair in assigned_partitions(member):
                stop = state.stopped.get(pair)
                is_new = stop is not None and at - stop.seen_ms <= _MIGRATION_MS
                if stop is not None and is_new and stop.member == member.id:
                    del state.stopped[pair]
                    state.owner[pair] = member.id
                    state.reads.setdefault(member.id, {})[pair] = stop.start.earliest

    def _assign_all(self, members: Iterable[MemberState], time_ms: int) -> None:
        for member in members:
            self._assign(assigned_partitions(member), member.id, time_ms, after_record(time_ms))

    def process_acknowledgement(self, assignment: CurrentAssignment) -> None:
        """Update which partitions have a consumer after a member (KIP-848) acknowledged its
        assignment.
        """
        state, at = self.state, assignment.time_ms
        now = {(topic, p): None for role, _, topic, p in assignment.parts if role in _READS}
        lost = [pair for pair in state.reads.get(assignment.member, ()) if pair not in now]
        if lost:
            is_gone = assignment.member_epoch == _LEFT
            start = (
                self.owners.departure_time(
                    assignment.member, lost, before_record(at), classic=False
                )
                if is_gone
                else after_heartbeat(at, revokes=True)
            )
            self._stop(lost, start, at, by_record=not is_gone)
            for pair in () if is_gone else lost:
                stop = state.stopped.get(pair)
                if stop is not None and pair[0] not in state.topics:  # its owner has unsubscribed
                    stop.apart_from_ms = max(float(at), stop.start.mean)
        if assignment.member_epoch == _LEFT:
            state.subscribed.pop(assignment.member, None)
            state.sessions.pop(assignment.member, None)
            self._update_subscribers(at, uniform_instant(at, at))
        new = [pair for pair in now if state.owner.get(pair) != assignment.member]
        for pair in new:  # the old owner's own record may be lost
            if pair in state.owner:
                self._stop([pair], after_heartbeat(at), at)
        self._assign(new, assignment.member, at, after_heartbeat(at))

    # -- stops ---------------------------------------------------------------------------------

    def _store_stalled_members(self, generation: Generation, previous: Generation | None) -> None:
        """Remember the members that left because they exceeded ``max.poll.interval.ms``.

        Args:
            generation: the rebalance without them, with its causes.
            previous: the rebalance before it, with their subscriptions.
        """
        # Such a member owns its partitions until it polls again. In the consumer protocol its
        # heartbeats go on meanwhile: the coordinator assigns it partitions that it never reads, and
        # asks for partitions that it does not revoke.
        state = self.state
        state.newly_stalled = frozenset(
            c.member for c in generation.causes if c.kind == "poll" and c.member is not None
        )
        former = () if previous is None or not state.newly_stalled else previous.last.members
        topics_of = {m.id: subscribed_topics(m) for m in former}
        for member in sorted(state.newly_stalled):
            client = state.clients.get(member)
            if client is not None:
                state.stalled[client] = (generation.timestamp_ms, topics_of.get(member, ()))
        if generation.protocol == "classic":
            state.newly_stalled = frozenset(
                member
                for member in state.newly_stalled
                if not self.owners.commits_without_polls(member, generation.timestamp_ms)
            )
        for pair, stop in state.stopped.items() if state.newly_stalled else ():
            if stop.member not in state.newly_stalled:
                continue
            poll_ms = state.polls.get(stop.member, 0)
            silent_ms = poll_ms + (
                self.owners.session_ms(stop.member) if state.static.get(stop.member) else 0
            )
            if stop.by_record:
                commit = self._commits.last_ms(*pair)
                delay_ms = -1 if commit is None else commit - stop.seen_ms
                is_recent = generation.timestamp_ms - stop.seen_ms <= 2 * poll_ms
                stop.stalled = is_recent and not 0 <= delay_ms <= _LONGEST_PROMPT_MS
            elif generation.protocol == "consumer" and stop.read_ms > stop.seen_ms - silent_ms:
                stop.start = uniform_instant(stop.read_ms, stop.read_ms)
            else:
                stop.stalled = True

    def _store_evicted_clients(self, generation: Generation, previous: Generation | None) -> None:
        """Remember the clients whose members a rebalance evicted by session timeout.

        If one rejoins soon, it was alive all the time. Clients with the same client id and host are
        left out, because they cannot be distinguished. ``generation`` is the rebalance after the
        evictions, ``previous`` the one before it.
        """
        state = self.state
        evicted = {c.member for c in generation.causes if c.member and c.kind == "expiry"}
        if previous is None or not evicted:
            return
        known = {m.id: _client(m) for m in (*previous.last.members, *generation.first.members)}
        uses, at = Counter(known.values()), generation.timestamp_ms
        state.evicted = {c: t for c, t in state.evicted.items() if at - t <= _REJOIN_MS}
        for member in sorted(evicted & state.clients.keys()):
            client = state.clients[member]
            if uses[client] == 1:
                state.evicted[client] = at

    def _stop(
        self,
        pairs: Iterable[_Pair],
        start: Instant,
        time_ms: int,
        *,
        by_record: bool = False,
        missed: float = 0.0,
    ) -> None:
        state = self.state
        state.sources += 1
        for pair in pairs:
            owner = state.owner.pop(pair, None)
            if owner is not None:
                state.stalled_owners.pop(pair, None)
                since = self._remove_from_owner(owner, pair)
                begin = start.limit_to_range(since, time_ms + 1_000.0)
                if missed:
                    begin = mix_instants(missed, uniform_instant(since, since), begin)
                state.stopped[pair] = OpenStop(
                    begin,
                    state.sources,
                    owner,
                    time_ms,
                    int(since),
                    by_record=by_record,
                    client=state.clients.get(owner),
                    stalled=owner in state.newly_stalled,
                    missed=missed,
                )

    def _assign(self, pairs: Iterable[_Pair], member: str, time_ms: int, end: Instant) -> None:
        state, known = self.state, dict[tuple[str, int], bool]()
        for pair in pairs:
            if pair in state.owner:
                continue
            state.owner[pair] = member
            state.reads.setdefault(member, {})[pair] = end.mean
            stop = state.stopped.pop(pair, None)
            key = (pair[0], 0 if stop is None else stop.read_ms)
            if stop is not None and key not in known:
                known[key] = self._clusters.was_recreated(*key, time_ms)
            if stop is not None and not known[key]:
                if stop.stalled:
                    if stop.client is not None and stop.client != state.clients.get(member):
                        state.stalled_owners[pair] = stop.client
                    self._correct_stop(stop, member, time_ms, end)
                stop.end_unsubscribed_time(time_ms)
                if stop.by_record:
                    commit = self._commits.last_ms(*pair)
                    if commit is not None and stop.source not in state.sums:
                        delay_ms = commit - stop.seen_ms
                        self.owners.count_revocation(is_prompt=0 <= delay_ms <= _LONGEST_PROMPT_MS)
                source = state.sums.setdefault(stop.source, StopSum())
                source.add_stop(stop.start, end, stop.apart_ms)
                state.ended.append(stop.close_interval(pair, member, end))
                state.no_consumer_ms += stop.apart_ms

    def _correct_stop(self, stop: OpenStop, member: str, time_ms: int, read_start: Instant) -> None:
        """Correct the time at which a member that exceeded ``max.poll.interval.ms`` stopped
        consuming.

        It is called when the next owner of a partition is known. The member loses the partition
        only when it polls again, or when another member takes it.

        Args:
            stop: the partition and its former owner, which no longer polled.
            member: id of the next owner.
            time_ms: time of the record with the next owner.
            read_start: when the next owner begins to consume the partition.
        """
        # If the next owner is the same client, it lost its partitions when it polled again, shortly
        # before it rejoined.
        state = self.state
        is_same = member == stop.member or state.clients.get(member) == stop.client
        if not state.is_classic:
            rejoined = uniform_instant(time_ms - _LONGEST_PROMPT_MS, time_ms)
        elif state.was_empty:
            rejoined = first_join_time(time_ms, self._initial_delay_ms, 1)
        else:  # the others learn of the rebalance by their next heartbeat
            rejoined = uniform_instant(time_ms - HEARTBEAT_MS, time_ms)
        resumed = rejoined if is_same else read_start
        if stop.missed:
            since = uniform_instant(stop.read_ms, stop.read_ms)
            resumed = mix_instants(stop.missed, since, resumed)
        stop.start = resumed.limit_to_range(stop.read_ms, read_start.latest)
        stop.apart_from_ms = stop.first_apart_ms = None
        stop.apart_ms = 0.0

    def _remove_from_owner(self, owner: str, topic_partition: _Pair) -> float:
        """Remove a partition from its owner; return when (ms) the owner began to consume it."""
        reads = self.state.reads[owner]
        since = reads.pop(topic_partition)
        if not reads:
            del self.state.reads[owner]
        return since

    def _count_absence_of_rejoined(self, members: Iterable[MemberState], time_ms: int) -> None:
        """Add the time without members to the time without a consumer, if an evicted client
        rejoins.

        The client was alive meanwhile, so it should have consumed. ``members`` are the present
        members, ``time_ms`` is the time of the record.
        """
        # The client was alive all the time, so it was expected to consume.
        state = self.state
        alive: set[str] = set()
        # A client that stalled was alive, too, even if others join before it polls again.
        for since_ms, topics in state.stalled.values():
            alive.update(topics if time_ms - since_ms <= _REJOIN_MS else ())
        for m in members:
            if m.id not in state.subscribed:
                state.stalled.pop(_client(m), None)
                alive.update(
                    subscribed_topics(m) if self._was_evicted_while_alive(m, time_ms) else ()
                )
        for pair, stop in state.stopped.items():
            if pair[0] in alive and time_ms - stop.seen_ms <= _REJOIN_MS:
                stop.apart_from_ms = None
        state.clients |= {m.id: _client(m) for m in members}
        alive = {m.id for m in members} | {stop.member for stop in state.stopped.values()}
        state.clients = {name: one for name, one in state.clients.items() if name in alive}

    def _was_evicted_while_alive(self, member: MemberState, time_ms: int) -> bool:
        """Return whether a joining member is a client that was recently evicted although it was
        alive.

        ``time_ms`` is the time of the join.
        """
        evicted_ms = self.state.evicted.pop(_client(member), None)
        if evicted_ms is not None and time_ms - evicted_ms <= _REJOIN_MS:
            return True
        return any(
            time_ms - stop.seen_ms <= _REJOIN_MS
            and (
                stop.member == member.id  # a process keeps its member id in the consumer protocol
                or (
                    stop.client == _client(member)
                    and (stop.stalled or stop.start.mean < stop.seen_ms - _EVICTED_MS)
                )
            )
            for stop in self.state.stopped.values()
        )

    def _update_subscribers(self, time_ms: int, joined: Instant) -> None:
        """Update which topics have subscribers, after a group record.

        Time in which no member subscribes to a topic does not count as time without a consumer.

        Args:
            time_ms: time of the record (ms).
            joined: when the record's new members joined.
        """
        state = self.state
        state.topics = frozenset(t for topics in state.subscribed.values() for t in topics)
        for pair, stop in state.stopped.items():
            if pair[0] in state.topics:
                if stop.apart_from_ms is not None:
                    until = joined.limit_to_range(stop.apart_from_ms, time_ms)
                    stop.end_unsubscribed_time(until.mean)
                    stop.start = stop.start.with_added_uncertainty(until)
            elif stop.apart_from_ms is None:
                # Where the last member is gone, it had no successor while it was dead either.
                last_member = not state.subscribed and stop.seen_ms == time_ms
                since = stop.start.mean if last_member else float(time_ms)
                stop.apart_from_ms = max(since, stop.start.mean)


def _client(member: MemberState) -> ClientKey:
    return member.client_id, member.client_host, member.instance
