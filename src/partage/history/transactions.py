"""Which offset commits count: those of a transaction take effect at its marker, or never."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Effects", "Outcome", "Transactions"]

Int64Array = NDArray[np.int64]


class Outcome(IntEnum):
    """What becomes of a record."""

    ABORTED = 0
    COMMITTED = 1
    #: The transaction was still open where the log ends: it has had no effect yet.
    OPEN = 2
    #: Not part of a transaction: takes effect where it stands.
    PLAIN = 3


@dataclass(frozen=True, eq=False)
class Effects:
    """For each record: its outcome, and from which offset and time on it counts."""

    outcome: NDArray[np.int8]
    offset: Int64Array
    time_ms: Int64Array


@dataclass(frozen=True, eq=False)
class _Spans:
    first: Int64Array
    last: Int64Array
    outcome: NDArray[np.int8]
    offset: Int64Array
    time_ms: Int64Array


class Transactions:
    """The transactional batches of the log, from a capture's ``batches.parquet``.

    Args:
        batches: rows with ``partition, base_offset, last_offset, producer_id, transactional,
            control, control_type, max_timestamp_ms``. A batch's marker is the next control
            batch of its producer id: the epoch may differ (transaction version 2 bumps it at
            every end, KIP-890).

    >>> rows = [
    ...     {"partition": 0, "base_offset": 4, "last_offset": 5, "producer_id": 9,
    ...      "transactional": True, "control": False, "control_type": None, "max_timestamp_ms": 1},
    ...     {"partition": 0, "base_offset": 8, "last_offset": 8, "producer_id": 9,
    ...      "transactional": True, "control": True, "control_type": "COMMIT",
    ...      "max_timestamp_ms": 3}]
    >>> got = Transactions(rows).effects(0, np.array([4, 6]), np.array([1, 2]))
    >>> got.offset.tolist(), got.time_ms.tolist(), [Outcome(o).name for o in got.outcome]
    ([8, 6], [3, 2], ['COMMITTED', 'PLAIN'])
    """

    def __init__(self, batches: Iterable[Mapping[str, Any]] = ()) -> None:
        by_partition: dict[int, list[Mapping[str, Any]]] = {}
        for row in batches:
            if row["transactional"]:
                by_partition.setdefault(row["partition"], []).append(row)
        self._spans = {p: _spans(rows) for p, rows in by_partition.items()}

    def effects(self, partition: int, offset: Int64Array, time_ms: Int64Array) -> Effects:
        """Where records of one log partition take effect.

        Args:
            partition: the partition of ``__consumer_offsets``.
            offset: int64[n], offsets of the records, in any order.
            time_ms: int64[n], their timestamps.
        """
        outcome = np.full(len(offset), Outcome.PLAIN, np.int8)
        at, when = offset.astype(np.int64), time_ms.astype(np.int64)
        spans = self._spans.get(partition)
        if spans is None or not len(spans.first) or not len(offset):
            return Effects(outcome, at, when)
        span = np.searchsorted(spans.first, offset, side="right") - 1
        inside = (span >= 0) & (offset <= spans.last[np.maximum(span, 0)])
        mine = span[inside]
        outcome[inside] = spans.outcome[mine]
        at[inside], when[inside] = spans.offset[mine], spans.time_ms[mine]
        return Effects(outcome, at, when)


def _spans(rows: list[Mapping[str, Any]]) -> _Spans:
    """Data batches in log order, each with the marker that decided on it."""
    rows = sorted(rows, key=lambda r: -r["base_offset"])
    marker: dict[int, Mapping[str, Any]] = {}
    found: list[tuple[int, int, int, int, int]] = []
    for row in rows:  # from the end, so that the next marker of a producer is known
        if row["control"]:
            marker[row["producer_id"]] = row
            continue
        end = marker.get(row["producer_id"])
        if end is None:
            fate, at, when = Outcome.OPEN, row["base_offset"], row["max_timestamp_ms"]
        else:
            fate = Outcome.COMMITTED if end["control_type"] == "COMMIT" else Outcome.ABORTED
            at, when = end["base_offset"], end["max_timestamp_ms"]
        found.append((row["base_offset"], row["last_offset"], int(fate), at, when))
    table = np.array(found[::-1], np.int64).reshape(-1, 5)
    return _Spans(
        table[:, 0].copy(), table[:, 1].copy(), table[:, 2].astype(np.int8),
        table[:, 3].copy(), table[:, 4].copy(),
    )  # fmt: skip
