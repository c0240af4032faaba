"""A recording of `tests/support/streams_live.py` as the simulation takes it, and what it must answer."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.streams_recording import subtopologies

from partage.simulation.streams import (
    ObservedState,
    SimulatedApplication,
    TraceEvent,
    read_application,
)
from partage.streams import HighAvailability, ProcessId, TaskId, TaskPlan, TaskProblem
from partage.wire.streams.assignment_info import decode_assignment_info
from partage.wire.streams.subscription_info import decode_subscription_info

#: Of recordings that do not name it: the broker did not wait, and made one rebalance of what came
#: within the milliseconds that requests took.
_BROKER = {"group.initial.rebalance.delay.ms": 50}
#: By client: tasks, as text.
Rows = dict[str, list[str]]


@dataclass(frozen=True)
class Decided:
    """A rebalance as the leader had it: what it received of each client, and its plan."""

    active: Rows
    standby: Rows
    probing: bool
    withheld: list[str]
    threads: dict[str, list[list[str]]]
    had: Rows
    had_standby: Rows
    lags: dict[str, dict[str, int]]


def application(recording: dict[str, Any]) -> SimulatedApplication:
    """The application with the events of the recording; nobody is there before them."""
    name = recording["name"]
    processes = {client: process for process, client in _clients(recording).items()}
    first, *events = recording["events"]
    assert (first["at"], first["do"]) == (0.0, "join")
    made = read_application(
        {
            "name": name,
            "seconds": recording["seconds"],
            "subtopologies": subtopologies(name),
            "clients": {
                client: {"threads": threads, "process": processes[client]}
                for client, threads in recording["threads"].items()
            },
            "settings": {**_BROKER, **recording["settings"]},
            "events": events,
        }
    )
    # A description needs a client from the beginning; a recording begins without one.
    clients = {key: replace(one, starts=False) for key, one in made.clients.items()}
    comes = TraceEvent(0, "join", (first["client"],))
    return replace(made, clients=clients, events=(comes, *made.events))


def observed_states(recording: dict[str, Any]) -> list[ObservedState]:
    """Lags as the leader had them at each rebalance, and what follows of the ends."""
    names = _clients(recording)
    found = []
    for line in recording["rebalances"]:
        sums: dict[str, dict[TaskId, int]] = {}
        reporters: dict[tuple[str, TaskId], int] = {}
        for name, member in line["members"].items():
            info = decode_subscription_info(base64.b64decode(member["subscription"]))
            said = info.task_offset_sums.to_dict()
            mine = sums.setdefault(str(ProcessId.from_bytes(info.process)), {})
            mine |= {TaskId(*task): total for task, total in said.items()}
            client, thread = _thread(name)
            reporters |= {(client, TaskId(*task)): thread for task in said}
        ends: dict[TaskId, int] = {}
        lags: dict[tuple[str, TaskId], int] = {}
        for process, client in line["clients"].items():
            for text, lag in client["lags"].items():
                task = TaskId.parse(text)
                lags[names[process], task] = lag
                if lag >= 0:
                    ends[task] = lag + sums[process].get(task, 0)
        found.append(ObservedState(ends, lags, line.get("leader"), reporters))
    return found


def decided(recording: dict[str, Any]) -> list[Decided]:
    """What the leader received and decided, rebalance by rebalance."""
    names = _clients(recording)

    def rows(line: dict[str, Any], key: str) -> Rows:
        return {names[process]: sorted(one[key]) for process, one in line["clients"].items()}

    found = []
    for line in recording["rebalances"]:
        given = set()
        threads: dict[str, list[list[str]]] = {}
        for name, member in sorted(line["members"].items()):
            info = decode_assignment_info(base64.b64decode(member["assignment"]))
            given |= {str(TaskId(*task)) for task in info.active}
            threads.setdefault(_thread(name)[0], []).extend(
                sorted(str(TaskId(*task)) for task in tasks)
                for tasks in (info.active, info.standby)
            )
        active = rows(line, "active")
        found.append(
            Decided(
                active,
                rows(line, "standby"),
                line["probing"],
                sorted({task for tasks in active.values() for task in tasks} - given),
                threads,
                rows(line, "had"),
                rows(line, "hadStandby"),
                {names[process]: dict(one["lags"]) for process, one in line["clients"].items()},
            )
        )
    return found


@dataclass
class Listener:
    """High availability, which records its inputs."""

    problems: list[TaskProblem] = field(default_factory=list)
    name: str = HighAvailability.name
    exact_to: str | None = HighAvailability.exact_to

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """Kafka's plan; the problem is kept."""
        self.problems.append(problem)
        return HighAvailability().assign(problem)


def _clients(recording: dict[str, Any]) -> dict[str, str]:
    """Process id -> client, by the names of its consumers."""
    found = {}
    for line in recording["rebalances"]:
        for name, member in line["members"].items():
            info = decode_subscription_info(base64.b64decode(member["subscription"]))
            found[str(ProcessId.from_bytes(info.process))] = _thread(name)[0]
    return found


def _thread(consumer: str) -> tuple[str, int]:
    """Client and number of the thread that a consumer's name tells."""
    client, thread = consumer.split("-consumer-", maxsplit=1)[0].split("-StreamThread-")
    return client, int(thread) - 1
