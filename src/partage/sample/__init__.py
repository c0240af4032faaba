"""The recorded history of a real cluster that ships with the project (see README.md here)."""

from __future__ import annotations

from pathlib import Path

__all__ = ["folder"]


def folder() -> Path:
    """Return the folder of the recorded cluster history that ships with Partage.

    >>> (folder() / "cluster.jsonl").is_file()
    True
    """
    return Path(__file__).parent
