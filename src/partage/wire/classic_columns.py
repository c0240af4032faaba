"""Records of classic groups by the column: from Arrow's buffers to arrays, payloads included.

Strings, payloads and whole members are codes: equal bytes share one, and are read once. Nothing is
a Python object until somebody asks for it. A record that is not plain is in ``odd``, for the engine
(`group_log`); so is a payload, whose ``version`` is -1 then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.java.strings import decode_utf8
from partage.wire.columns import BinaryColumn, Bytes, Ints
from partage.wire.group_kernel import COUNTS, MEMBER, RECORD, SMALLEST_MEMBER, scan_groups
from partage.wire.name_table import NameTable
from partage.wire.payload_kernel import PAYLOAD, scan_payloads

__all__ = ["ClassicColumns", "Payloads", "Texts", "classic_columns", "pays"]

#: Bytes of values that are read at a time, if they are not of one record: what is made of them
#: then fits into the processor's cache.
_BYTES_AT_ONCE = 1 << 19
#: Bytes for each of which a table expects a member, or a text; where there are more it grows.
_BYTES_A_MEMBER = 96
_BYTES_A_TEXT = 40
#: What the engine takes longer for a record than the kernel, as steps of the interpreter.
_STEPS_SAVED_A_RECORD = 200


def pays(*, rows: int) -> bool:
    """Whether the compiled kernels are there, or worth their start for so many records."""
    work = rows * _STEPS_SAVED_A_RECORD
    return scan_groups.pays(work=work) and scan_payloads.pays(work=work)


@dataclass(frozen=True)
class Texts:
    """Distinct byte strings: where each one stands, and what it says, once somebody asks.

    Attributes:
        places: int64[n, 2]: first byte and size.
    """

    data: Bytes = field(repr=False)
    places: NDArray[np.int64]
    _made: dict[int, str] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def _cut(self) -> tuple[memoryview, list[list[int]]]:
        return self.data.data, self.places.tolist()

    def raw(self, code: int) -> bytes:
        """The bytes."""
        data, places = self._cut
        at, size = places[code]
        return bytes(data[at : at + size])

    def text(self, code: int) -> str:
        """As Java reads them; the same object for the same code."""
        known = self._made.get(code)
        if known is None:
            known = self._made[code] = decode_utf8(self.raw(code))
        return known


@dataclass(frozen=True)
class Payloads:
    """Distinct payloads of the consumer protocol, all subscriptions or all assignments.

    Attributes:
        sent: the bytes of each.
        heads: int64[n, len(`PAYLOAD`)]: see there.
        names: topics.
        topics: int32: of subscriptions, codes in ``names``, one payload after the other.
        pairs: int64[k, 3]: of owned or assigned topics: code, first number, how many.
        numbers: int32: partitions.
    """

    sent: Texts
    heads: NDArray[np.int64]
    names: Texts
    topics: NDArray[np.int32]
    pairs: NDArray[np.int64]
    numbers: NDArray[np.int32]

    def column(self, name: str) -> Ints:
        """A column of ``heads``, by its name."""
        column: Ints = self.heads[:, PAYLOAD.index(name)]
        return column


@dataclass(frozen=True)
class ClassicColumns:
    """Values of some GROUP_METADATA records.

    Attributes:
        records: int64[n, len(`RECORD`)]: one row a plain record, in their order.
        listed: int32: codes of each record's members, from its ``members_from`` on.
        members: int64[m, len(`MEMBER`)]: one row a distinct member.
        whole: the bytes of each distinct member.
        texts: what codes of strings stand for.
        odd: rows that the engine is to read.
    """

    records: NDArray[np.int64]
    listed: NDArray[np.int32]
    members: NDArray[np.int64]
    whole: Texts
    texts: Texts
    subscriptions: Payloads
    assignments: Payloads
    odd: Ints

    def __len__(self) -> int:
        return len(self.records)

    def column(self, name: str) -> Ints:
        """A column of ``records``, by its name."""
        column: Ints = self.records[:, RECORD.index(name)]
        return column


def classic_columns(values: BinaryColumn, rows: Ints) -> Iterator[ClassicColumns]:
    r"""The values at ``rows``, some at a time, in order; none of them is null.

    No error is raised for damaged ones: they are in ``odd``.

    >>> value = b"\0\3\0\0" + (7).to_bytes(4, "big") + b"\xff\xff\xff\xff" + bytes(12)
    >>> (made,) = classic_columns(BinaryColumn.of([value]), np.array([0]))
    >>> made.column("generation").tolist(), made.column("leader").tolist(), made.odd.tolist()
    ([7], [-1], [])
    """
    if not len(rows):
        return
    first, end = values.bounds(rows)
    so_far = np.cumsum(end - first)
    data = np.ascontiguousarray(values.data)
    start = np.ascontiguousarray(values.start, np.int64)
    at = 0
    while at < len(rows):
        before = int(so_far[at - 1]) if at else 0
        stop = int(np.searchsorted(so_far, before + _BYTES_AT_ONCE, "right"))
        stop = max(stop, at + 1)
        yield _Scan(data, int(so_far[stop - 1]) - before).made(start, rows[at:stop])
        at = stop


class _Scan:
    """The tables of one pass over so many bytes, made and grown."""

    def __init__(self, data: Bytes, size: int) -> None:
        self.data, self.size = data, size
        members = size // _BYTES_A_MEMBER
        self.texts, self.whole = NameTable(size // _BYTES_A_TEXT), NameTable(members)
        self.sent, self.got = NameTable(members), NameTable(members)
        self.counts = np.zeros(len(COUNTS), np.int64)

    def made(self, start: Ints, rows: Ints) -> ClassicColumns:
        """All of it."""
        count = len(rows)
        rows = np.ascontiguousarray(rows, np.int64)
        records = np.empty((count + 1, len(RECORD)), np.int64)
        members = self._room()
        listed = np.empty(self.size // SMALLEST_MEMBER + 1, np.int32)
        odd = np.empty(count, np.int64)
        row, tables = 0, (self.texts, self.sent, self.got, self.whole)
        while True:
            every = (part for one in tables for part in (one.slots, one.table))
            row = scan_groups(
                self.data, start, rows, row, *every, records, members, listed, odd, self.counts,
                work=count * _STEPS_SAVED_A_RECORD,
            )  # fmt: skip
            if row == count:
                break
            for table, known in zip(tables, self.counts[3:].tolist(), strict=True):
                if 2 * known + 16 >= len(table.slots):
                    table.grow(max(known, 16))
            members = np.concatenate([members[: int(self.counts[6])], self._room()])
        made, n_odd, n_listed, n_texts, n_sent, n_got, n_members = self.counts.tolist()
        return ClassicColumns(
            records[:made], listed[:n_listed].copy(), members[:n_members],
            Texts(self.data, self.whole.places(n_members)),
            Texts(self.data, self.texts.places(n_texts)),
            self._payloads(self.sent.places(n_sent), sent=True),
            self._payloads(self.got.places(n_got), sent=False),
            odd[:n_odd].copy(),
        )  # fmt: skip

    def _room(self) -> NDArray[np.int64]:
        return np.empty((len(self.whole.table), len(MEMBER)), np.int64)

    def _payloads(self, places: NDArray[np.int64], *, sent: bool) -> Payloads:
        at, size = (np.ascontiguousarray(column) for column in places.T)
        count, whole = len(at), int(size.sum())
        names = NameTable()
        heads = np.empty((count, len(PAYLOAD)), np.int64)
        # Rooms by the bytes that are there: no claim of theirs is believed.
        topics = np.empty(whole // 2 + 1 if sent else 1, np.int32)
        pairs = np.empty((whole // 6 + 1, 3), np.int64)
        numbers = np.empty(whole // 4 + 1, np.int32)
        counts = np.zeros(4, np.int64)
        done = 0
        while True:
            done = scan_payloads(
                self.data, at, size, int(sent), done, names.slots, names.table, heads, topics,
                pairs, numbers, counts, work=count * _STEPS_SAVED_A_RECORD,
            )  # fmt: skip
            if done == count:
                break
            names.grow(max(int(counts[0]), 16))
        n_names, n_topics, n_pairs, n_numbers = counts.tolist()
        return Payloads(
            Texts(self.data, places), heads, Texts(self.data, names.places(n_names)),
            topics[:n_topics].copy(), pairs[:n_pairs].copy(), numbers[:n_numbers].copy(),
        )  # fmt: skip
