"""The guard of Faust's commits, on a consumer with Faust's own rule for the offset to commit."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from partage.clients.faust_commits import CommitGuard


class TopicPartition(NamedTuple):
    """Faust's TP."""

    topic: str
    partition: int


TP = TopicPartition("words", 0)


class FaustConsumer:
    """What the guard touches of faust-streaming 0.15.3's consumer; a log of 400 records."""

    def __init__(self, committed=None):
        self.committed = committed
        self.at = committed or 0
        self._acked, self._acked_index = defaultdict(list), defaultdict(set)
        self._committed_offset, self._read_offset = defaultdict(lambda: None), defaultdict()
        self._unacked_messages = set()
        self.sought = []
        self.queue = []
        channel = SimpleNamespace(_queue=SimpleNamespace(_queue=self.queue))
        topics = SimpleNamespace(
            acks_enabled_for=lambda topic: topic == TP[0], _tp_index={TP: [channel]}
        )
        self.app = SimpleNamespace(rebalancing=True, topics=topics)

    def _is_changelog_tp(self, tp):
        return tp != TP

    async def _getmany(self, count):
        batch = [SimpleNamespace(offset=n) for n in range(self.at, self.at + count)]
        self.at += count
        return {TP: batch}

    async def perform_seek(self):
        # aiokafka's seek_to_committed seeks nowhere without a committed offset.
        if self.committed:
            self.at = self.committed
        self._read_offset[TP] = self.committed
        if self.committed is not None:
            self._committed_offset[TP] = self.committed

    async def on_partitions_revoked(self, revoked):
        for tp in revoked:
            for table in (self._acked, self._acked_index, self._committed_offset):
                table.pop(tp, None)

    def assignment(self):
        return {TP}

    async def position(self, _tp):
        return self.at

    async def seek(self, _tp, offset):
        self.at = offset
        self.sought.append(offset)

    def ack(self, *offsets):
        for one in offsets:
            self._acked_index[TP].add(one)
            self._acked[TP].append(one)

    def _new_offset(self, tp):
        acked = self._acked[tp]
        if not acked:
            return None
        acked.sort()
        committed = self._committed_offset[tp]
        if committed and min(acked) - committed > 1:
            return None
        batch = [acked[0]]
        while len(batch) < len(acked) and acked[len(batch)] == batch[-1] + 1:
            batch.append(acked[len(batch)])
        acked[: len(batch)] = []
        self._acked_index[tp].difference_update(batch)
        return batch[-1] + 1

    def commit(self):
        """Commit as Faust does, and return the committed offset."""
        offset = self._new_offset(TP)
        if offset is not None:
            self.committed = self._committed_offset[TP] = offset
        return self.committed


def guarded(committed=None, now=lambda: 0.0):
    consumer = FaustConsumer(committed)
    return consumer, CommitGuard(consumer, now=now)


async def joined(consumer, guard):
    guard.on_assignment()
    await consumer.perform_seek()


def test_records_dropped_before_the_first_commit_are_read_again() -> None:
    """300 records are fetched and dropped before the seek, nothing is committed: Faust commits 301 after
    record 300, with the guard the position goes back and the commit stays behind it.
    """

    async def run_rebalance(*, is_guarded):
        consumer = FaustConsumer()
        guard = CommitGuard(consumer) if is_guarded else None
        if guard:
            guard.on_assignment()
        await consumer._getmany(300)
        await consumer.perform_seek()
        await consumer._getmany(1)
        first_read = consumer.at - 1
        consumer.ack(first_read)
        return first_read, consumer.commit()

    assert asyncio.run(run_rebalance(is_guarded=False)) == (300, 301)
    assert asyncio.run(run_rebalance(is_guarded=True)) == (0, 1)


@pytest.mark.parametrize("committed", [None, 84])
def test_a_commit_never_passes_a_fetched_record_that_is_not_acknowledged(committed) -> None:
    """Record 84 is dropped and 85 acknowledged: Faust commits 86, the guard waits for 84."""

    async def run_rebalance(*, is_guarded):
        consumer = FaustConsumer(committed)
        consumer.at = 84
        if is_guarded:
            await joined(consumer, CommitGuard(consumer))
        else:
            await consumer.perform_seek()
        await consumer._getmany(3)
        consumer.ack(85)
        early = consumer.commit()
        consumer.ack(84)
        return early, consumer.commit()

    assert asyncio.run(run_rebalance(is_guarded=False))[0] == 86
    assert asyncio.run(run_rebalance(is_guarded=True)) == (committed, 86)


