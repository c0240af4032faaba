"""Kafka's client properties, from a ``client.properties`` file and from the command line.

Errors and ``repr`` never show secret values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from partage.capture.secrets import HIDDEN, is_secret
from partage.errors import InvalidConfigError

__all__ = ["Properties", "parse_jaas", "parse_properties", "read_properties", "shown"]

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def shown(name: str, value: str) -> str:
    """Return a value for an error message: hidden if the property is secret.

    >>> shown("sasl.jaas.config", "x"), shown("sasl.mechanism", "PLAIN")
    ('[hidden]', 'PLAIN')
    """
    return HIDDEN if is_secret(name) else value


class Properties:
    """Properties by name; ``repr`` hides secret values.

    >>> Properties({"ssl.key.password": "x", "client.id": "me"})
    Properties({'client.id': 'me', 'ssl.key.password': '[hidden]'})
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __repr__(self) -> str:
        return f"Properties({ {n: shown(n, v) for n, v in sorted(self._values.items())} })"

    def names(self) -> Iterable[str]:
        """Return the given names."""
        return self._values.keys()

    def get(self, name: str, otherwise: str | None = None) -> str | None:
        """Return a property's value."""
        return self._values.get(name, otherwise)


def read_properties(path: Path | None, given: Iterable[str] = ()) -> dict[str, str]:
    """Return the properties of a file, overridden by ``NAME=VALUE`` of the command line.

    Raises:
        InvalidConfigError: the file cannot be read, or an argument has no equals sign.
    """
    values: dict[str, str] = {}
    if path is not None:
        try:
            values |= parse_properties(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as e:
            why = getattr(e, "strerror", None) or "not UTF-8"
            what = f"cannot be read ({why})"
            raise InvalidConfigError("--command-config", what, str(path)) from None
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name.strip():
            # Text without an equals sign may still be a secret.
            raise InvalidConfigError("--property", "must be NAME=VALUE", HIDDEN)
        values[name.strip()] = value.strip()
    return values


def parse_properties(text: str) -> dict[str, str]:
    r"""Parse a ``.properties`` file as Java does.

    Handles comments, the separators ``=``, ``:`` and space, continued lines and escapes.

    >>> parse_properties("# c\nsecurity.protocol = SASL_SSL\nk:v\nlong=a\\\n   b\nu=\\u00e9\n")
    {'security.protocol': 'SASL_SSL', 'k': 'v', 'long': 'ab', 'u': 'é'}
    """
    found = {}
    for line in _logical_lines(text):
        match = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", line, re.DOTALL)
        if match:
            found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def _logical_lines(text: str) -> Iterable[str]:
    whole = ""
    for line in text.splitlines():
        part = line.lstrip()
        if not whole and (not part or part[0] in "#!"):
            continue
        trailing = len(part) - len(part.rstrip("\\"))
        if trailing % 2:
            whole += part[:-1]
            continue
        yield whole + part
        whole = ""
    if whole:
        yield whole


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", one, text.rstrip(" \t"), flags=re.DOTALL)


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Return the login module and its options from a ``sasl.jaas.config``.

    Raises:
        InvalidConfigError: the text is malformed; the message does not repeat it.

    >>> parse_jaas('a.PlainLoginModule required username="me" password="a b";')
    ('a.PlainLoginModule', {'username': 'me', 'password': 'a b'})
    """
    tokens = re.findall(r'"(?:\\.|[^"\\])*"|[^\s=;"]+|=|;', text)
    if len(tokens) < 3 or tokens[-1] != ";" or not re.fullmatch(r"[\w.$]+", tokens[0]):
        what = 'must be: LoginModule required name="value" ... ;'
        raise InvalidConfigError("sasl.jaas.config", what, HIDDEN)
    options = {}
    rest = tokens[2:-1]
    for name, equals, value in zip(rest[::3], rest[1::3], rest[2::3], strict=False):
        if equals != "=":
            break
        options[name] = _unquoted(value)
    if len(options) * 3 != len(rest):
        what = 'has an option that is not name="value"'
        raise InvalidConfigError("sasl.jaas.config", what, HIDDEN)
    return tokens[0], options


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
