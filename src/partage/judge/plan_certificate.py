"""Verification of the certificate of a plan of strategy `optimal`.

Its values must be true, and its bounds must hold for every valid plan. The two claims behind
avoidable moves are verified in `count_bounds`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.errors import CertificateError
from partage.judge.count_bounds import (
    ClaimedBest,
    check_integers,
    check_valid_plan,
    count_moves,
    verify_load_certificate,
)
from partage.judge.facts import Facts
from partage.judge.ownership import PreviousOwners, previous_owners
from partage.model import Certificate, Cluster, Group, Plan, Problem, RackTable
from partage.model.certificate import TOPIC_EXCESS, cost_bounds

__all__ = ["verify_certificate"]

# Sums of four million such prices still fit int64.
_HIGHEST_PRICE = 1 << 39


def verify_certificate(plan: Plan, group: Group, cluster: Cluster) -> Mapping[str, float]:
    """Verify that a plan is as good as its certificate claims; return the plan's measured values.

    A plan assigns partitions to members. The certificate claims values of the plan, such as the
    number of moves, and a lower bound of each. Both are computed anew from the group, the cluster
    and the certificate's dual prices. The result is a dict by name.

    Balance by counts: `verify_load_certificate` proves the loads. Rack cost and moves have one
    bound. Let the cost of a (partition, member) pair be ``rack_weight`` times its rack cost, plus 1
    if the partition would move. Sum over all partitions the minimum of (cost + dual price) over the
    members that may own them. The cost of a plan plus the prices of its owners is at least this
    sum. With the best loads, the owners' prices sum to at most the i-th highest price times the
    i-th largest load, over all i. The difference bounds the cost of every plan with the best loads,
    and the plan must meet it. ``rack_weight`` exceeds all possible moves. So the plan has the least
    rack cost, and among such plans the fewest moves.

    Counts within a limit of moves (``details["max_moves"]``) are proven level by level. Let n[j] be
    the number of members with a load of at least j. Suppose that a plan has the same n above level
    j, and a smaller n[j]. Its loads are then majorised by a known vector, and the prices for that
    level show that it needs more moves than the limit. So no plan within the limit has
    lexicographically smaller loads. Rack cost and moves follow from prices as above, with a weight
    for each; where the limit binds, the bound of the rack cost may be below the plan's.

    The topic excess (how much less evenly topics are spread than each alone could be) is counted
    anew; its only bound is 0.

    Balance by weighted loads: the loads are summed anew, and `proven_bound` verifies each bound.

    Returns:
        The figures, proven; where ``certificate.gaps`` are zero, no valid plan is better.

    Raises:
        CertificateError: the plan has no certificate, or it does not prove what it claims.

    >>> from partage.model import Member
    >>> cluster = Cluster.from_topics({"t": 2})
    >>> group = Group([Member("x", ["t"]), Member("y", ["t"])])
    >>> proof = Certificate(np.array([0, 1], np.int32), "counts", {"spread": 0, "moves": 0},
    ...                     {"spread": 0, "moves": 0}, topic_level=np.array([1]),
    ...                     price=np.array([0, 0]), rack_weight=1)
    >>> plan = Plan.of(cluster.index, {"x": {"t": [0]}, "y": {"t": [1]}}, certificate=proof)
    >>> verify_certificate(plan, group, cluster)["spread"]
    0
    """
    certificate = plan.certificate
    if not isinstance(certificate, Certificate):
        raise CertificateError("the plan has no certificate")
    group_arrays = Facts(Problem(group, cluster))
    settled = plan.settled()
    if tuple(settled.members) != group.ids or settled.index is not cluster.index:
        raise CertificateError("the plan is of another group or cluster")
    if not np.array_equal(settled.owner, certificate.owner):
        raise CertificateError("the certificate is not about the owners of this plan")
    old_owners = previous_owners(group_arrays.problem)
    if certificate.balance == "counts" and "max_moves" in certificate.details:
        proven, bounds = _verify_with_move_limit(group_arrays, old_owners, certificate)
    elif certificate.balance == "counts":
        proven = bounds = _verify_counts(group_arrays, old_owners, certificate)
    elif certificate.balance == "loads":
        proven, bounds = _verify_weighted_loads(group_arrays, old_owners, certificate)
    else:
        raise CertificateError(f"{certificate.balance!r} is nothing that could be balanced")
    if TOPIC_EXCESS in certificate.figures:
        proven = {
            **proven,
            TOPIC_EXCESS: _topic_excess(group_arrays, np.asarray(certificate.owner)),
        }
        bounds = {**bounds, TOPIC_EXCESS: 0}
    for name, value in certificate.figures.items():
        if name not in proven or not _equal(name, value, proven[name]):
            raise CertificateError(f"{name} is claimed to be {value}, but is {proven.get(name)}")
    for name, bound in certificate.bounds.items():
        if name not in bounds or (bound > bounds[name] and not _equal(name, bound, bounds[name])):
            shown = bounds.get(name, "nothing")
            raise CertificateError(f"{name} is claimed to be at least {bound}, shown is {shown}")
    return proven


def _equal(name: str, a: float, b: float) -> bool:
    # Sums of weights may differ in the last digits.
    weighed = name in {"overload", "largest", "spread"}
    return a == b or (weighed and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9))


def _verify_weighted_loads(
    group_arrays: Facts, old_owners: PreviousOwners, certificate: Certificate
) -> tuple[dict[str, float], dict[str, float]]:
    """Verify the certificate of an assignment whose partitions have different weights.

    A certificate claims how good the assignment is. The result has two dicts by name: its measured
    values, and the lower bounds that the certificate proves.
    """
    owner = np.asarray(certificate.owner, np.int64)
    check_valid_plan(group_arrays, owner)
    moves = count_moves(old_owners, owner)
    table = _rack_table(group_arrays, certificate)
    of = weigh_plan(group_arrays, certificate)
    together = certificate.details.get("together")
    if together is not None:
        _check_colocation(
            group_arrays,
            owner,
            check_integers(np.asarray(together), len(group_arrays.partition_counts), "together"),
        )
    proven = {
        "on weight 0": of.misplaced, "overload": of.overload, "largest": of.largest,
        "spread": of.spread, "rack cost": 0 if table is None else _rack_cost(table, owner),
        "moves": moves,
    }  # fmt: skip
    bounds = {
        name: proven_bound(group_arrays, old_owners, certificate, of, name)
        for name in certificate.bounds if name in {"overload", "largest"}
    }  # fmt: skip
    return proven, bounds


def _check_colocation(
    group_arrays: Facts, owner: NDArray[np.int64], colocation_set: NDArray[np.int64]
) -> None:
    """Check that partitions with the same number in co-located topics have the same owner.

    ``colocation_set`` (int64[topics]) numbers the sets of co-located topics; it is negative for
    other topics.

    Raises:
        CertificateError: two such partitions have different owners.
    """
    number = group_arrays.problem.index.number_of.astype(np.int64)
    rows = np.flatnonzero(group_arrays.is_open & (colocation_set[group_arrays.topic_of] >= 0))
    key = (
        colocation_set[group_arrays.topic_of[rows]] * (int(number.max(initial=0)) + 1)
        + number[rows]
    )
    order = np.argsort(key, kind="stable")
    same = key[order][1:] == key[order][:-1]
    if (same & (owner[rows[order]][1:] != owner[rows[order]][:-1])).any():
        raise CertificateError("partitions that must have one owner have several")


def _verify_counts(
    group_arrays: Facts, old_owners: PreviousOwners, certificate: Certificate
) -> dict[str, float]:
    if certificate.topic_level is None or certificate.price is None:
        raise CertificateError("a certificate of counts needs levels and prices")
    owner = np.asarray(certificate.owner, np.int64)
    loads = verify_load_certificate(group_arrays, ClaimedBest(owner, certificate.topic_level))
    price = check_integers(certificate.price, group_arrays.member_count, "price")
    if len(price) and int(np.abs(price).max()) > _HIGHEST_PRICE:
        raise CertificateError("a price is beyond all bounds")
    moves = count_moves(old_owners, owner)
    table = _rack_table(group_arrays, certificate)
    weight = certificate.rack_weight
    if (
        table is not None
        and not int((old_owners.owned & group_arrays.is_open).sum()) < weight < _HIGHEST_PRICE
    ):
        raise CertificateError(f"rack_weight {weight} does not outweigh all moves")
    racks = 0 if table is None else _rack_cost(table, owner)
    bound = int(_minimum_rack_and_move_costs(group_arrays, old_owners, price, table, weight).sum())
    bound -= int(np.dot(np.sort(price), np.sort(loads)))
    cost = weight * racks + moves
    if cost != bound:
        raise CertificateError(f"a cost of {cost} claimed to be least, {bound} shown to be needed")
    return plan_costs(group_arrays, loads, moves, racks)


def _topic_excess(group_arrays: Facts, owner: NDArray[np.integer]) -> int:
    """Return how unevenly an assignment spreads each topic over members; 0 is the best possible.

    Precisely, it is half the difference between the assignment's sum of squared partition counts by
    (topic, member) and the least possible sum. ``owner`` is -1 for partitions without an owner.
    """
    given = np.flatnonzero(owner >= 0)
    cells = group_arrays.topic_of[given] * group_arrays.member_count + owner[given]
    counts = np.unique(cells, return_counts=True)[1].astype(np.int64)
    start, subscription = group_arrays.subscriptions_of_topics
    of = np.repeat(np.arange(len(start) - 1), np.diff(start))
    size = np.bincount(
        group_arrays.subscription_of, minlength=len(group_arrays.problem.group.subscriptions)
    )
    members = np.bincount(of, size[subscription], len(group_arrays.partition_counts)).astype(
        np.int64
    )
    base, extra = np.divmod(group_arrays.partition_counts, np.maximum(members, 1))
    even = base * base * (members - extra) + (base + 1) * (base + 1) * extra
    return int(((counts * counts).sum() - even[members > 0].sum()) // 2)


def _verify_with_move_limit(
    group_arrays: Facts, old_owners: PreviousOwners, certificate: Certificate
) -> tuple[dict[str, float], dict[str, float]]:
    limit, move = certificate.details["max_moves"], certificate.details.get("move_weight")
    if not isinstance(limit, int) or not isinstance(move, int) or move < 0:
        raise CertificateError("a limit of moves and the weight of a move must be whole numbers")
    if certificate.price is None:
        raise CertificateError("a certificate of counts needs prices")
    owner = np.asarray(certificate.owner, np.int64)
    loads, moves = check_valid_plan(group_arrays, owner), count_moves(old_owners, owner)
    if moves > limit:
        raise CertificateError(f"{moves} moves are more than the limit of {limit}")
    _verify_load_levels(group_arrays, old_owners, certificate, loads, limit)
    table, weight = _rack_table(group_arrays, certificate), certificate.rack_weight
    price = _prices(group_arrays, certificate.price)
    if not 0 <= weight < _HIGHEST_PRICE or move >= _HIGHEST_PRICE or (table and not weight):
        raise CertificateError(f"weights {weight} and {move} are out of range")
    racks = 0 if table is None else _rack_cost(table, owner)
    least = int(
        _minimum_rack_and_move_costs(
            group_arrays, old_owners, price, table, weight, move_weight=move
        ).sum()
    )
    least -= int(np.dot(np.sort(price), np.sort(loads)))
    mine = loads[group_arrays.takes_part]
    spread = int(mine.max() - mine.min()) if len(mine) else 0
    proven: dict[str, float] = {
        "largest": int(mine.max(initial=0)), "spread": spread, "rack cost": racks, "moves": moves,
    }  # fmt: skip
    bounds = cost_bounds(least, (weight, move), proven, limit, table is not None)
    return proven, {"largest": proven["largest"], "spread": spread, **bounds}


def _verify_load_levels(
    group_arrays: Facts,
    old_owners: PreviousOwners,
    certificate: Certificate,
    loads: NDArray[np.int64],
    max_moves: int,
) -> None:
    """Verify that an assignment has the most even loads possible within a limit of moves.

    The load of a member is its number of partitions (``loads``, int64[members]). For each load,
    dual prices (numbers from linear programming) in the certificate prove that fewer members with
    this or a higher load would need more moves.

    Raises:
        CertificateError: a load is not proven.
    """
    given = certificate.details.get("levels")
    proofs = dict(given) if isinstance(given, tuple) else {}
    part = loads[group_arrays.takes_part]
    for level in np.unique(part[part > 0]).tolist():
        price = _prices(group_arrays, proofs.get(level, np.zeros(0, np.int64)))
        if price.min(initial=0) < 0:
            raise CertificateError(f"a price for level {level} is negative")
        # One member less at this level, as many above it, and no bound below.
        best = np.maximum(part, level - 1)
        best[np.flatnonzero(part >= level)[part[part >= level].argmin()]] = level - 1
        shown = int(_minimum_rack_and_move_costs(group_arrays, old_owners, price, None, 0).sum())
        target = np.zeros(group_arrays.member_count, np.int64)
        target[: len(best)] = best
        shown -= int(np.dot(np.sort(price), np.sort(target)))
        if shown <= max_moves:
            raise CertificateError(
                f"fewer members with {level} partitions or more need {shown} moves, as far as "
                f"shown: the limit allows {max_moves}"
            )


def _prices(group_arrays: Facts, values: NDArray[np.int64]) -> NDArray[np.int64]:
    price = check_integers(values, group_arrays.member_count, "price")
    if len(price) and int(np.abs(price).max()) > _HIGHEST_PRICE:
        raise CertificateError("a price is beyond all bounds")
    return price


def plan_costs(
    group_arrays: Facts, loads: NDArray[np.int64], moves: int, racks: int
) -> dict[str, float]:
    """Return the costs of an assignment as a dict: "spread", "rack cost" and "moves".

    The spread is the largest minus the smallest number of partitions of a member that subscribes to
    an existing partition. Rack cost is the cost of consuming from other racks.

    Args:
        group_arrays: the members' subscriptions and the partitions, as arrays.
        loads: int64[members], each member's number of partitions.
        moves: number of partitions that change their owner.
        racks: the plan's rack cost.
    """
    mine = loads[group_arrays.takes_part]
    spread = int(mine.max() - mine.min()) if len(mine) else 0
    return {"spread": spread, "rack cost": racks, "moves": moves}


def _rack_table(group_arrays: Facts, certificate: Certificate) -> RackTable | None:
    # None if racks do not matter.
    costs = certificate.racks
    if costs is None:
        return None
    traffic = (
        np.ones(len(group_arrays.is_open)) if costs.traffic is None else np.asarray(costs.traffic)
    )
    good = (
        traffic.shape == group_arrays.is_open.shape
        and (np.isfinite(traffic) & (traffic >= 0)).all()
    )
    if not good or not costs.unit > 0:
        raise CertificateError("traffic must be finite numbers, one a partition, and unit positive")
    return costs.table(group_arrays.problem)


def _rack_cost(table: RackTable, owner: NDArray[np.int64]) -> int:
    given = np.flatnonzero(owner >= 0)
    return int(table.cost[table.profile[given], table.row[owner[given]]].sum())


def _minimum_rack_and_move_costs(
    group_arrays: Facts,
    old_owners: PreviousOwners,
    member_prices: NDArray[np.int64],
    rack_costs: RackTable | None,
    rack_weight: int,
    *,
    move_weight: int = 1,
) -> NDArray[np.int64]:
    """Return the cost of each partition at its cheapest member, among the subscribers of its topic.

    Their sum helps to bound the cost of any assignment from below. The cost of a partition at a
    member is the member's dual price (``member_prices``), plus ``rack_weight`` times the rack cost,
    plus ``move_weight`` if the partition would move there.
    """
    if rack_costs is None:
        nowhere = np.zeros(len(group_arrays.is_open), np.int64)
        rack_costs = RackTable(
            nowhere, np.zeros(len(member_prices), np.int64), np.zeros((1, 1), np.int64)
        )
    far = np.int64(_HIGHEST_PRICE * 4)
    columns = rack_costs.cost.shape[1]
    start, topic = group_arrays.topics_of_subscriptions
    of_row = np.full((len(start) - 1, columns), far)
    np.minimum.at(of_row, (group_arrays.subscription_of, rack_costs.row), member_prices)
    of_topic = np.full((len(group_arrays.partition_counts), columns), far)
    np.minimum.at(of_topic, topic, np.repeat(of_row, np.diff(start), axis=0))
    moving = np.full(len(group_arrays.is_open), far)
    for j in range(columns):
        away = rack_weight * rack_costs.cost[rack_costs.profile, j]
        np.minimum(moving, of_topic[group_arrays.topic_of, j] + away, out=moving)
    staying = np.full(len(group_arrays.is_open), far)
    partition = np.repeat(np.arange(len(old_owners.owned)), np.diff(old_owners.start))
    claimant = old_owners.claimant
    good = group_arrays.is_subscribed(claimant, partition)
    partition, claimant = partition[good], claimant[good]
    away = rack_weight * rack_costs.cost[rack_costs.profile[partition], rack_costs.row[claimant]]
    np.minimum.at(staying, partition, member_prices[claimant] + away)
    cheapest: NDArray[np.int64] = np.minimum(staying, moving + move_weight * old_owners.owned)[
        group_arrays.is_open
    ]
    return cheapest


@dataclass(frozen=True, slots=True, eq=False)
class WeightedFigures:
    """Measured loads of a group's members; a load is the total weight of a member's partitions.

    A partition's weight is, for example, its traffic. Members have weights, too: a member of weight
    2 should have twice the load of one of weight 1. The relative load is the load divided by the
    member's weight.

    Attributes:
        weight: float64[partitions], weight of each partition.
        load: float64[members], total weight of each member's partitions.
        speed: float64[members], weight of each member: its desired share of the load relative to
            others.
        counts: bool[members], members whose load counts: they subscribe to something, and their
            weight is not zero.
        capacity: float64[members], the greatest load that each member should have; 0 for members of
            weight 0.
        overload: total load beyond capacities.
        misplaced: number of partitions with an owner of weight 0 although another member
            subscribes.
        largest: largest relative load (load divided by member weight) that counts.
        spread: largest minus smallest relative load that counts.
    """

    weight: NDArray[np.float64]
    load: NDArray[np.float64]
    speed: NDArray[np.float64]
    counts: NDArray[np.bool_]
    capacity: NDArray[np.float64]
    overload: float
    misplaced: int
    largest: float
    spread: float


def weigh_plan(group_arrays: Facts, certificate: Certificate) -> WeightedFigures:
    """Measure the weighted loads of a group's members under an assignment.

    The weights of partitions are those in the assignment's certificate; they are checked first.

    Args:
        group_arrays: the members' subscriptions and the partitions, as arrays.
        certificate: the plan with its claimed values, weights and bounds.

    Raises:
        CertificateError: the weights are malformed.
    """
    given = certificate.details.get("weight")
    weight = np.ones(len(group_arrays.is_open)) if given is None else np.asarray(given, float)
    if (
        weight.shape != group_arrays.is_open.shape
        or not (np.isfinite(weight) & (weight >= 0)).all()
    ):
        raise CertificateError("weights must be finite numbers, one a partition, none negative")
    owner = np.asarray(certificate.owner)
    mine = owner >= 0
    load = np.bincount(owner[mine], weight[mine], minlength=group_arrays.member_count).astype(float)
    group = group_arrays.problem.group
    speed = np.array([m.weight for m in group], float)
    limit = np.array([np.inf if m.capacity is None else m.capacity for m in group], float)
    capacity = np.where(speed > 0, limit, 0.0)
    counts = group_arrays.takes_part & (speed > 0)
    relative = load[counts] / speed[counts]
    overload = float(np.maximum(load - capacity, 0.0).sum())
    given = np.flatnonzero(mine)
    given = given[speed[owner[given]] <= 0]
    misplaced = int(
        np.count_nonzero(_subscribed(group_arrays, counts)[group_arrays.topic_of[given]])
    )
    largest, spread = 0.0, 0.0
    if len(relative):
        largest, spread = float(relative.max()), float(relative.max() - relative.min())
    return WeightedFigures(
        weight, load, speed, counts, capacity, overload, misplaced, largest, spread
    )


def _subscribed(group_arrays: Facts, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    start, topic = group_arrays.topics_of_subscriptions
    used = np.zeros(len(start) - 1, bool)
    used[group_arrays.subscription_of[members]] = True
    wanted = np.zeros(len(group_arrays.partition_counts), bool)
    wanted[topic[np.repeat(used, np.diff(start))]] = True
    return wanted


def proven_bound(
    group_arrays: Facts,
    old_owners: PreviousOwners,
    certificate: Certificate,
    measured: WeightedFigures,
    name: str,
) -> float:
    """Return the lower bound that a certificate proves for the largest load or for the overload.

    Every assignment of the partitions has at least this value. The certificate contains the data of
    the proof; this function computes the bound from them.

    Args:
        group_arrays: the members' subscriptions and the partitions, as arrays.
        old_owners: the previous owners of the partitions.
        certificate: the plan with its claimed values and bounds.
        measured: the weights of partitions and members.
        name: "overload" (total load beyond capacities) or "largest" (the largest load divided by
            member weight).

    Raises:
        CertificateError: the certificate's proof of this bound is missing or malformed.
    """
    argument = certificate.details.get(f"{name} bound")
    if not isinstance(argument, tuple) or len(argument) != 3:
        raise CertificateError(f"the certificate proves no bound of {name}")
    kind, topics, most = argument
    numbers = np.asarray(topics, np.int64).reshape(-1)
    if ((numbers < 0) | (numbers >= len(group_arrays.partition_counts))).any():
        raise CertificateError(f"the argument for the bound of {name} is about unknown topics")
    inside = np.zeros(len(group_arrays.partition_counts), bool)
    inside[numbers] = True
    if kind == "none":
        return 0.0
    if kind == "moves":
        return _bound_by_moves(group_arrays, old_owners, certificate, measured)
    who = _subscribers(group_arrays, inside)
    weight = _weights_by_owner_choice(group_arrays, certificate, measured, inside)
    if name == "overload":
        return max(0.0, float(weight.sum() - measured.capacity[who].sum()))
    who &= measured.counts
    # A plan without misplaced partitions spills nothing to members of weight 0.
    spilled = measured.overload if measured.misplaced else 0.0
    if not measured.misplaced and (group_arrays.takes_part & ~measured.counts).any():
        weight = _weights_by_owner_choice(
            group_arrays, certificate, measured, inside & _subscribed(group_arrays, measured.counts)
        )
    if not who.any() or not len(weight):
        return 0.0
    if kind == "cut":
        # Members that count bear all of it except what spills to the others.
        return max(0.0, float(weight.sum() - spilled)) / float(measured.speed[who].sum())
    fastest = float(measured.speed[who].max())
    if kind == "heaviest":
        return float(weight.max()) / fastest if weight.max() > spilled else 0.0
    if kind == "crowd":
        most = int(most)
        last = (most - 1) * int(who.sum()) + 1
        if spilled > 0 or most < 1 or last > len(weight):
            return 0.0
        # One member has ``most`` of so many items; at best the lightest of them.
        return float(np.sort(weight)[::-1][last - most : last].sum()) / fastest
    raise CertificateError(f"{kind!r} is no argument for a bound")


def _subscribers(group_arrays: Facts, topics: NDArray[np.bool_]) -> NDArray[np.bool_]:
    start, topic = group_arrays.topics_of_subscriptions
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    wants = np.zeros(len(start) - 1, bool)
    wants[row[topics[topic]]] = True
    return wants[group_arrays.subscription_of]


def _weights_by_owner_choice(
    group_arrays: Facts,
    certificate: Certificate,
    measured: WeightedFigures,
    topics: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return the total weight of each set of partitions that must have the same owner.

    The assignment's certificate lists these sets; any other partition is a set by itself. Only
    partitions of ``topics`` (bool[topics]) count.
    """
    rows = np.flatnonzero(group_arrays.is_open & topics[group_arrays.topic_of])
    family = certificate.details.get("together")
    if family is None:
        return measured.weight[rows]
    mine = np.asarray(family, np.int64)[group_arrays.topic_of[rows]]
    number = group_arrays.problem.index.number_of[rows].astype(np.int64)
    wide = int(number.max(initial=0)) + 1
    alone = rows + wide * (int(mine.max(initial=0)) + 1)
    _, item = np.unique(np.where(mine < 0, alone, mine * wide + number), return_inverse=True)
    return np.bincount(item.reshape(-1), measured.weight[rows]).astype(float)


