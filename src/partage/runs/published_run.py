"""The published run of an output folder: its manifest, summary and tables.

```
OUT/manifest.json         format, run id, summary, the files of each table
OUT/summary.json          the same run's summary
OUT/tables/...            Parquet files; only those that the manifest names count
```
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidCaptureError, MissingExtraError
from partage.runs.row_groups import Part, RowGroup, index_row_groups
from partage.tables.schemas import COLUMNS, table_schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMAT", "MANIFEST", "SUMMARY", "PublishedRun", "read_table"]

FORMAT = 2
"""Format version of the manifest and its tables; a reader accepts no other."""
MANIFEST = "manifest.json"
SUMMARY = "summary.json"


class PublishedRun:
    """One finished run of `partage replay`, read from its output folder: its summary and tables.

    All reads are of the same run, even if a newer run is published in the folder meanwhile.

    Args:
        out: the output folder.
        run: id of an earlier run; None for the newest.

    Attributes:
        summary: the content of ``summary.json``.

    Raises:
        InvalidCaptureError: the folder has no such published run, or its format differs.

    >>> PublishedRun("no-such-folder")
    Traceback (most recent call last):
    partage.errors.InvalidCaptureError: ...no published run...
    """

    def __init__(self, out: str | Path, run: str | None = None) -> None:
        self.out = _expect_local(out)
        path = self.out / MANIFEST if run is None else _manifest_path(self.out, run)
        self._manifest = _read_json_object(path)
        if self._manifest.get("format") != FORMAT:
            what = "written by another version of Partage; run partage replay again"
            raise InvalidCaptureError(f"{path}: {what}")
        self.summary = _read_json_object(self.out / str(self._manifest.get("summary", SUMMARY)))
        self._row_groups: dict[str, tuple[RowGroup, ...]] = {}

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that this run wrote, such as ``rebalances``.

        `table` reads one of them.
        """
        found = self._manifest.get("tables")
        return tuple(found) if isinstance(found, dict) else ()

    def files(self, name: str) -> list[Path]:
        """Return the paths of the Parquet files of one output table that have rows."""
        files = self._manifest["tables"].get(name, ())
        return [self.out / one["path"] for one in files if one.get("rows", 1)]

    def table(
        self, name: str, columns: Sequence[str] | None = None, *, where: Any = None
    ) -> pa.Table:
        """Read one output table of this run, such as ``rebalances``, as a pyarrow table.

        The caller may select some columns and rows. The columns are cast to the published schema.

        Args:
            name: name of the table.
            columns: columns to read; None for all. Columns that an older version of Partage did not
                write are skipped.
            where: ``pyarrow.compute`` expression that selects rows; None for all.

        Raises:
            InvalidCaptureError: a file of the table cannot be read, a column is missing, or its
                type or values do not fit the published schema.
            MissingExtraError: pyarrow is not installed.
        """
        wanted = None if columns is None else list(columns)
        with self._named_errors(name):
            import pyarrow as pa
            from pyarrow import parquet

            paths = self._paths(name)
            if where is None:
                found = pa.concat_tables(parquet.ParquetFile(p).read(wanted) for p in paths)
            else:
                found = parquet.read_table(paths, columns=wanted, filters=where, partitioning=None)
            if name in COLUMNS:
                found = _cast_to_schema(name, found, wanted)
        return found

    def row_count(self, name: str) -> int:
        """Return the number of rows of a table according to the run's manifest, a JSON file.

        It is 0 if the manifest lacks the number.
        """
        files = self._manifest["tables"].get(name, ())
        return sum(file["rows"] for file in files if isinstance(file.get("rows"), int))

    def row_groups(self, name: str) -> tuple[RowGroup, ...]:
        """Return the Parquet row groups of a table, with the consumer groups that each contains.

        They are read at the first call only.

        Raises:
            InvalidCaptureError: a file of the table cannot be read, or has no column ``group``.
            MissingExtraError: pyarrow is not installed.
        """
        if name not in self._row_groups:
            with self._named_errors(name):
                self._row_groups[name] = tuple(index_row_groups(self._paths(name)))
        return self._row_groups[name]

    def rows_by_group(self, name: str) -> Counter[str]:
        """Count the rows of each consumer group in a table.

        The groups are in the order in which the files have them.

        Raises:
            InvalidCaptureError: a file of the table cannot be read, or has no column ``group``.
            MissingExtraError: pyarrow is not installed.
        """
        found: Counter[str] = Counter()
        for one in self.row_groups(name):
            found.update(one.rows)
        return found

    def read_part(self, name: str, columns: Sequence[str], part: Part) -> Iterator[pa.Table]:
        """Yield the rows of some consumer groups in a table, as one pyarrow table per Parquet row
        group.

        Row groups without rows of these consumer groups are not read.

        Args:
            name: name of the table.
            columns: columns to read; those that an older version did not write are skipped.
            part: the consumer groups, and their generations.

        Raises:
            InvalidCaptureError: see `table`.
            MissingExtraError: pyarrow is not installed.
        """
        keys = ("group",) if part.generations is None else ("group", "generation")
        wanted = list(dict.fromkeys([*columns, *keys]))
        for one in self.row_groups(name):
            if not one.may_have(part):
                continue
            with self._named_errors(name):
                from pyarrow import parquet

                found = parquet.ParquetFile(one.path).read_row_group(one.number, wanted)
                found = _cast_to_schema(name, found, wanted)
                found = _select_part(found, part)
            yield found.select([c for c in found.column_names if c in columns])

    def _paths(self, name: str) -> list[Path]:
        return [self.out / file["path"] for file in self._manifest["tables"][name]]

    @contextmanager
    def _named_errors(self, name: str) -> Iterator[None]:
        """Convert errors within a ``with`` block to errors that name the run's folder and the
        table.

        It is used while a table is read.
        """
        try:
            import pyarrow as pa
        except ImportError:
            raise MissingExtraError("pyarrow", extra="report") from None
        try:
            yield
        except (pa.ArrowException, OSError, KeyError, TypeError) as e:
            what = f"table {name} cannot be read ({e}); run partage replay again"
            raise InvalidCaptureError(f"{self.out}: {what}") from None
        except _ColumnError as e:
            what = f"table {name} {e}; run partage replay again"
            raise InvalidCaptureError(f"{self.out}: {what}") from None


