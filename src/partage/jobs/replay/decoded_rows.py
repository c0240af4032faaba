"""Rows of the table that the decode job returns; their `DecodedKind` says what they contain.

A row of **commit runs** has the runs of one group between two of its records (`pack_runs`).

A **block of group records** has the records of one group and one log partition, in log order
(`pack_block`, `BlockReader`). Classic records are columns (`wire.columns.classic_groups`) with only
the bytes that the columns refer to. All other records are decoded values. Each record has a row of
its own, with its index in the block, so that records and commit runs can be sorted by log position.
The row of a block's first record has the block.

A block is a list of byte strings, each after its length (8 bytes, little-endian): first the other
records, then one entry for each batch of decoded classic records.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.history.commit_kernels import RUN
from partage.history.commits import RunColumns, Runs
from partage.history.records import ClassicState, ClassicStates, GroupRecord, LogPosition
from partage.jobs.replay.records import LogColumns
from partage.wire.columns.classic_groups import ClassicColumns, DistinctStrings, MemberPayloads
from partage.wire.columns.classic_kernels import MEMBER, PAYLOAD, RECORD
from partage.wire.group_log import DecodedRecord

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "OUT_COLUMNS",
    "DecodedKind",
    "batch_of_records",
    "batch_of_rows",
    "batch_of_runs",
    "cut_by_bytes",
    "pack_runs",
    "unpack_runs",
]


class DecodedKind(IntEnum):
    """Kinds of result rows of the job that decodes log records: group records, offset commits,
    errors.

    All kinds have the same columns, and each kind uses some of them.
    """

    GROUP_RECORD = 0
    COMMIT_RUNS = 1
    BAD_RECORD = 2
    TALLY = 3
    RECEIPT = 4
    #: An undecoded offset commit whose transaction is open, for the next appending run.
    OPEN_COMMIT = 5
    #: Digests of the records of the files that a task has read, see `input_digests`.
    INPUT_DIGESTS = 6


#: name -> Spark type. Which columns a kind uses is said in the functions that fill them.
OUT_COLUMNS: dict[str, str] = {
    "kind": "int",
    "group": "string",
    "topic": "string",
    "topic_partition": "int",
    "minute_ms": "bigint",
    "log_partition": "bigint",
    "log_offset": "bigint",
    "timestamp_ms": "bigint",
    "part": "string",
    "text": "string",
    "record": "int",
    "key": "binary",
    "value": "binary",
}


def _types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    types = {
        "int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "binary": pa.binary(),
    }  # fmt: skip
    return {name: types[kind] for name, kind in OUT_COLUMNS.items()}


def _build_batch(columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    """Build an Arrow batch with result rows of the job that decodes log records.

    All columns that are not given are null. ``count`` is the number of rows.
    """
    import pyarrow as pa

    arrays = [columns.get(name, pa.nulls(count, kind)) for name, kind in _types().items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(OUT_COLUMNS))


def batch_of_rows(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Convert result rows of the record-decoding job, such as damaged records, to an Arrow batch.

    Each row is a dict from column name to value. Missing columns become null.
    """
    import pyarrow as pa

    columns = {n: pa.array([row.get(n) for row in rows], kind) for n, kind in _types().items()}
    return _build_batch(columns, len(rows))


