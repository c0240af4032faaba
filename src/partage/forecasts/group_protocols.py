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

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import Any, NamedTuple, TypeAlias

from partage.errors import UnsupportedProblemError
from partage.forecasts.random_draws import RandomDraws
from partage.history.records import MemberState, Subscription
from partage.history.stop_model import (
    INITIAL_DELAY_MS,
    after_heartbeat,
    after_record,
    heartbeat_interval,
)
from partage.java.random import JavaRandom
from partage.model import NO_GENERATION, Cluster
from partage.model.index import Int32Array
from partage.simulation.clock import Clock
from partage.simulation.members import SimulatedMember
from partage.simulation.policies import CONSUMER, Policy
from partage.simulation.rounds import MOST_FOLLOW_UPS, ResolvedPolicy, SharedProblems

__all__ = [
    "AssignmentCache",
    "DeploymentCosts",
    "GroupSettings",
    "SimulatedClassicGroup",
    "SimulatedConsumerGroup",
    "SimulatedGroup",
]

#: Longest time until a member handles a heartbeat's answer: it must call ``poll``.
_POLL_MS = 200
_NOTHING: frozenset[int] = frozenset()
#: Members of stored assignments, together; about 300 bytes each. A full cache is emptied.
_MOST_KNOWN = 300_000
#: Latencies of the stop model do not depend on the time of the record or heartbeat: time 0 gives
#: the milliseconds until a member reads, and until it revokes.
_READ_AFTER_RECORD_MS = after_record(0.0).mean
_READ_AFTER_HEARTBEAT_MS = after_heartbeat(0.0).mean
_REVOKE_AFTER_HEARTBEAT_MS = after_heartbeat(0.0, revokes=True).mean


class CachedMember(NamedTuple):
    """Immutable copy of a simulated group member between two rebalances, from which it can be
    restored.

    Attributes:
        state: data that the member sent when it joined.
        owned: the partitions of its assignment (int32).
        last_owned: ``owned`` and partitions that it released and that have no new owner (int32).
        memory: data about the member that the assignment strategy keeps between rebalances.
        target: ``owned`` as a set.
        number: key for caches: equal for members with equal ids, state and assignments.
        is_new: whether it has had no assignment yet.
    """

    state: MemberState
    owned: Int32Array
    last_owned: Int32Array
    memory: Any
    target: frozenset[int]
    number: int
    is_new: bool


class CachedAssignment(NamedTuple):
    """Assignment of partitions that a strategy has computed in a simulation, for a cache.

    Attributes:
        generation: the number of its generation, which all its members have.
        needs_follow_up: whether a second rebalance must follow.
        has_all: whether each partition has an owner.
        members: the members after the assignment, in join order.
    """

    generation: int
    needs_follow_up: bool
    has_all: bool
    members: tuple[CachedMember, ...]


class AssignmentCache:
    """Cache of computed assignments, which repeated simulations with equal settings share.

    Such simulations have equal rebalances, so each assignment is computed once. The key of an
    assignment is its members' ids and partitions.

    Attributes:
        problems: cache of the strategy's inputs.
    """

    def __init__(self) -> None:
        self.problems = SharedProblems()
        self._assignments: dict[tuple[int, ...], CachedAssignment] = {}
        self._stored = 0
        self._states: list[MemberState] = []
        self._targets: dict[bytes, frozenset[int]] = {}
        self._numbers: dict[tuple[Any, ...], int] = {}

    def find(self, members: Iterable[CachedMember]) -> CachedAssignment | None:
        """Return the cached assignment for these members, in join order; None if there is none."""
        return self._assignments.get(tuple([one.number for one in members]))

    def store(self, members: Iterable[CachedMember], assignment: CachedAssignment) -> None:
        """Store the assignment that was computed for these members, in join order."""
        self._stored += len(assignment.members)
        if self._stored > _MOST_KNOWN:
            self._assignments.clear()
            self._stored = len(assignment.members)
        self._assignments[tuple([one.number for one in members])] = assignment

    def member(self, member: SimulatedMember, *, is_new: bool) -> CachedMember:
        """Copy a simulated member between two rebalances to an immutable record.

        ``is_new`` says that the member has had no assignment yet.
        """
        content = member.owned.tobytes()
        target = self._targets.get(content)
        if target is None:
            target = self._targets[content] = frozenset(member.owned.tolist())
        key = (member.key, member.state.id, is_new, content)
        number = self._numbers.setdefault(key, len(self._numbers))
        owned = member.owned, member.last_owned
        return CachedMember(member.state, *owned, member.memory, target, number, is_new)

    def state(self, number: int, settings: GroupSettings) -> MemberState:
        """Return the data that a new member of the simulated group sends when it joins.

        Args:
            number: number of the member: 1 for the first one that is created.
            settings: settings of the group.
        """
        if not self._states:
            index = settings.cluster.index
            topics = tuple(dict.fromkeys(index.name(p)[0] for p in range(index.partitions)))
            session = int(settings.session_ms)
            self._states.append(
                MemberState(
                    "", None, "", "", session, session, Subscription(3, topics), (), 3, None, None
                )
            )
        while len(self._states) <= number:
            # The id begins with a pseudo-random number, so that the order of ids is arbitrary as
            # in Kafka, and equal in each simulation.
            random, _ = JavaRandom.from_seed(len(self._states)).next_int()
            member_id = f"{random & 0xFFFFFFFF:08x}-{len(self._states)}"
            self._states.append(replace(self._states[0], id=member_id))
        return self._states[number]


