"""Checksums and decompression of record batches.

gzip, lz4 (frames) and zstd are decompressed piece by piece, so that a few bytes that claim to be a
terabyte take no memory. gzip uses Python's zlib, because Arrow's reader does not end on some
damaged bytes. Snappy has two forms: a plain block, as librdkafka and the brokers write it, and
Java's stream of blocks behind a header (xerial).
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING, Any

from partage.errors import MissingExtraError, WireFormatError
from partage.wire.batches import Batch
from partage.wire.errors import LengthError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LARGEST_PAYLOAD", "crc32c_function", "decompress_batch"]

LARGEST_PAYLOAD = 1 << 28
"""Maximum decompressed bytes of a batch: 256 MiB. Kafka's default limit is 1 MiB compressed."""

#: Bytes of a gzip member that are read first; an empty member has 20.
_FIRST_SLICE = 512
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16


@cache
def crc32c_function() -> Callable[[bytes], int]:
    """Return a function that computes the CRC-32C checksum of bytes.

    Kafka's record batches have such a checksum.

    Raises:
        MissingExtraError: google-crc32c is not installed.
    """
    try:
        from google_crc32c import value
    except ImportError:
        raise MissingExtraError("google-crc32c", extra="capture") from None
    found: Callable[[bytes], int] = value
    return found


def decompress_batch(batch: Batch) -> bytes:
    """Decompress the records of a Kafka record batch, and return their bytes.

    All of Kafka's codecs are supported: gzip, Snappy, LZ4 and Zstandard.

    Raises:
        WireFormatError: the payload is damaged, or larger than `LARGEST_PAYLOAD`.
        MissingExtraError: pyarrow is not installed.
    """
    if batch.compression == "none":
        return batch.payload
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("pyarrow", extra="capture") from None
    try:
        if batch.compression == "snappy":
            return _decompress_snappy(batch.payload, pa)
        if batch.compression == "gzip":
            return _decompress_gzip(batch.payload)
        with pa.input_stream(pa.py_buffer(batch.payload), compression=batch.compression) as stream:
            return _read(stream, batch.compression)
    except (pa.ArrowException, OSError, ValueError) as e:
        raise _damaged(batch.compression, str(e)) from None


def _read(stream: Any, compression: str) -> bytes:
    # One mebibyte at a time.
    parts, total = [], 0
    while part := stream.read(1 << 20):
        total += len(part)
        if total > LARGEST_PAYLOAD:
            raise _too_large(compression)
        parts.append(part)
    return b"".join(parts)


def _decompress_gzip(data: bytes) -> bytes:
    """Decompress gzip data that may consist of several members (concatenated gzip streams).

    Java's ``GZIPInputStream`` accepts such data too.
    """
    # Input is passed in slices of doubling size. zlib copies the input after the end of a member,
    # which would take quadratic time for many small members.
    rest, position = memoryview(data), 0
    parts, room = [], LARGEST_PAYLOAD
    while position < len(data):
        member, size = zlib.decompressobj(wbits=31), _FIRST_SLICE
        while not member.eof:
            if position == len(data):
                raise _damaged("gzip", "it ends too early")
            try:
                parts.append(member.decompress(rest[position : position + size], room + 1))
            except zlib.error as e:
                raise _damaged("gzip", str(e)) from None
            room -= len(parts[-1])
            if room < 0:
                raise _too_large("gzip")
            position = min(position + size, len(data)) - len(member.unused_data)
            size *= 2
    return b"".join(parts)


def _decompress_snappy(data: bytes, pa: Any) -> bytes:
    # Made once: a stream of a mebibyte may have 200,000 blocks.
    codec = pa.Codec("snappy")
    if not data.startswith(_XERIAL):
        return _decompress_snappy_block(data, LARGEST_PAYLOAD, codec)
    position, parts, room = _XERIAL_HEADER, [], LARGEST_PAYLOAD
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if not 0 <= length <= len(data) - position:
            left = max(0, len(data) - position)
            raise _damaged("snappy", f"block of {length} bytes, {left} left")
        parts.append(_decompress_snappy_block(data[position : position + length], room, codec))
        room -= len(parts[-1])
        position += length
    return b"".join(parts)


def _decompress_snappy_block(data: bytes, most_bytes: int, codec: Any) -> bytes:
    """Decompress one raw block of snappy data.

    The size in its header is checked first, so that damaged data take no memory.

    Args:
        data: the compressed block.
        most_bytes: greatest size of the result.
        codec: Arrow's snappy codec.
    """
    # The size is also checked against the ratio that snappy can reach.
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise _damaged("snappy", "no length")
    if size > most_bytes:
        raise _too_large("snappy")
    if size > 22 * len(data):  # a copy of 64 bytes takes three
        raise _damaged("snappy", f"{len(data)} bytes cannot be {size} unpacked")
    found: bytes = codec.decompress(data, decompressed_size=size, asbytes=True)
    return found


def _damaged(compression: str, why: str) -> WireFormatError:
    said = why.strip().splitlines()[0][:200] if why.strip() else "no reason given"
    return WireFormatError(f"not {compression}: {said}", offset=61, field="batch.payload")


def _too_large(compression: str) -> LengthError:
    what = f"more than {LARGEST_PAYLOAD} bytes when unpacked ({compression})"
    return LengthError(what, offset=61, field="batch.payload")
