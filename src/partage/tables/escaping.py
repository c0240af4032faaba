"""Escaping of names from tables for pages, pictures and XML documents."""

from __future__ import annotations

import json
import re

__all__ = ["escape_document_line", "escape_document_text"]

#: Control characters except tab and line ends, and bidirectional ones. XML 1.0 has no C0 controls
#: and no half surrogate pairs, not even escaped.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
    "\ufffe\uffff]"
)


def escape_document_text(text: str, *, in_json: bool = False) -> str:
    r"""Escape control and bidirectional characters, which HTML, SVG and XML must not contain.

    It is used for names that come from a log, such as a group id with a terminal escape sequence.
    All other characters stay, also non-breaking spaces. With ``in_json``, the escapes are JSON's
    own, so that a JSON parser restores the same text.

    >>> escape_document_text("a\u202e<b>\x1b[2J")
    'a\\u202e<b>\\x1b[2J'
    """
    if in_json:
        return _UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], text)
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def escape_document_line(text: str) -> str:
    r"""Escape a text for HTML, SVG or XML, and put it on one line.

    Control and bidirectional characters are replaced by escapes such as ``\x1b``. Each line break
    or run of blanks becomes a single space.

    >>> escape_document_line("a\nb\x1b")
    'a b\\x1b'
    """
    return " ".join(escape_document_text(text).split())
