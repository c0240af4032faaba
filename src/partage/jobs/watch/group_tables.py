"""The state of one group in a stream, and the rows that a micro-batch adds to its tables.

After each micro-batch the tables of a group are those that a replay of the records so far would
write. A replay writes some rows only at the end of the log: the newest generation, current
ownership, the incomplete minute. A stream writes such rows after each micro-batch as **open**
rows. The next open rows of the same group and table replace them. All other rows are **final**.

`update_group` is a pure function of the stored state, the decoded records and the cluster's
metadata, so any store can hold the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from partage.history.clusters import ClusterHistory, CoordinatorMove
from partage.history.events import Generation
from partage.history.records import (
    ClassicState,
    GroupRecord,
    LogPosition,
    assigned_partitions,
)
from partage.history.state_store import pack_state, unpack_state
from partage.jobs.replay.capture import LogContext
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.replay.group_rows import (
    STORED_CLASSES,
    GroupRows,
    read_group_inputs,
    rebalance_row,
)
from partage.jobs.replay.histories import WHOLE_RUN, GroupFailure
from partage.tables.schemas import SIMULATED_COLUMNS, schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "OPENED",
    "STREAM_TABLES",
    "GroupUpdate",
    "StoredGroup",
    "TableRows",
    "close_group",
    "moves_of",
    "moves_text",
    "stream_schema",
    "update_group",
]

#: Table with one row for each generation, which is written when its first record is read.
OPENED = "opened"
_OPENED_COLUMNS = (
    "group", "incarnation", "generation", "log_partition", "log_offset", "time_ms", "protocol",
    "strategy", "members", "partitions", "joined", "left", "restarted", "resubscribed", "follow_up",
    "cause", "cause_kind", "cause_source", "cause_probability", "cause_other",
)  # fmt: skip
#: Tables that a stream writes.
STREAM_TABLES = (
    "groups", "events", "rebalances", "members", "ownership", "commit_rates", "pauses", "unread",
    "bad_records", OPENED,
)  # fmt: skip
#: Order of decoded rows within a group, as in `jobs.replay.histories`.
_ORDER = ("log_partition", "log_offset", "kind", "topic", "topic_partition", "minute_ms")


@lru_cache
def stream_schema(table: str) -> pa.Schema:
    """Return the pyarrow schema of an output table of a stream.

    The columns about the micro-batch are not included.

    Columns that only a replay fills in have ``filled_by: partage replay`` as metadata.

    Raises:
        KeyError: no table has this name.

    >>> stream_schema("ownership").names[:2], stream_schema(OPENED).names[-1]
    (['group', 'incarnation'], 'moved')
    >>> stream_schema("rebalances").field("agrees").metadata
    {b'filled_by': b'partage replay'}
    """
    import pyarrow as pa

    if table != OPENED:
        simulated = SIMULATED_COLUMNS.get(table, ())
        found = [field for field in schema(table) if field.name != "run_id"]
        marked = {"filled_by": "partage replay"}
        return pa.schema([f.with_metadata(marked) if f.name in simulated else f for f in found])
    known = schema("rebalances")
    counts = [pa.field("members_before", pa.int32()), pa.field("moved", pa.int32())]
    return pa.schema([*(known.field(name) for name in _OPENED_COLUMNS), *counts])


@lru_cache
def _columns(table: str) -> tuple[tuple[str, pa.DataType], ...]:
    return tuple((field.name, field.type) for field in stream_schema(table))


class TableRows(NamedTuple):
    """Rows of one output table that a micro-batch produced for one group.

    Rows are final or open. Later records may still change open rows, for example those of a
    rebalance in progress. The group's next open rows of the same table replace them.

    Attributes:
        final: True for final rows, False for open ones.
        length: number of rows.
        data: the rows as an Arrow stream; empty without rows.
    """

    table: str
    final: bool
    length: int
    data: bytes


class StoredGroup(NamedTuple):
    """State of one group that Spark stores between two micro-batches.

    Attributes:
        history: packed state of the group's history; None if an error ended it.
        digests: JSON object from table to a digest of the group's open rows in it.
    """

    history: bytes | None
    digests: str = "{}"


class GroupUpdate(NamedTuple):
    """The result of a micro-batch for one group: its new state, and new rows of the output tables.

    Attributes:
        deleted_ms: time of the group's deletion; None if the group exists.
    """

    stored: StoredGroup
    rows: list[TableRows]
    deleted_ms: int | None = None


def update_group(
    name: str,
    stored: StoredGroup | None,
    decoded: Sequence[pa.RecordBatch],
    clusters: ClusterHistory,
    context: LogContext | None = None,
) -> GroupUpdate:
    """Process one group's decoded records of a micro-batch; return its new state and table rows.

    Args:
        name: the group id.
        stored: the group's state after the micro-batch before; None for its first one.
        decoded: rows of the decode job about this group, in any order.
        clusters: the cluster metadata so far.
        context: session timeout, and coordinator moves so far.

    Raises:
        InvalidCaptureError: the state is of another version of Partage, or damaged.
    """
    batches, bad = _sorted(decoded)
    found = [_table_rows("bad_records", bad, final=True)] if bad.num_rows else []
    digests: dict[str, str] = {} if stored is None else json.loads(stored.digests)
    if stored is not None and stored.history is None:
        return GroupUpdate(stored, found)
    rows = _StreamedRows(name, clusters, context)
    if stored is not None and stored.history is not None:
        rows.restore(stored.history)
    try:
        for one in read_group_inputs(batches):
            rows.feed(one)
        found += rows.take(final=True)
        history, deleted_ms = rows.packed(), rows.deleted_ms
        still_open = rows.finished()
    except WHOLE_RUN:
        raise
    except Exception as e:  # noqa: BLE001 - one group's error must not end the others
        still_open = rows.failed(GroupFailure.of(name, e))
        history, deleted_ms = None, None
    changed, digests = _changed(still_open, digests)
    return GroupUpdate(StoredGroup(history, json.dumps(digests)), found + changed, deleted_ms)


def close_group(
    name: str, stored: StoredGroup, clusters: ClusterHistory, context: LogContext | None = None
) -> list[TableRows]:
    """Return the last open rows of a deleted group as final rows.

    It is called before the group's state is dropped.

    Raises:
        InvalidCaptureError: the state is of another version of Partage, or damaged.
    """
    if stored.history is None:
        return []
    rows = _StreamedRows(name, clusters, context)
    rows.restore(stored.history)
    found = [one._replace(final=True) for one in rows.finished()]
    return found + [TableRows(table, False, 0, b"") for table in json.loads(stored.digests)]


def _sorted(decoded: Sequence[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], pa.Table]:
    """Sort the decode job's rows about one group by log position.

    Return the group's records and commits, and the rows of damaged records.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    table = pa.Table.from_batches(decoded)
    is_bad = pc.equal(table["kind"], int(DecodedKind.BAD_RECORD))
    bad, table = table.filter(is_bad), table.filter(pc.invert(is_bad))
    order = pc.sort_indices(table, [(column, "ascending") for column in _ORDER])
    names = ["log_partition", "log_offset", "timestamp_ms", "part", "text", "group", "key", "value"]
    bad = bad.select(names).rename_columns(stream_schema("bad_records").names)
    return table.take(order).combine_chunks().to_batches(), bad.cast(stream_schema("bad_records"))


