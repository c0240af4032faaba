"""Files that are whole or not there, whenever the machine stops: write aside, fsync, rename."""

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
    """Name the output folder in an error of the disk: the system's own error names no file where
    a write fails (a full disk, a quota).

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
    """What ``write`` makes beside ``path``, moved there when it is on the disk.

    Readers of a capture pass over names that begin with a dot.
    """
    aside = path.with_name(f".{path.name}.tmp")
    write(aside)
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.replace(path)
    fsync_folder(path.parent)


def put_json(path: Path, value: Mapping[str, Any]) -> None:
    """A small file of JSON, replaced as a whole."""
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"

    def write(aside: Path) -> None:
        aside.write_text(text, "utf-8")

    published(path, write)


def appended(path: Path, line: str) -> None:
    """One more line at the end of a file, on the disk when this returns."""
    fresh = not path.exists()
    with path.open("ab") as file:
        file.write(line.encode("utf-8") + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if fresh:
        fsync_folder(path.parent)


def without_torn_line(path: Path) -> str | None:
    """The last whole line of a file; what stands behind it, torn by a kill, is cut off."""
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
    """A rename is on the disk when its folder is."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
