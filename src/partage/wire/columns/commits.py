"""Decoding of a column of offset commits, which are 97 % of a group log's records.

A kernel reads all rows in one pass, without an object for each (`commit_kernel`). The engine reads
rows that are not plain (a long varint, unknown tags, impossible lengths), so that the result is
the engine's for every row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import WireFormatError
from partage.java.strings import decode_utf8
from partage.java.uuids import ZERO_UUID, uuid_text
from partage.wire.columns import BinaryColumn, Bytes, CodedColumn, Ints
from partage.wire.columns.commit_kernel import (
    KEY,
    LONG,
    MIDDLE,
    SHORT,
    UNREAD,
    CommitSource,
    CommitTable,
    read_commits,
)
from partage.wire.columns.distinct import NameTable, read_only
from partage.wire.group_log import RECORD_TYPES, DecodedRecord, decode_record

__all__ = ["TOMBSTONE", "OffsetCommits", "decode_offset_commits"]

TOMBSTONE = -1
"""``value_version`` of a row whose value is null."""

#: Interpreter steps that the kernel takes for a row: measured 43 us at 0.25 us a step.
_STEPS_A_ROW = 170


@dataclass(frozen=True)
class OffsetCommits:
    """Decoded offset commits of consumer groups: one array per field, one element per commit.

    The commits have the order of their rows. `decode_offset_commits` creates this object.

    Attributes:
        row: the commit's row in the input columns.
        key_version: record type, 0 or 1.
        pair: index of the commit's (group, topic) pair in ``pairs``.
        pairs: the distinct (group, topic) pairs.
        partition: number of the topic's partition.
        value_version: `TOMBSTONE` for a null value; the other columns then have defaults.
        offset: the committed offset.
        leader_epoch: -1 for none.
        commit_timestamp, expire_timestamp: milliseconds; -1 for none.
        topic_id: index of the topic's id in ``topic_ids``; -1 for none.
        topic_ids: the distinct topic ids.
        others: rows of other or unknown record types, for `group_log.decode_record`.
        errors: dict from row of a damaged commit to its error.
        series: a small number for each distinct group, topic and partition.
        metadata_at, metadata_length: offset and size of the commit's metadata in the values' bytes.
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
    series: NDArray[np.int32]
    metadata_at: Ints = field(repr=False)
    metadata_length: NDArray[np.int32] = field(repr=False)
    _values: Bytes = field(repr=False)
    _odd: dict[int, DecodedRecord] = field(repr=False)

    def __len__(self) -> int:
        return len(self.row)

    def commit_metadata(self, commit: int) -> str:
        """Return the metadata string that a client attached to an offset commit.

        It is mostly empty. ``commit`` is the commit's index in these columns.
        """
        if commit in self._odd:
            return str((self._odd[commit].value or {}).get("metadata", ""))
        at, length = int(self.metadata_at[commit]), int(self.metadata_length[commit])
        return decode_utf8(self._values[at : at + length].tobytes()) if length > 0 else ""

    def decode_record(self, commit: int) -> DecodedRecord:
        """Return one of the offset commits as a single record.

        ``commit`` is the commit's index in these columns. The result equals that of
        `group_log.decode_record`.
        """
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
        value["metadata"] = self.commit_metadata(commit)
        value["commitTimestamp"] = int(self.commit_timestamp[commit])
        if version == 1:
            value["expireTimestamp"] = int(self.expire_timestamp[commit])
        if self.topic_id[commit] >= 0:
            value["topicId"] = self.topic_ids[self.topic_id[commit]]
        return value


def decode_offset_commits(keys: BinaryColumn | CodedColumn, values: BinaryColumn) -> OffsetCommits:
    r"""Decode the offset commits of ``__consumer_offsets`` from columns of record keys and values.

    Keys of a dictionary-encoded column are decoded only once. Damaged rows raise no error: they are
    in ``errors``. Rows of other record types are in ``others``.

    Raises:
        ValueError: the columns differ in length.

    >>> key = b"\0\1\0\1g\0\1t\0\0\0\3"
    >>> value = b"\0\0" + (42).to_bytes(8, "big") + b"\0\0" + (100).to_bytes(8, "big")
    >>> made = decode_offset_commits(BinaryColumn.from_rows([key]), BinaryColumn.from_rows([value]))
    >>> made.pairs, made.partition.tolist(), made.offset.tolist()
    ([('g', 't')], [3], [42])
    """
    if len(keys) != len(values):
        raise ValueError(f"{len(keys)} keys, but {len(values)} values")
    return _CommitsBuilder(keys, values, _read_plain(keys, values)).commits()


