"""Parser of simulated applications in JSON; each malformed field is named by its path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from partage.errors import InvalidConfigError, InvalidProblemError
from partage.model.validation import parse_problem
from partage.simulation.streams.application import (
    EVENTS,
    RuntimeSettings,
    SimulatedApplication,
    SimulatedClient,
    TaskState,
    TraceEvent,
)
from partage.streams import AssignmentConfigs, ProcessId, Subtopology, Topology

__all__ = [
    "DAY",
    "OF_ONE_REBALANCE",
    "check_boolean",
    "check_fields",
    "check_int",
    "check_names",
    "check_number",
    "check_object",
    "check_seconds_as_ms",
    "check_text",
    "read_application",
    "read_events",
    "replace_settings",
]

_LONGEST_NAME = 200


def check_object(value: object, path: str) -> Mapping[str, Any]:
    """Check that a parsed JSON value is an object (dict), and return it.

    ``path`` names the value in error messages.
    """
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for one in value):
        raise InvalidProblemError("must be an object", path=path, value=value)
    return value


def check_fields(value: Mapping[str, Any], path: str, allowed: Collection[str]) -> None:
    """Check that a JSON object (``value``) has no other fields than ``allowed``, to find misspelt
    ones.

    ``path`` names the object in error messages.
    """
    for name in value:
        if name not in allowed:
            what = f"is not known here; there are {', '.join(allowed)}"
            raise InvalidProblemError(what, path=f"{path}.{name}", value=value[name])


def check_int(value: object, path: str, minimum: int, maximum: int) -> int:
    """Check that a JSON value is an int from ``minimum`` to ``maximum``, and return it.

    ``path`` names the value in error messages.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        what = f"must be a whole number from {minimum} to {maximum}"
        raise InvalidProblemError(what, path=path, value=value)
    return value


def check_number(value: object, path: str, minimum: float, maximum: float) -> float:
    """Check that a JSON value is a number from ``minimum`` to ``maximum``, and return it as a
    float.

    ``path`` names the value in error messages.
    """
    real = isinstance(value, int | float) and not isinstance(value, bool)
    # Compared as it is: an int of hundreds of digits is no float, and a NaN is within no bounds.
    if not real or not minimum <= value <= maximum:  # type: ignore[operator]  # real says so
        what = f"must be a number from {minimum:g} to {maximum:g}"
        raise InvalidProblemError(what, path=path, value=value)
    return float(value)  # type: ignore[arg-type]  # real says so


def check_seconds_as_ms(value: object, path: str, minimum: float, maximum: float) -> int:
    """Check that a JSON value is a number of seconds within bounds, and return it in milliseconds.

    ``minimum`` and ``maximum`` are the bounds in seconds. ``path`` names the value in error
    messages.
    """
    return round(check_number(value, path, minimum, maximum) * 1000)


def check_text(value: object, path: str) -> str:
    """Check that a JSON value is a non-empty string of bounded length, and return it.

    ``path`` names the value in error messages.
    """
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME:
        what = f"must be text of 1 to {_LONGEST_NAME} characters"
        raise InvalidProblemError(what, path=path, value=value)
    return value


def check_names(value: object, path: str) -> tuple[str, ...]:
    """Check that a JSON value is a list of non-empty strings, and return it as a tuple.

    ``path`` names the value in error messages.
    """
    if not isinstance(value, list | tuple):
        raise InvalidProblemError("must be a list", path=path, value=value)
    return tuple(check_text(one, f"{path}.{place}") for place, one in enumerate(value))


def check_boolean(value: object, path: str) -> bool:
    """Check that a JSON value is a boolean, and return it; ``path`` names it in error messages."""
    if not isinstance(value, bool):
        raise InvalidProblemError("must be true or false", path=path, value=value)
    return value


DAY = 86_400
_MOST_EVENTS = 10_000
_MOST_NEW = 1_000
_EVENT_FIELDS: dict[str, tuple[str, ...]] = {
    "join": ("client",),
    "leave": ("client", "backSeconds"),
    "crash": ("client", "disk", "backSeconds"),
    "rollingRestart": ("downSeconds", "everySeconds", "leaves"),
    "scaleOut": ("like", "count"),
    "brokerLag": ("seconds", "factor"),
    "rebalance": ("client",),
}


