"""The offset commits of two columns in one pass over their bytes; numbers out, no objects.

The layouts are those of record types 0 and 1 (`wire.messages`). What is not plain (a long varint,
unknown tags, lying lengths) is only noted, for the engine to look at. Names become codes by a hash
table over the columns' own bytes: each distinct name is made a string once, by the caller.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from partage.kernels import kernel, piece

__all__ = ["LONG", "MIDDLE", "SHORT", "scan_rows"]

#: Columns of the three tables that `scan_rows` fills, by width: int16, int32, int64.
SHORT = ("key_version", "value_version")
MIDDLE = ("pair", "partition", "leader_epoch", "topic_id", "metadata_length")
LONG = ("row", "offset", "commit_timestamp", "expire_timestamp", "metadata_at")
#: A place within a column. It tells the compiler that no index is negative: eight bytes are then
#: one load, and not eight with a question each.
_PLACE = (1 << 40) - 1
#: A hash has 62 bits, so that it is the same number compiled and interpreted.
_HASH_BITS = (1 << 62) - 1
_MULTIPLIER = 0x1B873593CC9E2D51
_READ = "Array(uint8, 1, 'C', readonly=True)"


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
def _value(data, at, end, highest, short, middle, long, made):
    """One value into the columns; place of the topic id, 0 for none, -1 if it is not plain."""
    if at + 20 > end:  # the shortest value there is: version 0, no metadata
        return -1
    version = _int16(data, at)
    if version < 0 or version > highest:
        return -1
    short[1, made] = version
    long[1, made] = _int64(data, at + 2)
    at += 10
    middle[2, made] = -1
    if version >= 3:
        middle[2, made] = _int32(data, at)
        at += 4
    if version == 4:
        size = data[at] - 1 if data[at] < 128 else -1
        at += 1
    else:
        size = _int16(data, at)
        at += 2
    middle[4, made] = size
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
    short[1, made] = -1
    middle[2, made] = -1
    middle[4, made] = 0
    for i in range(1, 5):
        long[i, made] = -1


@kernel(
    f"int64({_READ}, int64[::1], uint8[::1], {_READ}, int64[::1], uint8[::1], int64, "
    "int32[::1], int64[:, ::1], int32[::1], int64[:, ::1], int64[::1], "
    "int16[:, ::1], int32[:, ::1], int64[:, ::1], int64[::1], int64[::1])"
)
def scan_rows(
    key_data, key_start, key_valid, value_data, value_start, value_valid, row,
    pair_slots, pair_names, id_slots, id_names, counts, short, middle, long, others, odd,
):  # fmt: skip
    """Rows from ``row`` on, until the end or until a table of names is half full.

    ``counts``: commits, others, odd rows, pairs and topic ids so far. ``short``, ``middle`` and
    ``long`` are `SHORT`, `MIDDLE`, `LONG`, a row a column. Gives the first row not looked at.
    """
    made, n_others, n_odd = counts[0], counts[1], counts[2]
    while row < len(key_start) - 1:
        if 2 * counts[3] >= len(pair_slots) or 2 * counts[4] >= len(id_slots):
            break
        at, end = key_start[row], key_start[row + 1]
        readable = end - at >= 2 and (len(key_valid) == 0 or key_valid[row] != 0)
        if not readable or key_data[at] != 0 or key_data[at + 1] > 1:
            others[n_others] = row
            n_others += 1
            row += 1
            continue
        number = key_data[at + 1]
        stop = _stop_of_names(key_data, at + 2, end)
        id_at = 0
        if stop < 0:
            id_at = -1
        elif len(value_valid) == 0 or value_valid[row] != 0:
            id_at = _value(
                value_data, value_start[row], value_start[row + 1], 4 * number,
                short, middle, long, made,
            )  # fmt: skip
        else:
            _no_value(short, middle, long, made)
        if id_at < 0:
            odd[n_odd] = row
            n_odd += 1
            row += 1
            continue
        short[0, made] = number
        middle[0, made] = _code(key_data, at + 2, stop, pair_slots, pair_names, counts, 3)
        middle[1, made] = _int32(key_data, stop)
        middle[3, made] = -1
        if id_at > 0:
            middle[3, made] = _code(value_data, id_at, id_at + 16, id_slots, id_names, counts, 4)
        long[0, made] = row
        made += 1
        row += 1
    counts[0], counts[1], counts[2] = made, n_others, n_odd
    return row
