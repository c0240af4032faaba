"""Closed forms for members that subscribe alike, compared with the solver's proven optima."""

from __future__ import annotations

import random

import numpy as np

from partage import judge
from partage.api.measures import measure
from partage.judge.measures import count_by_member
from partage.model import Cluster, Group, Member, Plan, Problem


def random_problem(rng: random.Random) -> tuple[Group, Cluster, Plan]:
    """Return members that all subscribe to some topics, what they owned, and any valid plan."""
    cluster = Cluster.from_topics({f"t{i}": rng.randrange(6) for i in range(3)})
    wanted = [t for t in cluster.index.topics if rng.random() < 0.8]
    ids = [f"m{i}" for i in range(rng.randrange(1, 5))]
    names = [cluster.index.name(p) for p in range(cluster.index.partitions)]
    owned: dict[str, list[tuple[str, int]]] = {name: [] for name in ids}
    plan: dict[str, list[tuple[str, int]]] = {name: [] for name in ids}
    for name in names:
        owner = rng.choice([*ids, ids[0], None])
        if owner is not None:
            owned[owner].append(name)
        if name[0] in wanted:
            plan[rng.choice([*ids, *ids[:1]])].append(name)
    group = Group(Member(name, wanted, owned=owned[name]) for name in ids)
    return group, cluster, Plan.of(cluster.index, plan)


def test_closed_forms_equal_the_proven_optima() -> None:
    """The best loads and the fewest moves of 200 problems are those that the solver proves."""
    rng = random.Random(7)
    avoidable = 0
    for _ in range(200):
        group, cluster, plan = random_problem(rng)
        found = measure(plan, group, cluster)
        facts = judge.Facts(Problem(group, cluster))
        before, counted = judge.previous_owners(facts.problem), count_by_member(plan, facts)
        loads = judge.even_loads_of_equal_members(facts)
        fewest = judge.fewest_moves_of_equal_members(facts, before, counted.loads)
        assert found.avoidable == found.moved - fewest
        avoidable += found.avoidable > 0
        if found.best_largest is not None:
            assert (loads.max(), loads.min()) == (found.best_largest, found.best_smallest)
    assert avoidable > 50


def test_closed_forms_decline_other_problems() -> None:
    """Members with different subscriptions, or two claimants of one partition, need the solver."""
    cluster = Cluster.from_topics({"a": 2, "b": 2})
    unequal = Group([Member("x", ["a"]), Member("y", ["b"])])
    facts = judge.Facts(Problem(unequal, cluster))
    assert judge.even_loads_of_equal_members(facts) is None
    loads, before = np.array([2, 2]), judge.previous_owners(facts.problem)
    assert judge.fewest_moves_of_equal_members(facts, before, loads) is None
    disputed = Group([Member(name, ["a", "b"], owned={"a": [0]}) for name in "xy"])
    facts = judge.Facts(Problem(disputed, cluster))
    before = judge.previous_owners(facts.problem)
    assert judge.fewest_moves_of_equal_members(facts, before, loads) is None
