"""Brokers chosen replica by replica: the initial placement, and single moves of the local search.

`place_initially` is a greedy construction. Replicas that may stay keep their brokers. Partitions
that lose replicas drop those whose removal costs least. Partitions that gain replicas get the
cheapest broker at the final penalties, the partitions with the most expensive copies first.

In a sweep of the local search, each replica in turn goes to the cheapest broker. `MoveCandidates`
selects the partitions of which some replica may gain by a move; `sweep_partitions` visits only
these. For each partition it computes once what one more replica adds to the penalties of every
broker and rack. These are plain loops that the compiler vectorises, and their values are used for
all replicas of the partition.
"""

# Types stand in the kernels' signatures; each gets the whole state.
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - see above
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import NoFeasiblePlanError
from partage.kernels import Float64s, Int64Blocks, Int64s, kernel, kernel_helper
from partage.model import ReplicaTask
from partage.model.replicas import KINDS, LEAVE, STAY
from partage.solve.replicas.penalties import (
    add_replica,
    fate_of_current_replica,
    has_replica,
    penalty_change,
    rack_penalty_change,
    rack_rule_change,
)
from partage.solve.replicas.problem import (
    Bools,
    Floats,
    Ints,
    SearchArrays,
    SearchState,
    sum_by_broker_and_rack,
)

__all__ = ["MoveCandidates", "SweepArrays", "place_initially", "sweep_partitions"]

#: The price of a broker to which a replica must not go.
_FORBIDDEN = 1e300
#: Most brokers below their bands for which the gain of each is computed. With more of them, one
#: estimate for all selects the candidates.
_MOST_SHORT_BROKERS = 24
#: Least gain of a move, as a part of a byte and of its cost: a rounding error is no gain. Half of
#: it selects candidates, so that none is missed.
_LEAST_GAIN = 1e-6


class SweepArrays(NamedTuple):
    """Work arrays for the costs of placing one partition's replicas on each broker and rack.

    The local search visits one partition after another and fills the arrays anew each time. K is
    the number of resources: capacity, replicas, bytes and load.

    Attributes:
        excess: int64[3, K, brokers + racks], by how much each broker or rack is above its balance
            limits, below them, and outside them.
        added: float64[brokers + racks], the penalty for imbalance that one more replica of the
            current partition adds.
        move_cost: float64[brokers], 0 for a new broker, minus the cost of a copy for a broker with
            a current replica of the partition, `_FORBIDDEN` for a broker that must not get one.
        rack_cost: float64[racks], the penalty of one more replica in a rack.
        rack_count: int64[racks], the number of the partition's replicas in a rack.
    """

    excess: Int64Blocks
    added: Float64s
    move_cost: Float64s
    rack_cost: Float64s
    rack_count: Int64s

    @classmethod
    def for_task(cls, task: ReplicaTask) -> SweepArrays:
        """Create the cost arrays for one pass of the local search, filled with zeros.

        ``task`` is the replica reassignment, whose numbers of brokers and racks decide their sizes.
        """
        (kinds, places), racks = task.low.shape, task.rack_low.shape[1]
        return cls(
            np.zeros((3, kinds, places), np.int64), np.zeros(places), np.zeros(len(task.alive)),
            np.zeros(racks), np.zeros(racks, np.int64),
        )  # fmt: skip


