"""Disjunctive linear programme of large partitions, over classes of partitions of similar size.

A linear relaxation divides a large partition among many brokers. Here each broker has a
disjunction: for each large partition a case in which it is the largest one on the broker, and one
case without any. Each case has its own copy of the variables and balance limits (convex-hull
formulation). A binary variable chooses the case.

The other partitions form classes of similar size, so the programme is small.
`place_large_partitions` solves it as a mixed-integer programme. `find_split_prices` solves the
relaxation with more classes. Its dual prices prove a bound, which `partage.judge.replica_bounds`
verifies.

Sources: E. Balas, "Disjunctive Programming", Annals of Discrete Mathematics 5 (1979); M. Guignard,
S. Kim, "Lagrangean Decomposition", Mathematical Programming 39 (1987).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import KINDS, LEAVE, STAY, SplitPrices
from partage.solve.replicas.problem import UNBOUNDED, Bools, Floats, Ints, sum_by_broker_and_rack

__all__ = ["PROOF_CLASSES", "LargePlacement", "find_split_prices", "place_large_partitions"]

#: A partition is large above this fraction of a broker's mean bytes; at most so many are.
_LARGE_SIZE, _MOST_LARGE = 0.2, 8
#: Classes of the mixed-integer programme.
_CLASSES = 20
#: Classes of the relaxations that prove a bound; the best one counts. Measured on 30 x 10,000, 40
#: prove 1 to 5 % more than 20. With 1,200 partitions 20 prove more, as prices of classes with few
#: partitions are erratic.
PROOF_CLASSES = (20, 40, 60)
#: Fraction of the classes that have one partition each: the largest partitions.
_ONE_PARTITION_CLASSES = 0.3
#: The gap at which HiGHS may stop, and its limit of nodes.
_MIP_GAP, _MOST_NODES = 0.002, 100
#: Roles of a replica: kept on a rack within the rack rule; kept on a rack with too many replicas of
#: its partition; new on the broker.
_KEPT, _SURPLUS, _NEW = range(3)


class LargePlacement(NamedTuple):
    """Brokers chosen for the largest partitions of a cluster before all others are placed.

    They come from a near-optimal solution of the reassignment, because a large partition limits
    where the others can go. The linear programme may divide a partition among brokers; such a
    partition is left out.

    Attributes:
        brokers: dict from each undivided large partition to its brokers (int64[factor], ascending).
        max_imbalance: dict from a measure of imbalance to the most that the solution may have.
        prices: float64[4, brokers + racks], dual prices of the balance limits.
    """

    brokers: dict[int, Ints]
    max_imbalance: dict[str, int]
    prices: Floats


def place_large_partitions(
    task: ReplicaTask, max_imbalance: Mapping[str, int]
) -> LargePlacement | None:
    """Choose the brokers of the largest partitions by a mixed-integer programme (solver HiGHS).

    The result is None if there are no large partitions, if HiGHS is not installed, or if it finds
    no solution.

    Args:
        task: cluster, brokers to use and balance limits.
        max_imbalance: largest allowed imbalance by measure, such as ``{"replicas": 3}``.
    """
    if not len(_large_partitions(task)):
        return None
    known = {name: 0 if name.endswith(("bytes", "load")) else most
             for name, most in max_imbalance.items()}  # fmt: skip
    for allowed in [known, dict(max_imbalance)] if known != dict(max_imbalance) else [known]:
        programme = _LargePartitionProgramme(task, allowed, _CLASSES)
        if programme.solve(is_integer=False):
            prices = programme.split_prices()
            if not programme.solve(is_integer=True):
                continue
            brokers = programme.brokers_of_large()
            if brokers is not None:
                return LargePlacement(brokers, allowed, programme.prices_of_cases(prices))
    return None


def find_split_prices(
    task: ReplicaTask, max_imbalance: Mapping[str, int], classes: int
) -> SplitPrices | None:
    """Compute dual prices that prove a high lower bound of the bytes that a reassignment must move.

    They come from the linear relaxation of a mixed-integer programme. The result is None if there
    are no large partitions, if HiGHS is not installed, or if it finds no optimum.

    Args:
        task: cluster, brokers to use and balance limits.
        max_imbalance: largest allowed imbalance by measure, such as ``{"replicas": 3}``.
        classes: number of classes of similar size; see `PROOF_CLASSES`.
    """
    if not len(_large_partitions(task)):
        return None
    programme = _LargePartitionProgramme(task, max_imbalance, classes)
    return programme.split_prices() if programme.solve(is_integer=False) else None


def _large_partitions(task: ReplicaTask) -> Ints:
    """Return the largest partitions of the cluster, in descending order of size (int64[n]).

    A partition is large if it has over 20 % of the bytes that a broker has on average. Their
    brokers are chosen first, because they limit where other partitions fit. The result is empty if
    some replicas must stay or some brokers get none: the choice would ignore these rules.
    """
    stays = (task.fate == STAY) & ~task.closed[task.current_partition]
    if stays.any() or not task.receives[task.alive].all():
        return np.zeros(0, np.int64)
    is_open = ~task.closed & (task.factor > 0)
    order = np.argsort(np.where(is_open, -task.cost, 1), kind="stable")[:_MOST_LARGE]
    mean = float(task.cost @ task.factor) / max(int(task.receives.sum()), 1)
    out: Ints = order[is_open[order] & (task.cost[order] > _LARGE_SIZE * mean)]
    return out


class _ConstraintMatrix:
    """Constraints (rows) of a linear programme, which are added block by block.

    A row limits a sum of coefficients times variables (columns) from below and above.
    """

    def __init__(self) -> None:
        self.count = 0
        self.low: list[Floats] = []
        self.high: list[Floats] = []
        self._entries: list[tuple[Ints, Ints, Floats]] = []

    def add_constraints(self, low: Any, high: Any) -> Ints:
        """Add constraints without variables, given their lower and upper limits.

        Return their row numbers, by which `set_coefficients` adds the variables.
        """
        low, high = np.broadcast_arrays(np.atleast_1d(np.asarray(low, float)), high)
        self.low.append(low.ravel())
        self.high.append(high.ravel())
        self.count += low.size
        out: Ints = np.arange(self.count - low.size, self.count).reshape(low.shape)
        return out

    def set_coefficients(self, row: Any, column: Any, value: Any) -> None:
        """Set the coefficients of variables in constraints, from arrays of rows, columns and
        values.

        The arrays are broadcast against each other. Entries with column -1 are left out.
        """
        sides = np.broadcast_arrays(row, column, value)
        is_entry = (sides[1] >= 0) & (sides[2] != 0)
        self._entries.append(tuple(side[is_entry] for side in sides))

    def matrix(self) -> tuple[Ints, Ints, Floats]:
        """Return the coefficients of all constraints as a sparse matrix in compressed rows (CSR).

        The result has the offset of each row, and the columns and values of the coefficients. The
        solver HiGHS takes this form.
        """
        row, column, value = (np.concatenate(side) for side in zip(*self._entries, strict=True))
        order = np.argsort(row, kind="stable")
        start = np.searchsorted(row[order], np.arange(self.count + 1))
        return start, column[order], value[order]


class _LargePartitionProgramme:
    """Mixed-integer programme that chooses the brokers of the largest partitions in a reassignment.

    For each broker it chooses one case: which of the large partitions is the largest on this
    broker. Case q stands for large partition q; the last case means that the broker has no large
    partition. Other partitions of similar size form classes, to keep the programme small. T is the
    number of classes (each large partition is one, too), B of brokers, and Q of cases of a broker.

    Attributes:
        large: int64[Q - 1], the large partitions, the largest first.
        class_of: int64[partitions], the class of each partition, -1 for those that may not move.
        case: int64[B, Q], the variable (column) of each case.
        column: int64[3, B, Q, T], the variables that count the replicas of a class on a broker:
            kept, kept beyond the rack rule, and new ones; -1 for none.
    """

    def __init__(self, task: ReplicaTask, max_imbalance: Mapping[str, int], classes: int) -> None:
        self.task, self.max_imbalance, self.rows = task, max_imbalance, _ConstraintMatrix()
        self.large = _large_partitions(task)
        self.class_of = self._classes_of_partitions(classes)
        self.kinds = [k for k in range(len(KINDS)) if task.weight[k].any()]
        self.scale = np.maximum(task.weight.mean(axis=1), 1e-12)
        self.unit = float(max(task.cost.mean(), 1.0))
        self.rack = task.cluster.rack_of_broker.astype(np.int64)
        self.racks = task.rack_low.shape[1]
        # Without racks each broker counts as one, and no rack rule applies.
        self._has_racks = bool((np.bincount(self.rack, minlength=self.racks) > 1).any())
        self._costs: list[Floats] = []
        self._columns = 0
        self._add_columns()
        self._add_cases()
        self._bands = {k: self._add_balance_limits(k) for k in self.kinds}
        self._rack_bands = {k: self._add_rack_balance_limits(k) for k in self.kinds if k}
        self._add_classes()

    def _classes_of_partitions(self, classes: int) -> Ints:
        # Boundaries are at equal steps of the mean of three quantiles: number, bytes, log of size.
        task = self.task
        is_rest = ~task.closed & (task.factor > 0)
        is_rest[self.large] = False
        rest = np.flatnonzero(is_rest)
        rest = rest[np.argsort(task.cost[rest], kind="stable")]
        out: Ints = np.full(len(task.factor), -1, np.int64)
        out[self.large] = np.arange(len(self.large))
        if len(rest):
            size = np.maximum(task.cost[rest], 1).astype(np.float64)
            log = np.log(size) - np.log(size[0])
            place = np.arange(1, len(rest) + 1) / len(rest) + np.cumsum(size) / size.sum()
            place += log / max(float(log[-1]), 1e-9)
            singles = min(int(_ONE_PARTITION_CLASSES * classes), len(rest))
            of_class = np.minimum(place / 3 * (classes - singles), classes - singles - 1)
            of_class = of_class.astype(np.int64)
            of_class[len(rest) - singles :] = classes + np.arange(singles)
            out[rest] = len(self.large) + np.unique(of_class, return_inverse=True)[1]
        return out

    def _new_columns(self, mask: Bools, cost: Any) -> Ints:
        out: Ints = np.full(mask.shape, -1, np.int64)
        count = int(mask.sum())
        out[mask] = self._columns + np.arange(count)
        self._costs.append(np.broadcast_to(cost, mask.shape)[mask].astype(np.float64))
        self._columns += count
        return out

    def _add_columns(self) -> None:
        task, brokers, cluster = self.task, len(self.task.alive), self.task.cluster
        is_open = self.class_of >= 0
        classes, self.cases = int(self.class_of.max(initial=-1)) + 1, len(self.large) + 1
        self.members = np.bincount(self.class_of[is_open], minlength=classes)
        sums = [np.bincount(self.class_of[is_open], weights=row[is_open], minlength=classes)
                for row in (task.cost, *task.weight)]  # fmt: skip
        self.size = sums[0] / self.members
        self.weight: Floats = np.array(sums[1:]) / self.members
        owner, at = task.current_partition, cluster.replica
        racks = np.zeros((len(task.factor), self.racks), np.int64)
        np.add.at(racks, (owner, self.rack[at]), 1)
        self.on_rack = racks
        most = task.rack_high[task.factor[owner], self.rack[at]]
        self.is_surplus: Bools = (racks[owner, self.rack[at]] > most) & self._has_racks
        held = np.zeros((2, brokers, classes))
        kept = np.flatnonzero(is_open[owner])
        np.add.at(
            held, (self.is_surplus[kept].astype(int), at[kept], self.class_of[owner[kept]]), 1
        )
        receives = np.where(task.receives[:, None], self.members - held.sum(axis=0), 0)
        leaves = kept[task.fate[kept] == LEAVE]
        np.subtract.at(
            held, (self.is_surplus[leaves].astype(int), at[leaves], self.class_of[owner[leaves]]), 1
        )
        self.most: Floats = np.concatenate([held, receives[None]])
        self.case = self._new_columns(np.ones((brokers, self.cases), bool), 0.0)
        allowed = np.arange(classes) >= np.arange(self.cases)[:, None]
        cost = np.where(np.arange(3) == _NEW, 1.0, 0.0)[:, None, None, None] * self.size / self.unit
        self.column = self._new_columns((self.most[:, :, None, :] > 0) & allowed, cost)

    def _add_cases(self) -> None:
        """Add the constraints that choose the largest partition on each broker, among the large
        ones.

        Each large partition gives a case: it is the largest on the broker. In the last case, the
        broker has no large partition. Exactly one case of a broker is chosen, and the variables of
        all other cases must be 0.
        """
        rows, column, case = self.rows, self.column, self.case
        rows.set_coefficients(rows.add_constraints(np.ones(len(case)), 1.0)[:, None], case, 1.0)
        role, b, q, t = np.nonzero(column >= 0)
        is_whole = (t == q) & (q < self.cases - 1)
        role, b, q, t = (side[~is_whole] for side in (role, b, q, t))
        limit = rows.add_constraints(np.full(len(role), -np.inf), 0.0)
        rows.set_coefficients(limit, column[role, b, q, t], 1.0)
        rows.set_coefficients(limit, case[b, q], -self.most[role, b, t])
        for large in range(self.cases - 1):
            whole = rows.add_constraints(np.zeros(len(case)), 0.0)
            rows.set_coefficients(whole, column[:, :, large, large], 1.0)
            rows.set_coefficients(whole, case[:, large], -1.0)

    def _add_balance_limits(self, resource: int) -> Ints:
        """Add the balance limits of one resource on brokers, and return their constraint numbers.

        A broker has limits for each case: for each large partition that may be its largest one. The
        result is int64[2, brokers, cases], upper limits first; -1 where there is no limit.
        ``resource`` is the index of the resource: replicas, bytes or load.
        """
        task, brokers, rows = self.task, len(self.task.alive), self.rows
        out: Ints = np.full((2, *self.case.shape), -1, np.int64)
        is_fixed = self.class_of[task.current_partition] < 0
        fixed = sum_by_broker_and_rack(
            task, task.current_partition[is_fixed], task.cluster.replica[is_fixed]
        )[resource]
        allowed, slacks = self.max_imbalance.get(KINDS[resource], 0) / self.scale[resource], []
        for side, limit in enumerate((task.high[resource, :brokers], task.low[resource, :brokers])):
            at = np.flatnonzero((limit < UNBOUNDED) & ((side == 0) | (limit > 0)))
            if not len(at):
                continue
            low, high = ((-np.inf, 0.0), (0.0, np.inf))[side]
            out[side, at] = rows.add_constraints(np.full((len(at), self.cases), low), high)
            unused = (fixed[:brokers] - limit) / self.scale[resource]
            rows.set_coefficients(out[side, at], self.case[at], unused[at, None])
            rows.set_coefficients(
                out[side, at][..., None],
                self.column[:, at],
                self.weight[resource] / self.scale[resource],
            )
            if allowed:
                slack = self._new_columns(np.ones((len(at), self.cases), bool), 0.0)
                rows.set_coefficients(out[side, at], slack, -1.0 if side == 0 else 1.0)
                slacks.append(slack.ravel())
        if slacks:
            rows.set_coefficients(
                rows.add_constraints(-np.inf, allowed), np.concatenate(slacks), 1.0
            )
        return out

    def _add_rack_balance_limits(self, resource: int) -> Ints:
        """Add the balance limits of one resource on racks, and return their constraint numbers.

        The result is int64[racks]. ``resource`` is the index of the resource: replicas, bytes or
        load.
        """
        task, brokers, rows = self.task, len(self.task.alive), self.rows
        is_fixed = self.class_of[task.current_partition] < 0
        fixed = sum_by_broker_and_rack(
            task, task.current_partition[is_fixed], task.cluster.replica[is_fixed]
        )[resource, brokers:]
        low, high = task.low[resource, brokers:] - fixed, task.high[resource, brokers:] - fixed
        high = np.where(high >= UNBOUNDED // 2, np.inf, high / self.scale[resource])
        out = (
            rows.add_constraints(low / self.scale[resource], high)
            if len(low)
            else np.zeros(0, np.int64)
        )
        allowed, slacks = (
            self.max_imbalance.get(f"rack {KINDS[resource]}", 0) / self.scale[resource],
            [],
        )
        for r, row in enumerate(out.tolist()):
            rows.set_coefficients(
                row, self.column[:, self.rack == r], self.weight[resource] / self.scale[resource]
            )
            if allowed:
                slack = self._new_columns(np.ones(2, bool), 0.0)
                rows.set_coefficients(row, slack, np.array([1.0, -1.0]))
                slacks.append(slack)
        if slacks:
            rows.set_coefficients(
                rows.add_constraints(-np.inf, allowed), np.concatenate(slacks), 1.0
            )
        return out

    def _add_classes(self) -> None:
        """Add the constraints on the number of replicas: replication factors and the rack rule.

        Partitions of similar size form a class. To keep the program small, it has one constraint
        for each class, not for each partition.
        """
        task, rows, classes = self.task, self.rows, len(self.members)
        is_open = np.flatnonzero(self.class_of >= 0)
        class_of = self.class_of[is_open]
        factor = np.bincount(class_of, weights=task.factor[is_open], minlength=classes)
        self._totals = rows.add_constraints(factor, factor)
        rows.set_coefficients(self._totals, self.column, 1.0)
        if not self._has_racks:
            return
        low, high = task.rack_low[task.factor[is_open]], task.rack_high[task.factor[is_open]]
        now = self.on_rack[is_open]

        def total(each: NDArray[Any]) -> Floats:
            out = np.zeros((classes, self.racks))
            np.add.at(out, class_of, each)
            return out

        # Columns of classes, racks and brokers: int64[3, B, Q, T] by the rack of each broker.
        self._on_rack = rows.add_constraints(total(low), total(high))
        self._surplus = rows.add_constraints(
            np.full((classes, self.racks), -np.inf), total(np.where(now > high, high, 0))
        )
        self._arrivals = rows.add_constraints(total(np.maximum(low - now, 0)), np.inf)
        each = self.rack[:, None, None], np.arange(classes)
        rows.set_coefficients(self._on_rack.T[each], self.column, 1.0)
        rows.set_coefficients(self._surplus.T[each], self.column[_SURPLUS], 1.0)
        rows.set_coefficients(self._arrivals.T[each], self.column[_NEW], 1.0)

    def solve(self, *, is_integer: bool) -> bool:
        """Solve the mixed-integer programme, or its linear relaxation, with the solver HiGHS.

        Return whether there is a solution. The relaxation is solved by the interior point method,
        because the simplex methods took twice as long on these programmes.
        """
        try:
            import highspy
        except ImportError:
            return False
        module: Any = highspy
        highs = module.Highs()
        options: dict[str, Any] = {"output_flag": False, "threads": 1, "random_seed": 1,
                   "mip_rel_gap": _MIP_GAP, "mip_max_nodes": _MOST_NODES}  # fmt: skip
        if not is_integer:
            options |= {"solver": "ipx", "run_crossover": "off"}
        for option, value in options.items():
            highs.setOptionValue(option, value)
        highs.passModel(self._build_model(highspy))
        if is_integer:
            kinds = np.full(self.case.size, highspy.HighsVarType.kInteger)
            highs.changeColsIntegrality(self.case.size, self.case.ravel().astype(np.int32), kinds)
        highs.run()
        solution = highs.getSolution()
        self.values = np.array(solution.col_value)
        if is_integer:
            return bool(highs.getInfo().primal_solution_status == 2)
        self.duals = np.array(solution.row_dual) * self.unit
        statuses = highspy.HighsModelStatus
        return bool(highs.getModelStatus() == statuses.kOptimal and np.isfinite(self.duals).all())

    def _build_model(self, highspy: Any) -> Any:
        start, column, value = self.rows.matrix()
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self._columns, self.rows.count
        lp.col_cost_ = np.concatenate(self._costs)
        lp.col_lower_ = np.zeros(self._columns)
        upper = np.full(self._columns, np.inf)
        upper[self.case] = 1.0
        lp.col_upper_ = upper
        lp.row_lower_ = np.concatenate(self.rows.low)
        lp.row_upper_ = np.concatenate(self.rows.high)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = start, column
        lp.a_matrix_.value_ = value
        return lp

    def brokers_of_large(self) -> dict[int, Ints] | None:
        """Return the brokers of each large partition, except those divided among more brokers.

        The solution of a linear programme may put 0.5 replicas of a partition on a broker. The
        result is a dict from partition to brokers (int64[factor]), or None if all partitions are
        divided.
        """
        out = {}
        for number, p in enumerate(self.large.tolist()):
            column = self.column[:, :, :, number]
            share = np.where(column >= 0, self.values[column], 0.0).sum(axis=(0, 2))
            brokers = np.flatnonzero(share > 0.5)
            if len(brokers) == self.task.factor[p] and share[brokers].min() > 0.99:
                out[p] = brokers
        return out or None

    def split_prices(self) -> SplitPrices:
        """Return the dual prices of the linear relaxation, for each replica and each partition.

        A dual price is what a constraint costs per unit; the prices prove a lower bound. The linear
        programme has prices for classes of partitions of similar size. Prices of single partitions
        are interpolated between them.
        """
        task, owner = self.task, self.task.current_partition
        keep: Floats = np.repeat(self.duals[self._totals][:, None], self.racks, axis=1)
        arrive, surplus = keep, np.zeros_like(keep)
        if self._has_racks:
            keep = keep + self.duals[self._on_rack]
            arrive = keep + self.duals[self._arrivals]
            surplus = keep + self.duals[self._surplus]
        rack = self.rack[task.cluster.replica]
        keep, surplus = self._interpolate_prices(keep), self._interpolate_prices(surplus)
        stay = np.where(self.is_surplus, surplus[owner, rack], keep[owner, rack])
        new = self._interpolate_prices(arrive)
        # Closed partitions have split price 0 where they stay, and their bytes where they arrive.
        is_fixed = self.class_of < 0
        stay[is_fixed[owner]] = 0.0
        new[is_fixed] = task.cost[is_fixed, None]
        cases = np.zeros((len(KINDS), *self.case.shape))
        racks = np.zeros((len(KINDS), task.balanced_rack_count))
        for k, row in self._bands.items():
            cases[k] = -np.where(row >= 0, self.duals[row], 0.0).sum(axis=0) / self.scale[k]
        cases[(task.high[:, : len(task.alive), None] >= UNBOUNDED) & (cases > 0)] = 0.0
        for k, row in self._rack_bands.items():
            racks[k] = -self.duals[row] / self.scale[k]
        return SplitPrices(self.large, stay, new, cases, racks)

    def _interpolate_prices(self, price: Floats) -> Floats:
        """Return a dual price for each partition, interpolated by size from the prices of classes.

        A class has partitions of similar size; ``price`` has one price for each class and rack. The
        result is float64[partitions, racks].
        """
        out: Floats = price[np.maximum(self.class_of, 0)]
        count = len(self.large)
        node = self.size[count:]
        small = np.flatnonzero(self.class_of >= count)
        if len(node) > 1:
            size = self.task.cost[small]
            at = np.clip(np.searchsorted(node, size) - 1, 0, len(node) - 2)
            part = (size - node[at]) / np.maximum(node[at + 1] - node[at], 1e-9)
            first, second = price[count:][at], price[count:][at + 1]
            out[small] = first + part[:, None] * (second - first)
        return out

    def prices_of_cases(self, prices: SplitPrices) -> Floats:
        """Return the dual price of each resource on each broker and rack (float64[4, brokers +
        racks]).

        A dual price is a cost per unit of a resource. The programme has several prices for a
        broker, depending on which large partition is the largest there. The price for the
        solution's choice is returned.
        """
        case = self.values[self.case].argmax(axis=1)
        brokers = prices.cases[:, np.arange(len(case)), case]
        out: Floats = np.concatenate([brokers, prices.racks], axis=1)
        return out
