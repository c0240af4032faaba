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
from typing import Any, NamedTuple, Protocol, TypeAlias

from partage.errors import UnsupportedProblemError
from partage.history.records import MemberState, Subscription
from partage.history.stop_model import (
    INITIAL_DELAY_MS,
    after_heartbeat,
    after_record,
    heartbeat_interval,
)
from partage.java.random import JavaRandom
from partage.model import Cluster
from partage.simulation.clock import Clock
from partage.simulation.members import SimulatedMember
from partage.simulation.policies import CONSUMER, Policy
from partage.simulation.rounds import MOST_FOLLOW_UPS, ResolvedPolicy, SharedProblems
from partage.tables.statuses import DONE

__all__ = [
    "DeploymentCosts",
    "GroupSettings",
    "KnownAssignments",
    "RandomDraws",
    "SimulatedClassicGroup",
    "SimulatedConsumerGroup",
    "SimulatedGroup",
]

#: Longest time until a member handles a heartbeat's answer: it must call ``poll``.
_POLL_MS = 200
#: Latencies of the stop model do not depend on the time of the record or heartbeat: time 0 gives
#: the milliseconds until a member reads, and until it revokes.
_READ_AFTER_RECORD_MS = after_record(0.0).mean
_READ_AFTER_HEARTBEAT_MS = after_heartbeat(0.0).mean
_REVOKE_AFTER_HEARTBEAT_MS = after_heartbeat(0.0, revokes=True).mean


class KnownMember(NamedTuple):
    """What a member has after a computed assignment.

    Attributes:
        owned: the partitions of its assignment.
        last_owned: those that it owned last.
        memory: the strategy's memory of it.
    """

    owned: Any
    last_owned: Any
    memory: Any


class KnownAssignment(NamedTuple):
    """A computed assignment.

    Attributes:
        needs_follow_up: whether a second rebalance must follow.
        members: what each member has, in join order.
    """

    needs_follow_up: bool
    members: tuple[KnownMember, ...]


#: Cache of computed assignments, by generation and state of the members.
KnownAssignments: TypeAlias = dict[tuple[int, Any], KnownAssignment]


class RandomDraws:
    """Random number generator with a seed; equal seeds give equal numbers on any machine.

    >>> draws = RandomDraws(7)
    >>> round(draws.uniform(0, 10), 3), 1 < draws.lognormal(2.0, 0.1) < 3
    (7.307, True)
    """

    def __init__(self, seed: int) -> None:
        self._random = JavaRandom.from_seed(seed)

    def uniform(self, low: float, high: float) -> float:
        """Draw a random number that is uniformly distributed from ``low`` to ``high``."""
        number, self._random = self._random.next_int()
        return low + (high - low) * ((number & 0xFFFFFFFF) / 2**32)

    def normal(self) -> float:
        """Draw a random number of the standard normal distribution (Box and Muller)."""
        radius = sqrt(-2 * log(1 - self.uniform(0, 1)))
        return radius * cos(2 * pi * self.uniform(0, 1))

    def lognormal(self, median: float, sigma: float) -> float:
        """Draw a random number of the log-normal distribution with a given median.

        ``sigma`` is the standard deviation of the number's logarithm.
        """
        from math import exp

        return median * exp(sigma * self.normal())


@dataclass(frozen=True)
class GroupSettings:
    """Settings of a simulated consumer group that affect the cost of a member's restart.

    The cost is the time for which partitions have no reader, and the records that are read twice.

    Attributes:
        cluster: the group's topics and partitions.
        policy: protocol, strategy and static membership.
        rates: records per second of each partition (tuple, by dense partition index).
        session_ms: session timeout of the members (ms).
        leaves: whether members shut down cleanly: they send LeaveGroup, or as static members of
            the consumer protocol a heartbeat with epoch -2. False: they are killed.
        commit_ms: interval of a member's offset commits.
        commits_on_stop: whether a member commits when it stops or revokes partitions.
    """

    cluster: Cluster
    policy: Policy
    rates: tuple[float, ...]
    session_ms: float
    leaves: bool
    commit_ms: float
    commits_on_stop: bool


