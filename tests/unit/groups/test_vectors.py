"""What Kafka 4.3.1 itself printed: owners, order and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import partage as pg

VECTORS = Path(__file__).resolve().parents[2] / "data" / "vectors" / "consumer"


def lines(strategy):
    text = (VECTORS / f"{strategy}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_every_line_comes_out_as_printed(strategy) -> None:
    """All 150 problems: the same owners in the same order, the same refusals."""
    problems = lines(strategy)
    assert len(problems) == 150
    for number, problem in enumerate(problems, 1):
        group, cluster = pg.Group.from_json(problem), pg.Cluster.from_json(problem)
        if "error" in problem:
            with pytest.raises(pg.UnsupportedProblemError):
                pg.assign(strategy, group, cluster)
        else:
            plan = pg.assign(strategy, group, cluster)
            assert plan.to_json() == problem["out"]["assignment"], f"line {number}"
            assert pg.check(plan, group, cluster) == []


def test_the_vectors_reach_what_is_hard() -> None:
    """Racks, instance ids, repeated topics, empty groups: all occur, so passing means something."""
    both = lines("range") + lines("roundrobin")
    members = [member for problem in both for member in problem["members"]]
    assert any("rack" in member for member in members)
    assert any("instance" in member for member in members)
    assert any(len(set(member["topics"])) < len(member["topics"]) for member in members)
    assert any(isinstance(v, list) for problem in both for v in problem["topics"].values())
