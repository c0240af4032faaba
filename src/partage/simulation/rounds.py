"""One simulated rebalance: members join, the strategy assigns, members get their part.

Policies mostly simulate the same members at the same time. `SharedProblems` computes once what
follows from members and cluster only (names as numbers, orders, subscribers, racks), and a
strategy's plan for a problem with equal content. Its caches are bounded, and no result depends on
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import PartageError
from partage.groups.api import PlainStrategy, Strategy
from partage.groups.sticky.api import StickyMemory
from partage.groups.sticky.claims import cooperative_generation
from partage.history.records import MemberState
from partage.judge import PreviousOwners
from partage.model import (
    NO_GENERATION,
    Assignment,
    Cluster,
    Group,
    Member,
    Plan,
    Problem,
    RejoinedGroup,
    ReportedPartitions,
)
from partage.model.claims import ClaimRows
from partage.model.index import Index, Int32Array
from partage.simulation.members import (
    EMPTY,
    SimulatedMember,
    build_joined_group,
    current_or_last_owned,
    owners_by_partition,
    previous_owners_of,
)
from partage.simulation.policies import CONSUMER, Policy, recorded_protocol, recorded_strategy
from partage.simulation.recorded_rebalances import RecordedRebalance
from partage.tables.statuses import DONE, FAILED, REFUSED

__all__ = [
    "MOST_FOLLOW_UPS",
    "JoinedProblem",
    "ResolvedPolicy",
    "RoundResult",
    "SharedProblems",
    "content_key",
    "equals_dynamic_members",
    "max_cache_entries",
]

#: A cooperative group settles in one follow-up; more are allowed for strategies that need them.
MOST_FOLLOW_UPS = 3
#: Characters of a foreign exception's text in a row.
_LONGEST_ERROR = 500


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of one simulated rebalance: the new assignment, or the reason why there is none.

    There is none if the assignment strategy does not support the input or raises an exception.

    Attributes:
        status: done, refused (the strategy is not applicable) or failed.
        group: the members, without partitions that they report as owned.
        old_owners: the previous owners, to count moves.
        last_owner: position of each partition's last owner (int32[P]), see `owners_by_partition`.
        plan: the new assignment; None if ``status`` is not done.
        detail: why there is no assignment.
        needs_follow_up: whether a cooperative member lost a partition that it reported as owned, so
            that it rejoins.
    """

    status: str
    group: Group | None = None
    old_owners: PreviousOwners | None = None
    last_owner: Int32Array | None = None
    plan: Plan | None = None
    detail: str | None = None
    needs_follow_up: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedPolicy:
    """A policy (group configuration) together with the assignment strategy that it runs.

    The policy ``own`` is the recorded configuration. Its strategy is that of the recorded
    rebalance, so it may change over time.

    Attributes:
        policy: gives the protocol, and whether members are static.
        strategy: computes the assignment; for policy `own` it is the recorded strategy.
    """

    policy: Policy
    strategy: Strategy

    @classmethod
    def resolve(cls, policy: Policy, rebalance: RecordedRebalance) -> ResolvedPolicy | None:
        """Combine a policy (group configuration) with the assignment strategy that it uses in a
        rebalance.

        For the policy ``own``, this is the strategy of the recorded rebalance. The result is None
        if Partage does not have that strategy.
        """
        if policy.strategy is not None:
            return cls(policy, policy.strategy)
        generation = rebalance.generation
        strategy = recorded_strategy(generation)
        if strategy is None:
            return None
        return cls(
            policy.with_protocol_and_strategy(recorded_protocol(generation), strategy), strategy
        )

    @property
    def stores_member_data(self) -> bool:
        """True if the assignment strategy stores data of members between two rebalances.

        For example, sticky strategies store the previous assignment of each member.
        """
        return _strategy_stores_member_data(self.strategy)

    @property
    def reads_claims(self) -> bool:
        """True if the assignment depends on data that members send besides their subscriptions.

        An example are the partitions that they report as owned. It is true for a plug-in, because
        only built-in strategies declare that they ignore such data.
        """
        built_in = _built_in_or_none(self.strategy)
        return built_in is None or built_in.reads_claims or self.policy.cooperative

    def compute_member_data(self, member: SimulatedMember, index: Index) -> object:
        """Compute the data that a strategy would have stored for a member with its current
        partitions.

        They are needed when the member restarts or the group changes to this strategy. ``index``
        numbers the partitions. If the strategy raises an exception, the result is a placeholder,
        and the next `simulate_rebalance` reports the failure.
        """
        if not _strategy_stores_member_data(self.strategy):
            return None
        owned = member.owned if _reads_assignment(self.strategy) else EMPTY
        part: Assignment = Assignment.from_lists(index, (member.state.id,), [owned])
        try:
            return self.strategy.on_assignment(part, None, member.generation, None)
        except MemoryError:
            raise
        except Exception as e:  # noqa: BLE001 - foreign code may raise anything
            return _FailedMemory(_error_text(e))

    def simulate_rebalance(
        self,
        members: Sequence[SimulatedMember],
        cluster: Cluster,
        generation: int,
        shared: SharedProblems,
        *,
        leader: str | None = None,
        group: Group | None = None,
        departed: Sequence[Int32Array] = (),
    ) -> RoundResult:
        """Simulate one rebalance, and update the members' partitions and stored strategy data.

        If the strategy (maybe a plug-in) raises an exception, the result has the status ``failed``.

        Args:
            members: the members in join order; they are updated with the result.
            cluster: the cluster metadata at that time.
            generation: number of the generation or epoch that begins.
            shared: builds the assignment problem, and caches solutions.
            leader: member id of the leader, whose stored data the strategy receives.
            group: the group as members sent it, if recorded; None derives it from ``members``.
            departed: partitions of members that left since the last rebalance.
        """
        policy, strategy = self.policy, self.strategy
        leading = next((member for member in members if member.state.id == leader), None)
        failure = next((m.memory for m in members if isinstance(m.memory, _FailedMemory)), None)
        if failure is not None:
            return _clear_assignments(members, RoundResult(FAILED, detail=failure.why))
        try:
            joined = shared.build_joined_problem(
                members, policy, strategy, cluster, members_as_sent=group
            )
            memory = None if leading is None else leading.memory
            plan = shared.compute_assignment(strategy, joined, memory)
            plan = plan.settled() if policy.protocol == CONSUMER else plan
            last_owner, old_owners = shared.owners_before(members, joined.members, departed)
            needs_follow_up = policy.cooperative and _loses_claim(joined.problem, plan)
            _apply_plan(strategy, members, plan, generation, leading, last_owner=last_owner)
        except PartageError as e:  # mostly UnsupportedProblemError: Kafka's class throws as well
            result = RoundResult(REFUSED, detail=str(e))
        except MemoryError:
            raise
        except Exception as e:  # noqa: BLE001 - foreign code may raise anything
            result = RoundResult(FAILED, detail=_error_text(e))
        else:
            group = joined.members.group
            return RoundResult(
                DONE, group, old_owners, last_owner, plan, needs_follow_up=needs_follow_up
            )
        return _clear_assignments(members, result)