class DeploymentCosts:
    """Time without a reader and records read twice, summed over a simulated rolling deployment.

    Attributes:
        unread_ms: time without a reader, summed over partitions (ms).
        resumed: how often a partition got a reader again.
        reread: number of records read twice.
        last_ms: when a partition last got a reader again (ms).
    """

    def __init__(self, clock: Clock, settings: GroupSettings, draws: RandomDraws) -> None:
        self._clock, self._settings, self._draws = clock, settings, draws
        self._since: dict[int, int] = {}
        self.unread_ms = 0.0
        self.reread = 0.0
        self.resumed = 0
        self.last_ms = 0

    def stop_reading(self, partitions: Iterable[int], *, commits: bool) -> None:
        """Record that no consumer reads some partitions from now on.

        Args:
            partitions: the partitions that lose their reader.
            commits: whether the reader commits its offsets first; otherwise the next reader reads
                some records twice.
        """
        # Drawn in any case, so that forecasts with and without commits have equal random numbers.
        interval_s = self._draws.uniform(0, self._settings.commit_ms) / 1_000
        for p in partitions:
            self._since.setdefault(p, self._clock.now_ms)
            if not commits:
                self.reread += interval_s * self._settings.rates[p]

    def resume_reading(self, partitions: Iterable[int], latency_ms: float) -> None:
        """Record that consumers read these partitions again, and add up the time without a reader.

        Args:
            partitions: the partitions that get a reader.
            latency_ms: milliseconds from now until reading begins.
        """
        for p in partitions:
            since = self._since.pop(p, None)
            if since is not None:
                self.unread_ms += self._clock.now_ms - since + latency_ms
                self.resumed += 1
                self.last_ms = self._clock.now_ms + int(latency_ms)


class SimulatedGroup(Protocol):
    """Interface of a simulated consumer group, whose members stop and start in simulated time.

    Attributes:
        rebalances: number of rebalances so far.
        costs: total time without a reader, and records read twice.
    """

    rebalances: int
    costs: DeploymentCosts

    def create_members(self, keys: Iterable[str]) -> None:
        """Create the group's initial members, without simulating their rebalance.

        ``keys`` name the members: instance ids or pod names.
        """

    def start(self, key: str) -> None:
        """Start a member: a new one, or a static member that was shut down before.

        ``key`` is its instance id or pod name.
        """

    def stop(self, key: str) -> None:
        """Shut down a member: it leaves the group at once, or when its session times out.

        ``key`` is its instance id or pod name.
        """


