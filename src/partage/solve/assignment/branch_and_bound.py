"""Branch and bound for small weighted problems: depth-first over items, heaviest first.

A. H. Land and A. G. Doig (1960). Every component of the score can only grow while items are
assigned, so a partial plan that is no better than the best known plan is cut off. Of equivalent
members only one is tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from partage.solve.assignment.weighted_plan import Items, Members

__all__ = ["MOST_ITEMS", "MOST_NODES", "solve_exactly"]

#: Partial plans visited at most; beyond it the best plan so far is returned.
MOST_NODES = 20_000
#: The same where only the spread of topics is improved: some tens of milliseconds.
_MOST_NODES_FOR_TOPICS = 5_000
#: Items of the largest problem that is searched.
MOST_ITEMS = 16

#: Misplaced items (`WeightedPlan.count_misplaced`); overload; relative loads, largest first; cost;
#: moves; sum of squared counts by topic and member. Less is better, the first before the next.
Score = tuple["float | int | tuple[float, ...]", ...]


def solve_exactly(
    items: Items,
    members: Members,
    known_owners: Sequence[int],
    *,
    most_moves: float,
    topic: Sequence[int] = (),
) -> list[int]:
    """Find an optimal assignment of weighted partitions to members by branch and bound.

    An item is a partition, or several that must have one owner; the result has the owner of each
    item. More than 16 items are not searched, and the search ends at a limit of work. In these
    cases the result is ``known_owners`` or a better assignment that was found.

    Args:
        items: weights and previous owners of the items.
        members: shares and capacities of the members that receive items.
        known_owners: the owner of each item in the best known assignment.
        most_moves: maximum number of partitions that change their owner.
        topic: the topic of each item. With it, only assignments with the sorted loads of
            ``known_owners`` are searched, and an even spread of topics is the last criterion.

    >>> import numpy as np
    >>> items = Items(np.array([3.0, 3.0, 2.0, 2.0, 2.0]), np.zeros(5, int), [[0]],
    ...               np.zeros((1, 1), int), np.zeros(5, int), np.zeros(5, int), {})
    >>> two = Members(np.zeros(2, int), [0], np.ones(2), np.full(2, np.inf))
    >>> solve_exactly(items, two, [0, 1, 0, 1, 0], most_moves=0)
    [0, 0, 1, 1, 1]
    """
    if len(known_owners) > MOST_ITEMS:
        return list(known_owners)
    search = _BranchAndBound(items, members, most_moves, topic)
    search.best, search.owner = search.score_assignment(list(known_owners)), list(known_owners)
    if topic:
        search.nodes, search.ceiling = (
            _MOST_NODES_FOR_TOPICS,
            search.relative_loads(list(known_owners)),
        )
    search.search_assignments(0, [-1] * len(known_owners))
    return search.owner


@dataclass(slots=True, eq=False)
class _BranchAndBound:
    """Branch-and-bound search for the best assignment of weighted partitions to members.

    An item is a partition, or several that must have one owner.

    Attributes:
        items, members: the items to assign, and the members that receive them.
        most_moves: maximum number of moves.
        topic: the topic of each item; empty if topics do not matter.
        nodes: number of partial assignments that the search may still visit.
        ceiling: upper limits of the sorted relative loads (load divided by share), largest first;
            empty for no limit.
        best: score of the best assignment so far; owner: the member of each item in it.
    """

    items: Items
    members: Members
    most_moves: float
    topic: Sequence[int] = ()
    nodes: int = MOST_NODES
    ceiling: tuple[float, ...] = ()
    best: Score = ()
    owner: list[int] = field(default_factory=list)
    _order: list[int] = field(default_factory=list)
    _load: list[float] = field(default_factory=list)
    _may: list[list[int]] = field(default_factory=list)
    _claimants: set[int] = field(default_factory=set)
    _misplacing: list[set[int]] = field(default_factory=list)
    _count: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        weight = self.items.weight.tolist()
        self._order = sorted(range(len(weight)), key=lambda i: (-weight[i], i))
        self._load = [0.0] * len(self.members.group)
        topics = max(self.topic, default=-1) + 1
        self._count = [[0] * topics for _ in self._load]
        group = self.members.group.tolist()
        by_kind = [[m for m, g in enumerate(group) if g in of] for of in self.items.open_groups]
        self._claimants = {m for homes in self.items.homes.values() for m in homes}
        self._may = [by_kind[k] for k in self.items.kind.tolist()]
        self._misplacing = [set[int]() for _ in weight]
        if self.members.draining is not None:
            draining = {m for m, drains in enumerate(self.members.draining.tolist()) if drains}
            for i, may in enumerate(self._may):
                if not draining.issuperset(may):
                    # An owned item may stay where the limit of moves is used up elsewhere.
                    self._misplacing[i] = draining
                    homes = self.items.homes.get(i, {})
                    self._may[i] = [m for m in may if m not in draining or m in homes]

    def score_assignment(self, owner: list[int]) -> Score:
        """Return costs as a tuple by which assignments are compared; the lower tuple is better.

        Its elements, the most important first: partitions on members of weight 0 (which should own
        nothing), load above the members' capacities, the sorted loads, rack cost, moves, and the
        spread of topics. ``owner`` is the member of each item.
        """
        cost = moves = misplaced = 0
        for i, m in enumerate(owner):
            misplaced += m in self._misplacing[i]
            cost += self._cost(i, m)
            moves += self._moves(i, m)
        over, relative = self._load_scores(self._loads_of(owner))
        return misplaced, over, relative, cost, moves, self._squares(owner)

    def relative_loads(self, owner: list[int]) -> tuple[float, ...]:
        """Return the loads of all members, each divided by the member's share, from the largest
        down.

        ``owner`` is the member that owns each item (a partition, or several with one owner).
        """
        return self._load_scores(self._loads_of(owner))[1]

    def _loads_of(self, owner: list[int]) -> list[float]:
        load = [0.0] * len(self._load)
        for weight, m in zip(self.items.weight.tolist(), owner, strict=True):
            load[m] += weight
        return load

    def _squares(self, owner: list[int]) -> int:
        # The sum of squared counts by topic and member.
        if not self.topic:
            return 0
        pairs = Counter(zip(self.topic, owner, strict=True))
        return sum(count * count for count in pairs.values())

    def _cost(self, i: int, m: int) -> int:
        column = self.members.column[int(self.members.group[m])]
        return int(self.items.cost[self.items.profile[i], column])

    def _moves(self, i: int, m: int) -> int:
        # Partitions of the item that change owner.
        return int(self.items.owned[i]) - self.items.homes.get(i, {}).get(m, 0)

    def _load_scores(self, load: list[float]) -> tuple[float, tuple[float, ...]]:
        """Return the two scores of an assignment that depend on loads only.

        They are the total load above the members' capacities, and the sorted relative loads (a load
        divided by the member's share). ``load`` is the load of each member.
        """
        limits = zip(load, self.members.capacity.tolist(), strict=True)
        relative = [x / s for x, s in zip(load, self.members.speed.tolist(), strict=True)]
        return sum(max(0.0, x - c) for x, c in limits), tuple(sorted(relative, reverse=True))

    def search_assignments(
        self,
        item_count: int,
        owner: list[int],
        rack_cost: int = 0,
        moves: int = 0,
        misplaced: int = 0,
        *,
        squares: int = 0,
    ) -> None:
        """Assign the remaining partitions in all promising ways, depth first, and keep the best
        assignment.

        The best assignment is stored in ``self.owner`` and its score in ``self.best``. An item is a
        partition, or several with one owner.

        Args:
            item_count: number of items that have an owner already, in the order of the search.
            owner: member of each item; -1 for none yet.
            rack_cost: rack cost of the items that have an owner.
            moves: partitions of these items that changed their owner.
            misplaced: number of these items on members that should own nothing.
            squares: sum of the squared partition counts by topic and member.
        """
        # The first ``at`` items in the search's order already have owners.
        self.nodes -= 1
        if self.nodes <= 0 or moves > self.most_moves:
            return
        over, relative = self._load_scores(self._load)
        score = (misplaced, over, relative, rack_cost, moves, squares)
        if score >= self.best:
            return
        if self.ceiling and any(x > y for x, y in zip(relative, self.ceiling, strict=True)):
            return
        if item_count == len(owner):
            self.best, self.owner = score, list(owner)
            return
        i = self._order[item_count]
        weight = float(self.items.weight[i])
        t = self.topic[i] if self.topic else -1
        tried: set[tuple[object, ...]] = set()
        for m in sorted(self._may[i], key=lambda m: self._preference(i, m)):
            alike = int(self.members.group[m]), self._load[m], *self._count[m]
            if m not in self._claimants:
                # Members without claims that have the same load and topics are equivalent.
                if alike in tried:
                    continue
                tried.add(alike)
            owner[i] = m
            self._load[m] += weight
            more = 0
            if self.topic:
                # A square grows from n * n to (n + 1) * (n + 1).
                more = 2 * self._count[m][t] + 1
                self._count[m][t] += 1
            self.search_assignments(
                item_count + 1, owner, rack_cost + self._cost(i, m), moves + self._moves(i, m),
                misplaced + (m in self._misplacing[i]), squares=squares + more,
            )  # fmt: skip
            self._load[m] -= weight
            if self.topic:
                self._count[m][t] -= 1
        owner[i] = -1

    def _preference(self, i: int, m: int) -> tuple[int, ...]:
        # The member that is tried first has the least value.
        of_topic = self._count[m][self.topic[i]] if self.topic else 0
        return self._moves(i, m), self._cost(i, m), of_topic, m
