"""Decoded group records as values: records, states of classic groups, and members.

A `GroupRecord` is any record of `__consumer_offsets` but an offset commit. The state of a classic
group comes from two forms of decoding with equal results: `parse_classic_state` takes one decoded
record, `ClassicStates` takes the columns of `partage.wire.columns.classic_groups`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Generic, TypeVar, cast

from partage.errors import WireFormatError
from partage.java.strings import decode_utf8
from partage.wire.columns.classic_groups import ClassicColumns, MemberPayloads
from partage.wire.consumer_protocol import (
    CONSUMER_PROTOCOL_ASSIGNMENT,
    FAUST_VERSION,
    read_embedded,
    read_recorded_subscription,
)
from partage.wire.faust import read_faust_assignment

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
    "recorded_plan",
    "subscription_hash",
]

#: The protocol type of consumers, whose payloads follow the consumer protocol.
CONSUMER = "consumer"
#: First word of a record type -> protocol of the group.
PROTOCOLS: Mapping[str, str] = {
    "GROUP": "classic",
    "CONSUMER": "consumer",
    "SHARE": "share",
    "STREAMS": "streams",
}

#: Topics with their partition numbers, in the order stored; a topic may occur twice.
Pairs = tuple[tuple[str, tuple[int, ...]], ...]
#: (topic id or subtopology id, partition numbers), in the order stored.
TopicPartitionNumbers = tuple[tuple[str, tuple[int, ...]], ...]

_T = TypeVar("_T")
#: Distinct payloads of each kind whose parsed form is cached, and bytes of the longest of them:
#: together some megabytes.
_CACHED = 4_096
_LONGEST_CACHED = 2_048


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """Position of a record in the log: a partition of ``__consumer_offsets`` and an offset in it.

    Positions can be compared.

    >>> LogPosition(0, 9) < LogPosition(0, 10)
    True
    """

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """Subscription of a consumer exactly as the consumer sent it.

    The bytes are ConsumerProtocolSubscription version 0 to 3, or Faust's own layout.

    Attributes:
        version: version in the header; 4 for Faust's layout, -1 if the member sent no such bytes.
        topics: subscribed topics, in the order sent.
        user_data: the assignor's user data; None and empty differ.
        owned: ``ownedPartitions`` (from v1), as sent.
        generation: ``generationId`` (from v2), -1 for none.
        rack: ``rackId`` (from v3); None and empty differ.
        pattern: regular expression that the broker matches (``SubscribedTopicRegex`` of the
            consumer protocol, RE2 syntax); None without one. Classic members match on their own.
    """

    version: int
    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned: Pairs = ()
    generation: int = -1
    rack: str | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class MemberState:
    """Member of a recorded consumer group: its settings, its subscription and its partitions.

    Attributes:
        subscription: None if the protocol type is not ``consumer`` or the bytes are damaged.
        assigned: partitions assigned by the leader, in the order stored; of a Faust worker only
            those that it processes, not its standbys.
        assignment_version: -1 if no assignment can be parsed.
        damage: error of parsing the subscription or the assignment; None if both are intact.
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
    def owner_identity(self) -> str:
        """The instance id of a static member, or the member id of a dynamic one.

        The instance id of a static member stays the same when it restarts.
        """
        return self.id if self.instance is None else self.instance


@dataclass(frozen=True, slots=True)
class ClassicState:
    """State of a classic consumer group in one log record: its members, protocol and leader.

    The record type is GROUP_METADATA (key version 2).

    Attributes:
        strategy: the protocol that the group chose; None for an empty group.
        state_time_ms: ``currentStateTimestamp``; None before value version 2.
    """

    protocol_type: str
    generation: int
    strategy: str | None
    leader: str | None
    state_time_ms: int | None
    members: tuple[MemberState, ...]


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """Decoded record of a consumer group in ``__consumer_offsets``, other than an offset commit.

    Attributes:
        position: the record's position in the log.
        timestamp_ms: the record's time.
        type: Kafka's name of the record type, as in `partage.wire.group_log.RECORD_TYPES`.
        key: fields of the record's key, as `partage.wire.group_log` decodes them or as in JSON.
        value: fields of the record's value in the same form; None for a tombstone.
        state: state of a classic group if its record was decoded by column; ``value`` is None then.

    >>> key = {"groupId": "g"}
    >>> GroupRecord(LogPosition(0, 1), 5, "SHARE_GROUP_METADATA", key, None).group_protocol
    'share'
    """

    position: LogPosition
    timestamp_ms: int
    type: str
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None
    state: ClassicState | None = None

    @property
    def group_protocol(self) -> str:
        """Protocol of the record's group: classic, consumer, share or streams.

        The first word of the record type shows it.
        """
        return PROTOCOLS[self.type.split("_", 1)[0]]

    @property
    def record_type(self) -> str:
        """Type of the log record without the group's protocol, such as ``GROUP_MEMBER_METADATA``.

        Corresponding records of consumer, share and streams groups have the same type.
        """
        return self.type if self.group_protocol == "classic" else self.type.split("_", 1)[1]


