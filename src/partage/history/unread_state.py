"""State of the estimates of times without a consumer, and statistics of partition owners in it.

`UnreadState` is stored between runs. `OwnerStatistics` reads it and the offset commits, and passes
them as plain numbers to `partage.history.stop_model`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from partage.history.causes import SESSION_TIMEOUT_MS
from partage.history.pauses import PauseTracker
from partage.history.stop_model import (
    Instant,
    MemberCommits,
    StopSum,
    UnreadInterval,
    absence_time,
    commits_at_revocation,
    departure_time,
    heartbeat_interval,
    miss_probability,
    sum_stops,
)

__all__ = ["ClientKey", "OpenStop", "OwnerStatistics", "UnreadState"]

#: Topic and number of a partition.
_Pair = tuple[str, int]
#: Client id, host and instance id of a member.
ClientKey = tuple[str, str, str | None]
#: Damaged timestamps may be any int64; columns of intervals must not overflow.
_LARGEST_MS = 1 << 62


# -- partitions without a consumer -------------------------------------------------------------


@dataclass(slots=True)
class OpenStop:
    """A partition that no member consumes at present, with data about its last owner.

    Attributes:
        start: when its last owner stopped consuming.
        source: number of this stop; the partitions of one member stop together and share it.
        member: id of the last owner.
        seen_ms: time of the record that shows the stop.
        read_ms: time since which the last owner had consumed it.
        apart_from_ms: time since which no member has subscribed to it; None while one does.
        first_apart_ms: start of the first time without a subscriber that has ended; None without.
        apart_ms: length of all such times that have ended.
        by_record: whether a record made the owner revoke it.
        client: client id, host and instance id of the last owner.
        stalled: whether the last owner exceeded its max.poll.interval.ms, so that it is alive.
        missed: probability that the last owner never received its assignment.
    """

    start: Instant
    source: int
    member: str
    seen_ms: int
    read_ms: int
    apart_from_ms: float | None = None
    first_apart_ms: float | None = None
    apart_ms: float = 0.0
    by_record: bool = False
    client: ClientKey | None = None
    stalled: bool = False
    missed: float = 0.0

    def end_unsubscribed_time(self, until_ms: float) -> None:
        """End the time in which no member subscribes to a topic: one has subscribed at
        ``until_ms``.

        Such time does not count as time without a consumer of a partition. Nothing happens if the
        topic had a subscriber.
        """
        if self.apart_from_ms is None:
            return
        if self.first_apart_ms is None:
            self.first_apart_ms = self.apart_from_ms
        self.apart_ms += max(0.0, until_ms - self.apart_from_ms)
        self.apart_from_ms = None

    def close_interval(
        self, topic_partition: tuple[str, int], new_owner: str, read_again: Instant
    ) -> UnreadInterval:
        """Return the row of table ``unread`` for a partition that a member consumes again.

        A row has the time in which one partition had no consumer. ``new_owner`` is the member's id,
        ``read_again`` the time at which it began.
        """
        length = StopSum()
        length.add_stop(self.start, read_again, self.apart_ms)
        unread = sum_stops([length])
        # A member may stop just after the record by which another one is assigned its partition.
        stopped = (
            _whole_ms(min(at, read_again.mean))
            for at in (self.start.mean, *self.start.interval_80_percent)
        )
        lengths = (_whole_ms(1_000 * one) for one in (unread.best, unread.p10, unread.p90))
        since = None if self.first_apart_ms is None else _whole_ms(self.first_apart_ms)
        times = (*stopped, _whole_ms(read_again.mean), *lengths, _whole_ms(self.apart_ms))
        found = UnreadInterval(*topic_partition, self.member, new_owner, *times)
        return found._replace(no_consumer_from_ms=since)


@dataclass(slots=True)
class UnreadState:
    """Data from which the times are estimated in which a group's partitions had no consumer.

    It is stored between two runs. A partition stops when it loses its consumer: its owner leaves,
    dies or revokes it.

    Attributes:
        owner: dict from partition to member id of its owner.
        reads: dict from member id to its partitions, with the time from which it reads each.
        stopped: dict from partition without a consumer to details of its stop.
        sources: number of stops so far.
        sums: times without a consumer that the current rebalance ended, by source.
        ended: the same times by partition.
        no_consumer_ms: time without a subscribed member that the current rebalance ended.
        rewrites: number of records of the current generation so far.
        subscribed: dict from member id to subscribed topics.
        topics: topics with a subscriber.
        prompt, stops: number of revocations with a commit within a moment, and of all with commits.
        sessions: dict from member id to session timeout in milliseconds; -1 if it sent none.
        static: dict from member id to whether it has an instance id.
        polls: dict from member id to its max.poll.interval.ms.
        clients: dict from member id to client id, host and instance id.
        java: members that are Java consumers.
        is_classic: whether the newest rebalance is one of the classic protocol.
        stalled: dict from the client of a member that exceeded its max.poll.interval.ms to the time
            of its departure (ms) and its topics.
        stalled_owners: dict from partition to the client of its former owner, if that one exceeded
            its max.poll.interval.ms.
        evicted: dict from the client of a member whose session timed out to the time of its
            eviction (ms).
        newly_stalled: members that the newest rebalance removed for that reason.
        was_empty: whether the newest rebalance ended the time without members of a classic group.
    """

    owner: dict[_Pair, str] = field(default_factory=dict)
    reads: dict[str, dict[_Pair, float]] = field(default_factory=dict)
    stopped: dict[_Pair, OpenStop] = field(default_factory=dict)
    sources: int = 0
    sums: dict[int, StopSum] = field(default_factory=dict)
    ended: list[UnreadInterval] = field(default_factory=list)
    no_consumer_ms: float = 0.0
    rewrites: int = 1
    subscribed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    prompt: int = 0
    stops: int = 0
    sessions: dict[str, int] = field(default_factory=dict)
    static: dict[str, bool] = field(default_factory=dict)
    polls: dict[str, int] = field(default_factory=dict)
    clients: dict[str, ClientKey] = field(default_factory=dict)
    java: dict[str, None] = field(default_factory=dict)
    is_classic: bool = True
    stalled: dict[ClientKey, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    stalled_owners: dict[_Pair, ClientKey] = field(default_factory=dict)
    evicted: dict[ClientKey, int] = field(default_factory=dict)
    newly_stalled: frozenset[str] = frozenset()
    was_empty: bool = False


def _whole_ms(value: float) -> int:
    return max(-_LARGEST_MS, min(_LARGEST_MS, round(value)))


# -- owners of partitions ----------------------------------------------------------------------


class OwnerStatistics:
    """Statistics of present and former owners of a group's partitions, such as commit intervals.

    The time at which an owner stopped consuming is estimated from them.

    Args:
        state: which partitions have a consumer, and settings of members; this class counts
            revocations in it.
        commits: statistics of the offset commits so far.
        session_timeout_ms: the broker's session timeout, for members that send none; None if
            unknown.
    """

    def __init__(
        self, state: UnreadState, commits: PauseTracker, session_timeout_ms: int | None
    ) -> None:
        self.state = state
        self._commits = commits
        self._timeout_ms = session_timeout_ms

    def owned_since(self, member: str, topic_partition: _Pair) -> float:
        """Return since when (ms since the epoch) a member has owned a partition.

        If the partition has no consumer now, its last owner counts as owner. The result is infinite
        if another member owns the partition, and 0 if its owner is unknown.
        """
        state, pair = self.state, topic_partition
        stop = state.stopped.get(pair)
        if state.owner.get(pair, member) != member:
            return inf
        if pair in state.owner or stop is None:
            return state.reads.get(member, {}).get(pair, 0.0)
        return stop.read_ms if stop.member == member else inf

    def commits_of(self, owner: str, owned_pairs: Iterable[_Pair]) -> MemberCommits:
        """Return a member's offset commit statistics, such as its last commit and its commit
        interval.

        They are used to estimate when the member stopped. ``owned_pairs`` are the (topic,
        partition) pairs that it owns.
        """
        # The time of the last commit only considers commits since the owner got the partition.
        state = self.state
        reads = state.reads.get(owner, {})
        last: int | None = None
        usual: int | None = None
        for pair in owned_pairs:
            at, interval = self._commits.last_ms(*pair), self._commits.usual_ms(*pair)
            if at is not None and at >= reads.get(pair, 0.0):
                last = at if last is None else max(last, at)
            if interval is not None:
                usual = interval if usual is None else min(usual, interval)
        share = commits_at_revocation(state.prompt, state.stops, java=owner in state.java)
        return MemberCommits(last, usual, share)

    def count_revocation(self, *, is_prompt: bool) -> None:
        """Count a revocation of partitions, and whether the member committed at the same moment.

        The counts show how likely the group's members commit when they revoke partitions.
        """
        self.state.stops += 1
        self.state.prompt += is_prompt

    def session_ms(self, owner: str) -> float:
        """Return a member's session timeout (ms): its own, the broker's, or Kafka's default."""
        sent = self.state.sessions.get(owner, -1)
        return float(sent if sent > 0 else self._timeout_ms or SESSION_TIMEOUT_MS)

    def estimate_absence(
        self, owner: str, owned_pairs: list[_Pair], time_ms: int, *, is_same: bool
    ) -> Instant:
        """Estimate when a static member stopped consuming, before another process took its instance
        id.

        Args:
            owner: member id of the member that stopped.
            owned_pairs: (topic, partition) pairs that it owned.
            time_ms: time of the record with the new member.
            is_same: whether both have one client id and host, and may be the same process.
        """
        poll_ms = self.state.polls.get(owner, 0) if is_same else 0
        return absence_time(self.commits_of(owner, owned_pairs), time_ms, poll_ms)

    def miss_probability(self, owner: str, pairs: list[_Pair], until_ms: float) -> float:
        """Return the probability that a member never received its last assignment.

        Args:
            owner: member id.
            pairs: partitions of that assignment.
            until_ms: time until which it would have committed: the start of the rebalance without
                it, or when it stopped consuming in order to rejoin.
        """
        since = min((self.state.reads[owner][pair] for pair in pairs), default=until_ms)
        return miss_probability(self.commits_of(owner, pairs), since, until_ms)

    def departure_time(
        self,
        owner: str,
        pairs: list[_Pair],
        begun: Instant,
        *,
        classic: bool = True,
        is_evicted: bool = False,
    ) -> Instant:
        """Estimate when a member stopped consuming before it left its group or was evicted.

        Args:
            owner: member id.
            pairs: (topic, partition) pairs that it owned.
            begun: when the coordinator began the rebalance without it.
            classic: whether it is a member of the classic protocol.
            is_evicted: whether the cause of the rebalance is that its session timeout expired.
        """
        state, session = self.state, self.session_ms(owner)
        heartbeat = heartbeat_interval(session, classic=classic)
        return departure_time(
            self.commits_of(owner, pairs),
            begun,
            session,
            heartbeat,
            poll_ms=state.polls.get(owner, 0),
            static=state.static.get(owner, False),
            is_evicted=is_evicted,
        )

    def latest_poll_ms(self, owner: str, time_ms: float) -> float:
        """Return the latest possible time (ms) of a member's last call of ``poll``.

        The member left its group at ``time_ms``, because it exceeded ``max.poll.interval.ms``.
        """
        # The session of a static member times out first: it sends no LeaveGroup.
        session = self.session_ms(owner) if self.state.static.get(owner) else 0.0
        return time_ms - self.state.polls.get(owner, 0) - session

    def commits_without_polls(self, owner: str, time_ms: int) -> bool:
        """Return whether a client still committed after its application had stopped calling
        ``poll``.

        Such a client (aiokafka) runs in the background. When it exceeds ``max.poll.interval.ms``,
        it revokes its partitions at once, before the application polls again. ``time_ms`` is when
        it left its group.
        """
        last = self.commits_of(owner, self.state.reads.get(owner, ())).last_ms
        return last is not None and 2 * (time_ms - last) < self.state.polls.get(owner, 0)
