"""Plans against every plan there is, on tiny clusters; what each task may touch; what is refused."""

from __future__ import annotations

import itertools
import os
import random
from dataclasses import replace

import numpy as np
import pytest

import partage as pg
from partage.api import reassignments
from partage.api.reassignments import reassign
from partage.errors import CertificateError
from partage.judge.rack_breaches import rack_minima, rack_ranges
from partage.judge.replicas import judge_replicas
from partage.kernels import force_kernel_form
from partage.model import NewReplicas
from partage.model.replicas import RANKS
from partage.replicas import tasks
from partage.replicas.bands import PlanLimits
from partage.replicas.batches import changed_partitions, split_into_batches
from partage.replicas.cluster_parser import cluster_from_json, sizes_from_log_dirs
from partage.replicas.kafka_json import reassignment_json, rollback_json
from partage.replicas.moves import ReplicaMoves, log_directories
from partage.replicas.tables import disk_rows
from partage.solve.replicas.exact import MoveProgramme, RackLimits, relaxed_prices


def cluster(brokers, *rows, sizes=None, loads=None, **more):
    """Brokers as ``1:a 2:b`` words, one topic whose partitions' replicas are the rows."""
    listed = [
        {"id": int(number), "rack": rack or None, **more.get(f"b{number}", {})}
        for number, _, rack in (word.partition(":") for word in brokers.split())
    ]
    partitions = [
        {
            "p": i, "leader": row[0], "replicas": list(row),
            **({} if sizes is None else {"size": sizes[i]}),
            **({} if loads is None else {"load": loads[i]}),
        }
        for i, row in enumerate(rows)
    ]  # fmt: skip
    given = {"brokers": listed, "topics": {"t": {"partitions": partitions}}}
    return cluster_from_json(given, removed_brokers=more.get("gone", ()))


def rows(found):
    """Broker ids of each partition of a plan."""
    task = found.task
    return [
        task.cluster.broker_ids(
            found.plan.replica[task.first_replica[p] : task.first_replica[p + 1]]
        )
        for p in range(task.cluster.partitions)
    ]


def random_cluster(rng):
    """So small that every plan can be looked at; some brokers have just enough room."""
    count = rng.randint(2, 4)
    racks = rng.choice(["", "ab", "abc"])
    names = " ".join(f"{i}:{rng.choice(racks) if racks else ''}" for i in range(count))
    partitions = rng.randint(1, 3)
    held = [rng.sample(range(count), rng.randint(1, min(count, 3))) for _ in range(partitions)]
    sized = rng.random() < 0.8
    sizes = [rng.choice([0, 1, 5, 9, 100]) for _ in held] if sized else None
    loads = [rng.randint(0, 20) for _ in held] if rng.random() < 0.5 else None
    more = {}
    for b in range(count) if sized and rng.random() < 0.4 else ():
        used = sum(size for size, row in zip(sizes, held, strict=True) if b in row)
        if rng.random() < 0.7:
            more[f"b{b}"] = {"capacity": used + rng.choice([0, 0, 5, 10, 110])}
    return cluster(names, *held, sizes=sizes, loads=loads, **more)


def random_disks(rng):
    """The same with two disks on some brokers, and fewer replicas: disks multiply the plans."""
    count = rng.randint(2, 3)
    names = " ".join(f"{i}:{rng.choice('ab')}" for i in range(count))
    several = {b for b in range(count) if rng.random() < 0.7}
    held = [rng.sample(range(count), rng.choice([1, 1, 2])) for _ in range(rng.randint(1, 3))]
    listed = [
        {
            "id": i, "rack": word[-1],
            "directories": [
                {"path": f"/{d}", "capacity": rng.choice([None, None, 200, 300])} for d in "de"
            ] if i in several else [],
        }
        for i, word in enumerate(names.split())
    ]  # fmt: skip
    partitions = [
        {
            "p": i, "leader": row[0], "replicas": row, "size": rng.choice([0, 1, 5, 9, 60]),
            "directories": [f"/{rng.choice('dde')}" for _ in row],
        }
        for i, row in enumerate(held)
    ]  # fmt: skip
    return cluster_from_json({"brokers": listed, "topics": {"t": {"partitions": partitions}}})


