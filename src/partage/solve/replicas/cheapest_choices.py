"""When every broker asks prices: which brokers each partition would choose, and at what cost.

Twice: a kernel for large clusters, and arrays where its compilation would take longer.
"""

# ruff: noqa: ANN001, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.kernels import kernel, piece
from partage.model import ReplicaTask
from partage.model.replicas import KINDS, LEAVE, STAY

__all__ = ["Choices"]

#: Pairs of partition and broker that are looked at at once; of how many the arrays take as long as
#: an interpreted step of a kernel.
_CELLS, _CELLS_A_STEP = 250_000, 30


@piece
def _ask(old_start, old, fate, weight, cost, prices, receives, per_byte, least, p):
    """What each broker costs p, into ``least``; whether some replica must stay."""
    brokers = len(least)
    w0, w1, w2, w3 = weight[0, p], weight[1, p], weight[2, p], weight[3, p]
    moving = per_byte * cost[p]
    for b in range(brokers):
        asked = prices[0, b] * w0 + prices[1, b] * w1 + prices[2, b] * w2 + prices[3, b] * w3
        least[b] = asked + moving if receives[b] else 1e290
    forced = False
    for o in range(old_start[p], old_start[p + 1]):
        b = old[o]
        if fate[o] == 2:
            least[b] = 1e290
        else:
            least[b] = prices[0, b] * w0 + prices[1, b] * w1 + prices[2, b] * w2 + prices[3, b] * w3
            if fate[o] == 1:
                least[b] = -1e250
                forced = True
    return forced


@piece
def _offer(best, best_at, rack, several, factor, n, b, price):
    """A broker beside the ``n`` cheapest known, one a rack unless there may be several."""
    same = -1
    if not several:
        for i in range(n):
            if rack[best_at[i]] == rack[b]:
                same = i
    if same >= 0:
        if best[same] <= price:
            return n
        for i in range(same, n - 1):
            best[i] = best[i + 1]
            best_at[i] = best_at[i + 1]
        n -= 1
    elif n == factor:
        n -= 1
    at = n
    while at > 0 and best[at - 1] > price:
        best[at] = best[at - 1]
        best_at[at] = best_at[at - 1]
        at -= 1
    best[at] = price
    best_at[at] = b
    return n + 1


@piece
def _by_racks(least, rack, rack_low, rack_high, best, best_at, factor):
    """The same with fewer racks than replicas: of each the least that it holds, then the others.

    Of the brokers still there the cheapest comes next: round by round where a rack is to hold more.
    """
    n = 0
    for needed in (1, 0):
        more = 1
        while more and n < factor:
            more, cheapest, at = 0, 1e290, -1
            for b in range(len(rack)):
                if least[b] < cheapest:
                    count, r = 0, rack[b]
                    for i in range(n):
                        count += rack[best_at[i]] == r
                    if count < (rack_low[factor, r] if needed else rack_high[factor, r]):
                        cheapest, at, more = least[b], b, 1
            if more:
                best[n] = cheapest
                best_at[n] = at
                least[at] = 1e300
                n += 1
    return n


@kernel(
    "float64(int64[::1], int64[::1], int32[::1], int8[::1], int64[:, ::1], int64[::1],"
    " float64[:, ::1], int32[::1], int64[:, ::1], int64[:, ::1], int64[::1], uint8[::1], float64,"
    " float64[::1], float64[::1], int64[::1], float64[:, ::1], int32[::1])"
)
def _cheapest(
    start, old_start, old, fate, weight, cost, prices, rack, rack_low, rack_high, wanted, receives,
    per_byte, least, best, best_at, x, chosen,
):  # fmt: skip
    """Return the sum over partitions of the cheapest valid choice of brokers.

    ``x`` gets what these choices put on brokers, ``chosen`` the brokers by ``start``.

    ``wanted``: by factor, how many replicas the rack rule puts somewhere. Scratch: ``least[B]``,
    ``best`` and ``best_at`` as long as the largest factor.
    """
    total = 0.0
    for p in range(len(cost)):
        factor, n = start[p + 1] - start[p], 0
        forced = _ask(old_start, old, fate, weight, cost, prices, receives, per_byte, least, p)
        if wanted[factor] > 0 and not forced:
            n = _by_racks(least, rack, rack_low, rack_high, best, best_at, factor)
        else:
            # Where replicas were they are mostly cheapest: few others are looked at twice.
            for o in range(old_start[p], old_start[p + 1]):
                if least[old[o]] < 1e290:
                    n = _offer(best, best_at, rack, forced, factor, n, old[o], least[old[o]])
                    least[old[o]] = 1e300
            for b in range(len(rack) if factor > 0 else 0):
                if least[b] < 1e290 and (n < factor or least[b] < best[n - 1]):
                    n = _offer(best, best_at, rack, forced, factor, n, b, least[b])
        for i in range(n):
            b, price = best_at[i], best[i]
            chosen[start[p] + i] = b
            if price < -1e240:  # one that must stay: its true price
                price = 0.0
                for k in range(len(weight)):
                    price += prices[k, b] * weight[k, p]
            total += price
            for k in range(len(weight)):
                x[k, b] += weight[k, p]
    return total


