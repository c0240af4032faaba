"""Groups that live on: what each change moves, and the documents' stories."""

from __future__ import annotations

import random

import pytest

import partage as pg
from partage.groups.rounds import Join, Leave, Metadata, Subscribe, play
from partage.testing import cluster, group

BOTH = ["sticky", "cooperative-sticky"]


def test_when_c2_leaves_only_what_it_had_moves() -> None:
    """KIP-54's story: round robin moves B-0 and B-1 as well, sticky gives A-1 to C3, no more."""
    changes = [Join(*group("C1: A B | C2: A B | C3: A B")), Leave("C2")]
    first, second = play("sticky", cluster("A×2 B×2"), changes)
    assert first.plan.to_dict() == {"C1": {"A": [0], "B": [1]}, "C2": {"A": [1]}, "C3": {"B": [0]}}
    assert second.moved == (("A", 1),)
    assert second.owner["A", 1] == "C3"
    _, robin = play("roundrobin", cluster("A×2 B×2"), changes)
    assert len(robin.moved) == 3


def test_cooperative_takes_two_phases_to_give_a_newcomer_its_share() -> None:
    """First what it will get is with nobody, then it is with the newcomer; the rest stays."""
    changes = [Join(*group("a: t | b: t")), Join(*group("c: t"))]
    first, phase, after = play("cooperative-sticky", cluster("t×6"), changes)
    assert first.plan.to_dict() == {"a": {"t": [0, 2, 4]}, "b": {"t": [1, 3, 5]}}
    assert phase.plan.to_dict() == {"a": {"t": [0, 2]}, "b": {"t": [1, 3]}, "c": {}}
    assert phase.moved == (("t", 4), ("t", 5))
    assert after.change is None
    assert after.plan.to_dict() == {"a": {"t": [0, 2]}, "b": {"t": [1, 3]}, "c": {"t": [4, 5]}}
    assert after.generation == 3


@pytest.mark.parametrize("strategy", BOTH)
def test_nothing_moves_when_nothing_changed(strategy) -> None:
    """The same members on the same topics, once more and once more."""
    where = cluster("t1×5 t2×7 t3×1")
    members = group("a: t1 t2 | b: t2 t3 | c: t1 t2 t3")
    rounds = play(strategy, where, [Join(*members), Metadata(where), Metadata(where)])
    assert [one.moved for one in rounds] == [(), (), ()]


@pytest.mark.parametrize("strategy", BOTH)
def test_one_two_four_two_members(strategy) -> None:
    """Kafka's own scenario: each of two topics with 12 partitions is shared evenly throughout."""
    where = cluster("topic1×12 topic2×12")
    names = ["topic1", "topic2"]
    join = [Join(pg.Member("c1", names)), Join(pg.Member("c2", names))]
    four = Join(pg.Member("c3", names), pg.Member("c4", names))
    rounds = play(strategy, where, [*join, four, Leave("c1", "c2")])
    by_members = {len(one.plan.to_dict()): one.plan.to_dict() for one in rounds[:-1]}
    by_members["again 2"] = rounds[-1].plan.to_dict()
    for members, each in ((1, 12), (2, 6), (4, 3), ("again 2", 6)):
        for mine in by_members[members].values():
            assert {t: len(p) for t, p in mine.items()} == {"topic1": each, "topic2": each}


@pytest.mark.parametrize("strategy", BOTH)
def test_topics_grow_and_vanish_and_subscriptions_change(strategy) -> None:
    """Only new partitions are assigned; deleted ones no longer have an owner."""
    rounds = play(
        strategy,
        cluster("t×2"),
        [
            Join(*group("a: t u | b: t u")),
            Metadata(cluster("t×4")),
            Metadata(cluster("t×4 u×2")),
            Metadata(cluster("u×2")),
            Subscribe("b", ["t"]),
        ],
    )
    assert all(not one.moved for one in rounds[:3])
    assert sorted(rounds[2].owner) == [("t", 0), ("t", 1), ("t", 2), ("t", 3), ("u", 0), ("u", 1)]
    assert set(rounds[-1].owner.values()) == {"a"}


@pytest.mark.parametrize("strategy", BOTH)
def test_a_week_of_a_group(strategy) -> None:
    """200 changes: always valid and balanced, and few partitions move when one comes or goes."""
    rng = random.Random(2026)
    where = cluster("orders×24 clicks×31 audit×3")
    names = ["orders", "clicks", "audit"]
    here = [f"m{i}" for i in range(8)]
    changes = [Join(*(pg.Member(m, names) for m in here))]
    for i in range(200):
        if len(here) > 3 and rng.random() < 0.5:
            here.remove(gone := rng.choice(here))
            changes.append(Leave(gone))
        else:
            here.append(f"n{i}")
            changes.append(Join(pg.Member(f"n{i}", names)))
    for one in play(strategy, where, changes):
        breaches = pg.check(one.plan, one.group, one.cluster)
        loads = [sum(map(len, mine.values())) for mine in one.plan.to_dict().values()]
        if one.change is None or strategy == "sticky":
            assert not breaches
            assert max(loads) - min(loads) <= 1
        if isinstance(one.change, Leave):
            lost = [p for p, was in one.before.items() if was in one.change.ids]
            assert set(lost) <= set(one.moved)
            assert len(one.moved) <= len(lost) + len(loads)


def test_who_is_not_there_cannot_leave() -> None:
    """The change is named; joining twice is refused as well."""
    where = cluster("t×1")
    with pytest.raises(pg.InvalidProblemError, match=r"no such member.*'x'"):
        play("sticky", where, [Leave("x")])
    with pytest.raises(pg.InvalidProblemError, match=r"already in the group.*'a'"):
        play("sticky", where, [Join(pg.Member("a", ["t"])), Join(pg.Member("a", ["t"]))])
    assert play("sticky", where, [Join(pg.Member("a", ["t"])), Leave("a")])[0].generation == 1


def test_contradictory_claims_of_a_refused_round_are_shown_once() -> None:
    """Librdkafka has no plan for these claims: the newest claim is shown, with a warning."""
    members = [
        pg.Member("c0", ["t0"], owned={"t0": [3, 2, 0, 1, 4]}, generation=2),
        pg.Member("c1", ["t2"], owned={"t2": [2, 1, 0, 4]}, generation=2),
        pg.Member("c2", ["t2", "t1"], owned={"t2": [3], "t1": [1, 0]}, generation=2),
        pg.Member(
            "c3", ["t2", "t0", "t1"], owned={"t0": [4], "t1": [0], "t2": [0, 1, 2, 4]}, generation=5
        ),
    ]
    one = play("librdkafka:cooperative-sticky", cluster("t0×5 t1×2 t2×5"), [Join(*members)])[0]
    assert one.refused
    assert one.plan.to_dict()["c0"] == {"t0": [3, 2, 0, 1]}
    assert one.plan.to_dict()["c3"] == {"t0": [4], "t1": [0], "t2": [0, 1, 2, 4]}
    assert one.plan.warnings[1] == (
        "t0-4, t1-0, t2-0, t2-1, t2-2 and 1 more: claimed by several members, shown with the newest"
        " claim"
    )
    assert one.unowned == ()
