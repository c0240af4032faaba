"""Size, build time and memory of a report over a year, and the time until its page is usable.

    .venv/bin/python benchmarks/bench_report.py make DIR      # write a synthetic published run
    .venv/bin/python benchmarks/bench_report.py build DIR     # run `partage report`, measure it
    .venv/bin/python benchmarks/bench_report.py open DIR      # open DIR/report.html in Chromium

The run has 1,000 groups and 500,000 rebalances over 365 days by default, and the largest group has
a fifth of the rebalances. Its tables are made from random numbers in the stored form, without a
replay. Column `plan` is empty, because the report does not read it. Members restart with new member
ids: half of the rebalances give a member's partitions to the others, the next gives them back.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from partage.jobs.replay.output import TableWriters, publish_run
from partage.tables.metrics import REPLAY_COLUMNS
from partage.tables.schemas import table_schema
from partage.tables.statuses import CUMULATIVE, DONE, PER_REBALANCE, RECORDED

BEGIN, DAY_MS = 1_764_115_200_000, 86_400_000
POLICIES = (
    "own", "eager/range", "eager/range+static", "eager/roundrobin", "eager/sticky",
    "cooperative/cooperative-sticky", "cooperative/cooperative-sticky+static", "consumer/uniform",
    "consumer/range", "eager/optimal", "cooperative/optimal",
)  # fmt: skip
#: Downtime of each policy in relation to the recorded one.
SHARES = (1.0, 0.97, 0.55, 1.0, 0.8, 0.35, 0.2, 0.15, 0.25, 0.9, 0.3)
LEAVES, JOINS = ("leave", "expiry", "poll", "departure"), ("join", "bounce", "join", "follow-up")
#: Tasks of the imaginary replay: files of each table.
TASKS = 16


def rebalance_counts(groups: int, total: int) -> np.ndarray:
    """Return the number of rebalances of each group: a fifth in the first one, then 1 / rank."""
    first = total // 5 if groups > 1 else total
    weights = 1 / np.arange(1, groups)
    rest = np.maximum((total - first) * weights / max(weights.sum(), 1e-9), 6).astype(int)
    return np.append([first], rest)


def strings(values: list[str], codes: np.ndarray) -> pa.Array:
    """Return the values at these codes as an Arrow array."""
    return pa.array(values, pa.string()).take(pa.array(codes))


def same(value: Any, count: int, kind: pa.DataType | None = None) -> pa.Array:
    """Return an Arrow array that repeats one value."""
    return pa.repeat(pa.scalar(value, kind), count)


class Group:
    """One synthetic group: times of its rebalances, its members, and changes of ownership."""

    def __init__(self, number: int, rebalances: int, days: float, seed: int) -> None:
        self.chance = np.random.default_rng([seed, number])
        self.name = f"team-{number % 37:02}.service-{number:04}"
        self.count = rebalances
        self.members = int(self.chance.integers(3, 17))
        self.partitions = self.members * int(self.chance.integers(1, 7))
        span = int(days * DAY_MS)
        times = np.sort(self.chance.integers(0, span, rebalances))
        # A seventh of the rebalances are in storms: they follow each other in three seconds.
        self.storm = np.full(rebalances, -1)
        for storm, at in enumerate(range(40, rebalances - 12, 80)):
            times[at : at + 12] = times[at] + 3_000 * np.arange(12)
            self.storm[at : at + 12] = storm
        self.times = BEGIN + np.sort(times)
        self.slot = np.repeat(self.chance.integers(0, self.members, rebalances // 2 + 1), 2)
        self.slot = self.slot[:rebalances]
        self.leaves = np.arange(rebalances) % 2 == 1
        self.length = self.chance.lognormal(0.6, 0.8, rebalances)

    def changes(self) -> dict[str, np.ndarray]:
        """Return one element per partition that changes its owner: rebalance, partition, owner.

        An owner is a code: the slot of a member, and how often it has restarted.
        """
        each = self.partitions // self.members
        rebalance = np.repeat(np.arange(self.count), each)
        partition = self.slot[rebalance] + self.members * np.tile(np.arange(each), self.count)
        leaves = self.leaves[rebalance]
        shift = 1 + np.tile(np.arange(each), self.count) % (self.members - 1)
        slot = np.where(leaves, (self.slot[rebalance] + shift) % self.members, self.slot[rebalance])
        restarts = np.zeros((self.members, self.count), np.int64)
        for one in range(self.members):
            restarts[one] = np.cumsum((self.slot == one) & self.leaves)
        owner = restarts[slot, rebalance] * self.members + slot
        return {"rebalance": rebalance, "partition": partition, "owner": owner}

    def member_names(self, codes: np.ndarray) -> pa.Array:
        """Return the member ids of owner codes."""
        known, places = np.unique(codes, return_inverse=True)
        names = [
            f"{self.name}-{c % self.members}-{c * 2654435761 % 2**64:016x}-4d1f-{c:012x}"
            for c in known.tolist()
        ]
        return strings(names, places)

    def write(self, writers: TableWriters) -> None:
        """Write the rows of all tables."""
        self._write_group(writers)
        self._write_rebalances(writers)
        self._write_members(writers)
        self._write_replays(writers)
        self._write_ownership(writers)

    def _add(self, writers: TableWriters, table: str, columns: dict[str, Any], count: int) -> None:
        schema = table_schema(table)
        columns = {"group": same(self.name, count), "incarnation": same(0, count), **columns}
        known = {
            name: column if isinstance(column, pa.Array) else pa.array(column)
            for name, column in columns.items() if name in schema.names
        }  # fmt: skip
        writers.add_columns(
            table, {n: c.cast(schema.field(n).type) for n, c in known.items()}, count
        )

    def _write_group(self, writers: TableWriters) -> None:
        row = {
            "group": self.name, "kind": "classic", "status": "replayed", "log_partition": 0,
            "records": self.count, "commits": self.partitions * 1_000_000,
            "rebalances": self.count, "incarnations": 0, "missing_generations": 0,
            "first_ms": int(self.times[0]), "last_ms": int(self.times[-1]), "claimed": ["range"],
            "clients": ["java"], "coverage": 1.0, "members_max": self.members,
            "partitions_max": self.partitions,
        }  # fmt: skip
        writers.write_row("groups", row)

    def _write_rebalances(self, writers: TableWriters) -> None:
        n, chance = self.count, self.chance
        pick = chance.integers(0, 4, n)
        kinds = np.where(self.leaves, np.array(LEAVES)[pick], np.array(JOINS)[pick])
        kinds[0] = "first"
        words = [f"{kind}: client-{slot}" for kind, slot in zip(kinds, self.slot, strict=True)]
        self._add(writers, "rebalances", {
            "generation": np.arange(1, n + 1), "log_partition": same(0, n),
            "log_offset": np.arange(n) * 10, "time_ms": self.times,
            "protocol_type": same("consumer", n), "strategy": same("range", n),
            "members": self.members - self.leaves, "partitions": same(self.partitions, n),
            "records": same(1, n), "gap_before": same(0, n), "cause": pa.array(words),
            "follow_up": kinds == "follow-up", "joined": (~self.leaves).astype(int),
            "left": self.leaves.astype(int), "restarted": same(0, n), "resubscribed": same(0, n),
            "clients": same(["java"], n, pa.list_(pa.string())), "replayed": same(True, n),
            "protocol": same("classic", n), "cause_kind": pa.array(kinds.tolist()),
            "cause_source": same("inferred", n), "cause_probability": same(1.0, n),
            "storm": pa.array(self.storm, mask=self.storm < 0), "agrees": chance.random(n) < 0.98,
        }, n)  # fmt: skip
        self._add(writers, "events", {
            "generation": np.arange(1, n + 1), "log_partition": same(0, n),
            "log_offset": np.arange(n) * 10, "position": same(0, n), "time_ms": self.times,
            "event": pa.array(kinds.tolist()), "member": self.member_names(self.slot),
            "source": same("inferred", n),
        }, n)  # fmt: skip

    def _write_members(self, writers: TableWriters) -> None:
        for begin in range(0, self.count, 20_000):
            rebalance = np.repeat(np.arange(begin, min(begin + 20_000, self.count)), self.members)
            slot = np.tile(np.arange(self.members), len(rebalance) // self.members)
            here = ~(self.leaves[rebalance] & (self.slot[rebalance] == slot))
            rebalance, slot = rebalance[here], slot[here]
            n, empty = len(slot), pa.list_(pa.string())
            pairs = table_schema("members").field("claims").type
            restarts = np.searchsorted(np.flatnonzero(self.leaves), rebalance, "right")
            self._add(writers, "members", {
                "generation": rebalance + 1, "position": slot,
                "member": self.member_names(restarts * self.members + slot),
                "client_id": strings([f"client-{i}" for i in range(self.members)], slot),
                "client_host": strings([f"/10.0.0.{i}" for i in range(self.members)], slot),
                "client": same("java", n), "certainty": same("certain", n), "leader": slot == 0,
                "session_timeout_ms": same(10_000, n), "rebalance_timeout_ms": same(300_000, n),
                "topics": same(["orders"], n, empty), "claims": same([], n, pairs),
                "claims_generation": same(-1, n), "assignment": same([], n, pairs),
            }, n)  # fmt: skip

    def _write_replays(self, writers: TableWriters) -> None:
        kinds = [(RECORDED, RECORDED, 1.0)]
        kinds += [
            (p, reading, s)
            for reading in (CUMULATIVE, PER_REBALANCE)
            for p, s in zip(POLICIES, SHARES, strict=True)
        ]
        cost = self.length * self.partitions / self.members
        for begin in range(0, self.count, 5_000):
            of = np.arange(begin, min(begin + 5_000, self.count))
            rebalance, kind = np.repeat(of, len(kinds)), np.tile(np.arange(len(kinds)), len(of))
            n = len(kind)
            share = np.array([one[2] for one in kinds])[kind] * self.chance.uniform(0.8, 1.2, n)
            best = np.round(cost[rebalance] * share, 3)
            policy = strings([one[0] for one in kinds], kind)
            plain = [one[0].rpartition("/")[2].partition("+")[0] for one in kinds]
            numbers = {c: self.chance.integers(0, 6, n) for c, t, _ in REPLAY_COLUMNS if "int" in t}
            times = {c: same(0.0, n) for c, t, _ in REPLAY_COLUMNS if "double" in t}
            self._add(writers, "replays", numbers | times | {
                "generation": rebalance + 1, "policy": policy, "strategy": strings(plain, kind),
                "protocol": same("eager", n), "step": same(0, n), "caused": same(True, n),
                "reading": strings([one[1] for one in kinds], kind),
                "time_ms": self.times[rebalance], "status": same(DONE, n),
                "claimed": np.array([one == "range" for one in plain])[kind],
                "counts": same(False, n), "partitions": same(self.partitions, n),
                "stopped_at_least_ps": 0.4 * best, "stopped_at_most_ps": 2.5 * best,
                "stopped_ps": best, "stopped_p10_ps": 0.6 * best, "stopped_p90_ps": 1.7 * best,
                "breaches": same(0, n),
            }, n)  # fmt: skip

    def _write_ownership(self, writers: TableWriters) -> None:
        found = self.changes()
        order = np.lexsort((found["rebalance"], found["partition"]))
        rebalance, partition, owner = (found[name][order] for name in found)
        first = np.append([True], partition[1:] != partition[:-1])
        last = np.append(first[1:], [True])
        to_ms = np.append(self.times[rebalance[1:]], [0])
        n = len(rebalance)
        self._add(writers, "ownership", {
            "topic": same("orders", n), "partition": partition, "member": self.member_names(owner),
            "role": same("owner", n), "from_ms": self.times[rebalance],
            "to_ms": pa.array(to_ms, mask=last), "from_generation": rebalance + 1,
            "to_generation": pa.array(np.append(rebalance[1:] + 1, [0]), mask=last),
        }, n)  # fmt: skip
        old = np.append([0], owner[:-1])
        at, p, old, new = (column[~first] for column in (rebalance, partition, old, owner))
        best, times, n = (1_000 * self.length[at]).astype(int), self.times[at], len(at)
        self._add(writers, "unread", {
            "generation": at + 1, "topic": same("orders", n), "partition": p,
            "member": self.member_names(old), "new_owner": self.member_names(new),
            "stopped_ms": times - best, "stopped_p10_ms": times - 2 * best,
            "stopped_p90_ms": times - best // 2, "assigned_ms": times, "unread_ms": best,
            "unread_p10_ms": best // 2, "unread_p90_ms": 2 * best, "no_consumer_ms": same(0, n),
        }, n)  # fmt: skip


def make(out: Path, groups: int, rebalances: int, days: float, seed: int = 7) -> Path:
    """Write a published run with synthetic tables, and return its folder."""
    counts = rebalance_counts(groups, rebalances)
    receipts: list[Any] = []
    for task in range(min(TASKS, groups)):
        with closing(TableWriters(str(out), "run-1", f"{task:05}")) as writers:
            for number in range(task, groups, TASKS):
                Group(number, int(counts[number]), days, seed).write(writers)
            receipts += writers.close_with_receipts()
    end = BEGIN + int(days * DAY_MS)
    summary = {
        "run_id": "run-1", "capture": "synthetic", "started_ms": 0,
        "versions": {"partage": "0.1.0"}, "asked": list(POLICIES), "seconds": {"decode": 1.0},
        "coverage": {
            "first_ms": BEGIN, "last_ms": end, "rebalances": int(counts.sum()),
            "missing_before": 0, "missing_within": 0, "transactions": "known", "cluster_states": 1,
            "log_partitions": {"0": {}},
        },
        "accounting": {
            "records": 10**11, "decoded": 10**11, "bad": 0, "offset_commits": 10**11,
            "group_records": int(counts.sum()),
        },
        "agreement": {
            "counted": int(counts.sum()), "agreed": int(counts.sum()), "by_strategy": {},
            "disagreements": [],
        },
    }  # fmt: skip
    publish_run(out, "run-1", receipts, summary)
    return out


def build(out: Path) -> dict[str, Any]:
    """Write the page in this process; return its size, the time and the peak memory."""
    from partage.report.html import publish_page

    start, cpu = time.perf_counter(), time.process_time()
    publish_page(out, out / "report.html")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "page_mb": round((out / "report.html").stat().st_size / 1e6, 2),
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1), "peak_mb": round(peak),
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


#: Ends when the first screen is painted; long tasks are those of more than 50 ms.
_OBSERVE = """
window.longTasks = [];
new PerformanceObserver((list) => {
  window.longTasks.push(...list.getEntries().map((entry) => entry.duration));
}).observe({type: "longtask", buffered: true});
"""
_PAINT = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  ready: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
})"""
_SHOWN = (
    "() => document.querySelector('#group h2') && document.querySelector('#group h2').textContent"
)


