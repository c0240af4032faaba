"""Moves of a group's coordinator: it is the leader of the group's log partition.

Each batch of the log carries the epoch of the leader that wrote it. A larger one means that
another broker (or the same one, restarted) has taken over: it loads the partition, and members
have to find it, which is no rebalance by itself but often the moment of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from partage.history.records import Place

__all__ = ["CoordinatorMoves", "Move", "moves_of"]


@dataclass(frozen=True, slots=True)
class Move:
    """The first batch of a new leader.

    Attributes:
        place: of the batch.
        time_ms: of the batch.
        before, epoch: leader epochs.
    """

    place: Place
    time_ms: int
    before: int
    epoch: int


def moves_of(
    partition: ArrayLike, base_offset: ArrayLike, leader_epoch: ArrayLike, time_ms: ArrayLike
) -> dict[int, tuple[Move, ...]]:
    """Moves by log partition, from the columns of a capture's ``batches.parquet``.

    Args:
        partition: int[n], of each batch; in any order.
        base_offset: int[n].
        leader_epoch: int[n]; -1 where it is not known.
        time_ms: int[n], ``max_timestamp_ms``.

    >>> moves_of([0, 0, 0], [5, 0, 9], [3, 3, 4], [50, 10, 90])[0][0].epoch
    4
    """
    given = (partition, base_offset, leader_epoch, time_ms)
    columns = [np.asarray(column).astype(np.int64) for column in given]
    order = np.lexsort((columns[1], columns[0]))
    part, offset, epoch, when = (c[order] for c in columns)
    known = epoch >= 0
    part, offset, epoch, when = (c[known] for c in (part, offset, epoch, when))
    at = np.flatnonzero((part[1:] == part[:-1]) & (epoch[1:] > epoch[:-1])) + 1
    out: dict[int, list[Move]] = {}
    for i in at.tolist():
        place = Place(int(part[i]), int(offset[i]))
        move = Move(place, int(when[i]), int(epoch[i - 1]), int(epoch[i]))
        out.setdefault(place.partition, []).append(move)
    return {p: tuple(moves) for p, moves in out.items()}


@dataclass(slots=True)
class CoordinatorMoves:
    """The moves that one group lives through: those after its first record.

    >>> moves = CoordinatorMoves(moves_of([0, 0], [0, 5], [1, 2], [10, 50]))
    >>> [len(list(moves.until(Place(0, at)))) for at in (3, 7, 8)]
    [0, 1, 0]
    """

    by_partition: Mapping[int, Sequence[Move]] = field(default_factory=dict)
    #: Up to where moves have been told; None before the group's first record.
    place: Place | None = None

    def until(self, place: Place) -> Iterator[Move]:
        """Moves since the group's place before, up to this one."""
        before, self.place = self.place, place
        if before is not None:  # what was before the group concerns nobody
            for move in self.by_partition.get(place.partition, ()):
                if before < move.place <= place:
                    yield move
