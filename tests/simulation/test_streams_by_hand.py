"""Small Streams histories whose every number is worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.recorded_streams import Listener

from partage.simulation.streams import (
    SimulationResult,
    StreamsMetrics,
    SweepCell,
    read_application,
    simulate_application,
    simulate_cell,
)
from partage.streams import compute_group_assignment

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
    app: dict[str, Any], assignor: str = "high-availability", **config: str
) -> tuple[SimulationResult, StreamsMetrics]:
    named = tuple((key.replace("_", "."), value) for key, value in config.items())
    return simulate_cell(read_application(app), SweepCell(assignor, named))


def _life(played: SimulationResult, task: str) -> list[tuple[str, str, int, int]]:
    spans = [one for one in played.spans if str(one.task) == task]
    spans.sort(key=lambda one: (one.from_ms, one.client))
    return [(one.client, one.kind, one.from_ms, one.to_ms) for one in spans]


CRASH = [{"at": 600, "do": "crash", "client": "b", "disk": False, "backSeconds": 120}]


def test_nothing_happens_where_nothing_changes() -> None:
    """An hour without events is one rebalance at its beginning, and nobody is away."""
    played, measures = _play(_app())
    assert [one.causes for one in played.rebalances] == [("start",)]
    assert measures.total_unavailable == 0
    assert (measures.restored_bytes, measures.moved, measures.spread) == (0, 0, 0)
    assert _life(played, "0_1") == [("b", "running", 0, 3_600_000)]


def test_a_crash_without_standbys() -> None:
    """45 s until it is missed, 3 s to a heartbeat, 120 s for two tasks of 600 MB, 0.1 s to hand back."""
    played, measures = _play(_app(events=CRASH))
    assert _life(played, "0_1") == [
        ("b", "running", 0, 600_000),
        ("a", "restoring", 648_000, 768_000),
        # Probing is due 600.001 s after; b hears of it with its heartbeat, 201 after that of 723 s.
        ("b", "warm-up", 723_000, 1_326_000),
        ("a", "running", 768_000, 1_326_000),
        # Given up by a, taken over with the next rebalance: both join again within a poll.
        ("b", "standby", 1_326_000, 1_326_100),
        ("b", "running", 1_326_100, 3_600_000),
    ]
    assert measures.unavailable_seconds == {"0_0": 0, "0_1": 168.1, "0_2": 0, "0_3": 168.1}
    assert (measures.total_unavailable, measures.worst_unavailable) == (336.2, 168.1)
    # Two tasks by a, and the same two by b.
    assert measures.restored_bytes == 4 * 600 * MB
    assert [one.causes for one in played.rebalances] == [
        ("start",), ("b was missed",), ("b joined",), ("probing",), ("follow-up",),
    ]  # fmt: skip
    assert (measures.rebalances, measures.probing, measures.moved) == (4, 1, 4)
    # Active tasks: a alone until 720 s, then 4 against 0, then 2 against 0 while two change hands.
    assert measures.spread == round((4 * 606_000 + 2 * 100) / 3_600_000, 3)
    assert measures.final_spread == 0


def test_what_a_standby_buys() -> None:
    """With one standby the crash costs 48 s, and the way back 0.1 s; nothing else is awaited."""
    played, measures = _play(_app(events=CRASH), num_standby_replicas="1")
    assert measures.unavailable_seconds == {"0_0": 0, "0_1": 48.1, "0_2": 0, "0_3": 48.1}
    # b comes back empty and restores all four tasks.
    assert measures.restored_bytes == 4 * 600 * MB
    assert ("a", "standby", 0, 648_000) in _life(played, "0_1")
    # One more copy of each task; none on b from 600 s to 723 s, when 0_1 and 0_3 were lost.
    assert 2.2e9 < measures.standby_bytes < 2.4e9


def test_a_client_that_leaves_is_not_awaited() -> None:
    """One that says that it goes costs 3 s and what has to be restored: 2 x 600 MB at 10 MB/s."""
    _, measures = _play(_app(events=[{"at": 600, "do": "leave", "client": "b"}]))
    assert measures.unavailable_seconds == {"0_0": 0, "0_1": 123, "0_2": 0, "0_3": 123}
    assert (measures.rebalances, measures.restored_bytes) == (1, 2 * 600 * MB)


def test_a_crash_with_its_disk_restores_what_was_written_meanwhile() -> None:
    """A client is back after 10 s with its state; the group still waits 45 s for the one that died."""
    app = _app(events=[{"at": 600, "do": "crash", "client": "b", "backSeconds": 10}])
    played, measures = _play(app)
    # The join asks at 610 s, but the dead member is given up at 645 s only.
    assert [(one.began_ms, one.at_ms) for one in played.rebalances[1:]] == [(610_000, 645_000)]
    assert measures.unavailable_seconds == {"0_0": 0, "0_1": 45, "0_2": 0, "0_3": 45}
    assert measures.restored_bytes == 0


def test_lags_rise_with_writes_and_fall_with_the_rate() -> None:
    """A warm-up of 600 MB at 10 MB/s while 2 MB/s are written needs 600 / 8 = 75 s and 750 MB."""
    store = {"records": 6_000_000, "writesPerSecond": 20_000}
    app = _app(
        subtopologies=[{"sources": {"lines": 2}, "stores": {"words": store}}],
        events=[{"at": 0.001, "do": "join", "client": "b"}],
        seconds=60,
    )
    _, measures = _play(app)
    # From a's heartbeat at 3 s to 60 s at 10 MB/s, not caught up.
    assert measures.restored_bytes == 570 * MB
    app["seconds"] = 120
    _, measures = _play(app)
    # Position at that moment 6,060,000 records: (606 MB) / (8 MB/s) = 75.75 s to catch up.
    caught_up = 3 + 75.75
    assert measures.restored_bytes == pytest.approx(757.5 * MB, abs=0.02 * MB)
    assert measures.followed_bytes == pytest.approx(2 * MB * (120 - caught_up), abs=0.02 * MB)


def test_brokers_that_do_not_answer_stop_restoring() -> None:
    """While brokers lag nothing comes in, and the leader goes by who had what (fallback)."""
    lag = {"at": 640, "do": "brokerLag", "seconds": 100, "factor": 0}
    leave = {"at": 600, "do": "leave", "client": "b"}
    _, measures = _play(_app(events=[leave, lag]))
    # 123 s as without, and 100 s in which nothing comes.
    assert measures.unavailable_seconds == {"0_0": 0, "0_1": 223, "0_2": 0, "0_3": 223}
    slow = {"at": 640, "do": "brokerLag", "seconds": 1000, "factor": 0.5}
    _, measures = _play(_app(events=[leave, slow]))
    # 37 s at full speed bring 370 MB of 1,200; the other 830 come at 5 MB/s.
    assert measures.worst_unavailable == 3 + 37 + 166


def test_a_rolling_restart_goes_round() -> None:
    """Each client goes and comes back in turn; silent restarts are missed after 45 s."""
    app = _app(events=[{"at": 300, "do": "rollingRestart", "downSeconds": 60, "everySeconds": 600}])
    played, measures = _play(app)
    assert played.present == {
        "a": [(0, 300_000), (360_000, 3_600_000)],
        "b": [(0, 900_000), (960_000, 3_600_000)],
    }
    # a is back at 360 s, a moment before b's heartbeat at 363 s (they count from 348 s), and gets
    # its tasks 0.1 s later. b, last heard of at 897.1 s, is missed at 942.1 s and back at 960 s, just
    # before a's heartbeat at 960.1 s (from 945.1 s). Either is 15 s into the other's restoring.
    away = measures.unavailable_seconds
    assert away == {"0_0": 63.1, "0_1": 60.2, "0_2": 63.1, "0_3": 60.2}
    assert measures.restored_bytes == 2 * 15 * 10 * MB


def test_a_scale_out_warms_up_before_it_takes_over() -> None:
    """Two clients more: two warm-ups at a time by default, and tasks are away for 0.1 s."""
    app = _app(events=[{"at": 300, "do": "scaleOut", "like": "a", "count": 2}])
    played, measures = _play(app)
    assert sorted(played.present) == ["a", "a-2", "a-3", "b"]
    assert all(len(one.warmups) <= 2 for one in played.rebalances)
    # All who are to join again do so at once here, nobody has to be waited for.
    assert set(measures.unavailable_seconds.values()) == {0.0, 0.1}
    assert measures.final_spread == 0


def test_before_2_4_who_joins_a_rebalance_stops_until_it_is_over() -> None:
    """Under the assignor of 0.11 a member revokes everything when it hears of a rebalance."""
    app = _app(events=[{"at": 301, "do": "rebalance", "client": "a"}])
    played, measures = _play(app, "streams:0.11")
    # a asks and stops; b hears of it with its heartbeat at 303 s, which ends the rebalance.
    assert ("a", "stopped", 301_000, 303_000) in _life(played, "0_0")
    assert _life(played, "0_1") == [("b", "running", 0, 3_600_000)]
    assert measures.unavailable_seconds == {"0_0": 2, "0_1": 0, "0_2": 2, "0_3": 0}
    # While a dead member is awaited, everybody stands still after his own heartbeat.
    crash = {"at": 400, "do": "crash", "client": "b"}
    ask = {"at": 410, "do": "rebalance", "client": "a"}
    played, _ = _play(_app(events=[crash, ask]), "streams:0.11")
    assert ("a", "stopped", 410_000, 444_000) in _life(played, "0_0")
    # Since 2.4 nobody stops.
    played, _ = _play(app)
    assert _life(played, "0_0") == [("a", "running", 0, 3_600_000)]


def test_lags_of_brokers_add_up_to_the_worst() -> None:
    """Two times of trouble overlap: the end of the one is not the end of the other."""
    leave = {"at": 600, "do": "leave", "client": "b"}
    long = {"at": 610, "do": "brokerLag", "seconds": 100, "factor": 0.5}
    short = {"at": 620, "do": "brokerLag", "seconds": 10, "factor": 0}
    _, measures = _play(_app(events=[leave, long, short]))
    # 1,200 MB from 603 s: 7 s at 10 MB/s, 10 at 5, 10 at nothing, 80 at 5, the other 680 MB at 10.
    assert measures.worst_unavailable == 3 + 7 + 10 + 10 + 80 + 68


def test_a_rolling_restart_takes_those_who_are_up() -> None:
    """Who is gone takes no turn, who came since does, wherever it stands in the file."""
    clients = {name: {} for name in "axb"}
    events = [
        {"at": 1000, "do": "rollingRestart", "downSeconds": 10, "everySeconds": 100},
        {"at": 500, "do": "scaleOut", "like": "a"},
        {"at": 400, "do": "leave", "client": "x"},
    ]
    played, _ = _play(_app(clients=clients, events=events))
    went = {name: times[0][1] for name, times in played.present.items()}
    assert went == {"a": 1_000_000, "x": 400_000, "b": 1_100_000, "a-2": 1_200_000}


def test_traffic_across_racks() -> None:
    """What is read and restored from where no replica is in the client's rack is counted."""
    app = _app(
        subtopologies=[
            {
                "sources": {"lines": 2},
                "stores": {"words": {"records": 1_000_000}},
                "readBytesPerSecond": 1000,
            }
        ],
        clients={
            "a": {"rack": "r1", "restoreBytesPerSecond": 10 * MB},
            "b": {"rack": "r2", "restoreBytesPerSecond": 10 * MB},
        },
        racks={
            "lines": [["r1"], ["r1"]],
            "counts-words-changelog": [["r1"], ["r2"]],
        },
        events=[{"at": 600, "do": "leave", "client": "b"}],
    )
    _, measures = _play(app)
    # b reads 0_1 across for 600 s; then a restores its 100 MB from r2 and reads within r1.
    assert measures.cross_rack_bytes == 600 * 1000 + 100 * MB