class BlockRows(NamedTuple):
    """Decoded group records of one task, packed into byte strings (blocks) for the next job.

    A block has the records of one group and one log partition (partition of
    ``__consumer_offsets``).

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


def batch_of_records(log_columns: LogColumns, records: BlockRows) -> pa.RecordBatch:
    """Convert decoded group records to an Arrow batch with one row per record.

    A row has the record's log position and time, and its index in a block: a byte string with
    packed records. Only the first row of a block has the block's bytes.
    """
    import pyarrow as pa

    rows = records.rows
    columns = {
        "kind": pa.array(np.full(len(rows), int(DecodedKind.GROUP_RECORD), np.int32)),
        "group": pa.array(records.groups, pa.string()),
        "record": pa.array(records.numbers.astype(np.int32)),
        "value": pa.array(records.blocks, pa.binary()),
        "log_partition": pa.array(log_columns.partition[rows]),
        "log_offset": pa.array(log_columns.offset[rows]),
        "timestamp_ms": pa.array(log_columns.timestamp_ms[rows]),
    }  # fmt: skip
    return _build_batch(columns, len(rows))


def batch_of_runs(runs: Runs, pairs: list[tuple[str, str]]) -> pa.RecordBatch:
    """Convert commit runs to an Arrow batch, for the result of the decode job.

    A commit run summarizes the offset commits of one partition within a minute and between two
    group records. A row has many runs.

    Args:
        runs: the commit runs; column ``pair`` is an index into ``pairs``.
        pairs: pairs of group and topic.
    """
    import pyarrow as pa

    columns = pack_runs(runs, pairs)
    count = len(columns["group"])
    kind = pa.array(np.full(count, int(DecodedKind.COMMIT_RUNS), np.int32))
    return _build_batch({**columns, "kind": kind}, count)


#: Numbers of a run: where it belongs, where it begins, and what `RUN` has of it.
_PLACES = ("topic", "partition", "log_partition", "log_offset")
_WIDTH = len(_PLACES) + len(RUN) - 2
_NUMBER = np.dtype("<i8")
_Longs = NDArray[np.int64]


def pack_runs(runs: Runs, pairs: list[tuple[str, str]]) -> dict[str, pa.Array]:
    """Pack commit runs into Arrow columns; one row has the runs between two records of a group.

    A commit run summarizes the offset commits of one partition within a minute.

    Args:
        runs: the commit runs.
        pairs: ``pairs[pair]`` are the group and the topic of a run.
    """
    # Commits that take effect at one transaction marker have a separate row. Column ``value`` has
    # the fields of the runs as little-endian int64, one run after the other. Column ``topic`` is a
    # JSON list of their topics.
    import pyarrow as pa

    groups, topics = _NameCodes(), [_NameCodes() for _ in range(len(pairs))]
    group_of = np.array([groups.code(group) for group, _ in pairs], np.int64)
    topic_of = np.array([topics[groups.code(g)].code(t) for g, t in pairs], np.int64)
    rank = np.empty(len(pairs), np.int64)
    rank[sorted(range(len(pairs)), key=lambda i: pairs[i][1])] = np.arange(len(pairs))
    group = group_of[runs.pair]
    order = np.lexsort((
        runs.minute_ms, runs.partition, rank[runs.pair], runs.log_offset, runs.log_partition, group,
    ))  # fmt: skip
    numbers = _run_matrix(runs, topic_of[runs.pair])[order]
    group, stretch, partition = group[order], runs.stretch[order], runs.log_partition[order]
    new = (group[1:] != group[:-1]) | (stretch[1:] != stretch[:-1])
    first = np.append(0, np.flatnonzero(new | (partition[1:] != partition[:-1])) + 1)
    bounds = np.append(first, len(order)) * _WIDTH * _NUMBER.itemsize
    texts = [json.dumps(names.list) for names in topics[: len(groups.list)]]
    which = pa.array(group[first])
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(numbers)]
    return {
        "group": pa.array(groups.list, pa.string()).take(which),
        "topic": pa.array(texts, pa.string()).take(which),
        "topic_partition": pa.array(numbers[first, 1].astype(np.int32)),
        "log_partition": pa.array(numbers[first, 2]), "log_offset": pa.array(numbers[first, 3]),
        "minute_ms": pa.array(numbers[first, 4]),
        "value": pa.Array.from_buffers(pa.binary(), len(first), buffers),
    }  # fmt: skip


def _run_matrix(runs: Runs, topic: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the fields of commit runs as a matrix (int64[runs, _WIDTH]), one row for each run.

    A commit run summarizes offset commits of one partition. ``topic`` is each run's index in the
    packed row's list of topics.
    """
    # Offsets are 0 in runs without commits. The largest gap between commits is -1 in runs with
    # fewer than two.
    there = runs.commits > 0
    columns: tuple[NDArray[Any], ...] = (
        topic, runs.partition, runs.log_partition, runs.log_offset, runs.minute_ms,
        runs.first_ms, runs.last_ms, np.where(there, runs.first_offset, 0),
        np.where(there, runs.last_offset, 0), runs.commits, runs.transactional, runs.tombstones,
        np.where(runs.commits < 2, -1, runs.largest_gap_ms), runs.advanced_ms,
    )  # fmt: skip
    out = np.empty((len(topic), _WIDTH), _NUMBER)
    for i, column in enumerate(columns):
        out[:, i] = column
    return out


