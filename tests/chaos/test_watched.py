"""Half an hour of `capture --follow --events - --metrics` on three brokers, beside a Prometheus.

Members join, leave, freeze and are killed, topics grow, a broker is stopped, and the capture is
killed once. Afterwards the events are compared with a replay of the capture, and the scraped series
with the events.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pytest
from tests.support.brokers import brokers, free_ports
from tests.support.processes import ROOT, Closes, built, skip
from tests.support.recordings import Recording as Recorded

from chaos.record import BROKER, TOPICS, Recording

pytestmark = [pytest.mark.jvm, pytest.mark.soak]

MINUTES = float(os.environ.get("PARTAGE_WATCH_MINUTES", "30"))
#: Share of the time after which the capture is killed.
_KILL_AT = 0.6
#: Events of this time before a kill may be missing, by docs/guides/watch.md; records are read late.
_LOST_MS = 4_000
_KEY = ("group", "incarnation", "log_partition", "log_offset")


class WatchedCapture(Closes):
    """``partage capture --follow --events - --metrics``, which can be killed and started again.

    Attributes:
        events: lists of the events of each process, with the time of their arrival (ms).
        started: times at which processes were started and, later, first answered (s).
    """

    def __init__(self, bootstrap: str, out: Path, port: int) -> None:
        self.port, self.events, self.started = port, [], []
        self._command = [
            sys.executable, "-m", "partage", "capture", "-b", bootstrap, "-o", str(out), "--follow",
            "--roll-every", "20", "--metadata-every", "0.5", "--quiet", "--events", "-",
            "--metrics", f"127.0.0.1:{port}",
        ]  # fmt: skip
        self.usage: list[dict[str, float]] = []
        self._start()

    def _start(self) -> None:
        began = time.time()
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        self.events.append([])
        self._thread = threading.Thread(
            target=self._listen, args=(self._process, self.events[-1]), daemon=True
        )
        self._thread.start()
        while self.scrape() is None:
            assert self._process.poll() is None
            time.sleep(0.1)
        self.started.append((began, time.time()))

    @staticmethod
    def _listen(process: subprocess.Popen[str], into: list[dict[str, Any]]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):  # a killed process may end in a line
                event = json.loads(line)
                into.append(event | {"arrived_ms": time.time() * 1_000})

    def scrape(self) -> str | None:
        """Return the metrics as text; None if the server does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as page:
                return page.read().decode()
        except (urllib.error.URLError, OSError):
            return None

    def kill(self) -> float:
        """End the process with SIGKILL, and start it again; return the time of the kill (ms)."""
        self._measure()
        at = time.time() * 1_000
        self._process.kill()
        self._process.wait()
        self._thread.join()
        self._start()
        return at

    def _measure(self) -> None:
        folder = Path(f"/proc/{self._process.pid}")
        cells = (folder / "stat").read_text().rpartition(")")[2].split()
        peak = next(s for s in (folder / "status").read_text().splitlines() if "VmHWM" in s)
        self.usage.append(
            {
                "cpu_s": (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK"),
                "peak_mb": int(peak.split()[1]) / 1024,
            }
        )

    def close(self) -> None:
        self._measure()
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(timeout=60) == 0
        self._thread.join()


class Prometheus(Closes):
    """A Prometheus that scrapes the capture every five seconds, with the rules of `deploy/`."""

    def __init__(self, folder: Path, target: int) -> None:
        (self.port,) = free_ports(1)
        rules = ROOT / "deploy" / "prometheus" / "partage.rules.yml"
        shutil.copy(rules, folder)
        config = folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 5s, evaluation_interval: 5s}\n"
            f"rule_files: [{rules.name}]\nscrape_configs:\n  - job_name: partage\n"
            f'    static_configs: [{{targets: ["127.0.0.1:{target}"]}}]\n'
        )
        with (folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
                 f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log,
            )  # fmt: skip

    def query(self, text: str, **span: float) -> list[dict[str, Any]]:
        """Return the series of an expression, now or in a range of time."""
        where = "query_range" if span else "query"
        words = urllib.parse.urlencode({"query": text, **span})
        url = f"http://127.0.0.1:{self.port}/api/v1/{where}?{words}"
        with urllib.request.urlopen(url, timeout=30) as page:
            return json.load(page)["data"]["result"]

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=60)


def test_half_an_hour_of_events_and_metrics(tmp_path: Path, capsys) -> None:
    """Events equal those of a replay, scraped counters equal the sums of events, and alerts fire."""
    if shutil.which("prometheus") is None:
        skip("prometheus is missing (Debian package prometheus)")
    built("peers.sh")
    (port,) = free_ports(1)
    began = time.time()
    with brokers(3, racks=("a", "b", "c"), properties=BROKER) as cluster:
        for topic, partitions in TOPICS.items():
            cluster.create_topic(topic, partitions, 3)
        capture = tmp_path / "capture"
        with (
            Recording(cluster, random.Random(21), 60 * MINUTES) as recording,
            WatchedCapture(cluster.bootstrap, capture, port) as watched,
            Prometheus(tmp_path, port) as prometheus,
        ):
            killed: list[float] = []
            timer = threading.Timer(60 * MINUTES * _KILL_AT, lambda: killed.append(watched.kill()))
            timer.start()
            recording.run()
            timer.join()
            recording.close()  # without members nothing changes any more
            scraped, series, alerts = _quiet(watched, prometheus, began)
    report = [
        f"{len(recording.events)} actions, {sum(map(len, watched.events))} events, "
        f"capture {watched.usage}, load {os.getloadavg()[0]:.1f}",
        _latency(watched), _recovery(watched), f"alerts {dict(alerts)}",
    ]  # fmt: skip
    with capsys.disabled():
        print("", *report, sep="\n")
        print(*_compare(watched, Recorded(capture), killed[0]), sep="\n")
    assert scraped == series
    sums = _sums(watched.events)
    assert {k: v for k, v in scraped["rebalances"].items() if v} == sums["rebalances"]
    assert scraped["unread"] == pytest.approx(
        {group: sums["unread"].get(group, 0.0) for group in scraped["unread"]}, abs=0.05
    )
    assert alerts["KafkaGroupMembersEvicted"]