def every_plan(task):
    """All valid plans, leaders first."""
    brokers = range(len(task.cluster.brokers))
    for sets in itertools.product(
        *(itertools.combinations(brokers, int(f)) for f in task.factor.tolist())
    ):
        for leads in itertools.product(*(range(len(one)) for one in sets)):
            flat = [
                b
                for one, lead in zip(sets, leads, strict=True)
                for b in (one[lead], *one[:lead], *one[lead + 1 :])
            ]
            replica = np.array(flat, np.int32)
            if task.disks is None:
                yield NewReplicas(replica)
                continue
            start = task.disks.start
            places = [range(start[b], start[b + 1]) or (-1,) for b in flat]
            for disk in itertools.product(*places):
                yield NewReplicas(replica, disk=np.array(disk, np.int32))


def tasks_of(rng, one):
    """A task of any kind; None where it is refused."""
    limits = PlanLimits(
        pinned=["t"] if rng.random() < 0.1 else [],
        tolerance={
            "bytes": rng.choice([0.0, 0.1, 0.1, 0.5]), "replicas": rng.choice([0.0, 0.0, 0.4]),
            "rack-bytes": rng.choice([0.0, 0.05]), "disk-bytes": rng.choice([0.0, 0.1, 0.3]),
        },
    )  # fmt: skip
    made = [
        lambda: tasks.rebalance_task(one, limits),
        lambda: tasks.add_brokers(one, [one.brokers[0].id], limits),
        lambda: tasks.drain_brokers(one, [one.brokers[-1].id], limits),
        lambda: tasks.change_factor(one, rng.randint(1, len(one.brokers)), None, limits),
        lambda: tasks.fix_racks(one, limits),
        lambda: tasks.elect_leaders(one, limits),
    ]
    try:
        return rng.choice(made)()
    except pg.NoFeasiblePlanError:
        return None


def test_plans_before_plans_are_tried(monkeypatch) -> None:
    """Without trying neighbours, sweeps and pairs alone find nearly all best plans; bounds hold."""
    monkeypatch.setattr(reassignments, "_NEIGHBOUR_CELLS", 0)
    rng, worse = random.Random("searched"), []
    while len(worse) < 10:
        one = looked_at(rng, (random_disks if len(worse) % 4 == 3 else random_cluster)(rng))
        if one is not None:
            worse.append(one)
    assert sum(one == "" for one in worse) >= 0.9 * len(worse), worse
    # Leaders come after the sets of replicas, which may leave them worse off: nothing else is.
    after = RANKS[RANKS.index("rack leaders") + 1 :]
    assert set(worse) <= {"", "leaders", "rack leaders", *after, "between brokers", "moved"}


def looked_at(rng, made):
    """Return the first figure in which another plan is better than ours, "" if none is.

    Return None if there is no task. Fail if our search finds no plan and one exists.
    """
    try:
        task = tasks_of(rng, made)
    except pg.NoFeasiblePlanError:
        return None
    if task is None:
        return None
    try:
        found = reassign(task)
    except pg.NoFeasiblePlanError:
        found = None
    if found is None:
        assert all(judge_replicas(task, other).breaches for other in every_plan(task))
        return None
    assert not found.verdict.breaches
    figures, bounds = found.verdict.figures, found.verdict.bounds
    copied = figures.get("between brokers", figures["moved"])
    assert found.plan.solver_bound is None or found.plan.solver_bound <= copied * (1 + 1e-9) + 1e-6
    least = figures
    for other in every_plan(task):
        verdict = judge_replicas(task, other)
        if verdict.breaches:
            continue
        for name, value in verdict.figures.items():
            assert value >= bounds[name], (name, value, bounds)
            if value > figures[name]:
                break
        if tuple(verdict.figures.values()) < tuple(least.values()):
            least = verdict.figures
    return next((name for name in figures if figures[name] != least[name]), "")


