"""One simulated rebalance: members join, the strategy assigns, members get their part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from partage.errors import PartageError
from partage.groups.api import PlainStrategy, Strategy
from partage.judge import PreviousOwners
from partage.model import Assignment, Cluster, Group, Plan, Problem
from partage.model.index import Index, Int32Array
from partage.simulation.members import (
    EMPTY,
    SimulatedMember,
    last_owned,
    owner_view,
    previous_owners_of,
)
from partage.simulation.policies import CONSUMER, Policy, recorded_protocol, recorded_strategy
from partage.simulation.recorded_rebalances import RecordedRebalance
from partage.simulation.shared_problems import SharedProblems
from partage.tables.statuses import DONE, FAILED, REFUSED

__all__ = ["MOST_FOLLOW_UPS", "ResolvedPolicy", "RoundResult"]

#: A cooperative group settles in one follow-up; more are allowed for strategies that need them.
MOST_FOLLOW_UPS = 3
#: Characters of a foreign exception's text in a row.
_LONGEST_ERROR = 500


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of one simulated rebalance: the new assignment, or why there is none.

    Attributes:
        status: done, refused (the strategy is not applicable) or failed.
        group: the members, without claims.
        old_owners: the previous owners, to count moves.
        last_owner: position of each partition's last owner (int32[P]), see `owner_view`.
        plan: the new assignment; None unless done.
        detail: why there is no assignment.
        needs_follow_up: whether a cooperative member lost a partition that it sent as owned, so
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
    """A policy with the strategy that it runs at one recorded rebalance.

    Attributes:
        policy: gives the protocol, and whether members are static.
        strategy: computes the assignment; for policy `own` it is the recorded strategy.
    """

    policy: Policy
    strategy: Strategy

    @classmethod
    def at(cls, policy: Policy, rebalance: RecordedRebalance) -> ResolvedPolicy | None:
        """Find the strategy that a policy runs at a recorded rebalance.

        Returns:
            None if the policy is `own` and Partage does not have the group's strategy.
        """
        if policy.strategy is not None:
            return cls(policy, policy.strategy)
        generation = rebalance.generation
        strategy = recorded_strategy(generation)
        if strategy is None:
            return None
        return cls(policy.as_strategy(recorded_protocol(generation), strategy), strategy)

    def restored_memory(self, member: SimulatedMember, index: Index) -> object:
        """Return the data that the strategy would have stored for a member
        with its current assignment.

        If the strategy raises an exception, a placeholder is returned, and `rebalance` fails.
        """
        if not _remembers(self.strategy):
            return None
        part: Assignment = Assignment.from_lists(index, (member.state.id,), [member.owned])
        try:
            return self.strategy.on_assignment(part, None, member.generation, None)
        except MemoryError:
            raise
        except Exception as e:  # noqa: BLE001 - foreign code may raise anything
            return _FailedMemory(_error_text(e))

    def rebalance(
        self,
        members: Sequence[SimulatedMember],
        cluster: Cluster,
        generation: int,
        shared: SharedProblems,
        *,
        leader: str | None = None,
        group: Group | None = None,
        departed: Iterable[Int32Array] = (),
    ) -> RoundResult:
        """Simulate one rebalance, and update the members' assignments and stored strategy data.

        A strategy may be a plug-in: its exceptions are failures of this rebalance and do not end
        the run. A MemoryError is not caught, because it says nothing about the strategy.

        Args:
            members: the members in join order; they are updated with the result.
            cluster: the cluster metadata at that time.
            generation: number of the generation or epoch that begins.
            shared: builds the problem, and remembers plans.
            leader: member id of the leader, whose memory the strategy receives.
            group: the group as members sent it, if recorded; None derives it from ``members``.
            departed: partitions of members that left since the last rebalance.
        """
        policy, strategy = self.policy, self.strategy
        leading = next((member for member in members if member.state.id == leader), None)
        failure = next((m.memory for m in members if isinstance(m.memory, _FailedMemory)), None)
        if failure is not None:
            return _without_plan(members, RoundResult(FAILED, detail=failure.why))
        try:
            joined = shared.join(members, policy, strategy, cluster, sent=group)
            memory = None if leading is None else leading.memory
            plan = shared.assign(strategy, joined, memory)
            plan = plan.settled() if policy.protocol == CONSUMER else plan
            last_owner = owner_view(
                plan.index.partitions, [member.last_owned for member in members], departed
            )
            old_owners = previous_owners_of(members, joined.members, last_owner)
            needs_follow_up = policy.cooperative and _loses_claim(joined.problem, plan)
            _take_plan(strategy, members, plan, generation, leading, last_owner=last_owner)
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
        return _without_plan(members, result)


@dataclass(frozen=True, slots=True)
class _FailedMemory:
    """Placeholder for a strategy's data of a member, after the strategy has raised an exception."""

    why: str


def _without_plan(members: Sequence[SimulatedMember], result: RoundResult) -> RoundResult:
    """Remove all members' partitions and stored strategy data, and return the given result."""
    for member in members:
        member.owned, member.last_owned, member.memory = EMPTY, EMPTY, None
    return result


def _loses_claim(problem: Problem, plan: Plan) -> bool:
    start, claimed = problem.claims
    claimant = np.repeat(np.arange(len(problem.group)), np.diff(start))
    known = claimed >= 0
    return bool((plan.owner[claimed[known]] != claimant[known]).any())


def _take_plan(
    strategy: Strategy,
    members: Sequence[SimulatedMember],
    plan: Plan,
    generation: int,
    leader: SimulatedMember | None,
    *,
    last_owner: Int32Array,
) -> None:
    """Give each member its partitions of a new assignment, and the leader the strategy's data.

    Args:
        strategy: the strategy that made the assignment.
        members: the members, in the assignment's order.
        plan: the assignment.
        generation: number of the assignment's generation.
        leader: the leader, if the group has one.
        last_owner: position of each partition's last owner (int32[P]).
    """
    if leader is not None and plan.memory is not None:
        leader.memory = plan.memory
    before = {member.key: member.last_owned for member in members}
    remembers = _remembers(strategy)
    for i, member in enumerate(members):
        member.owned = member.last_owned = plan.partitions_of(i)
        member.generation = generation
        data = plan.user_data.get(member.state.id)
        member.memory = (
            strategy.on_assignment(plan.part_of(i), data, generation, member.memory)
            if remembers
            else None
        )
    # Two members may have sent one instance id: then the key does not tell them apart.
    if len(before) < len(members) or ((last_owner >= 0) & (plan.owner < 0)).any():
        last = last_owned(before, {member.key: member.owned for member in members})
        for member in members:
            member.last_owned = last[member.key]


def _remembers(strategy: object) -> bool:
    """Return whether a strategy stores data for members between rebalances."""
    return getattr(type(strategy), "on_assignment", None) is not PlainStrategy.on_assignment


def _error_text(error: Exception) -> str:
    try:
        message = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - its own __str__ is foreign code too
        message = "no message: its __str__ raises"
    text = f"{type(error).__name__}: {message}"
    text = text.encode("utf-8", "backslashreplace").decode()  # tables accept no lone surrogates
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"
