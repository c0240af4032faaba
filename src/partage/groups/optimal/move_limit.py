"""Counts within a limit of moves: the best loads, then rack cost, then moves.

The loads are exact (`partage.solve.assignment.limited_moves`), with a closed form where all
partitions and all members are equivalent. Where racks matter, "least rack cost within the limit"
has a side constraint. It is solved by Lagrangian relaxation: bisection finds the multiplier, which
also bounds the rack cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partage.groups.optimal.count_balance import Arcs, Deck, deal, give_up, stay, turns
from partage.groups.optimal.problem import Classes, Int64Array, Question
from partage.groups.optimal.topic_spread import spread_topics
from partage.model import RackTable
from partage.model.index import Int32Array
from partage.solve import Bundles, Cheapest, Market, bundle, cheapest, loads_of
from partage.solve.assignment.limited_moves import limited_loads

__all__ = ["Limited", "limited"]

#: The relaxation counts rack cost in these units, so that multipliers are whole numbers.
_RACK_UNIT = 60
_MOST_ROUNDS = 24


@dataclass(frozen=True, slots=True, eq=False)
class Limited:
    """The best plan within the limit, and its proofs; by rows, places and topic positions.

    Attributes:
        owner: int32[n], place of each row's owner.
        proofs: (level, int64[M] prices): see `partage.solve.assignment.limited_moves.LimitedLoads`.
        price: int64[M], prices that bound ``rack_weight`` * rack cost + ``move_weight`` * moves.
        rack_weight, move_weight: the weights.
    """

    owner: Int32Array
    proofs: tuple[tuple[int, Int64Array], ...]
    price: Int64Array
    rack_weight: int
    move_weight: int


def limited(
    question: Question, racks: RackTable | None, together: Int64Array | None, limit: int
) -> Limited:
    """Return the best plan that moves at most ``limit`` claimed partitions.

    Args:
        question: the problem; its best plan without limit needs more moves.
        racks: costs by partition and member of the problem, None if racks do not matter.
        together: see `counted`.
        limit: at least the moves that every plan has.

    Raises:
        ProblemTooLargeError: the exact answer would take too long.
    """
    claims = question.claims
    bundles = bundle(question.eligibility)
    classes = Classes.of(question, bundles, racks)
    deck = Deck.of(question, together)
    if len(classes.topic_bundle) <= 1 and classes.groups <= 1 and not len(claims.contested):
        return _alike(question, bundles, deck, limit)
    best, _, _ = loads_of(bundles)
    owned = int(np.count_nonzero(claims.owned))
    plain = Arcs.of(classes, claims, bundles, 0, 1)
    found = limited_loads(_market(classes, plain, best), owned - limit)
    if racks is None:
        arcs, flow = plain, cheapest(_market(classes, plain, found.loads))
        rack_weight, move_weight = 0, 1
    else:
        arcs, flow, rack_weight, move_weight = _cheapest_racks(
            classes, question, bundles, found.loads, limit
        )
    owner = np.full(question.size, -1, np.int32)
    stay(owner, arcs, flow.kept)
    deal(owner, deck, arcs, classes.group, flow)
    if together is None:
        owner = spread_topics(question, owner, None, classes.of_row)
    return Limited(owner, found.proofs, flow.price, rack_weight, move_weight)


def _market(classes: Classes, arcs: Arcs, loads: Int64Array) -> Market:
    return Market(
        arcs.supply, classes.group, classes.groups, arcs.keep_class, arcs.keep_member,
        arcs.keep_most, arcs.keep_cost, arcs.free_class, arcs.free_group, arcs.free_cost, loads,
    )  # fmt: skip


def _cheapest_racks(
    classes: Classes, question: Question, bundles: Bundles, loads: Int64Array, limit: int
) -> tuple[Arcs, Cheapest, int, int]:
    """Return the flow of the least multiplier of moves that holds the limit."""
    claims = question.claims
    owned = int(np.count_nonzero(claims.owned))

    def solved(rack_weight: int, move_weight: int) -> tuple[Arcs, Cheapest, int]:
        arcs = Arcs.of(classes, claims, bundles, rack_weight, move_weight)
        flow = cheapest(_market(classes, arcs, loads))
        return arcs, flow, owned - int(flow.kept.sum())

    # Rack cost first: exact if the limit holds.
    arcs, flow, moves = solved(owned + 1, 1)
    if moves <= limit:
        return arcs, flow, owned + 1, 1
    # Beyond this multiplier a move outweighs all rack cost there can be.
    low, high = 0, _RACK_UNIT * (int(classes.cost.max(initial=0)) * question.size + 1)
    best = solved(_RACK_UNIT, high)
    for _ in range(_MOST_ROUNDS):
        middle = (low + high) // 2 if high < 64 * _RACK_UNIT else max(low + 1, high // 16)
        if middle in {low, high}:
            break
        tried = solved(_RACK_UNIT, middle)
        if tried[2] <= limit:
            high, best = middle, tried
        else:
            low = middle
    return best[0], best[1], _RACK_UNIT, high


def _alike(question: Question, bundles: Bundles, deck: Deck, limit: int) -> Limited:
    """Solve the case of like partitions and like members: each move lowers a largest load."""
    claims = question.claims
    place = np.flatnonzero(bundles.member >= 0)
    owner = claims.keeper.copy()
    has = np.bincount(owner[owner >= 0], minlength=question.members)
    forced = int(np.count_nonzero(claims.owned & (claims.keeper == -1)))
    quota, top = _shed(has, limit - forced)
    give_up(owner, has, quota)
    pool = deck.without_owner(owner)
    load = _filled(quota[place], len(pool))
    owner[pool] = turns(place, load - quota[place], np.zeros_like(place), in_blocks=deck.in_blocks)
    reached = np.zeros(question.members, np.int64)
    reached[place] = load
    floor = int(load.min()) if len(load) else 0
    proofs = []
    everything = np.full(question.members, question.size + 1, np.int64)
    for j in np.unique(load[load > 0]).tolist():
        # Levels that the dealt partitions fill are full; above them owners have too much.
        prices = everything if j <= floor + 1 else (has >= j).astype(np.int64)
        proofs.append((j, prices))
    return Limited(owner, tuple(proofs), (has >= top).astype(np.int64), 0, 1)


def _shed(has: Int64Array, moves: int) -> tuple[Int64Array, int]:
    """Return what members keep if each move takes one from the largest, and the largest load."""
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


def _filled(load: Int64Array, more: int) -> Int64Array:
    """Return loads after so many more went to the least loaded, one by one."""
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
