"""Penalties for brokers and racks outside their bands, and the schedule by which they rise.

The exterior penalty method: a constraint that a placement misses costs the amount that is missing
times a penalty. Penalties begin low, when only small replicas are worth a move, and rise until
being outside a band costs more than any move. So the cheapest replicas move first, and only as many
as necessary.

Source: A. V. Fiacco, G. P. McCormick, "Nonlinear Programming: Sequential Unconstrained Minimization
Techniques", Wiley 1968.

The second half holds helpers that several numba kernels share. ``arrays`` are
`problem.SearchArrays`; ``p`` is a partition, ``b`` a broker, ``place`` a broker or a rack, ``sign``
1 for an added replica and -1 for a removed one.
"""

# Types stand in the kernels' signatures; each gets the whole state.
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - see above
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partage.kernels import kernel_helper
from partage.model import ReplicaTask
from partage.solve.replicas.problem import Floats

__all__ = [
    "MANY_REPLICAS", "Penalties", "add_replica", "fate_of_current_replica", "has_replica",
    "penalty_change", "penalty_schedule", "rack_penalty_change", "rack_rule_change",
]  # fmt: skip

#: Factor from one penalty to the next. Smaller steps move fewer bytes (about a percent) and take
#: longer; from `MANY_REPLICAS` on that is seconds, and steps are larger.
_RISE, _RISE_OF_MANY, MANY_REPLICAS = 1.25, 1.6, 100_000
#: A rack's penalty as a part of its brokers': brokers rank before racks.
_RACK_PART = 0.3
#: The first penalty as a part of the cheapest move, the last of the schedule in dearest moves.
_FIRST, _LAST = 0.4, 4.0
#: Penalty of a byte outside its band in the last round, in bytes moved: balance ranks before moves.
_BYTE_AT_THE_END = 1e6
#: Factor by which each kind outweighs the next in the last round.
_OUTWEIGHS = 1e3
#: Factors for capacity and for the rack rule in the last round. Capacity is a hard limit: one byte
#: too many outweighs any breach of the rack rule.
_ROOM, _RACK_RULE = 1e8, 1e6


@dataclass(frozen=True, eq=False)
class Penalties:
    """Cost of one unit of imbalance on a broker or rack, in the same unit as moved bytes.

    The local search minimises these costs together with the bytes that it moves. The four resources
    of a broker or rack are capacity, replicas, bytes and load.

    Attributes:
        broker: float64[4], for each resource the cost of a unit outside a broker's balance limits.
        rack_rule: cost of one replica that breaks the rack rule.
        rack: float64[4], for each resource the cost of a unit outside a rack's balance limits.
    """

    broker: Floats
    rack_rule: float
    rack: Floats

    @property
    def to_array(self) -> Floats:
        """All penalties as one array for compiled kernels (float64[9]).

        Brokers are at 0 to 3, the rack rule at 4, racks at 5 to 8.
        """
        return np.concatenate([self.broker, [self.rack_rule], self.rack])

    def with_loose_bytes(self) -> Penalties:
        """Return a copy with low penalties for uneven bytes, and none for uneven load.

        The local search uses it to repair brokers with too many or too few replicas.
        """
        broker, rack = self.broker.copy(), self.rack.copy()
        broker[2:], rack[2:] = (0.5, 0.0), 0.0
        return Penalties(broker, self.rack_rule, rack)


def penalty_schedule(task: ReplicaTask) -> list[Penalties]:
    """Return the penalties for imbalance in each round of the local search, from low to high.

    In the last round, any imbalance costs more than any move of a replica. If partitions of
    ``task`` may only make unavoidable moves, only the last round is returned.
    """
    last = _final_penalties(task)
    return [last] if task.closed.all() else [*_rising_penalties(task), last]


def _rising_penalties(task: ReplicaTask) -> list[Penalties]:
    cheapest, dearest = _move_costs(task)
    mean = _mean_weight(task)
    total = float(task.cost.sum())
    last, first = _LAST * dearest, cheapest * _FIRST
    rise = _RISE if int(task.first_replica[-1]) < MANY_REPLICAS else _RISE_OF_MANY
    steps = max(1, int(np.ceil(np.log(last / cheapest) / np.log(rise))))
    # A byte outside its band costs as much as one or two moved bytes. The penalties of a replica
    # and of a unit of load follow from the bytes that a move costs.
    load = (mean[2] if mean[2] > 1e-9 else last) / max(mean[3], 1e-9)
    out = []
    for i in range(steps + 1):
        replica = first * (last / first) ** (i / steps)
        part = min(1.0, replica / last)
        out.append(_with_racks(total * 100, replica, 2.0, 2.0 * part**0.5 * load, total * 8))
    return out


def _final_penalties(task: ReplicaTask) -> Penalties:
    """Return the highest penalties of the local search, used in its last round.

    In each round, the search minimises the bytes that it moves plus penalties for brokers and racks
    outside their balance limits. These last penalties are so high that the search accepts any move
    of a replica that makes the cluster more balanced. Uneven replica counts cost more than uneven
    bytes, and these more than uneven load.
    """
    last = _LAST * _move_costs(task)[1]
    mean = _mean_weight(task)
    byte = max(_BYTE_AT_THE_END, last)
    load = 0.02 * byte * mean[2] / mean[3] if mean[3] > 1e-9 else 0.0
    replica = _OUTWEIGHS * max(byte * float(task.weight[2].max(initial=0)), last)
    if mean[2] <= 1e-9:  # no sizes: moves are counted
        load = _OUTWEIGHS * last
    return _with_racks(_ROOM * replica, replica, byte, load, _RACK_RULE * replica)


