"""Random lives of groups against Kafka's own sticky assignors (4.3.1), order included."""

from __future__ import annotations

import json
import os
import random
import threading
from contextlib import suppress
from functools import cache

import pytest
from tests.support.jvm import JvmOracle
from tests.support.sticky_transfers import transfer_rows

from parity.problems import _cuts
from parity.sticky_problems import invented, simulated_problem, smaller_lines
from partage.groups.registry import find
from partage.groups.sticky import StickyAssignorError
from partage.groups.sticky.problem import StickyProblem
from partage.kernels import force_kernel_form, warm_up
from partage.model import Cluster, Group, Problem
from partage.testing.notation import pairs_with_unresolved

pytestmark = [pytest.mark.parity, pytest.mark.jvm]

BOTH = ["sticky", "cooperative-sticky"]
AT_ONCE = 200
#: The first lines of a strategy, which the compiled kernels answer too.
MOST_COMPILED = 2000
#: How long Kafka's class may look for an answer, which it finds within milliseconds or never.
SECONDS = 10 if "PARTAGE_PARITY_N" in os.environ else 4


@pytest.fixture(scope="module")
def java():
    with JvmOracle("Assignors") as oracle:
        yield oracle


def one_round(strategy, problem, generation):
    """(answer as the oracle prints it, highest generation seen)."""
    sticky = StickyProblem(Problem(Group.from_json(problem), Cluster.from_json(problem)))
    try:
        decision, generation = find(strategy).decide_owners(sticky, generation)
    except StickyAssignorError as refusal:
        return {"error": refusal.java_exception}, refusal.max_generation
    named = decision.to_pairs(sticky)
    with suppress(StickyAssignorError):  # with two owners there is no plan
        # A plan tells the same, claims on partitions that do not exist in their places.
        assert pairs_with_unresolved(decision.to_plan(sticky)) == named
    given = {m: [list(p) for p in pairs] for m, pairs in named.items()}
    moving = transfer_rows(decision, sticky)
    moving = None if moving is None else [list(row) for row in moving]
    answer = {"assignment": given, "transferring": moving}
    return answer if decision.loop is None else {**answer, "loop": True}, generation


def ours(strategy, line):
    answers, generation = [], -1
    for problem in line["rounds"]:
        answer, generation = one_round(strategy, problem, generation)
        answers.append(answer)
        if "error" in answer:
            break
    return answers


def player(strategy):
    generation = -1

    def play(problem):
        nonlocal generation
        answer, generation = one_round(strategy, problem, generation)
        return answer.get("assignment")

    return play


def lines(strategy, rng, count):
    """Yield lines on which the class returns, and our answers; it would never answer in our loops."""
    while count > 0:
        if rng.random() < 0.5:
            line = invented(rng)
        else:
            line = simulated_problem(
                rng, player(strategy), cooperative=strategy == "cooperative-sticky"
            )
        answers = ours(strategy, line)
        if not any(answer.get("loop") for answer in answers):
            yield line, answers
            count -= 1


@pytest.fixture(scope="module")
def first_lines(java, parity_n):
    """A function that returns the generator of a strategy's lines after the first ones, and these.

    A line has our answers, by interpreted kernels, and Kafka's. Both tests use them.
    """

    @cache
    def answered(strategy):
        rng = random.Random(f"parity {strategy} {parity_n}")
        with force_kernel_form("interpreted"):
            some = list(lines(strategy, rng, min(parity_n, MOST_COMPILED)))
        theirs = java.ask_all({"strategy": strategy, **line} for line, _ in some)
        return rng, [(*one, answer) for one, answer in zip(some, theirs, strict=True)]

    return answered


def expect_equal(strategy, answered, java) -> None:
    """Fail with the smallest line on which our answers differ from Kafka's."""
    for line, mine, theirs in answered:
        if mine != theirs:
            pytest.fail(difference(strategy, line, java), pytrace=False)


@pytest.mark.parametrize("strategy", BOTH)
def test_every_line_is_answered_as_by_kafkas_own_class(
    strategy, first_lines, java, parity_n
) -> None:
    """Owners, order, what changes hands, errors, over several rounds of one Java object."""
    rng, answered = first_lines(strategy)
    expect_equal(strategy, answered, java)
    left = parity_n - len(answered)
    while left > 0:
        some = list(lines(strategy, rng, min(left, AT_ONCE)))
        theirs = java.ask_all({"strategy": strategy, **line} for line, _ in some)
        both = zip(some, theirs, strict=True)
        expect_equal(strategy, ((*one, answer) for one, answer in both), java)
        left -= len(some)


@pytest.mark.parametrize("strategy", BOTH)
def test_compiled_kernels_answer_alike(strategy, first_lines) -> None:
    """The compiled form of every kernel gives the answers of the same classes."""
    pytest.importorskip("numba")
    _, answered = first_lines(strategy)
    warm_up().join()
    with force_kernel_form("compiled"):
        for line, _, theirs in answered:
            assert ours(strategy, line) == theirs, json.dumps(line)


def difference(strategy, line, java):
    """The smallest line that greedy cuts lead to and that still differs, as JSON."""

    def theirs(one):
        return java.ask({"strategy": strategy, **one})

    small: dict | None = line
    while small is not None:
        line = small
        small = next(
            (one for one in smaller_lines(line, _cuts) if ours(strategy, one) != theirs(one)), None
        )
    shown = {"line": line, "kafka": theirs(line), "partage": ours(strategy, line)}
    return f"{strategy} differs from Kafka's class:\n{json.dumps(shown, indent=1)}"


def test_the_lines_reach_both_algorithms_and_their_errors() -> None:
    """Both algorithms, withheld partitions and three of Java's exceptions occur in the sample."""
    rng = random.Random("reach 8")  # all within 100 lines
    errors = {"ArithmeticException", "IllegalStateException", "NullPointerException"}
    wanted, seen = {"general", "equal", "withheld", *errors}, set()
    for _, answers in lines("cooperative-sticky", rng, 3000):
        if wanted <= seen:
            break
        for answer in answers:
            seen.add(
                answer.get("error", "general" if answer.get("transferring") is None else "equal")
            )
            if answer.get("transferring"):
                seen.add("withheld")
    assert wanted <= seen


def test_kafkas_class_never_returns_where_a_loop_is_found() -> None:
    """The class itself is asked on a group whose loop is known: no answer within some seconds."""
    owned = {
        "c1": [["t1", p] for p in (0, 3, 4, 5, 8)],
        "c2": [["t0", p] for p in range(1, 8)] + [["t2", p] for p in (0, 1, 3, 4)],
    }
    wanted = {"c0": ["t2", "t0", "t1"], "c1": ["t0", "t1", "t2"], "c2": ["t0", "t2"]}
    members = [
        {"id": m, "topics": wanted.get(m, ["t0"]), "owned": owned.get(m, []), "generation": 1}
        for m in ("c0", "c1", "c2", "c3", "c4", "c5")
    ]
    problem = {"topics": {"t0": 8, "t1": 9, "t2": 5}, "members": members}
    line = {"rounds": [problem]}
    assert ours("cooperative-sticky", line)[0]["loop"]
    answers: list[object] = []
    with JvmOracle("Assignors") as oracle:
        returning = {"rounds": [{**problem, "members": members[3:]}]}
        assert oracle.ask({"strategy": "cooperative-sticky", **returning})

        def ask() -> None:
            with suppress(pytest.fail.Exception):  # it is killed without an answer
                answers.append(oracle.ask({"strategy": "cooperative-sticky", **line}))

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(SECONDS)
        returned = list(answers)
        oracle.kill()
        asking.join()
    assert not returned
