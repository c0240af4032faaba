# ruff: noqa: PLR0917 - arguments are Kafka's, and as many
"""Placement of replicas by Kafka's ``AdminUtils`` of 3.9.1, the last release with this class.

Brokers form a list: in the order given, or alternating between racks where all have racks.
Leaders follow this list; followers are at a growing distance after their leader.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidPlacementError
from partage.java.strings import string_order_key
from partage.model import Broker

__all__ = ["all_have_racks", "alternating", "place_along", "place_over_racks"]

Int32Array = NDArray[np.int32]


def alternating(brokers: Sequence[Broker]) -> list[int]:
    """Return the broker positions in rack-alternated order: one broker of each rack in turn.

    Racks are sorted by name, and brokers within a rack by id. Equals Kafka's
    ``AdminUtils.getRackAlternatedBrokerList``.

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


def _starts(
    count: int, start: int, shift: int, first: int, rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the list position of each partition's leader, and the shift of its followers (two
    int64[rows]).

    The shift grows by one each time the leaders have gone around the broker list.
    """
    number = first + np.arange(rows, dtype=np.int64)
    # The shift grows at every multiple of the brokers except partition 0.
    later = number // count - (max(first, 1) - 1) // count
    return (number + start) % count, shift + later


def place_along(
    ids: Int32Array, start: int, shift: int, first: int, partitions: int, factor: int
) -> Int32Array:
    """Return the replicas of each partition by the rack-unaware rule of Kafka's ``AdminUtils``
    (int32[partitions, factor] broker ids, the preferred leader first).
    """
    count = len(ids)
    lead, behind = _starts(count, start, shift, first, partitions)
    out = np.empty((partitions, factor), np.int32)
    out[:, 0] = ids[lead]
    for j in range(factor - 1):
        out[:, j + 1] = ids[(lead + 1 + (behind + j) % (count - 1)) % count]
    return out


def _over_racks(
    line: Int32Array, rack: NDArray[np.int64], lead: NDArray[np.int64], gap: NDArray[np.int64],
    factor: int,
) -> Int32Array:  # fmt: skip
    """Return replicas on distinct racks, given the position of each leader and the shift of its
    followers (int32[n, factor] broker ids).

    All partitions test their next candidate broker at once. Those that cannot use it test the next
    one in the following pass.
    """
    count, racks, rows = len(line), int(rack.max()) + 1, len(lead)
    at = np.empty((rows, factor), np.int64)
    at[:, 0] = lead
    seen = np.ones(rows, np.int64)
    gap = gap.copy()
    for j in range(1, factor):
        left = np.arange(rows)
        while len(left):
            here = lead[left] + 1 + gap[left]
            here -= count * (here >= count)
            gap[left] += 1
            gap[left[gap[left] == count - 1]] = 0
            held = at[left, :j]
            new = (rack[held] != rack[here][:, None]).all(axis=1)
            free = (held != here[:, None]).all(axis=1)
            taken = (new | (seen[left] == racks)) & free
            found = left[taken]
            at[found, j] = here[taken]
            seen[found] += new[taken]
            left = left[~taken]
    return line[at]


def all_have_racks(brokers: Sequence[Broker]) -> None:
    """Check that every broker has a rack; raise InvalidPlacementError otherwise."""
    if any(b.rack is None for b in brokers):
        lacking = [str(b.id) for b in brokers if b.rack is None]
        raise InvalidPlacementError(
            "not all brokers have rack information for replica rack aware assignment: "
            f"{', '.join(lacking[:5])}{', ...' if len(lacking) > 5 else ''} "
            f"{'has' if len(lacking) == 1 else 'have'} none",
            java_exception="AdminOperationException",
        )


def place_over_racks(
    brokers: Sequence[Broker], start: int, shift: int, first: int, partitions: int, factor: int
) -> Int32Array:
    """Return the replicas of each partition by the rack-aware rule of Kafka's ``AdminUtils``
    (int32[partitions, factor] broker ids, the preferred leader first).

    All brokers must have racks.
    """
    line = alternating(brokers)
    number: dict[str | None, int] = {}
    rack = np.array([number.setdefault(brokers[i].rack, len(number)) for i in line], np.int64)
    ids = np.array([brokers[i].id for i in line], np.int32)
    count = len(line)
    lead, behind = _starts(count, start, shift, first, partitions)
    if count == 1:
        return np.full((partitions, factor), ids[0], np.int32)
    gap = behind * len(number) % (count - 1)
    # Leaders and gaps are periodic, and so are the rows that they determine.
    period = min(partitions, count * (count - 1) // math.gcd(len(number), count - 1))
    once = _over_racks(ids, rack, lead[:period], gap[:period], factor)
    return once[np.arange(partitions) % period]
