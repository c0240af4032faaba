"""Corners by name, each once against Kafka's own classes: where a rule of thumb would be wrong.

Names that are half a surrogate pair are not among them: no wire format carries them.
"""

from __future__ import annotations

import base64
import random
from itertools import permutations

import pytest
from tests.support.jvm import JvmOracle

from parity.problems import crowded, tangled
from parity.sticky_problems import haunted, uprooted
from parity.test_assignors import ours as plain
from parity.test_server_assignors import ours as in_the_broker
from parity.test_sticky import ours as over_rounds
from partage.groups.registry import find
from partage.groups.sticky import StickyAssignorError
from partage.groups.sticky.problem import StickyProblem
from partage.java.hash_order import DEFAULT_TABLE
from partage.java.tree_bins import HashTable
from partage.model import Cluster, Group, Problem
from partage.wire.consumer_protocol import encode_sticky_user_data

pytestmark = [pytest.mark.parity, pytest.mark.jvm]

PLAIN = ["range", "roundrobin"]
STICKY = ["sticky", "cooperative-sticky"]


@pytest.fixture(scope="module")
def java():
    with JvmOracle("Assignors") as oracle:
        yield oracle


@pytest.fixture(scope="module")
def broker():
    with JvmOracle("ServerAssignors") as oracle:
        yield oracle


def member(name, topics, owned=None, generation=1, **more):
    """A member who says what it owns in every way that a class may read."""
    out = {"id": name, "topics": list(topics), **more}
    if owned is not None:
        data = encode_sticky_user_data([tuple(pair) for pair in owned], generation)
        out |= {"owned": owned, "generation": generation}
        out["userData"] = base64.b64encode(data).decode()
    return out


def racked(count, *racks):
    """Partitions whose replicas are on these racks, one after another."""
    return [[racks[(p + i) % len(racks)] for i in range(2)] for p in range(count)]


