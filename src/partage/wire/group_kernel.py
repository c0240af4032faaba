"""Records of classic groups in one pass over their bytes; numbers out, no objects.

The layouts are those of record type 2 (`wire.messages`), all versions. From one generation to the
next most members are who they were, byte for byte: a member's whole bytes are looked up first, and
read only where nobody has them. What is not plain (a lying length, unknown tags, a varint of five
bytes) is only noted, for the engine to look at.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from partage.kernels import kernel, piece
from partage.wire.kernel_pieces import code_like, int16_at, int32_at, int64_at

__all__ = ["COUNTS", "MEMBER", "RECORD", "SMALLEST_MEMBER", "scan_groups"]

#: Columns of each record: strings are codes, -1 for null; members stand in a list of their own.
RECORD = (
    "row", "version", "generation", "state_ms", "protocol_type", "protocol", "leader",
    "members_from", "members",
)  # fmt: skip
#: Columns of each distinct member; ``layout`` is what its bytes were read by.
MEMBER = (
    "layout", "id", "instance", "client_id", "client_host", "rebalance_ms", "session_ms",
    "subscription", "assignment",
)  # fmt: skip
#: What is counted: records, odd rows, members listed; then names of each kind.
COUNTS = ("records", "odd", "listed", "texts", "subscriptions", "assignments", "members")
#: Bytes of the shortest member that there can be: version 4, all empty.
SMALLEST_MEMBER = 15

_LONGEST_TEXT = 0x7FFF
_READ = "Array(uint8, 1, 'C', readonly=True)"
_NAMES = "int32[::1], int64[:, ::1]"


@piece
def _varint(data, at, end):
    """An unsigned varint of up to four bytes, times 8, plus its bytes; -1 if it is none."""
    value = 0
    for width in range(4):
        if at + width >= end:
            return -1
        byte = data[at + width]
        value |= (byte & 127) << (7 * width)
        if byte < 128:
            return value * 8 + width + 1
    return -1


@piece
def _size(data, at, end, width, compact):
    """A length plus one (0 is null), times 8, plus the bytes that it takes; -1 if it is odd."""
    if compact:
        return _varint(data, at, end)
    if at + width > end:
        return -1
    length = int16_at(data, at) if width == 2 else int32_at(data, at)
    return (max(length, -1) + 1) * 8 + width


@piece
def _stop(data, at, end, width, compact, nullable):
    """Where a string (its length of 2 bytes) or bytes (of 4) end; -1 if they are not plain."""
    size = _size(data, at, end, width, compact)
    if size < 0:
        return -1
    length = (size >> 3) - 1
    if length < 0:
        return at + (size & 7) if nullable else -1
    if width == 2 and length > _LONGEST_TEXT:
        return -1
    stop = at + (size & 7) + length
    return stop if stop <= end else -1


@piece
def _code(data, at, stop, width, compact, slots, names, counts, which, like):
    """The code of what `_stop` found to be plain, most often ``like``; -1 for null."""
    size = _size(data, at, stop, width, compact)
    if size < 8:
        return -1
    return code_like(data, at + (size & 7), stop, slots, names, counts, which, like)


@piece
def _no_tags(data, at, end, compact):
    """The place behind a struct's tags, of which there are none; -1 if there may be some."""
    if not compact:
        return at
    return at + 1 if at < end and data[at] == 0 else -1


@piece
def _stop_of_member(data, at, end, layout):
    """Where a member ends, by its lengths alone; -1 if it is not plain."""
    compact = layout == 3
    at = _stop(data, at, end, 2, compact, False)
    if at >= 0 and layout >= 2:
        at = _stop(data, at, end, 2, compact, True)
    for _ in range(2):
        if at >= 0:
            at = _stop(data, at, end, 2, compact, False)
    if at < 0:
        return -1
    at += 4 if layout == 0 else 8
    for _ in range(2):
        if at >= 0 and at <= end:
            at = _stop(data, at, end, 4, compact, False)
    if at < 0 or at > end:
        return -1
    return _no_tags(data, at, end, compact)


@piece
def _read_member(
    data, at, end, layout, code, like, members, text_slots, texts, sent_slots, sent, got_slots,
    got, counts,
):  # fmt: skip
    """A member whose bytes are plain, into its columns; most are those of member ``like``."""
    compact = layout == 3
    members[code, 0] = layout
    alike = -1 if like < 0 else members[like, 1]
    stop = _stop(data, at, end, 2, compact, False)
    members[code, 1] = _code(data, at, stop, 2, compact, text_slots, texts, counts, 3, alike)
    members[code, 2] = -1
    if layout >= 2:
        at = stop
        alike = -1 if like < 0 else members[like, 2]
        stop = _stop(data, at, end, 2, compact, True)
        members[code, 2] = _code(data, at, stop, 2, compact, text_slots, texts, counts, 3, alike)
    for column in range(3, 5):
        at = stop
        alike = -1 if like < 0 else members[like, column]
        stop = _stop(data, at, end, 2, compact, False)
        members[code, column] = _code(data, at, stop, 2, compact, text_slots, texts, counts, 3,
                                      alike)  # fmt: skip
    # Before value version 1 the rebalance timeout was the session timeout.
    members[code, 5] = int32_at(data, stop)
    at = stop if layout == 0 else stop + 4
    members[code, 6] = int32_at(data, at)
    at += 4
    stop = _stop(data, at, end, 4, compact, False)
    members[code, 7] = _code(data, at, stop, 4, compact, sent_slots, sent, counts, 4, -1)
    at = stop
    alike = -1 if like < 0 else members[like, 8]
    stop = _stop(data, at, end, 4, compact, False)
    members[code, 8] = _code(data, at, stop, 4, compact, got_slots, got, counts, 5, alike)


