"""Random problems against Kafka's own assignors (4.3.1), order included."""

from __future__ import annotations

import json
import random

import pytest
from tests.support.jvm import JvmOracle

from parity.problems import nasty_problem, shrunk
from partage.errors import UnsupportedProblemError
from partage.groups.registry import find
from partage.model import Cluster, Group, Problem

pytestmark = [pytest.mark.parity, pytest.mark.jvm]

EXACT = ["range", "roundrobin"]
AT_ONCE = 500
# The one error that these classes raise, and what it is here.
REFUSED = {"error": "IllegalArgumentException"}


@pytest.fixture(scope="module")
def java():
    with JvmOracle("Assignors") as oracle:
        yield oracle


def ours(strategy, problem):
    try:
        plan = find(strategy).assign(Problem(Group.from_json(problem), Cluster.from_json(problem)))
    except UnsupportedProblemError:
        return REFUSED
    return {"assignment": plan.to_json()}


@pytest.mark.parametrize("strategy", EXACT)
def test_every_plan_is_the_one_of_kafkas_own_class(strategy, java, parity_n) -> None:
    """Same owners, same order, same refusals; a difference is shown as the smallest problem."""
    rng = random.Random(f"parity {strategy}")
    left = parity_n
    while left > 0:
        problems = [nasty_problem(rng) for _ in range(min(left, AT_ONCE))]
        theirs = java.ask_all({"strategy": strategy, **one} for one in problems)
        for problem, answer in zip(problems, theirs, strict=True):
            if ours(strategy, problem) != answer:
                pytest.fail(difference(strategy, problem, java), pytrace=False)
        left -= len(problems)


def large_problem(rng, members, topics):
    """Hundreds of members, thousands of topics: tables that double, columns of hashes."""
    known = [f"team{i % 7}.topic-{i}" for i in range(topics)]
    racks = ["a", "b", "c", None]
    cluster = {t: rng.randint(0, 20) for t in known[: topics // 2]}
    for t in known[topics // 2 :]:
        cluster[t] = [[rng.choice(racks) for _ in range(2)] for _ in range(rng.randint(0, 20))]
    wanted = [rng.sample(known, topics // 3) for _ in range(5)]
    group = [
        {
            "id": f"consumer-{rng.getrandbits(40):x}",
            "topics": rng.choice(wanted),
            "rack": rng.choice("abcd"),
        }
        for _ in range(members)
    ]
    return {"topics": cluster, "members": group}


@pytest.mark.parametrize("strategy", EXACT)
def test_large_groups_are_no_different(strategy, java) -> None:
    """What is done otherwise for many names and many partitions gives the same plans."""
    rng = random.Random(f"large {strategy}")
    for members, topics in [(5, 3000), (400, 60), (1000, 300)]:
        problem = large_problem(rng, members, topics)
        theirs = java.ask({"strategy": strategy, **problem})
        assert (ours(strategy, problem) == theirs) is True, f"{members} members, {topics} topics"


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
        return ours("range", one) != java.ask({"strategy": "roundrobin", **one})

    problem = next(one for one in iter(lambda: nasty_problem(rng), None) if differs(one))
    small = shrunk(problem, differs)
    assert differs(small)
    assert len(small["members"]) <= 2
    assert len(small["topics"]) <= 2