@pytest.mark.parametrize(
    ("how", "made", "count"),
    [
        ("compiled", random_cluster, 12), ("interpreted", random_cluster, 5),
        ("compiled", random_disks, 6),
    ],
)  # fmt: skip
def test_bounds_hold_for_every_plan_there_is(how, made, count) -> None:
    """No plan that is as good in all figures before is below a bound; ours is the best there is."""
    rng = random.Random(f"tiny {how} {made.__name__}")
    worse = []
    with force_kernel_form(how):
        while len(worse) < count:
            one = looked_at(rng, made(rng))
            if one is not None:
                worse.append(one)
    assert worse == [""] * count


@pytest.mark.soak
def test_hundreds_of_tiny_clusters() -> None:
    """The same of new random clusters in each run, one in four with disks: PARTAGE_TINY_N of them."""
    seed, count = random.randrange(2**32), int(os.environ.get("PARTAGE_TINY_N", "400"))
    rng, worse = random.Random(seed), []
    while len(worse) < count:
        one = looked_at(rng, (random_disks if len(worse) % 4 == 3 else random_cluster)(rng))
        if one is not None:
            worse.append(one)
    assert worse == [""] * count, (seed, {one: worse.count(one) for one in worse})


def test_random_prices_never_prove_too_much() -> None:
    """For any claimed prices, the bound is true or the claim is refused."""
    rng = random.Random(5)
    for _ in range(20):
        task = tasks.rebalance_task(random_cluster(rng))
        found = reassign(task, proof=False)
        prices = np.array([
            [rng.uniform(-50, 50) if h < 2**60 else -rng.random() for h in row] for row in task.high
        ])  # fmt: skip
        prices[0, len(task.alive) :] = 0
        prices[[not row.any() for row in task.weight]] = 0
        plan = replace(found.plan, prices={"moved": prices})
        verdict = judge_replicas(task, plan)
        assert verdict.bounds["moved"] <= verdict.figures["moved"]


def test_the_judge_sees_what_is_wrong() -> None:
    """A broker twice, a replica that had to stay or to leave, a broker that takes none."""
    one = cluster("1 2 3", [1, 2], [2, 3])
    drain = tasks.drain_brokers(one, [1])

    def said(*positions):
        plan = NewReplicas(np.array(positions, np.int32))
        return " ".join(judge_replicas(drain, plan).breaches)

    assert said(2, 1, 1, 2) == ""
    assert "t-0: two replicas on a broker" in said(1, 1, 1, 2)
    assert "t-0: a replica is where it had to leave" in said(0, 1, 1, 2)
    assert "t-1: a replica that had to stay is gone" in said(2, 1, 0, 2)
    assert "t-1: a replica went to a broker that takes none" in said(2, 1, 0, 2)
    for wrong in ([0, 1, 2], [0, 1, 2, 7]):
        with pytest.raises(CertificateError, match="the plan has"):
            judge_replicas(drain, NewReplicas(np.array(wrong, np.int32)))
    plan = NewReplicas(np.array([2, 1, 1, 2], np.int32), {"moved": np.ones((4, 3))})
    with pytest.raises(CertificateError, match="no upper limit"):
        judge_replicas(drain, plan)


def test_drain_moves_what_is_there_and_nothing_else() -> None:
    """The drained broker's replicas move within their rack; bytes moved are proven necessary."""
    one = cluster(
        "1:a 2:b 3:c 4:a", [1, 2, 3], [2, 3, 4], [3, 1, 2], [1, 3, 2], sizes=[10, 20, 30, 40]
    )
    found = reassign(tasks.drain_brokers(one, [1]))
    assert rows(found) == [[4, 2, 3], [2, 3, 4], [3, 4, 2], [4, 3, 2]]
    assert found.verdict.figures["moved"] == found.verdict.bounds["moved"] == 80


def test_replace_takes_over_in_place() -> None:
    """The new broker takes the place of the old one, leadership included; nothing else changes."""
    one = cluster("1 2 3 4", [1, 2], [2, 1], [3, 2])
    assert rows(reassign(tasks.replace_broker(one, 1, 4))) == [[4, 2], [2, 4], [3, 2]]
    with pytest.raises(pg.NoFeasiblePlanError, match=r"distinct brokers.*t-0") as no:
        reassign(tasks.replace_broker(one, 1, 2))
    assert no.value.constraint == "distinct brokers"


