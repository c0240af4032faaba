"""Read the group log of a growing capture: decode the records between two positions.

A position is the next offset of each log partition and the size of ``cluster.jsonl``. Positions do
not depend on files, because `partage capture` merges small files. Reading from one position to
another always gives the same rows, so that a stream can repeat a micro-batch after a crash:

* A record takes effect at its own offset. A transactional commit takes effect at its marker, and is
  read again when the marker is there.
* Metadata is read up to the size in the position. The causes of a rebalance need metadata of
  `SETTLE_MS` after it, so a file is used when it has that age.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.capture.manifest import METADATA, CaptureManifest
from partage.errors import InvalidCaptureError
from partage.history.clusters import CoordinatorMove, find_moves
from partage.history.transactions import Transactions
from partage.jobs.replay.capture import files_of
from partage.jobs.replay.decode import decode_table
from partage.jobs.replay.decoded_rows import OUT_COLUMNS, DecodedKind
from partage.jobs.replay.records import Slice, cut_slices, open_parquet, read_slice
from partage.jobs.spark.shipping import load_kernels
from partage.jobs.watch.group_tables import serialize_moves

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "SETTLE_MS",
    "STREAM_COLUMNS",
    "CaptureLog",
    "LogPiece",
    "Position",
    "decoded_rows",
    "read_piece",
    "whole_lines",
]

#: Age of a file at which it is read: causes need metadata of the time after a rebalance.
SETTLE_MS = 1_500
#: Columns of decoded rows in a stream: the decode job's, the size of ``cluster.jsonl`` that counts
#: for them, and the coordinator moves of their log partition as text.
STREAM_COLUMNS = {**OUT_COLUMNS, "metadata_bytes": "bigint", "moves": "string"}
_WANTED = (DecodedKind.GROUP_RECORD, DecodedKind.COMMIT_RUNS, DecodedKind.BAD_RECORD)
#: Key versions of offset commits, the first two bytes of a key.
_COMMIT_KEYS = (b"\0\0", b"\0\1")
_RECORDS, _BATCHES = "consumer_offsets.parquet", "batches.parquet"
_Ints = NDArray[np.int64]


class Position(NamedTuple):
    """Read position of `partage watch` in a growing capture of ``__consumer_offsets``.

    Spark stores it after each micro-batch and continues there after a restart. A log partition is a
    partition of ``__consumer_offsets``.

    Attributes:
        offsets: dict from log partition to the next offset to read; 0 if it has no entry.
        metadata_bytes: number of bytes of ``cluster.jsonl`` (cluster metadata) read so far.
    """

    offsets: Mapping[int, int]
    metadata_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the read position as a dict that JSON can represent.

        Spark stores it in the checkpoint of the stream.
        """
        offsets = {str(p): at for p, at in sorted(self.offsets.items())}
        return {"offsets": offsets, "metadata_bytes": self.metadata_bytes}

    @classmethod
    def of_json(cls, json_position: Mapping[str, Any]) -> Position:
        """Restore a read position from the dict that `to_json` returned.

        >>> position = Position({3: 7}, 90)
        >>> Position.of_json(position.to_json()) == position
        True
        """
        offsets = {int(p): int(at) for p, at in json_position["offsets"].items()}
        return cls(offsets, int(json_position["metadata_bytes"]))


class LogPiece(NamedTuple):
    """Input of one Spark task in a micro-batch: a row range of a file, and the offsets to read from
    it.

    Attributes:
        slice: row range of a file.
        start, end: first offset and offset after the last one, by log partition.
        batches: transactional batches and markers that decide whether commits take effect.
        late: (log partition, first offset, last offset) of earlier batches whose commit marker is
            in the micro-batch; None for a piece with the records from ``start`` on.
        moves: dict from log partition to its coordinator moves before ``end``, serialized by
            `serialize_moves`.
        metadata_bytes: size of the part of ``cluster.jsonl`` that is used for these rows.
    """

    slice: Slice
    start: Mapping[int, int]
    end: Mapping[int, int]
    batches: tuple[Mapping[str, Any], ...]
    late: tuple[tuple[int, int, int], ...] | None
    moves: Mapping[int, str]
    metadata_bytes: int


def read_piece(piece: LogPiece) -> Iterator[pa.RecordBatch]:
    """Read and decode a piece of the captured log in a Spark task, and yield Arrow batches.

    The columns are those of `STREAM_COLUMNS`. Only records with the offsets that belong to the
    micro-batch are decoded.

    Raises:
        InvalidCaptureError: the file cannot be read.
    """
    load_kernels()  # a worker of a stream lives long enough for them to pay
    transactions = Transactions(piece.batches)
    for table in read_slice(piece.slice, coded=True):
        partition, offset = table["partition"], table["offset"]
        where = partition.fill_null(-1).to_numpy(), offset.fill_null(-1).to_numpy()
        if piece.late is None:
            wanted = (where[1] >= _look_up_offsets(piece.start, where[0])) & (
                where[1] < _look_up_offsets(piece.end, where[0])
            )
        else:
            wanted = _is_in(piece.late, *where)
        if wanted.any():
            rows = _filter_records(table, wanted, only_commits=piece.late is not None)
            yield from decoded_rows(rows, transactions, piece.metadata_bytes, piece.moves)


