"""Groups described by ownership or configuration: user data, settings, warnings, negotiation."""

from __future__ import annotations

import pytest

import partage as pg
from partage.groups.api import PlainStrategy
from partage.groups.failover import Priorities, write_priorities
from partage.groups.negotiation import Negotiation
from partage.groups.registry import find, load
from partage.groups.subscriptions import memory_after_assignment
from partage.keys.agreement import who_agrees
from partage.wire.faust import FaustMetadata, write_faust_subscription

PRIORITY = "assignment.consumer.priority"
ORDERS = pg.Cluster.from_topics({"t": 4})


class WholeTopics(PlainStrategy):
    """A strategy for the tests: everything to the first member."""

    name = "whole-topics"

    def assign(self, problem, memory=None):
        every = list(range(problem.index.partitions))
        lists = [every if i == 0 else [] for i in range(len(problem.group))]
        return pg.Plan.from_lists(problem.index, problem.group.ids, lists)


def failing_over(*priorities, owned=()):
    """Members a, b, c, ... with priorities in their user data; what each of them owns."""
    return pg.Group(
        pg.Member(name, ["t"], owned={"t": numbers}, user_data=write_priorities(Priorities(value)))
        for name, value, numbers in zip("abc", priorities, owned or ([],) * 3, strict=False)
    )


def test_a_round_keeps_the_user_data_that_a_member_sent() -> None:
    """With priorities 10, 20, 30 `play` chooses the third member, as `assign` does."""
    group = failing_over(10, 20, 30)
    assert pg.assign("failover", group, ORDERS).to_dict()["c"] == {"t": [0, 1, 2, 3]}
    first, second = pg.play("failover", ORDERS, [pg.Join(*group), pg.Leave("c")])
    assert first.plan.to_dict() == {"a": {}, "b": {}, "c": {"t": [0, 1, 2, 3]}}
    assert second.plan.to_dict() == {"a": {}, "b": {"t": [0, 1, 2, 3]}}
    assert not first.plan.warnings


def test_a_member_has_a_configuration_of_its_own() -> None:
    """`config` of a member sets its priority through `assign`, `play`, `compare` and JSON."""
    members = [pg.Member(name, ["t"], config={PRIORITY: value}) for name, value in
               (("a", 1), ("b", "99"), ("c", 5))]  # fmt: skip
    group = pg.Group(members)
    everything = {"a": {}, "b": {"t": [0, 1, 2, 3]}, "c": {}}
    plan = pg.assign("failover", group, ORDERS)
    assert (plan.to_dict(), plan.warnings) == (everything, ())
    assert pg.play("failover", ORDERS, [pg.Join(*members)])[0].plan.to_dict() == everything
    assert pg.compare(group, ORDERS, strategies=["failover"])[0].plan.to_dict() == everything
    listed = [{"id": m.id, "topics": ["t"], "config": dict(m.config)} for m in members]
    assert pg.Group.from_json({"members": listed}) == group
    with pytest.raises(pg.InvalidConfigError, match="int32"):
        pg.assign("failover", pg.Group([pg.Member("a", config={PRIORITY: "high"})]), ORDERS)
    with pytest.raises(pg.InvalidProblemError, match=r"members\[0\]\.config"):
        pg.Group.from_json({"members": [{"id": "a", "config": [1]}]})


def test_a_members_own_setting_given_to_the_leader_is_an_error() -> None:
    """A priority in `config=` acts on nothing: `assign` and `compare` say where it belongs."""
    group = failing_over(10, 20)
    for call in (
        lambda: pg.assign("failover", group, ORDERS, config={PRIORITY: 99}),
        lambda: pg.compare(group, ORDERS, strategies=["failover", "range"], config={PRIORITY: 9}),
    ):
        with pytest.raises(pg.InvalidConfigError, match="member's own setting"):
            call()
    preemption = {"assignment.failover.preemption": "false"}
    assert pg.compare(group, ORDERS, strategies=["failover", "range"], config=preemption)[1].valid


def test_a_priority_that_is_not_set_is_the_default_through_every_door() -> None:
    """A consumer without the setting sends 2147483647: it outranks b, in `play` as in `assign`."""
    members = [pg.Member("a", ["t"]), pg.Member("b", ["t"], user_data=bytes(4)), pg.Member("c")]
    plan = pg.assign("failover", pg.Group(members), ORDERS)
    assert plan.to_dict()["a"] == {"t": [0, 1, 2, 3]}
    assert plan.warnings == (
        "a, c have priority 2147483647, the default of members without "
        "assignment.consumer.priority: they outrank every member that has the setting",
    )
    assert same_everywhere("failover", members, ORDERS)
    (unset,) = pg.assign("failover", pg.Group(members[::2]), ORDERS).warnings
    assert unset.startswith("no member has assignment.consumer.priority")


