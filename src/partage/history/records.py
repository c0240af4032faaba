"""A classic group's record as a value: one generation as the coordinator stored it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeVar, cast

from partage.errors import WireFormatError
from partage.wire.consumer_protocol import read_embedded, read_recorded_subscription
from partage.wire.messages import CONSUMER_PROTOCOL_ASSIGNMENT

__all__ = [
    "CONSUMER",
    "ClassicState",
    "MemberState",
    "Pairs",
    "Place",
    "Subscription",
    "classic_state",
    "payloads_of",
    "subscription_hash",
]

#: The protocol type of ordinary consumers, whose payloads are the consumer protocol.
CONSUMER = "consumer"

_T = TypeVar("_T")
#: Bytes of a member of which what they say is kept: with 4,096 of them, some megabytes.
_LONGEST_KEPT = 2_048

#: Topics with their partition numbers, in the order stored; a topic may be there twice.
Pairs = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a record stands in `__consumer_offsets`; the only order there is.

    >>> Place(0, 9) < Place(0, 10)
    True
    """

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription as it sent it (ConsumerProtocolSubscription v0..v3, or Faust's).

    Attributes:
        version: of the header, 4 where Faust sent it; -1 if the bytes could not be read.
        topics: in the order sent.
        user_data: None and empty differ.
        owned: ``ownedPartitions`` (from v1), as sent.
        generation: ``generationId`` (from v2), -1 for none.
        rack: ``rackId`` (from v3); None and empty differ.
    """

    version: int
    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned: Pairs = ()
    generation: int = -1
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class MemberState:
    """One member of a generation.

    Attributes:
        subscription: None where the protocol type is not ``consumer`` or the bytes are damaged.
        assigned: what the leader gave it, in the order stored.
        assignment_version: -1 where there is no readable assignment.
        damage: why subscription or assignment could not be read, None if they could.
    """

    id: str
    instance: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: Subscription | None
    assigned: Pairs
    assignment_version: int
    assignment_user_data: bytes | None
    damage: str | None

    @property
    def owner(self) -> str:
        """What stays the same over a restart: the instance id of a static member, else the id."""
        return self.id if self.instance is None else self.instance


#: Subscription, assignment, its version and user data, and what was wrong with either.
Said = tuple["Subscription | None", Pairs, int, "bytes | None", "str | None"]


@dataclass(frozen=True, slots=True)
class ClassicState:
    """A classic group as one GROUP_METADATA record has it (key version 2).

    Attributes:
        strategy: the protocol that the group chose; None when nobody is there.
        state_time_ms: ``currentStateTimestamp``; None before value version 2.
    """

    protocol_type: str
    generation: int
    strategy: str | None
    leader: str | None
    state_time_ms: int | None
    members: tuple[MemberState, ...]


def classic_state(value: Mapping[str, Any]) -> ClassicState:
    """From the decoded value of a GROUP_METADATA record.

    Binary fields may be bytes (as `partage.wire.group_log` gives them) or base64 text (as
    JSON has them). A member's damaged bytes do not lose the generation: see ``damage``.
    """
    protocol_type = value["protocolType"] or ""
    stamp = value.get("currentStateTimestamp", -1)
    return ClassicState(
        protocol_type,
        value["generation"],
        value["protocol"],
        value["leader"],
        None if stamp is None or stamp < 0 else stamp,
        tuple(_member(m, readable=protocol_type == CONSUMER) for m in value["members"]),
    )


def _member(value: Mapping[str, Any], *, readable: bool) -> MemberState:
    said: Said = (None, (), -1, None, None)
    if readable:
        said = payloads_of(_raw(value["subscription"]), _raw(value["assignment"]))
    session = value["sessionTimeout"]
    return MemberState(
        value["memberId"],
        value.get("groupInstanceId"),
        value["clientId"],
        value["clientHost"],
        # Before value version 1 the rebalance timeout was the session timeout.
        max(value.get("rebalanceTimeout", session), -1),
        session,
        *said,
    )


def payloads_of(sent: bytes, got: bytes) -> Said:
    """What a member's subscription and assignment say, as `MemberState` has it; never an error."""
    subscription: Subscription | None = None
    try:
        subscription = _read_once(_subscription, sent)
        return (subscription, *_read_once(_assignment, got), None)
    except WireFormatError as e:
        return subscription, (), -1, None, str(e)


def _read_once(read: Callable[[bytes], _T], raw: bytes) -> _T:
    """What members sent, and got, is mostly what it was in the generation before."""
    return read(raw) if len(raw) > _LONGEST_KEPT else cast("_T", _kept(read, raw))


@lru_cache(maxsize=4_096)
def _kept(read: Callable[[bytes], object], raw: bytes) -> object:
    return read(raw)


def _subscription(raw: bytes) -> Subscription:
    version, data, _ = read_recorded_subscription(raw)
    return Subscription(
        version,
        tuple(data["topics"]),
        data["userData"],
        _pairs(data.get("ownedPartitions")),
        data.get("generationId", -1),
        data.get("rackId"),
    )


def _assignment(raw: bytes) -> tuple[Pairs, int, bytes | None]:
    if not raw:  # the coordinator stores no bytes for a member that the leader left out
        return (), -1, None
    version, data, _ = read_embedded(CONSUMER_PROTOCOL_ASSIGNMENT, raw)
    return _pairs(data["assignedPartitions"]), version, data["userData"]


def _pairs(rows: Any) -> Pairs:
    return tuple((r["topic"], tuple(r["partitions"])) for r in rows or ())


def _raw(value: bytes | str | None) -> bytes:
    if value is None:
        return b""
    return base64.b64decode(value) if isinstance(value, str) else bytes(value)


def subscription_hash(topics: tuple[str, ...]) -> str:
    """Content hash of the topics of a subscription: equal ones are equal everywhere.

    >>> subscription_hash(("a", "b")) == subscription_hash(("ab",))
    False
    """
    digest = blake2b(digest_size=8)
    for topic in topics:
        raw = topic.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.hexdigest()
