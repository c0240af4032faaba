"""Copied log segments, batch by batch, as the broker stored them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from partage.errors import WireFormatError
from partage.wire.batches import PREFIX_BYTES, Batch, ChecksumError, OldMagicError, batch_at
from partage.wire.errors import TruncatedError

__all__ = ["batches_in"]

#: The largest batch that is believed; `message.max.bytes` limits real ones.
LARGEST_BATCH = 1 << 28


def batches_in(
    path: Path, *, crc32c: Callable[[bytes], int], report: Callable[[str], None]
) -> Iterator[Batch]:
    """Yield the batches of a segment (``*.log``) or a snapshot (``*.checkpoint``).

    A copy of a live log may end with an incomplete batch. A batch with a wrong CRC is skipped,
    because its length may still be right. If the length is wrong too, no batch follows, and the
    rest of the file stays unread.

    Args:
        path: the file.
        crc32c: computes the checksum of some bytes.
        report: called with a sentence about skipped bytes and their position.

    Raises:
        OSError: the file cannot be read.
    """
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
    """Return the bytes of the batch at ``position``; its length is checked first.

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