def same_everywhere(name, members, cluster):
    """Whether `assign`, `compare` and `play` return the same plan with the same warnings."""
    plan = pg.assign(name, pg.Group(members), cluster)
    row = pg.compare(pg.Group(members), cluster, strategies=[name], optimum=False)[0]
    played = pg.play(name, cluster, [pg.Join(*members)])[0].plan
    assert row.plan is not None
    plans = [plan.to_dict(), row.plan.to_dict(), played.to_dict()]
    warnings = [set(plan.warnings), set(row.warnings), set(played.warnings)]
    return plans[1:] == plans[:1] * 2 and warnings[1:] == warnings[:1] * 2


@pytest.mark.parametrize("sent", ["sticky", "failover", "faust", "kafka-python:sticky"])
@pytest.mark.parametrize(
    "name", ["sticky", "failover", "faust", "faust:copartitioned", "kafka-python:sticky"]
)
def test_user_data_of_another_strategy_are_dropped_through_every_door(sent, name) -> None:
    """`play` read such bytes, and members seemed to own no partition."""
    owned = {"a": [0, 3], "b": [1, 2], "c": []}
    sender = find(sent)
    members = []
    for member_id, numbers in owned.items():
        one = pg.Member(member_id, ["t"], owned={"t": numbers}, generation=4)
        memory = memory_after_assignment(sender, one, ORDERS)
        members.append(one.replaced(user_data=sender.subscription_user_data(["t"], memory)))
    assert same_everywhere(name, members, ORDERS)


FAUST = write_faust_subscription(FaustMetadata({"t": [0, 1, 2]}, url="http://a:1"))


@pytest.mark.parametrize("form", ["failover", "faust"])
def test_each_strategy_gets_the_user_data_of_its_own_members(form) -> None:
    """In a failover or Faust group sticky moves two partitions, and warns of no foreign bytes."""
    sent = (write_priorities(Priorities(10)), write_priorities(Priorities(20)))
    if form == "faust":
        sent = (FAUST, write_faust_subscription(FaustMetadata({}, url="http://b:1")))
    group = pg.Group([
        pg.Member("a", ["t"], owned={"t": [0, 1, 2, 3]}, generation=7, user_data=sent[0]),
        pg.Member("b", ["t"], generation=7, user_data=sent[1]),
    ])  # fmt: skip
    names = ["sticky", "cooperative-sticky", "failover", "faust", "aiokafka:sticky",
             "kafka-python:sticky"]  # fmt: skip
    for found in (
        pg.compare(group, ORDERS, strategies=names),
        pg.compare(group, ORDERS, strategies=names, sender=form),
    ):
        for name in names:
            row = found[name]
            if name not in {"failover", "faust"}:
                assert (row.measures.moved, row.measures.avoidable) == (2, 0), name
            assert not any("bytes" in one or "cannot be read" in one for one in row.warnings), name
    own = found[form]
    assert own.plan.to_dict() == pg.assign(form, group, ORDERS).to_dict()


def test_priorities_are_no_generations() -> None:
    """Priorities that contradict each other as generations void no claim of cooperative-sticky."""
    group = failing_over(10, 20, 30, owned=([0, 1], [2, 3], []))
    row = pg.compare(group, ORDERS, strategies=["cooperative-sticky"])[0]
    assert row.measures.moved == 1


def test_user_data_that_nobody_knows_reach_the_strategy() -> None:
    """Damaged bytes are the strategy's own business: Kafka's class reads them as no claim."""
    group = pg.Group([pg.Member("a", ["t"], owned={"t": [2]}, generation=1, user_data=b"\x7f" * 9),
                      pg.Member("b", ["t"])])  # fmt: skip
    plan = pg.assign("sticky", group, ORDERS)
    assert plan.to_dict() == {"a": {"t": [0, 2]}, "b": {"t": [1, 3]}}
    assert not plan.warnings


def test_a_refused_round_is_an_outage() -> None:
    """roundrobin:0.8 needs equal subscriptions: nobody owns anything until the next round."""
    cluster = pg.Cluster.from_topics({"A": 2, "B": 1})
    changes = [pg.Join(pg.Member("a", ["A"])), pg.Join(pg.Member("b", ["A", "B"])), pg.Leave("a")]
    one, two, three = pg.play("roundrobin:0.8", cluster, changes)
    assert (one.refused, one.unowned) == (None, ())
    assert "needs equal subscriptions" in two.refused
    assert two.plan.to_dict() == {"a": {}, "b": {}}
    assert two.unowned == (("A", 0), ("A", 1), ("B", 0))
    assert two.moved == (("A", 0), ("A", 1))
    assert "3 partitions without an owner" in repr(two)
    assert (three.refused, three.unowned) == (None, ())
    assert three.before == {}


