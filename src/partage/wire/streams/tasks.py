"""Many tasks as a few arrays: 100,000 of them with a number each take 1.6 MB, as a dict 20.

A task is named by the tuple ``(subtopology, partition, topology)``, the last None where
topologies have no names; ``partage.streams.TaskId`` is such a tuple.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.java.hash_order import hash_order
from partage.java.strings import string_hash, string_order_key
from partage.wire.faults import EncodingError

__all__ = ["NO_TASKS", "NO_VALUES", "TaskKey", "TaskValues", "Tasks", "merged", "task_set_order"]

Value = TypeVar("Value")
TaskKey = tuple[int, int, "str | None"]

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

_UNNAMED = -1


@dataclass(frozen=True, eq=False)
class Tasks:
    """Tasks in the order in which they stand, repeated ones too.

    Attributes:
        subtopology: int32[n].
        partition: int32[n].
        topology: int32[n], places in ``topologies``, -1: no name; None where none has one.
        topologies: distinct names of topologies.

    >>> list(Tasks.of([(0, 2), (1, 0, "ab")]))
    [(0, 2, None), (1, 0, 'ab')]
    """

    subtopology: Int32s
    partition: Int32s
    topology: Int32s | None = None
    topologies: tuple[str, ...] = ()

    @classmethod
    def of(cls, tasks: Iterable[tuple[int, int] | TaskKey]) -> Tasks:
        """The tasks of tuples, with or without a topology's name; "" is none, as to Kafka.

        Raises:
            EncodingError: a number is no int32, a name no string, or the tuple none of a task.
        """
        subtopologies, partitions, topologies = array("i"), array("i"), array("i")
        names: dict[str, int] = {}
        for place, task in enumerate(tasks):
            try:
                name: object = task[2] if len(task) > 2 else None
                subtopologies.append(task[0])
                partitions.append(task[1])
            except (TypeError, OverflowError, LookupError):
                _refuse(task, place)
            if name is not None and not isinstance(name, str):
                _refuse(task, place)
            topologies.append(names.setdefault(name, len(names)) if name else _UNNAMED)
        return cls.from_columns(subtopologies, partitions, topologies, tuple(names))

    @classmethod
    def from_columns(
        cls,
        subtopologies: array[int],
        partitions: array[int],
        topologies: array[int],
        names: tuple[str, ...],
    ) -> Tasks:
        """The tasks of columns as they were read, -1 where a topology has no name."""
        return cls(
            np.array(subtopologies, np.int32),
            np.array(partitions, np.int32),
            np.array(topologies, np.int32) if names else None,
            names,
        )

    def as_kafka_names(self) -> Tasks:
        """The tasks with no name for an empty one, which only bytes tell apart (``TaskId``)."""
        return Tasks.of(self) if "" in self.topologies else self

    def __len__(self) -> int:
        return len(self.subtopology)

    def __iter__(self) -> Iterator[TaskKey]:
        names: list[str | None] = [*self.topologies, None]  # place -1 is the last
        if self.topology is None:
            for pair in zip(self.subtopology.tolist(), self.partition.tolist(), strict=True):
                yield (*pair, None)
            return
        columns = (self.subtopology, self.partition, self.topology)
        for one, other, name in zip(*(column.tolist() for column in columns), strict=True):
            yield one, other, names[name]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tasks):
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
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        named = 0 if self.topology is None else self.topology.nbytes
        return self.subtopology.nbytes + self.partition.nbytes + named

    @cached_property
    def _sorted(self) -> tuple[Int64s, NDArray[np.intp]]:
        """Both numbers as one, ascending, and the places where they stand."""
        packed = self.subtopology.astype(np.int64) << 32 | self.partition.astype(np.int64) & (
            0xFFFFFFFF
        )
        order = np.argsort(packed, kind="stable")
        return packed[order], order

    def last_place_of(self, task: tuple[int, int] | TaskKey) -> int | None:
        """Where a task stands last, None if it is not there.

        >>> Tasks.of([(0, 2), (0, 3), (0, 2)]).last_place_of((0, 2))
        2
        """
        name = task[2] if len(task) > 2 else None
        packed, order = self._sorted
        wanted = task[0] << 32 | task[1] & 0xFFFFFFFF
        low, high = np.searchsorted(packed, [wanted, wanted + 1]).tolist()
        for place in reversed(order[low:high].tolist()):
            ix = _UNNAMED if self.topology is None else int(self.topology[place])
            if (None if ix == _UNNAMED else self.topologies[ix]) == name:
                return int(place)
        return None


def _refuse(task: object, place: int) -> NoReturn:
    what = "not a task (int32 subtopology, int32 partition, topology or None)"
    raise EncodingError(f"{what}: {task!r:.80}", offset=0, field=f"tasks[{place}]") from None


@dataclass(frozen=True, eq=False)
class TaskValues:
    """An int64 for each of many tasks: offset sums, or lags. Rows stand as sent.

    ``value`` is int64[n], parallel to ``tasks``. A task that is there twice has, to whoever asks
    for one number, its last.

    >>> sums = TaskValues.of({(0, 2): 5, (1, 0): -2})
    >>> sums[1, 0], sums.get((9, 9)), len(sums)
    (-2, None, 2)
    """

    tasks: Tasks
    value: Int64s

    @classmethod
    def of(
        cls, values: Mapping[tuple[int, int], int] | Mapping[TaskKey, int] | TaskValues
    ) -> TaskValues:
        """The values of a mapping, in its order.

        Raises:
            EncodingError: a value is no int64, a task none.
        """
        if isinstance(values, TaskValues):
            return values
        numbers = array("q")
        known = merged(values)
        for task, value in known.items():
            try:
                numbers.append(value)
            except (TypeError, OverflowError):
                what = f"not an int64: {value!r:.80}"
                raise EncodingError(what, offset=0, field=f"values.{task}") from None
        return cls(Tasks.of(known), np.array(numbers, np.int64))

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
        """The value of a task, None if it is not there; by halving, in arrays sorted once."""
        place = self.tasks.last_place_of(task)
        return None if place is None else int(self.value[place])

    def to_dict(self) -> dict[TaskKey, int]:
        """One entry a task, the last value of each, as Kafka's map of them."""
        return dict(self)

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return self.tasks.nbytes + self.value.nbytes


