"""The state of one group in a stream, and the rows that a micro-batch adds to its tables.

After each micro-batch the tables of a group are those that a replay of the records so far would
write. A replay writes some rows only at the end of the log: the newest generation, current
ownership, the incomplete minute. A stream writes such rows after each micro-batch as **open**
rows. The next open rows of the same group and table replace them. All other rows are **final**.

`update_history` is a pure function of the stored state, the decoded records and the cluster's
metadata, so any store can hold the state. `update_commits` is its quick form for offset commits.
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
from partage.jobs.replay.decoded_rows import DecodedKind, batch_of_rows
from partage.jobs.replay.group_rows import (
    STORED_CLASSES,
    GroupInput,
    GroupRows,
    read_group_inputs,
    rebalance_row,
)
from partage.jobs.replay.histories import WHOLE_RUN, GroupFailure
from partage.tables.schemas import SIMULATED_COLUMNS, table_schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "DECODED",
    "OPENED",
    "STREAM_TABLES",
    "GroupUpdate",
    "StoredGroup",
    "TableRows",
    "close_group",
    "decoded_changes",
    "parse_moves",
    "serialize_moves",
    "stream_schema",
    "update_commits",
    "update_history",
]

#: Table with one row for each generation, which is written when its first record is read.
OPENED = "opened"
_OPENED_COLUMNS = (
    "group", "incarnation", "generation", "log_partition", "log_offset", "time_ms", "protocol",
    "strategy", "members", "partitions", "joined", "left", "restarted", "resubscribed", "follow_up",
    "cause", "cause_kind", "cause_source", "cause_probability", "cause_other",
)  # fmt: skip
#: Table with the decode job's rows, from which a replay of the stream's folder begins.
DECODED = "decoded"
#: Tables that a stream writes.
STREAM_TABLES = (
    "groups", "events", "rebalances", "members", "ownership", "commit_rates", "pauses", "unread",
    "bad_records", OPENED,
)  # fmt: skip
#: Order of decoded rows within a group, as in `jobs.replay.histories`.
_ORDER = ("log_partition", "log_offset", "kind", "topic", "topic_partition", "minute_ms")


@lru_cache
def stream_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of an output table of `partage watch`.

    The columns that describe micro-batches are not included. A column that only a replay fills in
    is marked with the metadata ``filled_by: partage replay``.

    Raises:
        KeyError: no table has this name.

    >>> stream_schema("ownership").names[:2], stream_schema(OPENED).names[-1]
    (['group', 'incarnation'], 'moved')
    >>> stream_schema(DECODED).names[:2]
    ['kind', 'group']
    >>> stream_schema("rebalances").field("agrees").metadata
    {b'filled_by': b'partage replay'}
    """
    import pyarrow as pa

    if table == DECODED:
        return batch_of_rows([]).schema
    if table != OPENED:
        simulated = SIMULATED_COLUMNS.get(table, ())
        found = [field for field in table_schema(table) if field.name != "run_id"]
        marked = {"filled_by": "partage replay"}
        return pa.schema([f.with_metadata(marked) if f.name in simulated else f for f in found])
    known = table_schema("rebalances")
    counts = [pa.field("members_before", pa.int32()), pa.field("moved", pa.int32())]
    return pa.schema([*(known.field(name) for name in _OPENED_COLUMNS), *counts])


@lru_cache
def _columns(table: str) -> tuple[tuple[str, pa.DataType], ...]:
    return tuple((field.name, field.type) for field in stream_schema(table))


class TableRows(NamedTuple):
    """Rows of one output table that a micro-batch produced for one consumer group.

    Final rows never change. Open rows may still change with later records, for example during a
    rebalance. The group's next open rows of the same table replace them.

    Attributes:
        table: name of the output table.
        final: True for final rows, False for open ones.
        length: number of rows.
        data: the rows as an Arrow stream; empty without rows.
    """

    table: str
    final: bool
    length: int
    data: bytes


class StoredGroup(NamedTuple):
    """State of one consumer group that Spark stores between two micro-batches.

    The next micro-batch continues from this state, so it only reads new records. An open row is an
    output row that later records may still change.

    Attributes:
        history: packed state of the group's history; None if an error ended it.
        digests: JSON object from table to a digest of the group's open rows in it.
        commits: JSON object with the part of the state that offset commits change; it may be newer
            than ``history``. Empty if an error ended the history.
    """

    history: bytes | None
    digests: str = "{}"
    commits: str = ""


class GroupUpdate(NamedTuple):
    """Result of a micro-batch for one consumer group: its new state and its new table rows.

    Attributes:
        stored: the state to store until the next micro-batch.
        rows: rows of output tables.
        deleted_ms: time of the group's deletion; None if the group exists.
    """

    stored: StoredGroup
    rows: list[TableRows]
    deleted_ms: int | None = None