def read_events(
    value: object, clients: Mapping[str, SimulatedClient], length_ms: int
) -> tuple[tuple[TraceEvent, ...], dict[str, SimulatedClient]]:
    """Parse the events of a Streams simulation, such as crashes, from JSON.

    Return them in order of time, and all clients, including those that scale-out events add. A
    client whose first event is to join does not run before that event.

    Args:
        value: the JSON list of events.
        clients: dict from name to client.
        length_ms: simulated time.

    Raises:
        InvalidProblemError: an event is malformed, or later than the end of the simulation.
    """
    if not isinstance(value, list) or len(value) > _MOST_EVENTS:
        what = f"must be a list of at most {_MOST_EVENTS} events"
        raise InvalidProblemError(what, path="events", value=value)
    every = dict(clients)
    made = []
    for place, one in enumerate(value):
        where = f"events.{place}"
        made.append(_parse_event(check_object(one, where), where, every, length_ms))
    made.sort(key=lambda one: one.at_ms)
    first: dict[str, TraceEvent] = {}
    for event in made:
        for name in event.clients:
            if event.kind != "rollingRestart":
                first.setdefault(name, event)
    for name, event in first.items():
        if event.kind in {"join", "scaleOut"}:
            every[name] = replace(every[name], starts=False)
    if not any(one.starts for one in every.values()):
        what = "must leave a client that is there from the beginning"
        raise InvalidProblemError(what, path="events", value=[one.kind for one in made])
    return tuple(made), every


def _parse_event(
    value: Mapping[str, Any], path: str, clients: dict[str, SimulatedClient], length_ms: int
) -> TraceEvent:
    """Parse one event of a simulation, such as a crash, from a JSON object.

    ``path`` is the object's name in errors. Clients that a scale-out adds are inserted in
    ``clients``.
    """
    kind = value.get("do")
    if kind not in EVENTS:
        what = f"must be one of {', '.join(EVENTS)}"
        raise InvalidProblemError(what, path=f"{path}.do", value=kind)
    check_fields(value, path, ("at", "do", *_EVENT_FIELDS[kind]))
    if "at" not in value:
        raise InvalidProblemError("is missing", path=f"{path}.at")
    at = check_seconds_as_ms(value["at"], f"{path}.at", 0, length_ms / 1000)
    back = value.get("backSeconds")
    event = TraceEvent(
        at,
        kind,
        disk=check_boolean(value.get("disk", True), f"{path}.disk"),
        back_ms=None
        if back is None
        else check_seconds_as_ms(back, f"{path}.backSeconds", 0.001, 366 * DAY),
        leaves=check_boolean(value.get("leaves", False), f"{path}.leaves"),
    )
    if kind == "brokerLag":
        return replace(
            event,
            for_ms=check_seconds_as_ms(
                value.get("seconds", 60), f"{path}.seconds", 0.001, 366 * DAY
            ),
            factor=check_number(value.get("factor", 0), f"{path}.factor", 0, 1),
        )
    if kind == "scaleOut":
        return replace(event, clients=_add_scale_out_clients(value, path, clients))
    if kind == "rollingRestart":
        return replace(
            event,
            back_ms=check_seconds_as_ms(
                value.get("downSeconds", 30), f"{path}.downSeconds", 0.001, DAY
            ),
            every_ms=check_seconds_as_ms(
                value.get("everySeconds", 300), f"{path}.everySeconds", 0, DAY
            ),
        )
    return replace(event, clients=(_known(value, "client", path, clients),))


def _known(
    one: Mapping[str, Any], name: str, where: str, every: Mapping[str, SimulatedClient]
) -> str:
    if name not in one:
        raise InvalidProblemError("is missing", path=f"{where}.{name}")
    client = check_text(one[name], f"{where}.{name}")
    if client not in every:
        known = ", ".join(list(every)[:20])
        what = f"is no client; there are {known}"
        raise InvalidProblemError(what, path=f"{where}.{name}", value=client)
    return client


def _add_scale_out_clients(
    event: Mapping[str, Any], path: str, clients: dict[str, SimulatedClient]
) -> tuple[str, ...]:
    """Add the new clients of a scale-out event to the dict ``clients``, and return their names.

    They are copies of an existing client, with new names and process ids. ``path`` names the event
    in errors.
    """
    like = clients[_known(event, "like", path, clients)]
    count = check_int(event.get("count", 1), f"{path}.count", 1, _MOST_NEW)
    made: list[str] = []
    number_of = 1
    taken = {its.process for its in clients.values()}
    while len(made) < count:
        number_of += 1
        name = f"{like.name}-{number_of}"
        process = ProcessId(0, len(clients) + number_of)
        if name not in clients and process not in taken:
            clients[name] = replace(like, name=name, process=process)
            taken.add(process)
            made.append(name)
    return tuple(made)


