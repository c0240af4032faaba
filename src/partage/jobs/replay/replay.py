"""`partage replay`: turn a capture into published tables. This is the entry point.

1. `open_capture` checks the input (`capture`, `records`).
2. `run_jobs` runs three jobs: `decode` decodes each record once, `histories` rebuilds each group's
   history and writes tables, `simulations` simulates the rebalances under other policies. Spark or
   this process runs them (`engines`).
3. `publish` makes the run visible (`output`), with its summary (`summary`).
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import partage
from partage.errors import InvalidConfigError, MissingExtraError
from partage.jobs.replay.append import Appender
from partage.jobs.replay.capture import context_of, open_capture, with_remote_files
from partage.jobs.replay.decode import CommitsTable, decode_job, worth_compiling
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.replay.engines import (
    EngineChoice,
    LazyRows,
    LocalEngine,
    ReplayEngine,
    SharedValue,
    SparkEngine,
    choose_engine,
    local_processes,
)
from partage.jobs.replay.histories import GroupFailure, HistoriesJob, bad_records_job, mark_failed
from partage.jobs.replay.inferred_metadata import inferred_states, with_earlier_states
from partage.jobs.replay.output import (
    Receipt,
    TableWriters,
    is_published,
    publish_run,
    remove_dead_locks,
    remove_late_files,
    remove_unpublished_files,
    run_lock,
)
from partage.jobs.replay.records import expect_no_duplicates, overlapping_partitions
from partage.jobs.replay.selection import EVERYTHING, Selection
from partage.jobs.replay.simulations import pack_tasks, simulations_job, work_units
from partage.jobs.replay.spill_files import SpilledHistory, remove_spill_files
from partage.jobs.replay.state_files import (
    StaleStateError,
    discard_state,
    read_stream,
    remove_stale_state,
    state_folder,
)
from partage.jobs.replay.streams_settings import read_streams_inputs
from partage.jobs.replay.summary import SimulationTotals, Summary, build_summary
from partage.jobs.replay.tally import RecordTally
from partage.jobs.spark.failures import job_errors, jvm_errors, write_errors
from partage.jobs.spark.progress import Progress, StageTimes
from partage.model.validation import expect_local
from partage.simulation.policies import Policy, default_policies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from partage.groups.api import Strategy
    from partage.jobs.replay.capture import Capture

__all__ = ["JobResults", "ReplayRun", "replay", "run_jobs"]


def replay(
    capture: str | Path,
    out: str | Path,
    *,
    policies: Sequence[str | Policy | Strategy] | None = None,
    strategies: Sequence[str | Strategy] | None = None,
    selection: Selection = EVERYTHING,
    raw_commits: bool = False,
    append: bool = False,
    engine: str = "spark",
    processes: int | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    kafka: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Replay the recorded rebalances of consumer groups under other policies, and publish tables.

    A policy is an assignment strategy with a group protocol and member options. The tables show the
    recorded history and what each policy would have done.

    Args:
        capture: the folder of a capture, Parquet files, a table that Spark reads, or a running
            cluster (``kafka://host:port``).
        out: the output folder; made if it is not there. Earlier runs in it stay.
        policies: names, strategies or policies; None (and no ``strategies``) takes
            `simulation.policies.DEFAULT_POLICIES`.
        strategies: more policies, each the preferred protocol of a strategy.
        selection: groups and times that the tables cover.
        raw_commits: whether to write table ``commits`` too, with a row for each commit that took
            effect.
        append: whether to continue the newest run of the folder: only new records are read, and the
            tables equal those of a full run. A run that cannot be continued is replaced by a full
            one; the notes of the summary have the reason.
        engine: ``spark``, ``local`` (this process, without Spark and Java), or ``auto``; see
            `engines.choose_engine`.
        processes: number of processes of engine ``local``; None for one per core, as far as the
            input is worth it. Tables do not depend on it.
        spark: a running session, which stays open; None starts one in this process.
        master: Spark's master for a session that is started here; None for ``local[*]``.
        conf: more settings of Spark.
        kafka: properties of the client for ``kafka://``, by Kafka's names.
        progress: called with (stage, done, total), from other threads too.

    Returns:
        The content of ``summary.json``.

    Raises:
        InvalidCaptureError: the capture cannot be used; the message names file and column.
        InvalidConfigError: the output folder cannot be created or written, a policy or a Spark
            setting is unknown, or the records of an appending run are no Parquet files.
        UnknownStrategyError: the registry has no such strategy.
        MissingExtraError, MissingJavaError: Spark cannot be started.
        SparkFailedError: one of Spark's processes was killed.
        AccountingError: the counts of records do not add up; nothing is published.
    """
    expect_local(out, "out")
    _expect_arrow()
    stages = StageTimes(progress)
    started = _now_ms()
    with stages.measure_stage("check"):
        chosen = _parse_policies(policies, strategies)
        source = open_capture(capture, kafka=kafka)
        choice = choose_engine(engine, source, spark=spark, master=master, conf=conf)
        if choice.name == "spark" and processes is not None:
            raise InvalidConfigError("--processes", "is for engine local", processes)
        count = local_processes(source, len(chosen), processes)
        where = _make_folder(Path(out).absolute())
        run = ReplayRun(_run_id(), where, started, chosen, selection, raw_commits)
    with ExitStack() as opened:
        _lock_run(run, opened)
        if choice.name == "local":
            opened.enter_context(write_errors(run.out))
            running: ReplayEngine = opened.enter_context(LocalEngine(count))
        else:
            started_spark = _start_spark_engine(
                source, run, stages, users_session=spark, master=master, conf=conf
            )
            running, source = opened.enter_context(started_spark)
        appender = Appender.for_run(run, source) if append else None
        try:
            done = run_jobs(running, source, run, stages, appender)
        except StaleStateError as e:
            if appender is None:
                raise
            _remove(run.out, run.id)
            appender = appender.without_last_run(str(e))
            done = run_jobs(running, source, run, stages, appender)
        with stages.measure_stage("publish"):
            head = _run_header(source, run, running, choice, done)
            return _publish_results(done, head, run, stages, appender)


