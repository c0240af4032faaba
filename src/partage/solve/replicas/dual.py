"""Replicas on brokers: the Lagrangian dual by the boxstep method, for clusters beyond a MIP.

Prices of bands are the dual variables (`partage.judge.replica_bounds` has the argument). Each
round looks for the best prices in a box around the best so far: a linear programme over the
choices that earlier prices led to (Dantzig-Wolfe columns), which HiGHS solves. Columns belong to
one large partition or to a group of small ones, so that the programme stays small. Its optimum
blends choices within the bands: rounding that blend is the plan to repair.

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
from partage.solve.replicas.bounds import bound_of
from partage.solve.replicas.cheapest_choices import Choices

__all__ = ["DualPlan", "solve_dual"]

#: Columns of their own have the largest partitions; the others share these groups. Measured with
#: Pareto(1.2) sizes: 500 hold more than half of all bytes.
_SINGLES, _GROUPS = 500, 60
#: Rounds at most; the gap between programme and dual at which prices are good enough, and rounds
#: at such a gap in which the box may still grow.
_ROUNDS, _CLOSE, _GROWING = 60, 1e-3, 6
#: Half the width of the first box, in mean replicas, and of the smallest; how it grows and shrinks.
_BOX, _LEAST_BOX, _GROWS, _SHRINKS = 0.05, 0.003, 1.5, 0.7
#: A column that keeps the programme feasible costs this much a mean replica in the end.
_ELASTIC = 1e4
_UNBOUNDED = np.iinfo(np.int64).max // 4

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DualPlan:
    """The best prices that were found, and a plan near their optimum.

    Attributes:
        prices: float64[4, B + Z], which the judge verifies.
        replica: int32[S], by ``task.start``, the rounded blend; some bands are missed.
        choice: int32[S], the cheapest choice at these prices.
    """

    prices: _Floats
    replica: NDArray[np.int32]
    choice: NDArray[np.int32]


def solve_dual(
    task: ReplicaTask,
    figures: Mapping[str, int],
    start: _Floats,
    plan: NDArray[np.int32],
) -> DualPlan | None:
    """Return good prices and a rounded plan; None where HiGHS is not installed.

    Args:
        task: the reassignment.
        figures: how far outside its bands a plan may be in each.
        start: float64[4, B + Z], prices to begin with.
        plan: int32[S], a plan with these figures, so that the first programme is feasible.
    """
    try:
        import highspy
    except ImportError:
        return None
    master = _Master(highspy, task, figures)
    choices = Choices(task)

    def cheapest(prices: _Floats) -> tuple[float, NDArray[np.int32]]:
        whole = prices[:, : len(task.alive)].copy()
        if task.zones:
            whole += prices[:, len(task.alive) :][:, task.cluster.rack]
        total, _, chosen = choices.cheapest(whole, per_byte=1.0)
        # Closed partitions keep to the plan: the choice does not know how few may move. So do
        # those for which the rack rule leaves too few brokers.
        fixed = task.closed.copy()
        fixed[task.owner[chosen < 0]] = True
        return total, np.where(fixed[task.owner], plan, chosen).astype(np.int32)

    total, chosen = cheapest(start)
    best, prices, choice = bound_of(task, figures, start, total), start, chosen
    master.add(plan)
    master.add(chosen)
    center, box = master.scaled(start), _BOX
    growing = 0
    for _ in range(_ROUNDS):
        found = master.solve(center, box)
        if found is None:
            break
        scaled, optimum, elastic = found
        tried = master.prices(scaled)
        total, chosen = cheapest(tried)
        value = bound_of(task, figures, tried, total)
        missing = optimum - best
        master.add(chosen)
        if value > best:
            if value - best > 0.5 * missing:
                box *= _GROWS
            best, center, prices, choice = value, scaled, tried, chosen
        else:
            box = max(box * _SHRINKS, _LEAST_BOX)
        if optimum - best <= _CLOSE * abs(optimum):
            # With the box in the way, the programme says nothing of prices outside it.
            growing += 1
            if elastic <= 1e-6 or growing > _GROWING:
                break
            box = max(2 * box, _BOX)
    if master.values is None:
        return None
    return DualPlan(prices, master.rounded(plan), choice)


class _Master:
    """The restricted master programme: rows are bands, then one convexity row a group.

    Prices are scaled: what a mean replica costs at a band, in mean moves.
    """

    def __init__(self, highspy: Any, task: ReplicaTask, figures: Mapping[str, int]) -> None:
        self.task, brokers = task, len(task.alive)
        partitions = len(task.factor)
        order = np.argsort(-task.cost, kind="stable")
        single = min(_SINGLES, partitions)
        rest = partitions - single
        self.group: _Ints = np.empty(partitions, np.int64)
        self.group[order[:single]] = np.arange(single)
        self.group[order[single:]] = single + np.arange(rest) % max(min(_GROUPS, rest), 1)
        self.groups = int(self.group.max(initial=-1)) + 1
        self.unit = float(max(task.cost.mean(), 1.0))
        self.kinds = [k for k in range(len(KINDS)) if task.weight[k].any()]
        pairs = [(k, at) for k in self.kinds for at in range(task.low.shape[1] if k else brokers)]
        self.kind, self.at = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
        self.row: _Ints = np.full(task.low.shape, -1, np.int64)
        self.row[self.kind, self.at] = np.arange(len(pairs))
        self.mean = np.maximum(task.weight.mean(axis=1), 1e-12)
        self.scale: _Floats = self.mean[self.kind]
        self.owned: list[tuple[int, int]] = []
        self.history: list[NDArray[np.int32]] = []
        self.seen: set[tuple[int, bytes]] = set()
        self.values: _Floats | None = None
        self.highs = highspy.Highs()
        # Columns come and costs change: the last basis stays primal feasible (strategy 4).
        options = {"output_flag": False, "threads": 1, "random_seed": 1, "simplex_strategy": 4}
        for option, value in options.items():
            self.highs.setOptionValue(option, value)
        self.first = 2 * len(pairs)
        self._rows(figures)

    def _rows(self, figures: Mapping[str, int]) -> None:
        """Add the rows, the elastic columns of bands, and the slack that the plan needs."""
        highs, task, bands = self.highs, self.task, len(self.kind)
        none = np.zeros(0, np.int32), np.zeros(0)
        high = task.high[self.kind, self.at]
        upper = np.where(high >= _UNBOUNDED, np.inf, high / self.scale)
        lower = task.low[self.kind, self.at] / self.scale
        highs.addRows(bands, lower, upper, 0, np.zeros(bands, np.int32), *none)
        one = np.ones(self.groups)
        highs.addRows(self.groups, one, one, 0, np.zeros(self.groups, np.int32), *none)
        self._columns(
            np.full(2 * bands, _ELASTIC), np.arange(2 * bands),
            np.repeat(np.arange(bands), 2), np.tile([-1.0, 1.0], bands),
        )  # fmt: skip
        brokers = len(task.alive)
        for k in self.kinds:
            for name, part in ((KINDS[k], slice(None, brokers)),
                               (f"rack {KINDS[k]}", slice(brokers, None))):  # fmt: skip
                allowed = figures.get(name, 0)
                rows = self.row[k, part]
                rows = rows[rows >= 0]
                if not allowed or not len(rows):
                    continue
                budget = highs.getNumRow()
                highs.addRow(-np.inf, allowed / self.mean[k], 0, *none)
                both = np.stack([np.repeat(rows, 2), np.full(2 * len(rows), budget)], axis=1)
                sign = np.stack([np.tile([-1.0, 1.0], len(rows)), np.ones(2 * len(rows))], axis=1)
                count = 2 * len(rows)
                self._columns(np.zeros(count), 2 * np.arange(count), both.ravel(), sign.ravel())
                self.first += count

    def _columns(self, cost: _Floats, begin: _Ints, row: _Ints, value: _Floats) -> None:
        count = len(cost)
        self.highs.addCols(
            count, cost, np.zeros(count), np.full(count, np.inf), len(row),
            begin.astype(np.int32), row.astype(np.int32), value.astype(np.float64),
        )  # fmt: skip

    def add(self, chosen: NDArray[np.int32]) -> None:
        """Add one column a group for a choice of all partitions; known columns are left out."""
        task, owner, bands = self.task, self.task.owner, len(self.kind)
        brokers = len(task.alive)
        group = self.group[owner]
        moves = np.where(self._is_new(chosen), task.cost[owner], 0) / self.unit
        cost = np.bincount(group, weights=moves, minlength=self.groups)
        keys, values = [], []
        for k in self.kinds:
            weight = task.weight[k][owner] / self.mean[k]
            keys.append(group * bands + self.row[k, chosen])
            values.append(weight)
            if task.zones and k:
                keys.append(group * bands + self.row[k, brokers + task.cluster.rack[chosen]])
                values.append(weight)
        key, at = np.unique(np.concatenate(keys), return_inverse=True)
        value = np.bincount(at, weights=np.concatenate(values))
        begin = np.searchsorted(key // bands, np.arange(self.groups + 1))
        starts, rows, held, costs, size = [], [], [], [], 0
        for g in range(self.groups):
            part = slice(int(begin[g]), int(begin[g + 1]))
            mine, much = key[part] % bands, value[part]
            known = (g, mine.tobytes() + much.tobytes() + cost[g].tobytes())
            if known in self.seen:
                continue
            self.seen.add(known)
            self.owned.append((g, len(self.history)))
            starts.append(size)
            size += len(mine) + 1
            rows += [mine, np.array([bands + g])]
            held += [much, np.ones(1)]
            costs.append(cost[g])
        self.history.append(chosen)
        if starts:
            self._columns(
                np.array(costs), np.array(starts), np.concatenate(rows), np.concatenate(held)
            )

    def _is_new(self, chosen: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return bool[S]: the partition has no replica on this broker now."""
        task, cluster = self.task, self.task.cluster
        out = np.ones(len(chosen), bool)
        for place in range(int(cluster.factor.max(initial=0))):
            there = (place < cluster.factor)[task.owner]
            at = np.where(there, cluster.start[:-1][task.owner] + place, 0)
            out &= ~(there & (cluster.replica[at] == chosen))
        return out

    def solve(self, center: _Floats, box: float) -> tuple[_Floats, float, float] | None:
        """Return the best scaled prices in the box, the optimum in bytes, and elastic use."""
        bands = len(self.kind)
        cost = np.empty(2 * bands)
        cost[0::2], cost[1::2] = center + box, box - center
        self.highs.changeColsCost(2 * bands, np.arange(2 * bands, dtype=np.int32), cost)
        self.highs.run()
        solution = self.highs.getSolution()
        dual, values = np.array(solution.row_dual), np.array(solution.col_value)
        if len(dual) < bands or not np.isfinite(dual).all() or not len(values):
            return None
        self.values = values
        optimum = float(self.highs.getInfo().objective_function_value) * self.unit
        return -dual[:bands], optimum, float(values[: 2 * bands].sum())

    def prices(self, scaled: _Floats) -> _Floats:
        """Return float64[4, B + Z] of scaled prices."""
        out = np.zeros(self.task.low.shape)
        out[self.kind, self.at] = scaled * self.unit / self.scale
        out[(self.task.high >= _UNBOUNDED) & (out > 0)] = 0.0
        return out

    def scaled(self, prices: _Floats) -> _Floats:
        """Return scaled prices of float64[4, B + Z]."""
        out: _Floats = prices[self.kind, self.at] * self.scale / self.unit
        return out

    def rounded(self, plan: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the blend of choices with one choice a partition.

        Within a group the largest partitions choose first, each the column that is furthest
        behind its part of the bytes.
        """
        task = self.task
        if self.values is None:
            return plan
        options: list[list[tuple[float, int]]] = [[] for _ in range(self.groups)]
        for value, (group, round_) in zip(self.values[self.first :], self.owned, strict=False):
            if value > 1e-7:
                options[group].append((float(value), round_))
        take = np.zeros(len(task.factor), np.int64)
        behind = [np.zeros(len(mine)) for mine in options]
        parts = [np.array([part for part, _ in mine]) for mine in options]
        for p in np.argsort(-task.cost, kind="stable").tolist():
            g = int(self.group[p])
            if len(options[g]) > 1:
                behind[g] += parts[g] * task.cost[p]
                best = int(behind[g].argmax())
                behind[g][best] -= task.cost[p]
                take[p] = options[g][best][1]
            elif options[g]:
                take[p] = options[g][0][1]
        rounds = np.stack(self.history)
        out: NDArray[np.int32] = rounds[take[task.owner], np.arange(len(task.owner))]
        return out
