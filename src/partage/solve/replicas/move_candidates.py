"""Which partitions may gain by a move: the others need not be asked. On arrays, all at once.

A replica goes for what its broker and rack are rid of, for what a broker gets that lacks
something, or since it comes home. Who lacks nothing pays nothing, and nobody pays for more than it
lacks; where only a few lack something, what each of them pays is looked at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import KINDS, LEAVE

__all__ = ["Restless"]

#: Of more brokers that lack something it is not looked at what each would pay.
_FEW = 24

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]


class Restless:
    """Partitions of a plan under way that may gain.

    What follows from a partition's brokers alone (who is where it was, the rack rule) is kept, and
    looked at again where brokers have changed.
    """

    def __init__(self, task: ReplicaTask, broker: NDArray[np.int32], locked: _Bools) -> None:
        self.task, self.broker, self.locked = task, broker, locked
        partitions = len(task.factor)
        self.seen = np.full(len(broker), -1, np.int32)
        self.home = np.zeros(len(broker), bool)
        self.uneven, self.vacant = np.zeros(partitions, bool), np.zeros(partitions, bool)
        self.wanted = task.rack_low.sum(axis=1)
        self.places = np.bincount(task.old_owner[task.fate != LEAVE], minlength=partitions)
        self.kinds = [k for k in range(len(KINDS)) if task.weight[k].any()]

    def those(self, x: _Ints, rate: _Floats) -> _Ints:
        """int64[n]: partitions that are to be asked.

        Args:
            x: int64[4, B + Z], what brokers and racks hold.
            rate: float64[9], of brokers, of a breach of the rack rule, of racks.
        """
        task, owner, n = self.task, self.task.owner, len(self.task.alive)
        self._look()
        bands = _Bands(task, self.kinds, x, rate)
        relief = bands.relief(owner, self.broker, 0)
        if task.zones:
            racks = n + task.cluster.rack[self.broker]
            relief += np.maximum(bands.relief(owner, racks, len(KINDS) + 1), 0.0)
        zone = bands.hunger(n, x.shape[1], len(KINDS) + 1)
        price = np.where(self.home, task.cost[owner], 0) + 0.5e-6 * (1.0 + task.cost[owner])
        out = self._returning(bands, relief, zone)
        out |= self.uneven
        may = ~self.locked & (relief + (bands.hunger(0, n, 0) + zone)[owner] > price)
        needy = np.flatnonzero(bands.lacks[:n] & task.receives)
        if len(needy) <= _FEW:
            most, open_ = np.zeros(len(out)), np.zeros(len(out), bool)
            open_[owner[may]] = True
            asked = np.flatnonzero(open_ & ~out)
            for c in needy.tolist():
                pays = bands.relief(asked, np.full(len(asked), c), 0, sign=1)
                most[asked] = np.maximum(most[asked], pays)
            may &= relief + (most + zone)[owner] > price
        out[owner[may]] = True
        return np.flatnonzero(out)

    def _returning(self, bands: _Bands, relief: _Floats, zone: _Floats) -> _Bools:
        """bool[P]: a replica may come home, where the rack rule lets it, or from home to home."""
        task, cluster = self.task, self.task.cluster
        rack, out = cluster.rack, np.zeros(len(task.factor), bool)
        those = np.flatnonzero(self.vacant & ~self.uneven)
        widest = int(cluster.factor[those].max(initial=0))
        factor, old = task.factor[those], cluster.start[those]
        for o in range(widest):
            there = o < cluster.factor[those]
            place = np.where(there, old + o, 0)
            home = cluster.replica[place]
            there &= task.fate[place] != LEAVE
            count = np.zeros(len(those), np.int64)
            slots = [task.start[those] + j for j in range(int(factor.max(initial=0)))]
            for j, slot in enumerate(slots):
                s = np.where(j < factor, slot, 0)
                there &= (j >= factor) | (self.broker[s] != home)
                count += (j < factor) & (rack[self.broker[s]] == rack[home])
            full = count >= task.rack_high[factor, rack[home]]
            pays = bands.relief(those, home, 0, sign=1) + zone[those]
            for j, slot in enumerate(slots):
                s = np.where(j < factor, slot, 0)
                same = rack[self.broker[s]] == rack[home]
                spent = np.where(self.home[s], 0, task.cost[those])
                gain = relief[s] + pays + spent > 0.5e-6 * (1.0 + task.cost[those])
                gain &= there & (j < factor) & ~self.locked[s] & (same | ~full)
                out[those[gain]] = True
        return out

    def _look(self) -> None:
        """What follows from brokers, of the partitions that have changed them."""
        task, cluster = self.task, self.task.cluster
        changed = np.zeros(len(task.factor), bool)
        changed[task.owner[self.seen != self.broker]] = True
        slots = np.flatnonzero(changed[task.owner])
        owner, at = task.owner[slots], self.broker[slots]
        home = np.zeros(len(slots), bool)
        for o in range(int(cluster.factor.max(initial=0))):
            place = cluster.start[owner] + o
            there = o < cluster.factor[owner]
            place = np.where(there, place, 0)
            home |= there & (cluster.replica[place] == at) & (task.fate[place] != LEAVE)
        self.home[slots], self.seen[slots] = home, at
        at_home = np.bincount(owner[home], minlength=len(changed))
        self.vacant[changed] = (self.places > at_home)[changed]
        # The rack rule, of racks that a partition is on; `wanted` tells of the others.
        racks = task.rack_low.shape[1]
        key = np.sort(owner * racks + cluster.rack[at])
        first = np.flatnonzero(np.diff(key, prepend=-1))
        count = np.diff(first, append=len(key))
        of, rack = key[first] // racks, key[first] % racks
        low, high = (side[task.factor[of], rack] for side in (task.rack_low, task.rack_high))
        filled = np.bincount(of, weights=np.minimum(count, low), minlength=len(changed))
        over = np.bincount(of, weights=count > high, minlength=len(changed))
        self.uneven[changed] = ((over > 0) | (filled < self.wanted[task.factor]))[changed]


class _Bands:
    """What all hold beside their bands, and what that costs."""

    def __init__(self, task: ReplicaTask, kinds: list[int], x: _Ints, rate: _Floats) -> None:
        self.weight, self.kinds, self.rate = task.weight, kinds, rate
        self.over, self.under = x - task.high, task.low - x
        self.now = np.maximum(np.maximum(self.over, self.under), 0)
        self.lacks: _Bools = np.asarray((self.under > 0).any(axis=0))

    def relief(self, of: _Ints, at: NDArray[np.integer], first: int, sign: int = -1) -> _Floats:
        """float64[n]: by how much prices fall when places lose (or get: 1) replicas of partitions.

        Rates begin at ``first``: 0 for brokers, K + 1 for racks.
        """
        total = np.zeros(len(of))
        for k in self.kinds:
            w = sign * self.weight[k][of]
            after = np.maximum(np.maximum(self.over[k][at] + w, self.under[k][at] - w), 0)
            total += self.rate[first + k] * (self.now[k][at] - after)
        return total

    def hunger(self, begin: int, end: int, first: int) -> _Floats:
        """float64[P]: what a replica is worth, at most, to one of these places."""
        total = np.zeros(self.weight.shape[1])
        for k in self.kinds:
            most = max(int(self.under[k, begin:end].max(initial=0)), 0)
            if most:
                total += self.rate[first + k] * np.minimum(self.weight[k], most)
        return total
