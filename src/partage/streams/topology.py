"""A Kafka Streams topology, and its tasks and internal topics on a cluster.

`Topology` describes an application's sub-topologies. `TopologyLayout.for_partition_counts` applies
it to the partition counts of a cluster: which tasks exist, which partitions each task reads, and
which repartition and changelog topics the application creates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from partage.errors import InvalidProblemError, InvalidTopologyError
from partage.java.hash_order import hash_order, names_in_map_order
from partage.java.strings import string_hash
from partage.streams.task_ids import TaskId
from partage.wire.streams.arrays import TopicPartition, partition_order_key, tasks_in_hash_order

__all__ = [
    "Subtopology",
    "TopicPartition",
    "Topology",
    "TopologyLayout",
    "repartition_counts",
]


@dataclass(frozen=True)
class Subtopology:
    """Sub-topology of a Kafka Streams application, with its source, sink and changelog topics.

    It is a set of connected processors, which run as one task per partition. Kafka's class is
    ``TopicsInfo``.

    Attributes:
        number: number of the sub-topology, the first part of its task ids.
        sources: topics that it reads, including repartition topics.
        sinks: topics that it writes.
        repartition: dict from each repartition topic among its sources to the partition count that
            the user fixed; None if Kafka derives the count.
        changelogs: changelog topics of its stores. A changelog that is a source topic as well is
            not created.
        stores: names of its stores, with or without a changelog; None: one store for each
            changelog.
        topology: name of its topology, None where topologies have no names.
    """

    number: int
    sources: tuple[str, ...]
    sinks: tuple[str, ...] = ()
    repartition: Mapping[str, int | None] = field(default_factory=dict)
    changelogs: tuple[str, ...] = ()
    stores: tuple[str, ...] | None = None
    topology: str | None = None

    def __post_init__(self) -> None:
        where = f"subtopologies.{self.number}"
        for topic, count in self.repartition.items():
            if topic not in self.sources:
                raise InvalidProblemError(
                    "must be one of its sources too", path=f"{where}.repartition", value=topic
                )
            if count is not None and count < 1:
                raise InvalidProblemError(
                    "must be at least 1", path=f"{where}.repartition.{topic}", value=count
                )

    @property
    def has_state(self) -> bool:
        """True if the Kafka Streams sub-topology has a state store (``isStateful`` of KIP-924).

        Its tasks must then restore their state when they move to another client.
        """
        return bool(self.changelogs if self.stores is None else self.stores)

    @property
    def user_source_topics(self) -> tuple[str, ...]:
        """Source topics of a Kafka Streams sub-topology that the user must create.

        They are all source topics but the repartition topics.
        """
        return tuple(topic for topic in self.sources if topic not in self.repartition)


class Topology:
    """Topology of a Kafka Streams application: its sub-topologies and co-partitioned topics.

    Each sub-topology has its own tasks, one for each partition of its source topics.

    Attributes:
        subtopologies: sub-topologies by (topology, number).
        copartitioned: sets of topics that must have equal partition counts.
        named: whether topologies have names.

    Raises:
        InvalidProblemError: a sub-topology is listed twice, or only some of them have the name of a
            topology.
        InvalidTopologyError: two sub-topologies read the same source topic.

    >>> Topology([Subtopology(1, ("b",)), Subtopology(0, ("a",))]).subtopologies[0].sources
    ('a',)
    """

    def __init__(
        self,
        subtopologies: Iterable[Subtopology],
        copartitioned: Iterable[Iterable[str]] = (),
    ) -> None:
        self.subtopologies = tuple(
            sorted(subtopologies, key=lambda one: (one.topology or "", one.number))
        )
        self.copartitioned = tuple(frozenset(topics) for topics in copartitioned)
        names = [(one.topology, one.number) for one in self.subtopologies]
        if len(set(names)) < len(names):
            duplicate = next(name for name in names if names.count(name) > 1)
            raise InvalidProblemError("is there twice", path="subtopologies", value=duplicate)
        kinds = {one.topology is None for one in self.subtopologies}
        if len(kinds) > 1:
            raise InvalidProblemError(
                "must all have a topology's name or none", path="subtopologies", value=names
            )
        self.named = kinds == {False}
        self._check_readers()

    def _check_readers(self) -> None:
        reader: dict[str, Subtopology] = {}
        for one in self.subtopologies:
            for topic in one.sources:
                other = reader.setdefault(topic, one)
                if other is not one and other.topology == one.topology:
                    raise InvalidTopologyError(
                        f"is read by sub-topologies {other.number} and {one.number}; "
                        "sub-topologies with a source in common are one",
                        topics=[topic],
                        java_exception="TopologyException",
                    )

    def in_map_order(self, subtopologies: Iterable[Subtopology]) -> list[Subtopology]:
        """Sort Kafka Streams sub-topologies in the iteration order of a Java ``HashMap``.

        The map is keyed by sub-topology number and topology name.
        """
        given = list(subtopologies)
        hashes = [
            961 + 31 * one.number + (0 if one.topology is None else string_hash(one.topology))
            for one in given
        ]
        return [given[place] for place in hash_order(hashes, rank=lambda: range(len(given)))]

    def missing_sources(
        self, counts: Mapping[str, int]
    ) -> list[tuple[Subtopology, tuple[str, ...]]]:
        """Return the missing source topics of each Kafka Streams sub-topology that lacks some.

        Topics that the application itself creates do not count.

        Args:
            counts: partition counts of the cluster's topics.

        >>> Topology([Subtopology(0, ("lines", "more"))]).missing_sources({"lines": 2})[0][1]
        ('more',)
        """
        absent = [
            (one, tuple(topic for topic in one.user_source_topics if topic not in counts))
            for one in self.subtopologies
        ]
        return [(one, topics) for one, topics in absent if topics]


@dataclass(frozen=True)
class TopologyLayout:
    """Tasks of a Kafka Streams application, and the internal topics that it needs.

    They follow from its topology and from the partition counts of a cluster's topics.

    Attributes:
        partitions_of: source partitions of each task, sorted; the tasks are in the order in
            which Kafka's leader creates them.
        changelogs_of: changelog partitions of each stateful task, sorted.
        with_stores: tasks with a store, logged or not.
        internal: partition count of every topic that the application creates for itself.
        to_create: the internal topics that do not exist, with their partition counts.
        source_changelogs: changelog topics that are source topics as well. They are restored
            up to the group's committed offset.
        excluded: named topologies with missing source topics, with those topics.
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
    def for_partition_counts(
        cls, topology: Topology, counts: Mapping[str, int], *, check_changelogs: bool = True
    ) -> TopologyLayout:
        """Compute the tasks and internal topics of a Kafka Streams application.

        They follow from the partition counts. A sub-topology has as many tasks as its largest
        source topic has partitions. Task number p reads partition p of each source topic that has
        such a partition, and owns partition p of each changelog.

        Args:
            topology: sub-topologies of the application.
            counts: partition counts of all topics of the cluster, including internal ones.
            check_changelogs: whether existing changelog topics are checked now. The leader
                checks its members' versions first and calls `check_counts` later.

        Raises:
            InvalidTopologyError: a source topic is missing (code 1; a named topology with a
                missing topic is left out instead), counts cannot be derived or joined topics
                differ (see `repartition_counts`), a source topic has no partitions, or an
                internal topic exists with another count.

        >>> word_count = Topology([
        ...     Subtopology(0, ("lines",), sinks=("by-word",)),
        ...     Subtopology(1, ("by-word",), repartition={"by-word": None}, changelogs=("counts",)),
        ... ])
        >>> layout = TopologyLayout.for_partition_counts(word_count, {"lines": 2})
        >>> [str(task) for task in layout.partitions_of], layout.to_create
        (['1_0', '1_1', '0_0', '0_1'], {'by-word': 2, 'counts': 2})
        """
        excluded = _excluded(topology, counts)
        complete = [one for one in topology.subtopologies if (one.topology or "") not in excluded]
        repartition = repartition_counts(complete, topology.copartitioned, counts)
        sizes = {**counts, **repartition}
        partitions_of: dict[TaskId, tuple[TopicPartition, ...]] = {}
        changelogs_of: dict[TaskId, tuple[TopicPartition, ...]] = {}
        with_stores: list[TaskId] = []
        internal = dict(repartition)
        for one in topology.in_map_order(complete):
            tasks = _tasks(one, sizes)
            partitions_of |= tasks
            with_stores += tasks if one.has_state else ()
            if one.changelogs:
                for task in tasks:
                    changelogs_of[task] = _sorted(
                        (topic, task.partition) for topic in one.changelogs
                    )
                created = (topic for topic in one.changelogs if topic not in one.sources)
                internal |= dict.fromkeys(created, len(tasks))
        _check_counts(repartition, counts)
        layout = cls(
            partitions_of,
            changelogs_of,
            tuple(with_stores),
            dict(sorted(internal.items())),
            {topic: n for topic, n in sorted(internal.items()) if topic not in counts},
            frozenset(t for one in complete for t in one.changelogs if t in one.sources),
            excluded,
            topology.named,
        )
        if check_changelogs:
            layout.check_counts(counts)
        return layout

    def check_counts(self, counts: Mapping[str, int]) -> None:
        """Check the partition counts of a Kafka Streams application's internal topics.

        Internal topics that do not exist yet are ignored. ``counts`` has the partition count of
        each topic of the cluster.

        Raises:
            InvalidTopologyError: an internal topic has another partition count.
        """
        _check_counts(self.internal, counts)

    @cached_property
    def task_arrival(self) -> list[TaskId]:
        """Kafka Streams tasks in the order in which the group leader passes them to the assignor.

        This is the iteration order of a Java ``HashMap``.
        """
        return tasks_in_hash_order(self.partitions_of)

    @cached_property
    def task_of(self) -> dict[TopicPartition, TaskId]:
        """Kafka Streams task that reads each source partition, as a dict by (topic, partition).

        A task reads the partitions with the same number of all source topics of its sub-topology.
        """
        return {one: task for task in self.task_arrival for one in self.partitions_of[task]}


