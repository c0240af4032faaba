"""The result of a simulated rebalance with its metrics, and the judge that computes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.api.measures import MeasurementCache
from partage.history.stop_model import UnreadEstimate
from partage.judge import Facts, Measures, PreviousOwners, check
from partage.judge.measures import count_by_member
from partage.model import Assignment, Cluster, Group, Plan, Problem
from partage.model.index import Index, Int32Array
from partage.simulation.commit_statistics import Weights
from partage.simulation.rounds import content_key, max_cache_entries
from partage.tables.statuses import RECORDED

__all__ = [
    "NOTHING",
    "Bounds",
    "CachedJudge",
    "Loads",
    "PlanLoads",
    "PlanMetrics",
    "PlanTexts",
    "RecomputeInputs",
    "SimulatedRebalance",
    "cost_columns",
    "format_plan_json",
    "load_spread",
]


class Bounds(NamedTuple):
    """Lower and upper bound of a value that the log shows only approximately, such as a duration.

    >>> Bounds(1, 2) + Bounds(3, 4), Bounds(1, 2).multiply_by(3)
    (Bounds(low=4, high=6), Bounds(low=3, high=6))
    """

    low: float
    high: float

    def __add__(self, other: object) -> Bounds:
        if not isinstance(other, Bounds):
            return NotImplemented
        return Bounds(self.low + other.low, self.high + other.high)

    def multiply_by(self, factor: float) -> Bounds:
        """Return bounds with both ends multiplied by a non-negative factor.

        For example, the bounds 1 and 2 with the factor 3 become 3 and 6.
        """
        return Bounds(self.low * factor, self.high * factor)


NOTHING = Bounds(0, 0)


@dataclass(frozen=True, slots=True)
class PlanMetrics:
    """Quality metrics of an assignment, such as the number of moved partitions.

    For example, ``spread`` is the difference between the largest and the smallest number of
    partitions of a member. Each field is a column of the output table ``replays``; None means
    unknown.
    """

    spread: int | None = None
    idle: int | None = None
    moved: int | None = None
    avoidable: int | None = None
    best_spread: int | None = None
    rack_mismatches: int | None = None
    colocation: float | None = None
    breaches: int | None = None
    load_spread: float | None = None


@dataclass(frozen=True, slots=True)
class RecomputeInputs:
    """Inputs for computing three columns of an output row again, after more offset commits are
    known.

    The columns are ``stopped``, ``reread`` and ``load_spread`` of table ``replays``. A later run
    computes them, because it knows more commits.

    Attributes:
        stops: indices of the partitions that stop (int32).
        extra: partition-seconds of dead members, in addition to the partitions that stop; None if
            unknown.
        plan: the assignment.
        group: the members.
        cluster: the cluster at that time.
        has_loads: whether the row has a spread of loads.
        longer_ms: additional time that the rebalance waited for members that did not respond; None
            if it did not wait.
    """

    stops: Int32Array
    extra: Bounds | None
    plan: Assignment
    group: Group
    cluster: Cluster
    has_loads: bool = True
    longer_ms: Bounds | None = None


@dataclass(frozen=True, slots=True)
class SimulatedRebalance:
    """The result of one simulated rebalance: a row of the output table ``replays``.

    It is simulated under one policy, a group configuration (protocol, strategy, options). Most
    fields are columns of the table, which docs/policies.md defines. ``measured``, ``stopped``,
    ``reread`` and ``unread`` become several columns each; ``recompute`` becomes none.

    Attributes:
        stopped: bounds on partition-seconds without a consumer; None if no commits show it.
        unread: best estimate of these partition-seconds; None if there is none.
        reread: bounds on records read twice; None if no commits show it.
        plan: the assignment as JSON.
        recompute: inputs of columns that change with later commits; None without them.
    """

    incarnation: int
    generation: int
    policy: str
    strategy: str
    protocol: str
    reading: str
    time_ms: int
    status: str
    step: int = 0
    caused: bool = True
    claimed: bool = False
    agrees: bool | None = None
    counts: bool = False
    judged_by: str | None = None
    detail: str | None = None
    partitions: int | None = None
    members: int | None = None
    measured: PlanMetrics = field(default_factory=PlanMetrics)
    stopped: Bounds | None = None
    unread: UnreadEstimate | None = None
    reread: Bounds | None = None
    changed: int | None = None
    unread_at_once: int | None = None
    plan: str | None = None
    # Its arrays have no truth value; rows that differ in it differ in a column, too.
    recompute: RecomputeInputs | None = field(default=None, compare=False)

    def to_row(self) -> dict[str, Any]:
        """Return the simulated rebalance as a row (dict) of table ``replays``.

        The caller adds the columns for the run and the group.
        """
        row: dict[str, Any] = dict(zip(_COLUMNS, _values_of_columns(self), strict=True))
        row |= zip(_METRICS, _values_of_metrics(self.measured), strict=True)
        row |= _downtime_columns(self.unread)
        if self.policy != RECORDED:  # a simulation has no clients that could be missing
            row["no_consumer_ps"] = None
        return row | cost_columns(self.stopped, self.reread)


def cost_columns(stopped: Bounds | None, reread: Bounds | None) -> dict[str, float | None]:
    """Return the columns of table ``replays`` that hold the costs of a rebalance.

    There are four: the lower and the upper bound of the partition-seconds without a consumer, and
    of the records read twice. A column is None if its bound is unknown.

    Args:
        stopped: bounds on partition-seconds without a consumer.
        reread: bounds on records read twice.

    >>> cost_columns(Bounds(1.5, 2.0), None)["stopped_at_most_ps"]
    2.0
    """
    low, high = stopped or (None, None)
    least, most = (None, None) if reread is None else map(int, reread)
    return {
        "stopped_at_least_ps": low, "stopped_at_most_ps": high,
        "reread_low": least, "reread_high": most,
    }  # fmt: skip


def _downtime_columns(estimate: UnreadEstimate | None) -> dict[str, float | None]:
    """Return the columns of table ``replays`` that hold the estimated time without a consumer.

    They are the best estimate and the 10th and 90th percentile, in partition-seconds. All are None
    without an estimate.
    """
    names = ("stopped_ps", "stopped_p10_ps", "stopped_p90_ps", "no_consumer_ps")
    if estimate is None:
        return dict.fromkeys(names)
    values = (estimate.best, estimate.p10, estimate.p90, estimate.no_consumer)
    return dict(zip(names, values, strict=True))


#: Fields of `SimulatedRebalance` that are a column each.
_COLUMNS = tuple(
    column.name
    for column in fields(SimulatedRebalance)
    if column.name not in {"measured", "stopped", "reread", "unread", "recompute"}
)
_METRICS = tuple(column.name for column in fields(PlanMetrics))
_values_of_columns, _values_of_metrics = attrgetter(*_COLUMNS), attrgetter(*_METRICS)

#: Plans and groups whose figures are cached; a full cache is emptied.
_MOST_CACHED = 1_024
_NO_PARTITIONS: Int32Array = np.zeros(0, np.int32)


class CachedJudge:
    """Function that computes quality metrics of assignments and caches them.

    Simulations of several group configurations share it, because they often lead to the same
    assignment.

    >>> from partage.model import Member, Plan
    >>> cluster = Cluster.from_topics({"t": 2})
    >>> group = Group([Member("a", ["t"], owned={"t": [0, 1]}), Member("b", ["t"])])
    >>> plan = Plan.of(cluster.index, {"a": {"t": [0]}, "b": {"t": [1]}})
    >>> found = CachedJudge()(plan, group, cluster)
    >>> found.moved, found.avoidable, found.best_spread, found.breaches
    (1, 0, 0, 0)
    """

    def __init__(self) -> None:
        self._shared = MeasurementCache()
        self._metrics: dict[object, tuple[object, PlanMetrics]] = {}
        self._groups: dict[tuple[bytes, ...], Group] = {}

    def __call__(
        self,
        plan: Assignment,
        group: Group,
        cluster: Cluster,
        weights: Weights = None,
        old_owners: PreviousOwners | None = None,
    ) -> PlanMetrics:
        """Compute the quality metrics of a partition assignment, or return them from the cache.

        A recorded assignment may be invalid, for example if a partition has two owners. The result
        then has the number of violations.

        Args:
            plan: the assignment.
            group: the members.
            cluster: the cluster at that time.
            weights: records per second of each partition (float64[P]), or None.
            old_owners: the previous owners; None to take the partitions that members report as
                owned.
        """
        if old_owners is None:
            members = _group_key(group)
            group = self._intern_group(members, group)
            known: object = members
            owners = []
        else:
            known = id(group)
            owners = _owner_arrays(old_owners)
        withheld = getattr(plan, "withheld", _NO_PARTITIONS)
        content = content_key(plan.start, plan.partition, plan.role, withheld, *owners)
        key = (id(cluster), id(weights), known, plan.members, content)
        cached = self._metrics.get(key)
        if cached is None or plan.unresolved:
            if len(self._metrics) >= max_cache_entries(len(group), _MOST_CACHED):
                self._metrics.clear()
            metrics = self._measure(plan, group, cluster, weights, old_owners)
            # The entry holds cluster, weights and group, so that their ids in the key stay theirs.
            cached = self._metrics[key] = (cluster, weights, group), metrics
        return cached[1]

    def _intern_group(self, key: tuple[bytes, ...], group: Group) -> Group:
        """Return the cached group that equals a group, so that equal groups are one object.

        Other caches use the object's identity as key. The first group with a content is cached
        itself. ``key`` is a hash of the content.
        """
        if len(self._groups) >= max_cache_entries(len(group), _MOST_CACHED):
            self._groups.clear()
        return self._groups.setdefault(key, group)

    def _measure(
        self,
        plan: Assignment,
        group: Group,
        cluster: Cluster,
        weights: Weights,
        old_owners: PreviousOwners | None,
    ) -> PlanMetrics:
        found = self._shared.measure_cached(
            plan, group, cluster, partition_weight=weights, old_owners=old_owners
        )
        return PlanMetrics(
            spread=found.spread,
            idle=found.idle,
            moved=found.moved,
            # Without moves none is avoidable, even where an invalid plan leaves it undefined.
            avoidable=found.avoidable if found.moved else 0,
            best_spread=found.best_spread,
            rack_mismatches=found.rack_mismatches,
            colocation=found.colocation,
            breaches=self._count_breaches(plan, group, cluster, found, old_owners),
            load_spread=found.load_spread,
        )

    def _count_breaches(
        self,
        plan: Assignment,
        group: Group,
        cluster: Cluster,
        metrics: Measures,
        old_owners: PreviousOwners | None,
    ) -> int:
        """Count the violations of validity rules in an assignment, such as a partition with two
        owners.

        If ``metrics`` already prove that the assignment is valid, the result is 0 and no rule is
        checked. The other arguments are those of `__call__`.
        """
        is_valid = (
            metrics.avoidable is not None  # every open partition has one owner, who subscribes
            and plan.members == group.ids
            and not plan.unresolved
            and len(plan.partition) == metrics.partitions
        )
        if is_valid:
            return 0
        if old_owners is None:
            return len(check(plan, group, cluster))
        return self._shared.count_breaches(plan, group, cluster, old_owners)


def _owner_arrays(old_owners: PreviousOwners) -> list[NDArray[Any]]:
    # Equal for equal previous owners. Most clusters have many partitions of other groups.
    if old_owners.sole_owners is None:
        return [old_owners.owned, old_owners.start, old_owners.claimant]
    partition = old_owners.owned.nonzero()[0]
    return [partition, old_owners.sole_owners[partition]]


def _group_key(group: Group) -> tuple[bytes, ...]:
    words = [(m.id, m.rack, m.generation, m.owned.topics) for m in group]
    arrays = [group.subscription_of]
    for member in group:
        arrays += [member.owned.topic_ix, member.owned.partition]
    words_digest = blake2b(repr((words, group.subscriptions)).encode(), digest_size=16).digest()
    return (words_digest, *content_key(*arrays))


# -- loads, which later offset commits change --------------------------------------------------

#: Owner and index of each assigned partition, the members whose loads count (all int32),
#: and the number of members.
Loads = tuple[Int32Array, Int32Array, Int32Array, int]
#: Plans and groups that `PlanLoads` remembers; a full cache is emptied.
_MOST_LOADS = 512


class PlanLoads:
    """Cache of arrays from which the load of each member under an assignment is computed.

    A member's load is the sum of the records per second of its partitions. `load_spread` computes
    it from these arrays.
    """

    def __init__(self) -> None:
        self._loads: dict[tuple[int, int, int], tuple[RecomputeInputs, Loads]] = {}
        self._facts: dict[tuple[int, int], Facts] = {}

    def load_arrays(self, inputs: RecomputeInputs) -> Loads:
        """Return the arrays from which `load_spread` computes the load of each member.

        They have the owner of each partition, and the members that subscribe to a topic. ``inputs``
        has the assignment, the group and the cluster.
        """
        key = (id(inputs.plan), id(inputs.group), id(inputs.cluster))
        known = self._loads.get(key)
        if known is None:
            if len(self._loads) >= _MOST_LOADS:
                self._loads.clear()
                self._facts.clear()
            facts = self._facts.get(key[1:])
            if facts is None:
                facts = self._facts[key[1:]] = Facts(Problem(inputs.group, inputs.cluster))
            counted = count_by_member(inputs.plan, facts)
            loads = (
                counted.member.astype(np.int32), counted.partition.astype(np.int32),
                np.flatnonzero(facts.takes_part).astype(np.int32), facts.member_count,
            )  # fmt: skip
            # The entry holds the objects, so that no other one gets the ids of its key.
            known = self._loads[key] = inputs, loads
        return known[1]


def load_spread(loads: Loads | None, weights: Weights) -> float | None:
    """Return the difference between the highest and the lowest load of a member (records per
    second).

    A member's load is the sum of the consumption rates of its partitions. Members without
    subscribed partitions are left out. The result is None if the rates are unknown or no member is
    left.

    Args:
        loads: arrays of an assignment from `PlanLoads.load_arrays`.
        weights: records per second of each partition (float64[P]).
    """
    if loads is None or weights is None or not len(loads[2]):
        return None
    member, partition, takes_part, members = loads
    load = np.bincount(member, weights[partition], minlength=members)[takes_part]
    return float(load.max() - load.min())


# -- assignments as JSON ------------------------------------------------------------------------

#: Texts that `PlanTexts` remembers, and the characters of them; a full cache is emptied.
_MOST_TEXTS, _MOST_CHARACTERS = 512, 4 << 20
#: Partitions from which on it is faster to convert an assignment by runs of one topic.
_LARGE_PLAN = 500


class PlanTexts:
    """Converter of assignments to JSON text, with a cache.

    Simulations of several group configurations often lead to the same assignment, which is then
    converted once.
    """

    def __init__(self) -> None:
        self._texts: dict[object, tuple[Index, str]] = {}
        self._characters = 0

    def plan_to_json(self, plan: Plan) -> str:
        """Return an assignment as JSON text: member id to topic to list of partition numbers.

        For example, ``{"a":{"t":[0,1]}}``.
        """
        arrays = plan.start.tobytes(), plan.partition.tobytes()
        key = (id(plan.index), plan.members, *arrays)
        known = self._texts.get(key)
        if known is None:
            is_large = len(plan.partition) >= _LARGE_PLAN
            text = format_plan_json(plan.to_dict() if is_large else _numbers_by_topic(plan))
            self._characters += len(text)
            if len(self._texts) >= _MOST_TEXTS or self._characters > _MOST_CHARACTERS:
                self._texts.clear()
                self._characters = len(text)
            # The entry holds the index, so that the id in the key stays its own.
            known = self._texts[key] = plan.index, text
        return known[1]


def _numbers_by_topic(plan: Plan) -> dict[str, dict[str, list[int]]]:
    """Convert an assignment to nested dicts: member id to topic to list of partition numbers.

    It equals `Plan.to_dict`, but is faster for assignments with few partitions.
    """
    names = plan.index.topics
    topics = plan.index.topic_of[plan.partition].tolist()
    numbers = plan.index.number_of[plan.partition].tolist()
    out: dict[str, dict[str, list[int]]] = {}
    for member, (first, end) in zip(plan.members, pairwise(plan.start.tolist()), strict=True):
        mine = out[member] = {}
        for i in range(first, end):
            mine.setdefault(names[topics[i]], []).append(numbers[i])
    return out


def format_plan_json(plan: Mapping[str, Mapping[str, list[int]]]) -> str:
    """Return an assignment as the compact JSON text of table ``replays``.

    The assignment is given as nested dicts: member id to topic to list of partition numbers.

    >>> format_plan_json({"a": {"t": [0, 1]}})
    '{"a":{"t":[0,1]}}'
    """
    return _encode(plan)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
