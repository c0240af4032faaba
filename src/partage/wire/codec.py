"""Bodies of messages from bytes to plain values and back, by the data in `messages`.

Decoded values: a struct is a dict with Kafka's JSON names, an array a tuple, ``bytes`` is bytes, a
uuid its 22 characters, null is None. A field that the version does not have is left out, and so is
a tagged field with its default. Unknown tagged fields stay, under `schema.UNKNOWN_TAGS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from partage.errors import WireFormatError
from partage.wire.faults import UnsupportedVersionError
from partage.wire.primitives import Reader, Writer
from partage.wire.reading import ReadStruct, joined, reader_of
from partage.wire.schema import Message
from partage.wire.writing import WriteStruct, writer_of

__all__ = ["decode", "encode", "place", "struct_reader", "struct_writer"]


def _checked(message: Message, version: int) -> None:
    if version not in message.valid_versions:
        what = f"{message.name} has versions {message.valid}"
        raise UnsupportedVersionError(what, offset=0, field="version", version=version)


@lru_cache(maxsize=256)
def struct_reader(message: Message, version: int) -> ReadStruct:
    """The reader of ``message`` in ``version``, made once.

    Raises:
        UnsupportedVersionError: the message has no such version.
    """
    _checked(message, version)
    return reader_of(message, version)


@lru_cache(maxsize=256)
def struct_writer(message: Message, version: int) -> WriteStruct:
    """The writer of ``message`` in ``version``, made once.

    Raises:
        UnsupportedVersionError: the message has no such version.
    """
    _checked(message, version)
    return writer_of(message, version)


def place(error: WireFormatError, field: str, version: int) -> None:
    """Give ``error`` its whole path and the version; the caller raises it again.

    The same object, so that a bad record costs one error and one traceback, not two.
    """
    error.field, error.version = joined(field, error.field), version


def decode(message: Message, reader: Reader, *, version: int, path: str = "") -> dict[str, Any]:
    r"""Read one body at ``reader``'s place; what follows it stays unread.

    ``path`` stands before the field's name in errors.

    Raises:
        WireFormatError: the bytes are not this message; or it has no such version.

    >>> from partage.wire.messages import CONSUMER_GROUP_METADATA_VALUE
    >>> decode(CONSUMER_GROUP_METADATA_VALUE, Reader(b"\0\0\0\x0a\0"), version=0)
    {'epoch': 10}
    """
    read = struct_reader(message, version)
    try:
        return read(reader)
    except WireFormatError as error:
        place(error, path, version)
        raise error.with_traceback(None) from None  # see `reading`


def encode(message: Message, values: Mapping[str, Any], *, version: int, path: str = "") -> bytes:
    r"""The bytes of one body, without header.

    Raises:
        EncodingError: a value does not fit the layout (path and version say where).
        UnsupportedVersionError: the message has no such version.

    >>> from partage.wire.messages import CONSUMER_GROUP_METADATA_VALUE
    >>> encode(CONSUMER_GROUP_METADATA_VALUE, {"epoch": 10, "metadataHash": 0}, version=0)
    b'\x00\x00\x00\n\x00'
    """
    write = struct_writer(message, version)
    writer = Writer()
    try:
        write(writer, values)
    except WireFormatError as error:
        place(error, path, version)
        raise
    return bytes(writer.buffer)
