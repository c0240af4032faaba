"""Of the partitions, only those are asked that may gain by a move: the others would not move."""

from __future__ import annotations

import numpy as np
import pytest

from partage.kernels import form
from partage.model import Broker, ReplicaCluster, ReplicaTask
from partage.replicas import tasks
from partage.solve.replicas.cheapest_choices import Choices
from partage.solve.replicas.local_search import _Relocation
from partage.solve.replicas.sweeps import sweep


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
    return tasks.fix_racks(cluster) if seed % 7 == 4 else tasks.rebalance(cluster)


@pytest.mark.parametrize("seed", range(28))
def test_who_is_not_asked_gains_nothing(seed: int) -> None:
    """At no rate and after no sweep does a partition gain by a move that was not to be asked."""
    under_way = _Relocation(_task(seed))
    rates = under_way._rates()
    under_way.rate[:] = rates[-1]
    under_way._construct()
    passed_over = 0
    for rate in [*rates[:: max(1, len(rates) // 6)], rates[-1], rates[-1]]:
        under_way.rate[:] = rate
        those = under_way.restless.those(under_way.x, under_way.rate)
        others = np.setdiff1d(np.arange(len(under_way.task.factor)), those)
        passed_over += len(others)
        assert not sweep(*under_way.state(), others, *under_way.scratch, work=0)
        sweep(*under_way.state(), those, *under_way.scratch, work=0)
    assert passed_over > 0 or seed % 7 > 3


@pytest.mark.parametrize("seed", range(4))
def test_what_is_held_is_what_is_there(seed: int) -> None:
    """Sweeps and exchanges keep sums of brokers and racks as the replicas' places say."""
    task = _task(seed)
    under_way = _Relocation(task)
    under_way.run()
    for k, weight in enumerate(task.weight):
        held = np.bincount(under_way.broker, weights=weight[task.owner], minlength=9)
        assert under_way.x[k, :9].tolist() == held.tolist()
        if task.zones:
            racks = np.bincount(task.cluster.rack, weights=held)
            assert under_way.x[k, 9:].tolist() == racks.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_both_forms_of_choices_agree(seed: int) -> None:
    """Arrays and the kernel agree at any prices: the sum, what brokers hold, the brokers chosen."""
    task = _task(seed)
    rng = np.random.default_rng(seed)
    prices = rng.normal(size=(4, 9)) / np.maximum(task.weight.mean(axis=1), 1.0)[:, None]
    arrays = Choices(task)
    kernel = Choices(task)
    kernel.simple = False
    with form("interpreted"):
        total, held, chosen = arrays.cheapest(prices, per_byte=1e-6)
        again, same, brokers = kernel.cheapest(prices, per_byte=1e-6)
    assert total == pytest.approx(again)
    assert np.allclose(held, same) or not arrays.simple
    for kind, weight in enumerate(task.weight):
        sums = np.bincount(brokers, weights=weight[task.owner], minlength=9)
        assert np.allclose(sums, same[kind])
        if arrays.simple:
            assert np.allclose(np.bincount(chosen, weights=weight[task.owner], minlength=9), sums)
