"""Priority fail-over: the document's rules, and ours where it has none."""

from __future__ import annotations

import pytest

import partage as pg
from partage.groups.api import RebalanceProtocol
from partage.groups.failover import (
    LOWEST_PRIORITY,
    Failover,
    Priorities,
    read_priorities,
    write_priorities,
)
from partage.model import Problem
from partage.testing import cluster, written

PRIORITY = "assignment.consumer.priority"
MOST = 2**31 - 1


def sends(config):
    """The user data of a member with this configuration."""
    return Failover().configure(config).subscription_user_data(["t"])


def member(name, priority=None, topics=("t",), *, config=None, **more):
    config = {PRIORITY: priority, **(config or {})} if priority is not None else config or {}
    return pg.Member(name, topics, user_data=sends(config), **more)


def plan(*members, topics="t×3", **options):
    return pg.assign(Failover(**options), pg.Group(members), cluster(topics))


def test_the_highest_priority_has_everything() -> None:
    """C1 with the highest priority owns all; when it fails, C2 does; every member has an entry."""
    c1, c2, c3 = member("C1", 30), member("C2", 20), member("C3", 10)
    assert written(plan(c2, c1, c3)) == "C2: – | C1: t-0 t-1 t-2 | C3: –"
    assert plan(c2, c3).to_dict() == {"C2": {"t": [0, 1, 2]}, "C3": {}}
    assert plan(c2, c3).warnings == ()


def test_the_priority_is_sent_as_four_bytes() -> None:
    """int32, big-endian, negative ones too; 2147483647 where the setting is missing."""
    assert sends({PRIORITY: 10}) == b"\0\0\0\x0a"
    assert sends({PRIORITY: -2}) == b"\xff\xff\xff\xfe"
    assert sends({PRIORITY: " 10 "}) == b"\0\0\0\x0a", "a properties file has text"
    assert sends({}) == b"\x7f\xff\xff\xff"
    assert read_priorities(b"\xff\xff\xff\xfe") == (Priorities(-2), None)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, "high", 1.5, True, None, "1e3", ""])
def test_a_priority_that_is_no_int32_is_refused(value) -> None:
    """The error names the setting."""
    with pytest.raises(pg.InvalidConfigError, match=PRIORITY):
        Failover().configure({PRIORITY: value})
    with pytest.raises(pg.InvalidConfigError, match=f"{PRIORITY}.orders"):
        Failover().configure({f"{PRIORITY}.orders": value})


def test_a_member_without_the_setting_outranks_all_and_a_warning_says_so() -> None:
    """The document's default is the largest int32."""
    found = plan(member("a", 1000), member("b"))
    assert found.to_dict() == {"a": {}, "b": {"t": [0, 1, 2]}}
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith("b has priority 2147483647, the default")


def test_equal_priorities_go_to_the_lowest_member_id() -> None:
    """By Java's string order, which is not Python's beyond the basic plane."""
    assert plan(member("c2", 5), member("c10", 5)).to_dict() == {"c2": {}, "c10": {"t": [0, 1, 2]}}
    assert plan(member("ｚ", 5), member("\U00010000", 5)).to_dict()["ｚ"] == {}


@pytest.mark.parametrize(
    "data", [None, b"", b"\0", b"\0\0\7", b"\0\0\0\x63\0", bytes(8), b"\x7f" * 12]
)
def test_user_data_that_is_no_priority_means_the_lowest_and_a_warning(data) -> None:
    """Null, short or long: below even the lowest priority that a member can state.

    `pg.assign` adds what a member without user data would send; a live leader sees null.
    """
    odd = pg.Member("a", ["t"], user_data=data)
    group = pg.Group([odd, member("b", -(2**31))])
    found = Failover().assign(Problem(group, cluster("t×3")))
    assert found.to_dict() == {"a": {}, "b": {"t": [0, 1, 2]}}
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith("a has ")
    assert "lowest priority" in found.warnings[0]
    assert read_priorities(data)[0] == Priorities(LOWEST_PRIORITY)
    assert plan(odd).to_dict() == {"a": {"t": [0, 1, 2]}}, "alone it has everything all the same"


def test_a_topic_that_the_winner_does_not_read_goes_to_its_highest_subscriber() -> None:
    """The document's code hands it to the winner; we do so as an option, and the judge tells."""
    who = [member("a", 3, ["t"]), member("b", 2, ["t", "u"]), member("c", 1, ["u"])]
    found = plan(*who, topics="t×2 u×1")
    assert found.to_dict() == {"a": {"t": [0, 1]}, "b": {"u": [0]}, "c": {}}
    assert pg.check(found, pg.Group(who), cluster("t×2 u×1")) == []
    found = plan(*who, topics="t×2 u×1", as_documented=True)
    assert found.to_dict() == {"a": {"t": [0, 1], "u": [0]}, "b": {}, "c": {}}
    breaches = pg.check(found, pg.Group(who), cluster("t×2 u×1"))
    assert [breach.kind.value for breach in breaches] == ["unsubscribed owner"]


