# ruff: noqa: PLR0917 - kernels take arrays by place, and have many
"""Placement as ``AdminUtils`` does it (release 3.9.1, the last that has the class).

Brokers stand in a line: in the order given, or, where all have racks, alternating between the
racks. First replicas go along the line; followers stand at a growing distance behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidPlacementError
from partage.javaorder import string_order_key
from partage.kernels import kernel
from partage.model import Broker

__all__ = ["alternating", "place_along", "place_over_racks"]

Int32Array = NDArray[np.int32]


def alternating(brokers: Sequence[Broker]) -> list[int]:
    """Positions in ``brokers``: one of each rack in turn, racks by name, brokers by id.

    >>> racks = ["rack1", "rack3", "rack3", "rack2", "rack2", "rack1"]
    >>> alternating([Broker(i, rack) for i, rack in enumerate(racks)])
    [0, 3, 1, 5, 4, 2]
    """
    by_rack: dict[str, list[int]] = {}
    for position in sorted(range(len(brokers)), key=lambda i: brokers[i].id):
        by_rack.setdefault(brokers[position].rack or "", []).append(position)
    racks = [by_rack[rack] for rack in sorted(by_rack, key=string_order_key)]
    return [
        rack[turn] for turn in range(max(map(len, racks))) for rack in racks if turn < len(rack)
    ]


@kernel("void(int32[::1], int64, int64, int64, int32[:, ::1])")
def _along(line: Any, start: int, shift: int, first: int, out: Any) -> None:
    count = len(line)
    lead = (first + start) % count
    until = (count - first % count) % count
    if first == 0:
        until = count  # partition 0 is no multiple of the brokers: nothing is shifted for it
    for row in range(len(out)):
        if until == 0:
            shift += 1
            until = count
        until -= 1
        out[row, 0] = line[lead]
        gap = shift % (count - 1) if count > 1 else 0
        for j in range(1, out.shape[1]):
            at = lead + 1 + gap
            if at >= count:
                at -= count
            out[row, j] = line[at]
            gap += 1
            if gap == count - 1:
                gap = 0
        lead += 1
        if lead == count:
            lead = 0


def place_along(
    ids: Int32Array, start: int, shift: int, first: int, partitions: int, factor: int
) -> Int32Array:
    """Without racks: int32[partitions, factor], broker ids, the preferred leader first."""
    out = np.empty((partitions, factor), np.int32)
    _along(ids, start, shift, first, out, work=partitions * factor)
    return out


@kernel(
    "void(int32[::1], int32[::1], int64, int64, int64, int64, int64[::1], int64[::1],"
    " int32[:, ::1])"
)
def _over_racks(
    line: Any, rack: Any, racks: int, start: int, shift: int, first: int,
    rack_row: Any, broker_row: Any, out: Any,
) -> None:  # fmt: skip
    # rack_row, broker_row: the last row in which each had a replica, plus one.
    count = len(line)
    for row in range(len(out)):
        number = first + row
        if number > 0 and number % count == 0:
            shift += 1
        lead = (number + start) % count
        out[row, 0] = line[lead]
        rack_row[rack[lead]] = row + 1
        broker_row[lead] = row + 1
        seen = 1
        gap = shift * racks % (count - 1) if count > 1 else 0
        j = 1
        while j < out.shape[1]:
            at = lead + 1 + gap
            if at >= count:
                at -= count
            gap += 1
            if gap == count - 1:
                gap = 0
            new = rack_row[rack[at]] != row + 1
            if (new or seen == racks) and broker_row[at] != row + 1:
                out[row, j] = line[at]
                if new:
                    rack_row[rack[at]] = row + 1
                    seen += 1
                broker_row[at] = row + 1
                j += 1


def place_over_racks(
    brokers: Sequence[Broker], start: int, shift: int, first: int, partitions: int, factor: int
) -> Int32Array:
    """With racks: int32[partitions, factor], broker ids, the preferred leader first.

    Raises:
        InvalidPlacementError: some brokers have no rack.
    """
    if any(b.rack is None for b in brokers):
        lacking = [str(b.id) for b in brokers if b.rack is None]
        raise InvalidPlacementError(
            "not all brokers have rack information for replica rack aware assignment: "
            f"{', '.join(lacking[:5])}{', ...' if len(lacking) > 5 else ''} "
            f"{'has' if len(lacking) == 1 else 'have'} none",
            java_exception="AdminOperationException",
        )
    line = alternating(brokers)
    number: dict[str | None, int] = {}
    rack = np.array([number.setdefault(brokers[i].rack, len(number)) for i in line], np.int32)
    ids = np.array([brokers[i].id for i in line], np.int32)
    out = np.empty((partitions, factor), np.int32)
    marks = np.zeros(len(number), np.int64), np.zeros(len(line), np.int64)
    work = 2 * partitions * factor
    _over_racks(ids, rack, len(number), start, shift, first, *marks, out, work=work)
    return out
