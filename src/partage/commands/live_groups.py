"""Groups of a running cluster: `live_groups` shows them, `measure_group` measures for forecasts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidConfigError
from partage.model.arguments import check_argument_types

if TYPE_CHECKING:
    from partage.api.decisions import Comparison
    from partage.capture.connection import ClusterConnection
    from partage.capture.groups import LiveGroup, LiveMember
    from partage.forecasts.measured import MeasuredGroup
    from partage.judge import Measures
    from partage.model import Cluster
    from partage.watch.lag import EndOffsets, GroupLag

__all__ = [
    "GroupMeasurement",
    "PreviousMeasurements",
    "live_groups",
    "matching_live_groups",
    "measure_group",
    "measure_groups",
    "measure_live_group",
    "topic_lags",
    "unknown_group_error",
]  # fmt: skip

Partition = tuple[str, int]
#: Types of groups in which partitions are not what is shared: no plan to compare.
_OF_THEIR_OWN = {"share", "streams"}
#: Strategies whose members send more than claims in their user data.
_KEPT_USER_DATA = {"failover", "faust"}
#: Longest measurement of a group in seconds.
_LONGEST_S = 86_400


@dataclass(frozen=True)
class GroupMeasurement:
    """Lag and load of one consumer group of a running cluster, and the balance among its members.

    `live_groups` returns one for each group.

    Attributes:
        group: members, ownership and committed offsets.
        lag: lag in records by partition, if both offsets are known.
        rate: arriving records per second by partition.
        now: balance and quality of the current assignment; None for a group without members.
        compared: balance and quality of other strategies' assignments; None if not computed.
        behind: total lag and its age; None if no end offset is known.
        drain_seconds: time until the group has caught up, infinite if the lag does not shrink; None
            if unknown.
    """

    group: LiveGroup
    lag: Mapping[Partition, int]
    rate: Mapping[Partition, float]
    now: Measures | None = None
    compared: Comparison | None = None
    behind: GroupLag | None = None
    drain_seconds: float | None = None

    def load_of(self, member: LiveMember) -> tuple[int | None, float]:
        """Return the lag (records) and the arrival rate (records per second) of one group member.

        Both are sums over the partitions that the member owns. The lag is None if none of them has
        a committed offset.
        """
        lags = [self.lag[p] for p in member.owned if p in self.lag]
        return (sum(lags) if lags else None), sum(self.rate.get(p, 0.0) for p in member.owned)

    def to_dict(self) -> dict[str, Any]:
        """Return the measured lag, load and balance of the consumer group as a JSON object.

        ``partage groups --json`` prints it.
        """
        group = self.group
        members = []
        for m in group.members:
            lag, load = self.load_of(m)
            members.append({
                "member": m.id, "client_id": m.client_id, "host": m.host,
                "instance_id": m.instance_id, "rack": m.rack, "topics": list(m.topics),
                "lag": lag, "records_per_second": round(load, 1),
                "owned": [
                    {"topic": t, "partition": p, "lag": self.lag.get((t, p))} for t, p in m.owned
                ],
            })  # fmt: skip
        drain = self.drain_seconds
        return {
            "group": group.id, "type": group.type, "state": group.state,
            "strategy": group.strategy, "coordinator": group.coordinator,
            "lag": None if group.type == "share" else sum(self.lag.values()),
            "lag_seconds": None if self.behind is None or self.behind.seconds is None
            else round(self.behind.seconds, 1),
            "drain_seconds": drain if drain is not None and isfinite(drain) else None,
            "trouble": group.trouble or None, "members": members,
            "now": self.now.to_dict() if self.now else None,
            "strategies": [
                {"strategy": row.strategy, "refused": row.refused, "valid": row.valid,
                 "measures": row.measures.to_dict() if row.measures else None}
                for row in self.compared or ()
            ],
        }  # fmt: skip


def _no_samples() -> EndOffsets:
    from partage.watch.lag import EndOffsets

    return EndOffsets()


@dataclass(slots=True)
class PreviousMeasurements:
    """End offsets and lags of a cluster's consumer groups from earlier measurements.

    Arrival rates and the age of a lag are computed from the changes between measurements.

    Attributes:
        at_s: time of the last measurement; 0 before the first one.
        ends: end offsets at the last measurement.
        lags: lag of each group at the last measurement.
        samples: end offsets of all measurements.
    """

    at_s: float = 0.0
    ends: Mapping[Partition, int] = field(default_factory=dict)
    lags: Mapping[str, GroupLag | None] = field(default_factory=dict)
    samples: EndOffsets = field(default_factory=_no_samples)

    def store_measurement(self, groups: Iterable[LiveGroup], ends: Mapping[Partition, int]) -> None:
        """Store the offsets of one measurement of consumer groups, for the rates of the next one.

        A rate is the difference of two measured offsets divided by the time between them.

        Args:
            groups: the consumer groups with their committed offsets.
            ends: end offset of each partition.
        """
        from partage.watch.lag import group_lag

        self.at_s, self.ends = time.monotonic(), ends
        self.samples.store_end_offsets(self.at_s, ends)
        self.lags = {one.id: group_lag(one.committed, self.samples, self.at_s) for one in groups}


def unknown_group_error(connection: ClusterConnection, patterns: list[str]) -> InvalidConfigError:
    """Return the error for group names or patterns that match no consumer group of the cluster.

    The error message lists existing groups, which are read from the cluster first.

    Args:
        connection: connection to the cluster.
        patterns: names or patterns that matched no group.
    """
    from partage.capture.groups import live_groups

    there = [one.id for one in live_groups(connection)[0]]
    names = ", ".join(there[:10]) + (" ..." if len(there) > 10 else "")
    what = f"matches none of the {len(there)} groups: {names}" if there else "matches no group"
    return InvalidConfigError("groups", what, ", ".join(patterns))


def measure_groups(
    connection: ClusterConnection,
    patterns: list[str] | None,
    strategies: list[str] | None,
    earlier: PreviousMeasurements,
    every: float,
    *,
    compare_all: bool,
) -> list[GroupMeasurement]:
    """Measure the lag and load of consumer groups of a running cluster.

    The arrival rate of a partition is computed from its end offsets in two measurements. If there
    is no earlier measurement, the offsets are read twice.

    Args:
        connection: connection to the cluster.
        patterns: names or patterns of the groups to measure.
        strategies: assignment strategies whose balance is compared.
        earlier: the previous measurements; updated in place.
        every: maximum seconds between the two reads.
        compare_all: whether to compare strategies for evenly assigned groups, too.
    """
    from partage.capture.groups import live_groups
    from partage.capture.metadata_image import cluster_state
    from partage.model import Cluster

    if not earlier.at_s:
        first, ends, _ = live_groups(connection, patterns)
        earlier.store_measurement(first, ends)
        time.sleep(min(every, 2.0))
    found, ends, metadata = live_groups(connection, patterns)
    before_s, known, lags = earlier.at_s, earlier.ends, earlier.lags
    earlier.store_measurement(found, ends)
    since = max(earlier.at_s - before_s, 1e-3)
    rate = {p: max(0, end - known[p]) / since for p, end in ends.items() if p in known}
    state = cluster_state(metadata, ts_ms=0, controller=None)
    cluster = Cluster.from_metadata(state["topics"], state["brokers"])
    compare = bool(compare_all or strategies)
    measurements = [
        measure_live_group(one, ends, rate, cluster, strategies, compare=compare) for one in found
    ]
    return [_add_lag_age(measurement, lags, earlier.lags, since) for measurement in measurements]


def _add_lag_age(
    measurement: GroupMeasurement,
    lag_before: Mapping[str, GroupLag | None],
    lag_now: Mapping[str, GroupLag | None],
    elapsed_s: float,
) -> GroupMeasurement:
    """Add two times to the measurement of a consumer group: the age of its lag, and the time to
    catch up.

    The age says how long ago the oldest unread record was written. The time to catch up is
    estimated from the lags of two measurements. It is None if one of them is unknown.

    Args:
        measurement: the measurement of the group.
        lag_before: lag of each group at the previous measurement.
        lag_now: lag of each group now, with its age.
        elapsed_s: seconds between the two measurements.
    """
    from partage.watch.lag import drain_seconds

    behind, earlier = lag_now.get(measurement.group.id), lag_before.get(measurement.group.id)
    if behind is None or earlier is None:
        return replace(measurement, behind=behind)
    return replace(
        measurement, behind=behind, drain_seconds=drain_seconds(earlier, behind, elapsed_s)
    )


def measure_live_group(
    group: LiveGroup, ends: Mapping[Partition, int], rate: Mapping[Partition, float],
    cluster: Cluster, strategies: list[str] | None, *, compare: bool,
) -> GroupMeasurement:  # fmt: skip
    """Measure the lag, the load and the balance among members of one consumer group.

    If another assignment could be more even, the assignments of other strategies are measured too.

    Args:
        group: the group's members, owned partitions and committed offsets.
        ends: end offset of each partition.
        rate: arriving records per second of each partition.
        cluster: the cluster metadata.
        strategies: assignment strategies whose balance is compared.
        compare: whether to compare them even if the current assignment is the most even one.
    """
    from partage.api import decisions
    from partage.api.measures import measure
    from partage.model import Assignment, Group, Member

    lag = {p: max(0, ends[p] - at) for p, at in group.committed.items() if p in ends}
    # A subscription by a pattern, or one that cannot be read, names no topics: those that it has.
    topics = {m.id: m.topics or tuple(sorted({t for t, _ in m.owned})) for m in group.members}
    # While a classic group rebalances nobody tells what it subscribes to: no plan can be judged.
    if group.type in _OF_THEIR_OWN or not group.strategy or not any(topics.values()):
        return GroupMeasurement(group, lag, rate)
    # The coordinator's ownership counts for every strategy alike: claims in user data are older.
    # User data that hold more than claims (priorities, Faust's URLs) are kept for their sender.
    keep = group.strategy in _KEPT_USER_DATA
    members = Group([
        Member(m.id, topics[m.id], rack=m.rack, instance_id=m.instance_id, owned=list(m.owned),
               generation=1, user_data=m.user_data if keep else None)
        for m in group.members
    ])  # fmt: skip
    owned = {m.id: list(m.owned) for m in group.members}
    plan = Assignment.of(cluster.index, owned)
    now = measure(plan, members, cluster)
    if not compare and now.spread == now.best_spread:
        return GroupMeasurement(group, lag, rate, now)
    compared = decisions.compare(members, cluster, strategies=strategies, sender=group.strategy)
    return GroupMeasurement(group, lag, rate, now, compared)


@check_argument_types
def live_groups(
    bootstrap: str,
    groups: Sequence[str] | str | None = None,
    *,
    strategies: Sequence[str] | None = None,
    compare: bool = False,
    every: float = 2.0,
    properties: Mapping[str, str] | None = None,
) -> list[GroupMeasurement]:
    """Measure consumer groups of a running cluster: owners, lag, load and balance.

    Assignments of other strategies are compared on request. Offsets are read twice, to compute
    rates. Nothing is changed, and no group is joined.

    Args:
        bootstrap: brokers of the cluster, ``host:port,...``.
        groups: names or patterns (``orders-*``) of groups; None for all.
        strategies: strategies to compare with.
        compare: whether to compare with every strategy.
        every: seconds between the two reads; at most two.
        properties: client properties, by Kafka's names.

    Raises:
        ClusterUnreachableError, NotAuthorizedError: the cluster cannot be read.
        InvalidConfigError: a pattern matches no group, or a property is invalid.
        UnknownStrategyError: there is no such strategy.
        MissingExtraError: kafka-python is not installed.
    """
    from partage.capture.connection import ClusterConnection
    from partage.capture.groups import expect_visible_groups
    from partage.capture.security import ClientProperties, connection_settings
    from partage.groups import registry
    from partage.model.validation import reject_text

    reject_text(strategies, "strategies")
    for one in strategies or ():
        registry.load(one)  # a wrong name is reported before the cluster is asked
    patterns = [groups] if isinstance(groups, str) else list(groups or ()) or None
    names = None if strategies is None else list(strategies)
    settings = connection_settings(ClientProperties(properties or {}))
    with ClusterConnection(bootstrap, settings) as connection:
        measurements = measure_groups(
            connection, patterns, names, PreviousMeasurements(), every, compare_all=compare
        )
        if not measurements:
            expect_visible_groups(connection)
            if patterns:
                raise unknown_group_error(connection, patterns)
    return measurements


def matching_live_groups(
    bootstrap: str, patterns: Sequence[str], *, properties: Mapping[str, str] | None = None
) -> list[str]:
    """Return the names of a running cluster's consumer groups that match shell patterns.

    The result is sorted.

    Args:
        bootstrap: brokers of the cluster, ``host:port,...``.
        patterns: names or shell patterns of groups.
        properties: client properties, by Kafka's names.

    Raises:
        ClusterUnreachableError, NotAuthorizedError: the cluster cannot be read.
        InvalidConfigError: no group matches.
        MissingExtraError: kafka-python is not installed.
    """
    from partage.capture.connection import ClusterConnection
    from partage.capture.groups import live_groups as read_groups
    from partage.capture.security import ClientProperties, connection_settings

    settings = connection_settings(ClientProperties(properties or {}))
    with ClusterConnection(bootstrap, settings) as connection:
        found = read_groups(connection, patterns)[0]
        if not found:
            raise unknown_group_error(connection, list(patterns))
    return sorted(one.id for one in found)


def topic_lags(
    bootstrap: str, topic: str, *, properties: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Return how far each consumer group of a running cluster lags behind on one topic.

    The result is a dict from group to lag in records. Groups without committed offsets on the topic
    are left out.

    Args:
        bootstrap: brokers of the cluster, ``host:port,...``.
        topic: name of the topic.
        properties: client properties, by Kafka's names.

    Raises:
        ClusterUnreachableError, NotAuthorizedError: the cluster cannot be read.
        MissingExtraError: kafka-python is not installed.
    """
    from partage.capture.connection import ClusterConnection
    from partage.capture.groups import live_groups as read_groups
    from partage.capture.security import ClientProperties, connection_settings

    settings = connection_settings(ClientProperties(properties or {}))
    with ClusterConnection(bootstrap, settings) as connection:
        found, ends, _ = read_groups(connection)
    lags: dict[str, int] = {}
    for group in found:
        behind = [
            max(0, ends[place] - at)
            for place, at in group.committed.items()
            if place[0] == topic and place in ends
        ]
        if behind:
            lags[group.id] = sum(behind)
    return lags


