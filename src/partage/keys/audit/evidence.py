"""Evidence about the writers of a topic: (key, partition) pairs, partitioner families, chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf, log

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError

__all__ = [
    "KeyPairs",
    "KeyPart",
    "PartitionerFamily",
    "Place",
    "group_equivalent_partitioners",
    "log_chance",
]


def log_chance(hits: int, tries: int, chance: float) -> float:
    """Return the logarithm of an upper bound on a binomial tail probability (Chernoff's bound).

    The probability is that of at least ``hits`` successes in ``tries`` independent trials, each
    with probability ``chance``. The bound is never below the true probability.

    >>> log_chance(5, 10, 0.5)
    0.0
    >>> round(log_chance(10, 10, 0.5), 3)  # exactly (1/2) ** 10
    -6.931
    """
    if tries <= 0 or hits <= tries * chance:
        return 0.0
    share = hits / tries
    if chance <= 0:
        return -inf
    bits = share * log(share / chance)
    if share < 1:
        bits += (1 - share) * log((1 - share) / (1 - chance))
    return -tries * bits


_Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class KeyPairs:
    """Distinct (key, partition) pairs of one topic, with the number and times of their records.

    An audit infers from them which partitioners wrote the topic.

    Attributes:
        keys: the serialized keys, none of them null.
        partition: int32[n], the partition that has records with this key.
        records: int64[n], number of these records.
        first_ms, last_ms: int64[n], times of the first and the last of these records, milliseconds
            UTC.

    Raises:
        InvalidProblemError: the columns differ in length, or a partition is negative.

    >>> seen = KeyPairs.from_rows([(b"a", 1), (b"b", 0), (b"a", 1)])
    >>> seen.keys, seen.records.tolist()
    ([b'a', b'b'], [2, 1])
    """

    keys: Sequence[bytes]
    partition: NDArray[np.int32]
    records: _Longs
    first_ms: _Longs
    last_ms: _Longs

    def __post_init__(self) -> None:
        sizes = {len(self.keys), *(len(c) for c in self._columns())}
        if len(sizes) > 1:
            what = f"columns differ in length: {sorted(sizes)}"
            raise InvalidProblemError(what, path="key pairs")
        if len(self.partition) and int(self.partition.min()) < 0:
            what = f"partition {int(self.partition.min())} is negative"
            raise InvalidProblemError(what, path="key pairs")

    def _columns(self) -> tuple[NDArray[np.int32], _Longs, _Longs, _Longs]:
        return self.partition, self.records, self.first_ms, self.last_ms

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def from_rows(cls, records: Sequence[tuple[bytes, int] | tuple[bytes, int, int]]) -> KeyPairs:
        """Collect the distinct (key, partition) pairs of a topic from its records.

        The records may be in any order. A record is (key, partition) or (key, partition, timestamp
        in ms).
        """
        found: dict[tuple[bytes, int], list[int]] = {}
        for key, partition, *rest in records:
            time_ms = rest[0] if rest else 0
            mine = found.setdefault((key, partition), [0, time_ms, time_ms])
            mine[0] += 1
            mine[1], mine[2] = min(mine[1], time_ms), max(mine[2], time_ms)
        columns = np.array(list(found.values()), np.int64).reshape(-1, 3)
        return cls(
            [key for key, _ in found],
            np.array([p for _, p in found], np.int32),
            columns[:, 0], columns[:, 1], columns[:, 2],
        )  # fmt: skip


#: (partitioner, keys, partitions) -> int32 array of partitions.
Place = Callable[[str, Sequence[bytes], int], NDArray[np.int32]]

_PROBE_COUNTS = (2, 3, 7, 12, 64, 1000, 2**31 - 1)


class KeyPart(Enum):
    """Part of a record key that a partitioner hashes: the whole key, or the key without its window.

    Kafka Streams appends a window to each key of a windowed topic, and `WindowedStreamPartitioner`
    does not hash it. The window takes 8 bytes (its start, `TimeWindowedSerializer`), 12 in the
    changelog of a window store (start and sequence number), or 16 for a session (end and start).
    The value of each enum member is (length of the window in bytes, description).
    """

    WHOLE = (0, "the whole key")
    WINDOWED = (8, "the key without its window (8 bytes)")
    WINDOW_STORE = (12, "the key without window and number (12 bytes)")
    SESSION = (16, "the key without its session (16 bytes)")

    @property
    def window_bytes(self) -> int:
        """Length in bytes of the window at the end of a record key, which is not hashed.

        Kafka Streams appends the window to keys. The length is 0 if the whole key is hashed.
        """
        return self.value[0]

    @property
    def description(self) -> str:
        """Text that says which bytes of a record key a partitioner hashes, such as "the whole key".

        Labels of a topic's writers contain it.
        """
        return self.value[1]

    def remove_window(self, keys: Sequence[bytes]) -> Sequence[bytes]:
        """Remove the window of Kafka Streams from the end of each key.

        A partitioner hashes only the rest. The rest is empty for a key that is too short.
        """
        return keys if not self.window_bytes else [key[: -self.window_bytes] for key in keys]


@dataclass(frozen=True, slots=True)
class PartitionerFamily:
    """Group of client partitioners that place every key in the same partition.

    Keys alone cannot tell which of them wrote a topic.

    Attributes:
        partitioners: names of the partitioners.
        part: the part of the key that they hash.
        name: short name of the family: its first partitioner.
    """

    partitioners: tuple[str, ...]
    part: KeyPart = KeyPart.WHOLE

    @property
    def name(self) -> str:
        """Name of a group of equivalent partitioners: the name of its first one, such as "murmur2".

        The hashed part of the key is appended if it is not the whole key.
        """
        # The hashed part of the key is added if that is not the whole key.
        first = self.partitioners[0]
        return first if self.part is KeyPart.WHOLE else f"{first}, {self.part.name.lower()}"


def group_equivalent_partitioners(
    names: Iterable[str], place_keys: Place, *, windowed: Sequence[str] = ()
) -> list[PartitionerFamily]:
    """Group partitioners that place every test key in the same partition.

    Each group is a `PartitionerFamily`. The keys of a topic cannot tell the partitioners of a group
    apart.

    Args:
        names: names of partitioners that decide by the key alone.
        place_keys: function (name, keys, partition count) -> partitions, which runs the named
            partitioner.
        windowed: names of partitioners that may have hashed a windowed key without its window.

    >>> def place(name, keys, n):
    ...     return np.array([len(k) * (3 if name == "c" else 1) % n for k in keys], np.int32)
    >>> [f.partitioners for f in group_equivalent_partitioners(["a", "b", "c"], place)]
    [('a', 'b'), ('c',)]
    """
    probes = _fixed_test_keys()
    alike: dict[bytes, list[str]] = {}
    for name in names:
        placed = b"".join(place_keys(name, probes, n).tobytes() for n in _PROBE_COUNTS)
        alike.setdefault(placed, []).append(name)
    found = [PartitionerFamily(tuple(some)) for some in alike.values()]
    parts = [part for part in KeyPart if part is not KeyPart.WHOLE]
    return found + [
        PartitionerFamily(family.partitioners, part)
        for family in found
        if set(windowed) & set(family.partitioners)
        for part in parts
    ]


def _fixed_test_keys() -> list[bytes]:
    """Return the fixed test keys on which partitioners are compared.

    They are the same in each call, and have 1 to 40 bytes.
    """
    # Some keys have zeros and high bytes. No key is empty, because librdkafka's ``*_random``
    # partitioners treat an empty key as null.
    words = (np.arange(400, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(16)
    raw = words.tobytes()
    cut = [raw[i * 7 : i * 7 + 1 + i % 40] for i in range(400)]
    return [b"\x00", b"\xff\x80\x00\x7f", *cut, *(b"key-%d" % i for i in range(100))]
