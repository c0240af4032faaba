"""A group's history lived again: the same members and cluster under other strategies.

Each strategy lives on with its *own* plans: what a member owns when it joins again is what
that strategy gave it before, not what the record says. So the moves counted are those that
the group would have had with this strategy all along. Only for the agreement is a strategy
asked with what the members really sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from partage.errors import PartageError
from partage.groups import registry
from partage.groups.api import RebalanceProtocol, Strategy
from partage.history.agreement import Named, explain, named, recorded_named
from partage.history.classic import Generation
from partage.history.clusters import ClusterHistory
from partage.history.dialects import judges
from partage.history.problems import (
    all_java,
    group_as_sent,
    recorded_assignment,
    surviving,
    why_not,
)
from partage.history.records import ClassicState
from partage.model import Assignment, Cluster, Group, Plan, Problem
from partage.model.index import Int32Array
from partage.statuses import DONE, FAILED, NOT_YET, RECORDED, REFUSED

__all__ = ["Measured", "Measurer", "Replayed", "Replayer"]

#: A cooperative group settles in one follow-up; more are tried in case a strategy needs them.
_MOST_FOLLOW_UPS = 3
#: Characters of a foreign error that a row keeps.
_LONGEST_FAILURE = 500


@dataclass(frozen=True, slots=True)
class Measured:
    """What the judge says about a plan; columns of table ``replays``."""

    spread: int | None = None
    idle: int | None = None
    moved: int | None = None
    avoidable: int | None = None
    best_spread: int | None = None
    rack_mismatches: int | None = None
    colocation: float | None = None
    breaches: int | None = None


#: (plan, group with what was owned before, cluster) -> what the judge says.
Measurer = Callable[[Assignment, Group, Cluster], Measured]


@dataclass(frozen=True, slots=True)
class Replayed:
    """One row of table ``replays``: a generation under one strategy."""

    strategy: str
    status: str
    claimed: bool
    agrees: bool | None = None
    counts: bool = False
    detail: str | None = None
    partitions: int | None = None
    measured: Measured = field(default_factory=Measured)
    changed: int | None = None
    plan: str | None = None
    judged_by: str | None = None


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Whether a record is a strategy's plan, why not, and whose rule was asked."""

    agrees: bool | None = None
    why: str | None = None
    judged_by: str | None = None


@dataclass(slots=True)
class _Line:
    """What one strategy has lived through: its last plan, by owner, and what it remembers."""

    owned: dict[str, Int32Array] = field(default_factory=dict)
    memory: dict[str, object] = field(default_factory=dict)


