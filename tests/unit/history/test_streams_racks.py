"""Recorded Kafka Streams groups that heed racks (KIP-925): the strategy is found by trying."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from partage.history.clusters import ClusterHistory
from partage.history.events import Generation
from partage.history.records import ClassicState, LogPosition, MemberState, Subscription
from partage.history.streams_agreement import check_streams_agreement
from partage.streams import (
    AssignmentConfigs,
    StreamsApplication,
    Subtopology,
    Topology,
    compute_group_assignment,
)
from partage.streams.member_assignments import assignment_info, build_member
from partage.wire.streams.assignment_info import encode_assignment_info
from partage.wire.streams.subscription_info import (
    SubscriptionInfo,
    decode_subscription_info,
    encode_subscription_info,
)

RACKS = ("r1", "r2", "r3")
#: Two sub-topologies with as many tasks: whose changelog is whose is in no record.
TOPOLOGY = Topology([
    Subtopology(0, ("lines",), changelogs=("app-counts-changelog",)),
    Subtopology(1, ("words",), changelogs=("app-sums-changelog", "app-means-changelog")),
    Subtopology(2, ("plain",)),
])  # fmt: skip
COUNTS = {
    "lines": 4, "words": 4, "plain": 2,
    "app-counts-changelog": 4, "app-sums-changelog": 4, "app-means-changelog": 4,
    "other-changelog": 4,
}  # fmt: skip


def placed(rng: random.Random) -> dict[str, list[list[int]]]:
    """Brokers of each partition, two of three."""
    return {name: [rng.sample([1, 2, 3], 2) for _ in range(n)] for name, n in COUNTS.items()}


def world(replicas: dict[str, list[list[int]]], racks=RACKS) -> ClusterHistory:
    """Metadata with a broker in each rack."""
    return ClusterHistory([{
        "ts_ms": 0,
        "brokers": [{"id": n, "rack": rack} for n, rack in enumerate(racks, 1)],
        "topics": {
            name: {"id": name, "partitions": [
                {"p": p, "replicas": its} for p, its in enumerate(rows)
            ]}
            for name, rows in replicas.items()
        },
    }])  # fmt: skip


def generation(
    rng: random.Random, replicas: dict[str, list[list[int]]], settings: AssignmentConfigs
):
    """A generation of three or four clients, tasks here and there, as its leader writes it."""
    tasks = [(0, p) for p in range(4)] + [(1, p) for p in range(4)] + [(2, p) for p in range(2)]
    names = [f"app-{n}" for n in range(rng.randint(3, 4))]
    has = {task: rng.choice(names) for task in tasks}
    rack = {name: RACKS[n % 3] for n, name in enumerate(names)}
    members, sent = [], {}
    for n, name in enumerate(names):
        sums = {task: -2 if has[task] == name else 800 for task in tasks if task[0] < 2}
        info = SubscriptionInfo.of(process=bytes([*bytes(15), n + 1]), offset_sums=sums)
        sent[name] = encode_subscription_info(info)
        # Nobody owns anything, so nobody has to give anything up: every task shows.
        info = decode_subscription_info(sent[name])
        members.append(build_member(name, info, rack=rack[name]))
    ends = {(log, p): 450 for log, n in COUNTS.items() if "changelog" in log for p in range(n)}
    racks = {
        (name, p): frozenset(RACKS[one - 1] for one in its)
        for name, rows in replicas.items()
        for p, its in enumerate(rows)
    }
    app = StreamsApplication(TOPOLOGY, COUNTS, settings, ends, racks=racks)
    plan = compute_group_assignment(app, members, leader=members[0].process, now_ms=5_000)
    states = [
        MemberState(
            one.id, None, one.id, "/1", 9, 9,
            Subscription(3, ("lines",), sent[one.id], rack=rack[one.id]),
            tuple((topic, (p,)) for topic, p in plan.consumers[one.id].partitions), 3,
            encode_assignment_info(assignment_info(plan.consumers[one.id])), None,
        )
        for one in members
    ]  # fmt: skip
    state = ClassicState("consumer", 2, "stream", names[0], 5_000, tuple(states))
    return Generation(0, LogPosition(0, 1), 5_000, state, state, 1, 0, None)


@pytest.mark.parametrize(
    ("strategy", "standbys"),
    [
        ("min_traffic", 1),
        ("balance_subtopology", 0),
        pytest.param("min_traffic", 0, marks=pytest.mark.soak),
        pytest.param("balance_subtopology", 1, marks=pytest.mark.soak),
    ],
)
def test_a_strategy_is_found_and_named(strategy: str, standbys: int) -> None:
    """Every record comes out; where racks changed the plan, the strategy is named, and changelogs'."""
    rng = random.Random(standbys)
    found_by: Counter[str] = Counter()
    settings = AssignmentConfigs(
        num_standby_replicas=standbys,
        rack_aware_assignment_strategy=strategy,  # type: ignore[arg-type]  # one of the two
        acceptable_recovery_lag=10_000,
    )
    for _ in range(2):
        replicas = placed(rng)
        found = generation(rng, replicas, settings)
        said = check_streams_agreement(found, world(replicas))
        assert said.agrees, said
        found_by["heeded"] += "rack.aware.assignment.strategy" in (said.assumed or "")
        found_by["changelogs"] += "-changelog of sub-topology" in (said.assumed or "")
        # The same record where brokers tell no racks: nothing is tried that could not have been.
        blind = check_streams_agreement(found, world(replicas, racks=(None, None, None)))
        heeded = "rack.aware.assignment.strategy" in (said.assumed or "")
        assert blind.agrees is not heeded
    assert found_by["heeded"] >= 1
    assert (found_by["changelogs"] >= 1) == bool(standbys)


def test_what_racks_do_not_explain_stays_unexplained() -> None:
    """Two consumers' assignments changed places: no strategy makes that come out."""
    rng = random.Random(5)
    replicas = placed(rng)
    settings = AssignmentConfigs(rack_aware_assignment_strategy="min_traffic")
    found = generation(rng, replicas, settings)
    one, other, *rest = found.first.members
    swapped = [
        replace(taker, assigned=giver.assigned, assignment_user_data=giver.assignment_user_data)
        for taker, giver in ((one, other), (other, one))
    ]
    spoilt = replace(found, first=replace(found.first, members=(*swapped, *rest)))
    said = check_streams_agreement(spoilt, world(replicas))
    assert (said.agrees, said.why) == (False, None)
