"""Decoding of a growing group log: records and commits in the order in which they take effect.

Group records and plain commits take effect at their own offset, transactional commits at their
transaction's marker (`partage.history.transactions` has the same rule for a whole log). Leader
epochs of batches show when a coordinator moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from partage.errors import WireFormatError
from partage.history.clusters import CoordinatorMove
from partage.history.records import GroupRecord, LogPosition
from partage.wire.batches import LogRecord
from partage.wire.group_log import decode_record

__all__ = ["LiveCommit", "LiveDecoder", "LogBatch"]

#: Largest committed offset that is believed; a larger one is damage (`CommitFolder`).
_LARGEST_OFFSET = (1 << 61) - 1
_COMMITS = ("OFFSET_COMMIT", "LEGACY_OFFSET_COMMIT")


class LogBatch(NamedTuple):
    """Record batch of a partition of ``__consumer_offsets``, with its header fields and records.

    Attributes:
        partition: partition of ``__consumer_offsets``.
        base_offset: offset of the batch's first record.
        leader_epoch: leader epoch of the writing broker, -1 if unknown.
        max_timestamp_ms: latest timestamp; for a marker, the time at which it takes effect.
        producer_id: producer id of the batch's transaction.
        transactional: whether it is part of a transaction; the marker is, too.
        control: whether it is a transaction marker (control batch).
        control_type: ``COMMIT`` or ``ABORT``; None if the log cleaner has emptied the marker.
        records: the data records.
    """

    partition: int
    base_offset: int
    leader_epoch: int
    max_timestamp_ms: int
    producer_id: int
    transactional: bool
    control: bool
    control_type: str | None
    records: Sequence[LogRecord]


class LiveCommit(NamedTuple):
    """Offset commit of a consumer group, which has taken effect.

    ``offset`` is None if it deletes the committed offset. A commit in a transaction takes effect
    when the transaction is committed.
    """

    group: str
    position: LogPosition
    timestamp_ms: int
    topic: str
    partition: int
    offset: int | None


class LiveDecoder:
    r"""Decoder of new record batches of ``__consumer_offsets``, which also follows transactions.

    It is used while a cluster is being recorded.

    Attributes:
        moves: coordinator moves so far, by log partition.
        damaged: number of records that could not be decoded.

    >>> decoder = LiveDecoder()
    >>> record = LogRecord(7, 5, b"\0\2\0\1g", None)
    >>> batch = LogBatch(0, 7, 0, 5, -1, False, False, None, [record])
    >>> [(group, item.type) for group, item in decoder.decode_batches([batch])]
    [('g', 'GROUP_METADATA')]
    """

    def __init__(self) -> None:
        self.moves: dict[int, list[CoordinatorMove]] = {}
        self.damaged = 0
        self._epochs: dict[int, int] = {}
        self._pending: dict[tuple[int, int], list[LiveCommit]] = {}

    def export_state(self) -> tuple[Any, ...]:
        """Return the open transactions and leader epochs as plain values that can be stored.

        `restore_state` takes these values.
        """
        return self.moves, self.damaged, self._epochs, self._pending

    def restore_state(self, state: tuple[Any, ...]) -> None:
        """Restore the open transactions and leader epochs from the values of `export_state`.

        The decoder then continues with the next batch.
        """
        self.moves, self.damaged, self._epochs, self._pending = state

    def decode_batches(
        self, batches: Sequence[LogBatch]
    ) -> Iterator[tuple[str, GroupRecord | LiveCommit]]:
        """Decode record batches of ``__consumer_offsets``.

        Yield pairs of a group and its record or offset commit. A commit in a transaction is yielded
        when the transaction is committed.
        """
        # One by one: the kernel for columns pays only where it is compiled, which takes seconds.
        for batch in batches:
            self._store_coordinator_move(batch)
            items = [self._decoded(batch.partition, record) for record in batch.records]
            found = [one for one in items if one is not None]
            self.damaged += len(items) - len(found)
            if not batch.transactional:
                yield from found
                continue
            producer = batch.partition, batch.producer_id
            if batch.control:
                yield from self._end_transaction(batch, self._pending.pop(producer, []))
                continue
            for group, item in found:
                if isinstance(item, LiveCommit):
                    self._pending.setdefault(producer, []).append(item)
                else:
                    yield group, item

    def _end_transaction(
        self, marker: LogBatch, commits: list[LiveCommit]
    ) -> Iterator[tuple[str, LiveCommit]]:
        """Yield the offset commits of a transaction if it is committed; none if it was aborted.

        Args:
            marker: batch that commits or aborts the transaction.
            commits: offset commits of the transaction.
        """
        if marker.control_type != "COMMIT":
            return
        at = LogPosition(marker.partition, marker.base_offset), marker.max_timestamp_ms
        for one in commits:
            yield one.group, one._replace(position=at[0], timestamp_ms=at[1])

    def _decoded(
        self, partition: int, record: LogRecord
    ) -> tuple[str, GroupRecord | LiveCommit] | None:
        try:
            read = decode_record(record.key, record.value)
        except WireFormatError:
            return None  # the replay of the capture lists it in `bad_records`
        key, at = read.key, (LogPosition(partition, record.offset), record.timestamp_ms)
        group = str(key["groupId"] if "groupId" in key else key["group"])
        if read.type not in _COMMITS:
            return group, GroupRecord(*at, read.type, key, read.value)
        offset = None if read.value is None else _near(read.value["offset"])
        return group, LiveCommit(group, *at, key["topic"], key["partition"], offset)

    def _store_coordinator_move(self, batch: LogBatch) -> None:
        """Store a move of the coordinator if a batch has a higher leader epoch than earlier ones.

        Each new coordinator writes a higher leader epoch.
        """
        if batch.leader_epoch < 0:
            return
        before = self._epochs.get(batch.partition, batch.leader_epoch)
        self._epochs[batch.partition] = batch.leader_epoch
        if batch.leader_epoch > before:
            at = LogPosition(batch.partition, batch.base_offset), batch.max_timestamp_ms
            move = CoordinatorMove(*at, before, batch.leader_epoch)
            self.moves.setdefault(batch.partition, []).append(move)


def _near(offset: int) -> int:
    return max(-_LARGEST_OFFSET, min(offset, _LARGEST_OFFSET))