@check_argument_types
def measure_group(
    bootstrap: str,
    group: str,
    *,
    seconds: float = 60.0,
    properties: Mapping[str, str] | None = None,
) -> MeasuredGroup:
    """Measure the load of a consumer group of a running cluster, for `forecast` and `size`.

    The end offsets are read twice, ``seconds`` apart. Their difference is the load. Nothing in the
    cluster is changed.

    Args:
        bootstrap: brokers of the cluster, ``host:port,...``.
        group: name of the group.
        seconds: length of the measurement.
        properties: client properties, by Kafka's names.

    Raises:
        ClusterUnreachableError, NotAuthorizedError: the cluster cannot be read.
        InvalidConfigError: there is no such group, or it has no members.
        MissingExtraError: kafka-python is not installed.
    """
    from partage.capture.connection import ClusterConnection
    from partage.capture.security import ClientProperties, connection_settings

    if not 1 <= seconds <= _LONGEST_S:
        raise InvalidConfigError("seconds", f"must be from 1 to {_LONGEST_S}", seconds)
    settings = connection_settings(ClientProperties(properties or {}))
    with ClusterConnection(bootstrap, settings) as connection:
        _, before, _, before_s = _read_group(connection, group)
        time.sleep(seconds)
        found, ends, metadata, now_s = _read_group(connection, group)
    from partage.forecasts.measured import measurement_to_group

    elapsed_s = now_s - before_s
    topics = {topic for one in found.members for topic in one.topics}
    topics |= {topic for one in found.members for topic, _ in one.owned}
    return measurement_to_group(
        group, protocol=found.type, strategy=found.strategy,
        topics={t.name: len(t.partitions) for t in metadata.topics if t.name in topics},
        rates={
            place: max(0, end - before[place]) / elapsed_s
            for place, end in ends.items() if place in before
        },
        instances=tuple(one.instance_id for one in found.members), seconds=elapsed_s,
        lag=sum(max(0, ends[p] - at) for p, at in found.committed.items() if p in ends),
    )  # fmt: skip


def _read_group(
    connection: ClusterConnection, group: str
) -> tuple[LiveGroup, Mapping[Partition, int], Any, float]:
    """Read the members, offsets and topic metadata of one consumer group from the brokers.

    The lag of the group follows from them.

    Args:
        connection: connection to the cluster.
        group: name of the group.

    Returns:
        The group, the end offset of each partition, the cluster metadata, and the time of the
        request (seconds on the monotonic clock).

    Raises:
        InvalidConfigError: the cluster has no such group.
    """
    from partage.capture.groups import live_groups as read_groups

    found, ends, metadata = read_groups(connection, [group])
    chosen = next((one for one in found if one.id == group), None)
    if chosen is None:
        raise unknown_group_error(connection, [group])
    return chosen, ends, metadata, time.monotonic()
