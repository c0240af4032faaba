"""What holds of every Streams history: found by letting clients come and go at random."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partage.simulation.streams import (
    SimulationResult,
    measure_streams_result,
    read_application,
    simulate_application,
)
from partage.streams import find_assignor, find_task_assignors

#: After the last event there is time for everything to be restored and moved.
CALM = 4 * 3600

moments = st.lists(
    st.tuples(
        st.sampled_from(["leave", "crash", "join", "rollingRestart", "scaleOut", "brokerLag"]),
        st.sampled_from("abcd"),
        st.integers(1, 400),
        st.booleans(),
        st.sampled_from([None, 5, 200]),
    ),
    max_size=5,
)


@st.composite
def apps(draw: st.DrawFn) -> dict[str, Any]:
    """An application of up to eight tasks on up to four clients, with up to five events."""
    events, now = [], 0
    # What comes before the first event of a client decides whether it starts; `a` always does.
    for kind, client, wait, flag, back in draw(moments):
        now += wait
        event: dict[str, Any] = {"at": now, "do": kind}
        if kind in {"leave", "crash"}:
            event |= {"client": client} if back is None else {"client": client, "backSeconds": back}
        if kind == "crash":
            event["disk"] = flag
        if kind == "join":
            event["client"] = "d" if client == "a" else client
        if kind == "rollingRestart":
            event |= {"downSeconds": 20, "everySeconds": wait, "leaves": flag}
        if kind == "scaleOut":
            event["like"] = client
        if kind == "brokerLag":
            event |= {"seconds": wait, "factor": 0 if flag else 0.5}
        events.append(event)
    store = {
        "records": draw(st.sampled_from([0, 5_000, 3_000_000])),
        "writesPerSecond": draw(st.sampled_from([0, 500])),
    }
    return {
        "seconds": now + CALM,
        "subtopologies": [
            {"sources": {"lines": draw(st.integers(1, 5))}, "stores": {"words": store}},
            {"sources": {"clicks": draw(st.integers(1, 3))}},
        ],
        "clients": {
            name: {"threads": draw(st.integers(1, 2)), "restoreBytesPerSecond": 5_000_000}
            for name in "abcd"
        },
        "settings": {
            "num.standby.replicas": draw(st.integers(0, 2)),
            "max.warmup.replicas": draw(st.integers(1, 3)),
            "probing.rebalance.interval.ms": 60_000,
        },
        "events": events,
    }


def _check_plans(app: dict[str, Any], played: SimulationResult, *, warmups: bool) -> None:
    extra, standbys = (
        app["settings"][key] for key in ("max.warmup.replicas", "num.standby.replicas")
    )
    stateful = app["subtopologies"][0]["sources"]["lines"]
    for one in played.rebalances:
        active = Counter(task for tasks in one.active.values() for task in tasks)
        assert active == Counter(played.tasks)
        copies = 0
        for client, tasks in one.standby.items():
            assert not set(tasks) & set(one.active[client])
            copies += len(tasks)
        if warmups:
            assert len(one.warmups) <= extra
            assert copies <= standbys * stateful + extra


def _check_lives(played: SimulationResult) -> None:
    last: dict[object, int] = {}
    at: dict[tuple[object, str], int] = {}
    for span in sorted(played.spans, key=lambda one: one.from_ms):
        assert span.to_ms > span.from_ms
        if span.kind not in {"standby", "warm-up"}:
            assert span.from_ms >= last.get(span.task, 0), "two actives of a task at one time"
            last[span.task] = span.to_ms
        else:
            assert span.task.subtopology == 0, "nothing to keep warm without state"
        # One role of a task on a client at a time, and only while the client is up.
        assert span.from_ms >= at.get((span.task, span.client), 0)
        at[span.task, span.client] = span.to_ms
        assert any(a <= span.from_ms and span.to_ms <= b for a, b in played.present[span.client])


@settings(max_examples=25, deadline=None)
@given(apps())
def test_high_availability_keeps_its_promises_over_time(app: dict[str, Any]) -> None:
    """Each task active once, standbys apart, few extra copies; after a calm all run, none moves."""
    application = read_application(app)
    played = simulate_application(application, find_assignor("high-availability"))
    assert simulate_application(application, find_assignor("high-availability")) == played
    _check_plans(app, played, warmups=True)
    _check_lives(played)
    up = [name for name, times in played.present.items() if times[-1][1] == played.length_ms]
    running = {s.task for s in played.spans if s.to_ms == played.length_ms and s.kind == "running"}
    assert running == (set(played.tasks) if up else set())
    # The last hour is quiet: nobody rebalances, nobody is away, no warm-up is left.
    quiet = played.length_ms - 3_600_000
    assert all(one.at_ms < quiet for one in played.rebalances)
    assert not any(s.kind == "warm-up" and s.to_ms > quiet for s in played.spans)
    figures = measure_streams_result(played)
    assert all(
        0 <= away <= played.length_ms / 1000 for away in figures.unavailable_seconds.values()
    )
    assert figures.moved <= sum(len(one.withheld) for one in played.rebalances) + 8 * len(
        [one for one in played.rebalances if any("missed" in c or "left" in c for c in one.causes)]
    )


@pytest.mark.parametrize("name", find_task_assignors())
def test_every_assignor_can_be_played(name: str) -> None:
    """Each task is active once and has one role at a time, under each assignor."""

    @settings(max_examples=3, deadline=None)
    @given(apps())
    def holds(app: dict[str, Any]) -> None:
        # Some never stop asking for another rebalance: that is theirs, and takes its time here.
        played = simulate_application(
            read_application({**app, "seconds": app["seconds"] - CALM + 900}), find_assignor(name)
        )
        _check_plans(app, played, warmups=False)
        _check_lives(played)

    holds()
