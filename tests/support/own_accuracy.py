"""Simulator against record: policy `own` of a recording beside what the log shows.

Compared are plans, rebalances, follow-ups, moves and stopped time of each group. The simulation of
`own` is the cumulative one: it takes the causes from the record, and its own assignments.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.commit_runs import commit_rates
from tests.support.recordings import SESSION_MS, Recording

from partage.history.clients import JAVA, identify_client
from partage.history.pauses import Pause
from partage.history.records import assigned_partitions
from partage.simulation.commit_statistics import CommitStatistics
from partage.simulation.context import SimulationContext
from partage.simulation.cumulative import simulate_cumulative
from partage.simulation.metrics import SimulatedRebalance
from partage.simulation.per_rebalance import simulate_rebalance
from partage.simulation.policies import Policy
from partage.simulation.recorded_rebalances import RecordedRebalance, recorded_rebalances


@dataclass
class Side:
    """Figures of the record, or of `own`.

    Attributes:
        rebalances: those that happen, follow-ups included.
        follow_ups: second phases of cooperative rebalances.
        moved: partitions that moved between live members.
        low, high: bounds of the stopped time in partition-seconds.
        best: estimate of the stopped time in partition-seconds.
    """

    rebalances: int = 0
    follow_ups: int = 0
    moved: int = 0
    low: float = 0.0
    high: float = 0.0
    best: float = 0.0

    def add(self, row: SimulatedRebalance, *, is_follow_up: bool) -> None:
        """Add a row of table ``replays``."""
        self.rebalances += row.caused
        self.follow_ups += row.caused and is_follow_up
        self.moved += row.measured.moved or 0
        if row.stopped is not None:
            self.low += row.stopped.low
            self.high += row.stopped.high
        if row.unread is not None:
            self.best += row.unread.best

    def __add__(self, other: Side) -> Side:
        mine, theirs = vars(self), vars(other)
        return Side(**{name: mine[name] + theirs[name] for name in mine})


@dataclass
class GroupComparison:
    """Record and `own` of one group.

    Attributes:
        name: of the group.
        recorded, own: the figures.
        plans: number of rebalances by kind, and by whether `own` has the recorded assignment. The
            kind is java (all members are Java consumers), others, or the protocol.
        differences: (generation, what differs) of those with another assignment.
    """

    name: str
    recorded: Side = field(default_factory=Side)
    own: Side = field(default_factory=Side)
    plans: Counter[tuple[str, bool]] = field(default_factory=Counter)
    differences: list[tuple[int, str]] = field(default_factory=list)


def compare_own(recording: Recording) -> list[GroupComparison]:
    """Return the comparison of each group that can be simulated."""
    out = []
    for name, items in recording.histories.items():
        generations = recording.rebalances[name]
        found = tuple(recorded_rebalances(generations, recording.clusters, SESSION_MS))
        if not any(one.replayable for one in found):
            continue
        commits = CommitStatistics.of(
            (one for one in items if isinstance(one, Pause)),
            commit_rates(recording.commit_runs.get(name, [])),
        )
        context = SimulationContext.of(recording.clusters, found, commits)
        out.append(compare_group(name, found, context))
    return out


def compare_group(
    name: str, found: tuple[RecordedRebalance, ...], context: SimulationContext
) -> GroupComparison:
    """Return the comparison of one group, from all of its recorded rebalances."""
    rows = list(simulate_cumulative(found, Policy.parse("own"), context))
    one = GroupComparison(name)
    for row in rows:
        one.own.add(row, is_follow_up=row.step > 0)
    by_key = {(row.incarnation, row.generation, row.step): row for row in rows}
    at = (0, 0, 0)
    for rebalance in found:
        if not rebalance.replayable:
            continue
        generation = rebalance.generation
        recorded = next(iter(simulate_rebalance(rebalance, (), context)))
        one.recorded.add(recorded, is_follow_up=rebalance.is_follow_up)
        if rebalance.is_migration:
            continue
        first = (generation.incarnation, generation.generation_number, 0)
        # A recorded second phase is the next step of the rebalance that it completes.
        at = (*at[:2], at[2] + 1) if rebalance.is_follow_up else first
        why = _difference(rebalance, by_key.get(at))
        one.plans[_kind(rebalance), why is None] += 1
        if why is not None:
            one.differences.append((generation.generation_number, why))
    return one


def _difference(rebalance: RecordedRebalance, row: SimulatedRebalance | None) -> str | None:
    """Return what differs between a recorded assignment and that of `own`; None if nothing."""
    if row is None:
        return "no follow-up"
    if row.plan is None:
        return row.detail or row.status
    members = rebalance.generation.first.members
    recorded = {m.id: set(assigned_partitions(m)) for m in members if m.assigned}
    own = _named(json.loads(row.plan))
    if own == recorded:
        return None
    if own.keys() != recorded.keys():
        return "other members"
    return "another plan"


def _named(plan: dict[str, Any]) -> dict[str, set[tuple[str, int]]]:
    return {m: {(t, p) for t, ps in of.items() for p in ps} for m, of in plan.items() if of}


def _kind(rebalance: RecordedRebalance) -> str:
    generation = rebalance.generation
    if generation.protocol != "classic":
        return generation.protocol
    is_java = all(identify_client(m).name == JAVA for m in generation.first.members)
    return "java" if is_java else "others"


def total(groups: Iterable[GroupComparison]) -> GroupComparison:
    """Return the comparison of several groups as one."""
    whole = GroupComparison("all")
    for one in groups:
        whole.recorded, whole.own = whole.recorded + one.recorded, whole.own + one.own
        whole.plans += one.plans
    return whole
