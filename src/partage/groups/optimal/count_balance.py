"""The best plan by counts: even loads, then least rack cost, then fewest moves (min-cost flow).

`partage.solve` finds the least-majorised loads and the cheapest plan with these loads between
classes of partitions and members. This module builds the transportation problem, and converts flows
between classes into owners of partitions. If all partitions and all members are equivalent, a
closed form gives the same plan.

A row is a partition with subscribers, a place a member's position in canonical order; a keeper is a
member that owned a row and may keep it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from partage.groups.optimal.problem import (
    CanonicalProblem,
    Int64Array,
    NewestClaims,
    PartitionClasses,
    rank_values,
)
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

__all__ = [
    "AssignmentOrder",
    "CountPlan",
    "TransportArcs",
    "assign_remaining",
    "balance_counts",
    "keep_partitions",
    "release_excess",
    "repeat_members",
]  # fmt: skip


#: Units of flow whose groups take turns; sorting more would cost more than the flow.
_MOST_INTERLEAVED = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class CountPlan:
    """Assignment with the most even partition counts, and numbers that prove it optimal.

    The numbers are dual values of the minimum-cost flow that found the assignment; a verifier
    computes lower bounds from them. Partitions and members are indices in an order that does not
    depend on the join order.

    Attributes:
        owner: int32[n], the owner of each of n partitions.
        topic_level: int64[T], a level for each topic; the levels prove the loads.
        price: int64[M], dual prices of members, which prove rack cost and moves.
        rack_weight: the number of moves that one unit of rack cost outweighs.
    """

    owner: Int32Array
    topic_level: Int64Array
    price: Int64Array
    rack_weight: int


def balance_counts(
    canonical: CanonicalProblem, racks: RackTable | None, together: Int64Array | None
) -> CountPlan:
    """Assign partitions so that the consumers' partition counts are as even as possible.

    Of all such assignments, the result has the least cost of consuming from other racks, then the
    fewest moves. A minimum-cost flow finds it.

    Args:
        canonical: the problem, with members and partitions sorted independently of the join order.
        racks: costs of consuming from other racks; None if they do not matter.
        together: int64[T], number of each topic's co-location set: partitions with the same number
            in topics of a set get the same owner if that costs nothing.

    Raises:
        ProblemTooLargeError: the exact answer would take too long.
    """
    if canonical.is_symmetric and racks is None and together is None:
        return _assign_in_turn(canonical)
    claims = canonical.current_claims
    subscription_classes = canonical.classes
    classes = PartitionClasses.for_problem(canonical, subscription_classes, racks)
    assignment_order = AssignmentOrder.for_problem(canonical, together)
    if len(classes.topic_class) <= 1 and classes.groups <= 1 and not len(claims.contested):
        found = _balance_equivalent(canonical, claims, subscription_classes, assignment_order)
        if together is not None or not len(found.owner):
            return found
        owner = spread_topics(canonical, found.owner, None, classes.of_row, classes)
        return replace(found, owner=owner)
    load, level, share = find_even_loads(subscription_classes)
    weight = int(np.count_nonzero(claims.owned)) + 1
    arcs = TransportArcs.from_classes(classes, claims, subscription_classes, weight)
    if racks is None and not claims.owned.any():
        # Nothing costs anything, and the flow of the best loads spreads every topic.
        flow = CheapestPlan(
            np.zeros(0, np.int64), share, load, np.zeros(canonical.member_count, np.int64)
        )
    else:
        flow = find_cheapest_plan(
            TransportProblem(
                arcs.supply, classes.group, classes.groups, arcs.keep_class, arcs.keep_member,
                arcs.keep_most, arcs.keep_cost, arcs.free_class, arcs.free_group, arcs.free_cost,
                load,
            )
        )  # fmt: skip
    owner = np.full(canonical.partition_count, -1, np.int32)
    keep_partitions(owner, arcs, flow.kept)
    assign_remaining(owner, assignment_order, arcs, classes.group, flow)
    if together is None:
        owner = spread_topics(canonical, owner, None, classes.of_row, classes)
    return CountPlan(owner, level, flow.price, weight)


@dataclass(frozen=True, slots=True, eq=False)
class TransportArcs:
    """Arcs of the minimum-cost flow (a transportation problem) from partitions to consumers.

    An arc either leaves a partition with its previous owner, or assigns it to a group of equivalent
    members. To keep the flow small, equivalent partitions form a class and share their arcs.
    Partitions that several members reported as owned form separate classes.

    Attributes:
        of_row: int64[n], class of each partition.
        cell: int64[n], index of the arc "stays with its owner" for each partition with one previous
            owner, else -1.
        supply, keep_class, keep_member, keep_most, keep_cost, free_class, free_group, free_cost:
            the classes and arcs, see `partage.solve.TransportProblem`.
    """

    of_row: Int64Array
    cell: Int64Array
    supply: Int64Array
    keep_class: Int64Array
    keep_member: Int64Array
    keep_most: Int64Array
    keep_cost: Int64Array
    free_class: Int64Array
    free_group: Int64Array
    free_cost: Int64Array

    @classmethod
    def from_classes(
        cls,
        classes: PartitionClasses,
        claims: NewestClaims,
        subscription_classes: SubscriptionClasses,
        rack_weight: int,
        move_weight: int = 1,
    ) -> TransportArcs:
        """Build the arcs of the minimum-cost flow from partitions to members, with their costs.

        The cost of an arc consists of the rack cost (of consuming from another rack) and, unless
        the partition stays with its owner, the cost of a move.

        Args:
            classes: classes of equivalent partitions, and groups of equivalent members.
            claims: the members that reported each partition as owned and may keep it.
            subscription_classes: which classes of members subscribe to which classes of topics.
            rack_weight: cost of one unit of rack cost.
            move_weight: cost of one move.
        """
        of_row, base, class_keepers = _add_contested_classes(classes, claims)
        supply = np.bincount(of_row, minlength=len(base))
        members = max(len(classes.group), 1)
        cell = np.full(len(of_row), -1, np.int64)
        sole = np.flatnonzero(claims.keeper >= 0)
        cell[sole], cells = rank_values(of_row[sole] * members + claims.keeper[sole])
        most = np.bincount(cell[sole], minlength=len(cells))
        several = np.array([(c, m) for c, keepers in class_keepers for m in keepers], np.int64)
        several = several.reshape(-1, 2)
        keep_class = np.concatenate([cells // members, several[:, 0]])
        keep_member = np.concatenate([cells % members, several[:, 1]])
        keep_most = np.concatenate([most, supply[several[:, 0]]])
        column = classes.column[classes.group[keep_member]] if len(keep_member) else keep_member
        # The cost of assigning a partition is its rack cost times the rack weight, minus the move
        # weight if it stays.
        keep_cost = (
            classes.cost[classes.profile[base[keep_class]], column] * rack_weight - move_weight
        )
        free_class, free_group = _eligible_pairs(classes, subscription_classes, base)
        free_cost = classes.cost[classes.profile[base[free_class]], classes.column[free_group]]
        return cls(
            of_row, cell, supply, keep_class, keep_member, keep_most, keep_cost,
            free_class, free_group, free_cost * rack_weight,
        )  # fmt: skip


def _add_contested_classes(
    classes: PartitionClasses, claims: NewestClaims
) -> tuple[Int64Array, Int64Array, list[tuple[int, tuple[int, ...]]]]:
    """Put partitions that several members report as owned into separate classes for the flow.

    Each such member may keep the partition without a move. Other partitions stay in their class of
    equivalent partitions. The result has the class of each partition, the original class of each
    class, and the (new class, members) pairs.
    """
    plain = len(classes.topic_class)
    base = list(range(plain))
    of_row = classes.of_row.astype(np.int64)
    if not len(claims.contested):
        return of_row, np.array(base, np.int64), []
    seen: dict[tuple[int, tuple[int, ...]], int] = {}
    start, keepers = claims.start.tolist(), claims.keepers.tolist()
    under = of_row[claims.contested].tolist()
    mine = []
    for i, c in enumerate(under):
        key = c, tuple(keepers[start[i] : start[i + 1]])
        mine.append(plain + seen.setdefault(key, len(seen)))
    of_row[claims.contested] = mine
    base += [c for c, _ in seen]
    added = [(plain + i, several) for (_, several), i in seen.items()]
    return of_row, np.array(base, np.int64), added


def _eligible_pairs(
    classes: PartitionClasses, subscription_classes: SubscriptionClasses, original_class: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Find the groups of members that subscribe to each class of equivalent partitions.

    The flow may send partitions of the class to these groups. The result has the partition class
    and the member group of each pair, as two arrays sorted by class.
    """
    open_groups: list[list[int]] = [[] for _ in range(len(subscription_classes.size))]
    for g, b in enumerate(classes.member_class.tolist()):
        open_groups[b].append(g)
    width = np.array([len(one) for one in open_groups], np.int64)
    flat = np.array([g for one in open_groups for g in one], np.int64)
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(width)])
    start = np.searchsorted(
        subscription_classes.arc_topic, np.arange(len(subscription_classes.supply) + 1)
    )
    groups_of_class = [
        np.concatenate(
            [np.zeros(0, np.int64)]
            + [flat[first[m] : first[m + 1]] for m in subscription_classes.arc_member[a:b].tolist()]
        )
        for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)
    ]
    groups = [groups_of_class[b] for b in classes.topic_class[original_class].tolist()]
    free_class = np.repeat(np.arange(len(original_class)), [len(one) for one in groups])
    return free_class, np.concatenate([np.zeros(0, np.int64), *groups])


