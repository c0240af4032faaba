"""Partition-seconds in which nobody read, as bounds: never one number, for nobody measured it.

What a commit log can tell is when a partition's position was last written before a rebalance,
and first after it. Reading may have gone on after the last commit, by at most the usual time
between two commits, and began again at most that long before the first one. So a pause of
5 s with commits every second is a stop of 3 to 5 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from partage.history.pauses import Pause
from partage.model.index import Int32Array
from partage.simulation.lived import NOTHING, Bounds

__all__ = ["length", "silence", "stopped", "stopping", "usual"]

#: Consumers send a heartbeat at least three times in a session timeout (Kafka refuses less).
_HEARTBEATS = 3


def length(pauses: Iterable[tuple[Pause, Bounds]]) -> Bounds | None:
    """How long partitions stood still in a recorded rebalance, in ms.

    At least what every one of them shows; one whose offset did not move had nothing to read,
    perhaps, and shows nothing. At most what a typical one shows, the median.

    Args:
        pauses: of the partitions that stopped in it (others tell nothing of its length), each
            with how long, in ms, its owner had been dead before it was missed.

    Returns:
        None if none of them has commits on both sides.

    >>> length([(Pause(0, 1, "t", 0, 1_000, 6_000, 0, 1_000), NOTHING)])
    Bounds(low=3000, high=5000)
    """
    low: list[float] = []
    high: list[float] = []
    for one, dead in pauses:
        if one.pause_ms is not None:
            idle = one.advance == 0 and not one.rewind
            known = one.resolution_ms is not None and not idle
            sure = one.pause_ms - 2 * (one.resolution_ms or 0) if known else 0
            low.append(max(0, sure - dead.high))
            high.append(max(0, one.pause_ms - dead.low))
    return Bounds(min(*low, _median(high)), _median(high)) if high else None


def usual(lengths: Iterable[Bounds | None]) -> Bounds | None:
    """What a group's rebalances take as a rule: the medians of those that are known.

    >>> usual([Bounds(1, 2), None, Bounds(3, 8), Bounds(2, 9)])
    Bounds(low=2, high=8)
    """
    known = [one for one in lengths if one is not None]
    if not known:
        return None
    return Bounds(_median([one.low for one in known]), _median([one.high for one in known]))


def _median(values: Sequence[float]) -> float:
    """The lower one of two: no number that nobody saw."""
    return sorted(values)[(len(values) - 1) // 2]


def stopping(
    before: Int32Array, after: Int32Array, exists: NDArray[np.bool_], *, eager: bool
) -> Int32Array:
    """int32: dense numbers of the partitions that stop in one rebalance.

    Args:
        before: int32[P], who read each partition last; -1 nobody, -2 one who is gone.
        after: int32[P], who has it now; -1 nobody (yet).
        exists: bool[P].
        eager: everything that somebody read stops; otherwise only what changes hands. What is
            withheld for a second phase stops there: it is counted once, when it is handed over.

    >>> was, now = np.array([0, 0, -2, -1], np.int32), np.array([0, 1, 1, 1], np.int32)
    >>> [stopping(was, now, was < 9, eager=eager).tolist() for eager in (True, False)]
    [[0, 1, 2], [1, 2]]
    """
    read = (before != -1) & exists
    stops = read if eager else read & (after >= 0) & (after != before)
    return np.flatnonzero(stops).astype(np.int32)


def stopped(partitions: int, length_ms: Bounds | None) -> Bounds | None:
    """Partition-seconds: partitions times length; None where something of unknown length stops.

    >>> stopped(4, Bounds(500, 2_000)), stopped(0, None), stopped(1, None)
    (Bounds(low=2.0, high=8.0), Bounds(low=0, high=0), None)
    """
    if not partitions:
        return NOTHING
    return None if length_ms is None else length_ms.times(partitions / 1_000)


def silence(timeout_ms: int) -> Bounds:
    """How long a dead member is thought alive, in ms: a session timeout after its last heartbeat.

    It died somewhere between that heartbeat and the next one that it would have sent.

    >>> silence(6_000)
    Bounds(low=4000.0, high=6000)
    """
    return Bounds(timeout_ms - timeout_ms / _HEARTBEATS, timeout_ms)
