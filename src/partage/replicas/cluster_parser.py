"""Parser of a `ReplicaCluster` from JSON: a line of ``cluster.jsonl``, with sizes and loads.

Besides the fields that a capture writes, a partition may have ``size`` (bytes of one replica),
``load`` (bytes written a second) and ``directories`` (one path for each replica). A broker may have
``capacity`` (bytes) and ``directories`` (path, or path and capacity). Sizes and directories also
come from the output of ``kafka-log-dirs.sh --describe``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError
from partage.model import Broker, ReplicaCluster

__all__ = ["cluster_from_json", "sizes_from_log_dirs"]

_INT32 = 1 << 31
#: Fields of brokers and partitions. Others are errors: a misspelt limit would have no effect.
_BROKER = frozenset({"id", "rack", "host", "port", "fenced", "capacity", "directories"})
_PARTITION = frozenset({
    "p", "leader", "replicas", "isr", "size", "load", "directories", "adding", "removing",
    "offline", "epoch", "leader_epoch",
})  # fmt: skip
_MOST_BYTES = 1 << 60
#: The most bytes of all replicas: twice that fits int64.
_MOST_IN_ALL = 1 << 61
#: topic, partition -> broker id -> (bytes, directory)
LogDirs = Mapping[tuple[str, int], Mapping[int, tuple[int, str]]]


def cluster_from_json(
    description: Mapping[str, Any],
    *,
    log_dirs: LogDirs | None = None,
    removed_brokers: Collection[int] = (),
    excluded: Collection[str] = (),
) -> ReplicaCluster:
    """Build a `ReplicaCluster` from a JSON description of a Kafka cluster's brokers and topics.

    Each field is checked, so that a misspelt or contradictory input is reported with its path.

    Args:
        description: object with ``brokers`` and ``topics`` as in a line of ``cluster.jsonl``.
        log_dirs: sizes and directories from `sizes_from_log_dirs`; they override those in
            ``description``.
        removed_brokers: ids of brokers that hold replicas but may be missing in ``brokers``, such
            as failed ones.
        excluded: topics that are not reassigned; their malformed or moving partitions are skipped.

    Raises:
        InvalidProblemError: a field is wrong, a replica is on an unknown broker or twice on one, or
            a reassignment is in progress. The error has the path and the value.
    """
    if not isinstance(description, Mapping):
        raise InvalidProblemError("must be an object", path="cluster", value=description)
    topics = description.get("topics")
    if not isinstance(topics, Mapping):
        raise InvalidProblemError(
            "must be an object: name -> partitions", path="topics", value=topics
        )
    brokers = _BrokerParser(
        description.get("brokers"), [one for one in removed_brokers if _holds_any(topics, one)]
    )
    rows = _PartitionParser(brokers, log_dirs or {}, frozenset(excluded))
    for name in sorted(topics):
        rows.add_topic(name, topics[name])
    return rows.cluster()


def _holds_any(topics: Mapping[str, Any], broker: int) -> bool:
    for topic in topics.values():
        rows = topic.get("partitions") if isinstance(topic, Mapping) else None
        for row in rows if isinstance(rows, list) else ():
            ids = row.get("replicas") if isinstance(row, Mapping) else None
            if isinstance(ids, list) and broker in ids:
                return True
    return False


def sizes_from_log_dirs(log_dirs: Any) -> dict[tuple[str, int], dict[int, tuple[int, str]]]:
    """Parse the JSON output of ``kafka-log-dirs --describe``: size and directory of each replica.

    The result is a dict from (topic, partition) to a dict from broker id to (bytes, directory).

    Raises:
        InvalidProblemError: a field is wrong; the error has the path and the value.

    >>> dirs = [{"logDir": "/d", "error": None, "partitions": [{"partition": "t-0", "size": 7}]}]
    >>> sizes_from_log_dirs({"version": 1, "brokers": [{"broker": 1, "logDirs": dirs}]})
    {('t', 0): {1: (7, '/d')}}
    """
    out: dict[tuple[str, int], dict[int, tuple[int, str]]] = {}
    brokers = log_dirs.get("brokers") if isinstance(log_dirs, Mapping) else None
    for i, broker in enumerate(_expect_list(brokers, "logDirs.brokers")):
        where = f"logDirs.brokers[{i}]"
        broker_id = _expect_mapping(broker, where).get("broker")
        number = _expect_int(broker_id, f"{where}.broker", _INT32)
        for j, folder in enumerate(_expect_list(broker.get("logDirs"), f"{where}.logDirs")):
            inner = f"{where}.logDirs[{j}]"
            if _expect_mapping(folder, inner).get("error"):
                continue
            for k, one in enumerate(_expect_list(folder.get("partitions"), f"{inner}.partitions")):
                path = f"{inner}.partitions[{k}]"
                if _expect_mapping(one, path).get("isFuture"):
                    continue  # a copy between directories: the original counts
                topic, dash, partition = str(one.get("partition")).rpartition("-")
                if not dash or not partition.isdecimal() or len(partition) > 10:
                    raise InvalidProblemError(
                        "must be topic-number", path=f"{path}.partition", value=one.get("partition")
                    )
                size = _expect_int(one.get("size"), f"{path}.size", _MOST_BYTES)
                held = out.setdefault((topic, int(partition)), {})
                held[number] = (size, str(folder.get("logDir")))
    return out


class _BrokerParser:
    """Parser of the list of brokers in the JSON description of a Kafka cluster.

    Brokers that have left the cluster but still have replicas are added to the list.
    """

    def __init__(self, given: object, gone: Collection[int]) -> None:
        self.listed: list[Broker] = []
        self.missing: list[int] = []
        self.capacity: list[int] = []
        self.directories: list[tuple[tuple[str, int], ...]] = []
        for i, one in enumerate(_expect_list(given, "brokers")):
            self._add_from_json(_expect_mapping(one, f"brokers[{i}]"), f"brokers[{i}]")
        for number in gone:
            if number not in {b.id for b in self.listed}:
                self.missing.append(number)
                self._add(Broker(number, fenced=True), -1, ())
        self.at = {b.id: i for i, b in enumerate(self.listed)}
        if not self.listed:
            raise InvalidProblemError(
                "the list is empty: name at least one broker", path="brokers", value=given
            )

    def _add_from_json(self, one: Mapping[str, Any], path: str) -> None:
        _expect_known_fields(one, _BROKER, path)
        number = _expect_int(one.get("id"), f"{path}.id", _INT32)
        if any(b.id == number for b in self.listed):
            raise InvalidProblemError("two brokers have this id", path=f"{path}.id", value=number)
        rack, fenced = one.get("rack"), one.get("fenced", False)
        if rack is not None and not isinstance(rack, str):
            raise InvalidProblemError("must be text or null", path=f"{path}.rack", value=rack)
        if not isinstance(fenced, bool):
            raise InvalidProblemError("must be true or false", path=f"{path}.fenced", value=fenced)
        folders = []
        for j, folder in enumerate(_expect_list(one.get("directories", []), f"{path}.directories")):
            inner = f"{path}.directories[{j}]"
            room = -1
            if isinstance(folder, Mapping):
                if folder.get("capacity") is not None:
                    room = _expect_int(folder["capacity"], f"{inner}.capacity", _MOST_BYTES)
                folder = folder.get("path")  # noqa: PLW2901 - an object has its path as a field
            if not isinstance(folder, str) or not folder.startswith("/"):
                raise InvalidProblemError("must be an absolute path", path=inner, value=folder)
            folders.append((folder, room))
        capacity = one.get("capacity")
        room = -1 if capacity is None else _expect_int(capacity, f"{path}.capacity", _MOST_BYTES)
        if capacity is None and folders and all(size >= 0 for _, size in folders):
            room = sum(size for _, size in folders)
        self._add(Broker(number, rack, fenced=fenced), room, tuple(folders))

    def _add(self, broker: Broker, capacity: int, directories: tuple[tuple[str, int], ...]) -> None:
        self.listed.append(broker)
        self.capacity.append(capacity)
        self.directories.append(directories)


class _PartitionParser:
    """Parser of the topics and partitions in the JSON description of a Kafka cluster.

    It collects each field of the partitions in a list, and builds a `ReplicaCluster` from the
    lists.
    """

    def __init__(self, brokers: _BrokerParser, log_dirs: LogDirs, excluded: frozenset[str]) -> None:
        self.brokers, self.log_dirs, self.excluded = brokers, log_dirs, excluded
        self.topics: list[str] = []
        self.topic: list[int] = []
        self.number: list[int] = []
        self.count: list[int] = []
        self.replica: list[int] = []
        self.leader: list[int] = []
        self.size: list[int | None] = []
        self.load: list[int | None] = []
        self.folder: list[str | None] = []

    def add_topic(self, name: str, value: object) -> None:
        path = f"topics.{name}"
        self.topics.append(name)
        seen: set[int] = set()
        for i, row in enumerate(
            _expect_list(_expect_mapping(value, path).get("partitions"), f"{path}.partitions")
        ):
            where = f"{path}.partitions[{i}]"
            _expect_known_fields(_expect_mapping(row, where), _PARTITION, where)
            number = _expect_int(row.get("p"), f"{where}.p", _INT32)
            if number in seen:
                raise InvalidProblemError(
                    "the topic has this partition twice", path=f"{where}.p", value=number
                )
            seen.add(number)
            try:
                self._add_partition(name, number, row, where)
            except InvalidProblemError:
                if name not in self.excluded:
                    raise

    def _add_partition(self, name: str, number: int, row: Mapping[str, Any], where: str) -> None:
        _reject_reassignment_in_progress(name, number, row)
        ids = _expect_list(row.get("replicas"), f"{where}.replicas")
        held = self.log_dirs.get((name, number), {})
        folders = row.get("directories")
        if folders is not None and len(_expect_list(folders, f"{where}.directories")) != len(ids):
            what = f"one path for each of the {len(ids)} replicas"
            raise InvalidProblemError(what, path=f"{where}.directories", value=folders)
        if not ids:
            raise InvalidProblemError("has no replicas", path=f"{name}-{number}", value=ids)
        replica: list[int] = []
        folder: list[str | None] = []
        for j, one in enumerate(ids):
            broker = _expect_int(one, f"{where}.replicas[{j}]", _INT32)
            at = self.brokers.at.get(broker)
            if at is None:
                what = (
                    f"broker {broker} is unknown: it is not among brokers (drain it, if it is gone)"
                )
                raise InvalidProblemError(what, path=f"{name}-{number}", value=ids)
            replica.append(at)
            known = held.get(broker)
            folder.append(known[1] if known else folders[j] if folders is not None else None)
        if len(set(ids)) < len(ids):
            what = "two replicas are on one broker"
            raise InvalidProblemError(what, path=f"{name}-{number}", value=ids)
        size, load = row.get("size"), row.get("load")
        # Replicas differ in size because followers lag: a new one will be as large as the largest.
        bytes_ = (
            max(one for one, _ in held.values()) if held
            else None if size is None else _expect_int(size, f"{where}.size", _MOST_BYTES)
        )  # fmt: skip
        rate = None if load is None else _expect_rate(load, f"{where}.load")
        leader = _leader_position(row.get("leader"), ids, replica, f"{where}.leader")
        self.topic.append(len(self.topics) - 1)
        self.number.append(number)
        self.count.append(len(ids))
        self.replica += replica
        self.folder += folder
        self.leader.append(leader)
        self.size.append(bytes_)
        self.load.append(rate)

    def cluster(self) -> ReplicaCluster:
        start = np.zeros(len(self.count) + 1, np.int64)
        np.cumsum(self.count, out=start[1:])
        brokers = self.brokers
        at = [{path: i for i, (path, _) in enumerate(disks)} for disks in brokers.directories]
        known = [list(disks) for disks in brokers.directories]
        directory = np.full(len(self.replica), -1, np.int32)
        for i, (broker, folder) in enumerate(zip(self.replica, self.folder, strict=True)):
            if folder is not None:
                if folder not in at[broker]:
                    at[broker][folder] = len(known[broker])
                    known[broker].append((folder, -1))
                directory[i] = at[broker][folder]
        return ReplicaCluster(
            topics=tuple(self.topics), topic=np.array(self.topic, np.int32),
            number=np.array(self.number, np.int32), start=start,
            replica=np.array(self.replica, np.int32), leader=np.array(self.leader, np.int32),
            size=_complete_column(self.size, "size", self),
            load=_complete_column(self.load, "load", self),
            brokers=tuple(brokers.listed), capacity=np.array(brokers.capacity, np.int64),
            directories=tuple(tuple(disks) for disks in known), directory=directory,
            missing=np.array([b.id in brokers.missing for b in brokers.listed], bool),
        )  # fmt: skip


def _leader_position(value: object, ids: Sequence[int], replica: Sequence[int], path: str) -> int:
    """Return the index of a partition's leader in the cluster's list of brokers.

    The result is -1 if the partition has no leader.

    Args:
        value: the leader's broker id; null or -1 for none.
        ids: broker ids of the replicas.
        replica: indices of these brokers in the cluster, in the same order.
        path: JSON path of the value.

    Raises:
        InvalidProblemError: the leader is not one of the replicas, which Kafka never elects.
    """
    if value is None or (value == -1 and not isinstance(value, bool)):
        return -1
    if isinstance(value, bool) or not isinstance(value, int) or value not in ids:
        what = f"must be one of the replicas {list(ids)}, or -1 for a partition without a leader"
        raise InvalidProblemError(what, path=path, value=value)
    return replica[ids.index(value)]


def _reject_reassignment_in_progress(name: str, number: int, row: Mapping[str, Any]) -> None:
    """Raise an error if a partition's reassignment is still in progress.

    Its replicas are about to change, so a plan made now would be wrong.

    Args:
        name: name of the partition's topic.
        number: number of the partition.
        row: JSON object of the partition.

    Raises:
        InvalidProblemError: replicas are being added or removed.
    """
    if row.get("adding") or row.get("removing"):
        what = (
            "a reassignment of it is in progress: wait for it, or cancel it "
            "(kafka-reassign-partitions --cancel)"
        )
        raise InvalidProblemError(what, path=f"{name}-{number}", value=row.get("adding"))


def _complete_column(
    values: Sequence[int | None], quantity: str, parser: _PartitionParser
) -> NDArray[np.int64] | None:
    """Convert the sizes or loads of all partitions to an array (int64[partitions]).

    The result is None if no partition has a value. It is an error if only some have one.

    Args:
        values: one number for each partition, None if missing.
        quantity: name of the numbers for error messages.
        parser: the parser of the partitions, which names them in errors.

    Raises:
        InvalidProblemError: only some partitions have a number, or the sum is too large.
    """
    lacks = [i for i, value in enumerate(values) if value is None]
    if len(lacks) == len(values):
        return None
    missing = [i for i in lacks if parser.topics[parser.topic[i]] not in parser.excluded]
    if missing:
        p = missing[0]
        name = f"{parser.topics[parser.topic[p]]}-{parser.number[p]}"
        message = f"has no {quantity}, but others have; {len(missing)} partitions have none"
        raise InvalidProblemError(message, path=name, value=None)
    total = sum((value or 0) * count for value, count in zip(values, parser.count, strict=True))
    if total > _MOST_IN_ALL:
        message = f"more than {_MOST_IN_ALL} in all replicas together"
        raise InvalidProblemError(message, path=quantity, value=total)
    return np.array([value or 0 for value in values], np.int64)


def _expect_mapping(value: object, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidProblemError("must be an object", path=path, value=value)
    return value


def _expect_known_fields(given: Mapping[str, Any], known: frozenset[str], path: str) -> None:
    unknown = sorted(set(given) - known)
    if unknown:
        what = f"unknown field; known are {', '.join(sorted(known))}"
        raise InvalidProblemError(what, path=f"{path}.{unknown[0]}", value=given[unknown[0]])


def _expect_list(value: object, path: str) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise InvalidProblemError("must be a list", path=path, value=value)
    return value


def _expect_int(value: object, path: str, upper_limit: int) -> int:
    """Check that a JSON value is an integer from 0 to ``upper_limit`` - 1, and return it.

    Examples are broker ids and partition numbers in the description of a Kafka cluster.

    Raises:
        InvalidProblemError: it is not such an int; the error names its JSON ``path``.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < upper_limit:
        raise InvalidProblemError(
            f"must be a whole number from 0 below {upper_limit}", path=path, value=value
        )
    return value


def _expect_rate(value: object, path: str) -> int:
    """Check that a JSON value is a rate in bytes per second, and return it rounded to an integer.

    The write loads of partitions are such rates.

    Raises:
        InvalidProblemError: it is not such a number; the error names its JSON ``path``.
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not 0 <= value < _MOST_BYTES
    ):
        raise InvalidProblemError("must be bytes a second, from 0", path=path, value=value)
    return round(value)
