"""CSV and JSON for `partage keys` where no Spark is needed: read with pyarrow, batch by batch.

What comes out is what Spark's readers give: CSV is text throughout, an empty field is null and an
empty pair of quotes is not; JSON is an object a line (or one array of them), numbers stay numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.pipeline.key_columns import Columns

__all__ = ["read_text", "schema_of"]

_BLOCK = 8 << 20
_BY_SPARK = "; --master 'local[*]' has Spark read it, which overlooks more"


@contextmanager
def _told(path: str, kind: str) -> Iterator[None]:
    """Whatever pyarrow says of a file, in one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, RecursionError) as e:
        said = (str(e) or type(e).__name__).splitlines()[0][:200]
        told = f"cannot be read as {kind.upper()} ({said}){_BY_SPARK}"
        raise InvalidConfigError("INPUT", told, path) from None


def schema_of(path: str, kind: str) -> pa.Schema:
    """Names and types, as the first megabytes have them.

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
        return _kinds(path)


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
    return csv.open_csv(path, read_options=block, convert_options=convert)


def _opened(path: str) -> Any:
    import pyarrow as pa

    return pa.input_stream(path, compression="detect")


def _is_array(path: str) -> bool:
    with _opened(path) as file:
        return bool(file.read(1_000).lstrip().startswith(b"["))


def _array(path: str) -> pa.Table:
    """One array of objects: read as a whole, which `here` allows small files only."""
    import pyarrow as pa

    with _opened(path) as file:
        rows = json.loads(file.read())
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("an array of other things than objects")
    return pa.Table.from_pylist(rows, schema=_merged(rows))


def _merged(rows: list[dict[str, Any]]) -> pa.Schema:
    """Fields of all rows, not only the first."""
    import pyarrow as pa

    names = dict.fromkeys(name for row in rows for name in row)
    return pa.schema([(name, pa.array([row.get(name) for row in rows]).type) for name in names])


def _kinds(path: str) -> pa.Schema:
    """Inferred from the first block; what only looks like a time stays the text that it is."""
    import pyarrow as pa
    from pyarrow import json as arrow_json
    from pyarrow import types

    with _opened(path) as file:
        block = file.read(_BLOCK)
    last = block.rfind(b"\n") + 1
    if len(block) == _BLOCK and last:
        block = block[:last]
    options = arrow_json.ReadOptions(block_size=max(1, len(block) + 1))
    found = arrow_json.read_json(pa.BufferReader(block), read_options=options).schema
    return pa.schema([
        field.with_type(pa.string())
        if types.is_timestamp(field.type) or types.is_null(field.type) else field
        for field in found
    ])  # fmt: skip


def _lines(path: str, columns: Columns) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    kinds = _kinds(path)
    wanted = {n if n in kinds.names else n.split(".")[0] for n in columns.names}
    schema = pa.schema([field for field in kinds if field.name in wanted])
    parse = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = arrow_json.ReadOptions(block_size=_BLOCK)
    with _opened(path) as file:
        table = arrow_json.read_json(file, read_options=read, parse_options=parse)
    yield from table.to_batches()
