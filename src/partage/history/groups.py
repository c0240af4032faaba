"""One group's history whatever its protocols: classic generations and epochs in one line.

A group may be migrated from the classic to the consumer protocol and back: its members stay,
its numbers go on, and so does its history. `GroupHistory` hands each record to the part that
knows its protocol, and links what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from partage.history.classic import ClassicGroup, ClassicRecord, Generation, Life
from partage.history.events import Event
from partage.history.held import Held
from partage.history.records import classic_state
from partage.history.server import ServerGroup, ServerState
from partage.history.server_records import GroupRecord
from partage.history.topic_book import TopicBook

__all__ = ["Found", "GroupHistory"]

#: What a history consists of.
Found = Generation | Life | Held | Event


class GroupHistory:
    """Feed one group's records in log order, then `finish`.

    Args:
        book: names of topic ids, partition counts.

    Attributes:
        missing_before: generations that were before the first one in the log: compacted away.
        missing_within: generations skipped between two in the log.

    Raises:
        ValueError: a record comes before one that was fed (a mistake of the caller).

    >>> from partage.history.clusters import ClusterHistory
    >>> from partage.history.records import Place
    >>> history = GroupHistory(TopicBook(ClusterHistory([])))
    >>> made = {"protocolType": "", "generation": 0, "protocol": None, "leader": None,
    ...         "currentStateTimestamp": 4, "members": []}
    >>> record = GroupRecord(Place(0, 1), 5, "GROUP_METADATA", {"group": "g"}, made)
    >>> [found.what for found in history.feed(record)]
    ['created']
    """

    def __init__(self, book: TopicBook) -> None:
        self._book = book
        self._classic = ClassicGroup()
        self._server: ServerGroup | None = None
        self._gone: GroupRecord | None = None
        self._previous: Generation | None = None
        self._missing = 0
        self._number = -1

    @property
    def incarnation(self) -> int:
        """How often the group has been deleted so far."""
        return self._classic.incarnation

    @property
    def missing_before(self) -> int:
        """Generations that were before the first one in the log."""
        return self._classic.missing_before

    @property
    def missing_within(self) -> int:
        """Generations skipped between two in the log, and epochs of which it has no trace."""
        server = self._server.state.missing if self._server is not None else 0
        return self._classic.missing_within + self._missing + server

    def feed(self, record: GroupRecord) -> Iterator[Found]:
        """What the record completes: generations once the next one begins, lives, events."""
        for found in self._fed(record):
            yield self._linked(found)

    def finish(self) -> Iterator[Found]:
        """What is still open when the log ends."""
        for found in self._ended():
            yield self._linked(found)

    def _fed(self, record: GroupRecord) -> Iterator[Found]:
        kind = record.kind
        yield from self._judge_gone(record)
        if kind == "classic":
            yield from self._close_server()
            state = None if record.value is None else classic_state(record.value)
            yield from self._classic.feed(ClassicRecord(record.place, record.timestamp_ms, state))
            return
        epoch = None
        if record.what == "GROUP_METADATA" and record.value is not None:
            epoch = record.value["epoch"]
        fed = ClassicRecord(record.place, record.timestamp_ms, None, epoch, other=True)
        before = self._previous
        for found in self._classic.feed(fed):
            before = found if isinstance(found, Generation) else before
            yield found
        server = self._of_kind(kind, before)
        if record.what == "GROUP_METADATA" and record.value is None:
            self._gone = record
            yield from self._close_server()
            return
        yield from server.feed(record)

    def _of_kind(self, kind: str, before: Generation | None) -> ServerGroup:
        if self._server is None or self._server.state.kind != kind:
            came_from = before.number if before is not None else None
            if before is None or before.incarnation != self.incarnation:
                came_from = None
            state = ServerState(kind, self.incarnation, came_from)
            self._server = ServerGroup(state, self._book)
        return self._server

    def _close_server(self) -> Iterator[Found]:
        if self._server is not None:
            yield from self._server.finish()
            self._number = self._server.state.target_epoch
            self._missing += self._server.state.missing
            self._server = None

    def _judge_gone(self, following: GroupRecord | None) -> Iterator[Found]:
        """The end of a consumer group's records: it was deleted, or is classic from now on."""
        gone, self._gone = self._gone, None
        if gone is None:
            return
        at = (self.incarnation, self._number, gone.place, gone.timestamp_ms)
        if following is not None and self._goes_on(following):
            yield Life("migrated", *at, "consumer to classic")
            return
        yield Life("deleted", *at)
        self._classic.begin_again()
        self._previous = None

    def _goes_on(self, record: GroupRecord) -> bool:
        """Whether a classic record takes the epoch of the group that went on as generation."""
        state = record.value if record.kind == "classic" else None
        return state is not None and state["generation"] >= self._number > 0

    def _ended(self) -> Iterator[Found]:
        if self._server is not None:
            yield from self._server.finish()
        yield from self._classic.finish()
        yield from self._judge_gone(None)

    def _linked(self, found: Found) -> Found:
        """A generation knows the one before it, of whatever protocol."""
        if isinstance(found, Life) and found.what == "deleted":
            self._previous = None
        if not isinstance(found, Generation):
            return found
        before = self._previous
        if before is not None and before.incarnation == found.incarnation:
            found = replace(found, previous=before)
        self._previous = replace(found, previous=None)
        return found