@dataclass(frozen=True, slots=True)
class _FailedMemory:
    """Placeholder for a member's strategy data that could not be computed because of an exception.

    The member's next simulated rebalance then fails with the same error message.

    Attributes:
        why: the text of the exception.
    """

    why: str


def _clear_assignments(
    members: Sequence[SimulatedMember], failed_result: RoundResult
) -> RoundResult:
    """Remove the partitions and strategy data of all members after a failed simulated rebalance.

    ``failed_result``, the result of that rebalance, is returned unchanged.
    """
    for member in members:
        member.owned, member.last_owned, member.memory = EMPTY, EMPTY, None
    return failed_result


def _loses_claim(problem: Problem, plan: Plan) -> bool:
    start, claimed = problem.claims
    if not len(claimed):
        return False
    claimant = np.arange(len(start) - 1).repeat(start[1:] - start[:-1])
    return bool(np.count_nonzero((plan.owner[claimed] != claimant) & (claimed >= 0)))


def _apply_plan(
    strategy: Strategy,
    members: Sequence[SimulatedMember],
    plan: Plan,
    generation: int,
    leader: SimulatedMember | None,
    *,
    last_owner: Int32Array,
) -> None:
    """Give the simulated members their new partitions, and store the strategy's data for them.

    ``plan`` is the assignment. ``last_owner`` is the position of each partition's last owner
    (int32[P]). The leader also stores the data that the strategy keeps about the whole assignment.
    """
    if leader is not None and plan.memory is not None:
        leader.memory = plan.memory
    before = {member.key: member.last_owned for member in members}
    stores_data = _strategy_stores_member_data(strategy)
    reads_assignment = _reads_assignment(strategy)
    part: Assignment = Assignment.from_lists(plan.index, (), [])
    lists = plan.lists
    for i, member in enumerate(members):
        member.owned = member.last_owned = lists[i]
        member.generation = generation
        if stores_data:
            data = plan.user_data.get(member.state.id)
            part = plan.part_of(i) if reads_assignment else part
            member.memory = strategy.on_assignment(part, data, generation, member.memory)
        else:
            member.memory = None
    # Two members may have sent one instance id: then the key does not tell them apart.
    is_released = (plan.owner < 0) & (last_owner >= 0)
    if len(before) < len(members) or np.count_nonzero(is_released):
        last = current_or_last_owned(before, {member.key: member.owned for member in members})
        for member in members:
            member.last_owned = last[member.key]


