"""Which task assignors are stable, converge, and do not care in which order clients come.

`make parity` tries every problem of up to four tasks on up to four clients, all histories among
them, and `make test` those of up to three clients. A counterexample is therefore a smallest one:
fewest tasks, then fewest clients. With racks, and with client tags, it is up to three of each.
"""

from __future__ import annotations

import os
from itertools import product

import pytest

from partage.streams import (
    AssignmentConfigs,
    ClientState,
    PartitionRacks,
    ProcessId,
    TaskId,
    TaskPlan,
    TaskProblem,
    find_assignor,
    find_task_assignors,
)
from partage.streams.kip1071_sticky import ServerMember, ServerSticky, ServerSubtopology

pytestmark = pytest.mark.parity

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
    # Asks for another rebalance at once, always: Kafka's class is for one round.
    "streams:sticky-preserving": (None, ((None,), 1, 0), None),
    "streams:kip-441-document": (None, None, None),
    "streams:0.11": (None, None, None),
    # Actives and standbys change places in the rebalance after the first.
    "streams:0.10.2": (((0, 0, 1, 1), 2, 1), None, None),
}


_FULL = os.environ.get("PARTAGE_HYPOTHESIS") == "full"
#: Clients without racks and tags; tasks and clients with racks or tags: `make test` tries few.
MOST_CLIENTS = 4 if _FULL else 3
MOST_WITH_RACKS = 3 if _FULL else 2

MODES = ("min_traffic", "balance_subtopology", "tags")


def _settings(mode, standbys):
    racks = mode in {"min_traffic", "balance_subtopology"}
    return AssignmentConfigs(
        acceptable_recovery_lag=100,
        num_standby_replicas=standbys,
        rack_aware_assignment_strategy=mode if racks else "none",
        # KIP-924's helpers optimise only where both are set; these are high availability's own.
        rack_aware_assignment_traffic_cost=10 if racks else None,
        rack_aware_assignment_non_overlap_cost=1 if racks else None,
        rack_aware_assignment_tags=("zone",) if mode == "tags" else (),
    )


def _racks(tasks):
    """Partition p lies in rack p, its changelog in rack p + 1, of three racks."""
    return {
        t: PartitionRacks(
            (frozenset({f"r{t.partition % 3}"}),), (frozenset({f"r{(t.partition + 1) % 3}"}),)
        )
        for t in tasks
    }


def _client(number, active, standby, lags):
    """Client n is in rack n and zone n mod 2."""
    place = {"tags": {"zone": f"z{number % 2}"}, "rack": f"r{number % 3}"}
    return ClientState(ProcessId(0, number + 1), 1, active, standby, lags, **place)


def _problem(mode, owners, clients, standbys, *, order=1):
    """Tasks that were active on one client each (None: nobody), the rest with full lags."""
    tasks = [TaskId(0, number) for number in range(len(owners))]
    made = [
        _client(
            client,
            [t for t, owner in zip(tasks, owners, strict=True) if owner == client],
            [],
            {t: -2 if owner == client else END for t, owner in zip(tasks, owners, strict=True)},
        )
        for client in range(clients)
    ]
    return _of(made[::order], tasks, _settings(mode, standbys))


def _of(clients, tasks, settings):
    return TaskProblem(clients, tasks, tasks, settings, racks=_racks(tasks), with_stores=tasks)


def _after(plan: TaskPlan) -> TaskProblem:
    """The next rebalance, when everything that was assigned has caught up."""
    problem = plan.problem
    made = []
    for one in problem.clients:
        active, standby = plan.active_of(one.process), plan.standby_of(one.process)
        lags = {t: -2 if t in active else 0 if t in standby else END for t in problem.tasks}
        made.append(_client(one.process.lsb - 1, active, standby, lags))
    return _of(made, problem.tasks, problem.settings)


