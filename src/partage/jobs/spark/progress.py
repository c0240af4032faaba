"""Progress of a run's stages, by Spark's number of finished tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["COUNTS", "Progress", "Stages"]

#: (stage, done, total): tasks of a stage; total is 0 while it is not known, and (1, 1) ends it.
#: Besides stages there are `COUNTS`, each reported once with its total.
Progress = Callable[[str, int, int], None]

COUNTS = ("records", "rebalances")

_SECONDS_BETWEEN = 0.2
#: What `setJobGroup` sets.
_JOB_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class Stages:
    """Measures how long each stage of a run takes, and reports its progress.

    Attributes:
        seconds: dict from stage to its duration in seconds, in the order in which stages ran.
        counts: totals known so far: ``records`` decoded, ``rebalances`` found.
    """

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress or _silent
        self.seconds: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    def counted(self, what: str, number: int) -> None:
        """Report a total that is now known, as a finished stage.

        ``what`` is its name, such as ``records``; ``number`` is the total.
        """
        self.counts[what] = number
        self._progress(what, number, number)

    def reached(self, name: str, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` parts of a stage outside of Spark are finished."""
        self._progress(name, done, total)

    @contextmanager
    def stage(self, name: str, spark: SparkSession | None = None) -> Iterator[None]:
        """Measure how long the ``with`` block takes, and report the start of the stage.

        With ``spark``, the numbers of finished and of all Spark tasks are reported too.
        """
        began = monotonic()
        self._progress(name, 0, 0)
        over = Event()
        thread = None
        if spark is not None:
            group = f"partage {name}"
            spark.sparkContext.setJobGroup(group, f"Partage: {name}", interruptOnCancel=True)
            if self._progress is not _silent:  # polling takes a percent of a core
                thread = Thread(target=self._watch, args=(name, spark, group, over), daemon=True)
                thread.start()
        try:
            yield
        except KeyboardInterrupt:
            if spark is not None:
                spark.sparkContext.cancelJobGroup(f"partage {name}")
            raise
        finally:
            over.set()
            if thread is not None:
                thread.join()
            if spark is not None:
                for name_of in _JOB_GROUP:  # later jobs of the user's session are not ours
                    spark.sparkContext.setLocalProperty(name_of, None)  # type: ignore[arg-type]  # clears it
            self.seconds[name] = round(monotonic() - began, 3)
        self._progress(name, 1, 1)

    def _watch(self, name: str, spark: SparkSession, group: str, over: Event) -> None:
        reported = (0, 0)
        # The thread that waits for the job reports a dead JVM. What Py4J raises here depends on
        # where it is caught (an AttributeError at times).
        with suppress(Exception):
            while not over.wait(_SECONDS_BETWEEN):
                done, total = _tasks(spark, group)
                if total and (done, total) != reported:
                    reported = (done, total)
                    self._progress(name, done, total)


def _tasks(spark: SparkSession, group: str) -> tuple[int, int]:
    tracker = spark.sparkContext.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            tasks = tracker.getStageInfo(stage)
            if tasks is not None:
                done += tasks.numCompletedTasks
                total += tasks.numTasks
    return done, total


def _silent(stage: str, done: int, total: int) -> None:
    """Accept a progress report and do nothing."""
