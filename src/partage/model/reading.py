"""Reading of problems from JSON; errors name the path of the malformed value."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from partage.errors import InvalidProblemError
from partage.model.cluster import Broker, Cluster
from partage.model.group import Group, Member
from partage.model.index import MOST_PARTITIONS, Index, Int32Array

__all__ = [
    "cluster_from_topics", "field", "from_json", "group_from_members", "listed", "parsed", "text",
]  # fmt: skip

_MEMBER_FIELDS = (
    "id", "topics", "instance", "rack", "owned", "generation", "userData", "weight", "capacity",
    "strategies", "config",
)  # fmt: skip


def parsed(problem: object) -> Mapping[str, Any]:
    """Return a problem as a mapping, from JSON text, a path, or the mapping itself."""
    if isinstance(problem, PathLike):
        problem = _read(Path(problem))
    if isinstance(problem, (str, bytes)):
        try:
            problem = from_json(problem)
        except (ValueError, RecursionError) as e:
            what = f"not JSON ({e}); give JSON text, or a pathlib.Path to read"
            raise InvalidProblemError(what, path="problem", value=problem) from None
    if not isinstance(problem, Mapping):
        what = "must be an object with topics and members"
        raise InvalidProblemError(what, path="problem", value=problem)
    return problem


def from_json(text: str | bytes) -> Any:
    """Parse JSON in which no object has a duplicate key.

    Raises:
        InvalidProblemError: a key is duplicated.
        ValueError, RecursionError: the text is not JSON.
    """
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]  # add returns None
        raise InvalidProblemError("a key is there twice", path="problem", value=twice)
    return made


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        what = f"cannot be read ({e.strerror})"
        raise InvalidProblemError(what, path="problem", value=str(path)) from None


def field(problem: Mapping[str, Any], name: str) -> Any:
    """Return a required field."""
    if name not in problem:
        raise InvalidProblemError("is missing", path=name, value=None)
    return problem[name]


def cluster_from_topics(topics: object) -> Cluster:
    """Return a cluster; see `Cluster.from_topics`."""
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
    """Return the replica racks of each partition, or None for a valid count of partitions."""
    path = f"topics.{name}"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not 0 <= value <= MOST_PARTITIONS:
            what = f"must be a count from 0 to {MOST_PARTITIONS}"
            raise InvalidProblemError(what, path=path, value=value)
        return None
    out: list[list[str | None]] = []
    for p, racks in enumerate(listed(value, path, "a partition count or a list")):
        inner = f"{path}[{p}]"
        out.append(list(listed(racks, inner, "a list of racks")))
        for r, rack in enumerate(out[-1]):
            if rack is not None and not isinstance(rack, str):
                raise InvalidProblemError(
                    "rack must be text or null", path=f"{inner}[{r}]", value=rack
                )
    return out


def listed(value: object, path: str, what: str) -> Sequence[Any]:
    """Return a value that must be a JSON list."""
    if isinstance(value, (str, bytes)) or not isinstance(value, (list, tuple)):
        raise InvalidProblemError(f"must be {what}", path=path, value=value)
    return value


def _with_racks(index: Index, placed: Sequence[list[list[str | None]] | None]) -> Cluster:
    """Return a cluster with one broker per rack and replica position, and one without rack."""
    brokers: dict[tuple[str | None, int], int] = {}
    sizes: list[Int32Array] = []
    replicas: list[Int32Array] = []
    # Topics given by count are mostly consecutive: their columns are built at once.
    for plain, run in groupby(
        zip(index.counts.tolist(), placed, strict=True), lambda row: row[1] is None
    ):
        if plain:
            count = sum(one for one, _ in run)
            rackless = brokers.setdefault((None, 0), len(brokers)) if count else 0
            sizes.append(np.ones(count, np.int32))
            replicas.append(np.full(count, rackless, np.int32))
            continue
        for _, racks in run:
            sizes.append(np.array([len(row) for row in racks or ()], np.int32))
            flat = [b for row in racks or () for b in _stand_ins(row, brokers)]
            replicas.append(np.array(flat, np.int32))
    start = np.zeros(index.partitions + 1, np.int32)
    replica = np.zeros(0, np.int32)
    if sizes:
        np.cumsum(np.concatenate(sizes), out=start[1:])
        replica = np.concatenate(replicas)
    leader = np.full(index.partitions, -1, np.int32)
    has = np.diff(start) > 0
    leader[has] = replica[start[:-1][has]]
    return Cluster(
        index,
        np.ones(len(index.topics), bool),
        np.ones(index.partitions, bool),
        leader,
        start,
        replica,
        tuple(Broker(i, rack) for i, (rack, _) in enumerate(brokers)),
    )


def _stand_ins(
    row: Sequence[str | None], brokers: dict[tuple[str | None, int], int]
) -> Iterator[int]:
    used: dict[str | None, int] = {}
    for rack in row:
        k = used[rack] = used.get(rack, -1) + 1
        yield brokers.setdefault((rack, k), len(brokers))


def group_from_members(members: object) -> Group:
    """Return a group; see `Group.from_json`."""
    return Group(
        _member(value, f"members[{i}]")
        for i, value in enumerate(listed(members, "members", "a list of members"))
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
    text(value["id"], f"{path}.id")
    topics = listed(value.get("topics", []), f"{path}.topics", "a list of names")
    for i, topic in enumerate(topics):
        text(topic, f"{path}.topics[{i}]")
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
            strategies=() if value.get("strategies") is None else value["strategies"],
            config={} if value.get("config") is None else value["config"],
        )
    except InvalidProblemError as e:
        # Errors of Member have the member id; in a file the position is easier to find.
        inside = e.path.removeprefix(f"members.{value['id']}").removeprefix(path)
        raise InvalidProblemError(e.what, path=f"{path}{inside}", value=e.value) from None


def _owned_default(value: Mapping[str, Any], path: str) -> object:
    owned = value.get("owned", [])
    if owned is not None and not isinstance(owned, (list, Mapping)):
        raise InvalidProblemError("must be a list of pairs", path=f"{path}.owned", value=owned)
    return ()


def text(value: object, path: str) -> str:
    """Return a value that must be a string."""
    if not isinstance(value, str):
        raise InvalidProblemError("must be text", path=path, value=value)
    return value


def _bytes(value: object, path: str) -> bytes | None:
    if value is None:
        return None
    try:
        return base64.b64decode(text(value, path), validate=True)
    except (binascii.Error, ValueError) as e:
        raise InvalidProblemError(f"must be base64 ({e})", path=path, value=value) from None
