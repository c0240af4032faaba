"""Spill files: each group's rebalances on disk, between the histories and the simulations job.

The histories job writes a rebalance when its row of table ``rebalances`` is complete. That is some
hundred rebalances later, when commits have shown how long it took and which members rejoined. So
only some hundred rebalances are in memory, however long the history is.

The simulations job reads a chunk of a group's rebalances, or all chunks one after the other. Spill
files contain packed plain values (`history.state_store`), from which no code is executed. Their
folder is removed at the end of the run.

```
OUT/running/<run_id>/part-*.spill    chunks of rebalances, and for each group what they share
```
"""

from __future__ import annotations

import shutil
from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from partage.history.clusters import ClusterHistory
from partage.history.events import Generation
from partage.history.pauses import Pause
from partage.history.state_store import pack_state, unpack_state
from partage.jobs.replay.stored_results import StoredBlock, StoredSimulation
from partage.simulation.commit_statistics import CommitStatistics, Rates, rates_by_partition
from partage.simulation.context import SimulationContext
from partage.simulation.costs import usual_duration
from partage.simulation.metrics import Bounds, CachedJudge
from partage.simulation.recorded_rebalances import (
    Absence,
    RecordedRebalance,
    RecordedRebalanceBuilder,
)

__all__ = [
    "RebalanceCollector",
    "SpillWriter",
    "SpilledHistory",
    "remove_spill_files",
    "spill_folder",
]

#: Rebalances that are read at a time, and the most members and assigned partitions in them. Each of
#: these takes some 100 bytes in memory, several times.
_MOST_REBALANCES, _MOST_ENTRIES = 64, 32_768

#: What a rebalance has in it besides a history's own values.
_CLASSES = (Absence, Bounds, CommitStatistics, RecordedRebalance)

#: A rebalance, and its row of table ``rebalances`` as far as the history knows it.
SpilledRebalance = tuple[RecordedRebalance, dict[str, Any]]


def spill_folder(out: str | Path, run_id: str) -> Path:
    """Return the folder of a run's temporary files, which pass group histories between jobs."""
    return Path(out) / "running" / run_id


@dataclass(frozen=True, slots=True)
class SpilledHistory:
    """Position of one consumer group's history in a temporary file that the simulation reads.

    Attributes:
        group: the group id.
        path: path of the spill file.
        shared: first byte and length of the data that all rebalances of the group share.
        chunks: (first byte, length, number of rebalances) of each chunk of the history.
        stored_rebalances: file positions of results of its rebalances from earlier runs.
        stored_simulations: dict from policy to the simulation that an earlier run has stored.
    """

    group: str
    path: str
    shared: tuple[int, int]
    chunks: tuple[tuple[int, int, int], ...]
    stored_rebalances: tuple[StoredBlock, ...] = ()
    stored_simulations: Mapping[str, StoredSimulation] = field(default_factory=dict)

    @property
    def byte_count(self) -> int:
        """Number of bytes of the consumer group's history in the temporary file."""
        return sum(chunk[1] for chunk in self.chunks)

    @property
    def rebalance_count(self) -> int:
        """Number of rebalances of the consumer group."""
        return sum(chunk[2] for chunk in self.chunks)

    @classmethod
    def from_json_fields(cls, value: dict[str, Any]) -> SpilledHistory:
        """Build a `SpilledHistory` from a dict (``value``) of its fields that was read
        from JSON.
        """
        chunks = tuple((c[0], c[1], c[2]) for c in value["chunks"])
        return cls(value["group"], value["path"], tuple(value["shared"]), chunks)

    def rebalance_rows(self, chunks: Sequence[int] | None = None) -> Iterator[SpilledRebalance]:
        """Read the group's recorded rebalances with their table rows; yield them in log order.

        ``chunks`` are the indices of the file's chunks to read; None reads all.
        """
        for i in range(len(self.chunks)) if chunks is None else chunks:
            yield from _read(self.path, self.chunks[i][0], self.chunks[i][1])

    def build_context(self, clusters: ClusterHistory) -> SimulationContext:
        """Read the consumer group's commit statistics, and build the data that its simulations
        share.

        ``clusters`` is the cluster metadata over time.
        """
        commits, usual_ms, timeout_ms = _read(self.path, *self.shared)
        weights = rates_by_partition(commits.rates, clusters.index)
        context = SimulationContext(clusters, CachedJudge(), commits, usual_ms, weights)
        return context if timeout_ms is None else replace(context, server_session_ms=timeout_ms)


def _read(path: str, first: int, length: int) -> Any:
    with Path(path).open("rb") as file:
        file.seek(first)
        return unpack_state(file.read(length), _CLASSES)


