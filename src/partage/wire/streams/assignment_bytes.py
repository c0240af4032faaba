"""The bytes of ``AssignmentInfo``, both ways: see `assignment_info` for what each version has."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.errors import WireFormatError
from partage.java.hash_order import hash_set_order, topic_partition_hash
from partage.java.strings import string_hash
from partage.wire.faults import LengthError, UnsupportedVersionError
from partage.wire.primitives import Reader, Writer
from partage.wire.reading import joined
from partage.wire.streams.assignment_info import AssignmentInfo, check_version
from partage.wire.streams.data_output import read_chars, read_utf, write_chars, write_utf
from partage.wire.streams.partitions import NO_HOSTS, Host, Hosts, PartitionLists, TopicPartition
from partage.wire.streams.subscription_info import LATEST_VERSION, UNKNOWN_VERSION
from partage.wire.streams.task_bytes import (
    FIRST_NAMED_VERSION,
    append_tasks,
    read_named_tasks,
    read_tasks,
    refuse_names,
)
from partage.wire.streams.tasks import NO_TASKS, Tasks

__all__ = ["decode_assignment_info", "encode_assignment_info"]

_NAME = "AssignmentInfo"
_INDEXED = np.dtype([("topic", ">i4"), ("partition", ">i4")])

Read = TypeVar("Read")
Dictionary = tuple[tuple[int, str], ...]


def decode_assignment_info(data: bytes, *, latest: int = LATEST_VERSION) -> AssignmentInfo:
    r"""Read the user data of a member's assignment.

    Kafka's reader is followed but for one thing: an index that the dictionary lacks is an error
    here, and there a partition of topic null.

    Args:
        data: the bytes; what follows the message is counted in ``trailing``.
        latest: the latest version that the reader supports.

    Raises:
        WireFormatError: the bytes are no such message (TaskAssignmentException).

    >>> decode_assignment_info(b"\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0").active
    Tasks([(0, 2, None)])
    """
    reading = _Reading(data)
    try:
        return reading.message(latest)
    except WireFormatError as error:
        error.field = joined(_NAME, joined(reading.field, error.field))
        error.version = reading.version
        raise error.with_traceback(None) from None  # see `reading`


class _Reading:
    """One message being read; ``field`` is the one at hand, for errors."""

    def __init__(self, data: bytes) -> None:
        self.reader = Reader(data)
        self.field = "version"
        self.version = -1

    def _get(self, field: str, read: Callable[[], Read]) -> Read:
        self.field = field
        return read()

    def message(self, latest: int) -> AssignmentInfo:
        reader = self.reader
        self.version = version = reader.int32()
        if not 1 <= version <= min(latest, LATEST_VERSION):
            what = f"versions 1 to {min(latest, LATEST_VERSION)} can be read"
            raise UnsupportedVersionError(what, offset=0, field="", version=version)
        common = UNKNOWN_VERSION
        if version >= 3:
            common = self._get("commonlySupportedVersion", reader.int32)
        active = self._get("activeTasks", self._tasks)
        standby, lists = self._get("standbyTasks", self._standby)
        hosts = standby_hosts = NO_HOSTS
        dictionary = None
        if version >= 5:
            dictionary = self._get("topicDictionary", self._dictionary)
            hosts = self._get("partitionsByHost", lambda: self._hosts(dictionary))
        elif version >= 2:
            hosts = self._get("partitionsByHost", lambda: self._hosts(None))
        if version >= 6:
            standby_hosts = self._get("standbyPartitionsByHost", lambda: self._hosts(dictionary))
        made = AssignmentInfo(version, common, active, standby, lists, hosts, standby_hosts)
        return self._end(made, dictionary)

    def _end(self, made: AssignmentInfo, dictionary: Dictionary | None) -> AssignmentInfo:
        reader = self.reader
        code = self._get("errCode", reader.int32) if self.version >= 4 else 0
        later = made.next_rebalance_ms
        if self.version >= 7:
            later = self._get("nextRebalanceMs", reader.int64)
        return AssignmentInfo(
            made.version,
            made.common_version,
            made.active,
            made.standby,
            made.standby_partitions,
            made.hosts,
            made.standby_hosts,
            code,
            later,
            dictionary,
            reader.left,
        )

    def _count(self) -> int:
        """A count of entries, each of which takes four bytes at least.

        Kafka compares it with the payload's length; then it fails where the bytes end.
        """
        reader = self.reader
        start = reader.position
        count = reader.int32()
        if not 0 <= count <= reader.left // 4:
            what = f"count {count}, but {reader.left} bytes left"
            raise LengthError(what, offset=start, field="")
        return count

    def _tasks(self) -> Tasks:
        return read_named_tasks(self.reader) if self._named else read_tasks(self.reader)

    @property
    def _named(self) -> bool:
        return self.version >= FIRST_NAMED_VERSION

    def _standby(self) -> tuple[Tasks, PartitionLists]:
        one, other, named = array("i"), array("i"), array("i")
        names: dict[str, int] = {}
        lists = _Lists()
        reader = self.reader
        for _ in range(self._count()):
            one.append(reader.int32())
            other.append(reader.int32())
            name = read_chars(reader) if self._named else None
            named.append(-1 if name is None else names.setdefault(name, len(names)))
            self._named_partitions(lists)
        if not one:
            return NO_TASKS, lists.made()
        return Tasks.from_columns(one, other, named, tuple(names)), lists.made()

    def _named_partitions(self, lists: _Lists) -> None:
        reader = self.reader
        for _ in range(self._count()):
            lists.add(read_utf(reader), reader.int32())
        lists.end()

    def _dictionary(self) -> Dictionary:
        reader = self.reader
        return tuple((reader.int32(), read_utf(reader)) for _ in range(self._count()))

    def _hosts(self, dictionary: Dictionary | None) -> Hosts:
        names: list[Host] = []
        lists = _Lists()
        indexed = None if dictionary is None else _Indexed(dictionary)
        reader = self.reader
        for _ in range(self._count()):
            names.append((read_utf(reader), reader.int32()))
            if indexed is None:
                self._named_partitions(lists)
            else:
                indexed.read(reader, self._count())
        return Hosts(tuple(names), lists.made() if indexed is None else indexed.made())


class _Lists:
    """Lists of partitions whose topics stand there by name."""

    def __init__(self) -> None:
        self._start, self._topic, self._partition = array("i", [0]), array("i"), array("i")
        self._names: dict[str, int] = {}

    def add(self, topic: str, partition: int) -> None:
        self._topic.append(self._names.setdefault(topic, len(self._names)))
        self._partition.append(partition)

    def end(self) -> None:
        self._start.append(len(self._partition))

    def made(self) -> PartitionLists:
        names = tuple(self._names)
        return PartitionLists.from_columns(self._start, self._topic, self._partition, names)


class _Indexed:
    """Lists of partitions whose topics stand there by their index in a dictionary."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._names = tuple(topic for _, topic in dictionary)
        # Of an index that is there twice the later counts.
        place_of = {index: place for place, (index, _) in enumerate(dictionary)}
        self._indices = np.array(sorted(place_of), np.int32)
        self._places = np.array([place_of[one] for one in self._indices.tolist()], np.int32)
        self._start = array("i", [0])
        self._topic, self._partition = array("i"), array("i")

    def read(self, reader: Reader, count: int) -> None:
        if count * _INDEXED.itemsize > reader.left:
            reader.position = reader.end
            reader.int32()
        rows = np.frombuffer(reader.data, _INDEXED, count, reader.position)
        at = np.searchsorted(self._indices, rows["topic"])
        known = at < len(self._indices)
        known[known] = self._indices[at[known]] == rows["topic"][known]
        if not known.all():
            first = int(np.argmin(known))
            offset = reader.position + first * _INDEXED.itemsize
            what = f"the dictionary has no topic {int(rows['topic'][first])}"
            raise LengthError(what, offset=offset, field="")
        self._topic.frombytes(self._places[at].astype(np.intc).tobytes())
        self._partition.frombytes(rows["partition"].astype(np.intc).tobytes())
        self._start.append(len(self._partition))
        reader.position += rows.nbytes

    def made(self) -> PartitionLists:
        return PartitionLists.from_columns(self._start, self._topic, self._partition, self._names)


