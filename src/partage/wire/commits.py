"""Offset commits by the column: 97 % of a group log's records, without an object for each.

Layouts are those of the engine for record types 0 and 1. Many rows are read by a compiled kernel in
one pass (`commit_scan`), few with NumPy (`commit_parsing`). A row that is not plain (a long varint,
unknown tags, lying lengths) goes to the engine, so that the answer is the engine's for every row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import WireFormatError
from partage.java.strings import decode_utf8
from partage.java.uuids import ZERO_UUID, uuid_text
from partage.wire.columns import BinaryColumn, Bytes, CodedColumn, Ints
from partage.wire.commit_parsing import Parsed, parsed
from partage.wire.commit_scan import pays, scanned
from partage.wire.group_log import RECORD_TYPES, DecodedRecord, decode_record

__all__ = ["TOMBSTONE", "OffsetCommits", "decode_offset_commits"]

TOMBSTONE = -1
"""``value_version`` of a row whose value is null."""


@dataclass(frozen=True)
class OffsetCommits:
    """The offset commits of two columns, one element a commit in the order of the rows.

    ``row`` is the commit's row in the input; ``pairs[pair]`` its group and topic; ``series`` a
    small number that it shares with the commits of its group, topic and partition alone;
    ``topic_ids[topic_id]`` the topic's id as Kafka prints it, -1 where the commit has none.
    ``value_version`` is `TOMBSTONE` for a null value, whose other columns hold defaults.
    Timestamps are milliseconds; -1 in ``leader_epoch`` and ``expire_timestamp`` means absent.

    ``metadata_at`` and ``metadata_length`` say where in the values' bytes the committer's text is.

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
    series: NDArray[np.int32]
    metadata_at: Ints = field(repr=False)
    metadata_length: NDArray[np.int32] = field(repr=False)
    _values: Bytes = field(repr=False)
    _odd: dict[int, DecodedRecord] = field(repr=False)

    def __len__(self) -> int:
        return len(self.row)

    def metadata(self, commit: int) -> str:
        """The text that the committer left, mostly empty."""
        if commit in self._odd:
            return str((self._odd[commit].value or {}).get("metadata", ""))
        at, length = int(self.metadata_at[commit]), int(self.metadata_length[commit])
        return decode_utf8(self._values[at : at + length].tobytes()) if length > 0 else ""

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


def decode_offset_commits(keys: BinaryColumn | CodedColumn, values: BinaryColumn) -> OffsetCommits:
    r"""Decode the offset commits among the records of two columns of equal length.

    A group's commits have the same keys again and again: as a dictionary, they are read once.
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
    if pays(rows=len(keys)):
        plain = scanned(keys, values)
    else:
        plain = parsed(keys.spelt() if isinstance(keys, CodedColumn) else keys, values)
    return _Finish(keys, values, plain).commits()


class _Finish:
    """Names made of their bytes, and the rows that only the engine can read put in their places."""

    def __init__(
        self, keys: BinaryColumn | CodedColumn, values: BinaryColumn, plain: Parsed
    ) -> None:
        self.keys, self.values, self.plain = keys, values, plain
        self.pairs: dict[tuple[str, str], int] = {}
        self.topic_ids: dict[str, int] = {}
        self.errors: dict[int, WireFormatError] = {}

    def commits(self) -> OffsetCommits:
        """The commits of all rows, in their order."""
        columns = dict(self.plain.columns)
        renamed = _numbers(self.plain.pairs, self._pair_code)
        columns["pair"] = _renamed(columns["pair"], renamed)
        columns["topic_id"] = _renamed(
            columns["topic_id"], _numbers(self.plain.topic_ids, self._id_code)
        )
        records = self._engines()
        odd: dict[int, DecodedRecord] = {}
        if records:
            columns = self._with(columns, records)
            places = np.searchsorted(columns["row"], list(records)).tolist()
            odd = dict(zip(places, records.values(), strict=True))
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
        """Numbers of (pair, partition), from distinct keys where they are known."""
        if self.plain.keys is None or odd:
            return _paired(columns["pair"], columns["partition"])
        key, (pair, partition) = self.plain.keys
        known = np.where((pair >= 0) & (pair < len(renamed) - 1), pair, -1)
        return _paired(renamed[known], partition)[key]

    def _engines(self) -> dict[int, DecodedRecord]:
        """What the engine makes of the rows that are not plain; its errors are noted."""
        out: dict[int, DecodedRecord] = {}
        for row in self.plain.odd.tolist():
            try:
                out[row] = decode_record(self.keys[row], self.values[row])
            except WireFormatError as error:
                self.errors[row] = error.with_traceback(None)
        return out

    def _with(
        self, columns: dict[str, NDArray[Any]], records: dict[int, DecodedRecord]
    ) -> dict[str, NDArray[Any]]:
        """The columns with the engine's commits among them."""
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

    def _id_code(self, raw: bytes) -> int:
        return self._id_number(uuid_text(raw))

    def _id_number(self, text: str) -> int:
        """The zero id means none, as in Kafka."""
        return -1 if text == ZERO_UUID else self.topic_ids.setdefault(text, len(self.topic_ids))


def _numbers(names: Sequence[bytes], number_of: Callable[[bytes], int]) -> NDArray[np.int32]:
    """A number for each of some byte strings, and -1 at last, for none."""
    return np.array([*map(number_of, names), -1], np.int32)


def _renamed(codes: NDArray[Any], numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Codes of bytes as codes of what they say: different bytes may say the same in Java."""
    same = np.array_equal(numbers[:-1], np.arange(len(numbers) - 1))
    return codes if same else numbers[codes]  # -1 stays -1: it is the last one


def _paired(pair: NDArray[np.int32], partition: NDArray[np.int32]) -> NDArray[np.int32]:
    """Small numbers, the same for equal pairs of numbers."""
    both = (pair.astype(np.int64) << 32) | (partition.astype(np.int64) & 0xFFFFFFFF)
    codes: NDArray[np.int32] = np.unique(both, return_inverse=True)[1].astype(np.int32)
    return codes