_MOST_TASKS, _MOST_CLIENTS, _MOST_THREADS = 100_000, 2_000, 1_000
_MOST_RECORDS = 10**15
_LONGEST = 366 * DAY
_FIELDS = (
    "name", "seconds", "subtopologies", "clients", "settings", "racks", "events", "start",
)  # fmt: skip
_KAFKA_NAMES = {
    "rack_aware_assignment_traffic_cost": "rack.aware.assignment.traffic_cost",
    "rack_aware_assignment_non_overlap_cost": "rack.aware.assignment.non_overlap_cost",
}
_OF_ASSIGNORS = tuple(
    _KAFKA_NAMES.get(one.name, one.name.replace("_", ".")) for one in fields(AssignmentConfigs)
)
#: Settings of timing that may be 0.
_MAY_BE_NONE = {
    "group.initial.rebalance.delay.ms",
    "streams.initial.rebalance.delay.ms",
    "streams.assignment.interval.ms",
}
_CLIENT_FIELDS = ("threads", "rack", "tags", "restoreBytesPerSecond", "process")
#: Fields of a client that only matter to one rebalance (`partage.simulation.streams.decision`).
OF_ONE_REBALANCE = ("active", "standby", "lags")
_GUARANTEE, _EXACTLY_ONCE = "processing.guarantee", "exactly_once_v2"
#: What Kafka 4 accepts, its default first.
_GUARANTEES = ("at_least_once", _EXACTLY_ONCE)
_OF_TIME = {one.name.replace("_", "."): one for one in fields(RuntimeSettings)}


def read_application(problem: object) -> SimulatedApplication:
    """Parse the input of a Streams simulation from JSON text, a file at a path, or a mapping.

    Raises:
        InvalidProblemError: a field is missing or malformed; ``path`` names it.
        InvalidConfigError: Kafka rejects a setting.
        InvalidTopologyError: tasks cannot be derived from the sub-topologies.

    >>> app = read_application('{"subtopologies": [{"sources": {"in": 4}, "stores": {"s": {}}}],'
    ...            ' "clients": {"a": {"threads": 2}}}')
    >>> len(app.layout.partitions_of), app.length_ms
    (4, 3600000)
    """
    given = parse_problem(problem)
    check_fields(given, "problem", _FIELDS)
    name = check_text(given.get("name", "application"), "name")
    length = check_seconds_as_ms(given.get("seconds", 3600), "seconds", 1, _LONGEST)
    found = _parse_subtopologies(given, name)
    clients = _clients(given)
    events, clients = read_events(given.get("events", []), clients, length)
    start = given.get("start", "caught-up")
    if start not in ("caught-up", "empty"):
        raise InvalidProblemError("must be caught-up or empty", path="start", value=start)
    made = SimulatedApplication(
        name,
        length,
        Topology(found.made),
        found.counts,
        found.states,
        clients,
        events,
        racks=_parse_racks(given),
        caught_up=start == "caught-up",
    )
    if not made.layout.partitions_of:
        raise InvalidProblemError("must make at least one task", path="subtopologies")
    _check_racks(made)
    _check_task_records(made)
    return replace_settings(made, check_object(given.get("settings", {}), "settings"))


def replace_settings(
    application: SimulatedApplication, config: Mapping[str, Any]
) -> SimulatedApplication:
    """Return a copy of a simulated application in which the given settings are replaced.

    Args:
        application: the application to change.
        config: dict from Kafka's names of settings to values, which may be text.

    Raises:
        InvalidProblemError: a setting is unknown, or a time is out of bounds.
        InvalidConfigError: as in `partage.streams.AssignmentConfigs`.

    >>> app = read_application({"subtopologies": [{"sources": {"in": 1}}], "clients": {"a": {}}})
    >>> replace_settings(app, {"num.standby.replicas": "1"}).settings.num_standby_replicas
    1
    """
    check_fields(config, "settings", (*_OF_ASSIGNORS, *_OF_TIME, _GUARANTEE))
    merged = {**application.config, **config}
    guarantee = merged.get(_GUARANTEE, _GUARANTEES[0])
    if guarantee not in _GUARANTEES:
        raise InvalidConfigError(_GUARANTEE, f"must be one of {', '.join(_GUARANTEES)}", guarantee)
    times = {}
    for name, its in _OF_TIME.items():
        if name in merged:
            value = merged[name]
            if isinstance(value, str) and value.isascii() and value.isdigit():
                value = int(value[:20])
            least = 0 if name in _MAY_BE_NONE else 1
            times[its.name] = check_int(value, f"settings.{name}", least, _LONGEST * 1000)
    return replace(
        application,
        settings=AssignmentConfigs.from_config(merged),
        runtime=RuntimeSettings(**times),
        exactly_once=guarantee == _EXACTLY_ONCE,
        config=merged,
    )


