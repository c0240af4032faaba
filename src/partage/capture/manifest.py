"""``capture.json``: how far a capture has come. What it does not count is not part of it.

    {"format": 1, "topic": "__consumer_offsets", "topic_id": "...", "cluster_id": "...",
     "parts": 12, "positions": {"0": 8113, ...}, "records": 94434, "batches": 9163,
     "troubles": ["partition 3: ..."]}

``parts`` files of records and of batches belong to the capture, numbered from 0; ``positions``
says for each log partition which offset comes next.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from partage.capture.durable import put_json
from partage.errors import InvalidCaptureError

__all__ = ["MANIFEST", "Manifest"]

MANIFEST = "capture.json"
_FORMAT = 1
_MOST_TROUBLES = 100


@dataclass
class Manifest:
    """What the file says.

    Attributes:
        cluster_id, topic_id: of what is recorded; None where nobody said.
        parts: files of each table.
        positions: log partition -> the next offset.
        records, batches: rows in all parts.
        troubles: what was skipped or missing, a sentence each; the first hundred.
        cut: log partition -> the offset from which on the parts hold what the log no longer has;
            empty but while the parts are being rewritten.
    """

    cluster_id: str | None = None
    topic_id: str | None = None
    parts: int = 0
    positions: dict[int, int] = field(default_factory=dict)
    records: int = 0
    batches: int = 0
    troubles: list[str] = field(default_factory=list)
    cut: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def of(folder: Path) -> Manifest | None:
        """The manifest of a folder, None where there is none.

        Raises:
            InvalidCaptureError: it cannot be read.
        """
        path = folder / MANIFEST
        if not path.is_file():
            return None
        try:
            found = json.loads(path.read_bytes())
            if found["format"] != _FORMAT:
                what = f"{path}: format {found['format']!r}, this Partage knows {_FORMAT}"
                raise InvalidCaptureError(f"{what}: take a newer one")
            return Manifest(
                found["cluster_id"], found["topic_id"], int(found["parts"]),
                {int(p): int(o) for p, o in found["positions"].items()},
                int(found["records"]), int(found["batches"]), [str(t) for t in found["troubles"]],
                {int(p): int(o) for p, o in found.get("cut", {}).items()},
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            what = f"{path}: cannot be read ({type(e).__name__}: {e})"
            raise InvalidCaptureError(f"{what}; capture into a new folder") from None

    def put(self, folder: Path) -> None:
        """Replace the file: from then on the capture is what this says."""
        told: dict[str, Any] = asdict(self)
        for name in ("positions", "cut"):
            told[name] = {str(p): o for p, o in sorted(told[name].items())}
        put_json(folder / MANIFEST, {"format": _FORMAT, "topic": "__consumer_offsets", **told})

    def trouble(self, what: str) -> None:
        """Remember what was skipped or missing."""
        if len(self.troubles) < _MOST_TROUBLES and what not in self.troubles:
            self.troubles.append(what)
