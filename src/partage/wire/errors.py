"""The classes of `WireFormatError`: one for each way in which Kafka rejects bytes.

Readers of a log need to catch `WireFormatError` only. The finer classes match Kafka's exceptions:

    here                        Kafka 4.3.1
    TruncatedError              BufferUnderflowException (SchemaException in the consumer protocol)
    LengthError                 RuntimeException, for user data IllegalArgumentException
    UnsupportedVersionError     SchemaException
    UnknownRecordTypeError      UnknownRecordTypeException: the loader skips such a record
    UnknownRecordVersionError   UnknownRecordVersionException: the loader fails
    EncodingError               exceptions of the generated writers
"""

from __future__ import annotations

from partage.errors import WireFormatError

__all__ = [
    "EncodingError",
    "LengthError",
    "TruncatedError",
    "UnknownRecordTypeError",
    "UnknownRecordVersionError",
    "UnsupportedVersionError",
]


class TruncatedError(WireFormatError):
    """Error for bytes that end in the middle of a value, such as an integer or a varint."""


class LengthError(WireFormatError):
    """Error for an impossible length, count or varint in received bytes.

    A length or count exceeds the remaining bytes or the limit of its type, or is negative (null)
    for a field that cannot be null. A varint has more than five bytes.
    """


class UnsupportedVersionError(WireFormatError):
    """Error for a message version that Kafka's definition of the message does not have.

    It may come from a later release of Kafka.
    """


class EncodingError(WireFormatError):
    """Error for a value that cannot be encoded, such as a string in an integer field.

    ``offset`` is the number of bytes that were written before the value.
    """


class UnknownRecordTypeError(WireFormatError):
    """Error for a record type of ``__consumer_offsets`` that Kafka 4.3.1 does not know.

    Kafka's loader skips such a record.

    >>> UnknownRecordTypeError(9).type
    9
    """

    def __init__(self, record_type: int) -> None:
        super().__init__(f"unknown record type {record_type}", offset=0, field="key.type")
        self.type = record_type


class UnknownRecordVersionError(WireFormatError):
    """Error for a value version of a ``__consumer_offsets`` record that Kafka 4.3.1 does not know.

    Kafka's loader fails on such a record.

    >>> error = UnknownRecordVersionError(3, 1)
    >>> error.type, error.version
    (3, 1)
    """

    def __init__(self, record_type: int, version: int) -> None:
        super().__init__(
            f"unknown value version {version} of record type {record_type}",
            offset=0,
            field="value.version",
            version=version,
        )
        self.type = record_type
