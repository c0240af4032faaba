"""The decision of a Streams leader in one rebalance, from given lags (KIP-441).

Active, standby and warm-up tasks are those of a task assignor of `partage.streams`. The input is
the file of `partage streams`; each client also has its previous tasks and lags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from partage.errors import InvalidProblemError
from partage.model.validation import parse_problem
from partage.simulation.streams.application import SimulatedApplication
from partage.simulation.streams.application_parser import (
    OF_ONE_REBALANCE,
    check_int,
    check_names,
    check_object,
    read_application,
)
from partage.streams import (
    LATEST_OFFSET,
    UNKNOWN_OFFSET_SUM,
    ClientState,
    PartitionRacks,
    TaskAssignor,
    TaskId,
    TaskPlan,
    TaskProblem,
)
from partage.streams.assignment_configs import LONG_MAX
from partage.streams.standbys import standby_shortage

__all__ = ["GivenClientStates", "LeaderDecision", "decide", "read_client_states"]

#: Fields of the file that only matter over time.
_OVER_TIME = ("seconds", "start", "events")
#: Tasks that an error names.
_MOST_NAMED = 8
_LAG_WORDS = {"running": LATEST_OFFSET, "unknown": UNKNOWN_OFFSET_SUM}


@dataclass(frozen=True)
class GivenClientStates:
    """The input of `decide`: a Streams application, and the tasks and lags of its clients.

    Attributes:
        application: the application, without events.
        active, standby: dict from client name to the tasks that it had before the rebalance.
        lags: dict from client to lag (number of missing records) of each stateful task; -2 if the
            client runs it, -3 if the lag is unknown.
    """

    application: SimulatedApplication
    active: Mapping[str, tuple[TaskId, ...]]
    standby: Mapping[str, tuple[TaskId, ...]]
    lags: Mapping[str, Mapping[TaskId, int]]


@dataclass(frozen=True)
class LeaderDecision:
    """The task assignment that the leader of a Kafka Streams application decides in one rebalance.

    Attributes:
        assignor: name of the task assignor.
        plan: the assigned tasks of each client, by client number.
        clients: client names by client number.
        revoked: tasks that their previous owner revokes first; an immediate follow-up rebalance
            assigns them.
        probing_after_ms: time until the next probing rebalance, None if none follows.
        warnings: warnings for the operator.
    """

    assignor: str
    plan: TaskPlan
    clients: tuple[str, ...]
    revoked: tuple[TaskId, ...]
    probing_after_ms: int | None
    warnings: tuple[str, ...]

    def tasks_of(self, client: int) -> dict[str, list[str]]:
        """Return the task ids of one Streams client, in lists ``active``, ``standby`` and
        ``warmup``.

        ``client`` is the client's number.
        """
        tasks, plan = self.plan.problem.tasks, self.plan
        warming = {task for one, task in plan.warmups if one == client}
        return {
            "active": [str(tasks[task]) for task in plan.active[client]],
            "standby": [str(tasks[task]) for task in plan.standby[client] if task not in warming],
            "warmup": [str(tasks[task]) for task in plan.standby[client] if task in warming],
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the Streams leader's task assignment as a dict that JSON can represent.

        It has, for example, the tasks of each client and the tasks that are revoked first.
        """
        return {
            "assignor": self.assignor,
            "clients": {name: self.tasks_of(one) for one, name in enumerate(self.clients)},
            "revokedFirst": [str(task) for task in self.revoked],
            "rebalanceAtOnce": [self.clients[one] for one in self.plan.follow_up],
            "probingRebalance": self.probing_after_ms is not None,
            "probingRebalanceAfterMs": self.probing_after_ms,
            "warnings": list(self.warnings),
        }


def read_client_states(problem: object) -> GivenClientStates:
    """Parse an application with its clients' tasks and lags, from JSON text, a file or a mapping.

    A client's field ``lags`` maps stateful tasks to offsets, ``"running"`` or ``"unknown"``. A
    missing task runs if it is in ``active``; else the client has no state of it, and the lag is all
    of its ``records``.

    Raises:
        InvalidProblemError: a field is missing or malformed; ``path`` names it.
        InvalidConfigError: a setting is invalid, as in Kafka.

    >>> state = read_client_states({
    ...     "subtopologies": [{"sources": {"in": 2}, "stores": {"s": {"records": 50000}}}],
    ...     "clients": {"a": {"active": ["0_0", "0_1"]}, "b": {"lags": {"0_1": 20}}}})
    >>> {str(task): lag for task, lag in state.lags["b"].items()}
    {'0_0': 50000, '0_1': 20}
    """
    given = dict(parse_problem(problem))
    for field in _OVER_TIME:
        given.pop(field, None)
    described = {
        name: check_object(one, f"clients.{name}")
        for name, one in check_object(given.get("clients", {}), "clients").items()
    }
    given["clients"] = {
        name: {key: value for key, value in one.items() if key not in OF_ONE_REBALANCE}
        for name, one in described.items()
    }
    application = read_application(given)
    active = {
        name: _parse_tasks(application, one, name, "active") for name, one in described.items()
    }
    standby = {
        name: _parse_tasks(application, one, name, "standby") for name, one in described.items()
    }
    lags = {
        name: _parse_lags(application, one, name, active[name]) for name, one in described.items()
    }
    return GivenClientStates(application, active, standby, lags)