def encode_assignment_info(info: AssignmentInfo) -> bytes:
    """The bytes of the message, every list in its own order; ``trailing`` is not written.

    Without a ``dictionary`` topics are numbered as Kafka numbers them: as they come up in a hash
    set of all partitions, and written in the order of a hash map.

    Raises:
        UnsupportedVersionError: no version from 1 to 11.
        EncodingError: a value does not fit, a named topology before version 10, or a topic that
            the given dictionary lacks.

    >>> encode_assignment_info(AssignmentInfo(1)).hex()
    '000000010000000000000000'
    """
    check_version(info.version)
    writer = Writer()
    for field, write in _writers(info):
        try:
            write(writer)
        except WireFormatError as error:
            error.field, error.version = joined(_NAME, joined(field, error.field)), info.version
            raise
    return bytes(writer.buffer)


def _writers(info: AssignmentInfo) -> list[tuple[str, Callable[[Writer], None]]]:
    """The fields that this version has, in the order of the bytes."""
    version = info.version
    dictionary: Dictionary | None = None
    if version >= 5:
        dictionary = _kafkas_dictionary(info) if info.dictionary is None else info.dictionary
    steps: list[tuple[int, str, Callable[[Writer], None]]] = [
        (1, "version", lambda w: w.int32(version)),
        (3, "commonlySupportedVersion", lambda w: w.int32(info.common_version)),
        (1, "activeTasks", lambda w: append_tasks(w, info.active, version=version)),
        (1, "standbyTasks", lambda w: _append_standby(w, info)),
        (5, "topicDictionary", lambda w: _append_dictionary(w, dictionary or ())),
        (2, "partitionsByHost", lambda w: _append_hosts(w, info.hosts, dictionary)),
        (6, "standbyPartitionsByHost", lambda w: _append_hosts(w, info.standby_hosts, dictionary)),
        (4, "errCode", lambda w: w.int32(info.error_code)),
        (7, "nextRebalanceMs", lambda w: w.int64(info.next_rebalance_ms)),
    ]
    return [(name, write) for first, name, write in steps if version >= first]


