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
    "appended",
    "fsync_folder",
    "name_folder_in_errors",
    "published",
    "put_json",
    "without_torn_line",
]


@contextmanager
def name_folder_in_errors(folder: Path) -> Iterator[None]:
    """Raise InvalidConfigError, which names the output folder, for disk errors inside a with block.

    The system's own error for a failed write (a full disk, a quota) names no file.

    Raises:
        InvalidConfigError: a file of the folder cannot be written.
    """
    try:
        yield
    except OSError as e:
        reason = os.strerror(e.errno) if e.errno else str(e)
        what = f"cannot be written ({reason}); free space there and run again to go on"
        raise InvalidConfigError("--out", what, str(folder)) from None


def published(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file atomically: under a temporary name, renamed to ``path`` after an fsync.

    Readers of a capture ignore names that begin with a dot.
    """
    aside = path.with_name(f".{path.name}.tmp")
    write(aside)
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.replace(path)
    fsync_folder(path.parent)


def put_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a value to a JSON file, and replace the old file atomically."""
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"

    def write(aside: Path) -> None:
        aside.write_text(text, "utf-8")

    published(path, write)


def appended(path: Path, line: str) -> None:
    """Append a line to a file and flush the file to disk."""
    fresh = not path.exists()
    with path.open("ab") as file:
        file.write(line.encode("utf-8") + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if fresh:
        fsync_folder(path.parent)


def without_torn_line(path: Path) -> str | None:
    """Truncate an incomplete last line of a file, which a crash left; return the last complete
    line.
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
    """Flush a folder to the disk, so that renames in it survive a crash."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
