"""Record batches (magic 2) of log segments and Fetch responses: headers, records, markers.

A batch, as in Kafka 4.3.1 ``DefaultRecordBatch``: a header of 61 bytes, big-endian, then the
records, compressed together or not. The CRC-32C covers all bytes from the attributes on.

    baseOffset int64 | batchLength int32 (of what follows) | partitionLeaderEpoch int32 | magic int8
    | crc uint32 | attributes int16 | lastOffsetDelta int32 | baseTimestamp int64
    | maxTimestamp int64 | producerId int64 | producerEpoch int16 | baseSequence int32
    | recordsCount int32

Attributes: bits 0 to 2 compression, 3 append time, 4 transactional, 5 control, 6 delete horizon
(``baseTimestamp`` is then the horizon; the records' times still count from it).

A record, as in ``DefaultRecord``: varint length | attributes int8 | varlong timestamp delta
| varint offset delta | varint key length (-1 = null), key | varint value length, value
| varint headers; each header: varint length, key | varint length, value. Varints are zigzag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from partage.errors import WireFormatError
from partage.wire.errors import LengthError, TruncatedError, UnsupportedVersionError

__all__ = [
    "COMPRESSIONS",
    "CONTROL_TYPES",
    "HEADER_BYTES",
    "PREFIX_BYTES",
    "Batch",
    "ChecksumError",
    "LogRecord",
    "Marker",
    "OldMagicError",
    "batch_at",
    "batches_of",
    "marker_of",
    "offset_after_batch",
    "records_of",
]

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of compressions by their number in the attributes."""

HEADER_BYTES: Final = 61
PREFIX_BYTES: Final = 12
"""Bytes of offset and length, which the length does not count, in every magic."""

_HEADER = Struct(">qiibIhiqqqhii")
_PREFIX = Struct(">qi")
_MAGIC_AT = 16
_LAST_DELTA = Struct(">i")
_LAST_DELTA_AT = 23
_CRC_FROM = 21
# Bytes of the shortest record: length, attributes, two deltas, two lengths, count of headers.
_SMALLEST_RECORD = 7


class ChecksumError(WireFormatError):
    """Error for a damaged record batch: its bytes do not match its CRC-32C checksum."""


class OldMagicError(UnsupportedVersionError):
    """Error for a message in an old record format, from before Kafka 0.11 (magic 0 or 1).

    Partage does not decode this format. ``size`` is the message's number of bytes.

    >>> OldMagicError(1, size=80).version
    1
    """

    def __init__(self, magic: int, *, size: int) -> None:
        what = "messages of magic 0 and 1 (before Kafka 0.11) are not read"
        super().__init__(what, offset=_MAGIC_AT, field="batch.magic", version=magic)
        self.size = size


@dataclass(frozen=True, slots=True)
class Batch:
    """A record batch of the log (magic 2): its decoded header, and its records as stored bytes.

    `records_of` decodes the records.

    Attributes:
        base_offset, last_offset: offsets in the log, both inclusive.
        records: number of records; after compaction it is smaller than the range of offsets.
        size: bytes of the whole batch, including its first twelve (offset and length).
        leader_epoch: epoch of the partition's leader.
        magic: version of the batch format, 2.
        compression: one of `COMPRESSIONS`.
        append_time: whether all records have ``max_timestamp_ms`` as time (LogAppendTime).
        transactional: whether the records belong to a transaction.
        control: whether it is a control batch, with one marker.
        base_timestamp_ms, max_timestamp_ms: first and latest timestamp; -1 for none.
        producer_id, producer_epoch, base_sequence: identity of the producer; -1 if it is not
            idempotent.
        payload: the records' bytes, still compressed.
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
    """Parse the record batch at a position in a log's bytes; return None if it is incomplete.

    A Fetch response and a copied segment may end within a batch, so that is no error.

    Args:
        data: a part of a log.
        position: index in ``data`` of the batch's first byte.
        crc32c: function that computes the CRC-32C; None skips the check.

    Raises:
        LengthError: a length or count is impossible.
        OldMagicError: the bytes are a message of magic 0 or 1.
        UnsupportedVersionError: Kafka has no such magic or compression.
        ChecksumError: the CRC does not match.

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
    """Yield the complete record batches in a Fetch response or a log segment.

    ``crc32c`` is a function that computes the checksum of bytes; None skips the check. An
    incomplete batch at the end is ignored.

    Raises:
        WireFormatError: as `batch_at`.

    >>> list(batches_of(b"too short"))
    []
    """
    position = 0
    while (batch := batch_at(data, position, crc32c=crc32c)) is not None:
        yield batch
        position += batch.size