class Choosy(WholeTopics):
    """Cooperative, and refuses more than one member."""

    protocols = find("cooperative-sticky").protocols

    def assign(self, problem, memory=None):
        if len(problem.group) > 1:
            raise pg.UnsupportedProblemError("one member only")
        return super().assign(problem)


def test_members_of_a_cooperative_group_keep_what_they_have_in_a_refused_round() -> None:
    """They revoke nothing before they join."""
    changes = [pg.Join(pg.Member("a", ["t"])), pg.Join(pg.Member("b", ["t"]))]
    _, second = pg.play(Choosy(), ORDERS, changes)
    assert (second.refused, second.unowned, second.moved) == ("one member only", (), ())


def test_what_is_no_strategy_is_named() -> None:
    """A class, a group in the wrong place, a number: our errors, with what to pass instead."""
    group = failing_over(1, 2)
    with pytest.raises(
        pg.InvalidConfigError, match=r"is a class: pass an instance, WholeTopics\(\)"
    ):
        pg.assign(WholeTopics, group, ORDERS)
    assert pg.assign(WholeTopics(), group, ORDERS).to_dict()["a"] == {"t": [0, 1, 2, 3]}
    with pytest.raises(pg.InvalidConfigError, match="must be a name"):
        pg.assign(group, ORDERS, "range")
    with pytest.raises(pg.InvalidConfigError, match="must be a name"):
        pg.assign(7, group, ORDERS)
    with pytest.raises(pg.InvalidProblemError, match="group: must be a Group, not a Cluster"):
        pg.assign("range", ORDERS, group)
    with pytest.raises(pg.InvalidProblemError, match="cluster: must be a Cluster, not a str"):
        pg.assign("range", group, "ORDERS")
    plan = pg.assign("range", group, ORDERS)
    for call in (
        lambda: pg.check(plan, ORDERS, group),
        lambda: pg.check(group, plan, ORDERS),
        lambda: pg.measure(plan, ORDERS, group),
        lambda: pg.measure(group, group, ORDERS),
        lambda: pg.compare(ORDERS, group),
        lambda: pg.play("range", group, []),
        lambda: pg.play("range", ORDERS, [group]),
    ):
        with pytest.raises(pg.InvalidProblemError):
            call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: Negotiation().join("a", "range"),
        lambda: pg.compare(failing_over(1), ORDERS, strategies="range"),
        lambda: pg.Member("a", "t"),
        lambda: pg.Subscribe("a", "t"),
        lambda: pg.Group("abc"),
        lambda: pg.Plan.from_lists(ORDERS.index, "ab", [[0], [1]]),
        lambda: pg.partition_for([b"a"], partitions=3, explicit="1"),
        lambda: pg.partition_for([b"a"], partitions=3, partitioner="java:2.3", seed="1"),
        lambda: pg.keys.start("java:2.3", available="01"),
        lambda: who_agrees("murmur2"),
        lambda: pg.play("range", ORDERS, "abc"),
    ],
)
def test_a_text_in_place_of_a_list_is_an_error(call) -> None:
    """A text is never taken apart into letters."""
    with pytest.raises((pg.InvalidProblemError, pg.InvalidConfigError)):
        call()


JAVA = "org.apache.kafka.clients.consumer."


def test_class_names_and_protocol_names_meet_in_negotiation() -> None:
    """A member that lists a class name votes for the protocol name that its client sends."""
    group = Negotiation().join("a", [f"{JAVA}RangeAssignor", f"{JAVA}StickyAssignor"])
    group = group.join("b", ["sticky"])
    assert (group.candidates(), group.selected) == (("sticky",), "sticky")
    assert group.join("c", ["kafka-python:sticky"]).votes() == {"sticky": 3}


def test_negotiate_chooses_as_the_coordinator_and_says_why() -> None:
    """The most votes among what all support; the leader's own implementation decides."""
    lists = (["librdkafka:range", "roundrobin"], ["roundrobin", "range"], "roundrobin,range,fair")
    group = pg.Group(
        pg.Member(name, ["t"], strategies=s) for name, s in zip("abc", lists, strict=True)
    )
    found = pg.negotiate(group)
    assert (found.strategy, found.leader, found.votes) == (
        "roundrobin", "a", {"range": 1, "roundrobin": 2}
    )  # fmt: skip
    assert found.reason == (
        "2 of 3 members prefer it among those that all support (others: range 1)"
    )
    alone = pg.negotiate(pg.Group(group[:1]))
    assert (alone.strategy, alone.decided_by) == ("range", "librdkafka:range")
    with pytest.raises(
        pg.InconsistentGroupProtocolError, match=r"^d cannot join .* it supports fair, and"
    ):
        pg.negotiate(pg.Group([*group, pg.Member("d", strategies=["fair"])]))
    assert pg.negotiate(pg.Group([pg.Member("x")])).candidates == ("range", "cooperative-sticky")
    with pytest.raises(pg.InvalidProblemError):
        pg.negotiate(ORDERS)