def test_two_priorities_split_a_cluster() -> None:
    """A priority per topic: each of two members is first for one topic and second for the other."""
    first = member("a", 10, ["t", "u"], config={f"{PRIORITY}.u": 1})
    second = member("b", 5, ["t", "u"])
    found = plan(first, second, topics="t×2 u×2")
    assert written(found) == "a: t-0 t-1 | b: u-0 u-1"
    assert plan(first, topics="t×2 u×2").to_dict() == {"a": {"t": [0, 1], "u": [0, 1]}}


def test_priorities_per_topic_begin_with_the_documented_four_bytes() -> None:
    """A reader of the documented kind, which takes an int32, still sees the general priority."""
    data = sends({PRIORITY: 7, f"{PRIORITY}.b": 1, f"{PRIORITY}.a": -1})
    assert data == bytes.fromhex(
        "00000007 50464f31 00000002 0001 61 ffffffff 0001 62 00000001".replace(" ", "")
    )
    assert read_priorities(data) == (Priorities(7, {"a": -1, "b": 1}), None)


def test_a_damaged_extension_is_the_lowest_priority() -> None:
    """Cut, lengthened, of another version, or with a count that lies: never an error."""
    data = write_priorities(Priorities(7, {"orders": 1}))
    damaged = [data[:n] for n in range(len(data)) if n != 4]
    damaged += [
        data + b"\0",
        data[:7] + b"2" + data[8:],
        data[:8] + b"\x7f\xff\xff\xff" + data[12:],
    ]
    for one in damaged:
        priorities, wrong = read_priorities(one)
        assert priorities == Priorities(LOWEST_PRIORITY), one
        assert wrong is not None


def test_without_preemption_the_owner_stays() -> None:
    """A member of a higher priority that comes back waits; new partitions go to the incumbent."""
    was = member("a", 1, owned={"t": [0, 1]}, generation=3)
    back = member("b", 9)
    assert plan(was, back).to_dict() == {"a": {}, "b": {"t": [0, 1, 2]}}
    assert plan(was, back, preemption=False).to_dict() == {"a": {"t": [0, 1, 2]}, "b": {}}
    assert plan(back, preemption=False).to_dict() == {"b": {"t": [0, 1, 2]}}, "a has left"


def test_without_preemption_claims_are_weighed() -> None:
    """The newer generation keeps a partition, then the higher rank; unsubscribed claims lapse."""
    old = member("a", 9, owned={"t": [0, 1]}, generation=3)
    new = member("b", 1, owned={"t": [0]}, generation=4)
    assert plan(old, new, preemption=False).to_dict() == {"a": {"t": [1, 2]}, "b": {"t": [0]}}
    same = member("b", 1, owned={"t": [0]}, generation=3)
    assert plan(old, same, preemption=False).to_dict() == {"a": {"t": [0, 1, 2]}, "b": {}}
    gone = member("c", 1, ["u"], owned={"t": [0]}, generation=9)
    found = plan(gone, member("d", 2, ["t"]), preemption=False, topics="t×1 u×1")
    assert found.to_dict() == {"c": {"u": [0]}, "d": {"t": [0]}}


def test_cooperative_only_where_nothing_moves_between_living_members() -> None:
    """A preempting leader would take partitions that their owner still reads."""
    assert Failover().protocols == (RebalanceProtocol.EAGER,)
    assert Failover(preemption=False).protocols[0] is RebalanceProtocol.COOPERATIVE


def test_settings_of_the_leader_and_settings_of_others() -> None:
    """Switches are read as Kafka reads booleans; what belongs to others is ignored."""
    made = Failover().configure(
        {"assignment.failover.preemption": "False", "assignment.failover.as_documented": True,
         "partition.assignment.strategy": 5, PRIORITY: 1}
    )  # fmt: skip
    assert made == Failover(priority=1, preemption=False, as_documented=True)
    with pytest.raises(pg.InvalidConfigError, match=r"assignment\.failover\.preemption"):
        Failover().configure({"assignment.failover.preemption": "no"})
    with pytest.raises(pg.InvalidConfigError, match=PRIORITY):
        Failover(priority=MOST + 1)


def test_the_registry_takes_settings_by_config() -> None:
    """`assign(..., config=...)` is how a leader sets what decides for the group."""
    who = pg.Group([member("a", 3, ["t"]), member("b", 2, ["u"])])
    config = {"assignment.failover.as_documented": "true"}
    found = pg.assign("failover", who, cluster("t×1 u×1"), config=config)
    assert found.to_dict() == {"a": {"t": [0], "u": [0]}, "b": {}}
