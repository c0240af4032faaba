"""Replicas on brokers: pairs that change places, on arrays; these are told in `relocating`.

Where single moves help no more, a broker that is too full gives a replica and takes a smaller one,
and a replica that was moved goes home while a cheaper one goes in its stead. Pairs by the thousand
are priced at once, and again once others were taken that have to do with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import KINDS, LEAVE

__all__ = ["Pairs"]

#: Brokers with most room that a broker outside its band is to exchange with, and of its own rack.
_PARTNERS, _NEIGHBOURS = 16, 8
#: Replicas of a partner that are looked at for one to give; pairs that are priced in full.
_NEAR, _PRICED = 4, 4096
#: Exchanges of one broker in a row; of a home's replicas, the cheapest and those next to a price.
_TRIES, _FEW = 64, 4
#: Pairs that are looked at for brokers and racks outside their bands: some seconds.
_MOST_PAIRS = 15_000_000
#: Pairs that are priced at once: what stays in the machine's cache.
_CHUNK = 1 << 15
#: Pairs, the best of those that are left, that are priced again after every few exchanges: of
#: thousands hardly any has to do with what has changed.
_TAKEN = 512

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]


@dataclass(eq=False)
class Pairs:
    """A plan under way: ``broker`` and ``x`` are changed in place.

    Attributes:
        task: what is asked.
        broker: int32[S]; locked: bool[S], replicas that stay.
        x: int64[4, B + Z], what brokers and racks hold.
        rate: float64[9], of brokers, of a breach of the rack rule, of racks.
    """

    task: ReplicaTask
    broker: NDArray[np.int32]
    locked: _Bools
    x: _Ints
    rate: _Floats

    def __post_init__(self) -> None:
        """Kinds that weigh nothing have no price; pairs are counted, so that it ends."""
        self.looked_at = 0
        self.kinds = [k for k in range(len(KINDS)) if self.task.weight[k].any()]

    def swapped(self, k: int) -> int:
        """Pairs change brokers where one is outside its band of kind k: how many did."""
        n, done = len(self.task.alive), 0
        listed = _Listed(self.task, self.broker, self.task.weight[k])
        for b in np.flatnonzero(self._off(k, np.arange(n), 0)).tolist():
            for _ in range(_TRIES):
                found = self._partner(listed, k, b, self._excess(k, b))
                if found is None:
                    break
                self._exchange(*found)
                done += 1
        return done

    def across(self, k: int) -> int:
        """Pairs change racks where one is outside its band of kind k: how many did."""
        n, done = len(self.task.alive), 0
        listed = _Listed(self.task, self.broker, self.task.weight[k])
        for r in np.flatnonzero(self._off(k, np.arange(n, self.x.shape[1]), 0)).tolist():
            mine = np.flatnonzero(self.task.cluster.rack == r).tolist()
            for _ in range(_TRIES * len(mine)):
                excess = self._excess(k, n + r)
                # Of its brokers first those that are furthest from where they are short, or full.
                spare = (self.x - self.task.low if excess > 0 else self.task.high - self.x)[k]
                mine.sort(key=lambda b: -int(spare[b]))
                found = None
                for b in mine if excess else ():
                    most = max(int(spare[b]), 0)
                    found = self._partner(
                        listed, k, b, min(excess, most) if excess > 0 else max(excess, -most),
                        abroad=True,
                    )  # fmt: skip
                    if found is not None:
                        break
                if found is None:
                    break
                self._exchange(*found)
                done += 1
        return done

    def _excess(self, k: int, at: int) -> int:
        """How far a broker or a rack is above its band, below 0: below; 0 within."""
        over = int(self.x[k, at] - self.task.high[k, at])
        return over if over > 0 else -max(int(self.task.low[k, at] - self.x[k, at]), 0)

    def returned(self) -> int:
        """Moved replicas that went home, while a cheaper one went in their stead: how many did."""
        task, done = self.task, 0
        listed = _Listed(task, self.broker, task.cost)
        away = self._fate_at(task.owner, self.broker) < 0
        slots = np.flatnonzero(away & ~self.locked)
        size = max(1, _CHUNK // (2 * _FEW * max(int(task.cluster.factor.max(initial=1)), 1)))
        found = [self._instead(listed, slots[i : i + size]) for i in range(0, len(slots), size)]
        if not found:
            return 0
        s, t = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.argsort(self.price(s, t), kind="stable")
        for i in range(0, len(order), _TAKEN):
            done += self._taken(s[order[i : i + _TAKEN]], t[order[i : i + _TAKEN]])
        return done

    def _taken(self, s: _Ints, t: _Ints) -> int:
        """Pairs that still gain are exchanged, the best first: how many were."""
        task, done = self.task, 0
        while len(s):
            price = self.price(s, t)
            good = np.flatnonzero(price < -1e-6 * (1.0 + task.cost[task.owner[s]]))
            s, t = (one[good[np.argsort(price[good], kind="stable")]] for one in (s, t))
            first = self._apart(s, t)
            for i, j in zip(s[first].tolist(), t[first].tolist(), strict=True):
                self._exchange(i, j)
            done += int(first.sum())
            s, t = s[~first], t[~first]
        return done

    def _apart(self, s: _Ints, t: _Ints) -> _Bools:
        """Pairs that can be taken at once: none has to do with what one before it changes."""
        task, rack = self.task, self.task.cluster.rack
        n, zones = len(task.alive), task.zones > 0
        both = self.broker[s].astype(np.int64), self.broker[t].astype(np.int64)
        same = rack[both[0]] == rack[both[1]]
        sides = [*both, *(n + task.owner[one] for one in (s, t))]
        if zones:
            # Within a rack nothing changes for it, nor does it where all together keep its bands.
            first, x = n + len(task.factor), self.x
            most = np.abs(task.weight[:, task.owner[t]] - task.weight[:, task.owner[s]]).sum(axis=1)
            spare = np.minimum(x - task.low, task.high - x)[:, n:]
            calm = np.ones(int(rack.max()) + 1, bool)
            calm[: task.zones] = (spare >= most[:, None]).all(axis=0)
            sides += [np.where(same | calm[rack[one]], -1, first + rack[one]) for one in both]
        touched: set[int] = set()
        out = np.zeros(len(s), bool)
        for i, those in enumerate(np.array(sides).T.tolist()):
            if touched.isdisjoint(those):
                out[i] = True
                touched.update(one for one in those if one >= 0)
        return out

    def price(self, s: _Ints, t: _Ints) -> _Floats:
        """float64[n]: what it costs that replicas s and t change brokers; inf: they must not."""
        task = self.task
        p, q, b, c = task.owner[s], task.owner[t], self.broker[s], self.broker[t]
        p_old, q_old = self._fate_at(p, c), self._fate_at(q, b)
        p_home, q_home = self._fate_at(p, b) >= 0, self._fate_at(q, c) >= 0
        bad = self.locked[s] | self.locked[t] | (b == c) | (p_old == LEAVE) | (q_old == LEAVE)
        bad |= (p_old < 0) & (~task.receives[c] | (task.closed[p] & p_home))
        bad |= (q_old < 0) & (~task.receives[b] | (task.closed[q] & q_home))
        bad |= self._has(p, c) | self._has(q, b)
        out = np.asarray(task.cost[p] * ((p_old < 0) - 1.0 * ~p_home), np.float64)
        out += task.cost[q] * ((q_old < 0) - 1.0 * ~q_home)
        out += self._shifted(p, q, b, c, 0)
        racks = task.cluster.rack
        apart = np.flatnonzero((racks[b] != racks[c]) & ~bad)
        if len(apart):
            p, q, b, c = p[apart], q[apart], racks[b[apart]], racks[c[apart]]
            out[apart] += self.rate[len(KINDS)] * (self._breach(p, b, c) + self._breach(q, c, b))
            if task.zones:
                n = len(task.alive)
                out[apart] += self._shifted(p, q, b + n, c + n, len(KINDS) + 1)
        out[bad] = np.inf
        return out

    def _partner(
        self, listed: _Listed, k: int, b: int, excess: int, *, abroad: bool = False
    ) -> tuple[int, int] | None:
        """The best pair of a replica of b and one of those who have room for what is too much.

        Abroad: in other racks alone.
        """
        task = self.task
        weight, rack = task.weight[k], task.cluster.rack
        if not excess or self.looked_at > _MOST_PAIRS:
            return None
        n = len(task.alive)
        room = (task.high - self.x if excess > 0 else self.x - task.low)[k, :n].astype(np.float64)
        room[rack == rack[b] if abroad else b] = -np.inf
        order = np.argsort(-room, kind="stable")
        chosen = np.concatenate([order[:_PARTNERS], order[rack[order] == rack[b]][:_NEIGHBOURS]])
        mine = listed.of(b)
        mine = mine[(self.broker[mine] == b) & ~self.locked[mine]]
        if not len(mine):
            return None
        pairs = [(mine[:0], mine[:0])]
        for c in np.unique(chosen[np.isfinite(room[chosen])]).tolist():
            theirs = listed.of(c)
            near = np.searchsorted(weight[task.owner[theirs]], weight[task.owner[mine]] - excess)
            at = near[:, None] + np.arange(_NEAR) - _NEAR // 2
            there = (at >= 0) & (at < len(theirs))
            t = theirs[at[there]]
            s = np.broadcast_to(mine[:, None], at.shape)[there]
            still = self.broker[t] == c
            pairs.append((s[still], t[still]))
        s, t = (np.concatenate(part) for part in zip(*pairs, strict=True))
        self.looked_at += len(s)
        if len(s) > _PRICED:
            p, q = task.owner[s], task.owner[t]
            at, to = self.broker[s], self.broker[t]
            rough = self._shifted(p, q, at, to, 0) + task.cost[p] + task.cost[q]
            if abroad:
                rough += self._shifted(p, q, n + rack[at], n + rack[to], len(KINDS) + 1)
            best = np.argpartition(rough, _PRICED)[:_PRICED]
            s, t = s[best], t[best]
        if not len(s):
            return None
        price = self.price(s, t)
        i = int(price.argmin())
        return (int(s[i]), int(t[i])) if price[i] < -1e-6 else None

    def _instead(self, listed: _Listed, slots: _Ints) -> tuple[_Ints, _Ints]:
        """Of each replica that was moved, the best pair with one of a home of its partition."""
        task, cluster = self.task, self.task.cluster
        owner = task.owner[slots]
        steps = np.concatenate([np.arange(_FEW), -1 - np.arange(_FEW)])
        givers, takers = [slots[:0]], [slots[:0]]
        for o in range(int(cluster.factor[owner].max(initial=0))):
            there = o < cluster.factor[owner]
            place = np.where(there, cluster.start[owner] + o, 0)
            there &= task.fate[place] != LEAVE
            home = cluster.replica[place]
            begin, until = listed.start[home], listed.before(home, owner)
            at = np.where(steps < 0, until[:, None], begin[:, None]) + steps
            # What is among the cheapest is not to come twice.
            fits = there[:, None] & (at < until[:, None]) & (at >= begin[:, None])
            fits &= (steps >= 0) | (at >= begin[:, None] + _FEW)
            takers.append(listed.slots[at[fits]])
            givers.append(np.broadcast_to(slots[:, None], at.shape)[fits])
        s, t = np.concatenate(givers), np.concatenate(takers)
        price = self.price(s, t)
        good = np.flatnonzero(price < -1e-6 * (1.0 + task.cost[task.owner[s]]))
        good = good[np.lexsort((price[good], s[good]))]
        good = good[np.diff(s[good], prepend=-1) != 0]
        return s[good], t[good]

    def _exchange(self, s: int, t: int) -> None:
        """They change brokers."""
        task, (b, c) = self.task, self.broker[[s, t]].tolist()
        more = task.weight[:, task.owner[t]] - task.weight[:, task.owner[s]]
        n, rack = len(task.alive), task.cluster.rack
        self.broker[[s, t]] = c, b
        for at, sign in ((b, 1), (c, -1)):
            self.x[:, at] += sign * more
            if task.zones:
                self.x[:, n + rack[at]] += sign * more

    def _off(self, k: int, at: NDArray[np.integer], more: _Ints | int) -> _Ints:
        """How far places are outside their bands of kind k when they hold so much more."""
        x, task = self.x[k][at] + more, self.task
        out: _Ints = np.maximum(np.maximum(x - task.high[k][at], task.low[k][at] - x), 0)
        return out

    def _shifted(
        self, p: _Ints, q: _Ints, b: NDArray[np.integer], c: NDArray[np.integer], first: int
    ) -> _Floats:
        """What it costs that places b get q for p, and places c get p for q."""
        out = np.zeros(len(p))
        for k in self.kinds:
            more = self.task.weight[k][q] - self.task.weight[k][p]
            after = self._off(k, b, more) + self._off(k, c, -more)
            out += self.rate[first + k] * (after - self._off(k, b, 0) - self._off(k, c, 0))
        return out

    def _fate_at(self, p: _Ints, b: NDArray[np.integer]) -> NDArray[np.int8]:
        """-1 where p had no replica on b, else what may become of it."""
        task, cluster = self.task, self.task.cluster
        out = np.full(len(p), -1, np.int8)
        begin, factor = cluster.start[p], cluster.factor[p]
        for o in range(int(factor.max(initial=0))):
            at = np.where(o < factor, begin + o, 0)
            here = (o < factor) & (cluster.replica[at] == b)
            out[here] = task.fate[at[here]]
        return out

    def _has(self, p: _Ints, b: NDArray[np.integer]) -> _Bools:
        return self._count(p, b, np.arange(len(self.task.alive))) > 0

    def _count(self, p: _Ints, b: NDArray[np.integer], of: NDArray[np.integer]) -> _Ints:
        """How many replicas of p are in a place; ``of``: int[B], the place of each broker."""
        out = np.zeros(len(p), np.int64)
        begin, factor = self.task.start[p], self.task.factor[p]
        for j in range(int(factor.max(initial=0))):
            out += (j < factor) & (of[self.broker[np.where(j < factor, begin + j, 0)]] == b)
        return out

    def _breach(self, p: _Ints, out: NDArray[np.integer], into: NDArray[np.integer]) -> _Ints:
        """By how much a replica of p that changes racks breaks the rack rule more."""
        task = self.task
        rack, factor = task.cluster.rack, task.factor[p]
        less, more = self._count(p, out, rack), self._count(p, into, rack)
        change: _Ints = (
            1 * (less <= task.rack_low[factor, out]) - (less > task.rack_high[factor, out])
            + (more >= task.rack_high[factor, into]) - (more < task.rack_low[factor, into])
        )  # fmt: skip
        return change


class _Listed:
    """Replicas of each broker by a key of their partitions, as they are now."""

    def __init__(self, task: ReplicaTask, broker: NDArray[np.int32], key: _Ints) -> None:
        # A rank for a key: broker and rank are one number, and sorted once.
        _, rank = np.unique(key, return_inverse=True)
        self.rank, self.width = rank.astype(np.int64), len(key) + 1
        numbers = broker.astype(np.int64) * self.width + self.rank[task.owner]
        self.slots = np.argsort(numbers, kind="stable")
        self.numbers = numbers[self.slots]
        self.start = np.searchsorted(broker[self.slots], np.arange(len(task.alive) + 1))

    def of(self, b: int) -> _Ints:
        """Replicas of a broker, by key."""
        return self.slots[self.start[b] : self.start[b + 1]]

    def before(self, b: NDArray[np.integer], p: _Ints) -> _Ints:
        """Where, among the replicas of brokers, those begin that are no less than partitions."""
        out: _Ints = np.searchsorted(self.numbers, b.astype(np.int64) * self.width + self.rank[p])
        return out
