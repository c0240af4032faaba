"""FNV-1a, 32 bits: the hash of Sarama, and one of librdkafka's."""

from __future__ import annotations

import numpy as np

from partage.kernels import Kernel, kernel
from partage.keys.hashing.base import (
    LONGEST_IN_LANES,
    Hash,
    Int64Array,
    UInt8Array,
    UInt32Array,
)

__all__ = ["FNV1A", "fnv1a"]

_BASIS = 0x811C9DC5
_PRIME = 0x01000193
_MASK = 0xFFFFFFFF


def fnv1a(key: bytes) -> int:
    """Return the FNV-1a hash of one key (32 bits), from 0 to 2**32 - 1.

    The default partitioner of Sarama, a Go client, chooses the partition of a record by it.

    >>> hex(fnv1a(b"foobar"))
    '0xbf9cf968'
    """
    h = _BASIS
    for byte in key:
        h = (h ^ byte) * _PRIME & _MASK
    return h


def _of_rows(rows: UInt8Array) -> UInt32Array:
    h = np.full(len(rows), _BASIS, np.uint32)
    prime = np.uint32(_PRIME)
    for column in np.ascontiguousarray(rows.T):
        h ^= column
        h *= prime
    return h


@kernel("void(uint8[:,::1], uint32[::1])")
def _lanes(columns: UInt8Array, out: UInt32Array) -> None:
    # columns[b, i] is byte b of key i.
    count = len(out)
    for i in range(count):
        out[i] = 0x811C9DC5
    for b in range(columns.shape[0]):
        for i in range(count):
            out[i] = ((out[i] ^ columns[b, i]) * 0x01000193) & 0xFFFFFFFF


def _by_lanes(rows: UInt8Array, out: UInt32Array) -> None:
    _lanes(np.array(rows.T, order="C"), out, work=rows.size)


def _lane_kernel(length: int) -> Kernel | None:
    return _lanes if length <= LONGEST_IN_LANES else None


@kernel("void(Array(uint8, 1, 'C', readonly=True), int64[::1], uint32[::1])")
def _each(data: UInt8Array, starts: Int64Array, out: UInt32Array) -> None:
    # Four keys at a time hide the latency of multiplications.
    top = 0x7FFFFFFFFFFFFFFF
    count = len(out)
    done = 0
    while done + 4 <= count:
        a = starts[done] & top
        b = starts[done + 1] & top
        c = starts[done + 2] & top
        d = starts[done + 3] & top
        end = starts[done + 4] & top
        together = min(b - a, c - b, d - c, end - d)
        ha = 0x811C9DC5
        hb = 0x811C9DC5
        hc = 0x811C9DC5
        hd = 0x811C9DC5
        for i in range(together):
            ha = ((ha ^ data[a + i]) * 0x01000193) & 0xFFFFFFFF
            hb = ((hb ^ data[b + i]) * 0x01000193) & 0xFFFFFFFF
            hc = ((hc ^ data[c + i]) * 0x01000193) & 0xFFFFFFFF
            hd = ((hd ^ data[d + i]) * 0x01000193) & 0xFFFFFFFF
        for i in range(a + together, b):
            ha = ((ha ^ data[i]) * 0x01000193) & 0xFFFFFFFF
        for i in range(b + together, c):
            hb = ((hb ^ data[i]) * 0x01000193) & 0xFFFFFFFF
        for i in range(c + together, d):
            hc = ((hc ^ data[i]) * 0x01000193) & 0xFFFFFFFF
        for i in range(d + together, end):
            hd = ((hd ^ data[i]) * 0x01000193) & 0xFFFFFFFF
        out[done] = ha
        out[done + 1] = hb
        out[done + 2] = hc
        out[done + 3] = hd
        done += 4
    for i in range(done, count):
        h = 0x811C9DC5
        for j in range(starts[i] & top, starts[i + 1] & top):
            h = ((h ^ data[j]) * 0x01000193) & 0xFFFFFFFF
        out[i] = h


FNV1A = Hash("fnv1a", fnv1a, _of_rows, _by_lanes, _lane_kernel, _each)
