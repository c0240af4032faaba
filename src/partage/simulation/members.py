"""Members of a simulated group: the partitions that they own, send and consume over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from partage.groups.api import Strategy
from partage.history.problems import existing_owned_partitions
from partage.history.records import MemberState
from partage.history.stop_model import COORDINATOR_HEARTBEAT_MS
from partage.judge import PreviousOwners, previous_owners
from partage.model import NO_GENERATION, Claims, Cluster, Group, Member, Problem
from partage.model.index import Int32Array
from partage.simulation.clock import Clock
from partage.simulation.policies import CONSUMER, Policy

__all__ = [
    "DEPARTED",
    "EMPTY",
    "UNOWNED",
    "ConsumptionListener",
    "ConsumptionTracker",
    "SimulatedMember",
    "build_joined_group",
    "current_or_last_owned",
    "owners_by_partition",
    "previous_owners_of",
]

EMPTY: Int32Array = np.zeros(0, np.int32)
#: Values of an owner view: no owner, and an owner that is no longer in the group.
UNOWNED, DEPARTED = -1, -2


# -- what members own and send -----------------------------------------------------------------


@dataclass(slots=True)
class SimulatedMember:
    """A member of a simulated consumer group, with the partitions that it owns between two
    rebalances.

    Attributes:
        key: instance id or member id, which identifies it. A member that a policy makes static
            keeps its first member id when it restarts.
        state: its last recorded state, such as its subscription.
        owned: indices of its assigned partitions (int32); in the consumer protocol (KIP-848), those
            of its target assignment.
        last_owned: ``owned``, and the partitions that it released and that have no new owner yet
            (int32).
        generation: generation of its last assignment.
        memory: data that the assignment strategy stores for the member between rebalances.
    """

    key: str
    state: MemberState
    owned: Int32Array = field(default_factory=lambda: EMPTY)
    last_owned: Int32Array = field(default_factory=lambda: EMPTY)
    generation: int = NO_GENERATION
    memory: object = None

    @property
    def topics(self) -> tuple[str, ...]:
        """The member's subscribed topics, in the order in which it sent them.

        They are empty if its subscription is unknown.
        """
        subscription = self.state.subscription
        return () if subscription is None else subscription.topics

    @property
    def rack(self) -> str | None:
        """The rack (``client.rack``) that the member sent when it joined; None if it sent none.

        Rack-aware assignors prefer replicas on this rack.
        """
        subscription = self.state.subscription
        return None if subscription is None else subscription.rack

    def instance_id(self, *, static: bool) -> str | None:
        """Return the member's ``group.instance.id``, or None for a dynamic member.

        If ``static`` is true, all members are simulated as static ones; a dynamic member then uses
        its key as instance id.
        """
        return self.state.instance or (self.key if static else None)


def build_joined_group(
    members: Sequence[SimulatedMember], policy: Policy, strategy: Strategy, cluster: Cluster
) -> Group:
    """Build the members of a simulated group as they join a rebalance.

    Each member has its subscription and the partitions that it reports as owned. Eager members
    report none. Cooperative members report those whose topics they still subscribe to. In the
    consumer protocol (KIP-848), the partitions are those of the member's target assignment.
    ``cluster`` has the partitions; ``policy`` has the protocol.

    Raises:
        InvalidProblemError: the record has values that no member can send.
    """
    made = []
    for member in members:
        topics, user_data, claims = member.topics, None, Claims.from_owned(())
        if not policy.eager and len(member.owned):
            claims = existing_owned_partitions(
                cluster.index, _reported_as_owned(member, policy, cluster), cluster
            )
        if policy.eager or policy.cooperative:
            user_data = strategy.subscription_user_data(topics, member.memory)
        made.append(
            Member(
                member.state.id,
                topics,
                rack=member.rack,
                instance_id=member.instance_id(static=policy.static),
                owned=claims,
                generation=member.generation,
                user_data=user_data,
            )
        )
    return Group(made)


def _reported_as_owned(member: SimulatedMember, policy: Policy, cluster: Cluster) -> Int32Array:
    """Return the indices of the partitions that a member reports as owned when it joins (int32).

    In the consumer protocol (KIP-848) they are all partitions of its target assignment. A
    cooperative member reports only partitions of topics that it still subscribes to. ``policy`` has
    the protocol, ``cluster`` the topics.
    """
    if not policy.cooperative:
        return member.owned
    topics = [t for t in cluster.topic_all(list(member.topics)) if t >= 0]
    claimed: Int32Array = member.owned[np.isin(cluster.index.topic_of[member.owned], topics)]
    return claimed


def previous_owners_of(
    members: Sequence[SimulatedMember], problem: Problem, last_owner: Int32Array
) -> PreviousOwners:
    """Return the previous owner of each partition, to count how many partitions a rebalance moves.

    Args:
        members: the members before the rebalance.
        problem: the assignment problem of these members, without reported partitions.
        last_owner: position of each partition's last owner (int32[P]), see `owners_by_partition`.
    """
    owned = sum([len(member.last_owned) for member in members])
    has_owner = last_owner >= 0
    if owned == np.count_nonzero(has_owner):
        has_owner &= problem.cluster.partition_exists
        return PreviousOwners.from_owner_array(np.where(has_owner, last_owner, np.int64(UNOWNED)))
    # In a damaged record several members own a partition: the newest generation counts.
    group = Group(
        member.replaced(
            owned=existing_owned_partitions(problem.index, one.last_owned, problem.cluster),
            generation=max(one.generation, 0),
        )
        for member, one in zip(problem.group, members, strict=True)
    )
    return previous_owners(Problem(group, problem.cluster))


def current_or_last_owned(
    owned_before: Mapping[str, Int32Array], assigned_now: Mapping[str, Int32Array]
) -> dict[str, Int32Array]:
    """Return the partitions that each member owns, or owned last if they have no owner now.

    In the first phase of a cooperative rebalance (KIP-429) a revoked partition has no owner. It
    still counts for its last owner until the second phase assigns it.

    Args:
        owned_before: partitions of each member before the rebalance.
        assigned_now: partitions of each member in the new assignment.
    """
    assigned = np.concatenate([*assigned_now.values(), EMPTY])
    owned = np.concatenate([*owned_before.values(), EMPTY])
    has_owner = np.zeros(max(assigned.max(initial=-1), owned.max(initial=-1)) + 1, bool)
    has_owner[assigned] = True
    out = {}
    for owner, dense in assigned_now.items():
        old = owned_before.get(owner, EMPTY)
        released = old[~has_owner[old]]
        out[owner] = np.concatenate([dense, released]) if len(released) else dense
    return out


def owners_by_partition(
    partition_count: int, owned: Iterable[Int32Array], departed: Iterable[Int32Array] = ()
) -> Int32Array:
    """Return the owner of each partition as an array (int32[P]).

    An owner is the position of its member in ``owned``, -1 for none, or -2 for a member that left.

    Args:
        partition_count: number of partitions (P).
        owned: partition indices of each member.
        departed: partition indices of each member that left.

    >>> owners_by_partition(4, [np.array([0]), np.array([2])], [np.array([3])]).tolist()
    [0, -1, 1, -2]
    """
    owner = np.full(partition_count, UNOWNED, np.int32)
    for dense in departed:
        owner[dense] = DEPARTED
    lists = list(owned)
    sizes = [len(dense) for dense in lists]
    owner[np.concatenate([EMPTY, *lists])] = np.arange(len(lists), dtype=np.int32).repeat(sizes)
    return owner


# -- what members consume at a moment ----------------------------------------------------------

#: Listener called at each change with the time (ms), and a dict from member to the indices of the
#: partitions that it consumes.
ConsumptionListener: TypeAlias = Callable[[int, Mapping[str, Int32Array]], None]


class ConsumptionTracker:
    """Reporter of the partitions that each member consumes during simulated rebalances.

    It calls a listener function at each change. Eager members all stop first; cooperative members
    stop only partitions that they lose. Without a listener nothing is tracked.
    """

    # Eager members stop and resume together. Cooperative members stop consuming partitions that
    # they lose, then take partitions without an owner. Members of a consumer group reconcile at
    # their own heartbeats: they revoke partitions outside of their target, and take partitions of
    # it that no member consumes.
    def __init__(self, clock: Clock, listener: ConsumptionListener | None) -> None:
        self._clock, self._listener = clock, listener
        self._consumed: dict[str, Int32Array] = {}
        self._target: dict[str, Int32Array] = {}

    def owned_partitions(self, members: Sequence[SimulatedMember]) -> Mapping[str, Int32Array]:
        """Return the partitions that each member owns before a rebalance, as a dict by member key.

        The result is empty if no listener function receives changes.
        """
        return {} if self._listener is None else {one.key: one.owned for one in members}

    def apply_assignment(
        self,
        members: Sequence[SimulatedMember],
        owned_before: Mapping[str, Int32Array],
        policy: Policy,
    ) -> None:
        """Change the members' partitions to their new assignment, and report each change to the
        listener.

        Eager members first stop everything. Members of the consumer protocol change one after the
        other, with their next heartbeats.

        Args:
            members: the members with their new assignment.
            owned_before: partitions of each member before the rebalance, by member key.
            policy: the policy; eager members stop everything first.
        """
        if self._listener is None:
            return
        self._target = {one.key: one.owned for one in members}
        if policy.protocol == CONSUMER:
            # A member learns of a new target with its next heartbeat: the first one revokes, the
            # second takes what is free.
            for turn in (1, 2):
                for i, key in enumerate(self._target, 1):
                    wait = COORDINATOR_HEARTBEAT_MS * (turn - 1)
                    wait += COORDINATOR_HEARTBEAT_MS * i // len(self._target)
                    self._clock.schedule_after(
                        wait, partial(self._start_free_partitions, key), rank=-2
                    )
            return
        between = {
            key: EMPTY if policy.eager else owned_before[key][np.isin(owned_before[key], target)]
            for key, target in self._target.items()
        }
        for consumed in (between, dict(self._target)):
            self._consumed = consumed
            self._report_consumed_partitions()

    def remove_member(self, member_key: str) -> None:
        """Stop all partitions of a member that left the simulated group, and report it to the
        listener.

        ``member_key`` identifies the member (`SimulatedMember.key`).
        """
        if self._listener is not None:
            self._target.pop(member_key, None)
            if self._consumed.pop(member_key, None) is not None:
                self._report_consumed_partitions()

    def _start_free_partitions(self, member_key: str) -> None:
        """Let a member consume its assigned partitions, except those that another member still
        consumes.

        Then report to the listener what each member consumes. ``member_key`` identifies the member.
        Nothing happens if the member has left.
        """
        target = self._target.get(member_key)
        if target is None:
            return
        others = [dense for other, dense in self._consumed.items() if other != member_key]
        self._consumed[member_key] = target[~np.isin(target, np.concatenate([*others, EMPTY]))]
        self._report_consumed_partitions()

    def _report_consumed_partitions(self) -> None:
        """Report to the user's listener function which partitions each member consumes now.

        The listener is called with the simulated time (ms) and a dict from member key to partition
        indices.
        """
        if self._listener is not None:
            self._listener(self._clock.now_ms, dict(self._consumed))
