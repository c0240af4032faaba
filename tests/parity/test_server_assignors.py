"""Random problems against the assignors of Kafka's own group coordinator (4.3.1)."""

from __future__ import annotations

import json
import random

import pytest
from tests.support.jvm import JvmOracle

from parity.server_problems import nasty_server_problem, next_round, shrunk
from partage.groups.registry import find
from partage.groups.server.group_assignment import assignment_to_json
from partage.groups.server.spec import CoordinatorAssignorError
from partage.testing.server_problems import spec_from_json

pytestmark = [pytest.mark.parity, pytest.mark.jvm]

EXACT = ["server:range", "server:uniform", "server:simple"]
AT_ONCE = 500


@pytest.fixture(scope="module")
def java():
    with JvmOracle("ServerAssignors") as oracle:
        yield oracle


def ours(strategy, problem):
    spec = spec_from_json(problem)
    try:
        return assignment_to_json(find(strategy).decide(spec), spec)
    except CoordinatorAssignorError as refused:
        return {"error": refused.java_exception}


@pytest.mark.parametrize("strategy", EXACT)
def test_every_answer_is_the_one_of_kafkas_own_class(strategy, java, parity_n) -> None:
    """Same members, topics, sets and refusals, over rounds in which one target is the next's past."""
    rng = random.Random(f"parity {strategy}")
    problems = [nasty_server_problem(rng) for _ in range(min(parity_n, AT_ONCE))]
    done = rounds = 0
    while done < parity_n:
        answers = list(java.ask_all({"strategy": strategy, **one} for one in problems))
        following = []
        for problem, answer in zip(problems, answers, strict=True):
            if ours(strategy, problem) != answer:
                pytest.fail(difference(strategy, problem, java), pytrace=False)
            if "assignment" in answer and rng.random() < 0.6:
                following.append(next_round(rng, problem, answer["assignment"]))
            else:
                following.append(nasty_server_problem(rng))
        done += len(problems)
        rounds += 1
        problems = following
    assert rounds >= 1


def difference(strategy, problem, java):
    def theirs(one):
        return java.ask({"strategy": strategy, **one})

    small = shrunk(problem, lambda one: ours(strategy, one) != theirs(one))
    shown = {"problem": small, "kafka": theirs(small), "partage": ours(strategy, small)}
    return f"{strategy} differs from Kafka's class:\n{json.dumps(shown, indent=1)}"


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
