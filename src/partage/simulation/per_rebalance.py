"""Simulation of each recorded rebalance separately, from the recorded previous owners.

Rebalances are independent of each other: they may be simulated in any order and in any process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from partage.history.agreement import Verdict, check_agreement
from partage.history.problems import recorded_group
from partage.model import NO_GENERATION
from partage.model.index import Index
from partage.simulation.context import SimulationContext
from partage.simulation.members import EMPTY, SimulatedMember
from partage.simulation.metrics import NOTHING, SimulatedRebalance
from partage.simulation.policies import CONSUMER, Policy, recorded_protocol
from partage.simulation.recorded_rebalances import (
    Absence,
    RecordedRebalance,
    session_timeout_ms,
)
from partage.simulation.rounds import MOST_FOLLOW_UPS, ResolvedPolicy, equals_dynamic_members
from partage.simulation.rows import RowBuilder, RowPosition, recorded_row
from partage.tables.statuses import PER_REBALANCE

__all__ = ["simulate_rebalance"]

_FOLLOWS = "completes the rebalance before: counted there"
_MIGRATED = "the assignment before, written in another form when the group was migrated"
_AWAY = "a static member that is back in time causes nothing"

#: Causes that do not exist for a static member that returns within its session timeout.
_MEMBERSHIP_CAUSES = ("broker", "bounce", "leave", "departure", "expiry", "join")


def simulate_rebalance(
    rebalance: RecordedRebalance,
    policies: Sequence[Policy],
    context: SimulationContext,
    *,
    agrees: Verdict | None = None,
) -> Iterator[SimulatedRebalance]:
    """Simulate one recorded rebalance under each policy, independently of earlier rebalances.

    A policy is a group configuration to simulate, such as ``eager/range``. Members start with the
    partitions that they really owned. Yield rows of table ``replays``: the recorded assignment
    first, then the simulated one of each policy. There are no rows if the rebalance cannot be
    replayed.

    Args:
        rebalance: the recorded rebalance, with the ownership before it.
        policies: the policies to simulate.
        context: metadata, metrics and commit statistics that all policies share.
        agrees: whether the recorded assignment equals the result of its own strategy; None if that
            is not known yet.
    """
    # Members send the user data that the policy's strategy would have stored for them, or what they
    # really sent if the group ran that strategy. A cooperative policy adds rows for its follow-up
    # rebalances.
    if not rebalance.replayable:
        return
    yield recorded_row(rebalance, context)
    is_reported = False
    for row in _simulate_each_policy(rebalance, policies, context):
        if not is_reported and row.claimed and "+" not in row.policy:
            is_reported, found = (
                True,
                agrees or check_agreement(rebalance.generation, context.clusters),
            )
            yield replace(
                row,
                agrees=found.agrees,
                judged_by=found.judged_by,
                counts=found.counts,
                detail=row.detail if found.why is None else found.why,
            )
        else:
            yield row


def _simulate_each_policy(
    rebalance: RecordedRebalance, policies: Sequence[Policy], context: SimulationContext
) -> Iterator[SimulatedRebalance]:
    """Simulate one recorded rebalance under each policy (group configuration); yield output rows.

    Equal configurations are simulated once. For example, the policy ``own`` (the recorded
    configuration) may equal another policy in the list.
    """
    rows = RowBuilder.for_rebalance(rebalance, context, PER_REBALANCE)
    simulated: dict[tuple[object, ...], list[SimulatedRebalance]] = {}
    for policy in policies:
        resolved = ResolvedPolicy.resolve(policy, rebalance)
        if resolved is None:
            yield rows.unknown_strategy_row(policy)
            continue
        # `own` resolves to a policy that may also be in the list under its own name.
        how, is_static = resolved.policy, _differs_if_static(rebalance, policy, resolved)
        key = (id(resolved.strategy), how.protocol, is_static, how.timeout_ms)
        if key not in simulated:
            simulated[key] = list(_rows_of_policy(rebalance, policy, resolved, rows))
        name, (strategy, claimed) = policy.name, rows.recorded_name(policy)
        for row in simulated[key]:
            same = (row.policy, row.strategy, row.claimed) == (name, strategy, claimed)
            yield row if same else replace(row, policy=name, strategy=strategy, claimed=claimed)


def _differs_if_static(
    rebalance: RecordedRebalance, policy: Policy, resolved: ResolvedPolicy
) -> bool:
    """Return whether static members (KIP-345) may change the result of a policy for a rebalance.

    The result is False if the policy has no static members. ``resolved`` is the policy with its
    assignment strategy.
    """
    if not policy.static or _avoids_rebalance(rebalance, policy):
        return policy.static
    dynamic = replace(policy, static=False)
    reads_sent = rebalance.is_follow_up or resolved.reads_claims
    if reads_sent and _joins_as_recorded(rebalance, dynamic, resolved):
        return True
    members = ((state.owner_identity, state) for state in rebalance.generation.first.members)
    return not equals_dynamic_members(resolved.strategy, members)


def _rows_of_policy(
    rebalance: RecordedRebalance, policy: Policy, resolved: ResolvedPolicy, rows: RowBuilder
) -> Iterator[SimulatedRebalance]:
    """Yield the output rows of one recorded rebalance under one policy (group configuration).

    There is a row for the simulated rebalance and for each follow-up. If the policy avoids the
    rebalance, there is one row with the reason.
    """
    if rebalance.is_migration:
        yield rows.no_rebalance_row(policy, resolved, _MIGRATED)
    elif policy.static and _avoids_rebalance(rebalance, policy):
        yield rows.no_rebalance_row(policy, resolved, _AWAY)
    else:
        yield from _simulate_policy(rebalance, policy, resolved, rows)


def _simulate_policy(
    rebalance: RecordedRebalance, policy: Policy, resolved: ResolvedPolicy, rows: RowBuilder
) -> Iterator[SimulatedRebalance]:
    """Simulate a rebalance under one policy (group configuration); yield a row for each phase.

    A cooperative policy may need a second phase, in which revoked partitions get their new owner.
    """
    generation = rebalance.generation
    state = generation.first
    members = _build_members(rebalance, resolved, rows.cluster.index)
    departed = rebalance.owned_by_departed()
    joins_as_recorded = _joins_as_recorded(rebalance, policy, resolved)
    if rebalance.is_follow_up and not joins_as_recorded:
        yield rows.no_rebalance_row(policy, resolved, _FOLLOWS)
        return
    group = None
    if joins_as_recorded and resolved.reads_claims:
        group = recorded_group(state)
    for step in range(MOST_FOLLOW_UPS + 1):
        result = resolved.simulate_rebalance(
            members,
            rows.cluster,
            generation.generation_number + step,
            rows.context.problems,
            leader=state.leader,
            group=group,
            departed=departed,
        )
        extra = NOTHING if step else rows.detection_delay_seconds(policy)
        place = RowPosition(step, generation.timestamp_ms)
        row = rows.simulated_row(policy, resolved, result, row_position=place, extra_downtime=extra)
        if rebalance.is_follow_up:  # its plan is compared; its costs are counted before
            quiet = rows.no_rebalance_row(policy, resolved, _FOLLOWS)
            yield replace(
                quiet,
                changed=row.changed,
                plan=row.plan,
                status=row.status,
                partitions=row.partitions,
                members=row.members,
            )
            return
        yield row
        if not result.needs_follow_up:
            return
        departed, group = [], None


def _joins_as_recorded(
    rebalance: RecordedRebalance, policy: Policy, resolved: ResolvedPolicy
) -> bool:
    """Return whether simulated members send the same data as the recorded ones when they join.

    These data are the partitions that they report as owned and their strategy's user data. They are
    equal if the policy has the recorded strategy and protocol. ``resolved`` is the policy with its
    strategy.
    """
    generation = rebalance.generation
    is_claimed = resolved.strategy.name == generation.first.strategy or policy.strategy is None
    is_same_protocol = resolved.policy.protocol == recorded_protocol(generation)
    is_classic = generation.protocol == "classic"
    return not policy.static and is_claimed and is_same_protocol and is_classic


def _build_members(
    rebalance: RecordedRebalance, resolved: ResolvedPolicy, index: Index
) -> list[SimulatedMember]:
    """Build simulated members from the recorded ones, with the partitions that they really owned.

    A member that has just started owns nothing, except under the consumer protocol. ``resolved`` is
    the policy with its strategy.
    """
    is_coordinator, stores_data = resolved.policy.protocol == CONSUMER, resolved.stores_member_data
    before = max(rebalance.generation.generation_number - 1, NO_GENERATION)
    members = []
    for state in rebalance.generation.first.members:
        key = state.owner_identity
        last = rebalance.last_owned.get(key, EMPTY)
        is_new = state.id not in rebalance.ids_before
        if is_new and not is_coordinator:
            # A process that has just started claims nothing; only a coordinator recognises it.
            members.append(SimulatedMember(key, state, last_owned=last))
            continue
        owned = rebalance.owned.get(key, EMPTY)
        member = SimulatedMember(key, state, owned, last, NO_GENERATION if is_new else before)
        if stores_data and not is_new:
            member.memory = resolved.compute_member_data(member, index)
        members.append(member)
    return members


def _avoids_rebalance(rebalance: RecordedRebalance, policy: Policy) -> bool:
    """Return whether a policy with static members (KIP-345) would avoid a recorded rebalance.

    The coordinator waits one session timeout for a static member. So the rebalance is avoided if
    its only cause is members that were absent for less than that.
    """
    absences = rebalance.departures + rebalance.returns
    causes = rebalance.generation.causes
    others = [cause.kind for cause in causes if cause.kind not in _MEMBERSHIP_CAUSES]
    changed = {cause.member for cause in causes if cause.kind in _MEMBERSHIP_CAUSES}
    absent = {m.id for a in absences for m in (a.member, a.as_member) if m is not None}
    in_time = all(_returns_in_time(absence, policy) for absence in absences)
    return bool(absences) and not others and changed <= absent and in_time


def _returns_in_time(absence: Absence, policy: Policy) -> bool:
    """Return whether an absent member rejoined within the simulated session timeout.

    The coordinator waits that long for a static member before it begins a rebalance.
    """
    if absence.back_ms is None:
        return False
    timeout = policy.timeout_ms or session_timeout_ms(absence.member)
    return absence.back_ms - absence.gone_ms <= timeout