def keep_partitions(owner: Int32Array, arcs: TransportArcs, stay_counts: Int64Array) -> None:
    """Let previous owners keep partitions, as many as the minimum-cost flow says.

    If an owner keeps only some of its equivalent partitions, it keeps the first ones.

    Args:
        owner: int32[n], owner of each partition, -1 for none; set for the partitions that stay.
        arcs: arcs of the minimum-cost flow.
        stay_counts: number of partitions that stay on each "keep" arc.
    """
    cells = len(stay_counts) if not len(arcs.cell) else int(arcs.cell.max()) + 1
    whole = np.zeros(len(stay_counts) + 1, bool)
    whole[:-1] = stay_counts == arcs.keep_most
    keeper = np.append(arcs.keep_member, -1).astype(np.int32)
    stays = whole[arcs.cell] & (arcs.cell >= 0)
    owner[stays] = keeper[arcs.cell[stays]]
    partly = np.append((stay_counts > 0) & ~whole[:-1], False)
    partly[cells:-1] = False
    some = np.flatnonzero(partly[arcs.cell])
    _keep_first(owner, some, arcs.cell[some], stay_counts, arcs.keep_member)
    # Contested classes: their keepers get rows in the order listed.
    behind = np.arange(cells, len(stay_counts))
    for c in dict.fromkeys(arcs.keep_class[behind].tolist()):
        mine = behind[arcs.keep_class[behind] == c]
        rows = np.flatnonzero(arcs.of_row == c)
        keepers = np.repeat(arcs.keep_member[mine], stay_counts[mine])
        owner[rows[: len(keepers)]] = keepers


