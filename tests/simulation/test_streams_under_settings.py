"""Recorded Streams applications under other settings: traces from the group log, and outages.

Real applications (`tests/data/streams`) name the clients that were started and killed. The trace
that a replay infers from the group's log is compared with these events, and the simulated outages
with those of the simulation that has them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support import recorded_streams, recorded_streams_group
from tests.support.streams_traces import (
    classic_rebalances,
    clusters_of,
    facts_of,
    read,
    streams_rebalances,
)

from partage.history.streams_application import decode_streams_rebalance
from partage.jobs.replay.streams_settings import (
    StreamsInputs,
    _describe_application,
    observed_settings,
    streams_settings_rows,
)
from partage.jobs.streams_capture import ClassicGeneration
from partage.simulation.streams import TraceEvent, read_application, simulate_application
from partage.simulation.streams.recorded_trace import (
    ClientThread,
    RecordedChange,
    apply_trace,
    record_trace,
)
from partage.simulation.streams.result import find_outages
from partage.simulation.streams.sweep import settings_outcome, settings_to_compare
from partage.streams import HighAvailability, ProcessId
from partage.streams.kip1071_sticky import ServerSticky43

CLASSIC = ("recorded", "seed3", "seed5")
SERVER = ("groups/seed1", "groups/seed2")
A, B = ProcessId(0, 1), ProcessId(0, 2)


def thread(host: str, start: int = 1, number: int = 1) -> ClientThread:
    """A thread of a client, in one of its starts."""
    return ClientThread(f"{host}-{start}-{number}", f"app-{host}-StreamThread-{number}-consumer")


def trace(*changes: RecordedChange, most: int = 99, is_server: bool = False) -> Any:
    """The trace of rebalances of application ``app``, with heartbeats every 3 s."""
    return record_trace(
        "app", changes, 500_000, heartbeat_ms=3_000, is_streams_group=is_server, most_events=most
    )


def events(found: Any) -> list[tuple[int, str, str]]:
    """The events of a trace as plain values."""
    return [(one.at_ms, one.kind, one.clients[0]) for one in found.events]


BOTH = RecordedChange(1_000, {A: (thread("h1"),), B: (thread("h2"),)})
GONE = {"h2-1-1": (16_000, True)}


def test_a_client_that_returns_with_its_id_has_its_state() -> None:
    """An evicted client and its return are a crash and a start of one client."""
    found = trace(
        BOTH,
        RecordedChange(61_000, {A: (thread("h1"),)}, GONE),
        RecordedChange(101_000, {A: (thread("h1"),), B: (thread("h2", 2),)}),
    )
    assert events(found) == [(15_000, "crash", "h2"), (98_000, "join", "h2")]
    assert found.clients["h2"].consumers == (("h2-1-1",), ("h2-2-1",))


def test_a_client_with_a_new_id_is_another_client() -> None:
    """A client that lost its disk draws a new process id: the trace has two clients."""
    other = ProcessId(0, 3)
    found = trace(
        BOTH,
        RecordedChange(61_000, {A: (thread("h1"),), other: (thread("h2", 2),)}, GONE),
    )
    assert events(found) == [(15_000, "crash", "h2"), (58_000, "join", "h2-2")]
    assert not found.clients["h2-2"].starts


def test_a_restart_within_one_rebalance() -> None:
    """Threads with new ids and the same process: it stopped, and came back before the record."""
    found = trace(BOTH, RecordedChange(61_000, {A: (thread("h1"),), B: (thread("h2", 2),)}, GONE))
    assert events(found) == [(15_000, "crash", "h2"), (37_500, "join", "h2")]


def test_a_client_that_left_stopped_at_the_record() -> None:
    """A LeaveGroup is noticed at once; a streams group computes a target with the join."""
    found = trace(
        BOTH,
        RecordedChange(61_000, {A: (thread("h1"),)}, {"h2-1-1": (61_000, False)}),
        RecordedChange(101_000, {A: (thread("h1"),), B: (thread("h2", 2),)}),
        is_server=True,
    )
    assert events(found) == [(60_000, "leave", "h2"), (100_000, "join", "h2")]


def test_a_member_that_rejoins_with_its_id_is_another_member() -> None:
    """A frozen client is evicted and rejoins with its member id: a longer timeout has both."""
    found = trace(
        BOTH,
        RecordedChange(61_000, {A: (thread("h1"),)}, GONE),
        RecordedChange(101_000, BOTH.clients),
        is_server=True,
    )
    assert found.clients["h2"].consumers == (("h2-1-1",),)
    app = read_application({
        "subtopologies": [{"sources": {"in": 4}}], "clients": {"h1": {}, "h2": {}},
        "settings": {"streams.session.timeout.ms": 90_000},
    })  # fmt: skip
    assert simulate_application(apply_trace(app, found), ServerSticky43()).rebalances


def test_a_thread_that_is_replaced_is_no_restart() -> None:
    """A client that keeps one of its threads runs on."""
    two = RecordedChange(1_000, {A: (thread("h1"), thread("h1", number=2))})
    found = trace(two, RecordedChange(61_000, {A: (thread("h1"), thread("h1", 9, 2))}))
    assert events(found) == []


def test_only_the_newest_events_are_simulated() -> None:
    """A long history is cut at a rebalance, from which at most so many events remain."""
    changes = [BOTH]
    for number in range(10):
        changes.append(RecordedChange(
            61_000 + 100_000 * number, {A: (thread("h1"),)},
            {f"h2-{number + 1}-1": (46_000 + 100_000 * number, True)},
        ))  # fmt: skip
        changes.append(RecordedChange(
            101_000 + 100_000 * number, {A: (thread("h1"),), B: (thread("h2", number + 2),)}
        ))  # fmt: skip
    assert len(trace(*changes).events) == 20
    found = trace(*changes, most=4)
    assert (found.from_ms, len(found.events)) == (861_000, 3)
    with pytest.raises(ValueError, match="no rebalance has a client"):
        trace(RecordedChange(0, {}))


def test_time_without_any_client_is_no_outage() -> None:
    """An application that is down as a whole has no outage that settings could shorten."""
    app = read_application({
        "seconds": 600, "subtopologies": [{"sources": {"in": 2}}], "clients": {"a": {}},
        "events": [{"at": 100, "do": "leave", "client": "a", "backSeconds": 300}],
    })  # fmt: skip
    assert find_outages(simulate_application(app, HighAvailability())) == [3_000, 3_000]


def test_an_outage_is_the_mean_over_shifted_events() -> None:
    """A crash costs a session timeout less the time since the last heartbeat, on average half of an
    interval.
    """
    app = read_application({
        "seconds": 600, "subtopologies": [{"sources": {"in": 4}}],
        "clients": {"a": {}, "b": {}},
        "events": [{"at": 120, "do": "crash", "client": "b"}],
        "settings": {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 3_000},
    })  # fmt: skip
    (present,) = [one for one in settings_to_compare(app, HighAvailability.name, has_racks=False)
                  if not one.config and "high" in one.assignor]  # fmt: skip
    found = settings_outcome(app, present)
    assert found.outages == 2
    assert 8.0 < found.worst_outage_s < 12.0
    assert found.mean_outage_s == pytest.approx(found.outage_s / 2)
    one = settings_outcome(app, present, phases=1)
    assert one.worst_outage_s != found.worst_outage_s


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows that a replay writes for a recording."""
    recording = read(name)
    is_server = name in SERVER
    rebalances = (streams_rebalances if is_server else classic_rebalances)(recording)
    facts = facts_of(recording) if is_server else StreamsInputs(frozenset({recording["name"]}))
    return list(streams_settings_rows(recording["name"], rebalances, clusters_of(recording), facts))


