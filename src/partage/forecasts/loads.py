"""Loads of a group: records per second of each partition by minute, and a consumer's capacity.

Rates are differences of committed offsets (table ``commit_rates``). They are rates of consumption.
Over a recording in which the group keeps up, they equal the rates at which records arrive. After a
stop, the backlog of the stop counts in the minute in which it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError
from partage.model import Cluster

__all__ = [
    "MOST_RECORDS",
    "CommitMinute",
    "GroupLoad",
    "LearntCapacity",
    "OwnedSpan",
    "constant_load",
    "learn_capacity",
    "load_by_minute",
    "load_from_rates",
]

FloatArray = NDArray[np.float64]
_Pair = tuple[str, int]
MINUTE_MS = 60_000
#: A minute belongs to a catch-up phase if a member consumes this many times its usual rate.
_CATCH_UP = 1.5
#: Partitions that a group may have; Kafka's own limit for a cluster is of this order.
_MOST_PARTITIONS = 200_000
#: Records per second that a group may have.
MOST_RECORDS = 1e12


class CommitMinute(NamedTuple):
    """Last committed offset of one partition in one minute: a row of the table ``commit_rates``.

    The load of a consumer group (records per second) is computed from such rows.
    """

    topic: str
    partition: int
    minute_ms: int
    last_offset: int


class OwnedSpan(NamedTuple):
    """Time span in which one member owned a partition: a row of the table ``ownership``.

    The capacity of a consumer is estimated from such rows.
    """

    topic: str
    partition: int
    member: str
    from_ms: int
    to_ms: int | None


@dataclass(frozen=True, eq=False)
class GroupLoad:
    """Load of a consumer group: records per second of each of its partitions, by minute.

    Forecasts of the number of consumers and of lags use it.

    Attributes:
        cluster: the group's topics and partitions.
        by_minute: records per second, one row for each minute (float64[minutes, partitions]).
        first_ms: start of the first minute; None if the load was not recorded and is constant.
    """

    cluster: Cluster
    by_minute: FloatArray
    first_ms: int | None = None

    @cached_property
    def rate(self) -> FloatArray:
        """Mean records per second of each partition, over all minutes (float64[partitions])."""
        mean: FloatArray = self.by_minute.mean(axis=0)
        return mean

    @property
    def total(self) -> float:
        """Mean records per second of the whole consumer group."""
        return float(self.rate.sum())

    @cached_property
    def topics(self) -> dict[str, int]:
        """Partition count of each topic that the group consumes."""
        index = self.cluster.index
        names = (index.name(p)[0] for p in range(index.partitions))
        counts: dict[str, int] = {}
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        return counts


def constant_load(topics: Mapping[str, int], rate: float) -> GroupLoad:
    """Build the load of a consumer group from one constant rate, equal for all partitions.

    Use it for a group that has not been recorded.

    Args:
        topics: partition count of each topic.
        rate: records per second of the whole group, equal for all partitions.

    Raises:
        InvalidConfigError: there is no topic, a partition count is not positive, or the rate is
            negative.

    >>> constant_load({"orders": 4}, 100.0).rate.tolist()
    [25.0, 25.0, 25.0, 25.0]
    """
    if not isinstance(topics, Mapping):
        raise InvalidConfigError("topics", "must be a dict from topic to partition count", topics)
    partitions = sum(topics.values())
    if min(topics.values(), default=0) < 1 or partitions > _MOST_PARTITIONS:
        raise InvalidConfigError("partitions", f"must be 1 to {_MOST_PARTITIONS}", partitions)
    if not 0 <= rate <= MOST_RECORDS:
        what = f"must be 0 to {MOST_RECORDS:g} records per second"
        raise InvalidConfigError("rate", what, rate)
    return GroupLoad(Cluster.from_topics(topics), np.full((1, partitions), rate / partitions))


def load_from_rates(topics: Mapping[str, int], rates: Mapping[_Pair, float]) -> GroupLoad:
    """Build the load of a group from a constant rate of each partition.

    Args:
        topics: partition count of each topic.
        rates: records per second by (topic, partition); 0 for partitions that are missing.

    >>> load_from_rates({"orders": 2}, {("orders", 1): 5.0}).rate.tolist()
    [0.0, 5.0]
    """
    cluster = Cluster.from_topics(topics)
    found = np.zeros((1, cluster.index.partitions))
    for (topic, partition), rate in rates.items():
        dense = cluster.index.locate(topic, partition)
        if dense >= 0:
            found[0, dense] = rate
    return GroupLoad(cluster, found)


def load_by_minute(topics: Mapping[str, int], rows: Iterable[CommitMinute]) -> GroupLoad:
    """Compute how many records per second a consumer group reads of each partition in each minute.

    The numbers come from offset commits. If a partition has no commit in some minutes, its records
    are spread evenly over them. The first and the last minute are incomplete, so they are omitted.

    Args:
        topics: partition count of each topic of the group.
        rows: last committed offsets by minute; rows of partitions that ``topics`` lacks are left
            out.

    Raises:
        InvalidConfigError: the commits span fewer than three minutes.

    >>> rows = [CommitMinute("t", 0, m * 60_000, 600 * m) for m in range(4)]
    >>> load_by_minute({"t": 2}, rows).by_minute.tolist()
    [[10.0, 0.0], [10.0, 0.0]]
    """
    known = [row for row in rows if row.partition < topics.get(row.topic, 0)]
    minutes = [row.minute_ms // MINUTE_MS for row in known]
    first, last = min(minutes, default=0) + 1, max(minutes, default=0)
    if last - first < 1:
        what = "the group's commits span fewer than three minutes; record it for longer"
        raise InvalidConfigError("run", what, f"{last - first + 2 if minutes else 0} minutes")
    cluster = Cluster.from_topics(topics)
    advance = np.zeros((last - first, cluster.index.partitions))
    by_partition: dict[int, dict[int, int]] = {}
    for row, minute in zip(known, minutes, strict=True):
        dense = cluster.index.locate(row.topic, row.partition)
        by_partition.setdefault(dense, {})[minute] = row.last_offset
    for dense, offsets in by_partition.items():
        times = sorted(offsets)
        for before, after in pairwise(times):
            grown = max(0, offsets[after] - offsets[before])  # offsets that go back were reset
            span = slice(before + 1 - first, min(after + 1, last) - first)
            advance[span, dense] = grown / (60 * (after - before))
    return GroupLoad(cluster, advance, first * MINUTE_MS)


class LearntCapacity(NamedTuple):
    """Estimate of the records per second that one consumer can process, from a recording.

    Attributes:
        rate: the highest records per second that one member consumed over a whole minute. The
            capacity is at least this.
        usual: mean rate of the same member for the same partitions.
        minutes: number of its catch-up minutes, in which it consumed at least 1.5 times its usual
            rate; 0 if the highest rate is not from such a minute.
        member: id of the member.
    """

    rate: float
    usual: float
    minutes: int
    member: str

    @property
    def is_near_capacity(self) -> bool:
        """True if the measured rate is near the real capacity of a consumer.

        A member that reduces its lag reads as fast as it can, so its rate is near the capacity.
        """
        return self.minutes > 0


def learn_capacity(load: GroupLoad, owned: Sequence[OwnedSpan]) -> LearntCapacity | None:
    """Estimate from a recording how many records per second one consumer can process.

    The estimate is the highest rate of a member over a recorded minute. Members that reduce a lag
    show the capacity best.

    Args:
        load: recorded load of the group, by minute.
        owned: time spans in which members owned partitions.

    Returns:
        None if no member owned a partition for a whole minute.

    >>> rows = [CommitMinute("t", 0, m * 60_000, at) for m, at in enumerate([0, 6, 12, 120, 126])]
    >>> load = load_by_minute({"t": 1}, rows)
    >>> found = learn_capacity(load, [OwnedSpan("t", 0, "m-1", 0, None)])
    >>> found.rate, round(found.usual, 3), found.minutes, found.member
    (1.8, 0.667, 1, 'm-1')
    """
    if load.first_ms is None:
        return None
    minutes, _ = load.by_minute.shape
    consumed: dict[str, FloatArray] = {}
    usual: dict[str, FloatArray] = {}
    for span in owned:
        dense = load.cluster.index.locate(span.topic, span.partition)
        if dense < 0:
            continue
        begin = max(0, -((load.first_ms - span.from_ms) // MINUTE_MS))
        end = minutes
        if span.to_ms is not None:
            end = min(minutes, (span.to_ms - load.first_ms) // MINUTE_MS)
        if begin < end:
            rates = consumed.setdefault(span.member, np.zeros(minutes))
            rates[begin:end] += load.by_minute[begin:end, dense]
            usual.setdefault(span.member, np.zeros(minutes))[begin:end] += load.rate[dense]
    if not consumed:
        return None
    member = max(consumed, key=lambda one: float(consumed[one].max()))
    rates, at = consumed[member], int(consumed[member].argmax())
    # A member's usual load may exceed the rate at which another one catches up.
    is_catching_up = (rates >= _CATCH_UP * usual[member]) & (rates > 0)
    found = int(np.count_nonzero(is_catching_up)) if is_catching_up[at] else 0
    return LearntCapacity(float(rates[at]), float(usual[member][at]), found, member)
