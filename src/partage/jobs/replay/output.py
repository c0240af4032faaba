"""The output folder: tables on disk, publication of a run, and the locks of running runs.

```
OUT/tables/<table>/<run_id>/part-*.parquet    written by workers; read through the manifest
OUT/runs/<run_id>/manifest.json               the files that are a run's tables; written last
OUT/runs/<run_id>/summary.json
OUT/runs/<run_id>/state.json           what a later run continues; see `state_files`
OUT/manifest.json, OUT/summary.json           the newest published run, replaced atomically
OUT/running/<run_id>.json                     lock of a running run: host, process, its start
```

A task that Spark runs twice writes two files; only the one it returned is in the manifest,
and the other is removed. A run that fails leaves no manifest. Readers take the files that a
manifest lists; a reader that lists folders would also see files of unfinished runs.

A run locks its file as long as the process lives. If the process is surely dead, the run was
killed: its tables were never published, and the next run removes them. A file of another host whose
lock proves nothing is left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from partage.jobs.spark.shipping import current_task
from partage.runs.published_run import FORMAT, MANIFEST, SUMMARY
from partage.tables.escaping import escape_document_text
from partage.tables.schemas import TABLES, table_schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "COMPLETE",
    "COPIED",
    "INCOMPLETE",
    "STATE",
    "Receipt",
    "RowWriter",
    "TableWriters",
    "describe_process",
    "has_complete_rows",
    "is_published",
    "publish_run",
    "remove_dead_locks",
    "remove_late_files",
    "remove_unpublished_files",
    "run_lock",
    "task_name",
]

#: Rows of a table, and characters of the plans in them, that are in memory before they are written.
_BUFFER_ROWS, _BUFFER_TEXT = 20_000, 16 << 20
#: Beginnings of a task's file names in an appending run: rows that no later record changes, and
#: rows that later records may change. Names in this order have a group's rows in log order; copies
#: of complete rows come first.
COMPLETE, INCOMPLETE, COPIED = "a", "z", "-"
#: File of a run with what a later run can continue.
STATE = "state.json"


def has_complete_rows(file_name: str) -> bool:
    """Return whether a file of an output table has only rows that later records cannot change.

    The file's name shows it: such names begin with ``part-a``. A run with ``--append`` reuses these
    files.

    >>> has_complete_rows("part-a00001-1b2c.parquet"), has_complete_rows("part-z00001-3d.parquet")
    (True, False)
    """
    return file_name.startswith(f"part-{COMPLETE}")


def task_name() -> str:
    """Return a text for file names that is unique to the current Spark task.

    Outside of Spark the result is "0".
    """
    context = current_task()
    return "0" if context is None else f"{context.partitionId():05d}"


@dataclass(frozen=True, slots=True)
class Receipt:
    """Description of an output file that a worker has written: table, path, rows and bytes.

    The driver publishes only files with a receipt, so files of repeated tasks do not count. The
    path is relative to the output folder.
    """

    table: str
    path: str
    rows: int
    bytes: int


class RowWriter(Protocol):
    """Interface of an object that writes rows of output tables.

    Columns that are not given become null.
    """

    def write_row(self, table: str, row: Mapping[str, Any]) -> None:
        """Write one row of an output table, given as a dict from column name to value.

        The writer fills in the column with the run id.
        """

    def add_columns(self, table: str, columns: Mapping[str, Any], count: int) -> None:
        """Write rows of an output table, given as a dict from column name to Arrow array.

        ``count`` is the number of rows. The writer fills in the column with the run id.
        """


class TableWriters:
    """Writer of output tables: one Parquet file per table, created when its first row is written.

    Args:
        out: the output folder.
        run_id: the id of the run, with which column ``run_id`` is filled.
        task: part of the file names that is unique to the writing task.
        observers: dict from table to function that is called with the rows when they are written.
    """

    def __init__(
        self,
        out: str,
        run_id: str,
        task: str,
        observers: Mapping[str, Callable[[pa.Table], None]] | None = None,
    ) -> None:
        self._observers = observers or {}
        self._out, self.run_id = Path(out), run_id
        self._name = f"part-{task}-{uuid4().hex[:8]}.parquet"
        self._rows: dict[str, list[Mapping[str, Any]]] = {}
        self._text = 0
        self._tables: dict[str, list[pa.Table]] = {}
        self._open: dict[str, Any] = {}
        self._counts: dict[str, int] = {}

    def close(self) -> None:
        """Close the Parquet files of all output tables, for example after an error.

        Rows that are still buffered are lost; `close_with_receipts` writes them.
        """
        for writer in self._open.values():
            writer.close()

    def write_row(self, table: str, row: Mapping[str, Any]) -> None:
        """Write one row of an output table, given as a dict from column name to value.

        Columns that are not given become null. The column with the run id is filled in.
        """
        rows = self._rows.setdefault(table, [])
        rows.append(row)
        plan = row.get("plan")
        self._text += 0 if plan is None else len(plan)
        if len(rows) >= _BUFFER_ROWS or self._text >= _BUFFER_TEXT:
            self._flush(table)

    def add_table(self, table: str, rows: pa.Table) -> None:
        """Write an Arrow table to an output table.

        ``rows`` must have all columns of the output table, also the run id.
        """
        self._write(table, rows)

    def add_columns(self, table: str, columns: Mapping[str, Any], count: int) -> None:
        """Write rows of an output table, given as a dict from column name to Arrow array.

        ``count`` is the number of rows. The column with the run id is filled in.
        """
        import pyarrow as pa

        wanted, given = table_schema(table), {"run_id": pa.repeat(pa.scalar(self.run_id), count)}
        given |= columns
        cells = [given[f.name] if f.name in given else pa.nulls(count, f.type) for f in wanted]
        waiting = self._tables.setdefault(table, [])
        waiting.append(pa.Table.from_arrays(cells, schema=wanted))
        if sum(one.num_rows for one in waiting) >= _BUFFER_ROWS:
            self._flush_tables(table)

    @property
    def file_name(self) -> str:
        """Name of the Parquet file that this writer creates in the folder of each output table.

        It is unique to the writing task.
        """
        return self._name

    def close_with_receipts(self) -> list[Receipt]:
        """Write the buffered rows, close all Parquet files, and return a receipt for each file.

        A receipt has the table, the path, the number of rows and the size of a file.
        """
        for table in list(self._rows):
            self._flush(table)
        for table in list(self._tables):
            self._flush_tables(table)
        self.close()
        receipts = []
        for table in self._open:
            path = self._path(table)
            size = (self._out / path).stat().st_size
            receipts.append(Receipt(table, path, self._counts[table], size))
        return receipts

    def _path(self, table: str) -> str:
        return f"tables/{table}/{self.run_id}/{self._name}"

    def _flush(self, table: str) -> None:
        rows = self._rows.pop(table)
        self._text = sum(len(row.get("plan") or "") for of in self._rows.values() for row in of)
        if rows:
            self._write(table, _table(table, rows, self.run_id))

    def _flush_tables(self, table: str) -> None:
        """Write the buffered rows of one output table to its Parquet file, as one row group.

        Rows are buffered, because many small row groups would be slow to read.
        """
        import pyarrow as pa

        self._write(table, pa.concat_tables(self._tables.pop(table)).combine_chunks())

    def _write(self, table: str, rows: pa.Table) -> None:
        self.create_file(table)
        self._open[table].write_table(rows)
        if table in self._observers:
            self._observers[table](rows)
        self._counts[table] += rows.num_rows

    def create_file(self, table: str) -> None:
        """Create the Parquet file of an output table, unless this writer has created it already.

        A table without rows thus gets an empty file.
        """
        from pyarrow import parquet

        if table in self._open:
            return
        path = self._out / self._path(table)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open[table] = parquet.ParquetWriter(path, table_schema(table), compression="zstd")
        self._counts[table] = 0


def _table(table: str, rows: Iterable[Mapping[str, Any]], run_id: str) -> pa.Table:
    import pyarrow as pa

    made, wanted = list(rows), table_schema(table)
    given = _rows_to_columns(made)
    columns = [
        pa.repeat(pa.scalar(run_id, field.type), len(made)) if field.name == "run_id"
        else pa.array(given[field.name], field.type) if field.name in given
        else pa.nulls(len(made), field.type)
        for field in wanted
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=wanted)


def _rows_to_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    """Convert rows (dicts by column name) to columns (lists by column name).

    A row that lacks a column gets None there.
    """
    names = list(rows[0])
    if len(names) > 1 and all(row.keys() == rows[0].keys() for row in rows):
        # One call a row instead of one a cell; the keys may be in another order.
        return dict(zip(names, zip(*map(itemgetter(*names), rows), strict=True), strict=True))
    every = dict.fromkeys(chain.from_iterable(rows))
    return {name: [row.get(name) for row in rows] for name in every}


def publish_run(
    output_folder: Path,
    run_id: str,
    receipts: Iterable[Receipt],
    summary: Mapping[str, Any],
    state: Mapping[str, Any] | None = None,
) -> None:
    """Publish a run of `partage replay`: write its manifest, from which readers find its tables.

    Before that, tables without rows get an empty file, and files without a receipt are removed.

    Args:
        output_folder: the output folder.
        run_id: the id of the run.
        receipts: descriptions of the files that the workers wrote.
        summary: the content of ``summary.json``.
        state: state for the next run with ``--append``; None for none.
    """
    files = list(receipts)
    with closing(TableWriters(str(output_folder), run_id, "driver")) as writers:
        for table in TABLES:
            if not any(r.table == table for r in files):
                writers.create_file(table)
        files += writers.close_with_receipts()
    files.sort(key=lambda r: (r.table, r.path))
    _remove_other_files(output_folder, run_id, {r.path for r in files})
    manifest = {
        "format": FORMAT,
        "run_id": run_id,
        "summary": f"runs/{run_id}/{SUMMARY}",
        "tables": {t: [asdict(r) for r in files if r.table == t] for t in TABLES},
    }
    mine = output_folder / "runs" / run_id
    mine.mkdir(parents=True, exist_ok=True)
    if state is not None:
        _write_atomically(mine / STATE, state, indent=None)  # long, and not for people
    for folder in (mine, output_folder):
        _write_atomically(folder / SUMMARY, summary)
        _write_atomically(folder / MANIFEST, manifest)


def _write_atomically(path: Path, value: Mapping[str, Any], *, indent: int | None = 1) -> None:
    text = escape_document_text(json.dumps(value, ensure_ascii=False, indent=indent), in_json=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def remove_late_files(output_folder: Path, run_id: str) -> None:
    """Remove table files that tasks wrote after a run was published, such as speculative copies.

    Spark does not wait for the end of a copy that it no longer needs. Readers never see its files.
    It does nothing for a run that is not published.
    """
    path = output_folder / "runs" / run_id / MANIFEST
    if path.is_file():
        tables = json.loads(path.read_text(encoding="utf-8"))["tables"]
        files = chain.from_iterable(tables.values())
        _remove_other_files(output_folder, run_id, {file["path"] for file in files})


def _remove_other_files(output_folder: Path, run_id: str, published: Collection[str]) -> None:
    for table in TABLES:
        for found in (output_folder / "tables" / table / run_id).glob("*.parquet"):
            if found.relative_to(output_folder).as_posix() not in published:
                found.unlink(missing_ok=True)


def remove_unpublished_files(output_folder: Path, run_id: str) -> None:
    """Remove the table files of a run that will not be published, for example after an error.

    Readers have never seen these files. ``output_folder`` is the output folder.
    """
    for table in TABLES:
        shutil.rmtree(output_folder / "tables" / table / run_id, ignore_errors=True)


_FOLDER = "running"


@contextmanager
def run_lock(output_folder: Path, run_id: str) -> Iterator[None]:
    """Hold the lock file of a run during the ``with`` block.

    Other processes keep the files of a run that has a lock, and remove those of a killed run.
    """
    path = output_folder / _FOLDER / f"{run_id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        json.dump({**describe_process(), "locked": _try_lock(file)}, file)
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()  # the last one out


def describe_process() -> dict[str, Any]:
    """Return host, process id and start time of this process, for lock files.

    Together they identify a process, although process ids are reused.
    """
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "began": _process_start_time(pid)}


def remove_dead_locks(output_folder: Path) -> list[str]:
    """Remove the lock files of runs whose process has ended, and return the ids of these runs.

    Such runs were killed, so their files can be removed.
    """
    gone = []
    for path in sorted((output_folder / _FOLDER).glob("*.json")):
        if _is_process_dead(path):
            gone.append(path.stem)
            path.unlink(missing_ok=True)
    return gone


def is_published(output_folder: Path, run_id: str) -> bool:
    """Return whether a run is published: it is complete, and readers may use its tables.

    A published run has a manifest.
    """
    return (output_folder / "runs" / run_id / "manifest.json").is_file()


def _is_process_dead(path: Path) -> bool:
    """Return whether the process that wrote a run's lock file has certainly ended.

    If this is unclear, for example for a file of another host, the result is False.
    """
    try:
        with path.open("r+", encoding="utf-8") as file:
            text = file.read()
            free = _try_lock(file)
    except OSError:
        return False
    try:
        owner = json.loads(text)
    except ValueError:
        return free  # killed while it wrote this: a live process holds the lock
    if owner.get("host") == socket.gethostname():
        return bool(_process_start_time(owner.get("pid")) != owner.get("began"))
    return bool(owner.get("locked")) and free


def _try_lock(file: IO[Any]) -> bool:
    """Try to lock a file against other processes, and return whether this succeeded.

    The result is False if another process has the lock, or if the file system has no locks.
    """
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _process_start_time(pid: object) -> str | None:
    """Return the start time of a process on this machine as text; None if it does not run.

    A process id may be reused, so a process is identified by its id and its start time. The result
    is "alive" if the operating system does not tell the time.
    """
    if not isinstance(pid, int):
        return None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return "alive"
    return "alive"