@pytest.mark.parametrize("name", [*CLASSIC, *SERVER])
def test_a_recorded_application_is_simulated_under_other_settings(name: str) -> None:
    """Each recording has its own figures, the present settings, and others that differ from them."""
    recorded, present, *others = rows_of(name)
    assert (recorded["simulated"], present["simulated"], present["settings"]) == (False, True, "")
    assert recorded["standbys"] == 1
    by_settings = {one["settings"] or one["assignor"]: one for one in others}
    without = by_settings["num.standby.replicas=0"]
    assert without["outage_s"] is not None
    assert all(one.get("detail") is None for one in others)
    session = "streams.session.timeout.ms" if name in SERVER else "session.timeout.ms"
    longer = by_settings[f"{session}=45000"]
    assert longer["worst_outage_s"] > present["worst_outage_s"] + 8
    assert (without["restored"] is None) == (name in SERVER)


@pytest.mark.parametrize("name", [*CLASSIC, *SERVER])
def test_simulated_outages_are_those_of_the_application(name: str) -> None:
    """A trace from the group's log has the true outages: the worst within 1.6 s, their sum within a
    quarter.

    The truth is the simulation with the true events and lags, which equals the application
    (test_streams_recorded, test_streams_group_recorded).
    """
    recording = read(name)
    recorded, present, *_ = rows_of(name)
    if name in SERVER:
        played = simulate_application(
            recorded_streams_group.application(recording), ServerSticky43()
        )
        first_ms = recorded["from_ms"] - recording["began"]
    else:
        truth = recorded_streams.application(recording)
        played = simulate_application(
            truth, HighAvailability(), recorded_streams.observed_states(recording)
        )
        first_ms = round(1_000 * recording["rebalances"][0]["at"])
    lengths = _after(played, first_ms)
    assert present["worst_outage_s"] == pytest.approx(max(lengths) / 1_000, abs=1.6)
    assert present["outage_s"] == pytest.approx(sum(lengths) / 1_000, rel=0.25)


