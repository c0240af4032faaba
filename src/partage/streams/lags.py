"""How far each client is behind on each stateful task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError, InvalidTopologyError
from partage.streams.ids import TaskId
from partage.streams.layout import Layout, TopicPartition
from partage.streams.settings import LATEST_OFFSET, LONG_MAX, UNKNOWN_OFFSET_SUM

__all__ = ["end_offset_sums", "task_lags"]


def end_offset_sums(
    layout: Layout,
    end_offsets: Mapping[TopicPartition, int] | None,
    committed: Mapping[TopicPartition, int | None] | None = None,
) -> dict[TaskId, int]:
    """Sum of the ends of each stateful task's changelogs; -3 for all if they were not to be had.

    Changelogs that are only now created count 0; those that are sources end at the group's
    committed offset, 0 where there is none. A sum beyond int64 becomes the largest one.

    Args:
        layout: of the application.
        end_offsets: of the changelogs; None where the request failed.
        committed: of the changelogs that are sources.

    Raises:
        InvalidTopologyError: the answer lacks a partition; to Kafka an illegal state.
        InvalidProblemError: an offset that no broker sends: negative, or beyond int64.

    Source: ``StreamsPartitionAssignor.computeEndOffsetSumsByTask`` 4.3.1.

    >>> from partage.streams.topology import Subtopology, Topology
    >>> topology = Topology([Subtopology(0, ("lines",), changelogs=("counts",))])
    >>> layout = Layout.of(topology, {"lines": 1, "counts": 1})
    >>> end_offset_sums(layout, {("counts", 0): 7})
    {TaskId(subtopology=0, partition=0, topology=None): 7}
    """
    if end_offsets is None:
        return dict.fromkeys(layout.changelogs_of, UNKNOWN_OFFSET_SUM)
    sums = {}
    for task, changelogs in layout.changelogs_of.items():
        total = 0
        for partition in changelogs:
            topic = partition[0]
            if topic in layout.to_create:
                continue
            if topic in layout.source_changelogs:
                total += _offset(partition, (committed or {}).get(partition) or 0)
            elif partition in end_offsets:
                total += _offset(partition, end_offsets[partition])
            else:
                raise InvalidTopologyError(
                    f"the end offset of partition {partition[1]} is missing",
                    topics=[topic],
                    java_exception="IllegalStateException",
                )
        sums[task] = min(total, LONG_MAX)
    return sums


def _offset(partition: TopicPartition, offset: int) -> int:
    if not 0 <= offset <= LONG_MAX:
        raise InvalidProblemError(
            "must be an int64 >= 0", path=f"offset of {partition[0]}-{partition[1]}", value=offset
        )
    return offset


def task_lags(
    tasks: Sequence[TaskId],
    ends: Mapping[TaskId, int],
    offset_sums: Iterable[Mapping[TaskId, int]],
) -> NDArray[np.int64]:
    """int64[clients, tasks]: end minus what the client has; 0 for tasks without an end.

    -2 and -3 stay what they are; a client that is beyond the end counts as having nothing;
    a task that it does not report starts from 0.

    Raises:
        InvalidProblemError: an offset sum that is negative and no sentinel, or beyond int64.

    Source: ``ClientState.computeTaskLags`` 4.3.1.

    >>> tasks = [TaskId(0, 0), TaskId(0, 1)]
    >>> task_lags(tasks, {tasks[0]: 10, tasks[1]: 10}, [{tasks[0]: 7}, {tasks[1]: -2}]).tolist()
    [[3, 10], [10, -2]]
    """
    end = np.array([ends.get(task, 0) for task in tasks], np.int64)
    place = {task: number for number, task in enumerate(tasks) if task in ends}
    rows = []
    for reported in offset_sums:
        row = end.copy()
        for task, total in reported.items():
            if not (0 <= total <= LONG_MAX or total in {LATEST_OFFSET, UNKNOWN_OFFSET_SUM}):
                raise InvalidProblemError(
                    "must be an int64 >= 0, or -2 (runs it) or -3 (unknown)",
                    path=f"offset sum of {task}",
                    value=total,
                )
            number = place.get(task)
            if number is None:
                continue
            if total < 0:
                row[number] = total
            elif end[number] >= total:
                row[number] = end[number] - total
        rows.append(row)
    return np.stack(rows) if rows else np.zeros((0, len(tasks)), np.int64)
