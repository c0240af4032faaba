"""The Lagrangian dual of large reassignments by the boxstep method, and its rounded optimum.

Dual variables are prices of bands (`partage.judge.replica_bounds` shows why they prove a bound).
Each round searches for the best prices in a box around the best so far. HiGHS solves a linear
programme for that. Its columns (of the Dantzig-Wolfe decomposition) are the choices of brokers that
were cheapest at earlier prices. A column belongs to a group of small partitions, so that the
programme stays small; a large partition has a variable for each broker. The optimum is a convex
combination (blend) of choices within the bands. `repair` improves the plan that rounding makes from
this blend.

Source: R. E. Marsten, W. W. Hogan, J. W. Blankenship, "The Boxstep Method for Large-Scale
Optimization", Operations Research 23 (1975).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import KINDS, STAY
from partage.solve.replicas.bounds import (
    CheapestChoices,
    choose_cheapest,
    moved_bytes_bound,
    prices_of_brokers,
)
from partage.solve.replicas.problem import UNBOUNDED, Bools, Floats, Ints, is_moved

__all__ = ["DUAL_SIMPLEX", "Boxstep", "DualPlan", "RestrictedMaster", "solve_dual"]

#: Partitions with variables of their own, the largest ones; the others share so many groups.
#: Measured with Pareto(1.2) sizes, 30 x 10,000: 500 and 60 take twice as long for the same bound,
#: 30 and 20 do not reach it in 60 rounds.
_SINGLES, _GROUPS = 100, 60
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
#: The first cost of an elastic column; `RestrictedMaster.solve_in_box` replaces it by the box.
_ELASTIC_COST = 1e4
#: Scaled use of elastic columns below which the box no longer binds.
_ELASTIC_TOLERANCE = 1e-6
#: Iterations after which the primal simplex method has stalled. Measured on 30 x 10,000, a solution
#: takes at most 3,500 iterations (a second); one that stalled was still running after a minute.
_STALLED, _NO_LIMIT = 6_000, int(np.iinfo(np.int32).max)
#: HiGHS's numbers of the dual and of the primal simplex method.
DUAL_SIMPLEX, PRIMAL_SIMPLEX = 1, 4
#: Parts of a blend below this are rounding of the simplex method.
_LEAST_PART = 1e-7
#: Brokers beyond its replication factor among which sets of a single's brokers are formed.
_SPARE = 3
#: Sets among which rounding chooses.
_MOST_SETS = 8


@dataclass(frozen=True, eq=False)
class DualPlan:
    """Dual prices that prove how few bytes a reassignment can move, and a plan found with them.

    Attributes:
        prices: float64[4, brokers + racks], the dual price of each balance limit.
        replica: int32[replicas], the plan's brokers: the linear optimum, rounded; it misses some
            limits.
        choice: int32[replicas], the cheapest brokers of each partition at these prices.
        master: the linear programme, for `diving`.
        reachable: an estimate of the fewest bytes that a plan moves (not a proven bound).
        fixed: dict from the rank by size of each large partition with fixed brokers to these
            brokers.
    """

    prices: Floats
    replica: NDArray[np.int32]
    choice: NDArray[np.int32]
    master: RestrictedMaster
    reachable: float
    fixed: dict[int, Ints]


def solve_dual(
    task: ReplicaTask,
    max_imbalance: Mapping[str, int],
    start: Floats,
    plan: NDArray[np.int32],
    brokers_of: Mapping[int, Ints] | None = None,
) -> DualPlan | None:
    """Find dual prices that prove how few bytes a reassignment can move, by column generation.

    Return them with a plan rounded from the linear programme; None without the solver HiGHS.

    Args:
        task: cluster, brokers to use and balance limits.
        max_imbalance: largest allowed imbalance by measure, such as ``{"replicas": 3}``.
        start: float64[4, brokers + racks], the first dual price of each resource on each broker and
            rack.
        plan: int32[replicas], the broker of each replica in a plan with these figures.
        brokers_of: brokers of some partitions (int64[factor]) that the plan must have.
    """
    try:
        import highspy
    except ImportError:
        return None
    search = Boxstep(RestrictedMaster(highspy, task, max_imbalance), max_imbalance, start, plan)
    for partition, brokers in (brokers_of or {}).items():
        search.fix_partition(partition, brokers)
    search.improve_prices(_MOST_ROUNDS, _STOPPING_GAP)
    master = search.master
    if master.values is None:
        return None
    return DualPlan(
        search.prices, master.round_optimum(plan), search.choice, master, search.value, search.fixed
    )


class Boxstep:
    """Search for dual prices of a reassignment by the boxstep method.

    It solves a linear programme repeatedly, with prices limited to a box around the best ones. A
    *single* is a large partition with its own variables; its index is its rank by size.

    Attributes:
        master: the linear programme.
        prices: float64[4, brokers + racks], the best dual prices so far.
        center: float64[n], the same in the programme's scale.
        choice: int32[replicas], the cheapest brokers of each partition at these prices.
        value: the lower bound of the bytes moved that these prices prove, for plans with the
            ``fixed`` brokers.
        fixed: dict from each fixed single to its brokers.
        box: half the width of the box.
    """

    def __init__(
        self, master: RestrictedMaster, figures: Mapping[str, int], start: Floats,
        plan: NDArray[np.int32],
    ) -> None:  # fmt: skip
        self.master, self.figures, self.plan, self.box = master, figures, plan, _FIRST_BOX
        self.fixed: dict[int, Ints] = {}
        self._choices = CheapestChoices(master.task)
        self.prices, self.center = start, master.scale_prices(start)
        self.value, self.choice = self._evaluate_prices(start)
        master.add_columns(plan)
        master.add_columns(self.choice)

    def improve_prices(self, rounds: int, gap: float) -> float:
        """Improve the dual prices until their bound is near the linear programme's optimum.

        Return the optimum, infinity if there is none.

        Args:
            rounds: maximum number of solutions of the linear programme.
            gap: relative difference between bound and optimum at which the search stops.
        """
        growing, optimum = 0, np.inf
        for _ in range(rounds):
            solution = self.master.solve_in_box(self.center, self.box)
            if solution is None:
                return np.inf
            scaled, optimum, elastic = solution
            tried = self.master.unscale_prices(scaled)
            value, chosen = self._evaluate_prices(tried)
            missing = optimum - self.value
            self.master.add_columns(chosen)
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

    def fix_partition(self, partition: int, brokers: Ints) -> None:
        """Fix the brokers of a partition in the linear programme, so that later bounds assume them.

        Only the largest partitions can be fixed; others are ignored. ``brokers`` is int64[factor].
        """
        single = np.flatnonzero(self.master.single == partition)
        if len(single):
            placement, task = self.plan.copy(), self.master.task
            first, last = task.first_replica[partition : partition + 2].tolist()
            placement[first:last] = brokers
            self.master.add_columns(placement)
            self.fix_brokers(int(single[0]), brokers)

    def fix_brokers(self, large_index: int, brokers: Ints) -> None:
        """Fix the brokers of a large partition, whose number is its rank by size."""
        self.master.fix_brokers(large_index, brokers)
        self.fixed[large_index] = brokers
        self.value, self.choice = self._evaluate_prices(self.prices)

    def _evaluate_prices(self, prices: Floats) -> tuple[float, NDArray[np.int32]]:
        """Return the lower bound that dual prices prove, and each partition's cheapest brokers."""
        master, task = self.master, self.master.task
        total, chosen = choose_cheapest(task, self._choices, prices, self.plan)
        whole = prices_of_brokers(task, prices)
        for single, brokers in self.fixed.items():
            p = int(master.single[single])
            slots = slice(int(task.first_replica[p]), int(task.first_replica[p + 1]))
            cost = task.weight[:, p] @ whole + task.cost[p] * ~master.is_current[single]
            total += float(cost[brokers].sum() - cost[chosen[slots]].sum())
            chosen[slots] = brokers
        return moved_bytes_bound(task, self.figures, prices, total), chosen