@kernel("int64(SearchArrays, SweepArrays, int64[::1])", SearchArrays, SweepArrays)
def sweep_partitions(placement, costs, candidates):
    """Move each replica of some partitions to its cheapest broker; return the number of moves.

    A replica only moves if that lowers the cost: the bytes copied plus penalties for imbalance.

    Args:
        placement: the broker of each replica, with totals and balance limits; changed in place.
        costs: arrays for the costs on each broker and rack; overwritten.
        candidates: index numbers of the partitions to visit.
    """
    start, rack_cost = placement.start, costs.rack_cost
    n, moved = len(placement.rack), 0
    for place in range(len(costs.added)):
        _update_excess(placement.held, placement.low, placement.high, costs.excess, place)
    for b in range(n):
        costs.move_cost[b] = 0.0 if placement.receives[b] else _FORBIDDEN
    for i in range(len(candidates)):
        p = candidates[i]
        factor = start[p + 1] - start[p]
        _compute_added(costs.excess, placement.weight, placement.penalty, p, n, costs.added)
        _mark_replicas(placement, costs, p, 1)
        for r in range(len(rack_cost)):
            rack_cost[r] = _rack_cost(placement, costs, factor, r)
        # The preferred leader (the first replica) comes last: it moves only if the others do not
        # restore balance.
        for s in range(start[p + 1] - 1, start[p] - 1, -1):
            if placement.fixed[s] == 0:
                moved += _move_replica(placement, costs, p, s)
        _mark_replicas(placement, costs, p, -1)
    return moved


@kernel_helper
def _update_excess(held, low, high, excess, place):
    for k in range(len(held)):
        over, under = held[k, place] - high[k, place], low[k, place] - held[k, place]
        excess[0, k, place] = over
        excess[1, k, place] = under
        excess[2, k, place] = max(over, under, 0)


@kernel_helper
def _penalty_change(excess, weight, penalty, p, place, sign, first):
    # ``sign`` 1: it gets a replica of p; -1: it loses one. ``first`` is where its penalties begin
    # in the vector: 0 for brokers, K + 1 for racks.
    total = 0.0
    for k in range(len(weight)):
        w = sign * weight[k, p]
        if w != 0:
            total += penalty[first + k] * (
                max(excess[0, k, place] + w, excess[1, k, place] - w, 0) - excess[2, k, place]
            )
    return total


@kernel_helper
def _compute_added(excess, weight, penalty, p, n, added):
    for b in range(len(added)):
        added[b] = 0.0
    for k in range(len(weight)):
        w, begin, end, first = weight[k, p], 0, n, k
        while w > 0 and begin < end:
            for b in range(begin, end):
                added[b] += penalty[first] * (
                    max(excess[0, k, b] + w, excess[1, k, b] - w, 0) - excess[2, k, b]
                )
            begin, end, first = n, len(added) if begin == 0 else n, len(weight) + 1 + k


@kernel_helper
def _mark_replicas(placement, costs, p, sign):
    # ``sign`` -1 undoes it.
    old_start, old, fate, receives = (
        placement.old_start,
        placement.old,
        placement.fate,
        placement.receives,
    )
    move_cost = costs.move_cost
    for o in range(old_start[p], old_start[p + 1]):
        b = old[o]
        move_cost[b] = 0.0 if receives[b] else _FORBIDDEN
        if sign > 0:
            move_cost[b] = _FORBIDDEN if fate[o] == 2 else -1.0 * placement.cost[p]
    for s in range(placement.start[p], placement.start[p + 1]):
        b = placement.broker[s]
        costs.rack_count[placement.rack[b]] += sign
        if sign > 0:
            move_cost[b] = _FORBIDDEN
        elif fate_of_current_replica(old_start, old, fate, p, b) < 0:
            move_cost[b] = 0.0 if receives[b] else _FORBIDDEN


@kernel_helper
def _rack_cost(placement, costs, factor, r):
    n, count = len(placement.rack), costs.rack_count[r]
    price = placement.penalty[len(placement.held)] * (
        (count >= placement.rack_high[factor, r]) - 1.0 * (count < placement.rack_low[factor, r])
    )
    if n < len(costs.added):
        price += costs.added[n + r]
    return price


