"""The compiled kernel that decodes offset commits from two columns in one pass.

The layouts are those of record types 0 and 1 (`messages`). Rows that are not plain (a long varint,
unknown tags, impossible lengths) are only listed: the engine reads them. The output has numbers
only; names are codes of `distinct`.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from typing import NamedTuple

from partage.kernels import (
    Int16Rows,
    Int32Rows,
    Int64Rows,
    Int64s,
    ReadOnlyBytes,
    ReadOnlyInt32s,
    ReadOnlyInt64s,
    kernel,
    kernel_helper,
)
from partage.wire.columns.distinct import (
    NameHashTable,
    find_or_add,
    int16_at,
    int32_at,
    int64_at,
    is_half_full,
)

__all__ = [
    "KEY", "LONG", "MIDDLE", "SHORT", "UNREAD", "CommitSource", "CommitTable", "read_commits",
]  # fmt: skip

#: Rows of the tables of `CommitTable`, by width: int16, int32, int64.
SHORT = ("value_version",)
MIDDLE = ("key", "leader_epoch", "topic_id", "metadata_length")
LONG = ("row", "offset", "commit_timestamp", "expire_timestamp", "metadata_at")
#: The content of each distinct key: record type, pair of group and topic, partition. In place of
#: the type, -1 means that it is no commit's key, -2 that it is not plain.
KEY = ("key_version", "pair", "partition")
_KEY, _LEADER_EPOCH, _TOPIC_ID, _METADATA_LENGTH = range(len(MIDDLE))
_ROW, _OFFSET, _COMMIT_TIMESTAMP, _EXPIRE_TIMESTAMP, _METADATA_AT = range(len(LONG))
_KEY_VERSION, _PAIR, _PARTITION = range(len(KEY))
UNREAD = -3
"""Record type of a key that is not read yet."""


class CommitSource(NamedTuple):
    """Input of the compiled `read_commits`: the encoded keys and values of Kafka records.

    Attributes:
        key_data: bytes of the keys, or of a dictionary's distinct keys.
        key_start: offsets of the keys in ``key_data``.
        key_valid: 0 for a null key; empty if none is null.
        code: dictionary code of each row's key, -1 for null; empty without a dictionary.
        value_data: bytes of the values.
        value_start: offsets of the values in ``value_data``.
        value_valid: 0 for a null value; empty if none is null.
    """

    key_data: ReadOnlyBytes
    key_start: ReadOnlyInt64s
    key_valid: ReadOnlyBytes
    code: ReadOnlyInt32s
    value_data: ReadOnlyBytes
    value_start: ReadOnlyInt64s
    value_valid: ReadOnlyBytes


class CommitTable(NamedTuple):
    """Output of the compiled `read_commits`: decoded offset commits of consumer groups.

    Attributes:
        short, middle, long: fields of 16, 32 and 64 bits, one row per field; `SHORT`, `MIDDLE` and
            `LONG` name the rows.
        others: rows of other or unknown record types.
        odd: rows of commits that the function cannot decode.
        counts: numbers of commits, others and odd rows.
    """

    short: Int16Rows
    middle: Int32Rows
    long: Int64Rows
    others: Int64s
    odd: Int64s
    counts: Int64s


@kernel_helper
def _end_of_names(data, at, end):
    # -1 if the group and topic names are invalid.
    for _ in range(2):
        if at + 2 > end:
            return -1
        length = int16_at(data, at)
        if length < 0:
            return -1
        at += 2 + length
    return at if at + 4 <= end else -1


@kernel_helper
def _read_key(data, at, end, code, keys, pairs):
    keys[_KEY_VERSION, code] = -1
    if end - at < 2 or data[at] != 0 or data[at + 1] > 1:
        return
    stop = _end_of_names(data, at + 2, end)
    if stop < 0:
        keys[_KEY_VERSION, code] = -2
        return
    keys[_KEY_VERSION, code] = data[at + 1]
    keys[_PAIR, code] = find_or_add(data, at + 2, stop, pairs)
    keys[_PARTITION, code] = int32_at(data, stop)


@kernel_helper
def _read_value(data, at, end, highest, table, commit):
    # The result is the position of the topic id; 0 without one, -1 if the value is invalid.
    if at + 20 > end:  # the shortest value: version 0 without metadata
        return -1
    version = int16_at(data, at)
    if version < 0 or version > highest:
        return -1
    table.short[0, commit] = version
    table.long[_OFFSET, commit] = int64_at(data, at + 2)
    at += 10
    table.middle[_LEADER_EPOCH, commit] = -1
    if version >= 3:
        table.middle[_LEADER_EPOCH, commit] = int32_at(data, at)
        at += 4
    if version == 4:
        size = data[at] - 1 if data[at] < 128 else -1
        at += 1
    else:
        size = int16_at(data, at)
        at += 2
    table.middle[_METADATA_LENGTH, commit] = size
    table.long[_METADATA_AT, commit] = at
    if size < 0:
        return -1
    return _read_end_of_value(data, at + size, end, version, table, commit)


@kernel_helper
def _read_end_of_value(data, at, end, version, table, commit):
    # The part behind the metadata. The result is the position of the topic id; 0 without one, -1 if
    # the value is invalid.
    if at + 8 + (8 if version == 1 else 1 if version == 4 else 0) > end:
        return -1
    table.long[_COMMIT_TIMESTAMP, commit] = int64_at(data, at)
    table.long[_EXPIRE_TIMESTAMP, commit] = int64_at(data, at + 8) if version == 1 else -1
    at += 8
    if version < 4 or data[at] == 0:
        return 0
    # One tag, number 0, whatever size of one byte it claims; the id itself has 16 bytes.
    if data[at] != 1 or at + 19 > end or data[at + 1] != 0 or data[at + 2] >= 128:
        return -1
    return at + 3


@kernel_helper
def _write_tombstone(table, commit):
    # A tombstone is an offset commit with a null value.
    table.short[0, commit] = -1
    table.middle[_LEADER_EPOCH, commit] = -1
    table.middle[_METADATA_LENGTH, commit] = 0
    for i in range(1, 5):
        table.long[i, commit] = -1


@kernel_helper
def _key_code(source, row, keys):
    # -1 if the key is null.
    if len(source.code) > 0:
        return source.code[row]
    if len(source.key_valid) > 0 and source.key_valid[row] == 0:
        return -1
    return find_or_add(source.key_data, source.key_start[row], source.key_start[row + 1], keys)


@kernel_helper
def _is_full(keys, pairs, ids):
    return is_half_full(keys, 0) or is_half_full(pairs, 0) or is_half_full(ids, 0)


@kernel(
    "int64(CommitSource, int64, NameHashTable, int32[:, ::1], NameHashTable, NameHashTable,"
    " CommitTable)",
    CommitSource, NameHashTable, CommitTable,
)  # fmt: skip
def read_commits(source, row, keys, key_columns, pairs, ids, table):
    """Decode offset commits of consumer groups into a table, until a hash table is full.

    The caller then enlarges the hash table and calls the function again.

    Args:
        source: the key and value columns.
        row: index of the row to begin with.
        keys: hash table of the distinct keys.
        key_columns: decoded fields of each distinct key; `KEY` names them.
        pairs: hash table of the distinct (group, topic) pairs.
        ids: hash table of the distinct topic ids.
        table: receives the decoded commits.

    Returns:
        the first row that was not decoded.
    """
    commits, others, odd = table.counts[0], table.counts[1], table.counts[2]
    start, valid = source.value_start, source.value_valid
    while row < len(start) - 1 and not _is_full(keys, pairs, ids):
        key = _key_code(source, row, keys)
        if key >= 0 and key_columns[_KEY_VERSION, key] == UNREAD:
            at = key if len(source.code) > 0 else row
            _read_key(source.key_data, source.key_start[at], source.key_start[at + 1], key,
                      key_columns, pairs)  # fmt: skip
        number = key_columns[_KEY_VERSION, key] if key >= 0 else -1
        if number == -1:
            table.others[others] = row
            others += 1
            row += 1
            continue
        id_at = -1
        if number >= 0 and (len(valid) == 0 or valid[row] != 0):
            id_at = _read_value(source.value_data, start[row], start[row + 1], 4 * number, table,
                                commits)  # fmt: skip
        elif number >= 0:
            _write_tombstone(table, commits)
            id_at = 0
        if id_at < 0:
            table.odd[odd] = row
            odd += 1
            row += 1
            continue
        table.middle[_KEY, commits] = key
        table.middle[_TOPIC_ID, commits] = -1
        if id_at > 0:
            table.middle[_TOPIC_ID, commits] = find_or_add(
                source.value_data, id_at, id_at + 16, ids
            )
        table.long[_ROW, commits] = row
        commits += 1
        row += 1
    table.counts[0], table.counts[1], table.counts[2] = commits, others, odd
    return row
