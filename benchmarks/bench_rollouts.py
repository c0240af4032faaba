"""Accuracy of forecasts: rolling restarts of whole groups, forecast from their log before them.

    python benchmarks/bench_rollouts.py FOLDER...

`tests.chaos.rolling` makes the recordings. Each one is cut at its event ``forecast`` and replayed,
and each group is forecast twice: from the run, as `partage forecast RUN` does, and from what a
measurement of the running cluster reported, with the restart time of the group's single restarts.
The truth is what the clients logged afterwards.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow.compute as pc
import pyarrow.parquet as pq
from tests.support.recordings import Recording, json_lines
from tests.support.unread_truth import unread_intervals

import partage as pg
from partage.errors import PartageError
from partage.forecasts.measured import MeasuredGroup, measurement_to_group
from partage.forecasts.rolling import RolloutForecast

#: Time after a deployment in which its last rebalance may end, in seconds (the default of older
#: recordings), and how long before the recording's own end of this time it is over, in seconds.
_SETTLE_S, _MARGIN_S = 14, 2


class Rollout(NamedTuple):
    """One rolling restart: two forecasts, and what happened in partition-seconds and seconds.

    Attributes:
        group: name of the group.
        libraries: client libraries of its members.
        killed: whether members were killed.
        recorded: forecast from the recording; None if it was not possible.
        measured: forecast from a measurement of the running cluster; None likewise.
        unread, duration, rebalances: true values.
    """

    group: str
    libraries: str
    killed: bool
    recorded: RolloutForecast | None
    measured: RolloutForecast | None
    unread: float
    duration: float
    rebalances: int


def rollouts(folder: Path) -> Iterator[Rollout]:
    """Yield the rolling restarts of a recording."""
    made = Recording(folder)
    at_ms = next(one["ts_ms"] for one in made.events if one["what"] == "forecast")
    intervals = unread_intervals(made.observed, made.events)
    measured = {one["group"]: one for one in json_lines(folder, "measured.json")}
    with TemporaryDirectory(prefix="partage-rollouts-") as temporary:
        cut = Path(temporary) / "capture"
        cut_capture(folder, cut, at_ms)
        run = pg.replay(cut, policies=["eager/range"], engine="local")
        for begin in (one for one in made.events if one["what"] == "rollout_begin"):
            group = begin["group"]
            after = [
                e for e in made.events if e.get("group") == group and e["ts_ms"] >= begin["ts_ms"]
            ]
            end = next(e for e in after if e["what"] == "rollout_end")
            end_ms = end["ts_ms"] + 1_000 * (end.get("settle", _SETTLE_S) - _MARGIN_S)
            mine = [
                one for one in intervals
                if one.group == group and begin["ts_ms"] - 500 <= one.from_ms <= end_ms
            ]  # fmt: skip
            known = {
                "pause": begin["pause"], "compare": False,
                "max_unavailable": begin.get("batch", 1),
            }  # fmt: skip
            yield Rollout(
                group, "/".join(sorted({e["lang"] for e in after if e["what"] == "add"})),
                any(e.get("hard") for e in after),
                _attempt(run, group, **known),
                _attempt(_measured(measured[group]), None, **known,
                         restart_time=restart_range(made, group, at_ms),
                         session_timeout=_session_s(made, group)),
                sum(one.to_ms - one.from_ms for one in mine) / 1_000,
                (max((one.to_ms for one in mine), default=begin["ts_ms"]) - begin["ts_ms"]) / 1_000,
                sum(begin["ts_ms"] <= one.timestamp_ms <= end_ms
                    for one in made.rebalances.get(group, ())),
            )  # fmt: skip


def cut_capture(folder: Path, to: Path, at_ms: int) -> None:
    """Copy a capture's files without the records from a time on."""
    to.mkdir()
    log = pq.read_table(folder / "consumer_offsets.parquet")
    late = log.filter(pc.field("timestamp_ms") >= at_ms).group_by("partition")
    ends = {
        row["partition"]: row["offset_min"]
        for row in late.aggregate([("offset", "min")]).to_pylist()
    }
    for name, offset in (("consumer_offsets", "offset"), ("batches", "last_offset")):
        table = pq.read_table(folder / f"{name}.parquet")
        rows = zip(table["partition"].to_pylist(), table[offset].to_pylist(), strict=True)
        keep = [number < ends.get(partition, number + 1) for partition, number in rows]
        pq.write_table(table.filter(keep), to / f"{name}.parquet")
    states = [one for one in json_lines(folder, "cluster.jsonl") if one["ts_ms"] < at_ms]
    text = "".join(json.dumps(one) + "\n" for one in states)
    (to / "cluster.jsonl").write_text(text, encoding="utf-8")
    shutil.copy(folder / "cluster-config.json", to)


