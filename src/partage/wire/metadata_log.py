"""Records of the metadata log ``__cluster_metadata``: value bytes to plain values; keys are null.

A value is: varint frame version (1) | varint API key | varint version | body. Kafka 4.3.1:
``AbstractApiMessageSerde``. Only records of brokers, topics and partitions are decoded; of all
others only the API key is read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from partage.wire.codec import decode
from partage.wire.errors import TruncatedError, UnsupportedVersionError
from partage.wire.messages import load_message
from partage.wire.primitives import ByteReader

__all__ = ["METADATA_RECORDS", "MetadataRecord", "decode_metadata_record"]

_FRAME_VERSION = 1

METADATA_RECORDS = {
    message.api_key: message
    for message in map(
        load_message,
        (
            "RegisterBrokerRecord", "UnregisterBrokerRecord", "TopicRecord", "PartitionRecord",
            "PartitionChangeRecord", "FenceBrokerRecord", "UnfenceBrokerRecord",
            "RemoveTopicRecord", "BrokerRegistrationChangeRecord", "BeginTransactionRecord",
            "EndTransactionRecord", "AbortTransactionRecord",
        ),
    )
}  # fmt: skip
"""Layouts of the decoded records by API key. The other records change nothing in a capture."""


class MetadataRecord(NamedTuple):
    """A decoded record of the KRaft metadata log ``__cluster_metadata``: type and fields.

    Only records of brokers, topics, partitions and transactions are decoded. Other records have an
    empty type and no fields.
    """

    type: str
    api_key: int
    version: int
    value: dict[str, Any]


def decode_metadata_record(value: bytes | None) -> MetadataRecord:
    r"""Decode the value of a record of the KRaft metadata log ``__cluster_metadata``.

    Raises:
        UnsupportedVersionError: Kafka 4.3.1 knows no such frame, or no such version of the record.
        WireFormatError: the bytes are damaged.

    >>> decode_metadata_record(b"\x01\x07\x00\x00\x00\x00\x02" + bytes(8) + b"\x00").value
    {'id': 2, 'epoch': 0}
    """
    if value is None:
        raise TruncatedError("the value is null", offset=0, field="value")
    reader = ByteReader(value)
    numbers = []
    for field in ("value.frameVersion", "value.apiKey", "value.version"):
        try:
            numbers.append(reader.read_varint())
        except TruncatedError as error:
            error.field = field
            raise
    frame, api_key, version = numbers
    if frame != _FRAME_VERSION:
        what = "only frames of version 1 are known"
        raise UnsupportedVersionError(what, offset=0, field="value.frameVersion", version=frame)
    message = METADATA_RECORDS.get(api_key)
    if message is None:
        return MetadataRecord("", api_key, version, {})
    values = decode(message, reader, version=version, path="value")
    return MetadataRecord(message.name, api_key, version, values)
