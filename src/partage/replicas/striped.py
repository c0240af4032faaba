"""Placement by the KRaft controller's ``StripedReplicaPlacer`` (4.3.1), with its random numbers.

Each rack has a ring of unfenced brokers and one of fenced ones. Partitions begin one rack and,
within the racks, one broker later each time; when as many partitions are placed as there are
unfenced brokers, racks and rings are shuffled, so that pairs of brokers do not repeat.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidPlacementError
from partage.java.hash_order import hash_set_order
from partage.java.strings import string_hash, string_order_key
from partage.model import Broker
from partage.replicas.draws import LookaheadDraws, next_int
from partage.replicas.striped_rows import steps, stripes

__all__ = ["place_in_stripes"]

Int32Array = NDArray[np.int32]

_REFUSED = "InvalidReplicationFactorException"
#: Draws beyond those that are sure to be needed: ``nextInt`` rejects one in millions.
_SPARE = 64


def place_in_stripes(
    brokers: Sequence[Broker], draws: LookaheadDraws, partitions: int, factor: int
) -> Int32Array:
    """Return the brokers on which KRaft's ``StripedReplicaPlacer`` places each partition's replicas
    (int32[partitions, factor]).

    The result is int32[partitions, factor] with broker ids, the preferred leader first.

    Raises:
        InvalidPlacementError: the factor is not positive, all brokers are fenced, or there
            are fewer brokers than the factor; checked in this order, as Kafka does.
    """
    rings = _Rings(brokers, draws)
    if factor <= 0:
        raise InvalidPlacementError(
            f"invalid replication factor {factor}: it must be positive", java_exception=_REFUSED
        )
    if rings.unfenced == 0:
        raise InvalidPlacementError("all brokers are currently fenced", java_exception=_REFUSED)
    if factor > len(brokers):
        raise InvalidPlacementError(
            f"replication factor {factor} cannot be reached: only {len(brokers)} "
            f"{'broker is' if len(brokers) == 1 else 'brokers are'} registered",
            java_exception=_REFUSED,
        )
    return rings.place(draws, partitions, factor)


class _Rings:
    """Brokers of each rack as two rings that are visited in turn: the unfenced and the fenced
    brokers.

    Racks are in Java's hash order. Ring 2r has the unfenced brokers of rack r, ring 2r + 1 its
    fenced ones.
    """

    def __init__(self, brokers: Sequence[Broker], draws: LookaheadDraws) -> None:
        # A missing rack is Optional.empty(), which hashes to 0 and sorts first.
        racks = hash_set_order(
            [b.rack for b in brokers], lambda rack: 0 if rack is None else string_hash(rack)
        )
        self.unfenced = sum(not b.fenced for b in brokers)
        rows: list[list[int]] = []
        self.offset = np.zeros(2 * len(racks), np.int64)
        for r, rack in enumerate(racks):
            rings = [
                sorted(b.id for b in brokers if b.rack == rack and b.fenced is fenced)
                for fenced in (False, True)
            ]
            rows += rings
            for which in (1, 0):  # fenced brokers draw first
                if rings[which]:
                    self.offset[2 * r + which] = next_int(draws, len(rings[which]))
        self.start = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        self.broker = np.array([b for row in rows for b in row], np.int32)
        names = sorted(range(len(racks)), key=lambda r: _rack_key(racks[r]))
        self.names = np.array(names, np.int64)
        self.rack_offset = next_int(draws, len(racks)) if racks else 0

    def place(self, draws: LookaheadDraws, partitions: int, factor: int) -> Int32Array:
        size = len(self.broker) + len(self.names)
        shuffles = max(partitions - 1, 0) // self.unfenced if self.unfenced > 1 else 0
        wanted = shuffles * size + _SPARE
        while True:
            raw = draws.ahead(wanted)
            # Nearly always all partitions at once; step by step where rings run dry.
            found = stripes(
                self.start, self.broker, self.names, self.offset, self.rack_offset,
                raw, (partitions, factor),
            )  # fmt: skip
            if found is not None:
                draws.skip(shuffles * _draws_of_a_shuffle(self.start, len(self.names)))
                return found
            out = np.empty((partitions, factor), np.int32)
            state = np.zeros((3, len(self.offset)), np.int64)  # epoch, index, offset
            state[2] = self.offset
            used = steps(
                self.start, self.broker.copy(), self.names.copy(), state, self.rack_offset,
                self.unfenced, raw, out, work=2 * partitions * factor + wanted,
            )  # fmt: skip
            if used >= 0:
                draws.skip(used)
                return out
            wanted *= 2  # ``nextInt`` rejected more draws than the spare ones


def _draws_of_a_shuffle(start: NDArray[np.int64], racks: int) -> int:
    # n - 1 for a list of n items: the list of racks, and each ring.
    return max(racks - 1, 0) + int(np.maximum(np.diff(start) - 1, 0).sum())


def _rack_key(rack: str | None) -> tuple[bool, bytes]:
    # A missing rack comes first, then Java's string order.
    return rack is not None, string_order_key(rack or "")