class Replayer:
    """Replays one group: feed its generations in order.

    Args:
        clusters: the metadata over time.
        strategies: those to run.
        measure: the judge.
    """

    def __init__(
        self, clusters: ClusterHistory, strategies: Sequence[Strategy], measure: Measurer
    ) -> None:
        self._clusters = clusters
        self._strategies = {s.name: s for s in strategies}
        self._measure = measure
        self._lines: dict[tuple[int, str], _Line] = {}

    def feed(self, found: Generation) -> Iterator[Replayed]:
        """The generation under each strategy; nothing where `why_not` has a reason."""
        state = found.first
        if why_not(state) is not None:
            return
        claimed = state.strategy or ""
        cluster = self._clusters.at(found.timestamp_ms)
        recorded = recorded_assignment(state, cluster)
        yield self._recorded(found, recorded, cluster)
        for strategy in self._strategies.values():
            yield self._run(found, strategy, recorded, cluster)
        if claimed not in self._strategies and not _exists(claimed):
            yield Replayed(claimed, NOT_YET, claimed=True)

    def _recorded(self, found: Generation, recorded: Assignment, cluster: Cluster) -> Replayed:
        line = self._lines.setdefault((found.incarnation, RECORDED), _Line())
        before = self._as_owned(found.first, line, cluster, found.number)
        measured = self._measure(recorded, before, cluster)
        line.owned = _last_owners(line.owned, _by_owner(found.first, recorded))
        return Replayed(
            RECORDED, DONE, claimed=False, partitions=len(recorded.partition),
            measured=measured, changed=0, plan=_as_json(recorded.to_dict()),
        )  # fmt: skip

    def _run(
        self, found: Generation, strategy: Strategy, recorded: Assignment, cluster: Cluster
    ) -> Replayed:
        """One strategy, which may be somebody's plug-in: what it raises is its own failure.

        One broken strategy must not cost the run. What is not ours to explain passes: errors
        of ours from the judge, a machine without memory, and whatever ends a process.
        """
        line = self._lines.setdefault((found.incarnation, strategy.name), _Line())
        claimed = found.first.strategy == strategy.name
        try:
            return self._asked(found, strategy, line, recorded, cluster)
        except (PartageError, MemoryError):
            raise
        except Exception as e:  # noqa: BLE001 - foreign code may raise anything
            line.owned, line.memory = {}, {}
            return Replayed(strategy.name, FAILED, claimed, detail=_failure(e))

    def _asked(
        self,
        found: Generation,
        strategy: Strategy,
        line: _Line,
        recorded: Assignment,
        cluster: Cluster,
    ) -> Replayed:
        """One strategy: with its own past for the measures, with the record's for agreement."""
        claimed = found.first.strategy == strategy.name
        try:
            group = self._rejoined(found, strategy, line, cluster)
            plan = self._settled(found, strategy, line, group, cluster)
        except PartageError as e:  # most often UnsupportedProblemError: its class refuses too
            line.owned = {}
            return Replayed(strategy.name, REFUSED, claimed, detail=str(e))
        verdict = self._agreement(found, strategy) if claimed else _Verdict()
        measured = self._measure(plan, group, cluster)
        return Replayed(
            strategy.name, DONE, claimed, verdict.agrees,
            claimed and strategy.exact_to is not None and all_java(found.first),
            verdict.why, len(plan.partition), measured,
            _changed(plan, recorded), _as_json(plan.to_dict()), verdict.judged_by,
        )  # fmt: skip

    def _settled(
        self, found: Generation, strategy: Strategy, line: _Line, group: Group, cluster: Cluster
    ) -> Plan:
        """The plan, after the follow-up rebalances that a cooperative strategy asks for.

        It takes a partition away in one rebalance and gives it in the next, which members
        start as soon as they have let go (KIP-429).
        """
        leader = {m.id: m.owner for m in found.first.members}.get(found.first.leader or "", "")
        plan = strategy.assign(Problem(group, cluster), line.memory.get(leader))
        self._remember(found, strategy, line, plan)
        if RebalanceProtocol.COOPERATIVE not in strategy.protocols:
            return plan
        for _ in range(_MOST_FOLLOW_UPS):
            if len(plan.partition) == _open(Problem(group, cluster)):
                break
            again = self._rejoined(found, strategy, line, cluster)
            plan = strategy.assign(Problem(again, cluster), line.memory.get(leader))
            self._remember(found, strategy, line, plan)
        return plan

    def _as_owned(
        self, state: ClassicState, line: _Line, cluster: Cluster, generation: int
    ) -> Group:
        """The members as sent, but owning what ``line`` gave them before."""
        members = []
        empty = np.zeros(0, np.int32)
        for sent, m in zip(group_as_sent(state), state.members, strict=True):
            dense = line.owned.get(m.owner, empty)
            claims = surviving(cluster.index, dense, cluster)
            members.append(sent.replaced(owned=claims, generation=max(generation - 1, -1)))
        return Group(members)

    def _rejoined(
        self, found: Generation, strategy: Strategy, line: _Line, cluster: Cluster
    ) -> Group:
        """As `_as_owned`, with the user data that this strategy's members would have sent."""
        before = self._as_owned(found.first, line, cluster, found.number)
        claimed = strategy.name == found.first.strategy
        members = []
        for sent, m in zip(before, found.first.members, strict=True):
            if claimed and m.owner not in line.memory:
                members.append(sent)  # what it sent is what this strategy made it send
                continue
            data = strategy.subscription_user_data(sent.topics, line.memory.get(m.owner))
            members.append(sent.replaced(user_data=data))
        return Group(members)

    def _remember(self, found: Generation, strategy: Strategy, line: _Line, plan: Plan) -> None:
        """Every member gets its part of the plan, and keeps what the strategy tells it to."""
        state = found.first
        memory: dict[str, object] = {}
        for i, member in enumerate(state.members):
            mine = plan.partitions_of(i)
            part: Assignment = Assignment.from_lists(plan.index, (member.id,), [mine])
            old = line.memory.get(member.owner)
            if member.id == state.leader and plan.memory is not None:
                old = plan.memory
            data = plan.user_data.get(member.id)
            kept = strategy.on_assignment(part, data, found.number, old)
            if kept is not None:
                memory[member.owner] = kept
        line.memory = memory
        line.owned = _by_owner(state, plan)

    def _agreement(self, found: Generation, strategy: Strategy) -> _Verdict:
        """Whether the record is what its leader's library makes of what the members sent."""
        tried = [self._judged(found, one) for one in judges(found.first, strategy)]
        fitting = [one for one in tried if one.agrees] or tried
        names = " or ".join(one.judged_by or "" for one in fitting)
        return replace(fitting[0], judged_by=names)

    def _judged(self, found: Generation, strategy: Strategy) -> _Verdict:
        group = group_as_sent(found.first)
        position = self._clusters.position_at(found.timestamp_ms)

        def plan_on(cluster: Cluster) -> Named:
            return named(strategy.assign(Problem(group, cluster)))

        try:
            if plan_on(self._clusters.state(position)) == recorded_named(found.first):
                return _Verdict(agrees=True, judged_by=strategy.name)
        except PartageError as e:
            return _Verdict(agrees=False, why=str(e), judged_by=strategy.name)
        why = explain(
            found.first, self._clusters, found.timestamp_ms,
            lambda group, cluster: named(strategy.assign(Problem(group, cluster))),
        )  # fmt: skip
        return _Verdict(agrees=False, why=why, judged_by=strategy.name)


