"""A published run as plain values: what page, terminal and JSON show, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any

from partage.tables.statuses import FAILED, RECORDED

__all__ = [
    "POOR_COVERAGE",
    "BadRecord",
    "CauseShare",
    "FigureRange",
    "Figures",
    "GroupFigures",
    "Run",
    "Traits",
    "total",
]  # fmt: skip


#: Below this share of the known rebalances, the log cannot tell what rebalances cost.
POOR_COVERAGE = 0.9


@dataclass(frozen=True, slots=True)
class FigureRange:
    """A figure that is known by its bounds only; partition-seconds unless said otherwise.

    >>> Range(1.0, 2.0) + Range(0.5, 4.0)
    Range(low=1.5, high=6.0)
    """

    low: float
    high: float

    def __add__(self, other: FigureRange) -> FigureRange:
        return FigureRange(self.low + other.low, self.high + other.high)


@dataclass(frozen=True, slots=True)
class Figures:
    """One policy over some rebalances in one reading; sums, unless said otherwise.

    Attributes:
        policy: its name, or `RECORDED`.
        reading: recorded, per_rebalance or cumulative.
        rows: answers that it was asked for: rebalances, and the follow-ups it made itself.
        done, refused, failed, missing: of these, how many ended how.
        spared: rebalances that do not happen under this policy.
        claimed: answers where the group had chosen its strategy.
        moved: partitions that changed owner.
        avoidable: of these, moves that no equally even plan needs.
        proven: answers for which ``avoidable`` is known.
        even: answers with the best spread that there is.
        judged: answers for which the best spread is known.
        largest_spread: the largest; None if there is none.
        idle: members without a partition, who could have had one.
        rack_mismatches: partitions owned outside the racks of their replicas.
        incomplete: answers whose plan breaks a rule, a partition without owner included.
        counted, agreed: plans compared with the record where that counts, and those equal.
        timed: answers for which the time stopped is known.
        stopped_low, stopped_high: partition-seconds in which nobody read, at least and at most.
        reread_known, reread_low, reread_high: records read twice, likewise.
        compared: rebalances whose cost is known in the record and under this policy.
        saved_low, saved_high: partition-seconds less than recorded in these; may be negative.
        gain_known: rebalances whose cost is known under the policy `own` and under this one.
        gain_low, gain_high: partition-seconds less than under `own` in these; may be negative.
        load_known, load_spread: answers with a known load spread, and its sum (records/s).
        colocation_known, colocation: likewise for the share of equal numbers with one owner.
    """

    policy: str
    reading: str = RECORDED
    rows: int = 0
    done: int = 0
    refused: int = 0
    failed: int = 0
    missing: int = 0
    spared: int = 0
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
    timed: int = 0
    stopped_low: float = 0.0
    stopped_high: float = 0.0
    reread_known: int = 0
    reread_low: int = 0
    reread_high: int = 0
    compared: int = 0
    saved_low: float = 0.0
    saved_high: float = 0.0
    gain_known: int = 0
    gain_low: float = 0.0
    gain_high: float = 0.0
    load_known: int = 0
    load_spread: float = 0.0
    colocation_known: int = 0
    colocation: float = 0.0

    @property
    def happened(self) -> int:
        """Rebalances that happen under this policy, its own follow-ups included."""
        return self.rows - self.spared

    @property
    def comparable(self) -> bool:
        """Whether its sums may be held against others': every rebalance, every partition owned."""
        return self.done == self.rows > 0 and not self.incomplete

    @property
    def exists(self) -> bool:
        """Whether Partage has the strategy."""
        return self.missing < self.rows

    @property
    def stopped(self) -> FigureRange | None:
        """Partition-seconds stopped; None where no rebalance tells."""
        return FigureRange(self.stopped_low, self.stopped_high) if self.timed else None

    @property
    def reread(self) -> FigureRange | None:
        """Records read twice; None where no rebalance tells."""
        return FigureRange(self.reread_low, self.reread_high) if self.reread_known else None

    @property
    def saved(self) -> FigureRange | None:
        """What this policy would have saved; None where costs are not known on both sides."""
        return FigureRange(self.saved_low, self.saved_high) if self.compared else None

    @property
    def gain(self) -> FigureRange | None:
        """Time lost under `own` minus that under this policy; None where one is not known."""
        return FigureRange(self.gain_low, self.gain_high) if self.gain_known else None

    def __add__(self, other: Figures) -> Figures:
        spreads = [s for s in (self.largest_spread, other.largest_spread) if s is not None]
        sums = {
            one.name: getattr(self, one.name) + getattr(other, one.name)
            for one in fields(self)
            if one.name not in {"policy", "reading", "largest_spread"}
        }
        return Figures(self.policy, self.reading, largest_spread=max(spreads, default=None), **sums)


def total(of: Iterable[Figures]) -> Figures:
    """The sum of one policy's figures.

    >>> total([Figures("fair", moved=2), Figures("fair", moved=3, largest_spread=1)]).moved
    5
    """
    return reduce(Figures.__add__, of)


@dataclass(frozen=True, slots=True)
class CauseShare:
    """What one kind of cause did to a group, or to all.

    Attributes:
        kind: one of the causes of table ``rebalances``.
        rebalances: how many it caused.
        recorded: of these, where a record says so; of the others it is inferred.
        timed: of these, whose time stopped is known.
        low, high: partition-seconds stopped.
    """

    kind: str
    rebalances: int
    recorded: int = 0
    timed: int = 0
    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: CauseShare) -> CauseShare:
        return CauseShare(
            self.kind,
            self.rebalances + other.rebalances,
            self.recorded + other.recorded,
            self.timed + other.timed,
            self.low + other.low,
            self.high + other.high,
        )


