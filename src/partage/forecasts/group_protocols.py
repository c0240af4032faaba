"""Group protocols in simulated time: which partitions are unread while members stop and start.

`SimulatedClassicGroup` is a group of the classic protocol, eager or cooperative (KIP-429), with
static membership (KIP-345). `SimulatedConsumerGroup` is one of the consumer protocol (KIP-848).
Both use the rounds of `partage.simulation` for assignments, and its clock. Heartbeat intervals and
latencies are those of the stop model (`partage.history.stop_model`).

Heartbeats are periodic. A member's timer starts when it receives an assignment, so that all members
of a classic group send theirs at the same time after a rebalance (`AbstractCoordinator`,
`Heartbeat.resetTimeouts`). The first rebalance finds them at independent times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from math import ceil, cos, log, pi, sqrt
from typing import Any, Protocol, TypeAlias

from partage.errors import UnsupportedProblemError
from partage.history.records import MemberState, Subscription
from partage.history.stop_model import after_heartbeat, after_record, heartbeat_interval
from partage.java.random import JavaRandom
from partage.model import Cluster
from partage.simulation.clock import Clock
from partage.simulation.members import SimulatedMember
from partage.simulation.policies import CONSUMER, Policy
from partage.simulation.rounds import MOST_FOLLOW_UPS, ResolvedPolicy, SharedProblems
from partage.tables.statuses import DONE

__all__ = [
    "GroupSettings",
    "KnownAssignments",
    "RandomDraws",
    "SimulatedClassicGroup",
    "SimulatedConsumerGroup",
    "SimulatedGroup",
    "Unread",
]

#: group.initial.rebalance.delay.ms: an empty classic group waits for more members.
_INITIAL_DELAY_MS = 3_000
#: Longest time until a member handles a heartbeat's answer: it must call ``poll``.
_POLL_MS = 200


#: Assignments by generation and state of the members: follow-up, then what each member has.
KnownAssignments: TypeAlias = dict[tuple[int, Any], tuple[bool, tuple[tuple[Any, Any, Any], ...]]]


class RandomDraws:
    """Random number generator with a seed; equal seeds give equal numbers on any machine.

    >>> draws = RandomDraws(7)
    >>> round(draws.uniform(0, 10), 3), 1 < draws.lognormal(2.0, 0.1) < 3
    (7.307, True)
    """

    def __init__(self, seed: int) -> None:
        self._random = JavaRandom.of(seed)

    def uniform(self, low: float, high: float) -> float:
        """Draw a random number that is uniformly distributed from ``low`` to ``high``."""
        number, self._random = self._random.next_int()
        return low + (high - low) * ((number & 0xFFFFFFFF) / 2**32)

    def normal(self) -> float:
        """Draw a random number of the standard normal distribution (Box and Muller)."""
        radius = sqrt(-2 * log(1 - self.uniform(0, 1)))
        return radius * cos(2 * pi * self.uniform(0, 1))

    def lognormal(self, median: float, sigma: float) -> float:
        """Draw a random number of the log-normal distribution with this median and log deviation
        ``sigma``.
        """
        from math import exp

        return median * exp(sigma * self.normal())


@dataclass(frozen=True)
class GroupSettings:
    """Settings of a simulated group that decide what a member's restart costs.

    Attributes:
        cluster: the group's topics and partitions.
        policy: protocol, strategy and static membership.
        rates: records per second of each partition (tuple, by dense partition index).
        session_ms: session timeout.
        leaves: whether a member that shuts down sends LeaveGroup, or as a static member of the
            consumer protocol announces its absence. False: it is killed.
        commit_ms: interval of its offset commits.
        commits_on_stop: whether a member commits when it stops or revokes partitions.
    """

    cluster: Cluster
    policy: Policy
    rates: tuple[float, ...]
    session_ms: float
    leaves: bool
    commit_ms: float
    commits_on_stop: bool


class Unread:
    """Running totals of a simulated group's costs: time in which partitions are unread, and
    rereads.

    Attributes:
        unread_ms: partition-milliseconds in which no member read a partition.
        resumed: how often a partition that had stopped was read again.
        reread: records read twice.
        last_ms: when a partition was last read again (ms).
    """

    def __init__(self, clock: Clock, settings: GroupSettings, draws: RandomDraws) -> None:
        self._clock, self._settings, self._draws = clock, settings, draws
        self._since: dict[int, int] = {}
        self.unread_ms = 0.0
        self.reread = 0.0
        self.resumed = 0
        self.last_ms = 0

    def stop(self, partitions: Iterable[int], *, commits: bool) -> None:
        """Record that no member reads these partitions from now on.

        Unless the member ``commits`` its offsets first, the next reader reads some records twice.
        """
        interval_s = self._draws.uniform(0, self._settings.commit_ms) / 1_000
        for p in partitions:
            self._since.setdefault(p, self._clock.now_ms)
            if not commits:
                self.reread += interval_s * self._settings.rates[p]

    def resume(self, partitions: Iterable[int], latency_ms: float) -> None:
        """Record that members read these partitions again, after a latency in milliseconds.

        The time in between counts as unread.
        """
        for p in partitions:
            since = self._since.pop(p, None)
            if since is not None:
                self.unread_ms += self._clock.now_ms - since + latency_ms
                self.resumed += 1
                self.last_ms = self._clock.now_ms


class SimulatedGroup(Protocol):
    """Interface of a simulated consumer group, whose members stop and start in simulated time.

    Attributes:
        rebalances: rebalances so far.
        unread: sums of unread time and of records read twice.
    """

    rebalances: int
    unread: Unread

    def fill(self, keys: Iterable[str]) -> None:
        """Form the initial group from members with these keys; this costs no unread time."""

    def start(self, key: str) -> None:
        """Let the member with this key join: a new one, or a static member that was away."""

    def stop(self, key: str) -> None:
        """Shut down the member with this key.

        It leaves the group at once, or is away until its session times out.
        """


@dataclass
class _GroupState:
    """State of a simulated group that the classic and the consumer protocol share.

    Attributes:
        known: assignments that were computed before, by generation and state of the members.
        members: dict from key (instance id or pod) to member, in join order.
        consumed: dict from key to the partitions that the member reads.
        away: dict from key of a member that stopped without LeaveGroup to the number of its stop.
        partitions_of_away: dict from the same keys to the partitions that the member read when it
            stopped.
        expires_ms: dict from the same keys to the time of the session timeout.
        heartbeats_ms: dict from key to the time of one heartbeat; the others are periodic.
    """

    settings: GroupSettings
    clock: Clock
    draws: RandomDraws
    known: KnownAssignments
    unread: Unread = field(init=False)
    members: dict[str, SimulatedMember] = field(default_factory=dict)
    consumed: dict[str, set[int]] = field(default_factory=dict)
    away: dict[str, int] = field(default_factory=dict)
    partitions_of_away: dict[str, set[int]] = field(default_factory=dict)
    expires_ms: dict[str, int] = field(default_factory=dict)
    heartbeats_ms: dict[str, float] = field(default_factory=dict)
    rebalances: int = 0
    _stops: int = 0
    _named: int = 0

    def __post_init__(self) -> None:
        self.unread = Unread(self.clock, self.settings, self.draws)
        policy = self.settings.policy
        if policy.strategy is None:
            raise UnsupportedProblemError("the policy names no strategy")
        self.resolved = ResolvedPolicy(policy, policy.strategy)

    @property
    def heartbeat_ms(self) -> float:
        """Heartbeat interval of the group's members (ms), derived from the session timeout."""
        classic = self.settings.policy.protocol != CONSUMER
        return heartbeat_interval(self.settings.session_ms, classic=classic)

    def until_heartbeat(self, key: str) -> float:
        """Return the milliseconds until a member's next heartbeat."""
        passed = (self.clock.now_ms - self.heartbeats_ms[key]) % self.heartbeat_ms
        return self.heartbeat_ms - passed

    def fill(self, keys: Iterable[str]) -> None:
        """Form the initial group from members with these keys; this costs no unread time."""
        for key in keys:
            self.members[key] = self._member(key)
            self.heartbeats_ms[key] = self.draws.uniform(0, self.heartbeat_ms)
        for _ in range(1 + MOST_FOLLOW_UPS):
            if not self._assign():
                break
        self.consumed = {key: _owned(one) for key, one in self.members.items()}
        self.rebalances = 0

    def _member(self, key: str) -> SimulatedMember:
        """Create a member with a random id like Kafka's; the ids are the same in each run."""
        self._named += 1
        number, _ = JavaRandom.of(self._named).next_int()
        member_id = f"{number & 0xFFFFFFFF:08x}-{self._named}"
        counts: dict[str, None] = {}
        index = self.settings.cluster.index
        for p in range(index.partitions):
            counts.setdefault(index.name(p)[0])
        subscription = Subscription(3, tuple(counts))
        session = int(self.settings.session_ms)
        state = MemberState(
            member_id, None, "", "", session, session, subscription, (), 3, None, None
        )
        return SimulatedMember(key, state)

    def _assign(self) -> bool:
        """Compute the next assignment; return whether a second, cooperative rebalance must follow.

        Equal rebalances of repeated simulations are computed once.

        Raises:
            UnsupportedProblemError: the strategy is not applicable.
        """
        self.rebalances += 1
        members = list(self.members.values())
        state = tuple(
            (one.key, one.state.id, one.generation, one.owned.tobytes()) for one in members
        )
        found = self.known.get((self.rebalances, state))
        if found is None:
            result = self.resolved.rebalance(
                members,
                self.settings.cluster,
                self.rebalances,
                SharedProblems(),
                leader=members[0].state.id,
            )
            if result.status != DONE:
                raise UnsupportedProblemError(result.detail or "the strategy has no plan")
            after = tuple((one.owned, one.last_owned, one.memory) for one in members)
            self.known[self.rebalances, state] = result.needs_follow_up, after
            return result.needs_follow_up
        needs_follow_up, after = found
        for one, (owned, last, memory) in zip(members, after, strict=True):
            one.owned, one.last_owned, one.memory = owned, last, memory
            one.generation = self.rebalances
        return needs_follow_up

    def stop(self, key: str) -> None:
        """Shut down the member with this key.

        It leaves the group at once. A static or killed member is away until its session times out.
        """
        is_static, leaves = self.settings.policy.static, self.settings.leaves
        stopped = self._halt(key, crashes=not leaves)
        if is_static or not leaves:
            self._go_away(key, stopped, self._remove)
        else:
            self._remove(key)

    def _remove(self, key: str) -> None:
        """Remove a member that left or was evicted, and begin a rebalance."""
        raise NotImplementedError

    def _go_away(self, key: str, stopped: set[int], expire: Callable[[str], None]) -> None:
        """Mark a member that stopped without LeaveGroup as away, and schedule its session timeout.

        Args:
            key: the member's key.
            stopped: the partitions that it read.
            expire: called with the key if it has not returned when its session times out.
        """
        self._stops += 1
        self.away[key] = number = self._stops
        self.partitions_of_away[key] = stopped

        def due() -> None:
            if self.away.get(key) == number:
                del self.away[key]
                expire(key)

        wait = self.settings.session_ms - self.heartbeat_ms + self.until_heartbeat(key)
        self.expires_ms[key] = self.clock.now_ms + int(max(0.0, wait))
        self.clock.at(self.expires_ms[key], due)

    def _halt(self, key: str, *, crashes: bool = False) -> set[int]:
        """Let a member stop reading all of its partitions, and return them.

        It commits its offsets first unless it crashes.
        """
        stopped = self.consumed.pop(key, set())
        commits = self.settings.commits_on_stop and not crashes
        self.unread.stop(sorted(stopped), commits=commits)
        return stopped