# -- sub-topologies ----------------------------------------------------------------------------


@dataclass
class _ParsedSubtopologies:
    """Parsed sub-topologies of a Kafka Streams application, with their topics, task states and
    stores.

    It is filled while the list of sub-topologies is parsed.
    """

    made: list[Subtopology] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    states: dict[int, TaskState] = field(default_factory=dict)
    stores: set[str] = field(default_factory=set)


def _parse_subtopologies(fields: Mapping[str, Any], name: str) -> _ParsedSubtopologies:
    """Parse all sub-topologies of an application with their source topics and stores.

    ``fields`` is the application's JSON object, ``name`` the application's name.
    """
    if "subtopologies" not in fields:
        raise InvalidProblemError("is missing", path="subtopologies")
    listed = fields["subtopologies"]
    if not isinstance(listed, list) or not listed:
        raise InvalidProblemError("must be a list, not empty", path="subtopologies", value=listed)
    found = _ParsedSubtopologies()
    for place, one in enumerate(listed):
        _subtopology(check_object(one, f"subtopologies.{place}"), place, name, found)
    tasks = sum(found.counts.values())
    if tasks > _MOST_TASKS:
        what = f"must have at most {_MOST_TASKS} source partitions"
        raise InvalidProblemError(what, path="subtopologies", value=tasks)
    return found


def _subtopology(
    one: Mapping[str, Any], place: int, name: str, found: _ParsedSubtopologies
) -> None:
    where = f"subtopologies.{place}"
    check_fields(one, where, ("sources", "sinks", "stores", "recordBytes", "readBytesPerSecond"))
    sources = check_object(one.get("sources", {}), f"{where}.sources")
    if not sources:
        raise InvalidProblemError("must name a topic", path=f"{where}.sources", value=sources)
    for topic, count in sources.items():
        if count is not None:
            found.counts[topic] = check_int(count, f"{where}.sources.{topic}", 1, _MOST_TASKS)
    stores = check_object(one.get("stores", {}), f"{where}.stores")
    record_bytes = check_int(one.get("recordBytes", 100), f"{where}.recordBytes", 1, 10**9)
    records, writes = 0, 0.0
    listed: list[tuple[int, ...]] = []
    for store, description in stores.items():
        at = f"{where}.stores.{store}"
        if store in found.stores:
            raise InvalidProblemError("is a store already", path=at, value=store)
        found.stores.add(store)
        its = check_object(description, at)
        check_fields(its, at, ("records", "bytes", "writesPerSecond"))
        if "bytes" in its and "records" in its:
            raise InvalidProblemError("give bytes or records, not both", path=at, value=store)
        in_bytes = "bytes" in its
        size = its.get("bytes" if in_bytes else "records", 0)
        if in_bytes:
            size = _bytes_to_records(size, record_bytes, f"{at}.bytes")
        if isinstance(size, list):
            listed.append(_parse_records_by_task(size, f"{at}.records", listed))
        else:
            records += check_int(size, f"{at}.records", 0, _MOST_RECORDS)
        writes += check_number(its.get("writesPerSecond", 0), f"{at}.writesPerSecond", 0, 1e12)
    found.made.append(
        Subtopology(
            place,
            tuple(sources),
            sinks=check_names(one.get("sinks", []), f"{where}.sinks"),
            repartition={topic: None for topic, count in sources.items() if count is None},
            changelogs=tuple(f"{name}-{store}-changelog" for store in stores),
        )
    )
    found.states[place] = TaskState(
        records,
        writes,
        record_bytes,
        check_number(one.get("readBytesPerSecond", 0), f"{where}.readBytesPerSecond", 0, 1e15),
        tuple(records + sum(of_task) for of_task in zip(*listed, strict=True)),
    )


