"""``SubscriptionInfo``, versions 1 to 11: the user data that a Streams member sends on joining.

The engine decodes it by Kafka's layout (``messages/SubscriptionInfoData.json``), with lists of
tasks as arrays; `assignment_info` reads and writes its tasks by the same codecs. All versions begin
with the version and the latest supported version: a leader that does not know the version reads no
more than those (version probing).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import WireFormatError
from partage.java.hash_order import hash_order
from partage.java.strings import decode_utf8, encode_utf8
from partage.java.uuids import uuid_bytes, uuid_text
from partage.wire.codec import Codec, codec_with_replacements, join_path
from partage.wire.errors import EncodingError, UnsupportedVersionError
from partage.wire.messages import load_message
from partage.wire.primitives import ByteReader, ByteWriter
from partage.wire.streams.arrays import (
    NO_TASKS,
    NO_VALUES,
    TaskArrays,
    TaskKey,
    TasksBuilder,
    TaskValues,
    tasks_in_hash_order,
)

__all__ = [
    "FIRST_NAMED_VERSION",
    "LATEST_OFFSET",
    "LATEST_VERSION",
    "SUBSCRIPTION_INFO_DATA",
    "UNKNOWN_OFFSET_SUM",
    "UNKNOWN_VERSION",
    "GroupedSums",
    "SubscriptionInfo",
    "TaskGroups",
    "check_names",
    "decode_subscription_info",
    "encode_subscription_info",
    "offset_sums_codec",
    "tasks_codec",
]

# --- lists of tasks --------------------------------------------------------------------------
# The engine uses these codecs in place of its own for arrays of structs. Where all entries have the
# same width they are read and written as one block.

FIRST_NAMED_VERSION = 10
"""The first version of both messages that has names of topologies."""


class TaskGroups(NamedTuple):
    """Groups of tasks with equal sub-topology in a Kafka Streams subscription of version 7 to 9.

    These versions encode the offset sums of each group together.

    Attributes:
        subtopology: number of each group's sub-topology.
        size: number of tasks in each group.
    """

    subtopology: NDArray[np.int32]
    size: NDArray[np.int32]


GroupedSums = tuple[TaskValues, "TaskGroups | None"]
"""Offset sums and their groups; None if each run of one sub-topology is a group."""

_TASK = np.dtype([("subtopology", ">i4"), ("partition", ">i4")])
_UNNAMED_TASK = np.dtype([("subtopology", ">i4"), ("partition", ">i4"), ("units", ">i4")])
_PARTITION_SUM = np.dtype([("partition", ">i4"), ("sum", ">i8")])
_UNNAMED_SUM = np.dtype(
    [("subtopology", ">i4"), ("partition", ">i4"), ("sum", ">i8"), ("length", ">i2")]
)


def tasks_codec(version: int) -> Codec:
    r"""Return the decoder and encoder of a list of Kafka Streams tasks for a message version.

    The encoded list is a count (int32), then two int32 per task. From version 10 on each task ends
    with its topology's name.

    >>> list(tasks_codec(1).read(ByteReader(b"\0\0\0\1\0\0\0\0\0\0\0\2")))
    [(0, 2, None)]
    """
    read = _read_tasks if version < FIRST_NAMED_VERSION else _read_named_tasks
    return Codec(read, partial(_write_tasks, version=version))


def offset_sums_codec(version: int) -> Codec:
    """Return the decoder and encoder of a list of Streams tasks with their offset sums.

    Up to ``version`` 9 of the message the tasks are grouped by sub-topology; later they are a flat
    list. The decoded value is a `GroupedSums`.
    """
    read = _read_grouped_sums if version < FIRST_NAMED_VERSION else _read_named_sums
    return Codec(read, partial(_write_offset_sums, version=version))


def check_names(writer: ByteWriter, tasks: TaskArrays, version: int) -> None:
    """Raise an error if tasks have topology names, but the message version is below 10.

    Such versions cannot encode names; Kafka raises a TaskAssignmentException. ``writer`` has the
    offset for the error.
    """
    if tasks.topology is not None and version < FIRST_NAMED_VERSION:
        name = tasks.topologies[0]
        writer.raise_encoding_error(
            f"topology {name!r:.80} is named: needs version {FIRST_NAMED_VERSION}"
        )


def _read_count(reader: ByteReader) -> int:
    return reader.check_array_length(reader.not_null(reader.read_int32()))


def _read_rows(reader: ByteReader, layout: np.dtype[np.void], count: int) -> NDArray[np.void]:
    """Decode many entries of fixed size at once, as a NumPy structured array.

    ``layout`` is the NumPy type of an entry. If bytes are missing, the error has the offset of the
    first incomplete number.

    Raises:
        TruncatedError: fewer bytes are left than ``count`` entries need.
    """
    # The error has the offset of the first incomplete number.
    whole = reader.remaining_bytes // layout.itemsize
    if count > whole:
        reader.position += whole * layout.itemsize
        while True:
            reader.read_int32()
    rows = np.frombuffer(reader.data, layout, count, reader.position)
    reader.position += rows.nbytes
    return rows


def _read_unnamed_tasks(
    reader: ByteReader, layout: np.dtype[np.void], count: int, name_length: str
) -> NDArray[np.void] | None:
    """Decode many Kafka Streams tasks at once, if none of them has a topology name.

    Otherwise return None, and do not move the reader. ``layout`` is the NumPy type of an encoded
    task, whose field ``name_length`` is the length of the name.
    """
    if count * layout.itemsize > reader.remaining_bytes:
        return None  # bytes are missing
    rows = np.frombuffer(reader.data, layout, count, reader.position)
    absent = rows[name_length] <= 0 if name_length == "units" else rows[name_length] < 0
    if not absent.all():
        return None
    reader.position += rows.nbytes
    return rows


def _tasks_of(rows: NDArray[np.void]) -> TaskArrays:
    return TaskArrays(rows["subtopology"].astype(np.int32), rows["partition"].astype(np.int32))


def _read_tasks(reader: ByteReader) -> TaskArrays:
    rows = _read_rows(reader, _TASK, _read_count(reader))
    return _tasks_of(rows) if len(rows) else NO_TASKS


def _read_named_tasks(reader: ByteReader) -> TaskArrays:
    count = _read_count(reader)
    rows = _read_unnamed_tasks(reader, _UNNAMED_TASK, count, "units")
    if rows is not None:
        return _tasks_of(rows)
    builder = TasksBuilder()
    for _ in range(count):
        builder.add_task(reader.read_int32(), reader.read_int32(), reader.read_utf16())
    return builder.build_tasks()


def _read_grouped_sums(reader: ByteReader) -> GroupedSums:
    subtopologies, sizes, pieces = array("i"), array("i"), []
    for _ in range(_read_count(reader)):
        subtopologies.append(reader.read_int32())
        rows = _read_rows(reader, _PARTITION_SUM, _read_count(reader))
        sizes.append(len(rows))
        pieces.append(rows)
    every = np.concatenate(pieces) if pieces else np.empty(0, _PARTITION_SUM)
    groups = TaskGroups(np.array(subtopologies, np.int32), np.array(sizes, np.int32))
    tasks = TaskArrays(np.repeat(*groups), every["partition"].astype(np.int32))
    sums = TaskValues(tasks, every["sum"].astype(np.int64))
    return sums, None if all(map(np.array_equal, groups, _find_runs(tasks))) else groups


def _read_named_sums(reader: ByteReader) -> GroupedSums:
    count = _read_count(reader)
    rows = _read_unnamed_tasks(reader, _UNNAMED_SUM, count, "length")
    if rows is not None:
        return TaskValues(_tasks_of(rows), rows["sum"].astype(np.int64)), None
    builder, sums = TasksBuilder(), array("q")
    for _ in range(count):
        subtopology, partition = reader.read_int32(), reader.read_int32()
        sums.append(reader.read_int64())
        builder.add_task(subtopology, partition, reader.nullable_string())
    return TaskValues(builder.build_tasks(), np.array(sums, np.int64)), None


def _write_tasks(writer: ByteWriter, tasks: TaskArrays, *, version: int) -> None:
    writer.write_int32(len(tasks))
    check_names(writer, tasks, version)
    named = version >= FIRST_NAMED_VERSION
    if named and tasks.topology is not None:
        for subtopology, partition, name in tasks:
            writer.write_int32(subtopology)
            writer.write_int32(partition)
            writer.write_utf16(name)
        return
    rows = np.zeros(len(tasks), _UNNAMED_TASK if named else _TASK)
    rows["subtopology"], rows["partition"] = tasks.subtopology, tasks.partition
    writer.raw(rows.tobytes())


def _write_offset_sums(writer: ByteWriter, grouped: GroupedSums, *, version: int) -> None:
    sums, groups = grouped
    tasks = sums.tasks
    check_names(writer, tasks, version)
    if version < FIRST_NAMED_VERSION:
        _write_groups(writer, sums, groups or _find_runs(tasks))
        return
    writer.write_int32(len(sums))
    if tasks.topology is None:
        rows = np.empty(len(sums), _UNNAMED_SUM)
        rows["subtopology"], rows["partition"] = tasks.subtopology, tasks.partition
        rows["sum"], rows["length"] = sums.value, -1
        writer.raw(rows.tobytes())
        return
    for (subtopology, partition, name), value in sums:
        writer.write_int32(subtopology)
        writer.write_int32(partition)
        writer.write_int64(value)
        if name is None:
            writer.write_int16(-1)
        else:
            writer.write_string(name)


def _find_runs(tasks: TaskArrays) -> TaskGroups:
    """Find the runs of consecutive Kafka Streams tasks with the same sub-topology.

    The result has the sub-topology and the length of each run.

    >>> _find_runs(TaskArrays.from_tasks([(0, 1), (0, 2), (1, 0)])).size.tolist()
    [2, 1]
    """
    first = np.flatnonzero(np.diff(tasks.subtopology, prepend=tasks.subtopology[:1] - 1))
    sizes = np.diff(first, append=len(tasks)).astype(np.int32)
    return TaskGroups(tasks.subtopology[first], sizes)


def _write_groups(writer: ByteWriter, sums: TaskValues, groups: TaskGroups) -> None:
    if int(groups.size.sum()) != len(sums):
        writer.raise_encoding_error(
            f"groups of {int(groups.size.sum())} tasks for {len(sums)} offset sums"
        )
    rows = np.empty(len(sums), _PARTITION_SUM)
    rows["partition"], rows["sum"] = sums.tasks.partition, sums.value
    writer.write_int32(len(groups.size))
    start = 0
    for subtopology, size in zip(groups.subtopology.tolist(), groups.size.tolist(), strict=True):
        writer.write_int32(subtopology)
        writer.write_int32(size)
        writer.raw(rows[start : start + size].tobytes())
        start += size


# --- the message -----------------------------------------------------------------------------

SUBSCRIPTION_INFO_DATA = load_message("SubscriptionInfoData")

LATEST_VERSION = 11
UNKNOWN_VERSION = -1
"""The latest supported version of a member that sends none (versions 1 and 2)."""
LATEST_OFFSET = -2
"""Offset sum of a task that the member runs, fully restored."""
UNKNOWN_OFFSET_SUM = -3
"""Offset sum of a task of which the member has some state; versions 1 to 6 have no other number."""
_FIRST_WITH_SUMS = 7


@dataclass(frozen=True)
class SubscriptionInfo:
    """The decoded user data of a Kafka Streams member's subscription, which it sends when it joins.

    A field that the version does not have keeps its default. A null string decodes like an empty
    one, except for topology names.

    Attributes:
        version: the version of the bytes. If it is above the reader's latest, only the two version
            fields are decoded.
        latest_version: the latest version that the member supports; -1 in versions 1 and 2.
        process: the client's id, 16 bytes, most significant first.
        previous: the tasks that it ran (versions 1 to 6).
        standby: the tasks of which it has state (versions 1 to 6).
        user_endpoint: ``host:port`` for interactive queries, as sent; empty for none (from 2 on).
        offset_sums: offset sum of each task (from 7 on); `task_offset_sums` is for all versions.
        unique: an int8 that changes with each join, so that the join triggers a rebalance (from 8
            on).
        error_code: 4 asks the whole application to shut down (from 9 on).
        client_tags: pairs as sent (from 11 on); `tags` is the map of them.
        groups: how ``offset_sums`` are grouped by sub-topology (7 to 9), needed to encode the same
            bytes; None if each run of one sub-topology is a group.
        trailing: number of bytes after the message, which Kafka ignores.

    Source: ``SubscriptionInfo`` and ``SubscriptionInfoData`` of kafka-streams 4.3.1.
    """

    version: int
    latest_version: int = UNKNOWN_VERSION
    process: bytes = bytes(16)
    previous: TaskArrays = NO_TASKS
    standby: TaskArrays = NO_TASKS
    user_endpoint: bytes = b""
    offset_sums: TaskValues = NO_VALUES
    unique: int = 0
    error_code: int = 0
    client_tags: tuple[tuple[bytes, bytes], ...] = ()
    groups: TaskGroups | None = field(default=None, compare=False)
    trailing: int = 0

    @classmethod
    def of(
        cls,
        *,
        process: bytes,
        version: int = LATEST_VERSION,
        latest_version: int = LATEST_VERSION,
        endpoint: str | None = None,
        offset_sums: Mapping[TaskKey, int] | Mapping[tuple[int, int], int] | TaskValues = NO_VALUES,
        unique: int = 0,
        error_code: int = 0,
        tags: Mapping[str, str] | None = None,
    ) -> SubscriptionInfo:
        """Create the user data of a Streams member's subscription, as Kafka's constructor does.

        Args:
            process: the client's id, 16 bytes.
            version: version of the message, which decides its fields.
            latest_version: latest version that the member supports.
            endpoint: ``host:port`` for interactive queries; None for none.
            offset_sums: offset sum of each task with local state. Up to version 6, tasks with sum
                -2 become previous tasks and all others standby tasks, in the order of Kafka's hash
                sets. In versions 7 to 9, tasks are grouped by sub-topology, in the order of Kafka's
                hash map.
            unique: an int8 that changes with each join, so that the join triggers a rebalance.
            error_code: Kafka's number of an error, 0 for none.
            tags: the client's tags (KIP-708).

        Raises:
            UnsupportedVersionError: the versions contradict each other (IllegalArgumentException in
                Kafka).
            EncodingError: a value does not fit, or a topology has a name before version 10.

        >>> info = SubscriptionInfo.of(process=bytes(16), offset_sums={(0, 2): -2}, version=6)
        >>> list(info.previous), info.offset_sums
        ([(0, 2, None)], TaskValues([]))
        """
        _check_versions(version, latest_version)
        sums = TaskValues.from_mapping(offset_sums)
        if sums.tasks.topology is not None and version < FIRST_NAMED_VERSION:
            what = f"topologies have names only from version {FIRST_NAMED_VERSION} on"
            raise EncodingError(what, offset=0, field=_path("taskOffsetSums"), version=version)
        previous, standby = (
            _divide_by_role(sums) if version < _FIRST_WITH_SUMS else (NO_TASKS, NO_TASKS)
        )
        if version < _FIRST_WITH_SUMS:
            sums = NO_VALUES
        elif version < FIRST_NAMED_VERSION:
            sums = _group_by_subtopology(sums)
        pairs = tuple((encode_utf8(k), encode_utf8(v)) for k, v in (tags or {}).items())
        return cls(
            version,
            latest_version if version >= 3 else UNKNOWN_VERSION,
            process,
            previous,
            standby,
            encode_utf8(endpoint or "") if version >= 2 else b"",
            sums,
            unique if version >= 8 else 0,
            error_code if version >= 9 else 0,
            pairs if version >= 11 else (),
        )

    def is_future(self, latest: int = LATEST_VERSION) -> bool:
        """Return whether the message's version is above ``latest``, the reader's highest version.

        The reader can then decode only the two version fields.
        """
        return self.version > latest

    @property
    def endpoint(self) -> str | None:
        """Endpoint ``host:port`` of the member for interactive queries; None if it has none."""
        return decode_utf8(self.user_endpoint) if self.user_endpoint else None

    @property
    def tags(self) -> dict[str, str]:
        """The client's tags as a dict from key to value.

        Raises:
            WireFormatError: a key occurs twice (IllegalStateException in Kafka's leader).
        """
        pairs = [(decode_utf8(key), decode_utf8(value)) for key, value in self.client_tags]
        if len(dict(pairs)) < len(pairs):
            path = _path("clientTags")
            raise WireFormatError("a tag is there twice", offset=0, field=path, version=11)
        return dict(pairs)

    @property
    def task_offset_sums(self) -> TaskValues:
        """Offset sum of each task whose state the member has, in any version of the message.

        Versions 1 to 6 have no sums: the value is -2 for a task that the member ran, and -3 for a
        standby task. A task in both lists is a standby task.
        """
        if self.version >= _FIRST_WITH_SUMS:
            return TaskValues(self.offset_sums.tasks.without_empty_names(), self.offset_sums.value)
        sums: dict[TaskKey, int] = dict.fromkeys(self.previous, LATEST_OFFSET)
        return TaskValues.from_mapping(sums | dict.fromkeys(self.standby, UNKNOWN_OFFSET_SUM))

    def previous_tasks(self) -> set[TaskKey]:
        """Return the Streams tasks that the member ran as active tasks before this rebalance."""
        if self.version < _FIRST_WITH_SUMS:
            return set(self.previous)
        return {
            task
            for task, value in self.task_offset_sums.to_dict().items()
            if value == LATEST_OFFSET
        }

    def standby_tasks(self) -> set[TaskKey]:
        """Return the Kafka Streams tasks of which the member has state but which it did not run."""
        if self.version < _FIRST_WITH_SUMS:
            return set(self.standby)
        return {
            task
            for task, value in self.task_offset_sums.to_dict().items()
            if value != LATEST_OFFSET
        }


def _path(field: str) -> str:
    return join_path(SUBSCRIPTION_INFO_DATA.name, field)


def _check_versions(version: int, latest: int) -> None:
    """Raise an error unless a subscription's version lies between 1 and its sender's latest
    version.

    ``latest`` is the latest version that the sender supports. Only messages of version 1 and 2 may
    lack it.
    """
    # Only messages of version 1 and 2 may have no latest version.
    if latest == UNKNOWN_VERSION:
        if 1 <= version <= 2:
            return
        what = f"version {version} without a latest supported version; only 1 and 2 have none"
    elif 1 <= version <= latest:
        return
    else:
        what = f"version {version} is not from 1 to the latest supported one, {latest}"
    raise UnsupportedVersionError(what, offset=0, field=_path("version"), version=version)


def _divide_by_role(sums: TaskValues) -> tuple[TaskArrays, TaskArrays]:
    values = sums.to_dict()
    previous = (task for task, value in values.items() if value == LATEST_OFFSET)
    standby = (task for task, value in values.items() if value != LATEST_OFFSET)
    return TaskArrays.from_tasks(tasks_in_hash_order(previous)), TaskArrays.from_tasks(
        tasks_in_hash_order(standby)
    )


def _group_by_subtopology(sums: TaskValues) -> TaskValues:
    """Sort the offset sums of Streams tasks by sub-topology, in the order of Java's hash map.

    Kafka's encoder has this order, so that the bytes are equal. The tasks of a sub-topology keep
    their order.
    """
    groups: dict[int, dict[TaskKey, int]] = {}
    calls = 0
    for task, value in sums.to_dict().items():
        calls = calls + 1 if task[0] in groups else 0
        groups.setdefault(task[0], {})[task] = value
    numbers = list(groups)
    order = hash_order(
        numbers, rank=lambda: numbers, compute_if_absent=True, looked_up_after=calls > 0
    )
    ordered: dict[TaskKey, int] = {}
    for index in order:
        ordered |= groups[numbers[index]]
    return TaskValues.from_mapping(ordered)


# --- bytes -----------------------------------------------------------------------------------

_ATTRIBUTES = {
    "version": "version",
    "latestSupportedVersion": "latest_version",
    "processId": "process",
    "prevTasks": "previous",
    "standbyTasks": "standby",
    "userEndPoint": "user_endpoint",
    "taskOffsetSums": "offset_sums",
    "uniqueField": "unique",
    "errorCode": "error_code",
    "clientTags": "client_tags",
}
"""The attribute of each field of the layout."""


@lru_cache(maxsize=LATEST_VERSION)
def _codec(version: int) -> Codec:
    columns = {"[]TaskId": tasks_codec(version), "[]TaskOffsetSum": offset_sums_codec(version)}
    return codec_with_replacements(SUBSCRIPTION_INFO_DATA, version, columns)


def decode_subscription_info(data: bytes, *, latest: int = LATEST_VERSION) -> SubscriptionInfo:
    r"""Decode the user data that a Kafka Streams member sends with its subscription.

    Args:
        data: the bytes; those after the message are counted in ``trailing``.
        latest: the latest version that the reader supports. In a message of a later version, only
            the two version fields are decoded.

    Raises:
        WireFormatError: the bytes are not such a message.

    >>> decode_subscription_info(b"\0\0\0\x0c\0\0\0\x0e whatever").latest_version
    14
    """
    reader = ByteReader(data)
    field, version = "version", -1
    try:
        version = reader.read_int32()
        if version > latest:
            field = "latestSupportedVersion"
            supported = reader.read_int32()
            _check_versions(version, supported)
            return SubscriptionInfo(version, supported)
        field, reader.position = "", 0
        return _decode(reader, version)
    except WireFormatError as error:
        if "." not in error.field:
            error.field = _path(join_path(field, error.field))
        error.version = version
        raise error.with_traceback(None) from None  # see `codec`


def _decode(reader: ByteReader, version: int) -> SubscriptionInfo:
    # The caller has checked that the version is at most LATEST_VERSION.
    if not 1 <= version <= LATEST_VERSION:
        _check_versions(version, UNKNOWN_VERSION)
    values: dict[str, Any] = _codec(version).read(reader)
    _check_versions(version, values.get("latestSupportedVersion", UNKNOWN_VERSION))
    values["processId"] = uuid_bytes(values["processId"])
    tags = values.get("clientTags", ())
    values["clientTags"] = tuple((tag["key"], tag["value"]) for tag in tags)
    sums, groups = values.get("taskOffsetSums", (NO_VALUES, None))
    values["taskOffsetSums"] = sums
    known = {_ATTRIBUTES[name]: value for name, value in values.items()}
    return SubscriptionInfo(**known, groups=groups, trailing=reader.remaining_bytes)


def encode_subscription_info(info: SubscriptionInfo) -> bytes:
    r"""Encode the user data that a Kafka Streams member sends with its subscription.

    Every list keeps its order.

    Raises:
        UnsupportedVersionError: the version is above 11, or the versions contradict each other.
        EncodingError: a value does not fit.

    >>> info = SubscriptionInfo.of(process=bytes(16), version=2, offset_sums={(0, 2): -2})
    >>> encode_subscription_info(info)[20:].hex()
    '0000000100000000000000020000000000000000'
    """
    version = info.version
    _check_versions(version, info.latest_version)
    if version > LATEST_VERSION:
        what = f"the latest version that can be written is {LATEST_VERSION}"
        raise UnsupportedVersionError(what, offset=0, field=_path("version"), version=version)
    if len(info.process) != 16:
        what = f"not 16 bytes: {info.process!r:.80}"
        raise EncodingError(what, offset=0, field=_path("processId"), version=version)
    values = {name: getattr(info, attribute) for name, attribute in _ATTRIBUTES.items()}
    values["processId"] = uuid_text(info.process)
    values["clientTags"] = [{"key": key, "value": value} for key, value in info.client_tags]
    values["taskOffsetSums"] = (info.offset_sums, info.groups)
    # The engine raises for values that the version cannot carry; they are not written here.
    present = {
        f.name: values[f.name] for f in SUBSCRIPTION_INFO_DATA.fields if version in f.versions
    }
    writer = ByteWriter()
    try:
        _codec(version).write(writer, present)
    except WireFormatError as error:
        error.field, error.version = _path(error.field), version
        raise
    return bytes(writer.buffer)
