"""The JSON of ``kafka-reassign-partitions`` and ``kafka-leader-election``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from partage.model import ReplicaCluster, ReplicaTask

__all__ = [
    "leader_election_json",
    "partitions_to_elect",
    "reassignment_json",
    "rollback_json",
    "topic_assignment",
]

ANY = "any"


def reassignment_json(
    task: ReplicaTask,
    replica: np.ndarray[Any, np.dtype[np.int32]],
    directory: np.ndarray[Any, np.dtype[np.int32]] | None,
    partitions: Iterable[int],
) -> dict[str, Any]:
    """Convert a reassignment plan to the JSON input of ``kafka-reassign-partitions --execute``.

    It lists the new replicas of each partition, and optionally their log directories.

    Args:
        task: the cluster and the constraints of the reassignment.
        replica: int32, the plan: the broker of each new replica by index in the cluster, preferred
            leader first. Those of partition p begin at ``task.start[p]``.
        directory: int32, index of each replica's log directory on its broker, -1 for any; None
            leaves ``log_dirs`` out.
        partitions: indices of the partitions to write.
    """
    cluster = task.cluster
    rows = []
    for p in partitions:
        slots = slice(int(task.first_replica[p]), int(task.first_replica[p + 1]))
        row = _row(cluster, p, replica[slots])
        if directory is not None:
            row["log_dirs"] = _folders(cluster, replica[slots], directory[slots])
        rows.append(row)
    return {"version": 1, "partitions": rows}


def rollback_json(
    cluster: ReplicaCluster, partitions: Iterable[int], *, directories: bool
) -> dict[str, Any]:
    """Return the JSON input of ``kafka-reassign-partitions`` that restores the current replicas.

    It undoes a reassignment.

    Args:
        cluster: the cluster before the reassignment.
        partitions: indices of the partitions to write.
        directories: whether to restore the log directories too.
    """
    rows = []
    for p in partitions:
        slots = slice(int(cluster.start[p]), int(cluster.start[p + 1]))
        row = _row(cluster, p, cluster.replica[slots])
        if directories:
            row["log_dirs"] = _folders(cluster, cluster.replica[slots], cluster.directory[slots])
        rows.append(row)
    return {"version": 1, "partitions": rows}


def partitions_to_elect(
    task: ReplicaTask, replica: np.ndarray[Any, np.dtype[np.int32]]
) -> list[int]:
    """Return the partitions that need a preferred leader election after a plan was executed.

    These are the partitions whose current leader is not their preferred leader in the plan.
    Partitions without a leader and excluded topics are left out.

    Args:
        task: the cluster and the constraints of the reassignment.
        replica: int32, the plan: the broker of each new replica by index in the cluster, preferred
            leader first. Those of partition p begin at ``task.start[p]``.
    """
    there = np.flatnonzero((task.factor > 0) & task.counted & (task.cluster.leader >= 0))
    other = replica[task.first_replica[there]] != task.cluster.leader[there]
    return list(there[other].tolist())


def leader_election_json(cluster: ReplicaCluster, partitions: Iterable[int]) -> dict[str, Any]:
    """Return the JSON input of ``kafka-leader-election`` that names the partitions.

    The tool makes the preferred replica of each partition its leader.

    Args:
        cluster: the cluster, with the names of the topics.
        partitions: indices of the partitions.
    """
    return {
        "partitions": [
            {"topic": cluster.topics[cluster.topic[p]], "partition": int(cluster.number[p])}
            for p in partitions
        ]
    }


def topic_assignment(
    topic: str, replicas: Iterable[Iterable[int]], first_partition: int = 0
) -> dict[str, Any]:
    """Return the JSON input of ``kafka-reassign-partitions`` for new partitions of a topic.

    It names the brokers of each partition's replicas.

    Args:
        topic: name of the topic.
        replicas: broker ids of each new partition's replicas.
        first_partition: number of the first new partition.

    >>> topic_assignment("t", [[1, 2]])["partitions"]
    [{'topic': 't', 'partition': 0, 'replicas': [1, 2]}]
    """
    return {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": first_partition + i, "replicas": [int(b) for b in row]}
            for i, row in enumerate(replicas)
        ],
    }


def _row(
    cluster: ReplicaCluster, p: int, at: np.ndarray[Any, np.dtype[np.int32]]
) -> dict[str, Any]:
    return {
        "topic": cluster.topics[cluster.topic[p]],
        "partition": int(cluster.number[p]),
        "replicas": cluster.broker_ids(at),
    }


def _folders(
    cluster: ReplicaCluster,
    at: np.ndarray[Any, np.dtype[np.int32]],
    folder: np.ndarray[Any, np.dtype[np.int32]],
) -> list[str]:
    return [
        cluster.directories[b][d][0] if d >= 0 else ANY
        for b, d in zip(at.tolist(), folder.tolist(), strict=True)
    ]