@contextmanager
def _start_spark_engine(
    capture: Capture,
    run: ReplayRun,
    stages: StageTimes,
    *,
    users_session: SparkSession | None,
    master: str | None,
    conf: Mapping[str, str] | None,
) -> Iterator[tuple[SparkEngine, Capture]]:
    """Start a Spark session, or use the given one, and yield its engine and the opened capture.

    The metadata files of a capture in remote storage are downloaded first. Errors of Spark in the
    ``with`` block become Partage errors.

    Args:
        capture: the capture.
        run: the settings of the run.
        stages: measures the run's stages.
        users_session: the user's session; None starts one.
        master: Spark's master; None for the default.
        conf: the user's Spark settings.
    """
    from partage.jobs.spark.session import spark_session

    # Records in files are read by the workers: what Java then does is not worth compiling well.
    brief = capture.table is None
    with jvm_errors(), ExitStack() as opened:
        with stages.measure_stage("start Spark"):
            started = spark_session(users_session, is_short=brief, master=master, conf=conf)
            spark = opened.enter_context(started)
            capture = opened.enter_context(with_remote_files(spark, capture))
        with job_errors(run.out):
            yield SparkEngine(spark), capture


def _lock_run(run: ReplayRun, exit_stack: ExitStack) -> None:
    """Take the lock file of a replay run, and remove the files of killed runs.

    When ``exit_stack`` closes, the lock is released and the run's temporary files are removed.
    """
    # The lock is taken before the Spark session starts, so that it is released after the session
    # has ended: until then Spark tasks may still write.
    exit_stack.enter_context(run_lock(run.out, run.id))
    for dead in remove_dead_locks(run.out):
        remove_spill_files(run.out, dead)
        if not is_published(run.out, dead):
            _remove(run.out, dead)
    exit_stack.push(partial(_remove_run_files, run))


