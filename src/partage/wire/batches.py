"""Record batches (magic 2) as they stand in log segments and in Fetch responses.

Layout, as in Kafka 4.3.1 ``DefaultRecordBatch``: a header of 61 bytes, big-endian, then the
records, compressed together or not. The CRC-32C covers all bytes from the attributes on.

    baseOffset int64 | batchLength int32 (what follows it) | partitionLeaderEpoch int32 | magic int8
    | crc uint32 | attributes int16 | lastOffsetDelta int32 | baseTimestamp int64
    | maxTimestamp int64 | producerId int64 | producerEpoch int16 | baseSequence int32
    | recordsCount int32

Attributes: bits 0 to 2 compression, 3 append time, 4 transactional, 5 control, 6 delete horizon
(``baseTimestamp`` is then the horizon; the records' times count from it all the same).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from partage.errors import WireFormatError
from partage.wire.errors import LengthError, UnsupportedVersionError

__all__ = [
    "COMPRESSIONS",
    "HEADER_BYTES",
    "PREFIX_BYTES",
    "Batch",
    "ChecksumError",
    "OldMagicError",
    "batch_at",
    "batches_of",
    "end_of_batch",
]

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names by the number in the attributes."""

HEADER_BYTES: Final = 61
PREFIX_BYTES: Final = 12
"""Offset and length, which stand before what the length counts; in every magic."""

_HEADER = Struct(">qiibIhiqqqhii")
_PREFIX = Struct(">qi")
_MAGIC_AT = 16
_LAST_DELTA = Struct(">i")
_LAST_DELTA_AT = 23
_CRC_FROM = 21
# A record has at least so many bytes: length, attributes, three deltas, two lengths, headers.
_SMALLEST_RECORD = 7


class ChecksumError(WireFormatError):
    """The CRC-32C of a batch does not fit its bytes: they were damaged on the way or on disk."""


class OldMagicError(UnsupportedVersionError):
    """A message of magic 0 or 1, written before Kafka 0.11; ``size`` says how long it is.

    >>> OldMagicError(1, size=80).version
    1
    """

    def __init__(self, magic: int, *, size: int) -> None:
        what = "messages of magic 0 and 1 (before Kafka 0.11) are not read"
        super().__init__(what, offset=_MAGIC_AT, field="batch.magic", version=magic)
        self.size = size


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: its header, and the bytes of its records as they were stored.

    Attributes:
        base_offset, last_offset: offsets in the log, both inclusive.
        records: how many the header claims; fewer than the offsets span after compaction.
        size: bytes, the first twelve included.
        compression: one of `COMPRESSIONS`.
        append_time: whether all records carry ``max_timestamp_ms`` (LogAppendTime).
        base_timestamp_ms, max_timestamp_ms: -1 where there is none.
        producer_id, producer_epoch, base_sequence: -1 without an idempotent producer.
        payload: the records' bytes, compressed as ``compression`` says.
    """

    base_offset: int
    last_offset: int
    records: int
    size: int
    leader_epoch: int
    magic: int
    compression: str
    append_time: bool
    transactional: bool
    control: bool
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    payload: bytes


def batch_at(
    data: bytes | memoryview, position: int = 0, *, crc32c: Callable[[bytes], int] | None = None
) -> Batch | None:
    """The batch that begins at ``position``, None where it is not complete.

    A Fetch response and a copied segment may end within a batch: that is no error.

    Args:
        data: some of a log.
        position: where in it a batch begins.
        crc32c: what checks the CRC; None believes the bytes.

    Raises:
        LengthError: a length or count cannot be.
        OldMagicError: it is a message of magic 0 or 1.
        UnsupportedVersionError: its magic or its compression is one that Kafka does not have.
        ChecksumError: the CRC does not fit.

    >>> batch_at(b"") is None
    True
    """
    left = len(data) - position
    if left < _MAGIC_AT + 1:
        return None
    size = _PREFIX.unpack_from(data, position)[1] + PREFIX_BYTES
    magic = data[position + _MAGIC_AT]
    if magic != 2:
        raise _other_magic(magic, size)
    if size < HEADER_BYTES:
        raise LengthError(
            f"batch of {size} bytes, its header has {HEADER_BYTES}", offset=8, field="batch.length"
        )
    if size > left:
        return None
    return _batch(bytes(data[position : position + size]), crc32c)


def _other_magic(magic: int, size: int) -> UnsupportedVersionError:
    if magic in {0, 1} and size > _MAGIC_AT:
        return OldMagicError(magic, size=size)
    return UnsupportedVersionError(
        "no batch has this magic", offset=_MAGIC_AT, field="batch.magic", version=magic
    )


def _batch(data: bytes, crc32c: Callable[[bytes], int] | None) -> Batch:
    (
        base, _, leader_epoch, magic, crc, attributes, last_delta, base_ms, max_ms,
        producer_id, producer_epoch, base_sequence, records,
    ) = _HEADER.unpack_from(data)  # fmt: skip
    if crc32c is not None and crc32c(data[_CRC_FROM:]) != crc:
        what = f"the CRC-32C of the batch of offset {base} does not fit: its bytes are damaged"
        raise ChecksumError(what, offset=17, field="batch.crc")
    codec = attributes & 7
    if codec >= len(COMPRESSIONS):
        raise UnsupportedVersionError(
            f"compression {codec} is not known", offset=21, field="batch.attributes"
        )
    payload = data[HEADER_BYTES:]
    fits = codec or records * _SMALLEST_RECORD <= len(payload)
    if records < 0 or last_delta < 0 or records > last_delta + 1 or not fits:
        what = f"{records} records over {last_delta + 1} offsets in {len(payload)} bytes"
        raise LengthError(what, offset=57, field="batch.recordsCount")
    return Batch(
        base, base + last_delta, records, len(data), leader_epoch, magic, COMPRESSIONS[codec],
        bool(attributes & 8), bool(attributes & 16), bool(attributes & 32),
        base_ms, max_ms, producer_id, producer_epoch, base_sequence, payload,
    )  # fmt: skip


def batches_of(
    data: bytes | memoryview, *, crc32c: Callable[[bytes], int] | None = None
) -> Iterator[Batch]:
    """The complete batches of a Fetch response's records, one after the other.

    Raises:
        WireFormatError: as `batch_at`.

    >>> list(batches_of(b"too short"))
    []
    """
    position = 0
    while (batch := batch_at(data, position, crc32c=crc32c)) is not None:
        yield batch
        position += batch.size


def end_of_batch(data: bytes | memoryview, offset: int) -> int | None:
    """The offset behind the first batch that has not ended before ``offset``, damaged or not.

    It is told by the headers alone, so that what follows a damaged batch can be read. None where
    they cannot be true either.

    >>> end_of_batch(b"", 0) is None
    True
    """
    position = 0
    while len(data) - position >= HEADER_BYTES:
        base, length = _PREFIX.unpack_from(data, position)
        size = length + PREFIX_BYTES
        magic = data[position + _MAGIC_AT]
        if magic not in {0, 1, 2} or size <= _MAGIC_AT or base < 0:
            return None
        # A message of magic 0 or 1 is one record, or wraps some: its offset is the last one's.
        delta = _LAST_DELTA.unpack_from(data, position + _LAST_DELTA_AT)[0] if magic == 2 else 0
        if delta < 0 or base + delta >= 1 << 62:
            return None
        if base + delta >= offset:
            return int(base + delta + 1)
        position += size
    return None
