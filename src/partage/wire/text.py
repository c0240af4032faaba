"""Strings and UUIDs as Java makes them of bytes, and back.

Java puts U+FFFD for what is not UTF-8, as Python does, but counts differently in one case: an
encoded surrogate (``ED A0..BF xx``) is one malformed character to Java and three to Python.
"""

from __future__ import annotations

import codecs
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from functools import lru_cache

__all__ = ["ZERO_UUID", "java_text", "utf8_bytes", "uuid_bytes", "uuid_text"]

_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_UUIDS_REMEMBERED = 1024

ZERO_UUID = "A" * 22


def _java_replacement(error: UnicodeError) -> tuple[str, int]:
    """One U+FFFD for each malformed character, by Java's count of them."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start, end = error.object, error.start, error.end
    second = data[start + 1 : start + 2]
    if data[start] == 0xED and b"\xa0" <= second <= b"\xbf":
        third = data[start + 2 : start + 3]
        end = start + (3 if b"\x80" <= third <= b"\xbf" else 2)
    return "\ufffd", end


codecs.register_error("partage.java", _java_replacement)


def java_text(data: bytes) -> str:
    r"""``new String(bytes, UTF_8)``: malformed bytes become U+FFFD, never an error.

    >>> java_text(b"caf\xc3\xa9"), java_text(b"a\xffb"), java_text(b"\xed\xa0\x80")
    ('café', 'a\ufffdb', '\ufffd')
    """
    return data.decode("utf-8", "partage.java")


def utf8_bytes(text: str) -> bytes:
    r"""``String.getBytes(UTF_8)``: a lone surrogate becomes a question mark.

    >>> utf8_bytes("é"), utf8_bytes("\ud83d")
    (b'\xc3\xa9', b'?')
    """
    return text.encode("utf-8", "replace")


@lru_cache(maxsize=_UUIDS_REMEMBERED)
def uuid_text(uuid: bytes) -> str:
    """The 16 bytes as Kafka prints a ``Uuid``: 22 characters of URL-safe base64, no padding.

    >>> uuid_text(bytes(16)) == ZERO_UUID
    True
    """
    return b2a_base64(uuid, newline=False)[:22].translate(_TO_URL_SAFE).decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of a printed ``Uuid``.

    Raises:
        ValueError: not 22 characters of URL-safe base64.

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