def assigned_partitions(member: MemberState) -> tuple[tuple[str, int], ...]:
    """Return the (topic, partition) pairs that are assigned to a member, each once.

    They are in the order of the record.
    """
    # librdkafka's cooperative-sticky may list a topic twice in one assignment.
    flat = ((topic, p) for topic, numbers in member.assigned for p in numbers)
    return tuple(dict.fromkeys(flat))


def recorded_plan(state: ClassicState) -> dict[str, dict[str, list[int]]]:
    """Return the assignment in a recorded group state as nested dicts, by member and topic.

    For example, ``{"a": {"t": [0, 1]}, "b": {}}`` if member ``b`` has no partitions.
    """
    out: dict[str, dict[str, list[int]]] = {}
    for member in state.members:
        topics = out.setdefault(member.id, {})
        for topic, p in assigned_partitions(member):
            topics.setdefault(topic, []).append(p)
    return out


def partition_numbers(rows: Any, name: str = "topicId") -> TopicPartitionNumbers:
    """Convert topic rows of a decoded record to (topic id, partition numbers) pairs.

    Rows of Kafka Streams tasks have the id of a sub-topology in place of a topic id. ``name`` is
    the field that has the id.

    >>> partition_numbers([{"topicId": "x", "partitions": [1, 0]}])
    (('x', (1, 0)),)
    """
    return tuple((row[name], tuple(row["partitions"])) for row in rows or ())


def subscription_hash(topics: tuple[str, ...]) -> str:
    """Return a hash of a consumer's subscribed topics that is equal on every machine.

    Unlike Python's own `hash`, it does not depend on the process.

    >>> subscription_hash(("a", "b")) == subscription_hash(("ab",))
    False
    """
    digest = blake2b(digest_size=8)
    for topic in topics:
        raw = topic.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.hexdigest()


# --- one record at a time ---------------------------------------------------------------------

#: Subscription, assigned partitions, version and user data of the assignment, parsing error.
_Parsed = tuple["Subscription | None", Pairs, int, "bytes | None", "str | None"]
#: The last four of `MemberState`'s assignment fields for a member without an assignment.
_Assigned = tuple[Pairs, int, "bytes | None"]
_NOT_ASSIGNED: _Assigned = ((), -1, None)


def parse_classic_state(value: Mapping[str, Any]) -> ClassicState:
    """Parse the state of a classic group from the decoded value of its log record.

    Binary fields may be bytes (as `partage.wire.group_log` decodes them) or base64 text (as in
    JSON). If the bytes of one member are damaged, the others are still parsed (see
    `MemberState.damage`).
    """
    protocol_type = value["protocolType"] or ""
    stamp = value.get("currentStateTimestamp", -1)
    return ClassicState(
        protocol_type,
        value["generation"],
        value["protocol"],
        value["leader"],
        None if stamp is None or stamp < 0 else stamp,
        tuple(_member(m, is_consumer=protocol_type == CONSUMER) for m in value["members"]),
    )


def _member(value: Mapping[str, Any], *, is_consumer: bool) -> MemberState:
    parsed: _Parsed = (None, *_NOT_ASSIGNED, None)
    if is_consumer:
        parsed = parse_payloads(_raw(value["subscription"]), _raw(value["assignment"]))
    session = value["sessionTimeout"]
    return MemberState(
        value["memberId"],
        value.get("groupInstanceId"),
        value["clientId"],
        value["clientHost"],
        # Before value version 1 the rebalance timeout was the session timeout.
        max(value.get("rebalanceTimeout", session), -1),
        session,
        *parsed,
    )


def parse_payloads(subscription: bytes, assignment: bytes) -> _Parsed:
    """Parse the bytes of a group member's subscription and assignment.

    Returns:
        The subscription, the fields of the assignment, and an error message if bytes are damaged.
    """
    sent: Subscription | None = None
    try:
        sent = _parse_cached(_parse_subscription, subscription)
        return (sent, *_parse_cached(_parse_assignment, assignment), None)
    except WireFormatError as e:
        return sent, *_NOT_ASSIGNED, str(e)


def _parse_cached(parse: Callable[[bytes], _T], encoded: bytes) -> _T:
    """Parse the bytes of a member's subscription or assignment, or return the cached result.

    Most members send the same bytes in every generation. ``parse`` is the function that parses
    ``encoded``.
    """
    return parse(encoded) if len(encoded) > _LONGEST_CACHED else cast("_T", _cached(parse, encoded))


