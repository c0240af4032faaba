"""One group's rebalances on their way to the third job, each as soon as all is known of it.

A rebalance is told when its row of table ``rebalances`` is complete: some hundred rebalances after
its record, when commits have told how long it took, and who of those that left came back. So what
is held is some hundred rebalances of one group, however long its history is.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from partage.history.clusters import ClusterHistory
from partage.history.events import Generation
from partage.history.pauses import Pause
from partage.jobs.replay.kept import Keeper, Kept
from partage.simulation.commit_evidence import CommitEvidence, Rates
from partage.simulation.context import SimulationContext
from partage.simulation.costs import usual_length
from partage.simulation.metrics import Bounds
from partage.simulation.recorded_rebalances import RecordedRebalance, RecordedRebalanceBuilder

__all__ = ["Telling"]

#: So many rebalances later a scene is made: rows of ``rebalances`` wait for as many.
_BEHIND = 256
_Key = tuple[int, int]


class Telling:
    """Listens to `GroupRows` and is given its rows of ``rebalances``; writes to a keeper.

    Args:
        clusters: the metadata over time.
        timeout_ms: the broker's session timeout, for members that send none; None if not known.
        keeper: takes what is complete.
    """

    def __init__(self, clusters: ClusterHistory, timeout_ms: int | None, keeper: Keeper) -> None:
        self._keeper = keeper
        self._maker = RecordedRebalanceBuilder(clusters, timeout_ms, behind=_BEHIND)
        self._bare = SimulationContext(clusters)
        self._scenes: deque[RecordedRebalance] = deque()
        self._rows: deque[dict[str, Any]] = deque()
        self._pauses: dict[_Key, list[Pause]] = {}
        self._told: _Key = (-1, -1)
        self._intervals: dict[tuple[str, int], int] = {}
        self._low, self._high = array("d"), array("d")

    def generation(self, found: Generation) -> None:
        """A rebalance, in the order of the log."""
        self._scenes.extend(self._maker.feed(found))
        self._tell()

    def pause(self, found: Pause) -> None:
        """A pause; of a rebalance that was told long ago it comes too late, and tells little."""
        if found.resolution_ms is not None:
            self._intervals[found.topic, found.partition] = found.resolution_ms
        key = (found.incarnation, found.generation)
        if key >= self._told:
            self._pauses.setdefault(key, []).append(found)

    def row(self, row: Mapping[str, Any]) -> None:
        """A row of table ``rebalances``, in their order."""
        self._rows.append(dict(row))
        self._tell()

    def finish(self, group: str, rates: Rates) -> Kept:
        """What is left; where all of it is."""
        self._scenes.extend(self._maker.finish())
        self._tell()
        lengths = (Bounds(*one) for one in zip(self._low, self._high, strict=True))
        return self._keeper.keep(
            group, CommitEvidence({}, rates, self._intervals), usual_length(lengths)
        )

    def _tell(self) -> None:
        for scene, row in self._whole():
            length = self._bare.length(scene) if scene.pauses else None
            if length is not None:
                self._low.append(length.low)
                self._high.append(length.high)
            self._keeper.add((scene, row))

    def _whole(self) -> Iterator[tuple[RecordedRebalance, dict[str, Any]]]:
        while self._scenes and self._rows:
            scene, row = self._scenes.popleft(), self._rows.popleft()
            key = (scene.generation.incarnation, scene.generation.number)
            if key != self._told:  # a generation that was taken over has the number of its origin
                self._pauses.pop(self._told, None)
                self._told = key
            yield replace(scene, pauses=tuple(self._pauses.get(key, ()))), row
