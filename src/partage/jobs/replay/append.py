"""`partage replay --append`: continue the last published run of an output folder.

Only new records are read. `replay` calls the following steps, each once:

1. `Appender.for_run` reads the last run's state and compares its settings and files with those of
   this run.
2. `Appender.source` is the capture without the files that were read before.
3. `Appender.check_input` compares old records in new or changed files with their digests.
4. `Appender.group_rows` returns the rows of all **dirty** groups: those with new records, and
   those for which metadata, coordinator moves or clocks have changed (`_GroupContext`). The stored
   history of most of them is continued with the new rows (`Appender.history_store`). The history of
   the others is rebuilt, from new rows and rows that earlier runs have stored.
5. `Appender.keep_groups` keeps the output rows of all other groups, without reading their history,
   and those rows of continued groups that no later record changes.
6. `Appender.build_state` is stored for the next run.

A run that cannot be continued is replaced by a full run, and the summary has the reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidConfigError
from partage.history.clusters import ClusterHistory
from partage.jobs.replay.decode import CommitsTable, retry_open_commits
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.replay.histories import RECEIPT_DDL, HistoryStore, receipts_batch
from partage.jobs.replay.input_digests import (
    Digests,
    InputDigests,
    MetadataDigests,
    combine_digests,
    convert_keys,
)
from partage.jobs.replay.output import (
    COMPLETE,
    COPIED,
    Receipt,
    TableWriters,
    has_complete_rows,
    task_name,
)
from partage.jobs.replay.records import current_path
from partage.jobs.replay.spill_files import SpilledHistory, StoredHistory
from partage.jobs.replay.state_files import (
    STREAM,
    ReplayState,
    StaleStateError,
    group_rows_of,
    newest_state,
    read_decoded,
    read_open_commits,
    state_folder,
    write_decoded,
    write_open_commits,
)
from partage.jobs.replay.stored_results import (
    AHEAD_STATES,
    StoredBlock,
    StoredSimulation,
)
from partage.jobs.replay.streams_settings import has_streams, streams_inputs_digest
from partage.jobs.replay.tally import RecordTally
from partage.tables.schemas import COLUMNS
from partage.tables.statuses import FAILED

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.replay.capture import Capture, LogContext
    from partage.jobs.replay.engines import LazyRows, ReplayEngine
    from partage.jobs.replay.replay import JobResults, ReplayRun

__all__ = ["Appender"]

#: After so many runs their stored rows are merged into one file.
_MOST_RUNS = 8
#: Causes of a rebalance look at metadata that is recorded up to this much later.
_AHEAD_MS = 60_000
#: Histories look at metadata that is recorded up to this much later
#: (`history.causes._METADATA_DELAY_MS`, rounded up).
_HISTORY_AHEAD_MS = 2_000
#: Files with complete rows, by name, before they are merged: each run adds some.
_MOST_COMPLETE_FILES = 32
#: Tables whose rows belong to a group and may change with it.
_OF_GROUPS = frozenset(
    name for name, columns in COLUMNS.items()
    if any(column[0] == "group" for column in columns) and name not in {"bad_records", "commits"}
)  # fmt: skip


class Appender:
    """Continuation of the last published run in an output folder, for `partage replay --append`.

    It finds the records that the last run has not read, and the groups that they affect. Only these
    groups are replayed again. The output rows of all other groups are reused.

    Attributes:
        source: the capture, restricted to files that may have unread records.
        past: the stored state of the last published run; None for a full run.
        past_id: the id of that run; empty for a full run.
        reason: why the last run cannot be continued; empty if it can, or if there is none.
    """

    def __init__(
        self, run: ReplayRun, source: Capture, past: tuple[str, ReplayState] | None, reason: str
    ) -> None:
        self._run, self._whole = run, source
        self._files = _describe_input_files(source)
        #: What the settings of Streams applications are simulated with, beside the records.
        self._beside = streams_inputs_digest(source.beside or source.folder)
        self.past_id: str = "" if past is None else past[0]
        self.past: ReplayState | None = None if past is None else past[1]
        self.reason = reason
        self._read = InputDigests({})
        self._fresh: LazyRows | None = None
        self._context: _GroupContext | None = None
        self._dirty: frozenset[str] = frozenset()
        self._continued: dict[str, StoredHistory] = {}
        #: Groups without new records that are replayed again, because metadata has changed.
        self.idle_groups: tuple[str, ...] = ()
        self._decoded: list[str] = []
        self._open_commits: str | None = None
        self._kept = 0
        known = {} if self.past is None else self.past.positions
        self.source = replace(source, slices=self._unread_slices(), known=known)

    @classmethod
    def for_run(cls, run: ReplayRun, capture: Capture) -> Appender:
        """Read the state of the last run, and check whether this run can continue it.

        If it cannot, the returned `Appender` reads all records, and its attribute ``reason`` says
        why.

        Raises:
            InvalidConfigError: the records are not in Parquet files.
        """
        if capture.table is not None:
            what = f"needs Parquet files; Spark reads {capture.table.name} as a table"
            raise InvalidConfigError("--append", what, True)
        try:
            past = newest_state(run.out, _settings_of_run(run))
        except StaleStateError as e:
            return cls(run, capture, None, str(e))
        if past is not None and (STREAM in past[1].positions) != (capture.decoded is not None):
            return cls(run, capture, None, "its input was of another kind")
        if past is not None and _digest_of_batches(capture, past[1].positions) != past[1].batches:
            why = "batches.parquet differs for records that were read before"
            return cls(run, capture, None, why)
        return cls(run, capture, past, "")

    def without_last_run(self, reason: str) -> Appender:
        """Return a copy of this `Appender` that reads all records and ignores the last run.

        It is used if the last run cannot be continued. ``reason`` is shown to the user.
        """
        return Appender(self._run, self._whole, None, reason)

    # -- input -----------------------------------------------------------------------------------

    def _unread_slices(self) -> tuple[Any, ...]:
        """Return the row ranges of input files that are new or have changed since the last run."""
        if self.past is None:
            return self._whole.slices
        return tuple(
            one
            for one in self._whole.slices
            if not self._is_unchanged(_relative_path(self._whole, one.path))
        )

    def _is_unchanged(self, name: str) -> bool:
        before = None if self.past is None else self.past.files.get(name)
        names = ("rows", "size", "modified_ns", "footer")
        return before is not None and all(before[n] == self._files[name][n] for n in names)

    def earlier_tally(self) -> RecordTally:
        """Return the counts of all records that earlier runs of `partage replay` have read."""
        return RecordTally() if self.past is None else RecordTally.of_json(self.past.tally)

    def with_ended_transactions(
        self, engine: ReplayEngine, decoded: LazyRows, commits_table: CommitsTable | None
    ) -> LazyRows:
        """Return the decoded rows, plus offset commits of transactions that have ended since the
        last run.

        The last run could not count these commits, because their transactions were still open.

        Args:
            engine: runs the job.
            decoded: decoded rows of the new records.
            commits_table: where to write table ``commits``; None if it is not written.
        """
        if self.past is None or self.past.open_commits is None:
            return decoded
        commits = read_open_commits(self._run.out, self.past.open_commits)
        retried = retry_open_commits(
            engine, self._whole, commits, self._run.selection, commits_table=commits_table
        )
        return decoded.union_rows(retried)

    def check_input(self, decoded: LazyRows) -> None:
        """Raise an error if records that earlier runs have read are missing now or have changed.

        ``decoded`` are the rows of this run, which include digests of the records.

        Raises:
            StaleStateError: records have vanished or differ.
        """
        for (text,) in decoded.filter_kinds(DecodedKind.INPUT_DIGESTS).collect_columns("text"):
            self._read.merge_digests(text)
        if self.past is None:
            return
        expected: Digests = {}
        gone = [name for name in self.past.files if name not in self._files]
        for name, file in self.past.files.items():
            if name in gone or not self._is_unchanged(name):
                expected = combine_digests(expected, convert_keys(file["digests"]))
        found: Digests = {}
        for kinds in self._read.files.values():
            found = combine_digests(found, kinds["known"])
        for partition in sorted(expected.keys() | found.keys()):
            before, now = expected.get(partition, [0, 0]), found.get(partition, [0, 0])
            if before != now:
                where = f"log partition {partition}"
                if before[0] > now[0]:
                    lost = f"{before[0] - now[0]} records of {where} that were read before"
                    missing = f" (missing: {', '.join(gone[:3])})" if gone else ""
                    raise StaleStateError(f"{lost} are not in the capture any more{missing}")
                raise StaleStateError(f"old records of {where} differ from those read before")

    # -- rows of groups ----------------------------------------------------------------------------

    def metadata_rows(self, engine: ReplayEngine, decoded: LazyRows) -> LazyRows:
        """Return the decoded rows of all runs, from which cluster metadata is inferred.

        These are the new rows (``decoded``), and those that earlier runs have stored in files.
        """
        self._fresh = decoded
        if self.past is None or not self.past.decoded:
            return decoded
        return decoded.union_rows(read_decoded(engine, self._run.out, self.past.decoded))

    def group_rows(
        self, engine: ReplayEngine, results: JobResults, log_context: LogContext
    ) -> LazyRows:
        """Return the decoded rows of all consumer groups that must be replayed again.

        These groups have new records, or their cluster metadata has changed. If a group's stored
        history can be continued, only its new rows are returned. New rows are also stored for the
        next run.

        Args:
            engine: runs the jobs.
            results: results of the run so far.
            log_context: information that the log lacks, such as coordinator moves.
        """
        fresh = self._fresh
        if fresh is None:
            raise TypeError("metadata_rows comes first")
        self._context = _GroupContext(results.states, log_context)
        out, run_id = self._run.out, self._run.id
        self._open_commits = write_open_commits(fresh, out, run_id)
        stored = [] if self.past is None else self.past.decoded
        if len({Path(path).parent for path in stored}) >= _MOST_RUNS:
            everything = fresh.union_rows(read_decoded(engine, out, stored))
            self._decoded = write_decoded(everything, out, run_id)
        else:
            self._decoded = [*stored, *write_decoded(fresh, out, run_id)]
        if self.past is None:
            return fresh
        new: dict[str, set[int]] = {}
        found = group_rows_of(fresh).apply_job(_distinct_groups, "group string, log_partition int")
        for name, partition in found.collect_columns("group", "log_partition"):
            new.setdefault(name, set()).add(partition)
        self._dirty = frozenset(new) | {
            name for name, group in self.past.groups.items() if self._is_dirty(group)
        }
        self._continued = self._find_continued_histories(new)
        self.idle_groups = tuple(sorted(self._continued.keys() - new.keys()))
        rebuilt = self._dirty - self._continued.keys()
        if not rebuilt or not stored:
            return fresh
        return group_rows_of(fresh).union_rows(read_decoded(engine, out, stored, rebuilt))

    def history_store(self) -> HistoryStore:
        """Return the stored group histories that this run continues, and the folder for its own."""
        return HistoryStore(state_folder(self._run.id), self._continued)

    def _find_continued_histories(self, new: Mapping[str, set[int]]) -> dict[str, StoredHistory]:
        """Return the stored histories that can be continued with a group's new records.

        The other groups are replayed from their first record. ``new`` is a dict from group to the
        log partitions of its new records.
        """
        found: dict[str, StoredHistory] = {}
        if self.past is None or self._run.selection.from_ms is not None:
            return found  # whether a row is selected depends on the time of its rebalance
        for name in self._dirty:
            group = self.past.groups.get(name)
            if group is None or group["failed"] or group["history"] is None:
                continue
            stored = StoredHistory.from_json_fields(group["history"])
            # In one log partition, new records follow the old ones.
            old = group["seen"]["log_partitions"]
            is_in_order = name not in new or (len(old) == 1 and [*new[name]] == old)
            if is_in_order and self._is_history_valid(group, stored):
                found[name] = stored
        return found

    def _is_history_valid(self, group: Mapping[str, Any], history: StoredHistory) -> bool:
        """Return whether a group's stored history can be continued with new records.

        It cannot if the cluster metadata that it depends on has changed, or if its file has
        changed.
        """
        assert self._context is not None  # noqa: S101 - set by the caller
        if self._context.history_digest(group["seen"]) != group["history_view"]:
            return False
        if self._context.has_topic_id(history.unknown_topic_ids):
            return False
        try:
            return history.compute_digest(self._run.out) == history.digest
        except OSError:
            return False

    def with_stored_results(self, histories: list[SpilledHistory]) -> list[SpilledHistory]:
        """Add to each group's history where the last run stored its simulation results.

        The simulations of this run reuse these results.
        """
        known = {} if self.past is None else self.past.groups
        return [
            _with_stored_results(one, known[one.group]) if one.group in known else one
            for one in histories
        ]

    def _is_dirty(self, group: Mapping[str, Any]) -> bool:
        assert self._context is not None  # noqa: S101 - set by the caller
        if has_streams(group["totals"]) and group["beside"] != self._beside:
            return True
        return bool(group["failed"]) or self._context.context_digest(group["seen"]) != group["view"]

    def keep_groups(self, engine: ReplayEngine, results: JobResults) -> LazyRows | None:
        """Reuse the last run's output rows of consumer groups, as far as new records cannot change
        them.

        All rows of groups without new records are reused. Where only some rows of a file can be
        reused, a job copies them; its result rows are returned (None without such files). The
        groups' totals are added to ``results``.
        """
        past = self.past
        if past is None:
            return None
        clean = past.groups.keys() - self._dirty
        self._kept = len(clean)
        for name in sorted(clean):
            group = past.groups[name]
            results.groups.append(json.dumps(group["totals"]))
            results.simulated.merge_totals(json.dumps(group["simulated"]))
            results.seen[name] = group["seen"]
        complete = clean | self._continued.keys()
        # The rows of a group stay in log order: files are read in the order of run and name.
        names = list(filter(has_complete_rows, past.parts))
        is_rewritten = len(names) > _MOST_COMPLETE_FILES or not all(
            complete.issuperset(past.parts[name]) for name in names
        )
        copies = {True: _Copies(f"{COMPLETE}{COPIED}"), False: _Copies("k")}
        for receipt in sorted((Receipt(**one) for one in past.receipts), key=lambda one: one.path):
            name = Path(receipt.path).name
            if receipt.table not in _OF_GROUPS:
                results.receipts.append(receipt)
                continue
            of_complete, groups = has_complete_rows(name), past.parts[name]
            kept = (complete if of_complete else clean).intersection(groups)
            if len(kept) == len(groups) and not is_rewritten:
                results.receipts.append(receipt)
                results.parts[name] = groups
            elif kept:
                file = (receipt.table, str(self._run.out / receipt.path))
                copies[of_complete].files[file] = tuple(sorted(kept))
        wanted = [one for one in copies.values() if one.files]
        if not wanted:
            return None
        where = (str(self._run.out), self._run.id)
        return engine.run_job(partial(_copy_group_rows, where, wanted), 1, 1, RECEIPT_DDL)

    # -- results -----------------------------------------------------------------------------------

    def append_counts(self, results: JobResults) -> dict[str, Any]:
        """Return entry ``append`` of ``summary.json``: the numbers of new records and replayed
        groups.
        """
        records = results.tally.rows - self.earlier_tally().rows
        return {
            "from": self.past_id or None, "new_records": records,
            "groups_replayed": len(results.seen) - self._kept, "groups_kept": self._kept,
            **({"reason": self.reason} if self.reason else {}),
        }  # fmt: skip

    def append_message(self, results: JobResults) -> str:
        """Return a message for the user: how the last run was continued, or why it was not."""
        if self.past is None:
            if not self.reason:
                return "The folder had no run to continue: all records were read."
            return f"The last run could not be continued: {self.reason}. All records were read."
        records = results.tally.rows - self.earlier_tally().rows
        return (
            f"Run {self.past_id} was continued: {records:,} of {results.tally.rows:,} records were "
            f"new, and {len(results.seen) - self._kept} of {len(results.seen)} groups were "
            "replayed."
        )

    def build_state(self, results: JobResults) -> ReplayState:
        """Return the state of this run, from which the next run with ``--append`` continues."""
        assert self._context is not None  # noqa: S101 - group_rows has set it
        past = self.past
        positions = {} if past is None else dict(past.positions)
        if self._whole.decoded is not None:
            positions[STREAM] = self._whole.newest_batch
        for partition, offset in self._read.highest.items():
            if partition >= 0 and offset > positions.get(partition, -1):
                positions[partition] = offset
        tally = RecordTally.of_json(results.tally.to_json())
        tally.merge_offset_ranges()
        groups: dict[str, dict[str, Any]] = {}
        for text in results.groups:
            totals = json.loads(text)
            name = totals["group"]
            if past is not None and name in past.groups and name not in self._dirty:
                groups[name] = past.groups[name]
                continue
            seen = results.seen[name]
            groups[name] = {
                "totals": totals, "seen": seen,
                "simulated": json.loads(results.simulated.of_group(name)),
                "view": self._context.context_digest(seen), "failed": totals["status"] == FAILED,
                "beside": self._beside if has_streams(totals) else None,
                "memo": results.stored_rebalances.get(name, []),
                "streams": results.stored_streams.get(name),
                "history": results.stored_histories.get(name),
                "history_view": self._context.history_digest(seen),
                "simulations": results.stored_simulations.get(name, {}),
            }  # fmt: skip
        return ReplayState(
            settings=_settings_of_run(self._run), files=self._file_states(), positions=positions,
            batches=_digest_of_batches(self._whole, positions), tally=tally.to_json(),
            decoded=self._decoded,
            open_commits=self._open_commits,
            receipts=[asdict(r) for r in results.receipts if r.rows and r.table != "runs"],
            parts=results.parts, groups=groups,
        )  # fmt: skip

    def _file_states(self) -> dict[str, dict[str, Any]]:
        """Describe each input file by its size, time and record digests, as a dict by path."""
        found = {}
        read = {
            _relative_path(self._whole, path): kinds for path, kinds in self._read.files.items()
        }
        for name, file in self._files.items():
            if name in read:
                digests = combine_digests(read[name]["known"], read[name]["new"])
            else:
                before = None if self.past is None else self.past.files.get(name)
                digests = {} if before is None else convert_keys(before["digests"])
            found[name] = {**file, "digests": digests}
        return found


def _with_stored_results(history: SpilledHistory, group: Mapping[str, Any]) -> SpilledHistory:
    """Add the file positions of a group's stored simulation results to its history.

    New simulations continue from these results. ``group`` is the group's entry in the last run's
    state.
    """
    return replace(
        history,
        stored_rebalances=tuple(map(StoredBlock.from_json_fields, group["memo"])),
        stored_streams=group["streams"] and StoredBlock.from_json_fields(group["streams"]),
        stored_simulations={
            name: StoredSimulation.from_json_fields(one)
            for name, one in group["simulations"].items()
        },
    )


def _settings_of_run(run: ReplayRun) -> dict[str, Any]:
    """Return the options of a run that affect its output tables, as a dict by name.

    A run can only be continued with the same options.
    """
    return {
        "--policy": [policy.name for policy in run.policies],
        "selection (--group, --from, --to)": run.selection.as_json(),
        "--commits": run.raw_commits,
    }


def _relative_path(capture: Capture, path: str) -> str:
    """Return a file's path relative to its capture, by which later runs identify the file."""
    folder = Path(capture.folder)
    return Path(os.path.relpath(path, folder if folder.is_dir() else folder.parent)).as_posix()


