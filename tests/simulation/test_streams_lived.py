"""The simulation beside a real Kafka Streams 4.3.1 application: the same sequence of plans.

``tests/data/streams/lived.json.xz`` was made by ``python -m tests.streams_live`` (what happens is
told there). Its events and the lags that its leaders saw go into the simulation; which rebalances
follow, what every client is said to have had, and every plan has to come out.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from tests.streams_lived import Decided, Listener, Rows, application, decided, told

from partage.simulation.streams import Played, play

RECORDING = Path(__file__).resolve().parents[1] / "data" / "streams" / "lived.json.xz"
#: Seconds by which the simulation's clock may be off: the machine was busy, the model is not.
_OFF = 15.0


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
    for ours_at, line in zip(played.rebalances, recording["rebalances"], strict=True):
        assert ours_at.at_ms / 1000 == pytest.approx(line["at"], abs=_OFF)


def test_the_simulation_decides_what_a_real_application_decided() -> None:
    """Every rebalance of the recording, in order: what was known of each client, and the plan."""
    recording = json.loads(lzma.decompress(RECORDING.read_bytes()))
    _compare(recording)
    # The recording is worth it: all that the simulation knows happens in it.
    lines = decided(recording)
    assert {one["do"] for one in recording["events"]} == {"join", "crash"}
    assert sum(one.probing for one in lines) >= 2
    assert any(one.withheld for one in lines)
    warm = [
        one for one in lines for name, tasks in one.standby.items()
        if any(one.lags[name].get(task, 0) > 100 for task in tasks)
    ]  # fmt: skip
    assert warm


@pytest.mark.soak
def test_a_real_application_lives_as_simulated() -> None:
    """The same with an application that lives now: some minutes of brokers, JVMs and kills."""
    from tests.streams_live import live

    _compare(live())
