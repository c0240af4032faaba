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
    """JSON file that lists the Parquet files that micro-batches of a streaming query have written.

    It is written after these files, so a file counts only if a manifest lists it. When
    micro-batches are merged, one manifest covers several of them.

    Attributes:
        path: path of the manifest.
        first, last: numbers of the first and the last micro-batch that it covers.
        files: dict from table name to the paths of its Parquet files.
    """

    path: Path
    first: int
    last: int
    files: Mapping[str, Sequence[str]]

    @classmethod
    def read_manifest(cls, path: Path) -> StreamManifest:
        """Read a manifest: the JSON file that lists the Parquet files of one or more micro-batches.

        The numbers of the micro-batches come from the file name of ``path``. For example,
        ``00000000-00000063.json`` covers the micro-batches 0 to 63.
        """
        first, _, last = path.stem.partition("-")
        return cls(path, int(first), int(last or first), json.loads(path.read_bytes())["files"])


def current_manifests(folder: Path) -> list[StreamManifest]:
    """Return the valid manifests (lists of Parquet files) of a stream's micro-batches, in order.

    Manifests overlap if a crash interrupted the merge of micro-batches. Then the one that covers
    the most micro-batches is valid.

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
    """Return the address or folder from which the command ``partage watch`` reads records.

    The command stores it in its output folder, ``out``. The result is None if it has not written to
    this folder.
    """
    path = out / "stream" / "source.json"
    return str(json.loads(path.read_bytes())["source"]) if path.is_file() else None
