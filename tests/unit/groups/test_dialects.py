"""Assignors of other clients: where each differs from Java's, and the recorded plans."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.captured import clusters, generations, group_records

import partage as pg
from partage.groups import registry
from partage.groups.dialects import PeerAssignorError
from partage.groups.dialects.user_data import decode_claims, encode_claims
from partage.history.agreement import check_agreement
from partage.history.clients import candidate_strategies, leader_client
from partage.model import Cluster, Group, Member, Problem

DIALECTS = [name for name in registry.strategies() if registry.is_dialect(name)]


def plan(name, members, topics):
    return registry.find(name).assign(Problem(Group(members), Cluster.from_topics(topics)))


def test_fourteen_dialects_are_registered_and_none_is_a_contestant() -> None:
    """Compare and replay run dialects only by name; each is exact to a client's release."""
    assert len(DIALECTS) == 14
    assert not set(DIALECTS) & set(registry.strategies_to_compare())
    assert all(registry.find(name).exact_to for name in DIALECTS)
    assert all(registry.find(name).name == name for name in DIALECTS)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_plain_group_has_a_valid_plan(name) -> None:
    """Three members on two topics: the judge finds no violation."""
    group = Group([Member(m, ["a", "b"]) for m in ("x", "y", "z")])
    cluster = Cluster.from_topics({"a": 4, "b": 6})
    made = pg.assign(name, group, cluster)
    assert pg.check(made, group, cluster) == []
    assert list(made.to_dict()) == ["x", "y", "z"]


def test_kafka_python_forgets_members_of_earlier_runs() -> None:
    """Static, dynamic, static in join order: only the last of the static ones gets partitions."""
    members = [
        Member("a", ["t"], instance_id="1"),
        Member("b", ["t"]),
        Member("c", ["t"], instance_id="0"),
    ]
    assert plan("kafka-python:range", members, {"t": 3}).to_dict() == {
        "a": {},
        "b": {"t": [2]},
        "c": {"t": [0, 1]},
    }


def test_kafka_pythons_roundrobin_cannot_skip() -> None:
    """Unequal subscriptions: the class raises KeyError, so there is no plan."""
    members = [Member("a", ["t"]), Member("b", ["u"])]
    with pytest.raises(PeerAssignorError, match="cannot skip") as caught:
        plan("kafka-python:roundrobin", members, {"t": 1, "u": 2})
    assert caught.value.peer_exception == "KeyError"


def test_a_topic_named_twice_costs_a_slice() -> None:
    """Both Python clients leave the first range without owner; librdkafka makes one range."""
    members = [Member("a", ["t", "t"]), Member("b", ["t"])]
    for name in ("kafka-python:range", "aiokafka:range"):
        assert plan(name, members, {"t": 3}).to_dict() == {"a": {"t": [1]}, "b": {"t": [2]}}
    assert plan("librdkafka:range", members, {"t": 3}).to_dict()["a"] == {"t": [0, 1]}


def test_the_python_clients_do_not_read_each_others_user_data() -> None:
    """kafka-python writes the version first, so neither client reads the other's claims."""
    owned = [("t", 1), ("u", 0), ("t", 0)]
    for first in (True, False):
        data = encode_claims(owned, 7, version_first=first)
        assert decode_claims(data, version_first=first) == ([("t", 1), ("t", 0), ("u", 0)], 7)
        assert decode_claims(data, version_first=not first) == ([], -1)


@pytest.mark.parametrize(
    "data", [b"\0", b"\xff\xff\0\0\0\0", b"\0\1\x7f\xff\xff\xff", b"\0\1\0\0\0\1\0\1\xff\0\0\0\0"]
)
def test_unreadable_user_data_claims_nothing(data) -> None:
    """Too few bytes, a negative version, a wrong count, a name that is no UTF-8."""
    assert decode_claims(data, version_first=True) == ([], -1)


def test_a_null_list_of_claims_is_an_error_as_in_the_class() -> None:
    """The class decodes null and then raises TypeError in its loop over the list."""
    with pytest.raises(PeerAssignorError) as caught:
        decode_claims(b"\0\1\xff\xff\xff\xff\0\0\0\5", version_first=True)
    assert caught.value.peer_exception == "TypeError"


