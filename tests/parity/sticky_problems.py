"""Lines of rounds for the sticky assignors: lives of groups, and claims nobody should believe."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from parity.problems import crowded, nasty_problem, tangled
from partage.wire.consumer_protocol import encode_sticky_user_data

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

Line = dict[str, Any]
Problem = dict[str, Any]
Pairs = list[list[Any]]


def invented(rng: random.Random) -> Line:
    """One to three rounds over one cluster, each with claims made up anew."""
    problem = _not_too_large(rng)
    rounds = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        wild = rng.random() < 0.15
        newest = rng.choice([0, 1, 1, 3, 10])
        claims = _claims(rng, problem, wild=wild)
        members = [
            {**m, **_sent(rng, claims[m["id"]], newest)} if rng.random() < 0.9 else m
            for m in problem["members"]
        ]
        rounds.append({"topics": problem["topics"], "members": members})
    return {"rounds": rounds}


def haunted(rng: random.Random) -> Line:
    """One round of members who claim partitions that nobody has: numbers that overflow, twice."""
    topics: dict[str, Any] = {t: rng.choice([1, 2, 5, 40]) for t in ["t1", "t2", "u-3"]}
    topics = dict(list(topics.items())[: rng.randint(1, 3)])
    if rng.random() < 0.2:
        topics["racks"] = [["a"], ["b"], ["a", "b"], []][: rng.randint(1, 4)]
    alike = rng.random() < 0.3
    members = []
    for i in range(rng.choice([1, 2, 2, 3, 5, 14])):
        wanted = (
            sorted(topics) if alike else rng.sample(sorted(topics), rng.randint(1, len(topics)))
        )
        one: Problem = {"id": f"c{i}", "topics": wanted, "owned": []}
        if rng.random() < 0.3:
            one["rack"] = rng.choice("abc")
        if rng.random() < 0.8:
            one["owned"] = _haunted_claims(rng, topics)
            one["generation"] = rng.choice([1, 1, 1, 2])
            claims = [(t, p) for t, p in one["owned"]]
            data = encode_sticky_user_data(claims, one["generation"])
            one["userData"] = base64.b64encode(data).decode()
        members.append(one)
    return {"rounds": [{"topics": topics, "members": members}]}


def uprooted(rng: random.Random) -> Line:
    """Eleven to sixty members in a few buckets, subscriptions that differ or are empty, ghosts.

    The class takes who is subscribed to nothing, or can neither give nor take, out of its map of
    owners for a while: trees lose members. Partitions with two owners show the map's order.
    """
    topics: dict[str, Any] = {}
    racks = rng.sample("abc", rng.randint(1, 3)) if rng.random() < 0.7 else []
    for name in ["topic-000", "topic-001", "u-3", "u-4"][: rng.randint(2, 4)]:
        count = rng.choice([1, 1, 2, 3, 8])
        topics[name] = [[rng.choice(racks)] for _ in range(count)] if racks else count
    empty = rng.choice([0.2, 0.5, 0.8])
    members: list[Problem] = []
    for name in _colliding(rng):
        one: Problem = {"id": name, "topics": [], "owned": []}
        if rng.random() > empty:
            one["topics"] = rng.sample(sorted(topics), rng.randint(1, min(2, len(topics))))
        if racks and rng.random() < 0.5:
            one["rack"] = rng.choice("abc")
        members.append(one)
    _haunt(rng, members, topics)
    return {"rounds": [{"topics": topics, "members": members}]}


def _colliding(rng: random.Random) -> list[str]:
    """Names of one bucket of 64, of one hash, or of a few buckets, some of no kind among them."""
    one, other = crowded("consumer"), crowded("consumer", 17)
    pool = rng.choice([one, tangled(6), one + tangled(), one + other, tangled(6) + one])
    chosen = rng.sample(pool, rng.randint(11, min(60, len(pool))))
    if rng.random() < 0.5:  # fewer may crowd a small table, but make no tree
        chosen += [f"m{i}" for i in range(rng.randint(0, 60 - len(chosen)))]
    rng.shuffle(chosen)
    return chosen


def _haunt(rng: random.Random, members: list[Problem], topics: Problem) -> None:
    """Claims of what is there, of what is not, and of what was lost, as both classes read them."""
    there = [[t, p] for t, v in topics.items() for p in range(v if isinstance(v, int) else len(v))]
    ghosts = [[t, rng.choice([-1, 8, 9, 2**31 - 1])] for t in topics]
    readers = [one for one in members if one["topics"]] or members
    for pair in [*rng.sample(there, rng.randint(0, len(there))), *ghosts]:
        if pair in there or rng.random() < 0.7:
            fitting = [one for one in readers if pair[0] in one["topics"]] or readers
            rng.choice(fitting if rng.random() < 0.9 else members)["owned"].append(pair)
    newest = rng.choice([1, 1, 2])
    for one in members:
        generation = one["generation"] = rng.choice([newest, newest, 1])
        data = encode_sticky_user_data([(t, p) for t, p in one["owned"]], generation)
        one["userData"] = base64.b64encode(data).decode()


def _haunted_claims(rng: random.Random, topics: Problem) -> Pairs:
    claims = []
    for topic, value in topics.items():
        count = value if isinstance(value, int) else len(value)
        numbers = [p for p in range(count) if rng.random() < 0.5]
        for _ in range(rng.choice([0, 0, 1, 2, 4])):
            least, most = -(2**31), 2**31 - 1
            ends = [least, least + 1, -2, -1, 0, count, count + 1, most - 1, most]
            numbers.append(rng.choice([*ends, rng.randint(least, most)]))
        if rng.random() < 0.8:
            rng.shuffle(numbers)
        claims += [[topic, p] for p in numbers]
    if rng.random() < 0.5:
        rng.shuffle(claims)
    return claims


def simulated_problem(
    rng: random.Random, play: Callable[[Problem], dict[str, Pairs] | None], *, cooperative: bool
) -> Line:
    """A group's life: ``play`` gives the plan of a round, the claims of the next come from it."""
    problem = _not_too_large(rng)
    sent: dict[str, tuple[Pairs, int]] = {}
    rounds = []
    for generation in range(1, rng.choice([3, 4, 6]) + 1):
        members = [
            {**m, **_as_sent(sent.get(m["id"]), cooperative=cooperative)}
            for m in problem["members"]
        ]
        if rng.random() < 0.3:
            rng.shuffle(members)
        one = {"topics": problem["topics"], "members": members}
        rounds.append(one)
        plan = play(one)
        if plan is None:
            break
        for member, pairs in plan.items():
            if rng.random() < 0.95:  # who misses the answer still has the one before
                sent[member] = (pairs, generation)
        problem = _later(rng, problem)
    return {"rounds": rounds}


