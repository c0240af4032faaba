"""Columns of keys: bytes, start offsets and nulls, from lists, NumPy, pandas and Arrow arrays.

Arrow arrays are those of pyarrow, and objects with the Arrow PyCapsule interface, such as a polars
Series. Buffers of Arrow arrays are not copied, and pyarrow is imported only for them. Lengths are
checked before any key is hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidKeysError, MissingExtraError

__all__ = [
    "LONGEST_KEY",
    "KeyColumn",
    "arrow_column",
    "is_arrow",
    "is_pandas",
    "place_arrow",
    "place_pandas",
    "to_key_column",
]  # fmt: skip

#: Default of `max.request.size` in Kafka's producer, which sends no longer key.
LONGEST_KEY = 1_048_576
_AT_ONCE = 16_384
_SERIALISE = "serialise it first (partage.keys.serializers has Kafka's)"


@dataclass(frozen=True, slots=True, eq=False)
class KeyColumn:
    """Column of record keys: the bytes of all keys in one buffer, and the offset of each key.

    It has the layout of an Arrow binary array, so that a million keys need no Python objects.

    Attributes:
        data: uint8, the bytes of all keys.
        starts: int32 or int64[n + 1]; key i is ``data[starts[i]:starts[i + 1]]``.
        null: bool, whether each record's key is null; None if none is.
        code: int64[r] for dictionary-encoded keys: record r has key ``code[r]``; otherwise None.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int32] | NDArray[np.int64]
    null: NDArray[np.bool_] | None = None
    code: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1 if self.code is None else len(self.code)

    @property
    def key_lengths(self) -> NDArray[Any]:
        """Length of each record's key in bytes, as an array.

        A null key has the length 0.
        """
        lengths = np.diff(self.starts)
        if self.code is not None:
            # If every record is null, the dictionary may be empty; codes exist nevertheless.
            lengths = lengths[self.code] if len(lengths) else np.zeros(len(self.code), np.int64)
        return lengths if self.null is None else np.where(self.null, 0, lengths)

    def check_key_lengths(self, longest: int) -> KeyColumn:
        """Check that no key of the column has more than ``longest`` bytes, and return the column.

        Kafka's producer rejects a key that is longer than ``max.request.size``.

        Raises:
            InvalidKeysError: a key is longer; the message names it.
        """
        if not self._may_exceed(longest):
            return self
        lengths = self.key_lengths
        if len(lengths) and int(lengths.max()) > longest:
            i = int(np.argmax(lengths > longest))
            raise InvalidKeysError(
                f"has {int(lengths[i]):,} bytes; Kafka's producer sends no more than {longest:,} "
                "(max.request.size): pass longest_key= to allow it",
                where=f"keys[{i}]",
            )
        return self

    def _may_exceed(self, longest: int) -> bool:
        # Chunks that fit the processor's cache are tested one by one.
        for first in range(0, len(self.starts) - 1, _AT_ONCE):
            some = self.starts[first : first + _AT_ONCE + 1]
            steps = some[1:] - some[:-1]
            if int(steps.max()) > longest:
                return True
        return False


def to_key_column(keys: object) -> KeyColumn:
    """Convert record keys of any accepted Python or NumPy type to a `KeyColumn`.

    Keys are bytes (one key), a sequence of bytes, text or None, or a NumPy array. NumPy's ``S``
    arrays cannot hold a key that ends in a zero byte; a 2-D uint8 array can.

    Raises:
        InvalidKeysError: a key has another type; the message names it and what to do.

    >>> column = to_key_column([b"ab", None, "c"])
    >>> column.data.tobytes(), column.starts.tolist(), column.null.tolist()
    (b'abc', [0, 2, 2, 3], [False, True, False])
    """
    if isinstance(keys, np.ma.MaskedArray):
        raise InvalidKeysError(
            "are a masked array: null keys are None in a list or an object array", where="keys"
        )
    if isinstance(keys, np.ndarray):
        return _of_numpy(keys)
    if isinstance(keys, bytes | bytearray | memoryview | str):
        return _of_sequence([keys])
    if isinstance(keys, Sequence):
        return _of_sequence(keys)
    if hasattr(keys, "tolist") and hasattr(keys, "dtype"):  # a pandas Index, for example
        return _of_sequence(keys.tolist())
    raise InvalidKeysError(
        "must be bytes, a list, or an array of NumPy, pandas, polars or Arrow",
        where="keys", value=keys,
    )  # fmt: skip


