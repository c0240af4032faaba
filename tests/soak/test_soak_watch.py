"""`partage watch` on Spark: the sample as a stream, undisturbed and killed at random moments."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.captured import SAMPLE

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
def report(batch):
    print(batch.number, flush=True)
watch(sys.argv[1], sys.argv[2], StreamSettings(once=True, most_records=8_000), report=report)
"""


def _comparable(rows: list[dict], names: list[str]) -> list[str]:
    wanted = [name for name in names if name not in SIMULATED_COLUMNS["rebalances"]]
    return sorted(json.dumps([row[name] for name in wanted], default=repr) for row in rows)


def _tables(out: Path) -> dict[str, list[str]]:
    folder = StreamFolder(out)
    return {
        table: _comparable(folder.table(table).to_pylist(), stream_schema(table).names)
        for table in STREAM_TABLES
    }


def _process(out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(SAMPLE), str(out)],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def _run(out: Path) -> list[int]:
    """Run a stream to the end of the sample; return the numbers of its micro-batches."""
    with _process(out) as process:
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0
    return [int(line) for line in said.split()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    out = tmp_path_factory.mktemp("watched")
    assert len(_run(out)) > 5
    return _tables(out)


def test_a_stream_gives_the_tables_of_a_replay(
    undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    """Spark's micro-batches give the tables that `partage replay` publishes."""
    replay(SAMPLE, tmp_path, policies=["eager/range"], engine="local")
    run = PublishedRun(tmp_path)
    for table in set(STREAM_TABLES) - {OPENED}:
        expected = run.table(table).to_pylist()
        assert undisturbed[table] == _comparable(expected, stream_schema(table).names), table


def test_killed_at_random_moments(undisturbed: dict[str, list[str]], tmp_path: Path) -> None:
    """SIGKILL to driver, JVM and workers at ten random moments changes no row."""
    moments = random.Random(7)
    for _ in range(10):
        with _process(tmp_path) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            if not first:
                break  # everything is processed
            time.sleep(moments.uniform(0, 3))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)
    _run(tmp_path)
    assert _tables(tmp_path) == undisturbed