def update_history(
    name: str,
    stored: StoredGroup | None,
    decoded: Sequence[pa.RecordBatch],
    clusters: ClusterHistory,
    context: LogContext | None = None,
) -> GroupUpdate:
    """Process the records of a consumer group in a micro-batch, and return its new state and rows.

    An error in one group does not end the stream: the group gets a row that describes the error.

    Args:
        name: the group id.
        stored: the group's state after its previous micro-batch; None for its first one.
        decoded: decoded rows of this group, in any order.
        clusters: the cluster metadata so far.
        context: the broker's session timeout, and the coordinator moves so far.

    Raises:
        InvalidCaptureError: the state is of another version of Partage, or damaged.
    """
    batches, found = _sort_decoded(decoded)
    digests: dict[str, str] = {} if stored is None else json.loads(stored.digests)
    if stored is not None and stored.history is None:
        return GroupUpdate(stored, found)
    rows = _StreamedRows(name, clusters, context)
    if stored is not None:
        rows.restore(stored)
    try:
        for one in read_group_inputs(batches):
            rows.process_input(one)
        found += rows.take_rows(final=True)
        history, values = rows.packed(), rows.commit_values()
        still_open = rows.provisional_rows()
        values |= {"row": rows.group_totals()[0], "deleted_ms": rows.deleted_ms}
    except WHOLE_RUN:
        raise
    except Exception as e:  # noqa: BLE001 - one group's error must not end the others
        still_open = rows.failure_row(GroupFailure.from_error(name, e))
        changed, digests = _select_changed_open_rows(still_open, digests)
        return GroupUpdate(StoredGroup(None, json.dumps(digests)), found + changed)
    changed, digests = _select_changed_open_rows(still_open, digests)
    new = StoredGroup(history, json.dumps(digests), _compact(values))
    return GroupUpdate(new, found + changed, values["deleted_ms"])


def update_commits(
    name: str,
    stored: StoredGroup,
    decoded: Sequence[pa.RecordBatch],
    context: LogContext | None = None,
) -> GroupUpdate | None:
    """Process a micro-batch that has only offset commits of a consumer group.

    This is the usual case. It does not need the group's history, so it takes a fraction of the time
    of `update_history`.

    Args:
        name: the group id.
        stored: the group's state; its packed history is not read and returned unchanged.
        decoded: decoded rows of this group.
        context: the broker's session timeout, and the coordinator moves so far.

    Returns:
        The new state and table rows; None if the micro-batch needs the history, because it has
            records of the group, ends a consumption pause or passes a coordinator move.
    """
    kinds = (batch.column("kind").to_numpy() for batch in decoded)
    if not stored.commits or any((kind == DecodedKind.GROUP_RECORD).any() for kind in kinds):
        return None
    batches, found = _sort_decoded(decoded)
    values = json.loads(stored.commits)
    inputs = list(read_group_inputs(batches))
    if _needs_history(values, inputs, context or LogContext()):
        return None
    rows = _StreamedRows(name, ClusterHistory([]), context)
    rows.resume_commits(values)
    for one in inputs:
        rows.process_input(one)
    found += rows.take_rows(final=True)
    new = rows.commit_values()
    for old, cells in zip(values["history"][0], new["history"][0], strict=False):
        cells[_WAITING] = old[_WAITING]  # pauses are not restored
    rows.finish_minutes()
    row = values["row"] | {"commits": rows.group_totals()[0]["commits"]}
    rows.write_row("groups", row)
    digests: dict[str, str] = json.loads(stored.digests)
    ours = {table: digests.pop(table) for table in _COMMIT_TABLES if table in digests}
    changed, ours = _select_changed_open_rows(rows.take_rows(final=False), ours)
    new |= {"row": row, "deleted_ms": values["deleted_ms"]}
    after = stored._replace(digests=json.dumps(digests | ours), commits=_compact(new))
    return GroupUpdate(after, found + changed, values["deleted_ms"])


#: Position of the waiting flag in a list of `PauseTracker.commit_values`.
_WAITING = 2
#: Tables whose open rows change with offset commits.
_COMMIT_TABLES = ("groups", "commit_rates")


