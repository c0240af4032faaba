"""Where replicas go: plans by keeping, giving out and stepping, at rates that rise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import NoFeasiblePlanError
from partage.model import ReplicaTask
from partage.model.replicas import KINDS, LEAVE, STAY, among
from partage.solve.replicas.move_candidates import Restless
from partage.solve.replicas.start import construct
from partage.solve.replicas.swaps import Pairs
from partage.solve.replicas.sweeps import scratch, sweep

__all__ = ["outside", "relocate"]

#: From rate to rate: smaller steps move fewer bytes (a percent), and take longer; of so many
#: replicas that it is seconds, larger ones.
_RISE, _RISE_LARGE, _LARGE = 1.25, 1.6, 100_000
#: Sweeps at a rate: what others do meanwhile is seen by the next one.
_SWEEPS, _LAST_SWEEPS = 2, 12
#: Rates at which a plan is improved that is near the best already. Measured: with the last one
#: alone, plans for heavy-tailed sizes move a percent more.
_RATES_AFTER = 12
#: How often numbers of replicas are looked at before bytes, as long as that gains.
_TURNS = 3


def outside(task: ReplicaTask, x: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[4, B + Z]: how far each broker and rack is outside its band."""
    out: NDArray[np.int64] = np.maximum(np.maximum(x - task.high, task.low - x), 0)
    return out


