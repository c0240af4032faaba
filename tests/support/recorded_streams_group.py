"""A recording of `tests/support/streams_group_live.py`: as the simulation takes it, and what it must answer."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.streams_recording import subtopologies

from partage.simulation.streams import SimulatedApplication, TraceEvent, read_application
from partage.wire.group_log import decode_record

#: Of each thread of each client: active tasks, then standbys.
Given = dict[str, list[list[str]]]


@dataclass
class Record:
    """What the coordinator wrote, in seconds since the first instance was started.

    Attributes:
        joined: when each member joined -> its id, client, number of the thread.
        processes: of each client.
        targets: when each was made, and what each client's threads were to have.
        moved: task -> when which client got it, in order.
    """

    joined: list[tuple[float, str, str, int]] = field(default_factory=list)
    processes: dict[str, str] = field(default_factory=dict)
    targets: list[tuple[float, Given]] = field(default_factory=list)
    moved: dict[str, list[tuple[float, str]]] = field(default_factory=dict)


def wrote(recording: dict[str, Any]) -> Record:
    """The records of a recording, read."""
    found = Record()
    client_of: dict[str, tuple[str, int]] = {}
    target: dict[str, list[list[str]]] = {}
    for stamp, key, value in recording["records"]:
        bytes_of = None if value is None else base64.b64decode(value)
        record = decode_record(base64.b64decode(key), bytes_of)
        at, its = (stamp - recording["began"]) / 1000, record.value
        member = record.key.get("memberId", "")
        if record.type == "STREAMS_GROUP_MEMBER_METADATA" and its is None:
            del client_of[member]
        elif record.type == "STREAMS_GROUP_MEMBER_METADATA" and member not in client_of:
            client, thread = its["clientId"].removesuffix("-consumer").split("-StreamThread-")
            client_of[member] = client, int(thread) - 1
            found.joined.append((at, member, client, int(thread) - 1))
            found.processes[client] = its["processId"]
        elif record.type == "STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER":
            target.pop(member, None)
            if its is not None:
                target[member] = [_tasks(its["activeTasks"]), _tasks(its["standbyTasks"])]
        elif record.type == "STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA":
            found.targets.append((at, _by_client(target, client_of)))
        elif record.type == "STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT" and its is not None:
            for task in _tasks(its["activeTasks"]):
                client = client_of[member][0]
                moves = found.moved.setdefault(task, [])
                if not moves or moves[-1][1] != client:
                    moves.append((at, client))
    return found


def _tasks(given: Any) -> list[str]:
    return sorted(
        f"{one['subtopologyId']}_{number}" for one in given for number in one["partitions"]
    )


def _by_client(target: dict[str, list[list[str]]], client_of: dict[str, tuple[str, int]]) -> Given:
    there = sorted((*client_of[member], member) for member in target)
    found: Given = {}
    for client, _, member in there:
        found.setdefault(client, []).extend(target[member])
    return found


def application(recording: dict[str, Any]) -> SimulatedApplication:
    """The application with the events of the recording; nobody is there before them."""
    name, record = recording["name"], wrote(recording)
    lives = _lives(record, recording["threads"])
    joins = [
        {"at": life[0][0], "do": "join", "client": client}
        for client, its in lives.items()
        for life in its
    ]
    settings = {
        f"streams.{key}": value
        for key, value in recording["settings"].items()
        if key != "num.standby.replicas"
    }
    first, *events = sorted([*joins, *recording["killed"]], key=lambda one: one["at"])
    made = read_application(
        {
            "name": name,
            "seconds": recording["seconds"],
            "subtopologies": subtopologies(name),
            "clients": {
                client: {"threads": threads, "process": record.processes[client]}
                for client, threads in recording["threads"].items()
            },
            "settings": {**settings, "num.standby.replicas": 1},
            "events": events,
        }
    )
    clients = {
        client: replace(
            one,
            starts=False,
            consumers=tuple(
                tuple(member for _, _, member in sorted(life, key=lambda one: one[1]))
                for life in lives[client]
            ),
        )
        for client, one in made.clients.items()
    }
    comes = TraceEvent(round(first["at"] * 1000), "join", (first["client"],))
    return replace(made, clients=clients, events=(comes, *made.events))


def _lives(
    record: Record, threads: dict[str, int]
) -> dict[str, list[list[tuple[float, int, str]]]]:
    """Of each client, each time that it starts: when its members joined, thread, and id."""
    found: dict[str, list[list[tuple[float, int, str]]]] = {}
    for at, member, client, thread in record.joined:
        its = found.setdefault(client, [])
        if not its or len(its[-1]) == threads[client]:
            its.append([])
        its[-1].append((at, thread, member))
    return found
