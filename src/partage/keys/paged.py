"""Kernels over the pages of Parquet: keys that stand there one behind the other, with lengths.

pyarrow makes columns of them first; to count them where they stand takes half the time. What is
read is foreign: every length is checked before what it leads to.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.kernels import kernel

__all__ = ["GAP", "numbers", "walked"]

_Longs = NDArray[np.int64]
_Bytes = NDArray[np.uint8]

#: Bytes of a length, which stands before each key.
GAP = 4


@kernel("int64(Array(uint8, 1, 'C', readonly=True), int64, int64, int64, int64[::1])")
def _walked(data: _Bytes, at: int, end: int, longest: int, starts: _Longs) -> int:
    """Where each key of `PLAIN` values starts; how many, or below 0: damaged, or -2 - a length.

    Args:
        data: uint8, a page.
        at: where the first length stands.
        end: where the values end, within the page.
        longest: bytes that a key may have.
        starts: int64, one more than there are keys; the last is where another key would start.
    """
    top = 0x7FFFFFFFFFFFFFFF
    found: int = 0
    while at < end:
        if at + 4 > end or found + 1 >= len(starts):
            return -1
        length: int = data[at & top] & 0xFF
        length |= (data[(at + 1) & top] & 0xFF) << 8
        length |= (data[(at + 2) & top] & 0xFF) << 16
        length |= (data[(at + 3) & top] & 0xFF) << 24
        at += 4
        if length > end - at:
            return -1
        if length > longest:
            return -2 - length
        starts[found & top] = at
        found += 1
        at += length
    starts[found & top] = at + 4
    return found


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


def walked(
    data: _Bytes, span: tuple[int, int], most: int, longest: int, *, work: int
) -> _Longs | int:
    """int64[n + 1]: where each key of `PLAIN` values starts, and where one more would.

    Args:
        data: uint8, a page.
        span: where the values begin and end.
        most: how many there are at most.
        longest: bytes that a key may have.
        work: steps of this call and those before it.

    Returns:
        The starts; or the length of a key that is too long; or -1 where the page is damaged.

    >>> page = np.frombuffer(bytes([2, 0, 0, 0, 97, 98, 0, 0, 0, 0]), np.uint8)
    >>> walked(page, (0, 10), 2, 100, work=1).tolist()
    [4, 10, 14]
    """
    at, end = span
    starts = np.empty(min(most, (end - at) // GAP) + 1, np.int64)
    found = int(_walked(data, at, end, longest, starts, work=work))
    if found < -1:
        return -2 - found
    return starts[: found + 1] if found >= 0 else -1


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
