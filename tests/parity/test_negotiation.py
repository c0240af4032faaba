"""Random joins and leaves against the coordinator's own ``ClassicGroup`` (4.3.1)."""

from __future__ import annotations

import random

import pytest

from jvm import JvmOracle
from parity.problems import names
from partage.errors import InconsistentGroupProtocolError
from partage.groups.negotiation import Negotiation

pytestmark = [pytest.mark.parity, pytest.mark.jvm]

STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky", "AaAa", "AaBB", "BBBB", "é"]


def history(rng):
    """Who joins with what, joins again, leaves: in groups that tie often."""
    ids = names(rng, "consumer", rng.choice([1, 2, 3, 4, 6, 9, 20]))
    pool = rng.sample(STRATEGIES, rng.randint(1, 5))
    common = rng.sample(pool, rng.randint(0, len(pool)))
    steps = []
    for _ in range(rng.randint(1, 40)):
        one = rng.choice(ids)
        if rng.random() < 0.2:
            steps.append({"id": one, "leave": True})
            continue
        more = rng.sample(pool, rng.randint(0, len(pool)))
        protocols = list(dict.fromkeys([*common, *more]))
        rng.shuffle(protocols)
        kind = rng.choice(["consumer"] * 18 + ["connect", ""])
        steps.append({"id": one, "protocols": protocols, "type": kind})
    return {"steps": steps}


def ours(steps):
    group, out = Negotiation(), []
    for step in steps:
        accepted = True
        if "leave" in step:
            group = group.leave(step["id"])
        else:
            try:
                group = group.join(step["id"], step["protocols"], protocol_type=step["type"])
            except InconsistentGroupProtocolError:
                accepted = False
        out.append({"accepted": accepted, "selected": group.selected})
    return out


def test_the_coordinator_accepts_and_chooses_the_same(parity_n) -> None:
    """Step by step: the same members are turned away, and the same strategy is chosen."""
    rng = random.Random("negotiation")
    histories = [history(rng) for _ in range(min(parity_n, 20_000))]
    with JvmOracle("Negotiations") as java:
        for one, theirs in zip(histories, java.ask_all(histories), strict=True):
            assert ours(one["steps"]) == theirs, one
