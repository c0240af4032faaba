"""Spill files: each group's rebalances on disk, between the histories and the simulations job.

The histories job writes a rebalance when its row of table ``rebalances`` is complete. That is some
hundred rebalances later, when commits have shown how long it took and which members rejoined. So
only some hundred rebalances are in memory, however long the history is.

The simulations job reads a chunk of a group's rebalances, or all chunks one after the other. Spill
files contain packed plain values (`history.state_store`), from which no code is executed. Their
folder is removed at the end of the run.

An appending run also has files that the next run continues. They have the rebalances that later
records cannot change, and the state of each group's history.

```
OUT/running/<run_id>/part-*.spill     chunks of rebalances, and for each group what they share
OUT/state/<run_id>/history-*.spill    chunks of complete rebalances, and the state of each group
```
"""

from __future__ import annotations

import shutil
from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, NamedTuple
from uuid import uuid4

from partage.history.clusters import ClusterHistory
from partage.history.events import Generation
from partage.history.pauses import Pause
from partage.history.state_store import pack_state, unpack_state
from partage.jobs.replay.stored_results import StoredBlock, StoredSimulation
from partage.simulation import recorded_rebalances
from partage.simulation.commit_statistics import CommitStatistics, Rates, rates_by_partition
from partage.simulation.context import SimulationContext
from partage.simulation.costs import recorded_costs, usual_duration
from partage.simulation.metrics import Bounds, CachedJudge
from partage.simulation.recorded_rebalances import (
    MOST_ENTRIES,
    Absence,
    RecordedCosts,
    RecordedRebalance,
    RecordedRebalanceBuilder,
    count_entries,
)

__all__ = [
    "STORED_CLASSES",
    "RebalanceCollector",
    "SpillWriter",
    "SpilledChunk",
    "SpilledHistory",
    "SpilledRebalance",
    "StoredHistory",
    "remove_spill_files",
    "spill_folder",
]

#: Rebalances that are read at a time, and the most members and assigned partitions in them. Each of
#: these takes some 100 bytes in memory, several times.
_MOST_REBALANCES, _MOST_ENTRIES = 64, 32_768

#: Stored chunks of a group before small ones are merged: each run adds one.
_MOST_CHUNKS = 32
#: What a rebalance has in it besides a history's own values.
_CLASSES = (Absence, Bounds, CommitStatistics, RecordedCosts, RecordedRebalance)

#: A rebalance, and its row of table ``rebalances`` as far as the history knows it.
SpilledRebalance = tuple[RecordedRebalance, dict[str, Any]]


def spill_folder(out: str | Path, run_id: str) -> Path:
    """Return the folder of a run's temporary files, which pass group histories between jobs.

    ``out`` is the output folder. The folder is removed at the end of the run.
    """
    return Path(out) / "running" / run_id


class SpilledChunk(NamedTuple):
    """Byte range in a temporary file that contains some rebalances of one consumer group.

    The simulation job reads the rebalances from there.

    Attributes:
        path: path of the file.
        first: position of the first byte.
        length: number of bytes.
        rebalances: number of rebalances.
    """

    path: str
    first: int
    length: int
    rebalances: int

    def read_bytes(self, out: str | Path = "") -> bytes:
        """Read this chunk's bytes from the file.

        A relative path refers to the folder ``out``.
        """
        with (Path(out) / self.path).open("rb") as file:
            file.seek(self.first)
            return file.read(self.length)

    def read_values(self) -> Any:
        """Read and unpack the values of this chunk from the file.

        The values are rebalances with their table rows, or data that all rebalances of a group
        share.
        """
        return unpack_state(self.read_bytes(), _CLASSES)


