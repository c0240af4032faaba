"""Random problems against the jar's assignors for brokers: Java's plan is Python's plan."""

from __future__ import annotations

import random
import re
from functools import partial
from typing import Any

import pytest
from tests.support.jvm import JvmOracle

from parity.server_problems import compare_rounds, nasty_server_problem, next_round, topic_id
from partage.groups.registry import find
from partage.groups.server.group_assignment import assignment_to_json
from partage.testing.server_problems import spec_from_json

pytestmark = [pytest.mark.parity, pytest.mark.jvm]

STRATEGIES = ["server:partage-optimal", "server:partage-fair", "server:partage-failover"]
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
    return assignment_to_json(configured.assign_from_spec(spec), spec)  # type: ignore[attr-defined]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_plan_of_the_jar_is_the_plan_of_python(strategy, java, parity_n) -> None:
    """Same owner of every partition, over rounds in which one target is the next's past."""
    rng = random.Random(f"jar {strategy}")
    wanted = parity_n if parity_n > 300 or strategy == "server:partage-optimal" else 100

    def decided(problem):
        return ours(strategy, problem)

    def made():
        return group_problem(rng, strategy)

    def followed(problem, assignment):
        return settled(rng, strategy, next_round(rng, problem, assignment))

    assert compare_rounds(java, strategy, decided, made, followed, wanted, rng) >= 2


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


def test_hostile_metadata_never_reach_the_coordinator_as_an_exception(java) -> None:
    """Whatever the metadata claim, each class returns an assignment: topics without partitions and
    unknown topics get none, removed topics lose theirs, and 2**31 - 1 claimed partitions leave every
    member with its previous target.
    """
    ids = [f"AAAAAAAAAAAAAAAAAAAAA{c}" for c in "AQgw"]
    members = [
        {"id": "a", "topics": ["t0", "t1"], "target": [[ids[0], [0, 1, 7]], [ids[3], [0]]]},
        {"id": "b", "topics": ["t0", "t1"], "target": [[ids[0], [0, 2]], [ids[1], []]]},
        {"id": "c", "topics": ["t0", "t1", "t2"], "target": []},
    ]

    def asked(strategy, counts):
        topics = [{"name": f"t{i}", "id": ids[i], "n": n} for i, n in enumerate(counts)]
        problem = {"topics": topics, "members": members}
        answer = java.ask({"strategy": strategy, **problem})
        assert answer.keys() == {"type", "assignment"}, answer
        return {m: {t: p for t, p in its if p} for m, its in answer["assignment"].items()}

    for strategy in STRATEGIES:
        owned = asked(strategy, [4, 0, -1])
        assert sorted(p for its in owned.values() for p in its.get(ids[0], [])) == [0, 1, 2, 3]
        assert all(its.keys() <= {ids[0]} for its in owned.values())
        assert asked(strategy, [0, -1, -(2**31)]) == {"a": {}, "b": {}, "c": {}}
        stays = {"a": {ids[0]: [0, 1, 7], ids[3]: [0]}, "b": {ids[0]: [0, 2]}, "c": {}}
        assert asked(strategy, [2**31 - 1, 4, 2]) == stays
        # The sum overflows an int.
        assert asked(strategy, [2**31 - 1, 2**31 - 1, 2**31 - 1]) == stays


def test_broken_metadata_leave_the_previous_targets(java) -> None:
    """If the coordinator's metadata throw, no class does: members keep their previous targets."""
    target = ["AAAAAAAAAAAAAAAAAAAAAA", [0, 1]]
    topics = [{"name": "t0", "id": target[0], "n": 2}]
    members = [{"id": "a", "topics": ["t0"], "target": [target]}, {"id": "b", "topics": ["t0"]}]
    problem = {"topics": topics, "members": members, "broken": True}
    for strategy in STRATEGIES:
        answer = java.ask({"strategy": strategy, **problem})
        assert answer["assignment"] == {"a": [target], "b": []}


