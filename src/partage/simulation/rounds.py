"""One rebalance of a policy: what is sent, what is decided, and whether it has to go on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from partage.errors import PartageError
from partage.groups.api import Strategy
from partage.model import Assignment, Cluster, Group, Plan, Problem
from partage.model.index import Index, Int32Array
from partage.simulation.consumers import (
    EMPTY,
    SimulatedConsumer,
    as_owned,
    last_owners,
    owners,
    sent,
)
from partage.simulation.policies import CONSUMER, Policy
from partage.tables.statuses import DONE, FAILED, REFUSED

__all__ = ["MOST_FOLLOW_UPS", "Decider", "SimulatedRound"]

#: A cooperative group settles in one follow-up; more are tried in case a strategy needs them.
MOST_FOLLOW_UPS = 3
#: Characters of a foreign error that a row keeps.
_LONGEST_FAILURE = 500


@dataclass(frozen=True, slots=True)
class SimulatedRound:
    """What came of one rebalance.

    Attributes:
        status: done, refused or failed.
        group: the members as they joined.
        before: the same members, owning what they read last: what moves are counted against.
        was: int32[P], position of who read each partition last, see `consumers.owners`.
        plan: None unless done.
        detail: why there is none.
        lets_go: whether somebody lost something that it had said it owns: it joins once more.
    """

    status: str
    group: Group | None = None
    before: Group | None = None
    was: Int32Array | None = None
    plan: Plan | None = None
    detail: str | None = None
    lets_go: bool = False


@dataclass(frozen=True, slots=True)
class Decider:
    """Who decides a group's rebalances, and by which protocol.

    Attributes:
        policy: whose protocol, and whether members are static.
        strategy: who decides; of `own`, the strategy of the moment.
    """

    policy: Policy
    strategy: Strategy

    def recalls(self, one: SimulatedConsumer, index: Index) -> object:
        """What a member remembers that has just got what it holds; by its contract.

        What a strategy raises here stands in place of a memory: `round` then fails with it.
        """
        part: Assignment = Assignment.from_lists(index, (one.state.id,), [one.held])
        try:
            return self.strategy.on_assignment(part, None, one.generation, None)
        except MemoryError:
            raise
        except Exception as e:  # noqa: BLE001 - foreign code may raise anything
            return _Broken(_failure(e))

    def round(
        self,
        consumers: Sequence[SimulatedConsumer],
        cluster: Cluster,
        number: int,
        *,
        leader: str | None = None,
        group: Group | None = None,
        gone: Iterable[Int32Array] = (),
    ) -> SimulatedRound:
        """One rebalance: all join, the strategy decides, and all get their part.

        A strategy may be somebody's plug-in: what it raises is its own failure, and must not
        cost the run. What is not ours to explain passes: a machine without memory, and
        whatever ends a process.

        Args:
            consumers: who takes part, in join order; they hold and remember the outcome.
            cluster: the metadata at that time.
            number: generation or epoch that begins.
            leader: member id of the leader, whose memory the strategy is asked with.
            group: what members sent, where that is known; None makes it up.
            gone: dense numbers of what those read who have left since the last rebalance.
        """
        policy, strategy = self.policy, self.strategy
        leads = next((one for one in consumers if one.state.id == leader), None)
        broken = next((c.memory for c in consumers if isinstance(c.memory, _Broken)), None)
        if broken is not None:
            return _nothing(consumers, SimulatedRound(FAILED, detail=broken.why))
        try:
            told = sent(consumers, policy, strategy, cluster) if group is None else group
            memory = None if leads is None else leads.memory
            plan = strategy.assign(Problem(told, cluster), memory)
            plan = plan.settled() if policy.protocol == CONSUMER else plan
            before = as_owned(told, consumers, cluster)
            was = owners(plan.index.partitions, [one.last for one in consumers], gone)
            again = policy.cooperative and _lets_go(told, plan, cluster)
            _handed_out(strategy, consumers, plan, number, leads)
        except PartageError as e:  # most often UnsupportedProblemError: its class refuses too
            found = SimulatedRound(REFUSED, detail=str(e))
        except MemoryError:
            raise
        except Exception as e:  # noqa: BLE001 - foreign code may raise anything
            found = SimulatedRound(FAILED, detail=_failure(e))
        else:
            return SimulatedRound(DONE, told, before, was, plan, lets_go=again)
        return _nothing(consumers, found)


@dataclass(frozen=True, slots=True)
class _Broken:
    """In place of what a member remembers: why its strategy could not tell."""

    why: str


def _nothing(consumers: Sequence[SimulatedConsumer], found: SimulatedRound) -> SimulatedRound:
    """Nobody has anything, and nothing is remembered of it."""
    for one in consumers:
        one.held, one.last, one.memory = EMPTY, EMPTY, None
    return found


def _lets_go(group: Group, plan: Plan, cluster: Cluster) -> bool:
    """Whether some member does not get back all that it said it owns."""
    start, claimed = Problem(group, cluster).claims
    claimant = np.repeat(np.arange(len(group)), np.diff(start))
    known = claimed >= 0
    return bool((plan.owner[claimed[known]] != claimant[known]).any())


def _handed_out(
    strategy: Strategy,
    consumers: Sequence[SimulatedConsumer],
    plan: Plan,
    number: int,
    leader: SimulatedConsumer | None,
) -> None:
    """Every member gets its part of the plan, and keeps what the strategy tells it to.

    Args:
        strategy: whose plan it is.
        consumers: in the order of the plan's members.
        plan: the plan.
        number: generation of it.
        leader: who keeps what the plan says that the leader remembers.
    """
    if leader is not None and plan.memory is not None:
        leader.memory = plan.memory
    before = {one.key: one.last for one in consumers}
    for i, one in enumerate(consumers):
        mine = plan.partitions_of(i)
        part: Assignment = Assignment.from_lists(plan.index, (one.state.id,), [mine])
        one.gets(strategy, part, plan.user_data.get(one.state.id), number)
    last = last_owners(before, {one.key: one.held for one in consumers})
    for one in consumers:
        one.last = last[one.key]


def _failure(error: Exception) -> str:
    """Type and message of a foreign error, in a line of bounded length."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - its own __str__ is foreign code too
        said = "no message: its __str__ raises"
    text = f"{type(error).__name__}: {said}"
    text = text.encode("utf-8", "backslashreplace").decode()  # tables take no half surrogate pairs
    return text if len(text) <= _LONGEST_FAILURE else f"{text[:_LONGEST_FAILURE]}…"
