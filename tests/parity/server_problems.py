"""Random problems for the coordinator's assignors: topic ids that collide, targets old and invented.

`nasty_server_problem(rng)` makes one, as JSON of ``server-*.jsonl``; `next_round(rng, problem,
assignment)` makes the one that follows it, with that assignment as previous target; `shrunk`
makes a problem smaller while it still shows a difference; `compare_rounds` compares the plans of
Java and Partage.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from parity.problems import names

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from tests.support.jvm import JvmOracle

Problem = dict[str, Any]

#: Problems that one JVM gets at once.
AT_ONCE = 500

MEMBERS = [0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 11, 12, 13, 14, 25, 49]
TOPICS = [1, 1, 2, 2, 3, 4, 5, 7, 11, 12, 13, 24, 26]
COUNTS = [0, 1, 1, 2, 3, 4, 5, 7, 8, 13, 17, 33]


def topic_id(rng: random.Random, style: str, number: int) -> str:
    """22 characters: at random, in few hash buckets, counted up, or negative in Java's eyes."""
    high, low = rng.getrandbits(64), rng.getrandbits(64)
    if style == "few buckets":
        high, low = 0, rng.choice([0, 1, 16, 32]) + 64 * number
    elif style == "counted":
        high, low = number * 0x9E3779B97F4A7C15 % 2**64, number
    elif style == "signed":
        high = rng.choice([0, 2**63, 2**64 - 1, 1])
        low = (rng.choice([0, 2**63]) + number) % 2**64
    raw = high.to_bytes(8, "big") + low.to_bytes(8, "big")
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def nasty_server_problem(rng: random.Random) -> Problem:
    """Members and topics of one of many shapes, with previous targets or without."""
    topics = _topics(rng)
    named = [t["name"] for t in topics if not t.get("noname")]
    unknown = [t["name"] for t in topics if t.get("noname")]
    some = _subscription(rng, named, unknown)
    same = rng.random() < 0.5
    static = rng.choice([0.0, 0.0, 0.5, 1.0])
    many = 200 if rng.random() < 0.01 else rng.choice(MEMBERS)
    instances = names(rng, "instance", max(1, many))
    members = []
    for one in names(rng, "consumer", many):
        mine = rng.sample(some, len(some)) if same else _subscription(rng, named, unknown)
        member: dict[str, Any] = {"id": one, "topics": mine}
        if rng.random() < static:
            member["instance"] = rng.choice(instances)
        if rng.random() < 0.2:
            member["rack"] = rng.choice("abc")
        members.append(member)
    problem: Problem = {"topics": topics, "members": members}
    style = rng.choice(["none", "none", "shared out", "shared out", "invented", "several"])
    if style == "shared out":
        _share_out(rng, problem)
    elif style != "none":
        _invent(rng, problem, doubled=style == "several")
    if rng.random() < 0.15:
        problem["assignable"] = _assignable(rng, topics)
    return problem


def next_round(rng: random.Random, problem: Problem, assignment: dict[str, Any]) -> Problem:
    """Some time later: the assignment is the target, members come and go, topics grow."""
    members = [{k: v for k, v in m.items() if k != "target"} for m in problem["members"]]
    named = [t["name"] for t in problem["topics"] if not t.get("noname")]
    for member in members:
        target = [[t, rng.sample(ps, len(ps))] for t, ps in assignment.get(member["id"], [])]
        if target:
            rng.shuffle(target)
            member["target"] = target
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        if members and rng.random() < 0.5:
            members.pop(rng.randrange(len(members)))
        else:
            like = rng.choice(members)["topics"] if members else _subscription(rng, named, [])
            new = {"id": f"new{rng.getrandbits(20)}", "topics": list(like)}
            members.insert(rng.randint(0, len(members)), new)
    if members and rng.random() < 0.3:
        mine = _subscription(rng, named, [])
        for member in members if rng.random() < 0.5 else [rng.choice(members)]:
            member["topics"] = mine
    topics = [dict(t) for t in problem["topics"]]
    for topic in topics:
        if rng.random() < 0.1 and topic["n"] >= 0:
            topic["n"] += rng.choice([1, 2, 5])
    return {**problem, "topics": topics, "members": members}


