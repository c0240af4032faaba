"""A guard that keeps a Faust consumer from committing past records which it never processed.

faust-streaming 0.15.3 drops fetched records during a rebalance: those that a fetch returns while
partitions are paused, and those in a stream's queue. It relies on its seek to the committed offset
to read them again. Two cases lose records although all brokers are healthy:

* No offset is committed yet. ``seek_to_committed`` does not seek, and ``_new_offset`` commits from
  the first acknowledged record on, past all dropped records before it.
* An offset is committed. ``_new_offset`` tolerates one missing record after it, ``_add_gap`` counts
  dropped records as gaps of the log, and a commit before the seek is not checked.

A third case delays records. After the seek, Faust clears the queues of all streams
(``flow_control.resume``). A record that was queued in between is not read again before the next
rebalance.

The guard stores which offsets were fetched. It limits each commit to the first fetched offset that
is not acknowledged, allows no commit between an assignment and its seek, and seeks back to dropped
records, also to those that no later record of the partition follows. Such records are read again,
so that some are processed twice. The guard replaces four methods of one consumer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["CommitGuard"]

log = logging.getLogger("partage.clients")

#: Seconds after which a fetched offset below acknowledged ones counts as dropped.
_PATIENCE = 5.0
#: Seconds between two searches for dropped records, which cost time for each record.
_SECONDS_BETWEEN_CHECKS = 1.0


class CommitGuard:
    """Guard that prevents a Faust consumer from committing records that it never processed.

    Faust may drop fetched records in a rebalance and then commit a later offset, so that they are
    lost. The guard stores which offsets were fetched, and replaces some methods of the consumer.

    Args:
        consumer: Faust's ``app.consumer``, some of whose methods are replaced.
        now: a monotonic clock, in seconds.

    Raises:
        AttributeError: this release of Faust has no such methods; nothing is replaced.
    """

    def __init__(self, consumer: Any, *, now: Callable[[], float] = time.monotonic) -> None:
        self.consumer = consumer
        self._now = now
        self._fetched: defaultdict[Any, set[int]] = defaultdict(set)
        # Acknowledged when the partition was revoked; Faust forgets these before its last commit.
        self._processed: defaultdict[Any, set[int]] = defaultdict(set)
        self._tasks: set[asyncio.Task[Any]] = set()
        # The lowest offset that is fetched and not acknowledged, and since when (s).
        self._waits_since: dict[Any, tuple[int, float]] = {}
        # The highest offset from which a partition was read again. Faust may drop a record for
        # another reason than a rebalance, so none is read a third time.
        self._read_again_from: dict[Any, int] = {}
        # When dropped records were last searched for (s).
        self._checked = -_SECONDS_BETWEEN_CHECKS
        # Number of assignments, and the number of the last one whose seek is done.
        self._assignments = self._sought = 0
        self._original_getmany = consumer._getmany
        self._original_perform_seek = consumer.perform_seek
        self._original_new_offset = consumer._new_offset
        self._original_revoked = consumer.on_partitions_revoked
        consumer._getmany = self._getmany
        consumer.perform_seek = self._perform_seek
        consumer._new_offset = self._new_offset
        consumer.on_partitions_revoked = self._on_partitions_revoked

    def on_assignment(self) -> None:
        """Forget all fetched offsets, because the Faust consumer got a new assignment.

        The client then resets its positions, so the old offsets have no meaning.
        """
        # The client resets its positions at a new assignment.
        self._assignments += 1
        self._fetched.clear()
        self._processed.clear()
        self._waits_since.clear()
        self._read_again_from.clear()

    async def _on_partitions_revoked(self, revoked: set[Any]) -> None:
        """Store which offsets of revoked partitions Faust has processed but not yet committed.

        Faust itself forgets them before its last commit.
        """
        for tp in revoked:
            self._processed[tp] |= self.consumer._acked_index[tp]
        await self._original_revoked(revoked)

    async def _getmany(self, *positional: Any, **named: Any) -> Any:
        # Faust fetches when it has delivered or dropped all records of the previous fetch.
        self._read_dropped_again()
        records = await self._original_getmany(*positional, **named)
        acks_enabled_for = self.consumer.app.topics.acks_enabled_for
        for tp, batch in (records or {}).items():
            if acks_enabled_for(tp.topic) and not self.consumer._is_changelog_tp(tp):
                self._fetched[tp].update(record.offset for record in batch)
        return records

    def _read_dropped_again(self) -> None:
        """Fetch records again that Faust dropped without processing them.

        Faust may drop fetched records in a rebalance. The check runs at most once a second.
        """
        now = self._now()
        if self._sought != self._assignments or now - self._checked < _SECONDS_BETWEEN_CHECKS:
            return
        self._checked = now
        for tp in list(self._fetched):
            first = self._first_unprocessed(tp)
            if first is None:
                self._waits_since.pop(tp, None)
            else:
                self._reread_if_dropped(tp, first, now)

    def _first_unprocessed(self, tp: Any) -> int | None:
        """Return the lowest offset of a partition that Faust fetched but has not yet processed.

        None if all fetched records are processed. ``tp`` is the partition.
        """
        # Offsets below the committed one are ignored.
        floor = self.consumer._committed_offset[tp] or 0
        waiting = self._fetched[tp] - self.consumer._acked_index[tp] - self._processed[tp]
        return min((offset for offset in waiting if offset >= floor), default=None)

    async def _perform_seek(self) -> None:
        """Set the Faust consumer's position in each partition to the committed offset.

        If a partition has no committed offset, its position is set to the first fetched record.
        """
        assignment = self._assignments
        await self._original_perform_seek()
        if assignment != self._assignments:
            return
        for tp in self.consumer.assignment() & set(self._fetched):
            if self.consumer._read_offset[tp] is None:
                await self._seek_back(tp, self._fetched[tp])
        self._sought = assignment

    async def _seek_back(self, tp: Any, fetched: set[int]) -> None:
        # A fetch of the previous assignment may end late. Its offsets are at or above the position
        # and will be read again anyway. A commit may empty the set during the await.
        position = await self.consumer.position(tp)
        if fetched and min(fetched) < position:
            log.warning(
                "%s: %d fetched records were dropped before any commit: reading again from %d",
                tp, len(fetched), min(fetched),
            )  # fmt: skip
            await self.consumer.seek(tp, min(fetched))

    def _new_offset(self, tp: Any) -> int | None:
        """Return the offset up to which Faust may commit a partition; None for no commit.

        All fetched records below the offset have been processed. ``tp`` is the partition.
        """
        # Records that are acknowledged out of order, after an unprocessed one, are not committed.
        if self._sought != self._assignments:
            # Faust continues after a seek that timed out: seek again, or nothing is ever committed.
            if not self.consumer.app.rebalancing and not self._tasks:
                self._start(self._perform_seek())
            return None
        fetched, first = self._fetched[tp], self._first_unprocessed(tp)
        acked: list[int] = self.consumer._acked[tp]
        if first is None or not acked or max(acked) < first:
            offset: int | None = self._original_new_offset(tp)
        else:
            # Faust's rule gets only the acknowledged records before the first waiting one.
            above = [one for one in acked if one > first]
            acked[:] = [one for one in acked if one < first]
            offset = self._original_new_offset(tp)
            acked.extend(above)
        if offset is not None:
            fetched.difference_update([one for one in fetched if one < offset])
        return offset

    def _reread_if_dropped(self, tp: Any, offset: int, now: float) -> None:
        """Fetch a record again if Faust dropped it without processing it.

        A record counts as dropped if it was fetched some seconds ago and is in no stream's queue.

        Args:
            tp: the record's partition.
            offset: the record's offset.
            now: the present time (s).
        """
        # A record counts as dropped if it was fetched some time ago and no stream has it in a
        # queue.
        since = self._waits_since.get(tp)
        if since is None or since[0] != offset:
            self._waits_since[tp] = (offset, now)
        elif (
            now - since[1] > _PATIENCE
            and offset > self._read_again_from.get(tp, -1)
            and not self._is_in_a_stream(tp, offset)
        ):
            log.error(
                "%s: offset %d was fetched and never processed, because Faust dropped it: reading "
                "again from it", tp, offset,
            )  # fmt: skip
            self._read_again_from[tp] = offset
            self._start(self._read_again(tp, offset))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        # asyncio itself holds no strong reference to a task.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read_again(self, tp: Any, offset: int) -> None:
        if tp in self.consumer.assignment():
            await self.consumer.seek(tp, offset)

    def _is_in_a_stream(self, tp: Any, offset: int) -> bool:
        """Return whether a record is in the queue of a Faust stream, or is being processed.

        The offset after such a record must not be committed yet.

        Args:
            tp: the record's partition.
            offset: the record's offset.
        """
        channels = self.consumer.app.topics._tp_index.get(tp, ())
        queues = [channel._queue for channel in channels if channel._queue is not None]
        queued = [event.message for queue in queues for event in queue._queue]
        messages = [*self.consumer._unacked_messages, *queued]
        return any(one.tp == tp and one.offset == offset for one in messages)
