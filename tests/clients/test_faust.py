"""Faust workers with a table and one standby on a real broker: on the stock assignor and on ours."""

from __future__ import annotations

import uuid
from contextlib import closing

import pytest
from kafka import KafkaConsumer, TopicPartition

from clients.faust_workers import Worker, wait_until

PARTITIONS = 4


@pytest.fixture
def app(broker):
    """An app's name; its topics are there, as Faust wants them before its first start."""
    name = f"faust-{uuid.uuid4().hex[:8]}"
    broker.create_topic(f"{name}-words", PARTITIONS)
    broker.create_topic(
        f"{name}-counts-changelog", PARTITIONS, configs={"cleanup.policy": "compact"}
    )
    broker.create_topic(f"{name}-__assignor-__leader", 1)
    return name


def produce(broker, app, times):
    """Each word so often; word n goes to partition n."""
    broker.produce(f"{app}-words", [(p, None, f'"w{p}"') for p in range(PARTITIONS)] * times)


def share(app, workers):
    """Whether the workers have everything once, and of each other's tables a standby."""
    words, changelog = f"{app}-words", f"{app}-counts-changelog"
    every = set(range(PARTITIONS))
    lists = [one.numbers(words) for one in workers]
    return (
        sum(map(len, lists)) == PARTITIONS
        and set().union(*lists) == every
        and all(one.numbers(changelog) == one.numbers(words) for one in workers)
        and all(
            one.numbers(changelog, "standbys")
            == (every - one.numbers(words) if workers[1:] else set())
            for one in workers
        )
        and all(one.recovered for one in workers)
    )


def counted(workers, times):
    """Return whether the workers together counted each word that often: no part of the table is lost."""
    best = {}
    for one in workers:
        for word, count in one.counts().items():
            best[word] = max(count, best.get(word, 0))
    return len(best) == PARTITIONS and min(best.values()) >= times


def is_logged(broker, app, times):
    """Return whether the changelog has each count of each word.

    Faust commits offsets without waiting for the changelog. A stock worker that is killed between
    both loses a count; run 5 of the live tests at a load of 35 did.
    """
    parts = [TopicPartition(f"{app}-counts-changelog", p) for p in range(PARTITIONS)]
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap)) as consumer:
        return min(consumer.end_offsets(parts).values()) >= times


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("faust", "stock"),
        pytest.param("faust:copartitioned", "faust:copartitioned", marks=pytest.mark.soak),
    ],
)
def test_workers_share_a_table_and_one_that_is_killed_is_replaced(
    broker, app, tmp_path, first, second
) -> None:
    """Topics together, standbys with the other one; a standby takes over with the counts that the
    killed one had; and a worker that comes anew gets its part back.
    """
    bootstrap, leader = broker.bootstrap, (f"{app}-__assignor-__leader", 0)
    with (
        Worker(app, bootstrap, first, tmp_path / "a") as a,
        Worker(app, bootstrap, second, tmp_path / "b") as b,
    ):
        wait_until(lambda: share(app, [a, b]), [a, b])
        assert sum(leader in one.assigned["actives"] for one in (a, b)) == 1
        produce(broker, app, 3)
        wait_until(lambda: counted([a, b], 3), [a, b])
        wait_until(lambda: is_logged(broker, app, 3), [a, b])
        b.kill()
        wait_until(lambda: share(app, [a]), [a])
        assert leader in a.assigned["actives"]
        produce(broker, app, 1)
        wait_until(lambda: counted([a], 4), [a])
        with Worker(app, bootstrap, second, tmp_path / "c") as c:
            wait_until(lambda: share(app, [a, c]), [a, c])
            assert len(c.numbers(f"{app}-words")) == PARTITIONS // 2
            produce(broker, app, 1)
            wait_until(lambda: counted([a, c], 5), [a, c])


@pytest.mark.soak
def test_a_strategy_that_raises_is_named_and_the_workers_go_on(broker, app, tmp_path) -> None:
    """The log names strategy, group and generation; Faust's own class decides, all is counted, and
    no member keeps asking.
    """
    with Worker(app, broker.bootstrap, "broken", tmp_path / "a") as one:
        wait_until(lambda: share(app, [one]), [one])
        produce(broker, app, 2)
        wait_until(lambda: counted([one], 2), [one])
        tried = len([said for said in one.said() if "tried" in said])
        text = one.text()
    assert f"strategy faust failed in group {app}, generation 1:" in text
    assert "Faust's own assignor decides" in text
    assert tried <= 3
