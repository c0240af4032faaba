"""Live histories of all groups: report rebalances when they begin and when they settle.

`LiveGroups` takes batches in the order in which a live capture reads them, and metadata states
as they are observed. An item waits for `HOLD_MS` before it is used, because metadata and leader
epochs of that time may still explain it. Each group has a `GroupHistory`, so causes and unread
times are those of a replay of the same capture, with these exceptions:

* A replay corrects times of wrong clocks, and infers metadata of the time before the capture.
* If a broker's clock is ahead, metadata of its future is not known yet.
* Unread time that static members add after a rebalance has settled is reported when the next
  one begins.
* In a compacted log a member's metadata may follow its target; a replay inserts it afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple

from partage.errors import InvalidCaptureError
from partage.history.clusters import ClusterHistory, CoordinatorMove
from partage.history.commits import CommitStretch
from partage.history.events import (
    Event,
    Generation,
    LifecycleEvent,
    compare_states,
    derive_events,
)
from partage.history.group_history import GroupHistory, HistoryItem
from partage.history.live_log import LiveCommit, LiveDecoder, LogBatch
from partage.history.pauses import stopped_partitions
from partage.history.records import ClassicState, GroupRecord, MemberState, assigned_partitions
from partage.history.state_store import pack_state, unpack_state
from partage.history.stop_model import UnreadEstimate
from partage.history.storms import StormTracker

__all__ = [
    "HOLD_MS",
    "SETTLE_MS",
    "GroupChange",
    "LiveGroups",
    "RebalanceOpened",
    "RebalanceSettled",
    "WatchEvent",
    "WatchedGroup",
]

#: Wait before an item is used: the causes look at metadata up to this much later.
HOLD_MS = 1_500
#: Longest wait for commits of the partitions that a rebalance stopped.
SETTLE_MS = 60_000
#: Causes that do not count for a storm: no event of their own started these rebalances.
_NO_EVENT = ("follow-up", "migration")

_Pair = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RebalanceOpened:
    """Event that a rebalance of a consumer group has begun, while a cluster is recorded live.

    Attributes:
        group: name of the group.
        generation: the rebalance with its causes, and the one before it if that is known.
        moved: partitions that another member owned before.
        storm: whether it is part of a rebalance storm (a quick series of rebalances).
        fresh: whether the rebalance happened after the recording began.
    """

    group: str
    generation: Generation
    moved: tuple[_Pair, ...]
    storm: bool
    fresh: bool

    def to_json(self) -> dict[str, Any]:
        """Return the event that a rebalance has begun as a dict for JSON.

        It has the group, the members that joined or left, the moved partitions and the causes.
        """
        found, before = self.generation, self.generation.previous
        state = found.first
        change = compare_states(before.last if before is not None else None, state)
        moved: dict[str, list[int]] = {}
        for topic, partition in self.moved:
            moved.setdefault(topic, []).append(partition)
        return {
            "event": "opened", "time_ms": found.timestamp_ms, **_identity(self.group, found),
            "protocol": found.protocol, "strategy": state.strategy,
            "members_before": None if before is None else len(before.last.members),
            "members": len(state.members),
            "joined": [_member(m) for m in change.joined],
            "left": [_member(m) for m in change.left],
            "restarted": [_member(new) | {"was": old.id} for old, new in change.restarted],
            "partitions": len(_owners(state)), "moved": len(self.moved),
            "moved_partitions": {topic: sorted(some) for topic, some in sorted(moved.items())},
            "storm": self.storm, **_causes_to_json(found),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class RebalanceSettled:
    """Event that a rebalance of a consumer group has ended, while a cluster is recorded live.

    It normally ends when all partitions that lost their consumer are consumed again.

    Attributes:
        group: name of the group.
        generation: the rebalance with its final causes.
        how: ``consumed``: all partitions are consumed again. ``superseded``: another rebalance
            began, or the group was deleted. ``timeout``: `SETTLE_MS` passed. ``stopped``: the
            recording ends. ``revised``: a correction, because restarts of static members have added
            time without a consumer.
        time_ms: time of the record or commit that ended it, or clock time.
        unread: estimated time without a consumer; None if generations before it are missing.
        waiting: number of partitions without a commit since the rebalance.
        fresh: whether it ended after the recording began or continued, and began after the first
            start of the recording.
        reported: partition-seconds without a consumer that an earlier event of this rebalance has
            reported.
    """

    group: str
    generation: Generation
    how: str
    time_ms: int
    unread: UnreadEstimate | None
    waiting: int
    fresh: bool
    reported: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the event that a rebalance has ended as a dict for JSON.

        It has the group, the duration of the rebalance, the time without a consumer and the causes.
        """
        unread = self.unread
        return {
            "event": "settled", "time_ms": self.time_ms, **_identity(self.group, self.generation),
            "how": self.how, "after_ms": max(0, self.time_ms - self.generation.timestamp_ms),
            "waiting_partitions": self.waiting,
            "unread_partition_seconds": None if unread is None else {
                "best": round(unread.best, 3), "low": round(unread.p10, 3),
                "high": round(unread.p90, 3),
            },
            "no_consumer_partition_seconds": None if unread is None
            else round(unread.no_consumer, 3),
            **_causes_to_json(self.generation),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Event of a consumer group other than a rebalance, while a cluster is recorded live.

    Examples are its deletion, the restart of a static member and a move of its coordinator.
    ``fresh`` says whether it happened after the recording began.
    """

    group: str
    event: Event
    fresh: bool

    def to_json(self) -> dict[str, Any]:
        """Return an event of a group, such as its deletion, as a dict for JSON.

        It has the event's kind and time, the group and the member.
        """
        one = self.event
        return {
            "event": one.event, "time_ms": one.time_ms, "group": self.group,
            "incarnation": one.incarnation, "generation": one.generation,
            "member": one.member, "instance": one.instance, "detail": one.detail,
        }  # fmt: skip


WatchEvent = RebalanceOpened | RebalanceSettled | GroupChange


def _identity(group: str, generation: Generation) -> dict[str, Any]:
    return {
        "group": group, "incarnation": generation.incarnation,
        "generation": generation.generation_number,
        "log_partition": generation.position.partition, "log_offset": generation.position.offset,
    }  # fmt: skip


def _causes_to_json(generation: Generation) -> dict[str, Any]:
    """Return the causes of a rebalance as a dict for JSON.

    The main cause has keys ``cause_...``; the list ``causes`` has all causes. ``generation`` is the
    rebalance.
    """
    main = generation.causes[0]
    return {
        "cause_kind": main.kind, "cause_source": main.source,
        "cause_probability": main.probability, "cause_other": main.other,
        "causes": [
            {"kind": one.kind, "member": one.member, "instance": one.instance,
             "time_ms": one.time_ms, "detail": one.detail}
            for one in generation.causes
        ],
    }  # fmt: skip


def _member(member: MemberState) -> dict[str, Any]:
    return {
        "member": member.id, "client_id": member.client_id, "host": member.client_host,
        "instance": member.instance,
    }  # fmt: skip


def _owners(state: ClassicState) -> dict[_Pair, MemberState]:
    return {pair: m for m in state.members for pair in assigned_partitions(m)}


@dataclass(slots=True)
class _OpenRebalance:
    """A rebalance in progress: some of its partitions are not consumed again yet.

    Attributes:
        waiting: dict from each partition that stopped or had no owner to the id of its new owner.
        silent: waiting partitions without any commit so far; they count as consumed once they have
            a new owner.
        assigned: all partitions of the rebalance.
        deadline_ms: clock time at which the rebalance counts as ended in any case.
        announced: whether it began after the first start of the recording, so that an event has
            announced it.
    """

    generation: Generation
    waiting: dict[_Pair, str]
    silent: set[_Pair]
    assigned: frozenset[_Pair]
    deadline_ms: int
    announced: bool


class WatchedGroup:
    """Consumer group of a cluster that is being recorded; yields events when rebalances begin or
    end.

    Call `process_record` and `process_commit` in log order, and `close_if_expired` as time passes.

    Attributes:
        history: the group's history so far.
        opened: its newest rebalance, with the one before it; None before the first one.
    """

    def __init__(self, name: str, history: GroupHistory) -> None:
        self.name = name
        self.history = history
        self.opened: Generation | None = None
        self._previous: Generation | None = None
        self._open: _OpenRebalance | None = None
        #: Its ``fresh`` says whether an event has announced the rebalance, in any process.
        self._settled: RebalanceSettled | None = None
        self._storms: StormTracker[None] = StormTracker()
        #: When to report that the group was deleted, unless a record shows that it was migrated.
        self._ended_ms: int | None = None
        self._ended: GroupChange | None = None
        self._fresh = False

    def export_state(self) -> tuple[Any, ...]:
        """Return the state of a consumer group in a live recording as values that can be stored.

        A later process continues from them. Rebalance storms (many rebalances in quick succession)
        are not included.
        """
        one = self._open
        rest = None if one is None else (
            one.waiting, tuple(sorted(one.silent)), one.deadline_ms, one.announced
        )  # fmt: skip
        return self.history.to_bytes(), self.opened, self._previous, self._settled, rest

    @classmethod
    def restore_group(
        cls, name: str, history: GroupHistory, state: tuple[Any, ...]
    ) -> WatchedGroup:
        """Restore a consumer group in a live recording from the values that `export_state`
        returned.

        ``name`` is the group's name, ``history`` its restored history.
        """
        new = cls(name, history)
        _, new.opened, new._previous, new._settled, rest = state
        if rest is not None and new.opened is not None:
            waiting, silent, deadline_ms, announced = rest
            assigned = frozenset(_owners(new.opened.first))
            new._open = _OpenRebalance(
                new.opened, waiting, set(silent), assigned, deadline_ms, announced
            )
        return new

    @property
    def is_open(self) -> bool:
        """Return whether a rebalance or a deletion of the group is not finished yet.

        If so, `close_if_expired` must be called later.
        """
        return self._open is not None or self._ended_ms is not None

    def is_in_storm(self, time_ms: int) -> bool:
        """Return whether the consumer group is in a rebalance storm at a time.

        A storm is a series of many rebalances in quick succession.
        """
        return self._storms.is_ongoing(time_ms)

    def process_record(
        self, record: GroupRecord, now_ms: int, *, is_new: bool, announced: bool
    ) -> Iterator[WatchEvent]:
        """Process the group's next log record; yield the events that it causes.

        Args:
            record: the record.
            now_ms: present time in milliseconds.
            is_new: whether the record is newer than the start of this process's recording.
            announced: whether it is newer than the first start of the recording.
        """
        self._fresh = is_new
        items = list(self.history.process_record(record))
        yield from self._history_events(items, record.timestamp_ms, fresh=is_new)
        self._ended_ms = None if self.history.find_deletion() is None else now_ms + HOLD_MS
        now = self.history.newest_rebalance
        if now is not None and (self.opened is None or now.position != self.opened.position):
            yield self._begin(now, now_ms, fresh=is_new, announced=announced)
        if self._open is not None:
            for pair in [one for one in self._open.silent if self._is_read(one)]:
                self._open.silent.discard(pair)
                self._open.waiting.pop(pair, None)
            yield from self._end_if_consumed(record.timestamp_ms, fresh=is_new)

    def process_commit(self, commit: LiveCommit, *, is_new: bool) -> Iterator[WatchEvent]:
        """Process the group's next offset commit; yield the events that it causes.

        The commit may end a rebalance. ``is_new`` is true if the commit is newer than the start of
        the recording.
        """
        at, offset, pair = commit.timestamp_ms, commit.offset, (commit.topic, commit.partition)
        for move in self.history.moves_until(commit.position):
            yield GroupChange(self.name, move, is_new)
        stretch = (
            CommitStretch(*pair)
            if offset is None
            else CommitStretch(*pair, 1, at, at, offset, offset, latest_ms=at)
        )
        for _ in self.history.process_commit_stretch(stretch):
            pass  # pauses are figures of a replay
        if self._open is not None and offset is not None and self._is_read(pair):
            self._open.waiting.pop(pair, None)
            self._open.silent.discard(pair)
            yield from self._end_if_consumed(at, fresh=is_new)

    def close_if_expired(self, now_ms: int, *, fresh: bool) -> Iterator[WatchEvent]:
        """End the group's rebalance if it has taken too long, and confirm a pending deletion.

        Yield the events. ``now_ms`` is the present time, ``fresh`` says whether it is after the
        start of the recording.
        """
        if self._ended_ms is not None and now_ms >= self._ended_ms:
            yield from self._confirm_deletion()
        if self._open is not None and now_ms >= self._open.deadline_ms:
            yield self._settle("timeout", now_ms, self.history.estimate_unread(), fresh=fresh)

    def close_rebalance_at_end(self, now_ms: int) -> Iterator[WatchEvent]:
        """End the group's unfinished rebalance because the recording ends; yield the event.

        A pending deletion of the group is confirmed, too.
        """
        if self._ended_ms is not None:
            yield from self._confirm_deletion()
        if self._open is not None:
            yield self._settle("stopped", now_ms, self.history.estimate_unread(), fresh=True)

    def _history_events(
        self, items: Sequence[HistoryItem], time_ms: int, *, fresh: bool
    ) -> Iterator[WatchEvent]:
        for item in items:
            if isinstance(item, Generation):
                if self._open is not None and item.position == self._open.generation.position:
                    yield self._settle("superseded", time_ms, item.unread, fresh=fresh)
                else:
                    yield from self._revise(item, time_ms, fresh=fresh)
                self._previous = replace(item, previous=None)
            elif isinstance(item, LifecycleEvent):
                for one in derive_events(item):
                    change = GroupChange(self.name, one, fresh)
                    if self._ended is None or change.event != self._ended.event:
                        yield change
                self._ended = None
            elif isinstance(item, Event):
                yield GroupChange(self.name, item, fresh)

    def _confirm_deletion(self) -> Iterator[WatchEvent]:
        """Yield the event that a consumer group was deleted, once this is certain.

        Its tombstone could also have meant a migration to another protocol, which a later record
        shows.
        """
        self._ended_ms, found = None, self.history.find_deletion()
        for one in derive_events(found) if found is not None else ():
            self._ended = GroupChange(self.name, one, fresh=self._fresh)
            yield self._ended

    def _begin(
        self, generation: Generation, now_ms: int, *, fresh: bool, announced: bool
    ) -> RebalanceOpened:
        before = self._previous
        if before is not None and before.incarnation != generation.incarnation:
            before = None
        generation = self.opened = replace(generation, previous=before)
        old = {} if before is None else _owners(before.last)
        new = _owners(generation.first)
        moved = tuple(
            pair
            for pair, m in new.items()
            if pair in old and old[pair].owner_identity != m.owner_identity
        )
        window = max((m.session_timeout_ms for m in generation.first.members), default=0)
        counts = generation.causes[0].kind not in _NO_EVENT
        list(
            self._storms.add_rebalance(None, generation.timestamp_ms, max(window, 0), counts=counts)
        )
        stopped = stopped_partitions(generation)
        waiting = {p: m.id for p, m in new.items() if p in stopped or p not in old}
        if generation.protocol == "share" or generation.taken_over:
            waiting = {}  # nothing is committed by offset, or nothing stopped
        committed = self.history.committed_offsets()
        silent = {pair for pair in waiting if pair not in committed}
        self._open = _OpenRebalance(
            generation, waiting, silent, frozenset(new), now_ms + SETTLE_MS, announced
        )
        storm = self._storms.is_ongoing(generation.timestamp_ms)
        return RebalanceOpened(self.name, generation, moved, storm, fresh)

    def _is_read(self, pair: _Pair) -> bool:
        if self._open is None or pair not in self._open.waiting:
            return False
        reader = self.history.current_consumer(*pair)
        if self._open.generation.protocol == "classic":
            return reader is not None
        return reader == self._open.waiting[pair]

    def _revise(self, generation: Generation, time_ms: int, *, fresh: bool) -> Iterator[WatchEvent]:
        """Yield a corrected event for a rebalance that was already reported as ended, if necessary.

        It is necessary if the estimated time without a consumer has changed since. ``generation``
        is the rebalance.
        """
        done = self._settled
        if done is None or done.generation.position != generation.position:
            return
        if generation.unread is not None and generation.unread != done.unread:
            reported = 0.0 if done.unread is None else done.unread.best
            yield replace(
                done, how="revised", time_ms=time_ms, unread=generation.unread, waiting=0,
                reported=reported, fresh=done.fresh and fresh,
            )  # fmt: skip

    def _end_if_consumed(self, time_ms: int, *, fresh: bool) -> Iterator[WatchEvent]:
        one = self._open
        if one is None or one.waiting:
            return
        if not any(self.history.is_stopped(*pair) for pair in one.assigned):
            yield self._settle("consumed", time_ms, self.history.estimate_unread(), fresh=fresh)

    def _settle(
        self, how: str, time_ms: int, unread: UnreadEstimate | None, *, fresh: bool
    ) -> RebalanceSettled:
        if self._open is None:
            raise RuntimeError("no rebalance is open")
        done, self._open = self._open, None
        self._settled = RebalanceSettled(
            self.name, done.generation, how, time_ms, unread, len(done.waiting), done.announced
        )
        return replace(self._settled, fresh=done.announced and fresh)


class _Held(NamedTuple):
    """A group record or offset commit that waits in a queue before it is processed.

    It waits a little, until the cluster metadata of its time is known.

    Attributes:
        due_ms: clock time at which it is processed.
        group: name of its group.
        item: the record or commit.
    """

    due_ms: int
    group: str
    item: GroupRecord | LiveCommit


#: Classes of a stored state besides those of histories.
_STORED = (CoordinatorMove, LiveCommit, RebalanceSettled, _Held)


@dataclass(slots=True)
class LiveGroups:
    """All consumer groups of a cluster that is being recorded, followed in ``__consumer_offsets``.

    Queue record batches with `queue_batches` and call `process_due_records` as time passes. It
    yields an event when a rebalance begins or ends.

    Attributes:
        session_timeout_ms: the broker's session timeout, for members that send none; None if
            unknown.
        initial_delay_ms: the broker's ``group.initial.rebalance.delay.ms``; None if unknown.
        fresh_from: dict from log partition to first offset after the capture began or continued.
        announced_from: dict from log partition to first offset after the first start of the
            capture.
        started_ms: time at which the capture began; a record of that time or later is fresh, too.
        newest: dict from log partition to base offset of its newest batch; earlier batches are
            ignored.
        clusters: the cluster metadata so far.
        decoder: decodes the batches of the log.
        groups: the watched groups by name.
        failed: dict from group that an unexpected error ended to the error.
    """

    # Records and commits are held for HOLD_MS, because the search for causes needs slightly later
    # metadata.
    session_timeout_ms: int | None = None
    initial_delay_ms: int | None = None
    fresh_from: dict[int, int] = field(default_factory=dict)
    announced_from: dict[int, int] = field(default_factory=dict)
    started_ms: float = inf
    newest: dict[int, int] = field(default_factory=dict)
    clusters: ClusterHistory = field(default_factory=lambda: ClusterHistory([]))
    decoder: LiveDecoder = field(default_factory=LiveDecoder)
    groups: dict[str, WatchedGroup] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    _held: deque[_Held] = field(default_factory=deque)
    _open: dict[str, None] = field(default_factory=dict)

    def add_state(self, metadata: Mapping[str, Any]) -> None:
        """Add new metadata of the cluster (brokers and topics) while it is being recorded.

        The first metadata is also used for earlier times.
        """
        if not self.clusters.times:
            self.clusters.append_metadata({**metadata, "ts_ms": 0, "assumed": True})
        self.clusters.append_metadata(metadata)

    def queue_batches(self, batches: Sequence[LogBatch], received_ms: int) -> None:
        """Queue new record batches of ``__consumer_offsets`` for `process_due_records`.

        ``received_ms`` is the time at which they were received. Batches that were queued before are
        ignored.
        """
        new = [one for one in batches if one.base_offset > self.newest.get(one.partition, -1)]
        for batch in new:
            self.newest[batch.partition] = batch.base_offset
        for group, item in self.decoder.decode_batches(new):
            due_ms = min(item.timestamp_ms, received_ms) + HOLD_MS
            self._held.append(_Held(due_ms, group, item))

    def to_bytes(self) -> bytes:
        """Serialize the state of all recorded consumer groups to bytes; `restore_state` restores
        it.

        Cluster metadata is not included.
        """
        groups = {name: group.export_state() for name, group in self.groups.items()}
        decoder = self.decoder.export_state()
        stored = (self.newest, decoder, groups, self.failed, list(self._held))
        return pack_state(stored, _STORED)

    def restore_state(self, state_bytes: bytes) -> None:
        """Restore the state of all consumer groups from the bytes that `to_bytes` returned.

        The cluster metadata and the broker's settings must be set before.

        Raises:
            InvalidCaptureError: the bytes are of another version, or damaged.
        """
        try:
            newest, decoder, groups, failed, held = unpack_state(state_bytes, _STORED)
            self.decoder.restore_state(decoder)
            for name, state in groups.items():
                history = GroupHistory.from_bytes(
                    state[0], self.clusters, self.session_timeout_ms, self.decoder.moves,
                    self.initial_delay_ms,
                )  # fmt: skip
                self.groups[name] = WatchedGroup.restore_group(name, history, state)
                if self.groups[name].is_open:
                    self._open[name] = None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidCaptureError(
                "stored state: not that of a watch; rebuild it from the log"
            ) from None
        self.newest, self.failed, self._held = newest, failed, deque(held)

    def next_due_ms(self) -> int | None:
        """Return the time (ms) at which the next queued record or commit can be processed, or None.

        A record waits a little in the queue, until the cluster metadata of its time is known. None
        means that the queue is empty.
        """
        return self._held[0].due_ms if self._held else None

    def replay(self, now_ms: int) -> Iterator[WatchEvent]:
        """Process the queued records and commits that were written before the recording was
        continued.

        Yield the events. A rebalance that is unfinished at the end of these records stays open;
        `process_due_records` later reports its end. ``now_ms`` is the present time.
        """
        newest_ms = 0
        while self._held and self._held[0].due_ms <= now_ms:
            held = self._held.popleft()
            newest_ms = max(newest_ms, held.item.timestamp_ms)
            yield from self._process_queued(held, held.item.timestamp_ms)
        yield from self._expire_all(newest_ms, fresh=False)

    def process_due_records(self, now_ms: int) -> Iterator[WatchEvent]:
        """Process all queued records and commits that are due at ``now_ms``; yield the events.

        Then end the rebalances that have taken too long.
        """
        while self._held and self._held[0].due_ms <= now_ms:
            yield from self._process_queued(self._held.popleft(), now_ms)
        yield from self._expire_all(now_ms, fresh=True)

    def _expire_all(self, now_ms: int, *, fresh: bool) -> Iterator[WatchEvent]:
        for name in list(self._open):
            expired = self.groups[name].close_if_expired(now_ms, fresh=fresh)
            yield from self._track_deadlines(name, expired)

    def process_remaining_records(self, now_ms: int) -> Iterator[WatchEvent]:
        """Process the remaining queued records and commits when the recording ends.

        Yield the events. Unfinished rebalances end, too.
        """
        while self._held:
            yield from self._process_queued(self._held.popleft(), now_ms)
        for name in list(self._open):
            yield from self._track_deadlines(name, self.groups[name].close_rebalance_at_end(now_ms))

    def _process_queued(self, held: _Held, now_ms: int) -> Iterator[WatchEvent]:
        if held.group in self.failed:
            return
        group = self.groups.get(held.group)
        if group is None:
            history = GroupHistory(
                self.clusters, self.session_timeout_ms, self.decoder.moves, self.initial_delay_ms
            )
            group = self.groups[held.group] = WatchedGroup(held.group, history)
        place = held.item.position
        fresh = place.offset >= self.fresh_from.get(place.partition, 0)
        fresh = fresh or held.item.timestamp_ms >= self.started_ms
        announced = fresh or place.offset >= self.announced_from.get(place.partition, inf)
        events = (
            group.process_commit(held.item, is_new=fresh)
            if isinstance(held.item, LiveCommit)
            else group.process_record(held.item, now_ms, is_new=fresh, announced=announced)
        )
        try:
            yield from self._track_deadlines(held.group, events)
        except Exception as e:  # noqa: BLE001 - one group's damage must not end the others
            self.failed[held.group] = f"{type(e).__name__}: {e}"
            self._open.pop(held.group, None)
            del self.groups[held.group]

    def _track_deadlines(self, name: str, events: Iterator[WatchEvent]) -> Iterator[WatchEvent]:
        """Yield the given events of a group, and store whether it has an unfinished rebalance.

        The clock must end such a rebalance if no record does. A deletion that is not confirmed yet
        counts as unfinished, too.
        """
        found = list(events)
        if self.groups[name].is_open:
            self._open[name] = None
        else:
            self._open.pop(name, None)
        yield from found
