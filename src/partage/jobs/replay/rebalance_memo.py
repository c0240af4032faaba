"""Stored results of rebalances that were simulated one by one, for the next appending run.

A run that continues another one rebuilds a group's history, and finds most of its rebalances
unchanged. Their verdicts and plans need not be computed again. Three kinds of columns of table
``replays`` still change with every new commit, because they depend on commit rates, commit
intervals and the usual length of a rebalance: times without a consumer, records read twice, and
the spread of loads. They are computed again, from what is stored for them (`LateInputs`).

A result is found by a digest of the rebalance, without its pauses, and of the cluster metadata
that a verdict may look at. Results are in blocks of plain values (`history.state_store`).
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

import numpy as np

from partage.errors import InvalidCaptureError
from partage.history.agreement import Verdict
from partage.history.state_store import pack_state, unpack_state
from partage.judge import Facts
from partage.judge.measures import tally
from partage.model import Problem
from partage.model.index import Int32Array
from partage.simulation.commit_evidence import Weights
from partage.simulation.context import SimulationContext
from partage.simulation.metrics import Bounds, PlanMetrics, SimulatedRebalance
from partage.simulation.recorded_rebalances import Absence, RecordedRebalance
from partage.tables.statuses import RECORDED

__all__ = [
    "AHEAD_STATES", "MemoBlock", "MemoWriter", "MetadataDigests", "RebalanceMemo",
    "metadata_digests",
]  # fmt: skip

#: Verdicts look at so many later metadata states (`history.clusters.alternative_clusters`).
AHEAD_STATES = 3
#: Rebalances of a block.
_BLOCK = 64


class MetadataDigests:
    """Digests of the cluster metadata up to some time.

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

    def until(self, time_ms: int) -> bytes:
        """Return a digest of the states up to a time, and of `AHEAD_STATES` later ones."""
        last = bisect_right(self._times, time_ms) + AHEAD_STATES
        return self._prefixes[min(last, len(self._prefixes) - 1)]


class MemoBlock(NamedTuple):
    """The place of some stored results: file, first byte, length, and the key of each result.

    ``path`` is relative to the output folder.
    """

    path: str
    first: int
    length: int
    keys: tuple[str, ...]

    @classmethod
    def of(cls, value: Sequence[Any]) -> MemoBlock:
        """Build the entry from a list of its fields, as read from JSON."""
        return cls(value[0], value[1], value[2], tuple(value[3]))


@dataclass(frozen=True, slots=True)
class _StoredRow:
    """A row of table ``replays``, and what its late columns are computed from.

    Attributes:
        row: the row; late columns are empty if ``is_late``.
        is_late: whether it has columns that depend on the group's whole history.
        stops: dense numbers of the partitions that stop.
        extra: partition-seconds of dead members, in addition to the stop.
        member: owner of each assigned partition, as a position in the group.
        partition: dense numbers of the assigned partitions.
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


#: Owners, partitions, members whose loads count, and number of members of an assignment.
_Loads = tuple[Int32Array, Int32Array, Int32Array, int]


def _stored_row(row: SimulatedRebalance, loads: dict[int, _Loads]) -> _StoredRow:
    """Return a row without its late columns; ``loads`` caches those of equal plans, by ``id``."""
    late = row.late
    row = replace(row, late=None)
    if late is None:
        return _StoredRow(row, is_late=False)
    blank = replace(row, stopped=None, reread=None)
    if not late.has_loads:
        return _StoredRow(blank, True, late.stops, late.extra)
    if id(late.plan) not in loads:
        facts = Facts(Problem(late.group, late.cluster))
        counted = tally(late.plan, facts)
        loads[id(late.plan)] = (
            counted.member.astype(np.int32), counted.partition.astype(np.int32),
            np.flatnonzero(facts.takes_part).astype(np.int32), facts.members,
        )  # fmt: skip
    blank = replace(blank, measured=replace(row.measured, load_spread=None))
    return _StoredRow(blank, True, late.stops, late.extra, *loads[id(late.plan)])


def _finished_row(
    stored: _StoredRow, rebalance: RecordedRebalance, context: SimulationContext
) -> SimulatedRebalance:
    """Return a stored row with the columns that depend on the group's whole history."""
    row, stops = stored.row, stored.stops
    if not stored.is_late or stops is None:
        return row
    costs = context.costs(rebalance)
    is_recorded = row.policy == RECORDED
    stopped = costs.stopped_seconds(stops, context.usual_ms)
    return replace(
        row,
        measured=replace(row.measured, load_spread=_load_spread(stored, context.weights)),
        stopped=None if stopped is None or stored.extra is None else stopped + stored.extra,
        reread=costs.reread_as_recorded() if is_recorded else costs.reread(stops),
    )


