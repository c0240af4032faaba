"""Tasks in the bytes of both messages: columns are taken whole where entries have one width."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.wire.primitives import Reader, Writer
from partage.wire.streams.data_output import read_chars, write_chars
from partage.wire.streams.tasks import NO_TASKS, Tasks, TaskValues

__all__ = [
    "FIRST_NAMED_VERSION",
    "Groups",
    "append_offset_sums",
    "append_tasks",
    "neighbours",
    "read_grouped_sums",
    "read_named_sums",
    "read_named_tasks",
    "read_tasks",
    "refuse_names",
]

FIRST_NAMED_VERSION = 10


class Groups(NamedTuple):
    """How offset sums stand in versions 7 to 9: int32 sub-topology and number of tasks of each."""

    subtopology: NDArray[np.int32]
    size: NDArray[np.int32]


_TASK = np.dtype([("subtopology", ">i4"), ("partition", ">i4")])
_UNNAMED_TASK = np.dtype([("subtopology", ">i4"), ("partition", ">i4"), ("units", ">i4")])
_PARTITION_SUM = np.dtype([("partition", ">i4"), ("sum", ">i8")])
_UNNAMED_SUM = np.dtype(
    [("subtopology", ">i4"), ("partition", ">i4"), ("sum", ">i8"), ("length", ">i2")]
)


def _rows(reader: Reader, layout: np.dtype[np.void], count: int) -> NDArray[np.void] | None:
    """A view of ``count`` entries, None if so many are not there; nothing is read yet."""
    if count * layout.itemsize > reader.left:
        return None
    return np.frombuffer(reader.data, layout, count, reader.position)


def _need(reader: Reader, count: int, size: int) -> None:
    """Fail as whoever reads entry by entry: at the first number that is not whole."""
    whole = reader.left // size
    if count > whole:
        reader.position += whole * size
        while True:
            reader.int32()


def read_tasks(reader: Reader) -> Tasks:
    r"""An int32 count, then pairs of int32.

    Raises:
        LengthError: the count is negative, or larger than the bytes that are left.
        TruncatedError: the payload ends before that many.

    >>> list(read_tasks(Reader(b"\0\0\0\1\0\0\0\0\0\0\0\2")))
    [(0, 2, None)]
    """
    count = reader.count(reader.not_null(reader.int32()))
    _need(reader, count, _TASK.itemsize)
    rows = _rows(reader, _TASK, count)
    if not count or rows is None:
        return NO_TASKS
    reader.position += rows.nbytes
    return Tasks(rows["subtopology"].astype(np.int32), rows["partition"].astype(np.int32))


def read_named_tasks(reader: Reader) -> Tasks:
    """As `read_tasks`, each with its topology's name (AssignmentInfo from version 10 on)."""
    count = reader.count(reader.not_null(reader.int32()))
    rows = _rows(reader, _UNNAMED_TASK, count)
    if rows is not None and (rows["units"] <= 0).all():
        reader.position += rows.nbytes
        return Tasks(rows["subtopology"].astype(np.int32), rows["partition"].astype(np.int32))
    one, other, named = array("i"), array("i"), array("i")
    names: dict[str, int] = {}
    for _ in range(count):
        one.append(reader.int32())
        other.append(reader.int32())
        name = read_chars(reader)
        named.append(-1 if name is None else names.setdefault(name, len(names)))
    return Tasks.from_columns(one, other, named, tuple(names))


def read_grouped_sums(reader: Reader) -> tuple[TaskValues, Groups]:
    """Offset sums of versions 7 to 9: partitions and sums by sub-topology, and those groups."""
    subtopologies, sizes, pieces = array("i"), array("i"), []
    for _ in range(reader.count(reader.not_null(reader.int32()))):
        subtopologies.append(reader.int32())
        count = reader.count(reader.not_null(reader.int32()))
        _need(reader, count, _PARTITION_SUM.itemsize)
        sizes.append(count)
        if count:
            rows = np.frombuffer(reader.data, _PARTITION_SUM, count, reader.position)
            reader.position += rows.nbytes
            pieces.append(rows)
    every = np.concatenate(pieces) if pieces else np.empty(0, _PARTITION_SUM)
    groups = Groups(np.array(subtopologies, np.int32), np.array(sizes, np.int32))
    tasks = Tasks(np.repeat(*groups), every["partition"].astype(np.int32))
    return TaskValues(tasks, every["sum"].astype(np.int64)), groups


