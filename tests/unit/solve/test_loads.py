"""The least-majorised loads: shapes with known answers, sizes, and refusals."""

from __future__ import annotations

import time

import numpy as np
import pytest

from partage import solve
from partage.errors import ProblemTooLargeError
from partage.solve.assignment import even_loads, network


def eligibility(partitions, subscriptions):
    start = np.cumsum([0, *map(len, subscriptions)])
    topics = np.concatenate([np.asarray(list(mine), np.int64) for mine in subscriptions])
    return solve.Eligibility(np.array(partitions), start, topics)


@pytest.mark.parametrize(
    ("partitions", "subscriptions", "expected"),
    [
        ([7], [[0], [0], [0]], [2, 2, 3]),
        ([2], [[0], [0], [0]], [0, 1, 1]),
        ([9, 3], [[0, 1], [1], [1]], [1, 2, 9]),  # topic 0 has nowhere else to go
        ([1, 1, 5], [[0], [0, 1], [1, 2]], [1, 1, 5]),
        ([6, 0, 0], [[0, 1], [0, 1, 2]], [3, 3]),
        ([8, 1, 1], [[0], [0, 1], [1, 2], [2]], [1, 1, 4, 4]),
        ([6, 1, 1], [[0], [0, 1], [1, 2], [2, 0]], [2, 2, 2, 2]),  # a ring hands weight on
        ([4, 0], [[1], [0]], [0, 4]),  # a topic without partitions
        ([3], [[], [0]], [0, 3]),  # a member without subscription
        ([3, 5], [[0]], [3]),  # a topic without subscriber
    ],
)
def test_loads_of_small_shapes(partitions, subscriptions, expected):
    """Loads that can be worked out by hand."""
    best = solve.find_most_even_assignment(eligibility(partitions, subscriptions))
    assert sorted(best.load.tolist()) == expected
    owned = best.owner[best.owner >= 0]
    assert np.bincount(owned, minlength=len(subscriptions)).tolist() == best.load.tolist()


def test_no_member_and_no_topic():
    """Nothing to give, or nobody to give it to, has an answer too."""
    nobody = solve.Eligibility(np.array([3]), np.zeros(1, int), np.zeros(0, int))
    nothing = solve.Eligibility(np.zeros(0, int), np.zeros(3, int), np.zeros(0, int))
    assert solve.find_most_even_assignment(nobody).load.tolist() == []
    assert solve.find_most_even_assignment(nobody).owner.tolist() == [-1, -1, -1]
    assert solve.find_most_even_assignment(nothing).load.tolist() == [0, 0]


def test_equal_subscriptions_are_one_arc():
    """100,000 partitions for 1,000 members alike: a closed form, in effect."""
    began = time.thread_time()
    best = solve.find_most_even_assignment(eligibility([100] * 1000, [range(1000)] * 1000))
    assert best.load.tolist() == [100] * 1000
    assert best.topic_level.tolist() == [100] * 1000
    assert time.thread_time() - began < 5


def test_mixed_subscriptions_at_size():
    """1,000 topics of 100 partitions, 500 members with subscriptions of their own."""
    rng = np.random.default_rng(3)
    mine = [np.flatnonzero(rng.random(1000) < rng.random()) for _ in range(500)]
    began = time.thread_time()
    best = solve.find_most_even_assignment(eligibility([100] * 1000, mine))
    assert best.load.sum() == 100_000
    assert time.thread_time() - began < 10


def test_ways_as_long_as_the_group():
    """In a chain of 300 members the surplus at one end must be handed on by each of them."""
    chain = [[0], *([i - 1, i] for i in range(1, 299)), [298]]
    best = solve.find_most_even_assignment(eligibility([200, *[100] * 298], chain))
    assert best.load.tolist() == [100] * 300


def test_the_answer_does_not_depend_on_the_order_of_topics_and_members():
    """Sorted loads are the same whatever the numbering."""
    rng = np.random.default_rng(5)
    partitions = rng.integers(0, 9, 12)
    mine = [np.flatnonzero(rng.random(12) < 0.3) for _ in range(9)]
    one = solve.find_most_even_assignment(eligibility(partitions, mine)).load
    shuffled = rng.permutation(12)
    number = np.argsort(shuffled)
    renamed = [number[m] for m in reversed(mine)]
    other = solve.find_most_even_assignment(eligibility(partitions[shuffled], renamed)).load
    assert sorted(one) == sorted(other)


def test_too_large_is_refused_with_its_size(monkeypatch):
    """The error says how large the network is, and what the limit is."""
    monkeypatch.setattr(even_loads, "LARGEST_NETWORK", 3)
    with pytest.raises(ProblemTooLargeError, match="network of 4 arcs, the limit is 3"):
        solve.find_most_even_assignment(eligibility([5, 5], [[0], [1], [0, 1]]))


def test_members_may_share_subscriptions():
    """Rows by subscription instead of by member: the same question, the same answer."""
    shared = solve.Eligibility(
        np.array([7, 2]), np.array([0, 1, 3]), np.array([0, 0, 1]), np.array([1, 0, 1, 0])
    )
    apart = eligibility([7, 2], [[0, 1], [0], [0, 1], [0]])
    assert (
        solve.find_most_even_assignment(shared).load.tolist()
        == solve.find_most_even_assignment(apart).load.tolist()
    )


def test_too_much_work_is_refused(monkeypatch):
    """Beyond the limit of work there is an error that says so, and no guess."""
    monkeypatch.setattr(even_loads, "WorkBudget", lambda: network.WorkBudget(2000))
    with pytest.raises(ProblemTooLargeError, match="2000"):
        solve.find_most_even_assignment(eligibility([50, 1, 1, 1], [[0], [0, 1], [1, 2], [2, 3]]))