def _bytes_to_records(value: object, record_bytes: int, path: str) -> int | list[int]:
    """Convert a store's size in bytes, or a list of sizes, to numbers of records, rounded up.

    ``record_bytes`` is the size of one record. ``path`` names the value in errors.
    """
    most = _MOST_RECORDS * record_bytes
    if isinstance(value, list):
        return [-(-check_int(one, f"{path}.{i}", 0, most) // record_bytes)
                for i, one in enumerate(value)]  # fmt: skip
    return -(-check_int(value, path, 0, most) // record_bytes)


def _parse_records_by_task(
    value: list[Any], path: str, other_stores: list[tuple[int, ...]]
) -> tuple[int, ...]:
    """Parse a JSON list with the number of records that a state store has in each Streams task.

    It must be as long as the lists of the sub-topology's other stores (``other_stores``). ``path``
    names it in errors.
    """
    found = tuple(check_int(one, f"{path}.{i}", 0, _MOST_RECORDS) for i, one in enumerate(value))
    if not found or (other_stores and len(other_stores[0]) != len(found)):
        what = "must have a number for each task"
        raise InvalidProblemError(what, path=path, value=len(found))
    return found


# -- clients and racks -------------------------------------------------------------------------


def _clients(given: Mapping[str, Any]) -> dict[str, SimulatedClient]:
    if "clients" not in given:
        raise InvalidProblemError("is missing", path="clients")
    named = check_object(given["clients"], "clients")
    if not 0 < len(named) <= _MOST_CLIENTS:
        what = f"must be 1 to {_MOST_CLIENTS} clients"
        raise InvalidProblemError(what, path="clients", value=len(named))
    made = {
        check_text(name, "clients"): _parse_client(
            name, place, check_object(one, f"clients.{name}")
        )
        for place, (name, one) in enumerate(named.items(), 1)
    }
    processes = [one.process for one in made.values()]
    if len(set(processes)) < len(processes):
        twice = next(one for one in processes if processes.count(one) > 1)
        raise InvalidProblemError("two clients have one process", path="clients", value=str(twice))
    return made


def _parse_client(name: str, client_position: int, fields: Mapping[str, Any]) -> SimulatedClient:
    """Parse the client called ``name`` of a Streams application from the fields of its JSON object.

    ``client_position`` is its position in the list of clients, from which a default process id is
    made.
    """
    where = f"clients.{name}"
    check_fields(fields, where, (*_CLIENT_FIELDS, *OF_ONE_REBALANCE))
    tags = check_object(fields.get("tags", {}), f"{where}.tags")
    rack = fields.get("rack")
    process = ProcessId(0, client_position)
    if "process" in fields:
        given = check_text(fields["process"], f"{where}.process")
        try:
            process = ProcessId.parse(given)
        except InvalidProblemError:
            raise InvalidProblemError(
                "must be a UUID", path=f"{where}.process", value=given
            ) from None
    return SimulatedClient(
        name,
        process,
        check_int(fields.get("threads", 1), f"{where}.threads", 1, _MOST_THREADS),
        None if rack is None else check_text(rack, f"{where}.rack"),
        {key: check_text(fields, f"{where}.tags.{key}") for key, fields in tags.items()},
        check_number(
            fields.get("restoreBytesPerSecond", 50_000_000),
            f"{where}.restoreBytesPerSecond",
            1,
            1e15,
        ),
    )


def _parse_racks(fields: Mapping[str, Any]) -> dict[str, tuple[frozenset[str], ...]]:
    """Parse the racks of each partition's replicas from a JSON object (``fields``).

    Return a dict from topic to a tuple with a set of racks for each partition.
    """
    made = {}
    for topic, rows in check_object(fields.get("racks", {}), "racks").items():
        if not isinstance(rows, list):
            what = "must be a list with the racks of each partition"
            raise InvalidProblemError(what, path=f"racks.{topic}", value=rows)
        made[topic] = tuple(
            frozenset(check_names(row, f"racks.{topic}.{number}"))
            for number, row in enumerate(rows)
        )
    return made


def _check_racks(application: SimulatedApplication) -> None:
    for topic, rows in application.racks.items():
        count = application.all_counts.get(topic)
        if count is None:
            known = ", ".join(sorted(application.all_counts))
            what = f"is no topic of the application; there are {known}"
            raise InvalidProblemError(what, path=f"racks.{topic}", value=topic)
        if count != len(rows):
            what = f"must have a row for each of {count} partitions"
            raise InvalidProblemError(what, path=f"racks.{topic}", value=len(rows))


def _check_task_records(application: SimulatedApplication) -> None:
    """Check that each list of record counts in the input has one entry per Kafka Streams task.

    An input may give the number of records of each task's state. This is checked at the end,
    because the number of tasks follows from all sub-topologies.
    """
    tasks = Counter(task.subtopology for task in application.layout.partitions_of)
    for sub, state in application.states.items():
        count = len(state.records_by_task)
        if count and count != tasks[sub]:
            what = f"must have lists of records for each of {tasks[sub]} tasks"
            raise InvalidProblemError(what, path=f"subtopologies.{sub}.stores", value=count)