def _quiet(
    watched: WatchedCapture, prometheus: Prometheus, began: float
) -> tuple[dict[str, Any], dict[str, Any], Counter[str]]:
    """Wait until nothing changes; return the scraped counters, Prometheus's, and fired alerts."""
    time.sleep(75)  # open rebalances settle after a minute
    last = None
    for _ in range(30):
        time.sleep(12)
        text = watched.scrape()
        assert text is not None
        scraped = _counters(text)
        if scraped == last:
            break
        last = scraped
    series = {
        "rebalances": {
            (one["metric"]["group"], one["metric"]["cause"]): float(one["value"][1])
            for one in prometheus.query("partage_group_rebalances_total")
        },
        "unread": {
            one["metric"]["group"]: float(one["value"][1])
            for one in prometheus.query("partage_group_unread_partition_seconds_total")
        },
    }
    fired = prometheus.query('ALERTS{alertstate="firing"}', start=began, end=time.time(), step=15)
    return scraped, series, Counter(one["metric"]["alertname"] for one in fired)


def _counters(text: str) -> dict[str, dict[Any, float]]:
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, dict[Any, float]] = {"rebalances": {}, "unread": {}}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = sample.labels
            if sample.name == "partage_group_rebalances_total":
                found["rebalances"][labels["group"], labels["cause"]] = sample.value
            elif sample.name == "partage_group_unread_partition_seconds_total":
                found["unread"][labels["group"]] = sample.value
    return found


def _sums(processes: list[list[dict[str, Any]]]) -> dict[str, dict[Any, float]]:
    """Return rebalances by group and cause, and unread time by group, of the last process's events.

    A correction of what an earlier process reported adds the difference.
    """
    rebalances: Counter[tuple[str, str]] = Counter()
    unread: dict[str, float] = defaultdict(float)
    *earlier, events = processes
    last = {
        _key(one): one["unread_partition_seconds"]["best"]
        for some in earlier for one in some
        if one["event"] == "settled" and one["unread_partition_seconds"] is not None
    }  # fmt: skip
    for one in events:
        if one["event"] == "opened":
            rebalances[one["group"], one["cause_kind"]] += 1
        elif one["event"] == "settled" and one["unread_partition_seconds"] is not None:
            best = one["unread_partition_seconds"]["best"]
            before = last.get(_key(one), 0.0) if one["how"] == "revised" else 0.0
            unread[one["group"]] += best - before
            last[_key(one)] = best
    return {"rebalances": dict(rebalances), "unread": dict(unread)}


def _key(event: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(event[name] for name in _KEY)


def _latency(watched: WatchedCapture) -> str:
    delays = [
        one["arrived_ms"] - one["time_ms"]
        for events in watched.events for one in events if one["event"] == "opened"
    ]  # fmt: skip
    late = sum(delay > 2_000 for delay in delays)
    return (
        f"opened after {median(delays):,.0f} ms (median), {quantiles(delays, n=20)[-1]:,.0f} ms "
        f"(95 %), {max(delays):,.0f} ms (largest); {late} of {len(delays)} after more than 2 s"
    )


def _recovery(watched: WatchedCapture) -> str:
    _, (begin, answered) = watched.started
    return f"after the kill, metrics were served {answered - begin:.1f} s after the start"


def _compare(watched: WatchedCapture, replayed: Recorded, killed_ms: float) -> list[str]:
    """Compare the events with a replay of the capture; return a summary.

    Events may be missing in the last seconds before the kill, and repeat after it.
    """
    opened: dict[Any, dict[str, Any]] = {}
    settled: dict[Any, dict[str, Any]] = {}
    repeated = 0
    for one in (one for events in watched.events for one in events):
        kept = {"opened": opened, "settled": settled}.get(one["event"])
        if kept is None:
            continue
        repeated += one["event"] == "opened" and _key(one) in kept
        kept[_key(one)] = one
    wanted = {
        (group, g.incarnation, g.position.partition, g.position.offset): g
        for group, some in replayed.rebalances.items() for g in some
    }  # fmt: skip
    newest = {some[-1].position for some in replayed.rebalances.values() if some}
    assert opened.keys() <= wanted.keys()
    missing = [g for key, g in wanted.items() if key not in opened]
    assert all(killed_ms - _LOST_MS <= g.timestamp_ms <= killed_ms + 1_000 for g in missing)
    for key, event in opened.items():
        g = wanted[key]
        assert event["members"] == len(g.first.members)
        assert [one["kind"] for one in event["causes"]] == [c.kind for c in g.causes], event
        assert [one["member"] for one in event["causes"]] == [c.member for c in g.causes]
        assert event["cause_probability"] == g.causes[0].probability
    unread = 0
    for key, event in settled.items():
        g = wanted[key]
        if g.position in newest or g.unread is None or event["unread_partition_seconds"] is None:
            continue
        unread += 1
        assert event["unread_partition_seconds"]["best"] == round(g.unread.best, 3), (key, event)
    causes = Counter(event["cause_kind"] for event in opened.values())
    return [
        f"{len(opened)} rebalances opened of {len(wanted)} in the replay, {len(missing)} missing "
        f"around the kill, {repeated} repeated after it; causes {dict(causes)}",
        f"{unread} settled with the unread time of the replay",
    ]