def decoded_rows(
    records: pa.Table,
    transactions: Transactions,
    metadata_bytes: int,
    moves: Mapping[int, str] | None = None,
    *,
    counts: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Decode records of ``__consumer_offsets``, and yield the results as Arrow batches.

    A row is a group record, a run of offset commits, or a damaged record. The columns are those of
    `STREAM_COLUMNS`.

    Args:
        records: table of partition, offset, timestamp_ms, key and value, in any order.
        transactions: the transactions that decide which offset commits take effect.
        metadata_bytes: size of the part of ``cluster.jsonl`` that is used for the rows.
        moves: dict from log partition to its coordinator moves as text.
        counts: whether to yield the counts of records too, for a replay of the stream.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    wanted = (*_WANTED, *([DecodedKind.TALLY] if counts else []))
    kinds = pa.array([int(kind) for kind in wanted], pa.int32())
    for batch in decode_table(records, transactions):
        found = batch.filter(pc.is_in(batch.column("kind"), kinds))
        if not found.num_rows:
            continue
        known = moves or {}
        texts = [known.get(p) for p in found.column("log_partition").to_pylist()]
        size = pa.repeat(pa.scalar(metadata_bytes, pa.int64()), found.num_rows)
        columns = [*found.columns, size, pa.array(texts, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, names=list(STREAM_COLUMNS))


def _look_up_offsets(offsets: Mapping[int, int], partition: _Ints) -> _Ints:
    """Look up an offset for each record by its log partition (int64[n]).

    The result is 0 for a log partition without an entry.

    Args:
        offsets: dict from log partition to offset.
        partition: log partition of each record (int64[n]).
    """
    highest = max([*offsets, int(partition.max(initial=0))], default=0)
    by_number = np.zeros(highest + 2, np.int64)  # the last one is for partition -1: no partition
    for number, at in offsets.items():
        by_number[number] = at
    return by_number[partition]


def _is_in(ranges: Sequence[tuple[int, int, int]], partition: _Ints, offset: _Ints) -> Any:
    found = np.zeros(len(offset), bool)
    for number, first, last in ranges:
        found |= (partition == number) & (offset >= first) & (offset <= last)
    return found


def _filter_records(table: pa.Table, mask: NDArray[np.bool_], *, only_commits: bool) -> pa.Table:
    """Return the records of a table that a mask selects, for example those of a micro-batch.

    Args:
        table: records of ``__consumer_offsets``.
        mask: whether to return each record (bool[n]).
        only_commits: whether to return only the offset commits among them.
    """
    # This is for transactions that end in this micro-batch: commits take effect at their marker,
    # but group records have taken effect before.
    import pyarrow as pa

    rows = table.filter(pa.array(mask))
    if not only_commits:
        return rows
    keys = rows["key"].to_pylist()
    return rows.filter(pa.array([key is not None and key[:2] in _COMMIT_KEYS for key in keys]))


#: A dict from log partition to the first and last offset of it.
_Ranges = Mapping[int, tuple[int, int]]


class _File(NamedTuple):
    """Parquet file of captured log records, with the offset ranges of each of its row groups.

    The ranges decide which row groups a micro-batch reads.
    """

    path: Path
    row_groups: Sequence[_Ranges]


@dataclass
class CaptureLog:
    """Index of the files in a growing capture: their offsets, transactions and leader epochs.

    Spark's driver uses it to decide which records each micro-batch reads. Of new files, only the
    columns with partitions and offsets are read.

    Attributes:
        folder: the capture's folder.
    """

    folder: Path
    _files: dict[str, _File] = field(default_factory=dict)
    _listed: list[_File] = field(default_factory=list)
    _transactional: dict[int, dict[int, Mapping[str, Any]]] = field(default_factory=dict)
    _read_batches: set[str] = field(default_factory=set)
    _moves: dict[int, list[CoordinatorMove]] = field(default_factory=dict)
    _newest: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_listed(self) -> bool:
        """Return whether the capture's folder had any files when it was last listed.

        If not, a restarted driver lists the files again.
        """
        return bool(self._listed)

    def list_new_files(self) -> None:
        """List the files of the capture, and read the offset ranges of each new file.

        Files that were written less than `SETTLE_MS` ago are left for the next call.

        Raises:
            InvalidCaptureError: a file cannot be read.
        """
        self._listed = []
        for path in files_of(self.folder / _RECORDS):
            if not _is_settled(path):
                break  # later files have later records
            key = _file_version(path)
            if key not in self._files:
                self._files[key] = _file(path)
            self._listed.append(self._files[key])
        self._files = {_file_version(one.path): one for one in self._listed if one.path.exists()}
        if (self.folder / _BATCHES).exists():
            for path in files_of(self.folder / _BATCHES):
                if _file_version(path) not in self._read_batches:
                    self._read_batches.add(_file_version(path))
                    self._add_batches(path)

    def batch_end(self, start: Position, most_rows: int | None = None) -> Position:
        """Return the position in the log at which the next micro-batch ends.

        The micro-batch has about ``most_rows`` records, and each log partition advances by the same
        share of its unread records. If ``most_rows`` is None, it reaches the end of the log. If
        there are no new records, the result is ``start``.

        Raises:
            InvalidCaptureError: records after ``start`` were removed from the log.
        """
        self._expect_not_cut(start)
        waiting: dict[int, list[_Ints]] = {}
        count = 0
        for path, number, ranges in self._row_groups():
            if most_rows is not None and count >= most_rows:
                break
            if all(last < start.offsets.get(p, 0) for p, (_, last) in ranges.items()):
                continue
            for p, found in _read_offsets(path, number).items():
                new = found[found >= start.offsets.get(p, 0)]
                if len(new):
                    waiting.setdefault(p, []).append(new)
                    count += len(new)
        if not count:
            return start
        share = 1.0 if most_rows is None else min(1.0, most_rows / count)
        offsets = dict(start.offsets)
        for p, some in waiting.items():
            ordered = np.sort(np.concatenate(some))
            offsets[p] = int(ordered[max(1, int(len(ordered) * share)) - 1]) + 1
        return Position(offsets, whole_lines(self.folder / METADATA))

    def divide_records(self, start: Position, end: Position) -> list[LogPiece]:
        """Divide the log records between two positions into pieces, one for each Spark task.

        Further pieces have earlier offset commits in transactions that were committed between
        ``start`` and ``end``, because they take effect only now.
        """
        late, batches = self._find_deciding_batches(start, end)
        moves = {p: serialize_moves([m for m in some if m.position.offset < end.offsets.get(p, 0)])
                 for p, some in self._moves.items()}  # fmt: skip
        moves = {p: text for p, text in moves.items() if text}
        common = start.offsets, end.offsets, batches

        def cut(
            some: set[tuple[Path, int]], of: tuple[tuple[int, int, int], ...] | None
        ) -> list[LogPiece]:
            wanted = {path for path, _ in some}
            paths = [one.path for one in self._listed if one.path in wanted]
            slices = cut_slices(paths) if paths else ()
            return [LogPiece(one, *common, of, moves, end.metadata_bytes) for one in slices
                    if (Path(one.path), one.row_group) in some]  # fmt: skip

        new = {(path, number) for path, number, ranges in self._row_groups()
               if _overlaps(ranges, start, end)}  # fmt: skip
        old = {(path, number) for path, number, ranges in (self._row_groups() if late else ())
               if any(p in ranges and ranges[p][0] <= last and first <= ranges[p][1]
                      for p, first, last in late)}  # fmt: skip
        return cut(new, None) + (cut(old, late) if late else [])

    def _row_groups(self) -> Iterator[tuple[Path, int, _Ranges]]:
        """Yield each row group of the capture's files: its path, number, and offset ranges.

        The offset ranges are a dict by log partition.
        """
        for one in self._listed:
            for number, ranges in enumerate(one.row_groups):
                yield one.path, number, ranges

    def forget_transactions(self, before_position: Position) -> None:
        """Remove transactions that ended before a log position from the index, to free memory.

        It is called when Spark has processed the log up to ``before_position``, because Spark does
        not read that part again.
        """
        for p, rows in self._transactional.items():
            at = before_position.offsets.get(p, 0)
            pending = {row["producer_id"]: 0 for row in rows.values()}
            first = at
            for base in sorted(rows, reverse=True):
                row = rows[base]
                if row["control"]:
                    pending[row["producer_id"]] = base
                elif not 0 < pending[row["producer_id"]] < at:
                    first = min(first, base)
            for base in [base for base in rows if base < first]:
                del rows[base]

    def _expect_not_cut(self, start: Position) -> None:
        manifest = CaptureManifest.load_manifest(self.folder)
        for p, at in (manifest.positions if manifest is not None else {}).items():
            if at < start.offsets.get(p, 0):
                what = f"{self.folder}: partition {p} ends at offset {at}, and offsets up to "
                what += f"{start.offsets[p]} were read: the cluster has lost records"
                raise InvalidCaptureError(f"{what}; watch into a new folder")

    def _find_deciding_batches(
        self, start: Position, end: Position
    ) -> tuple[tuple[tuple[int, int, int], ...], tuple[Mapping[str, Any], ...]]:
        """Find the record batches that decide whether offset commits in a micro-batch take effect.

        An offset commit in a transaction takes effect if the transaction's marker is a commit. The
        micro-batch has the records from ``start`` to ``end``. A transaction whose marker is at or
        after ``end`` counts as open.

        Returns:
            First, earlier batches whose commit marker is in the micro-batch, as (log partition,
                first offset, last offset). Second, all batches and markers that decide.
        """
        late: list[tuple[int, int, int]] = []
        found: list[Mapping[str, Any]] = []
        for p, rows in sorted(self._transactional.items()):
            first, last = start.offsets.get(p, 0), end.offsets.get(p, 0)
            marker: dict[int, Mapping[str, Any]] = {}
            for base in sorted((b for b in rows if b < last), reverse=True):
                row = rows[base]
                if row["control"]:
                    marker[row["producer_id"]] = row
                    if base >= first:
                        found.append(row)
                    continue
                ended = marker.get(row["producer_id"])
                if row["last_offset"] >= first:
                    found.append(row)
                elif ended is not None and ended["base_offset"] >= first:
                    found.append(row)
                    if ended["control_type"] == "COMMIT":
                        late.append((p, base, row["last_offset"]))
        return tuple(sorted(late)), tuple(found)

    def _add_batches(self, path: Path) -> None:
        """Add the transactional batches and leader epochs of a new file to the index.

        ``path`` is a Parquet file of table ``batches``, which has one row for each record batch of
        the log.
        """
        from pyarrow import compute, parquet

        table = parquet.read_table(path)
        some = table.filter(compute.fill_null(table["transactional"], False))
        for row in some.to_pylist():
            self._transactional.setdefault(row["partition"], {})[row["base_offset"]] = row
        names = ("partition", "base_offset", "leader_epoch", "max_timestamp_ms")
        if any(name not in table.column_names for name in names):
            return
        columns = [table[name].fill_null(-1).to_numpy().astype(np.int64) for name in names]
        new = (
            columns[1]
            > _look_up_offsets({p: base + 1 for p, (base, _) in self._newest.items()}, columns[0])
            - 1
        )
        rows = np.stack([column[new] for column in columns])
        before = [(p, base, epoch, 0) for p, (base, epoch) in self._newest.items()]
        rows = np.concatenate([np.array(before, np.int64).reshape(-1, 4).T, rows], 1)
        for p, moves in find_moves(*rows).items():
            self._moves.setdefault(p, []).extend(moves)
        for p, base, epoch, _ in rows[:, np.lexsort((rows[1], rows[0]))].T.tolist():
            self._newest[p] = (base, epoch if epoch >= 0 else self._newest.get(p, (0, -1))[1])


def _file_version(path: Path) -> str:
    """Return a text that changes if a file is replaced or written to.

    It has the name, the size and the modification time of the file.
    """
    status = path.stat()
    return f"{path.name}:{status.st_size}:{status.st_mtime_ns}"


def _is_settled(path: Path) -> bool:
    return time.time() * 1_000 - path.stat().st_mtime * 1_000 >= SETTLE_MS


def whole_lines(path: Path) -> int:
    """Return the size of a text file up to the end of its last complete line, in bytes.

    A line that is being written by another process is not counted.
    """
    return path.read_bytes().rfind(b"\n") + 1


def _file(path: Path) -> _File:
    count = open_parquet(path, {}).metadata.num_row_groups
    return _File(path, [
        {p: (int(some.min()), int(some.max())) for p, some in _read_offsets(path, number).items()}
        for number in range(count)
    ])  # fmt: skip


def _read_offsets(path: Path, row_group: int) -> dict[int, _Ints]:
    """Read the offsets of all log records in one row group of a Parquet file.

    The result is a dict from log partition to its offsets (int64[n]).

    Raises:
        InvalidCaptureError: the file cannot be read.
    """
    import pyarrow as pa

    names = ("partition", "offset")
    file = open_parquet(path, dict.fromkeys(names, "int"))
    try:
        table = file.read_row_group(row_group, columns=list(names))
    except (pa.ArrowException, OSError) as e:
        raise InvalidCaptureError(f"{path}: cannot be read ({e}); record it again") from None
    partition, offset = (table[name].fill_null(-1).to_numpy().astype(np.int64) for name in names)
    order = np.flatnonzero((partition >= 0) & (offset >= 0))
    order = order[np.argsort(partition[order], kind="stable")]
    numbers, first = np.unique(partition[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(offset[order], first[1:]), strict=True))


def _overlaps(ranges: _Ranges, start: Position, end: Position) -> bool:
    return any(
        first < end.offsets.get(p, 0) and last >= start.offsets.get(p, 0)
        for p, (first, last) in ranges.items()
    )