@dataclass(frozen=True, slots=True)
class Traits:
    """What advice asks about a group; None: not known.

    Attributes:
        protocol: classic, consumer, share or streams, of its newest rebalance.
        session_ms: the longest session timeout of its members; of members that send none, the
            broker's.
        returned: members that were put out for their silence and came back soon after.
        longest_silence_ms: how long the longest of these had been silent, about.
        judged, agreed: recorded plans that were compared with what the rule decides.
        dynamic_members: most members without ``group.instance.id`` in one rebalance.
        copartitioned: whether two of its topics have as many partitions: they may be joined.
        storms: how many storms of rebalances.
        stormy: rebalances in storms.
        triggers: cause of the first rebalance of each storm -> how many storms.
        late_polls: members without commits for max.poll.interval.ms that left and joined again.
        crowded: rebalances after which there were more members than partitions given.
        settled: rebalances with members that were no follow-ups.
    """

    protocol: str = "classic"
    session_ms: int | None = None
    returned: int = 0
    longest_silence_ms: int | None = None
    judged: int = 0
    agreed: int = 0
    dynamic_members: int | None = None
    copartitioned: bool | None = None
    storms: int | None = None
    stormy: int = 0
    triggers: tuple[tuple[str, int], ...] = ()
    late_polls: int = 0
    crowded: int = 0
    settled: int = 0


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """One group: its figures over all rebalances.

    Attributes:
        anchor: a name for links in a page.
        rebalances: how many the log has.
        coverage: recorded generations by known ones; None if none is known.
        members_max: members of its largest generation.
        partitions_max: partitions of its largest assignment; None if not known.
        figures: by policy, `RECORDED` among them; empty where nothing was replayed. A policy
            lives with its own past where the run has that reading, else from the record.
        per_rebalance: the other reading: each rebalance from what the record says was owned.
        causes: those that stopped most come first.
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
    coverage: float | None
    members_max: int
    partitions_max: int | None
    figures: Mapping[str, Figures]
    per_rebalance: Mapping[str, Figures]
    causes: tuple[CauseShare, ...]
    traits: Traits

    @property
    def replayed(self) -> bool:
        """Whether any of its rebalances was replayed."""
        return bool(self.figures)

    @property
    def recorded(self) -> Figures:
        """The record's own figures."""
        return self.figures.get(RECORDED, Figures(RECORDED))

    @property
    def covered(self) -> bool:
        """Whether the log has enough of the group's known rebalances to tell what they cost."""
        return self.coverage is None or self.coverage >= POOR_COVERAGE

    @property
    def lost(self) -> FigureRange | None:
        """Partition-seconds in which nobody read, as recorded; None where nothing tells.

        No loss in a few of many rebalances does not tell that there was none.
        """
        stopped = self.recorded.stopped
        return None if stopped is not None and not stopped.high and not self.covered else stopped

    @property
    def strategy(self) -> str:
        """The strategy that it chose last, or nothing."""
        return self.claimed[-1] if self.claimed else ""


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
        groups: all groups of the log; those that lost most come first.
        policies: names in the order to show them, without `RECORDED`.
        figures: over all groups, by policy.
        per_rebalance: the same in the other reading.
        causes: over all groups; those that stopped most come first.
        bad: the first of the records that could not be decoded.
    """

    summary: Mapping[str, Any]
    groups: tuple[GroupFigures, ...]
    policies: tuple[str, ...]
    figures: Mapping[str, Figures]
    per_rebalance: Mapping[str, Figures]
    causes: tuple[CauseShare, ...]
    bad: tuple[BadRecord, ...]

    @property
    def replayed(self) -> tuple[GroupFigures, ...]:
        """Groups of which something was replayed."""
        return tuple(g for g in self.groups if g.replayed)

    @property
    def others(self) -> tuple[GroupFigures, ...]:
        """Groups that were not replayed."""
        return tuple(g for g in self.groups if not g.replayed)

    @property
    def failed(self) -> tuple[GroupFigures, ...]:
        """Groups in which an unforeseen exception was raised."""
        return tuple(g for g in self.groups if g.status == FAILED)

    @property
    def failures(self) -> tuple[Mapping[str, Any], ...]:
        """The first failures of strategies: group, generation, strategy, why."""
        return tuple(self.summary.get("failures", ()))

    @property
    def recorded(self) -> Figures:
        """The record's own figures."""
        return self.figures.get(RECORDED, Figures(RECORDED))

    @property
    def in_log(self) -> int:
        """Rebalances that the log has."""
        return int(self.summary.get("coverage", {}).get("rebalances", 0))

    @property
    def known(self) -> int:
        """Rebalances that are known to have happened, by the numbers of generations."""
        cover = self.summary.get("coverage", {})
        return (
            self.in_log + int(cover.get("missing_before", 0)) + int(cover.get("missing_within", 0))
        )

    @property
    def covered(self) -> bool:
        """Whether the log has enough of the known rebalances to tell what they cost."""
        return self.in_log >= POOR_COVERAGE * self.known

    @property
    def lost(self) -> FigureRange | None:
        """Partition-seconds in which nobody read, as recorded; None where nothing tells."""
        stopped = self.recorded.stopped
        return None if stopped is not None and not stopped.high and not self.covered else stopped
