"""The two tables of a capture as they grow in memory: records, and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partage.wire.batches import Batch, marker_of, records_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RecordBuffer"]

_RECORDS = ("partition", "offset", "timestamp_ms", "key", "value")
_BATCHES = (
    "partition", "base_offset", "last_offset", "records", "size", "leader_epoch", "magic",
    "compression", "max_timestamp_ms", "producer_id", "producer_epoch", "base_sequence",
    "transactional", "control", "control_type", "coordinator_epoch",
)  # fmt: skip


class RecordBuffer:
    """Records and batches not yet written.

    Attributes:
        bytes: estimated memory: keys and values, and an amount for each row.
        first_ms: the smallest timestamp of a record; None before the first record.
    """

    def __init__(self) -> None:
        self._records: dict[str, list[Any]] = {name: [] for name in _RECORDS}
        self._batches: dict[str, list[Any]] = {name: [] for name in _BATCHES}
        self.bytes = 0
        self.first_ms: int | None = None

    @property
    def records(self) -> int:
        """Number of data records."""
        return len(self._records["offset"])

    @property
    def batches(self) -> int:
        """Number of batches, markers included."""
        return len(self._batches["base_offset"])

    def add(self, partition: int, batch: Batch, payload: bytes) -> None:
        """Add a batch and its records; add nothing if the batch cannot be read.

        Raises:
            WireFormatError: the payload, decompressed, is not what the header says.
        """
        kind, epoch = None, None
        if batch.control:
            if batch.records:  # a compacted log keeps empty batches, markers among them
                marker = marker_of(batch, payload)
                kind, epoch = marker.type, marker.coordinator_epoch
        else:
            self._add_records(partition, batch, payload)
        row = (
            partition, batch.base_offset, batch.last_offset, batch.records, batch.size,
            batch.leader_epoch, batch.magic, batch.compression, batch.max_timestamp_ms,
            batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.transactional,
            batch.control, kind, epoch,
        )  # fmt: skip
        for name, value in zip(_BATCHES, row, strict=True):
            self._batches[name].append(value)
        self.bytes += 200

    def _add_records(self, partition: int, batch: Batch, payload: bytes) -> None:
        found = list(records_of(batch, payload))  # all of them, or an error and none
        if not found:
            return
        offsets, times, keys, values = zip(*found, strict=True)
        self._records["partition"] += [partition] * len(found)
        self._records["offset"] += offsets
        self._records["timestamp_ms"] += times
        self._records["key"] += keys
        self._records["value"] += values
        self.bytes += len(payload) + 64 * len(found)
        first = min(times)
        self.first_ms = first if self.first_ms is None else min(self.first_ms, first)

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Return the records and the batches as Arrow tables, with the types of a capture."""
        import pyarrow as pa

        records = pa.schema([
            ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp_ms", pa.int64()),
            ("key", pa.binary()), ("value", pa.binary()),
        ])  # fmt: skip
        batches = pa.schema([
            ("partition", pa.int32()), ("base_offset", pa.int64()), ("last_offset", pa.int64()),
            ("records", pa.int32()), ("size", pa.int32()), ("leader_epoch", pa.int32()),
            ("magic", pa.int8()), ("compression", pa.string()), ("max_timestamp_ms", pa.int64()),
            ("producer_id", pa.int64()), ("producer_epoch", pa.int16()),
            ("base_sequence", pa.int32()), ("transactional", pa.bool_()), ("control", pa.bool_()),
            ("control_type", pa.string()), ("coordinator_epoch", pa.int32()),
        ])  # fmt: skip
        return pa.table(self._records, schema=records), pa.table(self._batches, schema=batches)
