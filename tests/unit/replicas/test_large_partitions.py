"""Partitions as large as a broker's band: their plans, and bounds by Lagrangian decomposition."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from partage.api.reassignments import reassign
from partage.errors import CertificateError
from partage.judge.rack_breaches import rack_minima
from partage.judge.replica_bounds import split_cost_bound
from partage.judge.replicas import judge_replicas
from partage.kernels import force_kernel_form
from partage.model import Broker, NewReplicas, ReplicaCluster, ReplicaTask
from partage.model.replicas import STAY, SplitPrices
from partage.replicas import tasks
from partage.replicas.bands import PlanLimits
from partage.solve.replicas.disjunctive import find_split_prices, place_large_partitions


def made(replica: np.ndarray, size: np.ndarray, racks: int, load: object = None) -> ReplicaCluster:
    """A cluster with the replicas of each partition in the rows of an array."""
    partitions, factor = replica.shape
    brokers = int(replica.max()) + 1
    return ReplicaCluster(
        topics=("t",), topic=np.zeros(partitions, np.int32),
        number=np.arange(partitions, dtype=np.int32),
        start=np.arange(partitions + 1, dtype=np.int64) * factor,
        replica=replica.ravel().astype(np.int32), leader=replica[:, 0].astype(np.int32),
        size=size.astype(np.int64), load=load,
        brokers=tuple(Broker(i, f"r{i % racks}" if racks else None) for i in range(brokers)),
        capacity=np.full(brokers, -1, np.int64), directories=((),) * brokers,
        directory=np.full(replica.size, -1, np.int32),
    )  # fmt: skip


def tiny(seed: int) -> ReplicaTask:
    """So small that every plan can be tried; one or two partitions are larger than a band."""
    rng = np.random.default_rng(seed)
    factor = int(rng.integers(1, 3))
    partitions = 5 - factor
    rows = np.array([rng.choice(4, factor, replace=False) for _ in range(partitions)])
    rows[-1, -1] = 3 if 3 not in rows[-1] else rows[-1, -1]
    size = rng.choice([1, 2, 5, 9], partitions)
    size[: 1 + seed % 2] = rng.choice([30, 40, 100])
    load = rng.choice([0, 3, 50], partitions) if seed % 5 == 0 else None
    tolerance = {"bytes": float(rng.choice([0.0, 0.1, 0.5])), "replicas": float(seed % 2)}
    cluster = made(rows, size, 2 if seed % 3 else 0, load)
    return tasks.rebalance_task(cluster, PlanLimits(tolerance=tolerance))


def every_plan(task: ReplicaTask) -> list[NewReplicas]:
    """All plans, with any leaders."""
    brokers = range(len(task.alive))
    choices = [itertools.combinations(brokers, int(f)) for f in task.factor]
    return [NewReplicas(np.array([b for one in sets for b in one], np.int32))
            for sets in itertools.product(*choices)]  # fmt: skip


def random_prices(rng: np.random.Generator, task: ReplicaTask) -> SplitPrices:
    """Prices of either sign for any large partitions; none where there is no limit."""
    large = rng.choice(len(task.factor), int(rng.integers(0, 3)), replace=False).astype(np.int64)
    brokers, shape = len(task.alive), task.rack_low.shape[1]
    cases = rng.uniform(-1.5, 1.5, (4, brokers, len(large) + 1))
    racks = rng.uniform(-1.5, 1.5, (4, task.balanced_rack_count))
    no_limit = task.high > 10**15
    cases[no_limit[:, :brokers]] = np.minimum(cases[no_limit[:, :brokers]], 0)
    racks[no_limit[:, brokers:]] = np.minimum(racks[no_limit[:, brokers:]], 0)
    cases[0], racks[0] = 0.0, 0.0
    if not task.weight[3].any():
        cases[3], racks[3] = 0.0, 0.0
    most = task.cost[task.current_partition]
    return SplitPrices(
        large, rng.uniform(-1, 1, len(task.current_partition)) * most,
        rng.uniform(-0.5, 1.5, (len(task.factor), shape)) * task.cost[:, None], cases, racks,
    )  # fmt: skip


def check_bound(
    task: ReplicaTask, figures: list[dict[str, int]], own: dict[str, int], prices: SplitPrices
) -> float:
    """Assert that no plan that is as good in all other costs moves less than the bound of one."""
    least, before = rack_minima(task), list(own)[: list(own).index("moved")]
    known = [one["moved"] for one in figures if all(one[k] <= own[k] for k in before)]
    rule = least if own["racks"] <= int(least.breach.sum()) else None
    bound = split_cost_bound(task, prices, own, rule)
    assert bound <= min(known) + 1e-6
    return bound


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_moves_less_than_random_split_prices_prove(seed) -> None:
    """Any prices of a Lagrangian decomposition prove a bound that holds for every plan."""
    rng = np.random.default_rng(seed)
    task = tiny(seed)
    figures = [judge_replicas(task, plan).figures for plan in every_plan(task)]
    for number in rng.choice(len(figures), 12, replace=False).tolist():
        check_bound(task, figures, figures[number], random_prices(rng, task))


def test_split_prices_of_the_programme_hold_for_every_plan() -> None:
    """The solver's own prices prove bounds above 0 in some tiny clusters, and too much in none."""
    pytest.importorskip("highspy")
    bounds = []
    for seed in range(16):
        task = tiny(seed)
        figures = [judge_replicas(task, plan).figures for plan in every_plan(task)]
        best = min(figures, key=lambda one: list(one.values()))
        prices = find_split_prices(task, best, 20)
        if prices is not None:
            bounds.append(check_bound(task, figures, best, prices))
    assert len(bounds) > 5
    assert max(bounds) > 0


