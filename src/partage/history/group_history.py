"""One group's history whatever its protocols: classic generations and epochs in one line.

A group may be migrated from the classic to the consumer protocol and back: its members stay,
its numbers go on, and so does its history. `GroupHistory` hands each record to the part that
knows its protocol, and links what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from partage.errors import InvalidCaptureError
from partage.history.causes import CauseFinder
from partage.history.classic_groups import ClassicGroup, ClassicRecord
from partage.history.clusters import ClusterHistory, TopicNames
from partage.history.commits import CommitRun, Stretch
from partage.history.consumer_groups import EpochGroup, EpochGroupState
from partage.history.coordinator_moves import CoordinatorMove, CoordinatorMoves
from partage.history.events import RECORDED, CurrentAssignment, Event, Generation, LifecycleEvent
from partage.history.pauses import Pause, PauseTracker
from partage.history.records import (
    GroupRecord,
    LogPosition,
    assigned_partitions,
    parse_classic_state,
)
from partage.history.state_store import pack_state, unpack_state

__all__ = ["GroupHistory", "HistoryItem"]

#: What a history consists of.
HistoryItem = Generation | LifecycleEvent | CurrentAssignment | Event | Pause


class GroupHistory:
    """Feed one group's records and runs of commits in log order, then `finish`.

    Args:
        clusters: the metadata over time.
        session_timeout_ms: the broker's, for members that send none of their own
            (``group.consumer.session.timeout.ms``); None if it is not known.
        moves: of coordinators, by log partition (`partage.history.coordinator_moves.moves_of`).

    Attributes:
        book: names of topic ids, as far as records have told them.
        missing_before: generations that were before the first one in the log: compacted away.
        missing_within: generations skipped between two in the log.

    Raises:
        ValueError: a record comes before one that was fed (a mistake of the caller).

    >>> from partage.history.records import LogPosition
    >>> history = GroupHistory(ClusterHistory([]))
    >>> made = {"protocolType": "", "generation": 0, "protocol": None, "leader": None,
    ...         "currentStateTimestamp": 4, "members": []}
    >>> record = GroupRecord(LogPosition(0, 1), 5, "GROUP_METADATA", {"group": "g"}, made)
    >>> [found.what for found in history.feed(record)]
    ['created']
    """

    def __init__(
        self,
        clusters: ClusterHistory,
        session_timeout_ms: int | None = None,
        moves: Mapping[int, Sequence[CoordinatorMove]] | None = None,
    ) -> None:
        self._clusters = clusters
        self._moves = CoordinatorMoves(moves or {})
        self.book = TopicNames(clusters)
        self._classic = ClassicGroup()
        self._server: EpochGroup | None = None
        self._gone: GroupRecord | None = None
        self._at: LogPosition | None = None
        #: The newest generation by its record, and the newest one that has been given away.
        self._opened: Generation | None = None
        self._previous: Generation | None = None
        self._missing = 0
        self._number = -1
        self._pauses = PauseTracker()
        self._reasons = CauseFinder(clusters, self._pauses, session_timeout_ms)

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

    def to_bytes(self) -> bytes:
        """The state as a blob: `taken_up` goes on from it as if there had been no break."""
        return pack_state({
            "classic": self._classic, "server": self._server.state if self._server else None,
            "gone": self._gone, "at": self._at, "opened": self._opened,
            "previous": self._previous, "missing": self._missing, "number": self._number,
            "pauses": self._pauses.partitions, "reasons": self._reasons.state,
            "learnt": self.book.learnt, "moves": self._moves.position,
        })  # fmt: skip

    @classmethod
    def from_bytes(
        cls,
        blob: bytes,
        clusters: ClusterHistory,
        session_timeout_ms: int | None = None,
        moves: Mapping[int, Sequence[CoordinatorMove]] | None = None,
    ) -> GroupHistory:
        """A history from its stored state; the other arguments are those of a new one.

        Raises:
            InvalidCaptureError: the blob is of another version, or damaged.
        """
        was = unpack_state(blob)
        new = cls(clusters, session_timeout_ms, moves)
        try:
            new._classic, new._gone, new._at = was["classic"], was["gone"], was["at"]
            new._opened, new._previous = was["opened"], was["previous"]
            new._missing, new._number = was["missing"], was["number"]
            for topic_id, name in was["learnt"].items():
                new.book.learn(topic_id, name)
            if was["server"] is not None:
                new._server = EpochGroup(was["server"], new.book)
            new._pauses = PauseTracker(was["pauses"])
            new._reasons = CauseFinder(clusters, new._pauses, session_timeout_ms, was["reasons"])
            new._moves.position = was["moves"]
        except (KeyError, AttributeError, TypeError):
            raise InvalidCaptureError(
                "stored state: not that of a group; rebuild it from the log"
            ) from None
        return new

    def feed(self, record: GroupRecord) -> Iterator[HistoryItem]:
        """What the record completes: generations once the next one begins, lives, events."""
        if record.position == self._at:
            return  # the capture has the record twice
        if self._at is not None and record.position < self._at:
            raise ValueError(f"{record.position} comes after {self._at}")
        self._at = record.position
        yield from self.moved(record.position)
        for found in self._fed(record):
            yield self._linked(found)
        yield from self._begun()

    def commits(self, run: CommitRun) -> Iterator[HistoryItem]:
        """Commits of one partition; the pauses that end with them."""
        yield from self.moved(run.first_place)
        yield from self.stretch(Stretch.of(run))

    def stretch(self, commits: Stretch) -> Iterator[Pause]:
        """Commits of one partition that no record of the group cuts, in place of their runs."""
        for pause in self._pauses.stretch(commits):
            anew = self._made_anew(pause)
            yield pause._replace(rewind=None, advance=None) if anew else pause

    def finish(self) -> Iterator[HistoryItem]:
        """What is still open when the log ends."""
        for found in self._ended():
            yield self._linked(found)
        yield from self._pauses.finish()

    def _made_anew(self, pause: Pause) -> bool:
        """Whether its topic was deleted and made anew meanwhile: offsets begin at 0 then, and
        nobody reads anything twice.
        """
        if not pause.rewind or pause.last_ms is None or pause.first_ms is None:
            return False
        topics = {self._clusters.at(t).topic(pause.topic) for t in (pause.last_ms, pause.first_ms)}
        return len(topics - {-1}) > 1

    def moved(self, place: LogPosition) -> Iterator[Event]:
        """Moves of the coordinator up to a place of the log, that of some commits."""
        number = self._opened.number if self._opened is not None else 0
        for move in self._moves.until(place):
            words = f"leader epoch {move.before} to {move.epoch}"
            at = (self.incarnation, number, move.position, move.time_ms)
            yield Event("coordinator", *at, RECORDED, detail=words)

    def _fed(self, record: GroupRecord) -> Iterator[HistoryItem]:
        kind = record.kind
        yield from self._judge_gone(record)
        if kind == "classic":
            yield from self._close_server()
            state = record.state
            if state is None and record.value is not None:
                state = parse_classic_state(record.value)
            yield from self._classic.feed(
                ClassicRecord(record.position, record.timestamp_ms, state)
            )
            return
        epoch = None
        if record.what == "GROUP_METADATA" and record.value is not None:
            epoch = record.value["epoch"]
        fed = ClassicRecord(record.position, record.timestamp_ms, None, epoch, other=True)
        yield from self._classic.feed(fed)
        server = self._of_kind(kind)
        if record.what == "GROUP_METADATA" and record.value is None:
            self._gone = record
            yield from self._close_server()
            return
        yield from server.feed(record)

    def _begun(self) -> Iterator[HistoryItem]:
        """A rebalance whose record has just come: its causes are looked for at once.

        Later commits would tell other things: when its members were last seen before it.
        """
        now = self._server.state.open if self._server is not None else self._classic.opened
        before = self._opened
        if now is None or (before is not None and now.position == before.position):
            return
        if before is not None and before.incarnation != now.incarnation:
            before = None
        if before is not None and self._previous is not None and self._is(before, self._previous):
            before = replace(self._previous, causes=before.causes)  # by now its end is known
        found = replace(now, causes=self._reasons.of(now, before))
        self._opened = found
        assigned = dict.fromkeys(_pairs(found) + (_pairs(before) if before is not None else []))
        yield from self._pauses.rebalance(found.incarnation, found.number, assigned)

    @staticmethod
    def _is(a: Generation, b: Generation) -> bool:
        return a.position == b.position and a.incarnation == b.incarnation

    def _of_kind(self, kind: str) -> EpochGroup:
        if self._server is None or self._server.state.kind != kind:
            before = self._opened
            known = before is not None and before.incarnation == self.incarnation
            came_from = before.number if before is not None and known else None
            state = EpochGroupState(kind, self.incarnation, came_from)
            self._server = EpochGroup(state, self.book)
        return self._server

    def _close_server(self) -> Iterator[HistoryItem]:
        if self._server is not None:
            yield from self._server.finish()
            self._number = self._server.state.target_epoch
            self._missing += self._server.state.missing
            self._server = None

    def _judge_gone(self, following: GroupRecord | None) -> Iterator[HistoryItem]:
        """The end of a consumer group's records: it was deleted, or is classic from now on."""
        gone, self._gone = self._gone, None
        if gone is None:
            return
        at = (self.incarnation, self._number, gone.position, gone.timestamp_ms)
        if following is not None and self._goes_on(following):
            yield LifecycleEvent("migrated", *at, "consumer to classic")
            return
        yield LifecycleEvent("deleted", *at)
        self._classic.begin_again()

    def _goes_on(self, record: GroupRecord) -> bool:
        """Whether a classic record takes the epoch of the group that went on as generation."""
        if record.kind != "classic":
            return False
        if record.state is not None:
            return record.state.generation >= self._number > 0
        return record.value is not None and record.value["generation"] >= self._number > 0

    def _ended(self) -> Iterator[HistoryItem]:
        if self._server is not None:
            yield from self._server.finish()
        yield from self._classic.finish()
        yield from self._judge_gone(None)

    def _linked(self, found: HistoryItem) -> HistoryItem:
        """A generation with its causes, and the one before it, of whatever protocol."""
        if not isinstance(found, Generation):
            return found
        before = self._previous
        if before is not None and before.incarnation == found.incarnation:
            found = replace(found, previous=before)
        if self._opened is not None and self._is(self._opened, found):
            found = replace(found, causes=self._opened.causes)
        self._previous = replace(found, previous=None)
        return found


def _pairs(found: Generation) -> list[tuple[str, int]]:
    return [pair for m in found.first.members for pair in assigned_partitions(m)]