def _describe_input_files(capture: Capture) -> dict[str, dict[str, Any]]:
    """Describe each file of a capture by its rows, size, modification time and footer digest.

    A later run compares them to find changed files. The result is a dict by path relative to the
    capture.
    """
    found: dict[str, dict[str, Any]] = {}
    for one in capture.slices:
        name = _relative_path(capture, one.path)
        if name not in found:
            found[name] = {"rows": 0, **_footer(Path(one.path))}
        found[name]["rows"] += one.rows
    return found


def _footer(path: Path) -> dict[str, Any]:
    with current_path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(-8, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - 8 - length))
        footer = blake2b(file.read(length), digest_size=16).hexdigest()
        modified_ns = os.fstat(file.fileno()).st_mtime_ns
        return {"size": size, "modified_ns": modified_ns, "footer": footer}


def _digest_of_batches(capture: Capture, positions: Mapping[int, int]) -> str | None:
    """Return a digest of the transactional batches that affect the log records read so far.

    If the digest changes, the last run cannot be continued. The result is None for a capture
    without ``batches.parquet``. ``positions`` is a dict from log partition to the highest offset
    read.
    """
    if capture.batches is None:
        return None
    rows = sorted(
        (row["partition"], row["base_offset"], row["last_offset"], row["producer_id"],
         row["max_timestamp_ms"], str(row["control_type"]))
        for row in capture.batches
        if row["base_offset"] <= positions.get(row["partition"], -1)
    )  # fmt: skip
    return blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest()