def _table_rows(table: str, rows: pa.Table, *, final: bool) -> TableRows:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return TableRows(table, final, rows.num_rows, sink.getvalue().to_pybytes())


def _changed(
    still_open: list[TableRows], digests: Mapping[str, str]
) -> tuple[list[TableRows], dict[str, str]]:
    """Return the open rows of each table whose open rows changed since the last micro-batch.

    A table without open rows now gets an empty entry if it had some. The second result is a dict
    from table to a digest of its open rows. ``digests`` is that dict of the last micro-batch.
    """
    new = {one.table: blake2b(one.data, digest_size=8).hexdigest() for one in still_open}
    changed = [one for one in still_open if digests.get(one.table) != new[one.table]]
    changed += [TableRows(table, False, 0, b"") for table in digests if table not in new]
    return changed, new


class _CollectedRows:
    """A `RowWriter` that collects rows of output tables in memory instead of files."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Mapping[str, Any]]] = {}
        self._columns: dict[str, list[pa.Table]] = {}

    def add(self, table: str, row: Mapping[str, Any]) -> None:
        self._rows.setdefault(table, []).append(row)

    def add_columns(self, table: str, columns: Mapping[str, Any], count: int) -> None:
        """Add ``count`` rows to a table, given as a dict from column name to Arrow array."""
        import pyarrow as pa

        if count:
            wanted = stream_schema(table)
            made = pa.Table.from_arrays([columns[name] for name in wanted.names], schema=wanted)
            self._columns.setdefault(table, []).append(made)

    def take(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield each table with the rows collected since the last call."""
        import pyarrow as pa

        rows, self._rows = self._rows, {}
        columns, self._columns = self._columns, {}
        for table, some in rows.items():
            cells = [
                pa.array([row.get(name) for row in some], kind) for name, kind in _columns(table)
            ]
            yield table, pa.Table.from_arrays(cells, schema=stream_schema(table))
        for table, tables in columns.items():
            yield table, pa.concat_tables(tables)


