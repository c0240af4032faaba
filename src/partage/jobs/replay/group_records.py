"""Packed blocks of decoded group records, which the decode job sends to the histories job.

A group record is any record of ``__consumer_offsets`` that is not an offset commit. Most are of
classic groups; they are decoded by the column if there are enough of them. The schema engine
decodes all others, and records with damaged or unusual bytes.

A block has the records of one group and one log partition, in log order. Classic records are
columns (`wire.columns.classic_groups`) with only the bytes that the columns refer to. All other
records are decoded values. Each record has a row of its own, with its index in the block, so that
records and commit runs can be sorted by log position. The row of a block's first record has the
block.

A block is a list of byte strings, each after its length (8 bytes, little-endian): first the other
records, then one entry for each batch of decoded classic records.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import WireFormatError
from partage.history.records import ClassicState, ClassicStates, GroupRecord, LogPosition
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.replay.records import LogColumns, RawRecord
from partage.jobs.replay.selection import Selection
from partage.jobs.replay.tally import Tally
from partage.wire.columns.classic_groups import (
    ClassicColumns,
    Payloads,
    Texts,
    classic_columns,
    pays,
)
from partage.wire.columns.classic_kernels import MEMBER, PAYLOAD, RECORD
from partage.wire.columns.commits import OffsetCommits
from partage.wire.group_log import RECORD_TYPES, DecodedRecord, decode_key, decode_record

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BlockReader", "BlockRows", "bad_row", "group_records", "pack_block"]

_Longs = NDArray[np.int64]
_CLASSIC = 2
#: Bytes of values in a block, unless it is of one record: what is decoded fits into a cache.
_BLOCK_BYTES = 1 << 19
#: A record type and the name of a group; or why a key says neither.
_Named = tuple[int, str] | WireFormatError


class BlockRows(NamedTuple):
    """Decoded group records of one task, packed into blocks for the histories job.

    A block has the records of one group and one log partition.

    Attributes:
        rows: index of each record in the log columns (int64[n]).
        groups: the group of each record.
        numbers: index of each record in its block; 0 begins a block (int64[n]).
        blocks: the packed block for the first record of each block, None for the others.
        bad: result rows of damaged records.
    """

    rows: _Longs
    groups: list[str]
    numbers: _Longs
    blocks: list[bytes | None]
    bad: list[dict[str, Any]]


def group_records(
    log_columns: LogColumns, found: OffsetCommits, tally: Tally, selection: Selection
) -> BlockRows:
    """Decode all records of groups, and pack them into blocks by group and log partition.

    Offset commits are not among them. The numbers of decoded and damaged records are added to
    ``tally``.
    """
    decoder = _Decoder(log_columns, tally)
    damaged = dict(found.errors)
    rows, groups, numbers, blocks = [], [], [], []
    for group, block in decoder.cut(found.others, damaged):
        decoded = decoder.decode(block, damaged)
        if not selection.group(group):
            continue
        good = np.array([row for row in block.tolist() if row not in damaged], np.int64)
        chosen = good[[not selection.over(t) for t in log_columns.timestamp_ms[good].tolist()]]
        if len(chosen):
            rows.append(chosen)
            groups += [group] * len(chosen)
            numbers.append(np.arange(len(chosen)))
            blocks += [pack_block(chosen, *decoded), *[None] * (len(chosen) - 1)]
    bad = []
    for row, error in sorted(damaged.items()):
        named = decoder.named(row)
        part, name = ("key", None) if isinstance(named, WireFormatError) else ("value", named[1])
        bad.append(bad_row(log_columns.raw(row), part, str(error), name))
    tally.bad += len(damaged)
    none = [np.zeros(0, np.int64)]
    return BlockRows(np.concatenate(none + rows), groups, np.concatenate(none + numbers), blocks,
                     bad)  # fmt: skip


def bad_row(raw: RawRecord, part: str, why: str, group: str | None) -> dict[str, Any]:
    """Return the result row of a damaged record, with the damaged part and the reason."""
    return {
        "kind": DecodedKind.BAD_RECORD, "group": group, "part": part, "text": why,
        "log_partition": raw.partition, "log_offset": raw.offset,
        "timestamp_ms": raw.timestamp_ms, "key": raw.key, "value": raw.value,
    }  # fmt: skip


class _Decoder:
    """Decoder of one task's group records, which also counts them. Equal keys are decoded once."""

    def __init__(self, log_columns: LogColumns, tally: Tally) -> None:
        self._columns, self._tally = log_columns, tally
        self._known: dict[bytes | None, _Named] = {}
        self._by_column = False

    def named(self, row: int) -> _Named:
        """Decode a record's key to its record type and group;
        return the error if the key is damaged.
        """
        key = self._columns.key[row]
        known = self._known.get(key)
        if known is None:
            try:
                number, names = decode_key(key)
                known = number, str(names["groupId"] if "groupId" in names else names["group"])
            except WireFormatError as error:
                known = error.with_traceback(None)
            self._known[key] = known
        return known

    def _is_classic(self, row: int) -> bool:
        named = self.named(row)
        return not isinstance(named, WireFormatError) and named[0] == _CLASSIC

    def cut(
        self, rows: _Longs, damaged: dict[int, WireFormatError]
    ) -> Iterator[tuple[str, _Longs]]:
        """Divide records by group and log partition;
        yield the group and the row indices of each part.

        Rows whose keys are damaged are added to ``damaged``.
        """
        by_group: dict[str, list[int]] = {}
        classic = 0
        for row in rows.tolist():
            named = self.named(row)
            if isinstance(named, WireFormatError):
                damaged[row] = named
            else:
                by_group.setdefault(named[1], []).append(row)
                classic += named[0] == _CLASSIC
        self._by_column = classic > 0 and pays(rows=classic)
        first, end = self._columns.value.bounds(np.arange(len(self._columns.value)))
        for group, some in by_group.items():
            chosen = np.array(some, np.int64)
            partition = self._columns.partition[chosen]
            size = np.cumsum((end - first)[chosen]) // _BLOCK_BYTES
            new = (partition[1:] != partition[:-1]) | (size[1:] != size[:-1])
            for block in np.split(chosen, np.flatnonzero(new) + 1):
                yield group, block

    def decode(
        self, rows: _Longs, damaged: dict[int, WireFormatError]
    ) -> tuple[list[ClassicColumns], dict[int, DecodedRecord]]:
        """Decode the records at some rows; return records of classic groups as columns,
        others by row.

        Errors are added to ``damaged``, by row.
        """
        columns: list[ClassicColumns] = []
        others = rows.tolist()
        if self._by_column:
            there = self._columns.value.is_valid()
            classic = [r for r in others if there[r] and self._is_classic(r)]
            columns = list(classic_columns(self._columns.value, np.array(classic, np.int64)))
            plain: set[int] = set()
            for found in columns:
                plain.update(found.column("row").tolist())
                versions, counts = np.unique(found.column("version"), return_counts=True)
                for version, count in zip(versions.tolist(), counts.tolist(), strict=True):
                    self._tally.type(_CLASSIC, RECORD_TYPES[_CLASSIC], version, count)
            others = [row for row in others if row not in plain]
        decoded: dict[int, DecodedRecord] = {}
        for row in others:
            try:
                record = decode_record(self._columns.key[row], self._columns.value[row])
            except WireFormatError as error:
                damaged[row] = error
            else:
                decoded[row] = record
                self._tally.type(record.key_version, record.type, record.value_version)
        return columns, decoded


