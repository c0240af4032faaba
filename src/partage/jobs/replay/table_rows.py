"""Rows of tables from a group's history, without the group's name."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from partage.history.causes import is_follow_up
from partage.history.clients import identify_client, leader_client
from partage.history.events import INFERRED, Cause, Event, Generation, compare_states
from partage.history.ownership import Interval
from partage.history.pauses import Pause, stopped_partitions
from partage.history.records import ClassicState, MemberState, Pairs, subscription_hash
from partage.history.storms import StormTracker
from partage.simulation.costs import stop_length
from partage.simulation.metrics import NOTHING

__all__ = [
    "RebalanceRows",
    "event_row",
    "interval_row",
    "member_row",
    "pause_row",
    "rebalance_row",
]


#: Rows that wait for later commits; older rows get the duration that is known by then.
_MOST_PENDING = 256
_Key = tuple[int, int]
_Pending = tuple[_Key, dict[str, Any], frozenset[tuple[str, int]]]


def event_row(event: Event, position: int) -> dict[str, Any]:
    """Return a row of table ``events``; ``position`` is its order within its record."""
    return {
        "incarnation": event.incarnation, "generation": event.generation,
        "log_partition": event.position.partition, "log_offset": event.position.offset,
        "position": position, "time_ms": event.time_ms, "event": event.event,
        "member": event.member, "instance": event.instance, "source": event.source,
        "detail": event.detail,
    }  # fmt: skip


def interval_row(interval: Interval) -> dict[str, Any]:
    """Return a row of table ``ownership``."""
    names = (
        "incarnation", "topic_id", "topic", "partition", "member", "instance", "role", "from_ms",
        "to_ms", "from_generation", "to_generation",
    )  # fmt: skip
    return {name: getattr(interval, name) for name in names}


def pause_row(pause: Pause) -> dict[str, Any]:
    """Return a row of table ``pauses``."""
    return {**pause._asdict(), "pause_ms": pause.pause_ms}


def rebalance_row(generation: Generation, reason: str | None) -> dict[str, Any]:
    """Return a row of table ``rebalances``; its cluster, verdict and duration are added later.

    Args:
        generation: the rebalance.
        reason: why policies are not simulated on it; None if they are.
    """
    state = generation.first
    change = compare_states(generation.previous.last if generation.previous else None, state)
    main = generation.causes[0] if generation.causes else Cause("unknown", INFERRED)
    topics = [c.detail or "" for c in generation.causes if c.kind == "topics"]
    words = [change.cause] if not topics or not change.follow_up else []
    words += [f"topics changed: {'; '.join(topics)}"] if topics else []
    if main.other is not None:
        words.append(f"{main.kind} ({main.probability:.0%}) or {main.other}")
    return {
        "incarnation": generation.incarnation, "generation": generation.number,
        "log_partition": generation.position.partition, "log_offset": generation.position.offset,
        "time_ms": generation.timestamp_ms, "state_time_ms": state.state_time_ms,
        "protocol_type": state.protocol_type, "strategy": state.strategy, "leader": state.leader,
        "leader_client": leader_client(state),
        "members": len(state.members),
        "partitions": sum(len(n) for m in state.members for _, n in m.assigned),
        "records": generation.records, "gap_before": generation.gap_before,
        "cause": ", ".join(words),
        "follow_up": change.follow_up and is_follow_up(generation, generation.previous),
        "joined": len(change.joined), "left": len(change.left),
        "restarted": len(change.restarted), "resubscribed": len(change.resubscribed),
        "clients": sorted({identify_client(m).name for m in state.members}),
        "replayed": reason is None, "why_not": reason, "protocol": generation.protocol,
        "cause_kind": main.kind, "cause_source": main.source,
        "cause_probability": main.probability, "cause_other": main.other,
    }  # fmt: skip


def member_row(member: MemberState, state: ClassicState) -> dict[str, Any]:
    """Return a row of table ``members``."""
    client = identify_client(member)
    sent = member.subscription
    return {
        "member": member.id, "instance": member.instance, "client_id": member.client_id,
        "client_host": member.client_host, "client": client.name, "certainty": client.certainty,
        "leader": member.id == state.leader, "rack": sent.rack if sent else None,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "subscription": subscription_hash(sent.topics) if sent else None,
        "topics": list(sent.topics) if sent else [],
        "subscription_version": sent.version if sent and sent.version >= 0 else None,
        "user_data": sent.user_data if sent else None,
        "claims": _pairs(sent.owned if sent else ()),
        "claims_generation": sent.generation if sent else -1,
        "assignment_version": member.assignment_version if member.assignment_version >= 0 else None,
        "assignment": _pairs(member.assigned),
    }  # fmt: skip


def _pairs(pairs: Pairs) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in pairs]


class RebalanceRows:
    """Complete rows of table ``rebalances`` by storm and duration, in the order of the log.

    The duration follows from commits around the rebalance, some of which come later in the log.
    """

    def __init__(self) -> None:
        self._storms: StormTracker[_Pending] = StormTracker()
        self._pending: deque[tuple[_Pending, int | None]] = deque()
        self._pauses: dict[_Key, list[Pause]] = {}

    def row(self, generation: Generation, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Add a rebalance's row; yield the rows that are complete."""
        key = (generation.incarnation, generation.number)
        window = max((m.session_timeout_ms for m in generation.first.members), default=0)
        counts = row["cause_kind"] not in ("follow-up", "migration")
        pending = (key, row, stopped_partitions(generation))
        fed = self._storms.feed(pending, generation.timestamp_ms, max(window, 0), counts=counts)
        self._pending.extend(fed)
        while len(self._pending) > _MOST_PENDING:
            yield self._complete()

    def pause(self, pause: Pause) -> None:
        """Add a pause of a rebalance whose row may come later."""
        self._pauses.setdefault((pause.incarnation, pause.generation), []).append(pause)
        if len(self._pauses) > 2 * _MOST_PENDING:
            del self._pauses[next(iter(self._pauses))]

    def finish(self) -> Iterator[dict[str, Any]]:
        """Yield the remaining rows."""
        self._pending.extend(self._storms.finish())
        while self._pending:
            yield self._complete()

    def _complete(self) -> dict[str, Any]:
        (key, row, stopped), storm = self._pending.popleft()
        pauses = (p for p in self._pauses.get(key, []) if (p.topic, p.partition) in stopped)
        bounds = stop_length((pause, NOTHING) for pause in pauses)
        return row | {
            "storm": storm,
            "stopped_low_ms": None if bounds is None else int(bounds.low),
            "stopped_high_ms": None if bounds is None else int(bounds.high),
        }
