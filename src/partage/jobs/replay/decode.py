"""First job of a replay: decode every record of the log once, in the task that reads it.

The driver lists slices (row ranges of files), and workers read them with pyarrow. Keys and values
of offset commits, 97 % of the records, never pass between the JVM and Python. Commits are decoded
from Arrow's buffers to columns, without a Python object for each, and are then reduced to commit
runs: the commits of one partition within a minute and between two records of its group. Records of
groups are packed in blocks (`decoded_rows`). All results of a task are in one table; the
`DecodedKind` of a row says what it contains.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import WireFormatError
from partage.history.commits import Commits, RecordPositions, Runs, number_stretches, reduce_to_runs
from partage.history.transactions import RecordOutcomes, TransactionOutcome, Transactions
from partage.jobs.replay.decoded_rows import (
    OUT_COLUMNS,
    BlockRows,
    DecodedKind,
    batch_of_records,
    batch_of_rows,
    batch_of_runs,
    pack_block,
)
from partage.jobs.replay.input_digests import InputDigests
from partage.jobs.replay.output import TableWriters, task_name
from partage.jobs.replay.records import (
    LogColumns,
    RawRecord,
    RepeatedOffsets,
    Slice,
    cast_record_columns,
    count_tasks,
    is_sorted,
    log_columns,
    read_slice,
    record_rows,
    sorted_records,
)
from partage.jobs.replay.selection import EVERYTHING, Selection
from partage.jobs.replay.tally import MOST_PARTITIONS, RecordTally, find_strands
from partage.jobs.spark.shipping import load_kernels
from partage.tables.schemas import table_schema
from partage.wire.columns.classic_groups import ClassicColumns, are_kernels_faster, classic_columns
from partage.wire.columns.commits import TOMBSTONE, OffsetCommits, decode_offset_commits
from partage.wire.group_log import RECORD_TYPES, DecodedRecord, decode_key, decode_record

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.replay.capture import Capture
    from partage.jobs.replay.engines import LazyRows, ReplayEngine

__all__ = [
    "OUT_COLUMNS",
    "CommitsTable",
    "CommitsWriter",
    "DecodedKind",
    "decode_job",
    "retry_open_commits",
    "worth_compiling",
]

#: Value version from which on offset commits carry the topic's id.
_WITH_TOPIC_ID = 4
_Longs = NDArray[np.int64]
_CLASSIC = 2
#: Bytes of values in a block, unless it is of one record: what is decoded fits into a cache.
_BLOCK_BYTES = 1 << 19
#: A record type and the name of a group; or why a key says neither.
_Named = tuple[int, str] | WireFormatError


def decode_job(
    engine: ReplayEngine,
    capture: Capture,
    selection: Selection = EVERYTHING,
    *,
    commits_table: CommitsTable | None = None,
    sort: bool = False,
) -> LazyRows:
    """Decode every record of ``__consumer_offsets`` in a capture; return the results as lazy rows.

    The rows are group records, commit runs (offset commits of one partition within a minute and
    between two group records), damaged records and record counts.

    Args:
        engine: schedules the job.
        capture: the input.
        selection: groups and times; other records are counted, but give no rows.
        commits_table: where to write table ``commits``; None if the table is not wanted.
        sort: whether to sort records by log position first, because the files have another order.
    """
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in OUT_COLUMNS.items())
    count, rows = len(capture.slices), sum(one.rows for one in capture.slices)
    many = capture.records is None or worth_compiling(rows, engine.cores)
    batches = tuple(capture.batches or ())
    job = _DecodeTask(batches, selection, commits_table, many, sort, capture.known)
    if capture.table is not None or sort:
        found = sorted_records(engine, capture) if sort else record_rows(engine, capture)
        return found.apply_job(partial(_decode_table_batches, job), ddl)
    tasks = count_tasks(capture.slices, engine.cores)
    return engine.run_job(partial(_decode_slices, capture.slices, job), count, tasks, ddl)


#: Records of a worker from which on the compiled kernel is sooner done than NumPy.
_COMPILED_FROM = 1_000_000


def worth_compiling(records: int, parallelism: int) -> bool:
    """Return whether compiled (Numba) functions would save time for this number of records.

    Loading takes about a second in each of the ``parallelism`` workers that share the records.
    """
    return records // max(1, parallelism) >= _COMPILED_FROM


@dataclass(frozen=True)
class _DecodeTask:
    """Settings that all tasks of the job that decodes records have in common.

    Attributes:
        batches: transactional rows of ``batches.parquet``.
        selection: groups and times to decode.
        raw: where to write table ``commits``; None if it is not written.
        many: whether there are enough records to load the compiled kernels.
        sort: whether the records come sorted by log position.
        known: see `Capture.known`; if not None, results include open commits and file digests.
        gaps: whether records may be missing between those of the task.
    """

    batches: tuple[Any, ...]
    selection: Selection
    raw: CommitsTable | None
    many: bool
    sort: bool = False
    known: Mapping[int, int] | None = None
    gaps: bool = False


def _decode_slices(
    slices: tuple[Slice, ...], job: _DecodeTask, slice_numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read and decode a task's row ranges (slices) of a capture's files; yield result rows."""
    mine = (slices[n] for batch in slice_numbers for n in batch.column(0).to_pylist())
    if job.known is None:
        tables = (table for one in mine for table in read_slice(one, coded=job.many))
        yield from _decode_tables(tables, job)
        return
    digests = InputDigests(job.known)
    fresh = (
        digests.add_and_select_unread(one.path, table)
        for one in mine
        for table in read_slice(one, coded=job.many)
    )
    yield from _decode_tables((table for table in fresh if table.num_rows), job)
    yield batch_of_rows([{"kind": DecodedKind.INPUT_DIGESTS, "text": digests.to_json()}])


