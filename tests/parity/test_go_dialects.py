"""Random problems against the range and round-robin assignors of franz-go 1.22.2 and Sarama 1.61.1."""

from __future__ import annotations

import json
import random
import subprocess
from typing import Any

import pytest
from tests.support.go_programs import built_go

from parity.sticky_problems import invented
from partage.errors import UnsupportedProblemError
from partage.groups.registry import find
from partage.model import Cluster, Group, Problem
from peers.asking import HERE

pytestmark = pytest.mark.parity
NAMES = ["franz-go:range", "franz-go:roundrobin", "sarama:range", "sarama:roundrobin"]
AT_ONCE = 1000


def ask(problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The clients' own answers, one per problem."""
    program = built_go(HERE / "partitioners-go", "assignors-go", "assignors")
    lines = "".join(json.dumps(one) + "\n" for one in problems)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def for_go(name: str, problem: dict[str, Any]) -> dict[str, Any]:
    """The problem in the form of the Go program: subscribed topics that exist."""
    subscribed = {topic for member in problem["members"] for topic in member["topics"]}
    counts = {t: v if isinstance(v, int) else len(v) for t, v in problem["topics"].items()}
    return {
        "strategy": name,
        "topics": {t: n for t, n in counts.items() if t in subscribed and n},
        "members": [
            {"id": one["id"], "instance": one.get("instance"), "topics": one["topics"]}
            for one in problem["members"]
        ],
    }


def by_topic(assignment: dict[str, dict[str, list[int]]]) -> dict[str, dict[str, list[int]]]:
    """Members with partitions only; the Go clients leave some of the others out."""
    owned = {m: {t: p for t, p in one.items() if p} for m, one in assignment.items()}
    return {member: topics for member, topics in owned.items() if topics}


@pytest.mark.parametrize("name", NAMES)
def test_every_plan_is_that_of_the_go_client(name: str, parity_n: int) -> None:
    """Owners, the order of each topic's partitions, and errors."""
    rng, left = random.Random(f"go {name} {parity_n}"), parity_n
    assigned = 0
    while left > 0:
        some = [invented(rng)["rounds"][0] for _ in range(min(AT_ONCE, left))]
        left -= len(some)
        for problem, answer in zip(some, ask([for_go(name, one) for one in some]), strict=True):
            group, cluster = Group.from_json(problem), Cluster.from_json(problem)
            try:
                mine = by_topic(find(name).assign(Problem(group, cluster)).to_dict())
            except UnsupportedProblemError:
                assert "error" in answer, json.dumps(problem)
                continue
            assert by_topic(answer.get("assignment") or {}) == mine, json.dumps(problem)
            assigned += bool(mine)
    assert assigned > parity_n / 2