@kernel_helper
def _cheapest_broker(placement, costs, replica_count, own_rack, restricted, limit):
    """Return the cheapest broker for a replica, or -1 if no broker costs less than ``limit``.

    Args:
        placement: the broker of each replica, with totals and balance limits.
        costs: costs on each broker and rack for the replica's partition.
        replica_count: replication factor of the partition.
        own_rack: rack of the replica's current broker.
        restricted: whether the replica may only return to a current broker or repair the rack rule.
        limit: cost below which a broker is an improvement.
    """
    rack, rack_low, rack_high = placement.rack, placement.rack_low, placement.rack_high
    added, move_cost, rack_cost, rack_count = (
        costs.added, costs.move_cost, costs.rack_cost, costs.rack_count,
    )  # fmt: skip
    best, at = limit, -1
    fall = 1 * (rack_count[own_rack] <= rack_low[replica_count, own_rack])
    fall -= rack_count[own_rack] > rack_high[replica_count, own_rack]
    for c in range(len(rack)):
        price = added[c] + move_cost[c] + rack_cost[rack[c]]
        if price < best:
            r = rack[c]
            if restricted and move_cost[c] >= 0.0:
                rise = 1 * (rack_count[r] >= rack_high[replica_count, r])
                rise -= rack_count[r] < rack_low[replica_count, r]
                if r == own_rack or fall + rise >= 0:
                    continue
            best, at = price, c
    return at


@kernel_helper
def _add_replica(placement, costs, p, b, sign):
    # ``sign`` -1 removes it.
    n, kinds, added = len(placement.rack), len(placement.held), costs.added
    weight, penalty = placement.weight, placement.penalty
    add_replica(placement.held, weight, placement.rack, p, b, sign)
    _update_excess(placement.held, placement.low, placement.high, costs.excess, b)
    added[b] = _penalty_change(costs.excess, weight, penalty, p, b, 1, 0)
    if n < len(added):
        r = n + placement.rack[b]
        _update_excess(placement.held, placement.low, placement.high, costs.excess, r)
        added[r] = _penalty_change(costs.excess, weight, penalty, p, r, 1, kinds + 1)


@kernel_helper
def _move_replica(placement, costs, partition, replica):
    """Move a replica to its cheapest broker if that lowers the cost; return 1 if it moved, else 0.

    ``partition`` and ``replica`` are index numbers. The ``placement`` and the ``costs`` on each
    broker are updated.
    """
    rack, weight, penalty, move_cost = (
        placement.rack,
        placement.weight,
        placement.penalty,
        costs.move_cost,
    )
    rack_cost, rack_count = costs.rack_cost, costs.rack_count
    n, kinds, b = len(rack), len(placement.held), placement.broker[replica]
    factor = placement.start[partition + 1] - placement.start[partition]
    own, move = rack[b], 1.0 * placement.cost[partition]
    # A move from a current broker costs a copy. A replica that was moved already costs one anyway.
    is_current = (
        fate_of_current_replica(placement.old_start, placement.old, placement.fate, partition, b)
        >= 0
    )
    leave = penalty[kinds] * (
        (rack_count[own] <= placement.rack_low[factor, own])
        - 1.0 * (rack_count[own] > placement.rack_high[factor, own])
    )
    if n < len(costs.added):
        leave += _penalty_change(costs.excess, weight, penalty, partition, n + own, -1, kinds + 1)
    limit = -_penalty_change(costs.excess, weight, penalty, partition, b, -1, 0) - leave
    limit -= _LEAST_GAIN * (1.0 + move)
    if is_current:
        limit -= move
    stays, rack_cost[own] = rack_cost[own], -leave
    restricted = placement.closed[partition] != 0 and is_current
    at = _cheapest_broker(placement, costs, factor, own, restricted, limit)
    rack_cost[own] = stays
    if at < 0:
        return 0
    placement.broker[replica] = at
    move_cost[at] = _FORBIDDEN
    move_cost[b] = 0.0 if placement.receives[b] else _FORBIDDEN
    if is_current:
        move_cost[b] = -move
    rack_count[own] -= 1
    rack_count[rack[at]] += 1
    _add_replica(placement, costs, partition, b, -1)
    _add_replica(placement, costs, partition, at, 1)
    for r in (own, rack[at]):
        rack_cost[r] = _rack_cost(placement, costs, factor, r)
    return 1