class _GroupContext:
    """Inputs besides a consumer group's own records that affect its output rows.

    If they change, the group must be replayed although it has no new records.

    Args:
        states: the cluster metadata over time.
        around: information that the log lacks, such as the session timeout and coordinator moves.
    """

    def __init__(self, states: Sequence[Mapping[str, Any]], around: LogContext) -> None:
        clusters = ClusterHistory(states)
        self._around = around
        ordered = sorted(states, key=lambda one: one["ts_ms"])
        texts = ((one["ts_ms"], json.dumps(one, sort_keys=True)) for one in ordered)
        self._metadata = MetadataDigests(texts)
        topics = list(zip(clusters.index.topics, clusters.index.ids, strict=True))
        #: A name or a rack that is learnt later is used for the past too.
        self._everywhere = repr((topics, sorted(clusters.racks_by_broker().items())))
        self._topic_ids = frozenset(clusters.index.ids)

    def has_topic_id(self, topic_ids: Iterable[str]) -> bool:
        """Return whether the cluster metadata has a name for at least one of the topic ids.

        A stored history in which these topics had no names must then be rebuilt.
        """
        return not self._topic_ids.isdisjoint(topic_ids)

    def history_digest(self, record_ranges: Mapping[str, Any]) -> str:
        """Return a digest of the cluster metadata and coordinator moves that a group's history
        uses.

        If it differs from the last run's digest, the stored history cannot be continued. Unlike
        `context_digest`, it leaves out metadata that only simulations use. ``record_ranges`` are
        the log partitions and the time span of the group's records.
        """
        _, last_ms = record_ranges["ms"] or (0, 0)
        until_ms = last_ms + _HISTORY_AHEAD_MS
        metadata = self._metadata.digest_until(until_ms)
        return self._digest(metadata.hex(), record_ranges, until_ms)

    def context_digest(self, record_ranges: Mapping[str, Any]) -> str:
        """Return a digest of the cluster metadata and coordinator moves that affect a consumer
        group.

        If it differs from the last run's digest, the group must be replayed again.
        ``record_ranges`` are the log partitions and the time span of the group's records.
        """
        _, last_ms = record_ranges["ms"] or (0, 0)
        until_ms = last_ms + _AHEAD_MS
        metadata = self._metadata.digest_until(until_ms, AHEAD_STATES)
        return self._digest((self._everywhere, metadata.hex()), record_ranges, until_ms)

    def _digest(self, metadata: object, record_ranges: Mapping[str, Any], until_ms: int) -> str:
        """Return a digest of the metadata, coordinator moves and clock errors that affect a group.

        It covers the group's log partitions, up to the time ``until_ms``.
        """
        around = self._around
        first_ms, last_ms = record_ranges["ms"] or (0, 0)
        span = around.span
        is_inside = span is not None and span[0] <= first_ms and last_ms <= span[1]
        moves = [
            (move.position, move.time_ms, move.before, move.epoch)
            for partition in record_ranges["log_partitions"]
            for move in around.moves.get(partition, ())
            if move.time_ms <= until_ms
        ]
        wrong = [
            around.clocks.wrong.get(partition) for partition in record_ranges["log_partitions"]
        ]
        parts = (
            metadata, moves, wrong, None if is_inside else span, around.session_timeout_ms,
            around.initial_delay_ms,
        )  # fmt: skip
        return blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _distinct_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each pair of group and log partition that occurs in one Spark task's rows, once."""
    import pyarrow as pa

    found: set[tuple[str, int]] = set()
    names = ["group", "log_partition"]
    for batch in batches:
        pairs = pa.Table.from_batches([batch.select(names)]).group_by(names).aggregate([])
        found.update(zip(*(pairs[name].to_pylist() for name in names), strict=True))
    ordered = sorted(found)
    cells = [pa.array([pair[0] for pair in ordered], pa.string()),
             pa.array([pair[1] for pair in ordered], pa.int32())]  # fmt: skip
    yield pa.RecordBatch.from_arrays(cells, names=names)


