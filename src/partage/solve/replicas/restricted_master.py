"""The restricted master programme of the Lagrangian dual: a linear programme that HiGHS solves.

Its columns (Dantzig-Wolfe decomposition) are the choices of brokers that were cheapest at earlier
prices. A column belongs to a group of small partitions, so that the programme stays small; a large
partition has a variable for each broker. Branching and diving decide about these variables. Limits
that large partitions exceed have two rows, in which they count as `partage.model.tightened_limits`
says.

Source: G. B. Dantzig, P. Wolfe, "Decomposition Principle for Linear Programs", Operations Research
8 (1960).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import KINDS, STAY
from partage.model.tightened_limits import TightLimits
from partage.solve.replicas.problem import UNBOUNDED, Bools, Floats, Ints, is_moved

__all__ = ["DUAL_SIMPLEX", "RestrictedMaster"]

#: Partitions with variables of their own, the largest ones; the others share so many groups.
#: Measured with Pareto(1.2) sizes, 30 x 10,000: 500 and 60 take twice as long for the same bound,
#: 30 and 20 do not reach it in 60 rounds.
_SINGLES, _GROUPS = 100, 60
#: The first cost of an elastic column; `RestrictedMaster.solve` replaces it by the box.
_ELASTIC_COST = 1e4
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
#: Which side of a balance limit a row has.
_BOTH, _UPPER, _LOWER = 0, 1, -1


class RestrictedMaster:
    """Restricted master programme of column generation: a linear programme that HiGHS solves.

    The largest partitions (singles) have one variable for each broker that a known choice gives
    them. A group of other partitions has one variable for each known choice as a whole. The rows
    are the balance limits, then one row for each group: the variables of a single add up to its
    replication factor, those of another group to 1. Singles also have rows for the rack rule.

    Prices are scaled: the price of a mean replica within a limit, in units of a mean move.

    Attributes:
        tight: what large partitions count in each balance limit.
        group: int64[P], the group of each partition; the largest ones are groups of their own.
        singles: the number of groups of one partition each, in order of size.
        single: int64[singles], their partitions.
        part: float64[singles], the size or load of each as a part of a broker's mean.
        large_kind: int64[singles], the kind of weight of which that part is.
        kind, place, side: int64[n], of each band's row, in order of rows.
        upper, lower: int64[4, B + Z], the rows of each band's limits, -1 for none; equal if one row
            has both.
        unit: bytes of a mean move.
        scale: float64[n], the mean weight of each band's kind.
        arc: int64[singles, B], the column of each broker of a single, -1 for none.
        is_current: bool[singles, B], whether a broker has a replica of a single now.
        required, excluded: bool[singles, B], the decisions about brokers of singles.
        owned: (group, broker of a single or position in ``history``) of each column that stands
            for a choice.
        history: int32[S] each, the choices that were added.
        first: the number of the first column that stands for a choice.
        values: the columns' values in the last optimum, None before the first.
        iterations: simplex iterations so far, a measure of the work.
    """

    def __init__(self, highspy: Any, task: ReplicaTask, figures: Mapping[str, int]) -> None:
        self.task, self.tight = task, TightLimits(task, figures)
        # A partition that moves only what must move is never a single: its variables could be
        # mixed into a choice that moves more.
        self.singles = min(_SINGLES, int((~task.closed & (task.factor > 0)).sum()))
        self.group = self._groups_of_partitions()
        self.groups = int(self.group.max(initial=-1)) + 1
        self.unit = float(max(task.cost.mean(), 1.0))
        self.kinds = [k for k in range(len(KINDS)) if task.weight[k].any()]
        self.mean = np.maximum(task.weight.mean(axis=1), 1e-12)
        self._number_rows()
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
        self.first = 2 * len(self.kind) + self._add_slacks(figures)
        self._width = int(self.highs.getNumRow())
        self._prepare_arcs()

    def _groups_of_partitions(self) -> Ints:
        # The largest partitions are groups of their own. The others fill the remaining groups in
        # turn.
        task, partitions = self.task, len(self.task.factor)
        fixed = task.closed | (task.factor == 0)
        total = np.maximum((task.weight * task.factor).sum(axis=1), 1)[:, None]
        part = (task.weight / total)[2:].max(axis=0) * max(int(task.receives.sum()), 1)
        order = np.lexsort((-task.cost, -part, fixed))
        rest = partitions - self.singles
        out: Ints = np.empty(partitions, np.int64)
        self.single: Ints = order[: self.singles].astype(np.int64)
        self.part: Floats = part[self.single]
        self.large_kind: Ints = 2 + (task.weight / total)[2:, self.single].argmax(axis=0)
        out[self.single] = np.arange(self.singles)
        out[order[self.singles :]] = self.singles + np.arange(rest) % max(min(_GROUPS, rest), 1)
        return out

    def _number_rows(self) -> None:
        """Number the rows of balance limits: two for a limit that some partition exceeds."""
        task, brokers, tight = self.task, len(self.task.alive), self.tight
        shape = task.low.shape
        most = task.weight.max(axis=1, initial=0)[:, None]
        exceeded = (np.minimum(tight.low, tight.high) < most) & (len(tight.partition) > 0)
        # Whether any place of a kind has two rows; brokers, then racks.
        parts = slice(None, brokers), slice(brokers, None)
        self._is_split = np.array([[exceeded[k, part].any() for part in parts]
                                   for k in range(len(KINDS))])  # fmt: skip
        rows: list[tuple[int, int, int]] = []
        self.upper: Ints = np.full(shape, -1, np.int64)
        self.lower: Ints = np.full(shape, -1, np.int64)
        for k in self.kinds:
            for at in range(shape[1] if k else brokers):
                split = self._is_split[k, int(at >= brokers)]
                self.upper[k, at], self.lower[k, at] = len(rows), len(rows) + int(split)
                rows += [(k, at, _UPPER), (k, at, _LOWER)] if split else [(k, at, _BOTH)]
        self.kind, self.place, self.side = (
            np.array(column, np.int64) for column in zip(*rows, strict=True)
        )

    def _prepare_arcs(self) -> None:
        task, brokers, rack = self.task, len(self.task.alive), self.task.cluster.rack
        self.arc: Ints = np.full((self.singles, brokers), -1, np.int64)
        self.required: Bools = np.zeros(self.arc.shape, bool)
        self.excluded: Bools = np.zeros(self.arc.shape, bool)
        self._slots = np.flatnonzero(self.group[task.owner] < self.singles)
        self._rest = np.flatnonzero(self.group[task.owner] >= self.singles)
        # Whether a broker has a replica of a single now, and whether that replica must stay.
        old = self.group[task.old_owner]
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
        """Add the rows of the programme: those of balance limits, and one for each group of
        partitions.

        The row of a limit has two elastic columns. The row of a group is a convexity constraint.
        """
        highs, task, bands = self.highs, self.task, len(self.kind)
        none = np.zeros(0, np.int32), np.zeros(0)
        high = task.high[self.kind, self.place]
        is_open = (high >= UNBOUNDED) | (self.side == _LOWER)
        upper = np.where(is_open, np.inf, high / self.scale)
        lower = task.low[self.kind, self.place] / self.scale
        lower = np.where(self.side == _UPPER, -np.inf, lower)
        highs.addRows(bands, lower, upper, 0, np.zeros(bands, np.int32), *none)
        each = np.ones(self.groups)
        each[: self.singles] = task.factor[self.single]
        highs.addRows(self.groups, each, each, 0, np.zeros(self.groups, np.int32), *none)
        self._add_columns(
            np.full(2 * bands, _ELASTIC_COST), np.arange(2 * bands),
            np.repeat(np.arange(bands), 2), np.tile([-1.0, 1.0], bands),
        )  # fmt: skip

    def _add_slacks(self, figures: Mapping[str, int]) -> int:
        """Add slack columns for the balance limits that the known plan misses; return how many.

        All slacks of one kind together are at most the plan's own imbalance.
        """
        highs, brokers, added = self.highs, len(self.task.alive), 0
        self.budget: Ints = np.full((len(KINDS), 2), -1, np.int64)
        for k in self.kinds:
            for level, part in enumerate((slice(None, brokers), slice(brokers, None))):
                allowed = figures.get(("rack " if level else "") + KINDS[k], 0)
                upper, lower = (rows[k, part] for rows in (self.upper, self.lower))
                upper, lower = upper[upper >= 0], lower[lower >= 0]
                if not allowed or not len(upper):
                    continue
                self.budget[k, level] = budget = highs.getNumRow()
                highs.addRow(-np.inf, allowed / self.mean[k], 0, np.zeros(0, np.int32), np.zeros(0))
                rows, count = np.concatenate([upper, lower]), len(upper) + len(lower)
                both = np.stack([rows, np.full(count, budget)], axis=1)
                sign = np.where(np.arange(count) < len(upper), -1.0, 1.0)
                value = np.stack([sign, np.ones(count)], axis=1)
                self._add_columns(
                    np.zeros(count), 2 * np.arange(count), both.ravel(), value.ravel()
                )
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

    def _entries_of(self, partition: Ints, broker: Ints) -> tuple[Ints, Floats]:
        """Return the rows that replicas use, and how much; row -1 marks no entry.

        Both results have the shape [replicas, entries]. The rows are those of balance limits and of
        the total imbalances.
        """
        task, rows, values = self.task, [], []
        for k in self.kinds:
            whole = task.weight[k][partition].astype(np.float64)
            for level in range(2 if task.zones and k else 1):
                place = len(task.alive) + task.cluster.rack[broker] if level else broker
                if not self._is_split[k, level]:
                    rows.append(self.upper[k, place])
                    values.append(whole / self.mean[k])
                    continue
                high, low = self.tight.high[k, place], self.tight.low[k, place]
                rows += [self.upper[k, place], self.lower[k, place]]
                values += [np.minimum(whole, limit) / self.mean[k] for limit in (high, low)]
                if self.budget[k, level] >= 0:
                    over = np.maximum(whole - high, 0.0) / self.mean[k]
                    rows.append(np.where(over > 0, self.budget[k, level], -1))
                    values.append(over)
        return np.stack(rows, axis=1), np.stack(values, axis=1)

    def add(self, chosen: NDArray[np.int32]) -> None:
        """Add a choice of brokers (int32[S]) to the programme: variables of singles, and one column
        for each group of other partitions.

        Existing columns are not repeated.
        """
        self._add_arcs(chosen)
        self._add_groups(chosen)
        self.history.append(chosen)

    def _add_arcs(self, chosen: NDArray[np.int32]) -> None:
        task, bands = self.task, len(self.kind)
        single, broker = self.group[task.owner[self._slots]], chosen[self._slots].astype(np.int64)
        self._widen_rack_limits(single, broker)
        is_new = self.arc[single, broker] < 0
        single, broker = single[is_new], broker[is_new]
        count, partition = len(single), self.single[single]
        if not count:
            return
        self.arc[single, broker] = self.first + len(self.owned) + np.arange(count)
        of_limits, much = self._entries_of(partition, broker)
        rows, values = [of_limits, (bands + single)[:, None]], [much, np.ones((count, 1))]
        if self._rack is not None:
            rows.append(self._rack_row[single, self._rack[broker]][:, None])
            values.append(np.ones((count, 1)))
        row, value = np.concatenate(rows, axis=1), np.concatenate(values, axis=1)
        is_entry = row >= 0
        begin = np.concatenate([[0], np.cumsum(is_entry.sum(axis=1))[:-1]])
        cost = np.where(self.is_current[single, broker], 0.0, task.cost[partition] / self.unit)
        self._add_columns(cost, begin, row[is_entry], value[is_entry], most=1.0)
        self.owned += zip(single.tolist(), broker.tolist(), strict=True)
        for s in np.unique(single).tolist():
            if (self._stays[s] | self.required[s] | self.excluded[s]).any():
                self._bound_arcs(s)
        if self._rack is not None:
            self._add_rack_rows(np.unique(single))

    def decide(self, single: int, required: Bools, excluded: Bools) -> None:
        """Decide which brokers must and which must not hold a replica of a single.

        Args:
            single: the number of the single.
            required: bool[B], brokers that must hold one; they must have variables.
            excluded: bool[B], brokers that must not.
        """
        self.required[single], self.excluded[single] = required, excluded
        self._bound_arcs(single)

    def _bound_arcs(self, single: int) -> None:
        known = np.flatnonzero(self.arc[single] >= 0)
        column = self.arc[single, known].astype(np.int32)
        least = (self._stays | self.required)[single, known].astype(np.float64)
        most = np.maximum(least, ~self.excluded[single, known])
        self.highs.changeColsBounds(len(known), column, least, most)

    def _widen_rack_limits(self, single: Ints, broker: Ints) -> None:
        """Widen the rack limits of singles whose given choice is outside them."""
        if self._rack is None or not len(single):
            return
        racks = self.rack_low.shape[1]
        key = single * racks + self._rack[broker]
        count = np.bincount(key, minlength=self.singles * racks).reshape(self.singles, racks)
        given = np.zeros(self.singles, bool)
        given[single] = True
        wrong = given[:, None] & ((count < self.rack_low) | (count > self.rack_high))
        for s, r in zip(*np.nonzero(wrong), strict=True):
            self.rack_low[s, r] = min(self.rack_low[s, r], count[s, r])
            self.rack_high[s, r] = max(self.rack_high[s, r], count[s, r])
            if self._rack_row[s, r] >= 0:
                self.highs.changeRowBounds(
                    int(self._rack_row[s, r]),
                    float(self.rack_low[s, r]), float(self.rack_high[s, r]),
                )  # fmt: skip

    def _add_rack_rows(self, singles: Ints) -> None:
        """Add rows for the rack rule of some singles where their variables could break it."""
        begin: list[int] = []
        index, lower, upper, size = [], [], [], 0
        first = self.highs.getNumRow()
        for s in singles.tolist():
            brokers = np.flatnonzero(self.arc[s] >= 0)
            rack = self.task.cluster.rack[brokers]
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
        task, bands, slots, width = self.task, len(self.kind), self._rest, self._width
        group = self.group[task.owner[slots]]
        is_new = is_moved(task, chosen)[slots]
        moves = np.where(is_new, task.cost[task.owner[slots]], 0) / self.unit
        cost = np.bincount(group, weights=moves, minlength=self.groups)
        key, value = self._entries(chosen)
        begin = np.searchsorted(key // width, np.arange(self.groups + 1))
        starts, rows, values, costs, size = [], [], [], [], 0
        for g in range(self.singles, self.groups):
            part = slice(int(begin[g]), int(begin[g + 1]))
            row, much = key[part] % width, value[part]
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
        # Keys are group * width + row.
        slots = self._rest
        owner = self.task.owner[slots]
        row, value = self._entries_of(owner, chosen[slots].astype(np.int64))
        is_entry = row >= 0
        keys = (self.group[owner][:, None] * self._width + row)[is_entry]
        key, at = np.unique(keys, return_inverse=True)
        return key, np.asarray(np.bincount(at, weights=value[is_entry]), np.float64)

    def solve(
        self, center: Floats, box: float | Floats, method: int = PRIMAL_SIMPLEX
    ) -> tuple[Floats, float, float] | None:
        """Solve the linear programme with the dual prices limited to a box around ``center``.

        Return the scaled prices, the optimum in bytes, and the use of elastic columns; None if
        HiGHS finds no optimum.

        The elastic columns of a balance limit cost the ends of its box: their reduced costs keep
        the prices within the box.

        Args:
            center: float64[n], scaled prices.
            box: half the width of the box, one for all prices or float64[n].
            method: HiGHS's number of the simplex method. The last basis is primal feasible after
                new columns and other costs, and dual feasible after other bounds of columns.
        """
        bands = len(self.kind)
        cost = np.empty(2 * bands)
        cost[0::2], cost[1::2] = center + box, box - center
        self.highs.changeColsCost(2 * bands, np.arange(2 * bands, dtype=np.int32), cost)
        return self.solve_again(method)

    def solve_again(self, method: int, most: float = np.inf) -> tuple[Floats, float, float] | None:
        """Solve the linear programme with the box of the last `solve`; the result is the same.

        The dual simplex method stops, without a result, once the optimum is known to exceed
        ``most`` bytes.
        """
        bands = len(self.kind)
        self.highs.setOptionValue("objective_bound", most / self.unit)
        self._run(method)
        if self.highs.getModelStatus() != self._optimal_status:
            return None
        solution = self.highs.getSolution()
        dual, values = np.array(solution.row_dual), np.array(solution.col_value)
        if len(dual) < bands or not np.isfinite(dual).all() or not len(values):
            return None
        self.values = values
        optimum = float(self.highs.getInfo().objective_function_value) * self.unit
        return -dual[:bands], optimum, float(values[: 2 * bands].sum())

    def _run(self, method: int) -> None:
        """Solve by a simplex method from the last basis; if it stalls, by the dual one anew."""
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

    def values_of(self, single: int) -> Floats:
        """Return the last optimum's value of each broker for a single (float64[B])."""
        column, out = self.arc[single], np.zeros(self.arc.shape[1])
        if self.values is not None:
            is_known = (column >= 0) & (column < len(self.values))
            out[is_known] = self.values[column[is_known]]
        return out

    def keeps_rack_rule(self, single: int, brokers: Ints) -> bool:
        """Return whether a set of brokers is within the rack limits of a single."""
        if self._rack is None:
            return True
        count = np.bincount(self._rack[brokers], minlength=self.rack_low.shape[1])
        low, high = self.rack_low[single], self.rack_high[single]
        return bool(((count >= low) & (count <= high)).all())

    def prices(self, scaled: Floats) -> Floats:
        """Convert scaled dual prices of the linear programme to prices of one unit.

        The result is float64[4, B + Z]: brokers, then racks.
        """
        out = np.zeros(self.task.low.shape)
        np.add.at(out, (self.kind, self.place), scaled * self.unit / self.scale)
        out[(self.task.high >= UNBOUNDED) & (out > 0)] = 0.0
        return out

    def scaled(self, prices: Floats) -> Floats:
        """Convert dual prices of one unit (float64[4, B + Z]) to the scale of the linear
        programme.
        """
        out: Floats = prices[self.kind, self.place] * self.scale / self.unit
        out[(self.side == _UPPER) & (out < 0)] = 0.0
        out[(self.side == _LOWER) & (out > 0)] = 0.0
        return out

    def rounded(self, plan: NDArray[np.int32]) -> NDArray[np.int32]:
        """Round the last optimum to one choice of brokers for each partition (int32[S]).

        Without an optimum the result is ``plan``. The rounding is an error diffusion: partitions
        choose in order of size, and each takes the choice that leaves the smallest sum of squared
        differences between the plan so far and the optimum, over all balance limits.
        """
        out: NDArray[np.int32] = plan.copy()
        if self.values is None:
            return out
        task, error = self.task, np.zeros(len(self.kind))
        used = self._used_choices(self.values)
        for p in np.argsort(-task.cost, kind="stable").tolist():
            slots, g = slice(int(task.start[p]), int(task.start[p + 1])), int(self.group[p])
            sets, target = self._options(p, used[g])
            if len(sets) == 1 and g >= self.singles:
                out[slots] = sets[0]
            elif sets:
                after = [error + self._use_of(p, one, np.ones(len(one))) - target for one in sets]
                best = min(range(len(sets)), key=lambda i: float(after[i] @ after[i]))
                error, out[slots] = after[best], sets[best]
        return out

    def _options(self, partition: int, used: list[tuple[float, int]]) -> tuple[list[Ints], Floats]:
        """Return the sets of brokers between which a partition is divided, and what its division
        uses of each balance limit (float64[n]).
        """
        g, task = int(self.group[partition]), self.task
        if g < self.singles:
            value = self.values_of(g)
            brokers = np.flatnonzero(value > _LEAST_PART)
            target = self._use_of(partition, brokers, value[brokers])
            return self.likely_sets(g, _MOST_SETS), target
        slots = slice(int(task.start[partition]), int(task.start[partition + 1]))
        sets: dict[tuple[int, ...], Ints] = {}
        target = np.zeros(len(self.kind))
        for part, number in used:
            chosen = np.sort(self.history[number][slots]).astype(np.int64)
            target += self._use_of(partition, chosen, np.full(len(chosen), part))
            sets.setdefault(tuple(chosen.tolist()), chosen)
        return list(sets.values()), target

    def _used_choices(self, values: Floats) -> list[list[tuple[float, int]]]:
        """Return the choices in the last optimum of each group, as (part, number in history)."""
        out: list[list[tuple[float, int]]] = [[] for _ in range(self.groups)]
        for value, (group, number) in zip(values[self.first :], self.owned, strict=False):
            if value > _LEAST_PART and group >= self.singles:
                out[group].append((float(value), number))
        return out

    def _use_of(self, partition: int, brokers: NDArray[np.integer], part: Floats) -> Floats:
        """Return what parts of replicas on some brokers use of each balance limit (float64[n])."""
        out = np.zeros(self._width)
        at: Ints = brokers.astype(np.int64)
        row, value = self._entries_of(np.full(len(at), partition, np.int64), at)
        is_entry = row >= 0
        np.add.at(out, row[is_entry], (value * part[:, None])[is_entry])
        return out[: len(self.kind)]

    def likely_sets(self, single: int, most: int) -> list[Ints]:
        """Return the sets of brokers of a single with the largest values in the last optimum.

        Sets outside its rack limits are left out. Each set is int64[factor], ascending.
        """
        value, factor = self.values_of(single), int(self.task.factor[self.single[single]])
        brokers = np.flatnonzero(value > _LEAST_PART)
        brokers = np.sort(brokers[np.argsort(-value[brokers], kind="stable")][: factor + _SPARE])
        sets = [np.array(one, np.int64) for one in combinations(brokers.tolist(), factor)]
        sets = [one for one in sets if self.keeps_rack_rule(single, one)]
        return sorted(sets, key=lambda one: -float(value[one].sum()))[:most]