def _needs_history(
    commit_values: Mapping[str, Any], inputs: Sequence[GroupInput], context: LogContext
) -> bool:
    """Return whether a consumer group's full history is needed to process its offset commits.

    It is needed if a commit ends a pause in consumption, if the group's coordinator moved to
    another broker, or if the group has no log position yet.

    Args:
        commit_values: the part of the group's state that commits change.
        inputs: the group's commits.
        context: the broker's session timeout, and the coordinator moves so far.
    """
    partitions, place = commit_values["history"]
    if place is None or commit_values["row"]["log_partition"] < 0:
        return True
    waiting = {(topic, number) for topic, number, waits, *_ in partitions if waits}
    for one in inputs:
        runs = one.runs
        pairs = zip(runs.topic.tolist(), runs.partition.tolist(), strict=True)
        if waiting and any((runs.topics[topic], p) in waiting for topic, p in pairs):
            return True
    before = LogPosition(*place)
    return any(move.position > before for moves in context.moves.values() for move in moves)


def _compact(values: object) -> str:
    return json.dumps(values, separators=(",", ":"))


def decoded_changes(decoded: pa.RecordBatch) -> TableRows:
    """Convert decoded records of ``__consumer_offsets`` to rows of the output table ``decoded``.

    `partage replay` can read this table in the output folder of `partage watch`, and then need not
    decode the log again.
    """
    import pyarrow as pa

    names = stream_schema(DECODED).names
    return _table_rows(DECODED, pa.Table.from_batches([decoded.select(names)]), final=True)


def close_group(
    name: str, stored: StoredGroup, clusters: ClusterHistory, context: LogContext | None = None
) -> list[TableRows]:
    """Return the open rows of a deleted consumer group as final rows, before its state is removed.

    Open rows are those that later records could still have changed.

    Args:
        name: the group id.
        stored: the group's state.
        clusters: the cluster metadata so far.
        context: the broker's session timeout, and the coordinator moves so far.

    Raises:
        InvalidCaptureError: the state is of another version of Partage, or damaged.
    """
    if stored.history is None:
        return []
    rows = _StreamedRows(name, clusters, context)
    rows.restore(stored)
    found = [one._replace(final=True) for one in rows.provisional_rows()]
    return found + [TableRows(table, False, 0, b"") for table in json.loads(stored.digests)]


def _sort_decoded(
    decoded: Sequence[pa.RecordBatch],
) -> tuple[list[pa.RecordBatch], list[TableRows]]:
    """Sort the decoded records of one consumer group by log position, and separate damaged records.

    Return records and offset commits in log order, and a row of table ``bad_records`` for each
    damaged record.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    table = pa.Table.from_batches(decoded)
    found = []
    is_bad = pc.equal(table["kind"], pa.scalar(int(DecodedKind.BAD_RECORD), pa.int32()))
    if pc.any(is_bad).as_py():
        names = ("log_partition", "log_offset", "timestamp_ms", "part", "text", "group", "key",
                 "value")  # fmt: skip
        bad = table.filter(is_bad).select(names).rename_columns(stream_schema("bad_records").names)
        found = [_table_rows("bad_records", bad.cast(stream_schema("bad_records")), final=True)]
        table = table.filter(pc.invert(is_bad))
    if table.num_rows > 1:
        table = table.take(pc.sort_indices(table, [(column, "ascending") for column in _ORDER]))
    return table.combine_chunks().to_batches(), found


def _table_rows(table: str, rows: pa.Table, *, final: bool) -> TableRows:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return TableRows(table, final, rows.num_rows, sink.getvalue().to_pybytes())


def _select_changed_open_rows(
    still_open: list[TableRows], digests: Mapping[str, str]
) -> tuple[list[TableRows], dict[str, str]]:
    """Return the open rows of each table whose open rows have changed, to write them again.

    Open rows are output rows that may still change with later records. The second result is new
    digests, by which the next micro-batch detects changes.

    Args:
        still_open: the present open rows of a group, by table.
        digests: dict from table to a digest of its open rows in the last micro-batch.
    """
    # A table that no longer has open rows gets an empty entry.
    new = {one.table: blake2b(one.data, digest_size=8).hexdigest() for one in still_open}
    changed = [one for one in still_open if digests.get(one.table) != new[one.table]]
    changed += [TableRows(table, False, 0, b"") for table in digests if table not in new]
    return changed, new


class _CollectedRows:
    """Writer that collects the rows of output tables of one consumer group in memory.

    It has the methods of `RowWriter`. The corresponding writer of `partage replay` writes rows to
    files.
    """

    def __init__(self) -> None:
        self._rows: dict[str, list[Mapping[str, Any]]] = {}
        self._columns: dict[str, list[pa.Table]] = {}

    def write_row(self, table: str, row: Mapping[str, Any]) -> None:
        self._rows.setdefault(table, []).append(row)

    def add_columns(self, table: str, columns: Mapping[str, Any], count: int) -> None:
        """Add rows to an output table, given as a dict from column name to Arrow array.

        ``count`` is the number of rows.
        """
        import pyarrow as pa

        if count:
            wanted = stream_schema(table)
            made = pa.Table.from_arrays([columns[name] for name in wanted.names], schema=wanted)
            self._columns.setdefault(table, []).append(made)

    def take_rows(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the name of each output table with the rows collected since the last call.

        The rows are an Arrow table with the columns of the output table.
        """
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
    """Converter of one consumer group's log records to rows of output tables, for `partage watch`.

    It also adds a row to table ``opened`` as soon as a generation begins.
    """

    def __init__(self, name: str, clusters: ClusterHistory, context: LogContext | None) -> None:
        self._collected = _CollectedRows()
        super().__init__(name, clusters, self._collected, context)
        self._announced: LogPosition | None = None

    def packed(self) -> bytes:
        return pack_state((self.export_state(), self._announced), STORED_CLASSES, level=1)

    def restore(self, stored: StoredGroup) -> None:
        state, self._announced = unpack_state(stored.history or b"", STORED_CLASSES)
        self.restore_state(state)
        if stored.commits:
            self.resume_commits(json.loads(stored.commits))

    def write_row(self, table: str, row: Mapping[str, Any]) -> None:
        self._collected.write_row(table, row)

    def process_record(self, record: GroupRecord) -> None:
        """Process the next log record of the consumer group.

        If the record begins a new generation, a row is added to table ``opened``, so that the
        stream shows the rebalance at once.
        """
        super().process_record(record)
        found = self._history.newest_rebalance
        if found is not None and found.position != self._announced:
            self._announced = found.position
            self._write(OPENED, _opened_row(found, self._history.last_ended_rebalance))

    @property
    def deleted_ms(self) -> int | None:
        """Time at which the consumer group was deleted (ms); None if it was not.

        The state of a deleted group is removed some time later.
        """
        deletion = self._history.find_deletion()
        return None if deletion is None else deletion.timestamp_ms

    def take_rows(self, *, final: bool) -> list[TableRows]:
        """Return the rows of output tables that were added since the last call.

        ``final`` is whether they are final, so that later records cannot change them.
        """
        return [
            _table_rows(table, rows, final=final) for table, rows in self._collected.take_rows()
        ]

    def provisional_rows(self) -> list[TableRows]:
        """End the group's history at its last record, and return the rows that later records may
        change.

        For example, the row of a partition's current owner changes when the partition is revoked.
        The object cannot be used afterwards.
        """
        self.finish_group()
        return self.take_rows(final=False)

    def failure_row(self, failure: GroupFailure) -> list[TableRows]:
        """Return a row of table ``groups`` that marks the consumer group as failed.

        All other rows that were collected for the group are discarded. ``failure`` describes the
        exception.
        """
        for _ in self._collected.take_rows():
            pass
        self._collected.write_row("groups", self.group_totals()[0] | failure.column_values())
        return self.take_rows(final=False)


