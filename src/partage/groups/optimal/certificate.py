"""Certificates: what a plan has, what no plan can beat, and why.

From owners by rows to a plan: lists, what is withheld, and the figures of the certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.groups.layout import plan_in_order
from partage.groups.optimal.count_balance import Counted
from partage.groups.optimal.move_limit import Limited
from partage.groups.optimal.problem import Int64Array, Question
from partage.groups.optimal.topic_spread import topic_excess
from partage.groups.optimal.weight_balance import Loaded, Shares
from partage.groups.sticky.decision import withheld
from partage.model import Certificate, Plan, RackCosts, RackTable
from partage.model.certificate import TOPIC_EXCESS, cost_bounds
from partage.model.index import Int32Array
from partage.solve.assignment.bounds import (
    Bound,
    Burden,
    largest_bound,
    overload_bound,
    shed_bound,
)

__all__ = [
    "forced_moves",
    "moves_of",
    "of_counts",
    "of_limited",
    "of_loads",
    "plan_of",
    "rack_cost_of",
    "target_of",
]


_WHY = {
    "cut": "the weight of {topics} topics must be with their {members} subscribers",
    "heaviest": "one partition (or what must stay together with it) weighs that much",
    "crowd": "of {topics} topics' heaviest items one of {members} subscribers has {most} or more",
    "moves": "so few moves leave a member with that much of what it owns",
    "none": "no load is below zero",
}


def of_counts(
    question: Question, found: Counted, costs: RackCosts | None, table: RackTable | None
) -> Certificate:
    """All figures proven best: loads by levels of topics, the others by prices of members."""
    loads = np.bincount(found.owner, minlength=question.members)[question.takes_part]
    figures: dict[str, float] = {
        "spread": int(loads.max() - loads.min()) if len(loads) else 0,
        "rack cost": 0 if table is None else rack_cost_of(question, table, found.owner),
        "moves": moves_of(question, found.owner),
    }
    price = np.zeros(question.members, np.int64)
    price[question.order] = found.price
    level = np.zeros(len(question.problem.index.topics), np.int64)
    level[question.rows.topics] = found.topic_level
    why = (
        "spread: for every k, topics of a level above k fill their subscribers beyond k so much",
        "rack cost, moves: each partition's least cost and price add up to that",
    )
    figures, bounds = _with_topics(question, found.owner, figures, figures)
    return Certificate(
        target_of(question, found.owner), "counts", figures, bounds, why,
        topic_level=level, price=price, racks=costs, rack_weight=found.rack_weight,
    )  # fmt: skip


def of_limited(
    question: Question,
    found: Limited,
    costs: RackCosts | None,
    table: RackTable | None,
    max_moves: int,
) -> Certificate:
    """Return the certificate of counts within a limit of moves.

    The loads are proven best by prices for each level, the rest by prices of members.
    """
    load = np.bincount(found.owner, minlength=question.members)
    mine = load[question.takes_part]
    figures: dict[str, float] = {
        "largest": int(mine.max(initial=0)),
        "spread": int(mine.max() - mine.min()) if len(mine) else 0,
        "rack cost": 0 if table is None else rack_cost_of(question, table, found.owner),
        "moves": moves_of(question, found.owner),
    }
    price = _by_member(question, found.price)
    least = _least_cost(question, table, found, load)
    bounds: dict[str, float] = {"largest": figures["largest"], "spread": figures["spread"]}
    bounds |= cost_bounds(
        least, (found.rack_weight, found.move_weight), figures, max_moves, table is not None
    )
    figures, bounds = _with_topics(question, found.owner, figures, bounds)
    details: dict[str, object] = {
        "max_moves": max_moves,
        "levels": tuple((level, _by_member(question, one)) for level, one in found.proofs),
        "move_weight": found.move_weight,
    }
    why = (
        "largest, spread: of every level of load, one member less needs more moves than allowed",
        "rack cost, moves: each partition's least cost and price add up to that",
    )
    return Certificate(
        target_of(question, found.owner), "counts", figures, bounds, why,
        price=price, racks=costs, rack_weight=found.rack_weight, details=details,
    )  # fmt: skip


def _with_topics(
    question: Question, owner: Int32Array, figures: Mapping[str, float], bounds: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return figures and bounds with the topic excess; no plan has less than none."""
    excess = topic_excess(question, owner)
    if excess is None:
        return {**figures}, {**bounds}
    return {**figures, TOPIC_EXCESS: excess}, {**bounds, TOPIC_EXCESS: 0}


