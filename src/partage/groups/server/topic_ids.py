"""Topic ids (Kafka's Uuid) as numbers: Java's hash and order."""

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

    A topic without a valid id gets the id of `derived_id`. The coordinator's iteration order
    is then unknown, but equal names always give equal plans.

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
        """Decode the ids (URL-safe base64, as Kafka prints them); derive missing ones."""
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
        """The two halves as signed integers, as Java compares them."""
        return self.high.view(np.int64), self.low.view(np.int64)

    @property
    def texts(self) -> list[str]:
        """The ids as Kafka prints them."""
        raw = np.stack([self.high, self.low], axis=1).astype(">u8").tobytes()
        pieces = (raw[i : i + _BYTES] for i in range(0, len(raw), _BYTES))
        return [base64.urlsafe_b64encode(one).decode().rstrip("=") for one in pieces]


def derived_id(name: str) -> bytes:
    """Return the id of a topic without one: 16 bytes of BLAKE2b of its name.

    >>> derived_id("orders") == derived_id("orders") != derived_id("clicks")
    True
    """
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()


def canonical(topic_id: str) -> str | None:
    """Return an id as Kafka prints it, or None if it is no id; the last character has spare bits.

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
