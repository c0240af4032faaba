"""What the leader knows of one client: an application instance with its threads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from partage.errors import InvalidProblemError
from partage.streams.ids import ProcessId, TaskId

__all__ = ["Client", "PartitionRacks"]


@dataclass(frozen=True)
class Client:
    """One client of an application, as ``ClientState`` of Kafka Streams.

    Attributes:
        process: its id.
        capacity: number of its stream threads, which are its consumers.
        previous_active: tasks that it ran.
        previous_standby: tasks of which it has state, none of them in ``previous_active``.
        lags: offsets by which it is behind, of every stateful task; -2: it runs the restored
            active, -3: unknown. An assignor that never looks at lags does without.
        tags: client tags (KIP-708).
        rack: of its consumers, None if they have none or differ.

    Raises:
        InvalidProblemError: no capacity, a task both active and standby, or a lag that is
            neither a sentinel nor an int64 >= 0.

    >>> Client(ProcessId(0, 1), capacity=0)
    Traceback (most recent call last):
    partage.errors.InvalidProblemError: client 0...1.capacity: must be an int >= 1, got 0
    """

    process: ProcessId
    capacity: int = 1
    previous_active: Collection[TaskId] = ()
    previous_standby: Collection[TaskId] = ()
    lags: Mapping[TaskId, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None

    def __post_init__(self) -> None:
        where = f"client {self.process}"
        if not _is_int(self.capacity) or self.capacity < 1:
            raise InvalidProblemError(
                "must be an int >= 1", path=f"{where}.capacity", value=self.capacity
            )
        for task in set(self.previous_active).intersection(self.previous_standby):
            raise InvalidProblemError(
                "must not be in previous_active too",
                path=f"{where}.previous_standby",
                value=str(task),
            )
        for task, lag in self.lags.items():
            if not _is_int(lag) or not -3 <= lag < 2**63 or lag == -1:
                raise InvalidProblemError(
                    "must be an int64 >= 0, or -2 (runs it) or -3 (unknown)",
                    path=f"{where}.lags.{task}",
                    value=lag,
                )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True)
class PartitionRacks:
    """Racks of the replicas of a task's partitions (KIP-925).

    Attributes:
        source: for each source partition the racks of all its replicas; an empty set or
            None means that they are not all known.
        changelog: the same for each changelog partition.
    """

    source: tuple[frozenset[str] | None, ...]
    changelog: tuple[frozenset[str] | None, ...] = ()
