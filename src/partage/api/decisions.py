"""The public functions `assign` and `compare`.

Strategies, the judge and the solver meet here. The judge knows no strategy and verifies the
solver's claims without importing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, overload

from partage.errors import InvalidConfigError, PartageError, PluginFailedError, UnknownStrategyError
from partage.groups import registry
from partage.groups.subscriptions import (
    add_user_data,
    check_config,
    ineffective_config,
    missing_topics,
    with_leader_settings,
)
from partage.model import Assignment, Cluster, Group, Plan, Problem
from partage.model.arguments import check_argument_types
from partage.model.display import Picture, draw_histogram, html_table, pretty_print, text_table
from partage.model.validation import reject_text

# The judge and the solver are imported where they are used: a plan needs neither.
if TYPE_CHECKING:
    from partage import judge
    from partage.groups.api import Strategy

__all__ = [
    "Comparison",
    "ComparisonRow",
    "PlanWithWarnings",
    "allows_several_owners",
    "assign",
    "compare",
    "decide",
]  # fmt: skip


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
@check_argument_types
def assign(
    strategy: str | Strategy | Sequence[str],
    group: Group,
    cluster: Cluster,
    *,
    memory: object = None,
    config: Mapping[str, object] | None = None,
) -> Assignment:
    """Assign a cluster's partitions to the members of a consumer group by a named strategy.

    With a list of names, the first registered one is used. Members whose user data is missing get
    the data that their own client would send. The plan's ``warnings`` name these members, and
    subscribed topics that do not exist.

    Args:
        strategy: a name of `strategies`, a class name, ``package.module:Class``, or a strategy.
        group: the members of the consumer group.
        cluster: the topics and partitions of the Kafka cluster.
        memory: the strategy's state from the previous rebalance (``plan.memory``), if it keeps one.
        config: the strategy's settings; a member's own settings are in its ``config``.

    Returns:
        A `Plan`; for ``server:simple``, where a partition may have several owners, an
        `Assignment`.

    Raises:
        UnknownStrategyError: the registry has no such name.
        UnsupportedProblemError: the strategy is not applicable to the problem.
        PluginFailedError: a plug-in raised an exception, or returned no plan.
        InvalidConfigError: a setting is wrong or has no effect, or ``strategy`` is not a strategy.
        InvalidProblemError: ``group`` is not a `Group`, or ``cluster`` not a `Cluster`.
    """
    return decide(registry.load(strategy), group, cluster, memory=memory, config=config).plan


class PlanWithWarnings(NamedTuple):
    """Assignment that a strategy has made, together with warnings for the operator.

    `decide` returns it.

    Attributes:
        plan: the assignment; it has the same ``warnings``.
        warnings: warnings about the group and the cluster, then those of the strategy.
    """

    plan: Assignment
    warnings: tuple[str, ...]


def decide(
    strategy: Strategy,
    group: Group,
    cluster: Cluster,
    *,
    memory: object = None,
    config: Mapping[str, object] | None = None,
    sender: str | None = None,
    compared: bool = False,
) -> PlanWithWarnings:
    """Run a strategy on a consumer group; return its plan and warnings for the operator.

    Members without user data first get the data that their client would send.

    Args:
        strategy: the strategy to run.
        group: the members of the consumer group.
        cluster: the topics and partitions of the Kafka cluster.
        memory: the strategy's state from the previous rebalance, if it keeps one.
        config: the strategy's settings. With ``compared`` the caller checks that they have an
            effect.
        sender: name of the strategy whose clients sent the user data, if known.
        compared: whether several strategies are compared on this problem.

    Raises:
        PartageError: see `assign`.
    """
    Problem(group, cluster)  # the types of both
    leading = with_leader_settings(strategy, group)
    if config:
        if not compared:
            check_config([strategy], config)
        leading = leading.configure(config)
    with registry.plug_in_errors(strategy):
        joined = add_user_data(strategy, group, cluster, sender=sender, compared=compared)
    plan = registry.assign_with(leading, Problem(joined.group, cluster), memory)
    idle = () if compared else ineffective_config([strategy], group)
    warnings = (*missing_topics(group, cluster), *idle, *joined.warnings)
    plan = plan.with_warnings(warnings)
    return PlanWithWarnings(plan, plan.warnings)


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One strategy's result in a comparison: its plan and measures, or why it is not applicable.

    The command ``partage compare`` prints it as a row of its table.

    Attributes:
        strategy: name of the strategy.
        plan: its plan, None if the strategy is not applicable; for share groups an `Assignment`.
        measures: measured loads, moves and other values of the plan; None without a plan.
        breaches: rules that the plan breaks; empty if it is valid.
        refused: the reason why the strategy is not applicable; None if there is a plan.
        warnings: messages for the operator.
    """

    strategy: str
    plan: Assignment | None = None
    measures: judge.Measures | None = None
    breaches: tuple[judge.Breach, ...] = ()
    refused: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """True if the strategy returned an assignment that breaks none of Kafka's rules.

        An example of a rule is that a partition has only one owner.
        """
        return self.plan is not None and not self.breaches

    def loads(self) -> list[int]:
        """Return the number of partitions of each member, largest first.

        A cooperative plan is counted after its second rebalance, which completes the moves.
        """
        if self.plan is None:
            return []
        end = self.plan.settled() if isinstance(self.plan, Plan) else self.plan
        return sorted((len(end.partitions_of(i)) for i in range(len(end.members))), reverse=True)

    @property
    def standbys(self) -> dict[str, dict[str, list[int]]] | None:
        """Standby partitions of Faust's tables, as a dict from member to topic to partition
        numbers.

        None if the strategy is not one of Faust's, because only Faust places standbys.
        """
        return getattr(self.plan, "standbys", None)

    def count_standbys(self) -> int | None:
        """Return how many standby partitions of Faust's tables the plan places.

        None if the strategy is not one of Faust's, because only Faust places standbys.
        """
        held = self.standbys
        if held is None:
            return None
        return sum(len(numbers) for topics in held.values() for numbers in topics.values())

    def figures(self) -> tuple[str, ...]:
        """Return the cells of the comparison table that show the strategy's measures, as texts.

        There is one text for each column in `Comparison.COLUMNS`; "-" stands for a missing value.
        If the strategy is not applicable, the first text says so.
        """
        m = self.measures
        if m is None:
            return ("not applicable", *("-" for _ in Comparison.COLUMNS[1:]))
        together = "-" if m.colocation is None else f"{m.colocation:.0%}"
        values = (m.spread, m.idle, m.moved, m.avoidable, m.rack_mismatches)
        shown = ("-" if v is None else str(v) for v in values)
        return ("yes" if self.valid else "no", *shown, together)


