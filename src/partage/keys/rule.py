"""From a key's hash to its partition: the four ways in which clients fold 32 bits into n.

* ``masked``: (h & 0x7fffffff) % n. Java's producers: ``Utils.abs`` of 0.8, ``toPositive`` later.
* ``absolute``: abs(h % n), the remainder having the sign of h. Sarama, librdkafka's fnv1a.
* ``java-abs``: abs(h) % n, 0 for the least int. ``Utils.abs`` of 0.8.2's core and 0.9's clients.
* ``unsigned``: h as 0 to 2**32 - 1, % n. librdkafka's CRC32.

All agree where h >= 0. Where it is not, masked gives 2**31 - abs(h), and unsigned 2**32 - abs(h).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from partage.keys.columns import KeyColumn
from partage.keys.hashing import Hash, hash_all
from partage.keys.hashing.base import UInt32Array

__all__ = ["Fold", "KeyRule", "fold_all", "folded"]

Fold = Literal["masked", "absolute", "java-abs", "unsigned"]
Unkeyed = Literal["null", "null or empty", "nothing"]
_LEAST = 1 << 31


def folded(h: int, partitions: int, fold: Fold) -> int:
    """The partition of one hash, 0 <= h < 2**32.

    >>> [folded(2**32 - 790332482, 10, fold) for fold in ("masked", "absolute", "unsigned")]
    [6, 2, 4]
    """
    if fold == "masked":
        return (h & 0x7FFFFFFF) % partitions
    if fold == "unsigned":
        return h % partitions
    if fold == "java-abs" and h == _LEAST:
        return 0
    return (h if h < _LEAST else (1 << 32) - h) % partitions


def fold_all(hashes: UInt32Array, partitions: int, fold: Fold) -> None:
    """`folded` of each, in place: the partitions are in 0 .. 2**31 - 1, whatever the type says."""
    n = np.uint32(partitions)
    if fold == "masked":
        hashes &= np.uint32(0x7FFFFFFF)
    elif fold != "unsigned":
        if fold == "java-abs":
            hashes[hashes == _LEAST] = 0
        # The least int is its own negative: as unsigned, 2**31.
        np.minimum(hashes, np.uint32(0) - hashes, out=hashes)
    whole = hashes // n  # by a scalar, this is the one division that NumPy does at once
    whole *= n
    hashes -= whole


@dataclass(frozen=True, slots=True)
class KeyRule:
    """Where a key goes.

    Attributes:
        hash: of the key's bytes.
        fold: into the partitions.
        unkeyed: which records this rule leaves to chance or turns; ``nothing``: a null key is
            hashed as an empty one.
    """

    hash: Hash
    fold: Fold
    unkeyed: Unkeyed = "null"

    def of_key(self, key: bytes, partitions: int) -> int:
        """The partition of one key.

        >>> from partage.keys.hashing import MURMUR2
        >>> KeyRule(MURMUR2, "masked").of_key(b"foobar", 10)
        6
        """
        return folded(self.hash.of_key(key), partitions, self.fold)

    def of_all(self, keys: KeyColumn, partitions: int) -> NDArray[np.int32]:
        """int32[n]: the partition of each key; of those that are `left_over`, anything."""

        def then(hashes: UInt32Array) -> None:
            fold_all(hashes, partitions, self.fold)

        placed = hash_all(self.hash, keys.data, keys.starts, then).view(np.int32)
        if keys.code is not None:
            placed = placed[keys.code] if len(placed) else np.zeros(len(keys.code), np.int32)
        if self.unkeyed == "nothing" and keys.null is not None:
            placed[keys.null] = self.of_key(b"", partitions)
        return placed

    def left_over(self, keys: KeyColumn) -> NDArray[np.bool_] | None:
        """bool[n]: the records that the hash does not decide; None for none."""
        if self.unkeyed == "nothing":
            return None
        if self.unkeyed == "null":
            return keys.null
        empty: NDArray[np.bool_] = keys.lengths == 0
        return empty if empty.any() else None