#: Columns of a payload's head that are places in the bytes.
_PLACES = [PAYLOAD.index("user_at"), PAYLOAD.index("rack_at")]
#: Layout of marshal, which every supported Python reads.
_MARSHAL = 4
#: What is packed of columns, in this order: dtype and width of each array.
_PAYLOAD_ARRAYS = (
    (np.int64, 2), (np.int64, 2), (np.int64, len(PAYLOAD)), (np.int32, 0), (np.int64, 3),
    (np.int32, 0),
)  # fmt: skip
_ARRAYS = (
    (np.int64, len(RECORD)), (np.int32, 0), (np.int64, len(MEMBER)), (np.int64, 2), (np.int64, 2),
    *_PAYLOAD_ARRAYS, *_PAYLOAD_ARRAYS, (np.uint8, 0),
)  # fmt: skip


def pack_block(
    rows: _Longs, columns: Sequence[ClassicColumns], others: Mapping[int, DecodedRecord]
) -> bytes:
    """Pack the decoded records of one group and log partition into bytes.

    Args:
        rows: row of each record of the block, ascending (int64[n]); its index here is the record's
            index in the block.
        columns: decoded classic group records; those of other rows are left out.
        others: dict from row to record that the schema engine decoded.
    """
    # Plain values for a worker of the same job: marshal keeps tuples and bytes, and is quickest.
    decoded = [
        (number, others[row].type, dict(others[row].key), others[row].value)
        for number, row in enumerate(rows.tolist())
        if row in others
    ]
    return _join([marshal.dumps(decoded, _MARSHAL), *(_pack(one, rows) for one in columns)])


