"""The manifest ``capture.json``: the files and positions that make up a capture.

A file that the manifest does not list is not part of the capture.

    {"format": 2, "topic": "__consumer_offsets", "topic_id": "...", "cluster_id": "...",
     "parts": [[60, 1], [61, 0]], "next_part": 62, "positions": {"0": 8113, ...},
     "epochs": {"0": [[4, 120], [6, 8113]]}, "records": 94434, "batches": 9163,
     "cleaned": {"3": 150}, "first_ends": {"0": 8113, ...}, "troubles": ["partition 3: ..."]}

``parts`` lists the files of records and of batches in log order: their number, and how often they
were merged. For each log partition, ``positions`` has the next offset, ``epochs`` the leader
epochs of the records read, ``cleaned`` the number of missing offsets, and ``first_ends`` the end
of the log at the first fetch. In format 1, ``parts`` was the number of parts, and ``epochs`` was
missing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from partage.capture.durable import put_json
from partage.errors import InvalidCaptureError

__all__ = ["MANIFEST", "METADATA", "Manifest", "Part", "aside", "expect_growing_capture"]

MANIFEST = "capture.json"
#: The cluster's metadata over time, beside the manifest.
METADATA = "cluster.jsonl"
_FORMAT = 2
_MOST_TROUBLES = 100


class Part(NamedTuple):
    """A numbered part of a recording (capture): one Parquet file of records and one of batches."""

    number: int
    level: int = 0

    @property
    def name(self) -> str:
        """File name of this part of a recording, the same in the folders of both tables."""
        return f"part-{self.number:08d}.parquet"


def aside(path: Path) -> Path:
    """Return the hidden path to which a file of a recording is renamed after it was merged into
    another one.

    The name is hidden from new readers; a reader that has opened the file can go on.

    >>> aside(Path("a/part-00000007.parquet")).name
    '.part-00000007.parquet.replaced'
    """
    return path.with_name(f".{path.name}.replaced")


def expect_growing_capture(folder: Path) -> None:
    """Check that a folder is a recording (capture) that a streaming reader can follow while it
    grows.

    Raises:
        InvalidCaptureError: the folder or its metadata is missing.
    """
    if not folder.is_dir():
        raise InvalidCaptureError(f"{folder}: no such folder; give a capture's folder")
    if not (folder / METADATA).is_file():
        what = f"{folder}: has no {METADATA}, and a stream cannot infer metadata"
        raise InvalidCaptureError(f"{what}; record it with partage capture --follow")


@dataclass
class Manifest:
    """Content of ``capture.json``, the manifest of a recording: the files that belong to it, and
    the offsets read so far.

    Attributes:
        cluster_id, topic_id: ids of the recorded cluster and topic; None if unknown.
        parts: the files of each table that belong to the capture, in log order.
        next_part: the number of the next part.
        replaced: numbers of merged parts that are still on the disk (`aside`).
        positions: dict from log partition to the next offset to read.
        epochs: dict from log partition to (leader epoch, offset after its last batch) pairs,
            ascending.
        records, batches: number of rows in all parts.
        troubles: a message about each skipped or missing range; at most a hundred.
        cut: dict from log partition to the first offset that the log has lost; rows from there on
            are being removed from the parts. Empty at all other times.
        cleaned: dict from log partition to the number of offsets that the log cleaner removed
            before they were read.
        first_ends: dict from log partition to the end of the log at the first fetch.
    """

    cluster_id: str | None = None
    topic_id: str | None = None
    parts: list[Part] = field(default_factory=list)
    next_part: int = 0
    replaced: list[int] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    records: int = 0
    batches: int = 0
    troubles: list[str] = field(default_factory=list)
    cut: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    cleaned: dict[int, int] = field(default_factory=dict)
    first_ends: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def of(folder: Path) -> Manifest | None:
        """Read the manifest ``capture.json`` in the folder of a recording; return None if there is
        none.

        Raises:
            InvalidCaptureError: the manifest cannot be read.
        """
        path = folder / MANIFEST
        if not path.is_file():
            return None
        try:
            found = json.loads(path.read_bytes())
            if found["format"] not in {1, _FORMAT}:
                what = f"{path}: format {found['format']!r}, this Partage knows {_FORMAT}"
                raise InvalidCaptureError(f"{what}: take a newer one")
            parts = _parts(found)
            return Manifest(
                found["cluster_id"], found["topic_id"], parts,
                int(found.get("next_part", len(parts))),
                [int(number) for number in found.get("replaced", ())],
                _offsets(found["positions"]),
                int(found["records"]), int(found["batches"]), [str(t) for t in found["troubles"]],
                _offsets(found.get("cut", {})),
                {int(p): [(int(e), int(o)) for e, o in rows]
                 for p, rows in found.get("epochs", {}).items()},
                _offsets(found.get("cleaned", {})),
                # A manifest of an older Partage: everything up to the positions was the first read.
                _offsets(found.get("first_ends", found["positions"])),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            what = f"{path}: cannot be read ({type(e).__name__}: {e})"
            raise InvalidCaptureError(f"{what}; capture into a new folder") from None

    def put(self, folder: Path) -> None:
        """Write the manifest ``capture.json`` to the folder of a recording.

        From then on the recording consists of the files that it lists.

        From then on the capture consists of the files that it lists.
        """
        content: dict[str, Any] = asdict(self)
        for name in ("positions", "cut", "epochs", "cleaned", "first_ends"):
            content[name] = {str(p): o for p, o in sorted(content[name].items())}
        put_json(folder / MANIFEST, {"format": _FORMAT, "topic": "__consumer_offsets", **content})

    def trouble(self, what: str) -> None:
        """Add a warning to the manifest: a range of the log that was skipped or is missing."""
        if len(self.troubles) < _MOST_TROUBLES and what not in self.troubles:
            self.troubles.append(what)


def _offsets(by_partition: dict[str, Any]) -> dict[int, int]:
    # JSON has text keys.
    return {int(p): int(o) for p, o in by_partition.items()}


def _parts(found: dict[str, Any]) -> list[Part]:
    if found["format"] == 1:
        return [Part(number) for number in range(int(found["parts"]))]
    return [Part(int(number), int(level)) for number, level in found["parts"]]
