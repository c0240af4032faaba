"""Codecs that decode lists of Streams tasks to arrays, and encode them.

The engine uses them in place of its own codecs for arrays of structs. Where all entries have the
same width they are read and written as one block.
"""

from __future__ import annotations

from array import array
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.wire.codec import Codec
from partage.wire.primitives import Reader, Writer
from partage.wire.streams.arrays import NO_TASKS, Tasks, TasksBuilder, TaskValues

__all__ = [
    "FIRST_NAMED_VERSION", "GroupedSums", "Groups", "check_names", "offset_sums_codec",
    "tasks_codec",
]  # fmt: skip

FIRST_NAMED_VERSION = 10
"""The first version of both messages that has names of topologies."""


class Groups(NamedTuple):
    """Grouping of offset sums in versions 7 to 9 of `SubscriptionInfo`.

    Each group has the number of a sub-topology and its number of tasks.
    """

    subtopology: NDArray[np.int32]
    size: NDArray[np.int32]


GroupedSums = tuple[TaskValues, "Groups | None"]
"""Offset sums and their groups; None if each run of one sub-topology is a group."""

_TASK = np.dtype([("subtopology", ">i4"), ("partition", ">i4")])
_UNNAMED_TASK = np.dtype([("subtopology", ">i4"), ("partition", ">i4"), ("units", ">i4")])
_PARTITION_SUM = np.dtype([("partition", ">i4"), ("sum", ">i8")])
_UNNAMED_SUM = np.dtype(
    [("subtopology", ">i4"), ("partition", ">i4"), ("sum", ">i8"), ("length", ">i2")]
)


def tasks_codec(version: int) -> Codec:
    r"""Return the decoder and encoder of a list of tasks: a count (int32), then two int32 per task.

    From version 10 on each task ends with its topology's name.

    >>> list(tasks_codec(1).read(Reader(b"\0\0\0\1\0\0\0\0\0\0\0\2")))
    [(0, 2, None)]
    """
    read = _read_tasks if version < FIRST_NAMED_VERSION else _read_named_tasks
    return Codec(read, partial(_write_tasks, version=version))


def offset_sums_codec(version: int) -> Codec:
    """Return the decoder and encoder of a list of tasks with their offset sums (`GroupedSums`).

    Tasks are grouped by sub-topology up to version 9 of the message, and are a flat list later.
    """
    read = _read_grouped_sums if version < FIRST_NAMED_VERSION else _read_named_sums
    return Codec(read, partial(_write_offset_sums, version=version))


def check_names(writer: Writer, tasks: Tasks, version: int) -> None:
    """Check that tasks of versions before 10 have no named topology,
    since the bytes cannot have one.

    Kafka raises a TaskAssignmentException.
    """
    if tasks.topology is not None and version < FIRST_NAMED_VERSION:
        name = tasks.topologies[0]
        writer.fail(f"topology {name!r:.80} is named: needs version {FIRST_NAMED_VERSION}")


def _read_count(reader: Reader) -> int:
    return reader.count(reader.not_null(reader.int32()))


def _read_rows(reader: Reader, layout: np.dtype[np.void], count: int) -> NDArray[np.void]:
    """Decode ``count`` entries of fixed size at once, as a NumPy array of records.

    If bytes are missing, raise the error at the first incomplete number.
    """
    whole = reader.left // layout.itemsize
    if count > whole:
        reader.position += whole * layout.itemsize
        while True:
            reader.int32()
    rows = np.frombuffer(reader.data, layout, count, reader.position)
    reader.position += rows.nbytes
    return rows


def _unnamed_rows(
    reader: Reader, layout: np.dtype[np.void], count: int, name_length: str
) -> NDArray[np.void] | None:
    """Decode ``count`` tasks at once if none has a topology name;
    else read nothing and return None.
    """
    if count * layout.itemsize > reader.left:
        return None
    rows = np.frombuffer(reader.data, layout, count, reader.position)
    absent = rows[name_length] <= 0 if name_length == "units" else rows[name_length] < 0
    if not absent.all():
        return None
    reader.position += rows.nbytes
    return rows


def _tasks_of(rows: NDArray[np.void]) -> Tasks:
    return Tasks(rows["subtopology"].astype(np.int32), rows["partition"].astype(np.int32))


def _read_tasks(reader: Reader) -> Tasks:
    rows = _read_rows(reader, _TASK, _read_count(reader))
    return _tasks_of(rows) if len(rows) else NO_TASKS


