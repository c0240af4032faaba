"""`partage replay`: from a capture to published tables. This file is the table of contents."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import partage
from partage.errors import InvalidConfigError, MissingExtraError
from partage.pipeline.progress import Progress, Stages
from partage.pipeline.summary import Summary, summarised
from partage.pipeline.write import Receipt, TableWriters, discard, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from partage.groups.api import Strategy
    from partage.pipeline.capture import Capture
    from partage.pipeline.tally import Tally

__all__ = ["replay"]

#: Below this many records Spark itself has so little to do that it need not be compiled well.
_BRIEF_RECORDS = 5_000_000


def replay(
    capture: str | Path,
    out: str | Path,
    *,
    strategies: Sequence[str | Strategy] | None = None,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Replay a recorded cluster's classic groups through every strategy, and publish tables.

    Args:
        capture: the folder of a capture.
        out: the output folder; made if it is not there. Earlier runs in it stay.
        strategies: names or strategies; None takes every one that the registry has.
        spark: a session of yours, which stays open; None starts one in this process.
        progress: called with (stage, done, total), from other threads too.

    Returns:
        What is in ``summary.json``.

    Raises:
        InvalidCaptureError: the capture cannot be used; says which file and column.
        InvalidConfigError: the output folder cannot be made, or not be written.
        UnknownStrategyError: the registry has no such strategy.
        MissingExtraError, MissingJavaError: Spark cannot be started.
        SparkFailedError: one of Spark's processes was killed.
        AccountingError: the run does not add up; nothing is published.
    """
    _expect_arrow()
    from partage.pipeline.capture import open_capture
    from partage.pipeline.failures import jvm_watched, workers_watched
    from partage.pipeline.session import session

    stages = Stages(progress)
    started = _now_ms()
    with stages.stage("check"):
        names = _names(strategies)
        source = open_capture(capture)
        run = _Run(_run_id(), _folder(Path(out).absolute()), started, names)
    with jvm_watched(), ExitStack() as opened:
        # Before the session, so that it runs after its end: until then tasks may still write.
        opened.push(partial(_discard_on_error, run))
        with stages.stage("start Spark"):
            brief = (source.records or _BRIEF_RECORDS) < _BRIEF_RECORDS
            running = opened.enter_context(session(spark, brief=brief))
        with workers_watched(run.out):
            tally, receipts, groups = _jobs(running, source, run, stages)
        with stages.stage("publish"), workers_watched(run.out):
            found = summarised(source, tally, receipts, groups)
            head = _head(source, run, running.version)
            receipts.append(_run_row(run, head, found))
            summary = {**head, "seconds": dict(stages.seconds), **found}
            publish(run.out, run.id, receipts, summary)
    return summary


@dataclass(frozen=True)
class _Run:
    """What one run is: its id, where it writes, when it began, which strategies it runs."""

    id: str
    out: Path
    started_ms: int
    strategies: tuple[str | Strategy, ...]


def _discard_on_error(run: _Run, kind: object, *_: object) -> None:
    """What a failed run has written is of no use to anybody."""
    if kind is not None:
        discard(run.out, run.id)


def _jobs(
    spark: SparkSession, source: Capture, run: _Run, stages: Stages
) -> tuple[Tally, list[Receipt], list[str]]:
    """The Spark part: decode once, keep it, and make the tables from what was kept."""
    from partage.pipeline.decode import Kind, decode_job
    from partage.pipeline.histories import bad_records_job, histories_job
    from partage.pipeline.tally import Tally

    tally = Tally()
    tasks = max(4, 4 * spark.sparkContext.defaultParallelism)
    decoded = decode_job(spark, source).persist()
    states = spark.sparkContext.broadcast(tuple(json.dumps(s) for s in source.states))
    try:
        with stages.stage("decode", spark):
            for row in decoded.where(f"kind = {int(Kind.TALLY)}").select("text").collect():
                tally.add(Tally.of_json(row.text))
        with stages.stage("replay", spark):
            job = histories_job(
                decoded, states, run.strategies, out=str(run.out), run_id=run.id, tasks=tasks
            )
            receipts, groups = _received(job)
        if tally.bad:
            with stages.stage("bad records", spark):
                bad = bad_records_job(decoded, out=str(run.out), run_id=run.id, tasks=tasks)
                receipts += _received(bad)[0]
    finally:
        decoded.unpersist()
        states.destroy()
    return tally, receipts, groups


def _received(job: DataFrame) -> tuple[list[Receipt], list[str]]:
    rows = job.collect()
    files = [Receipt(**json.loads(r.text)) for r in rows if r.what == "file"]
    return files, [r.text for r in rows if r.what == "group"]


def _names(strategies: Sequence[str | Strategy] | None) -> tuple[str | Strategy, ...]:
    """Known names before anything heavy starts: a misspelt one is an error at once."""
    from partage.deciding import several_owners
    from partage.groups import registry

    if strategies is None:  # a plug-in that cannot be loaded is told of by `describe`
        described = (row for row in registry.describe() if not registry.is_dialect(row.name))
        usable = (row.name for row in described if row.problem is None)
        return tuple(name for name in usable if not several_owners(registry.find(name)))
    for strategy in strategies:
        registry.find(strategy)
    return tuple(strategies)


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InvalidConfigError("out", f"cannot be made ({e.strerror})", str(out)) from None
    return out


def _expect_arrow() -> None:
    for library in ("pyarrow", "pyspark"):
        try:
            __import__(library)
        except ImportError:
            raise MissingExtraError(library, extra="spark") from None


def _run_id() -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime()) + "-" + uuid4().hex[:6]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _head(source: Capture, run: _Run, spark_version: str) -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "run_id": run.id,
        "capture": str(source.folder),
        "started_ms": run.started_ms,
        "versions": {
            "partage": partage.__version__,
            "python": platform.python_version(),
            "spark": spark_version,
            "pyarrow": version("pyarrow"),
        },
        "asked": [s if isinstance(s, str) else s.name for s in run.strategies],
    }


def _run_row(run: _Run, head: dict[str, Any], summary: Summary) -> Receipt:
    """The one row of table ``runs``."""
    accounting = summary["accounting"]
    with TableWriters(str(run.out), run.id, "driver") as writers:
        writers.add("runs", {
            "capture": head["capture"], "started_ms": head["started_ms"], "ended_ms": _now_ms(),
            "partage": partage.__version__, "records": accounting["records"],
            "decoded": accounting["decoded"], "bad": accounting["bad"],
            "settings": json.dumps({"strategies": head["asked"], **head["versions"]}),
            "coverage": json.dumps(summary["coverage"]),
        })  # fmt: skip
        return writers.finish()[0]
