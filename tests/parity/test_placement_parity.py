"""Placement against StripedReplicaPlacer (4.3.1) and AdminUtils (3.9.1) on random problems."""

from __future__ import annotations

import json
import random

import pytest
from tests.support.jvm import TARGET, JvmOracle
from tests.support.placements import answer

from partage.kernels import force_kernel_form

pytestmark = [pytest.mark.parity, pytest.mark.jvm]

AT_ONCE = 500
#: "Aa" and "BB" hash alike, and "" like no rack at all.
RACKS = ["a", "b", "c", "d", "Aa", "BB", "", "é", "\ue000", "\U0001f600", "rack10", "rack2"]


@pytest.fixture(scope="module")
def java():
    with JvmOracle("Placements", str(TARGET / "old")) as oracle:
        yield oracle


def problem(rng, kind):
    """Brokers in any order, racks of any size or none, some fenced; now and then impossible."""
    count = rng.choice([1, 1, 2, 3, 5, 8, 13, 40])
    ids = rng.sample(range(count * rng.choice([1, 3])), count)
    racks = rng.sample(RACKS, rng.randint(1, len(RACKS)))
    form_of = rng.choice(["none", "all", "all", "all", "mixed"])
    if kind == "striped" and form_of == "mixed":
        racks = [*racks, None]
    made = []
    for i in ids:
        rack = None if form_of == "none" else rng.choice(racks)
        if kind == "adminutils" and form_of == "mixed" and rng.random() < 0.2:
            rack = None
        made.append({"id": i, "rack": rack})
    one = {
        "kind": kind,
        "brokers": made,
        "partitions": rng.choice([0, 1, 2, 7, count, 3 * count + 1, 120]),
        "rf": min(rng.randint(0, 6), count + (rng.random() < 0.05)),
    }
    if kind == "striped":
        fenced = rng.choice([0.0, 0.0, 0.3, 0.9])
        for b in made:
            b["fenced"] = rng.random() < fenced
        one["seed"] = rng.choice([rng.randint(0, 99), rng.randint(-(2**63), 2**63 - 1)])
        if rng.random() < 0.3:
            one["times"] = rng.randint(1, 4)
    else:
        one["start"], one["first"] = rng.randint(0, 2 * count), rng.choice([-1, 0, 0, 5, 33])
    return one


@pytest.mark.parametrize("kind", ["striped", "adminutils"])
@pytest.mark.parametrize("how", ["compiled", "interpreted"])
def test_equals_kafkas_class(kind, how, java, parity_n) -> None:
    """The same replicas in the same order, or the same exception, on random problems."""
    rng = random.Random(f"{kind} {how}")
    asked = 0
    with force_kernel_form(how):
        while asked < max(1, parity_n // 2):
            some = [problem(rng, kind) for _ in range(min(AT_ONCE, parity_n))]
            for one, theirs in zip(some, java.ask_all(some), strict=True):
                got = answer(one)
                if got != theirs:
                    shown = {"problem": one, "kafka": theirs, "partage": got}
                    pytest.fail(f"differs from Kafka's class:\n{json.dumps(shown)}", pytrace=False)
            asked += len(some)
    assert asked > 0


def test_a_difference_would_be_seen(java) -> None:
    """The comparison is not blind: with another seed Kafka's answers differ from ours."""
    rng = random.Random(3)
    problems = [problem(rng, "striped") for _ in range(40)]
    theirs = java.ask_all({**one, "seed": one["seed"] // 2 + 1} for one in problems)
    assert any(answer(one) != said for one, said in zip(problems, theirs, strict=True))
