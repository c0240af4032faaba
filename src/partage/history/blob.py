"""Values of the history as bytes, to be stored and taken up again: by a later run, or a stream.

```
bytes 0-3   b"PGH" and the version of the layout
the rest    zlib: JSON, in which only plain values and a closed set of classes occur
```

Nothing in it is executed, and no class is made that is not in the list. A blob of another version
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

from partage.errors import InvalidCaptureError
from partage.history.causes import Cause
from partage.history.classic import ClassicGroup, ClassicRecord, Generation
from partage.history.commits import CommitRun
from partage.history.departures import Departure, Departures
from partage.history.ownership import Interval
from partage.history.pauses import Pause, Waits
from partage.history.reasons import ReasonsState
from partage.history.records import ClassicState, MemberState, Place, Subscription
from partage.history.server import ServerState
from partage.history.server_records import GroupRecord
from partage.history.targets import StreamsInput, TargetInput

__all__ = ["VERSION", "packed", "unpacked"]

VERSION = 1
_MAGIC = b"PGH"
#: Bytes that a blob may become: a group of 10,000 members and as many partitions has a tenth.
_LARGEST = 1 << 30

_RECORDS: tuple[type, ...] = (
    Cause, ClassicGroup, ClassicRecord, ClassicState, Departure, Departures, Generation,
    GroupRecord, Interval, MemberState, Place, ReasonsState, ServerState, StreamsInput,
    Subscription, TargetInput,
    Waits,
)  # fmt: skip
_ROWS: tuple[type, ...] = (CommitRun, Pause)
_BY_NAME: dict[str, type] = {kind.__name__: kind for kind in (*_RECORDS, *_ROWS)}


def packed(value: object) -> bytes:
    """A value as bytes.

    Raises:
        TypeError: it has something that is not in the list of classes (a mistake of ours).

    >>> unpacked(packed({("t", 1): Place(0, 5)}))
    {('t', 1): Place(partition=0, offset=5)}
    """
    text = json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=True)
    return _MAGIC + bytes([VERSION]) + zlib.compress(text.encode("ascii"), 6)


def unpacked(blob: bytes) -> Any:
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
        return _made(json.loads(text))
    except (zlib.error, ValueError, KeyError, TypeError, IndexError, RecursionError) as e:
        what = f"stored state: damaged ({type(e).__name__})"
        raise InvalidCaptureError(f"{what}; rebuild it from the log") from None


def _plain(value: object) -> Any:
    """As JSON: a plain value is itself, everything else an object with one key that says what."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    name = type(value).__name__
    if isinstance(value, bytes | bytearray):
        return {"b": b64encode(value).decode("ascii")}
    if isinstance(value, _ROWS):
        return {"r": [name, *map(_plain, value)]}  # type: ignore[call-overload]  # rows are tuples
    if isinstance(value, _RECORDS):
        names = [f.name for f in fields(value)]  # type: ignore[arg-type]  # all of _RECORDS are dataclasses
        return {"o": [name, {field: _plain(getattr(value, field)) for field in names}]}
    if isinstance(value, tuple):
        return {"t": [_plain(v) for v in value]}
    if isinstance(value, list):
        return {"l": [_plain(v) for v in value]}
    if isinstance(value, Mapping):
        return {"d": [[_plain(k), _plain(v)] for k, v in value.items()]}
    raise TypeError(f"{name} cannot be stored")


def _made(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    ((what, inner),) = plain.items()
    return _MAKERS[what](inner)


def _row(inner: list[Any]) -> Any:
    return _BY_NAME[inner[0]](*map(_made, inner[1:]))


def _object(inner: list[Any]) -> Any:
    return _BY_NAME[inner[0]](**{name: _made(v) for name, v in inner[1].items()})


def _bytes(inner: str) -> bytes:
    try:
        return b64decode(inner, validate=True)
    except Base64Error as e:
        raise ValueError(str(e)) from None


_MAKERS: dict[str, Callable[[Any], Any]] = {
    "b": _bytes,
    "r": _row,
    "o": _object,
    "t": lambda inner: tuple(_made(v) for v in inner),
    "l": lambda inner: [_made(v) for v in inner],
    "d": lambda inner: {_made(k): _made(v) for k, v in inner},
}
