"""Kernels over the pages of Parquet: keys that stand there one behind the other, with lengths.

pyarrow makes columns of them first; to count them where they stand takes half the time. What is
read is foreign: every length is checked before what it leads to.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.kernels import kernel

__all__ = ["GAP", "numbers", "ones", "walked"]

_Longs = NDArray[np.int64]
_Bytes = NDArray[np.uint8]

#: Bytes of a length, which stands before each key.
GAP = 4


@kernel("int64(Array(uint8, 1, 'C', readonly=True), int64, int64, int64, int64[::1])")
def _walked(data: _Bytes, at: int, end: int, longest: int, starts: _Longs) -> int:
    """Where each key of `PLAIN` values starts; 0, or -1 where anything is odd.

    Args:
        data: uint8, a page.
        at: where the first length stands.
        end: where the values end, within the page.
        longest: bytes that a key may have.
        starts: int64, one more than there are keys; the last is where another key would start.
    """
    top = 0x7FFFFFFFFFFFFFFF
    for found in range(len(starts) - 1):
        if at + 4 > end:
            return -1
        length: int = data[at & top] & 0xFF
        length |= (data[(at + 1) & top] & 0xFF) << 8
        length |= (data[(at + 2) & top] & 0xFF) << 16
        length |= (data[(at + 3) & top] & 0xFF) << 24
        at += 4
        if length > end - at or length > longest:
            return -1
        starts[found] = at
        at += length
    starts[len(starts) - 1] = at + 4
    return 0 if at == end else -1


@kernel("int64(Array(uint8, 1, 'C', readonly=True), int64, int64, int64)")
def _ones(data: _Bytes, at: int, end: int, count: int) -> int:
    """How many of so many numbers of one bit are 1, in runs and packed groups; -1: odd.

    Args:
        data: uint8, a page.
        at: where they begin.
        end: where they end, within the page.
        count: how many there must be.
    """
    top = 0x7FFFFFFFFFFFFFFF
    done = 0
    ones = 0
    while done < count:
        head = 0
        shift = 0
        more = 1
        while more != 0:
            if at >= end or shift > 28:
                return -1
            byte = data[at & top] & 0xFF
            at += 1
            head |= (byte & 0x7F) << shift
            shift += 7
            more = byte & 0x80
        length = head >> 1
        if length == 0 or at >= end:
            return -1
        if head & 1 == 0:
            value = data[at & top] & 0xFF
            at += 1
            if value > 1:
                return -1
            ones += value * min(length, count - done)
            done += length
            continue
        if length > end - at:
            return -1
        for i in range(length):
            byte = data[(at + i) & top] & 0xFF
            if count - done < 8:
                byte &= (1 << max(0, count - done)) - 1
            while byte != 0:
                ones += byte & 1
                byte >>= 1
            done += 8
        at += length
    return ones


@kernel("int64(Array(uint8, 1, 'C', readonly=True), int64, int64, int64, int64[::1])")
def _numbers(data: _Bytes, at: int, end: int, width: int, out: _Longs) -> int:
    """Numbers of ``width`` bits in Parquet's mixture of runs and packed groups; 0, or -1: damaged.

    Args:
        data: uint8, a page.
        at: where they begin.
        end: where they end at most, within the page.
        width: bits of a number, 0 to 31.
        out: int64, one for each number that must be there.
    """
    top = 0x7FFFFFFFFFFFFFFF
    count = len(out)
    done = 0
    mask = (1 << width) - 1
    while done < count:
        head = 0
        shift = 0
        more = 1
        while more != 0:
            if at >= end or shift > 28:
                return -1
            byte = data[at & top] & 0xFF
            at += 1
            head |= (byte & 0x7F) << shift
            shift += 7
            more = byte & 0x80
        if head & 1 == 0:
            run = head >> 1
            value = 0
            for i in range((width + 7) // 8):
                if at >= end:
                    return -1
                value |= (data[at & top] & 0xFF) << (8 * i)
                at += 1
            if run == 0:
                return -1
            stop = min(count, done + run)
            while done < stop:
                out[done & top] = value & mask
                done += 1
            continue
        groups = head >> 1
        if groups == 0 or groups * width > end - at:
            return -1
        stop = min(count, done + 8 * groups)
        held = 0
        bits = 0
        here = at
        while done < stop:
            while bits < width:
                held |= (data[here & top] & 0xFF) << bits
                here += 1
                bits += 8
            out[done & top] = held & mask
            held >>= width
            bits -= width
            done += 1
        at += groups * width
    return 0


def walked(data: _Bytes, first: int, count: int, longest: int, *, work: int) -> _Longs | None:
    """int64[count + 1]: where each key of a page's `PLAIN` values starts, and where one more would.

    None where there are not just so many, up to the page's end, or one is too long.

    Args:
        data: uint8, a page.
        first: where the values begin.
        count: how many there are.
        longest: bytes that a key may have.
        work: steps of this call and those before it.

    >>> page = np.frombuffer(bytes([2, 0, 0, 0, 97, 98, 0, 0, 0, 0]), np.uint8)
    >>> walked(page, 0, 2, 100, work=1).tolist()
    [4, 10, 14]
    """
    if count > (len(data) - first) // GAP:
        return None
    starts = np.empty(count + 1, np.int64)
    return starts if _walked(data, first, len(data), longest, starts, work=work) == 0 else None


def ones(data: _Bytes, span: tuple[int, int], count: int, *, work: int) -> int | None:
    """How many of so many levels of one bit are 1; None where they are not there.

    >>> ones(np.array([10, 1, 3, 0b101], np.uint8), (0, 4), 8, work=1)
    7
    """
    found = int(_ones(data, *span, count, work=work))
    return found if found >= 0 else None


def numbers(
    data: _Bytes, span: tuple[int, int], width: int, count: int, *, work: int
) -> _Longs | None:
    """int64[count]: numbers of so many bits, in runs and groups; None where the page is damaged.

    >>> numbers(np.array([3, 0b11100100, 0b11100100], np.uint8), (0, 3), 2, 8, work=1).tolist()
    [0, 1, 2, 3, 0, 1, 2, 3]
    """
    out = np.empty(count, np.int64)
    at, end = span
    if not 0 <= width < 32 or _numbers(data, at, end, width, out, work=work) < 0:
        return None
    return out
