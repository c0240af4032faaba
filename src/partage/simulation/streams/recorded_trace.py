"""Trace of a recorded Kafka Streams application: when its clients started and stopped.

A client is known by its process id, which it stores on disk. A client that returns with its id
still has its state; one that lost its disk draws a new id, and is another client. Recorded
rebalances show clients only when a rebalance ends:

* A client that sent LeaveGroup stopped when the rebalance was recorded, an evicted one a session
  timeout before.
* A client of a classic group joined before the record, because all members had to rejoin within
  their heartbeat intervals. A streams group computes a target with the heartbeat that joins.
* A client whose threads all have new member ids restarted. It came back between its stop and the
  record: half of that time is assumed.

Threads that start or stop while their client runs are not simulated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from partage.simulation.streams.application import (
    SimulatedApplication,
    SimulatedClient,
    TraceEvent,
)
from partage.streams.recorded_application import client_name
from partage.streams.task_ids import ProcessId

__all__ = ["ClientThread", "RecordedChange", "RecordedTrace", "apply_trace", "record_trace"]

#: ``group.initial.rebalance.delay.ms`` and its counterpart of streams groups.
_INITIAL_DELAY_MS = 3_000
_THREAD_NUMBER = re.compile(r"-StreamThread-(\d+)")


@dataclass(frozen=True)
class ClientThread:
    """A stream thread of a recorded application: one member of the group.

    Attributes:
        member: member id.
        client_id: client id of its consumer, which has the number of the thread.
        rack: ``client.rack``; None without one.
        tags: its client tags.
    """

    member: str
    client_id: str
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def sort_key(self) -> tuple[int, str]:
        """Sort key of a stream thread: the thread number in its client id, then its member id.

        With it, the threads of a client are always listed in the same order.
        """
        found = _THREAD_NUMBER.search(self.client_id)
        return int(found[1]) if found else 0, self.member


@dataclass(frozen=True)
class RecordedChange:
    """The Streams clients of one recorded rebalance, and the members that stopped before it.

    Attributes:
        at_ms: time of its record.
        clients: dict from process id to threads.
        stopped: dict from member id to (time of the stop, whether its session timed out) for
            members of the previous rebalance that are missing.
    """

    at_ms: int
    clients: Mapping[ProcessId, tuple[ClientThread, ...]]
    stopped: Mapping[str, tuple[int, bool]] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordedTrace:
    """Clients of a recorded application and the times at which they start and stop.

    Attributes:
        from_ms: time of the first rebalance, at which the simulation begins.
        to_ms: end of the simulation.
        clients: dict from name to client; those of the first rebalance run from the beginning.
        events: starts and stops, in order of time from ``from_ms`` on.
    """

    from_ms: int
    to_ms: int
    clients: Mapping[str, SimulatedClient]
    events: tuple[TraceEvent, ...]


@dataclass
class _Run:
    """A time span in which a Streams client ran without interruption.

    It lasts from the client's start to its stop, in milliseconds.
    """

    start_ms: int
    threads: tuple[ClientThread, ...]
    stop_ms: int | None = None
    expired: bool = False


def record_trace(
    application: str,
    changes: Sequence[RecordedChange],
    end_ms: int,
    *,
    heartbeat_ms: float,
    is_streams_group: bool,
    most_events: int,
) -> RecordedTrace:
    """Derive the starts and stops of an application's clients (a trace) from recorded rebalances.

    Args:
        application: ``application.id``, which clients' ids begin with.
        changes: the rebalances in order, each with its clients.
        end_ms: end of the log.
        heartbeat_ms: heartbeat interval of a classic group.
        is_streams_group: whether the application uses the streams protocol.
        most_events: with more starts and stops, only the newest are in the trace.

    Raises:
        ValueError: no rebalance has a client.

    >>> one, two = (ClientThread(f"m{n}", f"shop-h{n}-StreamThread-1-consumer") for n in (1, 2))
    >>> a, b = ProcessId(0, 1), ProcessId(0, 2)
    >>> changes = [RecordedChange(0, {a: (one,), b: (two,)}),
    ...            RecordedChange(60_000, {a: (one,)}, {"m2": (15_000, True)})]
    >>> found = record_trace("shop", changes, 90_000, heartbeat_ms=3_000, is_streams_group=False,
    ...                      most_events=9)
    >>> [(one.at_ms, one.kind, one.clients) for one in found.events]
    [(15000, 'crash', ('h2',))]
    """
    lead_ms = 0.0 if is_streams_group else heartbeat_ms
    first = _find_first_change(changes, lead_ms, most_events)
    from_ms = changes[first].at_ms
    runs = _find_runs(changes[first:], lead_ms)
    names = _names(application, runs)
    return RecordedTrace(
        from_ms,
        max(end_ms, changes[-1].at_ms + 1),
        _list_clients(names, runs, from_ms),
        tuple(
            replace(one, clients=(names[process],)) for process, one in _list_events(runs, from_ms)
        ),
    )


def _find_first_change(changes: Sequence[RecordedChange], lead_ms: float, most_events: int) -> int:
    """Return the index of the recorded rebalance at which a simulation begins.

    It is the first rebalance with clients after which at most ``most_events`` clients start or
    stop. A client starts ``lead_ms`` before its first rebalance.

    Raises:
        ValueError: no rebalance has a client.
    """
    with_clients = [i for i, one in enumerate(changes) if one.clients]
    if not with_clients:
        raise ValueError("no rebalance has a client")
    first = with_clients[0]
    events = _list_events(_find_runs(changes[first:], lead_ms), changes[first].at_ms)
    if len(events) <= most_events:
        return first
    cut_ms = changes[first].at_ms + events[-most_events][1].at_ms
    return next((i for i in with_clients if changes[i].at_ms >= cut_ms), with_clients[-1])


def _find_runs(changes: Sequence[RecordedChange], lead_ms: float) -> dict[ProcessId, list[_Run]]:
    """Return the time spans in which each Streams client ran, derived from recorded rebalances.

    ``changes`` are the rebalances. A client starts up to ``lead_ms`` before its first one.
    """
    runs: dict[ProcessId, list[_Run]] = {}
    before: Mapping[ProcessId, tuple[ClientThread, ...]] = {}
    for number, now in enumerate(changes):
        earlier_ms = changes[number - 1].at_ms if number else now.at_ms
        for process, threads in before.items():
            run = runs[process][-1]
            old = {one.member for one in threads}
            if process not in now.clients or not old & _ids(now.clients[process]):
                run.stop_ms, run.expired = _find_stop(now, old)
                run.stop_ms = max(run.start_ms + 1, run.stop_ms)
        for process, threads in now.clients.items():
            known = runs.setdefault(process, [])
            last = known[-1] if known else None
            if last is not None and last.stop_ms is None:
                continue
            start_ms = now.at_ms
            if not number:
                pass
            elif last is not None and process in before:  # a restart within one rebalance
                start_ms = ((last.stop_ms or now.at_ms) + now.at_ms) // 2
            elif not before:
                start_ms = max(earlier_ms + 1, now.at_ms - _INITIAL_DELAY_MS)
            else:
                members = sum(map(len, now.clients.values()))
                start_ms = max(earlier_ms + 1, now.at_ms - int(lead_ms * members / (members + 1)))
            if last is not None and last.stop_ms is not None:
                start_ms = max(start_ms, last.stop_ms + 1)
            known.append(_Run(start_ms, threads))
        before = now.clients
    return runs


def _ids(threads: Iterable[ClientThread]) -> set[str]:
    return {one.member for one in threads}


def _find_stop(next_rebalance: RecordedChange, members: Iterable[str]) -> tuple[int, bool]:
    """Return the time at which a Streams client stopped, and whether its session timed out.

    ``next_rebalance`` is the first recorded rebalance without the client, ``members`` are the
    member ids of the client's threads. If that rebalance lists no stop of them, they left with a
    LeaveGroup request at its time.
    """
    known = [next_rebalance.stopped[one] for one in members if one in next_rebalance.stopped]
    if not known:
        return next_rebalance.at_ms, False
    return min(at_ms for at_ms, _ in known), any(expired for _, expired in known)


def _list_events(
    runs: Mapping[ProcessId, Sequence[_Run]], from_ms: int
) -> list[tuple[ProcessId, TraceEvent]]:
    """Return the starts and stops of all Streams clients after the time ``from_ms``, in time order.

    ``runs`` are the time spans in which each client ran.
    """
    found = []
    for process, of_client in runs.items():
        for run in of_client:
            if run.start_ms > from_ms:
                found.append((process, TraceEvent(run.start_ms - from_ms, "join")))
            if run.stop_ms is not None:
                at_ms = max(1, run.stop_ms - from_ms)
                found.append((process, TraceEvent(at_ms, "crash" if run.expired else "leave")))
    return sorted(found, key=lambda one: one[1].at_ms)


def _names(application: str, runs: Mapping[ProcessId, Sequence[_Run]]) -> dict[ProcessId, str]:
    names: dict[ProcessId, str] = {}
    for process, of_client in runs.items():
        first = min(of_client[0].threads, key=lambda one: one.sort_key)
        names[process] = client_name(application, first.client_id, names.values())
    return names


def _list_clients(
    names: Mapping[ProcessId, str], runs: Mapping[ProcessId, Sequence[_Run]], from_ms: int
) -> dict[str, SimulatedClient]:
    """Return the Streams clients to simulate, with the recorded member ids of each start.

    ``names`` are the clients' names by process id, ``runs`` the time spans in which each client
    ran. The simulation begins at ``from_ms``.
    """
    # If a client restarts with fewer threads, or a member was evicted and rejoined with its old id,
    # further ids are numbered: under a longer session timeout the group would have both members.
    found = {}
    for process, of_client in runs.items():
        threads = max(len(run.threads) for run in of_client)
        consumers: list[tuple[str, ...]] = []
        for run in of_client:
            ordered = sorted(run.threads, key=lambda one: one.sort_key)
            ids = tuple(one.member for one in ordered)
            if len(ids) != threads or any(set(ids) & set(earlier) for earlier in consumers):
                break
            consumers.append(ids)
        newest = of_client[-1].threads[0]
        found[names[process]] = SimulatedClient(
            names[process], process, threads, newest.rack or None, dict(newest.tags),
            starts=of_client[0].start_ms <= from_ms, consumers=tuple(consumers),
        )  # fmt: skip
    return found


def apply_trace(application: SimulatedApplication, trace: RecordedTrace) -> SimulatedApplication:
    """Return a copy of an application with the clients and events of its recorded trace.

    The copy can be simulated, so that the clients start and stop at the recorded times.
    """
    return replace(
        application,
        clients=trace.clients,
        events=trace.events,
        length_ms=max(1, trace.to_ms - trace.from_ms),
    )
