"""Coefficient tightening: what partitions that are larger than a balance limit use of it.

A broker with a partition of size w above its upper limit U is outside its limits by at least w - U,
whatever else it holds. It also holds other replicas: its lower limit of replicas and the smallest
partitions give the fewest bytes m that they have. So in place of w <= U the partition counts as
min(w, t) with t = U - m, and w - t is subtracted from the total imbalance that a plan may have. For
a lower limit L the partition counts as min(w, L - m). No plan is lost, and a linear programme no
longer gains by dividing such a partition among brokers.

Proof for a dual price y >= 0 of a broker, a price M >= y of its imbalance, and a broker that holds
j >= 1 such partitions and others of total size r: it is outside its limits by r + sum(w) - U. The
partitions pay y * (r + j t) + M * sum(w - t). This is at most y * U + M * (r + sum(w) - U), since
(M - y) * (r + j t - U) >= 0: for j = 1 because r >= m, for more because t is at least the largest
of the partitions that m counts. For y < 0 they pay at most y * L plus the part with M. Without such
partitions the bound is the usual one. Racks are alike.

Source: M. W. P. Savelsbergh, "Preprocessing and Probing Techniques for Mixed Integer Programming
Problems", ORSA Journal on Computing 6 (1994).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.model.replicas import KINDS, ReplicaTask

__all__ = ["LargeReplicas", "TightLimits"]

Floats = NDArray[np.float64]

#: Upper limits from here on mean "no limit".
_UNBOUNDED = np.iinfo(np.int64).max // 4
#: The kinds whose weights differ: capacity, bytes and load.
_WEIGHED = (0, 2, 3)
#: The most partitions that are treated as large, in order of their numbers of limits exceeded and
#: their sizes. Any subset gives a valid bound.
_MOST_LARGE = 500


class LargeReplicas(NamedTuple):
    """Costs of large partitions that coefficient tightening adds to those of the dual prices.

    Attributes:
        partition: int64[n], ascending.
        extra: float64[n, B], the cost of a replica on each broker beyond price times weight.
        forbidden: bool[n, B], brokers that would be outside a limit by more than a plan may be.
    """

    partition: NDArray[np.int64]
    extra: Floats
    forbidden: NDArray[np.bool_]


class TightLimits:
    """Tightened weights of large partitions, for the balance limits of one reassignment.

    Attributes:
        low, high: float64[4, B + Z], the most that a partition counts in a lower and in an upper
            limit; infinite where weights stay.
        figures: the total imbalance that a plan may have, by name.
        partition: int64[n], the partitions that are larger than one of these limits, ascending.
    """

    def __init__(self, task: ReplicaTask, figures: Mapping[str, int]) -> None:
        self.task, self.figures, brokers = task, figures, len(task.alive)
        self._parts = [(slice(None, brokers), ""), (slice(brokers, None), "rack ")]
        self.low: Floats = np.full(task.low.shape, np.inf)
        self.high: Floats = np.full(task.low.shape, np.inf)
        for k in _WEIGHED:
            if task.weight[k].any():
                self._tighten(k)
        self.partition = self._large()

    def _tighten(self, k: int) -> None:
        task, brokers = self.task, len(self.task.alive)
        counted = np.flatnonzero((task.weight[1] > 0) & (task.factor > 0))
        counted = counted[np.argsort(task.weight[k][counted], kind="stable")]
        smallest: dict[tuple[int, int], tuple[float, float]] = {}
        for place in range(task.low.shape[1]):
            rack = place - brokers if place >= brokers else -1
            others = int(task.low[1, place])
            others -= self.figures.get("rack replicas" if rack >= 0 else "replicas", 0) + 1
            key = (rack, max(others, 0))
            if key not in smallest:
                smallest[key] = self._smallest(k, counted, *key)
            for limit, out in ((task.low, self.low), (task.high, self.high)):
                whole = float(limit[k, place])
                if 0 < whole < _UNBOUNDED:
                    least, last = smallest[key]
                    out[k, place] = whole - least if whole - least >= max(last, 1.0) else whole

    def _smallest(
        self, k: int, counted: NDArray[np.int64], rack: int, count: int
    ) -> tuple[float, float]:
        """Return the least total weight of ``count`` replicas on a broker or rack, and the largest
        weight among them.

        Args:
            k: the kind of weight.
            counted: int64[n], the partitions that count for balance, in order of weight.
            rack: the rack, -1 for a broker.
            count: the number of replicas.
        """
        task, weight = self.task, self.task.weight[k][counted]
        if not count or not len(counted):
            return 0.0, 0.0
        if rack < 0:
            return float(weight[:count].sum()), float(weight[:count][-1])
        factor = task.factor[counted]
        most = task.rack_high[factor, rack] if not self.figures.get("racks", 0) else factor
        taken = np.minimum(np.cumsum(most), count)
        each = np.diff(taken, prepend=0)
        used = np.flatnonzero(each)
        last = float(weight[used[-1]]) if len(used) else 0.0
        return float(weight @ each), last

    def _large(self) -> NDArray[np.int64]:
        task = self.task
        least = np.minimum(self.low, self.high).min(axis=1, initial=np.inf)
        part = (task.weight / least[:, None]).max(axis=0, initial=0.0)
        part[task.factor == 0] = 0.0
        order = np.argsort(-part, kind="stable")[:_MOST_LARGE]
        return np.sort(order[part[order] > 1.0])

    def excess(self, k: int, partitions: NDArray[np.int64]) -> Floats:
        """Return how far a replica puts each broker or rack outside its upper limit at least.

        The result is float64[n, B + Z].
        """
        weight = self.task.weight[k][partitions].astype(np.float64)
        out: Floats = np.maximum(weight[:, None] - self.high[k], 0.0)
        return out

    def costs(self, prices: Floats, *, of: str) -> LargeReplicas:
        """Return what large partitions cost beyond the dual prices of their weights.

        Args:
            prices: float64[4, B + Z], the dual prices of balance limits.
            of: name of the cost that is bounded, such as "moved" or "bytes".
        """
        task, brokers = self.task, len(self.task.alive)
        extra = np.zeros((len(self.partition), brokers))
        forbidden = np.zeros(extra.shape, bool)
        names = list(self.figures)
        rank = names.index(of) if of in names else len(names)
        for k in _WEIGHED:
            weight = task.weight[k][self.partition].astype(np.float64)[:, None]
            over = self.excess(k, self.partition)
            for part, prefix in self._parts:
                name, price = prefix + KINDS[k], prices[k, part]
                if name not in self.figures or names.index(name) > rank:
                    continue
                high, low = self.high[k, part], self.low[k, part]
                most = 1.0 if name == of else float(np.abs(price).max(initial=0.0))
                limit = np.where(price >= 0, high, low)
                more = price * (np.minimum(weight, limit) - weight) + most * over[:, part]
                wrong = over[:, part] > self.figures[name]
                if prefix:
                    more, wrong = more[:, task.cluster.rack], wrong[:, task.cluster.rack]
                extra += more
                forbidden |= wrong
        return LargeReplicas(self.partition, extra, forbidden)
