"""A capture from copied files: segments of ``__consumer_offsets``, and the metadata log.

The folders are those of a broker's ``log.dirs``, or copies: ``__consumer_offsets-7/*.log``,
``__cluster_metadata-0/*.log`` and ``*.checkpoint``, ``meta.properties``. Copies of several brokers
may be given. A partition is read from all its copies, because one may be cleaned further than
another, end earlier, or be damaged; a record in any copy is taken. The metadata log is not
cleaned, so only the copy that ends last is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from pathlib import Path
from typing import BinaryIO

from partage.capture.metadata_image import MetadataImage
from partage.capture.unpacking import crc32c_function, decompress_batch
from partage.capture.writing import CaptureWriter
from partage.errors import InvalidCaptureError, WireFormatError
from partage.wire.batches import (
    PREFIX_BYTES,
    Batch,
    ChecksumError,
    OldMagicError,
    batch_at,
    marker_of,
    records_of,
)
from partage.wire.errors import TruncatedError
from partage.wire.metadata_log import decode_metadata_record

__all__ = ["batches_in", "capture_log_dirs"]

_PARTITION = re.compile(r"__consumer_offsets-(\d{1,9})")
_METADATA = "__cluster_metadata-0"
_SEGMENT = re.compile(r"\d{20}\.log")
_CHECKPOINT = re.compile(r"(\d{20})-\d{10}\.checkpoint")
DamageReport = Callable[[str], None]


def capture_log_dirs(folders: Sequence[Path], writer: CaptureWriter) -> None:
    """Record ``__consumer_offsets`` from copies of Kafka brokers' log directories.

    No running cluster is needed. Ranges that cannot be read become warnings in the recording.

    Args:
        folders: the copied log directories.
        writer: the recording; records that it already has are skipped.

    Raises:
        InvalidCaptureError: a folder does not exist, or none has a segment of that topic.
        OSError: a file cannot be read.
    """
    for folder in folders:
        if not folder.is_dir():
            raise InvalidCaptureError(f"{folder}: no such folder; give a copy of a log.dirs folder")
    partitions = _partitions(folders)
    metadata = _copies(folders, _METADATA)
    if not partitions and not metadata:
        looked = ", ".join(map(str, folders))
        raise InvalidCaptureError(
            f"{looked}: has no __consumer_offsets-N/*.log and no {_METADATA}/*.log; "
            "give the folder that holds these folders"
        )
    cluster_id = _cluster_id(folders)
    writer.set_ids(cluster_id=cluster_id)
    if metadata:
        _read_metadata(max(metadata, key=_last_offset), writer, cluster_id)
    for number, copies in sorted(partitions.items()):
        _read_partition(number, copies, writer)
    writer.write_part()


def _copies(folders: Sequence[Path], name: str) -> list[Path]:
    found = [one for folder in folders for one in (folder / name, folder) if one.name == name]
    return [one for one in dict.fromkeys(found) if one.is_dir() and _files(one)]


def _partitions(folders: Sequence[Path]) -> dict[int, list[Path]]:
    found: dict[int, list[Path]] = {}
    for folder in folders:
        for one in (folder, *sorted(folder.iterdir())):
            match = _PARTITION.fullmatch(one.name)
            if match and one.is_dir() and _segments(one):
                found.setdefault(int(match[1]), []).append(one)
    return found


def _segments(folder: Path) -> list[Path]:
    # A segment's name is its first offset.
    return sorted(one for one in folder.iterdir() if _SEGMENT.fullmatch(one.name))


def _files(folder: Path) -> list[Path]:
    # A truncated log begins with a snapshot.
    snapshots = [one for one in folder.iterdir() if _CHECKPOINT.fullmatch(one.name)]
    return [*snapshots, *_segments(folder)]


def _last_offset(folder: Path) -> tuple[int, int]:
    # Copies of a log sort by the offset of the last batch, then by the first offset, descending.
    segments = _segments(folder)
    last = -1
    for path in segments[-1:]:
        for batch in batches_in(path, crc32c=crc32c_function(), report=lambda _: None):
            last = batch.last_offset
    snapshots = [int(one.name[:20]) for one in _files(folder) if _CHECKPOINT.fullmatch(one.name)]
    return max([last, *snapshots]), -int(segments[0].stem) if segments else 0


def _cluster_id(folders: Sequence[Path]) -> str | None:
    """Return the id of the Kafka cluster to which copied log directories belong.

    It is read from their files ``meta.properties``. None if there is no such file.

    Args:
        folders: the copied log directories.

    Raises:
        InvalidCaptureError: the files name several clusters.
    """
    found = set()
    for folder in folders:
        for path in (folder / "meta.properties", folder.parent / "meta.properties"):
            if path.is_file():
                lines = path.read_text("utf-8", "replace").splitlines()
                found |= {one[11:].strip() for one in lines if one.startswith("cluster.id=")}
    if len(found) > 1:
        what = f"log dirs of several clusters ({', '.join(sorted(found))})"
        raise InvalidCaptureError(f"{what}: give those of one cluster")
    return next(iter(found), None)


def _read_partition(partition: int, folders: Sequence[Path], writer: CaptureWriter) -> None:
    """Add the records of one ``__consumer_offsets`` partition to the recording, from copied files.

    If several brokers' copies contain the same record batch, the copy with the most records of it
    is used.

    Args:
        partition: number of the partition.
        folders: copies of the partition's directory from several brokers.
        writer: writer of the recording.
    """
    # Of several copies of a batch, the one with the most records is used.
    expected = writer.next_offset(partition)
    first = min(int(_segments(folder)[0].stem) for folder in folders)
    if first > expected:
        writer.skip_to(
            partition, first, f"the log begins at offset {first}: what was before is gone"
        )
    read = [_batches(folder, partition, writer, alone=len(folders) == 1) for folder in folders]
    for batch, report in merge(*read, key=lambda one: (one[0].base_offset, -one[0].records)):
        try:
            writer.add_batch(partition, batch)
        except WireFormatError as e:
            report(f"batch of offset {batch.base_offset}: {e}; passed over")
    writer.set_first_end(partition, writer.next_offset(partition))


def _batches(
    folder: Path, number: int, writer: CaptureWriter, *, alone: bool
) -> Iterator[tuple[Batch, DamageReport]]:
    def report(what: str) -> None:
        writer.mark_damaged(number)
        writer.add_warning(f"{folder.name if alone else folder}: {what}")

    for path in _segments(folder):
        for batch in batches_in(path, crc32c=crc32c_function(), report=report):
            yield batch, report


def _read_metadata(folder: Path, writer: CaptureWriter, cluster_id: str | None) -> None:
    # A log that does not begin at offset 0 needs a snapshot before it.
    def report(what: str) -> None:
        writer.add_warning(f"{folder.name}: {what}")

    image, segments = MetadataImage(), _segments(folder)
    known = writer.last_state_ms  # lines up to this time exist already

    def seen(ts_ms: int) -> None:
        if known is None or ts_ms > known:
            writer.add_state(image.cluster_state_line(ts_ms, cluster_id))

    start = int(segments[0].stem) if segments else None
    snapshot = _find_snapshot(folder, start)
    if start != 0 and snapshot is None:
        report("the log does not begin at offset 0 and there is no snapshot to begin with")
    through = 0
    if snapshot is not None and start != 0:
        through = int(snapshot.name[:20])
        last = None
        for batch in batches_in(snapshot, crc32c=crc32c_function(), report=report):
            _apply(batch, image, report)
            last = batch
        if last is not None:
            seen(last.max_timestamp_ms)
    for path in segments:
        for batch in batches_in(path, crc32c=crc32c_function(), report=report):
            if batch.last_offset < through:
                continue
            if _apply(batch, image, report):
                seen(batch.max_timestamp_ms)


def _find_snapshot(folder: Path, log_start: int | None) -> Path | None:
    """Return the snapshot of the KRaft metadata log from which the copied log continues.

    It is the oldest snapshot without a gap between it and the log. None if there is none.

    Args:
        folder: folder of the metadata log.
        log_start: first offset of the copied log, None without a log.
    """
    # A newer snapshot would lose history.
    found = sorted(one for one in folder.iterdir() if _CHECKPOINT.fullmatch(one.name))
    reaching = [one for one in found if log_start is None or int(one.name[:20]) >= log_start]
    return next(iter(reaching), None)


def _apply(batch: Batch, image: MetadataImage, report: DamageReport) -> bool:
    changed = False
    try:
        payload = decompress_batch(batch)
        if batch.control:
            marker = marker_of(batch, payload)
            if marker.type == "LEADER_CHANGE" and len(marker.value) >= 6:
                # LeaderChangeMessage: its version int16, then a field of the same, leader int32.
                image.controller = int.from_bytes(marker.value[2:6], "big", signed=True)
                return True
            return False
        for record in records_of(batch, payload):
            changed |= image.apply_record(decode_metadata_record(record.value))
    except WireFormatError as e:
        report(f"batch of offset {batch.base_offset}: {e}; passed over")
    return changed and not image.in_transaction


#: The largest batch that is believed; `message.max.bytes` limits real ones.
LARGEST_BATCH = 1 << 28


def batches_in(
    path: Path, *, crc32c: Callable[[bytes], int], report: Callable[[str], None]
) -> Iterator[Batch]:
    """Yield the record batches in a log segment (``*.log``) or metadata snapshot of Kafka.

    Damaged batches are skipped and reported.

    Args:
        path: the segment or snapshot file.
        crc32c: function that computes the checksum of bytes.
        report: function that receives a message about skipped bytes and their position.

    Raises:
        OSError: the file cannot be read.
    """
    # A batch with a wrong CRC is skipped. If its length is wrong, too, the rest of the file is
    # skipped. An incomplete last batch is normal in a copy of a live log.
    with path.open("rb") as file:
        size = path.stat().st_size
        position = 0
        while position < size:
            data = b""
            try:
                data = _bytes_of_batch(file, position, size)
                batch = batch_at(data, crc32c=crc32c)
            except OldMagicError as e:
                report(f"{path.name} at byte {position}: {e.what} ({e.size} bytes passed over)")
                position += e.size
                continue
            except ChecksumError as e:
                report(f"{path.name} at byte {position}: {e.what}; passed over")
                position += len(data)
                continue
            except TruncatedError:
                report(f"{path.name} at byte {position}: the last batch is not complete "
                     f"({size - position} bytes), as in a copy of a live log")  # fmt: skip
                return
            except WireFormatError as e:
                report(f"{path.name} at byte {position}: {e}; the {size - position} bytes that "
                     "follow are not read")  # fmt: skip
                return
            if batch is None:
                return
            yield batch
            position += batch.size


def _bytes_of_batch(file: BinaryIO, position: int, size: int) -> bytes:
    """Read the bytes of one record batch from a log file of Kafka.

    The length in its header is checked first, because the file may be damaged.

    Args:
        file: the open log file.
        position: position at which the batch begins, in bytes.
        size: size of the file in bytes.

    Raises:
        TruncatedError: the file ends before the batch does.
        WireFormatError: the length is impossible, or zeros follow (a preallocated file).
    """
    file.seek(position)
    prefix = file.read(PREFIX_BYTES)
    if len(prefix) < PREFIX_BYTES:
        raise TruncatedError("no prefix", offset=position, field="batch")
    length = int.from_bytes(prefix[8:], "big", signed=True)
    if not prefix.strip(b"\0"):
        raise WireFormatError("zeros", offset=position, field="batch")
    if not 0 < length <= LARGEST_BATCH:
        raise WireFormatError(f"length {length}", offset=position + 8, field="batch.length")
    if length > size - position - PREFIX_BYTES:
        raise TruncatedError("not complete", offset=position, field="batch")
    return prefix + file.read(length)
