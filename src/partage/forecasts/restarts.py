"""Evidence in a group's record about restarts: their time, LeaveGroup, commits, members.

The inputs are rows of a run's tables. Each value has a default for groups without evidence.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from partage.forecasts.rolling import RestartTime

__all__ = ["RestartEvidence", "learn_restarts"]

_Row = Mapping[str, Any]
#: A rejoin later than this is no restart but a scale-up.
_LONGEST_RESTART_S = 900.0
_AWAY = re.compile(r"away for (\d+) ms")
#: Share of pauses with records read twice from which members do not commit when they stop.
_UNCOMMITTED = 0.3
#: Default of enable.auto.commit's interval, in seconds.
_COMMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class RestartEvidence:
    """Recorded behaviour of a group's members at restarts: duration, LeaveGroup, commits.

    Attributes:
        restart: time from a member's shutdown to its rejoin; None if no restart is recorded.
        leaves: whether members that shut down send LeaveGroup.
        departures: number of recorded departures that ``leaves`` was learnt from.
        members: the number of members that the group had for the longest time.
        static: whether the newest members have instance ids.
        commit_s: seconds between two offset commits.
        commits_on_stop: whether members commit when they stop or revoke partitions.
    """

    restart: RestartTime | None
    leaves: bool
    departures: int
    members: int
    static: bool
    commit_s: float
    commits_on_stop: bool


def learn_restarts(tables: Mapping[str, Sequence[_Row]]) -> RestartEvidence:
    """Infer from a replayed history how a group's members restart.

    Args:
        tables: dict from table to rows: ``rebalances`` in log order, ``events``, ``members``,
            ``unread``, ``commit_rates`` and ``pauses``. A missing table counts as empty.
    """
    events, members = tables.get("events", ()), tables.get("members", ())
    ordered = sorted(events, key=lambda row: (row["log_partition"], row["log_offset"]))
    kinds = Counter(row["event"] for row in ordered)
    left, died = kinds["leave"] + kinds["bounce"], kinds["expiry"]
    newest = max(((row["incarnation"], row["generation"]) for row in members), default=None)
    instances = [
        row["instance"] for row in members if (row["incarnation"], row["generation"]) == newest
    ]
    seconds = [*_static_restarts(members, tables.get("unread", ())), *_dynamic_restarts(ordered)]
    static = bool(instances) and None not in instances
    return RestartEvidence(
        RestartTime.learnt(seconds),
        # Static members send no LeaveGroup: their departures do not show how they shut down.
        leaves=static or left >= died,
        departures=left + died,
        members=_usual_members(tables.get("rebalances", ())),
        static=static,
        commit_s=_commit_interval(tables.get("commit_rates", ())),
        commits_on_stop=_commits_on_stop(tables.get("pauses", ())),
    )


def _static_restarts(members: Iterable[_Row], unread: Iterable[_Row]) -> list[float]:
    """Return how long each restart of a static member took, in seconds.

    Its partitions are unread from the stop of the old member id to the start of the new one.
    """
    instance = {row["member"]: row["instance"] for row in members if row["instance"] is not None}
    longest: dict[tuple[str, str], float] = {}
    for row in unread:
        old, new = row["member"], row["new_owner"]
        if old != new and old in instance and instance[old] == instance.get(new):
            away = (row["assigned_ms"] - row["stopped_ms"]) / 1_000
            longest[old, new] = max(longest.get((old, new), 0.0), away)
    return [one for one in longest.values() if 0 < one <= _LONGEST_RESTART_S]


def _dynamic_restarts(events: Iterable[_Row]) -> list[float]:
    """Return how long each restart of a dynamic member took: from its departure to the rejoin of
    the same client, in seconds.

    If no client is recognised (a new pod has another host), joins are matched with departures in
    their order.
    """
    recognised: list[float] = []
    in_order: list[float] = []
    departed: deque[int] = deque()
    for row in events:
        if row["event"] in ("leave", "departure"):
            departed.append(row["time_ms"])
        elif row["event"] in ("bounce", "join"):
            found = _AWAY.search(row["detail"] or "")
            if found is not None and row["event"] == "bounce":
                recognised.append(int(found[1]) / 1_000)
            elif departed:
                in_order.append((row["time_ms"] - departed.popleft()) / 1_000)
    chosen = recognised or in_order
    return [one for one in chosen if 0 < one <= _LONGEST_RESTART_S]


def _usual_members(rebalances: Sequence[_Row]) -> int:
    """Return the number of members that the group had for the longest time; 0 without any."""
    lasted: Counter[int] = Counter()
    for row, after in pairwise(rebalances):
        if row["members"]:
            lasted[int(row["members"])] += max(0, after["time_ms"] - row["time_ms"])
    if not lasted:
        return max((int(row["members"]) for row in rebalances), default=0)
    return max(lasted, key=lambda size: (lasted[size], size))


def _commit_interval(commit_rates: Iterable[_Row]) -> float:
    """Return the usual time between two commits of a partition, in seconds."""
    intervals = [60 / row["commits"] for row in commit_rates if row["commits"] > 1]
    return median(intervals) if intervals else _COMMIT_S


def _commits_on_stop(pauses: Iterable[_Row]) -> bool:
    """Return whether members commit when they stop: most pauses end at the offset committed before
    them.
    """
    known = [row["rewind"] for row in pauses if row["rewind"] is not None]
    return not known or sum(one > 0 for one in known) < _UNCOMMITTED * len(known)
