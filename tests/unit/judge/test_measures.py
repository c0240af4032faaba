"""The figures in the documents' own scenarios, and each figure's edges."""

from __future__ import annotations

import numpy as np
import pytest

import partage as pg
from partage.errors import InvalidProblemError
from partage.solve.assignment import fewest_moves

AB = pg.Cluster.from_topics({"A": 2, "B": 2})


def group(*members):
    return pg.Group([pg.Member(m, [*topics]) for m, topics in members])


def test_range_leaves_one_of_three_idle():
    """A and B of 2 partitions, C1 to C3: range gives each topic to C1 and C2 alone."""
    three = group(("C1", "AB"), ("C2", "AB"), ("C3", "AB"))
    plan = pg.Plan.of(AB.index, {"C1": {"A": [0], "B": [0]}, "C2": {"A": [1], "B": [1]}, "C3": {}})
    m = pg.measure(plan, three, AB)
    assert (m.spread, m.idle, m.largest, m.smallest) == (2, 1, 2, 0)
    assert (m.best_spread, m.best_largest, m.best_smallest) == (1, 2, 1)
    assert m.colocation == 1.0


def test_round_robin_after_a_member_left_moves_three_where_one_would_do():
    """C2 leaves: A-1 must go somewhere, but B-0 and B-1 trade places: 2 avoidable."""
    first = {"C1": [("A", 0), ("B", 1)], "C2": [("A", 1)], "C3": [("B", 0)]}
    then = {"C1": [("A", 0), ("B", 0)], "C3": [("A", 1), ("B", 1)]}
    previous = pg.Plan.of(AB.index, first)
    two = group(("C1", "AB"), ("C3", "AB"))
    m = pg.measure(pg.Plan.of(AB.index, then), two, AB, previous=previous)
    assert (m.moved, m.avoidable, m.fewest_moves_to_best) == (3, 2, 1)
    # From the members' claims alone nobody knows that A-1 was owned.
    claiming = pg.Group([x.replaced(owned=first[x.id]) for x in two])
    m = pg.measure(pg.Plan.of(AB.index, then), claiming, AB)
    assert (m.moved, m.avoidable, m.fewest_moves_to_best) == (2, 2, 0)


def test_moves_that_buy_evenness_are_not_avoidable():
    """A newcomer gets half: the moves that no equally even plan can do without."""
    members = pg.Group([
        pg.Member("old", [*"AB"], owned={"A": [0, 1], "B": [0, 1]}), pg.Member("new", [*"AB"]),
    ])  # fmt: skip
    even = pg.Plan.of(AB.index, {"old": {"A": [0, 1]}, "new": {"B": [0, 1]}})
    same = pg.Plan.of(AB.index, {"old": {"A": [0, 1], "B": [0, 1]}, "new": {}})
    m = pg.measure(even, members, AB)
    assert (m.moved, m.avoidable, m.spread) == (2, 0, 0)
    m = pg.measure(same, members, AB)
    assert (m.moved, m.avoidable, m.spread, m.fewest_moves_to_best) == (0, 0, 4, 2)


def test_the_highest_generation_owns():
    """An older claim to the same partition does not count; equal ones both do."""
    plan = pg.Plan.of(AB.index, {"x": {"A": [0]}, "y": {"A": [1], "B": [0, 1]}})

    def moved(x, y):
        owned = {"A": [0], "B": [0]}
        return pg.measure(plan, pg.Group([
            pg.Member("x", [*"AB"], owned=owned, generation=x), pg.Member("y", [*"AB"], owned=owned, generation=y),
        ]), AB).moved  # fmt: skip

    assert moved(5, 4) == 1  # B-0 was x's
    assert moved(4, 5) == 1  # A-0 was y's
    assert moved(5, 5) == moved(-1, -7) == 0


def test_claims_to_what_is_gone_do_not_count():
    """Unknown topics and partitions, and topics that nobody wants any more: nothing moves."""
    claims = {"A": [7], "gone": [0], "B": [0]}
    members = pg.Group([pg.Member("m", ["A"], owned=claims), pg.Member("n", ["A"])])
    m = pg.measure(pg.Plan.of(AB.index, {"m": {"A": [0]}, "n": {"A": [1]}}), members, AB)
    assert (m.moved, m.avoidable) == (0, 0)


def test_members_without_a_partition_to_want_do_not_count():
    """Spread and idleness are about members who could have some."""
    members = group(("m", ["A"]), ("n", ["nothing"]), ("o", []))
    m = pg.measure(pg.Plan.of(AB.index, {"m": {"A": [0, 1]}, "n": {}, "o": {}}), members, AB)
    assert (m.spread, m.idle, m.best_spread) == (0, 0, 0)
    nobody = pg.measure(pg.Plan.of(AB.index, {"n": {}}), group(("n", ["nothing"])), AB)
    assert (nobody.spread, nobody.largest, nobody.best_spread) == (None, None, None)
    assert (nobody.moved, nobody.avoidable, nobody.colocation) == (0, 0, None)


