"""The records of a batch, and the markers of transactions in control batches.

A record, as in Kafka 4.3.1 ``DefaultRecord``: varint length | attributes int8 | varlong timestamp
delta | varint offset delta | varint key length (-1 = null), key | varint value length, value
| varint headers; each header: varint length, key | varint length, value. Varints are zigzag.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from partage.errors import WireFormatError
from partage.wire.batches import Batch
from partage.wire.errors import LengthError, TruncatedError

__all__ = ["CONTROL_TYPES", "LogRecord", "Marker", "marker_of", "records_of"]

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
    """A record with its absolute offset and time. Headers are checked and left out."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Marker:
    """What a control batch says.

    Attributes:
        type: a name of `CONTROL_TYPES`; UNKNOWN for a type from the future.
        coordinator_epoch: of the transaction coordinator that wrote it; None for other types.
        value: the control record's value.
    """

    type: str
    coordinator_epoch: int | None
    value: bytes


def records_of(batch: Batch, data: bytes | None = None) -> Iterator[LogRecord]:
    """The records of a batch, in the order of the log.

    Args:
        batch: not a control batch, or one whose single record is wanted.
        data: the payload decompressed; None where it is not compressed.

    Raises:
        TruncatedError: the payload ends within a record.
        LengthError: a length cannot be, or bytes are left over after the last record.
    """
    payload = batch.payload if data is None else data
    position, end = 0, len(payload)
    base, base_ms = batch.base_offset, batch.base_timestamp_ms
    fixed = batch.max_timestamp_ms if batch.append_time else None
    span = batch.last_offset - base
    for number in range(batch.records):
        at = position
        try:
            length, position = _varint(payload, position, end, _VARINT_BITS)
            if not 0 <= length <= end - position:
                raise _length(f"record of {length} bytes, {end - position} left", at)
            stop = position + length
            ms, delta, key, value = _record(payload, position, stop)
        except WireFormatError as error:
            error.field = f"batch.records[{number}]"
            raise
        if not 0 <= delta <= span:
            raise _length(f"offset delta {delta} in a batch of {span + 1} offsets", at, number)
        position = stop
        yield LogRecord(base + delta, base_ms + ms if fixed is None else fixed, key, value)
    if position != end:
        raise _length(f"{end - position} bytes after the last record", position, batch.records)


def _record(data: bytes, position: int, stop: int) -> tuple[int, int, bytes | None, bytes | None]:
    """Time delta, offset delta, key and value of the record whose body ends at ``stop``."""
    ms, position = _varint(data, position + 1, stop, _VARLONG_BITS)
    delta, position = _varint(data, position, stop, _VARINT_BITS)
    key, position = _bytes(data, position, stop)
    value, position = _bytes(data, position, stop)
    headers, position = _varint(data, position, stop, _VARINT_BITS)
    # A header has at least two bytes, so that the count is bounded before anybody walks it.
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


def _varint(data: bytes, position: int, end: int, most_bits: int) -> tuple[int, int]:
    """A zigzag varint and the place behind it. One byte is by far the most common."""
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
    length, position = _varint(data, position, stop, _VARINT_BITS)
    if length < 0:
        return None, position
    if length > stop - position:
        raise _length(f"length {length}, but {stop - position} bytes left", position)
    return data[position : position + length], position + length


def _length(what: str, offset: int, number: int | None = None) -> LengthError:
    field = "" if number is None else f"batch.records[{number}]"
    return LengthError(what, offset=offset, field=field)


def marker_of(batch: Batch, data: bytes | None = None) -> Marker:
    """What a control batch says; it has one record.

    Key: version int16, type int16. Value of a transaction's marker: version int16, coordinator
    epoch int32. (Kafka 4.3.1: ``ControlRecordType``, ``EndTransactionMarker``.)

    Raises:
        TruncatedError: key or value is too short.
        LengthError: as `records_of`, or there is no record.
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
