"""From a task to a plan that the judge has looked at: where solver, replicas and judge meet."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from partage.errors import NoFeasiblePlanError, PlanInvariantError
from partage.judge.rack_breaches import least_of, rack_ranges
from partage.judge.replica_bounds import figure_bound
from partage.judge.replicas import OVERFULL, ReplicaVerdict, judge_replicas
from partage.model import NewReplicas, ReplicaTask
from partage.model.replicas import RANKS
from partage.replicas.moves import Moves
from partage.solve.replicas.bounds import climb
from partage.solve.replicas.disks import disk_prices, shelve
from partage.solve.replicas.dual import DualPlan, solve_dual
from partage.solve.replicas.exact import LARGEST, exact, is_installed, relaxed
from partage.solve.replicas.leaders import lead
from partage.solve.replicas.local_search import outside, relocate
from partage.solve.replicas.neighbours import neighbours
from partage.solve.replicas.repair import free_sets, restricted

__all__ = ["Reassignment", "reassign"]

#: Evaluations of every partition against every broker, in search of a bound.
_ROUNDS = 150
_ROUNDS_LARGE = 24
_LARGE = 20_000_000
#: Plans that are tried where replicas times brokers are few: measured, 0.7 s at most with two disks
#: on each broker; turns of trying and of an integer programme.
_MOST_TRIED, _FEW_CELLS, _MOST_TURNS = 500, 60, 4
#: Pairs of partition and broker that are planned by dual prices: minutes on one core at most.
MOST_PRICED = 6_000_000
_BY_PRICES = "dual prices and repair (HiGHS)"
#: Small programmes at most, and in a row with less than this gain; the gap at which the rest is
#: left, both as a part of the bytes moved.
_MOST_REPAIRS, _IDLE_REPAIRS, _GAIN, _NEAR_ENOUGH = 48, 12, 1e-4, 0.005
#: Nodes times binaries of each small programme, and the relative gap at which it may stop.
_REPAIR_NODES, _REPAIR_GAP = 100_000, 1e-3


@dataclass(frozen=True, eq=False)
class Reassignment:
    """A plan, what the judge says of it and of what was before.

    Attributes:
        task: what was asked.
        plan: the answer.
        verdict: of the plan, bounds included.
        before: figures of the cluster as it is, as far as it has as many replicas as are wanted.
        lacks_solver: HiGHS is not installed, and it might have moved less or proven more.
    """

    task: ReplicaTask
    plan: NewReplicas
    verdict: ReplicaVerdict
    before: dict[str, int]
    lacks_solver: bool = False

    @property
    def moves(self) -> Moves:
        """What is moved."""
        return Moves(self.task, self.plan.replica, self.plan.disk)


def reassign(task: ReplicaTask, *, proof: bool = True) -> Reassignment:
    """A plan for a task: rack rule, then balance, then the fewest bytes moved.

    Args:
        task: of `partage.replicas.tasks`.
        proof: look for bounds; without, every bound is 0 (or what is plain).

    Raises:
        NoFeasiblePlanError: which constraint is in the way, by name.
        PlanInvariantError: the plan breaks a rule: a mistake of ours, never shown.
    """
    bare = _arranged(task, relocate(task))
    verdict = judge_replicas(task, bare)
    if verdict.figures["capacity"]:
        bare = _with_room(task, bare)
        verdict = judge_replicas(task, bare)
    if verdict.breaches and all(one.endswith(OVERFULL) for one in verdict.breaches):
        bare = _with_room_on_disks(task, bare, verdict.breaches[0])
        verdict = judge_replicas(task, bare)
    if verdict.breaches:
        raise PlanInvariantError(verdict.breaches)
    plan = bare
    if proof:
        plan = _priced(task, bare, verdict)
        verdict = judge_replicas(task, plan)
        if not verdict.optimal:
            plan, verdict = _searched(task, plan, verdict)
            plan, verdict = _with_duals(task, plan, verdict)
            plan, verdict = _by_prices(task, plan, verdict)
    lacks = proof and _would_gain(task, verdict) and not is_installed()
    return Reassignment(task, plan, verdict, _before(task), lacks)


def _would_gain(task: ReplicaTask, verdict: ReplicaVerdict) -> bool:
    """Return whether HiGHS would be asked for a better plan or bound of this task."""
    cells = int(task.receives.sum()) * len(task.cost)
    if verdict.optimal or not 0 < cells <= MOST_PRICED:
        return False
    return cells <= 2 * LARGEST or not task.closed.all()


def _with_room(task: ReplicaTask, plan: NewReplicas) -> NewReplicas:
    """Any plan in which brokers have room enough, where an integer programme finds one."""
    found = None
    if int(task.receives.sum()) * len(task.cost) <= 2 * LARGEST:
        room = {"capacity": 0}
        newcomers = least_of(task).newcomers
        found = exact(task, room, plan.replica, newcomers, rack_ranges(task), anyhow=True)
    if found is None:
        raise NoFeasiblePlanError("capacity", _too_full(task, plan.replica))
    return _arranged(task, found[0])


def _with_room_on_disks(task: ReplicaTask, plan: NewReplicas, why: str) -> NewReplicas:
    """Another plan, in which brokers whose disks were overfilled take nothing."""
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
            plan = _arranged(task, relocate(replace(task, receives=receives)))
        except NoFeasiblePlanError:
            break
        if not judge_replicas(task, plan).breaches:
            return plan
    raise NoFeasiblePlanError("capacity", f"{why}; no plan was found without")


def _arranged(task: ReplicaTask, replica: NDArray[np.int32]) -> NewReplicas:
    """Sets of brokers with their leaders and disks: a plan without claims."""
    ordered, lead_prices = lead(task, replica)
    return NewReplicas(ordered, {}, lead_prices, shelve(task, ordered))


def _exactly(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """The plan of an integer programme, where it is small enough and no worse in any figure."""
    cells = int(task.receives.sum()) * len(task.cost)
    if not 0 < cells <= 2 * LARGEST:
        return plan, verdict
    newcomers, ranges = least_of(task).newcomers, rack_ranges(task)
    bound = None
    # Rounding may put a broker a byte outside; the second try keeps a margin.
    for margin in (0.0, 1e-6):
        found = exact(task, verdict.figures, plan.replica, newcomers, ranges, margin)
        if found is None:
            break
        bound = found[1] if bound is None else bound
        bare = _arranged(task, found[0])
        better = replace(bare, prices=plan.prices, disk_prices=plan.disk_prices,
                         solver="HiGHS", solver_bound=bound)  # fmt: skip
        told = judge_replicas(task, bare)
        if not told.breaches and list(told.figures.values()) <= list(verdict.figures.values()):
            return better, judge_replicas(task, better)
    return replace(plan, solver_bound=bound), verdict


def _searched(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """By an integer programme and by trying, in turn, until neither finds anything better.

    What the programme says is necessary holds for the figures that it was given: where trying wins
    one of these it is asked again.
    """
    for _ in range(_MOST_TURNS):
        plan, verdict = _exactly(task, plan, verdict)
        known = verdict.figures
        plan, verdict = _altogether(task, plan, verdict)
        if verdict.figures == known:
            break
    return plan, verdict


def _altogether(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Sets, leaders and disks weighed together, where they are so few that plans can be tried.

    Each is the best for those before it; what that loses, a set one or two steps aside may win.
    The plan comes without a solver's bound, unless it is the one that was given.
    """
    left = _MOST_TRIED if len(task.owner) * len(task.alive) <= _FEW_CELLS else 0
    better = True
    while better and left > 0 and not verdict.optimal:
        better = False
        for sets in neighbours(task, plan.replica, most=_MOST_TRIED):
            left -= 1
            if left < 0:
                break
            bare = _arranged(task, sets)
            told = judge_replicas(task, bare)
            if not told.breaches and list(told.figures.values()) < list(verdict.figures.values()):
                plan = _priced(task, bare, told)
                verdict, better = judge_replicas(task, plan), True
                break
    return plan, verdict


