"""Certificates of `optimal`: a plan's values, bounds that no plan can beat, and their proofs.

A figure is the value of one criterion, such as "spread" or "moves". Three functions cover the three
solvers: `certify_counts`, `certify_limited`, `certify_weights`. `partage.judge.verify_certificate`
verifies the results from the problem alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from partage.groups.optimal.count_balance import CountPlan
from partage.groups.optimal.move_limit import LimitedPlan
from partage.groups.optimal.problem import CanonicalProblem, Int64Array
from partage.groups.optimal.topic_spread import topic_excess
from partage.groups.optimal.weight_balance import Shares, WeightPlan
from partage.model import Certificate, RackCosts, RackTable
from partage.model.certificate import TOPIC_EXCESS, cost_bounds
from partage.model.index import Int32Array
from partage.solve.assignment.bounds import (
    Bound,
    WeightedProblem,
    largest_bound_within_moves,
    largest_load_bound,
    overload_bound,
)

__all__ = [
    "certify_counts",
    "certify_limited",
    "certify_weights",
    "count_forced_moves",
    "count_moves",
    "owner_in_index_order",
    "sum_rack_cost",
]


_BOUND_REASONS = {
    "cut": "only {members} members subscribe to {topics} topics and must bear their weight",
    "heaviest": "one member must own the heaviest partition (or set of partitions with one owner)",
    "crowd": "one of {members} members must own {most} or more of the heaviest of {topics} topics",
    "moves": "with so few moves a member keeps this much of the partitions that it owns",
    "none": "no load is below zero",
}
_COST_REASON = "rack cost, moves: partitions cost at least this at the members' dual prices"


def certify_counts(
    canonical: CanonicalProblem,
    count_plan: CountPlan,
    costs: RackCosts | None,
    rack_costs: RackTable | None,
) -> Certificate:
    """Prove that an assignment is optimal in partition counts, rack cost and moves.

    Rack cost is the cost of consuming from other racks. The proof consists of dual values of the
    minimum-cost flow that found the assignment: numbers from which a lower bound of the cost is
    easily computed. `partage.judge.verify_certificate` does so without the solver.

    Args:
        canonical: the problem, with members and partitions sorted independently of the join order.
        count_plan: the plan, with the dual values of the minimum-cost flow that found it.
        costs: the costs of consuming across racks; None if they do not matter.
        rack_costs: these costs by partition and member.
    """
    loads = np.bincount(count_plan.owner, minlength=canonical.member_count)[canonical.takes_part]
    figures: dict[str, float] = {
        "spread": int(loads.max() - loads.min()) if len(loads) else 0,
        "rack cost": 0
        if rack_costs is None
        else sum_rack_cost(canonical, rack_costs, count_plan.owner),
        "moves": count_moves(canonical, count_plan.owner),
    }
    price = np.zeros(canonical.member_count, np.int64)
    price[canonical.order] = count_plan.price
    level = np.zeros(len(canonical.problem.index.topics), np.int64)
    level[canonical.rows.topics] = count_plan.topic_level
    # A level for each topic proves the counts; dual prices of members prove rack cost and moves.
    why = (
        "spread: for each load k, the topics of a level above k fill their subscribers beyond k",
        _COST_REASON,
    )
    figures, bounds = _add_topic_excess(canonical, count_plan.owner, figures, figures)
    return Certificate(
        owner_in_index_order(canonical, count_plan.owner), "counts", figures, bounds, why,
        topic_level=level, price=price, racks=costs, rack_weight=count_plan.rack_weight,
    )  # fmt: skip


def certify_limited(
    canonical: CanonicalProblem,
    limited_plan: LimitedPlan,
    costs: RackCosts | None,
    rack_costs: RackTable | None,
    max_moves: int,
) -> Certificate:
    """Prove that an assignment has the most even loads possible with at most ``max_moves`` moves.

    A load is a member's number of partitions. The proof consists of the dual prices of the
    minimum-cost flow that found the plan: numbers from which a lower bound is easily computed.
    Lower bounds of the rack cost and of the number of moves are included.

    Args:
        canonical: the problem, with members and partitions sorted independently of the join order.
        limited_plan: the plan and its dual prices.
        costs: the costs of consuming across racks; None if they do not matter.
        rack_costs: these costs by partition and member.
        max_moves: the greatest allowed number of moves.
    """
    load = np.bincount(limited_plan.owner, minlength=canonical.member_count)
    mine = load[canonical.takes_part]
    figures: dict[str, float] = {
        "largest": int(mine.max(initial=0)),
        "spread": int(mine.max() - mine.min()) if len(mine) else 0,
        "rack cost": 0
        if rack_costs is None
        else sum_rack_cost(canonical, rack_costs, limited_plan.owner),
        "moves": count_moves(canonical, limited_plan.owner),
    }
    price = _by_member(canonical, limited_plan.price)
    least = _cost_lower_bound(canonical, rack_costs, limited_plan, load)
    bounds: dict[str, float] = {"largest": figures["largest"], "spread": figures["spread"]}
    bounds |= cost_bounds(
        least,
        (limited_plan.rack_weight, limited_plan.move_weight),
        figures,
        max_moves,
        rack_costs is not None,
    )
    figures, bounds = _add_topic_excess(canonical, limited_plan.owner, figures, bounds)
    details: dict[str, object] = {
        "max_moves": max_moves,
        "levels": tuple((level, _by_member(canonical, one)) for level, one in limited_plan.proofs),
        "move_weight": limited_plan.move_weight,
    }
    # Dual prices for each load level prove the loads (partition counts); dual prices of members
    # prove rack cost and moves.
    why = (
        "largest, spread: one member fewer at any level of load needs more moves than the limit",
        _COST_REASON,
    )
    return Certificate(
        owner_in_index_order(canonical, limited_plan.owner), "counts", figures, bounds, why,
        price=price, racks=costs, rack_weight=limited_plan.rack_weight, details=details,
    )  # fmt: skip


def _add_topic_excess(
    canonical: CanonicalProblem,
    owner: Int32Array,
    measured: Mapping[str, float],
    bounds: Mapping[str, float],
) -> tuple[dict[str, float], dict[str, float]]:
    """Add the criterion "topic excess" to an assignment's measured values and lower bounds.

    Topic excess says how unevenly each topic is spread over consumers. Its lower bound is 0, the
    best possible spread. Both dicts remain unchanged if the problem is too large to compute it.
    """
    excess = topic_excess(canonical, owner)
    if excess is None:
        return {**measured}, {**bounds}
    return {**measured, TOPIC_EXCESS: excess}, {**bounds, TOPIC_EXCESS: 0}


def _by_member(canonical: CanonicalProblem, price: Int64Array) -> Int64Array:
    # From canonical order to the group's order of members.
    out = np.zeros(canonical.member_count, np.int64)
    out[canonical.order] = price
    return out


def _cost_lower_bound(
    canonical: CanonicalProblem, rack_costs: RackTable | None, plan: LimitedPlan, load: Int64Array
) -> int:
    """Return a lower bound of the cost of any assignment in which members have the given loads.

    The cost is rack weight * rack cost (of consuming from other racks) + move weight * moves. The
    proof uses the dual prices in ``plan``: for each member a number, which the minimum-cost flow
    has computed. ``load`` is each member's number of partitions (int64[M]).
    """
    claims, price = canonical.current_claims, plan.price
    columns = np.zeros(canonical.member_count, np.int64)
    cost, profile = np.zeros((1, 1), np.int64), np.zeros(canonical.partition_count, np.int64)
    if rack_costs is not None:
        columns, cost = rack_costs.row[canonical.order] % rack_costs.cost.shape[1], rack_costs.cost
        profile = rack_costs.profile[canonical.rows.partition]
    far = np.int64(1 << 60)
    topics, wide = len(canonical.rows.topics), cost.shape[1]
    by_set = np.full((len(canonical.topics_of), wide), far)
    np.minimum.at(by_set, (canonical.subscription, columns), price)
    by_topic = np.full((topics, wide), far)
    for s, mine in enumerate(canonical.topics_of):
        by_topic[mine] = np.minimum(by_topic[mine], by_set[s])
    best = np.full(canonical.partition_count, far)
    for c in range(wide):
        np.minimum(
            best, by_topic[canonical.topic, c] + plan.rack_weight * cost[profile, c], out=best
        )
    best += plan.move_weight * claims.owned
    rows = np.concatenate([
        np.flatnonzero(claims.keeper >= 0), np.repeat(claims.contested, np.diff(claims.start)),
    ])  # fmt: skip
    keepers = np.concatenate([claims.keeper[claims.keeper >= 0].astype(np.int64), claims.keepers])
    kept = price[keepers] + plan.rack_weight * cost[profile[rows], columns[keepers]]
    np.minimum.at(best, rows, kept)
    return int(best.sum()) - int(np.dot(np.sort(price), np.sort(load)))


def certify_weights(
    canonical: CanonicalProblem,
    weight_plan: WeightPlan,
    *,
    partition_weights: NDArray[np.float64],
    scale: float,
    shares: Shares,
    costs: RackCosts | None,
    rack_costs: RackTable | None,
    together: Int64Array | None,
    max_moves: int | None,
) -> Certificate:
    """Measure an assignment of weighted partitions, and prove lower bounds of its loads.

    Balancing weights is NP-hard, so the assignment may be worse than the bounds. The certificate
    says by how much at most.

    Args:
        canonical: the problem, with members and partitions sorted independently of the join order.
        weight_plan: the plan that the search found.
        partition_weights: float64[P], the weight of each partition, as given.
        scale: the factor by which weights were multiplied to find the plan.
        shares: the share and capacity of each member, in units of ``partition_weights``.
        costs: the costs of consuming across racks; None if they do not matter.
        rack_costs: these costs by partition and member.
        together: int64[T], number of each topic's co-location set; partitions with the same number
            in topics of a set must have the same owner.
        max_moves: the limit of moves, None for none.
    """
    mine = partition_weights[canonical.rows.partition]
    load = np.bincount(weight_plan.owner, mine, minlength=canonical.member_count)
    counts = canonical.takes_part & ~shares.draining
    relative = load[counts] / shares.speed[counts]
    misplaced = shares.draining[weight_plan.owner] & _mark_eligible(canonical, counts)
    figures: dict[str, float] = {} if counts.all() else {"on weight 0": int(misplaced.sum())}
    figures |= {
        "overload": float(np.maximum(load - shares.capacity, 0.0).sum()),
        "largest": float(relative.max(initial=0.0)),
        "spread": float(relative.max() - relative.min()) if len(relative) else 0.0,
        "rack cost": 0
        if rack_costs is None
        else sum_rack_cost(canonical, rack_costs, weight_plan.owner),
        "moves": count_moves(canonical, weight_plan.owner),
    }
    weighted = replace(
        weight_plan.weighted,
        weight=weight_plan.weighted.weight / scale,
        speed=np.where(shares.draining, 0.0, shares.speed),
        capacity=shares.capacity,
    )
    bounds = {"overload": overload_bound(weighted)}
    if misplaced.any():
        weighted = replace(weighted, spilled=figures["overload"])
    elif shares.draining.any():
        # Items that only members of weight 0 may bear weigh nothing for the others.
        borne = weighted.topics_with_subscribers(shares.draining)[weighted.kind]
        weighted = replace(weighted, weight=np.where(borne, weighted.weight, 0.0))
    bounds["largest"] = largest_load_bound(weighted)
    if max_moves is not None:
        limit = max(max_moves, int(figures["moves"])) - count_forced_moves(canonical)
        sole = np.flatnonzero(canonical.current_claims.keeper >= 0)
        shed = largest_bound_within_moves(
            mine[sole],
            canonical.current_claims.keeper[sole].astype(np.int64),
            weighted.speed,
            limit,
        )
        if shed > bounds["largest"].value:
            bounds["largest"] = Bound(shed, "moves", bounds["largest"].topics)
    topics = {name: _cluster_topics(canonical, weighted, bound) for name, bound in bounds.items()}
    details: dict[str, object] = {
        f"{name} bound": (bound.kind, topics[name], bound.most) for name, bound in bounds.items()
    }
    details |= {
        "weight": partition_weights,
        "max_moves": max_moves,
        "together": _by_topic(canonical, together),
    }
    proven = {name: min(figures[name], bound.value) for name, bound in bounds.items()}
    figures, proven = _add_topic_excess(canonical, weight_plan.owner, figures, proven)
    why = tuple(
        f"{name}: {_explain_bound(weighted, bound, len(topics[name]))}"
        for name, bound in bounds.items()
    )
    return Certificate(
        owner_in_index_order(canonical, weight_plan.owner), "loads", figures, proven, why,
        racks=costs, details=details,
    )  # fmt: skip


def _mark_eligible(canonical: CanonicalProblem, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    # True for partitions whose topic one of these members subscribes to.
    wanted = np.zeros(len(canonical.rows.topics), bool)
    for s in np.unique(canonical.subscription[members]).tolist():
        wanted[canonical.topics_of[s]] = True
    return wanted[canonical.topic]


def count_forced_moves(canonical: CanonicalProblem) -> int:
    """Count the partitions that must move because no previous owner still subscribes to their
    topic.

    A limit of moves cannot be lower than this number. ``canonical`` is the problem, sorted
    independently of the join order.
    """
    claims = canonical.current_claims
    return int(np.count_nonzero(claims.owned & (claims.keeper == -1)))


def _cluster_topics(
    canonical: CanonicalProblem, weighted: WeightedProblem, bound: Bound
) -> tuple[int, ...]:
    # As topic numbers of the cluster.
    mine = weighted.classes.topic >= 0
    mine[mine] = bound.topics[weighted.classes.topic[mine]]
    return tuple(canonical.rows.topics[mine].tolist())


def _explain_bound(weighted: WeightedProblem, bound: Bound, topics: int) -> str:
    count = int(weighted.members_of_topics(bound.topics).sum())
    return _BOUND_REASONS[bound.kind].format(topics=topics, members=count, most=bound.most)


def _by_topic(canonical: CanonicalProblem, together: Int64Array | None) -> Int64Array | None:
    # From canonical order to the cluster's topic numbers. A family is a set of topics whose equal
    # partition numbers go to one member.
    if together is None:
        return None
    out = np.full(len(canonical.problem.index.topics), -1, np.int64)
    out[canonical.rows.topics] = together
    return out


def owner_in_index_order(canonical: CanonicalProblem, owner: Int32Array) -> Int32Array:
    """Convert the solver's array of owners to the cluster's numbering of partitions (int32[P]).

    The solver sorts members and partitions in its own order. In the result, owners are positions in
    the consumer group, -1 for none.

    Args:
        canonical: the problem, with members and partitions sorted independently of the join order.
        owner: int32[n], the owner of each partition, both in this sorted order.
    """
    out = np.full(canonical.problem.index.partitions, -1, np.int32)
    out[canonical.rows.partition] = canonical.order[owner] if len(owner) else owner
    return out


def count_moves(canonical: CanonicalProblem, owner: Int32Array) -> int:
    """Count the partitions that an assignment moves away from their previous owner.

    A previous owner is a member that reported the partition as owned when it joined.

    Args:
        canonical: the problem, with members and partitions sorted independently of the join order.
        owner: int32[n], the plan's owner of each partition.
    """
    claims = canonical.current_claims
    stays = int(np.count_nonzero((claims.keeper == owner) & (owner >= 0)))
    if len(claims.contested):
        of = np.repeat(owner[claims.contested], np.diff(claims.start))
        stays += int(np.count_nonzero(of == claims.keepers))
    return int(np.count_nonzero(claims.owned)) - stays


def sum_rack_cost(canonical: CanonicalProblem, rack_costs: RackTable, owner: Int32Array) -> int:
    """Return an assignment's total cost of consuming from other racks.

    Without prices, it is the number of partitions whose consumer is on another rack than all
    replicas; otherwise it is money in integer units.

    Args:
        canonical: the problem, with members and partitions sorted independently of the join order.
        rack_costs: rack costs by partition and member.
        owner: int32[n], the owner of each partition.
    """
    column: Int64Array = (
        rack_costs.row[canonical.order][owner] if len(owner) else rack_costs.row[:0]
    )
    return int(rack_costs.cost[rack_costs.profile[canonical.rows.partition], column].sum())