def test_another_factor_moves_nothing() -> None:
    """Up: old replicas stay, new ones go to racks without; down: those against the rule go first."""
    one = cluster("1:a 2:a 3:b 4:c", [1, 2], [3, 1], sizes=[5, 7])
    up = reassign(tasks.change_factor(one, 3))
    assert [set(row) >= {1} for row in rows(up)] == [True, True]
    assert {1, 2} <= set(rows(up)[0])
    assert set(rows(up)[1]) == {3, 1, 4}
    assert up.verdict.bounds["moved"] == up.verdict.figures["moved"] == 12
    three = cluster("1:a 2:a 3:b", [1, 2, 3], [3, 2, 1])
    down = reassign(tasks.change_factor(three, 2, ["t"]))
    assert all(3 in row and len(row) == 2 for row in rows(down))
    assert down.verdict.figures["moved"] == 0


def test_racks_are_fixed_with_the_fewest_moves() -> None:
    """Only partitions against the rule move, one replica each."""
    one = cluster("1:a 2:a 3:b 4:b", [1, 2], [1, 3], [3, 4], sizes=[3, 4, 5])
    found = reassign(tasks.fix_racks(one))
    assert found.before["racks"] > found.verdict.figures["racks"] == 0
    assert found.verdict.figures["moved"] == found.verdict.bounds["moved"] == 8
    assert rows(found)[1] == [1, 3]


def test_leaders_change_without_data() -> None:
    """Preferred leaders are evened by order alone, over others where it must be."""
    one = cluster("1 2 3", [1, 2], [1, 2], [1, 2], [2, 3], [2, 3], [2, 3])
    found = reassign(tasks.elect_leaders(one))
    leaders = sorted(row[0] for row in rows(found))
    assert leaders == [1, 1, 2, 2, 3, 3]
    assert found.verdict.figures["moved"] == 0
    assert [set(row) for row in rows(found)] == [{1, 2}] * 3 + [{2, 3}] * 3
    stuck = cluster("1 2", [1], [1], [1], [1])
    proven = reassign(tasks.elect_leaders(stuck)).verdict
    assert proven.figures["leaders"] == proven.bounds["leaders"] == 4


def test_new_brokers_fill_up_and_others_trade_nothing() -> None:
    """Replicas go to the new broker only, with bytes at least of its band."""
    held = [[1 + i % 2, 2 - i % 2] for i in range(12)]
    one = cluster("1 2 3", *held, sizes=[10] * 12)
    found = reassign(tasks.add_brokers(one, [3]))
    task = found.task
    assert set(found.moves.target_broker.tolist()) == {2}
    assert len(found.moves.partition_of_copy) == 8
    assert found.verdict.optimal
    assert int(task.low[1, 2]) == 8


def test_pinned_and_excluded_topics() -> None:
    """Pinned ones count and stay; excluded ones are not even counted; neither moves."""
    given = {
        "brokers": [{"id": 1}, {"id": 2}],
        "topics": {
            name: {"partitions": [{"p": i, "leader": 1, "replicas": [1]} for i in range(4)]}
            for name in ("free", "kept")
        },
    }
    one = cluster_from_json(given)
    pinned = reassign(tasks.rebalance_task(one, PlanLimits(pinned=["kept"])))
    assert len(pinned.moves.partition_of_copy) == 4
    excluded = reassign(tasks.rebalance_task(one, PlanLimits(excluded=["kept"])))
    assert len(excluded.moves.partition_of_copy) == 2
    for found in (pinned, excluded):
        assert {one.topics[one.topic[p]] for p in found.moves.partition_of_copy} == {"free"}
    with pytest.raises(pg.InvalidConfigError, match="pin: no such topic, got 'x'"):
        tasks.rebalance_task(one, PlanLimits(pinned=["x"]))
    with pytest.raises(pg.NoFeasiblePlanError, match=r"pinned topics.*kept-0"):
        tasks.drain_brokers(one, [1], PlanLimits(pinned=["kept"]))