def _select_part(table: pa.Table, part: Part) -> pa.Table:
    """Return the rows of a table that belong to some consumer groups and generations (``part``)."""
    import pyarrow as pa
    from pyarrow import compute as pc

    chosen = pc.is_in(table["group"], pa.array(list(part.groups), table["group"].type))
    if part.generations is not None:
        number = table["generation"].cast(pa.int64())
        chosen = pc.and_(chosen, pc.greater_equal(number, part.generations[0]))
        chosen = pc.and_(chosen, pc.less(number, part.generations[1]))
    return table.filter(chosen)


def _expect_local(out: str | Path) -> Path:
    """Return the path of an output folder, or raise an error if it is the address of remote
    storage.

    Raises:
        InvalidCaptureError: it is an address, such as ``s3a://lake/run``.
    """
    # `Path` writes s3a://lake as s3a:/lake.
    match = re.match(r"([a-z][a-z0-9+.-]+):/+(.+)", str(out))
    if match is not None and not Path(out).exists():
        what = "copy the run to a local folder first; only partage replay and report take addresses"
        raise InvalidCaptureError(f"{match[1]}://{match[2]}: {what}")
    return Path(out)


class _ColumnError(Exception):
    """Error about a column of a table that does not match the published schema.

    For example, the column is missing, or it has nulls although the schema allows none.
    """


#: Columns without nulls that older versions of Partage did not write, by table.
_LATER = {
    "rebalances": {"protocol", "cause_kind", "cause_source", "cause_probability"},
    "replays": {"policy", "protocol", "reading", "step", "caused", "time_ms", "counts"},
}


