"""Loads: partitions weigh, members bear shares and have capacities, or moves are limited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from partage.groups.optimal.problem import Int64Array, Question
from partage.groups.optimal.topic_spread import spread_topics
from partage.model import RackTable
from partage.model.index import Int32Array
from partage.solve import bundle
from partage.solve.assignment.bounds import Burden, fractional_loads
from partage.solve.assignment.branch_and_bound import exhausted
from partage.solve.assignment.local_search import improved
from partage.solve.assignment.weighted_plan import Bearers, Items

__all__ = ["Loaded", "Shares", "loaded", "shares_of", "whole"]

#: Sums of weights stay exact below this.
_EXACT = 1 << 50


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """The shares that members are to bear, by place.

    Attributes:
        speed: float64[M], member weight; 1 for members of weight 0.
        capacity: float64[M], in units of weight; zero for members of weight 0.
        draining: bool[M], members of weight 0.
    """

    speed: NDArray[np.float64]
    capacity: NDArray[np.float64]
    draining: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A plan by weight, and what its bounds are made of.

    Attributes:
        owner: int32[n], place of each row's owner.
        burden: what is to be borne, by bundles.
        complete: whether the search ended by itself, and not because its work ran out.
    """

    owner: Int32Array
    burden: Burden
    complete: bool = True


def whole(weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Weights as whole numbers, and what they were multiplied by: a power of two, or one.

    >>> whole(np.array([1.0, 2.0]))[1]
    1.0
    """
    total = float(weight.sum())
    if total <= 0 or (total < _EXACT and bool((np.rint(weight) == weight).all())):
        return weight, 1.0
    scale = float(2.0 ** np.floor(np.log2(_EXACT / total)))
    return np.rint(weight * scale), scale


def shares_of(question: Question, scale: float) -> Shares:
    """Return the shares by the members' weights and capacities."""
    group = question.problem.group
    weight = np.array([m.weight for m in group], float)[question.order]
    limit = [np.inf if m.capacity is None else m.capacity for m in group]
    capacity = np.array(limit, float)[question.order] * scale
    draining = weight <= 0
    return Shares(np.where(draining, 1.0, weight), np.where(draining, 0.0, capacity), draining)


def loaded(
    question: Question,
    racks: RackTable | None,
    weight: NDArray[np.float64],
    *,
    shares: Shares,
    together: Int64Array | None,
    hints: Mapping[int, int],
    most_moves: float,
    tolerance: float,
) -> Loaded:
    """The best plan that was found, and what there was to bear.

    Args:
        question: the problem.
        racks: what reading costs across racks.
        weight: float64[n], whole numbers, of each row.
        shares: what members are to bear.
        together: int64[T], families of topics whose partitions of one number must stay
            together; -1 for none.
        hints: places by row of what was promised in the phase before.
        most_moves: how many claimed rows may change hands.
        tolerance: see `Optimal`.
    """
    item = _items(question, together)
    count = int(item.max(initial=-1)) + 1
    if not count:
        nothing = Burden(
            bundle(question.eligibility), weight, item, shares.speed, shares.capacity, 0
        )
        return Loaded(np.full(question.size, -1, np.int32), nothing)
    first = np.zeros(count, np.int64)
    first[item[::-1]] = np.arange(question.size)[::-1]
    bundles = bundle(question.eligibility)
    kind = bundles.topic[question.topic][first]
    column, cost, profile = _costs(question, racks, item, count)
    key = np.stack(
        [
            bundles.member.astype(float), column.astype(float), shares.speed, shares.capacity,
            shares.draining.astype(float),
        ],
        axis=1,
    )  # fmt: skip
    distinct, group = np.unique(key, axis=0, return_inverse=True)
    group = np.where(bundles.member >= 0, group.reshape(-1), -1)
    subscribers: list[set[int]] = [set() for _ in bundles.supply]
    for t, m in zip(bundles.arc_topic.tolist(), bundles.arc_member.tolist(), strict=True):
        subscribers[t].add(m)
    of_bundle = distinct[:, 0].astype(int).tolist()
    open_groups = [[g for g, b in enumerate(of_bundle) if b in who] for who in subscribers]
    owned, homes = _homes(question, item, count)
    items = Items(
        np.bincount(item, weight, count).astype(float),
        kind,
        open_groups,
        cost,
        profile,
        owned,
        homes,
    )
    draining = shares.draining if shares.draining.any() else None
    bearers = Bearers(
        group, distinct[:, 1].astype(int).tolist(), shares.speed, shares.capacity, draining
    )
    by_item = {int(item[row]): place for row, place in hints.items()}
    burden = Burden(bundles, items.weight, kind, shares.speed, shares.capacity, 0.0)
    share = _fractional(burden, shares.draining)
    found = improved(
        items, bearers, hints=by_item, most_moves=most_moves, tolerance=tolerance, share=share
    )
    best = found.plan.owner.tolist()
    if not tolerance:
        best = exhausted(items, bearers, best, most_moves=found.plan.most_moves)
    owner = np.array(best, np.int32)[item]
    if count == question.size and not hints:
        alike = bundles.topic[question.topic] * len(cost) + profile
        owner = spread_topics(question, owner, weight, alike)
    return Loaded(owner, burden, found.complete)


def _fractional(burden: Burden, draining: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """Return the loads of the best fractional plan; members of weight 0 need give nothing up."""
    if not draining.any():
        return fractional_loads(burden)
    share = fractional_loads(replace(burden, speed=np.where(draining, 0.0, burden.speed)))
    return None if share is None else np.where(draining, np.inf, share)


def _items(question: Question, together: Int64Array | None) -> Int64Array:
    """int64[n]: the item of each row; rows that must stay together are one."""
    if together is None or not (together >= 0).any():
        return np.arange(question.size)
    family = together[question.topic]
    number = question.problem.index.number_of[question.rows.partition].astype(np.int64)
    alone = family < 0
    wide = int(number.max(initial=0)) + 1
    key = np.where(alone, np.arange(question.size) + wide * (int(family.max(initial=-1)) + 1),
                   family * wide + number)  # fmt: skip
    _, first, item = np.unique(key, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[item.reshape(-1)]


def _costs(
    question: Question, racks: RackTable | None, item: Int64Array, count: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Column of each place; costs by profile and column; profile of each item."""
    if racks is None:
        nothing = np.zeros(count, np.int64)
        return np.zeros(question.members, np.int64), np.zeros((1, 1), np.int64), nothing
    column = racks.row[question.order] % racks.cost.shape[1]
    profile = racks.profile[question.rows.partition]
    if count == question.size:
        return column, racks.cost, profile
    table = np.zeros((count, racks.cost.shape[1]), np.int64)
    np.add.at(table, item, racks.cost[profile])
    return column, table, np.arange(count)


def _homes(
    question: Question, item: Int64Array, count: int
) -> tuple[Int64Array, dict[int, dict[int, int]]]:
    """How many owned rows each item has, and how many of these each place may keep."""
    claims = question.claims
    owned = np.bincount(item[claims.owned], minlength=count).astype(np.int64)
    homes: dict[int, dict[int, int]] = {}
    sole = np.flatnonzero(claims.keeper >= 0)
    pairs = [(sole, claims.keeper[sole].astype(np.int64))]
    pairs.append((np.repeat(claims.contested, np.diff(claims.start)), claims.keepers))
    for rows, places in pairs:
        for i, m in zip(item[rows].tolist(), places.tolist(), strict=True):
            mine = homes.setdefault(i, {})
            mine[m] = mine.get(m, 0) + 1
    return owned, homes