class _StreamedRows(GroupRows):
    """Converter of one group's records to table rows; adds an ``opened`` row per generation."""

    def __init__(self, name: str, clusters: ClusterHistory, context: LogContext | None) -> None:
        self._collected = _CollectedRows()
        super().__init__(name, clusters, self._collected, context)
        self._announced: LogPosition | None = None

    def packed(self) -> bytes:
        return pack_state((self.stored(), self._announced), STORED_CLASSES, level=1)

    def restore(self, history: bytes) -> None:
        state, self._announced = unpack_state(history, STORED_CLASSES)
        self.resume(state)

    def record(self, record: GroupRecord) -> None:
        """Process the next record of the group; a new generation adds a row to table ``opened``."""
        super().record(record)
        found = self._history.opened
        if found is not None and found.position != self._announced:
            self._announced = found.position
            self._write(OPENED, _opened_row(found, self._history.previous))

    @property
    def deleted_ms(self) -> int | None:
        """Time at which the group was deleted (ms); None if it exists."""
        deletion = self._history.deletion()
        return None if deletion is None else deletion.timestamp_ms

    def take(self, *, final: bool) -> list[TableRows]:
        """Return the table rows since the last call, all marked as final or all as open."""
        return [_table_rows(table, rows, final=final) for table, rows in self._collected.take()]

    def finished(self) -> list[TableRows]:
        """End the group's history at its last record, and return the rows that are still open.

        The object cannot be used afterwards.
        """
        self.finish()
        return self.take(final=False)

    def failed(self, failure: GroupFailure) -> list[TableRows]:
        """Return the row of table ``groups`` that marks a group as failed, with the error."""
        for _ in self._collected.take():
            pass
        self._collected.add("groups", self.totals()[0] | failure.cells())
        return self.take(final=False)


def _opened_row(found: Generation, before: Generation | None) -> dict[str, Any]:
    """Return the row of table ``opened`` for a new generation, without the group's name."""
    if before is not None and before.incarnation != found.incarnation:
        before = None
    row = rebalance_row(replace(found, previous=before), None)
    old = {} if before is None else _owners(before.last)
    moved = sum(old.get(pair, owner) != owner for pair, owner in _owners(found.first).items())
    members = None if before is None else len(before.last.members)
    return {**row, "members_before": members, "moved": moved}


def _owners(state: ClassicState) -> dict[tuple[str, int], str]:
    return {pair: m.owner for m in state.members for pair in assigned_partitions(m)}


# --- coordinator moves as text ----------------------------------------------------------------


def moves_text(moves: Sequence[CoordinatorMove]) -> str:
    """Serialize the coordinator moves of one log partition to JSON; "" without moves.

    A coordinator move is a change of the log partition's leader epoch: another broker may lead it.
    """
    rows = [[one.position.offset, one.time_ms, one.before, one.epoch] for one in moves]
    return json.dumps(rows) if rows else ""


def moves_of(log_partition: int, text: str) -> dict[int, tuple[CoordinatorMove, ...]]:
    """Restore a log partition's coordinator moves from the JSON text of `moves_text`.

    >>> move = CoordinatorMove(LogPosition(3, 7), 50, 1, 2)
    >>> moves_of(3, moves_text([move])) == {3: (move,)}
    True
    """
    rows = json.loads(text) if text else []
    moves = tuple(CoordinatorMove(LogPosition(log_partition, row[0]), *row[1:]) for row in rows)
    return {log_partition: moves} if moves else {}
