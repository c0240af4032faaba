"""Keys of a Parquet file page by page, without a column of them being made first.

For the commonest case, one column of text or bytes that is not in lists; all else is pyarrow's,
which also reads the footer and unpacks pages. The heads of a chunk's pages are looked at before
anything of it is counted: what is not understood there is read in the other way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, InvalidKeysError
from partage.keys.columns import LONGEST_KEY
from partage.keys.paged import numbers, walked
from partage.pipeline.thrift import ThriftError, struct

if TYPE_CHECKING:
    from partage.pipeline.key_sources import Piece

__all__ = ["Chunk", "Keys", "chunk_of", "keys_of"]

_Longs = NDArray[np.int64]
_Bytes = NDArray[np.uint8]

#: Not LZ4: pyarrow calls two formats so, of which one has frames of Hadoop's.
_CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip",
           "BROTLI": "brotli"}  # fmt: skip
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8
#: A longer chunk is not read at once, and so not here.
_LONGEST_CHUNK = 256 << 20
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
        levels: highest definition level; below it a value is null.
    """

    first: int
    size: int
    unpacked: int
    codec: str | None
    levels: int


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


def chunk_of(group: Any, number: int, column: Any) -> Chunk | None:
    """A column's chunk of a row group, by pyarrow's metadata; None where it is not read here."""
    chunk = group.column(number)
    offsets = [o for o in (chunk.data_page_offset, chunk.dictionary_page_offset) if o]
    plain = (
        chunk.physical_type == "BYTE_ARRAY"
        and column.max_repetition_level == 0
        and chunk.compression in _CODECS
        and 0 < chunk.total_compressed_size <= _LONGEST_CHUNK
        and not chunk.file_path
    )
    if not plain:
        return None
    levels, codec = column.max_definition_level, _CODECS[chunk.compression]
    sizes = chunk.total_compressed_size, chunk.total_uncompressed_size
    return Chunk(min(offsets), *sizes, codec, levels)


def keys_of(piece: Piece) -> Iterator[Keys] | None:
    """The keys of a row group, page by page; None where pyarrow has to read it.

    Raises:
        InvalidConfigError: damaged pages, while they are read.
        InvalidKeysError: a key that no producer sends.
    """
    chunk: Chunk | None = piece.chunk
    if chunk is None:
        return None
    try:
        with open(piece.path, "rb") as file:  # noqa: PTH123 - a path as it was told, and often
            file.seek(chunk.first)
            raw = _room(chunk.size)
            if file.readinto(raw.data) != chunk.size:
                return None
    except OSError as e:
        raise InvalidConfigError("INPUT", f"cannot be read ({e})", piece.words) from None
    try:
        pages = list(_pages(raw, chunk))
    except ThriftError:
        return None
    if sum(page.values for page in pages if page.kind != _DICTIONARY) != piece.rows:
        return None
    return _keys(raw, chunk, pages, piece)


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
    return _Page(kind, at, size, unpacked, values, encoding, nulls, levels, packed)


def _number(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ThriftError("a number that is none")
    return value


def _keys(raw: _Bytes, chunk: Chunk, pages: list[_Page], piece: Piece) -> Iterator[Keys]:
    data: _Bytes = raw[:0]
    starts: _Longs = np.zeros(1, np.int64)
    times: _Longs | None = None
    work = _STEPS * piece.rows
    for page in pages:
        body = _unpacked(raw, chunk, page, piece)
        if page.kind == _DICTIONARY:
            data, starts = body, _walked(body, (0, len(body)), page.values, piece, work)
            times = np.zeros(len(starts) - 1, np.int64)
            continue
        first, stored = _stored(body, chunk, page, piece, work)
        if page.encoding == _PLAIN:
            found = _walked(body, (first, len(body)), page.values, piece, work)
            nulls = page.values - (len(found) - 1)
            if stored is not None and len(found) - 1 != stored:
                raise _damaged(piece, "other values than were told")
            yield Keys(body, found, None, nulls)
            continue
        if times is None or stored is None:
            raise _damaged(piece, "no dictionary")
        codes = _codes(body, first, stored, piece, work)
        if len(codes) and int(codes.max()) >= len(times):
            raise _damaged(piece, "a number beyond the dictionary")
        times += np.bincount(codes, minlength=len(times))
        yield Keys(data, starts[:1], None, page.values - stored)
    if times is not None:
        yield Keys(data, starts, times, 0)


def _unpacked(raw: _Bytes, chunk: Chunk, page: _Page, piece: Piece) -> _Bytes:
    """The page's bytes; levels of a page of the second version stand before what is packed."""
    import pyarrow as pa

    whole = raw[page.at : page.at + page.size]
    if chunk.codec is None or not page.packed:
        return whole
    size = page.unpacked - page.levels
    try:
        # Nothing is allocated but what the file's footer has room for: see `_page`.
        codec = pa.Codec(chunk.codec)
        body = codec.decompress(pa.py_buffer(whole[page.levels :]), size) if size else b""
    except (pa.ArrowException, OSError) as e:
        raise _damaged(piece, str(e)) from None
    found: _Bytes = np.frombuffer(body, np.uint8)
    return np.concatenate([whole[: page.levels], found]) if page.levels else found


def _stored(
    body: _Bytes, chunk: Chunk, page: _Page, piece: Piece, work: int
) -> tuple[int, int | None]:
    """Where a page's values begin, and how many there are; None where their bytes tell."""
    if page.kind == _DATA_2:
        return page.levels, page.values - (page.nulls or 0)
    if not chunk.levels:
        return 0, page.values
    size = int.from_bytes(body[:4].tobytes(), "little") if len(body) >= 4 else len(body)
    if size > len(body) - 4:
        raise _damaged(piece, "levels beyond the page")
    if page.encoding == _PLAIN:
        return 4 + size, None
    bits = chunk.levels.bit_length()
    levels = numbers(body, (4, 4 + size), bits, page.values, work=work)
    if levels is None:
        raise _damaged(piece, "levels that are none")
    return 4 + size, int((levels == chunk.levels).sum())


def _codes(body: _Bytes, first: int, stored: int, piece: Piece, work: int) -> _Longs:
    if not stored:
        return np.zeros(0, np.int64)
    found = None
    if first < len(body):
        found = numbers(body, (first + 1, len(body)), int(body[first]), stored, work=work)
    if found is None:
        raise _damaged(piece, "numbers that are none")
    return found


def _walked(body: _Bytes, span: tuple[int, int], most: int, piece: Piece, work: int) -> _Longs:
    found = walked(body, span, most, LONGEST_KEY, work=work)
    if not isinstance(found, int):
        return found
    if found < 0:
        raise _damaged(piece, "lengths beyond the page")
    told = (
        f"has a key of {found:,} bytes; a producer sends no more than {LONGEST_KEY:,} by default "
        "(max.request.size)"
    )
    raise InvalidKeysError(told, where=f"the key's column of {piece.words}")


def _damaged(piece: Piece, why: str) -> InvalidConfigError:
    return InvalidConfigError("INPUT", f"cannot be read (damaged page: {why})", piece.words)