class BlockReader:
    """Reader that restores group records from rows of the decode job.

    The packed blocks of records must come in their original order. A block is unpacked when its
    first record is requested.
    """

    def __init__(self) -> None:
        self._states = ClassicStates()
        self._block: _Block | None = None

    def records(self, rows: pa.RecordBatch) -> list[Callable[[], GroupRecord]]:
        """Return for each row a function that builds its group record when it is called.

        Call the functions in order; some may be left out. A block may continue in the next batch.
        """
        names = ("value", "record", "group", "log_partition", "log_offset", "timestamp_ms")
        made: list[Callable[[], GroupRecord]] = []
        for raw, number, group, partition, offset, time_ms in zip(
            *(rows.column(name).to_pylist() for name in names), strict=True
        ):
            if raw is not None:
                self._block = _Block(raw, self._states)
            if self._block is None:
                raise RuntimeError("a group record without its block")
            place = LogPosition(partition, offset)
            made.append(partial(self._block.record, number, group, place, time_ms))
        return made


class _Block:
    """A packed block of group records, which is unpacked when its first record is requested.

    Args:
        raw: the bytes that `pack_block` returned.
        states: maker of classic groups' states, which caches parts of states for later blocks.
    """

    def __init__(self, raw: bytes, states: ClassicStates) -> None:
        self._raw: bytes | None = raw
        self._others: dict[int, tuple[str, dict[str, Any], dict[str, Any] | None]] = {}
        self._classic = self._states(states)
        self._next: tuple[int, ClassicState] | None = None

    def _states(self, states: ClassicStates) -> Iterator[tuple[int, ClassicState]]:
        first, *columns = _split(self._raw or b"")
        self._raw = None
        self._others = {n: (kind, key, value) for n, kind, key, value in marshal.loads(first)}  # noqa: S302 - a worker of this job wrote it
        for raw in columns:
            yield from states.of(_unpack(raw))

    def record(self, number: int, group: str, place: LogPosition, time_ms: int) -> GroupRecord:
        """Build the group record with a given index in the block;
        call it with ascending indices.
        """
        if self._raw is not None:
            self._next = next(self._classic, None)
        while self._next is not None and self._next[0] < number:
            self._next = next(self._classic, None)
        if self._next is not None and self._next[0] == number:
            key = {"group": group}
            return GroupRecord(place, time_ms, "GROUP_METADATA", key, None, self._next[1])
        kind, key, value = self._others[number]
        return GroupRecord(place, time_ms, kind, key, value)


