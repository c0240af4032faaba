"""What the leader of a Streams application answers each member: ``AssignmentInfo``, 1 to 11.

Kafka has no schema for it: the class writes field after field with ``DataOutputStream``. What
came with which version:

    1  active tasks, one for each partition assigned; standby tasks with their partitions
    2  partitions by host (interactive queries)
    3  the version that all members support, right after the version
    4  an error code at the end
    5  topics of hosts' partitions by a dictionary
    6  partitions of standbys by host; the dictionary is theirs too
    7  when to rebalance next
   10  names of topologies in the ids of tasks
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from partage.errors import WireFormatError
from partage.wire.faults import UnsupportedVersionError
from partage.wire.streams.partitions import (
    NO_HOSTS,
    NO_LISTS,
    Host,
    Hosts,
    PartitionLists,
    TopicPartition,
    partition_order_key,
)
from partage.wire.streams.subscription_info import LATEST_VERSION
from partage.wire.streams.tasks import NO_TASKS, TaskKey, Tasks, merged

__all__ = [
    "ERRORS",
    "NEVER_MS",
    "AssignmentInfo",
    "check_version",
    "error_assignment",
]

NEVER_MS: Final = 2**63 - 1
"""``next_rebalance_ms`` of a member that shall not rebalance by itself."""

ERRORS: Final = {
    0: "NONE",
    1: "INCOMPLETE_SOURCE_TOPIC_METADATA",
    2: "VERSION_PROBING",
    3: "ASSIGNMENT_ERROR",
    4: "SHUTDOWN_REQUESTED",
}
"""Names of the error codes. What a member does: 1 a source topic is missing, it fails; 2 nothing;
3 and any unknown code, it fails; 4 it shuts the whole client down."""


@dataclass(frozen=True)
class AssignmentInfo:
    """The message, field for field as it stands in the bytes, every list in its own order.

    Attributes:
        version: of these bytes, the lowest that any member of the group sent.
        common_version: the latest that all members support; -1 in versions 1 and 2.
        active: a task for each assigned partition, those sorted; a task may repeat.
        standby: standby tasks.
        standby_partitions: the source partitions of each of them.
        hosts: end points with the source partitions of their active tasks (from 2 on).
        standby_hosts: the same for standby tasks (from 6 on).
        error_code: see `ERRORS` (from 4 on).
        next_rebalance_ms: 0: at once, `NEVER_MS`: never (also before 7), else a time since 1970.
        dictionary: pairs (index, topic) as sent (from 5 on), so that the bytes come out again;
            None: made as Kafka makes it.
        trailing: bytes that follow, which Kafka does not look at.

    Source: ``AssignmentInfo`` of kafka-streams 4.3.1.
    """

    version: int = LATEST_VERSION
    common_version: int = LATEST_VERSION
    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    standby_partitions: PartitionLists = NO_LISTS
    hosts: Hosts = NO_HOSTS
    standby_hosts: Hosts = NO_HOSTS
    error_code: int = 0
    next_rebalance_ms: int = NEVER_MS
    dictionary: tuple[tuple[int, str], ...] | None = None
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
        """The message of plain values, in the order of the mappings.

        Raises:
            UnsupportedVersionError: no version from 1 to 11 (IllegalArgumentException).
            EncodingError: a task or partition is none.

        >>> AssignmentInfo.of(active=[(0, 2)], standby={(1, 0): [("t", 0)]}).standby_of((1, 0))
        (('t', 0),)
        """
        check_version(version)
        waiting = merged(standby or {})
        return cls(
            version,
            common_version,
            Tasks.of(active),
            Tasks.of(waiting),
            PartitionLists.of(waiting.values()),
            Hosts.of((hosts or {}).items()),
            Hosts.of((standby_hosts or {}).items()),
            error_code,
            next_rebalance_ms,
        )

    @property
    def error(self) -> str:
        """Name of the error code, ``UNKNOWN`` for one that Kafka does not know.

        >>> AssignmentInfo(error_code=3).error
        'ASSIGNMENT_ERROR'
        """
        return ERRORS.get(self.error_code, "UNKNOWN")

    def standby_of(self, task: TaskKey | tuple[int, int]) -> tuple[TopicPartition, ...] | None:
        """Partitions of a standby task, None if it is not one."""
        place = self.standby.last_place_of(task)
        return None if place is None else self.standby_partitions[place]

    def standby_tasks(self) -> dict[TaskKey, tuple[TopicPartition, ...]]:
        """One entry a standby task, the last of each, as Kafka's map of them."""
        return dict(zip(self.standby, self.standby_partitions, strict=True))

    def task_of(self, partitions: Sequence[TopicPartition]) -> list[tuple[TopicPartition, TaskKey]]:
        """Which task each assigned partition belongs to.

        Args:
            partitions: of the assignment that carries this message, in any order.

        Raises:
            WireFormatError: there are not as many tasks as partitions; to Kafka's member
                a TaskAssignmentException.
        """
        if len(partitions) != len(self.active):
            what = f"{len(self.active)} tasks for {len(partitions)} assigned partitions"
            field = "AssignmentInfo.activeTasks"
            raise WireFormatError(what, offset=0, field=field, version=self.version)
        return list(zip(sorted(partitions, key=partition_order_key), self.active, strict=True))


def check_version(version: int) -> None:
    """Refuse a version that Kafka's constructor refuses.

    Raises:
        UnsupportedVersionError: not from 1 to 11.
    """
    if not 1 <= version <= LATEST_VERSION:
        what = f"versions 1 to {LATEST_VERSION} can be written"
        field = "AssignmentInfo.version"
        raise UnsupportedVersionError(what, offset=0, field=field, version=version)


def error_assignment(code: int, *, latest: int = LATEST_VERSION) -> AssignmentInfo:
    """What every member gets when the leader cannot assign: nothing but the code.

    Its version is the leader's latest, also where members speak older ones, as in Kafka 4.3.1.

    >>> error_assignment(1).error
    'INCOMPLETE_SOURCE_TOPIC_METADATA'
    """
    return AssignmentInfo(latest, latest, error_code=code)
