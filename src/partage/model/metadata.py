"""Clusters from the metadata lines of a capture (``cluster.jsonl``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError
from partage.model.cluster import Broker, Cluster
from partage.model.index import MOST_PARTITIONS, Index
from partage.model.reading import listed, text

__all__ = ["cluster_from_metadata"]


def cluster_from_metadata(
    topics: Mapping[str, Mapping[str, Any]],
    brokers: Sequence[Mapping[str, Any]],
    index: Index | None,
) -> Cluster:
    """Return a cluster; see `Cluster.from_metadata`."""
    known = tuple(
        _broker(b, f"brokers[{i}]") for i, b in enumerate(listed(brokers, "brokers", "a list"))
    )
    rows: list[tuple[str, str | None, int]] = []
    placed: list[tuple[int, list[int], int]] = []
    if not isinstance(topics, Mapping):
        raise InvalidProblemError("must be an object", path="topics", value=topics)
    topic_rows = {name: _partitions(name, value) for name, value in topics.items()}
    for name, (topic_id, parts) in topic_rows.items():
        rows.append((name, topic_id, max((p for p, _, _ in parts), default=-1) + 1))
    index = index if index is not None else Index.of(rows)
    exists = np.zeros(len(index.topics), bool)
    for name, (topic_id, parts) in topic_rows.items():
        t = index.topic_by_id(topic_id) if topic_id else index.topic(name)
        if t < 0:
            raise InvalidProblemError(
                "topic is not in the index", path=f"topics.{name}", value=topic_id
            )
        exists[t] = True
        for p, leader, replicas in parts:
            dense = index.locate(t, p)
            if dense < 0:
                raise InvalidProblemError(
                    "partition is not in the index", path=f"topics.{name}", value=p
                )
            placed.append((dense, replicas, leader))
    return _placed(index, exists, placed, known)


def _broker(value: object, path: str) -> Broker:
    if not isinstance(value, Mapping):
        raise InvalidProblemError("must be an object with an int id", path=path, value=value)
    number, rack = value.get("id"), value.get("rack")
    if not isinstance(number, int) or isinstance(number, bool):  # JSON's true is an int in Python
        raise InvalidProblemError("must be an int", path=f"{path}.id", value=number)
    return Broker(number, None if rack is None else text(rack, f"{path}.rack"))


def _partitions(name: str, value: object) -> tuple[str | None, list[tuple[int, int, list[int]]]]:
    path = f"topics.{name}"
    if not isinstance(value, Mapping):
        raise InvalidProblemError("must be an object", path=path, value=value)
    topic_id = value.get("id")
    if topic_id is not None:
        text(topic_id, f"{path}.id")
    out = []
    for i, row in enumerate(listed(value.get("partitions"), f"{path}.partitions", "a list")):
        where = f"{path}.partitions[{i}]"
        if not isinstance(row, Mapping):
            raise InvalidProblemError("must be an object", path=where, value=row)
        p, leader = row.get("p"), row.get("leader", -1)
        replicas = listed(row.get("replicas", []), f"{where}.replicas", "a list of broker ids")
        for number in (p, leader, *replicas):
            if isinstance(number, bool) or not isinstance(number, int):
                raise InvalidProblemError(
                    "p, leader and replicas must be ints", path=where, value=row
                )
        if not 0 <= row["p"] <= MOST_PARTITIONS:
            raise InvalidProblemError("no such partition number", path=f"{where}.p", value=p)
        out.append((row["p"], leader, list(replicas)))
    return topic_id, out


def _placed(
    index: Index,
    topic_exists: NDArray[np.bool_],
    placed: list[tuple[int, list[int], int]],
    known: tuple[Broker, ...],
) -> Cluster:
    """Return the cluster; a broker that is down is not in the metadata, so its rack is unknown."""
    brokers = list(known)
    position = {b.id: i for i, b in enumerate(known)}

    def at(broker: int) -> int:
        if broker not in position:
            position[broker] = len(brokers)
            brokers.append(Broker(broker))
        return position[broker]

    partition_exists = np.zeros(index.partitions, bool)
    leader = np.full(index.partitions, -1, np.int32)
    by_partition: dict[int, list[int]] = {}
    for dense, replicas, lead in placed:
        partition_exists[dense] = True
        by_partition[dense] = [at(b) for b in replicas]
        leader[dense] = at(lead) if lead >= 0 else -1
    sizes = np.zeros(index.partitions + 1, np.int32)
    for dense, replicas in by_partition.items():
        sizes[dense + 1] = len(replicas)
    flat = [b for dense in sorted(by_partition) for b in by_partition[dense]]
    return Cluster(
        index, topic_exists, partition_exists, leader,
        np.cumsum(sizes).astype(np.int32), np.array(flat, np.int32), tuple(brokers),
    )  # fmt: skip
