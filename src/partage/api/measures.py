"""The public function `measure`: the solver's optima, verified by the judge.

The judge does not import the solver and the solver does not know the model; they meet here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partage import judge, solve
from partage.errors import ProblemTooLargeError
from partage.judge.measures import (
    AssignmentCounts,
    PartitionWeights,
    add_optimum,
    count_by_member,
    measure_balance,
)
from partage.model import Assignment, Cluster, Group, Problem
from partage.model.arguments import check_argument_types

__all__ = ["MeasurementCache", "ProblemMeasurement", "measure"]


@check_argument_types
def measure(
    plan: Assignment,
    group: Group,
    cluster: Cluster,
    *,
    previous: Assignment | None = None,
    partition_weight: ArrayLike | None = None,
    optimum: bool = True,
) -> judge.Measures:
    """Measure how good a partition assignment is.

    The result has the members' loads, the moved partitions, rack mismatches, and the distance from
    the optimum.

    Args:
        plan: the plan of a strategy, or any other assignment, such as a recorded one.
        group: the members. Moves are counted from the partitions that they report as owned.
        cluster: the topics and partitions of the Kafka cluster.
        previous: the previous assignment, if known; moves are then counted from it. It also has the
            partitions of members that left.
        partition_weight: float[P], the load of each partition, for ``load_spread``.
        optimum: whether to also compute the most even loads and the fewest moves. If this would
            take more than some seconds, the result's ``refused`` has the reason.

    Raises:
        InvalidProblemError: the weights are malformed.

    >>> import partage as pg
    >>> cluster = pg.Cluster.from_topics({"t": 4})
    >>> group = pg.Group([pg.Member("a", ["t"], owned={"t": [0, 1, 2]}), pg.Member("b", ["t"])])
    >>> plan = pg.Plan.of(cluster.index, {"a": {"t": [2, 3]}, "b": {"t": [0, 1]}})
    >>> found = measure(plan, group, cluster)
    >>> found.spread, found.moved, found.avoidable
    (0, 2, 1)
    """
    claims = _ClaimedOptima()
    if optimum:
        group_arrays = judge.Facts(Problem(group, cluster))
        old_owners = judge.previous_owners(group_arrays.problem, previous)
        claims = _find_optima(
            _SolverProblem.of(group_arrays, old_owners), count_by_member(plan, group_arrays)
        )
    return judge.measure(
        plan, group, cluster, previous=previous, partition_weight=partition_weight,
        best=claims.best, fewest=claims.fewest, fewest_to_best=claims.fewest_to_best,
        refused=claims.refused,
    )  # fmt: skip


@dataclass(slots=True)
class _ClaimedOptima:
    """Most even loads and fewest moves of an assignment problem, as found by the solver.

    The solver adds a certificate (a proof) to each value, which is verified before the value is
    used. A value is None if it was not computed. ``refused`` has the reason if the problem is too
    large for the solver.
    """

    # Each optimum comes with a certificate, the proof that `partage.judge` verifies.

    best: judge.ClaimedBest | None = None
    fewest: judge.ClaimedFewest | None = None
    fewest_to_best: judge.ClaimedFewest | None = None
    load: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    refused: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _SolverProblem:
    """Assignment problem of a consumer group as arrays, the input of the solver.

    Deleted partitions are left out, so the solver numbers the existing ones from 0.

    Attributes:
        existing: int64[n], index numbers of the partitions that exist.
        size: number of all partitions in the index, which may include deleted ones.
        eligibility: the topics that each member may own.
        ownership: the previous owners, by position in ``existing``.
    """

    existing: NDArray[np.int64]
    size: int
    eligibility: solve.Eligibility
    ownership: solve.Ownership

    @classmethod
    def of(cls, group_arrays: judge.Facts, old_owners: judge.PreviousOwners) -> _SolverProblem:
        existing = np.flatnonzero(group_arrays.problem.cluster.partition_exists)
        existing = existing[np.argsort(group_arrays.topic_of[existing], kind="stable")]
        at = np.full(len(group_arrays.topic_of), -1, np.int64)
        at[existing] = np.arange(len(existing))
        # Only existing partitions are ever owned, so that none of the claims is lost.
        of = at[np.repeat(np.arange(len(at)), np.diff(old_owners.start))]
        order = np.argsort(of, kind="stable")
        start = np.searchsorted(of[order], np.arange(len(existing) + 1))
        ownership = solve.Ownership(
            group_arrays.topic_of[existing],
            old_owners.owned[existing],
            start,
            old_owners.claimant[order],
        )
        eligibility = solve.Eligibility(
            group_arrays.partition_counts,
            *group_arrays.topics_of_subscriptions,
            group_arrays.subscription_of,
        )
        return cls(existing, len(at), eligibility, ownership)

    def expand_owners(self, owners: NDArray[np.integer]) -> NDArray[np.int64]:
        """Convert the solver's array of partition owners to an array for all partitions of the
        cluster.

        The solver knows only the partitions that exist. All others get the owner -1.

        Args:
            owners: int[n], owner of each existing partition.

        Returns:
            int64[P], owner of each partition of the cluster's index.
        """
        expanded = np.full(self.size, -1, np.int64)
        expanded[self.existing] = owners
        return expanded

    def fewest(self, loads: NDArray[np.integer]) -> judge.ClaimedFewest:
        found = solve.find_fewest_moves(self.eligibility, self.ownership, loads)
        return judge.ClaimedFewest(self.expand_owners(found.owner), found.price)


class ProblemMeasurement:
    """Measurement of several plans for the same group and cluster.

    The optimum, which takes longest, is computed only once. Each result equals that of the function
    `measure`.

    >>> import partage as pg
    >>> cluster = pg.Cluster.from_topics({"t": 4})
    >>> group = pg.Group([pg.Member("a", ["t"], owned={"t": [0, 1, 2]}), pg.Member("b", ["t"])])
    >>> plan = pg.assign("range", group, cluster)
    >>> ProblemMeasurement(group, cluster).measure_plan(plan) == measure(plan, group, cluster)
    True
    """

    def __init__(
        self, group: Group, cluster: Cluster, *, previous: Assignment | None = None
    ) -> None:
        self._problem = group, cluster
        self._previous = previous
        self._facts = judge.Facts(Problem(group, cluster))
        self._found: dict[tuple[bool, bytes], _ClaimedOptima] = {}

    def measure_plan(self, plan: Assignment) -> judge.Measures:
        """Measure one partition assignment of this group and cluster.

        The result has loads, moves, and distance from the optimum, as that of `measure`.
        """
        counted = count_by_member(plan, self._facts)
        # The solver only uses the loads of the plan, and only if the plan is valid.
        loads = np.sort(counted.loads).tobytes() if counted.valid else b""
        key = counted.valid, loads
        if key not in self._found:
            self._found[key] = _find_optima(
                self._solver_problem, counted, next(iter(self._found.values()), None)
            )
        claims = self._found[key]
        return judge.measure(
            plan, *self._problem, previous=self._previous, best=claims.best,
            fewest=claims.fewest, fewest_to_best=claims.fewest_to_best, refused=claims.refused,
        )  # fmt: skip

    @cached_property
    def _solver_problem(self) -> _SolverProblem:
        old_owners = judge.previous_owners(self._facts.problem, self._previous)
        return _SolverProblem.of(self._facts, old_owners)


def _find_optima(
    problem: _SolverProblem, counts: AssignmentCounts, earlier: _ClaimedOptima | None = None
) -> _ClaimedOptima:
    """Compute the most even loads and the fewest moves of an assignment problem.

    A plan's quality is its distance from these values. If the problem is too large for the solver,
    the result's ``refused`` has the reason.

    Args:
        problem: the assignment problem.
        counts: the plan's loads and whether it is valid.
        earlier: optima from another plan of the same problem, which are reused.
    """
    claims = _ClaimedOptima()
    try:
        if earlier is not None and earlier.best is not None and earlier.fewest_to_best is not None:
            claims.best, claims.fewest_to_best = earlier.best, earlier.fewest_to_best
            load = earlier.load
        else:
            best = solve.find_most_even_assignment(problem.eligibility)
            load = best.load
            claims.best = judge.ClaimedBest(problem.expand_owners(best.owner), best.topic_level)
            claims.fewest_to_best = problem.fewest(load)
        claims.load = load
        if not counts.valid:
            return claims
        same = np.array_equal(np.sort(load), np.sort(counts.loads))
        claims.fewest = claims.fewest_to_best if same else problem.fewest(counts.loads)
    except ProblemTooLargeError as e:
        claims.refused = str(e)
    return claims


#: Optima in one cache of `MeasurementCache`; a full cache is cleared.
_MOST_CACHED = 4_096
#: Groups whose facts are cached.
_MOST_GROUPS = 16


class _SharedValues:
    """Values that all measurements of one group and cluster share, computed only once.

    They are the partition arrays, the previous owners and the most even loads.

    Attributes:
        facts: the members' subscriptions and the partitions, as arrays.
    """

    def __init__(self, group: Group, cluster: Cluster) -> None:
        self.facts = judge.Facts(Problem(group, cluster))

    @cached_property
    def old_owners(self) -> judge.PreviousOwners:
        """Members that owned each partition before the assignment, as they report it.

        An assignment is compared with them to count moved partitions.
        """
        return judge.previous_owners(self.facts.problem)

    @cached_property
    def even_loads(self) -> NDArray[np.int64] | None:
        """Number of partitions of each group member in the most even assignment (int64[M]).

        None if the members have different subscriptions, because the solver must find it then.
        """
        return judge.even_loads_of_equal_members(self.facts)


@dataclass(slots=True)
class MeasurementCache:
    """Cache that makes measuring many assignments faster: each optimum is computed only once.

    The most even loads depend only on subscriptions and partitions, the fewest moves also on the
    previous owners. Different strategies on the same problem therefore share them.

    >>> import partage as pg
    >>> cluster = pg.Cluster.from_topics({"t": 4})
    >>> group = pg.Group([pg.Member("a", ["t"], owned={"t": [0, 1, 2]}), pg.Member("b", ["t"])])
    >>> plans = [pg.Plan.of(cluster.index, {"a": {"t": mine}, "b": {"t": rest}})
    ...          for mine, rest in (([2, 3], [0, 1]), ([0, 1], [2, 3]))]
    >>> shared = MeasurementCache()
    >>> [shared.measure_cached(plan, group, cluster).avoidable for plan in plans]
    [1, 0]
    """

    _best: dict[object, tuple[Cluster, NDArray[np.int64] | None]] = field(default_factory=dict)
    _fewest: dict[object, tuple[Cluster, int | None]] = field(default_factory=dict)
    _values_by_group: dict[tuple[int, int], _SharedValues] = field(default_factory=dict)
    #: The newest weights as given, and the same checked.
    _weights: tuple[object, PartitionWeights | None] = None, None

    def measure_cached(
        self,
        plan: Assignment,
        group: Group,
        cluster: Cluster,
        *,
        partition_weight: ArrayLike | None = None,
        old_owners: judge.PreviousOwners | None = None,
    ) -> judge.Measures:
        """Measure a plan, with optima from the cache if they are known.

        The result equals that of the function `measure`, but without ``fewest_moves_to_best``.

        Args:
            plan: the plan of a strategy, or any other assignment, such as a recorded one.
            group: the members of the consumer group.
            cluster: the topics and partitions of the Kafka cluster.
            partition_weight: float[P], the load of each partition, for ``load_spread``.
            old_owners: the previous owners; None to take them from the members' reports.

        Raises:
            InvalidProblemError: the weights are malformed.
        """
        cached = self._shared_values_of(group, cluster)
        group_arrays = cached.facts
        old_owners = cached.old_owners if old_owners is None else old_owners
        counted = count_by_member(plan, group_arrays)
        weight = None
        if partition_weight is not None:
            weight = self._checked_weights(partition_weight, len(group_arrays.is_open))
        found = measure_balance(group_arrays, counted, old_owners, partition_weight=weight)
        best = self._best_loads(group_arrays) if cached.even_loads is None else cached.even_loads
        fewest = None
        if counted.valid:
            fewest = self._fewest_moves(group_arrays, old_owners, counted) if found.moved else 0
        return add_optimum(found, group_arrays, best, fewest)

    def _checked_weights(self, partition_weight: ArrayLike, partitions: int) -> PartitionWeights:
        # The plans of a group are measured with one array of weights, which is checked once.
        given, checked = self._weights
        if checked is None or given is not partition_weight or len(checked.values) != partitions:
            checked = PartitionWeights.of(partition_weight, partitions)
            self._weights = partition_weight, checked
        return checked

    def count_breaches(
        self, plan: Assignment, group: Group, cluster: Cluster, old_owners: judge.PreviousOwners
    ) -> int:
        """Count how often an assignment breaks Kafka's rules, for example gives a partition two
        owners.

        One breach is, for example, a partition that has two owners.

        Args:
            plan: the assignment to check.
            group: the members of the consumer group.
            cluster: the topics and partitions of the Kafka cluster.
            old_owners: the previous owners.
        """
        return judge.count_breaches(plan, self._shared_values_of(group, cluster).facts, old_owners)

    def _shared_values_of(self, group: Group, cluster: Cluster) -> _SharedValues:
        key = (id(group), id(cluster))
        if key not in self._values_by_group:
            if len(self._values_by_group) >= _MOST_GROUPS:
                self._values_by_group.clear()
            # The facts refer to group and cluster, so no other object gets their ids.
            self._values_by_group[key] = _SharedValues(group, cluster)
        return self._values_by_group[key]

    def _best_loads(self, group_arrays: judge.Facts) -> NDArray[np.int64] | None:
        """Return the number of partitions of each member in the most even assignment (int64[M]).

        It is cached, because all plans of a problem are compared with it. None if computing it
        takes too long.

        Args:
            group_arrays: subscriptions and partitions of the problem.
        """
        # The cache refers to the cluster, so no other object gets the id in the key.
        key = _subscriptions_key(group_arrays)
        if key not in self._best:
            _forget(self._best)
            loads = None
            try:
                problem = _SolverProblem.of(
                    group_arrays, judge.previous_owners(group_arrays.problem)
                )
                best = solve.find_most_even_assignment(problem.eligibility)
                claim = judge.ClaimedBest(problem.expand_owners(best.owner), best.topic_level)
                loads = judge.verify_load_certificate(group_arrays, claim)
            except ProblemTooLargeError:
                pass
            self._best[key] = group_arrays.problem.cluster, loads
        return self._best[key][1]

    def _fewest_moves(
        self, group_arrays: judge.Facts, old_owners: judge.PreviousOwners, counts: AssignmentCounts
    ) -> int | None:
        """Return the fewest partition moves that lead to loads as even as the given ones.

        It is cached by problem, previous owners and loads. None if computing it takes too long.

        Args:
            group_arrays: subscriptions and partitions of the problem.
            old_owners: previous owner of each partition.
            counts: partition counts of the given assignment.
        """
        closed_form = judge.fewest_moves_of_equal_members(group_arrays, old_owners, counts.loads)
        if closed_form is not None:
            return closed_form
        loads = np.sort(counts.loads)
        digest = blake2b(digest_size=16)
        for array in (old_owners.owned, old_owners.start, old_owners.claimant, loads):
            digest.update(array.tobytes())
        key = (_subscriptions_key(group_arrays), digest.digest())
        if key not in self._fewest:
            _forget(self._fewest)
            fewest = None
            try:
                claim = _SolverProblem.of(group_arrays, old_owners).fewest(loads)
                fewest = judge.verify_moves_certificate(group_arrays, old_owners, loads, claim)
            except ProblemTooLargeError:
                pass
            self._fewest[key] = group_arrays.problem.cluster, fewest
        return self._fewest[key][1]


def _subscriptions_key(group_arrays: judge.Facts) -> object:
    """Return the key under which results are cached for a cluster and a group's subscriptions.

    Assignment problems with the same cluster and equal subscriptions have the same key, so they
    share cached results. ``group_arrays`` has the subscriptions and partitions of one problem.
    """
    group = group_arrays.problem.group
    return id(group_arrays.problem.cluster), group.subscriptions, group.subscription_of.tobytes()


def _forget(cache: dict[object, Any]) -> None:
    if len(cache) >= _MOST_CACHED:
        cache.clear()
