"""The cluster at one moment: its existing partitions and their replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.model.index import Index, Int32Array

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["Broker", "Cluster"]

#: Entries of a table of marks up to which marking is faster than sorting (64 MiB).
_SMALL_TABLE = 1 << 26


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker: its node id, and its rack if it has one.

    Attributes:
        fenced: registered with the controller, but fenced, so it leads no partition.
        directories: ids of its log directories, as KRaft registers them (KIP-858).

    >>> Broker(1, rack="a")
    Broker(id=1, rack='a')
    """

    id: int
    rack: str | None = None
    fenced: bool = field(default=False, repr=False)
    directories: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, eq=False)
class Cluster:
    """A mask over an `Index`, with replicas, leaders and racks.

    Attributes:
        index: the numbering.
        topic_exists: bool[T].
        partition_exists: bool[P]; partition numbers of a topic may have holes.
        leader: int32[P], position in ``brokers``, -1 for none or unknown.
        replica_start: int32[P + 1]; replica: int32[R], positions in ``brokers`` (CSR).
        brokers: all brokers that are mentioned.

    >>> cluster = Cluster.from_topics({"orders": 6, "clicks": 3})
    >>> cluster.partitions_of("clicks").tolist()
    [6, 7, 8]
    """

    index: Index
    topic_exists: NDArray[np.bool_]
    partition_exists: NDArray[np.bool_]
    leader: Int32Array
    replica_start: Int32Array
    replica: Int32Array
    brokers: tuple[Broker, ...]

    @classmethod
    def from_topics(cls, topics: Mapping[str, int | Sequence[Sequence[str | None]]]) -> Cluster:
        """Return a cluster of topics by name.

        Args:
            topics: for each topic its number of partitions, or the racks of each partition's
                replicas.

        Raises:
            InvalidProblemError: a count or a rack is malformed; the error has its path.

        >>> Cluster.from_topics({"t": [["a", "b"], ["b", None]]}).racks_of(1)
        ('b',)
        """
        from partage.model.reading import cluster_from_topics

        return cluster_from_topics(topics)

    @classmethod
    def from_json(cls, problem: Mapping[str, Any] | str | bytes | PathLike[str]) -> Cluster:
        """Read the ``topics`` of a problem from JSON text, parsed JSON, or a path to a file.

        Raises:
            InvalidProblemError: a field is wrong; the error has its path and value.
        """
        from partage.model.reading import cluster_from_topics, field, parsed

        return cluster_from_topics(field(parsed(problem), "topics"))

    @classmethod
    def from_metadata(
        cls,
        topics: Mapping[str, Mapping[str, Any]],
        brokers: Sequence[Mapping[str, Any]],
        index: Index | None = None,
    ) -> Cluster:
        """Return the cluster of a line of a capture's ``cluster.jsonl``.

        With ``index`` (the numbering of a whole history) the cluster is a mask over it; the
        index must have every topic (by id) and partition of the line.

        Raises:
            InvalidProblemError: a field is wrong; the error has its path and value.
        """
        from partage.model.metadata import cluster_from_metadata

        return cluster_from_metadata(topics, brokers, index)

    @cached_property
    def _live(self) -> dict[str, int]:
        return {self.index.topics[t]: int(t) for t in np.flatnonzero(self.topic_exists)}

    @cached_property
    def _by_topic(self) -> tuple[Int32Array, Int32Array]:
        """Existing partitions sorted by (topic, number), and the begin of each topic (CSR)."""
        alive = np.flatnonzero(self.partition_exists).astype(np.int32)
        topic, number = self.index.topic_of[alive], self.index.number_of[alive]
        if not np.array_equal(self.index.extent_topic, np.arange(len(self.index.extent_topic))):
            alive = alive[np.lexsort((number, topic))]  # a topic that grew has several extents
        start = np.searchsorted(self.index.topic_of[alive], np.arange(len(self.index.topics) + 1))
        return alive, start.astype(np.int32)

    def topic(self, name: str) -> int:
        """Return the number of the existing topic of this name, -1 if there is none."""
        return self._live.get(name, -1)

    def topic_all(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of many topics, -1 where there is none."""
        number = self._live.get
        return [number(name, -1) for name in names]

    def partitions_of(self, topic: str | int) -> Int32Array:
        """Return int32[n]: a topic's existing partitions, by partition number."""
        t = self.topic(topic) if isinstance(topic, str) else topic
        if t < 0 or not self.topic_exists[t]:
            return np.zeros(0, np.int32)
        alive, start = self._by_topic
        return alive[start[t] : start[t + 1]]

    @cached_property
    def rack_names(self) -> tuple[str, ...]:
        """Racks of the brokers, sorted.

        A broker may have the empty rack, but no member is ever on it: Kafka drops the empty
        rack of members only. The comparison of partitions' racks depends on it.
        """
        return tuple(sorted({b.rack for b in self.brokers if b.rack is not None}))

    @cached_property
    def partition_racks(self) -> tuple[Int32Array, Int32Array]:
        """CSR by partition of the distinct racks (positions in ``rack_names``) of its replicas."""
        number: dict[str | None, int] = {rack: i for i, rack in enumerate(self.rack_names)}
        of_broker = np.array([number.get(b.rack, -1) for b in self.brokers], np.int32)
        count = len(self.partition_exists)
        owner = np.repeat(np.arange(count, dtype=np.int64), np.diff(self.replica_start))
        rack = of_broker[self.replica] if len(self.replica) else np.zeros(0, np.int32)
        known = rack >= 0
        width = max(len(number), 1)
        keys = owner[known] * width + rack[known]
        if count * width <= _SMALL_TABLE:
            # Marking is many times faster than sorting or `numpy.unique`.
            present = np.zeros(count * width, bool)
            present[keys] = True
            keys = np.flatnonzero(present)
        else:
            keys.sort()
            keys = keys[np.diff(keys, prepend=-1) > 0]
        start = np.zeros(count + 1, np.int32)
        np.cumsum(np.bincount(keys // width, minlength=count), out=start[1:])
        return start, (keys % width).astype(np.int32)

    def racks_of(self, partition: int) -> tuple[str, ...]:
        """Return the names of the distinct racks that hold a replica of a partition."""
        start, rack = self.partition_racks
        return tuple(self.rack_names[r] for r in rack[start[partition] : start[partition + 1]])