@lru_cache(maxsize=_CACHED)
def _cached(parse: Callable[[bytes], object], raw: bytes) -> object:
    return parse(raw)


def _parse_subscription(raw: bytes) -> Subscription:
    version, data, _ = read_recorded_subscription(raw)
    return Subscription(
        version,
        tuple(data["topics"]),
        data["userData"],
        _pairs(data.get("ownedPartitions")),
        data.get("generationId", -1),
        data.get("rackId"),
    )


def _parse_assignment(raw: bytes) -> _Assigned:
    if not raw:  # the coordinator stores no bytes for a member that the leader left out
        return _NOT_ASSIGNED
    version, data, _ = read_embedded(CONSUMER_PROTOCOL_ASSIGNMENT, raw)
    return _assignment_fields(_pairs(data["assignedPartitions"]), version, data["userData"])


def _assignment_fields(pairs: Pairs, version: int, user_data: bytes | None) -> _Assigned:
    """Return a member's assignment as a tuple (partitions, version, user data).

    The version is that of the encoding. A worker of Faust also has the standby partitions of other
    workers; they are left out.
    """
    # Faust's workers also consume the changelogs of their standbys, whose owner is another worker.
    if version != FAUST_VERSION or user_data is None:
        return pairs, version, user_data
    try:
        actives = read_faust_assignment(user_data).actives
    except WireFormatError:
        return pairs, version, user_data
    active = {topic: frozenset(numbers) for topic, numbers in actives.items()}
    kept = (
        (topic, tuple(p for p in dict.fromkeys(numbers) if p in active.get(topic, ())))
        for topic, numbers in pairs
    )
    return tuple(one for one in kept if one[1]), version, user_data


def _pairs(rows: Any) -> Pairs:
    return tuple((r["topic"], tuple(r["partitions"])) for r in rows or ())


def _raw(value: bytes | str | None) -> bytes:
    if value is None:
        return b""
    return base64.b64decode(value) if isinstance(value, str) else bytes(value)


# --- many records by column -------------------------------------------------------------------

_RECORD_COLUMNS = (
    "row", "generation", "state_ms", "protocol_type", "protocol", "leader", "members_from",
    "members",
)  # fmt: skip


class ClassicStates:
    """Converter of decoded group records, given as columns, to states of classic groups.

    Equal members and subscriptions become one shared object, which saves memory and time.
    """

    # Most members send the same bytes in every generation. Equal bytes become one object, within a
    # batch and across batches.
    def __init__(self) -> None:
        self.consumers: dict[bytes, MemberState] = {}
        self.other_members: dict[bytes, MemberState] = {}
        self.subscriptions: dict[bytes, Subscription | None] = {}
        self.assignments: dict[bytes, _Assigned | None] = {}

    def yield_states(self, decoded_columns: ClassicColumns) -> Iterator[tuple[int, ClassicState]]:
        """Yield the group state of each classic group record in a batch of log records.

        Items are (row, state); a row is the record's index in the batch. ``decoded_columns`` are
        the columns of the decoded batch.
        """
        members = _BatchMembers(self, decoded_columns)
        text, listed = decoded_columns.texts.decoded_text, decoded_columns.listed.tolist()
        columns = (decoded_columns.column_of_field(name).tolist() for name in _RECORD_COLUMNS)
        for row, generation, state_ms, kind, strategy, leader, first, count in zip(
            *columns, strict=True
        ):
            protocol_type = text(kind)
            member = members.consumer if protocol_type == CONSUMER else members.other
            yield row, ClassicState(
                protocol_type, generation,
                None if strategy < 0 else text(strategy), None if leader < 0 else text(leader),
                None if state_ms < 0 else state_ms,
                tuple(map(member, listed[first : first + count])),
            )  # fmt: skip


class _CodeCache(Generic[_T]):
    """Cache of Python objects for the integer codes in a batch of decoded records.

    A code stands for a distinct value in the batch, such as the bytes that a member sent. Its
    object is created at the first use.

    Args:
        known: dict from bytes to object of earlier batches; new objects are added.
        bytes_of: function from a code to its bytes.
        create: function from (code, bytes) to a new object.
    """

    # Objects of earlier batches with equal bytes are reused.
    def __init__(
        self,
        known: dict[bytes, _T],
        bytes_of: Callable[[int], bytes],
        create: Callable[[int, bytes], _T],
    ) -> None:
        self._by_code: dict[int, _T] = {}
        self._known, self._bytes_of, self._create = known, bytes_of, create

    def __call__(self, code: int) -> _T:
        try:
            return self._by_code[code]
        except KeyError:
            raw = self._bytes_of(code)
        try:
            value = self._known[raw]
        except KeyError:
            value = self._create(code, raw)
            if len(raw) <= _LONGEST_CACHED:
                if len(self._known) >= _CACHED:
                    self._known.clear()
                self._known[raw] = value
        self._by_code[code] = value
        return value


