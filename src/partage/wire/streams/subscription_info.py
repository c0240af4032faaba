"""What a member of a Streams application says of itself: ``SubscriptionInfo``, versions 1 to 11.

The layout is data (`messages.streams_info`, compared with the definition in Kafka's jar); only its
lists of tasks are read as columns. The first two numbers, version and latest supported version,
never move: a leader that does not know the version reads no more than those (version probing).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from partage.errors import WireFormatError
from partage.javaorder import hash_order
from partage.wire.codec import struct_reader, struct_writer
from partage.wire.faults import EncodingError, UnsupportedVersionError
from partage.wire.messages import SUBSCRIPTION_INFO_DATA
from partage.wire.primitives import Reader, Writer
from partage.wire.reading import joined
from partage.wire.schema import Message, versions
from partage.wire.streams.task_bytes import (
    FIRST_NAMED_VERSION,
    Groups,
    append_offset_sums,
    append_tasks,
    neighbours,
    read_grouped_sums,
    read_named_sums,
    read_tasks,
)
from partage.wire.streams.tasks import (
    NO_TASKS,
    NO_VALUES,
    TaskKey,
    Tasks,
    TaskValues,
    task_set_order,
)
from partage.wire.text import java_text, utf8_bytes, uuid_bytes, uuid_text

__all__ = [
    "LATEST_OFFSET",
    "LATEST_VERSION",
    "UNKNOWN_OFFSET_SUM",
    "UNKNOWN_VERSION",
    "SubscriptionInfo",
    "decode_subscription_info",
    "encode_subscription_info",
]

LATEST_VERSION = 11
UNKNOWN_VERSION = -1
"""The latest supported version of who does not send one (versions 1 and 2)."""
LATEST_OFFSET = -2
"""Offset sum of a task that the member runs, fully restored."""
UNKNOWN_OFFSET_SUM = -3
"""Offset sum of a task that the member has some state of: versions 1 to 6 say no more."""
_FIRST_WITH_SUMS = 7


@dataclass(frozen=True)
class SubscriptionInfo:
    """The message, field for field as it stands in the bytes.

    What a version does not have keeps its default here. Null and empty differ where the bytes can
    tell them apart: in the names of topologies; there is no end point and an empty one alike.

    Attributes:
        version: of these bytes; above what the reader supports nothing follows ``latest_version``.
        latest_version: that the member supports; -1 in versions 1 and 2, which do not say.
        process: the client's id, 16 bytes, most significant first.
        previous: tasks that it ran (versions 1 to 6).
        standby: tasks that it has state of (versions 1 to 6).
        user_endpoint: ``host:port`` for interactive queries, as sent; empty for none (from 2 on).
        offset_sums: per task (from 7 on); see `task_offset_sums` for all versions.
        unique: int8 that changes from join to join, so that the group does rebalance (from 8 on).
        error_code: 4 asks the whole application to shut down (from 9 on).
        client_tags: pairs as sent (from 11 on); `tags` is the map of them.
        groups: how ``offset_sums`` stand by sub-topology (7 to 9), where not neighbour by
            neighbour, so that the bytes come out again; else None.
        trailing: bytes that follow, which Kafka does not look at.

    Source: ``SubscriptionInfo`` and ``SubscriptionInfoData`` of kafka-streams 4.3.1.
    """

    version: int
    latest_version: int = UNKNOWN_VERSION
    process: bytes = bytes(16)
    previous: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    user_endpoint: bytes = b""
    offset_sums: TaskValues = NO_VALUES
    unique: int = 0
    error_code: int = 0
    client_tags: tuple[tuple[bytes, bytes], ...] = ()
    groups: Groups | None = field(default=None, compare=False)
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
        """The message as Kafka's constructor makes it: what ``version`` lacks is dropped.

        Up to version 6 a task whose sum is -2 is one that ran, any other one with state; the sums
        are lost, and both lists stand in the order of Kafka's hash sets. From 7 to 9 sub-topologies
        stand in the order of its hash map; otherwise all keep the order of the mapping.

        Raises:
            UnsupportedVersionError: the versions contradict each other (IllegalArgumentException).
            EncodingError: a value does not fit, or a named topology before version 10.

        >>> info = SubscriptionInfo.of(process=bytes(16), offset_sums={(0, 2): -2}, version=6)
        >>> list(info.previous), info.offset_sums
        ([(0, 2, None)], TaskValues([]))
        """
        _check_versions(version, latest_version)
        sums = TaskValues.of(offset_sums)
        if sums.tasks.topology is not None and version < FIRST_NAMED_VERSION:
            what = f"topologies have names only from version {FIRST_NAMED_VERSION} on"
            raise EncodingError(what, offset=0, field=_path("taskOffsetSums"), version=version)
        previous, standby = _as_lists(sums) if version < _FIRST_WITH_SUMS else (NO_TASKS, NO_TASKS)
        if version < _FIRST_WITH_SUMS:
            sums = NO_VALUES
        elif version < FIRST_NAMED_VERSION:
            sums = _by_subtopology(sums)
        pairs = tuple((utf8_bytes(k), utf8_bytes(v)) for k, v in (tags or {}).items())
        return cls(
            version,
            latest_version if version >= 3 else UNKNOWN_VERSION,
            process,
            previous,
            standby,
            utf8_bytes(endpoint or "") if version >= 2 else b"",
            sums,
            unique if version >= 8 else 0,
            error_code if version >= 9 else 0,
            pairs if version >= 11 else (),
        )

    def is_future(self, latest: int = LATEST_VERSION) -> bool:
        """Whether a reader that supports versions up to ``latest`` knows only the two versions."""
        return self.version > latest

    @property
    def endpoint(self) -> str | None:
        """The end point as text, None if there is none."""
        return java_text(self.user_endpoint) if self.user_endpoint else None

    @property
    def tags(self) -> dict[str, str]:
        """The client's tags.

        Raises:
            WireFormatError: a key is there twice; to Kafka's leader an IllegalStateException.
        """
        pairs = [(java_text(key), java_text(value)) for key, value in self.client_tags]
        if len(dict(pairs)) < len(pairs):
            path = _path("clientTags")
            raise WireFormatError("a tag is there twice", offset=0, field=path, version=11)
        return dict(pairs)

    @property
    def task_offset_sums(self) -> TaskValues:
        """Sums as the leader reads them: -2 and -3 for the lists of versions 1 to 6.

        A task in both lists counts as one with state: its last row. A topology's name that is
        empty is none.
        """
        if self.version >= _FIRST_WITH_SUMS:
            return TaskValues(self.offset_sums.tasks.as_kafka_names(), self.offset_sums.value)
        sums: dict[TaskKey, int] = dict.fromkeys(self.previous, LATEST_OFFSET)
        return TaskValues.of(sums | dict.fromkeys(self.standby, UNKNOWN_OFFSET_SUM))

    def previous_tasks(self) -> set[TaskKey]:
        """Tasks that it ran: those of the list, or whose sum is -2."""
        if self.version < _FIRST_WITH_SUMS:
            return set(self.previous)
        return {task for task, value in self.task_offset_sums.to_dict().items() if _ran(value)}

    def standby_tasks(self) -> set[TaskKey]:
        """Tasks that it has state of and did not run."""
        if self.version < _FIRST_WITH_SUMS:
            return set(self.standby)
        return {task for task, value in self.task_offset_sums.to_dict().items() if not _ran(value)}


def _ran(value: int) -> bool:
    return value == LATEST_OFFSET


def _path(field: str) -> str:
    return joined(SUBSCRIPTION_INFO_DATA.name, field)


def _check_versions(version: int, latest: int) -> None:
    """Without a latest version only 1 and 2, else from 1 to that.

    Raises:
        UnsupportedVersionError: neither.
    """
    if latest == UNKNOWN_VERSION:
        if 1 <= version <= 2:
            return
        what = f"version {version} without a latest supported version; only 1 and 2 have none"
    elif 1 <= version <= latest:
        return
    else:
        what = f"version {version} is not from 1 to the latest supported one, {latest}"
    raise UnsupportedVersionError(what, offset=0, field=_path("version"), version=version)


def _as_lists(sums: TaskValues) -> tuple[Tasks, Tasks]:
    values = sums.to_dict()
    ran = task_set_order(task for task, value in values.items() if _ran(value))
    rest = task_set_order(task for task, value in values.items() if not _ran(value))
    return Tasks.of(ran), Tasks.of(rest)


def _by_subtopology(sums: TaskValues) -> TaskValues:
    """Sub-topologies as ``computeIfAbsent`` puts them into a map, tasks of each as they came."""
    groups: dict[int, dict[TaskKey, int]] = {}
    calls = 0
    for task, value in sums.to_dict().items():
        calls = calls + 1 if task[0] in groups else 0
        groups.setdefault(task[0], {})[task] = value
    numbers = list(groups)
    order = hash_order(
        numbers, rank=lambda: _ranks(numbers), compute_if_absent=True, looked_up_after=calls > 0
    )
    ordered: dict[TaskKey, int] = {}
    for place in order:
        ordered |= groups[numbers[place]]
    return TaskValues.of(ordered)


def _ranks(numbers: list[int]) -> list[int]:
    rank = dict(zip(sorted(numbers), range(len(numbers)), strict=True))
    return [rank[number] for number in numbers]


Part = Message | str

_COLUMNS = ("prevTasks", "standbyTasks", "taskOffsetSums")
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


@lru_cache(maxsize=LATEST_VERSION)
def _parts(version: int) -> tuple[Part, ...]:
    """The layout cut at its columns of tasks: what the engine reads, and their names."""
    whole = SUBSCRIPTION_INFO_DATA
    parts: list[Part] = []
    for one in whole.fields:
        if version not in versions(one.versions):
            continue
        if one.name in _COLUMNS:
            parts.append(one.name)
            continue
        fields = (one,)
        if parts and isinstance(parts[-1], Message):
            fields = (*parts.pop().fields, one)  # type: ignore[union-attr]
        parts.append(
            Message(
                whole.name, whole.kind, whole.valid, whole.flexible, fields, None, whole.structs
            )
        )
    return tuple(parts)


def _read_column(reader: Reader, name: str, version: int) -> dict[str, Any]:
    if name != "taskOffsetSums":
        return {name: read_tasks(reader)}
    if version >= FIRST_NAMED_VERSION:
        return {name: read_named_sums(reader)}
    sums, groups = read_grouped_sums(reader)
    usual = neighbours(sums.tasks)
    same = all(map(np.array_equal, groups, usual))
    return {name: sums, "groups": None if same else groups}


def decode_subscription_info(data: bytes, *, latest: int = LATEST_VERSION) -> SubscriptionInfo:
    r"""Read the user data of a member's subscription.

    Args:
        data: the bytes; what follows the message is counted in ``trailing``.
        latest: the latest version that the reader supports; of a later one only the two versions
            are read.

    Raises:
        WireFormatError: the bytes are no such message.

    >>> decode_subscription_info(b"\0\0\0\x0c\0\0\0\x0e whatever").latest_version
    14
    """
    reader = Reader(data)
    name = "version"
    version = -1
    try:
        version = reader.int32()
        if version > latest:
            name = "latestSupportedVersion"
            return _future(version, reader.int32())
        name = ""
        reader.position = 0
        return _read(reader, version)
    except WireFormatError as error:
        error.field = error.field if "." in error.field else _path(joined(name, error.field))
        error.version = version
        raise error.with_traceback(None) from None  # see `reading`


def _future(version: int, latest: int) -> SubscriptionInfo:
    _check_versions(version, latest)
    return SubscriptionInfo(version, latest)


def _read(reader: Reader, version: int) -> SubscriptionInfo:
    if not 1 <= version <= LATEST_VERSION:
        _check_versions(version, UNKNOWN_VERSION)
    values: dict[str, Any] = {}
    for part in _parts(version):
        if isinstance(part, Message):
            values |= struct_reader(part, version)(reader)
            continue
        try:
            values |= _read_column(reader, part, version)
        except WireFormatError as error:
            error.field = joined(part, error.field)
            raise error.with_traceback(None) from None
    _check_versions(version, values.get("latestSupportedVersion", UNKNOWN_VERSION))
    values["processId"] = uuid_bytes(values["processId"])
    tags = values.get("clientTags", ())
    values["clientTags"] = tuple((tag["key"], tag["value"]) for tag in tags)
    known = {_ATTRIBUTES.get(name, name): value for name, value in values.items()}
    return SubscriptionInfo(**known, trailing=reader.left)


def encode_subscription_info(info: SubscriptionInfo) -> bytes:
    r"""The bytes of the message, every list in its own order; ``trailing`` is not written.

    Raises:
        UnsupportedVersionError: a version above 11, or versions that contradict each other.
        EncodingError: a value does not fit.

    >>> info = SubscriptionInfo(1, process=bytes(15) + b"\1", previous=Tasks.of([(0, 2)]))
    >>> encode_subscription_info(info)[20:].hex()
    '00000001000000000000000200000000'
    """
    _check_versions(info.version, info.latest_version)
    if info.version > LATEST_VERSION:
        what = f"the latest version that can be written is {LATEST_VERSION}"
        path = _path("version")
        raise UnsupportedVersionError(what, offset=0, field=path, version=info.version)
    writer = Writer()
    values = _values(info)
    for part in _parts(info.version):
        try:
            if isinstance(part, Message):
                # A part has no other fields, and the engine refuses those that it does not know.
                mine = {one.key: values[one.key] for one in part.fields}
                struct_writer(part, info.version)(writer, mine)
            elif part == "taskOffsetSums":
                append_offset_sums(
                    writer, info.offset_sums, version=info.version, groups=info.groups
                )
            else:
                append_tasks(writer, values[part], version=info.version)
        except WireFormatError as error:
            name = "" if isinstance(part, Message) else part
            error.field, error.version = _path(joined(name, error.field)), info.version
            raise
    return bytes(writer.buffer)


def _values(info: SubscriptionInfo) -> dict[str, Any]:
    values = {name: getattr(info, attribute) for name, attribute in _ATTRIBUTES.items()}
    if len(info.process) != 16:
        what = f"not 16 bytes: {info.process!r:.80}"
        raise EncodingError(what, offset=0, field=_path("processId"), version=info.version)
    values["processId"] = uuid_text(info.process)
    values["clientTags"] = [{"key": key, "value": value} for key, value in info.client_tags]
    return values
