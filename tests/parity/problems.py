"""Random problems where Kafka's own classes are easy to miss: ties, hash buckets, racks, gaps.

`nasty_problem(rng)` makes one, as JSON of the vectors; `shrunk(problem, differs)` makes a
problem smaller while it still shows a difference.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from partage.java.strings import string_hash

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

Problem = dict[str, Any]

# "Aa" and "BB" share their hash, and so do all words of equally many of them.
COLLIDING = ["AaAa", "AaBB", "BBAa", "BBBB", "Aa", "BB", "AaC", "BBC", "xAa", "xBB"]
# Beyond the basic plane Java's string order is not Python's: U+10000 sorts before U+FF5A.
UNICODE = [
    "zürich",
    "\U00010000",
    "｝",
    "ｚ",
    "日本",
    "\U0001f600a",
    "\U0001f600",
    "e\u0301",
    "é",
    "Т3",
]
RACKS = ["a", "b", "c", "rack-ü", "", "nobody-is-here"]


def names(rng: random.Random, stem: str, count: int) -> list[str]:
    """Distinct names, in random order, from pools that are hard in their own ways."""
    numbered = [f"{stem}{i}" for i in range(count + 2)]
    padded = [f"{stem}-{i:03d}" for i in range(count + 2)]
    wild = [f"{rng.getrandbits(48):012x}" for _ in range(count + 2)]
    pools = [numbered, padded, wild, [*COLLIDING, *numbered], [*UNICODE, *wild]]
    pool = rng.choice([*pools, [*crowded(stem), *wild], [*tangled(), *wild, *numbered]])
    pool = list(dict.fromkeys(pool))
    if rng.random() < 0.5:
        rng.shuffle(pool)
    chosen = pool[:count]
    rng.shuffle(chosen)
    return chosen


@cache
def crowded(stem: str, slot: int = 3) -> list[str]:
    """Names of one bucket of 64: nine make Java double its table, or make the bucket a tree.

    Some share their whole hash too ("Aa" and "BB" do), so that the tree compares the names.
    """
    chosen = []
    for name in (f"{stem}.{i}{pair}" for i in range(900) for pair in ("Aa", "BB")):
        value = string_hash(name) & 0xFFFFFFFF
        if (value ^ value >> 16) & 63 == slot:
            chosen.append(name)
    return chosen


@cache
def tangled(pairs: int = 4) -> list[str]:
    """Two to the power of ``pairs`` names of one and the same hash: sixteen."""
    return ["".join(words) for words in product(("Aa", "BB"), repeat=pairs)]


def nasty_problem(rng: random.Random) -> Problem:
    """Members and topics of one of many shapes."""
    crowd = rng.random() < 0.01
    many = 200 if crowd else rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 12, 13, 14, 25, 40])
    topics = names(rng, "topic", rng.choice([0, 1, 1, 2, 2, 3, 4, 5, 7, 12, 13, 26]))
    with_racks = rng.random() < 0.6
    known = [t for t in topics if rng.random() < 0.93]
    equal = rng.choice([1, 2, 3, 4, 5, 6, 9]) if rng.random() < 0.5 else None
    racks = rng.sample(RACKS[:4], rng.randint(1, 4))
    if rng.random() < 0.1:
        racks.append("")
    cluster = {
        t: _partitions(rng, equal if equal and rng.random() < 0.85 else None, racks, with_racks)
        for t in known
    }
    if crowd and known:
        cluster = {known[0]: 3}
    return {"topics": cluster, "members": _members(rng, many, topics, with_racks)}


def _partitions(rng: random.Random, count: int | None, racks: list[str], with_racks: bool) -> Any:
    if count is None:
        count = rng.choice([0, 1, 1, 2, 3, 4, 5, 7, 8, 13, 30])
    if not with_racks or rng.random() < 0.1:
        return count
    copies = rng.choice([1, 1, 2, 2, 3])
    if rng.random() < 0.5:
        return [[racks[(p + j) % len(racks)] for j in range(copies)] for p in range(count)]
    odd = rng.choice([None, None, ""])
    if rng.random() < 0.1:  # all alike, but for a replica more here and there
        return [racks[:1] + [odd] * rng.randint(0, 1) for _ in range(count)]
    return [
        [rng.choice([*racks, odd]) for _ in range(rng.choice([0, copies, copies]))]
        for _ in range(count)
    ]


def _members(
    rng: random.Random, many: int, topics: list[str], with_racks: bool
) -> list[dict[str, Any]]:
    instances = names(rng, "instance", max(1, many // rng.choice([1, 1, 2, 3])))
    static = rng.choice([0.0, 0.0, 0.5, 1.0])
    racks = rng.choice([RACKS[:4], RACKS[:4], RACKS, ["a", "nobody-is-here"]])
    same = rng.random() < 0.4
    shared = _subscription(rng, topics)
    out = []
    for one in names(rng, "consumer", many):
        member: dict[str, Any] = {"id": one}
        member["topics"] = shared if same else _subscription(rng, topics)
        if rng.random() < static:
            member["instance"] = rng.choice(instances)
        if rng.random() < (0.8 if with_racks else 0.1):
            member["rack"] = rng.choice(racks)
        out.append(member)
    return out


def _subscription(rng: random.Random, topics: list[str]) -> list[str]:
    some = list(topics) if rng.random() < 0.6 else rng.sample(topics, rng.randint(0, len(topics)))
    rng.shuffle(some)
    if some and rng.random() < 0.1:
        some.append(rng.choice(some))
    return some


def shrunk(problem: Problem, differs: Callable[[Problem], bool]) -> Problem:
    """The smallest problem that greedy cuts lead to and that still differs."""
    while True:
        smaller = next((one for one in _cuts(problem) if differs(one)), None)
        if smaller is None:
            return problem
        problem = smaller


def _cuts(problem: Problem) -> Iterator[Problem]:
    members, topics = problem["members"], problem["topics"]
    for i in range(len(members)):
        yield {**problem, "members": members[:i] + members[i + 1 :]}
    for name in topics:
        yield {**problem, "topics": {t: v for t, v in topics.items() if t != name}}
    for name, value in topics.items():
        if isinstance(value, list):
            yield {**problem, "topics": {**topics, name: len(value)}}
        smaller = value[:-1] if isinstance(value, list) else value - 1
        if value:
            yield {**problem, "topics": {**topics, name: smaller}}
    for i, member in enumerate(members):
        for change in _smaller_members(member):
            yield {**problem, "members": [*members[:i], change, *members[i + 1 :]]}


def _smaller_members(member: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for field in ("instance", "rack", "owned", "generation", "userData"):
        if field in member:
            yield {k: v for k, v in member.items() if k != field}
    for i in range(len(member["topics"])):
        yield {**member, "topics": member["topics"][:i] + member["topics"][i + 1 :]}
