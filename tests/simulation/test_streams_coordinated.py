"""Streams groups (KIP-1071) over time: small histories whose every number is worked out by hand."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from partage.errors import InvalidProblemError, UnknownStrategyError
from partage.simulation.streams import (
    SimulationResult,
    StreamsMetrics,
    SweepCell,
    read_application,
    simulate_cell,
    sweep_cells,
)

MB = 1_000_000


def _app(**changes: Any) -> dict[str, Any]:
    """Two clients, four tasks of 6,000,000 records of 100 bytes, 10 MB a second to restore."""
    return {
        "name": "counts",
        "seconds": 3600,
        "subtopologies": [{"sources": {"lines": 4}, "stores": {"words": {"records": 6_000_000}}}],
        "clients": {
            "a": {"restoreBytesPerSecond": 10 * MB},
            "b": {"restoreBytesPerSecond": 10 * MB},
        },
        **changes,
    }


def _play(
    app: dict[str, Any], assignor: str = "server-sticky@4.3", **config: str
) -> tuple[SimulationResult, StreamsMetrics]:
    named = tuple((key.replace("_", "."), value) for key, value in config.items())
    return simulate_cell(read_application(app), SweepCell(assignor, named))


def _life(played: SimulationResult, task: str) -> list[tuple[str, str, int, int]]:
    spans = [one for one in played.spans if str(one.task) == task]
    spans.sort(key=lambda one: (one.from_ms, one.client))
    return [(one.client, one.kind, one.from_ms, one.to_ms) for one in spans]


def test_a_task_moves_with_two_heartbeats_and_nothing_is_warmed_up() -> None:
    """A client joins at 601 s: a hears of it at 605 s and lets go, b's heartbeat at 606 s takes over."""
    app = _app(
        clients={"a": {"restoreBytesPerSecond": 10 * MB}, "b": {"restoreBytesPerSecond": 10 * MB}},
        events=[{"at": 601, "do": "join", "client": "b"}],
    )
    played, measures = _play(app)
    assert [(one.causes, one.at_ms) for one in played.rebalances] == [
        (("start",), 0), (("b joined",), 601_000),
    ]  # fmt: skip
    assert [str(task) for task in played.rebalances[1].withheld] == ["0_2", "0_3"]
    # b restores both at once: 1,200 MB at 10 MB/s.
    assert _life(played, "0_2") == [
        ("a", "running", 0, 605_000),
        ("b", "restoring", 606_000, 726_000),
        ("b", "running", 726_000, 3_600_000),
    ]
    # Those that stay never stop: there is no rebalance that everybody joins.
    assert _life(played, "0_0") == [("a", "running", 0, 3_600_000)]
    assert measures.unavailable_seconds == {"0_0": 0, "0_1": 0, "0_2": 121, "0_3": 121}
    assert (measures.rebalances, measures.probing) == (1, 0)


def test_a_client_that_comes_back_empty_gets_tasks_before_it_has_their_state() -> None:
    """Where high availability warms up and loses 48 s with a standby, a streams group loses 180 s."""
    crash = {"at": 600, "do": "crash", "client": "b", "disk": False, "backSeconds": 120}
    played, measures = _play(_app(events=[crash]), num_standby_replicas="1")
    # Missed at 645 s; a hears of it at 650 s, gives its standbys up by 650.1 s, and runs the tasks
    # a heartbeat later.
    assert ("a", "running", 655_100, 720_200) in _life(played, "0_3")
    # b is back at 720 s, and has its standbys by 720.1 s; a hears of it at 720.2 s. From its next
    # heartbeat on b restores two actives, and its standbys wait for them.
    assert ("b", "restoring", 725_100, 845_100) in _life(played, "0_3")
    # a has let go by 720.3 s, and keeps the task warm from the heartbeat after that.
    assert ("a", "standby", 725_300, 3_600_000) in _life(played, "0_3")
    assert measures.unavailable_seconds["0_3"] == pytest.approx(55.1 + 124.9)
    assert measures.worst_unavailable == pytest.approx(180)


def test_a_standby_becomes_active_where_it_is() -> None:
    """A crash costs the session timeout and two heartbeats of who has the standby, no restoring."""
    crash = {"at": 602, "do": "crash", "client": "b"}
    played, measures = _play(_app(events=[crash]), num_standby_replicas="1")
    # Heard of at 600 s and missed at 645 s; a's heartbeats come every five seconds. At 650 s
    # it must release its standby, and confirms; with the next one it gets the task as active.
    mine = [task for task, away in measures.unavailable_seconds.items() if away]
    assert {measures.unavailable_seconds[task] for task in mine} == {53.1}
    assert len(mine) == 2
    assert measures.restored_bytes == 0
    assert _life(played, mine[0])[:3] == [
        ("a", "standby", 0, 650_000),
        ("b", "running", 0, 602_000),
        ("a", "running", 655_100, 3_600_000),
    ]


