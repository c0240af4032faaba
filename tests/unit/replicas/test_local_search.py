"""The local search of replicas: its move candidates, what brokers hold, the forms of choices."""

from __future__ import annotations

import numpy as np
import pytest

from partage.kernels import force_kernel_form
from partage.model import Broker, ReplicaCluster, ReplicaTask
from partage.replicas import tasks
from partage.solve.replicas.bounds import CheapestChoices
from partage.solve.replicas.local_search import LocalSearch
from partage.solve.replicas.sweeps import SweepArrays, sweep_partitions


def _cluster(seed: int) -> ReplicaCluster:
    """Uneven brokers; of three in four seeds some, of one in four no broker has a rack."""
    rng = np.random.default_rng(seed)
    brokers, partitions = 9, 60
    chance = rng.random(brokers) + 0.2
    replica = np.array([
        rng.choice(brokers, 3, replace=False, p=chance / chance.sum()) for _ in range(partitions)
    ], np.int32)  # fmt: skip
    racks = [f"r{i % (2 + seed % 3)}" if i % 5 and seed % 4 else None for i in range(brokers)]
    number = np.arange(partitions, dtype=np.int32)
    return ReplicaCluster(
        topics=("t",), topic=np.zeros(partitions, np.int32), number=number,
        start=np.arange(partitions + 1, dtype=np.int64) * 3, replica=replica.ravel().copy(),
        leader=replica[:, 0].copy(), size=rng.integers(1, 2 * 10**6, partitions),
        load=rng.integers(0, 10**4, partitions),
        brokers=tuple(Broker(i, rack) for i, rack in enumerate(racks)),
        capacity=np.full(brokers, -1, np.int64), directories=((),) * brokers,
        directory=np.full(3 * partitions, -1, np.int32),
    )  # fmt: skip


def _task(seed: int) -> ReplicaTask:
    cluster = _cluster(seed)
    if seed % 7 == 5:
        return tasks.drain_brokers(cluster, [2])
    if seed % 7 == 6:
        return tasks.change_factor(cluster, 2 + seed % 3)
    return tasks.fix_racks(cluster) if seed % 7 == 4 else tasks.rebalance_task(cluster)


@pytest.mark.parametrize("seed", range(28))
def test_other_partitions_gain_nothing(seed: int) -> None:
    """At no penalties and after no sweep does a partition that is no candidate gain by a move."""
    search = LocalSearch(_task(seed))
    schedule = search.schedule
    search.place_greedily()
    passed_over = 0
    for penalties in [*schedule[:: max(1, len(schedule) // 6)], schedule[-1], schedule[-1]]:
        search.set_penalties(penalties)
        candidates = search.candidates.find_candidates()
        others = np.setdiff1d(np.arange(len(search.task.factor)), candidates)
        passed_over += len(others)
        work_arrays = SweepArrays.for_task(search.task)
        assert not sweep_partitions(search.state.kernel_arrays(), work_arrays, others, work=0)
        sweep_partitions(search.state.kernel_arrays(), work_arrays, candidates, work=0)
    assert passed_over > 0 or seed % 7 > 3


@pytest.mark.parametrize("seed", range(4))
def test_sums_follow_the_placement(seed: int) -> None:
    """After sweeps and swaps, what brokers and racks hold is the sum of their replicas."""
    task = _task(seed)
    search = LocalSearch(task)
    search.place_greedily()
    broker, held = search.search_placement(), search.state.held
    for k, weight in enumerate(task.weight):
        sums = np.bincount(broker, weights=weight[task.partition_of_replica], minlength=9)
        assert held[k, :9].tolist() == sums.tolist()
        if task.balanced_rack_count:
            racks = np.bincount(task.cluster.rack_of_broker, weights=sums)
            assert held[k, 9:].tolist() == racks.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_both_forms_of_choices_agree(seed: int) -> None:
    """Arrays and the kernel agree at any prices: the sum, what brokers hold, the brokers chosen."""
    task = _task(seed)
    rng = np.random.default_rng(seed)
    prices = rng.normal(size=(4, 9)) / np.maximum(task.weight.mean(axis=1), 1.0)[:, None]
    arrays = CheapestChoices(task)
    kernel = CheapestChoices(task)
    kernel.is_one_a_rack = False
    with force_kernel_form("interpreted"):
        total, held, chosen = arrays.choose_cheapest_brokers(prices, per_byte=1e-6)
        again, same, brokers = kernel.choose_cheapest_brokers(prices, per_byte=1e-6)
    assert total == pytest.approx(again)
    assert np.allclose(held, same) or not arrays.is_one_a_rack
    for kind, weight in enumerate(task.weight):
        sums = np.bincount(brokers, weights=weight[task.partition_of_replica], minlength=9)
        assert np.allclose(sums, same[kind])
        if arrays.is_one_a_rack:
            assert np.allclose(
                np.bincount(chosen, weights=weight[task.partition_of_replica], minlength=9), sums
            )
