"""Published runs as Delta or Iceberg tables: one table for each output table, appended by run.

Each append is one commit of a table. Rows have the id of the published run in ``run_id``, also rows
that a run with ``--append`` took over from an earlier one. A run whose rows are in a table is not
appended again, so no ``MERGE`` is needed. Table ``runs`` comes last: a run counts if it is in it.

Tables have one more column: ``date``, by which they are partitioned (`date_column`). The property
``partage.schema-version`` has the format version of the columns.

The Spark session writes the tables if it has the format, else the libraries deltalake and pyiceberg
do in this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from partage.capture.secrets import hide_secrets, secrets_in
from partage.errors import InvalidConfigError, MissingExtraError, PartageError
from partage.jobs.spark.failures import java_message
from partage.jobs.spark.tables import first_line, is_address
from partage.runs.published_run import FORMAT, PublishedRun
from partage.tables.schemas import TABLES, table_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["FORMATS", "LakeTables", "date_column", "open_lake"]

#: Values of the option ``--format``.
FORMATS = ("parquet", "delta", "iceberg")
_VERSION = "partage.schema-version"
_DAY_MS = 86_400_000
#: Later times (year 10000) come from wrong clocks, and no format has such a date.
_END_MS = 253_402_300_800_000
#: Columns with the time of a row in milliseconds; the first that is not null counts. Rows of other
#: tables have the day of the run.
_TIMES = {
    "events": ("time_ms",),
    "rebalances": ("time_ms",),
    "ownership": ("from_ms",),
    "commit_rates": ("minute_ms",),
    "commits": ("time_ms",),
    "pauses": ("first_ms", "last_ms"),
    "unread": ("assigned_ms",),
    "replays": ("time_ms",),
    "bad_records": ("timestamp_ms",),
}
_BATCH_ROWS = 100_000
#: Rows of one append of pyiceberg, which has them in memory.
_ICEBERG_ROWS = 1_000_000
#: Extensions of a Spark session that has a format.
_EXTENSIONS = {"delta": "DeltaSparkSessionExtension", "iceberg": "IcebergSparkSessionExtensions"}
#: Settings of Hadoop's S3 connector, and the same of deltalake.
_S3_OPTIONS = {
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
    "endpoint": "AWS_ENDPOINT_URL",
    "endpoint.region": "AWS_REGION",
}


class _Backend(Protocol):
    """Interface of a writer of Delta or Iceberg tables, such as a Spark session or pyiceberg."""

    def open_table(self, table: str) -> str | None:
        """Create a table or add missing columns to it; return the version of its row format."""

    def has_run(self, table: str, run_id: str) -> bool:
        """Return whether a Delta or Iceberg table already has the rows of a run of ``partage
        replay``.
        """

    def append(self, table: str, paths: Sequence[Path], run_id: str) -> None:
        """Append the rows of Parquet files to a Delta or Iceberg table, in one commit."""


@dataclass(frozen=True)
class LakeTables:
    """Delta or Iceberg tables to which published runs are appended.

    Attributes:
        form: the table format, ``delta`` or ``iceberg``.
        where: folder, address or namespace of the tables, for messages.
        backend: writer of the format.
        secrets: passwords and keys that no message may contain.
    """

    form: str
    where: str
    backend: _Backend
    secrets: frozenset[str] = frozenset()

    def append_run(self, folder: Path, run_id: str) -> None:
        """Append a published run to the tables.

        A table that already has rows of the run is not changed, so a repeated call is harmless.

        Args:
            folder: the output folder.
            run_id: id of the run.

        Raises:
            InvalidConfigError: a table cannot be written, or has columns of another version.
        """
        run = PublishedRun(folder, run_id)
        if self._open_table("runs", run_id):
            return
        for table in sorted(set(TABLES) - {"runs"}):
            if not self._open_table(table, run_id):
                self._append(table, run)
        self._append("runs", run)

    def _open_table(self, table: str, run_id: str) -> bool:
        """Create a table or check its row format; return whether it already has rows of a run."""
        with self._errors(f"{self.where}, table {table}"):
            version = self.backend.open_table(table)
            if version != str(FORMAT):
                what = (
                    f"has format version {version} of Partage's tables, and this version "
                    f"writes {FORMAT}; give a new --out or --catalog"
                )
                raise InvalidConfigError("--format", what, f"{self.where}, table {table}")
            return self.backend.has_run(table, run_id)

    def _append(self, table: str, run: PublishedRun) -> None:
        with self._errors(f"{self.where}, table {table}"):
            paths = run.files(table)
            if paths:
                self.backend.append(table, paths, str(run.summary["run_id"]))

    @contextmanager
    def _errors(self, where: str) -> Iterator[None]:
        try:
            yield
        except PartageError:
            raise
        except Exception as e:  # three libraries and Spark raise what they like
            reason = hide_secrets(java_message(e) or first_line(e), self.secrets)[:300]
            what = f"cannot be written ({reason}); the run is published as Parquet files"
            raise InvalidConfigError("--format", what, where) from e


def open_lake(
    form: str,
    out: str,
    catalog: str | None,
    spark: SparkSession | None,
    conf: Mapping[str, str] | None = None,
) -> LakeTables | None:
    """Return a writer of Delta or Iceberg tables, after a check that such tables can be written.

    The result is None for the format ``parquet``. Nothing is written yet.

    Args:
        form: ``parquet``, ``delta`` or ``iceberg``.
        out: the output folder or address, which has the tables if no catalog is given.
        catalog: ``catalog.namespace`` of Spark, or of pyiceberg's configuration; or None.
        spark: the session; None without Spark.
        conf: Spark settings, for credentials.

    Raises:
        InvalidConfigError: the format is unknown, or there is no way to write such tables.
        MissingExtraError: the library of the format is not installed.
    """
    if form not in FORMATS:
        raise InvalidConfigError("--format", f"must be one of {', '.join(FORMATS)}", form)
    if form == "parquet":
        if catalog is not None:
            raise InvalidConfigError("--catalog", "needs --format delta or iceberg", catalog)
        return None
    where = catalog or f"{out if is_address(out) else Path(out).absolute()}/{form}"
    secrets = frozenset(secrets_in(conf or {}))
    backend: _Backend
    if spark is not None and _has_format(spark, form, catalog):
        backend = _SparkTables(spark, form, where, is_folder=catalog is None)
    elif form == "delta":
        if catalog is not None:
            what = "needs a Spark session with Delta's jars and extension (docs/storage.md)"
            raise InvalidConfigError("--catalog", what, catalog)
        _expect_library("deltalake", "delta")
        backend = _DeltaFiles(where, _s3_options(conf or {}) if is_address(out) else {})
    else:
        if catalog is None and is_address(out):
            what = "is needed for Iceberg tables at an address"
            raise InvalidConfigError("--catalog", what, None)
        _expect_library("pyiceberg", "iceberg")
        backend = _IcebergTables(where, in_folder=catalog is None)
    return LakeTables(form, where, backend, secrets)


def _has_format(spark: SparkSession, form: str, catalog: str | None) -> bool:
    if _EXTENSIONS[form] not in (spark.conf.get("spark.sql.extensions", "") or ""):
        return False
    if form == "delta":
        return True
    name = (catalog or "").partition(".")[0]
    return spark.conf.get(f"spark.sql.catalog.{name}", None) is not None


def _expect_library(name: str, extra: str) -> None:
    try:
        __import__(name)
    except ImportError:
        raise MissingExtraError(name, extra=extra) from None


def _s3_options(conf: Mapping[str, str]) -> dict[str, str]:
    found = {
        option: conf[f"spark.hadoop.fs.s3a.{name}"]
        for name, option in _S3_OPTIONS.items() if f"spark.hadoop.fs.s3a.{name}" in conf
    }  # fmt: skip
    if found.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        found["AWS_ALLOW_HTTP"] = "true"
    return found


# -- rows ------------------------------------------------------------------------------------------


def _lake_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a Delta or Iceberg table: the output table's columns, and
    ``date``.

    All columns are nullable, so that a later version of Partage can add columns.
    """
    import pyarrow as pa

    fields = [field.with_nullable(True) for field in table_schema(table)]
    return pa.schema([*fields, pa.field("date", pa.date32())])


