"""Progress of a stage: Spark's own count of tasks, asked a few times a second."""

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
#: Besides stages there are `COUNTS`, told once with what was counted.
Progress = Callable[[str, int, int], None]

COUNTS = ("records", "rebalances")

_SECONDS_BETWEEN = 0.2
#: What `setJobGroup` sets.
_JOB_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class Stages:
    """Names, times and progress of the stages of a run.

    Attributes:
        seconds: stage -> how long it took, in the order run.
        counts: what is known by now: ``records`` decoded, ``rebalances`` found.
    """

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress or _silent
        self.seconds: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    def counted(self, what: str, number: int) -> None:
        """Something is known now; told as a stage of that name that is over."""
        self.counts[what] = number
        self._progress(what, number, number)

    def reached(self, name: str, done: int, total: int) -> None:
        """So many parts of a stage that Spark does not count are done."""
        self._progress(name, done, total)

    @contextmanager
    def stage(self, name: str, spark: SparkSession | None = None) -> Iterator[None]:
        """One stage; with ``spark``, the tasks of the jobs that start in it are counted."""
        began = monotonic()
        self._progress(name, 0, 0)
        over = Event()
        thread = None
        if spark is not None:
            group = f"partage {name}"
            spark.sparkContext.setJobGroup(group, f"Partage: {name}", interruptOnCancel=True)
            if self._progress is not _silent:  # to ask takes the JVM a percent of a core
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
                for name_of in _JOB_GROUP:  # the user's own jobs are none of ours
                    spark.sparkContext.setLocalProperty(name_of, None)  # type: ignore[arg-type]  # clears it
            self.seconds[name] = round(monotonic() - began, 3)
        self._progress(name, 1, 1)

    def _watch(self, name: str, spark: SparkSession, group: str, over: Event) -> None:
        told = (0, 0)
        # A JVM that is gone is told of by the call that waits for it, not by this thread: what
        # Py4J raises here then depends on where it is caught (an AttributeError at times).
        with suppress(Exception):
            while not over.wait(_SECONDS_BETWEEN):
                done, total = _tasks(spark, group)
                if total and (done, total) != told:
                    told = (done, total)
                    self._progress(name, done, total)


def _tasks(spark: SparkSession, group: str) -> tuple[int, int]:
    """Tasks completed, and all, of a group's jobs."""
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
    """Nobody wants to know."""
