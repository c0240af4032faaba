"""A column as the bytes that a producer would have sent as keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SERIALIZERS", "as_bytes", "as_placed", "sizes"]

#: Kafka's serializers of numbers write them big-endian; text and UUIDs are written as UTF-8.
_NUMBERS = {"short": ">i2", "int": ">i4", "long": ">i8", "float": ">f4", "double": ">f8"}
SERIALIZERS = ("string", "bytes", *_NUMBERS)


def as_bytes(keys: pa.Array, serializer: str | None, name: str) -> pa.Array:
    r"""The keys serialized; nulls stay null. ``name`` is the column's, for errors.

    Raises:
        InvalidConfigError: numbers without a serializer, or one that does not fit them.

    >>> import pyarrow as pa
    >>> as_bytes(pa.array([7, None]), "int", "id").to_pylist()
    [b'\x00\x00\x00\x07', None]
    """
    import pyarrow as pa
    from pyarrow import compute, types

    kind = keys.type
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid":
            return _uuids(keys, serializer, name)
        return as_bytes(keys.storage, serializer, name)
    if serializer in _NUMBERS:
        return _numbers(keys, _NUMBERS[serializer], serializer, name)
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return keys.cast(pa.large_binary())
    if types.is_string(kind) or types.is_binary(kind):
        return keys.cast(pa.binary())
    if types.is_fixed_size_binary(kind):
        return keys.cast(pa.binary())
    if serializer == "string" and types.is_floating(kind):
        told = (
            f"column is {kind}, and each language writes such numbers in its own way (1, 1.0): "
            "say --serializer double or float, or name a column of text"
        )
        raise InvalidConfigError("--serializer", told, name)
    if serializer == "string" and not types.is_nested(kind):
        return compute.cast(keys, pa.string()).cast(pa.binary())
    if types.is_null(kind):
        return keys.cast(pa.binary())
    told = (
        f"column is {kind}, and the partition depends on how a number is written: say --serializer "
        f"string (its decimal text), {', '.join(_NUMBERS)}"
    )
    raise InvalidConfigError("--key", told, name)


def _uuids(keys: pa.Array, serializer: str | None, name: str) -> pa.Array:
    """Kafka's `UUIDSerializer` writes text; others may send the 16 bytes."""
    import pyarrow as pa

    if serializer == "string":
        return pa.array([None if one is None else str(one).encode() for one in keys.to_pylist()],
                        pa.binary())  # fmt: skip
    if serializer == "bytes":
        return keys.storage.cast(pa.binary())
    told = (
        "column is of UUIDs: say --serializer string (36 letters, as UUIDSerializer), or bytes (16)"
    )
    raise InvalidConfigError("--key", told, name)


def _numbers(keys: pa.Array, layout: str, serializer: str, name: str) -> pa.Array:
    import pyarrow as pa
    from pyarrow import compute

    try:
        plain = compute.cast(keys, {"i": pa.int64(), "f": pa.float64()}[layout[1]])
    except (pa.ArrowException, KeyError) as e:
        raise InvalidConfigError("--serializer", f"{serializer} does not fit ({e})", name) from None
    values = plain.fill_null(0).to_numpy(zero_copy_only=False)
    raw = values.astype(layout)
    if layout[1] == "i" and not np.array_equal(raw.astype(np.int64), values):
        bad = values[raw.astype(np.int64) != values][0]
        raise InvalidConfigError("--serializer", f"{serializer} cannot hold {bad}", name)
    size = raw.dtype.itemsize
    fixed = pa.Array.from_buffers(
        pa.binary(size), len(raw), [None, pa.py_buffer(np.ascontiguousarray(raw))]
    ).cast(pa.binary())
    return fixed if not keys.null_count else compute.if_else(
        keys.is_valid(), fixed, pa.scalar(None, pa.binary())
    )  # fmt: skip


def as_placed(keys: pa.Array, partitioner: str) -> pa.Array:
    """The keys by which a partitioner goes: null where it leaves the record to turns or chance.

    librdkafka's default leaves empty keys to chance too; its ``consistent``, ``murmur2`` and
    ``fnv1a`` hash a null key as the empty one, so that all such records share a partition.

    >>> import pyarrow as pa
    >>> as_placed(pa.array([b"", None]), "librdkafka:consistent").to_pylist()
    [b'', b'']
    >>> as_placed(pa.array([b"", None]), "librdkafka:consistent_random").to_pylist()
    [None, None]
    """
    import pyarrow as pa
    from pyarrow import compute, types

    from partage.keys.registry import find

    rule = find(partitioner).rule
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


def sizes(values: pa.Array) -> np.ndarray:
    """int64[n]: the bytes of each value; 0 for null."""
    import pyarrow as pa
    from pyarrow import compute, types

    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kinds = (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary)
    if not any(is_a(values.type) for is_a in kinds):
        values = compute.cast(values, pa.string())
    lengths = compute.binary_length(values).fill_null(0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)
