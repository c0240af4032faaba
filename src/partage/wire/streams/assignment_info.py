"""``AssignmentInfo``, versions 1 to 11: the user data that a Streams leader sends each member.

Kafka has no schema of it: the class writes field after field with ``DataOutputStream``. The layout
here is ``messages/AssignmentInfo.json``, and the engine decodes it with lists as arrays. Versions
added:

    1  active tasks, one for each assigned partition; standby tasks with their partitions
    2  partitions by host (interactive queries)
    3  the latest version that all members support, after the version
    4  an error code at the end
    5  a dictionary for the topics of the hosts' partitions
    6  partitions of standby tasks by host, by the same dictionary
    7  the time of the next rebalance
   10  names of topologies in task ids
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from partage.errors import WireFormatError
from partage.java.hash_order import hash_set_order, topic_partition_hash
from partage.java.strings import string_hash
from partage.wire.codec import Codec, codec_with_replacements, set_location
from partage.wire.errors import LengthError, UnsupportedVersionError
from partage.wire.messages import load_message
from partage.wire.primitives import ByteReader, ByteWriter
from partage.wire.streams.arrays import (
    NO_HOSTS,
    NO_LISTS,
    NO_TASKS,
    Host,
    HostPartitions,
    PartitionLists,
    PartitionListsBuilder,
    TaskArrays,
    TaskKey,
    TasksBuilder,
    TopicPartition,
    merge_unnamed,
    partition_order_key,
)
from partage.wire.streams.subscription_info import (
    FIRST_NAMED_VERSION,
    LATEST_VERSION,
    UNKNOWN_VERSION,
    check_names,
    tasks_codec,
)

__all__ = [
    "ASSIGNMENT_INFO",
    "ERRORS",
    "NEVER_MS",
    "AssignmentInfo",
    "decode_assignment_info",
    "encode_assignment_info",
]

ASSIGNMENT_INFO = load_message("AssignmentInfo")

NEVER_MS: Final = 2**63 - 1
"""``next_rebalance_ms`` of a member that must not trigger a rebalance."""

ERRORS: Final = {
    0: "NONE",
    1: "INCOMPLETE_SOURCE_TOPIC_METADATA",
    2: "VERSION_PROBING",
    3: "ASSIGNMENT_ERROR",
    4: "SHUTDOWN_REQUESTED",
}
"""Names of the error codes. On 1 (a source topic is missing), 3 and unknown codes a member fails;
on 2 it does nothing; on 4 it shuts down the whole client."""

Dictionary = tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class AssignmentInfo:
    """The decoded user data of a Kafka Streams member's assignment, sent by the group's leader.

    Lists have the encoded order.

    Attributes:
        version: the version of the bytes, the lowest that any member of the group sent.
        common_version: the latest version that all members support; -1 in versions 1 and 2.
        active: the task of each assigned partition, with partitions in sorted order.
        standby: the standby tasks.
        standby_partitions: the source partitions of each standby task.
        hosts: endpoints with the source partitions of their active tasks (from 2 on).
        standby_hosts: endpoints with the source partitions of their standby tasks (from 6 on).
        error_code: a key of `ERRORS` (from 4 on).
        next_rebalance_ms: milliseconds since 1970; 0 for at once, `NEVER_MS` for never (also before
            7).
        dictionary: (index, topic) pairs as sent (from 5 on), needed to encode the same bytes; None
            for the dictionary that Kafka builds.
        trailing: number of bytes after the message, which Kafka ignores.

    Source: ``AssignmentInfo`` of kafka-streams 4.3.1.
    """

    version: int = LATEST_VERSION
    common_version: int = LATEST_VERSION
    active: TaskArrays = NO_TASKS
    standby: TaskArrays = NO_TASKS
    standby_partitions: PartitionLists = NO_LISTS
    hosts: HostPartitions = NO_HOSTS
    standby_hosts: HostPartitions = NO_HOSTS
    error_code: int = 0
    next_rebalance_ms: int = NEVER_MS
    dictionary: Dictionary | None = None
    trailing: int = 0

    @classmethod
    def of(
        cls,
        *,
        version: int = LATEST_VERSION,
        common_version: int = LATEST_VERSION,
        active: Iterable[TaskKey] | Iterable[tuple[int, int]] = (),
        standby: Mapping[TaskKey, Sequence[TopicPartition]]
        | Mapping[tuple[int, int], Sequence[TopicPartition]]
        | None = None,
        hosts: Mapping[Host, Sequence[TopicPartition]] | None = None,
        standby_hosts: Mapping[Host, Sequence[TopicPartition]] | None = None,
        error_code: int = 0,
        next_rebalance_ms: int = NEVER_MS,
    ) -> AssignmentInfo:
        """Create the user data of a Streams member's assignment from Python dicts and lists.

        Args:
            version: version of the message.
            common_version: latest version that all members support.
            active: the task of each assigned partition.
            standby: dict from each standby task to its partitions.
            hosts: dict from endpoint to source partitions of its active tasks.
            standby_hosts: dict from endpoint to source partitions of its standby tasks.
            error_code: Kafka's number of an error, 0 for none.
            next_rebalance_ms: time of the next rebalance.

        Raises:
            UnsupportedVersionError: the version is not in 1 to 11 (IllegalArgumentException in
                Kafka).
            EncodingError: an element is not a task or a partition.

        >>> AssignmentInfo.of(active=[(0, 2)], standby={(1, 0): [("t", 0)]}).standby_tasks()
        {(1, 0, None): (('t', 0),)}
        """
        _check_version(version)
        by_standby = merge_unnamed(standby or {})
        return cls(
            version,
            common_version,
            TaskArrays.from_tasks(active),
            TaskArrays.from_tasks(by_standby),
            PartitionLists.from_lists(by_standby.values()),
            HostPartitions.from_endpoints((hosts or {}).items()),
            HostPartitions.from_endpoints((standby_hosts or {}).items()),
            error_code,
            next_rebalance_ms,
        )

    @property
    def error_name(self) -> str:
        """Name of the error code, such as ``ASSIGNMENT_ERROR``; ``UNKNOWN`` for a code that Kafka
        lacks.

        >>> AssignmentInfo(error_code=3).error_name
        'ASSIGNMENT_ERROR'
        """
        return ERRORS.get(self.error_code, "UNKNOWN")

    def standby_tasks(self) -> dict[TaskKey, tuple[TopicPartition, ...]]:
        """Return a dict from each standby task to its partitions.

        If a task occurs twice, the last entry counts, as in Kafka's map.
        """
        return dict(zip(self.standby, self.standby_partitions, strict=True))

    def partition_tasks(
        self, partitions: Sequence[TopicPartition]
    ) -> list[tuple[TopicPartition, TaskKey]]:
        """Return pairs of each assigned partition and the Kafka Streams task that reads it.

        ``partitions`` are those of the assignment that has this user data, in any order.

        Raises:
            WireFormatError: the number of tasks differs from that of partitions
                (TaskAssignmentException in Kafka).
        """
        if len(partitions) != len(self.active):
            what = f"{len(self.active)} tasks for {len(partitions)} assigned partitions"
            field = "AssignmentInfo.activeTasks"
            raise WireFormatError(what, offset=0, field=field, version=self.version)
        return list(zip(sorted(partitions, key=partition_order_key), self.active, strict=True))


def _check_version(version: int) -> None:
    if not 1 <= version <= LATEST_VERSION:
        what = f"versions 1 to {LATEST_VERSION} can be written"
        field = "AssignmentInfo.version"
        raise UnsupportedVersionError(what, offset=0, field=field, version=version)


# --- bytes -----------------------------------------------------------------------------------

_INDEXED = np.dtype([("topic", ">i4"), ("partition", ">i4")])
_ATTRIBUTES = {
    "version": "version",
    "commonlySupportedVersion": "common_version",
    "activeTasks": "active",
    "topicDictionary": "dictionary",
    "partitionsByHost": "hosts",
    "standbyPartitionsByHost": "standby_hosts",
    "errCode": "error_code",
    "nextRebalanceMs": "next_rebalance_ms",
}
"""The attribute of each field of the layout; ``standbyTasks`` has two."""


class _InfoReader(ByteReader):
    """Byte reader of a Kafka Streams assignment that stores the topic names it has read.

    Partitions later in the message refer to these names by index.
    """

    __slots__ = ("dictionary",)
    dictionary: Dictionary


@lru_cache(maxsize=LATEST_VERSION)
def _codec(version: int) -> Codec:
    columns = {
        "[]TaskId": tasks_codec(version),
        "[]StandbyTask": Codec(
            partial(_read_standby, version=version), partial(_write_standby, version=version)
        ),
        "[]DictionaryEntry": Codec(_read_dictionary, _write_dictionary),
        "[]HostPartitions": Codec(partial(_read_hosts, indexed=version >= 5), _write_hosts),
    }
    return codec_with_replacements(ASSIGNMENT_INFO, version, columns)


def decode_assignment_info(data: bytes, *, latest: int = LATEST_VERSION) -> AssignmentInfo:
    r"""Decode the user data of a Kafka Streams member's assignment.

    Args:
        data: the bytes; those after the message are counted in ``trailing``.
        latest: the latest version that the reader supports.

    Raises:
        WireFormatError: the bytes are not such a message (TaskAssignmentException in Kafka), or a
            partition's topic index is not in the message's topic dictionary. Kafka returns a
            partition with topic null for such an index.

    >>> decode_assignment_info(b"\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0").active
    TaskArrays([(0, 2, None)])
    """
    reader = _InfoReader(data)
    version = -1
    try:
        version = reader.read_int32()
        if not 1 <= version <= min(latest, LATEST_VERSION):
            what = f"versions 1 to {min(latest, LATEST_VERSION)} can be read"
            raise UnsupportedVersionError(what, offset=0, field="", version=version)
        reader.position = 0
        values: dict[str, Any] = _codec(version).read(reader)
    except WireFormatError as error:
        error.field = error.field or "version"
        set_location(error, ASSIGNMENT_INFO.name, version)
        raise error.with_traceback(None) from None  # see `codec`
    standby, lists = values.pop("standbyTasks")
    values.setdefault("commonlySupportedVersion", UNKNOWN_VERSION)
    known = {_ATTRIBUTES[name]: value for name, value in values.items()}
    return AssignmentInfo(
        **known, standby=standby, standby_partitions=lists, trailing=reader.remaining_bytes
    )


def encode_assignment_info(info: AssignmentInfo) -> bytes:
    """Encode the user data of a Kafka Streams member's assignment, as the group's leader sends it.

    If ``info.dictionary`` is None, topics are numbered as in Kafka: in the order of a Java hash set
    of all partitions. The dictionary's entries are in the order of a Java hash map.

    Raises:
        UnsupportedVersionError: the version is not in 1 to 11.
        EncodingError: a value does not fit, a topology has a name before version 10, or the given
            dictionary does not have a topic.

    >>> encode_assignment_info(AssignmentInfo(1)).hex()
    '000000010000000000000000'
    """
    version = info.version
    _check_version(version)
    dictionary: Dictionary | None = None
    if version >= 5:
        dictionary = _kafka_dictionary(info) if info.dictionary is None else info.dictionary
    values = {name: getattr(info, attribute) for name, attribute in _ATTRIBUTES.items()}
    values["standbyTasks"] = (info.standby, info.standby_partitions)
    values["topicDictionary"] = dictionary
    values["partitionsByHost"] = (info.hosts, dictionary)
    values["standbyPartitionsByHost"] = (info.standby_hosts, dictionary)
    # The engine raises for values that the version cannot carry; they are not written here.
    present = {f.name: values[f.name] for f in ASSIGNMENT_INFO.fields if version in f.versions}
    writer = ByteWriter()
    try:
        _codec(version).write(writer, present)
    except WireFormatError as error:
        set_location(error, ASSIGNMENT_INFO.name, version)
        raise
    return bytes(writer.buffer)


def _read_count(reader: ByteReader) -> int:
    # Each entry needs at least four bytes. Kafka compares the count with the payload's length; a
    # larger count fails where the bytes end.
    start = reader.position
    count = reader.read_int32()
    if not 0 <= count <= reader.remaining_bytes // 4:
        what = f"count {count}, but {reader.remaining_bytes} bytes left"
        raise LengthError(what, offset=start, field="")
    return count


def _read_partitions(reader: ByteReader, builder: PartitionListsBuilder) -> None:
    for _ in range(_read_count(reader)):
        builder.add_partition(reader.modified_utf8(), reader.read_int32())
    builder.end_list()


def _write_partitions(writer: ByteWriter, partitions: tuple[TopicPartition, ...]) -> None:
    writer.write_int32(len(partitions))
    for topic, number in partitions:
        writer.modified_utf8(topic)
        writer.write_int32(number)


def _read_standby(reader: ByteReader, *, version: int) -> tuple[TaskArrays, PartitionLists]:
    tasks, lists = TasksBuilder(), PartitionListsBuilder()
    for _ in range(_read_count(reader)):
        subtopology, partition = reader.read_int32(), reader.read_int32()
        tasks.add_task(
            subtopology, partition, reader.read_utf16() if version >= FIRST_NAMED_VERSION else None
        )
        _read_partitions(reader, lists)
    return tasks.build_tasks(), lists.build_lists()


def _write_standby(
    writer: ByteWriter, standby: tuple[TaskArrays, PartitionLists], *, version: int
) -> None:
    tasks, lists = standby
    check_names(writer, tasks, version)
    writer.write_int32(len(tasks))
    for (subtopology, partition, name), partitions in zip(tasks, lists, strict=True):
        writer.write_int32(subtopology)
        writer.write_int32(partition)
        if version >= FIRST_NAMED_VERSION:
            writer.write_utf16(name)
        _write_partitions(writer, partitions)


def _read_dictionary(reader: ByteReader) -> Dictionary:
    dictionary = tuple(
        (reader.read_int32(), reader.modified_utf8()) for _ in range(_read_count(reader))
    )
    if isinstance(reader, _InfoReader):
        reader.dictionary = dictionary
    return dictionary


def _write_dictionary(writer: ByteWriter, dictionary: Dictionary) -> None:
    writer.write_int32(len(dictionary))
    for index, topic in dictionary:
        writer.write_int32(index)
        writer.modified_utf8(topic)


def _read_hosts(reader: _InfoReader, *, indexed: bool) -> HostPartitions:
    # If ``indexed``, topics refer to the dictionary.
    names: list[Host] = []
    lists = PartitionListsBuilder()
    topics = _TopicIndex(reader.dictionary) if indexed else None
    for _ in range(_read_count(reader)):
        names.append((reader.modified_utf8(), reader.read_int32()))
        if topics is None:
            _read_partitions(reader, lists)
        else:
            topics.read_partitions(reader, lists)
    return HostPartitions(tuple(names), lists.build_lists(None if topics is None else topics.names))


class _TopicIndex:
    """Topic names in a Kafka Streams assignment, to which its partitions refer by index.

    It decodes whole lists of partitions at once.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self.names = tuple(topic for _, topic in dictionary)
        # Of duplicate indexes the last entry counts.
        entry_of = {index: entry for entry, (index, _) in enumerate(dictionary)}
        self._indexes = np.array(sorted(entry_of), np.int32)
        self._entries = np.array([entry_of[one] for one in self._indexes.tolist()], np.int32)

    def read_partitions(self, reader: ByteReader, lists: PartitionListsBuilder) -> None:
        count = _read_count(reader)
        if count * _INDEXED.itemsize > reader.remaining_bytes:
            reader.position = reader.end
            reader.read_int32()
        rows = np.frombuffer(reader.data, _INDEXED, count, reader.position)
        at = np.searchsorted(self._indexes, rows["topic"])
        known = at < len(self._indexes)
        known[known] = self._indexes[at[known]] == rows["topic"][known]
        if not known.all():
            first = int(np.argmin(known))
            offset = reader.position + first * _INDEXED.itemsize
            what = f"the dictionary has no topic {int(rows['topic'][first])}"
            raise LengthError(what, offset=offset, field="")
        lists.add_rows(self._entries[at], rows["partition"])
        lists.end_list()
        reader.position += rows.nbytes


