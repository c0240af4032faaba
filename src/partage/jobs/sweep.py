"""Run a parameter sweep of the Kafka Streams simulation in Spark, one task per combination."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from partage.jobs.spark.failures import jvm_errors, worker_errors
from partage.jobs.spark.progress import Progress, StageTimes
from partage.simulation.streams import (
    SimulatedApplication,
    StreamsMetrics,
    SweepCell,
    simulate_cell,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["simulate_combinations"]

_DDL = "cell bigint, measures string, played string"
#: Tasks for each core: cells take different times, and progress counts tasks.
_TASKS_A_CORE = 4


def simulate_combinations(
    application: SimulatedApplication,
    combinations: Sequence[SweepCell],
    *,
    keep: bool = False,
    spark: SparkSession | None = None,
    master: str | None = None,
    progress: Progress | None = None,
) -> list[tuple[StreamsMetrics, dict[str, Any]]]:
    """Simulate a Kafka Streams application under each combination of settings, as Spark tasks.

    This is a parameter sweep, for example over session timeouts. The results equal those of
    simulations in one process.

    Args:
        application: the simulated application.
        combinations: the combinations of task assignor and settings to simulate.
        keep: whether `SimulationResult.to_dict` (rebalances and intervals) is returned as well.
        spark: a running session; None starts one.
        master: Spark's master for a session that is started here.
        progress: called with (stage, done, total).

    Returns:
        For each cell, in order, its metrics and the result that ``keep`` requests (else empty).

    Raises:
        PartageError: what `partage.simulation.streams.simulate_cell` raises, by its message.
        MissingExtraError, MissingJavaError: Spark cannot be started.
        InvalidConfigError: Spark does not start with this master.
        SparkFailedError: a worker, or Spark's own process, was killed.
    """
    from partage.jobs.spark.session import spark_session

    stages = StageTimes(progress)
    with ExitStack() as opened:
        with stages.measure_stage("start Spark"):
            opened.enter_context(jvm_errors())
            running = opened.enter_context(spark_session(spark, master=master))
            opened.enter_context(worker_errors())
        count = len(combinations)
        cores = max(1, running.sparkContext.defaultParallelism)
        tasks = max(1, min(count, _TASKS_A_CORE * cores))
        work = partial(_play, application, tuple(combinations), keep)
        with stages.measure_stage("play", running):
            rows = running.range(0, count, 1, tasks).mapInArrow(work, _DDL).collect()
    rows.sort(key=lambda row: row.cell)
    return [(StreamsMetrics(**json.loads(row.measures)), json.loads(row.played)) for row in rows]


def _play(
    application: SimulatedApplication,
    cells: Sequence[SweepCell],
    keep: bool,  # noqa: FBT001 - by position, through functools.partial
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        for number in batch.column(0).to_pylist():
            played, measures = simulate_cell(application, cells[number])
            kept = played.to_dict() if keep else {}
            yield pa.RecordBatch.from_pydict(
                {
                    "cell": pa.array([number], pa.int64()),
                    "measures": pa.array([json.dumps(measures.to_dict())], pa.string()),
                    "played": pa.array([json.dumps(kept)], pa.string()),
                }
            )
