"""Forecasts for a group of a running cluster: two reads of its offsets, then the code of a run."""

from __future__ import annotations

import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import partage as pg
from partage.capture import connection, groups
from partage.capture.groups import LiveGroup, LiveMember
from partage.cli.app import app
from partage.cli.options import ClusterOptions

ON = ("-b", "broker:9092", "--group", "billing", "--for", "10s")


def live(strategy: str = "range", kind: str = "classic", count: int = 3) -> LiveGroup:
    """Return a group of static members with six partitions."""
    members = tuple(
        LiveMember(f"m{i}", "c", "/h", f"i-{i}", None, ("orders",), (("orders", i),))
        for i in range(count)
    )
    return LiveGroup("billing", kind, "Stable", strategy, 1, members, {("orders", 0): 900})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> list[LiveGroup]:
    """A cluster with one group; each read is ten seconds after the one before it."""
    known = [live()]
    reads: list[int] = []

    def read(_: object, wanted: list[str] | None = None) -> tuple:
        reads.append(1)
        ends = {("orders", p): 1_000 + 100 * (p + 1) * len(reads) for p in range(6)}
        topics = [SimpleNamespace(name="orders", partitions=[None] * 6),
                  SimpleNamespace(name="other", partitions=[None])]  # fmt: skip
        found = [one for one in known if wanted is None or one.id in wanted]
        return found, ends, SimpleNamespace(topics=topics)

    monkeypatch.setattr(connection, "ClusterConnection", lambda *_: nullcontext())
    monkeypatch.setattr(groups, "live_groups", read)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(time, "monotonic", lambda: 10.0 * len(reads))
    return known


def test_rates_and_members_are_those_of_the_cluster(cluster: list[LiveGroup]) -> None:
    """The load is the growth of the end offsets; other topics of the cluster do not count."""
    found = pg.measure_group("broker:9092", "billing", seconds=10)
    assert found.load.rate.tolist() == [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    assert (found.topics, found.seconds, found.lag) == ({"orders": 6}, 10.0, 300)
    assert (found.restarts.members, found.policy.name) == (3, "eager/range+static")
    sizing = pg.size(found, capacity=100.0, max_lag=30)
    assert (sizing.rate, sizing.strategy) == (210.0, "range")
    rollout = pg.forecast(found, restart_time=5.0, compare=False)[0]
    assert (rollout.deployment.members, rollout.deployment.policy.static) == (3, True)
    with pytest.raises(pg.InvalidConfigError, match="which was measured"):
        pg.size(found, "other", capacity=1.0)


@pytest.mark.parametrize("assignor", ["server:uniform", "server:range", ""])
def test_groups_of_the_consumer_protocol_are_measured(cluster, assignor: str) -> None:
    """The coordinator's assignor has a prefix already; without one, it is the broker's default."""
    cluster[0] = live(assignor, "consumer")
    found = pg.measure_group("broker:9092", "billing", seconds=10)
    assert found.strategy == (assignor or "server:uniform")
    rollout = pg.forecast(found, restart_time=5.0, compare=False)[0]
    assert rollout.deployment.policy.protocol == "consumer"
    assert pg.size(found, capacity=100.0).strategy == found.strategy


def test_the_commands_measure_and_use_the_same_code(cluster: list[LiveGroup], monkeypatch) -> None:
    """Rates of the cluster replace those of a run."""
    monkeypatch.setattr(ClusterOptions, "client_properties", lambda _: {})
    done = CliRunner().invoke(app, ["size", *ON, "--capacity", "100"])
    assert done.exit_code == 0, done.stderr
    assert "210 records/s on 6 partitions" in done.stdout
    assert "measuring billing for 10 s" in done.stderr
    done = CliRunner().invoke(app, ["forecast", *ON, "--rolling-restart", "--restart-time", "5s"])
    assert done.exit_code == 0, done.stderr
    assert "a rolling deployment of all 3 members" in done.stdout


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (live(kind="streams"), "is a Kafka Streams application"),
        (live(count=0), "has no members"),
    ],
)
def test_groups_without_a_forecast_are_errors(cluster, group: LiveGroup, message: str) -> None:
    """Streams groups and empty groups cannot be measured."""
    cluster[0] = group
    with pytest.raises(pg.InvalidConfigError, match=message):
        pg.measure_group("broker:9092", "billing", seconds=1)


def test_an_assignor_of_its_own_needs_a_named_strategy(cluster: list[LiveGroup]) -> None:
    """A group with an unknown assignor is measured; its size needs a strategy from the caller."""
    cluster[0] = live("acme")
    found = pg.measure_group("broker:9092", "billing", seconds=1)
    with pytest.raises(pg.InvalidConfigError, match="acme"):
        pg.size(found, capacity=100.0)
    with pytest.raises(pg.InvalidConfigError, match="acme"):
        pg.forecast(found, restart_time=5.0)
    assert pg.size(found, capacity=100.0, strategy="range").strategy == "range"


def test_a_group_that_does_not_exist_is_an_error(cluster: list[LiveGroup]) -> None:
    """The error names the groups of the cluster."""
    with pytest.raises(pg.InvalidConfigError, match="billing"):
        pg.measure_group("broker:9092", "nothing", seconds=1)
    with pytest.raises(pg.InvalidConfigError, match="seconds"):
        pg.measure_group("broker:9092", "billing", seconds=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("size", "run", *ON), "not both"),
        (("size", "-b", "b:9092", "--capacity", "5"), "name the group"),
        (("size", *ON), "no catch-up phase"),
        (("forecast", *ON, "--rolling-restart"), "no restarts"),
    ],
)
def test_wrong_usage_ends_before_the_measurement(arguments, message: str) -> None:
    """What a measurement cannot show must be given, and is asked for at once."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())
