"""`partage keys` as one Spark job of two stages: for clusters, tables and whatever is large.

In the first stage the workers read and count keys where the data is; distinct keys then meet by
buckets, and in the second stage each is placed once.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from partage.errors import InvalidConfigError
from partage.jobs.keys.columns import expect
from partage.jobs.keys.rows import ROWS_DDL, KeyRowKind
from partage.jobs.keys.sources import KeySource, address
from partage.jobs.keys.workers import (
    LOADS_DDL,
    count_batches,
    loads_in,
    met_by_workers,
    read_and_count,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from partage.jobs.keys.counts import Spec

__all__ = ["BySpark"]

#: Fewer records than this are read by one task a million: a worker's start costs more.
_ROWS_A_TASK = 1_000_000
#: What Spark's wheel lacks, and how a session that we start gets it.
_CONNECTORS = {
    kind: f"; does it have the connector? PYSPARK_SUBMIT_ARGS='--packages {package} pyspark-shell'"
    for kind, package in (
        ("kafka", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"),
        ("delta", "io.delta:delta-spark_2.13:VERSION"),
    )
}


class BySpark:
    """Both stages by the workers of a session.

    Attributes:
        spark: the session, whose jobs are watched.
        tasks: into how many the work is cut, and buckets in which keys meet.
    """

    def __init__(self, spark: SparkSession, source: KeySource, held: ExitStack) -> None:
        self.spark, self._source, self._held = spark, source, held
        cores = max(1, spark.sparkContext.defaultParallelism)
        # As many as there are cores: each more of them sends its distinct keys once more.
        self.tasks = cores
        if source.rows is not None:
            self.tasks = max(1, min(cores, len(source.pieces), -(-source.rows // _ROWS_A_TASK)))
        self.buckets = self.tasks
        self._rows: DataFrame | None = None

    def told(self, spec: Spec, top: int, *, keep: bool) -> pa.Table:
        """What the job tells, without keys; with ``keep`` the keys stay for `loads`."""
        rows = self._counted(spec).repartitionById(self.tasks, "bucket")
        rows = rows.mapInArrow(partial(met_by_workers, spec, top, keep=keep), ROWS_DDL)
        if keep:
            self._rows = rows = rows.persist()
            self._held.callback(rows.unpersist)
        return rows.where(f"kind <> {int(KeyRowKind.KEYS)}").toArrow()

    def loads(self) -> partial[pa.Table]:
        """Of (spec, counts) the rows of `loads_in`, of the keys that the last `told` has kept."""
        if self._rows is None:
            raise RuntimeError("no keys were kept")
        return partial(_loads, self._rows.where(f"kind = {int(KeyRowKind.KEYS)}"))

    def _counted(self, spec: Spec) -> DataFrame:
        if self._source.kind == "parquet":
            work = partial(read_and_count, spec, self._source.pieces, self.tasks)
            return self.spark.range(0, self.tasks, 1, self.tasks).mapInArrow(work, ROWS_DDL)
        frame = _frame(self.spark, self._source)
        return frame.mapInArrow(partial(count_batches, spec), ROWS_DDL)


def _loads(keys: DataFrame, spec: Spec, counts: range) -> pa.Table:
    return keys.mapInArrow(partial(loads_in, spec, counts), LOADS_DDL).toArrow()


def _frame(spark: SparkSession, source: KeySource) -> DataFrame:
    """The columns as Spark reads them.

    Raises:
        InvalidConfigError: Spark cannot read it, or a column is missing or nested.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        found = _read(spark, source)
        schema = found.schema
    except (PySparkException, Py4JJavaError) as e:  # the second where a connector is no class
        lines = [line.strip() for line in str(e).splitlines() if line.strip()]
        said = next((line for line in lines if "Exception: " in line), lines[0])[:200]
        told = f"Spark cannot read it ({said}){_CONNECTORS.get(source.kind, '')}"
        raise InvalidConfigError("INPUT", told, source.where) from None
    expect(to_arrow_schema(schema, timezone="UTC"), source.columns, source.serializer, source.where)
    paths = ([n] if n in schema.names else n.split(".") for n in source.columns.names)
    # By number: mapInArrow takes a name with a point for a path, and finds none.
    return found.selectExpr(
        *(f"{'.'.join(f'`{part}`' for part in path)} AS `{i}`" for i, path in enumerate(paths))
    )


def _read(spark: SparkSession, source: KeySource) -> DataFrame:
    if source.kind == "csv":
        return spark.read.option("header", True).csv(source.where)
    if source.kind == "json":
        return spark.read.json(source.where)
    if source.kind == "kafka":
        from partage.jobs.replay.kafka_source import records_of

        servers, topic = address(source.where)
        return records_of(spark, servers, topic, source.properties)
    return spark.read.format(source.kind).load(source.where)