class MoveCandidates:
    """Filter that finds the partitions whose moves may lower the cost, to skip all others.

    A move may help if a broker or rack is outside its balance limits, or if a replica can return to
    the broker that it had before the reassignment. Results are cached until a partition's brokers
    change.

    Attributes:
        state: the placement that the search changes.
        is_current: bool[replicas], whether the planned broker of a replica has the partition now.
        breaks_rule: bool[partitions], whether the partition breaks the rack rule.
        has_vacancy: bool[partitions], whether a current broker of the partition gets no replica of
            it in the plan.
    """

    def __init__(self, state: SearchState) -> None:
        self.state, task = state, state.task
        partitions = len(task.factor)
        self.is_current = np.zeros(len(state.broker), bool)
        self.breaks_rule = np.zeros(partitions, bool)
        self.has_vacancy = np.zeros(partitions, bool)
        self._known_broker = np.full(len(state.broker), -1, np.int32)
        self._rack_demand = task.rack_low.sum(axis=1)
        self._current_brokers = np.bincount(
            task.current_partition[task.fate != LEAVE], minlength=partitions
        )
        self._kinds = [k for k in range(len(KINDS)) if task.weight[k].any()]

    def find_candidates(self) -> Ints:
        """Return the partitions that may lower the cost if a replica moves (int64[n]).

        The cost is the bytes copied plus penalties for imbalance. The check is optimistic:
        partitions that are not returned cannot lower the cost, but some that are returned cannot
        either.
        """
        state, task, owner = self.state, self.state.task, self.state.task.partition_of_replica
        n = len(task.alive)
        self._update()
        bands = _BandPenalties(state, self._kinds)
        relief = bands.penalty_reduction(owner, state.broker, 0)
        if task.balanced_rack_count:
            racks = n + task.cluster.rack_of_broker[state.broker]
            relief += np.maximum(bands.penalty_reduction(owner, racks, len(KINDS) + 1), 0.0)
        rack_gain = bands.largest_gain(n, state.held.shape[1], len(KINDS) + 1)
        price = np.where(self.is_current, task.cost[owner], 0)
        price = price + _LEAST_GAIN / 2 * (1.0 + task.cost[owner])
        out = self._can_gain_by_return(bands, relief, rack_gain)
        out |= self.breaks_rule
        gain = bands.largest_gain(0, n, 0) + rack_gain
        may = ~state.is_fixed & (relief + gain[owner] > price)
        short = np.flatnonzero(bands.is_short[:n] & task.receives)
        if len(short) <= _MOST_SHORT_BROKERS:
            most, is_open = np.zeros(len(out)), np.zeros(len(out), bool)
            is_open[owner[may]] = True
            undecided = np.flatnonzero(is_open & ~out)
            for b in short.tolist():
                gains = bands.penalty_reduction(undecided, np.full(len(undecided), b), 0, sign=1)
                most[undecided] = np.maximum(most[undecided], gains)
            may &= relief + (most + rack_gain)[owner] > price
        out[owner[may]] = True
        return np.flatnonzero(out)

    def _can_gain_by_return(
        self, bands: _BandPenalties, relief: Floats, rack_gain: Floats
    ) -> Bools:
        """Return which partitions may lower the cost by a replica's return to its old broker, as a
        mask.

        The old broker has the partition before the reassignment, so that nothing is copied.

        Args:
            bands: penalties of brokers and racks outside their balance limits.
            relief: float64[replicas], how much penalties fall if a replica leaves its broker.
            rack_gain: float64[partitions], the most that penalties of racks can fall.
        """
        state, task, cluster = self.state, self.state.task, self.state.task.cluster
        rack, out = cluster.rack_of_broker, np.zeros(len(task.factor), bool)
        partitions = np.flatnonzero(self.has_vacancy & ~self.breaks_rule)
        factor, old = task.factor[partitions], cluster.start[partitions]
        slots = [task.first_replica[partitions] + j for j in range(int(factor.max(initial=0)))]
        for o in range(int(cluster.replication_factors[partitions].max(initial=0))):
            exists = o < cluster.replication_factors[partitions]
            place = np.where(exists, old + o, 0)
            target = cluster.replica[place]
            exists &= task.fate[place] != LEAVE
            count = np.zeros(len(partitions), np.int64)
            for j, slot in enumerate(slots):
                s = np.where(j < factor, slot, 0)
                exists &= (j >= factor) | (state.broker[s] != target)
                count += (j < factor) & (rack[state.broker[s]] == rack[target])
            full = count >= task.rack_high[factor, rack[target]]
            gains = bands.penalty_reduction(partitions, target, 0, sign=1) + rack_gain[partitions]
            for j, slot in enumerate(slots):
                s = np.where(j < factor, slot, 0)
                same = rack[state.broker[s]] == rack[target]
                saved = np.where(self.is_current[s], 0, task.cost[partitions])
                least = _LEAST_GAIN / 2 * (1.0 + task.cost[partitions])
                gain = relief[s] + gains + saved > least
                gain &= exists & (j < factor) & ~state.is_fixed[s] & (same | ~full)
                out[partitions[gain]] = True
        return out

    def _update(self) -> None:
        broker, task, cluster = self.state.broker, self.state.task, self.state.task.cluster
        changed = np.zeros(len(task.factor), bool)
        changed[task.partition_of_replica[self._known_broker != broker]] = True
        slots = np.flatnonzero(changed[task.partition_of_replica])
        owner, at = task.partition_of_replica[slots], broker[slots]
        current = np.zeros(len(slots), bool)
        for o in range(int(cluster.replication_factors.max(initial=0))):
            exists = o < cluster.replication_factors[owner]
            place = np.where(exists, cluster.start[owner] + o, 0)
            current |= exists & (cluster.replica[place] == at) & (task.fate[place] != LEAVE)
        self.is_current[slots], self._known_broker[slots] = current, at
        filled = np.bincount(owner[current], minlength=len(changed))
        self.has_vacancy[changed] = (self._current_brokers > filled)[changed]
        self.breaks_rule[changed] = self._find_rack_breaches(owner, at)[changed]

    def _find_rack_breaches(self, owner: Ints, broker_of_replica: NDArray[np.int32]) -> Bools:
        """Return the partitions that violate the rack rule, as a mask (bool[partitions]).

        The rack rule limits how many replicas of a partition a rack has. ``owner`` and
        ``broker_of_replica`` are the partition and the broker of each replica.
        """
        task = self.state.task
        racks, partitions = task.rack_low.shape[1], len(task.factor)
        key = np.sort(owner * racks + task.cluster.rack_of_broker[broker_of_replica])
        first = np.flatnonzero(np.diff(key, prepend=-1))
        count = np.diff(first, append=len(key))
        of, rack = key[first] // racks, key[first] % racks
        low, high = (side[task.factor[of], rack] for side in (task.rack_low, task.rack_high))
        filled = np.bincount(of, weights=np.minimum(count, low), minlength=partitions)
        over = np.bincount(of, weights=count > high, minlength=partitions)
        out: Bools = (over > 0) | (filled < self._rack_demand[task.factor])
        return out


