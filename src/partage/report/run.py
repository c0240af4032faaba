"""A published run as plain values: what the page and the terminal show, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any

from partage.statuses import RECORDED

__all__ = ["BadRecord", "Figures", "Group", "Run", "Step", "total"]


@dataclass(frozen=True, slots=True)
class Figures:
    """One strategy over some rebalances; sums, unless said otherwise.

    Attributes:
        strategy: its name, or `RECORDED`.
        rebalances: rebalances that it was asked about.
        done: of these, those that it answered.
        refused: those that it refused.
        failed: those in which it raised what no strategy should.
        missing: those for which Partage does not have the strategy yet.
        claimed: those in which the group had chosen it.
        moved: partitions that changed owner.
        avoidable: of these, moves that no equally even plan needs.
        proven: rebalances for which ``avoidable`` is known.
        even: rebalances with the best spread that there is.
        judged: rebalances for which the best spread is known.
        largest_spread: the largest; None if there is none.
        idle: members without a partition, who could have had one.
        rack_mismatches: partitions owned outside the racks of their replicas.
        incomplete: rebalances whose plan breaks a rule, a partition without owner included.
        counted: plans that were compared with the record, where that counts.
        agreed: of these, those that equal it.
    """

    strategy: str
    rebalances: int = 0
    done: int = 0
    refused: int = 0
    failed: int = 0
    missing: int = 0
    claimed: int = 0
    moved: int = 0
    avoidable: int = 0
    proven: int = 0
    even: int = 0
    judged: int = 0
    largest_spread: int | None = None
    idle: int = 0
    rack_mismatches: int = 0
    incomplete: int = 0
    counted: int = 0
    agreed: int = 0

    @property
    def comparable(self) -> bool:
        """Whether its sums may be held against others': every rebalance, every partition owned."""
        return self.done == self.rebalances > 0 and not self.incomplete

    @property
    def exists(self) -> bool:
        """Whether Partage has the strategy."""
        return self.missing < self.rebalances

    def __add__(self, other: Figures) -> Figures:
        spreads = [s for s in (self.largest_spread, other.largest_spread) if s is not None]
        sums = {
            one.name: getattr(self, one.name) + getattr(other, one.name)
            for one in fields(self)
            if one.name not in {"strategy", "largest_spread"}
        }
        return Figures(self.strategy, largest_spread=max(spreads, default=None), **sums)


def total(of: list[Figures]) -> Figures:
    """The sum of one strategy's figures.

    >>> total([Figures("fair", moved=2), Figures("fair", moved=3, largest_spread=1)]).moved
    5
    """
    return reduce(Figures.__add__, of)


@dataclass(frozen=True, slots=True)
class Cell:
    """One strategy on one rebalance; None where a figure does not exist."""

    status: str
    moved: int | None = None
    avoidable: int | None = None
    spread: int | None = None
    agrees: bool | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One rebalance of a group.

    Attributes:
        sort: what kind of cause: join, leave, change, again or empty.
        cells: strategy name -> its figures, `RECORDED` among them.
    """

    incarnation: int
    generation: int
    time_ms: int
    cause: str
    sort: str
    strategy: str | None
    members: int
    partitions: int
    gap_before: int
    why_not: str | None
    cells: Mapping[str, Cell]

    @property
    def moved(self) -> int:
        """Partitions that moved as recorded; 0 where that is not known."""
        recorded = self.cells.get(RECORDED)
        return (recorded.moved or 0) if recorded else 0

    @property
    def avoidable(self) -> int:
        """Moves as recorded that were avoidable; 0 where that is not known."""
        recorded = self.cells.get(RECORDED)
        return (recorded.avoidable or 0) if recorded else 0


@dataclass(frozen=True, slots=True)
class Group:
    """One group: its figures over all rebalances, and its newest rebalances one by one.

    Attributes:
        anchor: a name for links in a page.
        rebalances: how many the log has; ``steps`` may be fewer.
        most_members: members of its largest generation.
        figures: by strategy, `RECORDED` first; empty where nothing was replayed.
    """

    name: str
    anchor: str
    kind: str
    status: str
    why: str | None
    claimed: tuple[str, ...]
    clients: tuple[str, ...]
    records: int
    commits: int
    rebalances: int
    incarnations: int
    missing_generations: int
    most_members: int
    figures: Mapping[str, Figures]
    steps: tuple[Step, ...]

    @property
    def replayed(self) -> bool:
        """Whether any of its rebalances was replayed."""
        return bool(self.figures)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that could not be decoded: where, which part, why."""

    partition: int | None
    offset: int | None
    part: str
    why: str
    group: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """A published run.

    Attributes:
        summary: the content of ``summary.json``.
        groups: all groups of the log; those that rebalanced most come first.
        strategies: names in the order to show them, without `RECORDED`.
        figures: over all groups, by strategy.
        bad: the first of the records that could not be decoded.
    """

    summary: Mapping[str, Any]
    groups: tuple[Group, ...]
    strategies: tuple[str, ...]
    figures: Mapping[str, Figures]
    bad: tuple[BadRecord, ...]

    @property
    def replayed(self) -> tuple[Group, ...]:
        """Groups of which something was replayed."""
        return tuple(g for g in self.groups if g.replayed)

    @property
    def others(self) -> tuple[Group, ...]:
        """Groups that were not replayed."""
        return tuple(g for g in self.groups if not g.replayed)

    @property
    def failures(self) -> tuple[Mapping[str, Any], ...]:
        """The first failures of strategies: group, generation, strategy, why."""
        return tuple(self.summary.get("failures", ()))

    @property
    def recorded(self) -> Figures:
        """The record's own figures."""
        return self.figures.get(RECORDED, Figures(RECORDED))
