"""Killed at any moment: nothing half is ever visible, and the next run starts clean."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.captures import capture, records, rows_of

from partage.errors import InvalidCaptureError
from partage.jobs.replay.output import publish_run, remove_dead_locks, run_lock
from partage.jobs.replay.replay import replay
from partage.runs.published_run import PublishedRun
from partage.tables.schemas import TABLES

pytestmark = pytest.mark.spark
POLICIES = ["eager/range"]


def _killed(folder: Path, out: Path, seconds: float, line: str = "decoding") -> None:
    """Start a replay, and kill it and all that it started some seconds after it said ``line``."""
    command = [sys.executable, "-m", "partage", "replay", str(folder), "--out", str(out)]
    with subprocess.Popen(
        [*command, "--no-report", "--policy", *POLICIES],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        while line not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)


def _nothing_half(out: Path, expected: dict) -> None:
    """Either nobody sees a run, or all of it."""
    if not (out / "manifest.json").exists():
        with pytest.raises(InvalidCaptureError, match="no published run"):
            _ = PublishedRun(out).summary
        return
    for name, rows in expected.items():
        assert rows_of(out, name) == rows, name


def _again(spark, folder: Path, out: Path, expected: dict) -> None:
    """A re-run gives the same tables, and has cleared up behind the dead ones."""
    summary = replay(folder, out, spark=spark, policies=POLICIES)
    for name, rows in expected.items():
        assert rows_of(out, name) == rows, name
    assert not (out / "running").exists()
    for table in (out / "tables").iterdir():
        published = {p.name for p in (out / "runs").iterdir()}
        assert {run.name for run in table.iterdir()} <= published | {summary["run_id"]}


@pytest.fixture
def twice(spark, tmp_path: Path) -> tuple[Path, dict]:
    folder = capture(tmp_path / "c", records().slice(0, 6_000))
    replay(folder, tmp_path / "whole", spark=spark, policies=POLICIES)
    tables = set(TABLES) - {"runs"}
    return folder, {name: rows_of(tmp_path / "whole", name) for name in tables}


def test_killed_in_the_middle(spark, twice, tmp_path: Path) -> None:
    """SIGKILL to everything while histories are rebuilt; a re-run clears up and is whole."""
    folder, expected = twice
    _killed(folder, tmp_path / "out", 0.3, "rebuilding")
    _nothing_half(tmp_path / "out", expected)
    assert (tmp_path / "out" / "running").exists()
    _again(spark, folder, tmp_path / "out", expected)


@pytest.mark.soak
@pytest.mark.skipif(os.environ.get("PARTAGE_SOAK") != "1", reason="long: only with PARTAGE_SOAK=1")
def test_killed_at_ten_random_moments(spark, twice, tmp_path: Path) -> None:
    """Ten times kill -9 at a random moment, all in one folder; then a run to the end."""
    folder, expected = twice
    rng = random.Random(5)
    for _ in range(10):
        _killed(folder, tmp_path / "out", rng.uniform(0, 12), "checking")
        _nothing_half(tmp_path / "out", expected)
    _again(spark, folder, tmp_path / "out", expected)


def test_files_of_a_task_that_outlives_the_run_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A speculative copy may write after the run was published; its file is not left behind."""
    folder, out = capture(tmp_path / "c", records().slice(0, 2_000)), tmp_path / "out"
    late: list[Path] = []

    def publish_and_write(folder: Path, run_id: str, *more: object) -> None:
        publish_run(folder, run_id, *more)
        late.append(folder / "tables" / "events" / run_id / "part-00000-late.parquet")
        late[0].write_bytes(b"PAR1")

    monkeypatch.setattr("partage.jobs.replay.replay.publish_run", publish_and_write)
    replay(folder, out, engine="local", processes=1, policies=POLICIES)
    assert late
    assert not late[0].exists()
    assert rows_of(out, "events")


def test_who_is_alive_is_left_alone(tmp_path: Path) -> None:
    """The marker of a run at work counts; of a process that is gone, and of a half one, not."""
    with run_lock(tmp_path, "mine"):
        assert remove_dead_locks(tmp_path) == []
        gone = tmp_path / "running" / "gone.json"
        owner = {"host": socket.gethostname(), "pid": 2_147_483_646, "began": "1", "locked": True}
        gone.write_text(json.dumps(owner))
        (tmp_path / "running" / "half.json").write_text('{"host": "')
        elsewhere = tmp_path / "running" / "elsewhere.json"
        elsewhere.write_text('{"host": "another", "pid": 1, "began": "1", "locked": false}')
        assert remove_dead_locks(tmp_path) == ["gone", "half"]
        assert elsewhere.exists()
    assert not (tmp_path / "running" / "mine.json").exists()
