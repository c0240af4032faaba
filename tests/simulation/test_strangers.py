"""Strategies of other packages: what they raise is shown in their row, and costs nobody else."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from tests.support.simulated_histories import SimulatedHistory, cause, history, member, topics

from partage.groups import registry
from partage.groups.api import PlainStrategy
from partage.model import Plan, Problem
from partage.simulation.metrics import PlanMetrics
from partage.tables.statuses import DONE, FAILED, REFUSED


class Breaks(PlainStrategy):
    """Raises what it was made with, at the second call."""

    name = "acme:breaks"

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.calls = 0

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        self.calls += 1
        if self.calls == 2:
            raise self.error
        return registry.find("range").assign(problem)


class Forgets(PlainStrategy):
    """Raises when it receives its assignment."""

    name = "acme:forgets"

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        return registry.find("range").assign(problem)

    def on_assignment(self, assignment, user_data, generation, memory=None) -> object:
        raise ZeroDivisionError("forgot")


class ForgetsLater(PlainStrategy):
    """Receives its plan, and raises when asked for it afterwards."""

    name = "acme:forgets-later"

    def __init__(self) -> None:
        self.calls = 0

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        self.calls = 0
        return registry.find("range").assign(problem)

    def on_assignment(self, assignment, user_data, generation, memory=None) -> object:
        self.calls += 1
        if self.calls > 2:  # two members received their part of the plan
            raise ZeroDivisionError("forgot")
        return None


class WordlessError(Exception):
    """An error whose text raises."""

    def __str__(self) -> str:
        raise ValueError


class NoPlan(PlainStrategy):
    """Its plan is no plan."""

    name = "acme:no-plan"

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        return "nothing"  # type: ignore[return-value]


@pytest.fixture
def plugged_in(monkeypatch):
    """Register strategies as plug-ins, by the entry points of the registry."""

    def register(*made: PlainStrategy) -> None:
        points = {one.name: EntryPoint(one.name, "acme:X", registry.ENTRY_POINTS) for one in made}
        by_value = {one.name: one for one in made}
        monkeypatch.setattr(registry, "_entry_points", lambda: points)
        monkeypatch.setattr(EntryPoint, "load", lambda self: by_value[self.name])

    return register


def thrice() -> SimulatedHistory:
    """The same two members, three times; nobody knows why."""
    both = [member("a", (0, 1)), member("b", (2, 3))]
    made = history(
        (1_000, both, cause("first")), (2_000, both, cause("unknown")),
        (3_000, both, cause("unknown")),
    )  # fmt: skip
    return SimulatedHistory(made, topics(t=4))


@pytest.mark.parametrize("reading", ["per_rebalance", "cumulative"])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
        (WordlessError(), "WordlessError: no message: its __str__ raises"),
        (RuntimeError("x" * 9_999), "RuntimeError: xxx"),
        (RecursionError("a\nb"), "RecursionError: a b"),
        (KeyError("\ud800x"), "KeyError: '\\ud800x'"),
        (OSError("\ud800x"), "OSError: \\ud800x"),
    ],
)
def test_a_plug_in_that_raises_fails_alone(plugged_in, reading, error, message) -> None:
    """Its row says failed, type and message; the others and its next rebalance go on."""
    plugged_in(Breaks(error))
    simulated = thrice()
    rows = getattr(simulated, reading)("acme:breaks")
    assert [r.status for r in rows] == [DONE, FAILED, DONE]
    assert rows[1].detail.startswith(message)
    assert len(rows[1].detail) <= 501
    assert (rows[1].plan, rows[1].measured) == (None, PlanMetrics())
    assert [r.status for r in getattr(simulated, reading)("eager/range")] == [DONE] * 3


@pytest.mark.parametrize("reading", ["per_rebalance", "cumulative"])
@pytest.mark.parametrize(
    ("stranger", "message"),
    [(NoPlan(), "AttributeError"), (Forgets(), "ZeroDivisionError: forgot")],
)
def test_a_plug_in_without_a_plan_or_memory_fails(plugged_in, reading, stranger, message) -> None:
    """What is no plan, or cannot receive its plan, is reported with its name, not as a trace of ours."""
    plugged_in(stranger)
    rows = getattr(thrice(), reading)(stranger.name)
    assert [r.status for r in rows] == [FAILED] * 3
    assert all(message in r.detail for r in rows)


def test_a_plug_in_that_cannot_say_what_it_remembers_fails(plugged_in) -> None:
    """An error before the strategy is asked is reported as one of its own, not swallowed."""
    plugged_in(ForgetsLater())
    rows = thrice().per_rebalance("acme:forgets-later")
    assert [r.status for r in rows] == [DONE, FAILED, FAILED]
    assert rows[1].detail == "ZeroDivisionError: forgot"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(2), MemoryError()])
def test_what_ends_a_process_is_no_failure_of_a_strategy(plugged_in, error) -> None:
    """An interrupt ends the run, in whose code it may be."""
    plugged_in(Breaks(error))
    with pytest.raises(type(error)):
        thrice().cumulative("acme:breaks")


@pytest.mark.parametrize("reading", ["per_rebalance", "cumulative"])
def test_a_refusal_is_reported(reading) -> None:
    """roundrobin:0.8 needs equal subscriptions: a row that says so, and a past without it."""
    unequal = [member("a", (0, 1)), member("b", (2, 3), wants=("t", "u"))]
    made = history((1_000, unequal, cause("first")))
    rows = getattr(SimulatedHistory(made, topics(t=4)), reading)("roundrobin:0.8")
    assert [r.status for r in rows] == [REFUSED]
    assert "needs equal subscriptions" in rows[0].detail
