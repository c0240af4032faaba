"""The last criterion of `optimal`: the most even spread of topics, against all plans there are."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import partage as pg
from partage import judge

PREFIX = "assignment.optimal."


def made(sizes, wants, owned, racks=None, *, members=None):
    """Return a group and a cluster of topics "a", "b", ...; ``owned``: each partition's claimant."""
    topics = {chr(97 + t): n for t, n in enumerate(sizes)}
    claims: list[dict[str, list[int]]] = [{} for _ in wants]
    rows = [(t, p) for t, n in topics.items() for p in range(n)]
    for (topic, p), member in zip(rows, owned, strict=True):
        if member >= 0:
            claims[member].setdefault(topic, []).append(p)
    group = pg.Group(
        pg.Member(f"m{i}", sorted(want), owned=claims[i], rack=members[i] if members else None)
        for i, want in enumerate(wants)
    )
    placed = topics if racks is None else {
        t: [racks[i] for i, row in enumerate(rows) if row[0] == t] for t in topics
    }  # fmt: skip
    return group, pg.Cluster.from_topics(placed)


def plans_with(sizes, wants, loads):
    """Return int[plans, P], all owners by which members have these loads."""
    allowed = [
        [m for m, want in enumerate(wants) if chr(97 + t) in want]
        for t, n in enumerate(sizes)
        for _ in range(n)
    ]
    every = np.array(list(itertools.product(*allowed)))
    held = (every[:, :, None] == np.arange(len(wants))).sum(axis=1)
    return every[(held == loads).all(axis=1)]


def squares_of(plans, sizes, members):
    """Return int[plans], the sum of squared counts by topic and member."""
    topic = np.repeat(np.arange(len(sizes)), sizes)
    counts = [
        ((plans[:, topic == t, None] == np.arange(members)).sum(axis=1) ** 2).sum(axis=1)
        for t in range(len(sizes))
    ]
    return np.sum(counts, axis=0)


def assert_most_even(sizes, wants, owned, racks=None, members=None) -> int:
    """Compare `optimal`'s plan with all plans of its loads; return how many it has to choose from."""
    group, cluster = made(sizes, wants, owned, racks, members=members)
    plan = pg.assign("optimal", group, cluster)
    judge.verify_certificate(plan, group, cluster)
    owner = plan.settled().owner
    plans = plans_with(sizes, wants, np.bincount(owner, minlength=len(wants)))
    owned = np.array(owned)
    far = np.zeros(plans.shape, int)
    if racks is not None:
        near = np.array([[m in row for m in members] for row in racks])
        far = ~near[np.arange(len(owned)), plans]
    moves = ((plans != owned) & (owned >= 0)).sum(axis=1) + 100 * far.sum(axis=1)
    least = plans[moves == moves.min()]
    assert (least == owner).all(axis=1).any()
    reached = squares_of(owner[None], sizes, len(wants))[0]
    assert reached == squares_of(least, sizes, len(wants)).min()
    return len(least)


@pytest.mark.parametrize("members", [2, 3])
def test_every_small_group_has_the_most_even_spread(members) -> None:
    """All claims on two topics of up to 3 partitions, for all subscriptions of 2, some of 3 members."""
    chance, choices = random.Random("small"), 0
    for sizes in itertools.product((1, 2, 3), repeat=2):
        for wants in itertools.product((("a",), ("b",), ("a", "b")), repeat=members):
            if {t for want in wants for t in want} != {"a", "b"}:
                continue
            for owned in itertools.product(range(-1, members), repeat=sum(sizes)):
                if chance.random() < (0.08 if members == 2 else 0.002):
                    choices += assert_most_even(sizes, wants, owned) > 1
    assert choices > 100


def test_three_topics_and_racks_have_the_most_even_spread() -> None:
    """Random groups in which rack costs come first; exchanges over three members are found too."""
    chance, choices = random.Random("racks"), 0
    for _ in range(150):
        members = chance.choice((3, 4))
        sizes = [chance.randint(1, 3) for _ in range(3)]
        wants = [("a", "b", "c") if chance.random() < 0.5 else tuple(chance.sample("abc", 2))
                 for _ in range(members)]  # fmt: skip
        if {t for want in wants for t in want} != set("abc"):
            continue
        owned = [chance.randrange(-1, members) for _ in range(sum(sizes))]
        racks, mine = None, None
        if chance.random() < 0.6:
            racks = [chance.sample("xy", 1) for _ in owned]
            mine = [chance.choice("xy") for _ in range(members)]
        choices += assert_most_even(sizes, wants, owned, racks, mine) > 1
    assert choices > 50