def _bound_by_moves(
    group_arrays: Facts,
    old_owners: PreviousOwners,
    certificate: Certificate,
    measured: WeightedFigures,
) -> float:
    """Return a lower bound of the largest load if only a limited number of partitions may move.

    Every assignment within the limit has at least this largest load. A member's load is the total
    weight of its partitions, divided by the member's own weight.

    Raises:
        CertificateError: the certificate has no limit of moves.
    """
    limit = certificate.details.get("max_moves")
    if not isinstance(limit, int):
        raise CertificateError("a bound by moves needs a limit of moves")
    partition = np.repeat(np.arange(len(old_owners.owned)), np.diff(old_owners.start))
    good = group_arrays.is_open[partition]
    good[good] = group_arrays.is_subscribed(old_owners.claimant[good], partition[good])
    able = np.bincount(partition[good], minlength=len(old_owners.owned))
    moves = count_moves(old_owners, np.asarray(certificate.owner, np.int64))
    forced = int(np.count_nonzero(group_arrays.is_open & old_owners.owned & (able == 0)))
    sole = good & (able[partition] == 1) & measured.counts[old_owners.claimant]
    remaining: list[float] = []
    for m in np.unique(old_owners.claimant[sole]).tolist():
        mine = np.sort(measured.weight[partition[sole & (old_owners.claimant == m)]])
        remaining += (np.cumsum(mine) / measured.speed[m]).tolist()
    # Only partitions count that no other member may own without a move. Each move reduces a
    # member's load by at most its heaviest such partition. Sort all the loads that members pass on
    # the way to zero; k moves can remove at most k of them, so the next one remains.
    remaining.sort(reverse=True)
    left = max(0, max(limit, moves) - forced)
    return remaining[left] if left < len(remaining) else 0.0
