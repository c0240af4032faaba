"""The Lagrangian dual of large reassignments by the boxstep method, and its rounded optimum.

Dual variables are prices of bands (`partage.judge.replica_bounds` shows why they prove a bound).
Each round searches for the best prices in a box around the best so far. HiGHS solves a linear
programme for that. Its columns (of the Dantzig-Wolfe decomposition) are the choices of brokers that
were cheapest at earlier prices. A column belongs to one large partition or to a group of small
ones, so that the programme stays small. Its optimum is a convex combination (blend) of choices
within the bands. `repair` improves the plan that rounding makes from this blend.

Source: R. E. Marsten, W. W. Hogan, J. W. Blankenship, "The Boxstep Method for Large-Scale
Optimization", Operations Research 23 (1975).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import KINDS
from partage.solve.replicas.bounds import CheapestChoices, bound_of_moves, prices_of_brokers
from partage.solve.replicas.problem import UNBOUNDED, Floats, Ints, is_moved

__all__ = ["DualPlan", "RestrictedMaster", "choose_cheapest", "solve_dual"]

#: Partitions with columns of their own, the largest ones; the others share so many groups.
#: Measured with Pareto(1.2) sizes: 500 partitions hold more than half of all bytes.
_SINGLES, _GROUPS = 500, 60
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
#: The first cost of an elastic column; `RestrictedMaster.solve` replaces it by the box.
_ELASTIC_COST = 1e4
#: Scaled use of elastic columns below which the box no longer binds.
_ELASTIC_TOLERANCE = 1e-6
#: Iterations after which the primal simplex method has stalled. Measured on 30 x 10,000, a solution
#: takes at most 2,400 iterations (a second); one that stalled was still running after a minute.
_STALLED, _NO_LIMIT = 20_000, int(np.iinfo(np.int32).max)
#: HiGHS's numbers of the dual and of the primal simplex method.
_DUAL_SIMPLEX, _PRIMAL_SIMPLEX = 1, 4
#: Parts of a blend below this are rounding of the simplex method.
_LEAST_PART = 1e-7


@dataclass(frozen=True, eq=False)
class DualPlan:
    """Best dual prices found for a reassignment, and a near-optimal plan rounded from the linear
    relaxation.

    Attributes:
        prices: float64[4, B + Z], the dual prices of balance limits, which the judge verifies.
        replica: int32[S], the rounded optimum: brokers by ``task.start``; it misses some balance
            limits.
        choice: int32[S], the cheapest brokers of each partition at these prices.
        master: the linear programme, for `diving`.
    """

    prices: Floats
    replica: NDArray[np.int32]
    choice: NDArray[np.int32]
    master: RestrictedMaster


def solve_dual(
    task: ReplicaTask,
    figures: Mapping[str, int],
    start: Floats,
    plan: NDArray[np.int32],
) -> DualPlan | None:
    """Solve the Lagrangian dual of a reassignment by column generation.

    Return its dual prices and a rounded plan; None if the solver HiGHS is not installed.

    Args:
        task: the reassignment.
        figures: the total imbalance that a plan may have, by name.
        start: float64[4, B + Z], prices to begin with.
        plan: int32[S], a plan with these figures, so that the first programme is feasible.
    """
    try:
        import highspy
    except ImportError:
        return None
    master, choices = RestrictedMaster(highspy, task, figures), CheapestChoices(task)
    total, choice = choose_cheapest(task, choices, start, plan)
    best, prices = bound_of_moves(task, figures, start, total), start
    master.add(plan)
    master.add(choice)
    center, box, growing = master.scaled(start), _FIRST_BOX, 0
    for _ in range(_MOST_ROUNDS):
        solution = master.solve(center, box)
        if solution is None:
            break
        scaled, optimum, elastic = solution
        tried = master.prices(scaled)
        total, chosen = choose_cheapest(task, choices, tried, plan)
        value = bound_of_moves(task, figures, tried, total)
        missing = optimum - best
        master.add(chosen)
        if value > best:
            if value - best > _GOOD_ROUND * missing:
                box *= _GROWTH
            best, center, prices, choice = value, scaled, tried, chosen
        else:
            box = max(box * _SHRINKAGE, _SMALLEST_BOX)
        if optimum - best <= _STOPPING_GAP * abs(optimum):
            # If the box binds, better prices may be outside it.
            growing += 1
            if elastic <= _ELASTIC_TOLERANCE or growing > _MOST_GROWING:
                break
            box = max(2 * box, _FIRST_BOX)
    if master.values is None:
        return None
    return DualPlan(prices, master.rounded(plan), choice, master)


def choose_cheapest(
    task: ReplicaTask, choices: CheapestChoices, prices: Floats, plan: NDArray[np.int32]
) -> tuple[float, NDArray[np.int32]]:
    """Choose the cheapest brokers of each partition at given dual prices.

    Return their total cost, and the brokers (int32[S]).

    Some partitions keep the brokers of ``plan``: those that move only what must move, since the
    choice does not limit their moves, and those for which the rack rule leaves too few brokers.
    """
    total, _, chosen = choices.solve(prices_of_brokers(task, prices), per_byte=1.0)
    keeps_plan = task.closed.copy()
    keeps_plan[task.owner[chosen < 0]] = True
    return total, np.where(keeps_plan[task.owner], plan, chosen).astype(np.int32)


class RestrictedMaster:
    """Restricted master programme of column generation: a linear programme that HiGHS solves.

    A column is a choice of brokers for a group of partitions. The rows are the balance limits, then
    one convexity row for each group.

    Prices are scaled: the price of a mean replica within a limit, in units of a mean move.

    Attributes:
        group: int64[P], the group of each partition; the largest ones are groups of their own.
        singles: the number of groups of one partition each, in order of size.
        kind, place: int64[n], of each band, in order of rows.
        row: int64[4, B + Z], the row of each band, -1 for none.
        unit: bytes of a mean move.
        scale: float64[n], the mean weight of each band's kind.
        owned: (group, position in ``history``) of each column that stands for a choice.
        history: int32[S] each, the choices that were added.
        first: the number of the first column that stands for a choice.
        values: the columns' values in the last optimum, None before the first.
    """

    def __init__(self, highspy: Any, task: ReplicaTask, figures: Mapping[str, int]) -> None:
        self.task, brokers = task, len(task.alive)
        self.group = self._groups_of_partitions()
        self.groups = int(self.group.max(initial=-1)) + 1
        self.singles = min(_SINGLES, len(task.factor))
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
        self.highs, self._limit_status = highspy.Highs(), highspy.HighsModelStatus.kIterationLimit
        # Columns are added and costs change, so the last basis stays primal feasible for the primal
        # simplex method. Measured, the dual one is no faster once columns are fixed.
        for option, value in {"output_flag": False, "threads": 1, "random_seed": 1}.items():
            self.highs.setOptionValue(option, value)
        self._set_method(_PRIMAL_SIMPLEX, _STALLED)
        self._add_rows()
        self.first = 2 * len(bands) + self._add_slacks(figures)

    def _groups_of_partitions(self) -> Ints:
        # The largest partitions are groups of their own. The others fill the remaining groups in
        # turn.
        partitions = len(self.task.factor)
        order = np.argsort(-self.task.cost, kind="stable")
        single = min(_SINGLES, partitions)
        rest = partitions - single
        out: Ints = np.empty(partitions, np.int64)
        out[order[:single]] = np.arange(single)
        out[order[single:]] = single + np.arange(rest) % max(min(_GROUPS, rest), 1)
        return out

    def _add_rows(self) -> None:
        """Add the rows of the programme: one for each balance limit, and one for each group of
        partitions.

        The row of a limit has two elastic columns. The row of a group is a convexity constraint.
        """
        highs, task, bands = self.highs, self.task, len(self.kind)
        none = np.zeros(0, np.int32), np.zeros(0)
        high = task.high[self.kind, self.place]
        upper = np.where(high >= UNBOUNDED, np.inf, high / self.scale)
        lower = task.low[self.kind, self.place] / self.scale
        highs.addRows(bands, lower, upper, 0, np.zeros(bands, np.int32), *none)
        one = np.ones(self.groups)
        highs.addRows(self.groups, one, one, 0, np.zeros(self.groups, np.int32), *none)
        self._add_columns(
            np.full(2 * bands, _ELASTIC_COST), np.arange(2 * bands),
            np.repeat(np.arange(bands), 2), np.tile([-1.0, 1.0], bands),
        )  # fmt: skip

    def _add_slacks(self, figures: Mapping[str, int]) -> int:
        """Add slack columns for the balance limits that the known plan misses; return how many.

        Each slack is at most the plan's own imbalance.
        """
        highs, brokers, added = self.highs, len(self.task.alive), 0
        for k in self.kinds:
            for name, part in ((KINDS[k], slice(None, brokers)),
                               (f"rack {KINDS[k]}", slice(brokers, None))):  # fmt: skip
                allowed = figures.get(name, 0)
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

    def _add_columns(self, cost: Floats, begin: Ints, row: Ints, value: Floats) -> None:
        # The matrix is in compressed columns (CSC); columns are 0 or more, without an upper limit.
        count = len(cost)
        self.highs.addCols(
            count, cost, np.zeros(count), np.full(count, np.inf), len(row),
            begin.astype(np.int32), row.astype(np.int32), value.astype(np.float64),
        )  # fmt: skip

    def add(self, chosen: NDArray[np.int32]) -> None:
        """Add a choice of brokers (int32[S]) as one column for each group of partitions.

        Existing columns are not repeated.
        """
        task, bands = self.task, len(self.kind)
        group = self.group[task.owner]
        moves = np.where(is_moved(task, chosen), task.cost[task.owner], 0) / self.unit
        cost = np.bincount(group, weights=moves, minlength=self.groups)
        key, value = self._entries(chosen)
        begin = np.searchsorted(key // bands, np.arange(self.groups + 1))
        starts, rows, values, costs, size = [], [], [], [], 0
        for g in range(self.groups):
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
        self.history.append(chosen)
        if starts:
            self._add_columns(
                np.array(costs), np.array(starts), np.concatenate(rows), np.concatenate(values)
            )

    def _entries(self, chosen: NDArray[np.int32]) -> tuple[Ints, Floats]:
        # Keys are group * bands + row.
        task, bands, brokers = self.task, len(self.kind), len(self.task.alive)
        group, keys, values = self.group[task.owner], [], []
        for k in self.kinds:
            weight = task.weight[k][task.owner] / self.mean[k]
            keys.append(group * bands + self.row[k, chosen])
            values.append(weight)
            if task.zones and k:
                keys.append(group * bands + self.row[k, brokers + task.cluster.rack[chosen]])
                values.append(weight)
        key, at = np.unique(np.concatenate(keys), return_inverse=True)
        value = np.asarray(np.bincount(at, weights=np.concatenate(values)), np.float64)
        return key, value

    def solve(self, center: Floats, box: float) -> tuple[Floats, float, float] | None:
        """Solve the linear programme with the dual prices limited to a box around ``center``.

        Return the scaled prices, the optimum in bytes, and the use of elastic columns; None if
        HiGHS finds no optimum.

        The elastic columns of a balance limit cost the ends of its box: their reduced costs keep
        the prices within the box.
        """
        bands = len(self.kind)
        cost = np.empty(2 * bands)
        cost[0::2], cost[1::2] = center + box, box - center
        self.highs.changeColsCost(2 * bands, np.arange(2 * bands, dtype=np.int32), cost)
        self._run()
        solution = self.highs.getSolution()
        dual, values = np.array(solution.row_dual), np.array(solution.col_value)
        if len(dual) < bands or not np.isfinite(dual).all() or not len(values):
            return None
        self.values = values
        optimum = float(self.highs.getInfo().objective_function_value) * self.unit
        return -dual[:bands], optimum, float(values[: 2 * bands].sum())

    def _run(self) -> None:
        """Solve by the primal simplex method from the last basis; if it stalls, by the dual one."""
        self.highs.run()
        if self.highs.getModelStatus() != self._limit_status:
            return
        self.highs.clearSolver()
        self._set_method(_DUAL_SIMPLEX, _NO_LIMIT)
        self.highs.run()
        self._set_method(_PRIMAL_SIMPLEX, _STALLED)

    def _set_method(self, method: int, iterations: int) -> None:
        self.highs.setOptionValue("simplex_strategy", method)
        self.highs.setOptionValue("simplex_iteration_limit", iterations)

    def columns_of(self, groups: range) -> list[tuple[int, float, int, int]]:
        """Return the columns (choices of brokers) of some groups of partitions, with their values
        in the last optimum.

        Each entry is (group, value, column, position of its choice in ``history``).
        """
        if self.values is None:
            return []
        known = self.owned[: len(self.values) - self.first]
        return [
            (group, float(self.values[self.first + i]), self.first + i, number)
            for i, (group, number) in enumerate(known)
            if group in groups
        ]

    def fix(self, column: int) -> None:
        """Fix the variable of a column at 1, so that its group takes this choice of brokers
        only.
        """
        self.highs.changeColBounds(column, 1.0, np.inf)

    def release(self, column: int) -> None:
        """Undo `fix`: allow any value of 0 or more for the column's variable again."""
        self.highs.changeColBounds(column, 0.0, np.inf)

    def prices(self, scaled: Floats) -> Floats:
        """Convert scaled dual prices of the linear programme to prices of one unit.

        The result is float64[4, B + Z]: brokers, then racks.
        """
        out = np.zeros(self.task.low.shape)
        out[self.kind, self.place] = scaled * self.unit / self.scale
        out[(self.task.high >= UNBOUNDED) & (out > 0)] = 0.0
        return out

    def scaled(self, prices: Floats) -> Floats:
        """Convert dual prices of one unit (float64[4, B + Z]) to the scale of the linear
        programme.
        """
        out: Floats = prices[self.kind, self.place] * self.scale / self.unit
        return out

    def rounded(self, plan: NDArray[np.int32]) -> NDArray[np.int32]:
        """Round the last optimum to one choice of brokers for each partition (int32[S]).

        Without an optimum the result is ``plan``. Within a group the largest partitions choose
        first. Each takes the column that is furthest behind its part of the bytes.
        """
        task = self.task
        if self.values is None:
            return plan
        options: list[list[tuple[float, int]]] = [[] for _ in range(self.groups)]
        for value, (group, number) in zip(self.values[self.first :], self.owned, strict=False):
            if value > _LEAST_PART:
                options[group].append((float(value), number))
        take = np.zeros(len(task.factor), np.int64)
        behind = [np.zeros(len(columns)) for columns in options]
        parts = [np.array([part for part, _ in columns]) for columns in options]
        for p in np.argsort(-task.cost, kind="stable").tolist():
            g = int(self.group[p])
            if len(options[g]) > 1:
                behind[g] += parts[g] * task.cost[p]
                best = int(behind[g].argmax())
                behind[g][best] -= task.cost[p]
                take[p] = options[g][best][1]
            elif options[g]:
                take[p] = options[g][0][1]
        choices = np.stack(self.history)
        out: NDArray[np.int32] = choices[take[task.owner], np.arange(len(task.owner))]
        return out
