"""Statistics of the owners of partitions: their commits, timeouts and last polls.

`OwnerStatistics` reads the state of `partage.history.unread` and the offset commits, and passes
them as plain numbers to `partage.history.stop_model`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from partage.history.causes import SESSION_TIMEOUT_MS
from partage.history.pauses import PauseTracker
from partage.history.stop_model import (
    Instant,
    MemberCommits,
    UnreadState,
    absence_time,
    commits_at_revocation,
    departure_time,
    heartbeat_interval,
    miss_probability,
)

__all__ = ["OwnerStatistics"]

_Pair = tuple[str, int]


class OwnerStatistics:
    """Statistics of a group's present and former owners of partitions, such as commit intervals.

    From them follows when an owner stopped consuming.

    Args:
        state: the state of the group's unread times; it is read, and revocations are counted in it.
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
        """Return the time (ms) from which on a member owned a partition.

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

        From these follows when it stopped. ``owned_pairs`` are the (topic, partition) pairs that it
        owns.
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

        From the counts follows how likely the group's members commit when they revoke partitions.
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
        """Estimate when a member stopped consuming that has left its group or died.

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
