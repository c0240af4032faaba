"""Random problems against the jar's assignors for brokers: Java's plan is Python's plan."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from tests.support.jvm import JvmOracle

from parity.server_problems import nasty_server_problem, next_round, shrunk
from partage.groups.registry import find
from partage.groups.server.group_assignment import assignment_to_json
from partage.testing.server_problems import spec_from_json

pytestmark = [pytest.mark.parity, pytest.mark.jvm]

STRATEGIES = ["server:partage-optimal", "server:partage-fair", "server:partage-failover"]
AT_ONCE = 500
RACKS = ["a", "b", "c", "", "é", "\ufffd", "\U0001d4b3"]


@pytest.fixture(scope="module")
def java():
    with JvmOracle("ServerAssignors") as oracle:
        yield oracle


def group_problem(rng: random.Random, strategy: str) -> dict[str, Any]:
    """A problem with racks, one member an instance id (as in a coordinator), and settings."""
    return settled(rng, strategy, nasty_server_problem(rng))


def settled(rng: random.Random, strategy: str, problem: dict[str, Any]) -> dict[str, Any]:
    """The same group with racks and settings, if the strategy has any."""
    problem = dict(problem)
    problem.pop("assignable", None)
    taken: set[str] = set()
    members = [dict(member) for member in problem["members"]]
    for member in members:
        if member.get("instance") in taken:
            del member["instance"]
        taken.add(member.get("instance", ""))
    problem["members"] = members
    if strategy == "server:partage-optimal" and rng.random() < 0.5:
        some = rng.sample(RACKS, rng.randint(1, len(RACKS)))
        share = rng.choice([0.5, 1.0])
        for member in members:
            if rng.random() < share:
                member["rack"] = rng.choice(some)
        problem["topics"] = [one | {"racks": racks_of(rng, some, one)} for one in problem["topics"]]
        if rng.random() < 0.1:
            problem["config"] = {"assignment.optimal.racks": rng.choice(["true", "False"])}
    if strategy == "server:partage-failover" and rng.random() < 0.9:
        legal = [m["instance"] for m in members if re.fullmatch(r"[\w.-]+", m.get("instance", ""))]
        listed = [one for one in legal if rng.random() < 0.8]
        pairs = [f"{one}:{rng.choice([-(2**31), -1, 0, 5, 5, 2**31 - 1])}" for one in listed]
        problem["config"] = {"assignment.failover.priorities": ",".join(pairs)}
    return problem


def racks_of(rng: random.Random, some: list[str], topic: dict[str, Any]) -> list[list[str]]:
    """The racks of each partition's replicas; some are unknown."""
    most = rng.choice([1, 2, 3])
    return [
        rng.sample(some, min(len(some), most)) if rng.random() < 0.95 else []
        for _ in range(max(topic["n"], 0))
    ]


def ours(strategy: str, problem: dict[str, Any]) -> dict[str, Any]:
    spec = spec_from_json({k: v for k, v in problem.items() if k != "config"})
    configured = find(strategy).configure(problem.get("config", {}))
    return assignment_to_json(configured.decide(spec), spec)  # type: ignore[attr-defined]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_plan_of_the_jar_is_the_plan_of_python(strategy, java, parity_n) -> None:
    """Same owner of every partition, over rounds in which one target is the next's past."""
    rng = random.Random(f"jar {strategy}")
    wanted = parity_n if parity_n > 300 or strategy == "server:partage-optimal" else 100
    problems = [group_problem(rng, strategy) for _ in range(min(wanted // 2, AT_ONCE))]
    done = rounds = 0
    while done < wanted:
        answers = list(java.ask_all({"strategy": strategy, **one} for one in problems))
        following = []
        for problem, answer in zip(problems, answers, strict=True):
            if ours(strategy, problem) != answer:
                pytest.fail(difference(strategy, problem, java), pytrace=False)
            if rng.random() < 0.6:
                later = next_round(rng, problem, answer["assignment"])
                following.append(settled(rng, strategy, later))
            else:
                following.append(group_problem(rng, strategy))
        done += len(problems)
        rounds += 1
        problems = following
    assert rounds >= 2


def test_beyond_the_limit_of_work_kafkas_own_class_decides(java) -> None:
    """A plan that needs more work than allowed is that of the uniform assignor; where that one throws
    (the partition count of a topic is unknown), partitions go to the least loaded members.
    """
    topics = [
        {"name": f"t{i}", "id": f"AAAAAAAAAAAAAAAAAAAAA{c}", "n": 3 + i}
        for i, c in enumerate("Agw")
    ]
    members = [
        {"id": "a", "topics": ["t0", "t1"], "target": [[topics[0]["id"], [0, 1, 2]]]},
        {"id": "b", "topics": ["t1", "t2"]},
        {"id": "c", "topics": ["t2"]},
    ]
    config = {"assignment.optimal.work.limit": "1"}

    def both(problem, strategy):
        request = {"strategy": "server:partage-optimal", "config": config, **problem}
        return java.ask(request), ours(strategy, problem)

    limited, uniform = both({"topics": topics, "members": members}, "server:uniform")
    assert limited == uniform
    assert limited != ours("server:partage-optimal", {"topics": topics, "members": members})
    unknown = [*topics[:2], topics[2] | {"n": -1}]
    limited, fair = both({"topics": unknown, "members": members}, "server:partage-fair")
    assert limited == fair


def difference(strategy, problem, java):
    def theirs(one):
        return java.ask({"strategy": strategy, **one})

    small = shrunk(problem, lambda one: ours(strategy, one) != theirs(one))
    shown = {"problem": small, "java": theirs(small), "python": ours(strategy, small)}
    return f"{strategy} differs from the jar's class:\n{json.dumps(shown, indent=1)}"
