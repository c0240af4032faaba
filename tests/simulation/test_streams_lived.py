"""The simulation beside a real Kafka Streams 4.3.1 application: the same sequence of plans.

Recordings are in ``tests/data/streams`` (its README tells what happens in each), made with the
stage of ``tests/streams_live.py``. Events and the lags that the leaders saw go into the simulation;
which rebalances follow, what every client is said to have had, and every plan has to come out.
"""

from __future__ import annotations

import json
import lzma
import random
from pathlib import Path
from typing import Any

import pytest
from tests.streams_lived import Decided, Listener, Rows, application, decided, told

from partage.simulation.streams import Played, play

RECORDINGS = sorted((Path(__file__).resolve().parents[1] / "data" / "streams").glob("*.json.xz"))
#: Seconds that requests, polls and work may take in reality, and not in the simulation.
_OFF = 3.0


def _again(recording: dict[str, Any]) -> tuple[Played, Listener]:
    listener = Listener()
    return play(application(recording), listener, told(recording)), listener


def _decided(played: Played, listener: Listener) -> list[Decided]:
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
                    for name, row in zip(had, problem.lags, strict=True)
                },
            )
        )
    return found


def _rows(given: Any) -> Rows:
    return {name: sorted(map(str, tasks)) for name, tasks in given.items()}


def _compare(recording: dict[str, Any]) -> None:
    lived, (played, listener) = decided(recording), _again(recording)
    simulated = _decided(played, listener)
    for number, (ours, theirs) in enumerate(zip(simulated, lived, strict=False)):
        assert ours == theirs, f"rebalance {number}"
    assert len(simulated) == len(lived)
    _compare_times(played, recording)


def _compare_times(played: Played, recording: dict[str, Any]) -> None:
    """A rebalance comes as long after the one before, or after the event, up to one heartbeat.

    Whether a heartbeat is just before or just after a deadline is a race.
    """
    off = _OFF + recording["settings"]["heartbeat.interval.ms"] / 1000
    before = theirs_before = 0.0
    for ours, line in zip(played.rebalances, recording["rebalances"], strict=True):
        now, theirs = ours.at_ms / 1000, line["at"]
        apart = min(abs(now - theirs), abs((now - before) - (theirs - theirs_before)))
        assert apart < off, (now, theirs, ours.causes)
        before, theirs_before = now, theirs


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.name.split(".")[0])
def test_the_simulation_decides_what_a_real_application_decided(file: Path) -> None:
    """Every rebalance of a recording, in order: what was known of each client, and the plan."""
    recording = json.loads(lzma.decompress(file.read_bytes()))
    _compare(recording)


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.name.split(".")[0])
def test_without_its_lags_a_recording_does_not_come_out(file: Path) -> None:
    """The comparison can fail: a world in which every copy has caught up makes other plans."""
    recording = json.loads(lzma.decompress(file.read_bytes()))
    played = play(application(recording), Listener())
    plans = [(_rows(one.active), _rows(one.standby)) for one in played.rebalances]
    assert plans != [(one.active, one.standby) for one in decided(recording)]


def test_the_recordings_are_worth_it() -> None:
    """Probing, tasks withheld, and copies that lag by more than is acceptable happen in them."""
    lines = [
        one
        for file in RECORDINGS
        for one in decided(json.loads(lzma.decompress(file.read_bytes())))
    ]
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
    from tests.streams_live import live

    _compare(live(random.randrange(10_000)))
