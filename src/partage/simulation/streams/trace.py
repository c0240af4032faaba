"""The trace of events of a description in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from partage.errors import InvalidProblemError
from partage.simulation.streams.application import EVENTS, ApplicationInstance, ScenarioEvent
from partage.simulation.streams.values import millis, number, only, record, switch, text, whole
from partage.streams import ProcessId

__all__ = ["DAY", "read_events"]

DAY = 86_400
_MOST_EVENTS = 10_000
_MOST_NEW = 1_000
_FIELDS: dict[str, tuple[str, ...]] = {
    "join": ("client",),
    "leave": ("client", "backSeconds"),
    "crash": ("client", "disk", "backSeconds"),
    "rollingRestart": ("downSeconds", "everySeconds", "leaves"),
    "scaleOut": ("like", "count"),
    "brokerLag": ("seconds", "factor"),
    "rebalance": ("client",),
}


def read_events(
    given: object, clients: Mapping[str, ApplicationInstance], length_ms: int
) -> tuple[tuple[ScenarioEvent, ...], dict[str, ApplicationInstance]]:
    """The events in time's order, and all clients, those of a scale-out too.

    A client whose first event is to join is not there before.

    Raises:
        InvalidProblemError: an event is malformed, or beyond the end.
    """
    if not isinstance(given, list) or len(given) > _MOST_EVENTS:
        what = f"must be a list of at most {_MOST_EVENTS} events"
        raise InvalidProblemError(what, path="events", value=given)
    every = dict(clients)
    made = []
    for place, one in enumerate(given):
        where = f"events.{place}"
        made.append(_event(record(one, where), where, every, length_ms))
    made.sort(key=lambda one: one.at_ms)
    first: dict[str, ScenarioEvent] = {}
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


def _event(
    one: Mapping[str, Any], where: str, every: dict[str, ApplicationInstance], length_ms: int
) -> ScenarioEvent:
    kind = one.get("do")
    if kind not in EVENTS:
        what = f"must be one of {', '.join(EVENTS)}"
        raise InvalidProblemError(what, path=f"{where}.do", value=kind)
    only(one, where, ("at", "do", *_FIELDS[kind]))
    if "at" not in one:
        raise InvalidProblemError("is missing", path=f"{where}.at")
    at = millis(one["at"], f"{where}.at", 0, length_ms / 1000)
    back = one.get("backSeconds")
    event = ScenarioEvent(
        at,
        kind,
        disk=switch(one.get("disk", True), f"{where}.disk"),
        back_ms=None if back is None else millis(back, f"{where}.backSeconds", 0.001, 366 * DAY),
        leaves=switch(one.get("leaves", False), f"{where}.leaves"),
    )
    if kind == "brokerLag":
        return replace(
            event,
            for_ms=millis(one.get("seconds", 60), f"{where}.seconds", 0.001, 366 * DAY),
            factor=number(one.get("factor", 0), f"{where}.factor", 0, 1),
        )
    if kind == "scaleOut":
        return replace(event, clients=_copies(one, where, every))
    if kind == "rollingRestart":
        return replace(
            event,
            back_ms=millis(one.get("downSeconds", 30), f"{where}.downSeconds", 0.001, DAY),
            every_ms=millis(one.get("everySeconds", 300), f"{where}.everySeconds", 0, DAY),
        )
    return replace(event, clients=(_known(one, "client", where, every),))


def _known(
    one: Mapping[str, Any], name: str, where: str, every: Mapping[str, ApplicationInstance]
) -> str:
    if name not in one:
        raise InvalidProblemError("is missing", path=f"{where}.{name}")
    client = text(one[name], f"{where}.{name}")
    if client not in every:
        known = ", ".join(list(every)[:20])
        what = f"is no client; there are {known}"
        raise InvalidProblemError(what, path=f"{where}.{name}", value=client)
    return client


def _copies(
    one: Mapping[str, Any], where: str, every: dict[str, ApplicationInstance]
) -> tuple[str, ...]:
    """New clients like one that there is, with names and process ids that nobody has."""
    like = every[_known(one, "like", where, every)]
    count = whole(one.get("count", 1), f"{where}.count", 1, _MOST_NEW)
    made: list[str] = []
    number_of = 1
    taken = {its.process for its in every.values()}
    while len(made) < count:
        number_of += 1
        name = f"{like.name}-{number_of}"
        process = ProcessId(0, len(every) + number_of)
        if name not in every and process not in taken:
            every[name] = replace(like, name=name, process=process)
            taken.add(process)
            made.append(name)
    return tuple(made)
