"""Metrics of a capture that follows: sums, names of groups, and their HTTP server."""

from __future__ import annotations

import math
import socket
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from functools import cache
from types import SimpleNamespace

import pytest
from tests.support.live_batches import follow, log_batches
from tests.support.recordings import recording

from partage.errors import InvalidConfigError
from partage.history.live_groups import LiveGroups, RebalanceOpened, RebalanceSettled
from partage.watch import background
from partage.watch.background import BackgroundMetrics, measure_balance
from partage.watch.exporter import Exporter, parse_address
from partage.watch.lag import EndOffsets, drain_seconds, group_lag
from partage.watch.prometheus_metrics import METRICS, OTHER, WatchMetrics
from partage.watch.watcher import CaptureProgress


@cache
def watched() -> tuple[LiveGroups, list]:
    """The beginning of a recording."""
    return follow(recording("seed-11"), log_batches(recording("seed-11"))[:1_000])


def figures(max_groups: int, *, now_ms: int = 2_000_000_000_000) -> WatchMetrics:
    """The figures of a recording, all of whose events are fresh."""
    live, events = watched()
    made = WatchMetrics(max_groups)
    for event in events:
        made.on_event(event, live)
    made.on_tick(now_ms, live, CaptureProgress(records=7, read_s=5.0))
    return made


def samples(made: WatchMetrics) -> dict[str, dict[tuple[str, ...], float]]:
    return {metric.name: dict(rows) for metric, rows in made.metric_families()}


def test_counters_are_the_sums_of_the_events() -> None:
    """Rebalances by cause and unread time equal what the events say, group by group."""
    causes, unread = Counter(), defaultdict(float)
    for event in watched()[1]:
        if isinstance(event, RebalanceOpened):
            causes[event.group, event.generation.causes[0].kind] += 1
        elif isinstance(event, RebalanceSettled) and event.unread is not None:
            unread[event.group] += event.unread.best - event.reported
    found = samples(figures(1_000))
    assert {k: v for k, v in found["partage_group_rebalances"].items() if v} == dict(causes)
    times = found["partage_group_unread_partition_seconds"]
    assert times == pytest.approx({(group,): unread[group] for (group,) in times})
    assert found["partage_capture_records"] == {(): 7.0}


@pytest.mark.parametrize("most", [1, 3])
def test_groups_beyond_the_limit_are_one(most) -> None:
    """Only so many groups have a name, the rest is `other`, and gauges that are sums stay equal."""
    every, some = samples(figures(1_000)), samples(figures(most))
    for name, rows in some.items():
        if METRICS[name].labels:
            groups = {key[0] for key in rows}
            assert len(groups - {OTHER}) <= most
    total = sum(every["partage_group_members"].values())
    assert sum(some["partage_group_members"].values()) == total
    assert (OTHER,) in some["partage_group_members"]
    loss = every["partage_group_unread_partition_seconds"]
    worst = sorted(loss, key=loss.__getitem__)[-most:]
    assert {key for key in some["partage_group_members"] if key != (OTHER,)} == set(worst)


def test_the_counter_of_the_others_never_decreases() -> None:
    """Groups change their names on the way; what was counted under `other` stays there."""
    live, events = watched()
    made, before = WatchMetrics(2), 0.0
    for i, event in enumerate(events):
        made.on_event(event, live)
        made.on_tick(2_000_000_000_000 + i * 1_000, live, CaptureProgress())
        rows = samples(made)["partage_group_rebalances"]
        now = sum(value for (group, _), value in rows.items() if group == OTHER)
        assert now >= before
        before = now
    assert before > 0


def test_the_judge_s_figures_are_those_of_the_newest_plan() -> None:
    """Spread, best spread and moves to the best plan; avoidable moves count up."""
    live, events = watched()
    made = WatchMetrics(1_000)
    newest, avoidable = {}, Counter()
    for event in events:
        made.on_event(event, live)
        if isinstance(event, RebalanceOpened):
            found = measure_balance(
                event.generation, live.clusters.cluster_at(event.generation.timestamp_ms)
            )
            if found is None:
                newest.pop(event.group, None)
                continue
            made.measured.append((event.group, event.generation, found, True))
            newest[event.group] = found
            avoidable[event.group] += found.avoidable or 0
    made.on_tick(2_000_000_000_000, live, CaptureProgress())
    rows = samples(made)
    assert newest
    for group, found in newest.items():
        if found.best_spread is not None and (group,) in rows["partage_group_members"]:
            assert rows["partage_group_spread"][group,] == found.spread
            assert rows["partage_group_best_spread"][group,] == found.best_spread
            assert rows["partage_group_avoidable_moves"][group,] == avoidable[group]


