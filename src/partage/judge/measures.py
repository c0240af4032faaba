"""Measurement of an assignment: loads, moves, racks, and the distance to the optimum.

Each figure (measured value) is computed here only. `add_optimum` is the only place that computes
avoidable moves.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partage.errors import InvalidProblemError
from partage.judge.count_bounds import (
    ClaimedBest,
    ClaimedFewest,
    count_moves,
    verify_load_certificate,
    verify_moves_certificate,
)
from partage.judge.facts import Facts
from partage.judge.ownership import (
    NOBODY,
    SEVERAL,
    PreviousOwners,
    assignment_entries,
    previous_owners,
    sole_owners,
)
from partage.model import Assignment, Cluster, Group, Problem

__all__ = [
    "AssignmentCounts",
    "Measures",
    "PartitionWeights",
    "add_optimum",
    "count_by_member",
    "load_extremes",
    "measure",
    "measure_balance",
    "member_loads",
]


@dataclass(frozen=True, slots=True)
class Measures:
    """Measured quality of an assignment: balance, moves, rack mismatches, and the optimum.

    A load is the number of partitions that a member owns. Values that cannot be computed are None.
    Members that subscribe to no existing partition are ignored.

    Attributes:
        partitions: number of existing partitions that have an owner.
        unowned: number of existing partitions with subscribers and without owner.
        largest: the largest load, None if no member counts.
        smallest: the smallest load, None if no member counts.
        spread: largest minus smallest load.
        idle: number of members without partitions that could own some.
        moved: number of partitions with a new owner that did not own them before; partitions
            without previous owner do not count.
        avoidable: moves that no valid plan with loads at least as even needs: moves minus the
            fewest moves of any valid plan whose sorted loads are majorised by this one's. None if
            the assignment breaks a rule or the problem is too large.
        best_largest: largest load of the most even valid plan; least-majorised, so that no valid
            plan has a smaller largest, a larger smallest or a smaller sum of squares.
        best_smallest: smallest load of the most even valid plan.
        best_spread: largest minus smallest load of the most even valid plan.
        fewest_moves_to_best: the fewest moves of a plan with the best loads.
        load_spread: largest minus smallest sum of partition weights per unit of member weight; None
            unless weights are given.
        rack_mismatches: number of owned partitions with replicas on known racks, none of which is
            the rack of the owner; owners without rack do not count.
        colocation: share of partition numbers of co-partitioned topics whose partitions have the
            same owner in all these topics; None without such topics. Co-partitioned topics have
            equal partition numbers and equal subscribers.
        refused: why the best loads, or the fewest moves, were not computed.
    """

    partitions: int
    unowned: int
    largest: int | None
    smallest: int | None
    spread: int | None
    idle: int
    moved: int
    avoidable: int | None = None
    best_largest: int | None = None
    best_smallest: int | None = None
    best_spread: int | None = None
    fewest_moves_to_best: int | None = None
    load_spread: float | None = None
    rack_mismatches: int = 0
    colocation: float | None = None
    refused: str | None = None

    def to_dict(self) -> dict[str, int | float | str | None]:
        """Return the measured values as a dict by name.

        For example, ``{"partitions": 12, "unowned": 0, ...}``.
        """
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentCounts:
    """Owner of each partition and number of partitions of each member in an assignment, as arrays.

    The assignment may be invalid: members and partitions that do not exist are left out.

    Attributes:
        partition, member: int64[n], the distinct (partition, owner) pairs.
        owner: int64[partitions], the owner of each partition, -1 for none and -2 for several.
        loads: int64[members], number of partitions of each member.
        valid: whether each existing partition with subscribers has one owner, which subscribes, and
            no other partition has an owner, not even one that is not in the group.
    """

    partition: NDArray[np.int64]
    member: NDArray[np.int64]
    owner: NDArray[np.int64]
    loads: NDArray[np.int64]
    valid: bool


def count_by_member(assignment: Assignment, group_arrays: Facts) -> AssignmentCounts:
    """Count the partitions of each member in an assignment, and find the owner of each partition.

    The assignment may be invalid; members and partitions that do not exist are left out.
    ``group_arrays`` has the members' subscriptions and the partitions.
    """
    sole = sole_owners(assignment, group_arrays.problem)
    if sole is not None:
        return _tally_sole_owners(assignment, sole, group_arrays)
    entries = assignment_entries(assignment, group_arrays.problem)
    partition, member = entries.owned_pairs(group_arrays.problem.cluster.partition_exists)
    owner = np.full(len(group_arrays.is_open), NOBODY, np.int64)
    owner[partition] = member
    owner[np.bincount(partition, minlength=len(owner)) > 1] = SEVERAL
    loads = np.bincount(member, minlength=group_arrays.member_count).astype(np.int64)
    strangers = entries.partition[entries.owning & (entries.member < 0)]
    strangers = strangers[strangers >= 0]
    valid = (
        np.array_equal(owner >= 0, group_arrays.is_open)
        and bool(group_arrays.is_subscribed(member, partition).all())
        and not group_arrays.problem.cluster.partition_exists[strangers].any()
    )
    return AssignmentCounts(partition, member, owner, loads, valid)


def _tally_sole_owners(
    assignment: Assignment, owner: NDArray[np.int64], group_arrays: Facts
) -> AssignmentCounts:
    """Count the partitions of each member in an assignment in which no partition has two owners.

    It gives the same result as `count_by_member`, but is faster. ``owner`` has the owner of each
    partition, -1 for none (int64[partitions]).
    """
    is_owned = owner >= 0
    partition = is_owned.nonzero()[0]
    member = owner[partition]
    valid = not np.count_nonzero(is_owned != group_arrays.is_open)
    if valid and len(group_arrays.problem.group.subscriptions) > 1:  # else every owner subscribes
        valid = bool(group_arrays.is_subscribed(member, partition).all())
    loads = (assignment.start[1:] - assignment.start[:-1]).astype(np.int64)
    return AssignmentCounts(partition, member, owner, loads, valid)


def measure(
    assignment: Assignment,
    group: Group,
    cluster: Cluster,
    *,
    previous: Assignment | None = None,
    partition_weight: ArrayLike | None = None,
    best: ClaimedBest | None = None,
    fewest: ClaimedFewest | None = None,
    fewest_to_best: ClaimedFewest | None = None,
    refused: str | None = None,
) -> Measures:
    """Measure an assignment of partitions: loads, moves, racks, and its distance to the optimum.

    Recorded and invalid assignments can be measured, too. The optimum must be given as a claim with
    its proof.

    Args:
        assignment: a plan, or a recorded assignment.
        group: the members; the partitions that they report as owned are the previous assignment.
        cluster: the partitions, racks included.
        previous: the previous assignment, if known; it replaces what the members report.
        partition_weight: float[partitions], the load of each partition.
        best: a plan that is claimed to have the most even loads, with its certificate.
        fewest: a plan that is claimed to have the fewest moves with loads at least as even, with
            its certificate.
        fewest_to_best: the claim that a plan has the fewest moves of all with the best loads.
        refused: why a claim is missing (for the result).

    Raises:
        CertificateError: a claim is not proven by its certificate.
        InvalidProblemError: the weights are malformed.

    >>> from partage.model import Member
    >>> cluster = Cluster.from_topics({"t": 3})
    >>> group = Group([Member("x", ["t"], owned={"t": [1]}), Member("y", ["t"])])
    >>> record = Assignment.of(cluster.index, {"x": {"t": [0]}, "y": {"t": [1]}})
    >>> found = measure(record, group, cluster)
    >>> found.spread, found.moved, found.unowned
    (0, 1, 1)
    """
    group_arrays = Facts(Problem(group, cluster))
    counted = count_by_member(assignment, group_arrays)
    old_owners = previous_owners(group_arrays.problem, previous)
    weight = None
    if partition_weight is not None:
        weight = PartitionWeights.of(partition_weight, len(group_arrays.is_open))
    found = measure_balance(group_arrays, counted, old_owners, partition_weight=weight)
    fewest_moves = None
    if fewest is not None and counted.valid:
        fewest_moves = verify_moves_certificate(group_arrays, old_owners, counted.loads, fewest)
    best_loads = None if best is None else verify_load_certificate(group_arrays, best)
    to_best = None
    if best_loads is not None and fewest_to_best is not None:
        to_best = verify_moves_certificate(group_arrays, old_owners, best_loads, fewest_to_best)
    found = replace(found, fewest_moves_to_best=to_best, refused=refused)
    return add_optimum(found, group_arrays, best_loads, fewest_moves)


def add_optimum(
    measures: Measures,
    group_arrays: Facts,
    best_loads: NDArray[np.int64] | None,
    fewest_moves: int | None,
) -> Measures:
    """Return the measured values of an assignment, completed by its distance to the optimum.

    The distance follows from the best possible loads and the fewest possible moves.

    Args:
        measures: the measured values of the assignment, without an optimum.
        group_arrays: the members' subscriptions and the partitions, as arrays.
        best_loads: int64[members], the proven most even loads; None if not known.
        fewest_moves: the proven fewest moves of any valid plan with loads at least as even; None if
            not known.
    """
    smallest, largest, spread = load_extremes(group_arrays, best_loads)
    return replace(
        measures,
        avoidable=None if fewest_moves is None else measures.moved - fewest_moves,
        best_smallest=smallest,
        best_largest=largest,
        best_spread=spread,
    )


def measure_balance(
    group_arrays: Facts,
    counts: AssignmentCounts,
    old_owners: PreviousOwners,
    *,
    partition_weight: PartitionWeights | None = None,
) -> Measures:
    """Measure the loads, moves and rack mismatches of an assignment, without the optimum.

    `add_optimum` adds the best possible values.

    Args:
        group_arrays: the members' subscriptions and the partitions, as arrays.
        counts: owner of each partition and load of each member, see `count_by_member`.
        old_owners: the previous owners of the partitions.
        partition_weight: the load of each partition; None if all are equal.
    """
    loads = counts.loads[group_arrays.takes_part]
    smallest, largest, spread = _extremes(loads)
    partitions = int(np.count_nonzero(counts.owner != NOBODY))
    moved = count_moves(old_owners, counts.owner)
    if len(counts.partition) > partitions:
        moved += _moved_to_several(old_owners.owned, counts)
    return Measures(
        partitions=partitions,
        unowned=0 if counts.valid else _count_unowned(group_arrays, counts.owner),
        largest=largest,
        smallest=smallest,
        spread=spread,
        idle=len(loads) - int(np.count_nonzero(loads)),
        moved=moved,
        load_spread=_load_spread(group_arrays, counts, partition_weight),
        rack_mismatches=_rack_mismatches(group_arrays, counts),
        colocation=_colocated_fraction(group_arrays, counts.owner),
    )


def load_extremes(
    group_arrays: Facts, loads: NDArray[np.int64] | None
) -> tuple[int, int, int] | tuple[None, None, None]:
    """Return the smallest and the largest number of partitions of a member, and their difference.

    Only members that subscribe to an existing partition count. Without such members, all three are
    None.

    Args:
        group_arrays: the members' subscriptions and the partitions, as arrays.
        loads: int64[members], each member's number of partitions; None if not known.
    """
    return (None, None, None) if loads is None else _extremes(loads[group_arrays.takes_part])


def _count_unowned(group_arrays: Facts, owner: NDArray[np.int64]) -> int:
    return int(np.count_nonzero(group_arrays.is_open & (owner == NOBODY)))


def _moved_to_several(owned: NDArray[np.bool_], counted: AssignmentCounts) -> int:
    # At least one of several owners is new.
    return int(np.count_nonzero(owned & (counted.owner == SEVERAL)))


def _extremes(loads: NDArray[np.int64]) -> tuple[int, int, int] | tuple[None, None, None]:
    if len(loads) == 0:
        return None, None, None
    # Several times faster than min and max for small arrays.
    low, high = int(loads[loads.argmin()]), int(loads[loads.argmax()])
    return low, high, high - low


def member_loads(
    assignment: Assignment, group: Group, cluster: Cluster, partition_weight: ArrayLike
) -> NDArray[np.float64]:
    """Return the load of each member of a group: the sum of the weights of its partitions.

    A weight is, for example, the number of records per second of a partition.

    Args:
        assignment: a plan, or a recorded assignment.
        group: the consumer group with its members.
        cluster: the topics and partitions.
        partition_weight: float[partitions], the load of each partition; or float[times,
            partitions], one row for each of several times.

    Returns:
        float64[members], or float64[times, members], in the order of the group.

    Raises:
        InvalidProblemError: the weights are malformed.

    >>> from partage.model import Member
    >>> cluster = Cluster.from_topics({"t": 3})
    >>> group = Group([Member("x", ["t"]), Member("y", ["t"])])
    >>> plan = Assignment.of(cluster.index, {"x": {"t": [0, 2]}, "y": {"t": [1]}})
    >>> member_loads(plan, group, cluster, [5, 1, 2]).tolist()
    [7.0, 1.0]
    """
    group_arrays = Facts(Problem(group, cluster))
    counted = count_by_member(assignment, group_arrays)
    weight = _as_numbers(partition_weight)
    if weight.ndim not in (1, 2):
        raise InvalidProblemError("must be float[P] or float[T, P]", path="partition_weight")
    size = len(group_arrays.is_open)
    found = [
        _weighted_loads(group_arrays, counted, PartitionWeights.of(row, size))
        for row in np.atleast_2d(weight)
    ]
    return found[0] if weight.ndim == 1 else np.array(found).reshape(-1, group_arrays.member_count)


@dataclass(frozen=True, slots=True, eq=False)
class PartitionWeights:
    """Load of each partition, checked once for the measurements of many assignments.

    Attributes:
        values: float64[partitions], finite and not negative.
    """

    values: NDArray[np.float64]

    @classmethod
    def of(cls, partition_weight: ArrayLike, partitions: int) -> PartitionWeights:
        """Check that there is one finite, non-negative number for each of the partitions.

        Raises:
            InvalidProblemError: the weights are malformed.
        """
        weight = _as_numbers(partition_weight)
        # A NaN fails both comparisons.
        is_valid = weight.min(initial=0) >= 0 and weight.max(initial=0) < np.inf
        if weight.shape != (partitions,) or not is_valid:
            what = f"must be {partitions} finite numbers, none negative"
            raise InvalidProblemError(what, path="partition_weight", value=weight)
        return cls(weight)


def _load_spread(
    group_arrays: Facts, counts: AssignmentCounts, partition_weight: PartitionWeights | None
) -> float | None:
    """Return the difference between the largest and the smallest relative load of members.

    A relative load is the load divided by the member's weight; members of weight 0 do not count.
    The result is None if no member counts, or if neither partitions nor members have weights.
    """
    if partition_weight is None and group_arrays.has_equal_weights:
        return None
    weight = partition_weight or PartitionWeights(np.ones(len(group_arrays.is_open)))
    relative = _weighted_loads(group_arrays, counts, weight)[group_arrays.takes_part]
    if not group_arrays.has_equal_weights:
        share = group_arrays.member_weights[group_arrays.takes_part]
        relative = relative[share > 0] / share[share > 0]
    if not len(relative):
        return None
    return float(relative[relative.argmax()] - relative[relative.argmin()])


def _as_numbers(partition_weight: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.asarray(partition_weight, float)
    except (TypeError, ValueError, OverflowError):
        what = "must be numbers, one for each partition"
        raise InvalidProblemError(what, path="partition_weight", value=partition_weight) from None


def _weighted_loads(
    group_arrays: Facts, counts: AssignmentCounts, partition_weights: PartitionWeights
) -> NDArray[np.float64]:
    # The load of each member: the sum of the weights of its partitions.
    load = np.bincount(
        counts.member,
        partition_weights.values[counts.partition],
        minlength=group_arrays.member_count,
    )
    return load.astype(float, copy=False)


def _rack_mismatches(group_arrays: Facts, counted: AssignmentCounts) -> int:
    problem = group_arrays.problem
    if not problem.group.has_racks:
        return 0
    start, rack = (array.astype(np.int64) for array in problem.cluster.partition_racks)
    mine = problem.member_rack.astype(np.int64)[counted.member]
    # -1: the member has no rack; -2: no broker stands on its rack, which no replica can match.
    known = (np.diff(start)[counted.partition] > 0) & (mine != -1)
    wide = len(problem.cluster.rack_names) + 2
    of = np.repeat(np.arange(len(start) - 1), np.diff(start))
    there = np.isin(counted.partition * wide + (mine + 2), of * wide + (rack + 2))
    return int(np.count_nonzero(known & ~there))


def _colocated_fraction(group_arrays: Facts, owner: NDArray[np.int64]) -> float | None:
    """Return the fraction of partition numbers that have one owner in all co-partitioned topics.

    Co-partitioned topics have equal partition numbers and equal subscribers. ``group_arrays`` lists
    them; ``owner`` is the owner of each partition, -1 for none (int64[partitions]).
    """
    together = total = 0
    for topics in group_arrays.co_partitioned:
        owners = owner[topics]
        one = (owners == owners[0]).all(axis=0) & (owners[0] >= 0)
        together += int(np.count_nonzero(one))
        total += len(one)
    return together / total if total else None