class StoredHistory(NamedTuple):
    """Position of a consumer group's stored history, which the next run with ``--append``
    continues.

    All paths are relative to the output folder.

    Attributes:
        state: position of the stored state of the history.
        chunks: positions of its complete rebalances.
        unknown_topic_ids: topic ids in its records that the cluster metadata had no name for.
        digest: digest of all these bytes.
    """

    state: SpilledChunk
    chunks: tuple[SpilledChunk, ...]
    unknown_topic_ids: tuple[str, ...]
    digest: str

    @classmethod
    def from_json_fields(cls, value: Sequence[Any]) -> StoredHistory:
        """Build a `StoredHistory` from the list of its fields, which was read from a JSON file.

        Lists in JSON stand for tuples.
        """
        state, chunks, topic_ids, digest = value
        places = tuple(SpilledChunk(*one) for one in chunks)
        return cls(SpilledChunk(*state), places, tuple(topic_ids), digest)

    def compute_digest(self, out: str | Path) -> str:
        """Compute a digest of the stored bytes, which shows whether the files have changed.

        ``out`` is the output folder.

        Raises:
            OSError: a file cannot be read.
        """
        found = blake2b(digest_size=16)
        for place in (self.state, *self.chunks):
            found.update(place.read_bytes(out))
        return found.hexdigest()

    def file_paths(self) -> set[str]:
        """Return the paths of the files that contain the history, relative to the output folder.

        Files of earlier runs that are not needed may be removed.
        """
        return {place.path for place in (self.state, *self.chunks)}


@dataclass(frozen=True, slots=True)
class SpilledHistory:
    """Position of a consumer group's history in temporary files, from which the simulation reads
    it.

    Attributes:
        group: the group id.
        shared: position of the data that all rebalances of the group share.
        chunks: positions of its rebalances, in log order.
        stored_rebalances: positions of stored results of its rebalances, from earlier runs.
        stored_simulations: dict from policy to the simulation that an earlier run has stored.
        stored_streams: position of its rows of table ``streams_settings`` from an earlier run.
    """

    group: str
    shared: SpilledChunk
    chunks: tuple[SpilledChunk, ...]
    stored_rebalances: tuple[StoredBlock, ...] = ()
    stored_simulations: Mapping[str, StoredSimulation] = field(default_factory=dict)
    stored_streams: StoredBlock | None = None

    @property
    def byte_count(self) -> int:
        """Size of the consumer group's rebalances in the files, in bytes.

        A large history is not read into memory at once.
        """
        return sum(chunk.length for chunk in self.chunks)

    @property
    def rebalance_count(self) -> int:
        """Number of rebalances of the consumer group.

        A group without rebalances is not simulated.
        """
        return sum(chunk.rebalances for chunk in self.chunks)

    @classmethod
    def from_json_fields(cls, value: dict[str, Any]) -> SpilledHistory:
        """Build a `SpilledHistory` from the dict of its fields, which was read from JSON.

        The file positions of stored simulation results are added later.
        """
        chunks = tuple(SpilledChunk(*one) for one in value["chunks"])
        return cls(value["group"], SpilledChunk(*value["shared"]), chunks)

    def rebalance_rows(self, chunks: Sequence[int] | None = None) -> Iterator[SpilledRebalance]:
        """Read the group's recorded rebalances with their table rows, and yield them in log order.

        The file has them in chunks of several rebalances. ``chunks`` are the indices of the chunks
        to read; None reads all.
        """
        for i in range(len(self.chunks)) if chunks is None else chunks:
            yield from self.chunks[i].read_values()

    def build_context(self, clusters: ClusterHistory) -> SimulationContext:
        """Read the consumer group's commit statistics, and build the data that its simulations
        share.

        ``clusters`` is the cluster metadata over time.
        """
        commits, usual_ms, timeout_ms = self.shared.read_values()
        weights = rates_by_partition(commits.rates, clusters.index)
        context = SimulationContext(clusters, CachedJudge(), commits, usual_ms, weights)
        return context if timeout_ms is None else replace(context, server_session_ms=timeout_ms)


