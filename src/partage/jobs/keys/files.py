"""CSV and JSON for `partage keys` where no Spark is needed: read with pyarrow, batch by batch.

What comes out is what Spark's readers give: CSV is text throughout, an empty field is null and an
empty pair of quotes is not; JSON is an object a line (or one array of them), numbers stay numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidConfigError
from partage.jobs.keys.columns import kind_of

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.keys.columns import Columns

__all__ = ["read_text", "schema_of"]

_BLOCK = 8 << 20
#: What is held as a whole: lines, and arrays, which become Python's objects.
_LONGEST_LINE, _LONGEST_ARRAY = 256 << 20, 64 << 20
_BY_SPARK = "; --master 'local[*]' has Spark read it, which overlooks more"


@contextmanager
def _told(path: str, kind: str) -> Iterator[None]:
    """Whatever pyarrow says of a file, in one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, RecursionError) as e:
        said = (str(e) or type(e).__name__).splitlines()[0][:200]
        told = f"cannot be read as {kind.upper()} ({said}){_BY_SPARK}"
        raise InvalidConfigError("INPUT", told, path) from None


def schema_of(path: str, kind: str, names: Sequence[str]) -> pa.Schema:
    """Names and types, of all that comes before the last of these names turns up first.

    Raises:
        InvalidConfigError: it cannot be read.
    """
    import pyarrow as pa

    with _told(path, kind):
        if kind == "csv":
            with _csv(path) as reader:
                return pa.schema([(name, pa.string()) for name in reader.schema.names])
        if _is_array(path):
            return _array(path).schema
        return _kinds(path, names)


def read_text(path: str, kind: str, columns: Columns) -> Iterator[pa.RecordBatch]:
    """The columns, those in structs with the structs around them.

    Raises:
        InvalidConfigError: a row has other columns, a value another type, or bytes are damaged.
    """
    with _told(path, kind):
        if kind == "csv":
            with _csv(path, columns.names) as reader:
                yield from reader
        elif _is_array(path):
            yield from _array(path).to_batches()
        else:
            yield from _lines(path, columns)


def _csv(path: str, names: list[str] | None = None) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    convert = csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""],
        include_columns=names, column_types=dict.fromkeys(names or (), pa.string()),
    )  # fmt: skip
    block = csv.ReadOptions(block_size=_BLOCK)
    # Without it blocks are cut at line ends in quotes, and records come out that nobody wrote.
    parse = csv.ParseOptions(newlines_in_values=True)
    return csv.open_csv(path, read_options=block, parse_options=parse, convert_options=convert)


def _opened(path: str) -> Any:
    import pyarrow as pa

    return pa.input_stream(path, compression="detect")


def _is_array(path: str) -> bool:
    with _opened(path) as file:
        return bool(file.read(1_000).lstrip().startswith(b"["))


def _array(path: str) -> pa.Table:
    """One array of objects: read as a whole, and so of some megabytes at most."""
    import pyarrow as pa

    with _opened(path) as file:
        text = file.read(_LONGEST_ARRAY + 1)
    if len(text) > _LONGEST_ARRAY:
        raise ValueError(f"an array of over {_LONGEST_ARRAY >> 20} MiB: write an object a line")
    rows = json.loads(text)
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("an array of other things than objects")
    return pa.Table.from_pylist(rows, schema=_merged(rows))


def _merged(rows: list[dict[str, Any]]) -> pa.Schema:
    """Fields of all rows, not only the first."""
    import pyarrow as pa

    names = dict.fromkeys(name for row in rows for name in row)
    return pa.schema([(name, pa.array([row.get(name) for row in rows]).type) for name in names])


def _kinds(path: str, names: Sequence[str]) -> pa.Schema:
    """Inferred from the first block, and from more where one does not have all columns."""
    import pyarrow as pa

    found = pa.schema([])
    for lines in _blocks(path):
        found = pa.unify_schemas([found, _inferred(lines)], promote_options="permissive")
        if all(kind_of(found, name) is not None for name in names):
            break
    return found


def _blocks(path: str) -> Iterator[bytes]:
    """Some megabytes of whole lines at a time."""
    left = b""
    with _opened(path) as file:
        while block := file.read(_BLOCK):
            lines, cut, rest = (left + block).rpartition(b"\n")
            left = rest if cut else lines + rest
            if len(left) > _LONGEST_LINE:
                raise ValueError(f"a line of more than {_LONGEST_LINE >> 20} MiB")
            if cut and lines.strip():
                yield lines
    if left.strip():
        yield left


def _inferred(lines: bytes) -> pa.Schema:
    """What only looks like a time stays the text that it is."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    options = arrow_json.ReadOptions(block_size=len(lines) + 2)
    found = arrow_json.read_json(pa.BufferReader(lines), read_options=options).schema
    return pa.schema([(field.name, _as_written(field.type)) for field in found])


def _as_written(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa
    from pyarrow import types

    if types.is_timestamp(kind) or types.is_null(kind):
        return pa.string()
    if types.is_struct(kind):
        fields = (kind.field(i) for i in range(kind.num_fields))
        return pa.struct([(field.name, _as_written(field.type)) for field in fields])
    if types.is_list(kind):
        return pa.list_(_as_written(kind.value_type))
    return kind


def _lines(path: str, columns: Columns) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    kinds = _kinds(path, columns.names)
    wanted = {n if n in kinds.names else n.split(".")[0] for n in columns.names}
    schema = pa.schema([field for field in kinds if field.name in wanted])
    parse = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    for lines in _blocks(path):
        read = arrow_json.ReadOptions(block_size=len(lines) + 2)
        found = arrow_json.read_json(pa.BufferReader(lines), read_options=read, parse_options=parse)
        yield from found.to_batches()
