"""Lower bounds of the figures of reassignments, by Lagrangian duality.

A *figure* is a measured value of a plan: bytes moved, or how far brokers, racks or disks are
outside their bands (balanced ranges). A *price* is the dual variable of a band. A plan may claim
any prices: one for each unit of each kind (replicas, bytes, load) on a broker, rack or disk; a
negative price is a reward. The bound follows in four steps.

1. A plan pays for its moves and these prices. It pays at least the sum over partitions of the
   cheapest choice of brokers and disks that the rules allow.
2. Brokers and racks within their bands receive at most the price times the upper end of the band
   (the lower end, if the price is negative). A disk's band depends on the load of its broker. So
   the price of a disk is a price of all disks of the broker, and only rounding to integers is
   subtracted.
3. The moves alone therefore cost at least the first sum minus the second.
4. If the plan is outside its bands by some amount, the highest price times that amount is
   subtracted too.

For a figure of balance the same holds with free moves, with prices from -1 to 1 for its own kind,
and with prices of kinds that rank before it. Kinds that rank after it have no price, since another
plan may have any amount of them. Any prices make a true bound; good prices make a high one.

This bound is weak if a partition is as large as a broker's band, because the relaxation divides it
among brokers. `split_cost_bound` therefore splits the problem in two (Lagrangian decomposition).

1. Partition subproblem: the cheapest brokers that the rules allow, at the split prices.
2. Broker subproblem: the bytes copied to the broker minus the split prices, within its balance
   limits. Its minimum is taken over cases: case q holds the large partition q and none before it,
   and the last case holds none. In each case dual prices of the limits bound the minimum.

A plan is feasible in both subproblems, so it moves at least the sum of their minima. Here, too, the
highest price times the imbalance that a plan may have is subtracted. Any prices up to
`_LARGEST_PRICE` make a true bound.

Sources: M. L. Fisher, "The Lagrangian Relaxation Method for Solving Integer Programming Problems",
Management Science 27 (1981); M. Guignard, S. Kim, "Lagrangean Decomposition: A Model Yielding
Stronger Lagrangean Bounds", Mathematical Programming 39 (1987).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.errors import CertificateError
from partage.judge.rack_breaches import RackMinima
from partage.model import NewReplicas, ReplicaTask
from partage.model.replicas import KINDS, LEAVE, RANKS, STAY, Disks, SplitPrices

__all__ = ["MOVES", "leader_imbalance_bound", "plan_cost_bound", "split_cost_bound"]

#: Figures of what is copied; all others come before them.
MOVES = ("between brokers", "moved")

#: Pairs of partition and broker in one block of arrays: what stays in the processor's cache.
_CELLS = 250_000
_UNBOUNDED = np.iinfo(np.int64).max // 4
#: The error of a sum for each unit summed: a few roundings of every product. The sums themselves
#: are exact (`math.fsum`).
_ROUNDING = 16 * float(np.finfo(np.float64).eps)
#: The same for split prices: it covers NumPy's pairwise summation.
_SPLIT_ROUNDING = 64 * float(np.finfo(np.float64).eps)
#: Largest absolute split price. Sums of products of such prices and byte counts do not overflow.
_LARGEST_PRICE = 1e30

Floats = NDArray[np.float64]


def plan_cost_bound(
    task: ReplicaTask,
    plan: NewReplicas,
    name: str,
    plan_costs: Mapping[str, int],
    fewest_violations: RackMinima | None,
) -> float:
    """Return a lower bound of one cost of a replica reassignment, proven by dual prices.

    The cost is the number of bytes to copy, or an imbalance. Every valid plan that is as good in
    all more important costs has at least this cost. A dual price is a cost per unit of a resource,
    from linear programming.

    Args:
        task: cluster, brokers to use and balance limits.
        plan: the plan, with the dual prices that it claims.
        name: the cost, such as "moved" (bytes copied) or "bytes" (imbalance of bytes); leaders have
            `leader_imbalance_bound`.
        plan_costs: dict from cost name to the plan's cost.
        fewest_violations: the fewest violations of the rack rule, if the plan has no more; None for
            a bound that ignores the rule.

    Raises:
        CertificateError: the prices prove nothing, because of their shape, sign, size or kind.
    """
    brokers = len(task.alive)
    prices = plan.prices.get(name, np.zeros(task.low.shape))
    if prices.shape != task.low.shape or not np.isfinite(prices).all():
        raise CertificateError(f"prices must be {task.low.shape} finite numbers")
    unbounded = task.high >= _UNBOUNDED
    if (prices[unbounded] > 0).any():
        raise CertificateError("a price where there is no upper limit")
    high = np.where(unbounded, 0, task.high)
    terms = np.where(prices > 0, prices * high, prices * task.low)
    total = -math.fsum(terms.ravel().tolist())
    size = float(np.abs(terms).sum())
    for k, kind in enumerate(KINDS):
        total -= imbalance_allowance(name, kind, prices[k, :brokers], plan_costs)
        total -= imbalance_allowance(name, f"rack {kind}", prices[k, brokers:], plan_costs)
    asked: Floats | None = None
    if name in plan.disk_prices and task.disks is not None:
        if name == "between brokers":
            raise CertificateError("between brokers: disks ask no prices of what they do not see")
        claimed = plan.disk_prices[name]
        asked, given_back = _disk_unit_prices(task, task.disks, name, claimed, plan_costs)
        total -= given_back
    whole = prices[:, :brokers].copy()
    if task.balanced_rack_count:
        whole += prices[:, brokers:][:, task.cluster.rack_of_broker]
    choices = CheapestReplicas(task, whole, asked, fewest_violations, moves_cost=name in MOVES)
    size += abs(total) + choices.magnitude()
    return total + choices.cheapest() - _ROUNDING * size


def imbalance_allowance(
    cost: str, imbalance: str, prices: Floats, plan_costs: Mapping[str, int]
) -> float:
    """Return the amount by which a lower bound is reduced, because the compared plans may be
    imbalanced.

    The bound is that of one cost of a reassignment, and holds for plans with at most the given
    plan's imbalance. The amount is this imbalance times the highest dual price.

    Raises:
        CertificateError: this imbalance must not have a price in the bound of this cost.
    """
    dearest = float(np.abs(prices).max(initial=0.0))
    if not dearest:
        return 0.0
    if imbalance not in plan_costs:
        raise CertificateError(f"a price of {imbalance}, which is no figure of this task")
    rank = len(RANKS) if cost in MOVES else RANKS.index(cost)
    other = RANKS.index(imbalance)
    if other > rank:
        raise CertificateError(
            f"{cost}: a price of {imbalance}, of which another plan may have any amount"
        )
    if other == rank:
        if dearest > 1.0:
            raise CertificateError("a price is beyond what a unit outside the band costs")
        return 0.0
    return dearest * plan_costs[imbalance]


def _disk_unit_prices(
    task: ReplicaTask, disks: Disks, name: str, claimed: Floats, plan_costs: Mapping[str, int]
) -> tuple[Floats, float]:
    """Return the dual prices (costs per unit) of each disk's resources, and a rounding allowance.

    The prices are float64[4, disks] (capacity, replicas, bytes, load); the allowance is subtracted
    from the lower bound. ``claimed`` (float64[2, 4, disks]) are the plan's prices of upper and
    lower limits.

    Raises:
        CertificateError: the claimed prices are malformed.
    """
    shape = (2, len(KINDS), len(disks.part))
    if claimed.shape != shape or not np.isfinite(claimed).all() or (claimed < 0).any():
        raise CertificateError(f"prices of disks must be {shape} finite numbers from 0")
    if claimed[:, 0].any():
        raise CertificateError("room has no price on a disk")
    asked = claimed[0] - claimed[1]
    given_back = 0.0
    steady = ~task.receives
    steady[task.cluster.replica[task.fate != STAY]] = False
    fixed = steady[disks.broker_of_disk]
    for k, kind in enumerate(KINDS[1:], 1):
        given_back += imbalance_allowance(name, f"disk {kind}", claimed[:, k], plan_costs)
        above, below = claimed[0, k], claimed[1, k]
        # Where no replica comes or goes the band is known, and nothing is lost by rounding.
        held = np.zeros(len(task.alive), np.int64)
        np.add.at(held, task.cluster.replica, task.weight[k][task.current_partition])
        low, high = disks.balance_limits(k, held)
        given_back += float((above * high - below * low)[fixed].sum())
        given_back += float((above + below)[~fixed].sum())
        tolerance = float(disks.tolerance[k])
        slope = disks.part * (
            below * (1 - min(tolerance, 1.0)) - above * (1 + tolerance)
        )  # a byte on any disk of the broker moves all their bands
        sums = np.bincount(
            disks.broker_of_disk[~fixed], weights=slope[~fixed], minlength=len(steady)
        )
        asked[k] += np.where(fixed, 0.0, sums[disks.broker_of_disk])
    return asked, given_back


class CheapestReplicas:
    """Search for the cheapest valid brokers and disks of each partition at given dual prices.

    A dual price is a cost per unit of a broker's or disk's resources, from linear programming. The
    sum of the cheapest costs helps to bound the cost of any replica placement from below.
    """

    def __init__(
        self, task: ReplicaTask, prices: Floats, asked: Floats | None, least: RackMinima | None,
        *, moves_cost: bool,
    ) -> None:  # fmt: skip
        self.task, self.prices, self.asked = task, prices, asked
        self.least, self.moves_cost = least, moves_cost

    def cheapest(self) -> float:
        """Return the total cost of all partitions' replicas, each on its cheapest valid broker.

        The cost includes the dual prices (costs per unit of the brokers' resources).
        """
        task = self.task
        size = max(1, _CELLS // max(len(task.alive), 1))
        parts: list[float] = []
        for begin in range(0, len(task.factor), size):
            part = np.arange(begin, min(begin + size, len(task.factor)))
            price, old, forced = self._broker_costs(part)
            factors = task.factor[part]
            for factor in np.unique(factors[factors > 0]).tolist():
                rows = factors == factor
                parts += self._costs_of_cheapest_brokers(
                    part[rows], price[rows], old[rows], forced[rows], factor
                )
        return math.fsum(parts)

    def magnitude(self) -> float:
        """Return a number to which the rounding error of the total cost is proportional.

        It is an upper bound of the sum of the absolute values that are added up to the total cost
        of the cheapest brokers.
        """
        task = self.task
        dearest = np.abs(self.prices).max(axis=1, initial=0.0)
        if self.asked is not None:
            dearest = dearest + np.abs(self.asked).max(axis=1, initial=0.0)
        each = task.weight.T.astype(np.float64) @ dearest + task.cost * self.moves_cost
        return float((each * task.factor).sum())

    def _broker_costs(
        self, partitions: NDArray[np.int64]
    ) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the cost of a replica of each given partition on each broker; infinite if
        forbidden.

        Also return two masks: where a current replica may stay, and where it must stay. All three
        arrays have the shape [partitions, brokers].
        """
        task, cluster = self.task, self.task.cluster
        weight = task.weight[:, partitions].T.astype(np.float64)
        asked = weight @ self.prices
        begin, end = int(cluster.start[partitions[0]]), int(cluster.start[partitions[-1] + 1])
        row = task.current_partition[begin:end] - partitions[0]
        at, fate = cluster.replica[begin:end], task.fate[begin:end]
        cost = task.cost[partitions].astype(np.float64) * self.moves_cost
        kept = asked[row, at]
        if self.asked is not None and task.disks is not None:
            disks = task.disks
            each = weight @ self.asked
            some = np.flatnonzero(np.diff(disks.start))
            asked[:, some] += np.minimum.reduceat(each, disks.start[some], axis=1)
            was = disks.old[begin:end]
            here = np.where(was >= 0, each[row, np.maximum(was, 0)], 0.0)
            elsewhere = asked[row, at] - kept + cost[row]
            kept += np.where(disks.free[begin:end], np.minimum(here, elsewhere), here)
        out = np.where(task.receives, asked + cost[:, None], np.inf)
        out[row, at] = np.where(fate == LEAVE, np.inf, kept)
        old, forced = np.zeros(out.shape, bool), np.zeros(out.shape, bool)
        old[row, at] = fate != LEAVE
        forced[row, at] = fate == STAY
        return out, old, forced

    def _costs_of_cheapest_brokers(
        self, partitions: NDArray[np.int64], broker_costs: Floats, old: NDArray[np.bool_],
        required: NDArray[np.bool_], factor: int,
    ) -> list[float]:  # fmt: skip
        """Return the total cost of the cheapest valid brokers for the replicas of each partition.

        ``broker_costs`` (float64[n, brokers]) is infinite for brokers that are not allowed. ``old``
        and ``required`` mark the brokers where a current replica may, and must, stay.
        """
        out = self._by_racks(broker_costs, factor)
        # Where something must stay, or the rule cannot be kept, the rule is left out of the bound.
        loose = required.any(axis=1) | ~np.isfinite(out)
        if self.least is None:
            loose[:] = True
        else:
            loose |= self.least.breach[partitions] > 0
        out[loose] = _total_of_cheapest(
            broker_costs[loose], required[loose], factor - required[loose].sum(axis=1)
        )
        if self.least is not None:
            closed = self.task.closed[partitions]
            new = self.least.newcomers[partitions][closed]
            cost, must, current = broker_costs[closed], required[closed], old[closed]
            kept = _total_of_cheapest(
                np.where(current, cost, np.inf), must, factor - new - must.sum(axis=1)
            )
            added = _total_of_cheapest(np.where(current, np.inf, cost), None, new)
            out[closed] = np.maximum(out[closed], kept + added)
        if not np.isfinite(out).all():
            raise CertificateError("a partition has fewer brokers than it is to have replicas")
        return list(out.tolist())

    def _by_racks(self, price: Floats, factor: int) -> Floats:
        task = self.task
        low, high = task.rack_low[factor], task.rack_high[factor]
        if not low.any() and high.max(initial=0) <= 1:
            one_a_rack: Floats = _smallest(self._cheapest_by_rack(price), factor).sum(axis=1)
            return one_a_rack
        sure = np.zeros(len(price))
        extra = []
        for r in np.flatnonzero(high):
            cheapest = _smallest(price[:, task.cluster.rack_of_broker == r], int(high[r]))
            sure += cheapest[:, : low[r]].sum(axis=1)
            extra.append(cheapest[:, low[r] : high[r]])
        more = factor - int(low.sum())
        rest = _smallest(np.concatenate(extra, axis=1), more) if extra else price[:, :0]
        out: Floats = sure + rest.sum(axis=1)
        return out

    def _cheapest_by_rack(self, broker_costs: Floats) -> Floats:
        """Return the cost of the cheapest broker of each rack, for each partition.

        The result is float64[n, racks]. ``broker_costs`` has the cost of each broker (float64[n,
        brokers]). Racks without brokers are left out.
        """
        order, first = self._by_rack
        if len(first) == broker_costs.shape[1]:
            return broker_costs
        out: Floats = np.minimum.reduceat(broker_costs[:, order], first, axis=1)
        return out

    @cached_property
    def _by_rack(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        # Brokers in order of their racks, and the index at which each rack begins.
        order = np.argsort(self.task.cluster.rack_of_broker, kind="stable")
        return order, np.flatnonzero(np.diff(self.task.cluster.rack_of_broker[order], prepend=-1))


def _total_of_cheapest(
    broker_costs: Floats, required: NDArray[np.bool_] | None, count: NDArray[np.int64]
) -> Floats:
    """Return for each partition the total cost of its required and its cheapest other brokers.

    ``broker_costs`` and ``required`` have the shape [n, brokers]; ``count`` is the number of other
    brokers that each partition needs. The result is float64[n].
    """
    kept = np.zeros(len(broker_costs))
    if required is not None:
        kept = np.where(required, broker_costs, 0.0).sum(axis=1)
        broker_costs = np.where(required, np.inf, broker_costs)
    others = _smallest(broker_costs, int(count.max(initial=0)))
    out: Floats = kept + np.where(np.arange(others.shape[1]) < count[:, None], others, 0.0).sum(
        axis=1
    )
    return out


def _smallest(price: Floats, many: int) -> Floats:
    if 0 < many < price.shape[1]:
        price = np.partition(price, many - 1, axis=1)
    out: Floats = np.sort(price[:, : max(many, 0)], axis=1)
    return out


def leader_imbalance_bound(
    task: ReplicaTask, prices: Floats, name: str, plan_costs: Mapping[str, int]
) -> float:
    """Return a lower bound of the imbalance of partition leaders, proven by dual prices.

    The imbalance is how far the leader counts of brokers or racks are outside their balance limits.
    A dual price is a cost per leader, from linear programming.

    Args:
        task: cluster, brokers to use and balance limits.
        prices: float64[brokers + racks], the dual prices of leaders.
        name: the bounded cost: "leaders" or "rack leaders".
        plan_costs: dict from cost name to the plan's cost.
    """
    cluster, brokers = task.cluster, len(task.alive)
    if prices.shape != task.lead_low.shape or not np.isfinite(prices).all():
        raise CertificateError(f"prices of leaders must be {task.lead_low.shape} finite numbers")
    total = -imbalance_allowance(name, "leaders", prices[:brokers], plan_costs)
    total -= imbalance_allowance(name, "rack leaders", prices[brokers:], plan_costs)
    whole = prices[:brokers].copy()
    if task.balanced_rack_count:
        whole += prices[brokers:][cluster.rack_of_broker]
    stays = np.ones(cluster.partitions, bool)
    stays[task.current_partition[task.fate != STAY]] = False
    stays &= (cluster.replication_factors == task.factor) & task.counted & (task.factor > 0)
    cheapest = np.full(cluster.partitions, np.inf)
    np.minimum.at(cheapest, task.current_partition, whole[cluster.replica])
    first = np.minimum(cluster.start[:-1], max(len(cluster.replica) - 1, 0))
    at_first = whole[cluster.replica[first]] if len(cluster.replica) else cheapest
    fixed = np.where(task.lead_free, cheapest, at_first)
    anyone = float(whole.min(initial=0.0))
    there = task.counted & (task.factor > 0)
    total += float(np.where(stays, fixed, anyone)[there].sum())
    return total - float(
        np.where(prices > 0, prices * task.lead_high, prices * task.lead_low).sum()
    )


def split_cost_bound(
    task: ReplicaTask,
    prices: SplitPrices,
    plan_costs: Mapping[str, int],
    fewest_violations: RackMinima | None,
) -> float:
    """Return a lower bound of the bytes that a replica reassignment must copy between brokers.

    Dual prices prove it. They split the costs between partitions and brokers, so that each side is
    minimised alone (Lagrangian decomposition). No plan costs less than the sum of both minima. The
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
    _check_split_prices(task, prices)
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
    bound = math.fsum(parts) - _SPLIT_ROUNDING * (size + float(np.abs(parts).sum()))
    # It is infinite if no plan keeps what must stay. Zero is always a bound.
    return bound if math.isfinite(bound) else 0.0


def _check_split_prices(task: ReplicaTask, prices: SplitPrices) -> None:
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
        row, at = task.current_partition[replicas] - partitions[0], cluster.replica[replicas]
        arrive = self.split.arrive[partitions][:, cluster.rack_of_broker]
        out = np.where(task.receives, arrive, np.inf)
        leaves = task.fate[replicas] == LEAVE
        out[row, at] = np.where(leaves, np.inf, self.split.stay[replicas])
        return out, old, forced


def _bound_broker_cost(task: ReplicaTask, prices: SplitPrices, broker: int) -> tuple[float, float]:
    """Return one broker's part of a lower bound of the bytes that a reassignment copies.

    It is the minimum over cases. Case q means that large partition q is on the broker, but none
    that is listed before it; in the last case none is. The second result is a sum of absolute
    values, to which the rounding error is proportional.
    """
    cluster, rack = task.cluster, int(task.cluster.rack_of_broker[broker])
    cost = np.full(len(task.factor), np.inf)
    if task.receives[broker]:
        cost = task.cost - prices.arrive[:, rack]
    here = np.flatnonzero(cluster.replica == broker)
    owner, fate = task.current_partition[here], task.fate[here]
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
