"""murmur2 as Kafka's Java client computes it: MurmurHash2, 32 bits, seed 0x9747b28c.

Source: ``org.apache.kafka.common.utils.Utils.murmur2``, unchanged from 0.8.1 to 4.3.1. Bytes are
taken unsigned (Java's are signed: ports that forget the mask differ from the first byte above
0x7f on), groups of four little-endian, and one to three bytes may be left over at the end.
"""

from __future__ import annotations

import struct

import numpy as np

from partage.kernels import Kernel, kernel, kernel_helper
from partage.keys.hashing.base import (
    LONGEST_IN_LANES,
    Hash,
    Int64Array,
    UInt8Array,
    UInt32Array,
)

__all__ = ["MURMUR2", "murmur2"]

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
#: Words that lie in the processor's nearest cache, and the longest key of which four fit there.
_BUFFER_WORDS = 1 << 13
#: Keys begin at any byte.
_WORDS = "Array(uint32, 1, 'C', readonly=True, aligned=False)"


def murmur2(key: bytes) -> int:
    """Return the murmur2 hash of one key, from 0 to 2**32 - 1, as Kafka's Java client computes it.

    Java prints the same 32 bits as a signed int.

    >>> murmur2(b"foobar") - 2**32
    -790332482
    """
    h = _SEED ^ len(key)
    whole = len(key) // 4
    for word in struct.unpack_from(f"<{whole}I", key):
        k = word * _M & _MASK
        k ^= k >> 24
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    tail = key[whole * 4 :]
    if tail:
        h = ((h ^ int.from_bytes(tail, "little")) * _M) & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ h >> 15


def _words_and_tail(rows: UInt8Array) -> tuple[UInt32Array, UInt32Array]:
    """Split keys of equal length into 4-byte words and the bytes after the last whole word.

    murmur2 reads a key in these two parts. ``rows`` has one key in each row (uint8[n, length]).

    Returns:
        uint32[words, n], and the last one to three bytes of each key as uint32[n].
    """
    count, length = rows.shape
    whole = length // 4
    head = np.ascontiguousarray(rows[:, : whole * 4]).view("<u4").reshape(count, whole)
    words = np.array(head.T, np.uint32, order="C")  # always a copy: aligned, writable
    left = length % 4
    if not left:
        return words, np.zeros(0, np.uint32)
    tail = rows[:, whole * 4].astype(np.uint32)
    for i in range(1, left):
        tail |= rows[:, whole * 4 + i].astype(np.uint32) << np.uint32(8 * i)
    return words, tail


def _of_rows(rows: UInt8Array) -> UInt32Array:
    words, tail = _words_and_tail(rows)
    m = np.uint32(_M)
    h = np.full(len(rows), (_SEED ^ rows.shape[1]) & _MASK, np.uint32)
    for word in words:
        k = word * m
        k ^= k >> np.uint32(24)
        k *= m
        h *= m
        h ^= k
    if len(tail):
        h ^= tail
        h *= m
    h ^= h >> np.uint32(13)
    h *= m
    h ^= h >> np.uint32(15)
    return h


