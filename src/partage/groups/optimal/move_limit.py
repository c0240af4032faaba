"""The best plan by counts within a limit of moves: minimum-cost flow and Lagrangian relaxation.

The loads are exact (`partage.solve.assignment.limited_moves`), with a closed form where all
partitions and all members are equivalent. Where racks matter, "least rack cost within the limit"
has a side constraint. It is solve by Lagrangian relaxation: bisection finds the multiplier, which
also bounds the rack cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partage.groups.optimal.count_balance import (
    AssignmentOrder,
    TransportArcs,
    assign_remaining,
    keep_partitions,
    release_excess,
    repeat_members,
)
from partage.groups.optimal.problem import CanonicalProblem, Int64Array, PartitionClasses
from partage.groups.optimal.topic_spread import spread_topics
from partage.model import RackTable
from partage.model.index import Int32Array
from partage.solve import (
    CheapestPlan,
    SubscriptionClasses,
    TransportProblem,
    find_cheapest_plan,
    find_even_loads,
)
from partage.solve.assignment.limited_moves import find_limited_loads

__all__ = ["LimitedPlan", "balance_within_limit"]

#: Weight of one unit of rack cost; multipliers of moves are whole numbers of it.
_RACK_UNIT = 60
#: Limit of bisection steps, each one minimum-cost flow.
_MOST_ROUNDS = 24


@dataclass(frozen=True, slots=True, eq=False)
class LimitedPlan:
    """Best assignment within a limit of moved partitions, with numbers that prove it optimal.

    The numbers are dual prices of the minimum-cost flow that found the assignment; a verifier
    computes lower bounds from them.

    Attributes:
        owner: int32[n], the owner of each partition, as the member's index in canonical order.
        proofs: (load level, int64[M] dual prices of members) pairs, which prove the loads; see
            `partage.solve.assignment.limited_moves.LimitedLoads`.
        price: int64[M], dual prices of members, which prove a lower bound of ``rack_weight`` * rack
            cost + ``move_weight`` * moves.
        rack_weight: weight of one unit of rack cost.
        move_weight: weight of one move.
    """

    owner: Int32Array
    proofs: tuple[tuple[int, Int64Array], ...]
    price: Int64Array
    rack_weight: int
    move_weight: int


def balance_within_limit(
    canonical: CanonicalProblem,
    racks: RackTable | None,
    together: Int64Array | None,
    max_moves: int,
) -> LimitedPlan:
    """Assign partitions as evenly as possible, if only a limited number of them may move.

    It is slower than `balance_counts`, so it is only called if the most even assignment needs more
    moves than the limit.

    Args:
        canonical: the problem, with members and partitions sorted independently of the join order.
        racks: costs of consuming from other racks; None if they do not matter.
        together: int64[T], number of each topic's co-location set (see `balance_counts`), or None.
        max_moves: the limit of moves, at least the number that no plan can avoid.

    Raises:
        ProblemTooLargeError: the exact answer would take too long.
    """
    claims = canonical.current_claims
    subscription_classes = canonical.classes
    classes = PartitionClasses.for_problem(canonical, subscription_classes, racks)
    assignment_order = AssignmentOrder.for_problem(canonical, together)
    if len(classes.topic_class) <= 1 and classes.groups <= 1 and not len(claims.contested):
        # One class means equal rack costs everywhere: any positive weight proves their sum.
        weight = 0 if racks is None else 1
        return _balance_equivalent(
            canonical, subscription_classes, assignment_order, max_moves, weight
        )
    best, _, _ = find_even_loads(subscription_classes)
    owned = int(np.count_nonzero(claims.owned))
    plain = TransportArcs.from_classes(classes, claims, subscription_classes, 0, 1)
    found = find_limited_loads(_transport_problem(classes, plain, best), owned - max_moves)
    if racks is None:
        arcs, flow = plain, find_cheapest_plan(_transport_problem(classes, plain, found.loads))
        rack_weight, move_weight = 0, 1
    else:
        arcs, flow, rack_weight, move_weight = _minimise_rack_cost(
            classes, canonical, subscription_classes, found.loads, max_moves
        )
    owner = np.full(canonical.partition_count, -1, np.int32)
    keep_partitions(owner, arcs, flow.kept)
    assign_remaining(owner, assignment_order, arcs, classes.group, flow)
    if together is None:
        # With racks the plan need not have the fewest moves at its rack cost.
        plain_classes = classes if racks is None else None
        owner = spread_topics(canonical, owner, None, classes.of_row, plain_classes)
    return LimitedPlan(owner, found.proofs, flow.price, rack_weight, move_weight)


def _transport_problem(
    classes: PartitionClasses, arcs: TransportArcs, loads: Int64Array
) -> TransportProblem:
    return TransportProblem(
        arcs.supply, classes.group, classes.groups, arcs.keep_class, arcs.keep_member,
        arcs.keep_most, arcs.keep_cost, arcs.free_class, arcs.free_group, arcs.free_cost, loads,
    )  # fmt: skip


def _minimise_rack_cost(
    classes: PartitionClasses,
    canonical: CanonicalProblem,
    subscription_classes: SubscriptionClasses,
    loads: Int64Array,
    max_moves: int,
) -> tuple[TransportArcs, CheapestPlan, int, int]:
    """Find the flow from partitions to members with the least rack cost within a limit of moves.

    This is a Lagrangian relaxation: a bisection finds the weight of a move at which the flow
    satisfies the limit. The result has the arcs, the flow, the weight of rack cost and the weight
    of a move.
    """
    claims = canonical.current_claims
    owned = int(np.count_nonzero(claims.owned))

    def solve(rack_weight: int, move_weight: int) -> tuple[TransportArcs, CheapestPlan, int]:
        arcs = TransportArcs.from_classes(
            classes, claims, subscription_classes, rack_weight, move_weight
        )
        flow = find_cheapest_plan(_transport_problem(classes, arcs, loads))
        return arcs, flow, owned - int(flow.kept.sum())

    # Rack cost first: exact if the limit holds.
    arcs, flow, moves = solve(owned + 1, 1)
    if moves <= max_moves:
        return arcs, flow, owned + 1, 1
    # Beyond this multiplier a move outweighs all rack cost there can be.
    low, high = 0, _RACK_UNIT * (int(classes.cost.max(initial=0)) * canonical.partition_count + 1)
    best = solve(_RACK_UNIT, high)
    for _ in range(_MOST_ROUNDS):
        middle = (low + high) // 2 if high < 64 * _RACK_UNIT else max(low + 1, high // 16)
        if middle in {low, high}:
            break
        found = solve(_RACK_UNIT, middle)
        if found[2] <= max_moves:
            high, best = middle, found
        else:
            low = middle
    return best[0], best[1], _RACK_UNIT, high


def _balance_equivalent(
    canonical: CanonicalProblem,
    subscription_classes: SubscriptionClasses,
    assignment_order: AssignmentOrder,
    max_moves: int,
    rack_weight: int,
) -> LimitedPlan:
    """Return the most even assignment within a limit of moves, for equal subscriptions.

    Each move takes a partition from one of the members with the most partitions, so no minimum-cost
    flow is needed. ``rack_weight`` is the weight of one unit of rack cost in the proof of
    optimality.
    """
    claims = canonical.current_claims
    place = np.flatnonzero(subscription_classes.member >= 0)
    owner = claims.keeper.copy()
    has = np.bincount(owner[owner >= 0], minlength=canonical.member_count)
    forced = int(np.count_nonzero(claims.owned & (claims.keeper == -1)))
    quota, top = _lower_largest(has, max_moves - forced)
    release_excess(owner, has, quota)
    pool = assignment_order.without_owner(owner)
    load = _raise_smallest(quota[place], len(pool))
    owner[pool] = repeat_members(
        place, load - quota[place], np.zeros_like(place), in_blocks=assignment_order.in_blocks
    )
    reached = np.zeros(canonical.member_count, np.int64)
    reached[place] = load
    floor = int(load.min()) if len(load) else 0
    proofs = []
    everything = np.full(canonical.member_count, canonical.partition_count + 1, np.int64)
    for j in np.unique(load[load > 0]).tolist():
        # Levels that the assigned partitions fill are full; above them owners exceed their share.
        prices = everything if j <= floor + 1 else (has >= j).astype(np.int64)
        proofs.append((j, prices))
    return LimitedPlan(owner, tuple(proofs), (has >= top).astype(np.int64), rack_weight, 1)


def _lower_largest(has: Int64Array, moves: int) -> tuple[Int64Array, int]:
    low, high = 0, int(has.max(initial=0))
    while low < high:
        middle = (low + high) // 2
        if int(np.maximum(has - middle, 0).sum()) <= moves:
            high = middle
        else:
            low = middle + 1
    quota = np.minimum(has, low)
    rest = moves - int((has - quota).sum())
    fullest = np.flatnonzero(has >= low)
    quota[fullest[len(fullest) - min(rest, len(fullest)) :]] -= 1
    return quota, low


def _raise_smallest(load: Int64Array, more: int) -> Int64Array:
    low = int(load.min()) if len(load) else 0
    high = low + more
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.maximum(middle - load, 0).sum()) <= more:
            low = middle
        else:
            high = middle - 1
    out = np.maximum(load, low)
    lowest = np.flatnonzero(out == low)
    out[lowest[: more - int((out - load).sum())]] += 1
    return out