def _owned(member: SimulatedMember) -> set[int]:
    return set(member.owned.tolist())


class SimulatedClassicGroup(_GroupState):
    """Simulated group of the classic rebalance protocol: members join, the leader assigns, all get
    their partitions.

    A rebalance ends when all known members have rejoined. A member that stopped without LeaveGroup
    delays it until its session times out.
    """

    def __init__(
        self, settings: GroupSettings, clock: Clock, draws: RandomDraws, known: KnownAssignments
    ) -> None:
        super().__init__(settings, clock, draws, known)
        self._joined: set[str] | None = None
        self._round = 0
        self._not_before_ms = 0

    def start(self, key: str) -> None:
        """Let the member with this key join: a new one, or a static member that was away.

        A static member that returns in time gets its old assignment without a rebalance (KIP-345).
        """
        if self.away.pop(key, None) is not None and self._joined is None:
            # KIP-345: the coordinator answers with the present assignment.
            self._take(key, _owned(self.members[key]))
            return
        if key not in self.members:
            if not self.members:
                self._not_before_ms = self.clock.now_ms + _INITIAL_DELAY_MS
            self.members[key] = self._member(key)
        self.heartbeats_ms[key] = self.clock.now_ms
        self._prepare()
        self._rejoin(key, self._round)

    def _remove(self, key: str) -> None:
        del self.members[key]
        if not self.members:
            self._joined = None
            self._round += 1
            return
        self._prepare()
        (self._joined or set()).discard(key)
        self._complete_if_all_joined()

    def _prepare(self, revoked: Iterable[str] = ()) -> None:
        """Begin a rebalance, unless one is in progress; members learn of it with their next
        heartbeat.

        Members whose keys are in ``revoked`` rejoin at once, because they have just revoked
        partitions.
        """
        if self._joined is not None:
            return
        self._joined = set()
        self._round += 1
        at_once = set(revoked)
        for key in self.members:
            if key not in self.away:
                wait = 0.0 if key in at_once else self.until_heartbeat(key)
                wait += self.draws.uniform(0, _POLL_MS)
                self.clock.after(int(wait), partial(self._rejoin, key, self._round))

    def _rejoin(self, key: str, number: int) -> None:
        """Let a member rejoin in rebalance ``number``; an eager member revokes its partitions
        first.
        """
        if number != self._round or self._joined is None or key not in self.members:
            return
        if key in self.away or key in self._joined:
            return
        if self.settings.policy.eager:
            self._halt(key)
        self._joined.add(key)
        self._complete_if_all_joined()

    def _complete_if_all_joined(self) -> None:
        if self._joined is None or not self._joined >= self.members.keys():
            return
        if self.clock.now_ms < self._not_before_ms:
            self.clock.at(self._not_before_ms, self._complete_if_all_joined)
            return
        self._joined = None
        needs_follow_up = self._assign()
        revoked = []
        for key, member in self.members.items():
            target = _owned(member)
            if lost := self.consumed.get(key, set()) - target:
                self.unread.stop(sorted(lost), commits=self.settings.commits_on_stop)
                revoked.append(key)
            self._take(key, target)
        if needs_follow_up:
            self._prepare(revoked)

    def _take(self, key: str, target: set[int]) -> None:
        """Let a member read the partitions in ``target``, which it has just been assigned.

        Its heartbeat timer starts again.
        """
        self.consumed[key] = target
        self.heartbeats_ms[key] = self.clock.now_ms
        self.unread.resume(sorted(target), after_record(0.0).mean)


