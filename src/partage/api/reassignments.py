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
from partage.judge.replica_bounds import plan_cost_bound
from partage.judge.replicas import OVERFULL, ReplicaVerdict, judge_replicas
from partage.model import NewReplicas, ReplicaTask
from partage.model.replicas import RANKS
from partage.replicas.moves import ReplicaMoves
from partage.solve.replicas.bounds import find_dual_prices
from partage.solve.replicas.disjunctive import (
    PROOF_CLASSES,
    find_split_prices,
    place_large_partitions,
)
from partage.solve.replicas.disks import disk_prices, place_on_disks
from partage.solve.replicas.diving import plan_by_diving
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
from partage.solve.replicas.problem import outside_bands, sum_by_broker_and_rack
from partage.solve.replicas.repair import (
    restrict_to_partitions,
    select_free_partitions,
    yield_neighbour_plans,
)

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
    """Plan that moves replicas between brokers, with its costs and their proven lower bounds.

    `reassign` returns it.

    Attributes:
        task: the input: cluster, brokers to use, and limits.
        plan: the new replicas of each partition.
        verdict: the plan's costs by name, each with a proven lower bound (`ReplicaVerdict`).
        before: costs of the cluster's current placement by name; empty if replication factors
            change.
        lacks_solver: whether HiGHS is missing, with which the plan or its bounds might be better.
        too_large_for_solver: whether only local search was used, because the cluster has more than
            `MOST_DUAL_PAIRS` pairs of partition and broker.
    """

    task: ReplicaTask
    plan: NewReplicas
    verdict: ReplicaVerdict
    before: dict[str, int]
    lacks_solver: bool = False
    too_large_for_solver: bool = False

    @property
    def moves(self) -> ReplicaMoves:
        """Replica copies that the plan makes between brokers, and between disks of a broker.

        Kafka executes them when the plan is applied.
        """
        return ReplicaMoves(self.task, self.plan.replica, self.plan.disk)


def reassign(task: ReplicaTask, *, proof: bool = True) -> Reassignment:
    """Plan replica moves that balance a cluster's brokers with the fewest bytes moved.

    The rack rule has priority over balance, and balance over the bytes moved.

    Args:
        task: the reassignment task: cluster, brokers to use and balance limits (see
            `partage.replicas.tasks`).
        proof: whether to improve the first plan and to search for lower bounds. False is faster;
            the lower bounds are then weak or 0.

    Raises:
        NoFeasiblePlanError: no plan meets all constraints; the error names one.
        PlanInvariantError: the plan breaks a rule, because of a bug in Partage.
    """
    plan, quality = _find_valid_plan(task)
    if proof:
        plan = _add_dual_prices(task, plan, quality)
        quality = judge_replicas(task, plan)
        if not quality.optimal:
            plan, quality = _improve_small(task, plan, quality)
            plan, quality = _improve_bounds_by_relaxation(task, plan, quality)
            plan, quality = _improve_by_dual(task, plan, quality)
    lacks_solver = proof and _can_highs_improve(task, quality) and not is_installed()
    too_large = proof and _is_too_large(task, quality)
    return Reassignment(task, plan, quality, _current_costs(task), lacks_solver, too_large)


def _find_valid_plan(task: ReplicaTask) -> tuple[NewReplicas, ReplicaVerdict]:
    """Find a first valid placement of a cluster's replicas, and measure its costs.

    Local search finds it. If a broker or disk is overfull, an integer programme or another search
    repairs it. ``task`` has the cluster, the brokers to use and the balance limits.

    Raises:
        NoFeasiblePlanError: no placement was found that keeps to all capacities.
        PlanInvariantError: the placement breaks a rule, because of a bug in Partage.
    """
    # If a broker or disk exceeds its capacity, an integer programme or another search repairs the
    # plan.
    plan = _choose_leaders_and_disks(task, place_replicas(task))
    quality = judge_replicas(task, plan)
    if quality.figures["capacity"]:
        plan = _plan_within_capacity(task, plan)
        quality = judge_replicas(task, plan)
    if quality.breaches and all(breach.endswith(OVERFULL) for breach in quality.breaches):
        plan = _plan_within_disks(task, plan, quality.breaches[0])
        quality = judge_replicas(task, plan)
    if quality.breaches:
        raise PlanInvariantError(quality.breaches)
    return plan, quality


