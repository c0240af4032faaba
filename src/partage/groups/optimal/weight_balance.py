"""A good plan by weights: unequal shares, capacities or a limit of moves, by local search.

Items are partitions, or sets of partitions that must have one owner. The search starts from the
claims, the partitions that members owned (`partage.solve.assignment.local_search`). Within a limit
of moves a tabu search lowers the largest load further (`tabu_search`). Small problems are solved
exactly (`branch_and_bound`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from partage.groups.optimal.problem import CanonicalProblem, Int64Array, PartitionClasses
from partage.groups.optimal.topic_spread import spread_topics, topic_excess
from partage.model import RackTable
from partage.model.index import Int32Array
from partage.solve import SubscriptionClasses
from partage.solve.assignment.bounds import (
    WeightedProblem,
    fractional_loads,
    largest_bound_within_moves,
    largest_load_bound,
)
from partage.solve.assignment.branch_and_bound import MOST_ITEMS, solve_exactly
from partage.solve.assignment.local_search import improve_plan
from partage.solve.assignment.tabu_search import lower_largest_load
from partage.solve.assignment.weighted_plan import Items, Members, WeightedPlan

__all__ = ["Shares", "WeightPlan", "balance_weights", "member_shares", "scale_to_integers"]

#: Sums of weights stay exact below this.
_EXACT = 1 << 50


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """Desired share of the total load, and capacity, of each member of a consumer group.

    The load of a member is the sum of the weights of its partitions. Its share is proportional to
    the member's own weight.

    Attributes:
        speed: float64[M], the member's weight; 1 for members of weight 0.
        capacity: float64[M], the greatest load that the member should have; 0 for members of weight
            0.
        draining: bool[M], members of weight 0, which should own nothing.
    """

    speed: NDArray[np.float64]
    capacity: NDArray[np.float64]
    draining: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class WeightPlan:
    """Assignment with the most even weighted loads that the local search found.

    A member's weighted load is the sum of the weights of its partitions. The assignment need not be
    optimal, because balancing weights is NP-hard.

    Attributes:
        owner: int32[n], owner of each partition; partitions and owners are indices in canonical
            order.
        weighted: weights of partitions, shares and capacities of members.
        complete: whether the search ended before its limit of work.
    """

    owner: Int32Array
    weighted: WeightedProblem
    complete: bool = True


def scale_to_integers(weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Multiply weights by a power of two that makes them integers.

    Sums of integers are exact, so loads can be compared without rounding errors. Return the new
    weights and the factor, which is 1.0 if the weights are integers already.

    >>> scale_to_integers(np.array([1.0, 2.0]))[1]
    1.0
    """
    total = float(weight.sum())
    if total <= 0 or (total < _EXACT and bool((np.rint(weight) == weight).all())):
        return weight, 1.0
    scale = float(2.0 ** np.floor(np.log2(_EXACT / total)))
    return np.rint(weight * scale), scale


def member_shares(canonical: CanonicalProblem, scale: float) -> Shares:
    """Return each member's desired share of the total load, and its capacity.

    They come from the members' own weight and capacity. A member of weight 0 should own nothing.

    Args:
        canonical: the problem, whose order of members the result has.
        scale: factor by which capacities are multiplied.
    """
    group = canonical.problem.group
    weight = np.array([m.weight for m in group], float)[canonical.order]
    limit = [np.inf if m.capacity is None else m.capacity for m in group]
    capacity = np.array(limit, float)[canonical.order] * scale
    draining = weight <= 0
    return Shares(np.where(draining, 1.0, weight), np.where(draining, 0.0, capacity), draining)


