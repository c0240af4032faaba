"""Plans by dual prices and repair: their quality, their bounds, and every limit they keep."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from partage.api import reassignments
from partage.api.reassignments import reassign
from partage.cli.reassign import _sentences
from partage.commands.reassignments import split_plan
from partage.judge.replicas import judge_replicas
from partage.kernels import force_kernel_form
from partage.model import Broker, NewReplicas, ReplicaCluster
from partage.replicas import tasks
from partage.replicas.bands import PlanLimits
from partage.solve.replicas import dual
from partage.solve.replicas.bounds import find_dual_prices
from partage.solve.replicas.diving import plan_by_diving
from partage.solve.replicas.dual import solve_dual
from partage.solve.replicas.exact import solve_exactly
from partage.solve.replicas.local_search import improve_placement, place_replicas
from partage.solve.replicas.repair import restrict_to_partitions

pytest.importorskip("highspy")


def heavy(brokers: int, partitions: int, racks: int, *, seed: int = 0, room: bool = False):
    """Pareto(1.2) sizes on uneven brokers; with room, brokers have a fifth more than they need."""
    rng = np.random.default_rng(seed)
    chance = rng.uniform(0.5, 1.5, brokers)
    drawn = rng.exponential(size=(partitions, brokers)) / chance
    replica = np.argsort(drawn, axis=1)[:, :3].astype(np.int32)
    size = (1e6 * (1 + rng.pareto(1.2, partitions))).astype(np.int64)
    number = np.arange(partitions, dtype=np.int32)
    held = np.bincount(replica.ravel(), weights=np.repeat(size, 3), minlength=brokers)
    capacity = np.maximum(held, 1.2 * held.mean()).astype(np.int64)
    return ReplicaCluster(
        topics=("a", "b"), topic=number % 2, number=number // 2,
        start=np.arange(partitions + 1, dtype=np.int64) * 3, replica=replica.ravel().copy(),
        leader=replica[:, 0].copy(), size=size, load=rng.integers(0, 10**4, partitions),
        brokers=tuple(Broker(i, f"r{i % racks}" if racks else None) for i in range(brokers)),
        capacity=capacity if room else np.full(brokers, -1, np.int64),
        directories=((),) * brokers, directory=np.full(3 * partitions, -1, np.int32),
    )  # fmt: skip


@pytest.mark.parametrize("stalled", [dual._STALLED, 1])
def test_near_the_bound_beyond_one_programme(stalled, monkeypatch) -> None:
    """At most 2 % above the verified bound with heavy-tailed sizes, and less than the local search;
    also if the primal simplex method stalls each time.
    """
    monkeypatch.setattr(dual, "_STALLED", stalled)
    solve, statuses = dual.RestrictedMaster.solve_in_box, set()

    def observed(self, *given):
        found = solve(self, *given)
        statuses.add(self.highs.modelStatusToString(self.highs.getModelStatus()))
        return found

    monkeypatch.setattr(dual.RestrictedMaster, "solve_in_box", observed)
    task = tasks.rebalance_task(heavy(12, 1_500, 3, seed=2))
    with force_kernel_form("compiled"):
        found = reassign(task)
        monkeypatch.setattr(reassignments, "MOST_DUAL_PAIRS", 0)
        local = reassign(task)
    assert statuses == {"Optimal"}
    assert found.verdict.avoidable_fraction <= 0.02
    assert found.verdict.figures["moved"] < local.verdict.figures["moved"]
    assert found.verdict.bounds["moved"] >= local.verdict.bounds["moved"]
    assert found.plan.solver.startswith("dual prices")
    again = judge_replicas(task, found.plan)
    assert not again.breaches
    assert again.bounds == found.verdict.bounds


def test_a_partition_wider_than_a_band_is_placed_whole() -> None:
    """One partition has 70 % of a broker's share: rounding ends far above the bound, diving near it."""
    task = tasks.rebalance_task(with_a_giant())
    known = place_replicas(task)
    figures = judge_replicas(task, NewReplicas(known, {}, {})).figures
    figures |= {name: 0 for name in figures if name != "moved"}
    with force_kernel_form("compiled"):
        prices = find_dual_prices(task, figures, name="moved", rounds=150)
        dual = solve_dual(task, figures, prices, known)
        rounded = improve_placement(task, dual.replica)
        dived = improve_placement(
            task, plan_by_diving(task, figures, dual, [known, rounded]).replica
        )
    plan = NewReplicas(dived, {"moved": dual.prices}, {})
    verdict = judge_replicas(task, plan)
    assert verdict.avoidable_fraction <= 0.02
    assert not verdict.figures["bytes"]
    assert not verdict.figures["replicas"]
    assert (
        verdict.figures["moved"]
        < judge_replicas(task, replace(plan, replica=rounded)).figures["moved"]
    )