def _sends_user_data(strategy: object) -> bool:
    method = getattr(type(strategy), "subscription_user_data", None)
    return method is not PlainStrategy.subscription_user_data


def _strategy_stores_member_data(strategy: object) -> bool:
    """Return whether an assignment strategy stores data of members between two rebalances.

    Such a strategy defines its own method ``on_assignment``.
    """
    return getattr(type(strategy), "on_assignment", None) is not PlainStrategy.on_assignment


def _reads_assignment(strategy: Strategy) -> bool:
    """Return whether a strategy computes a member's stored data from its assigned partitions.

    It is true for plug-ins, because only built-in strategies declare that they do not.
    """
    built_in = _built_in_or_none(strategy)
    return built_in is None or built_in.reads_assignment


def _error_text(error: Exception) -> str:
    try:
        message = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - its own __str__ is foreign code too
        message = "no message: its __str__ raises"
    text = f"{type(error).__name__}: {message}"
    text = text.encode("utf-8", "backslashreplace").decode()  # tables accept no lone surrogates
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"


# -- assignment problems, shared by the policies of one group --------------------------------------

#: Bytes of an array in a key that are not hashed: hashing takes longer than comparing so few.
_LONGEST_KEY = 512
#: A problem without claims takes as much memory as so many plans.
_MEMBERS_OF_A_PROBLEM = 4
#: Previous owners that are cached: policies share them only within a rebalance.
_MOST_OWNERS = 32
#: Entries of each cache; a full one is emptied. Those of the last rebalances are enough, because
#: all policies simulate a rebalance before the next one.
_MOST_CACHED = 512
#: Members in the groups of a cache's entries, together, and entries that it may always have: as
#: many as policies simulate for one rebalance.
_MOST_CACHED_MEMBERS, _LEAST_CACHED = 1 << 17, 24


class JoinedProblem(NamedTuple):
    """The input of an assignment strategy after the members have joined a simulated rebalance.

    It has the members, their subscriptions and the partitions that they report as owned.

    Attributes:
        problem: the complete input.
        members: the same input, but no member reports partitions.
        content: key for caches: equal for equal inputs; None if unknown.
    """

    problem: Problem
    members: Problem
    content: object = None


