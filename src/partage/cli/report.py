"""`partage report`: show a replayed run as an HTML page, on the terminal, or as JSON."""

from __future__ import annotations

import webbrowser
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from partage.cli.console import json_bytes, print_tables, stdout_console, styled_name, write_json
from partage.cli.options import (
    AsJson,
    OpenPage,
    RunId,
    SparkOptions,
    output_option,
    with_options,
)
from partage.errors import InvalidConfigError

__all__ = ["report"]

REPORT = "report.html"


class ReportFormat(str, Enum):
    """Values of the option ``--format`` of ``partage report``.

    The report is an HTML page, tables on the terminal, or JSON.
    """

    html = "html"
    terminal = "terminal"
    json = "json"


@with_options
def report(
    folder: Annotated[
        str,
        typer.Argument(metavar="DIR", help="Output folder of partage replay; or its address."),
    ],
    *,
    form: Annotated[
        ReportFormat,
        # `json` stays accepted: it was the only way before --json.
        typer.Option("--format", metavar="html|terminal", help="Output format."),
    ] = ReportFormat.html,
    as_json: AsJson = False,
    to: Annotated[
        Path | None,
        output_option("File; without it the page goes to DIR/report.html.", "FILE"),
    ] = None,
    run: RunId = None,
    spark: SparkOptions,
    open_it: OpenPage = False,
) -> None:
    """Show the report of a replay: the costs of rebalances, their causes, and what to change.

    The page is one file that loads nothing from anywhere: it can be mailed, printed and
    archived. `--json` has the same content for programs; docs/report_json.md describes it.

        partage report demo-out --open

        partage report demo-out --format terminal

        partage report demo-out --json | jq '.groups[0].advice'
    """
    if as_json:
        form = ReportFormat.json
    if open_it and form is not ReportFormat.html:
        given = "--json" if as_json else f"--format {form.value}"
        raise InvalidConfigError("--open", "only a page can be opened", given)
    if "://" in folder:
        _report_remote(form, folder, to, run, spark, open_it=open_it)
    else:
        _write_report(form, Path(folder), to, run, open_it=open_it)


def _report_remote(
    form: ReportFormat,
    address: str,
    to: Path | None,
    run: str | None,
    spark: SparkOptions,
    *,
    open_it: bool,
) -> None:
    """Show the report of a run at a remote address; without ``--out``, upload the page to it."""
    from partage.jobs.replay.remote_output import downloaded_run
    from partage.report.html import publish_page

    if open_it and to is None:
        raise InvalidConfigError("--open", "needs --out: only a local page can be opened", address)
    conf = spark.spark_settings_by_name()
    with downloaded_run(address, run, master=spark.master, conf=conf) as output:
        if form is not ReportFormat.html or to is not None:
            _write_report(form, output.folder, to, run, open_it=open_it)
            return
        publish_page(output.folder, output.folder / REPORT, run)
        output.publish_page(output.folder / REPORT)
    shown = f"report   {address.rstrip('/')}/{REPORT}"
    stdout_console().print(styled_name(shown, "bold"), soft_wrap=True)


def _write_report(
    form: ReportFormat, folder: Path, to: Path | None, run: str | None, *, open_it: bool
) -> None:
    if form is ReportFormat.html:
        _page(folder, to or folder / REPORT, run, open_it=open_it)
    elif form is ReportFormat.json:
        _json(folder, to, run)
    else:
        _terminal(folder, to, run)


def _page(folder: Path, page: Path, run: str | None, *, open_it: bool) -> None:
    from partage.report.html import publish_page

    try:
        publish_page(folder, page, run)
    except OSError as e:
        raise _unwritable(page, e) from None
    stdout_console().print(styled_name(f"report   {page}", "bold"), soft_wrap=True)
    if open_it:
        webbrowser.open(page.absolute().as_uri())


def _json(folder: Path, to: Path | None, run: str | None) -> None:
    from partage.report.data import read_run
    from partage.report.json_document import json_document

    found = json_document(read_run(folder, run))
    if to is None:
        write_json(found)
        return
    try:
        to.write_bytes(json_bytes(found) + b"\n")
    except OSError as e:
        raise _unwritable(to, e) from None


def _terminal(folder: Path, to: Path | None, run: str | None) -> None:
    from rich.console import Console

    from partage.report.data import read_run
    from partage.report.terminal import terminal_summary

    parts = list(terminal_summary(read_run(folder, run)))
    if to is None:
        print_tables(*parts)
        return
    try:
        with to.open("w", encoding="utf-8", errors="backslashreplace") as file:
            console = Console(file=file, width=120, highlight=False, emoji=False, markup=False)
            for part in parts:
                console.print(part)
    except OSError as e:
        raise _unwritable(to, e) from None


def _unwritable(path: Path, error: OSError) -> InvalidConfigError:
    what = f"the report cannot be written ({error.strerror or error})"
    return InvalidConfigError("--out", what, str(path))