def read_named_sums(reader: Reader) -> TaskValues:
    """Offset sums from version 10 on: one entry a task, with its topology's name or null."""
    count = reader.count(reader.not_null(reader.int32()))
    rows = _rows(reader, _UNNAMED_SUM, count)
    if rows is not None and (rows["length"] < 0).all():
        reader.position += rows.nbytes
        tasks = Tasks(rows["subtopology"].astype(np.int32), rows["partition"].astype(np.int32))
        return TaskValues(tasks, rows["sum"].astype(np.int64))
    one, other, named, sums = array("i"), array("i"), array("i"), array("q")
    names: dict[str, int] = {}
    for _ in range(count):
        one.append(reader.int32())
        other.append(reader.int32())
        sums.append(reader.int64())
        name = reader.nullable_string()
        named.append(-1 if name is None else names.setdefault(name, len(names)))
    return TaskValues(Tasks.from_columns(one, other, named, tuple(names)), np.array(sums, np.int64))


def append_tasks(writer: Writer, tasks: Tasks, *, version: int) -> None:
    """What `read_tasks` reads, or from version 10 on, where names go with it, `read_named_tasks`.

    Raises:
        EncodingError: a named topology in a version that has no names.
    """
    writer.int32(len(tasks))
    refuse_names(writer, tasks, version)
    named = version >= FIRST_NAMED_VERSION
    if named and tasks.topology is not None:
        for one, other, name in tasks:
            writer.int32(one)
            writer.int32(other)
            write_chars(writer, name)
        return
    rows = np.zeros(len(tasks), _UNNAMED_TASK if named else _TASK)
    rows["subtopology"], rows["partition"] = tasks.subtopology, tasks.partition
    writer.raw(rows.tobytes())


def refuse_names(writer: Writer, tasks: Tasks, version: int) -> None:
    """Refuse named topologies before version 10, as Kafka does (TaskAssignmentException)."""
    if tasks.topology is not None and version < FIRST_NAMED_VERSION:
        name = tasks.topologies[0]
        writer.refuse(f"topology {name!r:.80} is named: needs version {FIRST_NAMED_VERSION}")


def append_offset_sums(
    writer: Writer, sums: TaskValues, *, version: int, groups: Groups | None = None
) -> None:
    """What `read_grouped_sums` reads, or from version 10 on `read_named_sums`.

    Before version 10 neighbours of one sub-topology make a group, unless ``groups`` says which.

    Raises:
        EncodingError: a named topology before version 10.
    """
    tasks = sums.tasks
    refuse_names(writer, tasks, version)
    if version < FIRST_NAMED_VERSION:
        _append_groups(writer, sums, groups or neighbours(tasks))
        return
    writer.int32(len(sums))
    if tasks.topology is None:
        rows = np.empty(len(sums), _UNNAMED_SUM)
        rows["subtopology"], rows["partition"] = tasks.subtopology, tasks.partition
        rows["sum"], rows["length"] = sums.value, -1
        writer.raw(rows.tobytes())
        return
    for (one, other, name), value in sums:
        writer.int32(one)
        writer.int32(other)
        writer.int64(value)
        if name is None:
            writer.int16(-1)
        else:
            writer.string(name)


def neighbours(tasks: Tasks) -> Groups:
    """Tasks that stand together and are of one sub-topology, as groups.

    >>> neighbours(Tasks.of([(0, 1), (0, 2), (1, 0)])).size.tolist()
    [2, 1]
    """
    first = np.flatnonzero(np.diff(tasks.subtopology, prepend=tasks.subtopology[:1] - 1))
    sizes = np.diff(first, append=len(tasks)).astype(np.int32)
    return Groups(tasks.subtopology[first], sizes)


def _append_groups(writer: Writer, sums: TaskValues, groups: Groups) -> None:
    if int(groups.size.sum()) != len(sums):
        writer.refuse(f"groups of {int(groups.size.sum())} tasks for {len(sums)} offset sums")
    rows = np.empty(len(sums), _PARTITION_SUM)
    rows["partition"], rows["sum"] = sums.tasks.partition, sums.value
    writer.int32(len(groups.size))
    start = 0
    for subtopology, size in zip(groups.subtopology.tolist(), groups.size.tolist(), strict=True):
        writer.int32(subtopology)
        writer.int32(size)
        writer.raw(rows[start : start + size].tobytes())
        start += size
