"""From a task to a plan that the judge has looked at: where solver, replicas and judge meet."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from partage.errors import NoFeasiblePlanError, PlanInvariantError
from partage.judge.relocation import ReplicaVerdict, judge_replicas
from partage.model import NewReplicas, ReplicaTask
from partage.model.replicas import KINDS
from partage.replicas.batches import Moves
from partage.solve.leading import lead
from partage.solve.relocate import outside, relocate
from partage.solve.relocation_bound import climb
from partage.solve.relocation_exact import LARGEST, exact

__all__ = ["Reassignment", "reassign"]

#: Evaluations of every partition against every broker, in search of a bound.
_ROUNDS = 150
_ROUNDS_LARGE = 24
_LARGE = 20_000_000


@dataclass(frozen=True, eq=False)
class Reassignment:
    """A plan, what the judge says of it and of what was before.

    Attributes:
        task: what was asked.
        plan: the answer.
        verdict: of the plan, bounds included.
        before: figures of the cluster as it is, as far as it has as many replicas as are wanted.
    """

    task: ReplicaTask
    plan: NewReplicas
    verdict: ReplicaVerdict
    before: dict[str, int]

    @property
    def moves(self) -> Moves:
        """What is moved."""
        return Moves(self.task, self.plan.replica)


def reassign(task: ReplicaTask, *, proof: bool = True) -> Reassignment:
    """A plan for a task: rack rule, then balance, then the fewest bytes moved.

    Args:
        task: of `partage.replicas.tasks`.
        proof: look for bounds; without, every bound is 0 (or what is plain).

    Raises:
        NoFeasiblePlanError: which constraint is in the way, by name.
        PlanInvariantError: the plan breaks a rule: a mistake of ours, never shown.
    """
    replica, lead_prices = lead(task, relocate(task))
    bare = judge_replicas(task, NewReplicas(replica, {}, lead_prices))
    if bare.figures["capacity"]:
        raise NoFeasiblePlanError("capacity", _too_full(task, replica))
    if bare.breaches:
        raise PlanInvariantError(bare.breaches)
    plan = NewReplicas(replica, _prices(task, bare) if proof else {}, lead_prices)
    verdict = judge_replicas(task, plan)
    if proof and not verdict.optimal:
        plan, verdict = _exactly(task, plan, verdict)
    return Reassignment(task, plan, verdict, _before(task))


def _exactly(
    task: ReplicaTask, plan: NewReplicas, verdict: ReplicaVerdict
) -> tuple[NewReplicas, ReplicaVerdict]:
    """The plan of an integer programme, where it is small enough and no worse in any figure."""
    cells = int(task.receives.sum()) * len(task.cost)
    if task.closed[task.factor > 0].any() or cells > 2 * LARGEST:
        return plan, verdict
    allowed = np.array([verdict.figures[kind] for kind in KINDS], np.int64)
    bound = None
    # Rounding may put a broker a byte outside; the second try keeps a margin.
    for margin in (0.0, 1e-6):
        found = exact(task, allowed, plan.replica, margin)
        if found is None:
            break
        bound = found[1] if bound is None else bound
        replica, lead_prices = lead(task, found[0])
        better = NewReplicas(replica, plan.prices, lead_prices, "HiGHS", bound)
        told = judge_replicas(task, NewReplicas(replica, {}, lead_prices))
        if not told.breaches and list(told.figures.values()) <= list(verdict.figures.values()):
            return better, judge_replicas(task, better)
    return replace(plan, solver_bound=bound), verdict


def _prices(task: ReplicaTask, reached: ReplicaVerdict) -> dict[str, NDArray[np.float64]]:
    """Prices for each figure that is not plainly at its bound."""
    cells = len(task.cost) * len(task.cluster.brokers)
    rounds = _ROUNDS if cells < _LARGE else _ROUNDS_LARGE
    allowed = np.array([reached.figures[kind] for kind in KINDS], np.int64)
    prices = {}
    for k, kind in enumerate(KINDS):
        if reached.figures[kind]:
            prices[kind] = climb(
                task, allowed, figure=str(k), reached=float(reached.figures[kind]), rounds=rounds
            )
    if reached.figures["moved"]:
        moved = float(reached.figures["moved"])
        prices["moved"] = climb(task, allowed, figure="moved", reached=moved, rounds=rounds)
    return prices


def _before(task: ReplicaTask) -> dict[str, int]:
    """The figures of what is; of other replication factors there is nothing to compare."""
    cluster = task.cluster
    if not np.array_equal(task.factor, cluster.factor):
        return {}
    verdict = judge_replicas(task, NewReplicas(cluster.replica, {}, np.zeros(len(task.alive))))
    return verdict.figures


def _too_full(task: ReplicaTask, replica: NDArray[np.int32]) -> str:
    """Which broker is too full, and whether any plan could do without."""
    cluster = task.cluster
    x = np.zeros(task.low.shape, np.int64)
    owner = np.repeat(np.arange(cluster.partitions), task.factor)
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
