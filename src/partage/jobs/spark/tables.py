"""Tables that only Spark can read: Delta, Iceberg, addresses, names in its catalog."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from partage.capture.secrets import hide, secrets_in
from partage.errors import InvalidCaptureError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from partage.jobs.replay.tally import Tally

__all__ = ["SparkTable", "first_line", "is_address", "spark_table"]

#: A name in Spark's catalog: ``table``, ``schema.table`` or ``catalog.schema.table``.
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://.+")
_COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value")
_TYPES = {"partition": "int", "offset": "bigint", "timestamp_ms": "bigint",
          "key": "binary", "value": "binary"}  # fmt: skip
_WHOLE = {"tinyint", "smallint", "int", "bigint"}


@dataclass(frozen=True)
class SparkTable:
    """A table of records that only Spark can read, given by its path, address or name.

    Attributes:
        name: the path, address or name as given.
        format: delta, iceberg or parquet; "" for a name in Spark's catalog.
        paths: the files or folders to read, if they are not all of ``name``.
    """

    name: str
    format: str
    paths: tuple[str, ...] = ()

    def rows(self, spark: SparkSession) -> DataFrame:
        """Read the table with Spark; return a data frame with the five columns of a capture.

        Raises:
            InvalidCaptureError: Spark cannot read it, or a column is missing or of a wrong type.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            if self.format:
                reader = spark.read.format(self.format)
                if any("=" in path for path in self.paths):
                    reader = reader.option("basePath", self.name)  # columns of partition=3/ folders
                found = reader.load(list(self.paths) or self.name)
            else:
                found = spark.read.table(self.name)
            kinds = {f.name: f.dataType.simpleString() for f in found.schema.fields}
        except (PySparkException, Py4JJavaError) as e:
            said = hide(first_line(e), secrets_in(dict(spark.sparkContext.getConf().getAll())))
            raise InvalidCaptureError(
                f"{self.name}: Spark cannot read it as {self.format or 'a table'} ({said[:300]}); "
                "give its connector with --conf spark.jars=..., or a folder of Parquet files"
            ) from None
        for name, kind in _TYPES.items():
            _expect(self.name, name, kinds, kind)
        return found.selectExpr(*(f"cast({n} as {_TYPES[n]}) as {n}" for n in _COLUMNS))

    def expect_all(self, tally: Tally) -> None:
        """Do nothing; `KafkaTable` checks here that Spark has read all records.

        A table has exactly the rows that Spark returns.
        """


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its class name if the message is empty."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if line), type(error).__name__)


def _expect(table: str, name: str, kinds: dict[str, str], wanted: str) -> None:
    if name not in kinds:
        raise InvalidCaptureError(
            f"{table}: column {name} is missing (found: {', '.join(kinds)}); "
            "records have partition, offset, timestamp_ms, key, value"
        )
    fits = kinds[name] == "binary" if wanted == "binary" else kinds[name] in _WHOLE
    if not fits:
        raise InvalidCaptureError(f"{table}: column {name} must be {wanted}, is {kinds[name]}")


def is_address(text: str) -> bool:
    """Return whether an input is an address in remote storage, such as ``s3a://lake/offsets``."""
    return _ADDRESS.fullmatch(text) is not None


def spark_table(source: str | Path) -> SparkTable | None:
    """Return the input as a Spark table if only Spark can read it.

    Return None for local Parquet files, and for a missing path.

    >>> spark_table("lake.kafka.offsets"), spark_table("s3a://lake/offsets").format
    (SparkTable(name='lake.kafka.offsets', format='', paths=()), 'parquet')
    """
    text = str(source)
    if is_address(text):
        return SparkTable(text, "parquet")
    at = Path(source)
    if (at / "_delta_log").is_dir():
        return SparkTable(str(at.absolute()), "delta")
    if at.is_dir() and any((at / "metadata").glob("*.metadata.json")):
        return SparkTable(str(at.absolute()), "iceberg")
    if not at.exists() and _NAME.fullmatch(text):
        return SparkTable(text, "")
    return None
