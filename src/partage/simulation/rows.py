"""Rows of what was lived: one place that fills in every column."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from partage.history.problems import group_as_sent, surviving
from partage.history.records import assigned_pairs
from partage.model import Assignment, Cluster, Group
from partage.model.index import Int32Array
from partage.simulation.absences import session_timeout_ms
from partage.simulation.consumers import EMPTY
from partage.simulation.costs import Costs
from partage.simulation.lived import NOTHING, Bounds, Lived, Measured
from partage.simulation.policies import Policy
from partage.simulation.recorded import claimed_by, protocol_of
from partage.simulation.rounds import Decider, SimulatedRound
from partage.simulation.scenes import Scene
from partage.simulation.stopped import silence, stopping
from partage.simulation.world import World
from partage.tables.statuses import DONE, NOT_YET, RECORDED

__all__ = ["Rows", "quiet", "recorded_row"]

#: What a rebalance has that does not happen: nothing moved, nothing to judge.
quiet = Measured(moved=0, avoidable=0)


@dataclass(frozen=True)
class Rows:
    """Makes the rows of one recorded rebalance in one reading.

    Attributes:
        scene: the rebalance.
        world: its surroundings.
        costs: what it costs.
        cluster: the metadata at its time.
        recorded: what the record gave.
        reading: per_rebalance or cumulative.
    """

    scene: Scene
    world: World
    costs: Costs
    cluster: Cluster
    recorded: Assignment
    reading: str

    @classmethod
    def of(cls, scene: Scene, world: World, reading: str) -> Rows:
        """Everything that the rows of one rebalance share, looked up once."""
        costs = world.costs(scene)
        return cls(scene, world, costs, costs.cluster, costs.given, reading)

    def blank(self, policy: Policy, decider: Decider | None, status: str = DONE) -> Lived:
        """A row with nothing but its key."""
        found = self.scene.generation
        strategy = policy.strategy.name if policy.strategy else found.first.strategy or ""
        protocol = decider.policy.protocol if decider else protocol_of(found)
        return Lived(
            found.incarnation, found.number, policy.name, strategy, protocol, self.reading,
            found.timestamp_ms, status, claimed=claimed_by(policy, found),
        )  # fmt: skip

    def missing(self, policy: Policy) -> Lived:
        """The group chose a strategy that Partage does not have."""
        return self.blank(policy, None, NOT_YET)

    def none(
        self, policy: Policy, decider: Decider, why: str, stopped: Bounds | None = NOTHING
    ) -> Lived:
        """A rebalance that does not happen under a policy."""
        blank = self.blank(policy, decider)
        return replace(
            blank, caused=False, detail=why, measured=quiet, stopped=stopped, reread=NOTHING
        )

    def lived(
        self,
        policy: Policy,
        decider: Decider,
        done: SimulatedRound,
        *,
        cluster: Cluster | None = None,
        extra: Bounds | None = NOTHING,
        longer_ms: Bounds | None = None,
    ) -> Lived:
        """A rebalance that happened.

        Args:
            policy: whose row it is.
            decider: who decided.
            done: what came of it.
            cluster: the metadata that was decided on; None for that of the record.
            extra: partition-seconds besides the rebalance's own: of members that were dead
                or away.
            longer_ms: how long it waited for members that did not answer.
        """
        blank = self.blank(policy, decider, done.status)
        if done.plan is None or done.before is None or done.was is None:
            return replace(blank, detail=done.detail)
        on = cluster or self.cluster
        plan = done.plan
        # In between two phases loads are not what anybody wants: only the end is judged.
        found = self.ruled(self.world.measure(plan, done.before, on, self.world.weights))
        if done.lets_go:
            found = replace(
                found, spread=None, best_spread=None, idle=None, load_spread=None, colocation=None
            )
        eager = decider.policy.eager
        stops = stopping(done.was, plan.owner, on.partition_exists, eager=eager)
        own = self.costs.stopped(stops, self.world.usual_ms, longer_ms=longer_ms)
        return replace(
            blank,
            partitions=len(plan.partition),
            members=len(plan.members),
            measured=found,
            stopped=None if own is None or extra is None else own + extra,
            reread=self.costs.reread(stops),
            changed=_changed(plan, self.recorded),
            plan=as_json(plan.to_dict()),
            detail=None if plan.loop is None else plan.loop.warning(decider.strategy.name),
        )

    def ruled(self, found: Measured) -> Measured:
        """Remove the count of breaches where the partition counts are not known for certain."""
        assumed = self.world.clusters.assumed_at(self.scene.generation.timestamp_ms)
        unknown = assumed or bool(self.recorded.unresolved)
        return replace(found, breaches=None) if unknown else found

    def dead(self, policy: Policy) -> Bounds:
        """Partition-seconds of members that died: until they are missed, nobody reads for them."""
        total = NOTHING
        for one in self.scene.gone:
            if one.expired:
                timeout = policy.timeout_ms or session_timeout_ms(one.member)
                had = self.scene.held.get(one.member.owner, EMPTY)
                total = total + silence(timeout).times(_alive(had, self.cluster) / 1_000)
        return total


def recorded_row(scene: Scene, world: World) -> Lived:
    """The record itself as a row: measured like everybody else's plans."""
    rows = Rows.of(scene, world, RECORDED)
    found, given = scene.generation, rows.recorded
    group = _as_recorded(scene, rows.cluster)
    protocol = protocol_of(found)
    own = rows.costs.stopped(rows.costs.stopping, world.usual_ms)
    return Lived(
        found.incarnation, found.number, RECORDED, RECORDED, protocol, RECORDED,
        found.timestamp_ms, DONE, caused=not scene.written_over,
        partitions=len(given.partition), members=len(given.members),
        measured=rows.ruled(world.measure(given, group, rows.cluster, world.weights)),
        stopped=None if own is None else own + rows.dead(Policy(protocol, None)),
        reread=rows.costs.reread_as_recorded(), changed=0, plan=as_json(_named(scene)),
    )  # fmt: skip


