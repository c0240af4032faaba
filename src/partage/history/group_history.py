"""The history of one group across protocols: classic generations and epochs in one sequence.

A group may be migrated from the classic to the consumer protocol and back. Its members stay, its
numbers continue, and so does its history. `GroupHistory` passes each record to the part for its
protocol, finds the causes of each rebalance, and links the generations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from partage.errors import InvalidCaptureError
from partage.history.causes import CauseFinder
from partage.history.classic_groups import ClassicGroup, ClassicRecord
from partage.history.clusters import ClusterHistory, CoordinatorMove, CoordinatorMoves, TopicNames
from partage.history.commits import Stretch
from partage.history.consumer_groups import EpochGroup, EpochGroupState
from partage.history.events import RECORDED, CurrentAssignment, Event, Generation, LifecycleEvent
from partage.history.pauses import Pause, PauseTracker
from partage.history.records import (
    GroupRecord,
    LogPosition,
    assigned_partitions,
    parse_classic_state,
)
from partage.history.state_store import pack_state, unpack_state
from partage.history.stop_model import UnreadEstimate
from partage.history.unread import UnreadTracker

__all__ = ["GroupHistory", "HistoryItem"]

#: An element of a history.
HistoryItem = Generation | LifecycleEvent | CurrentAssignment | Event | Pause


class GroupHistory:
    """Rebuilds the history of one group, of any protocol, from its records and offset commits.

    Call `feed` with its records and `stretch` with its commits in log order, then `finish`.

    Args:
        clusters: the cluster metadata over time.
        session_timeout_ms: the broker's setting for members that send none of their own
            (``group.consumer.session.timeout.ms``); None if unknown.
        moves: coordinator moves by log partition (`partage.history.clusters.find_moves`).

    Attributes:
        topics: lookup of topic names by topic id, including names from records.

    Raises:
        ValueError: a record precedes one that was fed (an error of the caller).

    >>> from partage.history.records import LogPosition
    >>> history = GroupHistory(ClusterHistory([]))
    >>> created = {"protocolType": "", "generation": 0, "protocol": None, "leader": None,
    ...            "currentStateTimestamp": 4, "members": []}
    >>> record = GroupRecord(LogPosition(0, 1), 5, "GROUP_METADATA", {"group": "g"}, created)
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
        self._moves = CoordinatorMoves({} if moves is None else moves)
        self.topics = TopicNames(clusters)
        self._classic = ClassicGroup()
        self._epochs: EpochGroup | None = None
        #: The tombstone of the group's metadata: the next record tells what it means.
        self._tombstone: GroupRecord | None = None
        self._at: LogPosition | None = None
        #: The newest generation by its record, and the newest one that was yielded.
        self._opened: Generation | None = None
        self._previous: Generation | None = None
        #: Of former epoch groups: missing epochs, and the last target assignment epoch.
        self._missing = 0
        self._number = -1
        self._pauses = PauseTracker()
        self._causes = CauseFinder(clusters, self._pauses, session_timeout_ms, moves=moves)
        self._unread = UnreadTracker(self._pauses, clusters, session_timeout_ms)

    @property
    def incarnation(self) -> int:
        """Number of times that the group was deleted so far."""
        return self._classic.incarnation

    @property
    def missing_before(self) -> int:
        """Number of generations before the first one in the log, removed by compaction."""
        return self._classic.missing_before

    @property
    def missing_within(self) -> int:
        """Number of generations that the log lacks between its first and its last one.

        Epochs without a trace in the log are included.
        """
        epochs = self._epochs.state.missing if self._epochs is not None else 0
        return self._classic.missing_within + self._missing + epochs

    @property
    def opened(self) -> Generation | None:
        """The newest generation, with its causes, as soon as its first record was read.

        Later records may still change it.
        """
        return self._opened

    @property
    def previous(self) -> Generation | None:
        """The newest generation that is complete; None before the first one."""
        return self._previous

    def unread(self) -> UnreadEstimate | None:
        """Return the estimated time that partitions were without a consumer in the newest rebalance
        so far.

        Only partitions that are consumed again count. The result is None if generations before the
        rebalance are missing in the log.
        """
        found, before = self._opened, self._previous
        if found is None or (before is None and found.gap_before):
            return None
        return self._unread.so_far()

    def deletion(self) -> LifecycleEvent | None:
        """Return the group's deletion if its newest record is a tombstone, else None.

        The next record may still show that the group was migrated.
        """
        tombstone = self._tombstone
        if tombstone is None:
            return self._classic.deletion()
        at = (self.incarnation, self._number, tombstone.position, tombstone.timestamp_ms)
        return LifecycleEvent("deleted", *at)

    def reader(self, topic: str, partition: int) -> str | None:
        """Return the id of the member that consumes a partition now; None if no member does."""
        return self._unread.state.owner.get((topic, partition))

    def is_stopped(self, topic: str, partition: int) -> bool:
        """Return whether a partition had a consumer before and has none now."""
        return (topic, partition) in self._unread.state.stopped

    def committed(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return a dict from (topic, partition) to its newest committed offset and time (ms)."""
        return {
            pair: (state.last_offset, state.last_ms)
            for pair, state in self._pauses.partitions.items()
            if state.last_offset is not None and state.last_ms is not None
        }

    def to_bytes(self) -> bytes:
        """Serialize the history's state; a history that `from_bytes` restores gives identical
        results.
        """
        return pack_state({
            "classic": self._classic, "epochs": self._epochs.state if self._epochs else None,
            "tombstone": self._tombstone, "at": self._at, "opened": self._opened,
            "previous": self._previous, "missing": self._missing, "number": self._number,
            "pauses": self._pauses.partitions, "causes": self._causes.state,
            "learnt": self.topics.learnt, "moves": self._moves.position,
            "unread": self._unread.state,
        })  # fmt: skip

    @classmethod
    def from_bytes(
        cls,
        blob: bytes,
        clusters: ClusterHistory,
        session_timeout_ms: int | None = None,
        moves: Mapping[int, Sequence[CoordinatorMove]] | None = None,
    ) -> GroupHistory:
        """Restore a history from the bytes of `to_bytes`.

        The other arguments are those of a new history.

        Raises:
            InvalidCaptureError: the bytes are of another version, or damaged.
        """
        stored = unpack_state(blob)
        new = cls(clusters, session_timeout_ms, moves)
        try:
            new._classic, new._tombstone = stored["classic"], stored["tombstone"]
            new._at, new._opened = stored["at"], stored["opened"]
            new._previous, new._number = stored["previous"], stored["number"]
            new._missing = stored["missing"]
            for topic_id, name in stored["learnt"].items():
                new.topics.learn(topic_id, name)
            if stored["epochs"] is not None:
                new._epochs = EpochGroup(stored["epochs"], new.topics)
            new._pauses = PauseTracker(stored["pauses"])
            new._causes = CauseFinder(
                clusters, new._pauses, session_timeout_ms, stored["causes"], moves
            )
            new._moves.position = stored["moves"]
            new._unread = UnreadTracker(new._pauses, clusters, session_timeout_ms, stored["unread"])
        except (KeyError, AttributeError, TypeError):
            raise InvalidCaptureError(
                "stored state: not that of a group; rebuild it from the log"
            ) from None
        return new

    def feed(self, record: GroupRecord) -> Iterator[HistoryItem]:
        """Process the group's next record; yield generations and events that are now complete.

        A generation is complete once the next one begins.
        """
        if record.position == self._at:
            return  # the capture contains the record twice
        if self._at is not None and record.position < self._at:
            raise ValueError(f"{record.position} was fed after {self._at}")
        self._at = record.position
        yield from self.moves_until(record.position)
        for found in self._feed_protocol(record):
            if isinstance(found, CurrentAssignment) and found.member_epoch >= 0:
                self._causes.note_alive(found.member, found.time_ms)
            yield self._link(found)
            if isinstance(found, CurrentAssignment):
                self._unread.acknowledge(found)
        yield from self._begin_rebalance()

    def stretch(self, commits: Stretch) -> Iterator[Pause]:
        """Process a partition's commits between two group records; yield the consumption pauses
        that end.

        A pause is the time without commits around a rebalance. The first commit after the rebalance
        ends it.
        """
        for pause in self._pauses.stretch(commits):
            recreated = self._is_recreated(pause)
            yield pause._replace(rewind=None, advance=None) if recreated else pause

    def finish(self) -> Iterator[HistoryItem]:
        """Yield the generations, events and pauses that are still incomplete at the end
        of the log.
        """
        if self._epochs is not None:
            yield from map(self._link, self._epochs.finish())
        for found in (*self._classic.finish(), *self._resolve_tombstone(None)):
            yield self._link(found)
        yield from self._pauses.finish()

    def _is_recreated(self, pause: Pause) -> bool:
        """Return whether the topic was deleted and recreated during a pause,
        so that offsets restarted.
        """
        if not pause.rewind or pause.last_ms is None or pause.first_ms is None:
            return False
        topics = {self._clusters.at(t).topic(pause.topic) for t in (pause.last_ms, pause.first_ms)}
        return len(topics - {-1}) > 1

    def moves_until(self, position: LogPosition) -> Iterator[Event]:
        """Yield an event for each coordinator move up to the log position of the next record or
        commit.
        """
        number = self._opened.number if self._opened is not None else 0
        for move in self._moves.until(position):
            words = f"leader epoch {move.before} to {move.epoch}"
            at = (self.incarnation, number, move.position, move.time_ms)
            yield Event("coordinator", *at, RECORDED, detail=words)

    def _feed_protocol(self, record: GroupRecord) -> Iterator[HistoryItem]:
        """Process a record with the builder for its protocol (classic or KIP-848); yield the
        results.

        The builder of classic groups also receives records of other protocols, to notice
        migrations.
        """
        kind = record.kind
        yield from self._resolve_tombstone(record)
        at = (record.position, record.timestamp_ms)
        if kind == "classic":
            yield from self._close_epochs()
            state = record.state
            if state is None and record.value is not None:
                state = parse_classic_state(record.value)
            yield from self._classic.feed(ClassicRecord(*at, state))
            return
        is_group = record.what == "GROUP_METADATA"
        epoch = record.value["epoch"] if is_group and record.value is not None else None
        yield from self._classic.feed(ClassicRecord(*at, None, epoch, other=True))
        epochs = self._epochs_of(kind)
        if is_group and record.value is None:
            self._tombstone = record
            yield from self._close_epochs()
            return
        yield from epochs.feed(record)

    def _begin_rebalance(self) -> Iterator[HistoryItem]:
        """Find the causes of a rebalance when its first record is read, and begin its pauses.

        Later commits would hide when members were last active before it.
        """
        now = self._epochs.state.open if self._epochs is not None else self._classic.opened
        before = self._opened
        if now is None or (before is not None and now.position == before.position):
            if now is not None:
                self._unread.restart(now)
            return
        if before is not None and before.incarnation != now.incarnation:
            before = None
        if before is not None and self._previous is not None and _is_same(before, self._previous):
            before = replace(self._previous, causes=before.causes)  # its last state is known by now
        found = replace(now, causes=self._causes.find(now, before))
        self._opened = found
        self._unread.rebalance(found, before)
        assigned = dict.fromkeys(
            _assigned(found) + (_assigned(before) if before is not None else [])
        )
        yield from self._pauses.rebalance(found.incarnation, found.number, assigned)

    def _epochs_of(self, kind: str) -> EpochGroup:
        if self._epochs is None or self._epochs.state.kind != kind:
            before = self._opened
            is_known = before is not None and before.incarnation == self.incarnation
            came_from = before.number if before is not None and is_known else None
            state = EpochGroupState(kind, self.incarnation, came_from)
            self._epochs = EpochGroup(state, self.topics)
        return self._epochs

    def _close_epochs(self) -> Iterator[HistoryItem]:
        if self._epochs is not None:
            yield from self._epochs.finish()
            self._number = self._epochs.state.target_epoch
            self._missing += self._epochs.state.missing
            self._epochs = None

    def _resolve_tombstone(self, following: GroupRecord | None) -> Iterator[HistoryItem]:
        """Yield the deletion, or the migration to the classic protocol, that the last tombstone
        meant.

        Both begin with a tombstone. The record after it, ``following``, shows which of the two
        happened.
        """
        tombstone, self._tombstone = self._tombstone, None
        if tombstone is None:
            return
        at = (self.incarnation, self._number, tombstone.position, tombstone.timestamp_ms)
        if following is not None and self._is_continued_by(following):
            yield LifecycleEvent("migrated", *at, "consumer to classic")
            return
        yield LifecycleEvent("deleted", *at)
        self._classic.begin_incarnation()

    def _is_continued_by(self, record: GroupRecord) -> bool:
        """Return whether a classic record continues a consumer group's epochs, which means a
        migration.

        It does if its generation number is not below the last epoch.
        """
        if record.kind != "classic":
            return False
        if record.state is not None:
            return record.state.generation >= self._number > 0
        return record.value is not None and record.value["generation"] >= self._number > 0

    def _link(self, item: HistoryItem) -> HistoryItem:
        """Return a complete generation with its causes, its unread time and the generation before
        it.

        The previous generation may be of another protocol. Items of other types are returned
        unchanged.
        """
        if not isinstance(item, Generation):
            return item
        before = self._previous
        if before is not None and before.incarnation == item.incarnation:
            item = replace(item, previous=before)
        if self._opened is not None and _is_same(self._opened, item):
            is_covered = before is not None or not item.gap_before
            unread, intervals = self._unread.estimate(), self._unread.take_intervals()
            item = replace(
                item,
                causes=self._opened.causes,
                unread=unread if is_covered else None,
                unread_intervals=intervals if is_covered else (),
            )
        self._previous = replace(item, previous=None, unread_intervals=())
        return item


def _is_same(a: Generation, b: Generation) -> bool:
    return a.position == b.position and a.incarnation == b.incarnation


def _assigned(generation: Generation) -> list[tuple[str, int]]:
    return [pair for m in generation.first.members for pair in assigned_partitions(m)]