@kernel("void(uint32[:,::1], uint32[::1], int64, uint32[::1])")
def _hash_lanes(words: UInt32Array, tail: UInt32Array, length: int, out: UInt32Array) -> None:
    # words[w, i] is word w of key i.
    count = len(out)
    seed = (0x9747B28C ^ length) & 0xFFFFFFFF
    for i in range(count):
        out[i] = seed
    for w in range(length // 4):
        for i in range(count):
            k = (words[w, i] * 0x5BD1E995) & 0xFFFFFFFF
            k ^= k >> 24
            k = (k * 0x5BD1E995) & 0xFFFFFFFF
            out[i] = ((out[i] * 0x5BD1E995) & 0xFFFFFFFF) ^ k
    if len(tail) > 0:
        for i in range(count):
            out[i] = ((out[i] ^ tail[i]) * 0x5BD1E995) & 0xFFFFFFFF
    for i in range(count):
        h = out[i]
        h ^= h >> 13
        h = (h * 0x5BD1E995) & 0xFFFFFFFF
        out[i] = h ^ (h >> 15)


@kernel_helper
def _mix_word(word: int) -> int:
    k: int = (word * 0x5BD1E995) & 0xFFFFFFFF
    return ((k ^ (k >> 24)) * 0x5BD1E995) & 0xFFFFFFFF


@kernel_helper
def _finalize(h: int) -> int:
    h = ((h ^ (h >> 13)) * 0x5BD1E995) & 0xFFFFFFFF
    return h ^ (h >> 15)


@kernel(f"void({_WORDS}, uint32[::1])")
def _of_16_bytes(words: UInt32Array, out: UInt32Array) -> None:
    # An unrolled loop is vectorised.
    for i in range(len(out)):
        a = _mix_word(words[4 * i])
        b = _mix_word(words[4 * i + 1])
        c = _mix_word(words[4 * i + 2])
        d = _mix_word(words[4 * i + 3])
        h = (((0x9747B28C ^ 16) * 0x5BD1E995) & 0xFFFFFFFF) ^ a
        h = ((h * 0x5BD1E995) & 0xFFFFFFFF) ^ b
        h = ((h * 0x5BD1E995) & 0xFFFFFFFF) ^ c
        h = ((h * 0x5BD1E995) & 0xFFFFFFFF) ^ d
        out[i] = _finalize(h)


@kernel(f"void({_WORDS}, int64, uint32[::1], uint32[::1])")
def _hash_word_keys(words: UInt32Array, width: int, mixed: UInt32Array, out: UInt32Array) -> None:
    """Compute the murmur2 hash of record keys of equal length, if that is a multiple of four bytes.

    Such keys have no incomplete last word, so they are hashed faster.

    Args:
        words: uint32, the keys as 4-byte words, one key after the other.
        width: number of words of each key.
        mixed: buffer with room for at least four keys.
        out: receives the hash of each key.
    """
    # Two of three multiplications of a word do not depend on earlier words: they are done for many
    # keys first, in parallel, into ``mixed``. The third depends on the previous word, so four keys
    # are interleaved.
    top = 0x7FFFFFFFFFFFFFFF
    count = len(out)
    seed = (0x9747B28C ^ (4 * width)) & 0xFFFFFFFF
    at_once = (len(mixed) // width) & ~3
    done = 0
    while done < count:
        some = min(at_once, count - done)
        first = (done * width) & top
        for j in range(some * width):
            mixed[j] = _mix_word(words[first + j])
        i = 0
        while i < some:
            # Fewer than four are left: the last one is done again in place of those not there.
            b = min(i + 1, some - 1)
            c = min(i + 2, some - 1)
            d = min(i + 3, some - 1)
            ha = seed
            hb = seed
            hc = seed
            hd = seed
            for w in range(width):
                ha = ((ha * 0x5BD1E995) & 0xFFFFFFFF) ^ mixed[(i * width + w) & top]
                hb = ((hb * 0x5BD1E995) & 0xFFFFFFFF) ^ mixed[(b * width + w) & top]
                hc = ((hc * 0x5BD1E995) & 0xFFFFFFFF) ^ mixed[(c * width + w) & top]
                hd = ((hd * 0x5BD1E995) & 0xFFFFFFFF) ^ mixed[(d * width + w) & top]
            out[(done + i) & top] = _finalize(ha)
            out[(done + b) & top] = _finalize(hb)
            out[(done + c) & top] = _finalize(hc)
            out[(done + d) & top] = _finalize(hd)
            i += 4
        done += some


def _lane_kernel(length: int) -> Kernel | None:
    # None if a loop key by key is faster.
    if length == 16:
        return _of_16_bytes
    if length % 4 == 0 and 0 < length <= _BUFFER_WORDS:
        return _hash_word_keys
    return _hash_lanes if length <= LONGEST_IN_LANES else None


def _by_lanes(rows: UInt8Array, out: UInt32Array) -> None:
    length = rows.shape[1]
    chosen = _lane_kernel(length)
    if chosen is _hash_lanes:
        words, tail = _words_and_tail(rows)
        _hash_lanes(words, tail, length, out, work=rows.size)
        return
    words = rows.reshape(-1).view("<u4")
    if chosen is _of_16_bytes:
        _of_16_bytes(words, out, work=rows.size)
    else:
        _hash_word_keys(words, length // 4, np.empty(_BUFFER_WORDS, np.uint32), out, work=rows.size)


@kernel_helper
def _mix_word_at(h: int, data: UInt8Array, at: int) -> int:
    k: int = data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24
    k = (k * 0x5BD1E995) & 0xFFFFFFFF
    k = ((k ^ (k >> 24)) * 0x5BD1E995) & 0xFFFFFFFF
    return ((h * 0x5BD1E995) & 0xFFFFFFFF) ^ k


@kernel_helper
def _finish_key(h: int, data: UInt8Array, position: int, end: int) -> int:
    """Finish the murmur2 hash of a record key whose first bytes are already hashed.

    The remaining bytes are hashed, then the bits are mixed into the final value.

    Args:
        h: hash of the key's first bytes.
        data: bytes of all keys.
        position: index of the first byte that is not yet hashed.
        end: index after the key's last byte.
    """
    last = position + ((end - position) & ~3)
    while position < last:
        h = _mix_word_at(h, data, position)
        position += 4
    left = end - position
    if left > 0:
        if left == 3:
            h ^= data[position + 2] << 16
        if left >= 2:
            h ^= data[position + 1] << 8
        h = ((h ^ data[position]) * 0x5BD1E995) & 0xFFFFFFFF
    h ^= h >> 13
    h = (h * 0x5BD1E995) & 0xFFFFFFFF
    return h ^ (h >> 15)


@kernel("void(Array(uint8, 1, 'C', readonly=True), int64[::1], uint32[::1])")
def _each(data: UInt8Array, starts: Int64Array, out: UInt32Array) -> None:
    # Long keys are interleaved four at a time.
    # An index that is masked by this is never negative, and the compiler need not look.
    top = 0x7FFFFFFFFFFFFFFF
    count = len(out)
    done = 0
    # From this mean length on, four keys at a time hide the wait for each multiplication.
    if starts[count] - starts[0] >= 48 * count:
        while done + 4 <= count:
            a = starts[done] & top
            b = starts[done + 1] & top
            c = starts[done + 2] & top
            d = starts[done + 3] & top
            end = starts[done + 4] & top
            together = min(b - a, c - b, d - c, end - d) & ~3
            ha = (0x9747B28C ^ (b - a)) & 0xFFFFFFFF
            hb = (0x9747B28C ^ (c - b)) & 0xFFFFFFFF
            hc = (0x9747B28C ^ (d - c)) & 0xFFFFFFFF
            hd = (0x9747B28C ^ (end - d)) & 0xFFFFFFFF
            for w in range(0, together, 4):
                ha = _mix_word_at(ha, data, a + w)
                hb = _mix_word_at(hb, data, b + w)
                hc = _mix_word_at(hc, data, c + w)
                hd = _mix_word_at(hd, data, d + w)
            out[done] = _finish_key(ha, data, a + together, b)
            out[done + 1] = _finish_key(hb, data, b + together, c)
            out[done + 2] = _finish_key(hc, data, c + together, d)
            out[done + 3] = _finish_key(hd, data, d + together, end)
            done += 4
    for i in range(done, count):
        a = starts[i] & top
        b = starts[i + 1] & top
        out[i] = _finish_key((0x9747B28C ^ (b - a)) & 0xFFFFFFFF, data, a, b)


MURMUR2 = Hash("murmur2", murmur2, _of_rows, _by_lanes, _lane_kernel, _each)
