"""Protection of secrets: their values are replaced in everything written to stderr.

Messages hide secrets where they are made. This is the last line of defence: tracebacks of
``PARTAGE_DEBUG=1``, log lines and warnings of libraries, texts of Spark's Java process.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from partage.capture.secrets import hide_secrets, is_secret, secrets_in

__all__ = ["GuardedStream", "guard_stderr", "protect_secrets"]

_SECRETS: set[str] = set()

#: The password of an address: ``s3a://KEY:SECRET@bucket``, ``user:SECRET@host:9092``.
_USERINFO = re.compile(r"(?:^|/|,)[^\s/:@,]*:([^\s/@]+)@")


def protect_secrets(settings: Mapping[str, str]) -> None:
    """Hide secret settings, such as passwords, in all later output on stderr.

    ``settings`` are Spark settings or client properties by name.
    """
    _SECRETS.update(secrets_in(settings))


class GuardedStream:
    """Text stream that hides secrets, such as passwords, in all text written to it.

    It replaces stderr, so that no traceback or log line shows a password.

    Args:
        stream: the stream that receives the text.
        secrets: the texts to hide; the set may grow later.
    """

    def __init__(self, stream: TextIO, secrets: Iterable[str]) -> None:
        self._stream = stream
        self._secrets = secrets

    def write(self, text: str) -> int:
        """Write text to the stream, with each secret replaced by ``[hidden]``.

        The result is the length of the original text, as callers of ``write`` expect.
        """
        self._stream.write(hide_secrets(text, self._secrets))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines of text to the stream, with each secret replaced by ``[hidden]``.

        Secrets are passwords and similar values.
        """
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard_stderr(arguments: Sequence[str]) -> None:
    """Hide the secrets among the command-line arguments in all later output on stderr.

    Passwords in addresses are hidden, too.
    """
    # The arguments are searched before they are parsed, because the parser's errors repeat them.
    for one in arguments:
        _SECRETS.update(_USERINFO.findall(one))
        head, equals, value = one.partition("=")
        if not equals:
            continue
        name, inner_equals, inner = value.partition("=")  # --conf=NAME=VALUE
        if head.startswith("-") and inner_equals:
            protect_secrets({name: inner})
        if is_secret(head):
            protect_secrets({head: value})
    if sys.stderr is not None and not isinstance(sys.stderr, GuardedStream):
        sys.stderr = GuardedStream(sys.stderr, _SECRETS)
