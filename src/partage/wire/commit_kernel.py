"""The offset commits of two columns in one pass over their bytes; numbers out, no objects.

The layouts are those of record types 0 and 1 (`wire.messages`). What is not plain (a long varint,
unknown tags, lying lengths) is only noted, for the engine to look at. Names become codes by a hash
table over the columns' own bytes (`kernel_pieces`).
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from partage.kernels import kernel, piece
from partage.wire.kernel_pieces import code_of, int16_at, int32_at, int64_at

__all__ = ["KEY", "LONG", "MIDDLE", "SHORT", "UNREAD", "scan_rows"]

#: Columns of the three tables that `scan_rows` fills, by width: int16, int32, int64.
SHORT = ("value_version",)
MIDDLE = ("key", "leader_epoch", "topic_id", "metadata_length")
#: What is known of each distinct key: record type (below 0: see `_read_key`), pair, partition.
KEY = ("key_version", "pair", "partition")
#: In place of the type: nobody has looked at this key yet.
UNREAD = -3
LONG = ("row", "offset", "commit_timestamp", "expire_timestamp", "metadata_at")
_READ = "Array(uint8, 1, 'C', readonly=True)"
_CODES = "Array(int32, 1, 'C', readonly=True)"


@piece
def _stop_of_names(data, at, end):
    """Where group and topic of a key end, whose lengths begin at ``at``; -1 if not within."""
    for _ in range(2):
        if at + 2 > end:
            return -1
        length = int16_at(data, at)
        if length < 0:
            return -1
        at += 2 + length
    return at if at + 4 <= end else -1


@piece
def _read_key(data, at, end, code, keys, pair_slots, pair_names, counts):
    """What is known of a key: its type is -1 if it is no commit's, -2 if it is not plain."""
    keys[0, code] = -1
    if end - at < 2 or data[at] != 0 or data[at + 1] > 1:
        return
    stop = _stop_of_names(data, at + 2, end)
    if stop < 0:
        keys[0, code] = -2
        return
    keys[0, code] = data[at + 1]
    keys[1, code] = code_of(data, at + 2, stop, pair_slots, pair_names, counts, 3)
    keys[2, code] = int32_at(data, stop)


@piece
def _value(data, at, end, highest, short, middle, long, made):
    """One value into the columns; place of the topic id, 0 for none, -1 if it is not plain."""
    if at + 20 > end:  # the shortest value there is: version 0, no metadata
        return -1
    version = int16_at(data, at)
    if version < 0 or version > highest:
        return -1
    short[0, made] = version
    long[1, made] = int64_at(data, at + 2)
    at += 10
    middle[1, made] = -1
    if version >= 3:
        middle[1, made] = int32_at(data, at)
        at += 4
    if version == 4:
        size = data[at] - 1 if data[at] < 128 else -1
        at += 1
    else:
        size = int16_at(data, at)
        at += 2
    middle[3, made] = size
    long[4, made] = at
    if size < 0:
        return -1
    return _end_of_value(data, at + size, end, version, long, made)


@piece
def _end_of_value(data, at, end, version, long, made):
    """What follows the metadata; as `_value`."""
    if at + 8 + (8 if version == 1 else 1 if version == 4 else 0) > end:
        return -1
    long[2, made] = int64_at(data, at)
    long[3, made] = int64_at(data, at + 8) if version == 1 else -1
    at += 8
    if version < 4 or data[at] == 0:
        return 0
    # One tag, number 0, whatever size of one byte it claims; the id itself is 16 bytes.
    if data[at] != 1 or at + 19 > end or data[at + 1] != 0 or data[at + 2] >= 128:
        return -1
    return at + 3


@piece
def _no_value(short, middle, long, made):
    """The columns of a tombstone."""
    short[0, made] = -1
    middle[1, made] = -1
    middle[3, made] = 0
    for i in range(1, 5):
        long[i, made] = -1


@piece
def _key_of(data, start, valid, codes, row, key_slots, key_names, counts):
    """The number of a row's key, that of equal ones; -1 if it is null."""
    if len(codes) > 0:
        return codes[row]
    if len(valid) > 0 and valid[row] == 0:
        return -1
    return code_of(data, start[row], start[row + 1], key_slots, key_names, counts, 5)


@piece
def _full(counts, pair_slots, id_slots, key_slots):
    """Whether a table of names is half full."""
    pairs, ids, keys = 2 * counts[3], 2 * counts[4], 2 * counts[5]
    return pairs >= len(pair_slots) or ids >= len(id_slots) or keys >= len(key_slots)


@kernel(
    f"int64({_READ}, int64[::1], uint8[::1], {_CODES}, {_READ}, int64[::1], uint8[::1], int64, "
    "int32[::1], int64[:, ::1], int32[:, ::1], int32[::1], int64[:, ::1], int32[::1], "
    "int64[:, ::1], int64[::1], int16[:, ::1], int32[:, ::1], int64[:, ::1], int64[::1], "
    "int64[::1])"
)
def scan_rows(
    key_data, key_start, key_valid, codes, value_data, value_start, value_valid, row,
    key_slots, key_names, keys, pair_slots, pair_names, id_slots, id_names, counts,
    short, middle, long, others, odd,
):  # fmt: skip
    """Rows from ``row`` on, until the end or until a table of names is half full.

    A key that has come before is not read again, only its number looked up; where ``codes`` has
    the numbers already (a dictionary's), not even that. ``counts``: commits, others, odd rows,
    pairs, topic ids and keys so far. ``short``, ``middle``, ``long`` and ``keys`` are `SHORT`,
    `MIDDLE`, `LONG` and `KEY`, a row a column. Gives the first row not looked at.
    """
    made, n_others, n_odd = counts[0], counts[1], counts[2]
    while row < len(value_start) - 1 and not _full(counts, pair_slots, id_slots, key_slots):
        key = _key_of(key_data, key_start, key_valid, codes, row, key_slots, key_names, counts)
        if key >= 0 and keys[0, key] == -3:
            at = key if len(codes) > 0 else row
            _read_key(key_data, key_start[at], key_start[at + 1], key, keys,
                      pair_slots, pair_names, counts)  # fmt: skip
        number = keys[0, key] if key >= 0 else -1
        if number == -1:
            others[n_others] = row
            n_others += 1
            row += 1
            continue
        id_at = -1
        if number >= 0 and (len(value_valid) == 0 or value_valid[row] != 0):
            id_at = _value(value_data, value_start[row], value_start[row + 1], 4 * number,
                           short, middle, long, made)  # fmt: skip
        elif number >= 0:
            _no_value(short, middle, long, made)
            id_at = 0
        if id_at < 0:
            odd[n_odd] = row
            n_odd += 1
            row += 1
            continue
        middle[0, made] = key
        middle[2, made] = -1
        if id_at > 0:
            middle[2, made] = code_of(value_data, id_at, id_at + 16, id_slots, id_names, counts, 4)
        long[0, made] = row
        made += 1
        row += 1
    counts[0], counts[1], counts[2] = made, n_others, n_odd
    return row