def _decode_table_batches(
    job: _DecodeTask, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Decode log records that Spark or an earlier job has read, and yield result rows."""
    import pyarrow as pa

    tables = (
        cast_record_columns(pa.Table.from_batches([batch])) for batch in batches if batch.num_rows
    )
    if not job.sort:
        yield from _decode_tables(tables, job)
        return
    tally, repeats = RecordTally(), RepeatedOffsets()
    yield from _decode_tables(repeats.count_while_yielding(tables), job)
    tally.repeated = repeats.found
    yield batch_of_rows([{"kind": DecodedKind.TALLY, "text": tally.to_json()}])


def _decode_tables(tables: Iterable[pa.Table], job: _DecodeTask) -> Iterator[pa.RecordBatch]:
    if job.many:
        load_kernels()
    transactions = Transactions(job.batches)
    with ExitStack() as opened:
        writer = None if job.raw is None else opened.enter_context(closing(job.raw.create_writer()))
        for table in tables:
            yield from decode_table(
                table, transactions, job.selection, writer,
                keep_open=job.known is not None, gaps=job.gaps,
            )  # fmt: skip
        if writer is not None:
            rows = [
                {"kind": DecodedKind.RECEIPT, "text": text} for text in writer.close_with_receipts()
            ]
            yield batch_of_rows(rows)


def decode_table(
    table: pa.Table,
    transactions: Transactions,
    selection: Selection = EVERYTHING,
    commits_writer: CommitsWriter | None = None,
    *,
    keep_open: bool = False,
    gaps: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Decode a table of ``__consumer_offsets`` records, and yield result rows in log order.

    Args:
        table: the records: partition, offset, timestamp_ms, key and value.
        transactions: transactions of the whole log.
        selection: groups and times to return.
        commits_writer: writer of table ``commits``; None if the table is not written.
        keep_open: whether to yield the commits of open transactions too, undecoded.
        gaps: whether records between these may be missing, such as those of another task.
    """
    tally = RecordTally()
    tally.rows = table.num_rows
    good, lost = log_columns(table)
    rows = [bad_row(row, "row", why, None) for row, why in lost]
    tally.bad = len(rows)
    effects = _find_record_outcomes(good, transactions, tally)
    found = decode_offset_commits(good.key, good.value)
    others = group_records(good, found, tally, selection)
    rows += others.bad
    if keep_open:
        rows += _open_commits(good, found, effects)
    tally.count_commit_types(found.key_version, found.value_version)
    tally.count_outcomes(effects.outcome[found.row])
    tally.topic_ids = _infer_topic_ids(found)
    commits, number = _select_effective_commits(good, found, effects, others, selection, gaps=gaps)
    commits = _split_at_clock_jumps(commits, tally)
    if commits_writer is not None:
        commits_writer.write_commits(found, number, commits)
    if len(others.rows):
        yield batch_of_records(good, others)
    made = reduce_to_runs(commits)
    if len(made.pair):
        tally.highest = _find_highest_partitions(made, found.pairs)
        yield batch_of_runs(made, found.pairs)
    rows.append({"kind": DecodedKind.TALLY, "text": tally.to_json()})
    yield batch_of_rows(rows)


def _open_commits(
    columns: LogColumns, commits: OffsetCommits, effects: RecordOutcomes
) -> list[dict[str, Any]]:
    """Return the offset commits whose transactions have not ended yet, as undecoded rows.

    A later run decodes them again. ``columns`` are the undecoded records, ``commits`` the commits
    among them. ``effects`` says which transactions are open.
    """
    is_open = effects.outcome[commits.row] == TransactionOutcome.OPEN
    return [
        {"kind": DecodedKind.OPEN_COMMIT, "log_partition": raw.partition, "log_offset": raw.offset,
         "timestamp_ms": raw.timestamp_ms, "key": raw.key, "value": raw.value}
        for raw in map(columns.raw_record, commits.row[is_open].tolist())
    ]  # fmt: skip


def retry_open_commits(
    engine: ReplayEngine,
    capture: Capture,
    commits: pa.Table,
    selection: Selection,
    *,
    commits_table: CommitsTable | None = None,
) -> LazyRows:
    """Decode offset commits again whose transactions were still open in an earlier run.

    Record counts in the result include only what has changed since that run. ``commits`` are the
    undecoded commits; the other arguments are those of `decode_job`.
    """
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in OUT_COLUMNS.items())
    job = _DecodeTask(
        tuple(capture.batches or ()), selection, commits_table, many=False, known={}, gaps=True
    )
    return engine.run_job(partial(_retry_task, commits, job), 1, 1, ddl)