def _count_pairs(task: ReplicaTask) -> int:
    """Return the size of a replica reassignment: its number of (partition, broker) pairs.

    Solvers are chosen by this size. Only brokers that may receive replicas count.
    """
    return int(task.receives.sum()) * len(task.cost)


def _can_highs_improve(task: ReplicaTask, quality: ReplicaVerdict) -> bool:
    """Return whether the solver HiGHS could improve a replica plan or its lower bounds.

    It cannot if the plan is proven optimal or the cluster is too large.

    Args:
        task: cluster, brokers and limits.
        quality: the plan's costs and their lower bounds.
    """
    # It cannot if the plan is proven optimal or the reassignment is too large.
    if quality.optimal or not 0 < _count_pairs(task) <= MOST_DUAL_PAIRS:
        return False
    return _count_pairs(task) <= 2 * MOST_BINARIES or not task.closed.all()


def _is_too_large(task: ReplicaTask, quality: ReplicaVerdict) -> bool:
    """Return whether a cluster is too large for the solver HiGHS, so that its plan is not improved.

    False if the plan is proven optimal, because it needs no improvement.

    Args:
        task: cluster, brokers and limits.
        quality: the plan's costs and their lower bounds.
    """
    # A plan that is proven optimal needs no improvement, so the result is false for it.
    return not quality.optimal and _count_pairs(task) > MOST_DUAL_PAIRS and not task.closed.all()


def _rack_limits(task: ReplicaTask, most_moved: NDArray[np.int64] | None = None) -> RackLimits:
    """Return the fewest and the most replicas of each partition that each rack may have.

    The integer programme uses them as constraints.

    Args:
        task: cluster, brokers and balance limits.
        most_moved: int64[P], how many replicas of each partition may move; None for the fewest
            moves that the rack rule needs.
    """
    known = rack_minima(task).newcomers if most_moved is None else most_moved
    return RackLimits(known, *rack_ranges(task))


def _moved_bytes_key(plan_costs: dict[str, int]) -> str:
    """Return the name under which a plan's costs list the bytes moved between brokers.

    It is "between brokers" if the disks are known, because "moved" then includes moves between
    disks of one broker. Otherwise it is "moved".

    Args:
        plan_costs: the plan's costs by name.
    """
    # If disks are known it is "between brokers", because moves between disks are decided later;
    # else "moved".
    return "between brokers" if "between brokers" in plan_costs else "moved"


def _plan_within_capacity(task: ReplicaTask, plan: NewReplicas) -> NewReplicas:
    """Find a replica placement in which no broker exceeds its disk capacity.

    An integer programme searches for it if local search has failed.

    Args:
        task: cluster, brokers and limits.
        plan: a placement in which a broker is overfull, for the error message.

    Raises:
        NoFeasiblePlanError: there is none, or the cluster is too large for the solver.
    """
    found = None
    if _count_pairs(task) <= 2 * MOST_BINARIES:
        limits = _rack_limits(task)
        found = solve_exactly(task, {"capacity": 0}, plan.replica, limits, capacity_only=True)
    if found is None:
        raise NoFeasiblePlanError("capacity", _explain_overfull(task, plan.replica))
    return _choose_leaders_and_disks(task, found.replica)


