"""Offsets that the log cleaner removed before the capture read them.

Offsets of an uncompacted log partition are contiguous: brokers reject a batch whose record count
differs from its offset span. An offset that is in no fetched record was therefore removed by
compaction. Up to the end that the log had at the first fetch this is the normal state of a
compacted topic, and only counted. Beyond that end the records were written after the capture
began: the capture lost them, because it was paused or too slow.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from partage.wire.batches import Batch

__all__ = ["CleanedOffsets"]


@dataclass
class _Loss:
    """Offsets that a capture lost in one log partition since the last report."""

    first: int
    last: int
    offsets: int

    def extend(self, first: int, last: int, offsets: int) -> None:
        """Add a range with lost offsets; ranges arrive in the order of the log."""
        self.first, self.last = min(self.first, first), max(self.last, last)
        self.offsets += offsets


@dataclass
class CleanedOffsets:
    """The number of missing offsets by log partition, and the losses not yet reported.

    Attributes:
        counts: log partition -> offsets that no fetched record has.
        first_ends: log partition -> end of the log at the first fetch; a partition without an
            entry is in its first read.
        damaged: log partitions with a batch that could not be read: compaction need not be the
            cause of their missing offsets.

    >>> cleaned = CleanedOffsets({}, {3: 100})
    >>> cleaned.counts, cleaned.report()
    ({}, [])
    """

    counts: dict[int, int] = field(default_factory=dict)
    first_ends: dict[int, int] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    _losses: dict[int, _Loss] = field(default_factory=dict)

    def see_end(self, partition: int, end: int) -> None:
        """Remember the end of a log partition at its first fetch; later calls change nothing."""
        self.first_ends.setdefault(partition, end)

    def take(self, partition: int, position: int, batch: Batch) -> None:
        """Count the offsets missing between the position and the batch, and inside the batch."""
        if batch.base_offset > position:
            self._add(partition, position, batch.base_offset - 1, batch.base_offset - position)
        span = batch.last_offset - batch.base_offset + 1
        if batch.records < span and batch.base_offset >= position:
            self._add(partition, batch.base_offset, batch.last_offset, span - batch.records)

    def _add(self, partition: int, first: int, last: int, offsets: int) -> None:
        self.counts[partition] = self.counts.get(partition, 0) + offsets
        end = self.first_ends.get(partition)
        if end is None or last < end:
            return
        if first < end:  # the range began before the capture did: only its tail is a loss
            first, offsets = end, min(offsets, last - end + 1)
        loss = self._losses.setdefault(partition, _Loss(first, last, 0))
        loss.extend(first, last, offsets)

    def report(self) -> list[str]:
        """Return a sentence for each log partition that lost offsets, and forget these losses."""
        found = [
            _sentence(p, loss, damaged=p in self.damaged)
            for p, loss in sorted(self._losses.items())
        ]
        self._losses = {}
        return found


def _sentence(partition: int, loss: _Loss, *, damaged: bool) -> str:
    span = loss.last - loss.first + 1
    many = f"{loss.offsets:,} offset{'s' if loss.offsets != 1 else ''}"
    which = (
        f"{many} ({loss.first} to {loss.last})"
        if loss.offsets == span
        else f"{many} between {loss.first} and {loss.last}"
    )
    verb = "are" if loss.offsets != 1 else "is"
    missing = f"partition {partition}: {which} {verb} missing"
    if damaged:
        return f"{missing}: the log cleaner removed them, or their batches are damaged"
    return (
        f"{missing}: the log cleaner removed them before this capture read them "
        "(keep --follow running, or raise min.compaction.lag.ms)"
    )
