"""Tables of a stream on disk: written and published by micro-batch, and read as current rows.

```
OUT/stream/tables/<table>/batch-00000012-*.parquet   rows of one micro-batch
OUT/stream/batches/00000012.json                     its files; written last, replaced atomically
OUT/stream/batches/00000000-00000063.json            files of merged micro-batches
OUT/stream/checkpoint/                               Spark's: positions in the log, states of groups
OUT/stream/cluster.jsonl                             metadata, if the source is a running cluster
OUT/stream/cluster-config.json                       its settings of groups
```

If the source is a running cluster, table ``decoded`` has the decoded records, from which
`partage replay OUT` begins.

A micro-batch that is repeated after a crash replaces its files. Files that no manifest lists do not
count. Every 64 micro-batches are merged, so that there are few files. Open rows that were replaced
within them are left out.

Tables have two more columns: ``batch``, the number of the micro-batch, and ``final``. An **open**
row (``final`` is false) counts until a later micro-batch has replaced the open rows of its group.
Table ``open_rows`` says which micro-batch has the open rows of each group and table that count.

The current rows may be kept in Delta or Iceberg tables too. The formats come from the user's Spark
session; Partage needs no package for them. Each micro-batch is one ``MERGE`` for each table that it
changes. The statement adds the new rows and deletes the open rows that they replace, so a reader
never sees both. It also deletes the rows of an earlier attempt at the same micro-batch, so a
repeated one counts once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from partage.capture.durable import write_json
from partage.errors import InvalidCaptureError, InvalidConfigError
from partage.history.state_store import VERSION
from partage.jobs.replay.histories import receipts_batch
from partage.jobs.spark.failures import java_message
from partage.jobs.watch.group_tables import DECODED, OPENED, STREAM_TABLES, stream_schema
from partage.runs.stream_manifests import StreamManifest, current_manifests

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "OPEN_ROWS",
    "StreamFolder",
    "StreamLakeTables",
    "expect_stream_folder",
    "parse_lake_option",
    "stored_schema",
    "write_changes",
]

#: Table of the groups whose open rows a micro-batch has replaced.
OPEN_ROWS = "open_rows"
_STORED = (*STREAM_TABLES, DECODED)
#: Layout of the states of groups in the checkpoint: the columns in Spark's store, and the history.
_LAYOUT = f"2.{VERSION}"
#: Numbers of micro-batches that are merged: 64, then 64 merged ones, and so on.
_SPANS = (64, 64**2, 64**3)
#: Rows of table ``opened`` that a micro-batch reports; a first run reads the whole history.
_MOST_REPORTED = 1_000


class StreamFolder:
    """Output folder of `partage watch`: it publishes files of micro-batches and reads the tables.

    Args:
        out: the output folder.
    """

    def __init__(self, out: Path) -> None:
        self.path = out / "stream"
        self.checkpoint = self.path / "checkpoint"
        self.metadata = self.path / "cluster.jsonl"
        self._manifests = self.path / "batches"

    def create_folders(self) -> None:
        """Create the subfolders of the stream for tables and manifests, if they do not exist.

        Raises:
            InvalidConfigError: a folder cannot be created.
        """
        try:
            for table in (*_STORED, OPEN_ROWS):
                (self.path / "tables" / table).mkdir(parents=True, exist_ok=True)
            self._manifests.mkdir(exist_ok=True)
        except OSError as e:
            what = f"cannot be made ({e.strerror or e})"
            raise InvalidConfigError("--out", what, str(self.path)) from None

    @contextmanager
    def lock_folder(self) -> Iterator[None]:
        """Lock the output folder against other processes during the ``with`` block.

        The operating system releases the lock if the process is killed.

        Raises:
            InvalidConfigError: another process writes into the folder.
        """
        import fcntl

        with (self.path / "lock").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                what = "another stream writes into it at this moment"
                raise InvalidConfigError("--out", what, str(self.path.parent)) from None
            yield

    def publish_batch(self, batch: int, files: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
        """Publish the output files of a micro-batch, and remove files of a failed earlier attempt.

        Readers see the files when their manifest, a JSON file with their names, has been written.

        Args:
            batch: number of the micro-batch.
            files: pairs of table and file name.

        Returns:
            dict from table to the names of its files.
        """
        by_table: dict[str, list[str]] = {}
        for table, name in files:
            by_table.setdefault(table, []).append(name)
        write_json(self._manifests / f"{batch:08d}.json", {"batch": batch, "files": by_table})
        for table in (*_STORED, OPEN_ROWS):
            listed = set(by_table.get(table, ()))
            for path in (self.path / "tables" / table).glob(f"{_prefix(batch)}*.parquet"):
                if path.name not in listed:
                    path.unlink(missing_ok=True)
        return by_table

    def merge_small_files(self, batch: int) -> None:
        """Merge the small output files of the last 64 micro-batches into larger ones.

        This happens at every 64th micro-batch. At every 4,096th, the merged files are merged again.
        ``batch`` is the number of the current micro-batch.
        """
        for span in _SPANS:
            if batch > 0 and batch % span == 0:
                self._merge(batch - span, batch - 1)

    def _merge(self, first: int, last: int) -> None:
        some = [one for one in self._current() if first <= one.first and one.last <= last]
        if len(some) < 2:
            return
        opened = self._read(OPEN_ROWS, _open_schema(), some)
        newest = _find_newest_open_batches(opened)
        files: dict[str, list[str]] = {}
        for table in _STORED:
            rows = self._read(table, stored_schema(table), some)
            rows = rows.filter(_current_rows_mask(rows, table, newest))
            if rows.num_rows:
                files[table] = [_write_parquet_file(str(self.path), last, table, rows, merged=True)]
        if newest:
            columns = [{"group": g, "table": t, "batch": n} for (g, t), n in sorted(newest.items())]
            rows = _open_rows(columns)
            files[OPEN_ROWS] = [
                _write_parquet_file(str(self.path), last, OPEN_ROWS, rows, merged=True)
            ]
        write_json(
            self._manifests / f"{first:08d}-{last:08d}.json", {"batch": last, "files": files}
        )
        for one in some:
            if (one.first, one.last) != (first, last):
                one.path.unlink(missing_ok=True)
            for table, names in one.files.items():
                for name in names:
                    (self.path / "tables" / table / name).unlink(missing_ok=True)

    def _current(self) -> list[StreamManifest]:
        return current_manifests(self.path)

    def table(self, name: str) -> pa.Table:
        """Return the current rows of an output table as a pyarrow table.

        They are all final rows, and the newest open rows of each group. Open rows may still change
        with later records. ``name`` is the name of the table.

        Raises:
            InvalidCaptureError: a file cannot be read.
        """
        some = self._current()
        rows = self._read(name, stored_schema(name), some)
        newest = _find_newest_open_batches(self._read(OPEN_ROWS, _open_schema(), some))
        return rows.filter(_current_rows_mask(rows, name, newest)).select(stream_schema(name).names)

    def _read(self, table: str, wanted: pa.Schema, some: Sequence[StreamManifest]) -> pa.Table:
        import pyarrow as pa
        from pyarrow import parquet

        found = []
        for name in (name for one in some for name in one.files.get(table, ())):
            path = self.path / "tables" / table / name
            try:
                found.append(parquet.read_table(path))
            except (pa.ArrowException, OSError) as e:
                what = f"{path}: cannot be read ({e})"
                raise InvalidCaptureError(f"{what}; watch into a new folder") from None
        return pa.concat_tables(found) if found else wanted.empty_table()


def _find_newest_open_batches(opened: pa.Table) -> dict[tuple[str, str], int]:
    """Return the number of the newest micro-batch that wrote open rows, for each group and table.

    Open rows may still change with later records, and each micro-batch replaces those of earlier
    ones. ``opened`` has a row (group, table, batch) for each replacement.
    """
    newest: dict[tuple[str, str], int] = {}
    for row in opened.to_pylist():
        key = row["group"], row["table"]
        newest[key] = max(newest.get(key, -1), row["batch"])
    return newest


def _current_rows_mask(rows: pa.Table, table: str, newest: Mapping[tuple[str, str], int]) -> Any:
    """Return which rows of an output table are current, as a mask (bool[n]).

    Current rows are all final rows, and the newest open rows of each group. Open rows may still
    change with later records.

    Args:
        rows: rows of the table from all micro-batches.
        table: name of the table.
        newest: dict from (group, table) to the newest micro-batch with open rows.
    """
    import pyarrow as pa

    if not rows.num_rows:
        return pa.array([], pa.bool_())
    groups = rows["group"].combine_chunks().dictionary_encode()
    by_code = np.array([newest.get((g, table), -1) for g in groups.dictionary.to_pylist()] or [-1])
    code = groups.indices.fill_null(0).to_numpy(zero_copy_only=False)
    final = rows["final"].combine_chunks().to_numpy(zero_copy_only=False)
    return pa.array(final | (rows["batch"].to_numpy() == by_code[code]))


def expect_stream_folder(out: Path, source: str) -> None:
    """Raise an error if an output folder contains the stream of another source, or another format.

    In a new folder, the source and the format are stored for later checks.

    Raises:
        InvalidConfigError: the folder has the stream of another source or format.
    """
    path = out / "stream" / "source.json"
    if path.is_file():
        before = json.loads(path.read_bytes())
        if before["source"] != source:
            what = f"has a stream of {before['source']}; give a new one"
            raise InvalidConfigError("--out", what, str(out))
        if before.get("layout") != _LAYOUT:
            what = f"has states of layout {before.get('layout')}, this version reads {_LAYOUT}"
            raise InvalidConfigError("--out", f"{what}; give a new one", str(out))
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"source": source, "layout": _LAYOUT})


def write_changes(
    folder: str, batch: int, changes: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the new rows of a micro-batch to Parquet files, in a Spark worker.

    The driver publishes the files. Yield result rows (kind, JSON text): the names of the written
    files, and the rows of table ``opened``, which announces new generations.

    Args:
        folder: the output folder of the stream (`StreamFolder`).
        batch: number of the micro-batch.
        changes: batches with the new rows of each group and table, see `group_tables.TableRows`.
    """
    import pyarrow as pa

    parts: dict[str, list[tuple[pa.Table, bool]]] = {}
    replaced: list[dict[str, Any]] = []
    for some in changes:
        for one in some.to_pylist():
            if not one["final"]:
                replaced.append({"group": one["group"], "table": one["table"], "batch": batch})
            if one["length"]:
                made = pa.ipc.open_stream(one["data"]).read_all()
                parts.setdefault(one["table"], []).append((made, one["final"]))
    tables = {table: _with_batch(table, some, batch) for table, some in parts.items()}
    opened = tables[OPENED].to_pylist() if OPENED in tables else []
    if replaced:
        tables[OPEN_ROWS] = _open_rows(replaced)
    found = [
        ("file", json.dumps([table, _write_parquet_file(folder, batch, table, made)]))
        for table, made in tables.items()
    ]
    opened.sort(key=lambda row: (row["time_ms"], row["group"]))
    found += [("opened", json.dumps(row)) for row in opened[:_MOST_REPORTED]]
    yield receipts_batch(found)