def _plan_within_disks(task: ReplicaTask, plan: NewReplicas, breach: str) -> NewReplicas:
    """Find a replica placement in which no disk is overfull.

    The brokers of overfull disks receive no more replicas, and the placement is computed again.
    This repeats until no disk is overfull.

    Args:
        task: cluster, brokers and limits.
        plan: a placement with overfull disks.
        breach: beginning of the error message.

    Raises:
        NoFeasiblePlanError: no plan was found.
    """
    receives = task.receives.copy()
    while receives.any() and task.disks is not None and plan.disk is not None:
        held = np.zeros(len(task.disks.part), np.int64)
        on = plan.disk >= 0
        np.add.at(held, plan.disk[on], task.weight[0][task.partition_of_replica[on]])
        over = task.disks.broker_of_disk[(held > task.disks.room) & (task.disks.room >= 0)]
        if not receives[over].any():
            break
        receives[over] = False
        try:
            plan = _choose_leaders_and_disks(task, place_replicas(replace(task, receives=receives)))
        except NoFeasiblePlanError:
            break
        if not judge_replicas(task, plan).breaches:
            return plan
    raise NoFeasiblePlanError("capacity", f"{breach}; no plan without an overfull disk was found")


def _choose_leaders_and_disks(task: ReplicaTask, replica: NDArray[np.int32]) -> NewReplicas:
    """Complete a replica placement: choose the leader of each partition and the disk of each
    replica.

    The replicas stay on the given brokers; only their order and their disks are chosen.

    Args:
        task: cluster, brokers and limits.
        replica: the broker of each replica, partition after partition.
    """
    ordered, lead_prices = balance_leaders(task, replica)
    return NewReplicas(ordered, {}, lead_prices, place_on_disks(task, ordered))