def merged(values: Mapping[Any, Value]) -> Mapping[Any, Value]:
    """A map by task, where a name of "" and none are one task: the later value, the earlier place.

    >>> merged({(0, 1): 5, (0, 2): 6, (0, 1, ""): 7})
    {(0, 1, None): 7, (0, 2, None): 6}
    """
    if not any(isinstance(task, tuple) and "" in task[2:] for task in values):
        return values
    return {(*task[:2], (*task, None)[2] or None): value for task, value in values.items()}


def _int32(value: int) -> int:
    return (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def task_set_order(tasks: Iterable[TaskKey]) -> list[TaskKey]:
    """Distinct tasks in the order of a Java ``HashSet<TaskId>`` that got them in this order.

    >>> [partition for _, partition, _ in task_set_order((0, p, None) for p in range(4))]
    [3, 2, 1, 0]
    """
    distinct = list(dict.fromkeys(tasks))
    hashes = [
        _int32(29791 + 961 * one + 31 * other + (0 if name is None else string_hash(name)))
        for one, other, name in distinct
    ]
    return [distinct[place] for place in hash_order(hashes, rank=lambda: _ranks(distinct))]


def _ranks(tasks: list[TaskKey]) -> list[int]:
    """``TaskId.compareTo``, which bins of a crowded table ask for."""
    rank = [0] * len(tasks)

    def key(place: int) -> tuple[bytes, int, int]:
        one, other, name = tasks[place]
        return (b"" if name is None else string_order_key(name)), one, other

    for at, place in enumerate(sorted(range(len(tasks)), key=key)):
        rank[place] = at
    return rank


NO_TASKS = Tasks(np.empty(0, np.int32), np.empty(0, np.int32))
NO_VALUES = TaskValues(NO_TASKS, np.empty(0, np.int64))
