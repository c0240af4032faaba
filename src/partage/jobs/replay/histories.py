"""Second job of a replay: rebuild each group's history, in the task that has the group's rows.

Rows of the decode job are distributed by group and sorted by log position. A worker reads one
group after the other; a group may span several Arrow batches. The worker writes the group's tables
itself and returns receipts of the files. Rebalances to simulate are written to spill files
(`spill_files`) for the third job.

An unexpected exception in one group does not end the run. Table ``groups`` marks the group as
`failed`, with the reason and the traceback. Other tables have the rows of the group that were
written before the exception. All other groups are published.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidCaptureError, InvalidConfigError, MissingExtraError
from partage.history.clusters import ClusterHistory
from partage.history.commits import MINUTE_MS
from partage.history.state_store import pack_state, unpack_state
from partage.jobs.replay import group_rows, spill_files
from partage.jobs.replay.capture import LogContext
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.replay.group_rows import GroupInput, GroupRows, read_group_inputs
from partage.jobs.replay.output import COMPLETE, INCOMPLETE, TableWriters, task_name
from partage.jobs.replay.selection import Selection
from partage.jobs.replay.spill_files import RebalanceCollector, SpillWriter, StoredHistory
from partage.jobs.spark.shipping import load_kernels
from partage.tables.statuses import FAILED

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.replay.engines import LazyRows, ReplayEngine, SharedValue
    from partage.jobs.replay.replay import JobResults

__all__ = [
    "RECEIPT_DDL",
    "WHOLE_RUN",
    "GroupFailure",
    "HistoriesJob",
    "HistoryStore",
    "bad_records_job",
    "clusters_of",
    "mark_failed",
    "receipts_batch",
    "sorted_by_group",
]

RECEIPT_DDL = "what string, text string"

#: Rebalances whose times are remembered for later rows about them.
_MOST_TIMES = 4_096
#: A group's records and runs in log order; of one place (a marker), by what the first run is of.
_ORDER = (
    "group", "log_partition", "log_offset", "kind", "topic", "topic_partition", "minute_ms",
)  # fmt: skip


@dataclass(frozen=True)
class HistoryStore:
    """Histories of consumer groups that the last run has stored, and the folder for those of this
    run.

    A run with ``--append`` continues a stored history instead of reading all old records again.

    Attributes:
        folder: folder for this run's histories, relative to the output folder.
        past: dict from group to its stored history; only new records are added to it.
    """

    folder: str
    past: Mapping[str, StoredHistory]


@dataclass(frozen=True)
class HistoriesJob:
    """Job that rebuilds the membership history of consumer groups and writes their output tables.

    It returns rows that describe the written files and each group: its totals, log partitions and
    times. They also say where the group's rebalances are in spill files, which are temporary files
    for the simulation.

    Attributes:
        states: the cluster metadata over time, shared with all tasks.
        selection: groups and times that the tables cover.
        out: the output folder.
        run_id: the id of the run.
        log_context: information that the log lacks, such as coordinator moves.
        use_kernels: whether there are enough records to load the compiled kernels.
        store: histories to continue, and to store for the next run; None for neither.
    """

    states: SharedValue
    selection: Selection
    out: str
    run_id: str
    log_context: LogContext | None = None
    use_kernels: bool = False
    store: HistoryStore | None = None

    def process_rows(self, decoded: LazyRows) -> LazyRows:
        """Rebuild or continue the histories of all groups that occur in some decoded rows.

        ``decoded`` are result rows of the job that decodes log records. The rows of the result are
        lazy: the job runs when they are read.
        """
        groups = decoded.filter_kinds(DecodedKind.GROUP_RECORD, DecodedKind.COMMIT_RUNS)
        return sorted_by_group(groups).apply_job(self.rebuild_histories, RECEIPT_DDL)

    def process_idle_groups(self, engine: ReplayEngine, names: Sequence[str]) -> LazyRows:
        """Continue the stored histories of groups that have no new records.

        Their output may change nevertheless, because cluster metadata has changed. ``names`` are
        the group ids. The result rows are lazy: the job runs when they are read.
        """
        job = partial(self._continue_idle_groups, tuple(names))
        return engine.run_job(job, len(names), min(len(names), engine.cores), RECEIPT_DDL)

    def rebuild_histories(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rebuild or continue the histories of one task's groups, and write their output tables.

        ``batches`` are decoded rows, sorted by group and log position. Yield the result rows of the
        task.
        """
        if self.use_kernels:
            load_kernels()
        clocks = self.log_context.clocks if self.log_context is not None else None
        with closing(_TaskFiles(self.out, self.run_id, self.store)) as files:
            group: _GroupWriter | None = None
            for found in read_group_inputs(batches, clocks):
                if group is None or found.group != group.rows.name:
                    if group is not None:
                        files.finish_group(group)
                    group = self._open_group(found.group, files)
                group.process_input(found)
            if group is not None:
                files.finish_group(group)
            yield files.close_with_results()

    def _continue_idle_groups(
        self, names: Sequence[str], numbers: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Continue the stored histories of some groups that have no new records, in one task.

        ``numbers`` has the indices of the task's groups in ``names``.
        """
        with closing(_TaskFiles(self.out, self.run_id, self.store)) as files:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    files.finish_group(self._open_group(names[number], files))
            yield files.close_with_results()

    def _open_group(self, name: str, files: _TaskFiles) -> _GroupWriter:
        clusters = clusters_of(self.states.value)
        group = _GroupWriter(name, clusters, self.selection, files, self.log_context)
        if self.store is not None and name in self.store.past:
            group.continue_history(self.store.past[name], self.out)
        return group


def sorted_by_group(rows: LazyRows) -> LazyRows:
    """Sort decoded records by consumer group and log position.

    All rows of a group go to the same task, because a history is rebuilt in log order.
    """
    return rows.sorted_by("group", _ORDER)


def bad_records_job(decoded: LazyRows, *, out: str, run_id: str) -> LazyRows:
    """Write the log records that cannot be decoded to the output table ``bad_records``.

    ``decoded`` are all rows of the record-decoding job. Return path, rows and size of the written
    files, as lazy rows: they are computed when they are read.
    """
    bad = decoded.filter_kinds(DecodedKind.BAD_RECORD)
    ordered = bad.sorted_by("log_partition", ("log_partition", "log_offset"))
    return ordered.apply_job(partial(_bad_task, out, run_id), RECEIPT_DDL)


class _TaskFiles:
    """Output files of one task that rebuilds group histories: output tables, and input of the
    simulation.

    Args:
        out: the output folder.
        run_id: the id of the run.
        store: histories to continue, and to store for the next run; None for neither.

    Attributes:
        complete: writer of rows that no later record changes.
        incomplete: writer of rows that later records may change; without a ``store`` it is the same
            writer.
        spill_file: writer of the rebalances for the simulation.
        is_stored: whether histories are stored for the next run.
    """

    def __init__(self, out: str, run_id: str, store: HistoryStore | None) -> None:
        task, self.is_stored = task_name(), store is not None
        self.complete = TableWriters(out, run_id, f"{COMPLETE}{task}" if self.is_stored else task)
        self.incomplete = (
            TableWriters(out, run_id, f"{INCOMPLETE}{task}") if self.is_stored else self.complete
        )
        self.spill_file = SpillWriter(out, run_id, task, None if store is None else store.folder)
        self._names: list[str] = []
        self._results: list[tuple[str, str]] = []

    @property
    def _table_writers(self) -> list[TableWriters]:
        return [self.complete, self.incomplete] if self.is_stored else [self.complete]

    def finish_group(self, group: _GroupWriter) -> None:
        """Write the remaining rows of one group, and remember its results until the task ends.

        A task processes its groups one after the other.
        """
        self._results += group.finish_group()
        self._names.append(group.rows.name)

    def close_with_results(self) -> pa.RecordBatch:
        """Write the buffered rows, close the files, and return the results of the task as a batch.

        The results describe the written files and the task's groups.
        """
        files: list[tuple[str, str]] = []
        for writers in self._table_writers:
            part = {"name": writers.file_name, "groups": self._names}
            receipts = writers.close_with_receipts()
            files += [("file", json.dumps(asdict(one))) for one in receipts]
            self._results.append(("part", json.dumps(part)))
        return receipts_batch(files + self._results)

    def close(self) -> None:
        """Close all files of the task: output tables and spill files.

        Spill files are temporary files with the input of the simulation.
        """
        for writers in self._table_writers:
            writers.close()
        self.spill_file.close()


#: Most members and assigned partitions in the incomplete rebalances of a stored history. Each takes
#: some 100 bytes.
_MOST_STORED_ENTRIES = 1_000_000
#: Classes in the stored state of a group's history.
_STORED_CLASSES = (*group_rows.STORED_CLASSES, *spill_files.STORED_CLASSES)


class _GroupWriter:
    """Writer of one consumer group's rows to the output tables, and of its rebalances for
    simulation.

    If an exception occurs, the group is marked as failed, and the other groups are processed
    nevertheless.
    """

    def __init__(
        self,
        name: str,
        clusters: ClusterHistory,
        selection: Selection,
        files: _TaskFiles,
        around: LogContext | None,
    ) -> None:
        self._selection, self._files = selection, files
        self._writers, self._spill_file = files.complete, files.spill_file
        timeout_ms = around.session_timeout_ms if around is not None else None
        self._collector = RebalanceCollector(clusters, timeout_ms, self._spill_file)
        self._row: dict[str, Any] = {}
        self._failure: GroupFailure | None = None
        self._times: dict[tuple[int, int], int] = {}
        self.rows = GroupRows(name, clusters, self, around, self._collector)

    def continue_history(self, history: StoredHistory, out: str) -> None:
        """Continue the consumer group's history from the state that an earlier run has stored.

        ``out`` is the output folder, which contains the stored state.
        """
        rows, collected = unpack_state(history.state.read_bytes(out), _STORED_CLASSES)
        self.rows.restore_state(rows)
        self.rows.unknown_topic_ids.update(history.unknown_topic_ids)
        self._collector.restore_state(collected)
        self._spill_file.continue_group(history)

    def _store_history(self) -> StoredHistory | None:
        """Store the consumer group's history, so that the next run can continue it.

        Call it before the history is completed at the end of the log. The result is None if the
        state is too large; the next run then rebuilds the history.
        """
        if self._collector.pending_entries > _MOST_STORED_ENTRIES:
            return None
        state = self.rows.export_state(), self._collector.export_state()
        packed = pack_state(state, _STORED_CLASSES, level=1)
        return self._spill_file.store_group(packed, sorted(self.rows.unknown_topic_ids))

    def write_row(self, table: str, row: Mapping[str, Any]) -> None:
        """Write a row of an output table of the consumer group, if it is within the selected times.

        Rows of ``rebalances`` and ``groups`` are buffered, and written later.
        """
        # A row of ``rebalances`` goes to the spill file: the simulation job adds whether the
        # strategy reproduces the recorded assignment. The row of ``groups`` is written when the
        # group is complete, since a failure would change it.
        if table == "rebalances":
            self._collector.add_row(row)
        elif table == "groups":
            self._row = dict(row)
        elif self._selection.from_ms is None or self._is_selected(table, row):
            self._writers.write_row(table, row)

    def add_columns(self, table: str, columns: Mapping[str, Any], count: int) -> None:
        """Write Arrow columns with offset commits per minute to table ``commit_rates``.

        Only the minutes in the time span that the user selected are written.

        Args:
            table: name of the table, ``commit_rates``.
            columns: dict from column name to Arrow array.
            count: number of rows.
        """
        import pyarrow as pa

        if self._selection.from_ms is not None:
            begins = self._selection.from_ms - MINUTE_MS + 1
            wanted = columns["minute_ms"].to_numpy() >= begins
            columns = {name: cells.filter(pa.array(wanted)) for name, cells in columns.items()}
            count = int(wanted.sum())
        self._writers.add_columns(table, columns, count)

    def _is_selected(self, table: str, row: Mapping[str, Any]) -> bool:
        """Return whether a row of an output table is within the times that the user has selected.

        A row without a time of its own has the time of its rebalance.
        """
        key = (row.get("incarnation", 0), row.get("generation", 0))
        if table == "events":
            self._times.setdefault(key, row["time_ms"])
            while len(self._times) > _MOST_TIMES:
                del self._times[next(iter(self._times))]
        if table == "ownership":
            return row["to_ms"] is None or self._selection.is_after_start(row["to_ms"])
        time_ms = row["time_ms"] if table == "events" else self._times.get(key)
        return time_ms is None or self._selection.is_after_start(time_ms)

    def process_input(self, group_input: GroupInput) -> None:
        """Process the group's next records and offset commits.

        An unexpected exception marks the group as failed. Later input of a failed group is ignored.
        """
        if self._failure is None:
            try:
                self.rows.process_input(group_input)
            except WHOLE_RUN:
                raise
            except Exception as e:  # noqa: BLE001 - the other groups are published
                self._failure = GroupFailure.from_error(self.rows.name, e)

    def finish_group(self) -> list[tuple[str, str]]:
        """Write the group's row of table ``groups``, and return the group's results for the driver.

        The results are pairs (kind, JSON text): the group's totals, the position of its history in
        the spill file, and the position of its stored history.
        """
        lines: list[tuple[str, str]] = []
        if self._failure is None:
            try:
                stored = self._store_history() if self._files.is_stored else None
                self._writers = self._files.incomplete
                totals = self.rows.finish_group()
                kept = self._collector.finish_group(self.rows.name, self.rows.rate_by_partition)
                lines = [("group", json.dumps(totals)), ("kept", json.dumps(asdict(kept)))]
                if stored is not None:
                    entry = {"group": self.rows.name, "history": stored}
                    lines.append(("stored history", json.dumps(entry)))
            except WHOLE_RUN:
                raise
            except Exception as e:  # noqa: BLE001 - the other groups are published
                self._failure = GroupFailure.from_error(self.rows.name, e)
        if self._failure is not None:
            self._spill_file.discard_group()
            row, totals = self.rows.group_totals()
            self._row = row | self._failure.column_values()
            lines = [("group", json.dumps(totals | self._failure.column_values()))]
        seen = {"group": self.rows.name, **self.rows.record_ranges}
        self._files.incomplete.write_row("groups", self._row)
        return [*lines, ("seen", json.dumps(seen))]


def _bad_task(out: str, run_id: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with closing(TableWriters(out, run_id, task_name())) as writers:
        for batch in batches:
            for start in range(0, batch.num_rows, 1_000):  # rows as dicts are large: some at a time
                for row in batch.slice(start, 1_000).to_pylist():
                    place = {"partition": row["log_partition"], "offset": row["log_offset"]}
                    writers.write_row("bad_records", {**row, **place, "why": row["text"]})
        files = [json.dumps(asdict(r)) for r in writers.close_with_receipts()]
    yield receipts_batch([("file", f) for f in files])


def receipts_batch(rows: list[tuple[str, str]]) -> pa.RecordBatch:
    """Convert the results of a task, such as its written files, to an Arrow batch.

    ``rows`` are pairs of a kind, such as ``file``, and a JSON text. They become the columns
    ``what`` and ``text``.
    """
    import pyarrow as pa

    columns = [pa.array([row[i] for row in rows], pa.string()) for i in (0, 1)]
    return pa.RecordBatch.from_arrays(columns, names=["what", "text"])


@lru_cache(maxsize=1)
def clusters_of(states: tuple[str, ...]) -> ClusterHistory:
    """Parse cluster metadata over time from JSON texts, one for each change.

    The result is cached, because all tasks of a worker process use the same metadata.
    """
    return ClusterHistory([json.loads(state) for state in states])


# -- groups whose replay failed --------------------------------------------------------------------

#: Errors that concern the machine or the input as a whole: they end the run.
WHOLE_RUN = (OSError, MemoryError, InvalidCaptureError, InvalidConfigError, MissingExtraError)
#: Characters of a reason and of a traceback that are kept; the end of a traceback tells most.
_LONGEST_WHY = 400
_LONGEST_TRACEBACK = 8_000


@dataclass(frozen=True, slots=True)
class GroupFailure:
    """Description of the exception that ended the replay of one consumer group.

    Attributes:
        group: the group id.
        why: class and message of the exception, shortened.
        traceback: the end of its traceback.
    """

    group: str
    why: str
    traceback: str

    @classmethod
    def from_error(cls, group: str, error: Exception) -> GroupFailure:
        """Describe the exception that ended the replay of a consumer group.

        It must be called in the ``except`` block. ``error`` is the exception.
        """
        lines = "".join(traceback.format_exception(error))
        why = f"{type(error).__name__}: {error}"
        return cls(group, why[:_LONGEST_WHY], lines[-_LONGEST_TRACEBACK:])

    def column_values(self) -> dict[str, str]:
        """Return the status, reason and traceback that mark the consumer group as failed.

        They are columns of its row of table ``groups``.
        """
        return {"status": FAILED, "why": self.why, "traceback": self.traceback}


def mark_failed(output_folder: Path, results: JobResults) -> None:
    """Mark the consumer groups whose simulation failed, in table ``groups`` and in the run's
    totals.

    It is called after the simulation, because the table has been written before.

    Args:
        output_folder: the output folder.
        results: results of the run's jobs; its files, groups and simulation totals are updated.
    """
    failed = results.failed
    if not failed:
        return
    for name in failed:
        results.simulated.groups.pop(name, None)
        results.simulated.disagreements.pop(name, None)
    results.groups[:] = [_mark_totals(text, failed) for text in results.groups]
    receipts = enumerate(results.receipts)
    for i in [i for i, one in receipts if one.table == "groups"]:
        one = results.receipts[i]
        results.receipts[i] = replace(
            one, bytes=_rewrite_groups_file(output_folder / one.path, failed)
        )


def _mark_totals(text: str, failed: Mapping[str, GroupFailure]) -> str:
    totals: dict[str, Any] = json.loads(text)
    failure = failed.get(totals["group"])
    return text if failure is None else json.dumps(totals | failure.column_values())


def _rewrite_groups_file(path: Path, failed: Mapping[str, GroupFailure]) -> int:
    """Rewrite a Parquet file of table ``groups``, so that failed consumer groups are marked.

    ``failed`` is a dict from group to its failure. Return the new size of the file in bytes.
    """
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.ParquetFile(path).read()
    rows = [
        row | failed[row["group"]].column_values() if row["group"] in failed else row
        for row in table.to_pylist()
    ]
    parquet.write_table(pa.Table.from_pylist(rows, schema=table.schema), path, compression="zstd")
    return path.stat().st_size