def _retry_task(
    commits: pa.Table, job: _DecodeTask, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import compute as pc

    for _ in numbers:
        for batch in _decode_tables([cast_record_columns(commits)], job):
            is_tally = pc.equal(batch.column("kind"), pa.scalar(int(DecodedKind.TALLY), pa.int32()))
            yield batch.filter(pc.invert(is_tally))
            for text in batch.filter(is_tally).column("text").to_pylist():
                found, change = RecordTally.of_json(text), RecordTally()
                change.highest, change.topic_ids = found.highest, found.topic_ids
                change.commits = found.commits
                change.commits[TransactionOutcome.OPEN.name.lower()] -= commits.num_rows
                yield batch_of_rows([{"kind": DecodedKind.TALLY, "text": change.to_json()}])


def _infer_topic_ids(commits: OffsetCommits) -> dict[str, str]:
    """Return a dict from topic id to topic name, inferred from offset commits that have both.

    Target assignments of consumer groups have only topic ids.
    """
    # Target assignments of consumer groups contain only topic ids. If no metadata was recorded, the
    # names of these topics occur only in commits.
    number: dict[str, int] = {}
    topic_of = np.array([number.setdefault(t, len(number)) for _, t in commits.pairs], np.int64)
    named = np.flatnonzero((commits.value_version >= _WITH_TOPIC_ID) & (commits.topic_id >= 0))
    if not len(named):
        return {}
    topic = topic_of[commits.pair[named]]
    ends = np.full((2, len(number)), -1)
    ends[0, topic[::-1]] = named[::-1]  # of what is written twice, the last one stays
    ends[1, topic] = named
    some = np.concatenate([one[one >= 0] for one in ends])
    names = list(number)
    return {commits.topic_ids[commits.topic_id[i]]: names[topic_of[commits.pair[i]]] for i in some}


def _find_highest_partitions(runs: Runs, pairs: list[tuple[str, str]]) -> dict[str, int]:
    """Return the highest partition number of each topic in offset commits, as a dict."""
    real = (runs.commits > 0) & (runs.partition >= 0) & (runs.partition < MOST_PARTITIONS)
    highest = np.full(len(pairs), -1, np.int64)
    np.maximum.at(highest, runs.pair[real], runs.partition[real])
    out: dict[str, int] = {}
    for (_, topic), number in zip(pairs, highest.tolist(), strict=True):
        if number >= 0:
            out[topic] = max(out.get(topic, -1), number)
    return out


def _find_record_outcomes(
    log_columns: LogColumns, transactions: Transactions, tally: RecordTally
) -> RecordOutcomes:
    """Find when each log record takes effect: at once, when its transaction is committed, or never.

    A transactional commit takes effect at the position and time of its commit marker. Ranges of
    offsets and times are added to ``tally``.
    """
    count = len(log_columns.partition)
    made = RecordOutcomes(
        np.empty(count, np.int8), np.empty(count, np.int64), np.empty(count, np.int64)
    )
    partition = log_columns.partition
    changes = (np.flatnonzero(partition[1:] != partition[:-1]) + 1).tolist()
    for first, end in pairwise([0, *changes, count] if count else []):
        p, mine = int(partition[first]), slice(first, end)
        offset, time_ms = log_columns.offset[mine], log_columns.timestamp_ms[mine]
        tally.ranges[p] = [[int(offset[0]), int(offset[-1]), end - first]]
        tally.count_times(time_ms)
        tally.strands[p] = find_strands(offset, time_ms)
        found = transactions.find_outcomes(p, offset, time_ms)
        made.outcome[mine], made.offset[mine], made.time_ms[mine] = (
            found.outcome, found.offset, found.time_ms,
        )  # fmt: skip
    return made


def _select_effective_commits(
    log_columns: LogColumns,
    decoded: OffsetCommits,
    effects: RecordOutcomes,
    records: BlockRows,
    selection: Selection,
    *,
    gaps: bool,
) -> tuple[Commits, NDArray[np.int64]]:
    """Return the selected offset commits that took effect, and their indices in ``decoded``.

    Commits of aborted or open transactions are left out. ``effects`` says when each record takes
    effect. ``records`` are the group records, which separate runs of commits.
    """
    # Commits between the same two records of their group get the same stretch number, by which they
    # are merged later (`history.commits.number_stretches`).
    at = _slice_if_all(decoded.row, len(log_columns.partition))
    outcome = effects.outcome[at]
    counts = (outcome == TransactionOutcome.PLAIN) | (outcome == TransactionOutcome.COMMITTED)
    wanted = selection.commit_mask(decoded.pairs, decoded.pair, effects.time_ms[at])
    number = np.flatnonzero(counts if wanted is None else counts & wanted)
    kept = _slice_if_all(number, len(decoded))
    row = at if isinstance(kept, slice) else decoded.row[kept]
    log_partition, log_offset = log_columns.partition[row], effects.offset[row]
    if not is_sorted(log_partition, log_offset):
        order = np.lexsort((log_offset, log_partition))
        kept = number = number[order]
        row = decoded.row[kept]
        log_partition, log_offset = log_partition[order], log_offset[order]
    pair = decoded.pair[kept]
    places = (pair, log_partition, log_offset)
    stretch = _number_stretches(decoded.pairs, places, log_columns, records, gaps=gaps)
    return Commits(
        pair, decoded.partition[kept], log_partition, log_offset,
        effects.time_ms[row], decoded.offset[kept], decoded.value_version[kept] != TOMBSTONE,
        outcome[kept] == TransactionOutcome.COMMITTED, stretch, decoded.series[kept],
    ), number  # fmt: skip


def _split_at_clock_jumps(commits: Commits, tally: RecordTally) -> Commits:
    """Give offset commits different stretch numbers before and after a jump of a broker's clock.

    Later, only commits with the same stretch number are merged. ``tally`` has the jumps.
    """
    # Commits with one stretch number and minute are later merged into a commit run, which must not
    # mix times of a wrong broker clock with correct ones. So they get different stretch numbers.
    starts = {p: [one.offset for one in found] for p, found in tally.strands.items()}
    number = np.zeros(len(commits.pair), np.int64)
    for partition, offsets in starts.items():
        if len(offsets) > 1:
            mine = commits.log_partition == partition
            number[mine] = np.searchsorted(offsets, commits.log_offset[mine], side="right")
    if not number.any():
        return commits
    before = 0 if commits.stretch is None else commits.stretch * (int(number.max()) + 1)
    return replace(commits, stretch=before + number)


def _slice_if_all(rows: NDArray[np.int64], count: int) -> NDArray[np.int64] | slice:
    """Convert row indices to a slice, which avoids a copy, if they select all ``count`` rows."""
    return slice(None) if len(rows) == count else rows


def _number_stretches(
    pairs: list[tuple[str, str]],
    commits: tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]],
    log_columns: LogColumns,
    records: BlockRows,
    *,
    gaps: bool,
) -> NDArray[np.int64] | None:
    """Number the offset commits of a group by the group records between which they are in the log.

    Return each commit's number (int64[n]); None if all are equal. ``commits`` has each commit's
    index into ``pairs``, log partition and offset. ``records`` are the group records.
    """
    # A transactional commit may take effect at a marker beyond this task's rows, with unknown group
    # records before it. So the commits of each such marker get a separate number.
    pair, partition, offset = commits
    if not len(pair):
        return None
    later = _number_later_markers(partition, offset, log_columns, gaps=gaps)
    if not len(records.rows):
        return later
    number: dict[str, int] = {}
    group_of = np.array([number.setdefault(g, len(number)) for g, _ in pairs], np.int64)
    mine = np.array([number.setdefault(g, len(number)) for g in records.groups], np.int64)
    at = log_columns.partition[records.rows], log_columns.offset[records.rows]
    found = number_stretches(
        RecordPositions(group_of[pair], partition, offset), RecordPositions(mine, *at)
    )
    if later is None:
        return found
    return np.where(later > 0, int(found.max()) + later, found)


