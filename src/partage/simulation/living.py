"""The two questions about a group's history, as functions that a job can ask anywhere.

    scenes = tuple(scenes(generations, clusters))        # cheap: one pass, in order
    world = World.of(clusters, scenes, evidence)         # cheap
    for scene in scenes:                                 # independent of each other: spread them
        rows += by_record(scene, policies, world)
    for policy in policies:                              # a life each: spread them too
        rows += by_own(scenes, policy, world)

Generations, scenes, evidence, policies and rows are plain values that can be pickled; a policy
travels as its name just as well. Same input, same rows, wherever they are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from partage.history.agreement import Verdict, verdict
from partage.history.clusters import ClusterHistory
from partage.history.events import Generation
from partage.simulation.cumulative import cumulative
from partage.simulation.evidence import Evidence
from partage.simulation.lived import Lived, Measurer
from partage.simulation.per_rebalance import per_rebalance
from partage.simulation.policies import Policy
from partage.simulation.rows import recorded_row
from partage.simulation.scenes import Scene, scenes
from partage.simulation.world import World

__all__ = ["by_own", "by_record", "live"]


def by_record(
    scene: Scene, policies: Sequence[Policy], world: World, *, judged: Verdict | None = None
) -> Iterator[Lived]:
    """One recorded rebalance: the record's own row, then `per_rebalance` under each policy.

    Whether the record is what the claimed strategy decides is told once, with the first policy
    of that strategy without options; ``judged`` is that verdict, if it is known already.
    """
    if not scene.replayable:
        return
    yield recorded_row(scene, world)
    told = False
    for row in per_rebalance(scene, policies, world):
        if not told and row.claimed and "+" not in row.policy:
            told, found = True, judged or verdict(scene.generation, world.clusters)
            yield replace(
                row, agrees=found.agrees, judged_by=found.judged_by, counts=found.counts,
                detail=row.detail if found.why is None else found.why,
            )  # fmt: skip
        else:
            yield row


def by_own(all_scenes: Iterable[Scene], policy: Policy, world: World) -> Iterator[Lived]:
    """One group's life under one policy: all scenes of the group, in order."""
    return cumulative(all_scenes, policy, world)


def live(
    generations: Iterable[Generation],
    policies: Sequence[Policy],
    clusters: ClusterHistory,
    evidence: Evidence | None = None,
    measure: Measurer | None = None,
) -> Iterator[Lived]:
    """Everything about one group at once: records first, then life by life.

    Args:
        generations: all of the group, in order, those without members included.
        policies: to live through.
        clusters: the metadata over time.
        evidence: what its commits tell; without it costs are not known.
        measure: the judge; None makes one for this group.
    """
    found = tuple(scenes(generations, clusters))
    world = World.of(clusters, found, evidence or Evidence(), measure)
    for scene in found:
        yield from by_record(scene, policies, world)
    for policy in policies:
        yield from by_own(found, policy, world)