def _keep_first(
    owner: Int32Array, rows: Int64Array, cell: Int64Array, kept: Int64Array, keeper: Int64Array
) -> None:
    # Where the flow keeps only some of an owner's partitions, the first ones stay.
    order = np.argsort(cell, kind="stable")
    rows, cell = rows[order], cell[order]
    nth = np.arange(len(rows)) - np.searchsorted(cell, cell)
    stays = nth < kept[cell]
    owner[rows[stays]] = keeper[cell[stays]]


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentOrder:
    """Order in which partitions without an owner are assigned to the consumers.

    It decides which member gets which of several equivalent partitions.

    Attributes:
        order: int64[n], partitions as indices in canonical order; None for ascending ones.
        in_blocks: whether a member gets all its partitions at once, so that consecutive ones stay
            together. Otherwise members take turns, so that every topic is spread.
    """

    order: Int64Array | None
    in_blocks: bool

    @classmethod
    def for_problem(
        cls, canonical: CanonicalProblem, together: Int64Array | None
    ) -> AssignmentOrder:
        """Determine the order in which partitions without an owner are assigned.

        It is the order of topic and partition number, or co-located partitions follow each other.
        These have the same number in topics that belong together.

        Args:
            canonical: the problem, with members and partitions sorted independently of the join
                order.
            together: int64[T], number of each topic's co-location set: partitions with the same
                number in topics of a set belong together. None without such sets.
        """
        if together is None:
            return cls(None, in_blocks=False)
        number = canonical.problem.index.number_of[canonical.rows.partition]
        return cls(np.lexsort((number, together[canonical.topic])), in_blocks=True)

    def without_owner(self, owner: Int32Array) -> Int64Array:
        """Return the partitions that have no owner yet, in the order in which they are assigned.

        ``owner`` is the owner of each partition so far (int32[n]), -1 for none.
        """
        if self.order is None:
            return np.flatnonzero(owner < 0)
        return self.order[owner[self.order] < 0]