def _busy(rng: random.Random) -> Problem:
    """Few members and long topics with subscriptions that differ: partitions go to and fro."""
    topics = {name: rng.choice([2, 6, 20, 60]) for name in ["t1", "t2", "u-3"][: rng.randint(2, 3)]}
    members = [
        {"id": f"c{i}", "topics": rng.sample(sorted(topics), rng.randint(1, len(topics)))}
        for i in range(rng.randint(3, 5))
    ]
    return {"topics": topics, "members": members}


def _full(rng: random.Random) -> Problem:
    """Fifty members and more with equal subscriptions, many of them in one bucket of the table."""
    names = crowded("consumer")[: rng.choice([9, 20, 50])] + [f"m{i}" for i in range(45)]
    topics = {"t1": rng.choice([20, 75, 130]), "t2": rng.choice([0, 30])}
    chosen = rng.sample(names, rng.randint(49, len(names)))
    return {"topics": topics, "members": [{"id": one, "topics": ["t1", "t2"]} for one in chosen]}


def _not_too_large(rng: random.Random) -> Problem:
    style = rng.random()
    if style < 0.15:
        return _busy(rng) if style < 0.14 else _full(rng)
    problem = nasty_problem(rng)
    while not problem["members"] and rng.random() < 0.95:
        problem = nasty_problem(rng)
    if rng.random() < 0.25:  # equal subscriptions, which the other algorithm is for
        topics = list(problem["topics"])
        problem["members"] = [
            {**m, "topics": rng.sample(topics, len(topics))} for m in problem["members"]
        ]
    return problem