@dataclass(frozen=True)
class GroupSettings:
    """Settings of a simulated consumer group that affect the cost of a member's restart.

    The cost is the time in which partitions have no consumer, and the records that are read twice.

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
    """Costs of a simulated rolling deployment: time without a consumer, and records read twice.

    They are added up while the simulation runs.

    Attributes:
        unread_ms: time without a consumer, summed over partitions (ms).
        resumed: how often a partition got a consumer again.
        reread: number of records read twice.
        last_ms: when a partition last got a consumer again (ms).
    """

    def __init__(self, clock: Clock, settings: GroupSettings, draws: RandomDraws) -> None:
        self._clock, self._settings, self._draws = clock, settings, draws
        self._since: dict[int, int] = {}
        self.unread_ms = 0.0
        self.reread = 0.0
        self.resumed = 0
        self.last_ms = 0

    def stop_reading(self, partitions: Collection[int], *, commits: bool) -> None:
        """Record that some partitions have lost their consumer at this simulated time.

        Args:
            partitions: the partitions that lose their consumer.
            commits: whether the consumer commits its offsets first; otherwise the next one reads
                some records twice.
        """
        now_ms, since = self._clock.now_ms, self._since
        for p in partitions:
            since.setdefault(p, now_ms)
        # Drawn in any case, so that forecasts with and without commits have equal random numbers.
        if commits:
            self._draws.skip()
            return
        interval_s = self._draws.uniform(0, self._settings.commit_ms) / 1_000
        for p in sorted(partitions):  # sums of floats depend on the order
            self.reread += interval_s * self._settings.rates[p]

    def resume_reading(self, partitions: Iterable[int], latency_ms: float) -> None:
        """Record that some partitions get a consumer again, and add up how long they had none.

        Args:
            partitions: the partitions that get a consumer.
            latency_ms: milliseconds from now until reading begins.
        """
        if self._since:
            waiting = self._since
            stopped_ms = [waiting.pop(p) for p in partitions if p in waiting]
            self._add(stopped_ms, latency_ms)

    def resume_all(self, latency_ms: float) -> None:
        """Record that every partition without a consumer gets one again, and add up the time
        without.

        ``latency_ms`` is the time from now until reading begins (ms).
        """
        self._add(self._since.values(), latency_ms)
        self._since.clear()

    def _add(self, stopped_ms: Collection[int], latency_ms: float) -> None:
        """Add the time from the loss of partitions' consumers until they are consumed again.

        ``stopped_ms`` has the time at which each partition lost its consumer. Consumption begins
        after ``latency_ms``.
        """
        if stopped_ms:
            now_ms, count = self._clock.now_ms, len(stopped_ms)
            self.unread_ms += count * (now_ms + latency_ms) - sum(stopped_ms)
            self.resumed += count
            self.last_ms = now_ms + int(latency_ms)


@dataclass
class _SimulatedGroupBase:
    """Members and owned partitions of a simulated consumer group; base of both rebalance protocols.

    Attributes:
        rebalances: number of rebalances so far.
        costs: total time without a consumer, and records read twice.
        cache: cache of computed assignments.
        members: dict from key (instance id or pod name) to member, in join order.
        consumed: dict from key to the partitions that the member reads.
        away: stopped members that are still in the group: dict from key to a serial number, which
            invalidates timers of earlier stops.
        partitions_of_away: dict from the same keys to the partitions that the member read when it
            stopped.
        expires_ms: dict from the same keys to the time of the session timeout.
        heartbeats_ms: dict from key to the time of the member's last timer start; its heartbeats
            follow at equal intervals.
        heartbeat_ms: heartbeat interval of the members (ms), derived from the session timeout.
    """

    settings: GroupSettings
    clock: Clock
    draws: RandomDraws
    cache: AssignmentCache
    costs: DeploymentCosts = field(init=False)
    members: dict[str, CachedMember] = field(default_factory=dict)
    consumed: dict[str, frozenset[int]] = field(default_factory=dict)
    away: dict[str, int] = field(default_factory=dict)
    partitions_of_away: dict[str, frozenset[int]] = field(default_factory=dict)
    expires_ms: dict[str, int] = field(default_factory=dict)
    heartbeats_ms: dict[str, float] = field(default_factory=dict)
    heartbeat_ms: float = field(init=False)
    rebalances: int = 0
    _generation: int = 0
    _stops: int = 0
    _named: int = 0

    def __post_init__(self) -> None:
        self.costs = DeploymentCosts(self.clock, self.settings, self.draws)
        policy = self.settings.policy
        if policy.strategy is None:
            raise UnsupportedProblemError("the policy names no strategy")
        self.resolved = ResolvedPolicy(policy, policy.strategy)
        classic = policy.protocol != CONSUMER
        self.heartbeat_ms = heartbeat_interval(self.settings.session_ms, classic=classic)

    def until_heartbeat(self, key: str) -> float:
        """Return the simulated time (ms) until a member's next heartbeat to the group coordinator.

        ``key`` is the member's instance id or pod name.
        """
        passed = (self.clock.now_ms - self.heartbeats_ms[key]) % self.heartbeat_ms
        return self.heartbeat_ms - passed

    def create_members(self, keys: Iterable[str]) -> None:
        """Create the initial members of the simulated group, and assign all partitions to them.

        The rebalances that this takes are not counted. ``keys`` name the members: instance ids or
        pod names.
        """
        for key in keys:
            self.members[key] = self._new_member(key)
            self.heartbeats_ms[key] = self.draws.uniform(0, self.heartbeat_ms)
        for _ in range(1 + MOST_FOLLOW_UPS):
            if not self._assign().needs_follow_up:
                break
        self.consumed = {key: one.target for key, one in self.members.items()}
        self.rebalances = 0

    def _new_member(self, key: str) -> CachedMember:
        """Create a member of the simulated group with a new, unique member id.

        ``key`` is its instance id or pod name.
        """
        self._named += 1
        state = self.cache.state(self._named, self.settings)
        return self.cache.member(SimulatedMember(self._identity(key, state), state), is_new=True)

    def _identity(self, key: str, state: MemberState) -> str:
        """Return the id by which assignment strategies identify a member.

        It is the instance id (``key``) of a static member, else the member id in ``state``.
        """
        return key if self.settings.policy.static else state.id

    def _assign(self) -> CachedAssignment:
        """Assign partitions to the members of the simulated group with its strategy.

        The assignment is taken from the cache if it was computed before.

        Raises:
            UnsupportedProblemError: the strategy is not applicable.
        """
        self.rebalances += 1
        found = self.cache.find(self.members.values())
        if found is None:
            found = self._compute_assignment()
            self.cache.store(self.members.values(), found)
        self._generation = found.generation
        self.members = dict(zip(self.members, found.members, strict=True))
        return found

    def _compute_assignment(self) -> CachedAssignment:
        """Compute the members' next assignment with the group's strategy, without the cache.

        Raises:
            UnsupportedProblemError: the strategy is not applicable.
        """
        members = [
            SimulatedMember(
                self._identity(key, one.state), one.state, one.owned, one.last_owned,
                NO_GENERATION if one.is_new else self._generation, one.memory,
            )
            for key, one in self.members.items()
        ]  # fmt: skip
        generation, cluster = self._generation + 1, self.settings.cluster
        result = self.resolved.simulate_rebalance(
            members, cluster, generation, self.cache.problems, leader=members[0].state.id
        )
        if result.plan is None:
            raise UnsupportedProblemError(result.detail or "the strategy has no plan")
        after = tuple([self.cache.member(one, is_new=False) for one in members])
        has_all = bool((result.plan.owner >= 0).all())
        return CachedAssignment(generation, result.needs_follow_up, has_all, after)

    def stop(self, key: str) -> None:
        """Shut down a member; ``key`` is its instance id or pod name.

        A dynamic member that shuts down cleanly leaves the group at once. A static or killed member
        remains in the group until its session times out.
        """
        is_static, leaves = self.settings.policy.static, self.settings.leaves
        stopped = self._stop_consuming(key, crashes=not leaves)
        if is_static or not leaves:
            self._go_away(key, stopped, self._remove)
        else:
            self._remove(key)

    def _remove(self, key: str) -> None:
        """Remove a member that left or was evicted from the simulated group, and begin a rebalance.

        ``key`` is its instance id or pod name.
        """
        raise NotImplementedError

    def _go_away(self, key: str, stopped: frozenset[int], expire: Callable[[str], None]) -> None:
        """Mark a stopped member, and schedule its removal from the group at its session timeout.

        Args:
            key: instance id or pod name of the member.
            stopped: partitions that it read.
            expire: function that is called with the key at the session timeout, unless the member
                returns before.
        """
        self.partitions_of_away[key] = stopped
        wait = self.settings.session_ms - self.heartbeat_ms + self.until_heartbeat(key)
        self._start_session_timer(key, max(0.0, wait), expire)

    def _start_session_timer(self, key: str, wait_ms: float, expire: Callable[[str], None]) -> None:
        """Schedule the eviction of a stopped member at its session timeout; cancel an earlier
        schedule.

        Args:
            key: instance id or pod name of the member.
            wait_ms: milliseconds until its session times out.
            expire: function that is called with the key then, unless the member returns before.
        """
        self._stops += 1
        self.away[key] = number = self._stops

        def due() -> None:
            if self.away.get(key) == number:
                del self.away[key]
                expire(key)

        self.expires_ms[key] = self.clock.now_ms + int(wait_ms)
        self.clock.schedule_at(self.expires_ms[key], due)

    def _stop_consuming(self, key: str, *, crashes: bool = False) -> frozenset[int]:
        """Stop a member's consumption and return the partitions that it consumed.

        Args:
            key: instance id or pod name of the member.
            crashes: whether it stops without committing its offsets.
        """
        stopped = self.consumed.pop(key, _NOTHING)
        commits = self.settings.commits_on_stop and not crashes
        self.costs.stop_reading(stopped, commits=commits)
        return stopped


class SimulatedClassicGroup(_SimulatedGroupBase):
    """Simulated group of the classic rebalance protocol (JoinGroup, SyncGroup).

    A rebalance ends when all known members have rejoined; then each gets its partitions. A member
    that stopped without LeaveGroup delays it until its session times out.

    A member that stops after it rejoined does not delay the rebalance. No member reads its new
    partitions until its session times out. If it is the leader, whose SyncGroup request is missing,
    all other members wait for their assignments until then.
    """

    def __init__(
        self, settings: GroupSettings, clock: Clock, draws: RandomDraws, cache: AssignmentCache
    ) -> None:
        super().__init__(settings, clock, draws, cache)
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
            self._read_partitions(key, self.members[key].target)
            return
        if not self.members:
            self._not_before_ms = self.clock.now_ms + INITIAL_DELAY_MS
        # A static member, too: its new process owns no partitions.
        self.members[key] = self._new_member(key)
        self.heartbeats_ms[key] = self.clock.now_ms
        self._begin_rebalance()
        self._rejoin(key, self._round)

    def stop(self, key: str) -> None:
        """Shut down a member, which leaves the group at once or when its session times out.

        A member that waits for the end of a rebalance is not evicted before the rebalance ends.
        """
        super().stop(key)
        # ClassicGroupMember.hasSatisfiedHeartbeat
        if self._joined is not None and key in self._joined and key in self.away:
            self._stops += 1
            self.away[key] = self._stops  # its timer becomes invalid

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
        """Begin a rebalance of the simulated group, unless one is in progress.

        The other members notice it at their next heartbeat.

        Args:
            revoked: keys of members that rejoin at once, because they have just revoked partitions.
        """
        if self._joined is not None:
            return
        self._joined = set()
        self._round += 1
        at_once, waits = set(revoked), []
        for key in self.members:
            if key not in self.away:
                wait = 0.0 if key in at_once else self.until_heartbeat(key)
                waits.append((int(wait + self.draws.uniform(0, _POLL_MS)), key))
        self.clock.after_each(waits, partial(self._rejoin, number=self._round))

    def _rejoin(self, key: str, number: int) -> None:
        """Let a member join the rebalance in progress, as if its JoinGroup request arrived.

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
            self._stop_consuming(key)
        self._joined.add(key)
        self._complete_if_all_joined()

    def _complete_if_all_joined(self) -> None:
        # All that joined are members.
        if self._joined is None or len(self._joined) < len(self.members):
            return
        if self.clock.now_ms < self._not_before_ms:
            self.clock.schedule_at(self._not_before_ms, self._complete_if_all_joined)
            return
        for key in self.away:  # their sessions start again when the rebalance ends
            self._start_session_timer(key, self.settings.session_ms, self._remove)
        if next(iter(self.members)) in self.away:
            self._joined -= self.away.keys()
            return
        self._joined = None
        found = self._assign()
        if self.settings.policy.eager and found.has_all and not self.away:
            # All members have revoked everything.
            self.consumed.update((key, one.target) for key, one in self.members.items())
            self.heartbeats_ms.update(dict.fromkeys(self.members, self.clock.now_ms))
            self.costs.resume_all(_READ_AFTER_RECORD_MS)
            return
        revoked = []
        for key, member in self.members.items():
            if key in self.away:
                continue
            if lost := self.consumed.get(key, _NOTHING) - member.target:
                self.costs.stop_reading(lost, commits=self.settings.commits_on_stop)
                revoked.append(key)
            self._read_partitions(key, member.target)
        # A stopped member that should revoke partitions does not rejoin for it.
        if found.needs_follow_up and (revoked or not self.away):
            self._begin_rebalance(revoked)

    def _read_partitions(self, key: str, target: frozenset[int]) -> None:
        """Let a member consume its assigned partitions, and restart its heartbeat timer.

        Args:
            key: instance id or pod name of the member.
            target: the assigned partitions.
        """
        self.consumed[key] = target
        self.heartbeats_ms[key] = self.clock.now_ms
        self.costs.resume_reading(target, _READ_AFTER_RECORD_MS)


