"""What simple builds up: for each member its topics, for each topic a set that may be empty."""

from __future__ import annotations

import numpy as np

from partage.groups.server.answer import Answer
from partage.groups.server.sharing import old_targets
from partage.groups.server.spec import GroupSpec

__all__ = ["SharingResult"]


class SharingResult:
    """Members by number (their position in the coordinator's map), partitions dense.

    Attributes:
        old: for each member its old sets, in the order of Java's maps: (topic, partitions).
    """

    def __init__(self, spec: GroupSpec, only: frozenset[int] | None = None) -> None:
        """Old targets, of some topics only or of all."""
        self._spec = spec
        self._topic_of = spec.problem.index.topic_of.tolist()
        self.old = [
            [pair for pair in sets if only is None or pair[0] in only] for sets in old_targets(spec)
        ]
        self.sets: list[dict[int, set[int]]] = [
            {topic: set(partitions) for topic, partitions in sets} for sets in self.old
        ]

    def give(self, member: int, partition: int) -> None:
        """A member gets a partition."""
        self.sets[member].setdefault(self._topic_of[partition], set()).add(partition)

    def take(self, member: int, partition: int) -> None:
        """A member loses a partition; a set that is empty then stays."""
        self.sets[member][self._topic_of[partition]].discard(partition)

    def answer(self) -> Answer:
        """By member in join order; topics that the index does not have are nobody's."""
        spec = self._spec
        lists: list[list[int]] = [[] for _ in range(spec.members)]
        emptied = []
        for number, mine in enumerate(self.sets):
            member = spec.visit[number]
            for topic, partitions in mine.items():
                lists[member] += sorted(partitions)
                if not partitions and topic >= 0:
                    emptied.append((member, topic))
        start = np.zeros(spec.members + 1, np.int32)
        np.cumsum([len(one) for one in lists], out=start[1:])
        partition = np.array([p for one in lists for p in one], np.int32)
        return Answer(start, partition, emptied=tuple(emptied))