def _by_member(question: Question, price: Int64Array) -> Int64Array:
    out = np.zeros(question.members, np.int64)
    out[question.order] = price
    return out


def _least_cost(
    question: Question, table: RackTable | None, found: Limited, load: Int64Array
) -> int:
    """Return what the prices prove: a bound of the weighted rack cost and moves."""
    claims, price = question.claims, found.price
    columns = np.zeros(question.members, np.int64)
    cost, profile = np.zeros((1, 1), np.int64), np.zeros(question.size, np.int64)
    if table is not None:
        columns, cost = table.row[question.order] % table.cost.shape[1], table.cost
        profile = table.profile[question.rows.partition]
    far = np.int64(1 << 60)
    topics, wide = len(question.rows.topics), cost.shape[1]
    by_set = np.full((len(question.topics_of), wide), far)
    np.minimum.at(by_set, (question.subscription, columns), price)
    by_topic = np.full((topics, wide), far)
    for s, mine in enumerate(question.topics_of):
        by_topic[mine] = np.minimum(by_topic[mine], by_set[s])
    best = np.full(question.size, far)
    for c in range(wide):
        np.minimum(
            best, by_topic[question.topic, c] + found.rack_weight * cost[profile, c], out=best
        )
    best += found.move_weight * claims.owned
    rows = np.concatenate([
        np.flatnonzero(claims.keeper >= 0), np.repeat(claims.contested, np.diff(claims.start)),
    ])  # fmt: skip
    who = np.concatenate([claims.keeper[claims.keeper >= 0].astype(np.int64), claims.keepers])
    kept = price[who] + found.rack_weight * cost[profile[rows], columns[who]]
    np.minimum.at(best, rows, kept)
    return int(best.sum()) - int(np.dot(np.sort(price), np.sort(load)))


def of_loads(
    question: Question,
    found: Loaded,
    *,
    weight: NDArray[np.float64],
    scale: float,
    shares: Shares,
    costs: RackCosts | None,
    table: RackTable | None,
    together: Int64Array | None,
    max_moves: int | None,
) -> Certificate:
    """Figures by weight; the overload and the largest relative load have bounds.

    Args:
        question: the problem.
        found: the plan.
        weight: float64[P], of each partition, as it was given.
        scale: what it was multiplied by to find the plan.
        shares: what members are to bear, in units of ``weight``.
        costs: what reading costs across racks.
        table: the same by partition and member.
        together: families of topic positions that must stay together.
        max_moves: the limit of moves, None for none.
    """
    mine = weight[question.rows.partition]
    load = np.bincount(found.owner, mine, minlength=question.members)
    counts = question.takes_part & ~shares.draining
    relative = load[counts] / shares.speed[counts]
    misplaced = shares.draining[found.owner] & _open_to(question, counts)
    figures: dict[str, float] = {} if counts.all() else {"on weight 0": int(misplaced.sum())}
    figures |= {
        "overload": float(np.maximum(load - shares.capacity, 0.0).sum()),
        "largest": float(relative.max(initial=0.0)),
        "spread": float(relative.max() - relative.min()) if len(relative) else 0.0,
        "rack cost": 0 if table is None else rack_cost_of(question, table, found.owner),
        "moves": moves_of(question, found.owner),
    }
    burden = replace(
        found.burden,
        weight=found.burden.weight / scale,
        speed=np.where(shares.draining, 0.0, shares.speed),
        capacity=shares.capacity,
    )
    bounds = {"overload": overload_bound(burden)}
    if misplaced.any():
        burden = replace(burden, spilled=figures["overload"])
    elif shares.draining.any():
        # Items that only members of weight 0 may bear weigh nothing for the others.
        borne = burden.subscribed(shares.draining)[burden.kind]
        burden = replace(burden, weight=np.where(borne, burden.weight, 0.0))
    bounds["largest"] = largest_bound(burden)
    if max_moves is not None:
        limit = max(max_moves, int(figures["moves"])) - forced_moves(question)
        sole = np.flatnonzero(question.claims.keeper >= 0)
        shed = shed_bound(
            mine[sole], question.claims.keeper[sole].astype(np.int64), burden.speed, limit
        )
        if shed > bounds["largest"].value:
            bounds["largest"] = Bound(shed, "moves", bounds["largest"].topics)
    topics = {name: _topics(question, burden, bound) for name, bound in bounds.items()}
    details: dict[str, object] = {
        f"{name} bound": (bound.kind, topics[name], bound.most) for name, bound in bounds.items()
    }
    details |= {"weight": weight, "max_moves": max_moves, "together": _by_topic(question, together)}
    shown = {name: min(figures[name], bound.value) for name, bound in bounds.items()}
    figures, shown = _with_topics(question, found.owner, figures, shown)
    return Certificate(
        target_of(question, found.owner), "loads", figures, shown,
        tuple(f"{n}: {_why(burden, bound, len(topics[n]))}" for n, bound in bounds.items()),
        racks=costs, details=details,
    )  # fmt: skip


