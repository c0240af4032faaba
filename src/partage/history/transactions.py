"""Transactional offset commits: they take effect at their transaction's marker, or never."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RecordOutcomes", "TransactionOutcome", "Transactions"]

Int64Array = NDArray[np.int64]


class TransactionOutcome(IntEnum):
    """Outcome of a log record's transaction: committed, aborted, still open, or no transaction.

    An aborted record has no effect.
    """

    ABORTED = 0
    COMMITTED = 1
    #: The transaction is open at the end of the log: the record has had no effect yet.
    OPEN = 2
    #: Not part of a transaction: the record takes effect at its own offset.
    PLAIN = 3


@dataclass(frozen=True, eq=False)
class RecordOutcomes:
    """For each log record: the outcome of its transaction, and when the record takes effect.

    Each field is a column with one element per record.

    Attributes:
        outcome: the outcome of the record's transaction, a `TransactionOutcome`.
        offset: the log offset at which the record takes effect: its own, or that of the
            transaction's marker.
        time_ms: the time at which it takes effect.
    """

    outcome: NDArray[np.int8]
    offset: Int64Array
    time_ms: Int64Array


@dataclass(frozen=True, eq=False)
class _TransactionalBatches:
    """Transactional record batches of one log partition, as columns with one element per batch.

    The columns are the first and last offset, the transaction's outcome, and the offset and time of
    its marker (the record that commits or aborts it).
    """

    first: Int64Array
    last: Int64Array
    outcome: NDArray[np.int8]
    offset: Int64Array
    time_ms: Int64Array


class Transactions:
    """Transactions in ``__consumer_offsets``, which decide when their offset commits take effect.

    A commit in a transaction takes effect when the transaction is committed. The transactions are
    read from a capture's ``batches.parquet``.

    Args:
        batches: rows with ``partition, base_offset, last_offset, producer_id, transactional,
            control, control_type, max_timestamp_ms``. A batch's marker is the next control
            batch of its producer id: the epoch may differ (transaction version 2 increments it
            at every end, KIP-890).

    >>> rows = [
    ...     {"partition": 0, "base_offset": 4, "last_offset": 5, "producer_id": 9,
    ...      "transactional": True, "control": False, "control_type": None, "max_timestamp_ms": 1},
    ...     {"partition": 0, "base_offset": 8, "last_offset": 8, "producer_id": 9,
    ...      "transactional": True, "control": True, "control_type": "COMMIT",
    ...      "max_timestamp_ms": 3}]
    >>> got = Transactions(rows).find_outcomes(0, np.array([4, 6]), np.array([1, 2]))
    >>> got.offset.tolist(), got.time_ms.tolist(), [TransactionOutcome(o).name for o in got.outcome]
    ([8, 6], [3, 2], ['COMMITTED', 'PLAIN'])
    """

    def __init__(self, batches: Iterable[Mapping[str, Any]] = ()) -> None:
        by_partition: dict[int, list[Mapping[str, Any]]] = {}
        for row in batches:
            if row["transactional"]:
                by_partition.setdefault(row["partition"], []).append(row)
        self._batches = {p: _find_markers(rows) for p, rows in by_partition.items()}

    def find_outcomes(
        self, partition: int, offset: Int64Array, time_ms: Int64Array
    ) -> RecordOutcomes:
        """Return for each log record whether, where and when it takes effect.

        A record in a transaction takes effect when the transaction is committed, any other at once.

        Args:
            partition: the partition of ``__consumer_offsets``.
            offset: offsets of the records, in any order (int64[n]).
            time_ms: timestamps of the records (int64[n]).
        """
        outcome = np.full(len(offset), TransactionOutcome.PLAIN, np.int8)
        effective, effective_ms = offset.astype(np.int64), time_ms.astype(np.int64)
        batches = self._batches.get(partition)
        if batches is None or not len(batches.first) or not len(offset):
            return RecordOutcomes(outcome, effective, effective_ms)
        batch = np.searchsorted(batches.first, offset, side="right") - 1
        is_inside = (batch >= 0) & (offset <= batches.last[np.maximum(batch, 0)])
        batch = batch[is_inside]
        outcome[is_inside] = batches.outcome[batch]
        effective[is_inside], effective_ms[is_inside] = (
            batches.offset[batch],
            batches.time_ms[batch],
        )
        return RecordOutcomes(outcome, effective, effective_ms)


def _find_markers(batch_rows: list[Mapping[str, Any]]) -> _TransactionalBatches:
    """Find the marker of each transactional batch, the record that commits or aborts it.

    ``batch_rows`` are the rows of ``batches.parquet`` for one log partition.
    """
    batch_rows = sorted(batch_rows, key=lambda r: -r["base_offset"])
    marker: dict[int, Mapping[str, Any]] = {}
    found: list[tuple[int, int, int, int, int]] = []
    for row in batch_rows:  # backwards, so that the next marker of a producer is known
        if row["control"]:
            marker[row["producer_id"]] = row
            continue
        end = marker.get(row["producer_id"])
        if end is None:
            outcome, at, when = TransactionOutcome.OPEN, row["base_offset"], row["max_timestamp_ms"]
        else:
            outcome = (
                TransactionOutcome.COMMITTED
                if end["control_type"] == "COMMIT"
                else TransactionOutcome.ABORTED
            )
            at, when = end["base_offset"], end["max_timestamp_ms"]
        found.append((row["base_offset"], row["last_offset"], int(outcome), at, when))
    table = np.array(found[::-1], np.int64).reshape(-1, 5)
    first, last, outcomes, offsets, times = (column.copy() for column in table.T)
    return _TransactionalBatches(first, last, outcomes.astype(np.int8), offsets, times)
