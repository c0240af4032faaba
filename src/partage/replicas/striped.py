# ruff: noqa: PLR0917 - kernels take arrays by place, and have many
"""Placement as the KRaft controller does it: ``StripedReplicaPlacer`` (4.3.1), numbers included.

Each rack has a ring of unfenced brokers and one of fenced ones. Partitions begin one rack and,
within the racks, one broker later each time; when as many partitions are placed as there are
unfenced brokers, racks and rings are shuffled, so that pairs of brokers do not repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidPlacementError
from partage.javaorder import hash_set_order, string_hash, string_order_key
from partage.kernels import kernel, piece
from partage.model import Broker
from partage.replicas.draws import Draws, next_int

__all__ = ["place_in_stripes"]

Int32Array = NDArray[np.int32]

_REFUSED = "InvalidReplicationFactorException"
#: Draws beyond those that are sure to be needed: one in millions is thrown away.
_SPARE = 64


def place_in_stripes(
    brokers: Sequence[Broker], draws: Draws, partitions: int, factor: int
) -> Int32Array:
    """int32[partitions, factor], broker ids, the preferred leader first.

    Raises:
        InvalidPlacementError: the factor is not positive, all brokers are fenced, or there
            are fewer brokers than the factor; looked at in this order, as Kafka does.
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
    """Racks in hash order; ring 2r has rack r's unfenced brokers, ring 2r + 1 its fenced ones."""

    def __init__(self, brokers: Sequence[Broker], draws: Draws) -> None:
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

    def place(self, draws: Draws, partitions: int, factor: int) -> Int32Array:
        """See `place_in_stripes`."""
        out = np.empty((partitions, factor), np.int32)
        size = len(self.broker) + len(self.names)
        shuffles = max(partitions - 1, 0) // self.unfenced if self.unfenced > 1 else 0
        wanted = shuffles * size + _SPARE
        while True:
            raw = draws.ahead(wanted)
            state = np.zeros((3, len(self.offset)), np.int64)  # epoch, index, offset
            state[2] = self.offset
            used = _stripes(
                self.start, self.broker.copy(), self.names.copy(), state, self.rack_offset,
                self.unfenced, raw, out, work=2 * partitions * factor + wanted,
            )  # fmt: skip
            if used >= 0:
                draws.skip(used)
                return out
            wanted *= 2  # more numbers were thrown away than anybody will see in his life


def _rack_key(rack: str | None) -> tuple[bool, bytes]:
    return rack is not None, string_order_key(rack or "")


@piece
def _bounded(raw: Any, used: int, bound: int) -> int:
    """Place in ``raw`` of the first number that is good for ``bound``, -1 if there is none."""
    if bound & (bound - 1) == 0:
        return used if used < len(raw) else -1
    while used < len(raw) and raw[used] - raw[used] % bound + bound - 1 >= 2147483648:
        used += 1
    return used if used < len(raw) else -1


@piece
def _shuffle(items: Any, begin: int, end: int, raw: Any, used: int) -> int:
    """``Collections.shuffle`` of ``items[begin:end]``; the draws used by then, -1 if too few."""
    for size in range(end - begin, 1, -1):
        used = _bounded(raw, used, size)
        if used < 0:
            return -1
        bits = raw[used]
        used += 1
        other = begin + (size * bits >> 31 if size & (size - 1) == 0 else bits % size)
        last = begin + size - 1
        kept = items[last]
        items[last] = items[other]
        items[other] = kept
    return used


@piece
def _next(ring: int, epoch: int, start: Any, state: Any) -> int:
    """Place of the ring's next broker in this epoch, -1 if it has no more."""
    size = start[ring + 1] - start[ring]
    if size == 0:
        return -1
    if state[0, ring] != epoch:
        state[0, ring] = epoch
        state[1, ring] = 0
        state[2, ring] += 1
        if state[2, ring] >= size:
            state[2, ring] = 0
    if state[1, ring] >= size:
        return -1
    at = state[1, ring] + state[2, ring]
    state[1, ring] += 1
    return start[ring] + (at - size if at >= size else at)  # type: ignore[no-any-return]  # an item


@kernel(
    "int64(int64[::1], int32[::1], int64[::1], int64[:, ::1], int64, int64, int64[::1],"
    " int32[:, ::1])"
)
def _stripes(
    start: Any, broker: Any, names: Any, state: Any, offset: int, unfenced: int, raw: Any, out: Any
) -> int:
    racks = len(names)
    used = 0
    epoch = 0
    for row in range(len(out)):
        if epoch == unfenced and unfenced > 1:
            used = _shuffle(names, 0, racks, raw, used)
            for ring in range(2 * racks):
                fenced_first = ring ^ 1
                if used >= 0:
                    used = _shuffle(broker, start[fenced_first], start[fenced_first + 1], raw, used)
            if used < 0:
                return -1
            epoch = 0
        if offset == racks:
            offset = 0
        first = offset
        at = _next(2 * names[first], epoch, start, state)
        while at < 0:
            first = first + 1 if first + 1 < racks else 0
            at = _next(2 * names[first], epoch, start, state)
        out[row, 0] = broker[at]
        i = offset
        for j in range(1, out.shape[1]):
            at = -1
            while at < 0:
                if i == first:
                    first = -1
                else:
                    at = _next(2 * names[i], epoch, start, state)
                    if at < 0:
                        at = _next(2 * names[i] + 1, epoch, start, state)
                i = i + 1 if i + 1 < racks else 0
            out[row, j] = broker[at]
        epoch += 1
        offset += 1
    return used