class _BatchMembers:
    """Lookup of group members by the integer codes that stand for them in a batch of decoded
    records.

    ``consumer`` returns members of consumer groups, ``other`` members with another protocol type.
    """

    def __init__(self, states: ClassicStates, found: ClassicColumns) -> None:
        self._found, self._cells = found, found.members.tolist()
        subscriptions = _PayloadColumns(found.subscriptions)
        assignments = _PayloadColumns(found.assignments)
        self.consumer = _CodeCache(states.consumers, self._cache_key, self._create_consumer)
        self.other = _CodeCache(states.other_members, self._cache_key, self._create_other)
        self._subscription = _CodeCache(
            states.subscriptions,
            found.subscriptions.sent.raw_bytes,
            subscriptions.find_subscription,
        )
        self._assigned = _CodeCache(
            states.assignments, found.assignments.sent.raw_bytes, assignments.find_assignment
        )

    def _cache_key(self, member_code: int) -> bytes:
        """Return the bytes by which a group member is found in the cache of earlier batches of
        records.

        ``member_code`` is the integer that stands for the member in this batch.
        """
        return self._found.whole.raw_bytes(member_code) + bytes(self._cells[member_code][:1])

    def _create_consumer(self, code: int, _: bytes) -> MemberState:
        sent, received = self._cells[code][7:]
        subscription, assigned = self._subscription(sent), self._assigned(received)
        if (
            subscription is None or assigned is None
        ):  # the wire engine parses it, or names the error
            found = self._found
            raws = (
                found.subscriptions.sent.raw_bytes(sent),
                found.assignments.sent.raw_bytes(received),
            )
            return self._create(code, parse_payloads(*raws))
        return self._create(code, (subscription, *assigned, None))

    def _create_other(self, code: int, _: bytes) -> MemberState:
        """Create a member whose protocol type is not "consumer", for example of Kafka Connect.

        Its subscription and assignment are not parsed. ``code`` is the member's integer code in the
        batch.
        """
        return self._create(code, (None, *_NOT_ASSIGNED, None))

    def _create(self, code: int, parsed: _Parsed) -> MemberState:
        _, name, instance, client, host, rebalance_ms, session_ms, _, _ = self._cells[code]
        text = self._found.texts.decoded_text
        return MemberState(
            text(name), None if instance < 0 else text(instance), text(client), text(host),
            max(rebalance_ms, -1), session_ms, *parsed,
        )  # fmt: skip


class _PayloadColumns:
    """Lookup of the subscriptions and assignments that compiled code has decoded in a batch of
    records.

    Each has an integer code. If the compiled code could not decode it, the result is None, and the
    caller must parse its bytes.
    """

    def __init__(self, found: MemberPayloads) -> None:
        self._heads, self._pairs = found.heads.tolist(), found.pairs.tolist()
        self._topics, self._numbers = found.topics.tolist(), found.numbers.tolist()
        self._text, self._data = found.names.decoded_text, found.sent.data.data

    def find_subscription(self, subscription_code: int, _: bytes) -> Subscription | None:
        """Return a member's subscription as compiled code has decoded it, or None.

        If it is None, the caller must parse the bytes. ``subscription_code`` is the integer that
        stands for the subscription in the batch.
        """
        (
            version, topics_from, topics, pairs_from, pairs, user_at, user_size, generation,
            rack_at, rack_size,
        ) = self._heads[subscription_code]  # fmt: skip
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

    def find_assignment(self, assignment_code: int, encoded: bytes) -> _Assigned | None:
        """Return a member's assignment as compiled code has decoded it, or None.

        It consists of partitions, version and user data. If it is None, the caller must parse the
        bytes (``encoded``). ``assignment_code`` is the integer that stands for the assignment in
        the batch.
        """
        if not encoded:  # the coordinator stores no bytes for a member that the leader left out
            return _NOT_ASSIGNED
        version, _, _, first, count, user_at, user_size, *_ = self._heads[assignment_code]
        if version < 0:
            return None
        pairs = self._pairs_of(first, count)
        return _assignment_fields(pairs, version, self._bytes(user_at, user_size))

    def _pairs_of(self, first: int, count: int) -> Pairs:
        text, numbers = self._text, self._numbers
        return tuple(
            (text(topic), tuple(numbers[at : at + many]))
            for topic, at, many in self._pairs[first : first + count]
        )

    def _bytes(self, at: int, size: int) -> bytes | None:
        return None if size < 0 else bytes(self._data[at : at + size])
