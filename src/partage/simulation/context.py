"""Data that the simulations of one group under all policies share.

It has the cluster metadata, the function that measures assignments, and data from offset commits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from partage.history.causes import SESSION_TIMEOUT_MS
from partage.history.clusters import ClusterHistory
from partage.simulation.commit_statistics import (
    CommitStatistics,
    FloatArray,
    Weights,
    rates_by_partition,
)
from partage.simulation.costs import (
    RebalanceCosts,
    compute_rebalance_costs,
    estimate_max_reread,
    usual_duration,
)
from partage.simulation.metrics import Bounds, CachedJudge, PlanTexts
from partage.simulation.recorded_rebalances import (
    MOST_ENTRIES,
    RecordedRebalance,
    count_entries,
)
from partage.simulation.rounds import SharedProblems

__all__ = ["SimulationContext"]

#: Bounds of the cache of costs, in rebalances times partitions (about 100 MB) and in rebalances.
_MOST_CACHED_CELLS, _MOST_CACHED = 2_000_000, 4_096
#: Its bound in members and assigned partitions: more than a simulation reads ahead, since costs are
#: used when a rebalance is read and again when it is simulated.
_MOST_CACHED_ENTRIES = MOST_ENTRIES * 5 // 4


@dataclass(frozen=True)
class SimulationContext:
    """Data that the simulations of one consumer group under all policies share.

    A policy is a group configuration to simulate: rebalance protocol, assignment strategy, options.
    The shared data is the cluster metadata, statistics of offset commits, and caches.

    Attributes:
        clusters: the cluster metadata over time.
        measure: computes quality metrics of assignments.
        commits: pauses and commit rates of the group, from its offset commits.
        usual_ms: bounds on the usual rebalance duration (ms), for rebalances without commits around
            them.
        weights: records per second of each partition (float64[P]).
        problems: builds the problems of simulated rebalances, and caches their assignments.
        server_session_ms: the broker's session timeout of consumer groups, from which the heartbeat
            interval of policies with the consumer protocol follows.
        plan_texts: converts assignments to JSON.
    """

    clusters: ClusterHistory
    measure: CachedJudge = field(default_factory=CachedJudge)
    commits: CommitStatistics = field(default_factory=CommitStatistics)
    usual_ms: Bounds | None = None
    weights: Weights = None
    problems: SharedProblems = field(default_factory=SharedProblems, repr=False)
    server_session_ms: int = SESSION_TIMEOUT_MS
    plan_texts: PlanTexts = field(default_factory=PlanTexts, repr=False)
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
        """Build the data that all simulations of one consumer group share.

        It includes the usual duration of the group's rebalances and the records per second of each
        partition, both derived from offset commits.

        Args:
            clusters: the cluster metadata over time.
            rebalances: all recorded rebalances of the group.
            commits: pauses and rates of the group's offset commits.
        """
        bare = cls(clusters, CachedJudge(), commits)
        known = [one for one in rebalances if one.replayable] if commits.pauses else []
        lengths = [bare.rebalance_costs(one).length_ms for one in known]
        weights = rates_by_partition(commits.rates, clusters.index)
        return cls(clusters, bare.measure, commits, usual_duration(lengths), weights)

    @cached_property
    def max_reread_records(self) -> FloatArray:
        """Maximum number of records of each partition that a new owner may process twice
        (float64[P]).

        A new owner begins at the last committed offset, so it rereads the records that the old
        owner processed after that commit.
        """
        return estimate_max_reread(self.commits, self.clusters.index)

    def rebalance_costs(self, rebalance: RecordedRebalance) -> RebalanceCosts:
        """Return the costs of a recorded rebalance: time without a consumer, and records read
        twice.

        Results are cached, because the simulations of all group configurations use them.
        """
        cached = self._costs.get(id(rebalance))
        if cached is None:
            most = min(
                _MOST_CACHED,
                _MOST_CACHED_CELLS // max(1, self.clusters.index.partitions),
                _MOST_CACHED_ENTRIES // max(1, count_entries(rebalance.generation)),
            )
            while len(self._costs) > most:  # the oldest ones first
                del self._costs[next(iter(self._costs))]
            # The entry holds the rebalance, so that the id in the key stays its own.
            cached = self._costs[id(rebalance)] = rebalance, self._compute_costs(rebalance)
        return cached[1]

    def _compute_costs(self, rebalance: RecordedRebalance) -> RebalanceCosts:
        """Compute the costs of a recorded rebalance: time without a consumer, and records read
        twice.

        They follow from the pauses in the offset commits around the rebalance. `rebalance_costs`
        caches the result.
        """
        generation = rebalance.generation
        pauses = rebalance.pauses or self.commits.pauses_of_rebalance(
            generation.incarnation, generation.generation_number
        )
        return compute_rebalance_costs(rebalance, self.clusters, pauses, self.max_reread_records)
