"""Atomic file writes: a temporary name, fsync, rename. A crash leaves no partial file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from partage.errors import InvalidConfigError

__all__ = [
    "append_line",
    "fsync_folder",
    "name_folder_in_errors",
    "truncate_torn_line",
    "write_atomically",
    "write_json",
]


@contextmanager
def name_folder_in_errors(folder: Path) -> Iterator[None]:
    """Convert disk errors in a ``with`` block to an error that names the output folder.

    The user then sees, for example, which disk is full.

    Raises:
        InvalidConfigError: a file of the folder cannot be written.
    """
    try:
        yield
    except OSError as e:
        reason = os.strerror(e.errno) if e.errno else str(e)
        what = f"cannot be written ({reason}); free space there and run again to go on"
        raise InvalidConfigError("--out", what, str(folder)) from None


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file so that it is either complete or missing, even after a crash.

    The content goes to a temporary file, which is stored on disk (fsync) and then renamed.

    Args:
        path: path of the complete file.
        write: function that writes the content to the temporary path that it receives.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    write(temporary)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    fsync_folder(path.parent)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a value to a JSON file so that the file is complete even after a crash.

    The text is written to a temporary file, which then replaces the old one.

    Args:
        path: path of the file.
        value: the value to write, as a mapping.
    """
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"

    def write(temporary: Path) -> None:
        temporary.write_text(text, "utf-8")

    write_atomically(path, write)


def append_line(path: Path, line: str) -> None:
    """Append a line to a text file, and wait until the disk has stored it (fsync).

    The line is then kept even if the machine crashes.

    Args:
        path: the file, which is created if it does not exist.
        line: the line, without a line break.
    """
    fresh = not path.exists()
    with path.open("ab") as file:
        file.write(line.encode("utf-8") + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if fresh:
        fsync_folder(path.parent)


def truncate_torn_line(path: Path) -> str | None:
    """Remove an incomplete last line, which a crash may have left, from a text file.

    Afterwards the next line can be appended safely.

    Args:
        path: path of the file.

    Returns:
        The last complete line; None if there is none.
    """
    if not path.exists():
        return None
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) != len(data):
        with path.open("r+b") as file:
            file.truncate(len(whole))
            os.fsync(file.fileno())
    lines = whole.splitlines()
    return lines[-1].decode("utf-8", "replace") if lines else None


def fsync_folder(folder: Path) -> None:
    """Wait until the disk has stored the entries of a folder (fsync).

    Without it, a file that was renamed into the folder could be missing after a crash.
    """
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
