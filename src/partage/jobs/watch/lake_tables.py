"""Tables of a stream in Delta or Iceberg: the current rows, one transaction for each micro-batch.

The formats come from the user's Spark session; Partage needs no package for them. Each micro-batch
is one ``MERGE`` for each table that it changes. The statement adds the new rows and deletes the
open rows that they replace, so a reader never sees both. It also deletes the rows of an earlier
attempt at the same micro-batch, so a repeated one counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from partage.errors import InvalidConfigError
from partage.jobs.watch.group_tables import STREAM_TABLES
from partage.jobs.watch.stream_output import OPEN_ROWS, stored_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["LakeTables", "expect_lake"]

#: Formats with ``MERGE``, and the settings that their sessions need.
_FORMATS = {
    "delta": "spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0, "
    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "iceberg": "spark.jars.packages with Iceberg's runtime, "
    "spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions and "
    "spark.sql.catalog.NAME",
}
#: Column of the merged rows: whether a row only names a group whose open rows are replaced.
_MARK = "_replaces"


def expect_lake(text: str) -> tuple[str, str]:
    """Check the text of ``--tables``; return the table format, and the namespace or folder.

    Raises:
        InvalidConfigError: the format is unknown, or a part is missing.

    >>> expect_lake("iceberg:lake.kafka")
    ('iceberg', 'lake.kafka')
    """
    form, _, where = text.partition(":")
    if form not in _FORMATS or not where:
        what = "must be delta:FOLDER, delta:NAMESPACE or iceberg:NAMESPACE"
        raise InvalidConfigError("--tables", what, text)
    if form == "iceberg" and "/" in where:
        raise InvalidConfigError("--tables", "must name a namespace of an Iceberg catalog", text)
    return form, where


@dataclass
class LakeTables:
    """Writer of the tables of `partage watch` to Delta or Iceberg; only current rows are stored
    there.

    Args:
        spark: a session that supports the format.
        form: the format, ``delta`` or ``iceberg``.
        where: a namespace (``lake.kafka``); for Delta also a folder, which has a ``/``.
    """

    spark: SparkSession
    form: str
    where: str

    def prepare(self) -> None:
        """Create the Delta or Iceberg tables that do not exist.

        Raises:
            InvalidConfigError: the session lacks the format or the catalog.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            if not self._is_folder:
                self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.where}")
            for table in STREAM_TABLES:
                self._create(table)
        except (PySparkException, Py4JJavaError) as e:
            reason = next((line for line in str(e).splitlines() if line.strip()), type(e).__name__)
            what = f"cannot be written ({reason[:200]}); Spark needs --conf {_FORMATS[self.form]}"
            raise InvalidConfigError("--tables", what, f"{self.form}:{self.where}") from None

    def publish(self, folder: Path, batch: int, files: Mapping[str, Sequence[str]]) -> None:
        """Merge the output rows of a micro-batch into the Delta or Iceberg tables.

        Args:
            folder: the output folder of the stream (`StreamFolder`).
            batch: number of the micro-batch.
            files: dict from table to the names of its files, see `StreamFolder.publish`.
        """
        replaced = self._read(folder, OPEN_ROWS, files)
        groups: dict[str, list[str]] = {}
        for row in [] if replaced is None else replaced.collect():
            groups.setdefault(row["table"], []).append(row["group"])
        for table in STREAM_TABLES:
            if table in files or table in groups:
                rows = self._read(folder, table, files)
                self._merge(table, batch, rows, groups.get(table, []))

    @property
    def _is_folder(self) -> bool:
        return "/" in self.where

    def _name(self, table: str) -> str:
        if self._is_folder:
            return f"{self.form}.`{Path(self.where).absolute() / table}`"
        return f"{self.where}.{table}"

    def _create(self, table: str) -> None:
        empty = self.spark.createDataFrame([], _spark_schema(table))
        if not self._is_folder:
            if not self.spark.catalog.tableExists(self._name(table)):
                empty.writeTo(self._name(table)).using(self.form).partitionedBy("final").create()
            return
        path = str(Path(self.where).absolute() / table)
        if not (Path(path) / "_delta_log").is_dir():
            empty.write.format(self.form).partitionBy("final").save(path)

    def _read(
        self, folder: Path, table: str, files: Mapping[str, Sequence[str]]
    ) -> DataFrame | None:
        names = files.get(table, ())
        if not names:
            return None
        paths = [str(folder / "tables" / table / name) for name in names]
        return self.spark.read.schema(_spark_schema(table)).parquet(*paths)

    def _merge(self, table: str, batch: int, rows: DataFrame | None, groups: Sequence[str]) -> None:
        """Add rows to a Delta or Iceberg table and delete provisional ones, in one transaction.

        Args:
            table: name of the table.
            batch: number of the micro-batch.
            rows: the new rows.
            groups: groups whose provisional rows are deleted.
        """
        from pyspark.sql import functions

        schema = _spark_schema(table)
        if rows is None:
            rows = self.spark.createDataFrame([], schema)
        marks = self.spark.createDataFrame([(name,) for name in groups], "`group` string")
        source = rows.withColumn(_MARK, functions.lit(False)).unionByName(
            marks.withColumn(_MARK, functions.lit(True)), allowMissingColumns=True
        )
        source.createOrReplaceTempView("partage_changes")
        names = [f"`{name}`" for name in schema.names]
        self.spark.sql(
            f"MERGE INTO {self._name(table)} AS t USING partage_changes AS s "  # noqa: S608 - our names, the user's own catalog
            f"ON s.{_MARK} AND NOT t.final AND t.`group` = s.`group` "
            "WHEN MATCHED THEN DELETE "
            f"WHEN NOT MATCHED AND NOT s.{_MARK} THEN INSERT ({', '.join(names)}) "
            f"VALUES ({', '.join(f's.{name}' for name in names)}) "
            f"WHEN NOT MATCHED BY SOURCE AND t.batch >= {batch} THEN DELETE"
        )


def _spark_schema(table: str) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(stored_schema(table))
