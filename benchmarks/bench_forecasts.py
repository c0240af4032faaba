"""Accuracy of forecasts: isolated restarts of the recordings with a clients' log.

    python benchmarks/bench_forecasts.py

Each recorded restart of one member, with no other event of its group shortly before and after it,
is forecast as a deployment that replaces one member. Earlier rebalances of the group scale it, as
in `pg.forecast`. The truth is what the clients logged.
docs/guides/forecast.md has the table. Records read twice have no truth: clients log their
callbacks, not the records that they read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.recordings import Recording, names, recording
from tests.support.unread_truth import UnreadInterval, unread_intervals

from partage.forecasts.loads import constant_load
from partage.forecasts.restarts import RESTART_CAUSES
from partage.forecasts.rolling import (
    Deployment,
    RestartTime,
    RolloutForecast,
    forecast_rollout,
    recorded_slowdown,
    scale_unread,
)
from partage.history.events import Generation
from partage.simulation.policies import Policy, recorded_protocol, recorded_strategy
from partage.simulation.recorded_rebalances import session_timeout_ms

#: No other event of the group may be so close before a restart or after its end.
_BEFORE_MS, _AFTER_MS = 6_000, 9_000
#: Default session timeout in seconds of the brokers of all recordings for consumer groups.
_SERVER_SESSION_S = 6.0
_QUIET = {"admin.describe"}


class Restart(NamedTuple):
    """One isolated restart: what was forecast and what happened.

    Attributes:
        true: unread partition-seconds.
        true_duration: seconds from the shutdown until the last partition was read again and the new
            member had started.
        true_rebalances: number of rebalances in this time and shortly after.
        is_disturbed: whether a fault of the cluster or of another member overlaps with it: a broker
            that stops or starts, a new partition, or a member that is frozen or stalled.
    """

    recording: str
    group: str
    library: str
    forecast: RolloutForecast
    true: float
    true_duration: float
    true_rebalances: int
    is_disturbed: bool
    at_ms: int

    @property
    def is_inside(self) -> bool:
        """Whether the true value lies within the 80 % interval."""
        return self.forecast.unread.low <= self.true <= self.forecast.unread.high


def restarts(name: str) -> Iterator[Restart]:
    """Yield the isolated restarts of a recording."""
    made = recording(name)
    intervals = unread_intervals(made.observed, made.events)
    faults = list(_faults(made.events))
    libraries = {one["id"]: one["lang"] for one in made.events if one["what"] == "add"}
    by_group: dict[str, list[dict[str, Any]]] = {}
    for one in made.events:
        if "group" in one and one["what"] not in _QUIET:
            by_group.setdefault(one["group"], []).append(one)
    for group, events in by_group.items():
        for at, event in enumerate(events):
            if event["what"] != "bounce" or group not in made.rebalances:
                continue
            found = _restart(made, events, at)
            generation = _generation(made.rebalances[group], event["ts_ms"])
            if found is None or generation is None or len(generation.last.members) < 2:
                continue
            past = _past_waits(made.rebalances[group], event["ts_ms"])
            forecast = _forecast(event, found / 1_000, generation, past)
            if forecast is not None:
                first, last = event["ts_ms"] - _BEFORE_MS, event["ts_ms"] + found + _AFTER_MS
                is_disturbed = any(
                    one.group in (None, group) and one.from_ms <= last and one.to_ms >= first
                    for one in faults
                )
                unread = _truth(intervals, group, event, found)
                end_ms = max([event["ts_ms"] + found, *(one.to_ms for one in unread)])
                yield Restart(
                    name, group, libraries[event["id"]], forecast,
                    sum(one.to_ms - one.from_ms for one in unread) / 1_000,
                    (end_ms - event["ts_ms"]) / 1_000,
                    sum(event["ts_ms"] <= one.timestamp_ms <= last
                        for one in made.rebalances[group]),
                    is_disturbed, event["ts_ms"],
                )  # fmt: skip


class _Fault(NamedTuple):
    """A fault of one group, or of the whole cluster (None), with its begin and end."""

    group: str | None
    from_ms: int
    to_ms: int


def _faults(events: list[dict[str, Any]]) -> Iterator[_Fault]:
    """Yield the faults of a recording that last, or that concern the whole cluster."""
    frozen: dict[str, int] = {}
    for one in events:
        at, what = one["ts_ms"], one["what"]
        if what.startswith(("broker_", "admin.grow", "admin.elect")):
            yield _Fault(None, at, at + _AFTER_MS)
        elif what == "stall":
            yield _Fault(one["group"], at, at + one["ms"])
        elif what == "freeze":
            frozen[one["id"]] = at
        elif what == "thaw" and one["id"] in frozen:
            yield _Fault(one["group"], frozen.pop(one["id"]), at)


def _restart(made: Recording, events: list[dict[str, Any]], at: int) -> int | None:
    """Return the milliseconds from a shutdown to the new member's start; None if not isolated."""
    event, rest = events[at], events[at + 1 :]
    if not rest or rest[0]["what"] != "add" or not rest[0].get("bounce"):
        return None
    new = rest[0]
    # aiokafka reports its start after its first join, and an empty revocation before.
    started = [
        one["ts_ms"] for one in made.observed
        if one["id"] == new["id"] and one.get("group") == event["group"]
        and (one["ev"] == "started" or (one["ev"] == "revoked" and not one["parts"]))
    ][:1]  # fmt: skip
    if not started:
        return None
    near = [
        one for one in [*events[:at], *rest[1:]]
        if event["ts_ms"] - _BEFORE_MS <= one["ts_ms"] <= started[0] + _AFTER_MS
    ]  # fmt: skip
    return None if near else max(1, started[0] - event["ts_ms"])