def assign_remaining(
    owner: Int32Array,
    assignment_order: AssignmentOrder,
    arcs: TransportArcs,
    group: Int64Array,
    member_flow: CheapestPlan,
) -> None:
    """Assign the partitions without an owner; the minimum-cost flow says how many each member gets.

    Members take turns, so that each topic is spread over several members, unless co-located
    partitions must stay together.

    Args:
        owner: int32[n], owner of each partition, -1 for none; changed in place.
        assignment_order: the order in which partitions are assigned.
        arcs: arcs of the minimum-cost flow.
        group: int64[M], group of equivalent members of each member, -1 for none.
        member_flow: the flow: how many partitions each group and each member gets.
    """
    pool = assignment_order.without_owner(owner)
    pool = pool[_order(arcs.of_row[pool], len(arcs.supply))]
    target = _interleave_groups(arcs, member_flow.free)
    pool = pool[_order(target, int(arcs.free_group.max(initial=0)) + 1)]
    everyone = np.flatnonzero(group >= 0)
    everyone = everyone[np.argsort(group[everyone], kind="stable")]
    received = member_flow.received[everyone]
    owner[pool] = repeat_members(
        everyone, received, group[everyone], in_blocks=assignment_order.in_blocks
    )


def _interleave_groups(arcs: TransportArcs, free: Int64Array) -> Int64Array:
    """Choose a group of equivalent members for each partition without an owner, in turn.

    Groups take turns so that no group gets all partitions of a topic. ``free`` is the number of
    partitions that the flow sends on each arc from a partition class to a member group.
    """
    target = np.repeat(arcs.free_group, free)
    of = np.repeat(np.arange(len(free)), free)
    used = np.bincount(arcs.free_class[free > 0], minlength=len(arcs.supply))
    mixed = np.flatnonzero(used[arcs.free_class[of]] > 1)
    if not 0 < len(mixed) <= _MOST_INTERLEAVED:
        return target
    arc = of[mixed]
    nth = mixed - (np.cumsum(free) - free)[arc]
    turn = (nth + 0.5) / free[arc]
    order = np.lexsort((arc, turn, arcs.free_class[arc]))
    target[mixed] = target[mixed[order]]
    return target


