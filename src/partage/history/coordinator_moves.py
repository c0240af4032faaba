"""Moves of a group's coordinator, the leader of the group's partition of `__consumer_offsets`.

Each batch of the log carries the leader epoch of its writer. A larger epoch means that another
broker, or the same one after a restart, took over: it loads the partition, and members have to
find it. A move is no rebalance by itself, but members may be lost or rejoin because of it.
`BrokerFaults` has the times at which that is plausible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from partage.history.clusters import ClusterHistory
from partage.history.records import LogPosition

__all__ = ["BrokerFaults", "CoordinatorMove", "CoordinatorMoves", "find_moves"]


@dataclass(frozen=True, slots=True)
class CoordinatorMove:
    """The move of a group coordinator to another broker, as the new leader's first batch shows it.

    ``before`` and ``epoch`` are the old and the new leader epoch.
    """

    position: LogPosition
    time_ms: int
    before: int
    epoch: int


def find_moves(
    partition: ArrayLike, base_offset: ArrayLike, leader_epoch: ArrayLike, time_ms: ArrayLike
) -> dict[int, tuple[CoordinatorMove, ...]]:
    """Find the coordinator moves in a capture's ``batches.parquet``; return them by log partition.

    Args:
        partition: log partition of each batch, in any order (int[n]).
        base_offset: offset of each batch's first record (int[n]).
        leader_epoch: leader epoch of each batch, -1 if unknown (int[n]).
        time_ms: ``max_timestamp_ms`` of each batch (int[n]).

    >>> find_moves([0, 0, 0], [5, 0, 9], [3, 3, 4], [50, 10, 90])[0][0].epoch
    4
    """
    given = (partition, base_offset, leader_epoch, time_ms)
    columns = [np.asarray(column).astype(np.int64) for column in given]
    order = np.lexsort((columns[1], columns[0]))
    order = order[columns[2][order] >= 0]
    part, offset, epoch, when = (column[order] for column in columns)
    first = np.flatnonzero((part[1:] == part[:-1]) & (epoch[1:] > epoch[:-1])) + 1
    out: dict[int, list[CoordinatorMove]] = {}
    for i in first.tolist():
        position = LogPosition(int(part[i]), int(offset[i]))
        move = CoordinatorMove(position, int(when[i]), int(epoch[i - 1]), int(epoch[i]))
        out.setdefault(position.partition, []).append(move)
    return {p: tuple(moves) for p, moves in out.items()}


@dataclass(slots=True)
class CoordinatorMoves:
    """The moves of one group's coordinator after the group's first record, in log order.

    Attributes:
        by_partition: moves by log partition.
        position: the position up to which moves were yielded; None before the first record.

    >>> moves = CoordinatorMoves(find_moves([0, 0], [0, 5], [1, 2], [10, 50]))
    >>> [len(list(moves.until(LogPosition(0, at)))) for at in (3, 7, 8)]
    [0, 1, 0]
    """

    by_partition: Mapping[int, Sequence[CoordinatorMove]] = field(default_factory=dict)
    position: LogPosition | None = None

    def until(self, position: LogPosition) -> Iterator[CoordinatorMove]:
        """Yield the moves up to a log position that earlier calls have not yielded."""
        before, self.position = self.position, position
        if before is not None:  # earlier moves did not concern this group
            for move in self.by_partition.get(position.partition, ()):
                if before < move.position <= position:
                    yield move


class BrokerFaults:
    """Times of broker faults: a group's coordinator moved, or a broker left or entered the cluster.

    Args:
        clusters: the cluster metadata over time.
        moves: coordinator moves by log partition (`find_moves`).

    >>> faults = BrokerFaults(ClusterHistory([]), find_moves([0, 0], [0, 5], [1, 2], [10, 50]))
    >>> faults.last(0, 20, 90), faults.last(0, 60, 90), faults.last(1, 20, 90)
    ((50, 'its coordinator moved'), None, None)
    """

    def __init__(
        self, clusters: ClusterHistory, moves: Mapping[int, Sequence[CoordinatorMove]]
    ) -> None:
        self._clusters = clusters
        self._moves = moves

    def last(
        self, partition: int, from_ms: int, to_ms: int, *, only_coordinator: bool = False
    ) -> tuple[int, str] | None:
        """Return time and description of the last broker fault within a time span, or None.

        Args:
            partition: the group's partition of ``__consumer_offsets``.
            from_ms: start of the span.
            to_ms: end of the span, included.
            only_coordinator: leave out faults of other brokers.
        """
        moved = (
            *(move.time_ms for move in self._moves.get(partition, ())),
            *self._clusters.coordinator_changes(partition),
        )
        faults = [(time_ms, "its coordinator moved") for time_ms in moved]
        if not only_coordinator:
            changes = self._clusters.broker_changes
            faults += [(time_ms, "a broker failed or restarted") for time_ms in changes]
        return max((one for one in faults if from_ms <= one[0] <= to_ms), default=None)
