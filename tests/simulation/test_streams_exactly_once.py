"""`processing.guarantee=exactly_once_v2`: what a crash costs, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from partage.errors import InvalidConfigError
from partage.simulation.streams import (
    SimulatedApplication,
    SimulationResult,
    StreamsMetrics,
    measure_streams_result,
    read_application,
    simulate_application,
)
from partage.simulation.streams.client_state import RunningClient, StateCopy
from partage.streams import ProcessId, TaskId, find_assignor

MB = 1_000_000
EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2"}


def _app(event: dict[str, Any], settings: dict[str, Any]) -> SimulatedApplication:
    """Two clients, four tasks of 6,000,000 records of 100 bytes, 10 MB a second to restore."""
    return read_application({
        "name": "counts",
        "seconds": 3600,
        "subtopologies": [{"sources": {"lines": 4}, "stores": {"words": {"records": 6_000_000}}}],
        "clients": {
            "a": {"restoreBytesPerSecond": 10 * MB},
            "b": {"restoreBytesPerSecond": 10 * MB},
        },
        "settings": settings,
        "events": [{"at": 600, "client": "b", "backSeconds": 120, **event}],
    })  # fmt: skip


def _play(
    event: dict[str, Any], settings: dict[str, Any], assignor: str = "high-availability"
) -> tuple[SimulationResult, StreamsMetrics]:
    from partage.streams.kip1071_sticky import ServerSticky43

    chosen = ServerSticky43() if assignor == "server-sticky@4.3" else find_assignor(assignor)
    played = simulate_application(_app(event, settings), chosen)
    return played, measure_streams_result(played)


@pytest.mark.parametrize("assignor", ["high-availability", "server-sticky@4.3"])
@pytest.mark.parametrize("standbys", [0, 1])
def test_a_crash_costs_what_the_loss_of_the_disk_costs(assignor: str, standbys: int) -> None:
    """No store was closed cleanly, so every task that was open is restored from the beginning."""
    settings = {"num.standby.replicas": standbys}
    crash, gone = {"do": "crash"}, {"do": "crash", "disk": False}
    _, once = _play(crash, {**settings, **EXACTLY_ONCE}, assignor)
    _, without_disk = _play(gone, settings, assignor)
    _, least = _play(crash, settings, assignor)
    assert once.to_dict() == without_disk.to_dict()
    assert least.restored_bytes < once.restored_bytes


def test_the_crash_worked_out_by_hand() -> None:
    """Of 600 MB each, a restores the two tasks of b, then b the same two again: 4 x 600 MB."""
    _, found = _play({"do": "crash"}, EXACTLY_ONCE)
    assert found.restored_bytes == 4 * 600 * MB
    # 45 s until it is missed, 3 s to a heartbeat, 120 s to restore two tasks, 0.1 s to hand back.
    assert found.unavailable_seconds == {"0_0": 0, "0_1": 168.1, "0_2": 0, "0_3": 168.1}
    _, kept = _play({"do": "crash"}, {})
    # With at_least_once b is back with its state at 723 s; a has restored for 75 s by then.
    assert kept.restored_bytes == 75 * 10 * MB


@pytest.mark.parametrize(
    "event", [{"do": "leave"}, {"do": "rollingRestart", "client": None, "backSeconds": None}]
)
def test_a_clean_close_costs_no_state(event: dict[str, Any]) -> None:
    """A client that closes records so: both guarantees give the same history."""
    event = {key: value for key, value in event.items() if value is not None}
    played = []
    for settings in ({}, EXACTLY_ONCE):
        given = {"at": 600, **event}
        if event["do"] == "leave":
            given |= {"client": "b", "backSeconds": 120}
        app = read_application({
            "name": "counts", "seconds": 3600,
            "subtopologies": [{"sources": {"in": 4}, "stores": {"s": {"records": 6_000_000}}}],
            "clients": {"a": {}, "b": {}}, "settings": settings, "events": [given],
        })  # fmt: skip
        played.append(
            measure_streams_result(
                simulate_application(app, find_assignor("high-availability"))
            ).to_dict()
        )
    assert played[0] == played[1]


def test_tasks_that_were_given_up_before_the_crash_keep_their_state() -> None:
    """Only stores that were open are lost: actives and standbys, no directory closed before."""
    tasks = [TaskId(0, n) for n in range(3)]
    app = _app({"do": "crash"}, {})
    one = RunningClient(app.clients["b"], ProcessId(0, 2), ("b-1",))
    one.disk = {task: StateCopy(10.0, 100) for task in tasks}
    one.active, one.standby = {tasks[0]: "b-1"}, {tasks[1]: "b-1"}
    assert list(one.copies_closed_cleanly()) == [tasks[2]]


@pytest.mark.parametrize("value", ["exactly_once", "exactly_once_beta", "EXACTLY_ONCE_V2", 1])
def test_other_guarantees_are_refused(value: object) -> None:
    """Kafka 4 knows two; the older names are gone."""
    with pytest.raises(InvalidConfigError, match=r"at_least_once, exactly_once_v2"):
        _app({"do": "crash"}, {"processing.guarantee": value})