def _append_standby(writer: Writer, info: AssignmentInfo) -> None:
    refuse_names(writer, info.standby, info.version)
    writer.int32(len(info.standby))
    for (one, other, name), partitions in zip(info.standby, info.standby_partitions, strict=True):
        writer.int32(one)
        writer.int32(other)
        if info.version >= FIRST_NAMED_VERSION:
            write_chars(writer, name)
        _append_partitions(writer, partitions)


def _append_partitions(writer: Writer, partitions: tuple[TopicPartition, ...]) -> None:
    writer.int32(len(partitions))
    for topic, number in partitions:
        write_utf(writer, topic)
        writer.int32(number)


def _append_dictionary(writer: Writer, dictionary: Dictionary) -> None:
    writer.int32(len(dictionary))
    for index, topic in dictionary:
        writer.int32(index)
        write_utf(writer, topic)


def _append_hosts(writer: Writer, hosts: Hosts, dictionary: Dictionary | None) -> None:
    lists = hosts.partitions
    writer.int32(len(hosts))
    rows = np.empty(0, _INDEXED) if dictionary is None else _indexed_rows(writer, lists, dictionary)
    for place, (host, port) in enumerate(hosts.names):
        write_utf(writer, host)
        writer.int32(port)
        if dictionary is None:
            _append_partitions(writer, lists[place])
            continue
        start, stop = lists.start[place : place + 2].tolist()
        writer.int32(stop - start)
        writer.raw(rows[start:stop].tobytes())


def _indexed_rows(
    writer: Writer, lists: PartitionLists, dictionary: Dictionary
) -> NDArray[np.void]:
    """All partitions of the lists as they are written, topics by index."""
    if lists.topics == tuple(topic for _, topic in dictionary):
        # As it was read: a topic may be there under two indices.
        indices = [index for index, _ in dictionary]
    else:
        index_of = {topic: index for index, topic in dictionary}
        for topic in (lists.topics[one] for one in sorted(set(lists.topic.tolist()))):
            if topic not in index_of:
                writer.refuse(f"topic {topic!r:.80} is not in the dictionary")
        indices = [index_of.get(topic, -1) for topic in lists.topics]
    rows = np.empty(len(lists.topic), _INDEXED)
    rows["partition"] = lists.partition
    if len(rows):
        rows["topic"] = np.array(indices, np.int32)[lists.topic]
    return rows


def _kafkas_dictionary(info: AssignmentInfo) -> Dictionary:
    lists = [*info.hosts.partitions]
    if info.version >= 6:
        lists += [*info.standby_hosts.partitions]
    every = [partition for one in lists for partition in one]
    walked = hash_set_order(every, lambda one: topic_partition_hash(*one))
    index_of: dict[str, int] = {}
    for topic, _ in walked:
        index_of.setdefault(topic, len(index_of))
    return tuple((index_of[topic], topic) for topic in hash_set_order(index_of, string_hash))