def large_problem(rng: random.Random) -> dict[str, Any]:
    """A group in the shape of Kafka's ServerSideAssignorBenchmark: one or five kinds of
    subscriptions, with or without three racks.
    """
    members, count = rng.choice([40, 100, 150]), rng.choice([5, 20, 100])
    each, kinds = max(1, members * rng.choice([2, 5, 10]) // count), rng.choice([1, 1, 5])
    racks = rng.choice([0, 0, 3, 3, 4])
    topics = [
        {
            "name": f"t{t}", "id": topic_id(rng, "random", t), "n": each,
            **({"racks": [[f"r{(t + p) % racks}"] for p in range(each)]} if racks else {}),
        }
        for t in range(count)
    ]  # fmt: skip
    listed = [
        {
            "id": f"c{rng.getrandbits(40)}", "topics": [f"t{t}" for t in range(m % kinds, count, kinds)],
            **({"rack": f"r{m % racks}"} if racks else {}),
        }
        for m in range(members)
    ]  # fmt: skip
    return {"topics": topics, "members": listed}


def test_large_groups_get_the_plan_of_python(java, parity_n) -> None:
    """First assignments and later ones of groups with up to 1,500 partitions."""
    rng = random.Random("jar large")
    strategy = "server:partage-optimal"

    def decided(problem):
        return ours(strategy, problem)

    def made():
        return large_problem(rng)

    def followed(problem, assignment):
        return next_round(rng, problem, assignment)

    wanted = max(parity_n // 100, 4)
    assert compare_rounds(java, strategy, decided, made, followed, wanted, rng) >= 2


def group_beyond_cyclic_exchanges(rng: random.Random) -> dict[str, Any]:
    """A group with equal subscriptions that is too large for the exact spread of topics, or nearly.

    The jar then reads only the previous targets that change.
    """
    shapes = [(260, 110), (300, 100), (520, 60), (100, 10), (100, 100), (150, 8), (220, 3)]
    members, count = rng.choice(shapes)
    sizes = [1, 2, 5, 9] if count > 10 else [9, 40, 60, 120]
    topics = [
        {"name": f"t{t}", "id": topic_id(rng, "random", t), "n": rng.choice(sizes)}
        for t in range(count)
    ]
    rack = rng.choice([{}, {"rack": "a"}])
    listed = [
        {"id": f"c{rng.choice(['', 'é', 'Ł'])}{rng.getrandbits(40)}", "topics": [t["name"] for t in topics]} | rack
        for _ in range(members)
    ]  # fmt: skip
    return {"topics": topics, "members": listed}


def damaged(rng: random.Random, problem: dict[str, Any]) -> dict[str, Any]:
    """The same group with a few targets that lost a partition, or have one that is not theirs."""
    for member in rng.sample(problem["members"], min(3, len(problem["members"]))):
        target = member.get("target")
        if not target:
            continue
        what = rng.choice(["lose", "lose", "claim", "invent", "foreign topic"])
        if what == "lose":
            target.pop()
        elif what == "claim":
            other = rng.choice(problem["members"]).get("target") or target
            member["target"] = [one for one in target if one[0] != other[0][0]] + [other[0]]
        elif what == "invent":
            target[0] = [target[0][0], [*target[0][1], 99]]
        else:
            target.append([topic_id(rng, "random", 7), [0]])
    return problem


def test_targets_that_stay_unread_give_the_plan_of_python(java, parity_n) -> None:
    """Large groups with equal subscriptions: valid targets, lost partitions and false claims."""
    rng = random.Random("jar unread")
    strategy = "server:partage-optimal"

    def followed(problem, assignment):
        following = next_round(rng, problem, assignment)
        return damaged(rng, following) if rng.random() < 0.3 else following

    wanted = max(parity_n // 100, 12)
    made = partial(group_beyond_cyclic_exchanges, rng)
    decided = partial(ours, strategy)
    assert compare_rounds(java, strategy, decided, made, followed, wanted, rng) >= 2
