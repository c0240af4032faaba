"""Decoded records of groups as values: classic group states, members, positions in the log."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Generic, TypeVar, cast

from partage.errors import WireFormatError
from partage.java.strings import decode_utf8
from partage.wire.classic_columns import ClassicColumns, Payloads
from partage.wire.consumer_protocol import (
    CONSUMER_PROTOCOL_ASSIGNMENT,
    read_embedded,
    read_recorded_subscription,
)

__all__ = [
    "CONSUMER",
    "PROTOCOLS",
    "ClassicState",
    "ClassicStates",
    "GroupRecord",
    "LogPosition",
    "MemberState",
    "Pairs",
    "Subscription",
    "TopicPartitionNumbers",
    "assigned_partitions",
    "parse_classic_state",
    "parse_payloads",
    "partition_numbers",
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
class LogPosition:
    """Where a record stands in `__consumer_offsets`; the only order there is.

    >>> LogPosition(0, 9) < LogPosition(0, 10)
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


def parse_classic_state(value: Mapping[str, Any]) -> ClassicState:
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
        said = parse_payloads(_raw(value["subscription"]), _raw(value["assignment"]))
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


def parse_payloads(sent: bytes, got: bytes) -> Said:
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


#: First word of a record type -> protocol of the group.
PROTOCOLS: Mapping[str, str] = {
    "GROUP": "classic",
    "CONSUMER": "consumer",
    "SHARE": "share",
    "STREAMS": "streams",
}


#: (topic id or subtopology, partition numbers) in the order stored.
TopicPartitionNumbers = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """Any record of a group that is no offset commit.

    Attributes:
        type: Kafka's name of the record type, as in `partage.wire.group_log.RECORD_TYPES`.
        key, value: as `partage.wire.group_log` decodes them, or as its JSON has them;
            value is None for a tombstone.
        state: of a classic group, where it has been made of columns; then ``value`` is None.

    >>> GroupRecord(LogPosition(0, 1), 5, "SHARE_GROUP_METADATA", {"groupId": "g"}, None).kind
    'share'
    """

    position: LogPosition
    timestamp_ms: int
    type: str
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None
    state: ClassicState | None = None

    @property
    def kind(self) -> str:
        """The protocol of the group: classic, consumer, share or streams."""
        return PROTOCOLS[self.type.split("_", 1)[0]]

    @property
    def what(self) -> str:
        """The record type without the kind: ``GROUP_METADATA``, ``GROUP_MEMBER_METADATA``, ..."""
        return self.type if self.kind == "classic" else self.type.split("_", 1)[1]


def partition_numbers(rows: Any, name: str = "topicId") -> TopicPartitionNumbers:
    """Rows of ``{topicId, partitions}`` (or ``subtopologyId``) as pairs.

    >>> partition_numbers([{"topicId": "x", "partitions": [1, 0]}])
    (('x', (1, 0)),)
    """
    return tuple((row[name], tuple(row["partitions"])) for row in rows or ())


def assigned_partitions(member: MemberState) -> tuple[tuple[str, int], ...]:
    """A member's (topic, partition) pairs once each, in the order stored.

    librdkafka's cooperative-sticky may list a topic twice in one assignment.
    """
    flat = ((topic, p) for topic, numbers in member.assigned for p in numbers)
    return tuple(dict.fromkeys(flat))


#: Things of each kind that are remembered from one batch to the next; some megabytes.
_MOST = 4_096


_LONGEST = 2_048


#: What an assignment says, as `records.MemberState` has it.
_Assigned = tuple[Pairs, int, "bytes | None"]


_NOT_GIVEN: _Assigned = ((), -1, None)


_RECORD = (
    "row", "generation", "state_ms", "protocol_type", "protocol", "leader", "members_from",
    "members",
)  # fmt: skip


class ClassicStates:
    """Makes states; feed the columns of one batch after the other."""

    def __init__(self) -> None:
        self.consumers: dict[bytes, MemberState] = {}
        self.strangers: dict[bytes, MemberState] = {}
        self.subscriptions: dict[bytes, Subscription | None] = {}
        self.assignments: dict[bytes, _Assigned | None] = {}

    def of(self, found: ClassicColumns) -> Iterator[tuple[int, ClassicState]]:
        """Row and state of each plain record, in order."""
        members = _Members(self, found)
        text, listed = found.texts.text, found.listed.tolist()
        columns = (found.column(name).tolist() for name in _RECORD)
        for row, generation, state_ms, kind, strategy, leader, first, count in zip(
            *columns, strict=True
        ):
            protocol_type = text(kind)
            member = members.consumer if protocol_type == CONSUMER else members.stranger
            yield row, ClassicState(
                protocol_type, generation,
                None if strategy < 0 else text(strategy), None if leader < 0 else text(leader),
                None if state_ms < 0 else state_ms,
                tuple(map(member, listed[first : first + count])),
            )  # fmt: skip