class SpillWriter:
    """Writer of one task's temporary file with the histories of its consumer groups."""

    def __init__(self, out: str, run_id: str, task: str) -> None:
        folder = spill_folder(out, run_id)
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"part-{task}-{uuid4().hex[:8]}.spill"
        self._file = self._path.open("wb")
        self._pending: list[SpilledRebalance] = []
        self._entries = 0
        self._chunks: list[tuple[int, int, int]] = []

    def close(self) -> None:
        """Close the temporary file."""
        self._file.close()

    def write_rebalance(self, rebalance: SpilledRebalance) -> None:
        """Add the next rebalance of the current consumer group to the temporary file."""
        self._pending.append(rebalance)
        members = rebalance[0].generation.first.members
        self._entries += sum(1 + sum(len(of) for _, of in member.assigned) for member in members)
        if len(self._pending) >= _MOST_REBALANCES or self._entries >= _MOST_ENTRIES:
            self._chunk()

    def finish_group(
        self,
        group: str,
        commits: CommitStatistics,
        usual_ms: Bounds | None,
        timeout_ms: int | None = None,
    ) -> SpilledHistory:
        """Write the rest of the current consumer group's history; return its position in the file.

        Args:
            group: the group id.
            commits: commit rates and commit intervals.
            usual_ms: bounds on the usual duration of the group's rebalances (medians).
            timeout_ms: the broker's session timeout of consumer groups; None if not known.
        """
        if self._pending:
            self._chunk()
        chunks, self._chunks = tuple(self._chunks), []
        shared = self._write((commits, usual_ms, timeout_ms))
        self._file.flush()
        return SpilledHistory(group, str(self._path), shared, chunks)

    def discard_group(self) -> None:
        """Drop the current consumer group's history, for example because the group has failed.

        Its bytes stay in the file, but are never read.
        """
        self._pending, self._entries, self._chunks = [], 0, []

    def _chunk(self) -> None:
        self._chunks.append((*self._write(self._pending), len(self._pending)))
        self._pending, self._entries = [], 0

    def _write(self, value: object) -> tuple[int, int]:
        first = self._file.tell()
        return first, self._file.write(pack_state(value, _CLASSES, level=1))


def remove_spill_files(out: str | Path, run_id: str) -> None:
    """Remove the folder of a run's temporary files, if it exists."""
    shutil.rmtree(spill_folder(out, run_id), ignore_errors=True)


#: So many rebalances later a rebalance is made: rows of ``rebalances`` wait for as many.
_BEHIND = 256
_Key = tuple[int, int]


class RebalanceCollector:
    """Collector of a consumer group's rebalances and consumption pauses, as input of the
    simulation.

    Complete rebalances are written to the spill file, from which the simulation job reads them.

    Args:
        clusters: the cluster metadata over time.
        timeout_ms: the broker's session timeout, for members that send none; None if not known.
        writer: writer of the spill file.
    """

    def __init__(
        self, clusters: ClusterHistory, timeout_ms: int | None, writer: SpillWriter
    ) -> None:
        self._writer, self._timeout_ms = writer, timeout_ms
        self._builder = RecordedRebalanceBuilder(clusters, timeout_ms, lookahead=_BEHIND)
        self._context = SimulationContext(clusters)
        self._rebalances: deque[RecordedRebalance] = deque()
        self._rows: deque[dict[str, Any]] = deque()
        self._pauses: dict[_Key, list[Pause]] = {}
        self._written: _Key = (-1, -1)
        self._intervals: dict[tuple[str, int], int] = {}
        self._low, self._high = array("d"), array("d")

    def add_generation(self, generation: Generation) -> None:
        """Add the next generation of the consumer group, the result of its next rebalance, in log
        order.
        """
        self._rebalances.extend(self._builder.add_generation(generation))
        self._spill_complete()

    def add_pause(self, pause: Pause) -> None:
        """Add a pause in consumption to the rebalance that caused it.

        The pause is ignored if the rebalance has been written to the file already.
        """
        if pause.resolution_ms is not None:
            self._intervals[pause.topic, pause.partition] = pause.resolution_ms
        key = (pause.incarnation, pause.generation)
        if key >= self._written:
            self._pauses.setdefault(key, []).append(pause)

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Add the next row of table ``rebalances``, in log order; it completes an earlier
        generation.
        """
        self._rows.append(dict(row))
        self._spill_complete()

    def finish_group(self, group: str, rates: Rates) -> SpilledHistory:
        """Write the remaining rebalances; return the position of the group's history in the
        temporary file.

        ``group`` is the group id, ``rates`` has records per second of each partition.
        """
        self._rebalances.extend(self._builder.finish_rebalances())
        self._spill_complete()
        lengths = (Bounds(*one) for one in zip(self._low, self._high, strict=True))
        return self._writer.finish_group(
            group, CommitStatistics({}, rates, self._intervals), usual_duration(lengths),
            self._timeout_ms,
        )  # fmt: skip

    def _spill_complete(self) -> None:
        """Write the complete rebalances to the temporary file, and record their durations."""
        for rebalance, row in self._take_complete():
            length = self._context.rebalance_duration(rebalance) if rebalance.pauses else None
            if length is not None:
                self._low.append(length.low)
                self._high.append(length.high)
            self._writer.write_rebalance((rebalance, row))

    def _take_complete(self) -> Iterator[SpilledRebalance]:
        """Remove and yield the rebalances that are complete, with their pauses and table rows.

        A rebalance is complete once it has a row, and once the log shows whether departed members
        have rejoined.
        """
        while self._rebalances and self._rows:
            rebalance, row = self._rebalances.popleft(), self._rows.popleft()
            key = (rebalance.generation.incarnation, rebalance.generation.generation_number)
            # A generation that was taken over has the number of its origin, and so its pauses.
            if key != self._written:
                self._pauses.pop(self._written, None)
                self._written = key
            yield replace(rebalance, pauses=tuple(self._pauses.get(key, ()))), row
