"""Members of consumer, share and streams groups as values, like those of a classic group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from partage.history.records import MemberState, Pairs, Subscription

__all__ = ["SERVER_VERSION", "member_state", "pairs_of", "speaks_classic", "topics_of"]

#: Version of a `Subscription` that was sent in a heartbeat, not as bytes of the consumer protocol.
SERVER_VERSION = -1
_UNKNOWN = "its member record is not in the log: it joined before the log begins"


def topics_of(value: Mapping[str, Any], resolved: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Subscribed topics: names as sent, then what the regular expression matches (KIP-848).

    >>> topics_of({"subscribedTopicNames": ["a"], "subscribedTopicRegex": "b.*"},
    ...           {"b.*": ("b1", "b2")})
    ('a', 'b1', 'b2')
    """
    names = value.get("subscribedTopicNames") or ()
    pattern = value.get("subscribedTopicRegex") or ""
    return tuple(dict.fromkeys((*names, *resolved.get(pattern, ()))))


def speaks_classic(value: Mapping[str, Any]) -> bool:
    """Whether a member of a consumer group joined by the classic protocol (in a migration).

    A record without the field reads as an empty struct, which no such member has.
    """
    classic = value.get("classicMemberMetadata")
    return classic is not None and bool(classic["supportedProtocols"])


def member_state(
    member: str,
    value: Mapping[str, Any] | None,
    topics: tuple[str, ...],
    *,
    owned: Pairs,
    assigned: Pairs,
    epoch: int,
) -> MemberState:
    """A member of a target assignment.

    Args:
        member: its id.
        value: of its member metadata record; None where the log has none.
        topics: subscribed ones, regular expressions resolved.
        owned: its target before, which is what the coordinator goes by.
        assigned: its target now.
        epoch: of the target before, -1 if there was none.
    """
    if value is None:
        return MemberState(member, None, "", "", -1, -1, None, assigned, -1, None, _UNKNOWN)
    sent = Subscription(SERVER_VERSION, topics, None, owned, epoch, value.get("rackId"))
    classic = value["classicMemberMetadata"] if speaks_classic(value) else None
    return MemberState(
        member,
        value.get("instanceId"),
        value["clientId"],
        value["clientHost"],
        value.get("rebalanceTimeoutMs", -1),
        classic["sessionTimeoutMs"] if classic else -1,
        sent,
        assigned,
        -1,
        None,
        None,
    )


def pairs_of(flat: Iterable[tuple[str, int]]) -> Pairs:
    """(topic, partition) in order, as runs of one topic.

    >>> pairs_of([("a", 1), ("a", 0), ("b", 2)])
    (('a', (1, 0)), ('b', (2,)))
    """
    runs = groupby(flat, key=lambda pair: pair[0])
    return tuple((topic, tuple(p for _, p in run)) for topic, run in runs)