def balance_weights(
    canonical: CanonicalProblem,
    racks: RackTable | None,
    partition_weights: NDArray[np.float64],
    *,
    shares: Shares,
    together: Int64Array | None,
    hints: Mapping[int, int],
    most_moves: float,
    tolerance: float,
) -> WeightPlan:
    """Balance the members' weighted loads by local search, within a limit of moved partitions.

    The search starts from the owned partitions. Small problems of up to 16 partitions are then
    solved exactly.

    Args:
        canonical: the problem, with members and partitions sorted independently of the join order.
        racks: costs of consuming across racks; None if they do not matter.
        partition_weights: float64[n], the integer weight of each partition.
        shares: members' shares and capacities.
        together: int64[T], number of each topic's co-location set, -1 for none: partitions with the
            same number in topics of a set must have the same owner.
        hints: by partition, the owner that the previous rebalance chose for later.
        most_moves: limit of owned partitions that may move.
        tolerance: the least gain that is worth a move, as a fraction of a member's mean load.
    """
    item = _number_owner_sets(canonical, together)
    count = int(item.max(initial=-1)) + 1
    if not count:
        nothing = WeightedProblem(
            canonical.classes, partition_weights, item, shares.speed, shares.capacity, 0
        )
        return WeightPlan(np.full(canonical.partition_count, -1, np.int32), nothing)
    first = np.zeros(count, np.int64)
    first[item[::-1]] = np.arange(canonical.partition_count)[::-1]
    subscription_classes = canonical.classes
    kind = subscription_classes.topic[canonical.topic][first]
    column, cost, profile = _rack_costs(canonical, racks, item, count)
    key = np.stack(
        [
            subscription_classes.member.astype(float), column.astype(float), shares.speed,
            shares.capacity, shares.draining.astype(float),
        ],
        axis=1,
    )  # fmt: skip
    distinct, group = np.unique(key, axis=0, return_inverse=True)
    group = np.where(subscription_classes.member >= 0, group.reshape(-1), -1)
    open_groups = _open_groups(subscription_classes, distinct[:, 0].astype(int).tolist())
    owned, homes = _count_owned_by_item(canonical, item, count)
    loads = np.bincount(item, partition_weights, count).astype(float)
    items = Items(loads, kind, open_groups, cost, profile, owned, homes)
    draining = shares.draining if shares.draining.any() else None
    members_of_items = Members(
        group, distinct[:, 1].astype(int).tolist(), shares.speed, shares.capacity, draining
    )
    by_item = {int(item[row]): place for row, place in hints.items()}
    weighted = WeightedProblem(
        subscription_classes, items.weight, kind, shares.speed, shares.capacity, 0.0
    )
    share = _fractional_shares(weighted, shares.draining)
    found = improve_plan(
        items, members_of_items,
        hints=by_item, most_moves=most_moves, tolerance=tolerance, fractional_loads=share,
    )  # fmt: skip
    plan = found.plan
    if np.isfinite(most_moves) and count > MOST_ITEMS and not hints and not _are_counts(weighted):
        plan = lower_largest_load(plan, _largest_load_bound(plan, weighted, shares.draining))
    best = plan.owner.tolist()
    if not tolerance:
        best = solve_exactly(items, members_of_items, best, most_moves=plan.most_moves)
    owner = np.array(best, np.int32)[item]
    if count == canonical.partition_count and not hints:
        alike = subscription_classes.topic[canonical.topic] * len(cost) + profile
        # An exchange for a lower rack cost may need more moves than a limit allows.
        unlimited = racks is None or np.isinf(most_moves)
        classes = (
            PartitionClasses.for_problem(canonical, subscription_classes, racks)
            if unlimited
            else None
        )
        owner = spread_topics(canonical, owner, partition_weights, alike, classes)
        if not tolerance:
            owner = _find_evenest_small_plan(canonical, owner, plan)
    return WeightPlan(owner, weighted, found.complete)


def _are_counts(weighted: WeightedProblem) -> bool:
    # Equal partitions on equal members, which `move_limit` balances exactly.
    values = (weighted.weight, weighted.speed, weighted.capacity)
    return all(bool((one == one[0]).all()) for one in values)


def _largest_load_bound(
    plan: WeightedPlan, weighted: WeightedProblem, draining: NDArray[np.bool_]
) -> float:
    """Return a lower bound of the largest relative load if only a limited number of partitions
    move.

    A relative load is a load divided by the member's weight. The tabu search can stop when it
    reaches the bound. Members of weight 0 (``draining``, bool[M]) do not count.
    """
    items = plan.items
    unavoidable = int(items.owned.sum()) - sum(
        max(homes.values()) for homes in items.homes.values()
    )
    sole = [(i, m) for i, homes in items.homes.items() if len(homes) == 1 for m in homes]
    item, keeper = np.array(sole, np.int64).reshape(-1, 2).T
    speed = np.where(draining, 0.0, weighted.speed)
    within = largest_bound_within_moves(
        weighted.weight[item], keeper, speed, int(plan.most_moves) - unavoidable
    )
    return max(within, largest_load_bound(weighted).value)


