"""Terminal and JSON output: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, Literal

from rich.console import Console
from rich.text import Text

__all__ = [
    "escape_unencodable",
    "first_lines",
    "fits_terminal",
    "format_bytes",
    "has_display",
    "is_terminal",
    "json_bytes",
    "print_message",
    "print_tables",
    "print_warnings",
    "short_name",
    "shorten_message",
    "stderr_console",
    "stdout_console",
    "styled_name",
    "write_json",
]

_MOST_LINES = 3
_LONGEST = 400
#: Characters of a name; Kafka's topic names have up to 249, group and client ids up to 32,767.
_LONGEST_NAME = 256
#: A longer name; one that is cut already has an ellipsis at its end.
_LONG_NAME = re.compile(rf"\S{{{_LONGEST_NAME + 2},}}")
#: Characters that a terminal obeys or that reorder text: DEL and C1 controls, format characters
#: with the bidirectional ones, line separators, half surrogate pairs, tags.
_UNSAFE_IN_JSON = re.compile(
    "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
#: Columns; tables take no more than they need.
_AS_WIDE_AS_IT_GETS = 1_000_000
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def escape_unencodable() -> None:
    """Make stdout and stderr escape characters that the terminal's encoding lacks.

    Otherwise printing such a character would raise an error.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def stdout_console() -> Console:
    """Return a new Rich console that writes to stdout.

    Each call creates one because stdout may have been replaced.
    """
    return Console(highlight=False, emoji=False, markup=False, color_system=_colours())


def stderr_console() -> Console:
    """Return a new Rich console that writes to stderr.

    It is used for progress bars, so that stdout has only the result of the command.
    """
    return Console(stderr=True, highlight=False, color_system=_colours())


def _colours() -> Literal["auto"] | None:
    # Rich still prints bold and dim text under NO_COLOR, unless it has no colour system.
    return None if os.environ.get("NO_COLOR") else "auto"


def print_tables(*what: Any) -> None:
    """Print Rich tables and texts on stdout.

    On a terminal they are wrapped. In a pipe each row is one line, nothing is shortened, and lines
    do not end in blanks.
    """
    console = stdout_console()
    if is_terminal():
        for one in what:
            console.print(one)
        return
    console.width = _AS_WIDE_AS_IT_GETS
    with console.capture() as written:
        for one in what:
            console.print(one, soft_wrap=isinstance(one, Text))
    for line in written.get().splitlines():
        console.out(line.rstrip(), highlight=False)


def fits_terminal(table: Any) -> bool:
    """Return whether a table is narrow enough for the terminal.

    True if stdout is not a terminal.
    """
    console = stdout_console()
    wide = console.options.update(width=_AS_WIDE_AS_IT_GETS)
    return not is_terminal() or console.measure(table, options=wide).maximum <= console.width


def print_message(line: str, style: str = "") -> None:
    """Print a message on stderr as one line.

    It is not wrapped, and control characters are escaped. ``style`` is a Rich style, such as "red".
    """
    console = Console(
        stderr=True, highlight=False, emoji=False, markup=False, color_system=_colours()
    )
    console.print(Text(_one_line(line), style), soft_wrap=True)


def shorten_message(line: str) -> str:
    """Shorten a message to at most 400 characters, with an ellipsis at its end.

    A message may contain long text from the input, which would fill the terminal.

    >>> len(shorten_message("x" * 1000))
    401
    """
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def short_name(input_name: str) -> str:
    """Shorten a long name from the input, such as a topic's, to 256 characters.

    The text says how long the name is. JSON output has the full name.

    >>> short_name("orders"), short_name("x" * 32_767)[-22:]
    ('orders', 'x… (32,767 characters)')
    """
    if len(input_name) <= _LONGEST_NAME:
        return input_name
    return f"{input_name[:_LONGEST_NAME]}… ({len(input_name):,} characters)"


def short_names(line: str) -> str:
    """Shorten each long name in a message to 256 characters.

    A name is a word without blanks, such as a topic's name.

    >>> short_names("c1 subscribes to " + "x" * 32_000)[-22:]
    'x… (32,000 characters)'
    """
    return _LONG_NAME.sub(lambda found: short_name(found[0]), line)


def format_bytes(size: float) -> str:
    """Format a number of bytes as text for the user, with a suitable unit such as ``1.5 GB``.

    Units are decimal, so 1 GB is 10**9 bytes.

    >>> format_bytes(12_300_000)
    '12.3 MB'
    """
    unit = 0
    while size >= 999.95 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{size:.0f} B"


def first_lines(lines: Sequence[str], *, total: int | None = None) -> list[str]:
    """Return the first three lines of a list, and a line such as "and 7 more" if there are more.

    ``total`` is the number of all lines, if ``lines`` has only the first of them.

    >>> first_lines(["a", "b", "c", "d", "e"])
    ['a', 'b', 'c', 'and 2 more']
    >>> first_lines(["a", "b"], total=9)
    ['a', 'b', 'and 7 more']
    """
    more = (len(lines) if total is None else total) - min(len(lines), _MOST_LINES)
    return [*lines[:_MOST_LINES], *([f"and {more:,} more"] if more > 0 else [])]


def is_terminal() -> bool:
    """Return whether stdout is a terminal, not a pipe or a file.

    Output to a terminal is wrapped and coloured; output to a pipe is for programs.
    """
    return sys.stdout is not None and sys.stdout.isatty()


def styled_name(input_name: str, style: str = "") -> Text:
    """Convert a name from the input, such as a topic's, to Rich text in a style such as "bold".

    Control characters are escaped, because a terminal would execute them.
    """
    return Text(_one_line(input_name), style)


def _one_line(value: str) -> str:
    # A topic may be called "\x1b[2J": a terminal would obey it.
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)


def json_bytes(value: Any, indent: int | None = None) -> bytes:
    """Encode a value as JSON in UTF-8.

    Control and format characters become escape sequences, because a terminal would execute them.
    ``indent`` is the indentation of nested values, None for one line.

    >>> json_bytes("a" + chr(0x9B)) == b'"a' + bytes([92]) + b'u009b"'
    True
    """
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return _UNSAFE_IN_JSON.sub(lambda found: json.dumps(found[0])[1:-1], text).encode()


def write_json(value: Any, indent: int | None = None) -> None:
    """Print a value as JSON on stdout, in UTF-8 whatever the locale is.

    ``indent`` is the indentation of nested values, None for one line.
    """
    line = json_bytes(value, indent) + b"\n"
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(line.decode())
    else:
        binary.write(line)


def has_display() -> bool:
    """Return whether this machine can show a browser window.

    Windows and macOS always can. On other systems the environment must name a display, for example
    in ``DISPLAY``.
    """
    if os.name == "nt" or sys.platform == "darwin":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def print_warnings(lines: list[str]) -> None:
    """Print the first three warnings on stderr, and the number of the other ones.

    Each is one line that begins with "warning:".
    """
    for line in first_lines(lines):
        print_message(f"warning: {short_names(line)}", "yellow")
