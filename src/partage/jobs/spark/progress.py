"""Progress of a run's stages, by Spark's number of finished tasks, and its display in Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["COUNTS", "STAGES", "Progress", "ProgressLine", "StageTimes", "shown_progress"]

#: (stage, done, total): tasks of a stage; total is 0 while it is not known, and (1, 1) ends it.
#: Besides stages there are `COUNTS`, each reported once with its total.
Progress = Callable[[str, int, int], None]

COUNTS = ("records", "rebalances")
#: Stage of a replay -> its text in progress displays.
STAGES: Mapping[str, str] = {
    "check": "checking the capture",
    "start Spark": "starting Spark in this process",
    "decode": "decoding records",
    "histories": "rebuilding histories",
    "bad records": "collecting records that could not be decoded",
    "replay": "simulating rebalances under other policies",
    "publish": "publishing tables",
    "report": "writing the report",
    "download": "downloading the last run",
    "upload": "uploading the run",
    "tables": "appending to the tables",
}

_SECONDS_BETWEEN = 0.2
#: What `setJobGroup` sets.
_JOB_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class StageTimes:
    """Timer and progress reporter for the stages of a run, such as decoding records.

    Attributes:
        seconds: dict from stage to its duration in seconds, in the order in which stages ran.
        counts: totals known so far: ``records`` decoded, ``rebalances`` found.
    """

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress or _ignore_progress
        self.seconds: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    def report_count(self, name: str, total: int) -> None:
        """Report a total, such as the number of decoded records, before the run ends.

        Args:
            name: ``records`` or ``rebalances``.
            total: the number.
        """
        # The progress function sees it as a finished stage.
        self.counts[name] = total
        self._progress(name, total, total)

    def report_progress(self, name: str, done: int, total: int) -> None:
        """Report how many parts of a stage are finished, for the progress display.

        Args:
            name: name of the stage.
            done: number of finished parts.
            total: number of all parts.
        """
        self._progress(name, done, total)

    @contextmanager
    def measure_stage(self, name: str, spark: SparkSession | None = None) -> Iterator[None]:
        """Measure how long the ``with`` block takes, and report it as a stage of the run.

        If a Spark session is given, the number of finished Spark tasks is reported too while the
        block runs. Ctrl-C cancels these tasks.

        Args:
            name: name of the stage.
            spark: the session that runs the stage; None if Spark does not run it.
        """
        began = monotonic()
        self._progress(name, 0, 0)
        over = Event()
        thread = None
        if spark is not None:
            group = f"partage {name}"
            spark.sparkContext.setJobGroup(group, f"Partage: {name}", interruptOnCancel=True)
            if self._progress is not _ignore_progress:  # polling takes a percent of a core
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


class ProgressLine:
    r"""Progress of a run on one line of the terminal, which each update overwrites.

    An instance is a progress function: call it with (stage, done, total), then call `finish_line`.

    Args:
        stream: text stream to which the line is written.

    >>> import io
    >>> line = ProgressLine(io.StringIO())
    >>> line("decode", 0, 0), line("decode", 3, 8), line.finish_line()
    (None, None, None)
    >>> line.stream.getvalue().split("\r")[1]
    'decoding records (0 s)'
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._began = monotonic()
        self._next = 0.0
        self._stage = ""
        self._width = 0
        self._counts: dict[str, int] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show the current stage of the run, and how many of its parts are done.

        The line is updated at most five times a second.
        """
        now = monotonic()
        if stage in COUNTS:
            self._counts[stage] = done
        elif stage != self._stage or (now >= self._next and total > 1):
            self._stage, self._next = stage, now + _SECONDS_BETWEEN
            parts = f": {done:,} of {total:,} parts" if total > 1 else ""
            self._write(f"{STAGES.get(stage, stage)}{parts} ({now - self._began:.0f} s)")

    def finish_line(self, error: BaseException | None = None) -> None:
        """End the progress line with a summary of the run: its counts and its duration.

        If ``error`` is given, the line says in which stage the error occurred.
        """
        seconds = f"{monotonic() - self._began:.0f} s"
        counts = ", ".join(f"{count:,} {what}" for what, count in self._counts.items())
        if error is None:
            self._write(f"replayed {counts or 'nothing'} in {seconds}\n")
        else:
            self._write(f"stopped while {STAGES.get(self._stage, 'starting')} after {seconds}\n")

    def _write(self, text: str) -> None:
        self.stream.write("\r" + text.rstrip("\n").ljust(self._width) + "\n" * text.endswith("\n"))
        self.stream.flush()
        self._width = len(text)


class _NotebookLine(ProgressLine):
    """Progress of a run as one output of a notebook cell, which each update replaces.

    It shows the same text as the line in a terminal.
    """

    def __init__(self) -> None:
        super().__init__(sys.stdout)
        self._output: Any = None

    def _write(self, text: str) -> None:
        data = {"text/plain": text.rstrip("\n")}
        if self._output is None:
            display = import_module("IPython.display").display
            self._output = display(data, raw=True, display_id=True)
        else:
            self._output.update(data, raw=True)


@contextmanager
def shown_progress(wanted: Progress | bool | None) -> Iterator[Progress | None]:  # noqa: FBT001 - a setting of three kinds
    """Show the progress of a job during the ``with`` block, and yield the function that updates it.

    The progress is one line on stderr, or an output of a notebook cell.

    Args:
        wanted: whether to show it; None shows it only in an interactive session (a Python prompt,
            IPython or a notebook). A progress function of the caller is yielded unchanged.
    """
    is_interactive = hasattr(sys, "ps1")  # IPython sets it too
    if callable(wanted) or not (is_interactive if wanted is None else wanted):
        yield wanted if callable(wanted) else None
        return
    is_notebook = is_interactive and "IPython" in sys.modules and not sys.stderr.isatty()
    line = _NotebookLine() if is_notebook else ProgressLine(sys.stderr)
    try:
        yield line
    except BaseException as e:
        line.finish_line(e)
        raise
    line.finish_line()


def _ignore_progress(stage: str, done: int, total: int) -> None:
    """Do nothing with a progress report; used if the caller gives no progress function."""
