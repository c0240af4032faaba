"""Tabu search within a limit of moves, compared with every assignment of small problems."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from partage.solve.assignment.tabu_search import lower_largest_load
from partage.solve.assignment.weighted_plan import Items, Members, WeightedPlan


def _problem(chance: random.Random, *, shares: bool) -> tuple[Items, Members]:
    """Eight items of four kinds on three members, each item owned by a random subscriber."""
    count, members = 8, 3
    kinds = [sorted(chance.sample(range(members), chance.randint(1, members))) for _ in range(4)]
    kind = [chance.randrange(len(kinds)) for _ in range(count)]
    homes = {i: {chance.choice(kinds[k]): 1} for i, k in enumerate(kind)}
    weight = np.array([float(chance.choice([1, 2, 3, 5, 8, 13, 21])) for _ in range(count)])
    items = Items(
        weight, np.array(kind), kinds, np.zeros((1, 1), int), np.zeros(count, int),
        np.ones(count, int), homes,
    )  # fmt: skip
    speed = np.array([chance.choice([1.0, 2.0]) if shares else 1.0 for _ in range(members)])
    return items, Members(np.arange(members), [0] * members, speed, np.full(members, np.inf))


def _least_largest(items: Items, members: Members, limit: int) -> float:
    """Return the least largest relative load of all assignments within the limit of moves."""
    best = np.inf
    home = [next(iter(items.homes[i])) for i in range(len(items.weight))]
    for owner in itertools.product(*(items.open_groups[k] for k in items.kind.tolist())):
        if sum(a != b for a, b in zip(owner, home, strict=True)) <= limit:
            load = np.bincount(owner, items.weight, len(members.speed)) / members.speed
            best = min(best, float(load.max()))
    return best


@pytest.mark.parametrize("shares", [False, True])
def test_the_largest_load_is_that_of_trying_every_plan(shares) -> None:
    """From the previous owners the tabu search reaches the least largest load of small problems."""
    chance, improved = random.Random(f"tabu {shares}"), 0
    for _ in range(10):
        items, members = _problem(chance, shares=shares)
        limit = chance.randint(0, 4)
        start = WeightedPlan(items, members, limit)
        for i, homes in items.homes.items():
            start.assign_item(i, next(iter(homes)))
        before = float(start.relative_loads.max())
        plan = lower_largest_load(start, items.weight.sum() / members.speed.sum())
        assert plan.moves <= limit
        assert sorted(plan.load) == sorted(np.bincount(plan.owner, items.weight, 3))
        assert float(plan.relative_loads.max()) == _least_largest(items, members, limit)
        improved += float(plan.relative_loads.max()) < before
    assert improved > 5