def test_capacity_is_a_hard_limit() -> None:
    """A plan never overfills a broker; where none can do without, the limit is named."""
    roomy = cluster("1 2 3", [1], [1], [2], sizes=[10, 10, 10], b3={"capacity": 10})
    found = reassign(tasks.drain_brokers(roomy, [1]))
    held = [b for row in rows(found) for b in row]
    assert held.count(3) <= 1
    full = cluster("1 2", [1], [2], sizes=[10, 10], b1={"capacity": 10}, b2={"capacity": 15})
    with pytest.raises(pg.NoFeasiblePlanError, match=r"capacity.*20 bytes.*room for 15") as no:
        reassign(tasks.drain_brokers(full, [1]))
    assert no.value.constraint == "capacity"


def test_a_cluster_of_one() -> None:
    """Nothing to balance, nothing to drain to, no second replica."""
    one = cluster("7", [7], [7])
    assert reassign(tasks.rebalance_task(one)).verdict.optimal
    with pytest.raises(pg.NoFeasiblePlanError, match="no broker is left to hold"):
        tasks.drain_brokers(one, [7])
    with pytest.raises(pg.NoFeasiblePlanError, match="2 replicas need 2 brokers, there are 1"):
        tasks.change_factor(one, 2)


def test_more_replicas_than_racks() -> None:
    """Every rack has one before one has two."""
    one = cluster("1:a 2:a 3:a 4:b", [1, 2, 3], [2, 3, 1])
    found = reassign(tasks.rebalance_task(one))
    assert all(4 in row for row in rows(found))
    assert found.verdict.figures["racks"] == 0


def test_a_broker_that_is_gone_can_be_drained() -> None:
    """It is in no metadata, its replicas are; they move to those that are there."""
    one = cluster("1 2 3", [1, 9], [9, 2], gone=[9])
    found = reassign(tasks.drain_brokers(one, [9]))
    assert not any(9 in row for row in rows(found))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"replicas": [1, 9]}, "t-0: broker 9 is unknown"),
        ({"replicas": [1, 1]}, "t-0: two replicas are on one broker"),
        ({"replicas": []}, "t-0: has no replicas"),
        ({"replicas": [1], "adding": [2]}, "t-0: a reassignment of it is in progress"),
        ({"replicas": [1], "size": -1}, r"topics.t.partitions\[0\].size: must be a whole number"),
        ({"replicas": [1], "load": "x"}, r"partitions\[0\].load: must be bytes a second"),
        ({"replicas": [1], "directories": []}, "one path for each of the 1 replicas"),
        ({"replicas": [True]}, r"replicas\[0\]: must be a whole number"),
        ({"replicas": [2]}, r"topics.t.partitions\[0\].leader: must be one of the replicas \[2\]"),
        ({"replicas": [1, 2], "leader": 99}, r"partitions\[0\].leader: must be one of .*99"),
        ({"replicas": [1], "leader": -2}, r"partitions\[0\].leader: must be one of"),
        ({"replicas": [1], "leader": True}, r"partitions\[0\].leader: must be one of"),
        ({"replicas": [1], "leader": "1"}, r"partitions\[0\].leader: must be one of"),
    ],
)
def test_clusters_that_cannot_be(given, said) -> None:
    """What is wrong with which partition, and what to do."""
    topics = {"t": {"partitions": [{"p": 0, "leader": 1, **given}]}}
    with pytest.raises(pg.InvalidProblemError, match=said):
        cluster_from_json({"brokers": [{"id": 1}, {"id": 2}], "topics": topics})


@pytest.mark.parametrize("leader", [{}, {"leader": None}, {"leader": -1}])
def test_partitions_without_a_leader(leader) -> None:
    """A missing leader, null and -1 mean that the partition has none at the moment."""
    topics = {"t": {"partitions": [{"p": 0, "replicas": [2, 1], **leader}]}}
    one = cluster_from_json({"brokers": [{"id": 1}, {"id": 2}], "topics": topics})
    assert one.leader.tolist() == [-1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "cluster: must be an object"),
        ({"topics": {}}, "brokers: must be a list"),
        ({"brokers": [], "topics": {}}, "the list is empty"),
        ({"brokers": [{"id": 1}, {"id": 1}], "topics": {}}, "two brokers have this id"),
        ({"brokers": [{"id": 1}], "topics": []}, "topics: must be an object"),
        ({"brokers": [{"id": 1, "directories": ["d"]}], "topics": {}}, "must be an absolute path"),
        ({"brokers": [{"id": 1, "capacity": 1.5}], "topics": {}}, "capacity: must be a whole"),
        ({"brokers": [{"id": 1, "rack": 3}], "topics": {}}, "rack: must be text or null"),
    ],
)
def test_files_that_are_no_cluster(given, said) -> None:
    """The path of what is wrong."""
    with pytest.raises(pg.InvalidProblemError, match=said):
        cluster_from_json(given)