class _BandPenalties:
    """Penalties of all brokers and racks that are outside their balance limits.

    They are computed when the object is created. Its methods return how much the penalties change
    if one replica is added or removed.
    """

    def __init__(self, state: SearchState, kinds: list[int]) -> None:
        task = state.task
        self.weight, self.kinds, self.penalty = task.weight, kinds, state.penalty
        self.over, self.under = state.held - task.high, task.low - state.held
        self.outside = np.maximum(np.maximum(self.over, self.under), 0)
        self.is_short: Bools = np.asarray((self.under > 0).any(axis=0))

    def penalty_reduction(
        self, partition: Ints, place: NDArray[np.integer], first: int, sign: int = -1
    ) -> Floats:
        """Return how much the penalty of a broker or rack falls if it loses or gets a replica.

        The penalty is a cost for each unit of a resource outside the balance limits. Replicas are
        given as arrays, and the result has one value for each.

        Args:
            partition: partition of each replica.
            place: broker or rack of each replica.
            first: index of the first penalty: 0 for brokers, K + 1 for racks (K resources).
            sign: -1 if the replica is lost, 1 if it is added.
        """
        total = np.zeros(len(partition))
        for k in self.kinds:
            w = sign * self.weight[k][partition]
            over, under = self.over[k][place] + w, self.under[k][place] - w
            after = np.maximum(np.maximum(over, under), 0)
            total += self.penalty[first + k] * (self.outside[k][place] - after)
        return total

    def largest_gain(self, begin: int, end: int, first: int) -> Floats:
        """Return the most that penalties for imbalance can fall if a broker or rack gets a replica.

        The result is an upper limit for each partition (float64[partitions]). The brokers or racks
        are those from ``begin`` to ``end`` - 1. ``first`` is the index of the first penalty.
        """
        total = np.zeros(self.weight.shape[1])
        for k in self.kinds:
            most = max(int(self.under[k, begin:end].max(initial=0)), 0)
            if most:
                total += self.penalty[first + k] * np.minimum(self.weight[k], most)
        return total