@pytest.mark.parametrize(
    "made",
    [
        lambda one: tasks.rebalance_task(one, PlanLimits(pinned=["a"])),
        lambda one: tasks.rebalance_task(one, PlanLimits(excluded=["b"])),
        lambda one: tasks.rebalance_task(one, PlanLimits(tolerance={"bytes": 0.02, "load": 0.5})),
        lambda one: tasks.drain_brokers(one, [3]),
        lambda one: tasks.add_brokers(one, [5]),
        lambda one: tasks.change_factor(one, 2),
        tasks.fix_racks,
    ],
)
@pytest.mark.parametrize("room", [False, True])
def test_every_task_keeps_its_limits(made, room, monkeypatch) -> None:
    """A plan by prices is valid and no worse in any figure than the local search's, in their order."""
    task = made(heavy(6, 50, 3, seed=5, room=room))
    monkeypatch.setattr(reassignments, "MOST_BINARIES", 0)
    monkeypatch.setattr(reassignments, "_MOST_REPAIRS", 3)
    with force_kernel_form("compiled"):
        found = reassign(task)
        monkeypatch.setattr(reassignments, "MOST_DUAL_PAIRS", 0)
        local = reassign(task)
    assert not found.verdict.breaches
    figures, before = (list(one.verdict.figures.values()) for one in (found, local))
    assert figures <= before


def test_repairs_end_after_so_many_iterations(monkeypatch) -> None:
    """Simplex iterations measure the work of repairs, which end at a limit and not by a clock."""
    solved = []

    def solve(*args, **options):
        solved.append(solve_exactly(*args, **options))
        return solved[-1]

    monkeypatch.setattr(reassignments, "MOST_BINARIES", 400)
    monkeypatch.setattr(reassignments, "_REPAIRED_GAP", 0.0)
    monkeypatch.setattr(reassignments, "_MOST_REPAIRS", 2)
    monkeypatch.setattr(reassignments, "solve_exactly", solve)
    task = tasks.rebalance_task(heavy(8, 300, 3, seed=2))
    with force_kernel_form("compiled"):
        reassign(task)
        assert len(solved) == 2
        most = solved[0].iterations
        assert most > 0
        solved.clear()
        monkeypatch.setattr(reassignments, "_MOST_ITERATIONS", most)
        assert not reassign(task).verdict.breaches
    assert len(solved) == 1


def with_a_giant() -> ReplicaCluster:
    """One partition has 70 % of a broker's share."""
    cluster = heavy(10, 850, 0)
    size, largest = cluster.size.copy(), int(cluster.size.argmax())
    size[largest] = int(0.7 * 3 * (size.sum() - size[largest]) / 10)
    return replace(cluster, size=size, load=None)


@pytest.mark.parametrize("reachable", [True, False])
def test_repair_ends_near_what_large_partitions_allow(reachable, monkeypatch) -> None:
    """A plan that is near the optimum with its large partitions is not repaired, however far the
    bound is; without that estimate it is.
    """
    solved, estimates = [], []

    def dived(*args):
        found = plan_by_diving(*args)
        estimates.append(found.reachable)
        return found if reachable else replace(found, reachable=0.0)

    def solve(*args, **options):
        solved.append(1)
        return solve_exactly(*args, **options)

    monkeypatch.setattr(reassignments, "plan_by_diving", dived)
    monkeypatch.setattr(reassignments, "solve_exactly", solve)
    monkeypatch.setattr(reassignments, "_MOST_REPAIRS", 1)
    with force_kernel_form("compiled"):
        verdict = reassign(tasks.rebalance_task(with_a_giant())).verdict
    assert estimates[0] > verdict.bounds["moved"]
    assert len(solved) == (0 if reachable else 1)


