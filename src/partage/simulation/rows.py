"""Builds the rows of table ``replays``: the only module that fills in its columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from partage.history.problems import recorded_group, surviving_claims
from partage.history.records import assigned_partitions
from partage.history.stop_model import UnreadEstimate
from partage.model import Assignment, Cluster, Group
from partage.model.index import Int32Array
from partage.simulation.context import SimulationContext
from partage.simulation.costs import (
    RebalanceCosts,
    detection_delay,
    stopped_partitions,
    unread_at_once,
)
from partage.simulation.members import EMPTY
from partage.simulation.metrics import NOTHING, Bounds, PlanMetrics, SimulatedRebalance
from partage.simulation.policies import Policy, is_recorded_strategy, recorded_protocol
from partage.simulation.recorded_rebalances import RecordedRebalance, session_timeout_ms
from partage.simulation.rounds import ResolvedPolicy, RoundResult
from partage.tables.statuses import DONE, NOT_YET, RECORDED

__all__ = ["RowBuilder", "recorded_row"]

#: Metrics of a rebalance that does not happen.
_NO_REBALANCE = PlanMetrics(moved=0, avoidable=0)


@dataclass(frozen=True)
class RowBuilder:
    """Builds the rows of table ``replays`` for one recorded rebalance.

    Attributes:
        rebalance: the recorded rebalance.
        context: metadata, judge and commit evidence of the group.
        costs: the costs of the recorded rebalance.
        cluster: the cluster metadata at its time.
        recorded: the recorded assignment.
        reading: kind of simulation: recorded, per_rebalance or cumulative.
    """

    rebalance: RecordedRebalance
    context: SimulationContext
    costs: RebalanceCosts
    cluster: Cluster
    recorded: Assignment
    reading: str

    @classmethod
    def of(
        cls, rebalance: RecordedRebalance, context: SimulationContext, reading: str
    ) -> RowBuilder:
        """Create a row builder for a recorded rebalance."""
        costs = context.costs(rebalance)
        return cls(rebalance, context, costs, costs.cluster, costs.given, reading)

    def key_only(
        self, policy: Policy, resolved: ResolvedPolicy | None, status: str = DONE
    ) -> SimulatedRebalance:
        """Return a row that has only the key columns and a status."""
        generation = self.rebalance.generation
        strategy = policy.strategy.name if policy.strategy else generation.first.strategy or ""
        return SimulatedRebalance(
            generation.incarnation,
            generation.number,
            policy.name,
            strategy,
            resolved.policy.protocol if resolved else recorded_protocol(generation),
            self.reading,
            generation.timestamp_ms,
            status,
            claimed=is_recorded_strategy(policy, generation),
        )

    def unknown_strategy(self, policy: Policy) -> SimulatedRebalance:
        """Return an output row for a recorded strategy that Partage does not implement."""
        return self.key_only(policy, None, NOT_YET)

    def no_rebalance(
        self, policy: Policy, resolved: ResolvedPolicy, why: str, stopped: Bounds | None = NOTHING
    ) -> SimulatedRebalance:
        """Return an output row that says why a rebalance does not happen under a policy."""
        return replace(
            self.key_only(policy, resolved),
            caused=False,
            detail=why,
            measured=_NO_REBALANCE,
            stopped=stopped,
            reread=NOTHING,
        )

    def simulated(
        self,
        policy: Policy,
        resolved: ResolvedPolicy,
        result: RoundResult,
        *,
        cluster: Cluster | None = None,
        extra: Bounds | None = NOTHING,
        longer_ms: Bounds | None = None,
        unread: Callable[[Int32Array, RoundResult], UnreadEstimate | None] | None = None,
    ) -> SimulatedRebalance:
        """Return the output row of a simulated rebalance, with metrics and costs.

        Args:
            policy: the policy of the row.
            resolved: the policy with its strategy.
            result: the result of the rebalance.
            cluster: the metadata that the strategy saw; None for the recorded one.
            extra: partition-seconds of dead or absent members, in addition to the stop.
            longer_ms: additional time that it waited for members that did not respond.
            unread: returns the estimated unread time of the partitions that stop.
        """
        blank = self.key_only(policy, resolved, result.status)
        if result.plan is None or result.before is None or result.last_owner is None:
            return replace(blank, detail=result.detail)
        on = cluster or self.cluster
        plan = result.plan
        context = self.context
        metrics = self.with_known_breaches(
            context.measure(plan, result.before, on, context.weights)
        )
        if result.needs_follow_up:  # loads between two phases are no result: only the end counts
            metrics = replace(
                metrics, spread=None, best_spread=None, idle=None, load_spread=None, colocation=None
            )
        owners = (result.last_owner, plan.owner, on.partition_exists)
        stops = stopped_partitions(*owners, eager=resolved.policy.eager)
        stopped = self.costs.stopped_seconds(stops, context.usual_ms, longer_ms=longer_ms)
        return replace(
            blank,
            partitions=len(plan.partition),
            members=len(plan.members),
            measured=metrics,
            stopped=None if stopped is None or extra is None else stopped + extra,
            unread=None if unread is None else unread(stops, result),
            reread=self.costs.reread(stops),
            changed=_changed_owners(plan, self.recorded),
            unread_at_once=unread_at_once(*owners, eager=resolved.policy.eager),
            plan=_to_json(plan.to_dict()),
            detail=None if plan.loop is None else plan.loop.warning(resolved.strategy.name),
        )

    def with_known_breaches(self, metrics: PlanMetrics) -> PlanMetrics:
        """Return the metrics; rule violations become unknown if partition counts are assumed."""
        assumed = self.context.clusters.assumed_at(self.rebalance.generation.timestamp_ms)
        is_unknown = assumed or bool(self.recorded.unresolved)
        return replace(metrics, breaches=None) if is_unknown else metrics

    def undetected_seconds(self, policy: Policy) -> Bounds:
        """Return the partition-seconds of dead members' partitions before the members' eviction."""
        total = NOTHING
        for absence in self.rebalance.departures:
            if absence.expired:
                timeout = policy.timeout_ms or session_timeout_ms(absence.member)
                owned = self.rebalance.owned.get(absence.member.owner, EMPTY)
                existing = int(np.count_nonzero(self.cluster.partition_exists[owned]))
                total = total + detection_delay(timeout).times(existing / 1_000)
        return total


def recorded_row(rebalance: RecordedRebalance, context: SimulationContext) -> SimulatedRebalance:
    """Return the row of table ``replays`` that has the metrics of the recorded assignment."""
    rows = RowBuilder.of(rebalance, context, RECORDED)
    generation, given = rebalance.generation, rows.recorded
    group = _recorded_group(rebalance, rows.cluster)
    protocol = recorded_protocol(generation)
    stopped = rows.costs.stopped_seconds(rows.costs.stopped, context.usual_ms)
    return SimulatedRebalance(
        generation.incarnation,
        generation.number,
        RECORDED,
        RECORDED,
        protocol,
        RECORDED,
        generation.timestamp_ms,
        DONE,
        caused=not rebalance.is_migration,
        partitions=len(given.partition),
        members=len(given.members),
        measured=rows.with_known_breaches(
            context.measure(given, group, rows.cluster, context.weights)
        ),
        stopped=None
        if stopped is None
        else stopped + rows.undetected_seconds(Policy(protocol, None)),
        unread=generation.unread,
        reread=rows.costs.reread_as_recorded(),
        changed=0,
        unread_at_once=len(rows.costs.stopped),
        plan=_to_json(_recorded_plan(rebalance)),
    )


def _recorded_group(rebalance: RecordedRebalance, cluster: Cluster) -> Group:
    """Return the recorded members with the partitions that they owned last."""
    state = rebalance.generation.first
    number = max(rebalance.generation.number - 1, 0)
    return Group(
        sent.replaced(
            owned=surviving_claims(
                cluster.index, rebalance.last_owned.get(m.owner, EMPTY), cluster
            ),
            generation=number,
        )
        for sent, m in zip(recorded_group(state), state.members, strict=True)
    )


def _recorded_plan(rebalance: RecordedRebalance) -> dict[str, dict[str, list[int]]]:
    """Return the recorded assignment as a dict from member id to topic to partitions."""
    out: dict[str, dict[str, list[int]]] = {}
    for member in rebalance.generation.first.members:
        topics = out.setdefault(member.id, {})
        for topic, p in assigned_partitions(member):
            topics.setdefault(topic, []).append(p)
    return out


def _changed_owners(plan: Assignment, recorded: Assignment) -> int:
    """Return how many partitions have another owner (member id) than in the recorded assignment."""
    number = {member: i for i, member in enumerate(recorded.members)}
    numbers = np.array(
        [number.get(m, len(number) + i) for i, m in enumerate(plan.members)], np.int32
    )
    owner = [np.full(plan.index.partitions, -1, np.int32) for _ in range(2)]
    owner[0][plan.partition] = numbers[plan.member_of] if len(numbers) else EMPTY
    owner[1][recorded.partition] = recorded.member_of
    return int(np.count_nonzero(owner[0] != owner[1]))


def _to_json(plan: Mapping[str, Mapping[str, list[int]]]) -> str:
    return json.dumps(plan, ensure_ascii=False, separators=(",", ":"))
