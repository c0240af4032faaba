"""The settings of an application that its task assignor reads (KIP-441, KIP-708, KIP-925)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from partage.errors import InvalidConfigError

__all__ = ["LONG_MAX", "AssignmentConfigs", "RackAwareStrategy"]

LONG_MAX = 2**63 - 1

RackAwareStrategy = Literal["none", "min_traffic", "balance_subtopology"]
_INT_MAX = 2**31 - 1
_MOST_TAGS = 5
_LONGEST_TAG = 20
#: Integers that Java parses. Python's `int` also accepts underscores.
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_LEAST_PROBING_MS = 60_000


@dataclass(frozen=True)
class AssignmentConfigs:
    """Settings of a Kafka Streams application that its task assignor reads, with Kafka's defaults.

    The Java class is ``AssignmentConfigs`` of Kafka Streams 4.3.1.

    Attributes:
        acceptable_recovery_lag: largest lag, in offsets, at which a client counts as caught up.
        max_warmup_replicas: maximum number of extra copies that restore in the background at one
            time.
        num_standby_replicas: number of standby replicas of each stateful task.
        probing_rebalance_interval_ms: time between probing rebalances, in milliseconds.
        rack_aware_assignment_strategy: ``none``, ``min_traffic`` or ``balance_subtopology``.
        rack_aware_assignment_traffic_cost: cost of a partition that is read across racks;
            None: the assignor's default.
        rack_aware_assignment_non_overlap_cost: cost of a task that moves to another client;
            None: the assignor's default.
        rack_aware_assignment_tags: keys of the client tags in which the copies of a task differ.

    Raises:
        InvalidConfigError: Kafka's configuration definition rejects a value.

    >>> AssignmentConfigs(num_standby_replicas=1).max_warmup_replicas
    2
    >>> AssignmentConfigs.from_config({"max.warmup.replicas": "4"}).max_warmup_replicas
    4
    """

    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    num_standby_replicas: int = 0
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_assignment_strategy: RackAwareStrategy = "none"
    rack_aware_assignment_traffic_cost: int | None = None
    rack_aware_assignment_non_overlap_cost: int | None = None
    rack_aware_assignment_tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, (field, least, most) in _INTEGERS.items():
            value = getattr(self, field)
            if value is None and field in _OPTIONAL:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                what = f"must be a whole number from {least} to {most}"
                raise InvalidConfigError(name, what, value)
        known = get_args(RackAwareStrategy)
        if self.rack_aware_assignment_strategy not in known:
            raise InvalidConfigError(
                "rack.aware.assignment.strategy",
                f"must be one of {', '.join(known)}",
                self.rack_aware_assignment_strategy,
            )
        _check_tags(self.rack_aware_assignment_tags)

    def rack_aware_costs(self, traffic: int, non_overlap: int) -> tuple[int, int]:
        """Return the two costs that rack-aware task assignment minimises (KIP-925).

        The first is the cost of a partition that is read from another rack (traffic cost). The
        second is the cost of a task that moves to another client (non-overlap cost).

        Args:
            traffic: traffic cost to use if the application configures none.
            non_overlap: non-overlap cost to use if the application configures none.
        """
        configured = self.rack_aware_assignment_traffic_cost
        overlap = self.rack_aware_assignment_non_overlap_cost
        return (
            traffic if configured is None else configured,
            non_overlap if overlap is None else overlap,
        )

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> AssignmentConfigs:
        """Build the task assignor's settings from a Kafka Streams configuration.

        The configuration is a dict such as ``{"num.standby.replicas": "1"}``. Settings that the
        task assignor does not read are ignored. Numbers may be given as text, and tags as a
        comma-separated list.

        Raises:
            InvalidConfigError: Kafka's configuration definition rejects a value.
        """
        names = {name: field for name, (field, _, _) in _INTEGERS.items()} | _OTHERS
        given: dict[str, Any] = {
            field: _parse(name, config[name]) for name, field in names.items() if name in config
        }
        return replace(cls(), **given)


#: Kafka's name of each integer setting -> attribute, smallest and largest value.
_INTEGERS = {
    "acceptable.recovery.lag": ("acceptable_recovery_lag", 0, LONG_MAX),
    "max.warmup.replicas": ("max_warmup_replicas", 1, _INT_MAX),
    "num.standby.replicas": ("num_standby_replicas", 0, _INT_MAX),
    "probing.rebalance.interval.ms": (
        "probing_rebalance_interval_ms", _LEAST_PROBING_MS, LONG_MAX,
    ),
    "rack.aware.assignment.traffic_cost": ("rack_aware_assignment_traffic_cost", 0, _INT_MAX),
    "rack.aware.assignment.non_overlap_cost": (
        "rack_aware_assignment_non_overlap_cost", 0, _INT_MAX,
    ),
}  # fmt: skip
_OPTIONAL = {"rack_aware_assignment_traffic_cost", "rack_aware_assignment_non_overlap_cost"}
#: The other settings: Kafka's name -> attribute.
_OTHERS = {
    "rack.aware.assignment.strategy": "rack_aware_assignment_strategy",
    "rack.aware.assignment.tags": "rack_aware_assignment_tags",
}


def _parse(name: str, value: object) -> object:
    # A setting may be given as text, such as "3" or "zone,rack".
    if name == "rack.aware.assignment.tags":
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple):
            raise InvalidConfigError(name, "must be a list of tag keys", value)
        return tuple(part.strip() if isinstance(part, str) else part for part in parts if part)
    if isinstance(value, str) and name != "rack.aware.assignment.strategy":
        if not _NUMBER.fullmatch(value.strip()):
            raise InvalidConfigError(name, "must be a whole number", value)
        return int(value)
    return value


def _check_tags(tags: object) -> None:
    name = "rack.aware.assignment.tags"
    if not isinstance(tags, tuple) or not all(isinstance(tag, str) and tag for tag in tags):
        raise InvalidConfigError(name, "must be a tuple of tag keys", tags)
    if any(len(tag) > _LONGEST_TAG for tag in tags):
        raise InvalidConfigError(name, f"must have keys of at most {_LONGEST_TAG} characters", tags)
    if len(tags) > _MOST_TAGS:
        raise InvalidConfigError(name, f"must have at most {_MOST_TAGS} keys", tags)
