"""One rebalance under a policy: members join, the strategy assigns, members take their part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from partage.errors import PartageError
from partage.groups.api import Strategy
from partage.model import Assignment, Cluster, Group, Plan, Problem
from partage.model.index import Index, Int32Array
from partage.simulation.members import (
    EMPTY,
    SimulatedMember,
    joined_group,
    last_owned,
    owner_view,
    with_last_owned,
)
from partage.simulation.policies import CONSUMER, Policy, recorded_protocol, recorded_strategy
from partage.simulation.recorded_rebalances import RecordedRebalance
from partage.tables.statuses import DONE, FAILED, REFUSED

__all__ = ["MOST_FOLLOW_UPS", "ResolvedPolicy", "RoundResult"]

#: A cooperative group settles in one follow-up; more are allowed for strategies that need them.
MOST_FOLLOW_UPS = 3
#: Characters of a foreign exception's text in a row.
_LONGEST_ERROR = 500


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The outcome of one rebalance.

    Attributes:
        status: done, refused or failed.
        group: the members as they joined.
        before: the same members with what they owned last, which moves are counted against.
        last_owner: int32[P], position of each partition's last owner, see `owner_view`.
        plan: the plan; None unless done.
        detail: why there is no plan.
        needs_follow_up: whether a cooperative member lost a partition that it claimed, so that
            it joins again.
    """

    status: str
    group: Group | None = None
    before: Group | None = None
    last_owner: Int32Array | None = None
    plan: Plan | None = None
    detail: str | None = None
    needs_follow_up: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedPolicy:
    """A policy with the strategy that decides, which for `own` is the strategy of the moment.

    Attributes:
        policy: gives the protocol, and whether members are static.
        strategy: decides.
    """

    policy: Policy
    strategy: Strategy

    @classmethod
    def at(cls, policy: Policy, rebalance: RecordedRebalance) -> ResolvedPolicy | None:
        """Return a policy resolved at a recorded rebalance.

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
        """Return what the strategy would remember for a member that owns what it owns now.

        An exception of the strategy is returned in place of the memory; `rebalance` then fails.
        """
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
        *,
        leader: str | None = None,
        group: Group | None = None,
        departed: Iterable[Int32Array] = (),
    ) -> RoundResult:
        """Run one rebalance and update its members.

        A strategy may be a plug-in: its exceptions are failures of this rebalance and do not end
        the run. A MemoryError passes, because it is no statement about the strategy.

        Args:
            members: the members in join order; they own and remember the outcome.
            cluster: the metadata at that time.
            generation: number of the generation or epoch that begins.
            leader: member id of the leader, whose memory the strategy receives.
            group: what members sent, where the record tells; None derives it from ``members``.
            departed: what members owned that have left since the last rebalance.
        """
        policy, strategy = self.policy, self.strategy
        leading = next((member for member in members if member.state.id == leader), None)
        failure = next((m.memory for m in members if isinstance(m.memory, _FailedMemory)), None)
        if failure is not None:
            return _without_plan(members, RoundResult(FAILED, detail=failure.why))
        try:
            joined = joined_group(members, policy, strategy, cluster) if group is None else group
            memory = None if leading is None else leading.memory
            plan = strategy.assign(Problem(joined, cluster), memory)
            plan = plan.settled() if policy.protocol == CONSUMER else plan
            before = with_last_owned(joined, members, cluster)
            lists = [member.last_owned for member in members]
            last_owner = owner_view(plan.index.partitions, lists, departed)
            needs_follow_up = policy.cooperative and _loses_claim(joined, plan, cluster)
            _take_plan(strategy, members, plan, generation, leading)
        except PartageError as e:  # mostly UnsupportedProblemError: Kafka's class throws as well
            result = RoundResult(REFUSED, detail=str(e))
        except MemoryError:
            raise
        except Exception as e:  # noqa: BLE001 - foreign code may raise anything
            result = RoundResult(FAILED, detail=_error_text(e))
        else:
            return RoundResult(
                DONE, joined, before, last_owner, plan, needs_follow_up=needs_follow_up
            )
        return _without_plan(members, result)


@dataclass(frozen=True, slots=True)
class _FailedMemory:
    """Placeholder for a memory that the strategy failed to make, with its error."""

    why: str


def _without_plan(members: Sequence[SimulatedMember], result: RoundResult) -> RoundResult:
    """Return the result after members have lost their assignments and memories."""
    for member in members:
        member.owned, member.last_owned, member.memory = EMPTY, EMPTY, None
    return result


def _loses_claim(group: Group, plan: Plan, cluster: Cluster) -> bool:
    """Return whether a member does not get back a partition that it claimed."""
    start, claimed = Problem(group, cluster).claims
    claimant = np.repeat(np.arange(len(group)), np.diff(start))
    known = claimed >= 0
    return bool((plan.owner[claimed[known]] != claimant[known]).any())


def _take_plan(
    strategy: Strategy,
    members: Sequence[SimulatedMember],
    plan: Plan,
    generation: int,
    leader: SimulatedMember | None,
) -> None:
    """Give every member its part of the plan, and the leader the plan's memory.

    Args:
        strategy: the strategy of the plan.
        members: in the order of the plan's members.
        plan: the plan.
        generation: its number.
        leader: the leader, if the group has one.
    """
    if leader is not None and plan.memory is not None:
        leader.memory = plan.memory
    before = {member.key: member.last_owned for member in members}
    for i, member in enumerate(members):
        name, dense = member.state.id, plan.partitions_of(i)
        part: Assignment = Assignment.from_lists(plan.index, (name,), [dense])
        member.take(strategy, part, plan.user_data.get(name), generation)
    last = last_owned(before, {member.key: member.owned for member in members})
    for member in members:
        member.last_owned = last[member.key]


def _error_text(error: Exception) -> str:
    """Return type and message of a foreign exception as one line of bounded length."""
    try:
        message = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - its own __str__ is foreign code too
        message = "no message: its __str__ raises"
    text = f"{type(error).__name__}: {message}"
    text = text.encode("utf-8", "backslashreplace").decode()  # tables accept no lone surrogates
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"
