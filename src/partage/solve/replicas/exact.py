"""The integer programme of a small reassignment, solved by HiGHS.

It has one binary variable for each partition and each broker that may hold it. The rack rule and
the bands are rows. Bands that the given plan misses get slack, in total no more than that plan
needs. The judge verifies the prices of the linear relaxation; it cannot verify HiGHS's branching.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import KINDS, LEAVE, STAY
from partage.solve.replicas.problem import UNBOUNDED, Bools, Floats, Ints

__all__ = [
    "MOST_BINARIES", "ExactPlan", "MoveProgramme", "RackLimits", "is_installed", "relaxed_prices",
    "solve_exactly",
]  # fmt: skip

#: Binaries of the largest programme. Measured on random clusters, HiGHS takes 5 s at 900 and 13 s
#: at this number.
MOST_BINARIES = 4_000
#: Limit of branch-and-bound nodes times binaries: some seconds at any size.
_NODES = 9_000_000


class RackLimits(NamedTuple):
    """Limits on racks and on moves for each partition, which the integer programme must respect.

    The rack rule limits how many replicas of a partition a rack may hold. Limits that no plan can
    meet are relaxed as little as necessary.

    Attributes:
        newcomers: int64[partitions], the most replicas that may go to brokers without a current
            replica of the partition; used for partitions that should move as little as possible.
        low, high: int64[partitions, racks], the fewest and the most replicas of a partition on a
            rack.
    """

    newcomers: Ints
    low: Ints
    high: Ints


class ExactPlan(NamedTuple):
    """The best plan that the solver HiGHS found for a reassignment, and its lower bound.

    The plan is optimal if it moves as many bytes as the bound.

    Attributes:
        replica: int32[replicas], the broker of each replica, in no order within a partition.
        bound: HiGHS's own lower bound of the bytes moved.
        iterations: simplex iterations, a measure of HiGHS's effort that needs no clock.
    """

    replica: NDArray[np.int32]
    bound: float
    iterations: int


def is_installed() -> bool:
    """Return whether the integer programming solver HiGHS is installed.

    It is part of the Python package highspy, an optional dependency (extra ``plan``).
    """
    return find_spec("highspy") is not None


def solve_exactly(
    task: ReplicaTask,
    max_imbalance: Mapping[str, int],
    plan: NDArray[np.int32],
    limits: RackLimits,
    margin: float = 0.0,
    *,
    capacity_only: bool = False,
    nodes: int = _NODES,
    gap: float = 1e-9,
) -> ExactPlan | None:
    """Find the reassignment plan that moves the fewest bytes, with the integer programming solver
    HiGHS.

    Return the plan and HiGHS's lower bound of the bytes moved. The search ends when both are equal,
    or at a limit of nodes.

    Args:
        task: cluster, brokers to use and balance limits.
        max_imbalance: largest allowed imbalance by measure, such as ``{"replicas": 3}``.
        plan: int32[replicas], the broker of each replica in a plan to begin with.
        limits: the rack rule, relaxed as far as necessary.
        margin: how much balance limits are narrowed against rounding, in units of a mean replica.
        capacity_only: accept any plan that keeps to capacities, whatever else it breaks.
        nodes: limit of branch-and-bound nodes times binaries.
        gap: the relative gap at which HiGHS may stop.

    Returns:
        None if HiGHS is not installed, the task is too large, or no plan was found within the
            nodes.
    """
    try:
        import highspy
    except ImportError:
        return None
    programme = MoveProgramme(task, max_imbalance, limits, margin, capacity_only=capacity_only)
    binaries = len(programme.partition)
    if not 0 < binaries <= MOST_BINARIES:
        return None
    highs = _highs(
        highspy, mip_rel_gap=gap, mip_abs_gap=1e-9, mip_feasibility_tolerance=1e-9,
        mip_max_nodes=max(nodes // binaries, 1),
    )  # fmt: skip
    highs.passModel(programme.build_highs_model(highspy))
    first = highspy.HighsSolution()
    first.col_value = programme.plan_to_variables(plan)
    highs.setSolution(first)
    highs.run()
    info = highs.getInfo()
    values = np.array(highs.getSolution().col_value)
    if not len(values) or info.primal_solution_status != 2:
        return None
    bound = float(info.mip_dual_bound) * programme.unit
    return ExactPlan(programme.variables_to_plan(values), bound, int(info.simplex_iteration_count))


def relaxed_prices(
    task: ReplicaTask, max_imbalance: Mapping[str, int], limits: RackLimits
) -> Floats | None:
    """Return the dual prices of the balance limits in the linear relaxation of a reassignment.

    The relaxation may divide replicas among brokers. A dual price is the cost that one more unit of
    a limit would save. The prices prove a lower bound of the bytes moved, at least the relaxation's
    optimum. The result is float64[4, brokers + racks], or None if HiGHS is not installed or the
    reassignment is too large.

    Args:
        task: cluster, brokers to use and balance limits.
        max_imbalance: largest allowed imbalance by measure, such as ``{"replicas": 3}``.
        limits: the rack rule, relaxed as far as necessary.
    """
    try:
        import highspy
    except ImportError:
        return None
    programme = MoveProgramme(task, max_imbalance, limits)
    if not 0 < len(programme.partition) <= MOST_BINARIES:
        return None
    highs = _highs(highspy)
    model = programme.build_highs_model(highspy)
    model.integrality_ = []
    highs.passModel(model)
    highs.run()
    dual = np.array(highs.getSolution().row_dual)
    if len(dual) != len(programme.rows) or not np.isfinite(dual).all():
        return None
    out = np.zeros(task.low.shape)
    for row, k, place, scale in programme.bands:
        out[k, place] -= dual[row] * programme.unit / scale
    out[(task.high >= UNBOUNDED) & (out > 0)] = 0.0
    return out


def _highs(highspy: Any, **options: float) -> Any:
    # Silent, with one thread, so that equal inputs give equal plans.
    highs = highspy.Highs()
    fixed = {"output_flag": False, "threads": 1, "random_seed": 1}
    for option, value in {**fixed, **options}.items():
        highs.setOptionValue(option, value)
    return highs


class _Constraint(NamedTuple):
    """One constraint of the integer programme: ``low <= sum(coefficients * variables) <= high``.

    ``columns`` are the index numbers of the variables, parallel to ``coefficients``.
    """

    low: float
    high: float
    columns: Ints
    coefficients: Floats


class _BalanceConstraint(NamedTuple):
    """Constraint that keeps one resource of a broker or rack within its balance limits.

    ``row`` is the constraint's number and ``kind`` the resource (capacity, replicas, bytes or
    load). ``place`` is the broker or rack. One unit of the constraint is ``scale`` units of the
    resource.
    """

    row: int
    kind: int
    place: int
    scale: float


class MoveProgramme:
    """Integer programme that assigns replicas to brokers so that the fewest bytes move.

    It has one binary variable for each partition and broker: 1 if the broker gets a replica of the
    partition. Pairs that a rule forbids have no variable.

    Attributes:
        partition, broker: int64[n], the partition and the broker of each variable.
        fate: int8[n], for a current replica FREE if it may move or STAY if it must stay; -1 for
            none.
        unit: bytes of one unit of the objective.
        rows: all constraints.
        bands: those that are balance limits, with their broker or rack and resource.
    """

    def __init__(
        self, task: ReplicaTask, figures: Mapping[str, int], limits: RackLimits,
        margin: float = 0.0, *, capacity_only: bool = False, allowed: Bools | None = None,
    ) -> None:  # fmt: skip
        self.task, self._limits, self._margin = task, limits, margin
        cluster, brokers = task.cluster, len(task.cluster.brokers)
        fate = np.full((cluster.partitions, brokers), -1, np.int8)
        fate[task.current_partition, cluster.replica] = task.fate
        # A closed partition keeps what it can; only what leaves or breaks the rule is replaced.
        may = ((fate == -1) & task.receives) | ((fate >= 0) & (fate != LEAVE))
        may[task.factor == 0] = False
        if allowed is not None:
            may &= allowed
        self.partition, self.broker = np.nonzero(may)
        self.fate = fate[self.partition, self.broker]
        self.unit = float(max(task.cost.mean(), 1.0))
        self.rows: list[_Constraint] = []
        self.bands: list[_BalanceConstraint] = []
        self._slacks = 0
        for p in np.flatnonzero(task.factor):
            self._add_partition(int(p), with_racks=not capacity_only)
        for k, kind in enumerate(KINDS[:1] if capacity_only else KINDS):
            self._add_balance_limits(k, range(brokers), self.broker, figures[kind])
            if task.balanced_rack_count and k:
                racks = range(brokers, brokers + task.balanced_rack_count)
                at = brokers + task.cluster.rack_of_broker[self.broker]
                self._add_balance_limits(k, racks, at, figures[f"rack {kind}"])

    def _add_row(
        self, low: float, high: float, columns: Ints, coefficients: Floats | None = None
    ) -> None:
        ones = np.ones(len(columns)) if coefficients is None else coefficients
        self.rows.append(_Constraint(low, high, columns, ones))

    def _add_partition(self, p: int, *, with_racks: bool) -> None:
        # Constraints on the number of the partition's replicas: in total, on each rack, and moved.
        task, columns = self.task, np.flatnonzero(self.partition == p)
        self._add_row(float(task.factor[p]), float(task.factor[p]), columns)
        rack = task.cluster.rack_of_broker[self.broker[columns]]
        for r in range(task.rack_low.shape[1] if with_racks else 0):
            low, high = self._limits.low[p, r], self._limits.high[p, r]
            if low > 0 or high < (rack == r).sum():
                self._add_row(float(low), float(high), columns[rack == r])
        if task.closed[p]:
            new = columns[self.fate[columns] == -1]
            self._add_row(0.0, float(self._limits.newcomers[p]), new)

    def _add_balance_limits(
        self, resource: int, places: range, place_of_variable: NDArray[Any], allowed: int
    ) -> None:
        """Add constraints that keep a resource within its balance limits on each broker or rack.

        If the known plan misses limits, slack variables allow the same total imbalance.

        Args:
            resource: index of the resource: capacity, replicas, bytes or load.
            places: numbers of the brokers or racks.
            place_of_variable: broker or rack of each binary variable.
            allowed: total imbalance of the resource that a plan may have.
        """
        weight = self.task.weight[resource]
        if not weight.any():
            return
        scale = float(weight.mean()) or 1.0
        first = len(self.partition) + self._slacks
        for place in places:
            columns = np.flatnonzero((place_of_variable == place) & (weight[self.partition] > 0))
            value = weight[self.partition[columns]] / scale
            low, high = self._band(resource, place, scale)
            rows = len(self.rows)
            if allowed:
                slack = np.array([len(self.partition) + self._slacks])
                self._slacks += 1
                both = np.concatenate([columns, slack])
                self._add_row(low, np.inf, both, np.append(value, 1.0))
                self._add_row(-np.inf, high, both, np.append(value, -1.0))
            elif len(columns) or low > 0:
                self._add_row(low, high, columns, value)
            self.bands += [
                _BalanceConstraint(row, resource, place, scale)
                for row in range(rows, len(self.rows))
            ]
        if allowed:
            slacks = np.arange(first, len(self.partition) + self._slacks)
            self._add_row(-np.inf, float(allowed) / scale + 1e-9, slacks)

    def _band(self, k: int, place: int, scale: float) -> tuple[float, float]:
        # In the constraint's own units, narrowed against rounding.
        task = self.task
        # Numbers of replicas are whole: a margin would empty a band of two numbers.
        margin = self._margin if KINDS[k] != "replicas" else 0.0
        low = float(task.low[k, place]) / scale + margin
        high = float(task.high[k, place]) / scale - margin
        if task.high[k, place] >= UNBOUNDED:
            high = np.inf
        if low > high:
            low = high = (low + high) / 2
        return low, high

    def build_highs_model(self, highspy: Any) -> Any:
        """Return the integer programme in the form of the solver HiGHS (`highspy.HighsLp`).

        ``highspy`` is the solver's Python module, which is imported only when it is needed.
        """
        binaries = len(self.partition)
        columns = binaries + self._slacks
        moves = np.where(self.fate == -1, self.task.cost[self.partition] / self.unit, 0.0)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = columns, len(self.rows)
        lp.col_cost_ = np.concatenate([moves, np.zeros(self._slacks)])
        lp.col_lower_ = np.concatenate([(self.fate == STAY).astype(float), np.zeros(self._slacks)])
        lp.col_upper_ = np.concatenate([np.ones(binaries), np.full(self._slacks, np.inf)])
        lp.row_lower_ = np.array([row.low for row in self.rows])
        lp.row_upper_ = np.array([row.high for row in self.rows])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(row.columns) for row in self.rows)])
        lp.a_matrix_.index_ = np.concatenate([row.columns for row in self.rows])
        lp.a_matrix_.value_ = np.concatenate([row.coefficients for row in self.rows])
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger] * binaries + [kinds.kContinuous] * self._slacks
        return lp

    def plan_to_variables(self, plan: NDArray[np.int32]) -> Floats:
        """Return the value of each variable of the integer programme for a known plan.

        HiGHS starts from these values. ``plan`` is the broker of each replica (int32[replicas]).
        Slack variables are 0, because HiGHS computes them.
        """
        brokers = len(self.task.cluster.brokers)
        pairs = self.partition * brokers + self.broker
        chosen = np.isin(pairs, self.task.partition_of_replica * brokers + plan)
        return np.concatenate([chosen.astype(float), np.zeros(self._slacks)])

    def variables_to_plan(self, values: Floats) -> NDArray[np.int32]:
        """Convert a solution of the integer programme to a plan: the broker of each replica.

        The result is int32[replicas]. ``values`` has the value of each variable.
        """
        out: NDArray[np.int32] = self.broker[values[: len(self.partition)] > 0.5].astype(np.int32)
        return out
