"""Record rolling restarts of a live cluster's groups: the truth that forecasts are measured against.

    python -m tests.chaos.rolling OUT --seed 1
    python -m tests.chaos.rolling OUT --seed 1 --varied

The cluster, the groups and the files are those of `tests.chaos.record`, without its faults. Each
group first has single restarts, from which a forecast learns. Event ``forecast`` marks the end of
this history. Then all members of each group are replaced, one after the other, between the events
``rollout_begin`` and ``rollout_end``. ``measured.json`` has what `partage.measure_group` reported of
each group at the mark. Forecasts use nothing that was recorded later. With ``--varied`` session
timeouts, restart times, pauses and batches differ from group to group.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from tests.chaos.record import RecordedGroup, RecordedMember, Recording, record

from partage.commands.live_groups import measure_group
from partage.errors import PartageError

#: Members of a group, single restarts before the forecast, groups that restart at the same time.
_MEMBERS, _SINGLE, _AT_ONCE = 3, 3, 4
#: Seconds between two single restarts of a group, and until a group has settled.
_BETWEEN_S, _SETTLE_S = 14.0, 14.0
#: Seconds from a member's start until its pod counts as ready, as in `partage forecast --pause`.
PAUSE_S = 5.0
#: Seconds after its start in which a member may still end by itself; it is then started again.
_TRIAL_S = 1.0
#: Longest time in seconds that a started process may take until its member subscribes.
_START_S = 60.0
#: Share of groups whose members are killed, and the range of a factor of the time without a process.
_KILLED, _JITTER = 0.25, (0.8, 1.25)
#: Range of the time without a process (seconds), which is drawn for each group.
_AWAY_S = (0.6, 4.0)
#: The same of varied groups; their session timeouts (ms; of the brokers: one), pauses (seconds) and
#: members that are missing at a time. A group with batches of two has one member more.
_VARIED_AWAY_S, _VARIED_PAUSE_S = (1.0, 9.0), (2.0, 8.0)
_VARIED_SESSION_MS, _VARIED_SERVER_SESSION_MS = (10_000, 12_000, 15_000), 9_000
_VARIED_BATCH = (1, 1, 2)


class RollingRestarts(Recording):
    """Groups with single restarts, then rolling restarts of all members.

    Attributes:
        measured: a dict for each group of what `partage.measure_group` reported.
    """

    own_share = 1.0

    def run(self) -> None:
        """Start the groups, restart single members, mark the forecast, and restart all members."""
        self.measured: list[dict[str, Any]] = []
        self._draw_settings()
        self.note("churn_begin")
        self.for_each(self.groups, self._start)
        time.sleep(_SETTLE_S)
        self.for_each(self.groups, self._restart_some)
        for group in self.groups:
            self._measure(group.plan.name)
        self.note("forecast")
        for first in range(0, len(self.groups), _AT_ONCE):
            self.for_each(self.groups[first : first + _AT_ONCE], self._restart_all)
        self.note("churn_end")

    def _draw_settings(self) -> None:
        """Draw each group's time without a process, whether it is killed, its pause and batch."""
        names = [one.plan.name for one in self.groups]
        self._away_s = {name: self._rng.uniform(*_AWAY_S) for name in names}
        self._killed = {name: self._rng.random() < _KILLED for name in names}
        self._pause_s = dict.fromkeys(names, PAUSE_S)
        self._batch = dict.fromkeys(names, 1)

    def _start(self, group: RecordedGroup) -> None:
        time.sleep(self._rng.uniform(0, 20))
        for _ in range(_MEMBERS - 1 + self._batch[group.plan.name]):
            self.await_start(self.add(group).id, _START_S)

    def _restart_some(self, group: RecordedGroup) -> None:
        time.sleep(self._rng.uniform(0, _BETWEEN_S))
        for _ in range(_SINGLE):
            self._restart(group)
            time.sleep(_BETWEEN_S)

    def _restart_all(self, group: RecordedGroup) -> None:
        name, count = group.plan.name, len(group.members)
        pause_s, batch = self._pause_s[name], self._batch[name]
        self.note("rollout_begin", group=name, pause=pause_s, replaced=count, batch=batch)

        def restart_share(number: int) -> None:
            for _ in range(number, count, batch):
                self._restart(group)
                time.sleep(pause_s - _TRIAL_S)

        with ThreadPoolExecutor(batch) as pool:
            for one in [pool.submit(restart_share, number) for number in range(batch)]:
                one.result()
        # A killed member, and one that was killed while it rejoined, are evicted by then.
        evictions_s = 2 * group.plan.session / 1_000 if self._killed[name] else 0.0
        self.note("rollout_end", group=name, settle=_SETTLE_S + evictions_s)
        time.sleep(_SETTLE_S + evictions_s)

    def _restart(self, group: RecordedGroup) -> None:
        """Stop the oldest member, start it again under the same names, and wait until it runs."""
        with self._lock:
            member, name = group.members.pop(0), group.plan.name
        gap = self._away_s[name] * self._rng.uniform(*_JITTER)
        hard = self._killed[name]
        self.note("bounce", group=name, id=member.id, form="proc", hard=hard, gap=round(gap, 3),
                  instance=member.instance)  # fmt: skip
        (member.process.close if hard else lambda: self._close(member))()
        time.sleep(gap)
        while True:
            member = self.add(group, member)
            self.await_start(member.id, _START_S)
            time.sleep(_TRIAL_S)
            if not self._has_ended(member):
                return
            # UNRELEASED_INSTANCE_ID ends the successor of a killed static member (KIP-848).
            self.note("died", group=name, id=member.id)
            group.members.remove(member)

    def _has_ended(self, member: RecordedMember) -> bool:
        return member.process.process.poll() is not None or member.id in self._closed

    def _measure(self, group: str) -> None:
        """Write down what a measurement of the running cluster reports of a group."""
        try:
            found = measure_group(self.cluster.bootstrap, group, seconds=1.0)
        except PartageError as error:
            self.measured.append({"group": group, "error": str(error)})
            return
        self.measured.append({
            "group": group, "strategy": found.strategy, "topics": found.topics, "lag": found.lag,
            "rate": found.load.total, "members": found.restarts.members,
            "static": found.restarts.static,
        })  # fmt: skip


class VariedRestarts(RollingRestarts):
    """Rolling restarts with longer session timeouts and restarts, other pauses, and batches."""

    broker: ClassVar[dict[str, str]] = {
        "group.consumer.session.timeout.ms": str(_VARIED_SERVER_SESSION_MS),
        "group.consumer.heartbeat.interval.ms": "2000",
    }

    def _draw_settings(self) -> None:
        super()._draw_settings()
        draw = self._rng
        for group in self.groups:
            name, is_server = group.plan.name, group.plan.protocol == "consumer"
            self._away_s[name] = draw.uniform(*_VARIED_AWAY_S)
            self._pause_s[name] = round(draw.uniform(*_VARIED_PAUSE_S), 1)
            self._batch[name] = draw.choice(_VARIED_BATCH)
            session_ms = draw.choice(_VARIED_SESSION_MS)
            session_ms = _VARIED_SERVER_SESSION_MS if is_server else session_ms
            group.plan = replace(group.plan, session=session_ms, poll=session_ms + 6_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--varied", action="store_true", help="other timeouts, times and batches")
    given = parser.parse_args()
    kind = VariedRestarts if given.varied else RollingRestarts
    recording = record(given.out, given.seed, 0.0, kind)
    text = "".join(json.dumps(one) + "\n" for one in recording.measured)
    (given.out / "measured.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
