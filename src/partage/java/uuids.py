"""Kafka's ``org.apache.kafka.common.Uuid``: 16 bytes, printed as URL-safe base64."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from functools import lru_cache

__all__ = ["ZERO_UUID", "uuid_bytes", "uuid_hash", "uuid_text"]

_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")
#: Texts kept: a log names few topics, each many times.
_CACHED_TEXTS = 1024

ZERO_UUID = "A" * 22


@lru_cache(maxsize=_CACHED_TEXTS)
def uuid_text(uuid: bytes) -> str:
    """Format a Kafka UUID (16 bytes) as text: 22 characters of URL-safe base64.

    Kafka prints topic ids and directory ids in this form.

    >>> uuid_text(bytes(16)) == ZERO_UUID
    True
    """
    return b2a_base64(uuid, newline=False)[:22].translate(_TO_URL_SAFE).decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """Parse a Kafka UUID such as "0q9296oPTEeomul5We-plg", and return its 16 bytes.

    Topic ids have this form. It is the inverse of `uuid_text`.

    Raises:
        ValueError: the text is not 22 characters of URL-safe base64.

    >>> uuid_text(uuid_bytes("0q9296oPTEeomul5We-plg"))
    '0q9296oPTEeomul5We-plg'
    """
    try:
        data = a2b_base64(text.encode("ascii").translate(_FROM_URL_SAFE) + b"==")
    except (Base64Error, UnicodeEncodeError):
        data = b""
    if len(text) != 22 or uuid_text(data) != text:
        raise ValueError(f"not a uuid in Kafka's base64: {text!r}")
    return data


def uuid_hash(uuid: bytes) -> int:
    r"""Return the hash code that Java computes for a Kafka UUID (signed int32).

    ``uuid`` is the UUID's 16 bytes. Kafka's coordinator iterates over topics in an order that
    depends on it.

    >>> uuid_hash(bytes(15) + b"\x07")
    7
    """
    mixed = int.from_bytes(uuid[:8], "big") ^ int.from_bytes(uuid[8:], "big")
    return ((mixed >> 32 ^ mixed) & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
