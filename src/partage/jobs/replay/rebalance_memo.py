"""Stored results of simulated rebalances, which the next appending run uses again.

A run that continues another one rebuilds a group's history, and finds most of its rebalances
unchanged. Their verdicts and plans need not be computed again. Three kinds of columns of table
``replays`` still change with every new commit: times without a consumer, records read twice, and
the spread of loads. They depend on commit rates, commit intervals and the usual length of a
rebalance. They are computed again from stored inputs (`LateInputs`).

A result is found by a digest of the rebalance and of the cluster metadata that a verdict may use.
Pauses are not part of the digest. Results are stored in blocks of plain values
(`history.state_store`).
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from partage.errors import InvalidCaptureError
from partage.history.agreement import Verdict
from partage.history.state_store import pack_state, unpack_state
from partage.model.index import Int32Array
from partage.simulation.checkpoints import Loads, PlanLoads, load_spread
from partage.simulation.context import SimulationContext
from partage.simulation.metrics import Bounds, PlanMetrics, SimulatedRebalance
from partage.simulation.recorded_rebalances import Absence, RecordedRebalance
from partage.tables.statuses import RECORDED

__all__ = [
    "AHEAD_STATES", "MemoBlock", "MemoWriter", "MetadataDigests", "RebalanceMemo",
    "digests_of_rebalance", "metadata_digests",
]  # fmt: skip

#: Verdicts look at so many later metadata states (`history.clusters.alternative_clusters`).
AHEAD_STATES = 3
#: Rebalances of a block.
_BLOCK = 64


class MetadataDigests:
    """Digests of a cluster's metadata up to any point in time.

    Args:
        states: the JSON texts of the metadata states with their times, in order of time.
    """

    def __init__(self, states: Iterable[tuple[int, str]]) -> None:
        self._times: list[int] = []
        self._prefixes = [b""]
        for time_ms, text in states:
            self._times.append(time_ms)
            joined = self._prefixes[-1] + text.encode()
            self._prefixes.append(blake2b(joined, digest_size=16).digest())

    def until(self, time_ms: int, ahead: int = 0) -> bytes:
        """Return a digest of the cluster metadata up to a time,
        and of the next ``ahead`` states.
        """
        last = bisect_right(self._times, time_ms) + ahead
        return self._prefixes[min(last, len(self._prefixes) - 1)]


class MemoBlock(NamedTuple):
    """Position of a block of stored results: file, first byte, length, and the key of each result.

    ``path`` is relative to the output folder.
    """

    path: str
    first: int
    length: int
    keys: tuple[str, ...]

    @classmethod
    def of(cls, value: Sequence[Any]) -> MemoBlock:
        """Build a `MemoBlock` from a list of its fields, as read from JSON."""
        return cls(value[0], value[1], value[2], tuple(value[3]))


@dataclass(frozen=True, slots=True)
class _StoredRow:
    """A stored row of table ``replays``, and the inputs of those columns that may still change.

    Attributes:
        row: the row; late columns are empty if ``is_late``.
        is_late: whether it has columns that depend on the group's whole history.
        stops: indices of the partitions that stop.
        extra: partition-seconds of dead members, in addition to the stop.
        member: owner of each assigned partition, as a position in the group.
        partition: indices of the assigned partitions.
        takes_part: positions of the members whose loads count; None without a spread of loads.
        members: number of members of the group.
    """

    row: SimulatedRebalance
    is_late: bool
    stops: Int32Array | None = None
    extra: Bounds | None = None
    member: Int32Array | None = None
    partition: Int32Array | None = None
    takes_part: Int32Array | None = None
    members: int = 0


_Result = tuple[Verdict, tuple[_StoredRow, ...]]
_CLASSES = (
    Absence, Bounds, PlanMetrics, RecordedRebalance, SimulatedRebalance, Verdict, _StoredRow,
)  # fmt: skip


def _stored_row(row: SimulatedRebalance, loads: PlanLoads) -> _StoredRow:
    """Prepare a row of table ``replays`` for storage.

    Columns that depend on the group's whole history are replaced by their inputs.
    """
    late = row.late
    row = replace(row, late=None)
    if late is None:
        return _StoredRow(row, is_late=False)
    blank = replace(row, stopped=None, reread=None)
    if not late.has_loads:
        return _StoredRow(blank, True, late.stops, late.extra)
    blank = replace(blank, measured=replace(row.measured, load_spread=None))
    return _StoredRow(blank, True, late.stops, late.extra, *loads.of(late))


def _finished_row(
    stored: _StoredRow, rebalance: RecordedRebalance, context: SimulationContext
) -> SimulatedRebalance:
    """Restore a row of table ``replays`` from storage.

    Columns that depend on the group's whole history are computed again.
    """
    row, stops = stored.row, stored.stops
    if not stored.is_late or stops is None:
        return row
    costs = context.costs(rebalance)
    is_recorded = row.policy == RECORDED
    stopped = costs.stopped_seconds(stops, context.usual_ms)
    return replace(
        row,
        measured=replace(row.measured, load_spread=load_spread(_loads_of(stored), context.weights)),
        stopped=None if stopped is None or stored.extra is None else stopped + stored.extra,
        reread=costs.reread_as_recorded() if is_recorded else costs.reread(stops),
    )


def _loads_of(stored: _StoredRow) -> Loads | None:
    """Return the stored inputs of a row's load spread; None if the row has no load spread."""
    taking, member, partition = stored.takes_part, stored.member, stored.partition
    if taking is None or member is None or partition is None:
        return None
    return member, partition, taking, stored.members


