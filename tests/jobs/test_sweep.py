"""Combinations of a Streams simulation side by side on Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from partage.cli.app import app
from partage.errors import InvalidConfigError
from partage.jobs.sweep import simulate_combinations
from partage.simulation.streams import SweepCell, read_application, simulate_cell, sweep_cells

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

APP: dict[str, Any] = {
    "subtopologies": [{"sources": {"lines": 4}, "stores": {"words": {"records": 1_000_000}}}],
    "clients": {"a": {}, "b": {}},
    "events": [{"at": 600, "do": "crash", "client": "b", "disk": False, "backSeconds": 120}],
}
SWEEPS = {"num.standby.replicas": ["0", "1", "2"], "max.warmup.replicas": ["1", "4"]}


def test_spark_finds_what_one_after_the_other_finds(spark: SparkSession) -> None:
    """Figures, rebalances and spans of every combination, in their order; progress comes to an end."""
    application = read_application(APP)
    every = sweep_cells(["high-availability", "server-sticky"], SWEEPS)
    steps: list[tuple[str, int, int]] = []
    found = simulate_combinations(
        application, every, keep=True, spark=spark, progress=lambda *step: steps.append(step)
    )
    here = [simulate_cell(application, cell) for cell in every]
    assert [measures for measures, _ in found] == [measures for _, measures in here]
    # As JSON has it: pairs are lists there.
    assert [kept for _, kept in found] == [
        json.loads(json.dumps(played.to_dict())) for played, _ in here
    ]
    assert steps[-1] == ("play", 1, 1)


def test_nothing_is_kept_that_nobody_asked_for(spark: SparkSession) -> None:
    """Without `keep` only figures come back."""
    (found,) = simulate_combinations(
        read_application(APP), [SweepCell("high-availability")], spark=spark
    )
    assert found[1] == {}


def test_an_error_of_a_worker_keeps_its_message(spark: SparkSession) -> None:
    """A value that Kafka refuses fails with the setting's name, not with Spark's traceback."""
    every = sweep_cells(["high-availability"], {"max.warmup.replicas": ["1", "0"]})
    with pytest.raises(InvalidConfigError, match=r"max\.warmup\.replicas"):
        simulate_combinations(read_application(APP), every, spark=spark)


def test_the_command_prints_the_same_table_with_and_without_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`--master` changes who plays, not what comes out."""
    file = tmp_path / "app.json"
    file.write_text(json.dumps(APP), "utf-8")
    master = spark.sparkContext.master
    tables = []
    for more in ([], ["--master", master]):
        done = CliRunner().invoke(
            app, ["streams", str(file), "-q", "--sweep", "num.standby.replicas=0,1,2", *more]
        )
        assert done.exit_code == 0, done.output
        tables.append(done.stdout)
    assert tables[0] == tables[1]
