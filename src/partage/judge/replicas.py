"""Verdicts on reassignments: which rules a plan breaks, its figures, and their lower bounds.

A figure is a measured value, such as the bytes moved. `replica_bounds` computes the bounds from the
dual prices that a plan claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.errors import CertificateError
from partage.judge.rack_breaches import RackMinima, rack_minima
from partage.judge.replica_bounds import (
    MOVES,
    leader_imbalance_bound,
    plan_cost_bound,
    split_cost_bound,
)
from partage.model import NewReplicas, ReplicaTask
from partage.model.replicas import KINDS, LEAVE, RANKS, STAY, is_among

__all__ = ["OVERFULL", "ReplicaVerdict", "judge_replicas"]

#: The end of each message about a broker or disk without room.
OVERFULL = "more than it has room for"

#: Partitions that are named for one rule, at most.
_MOST_BREACHES = 100


@dataclass(frozen=True, slots=True)
class ReplicaVerdict:
    """Result of checking a reassignment plan: violated rules, costs, and lower bounds of the costs.

    Attributes:
        breaches: messages about violated rules; empty if the plan is valid.
        figures: the costs by name, most important first. "racks" counts replicas that violate the
            rack rule. The next ones (`RANKS`) say how far brokers, racks and disks are outside
            their balance limits, in total. "between brokers" is what is copied over the network
            (only if disks are known), and "moved" all copies, both in bytes, or in replicas if
            sizes are unknown.
        bounds: for each cost a lower bound that holds for all valid plans that are as good in all
            more important costs.
    """

    breaches: tuple[str, ...]
    figures: dict[str, int]
    bounds: dict[str, int]

    @property
    def avoidable_fraction(self) -> float:
        """Largest possible fraction of the moved bytes that another plan could avoid.

        It is 0 if all moves are proven to be necessary.

        >>> ReplicaVerdict((), {"moved": 5}, {"moved": 4}).avoidable_fraction
        0.2
        """
        moved = self.figures["moved"]
        return (moved - self.bounds["moved"]) / moved if moved else 0.0

    @property
    def sequential_loss(self) -> dict[str, int]:
        """Costs that might be saved by choosing replicas, leaders and disks together, by cost name.

        The plan chooses them one after another. Each value is the difference between a cost of the
        plan and its lower bound.
        """
        return {
            name: value - self.bounds[name]
            for name, value in self.figures.items()
            if value > self.bounds[name]
            and (name in {*MOVES, "leaders", "rack leaders"} or name.startswith("disk"))
        }

    @property
    def optimal(self) -> bool:
        """True if every measured cost of the reassignment equals its proven lower bound.

        Then no other valid plan is better.
        """
        return all(self.figures[name] == bound for name, bound in self.bounds.items())


def judge_replicas(task: ReplicaTask, plan: NewReplicas) -> ReplicaVerdict:
    """Check a reassignment plan against the rules, and verify the lower bounds of its costs.

    The plan says which brokers get the replicas of each partition. Its costs, such as the bytes to
    copy, are measured first.

    Args:
        task: cluster, brokers to use and balance limits.
        plan: the broker of each replica, with claimed bounds and their dual prices.

    Raises:
        CertificateError: the plan's arrays do not fit the task, or a claimed bound exceeds the
            measured cost.
    """
    _check_shapes(task, plan)
    measured = _MeasuredPlan(task, plan)
    figures, breaches = measured.figures(), measured.breaches()
    bounds = dict.fromkeys(figures, 0)
    bounds["racks"] = int(measured.least.breach.sum())
    kept = figures["racks"] <= bounds["racks"]
    for name, value in figures.items():
        if not value or name == "racks":
            continue
        if name in {"leaders", "rack leaders"}:
            if name in plan.lead_prices:
                bounds[name] = _round_up(
                    leader_imbalance_bound(task, plan.lead_prices[name], name, figures), 1
                )
        elif name == "moved" and "between brokers" in bounds and name not in plan.disk_prices:
            continue  # its bound is that of "between brokers"
        elif name in plan.prices or name in plan.disk_prices:
            # Sums of whole numbers with a common divisor are multiples of it.
            divisor = int(np.gcd.reduce(task.cost)) if name in MOVES and len(task.cost) else 1
            bound = plan_cost_bound(task, plan, name, figures, measured.least if kept else None)
            bounds[name] = _round_up(bound, max(divisor, 1))
    copied = "between brokers" if "between brokers" in figures else "moved"
    if plan.split_prices is not None and figures[copied]:
        bound = split_cost_bound(task, plan.split_prices, figures, measured.least if kept else None)
        divisor = max(int(np.gcd.reduce(task.cost)), 1)
        bounds[copied] = max(bounds[copied], _round_up(bound, divisor))
    bounds["moved"] = max(bounds["moved"], bounds.get("between brokers", 0))
    if measured.is_settled():
        # Apart from leaders and disks there is only one plan.
        bounds |= {name: figures[name] for name in (*KINDS, *map("rack {}".format, KINDS))
                   if name in figures}  # fmt: skip
    for name, bound in bounds.items():
        if bound > figures[name] and not breaches:
            raise CertificateError(
                f"{name}: {bound} claimed necessary, the plan has {figures[name]}"
            )
    return ReplicaVerdict(tuple(breaches), figures, bounds)


def _check_shapes(task: ReplicaTask, plan: NewReplicas) -> None:
    brokers = len(task.cluster.brokers)
    if plan.replica.shape != (int(task.first_replica[-1]),):
        raise CertificateError(
            f"the plan has {plan.replica.shape} replicas, not {task.first_replica[-1]}"
        )
    if len(plan.replica) and not 0 <= plan.replica.min() <= plan.replica.max() < brokers:
        raise CertificateError("the plan has a broker that the cluster does not have")
    disks = task.disks
    if (disks is None) != (plan.disk is None):
        raise CertificateError("the plan has disks and the task has none, or the reverse")
    if disks is None or plan.disk is None:
        return
    if plan.disk.shape != plan.replica.shape:
        raise CertificateError(
            f"the plan has {plan.disk.shape} disks, not {task.first_replica[-1]}"
        )
    low, high = disks.start[plan.replica], disks.start[plan.replica + 1]
    fits = np.where(high > low, (plan.disk >= low) & (plan.disk < high), plan.disk == -1)
    if not fits.all():
        raise CertificateError("the plan has a disk that the broker does not have")


def _round_up(bound: float, divisor: int) -> int:
    """Round a lower bound up to a multiple of ``divisor``; for example, 4.2 and 2 give 6.

    The cost itself is a multiple of the divisor, so it cannot be lower. Negative bounds become 0.
    """
    # This is valid because the bounded cost is always a multiple of ``divisor``.
    return max(0, int(np.ceil((bound - 1e-6) / divisor))) * divisor


class _MeasuredPlan:
    """A reassignment plan and the current replicas as arrays, to measure costs and check rules.

    A replica is identified by an integer for its (partition, broker) pair, so that new and current
    replicas can be compared.

    Attributes:
        key: int64[replicas], the integer of each new replica.
        old_key: int64, the integer of each current replica.
        is_new: bool[replicas], whether the broker has no replica of the partition yet.
    """

    def __init__(self, task: ReplicaTask, plan: NewReplicas) -> None:
        self.task, self.replica, self.disk = task, plan.replica, plan.disk
        self.brokers = len(task.cluster.brokers)
        self.key = task.partition_of_replica * self.brokers + plan.replica
        self.old_key = task.current_partition * self.brokers + task.cluster.replica
        self.is_new = ~is_among(self.key, self.old_key)

    @cached_property
    def least(self) -> RackMinima:
        # The fewest breaches of the rack rule by partition, and the fewest moves for that.
        return rack_minima(self.task)

    @cached_property
    def shifted(self) -> NDArray[np.bool_]:
        # Replicas that stay on their broker and move to another disk.
        disks = self.task.disks
        if disks is None or self.disk is None:
            return np.zeros(len(self.key), bool)
        order = np.argsort(self.old_key)
        at = np.searchsorted(self.old_key[order], self.key)
        was = disks.old[order[np.minimum(at, len(order) - 1)]] if len(order) else self.disk
        out: NDArray[np.bool_] = ~self.is_new & (was != self.disk)
        return out

    def _sums(self, at: NDArray[np.int32], row: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        out = np.zeros(size, np.int64)
        np.add.at(out, at, row[self.task.partition_of_replica])
        return out

    @cached_property
    def amount_outside_limits(self) -> NDArray[np.int64]:
        """Amount by which each broker and rack is outside its balance limits, by resource.

        The result is int64[4, brokers + racks]. The rows are the resources: capacity, replicas,
        bytes and load.
        """
        task = self.task
        held = np.zeros(task.low.shape, np.int64)
        for k, row in enumerate(task.weight):
            held[k, : self.brokers] = self._sums(self.replica, row, self.brokers)
            if task.balanced_rack_count:
                np.add.at(
                    held[k, self.brokers :], task.cluster.rack_of_broker, held[k, : self.brokers]
                )
        out: NDArray[np.int64] = np.maximum(np.maximum(held - task.high, task.low - held), 0)
        return out

    def _leaders_outside(self) -> NDArray[np.int64]:
        task = self.task
        counted = (task.factor > 0) & task.counted
        led = np.zeros(len(task.lead_low), np.int64)
        led[: self.brokers] = np.bincount(
            self.replica[task.first_replica[:-1][counted]], minlength=self.brokers
        )
        if task.balanced_rack_count:
            np.add.at(led[self.brokers :], task.cluster.rack_of_broker, led[: self.brokers])
        out: NDArray[np.int64] = np.maximum(
            np.maximum(led - task.lead_high, task.lead_low - led), 0
        )
        return out

    def _disks_outside(self) -> dict[str, int]:
        disks = self.task.disks
        if disks is None or self.disk is None:
            return {}
        out, on = {}, self.disk >= 0
        for k, kind in enumerate(KINDS):
            row = self.task.weight[k][self.task.partition_of_replica]
            if not k or not self.task.weight[k].any():
                continue
            held = np.zeros(self.brokers, np.int64)
            np.add.at(held, self.replica, row)
            on_disks = np.zeros(len(disks.part), np.int64)
            np.add.at(on_disks, self.disk[on], row[on])
            low, high = disks.balance_limits(k, held)
            out[f"disk {kind}"] = int(
                np.maximum(np.maximum(on_disks - high, low - on_disks), 0).sum()
            )
        return out

    def figures(self) -> dict[str, int]:
        task, led = self.task, self._leaders_outside()
        found = {"leaders": int(led[: self.brokers].sum()), **self._disks_outside()}
        for k, kind in enumerate(KINDS):
            found[kind] = int(self.amount_outside_limits[k, : self.brokers].sum())
            if task.balanced_rack_count and k:
                found[f"rack {kind}"] = int(self.amount_outside_limits[k, self.brokers :].sum())
        if task.balanced_rack_count:
            found["rack leaders"] = int(led[self.brokers :].sum())
        copied = int(task.cost[task.partition_of_replica[self.is_new]].sum())
        if task.disks is not None:
            found["between brokers"] = copied
            copied += int(task.cost[task.partition_of_replica[self.shifted]].sum())
        return {
            "racks": self._rack_breach(),
            **{name: found[name] for name in (*RANKS, "between brokers") if name in found},
            "moved": copied,
        }

    def _rack_breach(self) -> int:
        task, racks = self.task, self.task.rack_low.shape[1]
        key = np.sort(task.partition_of_replica * racks + task.cluster.rack_of_broker[self.replica])
        at = np.flatnonzero(np.diff(key, prepend=-1))
        count = np.diff(at, append=len(key))
        factor, rack = task.factor[key[at] // racks], key[at] % racks
        low, high = task.rack_low[factor, rack], task.rack_high[factor, rack]
        # Racks without a replica of a partition lack their whole lower limit.
        wanted = int(task.rack_low.sum(axis=1)[task.factor].sum())
        return wanted + int((np.maximum(count - high, 0) + np.maximum(low - count, 0) - low).sum())

    def breaches(self) -> list[str]:
        task, cluster = self.task, self.task.cluster
        found: list[str] = []

        def report(partitions: NDArray[np.int64], breach: str) -> None:
            names = [cluster.partition_name(int(p)) for p in np.unique(partitions)[:_MOST_BREACHES]]
            found.extend(f"{name}: {breach}" for name in names)

        brokers = max(self.brokers, 1)
        ordered = np.sort(self.key)
        report(ordered[1:][np.diff(ordered) == 0] // brokers, "two replicas on a broker")
        staying = self.old_key[task.fate == STAY]
        report(
            staying[~is_among(staying, self.key)] // brokers, "a replica that had to stay is gone"
        )
        leaving = self.old_key[task.fate == LEAVE]
        report(
            leaving[is_among(leaving, self.key)] // brokers, "a replica is where it had to leave"
        )
        refused = self.is_new & ~task.receives[self.replica]
        report(task.partition_of_replica[refused], "a replica went to a broker that takes none")
        report(self._needless(), "more replicas are moved than the rack rule demands")
        report(self._lost_leaders(), "another leader, though its own was to stay")
        over = np.flatnonzero(self.amount_outside_limits[0, : self.brokers])
        found.extend(f"broker {cluster.brokers[b].id}: {OVERFULL}" for b in over)
        return found + self._disk_breaches()

    def is_settled(self) -> bool:
        # True if the rules fix every replica, so that no valid plan moves one.
        task = self.task
        stays = np.ones(len(task.factor), bool)
        stays[task.current_partition[task.fate != STAY]] = False
        leaves = np.zeros(len(task.factor), bool)
        leaves[task.current_partition[task.fate == LEAVE]] = True
        kept = stays | (task.closed & ~leaves & (self.least.newcomers == 0))
        return bool((kept & (task.factor == task.cluster.replication_factors)).all())

    def _needless(self) -> NDArray[np.int64]:
        # Closed partitions, which move only what must move, that move more than that.
        task = self.task
        if not task.closed.any():
            return np.zeros(0, np.int64)
        new = np.bincount(task.partition_of_replica[self.is_new], minlength=len(task.factor))
        return np.flatnonzero(task.closed & (new > self.least.newcomers))

    def _disk_breaches(self) -> list[str]:
        task, disks = self.task, self.task.disks
        if disks is None or self.disk is None:
            return []
        bound = is_among(self.key, self.old_key[~disks.free]) & self.shifted
        found = [
            f"{task.cluster.partition_name(int(p))}: a replica went to another disk, "
            f"though it was to stay"
            for p in np.unique(task.partition_of_replica[bound])[:_MOST_BREACHES]
        ]
        on = self.disk >= 0
        held = np.zeros(len(disks.part), np.int64)
        np.add.at(held, self.disk[on], task.weight[0][task.partition_of_replica[on]])
        got = np.zeros(len(disks.part), bool)
        got[self.disk[on & (self.is_new | self.shifted)]] = True
        # A disk that is overfull already breaks the rule only if the plan adds to it.
        for d in np.flatnonzero(got & (disks.room >= 0) & (held > disks.room)).tolist():
            b = int(disks.broker_of_disk[d])
            path = task.cluster.directories[b][d - int(disks.start[b])][0]
            found.append(f"broker {task.cluster.brokers[b].id}, {path}: {OVERFULL}")
        return found

    def _lost_leaders(self) -> NDArray[np.int64]:
        # Partitions whose leader changed although it had to stay and could.
        task, cluster = self.task, self.task.cluster
        bound = np.flatnonzero(
            (task.factor > 0) & (cluster.replication_factors > 0) & ~task.lead_free
        )
        old = cluster.start[bound]
        first = cluster.replica[old]
        could = is_among(bound * self.brokers + first, self.key)
        # A closed partition that changes anyway may change its leader too.
        changed = np.zeros(cluster.partitions, bool)
        changed[task.partition_of_replica[self.is_new]] = True
        changed |= task.factor != cluster.replication_factors
        could &= ~(task.closed & changed)[bound]
        other = self.replica[task.first_replica[bound]] != first
        # The replica in the old leader's position leads, unless the old leader is still there.
        lost: NDArray[np.int64] = bound[could & other]
        return lost