class SimulatedConsumerGroup(_SimulatedGroupBase):
    """Simulated group of the consumer protocol (KIP-848), whose members reconcile one by one.

    The coordinator computes target assignments. A member learns its target with its next heartbeat.
    It first revokes partitions, and then reads new ones as soon as no other member reads them.
    """

    def __init__(
        self, settings: GroupSettings, clock: Clock, draws: RandomDraws, cache: AssignmentCache
    ) -> None:
        super().__init__(settings, clock, draws, cache)
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
        """Compute a new target assignment of the simulated group (KIP-848).

        Each member receives its part of the target with its next heartbeat.
        """
        self._assign()
        for key in self.members:
            self._await_heartbeat(key)

    def _await_heartbeat(self, key: str) -> None:
        if key not in self._waiting and key not in self.away:
            self._waiting.add(key)
            # Without rounding up, a fraction of a millisecond becomes a wait of 0 ms, without end.
            self.clock.schedule_after(
                ceil(self.until_heartbeat(key)), partial(self._heartbeat, key)
            )

    def _heartbeat(self, key: str) -> None:
        self._waiting.discard(key)
        if key in self.members and key not in self.away:
            self._reconcile(key)

    def _reconcile(self, key: str) -> None:
        """Let a member revoke partitions that its target assignment lacks, then consume the new
        ones.

        This is the reconciliation of KIP-848. ``key`` is the member's instance id or pod name.
        """
        # A member revokes partitions in its next ``poll``. It starts to read those partitions of
        # its target that no other member reads.
        target, consumed = self.members[key].target, self.consumed.get(key)
        if target == consumed:
            return
        consumed = _NOTHING if consumed is None else consumed
        if lost := consumed - target:
            self.clock.schedule_after(
                int(_REVOKE_AFTER_HEARTBEAT_MS), partial(self._revoke, key, lost)
            )
            return
        missing = target - consumed
        for other, partitions in self.consumed.items():
            if other != key and not missing.isdisjoint(partitions):
                missing -= partitions
        for other in self.away:  # a member that is away still owns its partitions
            missing -= self.partitions_of_away[other]
        self.consumed[key] = taken = consumed | missing
        self.costs.resume_reading(missing, _READ_AFTER_HEARTBEAT_MS)
        if missing:  # it acknowledges a change at once, and its timer starts again
            self.heartbeats_ms[key] = self.clock.now_ms
        if taken != target:
            self._await_heartbeat(key)

    def _revoke(self, key: str, lost: frozenset[int]) -> None:
        """Stop a member's consumption of some partitions, then continue with its target assignment.

        Args:
            key: instance id or pod name of the member.
            lost: the partitions that it stops reading.
        """
        if key not in self.consumed or key in self.away:
            return
        self.costs.stop_reading(lost & self.consumed[key], commits=self.settings.commits_on_stop)
        self.consumed[key] -= lost
        self.heartbeats_ms[key] = self.clock.now_ms
        self._reconcile(key)


#: A simulated group of either protocol.
SimulatedGroup: TypeAlias = SimulatedClassicGroup | SimulatedConsumerGroup
