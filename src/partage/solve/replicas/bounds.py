"""Lower bounds of a reassignment's costs: a subgradient method for the Lagrangian dual.

A *figure* is a cost that the judge ranks: the bytes moved, or how far all brokers (or racks)
together are outside their bands of one kind. A *price* is the dual variable of a band: the cost of
one unit on a broker or rack. `partage.judge.replica_bounds` shows why any prices prove a lower
bound. This module searches for prices that prove a high one. `CheapestChoices` solves the inner
problem: the cheapest brokers of each partition at given prices. Where these choices put a broker
above its band its price rises; where they leave it below the band the price falls.

Sources: B. T. Polyak, "Minimization of Unsmooth Functionals", USSR Computational Mathematics and
Mathematical Physics 9 (1969), for the length of steps; P. M. Camerini, L. Fratta, F. Maffioli, "On
Improving Relaxation Methods by Modified Gradient Techniques", Mathematical Programming Study 3
(1975), for their direction.
"""

# ruff: noqa: ANN001, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.kernels import (
    Bytes,
    Float64Rows,
    Float64s,
    Int8s,
    Int32s,
    Int64Rows,
    Int64s,
    kernel,
    kernel_helper,
)
from partage.model import ReplicaTask
from partage.model.replicas import KINDS, LEAVE, RANKS, STAY
from partage.solve.replicas.problem import UNBOUNDED, Bools, Floats

__all__ = [
    "CheapestChoices", "choose_cheapest", "find_dual_prices", "moved_bytes_bound",
    "prices_of_brokers",
]  # fmt: skip

#: The gap, as a part of the figure, at which the search ends.
_CLOSE = 0.002
#: The same from so many pairs of partition and broker on, where a step takes long.
_CLOSE_OF_MANY, _MANY_PAIRS = 0.005, 200_000
#: Rounds without a better bound until steps are halved, and until the search ends.
_PATIENCE, _MOST_IDLE = 8, 32
#: How far a direction turns away from the last one where the two oppose (Camerini et al.).
_DEFLECTION = 1.5
#: Prices begin just below what a move costs: at the cost itself moves and stays would tie.
_BELOW_COST = 0.999
#: Pairs of partition and broker in one block of arrays: what stays in the processor's cache.
_BLOCK = 250_000
#: Pairs that NumPy processes in the time of one interpreted kernel step.
_PAIRS_A_STEP = 30


