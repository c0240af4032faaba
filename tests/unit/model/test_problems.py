"""Clusters, groups and plans: what is read, what is refused, what is kept as sent."""

from __future__ import annotations

import json

import numpy as np
import pytest

from partage import kernels
from partage.errors import InvalidProblemError, PlanInvariantError
from partage.model import Assignment, Broker, Claims, Cluster, Group, Index, Member, Plan, Problem
from partage.model.assignment import fill_owners

METADATA = {
    "topics": {
        "grown": {
            "id": "g",
            "partitions": [
                {"p": 1, "leader": 2, "replicas": [2, 9], "isr": [2]},
                {"p": 0, "leader": -1, "replicas": [1], "isr": []},
            ],
        }
    },
    "brokers": [{"id": 1, "rack": "a"}, {"id": 2, "rack": None}],
}


def test_claims_keep_order_and_duplicates():
    """Kafka's answer depends on the order and the duplicates of a claim."""
    pairs = [("b", 1), ("a", 0), ("b", 1)]
    assert list(Claims.from_owned(pairs)) == pairs
    assert list(Claims.from_owned({"b": np.array([3, 1], np.int32)})) == [("b", 3), ("b", 1)]
    assert list(Claims.from_owned(np.array([["a", 2]], object))) == [("a", 2)]


def test_equal_subscriptions_are_one_object():
    """A thousand members with the same topics share one subscription."""
    group = Group(Member(f"m{i}", ["a", "b"]) for i in range(1000))
    assert len(group.subscriptions) == 1
    assert group.subscription_of.tolist() == [0] * 1000


def test_a_broker_that_is_down_has_no_rack():
    """Its replicas are still listed, on a broker whose rack nobody knows."""
    cluster = Cluster.from_metadata(**METADATA)
    assert cluster.brokers == (Broker(1, "a"), Broker(2), Broker(9))
    assert cluster.racks_of(0) == ("a",)
    assert cluster.racks_of(1) == ()
    assert cluster.leader.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("partitions", "racks", "path"),
    [
        ({-1: []}, {}, "topics.t.partitions[0].p"),
        ({True: []}, {}, "topics.t.partitions[0]"),
        ({0: [1.5]}, {}, "topics.t.partitions[0]"),
        ({16_000_001: []}, {}, "topics.t.partitions[0].p"),
        ({16_000_000: []}, {}, "topics.t"),
        ({0: [1]}, {"1": None}, "brokers[0].id"),
        ({0: [1]}, {1: 7}, "brokers[0].rack"),
    ],
)
def test_wrong_metadata_of_a_client_are_named_with_their_path(partitions, racks, path):
    """Columns that hold a wrong value give the error of the row that has it."""
    with pytest.raises(InvalidProblemError) as error:
        Cluster.from_replicas({"t": partitions}, racks)
    assert error.value.path == path


def test_of_a_partition_that_is_listed_twice_the_last_row_counts():
    """Brokers are numbered in the order in which rows name them."""
    rows = [{"p": 0, "replicas": [8, 7]}, {"p": 1, "leader": 6, "replicas": [6]},
            {"p": 0, "replicas": [5]}]  # fmt: skip
    cluster = Cluster.from_metadata({"t": {"partitions": rows}}, [{"id": 7}])
    assert [broker.id for broker in cluster.brokers] == [7, 8, 6, 5]
    assert (cluster.replica.tolist(), cluster.leader.tolist()) == ([3, 2], [-1, 2])


def test_a_cluster_is_a_mask_over_the_history():
    """With the numbering of a whole history, only what exists now is listed."""
    index = Index.of([("old", "o", 2), ("grown", "g", 5)])
    cluster = Cluster.from_metadata(**METADATA, index=index)
    assert cluster.topic("old") == -1
    assert cluster.partitions_of("grown").tolist() == [2, 3]
    assert cluster.partition_exists.tolist() == [False, False, True, True, False, False, False]


def test_claims_are_resolved_once():
    """Unknown topics and partitions that the cluster lacks become -1, in their place."""
    group = Group([Member("m", ["t"], owned=[("t", 1), ("t", 7), ("gone", 0), ("t", 0)])])
    start, claimed = Problem(group, Cluster.from_topics({"t": 2})).claims
    assert start.tolist() == [0, 4]
    assert claimed.tolist() == [1, -1, -1, 0]


def test_what_the_index_does_not_have_is_kept_as_unresolved():
    """A log may record partitions nobody knows; they stay with their names."""
    got = Assignment.of(Index.of({"t": 1}), {"m": [("t", 0), ("t", 1), ("u", 0)]})
    assert got.partition.tolist() == [0]
    assert [(u.topic, u.partition) for u in got.unresolved] == [("t", 1), ("u", 0)]


def test_a_plan_has_at_most_one_owner_a_partition():
    """Two owners make an Assignment, never a Plan."""
    index = Index.of({"t": 1})
    twice = {"a": {"t": [0]}, "b": {"t": [0]}}
    assert Assignment.of(index, twice).partition.tolist() == [0, 0]
    with pytest.raises(PlanInvariantError, match="t-0 is owned twice"):
        Plan.of(index, twice)


