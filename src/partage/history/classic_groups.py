"""A classic group's generations, from its records in log order.

What the log holds, and what it does not (seen on Apache Kafka 4.3.1):

* A group is first written with generation 0, no protocol type and nobody in it.
* One record a generation, written when the leader's assignment arrives. A static member that
  restarts has the *same* generation written again, under its new member id: no rebalance.
* A group whose members have all left keeps its protocol type; its strategy is null.
* A tombstone ends a group. If the next record is of the new consumer protocol the group was
  migrated, not deleted, and its epochs go on where the generations ended, and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from partage.history.events import Generation, LifecycleEvent
from partage.history.records import ClassicState, LogPosition

__all__ = ["ClassicGroup", "ClassicRecord"]

#: So many generations may be missing however little time has passed, by clocks that differ.
_BELIEVED = 1_000_000


#: Rewrites of one generation that are kept: static members may restart in it for a year.
_MOST_REWRITES = 256


@dataclass(frozen=True, slots=True)
class ClassicRecord:
    """A group record as the history needs it.

    Attributes:
        state: a classic group's state; None for its tombstone, and for other record types.
        epoch: epoch of a consumer group's CONSUMER_GROUP_METADATA record, else None.
        other: whether it is a record of another kind of group (consumer, share, streams).
    """

    position: LogPosition
    timestamp_ms: int
    state: ClassicState | None
    epoch: int | None = None
    other: bool = False


@dataclass
class ClassicGroup:
    """One group's history being rebuilt: feed records in log order, then `finish`.

    Attributes:
        missing_before: generations that were before the first one in the log: compacted away.
        missing_within: numbers skipped between two generations in the log. Compaction keeps
            the newest record and all after it, so these were never written (the group was
            joined again before its leader had answered) or were damaged.

    Raises:
        ValueError: a record comes before one that was fed (a mistake of the caller).

    >>> group = ClassicGroup()
    >>> made = ClassicState("", 0, None, None, None, ())
    >>> [e.what for e in group.feed(ClassicRecord(LogPosition(0, 1), 5, made))]
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

    def feed(self, record: ClassicRecord) -> Iterator[Generation | LifecycleEvent]:
        """What the record completes: generations once the next one begins, and lives."""
        if self._at is not None and record.position <= self._at:
            if record.position == self._at:
                return  # the capture has the record twice
            raise ValueError(f"{record.position} comes after {self._at}")
        self._at = record.position
        yield from self._judge_tombstone(record)
        if record.other:
            yield from self._close()  # even where its tombstone has been lost
            self._epoch = record.epoch if record.epoch is not None else self._epoch
        elif record.state is None:
            yield from self._close()
            self._tombstone = record
        else:
            yield from self._state(record, record.state)

    @property
    def opened(self) -> Generation | None:
        """The generation that is still going on."""
        return self._open

    def begin_again(self) -> None:
        """The group was deleted while it was of another protocol: numbers begin again."""
        self.incarnation += 1
        self._last_number, self._epoch = None, None

    def finish(self) -> Iterator[Generation | LifecycleEvent]:
        """What is still open when the log ends."""
        yield from self._close()
        yield from self._judge_tombstone(None)

    def _state(
        self, record: ClassicRecord, state: ClassicState
    ) -> Iterator[Generation | LifecycleEvent]:
        now = self._open
        if now is not None and now.number == state.generation:
            rewrites = now.rewrites
            if len(rewrites) < _MOST_REWRITES:
                rewrites = (*rewrites, (record.position, record.timestamp_ms, state))
            self._open = replace(now, last=state, records=now.records + 1, rewrites=rewrites)
            return
        yield from self._close()
        if state.generation == 0 and not state.members:
            self._last_number = 0
            yield LifecycleEvent(
                "created", self.incarnation, 0, record.position, record.timestamp_ms
            )
            return
        gap = self._gap(state.generation)
        since_ms = 100 * _BELIEVED if now is None else record.timestamp_ms - now.timestamp_ms
        if gap > _BELIEVED + max(0, since_ms):
            gap = 1  # a broken number: nobody rebalances more than once a millisecond
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

    def _gap(self, number: int) -> int:
        """Generations that must have been between the last one known and this one."""
        known = self._last_number if self._last_number is not None else 0
        if self._epoch is not None:  # it was a consumer group meanwhile: epochs are not missing
            known = max(known, self._epoch)
        return max(0, number - known - 1)

    def _close(self) -> Iterator[Generation]:
        if self._open is not None:
            yield self._open
            self._open = None

    def _judge_tombstone(self, following: ClassicRecord | None) -> Iterator[LifecycleEvent]:
        """A tombstone means one of two things, and only the record after it tells which."""
        gone, self._tombstone = self._tombstone, None
        if gone is None:
            return
        number = self._last_number if self._last_number is not None else -1
        moved = following is not None and following.other
        what, detail = ("migrated", "classic to consumer") if moved else ("deleted", None)
        yield LifecycleEvent(
            what, self.incarnation, number, gone.position, gone.timestamp_ms, detail
        )
        if not moved:
            self.incarnation += 1
            self._last_number = None
