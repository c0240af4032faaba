"""Random problems against the assignors of Kafka's own group coordinator (4.3.1)."""

from __future__ import annotations

import random

import pytest
from tests.support.jvm import JvmOracle

from parity.server_problems import compare_rounds, nasty_server_problem, next_round, shrunk
from partage.groups.registry import find
from partage.groups.server.group_assignment import assignment_to_json
from partage.groups.server.spec import CoordinatorAssignorError
from partage.testing.server_problems import spec_from_json

pytestmark = [pytest.mark.parity, pytest.mark.jvm]

EXACT = ["server:range", "server:uniform", "server:simple"]


@pytest.fixture(scope="module")
def java():
    with JvmOracle("ServerAssignors") as oracle:
        yield oracle


def ours(strategy, problem):
    spec = spec_from_json(problem)
    try:
        return assignment_to_json(find(strategy).assign_from_spec(spec), spec)
    except CoordinatorAssignorError as refused:
        return {"error": refused.java_exception}


@pytest.mark.parametrize("strategy", EXACT)
def test_every_answer_is_the_one_of_kafkas_own_class(strategy, java, parity_n) -> None:
    """Same members, topics, sets and refusals, over rounds in which one target is the next's past."""
    rng = random.Random(f"parity {strategy}")

    def decided(problem):
        return ours(strategy, problem)

    def made():
        return nasty_server_problem(rng)

    def followed(problem, assignment):
        return next_round(rng, problem, assignment)

    assert compare_rounds(java, strategy, decided, made, followed, parity_n, rng) >= 2


def test_a_difference_would_be_seen_and_shrunk(java) -> None:
    """The comparison is not blind: asked for the wrong class, it finds a problem of few parts."""
    rng = random.Random(7)

    def differs(one):
        return ours("server:uniform", one) != java.ask({"strategy": "server:range", **one})

    problem = next(one for one in iter(lambda: nasty_server_problem(rng), None) if differs(one))
    small = shrunk(problem, differs)
    assert differs(small)
    assert len(small["members"]) <= 2
    assert len(small["topics"]) <= 2