def _run_day(run_id: str) -> int:
    """Return the day on which a run began, as days since 1970-01-01.

    It is parsed from the run's id (``20261126T185614-...``).
    """
    text = f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}"
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def date_column(table: str, rows: pa.RecordBatch, run_id: str) -> pa.Array:
    """Return the UTC day of each row (date32[n]), by which a table is partitioned.

    Rows without a usable time have the day on which the run began.

    Args:
        table: name of the output table.
        rows: rows with the table's columns.
        run_id: id of the run.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    day = pa.scalar(_run_day(run_id), pa.int64())
    if table not in _TIMES:
        return pa.repeat(day.cast(pa.int32()), rows.num_rows).cast(pa.date32())
    time_ms = pc.coalesce(*(rows.column(name) for name in _TIMES[table]))
    is_date = pc.and_(pc.greater_equal(time_ms, 0), pc.less(time_ms, _END_MS))
    # `if_else` gives null for a null condition.
    days = pc.if_else(pc.fill_null(is_date, False), pc.divide(time_ms, _DAY_MS), day)
    return days.cast(pa.int32()).cast(pa.date32())


def _read_batches(table: str, paths: Sequence[Path], run_id: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import parquet

    schema = _lake_schema(table)
    for path in paths:
        for rows in parquet.ParquetFile(path).iter_batches(_BATCH_ROWS):
            given = {name: rows.column(name) for name in rows.schema.names} | {
                "run_id": pa.repeat(pa.scalar(run_id), rows.num_rows),
                "date": date_column(table, rows, run_id),
            }
            cells = [
                given[field.name].cast(field.type) if field.name in given
                else pa.nulls(rows.num_rows, field.type) for field in schema
            ]  # fmt: skip
            yield pa.RecordBatch.from_arrays(cells, schema=schema)


# -- writers ---------------------------------------------------------------------------------------


class _SparkTables:
    """Delta or Iceberg tables that a Spark session writes.

    Delta tables are in a folder or a catalog, Iceberg tables in a catalog.

    Args:
        spark: the session.
        form: ``delta`` or ``iceberg``.
        where: a folder, or a catalog and namespace.
        is_folder: whether ``where`` is a folder.
    """

    def __init__(self, spark: SparkSession, form: str, where: str, *, is_folder: bool) -> None:
        self._spark, self._form, self._where, self._is_folder = spark, form, where, is_folder

    def _name(self, table: str) -> str:
        return f"delta.`{self._where}/{table}`" if self._is_folder else f"{self._where}.`{table}`"

    def open_table(self, table: str) -> str | None:
        from pyspark.sql.pandas.types import from_arrow_schema

        name = self._name(table)
        if not self._is_folder:
            self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._where}")
        columns = {
            f.name: f"`{f.name}` {f.dataType.simpleString()}"
            for f in from_arrow_schema(_lake_schema(table))
        }
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns.values())}) "
            f"USING {self._form} PARTITIONED BY (`date`) TBLPROPERTIES ('{_VERSION}' = '{FORMAT}')"
        )
        found = self._spark.table(name).columns
        missing = [column for name, column in columns.items() if name not in found]
        if missing:
            self._spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({', '.join(missing)})")
        properties = self._spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
        return next((row["value"] for row in properties if row["key"] == _VERSION), None)

    def has_run(self, table: str, run_id: str) -> bool:
        rows = self._spark.table(self._name(table))
        return bool(rows.where(rows["run_id"] == run_id).take(1))

    def append(self, table: str, paths: Sequence[Path], run_id: str) -> None:
        from pyspark.sql import functions
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(table_schema(table))
        rows = self._spark.read.schema(schema).parquet(*map(str, paths))
        time_ms = ", ".join(f"`{name}`" for name in _TIMES.get(table, ())) or "CAST(NULL AS BIGINT)"
        day = (
            f"CASE WHEN coalesce({time_ms}) >= 0 AND coalesce({time_ms}) < {_END_MS} "
            f"THEN coalesce({time_ms}) DIV {_DAY_MS} ELSE {_run_day(run_id)} END"
        )
        rows = rows.withColumn("run_id", functions.lit(run_id)).withColumn(
            "date", functions.expr(f"date_add(DATE'1970-01-01', CAST({day} AS INT))")
        )
        name = self._name(table)
        rows.select(*(f"`{c}`" for c in self._spark.table(name).columns)).writeTo(name).append()


class _DeltaFiles:
    """Delta tables in a folder, written by the library deltalake.

    Args:
        where: the folder or address.
        options: settings of the object store; if empty, the environment variables apply.
    """

    def __init__(self, where: str, options: dict[str, str]) -> None:
        self._where, self._options = where, options

    def _open(self, table: str) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(f"{self._where}/{table}", storage_options=self._options)

    def open_table(self, table: str) -> str | None:
        from deltalake import DeltaTable

        DeltaTable.create(
            f"{self._where}/{table}", _lake_schema(table), mode="ignore", partition_by=["date"],
            configuration={_VERSION: str(FORMAT)}, storage_options=self._options,
            raise_if_key_not_exists=False,  # the property is not one of Delta's own
        )  # fmt: skip
        version: str | None = self._open(table).metadata().configuration.get(_VERSION)
        return version

    def has_run(self, table: str, run_id: str) -> bool:
        from deltalake import QueryBuilder

        query = f"SELECT 1 FROM rows WHERE run_id = '{run_id}' LIMIT 1"  # noqa: S608 - our own id
        found = QueryBuilder().register("rows", self._open(table)).execute(query)
        return any(batch.num_rows for batch in found)

    def append(self, table: str, paths: Sequence[Path], run_id: str) -> None:
        import pyarrow as pa
        from deltalake import write_deltalake

        rows = _read_batches(table, paths, run_id)
        reader = pa.RecordBatchReader.from_batches(_lake_schema(table), rows)
        # `merge` adds columns that an older version of Partage did not write.
        write_deltalake(self._open(table), reader, mode="append", schema_mode="merge")


class _IcebergTables:
    """Iceberg tables, written by the library pyiceberg.

    Args:
        where: ``catalog.namespace`` of pyiceberg's configuration; or a folder for the tables and a
            SQLite catalog.
        in_folder: whether ``where`` is a folder.
    """

    def __init__(self, where: str, *, in_folder: bool) -> None:
        self._where, self._in_folder = where, in_folder
        self._catalog: Any = None

    def _name(self, table: str) -> str:
        namespace = "partage" if self._in_folder else self._where.partition(".")[2]
        return f"{namespace or 'partage'}.{table}"

    def _connect(self) -> Any:
        if self._catalog is not None:
            return self._catalog
        if self._in_folder:
            from pyiceberg.catalog.sql import SqlCatalog

            folder = Path(self._where)
            folder.mkdir(parents=True, exist_ok=True)
            self._catalog = SqlCatalog(
                "partage", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=f"file://{folder}"
            )
        else:
            from pyiceberg.catalog import load_catalog

            self._catalog = load_catalog(self._where.partition(".")[0])
        return self._catalog

    def open_table(self, table: str) -> str | None:
        catalog, name, schema = self._connect(), self._name(table), _lake_schema(table)
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        found = catalog.create_table_if_not_exists(
            name, schema=schema, properties={_VERSION: str(FORMAT)}
        )
        if not found.spec().fields:
            with found.update_spec() as spec:
                spec.add_identity("date")
        if set(schema.names) - set(found.schema().column_names):
            with found.update_schema() as update:
                update.union_by_name(schema)
        version: str | None = found.properties.get(_VERSION)
        return version

    def has_run(self, table: str, run_id: str) -> bool:
        rows = self._connect().load_table(self._name(table)).scan(
            row_filter=f"run_id = '{run_id}'", selected_fields=("run_id",), limit=1
        )  # fmt: skip
        return bool(rows.to_arrow().num_rows)

    def append(self, table: str, paths: Sequence[Path], run_id: str) -> None:
        import pyarrow as pa

        found, schema = self._connect().load_table(self._name(table)), _lake_schema(table)
        with found.transaction() as transaction:
            waiting: list[pa.RecordBatch] = []
            for rows in _read_batches(table, paths, run_id):
                waiting.append(rows)
                if sum(one.num_rows for one in waiting) >= _ICEBERG_ROWS:
                    transaction.append(pa.Table.from_batches(waiting, schema))
                    waiting = []
            if waiting:
                transaction.append(pa.Table.from_batches(waiting, schema))
