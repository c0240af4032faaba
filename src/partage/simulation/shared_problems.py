"""Assignment problems of simulated rebalances, shared by the policies of one group.

Policies mostly simulate the same members at the same time. What follows from members and cluster
only (names as numbers, orders, subscribers, racks) is computed once, and a strategy's plan for a
problem with equal content is computed once. Both caches are bounded, and no result depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.groups.api import PlainStrategy, Strategy
from partage.model import Cluster, Group, Member, Plan, Problem
from partage.model.claims import ClaimRows
from partage.model.index import Int32Array
from partage.simulation.members import EMPTY, SimulatedMember, joined_group
from partage.simulation.policies import Policy

__all__ = ["JoinedProblem", "SharedProblems", "hash_arrays"]

#: Entries of each cache; a full one is emptied. Those of the last rebalances are enough, because
#: all policies simulate a rebalance before the next one.
_MOST_CACHED = 512


class JoinedProblem(NamedTuple):
    """The assignment problem of members as they joined a simulated rebalance.

    Attributes:
        problem: the problem.
        members: the problem of the same members without claims.
        content: a key that only equal problems of these members share; None if unknown.
    """

    problem: Problem
    members: Problem
    content: object = None


class SharedProblems:
    """Assignment problems of one group's simulated rebalances, with the assignments of strategies.

    Policies that lead to equal problems share them.
    """

    def __init__(self) -> None:
        self._without_claims: dict[object, tuple[object, Problem]] = {}
        self._plans: dict[object, tuple[Problem, Strategy, Plan]] = {}

    def without_claims(
        self, members: Sequence[SimulatedMember], cluster: Cluster, *, static: bool
    ) -> Problem:
        """Return the assignment problem of members that send no owned partitions.

        Args:
            members: the members in join order.
            cluster: the cluster metadata at that time.
            static: whether the policy makes all members static (KIP-345).

        Raises:
            InvalidProblemError: the record has values that no member can send.
        """
        states = [member.state for member in members]
        instances = [member.instance_id(static=static) for member in members]
        key = (id(cluster), tuple(map(id, states)), tuple(instances))
        known = self._without_claims.get(key)
        if known is None:
            group = Group(
                Member(one.state.id, one.topics, rack=one.rack, instance_id=instance)
                for one, instance in zip(members, instances, strict=True)
            )
            _make_room(self._without_claims)
            # The entry holds states and cluster, so that the ids in the key stay theirs.
            known = self._without_claims[key] = states, _prepared(Problem(group, cluster))
        return known[1]

    def join(
        self,
        members: Sequence[SimulatedMember],
        policy: Policy,
        strategy: Strategy,
        cluster: Cluster,
        *,
        sent: Group | None = None,
    ) -> JoinedProblem:
        """Return the assignment problem of members as they join a rebalance under a policy.

        A strategy that does not read claims gets members without claims. A plug-in may read
        anything, and may send anything as user data: its members are validated.

        Args:
            members: the members in join order.
            policy: the policy.
            strategy: the strategy that the policy uses.
            cluster: the cluster metadata at that time.
            sent: the same members as they joined in the record; None to derive what they send.

        Raises:
            InvalidProblemError: the record has values that no member can send.
        """
        shared = self.without_claims(members, cluster, static=policy.static)
        built_in = _built_in(strategy)
        nothing_sent = JoinedProblem(shared, shared, ())
        if built_in is not None and not built_in.reads_claims and not policy.cooperative:
            return nothing_sent
        if built_in is None or sent is not None:
            group = sent or joined_group(members, policy, strategy, cluster)
            return JoinedProblem(Problem(group, cluster), shared)
        user_data: list[bytes | None] = [None] * len(members)
        if policy.eager or policy.cooperative:
            user_data = [strategy.subscription_user_data(m.topics, m.memory) for m in members]
        start, claimed = _claimed(members, policy, shared)
        is_sent = len(claimed) > 0 or any(data is not None for data in user_data)
        if not is_sent and not built_in.reads_generation:
            return nothing_sent
        generations = [member.generation for member in members]
        rows = ClaimRows.of_partitions(cluster.index, start, claimed)
        group = shared.group.rejoined(rows, generations, user_data)
        problem = shared.rejoined(group, (start.astype(np.int32), claimed))
        content = (hash_arrays(start, claimed), tuple(generations), tuple(user_data))
        return JoinedProblem(problem, shared, content)

    def assign(self, strategy: Strategy, joined: JoinedProblem, memory: object) -> Plan:
        """Return the assignment that a strategy computes; equal problems are solved once.

        Args:
            strategy: the strategy. A plug-in may decide by other things than the problem, so its
                assignments are not cached.
            joined: the problem.
            memory: the data that the strategy has stored for the leader.
        """
        if joined.content is None:
            return strategy.assign(joined.problem, memory)
        key = (id(strategy), id(joined.members), joined.content, memory)
        try:
            known = self._plans.get(key)
        except TypeError:  # a memory with a dict
            return strategy.assign(joined.problem, memory)
        if known is None:
            plan = strategy.assign(joined.problem, memory)
            _make_room(self._plans)
            # The entry holds members and strategy, so that the ids in the key stay theirs.
            known = self._plans[key] = joined.members, strategy, plan
        return known[2]


def _built_in(strategy: object) -> PlainStrategy | None:
    """Return the strategy if it is one of Partage's own, which declares its inputs; else None."""
    if isinstance(strategy, PlainStrategy) and strategy.__module__.startswith("partage."):
        return strategy
    return None