def test_sizes_of_some_partitions_only() -> None:
    """A partition without a size among others that have one would weigh nothing: refused."""
    topics = {"t": {"partitions": [
        {"p": 0, "leader": 1, "replicas": [1], "size": 5}, {"p": 1, "leader": 1, "replicas": [1]},
    ]}}  # fmt: skip
    with pytest.raises(pg.InvalidProblemError, match="t-1: has no size, but others have"):
        cluster_from_json({"brokers": [{"id": 1}], "topics": topics})


def test_batches_and_the_way_back() -> None:
    """At most so many replicas a batch, each partition once; the roll-back is what was."""
    one = cluster("1 2 3 4", *[[1, 2]] * 6, sizes=[10] * 6)
    found = reassign(tasks.drain_brokers(one, [1]))
    moves = found.moves
    split = split_into_batches(moves, max_copies=2)
    assert [len(batch) for batch in split] == [2, 2, 2]
    assert (
        sorted(p for batch in split for p in batch)
        == changed_partitions(found.task, moves.replica).tolist()
    )
    there = reassignment_json(found.task, moves.replica, None, split[0])
    assert there["version"] == 1
    assert {row["topic"] for row in there["partitions"]} == {"t"}
    assert all(1 not in row["replicas"] for row in there["partitions"])
    back = rollback_json(one, split[0], directories=False)
    assert [row["replicas"] for row in back["partitions"]] == [[1, 2], [1, 2]]
    with pytest.raises(pg.InvalidConfigError, match="at least 1"):
        split_into_batches(moves, max_copies=0)
    double = cluster("1 2 3 4", [1, 2], [1, 2])
    both = reassign(tasks.drain_brokers(double, [1, 2])).moves
    with pytest.raises(pg.InvalidConfigError, match="t-0 alone needs 2"):
        split_into_batches(both, max_copies=1)


def test_batches_wait_for_room() -> None:
    """Old and new copies are there at once: a broker that is nearly full gets one after it gave one."""
    small = {f"b{i}": {"capacity": 20} for i in (1, 2)}
    one = cluster("1 2 3", [1], [2], [1], sizes=[10, 10, 10], **small)
    task = tasks.rebalance_task(one)
    moves = ReplicaMoves(task, np.array([1, 2, 0], np.int32))  # 1 -> 2, 2 -> 3, third stays
    assert split_into_batches(moves) == [[0, 1]]
    tight = cluster("1 2 3", [1], [2], [1], sizes=[10, 10, 10], b1={"capacity": 20},
                    b2={"capacity": 15})  # fmt: skip
    assert split_into_batches(
        ReplicaMoves(tasks.rebalance_task(tight), np.array([1, 2, 0], np.int32))
    ) == [
        [1],
        [0],
    ]
    ring = cluster("1 2", [1], [2], sizes=[10, 10], b1={"capacity": 15}, b2={"capacity": 15})
    with pytest.raises(pg.NoFeasiblePlanError, match=r"capacity.*wait for each other's room"):
        split_into_batches(ReplicaMoves(tasks.rebalance_task(ring), np.array([1, 0], np.int32)))