def _find_evenest_small_plan(
    canonical: CanonicalProblem, owner: Int32Array, plan: WeightedPlan
) -> Int32Array:
    """Find the assignment that spreads topics most evenly, with the same loads, rack cost and
    moves.

    It is found by branch and bound if there are at most 16 partitions. Otherwise, or if nothing can
    be improved, ``owner`` is returned.
    """
    moved = bool((canonical.current_claims.keeper != owner).any())
    if not moved or len(canonical.former_owners[0]) or not topic_excess(canonical, owner):
        # Nothing is compared if no partition moves or if former owners must be considered.
        return owner
    best = solve_exactly(
        plan.items, plan.members, owner.tolist(),
        most_moves=plan.most_moves, topic=canonical.topic.tolist(),
    )  # fmt: skip
    return np.array(best, np.int32)


def _open_groups(classes: SubscriptionClasses, class_of: list[int]) -> list[list[int]]:
    subscribers: list[set[int]] = [set() for _ in classes.supply]
    for t, m in zip(classes.arc_topic.tolist(), classes.arc_member.tolist(), strict=True):
        subscribers[t].add(m)
    return [[g for g, c in enumerate(class_of) if c in of_topic] for of_topic in subscribers]


def _fractional_shares(
    weighted: WeightedProblem, draining: NDArray[np.bool_]
) -> NDArray[np.float64] | None:
    # Loads of the linear relaxation, which may split partitions. Members of weight 0 get infinity,
    # so that they exceed no share.
    if not draining.any():
        return fractional_loads(weighted)
    share = fractional_loads(replace(weighted, speed=np.where(draining, 0.0, weighted.speed)))
    return None if share is None else np.where(draining, np.inf, share)


def _number_owner_sets(canonical: CanonicalProblem, together: Int64Array | None) -> Int64Array:
    """Return for each partition the number of its set of partitions with one owner (int64[n]).

    A set has the partitions with the same number in co-located topics, which must have the same
    owner. Any other partition is a set by itself.
    """
    if together is None or not (together >= 0).any():
        return np.arange(canonical.partition_count)
    family = together[canonical.topic]
    number = canonical.problem.index.number_of[canonical.rows.partition].astype(np.int64)
    alone = family < 0
    wide = int(number.max(initial=0)) + 1
    key = np.where(alone,
                   np.arange(canonical.partition_count) + wide * (int(family.max(initial=-1)) + 1),
                   family * wide + number)  # fmt: skip
    _, first, item = np.unique(key, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[item.reshape(-1)]


def _rack_costs(
    canonical: CanonicalProblem,
    racks: RackTable | None,
    item_of_partition: Int64Array,
    item_count: int,
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the costs of consuming from other racks, for sets of partitions with one owner.

    Co-located partitions form such a set (an item); its cost is the sum over its partitions. The
    result has the column of each member, the cost matrix, and the row of each item.
    """
    if racks is None:
        nothing = np.zeros(item_count, np.int64)
        return np.zeros(canonical.member_count, np.int64), np.zeros((1, 1), np.int64), nothing
    column = racks.row[canonical.order] % racks.cost.shape[1]
    profile = racks.profile[canonical.rows.partition]
    if item_count == canonical.partition_count:
        return column, racks.cost, profile
    table = np.zeros((item_count, racks.cost.shape[1]), np.int64)
    np.add.at(table, item_of_partition, racks.cost[profile])
    return column, table, np.arange(item_count)


def _count_owned_by_item(
    canonical: CanonicalProblem, item_of_partition: Int64Array, item_count: int
) -> tuple[Int64Array, dict[int, dict[int, int]]]:
    """Count the owned partitions in each item: a set of partitions that must have the same owner.

    The local search needs the numbers to count moves. The result has the number of owned partitions
    of each item, and for each item the number of its partitions that each previous owner may keep.
    """
    claims = canonical.current_claims
    owned = np.bincount(item_of_partition[claims.owned], minlength=item_count).astype(np.int64)
    homes: dict[int, dict[int, int]] = {}
    sole = np.flatnonzero(claims.keeper >= 0)
    pairs = [(sole, claims.keeper[sole].astype(np.int64))]
    pairs.append((np.repeat(claims.contested, np.diff(claims.start)), claims.keepers))
    for rows, places in pairs:
        for i, m in zip(item_of_partition[rows].tolist(), places.tolist(), strict=True):
            mine = homes.setdefault(i, {})
            mine[m] = mine.get(m, 0) + 1
    return owned, homes
