"""The metrics table: declares each metric of a simulated rebalance once.

One row of `METRICS` gives a figure's name, type, unit, aggregation, label and help text, and tells
which direction is better. From it come the columns of table ``replays`` (`partage.tables.schemas`),
their sums (`partage.tables.sums`), ``summary.json``, the report's JSON document, the columns of its
HTML and terminal tables, and the glossary. A new figure is one row here and one function in the
judge or the simulation that computes its column.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Literal, NamedTuple

from partage.tables.statuses import DONE, FAILED, NOT_YET, RECORDED, REFUSED

__all__ = [
    "BY_NAME", "METRICS", "OWN", "REPLAY_COLUMNS", "SHOWN", "Aggregation", "Column", "Condition",
    "Metric", "OutputLevel",
]  # fmt: skip

#: Policy that simulates a group with the settings that it ran with.
OWN = "own"

#: Name, type and meaning of a table column; a type that ends in "?" is nullable.
Column = tuple[str, str, str]


class Aggregation(Enum):
    """Ways to combine a metric's values in several rebalances into one, such as sum or mean.

    A report shows one number per consumer group and policy. For example, moved partitions are
    summed over all rebalances, and the spread of load over members is averaged.
    """

    #: Number of rows that meet all conditions.
    COUNT = "count"
    #: Sum of a column; null counts as 0.
    SUM = "sum"
    #: Largest value of a column.
    MAXIMUM = "maximum"
    #: Mean of a column over the rows that have a value.
    MEAN = "mean"
    #: Sums of a lower and an upper bound, over the rows that have both.
    INTERVAL = "interval sum"
    #: Sum of best estimates with a common 80 % interval, over the rows that have an estimate.
    ESTIMATE = "estimate sum"
    #: Sum over rebalances of another policy's bounds minus this policy's.
    DIFFERENCE = "interval sum of differences"
    #: Quotient of two other metrics.
    RATIO = "ratio"


class Condition(NamedTuple):
    """Condition on the value of a table column, such as ``moved above 0``.

    A metric that counts rebalances counts the rows that meet its conditions. A null value meets
    only ``is not``.

    Attributes:
        column: name of the column.
        test: comparison: ``is``, ``is not`` and ``above`` compare with ``operand``; ``is known``
            means not null; ``equals`` compares with the column that ``operand`` names.
        operand: value or column name; unused by ``is known``.
    """

    column: str
    test: Literal["is", "is not", "is known", "above", "equals"]
    operand: str | int | bool | None = None


class OutputLevel(IntEnum):
    """Parts of a report that can show a metric: JSON, group page, overview page or terminal.

    The levels are ordered: a metric of one level is shown at all earlier levels, too. For example,
    a metric of level `PAGE` is also in the JSON document.
    """

    #: JSON only.
    DATA = 0
    #: The page's table of one group.
    GROUP = 1
    #: The page's table of all groups.
    PAGE = 2
    #: The terminal.
    TERMINAL = 3


@dataclass(frozen=True, slots=True)
class Metric:
    """Declaration of one metric of simulated rebalances, such as moved partitions or downtime.

    It says from which table columns the metric is computed, how values of several rebalances are
    combined, and with which label and unit a report shows it.

    Attributes:
        name: identifier in code, JSON and templates.
        aggregation: how values of several rebalances become one.
        columns: columns of table ``replays`` (simulated rebalances) that this metric declares; a
            metric with aggregation `INTERVAL` has its lower bound first, one with `ESTIMATE` its
            best estimate, then the 10th and the 90th percentile. Several metrics may read a column,
            one declares it.
        source: names of the columns that are aggregated, or of the two metrics of a `RATIO`, or of
            the policy of a `DIFFERENCE`; the declared columns if empty.
        where: conditions of a `COUNT`.
        unit: unit of the value, as in names of JSON fields.
        better: direction of improvement; empty if neither is better.
        label: heading of table columns; a soft hyphen marks where it may break.
        help: definition for tooltips and the glossary.
        shown: most prominent output that shows it.
    """

    name: str
    aggregation: Aggregation
    columns: tuple[Column, ...] = ()
    source: tuple[str, ...] = ()
    where: tuple[Condition, ...] = ()
    unit: str = ""
    better: Literal["lower", "higher", ""] = ""
    label: str = ""
    help: str = ""
    shown: OutputLevel = OutputLevel.DATA

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Names of the table columns from which the metric is computed.

        A ratio has the names of two other metrics here: the numerator and the denominator. A
        difference between policies has the name of the policy that the others are compared with.
        """
        return self.source or tuple(name for name, _, _ in self.columns)

    @property
    def json_key(self) -> str:
        """Name of the metric's field in JSON documents.

        The name ends with the unit if the value is a range, and with ``mean`` if it is a mean.

        >>> BY_NAME["stopped"].json_key, BY_NAME["load_spread"].json_key, BY_NAME["moved"].json_key
        ('stopped_partition_seconds', 'load_spread_mean', 'moved')
        """
        if self.aggregation in _RANGES:
            return f"{self.name}_{self.unit.replace('-', '_')}"
        return f"{self.name}_mean" if self.aggregation is Aggregation.MEAN else self.name

    @property
    def plain_label(self) -> str:
        """The metric's label as plain text, without the soft hyphens that HTML table headings have.

        The glossary of a report uses it.
        """
        return self.label.replace("\N{SOFT HYPHEN}", "")


