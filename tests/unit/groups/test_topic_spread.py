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
    every = every_plan(sizes, wants)
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


def every_plan(sizes, wants):
    """Return int[plans, P], the owners of each partition in every valid plan."""
    allowed = [
        [m for m, want in enumerate(wants) if chr(97 + t) in want]
        for t, n in enumerate(sizes)
        for _ in range(n)
    ]
    return np.array(list(itertools.product(*allowed)))


def test_topics_of_one_weight_each_have_the_most_even_spread() -> None:
    """No plan with the same number of partitions of each weight on each member, and as few moves, is
    more even. A tolerance switches the exact search of small groups off.
    """
    chance, improved = random.Random("by weight"), 0
    for _ in range(100):
        members = chance.choice((2, 3))
        sizes = [chance.randint(1, 3) for _ in range(3)]
        wants = [tuple("abc") if chance.random() < 0.7 else tuple(chance.sample("abc", 2))
                 for _ in range(members)]  # fmt: skip
        if {t for want in wants for t in want} != set("abc"):
            continue
        owned = [chance.randrange(-1, members) for _ in range(sum(sizes))]
        weights = {t: chance.choice((1, 2)) for t in "abc"}
        group, cluster = made(sizes, wants, owned)
        config = {f"{PREFIX}weights": weights, f"{PREFIX}tolerance": 0.001}
        plan = pg.assign("optimal", group, cluster, config=config)
        judge.verify_certificate(plan, group, cluster)
        owner, plans = plan.settled().owner, every_plan(sizes, wants)
        of_topic = np.repeat([weights[t] for t in "abc"], sizes)
        for weight in (1, 2):
            held = plans[:, of_topic == weight, None] == np.arange(members)
            mine = np.bincount(owner[of_topic == weight], minlength=members)
            plans = plans[(held.sum(axis=1) == mine).all(axis=1)]
        claims = np.array(owned)
        moves = ((plans != claims) & (claims >= 0)).sum(axis=1)
        own_moves = int(((owner != claims) & (claims >= 0)).sum())
        squares = squares_of(plans, sizes, members)
        reached = squares_of(owner[None], sizes, members)[0]
        assert reached == squares[moves <= own_moves].min()
        improved += reached < squares[moves <= own_moves].max()
    assert improved > 10


def weighted_group(chance):
    """Return a group of 3 to 5 members, a cluster of some 30 partitions, and settings with weights."""
    sizes = {name: chance.randint(3, 8) for name in "abcde"}
    racks = chance.random() < 0.4
    placed = {t: [[chance.choice("xyz")] for _ in range(n)] for t, n in sizes.items()}
    members = []
    free = [(t, p) for t, n in sizes.items() for p in range(n) if chance.random() < 0.6]
    for i in range(chance.randint(3, 5)):
        wants = "abcde" if i == 0 or chance.random() < 0.7 else chance.sample("abcde", 3)
        mine = [one for one in free if one[0] in wants and chance.random() < 0.5]
        free = [one for one in free if one not in mine]
        weight = chance.choice((1, 1, 1, 2, 0)) if i else 1
        rack = chance.choice("xyz") if racks else None
        members.append(pg.Member(f"m{i}", sorted(wants), owned=mine, rack=rack, weight=weight))
    weights = {t: [chance.randint(1, 3) for _ in range(n)] for t, n in sizes.items()}
    config: dict[str, object] = {f"{PREFIX}weights": weights}
    if chance.random() < 0.3:
        config[f"{PREFIX}max.moves"] = chance.randint(2, 6)
    return pg.Group(members), pg.Cluster.from_topics(placed), config


def test_an_even_spread_by_weight_costs_nothing_else(monkeypatch) -> None:
    """Each member keeps its load; rack cost, then moves are no worse, and within the limit of moves.

    The plan is compared with the one before topics are spread.
    """
    chance, better = random.Random("costs nothing"), 0
    for _ in range(60):
        group, cluster, config = weighted_group(chance)
        plan = pg.assign("optimal", group, cluster, config=config)
        judge.verify_certificate(plan, group, cluster)
        with monkeypatch.context() as patch:
            patch.setattr(
                "partage.groups.optimal.weight_balance.spread_topics",
                lambda _canonical, owner, *_: owner,
            )
            before = pg.assign("optimal", group, cluster, config=config)
        weight = plan.certificate.details["weight"]
        loads = [
            judge.member_loads(one.settled(), group, cluster, weight) for one in (plan, before)
        ]
        assert loads[0].tolist() == loads[1].tolist()
        now, then = plan.certificate.figures, before.certificate.figures
        order = ("rack cost", "moves", "topic excess")
        assert [now[name] for name in order] <= [then[name] for name in order]
        assert now.get("on weight 0") == then.get("on weight 0")
        limit = config.get(f"{PREFIX}max.moves")
        assert limit is None or now["moves"] <= max(limit, then["moves"])
        better += now["topic excess"] < then["topic excess"]
    assert better > 15
