"""Parser of assignment problems of the group coordinator, in the JSON of ``server-*.jsonl``.

Topics and previous targets are named by topic id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError
from partage.groups.server.spec import GroupSpec, Targets, TopicIds, canonical_topic_id
from partage.model import Broker, Cluster, Group, Index, Member, Problem
from partage.model.index import MOST_PARTITIONS
from partage.model.validation import expect_list, expect_text, parse_problem, required_field

__all__ = ["spec_from_json"]

Pairs = list[tuple[str, list[int]]]


def spec_from_json(problem: Mapping[str, Any] | str | bytes | PathLike[str]) -> GroupSpec:
    """Parse an assignment problem of Kafka's group coordinator (KIP-848) from JSON or a file.

    ``problem`` is JSON text, parsed JSON, or a path. Its fields are:

    * ``topics``: a list of ``{name, id, n}`` with the partition count n, -1 if unknown. ``racks``
      lists the racks of each partition's replicas. ``noname`` marks a deleted topic that occurs
      only in previous target assignments.
    * ``members``: ``id``, ``topics`` and optionally ``instance``, ``rack`` and ``target``, a list
      of ``[topic id, [partitions]]``.
    * ``assignable``: the partitions that may be assigned, in the form of ``target``.

    Raises:
        InvalidProblemError: a field is wrong; the error has its path and value.

    >>> spec = spec_from_json({"topics": [{"name": "t", "id": "AAAAAAAAAAAAAAAAAAAABw", "n": 2}],
    ...                        "members": [{"id": "c1", "topics": ["t"]}]})
    >>> spec.problem.cluster.partitions_of("t").tolist()
    [0, 1]
    """
    whole = parse_problem(problem)
    rows = expect_list(required_field(whole, "topics"), "topics", "a list of {name, id, n}")
    topics = [_Topic.of(row, f"topics[{i}]") for i, row in enumerate(rows)]
    entries = expect_list(required_field(whole, "members"), "members", "a list of members")
    targets = [_target(entry, f"members[{i}].target") for i, entry in enumerate(entries)]
    allowed = (
        _parse_partitions(whole["assignable"], "assignable") if "assignable" in whole else None
    )
    cluster = _cluster(topics, targets)
    group = Group(_member(entry, f"members[{i}]") for i, entry in enumerate(entries))
    index = cluster.index
    named = [index.topic_by_id(one.id) for one in topics if one.count < 0 and one.named]
    return GroupSpec(
        Problem(group, cluster),
        previous=_targets(index, targets),
        uncounted=frozenset(named),
        assignable=None if allowed is None else _assignable(index, allowed),
    )


class _Topic:
    """Topic of an assignment problem in JSON: name, topic id, partition count and replica racks.

    All values are validated when the JSON row is parsed.
    """

    def __init__(
        self, name: str, topic_id: str, count: int, racks: Sequence[Sequence[str]], *, named: bool
    ) -> None:
        self.name, self.id, self.count, self.named = name, topic_id, count, named
        self.racks = racks

    @classmethod
    def of(cls, row: object, path: str) -> _Topic:
        if not isinstance(row, Mapping):
            raise InvalidProblemError("must be {name, id, n}", path=path, value=row)
        name = expect_text(row.get("name"), f"{path}.name")
        topic_id = _id(row.get("id"), f"{path}.id")
        count = _number(row.get("n"), f"{path}.n", least=-1)
        racks = expect_list(row.get("racks", []), f"{path}.racks", "a list of lists of racks")
        for p, one in enumerate(racks):
            for rack in expect_list(one, f"{path}.racks[{p}]", "a list of racks"):
                expect_text(rack, f"{path}.racks[{p}]")
        return cls(name, topic_id, count, racks, named=not row.get("noname"))


def _number(value: object, path: str, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidProblemError("must be an int", path=path, value=value)
    if not least <= value < MOST_PARTITIONS:
        what = f"must be from {least} to {MOST_PARTITIONS - 1}"
        raise InvalidProblemError(what, path=path, value=value)
    return value


def _id(value: object, path: str) -> str:
    made = canonical_topic_id(expect_text(value, path))
    if made is None:
        raise InvalidProblemError(
            "must be a Kafka topic id (16 bytes, URL-safe base64)", path=path, value=value
        )
    return made


def _parse_partitions(value: object, path: str) -> Pairs:
    """Parse a JSON list of topic ids with partition numbers, and validate its values.

    An example is ``[["AAAAAAAAAAAAAAAAAAAABw", [0, 1]]]``. If a topic occurs twice, its last entry
    counts. ``path`` is the name of the field in error messages.
    """
    out: dict[str, list[int]] = {}
    for i, pair in enumerate(expect_list(value, path, "a list of [topic id, [partitions]]")):
        where = f"{path}[{i}]"
        if len(expect_list(pair, where, "[topic id, [partitions]]")) != 2:
            what = "must be [topic id, [partitions]]"
            raise InvalidProblemError(what, path=where, value=pair)
        numbers = expect_list(pair[1], where, "[topic id, [partitions]]")
        checked = [_number(p, f"{where}[1][{j}]") for j, p in enumerate(numbers)]
        out[_id(pair[0], f"{where}[0]")] = list(dict.fromkeys(checked))
    return list(out.items())


def _target(entry: object, path: str) -> Pairs:
    return _parse_partitions(entry.get("target", []), path) if isinstance(entry, Mapping) else []


def _member(entry: object, path: str) -> Member:
    if not isinstance(entry, Mapping):
        raise InvalidProblemError("must be an object", path=path, value=entry)
    topics = expect_list(entry.get("topics", []), f"{path}.topics", "a list of names")
    return Member(
        expect_text(entry.get("id"), f"{path}.id"),
        topics,
        instance_id=entry.get("instance"),
        rack=entry.get("rack"),
    )


def _cluster(topics: list[_Topic], targets: list[Pairs]) -> Cluster:
    """Build the cluster of an assignment problem from its topics and the previous assignments.

    Previous assignments may contain deleted topics or partitions, so the cluster's index includes
    them as not existing. ``targets`` has one list of (topic id, partitions) pairs for each member.
    """
    known = {one.id: max(one.count, 0) for one in topics}
    width = dict(known)
    for topic_id, numbers in (pair for target in targets for pair in target):
        width[topic_id] = max(width.get(topic_id, 0), max(numbers, default=-1) + 1)
    name_of = {one.id: one.name for one in topics}
    index = Index.of([(name_of.get(i, i), i, n) for i, n in width.items()])
    named = {one.id for one in topics if one.named}
    exists = np.array([i in named for i in index.ids], bool)
    count = np.array([known.get(str(i), 0) for i in index.ids], np.int32)
    alive = (index.number_of < count[index.topic_of]) & exists[index.topic_of]
    nowhere = np.full(index.partitions, -1, np.int32)
    by_id = {one.id: one.racks for one in topics}
    placed = [
        racks[number] if number < len(racks := by_id.get(str(index.ids[topic]), [])) else []
        for topic, number in zip(index.topic_of.tolist(), index.number_of.tolist(), strict=True)
    ]
    rack_names = sorted({rack for racks in placed for rack in racks})
    start = np.zeros(index.partitions + 1, np.int32)
    np.cumsum([len(racks) for racks in placed], out=start[1:])
    replica = np.array([rack_names.index(rack) for racks in placed for rack in racks], np.int32)
    brokers = tuple(Broker(i, rack) for i, rack in enumerate(rack_names))
    return Cluster(index, exists, alive, nowhere, start, replica, brokers)


def _targets(index: Index, targets: list[Pairs]) -> Targets:
    flat = [pair for target in targets for pair in target]
    set_start = np.zeros(len(targets) + 1, np.int32)
    np.cumsum([len(target) for target in targets], out=set_start[1:])
    topic = np.array([index.topic_by_id(i) for i, _ in flat], np.int32)
    start = np.zeros(len(flat) + 1, np.int32)
    np.cumsum([len(numbers) for _, numbers in flat], out=start[1:])
    number = np.array([p for _, numbers in flat for p in numbers], np.int32)
    dense = index.locate_all(np.repeat(topic, np.diff(start)), number)
    hashes = TopicIds.from_names(index.topics, index.ids).java_hash_codes
    return Targets(set_start, topic, hashes[topic], start, dense)


def _assignable(index: Index, allowed: Pairs) -> NDArray[np.bool_]:
    out = np.zeros(index.partitions, bool)
    for topic_id, numbers in allowed:
        topic = np.full(len(numbers), index.topic_by_id(topic_id), np.int32)
        dense = index.locate_all(topic, np.array(numbers, np.int32))
        out[dense[dense >= 0]] = True
    return out