def _read_named_tasks(reader: Reader) -> Tasks:
    count = _read_count(reader)
    rows = _unnamed_rows(reader, _UNNAMED_TASK, count, "units")
    if rows is not None:
        return _tasks_of(rows)
    builder = TasksBuilder()
    for _ in range(count):
        builder.add(reader.int32(), reader.int32(), reader.utf16())
    return builder.tasks()


def _read_grouped_sums(reader: Reader) -> GroupedSums:
    subtopologies, sizes, pieces = array("i"), array("i"), []
    for _ in range(_read_count(reader)):
        subtopologies.append(reader.int32())
        rows = _read_rows(reader, _PARTITION_SUM, _read_count(reader))
        sizes.append(len(rows))
        pieces.append(rows)
    every = np.concatenate(pieces) if pieces else np.empty(0, _PARTITION_SUM)
    groups = Groups(np.array(subtopologies, np.int32), np.array(sizes, np.int32))
    tasks = Tasks(np.repeat(*groups), every["partition"].astype(np.int32))
    sums = TaskValues(tasks, every["sum"].astype(np.int64))
    return sums, None if all(map(np.array_equal, groups, _runs(tasks))) else groups


def _read_named_sums(reader: Reader) -> GroupedSums:
    count = _read_count(reader)
    rows = _unnamed_rows(reader, _UNNAMED_SUM, count, "length")
    if rows is not None:
        return TaskValues(_tasks_of(rows), rows["sum"].astype(np.int64)), None
    builder, sums = TasksBuilder(), array("q")
    for _ in range(count):
        subtopology, partition = reader.int32(), reader.int32()
        sums.append(reader.int64())
        builder.add(subtopology, partition, reader.nullable_string())
    return TaskValues(builder.tasks(), np.array(sums, np.int64)), None


def _write_tasks(writer: Writer, tasks: Tasks, *, version: int) -> None:
    writer.int32(len(tasks))
    check_names(writer, tasks, version)
    named = version >= FIRST_NAMED_VERSION
    if named and tasks.topology is not None:
        for subtopology, partition, name in tasks:
            writer.int32(subtopology)
            writer.int32(partition)
            writer.utf16(name)
        return
    rows = np.zeros(len(tasks), _UNNAMED_TASK if named else _TASK)
    rows["subtopology"], rows["partition"] = tasks.subtopology, tasks.partition
    writer.raw(rows.tobytes())


def _write_offset_sums(writer: Writer, grouped: GroupedSums, *, version: int) -> None:
    sums, groups = grouped
    tasks = sums.tasks
    check_names(writer, tasks, version)
    if version < FIRST_NAMED_VERSION:
        _write_groups(writer, sums, groups or _runs(tasks))
        return
    writer.int32(len(sums))
    if tasks.topology is None:
        rows = np.empty(len(sums), _UNNAMED_SUM)
        rows["subtopology"], rows["partition"] = tasks.subtopology, tasks.partition
        rows["sum"], rows["length"] = sums.value, -1
        writer.raw(rows.tobytes())
        return
    for (subtopology, partition, name), value in sums:
        writer.int32(subtopology)
        writer.int32(partition)
        writer.int64(value)
        if name is None:
            writer.int16(-1)
        else:
            writer.string(name)


def _runs(tasks: Tasks) -> Groups:
    """Group consecutive tasks of the same sub-topology.

    >>> _runs(Tasks.of([(0, 1), (0, 2), (1, 0)])).size.tolist()
    [2, 1]
    """
    first = np.flatnonzero(np.diff(tasks.subtopology, prepend=tasks.subtopology[:1] - 1))
    sizes = np.diff(first, append=len(tasks)).astype(np.int32)
    return Groups(tasks.subtopology[first], sizes)


def _write_groups(writer: Writer, sums: TaskValues, groups: Groups) -> None:
    if int(groups.size.sum()) != len(sums):
        writer.fail(f"groups of {int(groups.size.sum())} tasks for {len(sums)} offset sums")
    rows = np.empty(len(sums), _PARTITION_SUM)
    rows["partition"], rows["sum"] = sums.tasks.partition, sums.value
    writer.int32(len(groups.size))
    start = 0
    for subtopology, size in zip(groups.subtopology.tolist(), groups.size.tolist(), strict=True):
        writer.int32(subtopology)
        writer.int32(size)
        writer.raw(rows[start : start + size].tobytes())
        start += size
