"""Whether a record is what its leader's library makes of what the members sent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from partage.errors import PartageError
from partage.groups import registry
from partage.groups.api import Strategy
from partage.history.agreement import Named, explain, named, recorded_named
from partage.history.clusters import ClusterHistory
from partage.history.dialects import judges
from partage.history.problems import all_java, group_as_sent
from partage.model import Cluster, Problem
from partage.simulation.scenes import Scene

__all__ = ["Verdict", "verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a record is a strategy's plan, why not, whose rule was asked, and if it counts."""

    agrees: bool | None = None
    why: str | None = None
    judged_by: str | None = None
    counts: bool = False


def verdict(scene: Scene, clusters: ClusterHistory) -> Verdict:
    """The claimed strategy's, by the dialects of the leader's client; empty if it is unknown."""
    state = scene.generation.first
    if scene.generation.protocol != "classic" or state.strategy not in registry.strategies():
        return Verdict()
    strategy = registry.find(state.strategy)
    tried = [_judged(scene, one, clusters) for one in judges(state, strategy)]
    fitting = [one for one in tried if one.agrees] or tried
    names = " or ".join(one.judged_by or "" for one in fitting)
    counts = strategy.exact_to is not None and all_java(state)
    return replace(fitting[0], judged_by=names, counts=counts)


def _judged(scene: Scene, strategy: Strategy, clusters: ClusterHistory) -> Verdict:
    found = scene.generation
    group = group_as_sent(found.first)
    position = clusters.position_at(found.timestamp_ms)

    def plan_on(cluster: Cluster) -> Named:
        return named(strategy.assign(Problem(group, cluster)))

    try:
        if plan_on(clusters.state(position)) == recorded_named(found.first):
            return Verdict(agrees=True, judged_by=strategy.name)
    except PartageError as e:
        return Verdict(agrees=False, why=str(e), judged_by=strategy.name)
    why = explain(found.first, clusters, position, plan_on)
    return Verdict(agrees=False, why=why, judged_by=strategy.name)