def _with_batch(table: str, parts: list[tuple[pa.Table, bool]], batch: int) -> pa.Table:
    """Concatenate new rows of an output table, and add the micro-batch number and the flag
    ``final``.

    Args:
        table: name of the table.
        parts: pairs of rows and whether they are final.
        batch: number of the micro-batch.
    """
    import pyarrow as pa

    made = pa.concat_tables([rows for rows, _ in parts])
    final = np.repeat([final for _, final in parts], [rows.num_rows for rows, _ in parts])
    made = made.append_column("batch", pa.repeat(pa.scalar(batch, pa.int64()), made.num_rows))
    return made.append_column("final", pa.array(final)).cast(stored_schema(table))


def _write_parquet_file(
    folder: str, batch: int, table: str, rows: pa.Table, *, merged: bool = False
) -> str:
    """Write rows to a new Parquet file of a table, and return the file's name.

    Args:
        folder: the output folder of the stream.
        batch: number of the micro-batch.
        table: name of the table.
        rows: the rows.
        merged: whether the rows are of several micro-batches; the name then begins with
            ``merged-``.
    """
    from pyarrow import parquet

    name = f"{'merged-' if merged else ''}{_prefix(batch)}{uuid4().hex[:8]}.parquet"
    parquet.write_table(rows, Path(folder) / "tables" / table / name, compression="zstd")
    return name


