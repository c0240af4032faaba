"""Whether a record is what its leader's library, or the coordinator, makes of what it knew."""

from __future__ import annotations

from partage.history.clusters import ClusterHistory
from partage.history.verdicts import Verdict
from partage.history.verdicts import verdict as of_generation
from partage.simulation.scenes import Scene

__all__ = ["Verdict", "verdict"]


def verdict(scene: Scene, clusters: ClusterHistory) -> Verdict:
    """The verdict about a scene's rebalance; see `partage.history.verdicts`."""
    return of_generation(scene.generation, clusters)