def _load_spread(stored: _StoredRow, weights: Weights) -> float | None:
    """Return the spread of loads as the judge computes it for members of weight 1."""
    taking, member, partition = stored.takes_part, stored.member, stored.partition
    if weights is None or taking is None or member is None or partition is None or not len(taking):
        return None
    load = np.bincount(member, weights[partition], minlength=stored.members)[taking]
    return float(load.max() - load.min())


class RebalanceMemo:
    """Results of one group's rebalances: those of the last run, and those to store for the next.

    Args:
        out: the output folder.
        blocks: where the results of the last run are.
        digests: digests of the cluster metadata.
        writer: writes the results for the next run.
    """

    def __init__(
        self,
        out: str,
        blocks: Sequence[MemoBlock],
        digests: MetadataDigests,
        writer: MemoWriter,
    ) -> None:
        self._out, self._blocks, self._digests, self._writer = out, blocks, digests, writer
        self._block_of = {key: i for i, block in enumerate(blocks) for key in block.keys}
        self._found: set[str] = set()
        #: The block that was read last: rebalances come in order.
        self._loaded: tuple[int, Mapping[str, _Result]] = (-1, {})

    def key(self, rebalance: RecordedRebalance) -> str:
        """Return a digest of everything that the stored result of a rebalance depends on."""
        text = pack_state(replace(rebalance, pauses=()), _CLASSES, level=0)
        digest = blake2b(text, digest_size=12)
        digest.update(self._digests.until(rebalance.generation.timestamp_ms))
        return digest.hexdigest()

    def find(
        self, key: str, rebalance: RecordedRebalance, context: SimulationContext
    ) -> tuple[Verdict, list[SimulatedRebalance]] | None:
        """Return the verdict and the rows of a rebalance; None if they are not stored."""
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
        """Store the verdict and the rows of a rebalance for the next run."""
        if any(m.weight != 1 for one in rows if one.late is not None for m in one.late.group):
            return  # `_load_spread` is for members of weight 1
        loads: dict[int, _Loads] = {}
        self._writer.add(key, (verdict, tuple(_stored_row(row, loads) for row in rows)))

    def finish(self) -> list[MemoBlock]:
        """Return the places of all results for the next run, old and new ones.

        A block whose results were all found stays where it is. The found results of other blocks
        are written again.
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
    """Writes one task's results of rebalances into a file, group after group."""

    def __init__(self, out: str, path: str, task: str) -> None:
        self._path = f"{path}/rebalances-{task}-{uuid4().hex[:8]}.memo"
        self._file = Path(out) / self._path
        self._pending: dict[str, _Result] = {}
        self._blocks: list[MemoBlock] = []
        self._size = 0

    def add(self, key: str, result: _Result) -> None:
        """Add the result of a rebalance of the current group."""
        self._pending[key] = result
        if len(self._pending) >= _BLOCK:
            self._flush()

    def finish(self) -> list[MemoBlock]:
        """End the current group; return the places of its results."""
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
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as file:
            file.write(blob)
        self._blocks.append(MemoBlock(self._path, self._size, len(blob), tuple(pending)))
        self._size += len(blob)


@lru_cache(maxsize=1)
def metadata_digests(states: tuple[str, ...]) -> MetadataDigests:
    """Return the digests of the cluster metadata; each worker process computes them once."""
    timed = [(json.loads(text)["ts_ms"], text) for text in states]
    return MetadataDigests(sorted(timed, key=lambda one: one[0]))