def dealt(names, topic, count, by=1):
    """Who owns what, by turns."""
    return {n: [[topic, p] for p in range(count) if p // by % len(names) == i]
            for i, n in enumerate(names)}  # fmt: skip


def _trees():
    """Fifty members, nine and more in one bucket of the table: it becomes a tree, and grows."""
    names = crowded("consumer")[:30] + [f"member-{i}" for i in range(20)]
    chance = random.Random(5)
    chance.shuffle(names)
    return {"topics": {"t": 75}, "members": [
        member(n, ["t"], owned) for n, owned in dealt(names, "t", 75, by=2).items()
    ]}  # fmt: skip


def _loses_its_tree():
    """Eleven names of one bucket; the seven who read nothing leave the map, and come back."""
    nobody = ["77BB", "103BB", "291BB", "56Aa", "270BB", "35Aa"]
    return {"topics": {"topic-000": [["a"]], "topic-001": 1}, "members": [
        *(member(f"consumer.{n}", []) for n in nobody),
        member("consumer.56BB", ["topic-000"], [["topic-000", 0]], rack="a"),
        member("consumer.14BB", []),
        member("consumer.103Aa", ["topic-001"]),
        member("consumer.35BB", ["topic-001", "topic-000"], [["topic-001", 2]]),
        member("consumer.270Aa", ["topic-000"], rack="b"),
    ]}  # fmt: skip


PROBLEMS = {
    "a topic twice, as many names as another's three": {
        "topics": {"a": 4, "b": 3, "c": 2},
        "members": [member("x", ["a", "b", "b"]), member("y", ["a", "b", "c"])],
    },
    "the same the other way round": {
        "topics": {"a": 4, "b": 3, "c": 2},
        "members": [member("x", ["a", "b", "c"]), member("y", ["a", "b", "b"], [["b", 0]])],
    },
    "the same topic twice in all": {
        "topics": {"a": 4, "b": 3},
        "members": [member("x", ["a", "b", "b"]), member("y", ["b", "b", "a"], [["a", 1]])],
    },
    "a first member with nothing at all": {
        "topics": {"a": 5},
        "members": [member("x", [], []), member("y", ["a"], [["a", 0], ["a", 1]]), member("z", ["a"])],
    },
    "a first member that owns nothing": {
        "topics": {"a": 5},
        "members": [member("x", ["a"], []), member("y", ["a"], [["a", p] for p in range(5)])],
    },
    "a first member that owns what it no longer reads": {
        "topics": {"a": 5, "b": 2},
        "members": [member("x", [], [["a", 0]]), member("y", ["a", "b"], [["a", 0], ["a", 1]])],
    },
    "racks of one topic of two": {
        "topics": {"a": racked(6, "r1", "r2", "r3"), "b": 6},
        "members": [member(n, ["a", "b"], rack=r) for n, r in zip("xyz", ("r1", "r2", "r3"), strict=True)],
    },
    "racks of some members and some brokers": {
        "topics": {"a": [["r1", None], [None, None], ["r2"], [], ["r1", "r2"]], "b": 3},
        "members": [member("x", ["a", "b"], [["a", 2]], rack="r1"), member("y", ["b", "a"]),
                    member("z", ["a", "b"], [["a", 0]], rack="r9")],
    },
    "names beyond the basic plane": {
        "topics": {"\U00010000": 3, "｝": 3, "\U0001f600": 2, "é": 1, "e\u0301": 1},
        "members": [member(n, ["｝", "\U00010000", "é", "e\u0301", "\U0001f600"])
                    for n in ("\U0001f600", "｝", "\U00010000", "z")],
    },
    "sixteen names of one hash": {
        "topics": dict.fromkeys(tangled()[:9], 3),
        "members": [member(n, tangled()[:9], [[tangled()[i % 9], i % 3]])
                    for i, n in enumerate(tangled())],
    },
    "Aa and BB": {
        "topics": {"Aa": 2, "BB": 2, "C#": 2},
        "members": [member(n, ["BB", "Aa", "C#"]) for n in ("BB", "Aa", "C#")],
    },
    "two hundred members on three partitions": {
        "topics": {"t": 3},
        "members": [member(f"consumer-{i * 7919 % 200}", ["t"], [["t", i]] if i < 5 else None)
                    for i in range(200)],
    },
    "fifty members, some crowded into a tree": _trees(),
}  # fmt: skip


@pytest.mark.parametrize("strategy", [*PLAIN, *STICKY])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_clients_classes(strategy, name, java) -> None:
    """Owners, order, what changes hands and refusals are those of the class."""
    problem = PROBLEMS[name]
    if strategy in PLAIN:
        assert plain(strategy, problem) == java.ask({"strategy": strategy, **problem})
        return
    left = {**problem, "members": problem["members"][1:]}
    line = {"rounds": [problem, left, problem]}
    assert over_rounds(strategy, line) == java.ask({"strategy": strategy, **line})


LEAST, MOST = -(2**31), 2**31 - 1
#: Numbers that a member owns of a topic of four partitions: differences overflow, or do not.
GHOSTS = [
    (-1, MOST, 1), (MOST, -2, 0), (LEAST, 1, 2), (LEAST, MOST, -1, 2), (MOST - 1, 0, 1, -3),
    (LEAST, -1, 0, 3), (7, 0, 2), (-1, 0, 1), (4, 3, 0), (1, 1, 2), (0, 0), (-1, -1, 3), (MOST, MOST, 0),
]  # fmt: skip


@pytest.mark.parametrize("other", [["t1"], ["u-3"]], ids=["constrained", "general"])
@pytest.mark.parametrize("strategy", STICKY)
def test_partitions_that_do_not_exist_in_all_orders(strategy, other, java) -> None:
    """Below 0, beyond the count, at the ends of int32, twice: who gets which twice is Kafka's."""
    lines = [
        {"rounds": [{"topics": {"t1": 4}, "members": [
            member("c2", ["t1"], [["t1", p] for p in some]), member("c3", other),
        ]}]}
        for ghosts in GHOSTS for some in sorted(set(permutations(ghosts)))
    ]  # fmt: skip
    theirs = java.ask_all({"strategy": strategy, **line} for line in lines)
    for line, answer in zip(lines, theirs, strict=True):
        assert over_rounds(strategy, line) == answer, line


@pytest.mark.parametrize("strategy", STICKY)
def test_partitions_that_do_not_exist_among_many(strategy, java, parity_n) -> None:
    """Random claims with such numbers among them, in lists that Java sorts by merging, too."""
    rng = random.Random(f"ghosts {strategy}")
    lines = [haunted(rng) for _ in range(min(parity_n, 20_000))]
    theirs = java.ask_all({"strategy": strategy, **line} for line in lines)
    for line, answer in zip(lines, theirs, strict=True):
        assert over_rounds(strategy, line) == answer, line


@pytest.mark.parametrize("strategy", STICKY)
def test_owners_in_a_bucket_that_loses_its_tree(strategy, java) -> None:
    """Who leaves the map while others move changes who is met last, and with it the plan."""
    line = {"rounds": [_loses_its_tree()]}
    theirs = java.ask({"strategy": strategy, **line})
    twice = [m for m, mine in theirs[0]["assignment"].items() if ["topic-000", 0] in mine]
    assert sorted(twice) == ["consumer.35BB", "consumer.56BB"]
    assert over_rounds(strategy, line) == theirs


@pytest.mark.parametrize("strategy", STICKY)
def test_owners_in_buckets_that_lose_members(strategy, java, parity_n) -> None:
    """Random lines of crowded buckets, members that leave the map for a while, and two owners.

    The plan seldom shows in which order the map was walked; the order of the answer's keys does.
    """
    rng = random.Random(f"uprooted {strategy}")
    lines = [uprooted(rng) for _ in range(min(parity_n, 6_000))]
    theirs = java.ask_all({"strategy": strategy, **line} for line in lines)
    shown = 0
    for line, answer in zip(lines, theirs, strict=True):
        assert over_rounds(strategy, line) == answer, line
        keys = answered_in_order(strategy, line["rounds"][0])
        if keys is not None:
            shown += 1
            assert keys == list(answer[0]["assignment"]), line
    assert shown > len(lines) // 2


def answered_in_order(strategy, problem):
    """Keys of Java's answer, a map that is filled along the one of owners; None where not known."""
    sticky = StickyProblem(Problem(Group.from_json(problem), Cluster.from_json(problem)))
    try:
        walked = find(strategy).decide_owners(sticky, -1)[0].owner_order
    except StickyAssignorError:
        return None
    if walked is None:
        return None
    group = sticky.problem.group
    answer = HashTable(sticky.member_hash_codes, DEFAULT_TABLE, group.member_rank.tolist())
    for m in walked:
        answer.put(m)
    return [group.ids[m] for m in answer.iteration_order()]


@pytest.mark.parametrize("strategy", ["server:range", "server:uniform", "server:simple"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_coordinators_classes(strategy, name, broker) -> None:
    """The same problems in the broker, with what members own as their targets."""
    problem = PROBLEMS[name]
    topics = [
        {"name": t, "id": base64.urlsafe_b64encode(i.to_bytes(16, "big")).decode().rstrip("="),
         "n": value if isinstance(value, int) else len(value)}
        for i, (t, value) in enumerate(problem["topics"].items(), 1)
    ]  # fmt: skip
    ids = {t["name"]: t["id"] for t in topics}
    members = []
    for one in problem["members"]:
        by_topic: dict[str, list[int]] = {}
        for t, p in one.get("owned", []):
            by_topic.setdefault(ids[t], []).append(p)
        target = {"target": [[t, ps] for t, ps in by_topic.items()]} if by_topic else {}
        members.append({"id": one["id"], "topics": one["topics"], **target})
    asked = {"topics": topics, "members": members}
    assert in_the_broker(strategy, asked) == broker.ask({"strategy": strategy, **asked})