def decide(state: GivenClientStates, assignor: TaskAssignor) -> LeaderDecision:
    """Run a task assignor on the given client states, as a Streams leader does in a rebalance.

    ``state`` has the application and its clients' tasks and lags.

    Raises:
        InvalidProblemError: a task is both active and standby on one client.

    >>> from partage.streams import find_assignor
    >>> state = read_client_states({
    ...     "subtopologies": [{"sources": {"in": 2}, "stores": {"s": {"records": 50000}}}],
    ...     "clients": {"a": {"active": ["0_0", "0_1"]}, "b": {}}})
    >>> found = decide(state, find_assignor("high-availability"))
    >>> found.tasks_of(0)
    {'active': ['0_0', '0_1'], 'standby': [], 'warmup': []}
    >>> found.tasks_of(1)
    {'active': [], 'standby': [], 'warmup': ['0_1']}
    >>> found.probing_after_ms
    600000
    """
    application = state.application
    problem = _problem(state)
    plan = assignor.assign(problem)
    by_process = {one.process: name for name, one in application.clients.items()}
    clients = tuple(by_process[one.process] for one in problem.clients)
    owners = {
        problem.tasks[task]: clients[number]
        for number, mine in enumerate(plan.active)
        for task in mine
    }
    revoked = {
        task
        for name, mine in state.active.items()
        for task in mine
        if owners.get(task, name) != name
    }
    shortage = standby_shortage(application.settings.num_standby_replicas, len(clients))
    interval = application.settings.probing_rebalance_interval_ms
    return LeaderDecision(
        assignor.name,
        plan,
        clients,
        tuple(sorted(revoked)),
        interval if plan.probing else None,
        (*([shortage] if shortage else []), *plan.warnings),
    )


def _parse_tasks(
    application: SimulatedApplication, fields: Mapping[str, Any], client: str, field: str
) -> tuple[TaskId, ...]:
    """Parse a list of task ids from a field of a client's JSON object.

    ``fields`` is the object, ``client`` the client's name.
    """
    where = f"clients.{client}.{field}"
    return tuple(
        _task(application, text, f"{where}.{place}")
        for place, text in enumerate(check_names(fields.get(field, []), where))
    )


def _task(application: SimulatedApplication, text: str, where: str) -> TaskId:
    known = application.layout.partitions_of
    try:
        task = TaskId.parse(text)
    except InvalidProblemError:
        raise InvalidProblemError("must be a task id such as 0_1", path=where, value=text) from None
    if task not in known:
        there = ", ".join(str(one) for one in sorted(known)[:_MOST_NAMED])
        raise InvalidProblemError(
            f"is no task of the application; it has {len(known)}: {there}", path=where, value=text
        )
    return task


def _parse_lags(
    application: SimulatedApplication,
    fields: Mapping[str, Any],
    client: str,
    active: Sequence[TaskId],
) -> dict[TaskId, int]:
    """Parse the lags of a client's stateful tasks from the fields of its JSON object.

    A missing task counts as running if it is in ``active``, else the client has no state of it.
    """
    where = f"clients.{client}.lags"
    given = {
        _task(application, text, where): _lag(fields, f"{where}.{text}")
        for text, fields in check_object(fields.get("lags", {}), where).items()
    }
    stateful = application.layout.changelogs_of
    for task in given:
        if task not in stateful:
            raise InvalidProblemError("has no state, so no lag", path=where, value=str(task))
    found = {}
    for task in sorted(stateful):
        records = application.state_of(task).records
        if task in given:
            found[task] = given[task]
        elif task in active:
            found[task] = LATEST_OFFSET
        elif records:
            found[task] = records
        else:
            what = f"must have {task}, or its sub-topology's stores must have records"
            raise InvalidProblemError(what, path=where, value=sorted(map(str, given)))
    return found


def _lag(value: object, where: str) -> int:
    if isinstance(value, str):
        if value not in _LAG_WORDS:
            what = "must be a number of offsets, running or unknown"
            raise InvalidProblemError(what, path=where, value=value)
        return _LAG_WORDS[value]
    return check_int(value, where, 0, LONG_MAX)


def _problem(state: GivenClientStates) -> TaskProblem:
    application = state.application
    layout = application.layout
    tasks = layout.task_arrival
    for field, held in (("active", state.active), ("standby", state.standby)):
        _check_no_duplicates(field, held)
    clients = [
        ClientState(
            one.process,
            one.threads,
            state.active[name],
            state.standby[name],
            state.lags[name],
            one.tags,
            one.rack,
        )
        for name, one in application.clients.items()
    ]

    def racks(partitions: Sequence[tuple[str, int]]) -> tuple[frozenset[str] | None, ...]:
        known = application.racks
        return tuple(known[topic][n] if topic in known else None for topic, n in partitions)

    return TaskProblem(
        clients,
        tasks,
        [task for task in tasks if task in layout.changelogs_of],
        application.settings,
        racks={
            task: PartitionRacks(
                racks(layout.partitions_of[task]), racks(layout.changelogs_of.get(task, ()))
            )
            for task in tasks
        },
        with_stores=layout.with_stores,
    )


def _check_no_duplicates(field: str, tasks_by_client: Mapping[str, tuple[TaskId, ...]]) -> None:
    """Check that no client's list of Streams tasks contains a task twice.

    ``field`` names the list in error messages.
    """
    for name, tasks in tasks_by_client.items():
        if len(set(tasks)) < len(tasks):
            twice = next(str(task) for task in tasks if tasks.count(task) > 1)
            raise InvalidProblemError(
                "must name a task once", path=f"clients.{name}.{field}", value=twice
            )
