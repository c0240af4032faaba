"""Builds the rows of table ``replays`` from the figures that other modules compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from partage.history.records import recorded_plan
from partage.history.stop_model import UnreadEstimate
from partage.judge import PreviousOwners
from partage.model import Assignment, Cluster, Plan, Problem
from partage.model.index import Int32Array
from partage.simulation.context import SimulationContext
from partage.simulation.costs import (
    RebalanceCosts,
    detection_delay,
    stopped_partitions,
)
from partage.simulation.members import (
    EMPTY,
    SimulatedMember,
    owners_by_partition,
    previous_owners_of,
)
from partage.simulation.metrics import (
    NOTHING,
    Bounds,
    PlanMetrics,
    RecomputeInputs,
    SimulatedRebalance,
    format_plan_json,
)
from partage.simulation.policies import Policy, is_recorded_strategy, recorded_protocol
from partage.simulation.recorded_rebalances import RecordedRebalance, session_timeout_ms
from partage.simulation.rounds import ResolvedPolicy, RoundResult
from partage.tables.statuses import CUMULATIVE, DONE, NOT_YET, PER_REBALANCE, RECORDED

__all__ = ["RowBuilder", "RowBuilders", "RowPosition", "recorded_row"]

#: Row builders that policies share; a full cache is emptied. A rebalance's rows are built at about
#: one time under all policies.
_MOST_BUILDERS = 16
#: Metrics of a rebalance that does not happen.
_NO_REBALANCE = PlanMetrics(moved=0, avoidable=0)


@dataclass(frozen=True)
class RowBuilder:
    """Builder of the output rows (table ``replays``) for one recorded rebalance.

    There are rows for the recorded assignment and for each simulated group configuration.

    Attributes:
        rebalance: the recorded rebalance.
        context: metadata, metrics and commit statistics that all policies share.
        costs: the costs of the recorded rebalance.
        cluster: the cluster metadata at its time.
        recorded: the recorded assignment.
        reading: recorded, or the kind of simulation: per_rebalance or cumulative.
    """

    rebalance: RecordedRebalance
    context: SimulationContext
    costs: RebalanceCosts
    cluster: Cluster
    recorded: Assignment
    reading: str

    @classmethod
    def for_rebalance(
        cls, rebalance: RecordedRebalance, context: SimulationContext, simulation_kind: str
    ) -> RowBuilder:
        """Create the builder of output rows for a recorded rebalance.

        ``context`` has metadata and statistics of the group. ``simulation_kind`` is the kind of
        rows: recorded, per_rebalance (each rebalance by itself) or cumulative (the whole history).
        """
        costs = context.rebalance_costs(rebalance)
        return cls(
            rebalance, context, costs, costs.cluster, costs.recorded_assignment, simulation_kind
        )

    def _build_row(
        self,
        policy: Policy,
        resolved: ResolvedPolicy | None,
        status: str,
        row_position: RowPosition | None,
        **columns: Any,
    ) -> SimulatedRebalance:
        """Build an output row for the recorded rebalance under a simulated policy (group
        configuration).

        ``status`` says whether the simulation succeeded. ``row_position`` is the row's number and
        simulated time; None for number 0 at the recorded time. ``columns`` has the other columns.
        """
        generation = self.rebalance.generation
        step, time_ms = row_position or (0, generation.timestamp_ms)
        strategy, claimed = self.recorded_name(policy)
        return SimulatedRebalance(
            generation.incarnation,
            generation.generation_number,
            policy.name,
            strategy,
            resolved.policy.protocol if resolved else recorded_protocol(generation),
            self.reading,
            time_ms,
            status,
            step,
            claimed=claimed,
            **columns,
        )

    def recorded_name(self, policy: Policy) -> tuple[str, bool]:
        """Return the name of a policy's strategy, and whether the recorded rebalance used that
        strategy.

        A policy is a group configuration. The policy ``own`` keeps the recorded one and so has the
        recorded strategy.
        """
        generation = self.rebalance.generation
        strategy = policy.strategy.name if policy.strategy else generation.first.strategy or ""
        return strategy, is_recorded_strategy(policy, generation)

    def unknown_strategy_row(
        self, policy: Policy, row_position: RowPosition | None = None
    ) -> SimulatedRebalance:
        """Build the output row of a rebalance whose recorded assignment strategy Partage does not
        have.

        The row has a status, but no metrics such as loads or moved partitions.

        Args:
            policy: the group's recorded settings (the policy named ``own``).
            row_position: number and simulated time of the row; None for the recorded time.
        """
        return self._build_row(policy, None, NOT_YET, row_position)

    def no_rebalance_row(
        self,
        policy: Policy,
        resolved: ResolvedPolicy,
        reason: str,
        *,
        row_position: RowPosition | None = None,
        stopped: Bounds | None = NOTHING,
        unread: UnreadEstimate | None = None,
    ) -> SimulatedRebalance:
        """Return the output row for a recorded rebalance that a simulated policy avoids.

        For example, a static member that restarts within its session timeout causes none. A policy
        is a group configuration.

        Args:
            policy: the policy.
            resolved: the policy with its strategy.
            reason: the reason, such as a restart within the session timeout.
            row_position: number and simulated time of the row.
            stopped: bounds on partition-seconds without a consumer.
            unread: best estimate of these partition-seconds.
        """
        return self._build_row(
            policy,
            resolved,
            DONE,
            row_position,
            caused=False,
            unread=unread,
            detail=reason,
            measured=_NO_REBALANCE,
            stopped=stopped,
            reread=NOTHING,
        )

    def simulated_row(
        self,
        policy: Policy,
        resolved: ResolvedPolicy,
        result: RoundResult,
        *,
        row_position: RowPosition | None = None,
        cluster: Cluster | None = None,
        extra_downtime: Bounds | None = NOTHING,
        longer_ms: Bounds | None = None,
        unread: Callable[[Int32Array, RoundResult], UnreadEstimate | None] | None = None,
        is_stored: bool = False,
    ) -> SimulatedRebalance:
        """Return the output row of a simulated rebalance, with its metrics and costs.

        A failed simulation gives a row with the reason only.

        Args:
            policy: the policy of the row.
            resolved: the policy with its strategy.
            result: the result of the rebalance.
            row_position: number and simulated time of the row; None for number 0 at the recorded
                time.
            cluster: the metadata that the strategy saw; None for the recorded one.
            extra_downtime: partition-seconds of dead or absent members, in addition to the
                partitions that stop.
            longer_ms: additional time that it waited for members that did not respond.
            unread: returns the estimated unread time of the partitions that stop.
            is_stored: whether the row gets `RecomputeInputs` in a cumulative simulation too.
        """
        if result.plan is None or result.group is None or result.last_owner is None:
            return self._build_row(
                policy, resolved, result.status, row_position, detail=result.detail
            )
        on = cluster or self.cluster
        plan = result.plan
        context = self.context
        metrics = self.clear_unreliable_breaches(
            context.measure(plan, result.group, on, context.weights, result.old_owners)
        )
        if result.needs_follow_up:  # loads between two phases are no result: only the end counts
            metrics = replace(
                metrics, spread=None, best_spread=None, idle=None, load_spread=None, colocation=None
            )
        owners = (result.last_owner, plan.owner, on.partition_exists)
        stops = stopped_partitions(*owners, eager=resolved.policy.eager)
        stopped = self.costs.stopped_seconds(stops, context.usual_ms, longer_ms=longer_ms)
        return self._build_row(
            policy,
            resolved,
            result.status,
            row_position,
            partitions=len(plan.partition),
            members=len(plan.members),
            measured=metrics,
            stopped=None if stopped is None or extra_downtime is None else stopped + extra_downtime,
            unread=None if unread is None else unread(stops, result),
            reread=self.costs.reread_bounds(stops),
            changed=self._count_changed_owners(plan),
            unread_at_once=len(stops),
            plan=context.plan_texts.plan_to_json(plan),
            detail=None if plan.loop is None else plan.loop.warning_text(resolved.strategy.name),
            recompute=RecomputeInputs(
                stops, extra_downtime, plan, result.group, on, not result.needs_follow_up, longer_ms
            )
            if is_stored or self.reading == PER_REBALANCE
            else None,
        )

    def _count_changed_owners(self, plan: Plan) -> int:
        """Count the partitions whose simulated owner differs from the recorded owner.

        ``plan`` is the simulated assignment.
        """
        number = self._recorded_position
        if plan.members == self.recorded.members and len(number) == len(plan.members):
            owner = plan.owner
        else:
            others = range(len(number), len(number) + len(plan.members))
            names = zip(plan.members, others, strict=True)
            numbers = np.array([number.get(name, other) for name, other in names], np.int32)
            owner = np.append(numbers, np.int32(-1))[plan.owner]
        return int(np.count_nonzero(owner != self.costs.recorded_owner))

    @cached_property
    def _recorded_position(self) -> dict[str, int]:
        # Position of each member in the recorded assignment.
        return {member: i for i, member in enumerate(self.recorded.members)}

    def clear_unreliable_breaches(self, metrics: PlanMetrics) -> PlanMetrics:
        """Return metrics without the number of rule violations if partition counts were not
        recorded.

        Partition counts are then assumed, so that number would be unreliable.
        """
        return replace(metrics, breaches=None) if self._has_unknown_partitions else metrics

    @cached_property
    def _has_unknown_partitions(self) -> bool:
        assumed = self.context.clusters.assumed_at(self.rebalance.generation.timestamp_ms)
        return assumed or bool(self.recorded.unresolved)

    def detection_delay_seconds(self, policy: Policy) -> Bounds:
        """Estimate how long partitions of dead members stayed unread before the coordinator
        noticed.

        The coordinator evicts a dead member after its session timeout: that of the policy, else the
        recorded one. The result has a lower and an upper bound, in partition-seconds (seconds
        summed over partitions).
        """
        total = NOTHING
        for absence in self.rebalance.departures:
            if absence.expired:
                timeout = policy.timeout_ms or session_timeout_ms(absence.member)
                owned = self.rebalance.owned.get(absence.member.owner_identity, EMPTY)
                existing = int(np.count_nonzero(self.cluster.partition_exists[owned]))
                total = total + detection_delay(timeout).multiply_by(existing / 1_000)
        return total


class RowBuilders:
    """Cache of the objects that build output rows, shared by the simulations of a group.

    There is one for each recorded rebalance.

    Args:
        context: metadata and statistics of the group.
    """

    def __init__(self, context: SimulationContext) -> None:
        self._context = context
        self._builders: dict[int, RowBuilder] = {}

    def row_builder(self, rebalance: RecordedRebalance) -> RowBuilder:
        """Return the object that builds a recorded rebalance's output rows in cumulative
        simulations.
        """
        found = self._builders.get(id(rebalance))
        if found is None:
            if len(self._builders) >= _MOST_BUILDERS:
                self._builders.clear()
            # The builder refers to the rebalance, so no other one gets its id.
            found = RowBuilder.for_rebalance(rebalance, self._context, CUMULATIVE)
            self._builders[id(rebalance)] = found
        return found


class RowPosition(NamedTuple):
    """Number and simulated time of one of the output rows that belong to a recorded rebalance.

    There may be several: the simulated rebalance and its follow-ups.

    Attributes:
        step: number of the row, from 0; follow-up rebalances have later numbers.
        time_ms: simulated time of the rebalance.
    """

    step: int
    time_ms: int


def recorded_row(rebalance: RecordedRebalance, context: SimulationContext) -> SimulatedRebalance:
    """Return the output row for the recorded assignment itself, with its metrics and costs.

    Rows of simulated rebalances are compared with it. ``context`` has metadata and statistics of
    the group.
    """
    rows = RowBuilder.for_rebalance(rebalance, context, RECORDED)
    generation, given = rebalance.generation, rows.recorded
    members, old_owners = _recorded_problem(rebalance, rows)
    protocol = recorded_protocol(generation)
    stopped = rows.costs.stopped_seconds(rows.costs.stopped, context.usual_ms)
    extra = rows.detection_delay_seconds(Policy(protocol, None))
    return SimulatedRebalance(
        generation.incarnation,
        generation.generation_number,
        RECORDED,
        RECORDED,
        protocol,
        RECORDED,
        generation.timestamp_ms,
        DONE,
        caused=not rebalance.is_migration,
        partitions=len(given.partition),
        members=len(given.members),
        measured=rows.clear_unreliable_breaches(
            context.measure(given, members.group, rows.cluster, context.weights, old_owners)
        ),
        stopped=None if stopped is None else stopped + extra,
        unread=generation.unread,
        reread=rows.costs.reread_as_recorded(),
        changed=0,
        unread_at_once=len(rows.costs.stopped),
        plan=format_plan_json(recorded_plan(generation.first)),
        recompute=RecomputeInputs(rows.costs.stopped, extra, given, members.group, rows.cluster),
    )


def _recorded_problem(
    rebalance: RecordedRebalance, rows: RowBuilder
) -> tuple[Problem, PreviousOwners]:
    """Return the recorded members as an assignment problem, and the recorded previous owners.

    An assignment problem is the input of a strategy. Its members report no owned partitions here.
    ``rows`` is the row builder of the rebalance, which has the cluster metadata.
    """
    number = max(rebalance.generation.generation_number - 1, 0)
    members = [
        SimulatedMember(
            m.owner_identity,
            m,
            last_owned=rebalance.last_owned.get(m.owner_identity, EMPTY),
            generation=number,
        )
        for m in rebalance.generation.first.members
    ]
    problem = rows.context.problems.problem_without_owned_partitions(
        members, rows.cluster, static=False
    )
    last_owner = owners_by_partition(rows.cluster.index.partitions, [m.last_owned for m in members])
    return problem, previous_owners_of(members, problem, last_owner)
