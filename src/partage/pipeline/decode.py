"""First job: every record decoded where it is read; commits leave it already reduced.

The driver hands out slices of files, workers read them with pyarrow: key and value bytes
never cross the border between JVM and Python for the 97 % of records that are commits.
What comes out is one table with a `Kind` for each row, since a task has one output only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import WireFormatError
from partage.history.commits import Commit, CommitRun, runs
from partage.history.records import Place
from partage.history.transactions import Effects, Outcome, Transactions
from partage.wire.group_log import DecodedRecord, decode_key, decode_record

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from partage.pipeline.capture import Capture, Slice

__all__ = ["OUT_COLUMNS", "Kind", "Tally", "decode_job"]

#: Key versions of offset commits: legacy and today's.
_COMMITS = (0, 1)


class Kind(IntEnum):
    """What a row of the decode job is."""

    GROUP_RECORD = 0
    COMMIT_RUN = 1
    BAD_RECORD = 2
    TALLY = 3


#: name -> Spark type. Which columns a kind uses is said in the functions that fill them.
OUT_COLUMNS: dict[str, str] = {
    "kind": "int",
    "group": "string",
    "topic": "string",
    "topic_partition": "int",
    "minute_ms": "bigint",
    "log_partition": "bigint",
    "log_offset": "bigint",
    "last_partition": "bigint",
    "last_log_offset": "bigint",
    "timestamp_ms": "bigint",
    "first_ms": "bigint",
    "last_ms": "bigint",
    "first_offset": "bigint",
    "last_offset": "bigint",
    "commits": "bigint",
    "transactional": "bigint",
    "tombstones": "bigint",
    "largest_gap_ms": "bigint",
    "part": "string",
    "text": "string",
    "key": "binary",
    "value": "binary",
}

_Row = dict[str, Any]


def decode_job(spark: SparkSession, capture: Capture) -> DataFrame:
    """The rows of all slices, one task a slice; nothing is computed yet."""
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in OUT_COLUMNS.items())
    work = partial(_task, capture.slices, tuple(capture.batches or ()))
    count = len(capture.slices)
    return spark.range(0, count, 1, count).mapInArrow(work, ddl)


def _task(
    slices: tuple[Slice, ...], batches: tuple[Any, ...], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: numbers of slices in, rows out."""
    from partage.pipeline.capture import read_slice

    transactions = Transactions(batches)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for table in read_slice(slices[number]):
                yield _as_batch(_decoded(table, transactions))


def _as_batch(rows: list[_Row]) -> pa.RecordBatch:
    import pyarrow as pa

    types = {
        "int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "binary": pa.binary(),
    }  # fmt: skip
    columns = [
        pa.array([row.get(name) for row in rows], types[kind]) for name, kind in OUT_COLUMNS.items()
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(OUT_COLUMNS))


class Tally:
    """Counts of some records, or of all: what the accounting at the end of a run adds up.

    >>> a = Tally()
    >>> a.types["GROUP_METADATA v3"] += 2
    >>> Tally.of_json(a.to_json()).decoded
    2
    """

    def __init__(self) -> None:
        self.rows = 0
        self.bad = 0
        #: "TYPE vN" or "TYPE tombstone" -> records.
        self.types: Counter[str] = Counter()
        #: Outcome name -> commit records.
        self.commits: Counter[str] = Counter()
        #: log partition -> [first offset, last offset, records] of each batch.
        self.ranges: dict[int, list[list[int]]] = {}
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    @property
    def decoded(self) -> int:
        """Records that could be decoded."""
        return sum(self.types.values())

    def to_json(self) -> str:
        """Compact JSON."""
        return json.dumps(vars(self))

    @classmethod
    def of_json(cls, text: str) -> Tally:
        """What `to_json` wrote."""
        made = cls()
        vars(made).update(json.loads(text))
        made.types, made.commits = Counter(made.types), Counter(made.commits)
        made.ranges = {int(p): r for p, r in made.ranges.items()}
        return made

    def add(self, other: Tally) -> None:
        """The counts of other records."""
        self.rows += other.rows
        self.bad += other.bad
        self.types += other.types
        self.commits += other.commits
        for p, ranges in other.ranges.items():
            self.ranges.setdefault(p, []).extend(ranges)
        self.seen(other.first_ms)
        self.seen(other.last_ms)

    def seen(self, time_ms: int | None) -> None:
        """A record's timestamp."""
        if time_ms is not None:
            self.first_ms = time_ms if self.first_ms is None else min(self.first_ms, time_ms)
            self.last_ms = time_ms if self.last_ms is None else max(self.last_ms, time_ms)


class _Raw(NamedTuple):
    """A record as read."""

    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