def test_an_empty_start_restores_everything() -> None:
    """Without any state at the beginning all tasks restore: two of 600 MB on each client."""
    _, measures = _play(_app(start="empty"))
    assert set(measures.unavailable_seconds.values()) == {120}


def test_who_joins_when_and_with_what() -> None:
    """A task goes from a to b: a joins again before it opened what it got, b after, c with a heartbeat."""
    app = read_application(
        _app(
            subtopologies=[{"sources": {"lines": 5}, "stores": {"words": {"records": 1000}}}],
            clients={"a": {}, "b": {}, "c": {}, "d": {}},
            settings={"num.standby.replicas": 1},
            events=[{"at": 600, "do": "leave", "client": "d"}],
        )
    )
    listener = Listener()
    _, left, after = simulate_application(app, listener).rebalances
    assert [str(task) for task in left.withheld] == ["0_4"]
    standby = {name: [str(task) for task in tasks] for name, tasks in left.standby.items()}
    assert standby == {"a": ["0_1", "0_4"], "b": ["0_2"], "c": ["0_0", "0_3"]}
    # a and b would be there within a poll; c hears of it three seconds after the last rebalance.
    assert [(one.began_ms, one.at_ms) for one in (left, after)] == [
        (600_000, 603_000), (603_000, 606_000),
    ]  # fmt: skip
    active = {
        client.process: {str(task) for task in client.previous_standby}
        for client in listener.problems[2].clients
    }
    a, b, c, _ = (client.process for client in app.clients.values())
    assert active[a] == {"0_4"}  # which it has just released, and 0_1 not yet
    assert active[b] == {"0_0", "0_4", "0_2"}
    assert active[c] == {"0_1", "0_0", "0_3"}


