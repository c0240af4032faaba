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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
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
from partage.history.stop_model import (
    Instant,
    OpenStop,
    StopSum,
    UnreadEstimate,
    UnreadInterval,
    UnreadState,
)

__all__ = ["VERSION", "pack_state", "unpack_state"]

#: Version 18: which clients were evicted, and with which probability a member that stopped had
#: never received its assignment.
VERSION = 19
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
    """Return the classes that may be serialized: a dict of dataclasses with field names, and named
    tuples.

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
    # d mapping, f frozenset, n int32 array (base64 of little-endian numbers), b bytes.
    def __init__(self, more: tuple[type, ...]) -> None:
        self._fields, self._tuples = _known_classes(more)
        #: Numbers of objects by identity, in the order in which they were complete.
        self._done: dict[int, int] = {}

    def pack(self, value: object) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind in self._fields:
            return self._pack_object(value)
        if isinstance(value, tuple):
            if kind is tuple and set(map(type, value)) == {int}:
                return {"i": value}  # partition numbers, the most frequent values
            cells = self._pack_all(value)
            return {"r": [kind.__name__, *cells]} if kind in self._tuples else {"t": cells}
        if isinstance(value, list):
            return {"l": self._pack_all(value)}
        if isinstance(value, Mapping):
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
        self._done[id(value)] = len(self._done)
        return out


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
            "n": lambda inner: np.frombuffer(_bytes(inner), "<i4").astype(np.int32),
            "b": _bytes,
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


def _bytes(inner: str) -> bytes:
    try:
        return b64decode(inner, validate=True)
    except Base64Error as e:
        raise ValueError(str(e)) from None
