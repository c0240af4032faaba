"""Task ids and process ids, with Java's hash codes of process ids and of early task ids.

`partage.wire.streams.arrays` has the order and the hash code of task ids today.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from partage.errors import InvalidProblemError

__all__ = ["ProcessId", "TaskId", "early_task_hash", "process_hash"]

_TASK = re.compile(
    r"(?:(?P<topology>.*?)__)?(?P<subtopology>-?\d+)_(?P<partition>-?\d+)", re.DOTALL
)
#: A topic's name has at most 249 characters, and so must a topology's.
_LONGEST = 4096
_INT32 = range(-(2**31), 2**31)


def _int32(value: int) -> int:
    return (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def _int64(value: int) -> int:
    return (value & (1 << 64) - 1 ^ 1 << 63) - (1 << 63)


class TaskId(NamedTuple):
    """Id of a Kafka Streams task, such as ``0_3`` for sub-topology 0 and partition 3.

    In applications with named topologies, the id begins with the name.

    >>> str(TaskId(0, 2)), str(TaskId(1, 0, "billing"))
    ('0_2', 'billing__1_0')
    >>> TaskId.parse("billing__1_0").topology
    'billing'
    """

    subtopology: int
    partition: int
    topology: str | None = None

    def __str__(self) -> str:
        name = f"{self.subtopology}_{self.partition}"
        return name if self.topology is None else f"{self.topology}__{name}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Parse the id of a Kafka Streams task from text such as ``0_3``.

        The numbers are those of the sub-topology and the partition. The name of a topology may
        precede them, as in ``topology__0_3``.

        Raises:
            InvalidProblemError: the text is not a task id, or a number is not an int32.
        """
        found = _TASK.fullmatch(text) if len(text) < _LONGEST else None
        if found:
            numbers = found["subtopology"], found["partition"]
            if max(map(len, numbers)) <= 11:
                subtopology, partition = map(int, numbers)
                if subtopology in _INT32 and partition in _INT32:
                    return cls(subtopology, partition, found["topology"])
        raise InvalidProblemError(
            "must be a task as 0_1 or topology__0_1 (int32 numbers)", path="task", value=text
        )


class ProcessId(NamedTuple):
    """Process id of a Kafka Streams application instance: a UUID, stored as two signed int64.

    Ids are sorted as Java sorts UUIDs.

    >>> str(ProcessId(0, 1))
    '00000000-0000-0000-0000-000000000001'
    >>> ProcessId.parse("80000000-0000-0000-0000-000000000000") < ProcessId(0, 0)
    True
    """

    msb: int
    lsb: int

    def __str__(self) -> str:
        digits = f"{self.msb & (1 << 64) - 1:016x}{self.lsb & (1 << 64) - 1:016x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    @classmethod
    def parse(cls, text: str) -> ProcessId:
        """Parse the process id of a Kafka Streams instance from the text of a UUID.

        All threads of an instance have the same process id.

        Raises:
            InvalidProblemError: the text is not a UUID.
        """
        digits = text.replace("-", "")
        if not re.fullmatch("[0-9a-fA-F]{32}", digits):
            raise InvalidProblemError("must be a UUID", path="process", value=text)
        return cls.from_bytes(bytes.fromhex(digits))

    @classmethod
    def from_bytes(cls, raw: bytes) -> ProcessId:
        """Build the process id of a Kafka Streams instance from the 16 bytes of a UUID.

        The most significant byte is the first.
        """
        return cls(
            int.from_bytes(raw[:8], "big", signed=True), int.from_bytes(raw[8:], "big", signed=True)
        )

    @property
    def raw(self) -> bytes:
        """Process id of a Kafka Streams instance as the 16 bytes of a UUID (big-endian).

        Members send it in this form to the leader of their group.
        """
        return b"".join(half.to_bytes(8, "big", signed=True) for half in self)


def early_task_hash(task: TaskId) -> int:
    """Return the hash code that a task id has in Kafka Streams 0.10 and 0.11 (signed int32).

    It decides the order of tasks in the hash maps of these releases.

    Source: ``TaskId.hashCode``, before topologies had names.

    >>> early_task_hash(TaskId(1, 2))
    3
    """
    # Java's remainder has the sign of the dividend.
    packed = _int64(task.subtopology << 32 | task.partition & (1 << 64) - 1)
    rest = abs(packed) % 0xFFFFFFFF
    return _int32(rest if packed >= 0 else -rest)


def process_hash(process: ProcessId) -> int:
    """Return the hash code that Java computes for the process id of a Kafka Streams instance.

    It is ``UUID.hashCode`` (signed int32), and decides the order of clients in Kafka's hash maps.

    >>> process_hash(ProcessId(0, 7))
    7
    """
    mixed = _int64(process.msb ^ process.lsb)
    return _int32(mixed >> 32 ^ mixed)
