"""The simulation beside a real streams group (KIP-1071) of Kafka 4.3.1: targets and hand-overs.

Recordings are in ``tests/data/streams/groups``: what the coordinator wrote down, made with
``tests/support/streams_group_live.py``. The simulation is given when which member joined under which id,
and who was killed when.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from tests.support.recorded_streams_group import Record, application, wrote

from partage.simulation.streams import SimulationResult, simulate_application
from partage.streams.kip1071_sticky import ServerSticky43

RECORDINGS = sorted(
    (Path(__file__).resolve().parents[1] / "data" / "streams" / "groups").glob("*.json.xz")
)
#: Seconds that a busy machine may add to every step of a hand-over.
_OFF = 2.0
_ids = pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.name.split(".")[0])


def _recording(file: Path) -> dict[str, Any]:
    return json.loads(lzma.decompress(file.read_bytes()))


def _targets(played: SimulationResult) -> list[dict[str, list[list[str]]]]:
    return [
        {
            client: [sorted(map(str, tasks)) for both in threads for tasks in both]
            for client, threads in one.given.items()
        }
        for one in played.rebalances
    ]


def _moves(played: SimulationResult) -> dict[str, list[tuple[float, str]]]:
    found: dict[str, list[tuple[float, str]]] = {}
    for span in sorted(played.spans, key=lambda one: one.from_ms):
        moves = found.setdefault(str(span.task), [])
        if span.kind in {"running", "restoring"} and (not moves or moves[-1][1] != span.client):
            moves.append((span.from_ms / 1000, span.client))
    return found


def _compare(recording: dict[str, Any], record: Record) -> None:
    played = simulate_application(application(recording), ServerSticky43())
    assert _targets(played) == [target for _, target in record.targets]
    beat = recording["settings"]["heartbeat.interval.ms"] / 1000
    for ours, (theirs, _) in zip(played.rebalances, record.targets, strict=True):
        assert ours.at_ms / 1000 == pytest.approx(theirs, abs=beat + _OFF), ours.causes
    moves = _moves(played)
    assert moves.keys() == record.moved.keys()
    for task, theirs in record.moved.items():
        assert [client for _, client in moves[task]] == [client for _, client in theirs], task
        for (ours, _), (real, _) in zip(moves[task], theirs, strict=True):
            assert ours == pytest.approx(real, abs=beat + _OFF), task


@_ids
def test_the_simulation_does_what_a_real_group_did(file: Path) -> None:
    """Every target down to the thread, and the successive owners of each task, all in time."""
    recording = _recording(file)
    record = wrote(recording)
    assert len(record.targets) >= 5
    assert any(len(moves) > 2 for moves in record.moved.values())
    _compare(recording, record)


@_ids
def test_with_another_timeout_it_does_not_come_out(file: Path) -> None:
    """The comparison can fail: a session that is missed a heartbeat and five seconds later is seen."""
    recording = _recording(file)
    record = wrote(recording)
    recording["settings"]["session.timeout.ms"] += (
        5_000 + recording["settings"]["heartbeat.interval.ms"]
    )
    with pytest.raises(AssertionError):
        _compare(recording, record)


@pytest.mark.soak
def test_a_real_group_lives_as_simulated() -> None:
    """The same with an application that lives now: three minutes of a broker, JVMs and kills."""
    import random

    from tests.support.streams_group_live import live

    recording = live(random.randrange(10_000))
    _compare(recording, wrote(recording))
