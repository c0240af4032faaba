"""`partage replay` on a standalone cluster of two workers, with executors that are killed or stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.captures import rows_of
from tests.support.spark_cluster import Process, StandaloneCluster, TaskEvents, wait_until

from partage.runs.published_run import read_table
from partage.tables.schemas import TABLES
from partage.testing.histories import Size, write_capture

pytestmark = [pytest.mark.spark, pytest.mark.soak]

POLICIES = ("eager/range", "consumer/uniform")
STAGES = ("decode", "histories", "replay")
#: A stage of many tasks needs them for a fault in the middle: files, groups, rebalances.
SIZE = Size(600_000, groups=24, commits_a_rebalance=3_000)
_MINUTES = 30
OnProgress = Callable[[str, int, int], None]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("capture")
    write_capture(SIZE, folder)
    return folder


@pytest.fixture(scope="module")
def local(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that all others are compared with."""
    out = tmp_path_factory.mktemp("local") / "run"
    replay(capture, out, "local[2]")
    return out


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path / "cluster") as running:
        yield running


def replay(
    capture: Path, out: Path, master: str, *conf: str, on_progress: OnProgress | None = None
) -> TaskEvents:
    """Run the command as users type it; return what its event log says about tasks."""
    events = out.with_name("events")
    events.mkdir()
    settings = (
        "spark.eventLog.enabled=true", f"spark.eventLog.dir={events.as_uri()}",
        "spark.eventLog.compress=false", "spark.executor.memory=768m", *conf,
    )  # fmt: skip
    command = [
        sys.executable, "-m", "partage", "replay", str(capture), "--out", str(out), "--json",
        "--commits", "--no-report", "--master", master,
        *(word for one in POLICIES for word in ("--policy", one)),
        *(word for one in settings for word in ("--conf", one)),
    ]  # fmt: skip
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        limit = threading.Timer(60 * _MINUTES, process.kill)
        limit.start()
        try:
            said = list(_lines(process.stderr, on_progress))
        except BaseException:
            process.terminate()
            raise
        finally:
            limit.cancel()
    assert process.returncode == 0, "".join(said[-20:])
    return TaskEvents.read(events)


def _lines(stream: Any, on_progress: OnProgress | None) -> Iterator[str]:
    for line in stream:
        yield line
        if on_progress is not None and line.startswith("{"):
            step = json.loads(line)
            on_progress(step["stage"], step["done"], step["total"])


def expect_equal(out: Path, local: Path) -> None:
    """Every table has the rows of the local run, and the folder has the published files only."""
    for name in set(TABLES) - {"runs", "commits"}:
        assert rows_of(out, name) == rows_of(local, name), name
    found, wanted = (
        read_table(folder, "commits").drop_columns(["run_id"]).sort_by(
            [("log_partition", "ascending"), ("log_offset", "ascending")]
        )
        for folder in (out, local)
    )  # fmt: skip
    assert found.num_rows > SIZE.records / 2
    assert found.equals(wanted)
    manifest = json.loads((out / "manifest.json").read_text())
    published = {one["path"] for files in manifest["tables"].values() for one in files}
    on_disk = {path.relative_to(out).as_posix() for path in out.rglob("*.parquet")}
    assert on_disk == published
    assert not (out / "running").exists()


#: Prints the number of cores that the first job is divided by.
_CORES = """
import sys
from partage.jobs.spark.session import spark_session
with spark_session(master=sys.argv[1]) as spark:
    print(spark.sparkContext.defaultParallelism)
"""


def test_the_first_job_is_divided_by_the_cores_of_all_executors(tmp_path: Path) -> None:
    """A session begins when executors have registered: before that Spark counts two cores."""
    with StandaloneCluster(tmp_path / "cluster", cores=3) as cluster:
        command = [sys.executable, "-c", _CORES, cluster.url]
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, env=environment, check=True
        )
    assert done.stdout.split() == ["6"]


def test_a_cluster_gives_the_tables_of_one_process(
    cluster: StandaloneCluster, capture: Path, local: Path, tmp_path: Path
) -> None:
    """Without faults no task runs twice, both executors work, and all tables are equal."""
    events = replay(capture, tmp_path / "run", cluster.url)
    expect_equal(tmp_path / "run", local)
    assert len(events.executors) == 2
    for stage in STAGES:
        assert events.ended[stage] == {"Success": events.started[stage]}


def test_killed_executors_and_a_killed_worker_change_nothing(
    cluster: StandaloneCluster, capture: Path, local: Path, tmp_path: Path
) -> None:
    """An executor is killed while it decodes, another one with its cached rows and shuffle files
    while it rebuilds histories, and a whole worker while it simulates.
    """
    killed: list[str] = []
    first, second = cluster.workers
    victims = {"decode": first, "histories": second, "replay": first}

    def kill(stage: str, done: int, total: int) -> None:
        if stage not in victims or stage in killed or (stage != "decode" and not 0 < done < total):
            return
        executor = busy_executor(cluster, victims[stage])
        killed.append(stage)
        whole = [victims[stage], *victims[stage].descendants()]
        for process in whole if stage == "replay" else [executor]:
            process.send(signal.SIGKILL)

    events = replay(capture, tmp_path / "run", cluster.url, on_progress=kill)
    expect_equal(tmp_path / "run", local)
    assert killed == list(STAGES)
    assert {stage: events.lost(stage) > 0 for stage in STAGES} == dict.fromkeys(STAGES, True)
    assert len(events.removed) >= len(STAGES)
    assert not cluster.workers[0].is_running()


def test_speculative_copies_change_nothing(
    cluster: StandaloneCluster, capture: Path, local: Path, tmp_path: Path
) -> None:
    """An executor and its Python workers stop in each stage, so that its tasks run twice. They go
    on when the stage has ended, and write files that nobody reads.
    """
    stopped: dict[str, list[Process]] = {}

    def stop(stage: str, done: int, total: int) -> None:
        if stage not in STAGES:
            return
        if (done, total) == (1, 1):
            for process in stopped[stage]:
                process.send(signal.SIGCONT)
        elif stage not in stopped and (stage == "decode" or 0 < done < total):
            executor = busy_executor(cluster, cluster.workers[0])
            stopped[stage] = [executor, *executor.descendants()]
            for process in stopped[stage]:
                process.send(signal.SIGSTOP)

    events = replay(
        capture, tmp_path / "run", cluster.url, "spark.speculation=true",
        "spark.speculation.interval=100ms", "spark.speculation.multiplier=1.1",
        "spark.speculation.quantile=0.25", "spark.speculation.minTaskRuntime=200ms",
        "spark.speculation.efficiency.enabled=false", "spark.network.timeout=900s", on_progress=stop,
    )  # fmt: skip
    expect_equal(tmp_path / "run", local)
    assert list(stopped) == list(STAGES)
    for stage in STAGES:
        assert events.speculative[stage] > 0, stage
        assert events.ended[stage]["Success"] < events.started[stage], stage


def busy_executor(cluster: StandaloneCluster, worker: Process) -> Process:
    """The executor of a worker, once it has a Python worker: a daemon and its child."""

    def found() -> Process | None:
        for executor in cluster.executors(worker):
            python = [p for p in executor.descendants() if b"pyspark.daemon" in p.command()]
            if len(python) >= 2:
                return executor
        return None

    return wait_until("a busy executor", found)
