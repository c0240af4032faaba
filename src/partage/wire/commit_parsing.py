"""The offset commits of two columns with NumPy: for few rows, and where Numba is not installed.

Layouts are those of record types 0 and 1, all rows of a chunk at once. `commit_kernel` does the
same in one pass; a row that is not plain is noted, for the engine to look at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.wire.columns import BinaryColumn, Bytes, Ints
from partage.wire.primitives import LONGEST_STRING

__all__ = ["COLUMNS", "Parsed", "parsed"]

ROWS_AT_ONCE = 1 << 16
"""Rows of a chunk: some 20 MB of positions and columns, whatever the column's length."""

#: The columns of commits, by name; ``pair`` and ``topic_id`` number the names in `Parsed`.
COLUMNS: dict[str, type[np.signedinteger[Any]]] = {
    "row": np.int64,
    "key_version": np.int16,
    "pair": np.int32,
    "partition": np.int32,
    "value_version": np.int16,
    "offset": np.int64,
    "leader_epoch": np.int32,
    "commit_timestamp": np.int64,
    "expire_timestamp": np.int64,
    "topic_id": np.int32,
    "metadata_at": np.int64,
    "metadata_length": np.int32,
}


@dataclass(frozen=True)
class Parsed:
    """The plain commits of two columns, and the rows that are none.

    Attributes:
        columns: `COLUMNS`, one element a commit.
        pairs: bytes of group and topic, each with its length before it; a commit's ``pair``
            is a place in it.
        topic_ids: 16 bytes each; a commit's ``topic_id`` is a place in it, or -1.
        others: rows of other or unknown record types.
        odd: rows of commits that the engine must look at.
        keys: each commit's key by its number, and of each key pair and partition; None where
            nobody has numbered them.
    """

    columns: dict[str, NDArray[Any]]
    pairs: list[bytes]
    topic_ids: list[bytes]
    others: Ints
    odd: Ints
    keys: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None


def parsed(keys: BinaryColumn, values: BinaryColumn) -> Parsed:
    """The commits of two columns of equal length."""
    pairs: dict[bytes, int] = {}
    topic_ids: dict[bytes, int] = {}
    chunks: list[dict[str, NDArray[Any]]] = []
    others, odd = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for first in range(0, len(keys), ROWS_AT_ONCE):
        rows = np.arange(first, min(first + ROWS_AT_ONCE, len(keys)))
        number = _record_types(keys, rows)
        is_commit = (number == 0) | (number == 1)
        others.append(rows[~is_commit])
        rows, number = rows[is_commit], number[is_commit]
        made, plain = _columns(keys, values, rows, number, (pairs, topic_ids))
        chunks.append({n: made[n][plain].astype(kind) for n, kind in COLUMNS.items()})
        odd.append(rows[~plain])
    columns = {
        name: np.concatenate([chunk[name] for chunk in chunks] or [np.empty(0, kind)])
        for name, kind in COLUMNS.items()
    }
    return Parsed(
        columns, list(pairs), list(topic_ids), np.concatenate(others), np.concatenate(odd)
    )


def _columns(
    keys: BinaryColumn,
    values: BinaryColumn,
    rows: Ints,
    number: Ints,
    codes: tuple[dict[bytes, int], dict[bytes, int]],
) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
    """Columns of the commits at ``rows``, and which of them are plain."""
    key = _parse_keys(keys, rows)
    value = _parse_values(values, rows, number)
    alive = values.is_valid()[rows]
    plain = key.plain & (value.plain | ~alive)
    with_id = np.flatnonzero(plain & alive & (value.topic_id_at >= 0))
    ids = value.topic_id_at, value.topic_id_at + 16
    return {
        "row": rows,
        "key_version": number,
        "pair": _coded(keys.data, np.flatnonzero(plain), (key.first, key.stop), codes[0]),
        "partition": key.partition,
        "value_version": np.where(alive, value.version, -1),
        "offset": np.where(alive, value.offset, -1),
        "leader_epoch": np.where(alive, value.leader_epoch, -1),
        "commit_timestamp": np.where(alive, value.commit_timestamp, -1),
        "expire_timestamp": np.where(alive, value.expire_timestamp, -1),
        "topic_id": _coded(values.data, with_id, ids, codes[1]),
        "metadata_at": np.where(alive, value.metadata_at, -1),
        "metadata_length": np.where(alive, value.metadata_length, 0),
    }, plain


