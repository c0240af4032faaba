"""Problems of at most 5 members, 4 topics and 8 partitions, and every plan of them, on names.

Nothing here uses the judge, the solver or a strategy.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from math import prod

import partage as pg

Topics = dict[str, list[list[str | None]]]

RACKS = [None, "", "r1", "r2", "r9"]


def small_problem(chance: random.Random) -> tuple[Topics, pg.Group]:
    """Claims contradict each other at times, racks are missing, members are static or not."""
    topics: Topics = {}
    left = 8
    for name in "abcd"[: chance.randint(1, 4)]:
        count = chance.randint(0, min(4, left))
        left -= count
        topics[name] = [
            chance.choices(["r1", "r2", "r3", None], k=chance.randint(0, 2)) for _ in range(count)
        ]
    known = [(t, p) for t in topics for p in range(len(topics[t]))]
    members = [
        pg.Member(
            f"m{i}",
            chance.choices([*topics, "gone"], k=chance.randint(0, 5)),
            rack=chance.choice(RACKS),
            owned=chance.choices([*known, ("a", 9), ("gone", 1)], k=chance.randint(0, 4)),
            generation=chance.choice([3, 3, 3, 4, -1]),
            instance_id=chance.choice([None, None, f"i{9 - i}"]),
        )
        for i in range(chance.randint(1, 5))
    ]
    chance.shuffle(members)
    return topics, pg.Group(members)


def eligible(topics: Topics, group: pg.Group) -> dict[str, list[int]]:
    return {t: [i for i, m in enumerate(group) if t in m.topics] for t in topics}


def rows_of(topics: Topics, group: pg.Group) -> list[tuple[str, int]]:
    """Subscribed partitions."""
    may = eligible(topics, group)
    return [(t, p) for t in topics for p in range(len(topics[t])) if may[t]]


def feasible_plans(topics: Topics, group: pg.Group) -> int:
    may = eligible(topics, group)
    return prod(len(may[t]) for t, _ in rows_of(topics, group))


def keepers(topics: Topics, group: pg.Group) -> dict[tuple[str, int], set[int]]:
    """Return each claimed partition's claimants: subscribers first, then the newest generation."""
    out = {}
    for tp in rows_of(topics, group):
        claims = [
            ((tp[0] in m.topics, m.generation), i)
            for i, m in enumerate(group)
            if tp in list(m.owned)
        ]
        if claims:
            newest = max(g for g, _ in claims)
            out[tp] = {i for g, i in claims if g == newest}
    return out


def mismatches(topics: Topics, group: pg.Group, owners: list[int]) -> int:
    found = 0
    for (t, p), m in zip(rows_of(topics, group), owners, strict=True):
        racks = set(topics[t][p]) - {None}
        found += bool(group[m].rack and racks and group[m].rack not in racks)
    return found


def moves(topics: Topics, group: pg.Group, owners: list[int]) -> int:
    may_keep = keepers(topics, group)
    rows = rows_of(topics, group)
    return sum(tp in may_keep and m not in may_keep[tp] for tp, m in zip(rows, owners, strict=True))


def by_counts(topics: Topics, group: pg.Group, owners: list[int]) -> tuple[list[int], int, int]:
    """Loads, largest first; rack mismatches; moves: in this order, less is better."""
    loads = sorted((owners.count(i) for i in range(len(group))), reverse=True)
    return loads, mismatches(topics, group, owners), moves(topics, group, owners)


def brute_force(topics: Topics, group: pg.Group, key: Callable) -> object:
    """The least value of a key over every valid plan."""
    may = eligible(topics, group)
    plans = product(*[may[t] for t, _ in rows_of(topics, group)])
    return min(key(topics, group, list(owners)) for owners in plans)
