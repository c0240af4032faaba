"""Arrays of Kafka Streams tasks and partitions, for user data of large applications.

100,000 tasks with a number each take 1.6 MB as arrays and 20 MB as a dict. A task is the tuple
``(subtopology, partition, topology)``, with None as topology where topologies have no names;
``partage.streams.TaskId`` is such a tuple. A partition is the tuple ``(topic, partition)``.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.java.hash_order import DEFAULT_TABLE, copied_hash_set_table, hash_order
from partage.java.strings import string_hash, string_order_key
from partage.wire.errors import EncodingError

__all__ = [
    "NO_HOSTS", "NO_LISTS", "NO_TASKS", "NO_VALUES", "Host", "HostPartitions", "PartitionLists",
    "PartitionListsBuilder", "TaskArrays", "TaskKey", "TaskValues", "TasksBuilder",
    "TopicPartition", "merge_unnamed", "partition_order_key", "task_hash", "task_order_key",
    "tasks_in_hash_order",
]  # fmt: skip

Value = TypeVar("Value")
TaskKey = tuple[int, int, "str | None"]
Task = TypeVar("Task", bound=TaskKey)
TopicPartition = tuple[str, int]
Host = tuple[str, int]

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

_UNNAMED = -1


# --- tasks -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TaskArrays:
    """A list of Kafka Streams tasks as arrays, in the encoded order and with duplicates.

    A task has a sub-topology number and a partition number.

    Attributes:
        subtopology: sub-topology number of each task (int32[n]).
        partition: partition number of each task (int32[n]).
        topology: index of each task's topology in ``topologies``, -1 for no name (int32[n]); None
            if no task has a name.
        topologies: the distinct names of topologies.

    >>> list(TaskArrays.from_tasks([(0, 2), (1, 0, "ab")]))
    [(0, 2, None), (1, 0, 'ab')]
    """

    subtopology: Int32s
    partition: Int32s
    topology: Int32s | None = None
    topologies: tuple[str, ...] = ()

    @classmethod
    def from_tasks(cls, tasks: Iterable[tuple[int, int] | TaskKey]) -> TaskArrays:
        """Convert Kafka Streams tasks from tuples (sub-topology, partition) to arrays.

        A tuple may have the topology's name as third element.

        Raises:
            EncodingError: an element is not a task of int32 numbers with a string or None as name.
        """
        builder = TasksBuilder()
        for index, task in enumerate(tasks):
            try:
                name: object = task[2] if len(task) > 2 else None
                if name is not None and not isinstance(name, str):
                    _fail_on_task(task, index)
                builder.add_task(task[0], task[1], name or None)
            except (TypeError, OverflowError, LookupError):
                _fail_on_task(task, index)
        return builder.build_tasks()

    def without_empty_names(self) -> TaskArrays:
        """Return a copy with None in place of empty topology names, as Kafka's ``TaskId``
        has it.
        """
        return TaskArrays.from_tasks(self) if "" in self.topologies else self

    def __len__(self) -> int:
        return len(self.subtopology)

    def __iter__(self) -> Iterator[TaskKey]:
        names: list[str | None] = [*self.topologies, None]  # index -1 is the last
        if self.topology is None:
            for pair in zip(self.subtopology.tolist(), self.partition.tolist(), strict=True):
                yield (*pair, None)
            return
        columns = (self.subtopology, self.partition, self.topology)
        for subtopology, partition, name in zip(*(c.tolist() for c in columns), strict=True):
            yield subtopology, partition, names[name]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaskArrays):
            return NotImplemented
        if self.topology is None and other.topology is None:
            return np.array_equal(self.subtopology, other.subtopology) and np.array_equal(
                self.partition, other.partition
            )
        return list(self) == list(other)

    def __hash__(self) -> int:
        return hash((self.subtopology.tobytes(), self.partition.tobytes()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)[:8]}{', …' if len(self) > 8 else ''})"

    @property
    def memory_bytes(self) -> int:
        """Memory that the arrays use, in bytes."""
        named = 0 if self.topology is None else self.topology.nbytes
        return self.subtopology.nbytes + self.partition.nbytes + named

    @cached_property
    def _sorted(self) -> tuple[Int64s, NDArray[np.intp]]:
        # Sub-topology and partition are packed into one int64; the second array has the indices in
        # the list.
        packed = self.subtopology.astype(np.int64) << 32 | self.partition.astype(np.int64) & (
            0xFFFFFFFF
        )
        order = np.argsort(packed, kind="stable")
        return packed[order], order

    def last_index(self, task: tuple[int, int] | TaskKey) -> int | None:
        """Return the index of a task's last occurrence in the list, or None if the list lacks it.

        >>> TaskArrays.from_tasks([(0, 2), (0, 3), (0, 2)]).last_index((0, 2))
        2
        """
        name = task[2] if len(task) > 2 else None
        packed, order = self._sorted
        wanted = task[0] << 32 | task[1] & 0xFFFFFFFF
        low, high = np.searchsorted(packed, [wanted, wanted + 1]).tolist()
        for index in reversed(order[low:high].tolist()):
            topology = _UNNAMED if self.topology is None else int(self.topology[index])
            if (None if topology == _UNNAMED else self.topologies[topology]) == name:
                return int(index)
        return None


class TasksBuilder:
    """Builder of a `TaskArrays` object, to which tasks are added one by one.

    It grows compact arrays and needs no Python object for each task.
    """

    def __init__(self) -> None:
        self._subtopology, self._partition, self._topology = array("i"), array("i"), array("i")
        self._names: dict[str, int] = {}

    def add_task(self, subtopology: int, partition: int, name: str | None) -> None:
        """Append one Kafka Streams task to the list.

        ``subtopology`` and ``partition`` are its numbers. ``name`` is the name of its topology, or
        None.
        """
        self._subtopology.append(subtopology)
        self._partition.append(partition)
        code = _UNNAMED if name is None else self._names.setdefault(name, len(self._names))
        self._topology.append(code)

    def build_tasks(self) -> TaskArrays:
        """Return all added Kafka Streams tasks as a `TaskArrays` object."""
        return TaskArrays(
            np.array(self._subtopology, np.int32),
            np.array(self._partition, np.int32),
            np.array(self._topology, np.int32) if self._names else None,
            tuple(self._names),
        )


def _fail_on_task(task: object, index: int) -> NoReturn:
    what = "not a task (int32 subtopology, int32 partition, topology or None)"
    raise EncodingError(f"{what}: {task!r:.80}", offset=0, field=f"tasks[{index}]") from None


@dataclass(frozen=True, eq=False)
class TaskValues:
    """An integer for each Kafka Streams task of a list, such as its offset sum or lag.

    ``value`` has one element for each of ``tasks`` (int64[n]). If a task occurs twice, lookups
    return its last value.

    >>> sums = TaskValues.from_mapping({(0, 2): 5, (1, 0): -2})
    >>> sums[1, 0], sums.get((9, 9)), len(sums)
    (-2, None, 2)
    """

    tasks: TaskArrays
    value: Int64s

    @classmethod
    def from_mapping(
        cls, values: Mapping[tuple[int, int], int] | Mapping[TaskKey, int] | TaskValues
    ) -> TaskValues:
        """Convert a dict from Kafka Streams task to integer (int64) to arrays, in the order of the
        dict.

        Raises:
            EncodingError: a value is not an int64, or a key is not a task.
        """
        if isinstance(values, TaskValues):
            return values
        numbers = array("q")
        merged = merge_unnamed(values)
        for task, value in merged.items():
            try:
                numbers.append(value)
            except (TypeError, OverflowError):
                what = f"not an int64: {value!r:.80}"
                raise EncodingError(what, offset=0, field=f"values.{task}") from None
        return cls(TaskArrays.from_tasks(merged), np.array(numbers, np.int64))

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[tuple[TaskKey, int]]:
        return zip(self.tasks, self.value.tolist(), strict=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaskValues):
            return NotImplemented
        return np.array_equal(self.value, other.value) and self.tasks == other.tasks

    def __hash__(self) -> int:
        return hash(self.value.tobytes())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)[:8]}{', …' if len(self) > 8 else ''})"

    def __getitem__(self, task: tuple[int, int] | TaskKey) -> int:
        value = self.get(task)
        if value is None:
            raise KeyError(task)
        return value

    def get(self, task: tuple[int, int] | TaskKey) -> int | None:
        """Return the value of a Kafka Streams task, or None if there is none.

        If the task occurs twice, its last value is returned.
        """
        index = self.tasks.last_index(task)
        return None if index is None else int(self.value[index])

    def to_dict(self) -> dict[TaskKey, int]:
        """Return a dict from Kafka Streams task to its value, like the map that Kafka builds.

        If a task occurs twice, its last value counts.
        """
        return dict(self)

    @property
    def memory_bytes(self) -> int:
        """Memory that the task and value arrays use, in bytes."""
        return self.tasks.memory_bytes + self.value.nbytes


def merge_unnamed(values: Mapping[Any, Value]) -> Mapping[Any, Value]:
    """Merge the entries of a dict whose keys are the same Streams task, without and with empty
    name.

    Kafka's ``TaskId`` does not distinguish an empty topology name from no name. The key of a merged
    entry has None as name. The entry has the position of the first one and the value of the last.

    >>> merge_unnamed({(0, 1): 5, (0, 2): 6, (0, 1, ""): 7})
    {(0, 1, None): 7, (0, 2, None): 6}
    """
    if not any(isinstance(task, tuple) and "" in task[2:] for task in values):
        return values
    return {(*task[:2], (*task, None)[2] or None): value for task, value in values.items()}


def task_order_key(task: TaskKey) -> tuple[bytes, int, int]:
    """Return a sort key that orders tasks like Java's ``TaskId.compareTo``.

    Either all or none of the tasks to sort must have a topology name.

    >>> sorted([(0, 10, None), (0, 9, None)], key=task_order_key)[0]
    (0, 9, None)
    """
    subtopology, partition, name = task
    return b"" if name is None else string_order_key(name), subtopology, partition


def task_hash(task: TaskKey) -> int:
    """Return the hash code that Java computes for a Streams task id (``TaskId.hashCode``), an
    int32.

    >>> task_hash((0, 0, None)), task_hash((1, 2, None))
    (29791, 30814)
    """
    subtopology, partition, name = task
    value = 29791 + 961 * subtopology + 31 * partition + (0 if name is None else string_hash(name))
    return (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def tasks_in_hash_order(
    tasks: Iterable[Task], *, copied: bool = False, hash_of: Callable[[Task], int] = task_hash
) -> list[Task]:
    """Return distinct Streams tasks in the iteration order of a Java ``HashMap`` or ``HashSet``.

    Kafka's task assignments depend on this order.

    Args:
        tasks: the tasks in the order of insertion.
        copied: whether Kafka constructs the collection as a copy of another collection, which gives
            it another capacity.
        hash_of: function that returns the hash code of a task.

    >>> [partition for _, partition, _ in tasks_in_hash_order((0, p, None) for p in range(4))]
    [3, 2, 1, 0]
    """
    distinct = list(dict.fromkeys(tasks))
    table = copied_hash_set_table(len(distinct)) if copied else DEFAULT_TABLE

    def rank() -> list[int]:
        ranks = [0] * len(distinct)
        in_order = sorted(range(len(distinct)), key=lambda i: task_order_key(distinct[i]))
        for place, i in enumerate(in_order):
            ranks[i] = place
        return ranks

    places = hash_order([hash_of(task) for task in distinct], table=table, rank=rank)
    return [distinct[place] for place in places]


# --- partitions ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PartitionLists:
    """Several lists of topic partitions, such as one per Streams task, stored in common arrays.

    The partitions of a list have the encoded order.

    Attributes:
        start: index of each list's first partition, and the total (int32[lists + 1]).
        topic: index of each partition's topic in ``topics`` (int32[n]).
        partition: partition numbers within the topics (int32[n]).
        topics: topic names; decoded names may repeat or be unused.

    >>> lists = PartitionLists.from_lists([[("a", 0), ("b", 0)], []])
    >>> list(lists)
    [(('a', 0), ('b', 0)), ()]
    """

    start: Int32s
    topic: Int32s
    partition: Int32s
    topics: tuple[str, ...] = ()

    @classmethod
    def from_lists(cls, lists: Iterable[Iterable[TopicPartition]]) -> PartitionLists:
        """Convert lists of (topic, partition) pairs to common arrays.

        Raises:
            EncodingError: an element is not such a pair, or its number is not an int32.
        """
        builder = PartitionListsBuilder()
        for index, partitions in enumerate(lists):
            for pair in partitions:
                try:
                    builder.add_partition(*pair)
                except (TypeError, ValueError, OverflowError):
                    what = f"not a (topic, int32 partition) pair: {pair!r:.80}"
                    field = f"partitions[{index}]"
                    raise EncodingError(what, offset=0, field=field) from None
            builder.end_list()
        return builder.build_lists()

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, index: int) -> tuple[TopicPartition, ...]:
        start, stop = self.start[index : index + 2].tolist()
        pairs = zip(
            self.topic[start:stop].tolist(), self.partition[start:stop].tolist(), strict=True
        )
        return tuple((self.topics[topic], number) for topic, number in pairs)

    def __iter__(self) -> Iterator[tuple[TopicPartition, ...]]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionLists):
            return NotImplemented
        return np.array_equal(self.start, other.start) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash((self.start.tobytes(), self.partition.tobytes()))

    def __repr__(self) -> str:
        return f"PartitionLists({[list(self[index]) for index in range(min(len(self), 4))]}…)"

    @property
    def memory_bytes(self) -> int:
        """Memory that the arrays use, in bytes."""
        return self.start.nbytes + self.topic.nbytes + self.partition.nbytes


class PartitionListsBuilder:
    """Builder of a `PartitionLists` object, to which partitions are added list by list.

    `end_list` ends a list; later partitions belong to the next one.
    """

    def __init__(self) -> None:
        self._start, self._topic, self._partition = array("i", [0]), array("i"), array("i")
        self._names: dict[str, int] = {}

    def add_partition(self, topic: str, partition: int) -> None:
        """Append a partition to the current list, given its topic's name and its number."""
        self._partition.append(partition)
        self._topic.append(self._names.setdefault(topic, len(self._names)))

    def add_rows(self, topics: Int32s, partitions: Int32s) -> None:
        """Append partitions, given as arrays, to the current list.

        ``topics`` has indices into the topic names that are later passed to `build_lists`.
        """
        self._topic.frombytes(topics.astype(np.intc).tobytes())
        self._partition.frombytes(partitions.astype(np.intc).tobytes())

    def end_list(self) -> None:
        """End the current list of partitions.

        Partitions that are added later belong to the next list.
        """
        self._start.append(len(self._partition))

    def build_lists(self, topics: tuple[str, ...] | None = None) -> PartitionLists:
        """Return all finished lists of partitions as arrays, in a `PartitionLists` object.

        ``topics`` are the names to which the indices of `add_rows` refer.
        """
        return PartitionLists(
            np.array(self._start, np.int32),
            np.array(self._topic, np.int32),
            np.array(self._partition, np.int32),
            tuple(self._names) if topics is None else topics,
        )


