"""Manifests of a stream's micro-batches: which files of `partage watch` count.

```
OUT/stream/source.json                      the source of the stream
OUT/stream/batches/00000012.json            files of a micro-batch
OUT/stream/batches/00000000-00000063.json   files of merged micro-batches
```
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["StreamManifest", "current_manifests", "stream_source"]


class StreamManifest(NamedTuple):
    """JSON file that lists the Parquet files of one published micro-batch, by table.

    After a merge, one manifest covers several micro-batches.
    """

    path: Path
    first: int
    last: int
    files: Mapping[str, Sequence[str]]

    @classmethod
    def read_manifest(cls, path: Path) -> StreamManifest:
        """Read the manifest of published micro-batches, which lists their Parquet files.

        ``path`` is a JSON file, named after the first and the last of these micro-batches.
        """
        first, _, last = path.stem.partition("-")
        return cls(path, int(first), int(last or first), json.loads(path.read_bytes())["files"])


def current_manifests(folder: Path) -> list[StreamManifest]:
    """Return the valid manifests (file lists) of all published micro-batches of a stream.

    A crash during a merge leaves manifests that overlap. Of these, the one that covers the most
    micro-batches is valid.

    Args:
        folder: the folder ``stream`` of an output folder.
    """
    found = [
        StreamManifest.read_manifest(path) for path in (folder / "batches").glob("[0-9]*.json")
    ]
    out: list[StreamManifest] = []
    for one in sorted(found, key=lambda one: (one.first, -one.last)):
        if not out or one.first > out[-1].last:
            out.append(one)
    return out


def stream_source(out: Path) -> str | None:
    """Return the address or folder that `partage watch` reads, from its output folder ``out``.

    The result is None if `partage watch` has not written the folder.
    """
    path = out / "stream" / "source.json"
    return str(json.loads(path.read_bytes())["source"]) if path.is_file() else None
