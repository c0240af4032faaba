"""Arrow's arrays as columns of keys, and partitions as Arrow's arrays. Buffers are not copied.

Nothing here runs unless an Arrow array comes in: then pyarrow is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidKeysError
from partage.keys.columns import KeyColumn

__all__ = ["column", "is_arrow", "placed"]

Place = Callable[[KeyColumn], tuple[NDArray[np.int32], NDArray[np.bool_] | None]]


def is_arrow(keys: object) -> bool:
    """Whether they are pyarrow's; asks nothing of pyarrow itself.

    >>> is_arrow([b"a"])
    False
    """
    return type(keys).__module__.partition(".")[0] == "pyarrow"


def placed(keys: Any, place: Place) -> Any:
    """Arrow int32 partitions of Arrow's keys: an Array of an Array, chunks of chunks.

    Args:
        keys: binary, large_binary, binary_view, fixed_size_binary, text of each kind, a
            dictionary or runs of them, or null; an Array or a ChunkedArray.
        place: of a column the partitions, and which of them are null.

    Raises:
        InvalidKeysError: of another type; says which.
    """
    import pyarrow as pa

    if isinstance(keys, pa.ChunkedArray):
        return pa.chunked_array([placed(chunk, place) for chunk in keys.chunks], type=pa.int32())
    if not isinstance(keys, pa.Array):
        raise InvalidKeysError(
            f"are a {type(keys).__name__}: pass one column of it, an Array or a ChunkedArray",
            where="keys",
        )
    partitions, null = place(column(keys, pa))
    return _as_arrow(partitions, null, pa)


def column(keys: Any, pa: Any) -> KeyColumn:
    """Arrow's keys as kernels want them; the buffers are not copied.

    Raises:
        InvalidKeysError: of another type; says which.
    """
    kind = keys.type
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return column(keys.storage, pa)
    if types.is_null(kind):
        empty = np.zeros(len(keys) + 1, np.int32)
        return KeyColumn(np.zeros(0, np.uint8), empty, np.ones(len(keys), np.bool_))
    if types.is_run_end_encoded(kind):
        from pyarrow import compute

        return column(compute.run_end_decode(keys), pa)
    if types.is_dictionary(kind):
        return _coded(keys, pa)
    if types.is_binary(kind) or types.is_string(kind):
        return _variable(keys, np.int32)
    if types.is_large_binary(kind) or types.is_large_string(kind):
        return _variable(keys, np.int64)
    if types.is_fixed_size_binary(kind):
        return _fixed(keys, kind.byte_width)
    if kind in {pa.binary_view(), pa.string_view()}:
        return _variable(keys.cast(pa.large_binary()), np.int64)
    if types.is_nested(kind):
        raise InvalidKeysError(
            f"are of the nested type {kind}: name one column in it, or serialise them", where="keys"
        )
    raise InvalidKeysError(
        f"are of type {kind}, not bytes: serialise them first "
        "(partage.keys.serializers has Kafka's)",
        where="keys",
    )


def _coded(keys: Any, pa: Any) -> KeyColumn:
    """A dictionary: its few keys are hashed once, however many records have them."""
    distinct = column(keys.dictionary, pa)
    null = _null(keys.indices)
    code = keys.indices.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if distinct.null is not None:  # a key of the dictionary may be the null one
        of_key = distinct.null[code] if len(distinct) else np.ones(len(code), np.bool_)
        null = of_key if null is None else null | of_key
    return KeyColumn(distinct.data, distinct.starts, null, code)


def _bytes_in(buffer: Any) -> NDArray[np.uint8]:
    return np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def _variable(keys: Any, offset: Any) -> KeyColumn:
    _, offsets, data = keys.buffers()
    first, count = keys.offset, len(keys)
    if offsets is None or not len(offsets):  # an empty array may have no offsets at all
        return KeyColumn(np.zeros(0, np.uint8), np.zeros(count + 1, np.int32), _null(keys))
    starts = np.frombuffer(offsets, offset)[first : first + count + 1]
    if len(starts) != count + 1:
        raise InvalidKeysError("has fewer offsets than keys", where="the Arrow array")
    return KeyColumn(_bytes_in(data), starts, _null(keys))


def _fixed(keys: Any, width: int) -> KeyColumn:
    data = _bytes_in(keys.buffers()[1])
    starts = (np.arange(len(keys) + 1, dtype=np.int64) + keys.offset) * width
    return KeyColumn(data, starts, _null(keys))


def _null(keys: Any) -> NDArray[np.bool_] | None:
    validity = keys.buffers()[0]
    if validity is None or not keys.null_count:
        return None
    first, count = keys.offset, len(keys)
    bits = np.frombuffer(validity, np.uint8)[first // 8 : (first + count + 7) // 8]
    valid = np.unpackbits(bits, bitorder="little")[first % 8 : first % 8 + count]
    null: NDArray[np.bool_] = valid == 0
    return null


def _as_arrow(partitions: NDArray[np.int32], null: NDArray[np.bool_] | None, pa: Any) -> Any:
    validity = None
    if null is not None and null.any():
        validity = pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(pa.int32(), len(partitions), [validity, pa.py_buffer(partitions)])
