"""Compiled kernels that decode classic group records, and the payloads of their members.

`read_groups` reads values of record type 2, `read_payloads` subscriptions and assignments of the
consumer protocol; each is one pass over the bytes. The output has numbers only; strings, payloads
and whole members are codes of `distinct`. What is not plain (an impossible length, unknown tags, a
varint of five bytes) is only listed: the engine reads it.

From one generation to the next most members are equal byte for byte. A member's bytes are looked
up as a whole first, and read only if they are new.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from typing import NamedTuple

from partage.kernels import (
    Int32s,
    Int64Rows,
    Int64s,
    ReadOnlyBytes,
    ReadOnlyInt64s,
    inline_piece,
    kernel,
    kernel_helper,
)
from partage.wire.columns.distinct import (
    NameHashTable,
    find_or_add,
    find_or_add_likely,
    int16_at,
    int32_at,
    int64_at,
    is_half_full,
    is_string,
)

__all__ = [
    "MEMBER", "MIN_MEMBER_BYTES", "PAYLOAD", "RECORD", "GroupSource", "GroupTables",
    "PayloadSource", "PayloadTables", "read_groups", "read_payloads",
]  # fmt: skip

#: Columns of each record: strings are codes, -1 for null; ``members`` are listed from
#: ``members_from`` on.
RECORD = (
    "row", "version", "generation", "state_ms", "protocol_type", "protocol", "leader",
    "members_from", "members",
)  # fmt: skip
#: Columns of each distinct member; ``layout`` numbers the layouts of its bytes.
MEMBER = (
    "layout", "id", "instance", "client_id", "client_host", "rebalance_ms", "session_ms",
    "subscription", "assignment",
)  # fmt: skip
#: Columns of each payload: ``version`` is -1 if the engine must read it; sizes are -1 for null.
#: Its topics and its pairs (a topic with its partitions) are in lists of their own.
PAYLOAD = (
    "version", "topics_from", "topics", "pairs_from", "pairs", "user_at", "user_size",
    "generation", "rack_at", "rack_size",
)  # fmt: skip
(_ROW, _VERSION, _GENERATION, _STATE_MS, _PROTOCOL_TYPE, _PROTOCOL, _LEADER, _MEMBERS_FROM,
 _MEMBERS) = range(len(RECORD))  # fmt: skip
(_LAYOUT, _ID, _INSTANCE, _CLIENT_ID, _CLIENT_HOST, _REBALANCE_MS, _SESSION_MS, _SUBSCRIPTION,
 _ASSIGNMENT) = range(len(MEMBER))  # fmt: skip
(_PAYLOAD_VERSION, _TOPICS_FROM, _TOPICS, _PAIRS_FROM, _PAIRS, _USER_AT, _USER_SIZE,
 _OWNED_GENERATION, _RACK_AT, _RACK_SIZE) = range(len(PAYLOAD))  # fmt: skip
MIN_MEMBER_BYTES = 15
"""The size of the shortest member: version 4, all fields empty."""

_LONGEST_TEXT = 0x7FFF


class GroupSource(NamedTuple):
    """Input of the compiled `read_groups`: a column of encoded consumer group records.

    Attributes:
        data: the bytes of the column.
        start: offset of each row in ``data``.
        rows: the rows to decode.
    """

    data: ReadOnlyBytes
    start: ReadOnlyInt64s
    rows: ReadOnlyInt64s


class GroupTables(NamedTuple):
    """Output of the compiled `read_groups`: tables of decoded consumer groups and their members.

    Attributes:
        texts: the distinct strings.
        subscriptions: the distinct subscriptions.
        assignments: the distinct assignments.
        whole: the distinct encoded members.
        records: one row per record; `RECORD` names the columns.
        members: one row per distinct member; `MEMBER` names the columns.
        listed: codes of each record's members, one record after the other.
        odd: rows that the function cannot decode (damaged or unusual).
        counts: numbers of records, odd rows and listed members.
    """

    texts: NameHashTable
    subscriptions: NameHashTable
    assignments: NameHashTable
    whole: NameHashTable
    records: Int64Rows
    members: Int64Rows
    listed: Int32s
    odd: Int64s
    counts: Int64s


class PayloadSource(NamedTuple):
    """Input of the compiled `read_payloads`: encoded subscriptions or assignments of group members.

    Attributes:
        data: the bytes of a column.
        at: offset of each subscription or assignment in ``data``.
        size: its number of bytes.
    """

    data: ReadOnlyBytes
    at: ReadOnlyInt64s
    size: ReadOnlyInt64s


class PayloadTables(NamedTuple):
    """Output of the compiled `read_payloads`: tables of decoded subscriptions or assignments.

    Attributes:
        names: the distinct topic names.
        heads: fixed fields, one row per subscription or assignment; `PAYLOAD` names the columns.
        topics: codes of subscribed topics, one subscription after the other.
        pairs: one row per owned or assigned topic: topic code, first index into ``numbers``, count.
        numbers: partition numbers, one pair after the other.
        counts: numbers of topics, pairs and partition numbers.
    """

    names: NameHashTable
    heads: Int64Rows
    topics: Int32s
    pairs: Int64Rows
    numbers: Int32s
    counts: Int64s


# --- group records ---------------------------------------------------------------------------


@kernel_helper
def _varint(data, at, end):
    # Varints of up to four bytes. The result is the value times 8 plus its size; -1 if it is
    # invalid.
    value = 0
    for width in range(4):
        if at + width >= end:
            return -1
        byte = data[at + width]
        value |= (byte & 127) << (7 * width)
        if byte < 128:
            return value * 8 + width + 1
    return -1


@kernel_helper
def _size(data, at, end, width, compact):
    # The result is (length + 1) times 8 plus the size of the length field, where null has length
    # -1; -1 if the bytes are invalid.
    if compact:
        return _varint(data, at, end)
    if at + width > end:
        return -1
    length = int16_at(data, at) if width == 2 else int32_at(data, at)
    return (max(length, -1) + 1) * 8 + width


@kernel_helper
def _stop(data, at, end, width, compact, nullable):
    # A string has a 2-byte length, a bytes field a 4-byte length; -1 if it is invalid.
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


@inline_piece
def _code(data, at, stop, width, compact, names, like):
    # -1 for null. The likely code ``like`` is tried first.
    size = _size(data, at, stop, width, compact)
    if size < 8:
        return -1
    return find_or_add_likely(data, at + (size & 7), stop, names, like)


@kernel_helper
def _end_without_tags(data, at, end, compact):
    # -1 if it may have tagged fields.
    if not compact:
        return at
    return at + 1 if at < end and data[at] == 0 else -1


@kernel_helper
def _end_of_member(data, at, end, layout):
    # -1 if the bytes are invalid or unusual.
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
    return _end_without_tags(data, at, end, compact)


@inline_piece
def _column_of(members, like, column):
    # -1 if there is no member with code ``like``.
    return -1 if like < 0 else members[like, column]


@inline_piece
def _read_member(data, at, end, layout, code, like, tables):
    # Most fields equal those of member ``like``.
    compact, members, texts = layout == 3, tables.members, tables.texts
    members[code, _LAYOUT] = layout
    stop = _stop(data, at, end, 2, compact, False)
    members[code, _ID] = _code(data, at, stop, 2, compact, texts, _column_of(members, like, _ID))
    members[code, _INSTANCE] = -1
    if layout >= 2:
        at = stop
        stop = _stop(data, at, end, 2, compact, True)
        members[code, _INSTANCE] = _code(
            data, at, stop, 2, compact, texts, _column_of(members, like, _INSTANCE)
        )
    for column in (_CLIENT_ID, _CLIENT_HOST):
        at = stop
        alike = _column_of(members, like, column)
        stop = _stop(data, at, end, 2, compact, False)
        members[code, column] = _code(data, at, stop, 2, compact, texts, alike)
    # Before value version 1 the rebalance timeout was the session timeout.
    members[code, _REBALANCE_MS] = int32_at(data, stop)
    at = stop if layout == 0 else stop + 4
    members[code, _SESSION_MS] = int32_at(data, at)
    at += 4
    stop = _stop(data, at, end, 4, compact, False)
    members[code, _SUBSCRIPTION] = _code(data, at, stop, 4, compact, tables.subscriptions, -1)
    at = stop
    alike = _column_of(members, like, _ASSIGNMENT)
    stop = _stop(data, at, end, 4, compact, False)
    members[code, _ASSIGNMENT] = _code(data, at, stop, 4, compact, tables.assignments, alike)


@inline_piece
def _is_full(tables):
    # Half full, or would be after one more member.
    return (
        is_half_full(tables.texts, 8) or is_half_full(tables.subscriptions, 1)
        or is_half_full(tables.assignments, 1) or is_half_full(tables.whole, 1)
    )  # fmt: skip


@inline_piece
def _read_head(data, at, end, version, record, tables):
    # The result is the position of the members' count, -1 if the head is invalid.
    compact, records, texts = version == 4, tables.records, tables.texts
    stop = _stop(data, at, end, 2, compact, False)
    if stop < 0 or stop + 4 > end:
        return -1
    alike = _column_of(records, record - 1, _PROTOCOL_TYPE)
    records[record, _PROTOCOL_TYPE] = _code(data, at, stop, 2, compact, texts, alike)
    records[record, _GENERATION] = int32_at(data, stop)
    at = stop + 4
    for column in (_PROTOCOL, _LEADER):
        stop = _stop(data, at, end, 2, compact, True)
        if stop < 0:
            return -1
        alike = _column_of(records, record - 1, column)
        records[record, column] = _code(data, at, stop, 2, compact, texts, alike)
        at = stop
    records[record, _STATE_MS] = -1
    if version >= 2:
        if at + 8 > end:
            return -1
        records[record, _STATE_MS] = int64_at(data, at)
        at += 8
    return at


@inline_piece
def _read_members(data, at, end, version, count, likely, tables):
    # -1 if a member is invalid, -2 if a table is full. They probably equal the members of the
    # previous record, which are listed from ``likely`` on.
    listed, counts = tables.listed, tables.counts
    layout = version - 1 if version >= 2 else version
    begin = counts[2]
    for i in range(count):
        stop = _end_of_member(data, at, end, layout)
        if stop < 0:
            return -1
        like = listed[likely + i] if likely + i < begin else -1
        code = like
        if not is_string(data, at, stop, tables.whole, like):
            if _is_full(tables):
                return -2
            known = tables.whole.used[0]
            code = find_or_add(data, at, stop, tables.whole)
            if code == known:
                _read_member(data, at, end, layout, code, like, tables)
        if tables.members[code, _LAYOUT] != layout:
            return -1  # the same bytes mean something else in another layout
        listed[counts[2]] = code
        counts[2] += 1
        at = stop
    return at


@inline_piece
def _read_record(data, at, end, tables):
    # -1 if it is invalid, -2 if a table is full.
    if at + 2 > end:
        return -1
    version = int16_at(data, at)
    if version < 0 or version > 4:
        return -1
    records, record = tables.records, tables.counts[0]
    at = _read_head(data, at + 2, end, version, record, tables)
    if at < 0:
        return -1
    size = _size(data, at, end, 4, version == 4)
    if size < 8:
        return -1
    count = (size >> 3) - 1
    at += size & 7
    if count * 15 > end - at:  # before the list takes so many
        return -1
    listed = tables.counts[2]
    records[record, _VERSION] = version
    records[record, _MEMBERS_FROM] = listed
    records[record, _MEMBERS] = count
    likely = listed if record == 0 else records[record - 1, _MEMBERS_FROM]
    at = _read_members(data, at, end, version, count, likely, tables)
    return at if at < 0 else _end_without_tags(data, at, end, version == 4)


@kernel("int64(GroupSource, int64, GroupTables)", GroupSource, NameHashTable, GroupTables)
def read_groups(source, first, tables):
    """Decode records of classic consumer groups into tables, until a table is full.

    The caller then enlarges the table and calls the function again.

    Args:
        source: a column with the records' encoded values (GROUP_METADATA).
        first: index of the row to begin with.
        tables: receives the decoded records.

    Returns:
        the first row that was not decoded.
    """
    # The caller enlarges the full table and continues at the returned row.
    counts = tables.counts
    for i in range(first, len(source.rows)):
        if _is_full(tables):
            return i
        row, listed = source.rows[i], counts[2]
        stop = _read_record(source.data, source.start[row], source.start[row + 1], tables)
        if stop == -2:
            counts[2] = listed
            return i
        if stop == -1:
            counts[2] = listed
            tables.odd[counts[1]] = row
            counts[1] += 1
        else:
            tables.records[counts[0], _ROW] = row
            counts[0] += 1
    return len(source.rows)


# --- payloads --------------------------------------------------------------------------------


@kernel_helper
def _end_of_text(data, at, end):
    if at + 2 > end:
        return -1
    length = int16_at(data, at)
    stop = at + 2 + length
    return stop if length >= 0 and stop <= end else -1


@kernel_helper
def _count(data, at, end, least):
    # -1 if that many elements of at least ``least`` bytes cannot fit.
    if at + 4 > end:
        return -1
    count = int32_at(data, at)
    return count if count >= 0 and count * least <= end - at - 4 else -1


@inline_piece
def _read_topics(data, at, end, tables):
    # -1 if they are invalid, -2 if a table is full.
    count = _count(data, at, end, 2)
    if count < 0:
        return -1
    at += 4
    for _ in range(count):
        stop = _end_of_text(data, at, end)
        if stop < 0:
            return -1
        if is_half_full(tables.names, 1):
            return -2
        tables.topics[tables.counts[0]] = find_or_add(data, at + 2, stop, tables.names)
        tables.counts[0] += 1
        at = stop
    return at


@inline_piece
def _read_pairs(data, at, end, tables):
    # -1 if they are invalid, -2 if a table is full.
    counts, pairs = tables.counts, tables.pairs
    count = _count(data, at, end, 6)
    if count < 0:
        return -1
    at += 4
    for _ in range(count):
        stop = _end_of_text(data, at, end)
        if stop < 0:
            return -1
        partitions = _count(data, stop, end, 4)
        if partitions < 0:
            return -1
        if is_half_full(tables.names, 1):
            return -2
        pair = counts[1]
        pairs[pair, 0] = find_or_add(data, at + 2, stop, tables.names)
        pairs[pair, 1] = counts[2]
        pairs[pair, 2] = partitions
        counts[1] += 1
        at = stop + 4
        for _ in range(partitions):
            tables.numbers[counts[2]] = int32_at(data, at)
            counts[2] += 1
            at += 4
    return at


@inline_piece
def _read_user_data(data, at, end, payload, heads):
    # -1 if it is invalid.
    if at + 4 > end:
        return -1
    size = int32_at(data, at)
    heads[payload, _USER_AT] = at + 4
    heads[payload, _USER_SIZE] = max(size, -1)
    stop = at + 4 + max(size, 0)
    return stop if stop <= end else -1


@inline_piece
def _read_later_fields(data, at, end, version, payload, tables):
    # Versions 1 to 3 added these fields. -1 if they are invalid, -2 if a table is full.
    heads = tables.heads
    if version >= 1:
        at = _read_pairs(data, at, end, tables)
    if at >= 0 and version >= 2:
        if at + 4 > end:
            return -1
        heads[payload, _OWNED_GENERATION] = int32_at(data, at)
        at += 4
    if at >= 0 and version >= 3:
        if at + 2 > end:
            return -1
        size = int16_at(data, at)
        heads[payload, _RACK_AT] = at + 2
        heads[payload, _RACK_SIZE] = max(size, -1)
        at += 2 + max(size, 0)
    return at if at <= end else -1


@inline_piece
def _read_payload(data, at, end, is_subscription, payload, tables):
    # -1 if it is invalid, -2 if a table is full. Versions above 3 are read as 3, as Kafka does.
    heads, counts = tables.heads, tables.counts
    if at + 2 > end:
        return -1
    version = int16_at(data, at)
    heads[payload, _TOPICS_FROM] = counts[0]
    heads[payload, _PAIRS_FROM] = counts[1]
    heads[payload, _OWNED_GENERATION] = -1
    heads[payload, _RACK_SIZE] = -1
    if version < 0:
        return -1
    at += 2
    if is_subscription:
        at = _read_topics(data, at, end, tables)
    else:
        at = _read_pairs(data, at, end, tables)
    if at >= 0:
        at = _read_user_data(data, at, end, payload, heads)
    if at >= 0 and is_subscription:
        at = _read_later_fields(data, at, end, version, payload, tables)
    if at >= 0:
        heads[payload, _PAYLOAD_VERSION] = version
        heads[payload, _TOPICS] = counts[0] - heads[payload, _TOPICS_FROM]
        heads[payload, _PAIRS] = counts[1] - heads[payload, _PAIRS_FROM]
    return at


@kernel(
    "int64(PayloadSource, boolean, int64, PayloadTables)",
    PayloadSource,
    NameHashTable,
    PayloadTables,
)
def read_payloads(source, is_subscription, first, tables):
    """Decode subscriptions or assignments of group members into tables, until a table is full.

    The caller then enlarges the table and calls the function again.

    Args:
        source: the encoded subscriptions or assignments.
        is_subscription: True for subscriptions, False for assignments.
        first: index of the first one to decode.
        tables: receives the decoded subscriptions or assignments.

    Returns:
        the index of the first one that was not decoded.
    """
    # The caller enlarges the full table and continues at the returned index.
    counts, heads = tables.counts, tables.heads
    for i in range(first, len(source.at)):
        topics, pairs, numbers = counts[0], counts[1], counts[2]
        at = source.at[i]
        stop = _read_payload(source.data, at, at + source.size[i], is_subscription, i, tables)
        if stop < 0:
            counts[0], counts[1], counts[2] = topics, pairs, numbers
            heads[i, _PAYLOAD_VERSION] = -1
            heads[i, _TOPICS] = 0
            heads[i, _PAIRS] = 0
        if stop == -2:
            return i
    return len(source.at)
