"""The offset commits of two columns in one pass over their bytes; numbers out, no objects.

The layouts are those of record types 0 and 1 (`wire.messages`). What is not plain (a long varint,
unknown tags, lying lengths) is only noted, for the engine to look at. Names become codes by a hash
table over the columns' own bytes: each distinct name is made a string once, by the caller.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from partage.kernels import kernel, piece

__all__ = ["KEY", "LONG", "MIDDLE", "SHORT", "UNREAD", "scan_rows"]

#: Columns of the three tables that `scan_rows` fills, by width: int16, int32, int64.
SHORT = ("value_version",)
MIDDLE = ("key", "leader_epoch", "topic_id", "metadata_length")
#: What is known of each distinct key: record type (below 0: see `_read_key`), pair, partition.
KEY = ("key_version", "pair", "partition")
#: In place of the type: nobody has looked at this key yet.
UNREAD = -3
LONG = ("row", "offset", "commit_timestamp", "expire_timestamp", "metadata_at")
#: A place within a column. It tells the compiler that no index is negative: eight bytes are then
#: one load, and not eight with a question each.
_PLACE = (1 << 40) - 1
#: A hash has 62 bits, so that it is the same number compiled and interpreted.
_HASH_BITS = (1 << 62) - 1
_MULTIPLIER = 0x1B873593CC9E2D51
_READ = "Array(uint8, 1, 'C', readonly=True)"
_CODES = "Array(int32, 1, 'C', readonly=True)"


@piece
def _int16(data, at):
    at = at & _PLACE
    high = data[at]
    return ((high - ((high & 128) << 1)) << 8) | data[at + 1]


@piece
def _int32(data, at):
    at = at & _PLACE
    high = data[at]
    return (
        ((high - ((high & 128) << 1)) << 24)
        | (data[at + 1] << 16)
        | (data[at + 2] << 8)
        | data[at + 3]
    )


@piece
def _int64(data, at):
    at = at & _PLACE
    high = data[at]
    return (
        ((high - ((high & 128) << 1)) << 56)
        | (data[at + 1] << 48)
        | (data[at + 2] << 40)
        | (data[at + 3] << 32)
        | (data[at + 4] << 24)
        | (data[at + 5] << 16)
        | (data[at + 6] << 8)
        | data[at + 7]
    )


@piece
def _hash(data, at, stop):
    """62 bits of the bytes within [at, stop); the last eight are taken once more if need be."""
    out = stop - at
    whole = out >= 8
    while at + 8 <= stop:
        out = ((out ^ (_int64(data, at) & _HASH_BITS)) * _MULTIPLIER) & _HASH_BITS
        out ^= (out >> 29) ^ (data[at] >> 6)
        at += 8
    if at < stop and whole:
        out = ((out ^ (_int64(data, stop - 8) & _HASH_BITS)) * _MULTIPLIER) & _HASH_BITS
        return out ^ (out >> 29)
    while at < stop:
        out = ((out ^ data[at]) * _MULTIPLIER) & _HASH_BITS
        out ^= out >> 29
        at += 1
    return out


@piece
def _same(data, at, other, size):
    done = 0
    while done + 8 <= size:
        if _int64(data, at + done) != _int64(data, other + done):
            return False
        done += 8
    if done < size and size >= 8:
        return _int64(data, at + size - 8) == _int64(data, other + size - 8)
    while done < size:
        if data[at + done] != data[other + done]:
            return False
        done += 1
    return True


@piece
def _code(data, at, stop, slots, names, counts, which):
    """The code of the bytes within [at, stop): that of equal ones met before, else a new one."""
    size = stop - at
    wanted = _hash(data, at, stop)
    slot = wanted & (len(slots) - 1)
    code = slots[slot]
    while code >= 0:
        alike = names[0, code] == wanted and names[2, code] == size
        if alike and _same(data, at, names[1, code], size):
            return code
        slot = (slot + 1) & (len(slots) - 1)
        code = slots[slot]
    code = counts[which]
    counts[which] = code + 1
    slots[slot] = code
    names[0, code], names[1, code], names[2, code] = wanted, at, size
    return code


@piece
def _stop_of_names(data, at, end):
    """Where group and topic of a key end, whose lengths begin at ``at``; -1 if not within."""
    for _ in range(2):
        if at + 2 > end:
            return -1
        length = _int16(data, at)
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
    keys[1, code] = _code(data, at + 2, stop, pair_slots, pair_names, counts, 3)
    keys[2, code] = _int32(data, stop)


@piece
def _value(data, at, end, highest, short, middle, long, made):
    """One value into the columns; place of the topic id, 0 for none, -1 if it is not plain."""
    if at + 20 > end:  # the shortest value there is: version 0, no metadata
        return -1
    version = _int16(data, at)
    if version < 0 or version > highest:
        return -1
    short[0, made] = version
    long[1, made] = _int64(data, at + 2)
    at += 10
    middle[1, made] = -1
    if version >= 3:
        middle[1, made] = _int32(data, at)
        at += 4
    if version == 4:
        size = data[at] - 1 if data[at] < 128 else -1
        at += 1
    else:
        size = _int16(data, at)
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
    long[2, made] = _int64(data, at)
    long[3, made] = _int64(data, at + 8) if version == 1 else -1
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
    return _code(data, start[row], start[row + 1], key_slots, key_names, counts, 5)


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
            middle[2, made] = _code(value_data, id_at, id_at + 16, id_slots, id_names, counts, 4)
        long[0, made] = row
        made += 1
        row += 1
    counts[0], counts[1], counts[2] = made, n_others, n_odd
    return row
