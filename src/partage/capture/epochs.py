"""Which leader wrote what was read: how a log that was written anew behind our back is noticed.

A leader that was not in sync makes the log shorter, and new records come to the offsets that others
had. Whoever looks later sees a log that goes on behind his position, as if nothing had happened.
Every batch carries the epoch of the leader that wrote it. Told the last one that was read, a broker
answers where its own log parts from it (KIP-320, KIP-595), as it does to its followers.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["UNKNOWN", "Epochs"]

#: No epoch: nothing is known, and nothing can be compared.
UNKNOWN = -1
_MOST = 100


class Epochs:
    """By log partition: each leader's epoch, and the offset behind the last batch of it, ascending.
    What was before the first known one is a row of no epoch.

    >>> ours = Epochs({3: [(4, 120), (6, 340)]})
    >>> ours.last(3, 340), ours.last(3, 400)
    (6, -1)

    The leader's log has epoch 5 in place of our 6, up to 200: they part where our 4 ends.

    >>> ours.parting(3, 5, 200)
    120
    >>> ours.took(4, 6, 300, 340)
    >>> ours.parting(4, 5, 320)
    300
    """

    def __init__(self, known: dict[int, list[tuple[int, int]]] | None = None) -> None:
        self.known = {p: list(rows) for p, rows in (known or {}).items()}

    def took(self, partition: int, epoch: int, first: int, end: int) -> None:
        """A batch of a leader's epoch was read, from ``first`` on; the next offset is ``end``."""
        rows = self.known.setdefault(partition, [])
        if epoch < 0 or (rows and epoch < rows[-1][0]):
            # Epochs only grow along a log: this is none that can be compared.
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
        """The epoch of the record before ``position``; `UNKNOWN` where something was skipped."""
        rows = self.known.get(partition)
        return rows[-1][0] if rows and rows[-1][1] == position else UNKNOWN

    def parting(self, partition: int, epoch: int, end: int) -> int:
        """From which offset on ours and the leader's log differ at the latest.

        Args:
            partition: of the log.
            epoch: the greatest one that the leader has, up to ours.
            end: where that one ends in the leader's log.
        """
        ours = [e for of, e in self.known.get(partition, ()) if of <= epoch]
        return min(end, ours[-1]) if ours else end

    def cut(self, partition: int, offset: int) -> None:
        """What was read from ``offset`` on is forgotten."""
        rows = self.known.get(partition, [])
        kept = [row for row in rows if row[1] <= offset]
        if len(kept) < len(rows) and (not kept or kept[-1][1] < offset):
            kept.append((rows[len(kept)][0], offset))
        self.known[partition] = kept

    def forget(self, partition: int) -> None:
        """They cannot be compared: the leader knows nothing of ours."""
        self.known.pop(partition, None)

    def rows(self) -> Iterable[tuple[int, list[tuple[int, int]]]]:
        """What is known, by partition."""
        return sorted((p, list(rows)) for p, rows in self.known.items() if rows)
