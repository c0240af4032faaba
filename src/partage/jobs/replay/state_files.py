"""The state that an appending run stores on disk, from which the next run continues.

```
OUT/runs/<run_id>/state.json           settings, input files, tallies, groups; `ReplayState`
OUT/state/<run_id>/decoded-*.parquet   rows of the decode job (group records, runs of commits)
OUT/state/<run_id>/open.parquet        undecoded offset commits of open transactions
OUT/state/<run_id>/history-*.spill     histories of groups (`spill_files`)
OUT/state/<run_id>/rebalances-*.memo   results of simulations (`stored_results`)
```

All files are written before the run's manifest, so that a published run has a complete state.
Decoded rows are sorted by group, so a reader can skip row groups of other groups. An appending run
adds files and keeps those of earlier runs; every eighth run merges them.
"""

from __future__ import annotations

import json
import marshal
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import partage
from partage.errors import InvalidConfigError
from partage.history.commit_kernels import RUN
from partage.jobs.replay.decoded_rows import OUT_COLUMNS, DecodedKind
from partage.jobs.replay.histories import RECEIPT_DDL, receipts_batch, sorted_by_group
from partage.jobs.replay.output import STATE, task_name
from partage.jobs.replay.selection import Selection
from partage.jobs.replay.spill_files import StoredHistory
from partage.jobs.replay.stored_results import StoredSimulation
from partage.runs.published_run import MANIFEST

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.replay.capture import Capture
    from partage.jobs.replay.engines import LazyRows, ReplayEngine

__all__ = [
    "STREAM",
    "ReplayState",
    "StaleStateError",
    "discard_state",
    "group_rows_of",
    "newest_state",
    "read_decoded",
    "read_open_commits",
    "read_stream",
    "remove_stale_state",
    "state_folder",
    "write_decoded",
    "write_open_commits",
]

#: Raised when what is stored, or its meaning, changes. Version 6: histories of groups, and rows of
#: ``streams_settings``. Version 7: assignments of Faust groups without standbys.
VERSION = 7
_FOLDER = "state"
#: Key of `ReplayState.positions` for the newest micro-batch that was read of a stream.
STREAM = -1
#: Rows of a row group: a reader skips those without a wanted group.
_ROW_GROUP = 20_000


class StaleStateError(Exception):
    """Internal error: a run cannot continue the last run in the output folder.

    The message is the reason, for example other options. All records are then read again.
    """


def _format_versions() -> dict[str, str]:
    """Return the versions of software and row layout on which the format of stored state depends.

    State that was stored with other versions is not used.
    """
    python = ".".join(platform.python_version_tuple()[:2])
    layout = blake2b(repr((OUT_COLUMNS, RUN)).encode(), digest_size=4).hexdigest()
    return {
        "partage": partage.__version__, "python": python, "marshal": str(marshal.version),
        "layout of stored rows": layout,
    }  # fmt: skip


@dataclass
class ReplayState:
    """State that a run of `partage replay --append` stores, so that the next run can continue it.

    Stored rows are not included: they are in separate files, which the state names.

    Attributes:
        settings: policies, selection and other options, by name.
        files: dict from input file (relative to the capture) to its rows, size, time, digest of its
            Parquet footer, and digests of its records by log partition.
        positions: dict from log partition to the highest offset that was read. A stream's folder
            has the newest micro-batch under `STREAM` instead.
        batches: digest of the transactional batches up to these positions; None without the file.
        tally: counts of the decoded records, as `RecordTally.to_json` writes them.
        decoded: files with decoded rows, relative to the output folder.
        open_commits: file with offset commits of open transactions; None without any.
        receipts: the files of the run's tables (`Receipt`).
        parts: dict from name of a worker's files to groups with rows in them.
        groups: dict from group to its totals and what its rows depend on.
        software: versions of Partage and Python.
    """

    settings: dict[str, Any]
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    batches: str | None = None
    tally: str = ""
    decoded: list[str] = field(default_factory=list)
    open_commits: str | None = None
    receipts: list[dict[str, Any]] = field(default_factory=list)
    parts: dict[str, list[str]] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    software: dict[str, str] = field(default_factory=_format_versions)

    def to_json(self) -> dict[str, Any]:
        """Return the state of the run as a dict, which is written to ``state.json``.

        `of_json` restores it in the next run.
        """
        return {"version": VERSION, **vars(self)}

    @classmethod
    def of_json(cls, values_read: Any, settings: Mapping[str, Any]) -> ReplayState:
        """Restore the stored state of an earlier run, and check that this run can continue it.

        Args:
            values_read: content of ``state.json``.
            settings: options of this run, by name.

        Raises:
            StaleStateError: the state is of another version, or the settings differ.
        """
        version = values_read.get("version") if isinstance(values_read, dict) else None
        if version != VERSION:
            raise StaleStateError(f"its state has version {version}, this Partage has {VERSION}")
        try:
            values = {name: value for name, value in values_read.items() if name != "version"}
            state = cls(**values)
            state.positions = {int(p): int(offset) for p, offset in state.positions.items()}
        except (TypeError, ValueError, AttributeError) as e:
            raise StaleStateError(f"its state is damaged ({type(e).__name__})") from None
        for now, before in ((_format_versions(), state.software), (settings, state.settings)):
            for name, value in now.items():
                if before.get(name) != value:
                    was = before.get(name)
                    raise StaleStateError(f"{name} differs: it was {was!r}, now it is {value!r}")
        return state

    def file_paths(self) -> Iterator[str]:
        """Yield the paths of all files that this stored state needs, relative to the output folder.

        If one of them is missing, the run cannot be continued.
        """
        yield from self.decoded
        if self.open_commits is not None:
            yield self.open_commits
        yield from (one["path"] for one in self.receipts)
        for group in self.groups.values():
            yield from dict.fromkeys(block[0] for block in group["memo"])
            if group["streams"] is not None:
                yield group["streams"][0]
            if group["history"] is not None:
                yield from StoredHistory.from_json_fields(group["history"]).file_paths()
            for one in group["simulations"].values():
                yield from dict.fromkeys(StoredSimulation.from_json_fields(one).file_paths())


