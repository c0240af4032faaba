"""Tables of a stream in Delta: the current rows after each micro-batch, also after repeated ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from partage.errors import InvalidConfigError
from partage.jobs.watch.stream_output import expect_lake

#: Delta for Spark 4.2, without what Spark has itself.
JARS = (
    "io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0",
    "io.delta:delta-kernel-api:4.4.0", "io.delta:delta-kernel-defaults:4.4.0",
    "io.delta:delta-kernel-unitycatalog:4.4.0", "io.unitycatalog:unitycatalog-client:0.6.0",
    "io.unitycatalog:unitycatalog-hadoop:0.6.0",
)  # fmt: skip

#: A process of its own: a session's class path cannot change.
_SCRIPT = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from partage.jobs.watch.stream_output import LakeTables, StreamFolder
from tests.unit.test_watch_output import _none, _publish, _rows

out, jars, where = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.jars", jars)
    .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", out + "/warehouse")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)
folder = StreamFolder(Path(out))
folder.prepare()
lake = LakeTables(spark, "delta", where)
lake.prepare()
lake.prepare()
steps = [
    (0, [_rows("a", 1, final=True), _rows("a", 2, final=False), _rows("b", 3, final=False)]),
    (1, [_rows("a", 4, final=False)]),
    (1, [_rows("a", 4, final=False), _rows("c", 7, final=True)]),
    (2, [_none("b"), _rows("a", 5, final=True)]),
]
for batch, changes in steps:
    files = _publish(folder, batch, *changes)
    lake.publish(folder.path, batch, files)
    rows = spark.read.format("delta").load(where + "/unread").collect() if "/" in where else (
        spark.table(where + ".unread").collect())
    found = sorted([row["group"], row["partition"], row["final"]] for row in rows)
    current = sorted([r["group"], r["partition"]] for r in folder.table("unread").to_pylist())
    print(json.dumps([found, current]), flush=True)
"""


@pytest.mark.parametrize(
    ("text", "what"),
    [("delta:/lake/kafka", ("delta", "/lake/kafka")), ("iceberg:lake.k", ("iceberg", "lake.k"))],
)
def test_a_lake_is_a_format_and_a_place(text: str, what: tuple[str, str]) -> None:
    """A folder or a namespace of Delta, and a namespace of Iceberg, are accepted."""
    assert expect_lake(text) == what


@pytest.mark.parametrize("text", ["delta", "delta:", "hudi:lake", "iceberg:/lake/kafka"])
def test_another_lake_is_an_error_of_the_option(text: str) -> None:
    """The error names the option and what it may be."""
    with pytest.raises(InvalidConfigError, match="--tables: must"):
        expect_lake(text)


@pytest.fixture(scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The jars of Delta, from Maven."""
    if shutil.which("mvn") is None:
        pytest.skip("no Maven: Delta's jars cannot be had")
    folder = tmp_path_factory.mktemp("jars")
    for jar in JARS:
        subprocess.run(
            ["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy",
             f"-Dartifact={jar}", f"-DoutputDirectory={folder}"], check=True,
        )  # fmt: skip
    return ",".join(str(one) for one in sorted(folder.iterdir()))


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("where", ["folder", "namespace"])
def test_delta_has_the_current_rows_after_each_micro_batch(
    jars: str, tmp_path: Path, where: str
) -> None:
    """Open rows are replaced, and a micro-batch that is repeated counts once."""
    place = str(tmp_path / "lake") if where == "folder" else "default"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path), jars, place],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(root)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert [one for one, _ in found] == [
        [["a", 1, True], ["a", 2, False], ["b", 3, False]],
        [["a", 1, True], ["a", 4, False], ["b", 3, False]],
        [["a", 1, True], ["a", 4, False], ["b", 3, False], ["c", 7, True]],
        [["a", 1, True], ["a", 4, False], ["a", 5, True], ["c", 7, True]],
    ]
    for rows, current in found:
        assert [row[:2] for row in rows] == current
