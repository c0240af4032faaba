"""One rebalance under one policy: what it was like, in figures; a row of table ``replays``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from partage.model import Assignment, Cluster, Group
from partage.simulation.loads import Weights

__all__ = ["NOTHING", "Bounds", "Lived", "Measured", "Measurer"]


class Bounds(NamedTuple):
    """What is known of a figure that was not measured: at least and at most.

    >>> Bounds(1, 2) + Bounds(3, 4), Bounds(1, 2).times(3)
    (Bounds(low=4, high=6), Bounds(low=3, high=6))
    """

    low: float
    high: float

    def __add__(self, other: object) -> Bounds:
        if not isinstance(other, Bounds):
            return NotImplemented
        return Bounds(self.low + other.low, self.high + other.high)

    def times(self, factor: float) -> Bounds:
        """Both by a number that is not negative."""
        return Bounds(self.low * factor, self.high * factor)


NOTHING = Bounds(0, 0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What the judge says about a plan; columns of table ``replays``."""

    spread: int | None = None
    idle: int | None = None
    moved: int | None = None
    avoidable: int | None = None
    best_spread: int | None = None
    rack_mismatches: int | None = None
    colocation: float | None = None
    breaches: int | None = None
    load_spread: float | None = None


class Measurer(Protocol):
    """(plan, group with what was owned before, cluster, weights) -> what the judge says."""

    def __call__(
        self, plan: Assignment, group: Group, cluster: Cluster, weights: Weights = None
    ) -> Measured:
        """The figures; weights are float64[P], records a second, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Lived:
    """One row; docs/policies.md defines every figure.

    Attributes:
        stopped: partition-seconds in which nobody read; None where no commit tells.
        reread: records read twice; None where no commit tells.
        plan: the plan, written down as JSON only when a table wants it.
    """

    incarnation: int
    generation: int
    policy: str
    strategy: str
    protocol: str
    reading: str
    time_ms: int
    status: str
    step: int = 0
    caused: bool = True
    claimed: bool = False
    agrees: bool | None = None
    counts: bool = False
    judged_by: str | None = None
    detail: str | None = None
    partitions: int | None = None
    members: int | None = None
    measured: Measured = field(default_factory=Measured)
    stopped: Bounds | None = None
    reread: Bounds | None = None
    changed: int | None = None
    plan: str | None = None

    def row(self) -> dict[str, Any]:
        """The columns of table ``replays``, without run and group."""
        same = (
            "incarnation", "generation", "policy", "strategy", "protocol", "reading", "step",
            "caused", "time_ms", "status", "claimed", "agrees", "counts", "judged_by", "detail",
            "partitions", "members", "changed", "plan",
        )  # fmt: skip
        judged = (
            "spread", "best_spread", "idle", "moved", "avoidable", "rack_mismatches",
            "colocation", "breaches", "load_spread",
        )  # fmt: skip
        row: dict[str, Any] = {name: getattr(self, name) for name in same}
        row |= {name: getattr(self.measured, name) for name in judged}
        stopped, reread = self.stopped or (None, None), self.reread
        row["stopped_low_ps"], row["stopped_high_ps"] = stopped
        row["reread_low"] = None if reread is None else int(reread.low)
        row["reread_high"] = None if reread is None else int(reread.high)
        return row
