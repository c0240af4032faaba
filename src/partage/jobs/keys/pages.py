"""Keys of a Parquet file page by page, without a column of them being made first.

For what is common and was compared with pyarrow: one column of text or bytes at the top, pages of
Arrow's or parquet-mr's (Spark's) writers, plain or by dictionary, snappy, zstd or none. A chunk is
looked at as a whole before anything of it is counted: all its heads, levels and lengths. Whatever
is odd there has pyarrow read the chunk instead, and say what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.jobs.keys.thrift import ThriftError, struct, varint
from partage.keys.columns import LONGEST_KEY
from partage.keys.paged import numbers, ones, walked

if TYPE_CHECKING:
    from partage.jobs.keys.sources import Piece

__all__ = ["Chunk", "Keys", "chunk_of", "keys_of"]

_Longs = NDArray[np.int64]
_Bytes = NDArray[np.uint8]

#: Those whose unpacked size can be proved: snappy tells it first, zstd refuses another one.
_CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd"}
_WRITERS = ("parquet-cpp-arrow version ", "parquet-mr version ")
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8
#: A longer chunk, or one of more records, is not held at once, and so not read here.
_LONGEST_CHUNK, _MOST_ROWS = 256 << 20, 1 << 24
#: Of each thread the memory of the chunk that it reads; one at a time.
_HERE = local()
#: Steps of a kernel for a key.
_STEPS = 10


class Chunk(NamedTuple):
    """Where the keys of a row group stand.

    Attributes:
        first: byte of the file.
        size: bytes.
        unpacked: bytes of all pages, unpacked.
        codec: pyarrow's name of it; None for none.
        levels: highest definition level, 0 or 1; below it a value is null.
        nulls: as the footer tells; None where it does not.
    """

    first: int
    size: int
    unpacked: int
    codec: str | None
    levels: int
    nulls: int | None


class Keys(NamedTuple):
    """Keys of a page, for `partage.keys.distinct.Distinct.count` with a gap of `GAP`.

    Attributes:
        data: uint8, the page.
        starts: int64[n + 1].
        times: int64[n], records of each; None for one.
        nulls: records without a key.
    """

    data: _Bytes
    starts: _Longs
    times: _Longs | None
    nulls: int


@dataclass(frozen=True, slots=True)
class _Page:
    kind: int
    at: int
    size: int
    unpacked: int
    values: int
    encoding: int
    nulls: int | None = None
    levels: int = 0
    packed: bool = True


def chunk_of(whole: Any, group: Any, number: int) -> Chunk | None:
    """A column's chunk of a row group, by pyarrow's metadata; None where it is not read here."""
    chunk, column = group.column(number), whole.schema.column(number)
    offsets = [o for o in (chunk.data_page_offset, chunk.dictionary_page_offset) if o]
    plain = (
        str(whole.created_by).startswith(_WRITERS)
        and chunk.physical_type == "BYTE_ARRAY"
        and column.max_repetition_level == 0
        and column.max_definition_level <= 1
        and column.path == column.name
        and chunk.compression in _CODECS
        and 0 < chunk.total_compressed_size <= _LONGEST_CHUNK
        and 0 < chunk.total_uncompressed_size <= _LONGEST_CHUNK
        and chunk.num_values == group.num_rows <= _MOST_ROWS
        and not chunk.file_path
        and offsets
    )
    if not plain:
        return None
    told = chunk.statistics
    nulls = told.null_count if told is not None and told.has_null_count else None
    sizes = chunk.total_compressed_size, chunk.total_uncompressed_size
    codec = _CODECS[chunk.compression]
    return Chunk(min(offsets), *sizes, codec, column.max_definition_level, nulls)


def keys_of(piece: Piece) -> list[Keys] | None:
    """The keys of a row group, page by page; None where pyarrow has to read it."""
    chunk: Chunk | None = piece.chunk
    if chunk is None:
        return None
    try:
        with open(piece.path, "rb") as file:  # noqa: PTH123 - a path as it was told, and often
            file.seek(chunk.first)
            raw = _room(chunk.size)
            if file.readinto(raw.data) != chunk.size:
                return None
        found = list(_keys(raw, chunk, list(_pages(raw, chunk)), _STEPS * piece.rows))
    except (ThriftError, OSError):
        return None
    nulls = sum(keys.nulls for keys in found)
    records = sum(len(k.starts) - 1 if k.times is None else int(k.times.sum()) for k in found)
    if records + nulls != piece.rows or chunk.nulls not in {None, nulls}:
        return None
    return found


def _room(size: int) -> _Bytes:
    """Bytes for a chunk: the last one's, since new memory costs as much as to read into it."""
    had: _Bytes | None = getattr(_HERE, "room", None)
    if had is None or len(had) < size:
        _HERE.room = had = np.empty(size + size // 4, np.uint8)
    return had[:size]


def _pages(raw: _Bytes, chunk: Chunk) -> Iterator[_Page]:
    """The heads of all pages.

    Raises:
        ThriftError: one is damaged, or of a kind that is not read here.
    """
    at = 0
    first = True
    while at < len(raw):
        head, at = struct(raw.data, at)
        page = _page(head, at, chunk)
        if page.kind == _DICTIONARY and not first:
            raise ThriftError("a dictionary behind other pages")
        first = False
        at += page.size
        if at > len(raw):
            raise ThriftError("a page beyond the chunk")
        yield page


def _page(head: dict[int, Any], at: int, chunk: Chunk) -> _Page:
    kind, unpacked, size = (_number(head.get(i)) for i in (1, 2, 3))
    if unpacked > chunk.unpacked:
        raise ThriftError("a page larger than all of them")
    inside = head.get({_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}.get(kind, -1))
    if not isinstance(inside, dict):
        raise ThriftError(f"a page of kind {kind}")
    values = _number(inside.get(1))
    if kind == _DICTIONARY:
        encoding = _number(inside.get(2))
        if encoding not in {_PLAIN, _PLAIN_DICTIONARY}:
            raise ThriftError(f"a dictionary in encoding {encoding}")
        return _Page(kind, at, size, unpacked, values, encoding)
    encoding = _number(inside.get(2 if kind == _DATA else 4))
    if encoding not in {_PLAIN, _PLAIN_DICTIONARY, _RLE_DICTIONARY}:
        raise ThriftError(f"a page in encoding {encoding}")
    if kind == _DATA:
        if chunk.levels and _number(inside.get(3)) != _RLE:
            raise ThriftError("levels in an encoding of old")
        return _Page(kind, at, size, unpacked, values, encoding)
    nulls, levels = _number(inside.get(2)), _number(inside.get(5)) + _number(inside.get(6))
    if nulls > values or levels > min(size, unpacked):
        raise ThriftError("levels beyond the page")
    packed = bool(inside.get(7, True))
    if _number(inside.get(6)):
        raise ThriftError("levels of lists")
    return _Page(kind, at, size, unpacked, values, encoding, nulls, levels, packed)


def _number(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ThriftError("a number that is none")
    return value


def _keys(raw: _Bytes, chunk: Chunk, pages: list[_Page], work: int) -> Iterator[Keys]:
    """Of all pages.

    Raises:
        ThriftError: something is odd.
    """
    if sum(page.unpacked for page in pages) > chunk.unpacked:
        raise ThriftError("pages larger than their chunk")
    data: _Bytes = raw[:0]
    starts: _Longs = np.zeros(1, np.int64)
    times: _Longs | None = None
    nulls = 0
    for page in pages:
        body = _unpacked(raw, chunk, page)
        if page.kind == _DICTIONARY:
            data, starts = body, _walked(body, 0, page.values, work)
            times = np.zeros(page.values, np.int64)
            continue
        first, stored = _stored(body, chunk, page, work)
        if page.encoding == _PLAIN:
            yield Keys(body, _walked(body, first, stored, work), None, page.values - stored)
            continue
        if times is None:
            raise ThriftError("no dictionary")
        codes = _codes(body, first, stored, work)
        if len(codes) and int(codes.max()) >= len(times):
            raise ThriftError("a number beyond the dictionary")
        times += np.bincount(codes, minlength=len(times))
        nulls += page.values - stored
    if times is not None:
        yield Keys(data, starts, times, nulls)


def _unpacked(raw: _Bytes, chunk: Chunk, page: _Page) -> _Bytes:
    """The page's bytes; levels of a page of the second version stand before what is packed."""
    import pyarrow as pa

    whole = raw[page.at : page.at + page.size]
    if chunk.codec is None or not page.packed:
        if page.size != page.unpacked:
            raise ThriftError("a page of another size")
        return whole
    size = page.unpacked - page.levels
    packed = whole[page.levels :]
    # A codec of pyarrow's hands back as many bytes as one asks for, whatever came.
    if chunk.codec == "snappy" and varint(packed.data, 0)[0] != size:
        raise ThriftError("a page of another size")
    try:
        body = pa.Codec(chunk.codec).decompress(pa.py_buffer(packed), size)
    except pa.ArrowException as e:
        raise ThriftError(str(e)) from None
    found: _Bytes = np.frombuffer(body, np.uint8)
    return np.concatenate([whole[: page.levels], found]) if page.levels else found


def _stored(body: _Bytes, chunk: Chunk, page: _Page, work: int) -> tuple[int, int]:
    """Where a page's values begin, and how many there are: as its levels tell."""
    first, size = 0, page.levels
    if page.kind == _DATA and chunk.levels:
        first = 4
        size = int.from_bytes(body[:4].tobytes(), "little") if len(body) >= 4 else len(body)
    if first + size > len(body):
        raise ThriftError("levels beyond the page")
    stored: int | None = page.values
    if chunk.levels:
        stored = ones(body, (first, first + size), page.values, work=work)
    if stored is None or page.nulls not in {None, page.values - stored}:
        raise ThriftError("levels that are none")
    return first + size, stored


def _codes(body: _Bytes, first: int, stored: int, work: int) -> _Longs:
    if not stored:
        return np.zeros(0, np.int64)
    found = None
    if first < len(body):
        found = numbers(body, (first + 1, len(body)), int(body[first]), stored, work=work)
    if found is None:
        raise ThriftError("numbers that are none")
    return found


def _walked(body: _Bytes, first: int, count: int, work: int) -> _Longs:
    found = walked(body, first, count, LONGEST_KEY, work=work)
    if found is None:
        raise ThriftError("other lengths than the page has")
    return found