def test_an_empty_group_waits_for_more_members() -> None:
    """The broker waits three seconds for the first, and as long again if others came meanwhile."""
    went = [{"at": 100, "do": "leave", "client": one} for one in "ab"]
    back = [{"at": at, "do": "join", "client": one} for at, one in ((200, "a"), (202, "b"))]
    played, _ = _play(_app(events=[*went, *back]))
    last = played.rebalances[-1]
    assert (last.began_ms, last.at_ms, last.causes) == (
        200_000, 206_000, ("a joined", "b joined"),
    )  # fmt: skip
    played, _ = _play(_app(events=[*went, back[0]]))
    assert played.rebalances[-1].at_ms == 203_000
    played, _ = _play(_app(events=[*went, *back]), group_initial_rebalance_delay_ms="0")
    assert [one.at_ms for one in played.rebalances[-2:]] == [203_000, 203_100]


def test_a_client_cleans_up_at_the_interval_of_its_delay() -> None:
    """What it gave up is looked for every ten minutes since its start, and deleted if it is as old."""
    app = _app(
        seconds=4000,
        events=[{"at": 700, "do": "leave", "client": "b", "backSeconds": 300}],
    )
    played, measures = _play(app)
    # a gives two tasks back to b at 1002 s; it looks at 1200 s, too early, and at 1800 s.
    given_up = played.rebalances[-2].at_ms / 1000
    spare = measures.standby_bytes * 4000
    assert given_up == 1002
    assert spare == pytest.approx(2 * 600 * MB * (1800 - given_up), rel=0.03)


