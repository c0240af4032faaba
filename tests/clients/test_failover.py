"""Priority fail-over on a real broker: killed, taken over, nothing unread; Java's twin in the group."""

from __future__ import annotations

import time

import pytest
from tests.clients.members import AIOKAFKA, KAFKA_PYTHON, Host, every, settle, wait
from tests.clients.records import written

pytestmark = pytest.mark.jvm

PRIORITY = "assignment_consumer_priority"
SESSION = 6000


def _strategy(client: str, priority: int, **options):
    """Java takes the documented key, ours the end of it."""
    return (
        "failover",
        {PRIORITY: priority} if client == "java" else {"priority": priority, **options},
    )


def _start(host, broker, group, topic, priority, **options):
    return host.start(
        bootstrap=broker.bootstrap, group=group, topics=[topic], session=SESSION,
        strategies=[_strategy(host.client, priority, **options)],
    )  # fmt: skip


def _records(broker, topic: str, count: int) -> None:
    broker.produce(topic, [(i % 3, None, f"record {i}") for i in range(count)])


@pytest.mark.soak
@pytest.mark.parametrize("client", [KAFKA_PYTHON[-1], AIOKAFKA[-1]])
@pytest.mark.parametrize("count", [2, 3])
def test_the_active_is_killed_and_the_next_works(broker, hosts, client, count, capsys) -> None:
    """Two and three members, 30 > 20 > 10: after SIGKILL the next has all within the session timeout
    and a bit.
    """
    topic = f"failover-{client}-{count}"
    broker.create_topic(topic, 3)
    group = f"{topic}-group"
    waiting = [_start(hosts(client), broker, group, topic, p) for p in (20, 10)[: count - 1]]
    middle = waiting[0]
    with Host(client) as doomed:
        active = _start(doomed, broker, group, topic, 30)
        settle([active, *waiting], every({topic: 3}))
        assert len(active.owns) == 3
        _records(broker, topic, 300)
        wait(lambda: len(set(active.read)) == 300, "the active reads everything")
        doomed.kill()
        killed = time.time()
        _records(broker, topic, 300)
        wait(lambda: len(middle.owns) == 3, "the next in line takes over")
        wait(lambda: len({*active.read, *middle.read}) == 600, "the next reads what came meanwhile")
        first = min(e["at"] for e in middle.events if e["event"] == "read")
    with capsys.disabled():
        print(f"\n{client}, {count} members: {first - killed:.1f} s from SIGKILL to the first record "
              f"of the next (session {SESSION} ms)")  # fmt: skip
    assert not any(one.read for one in waiting[1:])
    # The session, a heartbeat, a rebalance; and what a busy machine adds to them.
    assert first - killed < SESSION / 1000 + 15
    for one in waiting:
        one.close()


@pytest.mark.parametrize("preemption", [True, False])
@pytest.mark.parametrize(
    "client", [KAFKA_PYTHON[-1], pytest.param(AIOKAFKA[-1], marks=pytest.mark.soak)]
)
def test_a_higher_priority_takes_over_or_not_by_option(broker, hosts, client, preemption) -> None:
    """It comes to a group at work: with preemption it has everything, without nothing moves."""
    topic = f"return-{client}-{preemption}"
    broker.create_topic(topic, 2)
    group = f"{topic}-group"
    low = _start(hosts(client), broker, group, topic, 10, preemption=preemption)
    settle([low], every({topic: 2}))
    high = _start(hosts(client), broker, group, topic, 20, preemption=preemption)
    if preemption:
        settle([low, high], every({topic: 2}))
    else:
        # kafka-python 3 does not call who is given nothing: the log tells that it is in.
        end = time.monotonic() + 60
        while len(written(broker.bootstrap, group)[-1].assignments) < 2:
            assert time.monotonic() < end, "the second member did not join within 60 s"
            time.sleep(0.5)
        assert not high.owns
    assert len((high if preemption else low).owns) == 2
    for one in (high, low):
        one.close()


@pytest.mark.parametrize(
    "leader", ["java", KAFKA_PYTHON[-1], pytest.param(AIOKAFKA[-1], marks=pytest.mark.soak)]
)
def test_the_documented_class_and_ours_decide_alike(broker, hosts, leader: str) -> None:
    """One group with the document's assignor in Java and ours, either leading: one plan."""
    topic = f"documented-{leader}"
    broker.create_topic(topic, 4)
    group = f"{topic}-group"
    others = [c for c in ("java", KAFKA_PYTHON[-1], AIOKAFKA[-1]) if c != leader]
    first = _start(hosts(leader), broker, group, topic, 5)
    settle([first], every({topic: 4}))
    mine = [
        first,
        *(_start(hosts(c), broker, group, topic, p) for c, p in zip(others, (7, 9), strict=True)),
    ]
    settle(mine, every({topic: 4}))
    assert len(mine[2].owns) == 4
    log = written(broker.bootstrap, group)
    assert log[-1].leader == first.member
    for one in log:
        assert one.owners() == one.decided({topic: 4}, "failover")
    mine[2].close()
    settle(mine[:2], every({topic: 4}))
    assert len(mine[1].owns) == 4
    for one in mine[:2]:
        one.close()
