"""How fast a client's copies come closer to their tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Copy", "fair_shares", "millis_until_caught_up", "shared_out"]

#: Records; less than that is a rounding of floating point numbers.
NOTHING = 1e-6


@dataclass
class Copy:
    """State of a task on a client.

    Attributes:
        position: records of the changelog that it has.
        record_bytes: of a record.
        writes: records a second by which its changelog grows now; 0 while no active runs.
        active: whether it is to run the task; such copies come before all standbys.
        lag: records that it lacks now.
        rate: bytes a second that it gets now.
    """

    position: float
    record_bytes: int
    writes: float = 0.0
    active: bool = False
    lag: float = 0.0
    rate: float = 0.0

    @property
    def behind(self) -> bool:
        """Whether it lacks anything."""
        return self.lag > NOTHING


def shared_out(copies: Iterable[Copy], bandwidth: float) -> None:
    """Set the rate of each copy on one client.

    Actives that restore have all of the bandwidth, in equal parts; standbys pause meanwhile,
    as in Kafka's state updater. Without any, standbys that are behind take what there is in
    equal parts, those that have caught up no more than what is written.

    Args:
        copies: restoring actives and all standbys of a client.
        bandwidth: bytes a second of the client.

    >>> behind, even = Copy(0, 100, lag=50), Copy(0, 100, writes=2.0)
    >>> shared_out([behind, even], 1000.0)
    >>> behind.rate, even.rate
    (800.0, 200.0)
    """
    every = list(copies)
    restoring = [one for one in every if one.active]
    for one in every:
        one.rate = 0.0
    if restoring:
        for one in restoring:
            one.rate = bandwidth / len(restoring)
        return
    wanted = [bandwidth if one.behind else one.writes * one.record_bytes for one in every]
    for one, share in zip(every, fair_shares(wanted, bandwidth), strict=True):
        one.rate = share


def fair_shares(wanted: Sequence[float], total: float) -> list[float]:
    """Equal parts of a total, but for nobody more than it wants (max-min fairness).

    >>> fair_shares([1.0, 8.0, 8.0], 10.0)
    [1.0, 4.5, 4.5]
    """
    shares = [0.0] * len(wanted)
    left = total
    for done, place in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        shares[place] = min(wanted[place], left / (len(wanted) - done))
        left -= shares[place]
    return shares


def millis_until_caught_up(copy: Copy) -> float | None:
    """Milliseconds until a copy that is behind lacks nothing, None if it never will like this.

    >>> millis_until_caught_up(Copy(0, 100, writes=10, lag=90, rate=2000))
    9000.0
    """
    gain = copy.rate / copy.record_bytes - copy.writes
    if not copy.behind or gain <= NOTHING:
        return None
    return copy.lag / gain * 1000