def test_by_its_document_kip_441_rebalances_when_a_move_is_available() -> None:
    """A warm-up of 50 minutes: what was shipped probes each minute, the document's check says no."""
    clients = {"a": {"restoreBytesPerSecond": 10 * MB}, "b": {"restoreBytesPerSecond": 400_000}}
    app = _app(clients=clients, events=CRASH, seconds=4000)
    config = {"probing_rebalance_interval_ms": "60000"}
    played, _ = _play(app, "kip-441-document", **config)
    # b, back since 723 s, is within 10,000 records at 3718 s: the check says yes at 3723.001 s, and
    # b hears of it with its heartbeat.
    assert [(one.at_ms, one.causes) for one in played.rebalances[2:]] == [
        (723_000, ("b joined",)), (3_726_000, ("probing",)), (3_726_100, ("follow-up",)),
    ]  # fmt: skip
    shipped, measures = _play(app, "high-availability", **config)
    assert measures.probing == 48
    assert shipped.rebalances[-1].active == played.rebalances[-1].active


def test_who_asks_at_once_for_nothing_waits_for_the_probing_interval() -> None:
    """Kafka's preserving assignor always wants another rebalance: here it gets six an hour."""
    played, _ = _play(_app(), "sticky-preserving")
    assert [one.at_ms for one in played.rebalances[:4]] == [0, 3_000, 606_000, 1_209_000]
    assert len(played.rebalances) == 7


def test_all_are_missed_at_one_moment_and_back() -> None:
    """Two clients die and come back at once, while a rebalance is under way: the old ones have no say."""
    events = [
        {"at": 0, "do": "rebalance", "client": "b"},
        {"at": 0, "do": "rollingRestart", "downSeconds": 0.001, "everySeconds": 0},
    ]
    played, _ = _play(_app(events=events))
    assert sorted(map(len, played.rebalances[-1].active.values())) == [2, 2]


def test_of_what_no_thread_has_the_first_to_join_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of two threads has given two tasks back: one of them tells of both, the other of none."""
    said = []

    def listening(seen, members, **how):
        said.append(members)
        return compute_group_assignment(seen, members, **how)

    monkeypatch.setattr(
        "partage.simulation.streams.classic_group.compute_group_assignment", listening
    )
    app = _app(
        clients={"a": {"threads": 2}, "b": {"threads": 2}},
        events=[*CRASH, {"at": 1500, "do": "rebalance", "client": "b"}],
    )
    played, _ = _play(app)
    assert played.rebalances[-1].causes == ("b asked",)
    first, second = (
        {str(task) for task in one.offset_sums} for one in said[-1] if one.id.startswith("a-")
    )
    runs = {str(task) for task in played.rebalances[-1].active["a"]}
    spare = {"0_0", "0_1", "0_2", "0_3"} - runs
    assert len(spare) == 2
    assert spare <= first
    assert not spare & second
    assert first | second == runs | spare
