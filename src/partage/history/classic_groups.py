"""Generations of a classic group, from its records in log order.

Properties of the log, as observed on Apache Kafka 4.3.1:

* A group is first written with generation 0, no protocol type and no members.
* Each generation has one record, written when the leader's assignment arrives. A static member
  that restarts has the *same* generation written again with its new member id: no rebalance.
* A group whose members have all left keeps its protocol type; its strategy is null.
* A tombstone ends a group. If a record of a consumer group follows, the group was migrated, not
  deleted, and its epochs continue the generation numbers; the reverse holds for the way back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from partage.history.events import Generation, LifecycleEvent
from partage.history.records import ClassicState, LogPosition

__all__ = ["ClassicGroup", "ClassicRecord"]

#: Skipped generations that are plausible at any interval, since clocks of coordinators differ.
_PLAUSIBLE_GAP = 1_000_000
#: Rewrites of one generation that are stored: its static members may restart for a year.
_MOST_REWRITES = 256


@dataclass(frozen=True, slots=True)
class ClassicRecord:
    """A group's record in Kafka's log ``__consumer_offsets``, reduced to what `ClassicGroup` reads.

    Records of other group types are included, because they show a migration.

    Attributes:
        position: the record's position in the log.
        timestamp_ms: the record's time.
        state: a classic group's state; None for its tombstone, and for other record types.
        epoch: epoch of a consumer group's CONSUMER_GROUP_METADATA record, else None.
        other: whether the record belongs to a consumer, share or streams group.
    """

    position: LogPosition
    timestamp_ms: int
    state: ClassicState | None
    epoch: int | None = None
    other: bool = False


@dataclass
class ClassicGroup:
    """Reader of a classic consumer group's log records, which finds its generations (rebalances).

    Call `process_record` for each record in log order, then `finish_generations`.

    Attributes:
        missing_before: generations before the first one in the log, removed by compaction.
        missing_within: number of generations that are missing between two generations in the log:
            they were never written (members rejoined before the leader had sent the assignment) or
            were damaged.

    Raises:
        ValueError: a record precedes an earlier one (an error of the caller).

    >>> group = ClassicGroup()
    >>> created = ClassicState("", 0, None, None, None, ())
    >>> [e.what for e in group.process_record(ClassicRecord(LogPosition(0, 1), 5, created))]
    ['created']
    """

    incarnation: int = 0
    missing_before: int = 0
    missing_within: int = 0
    _open: Generation | None = None
    _last_number: int | None = None
    _tombstone: ClassicRecord | None = None
    _at: LogPosition | None = None
    _epoch: int | None = field(default=None)

    def process_record(self, record: ClassicRecord) -> Iterator[Generation | LifecycleEvent]:
        """Process the consumer group's next log record; yield generations that are now complete.

        A generation is complete when the next one begins. Events are yielded when the group is
        created or deleted.
        """
        if self._at is not None and record.position <= self._at:
            if record.position == self._at:
                return  # the capture contains the record twice
            raise ValueError(f"{record.position} was fed after {self._at}")
        self._at = record.position
        yield from self._resolve_tombstone(record)
        if record.other:
            yield from self._close()  # its tombstone may be lost
            self._epoch = record.epoch if record.epoch is not None else self._epoch
        elif record.state is None:
            yield from self._close()
            self._tombstone = record
        else:
            yield from self._process_state(record, record.state)

    @property
    def newest_generation(self) -> Generation | None:
        """The newest generation (rebalance) of the consumer group; None before the first one.

        Later records may still change it, because it is not complete yet.
        """
        return self._open

    def find_deletion(self) -> LifecycleEvent | None:
        """Return the deletion of the consumer group if its newest record is a tombstone, else None.

        A later record may still show that the group was migrated, not deleted.
        """
        tombstone = self._tombstone
        if tombstone is None:
            return None
        number = self._last_number if self._last_number is not None else -1
        at = (tombstone.position, tombstone.timestamp_ms)
        return LifecycleEvent("deleted", self.incarnation, number, *at)

    def begin_incarnation(self) -> None:
        """Restart the count of generations (rebalances), because the consumer group was deleted.

        A new group of the same name begins with generation 0.
        """
        self.incarnation += 1
        self._last_number, self._epoch = None, None

    def finish_generations(self) -> Iterator[Generation | LifecycleEvent]:
        """Yield the consumer group's last generation, or its deletion, when the log ends.

        The last generation was not complete before, because no later one has begun.
        """
        yield from self._close()
        yield from self._resolve_tombstone(None)

    def _process_state(
        self, record: ClassicRecord, state: ClassicState
    ) -> Iterator[Generation | LifecycleEvent]:
        now = self._open
        if now is not None and now.generation_number == state.generation:
            rewrites = now.rewrites
            if len(rewrites) < _MOST_REWRITES:
                rewrites = (*rewrites, (record.position, record.timestamp_ms, state))
            self._open = replace(now, last=state, records=now.records + 1, rewrites=rewrites)
            return
        yield from self._close()
        if state.generation == 0 and not state.members:
            self._last_number = 0
            at = (record.position, record.timestamp_ms)
            yield LifecycleEvent("created", self.incarnation, 0, *at)
            return
        gap = self._count_missing_generations(state.generation)
        since_ms = 100 * _PLAUSIBLE_GAP if now is None else record.timestamp_ms - now.timestamp_ms
        if gap > _PLAUSIBLE_GAP + max(0, since_ms):
            gap = 1  # a damaged number: no group rebalances more than once per millisecond
        if now is None:
            self.missing_before += gap
        else:
            self.missing_within += gap
        self._open = Generation(
            self.incarnation, record.position, record.timestamp_ms, state, state, 1, gap,
            replace(now, previous=None) if now is not None else None,
            taken_over=self._epoch is not None and self._epoch == state.generation,
        )  # fmt: skip
        self._last_number, self._epoch = state.generation, None

    def _count_missing_generations(self, generation_number: int) -> int:
        """Return how many generations just before ``generation_number`` have no record in the log.

        For example, 2 if generation 7 follows generation 4.
        """
        known = self._last_number if self._last_number is not None else 0
        if self._epoch is not None:  # a consumer group in between: its epochs are not missing
            known = max(known, self._epoch)
        return max(0, generation_number - known - 1)

    def _close(self) -> Iterator[Generation]:
        if self._open is not None:
            yield self._open
            self._open = None

    def _resolve_tombstone(self, following: ClassicRecord | None) -> Iterator[LifecycleEvent]:
        """Yield the event that a tombstone (a record without a value) stands for.

        The consumer group was deleted, or migrated to another protocol. It was migrated if a record
        of another protocol follows.

        Args:
            following: the record after the tombstone, None at the end of the log.
        """
        tombstone, self._tombstone = self._tombstone, None
        if tombstone is None:
            return
        number = self._last_number if self._last_number is not None else -1
        migrated = following is not None and following.other
        what, detail = ("migrated", "classic to consumer") if migrated else ("deleted", None)
        at = (tombstone.position, tombstone.timestamp_ms)
        yield LifecycleEvent(what, self.incarnation, number, *at, detail)
        if not migrated:
            self.incarnation += 1
            self._last_number = None