def _decoded(table: pa.Table, transactions: Transactions) -> list[_Row]:
    """All rows of some records, in log order whatever their order in the file."""
    tally = Tally()
    tally.rows = table.num_rows
    placed, lost = _placed(table)
    rows = [_bad_row(raw, "row", f"column {null} is null", None) for raw, null in lost]
    tally.bad = len(rows)
    commits: list[Commit] = []
    for p in np.unique(placed.partition).tolist():
        mine = np.flatnonzero(placed.partition == p)
        offset, time_ms = placed.offset[mine], placed.timestamp_ms[mine]
        tally.ranges[p] = [[int(offset[0]), int(offset[-1]), len(mine)]]
        tally.seen(int(time_ms.min()))
        tally.seen(int(time_ms.max()))
        effects = transactions.effects(p, offset, time_ms)
        places = zip(offset.tolist(), time_ms.tolist(), mine.tolist(), strict=True)
        for i, (at, when, row_ix) in enumerate(places):
            raw = _Raw(p, at, when, placed.key[row_ix], placed.value[row_ix])
            found = _one(tally, raw)
            if not isinstance(found, DecodedRecord):
                rows.append(found)
                continue
            outcome = Outcome(int(effects.outcome[i]))
            tally.commits[outcome.name.lower()] += 1
            if outcome in (Outcome.PLAIN, Outcome.COMMITTED):
                commits.append(_commit(found, outcome, p, effects, i))
    commits.sort(key=lambda c: c.place)
    rows += [_run_row(run) for run in runs(commits)]
    rows.append({"kind": Kind.TALLY, "text": tally.to_json()})
    return rows


class _Placed(NamedTuple):
    """Columns of rows that say where they stand, sorted by (partition, offset)."""

    partition: NDArray[np.int64]
    offset: NDArray[np.int64]
    timestamp_ms: NDArray[np.int64]
    key: list[bytes | None]
    value: list[bytes | None]


def _placed(table: pa.Table) -> tuple[_Placed, list[tuple[_Raw, str]]]:
    """The rows in log order; and apart, with the column that is null, those without a place."""
    import pyarrow as pa
    from pyarrow import compute

    names = ("partition", "offset", "timestamp_ms")
    whole = pa.array(np.ones(table.num_rows, bool))
    for name in names:
        whole = compute.and_(whole, compute.is_valid(table[name]).combine_chunks())
    good = table.filter(whole).sort_by([("partition", "ascending"), ("offset", "ascending")])
    lost = []
    for row in table.filter(compute.invert(whole)).to_pylist():
        null = next(name for name in names if row[name] is None)
        lost.append((_Raw(**{name: row[name] for name in _Raw._fields}), null))
    partition, offset, timestamp_ms = (good[name].to_numpy() for name in names)
    key, value = good["key"].to_pylist(), good["value"].to_pylist()
    return _Placed(partition, offset, timestamp_ms, key, value), lost


def _one(tally: Tally, raw: _Raw) -> DecodedRecord | _Row:
    """A commit as decoded; the row of a group record, or of a bad one."""
    try:
        record = decode_record(raw.key, raw.value)
    except WireFormatError as e:
        group, part = _group_if_any(raw.key)
        tally.bad += 1
        return _bad_row(raw, part, str(e), group)
    version = "tombstone" if record.value is None else f"v{record.value_version}"
    tally.types[f"{record.key_version} {record.type} {version}"] += 1
    if record.key_version in _COMMITS:
        return record
    row = {"kind": Kind.GROUP_RECORD, "group": _group(record.key)}
    return row | _row_of(raw)


def _group(key: dict[str, Any]) -> str:
    return str(key["groupId"] if "groupId" in key else key["group"])


def _group_if_any(key: bytes | None) -> tuple[str | None, str]:
    """The group of a damaged record, and whether key or value is to blame."""
    try:
        _, names = decode_key(key)
    except WireFormatError:
        return None, "key"
    return _group(names), "value"


def _bad_row(raw: _Raw, part: str, why: str, group: str | None) -> _Row:
    row = {"kind": Kind.BAD_RECORD, "group": group, "part": part, "text": why}
    return row | _row_of(raw)


def _row_of(raw: _Raw) -> _Row:
    return {
        "log_partition": raw.partition, "log_offset": raw.offset,
        "timestamp_ms": raw.timestamp_ms, "key": raw.key, "value": raw.value,
    }  # fmt: skip


def _commit(record: DecodedRecord, outcome: Outcome, p: int, effects: Effects, i: int) -> Commit:
    """A commit at the place and time from which on it counts."""
    return Commit(
        _group(record.key),
        record.key["topic"],
        record.key["partition"],
        Place(p, int(effects.offset[i])),
        int(effects.time_ms[i]),
        None if record.value is None else record.value["offset"],
        outcome is Outcome.COMMITTED,
    )


def _run_row(run: CommitRun) -> _Row:
    return {
        "kind": Kind.COMMIT_RUN, "group": run.group, "topic": run.topic,
        "topic_partition": run.partition, "minute_ms": run.minute_ms,
        "log_partition": run.first_place.partition, "log_offset": run.first_place.offset,
        "last_partition": run.last_place.partition, "last_log_offset": run.last_place.offset,
        "first_ms": run.first_ms, "last_ms": run.last_ms, "first_offset": run.first_offset,
        "last_offset": run.last_offset, "commits": run.commits,
        "transactional": run.transactional, "tombstones": run.tombstones,
        "largest_gap_ms": run.largest_gap_ms,
    }  # fmt: skip
