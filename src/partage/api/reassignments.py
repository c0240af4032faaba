"""The public function `reassign`: solver, replicas and judge meet here.

`reassign` makes a plan by local search, balances leaders and disks, searches for lower bounds, and
improves the plan with HiGHS if it is installed. The judge checks and measures each of these plans.
A *figure* is a value that the judge measures, such as the bytes moved. *Prices* are dual prices
that prove a lower bound of a figure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from partage.errors import NoFeasiblePlanError, PlanInvariantError
from partage.judge.rack_breaches import rack_minima, rack_ranges
from partage.judge.replica_bounds import figure_bound
from partage.judge.replicas import OVERFULL, ReplicaVerdict, judge_replicas
from partage.model import NewReplicas, ReplicaTask
from partage.model.replicas import RANKS
from partage.replicas.moves import ReplicaMoves
from partage.solve.replicas.bounds import find_prices
from partage.solve.replicas.disks import disk_prices, place_on_disks
from partage.solve.replicas.diving import dive
from partage.solve.replicas.dual import DualPlan, solve_dual
from partage.solve.replicas.exact import (
    MOST_BINARIES,
    RackLimits,
    is_installed,
    relaxed_prices,
    solve_exactly,
)
from partage.solve.replicas.leaders import balance_leaders
from partage.solve.replicas.local_search import improve_placement, place_replicas
from partage.solve.replicas.problem import held_by_places, outside_bands
from partage.solve.replicas.repair import neighbours, restrict, select_free

__all__ = ["MOST_DUAL_PAIRS", "Reassignment", "reassign"]

#: Rounds of the search for a bound; each evaluates every pair of partition and broker.
_BOUND_ROUNDS = 150
#: The same for clusters with at least so many pairs, where a round takes a second.
_BOUND_ROUNDS_OF_MANY, _MANY_PAIRS = 24, 20_000_000
#: Neighbours (plans with one or two replicas elsewhere) that are tried, and the most pairs of
#: replica and broker of such a cluster. Measured: 0.7 s at most with two disks on each broker.
_MOST_NEIGHBOURS, _NEIGHBOUR_CELLS = 500, 60
#: Turns, each of the integer programme and then of neighbours.
_MOST_TURNS = 4
#: Pairs of partition and broker that are planned by dual prices: minutes on one core at most.
MOST_DUAL_PAIRS = 6_000_000
_DUAL_SOLVER = "dual prices and repair (HiGHS)"
#: Repairs at most, and in a row with less than this gain (a part of the bytes moved).
_MOST_REPAIRS, _MOST_IDLE_REPAIRS, _LEAST_REPAIR_GAIN = 48, 12, 1e-4
#: Simplex iterations of all repairs: eight seconds on a loaded core. Measured, a second has about
#: 5,000 iterations without racks, with 3 and with 10.
_MOST_ITERATIONS = 40_000
#: The gap, as a part of the bytes moved, at which repair stops.
_REPAIRED_GAP = 0.005
#: Nodes times binaries of each repair's programme, and the relative gap at which it may stop.
_REPAIR_NODES, _REPAIR_MIP_GAP = 100_000, 1e-3
#: By how much bands are narrowed against rounding, in mean replicas.
_MARGIN = 1e-6


@dataclass(frozen=True, eq=False)
class Reassignment:
    """Result of `reassign`: a plan, the judge's verdict on it, and the cluster's state before.

    Attributes:
        task: the reassignment.
        plan: the plan.
        verdict: the judge's verdict on the plan, with lower bounds of its costs.
        before: the costs of the cluster as it is, by name; empty if replication factors change.
        lacks_solver: HiGHS is not installed, and might have moved less or proven more.
        too_large_for_solver: the cluster has more than `MOST_DUAL_PAIRS` pairs of partition and
            broker. The plan comes from the local search for that reason.
    """

    task: ReplicaTask
    plan: NewReplicas
    verdict: ReplicaVerdict
    before: dict[str, int]
    lacks_solver: bool = False
    too_large_for_solver: bool = False

    @property
    def moves(self) -> ReplicaMoves:
        """The replica copies between brokers and between disks that the plan makes."""
        return ReplicaMoves(self.task, self.plan.replica, self.plan.disk)


def reassign(task: ReplicaTask, *, proof: bool = True) -> Reassignment:
    """Plan a reassignment of replicas: rack rule first, then balance, then fewest bytes moved.

    Args:
        task: the reassignment, as `partage.replicas.tasks` builds it.
        proof: whether to search for lower bounds and improve the plan; without it, bounds are 0 or
            obvious ones.

    Raises:
        NoFeasiblePlanError: names the constraint that no plan meets.
        PlanInvariantError: the plan breaks a rule, by a defect of Partage.
    """
    plan, verdict = _valid_plan(task)
    if proof:
        plan = _with_prices(task, plan, verdict)
        verdict = judge_replicas(task, plan)
        if not verdict.optimal:
            plan, verdict = _improve_small(task, plan, verdict)
            plan, verdict = _with_relaxed_prices(task, plan, verdict)
            plan, verdict = _improve_by_dual(task, plan, verdict)
    lacks_solver = proof and _is_for_solver(task, verdict) and not is_installed()
    too_large = proof and _is_too_large(task, verdict)
    return Reassignment(task, plan, verdict, _before(task), lacks_solver, too_large)


def _valid_plan(task: ReplicaTask) -> tuple[NewReplicas, ReplicaVerdict]:
    """Return a valid first plan by local search, repaired if a broker or disk is overfull."""
    plan = _complete(task, place_replicas(task))
    verdict = judge_replicas(task, plan)
    if verdict.figures["capacity"]:
        plan = _plan_within_capacity(task, plan)
        verdict = judge_replicas(task, plan)
    if verdict.breaches and all(breach.endswith(OVERFULL) for breach in verdict.breaches):
        plan = _plan_within_disks(task, plan, verdict.breaches[0])
        verdict = judge_replicas(task, plan)
    if verdict.breaches:
        raise PlanInvariantError(verdict.breaches)
    return plan, verdict


def _pairs(task: ReplicaTask) -> int:
    """Return the number of (partition, broker) pairs of a reassignment, the measure of its size."""
    return int(task.receives.sum()) * len(task.cost)


def _is_for_solver(task: ReplicaTask, verdict: ReplicaVerdict) -> bool:
    """Return whether HiGHS (a solver) could find a better plan or bound for this reassignment."""
    if verdict.optimal or not 0 < _pairs(task) <= MOST_DUAL_PAIRS:
        return False
    return _pairs(task) <= 2 * MOST_BINARIES or not task.closed.all()


def _is_too_large(task: ReplicaTask, verdict: ReplicaVerdict) -> bool:
    """Return whether the dual solver could improve the reassignment if the cluster were smaller."""
    return not verdict.optimal and _pairs(task) > MOST_DUAL_PAIRS and not task.closed.all()


def _rack_limits(task: ReplicaTask, newcomers: NDArray[np.int64] | None = None) -> RackLimits:
    """Return how many replicas of each partition the integer programme allows on each rack.

    ``newcomers`` is the most replicas of each partition that may move (int64[P]); by default it is
    computed from the rack rule.
    """
    known = rack_minima(task).newcomers if newcomers is None else newcomers
    return RackLimits(known, *rack_ranges(task))


def _moves_figure(figures: dict[str, int]) -> str:
    """Return the name of the cost of moves that depends on the choice of brokers only.

    It is "between brokers" if disks are known, because disks are chosen afterwards; else "moved".
    """
    return "between brokers" if "between brokers" in figures else "moved"


def _plan_within_capacity(task: ReplicaTask, plan: NewReplicas) -> NewReplicas:
    """Find any plan in which no broker exceeds its capacity, by an integer programme.

    Raises:
        NoFeasiblePlanError: the programme finds none, or the cluster is too large for it.
    """
    found = None
    if _pairs(task) <= 2 * MOST_BINARIES:
        limits = _rack_limits(task)
        found = solve_exactly(task, {"capacity": 0}, plan.replica, limits, capacity_only=True)
    if found is None:
        raise NoFeasiblePlanError("capacity", _overfull_broker(task, plan.replica))
    return _complete(task, found.replica)


def _plan_within_disks(task: ReplicaTask, plan: NewReplicas, breach: str) -> NewReplicas:
    """Find a plan in which brokers with an overfull disk receive no replica.

    Raises:
        NoFeasiblePlanError: no plan was found; the message begins with ``breach``.
    """
    receives = task.receives.copy()
    while receives.any() and task.disks is not None and plan.disk is not None:
        held = np.zeros(len(task.disks.part), np.int64)
        on = plan.disk >= 0
        np.add.at(held, plan.disk[on], task.weight[0][task.owner[on]])
        over = task.disks.broker[(held > task.disks.room) & (task.disks.room >= 0)]
        if not receives[over].any():
            break
        receives[over] = False
        try:
            plan = _complete(task, place_replicas(replace(task, receives=receives)))
        except NoFeasiblePlanError:
            break
        if not judge_replicas(task, plan).breaches:
            return plan
    raise NoFeasiblePlanError("capacity", f"{breach}; no plan without an overfull disk was found")


def _complete(task: ReplicaTask, replica: NDArray[np.int32]) -> NewReplicas:
    """Choose leaders and disks for given brokers; return the plan, without lower bounds."""
    ordered, lead_prices = balance_leaders(task, replica)
    return NewReplicas(ordered, {}, lead_prices, place_on_disks(task, ordered))


def _improve_small(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Improve the plan of a small reassignment by an integer programme and by small changes.

    Small changes are other brokers for one or two replicas. HiGHS's bound holds for the limits that
    it was given: if a small change improves one of these, HiGHS solves the task again.
    """
    for _ in range(_MOST_TURNS):
        plan, verdict = _improve_exactly(task, plan, verdict)
        known = verdict.figures
        plan, verdict = _improve_by_neighbours(task, plan, verdict)
        if verdict.figures == known:
            break
    return plan, verdict


