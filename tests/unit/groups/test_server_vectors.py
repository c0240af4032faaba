"""What the coordinator's classes of Kafka 4.3.1 themselves printed: owners and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partage.groups.registry import find
from partage.groups.server.group_assignment import assignment_to_json
from partage.groups.server.spec import CoordinatorAssignorError
from partage.testing.server_problems import spec_from_json

VECTORS = Path(__file__).resolve().parents[2] / "data" / "vectors" / "consumer"


def lines(strategy):
    text = (VECTORS / f"{strategy}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", ["range", "uniform", "simple"])
def test_every_line_comes_out_as_printed(name) -> None:
    """All 150 problems: the same members, topics and sets, the same refusals."""
    strategy = find(f"server:{name}")
    problems = lines(f"server-{name}")
    assert len(problems) == 150
    for number, problem in enumerate(problems, 1):
        spec = spec_from_json(problem)
        if "error" in problem:
            with pytest.raises(CoordinatorAssignorError) as caught:
                strategy.assign_from_spec(spec)
            assert caught.value.java_exception == problem["error"], f"line {number}"
        else:
            got = assignment_to_json(strategy.assign_from_spec(spec), spec)
            assert got == problem["out"], f"line {number}"


@pytest.mark.parametrize(("name", "count"), [("optimal", 60), ("fair", 20), ("failover", 20)])
def test_every_plan_of_the_jar_comes_out_as_printed(name, count) -> None:
    """The classes of jvm/partage-assignors printed these plans of random groups."""
    problems = lines(f"server-partage-{name}")
    assert len(problems) == count
    for number, problem in enumerate(problems, 1):
        strategy = find(f"server:partage-{name}").configure(problem.get("config", {}))
        spec = spec_from_json(problem)
        assert assignment_to_json(strategy.assign_from_spec(spec), spec) == problem["out"], (
            f"line {number}"
        )


def test_the_vectors_reach_what_is_hard() -> None:
    """Both subscription types, old targets, unknown topics: all occur, so passing means something."""
    problems = lines("server-range") + lines("server-uniform") + lines("server-simple")
    types = {one["out"]["type"] for one in problems if "out" in one}
    assert types == {"HOMOGENEOUS", "HETEROGENEOUS"}
    assert any("target" in m for one in problems for m in one["members"])
    assert any(t.get("noname") for one in problems for t in one["topics"])
    assert any("assignable" in one for one in problems)
