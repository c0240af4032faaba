"""What all readings of one group's history share: metadata, judge, and what its commits tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from partage.history.clusters import ClusterHistory
from partage.simulation.costs import Costs, recorded_cost
from partage.simulation.evidence import Evidence
from partage.simulation.judging import Judge
from partage.simulation.lived import Bounds, Measurer
from partage.simulation.loads import Weights, weights_of
from partage.simulation.policies import EAGER
from partage.simulation.recorded import protocol_of
from partage.simulation.scenes import Scene
from partage.simulation.stopped import usual

__all__ = ["World"]


@dataclass(frozen=True)
class World:
    """The surroundings of one group.

    Attributes:
        clusters: the metadata over time.
        measure: the judge.
        evidence: pauses and rates of the group.
        usual_ms: how long its rebalances take as a rule, for those of which no commit tells.
        weights: float64[P], records a second of each partition.
    """

    clusters: ClusterHistory
    measure: Measurer = field(default_factory=Judge)
    evidence: Evidence = field(default_factory=Evidence)
    usual_ms: Bounds | None = None
    weights: Weights = None

    @classmethod
    def of(
        cls,
        clusters: ClusterHistory,
        scenes: Iterable[Scene],
        evidence: Evidence,
        measure: Measurer | None = None,
    ) -> World:
        """The world of a group whose scenes are known; ``scenes`` of all its life."""
        bare = cls(clusters, measure or Judge(), evidence)
        known = [one for one in scenes if one.replayable] if evidence.pauses else []
        lengths = [bare.costs(one).length_ms for one in known]
        weights = weights_of(evidence.rates, clusters.index)
        return cls(clusters, bare.measure, evidence, usual(lengths), weights)

    def costs(self, scene: Scene) -> Costs:
        """What a rebalance costs, by the record of it."""
        cluster = self.clusters.at(scene.generation.timestamp_ms)
        eager = protocol_of(scene.generation) == EAGER
        recorded = recorded_cost(scene, cluster, self.evidence, eager=eager)
        length_ms = recorded.length_ms or self.usual_ms
        return Costs(recorded, length_ms, self.evidence, cluster)