class SimulatedConsumerGroup(_GroupState):
    """Simulated group of the consumer protocol (KIP-848): the coordinator assigns, members
    reconcile one by one.

    A member learns of its target with its next heartbeat. It revokes first, and takes partitions
    that no other member reads.
    """

    def __init__(
        self, settings: GroupSettings, clock: Clock, draws: RandomDraws, known: KnownAssignments
    ) -> None:
        super().__init__(settings, clock, draws, known)
        self._waiting: set[str] = set()

    def start(self, key: str) -> None:
        """Let the member with this key join: a new one, or a static member that was away.

        A static member that was killed did not announce its absence. The coordinator rejects its
        successor until the session timeout (UNRELEASED_INSTANCE_ID).
        """
        if key in self.away and not self.settings.leaves:
            self.clock.at(self.expires_ms[key], partial(self.start, key), rank=1)
            return
        if self.away.pop(key, None) is None:
            self.members[key] = self._member(key)
            self.heartbeats_ms[key] = self.clock.now_ms
            self._change()
        self._reconcile(key)

    def _remove(self, key: str) -> None:
        del self.members[key]
        if self.members:
            self._change()

    def _change(self) -> None:
        """Compute a new target assignment; each member learns of it with its next heartbeat."""
        self._assign()
        for key in self.members:
            self._await_heartbeat(key)

    def _await_heartbeat(self, key: str) -> None:
        if key not in self._waiting and key not in self.away:
            self._waiting.add(key)
            # Rounded up: a moment before its heartbeat a member would wait for 0 ms for ever.
            self.clock.after(ceil(self.until_heartbeat(key)), partial(self._heartbeat, key))

    def _heartbeat(self, key: str) -> None:
        self._waiting.discard(key)
        if key in self.members and key not in self.away:
            self._reconcile(key)

    def _reconcile(self, key: str) -> None:
        """Let a member reconcile with its target assignment (KIP-848).

        It first revokes partitions outside of the target. If there are none, it takes those
        partitions of the target that no other member reads. It reads revoked partitions until the
        callback of its next ``poll``, and acknowledges then.
        """
        target, consumed = _owned(self.members[key]), self.consumed.get(key, set())
        if lost := consumed - target:
            latency_ms = after_heartbeat(0.0, revokes=True).mean
            self.clock.after(int(latency_ms), partial(self._revoke, key, lost))
            return
        others: set[int] = set()
        for other, partitions in self.consumed.items():
            if other != key:
                others |= partitions
        for other in self.away:  # a member that is away still owns its partitions
            others |= self.partitions_of_away[other]
        taken = target - others
        self.consumed[key] = taken
        self.unread.resume(sorted(taken - consumed), after_heartbeat(0.0).mean)
        if taken != consumed:  # it acknowledges a change at once, and its timer starts again
            self.heartbeats_ms[key] = self.clock.now_ms
        if taken != target:
            self._await_heartbeat(key)

    def _revoke(self, key: str, lost: set[int]) -> None:
        """Let a member revoke the partitions ``lost``, and then reconcile with its target again."""
        if key not in self.consumed or key in self.away:
            return
        self.unread.stop(sorted(lost & self.consumed[key]), commits=self.settings.commits_on_stop)
        self.consumed[key] -= lost
        self.heartbeats_ms[key] = self.clock.now_ms
        self._reconcile(key)
