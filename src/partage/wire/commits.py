"""Offset commits by the column: 97 % of a group log's records, without an object for each.

Layouts are those of the engine for record types 0 and 1; here they are read with NumPy, all rows of
a chunk at once. A row that is not plain (a long varint, unknown tags, lying lengths) goes to the
engine, so that the answer is the engine's for every row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import WireFormatError
from partage.wire.columns import BinaryColumn, Bytes, Ints
from partage.wire.group_log import RECORD_TYPES, DecodedRecord, decode_record
from partage.wire.primitives import LONGEST_STRING
from partage.wire.text import ZERO_UUID, java_text, uuid_text

__all__ = ["TOMBSTONE", "OffsetCommits", "decode_offset_commits"]

TOMBSTONE = -1
"""``value_version`` of a row whose value is null."""

ROWS_AT_ONCE = 1 << 16
"""Rows of a chunk: some 20 MB of positions and columns, whatever the column's length."""


@dataclass(frozen=True)
class OffsetCommits:
    """The offset commits of two columns, one element a commit in the order of the rows.

    ``row`` is the commit's row in the input; ``pairs[pair]`` its group and topic;
    ``topic_ids[topic_id]`` the topic's id as Kafka prints it, -1 where the commit has none.
    ``value_version`` is `TOMBSTONE` for a null value, whose other columns hold defaults.
    Timestamps are milliseconds; -1 in ``leader_epoch`` and ``expire_timestamp`` means absent.

    ``others`` are the rows of other or unknown record types, for `group_log.decode_record`;
    ``errors`` the commits that are damaged, by row.
    """

    row: Ints
    key_version: NDArray[np.int16]
    pair: NDArray[np.int32]
    pairs: list[tuple[str, str]]
    partition: NDArray[np.int32]
    value_version: NDArray[np.int16]
    offset: Ints
    leader_epoch: NDArray[np.int32]
    commit_timestamp: Ints
    expire_timestamp: Ints
    topic_id: NDArray[np.int32]
    topic_ids: list[str]
    others: Ints
    errors: dict[int, WireFormatError]
    _metadata: dict[int, str] = field(repr=False)
    _odd: dict[int, DecodedRecord] = field(repr=False)

    def __len__(self) -> int:
        return len(self.row)

    def metadata(self, commit: int) -> str:
        """The text that the committer left, mostly empty."""
        if commit in self._odd:
            return str((self._odd[commit].value or {}).get("metadata", ""))
        return self._metadata.get(commit, "")

    def record(self, commit: int) -> DecodedRecord:
        """Commit number ``commit`` as the engine decodes it."""
        if commit in self._odd:
            return self._odd[commit]
        number = int(self.key_version[commit])
        group, topic = self.pairs[self.pair[commit]]
        key = {"group": group, "topic": topic, "partition": int(self.partition[commit])}
        version = int(self.value_version[commit])
        if version == TOMBSTONE:
            return DecodedRecord(RECORD_TYPES[number], number, key, None, None)
        return DecodedRecord(RECORD_TYPES[number], number, key, version, self._value(commit))

    def _value(self, commit: int) -> dict[str, Any]:
        version = self.value_version[commit]
        value: dict[str, Any] = {"offset": int(self.offset[commit])}
        if version >= 3:
            value["leaderEpoch"] = int(self.leader_epoch[commit])
        value["metadata"] = self.metadata(commit)
        value["commitTimestamp"] = int(self.commit_timestamp[commit])
        if version == 1:
            value["expireTimestamp"] = int(self.expire_timestamp[commit])
        if self.topic_id[commit] >= 0:
            value["topicId"] = self.topic_ids[self.topic_id[commit]]
        return value