def _number_later_markers(
    partition: NDArray[np.int64],
    offset: NDArray[np.int64],
    log_columns: LogColumns,
    *,
    gaps: bool,
) -> NDArray[np.int64] | None:
    """Number the transaction markers after this task's records that make offset commits effective.

    Return each commit's marker number (int64[n]), 0 for other commits; None without such a marker.
    ``partition`` and ``offset`` are the positions at which commits take effect.
    """
    # With ``gaps``, records may be missing anywhere, so all commits are numbered by the position at
    # which they take effect.
    ends = np.append(np.flatnonzero(log_columns.partition[1:] != log_columns.partition[:-1]),
                     len(log_columns.partition) - 1)  # fmt: skip
    last = log_columns.offset[ends][np.searchsorted(log_columns.partition[ends], partition)]
    behind = np.flatnonzero((offset > last) | gaps)
    if not len(behind):
        return None
    out = np.zeros(len(offset), np.int64)
    places = np.stack([partition[behind], offset[behind]])
    out[behind] = np.unique(places, axis=1, return_inverse=True)[1].ravel() + 1
    return out


# -- records of groups -------------------------------------------------------------------------


def group_records(
    log_columns: LogColumns, commits: OffsetCommits, tally: RecordTally, selection: Selection
) -> BlockRows:
    """Decode the group records (not offset commits) of one task, and pack them by consumer group.

    The numbers of records are added to ``tally``. Damaged records are listed, also damaged
    ``commits``.
    """
    decoder = _GroupRecordDecoder(log_columns, tally)
    damaged = dict(commits.errors)
    rows, groups, numbers, blocks = [], [], [], []
    unselected = {group for group, _ in commits.pairs if not selection.includes_group(group)}
    for group, block in decoder.split_by_group(commits.others, damaged):
        decoded = decoder.decode_values(block, damaged)
        if not selection.includes_group(group):
            unselected.add(group)
            continue
        good = np.array([row for row in block.tolist() if row not in damaged], np.int64)
        chosen = good[
            [not selection.is_after_end(t) for t in log_columns.timestamp_ms[good].tolist()]
        ]
        if len(chosen):
            rows.append(chosen)
            groups += [group] * len(chosen)
            numbers.append(np.arange(len(chosen)))
            blocks += [pack_block(chosen, *decoded), *[None] * (len(chosen) - 1)]
    bad = []
    for row, error in sorted(damaged.items()):
        named = decoder.parse_key(row)
        part, name = ("key", None) if isinstance(named, WireFormatError) else ("value", named[1])
        bad.append(bad_row(log_columns.raw_record(row), part, str(error), name))
    tally.bad += len(damaged)
    tally.store_unselected_groups(sorted(unselected))
    none = [np.zeros(0, np.int64)]
    return BlockRows(np.concatenate(none + rows), groups, np.concatenate(none + numbers), blocks,
                     bad)  # fmt: skip


