"""From an output folder to its page: the one call that commands need."""

from __future__ import annotations

from pathlib import Path

from partage.report.data import run_of
from partage.report.details import details
from partage.report.html import write_page
from partage.report.run import Run
from partage.runs.published_run import PublishedRun

__all__ = ["publish_page"]


def publish_page(out: str | Path, page: Path, run: str | None = None) -> Run:
    """Write the page of a published run, single groups included.

    Args:
        out: the output folder.
        page: of the page to write.
        run: the id of an earlier run; None takes the newest.

    Returns:
        The run, for whoever has more to say about it.

    Raises:
        InvalidCaptureError: there is no such run, or one of its files cannot be read.
        MissingExtraError: jinja2 or pyarrow is not installed.
        OSError: the page cannot be written.
    """
    folder = PublishedRun(out, run)
    found = run_of(folder)
    write_page(found, page, details(folder, found))
    return found