_COUNT, _SUM, _MAXIMUM, _MEAN = (
    Aggregation.COUNT, Aggregation.SUM, Aggregation.MAXIMUM, Aggregation.MEAN,
)  # fmt: skip
_INTERVAL, _DIFFERENCE = Aggregation.INTERVAL, Aggregation.DIFFERENCE
_ESTIMATE = Aggregation.ESTIMATE
#: Aggregations whose value is a range; their JSON keys end with the unit.
_RANGES = frozenset({_INTERVAL, _DIFFERENCE, _ESTIMATE})
_COUNTED = (Condition("counts", "is", True), Condition("agrees", "is known"))

#: All metrics, in the order of table columns.
METRICS: tuple[Metric, ...] = (
    Metric(
        "stopped", _INTERVAL,
        (("stopped_at_least_ps", "double?", "partition-seconds without consumption, lower bound"),
         ("stopped_at_most_ps", "double?", "partition-seconds without consumption, upper bound")),
        unit="partition-seconds", better="lower",
        help="Bounds of the downtime that follow from commits alone: consumption may have gone on "
        "after the last commit before the rebalance, and may have resumed before the first commit "
        "after it.",
    ),
    Metric(
        "stopped_estimate", _ESTIMATE,
        (("stopped_ps", "double?", "partition-seconds without consumption, best estimate"),
         ("stopped_p10_ps", "double?", "10th percentile of this estimate"),
         ("stopped_p90_ps", "double?", "90th percentile of this estimate")),
        unit="partition-seconds", better="lower", label="Down\N{SOFT HYPHEN}time",
        help="Time in which no member consumed a partition because of a rebalance, added up over "
        "partitions: one partition without consumption for one minute is one partition-minute "
        "(p·min). Best estimate, with an interval that holds the true value in 80 % of cases. The "
        "log has no record of when a member stops reading; the estimate uses the times of group "
        "records and of commits at revocation. Without an estimate, the bounds by commits are "
        "shown (lower–upper).",
        shown=OutputLevel.TERMINAL,
    ),
    Metric(
        "no_consumer", _SUM,
        (("no_consumer_ps", "double?", "partition-seconds without any member or subscriber"),),
        unit="partition-seconds",
        help="Time in which the group had no member, or none that subscribed to the partition, "
        "added up over partitions. It is no downtime by rebalances.",
    ),
    Metric(
        "saved", _DIFFERENCE, source=(RECORDED,), unit="partition-seconds", better="higher",
        label="Saved",
        help="Downtime simulated with the present settings (policy own) minus downtime simulated "
        "with other ones: best estimate and interval. The interval includes the simulation's "
        "error, which is the difference between own and the record; where it contains zero, the "
        "table says that the difference is within the error. A negative value is additional "
        "downtime.",
        shown=OutputLevel.TERMINAL,
    ),
    Metric(
        "saved_against_own", _DIFFERENCE, source=(OWN,), unit="partition-seconds", better="higher",
        label="Saved against own", help="Downtime under policy own minus downtime under this one.",
    ),
    Metric(
        "rows", _COUNT, where=(Condition("status", "is known"),),
        help="Simulated rebalances, those that do not happen under the policy included.",
    ),
    Metric(
        "happened", _COUNT,
        where=(Condition("status", "is known"), Condition("caused", "is not", False)),
        better="lower", label="Rebal\N{SOFT HYPHEN}ances",
        help="A rebalance assigns the partitions of a group to its members anew: a generation of a "
        "classic group, an epoch of a consumer, share or streams group. Follow-up rebalances of "
        "the policy count.",
        shown=OutputLevel.TERMINAL,
    ),
    Metric("rebalances", _COUNT, where=(Condition("step", "is", 0),),
           help="Recorded rebalances that are simulated."),
    Metric(
        "spared", _COUNT, where=(Condition("caused", "is", False),), better="higher",
        help="Recorded rebalances that do not happen under the policy.",
    ),
    Metric("done", _COUNT, where=(Condition("status", "is", DONE),), help="Rows with a plan."),
    Metric("refused", _COUNT, where=(Condition("status", "is", REFUSED),),
           help="Rows for which the strategy is not applicable."),
    Metric("failed", _COUNT, where=(Condition("status", "is", FAILED),),
           help="Rows in which the strategy raised an exception."),
    Metric("missing", _COUNT, where=(Condition("status", "is", NOT_YET),),
           help="Rows whose strategy Partage does not have."),
    Metric("claimed", _COUNT, where=(Condition("claimed", "is", True), Condition("step", "is", 0)),
           help="Rebalances for which the group had chosen the policy's strategy."),
    Metric(
        "moved", _SUM,
        (("moved", "int32?", "partitions reassigned from one live member to another"),),
        unit="partitions", better="lower", label="Moved",
        help="Partitions reassigned from one live member to another. First assignments and "
        "partitions of departed members do not count.",
        shown=OutputLevel.TERMINAL,
    ),
    Metric(
        "avoidable", _SUM,
        (("avoidable", "int32?", "of these, moves beyond the minimum of a plan that is as even"),),
        unit="partitions", better="lower", label="Avoid\N{SOFT HYPHEN}able",
        help="Moves beyond the minimum that a plan of at least the same balance needs. The minimum "
        "is found by minimum-cost flow and verified by an independent check.",
        shown=OutputLevel.TERMINAL,
    ),
    Metric("proven", _COUNT, where=(Condition("avoidable", "is known"),),
           help="Rows for which the number of avoidable moves is known."),
    Metric(
        "evenness", Aggregation.RATIO, source=("even", "judged"), better="higher",
        label="Bal\N{SOFT HYPHEN}anced",
        help="Share of rebalances with the smallest possible spread (partitions of the fullest "
        "member minus those of the emptiest), verified by maximum flow.",
        shown=OutputLevel.TERMINAL,
    ),
    Metric(
        "largest_spread", _MAXIMUM,
        (("spread", "int32?", "largest minus smallest number of partitions per member that can "
          "own some"),),
        unit="partitions", better="lower", help="Largest spread of any rebalance.",
    ),
    Metric(
        "even", _COUNT, (("best_spread", "int32?", "smallest spread of any valid plan"),),
        where=(Condition("spread", "equals", "best_spread"),),
        better="higher", help="Rows with the smallest possible spread.",
    ),
    Metric("judged", _COUNT,
           where=(Condition("best_spread", "is known"), Condition("spread", "is known")),
           help="Rows for which the smallest possible spread is known."),
    Metric(
        "idle", _SUM, (("idle", "int32?", "members without partitions that could own some"),),
        unit="members", better="lower", label="Idle",
        help="Members without partitions that could own some, added up over rebalances.",
        shown=OutputLevel.TERMINAL,
    ),
    Metric(
        "reread", _INTERVAL,
        (("reread_low", "int64?", "records consumed again, lower bound"),
         ("reread_high", "int64?", "records consumed again, upper bound")),
        unit="records", better="lower", label="Re\N{SOFT HYPHEN}processed",
        help="Records consumed again after a rebalance, because the new owner started at the last "
        "committed offset.",
        shown=OutputLevel.PAGE,
    ),
    Metric(
        "unread_at_once", _MAXIMUM,
        (("unread_at_once", "int32?", "partitions without consumption at the worst moment"),),
        unit="partitions", better="lower", label="Unread at once",
        help="Partitions unread at the worst moment: the largest number of partitions that no "
        "member consumed at the same time in one rebalance. In consumer groups it is an upper "
        "bound, since members release and take partitions one after the other.",
        shown=OutputLevel.PAGE,
    ),
    Metric(
        "rack_mismatches", _SUM,
        (("rack_mismatches", "int32?", "partitions owned outside the racks of their replicas"),),
        unit="partitions", better="lower", label="Cross-rack",
        help="Partitions whose owner is in a rack without a replica, so that each fetch crosses "
        "racks; added up over rebalances. Members without a rack do not count.",
        shown=OutputLevel.PAGE,
    ),
    Metric(
        "load_spread", _MEAN,
        (("load_spread", "double?", "largest minus smallest load per member, records per second"),),
        unit="records/s", better="lower", label="Load spread, records/s",
        help="Load of the most loaded member minus that of the least loaded one, in committed "
        "records per second; mean over rebalances.",
        shown=OutputLevel.GROUP,
    ),
    Metric(
        "colocation", _MEAN,
        (("colocation", "double?", "share of equal partition numbers with one owner"),),
        better="higher",
        help="Share of partition numbers that belong to one member in all topics; mean.",
    ),
    Metric("breaches", _SUM, (("breaches", "int32?", "rules that the plan violates"),),
           better="lower", help="Rules of a valid assignment that plans violate."),
    Metric("incomplete", _COUNT, where=(Condition("breaches", "above", 0),), better="lower",
           help="Rows whose plan violates a rule, such as a partition without an owner."),
    Metric(
        "changed", _SUM,
        (("changed", "int32?", "partitions with another owner than in the record"),),
        unit="partitions", help="Partitions with another owner than in the record.",
    ),
    Metric("counted", _COUNT, where=_COUNTED,
           help="Plans that are compared with the recorded assignment."),
    Metric("agreed", _COUNT, where=(*_COUNTED, Condition("agrees", "is", True)), better="higher",
           help="Of these, plans equal to the recorded assignment."),
)  # fmt: skip

BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}

#: Columns of table ``replays`` that metrics declare, in the order of `METRICS`.
REPLAY_COLUMNS: tuple[Column, ...] = tuple(
    column for metric in METRICS for column in metric.columns
)

#: Metrics that tables of policies have as columns, by output.
SHOWN: dict[OutputLevel, tuple[Metric, ...]] = {
    output: tuple(m for m in METRICS if m.shown >= output) for output in OutputLevel
}