def bad_row(record: RawRecord, damaged_part: str, reason: str, group: str | None) -> dict[str, Any]:
    """Return the result row for a log record that cannot be decoded, with the reason as text.

    ``damaged_part`` is "key" or "value". ``group`` is the group's id if the key is readable.
    """
    return {
        "kind": DecodedKind.BAD_RECORD, "group": group, "part": damaged_part, "text": reason,
        "log_partition": record.partition, "log_offset": record.offset,
        "timestamp_ms": record.timestamp_ms, "key": record.key, "value": record.value,
    }  # fmt: skip


class _GroupRecordDecoder:
    """Decoder of the group records (not offset commits) that one task reads.

    A key that occurs several times is decoded once.
    """

    def __init__(self, log_columns: LogColumns, tally: RecordTally) -> None:
        self._columns, self._tally = log_columns, tally
        self._known: dict[bytes | None, _Named] = {}
        self._by_column = False

    def parse_key(self, row: int) -> _Named:
        """Decode a record's key; return its type and group, or the error if it is damaged."""
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
        named = self.parse_key(row)
        return not isinstance(named, WireFormatError) and named[0] == _CLASSIC

    def split_by_group(
        self, rows: _Longs, damaged: dict[int, WireFormatError]
    ) -> Iterator[tuple[str, _Longs]]:
        """Divide record indices by consumer group and log partition; yield (group, indices) pairs.

        Indices of records with a damaged key are added to ``damaged``. Large groups come in several
        parts.
        """
        by_group: dict[str, list[int]] = {}
        classic = 0
        for row in rows.tolist():
            named = self.parse_key(row)
            if isinstance(named, WireFormatError):
                damaged[row] = named
            else:
                by_group.setdefault(named[1], []).append(row)
                classic += named[0] == _CLASSIC
        self._by_column = classic > 0 and are_kernels_faster(rows=classic)
        first, end = self._columns.value.byte_bounds(np.arange(len(self._columns.value)))
        for group, some in by_group.items():
            chosen = np.array(some, np.int64)
            partition = self._columns.partition[chosen]
            size = np.cumsum((end - first)[chosen]) // _BLOCK_BYTES
            new = (partition[1:] != partition[:-1]) | (size[1:] != size[:-1])
            for block in np.split(chosen, np.flatnonzero(new) + 1):
                yield group, block

    def decode_values(
        self, rows: _Longs, damaged: dict[int, WireFormatError]
    ) -> tuple[list[ClassicColumns], dict[int, DecodedRecord]]:
        """Decode the values of the group records with the given indices (``rows``).

        Return records of classic groups as columns, and all other records in a dict by index.
        Errors are added to ``damaged``, by index.
        """
        columns: list[ClassicColumns] = []
        others = rows.tolist()
        if self._by_column:
            there = self._columns.value.is_valid()
            classic = [r for r in others if there[r] and self._is_classic(r)]
            columns = list(classic_columns(self._columns.value, np.array(classic, np.int64)))
            plain: set[int] = set()
            for found in columns:
                plain.update(found.column_of_field("row").tolist())
                versions, counts = np.unique(found.column_of_field("version"), return_counts=True)
                for version, count in zip(versions.tolist(), counts.tolist(), strict=True):
                    self._tally.count_type(_CLASSIC, RECORD_TYPES[_CLASSIC], version, count)
            others = [row for row in others if row not in plain]
        decoded: dict[int, DecodedRecord] = {}
        for row in others:
            try:
                record = decode_record(self._columns.key[row], self._columns.value[row])
            except WireFormatError as error:
                damaged[row] = error
            else:
                decoded[row] = record
                self._tally.count_type(record.key_version, record.type, record.value_version)
        return columns, decoded