def digests_of_rebalance(
    rebalance: RecordedRebalance, digests: MetadataDigests
) -> tuple[str, bytes]:
    """Return two digests of a recorded rebalance, by which stored results are found.

    The first covers everything that the result of a single rebalance depends on. The second covers
    what a cumulative simulation depends on: it leaves out later metadata, and whether departed
    members rejoin later. Pauses are in neither.
    """
    departures = tuple(
        replace(one, back=None, back_ms=None, as_member=None) for one in rebalance.departures
    )
    text = pack_state(replace(rebalance, pauses=(), departures=departures), _CLASSES, level=0)
    of_result, of_history = (blake2b(text, digest_size=12) for _ in range(2))
    later = [(i, one.back, one.back_ms, one.as_member)
             for i, one in enumerate(rebalance.departures) if one.back is not None]  # fmt: skip
    if later:
        of_result.update(pack_state(later, _CLASSES, level=0))
    time_ms = rebalance.generation.timestamp_ms
    of_result.update(digests.until(time_ms, AHEAD_STATES))
    of_history.update(digests.until(time_ms))
    return of_result.hexdigest(), of_history.digest()


class RebalanceMemo:
    """Stored results of one group's rebalances:
    reads those of the last run, writes those for the next.

    Args:
        out: the output folder.
        blocks: where the results of the last run are.
        writer: writes the results for the next run.
    """

    def __init__(self, out: str, blocks: Sequence[MemoBlock], writer: MemoWriter) -> None:
        self._out, self._blocks, self._writer = out, blocks, writer
        self._loads = PlanLoads()
        self._block_of = {key: i for i, block in enumerate(blocks) for key in block.keys}
        self._found: set[str] = set()
        #: The block that was read last: rebalances come in order.
        self._loaded: tuple[int, Mapping[str, _Result]] = (-1, {})

    def find(
        self, key: str, rebalance: RecordedRebalance, context: SimulationContext
    ) -> tuple[Verdict, list[SimulatedRebalance]] | None:
        """Return the stored verdict and ``replays`` rows of a rebalance;
        None if they are not stored.
        """
        at = self._block_of.get(key)
        if at is None:
            return None
        result = self._read(at).get(key)
        if result is None:
            return None
        verdict, rows = result
        self._found.add(key)
        return verdict, [_finished_row(row, rebalance, context) for row in rows]

    def add(self, key: str, verdict: Verdict, rows: Sequence[SimulatedRebalance]) -> None:
        """Store the verdict and the ``replays`` rows of a rebalance for the next run."""
        if any(m.weight != 1 for one in rows if one.late is not None for m in one.late.group):
            return  # `load_spread` is for members of weight 1
        self._writer.add(key, (verdict, tuple(_stored_row(row, self._loads) for row in rows)))

    def finish(self) -> list[MemoBlock]:
        """Return the positions of all results that the next run may need, old and new ones.

        A block of which every result was used stays where it is. From other blocks the used
        results are written again.
        """
        kept = []
        for i, block in enumerate(self._blocks):
            if self._found.issuperset(block.keys):
                kept.append(block)
                continue
            for key in self._found.intersection(block.keys):
                self._writer.add(key, self._read(i)[key])
        return kept + self._writer.finish()

    def _read(self, number: int) -> Mapping[str, _Result]:
        if self._loaded[0] != number:
            block = self._blocks[number]
            try:
                with (Path(self._out) / block.path).open("rb") as file:
                    file.seek(block.first)
                    results = unpack_state(file.read(block.length), _CLASSES)
                found = dict(zip(block.keys, results, strict=True))
            except (InvalidCaptureError, OSError, ValueError):
                found = {}  # damaged: these rebalances are simulated again
            self._loaded = number, found
        return self._loaded[1]


class MemoWriter:
    """Writer of one task's file with results of rebalances, group after group."""

    def __init__(self, out: str, path: str, task: str) -> None:
        self._path = f"{path}/rebalances-{task}-{uuid4().hex[:8]}.memo"
        self._file = Path(out) / self._path
        self._pending: dict[str, _Result] = {}
        self._blocks: list[MemoBlock] = []
        self._size = 0

    def add(self, key: str, result: _Result) -> None:
        """Write the result of a rebalance of the current group."""
        self._pending[key] = result
        if len(self._pending) >= _BLOCK:
            self._flush()

    def finish(self) -> list[MemoBlock]:
        """End the current group; return the file positions of its results."""
        if self._pending:
            self._flush()
        blocks, self._blocks = self._blocks, []
        return blocks

    def _flush(self) -> None:
        pending, self._pending = self._pending, {}
        try:
            blob = pack_state(list(pending.values()), _CLASSES, level=1)
        except TypeError:
            return  # a plug-in's row has a value that is no plain one: nothing is stored
        self._blocks.append(self.write(blob, tuple(pending)))

    def write(self, blob: bytes, keys: tuple[str, ...]) -> MemoBlock:
        """Append a block of bytes to the file and return its position."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as file:
            file.write(blob)
        self._size += len(blob)
        return MemoBlock(self._path, self._size - len(blob), len(blob), keys)


@lru_cache(maxsize=1)
def metadata_digests(states: tuple[str, ...]) -> MetadataDigests:
    """Return the digests of cluster metadata over time; each worker process computes them once."""
    timed = [(json.loads(text)["ts_ms"], text) for text in states]
    return MetadataDigests(sorted(timed, key=lambda one: one[0]))