class SharedProblems:
    """Cache of the assignment problems of a group's simulated rebalances, and of their solutions.

    An assignment problem is the input of a strategy: members, subscriptions, owned partitions,
    cluster. Simulations of several group configurations often have equal problems, which are built
    and solved once.
    """

    def __init__(self) -> None:
        self._without_claims: dict[object, tuple[object, Problem]] = {}
        self._plans: dict[object, tuple[Problem, Strategy, Plan]] = {}
        self._owners: dict[object, tuple[object, Int32Array, PreviousOwners]] = {}

    def problem_without_owned_partitions(
        self, members: Sequence[SimulatedMember], cluster: Cluster, *, static: bool
    ) -> Problem:
        """Return the assignment problem of members that report no owned partitions when they join.

        Under the eager protocol, members report none. The result is cached.

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
            _make_room(self._without_claims, _MEMBERS_OF_A_PROBLEM * len(members))
            # The entry holds states and cluster, so that the ids in the key stay theirs.
            problem = Problem(group, cluster)
            _ = problem.subscription_topics, problem.member_rack  # cached: all claims share them
            known = self._without_claims[key] = states, problem
        return known[1]

    def build_joined_problem(
        self,
        members: Sequence[SimulatedMember],
        policy: Policy,
        strategy: Strategy,
        cluster: Cluster,
        *,
        members_as_sent: Group | None = None,
    ) -> JoinedProblem:
        """Return the assignment problem that a strategy gets when members join a rebalance.

        It has the members, their subscriptions and the partitions that they report as owned. These
        are left out if the strategy does not use them. For a plug-in, the members are validated.

        Args:
            members: the members in join order.
            policy: the policy.
            strategy: the strategy that the policy uses.
            cluster: the cluster metadata at that time.
            members_as_sent: the same members as they joined in the record; None to derive what they
                send.

        Raises:
            InvalidProblemError: the record has values that no member can send.
        """
        built_in = _built_in_or_none(strategy)
        is_static = policy.static and not equals_dynamic_members(
            strategy, ((member.key, member.state) for member in members)
        )
        shared = self.problem_without_owned_partitions(members, cluster, static=is_static)
        nothing_sent = JoinedProblem(shared, shared, ())
        if not ResolvedPolicy(policy, strategy).reads_claims:
            return nothing_sent
        if built_in is None or members_as_sent is not None:
            group = members_as_sent or build_joined_group(members, policy, strategy, cluster)
            return JoinedProblem(Problem(group, cluster), shared)
        start, claimed = _reported_partitions(members, policy, shared)
        generations = [member.generation for member in members]
        reported = _assignments_in_user_data(members, policy, built_in, cluster)
        content: tuple[object, ...]
        if reported is not None:
            # Strategies read the arrays, so that nothing is encoded only to be decoded again.
            user_data = partial(_user_data, members, strategy)
            content = content_key(*reported), tuple(generations)
        else:
            sent: list[bytes | None] = [None] * len(members)
            if (policy.eager or policy.cooperative) and _sends_user_data(strategy):
                sent = _user_data(members, strategy)
            is_sent = len(claimed) > 0 or any(data is not None for data in sent)
            if not is_sent and not built_in.reads_generation:
                return nothing_sent
            user_data = partial(list, sent)
            content = content_key(start, claimed), tuple(generations), tuple(sent)
            if len(claimed):
                reported = _reported_by_generation(start, claimed, members, sent)
        rows = partial(ClaimRows.of_partitions, cluster.index, start, claimed)
        group = RejoinedGroup(
            shared.group, rows, generations, user_data, has_claims=len(claimed) > 0
        )
        problem = shared.rejoined(group, (start.astype(np.int32), claimed), reported)
        return JoinedProblem(problem, shared, content)

    def owners_before(
        self,
        members: Sequence[SimulatedMember],
        problem: Problem,
        departed: Sequence[Int32Array],
    ) -> tuple[Int32Array, PreviousOwners]:
        """Return the owner of each partition before a simulated rebalance.

        The result is cached, because simulations of several group configurations use it.

        Args:
            members: the members before the rebalance.
            problem: the assignment problem of these members, without reported partitions.
            departed: partitions of members that left since the last rebalance.

        Returns:
            The position of each partition's last owner (int32[P], see `owners_by_partition`), and
                the previous owners, against which moves are counted.
        """
        lists = [member.last_owned for member in members]
        generations = tuple([member.generation for member in members])
        key = (id(problem), tuple(map(id, lists)), tuple(map(id, departed)), generations)
        known = self._owners.get(key)
        if known is None:
            _make_room(self._owners, len(members), _MOST_OWNERS)
            last_owner = owners_by_partition(problem.index.partitions, lists, departed)
            old_owners = previous_owners_of(members, problem, last_owner)
            # The entry holds what the key names by id.
            known = (problem, lists, departed), last_owner, old_owners
            self._owners[key] = known
        return known[1:]

    def compute_assignment(self, strategy: Strategy, joined: JoinedProblem, memory: object) -> Plan:
        """Run an assignment strategy on a problem, or return the cached result for an equal
        problem.

        Args:
            strategy: the strategy; the result of a plug-in is not cached.
            joined: the assignment problem after the members joined.
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
            _make_room(self._plans, len(joined.members.group))
            # The entry holds members and strategy, so that the ids in the key stay theirs.
            known = self._plans[key] = joined.members, strategy, plan
        return known[2]