class _Once(Generic[_T]):
    """What codes of one batch stand for: each made once, or known by its bytes from before."""

    def __init__(
        self,
        known: dict[bytes, _T],
        bytes_of: Callable[[int], bytes],
        make: Callable[[int, bytes], _T],
    ) -> None:
        self._here: dict[int, _T] = {}
        self._known, self._bytes_of, self._make = known, bytes_of, make

    def __call__(self, code: int) -> _T:
        try:
            return self._here[code]
        except KeyError:
            raw = self._bytes_of(code)
        try:
            found = self._known[raw]
        except KeyError:
            found = self._make(code, raw)
            if len(raw) <= _LONGEST:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[raw] = found
        self._here[code] = found
        return found


class _Members:
    """Members of one batch by their codes."""

    def __init__(self, states: ClassicStates, found: ClassicColumns) -> None:
        self._found, self._cells = found, found.members.tolist()
        self._sent, self._got = _Reading(found.subscriptions), _Reading(found.assignments)
        self.consumer = _Once(states.consumers, self._bytes_of, self._consumer)
        self.stranger = _Once(states.strangers, self._bytes_of, self._stranger)
        self._subscription = _Once(
            states.subscriptions, found.subscriptions.sent.raw, self._sent.subscription
        )
        self._assigned = _Once(states.assignments, found.assignments.sent.raw, self._got.assigned)

    def _bytes_of(self, code: int) -> bytes:
        """A member's bytes, and by which layout they are read."""
        return self._found.whole.raw(code) + bytes(self._cells[code][:1])

    def _consumer(self, code: int, _: bytes) -> MemberState:
        sent, got = self._cells[code][7:]
        subscription, assigned = self._subscription(sent), self._assigned(got)
        if subscription is None or assigned is None:  # the engine says what is wrong with it
            raws = self._found.subscriptions.sent.raw(sent), self._found.assignments.sent.raw(got)
            return self._made(code, parse_payloads(*raws))
        return self._made(code, (subscription, *assigned, None))

    def _stranger(self, code: int, _: bytes) -> MemberState:
        """Of another protocol type: nobody knows what its payloads say."""
        return self._made(code, (None, *_NOT_GIVEN, None))

    def _made(self, code: int, said: Said) -> MemberState:
        _, name, instance, client, host, rebalance_ms, session_ms, _, _ = self._cells[code]
        text = self._found.texts.text
        return MemberState(
            text(name), None if instance < 0 else text(instance), text(client), text(host),
            max(rebalance_ms, -1), session_ms, *said,
        )  # fmt: skip


class _Reading:
    """What payloads of one batch say, by their codes; None where the engine is to read them."""

    def __init__(self, found: Payloads) -> None:
        self._heads, self._pairs = found.heads.tolist(), found.pairs.tolist()
        self._topics, self._numbers = found.topics.tolist(), found.numbers.tolist()
        self._text, self._data = found.names.text, found.sent.data.data

    def subscription(self, code: int, _: bytes) -> Subscription | None:
        """A subscription."""
        (
            version, topics_from, topics, pairs_from, pairs, user_at, user_size, generation,
            rack_at, rack_size,
        ) = self._heads[code]  # fmt: skip
        if version < 0:
            return None
        rack = self._bytes(rack_at, rack_size)
        return Subscription(
            version,
            tuple(map(self._text, self._topics[topics_from : topics_from + topics])),
            self._bytes(user_at, user_size),
            self._pairs_of(pairs_from, pairs),
            generation,
            None if rack is None else decode_utf8(rack),
        )

    def assigned(self, code: int, raw: bytes) -> _Assigned | None:
        """An assignment."""
        if not raw:  # the coordinator stores no bytes for a member that the leader left out
            return _NOT_GIVEN
        version, _, _, first, count, user_at, user_size, *_ = self._heads[code]
        if version < 0:
            return None
        return self._pairs_of(first, count), version, self._bytes(user_at, user_size)

    def _pairs_of(self, first: int, count: int) -> Pairs:
        text, numbers = self._text, self._numbers
        return tuple(
            (text(topic), tuple(numbers[at : at + many]))
            for topic, at, many in self._pairs[first : first + count]
        )

    def _bytes(self, at: int, size: int) -> bytes | None:
        return None if size < 0 else bytes(self._data[at : at + size])
