"""`partage report`: a page, a terminal's text, or JSON of a published run."""

from __future__ import annotations

import json
import webbrowser

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")

from tests.support.published import NASTY
from tests.support.synthetic_runs import published_run, synthetic
from typer.testing import CliRunner

from partage.cli.app import app


def run(*arguments: str):
    return CliRunner().invoke(app, ["report", *arguments])


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    rows = synthetic(3)
    for table in rows.values():
        for row in table:
            if row["group"] == "team-01.service-0001":
                row["group"] = NASTY
    return published_run(tmp_path_factory.mktemp("run") / "out", rows)


def test_the_page_goes_into_the_runs_folder(out, monkeypatch) -> None:
    """Without --out it is DIR/report.html; the command prints its path, and --open opens it."""
    seen = []
    monkeypatch.setattr(webbrowser, "open", seen.append)
    done = run(str(out), "--open")
    assert done.exit_code == 0, done.stderr
    page = out / "report.html"
    assert str(page) in done.stdout.replace("\n", "")
    assert seen == [page.absolute().as_uri()]
    assert "<!doctype html>" in page.read_text(encoding="utf-8")


def test_json_is_one_documented_object(out, tmp_path) -> None:
    """Format and version first; the same in a file; ranges, causes, advice and groups are there."""
    found = json.loads(run(str(out), "--format", "json").stdout)
    assert (found["format"], found["version"]) == ("partage-report", 2)
    assert found["lost_partition_seconds"]["low"] < found["lost_partition_seconds"]["high"]
    assert {g["name"] for g in found["groups"]} >= {NASTY}
    assert found["groups"][0]["advice"][0]["lines"]
    assert sum(c["rebalances"] for c in found["causes"]) == 24
    assert run(str(out), "--format", "json", "-o", str(tmp_path / "r.json")).exit_code == 0
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8")) == found


def test_the_terminal_says_the_same_in_short(out, tmp_path) -> None:
    """Cost, groups, causes, lines to change and policies; to a file as well."""
    text = run(str(out), "--format", "terminal").stdout
    for words in ("coverage", "Rebalances caused", "group.protocol=consumer", NASTY,
                  "cooperative/cooperative-sticky", "expected gain"):  # fmt: skip
        assert words in text, words
    assert run(str(out), "--format", "terminal", "-o", str(tmp_path / "r.txt")).exit_code == 0
    assert "group.protocol=consumer" in (tmp_path / "r.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--run", "nope"], "no run 'nope'"),
        (["--format", "json", "--open"], "only a page can be opened"),
        (["--out", "no/such/folder/r.html"], "cannot be written"),
        (["--format", "json", "--out", "no/such/folder/r.json"], "cannot be written"),
        (["--format", "terminal", "--out", "no/such/folder/r.txt"], "cannot be written"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(out, arguments, said) -> None:
    """Exit code 1, one line on stderr, no traceback."""
    done = run(str(out), *arguments)
    assert done.exit_code == 1
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_folder_without_a_run_is_said(tmp_path) -> None:
    """What is missing, and what to do."""
    done = run(str(tmp_path))
    assert done.exit_code == 1
    assert "partage replay" in done.stderr