def place_initially(state: SearchState) -> None:
    """Choose a broker for each replica greedily, as the start of the local search.

    Replicas that may stay keep their brokers. ``state`` is the empty placement, which is filled in.

    Raises:
        NoFeasiblePlanError: a partition has fewer brokers than it is to have replicas.
    """
    task, cluster = state.task, state.task.cluster
    # Partitions that keep all their replicas are copied; the kernel is for the others.
    same = task.factor == cluster.replication_factors
    same[task.current_partition[task.fate == LEAVE]] = False
    old, new = same[task.current_partition], same[task.partition_of_replica]
    state.broker[new], state.fixed[new] = cluster.replica[old], task.fate[old] == STAY
    state.held += sum_by_broker_and_rack(task, task.current_partition[old], cluster.replica[old])
    order = np.argsort(-task.cost, kind="stable").astype(np.int64)
    order = order[~same[order]]
    if not len(order):
        return
    largest = int(max(task.factor.max(initial=0), cluster.replication_factors.max(initial=0)))
    kept, work = np.zeros(largest + 1, np.int64), 20 * len(order) * len(cluster.brokers)
    stuck = _place_partitions_greedily(state.kernel_arrays(), order, kept, work=work * largest)
    if stuck >= 0:
        raise NoFeasiblePlanError(*_reason(task, int(stuck)))


def _reason(task: ReplicaTask, p: int) -> tuple[str, str]:
    cluster = task.cluster
    current = slice(int(cluster.start[p]), int(cluster.start[p + 1]))
    kept = cluster.replica[current][task.fate[current] != LEAVE]
    wanted = int(task.factor[p])
    alive = int(task.alive.sum())
    name = cluster.partition_name(p)
    if wanted > alive:
        return "replication factor", f"{name} is to have {wanted} replicas on {alive} brokers"
    receivers = [cluster.brokers[b].id for b in np.flatnonzero(task.receives)]
    return "distinct brokers", (
        f"{name} is to have {wanted} replicas, keeps those on {cluster.broker_ids(kept)}, "
        f"and may be moved to {receivers} only"
    )


