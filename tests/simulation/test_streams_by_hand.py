"""Small Streams histories whose every number is worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from partage.simulation.streams import Cell, Measures, Played, played_cell, read

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
) -> tuple[Played, Measures]:
    named = tuple((key.replace("_", "."), value) for key, value in config.items())
    return played_cell(read(app), Cell(assignor, named))


def _life(played: Played, task: str) -> list[tuple[str, str, int, int]]:
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
    """45 s until it is missed, 3 s to rebalance, 120 s for two tasks of 600 MB, 3 s to hand back."""
    played, measures = _play(_app(events=CRASH))
    assert _life(played, "0_1") == [
        ("b", "running", 0, 600_000),
        ("a", "restoring", 648_000, 768_000),
        ("b", "warm-up", 723_000, 1_326_001),
        ("a", "running", 768_000, 1_326_001),
        # Given up by a at once, taken over with the next rebalance: b keeps it warm meanwhile.
        ("b", "standby", 1_326_001, 1_329_001),
        ("b", "running", 1_329_001, 3_600_000),
    ]
    assert measures.unavailable_seconds == {"0_0": 0, "0_1": 171, "0_2": 0, "0_3": 171}
    assert (measures.total_unavailable, measures.worst_unavailable) == (342, 171)
    # Two tasks by a, and the same two by b.
    assert measures.restored_bytes == 4 * 600 * MB
    assert [one.causes for one in played.rebalances] == [
        ("start",), ("b was missed",), ("b joined",), ("probing",), ("follow-up",),
    ]  # fmt: skip
    assert (measures.rebalances, measures.probing, measures.moved) == (4, 1, 4)
    # Active tasks: a alone until 720 s, then 4 against 0, then 2 against 0 while two change hands.
    assert measures.spread == round((4 * 606_001 + 2 * 3_000) / 3_600_000, 3)
    assert measures.final_spread == 0


def test_what_a_standby_buys() -> None:
    """With one standby the crash costs 48 s, and the way back 3 s; nothing else is awaited."""
    played, measures = _play(_app(events=CRASH), num_standby_replicas="1")
    assert measures.unavailable_seconds == {"0_0": 0, "0_1": 51, "0_2": 0, "0_3": 51}
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
    # From 3.001 s to 60 s at 10 MB/s, not caught up: 569.99 MB, rounded to what was played.
    assert measures.restored_bytes == 569_990_000
    app["seconds"] = 120
    _, measures = _play(app)
    # Position at the join 6,060,020 records: (606.002 MB) / (8 MB/s) = 75.75025 s to catch up.
    caught_up = 3.001 + 75.751
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
    # Back after 60 s, 15 s into the other's restoring; 3 s to join, 3 s to get its tasks back.
    assert set(measures.unavailable_seconds.values()) == {66}
    assert measures.restored_bytes == 2 * 15 * 10 * MB


def test_a_scale_out_warms_up_before_it_takes_over() -> None:
    """Two clients more: two warm-ups at a time by default, and tasks are away for 3 s only."""
    app = _app(events=[{"at": 300, "do": "scaleOut", "like": "a", "count": 2}])
    played, measures = _play(app)
    assert sorted(played.present) == ["a", "a-2", "a-3", "b"]
    assert all(len(one.warmups) <= 2 for one in played.rebalances)
    assert set(measures.unavailable_seconds.values()) <= {0.0, 3.0}
    assert measures.final_spread == 0


def test_before_2_4_every_rebalance_stops_the_whole_group() -> None:
    """Under the assignor of 0.11 a client that joins stops every task for the rebalance."""
    app = _app(events=[{"at": 300, "do": "scaleOut", "like": "a"}])
    played, _ = _play(app, "streams:0.11")
    assert ("a", "stopped", 300_000, 303_000) in _life(played, "0_0")


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