def test_malformed_split_prices_prove_nothing() -> None:
    """Wrong shapes or types, huge prices, prices without a limit and repeated partitions are errors."""
    task = tiny(1)
    rng = np.random.default_rng(0)
    good = random_prices(rng, task)
    figures = judge_replicas(task, NewReplicas(task.cluster.replica)).figures
    split_cost_bound(task, good, figures, None)
    unlimited = good.cases.copy()
    unlimited[0] = 1.0
    for wrong in (
        good._replace(stay=good.stay[1:]), good._replace(arrive=good.arrive * np.inf),
        good._replace(cases=unlimited), good._replace(racks=good.racks - 1e308),
        good._replace(large=good.large.astype(float)), good._replace(large=good.large[:, None]),
        good._replace(large=np.array([0, 0]), cases=np.zeros((4, 4, 3))),
        good._replace(large=np.array([99]), cases=np.zeros((4, 4, 2))),
    ):  # fmt: skip
        with pytest.raises(CertificateError):
            split_cost_bound(task, wrong, figures, None)


def giant(seed: int, racks: int, share: float) -> ReplicaTask:
    """Pareto(1.2) sizes on uneven brokers, and one partition of a multiple of a broker's share."""
    rng = np.random.default_rng(seed)
    brokers, partitions = 15, 1_200
    drawn = rng.exponential(size=(partitions, brokers)) / rng.uniform(0.5, 1.5, brokers)
    replica = np.argsort(drawn, axis=1)[:, :3]
    size = (1e6 * (1 + rng.pareto(1.2, partitions))).astype(np.int64)
    size = np.minimum(size, int(size.sum()) // 100)
    size[7] = 0
    size[7] = share * 3 * size.sum() / (brokers - 3 * share)
    return tasks.rebalance_task(made(replica, size, racks))


@pytest.mark.parametrize(("racks", "most"), [(0, 1.02), (3, 1.1)])
def test_a_plan_with_a_giant_partition_is_near_its_bound(racks, most) -> None:
    """One partition of 80 % of a share: the plan is balanced and at most 2 % above the bound, 10 %
    with racks, where classes of a small cluster are coarse.
    """
    pytest.importorskip("highspy")
    task = giant(3, racks, 0.8)
    with force_kernel_form("compiled"):
        found = reassign(task)
    without = judge_replicas(task, replace(found.plan, split_prices=None))
    assert not found.verdict.breaches
    assert not found.verdict.figures["bytes"]
    assert found.verdict.figures["moved"] <= most * found.verdict.bounds["moved"]
    assert without.bounds["moved"] < found.verdict.bounds["moved"]


def test_large_partitions_get_whole_brokers_on_different_racks() -> None:
    """The mixed-integer programme gives a giant one broker for each replica, by the rack rule."""
    pytest.importorskip("highspy")
    task = giant(3, 3, 0.9)
    figures = judge_replicas(task, NewReplicas(task.cluster.replica)).figures
    placed = place_large_partitions(task, figures)
    assert list(placed.brokers) == [7]
    assert sorted(placed.brokers[7] % 3) == [0, 1, 2]
    assert placed.max_imbalance["bytes"] == 0
    small = replace(task, cost=np.minimum(task.cost, int(task.cost.sum()) // 100))
    assert place_large_partitions(small, figures) is None


def test_only_a_rebalance_places_large_partitions_first() -> None:
    """A drain keeps all replicas of other brokers, which the programme would move."""
    cluster = giant(1, 0, 0.8).cluster
    for task in (
        tasks.drain_brokers(cluster, [0]),
        tasks.rebalance_task(cluster),
    ):
        figures = judge_replicas(task, NewReplicas(task.cluster.replica)).figures
        is_rebalance = not (task.fate == STAY).any()
        assert (place_large_partitions(task, figures) is not None) == is_rebalance
