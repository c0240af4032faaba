"""Local search by weight: a first plan by Graham's LPT rule, then transfers and swaps of items.

R. L. Graham (1969): longest processing time first. The search lowers the largest relative load
first, then the next. A step transfers one item to another member, or swaps two items. It must
lower, in this order: the load beyond capacities; the larger, then the smaller, of the two relative
loads; rack cost; moves. Each step lowers the loads sorted from the largest, so that the search
ends. A limit of counted work ends it earlier (`WeightedPlan.work`).

`assign_to_previous_owners` leaves items with their claimants (members that owned partitions of the
item). `remove_excess_partitions` removes items from members above their fractional share.
`assign_unowned` assigns items without owner, heaviest first, to the least loaded member.
`return_to_previous_owners` swaps items of a fresh plan back to their claimants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heapreplace

import numpy as np
from numpy.typing import NDArray

from partage.solve.assignment.network import IntArray
from partage.solve.assignment.weighted_plan import (
    MOST_WORK,
    FloatArray,
    Items,
    Members,
    WeightedPlan,
)

__all__ = [
    "SearchResult",
    "assign_to_previous_owners",
    "assign_unowned",
    "improve_plan",
    "remove_excess_partitions",
    "return_to_previous_owners",
]


def assign_to_previous_owners(plan: WeightedPlan, hints: Mapping[int, int]) -> None:
    """Assign partitions to their previous owners, as the start of a local search.

    Partitions that must have one owner go together to the member that may keep most of them.
    Partitions without a previous owner stay unassigned unless ``hints`` has a member for them.

    Args:
        plan: the assignment; changed in place.
        hints: dict from item (a partition, or several with one owner) to the member that gets it if
            it has no previous owner.
    """
    items = plan.items
    found: dict[int, int] = {}
    waiting: list[int] = []
    for i, homes in items.homes.items():
        may = [m for m in homes if plan.open[items.kind[i], m]]
        if may:
            found[i] = min(may, key=lambda m: (-homes[m], m))
        else:
            waiting.append(i)
    owned = int(items.owned.sum())
    plan.moves = owned - sum(items.homes[i][m] for i, m in found.items())
    # Members of weight 0 release their heaviest items first, as far as the limit of moves allows.
    excess = plan.moves - plan.most_moves
    for i in sorted(waiting, key=lambda i: (items.weight[i], -i)):
        homes = items.homes[i]
        if excess <= 0:
            break
        found[i] = min(homes, key=lambda m: (-homes[m], m))
        excess -= homes[found[i]]
        plan.moves -= homes[found[i]]
    plan.most_moves = max(plan.most_moves, plan.moves)
    for i, m in hints.items():
        if i not in found and plan.open[items.kind[i], m]:
            found[i] = m
    for i in sorted(found):
        plan.assign_item(i, found[i])


def assign_unowned(plan: WeightedPlan) -> None:
    """Assign each partition that has no owner to the least loaded member, heaviest partition first.

    This is Graham's rule "longest processing time first" (LPT). Partitions that must have one owner
    are assigned together. ``plan`` is changed in place.
    """
    items = plan.items
    waiting = np.flatnonzero(plan.owner < 0)
    waiting = waiting[np.argsort(-items.weight[waiting], kind="stable")]
    if not len(waiting):
        return
    kinds = np.unique(items.kind[waiting])
    members = np.flatnonzero(plan.open[kinds[0]])
    alike = len(kinds) == 1 and len(np.unique(plan.members.group[members])) == 1
    if alike and not np.isfinite(plan.members.capacity[members]).any():
        _fill_interchangeable(plan, waiting, members)
        return
    among = {k: np.flatnonzero(plan.open[k]) for k in kinds.tolist()}
    speed, capacity = plan.members.speed, plan.members.capacity
    limited = bool(np.isfinite(capacity).any())
    for i, k in zip(waiting.tolist(), items.kind[waiting].tolist(), strict=True):
        to = among[k]
        load, w = plan.load[to], items.weight[i]
        keys: list[FloatArray | IntArray] = []
        if limited:
            room = capacity[to]
            keys.append(np.maximum(load + w - room, 0.0) - np.maximum(load - room, 0.0))
        keys.append((load + w) / speed[to])
        if plan.costly:
            keys.append(plan.rack_cost(np.array(i), to))
        at = np.arange(len(to))
        for key in keys:
            at = at[key[at] == key[at].min()]
        plan.assign_item(i, int(to[at[0]]))


def _fill_interchangeable(plan: WeightedPlan, items: IntArray, members: IntArray) -> None:
    """Assign each item to the least loaded member, if the members differ only in their loads.

    An item is a partition, or several that must have one owner. ``plan`` is changed in place.
    """
    heap = [
        (load, m) for load, m in zip(plan.load[members].tolist(), members.tolist(), strict=True)
    ]
    heapify(heap)
    weight = plan.items.weight[items].tolist()
    for i, w in zip(items.tolist(), weight, strict=True):
        load, m = heap[0]
        plan.assign_item(i, m)
        heapreplace(heap, (load + w, m))


def remove_excess_partitions(plan: WeightedPlan, fair_loads: FloatArray) -> None:
    """Take the heaviest partitions away from each member that has more than its fair share.

    No member falls below its fair share. The partitions have no owner afterwards.

    Args:
        plan: the assignment; changed in place.
        fair_loads: float64[members], the load that each member would have if partitions could be
            divided.
    """
    weight, kind = plan.items.weight, plan.items.kind
    leaves = plan.open.sum(axis=1) > 1
    for m in np.flatnonzero(plan.load > fair_loads + plan.tolerance * plan.members.speed).tolist():
        mine = np.array(plan.content[m], np.int64)
        mine = mine[leaves[kind[mine]] & (weight[mine] > 0)]
        excess = float(plan.load[m] - fair_loads[m])
        for i in mine[np.argsort(-weight[mine], kind="stable")].tolist():
            if weight[i] <= excess:
                plan.remove_item(i)
                excess -= float(weight[i])


def return_to_previous_owners(plan: WeightedPlan) -> None:
    """Swap partitions back to their previous owners where that does not raise the largest load.

    ``plan`` is an assignment that was made without regard to previous owners; it is changed in
    place. Partitions that must have one owner are swapped together.
    """
    weight, kind, speed = plan.items.weight, plan.items.kind, plan.members.speed
    ceiling = float(plan.relative_loads.max(initial=0.0)) * (1 + 1e-12)
    all_items = np.arange(len(weight))
    away = np.flatnonzero(plan.count_moves(all_items, plan.owner) > 0)
    for i in away[np.argsort(-weight[away], kind="stable")].tolist():
        b = int(plan.owner[i])
        for a in plan.items.homes.get(i, {}):
            if a == b or not plan.open[kind[i], a]:
                continue
            theirs = np.array(plan.content[a], np.int64)
            theirs = theirs[plan.open[kind[theirs], b]]
            change = weight[i] - weight[theirs]
            fits = (plan.load[a] + change <= ceiling * speed[a]) & (
                plan.load[b] - change <= ceiling * speed[b]
            )
            theirs, change = theirs[fits], change[fits]
            if not len(theirs):
                continue
            saved = plan.count_moves(theirs, a) - plan.count_moves(theirs, b)
            good = np.flatnonzero(saved >= 0)
            if len(good):
                best = good[np.lexsort((np.abs(change[good]), -saved[good]))[0]]
                plan.swap_owners(i, int(theirs[best]))
                break


#: Candidate receivers of a step: the least loaded members, in all and for each kind of items.
_TARGETS = 16
#: Candidate partners of a swap (members), and pairs of items compared.
_PARTNERS, _MOST_PAIRS = 12, 60_000

#: Ratio of the largest load to its fractional bound below which no second search is worth it.
_NEAR = 1.005

#: How often a start from the claims levels loads. Each round halves about the excess of a heavy
#: item's receiver: its other items go to members that then release smaller ones.
_LEVELLING_ROUNDS = 8


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The assignment that a local search found, and whether it is a local optimum.

    The search ends early if it reaches its limit of work.

    Attributes:
        plan: the owner and load of each partition and member.
        complete: whether no single transfer or swap improves it; False if the limit of work ended
            the search.
    """

    plan: WeightedPlan
    complete: bool