@dataclass(frozen=True)
class HostPartitions:
    """The endpoints (host, port) of a Kafka Streams application's clients, each with its
    partitions.

    Kafka Streams uses them to find the client that has a key (interactive queries).

    >>> HostPartitions.from_endpoints([(("h", 80), [("t", 1)])]).to_dict()
    {('h', 80): (('t', 1),)}
    """

    names: tuple[Host, ...]
    partitions: PartitionLists

    @classmethod
    def from_endpoints(
        cls, hosts: Iterable[tuple[Host, Iterable[TopicPartition]]]
    ) -> HostPartitions:
        """Build the object from pairs of an endpoint (host, port) and its partitions.

        Raises:
            EncodingError: an element of a list is not a partition.
        """
        pairs = list(hosts)
        return cls(
            tuple(name for name, _ in pairs), PartitionLists.from_lists(own for _, own in pairs)
        )

    def __len__(self) -> int:
        return len(self.names)

    def to_dict(self) -> dict[Host, tuple[TopicPartition, ...]]:
        """Return a dict from endpoint (host, port) to its partitions.

        If an endpoint occurs twice, the last entry counts, as in Kafka's map.
        """
        return dict(zip(self.names, self.partitions, strict=True))


def partition_order_key(partition: TopicPartition) -> tuple[bytes, int]:
    """Return the sort key by which Kafka Streams orders partitions.

    It is the topic in Java's string order, then the partition number.

    >>> sorted([("b", 0), ("a", 10), ("a", 9)], key=partition_order_key)[0]
    ('a', 9)
    """
    return string_order_key(partition[0]), partition[1]


NO_TASKS = TaskArrays(np.empty(0, np.int32), np.empty(0, np.int32))
NO_VALUES = TaskValues(NO_TASKS, np.empty(0, np.int64))
NO_LISTS = PartitionLists.from_lists([])
NO_HOSTS = HostPartitions((), NO_LISTS)