def test_the_dead_member_keeps_its_tasks_until_it_is_missed() -> None:
    """A client is back after 10 s as a new member; its old one still has the tasks for 35 s more."""
    crash = {"at": 600, "do": "crash", "client": "b", "backSeconds": 10}
    played, measures = _play(_app(events=[crash]))
    assert [one.causes for one in played.rebalances] == [
        ("start",), ("b joined",), ("b was missed",),
    ]  # fmt: skip
    # Missed at 645 s. a's heartbeat is at 650 s, as is that of b's new member, which began at 610 s.
    assert measures.worst_unavailable == pytest.approx(50, abs=5)


def test_a_dead_member_and_its_successor_are_two() -> None:
    """Back with an empty disk before it is missed: two processes, no standby beside its active."""
    crash = {"at": 600, "do": "crash", "client": "b", "disk": False, "backSeconds": 10}
    played, _ = _play(_app(events=[crash]), num_standby_replicas="1")
    between = played.rebalances[1]
    assert list(between.active) == ["a", "b (dead)", "b"]
    for one in played.rebalances:
        for client, tasks in one.standby.items():
            assert not set(tasks) & set(one.active[client])
    assert list(played.rebalances[-1].active) == ["a", "b"]


def test_targets_are_apart_by_the_assignment_interval() -> None:
    """Three clients join within a second: the first makes a target, the next heartbeat another."""
    clients = {name: {} for name in "abcd"}
    events = [{"at": 600 + 0.2 * i, "do": "join", "client": one} for i, one in enumerate("bcd")]
    played, _ = _play(_app(clients=clients, events=events))
    # 605 s: a's and b's heartbeat; c and d came too early, their own are 0.2 s later.
    assert [(one.at_ms, one.causes) for one in played.rebalances[1:]] == [
        (600_000, ("b joined",)), (605_000, ("c joined", "d joined")),
    ]  # fmt: skip
    slow = _app(clients=clients, events=events, settings={"streams.assignment.interval.ms": 6000})
    assert _play(slow)[0].rebalances[-1].at_ms == 610_000


def test_a_client_of_two_threads_joins_twice() -> None:
    """Its first thread makes a target for itself, its second one finds that too young."""
    app = _app(
        clients={"a": {}, "b": {"threads": 2}}, events=[{"at": 601, "do": "join", "client": "b"}]
    )
    played, _ = _play(app)
    assert [one.at_ms for one in played.rebalances] == [0, 601_000, 605_000]
    assert [[len(active) for active, _ in one.given["b"]] for one in played.rebalances[1:]] == [
        [2], [1, 1],
    ]  # fmt: skip


def test_an_empty_group_waits_for_more_members() -> None:
    """The first one after everybody has gone waits for three seconds, the group's setting."""
    events = [
        {"at": 100, "do": "leave", "client": "a", "backSeconds": 100},
        {"at": 100, "do": "leave", "client": "b", "backSeconds": 101},
    ]
    played, _ = _play(_app(events=events))
    assert played.rebalances[-1].at_ms == 203_000
    assert played.rebalances[-1].causes == ("a joined", "b joined")


def test_a_standby_becomes_active_with_one_heartbeat_from_4_4_on() -> None:
    """In 4.3 its member releases the standby first, and gets the task 5 s later."""
    crash = {"at": 600, "do": "crash", "client": "b", "disk": False}
    worst = {
        name: _play(_app(events=[crash]), name, num_standby_replicas="1")[1].worst_unavailable
        for name in ("server-sticky", "server-sticky@4.3")
    }
    assert worst["server-sticky@4.3"] - worst["server-sticky"] == pytest.approx(5.0, abs=0.2)