def _prepared(problem: Problem) -> Problem:
    """Compute the cached facts that all problems of the same members share,
    and return the problem.
    """
    _ = problem.subscription_topics, problem.member_rack
    return problem


def _claimed(
    members: Sequence[SimulatedMember], policy: Policy, problem: Problem
) -> tuple[NDArray[np.int64], Int32Array]:
    """Return the partitions that members send as owned, as compressed rows (CSR).

    The first array has where each member's partitions begin in the second one (partition indices).
    Eager members own nothing. Cooperative members send existing partitions of topics that they
    still subscribe to. For a coordinator these are all existing partitions of their targets.
    """
    start = np.zeros(len(members) + 1, np.int64)
    if policy.eager:
        return start, EMPTY
    owned = np.concatenate([EMPTY, *(member.owned for member in members)])
    member = np.repeat(np.arange(len(members)), [len(one.owned) for one in members])
    sent = problem.cluster.partition_exists[owned]
    if policy.cooperative:
        sent &= _subscribes(problem, member, problem.index.topic_of[owned])
    np.cumsum(np.bincount(member[sent], minlength=len(members)), out=start[1:])
    return start, owned[sent]


def _subscribes(
    problem: Problem, member: NDArray[np.int64], topic: Int32Array
) -> NDArray[np.bool_]:
    """Return for pairs of a member and a topic whether the member subscribes to it (bool[n])."""
    topics = len(problem.index.topics)
    if len(problem.subscription_topics) == 1:
        is_wanted = np.zeros(topics, bool)
        is_wanted[problem.subscription_topics[0]] = True
        return is_wanted[topic]
    wanted = [s * topics + t.astype(np.int64) for s, t in enumerate(problem.subscription_topics)]
    pairs = problem.group.subscription_of[member] * np.int64(topics) + topic
    return np.isin(pairs, np.concatenate([EMPTY, *wanted]))


def _make_room(cache: dict[object, Any]) -> None:
    if len(cache) >= _MOST_CACHED:
        cache.clear()


def hash_arrays(*arrays: NDArray[Any]) -> bytes:
    """Return a 16-byte hash of the contents of some arrays, as a key for caches."""
    sizes = b"".join([len(array).to_bytes(8, "little") for array in arrays])
    content = b"".join([array.tobytes() for array in arrays])
    return blake2b(sizes + content, digest_size=16).digest()
