"""What all readings of one group's history share: metadata, judge, and what its commits tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from partage.history.clusters import ClusterHistory
from partage.history.problems import recorded_assignment
from partage.simulation.costs import Costs, costs_of
from partage.simulation.evidence import Evidence
from partage.simulation.judging import Judge
from partage.simulation.lived import Bounds, Measurer
from partage.simulation.loads import FloatArray, Weights, weights_of
from partage.simulation.policies import EAGER
from partage.simulation.recorded import protocol_of
from partage.simulation.rereads import most_reread
from partage.simulation.scenes import Scene
from partage.simulation.stopped import usual

__all__ = ["World"]


#: Rebalances times partitions whose costs are kept, and rebalances; when there are more, all are
#: forgotten.
_MOST_KNOWN, _MOST_SCENES = 2_000_000, 4_096


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
    _known: dict[int, tuple[Scene, Costs]] = field(default_factory=dict, repr=False)

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

    @cached_property
    def most(self) -> FloatArray:
        """float64[P]: most that a partition reads twice when it changes hands."""
        return most_reread(self.evidence, self.clusters.index)

    def length(self, scene: Scene) -> Bounds | None:
        """How long a recorded rebalance took; not remembered."""
        return self._costs(scene).length_ms if scene.replayable else None

    def costs(self, scene: Scene) -> Costs:
        """What a rebalance costs, by the record of it; looked up once for all policies."""
        known = self._known.get(id(scene))
        if known is None:
            many = len(self._known)
            if many * self.clusters.index.partitions >= _MOST_KNOWN or many >= _MOST_SCENES:
                self._known.clear()
            # The scene is held on to, so that its id means it.
            known = self._known[id(scene)] = scene, self._costs(scene)
        return known[1]

    def _costs(self, scene: Scene) -> Costs:
        found = scene.generation
        given = recorded_assignment(found.first, self.clusters.at(found.timestamp_ms))
        pauses = scene.pauses or self.evidence.of_rebalance(found.incarnation, found.number)
        eager = protocol_of(found) == EAGER
        return costs_of(scene, given, self.clusters, pauses, self.most, eager=eager)