def _publish_results(
    results: JobResults,
    first_fields: dict[str, Any],
    run: ReplayRun,
    stages: StageTimes,
    appender: Appender | None,
) -> Summary:
    """Publish the output tables and the summary of a replay run, and return the summary.

    Readers see a run only after it is published.

    Args:
        results: the results of the run's jobs.
        first_fields: the first fields of the summary.
        run: the settings of the run.
        stages: durations of the run's stages.
        appender: state of the last run, if this run continues it; otherwise None.
    """
    found, state = build_summary(results), None
    if appender is not None:
        state = appender.build_state(results)
        notes = [*first_fields.get("notes", ()), appender.append_message(results)]
        first_fields = {**first_fields, "notes": notes, "append": appender.append_counts(results)}
    results.receipts.append(_write_run_row(run, first_fields, found))
    summary = {**first_fields, "seconds": dict(stages.seconds), **found}
    publish_run(
        run.out, run.id, results.receipts, summary, None if state is None else state.to_json()
    )
    remove_stale_state(run.out, state)
    return summary


def _remove_run_files(run: ReplayRun, error_type: object, *_: object) -> None:
    """Remove the temporary files of a replay run at its end, and all of its files if it has failed.

    ``error_type`` is the type of the exception that ended the run; None if it succeeded.
    """
    if error_type is None:
        remove_spill_files(run.out, run.id)
        remove_late_files(run.out, run.id)
    else:
        _remove(run.out, run.id)


def _remove(out: Path, run_id: str) -> None:
    remove_spill_files(out, run_id)
    remove_unpublished_files(out, run_id)
    discard_state(out, run_id)


def _parse_policies(
    policies: Sequence[str | Policy | Strategy] | None,
    strategies: Sequence[str | Strategy] | None,
) -> tuple[Policy, ...]:
    """Parse the policies to simulate; return the default policies if the user gives none.

    Args:
        policies: names of policies or strategies, or policy objects; None for none.
        strategies: assignment strategies, each simulated with its preferred protocol; or None.

    Raises:
        UnknownStrategyError: no strategy has this name.
        InvalidConfigError: a policy is malformed.
    """
    if policies is None and strategies is None:
        return default_policies()
    asked = [Policy.of(one) for one in [*(policies or ()), *(strategies or ())]]
    return tuple({one.name: one for one in asked}.values())


def _make_folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InvalidConfigError("out", f"cannot be made ({e.strerror})", str(out)) from None
    return out


def _expect_arrow() -> None:
    try:
        __import__("pyarrow")
    except ImportError:
        raise MissingExtraError("pyarrow", extra="report") from None


def _run_id() -> str:
    # Ids are in the order of time: three hexadecimal digits are milliseconds, three are random.
    seconds, milliseconds = divmod(_now_ms(), 1_000)
    text = time.strftime("%Y%m%dT%H%M%S", time.gmtime(seconds))
    return f"{text}-{milliseconds:03x}{uuid4().hex[:3]}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _run_header(
    source: Capture, run: ReplayRun, engine: ReplayEngine, choice: EngineChoice, done: JobResults
) -> dict[str, Any]:
    from importlib.metadata import version

    unmatched = _list_unmatched_groups(done, run.selection)
    misspelt = (f"--group {name!r}: {_no_group(near)}." for name, near in unmatched.items())
    notes = [*source.notes, *filter(None, [choice.note]), *misspelt]
    spark = {"spark": engine.spark.version} if isinstance(engine, SparkEngine) else {}
    return {
        "run_id": run.id,
        "capture": str(source.folder),
        **({"selection": run.selection.as_json()} if not run.selection.is_unrestricted else {}),
        **({"unmatched_groups": unmatched} if unmatched else {}),
        **({"notes": notes} if notes else {}),
        "engine": {"name": engine.name, "reason": choice.reason},
        "started_ms": run.started_ms,
        "versions": {
            "partage": partage.__version__,
            "python": platform.python_version(),
            **spark,
            "pyarrow": version("pyarrow"),
        },
        "asked": [one.name for one in run.policies],
    }