class RestrictedMaster:
    """Linear programme whose solution gives dual prices for a lower bound of the bytes moved.

    It only knows some broker choices at first; better ones are added later (column generation).
    Each of the largest partitions, called *singles*, has a variable for each broker. The others are
    put in groups; a variable says how much of a known placement of the group is used. Constraints
    are the balance limits (*bands*), a sum for each group, and the rack rule of singles.

    Attributes:
        group: int64[partitions], the group of each partition; a single is a group of its own.
        singles: the number of singles; single: int64[singles], these partitions by size.
        kind, place: int64[n], the resource and the broker or rack of each band.
        row: int64[4, brokers + racks], the constraint (row) of each band, -1 for none.
        unit: bytes of a mean move.
        scale: float64[n], the mean weight of a replica in each band's resource.
        arc: int64[singles, brokers], the column of each broker of a single, -1 for none.
        is_current: bool[singles, brokers], whether a broker has a replica of a single now.
        is_fixed: bool[singles], whether the brokers of a single are fixed.
        owned: (group, broker of a single or index in ``history``) of each column of a placement.
        history: int32[replicas] each, the placements that were added.
        first: number of the first column of a placement.
        values: the columns' values in the last optimum, None before the first.
        iterations: simplex iterations so far, a measure of the work.
    """

    def __init__(self, highspy: Any, task: ReplicaTask, figures: Mapping[str, int]) -> None:
        self.task, brokers = task, len(task.alive)
        # A partition that moves only what must move is never a single: its variables could be
        # mixed into a choice that moves more.
        self.singles = min(_SINGLES, int((~task.closed & (task.factor > 0)).sum()))
        self.group = self._groups_of_partitions()
        self.groups = int(self.group.max(initial=-1)) + 1
        self.unit = float(max(task.cost.mean(), 1.0))
        self.kinds = [k for k in range(len(KINDS)) if task.weight[k].any()]
        bands = [(k, at) for k in self.kinds for at in range(task.low.shape[1] if k else brokers)]
        self.kind, self.place = (np.array(side, np.int64) for side in zip(*bands, strict=True))
        self.row: Ints = np.full(task.low.shape, -1, np.int64)
        self.row[self.kind, self.place] = np.arange(len(bands))
        self.mean = np.maximum(task.weight.mean(axis=1), 1e-12)
        self.scale: Floats = self.mean[self.kind]
        self.owned: list[tuple[int, int]] = []
        self.history: list[NDArray[np.int32]] = []
        self._known: set[tuple[int, bytes]] = set()
        self.values: Floats | None = None
        self.iterations = 0
        self.highs, statuses = highspy.Highs(), highspy.HighsModelStatus
        self._limit_status, self._optimal_status = statuses.kIterationLimit, statuses.kOptimal
        for option, value in {"output_flag": False, "threads": 1, "random_seed": 1}.items():
            self.highs.setOptionValue(option, value)
        self._set_method(PRIMAL_SIMPLEX, _STALLED)
        self._add_rows()
        self.first = 2 * len(bands) + self._add_slacks(figures)
        self._prepare_arcs()

    def _groups_of_partitions(self) -> Ints:
        # The largest partitions are groups of their own. The others fill the remaining groups in
        # turn.
        partitions = len(self.task.factor)
        fixed = self.task.closed | (self.task.factor == 0)
        order = np.lexsort((-self.task.cost, fixed))
        rest = partitions - self.singles
        out: Ints = np.empty(partitions, np.int64)
        self.single: Ints = order[: self.singles].astype(np.int64)
        out[self.single] = np.arange(self.singles)
        out[order[self.singles :]] = self.singles + np.arange(rest) % max(min(_GROUPS, rest), 1)
        return out

    def _prepare_arcs(self) -> None:
        task, brokers, rack = self.task, len(self.task.alive), self.task.cluster.rack_of_broker
        self.arc: Ints = np.full((self.singles, brokers), -1, np.int64)
        self.is_fixed: Bools = np.zeros(self.singles, bool)
        self._slots = np.flatnonzero(self.group[task.partition_of_replica] < self.singles)
        self._rest = np.flatnonzero(self.group[task.partition_of_replica] >= self.singles)
        # Whether a broker has a replica of a single now, and whether that replica must stay.
        old = self.group[task.current_partition]
        at = np.flatnonzero(old < self.singles)
        self.is_current: Bools = np.zeros(self.arc.shape, bool)
        self.is_current[old[at], task.cluster.replica[at]] = True
        self._stays: Bools = np.zeros(self.arc.shape, bool)
        at = at[task.fate[at] == STAY]
        self._stays[old[at], task.cluster.replica[at]] = True
        # The rack rule of each single. Choices that cannot follow it widen its limits.
        factor, racks = task.factor[self.single], task.rack_low.shape[1]
        self._rack = rack.astype(np.int64) if racks > 1 else None
        self.rack_low: Ints = task.rack_low[factor].astype(np.int64)
        self.rack_high: Ints = task.rack_high[factor].astype(np.int64)
        self._rack_row: Ints = np.full((self.singles, racks), -1, np.int64)

    def _add_rows(self) -> None:
        """Add the constraints of the linear programme: balance limits, and one sum for each group.

        A group is one large partition, or many others. Each limit can be violated at a cost
        (elastic columns).
        """
        highs, task, bands = self.highs, self.task, len(self.kind)
        none = np.zeros(0, np.int32), np.zeros(0)
        high = task.high[self.kind, self.place]
        upper = np.where(high >= UNBOUNDED, np.inf, high / self.scale)
        lower = task.low[self.kind, self.place] / self.scale
        highs.addRows(bands, lower, upper, 0, np.zeros(bands, np.int32), *none)
        each = np.ones(self.groups)
        each[: self.singles] = task.factor[self.single]
        highs.addRows(self.groups, each, each, 0, np.zeros(self.groups, np.int32), *none)
        self._add_columns(
            np.full(2 * bands, _ELASTIC_COST), np.arange(2 * bands),
            np.repeat(np.arange(bands), 2), np.tile([-1.0, 1.0], bands),
        )  # fmt: skip

    def _add_slacks(self, imbalance: Mapping[str, int]) -> int:
        """Add slack variables, so that solutions may miss limits by as much as the known plan.

        Return their number. ``imbalance`` has the plan's total imbalance by measure.
        """
        highs, brokers, added = self.highs, len(self.task.alive), 0
        for k in self.kinds:
            for name, part in ((KINDS[k], slice(None, brokers)),
                               (f"rack {KINDS[k]}", slice(brokers, None))):  # fmt: skip
                allowed = imbalance.get(name, 0)
                rows = self.row[k, part]
                rows = rows[rows >= 0]
                if not allowed or not len(rows):
                    continue
                budget = highs.getNumRow()
                highs.addRow(-np.inf, allowed / self.mean[k], 0, np.zeros(0, np.int32), np.zeros(0))
                both = np.stack([np.repeat(rows, 2), np.full(2 * len(rows), budget)], axis=1)
                sign = np.stack([np.tile([-1.0, 1.0], len(rows)), np.ones(2 * len(rows))], axis=1)
                count = 2 * len(rows)
                self._add_columns(np.zeros(count), 2 * np.arange(count), both.ravel(), sign.ravel())
                added += count
        return added

    def _add_columns(
        self, cost: Floats, begin: Ints, row: Ints, value: Floats, *, most: float = np.inf
    ) -> None:
        # The matrix is in compressed columns (CSC); columns are 0 or more.
        count = len(cost)
        self.highs.addCols(
            count, cost, np.zeros(count), np.full(count, most), len(row),
            begin.astype(np.int32), row.astype(np.int32), value.astype(np.float64),
        )  # fmt: skip

    def add_columns(self, placement: NDArray[np.int32]) -> None:
        """Add a known placement of all replicas to the linear programme, as new variables.

        Each group of partitions gets one variable (column) for its part of the placement, each
        large partition one for each new broker. ``placement`` is the broker of each replica
        (int32[replicas]).
        """
        self._add_arcs(placement)
        self._add_groups(placement)
        self.history.append(placement)

    def _add_arcs(self, chosen: NDArray[np.int32]) -> None:
        task, bands = self.task, len(self.kind)
        single, broker = (
            self.group[task.partition_of_replica[self._slots]],
            chosen[self._slots].astype(np.int64),
        )
        open_ones = ~self.is_fixed[single]
        single, broker = single[open_ones], broker[open_ones]
        self._widen_rack_limits(single, broker)
        is_new = self.arc[single, broker] < 0
        single, broker = single[is_new], broker[is_new]
        count, partition = len(single), self.single[single]
        if not count:
            return
        self.arc[single, broker] = self.first + len(self.owned) + np.arange(count)
        rows, values = [bands + single], [np.ones(count)]
        for k in self.kinds:
            weight = task.weight[k][partition] / self.mean[k]
            rows.append(self.row[k, broker])
            values.append(weight)
            if task.balanced_rack_count and k:
                rows.append(self.row[k, len(task.alive) + task.cluster.rack_of_broker[broker]])
                values.append(weight)
        if self._rack is not None:
            rows.append(self._rack_row[single, self._rack[broker]])
            values.append(np.ones(count))
        row, value = np.stack(rows, axis=1), np.stack(values, axis=1)
        is_entry = row >= 0
        begin = np.concatenate([[0], np.cumsum(is_entry.sum(axis=1))[:-1]])
        cost = np.where(self.is_current[single, broker], 0.0, task.cost[partition] / self.unit)
        self._add_columns(cost, begin, row[is_entry], value[is_entry], most=1.0)
        self.owned += zip(single.tolist(), broker.tolist(), strict=True)
        for s, b in zip(single.tolist(), broker.tolist(), strict=True):
            if self._stays[s, b]:
                self.highs.changeColBounds(int(self.arc[s, b]), 1.0, 1.0)
        if self._rack is not None:
            self._add_rack_rows(np.unique(single))

    def _widen_rack_limits(self, large_index: Ints, broker: Ints) -> None:
        """Widen the rack rule of large partitions where given brokers do not follow it.

        Index i of both arrays stands for one replica: its partition's rank by size, and its broker.
        """
        if self._rack is None or not len(large_index):
            return
        racks = self.rack_low.shape[1]
        key = large_index * racks + self._rack[broker]
        count = np.bincount(key, minlength=self.singles * racks).reshape(self.singles, racks)
        given = np.zeros(self.singles, bool)
        given[large_index] = True
        wrong = given[:, None] & ((count < self.rack_low) | (count > self.rack_high))
        for s, r in zip(*np.nonzero(wrong), strict=True):
            self.rack_low[s, r] = min(self.rack_low[s, r], count[s, r])
            self.rack_high[s, r] = max(self.rack_high[s, r], count[s, r])
            if self._rack_row[s, r] >= 0:
                self.highs.changeRowBounds(
                    int(self._rack_row[s, r]),
                    float(self.rack_low[s, r]), float(self.rack_high[s, r]),
                )  # fmt: skip

    def _add_rack_rows(self, large_indices: Ints) -> None:
        """Add constraints for the rack rule of large partitions, given by their ranks by size."""
        begin: list[int] = []
        index, lower, upper, size = [], [], [], 0
        first = self.highs.getNumRow()
        for s in large_indices.tolist():
            brokers = np.flatnonzero(self.arc[s] >= 0)
            rack = self.task.cluster.rack_of_broker[brokers]
            for r in np.unique(rack).tolist():
                here = self.arc[s, brokers[rack == r]]
                low, high = self.rack_low[s, r], self.rack_high[s, r]
                if self._rack_row[s, r] >= 0 or not (low > 0 or len(here) > high):
                    continue
                self._rack_row[s, r] = first + len(begin)
                begin.append(size)
                index.append(here)
                lower.append(float(low))
                upper.append(float(high))
                size += len(here)
        if begin:
            self.highs.addRows(
                len(begin), np.array(lower), np.array(upper), size, np.array(begin, np.int32),
                np.concatenate(index).astype(np.int32), np.ones(size),
            )  # fmt: skip

    def _add_groups(self, chosen: NDArray[np.int32]) -> None:
        task, bands, slots = self.task, len(self.kind), self._rest
        group = self.group[task.partition_of_replica[slots]]
        is_new = is_moved(task, chosen)[slots]
        moves = np.where(is_new, task.cost[task.partition_of_replica[slots]], 0) / self.unit
        cost = np.bincount(group, weights=moves, minlength=self.groups)
        key, value = self._entries(chosen)
        begin = np.searchsorted(key // bands, np.arange(self.groups + 1))
        starts, rows, values, costs, size = [], [], [], [], 0
        for g in range(self.singles, self.groups):
            part = slice(int(begin[g]), int(begin[g + 1]))
            row, much = key[part] % bands, value[part]
            known = (g, row.tobytes() + much.tobytes() + cost[g].tobytes())
            if known in self._known:
                continue
            self._known.add(known)
            self.owned.append((g, len(self.history)))
            starts.append(size)
            size += len(row) + 1
            rows += [row, np.array([bands + g])]
            values += [much, np.ones(1)]
            costs.append(cost[g])
        if starts:
            self._add_columns(
                np.array(costs), np.array(starts), np.concatenate(rows), np.concatenate(values)
            )

    def _entries(self, chosen: NDArray[np.int32]) -> tuple[Ints, Floats]:
        # Keys are group * bands + row.
        task, bands, brokers, slots = self.task, len(self.kind), len(self.task.alive), self._rest
        owner, chosen = task.partition_of_replica[slots], chosen[slots]
        group, keys, values = self.group[owner], [], []
        for k in self.kinds:
            weight = task.weight[k][owner] / self.mean[k]
            keys.append(group * bands + self.row[k, chosen])
            values.append(weight)
            if task.balanced_rack_count and k:
                keys.append(
                    group * bands + self.row[k, brokers + task.cluster.rack_of_broker[chosen]]
                )
                values.append(weight)
        key, at = np.unique(np.concatenate(keys), return_inverse=True)
        value = np.asarray(np.bincount(at, weights=np.concatenate(values)), np.float64)
        return key, value

    def solve_in_box(
        self, center: Floats, box: float, method: int = PRIMAL_SIMPLEX
    ) -> tuple[Floats, float, float] | None:
        """Solve the linear programme with dual prices limited to a box around ``center``.

        Return the scaled prices, the optimum in bytes, and the total violation of limits; None if
        HiGHS finds no optimum.

        Args:
            center: float64[n], scaled prices.
            box: half the width of the box.
            method: HiGHS's number of the simplex method. The last basis is primal feasible after
                new columns and other costs, and dual feasible after other bounds of columns.
        """
        bands = len(self.kind)
        cost = np.empty(2 * bands)
        cost[0::2], cost[1::2] = center + box, box - center
        self.highs.changeColsCost(2 * bands, np.arange(2 * bands, dtype=np.int32), cost)
        return self.solve_again(method)

    def solve_again(
        self, method: int, max_bytes: float = np.inf
    ) -> tuple[Floats, float, float] | None:
        """Solve the linear programme again after its columns or limits changed.

        The search stops and returns None once the optimum is known to exceed ``max_bytes`` bytes.
        ``method`` is the simplex method (HiGHS's option ``simplex_strategy``).
        """
        bands = len(self.kind)
        self.highs.setOptionValue("objective_bound", max_bytes / self.unit)
        self._run_simplex(method)
        if self.highs.getModelStatus() != self._optimal_status:
            return None
        solution = self.highs.getSolution()
        dual, values = np.array(solution.row_dual), np.array(solution.col_value)
        if len(dual) < bands or not np.isfinite(dual).all() or not len(values):
            return None
        self.values = values
        optimum = float(self.highs.getInfo().objective_function_value) * self.unit
        return -dual[:bands], optimum, float(values[: 2 * bands].sum())

    def _run_simplex(self, method: int) -> None:
        """Solve the linear programme from the last solution, or with the dual simplex method."""
        self._set_method(method, _STALLED)
        self.highs.run()
        self.iterations += int(self.highs.getInfo().simplex_iteration_count)
        if self.highs.getModelStatus() != self._limit_status:
            return
        self.highs.clearSolver()
        self._set_method(DUAL_SIMPLEX, _NO_LIMIT)
        self.highs.run()
        self.iterations += int(self.highs.getInfo().simplex_iteration_count)

    def _set_method(self, method: int, iterations: int) -> None:
        self.highs.setOptionValue("simplex_strategy", method)
        self.highs.setOptionValue("simplex_iteration_limit", iterations)

    def values_of(self, large_index: int) -> Floats:
        """Return how many replicas of a large partition each broker has in the last optimum.

        The linear programme may divide replicas, for example into 0.5 and 0.5 (float64[brokers]).
        """
        column, out = self.arc[large_index], np.zeros(self.arc.shape[1])
        if self.values is not None:
            is_known = (column >= 0) & (column < len(self.values))
            out[is_known] = self.values[column[is_known]]
        return out

    def fix_brokers(self, large_index: int, brokers: NDArray[np.integer]) -> None:
        """Fix a large partition to a set of brokers, each of which must have a variable."""
        column = self.arc[large_index]
        known = np.flatnonzero(column >= 0)
        value = np.isin(known, brokers).astype(np.float64)
        self.highs.changeColsBounds(len(known), column[known].astype(np.int32), value, value)
        self.is_fixed[large_index] = True

    def release_brokers(self, large_index: int) -> None:
        """Undo `fix_brokers`, so that the linear programme chooses a partition's brokers again."""
        column = self.arc[large_index]
        known = np.flatnonzero(column >= 0)
        least = self._stays[large_index, known].astype(np.float64)
        self.highs.changeColsBounds(
            len(known), column[known].astype(np.int32), least, np.ones(len(known))
        )
        self.is_fixed[large_index] = False

    def keeps_rack_rule(self, large_index: int, brokers: Ints) -> bool:
        """Return whether a set of brokers obeys the rack rule for a large partition."""
        if self._rack is None:
            return True
        count = np.bincount(self._rack[brokers], minlength=self.rack_low.shape[1])
        low, high = self.rack_low[large_index], self.rack_high[large_index]
        return bool(((count >= low) & (count <= high)).all())

    def unscale_prices(self, scaled: Floats) -> Floats:
        """Convert scaled dual prices back to costs per unit (float64[4, brokers + racks])."""
        out = np.zeros(self.task.low.shape)
        out[self.kind, self.place] = scaled * self.unit / self.scale
        out[(self.task.high >= UNBOUNDED) & (out > 0)] = 0.0
        return out

    def scale_prices(self, prices: Floats) -> Floats:
        """Convert dual prices to the scale of the linear programme (float64[n])."""
        out: Floats = prices[self.kind, self.place] * self.scale / self.unit
        return out

    def round_optimum(self, plan: NDArray[np.int32]) -> NDArray[np.int32]:
        """Round the last optimum to one set of brokers for each partition (int32[replicas]).

        The largest partitions choose first. Each takes the set that leaves the smallest sum of
        squared differences between plan and optimum (error diffusion). Without an optimum, return
        ``plan``.
        """
        out: NDArray[np.int32] = plan.copy()
        if self.values is None:
            return out
        task, error = self.task, np.zeros(len(self.kind))
        used = self._used_choices(self.values)
        for p in np.argsort(-task.cost, kind="stable").tolist():
            slots, g = (
                slice(int(task.first_replica[p]), int(task.first_replica[p + 1])),
                int(self.group[p]),
            )
            sets, target = self._broker_sets_of_optimum(p, used[g])
            if len(sets) == 1 and g >= self.singles:
                out[slots] = sets[0]
            elif sets:
                after = [error + self._usage(p, one, np.ones(len(one))) - target for one in sets]
                best = min(range(len(sets)), key=lambda i: float(after[i] @ after[i]))
                error, out[slots] = after[best], sets[best]
        return out

    def _broker_sets_of_optimum(
        self, partition: int, used: list[tuple[float, int]]
    ) -> tuple[list[Ints], Floats]:
        """Return the broker sets among which the optimum divides a partition, and its resource use.

        ``used`` lists its group's placements in the optimum, as (fraction, index in `history`).
        """
        g, task = int(self.group[partition]), self.task
        if g < self.singles:
            value = self.values_of(g)
            brokers = np.flatnonzero(value > _LEAST_PART)
            target = self._usage(partition, brokers, value[brokers])
            return self.likely_sets(g, _MOST_SETS), target
        slots = slice(int(task.first_replica[partition]), int(task.first_replica[partition + 1]))
        sets: dict[tuple[int, ...], Ints] = {}
        target = np.zeros(len(self.kind))
        for part, number in used:
            chosen = np.sort(self.history[number][slots]).astype(np.int64)
            target += self._usage(partition, chosen, np.full(len(chosen), part))
            sets.setdefault(tuple(chosen.tolist()), chosen)
        return list(sets.values()), target

    def _used_choices(self, values: Floats) -> list[list[tuple[float, int]]]:
        """Return which known placements the last optimum uses, for each group of partitions.

        A placement is a pair: the fraction to which it is used, and its index in `history`.
        """
        out: list[list[tuple[float, int]]] = [[] for _ in range(self.groups)]
        for value, (group, number) in zip(values[self.first :], self.owned, strict=False):
            if value > _LEAST_PART and group >= self.singles:
                out[group].append((float(value), number))
        return out

    def _usage(self, partition: int, brokers: NDArray[np.integer], fraction: Floats) -> Floats:
        """Return how much of each balance limit a partition uses, if its replicas are divided.

        ``fraction`` is the part of a replica that each of ``brokers`` gets. The result (float64[n])
        has one value for each limit of a broker or rack.
        """
        task, out = self.task, np.zeros(len(self.kind))
        for k in self.kinds:
            weight = task.weight[k, partition] / self.mean[k] * fraction
            np.add.at(out, self.row[k, brokers], weight)
            if task.balanced_rack_count and k:
                np.add.at(
                    out, self.row[k, len(task.alive) + task.cluster.rack_of_broker[brokers]], weight
                )
        return out

    def likely_sets(self, large_index: int, max_sets: int) -> list[Ints]:
        """Return sets of brokers that are good candidates for a large partition, the best first.

        A set is good if the last solution of the linear programme puts much of the partition there.
        There are at most ``max_sets``, and all keep the rack rule; each is int64[factor],
        ascending.
        """
        value, factor = self.values_of(large_index), int(self.task.factor[self.single[large_index]])
        brokers = np.flatnonzero(value > _LEAST_PART)
        brokers = np.sort(brokers[np.argsort(-value[brokers], kind="stable")][: factor + _SPARE])
        sets = [np.array(one, np.int64) for one in combinations(brokers.tolist(), factor)]
        sets = [one for one in sets if self.keeps_rack_rule(large_index, one)]
        return sorted(sets, key=lambda one: -float(value[one].sum()))[:max_sets]
