"""Diving heuristic: solve the dual's linear programme while fixing large partitions one by one.

A linear programme divides a partition that is larger than a broker's band among many brokers, and
plain rounding misses the bands by much. So partitions are fixed to one choice each, the largest
first, and the programme is solved again with new columns for all others. If a partition is a
sizeable part of a broker's share, each of its likely choices is tried and the one with the lowest
optimum is kept (strong branching). The others keep the column with the largest value.

Sources: C. Joncour, S. Michel, R. Sadykov, D. Sverdlov, F. Vanderbeck, "Column Generation based
Primal Heuristics", Electronic Notes in Discrete Mathematics 36 (2010); D. Applegate, R. Bixby, V.
Chvátal, W. Cook, "Finding Cuts in the TSP", DIMACS 95-05 (1995), for strong branching.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.solve.replicas.bounds import CheapestChoices
from partage.solve.replicas.dual import DualPlan, RestrictedMaster, choose_cheapest
from partage.solve.replicas.problem import Floats

__all__ = ["dive"]

#: Least size of a partition whose choices are tried, as a part of a broker's mean bytes. Measured
#: on Pareto(1.2) sizes: all choices of a smaller one have the same optimum within 0.1 %.
_SIZEABLE = 0.03
#: Choices tried of a sizeable partition, besides those of the known plans.
_MOST_TRIED = 4
#: Rounds of the programme for each choice tried, and after each choice kept.
_ROUNDS = 2
#: Rounds after which no further choices are tried: half a minute for 30 x 10,000.
_MOST_ROUNDS = 45
#: If all choices of a partition lead to the same optimum within this part, no smaller one is tried.
_LEAST_SPREAD = 0.005
#: A round that lowers the optimum by less than this part is the last one for its choice.
_LEAST_GAIN = 1e-5
#: Values in the optimum below which a column is no choice to try, and above which it is whole.
_LEAST_VALUE, _WHOLE = 1e-3, 0.999
#: Half the width of the box of scaled prices, its growth while it binds, and its limit.
_BOX, _GROWTH, _WIDEST_BOX = 0.3, 3.0, 20.0
#: Scaled use of elastic columns below which the box no longer binds.
_ELASTIC_TOLERANCE = 1e-6
#: Factor between the sizes of successive batches of partitions that are not sizeable.
_BATCH_GROWTH = 1.4


def dive(
    task: ReplicaTask,
    figures: Mapping[str, int],
    found: DualPlan,
    plans: Sequence[NDArray[np.int32]],
) -> DualPlan:
    """Round the linear relaxation to a plan by fixing the largest partitions one by one (diving
    heuristic).

    Return the plan, and dual prices for the partitions that were not fixed.

    Args:
        task: the reassignment.
        figures: the total imbalance that a plan may have, by name.
        found: the dual's solution. Its linear programme is changed.
        plans: int32[S] each, known plans; partitions that move only what must move keep to the
            first.
    """
    return _Dive(task, figures, found, plans).run()


class _Dive:
    """State of the diving heuristic: the linear programme, its dual prices and the solver calls
    left.

    Attributes:
        master: the linear programme.
        scaled: float64[n], the current dual prices, in the programme's scale.
        left: how many more times the programme may be solved.
    """

    def __init__(
        self, task: ReplicaTask, figures: Mapping[str, int], found: DualPlan,
        plans: Sequence[NDArray[np.int32]],
    ) -> None:  # fmt: skip
        self.task, self.figures, self.found, self.plans = task, figures, found, plans
        self.master: RestrictedMaster = found.master
        self.choices = CheapestChoices(task)
        self.scaled: Floats = self.master.scaled(found.prices)
        self.left = _MOST_ROUNDS
        for plan in plans:
            self.master.add(plan)

    def run(self) -> DualPlan:
        order = np.argsort(-self.task.cost, kind="stable")
        mean = float(self.task.cost @ self.task.factor) / max(int(self.task.receives.sum()), 1)
        singles = self.master.singles
        sizeable = int((self.task.cost[order[:singles]] > _SIZEABLE * mean).sum())
        self._rounds(1)
        for group in range(sizeable):
            self._fix_best(group, int(order[group]))
        begin = sizeable
        while begin < singles:
            end = min(max(int(begin * _BATCH_GROWTH), begin + 4), singles)
            if self._fix_largest_values(range(begin, end)):
                self._rounds(_ROUNDS)
            begin = end
        prices = self.master.prices(self.scaled)
        _, choice = choose_cheapest(self.task, self.choices, prices, self.plans[0])
        replica = self.master.rounded(self.plans[0])
        return replace(self.found, prices=prices, replica=replica, choice=choice)

    def _rounds(self, most: int) -> float:
        """Solve the linear programme up to ``most`` times, each time with new columns.

        Return its optimum, infinity if it has none.
        """
        box, optimum = _BOX, np.inf
        for _ in range(most):
            solution = self.master.solve(self.scaled, box)
            if solution is None:
                return np.inf
            before = optimum
            self.scaled, optimum, elastic = solution
            self.left -= 1
            prices = self.master.prices(self.scaled)
            self.master.add(choose_cheapest(self.task, self.choices, prices, self.plans[0])[1])
            if elastic > _ELASTIC_TOLERANCE:
                box = min(box * _GROWTH, _WIDEST_BOX)
            elif before - optimum <= _LEAST_GAIN * abs(optimum):
                break
        return optimum

    def _fix_best(self, group: int, partition: int) -> None:
        """Fix a large partition to the choice of brokers with the lowest optimum (strong
        branching).
        """
        tried = self._columns_to_try(group, partition)
        if len(tried) == 1 or self.left <= 0:
            if tried:
                self.master.fix(tried[0])
            return
        center, results = self.scaled, []
        for column in tried:
            self.master.fix(column)
            self.scaled = center
            results.append((self._rounds(_ROUNDS), column, self.scaled))
            self.master.release(column)
        best, column, self.scaled = min(results, key=lambda result: result[:2])
        self.master.fix(column)
        self._rounds(_ROUNDS)
        if max(result[0] for result in results) - best <= _LEAST_SPREAD * best:
            self.left = 0

    def _columns_to_try(self, group: int, partition: int) -> list[int]:
        # The largest values come first, then the choices of known plans.
        columns = self.master.columns_of(range(group, group + 1))
        likely = sorted((c for c in columns if c[1] > _LEAST_VALUE), key=lambda c: -c[1])
        out = [column for _, _, column, _ in likely[:_MOST_TRIED]]
        if likely and likely[0][1] > _WHOLE:
            return out[:1]
        slots = slice(int(self.task.start[partition]), int(self.task.start[partition + 1]))
        for plan in self.plans:
            brokers = np.sort(plan[slots])
            for _, _, column, number in columns:
                if np.array_equal(np.sort(self.master.history[number][slots]), brokers):
                    out.append(column)
                    break
        return list(dict.fromkeys(out))

    def _fix_largest_values(self, groups: range) -> int:
        # The result counts the fractional ones.
        best: dict[int, tuple[float, int]] = {}
        for group, value, column, _ in self.master.columns_of(groups):
            if group not in best or value > best[group][0]:
                best[group] = value, column
        for _, column in best.values():
            self.master.fix(column)
        return sum(value < _WHOLE for value, _ in best.values())
