"""`partage replay` and `partage demo`: what they leave behind, and what they refuse at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import webbrowser

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")

from tests.support.captured import SAMPLE
from tests.support.captures import capture, records
from tests.support.published import published, replayed, tables
from typer.testing import CliRunner

from partage.cli.app import app
from partage.cli.replay import sample_folder
from partage.runs.published_run import PublishedRun, read_table
from partage.tables.statuses import DONE, FAILED


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("command", [["replay", str(SAMPLE)], ["demo"]])
def test_a_foreign_folder_is_left_alone(tmp_path, command) -> None:
    """A folder with something else in it, or a file: nothing is written, exit code 1."""
    (tmp_path / "thesis.txt").write_text("mine")
    done = run(*command, "--out", str(tmp_path))
    assert done.exit_code == 1
    assert "earlier output of Partage" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]
    done = run(*command, "--out", str(tmp_path / "thesis.txt"))
    assert done.exit_code == 1
    assert "must be a folder" in done.stderr


def test_a_full_disk_is_an_error_of_the_option(tmp_path, monkeypatch) -> None:
    """The message has the name that the command line has, not that of a function."""
    from partage.errors import InvalidConfigError
    from partage.jobs.replay import replay

    def full(_, out, **__):
        raise InvalidConfigError("out", "cannot be written (File too large)", str(out))

    monkeypatch.setattr(replay, "replay", full)
    done = run("replay", str(SAMPLE), "--out", str(tmp_path / "out"))
    assert done.exit_code == 1
    assert "partage: --out: cannot be written (File too large)" in done.stderr


@pytest.mark.parametrize(("flag", "times"), [("--open", 1), ("--no-open", 0), (None, 0)])
@pytest.mark.parametrize("command", [["replay", str(SAMPLE)], ["demo"]])
def test_the_page_is_opened_if_wished(tmp_path, monkeypatch, command, flag, times) -> None:
    """--open opens the page in a browser; a pipe without a wish never does. The path is printed."""
    from partage.jobs.replay import replay

    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(replay, "replay", lambda _, out, **__: PublishedRun(published(out)).summary)
    out = tmp_path / "out"
    done = run(*command, "--out", str(out), *([flag] if flag else []))
    assert done.exit_code == 0, done.stderr
    assert opened == [(out / "report.html").as_uri()] * times
    assert f"report   {out / 'report.html'}" in done.stdout
    assert (out / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("strategy", "code"), [("fair", 3), ("recorded", 0)], ids=["a plan of ours", "the record"]
)
def test_a_plan_that_fails_the_judge_is_exit_code_3(tmp_path, monkeypatch, strategy, code) -> None:
    """A strategy's breach ends the command with 3, all being written; the record's own does not."""
    from partage.jobs.replay import replay

    rows = tables()
    rows["replays"].append(replayed("orders", 9, strategy, breaches=2, avoidable=None))
    monkeypatch.setattr(
        replay, "replay", lambda _, out, **__: PublishedRun(published(out, rows)).summary
    )
    out = tmp_path / "out"
    done = run("replay", str(SAMPLE), "--out", str(out))
    assert done.exit_code == code, done.stderr
    assert ("judge: fair breaks the rules in 1 of 5 plans" in done.stderr) == bool(code)
    assert (out / "report.html").is_file()
    assert f"report   {out / 'report.html'}" in done.stdout


PLUG_IN = """
import partage as pg
from partage.groups import registry
from partage.groups.api import PlainStrategy


class Raises(PlainStrategy):
    name = "acme:raises"

    def assign(self, problem, memory=None):
        if len(problem.group) > 1:
            raise LookupError("no such <b>member</b>")
        return registry.find("range").assign(problem)


class Forgets(PlainStrategy):
    name = "acme:forgets"

    def assign(self, problem, memory=None):
        return pg.Plan.of(problem.index, {member: {} for member in problem.group.ids})
"""
ENTRY_POINTS = """[partage.strategies]
acme:raises = acme_strategies:Raises
acme:forgets = acme_strategies:Forgets
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.soak])]
)
def test_an_installed_plug_in_that_breaks_costs_nobody_else(tmp_path, engine) -> None:
    """One plug-in raises, one forgets every partition: these rebalances failed, and exit code 3."""
    site = tmp_path / "site"
    (site / "acme-1.0.dist-info").mkdir(parents=True)
    (site / "acme-1.0.dist-info" / "METADATA").write_text("Name: acme\nVersion: 1.0\n")
    (site / "acme-1.0.dist-info" / "entry_points.txt").write_text(ENTRY_POINTS)
    (site / "acme_strategies.py").write_text(PLUG_IN)
    source = str(capture(tmp_path / "capture", records().slice(0, 6_000)))
    out = tmp_path / "out"
    names = ("acme:raises", "acme:forgets", "range")
    chosen = ["--engine", engine, *(part for name in names for part in ("-s", name))]
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "partage", "replay", source, "--out", str(out), *chosen],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path, "COLUMNS": "80"},
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "judge: eager/acme:forgets breaks the rules" in done.stderr
    assert "acme:raises breaks" not in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert re.search(
        r"acme:raises in \d+ of \d+ rebalances: LookupError: no such <b>member", done.stdout
    ), done.stdout
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "LookupError: no such &lt;b&gt;member&lt;/b&gt;" in page
    rows = read_table(out, "replays").to_pylist()
    by_status = {n: {r["status"] for r in rows if r["strategy"] == n} for n in names}
    assert by_status == {names[0]: {DONE, FAILED}, names[1]: {DONE}, names[2]: {DONE}}
    reasons = {one["why"] for one in PublishedRun(out).summary["failures"]}
    assert reasons == {r["detail"] for r in rows if r["status"] == FAILED}
    assert all(r["breaches"] == 0 for r in rows if r["strategy"] == "range")


def test_what_is_misspelt_is_said_before_spark_starts(tmp_path) -> None:
    """An unknown strategy, a missing capture: one line, within a second or two."""
    out = str(tmp_path / "out")
    done = run("replay", str(SAMPLE), "--out", out, "-s", "rnage")
    assert done.exit_code == 1
    assert "did you mean range" in done.stderr
    done = run("replay", str(tmp_path / "none"), "--out", out)
    assert done.exit_code == 1
    assert "none: no such folder" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_earlier_output_of_ours_is_taken(tmp_path) -> None:
    """A folder with a published run is not refused: the next error is about the capture."""
    published(tmp_path / "out")
    done = run("replay", str(tmp_path / "none"), "--out", str(tmp_path / "out"))
    assert "no such folder" in done.stderr


def test_the_sample_ships() -> None:
    """`partage demo` has its recording beside it, with its README."""
    names = {path.name for path in sample_folder().iterdir()}
    assert {"consumer_offsets.parquet", "cluster.jsonl", "batches.parquet", "README.md"} <= names
