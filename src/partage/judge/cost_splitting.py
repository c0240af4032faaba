"""A lower bound of the bytes moved by Lagrangian decomposition (cost splitting).

The dual prices of `replica_bounds` prove a weak bound if a partition is as large as a broker's
band, because their relaxation divides it among brokers. Here the problem is split into two.

1. Partition subproblem: the cheapest brokers that the rules allow, at the split prices.
2. Broker subproblem: the bytes copied to the broker minus the split prices, within its balance
   limits. Its minimum is taken over cases: case q holds the large partition q and none before it,
   and the last case holds none. In each case dual prices of the limits bound the minimum.

A plan is feasible in both subproblems, so it moves at least the sum of their minima. As in
`replica_bounds`, the highest price times the imbalance that a plan may have is subtracted. Any
prices up to `_LARGEST_PRICE` make a true bound.

Source: M. Guignard, S. Kim, "Lagrangean Decomposition: A Model Yielding Stronger Lagrangean
Bounds", Mathematical Programming 39 (1987).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from partage.errors import CertificateError
from partage.judge.rack_breaches import RackMinima
from partage.judge.replica_bounds import CheapestReplicas, imbalance_allowance
from partage.model import ReplicaTask
from partage.model.replicas import KINDS, LEAVE, STAY, SplitPrices

__all__ = ["split_cost_bound"]

_UNBOUNDED = np.iinfo(np.int64).max // 4
#: The error of a sum for each unit summed, which covers NumPy's pairwise summation.
_ROUNDING = 64 * float(np.finfo(np.float64).eps)
#: Largest absolute price. Sums of products of such prices and byte counts do not overflow.
_LARGEST_PRICE = 1e30

Floats = NDArray[np.float64]


def split_cost_bound(
    task: ReplicaTask,
    prices: SplitPrices,
    plan_costs: Mapping[str, int],
    fewest_violations: RackMinima | None,
) -> float:
    """Return a lower bound of the bytes that a replica reassignment must copy between brokers.

    Dual prices prove it. They split the costs between partitions and brokers, so that each side is
    minimised alone (Lagrangian decomposition); no plan costs less than the sum of both minima. The
    bound holds for all plans that are as good in every more important cost.

    Args:
        task: cluster, brokers to use and balance limits.
        prices: the claimed prices.
        plan_costs: dict from cost name to the plan's cost.
        fewest_violations: the fewest violations of the rack rule, if the plan has no more; None for
            a bound that ignores the rule.

    Raises:
        CertificateError: the prices prove nothing, because of their shape, sign or size.
    """
    _check_prices(task, prices)
    brokers = len(task.alive)
    limit = np.concatenate([prices.cases.max(axis=2, initial=0.0), prices.racks], axis=1)
    if (limit[task.high >= _UNBOUNDED] > 0).any():
        raise CertificateError("a price where there is no upper limit")
    parts, size = [_PartitionSubproblem(task, prices, fewest_violations).cheapest()], 0.0
    size += float(np.abs(prices.arrive).max(axis=1, initial=0.0) @ task.factor)
    size += float(np.abs(prices.stay).sum())
    for broker in range(brokers):
        cost, magnitude = _bound_broker_cost(task, prices, broker)
        parts.append(cost)
        size += magnitude
    high = np.where(task.high[:, brokers:] >= _UNBOUNDED, 0, task.high[:, brokers:])
    paid = np.where(prices.racks > 0, prices.racks * high, prices.racks * task.low[:, brokers:])
    parts.append(-float(paid.sum()))
    size += float(np.abs(paid).sum())
    for k, kind in enumerate(KINDS):
        parts.append(-imbalance_allowance("moved", kind, prices.cases[k], plan_costs))
        parts.append(-imbalance_allowance("moved", f"rack {kind}", prices.racks[k], plan_costs))
    bound = math.fsum(parts) - _ROUNDING * (size + float(np.abs(parts).sum()))
    # It is infinite if no plan keeps what must stay. Zero is always a bound.
    return bound if math.isfinite(bound) else 0.0


def _check_prices(task: ReplicaTask, prices: SplitPrices) -> None:
    if prices.large.ndim != 1:
        raise CertificateError("split prices: large must have one dimension")
    brokers, cases = len(task.alive), len(prices.large) + 1
    shapes = {
        "stay": (len(task.cluster.replica),), "arrive": (len(task.factor), task.rack_low.shape[1]),
        "cases": (len(KINDS), brokers, cases), "racks": (len(KINDS), task.balanced_rack_count),
    }  # fmt: skip
    for name, shape in shapes.items():
        claimed = getattr(prices, name)
        # NaN fails the comparison.
        if claimed.shape != shape or not (np.abs(claimed) <= _LARGEST_PRICE).all():
            raise CertificateError(
                f"split prices: {name} must be {shape} numbers of at most {_LARGEST_PRICE:g}"
            )
    large = prices.large
    if large.dtype.kind != "i" or len(np.unique(large)) < len(large) or not (
        (large >= 0) & (large < len(task.factor))
    ).all():  # fmt: skip
        raise CertificateError("split prices: large partitions must be different ones of this task")


class _PartitionSubproblem(CheapestReplicas):
    """Partitions' part of a lower bound: each partition's cheapest brokers at given prices.

    The other part of the bound is that of the brokers. Dual prices split each cost between both
    (see `split_cost_bound`).
    """

    def __init__(self, task: ReplicaTask, prices: SplitPrices, least: RackMinima | None) -> None:
        super().__init__(
            task, np.zeros((len(KINDS), len(task.alive))), None, least, moves_cost=True
        )
        self.split = prices

    def _broker_costs(
        self, partitions: NDArray[np.int64]
    ) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        task, cluster = self.task, self.task.cluster
        _, old, forced = super()._broker_costs(partitions)
        replicas = slice(int(cluster.start[partitions[0]]), int(cluster.start[partitions[-1] + 1]))
        row, at = task.old_owner[replicas] - partitions[0], cluster.replica[replicas]
        arrive = self.split.arrive[partitions][:, cluster.rack_of_broker]
        out = np.where(task.receives, arrive, np.inf)
        leaves = task.fate[replicas] == LEAVE
        out[row, at] = np.where(leaves, np.inf, self.split.stay[replicas])
        return out, old, forced


def _bound_broker_cost(task: ReplicaTask, prices: SplitPrices, broker: int) -> tuple[float, float]:
    """Return one broker's part of a lower bound of the bytes copied, and a sum of absolute values.

    The minimum is taken over cases: which of the large partitions, if any, is the first one on the
    broker. The rounding error is proportional to the sum of absolute values.
    """
    cluster, rack = task.cluster, int(task.cluster.rack_of_broker[broker])
    cost = np.full(len(task.factor), np.inf)
    if task.receives[broker]:
        cost = task.cost - prices.arrive[:, rack]
    here = np.flatnonzero(cluster.replica == broker)
    owner, fate = task.old_owner[here], task.fate[here]
    cost[owner] = np.where(fate == LEAVE, np.inf, -prices.stay[here])
    cost[task.factor == 0] = np.inf
    stays = owner[fate == STAY]
    high = np.where(task.high[:, broker] >= _UNBOUNDED, 0, task.high[:, broker])
    least, size = np.inf, 0.0
    for case in range(len(prices.large) + 1):
        price = prices.cases[:, broker, case]
        whole = price + (prices.racks[:, rack] if task.balanced_rack_count else 0.0)
        each = cost + whole @ task.weight
        chosen = np.minimum(each, 0.0)
        chosen[prices.large[:case]] = 0.0
        chosen[stays] = each[stays]
        required = prices.large[case : case + 1]
        chosen[required] = each[required]
        if np.isin(prices.large[:case], stays).any():
            continue
        limits = np.where(price > 0, price * high, price * task.low[:, broker])
        least = min(least, float(chosen.sum() - limits.sum()))
        absolute = np.abs(cost[np.isfinite(cost)]).sum() + np.abs(whole) @ task.weight.sum(axis=1)
        size = max(size, float(absolute + np.abs(limits).sum()))
    return least, size
