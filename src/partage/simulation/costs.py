"""What a rebalance of a policy costs: seconds stopped and records read twice, from the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from partage.history.clusters import ClusterHistory
from partage.history.pauses import Pause
from partage.history.problems import given_by_member
from partage.model import Assignment, Cluster
from partage.model.index import Int32Array
from partage.simulation.absences import session_timeout_ms
from partage.simulation.consumers import EMPTY, owners
from partage.simulation.lived import NOTHING, Bounds
from partage.simulation.loads import FloatArray
from partage.simulation.rereads import reread, reread_recorded
from partage.simulation.scenes import Scene
from partage.simulation.stopped import length, silence, stopped, stopping

__all__ = ["Costs", "costs_of"]


@dataclass(frozen=True)
class Costs:
    """What one recorded rebalance cost, and would have cost under any policy.

    Attributes:
        cluster: the metadata at that time.
        given: what the record assigned.
        stopping: dense numbers of the partitions that stopped in the record.
        length_ms: how long they did; None if no commit tells.
        rewinds: dense number -> records read twice, of all partitions that tell.
        most: float64[P], most that another partition may read twice, see `most_reread`.
    """

    cluster: Cluster
    given: Assignment
    stopping: Int32Array
    length_ms: Bounds | None
    rewinds: Mapping[int, int]
    most: FloatArray
    known: Mapping[int, int] = field(init=False)

    def __post_init__(self) -> None:
        stopped_here = set(self.stopping.tolist())
        known = {p: rewind for p, rewind in self.rewinds.items() if p in stopped_here}
        object.__setattr__(self, "known", known)

    def stopped(
        self, stops: Int32Array, usual_ms: Bounds | None, *, longer_ms: Bounds | None = None
    ) -> Bounds | None:
        """Partition-seconds of a policy's rebalance.

        Args:
            stops: dense numbers of the partitions that stop in it.
            usual_ms: how long it takes, where the record does not tell.
            longer_ms: what it waited for members beyond that.
        """
        length_ms = self.length_ms or usual_ms
        if length_ms is not None and longer_ms is not None:
            length_ms = length_ms + longer_ms
        return stopped(len(stops), length_ms)

    def reread(self, stops: Int32Array) -> Bounds | None:
        """Records read twice in a policy's rebalance."""
        return reread(stops, self.known, self.most)

    def reread_as_recorded(self) -> Bounds | None:
        """The record's own sum."""
        return reread_recorded(self.rewinds)


def costs_of(
    scene: Scene,
    given: Assignment,
    clusters: ClusterHistory,
    pauses: Iterable[Pause],
    most: FloatArray,
    *,
    eager: bool,
) -> Costs:
    """Read off the record: which partitions stopped, for how long, and what they read twice.

    Args:
        scene: the rebalance.
        given: what the record assigned.
        clusters: the metadata over time.
        pauses: of this rebalance.
        most: see `Costs`.
        eager: whether its members gave everything up.
    """
    found = scene.generation
    cluster = clusters.at(found.timestamp_ms)
    members = found.first.members
    there = {m.owner for m in members}
    last = [scene.last.get(m.owner, EMPTY) for m in members]
    gone = [mine for owner, mine in scene.held.items() if owner not in there]
    size = cluster.index.partitions
    mine = given_by_member(given)
    now = [mine.get(m.id, EMPTY) for m in members]
    stops = stopping(
        owners(size, last, gone), owners(size, now), cluster.partition_exists, eager=eager
    )
    numbered = list(_numbered(pauses, clusters, cluster))
    mask = np.zeros(size, bool)
    mask[stops] = True
    rewinds = {p: one.rewind for p, one in numbered if one.rewind is not None}
    dead = _dead(scene)
    length_ms = length((one, dead.get(p, NOTHING)) for p, one in numbered if mask[p])
    return Costs(cluster, given, stops, length_ms, rewinds, most)


def _dead(scene: Scene) -> dict[int, Bounds]:
    """Dense number -> how long its owner had been dead, in ms; of the recorded timeouts."""
    out: dict[int, Bounds] = {}
    for one in scene.gone:
        if one.expired:
            silent = silence(session_timeout_ms(one.member))
            out |= dict.fromkeys(scene.held.get(one.member.owner, EMPTY).tolist(), silent)
    return out


def _numbered(
    pauses: Iterable[Pause], clusters: ClusterHistory, cluster: Cluster
) -> Iterator[tuple[int, Pause]]:
    """Pauses by dense number; without those between two topics of one name.

    A topic that is deleted and made anew begins at offset 0: nobody reads anything twice.
    """
    kept: list[Pause] = []
    topics: list[int] = []
    for one in pauses:
        topic = cluster.topic(one.topic)
        times = [t for t in (one.last_ms, one.first_ms) if t is not None]
        if topic < 0 or any(clusters.at(t).topic(one.topic) not in (topic, -1) for t in times):
            continue
        kept.append(one)
        topics.append(topic)
    numbers = np.array([one.partition for one in kept], np.int32)
    dense = cluster.index.locate_all(np.array(topics, np.int32), numbers)
    yield from ((p, one) for p, one in zip(dense.tolist(), kept, strict=True) if p >= 0)
