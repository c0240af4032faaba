"""What would this strategy have done here? Each rebalance by itself, from the recorded past.

Rebalances are independent of each other: they may be lived through anywhere, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from partage.history.problems import group_as_sent
from partage.history.records import MemberState
from partage.model import NO_GENERATION, Group
from partage.model.index import Index
from partage.simulation.absences import Absence, session_timeout_ms
from partage.simulation.consumers import EMPTY, SimulatedConsumer
from partage.simulation.lived import NOTHING, Lived
from partage.simulation.policies import CONSUMER, Policy
from partage.simulation.recorded import own_strategy, protocol_of
from partage.simulation.rounds import MOST_FOLLOW_UPS, Decider
from partage.simulation.rows import Rows
from partage.simulation.scenes import Scene
from partage.simulation.world import World
from partage.tables.statuses import PER_REBALANCE

__all__ = ["decider_at", "per_rebalance"]

_FOLLOWS = "completes the rebalance before: counted there"
_WRITTEN = "the assignment before, written in another form when the group was migrated"
_AWAY = "a static member that is back in time causes nothing"


def per_rebalance(scene: Scene, policies: Sequence[Policy], world: World) -> Iterator[Lived]:
    """The rows of one recorded rebalance, for each policy: the rebalance, and its follow-ups.

    Members are those of the record. They hold, and send, what they would if the policy had
    given them what they owned by the record; where the group did choose the policy's
    strategy, they send what they did send.

    Args:
        scene: the rebalance, and what was before it.
        policies: whose rows are wanted; there are none if the rebalance cannot be replayed.
        world: metadata, judge and evidence.
    """
    if not scene.replayable:
        return
    rows = Rows.of(scene, world, PER_REBALANCE)
    same: dict[tuple[object, ...], list[Lived]] = {}
    for policy in policies:
        decider = decider_at(policy, scene)
        if decider is None:
            yield rows.missing(policy)
            continue
        # The group's own policy is one that has a name of its own, too: it is lived once.
        how = decider.policy
        key = (id(decider.strategy), how.protocol, how.static, how.timeout_ms)
        if key not in same:
            same[key] = list(_of_policy(scene, policy, decider, rows))
        named = rows.blank(policy, decider)
        for row in same[key]:
            yield replace(row, policy=named.policy, strategy=named.strategy, claimed=named.claimed)


def _of_policy(scene: Scene, policy: Policy, decider: Decider, rows: Rows) -> Iterator[Lived]:
    """The rows of one policy, whoever decides."""
    if scene.written_over:
        yield rows.none(policy, decider, _WRITTEN)
    elif policy.static and _only_away(scene, policy):
        yield rows.none(policy, decider, _AWAY)
    else:
        yield from _lived(scene, policy, decider, rows)


def decider_at(policy: Policy, scene: Scene) -> Decider | None:
    """Who decides under a policy; None if the group chose what Partage does not have."""
    if policy.strategy is not None:
        return Decider(policy, policy.strategy)
    strategy = own_strategy(scene.generation)
    if strategy is None:
        return None
    return Decider(policy.as_strategy(protocol_of(scene.generation), strategy), strategy)


def _lived(scene: Scene, policy: Policy, decider: Decider, rows: Rows) -> Iterator[Lived]:
    found = scene.generation
    state = found.first
    consumers = [_consumer(m, scene, decider, rows.cluster.index) for m in state.members]
    there = {m.owner for m in state.members}
    gone = [mine for owner, mine in scene.held.items() if owner not in there]
    group = _as_they_did(scene, policy, decider)
    if scene.follow_up and group is None:
        yield rows.none(policy, decider, _FOLLOWS)
        return
    for step in range(MOST_FOLLOW_UPS + 1):
        done = decider.round(
            consumers, rows.cluster, found.number + step, leader=state.leader, group=group,
            gone=gone,
        )  # fmt: skip
        row = rows.lived(policy, decider, done, extra=NOTHING if step else rows.dead(policy))
        if scene.follow_up:  # its plan is wanted beside the record's; its costs are told before
            quiet = rows.none(policy, decider, _FOLLOWS)
            same = {name: getattr(row, name) for name in ("status", "partitions", "members")}
            yield replace(quiet, changed=row.changed, plan=row.plan, **same)
            return
        yield replace(row, step=step)
        if not done.lets_go:
            return
        gone, group = [], None


def _as_they_did(scene: Scene, policy: Policy, decider: Decider) -> Group | None:
    """What members really sent, where the policy's strategy made them send it."""
    found = scene.generation
    claimed = decider.strategy.name == found.first.strategy or policy.strategy is None
    if policy.static or not claimed or decider.policy.protocol != protocol_of(found):
        return None
    return group_as_sent(found.first) if found.protocol == "classic" else None


def _consumer(
    member: MemberState, scene: Scene, decider: Decider, index: Index
) -> SimulatedConsumer:
    """A member as the policy would have left it: with what it owned by the record."""
    held = scene.held.get(member.owner, EMPTY)
    last = scene.last.get(member.owner, EMPTY)
    started = member.id not in scene.ids
    if started and decider.policy.protocol != CONSUMER:
        # A process that has just started claims nothing; only the coordinator knows it again.
        return SimulatedConsumer(member.owner, member, last=last)
    before = max(scene.generation.number - 1, NO_GENERATION)
    made = SimulatedConsumer(member.owner, member, held, last, NO_GENERATION if started else before)
    if not started:
        made.memory = decider.recalls(made, index)
    return made


def _only_away(scene: Scene, policy: Policy) -> bool:
    """Whether all that happened is that members went for less than a session timeout, or came
    back from that: with an instance id the coordinator waits for them.
    """
    away = scene.gone + scene.back
    changes = [kind for kind in scene.kinds if kind not in _GOING]
    went = {c.member for c in scene.generation.causes if c.kind in _GOING}
    told = {m.id for a in away for m in (a.member, a.as_member) if m is not None}
    return bool(away) and not changes and went <= told and all(_in_time(a, policy) for a in away)


#: Causes that a static member's coming and going would not have been.
_GOING = ("bounce", "leave", "expiry", "join")


def _in_time(away: Absence, policy: Policy) -> bool:
    if away.back_ms is None:
        return False
    timeout = policy.timeout_ms or session_timeout_ms(away.member)
    return away.back_ms - away.gone_ms <= timeout
