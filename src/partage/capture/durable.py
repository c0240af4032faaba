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
    """Turn disk errors inside a with block into an error that names the output folder.

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
    """Write a file so that readers and crashes never see an incomplete one.

    Args:
        path: where the complete file appears.
        write: function that writes the content to a temporary path, which is then renamed.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    write(temporary)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    fsync_folder(path.parent)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a value to a JSON file (``path``) so that readers and crashes never see an incomplete
    file.
    """
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"

    def write(temporary: Path) -> None:
        temporary.write_text(text, "utf-8")

    write_atomically(path, write)


def append_line(path: Path, line: str) -> None:
    """Append a line to the file ``path``, and wait until the disk has stored it (fsync)."""
    fresh = not path.exists()
    with path.open("ab") as file:
        file.write(line.encode("utf-8") + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if fresh:
        fsync_folder(path.parent)


def truncate_torn_line(path: Path) -> str | None:
    """Remove an incomplete last line, as a crash leaves it, from the text file ``path``.

    Return the last complete line, or None if there is none.
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
    """Wait until the disk has stored a folder's entries (fsync), so that renames survive a
    crash.
    """
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