class _SpillFile:
    """Temporary file to which packed values, such as rebalances, are appended.

    It is created when the first values are written, so a task without groups leaves no file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def append_bytes(self, packed: bytes, rebalances: int = 0) -> SpilledChunk:
        """Append bytes to the file, and return their position.

        ``rebalances`` is the number of rebalances that the bytes contain.
        """
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("wb")
        first = self._file.tell()
        self._file.write(packed)
        self._file.flush()
        return SpilledChunk(str(self._path), first, len(packed), rebalances)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class SpillWriter:
    """Writer of one task's spill files: temporary files with the histories of consumer groups.

    The simulation job reads them. Complete rebalances may be stored permanently instead, for the
    next run with ``--append``.

    Args:
        out: the output folder.
        run_id: the id of the run.
        task: part of the file names that is unique to the task.
        stored: folder for histories that the next run continues, relative to ``out``; None to store
            none.
    """

    def __init__(self, out: str, run_id: str, task: str, stored: str | None = None) -> None:
        self._out, name = Path(out), f"{task}-{uuid4().hex[:8]}.spill"
        self._temporary = _SpillFile(spill_folder(out, run_id) / f"part-{name}")
        kept = None if stored is None else _SpillFile(self._out / stored / f"history-{name}")
        self._stored, self._current = kept, kept or self._temporary
        self._pending: list[SpilledRebalance] = []
        self._entries = 0
        self._chunks: list[SpilledChunk] = []

    def close(self) -> None:
        """Close the files of this writer.

        It may be called several times.
        """
        for file in filter(None, (self._temporary, self._stored)):
            file.close()

    def continue_group(self, history: StoredHistory) -> None:
        """Begin a consumer group whose first rebalances are in the files of an earlier run.

        These rebalances are read from the old files. They are copied only if they are in very many
        small chunks.
        """
        places = [one._replace(path=str(self._out / one.path)) for one in history.chunks]
        if len(places) <= _MOST_CHUNKS + sum(one.rebalances for one in places) // _MOST_REBALANCES:
            self._chunks = places
            return
        for place in places:
            for rebalance in place.read_values():
                self.write_rebalance(rebalance)

    def store_group(self, state: bytes, unknown_topic_ids: Sequence[str]) -> StoredHistory:
        """Store the history of the current consumer group so far, for the next run.

        The group's further rebalances may change with later records, so they are written to the
        temporary file.

        Args:
            state: the packed state of its history.
            unknown_topic_ids: topic ids for which the cluster metadata has no name.
        """
        if self._stored is None:
            raise TypeError("the writer has no folder for stored histories")
        if self._pending:
            self._chunk()
        self._current = self._temporary
        places = [self._stored.append_bytes(state), *self._chunks]
        base = self._out
        mine = [one._replace(path=Path(one.path).relative_to(base).as_posix()) for one in places]
        found = StoredHistory(mine[0], tuple(mine[1:]), tuple(unknown_topic_ids), "")
        return found._replace(digest=found.compute_digest(base))

    def write_rebalance(self, rebalance: SpilledRebalance) -> None:
        """Add the next rebalance of the current consumer group to the file.

        Rebalances are buffered and written in chunks.
        """
        self._pending.append(rebalance)
        self._entries += count_entries(rebalance[0].generation)
        if len(self._pending) >= _MOST_REBALANCES or self._entries >= _MOST_ENTRIES:
            self._chunk()

    def finish_group(
        self,
        group: str,
        commits: CommitStatistics,
        usual_ms: Bounds | None,
        timeout_ms: int | None = None,
    ) -> SpilledHistory:
        """Write the remaining rebalances of the current consumer group, and return its file
        positions.

        The next rebalance then belongs to another group.

        Args:
            group: the group id.
            commits: commit rates and commit intervals.
            usual_ms: bounds on the usual duration of the group's rebalances (medians).
            timeout_ms: the broker's session timeout of consumer groups; None if not known.
        """
        if self._pending:
            self._chunk()
        chunks = tuple(self._chunks)
        self.discard_group()
        shared = pack_state((commits, usual_ms, timeout_ms), _CLASSES, level=1)
        return SpilledHistory(group, self._temporary.append_bytes(shared), chunks)

    def discard_group(self) -> None:
        """Drop the history of the current consumer group, for example because the group has failed.

        The part that was already written to the spill file (a temporary file) stays there, but is
        never read.
        """
        self._pending, self._entries, self._chunks = [], 0, []
        self._current = self._stored or self._temporary

    def _chunk(self) -> None:
        packed = pack_state(self._pending, _CLASSES, level=1)
        self._chunks.append(self._current.append_bytes(packed, len(self._pending)))
        self._pending, self._entries = [], 0


def remove_spill_files(out: str | Path, run_id: str) -> None:
    """Remove the folder of a run's temporary files (spill files), if it exists.

    It is called at the end of a run, and for runs that were killed.
    """
    shutil.rmtree(spill_folder(out, run_id), ignore_errors=True)


#: A rebalance is complete so many rebalances later, as its row of ``rebalances`` is; earlier if the
#: rebalances in between exceed `MOST_ENTRIES`.
_BEHIND = 256
_Key = tuple[int, int]


#: Classes in the stored state of a `RebalanceCollector` besides those of a history.
STORED_CLASSES = (RecordedRebalance, *recorded_rebalances.STORED_CLASSES)


class RebalanceCollector:
    """Collector of a consumer group's rebalances and pauses in consumption, for the simulation.

    A rebalance is complete some hundred rebalances later, when the log shows how long it took. It
    is then written to the spill file, from which the simulation job reads it.

    Args:
        clusters: the cluster metadata over time.
        timeout_ms: the broker's session timeout, for members that send none; None if not known.
        writer: writer of the spill file.
    """

    def __init__(
        self, clusters: ClusterHistory, timeout_ms: int | None, writer: SpillWriter
    ) -> None:
        self._writer, self._timeout_ms = writer, timeout_ms
        self._builder = RecordedRebalanceBuilder(
            clusters, timeout_ms, lookahead=_BEHIND, most_entries=MOST_ENTRIES
        )
        self._clusters = clusters
        self._rebalances: deque[RecordedRebalance] = deque()
        self._rows: deque[dict[str, Any]] = deque()
        self._pauses: dict[_Key, list[Pause]] = {}
        self._written: _Key = (-1, -1)
        self._intervals: dict[tuple[str, int], int] = {}
        self._low, self._high = array("d"), array("d")

    def add_generation(self, generation: Generation) -> None:
        """Add the next generation of the consumer group, in log order.

        A generation is the result of a rebalance.
        """
        self._rebalances.extend(self._builder.add_generation(generation))
        self._spill_complete_rebalances()

    def add_pause(self, pause: Pause) -> None:
        """Add a pause in a partition's consumption to the rebalance that caused it.

        The pause is ignored if the rebalance has already been written to the file.
        """
        if pause.resolution_ms is not None:
            self._intervals[pause.topic, pause.partition] = pause.resolution_ms
        key = (pause.incarnation, pause.generation)
        if key >= self._written:
            self._pauses.setdefault(key, []).append(pause)

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Add the next row of table ``rebalances``, in log order.

        It belongs to the earliest rebalance that has no row yet, and completes it.
        """
        self._rows.append(dict(row))
        self._spill_complete_rebalances()

    @property
    def pending_entries(self) -> int:
        """Number of members and assigned partitions in the rebalances that are not complete yet.

        It shows how much memory these rebalances need.
        """
        pending = (*self._builder.pending, *(one.generation for one in self._rebalances))
        return sum(map(count_entries, pending))

    def export_state(self) -> tuple[Any, ...]:
        """Return the rebalances that are not complete yet, with the data that completes them later.

        The next run restores these values with `restore_state`.
        """
        # `history.state_store.pack_state` packs them with the classes `STORED_CLASSES`.
        return (
            self._builder.export_state(), list(self._rebalances), list(self._rows), self._pauses,
            self._written, self._intervals, self._low.tobytes(), self._high.tobytes(),
        )  # fmt: skip

    def restore_state(self, state: tuple[Any, ...]) -> None:
        """Restore the state of this collector from the values that `export_state` returned.

        The next run continues a group's history in this way.
        """
        builder, rebalances, rows, self._pauses, self._written, self._intervals, low, high = state
        self._builder.restore_state(builder)
        self._rebalances, self._rows = deque(rebalances), deque(rows)
        self._low, self._high = array("d", low), array("d", high)

    def finish_group(self, group: str, rates: Rates) -> SpilledHistory:
        """Write the remaining rebalances, and return the position of the group's history in spill
        files.

        ``group`` is the group id. ``rates`` has the records per second of each partition.
        """
        for rebalance in self._builder.finish_rebalances():
            self._rebalances.append(rebalance)
            self._spill_complete_rebalances()
        lengths = (Bounds(*one) for one in zip(self._low, self._high, strict=True))
        return self._writer.finish_group(
            group, CommitStatistics({}, rates, self._intervals), usual_duration(lengths),
            self._timeout_ms,
        )  # fmt: skip

    def _spill_complete_rebalances(self) -> None:
        """Write the complete rebalances with their costs to the spill file.

        Their durations are kept in memory, to compute the usual duration of the group's rebalances.
        """
        for rebalance, row in self._take_complete_rebalances():
            costs = None
            if rebalance.replayable:
                costs = recorded_costs(rebalance, self._clusters, rebalance.pauses)
                if costs.length_ms is not None:
                    self._low.append(costs.length_ms.low)
                    self._high.append(costs.length_ms.high)
            self._writer.write_rebalance((replace(rebalance, pauses=(), costs=costs), row))

    def _take_complete_rebalances(self) -> Iterator[SpilledRebalance]:
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
