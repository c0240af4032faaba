"""Tables of a stream on disk: written and published by micro-batch, and read as current rows.

```
OUT/stream/tables/<table>/batch-00000012-*.parquet   rows of one micro-batch
OUT/stream/batches/00000012.json                     its files; written last, replaced atomically
OUT/stream/checkpoint/                               Spark's: positions in the log, states of groups
OUT/stream/cluster.jsonl                             metadata, if the source is a running cluster
```

A micro-batch that is repeated after a crash replaces its files. Files that no manifest lists do not
count.

Tables have two more columns: ``batch``, the number of the micro-batch, and ``final``. An **open**
row (``final`` is false) counts until a later micro-batch has replaced the open rows of its group.
Table ``open_rows`` says which micro-batch has the open rows of each group and table that count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from partage.capture.durable import put_json
from partage.errors import InvalidCaptureError, InvalidConfigError
from partage.jobs.replay.histories import receipts_batch
from partage.jobs.watch.group_tables import OPENED, STREAM_TABLES, stream_schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamFolder", "expect_stream_folder", "write_changes"]

_OPEN_ROWS = "open_rows"
#: Rows of table ``opened`` that a micro-batch reports; a first run reads the whole history.
_MOST_REPORTED = 1_000


class StreamFolder:
    """The output folder of a stream: publishes micro-batches, and reads the tables.

    Args:
        out: the output folder of `partage watch`.
    """

    def __init__(self, out: Path) -> None:
        self.path = out / "stream"
        self.checkpoint = self.path / "checkpoint"
        self.metadata = self.path / "cluster.jsonl"
        self._manifests = self.path / "batches"

    def prepare(self) -> None:
        """Create the folders.

        Raises:
            InvalidConfigError: a folder cannot be created.
        """
        try:
            for table in (*STREAM_TABLES, _OPEN_ROWS):
                (self.path / "tables" / table).mkdir(parents=True, exist_ok=True)
            self._manifests.mkdir(exist_ok=True)
        except OSError as e:
            what = f"cannot be made ({e.strerror or e})"
            raise InvalidConfigError("--out", what, str(self.path)) from None

    def publish(self, batch: int, files: Iterable[tuple[str, str]]) -> None:
        """Make the files of a micro-batch count, and remove those of an earlier attempt.

        Args:
            batch: number of the micro-batch.
            files: table and file name of each file.
        """
        by_table: dict[str, list[str]] = {}
        for table, name in files:
            by_table.setdefault(table, []).append(name)
        put_json(self._manifests / f"{batch:08d}.json", {"batch": batch, "files": by_table})
        for table in (*STREAM_TABLES, _OPEN_ROWS):
            listed = set(by_table.get(table, ()))
            for path in (self.path / "tables" / table).glob(f"{_prefix(batch)}*.parquet"):
                if path.name not in listed:
                    path.unlink(missing_ok=True)

    def batches(self) -> list[int]:
        """Return the numbers of the published micro-batches, ascending."""
        return sorted(int(path.stem) for path in self._manifests.glob("[0-9]*.json"))

    def table(self, name: str) -> pa.Table:
        """Return the rows of a table that count now.

        Raises:
            InvalidCaptureError: a file cannot be read.
        """
        import pyarrow as pa

        rows = self._read(name, _stored_schema(name))
        opened = self._read(_OPEN_ROWS, _open_schema())
        names = [*stream_schema(name).names]
        if not rows.num_rows or "group" not in names:
            return rows.select(names)
        newest: dict[str, int] = {}
        for row in opened.to_pylist():
            if row["table"] == name:
                newest[row["group"]] = max(newest.get(row["group"], -1), row["batch"])
        groups = rows["group"].combine_chunks().dictionary_encode()
        by_code = np.array([newest.get(g, -1) for g in groups.dictionary.to_pylist()] or [-1])
        code = groups.indices.fill_null(0).to_numpy(zero_copy_only=False)
        is_newest = rows["batch"].to_numpy() == by_code[code]
        final = rows["final"].combine_chunks().to_numpy(zero_copy_only=False)
        return rows.filter(pa.array(final | is_newest)).select(names)

    def _read(self, table: str, wanted: pa.Schema) -> pa.Table:
        import pyarrow as pa
        from pyarrow import parquet

        found = []
        for path in sorted(self._manifests.glob("[0-9]*.json")):
            manifest = json.loads(path.read_bytes())
            for name in manifest["files"].get(table, ()):
                try:
                    found.append(parquet.read_table(self.path / "tables" / table / name))
                except (pa.ArrowException, OSError) as e:
                    what = f"{self.path / 'tables' / table / name}: cannot be read ({e})"
                    raise InvalidCaptureError(f"{what}; watch into a new folder") from None
        return pa.concat_tables(found) if found else wanted.empty_table()


def expect_stream_folder(out: Path, source: str) -> None:
    """Check that an output folder is new or has a stream of the same source.

    Raises:
        InvalidConfigError: the folder has the stream of another source.
    """
    path = out / "stream" / "source.json"
    if path.is_file():
        before = json.loads(path.read_bytes())["source"]
        if before != source:
            raise InvalidConfigError("--out", f"has a stream of {before}; give a new one", str(out))
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    put_json(path, {"source": source})


def write_changes(
    folder: str, batch: int, changes: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write a micro-batch's rows of some tables in a Spark worker.

    Yield the written files as rows (what, text), and the rows of table ``opened``.

    Args:
        folder: the folder of `StreamFolder`.
        batch: number of the micro-batch.
        changes: rows of ``group, table, final, length, data``, see `group_tables.TableRows`.
    """
    import pyarrow as pa

    rows: dict[str, list[pa.Table]] = {}
    replaced: list[dict[str, Any]] = []
    for some in changes:
        for one in some.to_pylist():
            if not one["final"]:
                replaced.append({"group": one["group"], "table": one["table"], "batch": batch})
            if one["length"]:
                made = pa.ipc.open_stream(one["data"]).read_all()
                count = made.num_rows
                made = made.append_column("batch", pa.repeat(pa.scalar(batch, pa.int64()), count))
                made = made.append_column("final", pa.repeat(pa.scalar(one["final"]), count))
                rows.setdefault(one["table"], []).append(made.cast(_stored_schema(one["table"])))
    found = [_written(folder, batch, table, pa.concat_tables(made)) for table, made in rows.items()]
    if replaced:
        made = pa.Table.from_pylist(replaced, schema=_open_schema())
        found.append(_written(folder, batch, _OPEN_ROWS, made))
    opened = [row for table in rows.get(OPENED, ()) for row in table.to_pylist()]
    opened.sort(key=lambda row: (row["time_ms"], row["group"]))
    found += [("opened", json.dumps(row)) for row in opened[:_MOST_REPORTED]]
    yield receipts_batch(found)


def _written(folder: str, batch: int, table: str, rows: pa.Table) -> tuple[str, str]:
    """Write a file of a table; return ("file", JSON of table and file name)."""
    from pyarrow import parquet

    name = f"{_prefix(batch)}{uuid4().hex[:8]}.parquet"
    parquet.write_table(rows, Path(folder) / "tables" / table / name, compression="zstd")
    return "file", json.dumps([table, name])


def _prefix(batch: int) -> str:
    return f"batch-{batch:08d}-"


def _stored_schema(table: str) -> pa.Schema:
    """Return the schema of a table's files: its columns, and those of the micro-batch."""
    import pyarrow as pa

    nullable = [field.with_nullable(True) for field in stream_schema(table)]
    return pa.schema([*nullable, pa.field("batch", pa.int64()), pa.field("final", pa.bool_())])


def _open_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([("group", pa.string()), ("table", pa.string()), ("batch", pa.int64())])
