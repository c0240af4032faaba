"""Partitions unread at the worst moment, compared with a moment-by-moment simulation."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.support.simulated_histories import SimulatedHistory, cause, history, member, topics

from partage.simulation.costs import stopped_partitions
from partage.tables.metrics import BY_NAME
from partage.tables.sums import empty_sums, metric_value


def worst_moment(before, after, exists, *, eager: bool, seed: int) -> int:
    """Return the most partitions that are unread at once, by looking at every moment.

    A rebalance lasts from 0 to 100. A member that left stopped before 0. An eager member revokes
    all its partitions when it rejoins, at any time from 0 to 99. A cooperative member revokes only
    what another member takes over, at any time up to 99. New owners start at 100.
    """
    chance = random.Random(seed)
    rejoins = {int(owner): chance.randrange(100) for owner in set(before) if owner >= 0}
    stopped_from = {}
    for partition, (old, new) in enumerate(zip(before, after, strict=True)):
        if not exists[partition] or old == -1:
            continue  # nothing to read, or no member read it
        if eager:
            stopped_from[partition] = -1 if old == -2 else rejoins[int(old)]
        elif new >= 0 and new != old:
            stopped_from[partition] = -1 if old == -2 else chance.randrange(100)
    return max(sum(begin <= now for begin in stopped_from.values()) for now in range(-1, 100))


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_worst_of_all_moments(seed: int, eager: bool) -> None:
    """Random owners before and after: the figure equals the largest count of any moment."""
    chance = np.random.default_rng(seed)
    size = int(chance.integers(1, 12))
    before = chance.integers(-2, 4, size).astype(np.int32)
    after = chance.integers(-1, 4, size).astype(np.int32)
    exists = chance.random(size) < 0.8
    found = len(stopped_partitions(before, after, exists, eager=eager))
    assert found == worst_moment(before, after, exists, eager=eager, seed=seed)


def test_an_eager_group_stops_whole_and_a_static_one_not_at_all() -> None:
    """Of a bounce, an eager policy stops all partitions at once; static members have no rebalance."""
    bounce = history(
        (1_000, [member("a", (0, 1)), member("b", (2, 3))], cause("first")),
        (10_000, [member("a", range(4))], cause("leave", "b")),
        (14_000, [member("a", (0, 1)), member("b2", (2, 3), client="b")], cause("bounce", "b2")),
    )
    simulated = SimulatedHistory(bounce, topics(t=4))
    eager = [row.unread_at_once for row in simulated.cumulative("eager/range")]
    assert eager == [0, 4, 4]
    static = simulated.cumulative("eager/range+static")
    assert [row.unread_at_once for row in static if not row.caused] == [None, None]


def test_it_is_the_maximum_over_rebalances() -> None:
    """A policy's figure is the largest of its rebalances; without any it is unknown."""
    metric = BY_NAME["unread_at_once"]
    assert metric_value(metric, empty_sums()) is None
    assert metric_value(metric, empty_sums() | {"unread_at_once": 4}) == 4
