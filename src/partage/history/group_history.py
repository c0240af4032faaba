"""The history of one group across protocols: classic generations and epochs in one sequence.

A group may be migrated from the classic to the consumer protocol and back. Its members stay, its
numbers continue, and so does its history. `GroupHistory` passes each record to the part for its
protocol, finds the causes of each rebalance, and links the generations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from partage.errors import InvalidCaptureError
from partage.history.causes import CauseFinder
from partage.history.classic_groups import ClassicGroup, ClassicRecord
from partage.history.clusters import ClusterHistory, CoordinatorMove, CoordinatorMoves, TopicNames
from partage.history.commits import CommitStretch
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
    """History of one consumer group (rebalances, causes, pauses), rebuilt from Kafka's log.

    Call `process_record` with group records and `process_commit_stretch` with offset commits in log
    order, then `finish_history`.

    Args:
        clusters: the cluster metadata over time.
        session_timeout_ms: the broker's setting for members that send none of their own
            (``group.consumer.session.timeout.ms``); None if unknown.
        moves: coordinator moves by log partition (`partage.history.clusters.find_moves`).
        initial_delay_ms: the broker's ``group.initial.rebalance.delay.ms``; None if unknown.

    Attributes:
        topics: lookup of topic names by topic id, including names from records.

    Raises:
        ValueError: a record precedes an earlier one (an error of the caller).

    >>> from partage.history.records import LogPosition
    >>> history = GroupHistory(ClusterHistory([]))
    >>> created = {"protocolType": "", "generation": 0, "protocol": None, "leader": None,
    ...            "currentStateTimestamp": 4, "members": []}
    >>> record = GroupRecord(LogPosition(0, 1), 5, "GROUP_METADATA", {"group": "g"}, created)
    >>> [found.what for found in history.process_record(record)]
    ['created']
    """

    def __init__(
        self,
        clusters: ClusterHistory,
        session_timeout_ms: int | None = None,
        moves: Mapping[int, Sequence[CoordinatorMove]] | None = None,
        initial_delay_ms: int | None = None,
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
        self._unread = UnreadTracker(
            self._pauses, clusters, session_timeout_ms, initial_delay_ms=initial_delay_ms
        )

    @property
    def deletion_count(self) -> int:
        """Number of times that the consumer group was deleted so far.

        A deleted group can be created again under the same name.
        """
        return self._classic.incarnation

    @property
    def missing_before(self) -> int:
        """Number of generations before the first one in the log.

        Compaction has removed their records.
        """
        return self._classic.missing_before

    @property
    def missing_within(self) -> int:
        """Number of generations between the first and the last one in the log that the log lacks.

        Epochs that no record mentions are included.
        """
        epochs = self._epochs.state.missing if self._epochs is not None else 0
        return self._classic.missing_within + self._missing + epochs

    @property
    def newest_rebalance(self) -> Generation | None:
        """Newest rebalance of the consumer group, with its causes; None before the first one.

        It may still be in progress, so later records may change it.
        """
        return self._opened

    @property
    def last_ended_rebalance(self) -> Generation | None:
        """Newest rebalance of the consumer group that is complete; None before the first one.

        A rebalance is complete when the next one begins or the group ends.
        """
        return self._previous

    def estimate_unread(self) -> UnreadEstimate | None:
        """Estimate how long partitions had no consumer because of the newest rebalance.

        The unit is partition-seconds (seconds summed over partitions). Only partitions that are
        consumed again count so far. The result is None if earlier generations are missing in the
        log.
        """
        found, before = self._opened, self._previous
        if found is None or (before is None and found.gap_before):
            return None
        return self._unread.estimate_so_far()

    def find_deletion(self) -> LifecycleEvent | None:
        """Return the deletion of the consumer group if its newest record is a tombstone, else None.

        The next record may still show that the group was migrated, not deleted.
        """
        tombstone = self._tombstone
        if tombstone is None:
            return self._classic.find_deletion()
        at = (self.deletion_count, self._number, tombstone.position, tombstone.timestamp_ms)
        return LifecycleEvent("deleted", *at)

    def current_consumer(self, topic: str, partition: int) -> str | None:
        """Return the id of the member that now consumes a topic's partition; None without one.

        There is none during a rebalance that stopped the partition.
        """
        return self._unread.state.owner.get((topic, partition))

    def is_stopped(self, topic: str, partition: int) -> bool:
        """Return whether a topic's partition has no consumer now, although it had one before.

        A partition loses its consumer when its owner leaves, dies or revokes it.
        """
        return (topic, partition) in self._unread.state.stopped

    def committed_offsets(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the newest committed offset of each partition and the time of the commit (ms).

        The result is a dict from (topic, partition) to (offset, time).
        """
        return {
            pair: (state.last_offset, state.last_ms)
            for pair, state in self._pauses.partitions.items()
            if state.last_offset is not None and state.last_ms is not None
        }

    def commit_values(self) -> list[Any]:
        """Return each partition's commit statistics in this history, as values for JSON.

        The log position up to which moves of the coordinator were processed is included.
        `resume_commits` restores the values.
        """
        # It has the commits of each partition, and the log position up to which coordinator moves
        # were yielded.
        place = self._moves.position
        return [self._pauses.commit_values(), place and [place.partition, place.offset]]

    def resume_commits(self, values: Sequence[Any]) -> None:
        """Restore each partition's commit statistics in this history of a consumer group.

        Args:
            values: result of `commit_values`.
        """
        partitions, place = values
        self._pauses.resume_commits(partitions)
        self._moves.position = None if place is None else LogPosition(*place)

    def to_bytes(self, *, level: int = 6) -> bytes:
        """Serialize the consumer group's history so far to bytes, from which `from_bytes` restores
        it.

        ``level`` is zlib's compression level, 0 to 9.
        """
        return pack_state({
            "classic": self._classic, "epochs": self._epochs.state if self._epochs else None,
            "tombstone": self._tombstone, "at": self._at, "opened": self._opened,
            "previous": self._previous, "missing": self._missing, "number": self._number,
            "pauses": self._pauses.partitions, "causes": self._causes.state,
            "learnt": self.topics.extra_names, "moves": self._moves.position,
            "unread": self._unread.state,
        }, level=level)  # fmt: skip

    @classmethod
    def from_bytes(
        cls,
        blob: bytes,
        clusters: ClusterHistory,
        session_timeout_ms: int | None = None,
        moves: Mapping[int, Sequence[CoordinatorMove]] | None = None,
        initial_delay_ms: int | None = None,
    ) -> GroupHistory:
        """Restore a consumer group's history from the bytes that `to_bytes` returned.

        The other arguments are the same as for a new history.

        Raises:
            InvalidCaptureError: the bytes are of another version, or damaged.
        """
        stored = unpack_state(blob)
        new = cls(clusters, session_timeout_ms, moves, initial_delay_ms)
        try:
            new._classic, new._tombstone = stored["classic"], stored["tombstone"]
            new._at, new._opened = stored["at"], stored["opened"]
            new._previous, new._number = stored["previous"], stored["number"]
            new._missing = stored["missing"]
            for topic_id, name in stored["learnt"].items():
                new.topics.add_name(topic_id, name)
            if stored["epochs"] is not None:
                new._epochs = EpochGroup(stored["epochs"], new.topics)
            new._pauses = PauseTracker(stored["pauses"])
            new._causes = CauseFinder(
                clusters, new._pauses, session_timeout_ms, stored["causes"], moves
            )
            new._moves.position = stored["moves"]
            new._unread = UnreadTracker(
                new._pauses, clusters, session_timeout_ms, stored["unread"], initial_delay_ms
            )
        except (KeyError, AttributeError, TypeError):
            raise InvalidCaptureError(
                "stored state: not that of a group; rebuild it from the log"
            ) from None
        return new

    def process_record(self, record: GroupRecord) -> Iterator[HistoryItem]:
        """Process the consumer group's next log record; yield the history items that it completes.

        These are rebalances, events and pauses. A rebalance is complete when the next one begins.
        """
        if record.position == self._at:
            return  # the capture contains the record twice
        if self._at is not None and record.position < self._at:
            raise ValueError(f"{record.position} was fed after {self._at}")
        self._at = record.position
        yield from self.moves_until(record.position)
        for found in self._process_protocol(record):
            if isinstance(found, CurrentAssignment) and found.member_epoch >= 0:
                self._causes.store_heartbeat(found.member, found.time_ms)
            yield self._complete_generation(found)
            if isinstance(found, CurrentAssignment):
                self._unread.process_acknowledgement(found)
        yield from self._begin_rebalance()

    def process_commit_stretch(self, commits: CommitStretch) -> Iterator[Pause]:
        """Process offset commits of one partition; yield the pauses that end with them.

        A pause is the time around a rebalance in which the partition has no commits.
        """
        for pause in self._pauses.process_commit_stretch(commits):
            recreated = self._is_topic_recreated(pause)
            yield pause._replace(rewind=None, advance=None) if recreated else pause

    def finish_history(self) -> Iterator[HistoryItem]:
        """Yield the rebalances, events and pauses that are still incomplete when the log ends.

        A pause is a time around a rebalance in which a partition has no offset commits. Call it
        after the last record.
        """
        if self._epochs is not None:
            yield from map(self._complete_generation, self._epochs.finish_generation())
        for found in (*self._classic.finish_generations(), *self._resolve_tombstone(None)):
            yield self._complete_generation(found)
        yield from self._pauses.finish_pauses()

    def _is_topic_recreated(self, pause: Pause) -> bool:
        """Return whether a topic was deleted and created again during a pause in its commits.

        Its offsets then began at 0 again, so they cannot be compared.
        """
        if not pause.rewind or pause.last_ms is None or pause.first_ms is None:
            return False
        topics = {
            self._clusters.cluster_at(t).topic(pause.topic) for t in (pause.last_ms, pause.first_ms)
        }
        return len(topics - {-1}) > 1

    def moves_until(self, log_position: LogPosition) -> Iterator[Event]:
        """Yield an event for each move of the group's coordinator to another broker.

        Only moves before ``log_position`` that have not been yielded yet are included.
        """
        number = self._opened.generation_number if self._opened is not None else 0
        for move in self._moves.moves_until(log_position):
            words = f"leader epoch {move.before} to {move.epoch}"
            at = (self.deletion_count, number, move.position, move.time_ms)
            yield Event("coordinator", *at, RECORDED, detail=words)

    def _process_protocol(self, record: GroupRecord) -> Iterator[HistoryItem]:
        """Process a group record by the rules of its protocol (classic, or consumer as in KIP-848).

        Yield the rebalances and events that are now complete.
        """
        # The builder of classic groups also receives records of other protocols, to notice
        # migrations.
        kind = record.group_protocol
        yield from self._resolve_tombstone(record)
        at = (record.position, record.timestamp_ms)
        if kind == "classic":
            yield from self._close_epochs()
            state = record.state
            if state is None and record.value is not None:
                state = parse_classic_state(record.value)
            yield from self._classic.process_record(ClassicRecord(*at, state))
            return
        is_group = record.record_type == "GROUP_METADATA"
        epoch = record.value["epoch"] if is_group and record.value is not None else None
        yield from self._classic.process_record(ClassicRecord(*at, None, epoch, other=True))
        epochs = self._epochs_of(kind)
        if is_group and record.value is None:
            self._tombstone = record
            yield from self._close_epochs()
            return
        yield from epochs.process_record(record)

    def _begin_rebalance(self) -> Iterator[HistoryItem]:
        """Find the causes of a rebalance whose first record was just read, and begin its pauses.

        A pause is a time around a rebalance in which a partition has no offset commits. Yield the
        pauses that are now complete. Nothing happens if the newest record does not begin a
        rebalance.
        """
        # This happens as soon as the first record is read: causes depend on when members were last
        # active before the rebalance, which later commits would overwrite.
        now = (
            self._epochs.state.open if self._epochs is not None else self._classic.newest_generation
        )
        before = self._opened
        if now is None or (before is not None and now.position == before.position):
            if now is not None:
                self._unread.process_restarts(now)
            return
        if before is not None and before.incarnation != now.incarnation:
            before = None
        if before is not None and self._previous is not None and _is_same(before, self._previous):
            before = replace(self._previous, causes=before.causes)  # its last state is known by now
        found = replace(
            now, causes=self._causes.find_causes(now, before, self._unread.owners.owned_since)
        )
        self._opened = found
        self._unread.process_rebalance(found, before)
        assigned = dict.fromkeys(
            _assigned(found) + (_assigned(before) if before is not None else [])
        )
        yield from self._pauses.begin_pauses(found.incarnation, found.generation_number, assigned)

    def _epochs_of(self, kind: str) -> EpochGroup:
        if self._epochs is None or self._epochs.state.kind != kind:
            before = self._opened
            is_known = before is not None and before.incarnation == self.deletion_count
            came_from = before.generation_number if before is not None and is_known else None
            state = EpochGroupState(kind, self.deletion_count, came_from)
            self._epochs = EpochGroup(state, self.topics)
        return self._epochs

    def _close_epochs(self) -> Iterator[HistoryItem]:
        if self._epochs is not None:
            yield from self._epochs.finish_generation()
            self._number = self._epochs.state.target_epoch
            self._missing += self._epochs.state.missing
            self._epochs = None

    def _resolve_tombstone(self, following: GroupRecord | None) -> Iterator[HistoryItem]:
        """Yield the event that a tombstone (a record without a value) stands for.

        The consumer group was deleted, or migrated to another protocol. It was migrated if a record
        of another protocol follows.

        Args:
            following: the record after the tombstone, None at the end of the log.
        """
        tombstone, self._tombstone = self._tombstone, None
        if tombstone is None:
            return
        at = (self.deletion_count, self._number, tombstone.position, tombstone.timestamp_ms)
        if following is not None and self._is_migrated_by(following):
            yield LifecycleEvent("migrated", *at, "consumer to classic")
            return
        yield LifecycleEvent("deleted", *at)
        self._classic.begin_incarnation()

    def _is_migrated_by(self, record: GroupRecord) -> bool:
        """Return whether a record shows that this group was migrated to the classic protocol.

        Its generation number then continues the group's epochs.
        """
        # Then its generation number is not below the group's last epoch.
        if record.group_protocol != "classic":
            return False
        if record.state is not None:
            return record.state.generation >= self._number > 0
        return record.value is not None and record.value["generation"] >= self._number > 0

    def _complete_generation(self, history_item: HistoryItem) -> HistoryItem:
        """Add the causes and the time without a consumer to a finished rebalance.

        ``history_item`` may also be an event, which is returned unchanged.
        """
        # The predecessor is added, too; it may be of another protocol.
        if not isinstance(history_item, Generation):
            return history_item
        before = self._previous
        if before is not None and before.incarnation == history_item.incarnation:
            history_item = replace(history_item, previous=before)
        if self._opened is not None and _is_same(self._opened, history_item):
            is_covered = before is not None or not history_item.gap_before
            unread, intervals = self._unread.estimate_unread(), self._unread.take_intervals()
            history_item = replace(
                history_item,
                causes=self._opened.causes,
                unread=unread if is_covered else None,
                unread_intervals=intervals if is_covered else (),
            )
        self._previous = replace(history_item, previous=None, unread_intervals=())
        return history_item


def _is_same(a: Generation, b: Generation) -> bool:
    return a.position == b.position and a.incarnation == b.incarnation


def _assigned(generation: Generation) -> list[tuple[str, int]]:
    return [pair for m in generation.first.members for pair in assigned_partitions(m)]
