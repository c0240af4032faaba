"""The settings of an application that its task assignor reads (KIP-441, KIP-708, KIP-925)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from partage.errors import InvalidConfigError

__all__ = [
    "LATEST_OFFSET",
    "LONG_MAX",
    "UNKNOWN_OFFSET_SUM",
    "AssignmentConfigs",
    "RackAwareStrategy",
]

LONG_MAX = 2**63 - 1
#: A client's offset sum or lag of a task that it runs as a restored active.
LATEST_OFFSET = -2
#: A lag or sum that nobody could tell.
UNKNOWN_OFFSET_SUM = -3

RackAwareStrategy = Literal["none", "min_traffic", "balance_subtopology"]
_INT_MAX = 2**31 - 1
_MOST_TAGS = 5
_LONGEST_TAG = 20
#: What Java parses; `int` takes underscores, and no text is longer than an int64.
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_LEAST_PROBING_MS = 60_000


@dataclass(frozen=True)
class AssignmentConfigs:
    """What ``AssignmentConfigs`` of Kafka Streams 4.3.1 holds, with its defaults.

    Attributes:
        acceptable_recovery_lag: offsets behind the end up to which a client counts as caught up.
        max_warmup_replicas: extra copies at one time that restore in the background.
        num_standby_replicas: standbys of each stateful task.
        probing_rebalance_interval_ms: milliseconds until the next look at lags.
        rack_aware_assignment_strategy: ``none``, ``min_traffic`` or ``balance_subtopology``.
        rack_aware_assignment_traffic_cost: of a partition read across racks; None: the
            assignor's own.
        rack_aware_assignment_non_overlap_cost: of a task that moves; None: the assignor's own.
        rack_aware_assignment_tags: keys of client tags that standbys shall differ in.

    Raises:
        InvalidConfigError: a value that Kafka's own definition refuses.

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
        _whole("acceptable.recovery.lag", self.acceptable_recovery_lag, 0, LONG_MAX)
        _whole("max.warmup.replicas", self.max_warmup_replicas, 1, _INT_MAX)
        _whole("num.standby.replicas", self.num_standby_replicas, 0, _INT_MAX)
        _whole(
            "probing.rebalance.interval.ms",
            self.probing_rebalance_interval_ms,
            _LEAST_PROBING_MS,
            LONG_MAX,
        )
        known = get_args(RackAwareStrategy)
        if self.rack_aware_assignment_strategy not in known:
            raise InvalidConfigError(
                "rack.aware.assignment.strategy",
                f"must be one of {', '.join(known)}",
                self.rack_aware_assignment_strategy,
            )
        for name, cost in (
            ("rack.aware.assignment.traffic_cost", self.rack_aware_assignment_traffic_cost),
            ("rack.aware.assignment.non_overlap_cost", self.rack_aware_assignment_non_overlap_cost),
        ):
            if cost is not None:
                _whole(name, cost, 0, _INT_MAX)
        _tags(self.rack_aware_assignment_tags)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> AssignmentConfigs:
        """From Kafka's names; numbers may be text, tags a comma-separated list. Others are ignored.

        Raises:
            InvalidConfigError: as the class.
        """
        given: dict[str, Any] = {}
        for field in fields(cls):
            name = _KAFKA_NAMES.get(field.name, field.name.replace("_", "."))
            if name in config:
                given[field.name] = _read(name, config[name])
        return replace(cls(), **given)


_KAFKA_NAMES = {
    "rack_aware_assignment_traffic_cost": "rack.aware.assignment.traffic_cost",
    "rack_aware_assignment_non_overlap_cost": "rack.aware.assignment.non_overlap_cost",
}


def _read(name: str, value: object) -> object:
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


def _whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidConfigError(name, f"must be a whole number from {least} to {most}", value)


def _tags(tags: object) -> None:
    name = "rack.aware.assignment.tags"
    if not isinstance(tags, tuple) or not all(isinstance(tag, str) and tag for tag in tags):
        raise InvalidConfigError(name, "must be a tuple of tag keys", tags)
    if any(len(tag) > _LONGEST_TAG for tag in tags):
        raise InvalidConfigError(name, f"must have keys of at most {_LONGEST_TAG} characters", tags)
    if len(tags) > _MOST_TAGS:
        raise InvalidConfigError(name, f"must have at most {_MOST_TAGS} keys", tags)