class _PlainCommits(NamedTuple):
    """Decoded offset commits whose group and topic names are still bytes, not strings.

    Compiled code has produced them, without a Python object for each.

    Attributes:
        columns: the columns of `OffsetCommits` by name; ``pair`` is an index into ``pairs``, and
            ``topic_id`` into ``topic_ids``.
        pairs: distinct bytes of group and topic, each with its length before it.
        topic_ids: distinct ids, 16 bytes each.
        others: rows of other or unknown record types.
        odd: rows of commits that the compiled code could not decode.
        key: code of each commit's distinct key.
        key_columns: pair and partition of each distinct key.
    """

    columns: dict[str, NDArray[Any]]
    pairs: list[bytes]
    topic_ids: list[bytes]
    others: Ints
    odd: Ints
    key: NDArray[np.int32]
    key_columns: NDArray[np.int32]


def _read_plain(keys: BinaryColumn | CodedColumn, values: BinaryColumn) -> _PlainCommits:
    rows = len(keys)
    coded = isinstance(keys, CodedColumn)
    names = keys.names if isinstance(keys, CodedColumn) else keys
    code = keys.code if isinstance(keys, CodedColumn) else np.empty(0, np.int32)
    source = CommitSource(
        *_kernel_column(names), read_only(code, np.int32), *_kernel_column(values)
    )
    known, pairs, ids = NameTable(), NameTable(), NameTable()
    room = len(names) if coded else len(known.names.table)
    key_columns = np.full((len(KEY), room + 1), UNREAD, np.int32)
    table = CommitTable(
        np.empty((len(SHORT), rows + 1), np.int16), np.empty((len(MIDDLE), rows + 1), np.int32),
        np.empty((len(LONG), rows + 1), np.int64), np.empty(rows, np.int64),
        np.empty(rows, np.int64), np.zeros(3, np.int64),
    )  # fmt: skip
    row = 0
    while True:
        row = read_commits(
            source, row, known.names, key_columns, pairs.names, ids.names, table,
            work=rows * _STEPS_A_ROW,
        )  # fmt: skip
        if row == rows:
            break
        for one in (known, pairs, ids):
            if one.is_full(0):
                one.enlarge()
        more = len(known.names.table) + 1 - key_columns.shape[1]
        if more > 0:
            unread = np.full((len(KEY), more), UNREAD, np.int32)
            key_columns = np.concatenate([key_columns, unread], 1)
    commits, others, odd = table.counts.tolist()
    columns: dict[str, NDArray[Any]] = {}
    for fields, rows_of in ((SHORT, table.short), (MIDDLE, table.middle), (LONG, table.long)):
        columns |= {name: rows_of[i, :commits] for i, name in enumerate(fields)}
    key = columns.pop("key")
    columns |= {name: key_columns[i][key] for i, name in enumerate(KEY)}
    columns["key_version"] = columns["key_version"].astype(np.int16)
    return _PlainCommits(
        columns, pairs.names_in_code_order(names.data), ids.names_in_code_order(values.data),
        table.others[:others].copy(), table.odd[:odd].copy(), key, key_columns[1:],
    )  # fmt: skip


def _kernel_column(column: BinaryColumn) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    # The validity array is empty if every row is valid.
    valid = np.empty(0, np.uint8) if column.valid is None else column.valid
    return (
        read_only(column.data, np.uint8),
        read_only(column.start, np.int64),
        read_only(valid, np.uint8),
    )


