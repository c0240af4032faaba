"""Tasks of an application with their partitions, and the topics that it makes for itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from partage.errors import InvalidTopologyError
from partage.java.strings import string_order_key
from partage.streams.hashing import tasks_in_hash_order
from partage.streams.ids import TaskId
from partage.streams.repartition import missing_sources, repartition_counts
from partage.streams.topology import Subtopology, Topology

__all__ = ["Layout", "TopicPartition", "partition_order_key"]

TopicPartition = tuple[str, int]


def partition_order_key(partition: TopicPartition) -> tuple[bytes, int]:
    """A sort key for Kafka's order of partitions: by topic, then number."""
    return string_order_key(partition[0]), partition[1]


@dataclass(frozen=True)
class Layout:
    """What a topology comes to on a cluster.

    Attributes:
        partitions_of: source partitions of each task, sorted; the tasks are in the order in
            which Kafka's leader makes them.
        changelogs_of: changelog partitions of each stateful task, sorted.
        with_stores: tasks with a store, logged or not.
        internal: every topic that the application makes for itself -> partitions.
        to_create: those of them that do not exist.
        source_changelogs: changelog topics that are sources too; they are read up to the
            group's committed offset.
        excluded: named topologies that wait for topics, with those topics.
        named: whether topologies have names.
    """

    partitions_of: dict[TaskId, tuple[TopicPartition, ...]]
    changelogs_of: dict[TaskId, tuple[TopicPartition, ...]]
    with_stores: tuple[TaskId, ...]
    internal: dict[str, int]
    to_create: dict[str, int]
    source_changelogs: frozenset[str]
    excluded: dict[str, tuple[str, ...]]
    named: bool

    @classmethod
    def of(
        cls, topology: Topology, counts: Mapping[str, int], *, changelogs_too: bool = True
    ) -> Layout:
        """Lay the topology out.

        A sub-topology has as many tasks as its largest source has partitions; task g_p reads
        partition p of every source that has one, and owns partition p of each changelog.

        Args:
            topology: of the application.
            counts: partition counts of all topics of the cluster, internal ones included.
            changelogs_too: whether the counts of changelogs are checked now; a leader looks at
                its members' versions before it makes them.

        Raises:
            InvalidTopologyError: a source topic is missing (code 1; of named topologies only
                those that lack one are left out), counts cannot be told or joined topics
                differ (see `repartition_counts`), a source has no partitions, or an internal
                topic exists with another count.

        >>> word_count = Topology([
        ...     Subtopology(0, ("lines",), sinks=("by-word",)),
        ...     Subtopology(1, ("by-word",), repartition={"by-word": None}, changelogs=("counts",)),
        ... ])
        >>> layout = Layout.of(word_count, {"lines": 2})
        >>> [str(task) for task in layout.partitions_of], layout.to_create
        (['1_0', '1_1', '0_0', '0_1'], {'by-word': 2, 'counts': 2})
        """
        excluded = _waiting(topology, counts)
        there = [one for one in topology.subtopologies if (one.topology or "") not in excluded]
        found = repartition_counts(there, topology.copartitioned, counts)
        sizes = {**counts, **found}
        partitions_of: dict[TaskId, tuple[TopicPartition, ...]] = {}
        changelogs_of: dict[TaskId, tuple[TopicPartition, ...]] = {}
        with_stores: list[TaskId] = []
        internal = dict(found)
        for one in topology.in_map_order(there):
            tasks = _tasks(one, sizes)
            partitions_of |= tasks
            with_stores += tasks if one.stateful else ()
            if one.changelogs:
                for task in tasks:
                    changelogs_of[task] = _sorted(
                        (topic, task.partition) for topic in one.changelogs
                    )
                made = (topic for topic in one.changelogs if topic not in one.sources)
                internal |= dict.fromkeys(made, len(tasks))
        _check_counts(found, counts)
        made_layout = cls(
            partitions_of,
            changelogs_of,
            tuple(with_stores),
            dict(sorted(internal.items())),
            {topic: n for topic, n in sorted(internal.items()) if topic not in counts},
            frozenset(t for one in there for t in one.changelogs if t in one.sources),
            excluded,
            topology.named,
        )
        if changelogs_too:
            made_layout.check_counts(counts)
        return made_layout

    def check_counts(self, counts: Mapping[str, int]) -> None:
        """Raise InvalidTopologyError if an internal topic exists with another partition count."""
        _check_counts(self.internal, counts)

    @cached_property
    def task_arrival(self) -> list[TaskId]:
        """All tasks as the keys of the leader's map are walked."""
        return tasks_in_hash_order(self.partitions_of)

    @cached_property
    def task_of(self) -> dict[TopicPartition, TaskId]:
        """The task of each source partition."""
        return {one: task for task in self.task_arrival for one in self.partitions_of[task]}


def _waiting(topology: Topology, counts: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    missing = missing_sources(topology, counts)
    if missing and not topology.named:
        raise InvalidTopologyError(
            "are read by the topology and do not exist: create them",
            topics=[topic for _, topics in missing for topic in topics],
            java_exception="MissingSourceTopicException",
            code=1,
        )
    waiting: dict[str, tuple[str, ...]] = {}
    for one, topics in missing:
        name = one.topology or ""
        waiting[name] = waiting.get(name, ()) + topics
    return waiting


def _tasks(one: Subtopology, sizes: Mapping[str, int]) -> dict[TaskId, tuple[TopicPartition, ...]]:
    empty = [topic for topic in one.sources if sizes.get(topic, 0) < 1]
    if empty:
        raise InvalidTopologyError(
            "has no partitions", topics=empty, java_exception="RuntimeException"
        )
    most = max((sizes[topic] for topic in one.sources), default=0)
    return {
        TaskId(one.number, number, one.topology): _sorted(
            (topic, number) for topic in one.sources if number < sizes[topic]
        )
        for number in range(most)
    }


def _sorted(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(set(partitions), key=partition_order_key))


def _check_counts(internal: Mapping[str, int], counts: Mapping[str, int]) -> None:
    wrong = [topic for topic, count in internal.items() if counts.get(topic, count) != count]
    if wrong:
        said = ", ".join(f"{topic} has {counts[topic]}, not {internal[topic]}" for topic in wrong)
        raise InvalidTopologyError(
            f"exist with another partition count ({said}): reset the application",
            topics=wrong,
            java_exception="StreamsException",
        )