def open_page(out: Path, width: int = 1400, groups: int = 5) -> dict[str, Any]:
    """Open the page in headless Chromium; return times in milliseconds.

    ``first_paint`` and ``ready`` count from the navigation. ``opened`` has the times from a click
    on a group until its details and its timeline are on the page, and the CPU time of the main
    thread in between: the first groups, and the last. CPU times depend less on other processes.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page(viewport={"width": width, "height": 1000})
        page.add_init_script(_OBSERVE)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        start = time.perf_counter()
        page.goto((out / "report.html").absolute().as_uri(), wait_until="load")
        page.wait_for_function(_SHOWN, timeout=60_000)
        usable = time.perf_counter() - start
        cpu = _busy_ms(session)
        found = page.evaluate(_PAINT) | {"tasks": page.evaluate("window.longTasks")}
        links = page.locator("#group-table tbody a")
        count = links.count()
        some = [*range(min(groups, count)), count - 1]
        opened = [_open_group(page, links.nth(i), session) for i in some]
        result = {
            "first_paint": round(found["paint"] or -1), "ready": round(found["ready"]),
            "usable": round(1_000 * usable),
            "cpu": cpu,
            "long_tasks": [round(one) for one in found["tasks"]],
            "links": count, "opened": opened, "load": round(os.getloadavg()[0], 1),
        }  # fmt: skip
        browser.close()
    return result


def _busy_ms(session: Any) -> int:
    """Return the CPU time of the page's main thread so far, in milliseconds."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return round(1_000 * next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def _open_group(page: Any, link: Any, session: Any) -> tuple[int, int]:
    """Open a group; return the time until it is shown, and the CPU time, in milliseconds."""
    name = link.inner_text()
    start, busy = time.perf_counter(), _busy_ms(session)
    link.press("Enter")
    page.wait_for_function(
        "(name) => document.querySelector('#group h2')?.textContent === name"
        " && document.querySelector('.chart[data-drawn] svg')", arg=name, timeout=60_000,
    )  # fmt: skip
    return round(1_000 * (time.perf_counter() - start)), _busy_ms(session) - busy


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("step", choices=["make", "build", "open"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--rebalances", type=int, default=500_000)
    parser.add_argument("--days", type=float, default=365)
    parser.add_argument("--width", type=int, default=1_400)
    args = parser.parse_args()
    if args.step == "make":
        start = time.perf_counter()
        make(args.folder, args.groups, args.rebalances, args.days)
        print(f"written in {time.perf_counter() - start:.0f} s")
    else:
        found = build(args.folder) if args.step == "build" else open_page(args.folder, args.width)
        print(json.dumps(found))


if __name__ == "__main__":
    main()