class _CommitsBuilder:
    """Builder of `OffsetCommits` from the columns that compiled code has decoded.

    It decodes the names, and those commits that compiled code cannot decode.
    """

    def __init__(
        self, keys: BinaryColumn | CodedColumn, values: BinaryColumn, plain: _PlainCommits
    ) -> None:
        self.keys, self.values, self.plain = keys, values, plain
        self.pairs: dict[tuple[str, str], int] = {}
        self.topic_ids: dict[str, int] = {}
        self.errors: dict[int, WireFormatError] = {}

    def commits(self) -> OffsetCommits:
        columns = dict(self.plain.columns)
        renamed = _numbers(self.plain.pairs, self._pair_code)
        columns["pair"] = _renumber(columns["pair"], renamed)
        ids = _numbers(self.plain.topic_ids, lambda raw: self._id_number(uuid_text(raw)))
        columns["topic_id"] = _renumber(columns["topic_id"], ids)
        records = self._engine_records()
        odd: dict[int, DecodedRecord] = {}
        if records:
            columns = self._insert(columns, records)
            indexes = np.searchsorted(columns["row"], list(records)).tolist()
            odd = dict(zip(indexes, records.values(), strict=True))
        return OffsetCommits(
            **columns,
            pairs=list(self.pairs),
            topic_ids=list(self.topic_ids),
            others=self.plain.others,
            errors=self.errors,
            series=self._series(columns, renamed, odd=bool(records)),
            _values=self.values.data,
            _odd=odd,
        )

    def _series(
        self, columns: dict[str, NDArray[Any]], renamed: NDArray[np.int32], *, odd: bool
    ) -> NDArray[np.int32]:
        if odd:
            return _number_pairs(columns["pair"], columns["partition"])
        pair, partition = self.plain.key_columns
        known = np.where((pair >= 0) & (pair < len(renamed) - 1), pair, -1)
        return _number_pairs(renamed[known], partition)[self.plain.key]

    def _engine_records(self) -> dict[int, DecodedRecord]:
        out: dict[int, DecodedRecord] = {}
        for row in self.plain.odd.tolist():
            try:
                out[row] = decode_record(self.keys[row], self.values[row])
            except WireFormatError as error:
                self.errors[row] = error.with_traceback(None)
        return out

    def _insert(
        self, columns: dict[str, NDArray[Any]], records: dict[int, DecodedRecord]
    ) -> dict[str, NDArray[Any]]:
        rows = [{"row": row, **self._cells(record)} for row, record in records.items()]
        order = np.argsort(np.append(columns["row"], [r["row"] for r in rows]), kind="stable")
        return {
            name: np.append(column, np.array([r[name] for r in rows], column.dtype))[order]
            for name, column in columns.items()
        }

    def _cells(self, record: DecodedRecord) -> dict[str, int]:
        key, value = record.key, record.value or {}
        topic_id = value.get("topicId")
        return {
            "key_version": record.key_version,
            "pair": self.pairs.setdefault((key["group"], key["topic"]), len(self.pairs)),
            "partition": key["partition"],
            "value_version": TOMBSTONE if record.value_version is None else record.value_version,
            "offset": value.get("offset", -1),
            "leader_epoch": value.get("leaderEpoch", -1),
            "commit_timestamp": value.get("commitTimestamp", -1),
            "expire_timestamp": value.get("expireTimestamp", -1),
            "topic_id": -1 if topic_id is None else self._id_number(topic_id),
            "metadata_at": -1,
            "metadata_length": 0,
        }

    def _pair_code(self, raw: bytes) -> int:
        length = int.from_bytes(raw[:2], "big")
        pair = decode_utf8(raw[2 : 2 + length]), decode_utf8(raw[4 + length :])
        return self.pairs.setdefault(pair, len(self.pairs))

    def _id_number(self, text: str) -> int:
        # The zero id means none, as in Kafka.
        return -1 if text == ZERO_UUID else self.topic_ids.setdefault(text, len(self.topic_ids))


def _numbers(names: Sequence[bytes], number_of: Callable[[bytes], int]) -> NDArray[np.int32]:
    # Followed by -1 for a missing one.
    return np.array([*map(number_of, names), -1], np.int32)


def _renumber(codes: NDArray[Any], numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    # Different bytes may decode to one name.
    same = np.array_equal(numbers[:-1], np.arange(len(numbers) - 1))
    return codes if same else numbers[codes]  # code -1 selects the last number, -1


def _number_pairs(pair: NDArray[np.int32], partition: NDArray[np.int32]) -> NDArray[np.int32]:
    both = (pair.astype(np.int64) << 32) | (partition.astype(np.int64) & 0xFFFFFFFF)
    codes: NDArray[np.int32] = np.unique(both, return_inverse=True)[1].astype(np.int32)
    return codes
