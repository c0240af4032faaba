"""What can be wrong with bytes, one class for each answer that Kafka gives.

All are `WireFormatError`; who reads a log need catch no more than that. The finer classes tell
apart what Kafka tells apart:

    ours                        Kafka 4.3.1
    TruncatedError              BufferUnderflowException (SchemaException in the consumer protocol)
    LengthError                 RuntimeException, for user data IllegalArgumentException
    UnsupportedVersionError     SchemaException
    UnknownRecordTypeError      UnknownRecordTypeException: the loader skips such a record
    UnknownRecordVersionError   UnknownRecordVersionException: the loader fails
    EncodingError               what the generated writers refuse
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
    """The payload ends inside a number of fixed width or a varint."""


class LengthError(WireFormatError):
    """A length or count is larger than what is left, too large for its type, or null where null
    is not allowed; or a varint goes on after its fifth byte.
    """


class UnsupportedVersionError(WireFormatError):
    """No such version of this message."""


class EncodingError(WireFormatError):
    """A value cannot be written in this layout; ``offset`` counts the bytes written before it."""


class UnknownRecordTypeError(WireFormatError):
    """The key's record type is not one that Kafka 4.3.1 knows.

    >>> UnknownRecordTypeError(9).type
    9
    """

    def __init__(self, record_type: int) -> None:
        super().__init__(f"unknown record type {record_type}", offset=0, field="key.type")
        self.type = record_type


class UnknownRecordVersionError(WireFormatError):
    """The value's version is not one that Kafka 4.3.1 knows for this record type.

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