def _topics(rng: random.Random) -> list[dict[str, Any]]:
    style = rng.choice(["random", "random", "few buckets", "counted", "signed"])
    equal = rng.choice(COUNTS) if rng.random() < 0.4 else None
    out: list[dict[str, Any]] = []
    for i, name in enumerate(names(rng, "topic", rng.choice(TOPICS)), 1):
        count = equal if equal is not None and rng.random() < 0.9 else rng.choice(COUNTS)
        if rng.random() < 0.01:
            count = rng.choice([70, 150, 1200])
        topic = {"name": name, "id": topic_id(rng, style, i), "n": count}
        if rng.random() < 0.06:
            topic |= {"noname": True, "n": rng.choice([-1, -1, count])}
        elif rng.random() < 0.003:
            topic["n"] = -1
        out.append(topic)
    return out


def _subscription(rng: random.Random, named: list[str], unknown: list[str]) -> list[str]:
    some = list(named) if rng.random() < 0.5 else rng.sample(named, rng.randint(0, len(named)))
    some += [name for name in unknown if rng.random() < 0.3]
    rng.shuffle(some)
    if some and rng.random() < 0.1:
        some.append(rng.choice(some))
    return some


def _share_out(rng: random.Random, problem: Problem) -> None:
    """Each partition to at most one member, unevenly, with or without regard to subscriptions."""
    members = problem["members"]
    if not members:
        return
    targets: list[dict[str, list[int]]] = [{} for _ in members]
    style = rng.choice(["few", "any", "striped", "runs"])
    faithful = rng.random() < 0.7
    some = rng.sample(range(len(members)), rng.randint(1, len(members)))
    topics = rng.sample(problem["topics"], len(problem["topics"]))
    for topic in topics:
        able = some
        if faithful:
            able = [i for i in some if topic["name"] in members[i]["topics"]]
        if not able:
            continue
        for p in range(max(topic["n"], 2 if topic.get("noname") else 0)):
            if rng.random() < 0.1:
                continue
            m = rng.choice(able)
            if style == "few":
                m = able[min(rng.randrange(len(able)), rng.randrange(len(able)))]
            elif style == "striped":
                m = able[p % min(64, len(able))]
                if p % 64 < 3:
                    # Every 64th partition of a topic in few hands: crowded hash buckets.
                    m = able[p % 64 % len(able)]
            elif style == "runs":
                m = able[p * len(able) // (topic["n"] or 1) % len(able)]
            targets[m].setdefault(topic["id"], []).append(p)
    _put(rng, members, targets)


def _invent(rng: random.Random, problem: Problem, *, doubled: bool) -> None:
    """Targets of any kind: partitions with several members, numbers that do not exist."""
    beyond = rng.random() < 0.1
    targets: list[dict[str, list[int]]] = []
    for _ in problem["members"]:
        mine: dict[str, list[int]] = {}
        for topic in problem["topics"]:
            if rng.random() < 0.5:
                continue
            count = max(topic["n"], 0) + (2 if beyond else 0)
            numbers = [p for p in range(count) if rng.random() < (0.5 if doubled else 0.15)]
            if numbers or rng.random() < 0.2:
                mine[topic["id"]] = numbers
        targets.append(mine if rng.random() < 0.8 else {})
    _put(rng, problem["members"], targets)


def _put(
    rng: random.Random, members: list[dict[str, Any]], targets: list[dict[str, list[int]]]
) -> None:
    shuffled = rng.random() < 0.5
    for member, mine in zip(members, targets, strict=True):
        target = [[t, rng.sample(ps, len(ps)) if shuffled else ps] for t, ps in mine.items()]
        rng.shuffle(target)
        if target:
            member["target"] = target


def _assignable(rng: random.Random, topics: list[dict[str, Any]]) -> list[Any]:
    share = rng.choice([0.3, 0.8, 1.0])
    return [
        [t["id"], [p for p in range(max(t["n"], 0)) if rng.random() < share]]
        for t in topics
        if rng.random() < 0.9
    ]


def shrunk(problem: Problem, differs: Callable[[Problem], bool]) -> Problem:
    """The smallest problem that greedy cuts lead to and that still differs."""
    while True:
        smaller = next((one for one in _cuts(problem) if differs(one)), None)
        if smaller is None:
            return problem
        problem = smaller


def _cuts(problem: Problem) -> Iterator[Problem]:
    members, topics = problem["members"], problem["topics"]
    if "assignable" in problem:
        yield {k: v for k, v in problem.items() if k != "assignable"}
    for i in range(len(members)):
        yield {**problem, "members": members[:i] + members[i + 1 :]}
    for i, topic in enumerate(topics):
        gone = [m | {"target": _without(m, topic["id"])} for m in members]
        yield {**problem, "topics": topics[:i] + topics[i + 1 :], "members": gone}
        if topic["n"] > 0:
            smaller = topic | {"n": topic["n"] - 1}
            yield {**problem, "topics": [*topics[:i], smaller, *topics[i + 1 :]]}
    for i, member in enumerate(members):
        for change in _smaller_members(member):
            yield {**problem, "members": [*members[:i], change, *members[i + 1 :]]}


def _without(member: dict[str, Any], topic: str) -> list[Any]:
    return [pair for pair in member.get("target", []) if pair[0] != topic]


def _smaller_members(member: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in ("instance", "rack", "target"):
        if name in member:
            yield {k: v for k, v in member.items() if k != name}
    for i in range(len(member["topics"])):
        yield {**member, "topics": member["topics"][:i] + member["topics"][i + 1 :]}
    target = member.get("target", [])
    for i, (topic, numbers) in enumerate(target):
        yield {**member, "target": target[:i] + target[i + 1 :]}
        for j in range(len(numbers)):
            pair = [topic, numbers[:j] + numbers[j + 1 :]]
            yield {**member, "target": [*target[:i], pair, *target[i + 1 :]]}


def compare_rounds(  # noqa: PLR0917 - what a comparison consists of
    java: JvmOracle,
    strategy: str,
    ours: Callable[[Problem], dict[str, Any]],
    made: Callable[[], Problem],
    followed: Callable[[Problem, dict[str, Any]], Problem],
    wanted: int,
    rng: random.Random,
) -> int:
    """Fail the test where Java's plan is not ours, over rounds in which one target is the next's past.

    Return the number of rounds.

    Args:
        java: the program that answers with Java's plans.
        strategy: the name of the assignor.
        ours: the plan of Partage as JSON.
        made: makes a problem.
        followed: makes the problem that follows one with this assignment.
        wanted: number of problems.
        rng: decides which problems go on.
    """
    problems = [made() for _ in range(min(wanted // 2 + 1, AT_ONCE))]
    done = rounds = 0
    while done < wanted:
        answers = list(java.ask_all({"strategy": strategy, **one} for one in problems))
        following = []
        for problem, answer in zip(problems, answers, strict=True):
            if ours(problem) != answer:
                pytest.fail(difference(java, strategy, ours, problem), pytrace=False)
            goes_on = "assignment" in answer and rng.random() < 0.6
            following.append(followed(problem, answer["assignment"]) if goes_on else made())
        done += len(problems)
        rounds += 1
        problems = following
    return rounds


def difference(
    java: JvmOracle, strategy: str, ours: Callable[[Problem], dict[str, Any]], problem: Problem
) -> str:
    """Return the smallest problem found on which Java and Partage differ, with both answers."""

    def theirs(one: Problem) -> dict[str, Any]:
        answer: dict[str, Any] = java.ask({"strategy": strategy, **one})
        return answer

    small = shrunk(problem, lambda one: ours(one) != theirs(one))
    shown = {"problem": small, "java": theirs(small), "python": ours(small)}
    return f"{strategy} differs from Java's class:\n{json.dumps(shown, indent=1)}"
