"""Metrics of a live assignor, in the application's own metrics library."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.support.processes import ROOT, client_python

from partage.clients import assignor_class_state
from partage.clients.assignor_class_state import AssignorState, create_state
from partage.clients.shared import ClusterView, Joined
from partage.errors import AssignorFailedError

LABELS = {"group": "billing", "strategy": "sticky"}
VIEW = ClusterView({"orders": {p: [1] for p in range(6)}}, {1: "a"})


class Meter:
    """A meter in the form of OpenTelemetry's API that keeps what it is given."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = defaultdict(list)

    def instrument(self, name: str, unit: str = "", description: str = "") -> Any:
        def keep(value: float, labels: dict[str, str]) -> None:
            assert labels == LABELS
            assert description
            self.values[name].append(value)

        return SimpleNamespace(record=keep, add=keep, set=keep)

    create_histogram = create_counter = create_gauge = instrument


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    """The meter of an application with OpenTelemetry and without prometheus_client."""
    made = Meter()
    library = ModuleType("opentelemetry.metrics")
    library.__dict__["get_meter"] = lambda _name: made
    monkeypatch.delitem(sys.modules, "prometheus_client", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", library)
    assignor_class_state._create_opentelemetry_metrics.cache_clear()
    return made


def sticky(rack: str | None = None) -> AssignorState:
    return create_state("sticky", client="test", cooperative=False, rack=rack, eager=False)


def lead(leader: AssignorState, members: dict[str, AssignorState]) -> None:
    """Plan one rebalance of the members; each receives its assignment."""
    joined = [Joined(m, state.consumer.subscription(["orders"])) for m, state in members.items()]
    generation = leader.consumer.generation + 1
    plan = leader.assign_as_leader(joined, VIEW, group="billing", generation=generation).plan
    for member, pairs in plan.to_pairs().items():
        if member in members:
            members[member].store_assignment(pairs, None, generation, "billing")


def test_a_plan_is_recorded_with_its_moves_spread_and_rack_mismatches(meter: Meter) -> None:
    """A third member takes two of six claimed partitions; the member on another rack mismatches."""
    members = {"a": sticky("a"), "b": sticky("b")}
    lead(members["a"], members)
    members["c"] = sticky("a")
    lead(members["a"], members)
    values = meter.values
    assert values["partage.assignor.moved_partitions"] == [0, 2]
    assert values["partage.assignor.spread_partitions"] == [0, 0]
    assert values["partage.assignor.rack_mismatches"] == [3, 2]
    assert len(values["partage.assignor.plan.duration"]) == 2
    assert all(0 < seconds < 60 for seconds in values["partage.assignor.plan.duration"])


def test_a_failure_is_counted(meter: Meter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A strategy that raises counts as one failure, and the error reaches the client."""
    state = sticky()

    def fail(*_: object, **__: object) -> None:
        raise AssignorFailedError("sticky", "billing", 1, ValueError("x"))

    monkeypatch.setattr(type(state.consumer), "assign", fail)
    with pytest.raises(AssignorFailedError):
        state.assign_as_leader([], VIEW, group="billing", generation=1)
    assert meter.values == {"partage.assignor.failures": [1]}


def test_a_metrics_library_that_fails_does_not_fail_the_rebalance(
    meter: Meter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The plan is returned, and one warning names the error."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no exporter")

    monkeypatch.setattr(assignor_class_state, "measure", fail)
    members = {"a": sticky()}
    lead(members["a"], members)
    assert members["a"].consumer.owned
    assert "the metrics were not recorded (RuntimeError: no exporter)" in caplog.text


def test_without_a_metrics_library_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge is not called if the application has imported neither library."""
    for name in ("prometheus_client", "opentelemetry.metrics"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(assignor_class_state, "measure", None)
    members = {"a": sticky()}
    lead(members["a"], members)
    assert members["a"].consumer.owned


def test_prometheus_shows_the_metrics_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the default registry, which the application's own server exposes."""
    prometheus = pytest.importorskip("prometheus_client", reason="comes with the extra watch")
    monkeypatch.delitem(sys.modules, "opentelemetry.metrics", raising=False)

    def value(name: str) -> float:
        return prometheus.REGISTRY.get_sample_value(f"partage_assignor_{name}", LABELS) or 0.0

    plans = value("plan_seconds_count")
    moved = value("moved_partitions_total")
    members = {"a": sticky(), "b": sticky()}
    lead(members["a"], members)
    members["c"] = sticky()
    lead(members["a"], members)
    assert value("plan_seconds_count") == plans + 2
    assert value("moved_partitions_total") == moved + 2
    assert value("spread_partitions") == 0
    assignor_class_state.record_failure(**LABELS)
    assert value("failures_total") >= 1


@pytest.mark.soak
def test_the_opentelemetry_sdk_collects_the_plans_of_kafka_python() -> None:
    """Two plans of released libraries: three of six partitions move to the second member."""
    script = ROOT / "tests" / "peers" / "opentelemetry_metrics.py"
    done = subprocess.run(
        [client_python("opentelemetry-sdk-1"), script],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {
        name.removeprefix("partage.assignor."): point
        for name, point in json.loads(done.stdout).items()
    }
    assert all(point["meter"] == "partage" for point in found.values())
    assert all(point["attributes"] == LABELS for point in found.values())
    values = {name: point["value"] for name, point in found.items()}
    assert values == {
        "plan.duration": 2, "moved_partitions": 3, "spread_partitions": 0, "rack_mismatches": 0,
    }  # fmt: skip
    assert found["plan.duration"]["unit"] == "s"
    assert found["plan.duration"]["sum"] > 0