@dataclass(frozen=True)
class _Copies:
    """Files of an earlier run, from which the rows of some groups are copied to new files.

    Attributes:
        task: part of the name of the new files.
        files: dict from (table, path) of a file to the groups whose rows are copied.
    """

    task: str
    files: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)


def _copy_group_rows(
    destination: tuple[str, str], copies: Sequence[_Copies], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Copy the output rows of some consumer groups from files of an earlier run, in a Spark task.

    Args:
        destination: output folder and id of this run.
        copies: the files and groups to copy.
        numbers: batches with the task's number; its value is not used.
    """
    for _ in numbers:
        for one in copies:
            yield receipts_batch(_copy_files(destination, one))


def _copy_files(destination: tuple[str, str], copies: _Copies) -> list[tuple[str, str]]:
    """Copy the rows of some groups from files of an earlier run to files of this run.

    Return the result rows of the task, which describe the new files. ``destination`` is the output
    folder and the id of this run.
    """
    import pyarrow as pa
    from pyarrow import compute as pc
    from pyarrow import parquet

    with closing(TableWriters(*destination, f"{copies.task}{task_name()}")) as writers:
        for (table, path), groups in copies.files.items():
            wanted = pa.array(groups, pa.string())
            for batch in parquet.ParquetFile(path).iter_batches():
                rows = batch.filter(pc.is_in(batch.column("group"), wanted))
                if rows.num_rows:
                    writers.add_table(table, pa.Table.from_batches([rows]))
        lines = [("file", json.dumps(asdict(one))) for one in writers.close_with_receipts()]
        names = sorted({name for groups in copies.files.values() for name in groups})
        part = {"name": writers.file_name, "groups": names}
    return [*lines, ("part", json.dumps(part))]