def relocate(task: ReplicaTask, begun: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
    """Return int32[S], brokers' positions by ``task.start``, in no order of leadership.

    Args:
        task: the reassignment.
        begun: int32[S], a plan to begin with, near the best but for some bands that it misses.

    Raises:
        NoFeasiblePlanError: a partition has nowhere to go.
    """
    return _Relocation(task).run() if begun is None else _Relocation(task).improve(begun)


class _Relocation:
    """One plan under way."""

    def __init__(self, task: ReplicaTask) -> None:
        self.task = task
        count = int(task.start[-1])
        self.broker = np.full(count, -1, np.int32)
        self.locked = np.zeros(count, np.uint8)
        self.x = np.zeros(task.low.shape, np.int64)
        self.rate = np.zeros(2 * len(KINDS) + 1)
        self.owner = task.owner
        kinds, both = task.low.shape
        racks = task.rack_low.shape[1]
        self.scratch = scratch(kinds, len(task.alive), both, racks)
        self.pairs = Pairs(task, self.broker, self.locked.view(bool), self.x, self.rate)
        self.restless = Restless(task, self.broker, self.locked.view(bool))
        self.work = 0

    def state(self) -> tuple[Any, ...]:
        """What every kernel gets."""
        task, cluster = self.task, self.task.cluster
        return (
            task.start, self.broker, cluster.start, cluster.replica, task.fate, self.locked,
            self.x, task.low, task.high, task.weight, task.cost, self.rate, cluster.rack,
            task.rack_low, task.rack_high, task.receives.view(np.uint8),
            task.closed.view(np.uint8),
        )  # fmt: skip

    def run(self) -> NDArray[np.int32]:
        """See `relocate`."""
        rates = self._rates()
        self.rate[:] = rates[-1]
        self._construct()
        movable, moved = not bool((self.locked == 1).all()), 0
        for i, rate in enumerate(rates if movable else ()):
            last = i + 1 == len(rates)
            if i and not last and not moved and self._is_all_the_same(rate):
                continue
            self.rate[:] = rate
            before = len(self.broker)
            for _ in range(_LAST_SWEEPS if last else _SWEEPS):
                moved = self._sweep()
                if not moved or (last and self._is_idle(moved, before)):
                    break
                before = moved
        if movable:
            self._settle()
            # What takes balance as it finds it has no numbers to mend.
            if not self.task.closed.all():
                self._numbers_first()
        return self.broker

    def improve(self, begun: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the plan that the last rates of the local search make of another plan."""
        task, owner = self.task, self.owner
        brokers = len(task.alive)
        self.broker[:] = begun
        old = task.old_owner * brokers + task.cluster.replica
        self.locked[:] = among(owner * brokers + begun, old[task.fate == STAY])
        for k, row in enumerate(task.weight):
            np.add.at(self.x[k], begun, row[owner])
            if task.zones:
                np.add.at(self.x[k], brokers + task.cluster.rack[begun], row[owner])
        *rising, last = self._rates()
        for rate in rising[-_RATES_AFTER:]:
            self.rate[:] = rate
            for _ in range(_SWEEPS):
                self._sweep()
            self._swaps()
            self.pairs.returned()
        self.rate[:] = last
        for _ in range(_LAST_SWEEPS):
            if not self._sweep():
                break
        self._settle()
        if not task.closed.all():
            self._numbers_first()
        return self.broker

    def _is_idle(self, moved: int, before: int) -> bool:
        """Whether a few of very many replicas go, sweep by sweep no fewer: they gain little."""
        many = len(self.broker)
        return many >= _LARGE and moved < many // 200 and moved > 0.9 * before

    def _settle(self) -> None:
        """Pairs and single replicas in turn, until neither gains."""
        for _ in range(4):
            # For one replica in thousands it is not begun again.
            if self._swaps() + self.pairs.returned() <= len(self.broker) // 5_000:
                break
            for _ in range(_LAST_SWEEPS):
                if not self._sweep():
                    break

    def _numbers_first(self) -> None:
        """Where a broker has too many or too few replicas: what if bytes hardly counted for once?

        Three have to change at once, say: one comes home, where one is lacking, and another goes
        where that one was; neither step gains by itself while bytes are at the end of a band.
        """
        last = self.rate.copy()
        for _ in range(_TURNS):
            known, broker, x = self._reached(), self.broker.copy(), self.x.copy()
            if not outside(self.task, self.x)[1].any():
                return
            self.rate[:] = last
            self.rate[[2, 3, 7, 8]] = 0.5, 0.0, 0.0, 0.0
            for _ in range(_SWEEPS):
                self._sweep()
            self.rate[:] = last
            for _ in range(_LAST_SWEEPS):
                if not self._sweep():
                    break
            self._settle()
            if self._reached() >= known:
                self.broker[:], self.x[:] = broker, x
                return

    def _reached(self) -> tuple[float, ...]:
        """How far brokers and racks are outside their bands, by rank, and what is moved."""
        off, n = outside(self.task, self.x), len(self.task.alive)
        rack, task = self.task.cluster.rack, self.task
        racks = task.rack_low.shape[1]
        pairs, count = np.unique(task.owner * racks + rack[self.broker], return_counts=True)
        factor = task.factor[pairs // racks]
        over = np.maximum(count - task.rack_high[factor, pairs % racks], 0)
        lack = np.minimum(count, task.rack_low[factor, pairs % racks])
        ranks = [off[0, :n].sum(), over.sum() - lack.sum()]
        for k in (1, 2, 3):
            ranks += [off[k, :n].sum(), off[k, n:].sum()]
        new = ~among(task.owner * n + self.broker, task.old_owner * n + task.cluster.replica)
        return (*map(float, ranks), float(task.cost[task.owner[new]].sum()))

    def _sweep(self) -> int:
        """How many replicas went where the price is lower."""
        those = self.restless.those(self.x, self.rate)
        if not len(those):
            return 0
        # Of all sweeps together: a compilation pays once there is enough to do for it.
        self.work += 8 * len(those) * len(self.task.alive)
        return int(sweep(*self.state(), those, *self.scratch, work=self.work))

    def _is_all_the_same(self, rate: NDArray[np.float64]) -> bool:
        """Whether only those rates differ from the last ones for which all are in their bands.

        A step that did not pay pays no more, then.
        """
        n = len(self.task.alive)
        off = outside(self.task, self.x)
        brokers, racks = off[:, :n].any(axis=1), off[:, n:].any(axis=1)
        matters = np.concatenate([brokers, [True], racks])
        return bool((rate[matters] == self.rate[matters]).all()) and bool((rate >= self.rate).all())

    def _rates(self) -> list[NDArray[np.float64]]:
        """What a unit outside the band costs, from little to more than any move."""
        task = self.task
        cost = task.cost[task.cost > 0]
        least, most = (float(cost.min()), float(cost.max())) if len(cost) else (1.0, 1.0)
        mean = np.maximum(task.weight.mean(axis=1), 1e-12)
        total = float(task.cost.sum())
        # A byte outside is worth a byte or a few; what a replica or a unit of load is worth
        # follows from what is moved for it. Each kind outweighs all that follow.
        dearest = 4.0 * most
        rise = _RISE if len(self.broker) < _LARGE else _RISE_LARGE
        steps = max(1, int(np.ceil(np.log(dearest / least) / np.log(rise))))
        worth = (mean[2] if mean[2] > 1e-9 else dearest) / max(mean[3], 1e-9)
        rates = []
        for i in range(steps + 1):
            level = least * 0.4 * (dearest / (least * 0.4)) ** (i / steps)
            share = min(1.0, level / dearest)
            rates.append(_both(np.array([
                total * 100, level, 2.0, 2.0 * share ** 0.5 * worth, total * 8,
            ])))  # fmt: skip
        # In the end one byte outside costs more than any move, and each kind more than the next.
        byte = max(1e6, 4.0 * most)
        load = 0.02 * byte * mean[2] / mean[3] if mean[3] > 1e-9 else 0.0
        replica = 1e3 * max(byte * float(task.weight[2].max(initial=0)), dearest)
        if mean[2] <= 1e-9:  # no sizes: what is moved is counted
            load = 1e3 * dearest
        # Room is a hard limit: one byte too many weighs more than any breach of the rack rule.
        rates.append(_both(np.array([1e8 * replica, replica, byte, load, 1e6 * replica])))
        if task.closed.all():
            return rates[-1:]
        return rates

    def _construct(self) -> None:
        task, cluster = self.task, self.task.cluster
        # Where all may stay they are copied; the kernel is for partitions that get or lose some.
        same = task.factor == cluster.factor
        same[task.old_owner[task.fate == LEAVE]] = False
        old, new = same[task.old_owner], same[task.owner]
        self.broker[new], self.locked[new] = cluster.replica[old], task.fate[old] == STAY
        for k, row in enumerate(task.weight):
            np.add.at(self.x[k], cluster.replica[old], row[task.old_owner[old]])
            if task.zones:
                zones = len(task.alive) + cluster.rack[cluster.replica[old]]
                np.add.at(self.x[k], zones, row[task.old_owner[old]])
        order = np.argsort(-task.cost, kind="stable").astype(np.int64)
        order = order[~same[order]]
        if not len(order):
            return
        widest = int(max(task.factor.max(initial=0), cluster.factor.max(initial=0)))
        scratch, work = np.zeros(widest + 1, np.int64), 20 * len(order) * len(cluster.brokers)
        nowhere = construct(*self.state(), order, scratch, work=work * widest)
        if nowhere >= 0:
            raise NoFeasiblePlanError(*_why_nowhere(task, int(nowhere)))

    def _swaps(self) -> int:
        n, done = len(self.task.alive), 0
        for k in (0, 2, 3, 1):
            if outside(self.task, self.x)[k, :n].any():
                done += self.pairs.swapped(k)
        for k in (2, 3, 1):
            if outside(self.task, self.x)[k, n:].any():
                done += self.pairs.across(k)
        return done


def _both(rate: NDArray[np.float64]) -> NDArray[np.float64]:
    """Racks' rates beside those of the brokers, which come first and so are dearer."""
    return np.concatenate([rate, 0.3 * rate[:-1]])


def _why_nowhere(task: ReplicaTask, p: int) -> tuple[str, str]:
    """Which rule leaves a partition without a broker: its name, and a sentence."""
    cluster = task.cluster
    kept = [
        int(b)
        for b, fate in zip(
            cluster.replica[cluster.start[p] : cluster.start[p + 1]],
            task.fate[cluster.start[p] : cluster.start[p + 1]],
            strict=True,
        )
        if fate != LEAVE
    ]
    wanted = int(task.factor[p])
    alive = int(task.alive.sum())
    name = cluster.name(p)
    if wanted > alive:
        return "replication factor", f"{name} is to have {wanted} replicas on {alive} brokers"
    open_to = [cluster.brokers[b].id for b in np.flatnonzero(task.receives)]
    return "distinct brokers", (
        f"{name} is to have {wanted} replicas, keeps those on {cluster.ids(np.array(kept, int))}, "
        f"and may be moved to {open_to} only"
    )
