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
from partage.jobs.watch.stream_output import parse_lake_option

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
from partage.jobs.watch.stream_output import StreamLakeTables, StreamFolder
from tests.unit.test_watch_output import _none, _publish, _rows

out, jars, where = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.jars", jars)
    .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", out + "/warehouse")
    .config("spark.databricks.delta.snapshotPartitions", "2")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)
folder = StreamFolder(Path(out))
folder.create_folders()
lake = StreamLakeTables(spark, "delta", where)
lake.create_tables()
lake.create_tables()
steps = [
    (0, [_rows("a", 1, final=True), _rows("a", 2, final=False), _rows("b", 3, final=False)]),
    (1, [_rows("a", 4, final=False)]),
    (1, [_rows("a", 4, final=False), _rows("c", 7, final=True)]),
    (2, [_none("b"), _rows("a", 5, final=True)]),
]
for batch, changes in steps:
    files = _publish(folder, batch, *changes)
    lake.merge_batch(folder.path, batch, files)
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
    assert parse_lake_option(text) == what


@pytest.mark.parametrize("text", ["delta", "delta:", "hudi:lake", "iceberg:/lake/kafka"])
def test_another_lake_is_an_error_of_the_option(text: str) -> None:
    """The error names the option and what it may be."""
    with pytest.raises(InvalidConfigError, match="--tables: must"):
        parse_lake_option(text)


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


#: Two runs, the first one appended twice by Spark and once more by deltalake.
_RUNS = """
import json, sys
from pathlib import Path
from partage.jobs.replay.lake_tables import open_lake
from partage.jobs.spark.session import spark_session
from tests.support.published import published
from tests.unit.test_lake_tables import RUNS, rows

out, jars, catalog = Path(sys.argv[1]), sys.argv[2], sys.argv[3] or None
conf = {
    "spark.jars": jars, "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",  # 50 otherwise, for each commit of each table
    "spark.sql.warehouse.dir": f"{out}/warehouse",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
for run_id in RUNS:
    published(out, rows(), run_id)
with spark_session( master="local[2]", conf=conf) as spark:
    for run_id in (RUNS[0], *RUNS):
        open_lake("delta", str(out), catalog, spark).append_run(out, run_id)
if catalog is None:
    open_lake("delta", str(out), None, None).append_run(out, RUNS[0])
"""


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("catalog", ["", "spark_catalog.kafka"])
def test_spark_and_deltalake_append_a_run_once(jars: str, tmp_path: Path, catalog: str) -> None:
    """Spark writes the rows that deltalake writes, in folders and in a catalog; DuckDB reads them."""
    duckdb = pytest.importorskip("duckdb")
    extension = pytest.importorskip("duckdb_extension_delta")
    from deltalake import DeltaTable
    from tests.support.published import published
    from tests.unit.test_lake_tables import RUNS, rows

    from partage.jobs.replay.lake_tables import open_lake
    from partage.tables.schemas import TABLES

    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", _RUNS, str(tmp_path / "out"), jars, catalog],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    for run_id in RUNS:
        published(tmp_path / "library", rows(), run_id)
        lake = open_lake("delta", str(tmp_path / "library"), None, None)
        assert lake is not None
        lake.append_run(tmp_path / "library", run_id)
    where = tmp_path / "out" / ("warehouse/kafka.db" if catalog else "delta")
    for table in TABLES:
        found, wanted = (
            DeltaTable(str(folder / table)) for folder in (where, tmp_path / "library" / "delta")
        )
        assert _sorted_rows(found) == _sorted_rows(wanted), table
        assert found.metadata().partition_columns == ["date"]
        assert found.metadata().configuration["partage.schema-version"] == "2"
    (file,) = Path(extension.__file__).parent.rglob("delta.duckdb_extension*")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{file}'")
    query = "SELECT run_id, count(*) FROM delta_scan(?) GROUP BY ALL ORDER BY 1"
    assert connection.execute(query, [str(where / "rebalances")]).fetchall() == [
        (r, len(rows()["rebalances"])) for r in RUNS
    ]


def _sorted_rows(table) -> list[str]:
    return sorted(map(repr, table.to_pyarrow_table().to_pylist()))