def _record_types(keys: BinaryColumn, rows: Ints) -> Ints:
    """Record type of each row, -1 (which is none) where the key is null or too short."""
    start, end = keys.bounds(rows)
    readable = end - start >= 2
    if keys.valid is not None:
        readable &= keys.valid[rows]
    return np.where(readable, _int(keys.data, start, 2), -1)


def _int(data: Bytes, at: Ints, width: int) -> Ints:
    """Signed big-endian integers of ``width`` bytes at ``at``; a place beyond the data reads
    bytes of no meaning, which the caller's mask leaves out.
    """
    if len(data) == 0:
        return np.zeros(len(at), np.int64)
    raw = np.take(data, at[:, None] + np.arange(width), mode="clip")
    return raw.view(f">i{width}").ravel().astype(np.int64)


def _coded(
    data: Bytes, places: Ints, bounds: tuple[Ints, Ints], codes: dict[bytes, int]
) -> NDArray[np.int32]:
    """A code for the bytes within ``bounds`` at each of ``places``, -1 elsewhere; equal bytes
    share one. ``codes`` remembers them.
    """
    out = np.full(len(bounds[0]), -1, np.int32)
    if len(places) == 0:
        return out
    starts, stops = bounds[0][places], bounds[1][places]
    base = int(starts.min())
    raw = data[base : int(stops.max())].tobytes()
    cuts = zip((starts - base).tolist(), (stops - base).tolist(), strict=True)
    slices = [raw[a:b] for a, b in cuts]
    for one in dict.fromkeys(slices):
        codes.setdefault(one, len(codes))
    out[places] = list(map(codes.__getitem__, slices))
    return out


@dataclass
class _Keys:
    plain: NDArray[np.bool_]
    first: Ints
    stop: Ints
    partition: Ints


@dataclass
class _Values:
    plain: NDArray[np.bool_]
    version: Ints
    offset: Ints
    leader_epoch: Ints
    metadata_at: Ints
    metadata_length: Ints
    commit_timestamp: Ints
    expire_timestamp: Ints
    topic_id_at: Ints


def _parse_keys(column: BinaryColumn, rows: Ints) -> _Keys:
    """Where group and topic stand (with their lengths) and the partition; type bytes skipped."""
    start, end = column.bounds(rows)
    first = start + 2
    plain = first + 2 <= end
    group = _int(column.data, first, 2)
    plain &= group >= 0
    topic_at = first + 2 + np.maximum(group, 0)
    plain &= topic_at + 2 <= end
    topic = _int(column.data, topic_at, 2)
    plain &= topic >= 0
    stop = topic_at + 2 + np.maximum(topic, 0)
    plain &= stop + 4 <= end
    return _Keys(plain, first, stop, _int(column.data, stop, 4))


def _parse_values(column: BinaryColumn, rows: Ints, number: Ints) -> _Values:
    """The fields of values in versions 0 to 4; ``plain`` is False where the engine must look."""
    data = column.data
    start, end = column.bounds(rows)
    version = _int(data, start, 2)
    plain = (start + 2 <= end) & (version >= 0) & (version <= np.where(number == 0, 0, 4))
    offset = _int(data, start + 2, 8)
    has_epoch = version >= 3
    leader_epoch = np.where(has_epoch, _int(data, start + 10, 4), -1)
    at = start + 10 + 4 * has_epoch
    compact = version == 4
    short, byte = _int(data, at, 2), _int(data, at, 1)
    length = np.where(compact, byte - 1, short)
    plain &= (length >= 0) & (length <= LONGEST_STRING)
    metadata_at = at + np.where(compact, 1, 2)
    at = metadata_at + np.maximum(length, 0)
    commit_timestamp = _int(data, at, 8)
    at = at + 8
    has_expiry = version == 1
    expire_timestamp = np.where(has_expiry, _int(data, at, 8), -1)
    at = at + 8 * has_expiry
    tags, tag, size = (_int(data, at + place, 1) for place in range(3))
    topic_id = compact & (tags == 1)
    # One tag, number 0, whatever size of one byte it claims; the id itself is 16 bytes.
    plain &= ~compact | (tags == 0) | (topic_id & (tag == 0) & (size >= 0))
    need = at + np.where(topic_id, 19, np.where(compact, 1, 0))
    plain &= need <= end
    topic_id_at = np.where(topic_id, at + 3, -1)
    return _Values(
        plain, version, offset, leader_epoch, metadata_at, length,
        commit_timestamp, expire_timestamp, topic_id_at,
    )  # fmt: skip
