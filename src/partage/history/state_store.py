"""Serialization of a history's state to bytes, so that a later run can resume it.

```
bytes 0-3   b"PGH" and the version of the layout
the rest    zlib: JSON with plain values and a closed set of classes
```

Reading executes nothing and creates no class outside the set. A shared value is written once.
Bytes of another version raise an error; the history is then rebuilt from the log.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from partage.errors import InvalidCaptureError
from partage.history.causes import CauseState
from partage.history.classic_groups import ClassicGroup, ClassicRecord
from partage.history.consumer_groups import EpochGroupState
from partage.history.departures import DepartedMember, DepartedMembers
from partage.history.events import Cause, Generation, StreamsInput, TargetInput
from partage.history.ownership import Interval
from partage.history.pauses import PartitionCommits, Pause
from partage.history.records import (
    ClassicState,
    GroupRecord,
    LogPosition,
    MemberState,
    Subscription,
)
from partage.history.stop_model import Instant, StopSum, UnreadEstimate, UnreadInterval
from partage.history.unread_state import OpenStop, UnreadState

__all__ = ["VERSION", "pack_state", "unpack_state"]

#: Version 20: long lists of objects of one class are stored by columns.
VERSION = 20
_MAGIC = b"PGH"
#: Limit of the decompressed size; a group with 10,000 members and partitions needs a tenth.
_LARGEST = 1 << 30

_DATACLASSES: tuple[type, ...] = (
    Cause, CauseState, ClassicGroup, ClassicRecord, ClassicState, DepartedMember, DepartedMembers,
    EpochGroupState, Generation, GroupRecord, Interval, LogPosition, MemberState,
    OpenStop, PartitionCommits, StopSum, StreamsInput, Subscription, TargetInput, UnreadEstimate,
    UnreadState,
)  # fmt: skip
_NAMED_TUPLES: tuple[type, ...] = (Instant, Pause, UnreadInterval)


#: Objects of one class from which on a list is stored by columns.
_LEAST_ROWS = 16
#: Length up to which tuples of equal length become one column for each position.
_MOST_COLUMNS = 4
#: Types whose values JSON has.
_PLAIN = frozenset({type(None), str, int, bool, float})


def pack_state(value: object, more_classes: tuple[type, ...] = (), *, level: int = 6) -> bytes:
    """Serialize the state of a group's history to compressed bytes, which `unpack_state` restores.

    A later run continues from the stored state when the log has grown.

    Args:
        value: plain values, and instances of the classes of a group's history.
        more_classes: further dataclasses and named tuples that the value contains.
        level: zlib compression level, 0 (none) to 9.

    Raises:
        TypeError: the value contains an instance of another class (an internal error).

    >>> unpack_state(pack_state({("t", 1): LogPosition(0, 5)}))
    {('t', 1): LogPosition(partition=0, offset=5)}
    """
    plain = _Packer(more_classes).pack(value)
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=True)
    return _MAGIC + bytes([VERSION]) + zlib.compress(text.encode("ascii"), level)


def unpack_state(packed: bytes, more_classes: tuple[type, ...] = ()) -> Any:
    """Restore the state of a group's history from the bytes that `pack_state` returned.

    ``more_classes`` are the additional classes that the state contains, as for `pack_state`.

    Raises:
        InvalidCaptureError: the bytes are of another layout or version, or damaged.
    """
    if packed[:3] != _MAGIC or len(packed) < 4:
        raise InvalidCaptureError("stored state: unknown layout; rebuild it from the log")
    if packed[3] != VERSION:
        what = f"stored state: layout {packed[3]}, this version reads {VERSION}"
        raise InvalidCaptureError(f"{what}; rebuild it from the log")
    try:
        inflate = zlib.decompressobj()
        text = inflate.decompress(packed[4:], _LARGEST)
        if inflate.unconsumed_tail or not inflate.eof:
            raise InvalidCaptureError(
                "stored state: truncated or too large; rebuild it from the log"
            )
        return _Unpacker(more_classes).unpack(json.loads(text))
    except (
        zlib.error, ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError,
        RecursionError,
    ) as e:  # fmt: skip
        what = f"stored state: damaged ({type(e).__name__})"
        raise InvalidCaptureError(f"{what}; rebuild it from the log") from None


@lru_cache
def _known_classes(
    more_classes: tuple[type, ...],
) -> tuple[dict[type, list[str]], set[type]]:
    """Return the classes that may be serialized: dataclasses with their field names, named tuples.

    ``more_classes`` are classes besides those of a group's history.
    """
    tuples = {*_NAMED_TUPLES, *(kind for kind in more_classes if issubclass(kind, tuple))}
    kinds = (kind for kind in (*_DATACLASSES, *more_classes) if kind not in tuples)
    return {kind: [f.name for f in fields(kind)] for kind in kinds}, tuples


class _Packer:
    """Converter of Python values to JSON values, which `_Unpacker` converts back.

    A value of a type that JSON lacks becomes an object {type code: content}, such as ``{"t": [1,
    "a"]}`` for a tuple.
    """

    # Type codes: o object, s object written before, r named tuple, t tuple, i tuple of int, l list,
    # d mapping, f frozenset, n int32 array (base64 of little-endian numbers), b bytes. Long lists
    # and mappings: c objects of one class by columns, h objects written before, m mapping by
    # columns. Columns: q int64 and e float64 (base64), u distinct values and their positions,
    # w tuples of equal length by position, v lengths and items of tuples, a lengths and items of
    # int32 arrays.
    def __init__(self, more: tuple[type, ...]) -> None:
        self._fields, self._tuples = _known_classes(more)
        #: Numbers of objects by identity, in the order in which they were complete.
        self._done: dict[int, int] = {}
        self._count = 0

    def pack(self, value: object) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind in self._fields:
            return self._pack_object(value)
        if isinstance(value, tuple):
            if kind is tuple and set(map(type, value)) == {int}:
                return {"i": value}  # partition numbers, the most frequent values
            if kind in self._tuples:
                return {"r": [kind.__name__, *self._pack_all(value)]}
            return self._pack_rows("t", value) or {"t": self._pack_all(value)}
        if isinstance(value, list):
            return self._pack_rows("l", value) or {"l": self._pack_all(value)}
        if isinstance(value, Mapping):
            if len(value) >= _LEAST_ROWS:
                return {"m": [self._pack_column([*value]), self._pack_column([*value.values()])]}
            return {"d": [self._pack_all(pair) for pair in value.items()]}
        if isinstance(value, bytes | bytearray):
            return {"b": b64encode(value).decode("ascii")}
        if isinstance(value, frozenset):
            return {"f": [self.pack(v) for v in sorted(value)]}
        if isinstance(value, np.ndarray) and value.dtype == np.int32 and value.ndim == 1:
            return {"n": b64encode(value.astype("<i4").tobytes()).decode("ascii")}
        if isinstance(value, float):  # NumPy's float64
            return float(value)
        raise TypeError(f"{kind.__name__} cannot be stored")

    def _pack_all(self, cells: Iterable[object]) -> list[Any]:
        # Most cells are plain values.
        return [one if type(one) in _PLAIN else self.pack(one) for one in cells]

    def _pack_object(self, value: object) -> Any:
        known = self._done.get(id(value))
        if known is not None:
            return {"s": known}
        kind = type(value)
        cells = self._pack_all([getattr(value, name) for name in self._fields[kind]])
        out = {"o": [kind.__name__, cells]}
        self._set_done(value)
        return out

    def _set_done(self, value: object) -> None:
        self._done[id(value)] = self._count
        self._count += 1

    def _pack_rows(self, sequence: str, rows: Sequence[object]) -> Any:
        """Convert a list of many objects of one class to one list per field, which is shorter as
        JSON.

        The result is None for short lists and for objects of several classes. ``sequence`` is the
        code of the result's type: a list or a tuple.
        """
        kinds = set(map(type, rows))
        if len(rows) < _LEAST_ROWS or len(kinds) > 1:
            return None
        (kind,) = kinds
        if kind in self._tuples:
            columns = list(map(self._pack_column, zip(*rows, strict=True)))
            return {"c": [sequence, kind.__name__, columns]}
        if kind not in self._fields:
            return None
        known = [self._done.get(id(row)) for row in rows]
        if None not in known:
            return {"h": [sequence, _encode_numbers(known, "<i4")]}
        if known.count(None) < len(rows) or len(set(map(id, rows))) < len(rows):
            return None
        values = ([getattr(row, name) for row in rows] for name in self._fields[kind])
        columns = [self._pack_column(column) for column in values]
        for row in rows:
            self._set_done(row)
        return {"c": [sequence, kind.__name__, columns]}

    def _pack_column(self, column: Sequence[Any]) -> Any:
        # The column of one field, or of the keys or values of a mapping.
        kinds = set(map(type, column))
        if kinds == {int} and min(column) >= -(2**63) and max(column) < 2**63:
            return {"q": _encode_numbers(column, "<i8")}
        if kinds == {float}:
            return {"e": _encode_numbers(column, "<f8")}
        is_one_class = len(kinds) == 1 and kinds <= self._fields.keys()
        if is_one_class or kinds <= {str, type(None), bytes}:
            return self._pack_distinct(column)
        if len(kinds) == 1 and kinds <= self._tuples:
            return self._pack_rows("l", column) or {"l": self._pack_all(column)}
        if kinds == {tuple}:
            return self._pack_tuples(column)
        if kinds == {np.ndarray} and all(one.dtype == np.int32 and one.ndim == 1 for one in column):
            return {"a": [_encode_numbers(list(map(len, column)), "<i4"),
                          _encode_numbers(np.concatenate(column), "<i4")]}  # fmt: skip
        return {"l": self._pack_all(column)}

    def _pack_distinct(self, column: Sequence[Any]) -> Any:
        # Most members have the same few texts and subscriptions; objects are equal by identity.
        first: dict[Any, int] = {}
        distinct: list[Any] = []
        places = []
        for one in column:
            key = one if one is None or type(one) in (str, bytes) else id(one)
            place = first.setdefault(key, len(distinct))
            if place == len(distinct):
                distinct.append(one)
            places.append(place)
        if len(distinct) == len(column):
            return self._pack_rows("l", column) or {"l": self._pack_all(column)}
        return {"u": [{"l": self._pack_all(distinct)}, _encode_numbers(places, "<i4")]}

    def _pack_tuples(self, column: Sequence[tuple[Any, ...]]) -> Any:
        lengths = list(map(len, column))
        if lengths[0] and lengths[0] <= _MOST_COLUMNS and len(set(lengths)) == 1:
            return {"w": list(map(self._pack_column, zip(*column, strict=True)))}
        items = list(chain.from_iterable(column))
        if not items:
            return {"l": self._pack_all(column)}
        return {"v": [_encode_numbers(lengths, "<i4"), self._pack_column(items)]}


class _Unpacker:
    """Converter that restores Python values from the JSON values that `_Packer` wrote.

    It only creates instances of known classes.
    """

    # An object that was written once and referred to several times is restored as one object.
    def __init__(self, more: tuple[type, ...]) -> None:
        by_fields, tuples = _known_classes(more)
        self._tuples = {kind.__name__: kind for kind in tuples}
        self._kinds = {kind.__name__: (kind, names) for kind, names in by_fields.items()}
        self._done: list[object] = []
        self._readers: dict[str, Callable[[Any], Any]] = {
            "o": self._unpack_object,
            "s": lambda inner: self._done[inner],
            "r": lambda inner: self._tuples[inner[0]](*self._unpack_all(inner[1:])),
            "t": lambda inner: tuple(self._unpack_all(inner)),
            "l": self._unpack_all,
            "d": lambda inner: {self.unpack(k): self.unpack(v) for k, v in inner},
            "f": lambda inner: frozenset([self.unpack(v) for v in inner]),
            "i": tuple,
            "n": lambda inner: _numbers(inner, "<i4").astype(np.int32),
            "b": _bytes,
            "c": self._unpack_rows,
            "h": lambda inner: self._sequence(
                inner[0], map(self._done.__getitem__, _numbers(inner[1], "<i4").tolist())
            ),
            "m": lambda inner: dict(zip(*map(self.unpack, inner), strict=True)),
            "q": lambda inner: _numbers(inner, "<i8").tolist(),
            "e": lambda inner: _numbers(inner, "<f8").tolist(),
            "u": self._unpack_distinct,
            "w": lambda inner: list(zip(*map(self.unpack, inner), strict=True)),
            "v": lambda inner: [
                tuple(one)
                for one in _split_by_lengths(self.unpack(inner[1]), _numbers(inner[0], "<i4"))
            ],
            "a": lambda inner: _split_by_lengths(
                _numbers(inner[1], "<i4").astype(np.int32), _numbers(inner[0], "<i4")
            ),
        }

    def unpack(self, plain: Any) -> Any:
        if not isinstance(plain, dict):
            return plain
        ((what, inner),) = plain.items()
        return self._readers[what](inner)

    def _unpack_all(self, cells: list[Any]) -> list[Any]:
        # Most cells are plain values.
        return [self.unpack(one) if type(one) is dict else one for one in cells]

    def _unpack_object(self, inner: list[Any]) -> Any:
        kind, names = self._kinds[inner[0]]
        value = kind(**dict(zip(names, self._unpack_all(inner[1]), strict=True)))
        self._done.append(value)
        return value

    def _unpack_rows(self, inner: list[Any]) -> Any:
        sequence, name, packed = inner
        columns = list(map(self.unpack, packed))
        if len(set(map(len, columns))) != 1:
            raise ValueError("columns of unequal length")
        if name in self._tuples:
            return self._sequence(sequence, map(self._tuples[name], *columns))
        kind, names = self._kinds[name]
        if len(columns) != len(names):
            raise ValueError("another number of fields")
        rows = list(map(kind, *columns))
        self._done += rows
        return self._sequence(sequence, rows)

    def _unpack_distinct(self, inner: list[Any]) -> list[Any]:
        distinct = self.unpack(inner[0])
        return [distinct[place] for place in _numbers(inner[1], "<i4").tolist()]

    @staticmethod
    def _sequence(code: str, rows: Iterable[object]) -> Any:
        return tuple(rows) if code == "t" else list(rows)


def _encode_numbers(numbers: Any, dtype: str) -> str:
    return b64encode(np.asarray(numbers, dtype).tobytes()).decode("ascii")


def _numbers(inner: str, dtype: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(_bytes(inner), dtype)


def _split_by_lengths(items: Any, lengths: np.ndarray[Any, Any]) -> list[Any]:
    """Split a list or an array into consecutive pieces of the given lengths.

    For example, ``[5, 6, 7]`` with the lengths 2 and 1 becomes ``[[5, 6], [7]]``.
    """
    if len(items) != int(lengths.sum()) or lengths.min(initial=0) < 0:
        raise ValueError("lengths that do not match")
    ends = lengths.cumsum().tolist()
    return [items[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True)]


def _bytes(inner: str) -> bytes:
    try:
        return b64decode(inner, validate=True)
    except Base64Error as e:
        raise ValueError(str(e)) from None
