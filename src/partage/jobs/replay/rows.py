"""Rows of the tables, from what a group's history gives; without the group's name."""

from __future__ import annotations

from typing import Any

from partage.history.causes import is_follow_up
from partage.history.clients import identify_client, leader_client
from partage.history.events import Event, Generation, compare_states
from partage.history.ownership import Interval
from partage.history.pauses import Pause
from partage.history.records import ClassicState, MemberState, Pairs, subscription_hash

__all__ = [
    "event_row",
    "interval_row",
    "member_row",
    "pause_row",
    "rebalance_row",
]


def event_row(event: Event, position: int) -> dict[str, Any]:
    """A row of table ``events``: the ``position``-th of its record."""
    return {
        "incarnation": event.incarnation, "generation": event.generation,
        "log_partition": event.position.partition, "log_offset": event.position.offset,
        "position": position, "time_ms": event.time_ms, "event": event.event,
        "member": event.member, "instance": event.instance, "source": event.source,
        "detail": event.detail,
    }  # fmt: skip


def interval_row(i: Interval) -> dict[str, Any]:
    """A row of table ``ownership``."""
    return {
        "incarnation": i.incarnation, "topic_id": i.topic_id, "topic": i.topic,
        "partition": i.partition, "member": i.member, "instance": i.instance, "role": i.role,
        "from_ms": i.from_ms, "to_ms": i.to_ms, "from_generation": i.from_generation,
        "to_generation": i.to_generation,
    }  # fmt: skip


def pause_row(pause: Pause) -> dict[str, Any]:
    """A row of table ``pauses``."""
    return {**pause._asdict(), "pause_ms": pause.pause_ms}


def rebalance_row(found: Generation, reason: str | None) -> dict[str, Any]:
    """A row of table ``rebalances``, without what its surroundings and its strategy tell.

    Args:
        found: the rebalance.
        reason: why no strategies are run on it; None if they are.
    """
    state = found.first
    change = compare_states(found.previous.last if found.previous else None, state)
    topics = [c.detail or "" for c in found.causes if c.kind == "topics"]
    words = [change.cause] if not topics or not change.follow_up else []
    words += [f"topics changed: {'; '.join(topics)}"] if topics else []
    return {
        "incarnation": found.incarnation, "generation": found.number,
        "log_partition": found.position.partition, "log_offset": found.position.offset,
        "time_ms": found.timestamp_ms, "state_time_ms": state.state_time_ms,
        "protocol_type": state.protocol_type, "strategy": state.strategy, "leader": state.leader,
        "leader_client": leader_client(state),
        "members": len(state.members),
        "partitions": sum(len(n) for m in state.members for _, n in m.assigned),
        "records": found.records, "gap_before": found.gap_before,
        "cause": ", ".join(words),
        "follow_up": change.follow_up and is_follow_up(found, found.previous),
        "joined": len(change.joined), "left": len(change.left),
        "restarted": len(change.restarted), "resubscribed": len(change.resubscribed),
        "clients": sorted({identify_client(m).name for m in state.members}),
        "replayed": reason is None, "why_not": reason, "protocol": found.protocol,
        "cause_kind": found.causes[0].kind if found.causes else "unknown",
        "cause_source": found.causes[0].source if found.causes else "inferred",
    }  # fmt: skip


def member_row(m: MemberState, state: ClassicState) -> dict[str, Any]:
    """A row of table ``members``."""
    client = identify_client(m)
    sent = m.subscription
    return {
        "member": m.id, "instance": m.instance, "client_id": m.client_id,
        "client_host": m.client_host, "client": client.name, "certainty": client.certainty,
        "leader": m.id == state.leader, "rack": sent.rack if sent else None,
        "session_timeout_ms": m.session_timeout_ms,
        "rebalance_timeout_ms": m.rebalance_timeout_ms,
        "subscription": subscription_hash(sent.topics) if sent else None,
        "topics": list(sent.topics) if sent else [],
        "subscription_version": sent.version if sent and sent.version >= 0 else None,
        "user_data": sent.user_data if sent else None,
        "claims": _pairs(sent.owned if sent else ()),
        "claims_generation": sent.generation if sent else -1,
        "assignment_version": m.assignment_version if m.assignment_version >= 0 else None,
        "assignment": _pairs(m.assigned),
    }  # fmt: skip


def _pairs(pairs: Pairs) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in pairs]
