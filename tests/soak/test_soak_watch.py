"""`partage watch` on Spark: the sample as a stream, undisturbed and killed at random moments."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.captured import SAMPLE
from tests.support.growing_captures import GrowingCapture

pytest.importorskip("pyspark")
pytest.importorskip("google.protobuf", reason="PySpark's state client needs protobuf")

from partage.jobs.replay.replay import replay
from partage.jobs.watch.group_tables import OPENED, STREAM_TABLES, stream_schema
from partage.jobs.watch.stream_output import StreamFolder
from partage.runs.published_run import PublishedRun
from partage.tables.schemas import SIMULATED_COLUMNS

pytestmark = [pytest.mark.spark, pytest.mark.soak]

_SCRIPT = """
import sys
from partage.jobs.watch.watch import StreamSettings, watch
settings = StreamSettings(once=sys.argv[3] == "once", every=0.5, most_records=8_000)
watch(sys.argv[1], sys.argv[2], settings, master="local[2,4]",  # a task is tried four times
      conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.shuffle.partitions": "2"},  # twenty starts shall cost little
      report=lambda batch: print(batch.number, flush=True))
"""
_KILLS = 20
_PARTS = 80
_SECONDS_A_PART = 6.0
#: Share of the driver's kills when it has workers; the others are at any moment of its start.
_SHARE_AT_WORK = 0.7


def _comparable(rows: list[dict], names: list[str]) -> list[str]:
    wanted = [name for name in names if name not in SIMULATED_COLUMNS["rebalances"]]
    return sorted(json.dumps([row[name] for name in wanted], default=repr) for row in rows)


def _tables(out: Path) -> dict[str, list[str]]:
    folder = StreamFolder(out)
    return {
        table: _comparable(folder.table(table).to_pylist(), stream_schema(table).names)
        for table in STREAM_TABLES
    }


def _process(capture: Path, out: Path, how: str) -> subprocess.Popen[bytes]:
    with (out.parent / f"{out.name}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, str(capture), str(out), how],
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def _run(capture: Path, out: Path) -> None:
    """Run a stream to the end of a capture."""
    assert _process(capture, out, "once").wait(timeout=900) == 0


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """SIGKILL to the driver or a Python worker at 20 random moments changes no row.

    The capture grows meanwhile. The tables are those of an undisturbed stream and of a replay.
    """
    grown = GrowingCapture(SAMPLE, tmp_path / "capture", _PARTS)
    grown.grow()
    ended = threading.Event()
    kills: list[dict] = []

    def grow() -> None:
        while not grown.is_complete and not ended.wait(_SECONDS_A_PART):
            if grown.parts * _KILLS < _PARTS * (len(kills) + 1):
                grown.grow()

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        _kill_again_and_again(grown.folder, tmp_path / "killed", kills)
    finally:
        ended.set()
        thread.join()
    while not grown.is_complete:
        grown.grow()
    print(*kills, sep="\n")
    assert sum(kill["what"] == "worker" for kill in kills) >= 5
    assert sum(kill["in_batch"] for kill in kills) >= 10
    assert len({kill["published"] for kill in kills}) >= 6  # a worker is often killed at once
    _run(grown.folder, tmp_path / "killed")
    _run(grown.folder, tmp_path / "undisturbed")
    found = _tables(tmp_path / "killed")
    for table, rows in _tables(tmp_path / "undisturbed").items():
        assert found[table] == rows, table
    replay(grown.folder, tmp_path / "replayed", policies=["eager/range"], engine="local")
    run = PublishedRun(tmp_path / "replayed")
    for table in set(STREAM_TABLES) - {OPENED}:
        expected = run.table(table).to_pylist()
        assert found[table] == _comparable(expected, stream_schema(table).names), table


def _kill_again_and_again(capture: Path, out: Path, kills: list[dict]) -> None:
    """Kill the driver and all it started, or one Python worker, at random moments of a stream.

    A moment is some seconds after the start of the driver, or after some more micro-batches. Add to
    ``kills`` what was killed, the micro-batches published before, and whether one was in progress.
    """
    moments = random.Random(21)
    process: subprocess.Popen[bytes] | None = None
    try:
        while len(kills) < _KILLS:
            if process is None or process.poll() is not None:
                process = _process(capture, out, "follow")
            is_worker = len(kills) % 2 == 1
            if is_worker or moments.random() < _SHARE_AT_WORK:
                _await_batches(process, out, moments.randint(0, 3))
                time.sleep(moments.uniform(0, 5))
            else:
                time.sleep(moments.uniform(1, 20))  # while it starts
            if process.poll() is not None:
                continue  # Spark gives a Python process ten seconds to start: too few under load
            workers = _workers(process.pid)
            is_worker = is_worker and bool(workers)
            kill = {"what": "worker" if is_worker else "driver", **_progress(out)}
            if is_worker:
                with suppress(ProcessLookupError):
                    os.kill(moments.choice(workers), signal.SIGKILL)
            else:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=30)
            kills.append(kill)
    finally:
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)


def _await_batches(process: subprocess.Popen[bytes], out: Path, count: int) -> None:
    """Wait until a stream has workers and some more micro-batches, or has ended.

    The capture grows with the kills, so the stream may have nothing more to read: the wait for
    micro-batches is short.
    """
    started, before = time.monotonic(), _progress(out)["published"]
    working: float | None = None
    while process.poll() is None and time.monotonic() < started + 180:
        if working is None and _workers(process.pid):
            working = time.monotonic()
        if working is not None and (
            _progress(out)["published"] >= before + count
            or time.monotonic() > working + 3 * _SECONDS_A_PART
        ):
            return
        time.sleep(0.2)


def _workers(driver: int) -> list[int]:
    """Return the ids of the Python workers that Spark has forked for its tasks."""
    lines = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    parents = {int(p): (int(parent), args) for p, parent, args in (s.split(None, 2) for s in lines)}
    daemons = {p for p, (_, args) in parents.items()
               if "pyspark.daemon" in args and driver in _ancestors(p, parents)}  # fmt: skip
    return [p for p, (parent, _) in parents.items() if parent in daemons]


def _ancestors(process: int, parents: dict[int, tuple[int, str]]) -> list[int]:
    found = []
    while process in parents:
        process = parents[process][0]
        found.append(process)
    return found


def _progress(out: Path) -> dict[str, int | bool]:
    """Return the number of published micro-batches, and whether Spark is processing one."""
    stream = out / "stream"
    planned, done = (
        {int(path.name) for path in (stream / "checkpoint" / name).glob("[0-9]*")
         if path.name.isdigit()}
        for name in ("offsets", "commits")
    )  # fmt: skip
    published = [*(stream / "batches").glob("[0-9]*.json")]
    newest = max((int(path.stem.rpartition("-")[2]) for path in published), default=-1)
    return {"published": newest + 1, "in_batch": max(planned, default=-1) > max(done, default=-1)}
