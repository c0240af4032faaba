"""The Lagrangian dual of large reassignments by the boxstep method, and its rounded optimum.

Dual variables are prices of bands (`partage.judge.replica_bounds` shows why they prove a bound).
Each round searches for the best prices in a box around the best so far. HiGHS solves a linear
programme for that (`restricted_master`). Its optimum is a convex combination (blend) of choices
within the bands. `repair` improves the plan that rounding makes from this blend.

Source: R. E. Marsten, W. W. Hogan, J. W. Blankenship, "The Boxstep Method for Large-Scale
Optimization", Operations Research 23 (1975).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import LEAVE, STAY
from partage.solve.replicas.bounds import CheapestChoices, bound_of_moves, prices_of_brokers
from partage.solve.replicas.problem import UNBOUNDED, Bools, Floats, Ints
from partage.solve.replicas.restricted_master import RestrictedMaster

__all__ = ["Boxstep", "DualPlan", "solve_dual"]

#: Rounds, at most.
_MOST_ROUNDS = 60
#: The gap between programme and dual, as a part of the programme, at which the search stops: 0.1 %.
#: The search may also stop at `_MOST_ROUNDS` with a wider gap.
_STOPPING_GAP = 1e-3
#: Rounds at the stopping gap in which the box may still grow.
_MOST_GROWING = 6
#: Half the width of the first box and of the smallest, in scaled prices (see `RestrictedMaster`).
_FIRST_BOX, _SMALLEST_BOX = 0.05, 0.003
#: Factors by which the box grows after a good round and shrinks after a bad one.
_GROWTH, _SHRINKAGE = 1.5, 0.7
#: The part of the expected gain that makes a round a good one.
_GOOD_ROUND = 0.5
#: Scaled use of elastic columns below which the box no longer binds.
_ELASTIC_TOLERANCE = 1e-6
#: Size of a partition, as a part of a broker's mean, from which on the prices of a broker that must
#: hold it have a wider box, and by how much.
_LARGE, _WIDER = 0.2, 3.0
#: Prices of a mean replica's bytes that are tried on such a broker, in mean moves, and the size of
#: a replica that then costs nothing: that of the n-th smallest partition, where n is this factor
#: times the mean number of replicas of a broker.
_PRICES_PER_BYTE, _FREE_RANKS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0), (1.0, 1.3, 2.0)


@dataclass(frozen=True, eq=False)
class DualPlan:
    """Best dual prices of a reassignment, and a near-optimal plan rounded from the linear
    relaxation.

    A dual price is the cost that one unit of a broker's or rack's balance limit saves.

    Attributes:
        prices: float64[4, B + Z], the dual prices of balance limits, which the judge verifies.
        replica: int32[S], the rounded optimum: brokers by ``task.start``; it misses some balance
            limits.
        choice: int32[S], the cheapest brokers of each partition at these prices.
        master: the linear programme, for `branching` and `diving`.
        reachable: an estimate of the fewest bytes that a plan moves; no bound once `diving` has
            fixed partitions.
    """

    prices: Floats
    replica: NDArray[np.int32]
    choice: NDArray[np.int32]
    master: RestrictedMaster
    reachable: float


def solve_dual(
    task: ReplicaTask,
    figures: Mapping[str, int],
    start: Floats,
    plan: NDArray[np.int32],
) -> DualPlan | None:
    """Solve the Lagrangian dual of a reassignment by column generation.

    Return dual prices of the balance limits and a rounded plan; None without the solver HiGHS.

    Args:
        task: the reassignment.
        figures: the total imbalance that a plan may have, by name.
        start: float64[4, B + Z], prices to begin with.
        plan: int32[S], a plan that moves the bytes of these figures.
    """
    try:
        import highspy
    except ImportError:
        return None
    search = Boxstep(RestrictedMaster(highspy, task, figures), figures, start, plan)
    # A bound above the plan's bytes shows that these figures are out of reach.
    enough = float(figures.get("between brokers", figures["moved"]))
    search.run(_MOST_ROUNDS, _STOPPING_GAP, enough=enough)
    master = search.master
    if master.values is None:
        return None
    return DualPlan(search.prices, master.rounded(plan), search.choice, master, search.value)


class Boxstep:
    """Search for dual prices of a reassignment by the boxstep method.

    The method solves a linear programme repeatedly, with prices limited to a box around the best
    ones. A single is a large partition with its own variables.

    Attributes:
        master: the linear programme. Its decisions limit the brokers of singles.
        prices: float64[4, B + Z], the best dual prices so far.
        center: float64[n], the same in the programme's scale.
        choice: int32[S], the cheapest brokers of each partition at these prices.
        value: the lower bound of the bytes moved that these prices prove, for plans with these
            decisions; infinite if there are none.
        box: half the width of the box.
        widening: float64[n], by how much the box of each price is wider.
    """

    def __init__(
        self, master: RestrictedMaster, figures: Mapping[str, int], start: Floats,
        plan: NDArray[np.int32],
    ) -> None:  # fmt: skip
        self.master, self.figures, self.plan, self.box = master, figures, plan, _FIRST_BOX
        self._choices = CheapestChoices(master.task)
        self._own = _OwnChoices(master)
        self.prices, self.center = start, master.scaled(start)
        self.widening = self._widening()
        self.value, self.choice = self._evaluate(start)
        if not any(known is plan for known in master.history):
            master.add(plan)

    def run(self, rounds: int, gap: float, *, enough: float = np.inf) -> float:
        """Search for better prices until programme and dual differ by at most a part ``gap``.

        Return the optimum, infinity if there is none.

        Args:
            rounds: solutions of the linear programme, at most.
            gap: the difference at which the search stops, as a part of the optimum.
            enough: the bound at which the search stops.
        """
        growing, optimum = 0, np.inf
        if not np.isfinite(self.value):
            return np.inf
        # Without a variable for some allowed choice the programme might have no solution.
        self.master.add(self.choice)
        for turn in range(rounds):
            if turn and self.value >= enough:
                break
            solution = self.master.solve(self.center, self.box * self.widening)
            if solution is None:
                return np.inf
            scaled, optimum, elastic = solution
            tried = self.master.prices(scaled)
            value, chosen = self._evaluate(tried)
            missing = optimum - self.value
            self.master.add(chosen)
            if value > self.value:
                if value - self.value > _GOOD_ROUND * missing:
                    self.box *= _GROWTH
                self.value, self.center, self.prices, self.choice = value, scaled, tried, chosen
            else:
                self.box = max(self.box * _SHRINKAGE, _SMALLEST_BOX)
            if optimum - self.value <= gap * abs(optimum):
                # If the box binds, better prices may be outside it.
                growing += 1
                if elastic <= _ELASTIC_TOLERANCE or growing > _MOST_GROWING:
                    break
                self.box = max(2 * self.box, _FIRST_BOX)
        return optimum

    def fix(self, single: int, brokers: Ints) -> None:
        """Fix the brokers of a single; the value is that of the plans with these brokers."""
        placed = np.zeros(self.master.arc.shape[1], bool)
        placed[brokers] = True
        self.decide(single, placed, ~placed)

    def decide(self, single: int, required: Bools, excluded: Bools) -> None:
        """Change the decisions about a single, and the value and choice accordingly.

        Args:
            single: the number of the single.
            required: bool[B], brokers that hold a replica of it.
            excluded: bool[B], brokers that hold none.
        """
        self.master.decide(single, required, excluded)
        self.widening = self._widening()
        self.value, self.choice = self._evaluate(self.prices)

    def start_host(self, broker: int, k: int) -> None:
        """Search for prices of a broker that must hold a large partition.

        They charge its other replicas by size and reward small ones, so that the cheapest choices
        put the smallest partitions there. The best of several such prices becomes the center.

        Args:
            broker: the broker.
            k: the kind of weight in which the partition is large: bytes or load.
        """
        master, task = self.master, self.master.task
        sizes = np.sort(task.weight[k][(task.weight[1] > 0) & (task.factor > 0)])
        share, found = float(task.low[1, broker]), self.value
        if not len(sizes) or not share or task.high[k, broker] >= UNBOUNDED:
            return
        unit = master.unit / float(master.mean[k])
        free = {float(sizes[min(int(share * rank), len(sizes) - 1)]) for rank in _FREE_RANKS}
        best, first = None, self.prices
        for price, size in product(_PRICES_PER_BYTE, sorted(free)):
            tried = first.copy()
            tried[k, broker] += price * unit
            tried[1, broker] -= price * unit * size
            value, chosen = self._evaluate(tried)
            if value > found:
                found, best = value, (tried, chosen)
        if best is not None:
            self.value, (self.prices, self.choice) = found, best
            self.center = master.scaled(self.prices)

    def _widening(self) -> Floats:
        # Brokers that hold a large partition keep hardly anything else: their prices are far from
        # those of the others.
        master = self.master
        holds = master.required[master.part > _LARGE].any(axis=0)
        brokers = np.flatnonzero(holds)
        return np.where(np.isin(master.place, brokers), _WIDER, 1.0)

    def _evaluate(self, prices: Floats) -> tuple[float, NDArray[np.int32]]:
        """Return the bound that dual prices prove, and the cheapest brokers (int32[S])."""
        task = self.master.task
        total, chosen = _choose_cheapest(task, self._choices, prices, self.plan)
        total += self._own.replace(prices, chosen)
        return bound_of_moves(task, self.figures, prices, total), chosen


def _choose_cheapest(
    task: ReplicaTask, choices: CheapestChoices, prices: Floats, plan: NDArray[np.int32]
) -> tuple[float, NDArray[np.int32]]:
    """Choose the cheapest brokers of each partition at given dual prices.

    Return the total cost, and the broker of each replica (int32[replicas]). Some partitions keep
    the brokers of ``plan``: those that may make only unavoidable moves, and those for which the
    rack rule leaves too few brokers. ``choices`` solves all others.
    """
    total, _, chosen = choices.solve(prices_of_brokers(task, prices), per_byte=1.0)
    keeps_plan = task.closed.copy()
    keeps_plan[task.owner[chosen < 0]] = True
    return total, np.where(keeps_plan[task.owner], plan, chosen).astype(np.int32)


class _OwnChoices:
    """Chooser of the brokers of partitions that are large or have decisions.

    For them the cost of a broker is not only the dual price of the partition's weight.
    """

    def __init__(self, master: RestrictedMaster) -> None:
        self.master, task = master, master.task
        large = np.zeros(len(task.factor), bool)
        large[master.tight.partition] = True
        self._is_large = large[master.single]

    def replace(self, prices: Floats, chosen: NDArray[np.int32]) -> float:
        """Replace the brokers of these partitions in ``chosen`` (int32[S]); return how much the
        total cost changes.
        """
        master, task = self.master, self.master.task
        whole, out = prices_of_brokers(task, prices), 0.0
        large = master.tight.costs(prices, of="moved")
        decided = (master.required | master.excluded).any(axis=1)
        for single in np.flatnonzero(decided | self._is_large).tolist():
            p = int(master.single[single])
            plain = task.weight[:, p] @ whole + task.cost[p] * ~master.is_current[single]
            price = plain.copy()
            if self._is_large[single]:
                at = int(np.searchsorted(large.partition, p))
                price += large.extra[at]
                price[large.forbidden[at]] = np.inf
            slots = slice(int(task.start[p]), int(task.start[p + 1]))
            brokers = self._cheapest(single, price)
            if brokers is None:
                return np.inf
            out += float(price[brokers].sum() - plain[chosen[slots]].sum())
            chosen[slots] = brokers
        for p, extra in zip(large.partition.tolist(), large.extra, strict=True):
            if task.closed[p]:
                out += float(extra[chosen[task.start[p] : task.start[p + 1]]].sum())
        return out

    def _cheapest(self, single: int, price: Floats) -> Ints | None:
        """Return the cheapest allowed brokers of a single by the greedy algorithm, None if there
        are too few.
        """
        master, task, p = self.master, self.master.task, int(self.master.single[single])
        factor, rack = int(task.factor[p]), task.cluster.rack
        here = slice(int(task.cluster.start[p]), int(task.cluster.start[p + 1]))
        old, fate = task.cluster.replica[here], task.fate[here]
        may = task.receives | master.is_current[single]
        may[old[fate == LEAVE]] = False
        price = np.where(may & ~master.excluded[single], price, np.inf)
        must = master.required[single].copy()
        must[old[fate == STAY]] = True
        low, high = task.rack_low[factor], task.rack_high[factor]
        if (fate == STAY).any():  # the rack rule may be out of reach
            low, high = np.zeros_like(low), np.full_like(high, factor)
        count, out = np.zeros(len(low), np.int64), np.zeros(0, np.int64)
        for b in np.lexsort((price, ~must)).tolist():
            if len(out) == factor or not np.isfinite(price[b]):
                break
            r = int(rack[b])
            others = np.maximum(low - count, 0).sum() - (count[r] < low[r])
            if count[r] < high[r] and len(out) + 1 + others <= factor:
                count[r] += 1
                out = np.append(out, b)
            elif must[b]:
                return None
        return np.sort(out) if len(out) == factor else None
