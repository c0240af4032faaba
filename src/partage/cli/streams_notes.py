"""What figures of `partage streams` do not tell by themselves: racks, events, sub-topologies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partage.simulation.streams import SimulatedApplication, TraceEvent

__all__ = ["crossing", "events_told", "rack_note", "standby_notes", "subtopologies_told"]

_MOST_NAMED = 5


def _without_racks(app: SimulatedApplication, *, changelogs: bool = True) -> list[str]:
    layout = app.layout
    rows = [*layout.partitions_of.values(), *(layout.changelogs_of.values() if changelogs else ())]
    topics = {topic for row in rows for topic, _ in row}
    return sorted(topic for topic in topics if not all(app.racks.get(topic, [None])))


def crossing(app: SimulatedApplication) -> tuple[str, str | None]:
    """What stands before traffic across racks, "-" if nothing is known; and why.

    A topic without racks, or a client without one, counts nothing.
    """
    if not app.racks or all(client.rack is None for client in app.clients.values()):
        return "-", None
    missing = _without_racks(app)
    if missing:
        return ">=", f"cross-rack: the racks of these topics are unknown: {_some(missing)}"
    return "", None


def rack_note(app: SimulatedApplication, configs: Sequence[Mapping[str, Any]]) -> str | None:
    """Why a rack strategy that was asked for does nothing, as in Kafka; None if it does."""
    key = "rack.aware.assignment.strategy"
    asking = [
        every
        for config in configs
        if (every := {**app.config, **config}).get(key, "none") != "none"
    ]
    if not asking:
        return None
    # Without standbys nobody looks at the racks of changelogs.
    standbys = any(int(every.get("num.standby.replicas", 0)) for every in asking)
    missing = _without_racks(app, changelogs=standbys)
    homeless = sorted(name for name, one in app.clients.items() if one.rack is None)
    why = [f"the racks are unknown of {_some(missing)}"] if missing else []
    why += [f"{_some(homeless)} {'has' if len(homeless) == 1 else 'have'} none"] if homeless else []
    return f"{key} has no effect: {'; '.join(why)}" if why else None


def standby_notes(app: SimulatedApplication, configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a warning for each configured number of standbys that the clients cannot hold.

    All clients count, also those that join later: fewer may be up at a time.
    """
    from partage.streams.standbys import standby_shortage

    key = "num.standby.replicas"
    wanted = dict.fromkeys(int({**app.config, **config}.get(key, 0)) for config in configs)
    notes = (standby_shortage(replicas, len(app.clients)) for replicas in wanted)
    return [f"warning: {note}" for note in notes if note is not None]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def subtopologies_told(app: SimulatedApplication) -> list[str]:
    """Each sub-topology with what it reads and keeps: what the first number of a task means."""
    told = []
    for one in app.topology.subtopologies:
        stores = [
            log.removeprefix(f"{app.name}-").removesuffix("-changelog") for log in one.changelogs
        ]
        kept = f", keeps {', '.join(stores)}" if stores else ""
        told.append(f"{one.number}: reads {', '.join(one.sources)}{kept}")
    return told


def events_told(app: SimulatedApplication) -> list[dict[str, Any]]:
    """Each event with its time in seconds, and in words."""
    return [{"at": one.at_ms / 1000, "label": _event(one)} for one in app.events]


def _event(one: TraceEvent) -> str:
    words = [one.kind, *one.clients[:_MOST_NAMED]]
    if one.kind == "brokerLag":
        words.append(f"for {one.for_ms / 1000:,.0f} s, {one.factor:.0%} of the rate")
    if one.kind == "crash" and not one.disk:
        words.append("without its disk")
    if one.back_ms is not None:
        words.append(f"back after {one.back_ms / 1000:,.0f} s")
    return " ".join(words)
