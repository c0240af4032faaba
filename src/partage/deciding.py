"""The public verbs on one problem: assign, measure, compare.

The one place where strategies, the judge and the solver meet: the judge knows no
strategy, and verifies what the solver claims without importing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, overload

from partage.errors import PartageError, UnknownStrategyError
from partage.groups import registry
from partage.model import Assignment, Cluster, Group, Plan, Problem

# The judge and the solver are imported by who asks them: a plan needs neither.
if TYPE_CHECKING:
    from partage import judge
    from partage.groups.api import Strategy

__all__ = ["Compared", "Comparison", "assign", "compare", "is_foreign", "several_owners"]


@overload
def assign(  # type: ignore[overload-overlap]  # a str variable may name it too: see Returns
    strategy: Literal["server:simple"],
    group: Group,
    cluster: Cluster,
    *,
    memory: object = None,
    config: Mapping[str, object] | None = None,
) -> Assignment: ...
@overload
def assign(
    strategy: str | Strategy | Sequence[str],
    group: Group,
    cluster: Cluster,
    *,
    memory: object = None,
    config: Mapping[str, object] | None = None,
) -> Plan: ...
def assign(
    strategy: str | Strategy | Sequence[str],
    group: Group,
    cluster: Cluster,
    *,
    memory: object = None,
    config: Mapping[str, object] | None = None,
) -> Assignment:
    """The plan of a strategy: a name of `strategies`, a Java class name, or a strategy.

    A list of names is taken in order of preference: the first that exists decides.

    Returns:
        A `Plan`; of ``server:simple``, where a partition may have several owners, an
        `Assignment`, however it was named.

    Raises:
        UnknownStrategyError: the registry has no such name.
        UnsupportedProblemError: the strategy refuses this problem.
        InvalidConfigError: a setting of the strategy is wrong.
    """
    chosen = registry.find(strategy)
    if config is not None:
        chosen = chosen.configure(config)
    return chosen.assign(Problem(group, cluster), memory)


@dataclass(frozen=True, slots=True)
class Compared:
    """One strategy's answer to the problem of a `Comparison`.

    Attributes:
        strategy: its name.
        plan: its plan, None if it refused; of share groups an Assignment only.
        measures: the judge's figures of the plan, None if it refused.
        breaches: rules that the plan breaks; empty when it is valid.
        refused: why there is no plan.
    """

    strategy: str
    plan: Assignment | None = None
    measures: judge.Measures | None = None
    breaches: tuple[judge.Breach, ...] = ()
    refused: str | None = None

    @property
    def valid(self) -> bool:
        """Whether there is a plan, and it breaks no rule."""
        return self.plan is not None and not self.breaches

    def figures(self) -> tuple[str, ...]:
        """The figures of `Comparison.COLUMNS`, as text; a dash where there is none."""
        m = self.measures
        if m is None:
            return ("refused", *("-" for _ in Comparison.COLUMNS[1:]))
        together = "-" if m.colocation is None else f"{m.colocation:.0%}"
        values = (m.spread, m.idle, m.moved, m.avoidable, m.rack_mismatches)
        shown = ("-" if v is None else str(v) for v in values)
        return ("yes" if self.valid else "no", *shown, together)


class Comparison(Sequence[Compared]):
    """Every strategy on one problem: a row each, by position or by strategy name.

    `measures` are by name too, without the strategies that refused.
    """

    COLUMNS = ("valid", "spread", "idle", "moved", "avoidable", "rack mismatches", "co-location")

    def __init__(self, rows: Sequence[Compared]) -> None:
        self.rows = tuple(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Compared]:
        return iter(self.rows)

    def __getitem__(self, which: int | slice | str) -> Compared:  # type: ignore[override]  # by name too
        if isinstance(which, str):
            found = [row for row in self.rows if row.strategy == which]
            if not found:
                raise KeyError(which)
            return found[0]
        return self.rows[which]  # type: ignore[return-value]  # a slice is for those who want one

    @property
    def measures(self) -> dict[str, judge.Measures]:
        """Figures by strategy name."""
        return {row.strategy: row.measures for row in self.rows if row.measures is not None}

    @property
    def best(self) -> judge.Measures | None:
        """Any row's figures: the best loads and the fewest moves are the problem's own."""
        return next(iter(self.measures.values()), None)

    def __repr__(self) -> str:
        head = ("strategy", *self.COLUMNS)
        table = [head, *((row.strategy, *row.figures()) for row in self.rows)]
        wide = [max(len(line[i]) for line in table) for i in range(len(head))]
        lines = [
            "  ".join(
                text.ljust(width) if i < 2 else text.rjust(width)
                for i, (text, width) in enumerate(zip(line, wide, strict=True))
            )
            for line in table
        ]
        lines += [f"{row.strategy} refused: {row.refused}" for row in self.rows if row.refused]
        return "\n".join(line.rstrip() for line in lines)


def compare(
    group: Group,
    cluster: Cluster,
    *,
    strategies: Sequence[str | Strategy] | None = None,
    previous: Assignment | None = None,
    config: Mapping[str, object] | None = None,
    optimum: bool = True,
) -> Comparison:
    """Every strategy on the same problem; one that refuses is a row that says why.

    The same problem is the same ownership: where members say what they own and send no user
    data, each strategy gets what its own members would send then (`assign` takes them as they
    are, and Kafka's sticky reads nothing but user data).

    Args:
        group: the members, with what they claim to own.
        cluster: the partitions.
        strategies: names or strategies; None takes every one of the registry but dialects,
            and those that give a partition to several members (share groups), which answer
            another question.
        previous: what was owned before, where that is known better than by the claims.
        config: settings for all of them; each takes its own.
        optimum: also find the best plan and the avoidable moves, as `measure` does.

    Raises:
        UnknownStrategyError: one of the names does not exist.

    >>> import partage as pg
    >>> group = pg.Group([pg.Member("c1", ["t"]), pg.Member("c2", ["t"])])
    >>> found = pg.compare(group, pg.Cluster.from_topics({"t": 3}), strategies=["range", "fair"])
    >>> [(row.strategy, row.valid, row.measures.spread) for row in found]
    [('range', True, 1), ('fair', True, 1)]
    """
    from partage import judge
    from partage.groups.rounds import rejoining
    from partage.measuring import Alike, measure

    best = Alike(group, cluster, previous=previous)
    names = registry.contestants() if strategies is None else strategies
    rows = []
    for one in names:
        name = one if isinstance(one, str) else one.name
        try:
            chosen = registry.find(one)
        except UnknownStrategyError:
            raise
        except PartageError as e:
            rows.append(Compared(name, refused=str(e)))
            continue
        try:
            shared = several_owners(chosen)
            if shared and strategies is None:
                continue
            sent = rejoining(chosen, group, cluster)
            plan: Assignment = assign(chosen, sent, cluster, config=config)
        except PartageError as e:
            rows.append(Compared(name, refused=str(e)))
            continue
        except Exception as e:
            if not is_foreign(chosen):
                raise
            rows.append(Compared(name, refused=f"the plug-in failed ({type(e).__name__}: {e})"))
            continue
        # Of a cooperative plan the end is measured: its first phase is uneven on purpose.
        end = plan.settled() if isinstance(plan, Plan) else plan
        if optimum and not shared:
            figures = best.measure(end)
        else:
            figures = measure(end, group, cluster, previous=previous, optimum=False)
        breaches = tuple(judge.check(plan, group, cluster, several_owners=shared))
        rows.append(Compared(name, plan, figures, breaches))
    return Comparison(rows)


def several_owners(strategy: Strategy) -> bool:
    """Whether it gives a partition to several members, as share groups want it (KIP-932).

    >>> several_owners(registry.find("range"))
    False
    """
    return bool(getattr(strategy, "several_owners", False))


def is_foreign(strategy: Strategy) -> bool:
    """Whether it is somebody else's code, which may raise anything.

    >>> is_foreign(registry.find("range"))
    False
    """
    return type(strategy).__module__.partition(".")[0] != "partage"
