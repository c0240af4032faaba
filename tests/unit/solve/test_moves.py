"""The fewest moves: known answers, contradicting claims, loads to keep to, refusals."""

from __future__ import annotations

import time

import numpy as np
import pytest

from partage import solve
from partage.errors import InvalidProblemError, ProblemTooLargeError
from partage.solve.assignment import fewest_moves


def question(partitions, subscriptions, claims):
    """``claims``: for each partition its claimants, or None if nobody owned it."""
    start = np.cumsum([0, *map(len, subscriptions)])
    topics = np.array([t for mine in subscriptions for t in mine], np.int64)
    lists = [c or [] for c in claims]
    return (
        solve.Eligibility(np.array(partitions), start, topics),
        solve.Ownership(
            np.repeat(np.arange(len(partitions)), partitions),
            np.array([c is not None for c in claims]),
            np.cumsum([0, *map(len, lists)]),
            np.array([m for c in lists for m in c], np.int64),
        ),
    )


@pytest.mark.parametrize(
    ("claims", "loads", "fewest"),
    [
        ([[0], [0], [0], [0]], [4, 0], 0),  # as uneven as it was: nothing need move
        ([[0], [0], [0], [0]], [3, 1], 1),
        ([[0], [0], [0], [0]], [2, 2], 2),
        ([[0], [0], None, None], [2, 2], 0),  # giving away what nobody had is no move
        ([[], [], [0], [1]], [2, 2], 2),  # owners who left: these two move whatever one does
        ([[0, 1], [0, 1], [0], [0]], [2, 2], 0),  # both claim: either may keep
        ([[0, 1], [0], [0], [0]], [2, 2], 1),
    ],
)
def test_two_members_one_topic(claims, loads, fewest):
    """Moves that can be counted by hand."""
    found = solve.find_fewest_moves(*question([4], [[0], [0]], claims), np.array(loads))
    assert found.moves == fewest
    assert max(np.bincount(found.owner, minlength=2)) <= max(loads)


def test_a_move_may_push_another():
    """To relieve the first member its partition must displace one of the second."""
    claims = [[0], [0], [0], [1]]
    found = solve.find_fewest_moves(
        *question([3, 1], [[0], [0, 1], [1]], claims), np.array([2, 1, 1])
    )
    assert found.moves == 2
    found = solve.find_fewest_moves(
        *question([4, 2], [[0], [0, 1], [1]], [[0], [0], [0], [0], [1], [1]]), np.array([2, 2, 2])
    )
    assert found.moves == 4


@pytest.mark.parametrize(
    ("claims", "fewest"),
    [
        ([[0, 1]] * 2 + [[1, 2]] * 2 + [[0, 2]] * 2, 0),
        ([[0, 1]] * 3 + [[0, 2]] * 3, 0),
        ([[0, 1]] * 5 + [[1, 2]], 1),
        ([[0, 1]] * 5 + [[0]], 2),
        ([[0, 1, 2]] * 2 + [[0, 1]] * 2 + [[0]] * 2, 0),
    ],
)
def test_several_kinds_of_contested_claims(claims, fewest):
    """Three members, two partitions each: who keeps what must be matched, not taken in turn."""
    found = solve.find_fewest_moves(*question([6], [[0]] * 3, claims), np.array([2, 2, 2]))
    assert found.moves == fewest
    kept = sum(m in c for m, c in zip(found.owner.tolist(), claims, strict=True))
    assert kept == 6 - fewest


def test_a_claim_without_subscription_does_not_count():
    """A member that has dropped the topic cannot keep: the partition moves for certain."""
    found = solve.find_fewest_moves(*question([1, 1], [[0], [1]], [[1], None]), np.array([1, 1]))
    assert found.moves == 1
    assert found.owner.tolist() == [0, 1]


def test_loads_that_no_plan_has_are_refused():
    """More even than subscriptions allow, or of another sum: an error, not an answer."""
    asked = question([3, 1], [[0], [1]], [None] * 4)
    with pytest.raises(InvalidProblemError, match="loads"):
        solve.find_fewest_moves(*asked, np.array([2, 2]))
    with pytest.raises(InvalidProblemError, match="4 partitions"):
        solve.find_fewest_moves(*asked, np.array([3, 2]))


def test_too_large_is_refused_with_its_size(monkeypatch):
    """The error says how large the network is, and what the limit is."""
    monkeypatch.setattr(fewest_moves, "LARGEST_NETWORK", 5)
    with pytest.raises(ProblemTooLargeError, match=r"network of \d+ arcs, the limit is 5"):
        solve.find_fewest_moves(*question([4], [[0], [0]], [[0]] * 4), np.array([2, 2]))


def test_nobody_is_left():
    """A group without members: no partition is open, nothing moves."""
    found = solve.find_fewest_moves(
        solve.Eligibility(np.array([2]), np.zeros(1, int), np.zeros(0, int)),
        solve.Ownership(np.zeros(2, int), np.ones(2, bool), np.zeros(3, int), np.zeros(0, int)),
        np.zeros(0, int),
    )
    assert (found.moves, found.owner.tolist(), found.price.tolist()) == (0, [-1, -1], [])


def test_many_members_lose_some():
    """A tenth of 500 members leave: of 100,000 partitions only theirs move."""
    members, gone = 500, 50
    owner = np.arange(100_000) % members
    claims = np.flatnonzero(owner >= gone)
    eligibility = solve.Eligibility(
        np.full(1000, 100),
        np.arange(members - gone + 1) * 1000,
        np.tile(np.arange(1000), members - gone),
    )
    ownership = solve.Ownership(
        np.repeat(np.arange(1000), 100),
        np.ones(100_000, bool),
        np.searchsorted(claims, np.arange(100_001)),
        owner[claims] - gone,
    )
    began = time.thread_time()
    found = solve.find_fewest_moves(
        eligibility, ownership, solve.find_most_even_assignment(eligibility).load
    )
    assert found.moves == 10_000
    assert time.thread_time() - began < 10
