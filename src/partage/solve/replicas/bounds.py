"""A price a broker and a kind, from which follows what no plan can do better.

The argument is `partage.judge.replicas`'s; here prices are looked for that make the bound
high, by going uphill: where the cheapest choice of all partitions overfills a broker its price
rises, where it leaves a broker below its band the price falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import KINDS, RANKS
from partage.solve.replicas.cheapest_choices import Choices

__all__ = ["bound_of", "climb"]

#: A bound so close is not looked for further; rounds without a better one until steps shrink, and
#: until it is given up.
_CLOSE, _PATIENCE, _LOST = 0.002, 8, 32
#: With so many pairs of partition and broker, so close is close enough.
_MANY, _NEAR = 200_000, 0.005


def climb(
    task: ReplicaTask, figures: Mapping[str, int], *, name: str, rounds: int
) -> NDArray[np.float64]:
    """float64[4, B + Z]: prices that prove much of a figure.

    Args:
        task: what is asked.
        figures: what the plan reaches: how far it is outside its bands in each, and the bound
            of ``name`` cannot exceed it.
        name: of the figure whose bound is looked for.
        rounds: evaluations, at most; each looks at every partition and broker.
    """
    # What goes from disk to disk has no price of brokers.
    seen = "between brokers" if name == "moved" and "between brokers" in figures else name
    search, reached = _Search(task, figures, name), float(figures[seen])
    begun = search.beginning()
    starts = [begun, np.zeros_like(begun)] if begun.any() else [begun]
    best, best_prices = -np.inf, begun
    close = (_NEAR if search.is_large else _CLOSE) * max(1.0, abs(reached))
    for start in starts:
        value, prices = _uphill(search, start, reached, close, rounds // len(starts))
        if value > best:
            best, best_prices = value, prices
        if reached - best <= close:
            break
    return best_prices


def bound_of(
    task: ReplicaTask, figures: Mapping[str, int], prices: NDArray[np.float64], total: float
) -> float:
    """Return the bound of bytes moved that prices prove, given the sum of the cheapest choices."""
    brokers = len(task.alive)
    high = np.where(task.high >= np.iinfo(np.int64).max // 4, 0, task.high)
    value = total - float(np.where(prices > 0, prices * high, prices * task.low).sum())
    for k, kind in enumerate(KINDS):
        for name, part in ((kind, prices[k, :brokers]), (f"rack {kind}", prices[k, brokers:])):
            value -= float(np.abs(part).max(initial=0.0)) * figures.get(name, 0)
    return value


def _uphill(
    search: _Search, start: NDArray[np.float64], reached: float, close: float, rounds: int
) -> tuple[float, NDArray[np.float64]]:
    """Polyak's steps: as long as what is missing says, shorter when they lead nowhere.

    Where the way uphill turns back, it is bent towards the last one (Camerini, Fratta and Maffioli,
    1975): brokers that are over and under in turn are not paid to and fro.
    """
    prices, way = start, np.zeros_like(start)
    best, best_prices = -np.inf, start.copy()
    boldness, since = 1.0, 0
    # No figure is below 0: where rounds are few, they are not spent on a bound that stays there.
    hurry = _PATIENCE if search.moves else min(_PATIENCE, max(1, rounds // 12))
    for _ in range(rounds):
        value, x = search.value(prices)
        if value > best:
            best, best_prices, since = value, prices.copy(), 0
        else:
            since += 1
            if since % (hurry if best <= 0.0 else _PATIENCE) == 0:
                boldness /= 2
        if since >= (4 * hurry if best <= 0.0 else _LOST):
            break
        if reached - best <= (close if search.is_large else 1e-7 * max(1.0, abs(reached))):
            break
        uphill = search.uphill(prices, x) * search.scale
        turn, length = float((uphill * way).sum()), float((way * way).sum())
        way = uphill - 1.5 * min(turn, 0.0) / length * way if length else uphill
        size = float((way * way).sum())
        if size == 0.0:
            break
        step = boldness * max(reached - value, 1e-3 * abs(reached)) / size
        prices = search.kept(prices + step * way * search.scale)
    return best, best_prices


class _Search:
    def __init__(self, task: ReplicaTask, figures: Mapping[str, int], name: str) -> None:
        self.task, self.figures, self.name = task, figures, name
        cluster = task.cluster
        self.brokers = len(cluster.brokers)
        self.choices = Choices(task)
        self.is_large = len(task.cost) * self.brokers >= _MANY
        # A unit of each kind is worth about as much as another: one mean replica.
        mean = np.maximum(task.weight.mean(axis=1), 1e-9)
        self.moves = name == "moved"
        own = KINDS.index(name.removeprefix("rack ")) if not self.moves else -1
        worth = float(task.cost.mean()) if self.moves else float(mean[own])
        scale = (max(worth, 1e-9) ** 0.5 / mean)[:, None]
        # What a rack holds is as many times as much as it has brokers: a step counts as often.
        sizes = np.ones(task.low.shape[1])
        sizes[self.brokers :] = np.bincount(cluster.rack)[: task.zones]
        self.scale: NDArray[np.float64] = scale / sizes
        self.unbounded = task.high >= np.iinfo(np.int64).max // 4
        self.high = np.where(self.unbounded, 0, task.high).astype(np.float64)
        self.low = task.low.astype(np.float64)
        # Who may ask a price: kinds of brokers and racks that are not after the figure.
        mine = len(RANKS) if self.moves else RANKS.index(name)
        self.parts = [
            (k, part, figure, RANKS.index(figure))
            for k, kind in enumerate(KINDS)
            for part, figure in (
                (slice(None, self.brokers), kind), (slice(self.brokers, None), f"rack {kind}")
            )
            if figure in figures
        ]  # fmt: skip
        self.asks = np.zeros(task.low.shape, bool)
        self.most = np.full(task.low.shape, np.inf)
        for k, part, _, rank in self.parts:
            self.asks[k, part] = rank <= mine
            if rank == mine:
                self.most[k, part] = 1.0

    def kept(self, prices: NDArray[np.float64]) -> NDArray[np.float64]:
        """Prices that are allowed: none above zero where there is no upper limit, and so on."""
        prices[self.unbounded & (prices > 0)] = 0.0
        prices[~self.asks] = 0.0
        return np.clip(prices, -self.most, self.most)

    def beginning(self) -> NDArray[np.float64]:
        """Prices to begin with: the best of some that are right where one kind alone is tight."""
        task, cluster = self.task, self.task.cluster
        nothing = np.zeros(task.low.shape)
        if not self.moves:
            return nothing
        owner = task.old_owner
        was = self._with_racks(np.array([
            np.bincount(cluster.replica, weights=row[owner], minlength=self.brokers)
            for row in task.weight
        ]))  # fmt: skip
        over, under = was > task.high, was < task.low
        best, best_value = nothing, self.value(nothing)[0]
        for k in (2, 1):
            worth = np.ones(was.shape[1])
            if k == 1:
                # Of as many of the cheapest replicas as are too many: what the dearest costs.
                costs = np.sort(task.cost[owner][over[k][cluster.replica]])
                many = int(np.maximum(was[k] - task.high[k], 0)[: self.brokers].sum())
                if not len(costs):
                    costs, many = np.sort(task.cost), len(task.cost) // 20
                worth[:] = float(costs[min(many, len(costs) - 1)]) if len(costs) else 0.0
            starts = [best, nothing] if k == 1 and best.any() else [best]
            tries = [
                worth * (above * over[k] - below * under[k])
                for above, below in ((0.0, 1.0), (0.5, 0.5), (1.0, 0.0))
            ]
            if k == 1:
                tries.append(self._leaving(was[k] - task.high[k]))
                tries.append(tries[-1] - 0.5 * worth * under[k])
            for one, start in product(tries, starts):
                tried = start.copy()
                tried[k] += one * 0.999
                value = self.value(self.kept(tried))[0]
                if value > best_value:
                    best, best_value = tried, value
        return best

    def _leaving(self, excess: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64[B + Z]: what the dearest costs of the cheapest replicas that each must give up.

        Whatever goes elsewhere, from each broker as many leave as are too many: the sum of
        its smallest. Prices that differ by broker prove that.
        """
        cluster = self.task.cluster
        out = np.zeros(len(excess))
        cost = self.task.cost[self.task.old_owner]
        for b in np.flatnonzero(excess[: self.brokers] > 0).tolist():
            mine = np.sort(cost[cluster.replica == b])
            out[b] = float(mine[min(int(excess[b]), len(mine)) - 1]) if len(mine) else 0.0
        return out

    def value(self, prices: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The bound, and what the cheapest choices put on each broker."""
        task, cluster = self.task, self.task.cluster
        whole = prices[:, : self.brokers].copy()
        if task.zones:
            whole += prices[:, self.brokers :][:, cluster.rack]
        total, x, _ = self.choices.cheapest(whole, per_byte=1.0 if self.moves else 0.0)
        value = total - float(np.where(prices > 0, prices * self.high, prices * self.low).sum())
        for k, part, figure, _ in self.parts:
            if self.figures[figure] and figure != self.name:
                value -= float(np.abs(prices[k, part]).max(initial=0.0)) * self.figures[figure]
        return value, self._with_racks(x)

    def _with_racks(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64[4, B + Z]: what brokers hold, and after them their racks."""
        rack = self.task.cluster.rack
        sums = [np.bincount(rack, weights=row)[: self.task.zones] for row in x]
        return np.concatenate([x, np.array(sums).reshape(len(x), -1)], axis=1)

    def uphill(self, prices: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The direction in which the bound rises."""
        over, under = x - self.high, x - self.low
        over[self.unbounded] = 0.0
        at_rest = np.where(over > 0, over, np.where(under < 0, under, 0.0))
        out: NDArray[np.float64] = np.where(prices > 0, over, np.where(prices < 0, under, at_rest))
        return out
