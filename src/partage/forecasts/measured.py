"""A group of a running cluster, measured for some time: an input of forecasts beside a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from partage.errors import InvalidConfigError
from partage.forecasts.loads import GroupLoad, LearntCapacity, load_from_rates
from partage.forecasts.migration import CONNECT_STRATEGIES, STREAMS_STRATEGY
from partage.forecasts.restarts import RestartEvidence
from partage.forecasts.rolling import DEFAULT_COMMIT_S, DEFAULT_SESSION_S
from partage.groups import registry
from partage.simulation.policies import Policy

__all__ = ["MeasuredGroup", "check_strategy", "has_no_consumers", "measurement_to_group"]


@dataclass(frozen=True)
class MeasuredGroup:
    """A consumer group that was measured on a running cluster for a short time, as input of
    forecasts.

    A cluster does not report session timeouts, restarts or capacities, so they have default values.

    Attributes:
        group: name of the group.
        load: arriving records per second of each partition, constant.
        strategy: name of its strategy, which Partage may not have.
        seconds: length of the measurement.
        lag: records behind the end offsets at its end.
        restarts: number of members and static membership; without past restarts.
        session_s: default session timeout in seconds.
        capacity: None, because a short measurement shows no catch-up phase.
    """

    group: str
    load: GroupLoad
    strategy: str
    seconds: float
    lag: int
    restarts: RestartEvidence
    session_s: float = DEFAULT_SESSION_S
    capacity: LearntCapacity | None = None

    @property
    def topics(self) -> dict[str, int]:
        """Partition count of each topic that the group consumes, as a dict by topic name."""
        return self.load.topics

    @property
    def policy(self) -> Policy:
        """Rebalance protocol and assignment strategy of the group.

        Membership is static if all members have a ``group.instance.id``.

        Raises:
            InvalidConfigError: Partage does not have the strategy.
        """
        name = check_strategy(self.group, self.strategy)
        return replace(Policy.parse(name), static=self.restarts.static)


def check_strategy(group: str, name: str) -> str:
    """Check that Partage implements a group's assignment strategy, because forecasts run it.

    Return the strategy's name.

    Args:
        group: name of the group.
        name: name of the strategy that the group uses.

    Raises:
        InvalidConfigError: Partage does not have the strategy, or the group is a classic Kafka
            Streams application.
    """
    if name == STREAMS_STRATEGY:
        raise InvalidConfigError("group", has_no_consumers("streams"), group)
    if name in CONNECT_STRATEGIES:
        raise InvalidConfigError("group", has_no_consumers("Kafka Connect"), group)
    if name not in registry.strategies():
        what = f"of group {group} is unknown to Partage; give another one"
        raise InvalidConfigError("strategy", what, name)
    return name


def has_no_consumers(protocol: str) -> str:
    """Return why a group without consumers cannot be forecast, for an error message.

    ``protocol`` is the kind of group, such as ``share``.

    >>> has_no_consumers("share")
    'is a share group: no consumer owns a partition'
    """
    if protocol == "streams":
        return "is a Kafka Streams application; see partage streams --from-capture"
    return f"is a {protocol} group: no consumer owns a partition"


def measurement_to_group(
    group: str,
    *,
    protocol: str,
    strategy: str,
    topics: Mapping[str, int],
    rates: Mapping[tuple[str, int], float],
    instances: tuple[str | None, ...],
    seconds: float,
    lag: int,
) -> MeasuredGroup:
    """Convert the measurement of a running consumer group to an input of forecasts.

    Values that a cluster does not report, such as session timeouts, get defaults.

    Args:
        group: name of the group.
        protocol: classic or consumer.
        strategy: the assignor that the coordinator reports, with or without Partage's prefix
            ``server:``; empty if the group has none.
        topics: partition count of each topic that it consumes.
        rates: arriving records per second by partition; 0 for those that are missing.
        instances: ``group.instance.id`` of each member, None without one.
        seconds: length of the measurement.
        lag: records behind the end offsets.

    Raises:
        InvalidConfigError: the group has no members or no partitions.

    >>> found = measurement_to_group("billing", protocol="classic", strategy="range",
    ...     topics={"orders": 2}, rates={("orders", 1): 5.0}, instances=("i-1", "i-2"),
    ...     seconds=60, lag=0)
    >>> found.policy.name, found.load.total, found.restarts.members
    ('eager/range+static', 5.0, 2)
    """
    if protocol not in ("classic", "consumer"):
        raise InvalidConfigError("group", has_no_consumers(protocol), group)
    if not instances or not topics:
        raise InvalidConfigError("group", "has no members with partitions", group)
    name = strategy
    if protocol == "consumer":
        name = f"server:{strategy.removeprefix('server:') or 'uniform'}"
    evidence = RestartEvidence(
        restart=None, leaves=True, members=len(instances),
        static=None not in instances, commit_s=DEFAULT_COMMIT_S, commits_on_stop=True,
    )  # fmt: skip
    return MeasuredGroup(group, load_from_rates(topics, rates), name, seconds, lag, evidence)