def _excluded(topology: Topology, counts: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    # Without names the application is one topology, so a missing source topic is an error.
    missing = topology.missing_sources(counts)
    if missing and not topology.named:
        raise InvalidTopologyError(
            "are read by the topology and do not exist: create them",
            topics=[topic for _, topics in missing for topic in topics],
            java_exception="MissingSourceTopicException",
            code=1,
        )
    excluded: dict[str, tuple[str, ...]] = {}
    for one, topics in missing:
        name = one.topology or ""
        excluded[name] = excluded.get(name, ()) + topics
    return excluded


def _tasks(
    subtopology: Subtopology, sizes: Mapping[str, int]
) -> dict[TaskId, tuple[TopicPartition, ...]]:
    empty = [topic for topic in subtopology.sources if sizes.get(topic, 0) < 1]
    if empty:
        raise InvalidTopologyError(
            "has no partitions", topics=empty, java_exception="RuntimeException"
        )
    most = max((sizes[topic] for topic in subtopology.sources), default=0)
    return {
        TaskId(subtopology.number, number, subtopology.topology): _sorted(
            (topic, number) for topic in subtopology.sources if number < sizes[topic]
        )
        for number in range(most)
    }


def _sorted(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(set(partitions), key=partition_order_key))


def _check_counts(internal: Mapping[str, int], counts: Mapping[str, int]) -> None:
    wrong = [topic for topic, count in internal.items() if counts.get(topic, count) != count]
    if wrong:
        listed = ", ".join(f"{topic} has {counts[topic]}, not {internal[topic]}" for topic in wrong)
        raise InvalidTopologyError(
            f"exist with another partition count ({listed}): reset the application",
            topics=wrong,
            java_exception="StreamsException",
        )


def repartition_counts(
    subtopologies: Iterable[Subtopology],
    copartitioned: Iterable[frozenset[str]],
    counts: Mapping[str, int],
) -> dict[str, int]:
    """Compute the partition count of each repartition topic, as Kafka Streams does.

    A topic gets the largest partition count among the source topics of the sub-topologies that
    write it. Source topics whose count is not known yet are ignored if another one is known.
    Afterwards the topics of each co-partitioned set get equal counts. A count that the user fixed
    does not change.

    Kafka walks sub-topologies in the order of a hash over their topics' settings. This function
    walks them in the order given. The counts can differ where a topic gets its count while another
    source of the same writer has none (4 % of the random topologies of
    ``tests/parity/test_streams_topics.py`` give another result in some order).

    Args:
        subtopologies: sub-topologies whose source topics all exist.
        copartitioned: sets of topics that must have equal counts.
        counts: partition counts of the cluster's topics.

    Raises:
        InvalidTopologyError: a count cannot be derived (a cycle of repartition topics, or a
            topic that no sub-topology writes), or joined topics have different counts. The
            error names the topics.

    Source: ``RepartitionTopics`` and ``CopartitionedTopicsEnforcer`` 4.3.1.

    >>> from partage.streams import Subtopology
    >>> subtopologies = [Subtopology(0, ("lines",), sinks=("again",)),
    ...                  Subtopology(1, ("again",), repartition={"again": None})]
    >>> repartition_counts(subtopologies, [], {"lines": 3})
    {'again': 3}
    """
    every = list(subtopologies)
    known = {topic: count for one in every for topic, count in one.repartition.items()}
    fixed = {topic for topic, count in known.items() if count is not None}
    order = [topic for one in every for topic in _in_map_order(list(one.repartition))]
    while unknown := [topic for topic in order if known[topic] is None]:
        has_progress = False
        for topic in unknown:
            count = _largest_upstream(topic, every, known, counts)
            if count is not None:
                known[topic], has_progress = count, True
        if not has_progress:
            raise _underivable(unknown, every)
    derived = {topic: count for topic, count in known.items() if count is not None}
    for topics in copartitioned:
        _enforce_copartitioning(topics, derived, fixed, counts)
    return derived


def _underivable(unknown: list[str], subtopologies: Iterable[Subtopology]) -> InvalidTopologyError:
    written = {topic for one in subtopologies for topic in one.sinks}
    unwritten = [topic for topic in unknown if topic not in written]
    why = (
        f"nothing writes {', '.join(unwritten)} (no sub-topology has it as a sink)"
        if unwritten
        else "they depend on each other in a circle"
    )
    return InvalidTopologyError(
        f"partition counts cannot be derived: {why}; repartition one with a fixed count",
        topics=unknown,
        code=3,
    )


def _in_map_order(topics: list[str]) -> list[str]:
    # As a Java HashMap iterates. The order matters where two of them have no count and one is
    # upstream of the other.
    return [topics[place] for place in names_in_map_order(topics)]


def _largest_upstream(
    topic: str,
    subtopologies: Iterable[Subtopology],
    known: Mapping[str, int | None],
    counts: Mapping[str, int],
) -> int | None:
    # None if no source of the topic's writers has a known count.
    largest: int | None = None
    for writer in subtopologies:
        if topic not in writer.sinks:
            continue
        for source in writer.sources:
            count = known[source] if source in known else _external_count(source, counts)
            if count is not None and (largest is None or count > largest):
                largest = count
    return largest


def _external_count(topic: str, counts: Mapping[str, int]) -> int:
    if topic not in counts:
        raise InvalidTopologyError("has no known partition count", topics=[topic], code=3)
    return counts[topic]


def _enforce_copartitioning(
    topics: frozenset[str], derived: dict[str, int], fixed: set[str], counts: Mapping[str, int]
) -> None:
    """Give equal partition counts to repartition topics of Kafka Streams that are joined by key.

    A set of topics that are joined by key is called co-partitioned.

    Args:
        topics: the co-partitioned set.
        derived: partition counts of the repartition topics so far; changed in place.
        fixed: repartition topics whose counts the user has set, which do not change.
        counts: partition counts of the cluster's topics, which do not change either.
    """
    internal = sorted(topic for topic in topics if topic in derived)
    external = sorted(topic for topic in topics if topic not in derived)
    absent = [topic for topic in external if topic not in counts]
    if absent:
        raise InvalidTopologyError(
            "must be joined, but do not exist",
            topics=absent,
            java_exception="IllegalStateException",
        )
    # The count is that of the external topics, else the one that the user fixed, else the largest.
    if external:
        _check_equal(external, counts, "are joined, but have {}")
        target = counts[external[0]]
    elif given := [topic for topic in internal if topic in fixed]:
        _check_equal(given, derived, "are joined, but fixed at {}")
        target = derived[given[0]]
    else:
        target = max((derived[topic] for topic in internal), default=0)
    for topic in internal:
        if topic not in fixed:
            derived[topic] = target
        elif derived[topic] != target:
            raise InvalidTopologyError(
                f"is fixed at {derived[topic]} partitions, and joined with topics of {target}",
                topics=[topic],
                java_exception="TopologyException",
            )


def _check_equal(topics: list[str], counts: Mapping[str, int], message: str) -> None:
    if len({counts[topic] for topic in topics}) > 1:
        listed = ", ".join(f"{topic}={counts[topic]}" for topic in topics)
        raise InvalidTopologyError(
            message.format(f"unequal partition counts: {listed}"),
            topics=topics,
            java_exception="TopologyException",
        )
