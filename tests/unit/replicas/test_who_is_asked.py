"""Of the brokers, only those are asked that a replica can pay for: plans are as if all were."""

from __future__ import annotations

import numpy as np
import pytest

from partage.kernels import form
from partage.model import Broker, ReplicaCluster
from partage.replicas import tasks
from partage.solve import relocating
from partage.solve.relocate import relocate


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


@pytest.mark.parametrize("seed", range(4))
def test_who_cannot_gain_need_not_be_asked(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan is the same when every broker is asked for every replica that may pay somewhere."""
    task = tasks.rebalance(_cluster(seed))
    asked, ask = [0, 0], relocating._better

    def everyone(*arguments: object) -> object:
        asked[0] += 1
        asked[1] += bool(arguments[-2])
        return ask(*arguments[:-2], False, False)

    with form("interpreted"):
        sparing = relocate(task)
        monkeypatch.setattr(relocating, "_better", everyone)
        thorough = relocate(task)
    assert asked[1] > 0
    assert sparing.tolist() == thorough.tolist()
