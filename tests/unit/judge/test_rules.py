"""Each rule with its own example, and records made with other numbers than the problem's."""

from __future__ import annotations

import numpy as np
import pytest

import partage as pg
from partage.judge import Breach, BreachKind
from partage.model import Role

CLUSTER = pg.Cluster.from_topics({"a": 2, "b": 1})
GROUP = pg.Group([pg.Member("m", ["a"]), pg.Member("n", ["a", "b"])])
VALID = {"m": [("a", 0)], "n": [("a", 1), ("b", 0)]}


def check(owned, **more):
    return pg.check(pg.Assignment.of(CLUSTER.index, owned), GROUP, CLUSTER, **more)


def test_a_valid_assignment_has_no_breach():
    """Complete, subscribed, once each."""
    assert check(VALID) == []


@pytest.mark.parametrize(
    ("changes", "breach", "text"),
    [
        ({"x": []}, Breach(BreachKind.UNKNOWN_MEMBER, "x"), "x has an entry but is not in the group"),
        ({"x": [("c", 0)]}, Breach(BreachKind.UNKNOWN_TOPIC, "x", "c", 0), "no such topic"),
        ({"m": [("a", 0), ("a", 2)]}, Breach(BreachKind.UNKNOWN_PARTITION, "m", "a", 2), "no such partition"),
        ({"m": [("a", 0), ("a", -1)]}, Breach(BreachKind.UNKNOWN_PARTITION, "m", "a", -1), "a--1"),
        ({"m": [("a", 0), ("b", 0)]}, Breach(BreachKind.UNSUBSCRIBED, "m", "b", 0), "without subscribing to b"),
        ({"m": [("a", 0), ("a", 0)]}, Breach(BreachKind.LISTED_TWICE, "m", "a", 0), "more than once"),
        ({"m": [("a", 0), ("a", 1)]}, Breach(BreachKind.TWO_OWNERS, "n", "a", 1), "another owner besides n"),
        ({"m": []}, Breach(BreachKind.NO_OWNER, None, "a", 0), "a-0 has subscribers but no owner"),
    ],
)  # fmt: skip
def test_each_rule(changes, breach, text):
    """The breach names member, topic and partition, as values and in words."""
    found = check(VALID | changes)
    assert breach in found
    assert text in str(breach)
    also = {BreachKind.UNKNOWN_MEMBER, BreachKind.TWO_OWNERS}
    assert {b.kind for b in found} - also == {breach.kind} - also


def test_a_member_without_entry():
    """The entry must be there even when it would be empty."""
    assert check({"n": [("a", 0), ("a", 1), ("b", 0)]}) == [Breach(BreachKind.MISSING_MEMBER, "m")]


def test_a_member_with_two_entries():
    """Possible in arrays, not in a mapping."""
    plan = pg.Assignment.from_lists(CLUSTER.index, ["m", "n", "m"], [[0], [1, 2], []])
    assert pg.check(plan, GROUP, CLUSTER) == [Breach(BreachKind.REPEATED_MEMBER, "m")]


def test_numbers_that_no_index_has():
    """Arrays made by hand may hold anything."""
    plan = pg.Assignment.from_lists(CLUSTER.index, ["m", "n"], [[0], [1, 2, 99, -5]])
    assert [str(b.partition) for b in pg.check(plan, GROUP, CLUSTER)] == ["99", "-5"]


def test_roles_decide_who_owns():
    """Standby copies are no second owner; a member that still releases is one."""

    def with_role(role):
        plan = pg.Assignment.from_lists(CLUSTER.index, ["m", "n"], [[0, 1], [1, 2]])
        plan.role[1] = role
        return [b.kind for b in pg.check(plan, GROUP, CLUSTER)]

    assert with_role(Role.STANDBY) == []
    assert with_role(Role.WARM_UP) == []
    assert with_role(Role.RELEASING) == [BreachKind.TWO_OWNERS]
    assert with_role(Role.OWNER) == [BreachKind.TWO_OWNERS]


def test_releasing_a_topic_that_one_no_longer_subscribes_to():
    """That is what releasing is for."""
    plan = pg.Assignment.from_lists(CLUSTER.index, ["m", "n"], [[0, 2], [1]])
    assert [b.kind for b in pg.check(plan, GROUP, CLUSTER)] == [BreachKind.UNSUBSCRIBED]
    plan.role[1] = Role.RELEASING
    assert pg.check(plan, GROUP, CLUSTER) == []


def test_share_groups_have_several_owners():
    """By option; listing one partition twice stays wrong."""
    owned = {"m": [("a", 0), ("a", 1), ("a", 1)], "n": [("a", 1), ("b", 0)]}
    assert [b.kind for b in check(owned, several_owners=True)] == [BreachKind.LISTED_TWICE]


def test_a_plan_in_other_numbers_is_translated():
    """Topics in another order: the same names mean the same partitions."""
    other = pg.Cluster.from_topics({"b": 1, "z": 4, "a": 2})
    plan = pg.Assignment.of(other.index, VALID)
    assert pg.check(plan, GROUP, CLUSTER) == []
    larger = pg.Cluster.from_topics({"b": 1, "a": 5})
    beyond = pg.Assignment.of(larger.index, VALID | {"m": [("a", 0), ("a", 4)]})
    assert pg.check(beyond, GROUP, CLUSTER) == [Breach(BreachKind.UNKNOWN_PARTITION, "m", "a", 4)]
    strange = pg.Assignment.of(other.index, VALID | {"n": [("a", 1), ("b", 0), ("z", 3)]})
    assert pg.check(strange, GROUP, CLUSTER) == [Breach(BreachKind.UNKNOWN_TOPIC, "n", "z", 3)]


def _made_anew():
    """Topic t of 2 partitions, deleted and made anew with 1."""

    def cluster(index, topic_id, count):
        row = {
            "id": topic_id,
            "partitions": [{"p": p, "leader": 1, "replicas": [1]} for p in range(count)],
        }
        return pg.Cluster.from_metadata({"t": row}, [{"id": 1, "rack": None}], index)

    index = pg.Index.of([("t", "old", 2), ("t", "new", 1)])
    return cluster(index, "old", 2), cluster(index, "new", 1)


def test_a_topic_made_anew_is_another_topic():
    """What the old topic's partitions were is gone, although the name is the same."""
    old, new = _made_anew()
    group = pg.Group([pg.Member("m", ["t"])])
    number = {"t": old.topic("t")}
    plan = pg.Assignment.of(old.index, {"m": {"t": [0, 1]}}, number)
    assert pg.check(plan, group, old) == []
    kinds = [b.kind for b in pg.check(plan, group, new)]
    assert kinds == [BreachKind.UNKNOWN_TOPIC, BreachKind.UNKNOWN_TOPIC, BreachKind.NO_OWNER]


def test_a_hundred_thousand_partitions_are_checked_at_once():
    """The rules run on arrays: ten checks of a large plan in under ten seconds."""
    import time

    cluster = pg.Cluster.from_topics({f"t{i}": 100 for i in range(1000)})
    topics = list(cluster.index.topics)
    group = pg.Group([pg.Member(f"m{i}", topics) for i in range(100)])
    owner = (np.arange(100_000) % 100).astype(np.int32)
    plan = pg.Plan.from_owner(cluster.index, group.ids, owner)
    began = time.thread_time()
    assert all(pg.check(plan, group, cluster) == [] for _ in range(10))
    assert time.thread_time() - began < 10
