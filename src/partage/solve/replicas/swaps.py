"""Exchanges of two replicas: the step of the local search after single moves gain nothing.

A broker above its band gives a large replica and takes a smaller one. A replica that was moved
returns to a current broker of its partition, and a cheaper one moves instead of it. The costs of
thousands of pairs are computed at once on arrays, and again after exchanges that affect them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import KINDS, LEAVE
from partage.solve.replicas.problem import Bools, Floats, Ints, SearchState

__all__ = ["ReplicaSwaps"]

#: Partners of a broker outside its band: those with most room, and those of its own rack.
_PARTNERS, _RACK_PARTNERS = 16, 8
#: Replicas of a partner with about the wanted weight, and pairs whose exact cost is computed.
_NEAREST, _PRICED = 4, 4096
#: Successive exchanges of one broker.
_TRIES = 64
#: Replicas of a current broker that may leave in exchange for a returning one: so many of the
#: cheapest, and so many of those just cheaper than the returning one.
_SUBSTITUTES = 4
#: Pairs compared for brokers and racks outside their bands: some seconds.
_MOST_PAIRS = 15_000_000
#: Pairs whose costs are computed together: their arrays fit the processor's cache.
_CHUNK = 1 << 15
#: Pairs whose costs are computed again after a few exchanges, which affect few of thousands.
_BATCH = 512
#: Least gain of a swap, as a part of a byte and of its cost: a rounding error is no gain.
_LEAST_GAIN = 1e-6


class ReplicaSwaps:
    """Local search step that lets pairs of replicas exchange their brokers.

    It helps where no single move lowers the cost, for example if both brokers are full. The search
    state is changed in place.
    """

    def __init__(self, state: SearchState) -> None:
        self.state, self.task = state, state.task
        # Kinds without weight have no penalty.
        self.kinds = [k for k in range(len(KINDS)) if self.task.weight[k].any()]
        self._pairs_looked_at = 0

    def swap_between_brokers(self, resource: int) -> int:
        """Swap replicas of brokers that have too much or too little of a resource with other
        brokers.

        Return the number of swaps. ``resource`` is the index of the resource: capacity, replicas,
        bytes or load.
        """
        n, done = len(self.task.alive), 0
        index = _ReplicaIndex(self.task, self.state.broker, self.task.weight[resource])
        for b in np.flatnonzero(self._outside(resource, np.arange(n), 0)).tolist():
            for _ in range(_TRIES):
                pair = self._best_pair(index, resource, b, self._amount_above_limit(resource, b))
                if pair is None:
                    break
                self._exchange(*pair)
                done += 1
        return done

    def swap_between_racks(self, resource: int) -> int:
        """Swap replicas of racks that have too much or too little of a resource with other racks.

        Return the number of swaps. ``resource`` is the index of the resource: capacity, replicas,
        bytes or load.
        """
        n, done = len(self.task.alive), 0
        index = _ReplicaIndex(self.task, self.state.broker, self.task.weight[resource])
        places = np.arange(n, self.state.held.shape[1])
        for r in np.flatnonzero(self._outside(resource, places, 0)).tolist():
            brokers = np.flatnonzero(self.task.cluster.rack_of_broker == r).tolist()
            for _ in range(_TRIES * len(brokers)):
                pair = self._best_pair_of_rack(index, resource, n + r, brokers)
                if pair is None:
                    break
                self._exchange(*pair)
                done += 1
        return done

    def _best_pair_of_rack(
        self, index: _ReplicaIndex, k: int, place: int, brokers: list[int]
    ) -> tuple[int, int] | None:
        # ``brokers`` are the rack's; the list is sorted in place, those with the most to spare
        # first.
        held, task = self.state.held, self.task
        excess = self._amount_above_limit(k, place)
        if not excess:
            return None
        spare = (held - task.low if excess > 0 else task.high - held)[k]
        brokers.sort(key=lambda b: -int(spare[b]))
        for b in brokers:
            most = max(int(spare[b]), 0)
            part = min(excess, most) if excess > 0 else max(excess, -most)
            pair = self._best_pair(index, k, b, part, to_other_racks=True)
            if pair is not None:
                return pair
        return None

    def _amount_above_limit(self, resource: int, place: int) -> int:
        """Return how far a broker or rack is above its balance limits; negative if it is below.

        The result is 0 between the lower and the upper limit. ``resource`` is the index of the
        resource (capacity, replicas, bytes or load), ``place`` that of the broker or rack.
        """
        over = int(self.state.held[resource, place] - self.task.high[resource, place])
        if over > 0:
            return over
        return -max(int(self.task.low[resource, place] - self.state.held[resource, place]), 0)

    def swap_back_moved_replicas(self) -> int:
        """Swap replicas back to the brokers that they had before the reassignment, where it saves
        bytes.

        A replica returns if another one, which is cheaper to copy, can take its new place. Return
        the number of swaps.
        """
        task, state, done = self.task, self.state, 0
        index = _ReplicaIndex(task, state.broker, task.cost)
        moved = self._current_fate(task.partition_of_replica, state.broker) < 0
        slots = np.flatnonzero(moved & ~state.is_fixed)
        largest = max(int(task.cluster.replication_factors.max(initial=1)), 1)
        size = max(1, _CHUNK // (2 * _SUBSTITUTES * largest))
        pairs = [
            self._best_substitutes(index, slots[i : i + size]) for i in range(0, len(slots), size)
        ]
        if not pairs:
            return 0
        s, t = (np.concatenate(side) for side in zip(*pairs, strict=True))
        order = np.argsort(self.swap_cost_change(s, t), kind="stable")
        for i in range(0, len(order), _BATCH):
            done += self._exchange_all(s[order[i : i + _BATCH]], t[order[i : i + _BATCH]])
        return done

    def _exchange_all(self, s: Ints, t: Ints) -> int:
        task, done = self.task, 0
        while len(s):
            price = self.swap_cost_change(s, t)
            good = np.flatnonzero(
                price < -_LEAST_GAIN * (1.0 + task.cost[task.partition_of_replica[s]])
            )
            s, t = (side[good[np.argsort(price[good], kind="stable")]] for side in (s, t))
            first = self._select_independent_swaps(s, t)
            for i, j in zip(s[first].tolist(), t[first].tolist(), strict=True):
                self._exchange(i, j)
            done += int(first.sum())
            s, t = s[~first], t[~first]
        return done

    def _select_independent_swaps(self, first_replica: Ints, second_replica: Ints) -> Bools:
        """Select swaps that do not affect each other, so that all can be made at once (bool[n]).

        A selected swap shares no broker, partition or rack with an earlier selected one.
        ``first_replica`` and ``second_replica`` have the two replicas of each swap.
        """
        task, rack = self.task, self.task.cluster.rack_of_broker
        n = len(task.alive)
        brokers = [
            self.state.broker[side].astype(np.int64) for side in (first_replica, second_replica)
        ]
        touched_by_pair = [
            *brokers,
            *(n + task.partition_of_replica[side] for side in (first_replica, second_replica)),
        ]
        if task.balanced_rack_count > 0:
            same = rack[brokers[0]] == rack[brokers[1]]
            first, held = n + len(task.factor), self.state.held
            most = np.abs(
                task.weight[:, task.partition_of_replica[second_replica]]
                - task.weight[:, task.partition_of_replica[first_replica]]
            ).sum(axis=1)
            spare = np.minimum(held - task.low, task.high - held)[:, n:]
            calm = np.ones(int(rack.max()) + 1, bool)
            calm[: task.balanced_rack_count] = (spare >= most[:, None]).all(axis=0)
            touched_by_pair += [
                np.where(same | calm[rack[b]], -1, first + rack[b]) for b in brokers
            ]
        touched: set[int] = set()
        out = np.zeros(len(first_replica), bool)
        for i, keys in enumerate(np.array(touched_by_pair).T.tolist()):
            if touched.isdisjoint(keys):
                out[i] = True
                touched.update(key for key in keys if key >= 0)
        return out

    def swap_cost_change(self, first_replica: Ints, second_replica: Ints) -> Floats:
        """Return how much the cost of the placement changes with each of several swaps
        (float64[n]).

        The cost is the bytes copied plus penalties for imbalance. The change is infinite if a rule
        forbids the swap. ``first_replica`` and ``second_replica`` have the two replicas of each
        swap.
        """
        task, state = self.task, self.state
        p, q, b, c = (
            task.partition_of_replica[first_replica],
            task.partition_of_replica[second_replica],
            state.broker[first_replica],
            state.broker[second_replica],
        )
        p_into, q_into = self._current_fate(p, c), self._current_fate(q, b)
        p_kept, q_kept = self._current_fate(p, b) >= 0, self._current_fate(q, c) >= 0
        bad = state.is_fixed[first_replica] | state.is_fixed[second_replica] | (b == c)
        bad |= (p_into == LEAVE) | (q_into == LEAVE)
        bad |= (p_into < 0) & (~task.receives[c] | (task.closed[p] & p_kept))
        bad |= (q_into < 0) & (~task.receives[b] | (task.closed[q] & q_kept))
        bad |= self._has_replica(p, c) | self._has_replica(q, b)
        out = np.asarray(task.cost[p] * ((p_into < 0) - 1.0 * ~p_kept), np.float64)
        out += task.cost[q] * ((q_into < 0) - 1.0 * ~q_kept)
        out += self._penalty_change(p, q, b, c, 0)
        racks = task.cluster.rack_of_broker
        apart = np.flatnonzero((racks[b] != racks[c]) & ~bad)
        if len(apart):
            p, q, b, c = p[apart], q[apart], racks[b[apart]], racks[c[apart]]
            breaches = self._breach_change(p, b, c) + self._breach_change(q, c, b)
            out[apart] += state.penalty[len(KINDS)] * breaches
            if task.balanced_rack_count:
                n = len(task.alive)
                out[apart] += self._penalty_change(p, q, b + n, c + n, len(KINDS) + 1)
        out[bad] = np.inf
        return out

    def _best_pair(
        self, index: _ReplicaIndex, k: int, b: int, excess: int, *, to_other_racks: bool = False
    ) -> tuple[int, int] | None:
        if not excess or self._pairs_looked_at > _MOST_PAIRS:
            return None
        s, t = self._find_swap_pairs(index, k, b, excess, to_other_racks=to_other_racks)
        self._pairs_looked_at += len(s)
        if len(s) > _PRICED:
            best = self._select_cheapest_estimates(s, t, to_other_racks=to_other_racks)
            s, t = s[best], t[best]
        if not len(s):
            return None
        price = self.swap_cost_change(s, t)
        i = int(price.argmin())
        return (int(s[i]), int(t[i])) if price[i] < -_LEAST_GAIN else None

    def _find_swap_pairs(
        self,
        index: _ReplicaIndex,
        resource: int,
        first_broker: int,
        excess: int,
        *,
        to_other_racks: bool,
    ) -> tuple[Ints, Ints]:
        """Find pairs of replicas whose swap lowers a broker's use of a resource by about
        ``excess``.

        Args:
            index: replicas of each broker, sorted by their use of the resource.
            resource: index of the resource: capacity, replicas, bytes or load.
            first_broker: broker of the first replica of each pair.
            excess: the wanted decrease.
            to_other_racks: whether the second replica must be in another rack.
        """
        weight, broker, owner = (
            self.task.weight[resource],
            self.state.broker,
            self.task.partition_of_replica,
        )
        own = index.of(first_broker)
        own = own[(broker[own] == first_broker) & ~self.state.is_fixed[own]]
        pairs = [(own[:0], own[:0])]
        partners = (
            self._partners(resource, first_broker, excess, to_other_racks=to_other_racks)
            if len(own)
            else ()
        )
        for c in partners:
            theirs = index.of(c)
            near = np.searchsorted(weight[owner[theirs]], weight[owner[own]] - excess)
            at = near[:, None] + np.arange(_NEAREST) - _NEAREST // 2
            exists = (at >= 0) & (at < len(theirs))
            t = theirs[at[exists]]
            s = np.broadcast_to(own[:, None], at.shape)[exists]
            still = broker[t] == c
            pairs.append((s[still], t[still]))
        s, t = (np.concatenate(side) for side in zip(*pairs, strict=True))
        return s, t

    def _partners(self, k: int, b: int, excess: int, *, to_other_racks: bool) -> list[int]:
        # The brokers with most room for b's excess, or with most to spare if b lacks some.
        task, held, rack = self.task, self.state.held, self.task.cluster.rack_of_broker
        n = len(task.alive)
        room = (task.high - held if excess > 0 else held - task.low)[k, :n].astype(np.float64)
        room[rack == rack[b] if to_other_racks else b] = -np.inf
        order = np.argsort(-room, kind="stable")
        near = order[rack[order] == rack[b]][:_RACK_PARTNERS]
        chosen = np.concatenate([order[:_PARTNERS], near])
        return list(np.unique(chosen[np.isfinite(room[chosen])]).tolist())

    def _select_cheapest_estimates(
        self, first_replica: Ints, second_replica: Ints, *, to_other_racks: bool
    ) -> Ints:
        """Return the indices of the 4096 swaps with the lowest estimated cost.

        The exact cost of these is computed afterwards. The estimate assumes that both replicas are
        copied and that no rule forbids the swap. ``first_replica`` and ``second_replica`` have the
        two replicas of each swap. With ``to_other_racks``, penalties of racks count too.
        """
        task, broker, rack = self.task, self.state.broker, self.task.cluster.rack_of_broker
        p, q, b, c = (
            task.partition_of_replica[first_replica],
            task.partition_of_replica[second_replica],
            broker[first_replica],
            broker[second_replica],
        )
        rough = self._penalty_change(p, q, b, c, 0) + task.cost[p] + task.cost[q]
        if to_other_racks:
            n = len(task.alive)
            rough += self._penalty_change(p, q, n + rack[b], n + rack[c], len(KINDS) + 1)
        return np.argpartition(rough, _PRICED)[:_PRICED]

    def _best_substitutes(self, index: _ReplicaIndex, slots: Ints) -> tuple[Ints, Ints]:
        task, cluster = self.task, self.task.cluster
        owner = task.partition_of_replica[slots]
        steps = np.concatenate([np.arange(_SUBSTITUTES), -1 - np.arange(_SUBSTITUTES)])
        returning, substitutes = [slots[:0]], [slots[:0]]
        for o in range(int(cluster.replication_factors[owner].max(initial=0))):
            exists = o < cluster.replication_factors[owner]
            place = np.where(exists, cluster.start[owner] + o, 0)
            exists &= task.fate[place] != LEAVE
            target = cluster.replica[place]
            begin, until = index.start[target], index.before(target, owner)
            at = np.where(steps < 0, until[:, None], begin[:, None]) + steps
            # A replica among the cheapest must not come twice.
            fits = exists[:, None] & (at < until[:, None]) & (at >= begin[:, None])
            fits &= (steps >= 0) | (at >= begin[:, None] + _SUBSTITUTES)
            substitutes.append(index.slots[at[fits]])
            returning.append(np.broadcast_to(slots[:, None], at.shape)[fits])
        s, t = np.concatenate(returning), np.concatenate(substitutes)
        price = self.swap_cost_change(s, t)
        good = np.flatnonzero(
            price < -_LEAST_GAIN * (1.0 + task.cost[task.partition_of_replica[s]])
        )
        good = good[np.lexsort((price[good], s[good]))]
        good = good[np.diff(s[good], prepend=-1) != 0]
        return s[good], t[good]

    def _exchange(self, s: int, t: int) -> None:
        task, state = self.task, self.state
        b, c = state.broker[[s, t]].tolist()
        more = (
            task.weight[:, task.partition_of_replica[t]]
            - task.weight[:, task.partition_of_replica[s]]
        )
        n, rack = len(task.alive), task.cluster.rack_of_broker
        state.broker[[s, t]] = c, b
        for at, sign in ((b, 1), (c, -1)):
            state.held[:, at] += sign * more
            if task.balanced_rack_count:
                state.held[:, n + rack[at]] += sign * more

    def _outside(self, k: int, place: NDArray[np.integer], more: Ints | int) -> Ints:
        # ``k`` is the kind of amount: capacity, replicas, bytes or load.
        held, task = self.state.held[k][place] + more, self.task
        out: Ints = np.maximum(np.maximum(held - task.high[k][place], task.low[k][place] - held), 0)
        return out

    def _penalty_change(
        self,
        partition: Ints,
        other_partition: Ints,
        place: NDArray[np.integer],
        other_place: NDArray[np.integer],
        first: int,
    ) -> Floats:
        """Return how much the penalties for imbalance rise if two brokers (or two racks) swap
        replicas.

        A replica of ``partition`` goes from ``place`` to ``other_place``, one of
        ``other_partition`` from ``other_place`` to ``place``. All are arrays with one element per
        swap. ``first`` is the index of the first penalty: 0 for brokers, K + 1 for racks (K
        resources).
        """
        out = np.zeros(len(partition))
        for k in self.kinds:
            more = self.task.weight[k][other_partition] - self.task.weight[k][partition]
            after = self._outside(k, place, more) + self._outside(k, other_place, -more)
            now = self._outside(k, place, 0)
            out += self.state.penalty[first + k] * (after - now - self._outside(k, other_place, 0))
        return out

    def _current_fate(self, p: Ints, b: NDArray[np.integer]) -> NDArray[np.int8]:
        # FREE (may move), STAY or LEAVE (is removed); -1 without a replica.
        task, cluster = self.task, self.task.cluster
        out = np.full(len(p), -1, np.int8)
        begin, factor = cluster.start[p], cluster.replication_factors[p]
        for o in range(int(factor.max(initial=0))):
            at = np.where(o < factor, begin + o, 0)
            here = (o < factor) & (cluster.replica[at] == b)
            out[here] = task.fate[at[here]]
        return out

    def _has_replica(self, p: Ints, b: NDArray[np.integer]) -> Bools:
        return self._replica_counts(p, b, np.arange(len(self.task.alive))) > 0

    def _replica_counts(
        self, partition: Ints, place: NDArray[np.integer], place_of_broker: NDArray[np.integer]
    ) -> Ints:
        """Return how many replicas of a partition a broker or rack has, for arrays of such pairs.

        Args:
            partition: partition of each pair.
            place: broker or rack of each pair.
            place_of_broker: number of each broker itself, or of its rack.
        """
        out = np.zeros(len(partition), np.int64)
        begin, factor = self.task.first_replica[partition], self.task.factor[partition]
        for j in range(int(factor.max(initial=0))):
            at = self.state.broker[np.where(j < factor, begin + j, 0)]
            out += (j < factor) & (place_of_broker[at] == place)
        return out

    def _breach_change(self, p: Ints, out: NDArray[np.integer], into: NDArray[np.integer]) -> Ints:
        task = self.task
        rack, factor = task.cluster.rack_of_broker, task.factor[p]
        less, more = self._replica_counts(p, out, rack), self._replica_counts(p, into, rack)
        change: Ints = (
            1 * (less <= task.rack_low[factor, out]) - (less > task.rack_high[factor, out])
            + (more >= task.rack_high[factor, into]) - (more < task.rack_low[factor, into])
        )  # fmt: skip
        return change


class _ReplicaIndex:
    """Index of each broker's replicas, sorted by a key of their partitions, such as their size.

    It does not follow later changes of the placement. Replicas are sorted by broker, then by the
    key's rank. In this example, broker 0 has three replicas and broker 1 has two::

        broker      0  0  0 | 1  1
        rank        2  5  5 | 0  7
        slots       8  3  6 | 1  4      replicas in this order
        start       0         3    5    where each broker's replicas begin
    """

    def __init__(self, task: ReplicaTask, broker: NDArray[np.int32], key: Ints) -> None:
        _, rank = np.unique(key, return_inverse=True)
        self.rank, self.width = rank.astype(np.int64), len(key) + 1
        numbers = broker.astype(np.int64) * self.width + self.rank[task.partition_of_replica]
        self.slots = np.argsort(numbers, kind="stable")
        self.numbers = numbers[self.slots]
        self.start = np.searchsorted(broker[self.slots], np.arange(len(task.alive) + 1))

    def of(self, b: int) -> Ints:
        return self.slots[self.start[b] : self.start[b + 1]]

    def before(self, b: NDArray[np.integer], p: Ints) -> Ints:
        # The begin of broker b's replicas with a key of at least p's key.
        out: Ints = np.searchsorted(self.numbers, b.astype(np.int64) * self.width + self.rank[p])
        return out