@piece
def _full(counts, text_slots, sent_slots, got_slots, member_slots):
    """Whether a table of names is half full, or will be with one member more."""
    a, b = 2 * counts[3] + 16, 2 * counts[4] + 2
    c, d = 2 * counts[5] + 2, 2 * counts[6] + 2
    return (
        a >= len(text_slots) or b >= len(sent_slots)
        or c >= len(got_slots) or d >= len(member_slots)
    )  # fmt: skip


@piece
def _head(data, at, end, version, record, records, text_slots, texts, counts):
    """What stands before the members; the place of their count, -1 if it is not plain."""
    compact = version == 4
    stop = _stop(data, at, end, 2, compact, False)
    if stop < 0 or stop + 4 > end:
        return -1
    alike = -1 if record == 0 else records[record - 1, 4]
    records[record, 4] = _code(data, at, stop, 2, compact, text_slots, texts, counts, 3, alike)
    records[record, 2] = int32_at(data, stop)
    at = stop + 4
    for column in range(5, 7):
        stop = _stop(data, at, end, 2, compact, True)
        if stop < 0:
            return -1
        alike = -1 if record == 0 else records[record - 1, column]
        records[record, column] = _code(data, at, stop, 2, compact, text_slots, texts, counts, 3,
                                        alike)  # fmt: skip
        at = stop
    records[record, 3] = -1
    if version >= 2:
        if at + 8 > end:
            return -1
        records[record, 3] = int64_at(data, at)
        at += 8
    return at


@piece
def _members(
    data, at, end, version, count, likely, members, listed, member_slots, member_names,
    text_slots, texts, sent_slots, sent, got_slots, got, counts,
):  # fmt: skip
    """So many members into the list; the place behind them, -1 if one is odd, -2 for no room.

    They are most often those that are listed from ``likely`` on, the ones of the record before.
    """
    layout = version - 1 if version >= 2 else version
    begins = counts[2]
    for i in range(count):
        if _full(counts, text_slots, sent_slots, got_slots, member_slots):
            return -2
        stop = _stop_of_member(data, at, end, layout)
        if stop < 0:
            return -1
        known = counts[6]
        like = listed[likely + i] if likely + i < begins else -1
        code = code_like(data, at, stop, member_slots, member_names, counts, 6, like)
        if code == known:
            _read_member(data, at, end, layout, code, like, members, text_slots, texts,
                         sent_slots, sent, got_slots, got, counts)  # fmt: skip
        elif members[code, 0] != layout:
            return -1  # the same bytes, and another version reads them otherwise
        listed[counts[2]] = code
        counts[2] += 1
        at = stop
    return at


@piece
def _record(
    data, at, end, records, members, listed, member_slots, member_names,
    text_slots, texts, sent_slots, sent, got_slots, got, counts,
):  # fmt: skip
    """One value; the place behind it, -1 if it is odd, -2 for no room."""
    if at + 2 > end:
        return -1
    version = int16_at(data, at)
    if version < 0 or version > 4:
        return -1
    record = counts[0]
    at = _head(data, at + 2, end, version, record, records, text_slots, texts, counts)
    if at < 0:
        return -1
    size = _size(data, at, end, 4, version == 4)
    if size < 8:
        return -1
    count = (size >> 3) - 1
    at += size & 7
    if count * 15 > end - at:  # before anything is taken for so many
        return -1
    records[record, 1] = version
    records[record, 7] = counts[2]
    records[record, 8] = count
    likely = counts[2] if record == 0 else records[record - 1, 7]
    at = _members(data, at, end, version, count, likely, members, listed, member_slots,
                  member_names,
                  text_slots, texts, sent_slots, sent, got_slots, got, counts)  # fmt: skip
    return at if at < 0 else _no_tags(data, at, end, version == 4)


@kernel(
    f"int64({_READ}, int64[::1], int64[::1], int64, {_NAMES}, {_NAMES}, {_NAMES}, {_NAMES}, "
    "int64[:, ::1], int64[:, ::1], int32[::1], int64[::1], int64[::1])"
)
def scan_groups(
    data, start, rows, first, text_slots, texts, sent_slots, sent, got_slots, got,
    member_slots, member_names, records, members, listed, odd, counts,
):  # fmt: skip
    """The values at ``rows`` from the ``first`` on, until their end or until there is no room.

    ``records`` and ``members`` have the columns `RECORD` and `MEMBER`; ``listed`` has the codes
    of each record's members, one record after the other. Gives the first row not looked at.
    """
    for i in range(first, len(rows)):
        if _full(counts, text_slots, sent_slots, got_slots, member_slots):
            return i
        row, before = rows[i], counts[2]
        stop = _record(data, start[row], start[row + 1], records, members, listed, member_slots,
                       member_names, text_slots, texts, sent_slots, sent, got_slots, got,
                       counts)  # fmt: skip
        if stop == -2:
            counts[2] = before
            return i
        if stop == -1:
            counts[2] = before
            odd[counts[1]] = row
            counts[1] += 1
        else:
            records[counts[0], 0] = row
            counts[0] += 1
    return len(rows)
