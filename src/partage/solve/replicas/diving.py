"""Diving heuristic: solve the dual's linear programme while fixing large partitions one by one.

A linear programme divides a partition that is larger than a broker's band among many brokers, and
plain rounding misses the bands by much. So partitions are fixed to one choice each, the largest
first, and the programme is solved again with new columns for all others. If a partition is a
sizeable part of a broker's share, each of its likely choices is tried and the one with the lowest
optimum is kept (strong branching). The others get the brokers with the largest values. Only
partitions that the optimum divides are fixed: the others may still change.

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
from partage.solve.replicas.dual import DUAL_SIMPLEX, Boxstep, DualPlan
from partage.solve.replicas.problem import Ints

__all__ = ["plan_by_diving"]

#: Least size of a partition whose choices are tried, as a part of a broker's mean bytes: half the
#: width of the default band. Measured on Pareto(1.2) sizes: trials of smaller ones gain nothing.
_TRIED_SIZE = 0.1
#: Least size of a partition that is fixed, in the same unit. Rounding places smaller ones.
_FIXED_SIZE = 0.02
#: Batches at most; the part of the fractional partitions in a batch without trials: a third.
_MOST_BATCHES, _BATCH_PART = 20, 3
#: Choices tried of a partition, besides those of the known plans.
_MOST_TRIED = 4
#: Rounds of the boxstep method after each batch, and after the last one.
_ROUNDS, _LAST_ROUNDS = 2, 40
#: The gap between programme and dual at which the search ends: 0.2 %.
_STOPPING_GAP = 2e-3
#: Simplex iterations after which no further choices are tried: about six seconds.
_MOST_ITERATIONS = 30_000
#: Optima that differ by less than this part are equal: new columns change them by as much. Then
#: the likeliest set is fixed.
_TIE = 0.005
#: The least value of a set's brokers that is whole.
_WHOLE = 0.999
#: Half the width of the box of scaled prices while choices are tried, and of the first box after.
_TRYING_BOX, _BOX = 1.0, 0.3


def plan_by_diving(
    task: ReplicaTask,
    max_imbalance: Mapping[str, int],
    dual_solution: DualPlan,
    plans: Sequence[NDArray[np.int32]],
) -> DualPlan:
    """Find a reassignment plan by fixing the brokers of one large partition after another.

    It begins with the solution of a linear programme that may divide partitions among brokers.
    After each fixed partition the programme is solved again, so that the other partitions can adapt
    (diving heuristic).

    Args:
        task: cluster, brokers to use and balance limits.
        max_imbalance: largest allowed imbalance by measure, such as ``{"replicas": 3}``.
        dual_solution: solution of the relaxation; its linear programme is changed.
        plans: int32[replicas] each, the brokers of all replicas in known plans. Partitions that may
            make only unavoidable moves keep to the first.

    Returns:
        the plan, and dual prices for the partitions that were not fixed.
    """
    return _DivingSearch(task, max_imbalance, dual_solution, plans).run()


class _DivingSearch:
    """Diving heuristic, which chooses the brokers of large partitions one partition after another.

    After each choice, the linear programme is solved again for the other partitions.

    Attributes:
        search: the search for dual prices, with the linear programme.
        left: number of simplex iterations that the heuristic may still use.
    """

    def __init__(
        self, task: ReplicaTask, figures: Mapping[str, int], found: DualPlan,
        plans: Sequence[NDArray[np.int32]],
    ) -> None:  # fmt: skip
        self.task, self.found, self.plans = task, found, plans
        self.search = Boxstep(found.master, figures, found.prices, plans[0])
        for single, brokers in found.fixed.items():
            self.search.fix_brokers(single, brokers)
        self.left = _MOST_ITERATIONS
        for plan in plans:
            found.master.add_columns(plan)

    def run(self) -> DualPlan:
        master = self.search.master
        tried, most = (self._count_larger_partitions(part) for part in (_TRIED_SIZE, _FIXED_SIZE))
        if all(self._has_single_broker_set(single) for single in range(most)):
            return self.found
        self.search.box = _BOX
        for _ in range(_MOST_BATCHES):
            fractional = [
                single for single in range(most) if not self._has_single_broker_set(single)
            ]
            if not fractional:
                break
            is_tried = fractional[0] < tried
            batch = fractional[: 1 if is_tried else -(-len(fractional) // _BATCH_PART)]
            self._fix_large_partitions(batch, is_tried=is_tried)
            self.search.improve_prices(_ROUNDS, _STOPPING_GAP)
        self.search.improve_prices(_LAST_ROUNDS, _STOPPING_GAP)
        return replace(
            self.found, prices=self.search.prices, replica=master.round_optimum(self.plans[0]),
            choice=self.search.choice, reachable=self.search.value,
        )  # fmt: skip

    def _count_larger_partitions(self, fraction: float) -> int:
        """Return how many partitions are larger than a fraction of a broker's mean bytes.

        For example, with a ``fraction`` of 0.1 these are the partitions above 10 % of the mean.
        Only large partitions that have their own variables count.
        """
        task = self.task
        mean = float(task.cost @ task.factor) / max(int(task.receives.sum()), 1)
        return int((task.cost[self.search.master.single] > fraction * mean).sum())

    def _has_single_broker_set(self, large_index: int) -> bool:
        """Return whether the linear programme places a large partition on one set of brokers.

        The alternative is that it divides the partition among several sets, for example one half on
        brokers 1 and 2, the other half on 1 and 3. ``large_index`` is the number of the partition
        among the large ones, sorted by size.
        """
        sets = self.search.master.likely_sets(large_index, 1)
        return bool(sets) and self.search.master.values_of(large_index)[sets[0]].min() > _WHOLE

    def _fix_large_partitions(self, large_indices: Sequence[int], *, is_tried: bool) -> None:
        """Fix several large partitions to the sets of brokers that the linear programme favours.

        ``large_indices`` are the numbers of these partitions among the large ones, sorted by size.
        With ``is_tried``, the programme is solved for each likely set, and the set with the lowest
        optimum is fixed.
        """
        chosen = []
        for single in large_indices:
            sets = self.search.master.likely_sets(single, _MOST_TRIED)
            if not sets:
                continue
            is_open = is_tried and self.left > 0
            chosen.append(
                (single, self._best_broker_set_by_trial(single, sets) if is_open else sets[0])
            )
        for single, brokers in chosen:
            self.search.fix_brokers(single, brokers)

    def _best_broker_set_by_trial(self, large_index: int, sets: list[Ints]) -> Ints:
        """Try several broker sets for a large partition; return the one with the lowest optimum.

        Each trial solves the linear programme with the set fixed (strong branching).
        ``large_index`` is the partition's rank by size. The brokers in known plans are tried beside
        ``sets``.
        """
        master, partition = self.search.master, int(self.search.master.single[large_index])
        slots = slice(
            int(self.task.first_replica[partition]), int(self.task.first_replica[partition + 1])
        )
        # A known plan comes first: its optimum lets the others end early. The likeliest set of two
        # equal ones stays the one that is tried.
        known = [np.sort(plan[slots]).astype(np.int64) for plan in self.plans]
        tried = {tuple(one.tolist()): one for one in [*known, *sets]}
        before = master.iterations
        found: list[tuple[float, Ints]] = []
        if master.solve_in_box(self.search.center, _TRYING_BOX) is None:
            return sets[0]
        basis, values = master.highs.getBasis(), master.values
        for brokers in tried.values():
            master.fix_brokers(large_index, brokers)
            least = min((optimum for optimum, _ in found), default=np.inf)
            solution = master.solve_again(DUAL_SIMPLEX, least * (1 + _TIE))
            if solution is not None:
                found.append((solution[1], brokers))
            master.release_brokers(large_index)
            master.highs.setBasis(basis)
        master.values = values
        self.left -= master.iterations - before
        least = min((optimum for optimum, _ in found), default=0.0)
        ties = [brokers for optimum, brokers in found if optimum <= least * (1 + _TIE)]
        likely = [one for one in sets if any(one is brokers for brokers in ties)]
        return (likely or ties or sets)[0]
