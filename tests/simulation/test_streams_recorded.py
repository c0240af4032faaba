"""The simulation beside a real Kafka Streams 4.3.1 application: the same sequence of plans.

Recordings are in ``tests/data/streams`` (its README tells what happens in each), made with the
stage of ``tests/support/streams_live.py``. Events and the lags that the leaders saw go into the simulation;
which rebalances follow, what every client is said to have had, and every plan has to come out.
"""

from __future__ import annotations

import json
import lzma
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.recorded_streams import (
    Decided,
    Listener,
    Rows,
    application,
    decided,
    observed_states,
)

from partage.simulation.streams import SimulatedApplication, SimulationResult, simulate_application

FOLDER = Path(__file__).resolve().parents[1] / "data" / "streams"
RECORDINGS = sorted(file.name.removesuffix(".json.xz") for file in FOLDER.glob("*.json.xz"))
#: Seconds that requests and work may take in reality, and not in the simulation: `recorded` was
#: recorded on a quiet machine, others with forty programs on two cores.
_QUIET, _BUSY = {"recorded": 1.1}, 3.5
#: Less than that may come of what the model rounds up: a poll, and members' heartbeats.
_EARLY = 0.3


def _decided(played: SimulationResult, listener: Listener) -> list[Decided]:
    found = []
    for one, problem in zip(played.rebalances, listener.problems, strict=True):
        names = dict(zip((client.process for client in problem.clients), one.active, strict=True))
        stateful = {str(problem.tasks[task]): task for task in problem.stateful}
        had = {names[client.process]: client for client in problem.clients}
        found.append(
            Decided(
                _rows(one.active),
                _rows(one.standby),
                one.probing,
                [str(task) for task in one.withheld],
                {
                    name: [sorted(map(str, tasks)) for both in threads for tasks in both]
                    for name, threads in one.given.items()
                },
                _rows({name: client.previous_active for name, client in had.items()}),
                _rows({name: client.previous_standby for name, client in had.items()}),
                {
                    name: {task: int(row[number]) for task, number in stateful.items()}
                    for name, row in zip(had, problem.changelog_lags, strict=True)
                },
            )
        )
    return found


def _rows(given: Any) -> Rows:
    return {name: sorted(map(str, tasks)) for name, tasks in given.items()}


def _compare(recording: dict[str, Any], app: SimulatedApplication, slow: float = _BUSY) -> None:
    recorded, listener = decided(recording), Listener()
    played = simulate_application(app, listener, observed_states(recording))
    simulated = _decided(played, listener)
    for number, (ours, theirs) in enumerate(zip(simulated, recorded, strict=False)):
        assert ours == theirs, f"rebalance {number}"
    assert len(simulated) == len(recorded)
    _compare_times(played, recording, slow)


def _compare_times(played: SimulationResult, recording: dict[str, Any], slow: float) -> None:
    """A rebalance comes as long after the one before, or after the event since, as in reality.

    Whether a heartbeat is just before or just after a deadline or an event is a race, and a
    follow-up has no such race: its members' heartbeats begin with the rebalance.
    """
    heartbeat = recording["settings"]["heartbeat.interval.ms"] / 1000
    events = [one["at"] for one in recording["events"]]
    before = theirs_before = 0.0
    for ours, line in zip(played.rebalances, recording["rebalances"], strict=True):
        now, theirs = ours.at_ms / 1000, line["at"]
        late = (theirs - theirs_before) - (now - before)
        if any(theirs_before < one <= theirs for one in events):
            late = theirs - now
        early = _EARLY if "follow-up" in ours.causes else heartbeat + _EARLY
        assert -early < late < slow, (now, theirs, ours.causes)
        before, theirs_before = now, theirs


def _read(name: str) -> dict[str, Any]:
    return json.loads(lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes()))


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_simulation_decides_what_a_real_application_decided(name: str) -> None:
    """Every rebalance of a recording, in order and in time: what was known, and the plan."""
    recording = _read(name)
    _compare(recording, application(recording), _QUIET.get(name, _BUSY))


@pytest.mark.parametrize(
    "changed",
    [
        {"heartbeat_interval_ms": 500},
        {"session_timeout_ms": 35_000},
        {"poll_ms": 2_000},
        *(
            pytest.param(changed, marks=pytest.mark.soak)
            for changed in (
                {"heartbeat_interval_ms": 4_000},
                {"state_cleanup_delay_ms": 60_000},
                {"group_initial_rebalance_delay_ms": 0},
                {"probing_rebalance_interval_ms": 63_000},
            )
        ),
    ],
    ids="-".join,
)
def test_another_clock_does_not_give_the_recording(changed: dict[str, int]) -> None:
    """The comparison can fail: one time of the model changed, and `recorded` does not come out."""
    recording = _read("recorded")
    app = application(recording)
    part = "settings" if "probing" in next(iter(changed)) else "runtime"
    app = replace(app, **{part: replace(getattr(app, part), **changed)})
    with pytest.raises(AssertionError):
        _compare(recording, app, _QUIET["recorded"])


def test_the_recordings_are_worth_it() -> None:
    """Probing, tasks withheld, and copies that lag by more than is acceptable happen in them."""
    lines = [one for name in RECORDINGS for one in decided(_read(name))]
    assert len(lines) >= 88
    assert any(one.probing for one in lines)
    assert any(one.withheld for one in lines)
    assert any(
        one.lags[name].get(task, 0) > 100
        for one in lines
        for name, tasks in one.standby.items()
        for task in tasks
    )


@pytest.mark.soak
def test_a_real_application_lives_as_simulated() -> None:
    """The same with an application that lives now: some minutes of brokers, JVMs and kills."""
    from tests.support.streams_live import live

    recording = live(random.randrange(10_000))
    _compare(recording, application(recording))