def _built_in_or_none(strategy: object) -> PlainStrategy | None:
    """Return the assignment strategy if it is built into Partage, or None for a plug-in.

    Only built-in strategies declare which inputs they use, so only their results can be cached.
    """
    if isinstance(strategy, PlainStrategy) and strategy.__module__.startswith("partage."):
        return strategy
    return None


def _user_data(members: Sequence[SimulatedMember], strategy: Strategy) -> list[bytes | None]:
    return [strategy.subscription_user_data(m.topics, m.memory) for m in members]


def _assignments_in_user_data(
    members: Sequence[SimulatedMember], policy: Policy, strategy: PlainStrategy, cluster: Cluster
) -> ReportedPartitions | None:
    """Return the last assignments that eager members send as user data, as arrays.

    The result is None if members send no such data, or if the arrays would differ from the encoded
    data. They differ if a partition was deleted since, or if a member has partitions of several
    topics, which the encoding sorts.
    """
    if not (policy.eager and strategy.sends_assignment):
        return None
    memories = [StickyMemory.check_memory(member.memory) for member in members]
    generations = [memory.generation for memory in memories]
    lists = [
        EMPTY if generation is None else member.owned
        for member, generation in zip(members, generations, strict=True)
    ]
    partition = np.concatenate([EMPTY, *lists])
    if not len(partition):
        return None
    if np.count_nonzero(cluster.partition_exists[partition]) < len(partition):
        return None
    start = np.zeros(len(lists) + 1, np.int64)
    start[1:] = list(accumulate([len(one) for one in lists]))
    if not _have_one_topic_each(start, partition, cluster.index):
        return None  # the encoding sorts topics as Java's HashMap does
    return _reported(start, partition, generations)


def _have_one_topic_each(start: NDArray[np.int64], partition: Int32Array, index: Index) -> bool:
    # Whether each member's partitions are of one topic; ``start`` has their offsets.
    topic = index.topic_of[partition]
    sizes = start[1:] - start[:-1]
    first = topic[start[:-1][sizes > 0]]
    return not np.count_nonzero(topic != first.repeat(sizes[sizes > 0]))


def _reported_by_generation(
    start: NDArray[np.int64],
    partition: Int32Array,
    members: Sequence[SimulatedMember],
    user_data: Sequence[bytes | None],
) -> ReportedPartitions:
    """Return the partitions that members report as owned, each with the member's generation.

    The generation is that of the member's subscription, or else that of its user data (KIP-792).
    """
    generations = [
        cooperative_generation(member.generation, data)
        for member, data in zip(members, user_data, strict=True)
    ]
    return _reported(start, partition, generations)


