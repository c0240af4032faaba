"""Which task assignors are stable, converge, and do not care in which order clients come.

Every problem of up to four tasks on up to four clients is tried, all histories among them,
so that a counterexample is a smallest one: fewest tasks, then fewest clients.
"""

from __future__ import annotations

from itertools import product

import pytest

from partage.streams import (
    Client,
    ProcessId,
    Settings,
    TaskId,
    TaskPlan,
    TaskProblem,
    assignors,
    find_assignor,
)

END = 150_000
ROUNDS = 12

#: assignor: the smallest problem (who was active where, clients, standbys) on which the
#: property does not hold; None: it holds on all.
TABLE = {
    # name: (stable, converges, indifferent to the order of clients)
    "streams:high-availability": (None, None, None),
    "streams:legacy-sticky": (None, None, None),
    # Never says that it is done: it does not know lags.
    "streams:fallback-prior": (None, ((None,), 1, 0), None),
    "streams:sticky": (None, None, None),
    "streams:sticky-preserving": (None, None, None),
    # Asks again for ever: the task's warm-up is ready, and it stays where it is.
    "streams:kip-441-document": (None, ((1,), 2, 0), None),
    "streams:0.11": (None, None, None),
    # Actives and standbys change places in the rebalance after the first.
    "streams:0.10.2": (((0, 0, 1, 1), 2, 1), None, None),
}


def _problem(owners, clients, standbys, *, order=1):
    """Tasks that were active on one client each (None: nobody), the rest with full lags."""
    tasks = [TaskId(0, number) for number in range(len(owners))]
    made = [
        Client(
            ProcessId(0, client + 1),
            previous_active=[t for t, owner in zip(tasks, owners, strict=True) if owner == client],
            lags={
                t: -2 if owner == client else END for t, owner in zip(tasks, owners, strict=True)
            },
        )
        for client in range(clients)
    ]
    return _of(made[::order], tasks, standbys)


def _of(clients, tasks, standbys):
    settings = Settings(acceptable_recovery_lag=100, num_standby_replicas=standbys)
    return TaskProblem(clients, tasks, tasks, settings, with_stores=tasks)


def _after(plan: TaskPlan, standbys: int) -> TaskProblem:
    """The next rebalance, when everything that was assigned has caught up."""
    problem = plan.problem
    made = [
        Client(
            one.process,
            previous_active=plan.active_of(one.process),
            previous_standby=plan.standby_of(one.process),
            lags={
                task: -2
                if task in plan.active_of(one.process)
                else 0
                if task in plan.standby_of(one.process)
                else END
                for task in problem.tasks
            },
        )
        for one in problem.clients
    ]
    return _of(made, problem.tasks, standbys)


def _holds(assignor, owners, clients, standbys):
    """(stable, converges, indifferent) for one problem."""
    first = assignor.assign(_problem(owners, clients, standbys))
    plans = [first]
    while len(plans) < ROUNDS and (len(plans) == 1 or plans[-1].to_dict() != plans[-2].to_dict()):
        plans.append(assignor.assign(_after(plans[-1], standbys)))
    converges = plans[-1].to_dict() == plans[-2].to_dict() and not plans[-1].probing
    # Stable: what asks for nothing more is what comes out again.
    calm = next((n for n, one in enumerate(plans[:-1]) if not one.probing), None)
    stable = calm is None or plans[calm + 1].to_dict() == plans[calm].to_dict()
    turned = assignor.assign(_problem(owners, clients, standbys, order=-1))
    return stable, converges, turned.to_dict() == first.to_dict()


def _worlds():
    for tasks in range(1, 5):
        for clients in range(1, 5):
            for owners in product([None, *range(clients)], repeat=tasks):
                for standbys in (0, 1):
                    yield owners, clients, standbys


def _smallest(name):
    """For each property the first problem where it does not hold."""
    found = [None, None, None]
    for world in _worlds():
        for place, good in enumerate(_holds(find_assignor(name), *world)):
            if not good and found[place] is None:
                found[place] = world
    return tuple(found)


def test_the_table_names_every_assignor() -> None:
    """An assignor without a row would be one that nobody has looked at."""
    assert list(TABLE) == list(assignors())


@pytest.mark.parametrize("name", TABLE)
def test_which_properties_hold_with_a_smallest_counterexample(name: str) -> None:
    """What the table says is what trying them all says, counterexamples included."""
    assert _smallest(name) == TABLE[name]