def _claims(rng: random.Random, problem: Problem, *, wild: bool) -> dict[str, Pairs]:
    """Random claims: some partitions twice, some by no member, some that do not exist."""
    there = [
        [t, p]
        for t, value in problem["topics"].items()
        for p in range(value if isinstance(value, int) else len(value))
    ]
    rng.shuffle(there)
    ids = [m["id"] for m in problem["members"]]
    claims: dict[str, Pairs] = {one: [] for one in ids}
    greedy = ids[: rng.choice([1, 1, 2, len(ids)]) or 1]
    twice = rng.choice([0.0, 0.0, 0.05, 0.4])
    for pair in there[: rng.randint(0, len(there))]:
        for _ in range(1 + (rng.random() < twice) + (rng.random() < twice / 2)):
            if ids:
                claims[rng.choice(greedy if rng.random() < 0.5 else ids)].append(pair)
    if wild and ids:
        names = [*problem["topics"], "gone", "topic0"]
        for _ in range(rng.choice([1, 1, 2, 5])):
            number = rng.choice([-1, 0, 1, 3, 5, 31, 200, 2**31 - 1])
            mine = claims[rng.choice(ids)]
            mine.insert(rng.randint(0, len(mine)), [rng.choice(names), number])
    return claims


def _sent(rng: random.Random, pairs: Pairs, newest: int) -> dict[str, Any]:
    """A claim as both classes read it: owned partitions, user data, generations that disagree."""
    generation = rng.choice([newest, newest, newest, max(newest - 1, -1), newest - 2, -1])
    field = rng.choice([generation, generation, generation, -1, newest])
    out: dict[str, Any] = {"owned": pairs if rng.random() < 0.9 else []}
    if field >= 0:
        out["generation"] = field
    version = 0 if rng.random() < 0.1 else 1
    sticky = encode_sticky_user_data([(t, p) for t, p in pairs], generation, version=version)
    four = generation.to_bytes(4, "big", signed=True)
    data = rng.choice([sticky, sticky, sticky, four, None])
    if data is not None and rng.random() < 0.1:
        data = rng.choice([b"", data[: rng.randint(0, len(data))], data + b"\0\1", b"\xff" * 7])
    if data is not None:
        out["userData"] = base64.b64encode(data).decode()
    return out


def _as_sent(sent: tuple[Pairs, int] | None, *, cooperative: bool) -> dict[str, Any]:
    """What a Java consumer sends after an assignment."""
    if sent is None:
        return {"userData": base64.b64encode(b"\xff" * 4).decode()} if cooperative else {}
    pairs, generation = sent
    if cooperative:
        data = generation.to_bytes(4, "big")
        owned = {"owned": pairs}
    else:
        data = encode_sticky_user_data([(t, p) for t, p in pairs], generation)
        owned = {}
    return {**owned, "generation": generation, "userData": base64.b64encode(data).decode()}


def _later(rng: random.Random, problem: Problem) -> Problem:
    """A member leaves, joins or subscribes anew; topics appear, grow, shrink, vanish."""
    topics, members = dict(problem["topics"]), list(problem["members"])
    what = rng.choice(["leave", "leave", "join", "join", "subscribe", "topics", "nothing"])
    if what == "leave" and len(members) > 1:
        for _ in range(rng.randint(1, max(1, len(members) // 3))):
            members.pop(rng.randrange(len(members)))
    elif what == "join":
        model = rng.choice(members) if members else {"topics": list(topics)}
        for _ in range(rng.choice([1, 1, 2, 5])):
            members.insert(
                rng.randint(0, len(members)), {**model, "id": f"new-{rng.getrandbits(30)}"}
            )
    elif what == "subscribe" and members:
        at = rng.randrange(len(members))
        some = rng.sample(sorted(topics), rng.randint(0, len(topics)))
        members[at] = {**members[at], "topics": some}
    elif what == "topics" and topics:
        name = rng.choice(sorted(topics))
        if rng.random() < 0.3:
            del topics[name]
        elif isinstance(topics[name], int):
            topics[name] = max(0, topics[name] + rng.choice([-1, 1, 2, 5]))
    return {"topics": topics, "members": members}


def smaller_lines(line: Line, cuts: Callable[[Problem], Iterator[Problem]]) -> Iterator[Line]:
    """The line without a round, or with one round cut; claims are cut as well."""
    rounds = line["rounds"]
    for i in range(len(rounds)):
        if len(rounds) > 1:
            yield {"rounds": rounds[:i] + rounds[i + 1 :]}
    for i, one in enumerate(rounds):
        for change in [*cuts(one), *_fewer_claims(one)]:
            yield {"rounds": [*rounds[:i], change, *rounds[i + 1 :]]}


def _fewer_claims(problem: Problem) -> Iterator[Problem]:
    members = problem["members"]
    for i, member in enumerate(members):
        for j in range(len(member.get("owned", ()))):
            owned = member["owned"][:j] + member["owned"][j + 1 :]
            yield {
                **problem,
                "members": [*members[:i], {**member, "owned": owned}, *members[i + 1 :]],
            }