def _opened_row(generation: Generation, previous: Generation | None) -> dict[str, Any]:
    """Convert a new generation of a consumer group to a row of table ``opened``.

    The row has the causes of the rebalance and the number of moved partitions. ``previous`` is the
    previous generation; None if there is none.
    """
    if previous is not None and previous.incarnation != generation.incarnation:
        previous = None
    row = rebalance_row(replace(generation, previous=previous), None)
    old = {} if previous is None else _owners(previous.last)
    moved = sum(old.get(pair, owner) != owner for pair, owner in _owners(generation.first).items())
    members = None if previous is None else len(previous.last.members)
    return {**row, "members_before": members, "moved": moved}


def _owners(state: ClassicState) -> dict[tuple[str, int], str]:
    return {pair: m.owner_identity for m in state.members for pair in assigned_partitions(m)}


# --- coordinator moves as text ----------------------------------------------------------------


def serialize_moves(moves: Sequence[CoordinatorMove]) -> str:
    """Serialize the coordinator moves of one partition of ``__consumer_offsets`` to JSON.

    A coordinator move is a change of the partition's leader epoch, after which another broker may
    be the coordinator of its groups. The result is "" without moves.
    """
    rows = [[one.position.offset, one.time_ms, one.before, one.epoch] for one in moves]
    return json.dumps(rows) if rows else ""


def parse_moves(log_partition: int, moves_json: str) -> dict[int, tuple[CoordinatorMove, ...]]:
    """Parse a log partition's coordinator moves from the JSON text that `serialize_moves` returned.

    The result is a dict from the log partition to its moves; it is empty without moves.

    >>> move = CoordinatorMove(LogPosition(3, 7), 50, 1, 2)
    >>> parse_moves(3, serialize_moves([move])) == {3: (move,)}
    True
    """
    rows = json.loads(moves_json) if moves_json else []
    moves = tuple(CoordinatorMove(LogPosition(log_partition, row[0]), *row[1:]) for row in rows)
    return {log_partition: moves} if moves else {}
