"""Topic ids in numbers: Java's hash of them, and their order."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

__all__ = ["TopicIds", "canonical", "derived_id"]

_BYTES = 16


class TopicIds:
    """The ids of some topics, 16 bytes each.

    A topic without an id (or whose id is none of Kafka's) gets the one of `derived_id`: who
    has no ids can't know in which order the coordinator would meet its topics, but the same
    names shall always give the same plan.

    Attributes:
        high: uint64[T], the first half of each id.
        low: uint64[T], the second half.

    >>> ids = TopicIds.of(["orders"], ["AAAAAAAAAAAAAAAAAAAABw"])
    >>> int(ids.hashes[0]), ids.texts
    (7, ['AAAAAAAAAAAAAAAAAAAABw'])
    """

    def __init__(self, raw: bytes) -> None:
        halves = np.frombuffer(raw, dtype=">u8").astype(np.uint64).reshape(-1, 2)
        self.high: NDArray[np.uint64] = np.ascontiguousarray(halves[:, 0])
        self.low: NDArray[np.uint64] = np.ascontiguousarray(halves[:, 1])

    @classmethod
    def of(cls, names: Sequence[str], ids: Sequence[str | None]) -> TopicIds:
        """From names, and the ids as far as they are known (Kafka's URL-safe base64)."""
        if not any(ids):
            return cls(b"".join(map(derived_id, names)))
        pairs = zip(names, ids, strict=True)
        return cls(b"".join(_decoded(i) or derived_id(name) for name, i in pairs))

    @property
    def hashes(self) -> NDArray[np.uint32]:
        """uint32[T]: ``Uuid.hashCode``."""
        mixed = self.high ^ self.low
        hashes: NDArray[np.uint32] = ((mixed >> np.uint64(32)) ^ mixed).astype(np.uint32)
        return hashes

    @property
    def signed(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The two halves as Java compares them, signed."""
        return self.high.view(np.int64), self.low.view(np.int64)

    @property
    def texts(self) -> list[str]:
        """As Kafka prints them."""
        raw = np.stack([self.high, self.low], axis=1).astype(">u8").tobytes()
        one_by_one = (raw[i : i + _BYTES] for i in range(0, len(raw), _BYTES))
        return [base64.urlsafe_b64encode(one).decode().rstrip("=") for one in one_by_one]


def derived_id(name: str) -> bytes:
    """The id that a topic without one gets: BLAKE2b of its name, 16 bytes.

    >>> derived_id("orders") == derived_id("orders") != derived_id("clicks")
    True
    """
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()


def canonical(topic_id: str) -> str | None:
    """An id as Kafka prints it (the last character has spare bits); None if it is none.

    >>> canonical("AAAAAAAAAAAAAAAAAAAAB_"), canonical("orders")
    ('AAAAAAAAAAAAAAAAAAAABw', None)
    """
    raw = _decoded(topic_id)
    return None if raw is None else base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decoded(topic_id: str | None) -> bytes | None:
    if topic_id is None:
        return None
    try:
        raw = base64.b64decode(topic_id + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == _BYTES else None
