"""Strategies by name: ours, Java class names, lists, plug-ins good and broken."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

import partage as pg
from partage.groups import registry
from partage.groups.api import PlainStrategy, Strategy
from partage.groups.registry import describe, find, strategies

KAFKA = "org.apache.kafka.clients.consumer"


class Everything(PlainStrategy):
    """All to the first member."""

    name = "everything"
    aliases = ("com.example.EverythingAssignor",)

    def assign(self, problem, memory=None):
        first = {problem.group.ids[0]: {"t": [0]}}
        return pg.Plan.of(problem.index, first)


class NoStrategy:
    """Has a name and nothing else."""

    name = "lame"


GOOD = Everything()


@pytest.fixture
def plugged_in(monkeypatch):
    """Three plug-ins: a good one, one that cannot be imported, one that is no strategy."""
    here = __name__
    points = [
        EntryPoint("everything", f"{here}:GOOD", registry.ENTRY_POINTS),
        EntryPoint("missing", "no_such_package_at_all:Thing", registry.ENTRY_POINTS),
        EntryPoint("lame", f"{here}:NoStrategy", registry.ENTRY_POINTS),
        EntryPoint("range", f"{here}:GOOD", registry.ENTRY_POINTS),
    ]
    monkeypatch.setattr(registry, "_entry_points", lambda: {one.name: one for one in points})
    # pytest imports test files under names of its own; a plug-in's module must be importable.
    import sys

    monkeypatch.setitem(sys.modules, here, sys.modules.get(here) or __import__(here))


@pytest.mark.parametrize("name", ["range", "roundrobin", "roundrobin:0.8", "fair", "failover"])
def test_ours_follow_the_contract(name) -> None:
    """Each has its own name, the contract's attributes, and an entry for every member."""
    one = find(name)
    assert isinstance(one, Strategy)
    assert one.name == name
    assert name in strategies()
    assert one.algorithm
    assert one.version == 0
    assert one.protocols[0].name == "EAGER"
    assert one.configure({"client.id": "x"}) == one, "settings of others are ignored"
    assert one.on_assignment(pg.Assignment.of(pg.Index.of({}), {}), None, 3) is None
    group = pg.Group([pg.Member("a", ["t"]), pg.Member("b", ["t"])])
    plan = pg.assign(name, group, pg.Cluster.from_topics({"t": 1}))
    assert list(plan.to_dict()) == ["a", "b"]
    assert pg.check(plan, group, pg.Cluster.from_topics({"t": 1})) == []


@pytest.mark.parametrize(
    ("java", "name"),
    [("RangeAssignor", "range"), ("RoundRobinAssignor", "roundrobin"), ("FairAssignor", "fair")],
)
def test_java_class_names_are_aliases(java, name) -> None:
    """The names of `partition.assignment.strategy` find our strategies."""
    assert find(f"{KAFKA}.{java}").name == name


def test_a_list_is_in_order_of_preference() -> None:
    """The first that exists decides; a strategy itself is taken as it is."""
    assert find(["no-such", f"{KAFKA}.RoundRobinAssignor", "range"]).name == "roundrobin"
    assert find(GOOD) is GOOD


def test_an_unknown_name_tells_what_comes_close() -> None:
    """The names that come close, and all that exist."""
    with pytest.raises(pg.UnknownStrategyError, match="did you mean range") as caught:
        find("rnage")
    assert caught.value.name == "rnage"
    assert caught.value.close[0] == "range"
    assert set(caught.value.known) == set(strategies())
    with pytest.raises(pg.UnknownStrategyError, match="nothing-1, nothing-2"):
        find(["nothing-1", "nothing-2"])
    with pytest.raises(pg.UnknownStrategyError):
        find([])


@pytest.mark.usefixtures("plugged_in")
def test_a_plug_in_is_found_by_name_and_by_alias() -> None:
    """An entry point's value is a strategy, or a class that makes one."""
    assert find("everything") is GOOD
    assert find("com.example.EverythingAssignor") is GOOD
    assert strategies()[-3:] == ("everything", "lame", "missing")


@pytest.mark.usefixtures("plugged_in")
def test_a_broken_plug_in_is_named_and_does_not_stand_in_the_way() -> None:
    """Asking for it is an error with its name; everything else goes on."""
    with pytest.raises(
        pg.InvalidConfigError, match=r"partage\.strategies\.missing.*no_such_package"
    ):
        find("missing")
    with pytest.raises(pg.InvalidConfigError, match=r"partage\.strategies\.lame.*lacks.*assign"):
        find("lame")
    assert find("com.example.EverythingAssignor") is GOOD
    rows = {row.name: row for row in describe()}
    assert rows["missing"].problem is not None
    assert rows["everything"].problem is None
    assert find("range").exact_to is not None, "a plug-in cannot take the name of one of ours"


def test_describe_has_a_row_for_each() -> None:
    """Name, first sentence, whose twin it is, and what it speaks: the README's table."""
    rows = describe()
    assert [row.name for row in rows] == list(strategies())
    row = next(row for row in rows if row.name == "range")
    assert row.exact_to == f"{KAFKA}.RangeAssignor 4.3.1"
    assert row.protocols == ("EAGER",)
    assert all(row.summary for row in rows if row.problem is None)