def improve_plan(
    items: Items,
    members: Members,
    *,
    hints: Mapping[int, int] | None = None,
    most_moves: float = float("inf"),
    tolerance: float = 0.0,
    fractional_loads: FloatArray | None = None,
) -> SearchResult:
    """Assign weighted partitions to members by local search, as evenly as possible.

    The result is a local optimum: no single transfer or swap improves it. If the work limit ends
    the search, it is the best assignment so far. An item is a partition, or several that must have
    one owner.

    Args:
        items: weights and previous owners of the items.
        members: shares and capacities of the members that receive items.
        hints: dict from item to the member that gets it first if no previous owner keeps it.
        most_moves: maximum number of moves; raised if every plan has more moves.
        tolerance: least decrease of a relative load (load divided by share) that counts as a gain.
        fractional_loads: float64[members], loads of the best fractional plan; None if not known.

    >>> items = Items(np.array([3.0, 2.0, 2.0]), np.zeros(3, int), [[0]], np.zeros((1, 1), int),
    ...               np.zeros(3, int), np.zeros(3, int), {})
    >>> two = Members(np.zeros(2, int), [0], np.ones(2), np.full(2, np.inf))
    >>> improve_plan(items, two).plan.owner.tolist()
    [0, 1, 1]
    """
    unlimited = bool(np.isinf(most_moves))
    fair = fractional_loads if unlimited else None
    plan = WeightedPlan(items, members, most_moves, tolerance, work=MOST_WORK)
    _start_from_claims(plan, hints or {}, fair, rounds=0)
    best = SearchResult(plan, improve_by_local_search(plan))
    if not unlimited or not items.homes:
        return best
    # The search may end early, because each step must gain the tolerance. A start with more even
    # loads may end lower, and so may a fresh plan, which moves more.
    for rounds in (_LEVELLING_ROUNDS, None) if fair is not None else (None,):
        if best.complete and _is_near_bound(best.plan, fair):
            break
        other = WeightedPlan(items, members, most_moves, tolerance, work=MOST_WORK // 2)
        if rounds is None:
            _start_fresh(other)
        else:
            _start_from_claims(other, hints or {}, fair, rounds)
        found = SearchResult(other, improve_by_local_search(other))
        # A level start near the bound is taken, so that no fresh plan with more moves follows.
        ends = rounds is not None and found.complete and _is_near_bound(other, fair)
        gain = 0.0 if ends else tolerance
        lower = _largest(other) <= _largest(best.plan) - gain
        if lower and other.plan_score() < best.plan.plan_score():
            best = found
    return best


def _start_from_claims(
    plan: WeightedPlan, hints: Mapping[int, int], fair_loads: FloatArray | None, rounds: int
) -> None:
    """Assign partitions to their previous owners, and all others to the least loaded members.

    The local search that starts from this assignment moves few partitions.

    Args:
        plan: the assignment without owners; changed in place.
        hints: see `assign_to_previous_owners`.
        fair_loads: see `remove_excess_partitions`; None if members keep all that they owned.
        rounds: how often members that the assignment has raised above their fair share release
            their excess again.
    """
    assign_to_previous_owners(plan, hints)
    for _ in range(rounds + 1):
        # Released items are moves, and are counted when they have an owner again.
        if fair_loads is not None:
            remove_excess_partitions(plan, fair_loads)
        assign_unowned(plan)
    _recount(plan)


def _start_fresh(plan: WeightedPlan) -> None:
    # A plan without regard to claims, then exchanges that return partitions to their claimants.
    assign_unowned(plan)
    _recount(plan)
    return_to_previous_owners(plan)


def _is_near_bound(plan: WeightedPlan, fractional_loads: FloatArray | None) -> bool:
    """Return whether an assignment is so near the optimum that another search is not worthwhile.

    A plan is close if its largest relative load (load divided by the member's weight) nearly equals
    a lower bound. The bound is the largest load if partitions could be divided, or the heaviest
    partition's share of a member.

    Args:
        plan: the assignment to check.
        fractional_loads: float64[members], the most even loads if partitions could be divided; None
            if not known, and then the result is False.
    """
    if fractional_loads is None:
        return False
    largest, speed = _largest(plan), plan.members.speed
    even = float((fractional_loads / speed).max(initial=0.0))
    # One item may be heavier than a fair share.
    fastest = np.where(plan.open, speed, 0.0).max(axis=1)
    heaviest = float((plan.items.weight / fastest[plan.items.kind]).max(initial=0.0))
    return largest <= even * _NEAR or largest - plan.tolerance < max(even, heaviest)


def _largest(plan: WeightedPlan) -> float:
    return float(plan.relative_loads[plan.members.group >= 0].max(initial=0.0))


def _recount(plan: WeightedPlan) -> None:
    plan.moves = int(plan.count_moves(np.arange(len(plan.owner)), plan.owner).sum())


def improve_by_local_search(plan: WeightedPlan) -> bool:
    """Improve an assignment by single transfers and swaps of partitions until none helps.

    ``plan`` is changed in place.

    Returns:
        False if the limit of work ended the search earlier, else True.
    """
    while plan.work > 0:
        before = plan.owner.copy()
        _lower_loads(plan)
        _swap_equal_weights(plan)
        if np.array_equal(before, plan.owner):
            return plan.work > 0
    return False


def _lower_loads(plan: WeightedPlan) -> None:
    settled: NDArray[np.bool_] = plan.members.group < 0
    while plan.work > 0:
        relative = plan.relative_loads
        full = (plan.load > plan.members.capacity) & ~settled
        a = int(np.where(full if full.any() else ~settled, relative, -1.0).argmax())
        if settled[a]:
            return
        b = _transfer_best(plan, a)
        if b < 0:
            b = _swap_best(plan, a)
        if b < 0:
            settled[a] = True
        else:
            settled[[a, b]] = False


def _targets(plan: WeightedPlan, a: int, mine: IntArray) -> IntArray:
    # The least loaded member comes first.
    open_to = plan.open[np.unique(plan.items.kind[mine])]
    relative = plan.relative_loads
    reach: NDArray[np.bool_] = open_to.any(axis=0)  # type: ignore[assignment]  # of an axis
    reach[a] = False
    if plan.load[a] <= plan.members.capacity[a]:
        reach &= relative <= relative[a]
    to = np.flatnonzero(reach)
    room = plan.load[to] >= plan.members.capacity[to]
    to = to[np.lexsort((relative[to], room))]
    if len(to) <= _TARGETS:
        return to
    lowest = np.where(open_to & reach, relative, np.inf).argmin(axis=1)
    found: IntArray = np.array(list(dict.fromkeys([*to[:_TARGETS].tolist(), *lowest.tolist()])))
    return found[reach[found]]


def _transfer_best(plan: WeightedPlan, a: int) -> int:
    # The result is the receiver, -1 if no transfer is an improvement.
    mine = np.sort(np.array(plan.content[a], np.int64))
    if not len(mine):
        return -1
    to = _targets(plan, a, mine)
    homes = [m for i in mine.tolist() for m in plan.items.homes.get(i, ()) if m != a]
    if homes:
        to = np.array(list(dict.fromkeys([*to.tolist(), *homes])), np.int64)
    i, b = np.repeat(mine, len(to)), np.tile(to, len(mine))
    good = plan.open[plan.items.kind[i], b]
    i, b = i[good], b[good]
    if not len(i):
        return -1
    at = plan.exchange_gains(i, b).best_exchange()
    if at < 0:
        return -1
    plan.transfer_item(int(i[at]), int(b[at]))
    return int(b[at])


def _swap_best(plan: WeightedPlan, a: int) -> int:
    # The result is the other member, -1 if no swap is an improvement.
    mine = np.sort(np.array(plan.content[a], np.int64))
    if not len(mine):
        return -1
    to = _targets(plan, a, mine)[:_PARTNERS]
    lowest = float(plan.relative_loads[to].min(initial=np.inf))
    if not plan.costly and float(plan.relative_loads[a]) - lowest <= plan.tolerance:
        return -1
    theirs = np.array([j for b in to.tolist() for j in sorted(plan.content[b])], np.int64)
    theirs = theirs[plan.open[plan.items.kind[theirs], a]]
    theirs = theirs[: max(1, _MOST_PAIRS // len(mine))]
    i, j = np.repeat(mine, len(theirs)), np.tile(theirs, len(mine))
    b = plan.owner[j]
    good = plan.open[plan.items.kind[i], b]
    if not plan.costly:
        good &= plan.items.weight[i] >= plan.items.weight[j]
    i, j, b = i[good], j[good], b[good]
    if not len(i):
        return -1
    at = plan.exchange_gains(i, b, j).best_exchange()
    if at < 0:
        return -1
    plan.swap_owners(int(i[at]), int(j[at]))
    return int(b[at])


def _swap_equal_weights(plan: WeightedPlan) -> None:
    # Loads stay as they are.
    weight, kind = plan.items.weight, plan.items.kind
    order = np.argsort(weight, kind="stable")
    first = np.searchsorted(weight[order], weight, side="left")
    last = np.searchsorted(weight[order], weight, side="right")
    everything = np.arange(len(weight))
    worth = plan.count_moves(everything, plan.owner) > 0
    if plan.costly:
        worth |= plan.rack_cost(everything, plan.owner) > 0
    for i in np.flatnonzero(worth & (last - first > 1)).tolist():
        if plan.work <= 0:
            return
        a = int(plan.owner[i])
        alike = order[first[i] : last[i]]
        good = plan.open[kind[i], plan.owner[alike]] & plan.open[kind[alike], a]
        alike = alike[good & (plan.owner[alike] != a)]
        if len(alike):
            at = plan.exchange_gains(
                np.full(len(alike), i), plan.owner[alike], alike
            ).best_exchange()
            if at >= 0:
                plan.swap_owners(i, int(alike[at]))
