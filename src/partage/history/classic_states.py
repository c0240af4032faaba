"""States of classic groups from columns: objects are made of distinct bytes only, and lazily.

What a member's bytes say depends on nothing around them, so equal bytes are one object, from one
generation to the next and from one batch of records to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from partage.history.records import (
    CONSUMER,
    ClassicState,
    MemberState,
    Pairs,
    Said,
    Subscription,
    payloads_of,
)
from partage.java.strings import decode_utf8
from partage.wire.classic_columns import ClassicColumns, Payloads

__all__ = ["ClassicStates"]

_T = TypeVar("_T")
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
            return self._made(code, payloads_of(*raws))
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