def _reported(
    start: NDArray[np.int64], partition: Int32Array, generations: Sequence[int | None]
) -> ReportedPartitions:
    numbers = [NO_GENERATION if one is None else one for one in generations]
    is_dated = [one is not None for one in generations]
    return ReportedPartitions(
        start, partition, np.array(numbers, np.int64), np.array(is_dated, bool)
    )


def equals_dynamic_members(strategy: Strategy, members: Iterable[tuple[str, MemberState]]) -> bool:
    """Return whether members get the same assignment if they are simulated as static (KIP-345).

    They do if the strategy uses instance ids only for sorting, and if these equal the member ids.
    Simulations with and without static members then share problems and results.

    Args:
        strategy: the strategy.
        members: for each member the instance id that the policy gives it, and its recorded state.
    """
    built_in = _built_in_or_none(strategy)
    if built_in is None or not built_in.instance_ids_only_sort:
        return False
    return all(state.instance is None and key == state.id for key, state in members)


def _reported_partitions(
    members: Sequence[SimulatedMember], policy: Policy, problem: Problem
) -> tuple[NDArray[np.int64], Int32Array]:
    """Return the partitions that members report as owned when they join, as a sparse matrix (CSR).

    Eager members report none. Cooperative members report existing partitions of topics that they
    still subscribe to. Members of the consumer protocol (KIP-848) report all existing partitions of
    their target assignments.
    """
    start = np.zeros(len(members) + 1, np.int64)
    if policy.eager:
        return start, EMPTY
    lists = [member.owned for member in members]
    owned = np.concatenate([EMPTY, *lists])
    if not len(owned):
        return start, EMPTY
    member = np.arange(len(lists)).repeat([len(one) for one in lists])
    sent = problem.cluster.partition_exists[owned]
    if policy.cooperative:
        sent &= _is_subscribed(problem, member, problem.index.topic_of[owned])
    np.bincount(member[sent], minlength=len(lists)).cumsum(out=start[1:])
    return start, owned[sent]


def _is_subscribed(
    problem: Problem, member: NDArray[np.int64], topic: Int32Array
) -> NDArray[np.bool_]:
    """Return for each (member, topic) pair whether the member subscribes to the topic (bool[n]).

    ``member`` and ``topic`` are arrays of length n with the indices of members and topics.
    """
    topics = len(problem.index.topics)
    if len(problem.subscription_topics) == 1:
        is_wanted = np.zeros(topics, bool)
        is_wanted[problem.subscription_topics[0]] = True
        return is_wanted[topic]
    wanted = [s * topics + t.astype(np.int64) for s, t in enumerate(problem.subscription_topics)]
    pairs = problem.group.subscription_of[member] * np.int64(topics) + topic
    return np.isin(pairs, np.concatenate([EMPTY, *wanted]))


def max_cache_entries(members: int, largest: int) -> int:
    """Return the maximum number of entries of a cache, which is smaller for larger groups.

    Each entry refers to all members of the group, so the limit bounds memory.

    Args:
        members: number of members of the group.
        largest: maximum for a small group.

    >>> max_cache_entries(10, 512), max_cache_entries(4_096, 512), max_cache_entries(1 << 20, 512)
    (512, 32, 24)
    """
    return min(largest, max(_LEAST_CACHED, _MOST_CACHED_MEMBERS // max(1, members)))


def _make_room(cache: dict[object, Any], members: int, most: int = _MOST_CACHED) -> None:
    if len(cache) >= max_cache_entries(members, most):
        cache.clear()


def content_key(*arrays: NDArray[Any]) -> tuple[bytes, ...]:
    """Return a key for caches that is equal for arrays of equal content.

    The key has the bytes of each array, or their 16-byte hash if the array is large.
    """
    parts = [array.tobytes() for array in arrays]
    return tuple([one if len(one) <= _LONGEST_KEY else _digest(one) for one in parts])


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()