def _failure(error: Exception) -> str:
    """Type and message of a foreign error, in a line of bounded length."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - its own __str__ is foreign code too
        said = "no message: its __str__ raises"
    text = f"{type(error).__name__}: {said}"
    text = text.encode("utf-8", "backslashreplace").decode()  # tables take no half surrogate pairs
    return text if len(text) <= _LONGEST_FAILURE else f"{text[:_LONGEST_FAILURE]}…"


def _exists(name: str) -> bool:
    """Whether Partage has a strategy: one that nobody asked for is not one that it lacks."""
    try:
        registry.find(name)
    except PartageError:
        return False
    return True


def _open(problem: Problem) -> int:
    """How many partitions somebody subscribes to."""
    return sum(len(problem.cluster.partitions_of(int(t))) for t in problem.subscribed_topics)


def _by_owner(state: ClassicState, given: Assignment) -> dict[str, Int32Array]:
    """Dense numbers by what outlives a restart (instance id or member id)."""
    return {m.owner: given.partitions_of(i) for i, m in enumerate(state.members)}


def _last_owners(
    before: Mapping[str, Int32Array], now: Mapping[str, Int32Array]
) -> dict[str, Int32Array]:
    """Who had each partition last, of the members that are there.

    In the first step of a cooperative rebalance a partition is taken from its owner and given
    to nobody (KIP-429): it has moved when the second step gives it to another member.
    """
    given = np.concatenate([*now.values(), np.zeros(0, np.int32)])
    empty = np.zeros(0, np.int32)
    out = {}
    for owner, mine in now.items():
        old = before.get(owner, empty)
        out[owner] = np.concatenate([mine, old[~np.isin(old, given)]])
    return out


def _changed(plan: Assignment, recorded: Assignment) -> int:
    """Partitions whose owner differs between two assignments of the same members."""
    owners = []
    for given in (plan, recorded):
        owner = np.full(given.index.partitions, -1, np.int32)
        owner[given.partition] = given.member_of
        owners.append(owner)
    return int(np.count_nonzero(owners[0] != owners[1]))


def _as_json(plan: Mapping[str, Mapping[str, list[int]]]) -> str:
    return json.dumps(plan, ensure_ascii=False, separators=(",", ":"))