class _Regions(NamedTuple):
    """The regions of record bytes that decoded columns refer to, and their positions after packing.

        bytes of the records    ....[member a]......[member b][leader]....
        after the move          [member a][member b][leader]

    Attributes:
        start, end: first byte of each region and the byte after it, ascending (int64[r]).
        moved: first byte of each region after all regions are packed without gaps (int64[r]).
    """

    start: _Longs
    end: _Longs
    moved: _Longs

    @classmethod
    def of(cls, members: _Longs, others: Sequence[_Longs]) -> _Regions:
        """Find the regions of bytes that decoded records need:
        members, and strings outside of members.

        Args:
            members: first byte and size of each distinct member (int64[m, 2]).
            others: first byte and size of strings and payloads.
        """
        start, end = _sorted(members)
        places = np.concatenate(others)
        if len(start):
            at = np.maximum(np.searchsorted(start, places[:, 0], "right") - 1, 0)
            inside = (start[at] <= places[:, 0]) & (places.sum(axis=1) <= end[at])
            places = places[~inside]
        outside = _sorted(np.unique(places, axis=0))
        start, end = (np.concatenate(both) for both in zip((start, end), outside, strict=True))
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        return cls(start, end, np.cumsum(end - start) - (end - start))

    def move(self, at: _Longs) -> _Longs:
        """Convert positions in the original record bytes to positions in the packed bytes.

        For a byte outside of all regions the result is arbitrary.
        """
        if not len(self.start):
            return np.zeros_like(at)
        region = np.maximum(np.searchsorted(self.start, at, "right") - 1, 0)
        return self.moved[region] + at - self.start[region]

    def cut(self, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the bytes of all regions, one after the other without gaps."""
        pairs = zip(self.start.tolist(), self.end.tolist(), strict=True)
        return np.concatenate([data[:0], *(data[at:end] for at, end in pairs)])


def _sorted(places: _Longs) -> tuple[_Longs, _Longs]:
    """Return the first byte of each non-empty region and the byte after its last,
    in ascending order.

    ``places`` has a row (first byte, size) for each region.
    """
    places = places[places[:, 1] > 0]
    places = places[np.argsort(places[:, 0], kind="stable")]
    return places[:, 0], places.sum(axis=1)


def _pack(found: ClassicColumns, rows: _Longs) -> bytes:
    """Serialize the decoded classic records at the given rows,
    with the bytes that they refer to.
    """
    number = np.minimum(np.searchsorted(rows, found.column("row")), len(rows) - 1)
    chosen = rows[number] == found.column("row")
    records = found.records[chosen]
    records[:, 0] = number[chosen]
    payloads = found.subscriptions, found.assignments
    texts = [
        found.texts.positions,
        *(t.positions for one in payloads for t in (one.sent, one.names)),
    ]
    regions = _Regions.of(found.whole.positions, texts)

    def moved(places: _Longs) -> _Longs:
        return np.stack([regions.move(places[:, 0]), places[:, 1]], axis=1)

    arrays: list[NDArray[Any]] = [records, found.listed, found.members,
    moved(found.whole.positions),
                                  moved(found.texts.positions)]  # fmt: skip
    for one in payloads:
        heads = one.heads.copy()
        heads[:, _PLACES] = regions.move(heads[:, _PLACES].ravel()).reshape(-1, len(_PLACES))
        arrays += [moved(one.sent.positions), moved(one.names.positions), heads, one.topics,
        one.pairs,
                   one.numbers]  # fmt: skip
    return _join([one.tobytes() for one in (*arrays, regions.cut(found.whole.data))])


def _unpack(raw: bytes) -> ClassicColumns:
    """Restore decoded classic records from the bytes that `_pack` returned.

    Column ``row`` of the result is each record's index in its block.
    """
    records, listed, members, whole, texts, *rest, data = (
        np.frombuffer(part, dtype).reshape((-1, width) if width else -1)
        for part, (dtype, width) in zip(_split(raw), _ARRAYS, strict=True)
    )
    half = len(_PAYLOAD_ARRAYS)
    subscriptions, assignments = (
        Payloads(Texts(data, sent), heads, Texts(data, names), topics, pairs, numbers)
        for sent, names, heads, topics, pairs, numbers in (rest[:half], rest[half:])
    )
    return ClassicColumns(
        records, listed, members, Texts(data, whole), Texts(data, texts), subscriptions,
        assignments, np.zeros(0, np.int64),
    )  # fmt: skip


def _join(parts: Sequence[bytes]) -> bytes:
    """Concatenate byte strings, each preceded by its length (8 bytes, little-endian)."""
    return b"".join(piece for part in parts for piece in (len(part).to_bytes(8, "little"), part))


def _split(raw: bytes) -> Iterator[bytes]:
    """Yield the byte strings that `_join` concatenated."""
    at = 0
    while at < len(raw):
        end = at + 8 + int.from_bytes(raw[at : at + 8], "little")
        yield raw[at + 8 : end]
        at = end