def with_disks(cluster: ReplicaCluster) -> ReplicaCluster:
    """Two disks on each broker, most replicas on the first; no partition wider than a disk's band."""
    rng = np.random.default_rng(7)
    return replace(
        cluster, directories=((("/d", -1), ("/e", -1)),) * len(cluster.brokers),
        directory=(rng.random(len(cluster.replica)) < 0.2).astype(np.int32),
        size=np.minimum(cluster.size, int(cluster.size.sum()) // 200), load=None,
    )  # fmt: skip


def test_dual_prices_with_several_disks_a_broker(monkeypatch) -> None:
    """The dual moves less between brokers than the local search; disks end balanced; bounds hold."""
    monkeypatch.setattr(reassignments, "MOST_BINARIES", 400)
    monkeypatch.setattr(reassignments, "_MOST_REPAIRS", 3)
    task = tasks.rebalance_task(with_disks(heavy(8, 300, 3, seed=2)))
    with force_kernel_form("compiled"):
        found = reassign(task)
        monkeypatch.setattr(reassignments, "MOST_DUAL_PAIRS", 0)
        local = reassign(task)
    figures, bounds = found.verdict.figures, found.verdict.bounds
    assert found.plan.solver.startswith("dual prices")
    assert figures["between brokers"] < local.verdict.figures["between brokers"]
    assert bounds["between brokers"] >= local.verdict.bounds["between brokers"]
    assert figures["between brokers"] <= 1.03 * bounds["between brokers"]
    assert figures["moved"] > figures["between brokers"]
    assert found.before["disk bytes"] > 0
    assert figures["disk replicas"] == figures["disk bytes"] == 0
    again = judge_replicas(task, found.plan)
    assert not again.breaches
    assert again.bounds == bounds


def test_a_plan_of_a_large_cluster_names_its_size(monkeypatch) -> None:
    """Beyond the pairs that dual prices handle, plan and command say that the size is the reason."""
    monkeypatch.setattr(reassignments, "MOST_BINARIES", 20)
    monkeypatch.setattr(reassignments, "MOST_DUAL_PAIRS", 100)
    with force_kernel_form("compiled"):
        found = reassign(tasks.rebalance_task(heavy(6, 30, 3, seed=2)))
        assert found.too_large_for_solver
        assert not found.lacks_solver
        summary = split_plan(found, "rebalance").summary
        printed = "\n".join(map(str, _sentences(summary)))
        assert "180 pairs of partition and broker, and HiGHS plans at most 100" in printed
        fixed = reassign(tasks.fix_racks(heavy(6, 30, 3, seed=2)))
        assert not fixed.too_large_for_solver
        monkeypatch.undo()
        assert not reassign(tasks.rebalance_task(heavy(6, 30, 3, seed=2))).too_large_for_solver


def test_a_restricted_task_counts_the_others() -> None:
    """Bands shrink by what fixed partitions hold: within them, the whole plan is within its own."""
    task = tasks.rebalance_task(heavy(6, 40, 3))
    plan = task.cluster.replica
    partitions = np.array([3, 8, 20])
    small, slots = restrict_to_partitions(task, partitions, plan)
    assert np.flatnonzero(slots).tolist() == [9, 10, 11, 24, 25, 26, 60, 61, 62]
    assert small.cluster.replica.tolist() == plan[slots].tolist()
    inside = np.bincount(
        plan[slots], weights=small.weight[2][small.partition_of_replica], minlength=6
    )
    held = np.bincount(plan, weights=task.weight[2][task.partition_of_replica], minlength=6)
    assert (held - inside).tolist() == (task.low - small.low)[2, :6].tolist()
    assert (task.high - small.high)[2, :6].tolist() == (held - inside).tolist()


def test_a_plan_without_highs_says_so(monkeypatch) -> None:
    """Where HiGHS is missing and could gain, the plan says so; where it cannot, nothing is said."""
    monkeypatch.setitem(sys.modules, "highspy", None)
    monkeypatch.setattr(reassignments, "is_installed", lambda: False)
    with force_kernel_form("compiled"):
        found = reassign(tasks.rebalance_task(heavy(12, 1_500, 3, seed=2)))
        assert found.lacks_solver
        assert not found.verdict.optimal
        assert not reassign(tasks.rebalance_task(heavy(12, 1_500, 3)), proof=False).lacks_solver
        even = replace(heavy(3, 30, 0), size=np.full(30, 5), load=None)
        assert not reassign(tasks.rebalance_task(even)).lacks_solver


def test_the_command_prints_what_highs_and_a_joint_choice_would_bring(monkeypatch) -> None:
    """Small plans without HiGHS name the extra, the bytes at stake, and the joint choice's gain."""
    monkeypatch.setitem(sys.modules, "highspy", None)
    monkeypatch.setattr(reassignments, "is_installed", lambda: False)
    with force_kernel_form("compiled"):
        found = reassign(tasks.rebalance_task(heavy(6, 30, 3, seed=2)))
    summary = split_plan(found, "rebalance").summary
    printed = "\n".join(map(str, _sentences(summary)))
    assert summary["lacks_solver"]
    assert "pip install 'partage[plan]'" in printed
    assert f"({summary['gap']:.1%}) less" in printed
    assert "a joint choice would gain at most" in printed


def test_what_a_sequential_choice_loses_is_bounded() -> None:
    """Figures of leaders, disks and moves beyond their bounds, and no others."""
    with force_kernel_form("compiled"):
        found = reassign(tasks.rebalance_task(heavy(9, 150, 3)), proof=False).verdict
    loss = found.sequential_loss
    assert loss["moved"] == found.figures["moved"] - found.bounds["moved"] > 0
    assert set(loss) <= {"moved", "leaders", "rack leaders"}
