"""Limits that hold, racks and disks of their own, and prices that prove nothing."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.replicas.test_reassigning import cluster, rows

import partage as pg
from partage.api.reassignments import reassign
from partage.errors import CertificateError
from partage.judge.replica_bounds import plan_cost_bound
from partage.judge.replicas import judge_replicas
from partage.model import NewReplicas
from partage.replicas import tasks
from partage.replicas.bands import PlanLimits
from partage.replicas.batches import split_into_batches
from partage.replicas.cluster_parser import cluster_from_json
from partage.replicas.kafka_json import reassignment_json
from partage.replicas.moves import log_directories


def test_who_leads_stays_when_replicas_go() -> None:
    """Of equals the last goes, and survivors keep their order: the preferred leader leads on."""
    one = cluster("1 2 3", [1, 2, 3], [2, 3, 1], [3, 1, 2])
    assert rows(reassign(tasks.change_factor(one, 2))) == [[1, 2], [2, 3], [3, 1]]


def test_fenced_brokers_take_nothing() -> None:
    """They are refused by name where they are asked to; nothing goes there of itself."""
    given = {
        "brokers": [{"id": 1}, {"id": 2}, {"id": 3, "fenced": True}],
        "topics": {"t": {"partitions": [{"p": 0, "leader": 1, "replicas": [1]}] }},
    }  # fmt: skip
    one = cluster_from_json(given)
    with pytest.raises(pg.InvalidConfigError, match="add-broker: the broker is fenced"):
        tasks.add_brokers(one, [3])
    with pytest.raises(pg.InvalidConfigError, match="by: the broker is fenced"):
        tasks.replace_broker(one, 1, 3)
    assert rows(reassign(tasks.drain_brokers(one, [1]))) == [[2]]


def test_room_counts_more_than_racks() -> None:
    """A full broker on the only other rack gets nothing: the rule is broken, the limit is not."""
    one = cluster("1:a 2:a 3:b", [1, 2], sizes=[50], b3={"capacity": 0})
    for task in (tasks.rebalance_task(one), tasks.fix_racks(one)):
        assert set(rows(reassign(task))[0]) == {1, 2}
    unsized = cluster("1 2", [1], b2={"capacity": 7})
    with pytest.raises(pg.InvalidProblemError, match="partitions no size"):
        tasks.rebalance_task(unsized)


def test_excluded_topics_stop_nobody() -> None:
    """What is wrong with their partitions does not matter: they are left out anyway."""
    topics = {
        "good": {"partitions": [{"p": 0, "leader": 1, "replicas": [1], "size": 5}]},
        "bad": {"partitions": [
            {"p": 0, "leader": 1, "replicas": [9], "size": 5},
            {"p": 1, "leader": 1, "replicas": [1], "adding": [2]},
            {"p": 2, "leader": 1, "replicas": [1]},
        ]},
    }  # fmt: skip
    given = {"brokers": [{"id": 1}, {"id": 2}], "topics": topics}
    one = cluster_from_json(given, excluded=["bad"])
    assert [one.partition_name(p) for p in range(one.partitions)] == ["bad-2", "good-0"]
    with pytest.raises(pg.InvalidProblemError, match="bad-0: broker 9"):
        cluster_from_json(given)
    many = [{"p": p, "leader": 1, "replicas": [1], "size": 2**60 - 1} for p in range(9)]
    topics["good"]["partitions"] = many
    with pytest.raises(pg.InvalidProblemError, match="in all replicas together"):
        cluster_from_json(given, excluded=["bad"])
    given["brokers"][0]["capasity"] = 3
    with pytest.raises(pg.InvalidProblemError, match=r"brokers\[0\].capasity: unknown field"):
        cluster_from_json(given)


def two_disks(*where, sizes, room=None):
    """One broker with two disks: a topic whose partition i lies on disk ``where[i]``."""
    folders = [{"path": f"/{d}", "capacity": room} for d in "de"]
    partitions = [
        {"p": i, "leader": 1, "replicas": [1], "size": size, "directories": [f"/{disk}"]}
        for i, (disk, size) in enumerate(zip(where, sizes, strict=True))
    ]
    return {
        "brokers": [{"id": 1, "directories": folders}],
        "topics": {"t": {"partitions": partitions}},
    }


def test_replicas_go_from_disk_to_disk() -> None:
    """No network bytes, part of what is moved; proven to the byte; each copy counts in a batch."""
    found = reassign(
        tasks.rebalance_task(cluster_from_json(two_disks(*"dddd", sizes=[10, 10, 10, 10])))
    )
    figures, bounds = found.verdict.figures, found.verdict.bounds
    assert found.before["disk bytes"] > figures["disk bytes"] == 0
    assert figures["between brokers"] == 0
    assert figures["moved"] == bounds["moved"] == 20
    moves = found.moves
    assert moves.disk_moves.bytes.tolist() == [10, 10]
    assert [len(batch) for batch in split_into_batches(moves, max_copies=1)] == [1, 1]
    made = reassignment_json(found.task, found.plan.replica, log_directories(moves), range(4))
    assert sorted(row["log_dirs"][0] for row in made["partitions"]) == ["/d", "/d", "/e", "/e"]
    still = reassign(tasks.elect_leaders(found.task.cluster))
    assert still.verdict.figures["disk bytes"] == still.verdict.bounds["disk bytes"] > 0


def test_no_disk_gets_more_than_it_has_room_for() -> None:
    """Where a replica fits on no disk of the broker the plan is refused, though the sum has room."""
    given = two_disks("d", "e", sizes=[60, 60], room=100)
    given["brokers"].append({"id": 2})
    given["topics"]["t"]["partitions"].append({"p": 2, "leader": 2, "replicas": [2], "size": 60})
    one = cluster_from_json(given)
    with pytest.raises(pg.NoFeasiblePlanError, match=r"capacity.*broker 1, /d: more than it has"):
        reassign(tasks.drain_brokers(one, [2]))


def test_prices_that_prove_nothing_are_refused() -> None:
    """Of kinds that come later, beyond one for the figure itself, below zero or wrong for disks."""
    one = cluster("1:a 2:b", [1], [1], [1], sizes=[5, 5, 5], loads=[1, 1, 1])
    task = tasks.rebalance_task(one)
    plan = reassign(task, proof=False).plan
    worse = replace(plan, replica=np.zeros(3, np.int32))

    def claimed(name, k, at, price):
        prices = np.zeros((4, 4))
        prices[k, at] = price
        return replace(worse, prices={name: prices})

    judge_replicas(task, claimed("replicas", 1, 0, 1.0))
    for name, k, at, price, said in (
        ("replicas", 2, 0, 0.5, "replicas: a price of bytes, of which another plan"),
        ("replicas", 1, 2, 0.5, "replicas: a price of rack replicas, of which"),
        ("rack replicas", 1, 2, 1.5, "beyond what a unit"),
        ("moved", 0, 2, -1.0, "a price of rack capacity, which is no figure"),
    ):
        wrong = claimed(name, k, at, price)
        if name == "moved":
            wrong = replace(wrong, replica=plan.replica)
        with pytest.raises(CertificateError, match=said):
            judge_replicas(task, wrong)
    disked = tasks.rebalance_task(cluster_from_json(two_disks(*"dd", sizes=[10, 10])))
    bare = NewReplicas(np.zeros(2, np.int32), disk=np.zeros(2, np.int32))
    for price, said in ((-1.0, "numbers from 0"), (2.0, "beyond what a unit")):
        wrong = np.full((2, 4, 2), price)
        wrong[:, 0] = 0
        with pytest.raises(CertificateError, match=said):
            judge_replicas(disked, replace(bare, disk_prices={"disk bytes": wrong}))
    for disk in (None, np.array([0, 2], np.int32)):
        with pytest.raises(CertificateError, match="disk"):
            judge_replicas(disked, replace(bare, disk=disk))


def test_racks_hold_about_as_much() -> None:
    """Brokers in their bands may leave racks uneven: racks have bands of their own."""
    # Six brokers on three racks, 1.5 replicas each on average: 1 or 2 a broker, 3 a rack.
    one = cluster("1:a 2:a 3:b 4:b 5:c 6:c", [1], [1], [2], [2], [3], [3], [4], [5], [6])
    found = reassign(tasks.rebalance_task(one))
    assert found.before["replicas"] == 0
    assert found.before["rack replicas"] > found.verdict.figures["rack replicas"] == 0
    assert found.verdict.figures["moved"] == found.verdict.bounds["moved"] == 1
    assert found.before["rack leaders"] > found.verdict.figures["rack leaders"] == 0


def test_partitions_that_change_anyway_may_change_their_leader() -> None:
    """Where racks are fixed, or replicas go, leaders are as even as the new sets allow."""
    held = [[1, 2, 5], [1, 2, 6], [1, 2, 5], [1, 2, 6]]
    one = cluster("1:a 2:a 3:b 4:b 5:c 6:c", *held)
    found = reassign(tasks.fix_racks(one))
    assert found.verdict.figures["racks"] == 0
    assert found.before["leaders"] > found.verdict.figures["leaders"] == 0
    fewer = reassign(tasks.change_factor(cluster("1 2", [1, 2], [1, 2]), 1))
    assert fewer.verdict.figures["leaders"] == 0


def test_another_broker_where_a_disk_is_full() -> None:
    """A replica that fits on no disk of one broker goes to the next."""
    given = two_disks("d", "e", sizes=[60, 60], room=100)
    given["brokers"] += [{"id": 2}, {"id": 3}]
    partitions = given["topics"]["t"]["partitions"]
    partitions += [
        {"p": 2, "leader": 2, "replicas": [2], "size": 60},
        *({"p": p, "leader": 3, "replicas": [3], "size": 60} for p in range(3, 9)),
    ]
    found = reassign(tasks.drain_brokers(cluster_from_json(given), [2]))
    assert rows(found)[2] == [3]


def test_rounding_proves_nothing() -> None:
    """Prices of bytes that cancel from 10^18: what floating sums may be off is taken off."""
    rng = random.Random(6)
    sizes = [rng.randint(2**50, 2**51) for _ in range(1000)]
    one = cluster("1 2", *([1 + i % 2] for i in range(1000)), sizes=sizes)
    task = tasks.rebalance_task(
        one, PlanLimits(tolerance={"bytes": 0.0, "replicas": 1.0, "leaders": 1.0})
    )
    held = [sum(sizes[b::2]) for b in (0, 1)]
    exactly = replace(task, low=task.low.copy(), high=task.high.copy())
    exactly.low[2], exactly.high[2] = held, held
    plan = NewReplicas(one.replica)
    figures = judge_replicas(exactly, plan).figures
    prices = np.zeros((4, 2))
    for _ in range(40):
        prices[2] = rng.uniform(-1, 1)
        claimed = replace(plan, prices={"moved": prices})
        assert plan_cost_bound(exactly, claimed, "moved", figures, None) <= 0


def test_many_replicas_on_uneven_disks() -> None:
    """More than all ways can be tried for: found by steps, balanced, and no more is copied twice."""
    sizes = [10] * 1200
    found = reassign(tasks.rebalance_task(cluster_from_json(two_disks(*"d" * 1200, sizes=sizes))))
    figures = found.verdict.figures
    assert figures["disk bytes"] == figures["disk replicas"] == 0
    assert figures["moved"] == found.verdict.bounds["moved"] == 540 * 10
