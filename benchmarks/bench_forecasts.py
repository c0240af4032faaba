"""Accuracy of forecasts: isolated restarts of the recordings with a clients' log.

    python benchmarks/bench_forecasts.py

Each recorded restart of one member, with no other event of its group shortly before and after it,
is forecast as a deployment that replaces one member. The truth is what the clients logged.
docs/guides/forecast.md has the table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.recordings import Recording, names, recording
from tests.support.unread_truth import UnreadInterval, unread_intervals

from partage.forecasts.loads import constant_load
from partage.forecasts.rolling import Deployment, RestartTime, RolloutForecast, forecast_rollout
from partage.history.events import Generation
from partage.simulation.policies import Policy, recorded_protocol, recorded_strategy
from partage.simulation.recorded_rebalances import session_timeout_ms

#: No other event of the group may be so close before a restart or after its end.
_BEFORE_MS, _AFTER_MS = 6_000, 9_000
#: Default session timeout in seconds of the brokers of all recordings for consumer groups.
_SERVER_SESSION_S = 6.0
_QUIET = {"admin.describe"}


class Restart(NamedTuple):
    """One isolated restart: what was forecast and what happened, in partition-seconds."""

    recording: str
    group: str
    forecast: RolloutForecast
    true: float

    @property
    def is_inside(self) -> bool:
        """Whether the true value lies within the 80 % interval."""
        return self.forecast.unread.low <= self.true <= self.forecast.unread.high


def restarts(name: str) -> Iterator[Restart]:
    """Yield the isolated restarts of a recording."""
    made = recording(name)
    intervals = unread_intervals(made.observed, made.events)
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
            forecast = _forecast(event, found / 1_000, generation)
            if forecast is not None:
                yield Restart(name, group, forecast, _truth(intervals, group, event, found))


def _restart(made: Recording, events: list[dict[str, Any]], at: int) -> int | None:
    """Return the milliseconds from a shutdown to the new member's start; None if not isolated."""
    event, rest = events[at], events[at + 1 :]
    if not rest or rest[0]["what"] != "add" or not rest[0].get("bounce"):
        return None
    new = rest[0]
    started = [
        one["ts_ms"] for one in made.observed
        if one["id"] == new["id"] and one.get("group") == event["group"] and one["ev"] == "started"
    ]  # fmt: skip
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


def _forecast(
    event: dict[str, Any], restart_s: float, generation: Generation
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
    return forecast_rollout(Deployment(
        load=constant_load({topic: count for topic, count in topics.items() if count}, 0.0),
        policy=Policy(recorded_protocol(generation), strategy, event["instance"] is not None),
        members=len(members), replaced=1, restart=RestartTime.given(restart_s),
        session_s=max(sessions) if is_classic else _SERVER_SESSION_S, leaves=not event["hard"],
    ))  # fmt: skip


def _truth(
    intervals: list[UnreadInterval], group: str, event: dict[str, Any], restart_ms: int
) -> float:
    first, last = event["ts_ms"] - 500, event["ts_ms"] + restart_ms + _AFTER_MS
    mine = (one for one in intervals if one.group == group and first <= one.from_ms <= last)
    return sum(one.to_ms - one.from_ms for one in mine) / 1_000


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
                f"{name} | {one.group} | {deployment.policy.name}{kill} | {deployment.members} | "
                f"{deployment.restart.median:.1f} | {unread.best:.0f} ({unread.low:.0f} to "
                f"{unread.high:.0f}) | {one.true:.0f} | {'yes' if one.is_inside else 'no'}"
            )
        _summary(name, found)
    _summary("all", every)


def _summary(name: str, found: list[Restart]) -> None:
    if found:
        total = sum(one.true for one in found)
        widths = [one.forecast.unread.high / max(0.1, one.forecast.unread.low) for one in found]
        print(
            f"{name}: {sum(one.is_inside for one in found)} of {len(found)} inside; total "
            f"{sum(one.forecast.unread.best for one in found):.0f}, true {total:.0f}; median "
            f"interval a factor of {median(widths):.2f}"
        )


if __name__ == "__main__":
    main()
