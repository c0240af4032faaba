"""Growth of a topic's partition count: the keys that move, and the steps that keep their order.

A producer places a key on partition ``hash mod n``. A change of n moves a key unless both
remainders are equal. The records of a key that moved are in two partitions, which different
consumers read at different times. The order is lost unless the old records are read first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, lcm

from partage.errors import InvalidConfigError
from partage.model.arguments import check_argument_types

__all__ = ["DrainTime", "Growth", "drain_time", "plan_growth"]

#: Largest partition count (Kafka's int32).
_MOST = (1 << 31) - 1
#: Old partitions whose successors are listed.
_MOST_LISTED = 1_000


@dataclass(frozen=True, slots=True)
class DrainTime:
    """Time that a consumer group needs to read the existing records of a topic that gets more
    partitions.

    Old records are those that were written before the change.

    Attributes:
        group: name of the group.
        lag: number of records that it has not read when the partition count changes.
        seconds: time until they are read; None if the group's rate is unknown.
    """

    group: str
    lag: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Growth:
    """Effect of adding partitions to a Kafka topic: which keys move, and steps that keep their
    order.

    A key moves if its records go to another partition than before.

    Attributes:
        before, after: partition counts.
        moved: fraction of all hash values whose partition changes, which estimates that of keys.
        successors: for each old partition, the partitions that its keys are in afterwards; empty
            for large counts.
        new_partitions: partitions that get all of their keys from old ones.
        steps: the safe sequence, with a stop of the producers.
        conditions: what must be true before the first step.
        alternative: the way without a stop.
    """

    before: int
    after: int
    moved: float
    successors: tuple[tuple[int, ...], ...]
    new_partitions: int
    steps: tuple[str, ...]
    alternative: str = (
        "create a new topic with this count and move the producers to it. Each consumer reads the "
        "old topic to its end before the new one"
    )
    conditions: tuple[str, ...] = (
        "consumers: auto.offset.reset=earliest. Otherwise they skip records that reach a new "
        "partition before they read it",
        "joined topics: grow all of them together. Otherwise their partition numbers no longer "
        "match",
        "no Kafka Streams application and no ksqlDB query reads the topic: their changelogs keep "
        "the old placement. Copy the records to a new topic instead",
    )


@check_argument_types
def plan_growth(before: int, after: int, drains: Sequence[DrainTime] = ()) -> Growth:
    """Plan a larger partition count of a topic without reordering the records of any key.

    The result says which keys move to another partition, and which steps to take.

    Args:
        before: the present partition count.
        after: the new, larger partition count.
        drains: time that each consumer group needs to read its old records.

    Raises:
        InvalidConfigError: the counts are not positive and ascending.

    >>> found = plan_growth(12, 24)
    >>> found.moved, found.successors[3]
    (0.5, (3, 15))
    >>> round(plan_growth(12, 18).moved, 4)
    0.6667
    """
    if not 1 <= before < after <= _MOST:
        what = f"needs two counts from 1 to {_MOST}, the second one larger"
        raise InvalidConfigError("grow", what, f"{before} {after}")
    period = lcm(before, after)
    # A hash h stays if h mod before = h mod after: then h mod lcm is smaller than both counts.
    moved = 1 - before / period
    successors: tuple[tuple[int, ...], ...] = ()
    if before <= _MOST_LISTED and period <= 1_000 * _MOST_LISTED:
        successors = tuple(
            tuple(sorted({h % after for h in range(p, period, before)})) for p in range(before)
        )
    return Growth(before, after, moved, successors, after - before, _growth_steps(after, drains))


@check_argument_types
def drain_time(group: str, lag: int, *, drain_rate: float | None) -> DrainTime:
    """Estimate how long a consumer group needs to read its lag: the records that it has not read
    yet.

    The time is the lag divided by the group's rate; None if the rate is unknown.

    Args:
        group: name of the group.
        lag: number of records that it has not read yet.
        drain_rate: records per second that it reads when it catches up; None if unknown.

    Raises:
        InvalidConfigError: the lag is negative, or the rate is not positive and finite.

    >>> drain_time("billing", 6_000, drain_rate=400.0).seconds
    15.0
    """
    if not lag >= 0:
        raise InvalidConfigError("lag", "must not be negative", lag)
    if drain_rate is not None and not 0 < drain_rate < inf:
        raise InvalidConfigError("drain_rate", "must be a positive number", drain_rate)
    if drain_rate is None:
        return DrainTime(group, lag, 0.0 if lag == 0 else None)
    return DrainTime(group, lag, lag / drain_rate)


def _growth_steps(after: int, drains: Sequence[DrainTime]) -> tuple[str, ...]:
    """Return instructions for adding partitions to a topic without reordering any key's records.

    Args:
        after: the new partition count.
        drains: the time that each consumer group needs to read its old records.
    """
    known = [one.seconds for one in drains if one.seconds is not None]
    wait = f" ({max(known):,.0f} s for the slowest group)" if known else ""
    return (
        "stop all producers of the topic and flush them",
        f"wait until every group has lag 0 on all old partitions{wait}",
        f"kafka-topics.sh --alter --partitions {after}",
        "wait until each group owns all partitions (partage groups); clients learn of new ones "
        "within metadata.max.age.ms (5 min)",
        "start the producers",
    )