def _write_run_row(run: ReplayRun, first_fields: dict[str, Any], summary: Summary) -> Receipt:
    """Write the row of output table ``runs`` that describes this run.

    Return a receipt: the table, path, number of rows and size of the file that was written.

    Args:
        run: the settings of the run.
        first_fields: first fields of the run's summary, such as versions.
        summary: the other fields, such as record counts.
    """
    accounting = summary["accounting"]
    with closing(TableWriters(str(run.out), run.id, "driver")) as writers:
        writers.write_row("runs", {
            "capture": first_fields["capture"], "started_ms": first_fields["started_ms"],
            "ended_ms": _now_ms(),
            "partage": partage.__version__, "records": accounting["records"],
            "decoded": accounting["decoded"], "bad": accounting["bad"],
            "settings": json.dumps({"policies": first_fields["asked"], **first_fields["versions"]}),
            "coverage": json.dumps(summary["coverage"]),
        })  # fmt: skip
        return writers.close_with_receipts()[0]


#: Tasks of the simulation job for each core, by engine: enough for all cores to end at about one
#: time. Each task writes files of its own; the groups of a small capture need fewer tasks.
_SIMULATION_TASKS_PER_CORE = {"spark": 16, "local": 4}


@dataclass(frozen=True)
class ReplayRun:
    """Settings of one run of `partage replay`.

    Attributes:
        id: id of the run, which begins with its start time.
        out: the output folder.
        started_ms: start time of the run.
        policies: the policies to simulate.
        selection: groups and times that the tables cover.
        raw_commits: whether to write table ``commits``.
    """

    id: str
    out: Path
    started_ms: int
    policies: tuple[Policy, ...]
    selection: Selection
    raw_commits: bool


@dataclass
class JobResults:
    """Results of all jobs of one replay, collected in the driver.

    The summary and the published tables are made from them.

    Attributes:
        capture: the input of the run.
        states: the cluster metadata that was used.
        inferred: whether the metadata was inferred from assignments and commits.
        tally: counts of the decoded records.
        receipts: the files that workers wrote.
        groups: JSON text of each group's totals (`GroupTotals.to_summary`).
        simulated: totals of the simulations.
        failed: dict from group to the exception that ended its replay.
        seen: dict from group to its log partitions, and first and last time of its records.
        parts: dict from name of a worker's files to groups with rows in them.
        stored_rebalances: dict from group to positions of its rebalances' stored results, for the
            next run.
        stored_streams: dict from group to the position of its stored rows of table
            ``streams_settings``, for the next run.
        stored_histories: dict from group to the position of its stored history, for the next run.
        stored_simulations: dict from group to policy to its stored simulation, for the next run.
        session_timeout_ms: the broker's session timeout, for members that send none; None if not
            known.
    """

    capture: Capture
    states: tuple[Mapping[str, Any], ...] = ()
    inferred: bool = False
    tally: RecordTally = field(default_factory=RecordTally)
    receipts: list[Receipt] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    simulated: SimulationTotals = field(default_factory=SimulationTotals)
    failed: dict[str, GroupFailure] = field(default_factory=dict)
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    parts: dict[str, list[str]] = field(default_factory=dict)
    stored_rebalances: dict[str, list[Any]] = field(default_factory=dict)
    stored_streams: dict[str, list[Any]] = field(default_factory=dict)
    stored_histories: dict[str, list[Any]] = field(default_factory=dict)
    stored_simulations: dict[str, dict[str, Any]] = field(default_factory=dict)
    session_timeout_ms: int | None = None


