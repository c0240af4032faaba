"""Data that the simulations of one group under all policies share.

It has the cluster metadata, the function that measures assignments, and data from offset commits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from partage.history.clusters import ClusterHistory
from partage.simulation.commit_statistics import CommitStatistics, FloatArray, Weights, weights_of
from partage.simulation.costs import RebalanceCosts, costs_of, most_reread, usual_length
from partage.simulation.metrics import Bounds, CachedJudge
from partage.simulation.recorded_rebalances import RecordedRebalance
from partage.simulation.rounds import SharedProblems

__all__ = ["SimulationContext"]

#: Bounds of the cache of costs, in rebalances times partitions (about 100 MB) and in rebalances;
#: a full cache is emptied.
_MOST_CACHED_CELLS, _MOST_CACHED = 2_000_000, 4_096


@dataclass(frozen=True)
class SimulationContext:
    """Data that the simulations of one group under all policies share.

    Attributes:
        clusters: the cluster metadata over time.
        measure: the judge, which computes metrics of assignments.
        commits: pauses and commit rates of the group, from its offset commits.
        usual_ms: assumed duration of a rebalance whose duration no commit shows (ms).
        weights: records per second of each partition (float64[P]).
        problems: builds the problems of simulated rebalances, and remembers plans.
    """

    clusters: ClusterHistory
    measure: CachedJudge = field(default_factory=CachedJudge)
    commits: CommitStatistics = field(default_factory=CommitStatistics)
    usual_ms: Bounds | None = None
    weights: Weights = None
    problems: SharedProblems = field(default_factory=SharedProblems, repr=False)
    _costs: dict[int, tuple[RecordedRebalance, RebalanceCosts]] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def of(
        cls,
        clusters: ClusterHistory,
        rebalances: Iterable[RecordedRebalance],
        commits: CommitStatistics,
    ) -> SimulationContext:
        """Build the data that all simulations of a group share, from all of its recorded
        rebalances.
        """
        bare = cls(clusters, CachedJudge(), commits)
        known = [one for one in rebalances if one.replayable] if commits.pauses else []
        lengths = [bare.costs(one).length_ms for one in known]
        weights = weights_of(commits.rates, clusters.index)
        return cls(clusters, bare.measure, commits, usual_length(lengths), weights)

    @cached_property
    def most(self) -> FloatArray:
        """Largest number of records that a new owner may read twice, for each partition.

        It is float64[P], see `most_reread`.
        """
        return most_reread(self.commits, self.clusters.index)

    def length(self, rebalance: RecordedRebalance) -> Bounds | None:
        """Return bounds on the duration of a recorded rebalance (ms); None if no commit shows it.

        Unlike `costs`, this does not cache the result.
        """
        return self._costs_of(rebalance).length_ms if rebalance.replayable else None

    def costs(self, rebalance: RecordedRebalance) -> RebalanceCosts:
        """Return a recorded rebalance's costs: time without a consumer, and records read twice.

        They are computed once for all policies.
        """
        cached = self._costs.get(id(rebalance))
        if cached is None:
            count = len(self._costs)
            is_large = count * self.clusters.index.partitions >= _MOST_CACHED_CELLS
            if is_large or count >= _MOST_CACHED:
                self._costs.clear()
            # The entry holds the rebalance, so that the id in the key stays its own.
            cached = self._costs[id(rebalance)] = rebalance, self._costs_of(rebalance)
        return cached[1]

    def _costs_of(self, rebalance: RecordedRebalance) -> RebalanceCosts:
        """Compute a recorded rebalance's costs without the cache of `costs`."""
        generation = rebalance.generation
        pauses = rebalance.pauses or self.commits.pauses_of(
            generation.incarnation, generation.number
        )
        return costs_of(rebalance, self.clusters, pauses, self.most)
