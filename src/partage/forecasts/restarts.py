"""Evidence in a group's record about restarts: their time, LeaveGroup, commits, members.

The inputs are rows of a run's tables. Each value has a default for groups without evidence.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import median
from typing import Any

from partage.forecasts.rolling import DEFAULT_COMMIT_S, RestartTime
from partage.history.stop_model import heartbeat_interval

__all__ = ["RESTART_CAUSES", "RestartEvidence", "learn_restarts"]

_Row = Mapping[str, Any]
#: A rejoin later than this is no restart but a scale-up.
_LONGEST_RESTART_S = 900.0
_AWAY = re.compile(r"away for (\d+) ms( since its session timeout)?")
#: The member that a joining member was before.
_WAS = re.compile(r"was (\S+?)(?:,|$)")
#: Events with which a member is in the group again.
_JOINS = ("bounce", "join", "restart")
#: Shortest restart time, in seconds: a process needs some time to start.
_SHORTEST_S = 0.2
#: So many static members that rejoin one heartbeat interval after the other are no deployment.
_SERIES = 3
#: If at least this share of pauses has records read twice, members count as not committing when
#: they stop.
_UNCOMMITTED = 0.3
#: Causes of rebalances in which members join, leave or return, with the second steps of these.
#: Session and poll timeouts are not among them: a member that closes its consumer has none.
RESTART_CAUSES = frozenset({"join", "leave", "bounce", "follow-up"})
#: Share of the recorded time in which a group has at least its usual number of members; see
#: `_usual_members`.
_USUAL = 0.2


@dataclass(frozen=True, slots=True)
class RestartEvidence:
    """Behaviour of a consumer group's members at restarts, as a recording of the group shows it.

    Forecasts of rolling deployments use it.

    Attributes:
        restart: time from a member's shutdown to its rejoin; None if no restart is recorded.
        leaves: whether members shut down cleanly, that is with LeaveGroup; always True for static
            members of the classic protocol, which send none.
        members: the largest number of members that the group had for at least a fifth of the time.
        static: whether the newest members have instance ids.
        commit_s: seconds between two offset commits.
        commits_on_stop: whether members commit when they stop or revoke partitions.
        unread_s: mean seconds for which a partition had no consumer, in rebalances after members
            joined, left or returned; 0 if there is none.
        rebalances: number of these rebalances.
    """

    restart: RestartTime | None
    leaves: bool
    members: int
    static: bool
    commit_s: float
    commits_on_stop: bool
    unread_s: float = 0.0
    rebalances: int = 0


def learn_restarts(tables: Mapping[str, Sequence[_Row]], session_s: float = 0.0) -> RestartEvidence:
    """Measure how long a group's members take to restart and how they stop, from a recording.

    Members stop with or without LeaveGroup, and with or without committing their offsets.

    Args:
        tables: dict from table name to rows: ``rebalances`` in log order, ``events``, ``members``,
            ``unread``, ``commit_rates`` and ``pauses``. A missing table counts as empty.
        session_s: session timeout in seconds, after which a member without heartbeats is evicted.
    """
    events, members = tables.get("events", ()), tables.get("members", ())
    ordered = sorted(events, key=lambda row: (row["log_partition"], row["log_offset"]))
    announced = {row["member"] for row in ordered if row["event"] == "away"}
    left = _count_rebalances(ordered, "leave", "bounce") + len(announced)
    died = _count_rebalances((row for row in ordered if row["member"] not in announced), "expiry")
    newest = max(((row["incarnation"], row["generation"]) for row in members), default=None)
    instances = [
        row["instance"] for row in members if (row["incarnation"], row["generation"]) == newest
    ]
    static = bool(instances) and None not in instances
    rebalances_of = tables.get("rebalances", ())
    is_classic = all(row.get("protocol") == "classic" for row in rebalances_of)
    seconds = _restart_seconds(
        ordered, tables.get("unread", ()), session_s, is_classic=is_classic,
        share_id=_share_client_id(members),
    )  # fmt: skip
    unread_s, rebalances = _unread_time(tables.get("unread", ()), rebalances_of)
    return RestartEvidence(
        RestartTime.fit(seconds),
        # Static members of the classic protocol send no LeaveGroup: nothing shows how they stopped.
        leaves=(static and is_classic) or left >= died,
        members=_usual_members(rebalances_of, [row["time_ms"] for row in ordered]),
        static=static,
        commit_s=_commit_interval(tables.get("commit_rates", ())),
        commits_on_stop=_commits_on_stop(tables.get("pauses", ())),
        unread_s=unread_s,
        rebalances=rebalances,
    )


class _StopTimes:
    """Lookup of the times at which members of a consumer group stopped consuming.

    A static member may have announced its stop; for others the time is an estimate.
    """

    def __init__(self, events: Iterable[_Row], unread: Iterable[_Row]) -> None:
        # A static member of the consumer protocol announces that it stops.
        self._announced: dict[str, list[int]] = {}
        for row in events:
            if row["event"] == "away":
                self._announced.setdefault(row["member"], []).append(row["time_ms"])
        self._estimated: dict[str, list[int]] = {}
        for row in unread:
            self._estimated.setdefault(row["member"], []).append(row["stopped_ms"])

    def last_stop(self, member: str, before_ms: int) -> int | None:
        """Return the last time (ms) at which a member stopped consuming; None if unknown.

        Args:
            member: member id of the consumer.
            before_ms: only stops before this time count.
        """
        known = self._announced.get(member) or self._estimated.get(member, [])
        return max((one for one in known if one <= before_ms), default=None)


def _share_client_id(members: Iterable[_Row]) -> bool:
    """Return whether several members of a group used the same ``client.id`` at the same time.

    Static members do not count, because they have distinct instance ids. ``members`` has one row
    for each member and generation.
    """
    seen = Counter(
        (row["incarnation"], row["generation"], row.get("client_id"))
        for row in members
        if row["instance"] is None and row.get("client_id") is not None
    )
    return any(count > 1 for count in seen.values())


def _restart_seconds(
    events: Sequence[_Row],
    unread: Iterable[_Row],
    session_s: float,
    *,
    is_classic: bool,
    share_id: bool,
) -> list[float]:
    """Return how long each recorded restart of a member took, from its stop to its rejoin
    (seconds).

    Args:
        events: recorded departures and joins of members.
        unread: rows of times without a consumer, which show when members stopped.
        session_s: session timeout in seconds.
        is_classic: whether the group uses the classic protocol.
        share_id: whether several members have one client id, so that a joining member may be the
            successor of any of them.
    """
    # In a classic group the mean wait for the rebalance is subtracted. It may exceed a short
    # restart, but no session timeout.
    stops = _StopTimes(events, unread)
    wait_ms = heartbeat_interval(1_000 * session_s) / 2 if is_classic else 0.0
    events = _exchange_successors(events, stops, wait_ms) if share_id else events
    recognised, together = _recognised_restarts(events, stops, session_s, wait_ms)
    # Members that were evicted together, and static ones that rejoined together, are used only if
    # there are no other restarts: their coordinator may have failed.
    chosen = recognised or together or _restarts_in_order(events, stops, wait_ms)
    return [max(one, _SHORTEST_S) for one in chosen if -session_s < one <= _LONGEST_RESTART_S]


def _recognised_restarts(
    events: Sequence[_Row], stops: _StopTimes, session_s: float, wait_ms: float
) -> tuple[list[float], list[float]]:
    """Return the restart times (seconds) of members that are recognised when they rejoin.

    They are recognised by their client id or instance id.

    Args:
        events: recorded departures and joins of members.
        stops: times at which members stopped consuming.
        session_s: session timeout in seconds.
        wait_ms: mean time from a join to the end of its rebalance; not used for static members.

    Returns:
        Restart times of members that stopped by themselves, and of those evicted together.
    """
    recognised: list[float] = []
    together: list[float] = []
    lost_together = _evicted_together(events) | _rejoined_together(events, session_s)
    for row in events:
        if row["event"] not in _JOINS:
            continue
        away_ms = _stopped_ms(row, stops, session_s)
        was = _WAS.match(row["detail"] or "")
        if away_ms is None or was is None:
            continue
        waited_ms = 0.0 if row["event"] == "restart" else wait_ms
        found = together if was[1] in lost_together else recognised
        found.append((away_ms - waited_ms) / 1_000)
    return recognised, together


def _exchange_successors(
    events: Sequence[_Row], stops: _StopTimes, wait_ms: float
) -> Sequence[_Row]:
    """Correct which departed member each joining member replaces, if members share a client id.

    An event names the member that departs in the same rebalance. If this is too fast for a restart,
    the joining member replaces the member that departed first instead. Return the corrected events.

    Args:
        events: recorded departures and joins of members.
        stops: times at which members stopped consuming.
        wait_ms: mean time from a join to the end of its rebalance.
    """
    found: list[_Row] = []
    departed: list[str] = []
    exchanged: dict[str, str] = {}
    for row in events:
        was = _WAS.match(row["detail"] or "")
        if row["event"] in ("leave", "departure", "expiry"):
            departed.append(row["member"])
        elif row["event"] in _JOINS and was is not None:
            name = exchanged.pop(was[1], was[1])
            stopped_ms = stops.last_stop(name, row["time_ms"])
            passed_ms = 0 if stopped_ms is None else row["time_ms"] - stopped_ms
            is_too_fast = passed_ms - wait_ms < 1_000 * _SHORTEST_S
            if row["event"] == "bounce" and is_too_fast and departed:
                exchanged[departed[0]] = name
                name = departed[0]
            if name in departed:
                departed.remove(name)
            away_ms = stops.last_stop(name, row["time_ms"])
            if name != was[1] and away_ms is not None:
                detail = f"was {name}, away for {row['time_ms'] - away_ms} ms"
                found.append({**row, "detail": detail})
                continue
        found.append(row)
    return found


def _restarts_in_order(events: Sequence[_Row], stops: _StopTimes, wait_ms: float) -> list[float]:
    """Return restart times (seconds) for members that cannot be recognised when they rejoin.

    Each join counts as the restart of the member that departed first and has not rejoined.

    Args:
        events: recorded departures and joins of members.
        stops: times at which members stopped consuming.
        wait_ms: mean time from a join to the end of its rebalance; not used for static members.
    """
    found: list[float] = []
    departed: deque[int] = deque()
    for row in events:
        kind, time_ms = row["event"], row["time_ms"]
        if kind in ("leave", "departure", "expiry"):
            known = stops.last_stop(row["member"], time_ms)
            departed.append(time_ms if known is None else known)
        elif kind in _JOINS and departed:
            waited_ms = 0.0 if kind == "restart" else wait_ms
            found.append((time_ms - departed.popleft() - waited_ms) / 1_000)
    return found


def _evicted_together(events: Iterable[_Row]) -> set[str]:
    """Return the ids of the members that were evicted in the same rebalance as another member.

    Their coordinator may have failed, so they did not necessarily restart. ``events`` are recorded
    departures and joins of members.
    """
    evicted: dict[tuple[int, int], list[str]] = {}
    for row in events:
        if row["event"] == "expiry":
            evicted.setdefault((row["incarnation"], row["generation"]), []).append(row["member"])
    return {one for members in evicted.values() if len(members) > 1 for one in members}


def _rejoined_together(events: Iterable[_Row], session_s: float) -> set[str]:
    """Return the static members that rejoined because their coordinator failed, not after a
    restart.

    All members of a group notice such a failure with their next heartbeats. So at least three of
    them rejoin, each less than a heartbeat interval after another one.

    Args:
        events: recorded departures and joins of members.
        session_s: session timeout in seconds.
    """
    interval_ms = heartbeat_interval(1_000 * session_s)
    series: list[list[tuple[int, str]]] = []
    for row in events:
        was = _WAS.match(row["detail"] or "")
        if row["event"] == "restart" and was is not None:
            if not series or row["time_ms"] - series[-1][-1][0] > interval_ms:
                series.append([])
            series[-1].append((row["time_ms"], was[1]))
    return {name for one in series if len(one) >= _SERIES for _, name in one}


def _stopped_ms(row: _Row, stops: _StopTimes, session_s: float) -> float | None:
    """Return how long a member had been stopped before it rejoined (ms); None if it was no restart.

    Args:
        row: event of the rejoin.
        stops: times at which members stopped consuming.
        session_s: session timeout in seconds.
    """
    # The detail of the event names the earlier member of the same client; without this name the
    # result is None. A member that rejoins with its own id was fenced, not restarted.
    was = _WAS.match(row["detail"] or "")
    if was is None or was[1] == row["member"]:
        return None
    stopped_ms = stops.last_stop(was[1], row["time_ms"])
    if stopped_ms is not None:
        return float(row["time_ms"] - stopped_ms)
    found = _AWAY.search(row["detail"])
    if found is None:
        return None
    return int(found[1]) + (1_000 * session_s if found[2] else 0.0)


def _count_rebalances(events: Iterable[_Row], *kinds: str) -> int:
    """Count the rebalances that have at least one event of the given kinds, such as a departure."""
    found = [row for row in events if row["event"] in kinds]
    return len({(row["incarnation"], row["generation"]) for row in found})


def _usual_members(rebalances: Sequence[_Row], events_ms: Sequence[int]) -> int:
    """Return the number of members that a consumer group usually has, apart from deployments.

    It is the largest number that the group had for at least a fifth of the time.

    Args:
        rebalances: recorded rebalances with their number of members.
        events_ms: times of the group's recorded events; the last one ends the recording.
    """
    # The mean would be too low, because restarts and deployments make a group smaller for a while.
    # Time without members does not count. The result is 0 if the group never had members.
    lasted: Counter[int] = Counter()
    last_ms = max(events_ms, default=0)
    for row, after in zip_longest(rebalances, rebalances[1:]):
        if row["members"]:
            until_ms = last_ms if after is None else after["time_ms"]
            lasted[int(row["members"])] += max(0, until_ms - row["time_ms"])
    if not any(lasted.values()):
        return max((int(row["members"]) for row in rebalances), default=0)
    enough, passed = _USUAL * sum(lasted.values()), 0
    for size in sorted(lasted, reverse=True):
        passed += lasted[size]
        if passed >= enough:
            return size
    return min(lasted)


def _commit_interval(commit_rates: Iterable[_Row]) -> float:
    """Return the usual time between two offset commits of a partition, in seconds.

    It is the median over all minutes and partitions. ``commit_rates`` has the number of commits of
    each minute.
    """
    intervals = [60 / row["commits"] for row in commit_rates if row["commits"] > 1]
    return median(intervals) if intervals else DEFAULT_COMMIT_S


def _commits_on_stop(pauses: Iterable[_Row]) -> bool:
    """Return whether a group's members commit their offsets when they stop consuming.

    If they do not, the next owner reads records twice. ``pauses`` has the number of such records
    for each pause in a partition's consumption.
    """
    # The answer is no if records were read twice after many pauses, in which a partition had no
    # reader.
    known = [row["rewind"] for row in pauses if row["rewind"] is not None]
    return not known or sum(one > 0 for one in known) < _UNCOMMITTED * len(known)


def _unread_time(unread: Iterable[_Row], rebalances: Iterable[_Row]) -> tuple[float, int]:
    """Return the mean time in seconds for which a restart left a partition without a consumer.

    ``unread`` has the recorded times without a consumer, ``rebalances`` the causes of rebalances.

    Returns:
        this mean, and the number of rebalances from which it was computed.
    """
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