def run_jobs(
    engine: ReplayEngine,
    source: Capture,
    run: ReplayRun,
    stages: StageTimes,
    appender: Appender | None = None,
) -> JobResults:
    """Run the three jobs of a replay: decode records, rebuild group histories, simulate rebalances.

    Return the results of all jobs. With an ``appender``, the jobs only process what is new since
    the last run.

    Raises:
        InvalidCaptureError: a record occurs twice.
        InvalidConfigError: no group matches the selection.
        StaleStateError: the last run cannot be continued.
    """
    done = JobResults(source)
    out = str(run.out)
    with ExitStack() as held:
        with engine.measure_stage(stages, "decode"):
            decoded = _decode_capture(engine, source, run, done, exit_stack=held, appender=appender)
            every = decoded if appender is None else appender.metadata_rows(engine, decoded)
            if source.table is not None:
                source.table.expect_all(done.tally)
            done.inferred = not source.states
            if source.states:
                done.states = with_earlier_states(every, done.tally, source.states)
            else:
                done.states = inferred_states(every, done.tally)
        stages.report_count("records", done.tally.rows)
        states = engine.share_value(tuple(json.dumps(s) for s in done.states))
        held.callback(states.destroy)
        with engine.measure_stage(stages, "histories"):
            first_ms, last_ms, _ = done.tally.time_range()
            span = None if first_ms is None or last_ms is None else (first_ms, last_ms)
            clocks = done.tally.find_wrong_clocks()
            around = replace(context_of(source), span=span, clocks=clocks)
            done.session_timeout_ms = around.session_timeout_ms
            rows = decoded if appender is None else appender.group_rows(engine, done, around)
            job = HistoriesJob(
                states, run.selection, out, run.id, around,
                worth_compiling(done.tally.rows, engine.cores),
                None if appender is None else appender.history_store(),
            )  # fmt: skip
            kept = _add_results(job.process_rows(rows), done)
            if appender is not None and appender.idle_groups:
                kept += _add_results(job.process_idle_groups(engine, appender.idle_groups), done)
            if appender is None or appender.past is None:
                _expect_groups(done, run.selection)
        stages.report_count("rebalances", sum(one.rebalance_count for one in kept))
        if done.tally.bad:
            with engine.measure_stage(stages, "bad records"):
                _add_results(bad_records_job(decoded, out=out, run_id=run.id), done)
        with engine.measure_stage(stages, "replay"):
            if appender is not None:
                kept = appender.with_stored_results(kept)
            streams = engine.share_value(
                read_streams_inputs(source.beside or source.folder, done.groups)
            )
            held.callback(streams.destroy)
            _add_results(_simulate(engine, kept, run, (states, streams), appender), done)
            mark_failed(run.out, done)
            copied = None if appender is None else appender.keep_groups(engine, done)
            if copied is not None:
                _add_results(copied, done)
    return done


def _decode_capture(
    engine: ReplayEngine,
    capture: Capture,
    run: ReplayRun,
    results: JobResults,
    *,
    exit_stack: ExitStack,
    appender: Appender | None,
) -> LazyRows:
    """Run the job that decodes all records of the capture, and return its rows.

    If records may have been captured twice, they are decoded again in sorted order, to find
    duplicates.

    Args:
        engine: runs the job.
        capture: the capture.
        run: the settings of the run.
        results: results of the run, to which the counts of records are added.
        exit_stack: exit stack; the rows stay cached until it closes.
        appender: restricts the job to records that the last run has not read; None for all records.
    """
    # If offset ranges of the input overlap, the records are sorted and decoded once more, to detect
    # duplicates.
    raw = CommitsTable(str(run.out), run.id) if run.raw_commits else None
    unread = capture if appender is None else appender.source

    if capture.decoded is not None and raw is not None:
        what = "is not available for the output of partage watch; replay a capture"
        raise InvalidConfigError("--commits", what, True)

    def decode(*, sort: bool) -> LazyRows:
        if capture.decoded is None:
            rows = decode_job(engine, unread, run.selection, commits_table=raw, sort=sort)
        else:
            rows = read_stream(engine, unread, run.selection)
        if appender is not None:
            rows = appender.with_ended_transactions(engine, rows, raw)
        rows = rows.persist()
        exit_stack.callback(rows.unpersist)
        results.tally, results.receipts = (
            RecordTally() if appender is None else appender.earlier_tally(),
            [],
        )
        _add_tallies(rows, results)
        return rows

    decoded = decode(sort=False)
    if appender is not None:
        appender.check_input(decoded)
    if capture.decoded is None and overlapping_partitions(results.tally):
        decoded.unpersist()
        decoded = decode(sort=True)
        expect_no_duplicates(capture, results.tally)
    return decoded


