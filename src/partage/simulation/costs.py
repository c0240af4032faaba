"""What a rebalance of a policy costs: seconds stopped and records read twice, from the evidence."""

from __future__ import annotations

from dataclasses import dataclass, field

from partage.model import Assignment, Cluster
from partage.model.index import Int32Array
from partage.simulation.consumers import EMPTY, owners
from partage.simulation.evidence import Evidence
from partage.simulation.lived import Bounds
from partage.simulation.rereads import reread, reread_recorded
from partage.simulation.scenes import Scene
from partage.simulation.stopped import length, stopped, stopping

__all__ = ["Costs", "RecordedCost", "recorded_cost"]

_Partition = tuple[str, int]


@dataclass(frozen=True)
class RecordedCost:
    """What the record tells of one rebalance; every policy's costs are reckoned from it.

    Attributes:
        stopping: dense numbers of the partitions that stopped in the record.
        names: the same by (topic, partition).
        length_ms: how long, None if no commit tells.
        rewinds: (topic, partition) -> records read twice.
    """

    stopping: Int32Array
    names: frozenset[_Partition]
    length_ms: Bounds | None
    rewinds: dict[_Partition, int] = field(default_factory=dict)


def recorded_cost(
    scene: Scene, given: Assignment, cluster: Cluster, evidence: Evidence, *, eager: bool
) -> RecordedCost:
    """Read off the record: which partitions stopped by its own protocol, and for how long.

    Args:
        scene: the rebalance.
        given: what the record assigned.
        cluster: the metadata at that time.
        evidence: of the group.
        eager: whether its members gave everything up.
    """
    found = scene.generation
    members = found.first.members
    there = {m.owner for m in members}
    last = [scene.last.get(m.owner, EMPTY) for m in members]
    gone = [mine for owner, mine in scene.held.items() if owner not in there]
    size = cluster.index.partitions
    now = [given.partitions_of(i) for i in range(len(members))]
    stops = stopping(
        owners(size, last, gone), owners(size, now), cluster.partition_exists, eager=eager
    )
    key = (found.incarnation, found.number)
    names = frozenset(_names(stops, cluster))
    pauses = evidence.of_rebalance(*key)
    return RecordedCost(stops, names, length(pauses, names), evidence.rewinds(*key))


def _names(dense: Int32Array, cluster: Cluster) -> list[_Partition]:
    topics, index = cluster.index.topics, cluster.index
    numbers = index.number_of[dense].tolist()
    return [(topics[t], p) for t, p in zip(index.topic_of[dense].tolist(), numbers, strict=True)]


@dataclass(frozen=True)
class Costs:
    """Costs of one recorded rebalance under any policy.

    Attributes:
        recorded: what the record tells of it.
        length_ms: how long a rebalance of it takes; the group's usual length if the record
            does not tell.
        evidence: of the group.
        cluster: the metadata at that time.
        given: what the record assigned.
    """

    recorded: RecordedCost
    length_ms: Bounds | None
    evidence: Evidence
    cluster: Cluster
    given: Assignment

    def stopped(self, stops: Int32Array, *, longer_ms: Bounds | None = None) -> Bounds | None:
        """Partition-seconds; ``longer_ms`` is what a rebalance waited for members beyond that."""
        length_ms = self.length_ms
        if length_ms is not None and longer_ms is not None:
            length_ms = length_ms + longer_ms
        return stopped(len(stops), length_ms)

    def reread(self, stops: Int32Array) -> Bounds | None:
        """Records read twice."""
        mine, of = self.recorded, self.evidence
        return reread(_names(stops, self.cluster), mine.rewinds, mine.names, of.rates, of.intervals)

    def reread_as_recorded(self) -> Bounds | None:
        """The record's own sum."""
        return reread_recorded(self.recorded.rewinds)