def find_dual_prices(
    task: ReplicaTask, known_costs: Mapping[str, int], *, name: str, rounds: int
) -> Floats:
    """Search for dual prices that prove a high lower bound of the cost of a replica reassignment.

    A dual price is the cost of using one more unit of a resource of a broker or rack. The
    reassignment's cost is the bytes moved ("moved") or a total imbalance, such as "replicas". The
    result is float64[4, brokers + racks], a row for each resource (capacity, replicas, bytes,
    load).

    Args:
        task: cluster, brokers to use and balance limits.
        known_costs: dict from cost name to the cost of the best known plan, which no bound can
            exceed.
        name: the cost to bound.
        rounds: maximum number of iterations.
    """
    # Prices of brokers prove nothing about copies between the disks of one broker.
    seen = "between brokers" if name == "moved" and "between brokers" in known_costs else name
    dual, reached = _LagrangianBound(task, known_costs, name), float(known_costs[seen])
    first = dual.initial_prices()
    starts = [first, np.zeros_like(first)] if first.any() else [first]
    best, best_prices = -np.inf, first
    close = (_CLOSE_OF_MANY if dual.is_large else _CLOSE) * max(1.0, abs(reached))
    for start in starts:
        value, prices = _maximise_bound(dual, start, reached, close, rounds // len(starts))
        if value > best:
            best, best_prices = value, prices
        if reached - best <= close:
            break
    return best_prices


def moved_bytes_bound(
    task: ReplicaTask, max_imbalance: Mapping[str, int], prices: Floats, total: float
) -> float:
    """Return a lower bound of the bytes that any plan must move, computed from dual prices.

    It is the Lagrangian bound. A dual price is the cost of using one more unit of a broker's or
    rack's resource. The bound holds for every plan with at most ``max_imbalance``.

    Args:
        task: cluster, brokers to use and balance limits.
        max_imbalance: largest allowed imbalance by measure, such as ``{"replicas": 3}``.
        prices: float64[4, brokers + racks], the dual price of one unit of each resource (capacity,
            replicas, bytes, load) on each broker and rack.
        total: the least bytes moved plus dual prices of chosen brokers, summed over partitions.
    """
    brokers = len(task.alive)
    high = np.where(task.high >= UNBOUNDED, 0, task.high)
    value = total - float(np.where(prices > 0, prices * high, prices * task.low).sum())
    for k, kind in enumerate(KINDS):
        for name, part in ((kind, prices[k, :brokers]), (f"rack {kind}", prices[k, brokers:])):
            value -= float(np.abs(part).max(initial=0.0)) * max_imbalance.get(name, 0)
    return value


def prices_of_brokers(task: ReplicaTask, prices: Floats) -> Floats:
    """Add the dual prices of each rack to the prices of its brokers (float64[4, brokers]).

    A dual price is the cost of a unit of a resource. A replica on a broker uses resources of the
    broker and of its rack.

    Args:
        task: the reassignment, which has the rack of each broker.
        prices: float64[4, brokers + racks], the dual price of a unit of each resource (capacity,
            replicas, bytes, load) on each broker and rack.
    """
    brokers = len(task.alive)
    out: Floats = prices[:, :brokers].copy()
    if task.balanced_rack_count:
        out += prices[:, brokers:][:, task.cluster.rack_of_broker]
    return out


def _maximise_bound(
    dual: _LagrangianBound, start: Floats, reached: float, close: float, rounds: int
) -> tuple[float, Floats]:
    """Search for dual prices with a high lower bound; return the bound and these prices.

    The method is subgradient ascent: each step changes the prices in the direction in which the
    bound rises.

    Args:
        dual: the bound as a function of dual prices.
        start: prices at which the search begins.
        reached: cost of the best known plan, which no bound can exceed.
        close: distance from ``reached`` at which the search ends.
        rounds: maximum number of iterations.
    """
    prices, direction = start, np.zeros_like(start)
    best, best_prices = -np.inf, start.copy()
    length, idle = 1.0, 0
    # No figure is below 0: if rounds are few, a search whose bound stays at 0 ends early.
    hurry = _PATIENCE if dual.moves else min(_PATIENCE, max(1, rounds // 12))
    for _ in range(rounds):
        value, held = dual.value(prices)
        if value > best:
            best, best_prices, idle = value, prices.copy(), 0
        else:
            idle += 1
            if idle % (hurry if best <= 0.0 else _PATIENCE) == 0:
                length /= 2
        if idle >= (4 * hurry if best <= 0.0 else _MOST_IDLE):
            break
        if reached - best <= (close if dual.is_large else 1e-7 * max(1.0, abs(reached))):
            break
        gradient = dual.subgradient(prices, held) * dual.scale
        along, square = float((gradient * direction).sum()), float((direction * direction).sum())
        if square:
            direction = gradient - _DEFLECTION * min(along, 0.0) / square * direction
        else:
            direction = gradient
        size = float((direction * direction).sum())
        if size == 0.0:
            break
        step = length * max(reached - value, 1e-3 * abs(reached)) / size
        prices = dual.limit_prices(prices + step * direction * dual.scale)
    return best, best_prices


class _LagrangianBound:
    """A lower bound of a reassignment's cost as a function of dual prices (Lagrangian dual).

    The cost is the bytes moved or the imbalance of one resource. A dual price is the cost of using
    one more unit of a resource on a broker or rack.

    Attributes:
        moves: whether the cost is the bytes moved; otherwise it is the imbalance of one resource.
        scale: float64[4, brokers + racks], converts a step of the search into prices. A mean
            replica has the same weight in each resource, and a rack as much as all its brokers.
        parts: for the brokers and the racks of each resource: the resource, their columns in the
            prices, the name of their measure of imbalance, and its rank in importance.
    """

    def __init__(self, task: ReplicaTask, figures: Mapping[str, int], name: str) -> None:
        self.task, self.figures, self.name = task, figures, name
        self.brokers = len(task.cluster.brokers)
        self.choices = CheapestChoices(task)
        self.is_large = len(task.cost) * self.brokers >= _MANY_PAIRS
        self.moves = name == "moved"
        self.scale = self._scale()
        self.unbounded = task.high >= UNBOUNDED
        self.high = np.where(self.unbounded, 0, task.high).astype(np.float64)
        self.low = task.low.astype(np.float64)
        self.parts = [
            (k, part, figure, RANKS.index(figure))
            for k, kind in enumerate(KINDS)
            for part, figure in (
                (slice(None, self.brokers), kind), (slice(self.brokers, None), f"rack {kind}")
            )
            if figure in figures
        ]  # fmt: skip
        # Only kinds that do not rank after the figure have prices.
        rank = len(RANKS) if self.moves else RANKS.index(name)
        self.has_price = np.zeros(task.low.shape, bool)
        self.most = np.full(task.low.shape, np.inf)
        for k, part, _, other in self.parts:
            self.has_price[k, part] = other <= rank
            if other == rank:
                self.most[k, part] = 1.0

    def _scale(self) -> Floats:
        task = self.task
        mean = np.maximum(task.weight.mean(axis=1), 1e-9)
        kind = KINDS.index(self.name.removeprefix("rack ")) if not self.moves else -1
        worth = float(task.cost.mean()) if self.moves else float(mean[kind])
        scale = (max(worth, 1e-9) ** 0.5 / mean)[:, None]
        sizes = np.ones(task.low.shape[1])
        sizes[self.brokers :] = np.bincount(task.cluster.rack_of_broker)[: task.balanced_rack_count]
        out: Floats = scale / sizes
        return out

    def limit_prices(self, prices: Floats) -> Floats:
        """Limit dual prices to the range in which they prove a lower bound, and return them.

        A dual price is a cost per unit of a resource. A broker or rack without an upper balance
        limit has no price above 0.
        """
        prices[self.unbounded & (prices > 0)] = 0.0
        prices[~self.has_price] = 0.0
        return np.clip(prices, -self.most, self.most)

    def initial_prices(self) -> Floats:
        """Return the dual prices (costs per unit of a resource) at which the search for a bound
        begins.

        Several guesses are tried, and the one that proves the highest lower bound is returned. Each
        guess sets the prices of brokers and racks that are outside their balance limits at present.
        """
        task, cluster = self.task, self.task.cluster
        nothing = np.zeros(task.low.shape)
        if not self.moves:
            return nothing
        owner = task.current_partition
        now = self._with_racks(np.array([
            np.bincount(cluster.replica, weights=row[owner], minlength=self.brokers)
            for row in task.weight
        ]))  # fmt: skip
        over, under = now > task.high, now < task.low
        best, best_value = nothing, self.value(nothing)[0]
        for k in (2, 1):
            worth = np.ones(now.shape[1])
            if k == 1:
                # If n replicas are too many, the n-th cheapest move sets the price.
                costs = np.sort(task.cost[owner][over[k][cluster.replica]])
                many = int(np.maximum(now[k] - task.high[k], 0)[: self.brokers].sum())
                if not len(costs):
                    costs, many = np.sort(task.cost), len(task.cost) // 20
                worth[:] = float(costs[min(many, len(costs) - 1)]) if len(costs) else 0.0
            starts = [best, nothing] if k == 1 and best.any() else [best]
            tries = [
                worth * (above * over[k] - below * under[k])
                for above, below in ((0.0, 1.0), (0.5, 0.5), (1.0, 0.0))
            ]
            if k == 1:
                tries.append(self._cost_of_last_removal(now[k] - task.high[k]))
                tries.append(tries[-1] - 0.5 * worth * under[k])
            for added, start in product(tries, starts):
                tried = start.copy()
                tried[k] += added * _BELOW_COST
                value = self.value(self.limit_prices(tried))[0]
                if value > best_value:
                    best, best_value = tried, value
        return best

    def _cost_of_last_removal(self, excess: Floats) -> Floats:
        """Return the number of bytes that each broker copies for its last necessary move away.

        A broker that has n replicas too many must move n of them. The result is the size of the
        n-th smallest one, for example 5 for n = 2 and replicas of 3, 5 and 9 bytes. It is 0 for
        racks and for other brokers (float64[brokers + racks]). ``excess`` is n for each broker.
        """
        cluster = self.task.cluster
        out = np.zeros(len(excess))
        cost = self.task.cost[self.task.current_partition]
        for b in np.flatnonzero(excess[: self.brokers] > 0).tolist():
            costs = np.sort(cost[cluster.replica == b])
            out[b] = float(costs[min(int(excess[b]), len(costs)) - 1]) if len(costs) else 0.0
        return out

    def value(self, prices: Floats) -> tuple[float, Floats]:
        whole = prices_of_brokers(self.task, prices)
        total, held, _ = self.choices.choose_cheapest_brokers(
            whole, per_byte=1.0 if self.moves else 0.0
        )
        value = total - float(np.where(prices > 0, prices * self.high, prices * self.low).sum())
        for k, part, figure, _ in self.parts:
            if self.figures[figure] and figure != self.name:
                value -= float(np.abs(prices[k, part]).max(initial=0.0)) * self.figures[figure]
        return value, self._with_racks(held)

    def _with_racks(self, held: Floats) -> Floats:
        # float64[4, B] becomes float64[4, B + Z].
        rack = self.task.cluster.rack_of_broker
        sums = [np.bincount(rack, weights=row)[: self.task.balanced_rack_count] for row in held]
        return np.concatenate([held, np.array(sums).reshape(len(held), -1)], axis=1)

    def subgradient(self, prices: Floats, use: Floats) -> Floats:
        """Return how to change the dual prices so that the proven lower bound rises (a
        subgradient).

        The dual price of a broker or rack must rise where it uses more than its upper balance
        limit, and fall where it uses less than its lower limit. The result is the difference
        between use and limit, positive or negative. ``use`` is the amount of each resource on each
        broker and rack; it, the prices and the result are float64[4, brokers + racks].
        """
        over, under = use - self.high, use - self.low
        over[self.unbounded] = 0.0
        at_zero = np.where(over > 0, over, np.where(under < 0, under, 0.0))
        out: Floats = np.where(prices > 0, over, np.where(prices < 0, under, at_zero))
        return out


class ChoiceArrays(NamedTuple):
    """Input of the compiled code that chooses the cheapest brokers of each partition, as arrays.

    P is the number of partitions, R of current replicas, B of brokers. A broker has 4 limited
    resources: capacity, number of replicas, bytes and load. The code is a step of the search for
    lower bounds, where each resource of a broker has a price.

    Attributes:
        start: int64[P + 1], where each partition's new replicas begin (compressed rows, CSR).
        old_start: int64[P + 1], where each partition's current replicas begin in ``old`` (CSR).
        old: int32[R], the broker of each current replica.
        fate: int8[R], `FREE`, `STAY` or `LEAVE` of each current replica.
        weight: int64[4, P], amount of each resource that one replica needs.
        cost: int64[P], bytes that a copy of a replica moves.
        prices: float64[4, B], the dual price of a unit of each resource on each broker.
        rack: int32[B], the rack of each broker.
        rack_low, rack_high: int64[factor, racks], the rack rule.
        rack_demand: int64[factor], how many replicas the rule requires on particular racks.
        receives: uint8[B], 1 for brokers that may get new replicas.
        least: float64[B], the cost of each broker for the current partition (work array).
        best, best_at: the costs and numbers of its cheapest brokers (work arrays, one element
            longer than the largest replication factor).
    """

    start: Int64s
    old_start: Int64s
    old: Int32s
    fate: Int8s
    weight: Int64Rows
    cost: Int64s
    prices: Float64Rows
    rack: Int32s
    rack_low: Int64Rows
    rack_high: Int64Rows
    rack_demand: Int64s
    receives: Bytes
    least: Float64s
    best: Float64s
    best_at: Int64s


class CheapestChoices:
    """Solver that chooses the cheapest brokers of each partition at given resource prices.

    The prices are dual prices: costs per unit of a broker's resources, such as bytes. The sum of
    the cheapest costs gives a lower bound of any plan's cost (Lagrangian dual). Compiled code
    solves it for large clusters, NumPy for small ones.
    """

    def __init__(self, task: ReplicaTask) -> None:
        self.task, cluster = task, task.cluster
        largest, rack_demand = len(task.rack_low), task.rack_low.sum(axis=1)
        self._arrays = ChoiceArrays(
            task.first_replica, cluster.start, cluster.replica, task.fate, task.weight, task.cost,
            np.zeros((len(KINDS), len(task.alive))), cluster.rack_of_broker, task.rack_low,
            task.rack_high,
            rack_demand, task.receives.view(np.uint8), np.zeros(len(task.alive)),
            np.zeros(largest), np.zeros(largest, np.int64),
        )  # fmt: skip
        # Arrays put one replica on a rack; only the kernel puts more there.
        self.is_one_a_rack = not rack_demand[np.unique(task.factor)].any()
        self._pairs = 0

    def choose_cheapest_brokers(
        self, prices: Floats, *, per_byte: float
    ) -> tuple[float, Floats, NDArray[np.int32]]:
        """Choose the cheapest allowed brokers of each partition for given dual prices.

        A dual price is the cost of a unit of a broker's resource. A broker costs the prices of the
        resources that a replica uses on it, plus the bytes to copy.

        Args:
            prices: float64[4, brokers], the dual price of a unit of each resource (capacity,
                replicas, bytes, load) on each broker.
            per_byte: the cost of a byte that is copied.

        Returns:
            The total cost; the use of each resource on each broker (float64[4, brokers]); the
                broker of each replica (int32[replicas]), -1 where too few brokers are allowed.
        """
        task = self.task
        pairs = len(task.cost) * len(task.alive)
        self._pairs += pairs
        if self.is_one_a_rack and not _choose.is_worth_compiling(work=self._pairs // _PAIRS_A_STEP):
            return self._solve_on_arrays(prices, per_byte)
        held = np.zeros((len(KINDS), len(task.alive)))
        chosen = np.full(int(task.first_replica[-1]), -1, np.int32)
        arrays = self._arrays._replace(prices=prices)
        total = _choose(arrays, per_byte, held, chosen, work=10 * pairs)
        return float(total), held, chosen

    def _solve_on_arrays(
        self, prices: Floats, per_byte: float
    ) -> tuple[float, Floats, NDArray[np.int32]]:
        """Choose each partition's cheapest brokers with NumPy, for small clusters.

        For these, compiling code would take longer. Arguments and results are those of
        `choose_cheapest_brokers`: dual prices, and the cost of a copied byte. A rack may hold at
        most one replica of a partition.
        """
        task, brokers = self.task, len(self.task.alive)
        held, total = np.zeros((len(KINDS), brokers)), 0.0
        chosen = np.full(int(task.first_replica[-1]), -1, np.int32)
        rack = task.cluster.rack_of_broker
        is_rack_a_broker = len(np.unique(rack)) == brokers
        size = max(1, _BLOCK // max(brokers, 1))
        for begin in range(0, len(task.factor), size):
            part = slice(begin, min(begin + size, len(task.factor)))
            weight, factor = task.weight[:, part].astype(np.float64), task.factor[part]
            asked, price, forced = self._broker_costs(part, weight, prices, per_byte)
            partitions = np.arange(len(factor))
            for i in range(int(factor.max(initial=0))):
                b = price.argmin(axis=1)
                cost = price[partitions, b]
                taken = (i < factor) & (cost < np.inf)
                chosen[task.first_replica[begin + partitions[taken]] + i] = b[taken]
                stays = np.isneginf(cost)
                total += float(np.where(stays, asked[partitions, b], cost)[taken].sum())
                for k in range(len(KINDS)):
                    held[k] += np.bincount(b[taken], weights=weight[k, taken], minlength=brokers)
                if not is_rack_a_broker:
                    price[(rack == rack[b][:, None]) & ~forced[:, None]] = np.inf
                price[partitions, b] = np.inf
        return total, held, chosen

    def _broker_costs(
        self, partitions: slice, weight: Floats, prices: Floats, per_byte: float
    ) -> tuple[Floats, Floats, Bools]:
        """Return the cost of a replica of each partition in a range, on each broker.

        Args:
            partitions: range of partitions.
            weight: float64[4, partitions], what a replica needs of each resource.
            prices: float64[4, brokers], the dual price of a unit of each resource.
            per_byte: cost of a copied byte.

        Returns:
            The costs without copied bytes and with them (minus infinity for a replica that must
                stay), and a mask of the partitions that have such a replica.
        """
        task, cluster = self.task, self.task.cluster
        old = slice(int(cluster.start[partitions.start]), int(cluster.start[partitions.stop]))
        row, at, fate = (
            task.current_partition[old] - partitions.start,
            cluster.replica[old],
            task.fate[old],
        )
        asked: Floats = weight.T @ prices
        price = asked + per_byte * task.cost[partitions, None]
        price[:, ~task.receives] = np.inf
        price[row, at] = np.where(fate == LEAVE, np.inf, asked[row, at])
        stays = fate == STAY
        price[row[stays], at[stays]] = -np.inf
        forced = np.zeros(partitions.stop - partitions.start, bool)
        forced[row[stays]] = True
        return asked, price, forced


@kernel("float64(ChoiceArrays, float64, float64[:, ::1], int32[::1])", ChoiceArrays)
def _choose(arrays, per_byte, held, chosen):
    # ``held`` gets the amounts that these choices put on brokers, ``chosen`` the brokers by
    # ``start``. The result is the total cost.
    start, old_start, old, weight = arrays.start, arrays.old_start, arrays.old, arrays.weight
    prices, rack, least = arrays.prices, arrays.rack, arrays.least
    best, best_at, total = arrays.best, arrays.best_at, 0.0
    for p in range(len(arrays.cost)):
        factor, n = start[p + 1] - start[p], 0
        forced = _price_brokers(arrays, per_byte, p)
        if arrays.rack_demand[factor] > 0 and not forced:
            n = _choose_by_racks(
                least, rack, arrays.rack_low, arrays.rack_high, best, best_at, factor
            )
        else:
            # Current brokers are mostly the cheapest: seen first, they rule out most others.
            for o in range(old_start[p], old_start[p + 1]):
                if least[old[o]] < 1e290:
                    n = _insert_into_cheapest(
                        best, best_at, rack, forced, factor, n, old[o], least[old[o]]
                    )
                    least[old[o]] = 1e300
            for b in range(len(rack) if factor > 0 else 0):
                if least[b] < 1e290 and (n < factor or least[b] < best[n - 1]):
                    n = _insert_into_cheapest(best, best_at, rack, forced, factor, n, b, least[b])
        for i in range(n):
            b, price = best_at[i], best[i]
            chosen[start[p] + i] = b
            if price < -1e240:  # a replica that must stay: its true price
                price = 0.0
                for k in range(len(weight)):
                    price += prices[k, b] * weight[k, p]
            total += price
            for k in range(len(weight)):
                held[k, b] += weight[k, p]
    return total


@kernel_helper
def _price_brokers(arrays, per_byte, p):
    # The costs are written to ``arrays.least``. The result is whether a replica of p must stay.
    prices, weight, least, fate = arrays.prices, arrays.weight, arrays.least, arrays.fate
    w0, w1, w2, w3 = weight[0, p], weight[1, p], weight[2, p], weight[3, p]
    moving = per_byte * arrays.cost[p]
    for b in range(len(least)):
        asked = prices[0, b] * w0 + prices[1, b] * w1 + prices[2, b] * w2 + prices[3, b] * w3
        least[b] = asked + moving if arrays.receives[b] else 1e290
    forced = False
    for o in range(arrays.old_start[p], arrays.old_start[p + 1]):
        b = arrays.old[o]
        if fate[o] == 2:
            least[b] = 1e290
        else:
            least[b] = prices[0, b] * w0 + prices[1, b] * w1 + prices[2, b] * w2 + prices[3, b] * w3
            if fate[o] == 1:
                least[b] = -1e250
                forced = True
    return forced


@kernel_helper
def _insert_into_cheapest(best, best_at, rack, several, max_length, length, broker, broker_price):
    """Insert a broker into a sorted list of a partition's cheapest brokers; return its new length.

    The list drops its last broker if it is full. Unless ``several``, it has only the cheapest
    broker of each rack.

    Args:
        best: prices of the brokers in the list, ascending.
        best_at: their numbers.
        rack: the rack of each broker.
        several: whether brokers of one rack may both be in the list.
        max_length: maximum length of the list.
        length: its present length.
        broker: the broker to insert.
        broker_price: price of the broker.
    """
    same = -1
    if not several:
        for i in range(length):
            if rack[best_at[i]] == rack[broker]:
                same = i
    if same >= 0:
        if best[same] <= broker_price:
            return length
        for i in range(same, length - 1):
            best[i] = best[i + 1]
            best_at[i] = best_at[i + 1]
        length -= 1
    elif length == max_length:
        length -= 1
    at = length
    while at > 0 and best[at - 1] > broker_price:
        best[at] = best[at - 1]
        best_at[at] = best_at[at - 1]
        at -= 1
    best[at] = broker_price
    best_at[at] = broker
    return length + 1


@kernel_helper
def _choose_by_racks(broker_prices, rack, rack_low, rack_high, best, best_at, replica_count):
    """Choose a partition's cheapest brokers in a cluster that has fewer racks than replicas.

    First each rack gets as many replicas as the rack rule requires, on its cheapest brokers. Then
    the cheapest other brokers follow, up to the upper limits of their racks. The prices and index
    numbers of the chosen brokers are written to ``best`` and ``best_at``; their count is returned.
    """
    n = 0
    for needed in (1, 0):
        more = 1
        while more and n < replica_count:
            more, cheapest, at = 0, 1e290, -1
            for b in range(len(rack)):
                if broker_prices[b] < cheapest:
                    count, r = 0, rack[b]
                    for i in range(n):
                        count += rack[best_at[i]] == r
                    if count < (
                        rack_low[replica_count, r] if needed else rack_high[replica_count, r]
                    ):
                        cheapest, at, more = broker_prices[b], b, 1
            if more:
                best[n] = cheapest
                best_at[n] = at
                broker_prices[at] = 1e300
                n += 1
    return n


def choose_cheapest(
    task: ReplicaTask, choices: CheapestChoices, prices: Floats, plan: NDArray[np.int32]
) -> tuple[float, NDArray[np.int32]]:
    """Choose the cheapest brokers of each partition that the rules allow, at given dual prices.

    Return the total cost, and the broker of each replica (int32[replicas]). Partitions that should
    not move, or that have too few allowed brokers, keep the brokers of ``plan``. ``choices`` solves
    all others.
    """
    total, _, chosen = choices.choose_cheapest_brokers(
        prices_of_brokers(task, prices), per_byte=1.0
    )
    keeps_plan = task.closed.copy()
    keeps_plan[task.partition_of_replica[chosen < 0]] = True
    return total, np.where(keeps_plan[task.partition_of_replica], plan, chosen).astype(np.int32)
