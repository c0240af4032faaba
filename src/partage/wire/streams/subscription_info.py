"""``SubscriptionInfo``, versions 1 to 11: the user data that a Streams member sends on joining.

The engine decodes it by Kafka's layout (``messages/SubscriptionInfoData.json``), with lists of
tasks as arrays. All versions begin with the version and the latest supported version: a leader
that does not know the version reads no more than those (version probing).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from partage.errors import WireFormatError
from partage.java.hash_order import hash_order
from partage.java.strings import decode_utf8, encode_utf8
from partage.java.uuids import uuid_bytes, uuid_text
from partage.wire.codec import Codec, codec_of, join_path
from partage.wire.errors import EncodingError, UnsupportedVersionError
from partage.wire.messages import load_message
from partage.wire.primitives import Reader, Writer
from partage.wire.streams.arrays import (
    NO_TASKS,
    NO_VALUES,
    TaskKey,
    Tasks,
    TaskValues,
    tasks_in_hash_order,
)
from partage.wire.streams.task_codecs import (
    FIRST_NAMED_VERSION,
    Groups,
    offset_sums_codec,
    tasks_codec,
)

__all__ = [
    "LATEST_OFFSET",
    "LATEST_VERSION",
    "SUBSCRIPTION_INFO_DATA",
    "UNKNOWN_OFFSET_SUM",
    "UNKNOWN_VERSION",
    "SubscriptionInfo",
    "decode_subscription_info",
    "encode_subscription_info",
]

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
    """Decoded user data of a Kafka Streams member's subscription, which it sends when it joins.

    A field that the version does not have keeps its default. Null and empty differ only in names
    of topologies, where the bytes differ too.

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
        """Build the user data of a Streams member's subscription, as Kafka's constructor does.

        ``version`` decides which fields it has. Up to version 6 a task with sum -2 is a previous
        task, any other one a standby task; the sums are lost, and both lists are in the order of
        Kafka's hash sets. From 7 to 9 sub-topologies are in the order of its hash map. Later
        versions keep the mapping's order.

        Raises:
            UnsupportedVersionError: the versions contradict each other (IllegalArgumentException in
                Kafka).
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
        """Return whether the message is too new for a reader that supports versions up
        to ``latest``.

        Such a reader can decode only the two version fields.
        """
        return self.version > latest

    @property
    def endpoint(self) -> str | None:
        """End point ``host:port`` of the member for interactive queries; None if it has none."""
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
        """Offset sum of each task that the member has state of, in any version of the message.

        For versions 1 to 6 it is -2 for a task that the member ran, and -3 for a standby task. A
        task in both lists is a standby task. An empty name of a topology is no name.
        """
        if self.version >= _FIRST_WITH_SUMS:
            return TaskValues(self.offset_sums.tasks.without_empty_names(), self.offset_sums.value)
        sums: dict[TaskKey, int] = dict.fromkeys(self.previous, LATEST_OFFSET)
        return TaskValues.of(sums | dict.fromkeys(self.standby, UNKNOWN_OFFSET_SUM))

    def previous_tasks(self) -> set[TaskKey]:
        """Return the tasks that the member ran (was active for) before this rebalance."""
        if self.version < _FIRST_WITH_SUMS:
            return set(self.previous)
        return {
            task
            for task, value in self.task_offset_sums.to_dict().items()
            if value == LATEST_OFFSET
        }

    def standby_tasks(self) -> set[TaskKey]:
        """Return the tasks that the member has state of, but did not run."""
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
    """Check that the version of a message is in 1 to its latest supported version.

    Only versions 1 and 2 may lack the latter.
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
    previous = (task for task, value in values.items() if value == LATEST_OFFSET)
    standby = (task for task, value in values.items() if value != LATEST_OFFSET)
    return Tasks.of(tasks_in_hash_order(previous)), Tasks.of(tasks_in_hash_order(standby))


def _by_subtopology(sums: TaskValues) -> TaskValues:
    """Sort offset sums by sub-topology, in the order of Java's hash map.

    The tasks of a sub-topology keep their order.
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
    return TaskValues.of(ordered)


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
    return codec_of(SUBSCRIPTION_INFO_DATA, version, columns)


def decode_subscription_info(data: bytes, *, latest: int = LATEST_VERSION) -> SubscriptionInfo:
    r"""Decode the user data of a Kafka Streams member's subscription.

    Args:
        data: the bytes; those after the message are counted in ``trailing``.
        latest: the latest version that the reader supports; of a later one only the two version
            fields are decoded.

    Raises:
        WireFormatError: the bytes are not such a message.

    >>> decode_subscription_info(b"\0\0\0\x0c\0\0\0\x0e whatever").latest_version
    14
    """
    reader = Reader(data)
    field, version = "version", -1
    try:
        version = reader.int32()
        if version > latest:
            field = "latestSupportedVersion"
            supported = reader.int32()
            _check_versions(version, supported)
            return SubscriptionInfo(version, supported)
        field, reader.position = "", 0
        return _decode(reader, version)
    except WireFormatError as error:
        if "." not in error.field:
            error.field = _path(join_path(field, error.field))
        error.version = version
        raise error.with_traceback(None) from None  # see `codec`


def _decode(reader: Reader, version: int) -> SubscriptionInfo:
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
    return SubscriptionInfo(**known, groups=groups, trailing=reader.left)


def encode_subscription_info(info: SubscriptionInfo) -> bytes:
    r"""Encode the user data of a Kafka Streams member's subscription; every list keeps its order.

    ``trailing`` is not written.

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
    writer = Writer()
    try:
        _codec(version).write(writer, present)
    except WireFormatError as error:
        error.field, error.version = _path(error.field), version
        raise
    return bytes(writer.buffer)
