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

__all__ = ["RESTART_CAUSES", "RestartEvidence", "learn_restarts"]

_Row = Mapping[str, Any]
#: A rejoin later than this is no restart but a scale-up.
_LONGEST_RESTART_S = 900.0
_AWAY = re.compile(r"away for (\d+) ms( since its session timeout)?")
#: Share of pauses with records read twice from which members do not commit when they stop.
_UNCOMMITTED = 0.3
#: Causes of rebalances in which members join, leave or return, with the second steps of these.
#: Session and poll timeouts are not among them: a member that closes its consumer has none.
RESTART_CAUSES = frozenset({"join", "leave", "bounce", "follow-up"})
#: Share of its time in which a group has at least its usual number of members.
_USUAL = 0.2
#: Default of enable.auto.commit's interval, in seconds.
_COMMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class RestartEvidence:
    """Recorded behaviour of a group's members at restarts: duration, LeaveGroup, commits.

    Attributes:
        restart: time from a member's shutdown to its rejoin; None if no restart is recorded.
        leaves: whether members that shut down send LeaveGroup.
        departures: number of recorded departures that ``leaves`` was learnt from.
        members: the largest number of members that the group had for a fifth of its time.
        static: whether the newest members have instance ids.
        commit_s: seconds between two offset commits.
        commits_on_stop: whether members commit when they stop or revoke partitions.
        unread_s: mean seconds for which a stopped partition had no reader, over the rebalances in
            which members joined, left or returned; 0 without any.
        rebalances: number of these rebalances.
    """

    restart: RestartTime | None
    leaves: bool
    departures: int
    members: int
    static: bool
    commit_s: float
    commits_on_stop: bool
    unread_s: float = 0.0
    rebalances: int = 0


def learn_restarts(tables: Mapping[str, Sequence[_Row]], session_s: float = 0.0) -> RestartEvidence:
    """Infer from a replayed history how a group's members restart.

    Args:
        tables: dict from table to rows: ``rebalances`` in log order, ``events``, ``members``,
            ``unread``, ``commit_rates`` and ``pauses``. A missing table counts as empty.
        session_s: session timeout in seconds, which an evicted member was away before its eviction.
    """
    events, members = tables.get("events", ()), tables.get("members", ())
    ordered = sorted(events, key=lambda row: (row["log_partition"], row["log_offset"]))
    kinds = Counter(row["event"] for row in ordered)
    left, died = kinds["leave"] + kinds["bounce"], kinds["expiry"]
    newest = max(((row["incarnation"], row["generation"]) for row in members), default=None)
    instances = [
        row["instance"] for row in members if (row["incarnation"], row["generation"]) == newest
    ]
    seconds = [
        *_static_restarts(members, tables.get("unread", ())), *_rejoins(ordered, session_s),
    ]  # fmt: skip
    static = bool(instances) and None not in instances
    rebalances_of = tables.get("rebalances", ())
    is_classic = all(row.get("protocol") == "classic" for row in rebalances_of)
    unread_s, rebalances = _unread_time(tables.get("unread", ()), rebalances_of)
    return RestartEvidence(
        RestartTime.learnt(seconds),
        # Static members of the classic protocol send no LeaveGroup: nothing shows how they stopped.
        leaves=(static and is_classic) or left >= died,
        departures=left + died,
        members=_usual_members(rebalances_of),
        static=static,
        commit_s=_commit_interval(tables.get("commit_rates", ())),
        commits_on_stop=_commits_on_stop(tables.get("pauses", ())),
        unread_s=unread_s,
        rebalances=rebalances,
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


def _rejoins(events: Iterable[_Row], session_s: float) -> list[float]:
    """Return how long each restart of a member took: from its departure to the rejoin of the same
    client, in seconds.

    A member that was evicted stopped one session timeout before. If no client is recognised (a new
    pod has another host), joins are matched with departures in their order.
    """
    recognised: list[float] = []
    in_order: list[float] = []
    departed: deque[int] = deque()
    for row in events:
        if row["event"] in ("leave", "departure"):
            departed.append(row["time_ms"])
        elif row["event"] in ("bounce", "join"):
            found = _AWAY.search(row["detail"] or "")
            if found is not None:
                evicted_s = session_s if found[2] else 0.0
                recognised.append(int(found[1]) / 1_000 + evicted_s)
            if departed:
                in_order.append((row["time_ms"] - departed.popleft()) / 1_000)
    chosen = recognised or in_order
    return [one for one in chosen if 0 < one <= _LONGEST_RESTART_S]


def _usual_members(rebalances: Sequence[_Row]) -> int:
    """Return the largest number of members that the group had for some time; 0 without any.

    That is a fifth of its time with members. Restarts and deployments make it smaller meanwhile.
    """
    lasted: Counter[int] = Counter()
    for row, after in pairwise(rebalances):
        if row["members"]:
            lasted[int(row["members"])] += max(0, after["time_ms"] - row["time_ms"])
    if not lasted:
        return max((int(row["members"]) for row in rebalances), default=0)
    enough, passed = _USUAL * sum(lasted.values()), 0
    for size in sorted(lasted, reverse=True):
        passed += lasted[size]
        if passed >= enough:
            return size
    return min(lasted)


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


def _unread_time(unread: Iterable[_Row], rebalances: Iterable[_Row]) -> tuple[float, int]:
    """Return the mean seconds for which a stopped partition had no reader, and the rebalances."""
    wanted = {
        (row["incarnation"], row["generation"])
        for row in rebalances
        if row["cause_kind"] in RESTART_CAUSES
    }
    rows = [
        (key, row["unread_ms"])
        for row in unread
        if (key := (row["incarnation"], row["generation"])) in wanted and row["unread_ms"] > 0
    ]
    if not rows:
        return 0.0, 0
    return sum(ms for _, ms in rows) / len(rows) / 1_000, len({key for key, _ in rows})
