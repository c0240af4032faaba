"""The writer of a capture's folder; the folder is valid after a kill at any moment.

    OUT/consumer_offsets.parquet/part-00000000.parquet   records
    OUT/batches.parquet/part-00000000.parquet            batches, transaction markers included
    OUT/cluster.jsonl                                    the metadata, a line for each change
    OUT/cluster-config.json                              settings of the broker
    OUT/capture.json                                     the manifest: the parts of the capture

A part is written under a temporary name, renamed, and then listed in the manifest. A kill before
the last step leaves a part that the manifest does not list. The next capture removes that part and
reads its records again, so no record is lost or stored twice. Many small parts are merged.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from partage.capture.durable import (
    append_line,
    name_folder_in_errors,
    truncate_torn_line,
    write_json,
)
from partage.capture.manifest import (
    MANIFEST,
    TOGETHER,
    CaptureManifest,
    CapturePart,
    RecordBuffer,
    drop_lost_rows,
    merge_parts,
    recorded_batches,
    replaced_path,
    write_table,
)
from partage.capture.unpacking import decompress_batch
from partage.errors import InvalidCaptureError, InvalidConfigError, MissingExtraError
from partage.history.live_log import LogBatch
from partage.model.validation import expect_local
from partage.wire.batches import Batch

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["UNKNOWN_EPOCH", "CaptureObserver", "CaptureWriter", "CleanedOffsets", "LeaderEpochs"]


@dataclass
class _LostRange:
    """Offsets in a log partition whose records compaction removed before they were recorded.

    ``offsets`` is the number of missing records between the offsets ``first`` and ``last``.
    """

    first: int
    last: int
    offsets: int

    def extend(self, first: int, last: int, offsets: int) -> None:
        # Ranges arrive in the order of the log.
        self.first, self.last = min(self.first, first), max(self.last, last)
        self.offsets += offsets


@dataclass
class CleanedOffsets:
    """Counter of the records in each log partition that compaction removed before the recording.

    Offsets are contiguous, so each missing offset is a removed record. Missing offsets before the
    log's end at the first fetch are normal. After it, the recording was too slow or paused, and
    `take_messages` returns a message.

    Attributes:
        counts: dict from log partition to the number of removed offsets.
        first_ends: dict from log partition to the end of the log at the first fetch.
        damaged: log partitions with an unreadable batch, which may be why offsets are missing.
        lost: number of offsets lost while this process ran.

    >>> cleaned = CleanedOffsets({}, {3: 100})
    >>> cleaned.counts, cleaned.take_messages()
    ({}, [])
    """

    counts: dict[int, int] = field(default_factory=dict)
    first_ends: dict[int, int] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    lost: int = 0
    _losses: dict[int, _LostRange] = field(default_factory=dict)

    def set_first_end(self, partition: int, end_offset: int) -> None:
        """Store the end offset that a Kafka log partition had when it was first read.

        Later calls do nothing.
        """
        self.first_ends.setdefault(partition, end_offset)

    def count_removed(self, partition: int, position: int, batch: Batch) -> None:
        """Count the offsets that are missing inside a Kafka record batch or directly before it.

        Compaction has removed their records. ``position`` is the offset after the previous batch.
        """
        if batch.base_offset > position:
            self._count_range(
                partition, position, batch.base_offset - 1, batch.base_offset - position
            )
        span = batch.last_offset - batch.base_offset + 1
        if batch.records < span and batch.base_offset >= position:
            self._count_range(partition, batch.base_offset, batch.last_offset, span - batch.records)

    def _count_range(self, partition: int, first: int, last: int, offsets: int) -> None:
        self.counts[partition] = self.counts.get(partition, 0) + offsets
        end = self.first_ends.get(partition)
        if end is None or last < end:
            return
        if first < end:  # the range began before the capture did: only its tail is a loss
            first, offsets = end, min(offsets, last - end + 1)
        loss = self._losses.setdefault(partition, _LostRange(first, last, 0))
        loss.extend(first, last, offsets)
        self.lost += offsets

    def take_messages(self) -> list[str]:
        """Return a message for each log partition that has lost records since the last call.

        It tells the user that compaction was faster than the recording.
        """
        found = [
            _loss_message(p, loss, damaged=p in self.damaged)
            for p, loss in sorted(self._losses.items())
        ]
        self._losses = {}
        return found


def _loss_message(partition: int, loss: _LostRange, *, damaged: bool) -> str:
    span = loss.last - loss.first + 1
    many = f"{loss.offsets:,} offset{'s' if loss.offsets != 1 else ''}"
    which = (
        f"{many} ({loss.first} to {loss.last})"
        if loss.offsets == span
        else f"{many} between {loss.first} and {loss.last}"
    )
    verb = "are" if loss.offsets != 1 else "is"
    missing = f"partition {partition}: {which} {verb} missing"
    if damaged:
        return f"{missing}: the log cleaner removed them, or their batches are damaged"
    return (
        f"{missing}: the log cleaner removed them before this capture read them "
        "(keep --follow running, or raise min.compaction.lag.ms)"
    )


#: The epoch of a range whose leader is unknown; it cannot be compared.
UNKNOWN_EPOCH = -1
_MOST = 100


class LeaderEpochs:
    """Leader epochs of the recorded batches, to detect that a broker's log was truncated.

    After an unclean leader election, new records may take the offsets of lost ones. Given the last
    epoch read, a broker returns the offset at which its own log differs (KIP-320, KIP-595).

    For each log partition, the epochs are stored in ascending order with the offset after their
    last batch. The range before the first known epoch has the epoch `UNKNOWN_EPOCH`.

    >>> ours = LeaderEpochs({3: [(4, 120), (6, 340)]})
    >>> ours.last_epoch(3, 340), ours.last_epoch(3, 400)
    (6, -1)

    The leader's log has epoch 5 in place of our 6, up to 200: they diverge where our 4 ends.

    >>> ours.diverging_offset(3, 5, 200)
    120
    >>> ours.record_batch(4, 6, 300, 340)
    >>> ours.diverging_offset(4, 5, 320)
    300
    """

    def __init__(self, known: dict[int, list[tuple[int, int]]] | None = None) -> None:
        self.known = {p: list(rows) for p, rows in (known or {}).items()}

    def record_batch(self, partition: int, epoch: int, first: int, end: int) -> None:
        """Store the leader epoch of a recorded Kafka batch.

        The batch has the offsets from ``first`` to ``end`` - 1.
        """
        rows = self.known.setdefault(partition, [])
        if epoch < 0 or (rows and epoch < rows[-1][0]):
            # LeaderEpochs only grow along a log, so a lower or negative one cannot be compared.
            self.known[partition] = []
            return
        if not rows:
            rows.append((UNKNOWN_EPOCH, first))
        if rows[-1][0] == epoch:
            rows.pop()
        rows.append((epoch, end))
        if len(rows) > _MOST:
            rows[:-_MOST] = []
            rows[0] = (UNKNOWN_EPOCH, rows[0][1])

    def last_epoch(self, partition: int, next_offset: int) -> int:
        """Return the leader epoch of the last record that was read from a log partition.

        ``next_offset`` is the offset after that record. The result is `UNKNOWN_EPOCH` if the record
        was skipped or its epoch is unknown.
        """
        rows = self.known.get(partition)
        return rows[-1][0] if rows and rows[-1][1] == next_offset else UNKNOWN_EPOCH

    def diverging_offset(self, partition: int, epoch: int, end_offset: int) -> int:
        """Return the offset from which the leader's log differs from what was recorded.

        Args:
            partition: the log partition.
            epoch: the diverging epoch in the broker's response, which is the greatest epoch of the
                leader's log that is at most the last epoch read.
            end_offset: the offset at which this epoch ends in the leader's log.
        """
        ours = [e for of, e in self.known.get(partition, ()) if of <= epoch]
        return min(end_offset, ours[-1]) if ours else end_offset

    def remove_epochs_from(self, partition: int, offset: int) -> None:
        """Remove the recorded leader epochs from ``offset`` on, after a truncation of the log."""
        rows = self.known.get(partition, [])
        kept = [row for row in rows if row[1] <= offset]
        if len(kept) < len(rows) and (not kept or kept[-1][1] < offset):
            kept.append((rows[len(kept)][0], offset))
        self.known[partition] = kept

    def remove_partition(self, partition: int) -> None:
        """Remove all leader epochs of a log partition whose broker does not compare them."""
        self.known.pop(partition, None)

    def epoch_rows(self) -> Iterable[tuple[int, list[tuple[int, int]]]]:
        """Return the recorded leader epochs of each log partition, as (epoch, end offset) pairs."""
        return sorted((p, list(rows)) for p, rows in self.known.items() if rows)


_RECORDS, _BATCHES, _STATES = "consumer_offsets.parquet", "batches.parquet", "cluster.jsonl"
_CONFIG, _LOCK = "cluster-config.json", ".lock"
_PART = re.compile(r"\.?(part-(\d{8})\.parquet)(?:\.tmp|\.replaced)?")
#: A part is written when it reaches one of these: rows, or bytes in memory.
PART_ROWS, PART_BYTES = 500_000, 128 << 20


class CaptureObserver(Protocol):
    """Interface of an object that receives all data while ``partage capture`` records a cluster.

    One such object reports rebalances during the recording.
    """

    def on_batch(self, batch: LogBatch) -> None:
        """Receive a new Kafka record batch; batches of a partition arrive in order of offsets."""

    def on_state(self, state: Mapping[str, Any]) -> None:
        """Receive a new state of the Kafka cluster: its brokers, topics and leaders."""

    def on_config(self, configs: Mapping[str, str]) -> None:
        """Receive the settings of a Kafka broker by name; called before any record batch."""

    def on_fetch(self, partition: int, first_end: int) -> None:
        """Handle a successful fetch from a partition of ``__consumer_offsets``, by its number.

        ``first_end`` is the partition's end offset when the recording began to read it.
        """

    def on_truncation(self, partition: int) -> None:
        """Discard all batches of a log partition, because an unclean leader truncated the log."""


class CaptureWriter:
    """Writer of a recording of a Kafka cluster into a folder.

    Only one process at a time may write into a folder.

    Args:
        out: the capture's folder; created if it does not exist.
        part_rows: number of records after which a part is written.
        together: number of small parts that are merged into one.
        observer: gets all data that is added; None for none.

    Raises:
        InvalidConfigError: the folder cannot be used, or another process writes into it.
        InvalidCaptureError: the capture in the folder is of another cluster or topic.
        MissingExtraError: pyarrow is not installed.

    Attributes:
        last_state_ms: time of the last line of ``cluster.jsonl`` when the folder was opened; None
            if it had none.
        epochs: the leader epochs of the added records.
    """

    def __init__(
        self,
        out: Path,
        *,
        part_rows: int = PART_ROWS,
        together: int = TOGETHER,
        observer: CaptureObserver | None = None,
    ) -> None:
        try:
            import pyarrow as pa  # noqa: F401 - fail now, not after an hour of reading
        except ImportError:
            raise MissingExtraError("pyarrow", extra="capture") from None
        expect_local(out, "--out")
        self.folder = out.absolute()
        self._part_rows = part_rows
        self._together = together
        self._observer = observer
        self._columns = RecordBuffer()
        self._states: list[dict[str, Any]] = []
        self._changed = False
        self._disk_failed = False
        try:
            _expect_ours(self.folder)
            for name in (_RECORDS, _BATCHES):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / _LOCK).open("ab")
        except OSError as e:
            what = f"cannot be written ({e.strerror or e})"
            raise InvalidConfigError("--out", what, str(out)) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            what = "another capture writes into it at this moment"
            raise InvalidConfigError("--out", what, str(out)) from None
        self.last_state_ms: int | None = None
        with name_folder_in_errors(out):
            self.manifest = self._manifest()
            self._next = dict(self.manifest.positions)
            self.epochs = LeaderEpochs(self.manifest.epochs)
            self._cleaned = CleanedOffsets(self.manifest.cleaned, self.manifest.first_ends)
            self._unreported: list[str] = []
            self._remove_unlisted_files()
            self._complete_truncation()
            self._last = self._last_state()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Records read before an error are valid: only a failing disk prevents writing them.
        try:
            if not self._disk_failed:
                self.write_part()
        finally:
            self._lock.close()

    def _manifest(self) -> CaptureManifest:
        # A new folder gets one first, which marks it as a capture.
        found = CaptureManifest.load_manifest(self.folder)
        if found is None:
            found = CaptureManifest()
            found.save_manifest(self.folder)
        return found

    def _last_state(self) -> dict[str, Any] | None:
        path = self.folder / _STATES
        last = truncate_torn_line(path)
        try:
            if last is None:
                return None
            state = json.loads(last)
            self.last_state_ms = int(state["ts_ms"])
            return _content(state)
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
            what = f"{path}: the last line is not JSON; capture into a new folder"
            raise InvalidCaptureError(what) from None

    def _remove_unlisted_files(self) -> None:
        self._hide_replaced_files()
        counted, replaced = {one.number for one in self.manifest.parts}, set(self.manifest.replaced)
        for folder in (self.folder / _RECORDS, self.folder / _BATCHES):
            for path in folder.iterdir():
                part = _PART.fullmatch(path.name)
                if part is None:
                    continue
                counts = path.name == part[1] and int(part[2]) in counted
                kept = path == replaced_path(folder / part[1]) and int(part[2]) in replaced
                if not (counts or kept):
                    path.unlink()
        for path in self.folder.glob(".*.tmp"):
            path.unlink()

    # --- what is written -------------------------------------------------------------------

    def set_ids(self, *, cluster_id: str | None = None, topic_id: str | None = None) -> None:
        """Set the ids of the recorded Kafka cluster and topic.

        If the recording has ids already, they must be the same.

        Raises:
            InvalidCaptureError: the capture is of another cluster or topic.
        """
        asked = (("cluster", "cluster_id", cluster_id), ("topic", "topic_id", topic_id))
        for what, name, given in asked:
            known = getattr(self.manifest, name)
            if given is None or given == known:
                continue
            if known is not None:
                raise InvalidCaptureError(
                    f"{self.folder}: is a capture of the {what} with id {known}, and this is "
                    f"{given}; capture it into another folder"
                )
            setattr(self.manifest, name, given)
            self._changed = True

    def next_offset(self, partition: int) -> int:
        """Return the offset at which reading a Kafka log partition continues; 0 at the start."""
        return self._next.get(partition, 0)

    def skip_to(self, partition: int, offset: int, warning: str) -> None:
        """Skip a range of a Kafka log partition up to ``offset``, and store a warning.

        The next record to read has this offset. ``warning`` is the reason.
        """
        self.manifest.add_warning(f"partition {partition}: {warning}")
        self._next[partition] = offset
        self._changed = True

    def remove_lost_rows(self, partition: int, offset: int, warning: str) -> None:
        """Remove the recorded rows of records that the broker's log has lost.

        Reading continues at ``offset``, the first lost offset. The reason is stored as a warning.
        """
        # The manifest is written first, so that the next capture completes the removal if the
        # process is killed.
        with self._writing():
            self.write_part()
            self.manifest.add_warning(f"partition {partition}: {warning}")
            self.manifest.cut = {partition: offset}
            self._next[partition] = offset
            self.epochs.remove_epochs_from(partition, offset)
            self._put_manifest()
            self._complete_truncation()
        if self._observer is not None:
            self._observer.on_truncation(partition)

    def _complete_truncation(self) -> None:
        # Repeating it changes nothing.
        if not self.manifest.cut:
            return
        rows = [0, 0]
        for part in self.manifest.parts:
            for at, (path, column) in enumerate(
                zip(self._paths(part.number), ("offset", "last_offset"), strict=True)
            ):
                rows[at] += drop_lost_rows(path, column, self.manifest.cut)
        self.manifest.records, self.manifest.batches = rows
        self.manifest.cut = {}
        self.manifest.save_manifest(self.folder)

    def add_warning(self, message: str) -> None:
        """Add a warning to the recording, for example that a range of the Kafka log was skipped."""
        self.manifest.add_warning(message)
        self._changed = True

    def add_batch(self, partition: int, batch: Batch) -> bool:
        """Add a record batch of a log partition to the recording.

        The result is False if the recording already has the batch.

        Raises:
            WireFormatError: the batch cannot be read; none of its records are added.
        """
        if batch.last_offset < self.next_offset(partition):
            return False
        added = self._columns.add_batch(partition, batch, decompress_batch(batch))
        self._cleaned.count_removed(partition, self.next_offset(partition), batch)
        self._next[partition] = batch.last_offset + 1
        self.epochs.record_batch(
            partition, batch.leader_epoch, batch.base_offset, batch.last_offset + 1
        )
        if self._observer is not None:
            self._observer.on_batch(added)
        if self._columns.record_count >= self._part_rows or self._columns.bytes >= PART_BYTES:
            self.write_part()
        return True

    def set_first_end(self, partition: int, end_offset: int) -> None:
        """Store the end offset that a Kafka log partition had when it was first read.

        Later calls do nothing.
        """
        # Offsets that are missing beyond it count as lost: compaction removed them while the
        # capture ran.
        self._cleaned.set_first_end(partition, end_offset)
        if self._observer is not None:
            self._observer.on_fetch(partition, self._cleaned.first_ends[partition])

    def mark_damaged(self, partition: int) -> None:
        """Store that a log partition has a damaged batch, which may be why records are missing."""
        self._cleaned.damaged.add(partition)

    def take_reports(self) -> list[str]:
        """Return the messages about records that were lost to compaction since the last call.

        The recorder shows them to the user.
        """
        reports, self._unreported = self._unreported, []
        return reports

    def recorded_content(
        self, read_offsets: Mapping[int, int]
    ) -> tuple[Mapping[str, str], list[Mapping[str, Any]], Iterator[LogBatch]]:
        """Return what the capture has recorded so far: broker settings, cluster states and records.

        Args:
            read_offsets: dict from log partition to an offset. Files with older records only are
                skipped.

        Raises:
            InvalidCaptureError: a file is damaged.
        """
        states, configs = self.folder / _STATES, self.folder / _CONFIG
        try:
            lines = states.read_bytes().splitlines() if states.exists() else []
            found = [json.loads(line) for line in lines if line.strip()]
            known = json.loads(configs.read_bytes())["configs"] if configs.exists() else {}
        except (ValueError, KeyError, TypeError, RecursionError) as e:
            what = f"{self.folder}: {_STATES} or {_CONFIG} is damaged ({type(e).__name__})"
            raise InvalidCaptureError(f"{what}; capture into a new folder") from None
        batches = (
            batch
            for part in self.manifest.parts
            for batch in recorded_batches(*self._paths(part.number), read_offsets)
        )
        return known, found, batches

    @property
    def lost_offsets(self) -> int:
        """Number of records that compaction removed before this process could read them.

        They are missing in the recording.
        """
        return self._cleaned.lost

    @property
    def next_offsets(self) -> int:
        """Sum of the next offsets to read of all Kafka log partitions.

        It measures the progress of a recording.
        """
        return sum(self._next.values())

    @property
    def pending_batches(self) -> int:
        """Number of Kafka record batches in memory that the recording's files do not have yet."""
        return self._columns.batch_count

    @property
    def record_count(self) -> int:
        """Number of Kafka records in the recording, in its files and in memory."""
        return self.manifest.records + self._columns.record_count

    def add_state(self, state: Mapping[str, Any]) -> bool:
        """Add a state of the cluster (its metadata) to the recording.

        The result is False if it equals the last state.
        """
        said = _content(state)
        if said == self._last:
            return False
        self._last = said
        self._states.append(dict(state))
        if self._observer is not None:
            self._observer.on_state(state)
        # The very first line waits for records: it may have to stand for times before it.
        with self._writing():
            if (self.folder / _STATES).exists():
                self._put_states()
        return True

    def write_config(self, configs: Mapping[str, str]) -> None:
        """Write the Kafka broker's settings to ``cluster-config.json``, unless there are none."""
        if self._observer is not None:
            self._observer.on_config(configs)
        with self._writing():
            if configs or not (self.folder / _CONFIG).exists():
                write_json(self.folder / _CONFIG, {"configs": dict(configs)})

    def write_part(self) -> None:
        """Write all records in memory to new files of the recording, and list them in its manifest.

        Raises:
            InvalidConfigError: the folder cannot be written, a full disk for example.
        """
        with self._writing():
            self._write_part()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        # After the first disk error all writes stop.
        try:
            with name_folder_in_errors(self.folder):
                yield
        except InvalidConfigError:
            self._disk_failed = True
            raise

    def _write_part(self) -> None:
        first_ms = self._columns.first_ms
        for one in self._cleaned.take_messages():
            self.add_warning(one)
            self._unreported.append(one)
        if self._columns.batch_count:
            number = self.manifest.next_part
            for path, table in zip(
                self._paths(number), self._columns.to_arrow_tables(), strict=True
            ):
                write_table(path, table)
            self.manifest.records += self._columns.record_count
            self.manifest.batches += self._columns.batch_count
            self.manifest.parts.append(CapturePart(number))
            self.manifest.next_part += 1
            self._columns = RecordBuffer()
            self._changed = True
        self._put_states(first_ms)
        if self._changed or not (self.folder / MANIFEST).exists():
            self._put_manifest()
            self._changed = False
            self._merge()

    def _put_manifest(self) -> None:
        self.manifest.positions = dict(self._next)
        self.manifest.epochs = dict(self.epochs.epoch_rows())
        self.manifest.save_manifest(self.folder)

    def _merge(self) -> None:
        # The files that the previous merge replaced are removed as well.
        import pyarrow as pa

        before, replaced = list(self.manifest.replaced), set[int]()
        try:
            while merge_parts(
                self.manifest, self._paths, write_table,
                max_rows=PART_ROWS, max_bytes=PART_BYTES, together=self._together,
            ):  # fmt: skip
                replaced |= set(self.manifest.replaced)
                self.manifest.replaced = sorted(replaced)
                self._put_manifest()
        except (pa.ArrowException, OSError) as e:
            # A damaged part or a full disk stops the merge only: the capture is unchanged.
            why = (str(e).splitlines() or [type(e).__name__])[0]
            self.add_warning(f"small parts cannot be merged ({why})")
        if replaced:
            self._hide_replaced_files()
            for path in (path for number in before for path in self._paths(number)):
                replaced_path(path).unlink(missing_ok=True)

    def _hide_replaced_files(self) -> None:
        for path in (path for number in self.manifest.replaced for path in self._paths(number)):
            if path.exists():
                path.replace(replaced_path(path))

    def _paths(self, number: int) -> tuple[Path, Path]:
        name = CapturePart(number).file_name
        return self.folder / _RECORDS / name, self.folder / _BATCHES / name

    def _put_states(self, first_ms: int | None = None) -> None:
        path = self.folder / _STATES
        if self._states and not path.exists() and first_ms is not None:
            first = self._states[0]
            if first_ms < first["ts_ms"]:
                # The state before the first one is unknown: assume the first, marked as assumed.
                self._states.insert(0, {**first, "ts_ms": max(0, first_ms - 1), "assumed": True})
        for state in self._states:
            append_line(path, json.dumps(state, separators=(",", ":")))
        self._states = []


def _content(state: Mapping[str, Any]) -> dict[str, Any]:
    # Without its time, for comparison with the last state.
    return {name: value for name, value in state.items() if name not in {"ts_ms", "assumed"}}


def _expect_ours(folder: Path) -> None:
    # Empty subfolders of a killed capture pass.
    if folder.exists() and not folder.is_dir():
        raise InvalidConfigError("--out", "must be a folder, and this is a file", str(folder))
    if not folder.is_dir() or (folder / MANIFEST).is_file():
        return
    for one in folder.iterdir():
        begun = one.name in {_RECORDS, _BATCHES} and one.is_dir() and not any(one.iterdir())
        if not begun and not one.name.startswith("."):
            what = "must be empty, new, or a capture that partage capture began"
            raise InvalidConfigError("--out", what, str(folder))
