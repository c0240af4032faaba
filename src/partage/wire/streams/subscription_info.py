"""What a member of a Streams application says of itself: ``SubscriptionInfo``, versions 1 to 11.

The layout is data (`messages.streams_info`, compared with the definition in Kafka's jar); only its
lists of tasks are read as columns. The first two numbers, version and latest supported version,
never move: a leader that does not know the version reads no more than those (version probing).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from partage.errors import WireFormatError
from partage.java.hash_order import hash_order
from partage.java.strings import decode_utf8, encode_utf8
from partage.wire.faults import EncodingError, UnsupportedVersionError
from partage.wire.messages import SUBSCRIPTION_INFO_DATA
from partage.wire.reading import joined
from partage.wire.streams.task_bytes import (
    FIRST_NAMED_VERSION,
    Groups,
)
from partage.wire.streams.tasks import (
    NO_TASKS,
    NO_VALUES,
    TaskKey,
    Tasks,
    TaskValues,
    task_set_order,
)

__all__ = [
    "LATEST_OFFSET",
    "LATEST_VERSION",
    "UNKNOWN_OFFSET_SUM",
    "UNKNOWN_VERSION",
    "SubscriptionInfo",
    "check_versions",
    "subscription_path",
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
        check_versions(version, latest_version)
        sums = TaskValues.of(offset_sums)
        if sums.tasks.topology is not None and version < FIRST_NAMED_VERSION:
            what = f"topologies have names only from version {FIRST_NAMED_VERSION} on"
            raise EncodingError(
                what, offset=0, field=subscription_path("taskOffsetSums"), version=version
            )
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
        """Whether a reader that supports versions up to ``latest`` knows only the two versions."""
        return self.version > latest

    @property
    def endpoint(self) -> str | None:
        """The end point as text, None if there is none."""
        return decode_utf8(self.user_endpoint) if self.user_endpoint else None

    @property
    def tags(self) -> dict[str, str]:
        """The client's tags.

        Raises:
            WireFormatError: a key is there twice; to Kafka's leader an IllegalStateException.
        """
        pairs = [(decode_utf8(key), decode_utf8(value)) for key, value in self.client_tags]
        if len(dict(pairs)) < len(pairs):
            path = subscription_path("clientTags")
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


def subscription_path(field: str) -> str:
    """A field's name in errors."""
    return joined(SUBSCRIPTION_INFO_DATA.name, field)


def check_versions(version: int, latest: int) -> None:
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
    raise UnsupportedVersionError(
        what, offset=0, field=subscription_path("version"), version=version
    )


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