def _as_recorded(scene: Scene, cluster: Cluster) -> Group:
    """The recorded members, owning what they read last."""
    found = scene.generation
    number = max(found.number - 1, 0)
    return Group(
        sent.replaced(
            owned=surviving(cluster.index, scene.last.get(m.owner, EMPTY), cluster),
            generation=number,
        )
        for sent, m in zip(group_as_sent(found.first), found.first.members, strict=True)
    )


def _named(scene: Scene) -> dict[str, dict[str, list[int]]]:
    out: dict[str, dict[str, list[int]]] = {}
    for member in scene.generation.first.members:
        mine = out.setdefault(member.id, {})
        for topic, p in assigned_pairs(member):
            mine.setdefault(topic, []).append(p)
    return out


def _alive(dense: Int32Array, cluster: Cluster) -> int:
    return int(np.count_nonzero(cluster.partition_exists[dense]))


def _changed(plan: Assignment, recorded: Assignment) -> int:
    """Partitions whose owner differs from the record; members are matched by their ids."""
    number = {member: i for i, member in enumerate(recorded.members)}
    mine = np.array([number.get(m, len(number) + i) for i, m in enumerate(plan.members)], np.int32)
    owner = [np.full(plan.index.partitions, -1, np.int32) for _ in range(2)]
    owner[0][plan.partition] = mine[plan.member_of] if len(mine) else EMPTY
    owner[1][recorded.partition] = recorded.member_of
    return int(np.count_nonzero(owner[0] != owner[1]))


def as_json(plan: Mapping[str, Mapping[str, list[int]]]) -> str:
    """Compact JSON, as table ``replays`` has it."""
    return json.dumps(plan, ensure_ascii=False, separators=(",", ":"))
