"""Values of the history as bytes, to be stored and taken up again: by a later run, or a stream.

```
bytes 0-3   b"PGH" and the version of the layout
the rest    zlib: JSON, in which only plain values and a closed set of classes occur
```

Nothing in it is executed, and no class is made that is not in the list. What a value has in it
twice is written once. A blob of another version
is refused: the history is then rebuilt from the log, which has everything.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from partage.errors import InvalidCaptureError
from partage.history.causes import CauseState
from partage.history.classic_groups import ClassicGroup, ClassicRecord
from partage.history.commits import CommitRun
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

__all__ = ["VERSION", "pack_state", "unpack_state"]

VERSION = 4


_MAGIC = b"PGH"


#: Bytes that a blob may become: a group of 10,000 members and as many partitions has a tenth.
_LARGEST = 1 << 30


_RECORDS: tuple[type, ...] = (
    Cause, ClassicGroup, ClassicRecord, ClassicState, DepartedMember, DepartedMembers, Generation,
    GroupRecord, Interval, MemberState, LogPosition, CauseState, EpochGroupState, StreamsInput,
    Subscription, TargetInput,
    PartitionCommits,
)  # fmt: skip


_ROWS: tuple[type, ...] = (CommitRun, Pause)


def pack_state(value: object, more: tuple[type, ...] = (), *, level: int = 6) -> bytes:
    """A value as bytes.

    Args:
        value: plain values, and instances of known dataclasses.
        more: dataclasses and named tuples that may occur besides those of the history.
        level: of compression, 1 to 9.

    Raises:
        TypeError: it has something that is not in the list of classes (a mistake of ours).

    >>> unpack_state(pack_state({("t", 1): LogPosition(0, 5)}))
    {('t', 1): LogPosition(partition=0, offset=5)}
    """
    plain = _Packing((*_RECORDS, *more)).plain(value)
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=True)
    return _MAGIC + bytes([VERSION]) + zlib.compress(text.encode("ascii"), level)


def unpack_state(blob: bytes, more: tuple[type, ...] = ()) -> Any:
    """What was packed.

    Raises:
        InvalidCaptureError: the bytes are no blob of this version, or damaged.
    """
    if blob[:3] != _MAGIC or len(blob) < 4:
        raise InvalidCaptureError("stored state: these bytes are none; rebuild it from the log")
    if blob[3] != VERSION:
        what = f"stored state: layout {blob[3]}, this version reads {VERSION}"
        raise InvalidCaptureError(f"{what}; rebuild it from the log")
    try:
        inflate = zlib.decompressobj()
        text = inflate.decompress(blob[4:], _LARGEST)
        if inflate.unconsumed_tail or not inflate.eof:
            raise InvalidCaptureError(
                "stored state: cut off, or too large; rebuild it from the log"
            )
        return _Making((*_RECORDS, *more)).made(json.loads(text))
    except (
        zlib.error, ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError,
        RecursionError,
    ) as e:  # fmt: skip
        what = f"stored state: damaged ({type(e).__name__})"
        raise InvalidCaptureError(f"{what}; rebuild it from the log") from None


class _Packing:
    """As JSON: a plain value is itself, everything else an object with one key that says what."""

    def __init__(self, kinds: tuple[type, ...]) -> None:
        self._rows = {*_ROWS, *(kind for kind in kinds if issubclass(kind, tuple))}
        self._fields = {k: [f.name for f in fields(k)] for k in kinds if k not in self._rows}
        #: Records by identity, in the order in which they were complete.
        self._done: dict[int, int] = {}

    def plain(self, value: object) -> Any:
        """One value."""
        kind = type(value)
        if value is None or kind in (str, int, bool, float):
            return value
        if kind in self._fields:
            return self._record(value)
        if isinstance(value, tuple):
            cells = [self.plain(v) for v in value]
            return {"r": [kind.__name__, *cells]} if kind in self._rows else {"t": cells}
        if isinstance(value, list):
            return {"l": [self.plain(v) for v in value]}
        if isinstance(value, Mapping):
            return {"d": [[self.plain(k), self.plain(v)] for k, v in value.items()]}
        if isinstance(value, bytes | bytearray):
            return {"b": b64encode(value).decode("ascii")}
        if isinstance(value, frozenset):
            return {"f": [self.plain(v) for v in sorted(value)]}
        if isinstance(value, np.ndarray) and value.dtype == np.int32 and value.ndim == 1:
            return {"n": value.tolist()}
        if isinstance(value, float):  # of NumPy's
            return float(value)
        raise TypeError(f"{kind.__name__} cannot be stored")

    def _record(self, value: object) -> Any:
        known = self._done.get(id(value))
        if known is not None:
            return {"s": known}
        names = self._fields[type(value)]
        out = {"o": [type(value).__name__, [self.plain(getattr(value, name)) for name in names]]}
        self._done[id(value)] = len(self._done)
        return out


class _Making:
    """Values from JSON; records come out shared where they were."""

    def __init__(self, kinds: tuple[type, ...]) -> None:
        rows = {*_ROWS, *(kind for kind in kinds if issubclass(kind, tuple))}
        self._rows = {kind.__name__: kind for kind in rows}
        self._kinds = {k.__name__: (k, [f.name for f in fields(k)]) for k in kinds if k not in rows}
        self._done: list[object] = []
        self._makers: dict[str, Callable[[Any], Any]] = {
            "o": self._record,
            "s": lambda inner: self._done[inner],
            "r": lambda inner: self._rows[inner[0]](*map(self.made, inner[1:])),
            "t": lambda inner: tuple([self.made(v) for v in inner]),
            "l": lambda inner: [self.made(v) for v in inner],
            "d": lambda inner: {self.made(k): self.made(v) for k, v in inner},
            "f": lambda inner: frozenset([self.made(v) for v in inner]),
            "n": lambda inner: np.array(inner, np.int32),
            "b": _bytes,
        }

    def made(self, plain: Any) -> Any:
        """One value."""
        if not isinstance(plain, dict):
            return plain
        ((what, inner),) = plain.items()
        return self._makers[what](inner)

    def _record(self, inner: list[Any]) -> Any:
        kind, names = self._kinds[inner[0]]
        made = kind(**dict(zip(names, map(self.made, inner[1]), strict=True)))
        self._done.append(made)
        return made


def _bytes(inner: str) -> bytes:
    try:
        return b64decode(inner, validate=True)
    except Base64Error as e:
        raise ValueError(str(e)) from None