@pytest.mark.parametrize("how", ["interpreted", "compiled"])
def test_owners_do_not_depend_on_the_kernel(how):
    """Owners are equal with and without the compiled kernel, and wrong arrays never reach it."""
    if how == "compiled":
        pytest.importorskip("numba", reason="numba (the extra `fast`) is not installed")
        fill_owners.compile()
    index, ids = Index.of({"t": 3}), ("a", "b")
    role = np.zeros(3, np.int8)

    def owner(start, partition):
        return Plan(index, ids, np.array(start, np.int32), partition, role).owner.tolist()

    with kernels.force_kernel_form(how):
        assert owner([0, 2, 3], np.array([2, 0, 1], np.int32)) == [0, 1, 0]
        assert owner([0, 2, 3], np.array([2, 0, 1])) == [0, 1, 0]  # another type of integer
        with pytest.raises(IndexError):
            owner([0, 2, 3], np.array([2, 0, 3], np.int32))
        with pytest.raises(ValueError, match="shape"):
            owner([0, 2, 9], np.array([2, 0, 1], np.int32))
        with pytest.raises(PlanInvariantError, match="t-1 is owned twice"):
            owner([0, 2, 3], np.array([1, 0, 1], np.int32))


def test_an_owner_view_goes_both_ways():
    """From owners to lists and back nothing is lost, nobody's partitions stay -1."""
    index = Index.of({"t": 4})
    plan = Plan.from_owner(index, ("a", "b", "c"), np.array([2, -1, 0, 2], np.int32))
    assert plan.to_dict() == {"a": {"t": [2]}, "b": {}, "c": {"t": [0, 3]}}
    assert plan.owner.tolist() == [2, -1, 0, 2]


@pytest.mark.parametrize(
    ("problem", "path"),
    [
        ("", "problem"),
        ("[]", "problem"),
        ("{}", "topics"),
        ('{"topics": []}', "topics"),
        ('{"topics": {"t": 1, "t": 2}, "members": []}', "problem"),
        ('{"topics": {}, "members": [{"id": "a", "id": "b"}]}', "problem"),
        ('{"topics": {"t": -1}}', "topics.t"),
        ('{"topics": {"t": true}}', "topics.t"),
        ('{"topics": {"t": 1e3}}', "topics.t"),
        ('{"topics": {"t": 999999999999}}', "topics.t"),
        ('{"topics": {"t": [["a", 3]]}}', "topics.t[0][1]"),
        ('{"topics": {"t": ["a"]}}', "topics.t[0]"),
        ('{"topics": {}}', "members"),
        ('{"topics": {}, "members": {}}', "members"),
        ('{"topics": {}, "members": [{}]}', "members[0].id"),
        ('{"topics": {}, "members": [{"id": 3}]}', "members[0].id"),
        ('{"topics": {}, "members": [{"id": "m", "topics": "t"}]}', "members[0].topics"),
        ('{"topics": {}, "members": [{"id": "m", "topics": [1]}]}', "members[0].topics[0]"),
        ('{"topics": {}, "members": [{"id": "m", "rack": 1}]}', "members[0].rack"),
        ('{"topics": {}, "members": [{"id": "m", "instanceId": "i"}]}', "members[0].instanceId"),
        ('{"topics": {}, "members": [{"id": "m", "owned": 0}]}', "members[0].owned"),
        ('{"topics": {}, "members": [{"id": "m", "owned": [["t"]]}]}', "members[0].owned[0]"),
        ('{"topics": {}, "members": [{"id": "m", "owned": [["t", 4294967296]]}]}', "members[0].owned"),
        ('{"topics": {}, "members": [{"id": "m", "generation": "1"}]}', "members[0].generation"),
        ('{"topics": {}, "members": [{"id": "m", "userData": "?"}]}', "members[0].userData"),
        ('{"topics": {}, "members": [{"id": "m", "weight": -1}]}', "members[0].weight"),
        ('{"topics": {}, "members": [{"id": "m"}, {"id": "m"}]}', "members[1].id"),
    ],
)  # fmt: skip
def test_malformed_problems_are_named_with_their_path(problem, path):
    """Each error says where the value stands that must be mended."""

    def read():
        Cluster.from_json(problem)
        Group.from_json(problem)

    with pytest.raises(InvalidProblemError) as error:
        read()
    assert error.value.path == path


def test_a_problem_is_read_from_text_mapping_and_path(tmp_path):
    """The three forms give the same."""
    text = json.dumps({"topics": {"t": 2}, "members": [{"id": "m", "topics": ["t"], "rack": ""}]})
    path = tmp_path / "problem.json"
    path.write_text(text)
    for form in (text, text.encode(), json.loads(text), path):
        assert Cluster.from_json(form).index.partitions == 2
        assert Group.from_json(form) == Group([Member("m", ["t"], rack="")])


def test_a_path_that_cannot_be_read_is_our_error(tmp_path):
    """A missing file is named; no traceback of the standard library."""
    with pytest.raises(InvalidProblemError, match="cannot be read"):
        Cluster.from_json(tmp_path / "missing.json")