def newest_state(out: Path, settings: Mapping[str, Any]) -> tuple[str, ReplayState] | None:
    """Return the id and the stored state of the newest published run in an output folder.

    The result is None if the folder has no run. ``settings`` are the options of this run, by name.

    Raises:
        StaleStateError: the run cannot be continued with these settings.
    """
    try:
        run_id = json.loads((out / MANIFEST).read_bytes())["run_id"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise StaleStateError(f"its manifest cannot be read ({e})") from None
    try:
        found = json.loads((out / "runs" / str(run_id) / STATE).read_bytes())
    except FileNotFoundError:
        raise StaleStateError("it was made without --append") from None
    except (OSError, ValueError, RecursionError) as e:
        raise StaleStateError(f"its state cannot be read ({type(e).__name__})") from None
    state = ReplayState.of_json(found, settings)
    missing = next((path for path in state.file_paths() if not (out / path).is_file()), None)
    if missing is not None:
        raise StaleStateError(f"its file {missing} is missing")
    return str(run_id), state


def state_folder(run_id: str) -> str:
    """Return the folder of a run's stored rows and results, relative to the output folder.

    The next run with ``--append`` reads them.
    """
    return f"{_FOLDER}/{run_id}"


def remove_stale_state(out: Path, state: ReplayState | None) -> None:
    """Remove stored files of earlier runs that the newest state does not need.

    Nothing is removed while another run works in the output folder, since it may need the files.

    Args:
        out: the output folder.
        state: the newest state; None if no state is needed.
    """
    if len([*(out / "running").glob("*.json")]) > 1:
        return
    needed = set() if state is None else {out / path for path in state.file_paths()}
    for path in (out / _FOLDER).glob("*/*"):
        if path not in needed:
            path.unlink(missing_ok=True)
    for folder in [*(out / _FOLDER).glob("*"), out / _FOLDER]:
        with suppress(OSError):  # it is not empty, or not there
            folder.rmdir()


def discard_state(out: Path, run_id: str) -> None:
    """Remove the state files of a run that has failed.

    A successful run keeps these files, so that the next run with ``--append`` can continue it.
    ``out`` is the output folder.
    """
    shutil.rmtree(out / _FOLDER / run_id, ignore_errors=True)
    with suppress(OSError):
        (out / _FOLDER).rmdir()


# -- decoded rows ------------------------------------------------------------------------------


def group_rows_of(rows: LazyRows) -> LazyRows:
    """Return only the decoded rows that are group records or offset commits.

    Other rows, such as record counts, are left out. Group histories are rebuilt from the result.
    """
    return rows.filter_kinds(DecodedKind.GROUP_RECORD, DecodedKind.COMMIT_RUNS)


def write_decoded(rows: LazyRows, out: Path, run_id: str) -> list[str]:
    """Store decoded log records for the next run, sorted by group.

    Only group records and offset commits are stored. Return the paths of the files, relative to the
    output folder.
    """
    job = partial(_write_task, str(out), run_id)
    found = sorted_by_group(group_rows_of(rows)).apply_job(job, RECEIPT_DDL)
    return sorted(text for _, text in found.collect_columns("what", "text"))


def _write_task(
    out: str, run_id: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    from pyarrow import parquet

    path = Path(_FOLDER) / run_id / f"decoded-{task_name()}-{uuid4().hex[:8]}.parquet"
    writer = None
    for batch in batches:
        if writer is None:
            (Path(out) / path).parent.mkdir(parents=True, exist_ok=True)
            writer = parquet.ParquetWriter(
                Path(out) / path, batch.schema, compression="zstd", write_page_checksum=True
            )
        writer.write_batch(batch, row_group_size=_ROW_GROUP)
    if writer is not None:
        writer.close()
        yield receipts_batch([("decoded", path.as_posix())])


def read_decoded(
    engine: ReplayEngine, out: Path, paths: Sequence[str], groups: frozenset[str] | None = None
) -> LazyRows:
    """Return decoded rows that earlier runs have stored, so that old records are not decoded again.

    The rows are read when they are used.

    Args:
        engine: schedules the job.
        out: the output folder.
        paths: the files, relative to the folder.
        groups: the groups whose rows to return; None for all.
    """
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in OUT_COLUMNS.items())
    files = tuple(str(out / path) for path in paths)
    return engine.run_job(partial(_read_task, files, groups), len(files), len(files), ddl)


def _read_task(
    files: tuple[str, ...], groups: frozenset[str] | None, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import compute as pc
    from pyarrow import parquet

    wanted = None if groups is None else pa.array(sorted(groups), pa.string())
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            file = parquet.ParquetFile(files[number], page_checksum_verification=True)
            chosen = [i for i in range(file.num_row_groups) if _may_contain(file, i, groups)]
            for some in file.iter_batches(_ROW_GROUP, chosen) if chosen else ():
                is_wanted = wanted is None or pc.is_in(some.column("group"), wanted)
                rows = some if wanted is None else some.filter(is_wanted)
                if rows.num_rows:
                    yield rows


def read_stream(engine: ReplayEngine, capture: Capture, selection: Selection) -> LazyRows:
    """Return the decoded rows that `partage watch` has written, instead of decoding records.

    The rows are read when they are used. Rows that an earlier run has read are left out.

    Raises:
        InvalidConfigError: the selection has an end, which would cut packed rows.
    """
    if selection.to_ms is not None:
        what = "is not available for the output of partage watch; replay a capture"
        raise InvalidConfigError("--to", what, selection.to_ms)
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in OUT_COLUMNS.items())
    files = tuple(map(str, capture.decoded or ()))
    after = (capture.known or {}).get(STREAM, -1)
    job = partial(_stream_task, files, after, selection)
    return engine.run_job(job, len(files), min(len(files), 4 * engine.cores), ddl)


def _stream_task(
    files: tuple[str, ...],
    after: int,
    selection: Selection,
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import compute as pc
    from pyarrow import parquet

    for batch in numbers:
        for number in batch.column(0).to_pylist():
            file = parquet.ParquetFile(files[number], page_checksum_verification=True)
            for some in file.iter_batches(_ROW_GROUP):
                rows = some.filter(pc.greater(some.column("batch"), after))
                if selection.groups:
                    names = rows.column("group").to_pylist()
                    wanted = [name is None or selection.includes_group(name) for name in names]
                    rows = rows.filter(pa.array(wanted, pa.bool_()))
                if rows.num_rows:
                    yield rows.select(list(OUT_COLUMNS))


def _may_contain(file: Any, row_group: int, groups: frozenset[str] | None) -> bool:
    """Return whether a row group of a Parquet file may have rows of the given consumer groups.

    The group ids are compared with the minimum and maximum in the file's statistics. A row group
    that cannot contain them is not read.
    """
    column = file.schema_arrow.names.index("group")
    found = file.metadata.row_group(row_group).column(column).statistics
    if groups is None or found is None or not found.has_min_max:
        return True
    return any(found.min <= group <= found.max for group in groups)


# -- commits of open transactions --------------------------------------------------------------

_PLACE = {"partition": "log_partition", "offset": "log_offset"}
_RECORD = ("partition", "offset", "timestamp_ms", "key", "value")


def write_open_commits(rows: LazyRows, out: Path, run_id: str) -> str | None:
    """Store the undecoded offset commits of open transactions, for the next run.

    The next run decodes them again, because their transactions may have ended by then. Return the
    path of the file relative to the output folder; None if no transaction is open.

    Args:
        rows: rows of the decode job.
        out: the output folder.
        run_id: id of this run.
    """
    import pyarrow as pa
    from pyarrow import parquet

    names = [_PLACE.get(name, name) for name in _RECORD]
    found = rows.filter_kinds(DecodedKind.OPEN_COMMIT).collect_columns(*names)
    if not found:
        return None
    kinds = (pa.int64(), pa.int64(), pa.int64(), pa.binary(), pa.binary())
    columns = [pa.array([row[i] for row in found], kind) for i, kind in enumerate(kinds)]
    path = Path(_FOLDER) / run_id / "open.parquet"
    (out / path).parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(dict(zip(_RECORD, columns, strict=True))), out / path)
    return path.as_posix()


def read_open_commits(out: Path, path: str) -> pa.Table:
    """Read the offset commits of open transactions that an earlier run has stored.

    The result has the columns of a capture's records. ``path`` is relative to the output folder.
    """
    from pyarrow import parquet

    return parquet.ParquetFile(out / path).read()