def test_no_commit_between_an_assignment_and_its_seek() -> None:
    """An acknowledgement of before the seek has no committed offset to be compared with."""

    async def run_rebalance():
        consumer, guard = guarded(84)
        guard.on_assignment()
        consumer.ack(85)
        assert consumer.commit() == 84
        await consumer.perform_seek()
        assert consumer.at == 84

    asyncio.run(run_rebalance())


def test_a_seek_that_faust_gave_up_is_made_when_the_rebalance_is_over() -> None:
    """Faust goes on after a seek that timed out; the guard seeks then, and commits again."""

    async def run_rebalance():
        consumer, guard = guarded(84)
        guard.on_assignment()
        consumer.at, consumer.app.rebalancing = 99, False
        assert consumer.commit() == 84
        await asyncio.sleep(0)
        assert consumer.at == 84
        await consumer._getmany(1)
        consumer.ack(84)
        assert consumer.commit() == 85

    asyncio.run(run_rebalance())


def test_the_last_commit_of_a_revocation_counts_what_was_acknowledged_before() -> None:
    """Faust forgets acknowledged records when it revokes, and then commits once more."""

    async def run_rebalance():
        consumer, guard = guarded()
        await joined(consumer, guard)
        await consumer._getmany(3)
        consumer.ack(0, 1)
        await consumer.on_partitions_revoked({TP})
        consumer.ack(2)
        assert consumer.commit() == 3

    asyncio.run(run_rebalance())


def test_a_dropped_record_is_read_again_after_a_while_and_named(caplog) -> None:
    """A record that no stream has, below acknowledged ones, is reported and sought; one that a stream
    processes is waited for.
    """

    async def run_rebalance():
        seconds = itertools.count(0, 6)
        consumer, guard = guarded(now=lambda: next(seconds))
        await joined(consumer, guard)
        await consumer._getmany(3)
        consumer.ack(1, 2)
        slow = SimpleNamespace(tp=TP, offset=0)
        consumer._unacked_messages = [slow]
        for _ in range(3):
            await consumer._getmany(0)
            await asyncio.sleep(0)
        assert consumer.commit() is None
        assert not consumer.sought
        consumer._unacked_messages = []
        await consumer._getmany(0)
        await asyncio.sleep(0)
        assert consumer.sought == [0]
        await consumer._getmany(3)
        consumer.ack(0)
        assert consumer.commit() == 3

    asyncio.run(run_rebalance())
    assert "offset 0 was fetched and never processed" in caplog.text


def test_a_dropped_record_is_read_again_although_no_later_one_is_acknowledged() -> None:
    """Faust clears the queues of its streams after the seek. A record that was in one is read again
    when it is in no queue any more, and once only: Faust may drop it for a reason of its own.
    """

    async def run_rebalance():
        seconds = itertools.count(0, 6)
        consumer, guard = guarded(84, now=lambda: next(seconds))
        await joined(consumer, guard)
        await consumer._getmany(1)
        event = SimpleNamespace(message=SimpleNamespace(tp=TP, offset=84))
        consumer.queue.append(event)
        for _ in range(4):
            await consumer._getmany(0)
            await asyncio.sleep(0)
        assert not consumer.sought
        consumer.queue.clear()
        for _ in range(6):
            await consumer._getmany(1)
            await asyncio.sleep(0)
        assert consumer.sought[0] == 84
        assert consumer.sought.count(84) == 1

    asyncio.run(run_rebalance())


def test_a_commit_during_the_seek_leaves_nothing_to_read_again() -> None:
    """Faust may repeat a seek while the first one still waits for a position."""

    async def run_rebalance():
        consumer, guard = guarded()
        guard.on_assignment()
        await consumer._getmany(3)

        async def position(_tp):
            guard._fetched[TP].clear()
            return 3

        consumer.position = position
        await consumer.perform_seek()
        assert not consumer.sought

    asyncio.run(run_rebalance())


def test_records_that_the_log_does_not_have_stop_no_commit() -> None:
    """Compaction leaves gaps: what was never fetched is not waited for."""

    async def run_rebalance():
        consumer, guard = guarded(10)
        await joined(consumer, guard)
        guard._fetched[TP] = {11, 12}
        consumer.ack(11, 12)
        assert consumer.commit() == 13

    asyncio.run(run_rebalance())