def _holds(assignor, mode, owners, clients, standbys):
    """(stable, converges, indifferent) for one problem."""
    first = assignor.assign(_problem(mode, owners, clients, standbys))
    plans = [first]
    while len(plans) < ROUNDS and (len(plans) == 1 or plans[-1].to_dict() != plans[-2].to_dict()):
        plans.append(assignor.assign(_after(plans[-1])))
    again = plans[-1].probing or plans[-1].follow_up
    converges = plans[-1].to_dict() == plans[-2].to_dict() and not again
    # Stable: a plan that requests no follow-up returns unchanged.
    calm = next((n for n, one in enumerate(plans[:-1]) if not one.probing), None)
    stable = calm is None or plans[calm + 1].to_dict() == plans[calm].to_dict()
    turned = assignor.assign(_problem(mode, owners, clients, standbys, order=-1))
    return stable, converges, turned.to_dict() == first.to_dict()


def _worlds(most_tasks, most_clients):
    for tasks in range(1, most_tasks + 1):
        for clients in range(1, most_clients + 1):
            for owners in product([None, *range(clients)], repeat=tasks):
                for standbys in (0, 1):
                    yield owners, clients, standbys


def _smallest(name, mode="none", most_tasks=4, most_clients=MOST_CLIENTS):
    """For each property the first problem where it does not hold."""
    found = [None, None, None]
    for world in _worlds(most_tasks, most_clients):
        for place, good in enumerate(_holds(find_assignor(name), mode, *world)):
            if not good and found[place] is None:
                found[place] = world
    return tuple(found)


def test_the_table_names_every_assignor() -> None:
    """An assignor without a row would be one that nobody has looked at."""
    assert list(TABLE) == list(find_task_assignors())


@pytest.mark.parametrize("name", TABLE)
def test_which_properties_hold_with_a_smallest_counterexample(name: str) -> None:
    """What the table says is what trying them all says, counterexamples included."""
    assert _smallest(name) == TABLE[name]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TABLE)
def test_racks_and_tags_change_nothing_of_it(name: str, mode: str) -> None:
    """With racks and tags the same holds, and what does not hold fails on the same problem."""
    most = MOST_WITH_RACKS
    plain = tuple(
        None if one is not None and max(len(one[0]), one[1]) > most else one for one in TABLE[name]
    )
    assert _smallest(name, mode, most, most) == plain


#: The same of the coordinator's assignor (KIP-1071), which sees processes and members: owner of
#: each task among the members before, process of each member, standbys. A standby may find another
#: place once more; every target is at rest soon.
SERVER = (((None, None), (0, 0, 1, 2), 1), 2)


def _server_worlds():
    for tasks in (1, 2):
        for members in (1, 2, 3, 4):
            for processes in product(range(3), repeat=members):
                if list(dict.fromkeys(processes)) != sorted(set(processes)):
                    continue
                for owners in product([None, *range(members)], repeat=tasks):
                    for standbys in (0, 1):
                        yield owners, processes, standbys


def _server_plan(state, processes, tasks, standbys, *, order=1):
    members = [
        ServerMember(f"m{n}", f"p{process}", *state.get(f"m{n}", ({}, {})))
        for n, process in enumerate(processes)
    ]
    plan = ServerSticky().assign(
        [ServerSubtopology("0", tasks, stateful=True)],
        members[::order],
        {"num.standby.replicas": str(standbys)},
    )
    return {
        name: ({"0": sorted(n for _, n in plan.active[name])},
               {"0": sorted(n for _, n in plan.standby[name])})
        for name in sorted(plan.active)
    }  # fmt: skip


def test_what_holds_of_the_coordinators_assignor() -> None:
    """A smallest problem whose second target is another; all come to rest; clients' order is nothing."""
    unstable, longest = None, 0
    for owners, processes, standbys in _server_worlds():
        state = {
            f"m{n}": ({"0": [task for task, owner in enumerate(owners) if owner == n]}, {})
            for n in range(len(processes))
        }
        plans = [_server_plan(state, processes, len(owners), standbys)]
        turned = _server_plan(state, processes, len(owners), standbys, order=-1)
        assert turned == plans[0], (owners, processes, standbys)
        while len(plans) < ROUNDS and (len(plans) == 1 or plans[-1] != plans[-2]):
            plans.append(_server_plan(plans[-1], processes, len(owners), standbys))
        assert plans[-1] == plans[-2], (owners, processes, standbys)
        longest = max(longest, len(plans) - 1)
        if plans[1] != plans[0] and unstable is None:
            unstable = owners, processes, standbys
    assert (unstable, longest) == SERVER