class Comparison(Sequence[ComparisonRow]):
    """Results of running several assignment strategies on the same problem; `compare` returns it.

    It is a sequence of `ComparisonRow` objects, one for each strategy. ``comparison[0]`` and
    ``comparison["range"]`` both work.
    """

    COLUMNS = ("valid", "spread", "idle", "moved", "avoidable", "rack mismatches", "co-location")

    def __init__(self, rows: Sequence[ComparisonRow]) -> None:
        self.rows = tuple(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[ComparisonRow]:
        return iter(self.rows)

    def __getitem__(self, key: int | slice | str) -> ComparisonRow:  # type: ignore[override]  # by name too
        if isinstance(key, str):
            found = [row for row in self.rows if row.strategy == key]
            if not found:
                raise KeyError(key)
            return found[0]
        return self.rows[key]  # type: ignore[return-value]  # a slice gives a tuple

    @property
    def measures(self) -> dict[str, judge.Measures]:
        """Measures of each strategy's plan, as a dict by strategy name.

        Strategies without a plan are left out.
        """
        return {row.strategy: row.measures for row in self.rows if row.measures is not None}

    @property
    def best(self) -> judge.Measures | None:
        """Measures of one strategy, from which the best possible loads and moves can be read.

        The most even loads and the fewest moves that any assignment can have are the same for all
        strategies, so the first strategy with a plan is used. None if no strategy has a plan.
        """
        return next(iter(self.measures.values()), None)

    def __repr__(self) -> str:
        head = ("strategy", *self._columns())
        rows = [(row.strategy, *self._cells(row)) for row in self.rows]
        table = text_table([head, *rows], left_columns=2)
        return "\n".join([table, *self._refusals()])

    _repr_pretty_ = pretty_print

    def _repr_html_(self) -> str:
        """Return an HTML table with each strategy's measures and a histogram of its members' loads.

        Jupyter calls this method to display a comparison.
        """
        rows: list[tuple[str | int | Picture, ...]] = [
            (row.strategy, *self._cells(row), draw_histogram(row.loads())) for row in self.rows
        ]
        title = f"Comparison: {len(self)} strategies"
        columns = ("strategy", *self._columns(), "partitions by member")
        return html_table(title, columns, rows, self._refusals())

    def _columns(self) -> tuple[str, ...]:
        # Only Faust's strategies place standbys.
        shown = any(row.standbys is not None for row in self.rows)
        return (*self.COLUMNS, "standbys") if shown else self.COLUMNS

    def _cells(self, row: ComparisonRow) -> tuple[str, ...]:
        if len(self._columns()) == len(self.COLUMNS):
            return row.figures()
        many = row.count_standbys()
        return (*row.figures(), "-" if many is None else str(many))

    def _refusals(self) -> list[str]:
        return [
            f"{row.strategy} is not applicable: {row.refused}" for row in self.rows if row.refused
        ]


@check_argument_types
def compare(
    group: Group,
    cluster: Cluster,
    *,
    strategies: Sequence[str | Strategy] | None = None,
    previous: Assignment | None = None,
    config: Mapping[str, object] | None = None,
    optimum: bool = True,
    sender: str | None = None,
) -> Comparison:
    """Run several strategies on the same group and cluster; return each plan and its measures.

    All strategies start from the same owned partitions. If a strategy is not applicable, its row
    has the reason.

    Args:
        group: the members, with the partitions that each reports as owned.
        cluster: the topics and partitions of the Kafka cluster.
        strategies: names or strategies; None for all registered ones except those of share groups
            and variants of other clients.
        previous: the previous assignment; None to take it from the members' reports.
        config: settings by name; each strategy uses those that it knows.
        optimum: whether to find the best plan and the avoidable moves, as `measure` does.
        sender: name of the strategy whose clients sent the user data; None detects it.

    Raises:
        UnknownStrategyError: a name does not exist.
        InvalidConfigError: ``strategies`` is no list, a setting has no effect on any strategy, or a
            setting has a wrong value.

    >>> import partage as pg
    >>> group = pg.Group([pg.Member("c1", ["t"]), pg.Member("c2", ["t"])])
    >>> found = pg.compare(group, pg.Cluster.from_topics({"t": 3}), strategies=["range", "fair"])
    >>> [(row.strategy, row.valid, row.measures.spread) for row in found]
    [('range', True, 1), ('fair', True, 1)]
    """
    from partage import judge
    from partage.api.measures import ProblemMeasurement, measure

    reject_text(strategies, "strategies")
    if strategies is not None and not isinstance(strategies, Iterable):
        raise InvalidConfigError("strategies", "must be a list of names or strategies", strategies)
    Problem(group, cluster)  # the types of both
    candidates = _find_strategies(
        registry.strategies_to_compare() if strategies is None else strategies
    )
    working = [one for _, one in candidates if not isinstance(one, PartageError)]
    idle = ineffective_config(working, group)
    if config:
        check_config(working, config)
        for strategy in working:
            if not registry.is_plug_in(strategy):
                strategy.configure(config)  # a malformed value is an error, no refused problem
    best = ProblemMeasurement(group, cluster, previous=previous)
    rows = []
    for name, one in candidates:
        if isinstance(one, PartageError):
            rows.append(ComparisonRow(name, refused=str(one)))
            continue
        shared = allows_several_owners(one)
        if shared and strategies is None:
            continue
        try:
            made = decide(one, group, cluster, config=config, sender=sender, compared=True)
        except PluginFailedError as e:
            rows.append(ComparisonRow(name, refused=f"the plug-in failed ({e.reason})"))
            continue
        except PartageError as e:
            rows.append(ComparisonRow(name, refused=str(e)))
            continue
        # A cooperative plan is measured after its follow-up: the first plan is uneven by design.
        end = made.plan.settled() if isinstance(made.plan, Plan) else made.plan
        if optimum and not shared:
            figures = best.measure_plan(end)
        else:
            figures = measure(end, group, cluster, previous=previous, optimum=False)
        breaches = tuple(judge.check(made.plan, group, cluster, several_owners=shared))
        rows.append(
            ComparisonRow(name, made.plan, figures, breaches, warnings=(*idle, *made.warnings))
        )
    return Comparison(rows)


def _find_strategies(
    strategies: Sequence[str | Strategy],
) -> list[tuple[str, Strategy | PartageError]]:
    """Look up assignment strategies by name.

    The result is a list of (name, strategy) pairs in the given order. If a plug-in fails to load,
    its pair has the error instead of the strategy.

    Args:
        strategies: names, or strategies that need no look-up.

    Raises:
        UnknownStrategyError: a name does not exist.
        InvalidConfigError: an item is neither a name nor a strategy.
    """
    found: list[tuple[str, Strategy | PartageError]] = []
    for item in strategies:
        if not isinstance(item, str):
            strategy = registry.load(item)
            found.append((strategy.name, strategy))
            continue
        for name in registry.split_names(item):
            try:
                found.append((name, registry.load(name)))
            except UnknownStrategyError:
                raise
            except PartageError as e:
                found.append((name, e))
    return found


def allows_several_owners(strategy: Strategy) -> bool:
    """Return whether a strategy may assign a partition to several members at once.

    Only strategies for share groups (KIP-932) do.

    >>> allows_several_owners(registry.find("range"))
    False
    """
    return bool(getattr(strategy, "several_owners", False))
