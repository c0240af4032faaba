"""Thrift's compact protocol, as much of it as the heads of Parquet's pages need: numbers.

Foreign bytes: nothing is allocated by a length that is told, and depth has an end.
"""

from __future__ import annotations

from typing import Any

__all__ = ["ThriftError", "struct", "varint"]

_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 0, 1, 2, 3, 7, 8, 12
_INTEGERS = (4, 5, 6)
_DEEPEST = 8


class ThriftError(ValueError):
    """No struct, or one that is not expected."""


def struct(data: memoryview, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Fields by number, and where the struct ends; text, lists and doubles are passed over.

    Raises:
        ThriftError: it is none, or goes beyond the data.

    >>> struct(memoryview(bytes([0x15, 6, 0x16, 3, 0x11, 0])), 0)
    ({1: 3, 2: -2, 3: True}, 6)
    """
    found: dict[int, Any] = {}
    number = 0
    if depth > _DEEPEST:
        raise ThriftError("too deep")
    while True:
        head, at = _byte(data, at)
        kind = head & 15
        if kind == _STOP:
            return found, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _zigzag(data, at)
        found[number], at = _value(data, at, kind, depth)


def _value(data: memoryview, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in {_TRUE, _FALSE}:
        return kind == _TRUE, at
    if kind in _INTEGERS:
        return _zigzag(data, at)
    if kind == _STRUCT:
        return struct(data, at, depth + 1)
    if kind == _BYTE:
        return None, _beyond(data, at, 1)
    if kind == _DOUBLE:
        return None, _beyond(data, at, 8)
    if kind == _BINARY:
        size, at = varint(data, at)
        return None, _beyond(data, at, size)
    raise ThriftError(f"type {kind}")


def _beyond(data: memoryview, at: int, size: int) -> int:
    if size > len(data) - at:
        raise ThriftError("beyond the data")
    return at + size


def _byte(data: memoryview, at: int) -> tuple[int, int]:
    if at >= len(data):
        raise ThriftError("beyond the data")
    return data[at], at + 1


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends.

    Raises:
        ThriftError: it goes beyond the data.
    """
    found = shift = 0
    while shift < 64:
        byte, at = _byte(data, at)
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at
        shift += 7
    raise ThriftError("a number without an end")


def _zigzag(data: memoryview, at: int) -> tuple[int, int]:
    found, at = varint(data, at)
    return (found >> 1) ^ -(found & 1), at