class _NameCodes:
    """Mapping from names, such as topics, to the numbers 0, 1, 2, ... in order of first use.

    Packed rows contain these numbers instead of the names.
    """

    def __init__(self) -> None:
        self._code: dict[str, int] = {}

    def code(self, name: str) -> int:
        return self._code.setdefault(name, len(self._code))

    @property
    def list(self) -> list[str]:
        return [*self._code]


#: Bytes of packed runs and records that are unpacked at once; unpacked they take ten times as much.
_MOST_BYTES_AT_ONCE = 4 << 20


def cut_by_bytes(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut rows of the decode job into batches of limited size, to bound memory.

    A row may have the runs of some 10,000 partitions. Rows are not cut.
    """
    from pyarrow import compute

    sizes = compute.fill_null(compute.binary_length(rows.column("value")), 0).to_numpy()
    number = np.cumsum(sizes, dtype=np.int64) // _MOST_BYTES_AT_ONCE
    ends = [*(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
    for first, end in pairwise([0, *ends]):
        if end > first:
            yield rows.slice(first, end - first)


def unpack_runs(rows: pa.RecordBatch) -> tuple[RunColumns, NDArray[np.int64]]:
    """Restore commit runs (summaries of offset commits) from rows that `pack_runs` returned.

    Return all runs and the number of runs in each row. Column ``stretch`` is 0; the caller sets it.

    Args:
        rows: rows of kind `DecodedKind.COMMIT_RUNS`.
    """
    sizes = np.array([len(cell) for cell in rows.column("value").to_pylist()], np.int64)
    many = sizes // (_WIDTH * _NUMBER.itemsize)
    whole = b"".join(rows.column("value").to_pylist())
    numbers = np.frombuffer(whole, _NUMBER).reshape(-1, _WIDTH).T.astype(np.int64)
    names, topic = _merge_topic_lists(rows.column("topic"), many, numbers[0])
    table = np.zeros((len(RUN), numbers.shape[1]), np.int64)
    table[2:] = numbers[len(_PLACES) :]
    return RunColumns(names, topic, numbers[1], numbers[2:4], table), many


def _merge_topic_lists(
    topic_lists: pa.Array, run_counts: NDArray[np.int64], local: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int64]]:
    """Merge the topic lists of several rows into one list without duplicates.

    Each row has commit summaries that refer to topics by index. The indices are converted to
    indices into the merged list.

    Args:
        topic_lists: each row's list of topics as JSON text.
        run_counts: number of commit summaries in each row.
        local: each summary's index into its row's list.

    Returns:
        The distinct topics, and each summary's index into them.
    """
    coded: Any = topic_lists.dictionary_encode()
    codes = _NameCodes()
    lists = [[codes.code(t) for t in json.loads(text)] for text in coded.dictionary.to_pylist()]
    flat = np.array([code for one in lists for code in one], np.int64)
    begins = np.append(0, np.cumsum([len(one) for one in lists]))[:-1].astype(np.int64)
    begin = begins[coded.indices.to_numpy()] if len(topic_lists) else begins
    return codes.list, flat[np.repeat(begin, run_counts) + local] if len(local) else local


# -- packed blocks of group records ------------------------------------------------------------

#: Columns of a payload's head that are places in the bytes.
_PAYLOAD_PLACES = [PAYLOAD.index("user_at"), PAYLOAD.index("rack_at")]
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
    """Serialize the decoded records of one consumer group and log partition to bytes.

    A worker of a later job restores them with a `BlockReader`.

    Args:
        rows: index in the log columns of each record to pack, ascending (int64[n]).
        columns: decoded records of classic groups; only those in ``rows`` are packed.
        others: dict from row to each other decoded record.
    """
    # Plain values for a worker of the same job: marshal keeps tuples and bytes, and is quickest.
    decoded = [
        (number, others[row].type, dict(others[row].key), others[row].value)
        for number, row in enumerate(rows.tolist())
        if row in others
    ]
    return _join_with_lengths(
        [marshal.dumps(decoded, _MARSHAL), *(_pack_records(one, rows) for one in columns)]
    )


class BlockReader:
    """Reader that restores decoded group records from the rows of the record-decoding job.

    Blocks of records must come in their original order. A block is unpacked when its first record
    is requested.
    """

    def __init__(self) -> None:
        self._states = ClassicStates()
        self._block: _RecordBlock | None = None

    def record_builders(self, rows: pa.RecordBatch) -> list[Callable[[], GroupRecord]]:
        """Return one function for each row, which builds the row's group record when it is called.

        Records are built lazily, because the caller may skip some. The functions must be called in
        order. A packed block of records may continue in the next batch.
        """
        names = ("value", "record", "group", "log_partition", "log_offset", "timestamp_ms")
        made: list[Callable[[], GroupRecord]] = []
        for raw, number, group, partition, offset, time_ms in zip(
            *(rows.column(name).to_pylist() for name in names), strict=True
        ):
            if raw is not None:
                self._block = _RecordBlock(raw, self._states)
            if self._block is None:
                raise RuntimeError("a group record without its block")
            place = LogPosition(partition, offset)
            made.append(partial(self._block.build_record, number, group, place, time_ms))
        return made


class _RecordBlock:
    """Packed records of one consumer group, which are decoded when the first one is requested.

    Args:
        raw: the bytes that `pack_block` returned.
        states: builder of classic groups' states, which reuses equal parts across blocks.
    """

    def __init__(self, raw: bytes, states: ClassicStates) -> None:
        self._raw: bytes | None = raw
        self._others: dict[int, tuple[str, dict[str, Any], dict[str, Any] | None]] = {}
        self._classic = self._states(states)
        self._next: tuple[int, ClassicState] | None = None

    def _states(self, states: ClassicStates) -> Iterator[tuple[int, ClassicState]]:
        first, *columns = _split_by_length(self._raw or b"")
        self._raw = None
        self._others = {n: (kind, key, value) for n, kind, key, value in marshal.loads(first)}  # noqa: S302 - a worker of this job wrote it
        for raw in columns:
            yield from states.yield_states(_unpack_records(raw))

    def build_record(
        self, record_index: int, group: str, log_position: LogPosition, time_ms: int
    ) -> GroupRecord:
        """Restore one record of a consumer group from the packed bytes of this block.

        The method must be called with ascending indices.

        Args:
            record_index: index of the record in this block.
            group: the group id.
            log_position: the record's position in the log.
            time_ms: the record's time.
        """
        if self._raw is not None:
            self._next = next(self._classic, None)
        while self._next is not None and self._next[0] < record_index:
            self._next = next(self._classic, None)
        if self._next is not None and self._next[0] == record_index:
            key = {"group": group}
            return GroupRecord(log_position, time_ms, "GROUP_METADATA", key, None, self._next[1])
        kind, key, value = self._others[record_index]
        return GroupRecord(log_position, time_ms, kind, key, value)


class _ByteRegions(NamedTuple):
    """Byte ranges of log records that decoded columns refer to, before and after they are packed.

        bytes of the records    ....[member a]......[member b][leader]....
        after the move          [member a][member b][leader]

    Attributes:
        start, end: first byte of each range and the byte after it, ascending (int64[r]).
        moved: first byte of each range after all ranges are packed without gaps (int64[r]).
    """

    start: _Longs
    end: _Longs
    moved: _Longs

    @classmethod
    def find_regions(cls, members: _Longs, others: Sequence[_Longs]) -> _ByteRegions:
        """Find the bytes of log records that must be stored, because decoded columns refer to them.

        The bytes of an encoded member include its strings, so ranges inside of a member are left
        out.

        Args:
            members: first byte and size of each distinct encoded member (int64[m, 2]).
            others: first byte and size of strings and payloads (int64[k, 2] each).
        """
        start, end = _sort_ranges(members)
        places = np.concatenate(others)
        if len(start):
            at = np.maximum(np.searchsorted(start, places[:, 0], "right") - 1, 0)
            inside = (start[at] <= places[:, 0]) & (places.sum(axis=1) <= end[at])
            places = places[~inside]
        outside = _sort_ranges(np.unique(places, axis=0))
        start, end = (np.concatenate(both) for both in zip((start, end), outside, strict=True))
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        return cls(start, end, np.cumsum(end - start) - (end - start))

    def packed_positions(self, positions: _Longs) -> _Longs:
        """Convert byte positions in the original log records to positions in the packed bytes.

        Each position must be inside one of the packed ranges.
        """
        if not len(self.start):
            return np.zeros_like(positions)
        region = np.maximum(np.searchsorted(self.start, positions, "right") - 1, 0)
        return self.moved[region] + positions - self.start[region]

    def extract_bytes(self, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the bytes of all ranges, concatenated without gaps.

        ``data`` has the bytes of the original log records.
        """
        pairs = zip(self.start.tolist(), self.end.tolist(), strict=True)
        return np.concatenate([data[:0], *(data[at:end] for at, end in pairs)])


def _sort_ranges(ranges: _Longs) -> tuple[_Longs, _Longs]:
    """Sort byte ranges by their first byte, and return their first and end positions as two arrays.

    ``ranges`` has a row (first byte, size) for each range (int64[n, 2]). Empty ranges are left out.
    """
    ranges = ranges[ranges[:, 1] > 0]
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    return ranges[:, 0], ranges.sum(axis=1)


def _pack_records(columns: ClassicColumns, rows: _Longs) -> bytes:
    """Serialize some decoded records of classic groups, with the bytes that they refer to.

    ``rows`` are the indices of the records to pack. Other records in ``columns`` are left out.
    """
    number = np.minimum(np.searchsorted(rows, columns.column_of_field("row")), len(rows) - 1)
    chosen = rows[number] == columns.column_of_field("row")
    records = columns.records[chosen]
    records[:, 0] = number[chosen]
    payloads = columns.subscriptions, columns.assignments
    texts = [
        columns.texts.positions,
        *(t.positions for one in payloads for t in (one.sent, one.names)),
    ]
    regions = _ByteRegions.find_regions(columns.whole.positions, texts)

    def moved(places: _Longs) -> _Longs:
        return np.stack([regions.packed_positions(places[:, 0]), places[:, 1]], axis=1)

    arrays: list[NDArray[Any]] = [records, columns.listed, columns.members,
    moved(columns.whole.positions),
                                  moved(columns.texts.positions)]  # fmt: skip
    for one in payloads:
        heads = one.heads.copy()
        heads[:, _PAYLOAD_PLACES] = regions.packed_positions(
            heads[:, _PAYLOAD_PLACES].ravel()
        ).reshape(-1, len(_PAYLOAD_PLACES))
        arrays += [moved(one.sent.positions), moved(one.names.positions), heads, one.topics,
        one.pairs,
                   one.numbers]  # fmt: skip
    return _join_with_lengths(
        [one.tobytes() for one in (*arrays, regions.extract_bytes(columns.whole.data))]
    )


def _unpack_records(raw: bytes) -> ClassicColumns:
    """Restore decoded records of classic groups from the bytes that `_pack_records` returned.

    Column ``row`` of the result is each record's index in its packed block.
    """
    records, listed, members, whole, texts, *rest, data = (
        np.frombuffer(part, dtype).reshape((-1, width) if width else -1)
        for part, (dtype, width) in zip(_split_by_length(raw), _ARRAYS, strict=True)
    )
    half = len(_PAYLOAD_ARRAYS)
    subscriptions, assignments = (
        MemberPayloads(
            DistinctStrings(data, sent), heads, DistinctStrings(data, names), topics, pairs, numbers
        )
        for sent, names, heads, topics, pairs, numbers in (rest[:half], rest[half:])
    )
    return ClassicColumns(
        records, listed, members, DistinctStrings(data, whole), DistinctStrings(data, texts),
        subscriptions,
        assignments, np.zeros(0, np.int64),
    )  # fmt: skip


def _join_with_lengths(parts: Sequence[bytes]) -> bytes:
    """Concatenate byte strings, each preceded by its length (8 bytes, little-endian).

    `_split_by_length` restores the byte strings.
    """
    return b"".join(piece for part in parts for piece in (len(part).to_bytes(8, "little"), part))


def _split_by_length(raw: bytes) -> Iterator[bytes]:
    """Yield the byte strings that `_join_with_lengths` has concatenated.

    Each of them is preceded by its length (8 bytes, little-endian).
    """
    at = 0
    while at < len(raw):
        end = at + 8 + int.from_bytes(raw[at : at + 8], "little")
        yield raw[at + 8 : end]
        at = end
