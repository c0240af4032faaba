"""Runs that are at work in an output folder, and what dead ones have left there.

A run that is at work holds a marker: who it is (host, process, when that process began), locked
as long as the process lives. A marker whose process is surely dead belongs to a run that was
killed: its tables were never published, and are removed by the next run. A marker of another
host whose lock cannot tell is left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

__all__ = ["clear_the_dead", "lodged", "published"]

_FOLDER = "running"


@contextmanager
def lodged(out: Path, run_id: str) -> Iterator[None]:
    """The marker of a run, for as long as it is at work."""
    path = out / _FOLDER / f"{run_id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        locked = _lock(file)
        json.dump({**_me(), "locked": locked}, file)
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()  # the last one out


def clear_the_dead(out: Path) -> list[str]:
    """Run ids whose process is dead, published or not; their markers are removed."""
    gone = []
    for path in sorted((out / _FOLDER).glob("*.json")):
        if _is_dead(path):
            gone.append(path.stem)
            path.unlink(missing_ok=True)
    return gone


def published(out: Path, run_id: str) -> bool:
    """Whether a run has a manifest: then its tables are somebody's."""
    return (out / "runs" / run_id / "manifest.json").is_file()


def _is_dead(path: Path) -> bool:
    """Whether nobody can be at work under a marker. In doubt, somebody is."""
    try:
        with path.open("r+", encoding="utf-8") as file:
            text = file.read()
            free = _lock(file)
    except OSError:
        return False
    try:
        owner = json.loads(text)
    except ValueError:
        return free  # killed while it wrote this: whoever is alive holds the lock
    if owner.get("host") == socket.gethostname():
        return bool(_process(owner.get("pid")) != owner.get("began"))
    return bool(owner.get("locked")) and free


def _lock(file: IO[Any]) -> bool:
    """Whether this process now holds the file's lock; False where there are no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _me() -> dict[str, Any]:
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "began": _process(pid)}


def _process(pid: object) -> str | None:
    """When a process of this host began, as far as the system tells; None if there is none."""
    if not isinstance(pid, int):
        return None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return "alive"
    return "alive"
