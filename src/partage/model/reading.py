"""Problems from JSON and from metadata: every malformed value is named with its path."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from partage.errors import InvalidProblemError
from partage.model.cluster import Broker, Cluster
from partage.model.group import Group, Member
from partage.model.index import MOST_PARTITIONS, Index

__all__ = ["cluster_from_metadata", "cluster_from_topics", "field", "group_from_members", "parsed"]

_MEMBER_FIELDS = (
    "id", "topics", "instance", "rack", "owned", "generation", "userData", "weight", "capacity",
)  # fmt: skip


def parsed(problem: object) -> Mapping[str, Any]:
    """A problem as a mapping, from JSON text, a path, or the mapping itself."""
    if isinstance(problem, PathLike):
        problem = _read(Path(problem))
    if isinstance(problem, (str, bytes)):
        try:
            problem = json.loads(problem)
        except (ValueError, RecursionError) as e:
            what = f"not JSON ({e}); give JSON text, or a pathlib.Path to read"
            raise InvalidProblemError(what, path="problem", value=problem) from None
    if not isinstance(problem, Mapping):
        what = "must be an object with topics and members"
        raise InvalidProblemError(what, path="problem", value=problem)
    return problem


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        what = f"cannot be read ({e.strerror})"
        raise InvalidProblemError(what, path="problem", value=str(path)) from None


def field(problem: Mapping[str, Any], name: str) -> Any:
    """A field that a problem must have."""
    if name not in problem:
        raise InvalidProblemError("is missing", path=name, value=None)
    return problem[name]


def cluster_from_topics(topics: object) -> Cluster:
    """See `Cluster.from_topics`."""
    if not isinstance(topics, Mapping):
        what = "must be an object: name -> partition count or replica racks"
        raise InvalidProblemError(what, path="topics", value=topics)
    rows, placed = [], []
    for name, value in topics.items():
        if not isinstance(name, str):
            raise InvalidProblemError("topic name must be text", path="topics", value=name)
        racks = _replica_racks(name, value)
        rows.append((name, None, len(racks) if racks is not None else int(value)))
        placed.append(racks)
    index = Index.of(rows)
    return _with_racks(index, placed)


def _replica_racks(name: str, value: object) -> list[list[str | None]] | None:
    """The replica racks of each partition; None for a plain (checked) count."""
    path = f"topics.{name}"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not 0 <= value <= MOST_PARTITIONS:
            what = f"must be a count from 0 to {MOST_PARTITIONS}"
            raise InvalidProblemError(what, path=path, value=value)
        return None
    out: list[list[str | None]] = []
    for p, racks in enumerate(_listed(value, path, "a partition count or a list")):
        inner = f"{path}[{p}]"
        out.append(list(_listed(racks, inner, "a list of racks")))
        for r, rack in enumerate(out[-1]):
            if rack is not None and not isinstance(rack, str):
                raise InvalidProblemError(
                    "rack must be text or null", path=f"{inner}[{r}]", value=rack
                )
    return out


def _listed(value: object, path: str, what: str) -> Sequence[Any]:
    if isinstance(value, (str, bytes)) or not isinstance(value, (list, tuple)):
        raise InvalidProblemError(f"must be {what}", path=path, value=value)
    return value


def _with_racks(index: Index, placed: Sequence[list[list[str | None]] | None]) -> Cluster:
    """One broker stands for the k-th replica of a partition on a rack; a rackless one for null."""
    brokers: dict[tuple[str | None, int], int] = {}
    start = np.zeros(index.partitions + 1, np.int32)
    replica: list[int] = []
    p = 0
    for t, racks in enumerate(placed):
        rows: Iterator[list[str | None]] | Any = racks
        if racks is None:
            rows = ([None] for _ in range(index.count(t)))
        for row in rows:
            used: dict[str | None, int] = {}
            for rack in row:
                k = used[rack] = used.get(rack, -1) + 1
                replica.append(brokers.setdefault((rack, k), len(brokers)))
            p += 1
            start[p] = len(replica)
    leader = np.full(index.partitions, -1, np.int32)
    if replica:
        has = np.diff(start) > 0
        leader[has] = np.array(replica, np.int32)[start[:-1][has]]
    return Cluster(
        index,
        np.ones(len(index.topics), bool),
        np.ones(index.partitions, bool),
        leader,
        start,
        np.array(replica, np.int32),
        tuple(Broker(i, rack) for i, (rack, _) in enumerate(brokers)),
    )


def group_from_members(members: object) -> Group:
    """See `Group.from_json`."""
    return Group(
        _member(value, f"members[{i}]")
        for i, value in enumerate(_listed(members, "members", "a list of members"))
    )


def _member(value: object, path: str) -> Member:
    if not isinstance(value, Mapping):
        raise InvalidProblemError("must be an object", path=path, value=value)
    for name in value:
        if name not in _MEMBER_FIELDS:
            what = f"unknown field; known: {', '.join(_MEMBER_FIELDS)}"
            raise InvalidProblemError(what, path=f"{path}.{name}", value=value[name])
    if "id" not in value:
        raise InvalidProblemError("is missing", path=f"{path}.id", value=None)
    _text(value["id"], f"{path}.id")
    topics = _listed(value.get("topics", []), f"{path}.topics", "a list of names")
    for i, topic in enumerate(topics):
        _text(topic, f"{path}.topics[{i}]")
    generation = value.get("generation", -1)
    if generation is not None and (isinstance(generation, bool) or not isinstance(generation, int)):
        raise InvalidProblemError("must be an int32", path=f"{path}.generation", value=generation)
    try:
        return Member(
            value["id"],
            topics,
            rack=value.get("rack"),
            instance_id=value.get("instance"),
            owned=value.get("owned") or _owned_default(value, path),
            generation=-1 if generation is None else generation,
            user_data=_bytes(value.get("userData"), f"{path}.userData"),
            weight=value.get("weight", 1.0),
            capacity=value.get("capacity"),
        )
    except InvalidProblemError as e:
        # Member names itself by its id; in a file the position is what one looks for.
        tail = e.path.removeprefix(f"members.{value['id']}")
        raise InvalidProblemError(e.what, path=f"{path}{tail}", value=e.value) from None


def _owned_default(value: Mapping[str, Any], path: str) -> object:
    owned = value.get("owned", [])
    if owned is not None and not isinstance(owned, (list, Mapping)):
        raise InvalidProblemError("must be a list of pairs", path=f"{path}.owned", value=owned)
    return ()


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise InvalidProblemError("must be text", path=path, value=value)
    return value


def _bytes(value: object, path: str) -> bytes | None:
    if value is None:
        return None
    try:
        return base64.b64decode(_text(value, path), validate=True)
    except (binascii.Error, ValueError) as e:
        raise InvalidProblemError(f"must be base64 ({e})", path=path, value=value) from None


def cluster_from_metadata(
    topics: Mapping[str, Mapping[str, Any]],
    brokers: Sequence[Mapping[str, Any]],
    index: Index | None,
) -> Cluster:
    """See `Cluster.from_metadata`."""
    known = tuple(_broker(b, f"brokers[{i}]") for i, b in enumerate(_listed(brokers, "brokers", "a list")))
    position = {b.id: i for i, b in enumerate(known)}
    rows: list[tuple[str, str | None, int]] = []
    placed: list[tuple[int, list[int], int]] = []
    if not isinstance(topics, Mapping):
        raise InvalidProblemError("must be an object", path="topics", value=topics)
    listed = {name: _partitions(name, value) for name, value in topics.items()}
    for name, (topic_id, parts) in listed.items():
        rows.append((name, topic_id, max((p for p, _, _ in parts), default=-1) + 1))
    index = index if index is not None else Index.of(rows)
    exists = np.zeros(len(index.topics), bool)
    for name, (topic_id, parts) in listed.items():
        t = index.topic_by_id(topic_id) if topic_id else index.topic(name)
        if t < 0:
            raise InvalidProblemError("topic is not in the index", path=f"topics.{name}", value=topic_id)
        exists[t] = True
        for p, leader, replicas in parts:
            dense = index.locate(t, p)
            if dense < 0:
                raise InvalidProblemError("partition is not in the index", path=f"topics.{name}", value=p)
            placed.append((dense, replicas, leader))
    return _placed(index, exists, placed, known, position)


def _broker(value: object, path: str) -> Broker:
    if not isinstance(value, Mapping) or not isinstance(value.get("id"), int):
        raise InvalidProblemError("must be an object with an int id", path=path, value=value)
    rack = value.get("rack")
    return Broker(value["id"], None if rack is None else _text(rack, f"{path}.rack"))


def _partitions(name: str, value: object) -> tuple[str | None, list[tuple[int, int, list[int]]]]:
    path = f"topics.{name}"
    if not isinstance(value, Mapping):
        raise InvalidProblemError("must be an object", path=path, value=value)
    topic_id = value.get("id")
    if topic_id is not None:
        _text(topic_id, f"{path}.id")
    out = []
    for i, row in enumerate(_listed(value.get("partitions"), f"{path}.partitions", "a list")):
        where = f"{path}.partitions[{i}]"
        if not isinstance(row, Mapping):
            raise InvalidProblemError("must be an object", path=where, value=row)
        p, leader = row.get("p"), row.get("leader", -1)
        replicas = _listed(row.get("replicas", []), f"{where}.replicas", "a list of broker ids")
        for number in (p, leader, *replicas):
            if isinstance(number, bool) or not isinstance(number, int):
                raise InvalidProblemError("p, leader and replicas must be ints", path=where, value=row)
        if not 0 <= row["p"] <= MOST_PARTITIONS:
            raise InvalidProblemError("no such partition number", path=f"{where}.p", value=p)
        out.append((row["p"], leader, list(replicas)))
    return topic_id, out


def _placed(
    index: Index,
    topic_exists: Any,
    placed: list[tuple[int, list[int], int]],
    known: tuple[Broker, ...],
    position: dict[int, int],
) -> Cluster:
    """A replica on a broker that is down is on a broker whose rack nobody knows."""
    brokers = list(known)

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