# -- table ``commits`` -------------------------------------------------------------------------


@dataclass(frozen=True)
class CommitsTable:
    """Settings of the optional output table ``commits``, which lists effective offset commits."""

    out: str
    run_id: str

    def create_writer(self) -> CommitsWriter:
        """Create the writer of this Spark task's file of the output table ``commits``."""
        return CommitsWriter(TableWriters(self.out, self.run_id, task_name()))


class CommitsWriter:
    """Writer of a task's rows of output table ``commits``: the offset commits that took effect."""

    def __init__(self, writers: TableWriters) -> None:
        self._writers = writers

    def close(self) -> None:
        """Close the Parquet files of the output table ``commits``."""
        self._writers.close()

    def write_commits(
        self, decoded: OffsetCommits, indices: NDArray[np.int64], commits: Commits
    ) -> None:
        """Write offset commits that took effect to the output table ``commits``.

        ``indices`` are the positions of these commits among all ``decoded`` commits.
        """
        import pyarrow as pa

        if not len(indices):
            return
        names = [pa.array([pair[i] for pair in decoded.pairs], pa.string()) for i in (0, 1)]
        pair, gone = pa.array(commits.pair), ~commits.real
        code = decoded.topic_id[indices]
        ids = pa.array(decoded.topic_ids, pa.string())
        columns = {
            "run_id": pa.repeat(pa.scalar(self._writers.run_id), len(indices)),
            "group": names[0].take(pair), "topic": names[1].take(pair),
            "partition": pa.array(commits.partition),
            "log_partition": pa.array(commits.log_partition.astype(np.int32)),
            "log_offset": pa.array(commits.log_offset), "time_ms": pa.array(commits.time_ms),
            "offset": pa.array(commits.offset, mask=gone),
            "leader_epoch": _negative_to_null(decoded.leader_epoch[indices]),
            "commit_ms": _negative_to_null(decoded.commit_timestamp[indices]),
            "topic_id": ids.take(pa.array(np.maximum(code, 0), mask=code < 0)),
            "transactional": pa.array(commits.transactional),
        }  # fmt: skip
        wanted = table_schema("commits")
        table = pa.Table.from_arrays([columns[n] for n in wanted.names], schema=wanted)
        self._writers.add_table("commits", table)

    def close_with_receipts(self) -> list[str]:
        """Close the files of table ``commits``, and return path, rows and size of each as JSON."""
        return [json.dumps(asdict(r)) for r in self._writers.close_with_receipts()]


def _negative_to_null(numbers: NDArray[np.signedinteger[Any]]) -> Any:
    """Convert integers to an Arrow array in which negative ones, such as -1, are null."""
    import pyarrow as pa

    return pa.array(numbers, mask=numbers < 0)
