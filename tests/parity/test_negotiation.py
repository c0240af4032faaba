"""Random joins and leaves against the coordinator's own ``ClassicGroup`` (4.3.1)."""

from __future__ import annotations

import json
import random

import pytest
from tests.support.jvm import JvmOracle

from parity.problems import crowded, names, tangled
from partage.errors import InconsistentGroupProtocolError
from partage.groups.negotiation import Negotiation

pytestmark = [pytest.mark.parity, pytest.mark.jvm]

AT_ONCE = 500
STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky", "AaAa", "AaBB", "BBBB", "é"]


@pytest.fixture(scope="module")
def java():
    with JvmOracle("Negotiations") as oracle:
        yield oracle


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


def crowded_history(rng):
    """Many of one bucket come and go: it becomes a tree, shrinks, grows, is cut in two."""
    ids = [*crowded("consumer")[:40], *tangled()]
    rng.shuffle(ids)
    ids = [*ids[: rng.choice([10, 14, 25, 56])], *(f"m{i}" for i in range(rng.choice([0, 40, 90])))]
    votes = ["range", "sticky", "roundrobin"]
    there, steps = [], []
    for _ in range(rng.choice([30, 60, 150])):
        if there and rng.random() < rng.choice([0.1, 0.5]):
            steps.append({"id": there.pop(rng.randrange(len(there))), "leave": True})
            continue
        one = rng.choice(ids)
        if one not in there:
            there.append(one)
        protocols = rng.sample(votes, 3)
        steps.append({"id": one, "protocols": protocols, "type": "consumer"})
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


def test_the_coordinator_accepts_and_chooses_the_same(java, parity_n) -> None:
    """Step by step: the same members are turned away, and the same strategy is chosen."""
    rng = random.Random("negotiation")
    left = parity_n
    while left > 0:
        histories = [history(rng) for _ in range(min(left, AT_ONCE))]
        for one, theirs in zip(histories, java.ask_all(histories), strict=True):
            if ours(one["steps"]) != theirs:
                pytest.fail(difference(one["steps"], java), pytrace=False)
        left -= len(histories)


def test_members_of_one_bucket_vote_in_the_order_of_its_tree(java, parity_n) -> None:
    """The same where the coordinator's map of members has trees, from which members leave."""
    rng = random.Random("trees of members")
    histories = [crowded_history(rng) for _ in range(min(parity_n, 10_000))]
    for one, theirs in zip(histories, java.ask_all(histories), strict=True):
        if ours(one["steps"]) != theirs:
            pytest.fail(difference(one["steps"], java), pytrace=False)


def difference(steps, java):
    """The shortest history that leaving out steps leads to and that still differs, as JSON."""
    small = shortest(steps, lambda some: ours(some) != java.ask({"steps": some}))
    shown = {"steps": small, "kafka": java.ask({"steps": small}), "partage": ours(small)}
    return f"negotiation differs from Kafka's ClassicGroup:\n{json.dumps(shown, indent=1)}"


def shortest(steps, differs):
    at = 0
    while at < len(steps):
        fewer = steps[:at] + steps[at + 1 :]
        if differs(fewer):
            steps, at = fewer, 0
        else:
            at += 1
    return steps


def test_a_difference_would_be_seen_and_shortened(java) -> None:
    """The comparison can fail: with other votes, it finds a history of few steps."""
    rng = random.Random(11)

    def differs(steps):
        voted = [{**s, "protocols": s["protocols"][::-1]} if "id" in s and "leave" not in s else s
                 for s in steps]  # fmt: skip
        return ours(voted) != java.ask({"steps": steps})

    steps = next(h["steps"] for h in iter(lambda: history(rng), None) if differs(h["steps"]))
    small = shortest(steps, differs)
    assert differs(small)
    assert len(small) <= 2