def test_directories_fill_evenly() -> None:
    """Newcomers go to the emptier directory; those that stay keep theirs."""
    folders = {"directories": ["/d1", "/d2"]}
    given = {
        "brokers": [{"id": 1}, {"id": 2, **folders}],
        "topics": {"t": {"partitions": [
            {"p": 0, "leader": 2, "replicas": [2], "size": 50, "directories": ["/d2"]},
            {"p": 1, "leader": 1, "replicas": [1], "size": 30},
            {"p": 2, "leader": 1, "replicas": [1], "size": 10},
        ]}},
    }  # fmt: skip
    one = cluster_from_json(given)
    found = reassign(tasks.drain_brokers(one, [1]))
    folder = log_directories(found.moves)
    made = reassignment_json(found.task, found.plan.replica, folder, [0, 1, 2])["partitions"]
    assert [row["log_dirs"] for row in made] == [["/d2"], ["/d1"], ["/d1"]]
    disks = [
        (r["broker"], r["path"], r["before"], r["after"]) for r in disk_rows(found.moves, folder)
    ]
    assert disks == [(2, "/d1", 0, 40), (2, "/d2", 50, 50)]
    assert disk_rows(found.moves, None) == []


def test_sizes_come_from_kafkas_log_dirs() -> None:
    """The largest replica is what a copy will be; future directories do not count."""
    log_dirs = {"version": 1, "brokers": [
        {"broker": b, "logDirs": [{"logDir": "/d", "error": None, "partitions": [
            {"partition": "t-0", "size": size, "offsetLag": 0, "isFuture": False},
            {"partition": "t-0", "size": 999, "offsetLag": 0, "isFuture": True}]}]}
        for b, size in ((1, 40), (2, 44))
    ]}  # fmt: skip
    sizes = sizes_from_log_dirs(log_dirs)
    given = {"brokers": [{"id": 1}, {"id": 2}],
             "topics": {"t": {"partitions": [{"p": 0, "leader": 1, "replicas": [1, 2]}]}}}  # fmt: skip
    one = cluster_from_json(given, log_dirs=sizes)
    assert one.size.tolist() == [44]
    assert one.directories[0] == (("/d", -1),)
    with pytest.raises(pg.InvalidProblemError, match="must be topic-number"):
        sizes_from_log_dirs({"brokers": [{"broker": 1, "logDirs": [
            {"logDir": "/d", "partitions": [{"partition": "t", "size": 1}]}]}]})  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_duals_prove_what_divisible_replicas_need(seed: int) -> None:
    """From HiGHS's duals the judge itself computes no less than the linear programme's optimum."""
    highspy = pytest.importorskip("highspy", reason="HiGHS (the extra plan) is not installed")
    rng = random.Random(seed)
    count = rng.choice([4, 6])
    names = " ".join(f"{i}:{'abc'[i % 3] if seed % 2 else ''}" for i in range(count))
    held = [rng.sample(range(count), 2) for _ in range(20)]
    one = cluster(names, *held, sizes=[rng.randint(1, 10**9) for _ in held])
    task = tasks.rebalance_task(one)
    found = reassign(task)
    figures = found.verdict.figures
    limits = RackLimits(rack_minima(task).newcomers, *rack_ranges(task))
    prices = relaxed_prices(task, figures, limits)
    assert prices is not None
    programme = MoveProgramme(task, figures, limits)
    model = programme.build_highs_model(highspy)
    model.integrality_ = []
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.passModel(model)
    highs.run()
    optimum = highs.getInfo().objective_function_value * programme.unit
    plan = replace(found.plan, prices={"moved": prices})
    bound = judge_replicas(task, plan).bounds["moved"]
    assert optimum * (1 - 1e-9) - 1 <= bound <= figures["moved"]
    assert found.verdict.bounds["moved"] >= bound


def test_leaders_are_balanced_on_brokers_that_hold_more_than_they_should() -> None:
    """A reordering moves no byte: an overfull broker does not prevent it."""
    full = cluster("1 2", *[[1, 2]] * 4, sizes=[100] * 4, b1={"capacity": 10}, b2={"capacity": 10})
    found = reassign(tasks.elect_leaders(full))
    assert sorted(row[0] for row in rows(found)) == [1, 1, 2, 2]
    with pytest.raises(pg.NoFeasiblePlanError, match="capacity"):
        reassign(tasks.rebalance_task(full))


@pytest.mark.filterwarnings("error")
def test_a_cluster_without_partitions_needs_nothing() -> None:
    """There is no mean of no weights, and nothing to warn of."""
    empty = cluster_from_json({"brokers": [{"id": 1}], "topics": {}})
    assert reassign(tasks.rebalance_task(empty)).verdict.optimal