def _improve_exactly(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Return the integer programme's plan if the cluster is small enough and no cost gets worse."""
    if not 0 < _pairs(task) <= 2 * MOST_BINARIES:
        return plan, verdict
    limits, bound = _rack_limits(task), None
    # Rounding may put a broker a byte outside its band; the second try keeps a margin.
    for margin in (0.0, _MARGIN):
        found = solve_exactly(task, verdict.figures, plan.replica, limits, margin)
        if found is None:
            break
        bound = found.bound if bound is None else bound
        bare = _complete(task, found.replica)
        better = replace(bare, prices=plan.prices, disk_prices=plan.disk_prices,
                         solver="HiGHS", solver_bound=bound)  # fmt: skip
        reached = judge_replicas(task, bare)
        figures = list(reached.figures.values())
        if not reached.breaches and figures <= list(verdict.figures.values()):
            return better, judge_replicas(task, better)
    return replace(plan, solver_bound=bound), verdict


def _improve_by_neighbours(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Improve the plan of a tiny reassignment by other brokers for one or two replicas.

    Brokers, leaders and disks are otherwise chosen one after another; such a change may be better
    in all three together. A better plan has no solver's bound.
    """
    left = _MOST_NEIGHBOURS if len(task.owner) * len(task.alive) <= _NEIGHBOUR_CELLS else 0
    is_better = True
    while is_better and left > 0 and not verdict.optimal:
        is_better = False
        for sets in neighbours(task, plan.replica, most=_MOST_NEIGHBOURS):
            left -= 1
            if left < 0:
                break
            bare = _complete(task, sets)
            reached = judge_replicas(task, bare)
            figures = list(reached.figures.values())
            if not reached.breaches and figures < list(verdict.figures.values()):
                plan = _with_prices(task, bare, reached)
                verdict, is_better = judge_replicas(task, plan), True
                break
    return plan, verdict


def _with_relaxed_prices(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Add the linear relaxation's dual prices to the plan if they prove higher lower bounds.

    Only small reassignments have them.
    """
    if verdict.optimal or not 0 < _pairs(task) <= 2 * MOST_BINARIES:
        return plan, verdict
    prices = relaxed_prices(task, verdict.figures, _rack_limits(task))
    if prices is None:
        return plan, verdict
    name = _moves_figure(verdict.figures)
    priced = replace(plan, prices={**plan.prices, name: prices})
    if name != "moved" and "moved" not in plan.disk_prices:
        priced.prices["moved"] = prices
    proven = judge_replicas(task, priced)
    return (priced, proven) if proven.bounds[name] > verdict.bounds[name] else (plan, verdict)


def _improve_by_dual(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Improve the plan of a large reassignment: round the Lagrangian dual, then repair the plan.

    Dual prices are added to the plan only if the judge finds that they prove more.
    """
    is_size_right = 2 * MOST_BINARIES < _pairs(task) <= MOST_DUAL_PAIRS
    if verdict.optimal or not is_size_right or task.closed.all():
        return plan, verdict
    name = _moves_figure(verdict.figures)
    start = plan.prices.get(name, np.zeros(task.low.shape))
    found = solve_dual(task, verdict.figures, start, plan.replica)
    if found is None:
        return plan, verdict
    prices = {name: found.prices, "moved": found.prices}
    plan, verdict = _with_better_prices(task, plan, verdict, prices)
    found = dive(task, verdict.figures, found, [plan.replica])
    plan, verdict = _if_better(task, plan, verdict, improve_placement(task, found.replica))
    return _repair(task, plan, verdict, found)


def _is_near(verdict: ReplicaVerdict, name: str, reachable: float) -> bool:
    """Return whether the plan's bytes moved are so near to their lower bound, or to what a plan
    with the same large partitions can reach, that repair is not worth it.
    """
    moved = verdict.figures[name]
    return moved - max(verdict.bounds[name], reachable) <= _REPAIRED_GAP * moved


def _repair(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict, found: DualPlan
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Improve the plan by solving a few partitions at a time exactly (fix-and-optimise)."""
    newcomers, name = rack_minima(task).newcomers, _moves_figure(verdict.figures)
    idle = iterations = 0
    for turn in range(_MOST_REPAIRS):
        moved = verdict.figures[name]
        is_near = _is_near(verdict, name, found.reachable)
        if is_near or idle == _MOST_IDLE_REPAIRS or iterations >= _MOST_ITERATIONS:
            break
        free = select_free(task, found.prices, plan.replica, found.choice, turn)
        small, slots = restrict(task, free, plan.replica)
        solved = solve_exactly(
            small, verdict.figures, plan.replica[slots], _rack_limits(small, newcomers[free]),
            _MARGIN, nodes=_REPAIR_NODES, gap=_REPAIR_MIP_GAP,
        )  # fmt: skip
        if solved is None:
            idle += 1
            continue
        better = plan.replica.copy()
        better[slots] = solved.replica
        iterations += solved.iterations
        plan, verdict = _if_better(task, plan, verdict, better)
        idle = 0 if moved - verdict.figures[name] > _LEAST_REPAIR_GAIN * moved else idle + 1
    return plan, verdict


def _if_better(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict, replica: NDArray[np.int32]
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Return the plan with other brokers if that is valid and better, else the given plan."""
    bare = _complete(task, replica)
    reached = judge_replicas(task, bare)
    if reached.breaches or list(reached.figures.values()) >= list(verdict.figures.values()):
        return plan, verdict
    other = replace(bare, prices=plan.prices, disk_prices=plan.disk_prices, solver=_DUAL_SOLVER)
    return other, judge_replicas(task, other)


def _with_better_prices(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict,
    prices: dict[str, NDArray[np.float64]],
) -> tuple[NewReplicas, ReplicaVerdict]:  # fmt: skip
    """Add those of the given dual prices that prove a higher bound than the plan's own."""
    for name, claimed in prices.items():
        if name == "moved" and name in plan.disk_prices:
            continue
        priced = replace(plan, prices={**plan.prices, name: claimed})
        proven = judge_replicas(task, priced)
        if proven.bounds[name] > verdict.bounds[name]:
            plan, verdict = priced, proven
    return plan, verdict


def _with_prices(task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict) -> NewReplicas:
    """Search for dual prices that prove lower bounds of the plan's costs, and add them to the plan.

    Costs of 0 need no bound.
    """
    pairs = len(task.cost) * len(task.cluster.brokers)
    rounds = _BOUND_ROUNDS if pairs < _MANY_PAIRS else _BOUND_ROUNDS_OF_MANY
    figures = verdict.figures
    prices = {
        name: find_prices(task, figures, name=name, rounds=rounds)
        for name in (*RANKS, "moved")
        if figures.get(name) and not name.endswith("leaders") and not name.startswith("disk")
    }
    if "between brokers" in figures and "moved" in prices:
        prices["between brokers"] = prices["moved"]
    priced = replace(plan, prices=prices)
    # Each price of disks is tried, which takes seconds where clusters are large.
    if task.disks is None or plan.disk is None or pairs >= _MANY_PAIRS:
        return priced
    for name in figures:
        if figures[name] and (name.startswith("disk") or name == "moved"):
            tried = disk_prices(task, plan.replica, plan.disk, name)
            priced = _with_best_disk_prices(task, priced, name, figures, tried)
    return priced


def _with_best_disk_prices(
    task: ReplicaTask,
    plan: NewReplicas,
    name: str,
    figures: dict[str, int],
    candidates: list[NDArray[np.float64]],
) -> NewReplicas:
    """Add the dual prices of disks that prove the highest bound of a cost, if any help."""
    found = rack_minima(task)
    least = found if figures["racks"] <= int(found.breach.sum()) else None
    best, most = plan, figure_bound(task, plan, name, figures, least)
    for prices in candidates:
        priced = replace(plan, disk_prices={**plan.disk_prices, name: prices})
        bound = figure_bound(task, priced, name, figures, least)
        if bound > most:
            best, most = priced, bound
    return best


def _before(task: ReplicaTask) -> dict[str, int]:
    """Return the costs of the cluster as it is now, with its current leaders, by name.

    The result is empty if replication factors change: the costs cannot be compared then.
    """
    cluster = task.cluster
    if not np.array_equal(task.factor, cluster.factor):
        return {}
    # A leader that is not the preferred one changes places with it, and so do their disks.
    disk = None
    if task.disks is not None:
        keys = task.old_owner * len(task.alive) + cluster.replica
        order = np.argsort(keys)
        led = task.old_owner * len(task.alive) + cluster.led
        disk = task.disks.old[order[np.searchsorted(keys[order], led)]]
    return judge_replicas(task, NewReplicas(cluster.led, disk=disk)).figures


def _overfull_broker(task: ReplicaTask, replica: NDArray[np.int32]) -> str:
    """Explain which broker is overfull, or that all brokers together lack capacity."""
    cluster = task.cluster
    held = held_by_places(task, task.owner, replica)
    b = int(outside_bands(task, held)[0].argmax())
    total, room = int(task.weight[0][task.owner].sum()), int(cluster.capacity[task.alive].sum())
    if (cluster.capacity[task.alive] >= 0).all() and total > room:
        return f"replicas need {total} bytes, brokers have room for {room}"
    return (
        f"broker {cluster.brokers[b].id} would hold {held[0, b]} bytes, and has room for "
        f"{cluster.capacity[b]}; no plan was found that keeps to all capacities"
    )