def test_lag_and_verdicts_come_from_the_background(monkeypatch) -> None:
    """End offsets become the lag of each group, plans become verdicts; a failure clears the lag."""
    live, events = watched()
    made, troubles = WatchMetrics(1_000), []
    one = BackgroundMetrics(pytest.fail, made, troubles.append)
    for event in events:
        made.on_event(event, live)
        one.on_event(event, live)
    one.on_tick(2_000_000_000_000, live, CaptureProgress())
    committed = one._committed
    ends = {pair: at + 5 for offsets in committed.values() for pair, at in offsets.items()}
    monkeypatch.setattr(background, "end_offsets", lambda *_: ends)
    one._read_lag(SimpleNamespace(fetch_metadata=lambda: None), committed)
    one._measure_pending()
    assert {name for name, *_ in made.measured} <= {event.group for event in events}
    assert made.measured
    made.on_tick(2_000_000_000_000, live, CaptureProgress())
    rows = samples(made)["partage_group_lag_records"]
    assert rows
    for (group,), value in rows.items():
        behind = [ends[pair] - at for pair, at in committed[group].items()]
        assert value == sum(behind)
    one._report("no broker")
    one._report("no broker")
    made.on_tick(2_000_000_001_000, live, CaptureProgress())
    assert samples(made)["partage_group_lag_records"] == {}
    assert troubles == ["the lag cannot be read: no broker; trying again"]


def test_a_lag_beyond_the_samples_is_extrapolated() -> None:
    """An old offset, an idle topic, a recreated topic, and many samples."""
    ends, pair = EndOffsets(), ("t", 0)
    for i in range(200):
        ends.store_end_offsets(10.0 * i, {pair: 100 * i})
    assert ends.lag_seconds(pair, 19_900, 1_990.0) == 0.0
    assert ends.lag_seconds(pair, 19_850, 1_990.0) == pytest.approx(5.0)
    assert ends.lag_seconds(pair, 10_000, 1_990.0) == pytest.approx(990.0)
    assert ends.lag_seconds(pair, -1_000, 1_990.0) == pytest.approx(2_090.0)
    ends.store_end_offsets(2_000.0, {pair: 10})  # recreated
    assert ends.lag_seconds(pair, 5, 2_030.0) == 30.0
    assert group_lag({("gone", 0): 3}, ends, 2_030.0) is None
    lag = group_lag({pair: 5}, ends, 2_030.0)
    assert lag is not None
    assert (lag.records, lag.seconds) == (5, 30.0)
    assert drain_seconds(lag, lag, 10.0) == math.inf


@pytest.mark.parametrize("text", ["9464", ":9464", "host:", "host:x", "host:70000"])
def test_an_address_that_is_none_is_an_error(text) -> None:
    """The message names the option and an example."""
    with pytest.raises(InvalidConfigError, match=r"--metrics: must be HOST:PORT"):
        parse_address(text)


def read(port: int, path: str, accept: str = "") -> tuple[int, str, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as e:
        with e:
            return e.code, e.headers["Content-Type"], e.read().decode()


def test_the_server_answers_in_openmetrics() -> None:
    """The reference parser reads every value back; a silent client delays no other."""
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    made, trouble = figures(3), [""]
    accept = "application/openmetrics-text; version=1.0.0"
    with (
        Exporter(("127.0.0.1", 0), made.metric_families, lambda: trouble[0]) as server,
        socket.create_connection(("127.0.0.1", server.port)),
    ):
        status, kind, body = read(server.port, "/metrics", accept)
        assert status == 200
        assert kind.startswith("application/openmetrics-text")
        assert body.endswith("# EOF\n")
        found = {one.name: one for one in parser.text_string_to_metric_families(body)}
        for metric, rows in made.metric_families():
            family = found[metric.name]
            assert (family.type, family.documentation) == (metric.type, metric.help)
            values = {tuple(s.labels[k] for k in metric.labels): s.value for s in family.samples}
            assert values == dict(rows)
        assert read(server.port, "/healthz")[0] == 200
        trouble[0] = "nothing was read for 61 s"
        assert read(server.port, "/healthz") == (
            503, "text/plain; charset=utf-8", "nothing was read for 61 s\n",
        )  # fmt: skip
        assert read(server.port, "/")[0] == 404


def test_a_port_in_use_is_an_error() -> None:
    """The message names the option and the address."""
    pytest.importorskip("prometheus_client")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InvalidConfigError, match=rf"--metrics: cannot be used .*{port}"):
            Exporter(("127.0.0.1", port), tuple, str)
