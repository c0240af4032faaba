"""CRC-32 (that of zlib and Ethernet): librdkafka's default hash."""

from __future__ import annotations

import zlib

import numpy as np

from partage.kernels import kernel
from partage.keys.hashing.base import Hash, Int64Array, KeyHashKernel, UInt8Array, UInt32Array

__all__ = ["CRC32", "crc32"]

_POLYNOMIAL = 0xEDB88320  # reversed bits
_SLICES = 8


def crc32(key: bytes) -> int:
    """Return the CRC-32 checksum of one key, from 0 to 2**32 - 1.

    The default partitioner of librdkafka chooses the partition of a record by it.

    >>> hex(crc32(b"123456789"))
    '0xcbf43926'
    """
    return zlib.crc32(key)


def _make_tables() -> UInt32Array:
    # Table s has the effect of a byte on the checksum s bytes later.
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    slices = [table.astype(np.uint32)]
    for _ in range(_SLICES - 1):
        last = slices[-1]
        slices.append((last >> np.uint32(8)) ^ slices[0][last & np.uint32(0xFF)])
    return np.concatenate(slices)


_TABLES = _make_tables()
#: As int64, or the compiler would mix signed and unsigned numbers.
_WIDE = _TABLES.astype(np.int64)


def _of_rows(rows: UInt8Array) -> UInt32Array:
    h = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    table = _TABLES[:256]
    for column in np.ascontiguousarray(rows.T):
        h = table[(h ^ column) & np.uint32(0xFF)] ^ (h >> np.uint32(8))
    return ~h


@kernel("void(Array(uint8, 1, 'C', readonly=True), int64[::1], int64[::1], uint32[::1])")
def _hash_each(data: UInt8Array, starts: Int64Array, tables: Int64Array, out: UInt32Array) -> None:
    """Compute the CRC-32 checksum of each key in a column.

    It processes eight bytes in each step, an algorithm known as "slicing by 8".

    Args:
        data: bytes of all keys.
        starts: offset of each key.
        tables: the precomputed tables of the algorithm.
        out: receives the hashes.
    """
    top = 0x7FFFFFFFFFFFFFFF
    for i in range(len(out)):
        at = starts[i] & top
        end = starts[i + 1] & top
        h = 0xFFFFFFFF
        last = at + ((end - at) & ~7)
        while at < last:
            h ^= data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24
            h = (
                tables[1792 + (h & 255)]
                ^ tables[1536 + ((h >> 8) & 255)]
                ^ tables[1280 + ((h >> 16) & 255)]
                ^ tables[1024 + ((h >> 24) & 255)]
                ^ tables[768 + data[at + 4]]
                ^ tables[512 + data[at + 5]]
                ^ tables[256 + data[at + 6]]
                ^ tables[data[at + 7] & 255]
            )
            at += 8
        while at < end:
            h = tables[(h ^ data[at]) & 255] ^ (h >> 8)
            at += 1
        out[i] = h ^ 0xFFFFFFFF


class _HashEach(KeyHashKernel):
    def is_worth_compiling(self, *, work: int) -> bool:
        return _hash_each.is_worth_compiling(work=work)

    def __call__(
        self, data: UInt8Array, starts: Int64Array, out: UInt32Array, /, *, work: int
    ) -> None:
        _hash_each(data, starts, _WIDE, out, work=work)


CRC32 = Hash("crc32", crc32, _of_rows, None, None, _HashEach())
