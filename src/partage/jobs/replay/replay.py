"""`partage replay`: from a capture to published tables. This file is the table of contents."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import partage
from partage.capture.durable import expect_local
from partage.errors import InvalidConfigError, MissingExtraError
from partage.jobs.replay.kept import forget
from partage.jobs.replay.output_locks import clear_the_dead, lodged, published
from partage.jobs.replay.selection import EVERYTHING, Selection
from partage.jobs.replay.stages import Done, ReplayRun, run_jobs
from partage.jobs.replay.summary import Summary, summarised
from partage.jobs.replay.write import Receipt, TableWriters, discard, publish
from partage.jobs.spark.progress import Progress, Stages
from partage.simulation.policies import Policy, default_policies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from partage.groups.api import Strategy
    from partage.jobs.replay.capture import Capture

__all__ = ["replay"]


def replay(
    capture: str | Path,
    out: str | Path,
    *,
    policies: Sequence[str | Policy | Strategy] | None = None,
    strategies: Sequence[str | Strategy] | None = None,
    selection: Selection = EVERYTHING,
    raw_commits: bool = False,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    kafka: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Replay a recorded cluster's groups under other policies, and publish tables.

    Args:
        capture: the folder of a capture, Parquet files, a table that Spark reads, or a running
            cluster (``kafka://host:port``).
        out: the output folder; made if it is not there. Earlier runs in it stay.
        policies: names, strategies or policies; None (and no ``strategies``) takes
            `simulation.policies.DEFAULT_POLICIES`.
        strategies: more policies, each the preferred protocol of a strategy.
        selection: groups and times that the tables are about.
        raw_commits: write table ``commits`` too, a row for each commit that took effect.
        spark: a session of yours, which stays open; None starts one in this process.
        master: Spark's master for a session of ours; None for ``local[*]``.
        conf: more settings of Spark.
        kafka: properties of the client for ``kafka://``, by Kafka's names.
        progress: called with (stage, done, total), from other threads too.

    Returns:
        What is in ``summary.json``.

    Raises:
        InvalidCaptureError: the capture cannot be used; says which file and column.
        InvalidConfigError: the output folder cannot be made, or not be written; or a policy
            or a setting of Spark is no such.
        UnknownStrategyError: the registry has no such strategy.
        MissingExtraError, MissingJavaError: Spark cannot be started.
        SparkFailedError: one of Spark's processes was killed.
        AccountingError: the run does not add up; nothing is published.
    """
    expect_local(out, "out")
    _expect_arrow()
    from partage.jobs.replay.capture import open_capture
    from partage.jobs.spark.failures import jvm_watched, workers_watched
    from partage.jobs.spark.remote import with_remote_files
    from partage.jobs.spark.session import session

    stages = Stages(progress)
    started = _now_ms()
    with stages.stage("check"):
        chosen = _chosen(policies, strategies)
        source = open_capture(capture, kafka=kafka)
        where = _folder(Path(out).absolute())
        run = ReplayRun(_run_id(), where, started, chosen, selection, raw_commits)
    # Records in files are read by the workers: what Java then does is not worth compiling well.
    brief = source.table is None
    with jvm_watched(), ExitStack() as opened:
        _lodge(run, opened)
        with stages.stage("start Spark"):
            running = session(spark, brief=brief, master=master, conf=conf)
            started_spark = opened.enter_context(running)
            source = opened.enter_context(with_remote_files(started_spark, source))
        with workers_watched(run.out):
            done = run_jobs(started_spark, source, run, stages)
        with stages.stage("publish"), workers_watched(run.out):
            return _published(done, _head(source, run, started_spark.version), run, stages)


def _lodge(run: ReplayRun, opened: ExitStack) -> None:
    """Mark the run as being at work; clear up behind dead ones now, and behind this one at last.

    Before the session starts, so that its end comes first: until then tasks may still write.
    """
    opened.enter_context(lodged(run.out, run.id))
    for dead in clear_the_dead(run.out):
        forget(run.out, dead)
        if not published(run.out, dead):
            discard(run.out, dead)
    opened.push(partial(_clear_up, run))


def _published(done: Done, head: dict[str, Any], run: ReplayRun, stages: Stages) -> Summary:
    """Make the run visible; its summary."""
    found = summarised(done)
    done.receipts.append(_run_row(run, head, found))
    summary = {**head, "seconds": dict(stages.seconds), **found}
    publish(run.out, run.id, done.receipts, summary)
    return summary


def _clear_up(run: ReplayRun, kind: object, *_: object) -> None:
    """What a failed run has written is of no use to anybody; histories are of use to no one."""
    if kind is None:
        forget(run.out, run.id)
    else:
        _remove(run.out, run.id)


def _remove(out: Path, run_id: str) -> None:
    forget(out, run_id)
    discard(out, run_id)


def _chosen(
    policies: Sequence[str | Policy | Strategy] | None,
    strategies: Sequence[str | Strategy] | None,
) -> tuple[Policy, ...]:
    """Known names before anything heavy starts: a misspelt one is an error at once."""
    if policies is None and strategies is None:
        return default_policies()
    asked = [Policy.of(one) for one in [*(policies or ()), *(strategies or ())]]
    return tuple({one.name: one for one in asked}.values())


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


def _head(source: Capture, run: ReplayRun, spark_version: str) -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "run_id": run.id,
        "capture": str(source.folder),
        **({"selection": run.selection.told()} if not run.selection.everything else {}),
        **({"notes": list(source.notes)} if source.notes else {}),
        "started_ms": run.started_ms,
        "versions": {
            "partage": partage.__version__,
            "python": platform.python_version(),
            "spark": spark_version,
            "pyarrow": version("pyarrow"),
        },
        "asked": [one.name for one in run.policies],
    }


def _run_row(run: ReplayRun, head: dict[str, Any], summary: Summary) -> Receipt:
    """The one row of table ``runs``."""
    accounting = summary["accounting"]
    with TableWriters(str(run.out), run.id, "driver") as writers:
        writers.add("runs", {
            "capture": head["capture"], "started_ms": head["started_ms"], "ended_ms": _now_ms(),
            "partage": partage.__version__, "records": accounting["records"],
            "decoded": accounting["decoded"], "bad": accounting["bad"],
            "settings": json.dumps({"policies": head["asked"], **head["versions"]}),
            "coverage": json.dumps(summary["coverage"]),
        })  # fmt: skip
        return writers.finish()[0]
