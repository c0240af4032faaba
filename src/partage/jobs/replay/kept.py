"""Histories between two jobs: scenes of groups in scratch files, each to be read by itself.

The job that rebuilds histories writes them, the job that lives them again reads what it needs of
them: a chunk of a group's rebalances, or all of a group's, one chunk after the other. They are
blobs (`history.state_store`) in a folder of the run that goes with its end: whoever else may write
there cannot make a worker do anything.

```
OUT/running/<run_id>/part-*.scenes    chunks of scenes, and for each group what it needs besides
```
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

from partage.history.clusters import ClusterHistory
from partage.history.state_store import pack_state, unpack_state
from partage.simulation.commit_evidence import CommitEvidence, weights_of
from partage.simulation.context import SimulationContext
from partage.simulation.metrics import Bounds, CachedJudge
from partage.simulation.recorded_rebalances import Absence, RecordedRebalance

__all__ = ["Keeper", "Kept", "forget", "scratch"]

#: Scenes that are read at a time.
_CHUNK = 64

#: What a scene has in it besides a history's own values.
_CLASSES = (Absence, Bounds, CommitEvidence, RecordedRebalance)

#: A scene, and its row of table ``rebalances`` as far as the history knows it.
Told = tuple[RecordedRebalance, dict[str, Any]]


def scratch(out: str | Path, run_id: str) -> Path:
    """The folder of a run's scratch files."""
    return Path(out) / "running" / run_id


@dataclass(frozen=True, slots=True)
class Kept:
    """Where a group's history is.

    Attributes:
        path: of the file.
        world: first byte and length of what its scenes share.
        chunks: first byte, length, and rebalances of each.
    """

    group: str
    path: str
    world: tuple[int, int]
    chunks: tuple[tuple[int, int, int], ...]

    @property
    def rebalances(self) -> int:
        """Rebalances of the group."""
        return sum(chunk[2] for chunk in self.chunks)

    @classmethod
    def of(cls, value: dict[str, Any]) -> Kept:
        """From its fields, as JSON has them."""
        chunks = tuple((c[0], c[1], c[2]) for c in value["chunks"])
        return cls(value["group"], value["path"], tuple(value["world"]), chunks)

    def scenes(self, chunks: Sequence[int] | None = None) -> Iterator[Told]:
        """Its scenes in order, or those of some chunks."""
        for i in range(len(self.chunks)) if chunks is None else chunks:
            yield from _read(self.path, self.chunks[i][0], self.chunks[i][1])

    def surroundings(self, clusters: ClusterHistory) -> SimulationContext:
        """What all of its scenes share."""
        evidence, usual_ms = _read(self.path, *self.world)
        weights = weights_of(evidence.rates, clusters.index)
        return SimulationContext(clusters, CachedJudge(), evidence, usual_ms, weights)


def _read(path: str, first: int, length: int) -> Any:
    with Path(path).open("rb") as file:
        file.seek(first)
        return unpack_state(file.read(length), _CLASSES)


class Keeper:
    """Writes the histories of one task's groups, one after the other, as they are told."""

    def __init__(self, out: str, run_id: str, task: str) -> None:
        folder = scratch(out, run_id)
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"part-{task}-{uuid4().hex[:8]}.scenes"
        self._file = self._path.open("wb")
        self._told: list[Told] = []
        self._chunks: list[tuple[int, int, int]] = []

    def __enter__(self) -> Keeper:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, told: Told) -> None:
        """One more rebalance of the group that is being written."""
        self._told.append(told)
        if len(self._told) >= _CHUNK:
            self._chunk()

    def keep(self, group: str, evidence: CommitEvidence, usual_ms: Bounds | None) -> Kept:
        """The group is complete: where its history is.

        Args:
            group: its name.
            evidence: rates and intervals; pauses are with the scenes.
            usual_ms: how long its rebalances take as a rule.
        """
        if self._told:
            self._chunk()
        chunks, self._chunks = tuple(self._chunks), []
        world = self._write((evidence, usual_ms))
        self._file.flush()
        return Kept(group, str(self._path), world, chunks)

    def drop(self) -> None:
        """Forget the group that is being written; what is in the file stays unread."""
        self._told, self._chunks = [], []

    def _chunk(self) -> None:
        self._chunks.append((*self._write(self._told), len(self._told)))
        self._told = []

    def _write(self, value: object) -> tuple[int, int]:
        first = self._file.tell()
        return first, self._file.write(pack_state(value, _CLASSES, level=1))


def forget(out: str | Path, run_id: str) -> None:
    """Remove a run's scratch files."""
    shutil.rmtree(scratch(out, run_id), ignore_errors=True)
