"""What the released task assignors themselves printed: clients, roles, threads, follow-ups."""

from __future__ import annotations

import pytest
from tests.support.stream_problems import ANSWERS, ANSWERS_44, answer, lines, server_answer

from partage.errors import InvalidConfigError
from partage.streams import TaskId


def as_printed(out):
    """Threads' tasks are lists in the order of dealing: which thread has which is compared."""
    if "threads" in out:
        dealt = [
            [[sorted(role, key=TaskId.parse) for role in one] for one in client]
            for client in out["threads"]
        ]
        return {**out, "threads": dealt}
    return out


@pytest.mark.parametrize("kind", sorted(ANSWERS))
def test_every_line_comes_out_as_printed(kind) -> None:
    """All 100 problems of the kind: the same tasks, roles, threads, probing and follow-ups."""
    problems = lines(kind)
    assert len(problems) == 100
    for number, one in enumerate(problems, 1):
        assert answer(kind, one) == as_printed(one["out"]), f"{kind} line {number}"


@pytest.mark.parametrize("kind", sorted(ANSWERS_44))
def test_the_assignors_of_4_4_decide_as_its_classes(kind) -> None:
    """All 100 problems of the kind, as kafka-streams 4.4.0 printed them; 4.3 decides otherwise."""
    problems = lines(f"{kind}-4.4")
    assert len(problems) == 100
    for number, one in enumerate(problems, 1):
        assert answer(kind, one, ANSWERS_44) == one["out"], f"{kind} line {number}"
    assert any(answer(kind, one) != one["out"] for one in problems)


def test_the_vectors_reach_what_is_hard() -> None:
    """Warm-ups, tags, both rack strategies, unknown lags and threads occur: passing means something."""
    every = [one for kind in ANSWERS for one in lines(kind)]
    assert {one["cfg"]["strat"] for one in every} == {"none", "min_traffic", "balance_subtopology"}
    assert any(one["cfg"]["tags"] for one in every)
    assert any(one["out"].get("probing") for one in every)
    assert any(-3 in its["lag"].values() for one in every for its in one["clients"])
    assert max(its["cap"] for one in every for its in one["clients"]) > 2
    assert max(one["cfg"]["nst"] for one in every) > 1


def test_every_line_of_the_coordinator_comes_out_as_printed() -> None:
    """All 150 streams groups (KIP-1071): the same targets, and a number format error where it was one."""
    problems = lines("server-sticky")
    assert len(problems) == 150
    for number, one in enumerate(problems, 1):
        if "error" in one:
            assert one["error"] == "NumberFormatException"
            with pytest.raises(InvalidConfigError):
                server_answer(one)
        else:
            assert server_answer(one) == one["out"], f"line {number}"