def _cast_to_schema(name: str, table: pa.Table, wanted: Sequence[str] | None) -> pa.Table:
    """Cast the columns of an output table to the types in its published schema.

    The types can differ if another program or an older version of Partage has written the file.

    Args:
        name: name of the table, whose schema is looked up.
        table: the table as read from Parquet files.
        wanted: names of the columns to return; None for all. In that case, a nullable column that
            the table lacks is added with nulls.

    Raises:
        _ColumnError: a column is missing, or has values that the schema does not allow.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    for field in table_schema(name):
        if wanted is not None and field.name not in wanted:
            continue
        at = table.schema.get_field_index(field.name)
        if at < 0:
            if not field.nullable and field.name not in _LATER.get(name, ()):
                raise _ColumnError(f"has no column {field.name}")
            if wanted is None:
                nulls = pa.nulls(table.num_rows, field.type)
                table = table.append_column(field.with_nullable(True), nulls)
            continue
        column = table[field.name]
        if column.type != field.type:
            if not _can_cast(column.type, field.type):
                raise _ColumnError(f"has values of type {column.type} in column {field.name}")
            column = column.cast(field.type)
            table = table.set_column(at, field.with_nullable(True), column)
        if column.null_count and not field.nullable:
            raise _ColumnError(f"has nulls in column {field.name}")
        if pa.types.is_floating(field.type) and pc.all(pc.is_finite(column)).as_py() is False:
            raise _ColumnError(f"has values that are no finite numbers in column {field.name}")
    return table


def _can_cast(actual: pa.DataType, declared: pa.DataType) -> bool:
    """Return whether an Arrow type (``actual``) can be converted to the type in the schema.

    ``declared`` is the type in the schema. They differ if another program has rewritten the table,
    for example with ``large_string`` in place of ``string``.
    """
    from pyarrow import types

    if types.is_dictionary(actual):
        actual = actual.value_type
    alike = {
        "int": [types.is_integer],
        "double": [types.is_integer, types.is_floating],
        "string": [types.is_string, types.is_large_string, types.is_string_view],
        "binary": [types.is_binary, types.is_large_binary, types.is_binary_view],
        "list": [types.is_list, types.is_large_list, types.is_list_view],
    }
    tests = next((of for name, of in alike.items() if str(declared).startswith(name)), [])
    return any(test(actual) for test in [types.is_null, *tests])


def _manifest_path(folder: Path, run: str) -> Path:
    """Return the path of a run's manifest: the JSON file that lists the run's tables.

    Args:
        folder: output folder of `partage replay`.
        run: id of the run.

    Raises:
        InvalidCaptureError: the folder has no run with this id.
    """
    known = sorted(p.parent.name for p in folder.glob(f"runs/*/{MANIFEST}"))
    if run not in known:
        newest = ", ".join(known[-5:]) or "none"
        raise InvalidCaptureError(f"{folder}: no run {run!r}; the newest are: {newest}")
    return folder / "runs" / run / MANIFEST


def _read_json_object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        what = "no published run here; run partage replay first, with --out to this folder"
        raise InvalidCaptureError(f"{path}: {what}") from None
    except (OSError, ValueError, RecursionError) as e:
        what = f"no published run ({e}); run partage replay first"
        raise InvalidCaptureError(f"{path}: {what}") from None
    if not isinstance(found, dict):
        raise InvalidCaptureError(f"{path}: must be a JSON object; run partage replay again")
    return found


def read_table(out: str | Path, table: str) -> pa.Table:
    """Read a table of the newest run of `partage replay` in an output folder.

    ``out`` is the folder. ``table`` is the name of the table, such as ``rebalances``. The result is
    a pyarrow table.

    Raises:
        InvalidCaptureError: the folder has no published run, or the table cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    return PublishedRun(out).table(table)
