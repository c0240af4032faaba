"""The same run with executors that are processes of their own, as on a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.captures import capture, records, rows_of

from partage.jobs.replay.replay import replay
from partage.tables.schemas import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.soak]

#: In a process of its own: this one has a session already.
_RUN = """
import json, sys
from partage.jobs.replay.replay import replay
from partage.jobs.spark.session import spark_session
capture, out = sys.argv[1:]
with spark_session(master="local-cluster[2,1,2048]") as spark:
    where = lambda _: [__import__("partage").__file__]
    files = spark.sparkContext.parallelize(range(8), 8).mapPartitions(where).collect()
    summary = replay(capture, out, spark=spark, policies=["eager/range"])
print(json.dumps({"files": sorted(set(files)), "decoded": summary["accounting"]["decoded"]}))
"""


@pytest.mark.skipif(
    os.environ.get("PARTAGE_SOAK") != "1",
    reason="two executors of 2 GB and half a minute: only with PARTAGE_SOAK=1",
)
def test_two_executors_get_this_package_and_give_the_same_tables(spark, tmp_path: Path) -> None:
    """Executors import the Partage that was sent to them, and the tables are those of local[*]."""
    folder = capture(tmp_path / "c", records().slice(0, 20_000))
    command = [sys.executable, "-c", _RUN, str(folder), str(tmp_path / "cluster")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["decoded"] == 20_000
    assert all("partage-shipped.zip" in file for file in result["files"]), result["files"]
    replay(folder, tmp_path / "local", spark=spark, policies=["eager/range"])
    for name in set(TABLES) - {"runs"}:
        assert rows_of(tmp_path / "cluster", name) == rows_of(tmp_path / "local", name), name
