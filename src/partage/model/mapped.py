"""Names in the order of Java's hash maps, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.javaorder import hash_order, string_hash, string_ranks

__all__ = ["as_mapped", "string_hashes"]

#: Below this many names the plain function is faster than the one by columns.
_WORTH_COLUMNS = 64


def string_hashes(names: Sequence[str]) -> list[int]:
    """``String.hashCode`` of many names, as signed int32.

    >>> string_hashes(["consumer1", "Aa", "BB"])
    [-421004549, 2112, 2112]
    """
    if len(names) < _WORTH_COLUMNS:
        return [string_hash(name) for name in names]
    units, length = _units(names)
    by_length = np.argsort(-length, kind="stable")
    start = (np.cumsum(length) - length)[by_length]
    # Longest first: those that still have a unit in a column are a prefix.
    longest = int(length[by_length[0]])
    alive = len(names) - np.searchsorted(np.sort(length), np.arange(longest), side="right")
    value = np.zeros(len(names), np.uint32)
    for column, n in enumerate(alive.tolist()):
        value[:n] *= np.uint32(31)
        value[:n] += units[start[:n] + column]
    out = np.empty(len(names), np.uint32)
    out[by_length] = value
    hashes: list[int] = out.view(np.int32).tolist()
    return hashes


def _units(names: Sequence[str]) -> tuple[NDArray[np.unsignedinteger[Any]], NDArray[np.int64]]:
    """UTF-16 units of names, one after the other, and how many each has."""
    text = "".join(names)
    if text.isascii():
        raw = text.encode("ascii")
        return np.frombuffer(raw, np.uint8), np.array(list(map(len, names)), np.int64)
    encoded = [name.encode("utf-16-le", "surrogatepass") for name in names]
    length = np.array([len(one) // 2 for one in encoded], np.int64)
    return np.frombuffer(b"".join(encoded), dtype="<u2"), length


def as_mapped(names: Sequence[str]) -> list[int]:
    """Distinct names in the order of the ``HashMap`` (or set) that got them in this order.

    >>> as_mapped(["consumer1", "consumer2", "consumer3"])
    [2, 1, 0]
    """
    return hash_order(string_hashes(names), rank=lambda: string_ranks(names))
