"""`optimal` against trying every plan, and its certificates before the judge."""

from __future__ import annotations

import os
import random

import partage as pg
from partage import judge
from small_problems import brute_force, by_counts, feasible_plans, rows_of, small_problem

PROBLEMS = int(os.environ.get("PARTAGE_OPTIMAL_N", "250"))


def test_counts_are_those_of_trying_every_plan() -> None:
    """At most 5 members, 4 topics, 8 partitions: loads, rack mismatches and moves are the best there are."""
    chance = random.Random(20_261_121)
    for _ in range(PROBLEMS):
        topics, group = small_problem(chance)
        if feasible_plans(topics, group) > 60_000:
            continue
        cluster = pg.Cluster.from_topics(topics)
        plan = pg.assign("optimal", group, cluster)
        owners = plan.settled().owner
        assert not pg.check(plan, group, cluster)
        got = by_counts(
            topics, group, [int(owners[cluster.index.locate(*tp)]) for tp in rows_of(topics, group)]
        )
        assert got == brute_force(topics, group, by_counts), (topics, list(group))
        proven = judge.verify_certificate(plan, group, cluster)
        assert plan.certificate.optimal
        assert (proven["rack cost"], proven["moves"]) == got[1:]
