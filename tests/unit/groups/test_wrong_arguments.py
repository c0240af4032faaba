"""Arguments of another type, printed names, and warnings of rounds: what a caller sees."""

from __future__ import annotations

import pytest

import partage as pg
from partage.groups.api import PlainStrategy
from partage.groups.negotiation import Negotiation
from partage.groups.registry import find

CLUSTER = pg.Cluster.from_topics({"t": 6})
GROUP = pg.Group([pg.Member("a", ["t"])])


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (lambda: pg.Join("a"), "Join.members[0]"),
        (lambda: pg.Join([pg.Member("a", ["t"])]), "Join.members[0]"),
        (lambda: pg.Leave(["a"]), "Leave.ids[0]"),
        (lambda: pg.play("range", CLUSTER, pg.Join(pg.Member("a", ["t"]))), "changes"),
        (lambda: pg.play("range", CLUSTER, None), "changes"),
        (lambda: pg.Member("a", None), "members.a.topics"),
        (lambda: pg.Member("a", ["t"], strategies={"range": 1}), "members.a.strategies"),
        (lambda: Negotiation().join(5, ["range"]), "member_id"),
        (lambda: Negotiation().join("a", {"range": 1}), "a.supported"),
    ],
)
def test_a_wrong_type_is_named_with_its_path(call, path) -> None:
    """A value of another type is an `InvalidProblemError`, never an error of Python."""
    with pytest.raises(pg.InvalidProblemError) as raised:
        call()
    assert raised.value.path == path


@pytest.mark.parametrize("strategies", [5, find("range")])
def test_compare_takes_a_list_of_strategies(strategies) -> None:
    """One strategy, or a number, in place of a list is named."""
    with pytest.raises(pg.InvalidConfigError, match="strategies: must be a list"):
        pg.compare(GROUP, CLUSTER, strategies=strategies)


@pytest.mark.parametrize("config", [["a=b"], "a=b", 5])
@pytest.mark.parametrize("strategy", ["range", "optimal"])
def test_settings_are_a_mapping(strategy, config) -> None:
    """A list or a text in place of settings is named."""
    with pytest.raises(pg.InvalidConfigError, match="config: must be a mapping"):
        pg.assign(strategy, GROUP, CLUSTER, config=config)


def test_compare_raises_where_a_setting_is_malformed() -> None:
    """A wrong value is an error; a row that refuses would look like a property of the problem."""
    with pytest.raises(pg.InvalidConfigError, match=r"max\.moves"):
        pg.compare(GROUP, CLUSTER, config={"assignment.optimal.max.moves": "abc"})


def test_a_round_has_the_warnings_of_assign() -> None:
    """`pg.play` warns of missing topics and of user data that were made, as `pg.assign` does."""
    members = [
        pg.Member("a", ["t", "gone"], owned={"t": [0, 1, 2, 3]}, generation=5),
        pg.Member("b", ["t"], owned={"t": [4, 5]}, generation=5),
    ]
    expected = pg.assign("sticky", pg.Group(members), CLUSTER).warnings
    first, second = pg.play("sticky", CLUSTER, [pg.Join(*members), pg.Leave("b")])
    assert first.plan.warnings == expected
    assert len(expected) == 2
    assert second.plan.warnings == ("a subscribes to 'gone', which is not among the topics",)


def test_a_misspelt_setting_of_a_member_is_a_warning() -> None:
    """A member's setting without effect is reported; settings of its client are left alone."""
    config = {"assignment.consumer.prio": 9, "session.timeout.ms": 1, "sasl.password": "hunter2"}
    group = pg.Group([pg.Member(name, ["t"], config=config) for name in ("a", "b")])
    warnings = pg.assign("failover", group, CLUSTER).warnings
    what = "assignment.consumer.prio of a has no effect: failover has no such setting"
    assert [w for w in warnings if "has no effect" in w] == [what]
    assert pg.play("failover", CLUSTER, [pg.Join(*group)])[0].plan.warnings == warnings
    row = pg.compare(group, CLUSTER, strategies=["failover", "range"])[1]
    assert row.warnings == (
        "assignment.consumer.prio of a has no effect: failover, range have no such setting",
    )
    right = pg.Member("a", ["t"], config={"assignment.consumer.priority.t": 9})
    assert not pg.compare(pg.Group([right]), CLUSTER, strategies=["failover", "range"])[1].warnings
    warnings = pg.assign("failover", pg.Group([right]), CLUSTER).warnings
    assert not [w for w in warnings if "has no effect" in w]


def test_the_seed_of_a_placement_is_a_number() -> None:
    """A text in place of the seed is named."""
    with pytest.raises(pg.InvalidConfigError, match="seed: must be an int"):
        pg.place([pg.Broker(0)], partitions=1, replication_factor=1, seed="x")


def test_a_printed_plan_escapes_control_characters() -> None:
    """A name with an escape sequence, a line break or a bidirectional mark stays one line."""
    plan = pg.assign("range", pg.Group([pg.Member("a\x1b[31m\n\u202e", ["t"])]), CLUSTER)
    _, line = str(plan).splitlines()
    assert line == r"  a\x1b[31m\n\u202e: t 0-5"


def test_a_printed_member_hides_secrets_of_its_config() -> None:
    """A member may carry a client's whole configuration: its passwords are not shown."""
    config = {"sasl.password": "hunter2", "assignment.consumer.priority": 7}
    shown = repr(pg.Member("a", ["t"], config=config))
    assert "hunter2" not in shown
    assert "'assignment.consumer.priority': 7" in shown


class _Defective(PlainStrategy):
    """Balanced, except that it is not finished."""

    name = "acme:defective"

    def assign(self, problem, memory=None):
        return None


class _Raising(_Defective):
    """It raises in ``assign``."""

    def assign(self, problem, memory=None):
        raise ValueError("boom")


class _Forgetful(_Defective):
    """It raises when its members send their subscriptions."""

    def subscription_user_data(self, topics, memory=None):
        raise KeyError("memory")


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [
        (_Defective(), "it returned NoneType and not a Plan"),
        (_Raising(), "ValueError: boom"),
        (_Forgetful(), "KeyError: 'memory'"),
    ],
)
def test_a_defective_plug_in_is_named_by_our_error(strategy, reason) -> None:
    """A plug-in that raises or returns no plan gives a `PluginFailedError` from assign and play."""
    cluster = pg.Cluster.from_topics({"t": 2})
    member = pg.Member("c1", ["t"])
    with pytest.raises(pg.PluginFailedError, match="acme:defective: the plug-in failed") as failed:
        pg.play(strategy, cluster, [pg.Join(member)])
    assert failed.value.reason == reason
    if not isinstance(strategy, _Forgetful):
        with pytest.raises(pg.PluginFailedError) as failed:
            pg.assign(strategy, pg.Group([member]), cluster)
        assert failed.value.reason == reason


@pytest.mark.parametrize("names", ["range,", ",range", "range,,sticky", ","])
def test_a_comma_without_a_name_is_named(names) -> None:
    """A list of strategies with an empty item says so, and not that a name is unknown."""
    with pytest.raises(pg.InvalidConfigError, match="has a comma without a name beside it"):
        find(names)
    with pytest.raises(pg.InvalidConfigError, match="has a comma without a name beside it"):
        pg.compare(pg.Group([]), pg.Cluster.from_topics({}), strategies=[names])
