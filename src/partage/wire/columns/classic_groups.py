"""Decoding of a column of classic group records to arrays, including members' payloads.

Strings, payloads and whole members are codes: equal bytes have equal codes and are read once. No
value becomes a Python object before it is asked for. Records that are not plain are in ``odd``, for
the engine (`group_log`); the ``version`` of a payload that is not plain is -1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.java.strings import decode_utf8
from partage.wire.columns import BinaryColumn, Bytes, Ints
from partage.wire.columns.classic_kernels import (
    MEMBER,
    MIN_MEMBER_BYTES,
    PAYLOAD,
    RECORD,
    GroupSource,
    GroupTables,
    PayloadSource,
    PayloadTables,
    read_groups,
    read_payloads,
)
from partage.wire.columns.distinct import NameTable, read_only

__all__ = [
    "ClassicColumns",
    "DistinctStrings",
    "MemberPayloads",
    "are_kernels_faster",
    "classic_columns",
]

#: Bytes of values in one batch, unless one record has more: its arrays then fit into the
#: processor's cache.
_BYTES_AT_ONCE = 1 << 19
#: Average bytes of a member and of a string, for the initial room of tables.
_BYTES_A_MEMBER = 96
_BYTES_A_TEXT = 40
#: Steps of the interpreter by which the engine is slower for a record than the kernel.
_STEPS_SAVED_A_RECORD = 200


def are_kernels_faster(*, rows: int) -> bool:
    """Return whether compiled code would decode ``rows`` group records faster than Python code.

    Loading the compiled code takes time, which only pays for many records.
    """
    work = rows * _STEPS_SAVED_A_RECORD
    return read_groups.is_worth_compiling(work=work) and read_payloads.is_worth_compiling(work=work)


@dataclass(frozen=True)
class DistinctStrings:
    """The distinct strings in many encoded Kafka records, each decoded when it is first used.

    Other columns refer to a string by its index, called its code.

    Attributes:
        data: the bytes of the encoded records.
        positions: first byte and size of each string (int64[n, 2]).
    """

    data: Bytes = field(repr=False)
    positions: NDArray[np.int64]
    _decoded: dict[int, str] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def _bounds(self) -> tuple[memoryview, list[list[int]]]:
        return self.data.data, self.positions.tolist()

    def raw_bytes(self, code: int) -> bytes:
        """Return the encoded bytes of the string with index ``code``, as they were received."""
        data, positions = self._bounds
        at, size = positions[code]
        return bytes(data[at : at + size])

    def decoded_text(self, code: int) -> str:
        """Decode the string with index ``code`` from UTF-8, as Java does, and return it.

        Repeated calls return the same object.
        """
        known = self._decoded.get(code)
        if known is None:
            known = self._decoded[code] = decode_utf8(self.raw_bytes(code))
        return known


@dataclass(frozen=True)
class MemberPayloads:
    """The distinct subscriptions (or assignments) of classic groups' members, as arrays.

    Members often send equal bytes, which are decoded only once. A code is an index of a distinct
    value.

    Attributes:
        sent: the encoded bytes of each subscription.
        heads: fixed fields of each subscription, one row for each, columns as in `PAYLOAD` (int64).
        names: the distinct topic names.
        topics: codes of subscribed topics, one subscription after the other (int32).
        pairs: topic code, first index into ``numbers`` and count of each owned or assigned topic
            (int64[k, 3]).
        numbers: partition numbers, one pair after the other (int32).
    """

    sent: DistinctStrings
    heads: NDArray[np.int64]
    names: DistinctStrings
    topics: NDArray[np.int32]
    pairs: NDArray[np.int64]
    numbers: NDArray[np.int32]

    def column_of_field(self, field: str) -> Ints:
        """Return one field, such as ``version``, of all subscriptions or assignments (int64[n]).

        `PAYLOAD` lists the names of the fields.
        """
        column: Ints = self.heads[:, PAYLOAD.index(field)]
        return column


@dataclass(frozen=True)
class ClassicColumns:
    """Decoded states of classic consumer groups (GROUP_METADATA records), as arrays.

    Equal strings are stored once, and equal members too; other arrays refer to them by index,
    called a code.

    Attributes:
        records: fixed fields of each decoded record, columns as in `RECORD` (int64).
        listed: codes of the members of all records; those of a record begin at its ``members_from``
            (int32).
        members: fixed fields of each distinct member, columns as in `MEMBER` (int64).
        whole: the encoded bytes of each distinct member.
        texts: the distinct strings.
        subscriptions: the distinct subscriptions.
        assignments: the distinct assignments.
        odd: rows that the compiled kernel cannot decode; the generic decoder must decode them.
    """

    records: NDArray[np.int64]
    listed: NDArray[np.int32]
    members: NDArray[np.int64]
    whole: DistinctStrings
    texts: DistinctStrings
    subscriptions: MemberPayloads
    assignments: MemberPayloads
    odd: Ints

    def __len__(self) -> int:
        return len(self.records)

    def column_of_field(self, field: str) -> Ints:
        """Return one field of all group records, such as ``generation`` (int64[n]).

        `RECORD` lists the names of the fields.
        """
        column: Ints = self.records[:, RECORD.index(field)]
        return column


def classic_columns(values: BinaryColumn, rows: Ints) -> Iterator[ClassicColumns]:
    r"""Decode GROUP_METADATA records, the states of classic consumer groups; yield them in batches.

    ``values`` is the column of the records' values, ``rows`` the rows to decode; they must not be
    null. Damaged values raise no error: their rows are listed in ``odd``.

    >>> value = b"\0\3\0\0" + (7).to_bytes(4, "big") + b"\xff\xff\xff\xff" + bytes(12)
    >>> (made,) = classic_columns(BinaryColumn.from_rows([value]), np.array([0]))
    >>> generation, leader = (made.column_of_field(name) for name in ("generation", "leader"))
    >>> generation.tolist(), leader.tolist(), made.odd.tolist()
    ([7], [-1], [])
    """
    if not len(rows):
        return
    first, end = values.byte_bounds(rows)
    so_far = np.cumsum(end - first)
    data, start = read_only(values.data, np.uint8), read_only(values.start, np.int64)
    at = 0
    while at < len(rows):
        before = int(so_far[at - 1]) if at else 0
        stop = int(np.searchsorted(so_far, before + _BYTES_AT_ONCE, "right"))
        stop = max(stop, at + 1)
        size = int(so_far[stop - 1]) - before
        yield _read_batch(GroupSource(data, start, read_only(rows[at:stop], np.int64)), size)
        at = stop


def _read_batch(source: GroupSource, size: int) -> ClassicColumns:
    # The tables are enlarged when they are full.
    count, members = len(source.rows), size // _BYTES_A_MEMBER
    texts, whole = NameTable(size // _BYTES_A_TEXT), NameTable(members)
    subscriptions, assignments = NameTable(members), NameTable(members)
    names = (texts, subscriptions, assignments, whole)
    tables = GroupTables(
        texts.names, subscriptions.names, assignments.names, whole.names,
        records=np.empty((count + 1, len(RECORD)), np.int64),
        members=np.empty((len(whole.names.table), len(MEMBER)), np.int64),
        listed=np.empty(size // MIN_MEMBER_BYTES + 1, np.int32),
        odd=np.empty(count, np.int64), counts=np.zeros(3, np.int64),
    )  # fmt: skip
    row = 0
    while True:
        row = read_groups(source, row, tables, work=count * _STEPS_SAVED_A_RECORD)
        if row == count:
            break
        for one, reserve in zip(names, (8, 1, 1, 1), strict=True):
            if one.is_full(reserve):
                one.enlarge()
        more = np.empty((len(whole.names.table), len(MEMBER)), np.int64)
        more[: len(whole)] = tables.members[: len(whole)]
        tables = tables._replace(
            texts=texts.names, subscriptions=subscriptions.names, assignments=assignments.names,
            whole=whole.names, members=more,
        )  # fmt: skip
    records, odd, listed = tables.counts.tolist()
    data = source.data
    return ClassicColumns(
        tables.records[:records], tables.listed[:listed].copy(), tables.members[: len(whole)],
        DistinctStrings(data, whole.name_positions()),
        DistinctStrings(data, texts.name_positions()),
        _read_payloads(data, subscriptions.name_positions(), is_subscription=True),
        _read_payloads(data, assignments.name_positions(), is_subscription=False),
        tables.odd[:odd].copy(),
    )  # fmt: skip


def _read_payloads(data: Bytes, positions: Ints, *, is_subscription: bool) -> MemberPayloads:
    # The table of topics is enlarged when it is full.
    at, size = (read_only(column, np.int64) for column in positions.T)
    count, total = len(at), int(size.sum())
    names = NameTable()
    # Room for as much as so many bytes can hold: no count in them is believed.
    tables = PayloadTables(
        names.names,
        heads=np.empty((count, len(PAYLOAD)), np.int64),
        topics=np.empty(total // 2 + 1 if is_subscription else 1, np.int32),
        pairs=np.empty((total // 6 + 1, 3), np.int64),
        numbers=np.empty(total // 4 + 1, np.int32),
        counts=np.zeros(3, np.int64),
    )
    done = 0
    while True:
        done = read_payloads(
            PayloadSource(data, at, size), is_subscription, done, tables,
            work=count * _STEPS_SAVED_A_RECORD,
        )  # fmt: skip
        if done == count:
            break
        names.enlarge()
        tables = tables._replace(names=names.names)
    topics, pairs, numbers = tables.counts.tolist()
    return MemberPayloads(
        DistinctStrings(data, positions), tables.heads,
        DistinctStrings(data, names.name_positions()),
        tables.topics[:topics].copy(), tables.pairs[:pairs].copy(),
        tables.numbers[:numbers].copy(),
    )  # fmt: skip