def _open_to(question: Question, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool[n]: rows whose topic one of some members subscribes to."""
    wanted = np.zeros(len(question.rows.topics), bool)
    for s in np.unique(question.subscription[members]).tolist():
        wanted[question.topics_of[s]] = True
    return wanted[question.topic]


def forced_moves(question: Question) -> int:
    """Claimed rows that nobody who claims them may keep."""
    claims = question.claims
    return int(np.count_nonzero(claims.owned & (claims.keeper == -1)))


def _topics(question: Question, burden: Burden, bound: Bound) -> tuple[int, ...]:
    """Topics that an argument is about, by the cluster's numbers."""
    mine = burden.bundles.topic >= 0
    mine[mine] = bound.topics[burden.bundles.topic[mine]]
    return tuple(question.rows.topics[mine].tolist())


def _why(burden: Burden, bound: Bound, topics: int) -> str:
    count = int(burden.members(bound.topics).sum())
    return _WHY[bound.kind].format(topics=topics, members=count, most=bound.most)


def _by_topic(question: Question, together: Int64Array | None) -> Int64Array | None:
    if together is None:
        return None
    out = np.full(len(question.problem.index.topics), -1, np.int64)
    out[question.rows.topics] = together
    return out


def plan_of(question: Question, owner: Int32Array, **more: Any) -> Plan:
    """The first phase of a cooperative rebalance: what changes hands is with nobody (KIP-429)."""
    place, row = question.claimed
    partition = question.rows.partition
    member = question.order[owner] if len(owner) else owner
    waits = withheld(place.astype(np.int32), row.astype(np.int32), owner)
    if not waits.any():
        return plan_in_order(question.problem, partition, member, **more)
    goes = np.flatnonzero(~waits)
    waiting = np.flatnonzero(waits)
    return plan_in_order(
        question.problem, partition[goes], member[goes],
        withheld=partition[waiting], destined=member[waiting], **more,
    )  # fmt: skip


def target_of(question: Question, owner: Int32Array) -> Int32Array:
    """int32[P]: members by the cluster's numbers, -1 for nobody."""
    out = np.full(question.problem.index.partitions, -1, np.int32)
    out[question.rows.partition] = question.order[owner] if len(owner) else owner
    return out


def moves_of(question: Question, owner: Int32Array) -> int:
    """Claimed rows that go to somebody with whom they were not."""
    claims = question.claims
    stays = int(np.count_nonzero((claims.keeper == owner) & (owner >= 0)))
    if len(claims.contested):
        of = np.repeat(owner[claims.contested], np.diff(claims.start))
        stays += int(np.count_nonzero(of == claims.keepers))
    return int(np.count_nonzero(claims.owned)) - stays


def rack_cost_of(question: Question, table: RackTable, owner: Int32Array) -> int:
    """What reading costs, in units."""
    column: Int64Array = table.row[question.order][owner] if len(owner) else table.row[:0]
    return int(table.cost[table.profile[question.rows.partition], column].sum())