def _with_duals(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """The plan with prices of a linear programme, where it is small and they prove more."""
    cells = int(task.receives.sum()) * len(task.cost)
    if verdict.optimal or not 0 < cells <= 2 * LARGEST:
        return plan, verdict
    prices = relaxed(task, verdict.figures, least_of(task).newcomers, rack_ranges(task))
    name = "between brokers" if "between brokers" in verdict.figures else "moved"
    if prices is None:
        return plan, verdict
    priced = replace(plan, prices={**plan.prices, name: prices})
    if name != "moved" and "moved" not in plan.disk_prices:
        priced.prices["moved"] = prices
    proven = judge_replicas(task, priced)
    return (priced, proven) if proven.bounds[name] > verdict.bounds[name] else (plan, verdict)


def _by_prices(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Plan by dual prices and repair, where the cluster is beyond one integer programme.

    Prices go into the plan only where the judge finds that they prove more.
    """
    cells = int(task.receives.sum()) * len(task.cost)
    if verdict.optimal or not 2 * LARGEST < cells <= MOST_PRICED or task.closed.all():
        return plan, verdict
    name = "between brokers" if "between brokers" in verdict.figures else "moved"
    start = plan.prices.get(name, np.zeros(task.low.shape))
    found = solve_dual(task, verdict.figures, start, plan.replica)
    if found is None:
        return plan, verdict
    plan, verdict = _claimed(task, plan, verdict, {name: found.prices, "moved": found.prices})
    plan, verdict = _if_better(task, plan, verdict, relocate(task, found.replica))
    return _repaired(task, plan, verdict, found)


def _repaired(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict, found: DualPlan
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Free a few partitions at a time and solve them as an integer programme (fix-and-optimise)."""
    newcomers = least_of(task).newcomers
    name = "between brokers" if "between brokers" in verdict.figures else "moved"
    idle = 0
    for turn in range(_MOST_REPAIRS):
        moved = verdict.figures[name]
        if moved - verdict.bounds[name] <= _NEAR_ENOUGH * moved or idle == _IDLE_REPAIRS:
            break
        those = free_sets(task, found.prices, plan.replica, found.choice, turn)
        small, mine = restricted(task, those, plan.replica)
        solved = exact(small, verdict.figures, plan.replica[mine], newcomers[those],
                       rack_ranges(small), 1e-6, nodes=_REPAIR_NODES, gap=_REPAIR_GAP)  # fmt: skip
        if solved is None:
            idle += 1
            continue
        better = plan.replica.copy()
        better[mine] = solved[0]
        plan, verdict = _if_better(task, plan, verdict, better)
        idle = 0 if moved - verdict.figures[name] > _GAIN * moved else idle + 1
    return plan, verdict


def _if_better(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict, replica: NDArray[np.int32]
) -> tuple[NewReplicas, ReplicaVerdict]:
    """Return the plan of other sets with the same claims, if it is valid and its figures less."""
    bare = _arranged(task, replica)
    reached = judge_replicas(task, bare)
    if reached.breaches or list(reached.figures.values()) >= list(verdict.figures.values()):
        return plan, verdict
    other = replace(bare, prices=plan.prices, disk_prices=plan.disk_prices, solver=_BY_PRICES)
    return other, judge_replicas(task, other)


def _claimed(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict,
    prices: dict[str, NDArray[np.float64]],
) -> tuple[NewReplicas, ReplicaVerdict]:  # fmt: skip
    """Return the plan with each of these prices that proves more than its own."""
    for name, claimed in prices.items():
        if name == "moved" and name in plan.disk_prices:
            continue
        priced = replace(plan, prices={**plan.prices, name: claimed})
        proven = judge_replicas(task, priced)
        if proven.bounds[name] > verdict.bounds[name]:
            plan, verdict = priced, proven
    return plan, verdict


def _priced(task: ReplicaTask, plan: NewReplicas, reached: ReplicaVerdict) -> NewReplicas:
    """The plan with prices for each figure that is not plainly at its bound."""
    cells = len(task.cost) * len(task.cluster.brokers)
    rounds = _ROUNDS if cells < _LARGE else _ROUNDS_LARGE
    figures = reached.figures
    prices = {
        name: climb(task, figures, name=name, rounds=rounds)
        for name in (*RANKS, "moved")
        if figures.get(name) and not name.endswith("leaders") and not name.startswith("disk")
    }
    if "between brokers" in figures and "moved" in prices:
        prices["between brokers"] = prices["moved"]
    made = replace(plan, prices=prices)
    # What prices of disks prove is tried out, and trying takes seconds where clusters are large.
    if task.disks is None or plan.disk is None or cells >= _LARGE:
        return made
    for name in figures:
        if figures[name] and (name.startswith("disk") or name == "moved"):
            tried = disk_prices(task, plan.replica, plan.disk, name)
            made = _best_disk_prices(task, made, name, figures, tried)
    return made


def _best_disk_prices(
    task: ReplicaTask,
    plan: NewReplicas,
    name: str,
    figures: dict[str, int],
    tried: list[NDArray[np.float64]],
) -> NewReplicas:
    """The prices of disks that prove most, beside those of brokers and racks, or none."""
    found = least_of(task)
    least = found if figures["racks"] <= int(found.breach.sum()) else None
    best, most = plan, figure_bound(task, plan, name, figures, least)
    for one in tried:
        priced = replace(plan, disk_prices={**plan.disk_prices, name: one})
        bound = figure_bound(task, priced, name, figures, least)
        if bound > most:
            best, most = priced, bound
    return best


def _before(task: ReplicaTask) -> dict[str, int]:
    """The figures of what is, led by who leads now.

    Of other replication factors there is nothing to compare.
    """
    cluster = task.cluster
    if not np.array_equal(task.factor, cluster.factor):
        return {}
    # Who leads in another's place changes places with it, and their disks do too.
    disk = None
    if task.disks is not None:
        keys = task.old_owner * len(task.alive) + cluster.replica
        order = np.argsort(keys)
        led = task.old_owner * len(task.alive) + cluster.led
        disk = task.disks.old[order[np.searchsorted(keys[order], led)]]
    return judge_replicas(task, NewReplicas(cluster.led, disk=disk)).figures


def _too_full(task: ReplicaTask, replica: NDArray[np.int32]) -> str:
    """Which broker is too full, and whether any plan could do without."""
    cluster = task.cluster
    x = np.zeros(task.low.shape, np.int64)
    owner = task.owner
    np.add.at(x[0], replica, task.weight[0][owner])
    over = outside(task, x)[0]
    b = int(over.argmax())
    held, room = int(task.weight[0][owner].sum()), int(cluster.capacity[task.alive].sum())
    if (cluster.capacity[task.alive] >= 0).all() and held > room:
        return f"{held} bytes are to be held, brokers have room for {room}"
    return (
        f"broker {cluster.brokers[b].id} would hold {x[0, b]} bytes, and has room for "
        f"{cluster.capacity[b]}; no plan was found in which every broker has room enough"
    )
