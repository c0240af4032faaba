"""Is a reassignment valid, what does it reach, and how much better could any other be?

Bounds. Let every broker ask a price for each unit of each kind that it holds (a negative price is
a reward). What a plan pays for its moves plus these prices is, partition by partition, at least
the cheapest choice of brokers that the partition may have. Of the prices, brokers within their
bands give back at most the price times the upper end of the band (the lower, if it is negative).
What the plan pays for moves alone is therefore at least the sum of the cheapest choices less what
can be given back. If the plan may be outside the bands by so much in all, the dearest price times
that goes off too. For how far a kind must be outside itself the same holds with free moves and
prices from -1 to 1. Any prices make a true bound; the solver's job is to find good ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.errors import CertificateError
from partage.model import NewReplicas, ReplicaTask
from partage.model.replicas import KINDS, LEAVE, STAY

__all__ = ["ReplicaVerdict", "judge_replicas"]

_CELLS = 2_000_000
_UNBOUNDED = np.iinfo(np.int64).max // 4
_MOST_BREACHES = 100


@dataclass(frozen=True, slots=True)
class ReplicaVerdict:
    """What the judge says of a plan.

    Attributes:
        breaches: rules that it breaks, in words; empty when it is valid.
        figures: by name, in order of importance: "racks" (replicas against the rack rule), how far
            brokers are outside their bands in "capacity", "replicas", "leaders", "bytes", "load",
            summed, and "moved": bytes (replicas, where sizes are unknown).
        bounds: the same names: no valid plan that is as good in all before has less.
    """

    breaches: tuple[str, ...]
    figures: dict[str, int]
    bounds: dict[str, int]

    @property
    def gap(self) -> float:
        """How much of what is moved is not proven necessary, as a fraction.

        >>> ReplicaVerdict((), {"moved": 5}, {"moved": 4}).gap
        0.2
        """
        moved = self.figures["moved"]
        return (moved - self.bounds["moved"]) / moved if moved else 0.0

    @property
    def optimal(self) -> bool:
        """Whether every figure is at its bound."""
        return all(self.figures[name] == bound for name, bound in self.bounds.items())


def judge_replicas(task: ReplicaTask, plan: NewReplicas) -> ReplicaVerdict:
    """Check a plan's rules, measure it, and verify the bounds that it claims by its prices.

    Raises:
        CertificateError: the arrays are no plan of this task, or a bound exceeds what was reached.
    """
    if plan.replica.shape != (int(task.start[-1]),):
        raise CertificateError(f"the plan has {plan.replica.shape} replicas, not {task.start[-1]}")
    brokers = len(task.cluster.brokers)
    if len(plan.replica) and not 0 <= plan.replica.min() <= plan.replica.max() < brokers:
        raise CertificateError("the plan has a broker that there is not")
    scene = _Scene(task, plan.replica)
    figures = scene.figures()
    bounds = dict.fromkeys(figures, 0)
    bounds["racks"] = scene.least_breaches()
    for k, kind in enumerate(KINDS):
        if figures[kind] and kind in plan.prices:
            bounds[kind] = _whole(_bound(scene, plan.prices[kind], kind=k), 1)
    if figures["leaders"]:
        bounds["leaders"] = _whole(_lead_bound(task, plan.lead_prices), 1)
    if "moved" in plan.prices:
        # Sums of whole numbers with a common divisor are multiples of it.
        divisor = int(np.gcd.reduce(task.cost)) if len(task.cost) else 1
        bounds["moved"] = _whole(_bound(scene, plan.prices["moved"], kind=-1), max(divisor, 1))
    for name, bound in bounds.items():
        if bound > figures[name] and not scene.breaches:
            raise CertificateError(
                f"{name}: {bound} claimed necessary, the plan has {figures[name]}"
            )
    return ReplicaVerdict(tuple(scene.breaches), figures, bounds)


def _whole(bound: float, divisor: int) -> int:
    """Rounded up to a multiple, less what floating sums may be off."""
    slack = 1e-9 * abs(bound) + 1e-6
    return max(0, int(np.ceil((bound - slack) / divisor))) * divisor


class _Scene:
    """A plan beside what was."""

    def __init__(self, task: ReplicaTask, replica: NDArray[np.int32]) -> None:
        self.task, self.replica = task, replica
        cluster = task.cluster
        self.brokers = len(cluster.brokers)
        partitions = np.arange(cluster.partitions, dtype=np.int64)
        self.owner = np.repeat(partitions, task.factor)
        self.old_owner = np.repeat(partitions, cluster.factor)
        self.key = self.owner * self.brokers + replica
        self.old_key = self.old_owner * self.brokers + cluster.replica
        self.is_new = ~np.isin(self.key, self.old_key)
        self.outside = self._outside()
        self.rack_breach = self._rack_breach()
        self.breaches = self._breaches()

    def held(self) -> NDArray[np.int64]:
        """int64[4, B]: what each broker holds."""
        return np.array([
            np.bincount(self.replica, weights=None, minlength=self.brokers)
            if (row == 1).all()
            else _sums(self.replica, row[self.owner], self.brokers)
            for row in self.task.weight
        ]).astype(np.int64)  # fmt: skip

    def _outside(self) -> NDArray[np.int64]:
        held, task = self.held(), self.task
        out: NDArray[np.int64] = np.maximum(np.maximum(held - task.high, task.low - held), 0)
        return out

    def _rack_breach(self) -> NDArray[np.int64]:
        """int64[P]: replicas of each partition against the rack rule."""
        task, racks = self.task, self.task.rack_low.shape[1]
        count = np.zeros((task.cluster.partitions, racks), np.int32)
        np.add.at(count, (self.owner, task.cluster.rack[self.replica]), 1)
        low, high = task.rack_low[task.factor], task.rack_high[task.factor]
        out: NDArray[np.int64] = np.maximum(np.maximum(count - high, low - count), 0).sum(axis=1)
        return out

    def figures(self) -> dict[str, int]:
        """See `ReplicaVerdict`."""
        task = self.task
        there = (task.factor > 0) & task.counted
        leaders = np.bincount(self.replica[task.start[:-1][there]], minlength=self.brokers)
        off = np.maximum(np.maximum(leaders - task.lead_high, task.lead_low - leaders), 0)
        outside = dict(zip(KINDS, self.outside.sum(axis=1).tolist(), strict=True))
        return {
            "racks": int(self.rack_breach.sum()),
            "capacity": outside["capacity"],
            "replicas": outside["replicas"],
            "leaders": int(off.sum()),
            "bytes": outside["bytes"],
            "load": outside["load"],
            "moved": int(task.cost[self.owner[self.is_new]].sum()),
        }

    def least_breaches(self) -> int:
        """No plan breaks the rack rule less: replicas that must stay may break it already."""
        task, cluster = self.task, self.task.cluster
        racks = task.rack_low.shape[1]
        fixed = task.fate == STAY
        count = np.zeros((cluster.partitions, racks), np.int32)
        np.add.at(count, (self.old_owner[fixed], cluster.rack[cluster.replica[fixed]]), 1)
        low, high = task.rack_low[task.factor], task.rack_high[task.factor]
        over = np.maximum(count - high, 0).sum(axis=1)
        lacking = np.maximum(low - count, 0).sum(axis=1)
        return int((over + np.maximum(lacking - (task.factor - count.sum(axis=1)), 0)).sum())

    def _breaches(self) -> list[str]:
        task, cluster = self.task, self.task.cluster
        found: list[str] = []

        def say(which: NDArray[np.int64], what: str) -> None:
            names = [cluster.name(int(p)) for p in np.unique(which)[:_MOST_BREACHES]]
            found.extend(f"{name}: {what}" for name in names)

        ordered = np.sort(self.key)
        say(ordered[1:][np.diff(ordered) == 0] // max(self.brokers, 1), "two replicas on a broker")
        staying = self.old_key[task.fate == STAY]
        say(staying[~np.isin(staying, self.key)] // max(self.brokers, 1),
            "a replica that had to stay is gone")  # fmt: skip
        leaving = self.old_key[task.fate == LEAVE]
        say(leaving[np.isin(leaving, self.key)] // max(self.brokers, 1),
            "a replica is where it had to leave")  # fmt: skip
        refused = self.is_new & ~task.receives[self.replica]
        say(self.owner[refused], "a replica went to a broker that takes none")
        say(self._lost_leaders(), "another leader, though its own was to stay")
        over = np.flatnonzero(self.outside[0])
        found.extend(f"broker {cluster.brokers[b].id}: more than it has room for" for b in over)
        return found

    def _lost_leaders(self) -> NDArray[np.int64]:
        """Partitions whose leadership was to stay, did not, and could have."""
        task, cluster = self.task, self.task.cluster
        there = np.flatnonzero((task.factor > 0) & (cluster.factor > 0) & ~task.lead_free)
        old = cluster.start[there]
        first = cluster.replica[old]
        could = np.isin(there * self.brokers + first, self.key)
        other = self.replica[task.start[there]] != first
        # Who stands in its place leads in its place, unless it is still there.
        lost: NDArray[np.int64] = there[could & other]
        return lost


def _sums(broker: NDArray[np.int32], weight: NDArray[np.int64], brokers: int) -> NDArray[np.int64]:
    out = np.zeros(brokers, np.int64)
    np.add.at(out, broker, weight)
    return out


def _bound(scene: _Scene, prices: NDArray[np.float64], *, kind: int) -> float:
    """The bound of what is moved (kind -1), or of how far a kind is outside."""
    task = scene.task
    if prices.shape != task.low.shape or not np.isfinite(prices).all():
        raise CertificateError(f"prices must be {task.low.shape} finite numbers")
    if kind >= 0 and np.abs(prices[kind]).max(initial=0.0) > 1.0:
        raise CertificateError("a price is beyond what a unit outside the band costs")
    unbounded = task.high >= _UNBOUNDED
    if (prices[unbounded] > 0).any():
        raise CertificateError("a price where there is no upper limit")
    high = np.where(unbounded, 0, task.high)
    total = -float(np.where(prices > 0, prices * high, prices * task.low).sum())
    for k in range(len(KINDS)):
        if k != kind:
            total -= float(np.abs(prices[k]).max(initial=0.0)) * float(scene.outside[k].sum())
    return total + _cheapest(scene, prices, moves_cost=kind < 0)


def _cheapest(scene: _Scene, prices: NDArray[np.float64], *, moves_cost: bool) -> float:
    task = scene.task
    size = max(1, _CELLS // max(scene.brokers, 1))
    total = 0.0
    for begin in range(0, len(task.factor), size):
        part = np.arange(begin, min(begin + size, len(task.factor)))
        price, forced = _prices_of(scene, part, prices, moves_cost=moves_cost)
        factors = task.factor[part]
        for factor in np.unique(factors[factors > 0]).tolist():
            mine = factors == factor
            total += float(_least(task, price[mine], forced[mine], factor).sum())
    return total


def _prices_of(
    scene: _Scene, part: NDArray[np.int64], prices: NDArray[np.float64], *, moves_cost: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """What each broker costs each partition, infinite where it must not go; and who must stay."""
    task, cluster = scene.task, scene.task.cluster
    asked = task.weight[:, part].T.astype(np.float64) @ prices
    cost = task.cost[part].astype(np.float64) * moves_cost
    out = np.where(task.receives, asked + cost[:, None], np.inf)
    forced = np.zeros(out.shape, bool)
    begin, end = int(cluster.start[part[0]]), int(cluster.start[part[-1] + 1])
    row = scene.old_owner[begin:end] - part[0]
    at, fate = cluster.replica[begin:end], task.fate[begin:end]
    out[row, at] = np.where(fate == LEAVE, np.inf, asked[row, at])
    stay = fate == STAY
    forced[row[stay], at[stay]] = True
    return out, forced


def _least(
    task: ReplicaTask, price: NDArray[np.float64], forced: NDArray[np.bool_], factor: int
) -> NDArray[np.float64]:
    """float64[n]: the cheapest choice of ``factor`` brokers that follows the rules."""
    low, high = task.rack_low[factor], task.rack_high[factor]
    sure = np.zeros(len(price))
    extra = []
    for r in np.flatnonzero(high):
        mine = np.sort(price[:, task.cluster.rack == r], axis=1)
        sure += mine[:, : low[r]].sum(axis=1)
        extra.append(mine[:, low[r] : high[r]])
    more = factor - int(low.sum())
    rest = np.sort(np.concatenate(extra, axis=1), axis=1)[:, :more] if extra else price[:, :0]
    out: NDArray[np.float64] = sure + rest.sum(axis=1)
    # Where something must stay, or the rule cannot be kept, the rule is left out of the bound.
    loose = forced.any(axis=1) | ~np.isfinite(out)
    if loose.any():
        kept = np.where(forced[loose], price[loose], 0.0).sum(axis=1)
        others = np.sort(np.where(forced[loose], np.inf, price[loose]), axis=1)
        wanted = factor - forced[loose].sum(axis=1)
        others = np.where(np.arange(others.shape[1]) < wanted[:, None], others, 0.0)
        out[loose] = kept + others.sum(axis=1)
    if not np.isfinite(out).all():
        raise CertificateError("a partition has fewer brokers than it is to have replicas")
    return out


def _lead_bound(task: ReplicaTask, prices: NDArray[np.float64]) -> float:
    """How far leaders must be outside: of every partition, the cheapest that may lead it."""
    cluster = task.cluster
    if prices.shape != task.lead_low.shape or np.abs(prices).max(initial=0.0) > 1.0:
        raise CertificateError("prices of leaders must be from -1 to 1, one a broker")
    stays = np.ones(cluster.partitions, bool)
    owner = np.repeat(np.arange(cluster.partitions), cluster.factor)
    stays[owner[task.fate != STAY]] = False
    stays &= (cluster.factor == task.factor) & task.counted & (task.factor > 0)
    cheapest = np.full(cluster.partitions, np.inf)
    np.minimum.at(cheapest, owner, prices[cluster.replica])
    first = np.minimum(cluster.start[:-1], max(len(cluster.replica) - 1, 0))
    at_first = prices[cluster.replica[first]] if len(cluster.replica) else cheapest
    fixed = np.where(task.lead_free, cheapest, at_first)
    anyone = float(prices.min(initial=0.0))
    there = task.counted & (task.factor > 0)
    total = float(np.where(stays, fixed, anyone)[there].sum())
    return total - float(
        np.where(prices > 0, prices * task.lead_high, prices * task.lead_low).sum()
    )
