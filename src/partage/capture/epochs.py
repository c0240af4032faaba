"""Leader epochs of the records read: they reveal a log that an unclean leader has overwritten.

An unclean leader truncates the log, and new records take the offsets of lost ones. A reader that
comes later finds records behind its position and notices nothing. Every batch carries the epoch of
the leader that wrote it. Given the last epoch that was read, a broker returns the offset at which
its own log diverges (KIP-320, KIP-595), as it does for its followers.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["UNKNOWN", "Epochs"]

#: The epoch of a range whose leader is unknown; it cannot be compared.
UNKNOWN = -1
_MOST = 100


class Epochs:
    """The leader epochs of each log partition, each with the offset after its last batch.

    Epochs are ascending. The range before the first known epoch is a row with epoch `UNKNOWN`.

    >>> ours = Epochs({3: [(4, 120), (6, 340)]})
    >>> ours.last(3, 340), ours.last(3, 400)
    (6, -1)

    The leader's log has epoch 5 in place of our 6, up to 200: they diverge where our 4 ends.

    >>> ours.diverging_offset(3, 5, 200)
    120
    >>> ours.record_batch(4, 6, 300, 340)
    >>> ours.diverging_offset(4, 5, 320)
    300
    """

    def __init__(self, known: dict[int, list[tuple[int, int]]] | None = None) -> None:
        self.known = {p: list(rows) for p, rows in (known or {}).items()}

    def record_batch(self, partition: int, epoch: int, first: int, end: int) -> None:
        """Record that a batch of a leader epoch was read from ``first`` to before ``end``."""
        rows = self.known.setdefault(partition, [])
        if epoch < 0 or (rows and epoch < rows[-1][0]):
            # Epochs only grow along a log, so a lower or negative one cannot be compared.
            self.known[partition] = []
            return
        if not rows:
            rows.append((UNKNOWN, first))
        if rows[-1][0] == epoch:
            rows.pop()
        rows.append((epoch, end))
        if len(rows) > _MOST:
            rows[:-_MOST] = []
            rows[0] = (UNKNOWN, rows[0][1])

    def last(self, partition: int, position: int) -> int:
        """Return the epoch of the record before ``position``; `UNKNOWN` after a skipped range."""
        rows = self.known.get(partition)
        return rows[-1][0] if rows and rows[-1][1] == position else UNKNOWN

    def diverging_offset(self, partition: int, epoch: int, end: int) -> int:
        """Return the offset at which the leader's log diverges from the records read.

        Args:
            partition: the log partition.
            epoch: the leader's greatest epoch that is not above ours.
            end: the offset at which this epoch ends in the leader's log.
        """
        ours = [e for of, e in self.known.get(partition, ()) if of <= epoch]
        return min(end, ours[-1]) if ours else end

    def cut(self, partition: int, offset: int) -> None:
        """Forget the epochs of records from ``offset`` on."""
        rows = self.known.get(partition, [])
        kept = [row for row in rows if row[1] <= offset]
        if len(kept) < len(rows) and (not kept or kept[-1][1] < offset):
            kept.append((rows[len(kept)][0], offset))
        self.known[partition] = kept

    def forget(self, partition: int) -> None:
        """Forget a partition's epochs: the leader cannot compare them."""
        self.known.pop(partition, None)

    def rows(self) -> Iterable[tuple[int, list[tuple[int, int]]]]:
        """Return the known epochs by partition."""
        return sorted((p, list(rows)) for p, rows in self.known.items() if rows)