def test_a_restarted_client_gets_the_tasks_of_its_disk_from_4_4_on() -> None:
    """Its members have new ids. They report the offsets of what is on the disk; 4.3 ignores them.

    Client b joins when a has all tasks, and gets the last two. Then both are away for a minute. A
    fresh assignment takes tasks and clients in turn.
    """
    app = _app(events=[
        {"at": 100, "do": "join", "client": "b"},
        {"at": 900, "do": "leave", "client": "b", "backSeconds": 60},
        {"at": 900, "do": "leave", "client": "a", "backSeconds": 61},
    ])  # fmt: skip
    owned = {
        assignor: {
            client: sorted(str(task) for task in tasks)
            for client, tasks in _play(app, assignor)[0].rebalances[-1].active.items()
        }
        for assignor in ("server-sticky", "server-sticky@4.3")
    }
    assert owned["server-sticky"] == {"a": ["0_0", "0_1"], "b": ["0_2", "0_3"]}
    assert owned["server-sticky@4.3"] != owned["server-sticky"]


def test_threads_are_members() -> None:
    """A client with three threads gets three quarters of the tasks."""
    app = _app(clients={"a": {"threads": 3}, "b": {}})
    played, _ = _play(app)
    assert {name: len(tasks) for name, tasks in played.rebalances[0].active.items()} == {
        "a": 3, "b": 1,
    }  # fmt: skip


def test_it_stands_beside_the_others_by_any_of_its_names() -> None:
    """Short name, full name and Java class are one; a misspelt one is an error that lists all names."""
    names = [
        "server-sticky",
        "streams:server-sticky",
        "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor",
    ]
    assert sweep_cells(names, {}) == [SweepCell("streams:server-sticky")]
    assert sweep_cells(["server-sticky@4.3"], {}) == [SweepCell("streams:server-sticky@4.3")]
    with pytest.raises(UnknownStrategyError, match="did you mean streams:server-sticky"):
        sweep_cells(["streams:server-stiky"], {})


def test_its_times_are_read_and_checked() -> None:
    """The group's own settings by Kafka's names; a delay may be 0, an interval of heartbeats not."""
    assert read_application(_app(settings={"streams.initial.rebalance.delay.ms": 0})).runtime == read_application(
        _app(settings={"streams.initial.rebalance.delay.ms": "0"})
    ).runtime  # fmt: skip
    with pytest.raises(InvalidProblemError) as raised:
        read_application(_app(settings={"streams.heartbeat.interval.ms": 0}))
    assert raised.value.path == "settings.streams.heartbeat.interval.ms"


def _random_app(seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    names = [f"c{i}" for i in range(draw.randint(1, 5))]
    clients = {
        one: {"threads": draw.randint(1, 3), "restoreBytesPerSecond": 5 * MB} for one in names
    }
    events: list[dict[str, Any]] = []
    for _ in range(draw.randint(0, 8)):
        what = draw.choice(["leave", "crash"])
        one = {"at": draw.uniform(1, 1500), "do": what, "client": draw.choice(names)}
        if draw.random() < 0.8:
            one["backSeconds"] = draw.uniform(1, 200)
        if what == "crash":
            one["disk"] = draw.random() < 0.5
        events.append(one)
    return _app(
        clients=clients,
        events=events,
        subtopologies=[
            {"sources": {"lines": draw.randint(1, 7)}, "stores": {"words": {"records": 100_000}}},
            {"sources": {"ticks": draw.randint(1, 5)}},
        ],
        settings={"num.standby.replicas": draw.randint(0, 2)},
    )


@pytest.mark.parametrize("seed", range(60))
def test_whatever_comes_and_goes(seed: int) -> None:
    """A task runs once at a time, no client has two copies, and an hour's calm ends with its target."""
    app = _random_app(seed)
    played, measures = _play(app)
    roles: dict[tuple[str, str], list[tuple[int, int]]] = {}
    active: dict[str, list[tuple[int, int]]] = {}
    for span in played.spans:
        key = (span.client, str(span.task))
        roles.setdefault(key, []).append((span.from_ms, span.to_ms))
        if span.kind in {"running", "restoring"}:
            active.setdefault(str(span.task), []).append((span.from_ms, span.to_ms))
    for times in (*roles.values(), *active.values()):
        times.sort()
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(times))
    last = played.rebalances[-1]
    up = {name for name, times in played.present.items() if times[-1][1] == played.length_ms}
    if not up:
        return
    assert last.at_ms < 2_000_000
    assert sorted(task for tasks in last.active.values() for task in tasks) == sorted(played.tasks)
    at_end = {
        (span.client, span.task): span.kind for span in played.spans if span.to_ms == 3_600_000
    }
    target = {(name, task): "running" for name in up for task in last.active[name]}
    target |= {(name, task): "standby" for name in up for task in last.standby[name]}
    assert at_end == target
    assert measures.probing == 0
