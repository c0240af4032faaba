"""True claims pass; every kind of damage to them is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import partage as pg
from partage import judge
from partage.errors import CertificateError
from partage.judge.count_bounds import is_majorised
from partage.model import Problem

# x alone may own a, and all share b. So x gets the five of a, y and z two and one of b.
CLUSTER = pg.Cluster.from_topics({"a": 5, "b": 3})
GROUP = pg.Group([
    pg.Member("x", [*"ab"], owned={"a": [0, 1, 2, 3, 4], "b": [0, 1]}),
    pg.Member("y", ["b"], owned={"b": [2]}),
    pg.Member("z", ["b"]),
])  # fmt: skip
FACTS = judge.Facts(Problem(GROUP, CLUSTER))
BEFORE = judge.previous_owners(FACTS.problem)
LOADS = np.array([5, 2, 1])


def plan(b):
    """An owner view: x has a; ``b`` says who has the partitions of b."""
    return np.array([0, 0, 0, 0, 0, *b])


OWNER = plan([1, 2, 1])
BEST = judge.ClaimedBest(OWNER, np.array([5, 2]))
# x pays 1 for each partition: each partition of b that it loses is a move, and it must lose both.
FEWEST = judge.ClaimedFewest(OWNER, np.array([1, 0, 0]))


def test_true_claims_are_accepted():
    """Worked out by hand, without the solver."""
    assert judge.verify_load_certificate(FACTS, BEST).tolist() == [5, 2, 1]
    assert judge.verify_moves_certificate(FACTS, BEFORE, LOADS, FEWEST) == 2


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"topic_level": np.array([5, 1])}, "not proven best: above 1"),
        ({"topic_level": np.array([5, 3])}, "not proven best: above 2"),
        ({"topic_level": np.array([4, 2])}, "not proven best: above 4"),
        ({"topic_level": np.array([5, 5])}, "not proven best"),
        ({"topic_level": np.array([0, 0])}, "not proven best"),
        ({"topic_level": np.array([2, 5])}, "not proven best"),
        ({"topic_level": np.array([5])}, "must be 2 integers"),
        ({"topic_level": np.array([5.0, 2.0])}, "must be 2 integers"),
        ({"owner": plan([1, 1, 1])}, "not proven best"),
        ({"owner": plan([0, 1, 2])}, "not proven best"),
        ({"owner": np.array([0, 0, 0, 0, 1, 1, 2, 1])}, "does not subscribe"),
        ({"owner": plan([1, 2, -1])}, "own exactly"),
        ({"owner": plan([1, 2, 3])}, "own exactly"),
        ({"owner": plan([1, 2])}, "must be 8 integers"),
    ],
)
def test_damaged_claims_of_best_loads_are_refused(changes, text):
    """Another level, another owner, another shape."""
    with pytest.raises(CertificateError, match=text):
        judge.verify_load_certificate(FACTS, replace(BEST, **changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"price": np.array([0, 0, 0])}, "2 moves claimed to be fewest, 0 shown"),
        ({"price": np.array([1, 1, 0])}, "1 shown to be needed"),
        ({"price": np.array([1, 0, 1])}, "0 shown to be needed"),
        ({"price": np.array([-1, 0, 0])}, "-6 shown to be needed"),
        ({"price": np.array([0, 0, 1])}, "shown to be needed"),
        ({"price": np.array([1, 0])}, "must be 3 integers"),
        ({"price": np.array([1 << 40, 0, 0])}, "beyond all bounds"),
        ({"owner": plan([1, 1, 2])}, "3 moves claimed"),
        ({"owner": plan([0, 2, 1])}, "less even loads"),
        ({"owner": plan([1, 2, -1])}, "own exactly"),
    ],
)
def test_damaged_claims_of_fewest_moves_are_refused(changes, text):
    """Another price, a plan with more moves, with worse loads, or none."""
    with pytest.raises(CertificateError, match=text):
        judge.verify_moves_certificate(FACTS, BEFORE, LOADS, replace(FEWEST, **changes))


def test_a_claim_for_other_loads_is_refused():
    """The same plan is not the one with fewest moves where loads need not be so even."""
    with pytest.raises(CertificateError, match="2 moves claimed"):
        judge.verify_moves_certificate(FACTS, BEFORE, np.array([8, 0, 0]), FEWEST)


def test_measuring_refuses_a_false_claim():
    """A wrong solver is an error, never a wrong figure."""
    mine = pg.Plan.from_owner(CLUSTER.index, GROUP.ids, OWNER.astype(np.int32))
    found = judge.measure(mine, GROUP, CLUSTER, best=BEST, fewest=FEWEST)
    assert (found.moved, found.avoidable, found.best_largest) == (2, 0, 5)
    with pytest.raises(CertificateError):
        judge.measure(mine, GROUP, CLUSTER, fewest=replace(FEWEST, price=np.zeros(3, int)))
    with pytest.raises(CertificateError):
        judge.measure(mine, GROUP, CLUSTER, best=replace(BEST, topic_level=np.zeros(2, int)))


@pytest.mark.parametrize(
    ("loads", "by", "expected"),
    [
        ([2, 2], [3, 1], True),
        ([3, 1], [2, 2], False),
        ([3, 1], [1, 3], True),
        ([2, 2], [4], True),
        ([2, 1], [2, 2], False),
        ([3, 3, 0], [4, 1, 1], False),
        ([], [], True),
    ],
)
def test_majorisation(loads, by, expected):
    """The k largest hold no more, for every k, and all hold the same."""
    assert is_majorised(np.array(loads, int), np.array(by, int)) is expected