def _generation(generations: list[Generation], at_ms: int) -> Generation | None:
    known = [one for one in generations if one.timestamp_ms <= at_ms]
    return known[-1] if known else None


def _past_waits(generations: list[Generation], at_ms: int) -> tuple[float, int]:
    """Return the mean seconds without a reader in earlier rebalances by restarts, and their number.

    A rebalance in which no partition stopped does not count.
    """
    found = [
        [each.unread_ms / 1_000 for each in one.unread_intervals if each.unread_ms]
        for one in generations
        if one.timestamp_ms < at_ms and one.causes and one.causes[0].kind in RESTART_CAUSES
    ]
    times = [seconds for each in found for seconds in each]
    return (mean(times) if times else 0.0), sum(map(bool, found))


def _forecast(
    event: dict[str, Any], restart_s: float, generation: Generation, past: tuple[float, int]
) -> RolloutForecast | None:
    strategy = recorded_strategy(generation)
    if strategy is None or generation.protocol in ("share", "streams"):
        return None
    members = generation.last.members
    topics: dict[str, int] = {}
    for member in members:
        for topic, numbers in member.assigned:
            topics[topic] = max(topics.get(topic, 0), max(numbers, default=-1) + 1)
    if not topics:
        return None
    sessions = [session_timeout_ms(one) / 1_000 for one in members]
    is_classic = generation.protocol == "classic"
    found = forecast_rollout(Deployment(
        load=constant_load({topic: count for topic, count in topics.items() if count}, 0.0),
        policy=Policy(recorded_protocol(generation), strategy, event["instance"] is not None),
        members=len(members), replaced=1, restart=RestartTime.from_range(restart_s),
        session_s=max(sessions) if is_classic else _SERVER_SESSION_S, leaves=not event["hard"],
    ))  # fmt: skip
    return scale_unread(found, recorded_slowdown(*past, found))


def _truth(
    intervals: list[UnreadInterval], group: str, event: dict[str, Any], restart_ms: int
) -> list[UnreadInterval]:
    first, last = event["ts_ms"] - 500, event["ts_ms"] + restart_ms + _AFTER_MS
    return [one for one in intervals if one.group == group and first <= one.from_ms <= last]


def main() -> None:
    """Print a line for each restart, and a summary for each recording."""
    every: list[Restart] = []
    for name in names(overloaded=True):
        found = list(restarts(name))
        every += found
        for one in found:
            unread, deployment = one.forecast.unread, one.forecast.deployment
            kill = "" if deployment.leaves else ", killed"
            print(
                f"{name} | {one.group} | {one.library} | {deployment.policy.name}{kill} | "
                f"{deployment.members} | "
                f"{deployment.restart.median:.1f} | {unread.best:.0f} ({unread.low:.0f} to "
                f"{unread.high:.0f}) | {one.true:.0f} | {'yes' if one.is_inside else 'no'}"
                f"{' (disturbed)' if one.is_disturbed else ''} | "
                f"{one.forecast.duration.best:.1f}, {one.true_duration:.1f} s | "
                f"{one.forecast.rebalances.best:.1f}, {one.true_rebalances}"
            )
        _summary(name, found)
    _summary("all", every)
    _summary("undisturbed", [one for one in every if not one.is_disturbed])


def _summary(name: str, found: list[Restart]) -> None:
    if found:
        total = sum(one.true for one in found)
        widths = [one.forecast.unread.high / max(0.1, one.forecast.unread.low) for one in found]
        print(
            f"{name}: {sum(one.is_inside for one in found)} of {len(found)} inside; total "
            f"{sum(one.forecast.unread.best for one in found):.0f}, true {total:.0f}; median "
            f"interval a factor of {median(widths):.2f}"
        )
        for what, wanted, slack in (("duration", "true_duration", 0.0),
                                    ("rebalances", "true_rebalances", 0.5)):  # fmt: skip
            pairs = [(getattr(one.forecast, what), getattr(one, wanted)) for one in found]
            inside = sum(each.low - slack <= true <= each.high + slack for each, true in pairs)
            print(
                f"  {what}: {inside} of {len(found)} inside; total "
                f"{sum(each.best for each, _ in pairs):.0f}, true {sum(t for _, t in pairs):.0f}"
            )


if __name__ == "__main__":
    main()
