"""Captures that grow: the records of a recorded one, published part by part as a capture does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from partage.capture.manifest import CaptureManifest, CapturePart, write_table
from partage.jobs.watch.capture_log import SETTLE_MS

_TABLES = {"consumer_offsets.parquet": "offset", "batches.parquet": "base_offset"}


class GrowingCapture:
    """Publishes the records of a capture in equal parts, in order of their times.

    A part has the records of all log partitions up to a time, their batches, and the metadata up to
    `SETTLE_MS` later. It is written before the manifest lists it, as `partage capture` does.

    Args:
        source: folder of the whole capture; each table is one file.
        folder: folder of the capture that grows.
        parts: number of parts.
    """

    def __init__(self, source: Path, folder: Path, parts: int) -> None:
        self.folder, self._source = folder, source
        self._tables = {name: parquet.read_table(source / name) for name in _TABLES}
        records = self._tables["consumer_offsets.parquet"]
        times = np.sort(records["timestamp_ms"].to_numpy())
        self._ends = [int(times[len(times) * n // parts - 1]) for n in range(1, parts)]
        self._ends.append(int(times[-1]))
        self._states = (source / "cluster.jsonl").read_bytes().splitlines(keepends=True)
        self._manifest = CaptureManifest()
        for name in _TABLES:
            (folder / name).mkdir(parents=True)
        shutil.copy(source / "cluster-config.json", folder)

    @property
    def is_complete(self) -> bool:
        """Whether all parts are published."""
        return self.parts == len(self._ends)

    @property
    def parts(self) -> int:
        """Number of published parts."""
        return len(self._manifest.parts)

    def grow(self) -> None:
        """Publish the next part."""
        manifest, number = self._manifest, len(self._manifest.parts)
        end, before = self._ends[number], dict(manifest.positions)
        records = self._tables["consumer_offsets.parquet"]
        partition, offset, time_ms = (
            records[name].to_numpy() for name in ("partition", "offset", "timestamp_ms")
        )
        is_last = number == len(self._ends) - 1
        for p in np.unique(partition[time_ms <= end]).tolist():
            reached = int(offset[(partition == p) & (time_ms <= end)].max()) + 1
            manifest.positions[p] = max(reached, before.get(p, 0))
        known = [s for s in self._states if is_last or json.loads(s)["ts_ms"] <= end + SETTLE_MS]
        (self.folder / "cluster.jsonl").write_bytes(b"".join(known))
        part = CapturePart(number)
        for name, column in _TABLES.items():
            wanted = self._between(name, column, before, everything=is_last)
            write_table(
                self.folder / name / part.file_name, self._tables[name].filter(pa.array(wanted))
            )
        manifest.parts.append(part)
        manifest.save_manifest(self.folder)

    def _between(
        self, name: str, column: str, before: dict[int, int], *, everything: bool
    ) -> np.ndarray:
        """Return a mask of a table's rows from the positions before to the present ones."""
        partition, at = (self._tables[name][one].to_numpy() for one in ("partition", column))
        size = int(partition.max()) + 1
        first, end = np.zeros(size, np.int64), np.zeros(size, np.int64)
        for p, offset in before.items():
            first[p] = offset
        for p, offset in self._manifest.positions.items():
            end[p] = offset
        if everything:  # markers follow the last record
            end[:] = np.iinfo(np.int64).max
        return (at >= first[partition]) & (at < end[partition])
