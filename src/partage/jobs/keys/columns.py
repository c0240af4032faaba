"""The input columns of `partage keys`: check their types, serialize keys, and convert times.

A field of a struct is named by the path to it, with dots: ``meta.tenant``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "NO_TIME",
    "SERIALIZERS",
    "InputColumns",
    "column_type",
    "convert_times",
    "expect_columns",
    "normalize_empty_keys",
    "select_columns",
    "serialize_keys",
    "value_sizes",
]

_Longs = NDArray[np.int64]
#: Columns that an error message lists at most.
_LISTED = 40
#: Kafka's serializers of numbers write them big-endian; text and UUIDs are written as UTF-8.
_NUMBERS = {"short": ">i2", "int": ">i4", "long": ">i8", "float": ">f4", "double": ">f8"}
SERIALIZERS = ("string", "bytes", *_NUMBERS)
#: The time of a record without one, in milliseconds; times before 1970 are in no hour either.
NO_TIME = -1
#: The first millisecond after the year 9999, the last year that Arrow's text parser knows.
_YEAR_10000 = 253_402_300_800_000
#: Numbers that all lie in this range are seconds of 1986 to 2286. As milliseconds they would all
#: be times of 1970.
_SECONDS = (500_000_000, 10_000_000_000)
_WITH_ZONE = r":\d\d(\.\d+)?\s?(Z|[+-]\d\d(:?\d\d)?)$"
_WHOLE_NUMBER = r"^\s*-?\d+\s*$"


@dataclass(frozen=True, slots=True)
class InputColumns:
    """Names of the input columns with the key, the value and the time of each record.

    The input is a table or a file of records, for example a Parquet file.

    Attributes:
        key: column of the record's key: its name, or a path into a struct (``meta.tenant``).
        value: column of the record's value; None if only the bytes of keys are counted.
        time: column of the record's time, to count records by hour; None if not needed.
    """

    key: str
    value: str | None = None
    time: str | None = None

    @property
    def column_names(self) -> list[str]:
        """Names of the input columns for key, value and time, without those that are not used.

        A column that is used twice is listed once.
        """
        return list(dict.fromkeys(n for n in (self.key, self.value, self.time) if n is not None))

    @property
    def option_of_column(self) -> dict[str | None, str]:
        """Dict from a column's name to the command-line option that named it, such as ``--key``.

        It is used in error messages.
        """
        return {self.time: "--time", self.value: "--value", self.key: "--key"}


def column_type(schema: pa.Schema, name: str) -> pa.DataType | None:
    """Return the type of a column in an Arrow schema; None if the schema has no such column.

    A name with dots is a path to a field of a struct, unless a column has exactly that name.

    >>> import pyarrow as pa
    >>> column_type(pa.schema({"meta": pa.struct({"tenant": pa.string()})}), "meta.tenant")
    DataType(string)
    """
    from pyarrow import types

    if name in schema.names:
        return schema.types[schema.names.index(name)]
    first, *path = name.split(".")
    if schema.names.count(first) != 1:
        return None
    found = schema.field(first).type
    for part in path:
        if not types.is_struct(found) or found.get_field_index(part) < 0:
            return None
        found = found.field(part).type
    return found


def _leaf_columns(fields: Any, prefix: str = "") -> Iterator[str]:
    """Yield the names of all columns in an Arrow schema; a struct is replaced by its fields.

    A field's name is its path, such as ``meta.tenant``.

    Args:
        fields: a schema or a struct type.
        prefix: path of the enclosing struct with a final dot; empty for a schema.
    """
    from pyarrow import types

    for field in fields:
        name = prefix + field.name
        if types.is_struct(field.type):
            inner = (field.type.field(i) for i in range(field.type.num_fields))
            yield from _leaf_columns(inner, f"{name}.")
        else:
            yield name


def expect_columns(
    schema: pa.Schema, columns: InputColumns, serializer: str | None, source_name: str
) -> None:
    """Raise an error if an input column is missing, or has a type that cannot be used.

    No column may be nested. The type of the key column must be one that can be serialized.

    Args:
        schema: the input's Arrow schema.
        columns: the needed columns.
        serializer: name of the Kafka serializer for keys that are numbers; None for none.
        source_name: the input's name, for errors.

    Raises:
        InvalidConfigError: a column is missing, ambiguous or nested, or the key needs a serializer.
    """
    import pyarrow as pa
    from pyarrow import types

    for name in columns.column_names:
        if schema.names.count(name) > 1:
            reason = f"{schema.names.count(name)} columns of {source_name} have this name"
            raise InvalidConfigError(columns.option_of_column[name], reason, name)
        found = column_type(schema, name)
        if found is None:
            known = list(_leaf_columns(schema))
            more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
            reason = f"no such column in {source_name} (found: {', '.join(known[:_LISTED])}{more})"
            raise InvalidConfigError(columns.option_of_column[name], reason, name)
        if types.is_nested(found):
            hint = _column_hint(schema, name)
            reason = f"column of {source_name} is nested ({str(found)[:100]}); {hint}"
            raise InvalidConfigError(columns.option_of_column[name], reason, name)
    key: Any = column_type(schema, columns.key)
    if types.is_dictionary(key):
        key = key.value_type
    serialize_keys(pa.array([], key), serializer, columns.key)


def _column_hint(schema: pa.Schema, name: str) -> str:
    """Return advice for the error message about a column whose type cannot be used.

    For a struct, the advice is to name one of its fields; otherwise it lists the possible types of
    a key.
    """
    inner = [path for path in _leaf_columns(schema) if path.startswith(f"{name}.")]
    if inner:
        return f"name a column in it: {', '.join(inner[:_LISTED])}"
    return "a key is text, bytes or a whole number"


def select_columns(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Return an Arrow batch with only the named columns, in the given order.

    A name with dots is the path to a field of a struct. The field becomes a column of this name.

    >>> import pyarrow as pa
    >>> batch = pa.RecordBatch.from_pydict({"meta": [{"id": 7}, None]})
    >>> select_columns(batch, ["meta.id"]).to_pydict()
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
        column = batch.column(batch.schema.get_field_index(first))
        for part in path:
            column = compute.struct_field(column, [column.type.get_field_index(part)])
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def serialize_keys(keys: pa.Array, serializer: str | None, name: str) -> pa.Array:
    r"""Serialize a column of record keys to the bytes that a Kafka producer would send.

    Nulls stay null. Text and binary keys need no serializer.

    Args:
        keys: a column of text, bytes, numbers or UUIDs.
        serializer: one of `SERIALIZERS`; None keeps the bytes of text and binary keys.
        name: the column's name, for errors.

    Raises:
        InvalidConfigError: numbers without a serializer, or a serializer that does not fit them.

    >>> import pyarrow as pa
    >>> serialize_keys(pa.array([7, None]), "int", "id").to_pylist()
    [b'\x00\x00\x00\x07', None]
    """
    import pyarrow as pa
    from pyarrow import compute, types

    given = keys.type
    if isinstance(given, pa.BaseExtensionType):
        if given.extension_name == "arrow.uuid":
            return _serialize_uuids(keys, serializer, name)
        return serialize_keys(keys.storage, serializer, name)
    if serializer in _NUMBERS:
        return _serialize_numbers(keys, _NUMBERS[serializer], serializer, name)
    if types.is_large_string(given) or types.is_large_binary(given):
        return keys.cast(pa.large_binary())
    plain = (types.is_string, types.is_binary, types.is_fixed_size_binary, types.is_null)
    if any(is_type(given) for is_type in plain):
        return keys.cast(pa.binary())
    if serializer == "string" and types.is_floating(given):
        reason = (
            f"column is {given}, and each language writes such numbers in its own way (1, 1.0): "
            "say --serializer double or float, or name a column of text"
        )
        raise InvalidConfigError("--serializer", reason, name)
    if serializer == "string" and not types.is_nested(given):
        return compute.cast(keys, pa.string()).cast(pa.binary())
    reason = (
        f"column is {given}, and the partition depends on how a number is written: say "
        f"--serializer string (its decimal text), {', '.join(_NUMBERS)}"
    )
    raise InvalidConfigError("--key", reason, name)


def _serialize_uuids(keys: pa.Array, serializer: str | None, name: str) -> pa.Array:
    """Serialize a column of UUIDs as text of 36 characters or as 16 bytes.

    The text is what Kafka's `UUIDSerializer` writes.

    Args:
        keys: the UUIDs.
        serializer: ``string`` or ``bytes``; anything else raises `InvalidConfigError`.
        name: the column's name, for errors.
    """
    import pyarrow as pa

    if serializer == "string":
        return pa.array([None if one is None else str(one).encode() for one in keys.to_pylist()],
                        pa.binary())  # fmt: skip
    if serializer == "bytes":
        return keys.storage.cast(pa.binary())
    reason = (
        "column is of UUIDs: say --serializer string (36 letters, as UUIDSerializer), or bytes (16)"
    )
    raise InvalidConfigError("--key", reason, name)


def _serialize_numbers(keys: pa.Array, dtype: str, serializer: str, name: str) -> pa.Array:
    """Serialize a column of numbers to big-endian bytes, as Kafka's number serializers do.

    Nulls stay null. A number that does not fit raises `InvalidConfigError`.

    Args:
        keys: the numbers.
        dtype: the NumPy type to write, such as ``>i4``.
        serializer: name of the serializer, for errors.
        name: name of the column, for errors.
    """
    import pyarrow as pa
    from pyarrow import compute

    try:
        wide = compute.cast(keys, {"i": pa.int64(), "f": pa.float64()}[dtype[1]])
    except (pa.ArrowException, KeyError) as e:
        raise InvalidConfigError("--serializer", f"{serializer} does not fit ({e})", name) from None
    values = wide.fill_null(0).to_numpy(zero_copy_only=False)
    raw = values.astype(dtype)
    if dtype[1] == "i" and not np.array_equal(raw.astype(np.int64), values):
        bad = values[raw.astype(np.int64) != values][0]
        raise InvalidConfigError("--serializer", f"{serializer} cannot hold {bad}", name)
    fixed = pa.Array.from_buffers(
        pa.binary(raw.dtype.itemsize), len(raw), [None, pa.py_buffer(np.ascontiguousarray(raw))]
    ).cast(pa.binary())
    return fixed if not keys.null_count else compute.if_else(
        keys.is_valid(), fixed, pa.scalar(None, pa.binary())
    )  # fmt: skip


def normalize_empty_keys(keys: pa.Array, partitioner: str) -> pa.Array:
    """Make empty keys null, or null keys empty, as a client partitioner treats them.

    A null in the result means that the client does not hash the key. For example, librdkafka's
    default partitioner picks a random partition for empty and null keys. Its partitioners
    ``consistent``, ``murmur2`` and ``fnv1a`` hash a null key like an empty one.

    >>> import pyarrow as pa
    >>> normalize_empty_keys(pa.array([b"", None]), "librdkafka:consistent").to_pylist()
    [b'', b'']
    >>> normalize_empty_keys(pa.array([b"", None]), "librdkafka:consistent_random").to_pylist()
    [None, None]
    """
    import pyarrow as pa
    from pyarrow import compute, types

    from partage.keys.registry import find_partitioner

    rule = find_partitioner(partitioner).rule
    if rule is None or rule.unkeyed == "null":
        return keys
    coded = types.is_dictionary(keys.type)
    if rule.unkeyed == "nothing":
        if not keys.null_count and not (coded and keys.dictionary.null_count):
            return keys
        return (keys.dictionary_decode() if coded else keys).fill_null(b"")
    empty = compute.equal(compute.binary_length(keys.dictionary if coded else keys), 0)
    if not compute.any(empty).as_py():
        return keys
    if coded:
        keys = keys.dictionary_decode()
        empty = compute.equal(compute.binary_length(keys), 0)
    return compute.if_else(empty, pa.scalar(None, keys.type), keys)


def value_sizes(values: pa.Array) -> _Longs:
    """Return the size of each value of an Arrow column in bytes (int64[n]).

    A null has size 0. Values other than text and bytes, such as numbers, are measured as text.
    """
    import pyarrow as pa
    from pyarrow import compute, types

    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    sized = (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary)
    if not any(is_type(values.type) for is_type in sized):
        values = compute.cast(values, pa.string())
    lengths = compute.binary_length(values).fill_null(0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)


def convert_times(column: pa.Array, name: str) -> _Longs:
    """Convert a column of record times to milliseconds since 1970 (int64[n]).

    A null becomes `NO_TIME` (-1). Numbers are milliseconds. Text is a whole number or ISO 8601, in
    UTC if it has no time zone.

    Raises:
        InvalidConfigError: the column's type or one of its values is not a time.

    >>> import pyarrow as pa
    >>> texts = ["1970-01-01 00:00:01", None, "1970-01-01T01:00:00+01:00"]
    >>> convert_times(pa.array(texts), "").tolist()
    [1000, -1, 0]
    """
    import pyarrow as pa
    from pyarrow import compute, types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    given = column.type
    try:
        if types.is_string(given) or types.is_large_string(given):
            column = _parse_times(column)
        elif types.is_floating(given):
            column = compute.if_else(compute.is_finite(column), column, pa.scalar(None, given))
        elif not (types.is_timestamp(given) or types.is_date(given) or types.is_integer(given)
                  or types.is_null(given)):  # fmt: skip
            reason = f"is no time (the column is {given}; timestamps, dates, text, or milliseconds)"
            raise InvalidConfigError("--time", reason, name)
        numbers = types.is_integer(column.type) or types.is_floating(column.type)
        if not numbers:
            column = compute.cast(column, pa.timestamp("ms"), safe=False)
        found = compute.cast(column, pa.int64(), safe=False).fill_null(NO_TIME)
    except pa.ArrowException as e:
        raise InvalidConfigError("--time", f"is no time ({e})", name) from None
    times = np.asarray(found.to_numpy(zero_copy_only=False), np.int64)
    _expect_milliseconds(times, name, numbers=numbers)
    return times


def _expect_milliseconds(times: _Longs, name: str, *, numbers: bool) -> None:
    """Raise an error if a column of times is not plausible as milliseconds since 1970.

    Times early in 1970 are probably seconds. Times after the year 9999 are probably microseconds or
    nanoseconds.

    Args:
        times: the times (int64[n]).
        name: name of the column, for errors.
        numbers: whether the column has numbers; other types have a known unit.

    Raises:
        InvalidConfigError: the times are in another unit.
    """
    given = times[times > NO_TIME]
    if not len(given):
        return
    first, last = int(given.min()), int(given.max())
    if last >= _YEAR_10000:
        unit = (
            "; are these microseconds or nanoseconds? numbers are milliseconds" if numbers else ""
        )
        raise InvalidConfigError("--time", f"{last:,} ms is after the year 9999{unit}", name)
    if numbers and _SECONDS[0] <= first and last <= _SECONDS[1]:
        reason = f"{first:,} to {last:,} ms is early in 1970: are these seconds? multiply by 1,000"
        raise InvalidConfigError("--time", reason, name)


def _parse_times(column: pa.Array) -> pa.Array:
    """Parse a text column as timestamps (ISO 8601), or as whole numbers if all values are.

    Timestamps with and without a time zone may be mixed; those without are UTC.
    """
    import pyarrow as pa
    from pyarrow import compute

    if len(column) == column.null_count:
        return pa.nulls(len(column), pa.int64())
    if compute.all(compute.match_substring_regex(column, _WHOLE_NUMBER)).as_py():
        return compute.cast(compute.utf8_trim_whitespace(column), pa.int64())
    has_zone = compute.match_substring_regex(column, _WITH_ZONE)
    null = pa.scalar(None, column.type)
    with_zone = compute.if_else(has_zone, column, null)
    without = compute.if_else(has_zone, null, column)
    for unit in ("us", "ns"):
        with suppress(pa.ArrowInvalid):
            parsed = compute.cast(with_zone, pa.timestamp(unit, tz="UTC"))
            local = compute.cast(without, pa.timestamp(unit))
            return compute.coalesce(compute.cast(parsed, pa.timestamp(unit)), local)
    return compute.cast(without, pa.timestamp("ms"))  # raises with the text that is no time