def _expect_groups(results: JobResults, selection: Selection) -> None:
    """Raise an error if the user selected groups by name and the capture has none of them.

    Raises:
        InvalidConfigError: no group matches; the message suggests similar names.
    """
    if selection.groups and not results.groups:
        when = "" if selection.to_ms is None else " before --to"
        near = chain.from_iterable(_list_unmatched_groups(results, selection).values())
        what = _no_group(list(dict.fromkeys(near)), when)
        raise InvalidConfigError("--group", what, ", ".join(selection.groups))


def _list_unmatched_groups(results: JobResults, selection: Selection) -> dict[str, list[str]]:
    """Return the selected group names and patterns that match no group, each with similar group
    ids.

    The ids are suggestions for a message. ``results`` has the groups of the capture.
    """
    if not selection.groups:
        return {}
    known = [json.loads(text)["group"] for text in results.groups]
    return selection.unmatched_patterns(known, results.tally.unselected)


def _no_group(near: Sequence[str], when: str = "") -> str:
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return f"no group of the capture{when} has this name{hint}"


def _add_tallies(decoded: LazyRows, results: JobResults) -> None:
    """Add the results of all decoding tasks to those of the run: record counts and written files.

    ``decoded`` are the result rows of the job that decodes log records.
    """
    counts = decoded.filter_kinds(DecodedKind.TALLY, DecodedKind.RECEIPT)
    # All at once: an iterator of Spark's computes one part after the other, on one core. A tally
    # of so many thousand records is a few kilobytes.
    for kind, text in counts.collect_columns("kind", "text"):
        if kind == DecodedKind.TALLY:
            results.tally.add_tally(RecordTally.of_json(text))
        else:
            results.receipts.append(Receipt(**json.loads(text)))


def _simulate(
    engine: ReplayEngine,
    kept: list[SpilledHistory],
    run: ReplayRun,
    facts: tuple[SharedValue, SharedValue],
    appender: Appender | None,
) -> LazyRows:
    with_some = [one for one in kept if one.rebalance_count]
    work = work_units(with_some, policies=len(run.policies), cores=engine.cores)
    tasks = _SIMULATION_TASKS_PER_CORE[engine.name] * engine.cores
    shared = engine.share_value(pack_tasks(work, tasks=tasks))
    return simulations_job(
        engine, shared, *facts, run.policies,
        selection=run.selection, out=str(run.out), run_id=run.id,
        store=None if appender is None else state_folder(run.id),
    )  # fmt: skip


def _add_results(rows: LazyRows, results: JobResults) -> list[SpilledHistory]:
    """Add the result rows of a job, such as written files and failed groups, to the run's results.

    Return the positions of the groups' histories in spill files, which are temporary files for the
    simulation.
    """
    kept = []
    for what, text in rows.collect_columns("what", "text"):
        if what == "file":
            results.receipts.append(Receipt(**json.loads(text)))
        elif what == "group":
            results.groups.append(text)
        elif what == "simulated":
            results.simulated.merge_totals(text)
        elif what == "failed":
            failure = GroupFailure(**json.loads(text))
            results.failed.setdefault(failure.group, failure)
        elif what == "seen":
            seen = json.loads(text)
            results.seen[seen.pop("group")] = seen
        elif what == "part":
            part = json.loads(text)
            results.parts[part["name"]] = part["groups"]
        elif what == "stored rebalances":
            one = json.loads(text)
            results.stored_rebalances.setdefault(one["group"], []).extend(one["blocks"])
        elif what == "stored history":
            one = json.loads(text)
            results.stored_histories[one["group"]] = one["history"]
        elif what == "stored streams":
            one = json.loads(text)
            results.stored_streams[one["group"]] = one["block"]
        elif what == "stored simulations":
            one = json.loads(text)
            results.stored_simulations.setdefault(one["group"], {}).update(one["policies"])
        else:
            kept.append(SpilledHistory.from_json_fields(json.loads(text)))
    return kept