def repeat_members(
    member: Int64Array, count: Int64Array, group: Int64Array, *, in_blocks: bool
) -> NDArray[np.int32]:
    """List each member as many times as it gets a partition, in the order of assignment.

    For example, members 5 and 6 get two partitions each. The result is 5, 6, 5, 6 (in turn), or 5,
    5, 6, 6 with ``in_blocks``.

    Args:
        member: int64[k], the members, sorted by group.
        count: int64[k], number of partitions that each member gets.
        group: int64[k], group of each member; groups get their partitions one after another.
        in_blocks: whether a member gets all its partitions at once; otherwise the members of a
            group take turns.
    """
    out = np.repeat(member, count).astype(np.int32)
    if in_blocks or not len(out):
        return out
    nth = np.arange(len(out)) - np.repeat(np.cumsum(count) - count, count)
    high = int(nth.max()) + 1
    of = np.repeat(group, count)
    order = _order(nth, high)
    if int(group.max()) > int(group.min()):
        order = order[_order(of[order], int(group.max()) + 1)]
    return out[order]


def _order(values: Int64Array, below: int) -> NDArray[np.intp]:
    # A stable argsort. NumPy sorts 16-bit keys by radix, faster than wider ones; ``below`` is above
    # all values.
    return np.argsort(values.astype(np.int16) if below <= 1 << 15 else values, kind="stable")


def _assign_in_turn(canonical: CanonicalProblem) -> CountPlan:
    """Return the most even assignment for a new group with equal subscriptions.

    No member owns a partition yet and racks have no effect, so members take turns, which also
    spreads every topic evenly.
    """
    members = canonical.member_count
    turn = np.arange(canonical.partition_count, dtype=np.int32) % np.int32(members)
    level = np.full(len(canonical.rows.topics), -(-canonical.partition_count // members), np.int64)
    return CountPlan(turn, level, np.zeros(members, np.int64), 1)


def _balance_equivalent(
    canonical: CanonicalProblem,
    claims: NewestClaims,
    subscription_classes: SubscriptionClasses,
    assignment_order: AssignmentOrder,
) -> CountPlan:
    """Return the most even assignment for a group in which all members are equivalent.

    They have the same subscription and the same rack costs, so no minimum-cost flow is needed.
    Owned partitions stay as far as the even loads allow.
    """
    place = np.flatnonzero(subscription_classes.member >= 0)
    level = np.zeros(len(canonical.rows.topics), np.int64)
    price = np.zeros(canonical.member_count, np.int64)
    owner = claims.keeper.copy()
    if not len(place):
        return CountPlan(owner, level, price, 1)
    # Each member owns ``base`` partitions or one more; the members that owned the most get one
    # more.
    base, extra = divmod(canonical.partition_count, len(place))
    level[:] = base + (extra > 0)
    has = np.bincount(owner[owner >= 0], minlength=canonical.member_count)
    more = place[np.argsort(-has[place], kind="stable")[:extra]]
    quota = np.zeros(canonical.member_count, np.int64)
    quota[place] = base
    quota[more] += 1
    # A dual price of 1 for each member that must release partitions proves that no plan has fewer
    # moves.
    over = has > base
    if np.count_nonzero(over) < extra:
        over = has > base + 1
    price[over] = 1
    release_excess(owner, has, quota)
    pool = assignment_order.without_owner(owner)
    lacks = (quota - np.minimum(has, quota))[place]
    owner[pool] = repeat_members(
        place, lacks, np.zeros_like(place), in_blocks=assignment_order.in_blocks
    )
    return CountPlan(owner, level, price, int(np.count_nonzero(claims.owned)) + 1)


def release_excess(owner: Int32Array, counts: Int64Array, quota: Int64Array) -> None:
    """Remove partitions from members that own more than their quota.

    Each member keeps its first partitions, in the order of the array.

    Args:
        owner: int32[n], owner of each partition; set to -1 for a removed one.
        counts: int64[M], number of partitions of each member.
        quota: int64[M], number of partitions that each member may keep.
    """
    over = counts > quota
    if not over.any():
        return
    mine = np.flatnonzero(np.append(over, False)[owner])
    order = np.argsort(owner[mine], kind="stable")
    mine = mine[order]
    of = owner[mine]
    nth = np.arange(len(mine)) - np.searchsorted(of, of)
    owner[mine[nth >= quota[of]]] = -1
