"""The public verb `measure`: the solver's best plans, handed to the judge with their proofs.

The judge does not import the solver and the solver does not know the model; they meet here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partage import judge, solve
from partage.errors import ProblemTooLargeError
from partage.judge.measures import Tally, tally
from partage.model import Assignment, Cluster, Group, Problem

__all__ = ["measure"]


def measure(
    plan: Assignment,
    group: Group,
    cluster: Cluster,
    *,
    previous: Assignment | None = None,
    partition_weight: ArrayLike | None = None,
    optimum: bool = True,
) -> judge.Measures:
    """How good a plan is: loads, moves, racks, and how far from the best there is.

    Args:
        plan: the plan of a strategy, or any assignment, such as what a log recorded.
        group: the members; what they claim to own is what moves are counted against.
        cluster: the partitions.
        previous: what was owned before, where it is known; claims do not count then. Only
            this tells what members had who are no longer in the group.
        partition_weight: float[P], the load of each partition, for ``load_spread``.
        optimum: also find the best plan and the fewest moves (and verify their proofs).
            Where this would take more than some seconds, ``refused`` says so.

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
    claims = _Claims()
    if optimum:
        facts = judge.Facts(Problem(group, cluster))
        was = judge.before(facts.problem, previous)
        claims = _claims(_Question.of(facts, was), tally(plan, facts))
    return judge.measure(
        plan, group, cluster, previous=previous, partition_weight=partition_weight,
        best=claims.best, fewest=claims.fewest, fewest_to_best=claims.fewest_to_best,
        refused=claims.refused,
    )  # fmt: skip


@dataclass(slots=True)
class _Claims:
    """What the solver says; as much of it as it found."""

    best: judge.ClaimedBest | None = None
    fewest: judge.ClaimedFewest | None = None
    fewest_to_best: judge.ClaimedFewest | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """A problem as the solver wants it: existing partitions only, topic after topic.

    Attributes:
        alive: int64[n], dense numbers of these partitions.
        size: number of all partitions of the index.
        eligibility: who may own what.
        ownership: who owned what, by position in ``alive``.
    """

    alive: NDArray[np.int64]
    size: int
    eligibility: solve.Eligibility
    ownership: solve.Ownership

    @classmethod
    def of(cls, facts: judge.Facts, was: judge.Before) -> _Question:
        alive = np.flatnonzero(facts.problem.cluster.partition_exists)
        alive = alive[np.argsort(facts.topic_of[alive], kind="stable")]
        at = np.full(len(facts.topic_of), -1, np.int64)
        at[alive] = np.arange(len(alive))
        # Only existing partitions are ever owned, so that none of the claims is lost.
        of = at[np.repeat(np.arange(len(at)), np.diff(was.start))]
        order = np.argsort(of, kind="stable")
        start = np.searchsorted(of[order], np.arange(len(alive) + 1))
        ownership = solve.Ownership(
            facts.topic_of[alive], was.owned[alive], start, was.claimant[order]
        )
        eligibility = solve.Eligibility(
            facts.partitions, *facts.subscriptions, facts.subscription_of
        )
        return cls(alive, len(at), eligibility, ownership)

    def owner(self, of_alive: NDArray[np.integer]) -> NDArray[np.int64]:
        """The owner view over all partitions of the index."""
        owner = np.full(self.size, -1, np.int64)
        owner[self.alive] = of_alive
        return owner

    def fewest(self, loads: NDArray[np.integer]) -> judge.ClaimedFewest:
        found = solve.fewest_moves(self.eligibility, self.ownership, loads)
        return judge.ClaimedFewest(self.owner(found.owner), found.price)


def _claims(question: _Question, counted: Tally) -> _Claims:
    claims = _Claims()
    try:
        best = solve.least_majorised(question.eligibility)
        claims.best = judge.ClaimedBest(question.owner(best.owner), best.topic_level)
        claims.fewest_to_best = question.fewest(best.load)
        if not counted.valid:
            return claims
        same = np.array_equal(np.sort(best.load), np.sort(counted.loads))
        claims.fewest = claims.fewest_to_best if same else question.fewest(counted.loads)
    except ProblemTooLargeError as e:
        claims.refused = str(e)
    return claims