def _after(played: Any, first_ms: int) -> list[int]:
    """Outages since the first recorded rebalance: before it no client had a task."""
    spans = [
        replace(one, from_ms=max(0, one.from_ms - first_ms), to_ms=one.to_ms - first_ms)
        for one in played.spans if one.to_ms > first_ms
    ]  # fmt: skip
    # Starts of the simulation's first second belong to the first assignment.
    return [ms for ms in find_outages(replace(played, spans=spans,
                                         length_ms=played.length_ms - first_ms)) if ms > 50]  # fmt: skip


@pytest.mark.parametrize("name", CLASSIC)
def test_settings_of_the_assignor_are_inferred(name: str) -> None:
    """A leader's assignments show its probing interval, and a bound of the acceptable lag."""
    recording = read(name)
    (change, *_) = [one for one in rows_of(name) if "acceptable.recovery.lag=0" in one["settings"]]
    generations = [
        ClassicGeneration(one.generation.timestamp_ms, one.generation.first,
                          decode_streams_rebalance(one.generation.first))
        for one in classic_rebalances(recording)
    ]  # fmt: skip
    found = observed_settings(generations, {"num.standby.replicas": "1"})
    assert found["probing.rebalance.interval.ms"] == "60000"
    truth = recording["settings"]["acceptable.recovery.lag"]
    assert int(found["acceptable.recovery.lag"]) < 10_000
    assert change["rebalances"] is not None
    # A client with nothing on its disk lags by the whole state: the bound is not tight.
    assert truth <= int(found["acceptable.recovery.lag"]) + 400


@pytest.mark.parametrize("name", SERVER)
def test_the_trace_of_a_streams_group_is_what_happened(name: str) -> None:
    """Each crash and start of a client after the first target is in the trace, in time."""
    recording = read(name)
    truth = recorded_streams_group.application(recording)
    rebalances = streams_rebalances(recording)
    described = _describe_application(
        recording["name"], rebalances, clusters_of(recording), facts_of(recording)
    )
    assert described is not None
    found = described.trace
    offset_ms = found.from_ms - recording["began"]
    mine = [(one.kind, one.clients[0], one.at_ms + offset_ms) for one in found.events]
    theirs = [(one.kind, one.clients[0], one.at_ms) for one in truth.events
              if one.at_ms > offset_ms]  # fmt: skip
    assert [one[:2] for one in mine] == [one[:2] for one in theirs]
    for ours, real in zip(mine, theirs, strict=True):
        assert ours[2] == pytest.approx(real[2], abs=2_500)


def test_events_have_one_client_each() -> None:
    """The simulation plays what the trace says: a start after each stop."""
    found = trace(BOTH, RecordedChange(61_000, {A: (thread("h1"),)}, GONE))
    assert all(isinstance(one, TraceEvent) and len(one.clients) == 1 for one in found.events)
