"""Every strategy, dialect and task assignor returns on skewed problems, loops of its class included.

`make test` tries a sample of each, `make parity` 100,000. A call that does not return within a minute
fails the test: a small problem takes milliseconds.
"""

from __future__ import annotations

import random
import signal
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.skewed_problems import skewed_group
from tests.support.stream_problems import read, server_answer

import partage as pg
from parity.stream_random import nasty_server_group, nasty_stream_problem
from partage.errors import PartageError
from partage.groups.registry import find, strategies
from partage.model import Problem
from partage.streams import TaskPlan, TaskProblem
from partage.streams.registry import find_task_assignors

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds after which a call counts as one that never returns.
PATIENCE = 60


@pytest.fixture(scope="module")
def termination_n(parity_n: int) -> int:
    """How many problems each of them faces: 60, or PARTAGE_PARITY_N if that is above its default."""
    return parity_n if parity_n > 300 else 60


@contextmanager
def patience(what: str) -> Iterator[None]:
    """Fail if the body takes longer than `PATIENCE`."""

    def too_long(*_: object) -> None:
        pytest.fail(f"{what} did not return within {PATIENCE} s", pytrace=False)

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", strategies())
def test_every_strategy_returns_on_skewed_groups(name: str, termination_n: int) -> None:
    """A plan or one of our errors; where the class loops, a valid plan with a warning."""
    rng, strategy, loops = random.Random(f"skewed {name}"), find(name), 0
    for number in range(termination_n):
        topics, group = skewed_group(rng, version_first=name == "kafka-python:sticky")
        cluster = pg.Cluster.from_topics(topics)
        with patience(f"{name}, problem {number}"):
            try:
                plan = strategy.assign(Problem(group, cluster))
            except PartageError:
                continue
        # A share group's assignment is no `Plan`.
        if getattr(plan, "loop", None) is not None:
            loops += 1
            assert any("never returns" in one for one in plan.warnings), (name, number)
            assert not pg.check(plan.settled(), group, cluster), (name, number)
    print(f"{name}: {loops} loops in {termination_n} problems")  # shown by pytest -rP


@pytest.mark.parametrize("name", find_task_assignors())
def test_every_task_assignor_returns_on_skewed_applications(name: str, termination_n: int) -> None:
    """A plan or one of our errors; where KIP-441's document rebalances for ever, a warning."""
    rng, loops = random.Random(f"skewed {name}"), 0
    assignor = find_task_assignors()[name]
    for number in range(termination_n):
        problem = read(nasty_stream_problem(rng, most_tasks=12))
        with patience(f"{name}, problem {number}"):
            try:
                plan = assignor.assign(problem)
                again = assignor.assign(caught_up(plan))
            except PartageError:
                continue
        loops += bool(again.warnings)
        assert not (again.warnings and again.probing), (name, number)
    print(f"{name}: {loops} loops in {termination_n} problems")  # shown by pytest -rP


def caught_up(plan: TaskPlan) -> TaskProblem:
    """Return the next rebalance, when every copy of the plan has all of its state."""
    problem = plan.problem
    clients = []
    for number, one in enumerate(problem.clients):
        active, standby = plan.active_of(one.process), plan.standby_of(one.process)
        lags = {
            task: -2 if task in active else 0 if task in standby else int(lag)
            for task, lag in zip(
                problem.tasks, problem.changelog_lags[number].tolist(), strict=True
            )
        }
        held = {"previous_active": active, "previous_standby": standby}
        clients.append(replace(one, lags=lags, **held))
    stateful = [problem.tasks[task] for task in problem.stateful]
    return TaskProblem(clients, problem.tasks, stateful, problem.settings)


def test_the_coordinators_task_assignor_returns_on_skewed_applications(termination_n: int) -> None:
    """The coordinator's assignor has no loop that is known; each call returns."""
    rng = random.Random("skewed server-sticky")
    for number in range(termination_n):
        with patience(f"streams:server-sticky, problem {number}"), suppress(PartageError):
            server_answer(nasty_server_group(rng))