def _prefix(batch: int) -> str:
    return f"batch-{batch:08d}-"


def stored_schema(table: str) -> pa.Schema:
    """Return the schema of the Parquet files of an output table.

    It has the table's columns, then ``batch`` (number of the micro-batch) and ``final``. Table
    `OPEN_ROWS` has no column ``final``.
    """
    import pyarrow as pa

    if table == OPEN_ROWS:
        return _open_schema()
    nullable = [field.with_nullable(True) for field in stream_schema(table)]
    return pa.schema([*nullable, pa.field("batch", pa.int64()), pa.field("final", pa.bool_())])


def _open_rows(rows: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist(rows, schema=_open_schema())


def _open_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([("group", pa.string()), ("table", pa.string()), ("batch", pa.int64())])


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


def parse_lake_option(option_value: str) -> tuple[str, str]:
    """Parse the value of the option ``--tables``: a table format, and a namespace or a folder.

    Raises:
        InvalidConfigError: the format is unknown, or a part is missing.

    >>> parse_lake_option("iceberg:lake.kafka")
    ('iceberg', 'lake.kafka')
    """
    form, _, where = option_value.partition(":")
    if form not in _FORMATS or not where:
        what = "must be delta:FOLDER, delta:NAMESPACE or iceberg:NAMESPACE"
        raise InvalidConfigError("--tables", what, option_value)
    if form == "iceberg" and "/" in where:
        raise InvalidConfigError(
            "--tables", "must name a namespace of an Iceberg catalog", option_value
        )
    return form, where


@dataclass
class StreamLakeTables:
    """Writer of the tables of `partage watch` to Delta or Iceberg.

    These tables have only current rows: a row that was replaced is deleted.

    Args:
        spark: a session that supports the format.
        form: the format, ``delta`` or ``iceberg``.
        where: a namespace (``lake.kafka``); for Delta also a folder, which has a ``/``.
    """

    spark: SparkSession
    form: str
    where: str

    def create_tables(self) -> None:
        """Create the Delta or Iceberg tables that do not exist yet.

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
            lines = (line for line in str(e).splitlines() if line.strip())
            reason = java_message(e) or next(lines, type(e).__name__)
            what = f"cannot be written ({reason[:200]}); Spark needs --conf {_FORMATS[self.form]}"
            raise InvalidConfigError("--tables", what, f"{self.form}:{self.where}") from None

    def merge_batch(self, folder: Path, batch: int, files: Mapping[str, Sequence[str]]) -> None:
        """Merge the output rows of a micro-batch into the Delta or Iceberg tables.

        Each table is changed by one ``MERGE`` statement, so readers never see a part of a
        micro-batch's rows in it.

        Args:
            folder: the output folder of the stream (`StreamFolder`).
            batch: number of the micro-batch.
            files: dict from table to the names of its files, see `StreamFolder.publish_batch`.
        """
        replaced = self._read(folder, OPEN_ROWS, files)
        groups: dict[str, list[str]] = {}
        for row in [] if replaced is None else replaced.collect():
            groups.setdefault(row["table"], []).append(row["group"])
        for table in STREAM_TABLES:
            if table in files or table in groups:
                rows = self._read(folder, table, files)
                self._merge_rows(table, batch, rows, groups.get(table, []))

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

    def _merge_rows(
        self, table: str, batch: int, rows: DataFrame | None, groups: Sequence[str]
    ) -> None:
        """Add rows to a Delta or Iceberg table, and delete the open rows that they replace.

        Both happen in one ``MERGE`` statement. Open rows are those that later records may change.

        Args:
            table: name of the table.
            batch: number of the micro-batch.
            rows: the new rows; None for none.
            groups: groups whose open rows are deleted.
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