def _improve_small(
    task: ReplicaTask, plan: NewReplicas, quality: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Improve the replica placement of a small cluster by integer programming and local search.

    The two take turns until the costs no longer fall.

    Args:
        task: cluster, brokers and limits.
        plan: the placement to improve.
        quality: the placement's costs and their lower bounds.

    Returns:
        The best placement found, with its costs and lower bounds.
    """
    # A small change moves one or two replicas to other brokers. If it lowers a cost, the integer
    # programme is solved again with the new cost as its limit.
    for _ in range(_MOST_TURNS):
        plan, quality = _improve_exactly(task, plan, quality)
        known = quality.figures
        plan, quality = _improve_by_small_changes(task, plan, quality)
        if quality.figures == known:
            break
    return plan, quality


def _improve_exactly(
    task: ReplicaTask, plan: NewReplicas, quality: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Improve the replica placement of a small cluster by integer programming (solver HiGHS).

    The given placement is returned if the cluster is too large, or if the solver's one costs more.

    Args:
        task: cluster, brokers and limits.
        plan: the placement to improve.
        quality: the placement's costs and their lower bounds.
    """
    if not 0 < _count_pairs(task) <= 2 * MOST_BINARIES:
        return plan, quality
    limits, bound = _rack_limits(task), None
    # Rounding may put a broker a byte outside its band; the second try keeps a margin.
    for margin in (0.0, _MARGIN):
        found = solve_exactly(task, quality.figures, plan.replica, limits, margin)
        if found is None:
            break
        bound = found.bound if bound is None else bound
        bare = _choose_leaders_and_disks(task, found.replica)
        better = replace(bare, prices=plan.prices, disk_prices=plan.disk_prices,
                         solver="HiGHS", solver_bound=bound)  # fmt: skip
        reached = judge_replicas(task, bare)
        figures = list(reached.figures.values())
        if not reached.breaches and figures <= list(quality.figures.values()):
            return better, judge_replicas(task, better)
    return replace(plan, solver_bound=bound), quality


def _improve_by_small_changes(
    task: ReplicaTask, plan: NewReplicas, quality: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Improve the replica placement of a tiny cluster: move one or two replicas at a time.

    A move is accepted if it lowers the costs. Leaders and disks are chosen again after each one.

    Args:
        task: cluster, brokers and limits.
        plan: the placement to improve.
        quality: the placement's costs and their lower bounds.

    Returns:
        The best placement found, with its costs and lower bounds.
    """
    # Leaders and disks are chosen again after each move, so this finds improvements that the
    # separate steps miss.
    left = (
        _MOST_NEIGHBOURS
        if len(task.partition_of_replica) * len(task.alive) <= _NEIGHBOUR_CELLS
        else 0
    )
    is_better = True
    while is_better and left > 0 and not quality.optimal:
        is_better = False
        for sets in yield_neighbour_plans(task, plan.replica, max_plans=_MOST_NEIGHBOURS):
            left -= 1
            if left < 0:
                break
            bare = _choose_leaders_and_disks(task, sets)
            reached = judge_replicas(task, bare)
            figures = list(reached.figures.values())
            if not reached.breaches and figures < list(quality.figures.values()):
                plan = _add_dual_prices(task, bare, reached)
                quality, is_better = judge_replicas(task, plan), True
                break
    return plan, quality


def _improve_bounds_by_relaxation(
    task: ReplicaTask, plan: NewReplicas, quality: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Search for higher lower bounds of a replica plan's costs by linear programming.

    A higher bound shows that the plan is closer to the optimum. The dual prices that prove it are
    added to the returned plan.

    Args:
        task: cluster, brokers and limits.
        plan: the plan for moving replicas.
        quality: the plan's costs and the lower bounds known so far.
    """
    # The relaxation is solved only for small reassignments.
    if quality.optimal or not 0 < _count_pairs(task) <= 2 * MOST_BINARIES:
        return plan, quality
    prices = relaxed_prices(task, quality.figures, _rack_limits(task))
    if prices is None:
        return plan, quality
    name = _moved_bytes_key(quality.figures)
    priced = replace(plan, prices={**plan.prices, name: prices})
    if name != "moved" and "moved" not in plan.disk_prices:
        priced.prices["moved"] = prices
    proven = judge_replicas(task, priced)
    return (priced, proven) if proven.bounds[name] > quality.bounds[name] else (plan, quality)


def _improve_by_dual(
    task: ReplicaTask, plan: NewReplicas, quality: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Improve the replica placement of a large cluster by Lagrangian relaxation, rounding and
    repair.

    The relaxation also proves lower bounds of the costs; its dual prices are added to the plan.

    Args:
        task: cluster, brokers and limits.
        plan: the placement to improve.
        quality: the placement's costs and their lower bounds.

    Returns:
        The best placement found, with its costs and lower bounds.
    """
    # The dual prices are added to the plan if they prove a higher lower bound of its costs.
    is_size_right = 2 * MOST_BINARIES < _count_pairs(task) <= MOST_DUAL_PAIRS
    if quality.optimal or not is_size_right or task.closed.all():
        return plan, quality
    name = _moved_bytes_key(quality.figures)
    start = plan.prices.get(name, np.zeros(task.low.shape))
    large = place_large_partitions(task, quality.figures)
    if large is None:
        found, imbalance = solve_dual(task, quality.figures, start, plan.replica), quality.figures
    else:
        imbalance = large.max_imbalance
        found = solve_dual(task, imbalance, large.prices, plan.replica, large.brokers)
    if found is None:
        return plan, quality
    prices = {name: found.prices, "moved": found.prices}
    plan, quality = _add_better_prices(task, plan, quality, prices)
    found = plan_by_diving(task, imbalance, found, [plan.replica])
    plan, quality = _choose_better_plan(task, plan, quality, improve_placement(task, found.replica))
    plan, quality = _fix_and_optimise(task, plan, quality, found)
    if large is None:
        return plan, quality
    for classes in PROOF_CLASSES:
        priced = replace(plan, split_prices=find_split_prices(task, quality.figures, classes))
        proven = judge_replicas(task, priced)
        if proven.bounds[name] > quality.bounds[name]:
            plan, quality = priced, proven
    return plan, quality


def _is_near_bound(quality: ReplicaVerdict, cost: str, reachable: float) -> bool:
    """Return whether a plan's cost is so near its lower bound that no further search is worthwhile.

    The bound is the proven one, or the estimate ``reachable`` if that is higher.

    Args:
        quality: the costs of the plan and their lower bounds.
        cost: name of the cost.
        reachable: lowest cost that a plan with the same large partitions can have.
    """
    moved = quality.figures[cost]
    return moved - max(quality.bounds[cost], reachable) <= _REPAIRED_GAP * moved


def _fix_and_optimise(
    task: ReplicaTask, plan: NewReplicas, quality: ReplicaVerdict, dual: DualPlan
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Improve the replica placement of a large cluster by fix-and-optimise.

    In each round an integer programme places some partitions again, while all others stay fixed.
    The rounds end when the cost is near its lower bound or no longer falls.

    Args:
        task: cluster, brokers and limits.
        plan: the placement to improve.
        quality: the placement's costs and their lower bounds.
        dual: solution of the Lagrangian dual, which selects the partitions to re-place.
    """
    newcomers, name = rack_minima(task).newcomers, _moved_bytes_key(quality.figures)
    idle = iterations = 0
    for turn in range(_MOST_REPAIRS):
        moved = quality.figures[name]
        is_near = _is_near_bound(quality, name, dual.reachable)
        if is_near or idle == _MOST_IDLE_REPAIRS or iterations >= _MOST_ITERATIONS:
            break
        free = select_free_partitions(task, dual.prices, plan.replica, dual.choice, turn)
        small, slots = restrict_to_partitions(task, free, plan.replica)
        solved = solve_exactly(
            small, quality.figures, plan.replica[slots], _rack_limits(small, newcomers[free]),
            _MARGIN, nodes=_REPAIR_NODES, gap=_REPAIR_MIP_GAP,
        )  # fmt: skip
        if solved is None:
            idle += 1
            continue
        better = plan.replica.copy()
        better[slots] = solved.replica
        iterations += solved.iterations
        plan, quality = _choose_better_plan(task, plan, quality, better)
        idle = 0 if moved - quality.figures[name] > _LEAST_REPAIR_GAIN * moved else idle + 1
    return plan, quality


def _choose_better_plan(
    task: ReplicaTask, plan: NewReplicas, quality: ReplicaVerdict, replica: NDArray[np.int32]
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Return a new replica placement if it is valid and cheaper than the old one, else the old one.

    Leaders and disks of the new placement are chosen first.

    Args:
        task: cluster, brokers and limits.
        plan: the old placement.
        quality: the costs of the old placement.
        replica: the broker of each replica in the new placement.
    """
    bare = _choose_leaders_and_disks(task, replica)
    reached = judge_replicas(task, bare)
    if reached.breaches or list(reached.figures.values()) >= list(quality.figures.values()):
        return plan, quality
    other = replace(bare, prices=plan.prices, disk_prices=plan.disk_prices, solver=_DUAL_SOLVER)
    return other, judge_replicas(task, other)


def _add_better_prices(
    task: ReplicaTask, plan: NewReplicas, quality: ReplicaVerdict,
    prices: dict[str, NDArray[np.float64]],
) -> tuple[NewReplicas, ReplicaVerdict]:  # fmt: skip
    """Add dual prices to a replica plan if they prove a higher lower bound of one of its costs.

    A dual price says how much the cost would fall if a broker's limit were relaxed by one unit.
    Anyone can verify a lower bound with such prices, without trust in the solver.

    Args:
        task: cluster, brokers and limits.
        plan: the plan for moving replicas.
        quality: the plan's costs and the lower bounds proven so far.
        prices: new dual prices by name of the cost, for example "moved" (bytes to copy).
    """
    for name, claimed in prices.items():
        if name == "moved" and name in plan.disk_prices:
            continue
        priced = replace(plan, prices={**plan.prices, name: claimed})
        proven = judge_replicas(task, priced)
        if proven.bounds[name] > quality.bounds[name]:
            plan, quality = priced, proven
    return plan, quality


def _add_dual_prices(task: ReplicaTask, plan: NewReplicas, quality: ReplicaVerdict) -> NewReplicas:
    """Search for dual prices that prove lower bounds of a plan's costs, and add them to the plan.

    Dual prices are the shadow prices of the balance limits in a linear programme. A lower bound
    shows how far the plan can be from the optimum.

    Args:
        task: cluster, brokers and limits.
        plan: the plan for moving replicas.
        quality: the plan's costs and the lower bounds known so far.
    """
    # A cost of 0 needs no bound.
    pairs = len(task.cost) * len(task.cluster.brokers)
    rounds = _BOUND_ROUNDS if pairs < _MANY_PAIRS else _BOUND_ROUNDS_OF_MANY
    figures = quality.figures
    prices = {
        name: find_dual_prices(task, figures, name=name, rounds=rounds)
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
            priced = _add_best_disk_prices(task, priced, name, figures, tried)
    return priced


def _add_best_disk_prices(
    task: ReplicaTask,
    plan: NewReplicas,
    cost: str,
    costs: dict[str, int],
    candidates: list[NDArray[np.float64]],
) -> NewReplicas:
    """Choose the dual prices that prove the highest lower bound of a disk cost, and add them to a
    plan.

    Dual prices are the shadow prices of the disks' limits. The plan is unchanged if no candidate
    improves the bound.

    Args:
        task: cluster, brokers and limits.
        plan: the plan for moving replicas.
        cost: name of the cost, such as moves between disks.
        costs: the plan's costs by name.
        candidates: the dual prices (shadow prices of the disks' limits) to choose from.
    """
    found = rack_minima(task)
    least = found if costs["racks"] <= int(found.breach.sum()) else None
    best, most = plan, plan_cost_bound(task, plan, cost, costs, least)
    for prices in candidates:
        priced = replace(plan, disk_prices={**plan.disk_prices, cost: prices})
        bound = plan_cost_bound(task, priced, cost, costs, least)
        if bound > most:
            best, most = priced, bound
    return best


def _current_costs(task: ReplicaTask) -> dict[str, int]:
    """Return the costs of the cluster's current replica placement, for comparison with the plan.

    The dict is empty if replication factors change, because the costs are not comparable then.

    Args:
        task: cluster, brokers and limits.
    """
    cluster = task.cluster
    if not np.array_equal(task.factor, cluster.replication_factors):
        return {}
    # A leader that is not the preferred one changes places with it, and so do their disks.
    disk = None
    if task.disks is not None:
        keys = task.current_partition * len(task.alive) + cluster.replica
        order = np.argsort(keys)
        led = task.current_partition * len(task.alive) + cluster.replicas_leader_first
        disk = task.disks.old[order[np.searchsorted(keys[order], led)]]
    return judge_replicas(task, NewReplicas(cluster.replicas_leader_first, disk=disk)).figures


def _explain_overfull(task: ReplicaTask, replica: NDArray[np.int32]) -> str:
    """Return an error message that names the broker whose replicas exceed its capacity.

    If all brokers together lack capacity, the message says so instead.

    Args:
        task: cluster, brokers and limits.
        replica: the broker of each replica in the placement.
    """
    # If all brokers together lack capacity, the message says so instead.
    cluster = task.cluster
    held = sum_by_broker_and_rack(task, task.partition_of_replica, replica)
    b = int(outside_bands(task, held)[0].argmax())
    total, room = (
        int(task.weight[0][task.partition_of_replica].sum()),
        int(cluster.capacity[task.alive].sum()),
    )
    if (cluster.capacity[task.alive] >= 0).all() and total > room:
        return f"replicas need {total} bytes, brokers have room for {room}"
    return (
        f"broker {cluster.brokers[b].id} would hold {held[0, b]} bytes, and has room for "
        f"{cluster.capacity[b]}; no plan was found that keeps to all capacities"
    )
