"""The Spark part of a run: decode once, keep it, rebuild histories, live them again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidConfigError
from partage.jobs.replay.decode import decode_job, worth_compiling
from partage.jobs.replay.decoded_rows import Kind
from partage.jobs.replay.doubles import expect_no_doubles, overlapping
from partage.jobs.replay.failed_groups import GroupFailure, mark_failed
from partage.jobs.replay.histories import bad_records_job, histories_job
from partage.jobs.replay.inferred import inferred_states, with_earlier_states
from partage.jobs.replay.kept import Kept
from partage.jobs.replay.raw_commits import RawCommits
from partage.jobs.replay.simulations import lives_job
from partage.jobs.replay.surroundings import surroundings
from partage.jobs.replay.tally import Tally
from partage.jobs.replay.totals import SimulationTotals
from partage.jobs.replay.units import bundles, units
from partage.jobs.replay.write import Receipt

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

    from partage.jobs.replay.capture import Capture
    from partage.jobs.replay.selection import Selection
    from partage.jobs.spark.progress import Stages
    from partage.simulation.policies import Policy

__all__ = ["Done", "ReplayRun", "run_jobs"]

#: Tasks a core in the jobs that shuffle or live again: enough for all to end at one time.
_TASKS_A_CORE = 4
_TASKS_OF_LIVES = 16


@dataclass(frozen=True)
class ReplayRun:
    """What one run is: its id, where it writes, when it began, what it was asked."""

    id: str
    out: Path
    started_ms: int
    policies: tuple[Policy, ...]
    selection: Selection
    raw_commits: bool


@dataclass
class Done:
    """What the jobs give back.

    Attributes:
        capture: what was read.
        states: the cluster's metadata that was used.
        inferred: whether it was inferred from assignments and commits.
        tally: of the records.
        receipts: files that were written.
        groups: a line of JSON for each group (`GroupTotals.summary`).
        lives: totals of what was lived again.
        failed: group -> the exception that ended its replay.
        session_timeout_ms: the broker's, for members that send none; None if it is not known.
    """

    capture: Capture
    states: tuple[Mapping[str, Any], ...] = ()
    inferred: bool = False
    tally: Tally = field(default_factory=Tally)
    receipts: list[Receipt] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    lives: SimulationTotals = field(default_factory=SimulationTotals)
    failed: dict[str, GroupFailure] = field(default_factory=dict)
    session_timeout_ms: int | None = None


def run_jobs(spark: SparkSession, source: Capture, run: ReplayRun, stages: Stages) -> Done:
    """All jobs of a run, one after the other.

    Raises:
        InvalidCaptureError: records are there twice.
        InvalidConfigError: no group is called as the selection says.
    """
    done = Done(source)
    tasks = max(4, _TASKS_A_CORE * spark.sparkContext.defaultParallelism)
    out = str(run.out)
    with ExitStack() as held:
        with stages.stage("decode", spark):
            decoded = _decoded(spark, source, run, done, held)
            if source.table is not None:
                source.table.expect_all(done.tally)
            done.inferred = not source.states
            if source.states:
                done.states = with_earlier_states(decoded, done.tally, source.states)
            else:
                done.states = inferred_states(decoded, done.tally)
        stages.counted("records", done.tally.rows)
        states = spark.sparkContext.broadcast(tuple(json.dumps(s) for s in done.states))
        held.callback(states.destroy)
        with stages.stage("histories", spark):
            first_ms, last_ms, _ = done.tally.span()
            span = None if first_ms is None or last_ms is None else (first_ms, last_ms)
            around = surroundings(source.beside or source.folder)
            around = replace(around, span=span, clocks=done.tally.clocks())
            done.session_timeout_ms = around.session_timeout_ms
            job = histories_job(
                decoded, states, run.selection, out=out, run_id=run.id, tasks=tasks,
                around=around,
                many=worth_compiling(done.tally.rows, spark.sparkContext.defaultParallelism),
            )  # fmt: skip
            kept = _received(job, done)
            _expect_groups(done, run.selection)
        stages.counted("rebalances", sum(one.rebalances for one in kept))
        if done.tally.bad:
            with stages.stage("bad records", spark):
                _received(bad_records_job(decoded, out=out, run_id=run.id, tasks=tasks), done)
        with stages.stage("replay", spark):
            _received(_lives(spark, kept, run, states), done)
            mark_failed(run.out, done)
    return done


def _decoded(
    spark: SparkSession, source: Capture, run: ReplayRun, done: Done, held: ExitStack
) -> DataFrame:
    """The decoded rows, counted, and kept for as long as ``held`` lasts.

    Records that files have in another order than the log are sorted, and decoded once more.
    """
    raw = RawCommits(str(run.out), run.id) if run.raw_commits else None
    decoded = decode_job(spark, source, run.selection, raw=raw).persist()
    held.callback(decoded.unpersist)
    _counted(decoded, done)
    expect_no_doubles(spark, source, done.tally)
    if overlapping(done.tally):
        decoded.unpersist()
        decoded = decode_job(spark, source, run.selection, raw=raw, sort=True).persist()
        held.callback(decoded.unpersist)
        done.tally, done.receipts = Tally(), []
        _counted(decoded, done)
    return decoded


def _expect_groups(done: Done, selection: Selection) -> None:
    """A pattern that no group has is most often misspelt; an empty result would not tell."""
    if selection.groups and not done.groups:
        when = "" if selection.to_ms is None else " before --to"
        what = f"no group of the capture{when} is called so"
        raise InvalidConfigError("--group", what, ", ".join(selection.groups))


def _counted(decoded: DataFrame, done: Done) -> None:
    """Tallies of all slices, and files of raw commits."""
    told = decoded.where(f"kind in ({int(Kind.TALLY)}, {int(Kind.RECEIPT)})")
    # All at once: an iterator of Spark's computes one part after the other, on one core. A tally
    # of so many thousand records is a few kilobytes.
    for row in told.select("kind", "text").collect():
        if row.kind == Kind.TALLY:
            done.tally.add(Tally.of_json(row.text))
        else:
            done.receipts.append(Receipt(**json.loads(row.text)))


def _lives(
    spark: SparkSession, kept: list[Kept], run: ReplayRun, states: Broadcast[Any]
) -> DataFrame:
    cores = spark.sparkContext.defaultParallelism
    with_some = [one for one in kept if one.rebalances]
    work = units(with_some, policies=len(run.policies), cores=cores)
    shared = spark.sparkContext.broadcast(bundles(work, tasks=_TASKS_OF_LIVES * cores))
    return lives_job(
        spark, shared, states, run.policies,
        selection=run.selection, out=str(run.out), run_id=run.id,
    )  # fmt: skip


def _received(job: DataFrame, done: Done) -> list[Kept]:
    """What tasks returned: files, totals, and where histories are."""
    kept = []
    for row in job.collect():
        if row.what == "file":
            done.receipts.append(Receipt(**json.loads(row.text)))
        elif row.what == "group":
            done.groups.append(row.text)
        elif row.what == "lives":
            done.lives.merge(row.text)
        elif row.what == "failed":
            failure = GroupFailure(**json.loads(row.text))
            done.failed.setdefault(failure.group, failure)
        else:
            kept.append(Kept.of(json.loads(row.text)))
    return kept
