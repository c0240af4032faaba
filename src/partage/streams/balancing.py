"""Evening out tasks over threads, as KIP-441 was shipped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from partage.streams.board import Board

__all__ = ["balance_over_threads"]

#: (source client, destination client) -> whether standbys may move between them.
MayMove = Callable[[int, int], bool]


def balance_over_threads(
    board: Board, *, standbys: bool = False, may_move: MayMove = lambda _source, _to: True
) -> None:
    """Move tasks of one role until no move makes two clients more even.

    Sweeps go over all pairs of clients in order. A pair's tasks are tried in order while the
    source's load exceeds the destination's by enough for one task, both roles counted.
    Kafka: ``HighAvailabilityTaskAssignor.balanceTasksOverThreads`` 4.3.1.
    """
    moved = True
    while moved:
        moved = False
        for source in range(len(board.count)):
            for destination in _reachable(board, source):
                moved |= _move(board, source, destination, standbys=standbys, may_move=may_move)


def _reachable(board: Board, source: int) -> list[int]:
    """The only clients that may come out even better with one more task and the source one less.

    A superset is enough: `_should_move` has the last word, and a source only shrinks.
    """
    count = np.array(board.count)
    capacity = np.array(board.capacity)
    after = (count + 1.0) / capacity
    before = (board.count[source] - 1.0) / board.capacity[source]
    reachable: list[int] = np.flatnonzero(after <= before).tolist()
    return reachable


def _move(
    board: Board, source: int, destination: int, *, standbys: bool, may_move: MayMove
) -> bool:
    tasks = board.standby[source] if standbys else board.active[source]
    moved = False
    for task in sorted(tasks):
        if not _should_move(board, source, destination):
            break
        if board.holds(destination, task) or not may_move(source, destination):
            continue
        if standbys:
            board.unassign_standby(source, task)
            board.assign_standby(destination, task)
        else:
            board.unassign_active(source, task)
            board.assign_active(destination, task)
        moved = True
    return moved


def _should_move(board: Board, source: int, destination: int) -> bool:
    skew = board.load[source] - board.load[destination]
    if skew <= 0:
        return False
    there = (board.count[destination] + 1.0) / board.capacity[destination]
    here = (board.count[source] - 1.0) / board.capacity[source]
    # Below 0 the move would only turn the imbalance round.
    return 0 <= here - there < skew
