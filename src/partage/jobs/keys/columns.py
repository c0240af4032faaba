"""Columns of an input by name, or by the path through structs that leads to them: `meta.tenant`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Columns", "expect", "flat", "kind_of"]

#: Columns that an error names.
_NAMED = 40


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of the input that are read.

    Attributes:
        key: what becomes the record's key: a column's name, or a path to it (``meta.tenant``).
        value: whose bytes count too; None counts the keys' bytes alone.
        time: when the record was, for load over time.
    """

    key: str
    value: str | None = None
    time: str | None = None

    @property
    def names(self) -> list[str]:
        """Those that are there."""
        return list(dict.fromkeys(n for n in (self.key, self.value, self.time) if n is not None))

    @property
    def options(self) -> dict[str | None, str]:
        """Which option of the command named a column."""
        return {self.time: "--time", self.value: "--value", self.key: "--key"}


def kind_of(schema: pa.Schema, name: str) -> pa.DataType | None:
    """A column's type; None if there is none. A name goes before a path.

    >>> import pyarrow as pa
    >>> kind_of(pa.schema({"meta": pa.struct({"tenant": pa.string()})}), "meta.tenant")
    DataType(string)
    """
    from pyarrow import types

    if name in schema.names:
        return schema.types[schema.names.index(name)]
    first, *path = name.split(".")
    if schema.names.count(first) != 1:
        return None
    kind = schema.field(first).type
    for part in path:
        if not types.is_struct(kind) or kind.get_field_index(part) < 0:
            return None
        kind = kind.field(part).type
    return kind


def _paths(fields: Any, before: str = "") -> Iterator[str]:
    """All columns, those in structs by their path."""
    from pyarrow import types

    for field in fields:
        name = before + field.name
        if types.is_struct(field.type):
            inside = (field.type.field(i) for i in range(field.type.num_fields))
            yield from _paths(inside, f"{name}.")
        else:
            yield name


def expect(schema: pa.Schema, columns: Columns, serializer: str | None, where: str) -> None:
    """Every column is there, is not nested, and the key's can become bytes.

    Raises:
        InvalidConfigError: one is not; says which, and what there is.
    """
    import pyarrow as pa
    from pyarrow import types

    from partage.jobs.keys.bytes import as_bytes

    for name in columns.names:
        if schema.names.count(name) > 1:
            told = f"{schema.names.count(name)} columns of {where} have this name"
            raise InvalidConfigError(columns.options[name], told, name)
        kind = kind_of(schema, name)
        if kind is None:
            had = list(_paths(schema))
            more = f" and {len(had) - _NAMED} more" if len(had) > _NAMED else ""
            told = f"no such column in {where} (found: {', '.join(had[:_NAMED])}{more})"
            raise InvalidConfigError(columns.options[name], told, name)
        if types.is_nested(kind):
            told = f"column of {where} is nested ({str(kind)[:100]}); {_instead(schema, name)}"
            raise InvalidConfigError(columns.options[name], told, name)
    key: Any = kind_of(schema, columns.key)
    if types.is_dictionary(key):
        key = key.value_type
    as_bytes(pa.array([], key), serializer, columns.key)


def _instead(schema: pa.Schema, name: str) -> str:
    inside = [path for path in _paths(schema) if path.startswith(f"{name}.")]
    if inside:
        return f"name a column in it: {', '.join(inside[:_NAMED])}"
    return "a key is text, bytes or a whole number"


def flat(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The columns alone, in that order, those in structs as columns of their own.

    >>> import pyarrow as pa
    >>> batch = pa.RecordBatch.from_pydict({"meta": [{"id": 7}, None]})
    >>> flat(batch, ["meta.id"]).to_pydict()
    {'meta.id': [7, None]}
    """
    import pyarrow as pa
    from pyarrow import compute

    if batch.schema.names == list(names):
        return batch
    arrays = []
    for name in names:
        if name in batch.schema.names:
            arrays.append(batch.column(batch.schema.get_field_index(name)))
            continue
        first, *path = name.split(".")
        whole = batch.column(batch.schema.get_field_index(first))
        for part in path:
            whole = compute.struct_field(whole, [whole.type.get_field_index(part)])
        arrays.append(whole)
    return pa.RecordBatch.from_arrays(arrays, names=list(names))
