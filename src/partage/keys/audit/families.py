"""Families: partitioners that put every key into the same partition are one.

From where a key lies nobody can tell Java's producer from kafka-python's: both use murmur2.
Which partitioners agree is not written down here, but found by running them on probes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

__all__ = ["Family", "KeyPart", "Place", "families"]

#: (partitioner, keys, partitions) -> int32 array of partitions.
Place = Callable[[str, Sequence[bytes], int], NDArray[np.int32]]

_PROBE_COUNTS = (2, 3, 7, 12, 64, 1000, 2**31 - 1)


class KeyPart(Enum):
    """The part of the stored key that was hashed, by the bytes at its end that were not.

    Kafka Streams writes windowed keys with the window behind the key: 8 bytes of its start
    (`TimeWindowedSerializer`; `WindowedStreamPartitioner` hashes the key alone), 12 in the
    changelog of a window store (with a sequence number), 16 for a session (end and start).
    """

    WHOLE = (0, "the whole key")
    WINDOWED = (8, "the key without its window (8 bytes)")
    WINDOW_STORE = (12, "the key without window and number (12 bytes)")
    SESSION = (16, "the key without its session (16 bytes)")

    @property
    def tail(self) -> int:
        """Bytes at the end that are not hashed."""
        return self.value[0]

    @property
    def words(self) -> str:
        """In words."""
        return self.value[1]

    def of(self, keys: Sequence[bytes]) -> Sequence[bytes]:
        """That part of each key; empty for a key too short to have one."""
        return keys if not self.tail else [key[: -self.tail] for key in keys]


@dataclass(frozen=True, slots=True)
class Family:
    """Partitioners that no key can tell apart, and the part of the key that they hash.

    Attributes:
        name: the first of its partitioners.
        partitioners: all of them.
    """

    partitioners: tuple[str, ...]
    part: KeyPart = KeyPart.WHOLE

    @property
    def name(self) -> str:
        """What it is called in results."""
        first = self.partitioners[0]
        return first if self.part is KeyPart.WHOLE else f"{first}, {self.part.name.lower()}"


def families(names: Iterable[str], place: Place, *, windowed: Sequence[str] = ()) -> list[Family]:
    """Partitioners grouped by where they put probe keys, in the order given.

    Args:
        names: partitioners that decide by the key alone.
        place: runs one.
        windowed: those that may have hashed a windowed key without its window.

    >>> def place(name, keys, n):
    ...     return np.array([len(k) * (3 if name == "c" else 1) % n for k in keys], np.int32)
    >>> [f.partitioners for f in families(["a", "b", "c"], place)]
    [('a', 'b'), ('c',)]
    """
    probes = _probes()
    alike: dict[bytes, list[str]] = {}
    for name in names:
        placed = b"".join(place(name, probes, n).tobytes() for n in _PROBE_COUNTS)
        alike.setdefault(placed, []).append(name)
    found = [Family(tuple(some)) for some in alike.values()]
    parts = [part for part in KeyPart if part is not KeyPart.WHOLE]
    return found + [
        Family(family.partitioners, part)
        for family in found
        if set(windowed) & set(family.partitioners)
        for part in parts
    ]


def _probes() -> list[bytes]:
    """Keys of all lengths to 40, with signs, zeros and high bytes: the same on any machine.

    The empty key is not among them: librdkafka's ``*_random`` take it for no key, which is no
    reason to call them other partitioners.
    """
    words = (np.arange(400, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(16)
    raw = words.tobytes()
    cut = [raw[i * 7 : i * 7 + 1 + i % 40] for i in range(400)]
    return [b"\x00", b"\xff\x80\x00\x7f", *cut, *(b"key-%d" % i for i in range(100))]