@pytest.mark.parametrize("name", ["kafka-python:sticky", "aiokafka:sticky"])
def test_a_member_sends_its_assignment_and_keeps_it(name) -> None:
    """Assignment to memory to user data to claim: the group is unchanged, so nothing moves."""
    strategy = registry.find(name)
    members = [Member("a", ["t"]), Member("b", ["t"])]
    first = plan(name, members, {"t": 5})
    assert strategy.subscription_user_data(["t"]) == b""
    again = []
    for i, member in enumerate(members):
        part = pg.Assignment.from_lists(first.index, (member.id,), [first.partitions_of(i)])
        memory = strategy.on_assignment(part, None, 3)
        again.append(member.replaced(user_data=strategy.subscription_user_data(["t"], memory)))
    assert plan(name, again, {"t": 5}).to_dict() == first.to_dict()


def test_librdkafka_lists_a_topic_twice_and_returns_claims_of_deleted_topics() -> None:
    """Partitions that stay come first, new ones after them; claims of a deleted topic return."""
    members = [
        Member("a", ["t", "u"], owned=[("u", 0), ("gone", 4)], generation=2, rack=""),
        Member("b", ["t", "u"], owned=[("t", 0)], generation=2, rack=""),
    ]
    made = plan("librdkafka:cooperative-sticky", members, {"t": 3, "u": 3})
    assert made.to_pairs()["a"] == [("u", 0), ("u", 2), ("t", 2)]
    assert [(u.member, u.topic, u.partition) for u in made.unresolved] == [("a", "gone", 4)]


def test_two_claims_of_one_generation_leave_no_owner_in_librdkafka() -> None:
    """A pair of old claims has this effect too; Java considers the newest only."""
    members = [
        Member("a", ["t"], owned=[("t", 0)], generation=5),
        Member("b", ["t"], owned=[("t", 0)], generation=3),
        Member("c", ["t"], owned=[("t", 0)], generation=3),
    ]
    made = plan("librdkafka:cooperative-sticky", members, {"t": 1})
    assert made.settled().owner.tolist() == [0]
    assert made.withheld.tolist() == [0], "the last claimant has to revoke it first"


def test_an_empty_subscription_is_an_error_for_librdkafka() -> None:
    """The library cannot read an empty subscription and uses it all the same."""
    with pytest.raises(PeerAssignorError, match="empty subscription"):
        plan("librdkafka:range", [Member("a", [])], {"t": 1})


def test_recorded_plans_of_other_clients_are_reproduced() -> None:
    """All 41 of librdkafka and all 83 of the Python clients in the sample match, order included."""
    judged: Counter = Counter()
    for group in group_records():
        for found in generations(group):
            asked = check_agreement(found, clusters())
            other = asked.judged_by not in (found.first.strategy, "streams:high-availability")
            if asked.agrees is not None and other:
                judged[asked.judged_by, asked.agrees] += 1
    assert judged == {
        ("librdkafka:range", True): 11,
        ("librdkafka:cooperative-sticky", True): 30,
        ("kafka-python:cooperative-sticky", True): 23,
        ("kafka-python:range or aiokafka:range", True): 31,
        ("kafka-python:roundrobin or aiokafka:roundrobin", True): 15,
        ("kafka-python:sticky or aiokafka:sticky", True): 9,
        ("kafka-python:sticky", True): 5,
    }


def test_the_leaders_bytes_name_its_library() -> None:
    """The leader runs its own library's assignor, whatever clients the other members use."""
    state = next(f.first for f in generations("c-notify") if f.first.members)
    assert leader_client(state) == "librdkafka"
    (judge,) = candidate_strategies(state, registry.find("cooperative-sticky"))
    assert judge.name == "librdkafka:cooperative-sticky"
    java = next(f.first for f in generations("billing") if f.first.members)
    assert [one.name for one in candidate_strategies(java, registry.find("range"))] == ["range"]