def _of_sequence(keys: Sequence[object]) -> KeyColumn:
    # The common case costs one pass in C: joining fails at the first that is not bytes.
    null = None
    try:
        data = b"".join(keys)  # type: ignore[arg-type]  # it is what checks
        lengths = np.fromiter(map(len, keys), np.int64, len(keys))  # type: ignore[arg-type]  # the same
    except TypeError:
        plain = [_bytes_of(key, i) for i, key in enumerate(keys)]
        null = np.fromiter((key is None for key in keys), np.bool_, len(keys))
        data = b"".join(plain)
        lengths = np.fromiter(map(len, plain), np.int64, len(plain))
    if len(data) != int(lengths.sum()):  # memoryviews of wider items: len counts those
        return _of_sequence([_bytes_of(key, i) for i, key in enumerate(keys)])
    starts = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    if null is not None and not null.any():
        null = None
    return KeyColumn(np.frombuffer(data, np.uint8), starts, null)


def _bytes_of(key: object, i: int) -> bytes:
    where = f"keys[{i}]"
    if key is None:
        return b""
    if isinstance(key, bytes):
        return key
    if isinstance(key, bytearray | memoryview):
        return bytes(key)
    if isinstance(key, str):
        try:
            return key.encode()
        except UnicodeEncodeError as e:
            raise InvalidKeysError("is no text that UTF-8 has", where=where, value=key) from e
    if isinstance(key, list | tuple | dict | set | np.ndarray):
        raise InvalidKeysError(
            f"is nested ({type(key).__name__}): {_SERIALISE}", where=where, value=key
        )
    raise InvalidKeysError(
        f"is no bytes but {type(key).__name__}: {_SERIALISE}", where=where, value=key
    )


def _of_numpy(keys: NDArray[Any]) -> KeyColumn:
    if keys.dtype == np.uint8 and keys.ndim == 2:
        return _of_fixed_width(np.ascontiguousarray(keys).reshape(-1), len(keys), keys.shape[1])
    if keys.ndim != 1:
        raise InvalidKeysError(
            f"have {keys.ndim} dimensions: one key a row is a 2-D uint8 array, all else is 1-D",
            where="keys",
        )
    kind = keys.dtype.kind
    if kind == "O":
        return _of_sequence(keys.tolist())
    if kind == "U":
        return _of_sequence([str(key) for key in keys.tolist()])
    if kind == "V" and keys.dtype.names is None and keys.dtype.subdtype is None:
        flat = np.ascontiguousarray(keys).view(np.uint8).reshape(-1)
        return _of_fixed_width(flat, len(keys), keys.dtype.itemsize)
    if kind == "S":
        return _of_padded(keys)
    if kind == "V":
        raise InvalidKeysError(f"are nested ({keys.dtype}): {_SERIALISE}", where="keys")
    raise InvalidKeysError(
        f"are numbers ({keys.dtype}), not bytes: {_SERIALISE}; one key is bytes, not an array",
        where="keys",
    )


def _of_fixed_width(flat: NDArray[np.uint8], count: int, width: int) -> KeyColumn:
    return KeyColumn(flat, np.arange(count + 1, dtype=np.int64) * width)


def _of_padded(keys: NDArray[Any]) -> KeyColumn:
    # NumPy's S arrays pad each key with zero bytes.
    width = keys.dtype.itemsize
    flat = np.ascontiguousarray(keys).view(np.uint8).reshape(-1)
    if not width or not len(keys) or flat.reshape(len(keys), width)[:, -1].all():
        return _of_fixed_width(flat, len(keys), width)
    lengths = np.char.str_len(keys)
    starts = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    inside = np.arange(width) < lengths[:, None]
    return KeyColumn(flat.reshape(len(keys), width)[inside], starts)


Place = Callable[[KeyColumn], tuple[NDArray[np.int32], NDArray[np.bool_] | None]]


def is_arrow(keys: object) -> bool:
    """Return whether an object is an Arrow array of any library, such as pyarrow or polars.

    pyarrow is not imported for the check.

    >>> is_arrow([b"a"])
    False
    """
    return (
        _library(keys) == "pyarrow"
        or hasattr(keys, "__arrow_c_array__")
        or hasattr(keys, "__arrow_c_stream__")
    )


def is_pandas(keys: object) -> bool:
    """Return whether an object is a pandas Series.

    pandas is not imported for the check.

    >>> is_pandas([b"a"])
    False
    """
    return any(
        kind.__name__ == "Series" and kind.__module__.partition(".")[0] == "pandas"
        for kind in type(keys).__mro__
    )


def _library(keys: object) -> str:
    return type(keys).__module__.partition(".")[0]


