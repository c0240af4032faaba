"""Settings of `optimal`: parsed from a client's configuration, and applied to a problem.

Values are Python objects, or their JSON text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError
from partage.groups.api import Setting, Strategy
from partage.groups.optimal.problem import CanonicalProblem, Int64Array
from partage.model import Problem, RackCosts
from partage.model.group import LEAST_LOAD, MOST_LOAD

__all__ = [
    "OPTIONS",
    "PREFIX",
    "ByTopic",
    "OptimalSettings",
    "configured_by_loads",
    "expand_to_partitions",
    "find_colocation_sets",
    "input_warnings",
    "needs_loads",
    "rack_costs",
]


PREFIX = "assignment.optimal."
#: Default tolerance with learnt loads, as a fraction of a mean member's load: the least gain that
#: is worth a move.
LEARNT_TOLERANCE = 0.05

#: A number for all partitions of a topic, or one for each of its partition numbers.
ByTopic = Mapping[str, "float | tuple[float, ...]"]


@dataclass(frozen=True, slots=True)
class OptimalSettings:
    """Parsed settings of the assignor `optimal`, such as partition weights and a limit of moves.

    The class `Optimal` documents each of them.

    Attributes:
        weights: load of partitions by topic; None balances the number of partitions.
        racks: whether rack mismatches (or costs) matter.
        prices: price per GB by (rack of the member, rack of the replica); None means that each rack
            mismatch costs the same.
        traffic: GB by topic; None for 1 each.
        max_moves: most owned partitions that may move; None for no limit.
        together: "no", "prefer" or "require": whether co-partitioned topics stay together.
        copartitioned: names of topics that belong together; None for all with equal partition
            numbers and subscribers.
        tolerance: a gain below this fraction of an average member's load is not worth a move; None
            for 0 in small problems, and 0.001 in others.
    """

    weights: ByTopic | None = None
    racks: bool = True
    prices: Mapping[tuple[str, str], float] | None = None
    traffic: ByTopic | None = None
    max_moves: int | None = None
    together: str = "no"
    copartitioned: tuple[tuple[str, ...], ...] | None = field(default=None)
    tolerance: float | None = None

    def with_config(self, config: Mapping[str, object]) -> OptimalSettings:
        """Return a copy of the settings, changed by those in a client's configuration.

        ``config`` has values by setting name, such as ``assignment.optimal.max.moves``. Settings of
        other assignors and of Kafka are ignored.

        Raises:
            InvalidConfigError: a value has the wrong type or range.

        >>> OptimalSettings().with_config({PREFIX + "max.moves": "3"}).max_moves
        3
        """
        given = {
            name: parse(PREFIX + key, config[PREFIX + key])
            for key, (name, parse) in _PARSERS.items()
            if PREFIX + key in config
        }
        return replace(self, **given)  # type: ignore[arg-type]  # each parser knows its own


def _parse_by_topic(setting: str, value: object) -> ByTopic | None:
    value = _decode_text(setting, value)
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InvalidConfigError(setting, "must map topics to numbers or lists of them", value)
    out: dict[str, float | tuple[float, ...]] = {}
    for topic, of in value.items():
        if not isinstance(topic, str):
            raise InvalidConfigError(setting, "must have names of topics as keys", topic)
        if isinstance(of, (Sequence, np.ndarray)) and not isinstance(of, (str, bytes)):
            out[topic] = tuple(_parse_number(setting, number) for number in of)
        else:
            out[topic] = _parse_number(setting, of)
    return out


def _parse_prices(setting: str, value: object) -> dict[tuple[str, str], float] | None:
    value = _decode_text(setting, value)
    if value is None:
        return None
    what = "must map a member's rack to prices by the replica's rack"
    if not isinstance(value, Mapping):
        raise InvalidConfigError(setting, what, value)
    out = {}
    for mine, row in value.items():
        if not isinstance(mine, str) or not isinstance(row, Mapping):
            raise InvalidConfigError(setting, what, {mine: row})
        for theirs, price in row.items():
            if not isinstance(theirs, str):
                raise InvalidConfigError(setting, what, theirs)
            out[mine, theirs] = _parse_number(setting, price)
    return out


def _parse_topics(setting: str, value: object) -> tuple[tuple[str, ...], ...] | None:
    value = _decode_text(setting, value)
    if value is None:
        return None
    rows: list[tuple[str, ...]] = []
    for row in _expect_list(setting, value):
        names = tuple(_expect_list(setting, row))
        if not all(isinstance(one, str) for one in names):
            raise InvalidConfigError(setting, "must be lists of names of topics", value)
        rows.append(names)
    flat = [name for row in rows for name in row]
    if len(set(flat)) < len(flat):
        raise InvalidConfigError(setting, "must name no topic twice", value)
    return tuple(rows)


def _expect_list(setting: str, value: object) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise InvalidConfigError(setting, "must be lists of names of topics", value)
    return value


def _parse_limit(setting: str, value: object) -> int | None:
    value = _decode_text(setting, value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise InvalidConfigError(setting, "must be a number of partitions, 0 or more", value)
    return int(value)


def _parse_together(setting: str, value: object) -> str:
    if value not in {"no", "prefer", "require"}:
        raise InvalidConfigError(setting, 'must be "no", "prefer" or "require"', value)
    return str(value)


def _parse_switch(setting: str, value: object) -> bool:
    value = _decode_text(setting, value.lower() if isinstance(value, str) else value)
    if not isinstance(value, bool):
        raise InvalidConfigError(setting, "must be true or false", value)
    return value


def _parse_number(setting: str, value: object) -> float:
    good = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    try:
        number = float(value) if good else math.nan  # type: ignore[arg-type]  # good says so
    except OverflowError:
        number = math.inf
    if not 0 <= number < math.inf:
        raise InvalidConfigError(setting, "must be finite numbers, none negative", value)
    if number and not LEAST_LOAD <= number <= MOST_LOAD:
        what = f"must be 0, or numbers from {LEAST_LOAD:g} to {MOST_LOAD:g}"
        raise InvalidConfigError(setting, what, value)
    return number


def _parse_fraction(setting: str, value: object) -> float | None:
    value = _decode_text(setting, value)
    return None if value is None else _parse_number(setting, value)


def _decode_text(setting: str, value: object) -> object:
    # Values of a properties file or a command line are strings.
    if not isinstance(value, str):
        return value
    try:
        found: object = json.loads(value) if value.strip() else None
    except (ValueError, RecursionError):
        raise InvalidConfigError(setting, "is text that is no JSON", value) from None
    return found


_PARSERS = {
    "weights": ("weights", _parse_by_topic),
    "racks": ("racks", _parse_switch),
    "rack.prices": ("prices", _parse_prices),
    "traffic": ("traffic", _parse_by_topic),
    "max.moves": ("max_moves", _parse_limit),
    "together": ("together", _parse_together),
    "copartitioned": ("copartitioned", _parse_topics),
    "tolerance": ("tolerance", _parse_fraction),
}

#: The settings as `partage strategies` lists them, in the order of the objective; `Optimal` has
#: the details.
OPTIONS = tuple(
    Setting(PREFIX + key, default, meaning)
    for key, default, meaning in (
        ("weights", "by counts", "{topic: load, or [load of partition 0, ...]}: balance these"),
        ("racks", "true", "whether rack mismatches matter"),
        ("rack.prices", "mismatches count", "{member's rack: {replica's rack: money per GB}}"),
        ("traffic", "1 each", "GB by topic or partition, for the prices"),
        ("max.moves", "no limit", "most owned partitions that may move in one rebalance"),
        ("together", "no", "co-partitioned topics together: no, prefer, require"),
        ("copartitioned", "all that can", "[[topic, topic], ...] that belong together"),
        ("tolerance", "0.001; 0 if small", "by weights: part of a mean load not worth a move"),
    )
)


# Largest total rack cost in units: costs times moves must stay far below int64.
_MOST_UNITS = 1 << 36


def expand_to_partitions(problem: Problem, values_by_topic: ByTopic) -> NDArray[np.float64]:
    """Expand a setting by topic to one value for each partition of the cluster (float64[P]).

    An example is the setting of partition weights, such as ``{"orders": 5}``. Partitions without a
    value get the mean of the others.

    Args:
        problem: the consumer group and the cluster.
        values_by_topic: for each topic one number, or a list of numbers by partition number.
    """
    index = problem.index
    out = np.full(index.partitions, np.nan)
    for topic, of in values_by_topic.items():
        mine = problem.cluster.partitions_of(topic)
        if isinstance(of, tuple):
            number = index.number_of[mine]
            known = number < len(of)
            out[mine[known]] = np.array(of, float)[number[known]]
        else:
            out[mine] = of
    unknown = np.isnan(out)
    out[unknown] = out[~unknown].mean() if not unknown.all() else 1.0
    return out


def input_warnings(problem: Problem, settings: OptimalSettings) -> tuple[str, ...]:
    """Return warnings about settings that do not fit the topics of the cluster.

    For example, a setting names an unknown topic, or has too few values for the topic's partitions.
    ``problem`` is the consumer group and the cluster.
    """
    out: list[str] = []
    for key, values in (("weights", settings.weights), ("traffic", settings.traffic)):
        for topic, of in (values or {}).items():
            t = problem.cluster.topic(topic)
            if t < 0:
                out.append(_unknown_topic(key, topic))
                continue
            numbers = problem.index.number_of[problem.cluster.partitions_of(t)]
            count = int(numbers.max(initial=-1)) + 1
            if isinstance(of, tuple) and len(of) != count:
                effect = "missing ones get the mean" if len(of) < count else "the rest is ignored"
                out.append(
                    f"{PREFIX}{key}: the list of {topic!r} has {len(of)} numbers for {count} "
                    f"partitions; {effect}"
                )
    named = [topic for row in settings.copartitioned or () for topic in row]
    out += [_unknown_topic("copartitioned", t) for t in named if problem.cluster.topic(t) < 0]
    return tuple(out)


def _unknown_topic(key: str, topic: str) -> str:
    return f"{PREFIX}{key} names {topic!r}, which is not among the topics: ignored"


def needs_loads(problem: Problem, settings: OptimalSettings) -> bool:
    """Return whether the optimal assignor must balance weighted loads instead of partition counts.

    True if partitions have weights, or if members have unequal weights or a capacity.

    Args:
        problem: the consumer group and the cluster.
        settings: the settings, which may have the partitions' weights.
    """
    return settings.weights is not None or problem.group.has_weights_or_capacities


def rack_costs(problem: Problem, settings: OptimalSettings) -> RackCosts | None:
    """Return the costs of consuming from another rack, as the settings define them.

    The result is None if the settings disable rack awareness or if no member has a rack.
    ``problem`` is the group and the cluster.
    """
    if not settings.racks or not problem.group.has_racks:
        return None
    if settings.prices is None:
        return RackCosts()
    traffic = None if settings.traffic is None else expand_to_partitions(problem, settings.traffic)
    dearest = max(settings.prices.values(), default=1.0)
    if traffic is not None:
        dearest *= float(traffic.max(initial=0.0))
    # The smallest unit that keeps sums within the limit, a power of ten.
    room = _MOST_UNITS / (problem.index.partitions + 1)
    unit = 10.0 ** np.ceil(np.log10(dearest / room)) if dearest > 0 else 1.0
    return RackCosts(settings.prices, traffic, max(float(unit), 1e-6))


def find_colocation_sets(
    canonical: CanonicalProblem, settings: OptimalSettings
) -> tuple[Int64Array, tuple[str, ...]]:
    """Find the sets of topics whose equal partition numbers should have the same owner.

    Such topics are usually joined by the application. All topics of a set have the same partition
    numbers and the same subscribers.

    Args:
        canonical: the problem, with members and partitions sorted independently of the join order.
        settings: the settings, which may list the sets of topics.

    Returns:
        The number of each topic's set, -1 for none (int64[T]), and warnings.
    """
    names = [canonical.problem.index.topics[t] for t in canonical.rows.topics.tolist()]
    named = {n: i for i, row in enumerate(settings.copartitioned or ()) for n in row}
    subscribers: list[list[int]] = [[] for _ in names]
    for s, topics in enumerate(canonical.topics_of):
        for t in topics.tolist():
            subscribers[t].append(s)
    number = canonical.problem.index.number_of[canonical.rows.partition]
    start = canonical.rows.start.tolist()
    found: dict[tuple[int, bytes, tuple[int, ...]], list[int]] = {}
    for t, name in enumerate(names):
        if settings.copartitioned is not None and name not in named:
            continue
        key = (
            named.get(name, 0), number[start[t] : start[t + 1]].tobytes(), tuple(subscribers[t])
        )  # fmt: skip
        found.setdefault(key, []).append(t)
    family = np.full(len(names), -1, np.int64)
    warnings = []
    lists = settings.copartitioned or ()
    for i, mine in enumerate(found.values()):
        name = names[mine[0]]
        if len(mine) > 1:
            family[np.array(mine)] = i
        elif name in named and len(lists[named[name]]) > 1:
            warnings.append(
                f"{name} stays apart from the other topics of its list in {PREFIX}copartitioned: "
                "none has the same partition numbers and subscribers"
            )
    return family, tuple(warnings)


def configured_by_loads(
    strategy: Strategy,
    loads: Mapping[tuple[str, int], float],
    partitions: Mapping[str, int],
    tolerance: float | None,
) -> Strategy:
    """Return a copy of the assignor with measured loads as partition weights.

    Loads are, for example, bytes per second. Partitions without a load get the mean of all.

    Args:
        strategy: the assignor, with its other settings.
        loads: load by (topic, partition); if there are none, the strategy is returned unchanged.
        partitions: the number of partitions of each topic.
        tolerance: value of the setting ``tolerance`` (the least gain that is worth a move); None
            keeps the assignor's own.
    """
    if not loads:
        return strategy
    # Rounded, so that another order of summation gives the same plan.
    mean = round(sum(loads.values()) / len(loads), 6)
    weights = {t: [loads.get((t, p), mean) for p in range(n)] for t, n in partitions.items()}
    config: dict[str, object] = {f"{PREFIX}weights": weights}
    if tolerance is not None:
        config[f"{PREFIX}tolerance"] = tolerance
    return strategy.configure(config)