@dataclass
class _SimulatedGroupBase:
    """Members and owned partitions of a simulated consumer group, for either rebalance protocol.

    Attributes:
        known: cache of computed assignments, by generation and state of the members.
        members: dict from key (instance id or pod name) to member, in join order.
        consumed: dict from key to the partitions that the member reads.
        away: stopped members that are still in the group: dict from key to a serial number, which
            invalidates timers of earlier stops.
        partitions_of_away: dict from the same keys to the partitions that the member read when it
            stopped.
        expires_ms: dict from the same keys to the time of the session timeout.
        heartbeats_ms: dict from key to the time of the member's last timer start; its heartbeats
            follow at equal intervals.
    """

    settings: GroupSettings
    clock: Clock
    draws: RandomDraws
    known: KnownAssignments
    costs: DeploymentCosts = field(init=False)
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
        self.costs = DeploymentCosts(self.clock, self.settings, self.draws)
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
        """Return the simulated time until a member's next heartbeat to the group coordinator (ms).

        ``key`` is its instance id or pod name.
        """
        passed = (self.clock.now_ms - self.heartbeats_ms[key]) % self.heartbeat_ms
        return self.heartbeat_ms - passed

    def create_members(self, keys: Iterable[str]) -> None:
        """Create the group's initial members, without simulating their rebalance.

        ``keys`` name the members: instance ids or pod names.
        """
        for key in keys:
            self.members[key] = self._new_member(key)
            self.heartbeats_ms[key] = self.draws.uniform(0, self.heartbeat_ms)
        for _ in range(1 + MOST_FOLLOW_UPS):
            if not self._assign():
                break
        self.consumed = {key: _owned(one) for key, one in self.members.items()}
        # Each assignment gives its number to all members. Their generations are equal after it, so
        # that the count may begin anew.
        self.rebalances = 0

    def _new_member(self, key: str) -> SimulatedMember:
        """Create a group member with a unique member id.

        ``key`` is its instance id or pod name.
        """
        # The id begins with a pseudo-random number, so that the order of ids is arbitrary as in
        # Kafka, and equal in each simulation.
        self._named += 1
        number, _ = JavaRandom.from_seed(self._named).next_int()
        member_id = f"{number & 0xFFFFFFFF:08x}-{self._named}"
        index = self.settings.cluster.index
        topics = dict.fromkeys(index.name(p)[0] for p in range(index.partitions))
        subscription = Subscription(3, tuple(topics))
        session = int(self.settings.session_ms)
        state = MemberState(
            member_id, None, "", "", session, session, subscription, (), 3, None, None
        )
        return SimulatedMember(key, state)

    def _assign(self) -> bool:
        """Assign partitions to the group's members; return whether a second rebalance must follow.

        Only cooperative strategies need a second rebalance.

        Raises:
            UnsupportedProblemError: the strategy is not applicable.
        """
        # Assignments are cached, because repeated simulations have equal rebalances.
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
            after = tuple(KnownMember(one.owned, one.last_owned, one.memory) for one in members)
            self.known[self.rebalances, state] = KnownAssignment(result.needs_follow_up, after)
            return result.needs_follow_up
        needs_follow_up, after = found
        for one, (owned, last, memory) in zip(members, after, strict=True):
            one.owned, one.last_owned, one.memory = owned, last, memory
            one.generation = self.rebalances
        return needs_follow_up

    def stop(self, key: str) -> None:
        """Shut down a member; ``key`` is its instance id or pod name.

        A dynamic member that shuts down cleanly leaves the group at once. A static or killed member
        remains in it until its session times out.
        """
        is_static, leaves = self.settings.policy.static, self.settings.leaves
        stopped = self._halt(key, crashes=not leaves)
        if is_static or not leaves:
            self._go_away(key, stopped, self._remove)
        else:
            self._remove(key)

    def _remove(self, key: str) -> None:
        """Remove a member that left or was evicted from the consumer group, and begin a rebalance.

        ``key`` is its instance id or pod name.
        """
        raise NotImplementedError

    def _go_away(self, key: str, stopped: set[int], expire: Callable[[str], None]) -> None:
        """Stop a consumer that remains a group member until its session times out.

        Args:
            key: instance id or pod name of the member.
            stopped: partitions that it read.
            expire: function that is called with the key at the session timeout, unless the member
                returns before.
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
        self.clock.schedule_at(self.expires_ms[key], due)

    def _halt(self, key: str, *, crashes: bool = False) -> set[int]:
        """Stop a member's reading; return the partitions that it read.

        Args:
            key: instance id or pod name of the member.
            crashes: whether it stops without committing its offsets.
        """
        stopped = self.consumed.pop(key, set())
        commits = self.settings.commits_on_stop and not crashes
        self.costs.stop_reading(sorted(stopped), commits=commits)
        return stopped


def _owned(member: SimulatedMember) -> set[int]:
    return set(member.owned.tolist())


class SimulatedClassicGroup(_SimulatedGroupBase):
    """Simulated group of the classic rebalance protocol (JoinGroup, SyncGroup).

    A rebalance ends when all known members have rejoined; then each gets its partitions. A member
    that stopped without LeaveGroup delays it until its session times out.
    """

    def __init__(
        self, settings: GroupSettings, clock: Clock, draws: RandomDraws, known: KnownAssignments
    ) -> None:
        super().__init__(settings, clock, draws, known)
        self._joined: set[str] | None = None
        self._round = 0
        self._not_before_ms = 0

    def start(self, key: str) -> None:
        """Start a member: a new one, or a static member that was shut down before.

        ``key`` is its instance id or pod name. A static member that returns before its session
        timeout gets its old assignment without a rebalance (KIP-345).
        """
        if self.away.pop(key, None) is not None and self._joined is None:
            # KIP-345: the coordinator answers with the present assignment.
            self._read_partitions(key, _owned(self.members[key]))
            return
        if key not in self.members:
            if not self.members:
                self._not_before_ms = self.clock.now_ms + INITIAL_DELAY_MS
            self.members[key] = self._new_member(key)
        self.heartbeats_ms[key] = self.clock.now_ms
        self._begin_rebalance()
        self._rejoin(key, self._round)

    def _remove(self, key: str) -> None:
        del self.members[key]
        if not self.members:
            self._joined = None
            self._round += 1
            return
        self._begin_rebalance()
        if self._joined is not None:
            self._joined.discard(key)
        self._complete_if_all_joined()

    def _begin_rebalance(self, revoked: Iterable[str] = ()) -> None:
        """Begin a rebalance of the consumer group, unless one is in progress.

        Members notice the rebalance at their next heartbeat.

        Args:
            revoked: keys of members that rejoin at once, because they have just revoked partitions.
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
        """Add a member to the rebalance in progress, as if its JoinGroup request arrived.

        A member of the eager protocol revokes its partitions first.

        Args:
            key: instance id or pod name of the member.
            number: number of the rebalance.
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
            self.clock.schedule_at(self._not_before_ms, self._complete_if_all_joined)
            return
        self._joined = None
        needs_follow_up = self._assign()
        revoked = []
        for key, member in self.members.items():
            target = _owned(member)
            if lost := self.consumed.get(key, set()) - target:
                self.costs.stop_reading(sorted(lost), commits=self.settings.commits_on_stop)
                revoked.append(key)
            self._read_partitions(key, target)
        if needs_follow_up:
            self._begin_rebalance(revoked)

    def _read_partitions(self, key: str, target: set[int]) -> None:
        """Start a member's reading of its assigned partitions, and restart its heartbeat interval.

        Args:
            key: instance id or pod name of the member.
            target: the assigned partitions.
        """
        self.consumed[key] = target
        self.heartbeats_ms[key] = self.clock.now_ms
        self.costs.resume_reading(sorted(target), _READ_AFTER_RECORD_MS)


class SimulatedConsumerGroup(_SimulatedGroupBase):
    """Simulated group of the consumer protocol (KIP-848), whose members reconcile one by one.

    The coordinator computes target assignments. A member learns of its target with its next
    heartbeat, revokes partitions first, and then reads those that no other member reads.
    """

    def __init__(
        self, settings: GroupSettings, clock: Clock, draws: RandomDraws, known: KnownAssignments
    ) -> None:
        super().__init__(settings, clock, draws, known)
        self._waiting: set[str] = set()

    def start(self, key: str) -> None:
        """Start a member: a new one, or a static member that was shut down before.

        ``key`` is its instance id or pod name. If a static member was killed, the coordinator
        rejects its replacement (UNRELEASED_INSTANCE_ID) until the session times out.
        """
        if key in self.away and not self.settings.leaves:
            # Rank 1: after the timer of the same time that evicts the old member.
            self.clock.schedule_at(self.expires_ms[key], partial(self.start, key), rank=1)
            return
        if self.away.pop(key, None) is None:
            self.members[key] = self._new_member(key)
            self.heartbeats_ms[key] = self.clock.now_ms
            self._update_target()
        self._reconcile(key)

    def _remove(self, key: str) -> None:
        del self.members[key]
        if self.members:
            self._update_target()

    def _update_target(self) -> None:
        """Compute a new target assignment of the consumer group (KIP-848).

        Each member receives its part of the target with its next heartbeat.
        """
        self._assign()
        for key in self.members:
            self._await_heartbeat(key)

    def _await_heartbeat(self, key: str) -> None:
        if key not in self._waiting and key not in self.away:
            self._waiting.add(key)
            # Without rounding up, a fraction of a millisecond becomes a wait of 0 ms, without end.
            self.clock.after(ceil(self.until_heartbeat(key)), partial(self._heartbeat, key))

    def _heartbeat(self, key: str) -> None:
        self._waiting.discard(key)
        if key in self.members and key not in self.away:
            self._reconcile(key)

    def _reconcile(self, key: str) -> None:
        """Bring a member closer to its target assignment (reconciliation of KIP-848).

        It revokes partitions first, then reads new ones. ``key`` is its instance id or pod name.
        """
        # A member revokes partitions in its next ``poll``. It starts to read those partitions of
        # its target that no other member reads.
        target, consumed = _owned(self.members[key]), self.consumed.get(key, set())
        if lost := consumed - target:
            self.clock.after(int(_REVOKE_AFTER_HEARTBEAT_MS), partial(self._revoke, key, lost))
            return
        others: set[int] = set()
        for other, partitions in self.consumed.items():
            if other != key:
                others |= partitions
        for other in self.away:  # a member that is away still owns its partitions
            others |= self.partitions_of_away[other]
        taken = target - others
        self.consumed[key] = taken
        self.costs.resume_reading(sorted(taken - consumed), _READ_AFTER_HEARTBEAT_MS)
        if taken != consumed:  # it acknowledges a change at once, and its timer starts again
            self.heartbeats_ms[key] = self.clock.now_ms
        if taken != target:
            self._await_heartbeat(key)

    def _revoke(self, key: str, lost: set[int]) -> None:
        """Stop a member's reading of some partitions, then continue with its target assignment.

        Args:
            key: instance id or pod name of the member.
            lost: the partitions that it stops reading.
        """
        if key not in self.consumed or key in self.away:
            return
        self.costs.stop_reading(
            sorted(lost & self.consumed[key]), commits=self.settings.commits_on_stop
        )
        self.consumed[key] -= lost
        self.heartbeats_ms[key] = self.clock.now_ms
        self._reconcile(key)