class Choices:
    """Cheapest choices of a task at prices that change: sums, and what they put where."""

    def __init__(self, task: ReplicaTask) -> None:
        self.task = task
        widest = len(task.rack_low)
        self.wanted = task.rack_low.sum(axis=1)
        self.scratch = np.zeros(len(task.alive)), np.zeros(widest), np.zeros(widest, np.int64)
        # Arrays know one replica a rack; with fewer racks than replicas it is the kernel's.
        self.simple = not self.wanted[np.unique(task.factor)].any()
        self.done = 0

    def cheapest(
        self, prices: NDArray[np.float64], *, per_byte: float
    ) -> tuple[float, NDArray[np.float64], NDArray[np.int32]]:
        """Return the cheapest choices of all partitions.

        The sum of their prices, float64[4, B] of what brokers would hold, and int32[S], the
        brokers by ``task.start``; -1 where the prices leave a partition fewer than it wants.

        Args:
            prices: float64[4, B], of a unit of each kind.
            per_byte: what a byte costs that is moved.
        """
        task, cluster = self.task, self.task.cluster
        cells = len(task.cost) * len(task.alive)
        self.done += cells
        if self.simple and not _cheapest.pays(work=self.done // _CELLS_A_STEP):
            return self._on_arrays(prices, per_byte)
        x = np.zeros((len(KINDS), len(task.alive)))
        chosen = np.full(int(task.start[-1]), -1, np.int32)
        total = _cheapest(
            task.start, cluster.start, cluster.replica, task.fate, task.weight, task.cost, prices,
            cluster.rack, task.rack_low, task.rack_high, self.wanted,
            task.receives.view(np.uint8), per_byte, *self.scratch, x, chosen, work=10 * cells,
        )  # fmt: skip
        return float(total), x, chosen

    def _on_arrays(
        self, prices: NDArray[np.float64], per_byte: float
    ) -> tuple[float, NDArray[np.float64], NDArray[np.int32]]:
        """Return what `cheapest` returns, computed on arrays; racks hold one replica at most."""
        task, cluster = self.task, self.task.cluster
        brokers, rack = len(task.alive), cluster.rack
        x, total = np.zeros((len(KINDS), brokers)), 0.0
        chosen = np.full(int(task.start[-1]), -1, np.int32)
        alone = len(np.unique(rack)) == brokers
        size = max(1, _CELLS // max(brokers, 1))
        for begin in range(0, len(task.factor), size):
            part = slice(begin, min(begin + size, len(task.factor)))
            old = slice(int(cluster.start[part.start]), int(cluster.start[part.stop]))
            row, at, fate = task.old_owner[old] - begin, cluster.replica[old], task.fate[old]
            weight, factor = task.weight[:, part].astype(np.float64), task.factor[part]
            asked = weight.T @ prices
            price = asked + per_byte * task.cost[part, None]
            price[:, ~task.receives] = np.inf
            price[row, at] = np.where(fate == LEAVE, np.inf, asked[row, at])
            # One that must stay comes first, whatever it asks, and then the rule is left out.
            price[row[fate == STAY], at[fate == STAY]] = -np.inf
            forced = np.zeros(len(factor), bool)
            forced[row[fate == STAY]] = True
            those = np.arange(len(factor))
            for i in range(int(factor.max(initial=0))):
                b = price.argmin(axis=1)
                cost = price[those, b]
                taken = (i < factor) & (cost < np.inf)
                chosen[task.start[begin + those[taken]] + i] = b[taken]
                stays = np.isneginf(cost)
                total += float(np.where(stays, asked[those, b], cost)[taken].sum())
                for k in range(len(KINDS)):
                    x[k] += np.bincount(b[taken], weights=weight[k, taken], minlength=brokers)
                if not alone:
                    price[(rack == rack[b][:, None]) & ~forced[:, None]] = np.inf
                price[those, b] = np.inf
        return total, x, chosen