def _move_costs(task: ReplicaTask) -> tuple[float, float]:
    # (1, 1) if moves cost nothing.
    cost = task.cost[task.cost > 0]
    return (float(cost.min()), float(cost.max())) if len(cost) else (1.0, 1.0)


def _mean_weight(task: ReplicaTask) -> Floats:
    count = max(task.weight.shape[1], 1)  # a cluster may have no partitions
    out: Floats = np.maximum(task.weight.sum(axis=1) / count, 1e-12)
    return out


def _with_racks(
    capacity: float, replica: float, byte: float, load: float, rack_rule: float
) -> Penalties:
    broker = np.array([capacity, replica, byte, load])
    return Penalties(broker, rack_rule, _RACK_PART * broker)


@kernel_helper
def _amount_outside_limits(amount, low, high, resource, place, change):
    """Return how far a broker or rack would be outside its balance limits after a change.

    Args:
        amount: total of each resource (capacity, replicas, bytes, load) on each broker and rack.
        low: lower limits of these totals.
        high: upper limits of these totals.
        resource: index of the resource.
        place: index of the broker or rack.
        change: what is added to its total.
    """
    now = amount[resource, place] + change
    if now > high[resource, place]:
        return now - high[resource, place]
    if now < low[resource, place]:
        return low[resource, place] - now
    return 0


@kernel_helper
def penalty_change(placement, place, partition, sign, first):
    """Return how much the penalty for imbalance rises if a broker or rack gets or loses a replica.

    The penalty is a cost for each unit of a resource outside the balance limits.

    Args:
        placement: the placement of replicas and its totals, as arrays.
        place: index of the broker or rack.
        partition: the replica's partition.
        sign: 1 if the replica is added, -1 if it is removed.
        first: index of the first penalty in the vector: 0 for brokers, K + 1 for racks (K
            resources).
    """
    held, low, high, weight = placement.held, placement.low, placement.high, placement.weight
    total = 0.0
    for k in range(len(held)):
        w = weight[k, partition]
        if w != 0:
            rise = _amount_outside_limits(held, low, high, k, place, sign * w)
            rise -= _amount_outside_limits(held, low, high, k, place, 0)
            total += placement.penalty[first + k] * rise
    return total


@kernel_helper
def rack_penalty_change(placement, rack, partition, sign):
    """Return how much the imbalance penalty of a rack rises if it gets or loses a replica.

    ``placement`` has the current replicas, ``partition`` is the replica's partition. ``sign`` is 1
    to add the replica, -1 to remove it. The result is 0 if racks have no balance limits.
    """
    place = len(placement.rack) + rack
    if place < placement.held.shape[1]:
        return penalty_change(placement, place, partition, sign, len(placement.held) + 1)
    return 0.0


@kernel_helper
def fate_of_current_replica(old_start, old, fate, partition, broker):
    """Return whether a partition's current replica on a broker may move, must stay or must leave.

    Args:
        old_start: offset of each partition's current replicas in ``old``.
        old: the broker of each current replica.
        fate: FREE, STAY or LEAVE for each current replica.
        partition: index number of the partition.
        broker: index number of the broker.

    Returns:
        FREE, STAY or LEAVE; -1 if the broker has no replica of the partition.
    """
    for i in range(old_start[partition], old_start[partition + 1]):
        if old[i] == broker:
            return fate[i]
    return -1


@kernel_helper
def has_replica(start, broker_of_replica, partition, broker):
    """Return whether a partition has a planned replica on a broker.

    ``broker_of_replica`` has the brokers of all planned replicas, and ``start`` the offset of each
    partition's replicas in it.
    """
    for s in range(start[partition], start[partition + 1]):
        if broker_of_replica[s] == broker:
            return True
    return False


@kernel_helper
def _distance(count, low, high):
    if count > high:
        return count - high
    if count < low:
        return low - count
    return 0


@kernel_helper
def rack_rule_change(placement, partition, from_rack, to_rack):
    """Return how many more violations of the rack rule a partition has if a replica changes racks.

    The rack rule limits how many replicas of a partition a rack has. ``from_rack`` is -1 for an
    added replica, ``to_rack`` is -1 for a removed one. ``placement`` has the current replicas.
    """
    if from_rack == to_rack:
        return 0
    start, broker, rack = placement.start, placement.broker, placement.rack
    factor = start[partition + 1] - start[partition]
    out_count = 0
    into_count = 0
    for s in range(start[partition], start[partition + 1]):
        if broker[s] >= 0:
            if rack[broker[s]] == from_rack:
                out_count += 1
            elif rack[broker[s]] == to_rack:
                into_count += 1
    change = 0
    if from_rack >= 0:
        low, high = placement.rack_low[factor, from_rack], placement.rack_high[factor, from_rack]
        change += _distance(out_count - 1, low, high) - _distance(out_count, low, high)
    if to_rack >= 0:
        low, high = placement.rack_low[factor, to_rack], placement.rack_high[factor, to_rack]
        change += _distance(into_count + 1, low, high) - _distance(into_count, low, high)
    return change


@kernel_helper
def add_replica(totals, weight, rack, partition, broker, sign):
    """Add a replica of a partition to the totals of its broker and rack, or subtract it.

    Args:
        totals: total of each resource on each broker and rack; changed in place.
        weight: amount of each resource that a replica of each partition needs.
        rack: the rack of each broker.
        partition: index number of the replica's partition.
        broker: index number of the replica's broker.
        sign: 1 to add, -1 to subtract.
    """
    place = len(rack) + rack[broker]
    for k in range(len(totals)):
        totals[k, broker] += sign * weight[k, partition]
        if place < totals.shape[1]:
            totals[k, place] += sign * weight[k, partition]