def restart_range(made: Recording, group: str, before_ms: int) -> tuple[float, float]:
    """Return the shortest and the longest time of the single restarts, from stop to start."""
    mine = [e for e in made.events if e.get("group") == group and e["ts_ms"] < before_ms]
    started = {e["id"]: e["ts_ms"] for e in made.observed if e["ev"] == "started"}
    seconds = [
        (started[new["id"]] - old["ts_ms"]) / 1_000
        for old, new in pairwise(mine)
        if old["what"] == "bounce" and new["what"] == "add" and new["id"] in started
    ]
    return min(seconds), max(seconds)


def _session_s(made: Recording, group: str) -> float:
    plans = json.loads((made.folder / "groups.json").read_text(encoding="utf-8"))
    return next(one["session"] for one in plans if one["name"] == group) / 1_000


def _measured(row: dict[str, Any]) -> MeasuredGroup | None:
    if "error" in row:
        print(f"not measured: {row['group']}: {row['error']}")
        return None
    server = row["strategy"].startswith("server:")
    return measurement_to_group(
        row["group"], protocol="consumer" if server else "classic",
        strategy=row["strategy"].removeprefix("server:"), topics=row["topics"], rates={},
        instances=tuple("i" if row["static"] else None for _ in range(row["members"])),
        seconds=1.0, lag=row["lag"],
    )  # fmt: skip


def _attempt(source: Any, group: str | None, **known: Any) -> RolloutForecast | None:
    if source is None:
        return None
    try:
        return pg.forecast(source, group, **known)[0]
    except PartageError as error:
        print(f"no forecast: {group}: {error}")
        return None


def _text(found: RolloutForecast | None, true: float) -> str:
    if found is None:
        return "none | no"
    inside = "yes" if found.unread.low <= true <= found.unread.high else "no"
    return f"{found.unread.best:.0f} ({found.unread.low:.0f} to {found.unread.high:.0f}) | {inside}"


def main() -> None:
    """Print a line for each rolling restart, and a summary."""
    every: list[Rollout] = []
    for folder in map(Path, sys.argv[1:]):
        for one in rollouts(folder):
            every.append(one)
            known = one.recorded or one.measured
            policy = "?" if known is None else known.deployment.policy.name
            learnt = one.recorded and one.recorded.deployment.restart
            restart = f"{learnt.median:.1f}" if learnt else ""
            print(
                f"{folder.name} | {one.group} | {one.libraries} | {policy}"
                f"{', killed' if one.killed else ''} | {restart} | "
                f"{_text(one.recorded, one.unread)} | {_text(one.measured, one.unread)} | "
                f"{one.unread:.0f} | {_figures(one, 'duration')} | {_figures(one, 'rebalances')}",
                flush=True,
            )
    for name in ("recorded", "measured"):
        for what in ("unread", "duration", "rebalances"):
            known = [(getattr(one, name), getattr(one, what)) for one in every]
            pairs = [(getattr(f, what), true) for f, true in known if f is not None]
            _summary(f"{name}, {what}", pairs)


def _figures(one: Rollout, what: str) -> str:
    """Return the forecast of a figure from the recording, with its interval, and the true value."""
    if one.recorded is None:
        return f"none, {getattr(one, what):.0f}"
    found = getattr(one.recorded, what)
    return f"{found.best:.0f} ({found.low:.0f} to {found.high:.0f}), {getattr(one, what):.0f}"


def _summary(name: str, pairs: list[tuple[Any, float]]) -> None:
    if not pairs:
        return
    inside = sum(found.low <= true <= found.high for found, true in pairs)
    widths = [found.high / max(0.1, found.low) for found, _ in pairs]
    print(
        f"{name}: {inside} of {len(pairs)} inside; total "
        f"{sum(found.best for found, _ in pairs):.0f}, true {sum(true for _, true in pairs):.0f}; "
        f"median interval a factor of {median(widths):.2f}"
    )


if __name__ == "__main__":
    main()