def place_arrow(keys: Any, place_column: Place) -> Any:
    """Choose the partition of each key in an Arrow array; return an int32 array of partitions.

    The result belongs to the same library as the keys: polars, nanoarrow, or one whose classes have
    a method ``from_arrow`` (arro3); otherwise it is an array of pyarrow. A chunked array of pyarrow
    keeps its chunks.

    Args:
        keys: an array of binary, large_binary, binary_view, fixed_size_binary, text of each kind, a
            dictionary or run-end encoding of them, or null; a chunked array or a stream of them.
        place_column: function from a `KeyColumn` to its partitions and a mask of the null ones.

    Raises:
        InvalidKeysError: the keys have another type; the message names it.
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("pyarrow", extra="report") from None

    if _library(keys) != "pyarrow":
        placed = place_arrow(_to_pyarrow(keys, pa), place_column)
        if _library(keys) == "polars":
            return type(keys)(keys.name, placed)
        if _library(keys) == "nanoarrow":
            return type(keys)(placed)
        make = getattr(type(keys), "from_arrow", None)
        return placed if make is None else make(placed)
    if isinstance(keys, pa.ChunkedArray):
        return pa.chunked_array(
            [place_arrow(chunk, place_column) for chunk in keys.chunks], type=pa.int32()
        )
    if not isinstance(keys, pa.Array):
        raise InvalidKeysError(
            f"are a {type(keys).__name__}: pass one column of it, an Array or a ChunkedArray",
            where="keys",
        )
    partitions, null = place_column(arrow_column(keys, pa))
    return _as_arrow(partitions, null, pa)


def _to_pyarrow(keys: Any, pa: Any) -> Any:
    """Convert an Arrow array of another library, such as polars, to a pyarrow array.

    Any object with Arrow's PyCapsule interface is accepted. ``pa`` is the module pyarrow.

    Raises:
        InvalidKeysError: the object is a table, or not a column of an Arrow type.
    """
    wrong = (pa.ArrowException, TypeError, ValueError)
    try:
        if not hasattr(keys, "__arrow_c_array__"):
            return pa.chunked_array(keys)
        try:
            return pa.array(keys)
        except wrong:
            # An Array of nanoarrow has both methods; with several chunks only the stream works.
            if not hasattr(keys, "__arrow_c_stream__"):
                raise
            return pa.chunked_array(keys)
    except wrong as e:
        raise InvalidKeysError(
            f"are a {type(keys).__name__} that is no column ({e}): pass one column of it",
            where="keys",
        ) from None


def place_pandas(keys: Any, place_column: Place) -> Any:
    """Choose the partition of each key in a pandas Series; return an Int32 Series of partitions.

    The result has the same index. A missing value stands for a null key whose partition is not
    determined.

    Args:
        keys: a Series of dtype object (bytes or text), ``string``, category, or an Arrow type;
            missing values are null keys.
        place_column: function from a `KeyColumn` to its partitions and a mask of the null ones.

    Raises:
        InvalidKeysError: the keys have another type; the message names it.
        MissingExtraError: pyarrow is not installed, and the type needs it.
    """
    if keys.dtype == object:
        missing = keys.isna().tolist()
        values = keys.tolist()
        plain = [None if none else one for one, none in zip(values, missing, strict=True)]
        partitions, null = place_column(_of_sequence(plain))
    else:
        partitions, null = place_column(_of_pandas(keys))
    placed = type(keys)(partitions, index=keys.index, name=keys.name, dtype="Int32")
    return placed if null is None else placed.mask(null)


def _of_pandas(keys: Any) -> KeyColumn:
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("pyarrow", extra="report") from None
    column = pa.array(keys, from_pandas=True)
    return arrow_column(
        column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column, pa
    )


def arrow_column(keys: Any, pa: Any) -> KeyColumn:
    """Convert a pyarrow array of keys to a `KeyColumn`, mostly without copying its buffers.

    Partitioners hash all keys of such a column at once.

    Args:
        keys: the Arrow array.
        pa: the module pyarrow, passed so that it is imported only if needed.

    Raises:
        InvalidKeysError: the keys have another type; the message names it.
    """
    kind = keys.type
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return arrow_column(keys.storage, pa)
    if types.is_null(kind):
        empty = np.zeros(len(keys) + 1, np.int32)
        return KeyColumn(np.zeros(0, np.uint8), empty, np.ones(len(keys), np.bool_))
    if types.is_run_end_encoded(kind):
        from pyarrow import compute

        return arrow_column(compute.run_end_decode(keys), pa)
    if types.is_dictionary(kind):
        return _dictionary(keys, pa)
    if types.is_binary(kind) or types.is_string(kind):
        return _variable(keys, np.int32)
    if types.is_large_binary(kind) or types.is_large_string(kind):
        return _variable(keys, np.int64)
    if types.is_fixed_size_binary(kind):
        starts = (np.arange(len(keys) + 1, dtype=np.int64) + keys.offset) * kind.byte_width
        return KeyColumn(_bytes_in(keys.buffers()[1]), starts, _null(keys))
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


def _dictionary(keys: Any, pa: Any) -> KeyColumn:
    # Each distinct key is hashed once.
    distinct = arrow_column(keys.dictionary, pa)
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