def test_a_record_that_breaks_rules_has_no_avoidable_moves():
    """Unowned, owned twice, or owned by a stranger: figures there are, a comparison there is not."""
    two = group(("m", "AB"), ("n", "AB"))
    rows = [
        ({"m": {"A": [0, 1], "B": [0]}, "n": {}}, 1, 3),
        ({"m": {"A": [0, 1], "B": [0, 1]}, "n": {"B": [1]}}, 0, 4),
        ({"m": {"A": [0, 1], "B": [0]}, "x": {"B": [1]}}, 1, 3),
    ]
    for owned, unowned, owners in rows:
        m = pg.measure(pg.Assignment.of(AB.index, owned), two, AB)
        assert (m.avoidable, m.unowned, m.partitions) == (None, unowned, owners)
        assert m.best_spread == 0


def test_racks():
    """Only owners with a rack, and partitions with replicas on known racks, can mismatch."""
    cluster = pg.Cluster.from_topics({"t": [["r1", "r2"], ["r2"], [None], [], ["r1"]]})

    def mismatches(rack):
        owner = pg.Plan.from_owner(cluster.index, ["m"], np.zeros(5, np.int32))
        return pg.measure(
            owner, pg.Group([pg.Member("m", ["t"], rack=rack)]), cluster
        ).rack_mismatches

    assert [mismatches(r) for r in ("r1", "r2", "elsewhere", "", None)] == [1, 1, 3, 0, 0]


def test_colocation_needs_topics_alike():
    """Same numbers of partitions and same subscribers; otherwise there is no such figure."""
    cluster = pg.Cluster.from_topics({"a": 2, "b": 2, "c": 3, "d": 2})
    members = group(("m", "abc"), ("n", "abcd"))
    plan = {"m": {"a": [0, 1], "b": [0]}, "n": {"b": [1], "c": [0, 1, 2], "d": [0, 1]}}
    assert pg.measure(pg.Plan.of(cluster.index, plan), members, cluster).colocation == 0.5
    alone = pg.Cluster.from_topics({"a": 2, "c": 3})
    plan = {"m": {"a": [0, 1]}, "n": {"c": [0, 1, 2]}}
    assert (
        pg.measure(pg.Plan.of(alone.index, plan), group(("m", "ac"), ("n", "ac")), alone).colocation
        is None
    )


def test_weights():
    """The spread of weighted loads, by partitions' and by members' weights."""
    members = pg.Group(
        [
            pg.Member("m", [*"AB"]),
            pg.Member("n", [*"AB"], weight=2.0),
            pg.Member("o", [*"AB"], weight=0),
        ]
    )
    plan = pg.Plan.of(AB.index, {"m": {"A": [0]}, "n": {"A": [1], "B": [0]}, "o": {"B": [1]}})
    assert pg.measure(plan, members, AB).load_spread == 0.0
    assert pg.measure(plan, members, AB, partition_weight=[1, 5, 1, 9]).load_spread == 2.0
    ordinary = pg.Group([m.replaced(weight=1.0) for m in members])
    assert pg.measure(plan, ordinary, AB).load_spread is None
    for wrong in ([1, 2], [1, 2, 3, -1], [1, 2, 3, float("nan")]):
        with pytest.raises(InvalidProblemError, match="partition_weight"):
            pg.measure(plan, members, AB, partition_weight=wrong)


def test_what_is_too_large_is_said(monkeypatch):
    """The other figures are there; the missing ones are None, and the reason is given."""
    monkeypatch.setattr(fewest_moves, "LARGEST_NETWORK", 1)
    two = group(("m", "AB"), ("n", "AB"))
    m = pg.measure(pg.Plan.of(AB.index, {"m": {"A": [0, 1]}, "n": {"B": [0, 1]}}), two, AB)
    assert (m.spread, m.best_spread, m.avoidable, m.fewest_moves_to_best) == (0, 0, None, None)
    assert "limit is 1" in m.refused


def test_without_optimum():
    """Counting only: no search, no figures that need one."""
    two = group(("m", "AB"), ("n", "AB"))
    plan = pg.Plan.of(AB.index, {"m": {"A": [0, 1]}, "n": {"B": [0, 1]}})
    m = pg.measure(plan, two, AB, optimum=False)
    assert (m.spread, m.best_spread, m.avoidable, m.refused) == (0, None, None, None)


def test_as_a_mapping():
    """Names and figures for tables, in a fixed order."""
    plan = pg.Plan.of(AB.index, {"m": {"A": [0, 1], "B": [0, 1]}})
    row = pg.measure(plan, group(("m", "AB")), AB).to_dict()
    assert list(row)[:5] == ["partitions", "unowned", "largest", "smallest", "spread"]
    assert (row["partitions"], row["best_spread"], row["refused"]) == (4, 0, None)


def test_a_history_with_holes():
    """Partitions that the index has but the cluster no longer: nobody need own them."""
    index = pg.Index.of([("t", "old", 3), ("t", "new", 2)])
    row = {"id": "new", "partitions": [{"p": p, "leader": 1, "replicas": [1]} for p in (0, 1)]}
    cluster = pg.Cluster.from_metadata({"t": row}, [{"id": 1, "rack": "r"}], index)
    members = pg.Group([pg.Member("m", ["t"], owned={"t": [0, 1]}), pg.Member("n", ["t"])])
    plan = pg.Plan.from_owner(index, members.ids, np.array([-1, -1, -1, 1, 0], np.int32))
    assert pg.check(plan, members, cluster) == []
    m = pg.measure(plan, members, cluster)
    assert (m.spread, m.moved, m.avoidable, m.best_spread) == (0, 1, 0, 0)
