"""What was seen of one topic: its distinct (key, partition) pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError

__all__ = ["KeyPairs"]

_Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class KeyPairs:
    """Distinct pairs of a topic; a key that lives in two partitions is there twice.

    Attributes:
        keys: the serialized keys, none of them null.
        partition: int32[n], where the key was seen.
        records: int64[n], how often.
        first_ms, last_ms: int64[n], when first and last, milliseconds UTC.

    Raises:
        InvalidProblemError: the columns differ in length, or a partition is negative.

    >>> seen = KeyPairs.of([(b"a", 1), (b"b", 0), (b"a", 1)])
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
            told = f"columns differ in length: {sorted(sizes)}"
            raise InvalidProblemError(told, path="key pairs")
        if len(self.partition) and int(self.partition.min()) < 0:
            told = f"partition {int(self.partition.min())} is negative"
            raise InvalidProblemError(told, path="key pairs")

    def _columns(self) -> tuple[NDArray[np.int32], _Longs, _Longs, _Longs]:
        return self.partition, self.records, self.first_ms, self.last_ms

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, seen: Sequence[tuple[bytes, int] | tuple[bytes, int, int]]) -> KeyPairs:
        """From records as (key, partition) or (key, partition, time in ms), in any order."""
        found: dict[tuple[bytes, int], list[int]] = {}
        for key, partition, *rest in seen:
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
