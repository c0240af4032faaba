"""Java's own hashCode of strings and of byte arrays: 31 * h + next, what the Scala producer used.

`String.hashCode` starts at 0 and walks UTF-16 code units; `Arrays.hashCode(byte[])` starts at 1
and walks signed bytes.
"""

from __future__ import annotations

import numpy as np

from partage.errors import InvalidKeysError
from partage.kernels import kernel
from partage.keys.hashing.base import Hash, Int64Array, KeyHashKernel, UInt8Array, UInt32Array

__all__ = ["JAVA_BYTES", "JAVA_STRING", "java_bytes_hash", "java_string_hash"]

_MASK = 0xFFFFFFFF


def java_bytes_hash(key: bytes) -> int:
    """Return the hash code that Java's ``Arrays.hashCode(byte[])`` computes for a key.

    It is returned as an unsigned number, from 0 to 2**32 - 1.

    >>> java_bytes_hash(bytes([0xFF])), java_bytes_hash(b"")
    (30, 1)
    """
    h = 1
    for byte in key:
        h = (31 * h + (byte ^ 0x80) - 0x80) & _MASK
    return h


def java_string_hash(key: bytes | str) -> int:
    r"""Return the hash code that Java's ``String.hashCode`` computes for a key.

    It is returned as an unsigned number, from 0 to 2**32 - 1. The key is text, or bytes that are
    decoded as UTF-8.

    Raises:
        InvalidKeysError: the bytes are not UTF-8, so they are no string.

    >>> java_string_hash("hello"), java_string_hash("\U0001f600")
    (99162322, 1772899)
    """
    if isinstance(key, bytes):
        try:
            key = key.decode("utf-8")
        except UnicodeDecodeError as e:
            raise InvalidKeysError(
                "is not UTF-8, and this partitioner hashes strings", where="a key", value=key
            ) from e
    units = key.encode("utf-16-le", "surrogatepass")
    h = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        h = (31 * h + low + (high << 8)) & _MASK
    return h


def _rows_from(rows: UInt8Array, start: int) -> UInt32Array:
    h = np.full(len(rows), start, np.uint32)
    for column in np.ascontiguousarray(rows.T).view(np.int8):
        h *= np.uint32(31)
        h += column.astype(np.int32).view(np.uint32)
    return h


def _bytes_of_rows(rows: UInt8Array) -> UInt32Array:
    return _rows_from(rows, 1)


def _string_of_rows(rows: UInt8Array) -> UInt32Array:
    if rows.size and rows.max() >= 0x80:
        return np.array([java_string_hash(row.tobytes()) for row in rows], np.uint32)
    return _rows_from(rows, 0)


@kernel("void(Array(uint8, 1, 'C', readonly=True), int64[::1], uint32[::1])")
def _each_bytes(data: UInt8Array, starts: Int64Array, out: UInt32Array) -> None:
    # Java's Arrays.hashCode of signed bytes.
    top = 0x7FFFFFFFFFFFFFFF
    for i in range(len(out)):
        h = 1
        for j in range(starts[i] & top, starts[i + 1] & top):
            h = (31 * h + (data[j] ^ 0x80) - 0x80) & 0xFFFFFFFF
        out[i] = h


@kernel("void(Array(uint8, 1, 'C', readonly=True), int64[::1], uint32[::1], uint8[::1])")
def _hash_ascii_strings(
    data: UInt8Array, starts: Int64Array, out: UInt32Array, known: UInt8Array
) -> None:
    """Compute the hash code of Java's ``String.hashCode`` for each ASCII key in a column.

    Keys with other characters are only marked, because Java hashes UTF-16 units, not bytes.

    Args:
        data: bytes of all keys.
        starts: offset of each key.
        out: receives the hashes.
        known: receives 1 for each ASCII key, 0 for others.
    """
    top = 0x7FFFFFFFFFFFFFFF
    for i in range(len(out)):
        h = 0
        seen = 0
        for j in range(starts[i] & top, starts[i + 1] & top):
            seen |= data[j]
            h = (31 * h + data[j]) & 0xFFFFFFFF
        out[i] = h
        known[i] = 1 if seen < 0x80 else 0


class _StringHasher(KeyHashKernel):
    """Hash function that computes Java's ``String.hashCode`` for each key of a column.

    A compiled kernel hashes ASCII keys, Python code hashes the others.
    """

    def is_worth_compiling(self, *, work: int) -> bool:
        return _hash_ascii_strings.is_worth_compiling(work=work)

    def __call__(
        self, data: UInt8Array, starts: Int64Array, out: UInt32Array, /, *, work: int
    ) -> None:
        known = np.empty(len(out), np.uint8)
        _hash_ascii_strings(data, starts, out, known, work=work)
        for i in np.flatnonzero(known == 0).tolist():
            out[i] = java_string_hash(data[starts[i] : starts[i + 1]].tobytes())


JAVA_BYTES = Hash("java-bytes", java_bytes_hash, _bytes_of_rows, None, None, _each_bytes)
JAVA_STRING = Hash("java-string", java_string_hash, _string_of_rows, None, None, _StringHasher())
