"""Java, kafka-python and aiokafka in one group on a real broker: one plan under every leader."""

from __future__ import annotations

import itertools

import pytest
from tests.clients.members import AIOKAFKA, KAFKA_PYTHON, every, settle
from tests.clients.records import written
from tests.support.jvm import JvmOracle

from partage.wire.consumer_protocol import encode_sticky_user_data

pytestmark = pytest.mark.jvm

TOPICS = {"mixed-a": 6, "mixed-b": 4}
NEWEST = (KAFKA_PYTHON[-1], AIOKAFKA[-1])
OLDER = (*KAFKA_PYTHON[:-1], AIOKAFKA[0])


@pytest.fixture(scope="module")
def topics(broker):
    for name, count in TOPICS.items():
        broker.create_topic(name, count)
    return broker


@pytest.fixture(scope="module")
def java_class():
    """Kafka's own assignors, asked about what stands in the log."""
    with JvmOracle("Assignors", heap="96m") as oracle:
        yield oracle


def _as_java_would(broker, group: str, java_class) -> dict[str, str]:
    """Every generation in the log is what Kafka's own class decides on these subscriptions, and what
    ours does; answers who led, by generation.
    """
    log = written(broker.bootstrap, group)
    assert log
    for one in log:
        theirs = one.decided_by_java(TOPICS, java_class)
        assert one.owners() == theirs, f"generation {one.generation} of {group}"
        assert one.decided(TOPICS) == theirs
    return {one.generation: one.leader for one in log}


@pytest.mark.parametrize("leader", ["java", *NEWEST])
def test_one_plan_under_every_leader(topics, hosts, java_class, leader: str) -> None:
    """range, roundrobin and sticky: in each generation the log has what Java's class decides."""
    clients = [leader, *(c for c in ("java", *NEWEST) if c != leader)]
    groups = {f"mixed-{s}-{leader}": s for s in ("range", "roundrobin", "sticky")}
    members = {
        group: [_start(hosts(leader), topics, group, strategy)]
        for group, strategy in groups.items()
    }
    for mine in members.values():
        settle(mine, every(TOPICS))
    for group, strategy in groups.items():
        members[group] += [_start(hosts(c), topics, group, strategy) for c in clients[1:]]
    for group, mine in members.items():
        settle(mine, every(TOPICS))
        leaders = _as_java_would(topics, group, java_class)
        assert leaders[max(leaders)] == mine[0].member
        for one in mine:
            one.close()


def test_stickiness_and_its_bytes_cross_languages(topics, hosts, java_class) -> None:
    """A member that leaves a sticky group frees its own partitions only; user data are Java's to the
    byte.

    Java's consumer has a generation from the coordinator's answer to JoinGroup on. If the next
    rebalance interrupts its SyncGroup, it joins again with that generation and the user data of
    before: that is tolerated of the Java member, for generations that it never was assigned in.
    """
    group = "mixed-stable"
    mine = [_start(hosts(c), topics, group, "sticky") for c in ("java", *NEWEST)]
    settle(mine, every(TOPICS))
    before = {m.id: m.owns for m in mine}
    mine[0].close()
    rest = mine[1:]
    settle(rest, every(TOPICS))
    assert all(before[m.id] <= m.owns for m in rest)
    log = written(topics.bootstrap, group)
    completed = {
        (e.get("member"), e.get("generation")) for e in mine[0].events if e["event"] == "assigned"
    }
    of_java = {member for member, _ in completed}
    for earlier, later in itertools.pairwise(log):
        for member, said in later.subscriptions.items():
            if member in of_java and (member, earlier.generation) not in completed:
                continue
            if member in earlier.assignments and said.generation == earlier.generation:
                had = earlier.assignments[member].partitions
                assert said.user_data == encode_sticky_user_data(had, earlier.generation)
    _as_java_would(topics, group, java_class)
    for one in rest:
        one.close()


@pytest.mark.soak
@pytest.mark.parametrize("leader", ["java", KAFKA_PYTHON[-1]])
def test_optimal_of_the_jar_and_of_python_share_a_group(topics, hosts, leader: str) -> None:
    """A cooperative group under `optimal`: each generation in the log is what Python decides, whether
    the jar's class leads or Python, through a join of each and the leader's departure.
    """
    group = f"mixed-optimal-{leader}"
    follower = KAFKA_PYTHON[-1] if leader == "java" else "java"
    mine = [_start(hosts(leader), topics, group, "optimal")]
    settle(mine, every(TOPICS))
    for client in (follower, leader):
        mine.append(_start(hosts(client), topics, group, "optimal"))
        settle(mine, every(TOPICS))
    mine.pop(0).close()
    settle(mine, every(TOPICS))
    log = written(topics.bootstrap, group)
    assert len({one.leader for one in log}) == 2
    for one in log:
        assert one.owners() == one.decided(TOPICS), f"generation {one.generation} of {group}"
        assert all(sent.user_data.endswith(b"PTG1") for sent in one.assignments.values())
    for one in mine:
        one.close()


@pytest.mark.parametrize(
    "leader", [OLDER[0], *(pytest.param(one, marks=pytest.mark.soak) for one in OLDER[1:])]
)
def test_every_version_sits_and_leads_in_one_sticky_group(
    topics, hosts, java_class, leader: str
) -> None:
    """kafka-python 2.0.2 and 2.3.3 and aiokafka 0.10.0 on Kafka 4.3.1, each of them leading once."""
    group = f"versions-{leader}"
    first = _start(hosts(leader), topics, group, "sticky")
    settle([first], every(TOPICS))
    mine = [first, *(_start(hosts(c), topics, group, "sticky") for c in OLDER if c != leader)]
    settle(mine, every(TOPICS))
    leaders = _as_java_would(topics, group, java_class)
    assert leaders[max(leaders)] == first.member
    for one in mine:
        one.close()


@pytest.mark.parametrize(
    ("client", "old"),
    [
        pytest.param(NEWEST[0], "own:range", marks=pytest.mark.soak),
        pytest.param(NEWEST[0], "own:roundrobin", marks=pytest.mark.soak),
        pytest.param(NEWEST[1], "own:range", marks=pytest.mark.soak),
        pytest.param(NEWEST[1], "own:roundrobin", marks=pytest.mark.soak),
    ],
)
def test_rolling_upgrade_without_a_stop(topics, hosts, client: str, old: str) -> None:
    """Old and ours listed, old first: members change one by one, and all partitions stay owned."""
    group = f"upgrade-{client}-{old.split(':')[1]}"
    first = [_start(hosts(client), topics, group, old) for _ in range(2)]
    settle(first, every(TOPICS))
    both = [old, "sticky"]
    changed = []
    for one in first:
        changed.append(_start(hosts(client), topics, group, *both))
        one.close()
        settle([*first[len(changed) :], *changed], every(TOPICS))
    last = []
    for one in changed:
        last.append(_start(hosts(client), topics, group, "sticky"))
        one.close()
        settle([*changed[len(last) :], *last], every(TOPICS))
    log = written(topics.bootstrap, group)
    assert [log[0].protocol, log[-1].protocol] == [old.removeprefix("own:"), "sticky"]
    assert log[-1].owners() == log[-1].decided(TOPICS)
    assert not [e for m in (*first, *changed, *last) for e in m.errors]
    for one in last:
        one.close()


def _start(host, broker, group: str, *strategies, **more):
    return host.start(
        bootstrap=broker.bootstrap, group=group, topics=list(TOPICS), strategies=strategies, **more
    )