def test_a_list_with_commas_is_read_as_in_kafkas_configuration() -> None:
    """Each name of the list must exist, and the first decides; blanks around commas do not count."""
    assert find(f"sticky , {JAVA}RangeAssignor").name == "sticky"
    with pytest.raises(pg.UnknownStrategyError, match="no-such"):
        find("range,no-such")
    rows = pg.compare(failing_over(1, 2), ORDERS, strategies=["range,roundrobin", "fair"])
    assert [row.strategy for row in rows] == ["range", "roundrobin", "fair"]


def test_a_strategy_is_found_by_module_and_class(tmp_path, monkeypatch) -> None:
    """`package.module:Class` is imported; what cannot be is an error that says why."""
    text = (
        "from partage.groups.api import PlainStrategy\n"
        "class Mine(PlainStrategy):\n"
        "    name = 'mine'\n"
        "    def assign(self, problem, memory=None): ...\n"
    )
    (tmp_path / "h_acme.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert load("h_acme:Mine").name == "mine"
    for name, said in (
        ("h_acme:Yours", "Yours"),
        ("h_nothing:X", "h_nothing"),
        ("json:dumps", "lacks"),
    ):
        with pytest.raises(pg.InvalidConfigError, match=said):
            load(name)
    with pytest.raises(pg.UnknownStrategyError, match="server:uniform"):
        load("server:unifrom")
    with pytest.raises(pg.UnknownStrategyError):
        find("h_acme:Mine")  # such a name may come from a group's log


def test_plans_and_members_print_what_a_person_needs() -> None:
    """No arrays: who owns what, what is withheld, and each warning; a member's every field."""
    member = pg.Member("c1", ["t"], rack="r1", instance_id="i-1", owned={"t": [0, 1]}, generation=4)
    shown = "Member('c1', topics=['t'], rack='r1', instance_id='i-1', owned={'t': [0, 1]}, generation=4)"
    assert repr(member) == shown
    group = pg.Group([pg.Member("a", ["t", "gone"], owned={"t": [0, 1, 2, 3]}, generation=1),
                      pg.Member("b", ["t"])])  # fmt: skip
    plan = pg.assign("cooperative-sticky", group, ORDERS)
    assert repr(plan) == "<Plan: 2 members, 2 partitions, 2 partitions withheld, 1 warning>"
    assert str(plan).splitlines() == [
        "Plan: 2 members, 2 partitions, 2 partitions withheld, 1 warning",
        "  a: t 2-3",
        "  b: (no partitions)",
        "  withheld until the next rebalance: t-0, then to b",
        "  withheld until the next rebalance: t-1, then to b",
        "  warning: a subscribes to 'gone', which is not among the topics",
    ]
    many = pg.Group(pg.Member(f"m{i}", ["t"]) for i in range(500))
    assert str(pg.assign("range", many, ORDERS)).endswith("... and 460 more members")


def test_user_data_beside_a_priority_in_the_config_warns() -> None:
    """A member's userData counts before its configured priority, with a warning in every way."""
    cluster = pg.Cluster.from_topics({"t": 1})
    sent = write_priorities(Priorities(5))
    group = pg.Group(
        [
            pg.Member("a", ["t"], user_data=sent, config={PRIORITY: 99}),
            pg.Member("b", ["t"], config={PRIORITY: 10}),
        ]
    )
    plan = pg.assign("failover", group, cluster)
    assert plan.to_dict() == {"a": {}, "b": {"t": [0]}}
    expected = (
        f"a has both userData and {PRIORITY}: userData counts, {PRIORITY} has no effect; "
        "leave one of the two out"
    )
    assert plan.warnings == (expected,)
    (played,) = pg.play("failover", cluster, [pg.Join(*group)])
    assert expected in played.plan.warnings
    equal = pg.Group([pg.Member("a", ["t"], user_data=sent, config={PRIORITY: 5})])
    assert not pg.assign("failover", equal, cluster).warnings


def test_a_share_groups_assignment_has_its_warnings() -> None:
    """`server:simple` returns an Assignment, whose ``warnings`` name missing topics as a Plan's do."""
    group = pg.Group([pg.Member("a", ["t", "gone"])])
    made = pg.assign("server:simple", group, pg.Cluster.from_topics({"t": 1}))
    assert made.warnings == ("a subscribes to 'gone', which is not among the topics",)
    assert "warning: a subscribes to 'gone'" in str(made)
    assert repr(made) == "<Assignment: 1 member, 1 partition, 1 warning>"
    (played,) = pg.play("server:simple", pg.Cluster.from_topics({"t": 1}), [pg.Join(*group)])
    assert played.plan.warnings == made.warnings