@kernel("int64(SearchArrays, int64[::1], int64[::1])", SearchArrays)
def _place_partitions_greedily(placement, order, buffer):
    """Place the replicas of partitions in a given order, each on the cheapest broker.

    Return the first partition that has too few brokers, or -1. Replicas that may stay keep their
    brokers. ``buffer`` is a work array, one element longer than the largest replication factor.
    """
    start, broker, old_start, old = (
        placement.start,
        placement.broker,
        placement.old_start,
        placement.old,
    )
    held, weight, rack, fate = placement.held, placement.weight, placement.rack, placement.fate
    for i in range(len(order)):
        p = order[i]
        begin, factor = start[p], start[p + 1] - start[p]
        count = 0
        for o in range(old_start[p], old_start[p + 1]):
            if fate[o] != 2:
                buffer[count] = o
                count += 1
        while count > factor:
            count = _drop_cheapest_replica(placement, p, buffer, count)
        for j in range(factor):
            broker[begin + j] = -1
        for j in range(count):
            b = old[buffer[j]]
            broker[begin + j] = b
            placement.fixed[begin + j] = fate[buffer[j]] == 1
            add_replica(held, weight, rack, p, b, 1)
    for i in range(len(order)):
        p = order[i]
        for s in range(start[p], start[p + 1]):
            if broker[s] < 0:
                b = _cheapest_initial_broker(placement, p)
                if b < 0:
                    return p
                broker[s] = b
                add_replica(held, weight, rack, p, b, 1)
    return -1


@kernel_helper
def _broker_fullness(amount, high, broker):
    """Return how full a broker is, to choose between brokers of equal cost.

    For each resource, such as bytes or leaders, the broker's use is divided by its upper limit. The
    result is the sum of these fractions.

    Args:
        amount: float64[resources, brokers], use of each resource on each broker.
        high: upper limit of each resource on each broker, in the same shape.
        broker: index of the broker.
    """
    total = 0.0
    for k in range(len(amount)):
        if high[k, broker] > 0:
            total += amount[k, broker] / high[k, broker]
    return total


@kernel_helper
def _drop_cheapest_replica(placement, partition, brokers, count):
    """Remove one replica of a partition, the one whose removal costs least; return how many remain.

    Replicas that must stay are never removed. The preferred leader goes only if that lowers the
    cost.

    Args:
        placement: the broker of each replica, with totals and balance limits.
        partition: the partition's index number.
        brokers: positions of its replicas among all current replicas; changed in place.
        count: number of its replicas.
    """
    old, rack, first = placement.old, placement.rack, placement.old_start[partition]
    factor, rack_rule = (
        placement.start[partition + 1] - placement.start[partition],
        placement.penalty[len(placement.held)],
    )
    best, at = 1e300, -1
    for j in range(count):
        if placement.fate[brokers[j]] == 1:
            continue
        b = old[brokers[j]]
        same = 0
        for other in range(count):
            if rack[old[brokers[other]]] == rack[b]:
                same += 1
        price = penalty_change(placement, b, partition, -1, 0)
        price -= 1e-6 * _broker_fullness(placement.held, placement.high, b)
        price += rack_penalty_change(placement, rack[b], partition, -1)
        price -= 1e-7 * j
        if brokers[j] == first:
            price += 1e-3
        if same > placement.rack_high[factor, rack[b]]:
            price -= rack_rule
        price -= 1e-3 * rack_rule * same
        if price < best:
            best, at = price, j
    if at < 0:
        at = count - 1
    for j in range(at, count - 1):
        brokers[j] = brokers[j + 1]
    return count - 1


@kernel_helper
def _cheapest_initial_broker(placement, p):
    rack, rack_rule = placement.rack, placement.penalty[len(placement.held)]
    best, at = 1e300, -1
    for b in range(len(rack)):
        if placement.receives[b] == 0 or has_replica(placement.start, placement.broker, p, b):
            continue
        price = penalty_change(placement, b, p, 1, 0)
        price += 1e-6 * _broker_fullness(placement.held, placement.high, b)
        price += rack_penalty_change(placement, rack[b], p, 1)
        price += rack_rule * rack_rule_change(placement, p, -1, rack[b])
        if price < best:
            best, at = price, b
    return at