def decode_offset_commits(keys: BinaryColumn, values: BinaryColumn) -> OffsetCommits:
    r"""Decode the offset commits among the records of two columns of equal length.

    No error is raised for damaged rows: they are in ``errors``.

    Raises:
        ValueError: the columns differ in length.

    >>> key = b"\0\1\0\1g\0\1t\0\0\0\3"
    >>> value = b"\0\0" + (42).to_bytes(8, "big") + b"\0\0" + (100).to_bytes(8, "big")
    >>> made = decode_offset_commits(BinaryColumn.of([key]), BinaryColumn.of([value]))
    >>> made.pairs, made.partition.tolist(), made.offset.tolist()
    ([('g', 't')], [3], [42])
    """
    if len(keys) != len(values):
        raise ValueError(f"{len(keys)} keys, but {len(values)} values")
    builder = _Builder(keys, values)
    others = [np.empty(0, np.int64)]
    for first in range(0, len(keys), ROWS_AT_ONCE):
        rows = np.arange(first, min(first + ROWS_AT_ONCE, len(keys)))
        number = _record_types(keys, rows)
        is_commit = (number == 0) | (number == 1)
        others.append(rows[~is_commit])
        builder.add(rows[is_commit], number[is_commit])
    return builder.built(others=np.concatenate(others))


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
    data: Bytes,
    places: Ints,
    bounds: tuple[Ints, Ints],
    *,
    codes: dict[bytes, int],
    new_code: Callable[[bytes], int],
) -> NDArray[np.int32]:
    """A code for the bytes within ``bounds`` at each of ``places``, -1 elsewhere; equal bytes
    share one. ``codes`` remembers them, ``new_code`` makes those of bytes not met before.
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
        if one not in codes:
            codes[one] = new_code(one)
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


_COLUMNS: dict[str, type[np.signedinteger[Any]]] = {
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
}


class _Builder:
    """Chunks of columns while they are made, and the dictionaries of names that they share."""

    def __init__(self, keys: BinaryColumn, values: BinaryColumn) -> None:
        self.keys, self.values = keys, values
        self.valid = values.is_valid()
        self.chunks: list[dict[str, NDArray[Any]]] = []
        self.count = 0
        self.codes: dict[bytes, int] = {}
        self.pairs: dict[tuple[str, str], int] = {}
        self.topic_ids: dict[str, int] = {}
        self.id_codes: dict[bytes, int] = {}
        self.metadata: dict[int, str] = {}
        self.odd: dict[int, DecodedRecord] = {}
        self.errors: dict[int, WireFormatError] = {}

    def add(self, rows: Ints, number: Ints) -> None:
        """Decode the commits of some rows, whose record types are given."""
        key = _parse_keys(self.keys, rows)
        value = _parse_values(self.values, rows, number)
        alive = self.valid[rows]
        plain = key.plain & (value.plain | ~alive)
        columns: dict[str, NDArray[Any]] = {
            "row": rows,
            "key_version": number,
            "pair": self._pairs_of(key, plain),
            "partition": key.partition,
            "value_version": np.where(alive, value.version, TOMBSTONE),
            "offset": np.where(alive, value.offset, -1),
            "leader_epoch": np.where(alive, value.leader_epoch, -1),
            "commit_timestamp": np.where(alive, value.commit_timestamp, -1),
            "expire_timestamp": np.where(alive, value.expire_timestamp, -1),
            "topic_id": self._ids_of(value, plain & alive),
        }
        keep = plain.copy()
        records: dict[int, DecodedRecord] = {}
        for place in np.flatnonzero(~plain).tolist():
            made = self._engines(int(rows[place]))
            if made is not None:
                keep[place] = True
                records[place] = made
                self._fill(columns, place, made)
        commit = self.count + np.cumsum(keep) - 1
        self.odd.update((int(commit[place]), made) for place, made in records.items())
        self._note_metadata(value, plain & alive, commit)
        self.chunks.append({n: c[keep].astype(_COLUMNS[n]) for n, c in columns.items()})
        self.count += int(keep.sum())

    def _engines(self, row: int) -> DecodedRecord | None:
        """What the engine makes of a row that is not plain; its error is noted."""
        try:
            return decode_record(self.keys[row], self.values[row])
        except WireFormatError as error:
            self.errors[row] = error.with_traceback(None)
            return None

    def _fill(self, columns: dict[str, NDArray[Any]], place: int, record: DecodedRecord) -> None:
        key, value = record.key, record.value or {}
        pair = key["group"], key["topic"]
        topic_id = value.get("topicId")
        filled = {
            "pair": self.pairs.setdefault(pair, len(self.pairs)),
            "partition": key["partition"],
            "value_version": TOMBSTONE if record.value_version is None else record.value_version,
            "offset": value.get("offset", -1),
            "leader_epoch": value.get("leaderEpoch", -1),
            "commit_timestamp": value.get("commitTimestamp", -1),
            "expire_timestamp": value.get("expireTimestamp", -1),
            "topic_id": -1 if topic_id is None else self._id_code(topic_id),
        }
        for name, cell in filled.items():
            columns[name][place] = cell

    def _note_metadata(self, value: _Values, plain: NDArray[np.bool_], commit: Ints) -> None:
        for place in np.flatnonzero(plain & (value.metadata_length > 0)).tolist():
            at, length = int(value.metadata_at[place]), int(value.metadata_length[place])
            text = java_text(self.values.data[at : at + length].tobytes())
            self.metadata[int(commit[place])] = text

    def _pairs_of(self, key: _Keys, plain: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Codes of (group, topic): rows with equal bytes share one without decoding them again."""
        bounds = key.first, key.stop
        places = np.flatnonzero(plain)
        return _coded(self.keys.data, places, bounds, codes=self.codes, new_code=self._pair_code)

    def _pair_code(self, raw: bytes) -> int:
        length = int.from_bytes(raw[:2], "big")
        pair = java_text(raw[2 : 2 + length]), java_text(raw[4 + length :])
        return self.pairs.setdefault(pair, len(self.pairs))

    def _ids_of(self, value: _Values, plain: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Codes of topic ids; the zero id means none, as in Kafka."""
        places = np.flatnonzero(plain & (value.topic_id_at >= 0))
        bounds = value.topic_id_at, value.topic_id_at + 16
        return _coded(
            self.values.data,
            places,
            bounds,
            codes=self.id_codes,
            new_code=lambda raw: self._id_code(uuid_text(raw)),
        )

    def _id_code(self, text: str) -> int:
        return -1 if text == ZERO_UUID else self.topic_ids.setdefault(text, len(self.topic_ids))

    def built(self, *, others: Ints) -> OffsetCommits:
        """The commits of all chunks."""
        columns = {
            name: np.concatenate([chunk[name] for chunk in self.chunks] or [np.empty(0, kind)])
            for name, kind in _COLUMNS.items()
        }
        return OffsetCommits(
            **columns,
            pairs=list(self.pairs),
            topic_ids=list(self.topic_ids),
            others=others,
            errors=self.errors,
            _metadata=self.metadata,
            _odd=self.odd,
        )
