"""Tabu search by weight for the least largest load within a limit of moves.

`local_search` spends each move on the largest load and stops in a local optimum when the limit is
used up: each further step would need a partition to return to its previous owner first. This search
passes such optima.

For a target of the largest load, "reach it with the fewest moves" is a generalised assignment
problem. An item (a partition, or several that must have one owner) costs nothing at its previous
owner and one move elsewhere. The capacity of a member is the target. The method is that of J. A.
Díaz and E. Fernández (2001), "A tabu search heuristic for the generalized assignment problem":

* a step transfers one item, or swaps two. The best step is taken even if it is no improvement;
* an item must not return to a member for some steps after it left (the tabu tenure);
* load above the target and moves beyond the limit are allowed, but penalised. The penalty of load
  falls after a step beyond the limit and rises after the others (strategic oscillation);
* every 40 steps an arbitrary item leaves a member above the target (diversification). If a member
  must exchange several items, no single step of that exchange is an improvement.

The target is bisected between a lower bound and the best plan, several times. The search starts at
the best plan, and for every third target at the previous owners. The limit is counted work, not
time, and the arbitrary items follow a fixed sequence, so that equal problems have equal plans.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partage.solve.assignment.local_search import improve_by_local_search
from partage.solve.assignment.network import IntArray
from partage.solve.assignment.weighted_plan import FloatArray, WeightedPlan

__all__ = ["lower_largest_load"]

#: Candidate steps that one search may evaluate: at most, at least, and more for each pair of item
#: and member. Measured, that is 0.3 seconds on one core in the mean, at most 1.3.
_MOST_WORK, _LEAST_WORK, _WORK_PER_CELL = 22_000_000, 1_600_000, 5_500
#: Fixed cost of one step, in candidates.
_STEP_OVERHEAD = 3_000
#: Steps for one target.
_MOST_STEPS = 120
#: Largest number of pairs of item and member; larger problems keep the local search's plan.
_MOST_CELLS = 4_000_000
#: Pairs of items that one step compares. If there are more, only the items of the members with most
#: room are partners.
_MOST_PAIRS = 30_000
#: Least tabu tenure in steps, and by how many steps it varies, so that cycles end.
_TENURE, _VARIATION = 8, 7
#: Factor by which the penalty of load changes after a step, and its range in moves per mean weight.
_ADAPTATION, _LEAST_PENALTY, _MOST_PENALTY = 1.4, 1e-2, 1e4
#: Steps between two arbitrary transfers. Of 10, 20, 40 and 70 it gave the lowest loads.
_DIVERSIFICATION = 40
#: Relative gap between target and best plan at which the bisection begins anew.
_RESTART_GAP = 0.01
#: Every third search starts at the previous owners, the others at the best plan.
_ALTERNATION = 3
#: The linear congruential generator of ANSI C's example `rand`: multiplier, increment, modulus - 1.
_MULTIPLIER, _INCREMENT, _MASK = 1_103_515_245, 12_345, 0x7FFF_FFFF


def lower_largest_load(plan: WeightedPlan, bound: float) -> WeightedPlan:
    """Lower the largest member load by tabu search, within a limit of partition moves.

    The load is relative: it is divided by the member's share. ``plan`` itself is returned if the
    search finds nothing better, if loads exceed capacities, or for more than 4 million pairs of
    partition and member.

    Args:
        plan: a local optimum of `local_search` that has an owner for every partition.
        bound: a lower bound of the largest relative load; the search ends when it is reached.
    """
    cells = len(plan.owner) * len(plan.load)
    if not 0 < cells <= _MOST_CELLS or (plan.load > plan.members.capacity).any():
        return plan
    search = _TabuSearch(plan, min(_MOST_WORK, _LEAST_WORK + _WORK_PER_CELL * cells))
    least_gain = max(plan.tolerance, 1e-4 * bound)
    largest, low, found = float(plan.relative_loads.max()), bound, plan.owner
    tries = 0
    while search.work > 0 and largest - bound > least_gain:
        if largest - low <= max(least_gain, _RESTART_GAP * largest):
            # Other arbitrary transfers may reach targets that earlier searches missed.
            low = bound
        target = (low + largest) / 2
        tries += 1
        start = found if tries % _ALTERNATION else search.owners_with_fewest_moves()
        better = search.lower_largest_load(target, start, largest)
        if better is not None:
            found, largest = better, float(search.relative_loads(better).max())
        if largest > target:
            low = target
    if float(plan.relative_loads.max()) - largest <= plan.tolerance:
        return plan
    return _even_out_loads(plan, found)


def _even_out_loads(plan: WeightedPlan, owner: IntArray) -> WeightedPlan:
    """Return the assignment that local search reaches from given owners, with more even loads.

    ``plan`` has the weights and members. ``owner`` (int64[n]) is the first member of each item,
    which is a partition, or several with one owner.
    """
    out = WeightedPlan(plan.items, plan.members, plan.most_moves, plan.tolerance)
    for i, m in enumerate(owner.tolist()):
        out.assign_item(i, m)
    out.moves = int(out.count_moves(np.arange(len(owner)), owner).sum())
    improve_by_local_search(out)
    return out


@dataclass(slots=True, eq=False)
class _TabuSearch:
    """Tabu search for an assignment with a lower largest member load than the given assignment.

    An item is a partition, or several that must have one owner.

    Attributes:
        plan: weights of the items, shares of the members, and the limit of moves.
        work: how many more candidate changes may be evaluated.
        seed: state of the random number generator.
        owner: int64[n], member of each item; load: float64[members]; moves: owned partitions that
            are not with a previous owner.
        ceiling: float64[members], the load that each member may have under the current target.
        penalty: cost of one unit of load above the ceiling, in moves.
        moves_to: int64[n, members], moves that each pair of item and member costs.
        move_cost: float64[n, members], the same; infinite if the member may not own the item.
        tabu_until: int64[n, members], the iteration until which an item must not go to a member.
    """

    plan: WeightedPlan
    work: int
    seed: int = 1
    owner: IntArray = field(init=False)
    load: FloatArray = field(init=False)
    moves: int = field(init=False)
    ceiling: FloatArray = field(init=False)
    penalty: float = field(init=False)
    moves_to: IntArray = field(init=False)
    move_cost: FloatArray = field(init=False)
    tabu_until: IntArray = field(init=False)

    def __post_init__(self) -> None:
        plan = self.plan
        item, member = np.arange(len(plan.owner)), np.arange(len(plan.load))
        self.moves_to = np.array(plan.count_moves(item[:, None], member[None, :]), np.int64)
        self.move_cost = np.where(plan.open[plan.items.kind], self.moves_to.astype(float), np.inf)

    def owners_with_fewest_moves(self) -> IntArray:
        """Return the owner of each item in the assignment with the fewest moves (int64[items]).

        An item is a partition, or several that must have one owner.
        """
        # The owner is the previous owner, or the owner in ``plan`` if a previous owner may not own
        # the item.
        every_item, home = np.arange(len(self.plan.owner)), self.move_cost.argmin(axis=1)
        closer = self.move_cost[every_item, home] < self.move_cost[every_item, self.plan.owner]
        return np.where(closer, home, self.plan.owner)

    def relative_loads(self, owner: IntArray) -> FloatArray:
        """Return the load of each member divided by its share, for given owners (float64[members]).

        ``owner`` is the member of each item (a partition, or several with one owner).
        """
        load = np.bincount(owner, self.plan.items.weight, len(self.plan.load))
        out: FloatArray = load / self.plan.members.speed
        return out

    def lower_largest_load(
        self, target_load: float, start: IntArray, current_largest: float
    ) -> IntArray | None:
        """Search for an assignment whose largest member load is at most ``target_load``.

        Loads are relative: divided by the member's share. Return the best owners that respect the
        limit of moves, or None if they are not better than ``current_largest``. The search ends at
        the target, or after 120 steps. It begins at the owners ``start`` (int64[n]).
        """
        self._start_at(start, target_load)
        members = self.plan.members
        found: IntArray | None = None
        for step in range(1, _MOST_STEPS + 1):
            if self.work <= 0:
                break
            if step % _DIVERSIFICATION == 0 or not self._make_best_exchange(step):
                self._transfer_random_item(step)
            is_beyond_limit = self.moves > self.plan.most_moves
            if not is_beyond_limit and bool((self.load <= members.capacity).all()):
                largest = float((self.load / members.speed).max())
                if largest < current_largest:
                    current_largest, found = largest, self.owner.copy()
            if not is_beyond_limit and not bool((self.load > self.ceiling).any()):
                break
            self._adapt_penalty(is_beyond_limit=is_beyond_limit)
        return found

    def _start_at(self, start: IntArray, target: float) -> None:
        items, members = self.plan.items, self.plan.members
        self.owner = start.copy()
        self.load = np.bincount(start, items.weight, len(self.plan.load)).astype(float)
        self.moves = int(self.moves_to[np.arange(len(start)), start].sum())
        self.ceiling = np.floor(np.minimum(target * members.speed, members.capacity))
        self.tabu_until = np.zeros_like(self.moves_to)
        self.penalty = 1.0 / self._mean_weight()

    def _mean_weight(self) -> float:
        return max(float(self.plan.items.weight.mean()), 1.0)

    def _adapt_penalty(self, *, is_beyond_limit: bool) -> None:
        """Lower the penalty for uneven loads if too many partitions have moved, otherwise raise it.

        So the search alternates between too many moves and too uneven loads (strategic
        oscillation).
        """
        mean = self._mean_weight()
        factor = 1 / _ADAPTATION if is_beyond_limit else _ADAPTATION
        penalty = max(self.penalty * factor, _LEAST_PENALTY / mean)
        self.penalty = min(penalty, _MOST_PENALTY / mean)

    def _transfer_random_item(self, step: int) -> None:
        """Transfer a random partition away from an overloaded member, to diversify the tabu search.

        The partition may not return for some iterations after the current one, which is ``step``.
        """
        item = np.flatnonzero((self.load > self.ceiling)[self.owner])
        allowed = np.isfinite(self.move_cost[item]) & (self.tabu_until[item] < step)
        allowed[np.arange(len(item)), self.owner[item]] = False
        pairs = np.argwhere(allowed)
        if len(pairs):
            self.seed = (self.seed * _MULTIPLIER + _INCREMENT) & _MASK
            # The lowest bits of such a generator repeat soon.
            i, to = pairs[(self.seed >> 8) % len(pairs)].tolist()
            self._transfer_partition(int(item[i]), to, step)

    def _make_best_exchange(self, step: int) -> bool:
        """Make the transfer or swap of partitions that improves the assignment most.

        Exchanges on the tabu list are left out. ``step`` is the number of the current iteration.
        Return False if no exchange is possible.
        """
        over = self.load - self.ceiling
        every_item = np.arange(len(self.owner))
        overloaded = over[self.owner] > 0
        moved = self.moves_to[every_item, self.owner] > 0
        move_cost = np.where(self.tabu_until < step, self.move_cost, np.inf)
        move_cost[every_item, self.owner] = np.inf
        gain, i, to = self._best_transfer(np.flatnonzero(overloaded | moved), overloaded, move_cost)
        to_swap = np.flatnonzero(overloaded if overloaded.any() else moved)
        swap_gain, k, j = self._best_swap(to_swap, move_cost)
        if min(gain, swap_gain) == np.inf:
            return False
        if gain <= swap_gain:
            self._transfer_partition(i, to, step)
        else:
            a, b = int(self.owner[k]), int(self.owner[j])
            self._transfer_partition(k, b, step)
            self._transfer_partition(j, a, step)
        return True

    def _transfer_partition(self, item: int, new_owner: int, step: int) -> None:
        """Transfer an item to another member, and forbid its return for some iterations.

        An item is a partition, or several with one owner. ``step`` is the number of the current
        iteration.
        """
        weight, a = self.plan.items.weight[item], int(self.owner[item])
        self.load[a] -= weight
        self.load[new_owner] += weight
        self.moves += int(self.moves_to[item, new_owner] - self.moves_to[item, a])
        self.owner[item] = new_owner
        self.tabu_until[item, a] = step + _TENURE + step % _VARIATION

    def _best_transfer(
        self, rows: IntArray, overloaded: NDArray[np.bool_], move_cost: FloatArray
    ) -> tuple[float, int, int]:
        """Find the transfer of a partition to another member that improves the assignment most.

        Return the change of the penalty (infinite if no transfer is possible), the item (a
        partition, or several with one owner) and the new member.

        Args:
            rows: the items that may move.
            overloaded: bool[items], whether the owner of the item has too much load.
            move_cost: cost of each pair of item and member; infinite where it is on the tabu list.
        """
        if not len(rows):
            return np.inf, -1, -1
        self.work -= len(rows) * len(self.load) + _STEP_OVERHEAD
        weight, a = self.plan.items.weight[rows], self.owner[rows]
        over = self.load - self.ceiling
        now = np.maximum(over, 0.0)
        change = np.maximum(over + weight[:, None], 0.0) - now
        change += (np.maximum(over[a] - weight, 0.0) - now[a])[:, None]
        added_moves = move_cost[rows] - self.moves_to[rows, a][:, None]
        # Items of overloaded members may go anywhere, others only to a previous owner.
        added_moves[~overloaded[rows][:, None] & (added_moves >= 0)] = np.inf
        change = self.penalty * change + self._excess_moves_change(added_moves)
        row, to = divmod(int(change.argmin()), len(over))
        return float(change[row, to]), int(rows[row]), to

    def _best_swap(self, rows: IntArray, move_cost: FloatArray) -> tuple[float, int, int]:
        """Find the swap of two partitions between members that improves the assignment most.

        Return the change of the penalty (infinite if no swap is possible) and the two items (a
        partition, or several with one owner).

        Args:
            rows: the items that may move.
            move_cost: cost of each pair of item and member; infinite where it is on the tabu list.
        """
        if not len(rows):
            return np.inf, -1, -1
        over = self.load - self.ceiling
        others = self._swap_candidates(len(rows), over)
        self.work -= len(rows) * len(others)
        weight, a, b = self.plan.items.weight, self.owner[rows], self.owner[others]
        now = np.maximum(over, 0.0)
        shift = weight[rows][:, None] - weight[others]
        change = np.maximum(over[a][:, None] - shift, 0.0) - now[a][:, None]
        change += np.maximum(over[b] + shift, 0.0) - now[b]
        added_moves = move_cost[rows][:, b] - self.moves_to[rows, a][:, None]
        added_moves += move_cost[others][:, a].T - self.moves_to[others, b]
        change = self.penalty * change + self._excess_moves_change(added_moves)
        row, column = divmod(int(change.argmin()), len(others))
        return float(change[row, column]), int(rows[row]), int(others[column])

    def _swap_candidates(self, item_count: int, overload: FloatArray) -> IntArray:
        """Return the partitions that may be swapped against partitions of overloaded members.

        If there are too many pairs, only partitions of the least loaded members are returned. An
        item is a partition, or several with one owner; ``item_count`` is the number of items that
        should leave their owner. ``overload`` is the load of each member above its limit
        (float64[members]).
        """
        most = max(1, _MOST_PAIRS // item_count)
        if most >= len(self.owner):
            return np.arange(len(self.owner))
        # Beyond 30,000 pairs only items of the least loaded members are tried.
        return np.sort(np.argsort(overload[self.owner], kind="stable")[:most])

    def _excess_moves_change(self, added_moves: FloatArray) -> FloatArray:
        """Return how candidate exchanges change the excess of moves over the allowed number
        (float64).

        ``added_moves`` is the number of moves that each candidate adds, negative if it saves some.
        """
        spare = self.plan.most_moves - self.moves
        out: FloatArray = np.maximum(added_moves - spare, 0.0) - max(-spare, 0.0)
        return out