def _write_hosts(writer: ByteWriter, value: tuple[HostPartitions, Dictionary | None]) -> None:
    hosts, dictionary = value
    lists = hosts.partitions
    writer.write_int32(len(hosts))
    rows = np.empty(0, _INDEXED) if dictionary is None else _indexed_rows(writer, lists, dictionary)
    for index, (host, port) in enumerate(hosts.names):
        writer.modified_utf8(host)
        writer.write_int32(port)
        if dictionary is None:
            _write_partitions(writer, lists[index])
            continue
        start, stop = lists.start[index : index + 2].tolist()
        writer.write_int32(stop - start)
        writer.raw(rows[start:stop].tobytes())


def _indexed_rows(
    writer: ByteWriter, lists: PartitionLists, dictionary: Dictionary
) -> NDArray[np.void]:
    if lists.topics == tuple(topic for _, topic in dictionary):
        # Decoded lists: a topic may have two indexes, and each partition keeps its own.
        indexes = [index for index, _ in dictionary]
    else:
        index_of = {topic: index for index, topic in dictionary}
        for topic in (lists.topics[one] for one in sorted(set(lists.topic.tolist()))):
            if topic not in index_of:
                writer.raise_encoding_error(f"topic {topic!r:.80} is not in the dictionary")
        indexes = [index_of.get(topic, -1) for topic in lists.topics]
    rows = np.empty(len(lists.topic), _INDEXED)
    rows["partition"] = lists.partition
    if len(rows):
        rows["topic"] = np.array(indexes, np.int32)[lists.topic]
    return rows


def _kafka_dictionary(info: AssignmentInfo) -> Dictionary:
    # In the order of Kafka's Java maps.
    lists = [*info.hosts.partitions]
    if info.version >= 6:
        lists += [*info.standby_hosts.partitions]
    partitions = [partition for one in lists for partition in one]
    ordered = hash_set_order(partitions, lambda one: topic_partition_hash(*one))
    index_of: dict[str, int] = {}
    for topic, _ in ordered:
        index_of.setdefault(topic, len(index_of))
    return tuple((index_of[topic], topic) for topic in hash_set_order(index_of, string_hash))