def offset_after_batch(data: bytes | memoryview, offset: int) -> int | None:
    """Return the offset at which a reader can continue after a damaged record batch.

    ``data`` is a part of the log, ``offset`` is an offset in the damaged batch. The result is that
    batch's last offset plus 1, read from its header. It is None if ``data`` lacks the batch or a
    header is damaged.

    >>> offset_after_batch(b"", 0) is None
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


# --- records ---------------------------------------------------------------------------------

CONTROL_TYPES: Final = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
"""Names of control records by the type in their key (Kafka's ``ControlRecordType``)."""

_VARINT_BITS, _VARLONG_BITS = 35, 70


class LogRecord(NamedTuple):
    """A record of a Kafka log, with its absolute offset and timestamp.

    Record headers are not decoded.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Marker:
    """A decoded control record of a log, such as the COMMIT or ABORT marker of a transaction.

    Consumers skip such records.

    Attributes:
        type: a name of `CONTROL_TYPES`; UNKNOWN for a type of a later version of Kafka.
        coordinator_epoch: epoch of the transaction coordinator; None for other types.
        value: the value of the control record.
    """

    type: str
    coordinator_epoch: int | None
    value: bytes


def records_of(batch: Batch, data: bytes | None = None) -> Iterator[LogRecord]:
    """Parse the records of a record batch and yield them in log order.

    Args:
        batch: header of the batch; a control batch has one record.
        data: the decompressed records; None if the batch is not compressed.

    Raises:
        TruncatedError: the payload ends within a record.
        LengthError: a length is impossible, or bytes follow the last record.
    """
    payload = batch.payload if data is None else data
    position, end = 0, len(payload)
    base, base_ms = batch.base_offset, batch.base_timestamp_ms
    fixed = batch.max_timestamp_ms if batch.append_time else None
    span = batch.last_offset - base
    for number in range(batch.records):
        at = position
        try:
            length, position = _decode_varint(payload, position, end, _VARINT_BITS)
            if not 0 <= length <= end - position:
                raise _length(f"record of {length} bytes, {end - position} left", at)
            stop = position + length
            ms, delta, key, value = _parse_record(payload, position, stop)
        except WireFormatError as error:
            error.field = f"batch.records[{number}]"
            raise
        if not 0 <= delta <= span:
            raise _length(f"offset delta {delta} in a batch of {span + 1} offsets", at, number)
        position = stop
        yield LogRecord(base + delta, base_ms + ms if fixed is None else fixed, key, value)
    if position != end:
        raise _length(f"{end - position} bytes after the last record", position, batch.records)


def _parse_record(
    data: bytes, position: int, stop: int
) -> tuple[int, int, bytes | None, bytes | None]:
    """Parse one record of a Kafka record batch.

    The record is at the bytes ``data[position:stop]``. The result is its timestamp and offset (both
    relative to the batch), its key and its value. Headers are checked but not returned.
    """
    ms, position = _decode_varint(data, position + 1, stop, _VARLONG_BITS)
    delta, position = _decode_varint(data, position, stop, _VARINT_BITS)
    key, position = _bytes(data, position, stop)
    value, position = _bytes(data, position, stop)
    headers, position = _decode_varint(data, position, stop, _VARINT_BITS)
    # A header has at least two bytes: the count is bounded before the loop.
    if not 0 <= headers <= (stop - position) // 2:
        raise _length(f"{headers} headers in {stop - position} bytes", position)
    for _ in range(headers):
        name, position = _bytes(data, position, stop)
        if name is None:
            raise _length("a header's key is null", position)
        _, position = _bytes(data, position, stop)
    if position != stop:
        raise _length(f"{stop - position} bytes after the record's headers", position)
    return ms, delta, key, value


def _decode_varint(data: bytes, position: int, end: int, most_bits: int) -> tuple[int, int]:
    """Decode a zigzag varint of a Kafka record; return its value and the index of the next byte.

    The bytes ``data[position:end]`` may be read. A varint of more than ``most_bits`` bits raises an
    error.
    """
    # A varint has at most ``most_bits // 7`` bytes; a longer one raises an error.
    if position < end:
        byte = data[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
    at, value, shift = position, 0, 0
    while True:
        if position >= end:
            raise TruncatedError("a varint goes on after the end", offset=at, field="")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= most_bits:
            raise _length(f"a varint of more than {most_bits // 7} bytes", at)
    return (value >> 1) ^ -(value & 1), position


def _bytes(data: bytes, position: int, stop: int) -> tuple[bytes | None, int]:
    length, position = _decode_varint(data, position, stop, _VARINT_BITS)
    if length < 0:
        return None, position
    if length > stop - position:
        raise _length(f"length {length}, but {stop - position} bytes left", position)
    return data[position : position + length], position + length


def _length(what: str, offset: int, number: int | None = None) -> LengthError:
    field = "" if number is None else f"batch.records[{number}]"
    return LengthError(what, offset=offset, field=field)


def marker_of(batch: Batch, data: bytes | None = None) -> Marker:
    """Parse the record of a control batch, such as the COMMIT or ABORT marker of a transaction.

    ``data`` are the decompressed records; None if the batch is not compressed. Key: version int16,
    type int16. Value of a transaction's marker: version int16, coordinator epoch int32. (Kafka
    4.3.1: ``ControlRecordType``, ``EndTransactionMarker``.)

    Raises:
        TruncatedError: key or value is too short.
        LengthError: as `records_of`, or the batch has no record.
    """
    first = next(records_of(batch, data), None)
    if first is None:
        raise _length("a control batch without a record", 0, 0)
    key, value = first.key or b"", first.value or b""
    if len(key) < 4:
        raise TruncatedError(f"4 bytes needed, {len(key)} left", offset=0, field="control.key")
    kind = CONTROL_TYPES.get(int.from_bytes(key[2:4], "big", signed=True), "UNKNOWN")
    if kind not in {"COMMIT", "ABORT"}:
        return Marker(kind, None, value)
    if len(value) < 6:
        raise TruncatedError(f"6 bytes needed, {len(value)} left", offset=0, field="control.value")
    return Marker(kind, int.from_bytes(value[2:6], "big", signed=True), value)
